//! Checks an expression against the columns of a table, before it is evaluated for any row.
//!
//! Columns and literals have types, so the type of every expression is known: one that passes
//! here can fail on a row only because of its values (an overflow, a division by zero, a text
//! that becomes too long, a pattern). Every request from outside passes through this once.

use alloc::format;
use alloc::string::String;

use placement::{Column, ColumnType, Schema, is_assignable, is_castable};

use super::{BinaryOperator, Expression, ExpressionError, UnaryOperator};
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

/// Checks that the conditions of a table's constraints are valid.
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
                UnaryOperator::Negate if operand.is_none_or(ColumnType::is_number) => Ok(operand),
                UnaryOperator::Negate => Err(ExpressionError::NotNumeric { found: operand }),
            }
        }
        Expression::Binary(operator, left, right) => {
            let left = typed(left, columns, scope, nodes, depth + 1)?;
            let right = typed(right, columns, scope, nodes, depth + 1)?;
            result_type(*operator, left, right)
        }
    }
}

/// Returns the type of the results of an operator with two operands; none if they are always NULL.
/// The types of the operands are none where they are always NULL.
///
/// # Errors
/// The operator does not know these types.
pub fn result_type(
    operator: BinaryOperator,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Result<Option<ColumnType>, ExpressionError> {
    let wrong = Err(ExpressionError::WrongTypes {
        operator,
        left,
        right,
    });
    let both = |admits: fn(ColumnType) -> bool| left.is_none_or(admits) && right.is_none_or(admits);
    let same = left.is_none() || right.is_none() || left == right;
    match operator {
        BinaryOperator::And | BinaryOperator::Or => {
            boolean(left)?;
            boolean(right)?;
            Ok(Some(ColumnType::Bool))
        }
        BinaryOperator::Equal
        | BinaryOperator::NotEqual
        | BinaryOperator::Less
        | BinaryOperator::LessEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterEqual => {
            if same || both(ColumnType::is_number) || both(ColumnType::is_time) {
                Ok(Some(ColumnType::Bool))
            } else {
                wrong
            }
        }
        BinaryOperator::Modulo if !both(ColumnType::is_integer) => wrong,
        BinaryOperator::Add | BinaryOperator::Subtract
            if [left, right].contains(&Some(ColumnType::Date)) =>
        {
            moved_date(operator, left, right).map_or(wrong, |found| Ok(Some(found)))
        }
        BinaryOperator::Add
        | BinaryOperator::Subtract
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo => {
            if !both(ColumnType::is_number) {
                return wrong;
            }
            Ok(match (left, right) {
                (Some(left), Some(right)) => Some(common_number(left, right)),
                (left, right) => left.or(right),
            })
        }
        BinaryOperator::Concatenate => {
            if same && both(|it| matches!(it, ColumnType::Text | ColumnType::Bytes)) {
                Ok(left.or(right))
            } else {
                wrong
            }
        }
        BinaryOperator::Like if both(|it| it == ColumnType::Text) => Ok(Some(ColumnType::Bool)),
        BinaryOperator::Like => wrong,
    }
}

fn boolean(found: Option<ColumnType>) -> Result<(), ExpressionError> {
    match found {
        None | Some(ColumnType::Bool) => Ok(()),
        found => Err(ExpressionError::NotBoolean { found }),
    }
}

/// Returns the type to which PostgreSQL promotes two numbers: the larger one of two integers, and a
/// double as soon as a float is combined with another type.
pub(super) fn common_number(left: ColumnType, right: ColumnType) -> ColumnType {
    if left == right {
        left
    } else if left.is_float() || right.is_float() {
        ColumnType::Float64
    } else if [left, right].contains(&ColumnType::Int64) {
        ColumnType::Int64
    } else {
        ColumnType::Int32
    }
}

/// Returns the type of a date that days are added to or taken from, and of the days between two
/// dates; none for other operands.
fn moved_date(
    operator: BinaryOperator,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Option<ColumnType> {
    let is_days = |it: Option<ColumnType>| {
        it.is_none_or(|it| matches!(it, ColumnType::Int16 | ColumnType::Int32))
    };
    let date = Some(ColumnType::Date);
    match operator {
        BinaryOperator::Subtract if left == date && right == date => Some(ColumnType::Int32),
        _ if left == date && is_days(right) => date,
        BinaryOperator::Add if right == date && is_days(left) => date,
        _ => None,
    }
}
