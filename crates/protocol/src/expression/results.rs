//! The limits and forms of results that several modules of functions share.

use placement::{ROW_BYTES_MAX, Value};

use super::ExpressionError;

/// Returns the other form of a letter, if it is one letter.
pub(super) fn single(letter: char, mut other: impl Iterator<Item = char>) -> char {
    match (other.next(), other.next()) {
        (Some(other), None) => other,
        _ => letter,
    }
}

/// Returns a length as a value.
pub(super) fn length(count: usize) -> Result<Value, ExpressionError> {
    let count = i32::try_from(count).map_err(|_| ExpressionError::Overflow)?;
    Ok(Value::Int32(count))
}

/// Refuses a result that is longer than a row.
pub(super) fn check_room(bytes: usize) -> Result<(), ExpressionError> {
    match bytes > ROW_BYTES_MAX {
        true => Err(ExpressionError::TooLong { bytes }),
        false => Ok(()),
    }
}
