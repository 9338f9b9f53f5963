//! Replaces the constants of query strings by parameters, so that strings that differ only in their
//! constants are analysed once.
//!
//! Each plain constant, a whole number or a text in quotes, becomes a parameter. This is no lexer
//! of SQL: where anything stands that would need one (comments, `$`, backslashes, texts with a
//! prefix), a text is left alone. A text with a constant that a parameter cannot replace, as in
//! `date '2024-02-29'`, does not parse as a template, and is analysed as it is.

use std::borrow::Cow;

use super::{BoundParameter, functions, keys};
use pg_wire::quoting::{IS_OF_NAME, name_length};

/// The most constants of one text.
const VALUES_MAX: usize = 1000;
/// Bytes by which parameters may be longer than their constants, mostly.
const GROWTH: usize = 16;

/// A query string with parameters in place of its constants.
#[derive(Debug, PartialEq, Eq)]
pub struct TextTemplate<'t> {
    /// The query string with the parameters.
    pub text: String,
    /// The values of the template's parameters, from `$1` on.
    pub values: Vec<Constant<'t>>,
}

/// A constant of a query string.
#[derive(Debug, PartialEq, Eq)]
pub enum Constant<'t> {
    /// A whole number.
    Number(Cow<'t, str>),
    /// A string literal.
    Quoted(Cow<'t, str>),
}

impl Constant<'_> {
    /// Returns the constant's value as a parameter.
    pub fn parameter(&self) -> BoundParameter<'_> {
        let (type_oid, value) = match self {
            Constant::Number(digits) => (keys::INT8, digits),
            Constant::Quoted(text) => (0, text),
        };
        BoundParameter {
            type_oid,
            binary: false,
            value: Some(value.as_bytes()),
        }
    }
}

/// Returns the template of a query string. Returns none if the string has no constants, or has
/// parts that this module does not recognise.
pub fn template(text: &str) -> Option<TextTemplate<'_>> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len() + GROWTH);
    let mut values = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b'\'' | b'0'..=b'9') {
            out.push_str(&text[copied..at]);
            copied = at;
        }
        let rest = &bytes[at..];
        let (length, value) = match byte {
            b'$' | b'\\' => return None,
            b'-' if rest.starts_with(b"--") => return None,
            b'/' if rest.starts_with(b"/*") => return None,
            b'\'' if out.ends_with(is_of_name) || out.ends_with('&') => return None,
            b'\'' => quoted(&text[at..])?,
            b'"' => (
                1 + rest[1..].iter().position(|byte| *byte == b'"')? + 1,
                None,
            ),
            b'0'..=b'9' => number(&text[at..], &mut out),
            _ => (name_length(rest).max(1), None),
        };
        at += length;
        if let Some(value) = value {
            values.push(value);
            out.push('$');
            push_number(&mut out, values.len());
            copied = at;
        }
    }
    out.push_str(&text[copied..]);
    let is_one = (1..=VALUES_MAX).contains(&values.len());
    is_one.then_some(TextTemplate { text: out, values })
}

/// Returns whether a character can be part of a name that is not in quotes.
fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii()
}

fn push_number(out: &mut String, number: usize) {
    match u8::try_from(number) {
        Ok(digit @ 0..10) => out.push(char::from(b'0' + digit)),
        _ => out.push_str(&number.to_string()),
    }
}

/// Returns the length and the value of the text in quotes at the start of `rest`; none if this
/// module does not recognise the text.
fn quoted(rest: &str) -> Option<(usize, Option<Constant<'_>>)> {
    let mut length = 1;
    loop {
        length += 1 + rest[length..].find('\'')?;
        if !rest[length..].starts_with('\'') {
            break;
        }
        length += 1;
    }
    let value = &rest[1..length - 1];
    let is_time = |time: &&str| value.trim().eq_ignore_ascii_case(time);
    if value.contains('\\') || functions::TIMES.iter().any(is_time) {
        return None;
    }
    let value = match value.contains('\'') {
        true => Cow::Owned(value.replace("''", "'")),
        false => Cow::Borrowed(value),
    };
    Some((length, Some(Constant::Quoted(value))))
}

/// Returns the length and the value of the number at the start of `rest`; no value if it is no
/// whole number. A minus sign at the end of `out` becomes a part of the value.
fn number<'t>(rest: &'t str, out: &mut String) -> (usize, Option<Constant<'t>>) {
    let of_number = |byte: &u8| *byte == b'.' || IS_OF_NAME[usize::from(*byte)];
    let bytes = rest.as_bytes();
    let length = bytes.iter().take_while(|byte| of_number(byte)).count();
    let digits = &rest[..length];
    if out.ends_with('.') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return (length, None);
    }
    let before = out.strip_suffix('-').map(str::trim_ascii_end);
    let value = match before.is_some_and(|before| before.ends_with(['=', '(', ','])) {
        true => {
            out.pop();
            Cow::Owned(format!("-{digits}"))
        }
        false => Cow::Borrowed(digits),
    };
    (length, Some(Constant::Number(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<(String, Vec<String>)> {
        let template = template(text)?;
        let values = template.values.into_iter().map(|value| match value {
            Constant::Number(value) | Constant::Quoted(value) => value.into_owned(),
        });
        Some((template.text, values.collect()))
    }

    #[test]
    fn constants_become_parameters() {
        for (text, expected, values) in [
            (
                "SELECT * FROM t1 WHERE a=07",
                "SELECT * FROM t1 WHERE a=$1",
                &["07"][..],
            ),
            (
                "UPDATE t SET n = n + -5, m=-6 WHERE k IN (-0, 8)",
                "UPDATE t SET n = n + -$1, m=$2 WHERE k IN ($3, $4)",
                &["5", "-6", "-0", "8"],
            ),
            (
                "INSERT INTO \"a 1\" VALUES ('it''s', '', 1.5, 2e3, 0x1F, .5)",
                "INSERT INTO \"a 1\" VALUES ($1, $2, 1.5, 2e3, 0x1F, .5)",
                &["it's", ""],
            ),
            ("SELECT 'grün', grün1", "SELECT $1, grün1", &["grün"]),
        ] {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            assert_eq!(of(text), Some((expected.to_owned(), values)), "{text}");
        }
    }

    #[test]
    fn texts_with_other_constants_are_left_alone() {
        for text in [
            "SELECT a FROM t",
            "SELECT 1 -- '",
            "SELECT 1 /* ' */",
            "SELECT $$1$$",
            "SELECT E'1'",
            "SELECT U&'1'",
            "SELECT '\\'",
            "SELECT '1",
            "SELECT \"1",
            "SELECT ' Now '::timestamp",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
