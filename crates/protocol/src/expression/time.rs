//! Functions of times in a zone. An expression has the rules of its zones, so that every server
//! computes the same, whatever its own time zone and time zone database are.

use placement::{ColumnType, TimeInput, TimeZone, Value, ValueRef, moment_text};

use super::{ExpressionError, ScalarFunction};

/// Returns whether the last operand of a function of two is a zone.
pub(super) fn takes_zone(function: ScalarFunction) -> bool {
    matches!(
        function,
        ScalarFunction::AtZone | ScalarFunction::MomentText | ScalarFunction::ReadMoment
    )
}

/// Returns the type of a function's results; none if it does not take such operands.
#[allow(
    clippy::option_option,
    reason = "the inner one is the type of NULL, as everywhere in expressions"
)]
pub(super) fn result_type(
    function: ScalarFunction,
    operands: &[Option<ColumnType>],
) -> Option<Option<ColumnType>> {
    let [time, None | Some(ColumnType::Bytes)] = *operands else {
        return None;
    };
    Some(match (function, time) {
        (ScalarFunction::AtZone, None) => None,
        (ScalarFunction::AtZone, Some(ColumnType::Timestamp)) => Some(ColumnType::TimestampTz),
        (ScalarFunction::AtZone, Some(ColumnType::TimestampTz)) => Some(ColumnType::Timestamp),
        (ScalarFunction::MomentText, None | Some(ColumnType::TimestampTz)) => {
            Some(ColumnType::Text)
        }
        (ScalarFunction::ReadMoment, None | Some(ColumnType::Text)) => {
            Some(ColumnType::TimestampTz)
        }
        _ => return None,
    })
}

/// Returns whether the first operand of a function is the name of a field.
pub(super) fn names_field(function: ScalarFunction) -> bool {
    matches!(
        function,
        ScalarFunction::DateTrunc | ScalarFunction::Extract | ScalarFunction::DatePart
    )
}

/// Returns the type of the results of a function of a field; none if it does not take such
/// operands.
pub(super) fn field_type(
    function: ScalarFunction,
    operands: &[Option<ColumnType>],
) -> Option<ColumnType> {
    let (field, time) = match *operands {
        [field, time] => (field, time),
        [
            field,
            time @ Some(ColumnType::TimestampTz),
            Some(ColumnType::Bytes),
        ] => (field, time),
        _ => return None,
    };
    let is_text = matches!(field, None | Some(ColumnType::Text));
    let is_taken = |it: &ColumnType| {
        it.is_time() || matches!(it, ColumnType::Time(_) | ColumnType::Interval(_))
    };
    let time = time.filter(|it| is_text && is_taken(it))?;
    match function {
        ScalarFunction::DateTrunc => {
            let has_parts = !matches!(time, ColumnType::Date | ColumnType::Time(_));
            has_parts.then_some(time)
        }
        ScalarFunction::DatePart => Some(ColumnType::Float64),
        _ => Some(ColumnType::Numeric),
    }
}

/// Returns the value of a function of a time and an encoded zone, which are not NULL.
pub(super) fn in_zone(
    function: ScalarFunction,
    time: ValueRef<'_>,
    zone: &[u8],
) -> Result<Value, ExpressionError> {
    let zone = TimeZone::decode(zone).ok_or(ExpressionError::NoZone)?;
    let overflow = ExpressionError::Overflow;
    match (function, time) {
        (ScalarFunction::AtZone, ValueRef::TimestampTz(at)) => {
            zone.local(at).map(Value::Timestamp).ok_or(overflow)
        }
        (ScalarFunction::AtZone, ValueRef::Timestamp(local)) => {
            zone.moment(local).map(Value::TimestampTz).ok_or(overflow)
        }
        (ScalarFunction::MomentText, ValueRef::TimestampTz(at)) => {
            Ok(Value::Text(moment_text(at, &zone)))
        }
        (ScalarFunction::ReadMoment, ValueRef::Text(text)) => {
            let column_type = ColumnType::TimestampTz;
            let input = TimeInput {
                zone,
                ..TimeInput::UTC
            };
            let read = Value::parse_at(column_type, text, &input);
            read.map_err(|_| ExpressionError::NotOfType { column_type })
        }
        _ => Err(ExpressionError::WrongOperands { function }),
    }
}
