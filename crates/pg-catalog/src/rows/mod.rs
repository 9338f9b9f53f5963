//! Makes the rows of the catalogue's relations from the description of the schema.
//!
//! Each submodule knows the relations of one subject. A row names the columns that it sets; the
//! others are NULL, or the zero value of their type if they are never NULL.

mod classes;
mod comments;
mod constraints;
mod information_schema;
mod sequences;
mod server;
mod system;

use std::sync::Arc;

use crate::datum::Datum;
use crate::description::{SchemaDescription, SessionDescription};
use crate::relations::RelationDefinition;
use crate::types::{self, Kind};

pub(crate) use crate::rights::{OWNER, OWNER_NAME};
pub(crate) use comments::comment;
pub(crate) use constraints::constraint_definition;
pub(crate) use server::{role_name, role_oid};
pub(crate) use system::{PROCEDURES, SCHEMAS, operators};

/// A row.
pub(crate) type Row = Arc<[Datum]>;

/// The values of a row, by the names of their columns.
pub(crate) type Named = Vec<(&'static str, Datum)>;

/// The input of all rows.
#[derive(Clone, Copy)]
pub(crate) struct RowSource<'a> {
    pub schema: &'a SchemaDescription,
    pub session: &'a SessionDescription,
}

/// Returns whether the rows of a relation depend on the session that reads them.
pub(crate) fn depends_on_session(relation: &RelationDefinition) -> bool {
    match relation.schema {
        "information_schema" => true,
        _ => matches!(
            relation.name,
            "pg_authid"
                | "pg_roles"
                | "pg_user"
                | "pg_shadow"
                | "pg_group"
                | "pg_auth_members"
                | "pg_database"
                | "pg_settings"
                | "pg_file_settings"
                | "pg_stat_activity"
                | "pg_stat_database"
                | "pg_prepared_statements"
        ),
    }
}

/// Returns the rows of a relation.
pub(crate) fn rows(relation: &RelationDefinition, source: RowSource<'_>) -> Vec<Row> {
    let made = match relation.schema {
        "information_schema" => information_schema::rows(relation.name, source),
        _ => classes::rows(relation.name, source)
            .or_else(|| constraints::rows(relation.name, source))
            .or_else(|| comments::rows(relation.name, source.schema))
            .or_else(|| sequences::rows(relation.name, source))
            .or_else(|| server::rows(relation.name, source))
            .or_else(|| system::rows(relation.name, source.schema)),
    };
    let made = made.unwrap_or_default().into_iter();
    made.map(|named| complete(relation, named)).collect()
}

/// Returns a row with the values of all columns.
fn complete(relation: &RelationDefinition, named: Named) -> Row {
    let columns = relation.columns.iter();
    let mut row: Vec<Datum> = columns
        .map(
            |column| match (column.not_null, types::kind(column.type_oid)) {
                (false, _) => Datum::Null,
                (true, Kind::Bool) => Datum::Bool(false),
                (true, Kind::Int) => Datum::Int(0),
                (true, Kind::Float) => Datum::float(0.0),
                (true, Kind::Array) => Datum::vector([]),
                (true, Kind::Text | Kind::Record) => Datum::text(""),
            },
        )
        .collect();
    for (name, value) in named {
        let column = relation.column(name);
        let column = column.unwrap_or_else(|| panic!("{}.{name} is no column", relation.name));
        row[column] = value;
    }
    row.into()
}

pub(crate) fn int(value: impl TryInto<i64>) -> Datum {
    value.try_into().map_or(Datum::Null, Datum::Int)
}

pub(crate) fn text(value: impl AsRef<str>) -> Datum {
    Datum::text(value)
}

pub(crate) fn yes_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}

/// Returns the numbers of columns, which count from 1, of positions.
pub(crate) fn numbers(positions: &[usize]) -> impl Iterator<Item = Datum> {
    positions.iter().map(|position| int(position + 1))
}
