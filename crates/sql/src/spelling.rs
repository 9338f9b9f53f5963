//! Interprets identifiers and type names of SQL.

use placement::{ColumnType, NUMERIC_PRECISION_MAX, TEXT_LIMIT_MAX};
use sqlparser::ast;

use crate::error::{SqlError, sqlstate};

/// Returns a name; an unquoted name is folded to lower case, as in PostgreSQL.
pub(crate) fn name(identifier: &ast::Ident) -> String {
    match identifier.quote_style {
        Some(_) => identifier.value.clone(),
        None => identifier.value.to_ascii_lowercase(),
    }
}

/// Returns the name of a called function, without the schema of PostgreSQL's functions; none if it
/// has another schema.
pub(crate) fn function_name(function: &ast::Function) -> Option<String> {
    let mut parts = function.name.0.iter().map(|it| it.as_ident().map(name));
    match (parts.next()??, parts.next(), parts.next()) {
        (called, None, _) => Some(called),
        (schema, Some(called), None) if schema == "pg_catalog" => called,
        _ => None,
    }
}

/// Returns whether a key of an `ORDER BY` sorts from the largest to the smallest value.
///
/// # Errors
/// The key has an operator of its own.
pub(crate) fn is_descending(options: &ast::OrderByOptions) -> Result<bool, SqlError> {
    match options.sort {
        None | Some(ast::OrderBySort::Asc) => Ok(false),
        Some(ast::OrderBySort::Desc) => Ok(true),
        Some(ast::OrderBySort::Using(_)) => Err(SqlError::unsupported(
            "ORDER BY … USING",
            "write ASC or DESC",
        )),
    }
}

/// Returns the column type for an SQL type.
pub(crate) fn column_type(data_type: &ast::DataType) -> Result<ColumnType, SqlError> {
    let written = type_name(data_type);
    ColumnType::parse(&written).ok_or_else(|| {
        let lower = written.to_lowercase();
        match limited(&lower) {
            Some("numeric" | "decimal" | "dec") => SqlError::with_state(
                sqlstate::INVALID_VALUE,
                format!(
                    "{written}: the precision of numeric is from 1 to {NUMERIC_PRECISION_MAX}, and \
                     its scale from -{NUMERIC_PRECISION_MAX} to {NUMERIC_PRECISION_MAX}"
                ),
            ),
            Some(name) => SqlError::with_state(
                sqlstate::INVALID_VALUE,
                format!("{written}: the length of {name} is from 1 to {TEXT_LIMIT_MAX}"),
            ),
            None if is_of_postgresql(&lower) => {
                SqlError::unsupported(format!("the type {written}"), type_to_write_instead(&lower))
            }
            None => SqlError::with_state(
                sqlstate::UNDEFINED_OBJECT,
                format!(
                    "type \"{lower}\" does not exist: {}",
                    type_to_write_instead(&lower)
                ),
            ),
        }
    })
}

/// Returns the name of a type without the schema of PostgreSQL's types and without quotes. The name
/// of a type of arrays in `pg_type`, such as `_int4`, becomes `int4[]`.
fn type_name(data_type: &ast::DataType) -> String {
    let ast::DataType::Custom(written, modifiers) = data_type else {
        return data_type.to_string();
    };
    let parts = written.0.iter().map(ast::ObjectNamePart::as_ident);
    let called = match parts.collect::<Option<Vec<_>>>().as_deref() {
        Some([called]) => *called,
        Some([schema, called]) if name(schema) == "pg_catalog" => *called,
        _ => return data_type.to_string(),
    };
    // In quotes `char` is another type, and no other name has a capital letter.
    let has_capital = called.value.contains(|it: char| it.is_ascii_uppercase());
    if called.quote_style.is_some() && (called.value == "char" || has_capital) {
        return data_type.to_string();
    }
    let called = name(called);
    let (element, dimensions) = match called.strip_prefix('_') {
        Some(element) if ColumnType::parse(element).is_some() => (element, "[]"),
        _ => (&*called, ""),
    };
    let modifiers = match &modifiers[..] {
        [] => String::new(),
        modifiers => format!("({})", modifiers.join(",")),
    };
    format!("{element}{modifiers}{dimensions}")
}

/// Returns the name of a type with a limit, if it is a text or a numeric.
fn limited(written: &str) -> Option<&str> {
    let (name, limit) = written.split_once('(')?;
    let limit = limit.strip_suffix(')')?;
    let is_limit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'-' | b' ');
    let name = name.trim();
    let has_limit = matches!(
        name,
        "varchar"
            | "character varying"
            | "char"
            | "character"
            | "bpchar"
            | "numeric"
            | "decimal"
            | "dec"
    );
    (has_limit && limit.bytes().all(is_limit)).then_some(name)
}

/// Returns whether PostgreSQL has a type, or another database that people come from.
fn is_of_postgresql(written: &str) -> bool {
    const TYPES: &[&str] = &[
        "bit",
        "bit varying",
        "box",
        "char",
        "cid",
        "cidr",
        "circle",
        "datemultirange",
        "daterange",
        "inet",
        "int4multirange",
        "int4range",
        "int8multirange",
        "int8range",
        "jsonpath",
        "line",
        "longtext",
        "lseg",
        "macaddr",
        "macaddr8",
        "mediumint",
        "money",
        "name",
        "nummultirange",
        "numrange",
        "nvarchar",
        "oid",
        "path",
        "pg_lsn",
        "point",
        "polygon",
        "record",
        "refcursor",
        "regclass",
        "regproc",
        "regrole",
        "regtype",
        "serial",
        "bigserial",
        "smallserial",
        "tid",
        "timestamp",
        "timestamptz",
        "timetz",
        "tinyint",
        "tinytext",
        "tsmultirange",
        "tsquery",
        "tsrange",
        "tstzmultirange",
        "tstzrange",
        "tsvector",
        "txid_snapshot",
        "uuid",
        "varbit",
        "xid",
        "xml",
    ];
    let bare = written.split(['(', '[']).next().unwrap_or(written).trim();
    let bare = bare.strip_suffix(" without time zone").unwrap_or(bare);
    if bare == "time with time zone" || bare.starts_with("interval ") {
        return true;
    }
    let bare = bare.strip_suffix(" with time zone").unwrap_or(bare);
    written.contains('[') || written.contains('(') || TYPES.contains(&bare)
}

/// Returns the type to write instead of a type of PostgreSQL that the store does not have. A type
/// that would take other values, or order them otherwise, does not stand in for it.
fn type_to_write_instead(written: &str) -> String {
    let bare = written.split(['(', '[']).next().unwrap_or(written).trim();
    let remedy = match bare {
        _ if written.contains('[') => "one column per value, or text",
        "mediumint" | "tinyint" => "smallint, whose range is -32768 to 32767",
        "serial" | "bigserial" | "smallserial" => "bigint, or serial as the type of a column",
        "money" => "numeric(19,2)",
        "nvarchar" | "tinytext" | "longtext" => "text, or varchar(n)",
        "timestamptz" | "timestamp with time zone" => "timestamptz, which keeps microseconds",
        "timestamp" | "timestamp without time zone" => "timestamp, which keeps microseconds",
        "timetz" | "time with time zone" => "time, and the zone in another column",
        "time" | "time without time zone" => "time, which keeps microseconds",
        interval if interval.starts_with("interval") => "interval, which keeps microseconds",
        "xml" => "text",
        _ => {
            let names: Vec<&str> = ColumnType::ALL.iter().map(|it| it.name()).collect();
            return format!(
                "use one of {}, varchar(n), char(n) and numeric(p,s)",
                names.join(", ")
            );
        }
    };
    format!("write {remedy}")
}
