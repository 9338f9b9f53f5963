//! Makes the pages of reads in a transaction, from rows of the table and its own changes.

use placement::{Constraint, Value, decode_sorted, encode_row, encode_sorted, key_has_null};
use protocol::configuration::PlacedTable;
use protocol::expression::{Columns, holds};
use protocol::identity::Version;
use protocol::message::{Read, RowPage};

use crate::store::StoreError;

/// The ways in which the commit of a transaction can compare what a read has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadKind {
    /// A whole primary key.
    PrimaryKey,
    /// A whole key of a unique index.
    UniqueKey { is_thin: bool },
    /// A range of a copy or of a thin index.
    Range { is_thin: bool },
}

/// Returns the kind of a read.
pub(super) fn kind_of(table: &PlacedTable, read: &Read) -> ReadKind {
    let replex = usize::from(read.partition.replex);
    let is_primary = replex == table.layout.primary();
    let is_thin = table.layout.is_thin(replex);
    let constraint = table.layout.constraint(&table.schema, replex);
    let of_one =
        (is_primary || constraint == Some(Constraint::Unique)) && is_whole_key(table, read);
    match (of_one, is_primary) {
        (true, true) => ReadKind::PrimaryKey,
        (true, false) => ReadKind::UniqueKey { is_thin },
        (false, _) => ReadKind::Range { is_thin },
    }
}

/// Returns whether a read is of one whole key without NULLs of its replex.
fn is_whole_key(table: &PlacedTable, read: &Read) -> bool {
    let columns = &table.layout.replexes[usize::from(read.partition.replex)].sort_columns;
    let types = columns.iter();
    let types: Vec<_> = types
        .map(|it| table.schema.columns[it.column].column_type)
        .collect();
    let Ok(values) = decode_sorted(columns, &types, &read.start) else {
        return false;
    };
    let is_whole = placement::prefix_end(&read.start).as_deref() == read.end.as_deref();
    is_whole && !key_has_null(values.iter().map(Value::as_ref))
}

/// Returns whether a row is in the range of a read.
pub(super) fn is_in_range(table: &PlacedTable, read: &Read, row: &[Value]) -> bool {
    let replex = usize::from(read.partition.replex);
    let number = table
        .layout
        .partition_of_values(replex, |column| row[column].as_ref());
    let key = key(table, read, row);
    let is_below = read.end.as_ref().is_none_or(|end| key[..] < **end);
    number == read.partition.number && key[..] >= *read.start && is_below
}

fn key(table: &PlacedTable, read: &Read, row: &[Value]) -> Vec<u8> {
    let order = table.layout.order(usize::from(read.partition.replex));
    encode_sorted(&order, |column| row[column].as_ref())
}

/// Returns whether a row satisfies the condition of a read.
pub(super) fn passes(read: &Read, row: &impl Columns) -> Result<bool, StoreError> {
    match &read.filter {
        None => Ok(true),
        Some(filter) => {
            holds(filter, row, None).map_err(|error| StoreError::plain(error.to_string()))
        }
    }
}

/// Returns the page of a read that finds these rows.
pub(super) fn page_of(
    table: &PlacedTable,
    read: &Read,
    mut rows: Vec<(Version, Vec<Value>)>,
) -> Result<RowPage, StoreError> {
    rows.sort_by_cached_key(|(_, row)| key(table, read, row));
    if read.descending {
        rows.reverse();
    }
    page_in_order(table, read, rows)
}

/// Returns the page of a read that finds these rows in this order.
pub(super) fn page_in_order(
    table: &PlacedTable,
    read: &Read,
    rows: Vec<(Version, Vec<Value>)>,
) -> Result<RowPage, StoreError> {
    let columns: Vec<_> = match &read.projection {
        None => table.schema.columns.clone(),
        Some(columns) => {
            let columns = columns.iter();
            let columns = columns.map(|it| table.schema.columns[usize::from(*it)].clone());
            columns.collect()
        }
    };
    let mut page = RowPage::default();
    for (version, row) in rows {
        if page.count >= u64::from(read.limit) {
            break;
        }
        if read.count_only {
            page.count += 1;
            continue;
        }
        let values: Vec<Value> = match &read.projection {
            None => row,
            Some(columns) => {
                let columns = columns.iter();
                columns.map(|it| row[usize::from(*it)].clone()).collect()
            }
        };
        let encoded = encode_row(&columns, &values);
        let encoded = encoded.map_err(|error| StoreError::plain(error.to_string()))?;
        page.push(version, &encoded);
    }
    Ok(page)
}
