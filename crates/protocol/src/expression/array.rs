//! The operators and functions of arrays: the types of their results, and their values.
//!
//! Work is counted against the caller's budget: a step per element that is read. A result takes at
//! most the bytes of a row.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use placement::{
    Array, ArrayBuilder, ArrayDimension, ArrayError, ArrayFunction, ArrayOperand, ArrayRef,
    ColumnType, Comparison, ElementType, ROW_BYTES_MAX, ScalarFunction, Value, ValueRef,
};

use super::budget::Budget;
use super::compare::comparison;
use super::{BinaryOperator, ExpressionError, json, like};

/// Returns the value of an operator of arrays whose operands are not NULL, except for the left one
/// of a comparison with elements; none if it is no such operator.
pub(super) fn operator(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
    budget: &mut Budget,
) -> Result<Option<Value>, ExpressionError> {
    if let (BinaryOperator::Any(of), ValueRef::Array(array)) = (operator, right) {
        let found = with_elements((of, true), left, array, budget)?;
        return Ok(Some(found.map_or(Value::Null, Value::Bool)));
    }
    if let (BinaryOperator::All(of), ValueRef::Array(array)) = (operator, right) {
        let found = with_elements((of, false), left, array, budget)?;
        return Ok(Some(found.map_or(Value::Null, Value::Bool)));
    }
    let (ValueRef::Array(left), ValueRef::Array(right)) = (left, right) else {
        return Ok(None);
    };
    if operator.is_comparison() {
        budget.spend(left.count().saturating_add(right.count()))?;
        return Ok(None);
    }
    let pairs = left.count().saturating_mul(right.count());
    let holds = match operator {
        BinaryOperator::Contains => {
            budget.spend(pairs)?;
            left.contains_all(right)
        }
        BinaryOperator::ContainedBy => {
            budget.spend(pairs)?;
            right.contains_all(left)
        }
        BinaryOperator::Overlaps => {
            budget.spend(pairs)?;
            left.overlaps(right)
        }
        _ => return Ok(None),
    };
    Ok(Some(Value::Bool(holds)))
}

/// Returns whether a comparison with one element (`is_any`) or with all elements holds; none for
/// NULL.
fn with_elements(
    (of, is_any): (Comparison, bool),
    left: ValueRef<'_>,
    array: ArrayRef<'_>,
    budget: &mut Budget,
) -> Result<Option<bool>, ExpressionError> {
    let (operator, is_negated) = of.operator();
    let mut has_null = left.is_null() && array.count() > 0;
    if !has_null {
        for element in array.values() {
            budget.spend(1)?;
            budget.spend_for_digits(&[left, element])?;
            if element.is_null() {
                has_null = true;
                continue;
            }
            let holds = match (operator, left, element) {
                (BinaryOperator::Like, ValueRef::Text(text), ValueRef::Text(pattern)) => {
                    like::matches(text, pattern, budget)?
                }
                _ => comparison(operator, left, element)?,
            };
            if (holds != is_negated) == is_any {
                return Ok(Some(is_any));
            }
        }
    }
    Ok((!has_null).then_some(!is_any))
}

/// Returns the type of a function's results; none if it does not take such operands. The types of
/// the operands are none where they are always NULL.
pub(super) fn function_type(
    function: ArrayFunction,
    operands: &[Option<ColumnType>],
) -> Option<ColumnType> {
    let first = operands.first().copied().flatten();
    let integer = |it: &Option<ColumnType>| it.is_none_or(|it| it == ColumnType::Int32);
    match function {
        ArrayFunction::Make(element) | ArrayFunction::Join(element) => {
            let array = ColumnType::Array(element.of_values());
            let wanted = match function {
                ArrayFunction::Make(_) => element.column_type().of_values(),
                _ => array,
            };
            let is_one = |it: &Option<ColumnType>| it.is_none_or(|it| it == wanted);
            operands.iter().all(is_one).then_some(array)
        }
        ArrayFunction::Subscript => match first {
            Some(ColumnType::Array(element)) => operands[1..]
                .iter()
                .all(integer)
                .then(|| element.column_type()),
            _ => None,
        },
        ArrayFunction::Slice(_) => {
            let is_array = matches!(first, Some(ColumnType::Array(_)));
            let fits = is_array && operands[1..].iter().all(integer);
            first.filter(|_| fits)
        }
        function => named_type(function, operands),
    }
}

/// Returns the type of the results of a function that is called by its name.
fn named_type(function: ArrayFunction, operands: &[Option<ColumnType>]) -> Option<ColumnType> {
    if !function.takes(operands.len()) {
        return None;
    }
    let mut element = match function {
        ArrayFunction::Append(element) | ArrayFunction::Prepend(element) => {
            Some(element.of_values())
        }
        ArrayFunction::OfText => Some(ElementType::Text),
        _ => None,
    };
    let mut is_one = |found: ElementType| *element.get_or_insert(found) == found;
    for (place, operand) in operands.iter().enumerate() {
        let Some(found) = *operand else {
            continue;
        };
        let fits = match (function.operand(place), found) {
            (ArrayOperand::Array, ColumnType::Array(element)) => is_one(element),
            (ArrayOperand::Array, _) => false,
            (ArrayOperand::Element, found) => ElementType::of(found).is_some_and(&mut is_one),
            (ArrayOperand::Of(wanted), found) => wanted == found,
        };
        if !fits {
            return None;
        }
    }
    let searches = matches!(
        function,
        ArrayFunction::Remove
            | ArrayFunction::Replace
            | ArrayFunction::Position
            | ArrayFunction::Positions
    );
    let element = element.unwrap_or(ElementType::Text);
    let has_equality = element.column_type().has_order();
    (!searches || has_equality).then(|| function.result_type(element))
}

/// Returns the value of a function.
pub(super) fn call(
    function: ArrayFunction,
    values: &[ValueRef<'_>],
    budget: &mut Budget,
) -> Result<Value, ExpressionError> {
    for value in values {
        if let ValueRef::Array(array) = value {
            budget.spend(array.count())?;
        }
    }
    let wrong = ExpressionError::WrongOperands {
        function: ScalarFunction::Array(function),
    };
    let made = match (function, values) {
        (ArrayFunction::Make(element), values) => {
            let mut builder = ArrayBuilder::new(element);
            values.iter().for_each(|it| builder.push(*it));
            builder.finish_list()?
        }
        (ArrayFunction::Join(element), values) => joined(element, values)?,
        (ArrayFunction::Append(element), [array, value]) => {
            appended(element, *array, *value, false)?
        }
        (ArrayFunction::Prepend(element), [value, array]) => {
            appended(element, *array, *value, true)?
        }
        (ArrayFunction::Concatenate, [ValueRef::Null, other] | [other, ValueRef::Null]) => {
            return Ok(other.to_owned());
        }
        (ArrayFunction::OfText, values) => return of_text(values),
        (_, [ValueRef::Null, ..]) => return Ok(Value::Null),
        (ArrayFunction::Concatenate, [ValueRef::Array(left), ValueRef::Array(right)]) => {
            left.concatenated(*right)?
        }
        (ArrayFunction::Remove, [ValueRef::Array(array), value]) => array.replaced(*value, None)?,
        (ArrayFunction::Replace, [ValueRef::Array(array), from, to]) => {
            array.replaced(*from, Some(*to))?
        }
        (ArrayFunction::Trim, [_, ValueRef::Null]) => return Ok(Value::Null),
        (ArrayFunction::Trim, [ValueRef::Array(array), ValueRef::Int32(count)]) => {
            array.trimmed(*count)?
        }
        (ArrayFunction::Slice(open), [ValueRef::Array(array), bounds @ ..]) => {
            let Some(bounds) = subscripts(bounds) else {
                return Ok(Value::Null);
            };
            array.slice(&slice_bounds(open, &bounds).ok_or(wrong)?)
        }
        (function, [ValueRef::Array(array), others @ ..]) => {
            return of_array(function, *array, others)?.ok_or(wrong);
        }
        _ => return Err(wrong),
    };
    checked(made)
}

fn checked(array: Array) -> Result<Value, ExpressionError> {
    match array.as_bytes().len() {
        bytes if bytes > ROW_BYTES_MAX => Err(ExpressionError::TooLong { bytes }),
        _ => Ok(Value::Array(array)),
    }
}

/// Returns an array of arrays of the same dimensions. A NULL is an array without elements.
fn joined(element: ElementType, values: &[ValueRef<'_>]) -> Result<Array, ExpressionError> {
    let mut builder = ArrayBuilder::new(element);
    let mut inner: Option<Vec<ArrayDimension>> = None;
    for value in values {
        let dimensions = match value {
            ValueRef::Array(array) => array.dimensions().collect(),
            _ => Vec::new(),
        };
        if *inner.get_or_insert_with(|| dimensions.clone()) != dimensions {
            return Err(ArrayError::OtherDimensions.into());
        }
        if let ValueRef::Array(array) = value {
            builder.extend(*array);
        }
        if builder.size() > ROW_BYTES_MAX {
            let bytes = builder.size();
            return Err(ExpressionError::TooLong { bytes });
        }
    }
    let inner = inner.unwrap_or_default();
    if inner.is_empty() {
        return Ok(Array::empty(element));
    }
    let length = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let mut dimensions = Vec::from([ArrayDimension { length, lower: 1 }]);
    dimensions.extend(inner);
    Ok(builder.finish(&dimensions)?)
}

fn appended(
    element: ElementType,
    array: ValueRef<'_>,
    value: ValueRef<'_>,
    is_first: bool,
) -> Result<Array, ExpressionError> {
    let empty = Array::empty(element.of_values());
    let array = match array {
        ValueRef::Array(array) => array,
        _ => empty.as_ref(),
    };
    array
        .with_element(value, is_first)
        .map_err(|error| match error {
            ArrayError::SubscriptOutOfRange => ExpressionError::Overflow,
            error => error.into(),
        })
}

/// Returns subscripts; none if one is NULL.
fn subscripts(values: &[ValueRef<'_>]) -> Option<Vec<i32>> {
    let subscripts = values.iter().map(|it| match it {
        ValueRef::Int32(subscript) => Some(*subscript),
        _ => None,
    });
    subscripts.collect()
}

/// Returns the bounds of each dimension of a slice. The bits are those of
/// [`ArrayFunction::Slice`].
fn slice_bounds(open: u16, given: &[i32]) -> Option<Vec<(Option<i32>, Option<i32>)>> {
    let mut given = given.iter();
    let mut bounds = Vec::new();
    for dimension in 0..8 {
        let is_open = |bit: u32| open >> (2 * dimension + bit) & 1 != 0;
        let left = given.len();
        if left == 0 && open >> (2 * dimension) == 0 {
            break;
        }
        let mut next = |bit| match is_open(bit) {
            true => Some(None),
            false => given.next().map(|it| Some(*it)),
        };
        bounds.push((next(0)?, next(1)?));
    }
    given.next().is_none().then_some(bounds)
}

// tidy: long — one arm per function.
/// Returns the value of a function of an array that is not NULL; none for wrong operands.
fn of_array(
    function: ArrayFunction,
    array: ArrayRef<'_>,
    others: &[ValueRef<'_>],
) -> Result<Option<Value>, ExpressionError> {
    let dimension = |number: i32| {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        array.dimensions().nth(place)
    };
    let integer = |it: Option<i32>| it.map_or(Value::Null, Value::Int32);
    let count = |it: u32| integer(i32::try_from(it).ok());
    Ok(Some(match (function, others) {
        (ArrayFunction::Subscript, subscripts) => match self::subscripts(subscripts) {
            Some(subscripts) => array.element_at(&subscripts).to_owned(),
            None => Value::Null,
        },
        (ArrayFunction::Cardinality, []) => count(array.count()),
        (ArrayFunction::Dimensions, []) => match array.dimension_count() {
            0 => Value::Null,
            found => integer(i32::try_from(found).ok()),
        },
        (ArrayFunction::DimensionsText, []) => {
            let mut text = String::new();
            for it in array.dimensions() {
                // A string takes any text.
                let _ = write!(text, "[{}:{}]", it.lower, it.upper());
            }
            match text.is_empty() {
                true => Value::Null,
                false => Value::Text(text),
            }
        }
        (ArrayFunction::Length, [ValueRef::Int32(number)]) => {
            dimension(*number).map_or(Value::Null, |it| count(it.length))
        }
        (ArrayFunction::Lower, [ValueRef::Int32(number)]) => {
            integer(dimension(*number).map(|it| it.lower))
        }
        (ArrayFunction::Upper, [ValueRef::Int32(number)]) => {
            integer(dimension(*number).map(ArrayDimension::upper))
        }
        (ArrayFunction::Length | ArrayFunction::Lower | ArrayFunction::Upper, [ValueRef::Null]) => {
            Value::Null
        }
        (ArrayFunction::Position, [value]) => integer(array.positions(*value, None)?.next()),
        (ArrayFunction::Position, [value, ValueRef::Int32(start)]) => {
            integer(array.positions(*value, Some(*start))?.next())
        }
        (ArrayFunction::Position, [value, ValueRef::Null]) => {
            // The value is searched for only if it can be there.
            drop(array.positions(ValueRef::Null, None)?);
            let may_be = !value.is_null() || array.values().any(ValueRef::is_null);
            return match array.count() > 0 && may_be {
                false => Ok(Some(Value::Null)),
                true => Err(ArrayError::NullStart.into()),
            };
        }
        (ArrayFunction::Positions, [value]) => {
            let mut builder = ArrayBuilder::new(ElementType::Int32);
            for found in array.positions(*value, None)? {
                builder.push(ValueRef::Int32(found));
            }
            Value::Array(builder.finish_list()?)
        }
        (ArrayFunction::ToText, [separator, others @ ..]) => {
            return to_text(array, *separator, others).map(Some);
        }
        (ArrayFunction::ToJson, []) => Value::Json(json::array_text(array)?),
        _ => return Ok(None),
    }))
}

fn to_text(
    array: ArrayRef<'_>,
    separator: ValueRef<'_>,
    others: &[ValueRef<'_>],
) -> Result<Value, ExpressionError> {
    let ValueRef::Text(separator) = separator else {
        return Ok(Value::Null);
    };
    let null = match others {
        [ValueRef::Text(null)] => Some(*null),
        _ => None,
    };
    let mut text = String::new();
    let mut is_first = true;
    for value in array.values() {
        let item = match (value, null) {
            (ValueRef::Null, None) => continue,
            (ValueRef::Null, Some(null)) => null.to_string(),
            (value, _) => value.to_string(),
        };
        if !is_first {
            text.push_str(separator);
        }
        is_first = false;
        text.push_str(&item);
        if text.len() > ROW_BYTES_MAX {
            return Err(ExpressionError::TooLong { bytes: text.len() });
        }
    }
    Ok(Value::Text(text))
}

fn of_text(values: &[ValueRef<'_>]) -> Result<Value, ExpressionError> {
    let (text, separator, null) = match *values {
        [ValueRef::Text(text), separator] => (text, separator, ValueRef::Null),
        [ValueRef::Text(text), separator, null] => (text, separator, null),
        _ => return Ok(Value::Null),
    };
    let mut builder = ArrayBuilder::new(ElementType::Text);
    let mut push = |part: &str| {
        match null {
            ValueRef::Text(null) if null == part => builder.push(ValueRef::Null),
            _ => builder.push(ValueRef::Text(part)),
        }
        match builder.size() {
            bytes if bytes > ROW_BYTES_MAX => Err(ExpressionError::TooLong { bytes }),
            _ => Ok(()),
        }
    };
    match separator {
        _ if text.is_empty() => {}
        ValueRef::Text("") => push(text)?,
        ValueRef::Text(separator) => text.split(separator).try_for_each(&mut push)?,
        _ => {
            let mut bytes = [0; 4];
            for character in text.chars() {
                push(character.encode_utf8(&mut bytes))?;
            }
        }
    }
    checked(builder.finish_list()?)
}
