//! JSON as PostgreSQL has it: the trees that `jsonb` stands for, their order and their one text.
//!
//! A `jsonb` is stored as the text that [`Json`] prints, so equal bytes are equal values. The keys
//! of an object are in the order of their length and then of their bytes, each once, and numbers
//! are exact. A `json` is stored as it was written. `parse` reads both, `key` encodes trees for
//! keys, `edit` takes them apart and puts them together.

mod edit;
mod key;
mod parse;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::numeric::Numeric;

pub use edit::PathEdit;
pub use parse::{JsonPart, check_json, json_kind, json_parts};

/// The deepest nesting of arrays and objects.
pub const JSON_DEPTH_MAX: usize = 512;

/// A tree of `jsonb`.
#[derive(Clone, Debug)]
pub enum Json {
    /// The word `null`, which is no NULL of SQL.
    Null,
    /// True or false.
    Bool(bool),
    /// A number with all of its digits.
    Number(Numeric),
    /// A text.
    String(String),
    /// Values in their order.
    Array(Vec<Json>),
    /// Keys and their values, in the order of the length and the bytes of the keys.
    Object(Vec<(String, Json)>),
}

/// Why a text is no JSON, or why an operation on JSON has no result. Retrying does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// The text does not follow the grammar, or has half of a surrogate pair.
    Syntax,
    /// The text has the character of number 0.
    ZeroCharacter,
    /// A number has more digits than a numeric.
    NumberRange,
    /// Arrays and objects are nested deeper than [`JSON_DEPTH_MAX`].
    TooDeep,
    /// A conversion to a number or a truth value of another kind of JSON.
    OtherKind,
    /// The length of something other than an array.
    NoArray,
    /// The removal of a part of a scalar, or of an object by a position.
    NotRemovable,
    /// A change within a scalar.
    NotSettable,
    /// A step of a path that is NULL.
    NullStep,
    /// A step of a path that is no position of an array.
    NoPosition,
    /// A key without a value.
    KeyAlone,
    /// A key of an object that is NULL, an array or an object.
    NoKey,
}

impl JsonError {
    /// All errors.
    pub const ALL: [JsonError; 12] = [
        JsonError::Syntax,
        JsonError::ZeroCharacter,
        JsonError::NumberRange,
        JsonError::TooDeep,
        JsonError::OtherKind,
        JsonError::NoArray,
        JsonError::NotRemovable,
        JsonError::NotSettable,
        JsonError::NullStep,
        JsonError::NoPosition,
        JsonError::KeyAlone,
        JsonError::NoKey,
    ];
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonError::Syntax => "a text is no JSON: write it as in {\"a\": [1, true, null]}",
            JsonError::ZeroCharacter => "JSON has the escape \\u0000, which no text can have",
            JsonError::NumberRange => "a number in JSON has too many digits for a numeric",
            JsonError::TooDeep => "JSON is nested deeper than 512 levels: flatten it",
            JsonError::OtherKind => {
                "JSON of another kind cannot become a number or a boolean: take one of these out \
                 of it"
            }
            JsonError::NoArray => "cannot get array length of JSON that is no array",
            JsonError::NotRemovable => {
                "cannot delete from a scalar, or from an object by a position: name a key"
            }
            JsonError::NotSettable => "cannot set a path in a scalar: give an array or an object",
            JsonError::NullStep => "an element of the path is null: name a key or a position",
            JsonError::NoPosition => {
                "an element of the path is no integer, and the array has no keys: give a position"
            }
            JsonError::KeyAlone => "the last key has no value: give keys and values in turn",
            JsonError::NoKey => "a key of an object is null, an array or JSON: give a scalar",
        })
    }
}

impl core::error::Error for JsonError {}

impl Json {
    /// Returns the object of these pairs. Of equal keys the last one counts.
    pub fn object(mut pairs: Vec<(String, Json)>) -> Json {
        // The order of equal keys stays.
        pairs.sort_by(|left, right| key_order(&left.0, &right.0));
        let mut unique: Vec<(String, Json)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match unique.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => unique.push(pair),
            }
        }
        Json::Object(unique)
    }

    /// Returns the tree of a text that this type has printed. Another text is null: a value of a
    /// row that was checked has none.
    pub(crate) fn stored(text: &str) -> Json {
        Json::parse(text).unwrap_or(Json::Null)
    }

    /// Returns whether the value is nested no deeper than one that is read from a text.
    pub fn is_within_depth(&self) -> bool {
        self.fits_below(0)
    }

    fn fits_below(&self, depth: usize) -> bool {
        let fits = |it: &Json| it.fits_below(depth + 1);
        depth <= JSON_DEPTH_MAX
            && match self {
                Json::Array(items) => items.iter().all(fits),
                Json::Object(pairs) => pairs.iter().all(|(_, value)| fits(value)),
                _ => true,
            }
    }

    /// Returns the name of the kind, as the function `jsonb_typeof`.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// Returns whether this is an array or an object.
    pub fn is_container(&self) -> bool {
        matches!(self, Json::Array(_) | Json::Object(_))
    }

    /// Returns the place of the kind in the order of all.
    fn rank(&self) -> u8 {
        match self {
            Json::Null => 0,
            Json::String(_) => 1,
            Json::Number(_) => 2,
            Json::Bool(_) => 3,
            Json::Array(_) => 4,
            Json::Object(_) => 5,
        }
    }

    /// Returns the place of a whole `jsonb` in the order of all. PostgreSQL stores a scalar as an
    /// array of one item, so an empty array comes before it.
    fn root_rank(&self) -> u8 {
        match self {
            Json::Array(items) if items.is_empty() => 0,
            Json::Array(_) => 2,
            Json::Object(_) => 3,
            _ => 1,
        }
    }

    /// Returns the order of two parts of a `jsonb`. Of arrays and objects the one with more members
    /// is the larger one, and then the first members that differ decide.
    fn part_order(&self, other: &Json) -> Ordering {
        match (self, other) {
            (Json::Bool(left), Json::Bool(right)) => left.cmp(right),
            (Json::Number(left), Json::Number(right)) => left.cmp(right),
            (Json::String(left), Json::String(right)) => left.cmp(right),
            (Json::Array(left), Json::Array(right)) => {
                let pairs = left.iter().zip(right);
                let mut orders = pairs.map(|(left, right)| left.part_order(right));
                let count = left.len().cmp(&right.len());
                count.then_with(|| orders.find(|it| it.is_ne()).unwrap_or(Ordering::Equal))
            }
            (Json::Object(left), Json::Object(right)) => {
                let pairs = left.iter().zip(right);
                let mut orders = pairs.map(|((key, value), (other_key, other))| {
                    key.cmp(other_key).then_with(|| value.part_order(other))
                });
                let count = left.len().cmp(&right.len());
                count.then_with(|| orders.find(|it| it.is_ne()).unwrap_or(Ordering::Equal))
            }
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }
}

/// Returns whether a text is the one of a `jsonb`.
pub fn stored_jsonb(text: &str) -> bool {
    use alloc::string::ToString;
    Json::parse(text).is_ok_and(|tree| tree.to_string() == text)
}

/// Returns the order of keys within an object.
fn key_order(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// The order of whole values of `jsonb`.
impl Ord for Json {
    fn cmp(&self, other: &Json) -> Ordering {
        let ranks = self.root_rank().cmp(&other.root_rank());
        ranks.then_with(|| self.part_order(other))
    }
}

impl PartialOrd for Json {
    fn partial_cmp(&self, other: &Json) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Json {}

/// The text of a `jsonb`.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(value) => write!(f, "{value}"),
            Json::String(text) => write_json_string(f, text),
            Json::Array(items) => {
                f.write_str("[")?;
                for (position, item) in items.iter().enumerate() {
                    let before = if position == 0 { "" } else { ", " };
                    write!(f, "{before}{item}")?;
                }
                f.write_str("]")
            }
            Json::Object(pairs) => {
                f.write_str("{")?;
                for (position, (key, value)) in pairs.iter().enumerate() {
                    f.write_str(if position == 0 { "" } else { ", " })?;
                    write_json_string(f, key)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Json {
    /// Appends the text with a line for each member, as the function `jsonb_pretty`.
    pub fn write_pretty(&self, out: &mut String, depth: usize) -> fmt::Result {
        const INDENT: usize = 4;
        use core::fmt::Write;
        let line = |out: &mut String, depth: usize| {
            out.push('\n');
            out.extend(core::iter::repeat_n(' ', INDENT * depth));
        };
        match self {
            Json::Array(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    out.push_str(if position == 0 { "" } else { "," });
                    line(out, depth + 1);
                    item.write_pretty(out, depth + 1)?;
                }
                line(out, depth);
                out.push(']');
            }
            Json::Object(pairs) => {
                out.push('{');
                for (position, (key, value)) in pairs.iter().enumerate() {
                    out.push_str(if position == 0 { "" } else { "," });
                    line(out, depth + 1);
                    write_json_string(out, key)?;
                    out.push_str(": ");
                    value.write_pretty(out, depth + 1)?;
                }
                line(out, depth);
                out.push('}');
            }
            scalar => write!(out, "{scalar}")?,
        }
        Ok(())
    }
}

/// Writes a text as a string of JSON, in double quotes.
///
/// # Errors
/// Errors of `out`.
pub fn write_json_string(out: &mut dyn fmt::Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\u{8}' => out.write_str("\\b")?,
            '\u{c}' => out.write_str("\\f")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            control if control < ' ' => write!(out, "\\u{:04x}", u32::from(control))?,
            other => out.write_char(other)?,
        }
    }
    out.write_char('"')
}
