//! Converts literals and casts of constants to values, by PostgreSQL's rules.

use placement::{ColumnType, ConversionError, Value, ValueError};
use protocol::expression::ExpressionError;
use sqlparser::ast::Expr;

use super::decimal::Decimal;
use super::expression_error;
use crate::error::{SqlError, sqlstate};

/// Returns the value of a quoted literal.
pub(super) fn quoted(text: &str, column_type: ColumnType, place: &str) -> Result<Value, SqlError> {
    let place = place.to_string();
    Value::parse(column_type, text).map_err(|error| SqlError::Literal { place, error })
}

/// Returns the text as a column of this type stores it.
///
/// # Errors
/// It is no value of the type, or too long for it.
pub(crate) fn stored(text: &str, column_type: ColumnType, place: &str) -> Result<Value, SqlError> {
    fitted(quoted(text, column_type, place)?, column_type, place)
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
    value.assigned(column_type).map_err(|_| {
        let error = ExpressionError::TooManyCharacters { column_type };
        SqlError::with_state(sqlstate::TRUNCATION, format!("{place}: {error}"))
    })
}

/// Returns the type of a number without context: the smallest one from 32 bits on that has it.
pub(crate) fn default_type(number: &str) -> ColumnType {
    match number.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => ColumnType::Int32,
        Ok(_) => ColumnType::Int64,
        Err(_) => ColumnType::Float64,
    }
}

/// Returns a number as a float64 if it is combined with a float64. Otherwise it has the type of its
/// spelling.
pub(super) fn typed_number(
    number: &str,
    context: Option<ColumnType>,
    place: &str,
) -> Result<Value, SqlError> {
    let column_type = match context {
        Some(ColumnType::Float64) => ColumnType::Float64,
        _ => default_type(number),
    };
    quoted(number, column_type, place)
}

/// Returns a number as an integer, rounded to the nearest. Halves are rounded away from zero, as
/// PostgreSQL rounds numeric literals.
pub(super) fn rounded(number: &str, to: ColumnType, place: &str) -> Result<Value, SqlError> {
    let rounded = Decimal::parse(number).and_then(|it| it.rounded());
    let rounded = rounded.and_then(|it| Value::Int64(it).assigned(to).ok());
    rounded.ok_or_else(|| out_of_range(number, to, place))
}

/// Returns the text of a number, as PostgreSQL prints it.
pub(super) fn spelt(number: &str, place: &str) -> Result<Value, SqlError> {
    let plain = Decimal::parse(number).and_then(|it| it.to_plain());
    plain
        .map(Value::Text)
        .ok_or_else(|| out_of_range(number, ColumnType::Float64, place))
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
    value.clone().cast(to).map_err(|error| match error {
        ConversionError::NoConversion => {
            expression_error(source, ExpressionError::NotCastable { from, to })
        }
        ConversionError::OutOfRange => expression_error(source, ExpressionError::Overflow),
        ConversionError::TooManyCharacters => {
            let column_type = to;
            expression_error(source, ExpressionError::TooManyCharacters { column_type })
        }
        ConversionError::NotOfType(error) => SqlError::Literal {
            place: format!("in {source}"),
            error,
        },
    })
}
