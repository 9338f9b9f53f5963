//! The types of the results of operators, and the order of values of different types, as in
//! PostgreSQL.

use core::cmp::Ordering;

use placement::{ColumnType, ValueRef, moment_of, numeric_of};

use super::{BinaryOperator, ExpressionError, interval, json};

// tidy: long — a dispatching match over the operators.
/// Returns the type of the results of an operator with two operands; none if they are always NULL.
/// The types of the operands are none where they are always NULL.
///
/// # Errors
/// The operator does not know these types.
pub fn result_type(
    operator: BinaryOperator,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Result<Option<ColumnType>, ExpressionError> {
    let [left, right] = [left, right].map(|it| it.map(ColumnType::of_values));
    let wrong = Err(ExpressionError::WrongTypes {
        operator,
        left,
        right,
    });
    let both = |admits: fn(ColumnType) -> bool| left.is_none_or(admits) && right.is_none_or(admits);
    let same = left.is_none() || right.is_none() || left == right;
    if let Some(found) = array_operator_type(operator, left, right) {
        return Ok(Some(found));
    }
    if let Some(found) = json::operator_type(operator, left, right) {
        return Ok(Some(found));
    }
    if let Some(found) = interval::operator_type(operator, left, right) {
        return Ok(Some(found));
    }
    match operator {
        BinaryOperator::And | BinaryOperator::Or => {
            boolean(left)?;
            boolean(right)?;
            Ok(Some(ColumnType::Bool))
        }
        BinaryOperator::Equal
        | BinaryOperator::NotEqual
        | BinaryOperator::Less
        | BinaryOperator::LessEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterEqual => {
            let has_order = both(ColumnType::has_order);
            if same && has_order || both(ColumnType::is_number) || both(ColumnType::is_time) {
                Ok(Some(ColumnType::Bool))
            } else {
                wrong
            }
        }
        BinaryOperator::Modulo if !both(|it| it.is_integer() || it.is_numeric()) => wrong,
        BinaryOperator::Add | BinaryOperator::Subtract
            if [left, right].contains(&Some(ColumnType::Date)) =>
        {
            moved_date(operator, left, right).map_or(wrong, |found| Ok(Some(found)))
        }
        BinaryOperator::Add
        | BinaryOperator::Subtract
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo => {
            if !both(ColumnType::is_number) {
                return wrong;
            }
            Ok(match (left, right) {
                (Some(left), Some(right)) => Some(common_number(left, right)),
                (left, right) => left.or(right),
            })
        }
        BinaryOperator::Concatenate => {
            if same && both(|it| matches!(it, ColumnType::Text | ColumnType::Bytes)) {
                Ok(left.or(right))
            } else {
                wrong
            }
        }
        BinaryOperator::Like if both(|it| it == ColumnType::Text) => Ok(Some(ColumnType::Bool)),
        BinaryOperator::Like
        | BinaryOperator::JsonMember
        | BinaryOperator::JsonMemberText
        | BinaryOperator::Contains
        | BinaryOperator::ContainedBy
        | BinaryOperator::HasKey
        | BinaryOperator::Any(_)
        | BinaryOperator::All(_)
        | BinaryOperator::Overlaps => wrong,
    }
}

/// Returns the type of the results of an operator of arrays; none if it is no such operator, or
/// does not know these types. Comparisons of arrays are those of other values.
fn array_operator_type(
    operator: BinaryOperator,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Option<ColumnType> {
    let is_array = |it: Option<ColumnType>| matches!(it, Some(ColumnType::Array(_)));
    match operator {
        BinaryOperator::Any(of) | BinaryOperator::All(of) => {
            let element = match right {
                None => None,
                Some(ColumnType::Array(element)) => Some(element.column_type()),
                Some(_) => return None,
            };
            result_type(of.operator().0, left, element).ok()?;
        }
        BinaryOperator::Contains | BinaryOperator::ContainedBy | BinaryOperator::Overlaps => {
            let is_same = left.is_none() || right.is_none() || left == right;
            let has_order = left.or(right).is_some_and(ColumnType::has_order);
            if !is_same || !has_order || !is_array(left.or(right)) {
                return None;
            }
        }
        _ => return None,
    }
    Some(ColumnType::Bool)
}

/// Checks that an operand is a truth value.
pub(super) fn boolean(found: Option<ColumnType>) -> Result<(), ExpressionError> {
    match found {
        None | Some(ColumnType::Bool) => Ok(()),
        found => Err(ExpressionError::NotBoolean { found }),
    }
}

/// Returns the type to which PostgreSQL promotes two numbers: the larger one of two integers, a
/// numeric if one is, and a double as soon as a float is combined with another type.
pub fn common_number(left: ColumnType, right: ColumnType) -> ColumnType {
    if left == right {
        left
    } else if left.is_float() || right.is_float() {
        ColumnType::Float64
    } else if left.is_numeric() || right.is_numeric() {
        ColumnType::Numeric
    } else if [left, right].contains(&ColumnType::Int64) {
        ColumnType::Int64
    } else {
        ColumnType::Int32
    }
}

/// Returns the type of a date that days are added to or taken from, and of the days between two
/// dates; none for other operands.
fn moved_date(
    operator: BinaryOperator,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Option<ColumnType> {
    let is_days = |it: Option<ColumnType>| {
        it.is_none_or(|it| matches!(it, ColumnType::Int16 | ColumnType::Int32))
    };
    let date = Some(ColumnType::Date);
    match operator {
        BinaryOperator::Subtract if left == date && right == date => Some(ColumnType::Int32),
        _ if left == date && is_days(right) => date,
        BinaryOperator::Add if right == date && is_days(left) => date,
        _ => None,
    }
}

/// Returns the order of two values; none if they cannot be compared.
///
/// # Errors
/// A numeric that is compared with a float is beyond the range of doubles.
pub(super) fn order(
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<Option<Ordering>, ExpressionError> {
    let (left_type, right_type) = (left.column_type(), right.column_type());
    if left_type == right_type {
        return Ok(Some(left.cmp(&right)));
    }
    if let (Some(left), Some(right)) = (left.integer(), right.integer()) {
        return Ok(Some(left.cmp(&right)));
    }
    if left.float().is_none()
        && right.float().is_none()
        && let (Some(left), Some(right)) = (numeric_of(left), numeric_of(right))
    {
        return Ok(Some(left.cmp(&right)));
    }
    if let (Some(left), Some(right)) = (as_float(left)?, as_float(right)?) {
        let order = ValueRef::Float64(left).cmp(&ValueRef::Float64(right));
        return Ok(Some(order));
    }
    Ok(time_order(left, right))
}

/// Returns the order of two days or moments; none for other values.
fn time_order(left: ValueRef<'_>, right: ValueRef<'_>) -> Option<Ordering> {
    match (left, right) {
        (ValueRef::Date(left), ValueRef::Date(right)) => Some(left.cmp(&right)),
        (ValueRef::Date(days), _) => Some(day_order(days, moment(right)?)),
        (_, ValueRef::Date(days)) => Some(day_order(days, moment(left)?).reverse()),
        _ => Some(moment(left)?.cmp(&moment(right)?)),
    }
}

/// Returns a number as a double; none for other values.
///
/// # Errors
/// It is beyond the range of doubles.
pub(super) fn as_float(value: ValueRef<'_>) -> Result<Option<f64>, ExpressionError> {
    if let ValueRef::Numeric(value) = value {
        return match value.to_double() {
            Some(double) => Ok(Some(double)),
            None => Err(ExpressionError::Overflow),
        };
    }
    Ok(value.float().or(value.integer().map(|it| it as f64)))
}

fn moment(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Timestamp(at) | ValueRef::TimestampTz(at) => Some(at),
        _ => None,
    }
}

/// Compares a day with a moment. Days beyond the timestamps come before or after all of them, but
/// not before or after the infinities.
fn day_order(days: i32, moment: i64) -> Ordering {
    match moment_of(days) {
        Ok(midnight) => midnight.cmp(&moment),
        Err(_) if moment == i64::MAX => Ordering::Less,
        Err(_) => Ordering::Greater,
    }
}
