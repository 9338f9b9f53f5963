//! Converts literals and casts of constants to values, by PostgreSQL's rules.

use placement::{ColumnType, Value, ValueError};
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

/// Returns the type of a number without context: int64 if it is an integer of 64 bits.
pub(super) fn default_type(number: &str) -> ColumnType {
    match number.parse::<i64>() {
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
    if context != Some(ColumnType::Float64)
        && let Ok(value) = number.parse()
    {
        return Ok(Value::Int64(value));
    }
    quoted(number, ColumnType::Float64, place)
}

/// Returns a number as an int64, rounded to the nearest. Halves are rounded away from zero, as
/// PostgreSQL rounds numeric literals.
pub(super) fn rounded(number: &str, place: &str) -> Result<Value, SqlError> {
    let rounded = Decimal::parse(number).and_then(|it| it.rounded());
    rounded
        .map(Value::Int64)
        .ok_or_else(|| out_of_range(number, ColumnType::Int64, place))
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
    Ok(match (value, to) {
        (value, to) if value.column_type().is_none_or(|found| found == to) => value.clone(),
        (Value::Text(text), to) => quoted(text, to, &format!("in {source}"))?,
        (Value::Bool(value), ColumnType::Text) => Value::Text(value.to_string()),
        (value, ColumnType::Text) => Value::Text(value.to_string()),
        (Value::Int64(value), ColumnType::Float64) => Value::Float64(*value as f64),
        (Value::Float64(value), ColumnType::Int64) => {
            let rounded = value.round_ties_even();
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                return Err(expression_error(source, ExpressionError::Overflow));
            }
            Value::Int64(rounded as i64)
        }
        (value, to) => {
            let found = value.column_type().map_or("NULL", ColumnType::name);
            return Err(SqlError::with_state(
                sqlstate::CANNOT_CAST,
                format!(
                    "in {source}: a {found} cannot become a {}: write the value as text",
                    to.name()
                ),
            ));
        }
    })
}
