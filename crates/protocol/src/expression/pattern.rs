//! The values of functions of regular expressions, as in PostgreSQL.

use placement::{FunctionError, Pattern, ROW_BYTES_MAX, TextFunction, Value, ValueRef};

use super::budget::Budget;
use super::results::length;
use super::{ExpressionError, ScalarFunction};

/// Bytes of a text that are matched in one step of a budget.
const BYTES_PER_STEP: usize = 4;
/// Steps for a regular expression that must be compiled first, and for each of its bytes.
const COMPILATION_STEPS: usize = 2_000;
const COMPILATION_STEPS_PER_BYTE: usize = 100;

/// Returns the value of a function, whose regular expression may be compiled already.
pub(super) fn call(
    (function, compiled): (TextFunction, Option<&Pattern>),
    values: &[ValueRef<'_>],
    budget: &mut Budget,
) -> Result<Value, ExpressionError> {
    if values.iter().any(|it| it.is_null()) {
        return Ok(Value::Null);
    }
    let wrong = || ExpressionError::WrongOperands {
        function: ScalarFunction::Text(function),
    };
    let text = |place: usize| match values.get(place) {
        Some(ValueRef::Text(text)) => Ok(*text),
        _ => Err(wrong()),
    };
    let subject = text(0)?;
    spend(budget, subject.len() / BYTES_PER_STEP + 1)?;
    let made;
    let pattern = match compiled {
        Some(pattern) => pattern,
        None => {
            let (pattern, place) = (text(1)?, function.pattern_flags().ok_or_else(wrong)?);
            let flags = if place < values.len() {
                text(place)?
            } else {
                ""
            };
            let steps = pattern.len().saturating_mul(COMPILATION_STEPS_PER_BYTE);
            spend(budget, steps.saturating_add(COMPILATION_STEPS))?;
            made = Pattern::new(pattern, flags).map_err(FunctionError::Pattern)?;
            &made
        }
    };
    Ok(match function {
        TextFunction::RegexpLike => Value::Bool(pattern.matches(subject)),
        TextFunction::RegexpCount => return length(pattern.count(subject)),
        TextFunction::RegexpSubstr => match pattern.find(subject) {
            Some(found) => Value::Text(found.into()),
            None => Value::Null,
        },
        TextFunction::RegexpReplace => {
            let replaced = pattern.replace(subject, text(2)?, ROW_BYTES_MAX);
            // It is not known how long it would be.
            let bytes = ROW_BYTES_MAX + 1;
            Value::Text(replaced.ok_or(ExpressionError::TooLong { bytes })?)
        }
        _ => return Err(wrong()),
    })
}

fn spend(budget: &mut Budget, steps: usize) -> Result<(), ExpressionError> {
    budget.spend(u32::try_from(steps).unwrap_or(u32::MAX))
}
