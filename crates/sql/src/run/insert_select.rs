//! Reads the rows of an `INSERT … SELECT` before it is planned as an `INSERT … VALUES`.
//!
//! The rows are of one state before the statement, so that a table can be inserted into itself.
//! They are inserted in one transaction, or not at all.

use placement::Value;
use protocol::transaction::CHANGES_MAX;
use sqlparser::ast::{self, Expr};

use super::sequences::SequenceCalls;
use super::{Attempt, StatementOutcome};
use crate::error::{SqlError, sqlstate};
use crate::plan::{Context, StatementPlan, plan};
use crate::sequence_call::{constant, draws_values};
use crate::statement::{Insert, Select, SelectItem, Statement};
use crate::store::Store;

/// The source of the values of a column.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each column of one statement"
)]
enum ColumnSource {
    /// The result of the `SELECT`.
    Result,
    /// The result, which has the type of the column into which it is inserted.
    Open,
    /// An expression that draws a value of a sequence for each row.
    Drawn(Expr),
}

/// Returns an `INSERT … SELECT` with its rows in place of the `SELECT`. None for other statements.
pub(super) async fn with_rows<S: Store>(
    calls: &SequenceCalls<'_, S>,
    statement: &Statement,
) -> Result<Option<Statement>, Attempt> {
    let (reading, context) = (calls.reading, calls.context);
    let insert = match statement {
        Statement::Insert(insert) => insert,
        Statement::ExplainAnalyze(explained) => match &**explained {
            Statement::Insert(insert) if insert.select.is_some() => {
                return Err(SqlError::unsupported(
                    "EXPLAIN ANALYZE of INSERT … SELECT",
                    "write EXPLAIN ANALYZE SELECT …, or EXPLAIN INSERT … SELECT …",
                )
                .into());
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Some(select) = &insert.select else {
        return Ok(None);
    };
    let table = context
        .table(&insert.table.name)
        .map_err(Attempt::Planned)?;
    let mut select = (**select).clone();
    let sources = sources(&mut select, context)?;
    let of_table = table.schema.visible_columns().count();
    check_count(insert, sources.len(), of_table)?;
    let select = calls.select(&select).await?.unwrap_or(select);
    let mut plan = plan(&Statement::Select(select), context).map_err(Attempt::Planned)?;
    if let StatementPlan::Select(plan) = &mut plan {
        let most = CHANGES_MAX as u64 + 1;
        plan.limit = Some(plan.limit.map_or(most, |limit| limit.min(most)));
    }
    let StatementOutcome::Rows(found) = reading.run(plan).await? else {
        unreachable!("a SELECT returns rows")
    };
    if found.rows.len() > CHANGES_MAX {
        return Err(too_large(&format!("it has more than {CHANGES_MAX} rows")).into());
    }
    let rows = found.rows.iter().map(|row| {
        let values = row.iter().zip(&sources);
        let values = values.map(|(value, source)| match source {
            ColumnSource::Result => Some(constant(value)),
            ColumnSource::Open if *value == Value::Null => Some(constant(value)),
            ColumnSource::Open => {
                let text = ast::Value::SingleQuotedString(value.to_string());
                Some(Expr::value(text))
            }
            ColumnSource::Drawn(expression) => Some(expression.clone()),
        });
        values.collect()
    });
    Ok(Some(Statement::Insert(Insert {
        rows: rows.collect(),
        ..insert.clone()
    })))
}

/// Returns the source of each column of the result. Takes the expressions that draw values out of
/// the `SELECT`.
fn sources(select: &mut Select, context: &Context<'_>) -> Result<Vec<ColumnSource>, Attempt> {
    let mut sources = Vec::new();
    for item in &mut select.items {
        match item {
            SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => {
                let table = select.table.as_ref();
                let table = table.map(|table| context.relation(&table.name));
                let table = table.transpose().map_err(Attempt::Planned)?;
                let count = table.map_or(0, |table| table.schema.visible_columns().count());
                sources.extend((0..count).map(|_| ColumnSource::Result));
            }
            SelectItem::Expression { expression, .. } => {
                sources.push(match expression {
                    Expr::Value(value) => match value.value {
                        ast::Value::SingleQuotedString(_) | ast::Value::Placeholder(_) => {
                            ColumnSource::Open
                        }
                        _ => ColumnSource::Result,
                    },
                    drawn if draws_values(drawn) => {
                        let null = Expr::value(ast::Value::Null);
                        ColumnSource::Drawn(std::mem::replace(drawn, null))
                    }
                    _ => ColumnSource::Result,
                });
            }
        }
    }
    Ok(sources)
}

/// Checks that the result has as many columns as the statement inserts.
fn check_count(insert: &Insert, found: usize, of_table: usize) -> Result<(), SqlError> {
    let named = insert.columns.as_ref().map(Vec::len);
    let message = if found > named.unwrap_or(of_table) {
        "INSERT has more expressions than target columns"
    } else if named.is_some_and(|named| found < named) {
        "INSERT has more target columns than expressions"
    } else {
        return Ok(());
    };
    Err(SqlError::with_state(sqlstate::SYNTAX, message))
}

/// Returns the error for rows that one transaction does not take.
pub(super) fn too_large(why: &str) -> SqlError {
    SqlError::with_state(
        sqlstate::LIMIT,
        format!(
            "INSERT … SELECT inserts all rows in one transaction, and nothing was inserted: {why}. \
             Insert parts with a WHERE, or use COPY, or replex export and replex import"
        ),
    )
}
