//! The tables of a configuration, shared between its versions.
//!
//! A change of one table makes a new configuration in the coordinator, in each core and in each
//! client. With thousands of tables none of them may copy, compare or walk all. The tables are
//! therefore kept in short runs behind shared pointers: a clone copies the pointers to the runs, a
//! change copies one run, and a comparison passes over the runs that both sides share. The newest
//! epoch in a run, and whether all of it is settled, are needed again and again: they are computed
//! once for each version of the run.
//!
//! Tables are found by id and by name. The id never changes while the table exists, and the name
//! only by [`PlacedTables::put`].

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Index, IndexMut};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::{PartitionState, Place, PlacedTable};
use crate::codec::{DecodeError, Reader, Wire};
use crate::identity::{Epoch, TableId};

/// The most tables of one run. A change copies the pointers of one run, and the pointers to all
/// runs.
const RUN_MAX: usize = 64;
/// No epoch: the run has not been looked through.
const NOT_COMPUTED: u64 = u64::MAX;

/// Tables by id, rising. Cloning them costs a pointer for each run.
#[derive(Clone, Default)]
pub struct PlacedTables {
    /// None is empty.
    runs: Vec<Arc<Run>>,
    count: usize,
}

/// Some tables whose ids follow each other.
struct Run {
    tables: Vec<Arc<PlacedTable>>,
    /// A checksum of each one's name, so that a search by name reads little memory.
    names: Vec<u32>,
    /// The newest epoch of a table here, or [`NOT_COMPUTED`].
    newest: AtomicU64,
    /// A [`Rest`].
    rest: AtomicU8,
}

/// Whether some table of a run has a change in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Rest {
    NotComputed,
    Settled,
    Unsettled,
}

impl Run {
    fn new(tables: Vec<Arc<PlacedTable>>) -> Run {
        let names = tables.iter().map(|it| checksum(&it.schema.name)).collect();
        Run {
            tables,
            names,
            newest: AtomicU64::new(NOT_COMPUTED),
            rest: AtomicU8::new(Rest::NotComputed as u8),
        }
    }

    fn first(&self) -> TableId {
        self.tables[0].id
    }

    /// Drops the computed summaries, because the caller changes tables.
    fn forget_computed(&mut self) {
        *self.newest.get_mut() = NOT_COMPUTED;
        *self.rest.get_mut() = Rest::NotComputed as u8;
    }

    fn newest(&self) -> Epoch {
        // Threads that compute it at once find the same.
        let known = self.newest.load(Ordering::Relaxed);
        if known != NOT_COMPUTED {
            return Epoch(known);
        }
        let newest = self.tables.iter().map(|table| table.epoch).max();
        let newest = newest.unwrap_or(Epoch(0));
        self.newest.store(newest.0, Ordering::Relaxed);
        newest
    }

    fn is_settled(&self) -> bool {
        let known = self.rest.load(Ordering::Relaxed);
        if known != Rest::NotComputed as u8 {
            return known == Rest::Settled as u8;
        }
        let is_settled = self.tables.iter().all(|table| table.is_settled());
        let rest = match is_settled {
            true => Rest::Settled,
            false => Rest::Unsettled,
        };
        self.rest.store(rest as u8, Ordering::Relaxed);
        is_settled
    }

    fn position(&self, id: TableId) -> Result<usize, usize> {
        self.tables.binary_search_by_key(&id, |table| table.id)
    }
}

impl Clone for Run {
    fn clone(&self) -> Run {
        Run {
            tables: self.tables.clone(),
            names: self.names.clone(),
            newest: AtomicU64::new(self.newest.load(Ordering::Relaxed)),
            rest: AtomicU8::new(self.rest.load(Ordering::Relaxed)),
        }
    }
}

impl PlacedTables {
    /// Returns the number of tables.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no tables.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns all tables by id, rising.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PlacedTable> + Clone {
        self.shared().map(|table| &**table)
    }

    /// Returns the tables as the shared pointers to them, in the order of their ids.
    pub fn shared(&self) -> impl DoubleEndedIterator<Item = &Arc<PlacedTable>> + Clone {
        self.runs.iter().flat_map(|run| &run.tables)
    }

    /// Returns all tables, to be changed. Nothing is shared with other configurations after that:
    /// for what concerns most tables only.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PlacedTable> {
        self.runs.iter_mut().flat_map(|run| {
            let run = Arc::make_mut(run);
            run.forget_computed();
            run.tables.iter_mut().map(Arc::make_mut)
        })
    }

    /// Returns the table with the highest id.
    pub fn last(&self) -> Option<&PlacedTable> {
        self.iter().next_back()
    }

    /// Returns the table with this id.
    pub fn get(&self, id: TableId) -> Option<&Arc<PlacedTable>> {
        let run = &self.runs[self.run_of(id)?];
        let position = run.position(id).ok()?;
        Some(&run.tables[position])
    }

    /// Returns the table with this id, to be changed, but for its id and name.
    pub fn get_mut(&mut self, id: TableId) -> Option<&mut PlacedTable> {
        let index = self.run_of(id)?;
        let position = self.runs[index].position(id).ok()?;
        Some(self.change(index, position))
    }

    /// Returns the table with this name.
    pub fn named(&self, name: &str) -> Option<&Arc<PlacedTable>> {
        let wanted = checksum(name);
        let found = self.runs.iter().flat_map(|run| {
            let names = run.names.iter().zip(&run.tables);
            let alike = names.filter(move |(checksum, _)| **checksum == wanted);
            alike.map(|(_, table)| table)
        });
        let mut found = found.filter(|table| table.schema.name == name);
        found.next()
    }

    /// Adds a table, or replaces the one with its id.
    pub fn put(&mut self, table: impl Into<Arc<PlacedTable>>) {
        let table = table.into();
        let Some(index) = self.run_of(table.id).or(self.runs.len().checked_sub(1)) else {
            return self.append_run(alloc::vec![table]);
        };
        let (is_last, run) = (index + 1 == self.runs.len(), &self.runs[index]);
        let found = run.position(table.id);
        if found.is_err() && run.tables.len() == RUN_MAX && is_last && found == Err(RUN_MAX) {
            // Ids rise with time: most runs stay full.
            return self.append_run(alloc::vec![table]);
        }
        let run = Arc::make_mut(&mut self.runs[index]);
        run.forget_computed();
        let name = checksum(&table.schema.name);
        match found {
            Ok(position) => {
                run.tables[position] = table;
                run.names[position] = name;
            }
            Err(position) => {
                run.tables.insert(position, table);
                run.names.insert(position, name);
                self.count += 1;
            }
        }
        if run.tables.len() > RUN_MAX {
            let second = Run::new(run.tables.split_off(RUN_MAX / 2));
            run.names.truncate(RUN_MAX / 2);
            self.runs.insert(index + 1, Arc::new(second));
        }
    }

    /// Removes the table with this id, and returns it.
    pub fn remove(&mut self, id: TableId) -> Option<Arc<PlacedTable>> {
        let index = self.run_of(id)?;
        let position = self.runs[index].position(id).ok()?;
        let run = Arc::make_mut(&mut self.runs[index]);
        run.forget_computed();
        run.names.remove(position);
        let removed = run.tables.remove(position);
        if run.tables.is_empty() {
            self.runs.remove(index);
        }
        self.count -= 1;
        Some(removed)
    }

    /// Returns the tables that changed after an epoch, by their own epochs.
    pub fn changed_after(&self, epoch: Epoch) -> impl Iterator<Item = &Arc<PlacedTable>> {
        let runs = self.runs.iter().filter(move |run| run.newest() > epoch);
        let tables = runs.flat_map(|run| &run.tables);
        tables.filter(move |table| table.epoch > epoch)
    }

    /// Returns the tables that are not settled ([`PlacedTable::is_settled`]).
    pub fn unsettled(&self) -> impl Iterator<Item = &PlacedTable> + Clone {
        let runs = self.runs.iter().filter(|run| !run.is_settled());
        let tables = runs.flat_map(|run| &run.tables);
        let unsettled = tables.filter(|table| !table.is_settled());
        unsettled.map(|table| &**table)
    }

    /// Returns the tables that these and the earlier ones do not share, each as it is here and as
    /// it was there, by id, rising. Tables that are equal in all parts can be among them.
    pub fn differing<'a>(
        &'a self,
        before: &'a PlacedTables,
    ) -> impl Iterator<Item = (Option<&'a Arc<PlacedTable>>, Option<&'a Arc<PlacedTable>>)> {
        let (mut now, mut then) = (Cursor::new(self), Cursor::new(before));
        core::iter::from_fn(move || {
            loop {
                if now.skip_shared(&mut then) {
                    continue;
                }
                let (one, other) = (now.table(), then.table());
                let one_first = match (one, other) {
                    (None, None) => return None,
                    (Some(one), Some(other)) => one.id.cmp(&other.id),
                    (Some(_), None) => core::cmp::Ordering::Less,
                    (None, Some(_)) => core::cmp::Ordering::Greater,
                };
                match one_first {
                    core::cmp::Ordering::Less => {
                        now.advance();
                        return Some((one, None));
                    }
                    core::cmp::Ordering::Greater => {
                        then.advance();
                        return Some((None, other));
                    }
                    core::cmp::Ordering::Equal => {
                        now.advance();
                        then.advance();
                        let pair = one.zip(other);
                        if !pair.is_some_and(|(one, other)| Arc::ptr_eq(one, other)) {
                            return Some((one, other));
                        }
                    }
                }
            }
        })
    }

    /// Returns whether every table is found by its name and is after the one before it.
    pub(super) fn is_in_order(&self) -> bool {
        let names = self.runs.iter().flat_map(|run| &run.names);
        let found = names.zip(self.iter());
        let mut found = found.map(|(name, table)| *name == checksum(&table.schema.name));
        found.all(|is_found| is_found) && self.iter().is_sorted_by(|a, b| a.id < b.id)
    }

    /// Returns the run that a table with this id is in or would be in; none before the first.
    fn run_of(&self, id: TableId) -> Option<usize> {
        let after = self.runs.partition_point(|run| run.first() <= id);
        match after {
            0 if self.runs.is_empty() => None,
            _ => Some(after.saturating_sub(1)),
        }
    }

    fn append_run(&mut self, tables: Vec<Arc<PlacedTable>>) {
        self.count += tables.len();
        self.runs.push(Arc::new(Run::new(tables)));
    }

    fn change(&mut self, run: usize, position: usize) -> &mut PlacedTable {
        let run = Arc::make_mut(&mut self.runs[run]);
        run.forget_computed();
        Arc::make_mut(&mut run.tables[position])
    }

    /// Returns the run and the position in it of the table at a position in all.
    fn locate(&self, mut index: usize) -> (usize, usize) {
        for (number, run) in self.runs.iter().enumerate() {
            match index.checked_sub(run.tables.len()) {
                None => return (number, index),
                Some(rest) => index = rest,
            }
        }
        panic!("there are {} tables", self.count);
    }
}

/// A position in the tables.
struct Cursor<'a> {
    runs: &'a [Arc<Run>],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn new(tables: &'a PlacedTables) -> Cursor<'a> {
        Cursor {
            runs: &tables.runs,
            position: 0,
        }
    }

    fn table(&self) -> Option<&'a Arc<PlacedTable>> {
        let run = self.runs.first()?;
        run.tables.get(self.position)
    }

    fn advance(&mut self) {
        self.position += 1;
        let run = self.runs.first().expect("it is at a table");
        if self.position == run.tables.len() {
            self.next_run();
        }
    }

    fn next_run(&mut self) {
        self.runs = &self.runs[1..];
        self.position = 0;
    }

    /// Passes over a run that both are at the beginning of; false if there is none.
    fn skip_shared(&mut self, other: &mut Cursor<'a>) -> bool {
        let (Some(one), Some(same)) = (self.runs.first(), other.runs.first()) else {
            return false;
        };
        let is_shared = self.position == 0 && other.position == 0 && Arc::ptr_eq(one, same);
        if is_shared {
            self.next_run();
            other.next_run();
        }
        is_shared
    }
}

impl PlacedTable {
    /// Returns whether no change of the table is in progress or waits: its chains are not blocked,
    /// all of its partitions serve, none moves or waits for a former holder, no copy is being made,
    /// and no range is transferred.
    pub fn is_settled(&self) -> bool {
        let is_settled = |place: &Place| {
            place.state == PartitionState::Serving
                && place.moving.is_none()
                && place.former.is_none()
        };
        let mut ranges = self.layout.replexes.iter().flat_map(|it| &it.ranges);
        self.sealing.is_none()
            && ranges.all(|ranges| ranges.transfers.is_empty())
            && self.building.is_empty()
            && self.placement.iter().flatten().all(is_settled)
    }
}

/// Returns the checksum by which a name is looked for first.
fn checksum(name: &str) -> u32 {
    crc32c::crc32c(name.as_bytes())
}

impl PartialEq for PlacedTables {
    fn eq(&self, other: &PlacedTables) -> bool {
        self.count == other.count && self.differing(other).all(|(one, other)| one == other)
    }
}

impl fmt::Debug for PlacedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Index<usize> for PlacedTables {
    type Output = PlacedTable;

    fn index(&self, index: usize) -> &PlacedTable {
        let (run, position) = self.locate(index);
        &self.runs[run].tables[position]
    }
}

impl IndexMut<usize> for PlacedTables {
    fn index_mut(&mut self, index: usize) -> &mut PlacedTable {
        let (run, position) = self.locate(index);
        self.change(run, position)
    }
}

/// In the order in which they come.
impl From<Vec<PlacedTable>> for PlacedTables {
    fn from(tables: Vec<PlacedTable>) -> PlacedTables {
        tables.into_iter().collect()
    }
}

impl FromIterator<PlacedTable> for PlacedTables {
    fn from_iter<T: IntoIterator<Item = PlacedTable>>(tables: T) -> PlacedTables {
        let mut made = PlacedTables::default();
        let mut run = Vec::new();
        for table in tables {
            run.push(Arc::new(table));
            if run.len() == RUN_MAX {
                made.append_run(core::mem::take(&mut run));
            }
        }
        if !run.is_empty() {
            made.append_run(run);
        }
        made
    }
}

impl Wire for PlacedTables {
    fn encode(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.count).expect("a frame is smaller than 4 GiB");
        count.encode(out);
        for table in self.iter() {
            table.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Vec::<PlacedTable>::decode(reader)?.into())
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;

    use super::*;
    use crate::configuration::Sealing;

    fn table(id: u32, epoch: u64) -> PlacedTable {
        let schema = placement::Schema {
            name: format!("t{id}"),
            columns: Vec::new(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
            further: Vec::new(),
            thin: Vec::new(),
            partitions: 1,
            failures_tolerated: 0,
            failures_wanted: 0,
            local_entries: false,
            durability: placement::Durability::Sync,
            primary_partition_columns: None,
            sequence: None,
            constraints: placement::TableConstraints::default(),
        };
        PlacedTable {
            id: TableId(id),
            epoch: Epoch(epoch),
            sealing: None,
            columns_since: Epoch(0),
            layout: placement::Layout {
                key_spaces: Vec::new(),
                replexes: Vec::new(),
                local_entries: false,
            },
            schema,
            placement: Vec::new(),
            building: Vec::new(),
            comments: placement::TableComments::default(),
        }
    }

    /// Puts, removes and changes tables in an order that differs from run to run of `step`, and
    /// compares all answers with those of an ordinary map.
    #[test]
    fn answers_as_a_map_does() {
        let (mut tables, mut map) = (PlacedTables::default(), BTreeMap::new());
        let mut number = 1_u64;
        for epoch in 1..4_000 {
            let before = (tables.clone(), map.clone());
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let id = (number >> 33) as u32 % 400;
            match (number >> 60) % 4 {
                0 => {
                    let removed = tables.remove(TableId(id));
                    assert_eq!(removed.as_deref(), map.remove(&id).as_ref());
                }
                1 => {
                    let sealing = Sealing {
                        since: Epoch(epoch),
                        removed: Vec::new(),
                        leaving: Vec::new(),
                    };
                    if let Some(table) = tables.get_mut(TableId(id)) {
                        table.sealing = Some(sealing.clone());
                    }
                    if let Some(table) = map.get_mut(&id) {
                        table.sealing = Some(sealing);
                    }
                }
                _ => {
                    tables.put(table(id, epoch));
                    map.insert(id, table(id, epoch));
                }
            }
            assert_eq!(tables.len(), map.len());
            assert!(tables.iter().eq(map.values()));
            assert!(tables.is_in_order());
            let found = tables.get(TableId(id)).map(|table| &**table);
            assert_eq!(found, map.get(&id));
            let found = tables.named(&format!("t{id}")).map(|table| &**table);
            assert_eq!(found, map.get(&id));
            assert!(before.0.iter().eq(before.1.values()), "a copy has changed");
            let differ = tables
                .differing(&before.0)
                .filter(|(one, other)| one != other);
            let differ: Vec<u32> = differ
                .map(|(one, other)| one.or(other).unwrap().id.0)
                .collect();
            let expected = (0..400).filter(|id| map.get(id) != before.1.get(id));
            assert!(differ.iter().copied().eq(expected));
            let late = tables.changed_after(Epoch(epoch.saturating_sub(50)));
            let expected = map
                .values()
                .filter(|it| it.epoch.0 > epoch.saturating_sub(50));
            assert!(late.map(|it| it.id).eq(expected.map(|it| it.id)));
            let unsettled = tables.unsettled().map(|it| it.id);
            assert!(unsettled.eq(map.values().filter(|it| !it.is_settled()).map(|it| it.id)));
        }
        let again = PlacedTables::decode_all(&tables.to_bytes()).expect("it was just encoded");
        assert_eq!(again, tables);
    }

    /// A change of one table of many leaves nearly all of them shared.
    #[test]
    fn change_copies_one_run() {
        let before: PlacedTables = (0..10_000).map(|id| table(id, 1)).collect();
        let mut after = before.clone();
        after.put(table(10_000, 2));
        after.get_mut(TableId(5_000)).expect("it is there").epoch = Epoch(2);
        after.remove(TableId(77));
        let differing: Vec<_> = after.differing(&before).collect();
        assert_eq!(differing.len(), 3);
        let shared = after
            .runs
            .iter()
            .filter(|run| before.runs.iter().any(|it| Arc::ptr_eq(it, run)));
        assert!(shared.count() + 3 >= after.runs.len());
    }
}
