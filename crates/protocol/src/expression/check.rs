//! Checks an expression against the columns of a table, before it is evaluated for any row.
//!
//! Columns and literals have types, so the type of every expression is known: one that passes
//! here can fail on a row only because of its values (an overflow, a division by zero, a text
//! that becomes too long, a pattern). Every request from outside passes through this once.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{Column, ColumnType, Schema, is_assignable, is_castable};

use super::functions::function_type;
use super::types::{boolean, result_type};
use super::{Expression, ExpressionError, UnaryOperator};
use crate::codec::DEPTH_MAX;

/// The most nodes of one expression. A list of a thousand alternatives fits.
pub const NODES_MAX: usize = 4096;

/// The rows that an expression may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only the existing row.
    Row,
    /// The existing row, and the row that an upsert proposes (`excluded`).
    RowAndExcluded,
}

/// Checks an expression, and returns the type of its values. The type is none if the value can only
/// be NULL.
pub fn check(
    expression: &Expression,
    columns: &[Column],
    scope: Scope,
) -> Result<Option<ColumnType>, ExpressionError> {
    let mut nodes = 0;
    typed(expression, columns, scope, &mut nodes, 0)
}

/// Checks that the expression is a valid condition.
pub fn check_condition(
    expression: &Expression,
    columns: &[Column],
    scope: Scope,
) -> Result<(), ExpressionError> {
    boolean(check(expression, columns, scope)?)
}

/// Checks that the conditions of a table's constraints are valid, and the expressions of its
/// generated columns.
///
/// # Errors
/// One is not. Contains the reason, for people.
pub fn check_constraints(schema: &Schema) -> Result<(), String> {
    for check in &schema.constraints.checks {
        check_condition(&check.condition, &schema.columns, Scope::Row).map_err(|error| {
            let (name, table) = (&check.name, &schema.name);
            format!("constraint {name} of table {table}: {error}")
        })?;
    }
    for (_, column, expression) in schema.generated_columns() {
        let column_type = column.column_type;
        check_assignable(column_type, expression, &schema.columns, Scope::Row).map_err(
            |error| {
                let (name, table) = (&column.name, &schema.name);
                format!("generated column {name} of table {table}: {error}")
            },
        )?;
    }
    Ok(())
}

/// Checks that the expression's value can be assigned to a column of this type.
pub fn check_assignable(
    column_type: ColumnType,
    expression: &Expression,
    columns: &[Column],
    scope: Scope,
) -> Result<(), ExpressionError> {
    match check(expression, columns, scope)? {
        Some(found) if !is_assignable(column_type, found) => Err(ExpressionError::NotAssignable {
            expected: column_type,
            found,
        }),
        _ => Ok(()),
    }
}

fn typed(
    expression: &Expression,
    columns: &[Column],
    scope: Scope,
    nodes: &mut usize,
    depth: u32,
) -> Result<Option<ColumnType>, ExpressionError> {
    *nodes += 1;
    if *nodes > NODES_MAX {
        return Err(ExpressionError::TooCostly);
    }
    if depth > DEPTH_MAX {
        return Err(ExpressionError::TooDeep);
    }
    let column = |index: u16| match columns.get(usize::from(index)) {
        Some(column) => Ok(Some(column.column_type.of_values())),
        None => Err(ExpressionError::UnknownColumn { column: index }),
    };
    match expression {
        Expression::Column(index) => column(*index),
        Expression::Excluded(index) => match scope {
            Scope::Row => Err(ExpressionError::NoExcluded),
            Scope::RowAndExcluded => column(*index),
        },
        Expression::Literal(value) => Ok(value.column_type()),
        Expression::Unary(operator, operand) => {
            let operand = typed(operand, columns, scope, nodes, depth + 1)?;
            match operator {
                UnaryOperator::IsNull | UnaryOperator::IsNotNull => Ok(Some(ColumnType::Bool)),
                UnaryOperator::Not => boolean(operand).map(|()| Some(ColumnType::Bool)),
                UnaryOperator::Cast(to) => match operand {
                    Some(from) if !is_castable(from, *to) => {
                        Err(ExpressionError::NotCastable { from, to: *to })
                    }
                    _ => Ok(Some(to.of_values())),
                },
                UnaryOperator::Negate
                    if operand.is_none_or(|it| it.is_number() || it == ColumnType::INTERVAL) =>
                {
                    Ok(operand)
                }
                UnaryOperator::Negate => Err(ExpressionError::NotNumeric { found: operand }),
            }
        }
        Expression::Binary(operator, left, right) => {
            let left = typed(left, columns, scope, nodes, depth + 1)?;
            let right = typed(right, columns, scope, nodes, depth + 1)?;
            result_type(*operator, left, right)
        }
        Expression::Call(call) => {
            let operands = call.operands.iter();
            let types = operands.map(|it| typed(it, columns, scope, nodes, depth + 1));
            let types: Vec<Option<ColumnType>> = types.collect::<Result<_, _>>()?;
            function_type(call.function, &types)
        }
    }
}
