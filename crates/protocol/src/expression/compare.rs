//! Comparisons of two values.

use core::cmp::Ordering;

use placement::ValueRef;

use super::arithmetic::wrong_types;
use super::types::order;
use super::{BinaryOperator, ExpressionError};

/// Returns whether a comparison of two values that are not NULL holds.
pub(super) fn comparison(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<bool, ExpressionError> {
    let order = order(left, right)?.ok_or_else(|| wrong_types(operator, left, right))?;
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
