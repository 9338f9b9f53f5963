//! The functions of expressions: the types of their results, and their values, as in PostgreSQL.
//!
//! Work is counted against the caller's budget by the bytes of the operands. A result is never
//! longer than a row.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};

use placement::{ColumnType, ROW_BYTES_MAX, Value, ValueRef, WHOLE_DOUBLES, round_half_even};

use super::budget::Budget;
use super::types::{order, result_type};
use super::{BinaryOperator, ExpressionError, ScalarFunction};

/// Returns the type of a function's results; none if they are always NULL. The types of the
/// operands are none where they are always NULL.
///
/// # Errors
/// The function does not take such operands.
pub(super) fn function_type(
    function: ScalarFunction,
    operands: &[Option<ColumnType>],
) -> Result<Option<ColumnType>, ExpressionError> {
    use ColumnType::{Bool, Bytes, Float64, Int32, Text};
    let wrong = ExpressionError::WrongOperands { function };
    let is = |operand: Option<ColumnType>, wanted| operand.is_none_or(|it| it == wanted);
    let fits = |wanted: &[ColumnType]| {
        let pairs = operands.iter().zip(wanted);
        operands.len() == wanted.len() && pairs.clone().all(|(found, wanted)| is(*found, *wanted))
    };
    let (result, fits) = match function {
        ScalarFunction::Coalesce | ScalarFunction::Greatest | ScalarFunction::Least => {
            return common(operands.iter().copied()).ok_or(wrong);
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
        ScalarFunction::Round
        | ScalarFunction::Floor
        | ScalarFunction::Ceil
        | ScalarFunction::Trunc => (Float64, fits(&[Float64])),
        ScalarFunction::Substring => (Text, fits(&[Text, Int32]) || fits(&[Text, Int32, Int32])),
        ScalarFunction::Trim | ScalarFunction::TrimStart | ScalarFunction::TrimEnd => {
            (Text, fits(&[Text, Text]))
        }
        ScalarFunction::Replace => (Text, fits(&[Text, Text, Text])),
        ScalarFunction::Position => (Int32, fits(&[Text, Text])),
        ScalarFunction::Left | ScalarFunction::Right => (Text, fits(&[Text, Int32])),
        ScalarFunction::Concat => (Text, !operands.is_empty()),
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
pub(super) fn call(
    function: ScalarFunction,
    values: &[ValueRef<'_>],
    budget: &mut Budget,
) -> Result<Value, ExpressionError> {
    let wrong = ExpressionError::WrongOperands { function };
    for value in values {
        if let ValueRef::Text(text) = value {
            // A byte is much less than a step.
            budget.spend(u32::try_from(text.len() / 16).unwrap_or(u32::MAX))?;
        }
    }
    match function {
        ScalarFunction::Greatest => {
            return extreme(values, core::cmp::Ordering::Greater).ok_or(wrong);
        }
        ScalarFunction::Least => return extreme(values, core::cmp::Ordering::Less).ok_or(wrong),
        ScalarFunction::Concat => return joined(values),
        ScalarFunction::NullIf => {
            let [left, right] = *values else {
                return Err(wrong);
            };
            let is_null = left.is_null() || right.is_null();
            let is_equal = !is_null && order(left, right).ok_or(wrong)?.is_eq();
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
        [ValueRef::Text(text)] => of_text(function, text),
        [ValueRef::Bytes(bytes)]
            if matches!(
                function,
                ScalarFunction::Length | ScalarFunction::OctetLength
            ) =>
        {
            length(bytes.len())
        }
        [number] => of_number(function, number),
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
fn extreme(values: &[ValueRef<'_>], wanted: core::cmp::Ordering) -> Option<Value> {
    let mut found = ValueRef::Null;
    for value in values.iter().filter(|it| !it.is_null()) {
        if found.is_null() || order(*value, found)? == wanted {
            found = *value;
        }
    }
    Some(found.to_owned())
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

/// Returns the other form of a letter, if it is one letter.
fn single(letter: char, mut other: impl Iterator<Item = char>) -> char {
    match (other.next(), other.next()) {
        (Some(other), None) => other,
        _ => letter,
    }
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
        (function, _) => return Err(ExpressionError::WrongOperands { function }),
    })
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

fn length(count: usize) -> Result<Value, ExpressionError> {
    let count = i32::try_from(count).map_err(|_| ExpressionError::Overflow)?;
    Ok(Value::Int32(count))
}

fn check_room(bytes: usize) -> Result<(), ExpressionError> {
    match bytes > ROW_BYTES_MAX {
        true => Err(ExpressionError::TooLong { bytes }),
        false => Ok(()),
    }
}
