//! Keeps rows that settled operations have replaced or removed, for as long as a snapshot needs
//! them.
//!
//! An inserted row needs no entry here, because its version shows that it is in no earlier
//! snapshot.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

use placement::tables::{Tables, TablesError};
use protocol::identity::{PartitionId, TableId, Version};

use crate::core::partition::rows::{KeyRange, stored_row};

/// Memory of one earlier row besides its bytes: its place in a map, a list, a length, a version.
const OVERHEAD_BYTES: usize = 200;
/// The core searches the history for unneeded rows once its size has doubled, and has grown by this
/// many bytes.
const GROWTH_BYTES: usize = 64 << 10;

/// A row as it was until some version.
#[derive(Debug)]
struct EarlierRow {
    /// The version that replaced or removed it.
    until: Version,
    /// As it was stored: its own version, then the row.
    value: Vec<u8>,
}

/// The earlier rows of one partition, by key; those of a key in the order of their versions.
type EarlierRows = BTreeMap<Vec<u8>, Vec<EarlierRow>>;

/// The versions at which a table is read, or may be read soon.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedVersions {
    /// T of each snapshot, ascending.
    pub of_snapshots: Vec<Version>,
    /// A snapshot is being opened, and its T is not known yet.
    pub is_held: bool,
}

impl WantedVersions {
    /// Returns whether a row must be kept that was written at `version`, and replaced or removed at
    /// `until`. It must if some snapshot's T is from `version` on and before `until`, or if a
    /// snapshot is being opened.
    pub fn want(&self, version: Version, until: Version) -> bool {
        let first = self.of_snapshots.partition_point(|at| *at < version);
        self.is_held || self.of_snapshots.get(first).is_some_and(|at| *at < until)
    }
}

/// The replaced and removed rows that a core keeps for snapshots.
#[derive(Debug, Default)]
pub(crate) struct History {
    partitions: BTreeMap<PartitionId, EarlierRows>,
    bytes: usize,
    /// How many bytes were left when it was trimmed last.
    bytes_trimmed: usize,
}

impl History {
    /// Returns the approximate memory of the history in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the history has grown so much that a search for unneeded rows is worthwhile.
    pub fn has_grown(&self) -> bool {
        self.bytes > 2 * self.bytes_trimmed + GROWTH_BYTES
    }

    /// Keeps a row that the operation with version `until` replaces or removes.
    pub fn keep(&mut self, id: PartitionId, key: &[u8], until: Version, value: &[u8]) {
        self.bytes += bytes_of(key, value);
        let rows = self.partitions.entry(id).or_default();
        rows.entry(key.to_vec()).or_default().push(EarlierRow {
            until,
            value: value.to_vec(),
        });
    }

    /// Drops the rows that no snapshot needs. Returns the table with most of the remaining rows.
    pub fn trim(&mut self, wanted: &BTreeMap<TableId, WantedVersions>) -> Option<TableId> {
        let mut bytes: BTreeMap<TableId, usize> = BTreeMap::new();
        self.partitions.retain(|id, rows| {
            let Some(wanted) = wanted.get(&id.table) else {
                return false;
            };
            let bytes = bytes.entry(id.table).or_default();
            rows.retain(|key, earlier| {
                earlier.retain(|row| wanted.want(stored_row(&row.value).0, row.until));
                let kept = earlier.iter().map(|row| bytes_of(key, &row.value));
                *bytes += kept.sum::<usize>();
                !earlier.is_empty()
            });
            !rows.is_empty()
        });
        self.bytes = bytes.values().sum();
        self.bytes_trimmed = self.bytes;
        let most = bytes.into_iter().max_by_key(|(_, bytes)| *bytes);
        most.map(|(table, _)| table)
    }

    /// Drops the rows of a table whose snapshots have ended.
    pub fn drop_table(&mut self, table: TableId) {
        let dropped = self.partitions.extract_if(.., |id, _| id.table == table);
        let rows = dropped.flat_map(|(_, rows)| rows);
        let bytes = rows.flat_map(|(key, earlier)| {
            let bytes = earlier
                .into_iter()
                .map(move |row| bytes_of(&key, &row.value));
            bytes.collect::<Vec<usize>>()
        });
        self.bytes -= bytes.sum::<usize>();
    }

    #[cfg(test)]
    pub fn has(&self, id: PartitionId, key: &[u8]) -> bool {
        let rows = self.partitions.get(&id);
        rows.is_some_and(|rows| rows.contains_key(key))
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = History::default();
    }

    /// Drops every second row, although snapshots need it: only a planted bug does.
    pub fn drop_half(&mut self) {
        for rows in self.partitions.values_mut() {
            let mut number = 0;
            rows.retain(|_, _| {
                number += 1;
                number % 2 == 0
            });
        }
        self.bytes /= 2;
    }

    /// Returns the rows of one partition at a version.
    pub fn at(&self, id: PartitionId, version: Version) -> RowsAt<'_> {
        RowsAt {
            version,
            earlier: self.partitions.get(&id),
        }
    }
}

fn bytes_of(key: &[u8], value: &[u8]) -> usize {
    OVERHEAD_BYTES + key.len() + value.len()
}

/// Visits a key with the row that it had at a version, if it had one.
pub(crate) type VersionVisitor<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> ControlFlow<()> + 'a;

/// The rows of one partition at a version.
#[derive(Clone, Copy)]
pub(crate) struct RowsAt<'a> {
    version: Version,
    earlier: Option<&'a EarlierRows>,
}

impl<'a> RowsAt<'a> {
    /// Visits the keys of a range in its direction, each with the row that it had at the version,
    /// until the visitor breaks. There can be many keys that had none.
    pub fn visit<T: Tables>(
        &self,
        id: PartitionId,
        range: KeyRange<'_>,
        tables: &T,
        visit: &mut VersionVisitor<'_>,
    ) -> Result<(), TablesError> {
        let mut earlier = self.earlier_of(range).peekable();
        let mut flow = ControlFlow::Continue(());
        range.visit(id.rows_table(), tables, &mut |key, value| {
            // Keys that have no row any more come in between.
            while flow.is_continue()
                && let Some((other, rows)) =
                    earlier.next_if(|(other, _)| is_before(other, key, range.descending))
            {
                flow = visit(other, self.of_earlier(rows));
            }
            if flow.is_break() {
                return flow;
            }
            let same = earlier.next_if(|(other, _)| &other[..] == key);
            let before = same.and_then(|(_, rows)| self.of_earlier(rows));
            let present = (stored_row(value).0 <= self.version).then_some(value);
            flow = visit(key, before.or(present));
            flow
        })?;
        while flow.is_continue()
            && let Some((key, rows)) = earlier.next()
        {
            flow = visit(key, self.of_earlier(rows));
        }
        Ok(())
    }

    /// Returns the keys of a range that have earlier rows, in its direction.
    fn earlier_of(
        &self,
        range: KeyRange<'_>,
    ) -> alloc::boxed::Box<dyn Iterator<Item = (&'a Vec<u8>, &'a Vec<EarlierRow>)> + 'a> {
        let is_empty = range.end.is_some_and(|end| end <= range.start);
        let Some(earlier) = self.earlier.filter(|_| !is_empty) else {
            return alloc::boxed::Box::new(core::iter::empty());
        };
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = earlier.range::<[u8], _>((Bound::Included(range.start), end));
        match range.descending {
            false => alloc::boxed::Box::new(keys),
            true => alloc::boxed::Box::new(keys.rev()),
        }
    }

    /// Returns the row that a key had at the version, if a later operation has replaced or removed
    /// it. None also if there was no row then.
    fn of_earlier(&self, rows: &'a [EarlierRow]) -> Option<&'a [u8]> {
        let then = rows.iter().find(|row| row.until > self.version)?;
        let existed = stored_row(&then.value).0 <= self.version;
        existed.then_some(&then.value[..])
    }
}

fn is_before(one: &[u8], other: &[u8], descending: bool) -> bool {
    match descending {
        false => one < other,
        true => one > other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use placement::tables::MemoryTables;
    use protocol::codec::Wire;

    const ID: PartitionId = PartitionId {
        table: TableId(1),
        replex: 0,
        number: 0,
    };

    fn value(version: u64) -> Vec<u8> {
        Version(version).to_bytes()
    }

    /// Applies changes in turn: a key, its version, and whether there is a row afterwards.
    fn apply(changes: &[(u8, u64, bool)]) -> (History, MemoryTables) {
        let (mut history, mut tables) = (History::default(), MemoryTables::new());
        for (key, version, put) in changes {
            let stored = tables.value(ID.rows_table(), &[*key]).expect("memory");
            if let Some(stored) = stored {
                history.keep(ID, &[*key], Version(*version), &stored);
            }
            match put {
                true => tables.put(ID.rows_table(), &[*key], &value(*version)),
                false => tables.delete(ID.rows_table(), &[*key]),
            }
        }
        (history, tables)
    }

    fn read(
        (history, tables): &(History, MemoryTables),
        at: u64,
        descending: bool,
    ) -> Vec<(u8, u64)> {
        let range = KeyRange {
            start: &[],
            end: None,
            descending,
        };
        let mut rows = Vec::new();
        let rows_at = history.at(ID, Version(at));
        let visit = &mut |key: &[u8], value: Option<&[u8]>| {
            rows.extend(value.map(|value| (key[0], stored_row(value).0.0)));
            ControlFlow::Continue(())
        };
        rows_at.visit(ID, range, tables, visit).expect("memory");
        rows
    }

    #[test]
    fn every_version_shows_what_was_there_then() {
        // Inserted, replaced, removed, inserted again; one that was always there; one that came
        // and went.
        let changes = [
            (5, 10, true),
            (3, 11, true),
            (5, 20, true),
            (7, 25, true),
            (5, 30, false),
            (7, 35, false),
            (1, 36, true),
            (5, 40, true),
        ];
        let state = apply(&changes);
        for at in 0..45 {
            let mut expected = BTreeMap::new();
            for (key, version, put) in changes.iter().filter(|it| it.1 <= at) {
                match put {
                    true => expected.insert(*key, *version),
                    false => expected.remove(key),
                };
            }
            let mut expected: Vec<(u8, u64)> = expected.into_iter().collect();
            assert_eq!(read(&state, at, false), expected, "at {at}");
            expected.reverse();
            assert_eq!(read(&state, at, true), expected, "at {at}, descending");
        }
    }

    #[test]
    fn only_rows_of_a_snapshot_are_wanted() {
        let wanted = |at: &[u64], is_held| WantedVersions {
            of_snapshots: at.iter().map(|at| Version(*at)).collect(),
            is_held,
        };
        let (three, nine) = (Version(3), Version(9));
        for (at, is_wanted) in [(2, false), (3, true), (8, true), (9, false), (10, false)] {
            assert_eq!(wanted(&[at], false).want(three, nine), is_wanted, "{at}");
            assert!(wanted(&[at], true).want(three, nine));
        }
        assert!(wanted(&[2, 5, 20], false).want(three, nine));
        assert!(!wanted(&[2, 20], false).want(three, nine));
        assert!(!wanted(&[], false).want(three, nine));
    }

    #[test]
    fn a_visit_can_end_at_a_key_without_a_row() {
        let (history, tables) = apply(&[(1, 5, true), (2, 6, true), (3, 1, true)]);
        let range = KeyRange {
            start: &[],
            end: None,
            descending: false,
        };
        let mut keys = Vec::new();
        let visit = &mut |key: &[u8], value: Option<&[u8]>| {
            keys.push((key[0], value.is_some()));
            match keys.len() {
                2 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        let rows_at = history.at(ID, Version(4));
        rows_at.visit(ID, range, &tables, visit).expect("memory");
        assert_eq!(keys, [(1, false), (2, false)]);
    }

    #[test]
    fn trimming_keeps_what_later_snapshots_need() {
        let mut state = apply(&[(1, 1, true), (1, 2, true), (1, 3, true), (2, 4, true)]);
        assert_eq!(state.0.bytes(), 2 * bytes_of(&[1], &value(1)));
        let wanted = WantedVersions {
            of_snapshots: vec![Version(2)],
            is_held: false,
        };
        let wanted = BTreeMap::from([(TableId(1), wanted)]);
        assert_eq!(state.0.trim(&wanted), Some(TableId(1)));
        assert_eq!(state.0.bytes(), bytes_of(&[1], &value(2)));
        assert_eq!(read(&state, 2, false), vec![(1, 2)]);
        assert_eq!(state.0.trim(&BTreeMap::new()), None);
        assert_eq!(state.0.bytes(), 0);
        assert!(state.0.partitions.is_empty());
    }
}
