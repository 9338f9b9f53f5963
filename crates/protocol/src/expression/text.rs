//! The values of the further functions of texts and bytes, as in PostgreSQL.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use md5::Digest;
use placement::{ColumnType, FunctionError, TextFunction, Value, ValueRef, unescaped_bytes};

use super::budget::Budget;
use super::results::{check_room, length, single};
use super::{ExpressionError, ScalarFunction};

/// Characters of a line of Base64, as in MIME.
const LINE: usize = 76;

/// Returns the type of a function's results; none if it does not take such operands.
pub(super) fn function_type(
    function: TextFunction,
    operands: &[Option<ColumnType>],
) -> Option<ColumnType> {
    let mut places = operands.iter().enumerate();
    let fits =
        places.all(|(place, found)| found.is_none_or(|found| function.takes_type(place, found)));
    (fits && function.takes(operands.len())).then_some(function.result_type())
}

/// Returns the value of a function.
// tidy: long — a dispatching match over the functions.
pub(super) fn call(
    function: TextFunction,
    values: &[ValueRef<'_>],
    budget: &mut Budget,
) -> Result<Value, ExpressionError> {
    if function == TextFunction::ConcatWs {
        return joined(values);
    }
    if values.iter().any(|it| it.is_null()) {
        return Ok(Value::Null);
    }
    let text = |text: String| Ok(Value::Text(text));
    match (function, values) {
        (TextFunction::BitLength, [ValueRef::Bytes(bytes)]) => length(bytes.len() * 8),
        (TextFunction::BitLength, [ValueRef::Text(it)]) => length(it.len() * 8),
        (TextFunction::Md5, [ValueRef::Bytes(bytes)]) => text(hex(&md5::Md5::digest(bytes))),
        (TextFunction::Md5, [ValueRef::Text(it)]) => text(hex(&md5::Md5::digest(it.as_bytes()))),
        (TextFunction::ToHex, [ValueRef::Int32(it)]) => text(format!("{it:x}")),
        (TextFunction::ToHex, [ValueRef::Int64(it)]) => text(format!("{it:x}")),
        (TextFunction::Chr, [ValueRef::Int32(number)]) => text(character(*number)?.to_string()),
        (TextFunction::Ascii, [ValueRef::Text(it)]) => Ok(Value::Int32(
            it.chars()
                .next()
                .map_or(0, |it| u32::from(it).cast_signed()),
        )),
        (TextFunction::Initcap, [ValueRef::Text(it)]) => text(initial_capitals(it)),
        (TextFunction::Reverse, [ValueRef::Text(it)]) => text(it.chars().rev().collect()),
        (TextFunction::QuoteLiteral, [ValueRef::Text(it)]) => {
            let quoted = quoted(it);
            check_room(quoted.len())?;
            text(quoted)
        }
        (TextFunction::StartsWith, [ValueRef::Text(it), ValueRef::Text(start)]) => {
            Ok(Value::Bool(it.starts_with(start)))
        }
        (TextFunction::Repeat, [ValueRef::Text(it), ValueRef::Int32(times)]) => {
            let times = usize::try_from(*times).unwrap_or(0);
            check_room(it.len().saturating_mul(times))?;
            text(it.repeat(times))
        }
        (
            TextFunction::SplitPart,
            [ValueRef::Text(it), ValueRef::Text(by), ValueRef::Int32(at)],
        ) => text(part(it, by, *at)?.to_string()),
        (
            TextFunction::Translate,
            [ValueRef::Text(it), ValueRef::Text(from), ValueRef::Text(to)],
        ) => {
            let compared = it.len().saturating_mul(from.len()) / 16;
            budget.spend(u32::try_from(compared).unwrap_or(u32::MAX))?;
            let translated = translated(it, from, to);
            check_room(translated.len())?;
            text(translated)
        }
        (
            TextFunction::Lpad | TextFunction::Rpad,
            [ValueRef::Text(it), ValueRef::Int32(count), fill @ ..],
        ) => match fill {
            [] => text(padded(function, it, *count, " ")?),
            [ValueRef::Text(fill)] => text(padded(function, it, *count, fill)?),
            _ => Err(wrong(function)),
        },
        (TextFunction::Encode, [ValueRef::Bytes(bytes), ValueRef::Text(encoding)]) => {
            let encoded = encoded(bytes, encoding)?;
            check_room(encoded.len())?;
            text(encoded)
        }
        (TextFunction::Decode, [ValueRef::Text(it), ValueRef::Text(encoding)]) => {
            Ok(Value::Bytes(decoded(it, encoding)?))
        }
        (function, [ValueRef::Bytes(bytes)]) => digest(function, bytes),
        _ => Err(wrong(function)),
    }
}

fn wrong(function: TextFunction) -> ExpressionError {
    ExpressionError::WrongOperands {
        function: ScalarFunction::Text(function),
    }
}

fn digest(function: TextFunction, bytes: &[u8]) -> Result<Value, ExpressionError> {
    Ok(Value::Bytes(match function {
        TextFunction::Sha224 => sha2::Sha224::digest(bytes).to_vec(),
        TextFunction::Sha256 => sha2::Sha256::digest(bytes).to_vec(),
        TextFunction::Sha384 => sha2::Sha384::digest(bytes).to_vec(),
        TextFunction::Sha512 => sha2::Sha512::digest(bytes).to_vec(),
        function => return Err(wrong(function)),
    }))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes any text");
    }
    text
}

fn joined(values: &[ValueRef<'_>]) -> Result<Value, ExpressionError> {
    let [ValueRef::Text(separator), parts @ ..] = values else {
        return Ok(Value::Null);
    };
    let mut joined = String::new();
    for (place, part) in parts.iter().filter(|it| !it.is_null()).enumerate() {
        if place > 0 {
            joined.push_str(separator);
        }
        write!(joined, "{part}").expect("a string takes any text");
        check_room(joined.len())?;
    }
    Ok(Value::Text(joined))
}

fn character(number: i32) -> Result<char, ExpressionError> {
    let number = u32::try_from(number).map_err(|_| FunctionError::NegativeCharacter)?;
    let found = char::from_u32(number).filter(|it| *it != '\0');
    found.ok_or_else(|| FunctionError::NoCharacter.into())
}

fn initial_capitals(text: &str) -> String {
    let mut is_within = false;
    let changed = text.chars().map(|letter| {
        let changed = match is_within {
            true => single(letter, letter.to_lowercase()),
            false => single(letter, letter.to_uppercase()),
        };
        is_within = letter.is_alphanumeric();
        changed
    });
    changed.collect()
}

fn quoted(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

fn part<'a>(text: &'a str, by: &str, number: i32) -> Result<&'a str, ExpressionError> {
    let at = number.unsigned_abs() as usize;
    let found = match number {
        0 => return Err(FunctionError::NoPart.into()),
        // Without a separator there is one part.
        _ if by.is_empty() => (at == 1).then_some(text),
        1.. => text.split(by).nth(at - 1),
        _ => text.rsplit(by).nth(at - 1),
    };
    Ok(found.unwrap_or(""))
}

fn translated(text: &str, from: &str, to: &str) -> String {
    let replaced =
        text.chars()
            .filter_map(|letter| match from.chars().position(|it| it == letter) {
                None => Some(letter),
                Some(at) => to.chars().nth(at),
            });
    replaced.collect()
}

/// Returns a text that is filled to a number of characters, or cut at its end.
fn padded(
    function: TextFunction,
    text: &str,
    count: i32,
    fill: &str,
) -> Result<String, ExpressionError> {
    let count = usize::try_from(count).unwrap_or(0);
    let found = text.chars().count();
    if found >= count || fill.is_empty() {
        return Ok(text.chars().take(count).collect());
    }
    let missing = count - found;
    check_room(text.len().saturating_add(missing))?;
    let filling: String = fill.chars().cycle().take(missing).collect();
    check_room(text.len() + filling.len())?;
    Ok(match function {
        TextFunction::Lpad => filling + text,
        _ => String::from(text) + &filling,
    })
}

fn base64() -> GeneralPurpose {
    let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&STANDARD, config)
}

fn encoded(bytes: &[u8], encoding: &str) -> Result<String, ExpressionError> {
    Ok(match &encoding.to_ascii_lowercase()[..] {
        "hex" => hex(bytes),
        "base64" => {
            let text = base64().encode(bytes);
            let lines = text.as_bytes().chunks(LINE);
            let lines = lines.map(|it| core::str::from_utf8(it).expect("it is ASCII"));
            lines.collect::<Vec<&str>>().join("\n")
        }
        "escape" => {
            let mut text = String::with_capacity(bytes.len());
            for byte in bytes {
                match byte {
                    b'\\' => text.push_str("\\\\"),
                    0 | 0x80.. => write!(text, "\\{byte:03o}").expect("a string takes any text"),
                    byte => text.push(char::from(*byte)),
                }
            }
            text
        }
        _ => return Err(FunctionError::NoEncoding.into()),
    })
}

fn decoded(text: &str, encoding: &str) -> Result<Vec<u8>, ExpressionError> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let found = match &encoding.to_ascii_lowercase()[..] {
        "hex" => from_hex(text),
        "base64" => {
            let dense: Vec<u8> = text.bytes().filter(|it| !is_space(it)).collect();
            base64().decode(dense).ok()
        }
        "escape" => unescaped_bytes(text),
        _ => return Err(FunctionError::NoEncoding.into()),
    };
    found.ok_or_else(|| FunctionError::NotEncoded.into())
}

/// Returns the bytes of pairs of digits, between which there may be spaces.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |letter: char| letter.to_digit(16);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut letters = text.chars();
    while let Some(first) = letters.next() {
        if matches!(first, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let byte = digit(first)? * 16 + digit(letters.next()?)?;
        bytes.push(u8::try_from(byte).expect("two digits are a byte"));
    }
    Some(bytes)
}
