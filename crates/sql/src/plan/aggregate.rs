//! Plans aggregates: `count`, `min` and `max` of all rows that match.
//!
//! | aggregate | read |
//! |---|---|
//! | `count(*)` | the partitions count the rows |
//! | `count(x)` | the same, of rows in which `x` is not NULL |
//! | `min(column)`, `max(column)`, in the order of an index | one row from the end of each range |
//! | any other `min` and `max` | all rows that match, for all aggregates of the statement |
//!
//! An end of a range is read like `SELECT column … WHERE column IS NOT NULL ORDER BY column LIMIT
//! 1`. So an index serves `min` and `max` exactly if it serves such a statement.

use placement::{ColumnType, Schema, Value};
use protocol::configuration::PlacedTable;
use protocol::expression::{Expression, UnaryOperator};

use super::access::{Estimates, OrderColumn, ReadRequirements};
use super::reading::{Scan, projection, read, renumber};
use super::{AggregateOutput, AggregatePart, AggregatePlan, AggregateRead, Context};
use crate::bind::Scope;
use crate::error::SqlError;
use crate::statement::{AggregateFunction, SelectItem};

/// Returns the aggregates of a statement, over the columns of its table. They have no read yet.
pub(super) fn bind(
    items: &[SelectItem],
    scope: &Scope<'_>,
) -> Result<Vec<AggregateOutput>, SqlError> {
    let outputs = items.iter().map(|item| {
        let SelectItem::Aggregate {
            function,
            argument,
            name,
        } = item
        else {
            unreachable!("all items are aggregates, or none is");
        };
        let bound = argument.as_ref().map(|it| scope.output(it)).transpose()?;
        let (argument, found) = match bound {
            Some((argument, found)) => (Some(argument), found),
            None => (None, None),
        };
        Ok(AggregateOutput {
            name: name.clone(),
            column_type: match function {
                AggregateFunction::Count => Some(ColumnType::Int64),
                AggregateFunction::Min | AggregateFunction::Max => found,
            },
            function: *function,
            argument,
            read: 0,
        })
    });
    outputs.collect()
}

/// Adds the reads of a table to its aggregates.
pub(super) fn plan(
    table: &PlacedTable,
    conjuncts: Vec<Expression>,
    mut outputs: Vec<AggregateOutput>,
    (scan, context): (Scan, &Context<'_>),
) -> AggregatePlan {
    let mut reads: Vec<AggregateRead> = Vec::new();
    let mut is_served = true;
    for output in &mut outputs {
        let Some(found) = of_one(table, &conjuncts, output, (scan, context)) else {
            is_served = false;
            break;
        };
        let known = reads.iter().position(|it| *it == found);
        output.read = known.unwrap_or_else(|| {
            reads.push(found);
            reads.len() - 1
        });
    }
    if !is_served {
        reads = vec![of_all(table, conjuncts, &outputs, (scan, context))];
        outputs.iter_mut().for_each(|output| output.read = 0);
    }
    for output in &mut outputs {
        let AggregateRead { read, part } = &reads[output.read];
        if *part == AggregatePart::Count {
            output.argument = None;
        } else if let (Some(projection), Some(argument)) = (&read.projection, &mut output.argument)
        {
            renumber(argument, projection);
        }
    }
    AggregatePlan {
        reads,
        outputs,
        is_returned: true,
    }
}

/// Returns the read of one aggregate alone. Returns none if it needs all rows.
fn of_one(
    table: &PlacedTable,
    conjuncts: &[Expression],
    output: &AggregateOutput,
    (scan, context): (Scan, &Context<'_>),
) -> Option<AggregateRead> {
    let argument = output.argument.as_ref();
    let not_null = argument.and_then(|it| is_not_null(&table.schema, it));
    let conjuncts: Vec<Expression> = conjuncts.iter().cloned().chain(not_null).collect();
    let (column, descending) = match (output.function, argument) {
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
        (AggregateFunction::Min | AggregateFunction::Max, _) => return None,
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

/// Returns the read of all rows, for all aggregates of a statement.
fn of_all(
    table: &PlacedTable,
    conjuncts: Vec<Expression>,
    outputs: &[AggregateOutput],
    (scan, context): (Scan, &Context<'_>),
) -> AggregateRead {
    let arguments = outputs.iter().filter_map(|it| it.argument.as_ref());
    let columns = projection(&table.schema, arguments);
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
