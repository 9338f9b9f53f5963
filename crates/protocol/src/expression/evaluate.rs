//! Evaluates an expression for one row without a copy of the row.
//!
//! Filters run on the path of every read, so operands borrow from the row and from the expression;
//! only a concatenation allocates. Types promote as in PostgreSQL: an int64 that is combined with a
//! float64 becomes a float64. Cost is bounded by a budget of steps and a limit on the length of
//! texts, depth by the codec's limit, which holds here too for expressions that were never encoded.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use placement::{ColumnType, ROW_BYTES_MAX, RowView, Schema, Value, ValueRef};

use super::budget::Budget;
use super::{BinaryOperator, Expression, ExpressionError, UnaryOperator, like};
use crate::codec::DEPTH_MAX;

/// The columns of a row, by position in the table's schema.
pub trait Columns {
    /// Returns the value; none if the row's table has no such column.
    fn column(&self, index: usize) -> Option<ValueRef<'_>>;
}

impl Columns for RowView<'_> {
    fn column(&self, index: usize) -> Option<ValueRef<'_>> {
        (index < self.columns().len()).then(|| RowView::column(self, index))
    }
}

impl Columns for Vec<Value> {
    fn column(&self, index: usize) -> Option<ValueRef<'_>> {
        self.get(index).map(Value::as_ref)
    }
}

/// Returns the value of `expression` for `row`. `excluded` is the row that an upsert proposes.
pub fn evaluate(
    expression: &Expression,
    row: &dyn Columns,
    excluded: Option<&dyn Columns>,
) -> Result<Value, ExpressionError> {
    let operand = Evaluator::new(row, excluded).value(expression, 0)?;
    Ok(match operand {
        Operand::Borrowed(value) => value.to_owned(),
        Operand::Owned(value) => value,
    })
}

/// Evaluates like [`evaluate`], and converts the value to a column's type as PostgreSQL does on
/// assignment. A float64 is rounded to the nearest int64, halves to the even one.
pub fn evaluate_for(
    column_type: ColumnType,
    expression: &Expression,
    row: &dyn Columns,
    excluded: Option<&dyn Columns>,
) -> Result<Value, ExpressionError> {
    let value = evaluate(expression, row, excluded)?;
    match (column_type, value) {
        (ColumnType::Float64, Value::Int64(value)) => Ok(Value::Float64(value as f64)),
        (ColumnType::Int64, Value::Float64(value)) => round(value).map(Value::Int64),
        (_, value) => match value.column_type() {
            Some(found) if found != column_type => Err(ExpressionError::NotAssignable {
                expected: column_type,
                found,
            }),
            _ => Ok(value),
        },
    }
}

/// Returns whether a condition holds for `row`. A condition that is NULL does not hold.
pub fn holds(
    condition: &Expression,
    row: &dyn Columns,
    excluded: Option<&dyn Columns>,
) -> Result<bool, ExpressionError> {
    match Evaluator::new(row, excluded).value(condition, 0)?.as_ref() {
        ValueRef::Bool(holds) => Ok(holds),
        ValueRef::Null => Ok(false),
        other => Err(not_boolean(other)),
    }
}

/// Returns the name of the first CHECK constraint that a row violates; none if it satisfies all. A
/// condition that is NULL is satisfied.
pub fn failed_check<'a>(
    schema: &'a Schema,
    row: &dyn Columns,
) -> Result<Option<&'a str>, ExpressionError> {
    for check in &schema.constraints.checks {
        match Evaluator::new(row, None)
            .value(&check.condition, 0)?
            .as_ref()
        {
            ValueRef::Bool(true) | ValueRef::Null => {}
            ValueRef::Bool(false) => return Ok(Some(&check.name)),
            other => return Err(not_boolean(other)),
        }
    }
    Ok(None)
}

/// A value of the row or of the expression, or one that was made.
enum Operand<'a> {
    Borrowed(ValueRef<'a>),
    Owned(Value),
}

impl Operand<'_> {
    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Operand::Borrowed(value) => *value,
            Operand::Owned(value) => value.as_ref(),
        }
    }
}

struct Evaluator<'a> {
    row: &'a dyn Columns,
    excluded: Option<&'a dyn Columns>,
    budget: Budget,
}

impl<'a> Evaluator<'a> {
    fn new(row: &'a dyn Columns, excluded: Option<&'a dyn Columns>) -> Evaluator<'a> {
        Evaluator {
            row,
            excluded,
            budget: Budget::new(),
        }
    }

    fn value(
        &mut self,
        expression: &'a Expression,
        depth: u32,
    ) -> Result<Operand<'a>, ExpressionError> {
        if depth > DEPTH_MAX {
            return Err(ExpressionError::TooDeep);
        }
        self.budget.spend(1)?;
        let column = |row: &'a dyn Columns, column: u16| {
            let value = row.column(usize::from(column));
            value.ok_or(ExpressionError::UnknownColumn { column })
        };
        let value = match expression {
            Expression::Column(index) => column(self.row, *index)?,
            Expression::Excluded(index) => {
                column(self.excluded.ok_or(ExpressionError::NoExcluded)?, *index)?
            }
            Expression::Literal(value) => value.as_ref(),
            Expression::Unary(operator, operand) => {
                let operand = self.value(operand, depth + 1)?;
                unary(*operator, operand.as_ref())?
            }
            Expression::Binary(operator, left, right) => {
                return self.binary(*operator, left, right, depth + 1);
            }
        };
        Ok(Operand::Borrowed(value))
    }

    fn binary(
        &mut self,
        operator: BinaryOperator,
        left: &'a Expression,
        right: &'a Expression,
        depth: u32,
    ) -> Result<Operand<'a>, ExpressionError> {
        let left = self.value(left, depth)?;
        // The value that decides a conjunction or disjunction alone.
        let decisive = match operator {
            BinaryOperator::And => Some(false),
            BinaryOperator::Or => Some(true),
            _ => None,
        };
        if let Some(decisive) = decisive {
            let left = truth(left.as_ref())?;
            if left == Some(decisive) {
                return Ok(Operand::Borrowed(ValueRef::Bool(decisive)));
            }
            let right = truth(self.value(right, depth)?.as_ref())?;
            let truth = match (left, right) {
                (_, Some(right)) if right == decisive => Some(decisive),
                (Some(_), Some(_)) => Some(!decisive),
                _ => None,
            };
            return Ok(Operand::Borrowed(
                truth.map_or(ValueRef::Null, ValueRef::Bool),
            ));
        }
        let right = self.value(right, depth)?;
        let (left, right) = (left.as_ref(), right.as_ref());
        if left.is_null() || right.is_null() {
            return Ok(Operand::Borrowed(ValueRef::Null));
        }
        let value = match operator {
            BinaryOperator::And | BinaryOperator::Or => {
                unreachable!("conjunctions and disjunctions have returned")
            }
            BinaryOperator::Concatenate => return concatenate(left, right).map(Operand::Owned),
            BinaryOperator::Like => match (left, right) {
                (ValueRef::Text(text), ValueRef::Text(pattern)) => {
                    ValueRef::Bool(like::matches(text, pattern, &mut self.budget)?)
                }
                _ => return Err(wrong_types(operator, left, right)),
            },
            BinaryOperator::Add
            | BinaryOperator::Subtract
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo => arithmetic(operator, left, right)?,
            _ => ValueRef::Bool(comparison(operator, left, right)?),
        };
        // Only numbers and booleans get here; they borrow from neither operand.
        Ok(match value {
            ValueRef::Bool(value) => Operand::Borrowed(ValueRef::Bool(value)),
            ValueRef::Int64(value) => Operand::Borrowed(ValueRef::Int64(value)),
            ValueRef::Float64(value) => Operand::Borrowed(ValueRef::Float64(value)),
            other => Operand::Owned(other.to_owned()),
        })
    }
}

fn truth(value: ValueRef<'_>) -> Result<Option<bool>, ExpressionError> {
    match value {
        ValueRef::Bool(value) => Ok(Some(value)),
        ValueRef::Null => Ok(None),
        other => Err(not_boolean(other)),
    }
}

fn unary<'v>(
    operator: UnaryOperator,
    operand: ValueRef<'_>,
) -> Result<ValueRef<'v>, ExpressionError> {
    Ok(match (operator, operand) {
        (UnaryOperator::IsNull, operand) => ValueRef::Bool(operand.is_null()),
        (UnaryOperator::IsNotNull, operand) => ValueRef::Bool(!operand.is_null()),
        (_, ValueRef::Null) => ValueRef::Null,
        (UnaryOperator::Not, ValueRef::Bool(value)) => ValueRef::Bool(!value),
        (UnaryOperator::Not, other) => return Err(not_boolean(other)),
        (UnaryOperator::Negate, ValueRef::Int64(value)) => {
            ValueRef::Int64(value.checked_neg().ok_or(ExpressionError::Overflow)?)
        }
        (UnaryOperator::Negate, ValueRef::Float64(value)) => ValueRef::Float64(-value),
        (UnaryOperator::Negate, other) => {
            return Err(ExpressionError::NotNumeric {
                found: other.column_type(),
            });
        }
    })
}

fn comparison(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<bool, ExpressionError> {
    let order = match (left, right) {
        (ValueRef::Int64(left), ValueRef::Float64(_)) => ValueRef::Float64(left as f64).cmp(&right),
        (ValueRef::Float64(_), ValueRef::Int64(right)) => {
            left.cmp(&ValueRef::Float64(right as f64))
        }
        _ if left.column_type() == right.column_type() => left.cmp(&right),
        _ => return Err(wrong_types(operator, left, right)),
    };
    Ok(match operator {
        BinaryOperator::Equal => order == Ordering::Equal,
        BinaryOperator::NotEqual => order != Ordering::Equal,
        BinaryOperator::Less => order == Ordering::Less,
        BinaryOperator::LessEqual => order != Ordering::Greater,
        BinaryOperator::Greater => order == Ordering::Greater,
        BinaryOperator::GreaterEqual => order != Ordering::Less,
        _ => unreachable!("`binary` sends only comparisons here"),
    })
}

fn arithmetic<'v>(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<ValueRef<'v>, ExpressionError> {
    match (left, right) {
        (ValueRef::Int64(left), ValueRef::Int64(right)) => {
            integer_arithmetic(operator, left, right).map(ValueRef::Int64)
        }
        // Floats have no remainder in SQL.
        _ if operator == BinaryOperator::Modulo => Err(wrong_types(operator, left, right)),
        (ValueRef::Int64(left), ValueRef::Float64(right)) => {
            float_arithmetic(operator, left as f64, right).map(ValueRef::Float64)
        }
        (ValueRef::Float64(left), ValueRef::Int64(right)) => {
            float_arithmetic(operator, left, right as f64).map(ValueRef::Float64)
        }
        (ValueRef::Float64(left), ValueRef::Float64(right)) => {
            float_arithmetic(operator, left, right).map(ValueRef::Float64)
        }
        _ => Err(wrong_types(operator, left, right)),
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
        _ => unreachable!("`binary` sends only arithmetic here"),
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

fn concatenate(left: ValueRef<'_>, right: ValueRef<'_>) -> Result<Value, ExpressionError> {
    let room = |left: usize, right: usize| match left + right {
        bytes if bytes > ROW_BYTES_MAX => Err(ExpressionError::TooLong { bytes }),
        bytes => Ok(bytes),
    };
    match (left, right) {
        (ValueRef::Text(left), ValueRef::Text(right)) => {
            let mut text = String::with_capacity(room(left.len(), right.len())?);
            text.push_str(left);
            text.push_str(right);
            Ok(Value::Text(text))
        }
        (ValueRef::Bytes(left), ValueRef::Bytes(right)) => {
            let mut bytes = Vec::with_capacity(room(left.len(), right.len())?);
            bytes.extend_from_slice(left);
            bytes.extend_from_slice(right);
            Ok(Value::Bytes(bytes))
        }
        _ => Err(wrong_types(BinaryOperator::Concatenate, left, right)),
    }
}

/// Rounds to the nearest integer, and halves to the even one.
fn round(value: f64) -> Result<i64, ExpressionError> {
    /// From here on every float is a whole number.
    const WHOLE: f64 = 4_503_599_627_370_496.0;
    let rounded = if value.abs() < WHOLE {
        // Adding pushes the fraction out of the mantissa, by the rounding that is wanted.
        let magic = WHOLE.copysign(value);
        (value + magic) - magic
    } else {
        value
    };
    // -2^63 is a float, 2^63 - 1 is not. NaN is in no range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(ExpressionError::Overflow)
    }
}

fn not_boolean(value: ValueRef<'_>) -> ExpressionError {
    ExpressionError::NotBoolean {
        found: value.column_type(),
    }
}

fn wrong_types(
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
