//! The rows that are the same in every database: types, functions, operators, casts, schemas.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Named, OWNER, int, text};
use crate::datum::Datum;
use crate::description::{Oid, SchemaDescription};
use crate::relations::{INFORMATION_SCHEMA, PG_CATALOG, PUBLIC};
use crate::{rights, types};

/// The schemas, with their owners.
pub(crate) const SCHEMAS: [(Oid, &str, Oid); 4] = [
    (99, "pg_toast", OWNER),
    (PG_CATALOG, "pg_catalog", OWNER),
    (PUBLIC, "public", 6171),
    (INFORMATION_SCHEMA, "information_schema", OWNER),
];

/// The collations with their providers.
const COLLATIONS: [(Oid, &str, &str); 3] =
    [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")];

/// The columns of `data/procedures.tsv`.
pub(crate) const PROCEDURE_COLUMNS: [&str; 12] = [
    "oid",
    "proname",
    "prokind",
    "proisstrict",
    "proretset",
    "provolatile",
    "provariadic",
    "prorettype",
    "proargtypes",
    "proallargtypes",
    "proargmodes",
    "proargnames",
];
const OPERATOR_COLUMNS: [&str; 13] = [
    "oid",
    "oprname",
    "oprkind",
    "oprcanmerge",
    "oprcanhash",
    "oprleft",
    "oprright",
    "oprresult",
    "oprcom",
    "oprnegate",
    "oprcode",
    "oprrest",
    "oprjoin",
];
const CAST_COLUMNS: [&str; 6] = [
    "oid",
    "castsource",
    "casttarget",
    "castfunc",
    "castcontext",
    "castmethod",
];
const OPERATOR_CLASS_COLUMNS: [&str; 7] = [
    "oid",
    "opcmethod",
    "opcname",
    "opcfamily",
    "opcintype",
    "opcdefault",
    "opckeytype",
];

/// A function of PostgreSQL that the catalogue lists.
#[derive(Debug)]
pub(crate) struct ProcedureDefinition {
    pub oid: Oid,
    pub name: &'static str,
    pub is_set: bool,
    pub result: Oid,
    pub arguments: Vec<Oid>,
    fields: Vec<&'static str>,
}

/// The functions of PostgreSQL 15 that exist here, and those that read and write its types.
pub(crate) static PROCEDURES: LazyLock<Vec<ProcedureDefinition>> = LazyLock::new(|| {
    let lines = include_str!("../../data/procedures.tsv").lines();
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields.len(), PROCEDURE_COLUMNS.len(), "{line}");
            let arguments = fields[8].split_ascii_whitespace();
            ProcedureDefinition {
                oid: fields[0].parse().expect("the file has numbers"),
                name: fields[1],
                is_set: fields[4] == "t",
                result: fields[7].parse().expect("the file has numbers"),
                arguments: arguments.filter_map(|it| it.parse().ok()).collect(),
                fields,
            }
        })
        .collect()
});

/// Returns the numbers and names of the operators.
pub(crate) fn operators() -> impl Iterator<Item = (Oid, &'static str)> {
    let lines = include_str!("../../data/operators.tsv").lines();
    lines.filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?.parse().ok()?, fields.next()?))
    })
}

/// Returns the operator class by which a B-tree sorts values of a type.
pub(super) fn operator_class(type_oid: Oid) -> Oid {
    static CLASSES: LazyLock<HashMap<Oid, Oid>> = LazyLock::new(|| {
        let lines = include_str!("../../data/operator_classes.tsv").lines();
        lines
            .filter_map(|line| {
                let fields: Vec<&str> = line.split('\t').collect();
                let is_default = fields[5] == "t";
                is_default.then(|| Some((fields[4].parse().ok()?, fields[0].parse().ok()?)))?
            })
            .collect()
    });
    // A varchar is sorted as a text.
    let type_oid = if type_oid == types::VARCHAR {
        types::TEXT
    } else {
        type_oid
    };
    CLASSES.get(&type_oid).copied().unwrap_or(0)
}

/// Returns the rows of a file whose fields are the values of these columns.
fn of_file(file: &'static str, columns: &'static [&'static str], further: &Named) -> Vec<Named> {
    file.lines()
        .map(|line| {
            let fields = line.split('\t').zip(columns);
            let own = fields.map(|(field, column)| (*column, of_field(field)));
            own.chain(further.iter().cloned()).collect()
        })
        .collect()
}

fn of_field(field: &str) -> Datum {
    match field {
        "t" => Datum::Bool(true),
        "f" => Datum::Bool(false),
        field => field.parse().map_or_else(|_| text(field), Datum::Int),
    }
}

pub(super) fn rows(relation: &str, schema: &SchemaDescription) -> Option<Vec<Named>> {
    let in_catalogue = |owner: &'static str, schema: &'static str| {
        vec![(owner, Datum::oid(OWNER)), (schema, Datum::oid(PG_CATALOG))]
    };
    Some(match relation {
        "pg_namespace" => SCHEMAS.iter().map(|it| namespace(it, schema)).collect(),
        "pg_type" => types::all().iter().map(type_row).collect(),
        "pg_proc" => PROCEDURES.iter().map(procedure).collect(),
        "pg_operator" => of_file(
            include_str!("../../data/operators.tsv"),
            &OPERATOR_COLUMNS,
            &in_catalogue("oprowner", "oprnamespace"),
        ),
        "pg_cast" => of_file(include_str!("../../data/casts.tsv"), &CAST_COLUMNS, &vec![]),
        "pg_opclass" => of_file(
            include_str!("../../data/operator_classes.tsv"),
            &OPERATOR_CLASS_COLUMNS,
            &in_catalogue("opcowner", "opcnamespace"),
        ),
        "pg_opfamily" => families(),
        "pg_am" => [(2, "heap", "t"), (403, "btree", "i")]
            .into_iter()
            .map(|(oid, name, kind)| {
                vec![
                    ("oid", Datum::Int(oid)),
                    ("amname", text(name)),
                    ("amtype", text(kind)),
                ]
            })
            .collect(),
        "pg_language" => [(12, "internal", false), (13, "c", false), (14, "sql", true)]
            .into_iter()
            .map(|(oid, name, is_trusted)| {
                vec![
                    ("oid", Datum::Int(oid)),
                    ("lanname", text(name)),
                    ("lanowner", Datum::oid(OWNER)),
                    ("lanpltrusted", Datum::Bool(is_trusted)),
                ]
            })
            .collect(),
        "pg_collation" => COLLATIONS.iter().map(collation).collect(),
        "pg_range" => RANGES.iter().map(range).collect(),
        _ => return None,
    })
}

fn namespace((oid, name, owner): &(Oid, &str, Oid), schema: &SchemaDescription) -> Named {
    let mut row = vec![
        ("oid", Datum::oid(*oid)),
        ("nspname", text(name)),
        ("nspowner", Datum::oid(*owner)),
    ];
    if *oid == PUBLIC {
        let fixed = [
            "pg_database_owner=UC/pg_database_owner",
            "=U/pg_database_owner",
        ];
        let granted = schema.granted.iter().map(|grant| {
            let grantee = rights::role_text(schema, grant.grantee);
            format!("{grantee}={}/pg_database_owner", grant.letters)
        });
        let rights = fixed.map(str::to_owned).into_iter().chain(granted);
        row.push(("nspacl", Datum::texts(rights)));
    }
    row
}

fn type_row(found: &types::TypeDefinition) -> Named {
    let columns = types::TYPE_COLUMNS.iter().zip(&found.fields);
    let columns = columns.filter(|(column, _)| **column != "sql");
    let own = columns.map(|(column, field)| {
        let value = match *column {
            // Letters and names, also if they look like a truth value or a number.
            "typname" | "typtype" | "typcategory" | "typdelim" | "typalign" | "typstorage" => {
                text(field)
            }
            // The file has the names of these functions, and "-" for none.
            "typsubscript" => procedure_number(field),
            _ => of_field(field),
        };
        (*column, value)
    });
    own.chain([
        ("typnamespace", Datum::oid(PG_CATALOG)),
        ("typowner", Datum::oid(OWNER)),
        ("typisdefined", Datum::Bool(true)),
        ("typtypmod", Datum::Int(-1)),
    ])
    .collect()
}

fn procedure_number(name: &str) -> Datum {
    let found = PROCEDURES.iter().find(|it| it.name == name);
    Datum::oid(found.map_or(0, |it| it.oid))
}

fn procedure(found: &ProcedureDefinition) -> Named {
    let numbers = |field: &str| {
        let field = field.trim_matches(['{', '}']);
        let numbers = field.split([',', ' ']).filter_map(|it| it.parse().ok());
        numbers.map(Datum::Int).collect::<Vec<_>>()
    };
    let texts = |field: &str| {
        let items = field.trim_matches(['{', '}']).split(',');
        Datum::texts(items.map(|it| it.trim_matches('"')))
    };
    let mut row = vec![
        ("oid", Datum::oid(found.oid)),
        ("proname", text(found.name)),
        ("pronamespace", Datum::oid(PG_CATALOG)),
        ("proowner", Datum::oid(OWNER)),
        ("prolang", Datum::Int(12)),
        ("procost", Datum::float(1.0)),
        (
            "prorows",
            Datum::float(if found.is_set { 1000.0 } else { 0.0 }),
        ),
        ("proparallel", text("s")),
        ("prosrc", text(found.name)),
        ("pronargs", int(found.arguments.len())),
        ("prokind", text(found.fields[2])),
        ("proisstrict", of_field(found.fields[3])),
        ("proretset", Datum::Bool(found.is_set)),
        ("provolatile", text(found.fields[5])),
        ("provariadic", of_field(found.fields[6])),
        ("prorettype", Datum::oid(found.result)),
        ("proargtypes", Datum::vector(numbers(found.fields[8]))),
    ];
    if found.fields[9] != "null" {
        row.push(("proallargtypes", Datum::array(numbers(found.fields[9]))));
    }
    for (column, position) in [("proargmodes", 10), ("proargnames", 11)] {
        if found.fields[position] != "null" {
            row.push((column, texts(found.fields[position])));
        }
    }
    row
}

/// Returns the operator families of the operator classes.
fn families() -> Vec<Named> {
    let lines = include_str!("../../data/operator_classes.tsv").lines();
    let mut families: Vec<(i64, &str)> = lines
        .filter_map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            Some((fields[3].parse().ok()?, fields[7]))
        })
        .collect();
    families.sort_unstable();
    families.dedup();
    let families = families.into_iter().map(|(oid, name)| {
        vec![
            ("oid", Datum::Int(oid)),
            ("opfmethod", Datum::Int(403)),
            ("opfname", text(name)),
            ("opfnamespace", Datum::oid(PG_CATALOG)),
            ("opfowner", Datum::oid(OWNER)),
        ]
    });
    families.collect()
}

fn collation((oid, name, provider): &(Oid, &str, &str)) -> Named {
    let mut row = vec![
        ("oid", Datum::oid(*oid)),
        ("collname", text(name)),
        ("collnamespace", Datum::oid(PG_CATALOG)),
        ("collowner", Datum::oid(OWNER)),
        ("collprovider", text(provider)),
        ("collisdeterministic", Datum::Bool(true)),
        ("collencoding", Datum::Int(-1)),
    ];
    if *provider == "c" {
        row.extend([("collcollate", text(name)), ("collctype", text(name))]);
    }
    row
}

/// The range types: the type, its items, its multirange, and the operator class of its items.
const RANGES: [(Oid, Oid, Oid, Oid); 6] = [
    (3904, 23, 4451, 1978),
    (3906, 1700, 4532, 3125),
    (3908, 1114, 4533, 3128),
    (3910, 1184, 4534, 3127),
    (3912, 1082, 4535, 3122),
    (3926, 20, 4536, 3124),
];

fn range((range, items, multirange, class): &(Oid, Oid, Oid, Oid)) -> Named {
    vec![
        ("rngtypid", Datum::oid(*range)),
        ("rngsubtype", Datum::oid(*items)),
        ("rngmultitypid", Datum::oid(*multirange)),
        ("rngsubopc", Datum::oid(*class)),
    ]
}
