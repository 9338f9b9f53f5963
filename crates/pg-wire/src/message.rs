//! Reads and writes the bodies of those messages that the proxy must understand.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use bytes::{BufMut, Bytes, BytesMut};

use crate::Malformed;
use crate::framing::HEADER_LEN;

/// The body of a Parse message: a statement to be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMessage<'a> {
    /// The statement's name; empty for the unnamed one.
    pub name: &'a [u8],
    /// The bytes after the name: the text, a zero byte, and the parameters' types.
    pub rest: &'a [u8],
}

impl<'a> ParseMessage<'a> {
    /// Parses a body, or the beginning of one.
    pub fn read(body: &'a [u8]) -> Result<ParseMessage<'a>, Malformed> {
        let (name, rest) = split_string(body)?;
        Ok(ParseMessage { name, rest })
    }

    /// Returns the statement's query string, if it is complete.
    pub fn text(&self) -> Result<&'a [u8], Malformed> {
        split_string(self.rest).map(|(text, _)| text)
    }
}

/// The body of a Bind message, which creates a portal from a statement and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindMessage<'a> {
    /// The portal's name.
    pub portal: &'a [u8],
    /// The statement's name.
    pub statement: &'a [u8],
    /// The bytes after the names.
    pub rest: &'a [u8],
}

impl<'a> BindMessage<'a> {
    /// Parses a body, or the beginning of one.
    pub fn read(body: &'a [u8]) -> Result<BindMessage<'a>, Malformed> {
        let (portal, rest) = split_string(body)?;
        let (statement, rest) = split_string(rest)?;
        Ok(BindMessage {
            portal,
            statement,
            rest,
        })
    }
}

/// A parameter's value in a Bind message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterValue<'a> {
    /// Whether the value is in binary format.
    pub binary: bool,
    /// The bytes of the value; none for NULL.
    pub bytes: Option<&'a [u8]>,
}

/// Returns the bytes after the names in a Bind message with these values. Values and result columns
/// have text format.
pub fn bound_texts(values: &[&[u8]]) -> Bytes {
    let count = u16::try_from(values.len()).expect("there are few values");
    let length: usize = values.iter().map(|value| 4 + value.len()).sum();
    let mut out = BytesMut::with_capacity(length + 6);
    out.put_u16(0);
    out.put_u16(count);
    for value in values {
        out.put_u32(u32::try_from(value.len()).expect("a value is no longer than a message"));
        out.put_slice(value);
    }
    out.put_u16(0);
    out.freeze()
}

/// Returns the parameters' values, from the bytes after the names in a Bind message.
pub fn values(rest: &[u8]) -> Result<Vec<ParameterValue<'_>>, Malformed> {
    let short = || Malformed::new("the parameters of a message are cut off");
    let mut rest = rest;
    let formats = count(&mut rest).ok_or_else(short)?;
    let (formats, after) = rest.split_at_checked(2 * formats).ok_or_else(short)?;
    rest = after;
    let formats: Vec<bool> = formats.chunks(2).map(|format| format != [0, 0]).collect();
    let mut values = Vec::new();
    for index in 0..count(&mut rest).ok_or_else(short)? {
        // One format stands for all, none for text.
        let binary = *formats.get(index).or(formats.first()).unwrap_or(&false);
        let bytes = field(&mut rest).ok_or_else(short)?;
        values.push(ParameterValue { binary, bytes });
    }
    Ok(values)
}

/// Removes a count of 16 bits from the start of `rest` and returns it; none if `rest` is too short.
fn count(rest: &mut &[u8]) -> Option<usize> {
    let (count, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u16::from_be_bytes(*count).into())
}

/// Removes a value with its length from the start of `rest` and returns the value, which is none
/// for NULL. Returns none if `rest` is too short.
fn field<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, after) = rest.split_first_chunk()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok();
    let (bytes, after) = after.split_at_checked(length.unwrap_or(0))?;
    *rest = after;
    Some(length.map(|_| bytes))
}

/// The object in the body of a Describe or Close message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementOrPortal<'a> {
    /// A prepared statement.
    Statement(&'a [u8]),
    /// A portal.
    Portal(&'a [u8]),
}

impl<'a> StatementOrPortal<'a> {
    /// Parses a body.
    pub fn read(body: &'a [u8]) -> Result<StatementOrPortal<'a>, Malformed> {
        let Some((kind, rest)) = body.split_first() else {
            return Err(Malformed::new("message is too short"));
        };
        let (name, rest) = split_string(rest)?;
        match (kind, rest) {
            (b'S', []) => Ok(StatementOrPortal::Statement(name)),
            (b'P', []) => Ok(StatementOrPortal::Portal(name)),
            _ => Err(Malformed::new("invalid message of Describe or Close")),
        }
    }
}

/// Returns the portal in the body of an Execute message.
pub fn executed_portal(body: &[u8]) -> Result<&[u8], Malformed> {
    split_string(body).map(|(portal, _)| portal)
}

/// Returns the bytes before the first zero byte, and the bytes after it. Fails if there is no zero
/// byte.
pub fn split_string(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => Ok((text.to_bytes(), &bytes[text.count_bytes() + 1..])),
        Err(_) => Err(Malformed::new("a string in a message has no end")),
    }
}

/// Returns the name and the value in the body of a ParameterStatus message.
pub fn parameter_status(body: &[u8]) -> Result<(Bytes, Bytes), Malformed> {
    let (name, rest) = split_string(body)?;
    let (value, _) = split_string(rest)?;
    Ok((Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)))
}

/// Returns the columns in the body of a DataRow message, as text. NULL becomes an empty text.
pub fn row(body: &[u8]) -> Result<Vec<String>, Malformed> {
    let short = || Malformed::new("a row is too short");
    let mut rest = body;
    let mut columns = Vec::new();
    for _ in 0..count(&mut rest).ok_or_else(short)? {
        let column = field(&mut rest).ok_or_else(short)?;
        columns.push(String::from_utf8_lossy(column.unwrap_or_default()).into_owned());
    }
    Ok(columns)
}

/// Appends a message with these parts. `rest` more bytes of its body follow later.
///
/// # Panics
/// If the message is longer than its length field can express. Parts come from messages of bounded
/// length.
pub fn write(out: &mut BytesMut, tag: u8, parts: &[&[u8]], rest: usize) {
    let body: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(body + rest + 4).expect("parts come from messages that fit");
    out.reserve(HEADER_LEN + body);
    out.put_u8(tag);
    out.put_u32(length);
    for part in parts {
        out.put_slice(part);
    }
}

/// Appends ReadyForQuery with the status of the transaction: `I`, `T` or `E`.
pub fn write_ready(out: &mut BytesMut, status: u8) {
    write(out, b'Z', &[&[status]], 0);
}

/// Appends a simple query.
pub fn write_query(out: &mut BytesMut, text: &str) {
    write(out, b'Q', &[text.as_bytes(), b"\0"], 0);
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn written_message_is_read() {
        let mut out = BytesMut::new();
        write(&mut out, b'B', &[b"portal\0", b"name\0", b"rest"], 0);
        let bind = BindMessage::read(&out[HEADER_LEN..]).unwrap();
        assert_eq!(bind.portal, b"portal");
        assert_eq!(bind.statement, b"name");
        assert_eq!(bind.rest, b"rest");
    }

    #[test]
    fn values_of_bind_are_read() {
        let made = bound_texts(&[b"17", b""]);
        let bytes: Vec<_> = values(&made).unwrap().iter().map(|it| it.bytes).collect();
        assert_eq!(bytes, [Some(&b"17"[..]), Some(b"")]);
        let text = b"\0\0\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\0";
        let value = |binary, bytes| ParameterValue { binary, bytes };
        let expected = vec![value(false, Some(&b"a"[..])), value(false, None)];
        assert_eq!(values(text), Ok(expected));
        let each = b"\0\x02\0\0\0\x01\0\x02\0\0\0\x01a\0\0\0\x01b\0\0";
        let expected = vec![value(false, Some(&b"a"[..])), value(true, Some(b"b"))];
        assert_eq!(values(each), Ok(expected));
        let all = b"\0\x01\0\x01\0\x02\0\0\0\x01a\0\0\0\0\0\0";
        let expected = vec![value(true, Some(&b"a"[..])), value(true, Some(b""))];
        assert_eq!(values(all), Ok(expected));
        assert!(values(&all[..11]).is_err());
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(body in prop::collection::vec(0_u8..4, 0..20)) {
            let whole = |name: &[u8], rest: &[u8]| name.len() + rest.len() + 1 == body.len();
            if let Ok(parse) = ParseMessage::read(&body) {
                prop_assert!(whole(parse.name, parse.rest));
                let _ = parse.text();
            }
            if let Ok(bind) = BindMessage::read(&body) {
                prop_assert!(bind.rest.len() + bind.portal.len() + bind.statement.len() + 2 == body.len());
            }
            let _ = StatementOrPortal::read(&body);
            let _ = executed_portal(&body);
            let _ = parameter_status(&body);
            let _ = values(&body);
            let _ = row(&body);
        }
    }
}
