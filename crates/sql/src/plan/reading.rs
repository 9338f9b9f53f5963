//! Plans the reads of a statement: the access, the filter and the columns for the partitions, and
//! the bound on reads that no index serves.

use std::collections::BTreeSet;

use placement::{Column, Schema};
use protocol::configuration::PlacedTable;
use protocol::expression::{self, Expression, ExpressionError, Scope as Names};

use super::access::{AccessChoice, AccessKind, Estimates, ReadRequirements};
use super::cost::{EstimatedChoice, cheapest};
use super::{Context, ReadPlan, UnaskedScan, access_path};
use crate::error::SqlError;

/// Whether a statement may read a whole table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// The statement requests it.
    Asked,
    /// The statement may read a table with at most this many rows.
    UpTo(u64),
}

impl Scan {
    /// Returns which tables a statement may scan: any table if it requests a scan (`is_asked`) or
    /// the session allows scans, otherwise tables with few rows.
    pub fn of(is_asked: bool, context: &Context<'_>) -> Scan {
        match is_asked || context.settings.scan {
            true => Scan::Asked,
            false => Scan::UpTo(context.settings.scan_rows),
        }
    }

    /// Returns the limit of a read. Returns none if an index serves it, if it is short, or if the
    /// statement requests a scan.
    ///
    /// | without an index | reads |
    /// |---|---|
    /// | `count(*)` of all rows | none: they are counted where they are |
    /// | a small `LIMIT` of any rows, or in the order of an index | so many |
    /// | a large one | so many, which is bounded |
    /// | a `WHERE`, another order | the whole table, which is bounded |
    pub fn bound(
        self,
        choice: &AccessChoice,
        request: ReadRequirements<'_>,
        conjuncts: &[Expression],
    ) -> Option<UnaskedScan> {
        let Scan::UpTo(rows_max) = self else {
            return None;
        };
        let is_served = !matches!(choice.access.kind, AccessKind::Scan | AccessKind::First);
        // With a filter, all rows may be looked at before there are enough.
        let is_filtered = (0..conjuncts.len()).any(|it| !choice.taken.contains(&it));
        let stops_at_limit = choice.descending.is_some() && !is_filtered;
        let is_short = match request.counted {
            true => conjuncts.is_empty(),
            false => request.limited && stops_at_limit,
        };
        (!is_served && !is_short).then(|| UnaskedScan {
            rows_max,
            rows_wanted: request.rows.filter(|_| stops_at_limit),
        })
    }
}

/// Refuses a condition that the partitions would refuse, though each part of it is allowed.
pub(super) fn check_size(
    columns: &[Column],
    condition: Option<&Expression>,
) -> Result<(), SqlError> {
    let checked = condition.map(|it| expression::check_condition(it, columns, Names::Row));
    match checked {
        Some(Err(error @ (ExpressionError::TooCostly | ExpressionError::TooDeep))) => {
            let text = "WHERE".to_string();
            Err(SqlError::Expression { text, error })
        }
        _ => Ok(()),
    }
}

/// Returns the best access, and the estimates by which it was chosen, if there were any.
pub(super) fn choose(
    table: &PlacedTable,
    conjuncts: &[Expression],
    request: ReadRequirements<'_>,
) -> (AccessChoice, Option<EstimatedChoice>) {
    if let Some(chosen) = access_path::by_index(table, conjuncts, request) {
        return chosen;
    }
    let scan = access_path::by_scan(table, request);
    cheapest(vec![scan], table, conjuncts, request).expect("there is one")
}

/// Returns the conjuncts that the access does not already guarantee.
pub(super) fn rest(conjuncts: Vec<Expression>, taken: &[usize]) -> Option<Expression> {
    let rest = conjuncts.into_iter().enumerate();
    let rest = rest.filter(|(position, _)| !taken.contains(position));
    Expression::all(rest.map(|(_, conjunct)| conjunct).collect())
}

/// Returns the best read of all columns of the rows that satisfy these conjuncts, and whether each
/// of its segments is in the requested order.
pub(super) fn read(
    table: &PlacedTable,
    conjuncts: Vec<Expression>,
    request: ReadRequirements<'_>,
    scan: Scan,
) -> (ReadPlan, bool) {
    let (choice, estimated) = choose(table, &conjuncts, request);
    let unasked = scan.bound(&choice, request, &conjuncts);
    let AccessChoice {
        access,
        taken,
        descending,
    } = choice;
    let read = ReadPlan {
        table: table.id,
        access,
        unasked,
        filter: rest(conjuncts, &taken),
        projection: None,
        descending: descending.unwrap_or(false),
        estimated,
    };
    (read, descending.is_some())
}

/// Returns the columns that the expressions name, rising; none if that is all of them. At least
/// one, so that rows can be distinguished from nothing.
pub(super) fn projection<'e>(
    schema: &Schema,
    expressions: impl Iterator<Item = &'e Expression>,
) -> Option<Vec<u16>> {
    let mut columns = Vec::new();
    for expression in expressions {
        gather_columns(expression, &mut columns);
    }
    if columns.is_empty() {
        columns.push(schema.primary_key[0] as u16);
    }
    columns.sort_unstable();
    columns.dedup();
    (columns.len() < schema.columns.len()).then_some(columns)
}

fn gather_columns(expression: &Expression, columns: &mut Vec<u16>) {
    match expression {
        Expression::Column(column) => columns.push(*column),
        Expression::Excluded(_) | Expression::Literal(_) => {}
        Expression::Unary(_, operand) => gather_columns(operand, columns),
        Expression::Binary(_, left, right) => {
            gather_columns(left, columns);
            gather_columns(right, columns);
        }
        Expression::Call(call) => {
            for operand in &call.operands {
                gather_columns(operand, columns);
            }
        }
    }
}

/// Lets the expression name columns by their place in the projection.
pub(super) fn renumber(expression: &mut Expression, projection: &[u16]) {
    match expression {
        Expression::Column(column) => {
            let place = projection.binary_search(column);
            *column = place.expect("the projection holds every column named") as u16;
        }
        Expression::Excluded(_) | Expression::Literal(_) => {}
        Expression::Unary(_, operand) => renumber(operand, projection),
        Expression::Binary(_, left, right) => {
            renumber(left, projection);
            renumber(right, projection);
        }
        Expression::Call(call) => {
            for operand in &mut call.operands {
                renumber(operand, projection);
            }
        }
    }
}

/// Returns the read of some columns of all rows of a table.
pub(crate) fn rows_of_columns(table: &PlacedTable, columns: &[usize]) -> ReadPlan {
    let columns = columns.iter().map(|column| u16::try_from(*column));
    let columns = columns.map(|column| column.expect("Schema::validate bounds them"));
    let columns: BTreeSet<u16> = columns.collect();
    ReadPlan {
        projection: Some(columns.into_iter().collect()),
        ..whole_table(table)
    }
}

/// Returns a read of a whole table by its primary key, for an export: every column, partition by
/// partition.
pub(crate) fn whole_table(table: &PlacedTable) -> ReadPlan {
    let request = ReadRequirements {
        order: None,
        rows: None,
        limited: false,
        counted: false,
        columns: None,
        estimates: Estimates::NONE,
    };
    ReadPlan {
        estimated: None,
        unasked: None,
        table: table.id,
        access: access_path::by_scan(table, request).access,
        filter: None,
        projection: None,
        descending: false,
    }
}
