//! Plans the reads of aggregates.
//!
//! | aggregate of all rows that match | read |
//! |---|---|
//! | `count(*)` | the partitions count the rows |
//! | `count(x)` | the same, of rows in which `x` is not NULL |
//! | `min(column)`, `max(column)`, in the order of an index | one row from the end of each range |
//! | any other, and one with `DISTINCT` | all rows that match, for the whole statement |
//!
//! The condition after `FILTER` is one more condition of the aggregate's own read. A statement that
//! groups its rows reads all rows that match.
//!
//! An end of a range is read like `SELECT column … WHERE column IS NOT NULL ORDER BY column LIMIT
//! 1`. So an index serves `min` and `max` exactly if it serves such a statement.

use placement::{Schema, Value};
use protocol::configuration::PlacedTable;
use protocol::expression::{Expression, UnaryOperator};

use super::access::{Estimates, OrderColumn, ReadRequirements};
use super::reading::{Scan, projection, read, renumber};
use super::{AggregateCall, AggregatePart, AggregatePlan, AggregateRead, Context, SortKey};
use crate::bind::BoundAggregate;
use crate::statement::AggregateFunction;

/// Returns an aggregate of a plan. It has no read yet.
pub(super) fn call(bound: BoundAggregate) -> AggregateCall {
    let order = bound.order.into_iter().map(|key| SortKey {
        expression: key.expression,
        descending: key.descending,
        nulls_first: key.nulls_first,
    });
    AggregateCall {
        function: bound.function,
        argument: bound.argument,
        argument_type: bound.argument_type,
        distinct: bound.distinct,
        filter: Expression::all(bound.filter),
        separator: bound.separator,
        order: order.collect(),
        read: 0,
    }
}

/// Adds the reads of a table to a plan.
pub(super) fn add_reads(
    plan: &mut AggregatePlan,
    table: &PlacedTable,
    conjuncts: Vec<Expression>,
    (scan, context): (Scan, &Context<'_>),
) {
    let mut reads: Vec<AggregateRead> = Vec::new();
    let mut is_served = !plan.has_keys && !plan.aggregates.is_empty();
    for call in &mut plan.aggregates {
        let found = match is_served {
            true => of_one(table, &conjuncts, call, (scan, context)),
            false => None,
        };
        let Some(found) = found else {
            is_served = false;
            break;
        };
        let known = reads.iter().position(|it| *it == found);
        call.read = known.unwrap_or_else(|| {
            reads.push(found);
            reads.len() - 1
        });
    }
    if !is_served {
        reads = vec![of_all(table, conjuncts, plan, (scan, context))];
        plan.aggregates.iter_mut().for_each(|call| call.read = 0);
    }
    for call in &mut plan.aggregates {
        let AggregateRead { read, part } = &reads[call.read];
        if *part != AggregatePart::All {
            // The read has the condition.
            call.filter = None;
        }
        if *part == AggregatePart::Count {
            call.argument = None;
        } else if let Some(projection) = &read.projection {
            let parts = [&mut call.argument, &mut call.filter];
            let order = call.order.iter_mut().map(|key| &mut key.expression);
            for expression in parts.into_iter().flatten().chain(order) {
                renumber(expression, projection);
            }
        }
    }
    if let Some(projection) = &reads[0].read.projection {
        for key in &mut plan.keys {
            renumber(key, projection);
        }
    }
    plan.reads = reads;
}

/// Returns the read of one aggregate alone. Returns none if it needs all rows.
fn of_one(
    table: &PlacedTable,
    conjuncts: &[Expression],
    call: &AggregateCall,
    (scan, context): (Scan, &Context<'_>),
) -> Option<AggregateRead> {
    if call.distinct {
        return None;
    }
    let argument = call.argument.as_ref();
    let not_null = argument.and_then(|it| is_not_null(&table.schema, it));
    let conjuncts = conjuncts.iter().chain(&call.filter).cloned();
    let conjuncts: Vec<Expression> = conjuncts.chain(not_null).collect();
    let (column, descending) = match (call.function, argument) {
        (AggregateFunction::Count, _) => {
            let request = ReadRequirements {
                order: None,
                rows: None,
                limited: false,
                counted: true,
                columns: Some(&[]),
                estimates: Estimates::of(context),
            };
            let (read, _) = read(table, conjuncts, request, scan);
            return Some(AggregateRead {
                read,
                part: AggregatePart::Count,
            });
        }
        (AggregateFunction::Min, Some(Expression::Column(column))) => (*column, false),
        (AggregateFunction::Max, Some(Expression::Column(column))) => (*column, true),
        _ => return None,
    };
    let order = [OrderColumn {
        column: usize::from(column),
        descending,
        nulls_first: descending,
    }];
    let columns = projection(&table.schema, argument.into_iter());
    let request = ReadRequirements {
        order: Some(&order),
        rows: Some(1),
        limited: context.settings.scan_rows > 0,
        counted: false,
        columns: columns.as_deref(),
        estimates: Estimates::of(context),
    };
    let (mut read, is_ordered) = read(table, conjuncts, request, scan);
    read.projection = columns;
    is_ordered.then_some(AggregateRead {
        read,
        part: AggregatePart::First,
    })
}

/// Returns the read of all rows, for the keys and all aggregates of a plan.
fn of_all(
    table: &PlacedTable,
    conjuncts: Vec<Expression>,
    plan: &AggregatePlan,
    (scan, context): (Scan, &Context<'_>),
) -> AggregateRead {
    let calls = plan.aggregates.iter();
    let needed = calls.flat_map(|call| {
        let order = call.order.iter().map(|key| &key.expression);
        call.argument.iter().chain(&call.filter).chain(order)
    });
    let columns = projection(&table.schema, needed.chain(&plan.keys));
    let request = ReadRequirements {
        order: None,
        rows: None,
        limited: false,
        counted: false,
        columns: columns.as_deref(),
        estimates: Estimates::of(context),
    };
    let (mut read, _) = read(table, conjuncts, request, scan);
    read.projection = columns;
    AggregateRead {
        read,
        part: AggregatePart::All,
    }
}

/// Returns the condition that an expression is not NULL; none if it never is.
fn is_not_null(schema: &Schema, expression: &Expression) -> Option<Expression> {
    match expression {
        Expression::Column(column) if !schema.columns[usize::from(*column)].nullable => None,
        Expression::Literal(Value::Null) => Some(Expression::Literal(Value::Bool(false))),
        Expression::Literal(_) => None,
        expression => {
            let operand = Box::new(expression.clone());
            Some(Expression::Unary(UnaryOperator::IsNotNull, operand))
        }
    }
}
