//! Arithmetic of numbers and dates, with the results and errors of PostgreSQL.

use placement::{ColumnType, DATES, Value, ValueRef, narrowed, numeric_of};

use super::types::{as_float, common_number};
use super::{BinaryOperator, ExpressionError};

/// Returns the result of an arithmetic operator. Neither operand is NULL.
pub(super) fn arithmetic(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<Value, ExpressionError> {
    let wrong = || wrong_types(operator, left, right);
    let types = (left.column_type(), right.column_type());
    if let (Some(left), Some(right)) = (left.integer(), right.integer()) {
        let result = integer_arithmetic(operator, left, right)?;
        let overflow = |_| ExpressionError::Overflow;
        let (Some(left), Some(right)) = types else {
            return Err(wrong());
        };
        return Ok(match common_number(left, right) {
            ColumnType::Int16 => Value::Int16(result.try_into().map_err(overflow)?),
            ColumnType::Int32 => Value::Int32(result.try_into().map_err(overflow)?),
            _ => Value::Int64(result),
        });
    }
    if let ValueRef::Date(_) = left {
        return date_arithmetic(operator, left, right);
    }
    if let (ValueRef::Date(_), BinaryOperator::Add) = (right, operator) {
        return date_arithmetic(operator, right, left);
    }
    let is_numeric = |it: ValueRef<'_>| matches!(it, ValueRef::Numeric(_));
    let has_float = left.float().is_some() || right.float().is_some();
    if (is_numeric(left) || is_numeric(right)) && !has_float {
        return numeric_arithmetic(operator, left, right);
    }
    // Floats have no remainder in SQL.
    if operator == BinaryOperator::Modulo {
        return Err(wrong());
    }
    if let (ValueRef::Float32(left), ValueRef::Float32(right)) = (left, right) {
        // A double has more than twice the bits, so that the second rounding changes nothing.
        let result = float_arithmetic(operator, left.into(), right.into())?;
        if result.is_finite() && (result as f32).is_infinite() {
            return Err(ExpressionError::Overflow);
        }
        return match narrowed(result) {
            Ok(narrow) => Ok(Value::Float32(narrow)),
            Err(_) => Err(ExpressionError::Underflow),
        };
    }
    match (as_float(left)?, as_float(right)?) {
        (Some(left), Some(right)) => float_arithmetic(operator, left, right).map(Value::Float64),
        _ => Err(wrong()),
    }
}

/// Computes an operation of two numbers without a fraction in binary.
fn numeric_arithmetic(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<Value, ExpressionError> {
    let (Some(one), Some(other)) = (numeric_of(left), numeric_of(right)) else {
        return Err(wrong_types(operator, left, right));
    };
    let (one, other) = (one.as_ref(), other.as_ref());
    let result = match operator {
        BinaryOperator::Add => one.plus(other),
        BinaryOperator::Subtract => one.minus(other),
        BinaryOperator::Multiply => one.times(other),
        BinaryOperator::Divide => one.divided_by(other),
        BinaryOperator::Modulo => one.remainder(other),
        _ => return Err(wrong_types(operator, left, right)),
    };
    Ok(Value::Numeric(result?))
}

/// Adds days to a date or takes them from it, or returns the days between two dates.
fn date_arithmetic(
    operator: BinaryOperator,
    date: ValueRef<'_>,
    other: ValueRef<'_>,
) -> Result<Value, ExpressionError> {
    let ValueRef::Date(days) = date else {
        return Err(wrong_types(operator, date, other));
    };
    let is_finite = |days: i32| days != i32::MAX && days != i32::MIN;
    match (operator, other) {
        (BinaryOperator::Subtract, ValueRef::Date(other)) => {
            let both = is_finite(days) && is_finite(other);
            let between = days.checked_sub(other).filter(|_| both);
            between.map(Value::Int32).ok_or(ExpressionError::Overflow)
        }
        (
            BinaryOperator::Add | BinaryOperator::Subtract,
            ValueRef::Int16(_) | ValueRef::Int32(_),
        ) => {
            if !is_finite(days) {
                return Ok(Value::Date(days));
            }
            let by = other.integer().unwrap_or_default();
            let by = if operator == BinaryOperator::Add {
                by
            } else {
                -by
            };
            let moved = i32::try_from(i64::from(days) + by).ok();
            let moved = moved.filter(|it| DATES.contains(it));
            moved.map(Value::Date).ok_or(ExpressionError::Overflow)
        }
        _ => Err(wrong_types(operator, date, other)),
    }
}

fn integer_arithmetic(
    operator: BinaryOperator,
    left: i64,
    right: i64,
) -> Result<i64, ExpressionError> {
    if right == 0 && matches!(operator, BinaryOperator::Divide | BinaryOperator::Modulo) {
        return Err(ExpressionError::DivisionByZero);
    }
    let result = match operator {
        BinaryOperator::Add => left.checked_add(right),
        BinaryOperator::Subtract => left.checked_sub(right),
        BinaryOperator::Multiply => left.checked_mul(right),
        BinaryOperator::Divide => left.checked_div(right),
        // The remainder of the smallest integer by -1 is 0, though its quotient overflows.
        BinaryOperator::Modulo => Some(left.wrapping_rem(right)),
        _ => unreachable!("an arithmetic operator is one of these"),
    };
    result.ok_or(ExpressionError::Overflow)
}

/// Computes a float operation as PostgreSQL does. A result that is infinite although no operand is,
/// or zero although none is, is an error.
fn float_arithmetic(
    operator: BinaryOperator,
    left: f64,
    right: f64,
) -> Result<f64, ExpressionError> {
    let (result, may_underflow) = match operator {
        BinaryOperator::Add => (left + right, false),
        BinaryOperator::Subtract => (left - right, false),
        BinaryOperator::Multiply => (left * right, left != 0.0 && right != 0.0),
        BinaryOperator::Divide if right == 0.0 && !left.is_nan() => {
            return Err(ExpressionError::DivisionByZero);
        }
        BinaryOperator::Divide => (left / right, left != 0.0 && !right.is_infinite()),
        _ => unreachable!("`arithmetic` sends only these here"),
    };
    if result.is_infinite() && !left.is_infinite() && !right.is_infinite() {
        return Err(ExpressionError::Overflow);
    }
    if result == 0.0 && may_underflow {
        return Err(ExpressionError::Underflow);
    }
    Ok(result)
}

/// Returns the error for operands that an operator does not know.
pub(super) fn wrong_types(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> ExpressionError {
    ExpressionError::WrongTypes {
        operator,
        left: left.column_type(),
        right: right.column_type(),
    }
}
