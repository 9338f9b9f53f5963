//! The operators and functions of `json` and `jsonb`, as in PostgreSQL.
//!
//! Each one reads the texts of its operands. The work is counted by their bytes, and a result is
//! never longer than a row.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use placement::{
    ArrayRef, ColumnType, Json, JsonError, JsonFunction, JsonPart, PathEdit, ROW_BYTES_MAX, Value,
    ValueRef, check_json, json_kind, json_parts, write_json_string,
};

use super::budget::Budget;
use super::{BinaryOperator, ExpressionError, ScalarFunction};

impl From<JsonError> for ExpressionError {
    fn from(error: JsonError) -> ExpressionError {
        ExpressionError::Json(error)
    }
}

/// Returns the type of the results of an operator one of whose operands is JSON; none if there is
/// no such operator. The type of an operand is none if it is always NULL.
pub(super) fn operator_type(
    operator: BinaryOperator,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Option<ColumnType> {
    use ColumnType::{Bool, Int16, Int32, Json, Jsonb, Text};
    let is_step = matches!(right, None | Some(Text | Int16 | Int32));
    let is_jsonb = |it: Option<ColumnType>| matches!(it, None | Some(Jsonb));
    let both = is_jsonb(left) && is_jsonb(right);
    let one = left.is_some() || right.is_some();
    match (operator, left) {
        (BinaryOperator::JsonMember, Some(Json | Jsonb)) if is_step => left,
        (BinaryOperator::JsonMemberText, Some(Json | Jsonb)) if is_step => Some(Text),
        (BinaryOperator::Contains | BinaryOperator::ContainedBy, _) if both => Some(Bool),
        (BinaryOperator::HasKey, Some(Jsonb)) if matches!(right, None | Some(Text)) => Some(Bool),
        (BinaryOperator::Concatenate, _) if both && one => Some(Jsonb),
        (BinaryOperator::Subtract, Some(Jsonb)) if is_step => Some(Jsonb),
        _ => None,
    }
}

/// Returns the result of an operator of JSON, and none if it is none of these operands. Neither of
/// them is NULL.
pub(super) fn operator(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
    budget: &mut Budget,
) -> Result<Option<Value>, ExpressionError> {
    if operator_type(operator, left.column_type(), right.column_type()).is_none() {
        return Ok(None);
    }
    spend(&[left, right], budget)?;
    let is_text = operator == BinaryOperator::JsonMemberText;
    let value = match (left, right) {
        (ValueRef::Json(text), step) => {
            let found = json_step(text, step)?;
            json_result(found, is_text)?
        }
        (ValueRef::Jsonb(left), ValueRef::Jsonb(right)) => {
            let (left, right) = (Json::parse(left)?, Json::parse(right)?);
            match operator {
                BinaryOperator::Contains => Value::Bool(left.contains(&right)),
                BinaryOperator::ContainedBy => Value::Bool(right.contains(&left)),
                _ => stored(&left.joined(right))?,
            }
        }
        (ValueRef::Jsonb(tree), step) => {
            let tree = Json::parse(tree)?;
            match (operator, step, step.integer()) {
                (BinaryOperator::HasKey, ValueRef::Text(key), _) => Value::Bool(tree.has(key)),
                (BinaryOperator::Subtract, ValueRef::Text(key), _) => {
                    stored(&tree.without(|it| it == key)?)?
                }
                (BinaryOperator::Subtract, _, Some(position)) => {
                    stored(&tree.without_item(narrow(position))?)?
                }
                (_, ValueRef::Text(key), _) => jsonb_result(tree.member(key), is_text)?,
                // A scalar is stored as an array of one item.
                (_, _, Some(0 | -1)) if !tree.is_container() => jsonb_result(Some(&tree), is_text)?,
                (_, _, Some(position)) => jsonb_result(tree.item(narrow(position)), is_text)?,
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// Returns the type of a function's results; none if it does not take such operands.
pub(super) fn function_type(
    function: JsonFunction,
    operands: &[Option<ColumnType>],
) -> Option<ColumnType> {
    let mut operands_in_place = operands.iter().enumerate();
    let fits = operands_in_place.all(|(place, found)| {
        let wanted = function.operand_type(place);
        wanted.is_none_or(|wanted| found.is_none_or(|found| found == wanted))
    });
    let result = function.result_type();
    (fits && function.takes(operands.len())).then_some(result)
}

/// Returns the value of a function.
pub(super) fn call(
    function: JsonFunction,
    values: &[ValueRef<'_>],
    budget: &mut Budget,
) -> Result<Value, ExpressionError> {
    spend(values, budget)?;
    if function.builds() {
        return built(function, values);
    }
    if function.takes_path() {
        return with_path(function, values);
    }
    if values.iter().any(|it| it.is_null()) {
        return Ok(Value::Null);
    }
    let wrong = ExpressionError::WrongOperands {
        function: ScalarFunction::Json(function),
    };
    match *values {
        [value] if function == JsonFunction::ToJson => json(written(value)?),
        [value] if function == JsonFunction::ToJsonb => stored(&Json::parse(&written(value)?)?),
        [ValueRef::Json(text)] if function == JsonFunction::JsonTypeof => {
            Ok(Value::Text(json_kind(text).into()))
        }
        [ValueRef::Json(text)] if function == JsonFunction::JsonArrayLength => {
            match (json_kind(text), json_parts(text)?) {
                ("array", Some(parts)) => Ok(Value::Int32(count(parts.len())?)),
                _ => Err(JsonError::NoArray.into()),
            }
        }
        [ValueRef::Json(text), ref path @ ..] => {
            let is_text = match function {
                JsonFunction::JsonExtractPath => false,
                JsonFunction::JsonExtractPathText => true,
                _ => return Err(wrong),
            };
            json_result(json_at(text, &steps(path))?, is_text)
        }
        [ValueRef::Jsonb(text), ref others @ ..] => {
            of_jsonb(function, Json::parse(text)?, &steps(others))
        }
        _ => Err(wrong),
    }
}

/// Returns the value of a function whose last operands are a path or keys, which may be NULL.
fn with_path(function: JsonFunction, values: &[ValueRef<'_>]) -> Result<Value, ExpressionError> {
    let (tree, steps) = match (function, values) {
        (JsonFunction::JsonbSet, [tree, value, is_added, steps @ ..]) => {
            let (ValueRef::Jsonb(tree), ValueRef::Jsonb(value), ValueRef::Bool(is_added)) =
                (*tree, *value, *is_added)
            else {
                return Ok(Value::Null);
            };
            let value = Json::parse(value)?;
            let edit = match is_added {
                true => PathEdit::Set(&value),
                false => PathEdit::Replace(&value),
            };
            return stored(&Json::parse(tree)?.edited(&nullable_steps(steps), edit)?);
        }
        (_, [ValueRef::Jsonb(tree), steps @ ..]) => (Json::parse(tree)?, steps),
        _ => return Ok(Value::Null),
    };
    let steps = nullable_steps(steps);
    let mut keys = steps.iter().flatten();
    Ok(match function {
        JsonFunction::JsonbExistsAny => Value::Bool(keys.any(|key| tree.has(key))),
        JsonFunction::JsonbExistsAll => Value::Bool(keys.all(|key| tree.has(key))),
        _ => stored(&tree.edited(&steps, PathEdit::Remove)?)?,
    })
}

fn of_jsonb(function: JsonFunction, tree: Json, texts: &[&str]) -> Result<Value, ExpressionError> {
    match (function, texts) {
        (JsonFunction::JsonbTypeof, []) => Ok(Value::Text(tree.kind().into())),
        (JsonFunction::JsonbArrayLength, []) => match &tree {
            Json::Array(items) => Ok(Value::Int32(count(items.len())?)),
            _ => Err(JsonError::NoArray.into()),
        },
        (JsonFunction::JsonbStripNulls, []) => stored(&tree.without_nulls()),
        (JsonFunction::JsonbPretty, []) => {
            let mut text = String::new();
            let written = tree.write_pretty(&mut text, 0);
            written.expect("a string takes any text");
            check_room(&text)?;
            Ok(Value::Text(text))
        }
        (JsonFunction::JsonbExtractPath, path) => jsonb_result(tree.at_path(path), false),
        (JsonFunction::JsonbExtractPathText, path) => jsonb_result(tree.at_path(path), true),
        (JsonFunction::JsonbExists, [key]) => Ok(Value::Bool(tree.has(key))),
        (function, _) => Err(ExpressionError::WrongOperands {
            function: ScalarFunction::Json(function),
        }),
    }
}

/// Returns the JSON of items, or of keys and values in turn.
fn built(function: JsonFunction, values: &[ValueRef<'_>]) -> Result<Value, ExpressionError> {
    let mut text = String::new();
    match function {
        JsonFunction::JsonBuildArray | JsonFunction::JsonbBuildArray => {
            text.push('[');
            for (position, value) in values.iter().enumerate() {
                text.push_str(if position == 0 { "" } else { ", " });
                text.push_str(&written(*value)?);
                check_room(&text)?;
            }
            text.push(']');
        }
        _ => {
            let (pairs, alone) = values.as_chunks::<2>();
            if !alone.is_empty() {
                return Err(JsonError::KeyAlone.into());
            }
            text.push('{');
            for (position, [key, value]) in pairs.iter().enumerate() {
                text.push_str(if position == 0 { "" } else { ", " });
                text.push_str(&format!("{} : {}", written_key(*key)?, written(*value)?));
                check_room(&text)?;
            }
            text.push('}');
        }
    }
    match function {
        JsonFunction::JsonBuildArray | JsonFunction::JsonBuildObject => {
            check_json(&text)?;
            json(text)
        }
        _ => stored(&Json::parse(&text)?),
    }
}

/// Returns an array as JSON, each dimension as an array.
pub(super) fn array_text(array: ArrayRef<'_>) -> Result<String, ExpressionError> {
    let lengths = array.dimensions().map(|it| it.length as usize);
    let lengths: Vec<usize> = lengths.collect();
    let mut items = Vec::with_capacity(array.count() as usize);
    let mut size = 0;
    for value in array.values() {
        let item = written(value)?;
        size += item.len();
        if size > ROW_BYTES_MAX {
            return Err(ExpressionError::TooLong { bytes: size });
        }
        items.push(item);
    }
    if items.is_empty() {
        return Ok("[]".into());
    }
    for length in lengths.into_iter().rev() {
        let members = items.chunks(length);
        items = members.map(|it| format!("[{}]", it.join(","))).collect();
    }
    let text = items.concat();
    check_room(&text)?;
    Ok(text)
}

/// Returns a value of any type as JSON. Times are written as ISO 8601 has them.
fn written(value: ValueRef<'_>) -> Result<String, ExpressionError> {
    let text = match value {
        ValueRef::Null => return Ok("null".into()),
        ValueRef::Bool(value) => return Ok(value.to_string()),
        ValueRef::Int16(_) | ValueRef::Int32(_) | ValueRef::Int64(_) => {
            return Ok(value.to_string());
        }
        ValueRef::Json(text) | ValueRef::Jsonb(text) => return Ok(text.into()),
        ValueRef::Array(array) => return array_text(array),
        ValueRef::Float32(number) if number.is_finite() => return Ok(value.to_string()),
        ValueRef::Float64(number) if number.is_finite() => return Ok(value.to_string()),
        ValueRef::Numeric(number) if number.is_finite() => return Ok(value.to_string()),
        ValueRef::Timestamp(_) => Cow::Owned(value.to_string().replacen(' ', "T", 1)),
        ValueRef::TimestampTz(_) => {
            let text = value.to_string().replacen(' ', "T", 1);
            Cow::Owned(text.replacen("+00", "+00:00", 1))
        }
        ValueRef::Text(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    };
    let mut string = String::with_capacity(text.len() + 2);
    write_json_string(&mut string, &text).expect("a string takes any text");
    Ok(string)
}

/// Returns a value as a key of an object.
fn written_key(key: ValueRef<'_>) -> Result<String, ExpressionError> {
    if matches!(key, ValueRef::Null | ValueRef::Json(_) | ValueRef::Jsonb(_)) {
        return Err(JsonError::NoKey.into());
    }
    let text = written(key)?;
    Ok(match text.starts_with('"') {
        true => text,
        false => format!("\"{text}\""),
    })
}

/// Returns the part of a `json` that a key or a position names, as it is written.
fn json_step<'t>(text: &'t str, step: ValueRef<'_>) -> Result<Option<&'t str>, ExpressionError> {
    let Some(parts) = json_parts(text)? else {
        return Ok(None);
    };
    let is_array = json_kind(text) == "array";
    Ok(match (step, step.integer()) {
        (ValueRef::Text(key), _) => member(&parts, key),
        (_, Some(position)) if is_array => item(&parts, narrow(position)),
        _ => None,
    })
}

/// Returns the part of a `json` at a path, as it is written.
fn json_at<'t>(text: &'t str, path: &[&str]) -> Result<Option<&'t str>, ExpressionError> {
    // Even without a step, the escapes are read.
    json_parts(text)?;
    let mut found = text.trim_matches([' ', '\t', '\n', '\r']);
    for step in path {
        let Some(parts) = json_parts(found)? else {
            return Ok(None);
        };
        let part = match json_kind(found) {
            "array" => {
                let position = step.trim_ascii_start().parse().ok();
                position.and_then(|it| item(&parts, it))
            }
            _ => member(&parts, step),
        };
        match part {
            Some(part) => found = part,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Returns the value of a key; of equal ones the last.
fn member<'t>(parts: &[JsonPart<'t>], key: &str) -> Option<&'t str> {
    let mut parts = parts.iter().rev();
    let found = parts.find(|it| it.key.as_deref() == Some(key));
    found.map(|it| it.text)
}

/// Returns the item at a position, which counts from the end if it is negative.
fn item<'t>(parts: &[JsonPart<'t>], position: i32) -> Option<&'t str> {
    let from_end = position.unsigned_abs() as usize;
    let place = match position < 0 {
        true => parts.len().checked_sub(from_end)?,
        false => from_end,
    };
    parts.get(place).map(|it| it.text)
}

/// Returns a part of a `json`, or its text; NULL if there is none.
fn json_result(part: Option<&str>, is_text: bool) -> Result<Value, ExpressionError> {
    match part {
        None => Ok(Value::Null),
        Some(part) if !is_text => json(part.into()),
        Some("null") => Ok(Value::Null),
        Some(part) if part.starts_with('"') => match Json::parse(part)? {
            Json::String(text) => Ok(Value::Text(text)),
            _ => Err(JsonError::Syntax.into()),
        },
        Some(part) => Ok(Value::Text(part.into())),
    }
}

/// Returns a part of a `jsonb`, or its text; NULL if there is none.
fn jsonb_result(part: Option<&Json>, is_text: bool) -> Result<Value, ExpressionError> {
    match part {
        None => Ok(Value::Null),
        Some(part) if !is_text => stored(part),
        Some(Json::Null) => Ok(Value::Null),
        Some(Json::String(text)) => Ok(Value::Text(text.clone())),
        Some(part) => Ok(Value::Text(part.to_string())),
    }
}

fn stored(tree: &Json) -> Result<Value, ExpressionError> {
    // A change can put one value into another one.
    if !tree.is_within_depth() {
        return Err(JsonError::TooDeep.into());
    }
    let text = tree.to_string();
    check_room(&text)?;
    Ok(Value::Jsonb(text))
}

fn json(text: String) -> Result<Value, ExpressionError> {
    check_room(&text)?;
    Ok(Value::Json(text))
}

fn steps<'v>(values: &[ValueRef<'v>]) -> Vec<&'v str> {
    let texts = values.iter().filter_map(|it| match it {
        ValueRef::Text(text) => Some(*text),
        _ => None,
    });
    texts.collect()
}

fn nullable_steps<'v>(values: &[ValueRef<'v>]) -> Vec<Option<&'v str>> {
    let texts = values.iter().map(|it| match it {
        ValueRef::Text(text) => Some(*text),
        _ => None,
    });
    texts.collect()
}

fn count(items: usize) -> Result<i32, ExpressionError> {
    i32::try_from(items).map_err(|_| ExpressionError::Overflow)
}

/// Returns a position; the types of the operands have at most 32 bits.
fn narrow(position: i64) -> i32 {
    i32::try_from(position).unwrap_or(i32::MAX)
}

/// Counts the bytes of operands that are read.
fn spend(values: &[ValueRef<'_>], budget: &mut Budget) -> Result<(), ExpressionError> {
    /// So many bytes of JSON are a step.
    const BYTES: usize = 4;
    let bytes = values.iter().map(|value| match value {
        ValueRef::Json(text) | ValueRef::Jsonb(text) | ValueRef::Text(text) => text.len(),
        ValueRef::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    let steps = bytes.sum::<usize>() / BYTES;
    budget.spend(u32::try_from(steps).unwrap_or(u32::MAX))
}

fn check_room(text: &str) -> Result<(), ExpressionError> {
    match text.len() {
        bytes if bytes > ROW_BYTES_MAX => Err(ExpressionError::TooLong { bytes }),
        _ => Ok(()),
    }
}
