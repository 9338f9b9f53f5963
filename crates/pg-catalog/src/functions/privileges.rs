//! Functions about privileges. Every session may do everything, so that they only check that
//! their objects exist.

use super::{Called, Function, lenient, strict, text_of};
use crate::catalogue::Calls;
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::types::{BOOL, INT2, NAME, OID, REGCLASS, TEXT};
use crate::{rows, types};

/// The overloads of a function about one object: with and without a role, by name and by number.
macro_rules! about {
    ($name:literal, $check:expr) => {
        [
            strict($name, &[TEXT, TEXT], BOOL, |calls, arguments| {
                $check(calls, text_of(&arguments[0]))
            }),
            strict($name, &[OID, TEXT], BOOL, |_, _| yes()),
            strict($name, &[NAME, TEXT, TEXT], BOOL, |calls, arguments| {
                role(calls, &arguments[0])?;
                $check(calls, text_of(&arguments[1]))
            }),
            strict($name, &[NAME, OID, TEXT], BOOL, |calls, arguments| {
                role(calls, &arguments[0])?;
                yes()
            }),
            strict($name, &[OID, TEXT, TEXT], BOOL, |calls, arguments| {
                $check(calls, text_of(&arguments[1]))
            }),
            strict($name, &[OID, OID, TEXT], BOOL, |_, _| yes()),
        ]
    };
}

const TABLE: [Function; 6] = about!("has_table_privilege", relation);
const ANY_COLUMN: [Function; 6] = about!("has_any_column_privilege", relation);
const SEQUENCE: [Function; 6] = about!("has_sequence_privilege", relation);
const SCHEMA: [Function; 6] = about!("has_schema_privilege", schema);
const DATABASE: [Function; 6] = about!("has_database_privilege", database);
const FUNCTION: [Function; 6] = about!("has_function_privilege", anything);
const LANGUAGE: [Function; 6] = about!("has_language_privilege", anything);
const TABLESPACE: [Function; 6] = about!("has_tablespace_privilege", anything);
const TYPE: [Function; 6] = about!("has_type_privilege", anything);
const SERVER: [Function; 6] = about!("has_server_privilege", anything);
const WRAPPER: [Function; 6] = about!("has_foreign_data_wrapper_privilege", anything);
const ROLE: [Function; 6] = about!("pg_has_role", named_role);

const COLUMN: [Function; 6] = [
    strict(
        "has_column_privilege",
        &[TEXT, TEXT, TEXT],
        BOOL,
        |calls, arguments| relation(calls, text_of(&arguments[0])),
    ),
    strict("has_column_privilege", &[OID, TEXT, TEXT], BOOL, |_, _| {
        yes()
    }),
    strict("has_column_privilege", &[OID, INT2, TEXT], BOOL, |_, _| {
        yes()
    }),
    strict(
        "has_column_privilege",
        &[NAME, OID, INT2, TEXT],
        BOOL,
        |_, _| yes(),
    ),
    strict(
        "has_column_privilege",
        &[NAME, OID, TEXT, TEXT],
        BOOL,
        |_, _| yes(),
    ),
    strict(
        "has_column_privilege",
        &[NAME, TEXT, TEXT, TEXT],
        BOOL,
        |calls, arguments| relation(calls, text_of(&arguments[1])),
    ),
];

const FURTHER: [Function; 4] = [
    strict("row_security_active", &[OID], BOOL, |_, _| {
        Ok(Datum::Bool(false))
    }),
    strict("row_security_active", &[TEXT], BOOL, |_, _| {
        Ok(Datum::Bool(false))
    }),
    lenient("has_parameter_privilege", &[TEXT, TEXT], BOOL, |_, _| yes()),
    // No object has a list of rights of its own.
    lenient("acldefault", &[types::CHAR, OID], 1034, |_, _| {
        Ok(Datum::Null)
    }),
];

pub(super) const FUNCTIONS: &[Function] = &joined();

const GROUPS: [&[Function]; 14] = [
    &TABLE,
    &ANY_COLUMN,
    &SEQUENCE,
    &SCHEMA,
    &DATABASE,
    &FUNCTION,
    &LANGUAGE,
    &TABLESPACE,
    &TYPE,
    &SERVER,
    &WRAPPER,
    &ROLE,
    &COLUMN,
    &FURTHER,
];
const COUNT: usize = 13 * 6 + 4;

/// Returns the functions of all groups.
const fn joined() -> [Function; COUNT] {
    let mut all = [const { strict("", &[], REGCLASS, |_, _| yes()) }; COUNT];
    let (mut group, mut filled) = (0, 0);
    while group < GROUPS.len() {
        let mut position = 0;
        while position < GROUPS[group].len() {
            let from = &GROUPS[group][position];
            all[filled] = Function {
                name: from.name,
                arguments: from.arguments,
                is_variadic: from.is_variadic,
                is_strict: from.is_strict,
                result: from.result,
                body: from.body,
            };
            filled += 1;
            position += 1;
        }
        group += 1;
    }
    assert!(filled == COUNT);
    all
}

fn yes() -> Called {
    Ok(Datum::Bool(true))
}

fn anything(_: Calls<'_>, _: &str) -> Called {
    yes()
}

fn role(calls: Calls<'_>, name: &Datum) -> Result<(), CatalogueError> {
    let name = text_of(name);
    match rows::role_oid(calls.session, name) {
        Some(_) => Ok(()),
        None if name == "public" => Ok(()),
        None => Err(CatalogueError::new(
            "42704",
            format!("role \"{name}\" does not exist"),
        )),
    }
}

fn named_role(calls: Calls<'_>, name: &str) -> Called {
    role(calls, &Datum::text(name))?;
    yes()
}

fn relation(calls: Calls<'_>, name: &str) -> Called {
    calls.object(name, REGCLASS)?;
    yes()
}

fn schema(calls: Calls<'_>, name: &str) -> Called {
    calls.object(name, types::REGNAMESPACE)?;
    yes()
}

fn database(calls: Calls<'_>, name: &str) -> Called {
    match name == calls.session.database {
        true => yes(),
        false => Err(CatalogueError::new(
            "3D000",
            format!("database \"{name}\" does not exist"),
        )),
    }
}
