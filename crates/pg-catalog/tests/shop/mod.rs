//! A small schema, and the answers of statements over it as psql prints them.

use std::sync::atomic::{AtomicBool, AtomicU64};

use pg_catalog::{
    CatalogueExecution, CatalogueStatement, CheckDescription, DescribedColumn,
    ForeignKeyDescription, IndexDescription, IndexKey, Oid, SchemaCatalogue, SchemaDescription,
    SessionDescription, TableDescription,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::Tokenizer;

fn column(
    name: &str,
    (type_oid, type_modifier): (Oid, i32),
    not_null: bool,
    default: Option<(&str, Oid)>,
) -> DescribedColumn {
    DescribedColumn {
        name: name.into(),
        type_oid,
        type_modifier,
        not_null,
        default: default.map(|it| it.0.into()),
        default_oid: default.map_or(0, |it| it.1),
        ..DescribedColumn::default()
    }
}

fn index(name: &str, (oid, constraint_oid): (Oid, Oid), columns: &[usize]) -> IndexDescription {
    let keys = columns.iter().map(|column| IndexKey {
        column: *column,
        ..IndexKey::default()
    });
    IndexDescription {
        oid,
        constraint_oid,
        name: name.into(),
        is_primary: constraint_oid != 0,
        is_unique: constraint_oid != 0,
        keys: keys.collect(),
        included: Vec::new(),
    }
}

fn key(
    name: &str,
    oid: Oid,
    column: usize,
    parent: &str,
    on_delete: char,
) -> ForeignKeyDescription {
    ForeignKeyDescription {
        oid,
        name: name.into(),
        columns: vec![column],
        parent: parent.into(),
        on_update: 'a',
        on_delete,
        is_deferrable: false,
        is_deferred: false,
        is_valid: true,
    }
}

fn flights() -> TableDescription {
    let mut by_route = index("flights_route_idx", (16_435, 0), &[2, 3]);
    by_route.keys[1].descending = true;
    by_route.keys[1].nulls_first = true;
    TableDescription {
        oid: 16_407,
        name: "flights".into(),
        columns: vec![
            column("id", (20, -1), true, None),
            column("carrier", (1043, 6), true, None),
            column("tailnum", (1043, 10), false, None),
            column("dep", (1114, -1), false, None),
            column("arr", (1184, -1), false, Some(("now()", 16_410))),
            column("delay", (701, -1), false, None),
            column("cancelled", (16, -1), true, Some(("false", 16_411))),
            column("code", (1042, 7), false, None),
            column("payload", (17, -1), false, None),
            column(
                "token",
                (2950, -1),
                false,
                Some(("gen_random_uuid()", 16_412)),
            ),
        ],
        indexes: vec![
            index("flights_pkey", (16_415, 16_416), &[0]),
            index("flights_carrier_idx", (16_434, 0), &[1]),
            by_route,
        ],
        checks: Vec::new(),
        foreign_keys: vec![
            key("flights_carrier_fkey", 16_417, 1, "airlines", 'c'),
            key("flights_tailnum_fkey", 16_422, 2, "planes", 'a'),
        ],
        ..TableDescription::default()
    }
}

fn planes() -> TableDescription {
    let mut by_model = index("planes_model_idx", (16_436, 0), &[2, 1]);
    by_model.is_unique = true;
    TableDescription {
        oid: 16_396,
        name: "planes".into(),
        columns: vec![
            column("tailnum", (1043, 10), true, None),
            column("year", (21, -1), false, None),
            column("model", (25, -1), false, Some(("'unknown'::text", 16_399))),
            column("seats", (23, -1), true, Some(("1", 16_400))),
            column("speed", (700, -1), false, None),
            column("bought", (1082, -1), false, Some(("CURRENT_DATE", 16_401))),
        ],
        indexes: vec![index("planes_pkey", (16_405, 16_406), &[0]), by_model],
        checks: vec![CheckDescription {
            oid: 16_402,
            name: "planes_seats_check".into(),
            condition: "(seats > 0)".into(),
            columns: vec![3],
            is_valid: true,
        }],
        foreign_keys: Vec::new(),
        ..TableDescription::default()
    }
}

/// Returns the catalogue of the schema.
pub fn shop() -> SchemaCatalogue {
    let airlines = TableDescription {
        oid: 16_389,
        name: "airlines".into(),
        columns: vec![
            column("carrier", (1043, 6), true, None),
            column("name", (25, -1), true, None),
        ],
        indexes: vec![index("airlines_pkey", (16_394, 16_395), &[0])],
        ..TableDescription::default()
    };
    let seats = TableDescription {
        oid: 16_427,
        name: "seats".into(),
        columns: vec![
            column("flight", (20, -1), true, None),
            column("seat", (25, -1), true, None),
            column("price", (20, -1), false, None),
        ],
        indexes: vec![index("seats_pkey", (16_432, 16_433), &[0, 1])],
        ..TableDescription::default()
    };
    SchemaCatalogue::new(SchemaDescription {
        tables: vec![airlines, planes(), flights(), seats],
        ..SchemaDescription::default()
    })
}

/// Returns the session that asks.
pub fn session() -> SessionDescription {
    let settings = [
        ("default_table_access_method", "heap"),
        ("search_path", "\"$user\", public"),
        ("server_version", "15.0"),
        ("standard_conforming_strings", "on"),
    ];
    SessionDescription {
        user: "postgres".into(),
        database: "shop".into(),
        process: 7,
        settings: settings
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        ..SessionDescription::default()
    }
}

/// Returns the answer of a statement: the names of the columns, then the rows; or the error.
pub fn answer(catalogue: &SchemaCatalogue, statement: &str) -> String {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, statement).tokenize_with_location();
    let parsed = CatalogueStatement::parse(&tokens.expect("the statement has valid tokens"));
    let executed = parsed.and_then(|parsed| {
        parsed.expect("it is a query").execute(CatalogueExecution {
            catalogue,
            session: &session(),
            types: &[],
            parameters: &[],
            binary: &[],
            sleep_us: &AtomicU64::new(0),
            canceled: &AtomicBool::new(false),
        })
    });
    let (columns, rows) = match executed {
        Ok(executed) => executed,
        Err(error) => return format!("ERROR {}: {error}", error.sqlstate),
    };
    let names: Vec<&str> = columns.iter().map(|it| &*it.name).collect();
    let mut lines = vec![names.join("|")];
    for row in rows {
        let cells = row.into_iter().map(|cell| match cell {
            None => "∅".to_owned(),
            Some(bytes) => String::from_utf8(bytes).expect("values are texts in UTF-8"),
        });
        lines.push(cells.collect::<Vec<_>>().join("|"));
    }
    lines.join("\n")
}
