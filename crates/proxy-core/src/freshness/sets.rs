//! Read and write sets of statements, transactions and groups of transactions, with the affecting
//! class per table (the paper's section 4.1).
//!
//! Sets are cumulative: the sets of a transaction are its statements' sets merged, and the sets of
//! concurrent transactions at a replica are merged again. `merge` and `remove` are inverse.

use super::items::{ColumnNumber, CountedItems, RowHash, TableOid};
use alloc::vec::Vec;

/// The precision with which the proxy knows what a statement or transaction touches in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffectingClass {
    /// Particular rows, identified by the canonical key (the paper's RAS).
    Rows,
    /// Some columns, of unknown rows (CAS).
    Columns,
    /// The whole table (TAS).
    Table,
}

/// The parts of one table that one statement reads and writes.
#[derive(Clone, Debug)]
pub struct TableAccess {
    /// The affecting class.
    pub class: AffectingClass,
    /// The parts that the statement reads; none if it reads nothing of the table.
    pub reads: Option<TableParts>,
    /// The parts that the statement writes; none if it writes nothing of the table.
    pub writes: Option<TableParts>,
}

/// Columns and rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableParts {
    /// The columns. An INSERT or DELETE writes all columns of its table.
    pub columns: CountedItems<ColumnNumber>,
    /// The rows, if the class is [`AffectingClass::Rows`]; otherwise empty.
    pub rows: CountedItems<RowHash>,
}

impl TableParts {
    /// Returns all columns, of unknown rows.
    pub fn whole() -> TableParts {
        TableParts {
            columns: CountedItems::all(),
            rows: CountedItems::default(),
        }
    }

    fn merge(&mut self, other: &TableParts) {
        self.columns.merge(&other.columns);
        self.rows.merge(&other.rows);
    }

    fn absorb(&mut self, other: TableParts) {
        self.columns.absorb(other.columns);
        self.rows.absorb(other.rows);
    }

    fn remove(&mut self, other: &TableParts) {
        self.columns.remove(&other.columns);
        self.rows.remove(&other.rows);
    }
}

impl TableAccess {
    /// Returns a read of the whole table.
    pub fn read_table() -> TableAccess {
        TableAccess {
            class: AffectingClass::Table,
            reads: Some(TableParts::whole()),
            writes: None,
        }
    }

    /// Returns a write that may read and change the whole table.
    pub fn write_table() -> TableAccess {
        TableAccess {
            class: AffectingClass::Table,
            reads: Some(TableParts::whole()),
            writes: Some(TableParts::whole()),
        }
    }

    /// Returns a write of all columns of known rows, as in a row image.
    pub fn write_rows(rows: impl IntoIterator<Item = RowHash>) -> TableAccess {
        TableAccess {
            class: AffectingClass::Rows,
            reads: None,
            writes: Some(TableParts {
                columns: CountedItems::all(),
                rows: rows.into_iter().collect(),
            }),
        }
    }
}

/// The reads and writes of one or more statements in one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSets {
    statements: [u64; 3],
    readers: u64,
    writers: u64,
    read: TableParts,
    written: TableParts,
}

impl TableSets {
    /// Returns the affecting class: the class of all statements if they agree, otherwise the whole
    /// table.
    pub fn class(&self) -> AffectingClass {
        match self.statements {
            [rows, 0, 0] if rows > 0 => AffectingClass::Rows,
            [0, columns, 0] if columns > 0 => AffectingClass::Columns,
            _ => AffectingClass::Table,
        }
    }

    /// Returns whether the table is written.
    pub fn is_written(&self) -> bool {
        self.writers > 0
    }

    /// Returns whether the table is read.
    pub fn is_read(&self) -> bool {
        self.readers > 0
    }

    /// Returns the columns and rows of the table that are read.
    pub fn read(&self) -> &TableParts {
        &self.read
    }

    /// Returns the columns and rows of the table that are written.
    pub fn written(&self) -> &TableParts {
        &self.written
    }

    fn coarsen(&mut self, class: AffectingClass) {
        for finer in 0..class as usize {
            self.statements[class as usize] += core::mem::take(&mut self.statements[finer]);
        }
        if class != AffectingClass::Rows {
            self.read.rows = CountedItems::default();
            self.written.rows = CountedItems::default();
        }
    }

    fn touch(&mut self, touch: TableAccess) {
        self.statements[touch.class as usize] += 1;
        if let Some(parts) = touch.reads {
            self.readers += 1;
            self.read.absorb(parts);
            // `SELECT count(*)` names no column, and still sees every write of all of them.
            self.read.columns.add(ColumnNumber::EXISTENCE);
        }
        if let Some(parts) = touch.writes {
            self.writers += 1;
            self.written.absorb(parts);
        }
    }

    fn merge(&mut self, other: &TableSets) {
        for (here, there) in self.statements.iter_mut().zip(other.statements) {
            *here += there;
        }
        self.readers += other.readers;
        self.writers += other.writers;
        self.read.merge(&other.read);
        self.written.merge(&other.written);
    }

    fn remove(&mut self, other: &TableSets) {
        for (here, there) in self.statements.iter_mut().zip(other.statements) {
            *here = subtract(*here, there);
        }
        self.readers = subtract(self.readers, other.readers);
        self.writers = subtract(self.writers, other.writers);
        self.read.remove(&other.read);
        self.written.remove(&other.written);
    }
}

/// The reads and writes of a statement, a transaction, or several of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSets {
    /// Statements that may read any table.
    any_readers: u64,
    /// Statements that may write any table.
    any_writers: u64,
    /// By the table's number. They are few, and a map's nodes would have place for many.
    tables: Vec<(TableOid, TableSets)>,
}

impl AccessSets {
    /// Returns the sets of a read that may read any table (R33).
    pub fn reads_anything() -> AccessSets {
        AccessSets {
            any_readers: 1,
            ..AccessSets::default()
        }
    }

    /// Returns the sets of a write that may write any table (R33).
    pub fn writes_anything() -> AccessSets {
        AccessSets {
            any_readers: 1,
            any_writers: 1,
            ..AccessSets::default()
        }
    }

    /// Makes the sets less precise: each table has at least this class.
    pub fn coarsen(&mut self, class: AffectingClass) {
        for (_, table) in &mut self.tables {
            table.coarsen(class);
        }
    }

    /// Returns whether the sets read at most one row.
    pub fn read_one_row(&self) -> bool {
        let is_row = |(_, sets): &(TableOid, TableSets)| {
            let rows = &sets.read.rows;
            sets.class() == AffectingClass::Rows && !rows.is_all() && rows.named().count() <= 1
        };
        let is_known = !self.may_read_anything() && !self.may_write_anything();
        is_known && self.tables.len() <= 1 && self.tables.iter().all(is_row)
    }

    /// Adds the effect of one statement on one table.
    pub fn touch(&mut self, table: TableOid, touch: TableAccess) {
        self.entry(table).touch(touch);
    }

    fn place(&self, table: TableOid) -> Result<usize, usize> {
        self.tables
            .binary_search_by_key(&table, |(table, _)| *table)
    }

    fn entry(&mut self, table: TableOid) -> &mut TableSets {
        let place = self.place(table);
        let place = place.unwrap_or_else(|place| {
            if self.tables.is_empty() {
                // Mostly there is one.
                self.tables.reserve_exact(1);
            }
            self.tables.insert(place, (table, TableSets::default()));
            place
        });
        &mut self.tables[place].1
    }

    /// Returns whether the sets may read any table.
    pub fn may_read_anything(&self) -> bool {
        self.any_readers > 0
    }

    /// Returns whether the sets may write any table.
    pub fn may_write_anything(&self) -> bool {
        self.any_writers > 0
    }

    /// Returns whether the sets are empty.
    pub fn is_empty(&self) -> bool {
        self.any_readers == 0 && self.any_writers == 0 && self.tables.is_empty()
    }

    /// Returns whether the sets write any table.
    pub fn is_written(&self) -> bool {
        self.any_writers > 0 || self.tables.iter().any(|(_, sets)| sets.is_written())
    }

    /// Returns the touched tables, in the order of their numbers.
    pub fn tables(&self) -> impl Iterator<Item = (TableOid, &TableSets)> {
        self.tables.iter().map(|(table, sets)| (*table, sets))
    }

    /// Returns the sets of one table, if it is named.
    pub fn table(&self, table: TableOid) -> Option<&TableSets> {
        Some(&self.tables[self.place(table).ok()?].1)
    }

    /// Returns whether both sets may read or write a common table.
    pub fn shares_table(&self, other: &AccessSets) -> bool {
        let may_be_any = |sets: &AccessSets| sets.any_readers > 0 || sets.any_writers > 0;
        let mut tables = self.tables.iter();
        (may_be_any(self) && !other.is_empty())
            || (may_be_any(other) && !self.is_empty())
            || tables.any(|(table, _)| other.place(*table).is_ok())
    }

    /// Adds the tables and items of `other`.
    pub fn merge(&mut self, other: &AccessSets) {
        self.any_readers += other.any_readers;
        self.any_writers += other.any_writers;
        for (table, sets) in &other.tables {
            self.entry(*table).merge(sets);
        }
    }

    /// Adds the other's sets, without copying them if it is the only user.
    pub fn absorb(&mut self, other: AccessSets) {
        match self.is_empty() {
            true => *self = other,
            false => self.merge(&other),
        }
    }

    /// Subtracts sets that were merged before.
    pub fn remove(&mut self, other: &AccessSets) {
        self.any_readers = subtract(self.any_readers, other.any_readers);
        self.any_writers = subtract(self.any_writers, other.any_writers);
        for (table, sets) in &other.tables {
            let place = self.place(*table);
            let place = place.expect("only what was merged is removed");
            let here = &mut self.tables[place].1;
            here.remove(sets);
            if here.statements == [0; 3] {
                self.tables.remove(place);
            }
        }
    }
}

fn subtract(from: u64, count: u64) -> u64 {
    from.checked_sub(count)
        .expect("only what was merged is removed")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::freshness::fixture::{sets, statement};

    #[test]
    fn count_of_rows_is_dependent_on_inserts() {
        let count = TableAccess {
            class: AffectingClass::Columns,
            reads: Some(TableParts::default()),
            writes: None,
        };
        let insert = TableAccess {
            class: AffectingClass::Columns,
            reads: None,
            writes: Some(TableParts::whole()),
        };
        let [mut reader, mut writer] = [AccessSets::default(), AccessSets::default()];
        reader.touch(TableOid(1), count);
        writer.touch(TableOid(1), insert);
        assert!(!crate::freshness::independence::independent(
            &reader, &writer
        ));
    }

    #[test]
    fn coarser_sets_touch_more() {
        let [mut read, mut write] = [AccessSets::default(), AccessSets::default()];
        let parts = |columns: CountedItems<ColumnNumber>, row| TableParts {
            columns,
            rows: CountedItems::one(RowHash(row)),
        };
        read.touch(
            TableOid(1),
            TableAccess {
                class: AffectingClass::Rows,
                reads: Some(parts(CountedItems::one(ColumnNumber(2)), 1)),
                writes: None,
            },
        );
        write.touch(TableOid(1), TableAccess::write_rows([RowHash(2)]));
        let independent = crate::freshness::independence::independent;
        assert!(independent(&read, &write));
        for class in [
            AffectingClass::Rows,
            AffectingClass::Columns,
            AffectingClass::Table,
        ] {
            read.coarsen(class);
            assert_eq!(
                read.table(TableOid(1)).expect("it is touched").class(),
                class
            );
            assert_eq!(independent(&read, &write), class == AffectingClass::Rows);
        }
    }

    #[test]
    fn tables_that_both_touch() {
        let sets = |table| statement(TableOid(table), AffectingClass::Rows, &[], &[(1, 1)]);
        assert!(sets(1).shares_table(&sets(1)));
        assert!(!sets(1).shares_table(&sets(2)));
        assert!(sets(1).shares_table(&AccessSets::reads_anything()));
        assert!(AccessSets::reads_anything().shares_table(&sets(1)));
        assert!(!AccessSets::reads_anything().shares_table(&AccessSets::default()));
    }

    #[test]
    fn classes_that_differ_make_the_whole_table() {
        let mut both = statement(TableOid(1), AffectingClass::Rows, &[], &[(1, 1)]);
        both.merge(&statement(TableOid(1), AffectingClass::Columns, &[2], &[]));
        let class = |sets: &AccessSets| sets.table(TableOid(1)).expect("it is touched").class();
        assert_eq!(class(&both), AffectingClass::Table);
        both.remove(&statement(TableOid(1), AffectingClass::Columns, &[2], &[]));
        assert_eq!(class(&both), AffectingClass::Rows);
    }

    proptest! {
        #[test]
        fn remove_undoes_merge(first in sets(), second in sets()) {
            let mut both = first.clone();
            both.merge(&second);
            both.remove(&second);
            prop_assert_eq!(both, first);
        }

        #[test]
        fn merge_knows_no_order(first in sets(), second in sets()) {
            let mut here = first.clone();
            here.merge(&second);
            let mut there = second;
            there.merge(&first);
            prop_assert_eq!(here, there);
        }
    }
}
