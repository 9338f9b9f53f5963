//! The rows of `information_schema`. The views of privileges show those that concern the session's
//! role; the others show everything.

use super::server::roles;
use super::{Named, RowSource, SCHEMAS, int, role_name, sequences, text, yes_no};
use crate::datum::Datum;
use crate::definitions::{action_name, check_definition, primary_columns};
use crate::description::{DescribedColumn, IndexDescription, TableDescription};
use crate::relations::{self, PUBLIC};
use crate::rights::{Asker, COLUMN_PRIVILEGES, PRIVILEGES, TABLE_PRIVILEGES, role_text};
use crate::types;

/// The grantee of privileges that everybody has.
const PUBLIC_GRANTEE: &str = "PUBLIC";

pub(super) fn rows(relation: &str, source: RowSource<'_>) -> Option<Vec<Named>> {
    let database = text(&source.session.database);
    let tables = source.schema.tables.iter();
    Some(match relation {
        "information_schema_catalog_name" => vec![vec![("catalog_name", database)]],
        "schemata" => schemata(source),
        "tables" => all_tables(source),
        "columns" => all_columns(source),
        "sequences" => sequences::of_information_schema(source),
        "views" => views(source),
        "table_constraints" => tables
            .flat_map(|it| table_constraints(&database, it))
            .collect(),
        "check_constraints" => tables
            .flat_map(|it| check_constraints(&database, it))
            .collect(),
        "referential_constraints" => referential_constraints(source),
        "key_column_usage" => key_columns(source),
        "constraint_column_usage" => constraint_columns(source),
        "constraint_table_usage" => constraint_tables(source),
        "table_privileges" | "role_table_grants" => {
            let shows_public = relation == "table_privileges";
            tables
                .flat_map(|table| table_privileges(source, table, shows_public))
                .collect()
        }
        "column_privileges" | "role_column_grants" => {
            let shows_public = relation == "column_privileges";
            tables
                .flat_map(|table| column_privileges(source, table, shows_public))
                .collect()
        }
        "enabled_roles" => roles(source.schema, source.session)
            .iter()
            .filter(|role| asker(source).reaches(role.oid))
            .map(|role| vec![("role_name", text(&role.name))])
            .collect(),
        "character_sets" => vec![vec![
            ("character_set_name", text("UTF8")),
            ("character_repertoire", text("UCS")),
            ("form_of_use", text("UTF8")),
            ("default_collate_catalog", database),
            ("default_collate_schema", text("pg_catalog")),
            ("default_collate_name", text("C")),
        ]],
        "collations" => ["default", "C", "POSIX"]
            .into_iter()
            .map(|name| {
                vec![
                    ("collation_catalog", database.clone()),
                    ("collation_schema", text("pg_catalog")),
                    ("collation_name", text(name)),
                    ("pad_attribute", text("NO PAD")),
                ]
            })
            .collect(),
        _ => return None,
    })
}

fn schemata(RowSource { schema, session }: RowSource<'_>) -> Vec<Named> {
    let schemas = SCHEMAS.iter().map(|(_, name, owner)| {
        vec![
            ("catalog_name", text(&session.database)),
            ("schema_name", text(name)),
            (
                "schema_owner",
                Datum::option(role_name(schema, session, *owner), text),
            ),
        ]
    });
    schemas.collect()
}

fn all_tables(source: RowSource<'_>) -> Vec<Named> {
    let row = |schema: &str, name: &str, kind: &'static str| {
        vec![
            ("table_catalog", text(&source.session.database)),
            ("table_schema", text(schema)),
            ("table_name", text(name)),
            ("table_type", text(kind)),
            ("is_insertable_into", yes_no(kind == "BASE TABLE")),
            ("is_typed", yes_no(false)),
        ]
    };
    let own = source.schema.tables.iter();
    let own = own.map(|table| row("public", &table.name, "BASE TABLE"));
    let system = relations::all().iter().map(|relation| match relation.kind {
        'r' => row(relation.schema, relation.name, "BASE TABLE"),
        _ => row(relation.schema, relation.name, "VIEW"),
    });
    own.chain(system).collect()
}

fn views(source: RowSource<'_>) -> Vec<Named> {
    let views = relations::all().iter().filter(|it| it.kind == 'v');
    let views = views.map(|view| {
        vec![
            ("table_catalog", text(&source.session.database)),
            ("table_schema", text(view.schema)),
            ("table_name", text(view.name)),
            ("check_option", text("NONE")),
            ("is_updatable", yes_no(false)),
            ("is_insertable_into", yes_no(false)),
            ("is_trigger_updatable", yes_no(false)),
            ("is_trigger_deletable", yes_no(false)),
            ("is_trigger_insertable_into", yes_no(false)),
        ]
    });
    views.collect()
}

fn all_columns(source: RowSource<'_>) -> Vec<Named> {
    let database = &source.session.database;
    let own = source.schema.tables.iter().flat_map(|table| {
        let columns = table.columns.iter().enumerate();
        let columns = columns.filter(|(_, it)| !it.is_hidden);
        columns.map(|(at, it)| column(database, ("public", &table.name), at + 1, it))
    });
    let system = relations::all().iter().flat_map(|relation| {
        relation.columns.iter().enumerate().map(move |(at, it)| {
            let described = DescribedColumn {
                name: it.name.to_owned(),
                type_oid: it.type_oid,
                type_modifier: -1,
                not_null: it.not_null,
                ..DescribedColumn::default()
            };
            column(
                database,
                (relation.schema, relation.name),
                at + 1,
                &described,
            )
        })
    });
    own.chain(system).collect()
}

// tidy: long — the columns of one view.
fn column(
    database: &str,
    (schema, table): (&str, &str),
    number: usize,
    column: &DescribedColumn,
) -> Named {
    let type_oid = column.type_oid;
    let found = types::by_oid(type_oid);
    let is_array = types::element(type_oid).is_some();
    let data_type = match is_array {
        true => "ARRAY",
        false => types::sql_name(type_oid),
    };
    let limit = match type_oid {
        types::VARCHAR | types::BPCHAR => Some(column.type_modifier - 4).filter(|it| *it > 0),
        _ => None,
    };
    let octets = match type_oid {
        types::TEXT => Some(1 << 30),
        types::VARCHAR | types::BPCHAR => Some(limit.map_or(1 << 30, |it| it * 4)),
        _ => None,
    };
    let precision = match type_oid {
        types::INT2 => Some((16, 2, Some(0))),
        types::INT4 => Some((32, 2, Some(0))),
        types::INT8 => Some((64, 2, Some(0))),
        types::FLOAT4 => Some((24, 2, None)),
        types::FLOAT8 => Some((53, 2, None)),
        types::NUMERIC if column.type_modifier >= 4 => {
            let (precision, scale) = types::numeric_limits(column.type_modifier);
            Some((precision, 10, Some(scale)))
        }
        _ => None,
    };
    let digits = match type_oid {
        types::INTERVAL => Some(types::second_digits(column.type_modifier).unwrap_or(6)),
        types::TIME | types::TIMESTAMP | types::TIMESTAMPTZ => Some(if column.type_modifier < 0 {
            6
        } else {
            column.type_modifier
        }),
        1082 => Some(0),
        _ => None,
    };
    let radix = if type_oid == types::NUMERIC {
        Some(10)
    } else {
        precision.map(|it| it.1)
    };
    let expression = |is_shown: bool| {
        let shown = column.default.as_ref().filter(|_| is_shown);
        Datum::option(shown, text)
    };
    vec![
        ("table_catalog", text(database)),
        ("table_schema", text(schema)),
        ("table_name", text(table)),
        ("column_name", text(&column.name)),
        ("ordinal_position", int(number)),
        ("column_default", expression(!column.is_generated)),
        ("is_nullable", yes_no(!column.not_null)),
        ("data_type", text(data_type)),
        ("character_maximum_length", Datum::option(limit, int)),
        ("character_octet_length", Datum::option(octets, int)),
        (
            "numeric_precision",
            Datum::option(precision.map(|it| it.0), int),
        ),
        ("numeric_precision_radix", Datum::option(radix, int)),
        (
            "numeric_scale",
            Datum::option(precision.and_then(|it| it.2), int),
        ),
        ("datetime_precision", Datum::option(digits, int)),
        ("udt_catalog", text(database)),
        ("udt_schema", text("pg_catalog")),
        ("udt_name", text(found.map_or("", |it| it.name))),
        ("dtd_identifier", text(number.to_string())),
        ("is_self_referencing", yes_no(false)),
        ("is_identity", yes_no(column.identity.is_some())),
        (
            "identity_generation",
            Datum::option(column.identity, |it| {
                text(if it == 'a' { "ALWAYS" } else { "BY DEFAULT" })
            }),
        ),
        ("identity_cycle", yes_no(false)),
        (
            "is_generated",
            text(if column.is_generated {
                "ALWAYS"
            } else {
                "NEVER"
            }),
        ),
        ("generation_expression", expression(column.is_generated)),
        ("is_updatable", yes_no(schema == "public")),
    ]
}

/// Returns the columns by which views about constraints name one.
fn constraint(database: &Datum, name: &str) -> Named {
    vec![
        ("constraint_catalog", database.clone()),
        ("constraint_schema", text("public")),
        ("constraint_name", text(name)),
    ]
}

fn of_table(database: &Datum, table: &TableDescription) -> Named {
    vec![
        ("table_catalog", database.clone()),
        ("table_schema", text("public")),
        ("table_name", text(&table.name)),
    ]
}

/// Returns the name of the constraint by which a view shows that a column is never NULL.
fn not_null_name(table: &TableDescription, position: usize) -> String {
    format!("{PUBLIC}_{}_{}_not_null", table.oid, position + 1)
}

fn not_null(table: &TableDescription) -> impl Iterator<Item = (String, &DescribedColumn)> {
    let columns = table.columns.iter().enumerate();
    let columns = columns.filter(|(_, column)| column.not_null && !column.is_hidden);
    columns.map(|(position, column)| (not_null_name(table, position), column))
}

fn keys(table: &TableDescription) -> impl Iterator<Item = &IndexDescription> {
    table
        .indexes
        .iter()
        .filter(|index| index.constraint_oid != 0)
}

fn table_constraints(database: &Datum, table: &TableDescription) -> Vec<Named> {
    let row = |name: &str, kind: &'static str, (deferrable, deferred): (bool, bool)| {
        let mut row = constraint(database, name);
        row.extend(of_table(database, table));
        row.extend([
            ("constraint_type", text(kind)),
            ("is_deferrable", yes_no(deferrable)),
            ("initially_deferred", yes_no(deferred)),
            ("enforced", yes_no(true)),
        ]);
        if kind == "UNIQUE" {
            row.push(("nulls_distinct", yes_no(true)));
        }
        row
    };
    let never = (false, false);
    let keys = keys(table).map(|index| {
        let kind = if index.is_primary {
            "PRIMARY KEY"
        } else {
            "UNIQUE"
        };
        row(&index.name, kind, never)
    });
    let checks = table
        .checks
        .iter()
        .map(|check| row(&check.name, "CHECK", never));
    let not_null = not_null(table).map(|(name, _)| row(&name, "CHECK", never));
    let references = table.foreign_keys.iter().map(|key| {
        row(
            &key.name,
            "FOREIGN KEY",
            (key.is_deferrable, key.is_deferred),
        )
    });
    keys.chain(checks)
        .chain(not_null)
        .chain(references)
        .collect()
}

fn check_constraints(database: &Datum, table: &TableDescription) -> Vec<Named> {
    let row = |name: &str, clause: String| {
        let mut row = constraint(database, name);
        row.push(("check_clause", text(clause)));
        row
    };
    let checks = table.checks.iter().map(|check| {
        let definition = check_definition(check, false);
        row(
            &check.name,
            definition.trim_start_matches("CHECK ").to_owned(),
        )
    });
    let not_null =
        not_null(table).map(|(name, column)| row(&name, format!("{} IS NOT NULL", column.name)));
    checks.chain(not_null).collect()
}

fn referential_constraints(source: RowSource<'_>) -> Vec<Named> {
    let database = text(&source.session.database);
    let tables = source.schema.tables.iter();
    let keys = tables.flat_map(|table| &table.foreign_keys).map(|key| {
        let mut row = constraint(&database, &key.name);
        row.extend([
            ("match_option", text("NONE")),
            ("update_rule", text(action_name(key.on_update))),
            ("delete_rule", text(action_name(key.on_delete))),
        ]);
        let parent = source.schema.tables.iter().find(|it| it.name == key.parent);
        let primary = parent.and_then(|it| it.indexes.iter().find(|index| index.is_primary));
        if let Some(primary) = primary {
            row.extend([
                ("unique_constraint_catalog", database.clone()),
                ("unique_constraint_schema", text("public")),
                ("unique_constraint_name", text(&primary.name)),
            ]);
        }
        row
    });
    keys.collect()
}

fn key_columns(source: RowSource<'_>) -> Vec<Named> {
    let database = text(&source.session.database);
    let mut rows = Vec::new();
    for table in &source.schema.tables {
        let mut add = |name: &str, columns: &[usize], refers: bool| {
            for (position, column) in columns.iter().enumerate() {
                let mut row = constraint(&database, name);
                row.extend(of_table(&database, table));
                row.extend([
                    ("column_name", text(&table.columns[*column].name)),
                    ("ordinal_position", int(position + 1)),
                ]);
                if refers {
                    row.push(("position_in_unique_constraint", int(position + 1)));
                }
                rows.push(row);
            }
        };
        for index in keys(table) {
            let columns: Vec<usize> = index.keys.iter().map(|key| key.column).collect();
            add(&index.name, &columns, false);
        }
        for key in &table.foreign_keys {
            add(&key.name, &key.columns, true);
        }
    }
    rows
}

/// Returns the constraints with the tables and columns that they use: those that a foreign key
/// refers to.
fn used(source: RowSource<'_>) -> Vec<(&str, &TableDescription, Vec<usize>)> {
    let mut used = Vec::new();
    for table in &source.schema.tables {
        for index in keys(table) {
            let columns = index.keys.iter().map(|key| key.column).collect();
            used.push((&*index.name, table, columns));
        }
        for check in &table.checks {
            used.push((&*check.name, table, check.columns.clone()));
        }
        for key in &table.foreign_keys {
            let parent = source.schema.tables.iter().find(|it| it.name == key.parent);
            used.extend(parent.map(|parent| (&*key.name, parent, primary_columns(parent))));
        }
    }
    used
}

fn constraint_columns(source: RowSource<'_>) -> Vec<Named> {
    let database = text(&source.session.database);
    let mut rows = Vec::new();
    for (name, table, columns) in used(source) {
        for column in columns {
            let mut row = constraint(&database, name);
            row.extend(of_table(&database, table));
            row.push(("column_name", text(&table.columns[column].name)));
            rows.push(row);
        }
    }
    rows
}

fn constraint_tables(source: RowSource<'_>) -> Vec<Named> {
    let database = text(&source.session.database);
    let used = used(source).into_iter().map(|(name, table, _)| {
        let mut row = constraint(&database, name);
        row.extend(of_table(&database, table));
        row
    });
    used.collect()
}

fn asker(source: RowSource<'_>) -> Asker<'_> {
    Asker::named(source.schema, &source.session.user)
}

fn table_privileges(
    source: RowSource<'_>,
    table: &TableDescription,
    shows_public: bool,
) -> Vec<Named> {
    let rows = privileges(source, table, TABLE_PRIVILEGES).into_iter();
    let rows = rows.filter(|(_, grantee)| shows_public || *grantee != PUBLIC_GRANTEE);
    let rows = rows.map(|(mut row, _)| {
        let is_select = row.iter().any(|(_, value)| *value == text("SELECT"));
        row.push(("with_hierarchy", yes_no(is_select)));
        row
    });
    rows.collect()
}

fn column_privileges(
    source: RowSource<'_>,
    table: &TableDescription,
    shows_public: bool,
) -> Vec<Named> {
    let columns = table.columns.iter().filter(|it| !it.is_hidden);
    let rows = columns.flat_map(|column| {
        let rows = privileges(source, table, COLUMN_PRIVILEGES).into_iter();
        let rows = rows.filter(|(_, grantee)| shows_public || *grantee != PUBLIC_GRANTEE);
        rows.map(|(mut row, _)| {
            row.push(("column_name", text(&column.name)));
            row
        })
    });
    rows.collect()
}

/// Returns the rows of some privileges for a table that concern the session's role, and their
/// grantees.
fn privileges(
    source: RowSource<'_>,
    table: &TableDescription,
    names: &[&str],
) -> Vec<(Named, String)> {
    let (schema, rights, asker) = (source.schema, &table.rights, asker(source));
    let owner = rights.owner();
    let own = names.iter().map(|name| (owner, *name));
    let granted = rights.granted.iter().flat_map(|grant| {
        let letters = PRIVILEGES.iter();
        let letters = letters
            .filter(|(name, letter)| names.contains(name) && grant.letters.contains(*letter));
        letters.map(|(name, _)| (grant.grantee, *name))
    });
    let concerns = |(grantee, _): &(u32, &str)| {
        *grantee == 0 || asker.reaches(*grantee) || asker.reaches(owner)
    };
    let rows = own.chain(granted).filter(concerns).map(|(role, name)| {
        let grantee = match role {
            0 => PUBLIC_GRANTEE.to_owned(),
            role => role_text(schema, role),
        };
        let mut row = of_table(&text(&source.session.database), table);
        row.extend([
            ("grantor", text(role_text(schema, owner))),
            ("grantee", text(&grantee)),
            ("privilege_type", text(name)),
            ("is_grantable", yes_no(role == owner)),
        ]);
        (row, grantee)
    });
    rows.collect()
}
