//! The steps of a commit, and the tables that they change, as the stream describes these tables.

use std::sync::Arc;

use super::pgoutput::{self, OldTuple, Tuple, TupleValue};
use pg_analysis::catalogue::{ColumnInfo, Relation};
use proxy_core::freshness::mark;
use proxy_core::freshness::{RowHash, TableOid};

/// Equality of PostgreSQL's own types, and of enums, ranges, arrays and rows.
const EQUAL: &str = "OPERATOR(pg_catalog.=)";

/// A change of a commit.
#[derive(Debug)]
pub enum CommitChange {
    /// A row was inserted.
    Insert { table: Arc<TableShape>, new: Tuple },
    /// A row was updated.
    Update {
        table: Arc<TableShape>,
        old: Option<OldTuple>,
        new: Tuple,
    },
    /// A row was deleted.
    Delete {
        table: Arc<TableShape>,
        old: OldTuple,
    },
    /// Tables were truncated.
    Truncate {
        tables: Vec<Arc<TableShape>>,
        restart_identity: bool,
    },
    /// A statement to run, with these settings.
    Statement(mark::AnnouncedStatement, Vec<(String, String)>),
    /// A change that no replica can repeat, for this reason.
    Lost(String),
}

/// A table, as the stream describes it.
#[derive(Clone, Debug)]
pub struct TableShape {
    /// The table's OID on the primary.
    pub table: TableOid,
    /// The table's schema.
    pub schema: String,
    /// The table's name.
    pub name: String,
    /// The columns that the stream sends, in the order of the values in its rows. `is_whole` says
    /// whether these are all columns of the table.
    pub columns: Vec<ShapeColumn>,
    /// Whether the key columns identify the table's rows. Otherwise the proxy compares all values.
    pub has_key: bool,
    /// Whether the change has all columns of the table, in the table's order. Then rows can be
    /// written as values of the table's row type.
    pub is_whole: bool,
    /// Whether the table is partitioned.
    pub is_partitioned: bool,
    /// Positions of other unique keys' columns, by index.
    unique_keys: Vec<(u32, Vec<usize>)>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct ShapeColumn {
    /// The column's name.
    pub name: String,
    /// Whether the column is part of the replica identity.
    pub in_key: bool,
    /// Whether UPDATE can set the column. It cannot set an identity column that is always
    /// generated.
    pub settable: bool,
    /// The OID of the column's type on the primary.
    pub type_oid: u32,
    /// The operator with which the column's index finds a key, as SQL.
    pub equality: String,
}

impl TableShape {
    pub(super) fn new(relation: pgoutput::RelationMessage, known: Option<&Relation>) -> TableShape {
        let settable = |name: &str| {
            let column = known.and_then(|known| known.column(name));
            column.is_none_or(|column| !column.always_generated)
        };
        let equality = |name: &str| match known.and_then(|known| known.column(name)) {
            Some(ColumnInfo {
                key_operator: Some(operator),
                ..
            }) => operator.clone(),
            Some(_) => EQUAL.into(),
            // Where the search path leads.
            None => "=".into(),
        };
        let columns: Vec<ShapeColumn> = relation
            .columns
            .into_iter()
            .map(|column| ShapeColumn {
                settable: settable(&column.name),
                equality: equality(&column.name),
                in_key: column.in_key,
                name: column.name,
                type_oid: column.type_oid,
            })
            .collect();
        let position = |number: &proxy_core::freshness::ColumnNumber| {
            let name = &known?.column_numbered(*number)?.name;
            columns.iter().position(|column| column.name == *name)
        };
        let is_whole = known.is_some_and(|known| {
            let names = known.columns.iter().map(|column| &column.name);
            names.eq(columns.iter().map(|column| &column.name))
        });
        let unique_keys = known
            .map(|known| &known.unique_keys[..])
            .unwrap_or_default();
        let unique_keys = unique_keys.iter().filter_map(|(index, key)| {
            let positions: Option<Vec<usize>> = key.iter().map(position).collect();
            Some((*index, positions?))
        });
        TableShape {
            table: TableOid(relation.oid),
            schema: match relation.schema.is_empty() {
                true => "pg_catalog".into(),
                false => relation.schema,
            },
            name: relation.name,
            has_key: matches!(relation.identity, b'd' | b'i')
                && columns.iter().any(|column| column.in_key),
            is_whole,
            is_partitioned: known.is_some_and(|known| known.is_partitioned),
            unique_keys: unique_keys.collect(),
            columns,
        }
    }

    /// Returns the hashes by which the row is known: of its key, and of its other unique keys as
    /// far as they are known.
    pub(super) fn rows_of(&self, tuple: &Tuple) -> Vec<RowHash> {
        let key = (0..self.columns.len()).filter(|index| self.columns[*index].in_key);
        let mut rows: Vec<RowHash> = row_of(0, tuple, key).into_iter().collect();
        for (index, positions) in &self.unique_keys {
            rows.extend(row_of(*index, tuple, positions.iter().copied()));
        }
        rows
    }
}

fn row_of(key: u32, tuple: &Tuple, positions: impl Iterator<Item = usize>) -> Option<RowHash> {
    let texts = positions.map(|position| match tuple.get(position) {
        Some(TupleValue::Text(text)) => Some(text.as_ref()),
        _ => None,
    });
    let texts: Option<Vec<&[u8]>> = texts.collect();
    Some(RowHash::of_key(key, texts?))
}
