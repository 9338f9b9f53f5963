//! Makes the pages of reads in a transaction, from rows of the table and its own changes.

use placement::{Constraint, Value, decode_sorted, encode_row, encode_sorted, key_has_null};
use protocol::configuration::PlacedTable;
use protocol::expression::holds;
use protocol::identity::Version;
use protocol::message::{Read, RowPage};

use crate::store::StoreError;

/// Returns whether a read is of a whole key that at most one row can have: of the primary key, or
/// of a unique index.
pub(super) fn is_of_one_row(table: &PlacedTable, read: &Read) -> bool {
    let replex = usize::from(read.partition.replex);
    let is_primary = replex == table.layout.primary();
    let constraint = table.layout.constraint(&table.schema, replex);
    if !is_primary && constraint != Some(Constraint::Unique) {
        return false;
    }
    let columns = &table.layout.replexes[replex].sort_columns;
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
        let passes = match &read.filter {
            None => true,
            Some(filter) => {
                holds(filter, &row, None).map_err(|error| StoreError::plain(error.to_string()))?
            }
        };
        if !passes {
            continue;
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
