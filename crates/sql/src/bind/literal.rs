//! Converts literals and casts of constants to values, by PostgreSQL's rules.

use placement::{
    ArrayFunction, ColumnType, ConversionError, ElementType, Numeric, TimeInput, Value, ValueError,
};
use protocol::expression::ExpressionError;
use sqlparser::ast::Expr;

use super::{Bound, expression_error};
use crate::error::{SqlError, sqlstate};

/// Returns the value of a quoted literal. `input` has the meaning of times.
pub(super) fn quoted_at(
    text: &str,
    column_type: ColumnType,
    place: &str,
    input: &TimeInput<'_>,
) -> Result<Value, SqlError> {
    let place = place.to_string();
    let value = Value::parse_at(column_type, text, input);
    value.map_err(|error| SqlError::Literal { place, error })
}

/// Returns the value of a literal that is no time.
pub(super) fn quoted(text: &str, column_type: ColumnType, place: &str) -> Result<Value, SqlError> {
    let place = place.to_string();
    Value::parse(column_type, text).map_err(|error| SqlError::Literal { place, error })
}

/// Returns the text as a column of this type stores it. `input` has the meaning of times.
///
/// # Errors
/// It is no value of the type, or too long for it.
pub(crate) fn stored(
    text: &str,
    column_type: ColumnType,
    place: &str,
    input: &TimeInput<'_>,
) -> Result<Value, SqlError> {
    let value = quoted_at(text, column_type, place, input)?;
    fitted(value, column_type, place)
}

/// Returns a value of a column's type as the column stores it.
///
/// # Errors
/// It is too long for the column.
pub(crate) fn fitted(
    value: Value,
    column_type: ColumnType,
    place: &str,
) -> Result<Value, SqlError> {
    value.assigned(column_type).map_err(|error| {
        let (state, error) = match error {
            ConversionError::TooManyDigits => (
                sqlstate::OUT_OF_RANGE,
                ExpressionError::TooManyDigits { column_type },
            ),
            _ => (
                sqlstate::TRUNCATION,
                ExpressionError::TooManyCharacters { column_type },
            ),
        };
        SqlError::with_state(state, format!("{place}: {error}"))
    })
}

/// Returns the type of a number without context: the smallest integer from 32 bits on that has it,
/// otherwise numeric.
pub(crate) fn default_type(number: &str) -> ColumnType {
    match number.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => ColumnType::Int32,
        Ok(_) => ColumnType::Int64,
        Err(_) => ColumnType::Numeric,
    }
}

/// Returns the type of a number beside an operand of another type. It becomes a double or a numeric
/// if the other one is, and a double if it is no integer and the other one is a float.
pub(crate) fn number_type(number: &str, context: Option<ColumnType>) -> ColumnType {
    match (context, default_type(number)) {
        (Some(ColumnType::Float64), _) => ColumnType::Float64,
        (Some(ColumnType::Float32), ColumnType::Numeric) => ColumnType::Float64,
        (Some(context), _) if context.is_numeric() => ColumnType::Numeric,
        (_, found) => found,
    }
}

/// Returns a number as a value of [`number_type`].
pub(super) fn typed_number(
    number: &str,
    context: Option<ColumnType>,
    place: &str,
) -> Result<Value, SqlError> {
    quoted(number, number_type(number, context), place)
}

/// Returns a number as an integer, rounded to the nearest. Halves are rounded away from zero, as
/// PostgreSQL rounds numeric literals.
pub(super) fn rounded(number: &str, to: ColumnType, place: &str) -> Result<Value, SqlError> {
    let numeric = Numeric::parse(number).ok().map(Value::Numeric);
    let rounded = numeric.and_then(|it| it.assigned(to).ok());
    rounded.ok_or_else(|| out_of_range(number, to, place))
}

/// Returns the text of a number, as PostgreSQL prints it.
pub(super) fn spelt(number: &str, place: &str) -> Result<Value, SqlError> {
    let numeric = Numeric::parse(number);
    let text = numeric.map(|it| Value::Text(it.to_string()));
    text.map_err(|_| out_of_range(number, ColumnType::Numeric, place))
}

fn out_of_range(number: &str, column_type: ColumnType, place: &str) -> SqlError {
    let error = ValueError {
        column_type,
        text: number.chars().take(80).collect(),
    };
    let place = place.to_string();
    SqlError::Literal { place, error }
}

/// Returns a constant converted to another type.
pub(super) fn cast(value: &Value, to: ColumnType, source: &Expr) -> Result<Value, SqlError> {
    let from = value.column_type().unwrap_or(to);
    let column_type = to;
    value.clone().cast(to).map_err(|error| {
        let error = match error {
            ConversionError::NoConversion => ExpressionError::NotCastable { from, to },
            ConversionError::OutOfRange if matches!(to, ColumnType::Interval(_)) => {
                ExpressionError::TimeRange
            }
            ConversionError::OutOfRange => ExpressionError::Overflow,
            ConversionError::TooManyCharacters => {
                ExpressionError::TooManyCharacters { column_type }
            }
            ConversionError::TooManyDigits => ExpressionError::TooManyDigits { column_type },
            ConversionError::NotFinite => ExpressionError::NotFinite { column_type },
            ConversionError::Json(error) => ExpressionError::Json(error),
            ConversionError::Array(error) => ExpressionError::Array(error),
            ConversionError::NotOfType(error) => {
                let place = format!("in {source}");
                return SqlError::Literal { place, error };
            }
        };
        expression_error(source, error)
    })
}

/// Returns whether two types are arrays of texts of which one has a limit, or spaces at the end.
/// PostgreSQL has no operators for them.
pub(super) fn are_other_texts(left: &Bound, right: &Bound) -> bool {
    let kind = |bound: &Bound| match bound.context() {
        Some(ColumnType::Array(element)) => Some(match element {
            ElementType::Varchar(_) => ElementType::Varchar(0),
            ElementType::Char(_) => ElementType::Char(0),
            other => other.of_values(),
        }),
        _ => None,
    };
    matches!((kind(left), kind(right)), (Some(left), Some(right)) if left != right)
}

/// Returns the operator `||` of operands of these types as a function of arrays; none if neither is
/// an array.
pub(crate) fn concatenation(
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Option<ArrayFunction> {
    let is_array = |it: Option<ColumnType>| matches!(it, Some(ColumnType::Array(_)));
    let example = ElementType::Text;
    Some(match (is_array(left), is_array(right)) {
        (true, true) => ArrayFunction::Concatenate,
        // A literal beside an array is an array.
        (true, false) if right.is_none() => ArrayFunction::Concatenate,
        (false, true) if left.is_none() => ArrayFunction::Concatenate,
        (true, false) => ArrayFunction::Append(example),
        (false, true) => ArrayFunction::Prepend(example),
        (false, false) => return None,
    })
}
