//! Functions about privileges for relations, the schema and roles. Of other objects everybody may
//! use all, so that the functions about those only check that the objects exist.

use super::{Called, Function, lenient, oid_of, strict, text_of};
use crate::catalogue::Calls;
use crate::datum::Datum;
use crate::description::{GrantDescription, ObjectRights, Oid};
use crate::error::CatalogueError;
use crate::relations::PUBLIC;
use crate::rights::{
    Asker, COLUMN_PRIVILEGES, SCHEMA_PRIVILEGES, SEQUENCE_PRIVILEGES, TABLE_PRIVILEGES,
};
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

/// The overloads of a function about relations with some possible privileges: with and without a
/// role, by name and by number.
macro_rules! on_relation {
    ($name:literal, $possible:expr) => {
        [
            strict($name, &[TEXT, TEXT], BOOL, |calls, arguments| {
                of_session(calls, arguments, $possible)
            }),
            strict($name, &[OID, TEXT], BOOL, |calls, arguments| {
                of_session(calls, arguments, $possible)
            }),
            strict($name, &[NAME, TEXT, TEXT], BOOL, |calls, arguments| {
                of_role(calls, arguments, $possible)
            }),
            strict($name, &[NAME, OID, TEXT], BOOL, |calls, arguments| {
                of_role(calls, arguments, $possible)
            }),
            strict($name, &[OID, TEXT, TEXT], BOOL, |calls, arguments| {
                of_role(calls, arguments, $possible)
            }),
            strict($name, &[OID, OID, TEXT], BOOL, |calls, arguments| {
                of_role(calls, arguments, $possible)
            }),
        ]
    };
}

const TABLE: [Function; 6] = on_relation!("has_table_privilege", TABLE_PRIVILEGES);
const ANY_COLUMN: [Function; 6] = on_relation!("has_any_column_privilege", COLUMN_PRIVILEGES);
const SEQUENCE: [Function; 6] = on_relation!("has_sequence_privilege", SEQUENCE_PRIVILEGES);
const SCHEMA: [Function; 6] = [
    strict(
        "has_schema_privilege",
        &[TEXT, TEXT],
        BOOL,
        |calls, arguments| on_schema(calls, None, &arguments[0], text_of(&arguments[1])),
    ),
    strict(
        "has_schema_privilege",
        &[OID, TEXT],
        BOOL,
        |calls, arguments| on_schema(calls, None, &arguments[0], text_of(&arguments[1])),
    ),
    strict(
        "has_schema_privilege",
        &[NAME, TEXT, TEXT],
        BOOL,
        schema_of_role,
    ),
    strict(
        "has_schema_privilege",
        &[NAME, OID, TEXT],
        BOOL,
        schema_of_role,
    ),
    strict(
        "has_schema_privilege",
        &[OID, TEXT, TEXT],
        BOOL,
        schema_of_role,
    ),
    strict(
        "has_schema_privilege",
        &[OID, OID, TEXT],
        BOOL,
        schema_of_role,
    ),
];
const DATABASE: [Function; 6] = about!("has_database_privilege", database);
const FUNCTION: [Function; 6] = about!("has_function_privilege", anything);
const LANGUAGE: [Function; 6] = about!("has_language_privilege", anything);
const TABLESPACE: [Function; 6] = about!("has_tablespace_privilege", anything);
const TYPE: [Function; 6] = about!("has_type_privilege", anything);
const SERVER: [Function; 6] = about!("has_server_privilege", anything);
const WRAPPER: [Function; 6] = about!("has_foreign_data_wrapper_privilege", anything);
const ROLE: [Function; 6] = [
    strict("pg_has_role", &[TEXT, TEXT], BOOL, |calls, arguments| {
        has_role(calls, None, &arguments[0])
    }),
    strict("pg_has_role", &[OID, TEXT], BOOL, |calls, arguments| {
        has_role(calls, None, &arguments[0])
    }),
    strict("pg_has_role", &[NAME, TEXT, TEXT], BOOL, role_of_role),
    strict("pg_has_role", &[NAME, OID, TEXT], BOOL, role_of_role),
    strict("pg_has_role", &[OID, TEXT, TEXT], BOOL, role_of_role),
    strict("pg_has_role", &[OID, OID, TEXT], BOOL, role_of_role),
];

// Privileges are for whole tables.
const COLUMN: [Function; 6] = [
    strict(
        "has_column_privilege",
        &[TEXT, TEXT, TEXT],
        BOOL,
        |calls, arguments| on_columns(calls, None, &arguments[0], &arguments[2]),
    ),
    strict(
        "has_column_privilege",
        &[OID, TEXT, TEXT],
        BOOL,
        |calls, arguments| on_columns(calls, None, &arguments[0], &arguments[2]),
    ),
    strict(
        "has_column_privilege",
        &[OID, INT2, TEXT],
        BOOL,
        |calls, arguments| on_columns(calls, None, &arguments[0], &arguments[2]),
    ),
    strict(
        "has_column_privilege",
        &[NAME, OID, INT2, TEXT],
        BOOL,
        |calls, arguments| on_columns(calls, Some(&arguments[0]), &arguments[1], &arguments[3]),
    ),
    strict(
        "has_column_privilege",
        &[NAME, OID, TEXT, TEXT],
        BOOL,
        |calls, arguments| on_columns(calls, Some(&arguments[0]), &arguments[1], &arguments[3]),
    ),
    strict(
        "has_column_privilege",
        &[NAME, TEXT, TEXT, TEXT],
        BOOL,
        |calls, arguments| on_columns(calls, Some(&arguments[0]), &arguments[1], &arguments[3]),
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
    match rows::role_oid(&calls.catalogue.schema, calls.session, name) {
        Some(_) => Ok(()),
        None if name == "public" => Ok(()),
        None => Err(CatalogueError::new(
            "42704",
            format!("role \"{name}\" does not exist"),
        )),
    }
}

/// Returns the role that a name or a number names; the one of the session without.
fn asker<'c>(calls: Calls<'c>, who: Option<&Datum>) -> Result<Asker<'c>, CatalogueError> {
    let schema = &calls.catalogue.schema;
    Ok(match who {
        None => Asker::named(schema, &calls.session.user),
        Some(who) if who.as_text().is_some() => {
            role(calls, who)?;
            Asker::named(schema, text_of(who))
        }
        Some(who) => {
            let name = rows::role_name(schema, calls.session, oid_of(who));
            Asker::named(schema, name.as_deref().unwrap_or("public"))
        }
    })
}

/// Returns the number of a relation, which is named or numbered.
fn relation_of(calls: Calls<'_>, relation: &Datum) -> Result<Oid, CatalogueError> {
    match relation.as_text() {
        Some(name) => Ok(oid_of(&calls.object(name, REGCLASS)?)),
        None => Ok(oid_of(relation)),
    }
}

fn has_on_relation(
    calls: Calls<'_>,
    who: Option<&Datum>,
    relation: &Datum,
    (right, possible): (&str, &[&str]),
) -> Called {
    let asker = asker(calls, who)?;
    let relation = relation_of(calls, relation)?;
    let system = ObjectRights {
        owner: None,
        granted: vec![GrantDescription {
            grantee: 0,
            letters: "r".into(),
        }],
    };
    // All may read the catalogue.
    let rights = calls.rights_on(relation).unwrap_or(&system);
    Ok(Datum::Bool(asker.has_any(rights, (right, possible))?))
}

fn of_session(calls: Calls<'_>, arguments: &[Datum], possible: &[&str]) -> Called {
    let [relation, right] = arguments else {
        unreachable!("it has two arguments")
    };
    has_on_relation(calls, None, relation, (text_of(right), possible))
}

fn of_role(calls: Calls<'_>, arguments: &[Datum], possible: &[&str]) -> Called {
    let [who, relation, right] = arguments else {
        unreachable!("it has three arguments")
    };
    has_on_relation(calls, Some(who), relation, (text_of(right), possible))
}

fn on_columns(calls: Calls<'_>, who: Option<&Datum>, relation: &Datum, right: &Datum) -> Called {
    has_on_relation(calls, who, relation, (text_of(right), COLUMN_PRIVILEGES))
}

fn on_schema(calls: Calls<'_>, who: Option<&Datum>, schema: &Datum, right: &str) -> Called {
    let asker = asker(calls, who)?;
    let oid = match schema.as_text() {
        Some(name) => oid_of(&calls.object(name, types::REGNAMESPACE)?),
        None => oid_of(schema),
    };
    let everybody = GrantDescription {
        grantee: 0,
        letters: "U".into(),
    };
    let granted = match oid {
        PUBLIC => &calls.catalogue.schema.granted[..],
        _ => &[],
    };
    let rights = ObjectRights {
        owner: None,
        granted: granted.iter().cloned().chain([everybody]).collect(),
    };
    Ok(Datum::Bool(
        asker.has_any(&rights, (right, SCHEMA_PRIVILEGES))?,
    ))
}

fn schema_of_role(calls: Calls<'_>, arguments: &[Datum]) -> Called {
    on_schema(
        calls,
        Some(&arguments[0]),
        &arguments[1],
        text_of(&arguments[2]),
    )
}

fn has_role(calls: Calls<'_>, who: Option<&Datum>, of: &Datum) -> Called {
    let asker = asker(calls, who)?;
    let oid = match of.as_text() {
        None => oid_of(of),
        Some(name) => {
            role(calls, of)?;
            let schema = &calls.catalogue.schema;
            rows::role_oid(schema, calls.session, name).unwrap_or_default()
        }
    };
    Ok(Datum::Bool(asker.reaches(oid)))
}

fn role_of_role(calls: Calls<'_>, arguments: &[Datum]) -> Called {
    has_role(calls, Some(&arguments[0]), &arguments[1])
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
