//! `INSERT`: rows encoded and keyed before anything is sent.

use std::collections::BTreeSet;

use client::protocol::codec::Bytes;
use client::protocol::configuration::Table;
use client::protocol::expression::{Assignment, Expression};
use client::protocol::operation::{Action, Mutation};
use placement::{ReplexKind, Value, check_key_bytes, encode_key, encode_row};
use sqlparser::ast::Expr;

use super::{Context, InsertPlan, has_dense};
use crate::bind::Scope;
use crate::error::{Error, Progress};
use crate::statement::{ConflictUpdate, Insert};

/// Plans an `INSERT`.
pub(super) fn plan(insert: &Insert, context: &Context<'_>) -> Result<InsertPlan, Error> {
    let table = context.table(&insert.table.name)?;
    let schema = &table.schema;
    let scope = context.scope(schema, &insert.table);
    let columns: Vec<usize> = match &insert.columns {
        None => (0..schema.columns.len()).collect(),
        Some(names) => {
            let columns = names.iter().map(|name| scope.column(name));
            columns.collect::<Result<_, _>>()?
        }
    };
    if let Some(twice) = (1..columns.len()).find(|it| columns[..*it].contains(&columns[*it])) {
        let name = &schema.columns[columns[twice]].name;
        return Err(Error::statement(format!(
            "column {name} is named twice: name it once"
        )));
    }
    let conflict = conflict(insert, table, &scope)?;
    let mut seen = BTreeSet::new();
    let mut mutations = Vec::with_capacity(insert.rows.len());
    for (position, given) in insert.rows.iter().enumerate() {
        let number = position + 1;
        let values = row_values(table, &columns, insert.columns.is_some(), given, &scope)
            .map_err(|error| error.in_row(number, insert.rows.len()))?;
        let (pk, row) = encode(table, &values, number)?;
        if !seen.insert(pk.clone()) {
            match conflict {
                // The first one is kept, as PostgreSQL does.
                Conflict::Keep => continue,
                Conflict::Fail | Conflict::Update(..) => {
                    return Err(Error::Duplicate {
                        table: schema.name.clone(),
                        key: format!("{} (twice in this statement)", describe_pk(table, &values)),
                        done: Progress::default(),
                    });
                }
            }
        }
        let row = Bytes(row);
        let action = match &conflict {
            Conflict::Fail => Action::Insert { row },
            Conflict::Keep => Action::InsertOrKeep { row },
            Conflict::Update(assignments, condition) => Action::Upsert {
                row,
                assignments: assignments.clone(),
                condition: condition.clone(),
            },
        };
        let pk = Bytes(pk);
        mutations.push(Mutation { pk, action });
    }
    Ok(InsertPlan {
        table: table.id,
        mutations,
        in_order: has_dense(schema),
    })
}

/// A row as the store wants it: its memcomparable primary key and its bytes. `number` is told in
/// errors.
pub(crate) fn encode(
    table: &Table,
    values: &[Value],
    number: usize,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let schema = &table.schema;
    let row = encode_row(&schema.columns, values).map_err(|error| Error::Row {
        table: schema.name.clone(),
        row: number,
        error,
    })?;
    // Every sorting key is bounded. Hybrids and replicas have those of indexes.
    let replexes = table.layout.replexes.iter();
    let own =
        replexes.filter(|it| !matches!(it.kind, ReplexKind::Hybrid | ReplexKind::Exact { .. }));
    for replex in own {
        let columns = &replex.sort_columns;
        let key = encode_key(columns.iter().map(|column| values[*column].as_ref()));
        check_key_bytes(&key).map_err(|error| Error::Key {
            table: schema.name.clone(),
            row: number,
            error,
        })?;
    }
    let pk = encode_key(schema.primary_key.iter().map(|it| values[*it].as_ref()));
    Ok((pk, row))
}

/// What a column holds that a statement does not give.
pub(crate) fn default_value(table: &Table, column: usize) -> Value {
    let default = &table.schema.columns[column].default;
    default.clone().unwrap_or(Value::Null)
}

/// `primary key (id) = (1)`
fn describe_pk(table: &Table, values: &[Value]) -> String {
    let key: Vec<Value> = table
        .schema
        .primary_key
        .iter()
        .map(|it| values[*it].clone())
        .collect();
    super::text::key(
        "primary key",
        &table.schema,
        &table.schema.primary_key,
        &key,
    )
}

/// What happens where the primary key exists.
enum Conflict {
    Fail,
    Keep,
    Update(Vec<Assignment>, Option<Expression>),
}

fn conflict(insert: &Insert, table: &Table, scope: &Scope<'_>) -> Result<Conflict, Error> {
    let Some(on_conflict) = &insert.on_conflict else {
        return Ok(Conflict::Fail);
    };
    let schema = &table.schema;
    if let Some(target) = &on_conflict.target {
        let columns = target.iter().map(|name| scope.column(name));
        let mut columns: Vec<usize> = columns.collect::<Result<_, _>>()?;
        let mut pk = schema.primary_key.clone();
        columns.sort_unstable();
        pk.sort_unstable();
        if columns != pk {
            let names: Vec<&str> = schema
                .primary_key
                .iter()
                .map(|it| schema.columns[*it].name.as_str())
                .collect();
            return Err(Error::unsupported(
                format!("ON CONFLICT ({})", target.join(", ")),
                format!(
                    "only conflicts of the primary key can be handled: write ON CONFLICT ({})",
                    names.join(", ")
                ),
            ));
        }
    }
    let Some(ConflictUpdate {
        assignments,
        condition,
    }) = &on_conflict.update
    else {
        return Ok(Conflict::Keep);
    };
    let scope = Scope {
        excluded: true,
        ..*scope
    };
    let assignments = bind_assignments(assignments, table, &scope)?;
    let condition = match condition {
        Some(condition) => Expression::all(scope.condition(condition)?),
        None => None,
    };
    Ok(Conflict::Update(assignments, condition))
}

/// Binds `SET column = value, …`; none is the column's default.
pub(super) fn bind_assignments(
    assignments: &[(String, Option<Expr>)],
    table: &Table,
    scope: &Scope<'_>,
) -> Result<Vec<Assignment>, Error> {
    let schema = &table.schema;
    let bound = assignments.iter().map(|(name, value)| {
        let position = scope.column(name)?;
        if schema.primary_key.contains(&position) {
            return Err(Error::PrimaryKeyChange {
                table: schema.name.clone(),
                column: name.clone(),
            });
        }
        let column = &schema.columns[position];
        let value = match value {
            Some(value) => scope.assigned(value, column)?,
            None => Expression::Literal(default_value(table, position)),
        };
        if value == Expression::Literal(Value::Null) && !column.nullable {
            return Err(Error::statement(format!(
                "column {name} of table {} is NOT NULL: give it a value",
                schema.name
            )));
        }
        Ok(Assignment {
            column: position as u16,
            value,
        })
    });
    bound.collect()
}

fn row_values(
    table: &Table,
    columns: &[usize],
    columns_named: bool,
    given: &[Option<Expr>],
    scope: &Scope<'_>,
) -> Result<Vec<Value>, Error> {
    let schema = &table.schema;
    // As PostgreSQL: without a list of columns, the last ones may be left out.
    let fits = match columns_named {
        true => given.len() == columns.len(),
        false => given.len() <= columns.len(),
    };
    if !fits {
        return Err(Error::statement(format!(
            "a row has {} values for {} columns of table {}: give one value per column",
            given.len(),
            columns.len(),
            schema.name
        )));
    }
    let count = schema.columns.len();
    let mut values: Vec<Value> = (0..count).map(|it| default_value(table, it)).collect();
    for (position, value) in columns.iter().zip(given) {
        let Some(value) = value else { continue };
        let column = &schema.columns[*position];
        let place = format!("column {} of table {}", column.name, schema.name);
        values[*position] = scope.value(value, column.column_type, &place)?;
    }
    Ok(values)
}

impl Error {
    /// Says which of several rows a value was for.
    fn in_row(self, number: usize, of: usize) -> Error {
        match self {
            Error::Literal { place, error } if of > 1 => Error::Literal {
                place: format!("row {number}, {place}"),
                error,
            },
            Error::Statement { message } if of > 1 => Error::Statement {
                message: format!("row {number}: {message}"),
            },
            other => other,
        }
    }
}
