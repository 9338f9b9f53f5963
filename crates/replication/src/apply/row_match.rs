//! Writes the condition by which a replica finds a row that the primary's stream names.
//!
//! By its key, where there is one: with the operator of its index, under any search path. Otherwise
//! by all its values (`REPLICA IDENTITY FULL`). The stream has the texts of types' output
//! functions, which casts to text do not give (`boolean`, `char(n)`, `inet`). Equality is another
//! relation (`numeric` 1.0 and 1.00, `citext`), or is missing (`json`). So a value is the same if
//! the output function writes the same of it and of the stream's text, once that was read here:
//! `format` calls it, for every type.

use super::{name, pairs, text};
use crate::ReplicationError;
use crate::change::{ShapeColumn, TableShape};
use crate::pgoutput::{OldTuple, Tuple, TupleValue};
use pg_wire::quoting::quoted;

/// The type `"char"`.
pub const CHAR: u32 = 18;

/// Types that PostgreSQL finds equal just where their texts are: `bool`, `bytea`, `int8`, `int2`,
/// `int4`, `oid`, `date`, `time`, `timestamp`, `timestamptz`, `uuid`.
const EXACT: [u32; 11] = [16, 17, 20, 21, 23, 26, 1082, 1083, 1114, 1184, 2950];
/// Types whose equal texts are equal, but not only those: `text`, `float4`, `float8`, `bpchar`,
/// `varchar`, `interval`, `timetz`, `numeric`.
const PLAIN: [u32; 8] = [25, 700, 701, 1042, 1043, 1186, 1266, 1700];

/// Returns the condition that finds the changed row. If several rows are alike, it finds one of
/// them.
pub fn condition(table: &TableShape, old: &OldTuple) -> Result<String, ReplicationError> {
    let tuple = match old {
        OldTuple::Key(tuple) => return key_condition(table, tuple),
        OldTuple::Row(tuple) if table.has_key => return key_condition(table, tuple),
        OldTuple::Row(tuple) => tuple,
    };
    let mut same = Vec::with_capacity(tuple.len());
    for (column, value) in pairs(table, tuple)? {
        same.push(is_same(column, value)?);
    }
    let table = name(table);
    let all = match same.is_empty() {
        true => "true".into(),
        false => same.join(" AND "),
    };
    Ok(format!(
        "ctid = (SELECT ctid FROM ONLY {table} WHERE {all} LIMIT 1)"
    ))
}

/// Returns the condition for the row with this key.
pub fn key_condition(table: &TableShape, tuple: &Tuple) -> Result<String, ReplicationError> {
    let mut parts = Vec::new();
    for (column, value) in pairs(table, tuple)? {
        if column.in_key {
            let (name, equality) = (quoted(&column.name), &column.equality);
            parts.push(format!("{name} {equality} {}", typed(column, value)?));
        }
    }
    match parts.is_empty() {
        true => Err(ReplicationError::Stream(format!(
            "a change of {} came without a key: set its REPLICA IDENTITY",
            name(table)
        ))),
        false => Ok(parts.join(" AND ")),
    }
}

/// Returns whether a column has just this value.
fn is_same(column: &ShapeColumn, value: &TupleValue) -> Result<String, ReplicationError> {
    let name = quoted(&column.name);
    if *value == TupleValue::Null {
        // Unlike IS NULL, this is not true of a row of NULLs.
        return Ok(format!("{name} IS NOT DISTINCT FROM NULL"));
    }
    let value = typed(column, value)?;
    let is_equal = format!("{name} OPERATOR(pg_catalog.=) {value}");
    if EXACT.contains(&column.type_oid) {
        return Ok(is_equal);
    }
    let is_written_so = format!(
        "pg_catalog.format('%s', {name}) OPERATOR(pg_catalog.=) pg_catalog.format('%s', {value}) \
         COLLATE pg_catalog.\"C\""
    );
    Ok(match PLAIN.contains(&column.type_oid) {
        // An index may be of use.
        true => format!("{is_equal} AND {is_written_so}"),
        false => is_written_so,
    })
}

/// Returns a value as SQL of the column's type, or of the base type of its domain.
fn typed(column: &ShapeColumn, value: &TupleValue) -> Result<String, ReplicationError> {
    let text = text(column, value)?;
    let is_known = EXACT.contains(&column.type_oid) || PLAIN.contains(&column.type_oid);
    Ok(match is_known {
        true => text,
        false => format!(
            "CASE WHEN true THEN {text} ELSE {} END",
            quoted(&column.name)
        ),
    })
}
