//! Writes the statements with which a replica repeats the effects of a commit.
//!
//! Values are text literals without a type, so that each column's input function reads the text of
//! its output function. Every statement must find exactly the rows of its change (R30).
//!
//! Consecutive rows of one table are changed by one statement, which takes a fraction of the time.
//! PostgreSQL chooses the order in which one statement changes them, which may matter to a unique
//! index. If such a statement fails, the rows are changed one by one, as on the primary.

mod row_match;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::change::{CommitChange, ShapeColumn, TableShape};
use super::pgoutput::{OldTuple, Tuple, TupleValue};
use super::{ReplicationError, checks};
use pg_analysis::replicas::at_replica;
use pg_wire::quoting::{literal, quoted};

/// The settings with which string literals are read and values are written in the same form as in
/// the primary's stream.
pub const AS_IMAGES: [(&str, &str); 9] = [
    ("standard_conforming_strings", "on"),
    ("DateStyle", "ISO, YMD"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("extra_float_digits", "3"),
    ("bytea_output", "hex"),
    ("lc_monetary", "C"),
    ("xmloption", "content"),
    ("array_nulls", "on"),
];

/// The most rows that one statement changes.
const ROWS_MAX: usize = 1000;
/// Fewer rows are quicker one by one, except for inserted rows.
const ROWS_MIN: usize = 6;

/// A statement, and the number of rows that it must affect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyStatement {
    /// The SQL of the statement.
    pub sql: String,
    /// The number of rows, if it is known.
    pub row_count: Option<u64>,
}

/// A part of a commit: one statement, or several rows that one statement changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyPart {
    /// A statement.
    One(ApplyStatement),
    /// Several rows.
    Rows(RowBatch),
}

/// A batch of changes of one kind, of several different rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowBatch {
    /// The SQL of the statement before its rows.
    pub head: String,
    /// The rows.
    pub rows: Vec<String>,
    /// The SQL of the statement after its rows.
    pub tail: String,
}

/// Whether several rows are changed by one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowGrouping {
    /// By one statement, where possible.
    Together,
    /// One by one, as on the primary.
    OneByOne,
}

impl ApplyPart {
    /// Returns the statements for the part, in the order in which a replica runs them.
    pub fn steps(self, pace: RowGrouping) -> Vec<ApplyStatement> {
        match self {
            ApplyPart::One(step) => vec![step],
            ApplyPart::Rows(RowBatch { head, rows, tail }) => {
                let size = match pace {
                    RowGrouping::Together => rows.len(),
                    RowGrouping::OneByOne => 1,
                };
                let together = rows.chunks(size).map(|rows| ApplyStatement {
                    sql: format!("{head}{}{tail}", rows.join(", ")),
                    row_count: Some(rows.len() as u64),
                });
                together.collect()
            }
        }
    }
}

/// Converts changes to apply parts, in order. Consecutive changes of one table become one part if
/// one statement can make them.
pub fn parts(changes: &[CommitChange]) -> Result<Vec<ApplyPart>, ReplicationError> {
    let mut parts = Vec::new();
    let mut rest = changes;
    while !rest.is_empty() {
        let (run, after) = rest.split_at(together(rest).max(1));
        rest = after;
        let count_min = match run[0] {
            CommitChange::Insert { .. } => 2,
            _ => ROWS_MIN,
        };
        match run.len() >= count_min {
            true => parts.push(ApplyPart::Rows(rows(run)?)),
            false => {
                for change in run {
                    parts.extend(steps(change)?.into_iter().map(ApplyPart::One));
                }
            }
        }
    }
    Ok(parts)
}

/// Returns the statements that do one change.
fn steps(change: &CommitChange) -> Result<Vec<ApplyStatement>, ReplicationError> {
    Ok(match change {
        CommitChange::Insert { table, new } => vec![one_row(insert(table, new)?)],
        CommitChange::Update { table, old, new } => {
            vec![one_row(update(table, old.as_ref(), new)?)]
        }
        CommitChange::Delete { table, old } => {
            let found = row_match::condition(table, old)?;
            vec![one_row(format!(
                "DELETE FROM ONLY {} WHERE {found}",
                name(table)
            ))]
        }
        CommitChange::Truncate {
            tables,
            restart_identity,
        } => {
            let restart = match restart_identity {
                true => " RESTART IDENTITY",
                false => "",
            };
            let tables: Vec<String> = tables.iter().map(|table| truncated(table)).collect();
            // The log does not name the partitioned and the unlogged tables that were emptied. Each
            // table that refers to a named one was, or the primary had refused the TRUNCATE.
            vec![any(format!(
                "TRUNCATE {}{restart} CASCADE",
                tables.join(", ")
            ))]
        }
        CommitChange::Statement(statement, settings) => {
            let set = |name: &str, value: &str| {
                let (name, value) = (literal(name), literal(value));
                any(format!(
                    "SELECT pg_catalog.set_config({name}, {value}, true)"
                ))
            };
            let mut steps = vec![set("search_path", &statement.search_path)];
            steps.extend(settings.iter().map(|(name, value)| set(name, value)));
            if !statement.role.is_empty() {
                steps.push(any(format!("SET LOCAL ROLE {}", quoted(&statement.role))));
            }
            steps.push(any(at_replica(&statement.text)));
            steps.push(any("SET LOCAL ROLE NONE".into()));
            steps.push(any(checks::replace_new()));
            steps.extend(every_schema());
            if !settings.is_empty() {
                steps.extend(AS_IMAGES.map(|(name, value)| set(name, value)));
            }
            steps
        }
        CommitChange::Lost(why) => return Err(ReplicationError::Differs(why.clone())),
    })
}

/// Returns statements that append every schema to the default search path. Functions of indexes,
/// generated columns and checks may depend on the search path of the session that wrote a row,
/// which row images do not contain.
pub fn every_schema() -> [ApplyStatement; 2] {
    [
        any("SET LOCAL search_path TO DEFAULT".into()),
        any("SELECT pg_catalog.set_config('search_path', pg_catalog.concat_ws(', ', \
               nullif(pg_catalog.current_setting('search_path'), ''), (\
                 SELECT pg_catalog.string_agg(pg_catalog.quote_ident(nspname), ', ' ORDER BY nspname) \
                   FROM pg_catalog.pg_namespace \
                  WHERE NOT pg_catalog.starts_with(nspname, 'pg_') \
                    AND nspname OPERATOR(pg_catalog.<>) ALL ('{information_schema,hihooi}'))), true)".into()),
    ]
}

/// Returns the number of changes from the first one on that one statement can execute.
fn together(changes: &[CommitChange]) -> usize {
    let mut keys = BTreeSet::new();
    let alike = changes.iter().take(ROWS_MAX).take_while(|change| {
        is_alike(&changes[0], change)
            && match change {
                // A statement changes a row once.
                CommitChange::Update { table, new, .. } => keys.insert(key_of(table, new)),
                _ => true,
            }
    });
    alike.count()
}

/// Returns whether one statement can execute both changes.
fn is_alike(first: &CommitChange, second: &CommitChange) -> bool {
    match (first, second) {
        (CommitChange::Insert { table, new }, CommitChange::Insert { table: other, .. }) => {
            Arc::ptr_eq(table, other) && !new.is_empty()
        }
        (
            CommitChange::Update {
                table,
                old: None,
                new,
            },
            CommitChange::Update {
                table: other,
                old: None,
                new: others,
            },
        ) => {
            let mut columns = new.iter().zip(others);
            let is_same = columns
                .all(|(a, b)| (*a == TupleValue::Unchanged) == (*b == TupleValue::Unchanged));
            let is_any_set = pairs(table, new)
                .is_ok_and(|pairs| pairs.iter().any(|(column, value)| is_set(column, value)));
            let can_be_set = can_be_named(table) && can_keep_row(table, &None, new);
            Arc::ptr_eq(table, other) && can_be_set && is_same && is_any_set
        }
        (CommitChange::Delete { table, .. }, CommitChange::Delete { table: other, .. }) => {
            Arc::ptr_eq(table, other) && can_be_named(table)
        }
        _ => false,
    }
}

/// Returns whether rows of a table can be written as values of its row type, and have a key by
/// which to find them.
fn can_be_named(table: &TableShape) -> bool {
    let is_text = |column: &ShapeColumn| column.type_oid != row_match::CHAR;
    table.has_key && table.is_whole && table.columns.iter().all(is_text)
}

/// Returns whether an update that keeps the key gives a column this value.
fn is_set(column: &ShapeColumn, value: &TupleValue) -> bool {
    *value != TupleValue::Unchanged && !column.in_key && column.settable
}

fn key_of<'t>(table: &TableShape, tuple: &'t Tuple) -> Vec<&'t TupleValue> {
    let columns = table.columns.iter().zip(tuple);
    let key = columns.filter(|(column, _)| column.in_key);
    key.map(|(_, value)| value).collect()
}

/// Returns the batch of changes that one statement can execute together.
fn rows(run: &[CommitChange]) -> Result<RowBatch, ReplicationError> {
    let mut rows = Vec::with_capacity(run.len());
    for change in run {
        rows.push(match change {
            CommitChange::Insert { table, new } => format!("({})", values(table, new)?),
            CommitChange::Update { table, new, .. } => row_literal(table, new, |column, value| {
                column.in_key || is_set(column, value)
            })?,
            CommitChange::Delete {
                table,
                old: OldTuple::Key(tuple) | OldTuple::Row(tuple),
            } => row_literal(table, tuple, |column, _| column.in_key)?,
            CommitChange::Truncate { .. } | CommitChange::Statement(..) | CommitChange::Lost(_) => {
                unreachable!("they are alone")
            }
        });
    }
    let (head, tail) = match &run[0] {
        CommitChange::Insert { table, new } => (into(table, new)?, String::new()),
        CommitChange::Update { table, new, .. } => {
            let sets = pairs(table, new)?.into_iter();
            let sets = sets.filter(|(column, value)| is_set(column, value));
            let sets = sets.map(|(column, _)| {
                let column = quoted(&column.name);
                format!("{column} = v.{column}")
            });
            let sets: Vec<String> = sets.collect();
            let head = format!(
                "UPDATE ONLY {} AS t SET {} FROM unnest(ARRAY[",
                name(table),
                sets.join(", ")
            );
            (head, found_in_rows(table))
        }
        CommitChange::Delete { table, .. } => {
            let head = format!("DELETE FROM ONLY {} AS t USING unnest(ARRAY[", name(table));
            (head, found_in_rows(table))
        }
        CommitChange::Truncate { .. } | CommitChange::Statement(..) | CommitChange::Lost(_) => {
            unreachable!("they are alone")
        }
    };
    Ok(RowBatch { head, rows, tail })
}

/// Returns the end of a statement that finds rows by values of their table's row type.
fn found_in_rows(table: &TableShape) -> String {
    let key = table.columns.iter().filter(|column| column.in_key);
    let same = key.map(|column| {
        let (name, equality) = (quoted(&column.name), &column.equality);
        format!("t.{name} {equality} v.{name}")
    });
    let same: Vec<String> = same.collect();
    format!("]::{}[]) AS v WHERE {}", name(table), same.join(" AND "))
}

/// Returns a row as a value of its table's row type. Columns for which `wants` returns false are
/// NULL.
fn row_literal(
    table: &TableShape,
    tuple: &Tuple,
    wants: impl Fn(&ShapeColumn, &TupleValue) -> bool,
) -> Result<String, ReplicationError> {
    let mut fields = Vec::with_capacity(tuple.len());
    for (column, value) in pairs(table, tuple)? {
        fields.push(match value {
            TupleValue::Text(bytes) if wants(column, value) => {
                let text = utf8(bytes)?.replace('\\', "\\\\").replace('"', "\"\"");
                format!("\"{text}\"")
            }
            _ => String::new(),
        });
    }
    Ok(literal(&format!("({})", fields.join(","))))
}

fn one_row(sql: String) -> ApplyStatement {
    ApplyStatement {
        sql,
        row_count: Some(1),
    }
}

fn any(sql: String) -> ApplyStatement {
    ApplyStatement {
        sql,
        row_count: None,
    }
}

fn insert(table: &TableShape, new: &Tuple) -> Result<String, ReplicationError> {
    match new.is_empty() {
        true => Ok(format!("INSERT INTO {} DEFAULT VALUES", name(table))),
        false => Ok(format!("{}({})", into(table, new)?, values(table, new)?)),
    }
}

/// Returns the beginning of an INSERT statement, before the values of its rows.
fn into(table: &TableShape, new: &Tuple) -> Result<String, ReplicationError> {
    let names = pairs(table, new)?.into_iter();
    let names: Vec<String> = names.map(|(column, _)| quoted(&column.name)).collect();
    Ok(format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ",
        name(table),
        names.join(", ")
    ))
}

/// Returns the values of a row.
fn values(table: &TableShape, new: &Tuple) -> Result<String, ReplicationError> {
    let texts = pairs(table, new)?.into_iter();
    let texts = texts.map(|(column, value)| text(column, value));
    Ok(texts
        .collect::<Result<Vec<String>, ReplicationError>>()?
        .join(", "))
}

fn update(
    table: &TableShape,
    old: Option<&OldTuple>,
    new: &Tuple,
) -> Result<String, ReplicationError> {
    let found = match old {
        Some(old) => row_match::condition(table, old)?,
        None => row_match::key_condition(table, new)?,
    };
    if !can_keep_row(table, &old, new) {
        return replacement(table, new, &found);
    }
    let keeps_key = old.is_none();
    let mut changes = Vec::new();
    for (column, value) in pairs(table, new)? {
        let is_kept = *value == TupleValue::Unchanged || (keeps_key && column.in_key);
        if !is_kept && column.settable {
            changes.push(format!(
                "{} = {}",
                quoted(&column.name),
                text(column, value)?
            ));
        }
    }
    Ok(match changes.is_empty() {
        // Nothing but the key: the row must be there all the same.
        true => format!("SELECT 1 FROM ONLY {} WHERE {found}", name(table)),
        false => format!(
            "UPDATE ONLY {} SET {} WHERE {found}",
            name(table),
            changes.join(", ")
        ),
    })
}

/// Returns whether UPDATE can give a row all of its new values. It cannot if an identity column
/// that is always generated may have another value, after `SET id = DEFAULT`.
fn can_keep_row(table: &TableShape, old: &Option<&OldTuple>, new: &Tuple) -> bool {
    let before = match old {
        Some(OldTuple::Key(tuple) | OldTuple::Row(tuple)) => Some(tuple),
        None => None,
    };
    let mut columns = table.columns.iter().zip(new).enumerate();
    columns.all(|(place, (column, value))| {
        let is_known = before.is_some_and(|before| before.get(place) == Some(value));
        let keeps_key = before.is_none() && column.in_key;
        column.settable || *value == TupleValue::Unchanged || keeps_key || is_known
    })
}

/// Returns a statement that deletes a row and inserts the new one instead.
fn replacement(table: &TableShape, new: &Tuple, found: &str) -> Result<String, ReplicationError> {
    let mut values = Vec::with_capacity(new.len());
    for (column, value) in pairs(table, new)? {
        values.push(match value {
            TupleValue::Unchanged => format!("old.{}", quoted(&column.name)),
            _ => text(column, value)?,
        });
    }
    let into = into(table, new)?;
    let into = into.strip_suffix("VALUES ").unwrap_or(&into);
    Ok(format!(
        "WITH old AS (DELETE FROM ONLY {} WHERE {found} RETURNING *) {into}SELECT {} FROM old",
        name(table),
        values.join(", ")
    ))
}

fn pairs<'t>(
    table: &'t TableShape,
    tuple: &'t Tuple,
) -> Result<Vec<(&'t ShapeColumn, &'t TupleValue)>, ReplicationError> {
    match table.columns.len() == tuple.len() {
        true => Ok(table.columns.iter().zip(tuple).collect()),
        false => Err(ReplicationError::Stream(format!(
            "a row of {} has another number of columns than the table",
            name(table)
        ))),
    }
}

/// Returns a value as SQL.
fn text(column: &ShapeColumn, value: &TupleValue) -> Result<String, ReplicationError> {
    match value {
        TupleValue::Null => Ok("NULL".into()),
        TupleValue::Unchanged => Err(ReplicationError::Stream(
            "a value is missing where it is needed".into(),
        )),
        // Servers before 16 write this type's byte as it is.
        TupleValue::Text(bytes) if column.type_oid == row_match::CHAR && !bytes.is_ascii() => {
            let number = i8::from_ne_bytes([bytes[0]]);
            Ok(format!(
                "CAST(CAST('{number}' AS pg_catalog.int4) AS pg_catalog.\"char\")"
            ))
        }
        TupleValue::Text(bytes) => Ok(literal(utf8(bytes)?)),
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, ReplicationError> {
    str::from_utf8(bytes).map_err(|_| ReplicationError::Stream("a value is not UTF-8".into()))
}

/// Returns the name of a table for TRUNCATE. Tables that inherit from it are named separately if
/// they are emptied, too. The partitions of a partitioned table are always emptied with it.
fn truncated(table: &TableShape) -> String {
    match table.is_partitioned {
        true => name(table),
        false => format!("ONLY {}", name(table)),
    }
}

fn name(table: &TableShape) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.name))
}
