//! The rows about relations: `pg_class`, `pg_attribute`, `pg_attrdef`, `pg_index`, and the views
//! over them.

use super::{Named, OWNER, OWNER_NAME, RowSource, int, sequences, text};
use crate::datum::Datum;
use crate::definitions::index_definition;
use crate::description::{DescribedColumn, IndexDescription, ObjectRights, Oid, TableDescription};
use crate::relations::{self, PUBLIC, RelationDefinition};
use crate::rights::{self, OF_SEQUENCE, OF_TABLE};
use crate::types;

/// The system columns: name, number, type.
const HIDDEN: [(&str, i64, Oid); 6] = [
    ("tableoid", -6, types::OID),
    ("cmax", -5, types::CID),
    ("xmax", -4, types::XID),
    ("cmin", -3, types::CID),
    ("xmin", -2, types::XID),
    ("ctid", -1, 27),
];

/// The number of the access method of tables, and of indexes.
const HEAP: Oid = 2;
const BTREE: Oid = 403;

// tidy: long — a dispatching match over the relations.
pub(super) fn rows(relation: &str, source: RowSource<'_>) -> Option<Vec<Named>> {
    let tables = source.schema.tables.iter();
    Some(match relation {
        "pg_class" => {
            let own = tables.flat_map(|table| {
                let indexes = table.indexes.iter();
                let indexes = indexes.map(|index| index_class(table, index));
                [table_class(source, table)].into_iter().chain(indexes)
            });
            let sequences = source.schema.sequences.iter().map(|sequence| {
                let mut row = class(sequence.oid, &sequence.name, PUBLIC, "S");
                row.extend([
                    ("relnatts", int(sequences::COLUMNS.len())),
                    ("relreplident", text("n")),
                ]);
                row.extend(owned(source, &sequence.rights, OF_SEQUENCE));
                row
            });
            own.chain(sequences)
                .chain(relations::all().iter().map(system_class))
                .collect()
        }
        "pg_attribute" => {
            let own = tables.flat_map(|table| {
                let indexes = table.indexes.iter();
                let indexes = indexes.flat_map(move |it| index_attributes(table, it));
                table_attributes(table)
                    .chain(hidden_attributes(table))
                    .chain(indexes)
            });
            let system = relations::all().iter().flat_map(system_attributes);
            let sequences = source.schema.sequences.iter().flat_map(|sequence| {
                let columns = sequences::COLUMNS.iter().enumerate();
                columns.map(|(position, (name, type_oid))| {
                    let mut row = attribute(sequence.oid, name, position + 1, (*type_oid, -1));
                    row.push(("attnotnull", Datum::Bool(true)));
                    row
                })
            });
            own.chain(sequences).chain(system).collect()
        }
        "pg_attrdef" => tables.flat_map(defaults).collect(),
        "pg_index" => tables
            .flat_map(|table| table.indexes.iter().map(move |it| index(table, it)))
            .collect(),
        "pg_tables" => {
            let own = tables.map(|table| pg_table(source, table));
            let system = relations::all().iter().filter(|it| it.kind == 'r');
            own.chain(system.map(|it| {
                vec![
                    ("schemaname", text(it.schema)),
                    ("tablename", text(it.name)),
                    ("tableowner", text(OWNER_NAME)),
                    ("hasindexes", Datum::Bool(false)),
                    ("hasrules", Datum::Bool(false)),
                    ("hastriggers", Datum::Bool(false)),
                    ("rowsecurity", Datum::Bool(false)),
                ]
            }))
            .collect()
        }
        "pg_views" => {
            let views = relations::all().iter().filter(|it| it.kind == 'v');
            views
                .map(|it| {
                    vec![
                        ("schemaname", text(it.schema)),
                        ("viewname", text(it.name)),
                        ("viewowner", text(OWNER_NAME)),
                    ]
                })
                .collect()
        }
        "pg_indexes" => tables
            .flat_map(|table| {
                table.indexes.iter().map(move |it| {
                    vec![
                        ("schemaname", text("public")),
                        ("tablename", text(&table.name)),
                        ("indexname", text(&it.name)),
                        ("indexdef", text(index_definition(table, it, true))),
                    ]
                })
            })
            .collect(),
        "pg_stat_user_tables"
        | "pg_stat_all_tables"
        | "pg_statio_user_tables"
        | "pg_statio_all_tables"
        | "pg_stat_xact_user_tables"
        | "pg_stat_xact_all_tables" => tables
            .map(|table| {
                vec![
                    ("relid", Datum::oid(table.oid)),
                    ("schemaname", text("public")),
                    ("relname", text(&table.name)),
                ]
            })
            .collect(),
        "pg_stat_user_indexes"
        | "pg_stat_all_indexes"
        | "pg_statio_user_indexes"
        | "pg_statio_all_indexes" => tables
            .flat_map(|table| {
                table.indexes.iter().map(move |it| {
                    vec![
                        ("relid", Datum::oid(table.oid)),
                        ("indexrelid", Datum::oid(it.oid)),
                        ("schemaname", text("public")),
                        ("relname", text(&table.name)),
                        ("indexrelname", text(&it.name)),
                    ]
                })
            })
            .collect(),
        _ => return None,
    })
}

/// Returns the values that the rows of all kinds of relations have.
fn class(oid: Oid, name: &str, namespace: Oid, kind: &'static str) -> Named {
    vec![
        ("oid", Datum::oid(oid)),
        ("relname", text(name)),
        ("relnamespace", Datum::oid(namespace)),
        ("relowner", Datum::oid(OWNER)),
        ("relfilenode", Datum::oid(oid)),
        ("reltuples", Datum::float(-1.0)),
        ("relpersistence", text("p")),
        ("relkind", text(kind)),
        ("relispopulated", Datum::Bool(true)),
    ]
}

fn table_class(source: RowSource<'_>, table: &TableDescription) -> Named {
    let mut row = class(table.oid, &table.name, PUBLIC, "r");
    row.extend([
        ("relam", Datum::oid(HEAP)),
        ("relhasindex", Datum::Bool(!table.indexes.is_empty())),
        ("relnatts", int(table.columns.len())),
        ("relchecks", int(table.checks.len())),
        ("relhastriggers", Datum::Bool(has_triggers(source, table))),
        ("relreplident", text("d")),
    ]);
    row.extend(owned(source, &table.rights, OF_TABLE));
    row
}

/// Returns the owner and the privileges of a table or sequence. `all` are those of the owner.
fn owned(source: RowSource<'_>, rights: &ObjectRights, all: &str) -> Named {
    let list = rights.list(source.schema, all);
    vec![
        ("relowner", Datum::oid(rights.owner())),
        ("relacl", Datum::option(list, Datum::texts)),
    ]
}

/// Returns whether foreign keys refer to the table or from it: PostgreSQL checks them by triggers.
fn has_triggers(source: RowSource<'_>, table: &TableDescription) -> bool {
    let mut keys = source.schema.tables.iter().flat_map(|it| &it.foreign_keys);
    !table.foreign_keys.is_empty() || keys.any(|key| key.parent == table.name)
}

fn index_class(table: &TableDescription, index: &IndexDescription) -> Named {
    let mut row = class(index.oid, &index.name, PUBLIC, "i");
    row.extend([
        ("relowner", Datum::oid(table.rights.owner())),
        ("relam", Datum::oid(BTREE)),
        ("relnatts", int(index.keys.len() + index.included.len())),
        ("relreplident", text("n")),
    ]);
    row
}

fn system_class(relation: &RelationDefinition) -> Named {
    let is_table = relation.kind == 'r';
    let kind = if is_table { "r" } else { "v" };
    let mut row = class(relation.oid, relation.name, relation.namespace(), kind);
    row.extend([
        ("relam", Datum::oid(if is_table { HEAP } else { 0 })),
        ("relnatts", int(relation.columns.len())),
        ("relhasrules", Datum::Bool(!is_table)),
        ("relreplident", text("n")),
    ]);
    row
}

/// Returns the values that the rows of all attributes have.
fn attribute(relation: Oid, name: &str, number: usize, (type_oid, modifier): (Oid, i32)) -> Named {
    let found = types::by_oid(type_oid);
    let field = |position: usize| found.map_or("", |it| it.fields[position]);
    let is_array = types::element(type_oid).is_some();
    vec![
        ("attrelid", Datum::oid(relation)),
        ("attname", text(name)),
        ("atttypid", Datum::oid(type_oid)),
        ("attstattarget", Datum::Int(-1)),
        ("attlen", int(found.map_or(-1, |it| it.length))),
        ("attnum", int(number)),
        ("attndims", int(u8::from(is_array))),
        ("attcacheoff", Datum::Int(-1)),
        ("atttypmod", int(modifier)),
        ("attbyval", Datum::Bool(field(3) == "t")),
        ("attalign", text(field(18))),
        ("attstorage", text(field(19))),
        ("attislocal", Datum::Bool(true)),
        ("attcollation", int(field(20).parse::<i64>().unwrap_or(0))),
    ]
}

fn column_attribute(relation: Oid, number: usize, column: &DescribedColumn) -> Named {
    let type_and_modifier = (column.type_oid, column.type_modifier);
    attribute(relation, &column.name, number, type_and_modifier)
}

fn table_attributes(table: &TableDescription) -> impl Iterator<Item = Named> {
    table.columns.iter().enumerate().map(|(position, column)| {
        let mut row = column_attribute(table.oid, position + 1, column);
        row.extend([
            ("attnotnull", Datum::Bool(column.not_null)),
            ("atthasdef", Datum::Bool(column.default.is_some())),
            (
                "attidentity",
                text(column.identity.map_or(String::new(), String::from)),
            ),
            (
                "attgenerated",
                text(if column.is_generated { "s" } else { "" }),
            ),
        ]);
        if column.is_hidden {
            let name = format!("........pg.dropped.{}........", position + 1);
            row.extend([
                ("attname", text(name)),
                ("atttypid", Datum::oid(0)),
                ("attnotnull", Datum::Bool(false)),
                ("atthasdef", Datum::Bool(false)),
                ("attisdropped", Datum::Bool(true)),
            ]);
        }
        row
    })
}

/// Returns the system columns that each table of PostgreSQL has.
fn hidden_attributes(table: &TableDescription) -> impl Iterator<Item = Named> {
    HIDDEN.iter().map(|(name, number, type_oid)| {
        let mut row = attribute(table.oid, name, 0, (*type_oid, -1));
        row.extend([
            ("attnum", Datum::Int(*number)),
            ("attnotnull", Datum::Bool(true)),
        ]);
        row
    })
}

fn index_attributes<'a>(
    table: &'a TableDescription,
    index: &'a IndexDescription,
) -> impl Iterator<Item = Named> + 'a {
    let keys = index.keys.iter().map(|key| key.column);
    let columns = keys.chain(index.included.iter().copied()).enumerate();
    columns.map(move |(position, column)| {
        column_attribute(index.oid, position + 1, &table.columns[column])
    })
}

fn system_attributes(relation: &RelationDefinition) -> impl Iterator<Item = Named> {
    relation
        .columns
        .iter()
        .enumerate()
        .map(|(position, column)| {
            let mut row = attribute(
                relation.oid,
                column.name,
                position + 1,
                (column.type_oid, -1),
            );
            row.push(("attnotnull", Datum::Bool(column.not_null)));
            // Texts of the catalogue are in the order of their bytes.
            if types::by_oid(column.type_oid).is_some_and(|it| it.fields[20] != "0") {
                row.push(("attcollation", Datum::Int(950)));
            }
            row
        })
}

fn defaults(table: &TableDescription) -> impl Iterator<Item = Named> {
    let columns = table.columns.iter().enumerate();
    columns.filter_map(|(position, column)| {
        let default = column.default.as_ref().filter(|_| !column.is_hidden)?;
        Some(vec![
            ("oid", Datum::oid(column.default_oid)),
            ("adrelid", Datum::oid(table.oid)),
            ("adnum", int(position + 1)),
            ("adbin", text(default)),
        ])
    })
}

fn index(table: &TableDescription, index: &IndexDescription) -> Named {
    let keys = || index.keys.iter().map(|key| &table.columns[key.column]);
    let numbers = index.keys.iter().map(|key| int(key.column + 1));
    let included = index.included.iter().map(|column| int(column + 1));
    let options = index
        .keys
        .iter()
        .map(|key| int(u8::from(key.descending) + 2 * u8::from(key.nulls_first)));
    let collations = keys().map(|column| {
        let found = types::by_oid(column.type_oid);
        int(found
            .and_then(|it| it.fields[20].parse::<i64>().ok())
            .unwrap_or(0))
    });
    let classes = keys().map(|column| Datum::oid(super::system::operator_class(column.type_oid)));
    vec![
        ("indexrelid", Datum::oid(index.oid)),
        ("indrelid", Datum::oid(table.oid)),
        ("indnatts", int(index.keys.len() + index.included.len())),
        ("indnkeyatts", int(index.keys.len())),
        ("indisunique", Datum::Bool(index.is_unique)),
        ("indisprimary", Datum::Bool(index.is_primary)),
        ("indimmediate", Datum::Bool(true)),
        ("indisvalid", Datum::Bool(true)),
        ("indisready", Datum::Bool(true)),
        ("indislive", Datum::Bool(true)),
        ("indkey", Datum::vector(numbers.chain(included))),
        ("indcollation", Datum::vector(collations)),
        ("indclass", Datum::vector(classes)),
        ("indoption", Datum::vector(options)),
    ]
}

fn pg_table(source: RowSource<'_>, table: &TableDescription) -> Named {
    vec![
        ("schemaname", text("public")),
        ("tablename", text(&table.name)),
        (
            "tableowner",
            text(rights::role_text(source.schema, table.rights.owner())),
        ),
        ("hasindexes", Datum::Bool(!table.indexes.is_empty())),
        ("hasrules", Datum::Bool(false)),
        ("hastriggers", Datum::Bool(has_triggers(source, table))),
        ("rowsecurity", Datum::Bool(false)),
    ]
}
