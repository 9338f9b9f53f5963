//! Reads JSON by the grammar of RFC 8259, as PostgreSQL does.
//!
//! The escapes of a `json` are only checked where they are written: those of characters that no
//! text can have are found when they are read.

use alloc::string::String;
use alloc::vec::Vec;

use super::{JSON_DEPTH_MAX, Json, JsonError};
use crate::numeric::{Numeric, NumericError};

/// How the escapes and the numbers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Only their form is checked.
    Check,
    /// Escapes become characters.
    Escapes,
    /// Escapes become characters, and numbers numerics.
    Values,
}

/// A value within a `json`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPart<'t> {
    /// The key, if it is a member of an object.
    pub key: Option<String>,
    /// The text of the value, without spaces around it.
    pub text: &'t str,
}

impl Json {
    /// Returns the tree of a text.
    ///
    /// # Errors
    /// The text is no `jsonb`.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        Parser::whole(text, Reading::Values)
    }
}

/// Checks that a text is a `json`.
///
/// # Errors
/// It is none.
pub fn check_json(text: &str) -> Result<(), JsonError> {
    Parser::whole(text, Reading::Check).map(drop)
}

/// Returns the members of an array or an object in the order in which they are written; none if the
/// text is another kind of JSON. Keys may repeat.
///
/// # Errors
/// The text is no JSON, or has an escape of a character that no text can have.
pub fn json_parts(text: &str) -> Result<Option<Vec<JsonPart<'_>>>, JsonError> {
    Parser::whole(text, Reading::Escapes)?;
    let mut parser = Parser::new(text, Reading::Escapes);
    parser.skip_spaces();
    let end = match parser.peek() {
        Some(b'{') => b'}',
        Some(b'[') => b']',
        _ => return Ok(None),
    };
    parser.at += 1;
    let mut parts = Vec::new();
    while !parser.closes(end, parts.is_empty())? {
        let key = match end {
            b'}' => Some(parser.key()?),
            _ => None,
        };
        parser.skip_spaces();
        let start = parser.at;
        parser.value(1)?;
        let text = &text[start..parser.at];
        parts.push(JsonPart { key, text });
    }
    Ok(Some(parts))
}

/// Returns the name of the kind of a valid `json`, as the function `json_typeof`.
pub fn json_kind(text: &str) -> &'static str {
    match text.trim_start_matches(is_space).bytes().next() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

struct Parser<'t> {
    text: &'t str,
    /// The position of the next byte.
    at: usize,
    reading: Reading,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, reading: Reading) -> Parser<'t> {
        let at = 0;
        Parser { text, at, reading }
    }

    fn whole(text: &'t str, reading: Reading) -> Result<Json, JsonError> {
        let mut parser = Parser::new(text, reading);
        let value = parser.value(0)?;
        parser.skip_spaces();
        match parser.at == text.len() {
            true => Ok(value),
            false => Err(JsonError::Syntax),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes a byte.
    fn pass(&mut self, wanted: u8) -> Result<(), JsonError> {
        match self.peek() == Some(wanted) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => Err(JsonError::Syntax),
        }
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Reads a value. The depth is limited, because the texts are from outside.
    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        if depth > JSON_DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        self.skip_spaces();
        match self.peek().ok_or(JsonError::Syntax)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Json::String),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number(),
        }
    }

    /// Returns whether the array or object ends here. Before another member it passes the comma.
    fn closes(&mut self, end: u8, is_first: bool) -> Result<bool, JsonError> {
        self.skip_spaces();
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(true);
        }
        if !is_first {
            self.pass(b',')?;
        }
        Ok(false)
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.pass(b'[')?;
        let mut items = Vec::new();
        while !self.closes(b']', items.is_empty())? {
            items.push(self.value(depth + 1)?);
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.pass(b'{')?;
        let mut pairs = Vec::new();
        while !self.closes(b'}', pairs.is_empty())? {
            let key = self.key()?;
            pairs.push((key, self.value(depth + 1)?));
        }
        Ok(Json::object(pairs))
    }

    /// Reads a key and the colon after it.
    fn key(&mut self) -> Result<String, JsonError> {
        self.skip_spaces();
        let key = self.string()?;
        self.skip_spaces();
        self.pass(b':')?;
        Ok(key)
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, JsonError> {
        match self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            true => {
                self.at += word.len();
                Ok(value)
            }
            false => Err(JsonError::Syntax),
        }
    }

    /// Passes decimal digits, and returns how many.
    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|it| it.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let starts_with_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || starts_with_zero && whole > 1 {
            return Err(JsonError::Syntax);
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(JsonError::Syntax);
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(JsonError::Syntax);
            }
        }
        if self.reading != Reading::Values {
            return Ok(Json::Null);
        }
        match Numeric::parse(&self.text[start..self.at]) {
            Ok(number) => Ok(Json::Number(number)),
            Err(NumericError::Syntax) => Err(JsonError::Syntax),
            Err(_) => Err(JsonError::NumberRange),
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.pass(b'"')?;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let special = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\');
            let plain = rest.bytes().position(special).ok_or(JsonError::Syntax)?;
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut text)?;
                }
                // Control characters must be written as escapes.
                _ => return Err(JsonError::Syntax),
            }
        }
    }

    /// Reads what is after a backslash.
    fn escape(&mut self, text: &mut String) -> Result<(), JsonError> {
        let character = match self.peek().ok_or(JsonError::Syntax)? {
            b'u' => {
                self.at += 1;
                return self.escaped_number(text);
            }
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            plain @ (b'"' | b'\\' | b'/') => char::from(plain),
            _ => return Err(JsonError::Syntax),
        };
        self.at += 1;
        text.push(character);
        Ok(())
    }

    /// Reads the number of a character, which may take two escapes.
    fn escaped_number(&mut self, text: &mut String) -> Result<(), JsonError> {
        let first = self.hexadecimal()?;
        if self.reading == Reading::Check {
            return Ok(());
        }
        let number = match first {
            0 => return Err(JsonError::ZeroCharacter),
            0xd800..0xdc00 => {
                self.pass(b'\\')?;
                self.pass(b'u')?;
                let second = self.hexadecimal()?;
                if !(0xdc00..0xe000).contains(&second) {
                    return Err(JsonError::Syntax);
                }
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            number => number,
        };
        // The second half of a pair alone is no character.
        text.push(char::from_u32(number).ok_or(JsonError::Syntax)?);
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<u32, JsonError> {
        let mut number = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|it| char::from(it).to_digit(16));
            number = number << 4 | digit.ok_or(JsonError::Syntax)?;
            self.at += 1;
        }
        Ok(number)
    }
}
