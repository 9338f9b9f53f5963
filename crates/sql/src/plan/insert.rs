//! Plans `INSERT`: encodes the rows and their keys before any request is sent.

use std::collections::BTreeSet;

use client::default_value;
use placement::{
    Column, ColumnDefault, ComputedDefault, Constraint, IdentityKind, ReplexKind, RowView, Value,
    check_key_bytes, columns_of, encode_key, encode_row, encode_sorted, key_has_null,
};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::expression::{Assignment, Expression, generated_values};
use protocol::operation::{Action, Mutation};
use sqlparser::ast::Expr;

use super::outputs::output_items;
use super::{Context, InsertPlan, SkippedDuplicates, has_dense};
use crate::bind::Scope;
use crate::error::{SqlError, StatementProgress, sqlstate};
use crate::statement::{ConflictUpdate, Insert, NewRows, SetColumn};

/// Plans an `INSERT`.
pub(super) fn plan(insert: &Insert, context: &Context<'_>) -> Result<InsertPlan, SqlError> {
    let table = context.table(&insert.table.name)?;
    let schema = &table.schema;
    let scope = context.scope(schema, &insert.table);
    let columns: Vec<usize> = match &insert.columns {
        None => schema.visible_positions(),
        Some(names) => {
            let columns = names.iter().map(|name| scope.column(name));
            columns.collect::<Result<_, _>>()?
        }
    };
    if let Some(twice) = (1..columns.len()).find(|it| columns[..*it].contains(&columns[*it])) {
        let name = &schema.columns[columns[twice]].name;
        return Err(SqlError::with_state(
            sqlstate::DUPLICATE_COLUMN,
            format!("column {name} is named twice: name it once"),
        ));
    }
    let (conflict, left_out) = conflict(insert, table, &scope)?;
    let returning = output_items(&insert.returning, &scope)?;
    let mut in_order = has_dense(schema);
    let mut seen = BTreeSet::new();
    let mut seen_keys = BTreeSet::new();
    let mut mutations = Vec::with_capacity(insert.rows.len());
    for (position, given) in insert.rows.iter().enumerate() {
        let number = position + 1;
        let mut values = row_values(table, &columns, insert.columns.is_some(), given, &scope)
            .map_err(|error| error.in_row(number, insert.rows.len()))?;
        let (pk, row) = encode(table, &mut values, number)?;
        if !seen.insert(pk.clone()) {
            match conflict {
                // The first row that gets in is kept, as PostgreSQL does.
                Conflict::Keep => in_order = true,
                Conflict::Fail if left_out != SkippedDuplicates::Nothing => in_order = true,
                Conflict::Fail | Conflict::Update(..) => {
                    return Err(SqlError::Duplicate {
                        table: schema.name.clone(),
                        key: format!("{} (twice in this statement)", describe_pk(table, &values)),
                        done: StatementProgress::default(),
                    });
                }
            }
        }
        if insert.on_conflict.is_some() {
            let mut keys = unique_keys(table, &values);
            in_order |= keys.any(|key| !seen_keys.insert(key));
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
        in_order,
        only_together: insert.select.is_some(),
        left_out,
        returning,
    })
}

/// Plans the insertion of rows that are encoded.
pub(super) fn plan_rows(new: &NewRows, context: &Context<'_>) -> Result<InsertPlan, SqlError> {
    let table = context.configuration.table(new.table);
    let table = table.ok_or_else(|| SqlError::UnknownTable {
        table: new.name.clone(),
        tables: Vec::new(),
    })?;
    if new.planned < table.columns_since {
        return Err(SqlError::Serialization {
            message: format!(
                "the columns of table {} have changed since the COPY began: begin it again",
                table.schema.name
            ),
        });
    }
    let mut seen = BTreeSet::new();
    let twice = new.rows.iter().find(|row| !seen.insert(&row.pk[..]));
    if let Some(Action::Insert { row }) = twice.map(|twice| &twice.action) {
        let row = RowView::parse(&table.schema.columns, row).expect("it was encoded for the table");
        return Err(SqlError::Duplicate {
            table: new.name.clone(),
            key: describe_pk(table, &row.to_values()),
            done: StatementProgress::default(),
        });
    }
    Ok(InsertPlan {
        table: table.id,
        mutations: new.rows.clone(),
        in_order: has_dense(&table.schema),
        only_together: false,
        left_out: SkippedDuplicates::Nothing,
        returning: Vec::new(),
    })
}

/// Sets the generated columns of a row. Returns its memcomparable primary key and the encoded row.
/// Errors mention the row's `number`.
pub(crate) fn encode(
    table: &PlacedTable,
    values: &mut Vec<Value>,
    number: usize,
) -> Result<(Vec<u8>, Vec<u8>), SqlError> {
    let schema = &table.schema;
    for (position, value) in generated_values(schema, values).map_err(|error| {
        let text = format!("the generated columns of table {}", schema.name);
        SqlError::Expression { text, error }
    })? {
        values[position] = value;
    }
    let row = encode_row(&schema.columns, values).map_err(|error| SqlError::Row {
        table: schema.name.clone(),
        row: number,
        error,
    })?;
    // Every sorting key is bounded. Other copies have those of indexes.
    let has_own = |kind: ReplexKind| {
        matches!(
            kind,
            ReplexKind::Primary | ReplexKind::Index { .. } | ReplexKind::Hyperspace
        )
    };
    let own = table.layout.replexes.iter().filter(|it| has_own(it.kind));
    for replex in own {
        let key = encode_sorted(&replex.sort_columns, |column| values[column].as_ref());
        check_key_bytes(&key).map_err(|error| SqlError::Key {
            table: schema.name.clone(),
            row: number,
            error,
        })?;
    }
    let pk = encode_key(schema.primary_key.iter().map(|it| values[*it].as_ref()));
    Ok((pk, row))
}

/// Returns the primary key of a row for people, as `primary key (id) = (1)`.
fn describe_pk(table: &PlacedTable, values: &[Value]) -> String {
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

/// The action where the primary key exists.
enum Conflict {
    Fail,
    Keep,
    Update(Vec<Assignment>, Option<Expression>),
}

/// Returns the keys of a row in the table's unique indexes, each with its replex. Leaves out keys
/// with a NULL, because they are never duplicates.
fn unique_keys<'a>(
    table: &'a PlacedTable,
    values: &'a [Value],
) -> impl Iterator<Item = (usize, Vec<u8>)> + 'a {
    let layout = &table.layout;
    let unique = layout.numbers().filter(|number| is_unique(table, *number));
    unique.filter_map(|number| {
        let columns = columns_of(&layout.replexes[number].sort_columns);
        let key = || columns.iter().map(|column| values[*column].as_ref());
        (!key_has_null(key())).then(|| (number, encode_key(key())))
    })
}

/// Returns whether a replex is that of a unique index.
fn is_unique(table: &PlacedTable, replex: usize) -> bool {
    table.layout.constraint(&table.schema, replex) == Some(Constraint::Unique)
}

fn conflict(
    insert: &Insert,
    table: &PlacedTable,
    scope: &Scope<'_>,
) -> Result<(Conflict, SkippedDuplicates), SqlError> {
    let Some(on_conflict) = &insert.on_conflict else {
        return Ok((Conflict::Fail, SkippedDuplicates::Nothing));
    };
    let target = match &on_conflict.target {
        Some(names) => Some(target(names, table, scope)?),
        None => None,
    };
    let Some(ConflictUpdate {
        assignments,
        condition,
    }) = &on_conflict.update
    else {
        return Ok(match target {
            // Without further keys the primary key alone can have a duplicate.
            None if !table.layout.numbers().any(|it| is_unique(table, it)) => {
                (Conflict::Keep, SkippedDuplicates::Nothing)
            }
            None => (Conflict::Keep, SkippedDuplicates::ByAny),
            Some(replex) if replex == table.layout.primary() => {
                (Conflict::Keep, SkippedDuplicates::Nothing)
            }
            Some(replex) => (Conflict::Fail, SkippedDuplicates::By(replex)),
        });
    };
    if target.is_some_and(|replex| replex != table.layout.primary()) {
        let schema = &table.schema;
        let names: Vec<&str> = schema
            .primary_key
            .iter()
            .map(|it| schema.columns[*it].name.as_str())
            .collect();
        return Err(SqlError::unsupported(
            "DO UPDATE for conflicts of another key than the primary key",
            format!(
                "write ON CONFLICT ({}) DO UPDATE, or DO NOTHING and an UPDATE by the other key",
                names.join(", ")
            ),
        ));
    }
    let scope = Scope {
        excluded: true,
        ..*scope
    };
    let assignments = bind_assignments(assignments, table, &scope)?;
    let condition = match condition {
        Some(condition) => Expression::all(scope.condition(condition)?),
        None => None,
    };
    let update = Conflict::Update(assignments, condition);
    Ok((update, SkippedDuplicates::Nothing))
}

/// Returns the replex of the unique key that has just these columns.
fn target(names: &[String], table: &PlacedTable, scope: &Scope<'_>) -> Result<usize, SqlError> {
    let schema = &table.schema;
    let columns: Result<BTreeSet<usize>, _> = names.iter().map(|it| scope.column(it)).collect();
    let columns = columns?;
    let has_them = |key: &[usize]| key.iter().copied().collect::<BTreeSet<usize>>() == columns;
    let replexes = table.layout.replexes.iter().enumerate();
    let is_key = |number| number == table.layout.primary() || is_unique(table, number);
    let mut keys = replexes
        .filter(|(number, _)| is_key(*number))
        .map(|(number, replex)| (number, columns_of(&replex.sort_columns)));
    if let Some((number, _)) = keys.clone().find(|(_, key)| has_them(key)) {
        return Ok(number);
    }
    let mut spelt = Vec::new();
    for (_, key) in keys.by_ref() {
        let names: Vec<&str> = key
            .iter()
            .map(|it| schema.columns[*it].name.as_str())
            .collect();
        spelt.push(format!("({})", names.join(", ")));
    }
    Err(SqlError::with_state(
        sqlstate::INVALID_REFERENCE,
        format!(
            "ON CONFLICT ({}) names no unique key of table {}: write one of {}, or leave the columns \
         out",
            names.join(", "),
            schema.name,
            spelt.join(", ")
        ),
    ))
}

/// Binds `SET column = value, …`; a missing value is the column's default. A generated column is
/// computed anyway.
pub(super) fn bind_assignments(
    assignments: &[SetColumn],
    table: &PlacedTable,
    scope: &Scope<'_>,
) -> Result<Vec<Assignment>, SqlError> {
    let schema = &table.schema;
    let mut bound = Vec::with_capacity(assignments.len());
    for SetColumn {
        column: name,
        value,
    } in assignments
    {
        let position = scope.column(name)?;
        if schema.primary_key.contains(&position) {
            return Err(SqlError::PrimaryKeyChange {
                table: schema.name.clone(),
                column: name.clone(),
            });
        }
        let column = &schema.columns[position];
        check_generated(column, value.is_some())?;
        if column.generation().is_some() {
            continue;
        }
        let value = match value {
            Some(value) => scope.assigned(value, column)?,
            None => Expression::Literal(new_value(column, scope)?),
        };
        if value == Expression::Literal(Value::Null) && !column.nullable {
            return Err(SqlError::statement(format!(
                "column {name} of table {} is NOT NULL: give it a value",
                schema.name
            )));
        }
        bound.push(Assignment {
            column: position as u16,
            value,
        });
    }
    Ok(bound)
}

/// Refuses a value for a column whose values are always generated.
fn check_generated(column: &Column, has_value: bool) -> Result<(), SqlError> {
    let name = &column.name;
    match &column.default {
        Some(ColumnDefault::Sequence(default)) if !has_value => Err(SqlError::unsupported(
            format!(
                "the default of column {name}, of sequence {}, in an UPDATE",
                default.sequence
            ),
            "select nextval of the sequence, and set its value",
        )),
        Some(ColumnDefault::Sequence(default))
            if default.identity == Some(IdentityKind::Always) =>
        {
            Err(SqlError::with_state(
                sqlstate::GENERATED_ALWAYS,
                format!(
                    "column \"{name}\" can only be updated to DEFAULT: it is an identity column \
                     defined as GENERATED ALWAYS"
                ),
            ))
        }
        Some(ColumnDefault::Generated(_)) if has_value => Err(SqlError::with_state(
            sqlstate::GENERATED_ALWAYS,
            format!(
                "column \"{name}\" can only be updated to DEFAULT: column \"{name}\" is a generated \
                 column"
            ),
        )),
        _ => Ok(()),
    }
}

/// Returns the value for `SET column = DEFAULT`.
fn new_value(column: &Column, scope: &Scope<'_>) -> Result<Value, SqlError> {
    let random = ColumnDefault::Computed(ComputedDefault::RandomUuid);
    if column.default.as_ref() == Some(&random) {
        return Err(SqlError::unsupported(
            format!(
                "the default {} in an UPDATE",
                ComputedDefault::RandomUuid.text()
            ),
            "update row by row, with values of the client",
        ));
    }
    Ok(default_value(
        column,
        scope.now_us.unwrap_or_default(),
        &scope.zone,
    ))
}

fn row_values(
    table: &PlacedTable,
    columns: &[usize],
    columns_named: bool,
    given: &[Option<Expr>],
    scope: &Scope<'_>,
) -> Result<Vec<Value>, SqlError> {
    let schema = &table.schema;
    // As PostgreSQL: without a list of columns, the last ones may be left out.
    let fits = match columns_named {
        true => given.len() == columns.len(),
        false => given.len() <= columns.len(),
    };
    if !fits {
        return Err(SqlError::with_state(
            sqlstate::SYNTAX,
            format!(
                "a row has {} values for {} columns of table {}: give one value per column",
                given.len(),
                columns.len(),
                schema.name
            ),
        ));
    }
    let now_us = scope.now_us.unwrap_or_default();
    let mut values: Vec<Value> = (0..schema.columns.len())
        .map(|it| default_value(&schema.columns[it], now_us, &scope.zone))
        .collect();
    for (position, value) in columns.iter().zip(given) {
        let Some(value) = value else { continue };
        let column = &schema.columns[*position];
        if column.generation().is_some() {
            let name = &column.name;
            return Err(SqlError::with_state(
                sqlstate::GENERATED_ALWAYS,
                format!(
                    "cannot insert a non-DEFAULT value into column \"{name}\": column \"{name}\" is \
                     a generated column"
                ),
            ));
        }
        let place = format!("column {} of table {}", column.name, schema.name);
        values[*position] = scope.value(value, column.column_type, &place)?;
    }
    Ok(values)
}

impl SqlError {
    /// Adds which of several rows a value was for.
    fn in_row(self, number: usize, of: usize) -> SqlError {
        match self {
            SqlError::Literal { place, error } if of > 1 => SqlError::Literal {
                place: format!("row {number}, {place}"),
                error,
            },
            SqlError::Statement { sqlstate, message } if of > 1 => SqlError::Statement {
                sqlstate,
                message: format!("row {number}: {message}"),
            },
            other => other,
        }
    }
}
