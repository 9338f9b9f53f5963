//! Evaluates an expression for one row without a copy of the row.
//!
//! Filters run on the path of every read, so operands borrow from the row and from the expression;
//! only a concatenation and a numeric allocate. Types promote as in PostgreSQL: an int64 that is
//! combined with a float64 becomes a float64. Cost is bounded by a budget of steps and a limit on
//! the length of texts, depth by the codec's limit, which holds here too for expressions that were
//! never encoded.

use alloc::string::String;
use alloc::vec::Vec;

use placement::{ColumnType, ConversionError, ROW_BYTES_MAX, RowView, Schema, Value, ValueRef};

use super::arithmetic::{arithmetic, wrong_types};
use super::budget::Budget;
use super::compare::comparison;
use super::{
    BinaryOperator, Expression, ExpressionError, FunctionCall, ScalarFunction, UnaryOperator,
    array, functions, interval, json, like, pattern,
};
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
    Ok(operand.into_value())
}

/// Evaluates like [`evaluate`], and converts the value to a column's type as PostgreSQL does on
/// assignment. A float is rounded to the nearest integer, halves to the even one.
pub fn evaluate_for(
    column_type: ColumnType,
    expression: &Expression,
    row: &dyn Columns,
    excluded: Option<&dyn Columns>,
) -> Result<Value, ExpressionError> {
    let value = evaluate(expression, row, excluded)?;
    let found = value.column_type();
    value.assigned(column_type).map_err(|error| match error {
        ConversionError::NoConversion => ExpressionError::NotAssignable {
            expected: column_type,
            found: found.unwrap_or(column_type),
        },
        error => conversion_error(error, column_type),
    })
}

/// Returns why a value could not become one of this type.
fn conversion_error(error: ConversionError, column_type: ColumnType) -> ExpressionError {
    match error {
        ConversionError::TooManyCharacters => ExpressionError::TooManyCharacters { column_type },
        ConversionError::TooManyDigits => ExpressionError::TooManyDigits { column_type },
        ConversionError::NotOfType(error) => match (error.json_fault(), error.array_fault()) {
            (Some(fault), _) => ExpressionError::Json(fault),
            (_, Some(fault)) => ExpressionError::Array(fault),
            (None, None) => ExpressionError::NotOfType { column_type },
        },
        ConversionError::OutOfRange if matches!(column_type, ColumnType::Interval(_)) => {
            ExpressionError::TimeRange
        }
        ConversionError::Json(error) => ExpressionError::Json(error),
        ConversionError::Array(error) => ExpressionError::Array(error),
        ConversionError::NotFinite => ExpressionError::NotFinite { column_type },
        ConversionError::OutOfRange | ConversionError::NoConversion => ExpressionError::Overflow,
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

/// Returns the values of the generated columns of a row, with their positions. The row's own values
/// of these columns have no effect.
pub fn generated_values(
    schema: &Schema,
    row: &dyn Columns,
) -> Result<Vec<(usize, Value)>, ExpressionError> {
    let generated = schema.generated_columns();
    let values = generated.map(|(position, column, expression)| {
        let value = evaluate_for(column.column_type, expression, row, None)?;
        Ok((position, value))
    });
    values.collect()
}

/// A value of the row or of the expression, or one that was made.
enum Operand<'a> {
    Borrowed(ValueRef<'a>),
    Owned(Value),
}

impl Operand<'_> {
    fn into_value(self) -> Value {
        match self {
            Operand::Borrowed(value) => value.to_owned(),
            Operand::Owned(value) => value,
        }
    }

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
            Expression::Unary(UnaryOperator::Cast(to), operand) => {
                let value = self.value(operand, depth + 1)?.into_value();
                let is_jsonb = matches!(value, Value::Jsonb(_));
                if to.is_numeric() || matches!(value, Value::Numeric(_)) || is_jsonb {
                    self.budget.spend_for_digits(&[value.as_ref()])?;
                }
                if let Value::Array(array) = &value {
                    for element in array.as_ref().values() {
                        self.budget.spend(1)?;
                        self.budget.spend_for_digits(&[element])?;
                    }
                }
                let found = value.column_type();
                let cast = value.cast(*to).map_err(|error| match (error, found) {
                    (ConversionError::NoConversion, Some(from)) => {
                        ExpressionError::NotCastable { from, to: *to }
                    }
                    (error, _) => conversion_error(error, *to),
                });
                return cast.map(Operand::Owned);
            }
            Expression::Unary(operator, operand) => {
                let operand = self.value(operand, depth + 1)?;
                if let (UnaryOperator::Negate, ValueRef::Numeric(value)) =
                    (operator, operand.as_ref())
                {
                    return Ok(Operand::Owned(Value::Numeric(value.negate())));
                }
                unary(*operator, operand.as_ref())?
            }
            Expression::Binary(operator, left, right) => {
                return self.binary(*operator, left, right, depth + 1);
            }
            Expression::Call(call) => {
                return self.call(call, depth + 1);
            }
        };
        Ok(Operand::Borrowed(value))
    }

    fn call(&mut self, call: &'a FunctionCall, depth: u32) -> Result<Operand<'a>, ExpressionError> {
        let operands = &call.operands;
        match call.function {
            ScalarFunction::Coalesce => {
                for operand in operands {
                    let value = self.value(operand, depth)?;
                    if !value.as_ref().is_null() {
                        return Ok(value);
                    }
                }
                Ok(Operand::Borrowed(ValueRef::Null))
            }
            ScalarFunction::Case => {
                let mut rest = &operands[..];
                while let [condition, value, others @ ..] = rest {
                    let holds = self.value(condition, depth)?;
                    if truth(holds.as_ref())? == Some(true) {
                        return self.value(value, depth);
                    }
                    rest = others;
                }
                match rest {
                    [otherwise] => self.value(otherwise, depth),
                    _ => Ok(Operand::Borrowed(ValueRef::Null)),
                }
            }
            function => {
                let values = operands.iter().map(|it| self.value(it, depth));
                let values: Vec<Operand<'_>> = values.collect::<Result<_, _>>()?;
                let values: Vec<ValueRef<'_>> = values.iter().map(Operand::as_ref).collect();
                if let ScalarFunction::Text(function) = function
                    && function.pattern_flags().is_some()
                {
                    let value =
                        pattern::call((function, call.pattern()), &values, &mut self.budget);
                    return value.map(Operand::Owned);
                }
                functions::call(function, &values, &mut self.budget).map(Operand::Owned)
            }
        }
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
        let is_of_elements = matches!(operator, BinaryOperator::Any(_) | BinaryOperator::All(_));
        if left.is_null() && !is_of_elements || right.is_null() {
            return Ok(Operand::Borrowed(ValueRef::Null));
        }
        self.budget.spend_for_digits(&[left, right])?;
        if let Some(value) = array::operator(operator, left, right, &mut self.budget)? {
            return Ok(Operand::Owned(value));
        }
        if let Some(value) = json::operator(operator, left, right, &mut self.budget)? {
            return Ok(Operand::Owned(value));
        }
        if !operator.is_comparison()
            && let Some(value) = interval::operator(operator, left, right)?
        {
            return Ok(Operand::Owned(value));
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
            | BinaryOperator::Modulo => {
                return arithmetic(operator, left, right).map(Operand::Owned);
            }
            _ if operator.is_comparison() => ValueRef::Bool(comparison(operator, left, right)?),
            _ => return Err(wrong_types(operator, left, right)),
        };
        Ok(Operand::Borrowed(value))
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
        (UnaryOperator::Negate, ValueRef::Int32(value)) => {
            ValueRef::Int32(value.checked_neg().ok_or(ExpressionError::Overflow)?)
        }
        (UnaryOperator::Negate, ValueRef::Int16(value)) => {
            ValueRef::Int16(value.checked_neg().ok_or(ExpressionError::Overflow)?)
        }
        (UnaryOperator::Negate, ValueRef::Interval(value)) => {
            ValueRef::Interval(value.negated().ok_or(ExpressionError::TimeRange)?)
        }
        (UnaryOperator::Negate, ValueRef::Float64(value)) => ValueRef::Float64(-value),
        (UnaryOperator::Negate, ValueRef::Float32(value)) => ValueRef::Float32(-value),
        (UnaryOperator::Cast(_), _) => unreachable!("`value` converts"),
        (UnaryOperator::Negate, other) => {
            return Err(ExpressionError::NotNumeric {
                found: other.column_type(),
            });
        }
    })
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

fn not_boolean(value: ValueRef<'_>) -> ExpressionError {
    ExpressionError::NotBoolean {
        found: value.column_type(),
    }
}
