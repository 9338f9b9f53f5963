//! Sorted tables of bytes that a protocol machine reads and writes, in any storage.
//!
//! A table is a map from key to value, ordered bytewise by key. The trait is the edge between
//! the pure machines and the stores: `storage` implements it over memory and disk, and
//! [`MemoryTables`] is the plain reference for the simulator and for differential tests.
//! Encodings of keys and rows, durability and checkpoints are no concern of this module.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Bound, ControlFlow};

/// The longest key in bytes that every implementation accepts. Keys may be empty. An encoded key
/// has at most [`crate::KEY_BYTES_MAX`] bytes, but a local entry joins two of them.
pub const TABLE_KEY_BYTES_MAX: usize = 32 * 1024;

/// The longest value in bytes that every implementation accepts. Values may be empty.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Receives each entry of a scan, key and value, in the order of the scan. Breaks to end the scan.
pub type EntryVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Sorted tables of one core, read by the pure protocol machine. Keys order bytewise.
///
/// A table exists as soon as something is put into it; a table never written reads as empty.
/// Visitors borrow their arguments for the call only, and must not use the same tables. A write is
/// seen by every later read, and never fails: it goes to memory. Replaying the same writes in the
/// same order over any prefix of them ends in the same tables.
pub trait Tables {
    /// Shows `key`'s value to `visit` without copying it; false, and no visit, if it is absent.
    ///
    /// # Errors
    /// A cold read failed: see [`TablesError`].
    fn read(
        &self,
        table: u64,
        key: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TablesError>;

    /// Visits the entries with `start <= key < end` in rising key order until the visitor breaks.
    /// `end` of `None` means to the end of the table; `end <= start` is an empty range.
    ///
    /// # Errors
    /// A cold read failed, possibly after some entries were visited: see [`TablesError`].
    fn scan(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError>;

    /// Visits entries as [`Tables::scan`] does, in descending key order: the greatest key below
    /// `end` comes first.
    ///
    /// # Errors
    /// As [`Tables::scan`].
    fn scan_reverse(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError>;

    /// Returns the lowest number from `first` on of a table that may have entries.
    ///
    /// # Errors
    /// As [`Tables::read`].
    fn table_from(&self, first: u64) -> Result<Option<u64>, TablesError>;

    /// Returns the approximate number of a table's entries, for people; 0 if it is not known.
    fn entries_about(&self, table: u64) -> u64;

    /// Sets `key` to `value`, replacing any earlier value.
    fn put(&mut self, table: u64, key: &[u8], value: &[u8]);

    /// Shows the value of `key` to `decides`, none if it is absent, and sets `key` to `value` if
    /// `decides` returns true. Returns what it has returned.
    ///
    /// # Errors
    /// As [`Tables::read`]; nothing was set.
    fn put_if(
        &mut self,
        table: u64,
        key: &[u8],
        value: &[u8],
        decides: &mut dyn FnMut(Option<&[u8]>) -> bool,
    ) -> Result<bool, TablesError> {
        let mut puts = None;
        let exists = self.read(table, key, &mut |old| puts = Some(decides(Some(old))))?;
        let puts = if exists {
            puts == Some(true)
        } else {
            decides(None)
        };
        if puts {
            self.put(table, key, value);
        }
        Ok(puts)
    }

    /// Says which keys are read or written next, so that a store can fetch what it needs for all of
    /// them at the same time. It changes nothing, and is not needed.
    fn announce(&self, _table: u64, _keys: &[&[u8]]) {}

    /// Removes `key`; nothing happens if it is absent.
    fn delete(&mut self, table: u64, key: &[u8]);

    /// Removes every entry of `table`. The number may be used again afterwards.
    fn drop_table(&mut self, table: u64);

    /// Returns a copy of the value of `key`, for callers that need not be fast; none if there is no
    /// such entry.
    ///
    /// # Errors
    /// As [`Tables::read`].
    fn value(&self, table: u64, key: &[u8]) -> Result<Option<Vec<u8>>, TablesError> {
        let mut found = None;
        self.read(table, key, &mut |value| found = Some(value.to_vec()))?;
        Ok(found)
    }

    /// Returns the first key with `start <= key < end`; none if there is none.
    ///
    /// # Errors
    /// As [`Tables::scan`].
    fn first_key(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, TablesError> {
        let mut first = None;
        self.scan(table, start, end, &mut |key, _| {
            first = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// Returns the last key with `start <= key < end`; none if there is none.
    ///
    /// # Errors
    /// As [`Tables::scan`].
    fn last_key(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, TablesError> {
        let mut last = None;
        self.scan_reverse(table, start, end, &mut |key, _| {
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(last)
    }
}

/// A read of the cold store failed, because of damage or an I/O error. Contains a description.
///
/// Not to be retried. The server must stop rather than answer from a table that it cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablesError(String);

impl TablesError {
    /// Returns an error that says which action failed, on which object, and what to do.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for TablesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for TablesError {}

/// The reference implementation: ordered maps in memory. It is deterministic, and cheap to compare
/// and to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryTables {
    /// No table in here is empty, so that equal contents compare equal.
    tables: BTreeMap<u64, BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl MemoryTables {
    /// Returns empty tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns every entry of every table, by table number, then by key.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        self.tables.iter().flat_map(|(&table, entries)| {
            entries
                .iter()
                .map(move |(key, value)| (table, key.as_slice(), value.as_slice()))
        })
    }

    fn range<'a>(
        &'a self,
        table: u64,
        start: &'a [u8],
        end: Option<&'a [u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
        // BTreeMap panics on a range that ends before it starts.
        let valid = end.is_none_or(|end| start < end);
        let bounds = (
            Bound::Included(start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        self.tables
            .get(&table)
            .filter(|_| valid)
            .into_iter()
            .flat_map(move |entries| entries.range::<[u8], _>(bounds))
    }
}

impl Tables for MemoryTables {
    fn read(
        &self,
        table: u64,
        key: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TablesError> {
        let value = self.tables.get(&table).and_then(|entries| entries.get(key));
        if let Some(value) = value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError> {
        let _ = self
            .range(table, start, end)
            .try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn scan_reverse(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError> {
        let _ = self
            .range(table, start, end)
            .rev()
            .try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn table_from(&self, first: u64) -> Result<Option<u64>, TablesError> {
        Ok(self.tables.range(first..).next().map(|(table, _)| *table))
    }

    fn entries_about(&self, table: u64) -> u64 {
        self.tables.get(&table).map_or(0, |it| it.len() as u64)
    }

    fn put(&mut self, table: u64, key: &[u8], value: &[u8]) {
        assert!(
            key.len() <= TABLE_KEY_BYTES_MAX,
            "key of {} bytes",
            key.len()
        );
        assert!(
            value.len() <= VALUE_BYTES_MAX,
            "value of {} bytes",
            value.len()
        );
        let entries = self.tables.entry(table).or_default();
        if let Some(old) = entries.get_mut(key) {
            old.clear();
            old.extend_from_slice(value);
        } else {
            entries.insert(key.to_vec(), value.to_vec());
        }
    }

    fn delete(&mut self, table: u64, key: &[u8]) {
        if let Some(entries) = self.tables.get_mut(&table) {
            entries.remove(key);
            if entries.is_empty() {
                self.tables.remove(&table);
            }
        }
    }

    fn drop_table(&mut self, table: u64) {
        self.tables.remove(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn filled() -> MemoryTables {
        let mut tables = MemoryTables::new();
        for key in [b"b", b"a", b"d", b"c"] {
            tables.put(7, key, key);
        }
        tables.put(8, b"b", b"other");
        tables
    }

    fn keys(tables: &MemoryTables, start: &[u8], end: Option<&[u8]>, reverse: bool) -> Vec<u8> {
        let mut seen = vec![];
        let mut visit = |key: &[u8], value: &[u8]| {
            assert_eq!(key, value);
            seen.extend_from_slice(key);
            ControlFlow::Continue(())
        };
        if reverse {
            tables.scan_reverse(7, start, end, &mut visit).unwrap();
        } else {
            tables.scan(7, start, end, &mut visit).unwrap();
        }
        seen
    }

    #[test]
    fn scan_takes_start_and_leaves_end() {
        let tables = filled();
        assert_eq!(keys(&tables, b"", None, false), b"abcd");
        assert_eq!(keys(&tables, b"b", Some(b"d"), false), b"bc");
        assert_eq!(keys(&tables, b"b", Some(b"d"), true), b"cb");
        assert_eq!(keys(&tables, b"d", Some(b"b"), false), b"");
        assert_eq!(keys(&tables, b"c", Some(b"c"), true), b"");
    }

    #[test]
    fn scan_ends_at_break() {
        let mut count = 0;
        filled()
            .scan(7, b"", None, &mut |_, _| {
                count += 1;
                ControlFlow::Break(())
            })
            .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn put_replaces_and_delete_removes() {
        let mut tables = filled();
        tables.put(7, b"a", b"new");
        assert_eq!(tables.value(7, b"a").unwrap().as_deref(), Some(&b"new"[..]));
        tables.delete(7, b"a");
        assert_eq!(tables.value(7, b"a").unwrap(), None);
        assert!(!tables.read(9, b"a", &mut |_| {}).unwrap());
    }

    #[test]
    fn tables_are_found_by_their_numbers() {
        let tables = filled();
        let found = [0, 7, 8, 9].map(|first| tables.table_from(first).unwrap());
        assert_eq!(found, [Some(7), Some(7), Some(8), None]);
    }

    #[test]
    fn dropped_table_equals_never_written() {
        let mut tables = filled();
        tables.drop_table(7);
        tables.delete(8, b"b");
        assert_eq!(tables, MemoryTables::new());
        assert_eq!(filled().entries().count(), 5);
    }
}
