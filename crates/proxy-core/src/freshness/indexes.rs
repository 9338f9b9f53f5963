//! The indexes TIndex, CIndex and RIndex: the last commit that wrote a table, a column, or a row
//! (section 5.1). Algorithm 3 updates the indexes, and Algorithm 4 reads them.
//!
//! Invariants: `need` is never less than the TSID of the last commit that wrote a requested item,
//! and never less than the floor. So a replica serves no read by the indexes if it lacks commits
//! that the indexes have dropped, or commits from before this manager began (R33).
//!
//! There are two differences from the paper. A table's newest row write is stored apart from
//! RIndex, so that pruning never lowers line 9's `maxValue`. A write of all columns is one entry of
//! CIndex.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::items::{ColumnNumber, CountedItems, RowHash, TableOid, Tsid};
use super::sets::{AccessSets, AffectingClass, TableSets};
use crate::planted::{self, ProxyBug};

/// The most rows in RIndex. Beyond it the older half is dropped, and the floor rises to the newest
/// dropped entry.
pub const ROWS_MAX: usize = 1 << 20;

/// Room that a table keeps for rows when it is pruned.
const ROWS_SPARE: usize = 1024;

/// The three indexes of commits, by table, by column and by row.
#[derive(Debug)]
pub struct Indexes {
    floor: Tsid,
    /// The newest commit that may have written anything.
    anything: Tsid,
    /// The newest commit there is.
    latest: Tsid,
    tables: BTreeMap<TableOid, TableIndex>,
    row_count_max: usize,
    row_count: usize,
}

#[derive(Debug, Default)]
struct TableIndex {
    /// TIndex.
    table: Tsid,
    /// CIndex, and its entry for writes of all columns.
    columns: BTreeMap<ColumnNumber, Tsid>,
    all_columns: Tsid,
    /// RIndex, and the newest entry that it ever had.
    rows: HashMap<RowHash, Tsid>,
    newest_row: Tsid,
}

impl Indexes {
    /// Creates empty indexes. All commits up to `floor` happened before.
    pub fn new(floor: Tsid) -> Indexes {
        Indexes::with_rows(floor, ROWS_MAX)
    }

    fn with_rows(floor: Tsid, row_count_max: usize) -> Indexes {
        Indexes {
            floor,
            anything: floor,
            latest: floor,
            tables: BTreeMap::new(),
            row_count_max,
            row_count: 0,
        }
    }

    /// Returns the number of rows in RIndex.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Returns the approximate memory of the entries in bytes.
    pub fn bytes(&self) -> usize {
        self.tables.values().map(TableIndex::bytes).sum()
    }

    /// Returns the TSID of the newest commit.
    pub fn latest(&self) -> Tsid {
        self.latest
    }

    /// Returns the floor: the highest TSID that the indexes have dropped. Every read needs at least
    /// this.
    pub fn floor(&self) -> Tsid {
        self.floor
    }

    /// Records the writes of the commit at `tsid` (Algorithm 3). After a restart of the slot's
    /// reader, commits may come again; entries never go back.
    pub fn update(&mut self, sets: &AccessSets, tsid: Tsid) {
        self.latest = self.latest.max(tsid);
        if sets.may_write_anything() {
            self.anything = self.anything.max(tsid);
        }
        for (table, sets) in sets.tables().filter(|(_, sets)| sets.is_written()) {
            let index = self.tables.entry(table).or_default();
            // Line 2.
            index.table = index.table.max(tsid);
            let before = index.rows.len();
            match sets.class() {
                // Lines 4 and 5.
                AffectingClass::Table | AffectingClass::Columns => {
                    index.put_columns(&sets.written().columns, tsid)
                }
                // Lines 6 and 7.
                AffectingClass::Rows => index.put_rows(&sets.written().rows, tsid),
            }
            self.row_count += index.rows.len() - before;
        }
        if self.row_count > self.row_count_max {
            self.shrink();
        }
    }

    /// Returns the lowest TSID at which a read with these sets sees every commit so far that it
    /// must see (Algorithm 4).
    pub fn need(&self, sets: &AccessSets) -> Tsid {
        if sets.may_read_anything() || sets.may_write_anything() {
            return match planted::is(ProxyBug::UnknownReadsNothing) {
                true => Tsid(0),
                false => self.latest,
            };
        }
        let of_tables = sets
            .tables()
            // Line 4.
            .filter_map(|(table, sets)| Some((self.tables.get(&table)?, sets)))
            .map(|(index, sets)| index.need(sets));
        let least = match planted::is(ProxyBug::FloorIgnored) {
            true => Tsid(0),
            false => self.floor.max(self.anything),
        };
        of_tables.fold(least, Tsid::max)
    }

    /// Drops the entries of RIndex up to `applied`, and raises the floor to it (the paper's section
    /// 5.1). A replica without `applied` then serves no read by the indexes.
    pub fn prune(&mut self, applied: Tsid) {
        let applied = applied.min(self.latest);
        if applied <= self.floor {
            return;
        }
        if !planted::is(ProxyBug::FloorStays) {
            self.floor = applied;
        }
        self.row_count = 0;
        for index in self.tables.values_mut() {
            index.rows.retain(|_, tsid| *tsid > applied);
            let needed = index.rows.len() + ROWS_SPARE;
            if index.rows.capacity() > 4 * needed {
                index.rows.shrink_to(needed);
            }
            self.row_count += index.rows.len();
        }
    }

    /// Keeps memory bounded where a replica lags far behind: it then serves nothing until it has
    /// caught up to the floor.
    fn shrink(&mut self) {
        let tsids = self.tables.values().flat_map(|index| index.rows.values());
        let mut tsids: Vec<Tsid> = tsids.copied().collect();
        let middle = tsids.len() / 2;
        let (_, median, _) = tsids.select_nth_unstable(middle);
        self.prune(*median);
    }
}

impl TableIndex {
    fn bytes(&self) -> usize {
        // A hash table is filled to seven eighths, and has a byte of its own for each place.
        let places = self.rows.capacity() * 8 / 7;
        let of_rows = places * (size_of::<(RowHash, Tsid)>() + 1);
        let of_columns = self.columns.len() * 2 * size_of::<(ColumnNumber, Tsid)>();
        size_of::<(TableOid, TableIndex)>() + of_rows + of_columns
    }

    fn put_columns(&mut self, columns: &CountedItems<ColumnNumber>, tsid: Tsid) {
        if columns.is_all() {
            self.all_columns = self.all_columns.max(tsid);
        }
        for column in columns.named() {
            let entry = self.columns.entry(column).or_default();
            *entry = tsid.max(*entry);
        }
    }

    fn put_rows(&mut self, rows: &CountedItems<RowHash>, tsid: Tsid) {
        self.newest_row = self.newest_row.max(tsid);
        if rows.is_all() {
            self.all_columns = self.all_columns.max(tsid);
        }
        for row in rows.named() {
            let entry = self.rows.entry(row).or_default();
            *entry = match planted::is(ProxyBug::IndexesGoBack) {
                true => tsid,
                false => tsid.max(*entry),
            };
        }
    }

    fn need(&self, sets: &TableSets) -> Tsid {
        let read = sets.read();
        match sets.class() {
            // Lines 5 and 6.
            AffectingClass::Table => self.table,
            // Lines 7 to 9: any row that was written may have had any of its columns written.
            AffectingClass::Columns if planted::is(ProxyBug::RowsHaveNoColumns) => {
                self.need_of_columns(&read.columns)
            }
            AffectingClass::Columns => self.need_of_columns(&read.columns).max(self.newest_row),
            // Lines 10 to 12.
            AffectingClass::Rows => self
                .need_of_rows(&read.rows)
                .max(self.need_of_columns(&read.columns)),
        }
    }

    fn need_of_columns(&self, columns: &CountedItems<ColumnNumber>) -> Tsid {
        if columns.is_all() {
            let newest = self.columns.values().copied().max().unwrap_or_default();
            return newest.max(self.all_columns);
        }
        let named = columns
            .named()
            .filter_map(|column| self.columns.get(&column));
        named.copied().fold(self.all_columns, Tsid::max)
    }

    fn need_of_rows(&self, rows: &CountedItems<RowHash>) -> Tsid {
        if rows.is_all() {
            return self.newest_row;
        }
        let named = rows.named().filter_map(|row| self.rows.get(&row));
        named.copied().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::freshness::fixture::{sets, transaction};
    use crate::freshness::paper;
    use crate::freshness::sets::TableAccess;

    fn after_table_1() -> Indexes {
        let mut indexes = Indexes::new(Tsid(0));
        for (write, tsid) in paper::writes().iter().zip(11..) {
            indexes.update(write, Tsid(tsid));
        }
        indexes
    }

    /// Table 5 of the paper.
    #[test]
    fn indexes_after_table_1_are_table_5() {
        let indexes = after_table_1();
        let of = |table| &indexes.tables[&TableOid(table)];
        let columns = |table| -> Vec<(u16, u64)> {
            let columns = of(table).columns.iter();
            columns.map(|(column, tsid)| (column.0, tsid.0)).collect()
        };
        assert_eq!((of(1).table, of(2).table), (Tsid(14), Tsid(15)));
        assert_eq!(columns(1), [(3, 13), (4, 13)]);
        assert_eq!(columns(2), [(2, 12), (4, 15)]);
        assert_eq!(of(1).rows[&RowHash(100)], Tsid(11));
        assert_eq!(of(1).rows[&RowHash(120)], Tsid(14));
        assert_eq!(indexes.row_count, 2);
    }

    /// The last column of Table 3.
    #[test]
    fn needs_of_table_3() {
        let indexes = after_table_1();
        let needs = paper::reads().map(|read| indexes.need(&read).0);
        assert_eq!(needs, [14, 13, 12, 14]);
    }

    #[test]
    fn floor_rises_with_pruning_and_at_the_limit() {
        let mut indexes = Indexes::with_rows(Tsid(3), 4);
        let [_, row_100, ..] = paper::reads();
        assert_eq!(indexes.need(&row_100), Tsid(3));
        let row = |row| {
            let mut sets = AccessSets::default();
            sets.touch(TableOid(1), TableAccess::write_rows([RowHash(row)]));
            sets
        };
        for tsid in 10..15 {
            indexes.update(&row(tsid), Tsid(tsid));
        }
        assert_eq!((indexes.floor(), indexes.row_count), (Tsid(12), 2));
        indexes.prune(Tsid(13));
        assert_eq!((indexes.need(&row_100), indexes.row_count), (Tsid(13), 1));
    }

    #[test]
    fn memory_is_given_back() {
        let mut indexes = Indexes::new(Tsid(0));
        let row = |row| {
            let mut sets = AccessSets::default();
            sets.touch(TableOid(1), TableAccess::write_rows([RowHash(row)]));
            sets
        };
        for tsid in 1..=100_000 {
            indexes.update(&row(tsid), Tsid(tsid));
        }
        assert!((1_700_000..4_000_000).contains(&indexes.bytes()));
        indexes.prune(Tsid(99_000));
        assert!(indexes.bytes() < 100_000, "{}", indexes.bytes());
    }

    proptest! {
        #[test]
        fn no_answer_is_older_than_brute_force(
            history in prop::collection::vec((transaction(), 0..8_u64), 0..12),
            read in transaction(),
        ) {
            let mut indexes = Indexes::with_rows(Tsid(0), 6);
            let mut newest = Tsid(0);
            for ((write, prune), tsid) in history.iter().zip(1..) {
                indexes.update(&write.sets(), Tsid(tsid));
                if !write.written().is_disjoint(&read.touched()) {
                    newest = Tsid(tsid);
                }
                if *prune == 0 {
                    indexes.prune(Tsid(tsid / 2));
                }
                // Only reads without writes are ever routed.
                if read.written().is_empty() {
                    let need = indexes.need(&read.sets());
                    prop_assert!(need >= newest);
                    prop_assert!(need <= indexes.latest());
                }
            }
        }

        #[test]
        fn commits_that_come_again_change_nothing(
            history in prop::collection::vec(sets(), 1..8), read in sets(),
        ) {
            let mut indexes = Indexes::new(Tsid(0));
            let mut run = || {
                for (write, tsid) in history.iter().zip(1..) {
                    indexes.update(write, Tsid(tsid));
                }
                indexes.need(&read)
            };
            let first = run();
            prop_assert_eq!(first, run());
        }
    }
}
