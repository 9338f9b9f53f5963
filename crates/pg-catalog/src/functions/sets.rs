//! Functions that return rows.

use super::{SetFunction, int_of, text_of};
use crate::catalogue::Calls;
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::functions::text::regex;
use crate::types::{ANYARRAY, ANYELEMENT, BOOL, CHAR, INT4, INT8, OID, REGCLASS, TEXT, TEXT_ARRAY};

type Rows = Result<Vec<Vec<Datum>>, CatalogueError>;

/// The functions that return rows.
pub(crate) const SETS: &[SetFunction] = &[
    SetFunction {
        name: "unnest",
        arguments: &[ANYARRAY],
        columns: &[("unnest", ANYELEMENT)],
        body: |_, it, _| {
            Ok(items(&it[0])
                .iter()
                .map(|item| vec![item.clone()])
                .collect())
        },
    },
    SetFunction {
        name: "generate_series",
        arguments: &[INT4, INT4],
        columns: &[("generate_series", INT4)],
        body: series,
    },
    SetFunction {
        name: "generate_series",
        arguments: &[INT8, INT8],
        columns: &[("generate_series", INT8)],
        body: series,
    },
    SetFunction {
        name: "generate_series",
        arguments: &[INT8, INT8, INT8],
        columns: &[("generate_series", INT8)],
        body: series,
    },
    SetFunction {
        name: "generate_subscripts",
        arguments: &[ANYARRAY, INT4],
        columns: &[("generate_subscripts", INT4)],
        body: |_, it, _| {
            let lower = it[0].as_array().map_or(1, |array| array.lower);
            let count = if int_of(&it[1]) == 1 {
                items(&it[0]).len()
            } else {
                0
            };
            Ok((lower..)
                .take(count)
                .map(|number| vec![Datum::Int(number)])
                .collect())
        },
    },
    SetFunction {
        name: "information_schema._pg_expandarray",
        arguments: &[ANYARRAY],
        columns: &[("x", ANYELEMENT), ("n", INT4)],
        body: |_, it, _| {
            let numbered = (1..).zip(items(&it[0]));
            Ok(numbered
                .map(|(number, item)| vec![item.clone(), Datum::Int(number)])
                .collect())
        },
    },
    SetFunction {
        name: "string_to_table",
        arguments: &[TEXT, TEXT],
        columns: &[("string_to_table", TEXT)],
        body: |_, it, _| match (&it[0], &it[1]) {
            (Datum::Text(text), Datum::Text(separator)) if !text.is_empty() => {
                let parts: Vec<&str> = match &**separator {
                    "" => vec![text],
                    separator => text.split(separator).collect(),
                };
                Ok(parts.into_iter().map(|it| vec![Datum::text(it)]).collect())
            }
            _ => Ok(Vec::new()),
        },
    },
    SetFunction {
        name: "regexp_split_to_table",
        arguments: &[TEXT, TEXT],
        columns: &[("regexp_split_to_table", TEXT)],
        body: |_, it, _| {
            if it.iter().any(Datum::is_null) {
                return Ok(Vec::new());
            }
            let found = regex(text_of(&it[1]), false)?;
            Ok(found
                .split(text_of(&it[0]))
                .map(|it| vec![Datum::text(it)])
                .collect())
        },
    },
    SetFunction {
        name: "pg_get_keywords",
        arguments: &[],
        columns: &[
            ("word", TEXT),
            ("catcode", CHAR),
            ("barelabel", BOOL),
            ("catdesc", TEXT),
            ("baredesc", TEXT),
        ],
        body: |_, _, _| Ok(keywords()),
    },
    SetFunction {
        name: "pg_options_to_table",
        arguments: &[TEXT_ARRAY],
        columns: &[("option_name", TEXT), ("option_value", TEXT)],
        body: |_, it, _| {
            let options = items(&it[0]).iter().filter_map(Datum::as_text);
            Ok(options
                .map(|option| match option.split_once('=') {
                    Some((name, value)) => vec![Datum::text(name), Datum::text(value)],
                    None => vec![Datum::text(option), Datum::Null],
                })
                .collect())
        },
    },
    SetFunction {
        name: "aclexplode",
        // Lists of rights are texts here.
        arguments: &[1034],
        columns: &[
            ("grantor", OID),
            ("grantee", OID),
            ("privilege_type", TEXT),
            ("is_grantable", BOOL),
        ],
        body: rights,
    },
    SetFunction {
        name: "pg_partition_ancestors",
        arguments: &[REGCLASS],
        columns: &[("relid", REGCLASS)],
        body: |_, _, _| Ok(Vec::new()),
    },
    SetFunction {
        name: "pg_partition_tree",
        arguments: &[REGCLASS],
        columns: &[
            ("relid", REGCLASS),
            ("parentrelid", REGCLASS),
            ("isleaf", BOOL),
            ("level", INT4),
        ],
        body: |_, _, _| Ok(Vec::new()),
    },
    SetFunction {
        name: "pg_listening_channels",
        arguments: &[],
        columns: &[("pg_listening_channels", TEXT)],
        body: |_, _, _| Ok(Vec::new()),
    },
];

fn items(array: &Datum) -> &[Datum] {
    array.as_array().map_or(&[], |array| &array.items)
}

fn series(_: Calls<'_>, arguments: &[Datum], most: usize) -> Rows {
    if arguments.iter().any(Datum::is_null) {
        return Ok(Vec::new());
    }
    let step = arguments.get(2).map_or(1, int_of);
    if step == 0 {
        return Err(CatalogueError::new("22023", "step size cannot equal zero"));
    }
    let (mut at, end) = (int_of(&arguments[0]), int_of(&arguments[1]));
    let mut rows = Vec::new();
    while (step > 0 && at <= end) || (step < 0 && at >= end) {
        if rows.len() >= most {
            return Err(CatalogueError::limit("a series has too many numbers"));
        }
        rows.push(vec![Datum::Int(at)]);
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(rows)
}

/// Returns the words that are reserved, as drivers ask for them to know what to quote.
fn keywords() -> Vec<Vec<Datum>> {
    let words = crate::definitions::RESERVED.iter().map(|word| {
        vec![
            Datum::text(word),
            Datum::text("R"),
            Datum::Bool(true),
            Datum::text("reserved"),
            Datum::text("can be bare label"),
        ]
    });
    words.collect()
}

/// Returns the rights of a list, each of which is written as `grantee=letters/grantor`.
fn rights(calls: Calls<'_>, arguments: &[Datum], _: usize) -> Rows {
    let mut rows = Vec::new();
    for item in items(&arguments[0]).iter().filter_map(Datum::as_text) {
        let Some((grantee, rest)) = item.split_once('=') else {
            continue;
        };
        let (letters, grantor) = rest.split_once('/').unwrap_or((rest, ""));
        let role = |name: &str| {
            let (schema, name) = (&calls.catalogue.schema, name.trim_matches('"'));
            let found = crate::rows::role_oid(schema, calls.session, name);
            Datum::oid(found.unwrap_or_default())
        };
        for letter in letters.chars() {
            let known = crate::rights::PRIVILEGES.iter();
            let Some((right, _)) = known.clone().find(|it| it.1 == letter) else {
                continue;
            };
            rows.push(vec![
                role(grantor),
                role(grantee),
                Datum::text(right),
                Datum::Bool(false),
            ]);
        }
    }
    Ok(rows)
}
