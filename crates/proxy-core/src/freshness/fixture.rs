//! Generates access sets for tests, and lists the cells that a set stands for.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::items::{ColumnNumber, RowHash, TableOid};
use super::paper::parts;
use super::sets::{AccessSets, AffectingClass, TableAccess, TableParts};

const TABLES: u32 = 3;
const COLUMNS: u16 = 4;
const ROWS: u64 = 4;

/// Returns a statement on one table: `reads` are columns, `writes` are pairs of column (0 for all)
/// and row.
pub fn statement(
    table: TableOid,
    class: AffectingClass,
    reads: &[u16],
    writes: &[(u16, u64)],
) -> AccessSets {
    let rows: Vec<u64> = writes.iter().map(|(_, row)| *row).collect();
    let columns: Vec<u16> = writes.iter().map(|(column, _)| *column).collect();
    let mut sets = AccessSets::default();
    let touch = TableAccess {
        class,
        reads: (!reads.is_empty()).then(|| parts(class, reads, &rows)),
        writes: (!writes.is_empty()).then(|| parts(class, &columns, &rows)),
    };
    sets.touch(table, touch);
    sets
}

fn touch() -> impl Strategy<Value = TableAccess> {
    let class = prop_oneof![
        4 => Just(AffectingClass::Rows), 2 => Just(AffectingClass::Columns), 1 => Just(AffectingClass::Table)
    ];
    let columns = || prop::collection::vec(0..=COLUMNS, 0..3);
    let rows = prop::collection::vec(0..ROWS, 1..3);
    (class, columns(), columns(), rows, any::<(bool, bool)>()).prop_map(
        |(class, read, written, rows, (reads, writes))| TableAccess {
            class,
            reads: (reads || !writes).then(|| parts(class, &read, &rows)),
            writes: writes.then(|| parts(class, &written, &rows)),
        },
    )
}

/// Up to three statements, in the order of their execution.
#[derive(Clone, Debug)]
pub struct TestTransaction(Vec<(TableOid, TableAccess)>);

/// Generates random transactions.
pub fn transaction() -> impl Strategy<Value = TestTransaction> {
    let statement = (0..TABLES, touch()).prop_map(|(table, touch)| (TableOid(table), touch));
    prop::collection::vec(statement, 0..4).prop_map(TestTransaction)
}

/// Generates random sets.
pub fn sets() -> impl Strategy<Value = AccessSets> {
    transaction().prop_map(|transaction| transaction.sets())
}

/// One value of one row of one table; column 0 holds whether the row exists.
type Cell = (u32, u64, u16);

impl TestTransaction {
    /// Returns the sets of the transaction.
    pub fn sets(&self) -> AccessSets {
        let mut sets = AccessSets::default();
        for (table, touch) in &self.0 {
            sets.touch(*table, touch.clone());
        }
        sets
    }

    /// Returns whether one transaction writes a cell that the other reads or writes. The algorithms
    /// must never contradict this.
    pub fn conflicts(&self, other: &TestTransaction) -> bool {
        let meet =
            |a: &TestTransaction, b: &TestTransaction| !a.written().is_disjoint(&b.touched());
        meet(self, other) || meet(other, self)
    }

    /// Returns the values that the transaction writes. A write of all columns also writes whether
    /// the row exists, because it may create or delete the row.
    pub fn written(&self) -> BTreeSet<Cell> {
        let mut cells = BTreeSet::new();
        for (table, touch) in &self.0 {
            if let Some(parts) = &touch.writes {
                add(
                    &mut cells,
                    *table,
                    touch.class,
                    parts,
                    parts.columns.is_all(),
                );
            }
        }
        cells
    }

    /// Returns the values that the transaction reads or writes. A read of any column of a row also
    /// reads that the row exists.
    pub fn touched(&self) -> BTreeSet<Cell> {
        let mut cells = self.written();
        for (table, touch) in &self.0 {
            if let Some(parts) = &touch.reads {
                add(&mut cells, *table, touch.class, parts, true);
            }
        }
        cells
    }
}

fn add(
    cells: &mut BTreeSet<Cell>,
    table: TableOid,
    class: AffectingClass,
    parts: &TableParts,
    existence: bool,
) {
    for row in 0..ROWS {
        let row_in = class != AffectingClass::Rows
            || parts.rows.meets(&[RowHash(row)].into_iter().collect());
        for column in 0..=COLUMNS {
            let column_in = match column {
                0 => existence,
                _ => parts
                    .columns
                    .meets(&[ColumnNumber(column)].into_iter().collect()),
            };
            if row_in && column_in {
                cells.insert((table.0, row, column));
            }
        }
    }
}
