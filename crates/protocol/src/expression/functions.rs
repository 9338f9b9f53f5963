//! The functions of expressions: the types of their results, and their values, as in PostgreSQL.
//!
//! Work is counted against the caller's budget by the bytes of the operands. A result is never
//! longer than a row.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};

use placement::{
    ColumnType, NumericRef, TimeZone, Value, ValueRef, WHOLE_DOUBLES, round_half_even,
};

use super::arithmetic::arithmetic;
use super::budget::Budget;
use super::fields;
use super::interval;
use super::results::{check_room, length, single};
use super::time;
use super::types::{order, result_type};
use super::{BinaryOperator, ExpressionError, ScalarFunction, array, json, math, text};

// tidy: long — a dispatching match over the functions.
/// Returns the type of a function's results; none if they are always NULL. The types of the
/// operands are none where they are always NULL.
///
/// # Errors
/// The function does not take such operands.
// tidy: long — a dispatching match over the functions.
pub(super) fn function_type(
    function: ScalarFunction,
    operands: &[Option<ColumnType>],
) -> Result<Option<ColumnType>, ExpressionError> {
    use ColumnType::{Bool, Bytes, Float64, Int32, Numeric, Text};
    let wrong = ExpressionError::WrongOperands { function };
    let is = |operand: Option<ColumnType>, wanted| operand.is_none_or(|it| it == wanted);
    let fits = |wanted: &[ColumnType]| {
        let pairs = operands.iter().zip(wanted);
        operands.len() == wanted.len() && pairs.clone().all(|(found, wanted)| is(*found, *wanted))
    };
    let (result, fits) = match function {
        ScalarFunction::Coalesce => return common(operands.iter().copied()).ok_or(wrong),
        ScalarFunction::Greatest | ScalarFunction::Least => {
            let common = common(operands.iter().copied());
            let has_order = |it: &Option<ColumnType>| it.is_none_or(ColumnType::has_order);
            return common.filter(has_order).ok_or(wrong);
        }
        ScalarFunction::Case => {
            let (pairs, otherwise) = operands.as_chunks::<2>();
            let conditions_fit = pairs.iter().all(|[condition, _]| is(*condition, Bool));
            let values = pairs.iter().map(|[_, value]| *value);
            let values = values.chain(otherwise.iter().copied());
            return common(values).filter(|_| conditions_fit).ok_or(wrong);
        }
        ScalarFunction::NullIf => {
            let [left, right] = *operands else {
                return Err(wrong);
            };
            return result_type(BinaryOperator::Equal, left, right).map(|_| left);
        }
        ScalarFunction::Abs => {
            let [operand] = *operands else {
                return Err(wrong);
            };
            let is_number = operand.is_none_or(ColumnType::is_number);
            return is_number.then_some(operand).ok_or(wrong);
        }
        ScalarFunction::Length => (Int32, fits(&[Text]) || fits(&[Bytes])),
        ScalarFunction::OctetLength => (Int32, fits(&[Text]) || fits(&[Bytes])),
        ScalarFunction::Lower | ScalarFunction::Upper => (Text, fits(&[Text])),
        ScalarFunction::Round | ScalarFunction::Trunc if fits(&[Numeric, Int32]) => (Numeric, true),
        ScalarFunction::Round
        | ScalarFunction::Floor
        | ScalarFunction::Ceil
        | ScalarFunction::Trunc
        | ScalarFunction::Sign => match fits(&[Float64]) {
            true => (Float64, true),
            false => (Numeric, fits(&[Numeric])),
        },
        ScalarFunction::Modulo => {
            let [left, right] = *operands else {
                return Err(wrong);
            };
            return result_type(BinaryOperator::Modulo, left, right);
        }
        ScalarFunction::DivideWhole => (Numeric, fits(&[Numeric, Numeric])),
        ScalarFunction::Scale | ScalarFunction::ScaleMin => (Int32, fits(&[Numeric])),
        ScalarFunction::TrimScale => (Numeric, fits(&[Numeric])),
        ScalarFunction::Substring => (Text, fits(&[Text, Int32]) || fits(&[Text, Int32, Int32])),
        ScalarFunction::Trim | ScalarFunction::TrimStart | ScalarFunction::TrimEnd => {
            (Text, fits(&[Text, Text]))
        }
        ScalarFunction::Replace => (Text, fits(&[Text, Text, Text])),
        ScalarFunction::Position => (Int32, fits(&[Text, Text])),
        ScalarFunction::Left | ScalarFunction::Right => (Text, fits(&[Text, Int32])),
        ScalarFunction::Concat => (Text, !operands.is_empty()),
        ScalarFunction::AtZone | ScalarFunction::MomentText | ScalarFunction::ReadMoment => {
            return time::result_type(function, operands).ok_or(wrong);
        }
        ScalarFunction::DateTrunc | ScalarFunction::Extract | ScalarFunction::DatePart => {
            return time::field_type(function, operands).map(Some).ok_or(wrong);
        }
        ScalarFunction::MomentLater
        | ScalarFunction::Age
        | ScalarFunction::MakeInterval
        | ScalarFunction::MakeTime
        | ScalarFunction::JustifyDays
        | ScalarFunction::JustifyHours
        | ScalarFunction::JustifyInterval => {
            let found = interval::function_type(function, operands);
            return found.map(Some).ok_or(wrong);
        }
        ScalarFunction::Json(function) => {
            let found = json::function_type(function, operands);
            return found.map(Some).ok_or(wrong);
        }
        ScalarFunction::Text(function) => {
            let found = text::function_type(function, operands);
            return found.map(Some).ok_or(wrong);
        }
        ScalarFunction::Math(function) => {
            let found = math::function_type(function, operands);
            return found.map(Some).ok_or(wrong);
        }
        ScalarFunction::Array(function) => {
            let found = array::function_type(function, operands);
            return found.map(Some).ok_or(wrong);
        }
    };
    fits.then_some(Some(result)).ok_or(wrong)
}

/// Returns the type that all operands have that are not always NULL; none if they have several.
fn common(operands: impl Iterator<Item = Option<ColumnType>>) -> Option<Option<ColumnType>> {
    let mut found = None;
    for operand in operands.flatten() {
        if *found.get_or_insert(operand) != operand {
            return None;
        }
    }
    Some(found)
}

/// Returns the value of a function that evaluates all of its operands.
// tidy: long — a dispatching match over the operands.
pub(super) fn call(
    function: ScalarFunction,
    values: &[ValueRef<'_>],
    budget: &mut Budget,
) -> Result<Value, ExpressionError> {
    if let ScalarFunction::Json(function) = function {
        return json::call(function, values, budget);
    }
    if let ScalarFunction::Array(function) = function {
        return array::call(function, values, budget);
    }
    let wrong = ExpressionError::WrongOperands { function };
    for value in values {
        if let ValueRef::Text(text) = value {
            // A byte is much less than a step.
            budget.spend(u32::try_from(text.len() / 16).unwrap_or(u32::MAX))?;
        }
        if let ValueRef::Numeric(_) = value {
            budget.spend_for_digits(&[*value])?;
        }
    }
    match function {
        ScalarFunction::Text(function) => return text::call(function, values, budget),
        ScalarFunction::Math(function) => return math::call(function, values),
        ScalarFunction::Greatest => {
            return extreme(values, core::cmp::Ordering::Greater)?.ok_or(wrong);
        }
        ScalarFunction::Least => return extreme(values, core::cmp::Ordering::Less)?.ok_or(wrong),
        ScalarFunction::Concat => return joined(values),
        ScalarFunction::NullIf => {
            let [left, right] = *values else {
                return Err(wrong);
            };
            let is_null = left.is_null() || right.is_null();
            let is_equal = !is_null && order(left, right)?.ok_or(wrong)?.is_eq();
            return Ok(if is_equal {
                Value::Null
            } else {
                left.to_owned()
            });
        }
        _ => {}
    }
    if values.iter().any(|it| it.is_null()) {
        return Ok(Value::Null);
    }
    match *values {
        _ if interval::has(function) => interval::call(function, values),
        [time, ValueRef::Bytes(zone)] if time::takes_zone(function) => {
            time::in_zone(function, time, zone)
        }
        [ValueRef::Text(field), time] if time::names_field(function) => {
            fields::call(function, field, time, &TimeZone::UTC)
        }
        [ValueRef::Text(field), time, ValueRef::Bytes(zone)] if time::names_field(function) => {
            let zone = TimeZone::decode(zone).ok_or(ExpressionError::NoZone)?;
            fields::call(function, field, time, &zone)
        }
        [ValueRef::Text(text)] => of_text(function, text),
        [ValueRef::Bytes(bytes)]
            if matches!(
                function,
                ScalarFunction::Length | ScalarFunction::OctetLength
            ) =>
        {
            length(bytes.len())
        }
        [ValueRef::Numeric(value)] => of_numeric(function, value, 0),
        [number] => of_number(function, number),
        [ValueRef::Numeric(value), ValueRef::Int32(digits)]
            if matches!(function, ScalarFunction::Round | ScalarFunction::Trunc) =>
        {
            of_numeric(function, value, digits)
        }
        [ValueRef::Numeric(value), ValueRef::Numeric(other)]
            if function == ScalarFunction::DivideWhole =>
        {
            Ok(Value::Numeric(value.divide_whole(other)?))
        }
        [left, right] if function == ScalarFunction::Modulo => {
            arithmetic(BinaryOperator::Modulo, left, right)
        }
        [ValueRef::Text(text), ValueRef::Text(other)] => of_texts(function, text, other),
        [ValueRef::Text(text), ValueRef::Int32(number)] => part(function, text, number),
        [
            ValueRef::Text(text),
            ValueRef::Int32(from),
            ValueRef::Int32(count),
        ] if function == ScalarFunction::Substring => substring(text, from, Some(count)),
        [
            ValueRef::Text(text),
            ValueRef::Text(from),
            ValueRef::Text(to),
        ] if function == ScalarFunction::Replace => replaced(text, from, to),
        _ => Err(wrong),
    }
}

/// Returns the operand that comes before or after all others, of those that are not NULL; none if
/// two cannot be compared.
fn extreme(
    values: &[ValueRef<'_>],
    wanted: core::cmp::Ordering,
) -> Result<Option<Value>, ExpressionError> {
    let mut found = ValueRef::Null;
    for value in values.iter().filter(|it| !it.is_null()) {
        let is_first = found.is_null();
        match order(*value, found)? {
            _ if is_first => found = *value,
            None => return Ok(None),
            Some(order) if order == wanted => found = *value,
            Some(_) => {}
        }
    }
    Ok(Some(found.to_owned()))
}

fn joined(values: &[ValueRef<'_>]) -> Result<Value, ExpressionError> {
    let mut joined = String::new();
    for value in values {
        let text = match value {
            ValueRef::Text(text) => Cow::Borrowed(*text),
            // NULL is shown as nothing.
            other => Cow::Owned(other.to_string()),
        };
        check_room(joined.len() + text.len())?;
        joined.push_str(&text);
    }
    Ok(Value::Text(joined))
}

fn of_text(function: ScalarFunction, text: &str) -> Result<Value, ExpressionError> {
    Ok(match function {
        ScalarFunction::Lower => Value::Text(
            text.chars()
                .map(|it| single(it, it.to_lowercase()))
                .collect(),
        ),
        ScalarFunction::Upper => Value::Text(
            text.chars()
                .map(|it| single(it, it.to_uppercase()))
                .collect(),
        ),
        ScalarFunction::Length => return length(text.chars().count()),
        ScalarFunction::OctetLength => return length(text.len()),
        function => return Err(ExpressionError::WrongOperands { function }),
    })
}

fn of_number(function: ScalarFunction, number: ValueRef<'_>) -> Result<Value, ExpressionError> {
    let overflow = ExpressionError::Overflow;
    Ok(match (function, number) {
        (ScalarFunction::Abs, ValueRef::Int16(value)) => {
            Value::Int16(value.checked_abs().ok_or(overflow)?)
        }
        (ScalarFunction::Abs, ValueRef::Int32(value)) => {
            Value::Int32(value.checked_abs().ok_or(overflow)?)
        }
        (ScalarFunction::Abs, ValueRef::Int64(value)) => {
            Value::Int64(value.checked_abs().ok_or(overflow)?)
        }
        (ScalarFunction::Abs, ValueRef::Float32(value)) => Value::Float32(value.abs()),
        (ScalarFunction::Abs, ValueRef::Float64(value)) => Value::Float64(value.abs()),
        (ScalarFunction::Trunc, ValueRef::Float64(value)) => Value::Float64(trunc(value)),
        (ScalarFunction::Floor, ValueRef::Float64(value)) => Value::Float64(match trunc(value) {
            whole if whole > value => whole - 1.0,
            whole => whole,
        }),
        (ScalarFunction::Ceil, ValueRef::Float64(value)) => Value::Float64(match trunc(value) {
            whole if whole < value => whole + 1.0,
            whole => whole,
        }),
        (ScalarFunction::Round, ValueRef::Float64(value)) => Value::Float64(round_half_even(value)),
        (ScalarFunction::Sign, ValueRef::Float64(value)) => Value::Float64(match value {
            value if value > 0.0 => 1.0,
            value if value < 0.0 => -1.0,
            _ => 0.0,
        }),
        (function, _) => return Err(ExpressionError::WrongOperands { function }),
    })
}

/// Returns the value of a function of a numeric. `digits` are those after the point to which it is
/// rounded.
fn of_numeric(
    function: ScalarFunction,
    value: NumericRef<'_>,
    digits: i32,
) -> Result<Value, ExpressionError> {
    let count = |count: Option<u32>| match count {
        Some(count) => Value::Int32(count.cast_signed()),
        None => Value::Null,
    };
    Ok(Value::Numeric(match function {
        ScalarFunction::Abs => value.abs(),
        ScalarFunction::Sign => value.sign(),
        ScalarFunction::Round => value.round(digits)?,
        ScalarFunction::Trunc => value.truncate(digits)?,
        ScalarFunction::Floor => value.floor()?,
        ScalarFunction::Ceil => value.ceil()?,
        ScalarFunction::TrimScale => value.trim_scale(),
        ScalarFunction::Scale => return Ok(count(value.scale())),
        ScalarFunction::ScaleMin => return Ok(count(value.scale_min())),
        function => return Err(ExpressionError::WrongOperands { function }),
    }))
}

fn trunc(value: f64) -> f64 {
    match value.abs() < WHOLE_DOUBLES {
        true => (value as i64 as f64).copysign(value),
        false => value,
    }
}

fn of_texts(function: ScalarFunction, text: &str, other: &str) -> Result<Value, ExpressionError> {
    let is_taken = |letter: char| other.contains(letter);
    Ok(Value::Text(String::from(match function {
        ScalarFunction::Trim => text.trim_matches(is_taken),
        ScalarFunction::TrimStart => text.trim_start_matches(is_taken),
        ScalarFunction::TrimEnd => text.trim_end_matches(is_taken),
        ScalarFunction::Position => {
            let before = text.find(other).map(|at| text[..at].chars().count() + 1);
            return length(before.unwrap_or(0));
        }
        function => return Err(ExpressionError::WrongOperands { function }),
    })))
}

fn part(function: ScalarFunction, text: &str, number: i32) -> Result<Value, ExpressionError> {
    let wanted = number.unsigned_abs() as usize;
    let from_start = || byte_of(text, wanted);
    let from_end = || byte_of(text, text.chars().count().saturating_sub(wanted));
    Ok(Value::Text(String::from(match function {
        ScalarFunction::Substring => return substring(text, number, None),
        ScalarFunction::Left if number >= 0 => &text[..from_start()],
        ScalarFunction::Left => &text[..from_end()],
        ScalarFunction::Right if number >= 0 => &text[from_end()..],
        // PostgreSQL cannot negate it.
        ScalarFunction::Right if number == i32::MIN => text,
        ScalarFunction::Right => &text[from_start()..],
        function => return Err(ExpressionError::WrongOperands { function }),
    })))
}

/// Returns the position in bytes of the character with this number, from 0.
fn byte_of(text: &str, number: usize) -> usize {
    let mut characters = text.char_indices();
    characters.nth(number).map_or(text.len(), |(at, _)| at)
}

fn substring(text: &str, from: i32, count: Option<i32>) -> Result<Value, ExpressionError> {
    if count.is_some_and(|it| it < 0) {
        return Err(ExpressionError::NegativeLength);
    }
    let before = |position: i64| usize::try_from(position - 1).unwrap_or(0);
    let start = byte_of(text, before(from.into()));
    let end = match count {
        None => text.len(),
        Some(count) => byte_of(text, before(i64::from(from) + i64::from(count))),
    };
    Ok(Value::Text(String::from(&text[start..end.max(start)])))
}

fn replaced(text: &str, from: &str, to: &str) -> Result<Value, ExpressionError> {
    if from.is_empty() {
        return Ok(Value::Text(text.into()));
    }
    let times = text.matches(from).count();
    check_room(text.len() - times * from.len() + times * to.len())?;
    Ok(Value::Text(text.replace(from, to)))
}
