//! The rows of `pg_constraint`, and the definitions of its constraints.

use super::{Named, RowSource, int, numbers, text};
use crate::datum::Datum;
use crate::definitions::{
    check_definition, foreign_key_definition, key_definition, primary_columns,
};
use crate::description::{Oid, SchemaDescription, TableDescription};
use crate::relations::PUBLIC;

pub(super) fn rows(relation: &str, source: RowSource<'_>) -> Option<Vec<Named>> {
    let tables = source.schema.tables.iter();
    match relation {
        "pg_constraint" => Some(
            tables
                .flat_map(|it| constraints(source.schema, it))
                .collect(),
        ),
        _ => None,
    }
}

fn constraint(oid: Oid, name: &str, table: &TableDescription, kind: &'static str) -> Named {
    vec![
        ("oid", Datum::oid(oid)),
        ("conname", text(name)),
        ("connamespace", Datum::oid(PUBLIC)),
        ("contype", text(kind)),
        ("convalidated", Datum::Bool(true)),
        ("conrelid", Datum::oid(table.oid)),
        ("conislocal", Datum::Bool(true)),
        ("confupdtype", text(" ")),
        ("confdeltype", text(" ")),
        ("confmatchtype", text(" ")),
        ("connoinherit", Datum::Bool(kind != "c")),
    ]
}

fn constraints(schema: &SchemaDescription, table: &TableDescription) -> Vec<Named> {
    let keys = table.indexes.iter().filter(|it| it.constraint_oid != 0);
    let keys = keys.map(|index| {
        let kind = if index.is_primary { "p" } else { "u" };
        let mut row = constraint(index.constraint_oid, &index.name, table, kind);
        let columns: Vec<usize> = index.keys.iter().map(|key| key.column).collect();
        row.extend([
            ("conindid", Datum::oid(index.oid)),
            ("conkey", Datum::array(numbers(&columns))),
        ]);
        row
    });
    let checks = table.checks.iter().map(|check| {
        let mut row = constraint(check.oid, &check.name, table, "c");
        row.extend([
            ("conkey", Datum::array(numbers(&check.columns))),
            ("conbin", text(&check.condition)),
            ("convalidated", Datum::Bool(check.is_valid)),
        ]);
        row
    });
    let references = table.foreign_keys.iter().map(|key| {
        let mut row = constraint(key.oid, &key.name, table, "f");
        row.extend([
            ("condeferrable", Datum::Bool(key.is_deferrable)),
            ("condeferred", Datum::Bool(key.is_deferred)),
            ("convalidated", Datum::Bool(key.is_valid)),
            ("confupdtype", text(key.on_update.to_string())),
            ("confdeltype", text(key.on_delete.to_string())),
            ("confmatchtype", text("s")),
            ("conkey", Datum::array(numbers(&key.columns))),
        ]);
        let parent = schema.tables.iter().find(|it| it.name == key.parent);
        if let Some(parent) = parent {
            let primary = parent.indexes.iter().find(|it| it.is_primary);
            row.extend([
                ("confrelid", Datum::oid(parent.oid)),
                ("confkey", Datum::array(numbers(&primary_columns(parent)))),
                ("conindid", int(primary.map_or(0, |it| it.oid))),
            ]);
        }
        row
    });
    keys.chain(checks).chain(references).collect()
}

/// Returns the definition of a constraint; none if it does not exist.
pub(crate) fn constraint_definition(
    schema: &SchemaDescription,
    oid: Oid,
    pretty: bool,
    with_schema: bool,
) -> Option<String> {
    schema.tables.iter().find_map(|table| {
        let index = table.indexes.iter().find(|it| it.constraint_oid == oid);
        let check = table.checks.iter().find(|it| it.oid == oid);
        let key = table.foreign_keys.iter().find(|it| it.oid == oid);
        index
            .filter(|_| oid != 0)
            .map(|index| key_definition(table, index))
            .or_else(|| check.map(|check| check_definition(check, pretty)))
            .or_else(|| key.map(|key| foreign_key_definition(schema, table, key, with_schema)))
    })
}
