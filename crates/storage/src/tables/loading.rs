//! Loads leaves from the cold store.

use placement::tables::TablesError;

use super::cold::{ColdEntry, ColdStore};
use super::leaf::{Entry, EntryMark, LEAF_BYTES};
use super::{Inner, SWEEP_STEPS_LOADING};

impl Inner {
    /// Loads entries from `start` on, about one leaf of them, so that the leaf that covers
    /// `start` afterwards is loaded.
    pub(super) fn load_from(
        &mut self,
        cold: &ColdStore,
        table: u64,
        start: &[u8],
    ) -> Result<(), TablesError> {
        let directory = &self.tables[&table].directory;
        let mut place = directory.find(start);
        let upper = directory.upper(place).map(<[u8]>::to_vec);
        let mut entries = cold.range(table, start, upper.as_deref());
        let (loaded, next) = take_leaf(&mut entries)?;
        if directory.lower(place) < start {
            self.split(table, place, start);
            place = self.tables[&table].directory.find(start);
        }
        if let Some(next) = next {
            self.split(table, place, &next);
        }
        self.fill(table, start, loaded);
        Ok(())
    }

    /// Loads a leaf as [`Inner::load_from`] does, with the entries below `end`.
    pub(super) fn load_before(
        &mut self,
        cold: &ColdStore,
        table: u64,
        end: Option<&[u8]>,
    ) -> Result<(), TablesError> {
        let directory = &self.tables[&table].directory;
        let place = directory.find_before(end);
        let lower = directory.lower(place).to_vec();
        // The caller's end lies in the range or is its own end.
        let within = end.filter(|end| directory.upper(place) != Some(*end));
        let mut entries = cold.range(table, &lower, end).rev();
        let (loaded, before) = take_leaf(&mut entries)?;
        if let Some(end) = within {
            self.split(table, place, end);
        }
        let mut first = lower;
        if before.is_some() {
            let (key, _) = loaded.last().expect("a leaf takes one entry at least");
            first.clone_from(key);
            let place = self.tables[&table].directory.find(&first);
            if self.tables[&table].directory.lower(place) < &*first {
                self.split(table, place, &first);
            }
        }
        self.fill(table, &first, loaded);
        Ok(())
    }

    /// Puts the cold store's entries of a whole range under those of memory.
    fn fill(&mut self, table: u64, key: &[u8], loaded: Vec<ColdEntry>) {
        let place = self.tables[&table].directory.find(key);
        let id = self.tables[&table].directory.leaf(place);
        let mark = EntryMark {
            generation: 0,
            tombstone: false,
        };
        self.change(id, |leaf| {
            for (key, value) in &loaded {
                leaf.put_if_absent(Entry { key, value, mark });
            }
        });
        self.ranges[id as usize].loaded = true;
        if self.memory_bytes > self.memory_bytes_max {
            // The leaf that was just filled stays: it counts as touched.
            self.ranges[id as usize].touched.set(true);
            self.sweep(SWEEP_STEPS_LOADING);
        }
    }
}

/// Takes entries until they fill a leaf; also the key of the first one not taken.
fn take_leaf(
    entries: &mut dyn Iterator<Item = Result<ColdEntry, TablesError>>,
) -> Result<(Vec<ColdEntry>, Option<Vec<u8>>), TablesError> {
    let (mut taken, mut bytes) = (vec![], 0);
    for entry in entries {
        let (key, value) = entry?;
        if bytes > LEAF_BYTES * 3 / 4 {
            return Ok((taken, Some(key)));
        }
        bytes += key.len() + value.len();
        taken.push((key, value));
    }
    Ok((taken, None))
}
