//! Tables 1 and 3 of the paper as access sets, for tests. R is table 1 with columns A1 to A4, and S
//! is table 2 with columns B1 to B5.

use super::items::{ColumnNumber, CountedItems, RowHash, TableOid};
use super::sets::{AccessSets, AffectingClass, TableAccess, TableParts};

const R: TableOid = TableOid(1);
const S: TableOid = TableOid(2);

fn one(
    table: TableOid,
    class: AffectingClass,
    reads: &[u16],
    writes: &[u16],
    rows: &[u64],
) -> AccessSets {
    let mut sets = AccessSets::default();
    let touch = TableAccess {
        class,
        reads: Some(parts(class, reads, rows)),
        writes: (!writes.is_empty()).then(|| parts(class, writes, rows)),
    };
    sets.touch(table, touch);
    sets
}

/// Returns the sets of the paper's writes W1 to W5.
pub fn writes() -> [AccessSets; 5] {
    [
        one(R, AffectingClass::Rows, &[1], &[2, 3], &[100]),
        one(S, AffectingClass::Columns, &[5], &[2], &[]),
        one(R, AffectingClass::Columns, &[2], &[3, 4], &[]),
        one(R, AffectingClass::Rows, &[1], &[0], &[120]),
        one(S, AffectingClass::Columns, &[5], &[4], &[]),
    ]
}

/// Returns the sets of the paper's reads R1 to R4.
pub fn reads() -> [AccessSets; 4] {
    let mut join = one(R, AffectingClass::Columns, &[1], &[], &[]);
    join.merge(&one(S, AffectingClass::Columns, &[2, 3], &[], &[]));
    [
        one(R, AffectingClass::Table, &[0], &[], &[]),
        one(R, AffectingClass::Rows, &[1, 3, 4], &[], &[100]),
        one(S, AffectingClass::Columns, &[2, 3, 5], &[], &[]),
        join,
    ]
}

/// Returns columns (0 for all) and rows. The rows are only set for the class that knows them.
pub fn parts(class: AffectingClass, columns: &[u16], rows: &[u64]) -> TableParts {
    TableParts {
        columns: match columns.contains(&0) || class == AffectingClass::Table {
            true => CountedItems::all(),
            false => columns.iter().map(|column| ColumnNumber(*column)).collect(),
        },
        rows: match class {
            AffectingClass::Rows => rows.iter().map(|row| RowHash(*row)).collect(),
            _ => CountedItems::default(),
        },
    }
}
