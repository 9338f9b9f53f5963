//! The statements by which an Extension does what a transaction state did on the Primary.
//!
//! Values are text literals whose type is left open, so that each column's own input function reads
//! what its output function wrote. Every statement on a row must find exactly one (HIHOOI c4).

use super::Error;
use super::pgoutput::{Old, Tuple, Value};
use super::tstate::{Change, Shape, ShapeColumn};
use crate::sql::{literal, quoted};

/// One statement, and how many rows it must affect.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Its text.
    pub sql: String,
    /// The rows, if that is known.
    pub row_count: Option<u64>,
}

/// The statements that do these changes, in order.
pub fn steps(changes: &[Change]) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::with_capacity(changes.len());
    for change in changes {
        match change {
            Change::Insert { table, new } => steps.push(one_row(insert(table, new)?)),
            Change::Update { table, old, new } => {
                steps.push(one_row(update(table, old.as_ref(), new)?));
            }
            Change::Delete { table, old } => {
                let found = condition(table, old)?;
                let sql = format!("DELETE FROM {} WHERE {found}", name(table));
                steps.push(one_row(sql));
            }
            Change::Truncate {
                tables,
                restart_identity,
            } => {
                let names: Vec<String> = tables.iter().map(|table| name(table)).collect();
                let restart = match restart_identity {
                    true => " RESTART IDENTITY",
                    false => "",
                };
                steps.push(any(format!("TRUNCATE {}{restart}", names.join(", "))));
            }
            Change::Statement(statement) => {
                let path = literal(&statement.search_path);
                steps.push(any(format!(
                    "SELECT pg_catalog.set_config('search_path', {path}, true)"
                )));
                if !statement.role.is_empty() {
                    steps.push(any(format!("SET LOCAL ROLE {}", quoted(&statement.role))));
                }
                steps.push(any(statement.text.clone()));
                steps.push(any("SET LOCAL ROLE NONE".into()));
            }
        }
    }
    Ok(steps)
}

fn one_row(sql: String) -> Step {
    Step {
        sql,
        row_count: Some(1),
    }
}

fn any(sql: String) -> Step {
    Step {
        sql,
        row_count: None,
    }
}

fn insert(table: &Shape, new: &Tuple) -> Result<String, Error> {
    let values = pairs(table, new)?;
    if values.is_empty() {
        return Ok(format!("INSERT INTO {} DEFAULT VALUES", name(table)));
    }
    let names: Vec<String> = values
        .iter()
        .map(|(column, _)| quoted(&column.name))
        .collect();
    let texts: Result<Vec<String>, Error> = values.iter().map(|(_, value)| text(value)).collect();
    Ok(format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
        name(table),
        names.join(", "),
        texts?.join(", ")
    ))
}

fn update(table: &Shape, old: Option<&Old>, new: &Tuple) -> Result<String, Error> {
    let found = match old {
        Some(old) => condition(table, old)?,
        None => key_condition(table, new)?,
    };
    let keeps_key = old.is_none();
    let mut changes = Vec::new();
    for (column, value) in pairs(table, new)? {
        let is_kept = *value == Value::Unchanged || (keeps_key && column.in_key);
        if !is_kept && column.settable {
            changes.push(format!("{} = {}", quoted(&column.name), text(value)?));
        }
    }
    Ok(match changes.is_empty() {
        // Nothing but the key: the row must be there all the same.
        true => format!("SELECT 1 FROM {} WHERE {found}", name(table)),
        false => format!(
            "UPDATE {} SET {} WHERE {found}",
            name(table),
            changes.join(", ")
        ),
    })
}

fn condition(table: &Shape, old: &Old) -> Result<String, Error> {
    match old {
        Old::Key(tuple) => key_condition(table, tuple),
        Old::Row(tuple) if table.has_key => key_condition(table, tuple),
        // Without a key, one of the rows with just these values; compared as text, since not every
        // type has an equality.
        Old::Row(tuple) => {
            let mut same = Vec::new();
            for (column, value) in pairs(table, tuple)? {
                let column = quoted(&column.name);
                same.push(format!(
                    "{column}::text IS NOT DISTINCT FROM {}",
                    text(value)?
                ));
            }
            let table = name(table);
            let all = match same.is_empty() {
                true => "true".into(),
                false => same.join(" AND "),
            };
            Ok(format!(
                "ctid = (SELECT ctid FROM {table} WHERE {all} LIMIT 1)"
            ))
        }
    }
}

fn key_condition(table: &Shape, tuple: &Tuple) -> Result<String, Error> {
    let mut parts = Vec::new();
    for (column, value) in pairs(table, tuple)? {
        if column.in_key {
            parts.push(format!("{} = {}", quoted(&column.name), text(value)?));
        }
    }
    match parts.is_empty() {
        true => Err(Error::Stream(format!(
            "a change of {} came without a key: set its REPLICA IDENTITY",
            name(table)
        ))),
        false => Ok(parts.join(" AND ")),
    }
}

fn pairs<'t>(
    table: &'t Shape,
    tuple: &'t Tuple,
) -> Result<Vec<(&'t ShapeColumn, &'t Value)>, Error> {
    match table.columns.len() == tuple.len() {
        true => Ok(table.columns.iter().zip(tuple).collect()),
        false => Err(Error::Stream(format!(
            "a row of {} has another number of columns than the table",
            name(table)
        ))),
    }
}

fn text(value: &Value) -> Result<String, Error> {
    match value {
        Value::Null => Ok("NULL".into()),
        Value::Unchanged => Err(Error::Stream(
            "a value is missing where it is needed".into(),
        )),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(literal(text)),
            Err(_) => Err(Error::Stream("a value is no UTF-8".into())),
        },
    }
}

fn name(table: &Shape) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.name))
}
