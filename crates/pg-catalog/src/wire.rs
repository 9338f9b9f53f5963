//! Values in PostgreSQL's formats: as texts and in binary.

use crate::SentValue;
use crate::casts;
use crate::catalogue::Calls;
use crate::datum::{ArrayDatum, Datum};
use crate::description::Oid;
use crate::error::CatalogueError;
use crate::plan::Output;
use crate::types::{self, Kind};

/// Microseconds from 1970 to 2000, where PostgreSQL's points in time begin.
const EPOCH_2000_US: i64 = 946_684_800_000_000;
/// The most items of an array that a client sends.
const ITEMS_MAX: i32 = 65_536;

/// Returns the value of a parameter.
///
/// # Errors
/// The bytes are no value of the type.
pub(crate) fn decode(
    calls: Calls<'_>,
    value: &SentValue,
    type_oid: Oid,
    number: usize,
) -> Result<Datum, CatalogueError> {
    let Some(bytes) = &value.bytes else {
        return Ok(Datum::Null);
    };
    if value.is_binary && types::kind(type_oid) != Kind::Text {
        let found = of_binary(bytes, type_oid);
        return found.ok_or_else(|| {
            let text = format!("incorrect binary data format in bind parameter {number}");
            CatalogueError::new("22P03", text)
        });
    }
    let text = str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| {
        let text =
            format!("invalid byte sequence for encoding \"UTF8\" in bind parameter {number}");
        CatalogueError::new("22021", text)
    })?;
    casts::convert(&calls, Datum::text(text), types::UNKNOWN, type_oid)
}

fn of_binary(bytes: &[u8], type_oid: Oid) -> Option<Datum> {
    Some(match types::kind(type_oid) {
        Kind::Bool => match bytes {
            [byte] => Datum::Bool(*byte != 0),
            _ => return None,
        },
        Kind::Int => match (type_oid, bytes.len()) {
            (types::TIMESTAMP | types::TIMESTAMPTZ, 8) => {
                let since_2000_us = i64::from_be_bytes(bytes.try_into().ok()?);
                Datum::Int(since_2000_us.checked_add(EPOCH_2000_US)?)
            }
            (types::INT2, 2) => Datum::Int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
            (types::INT4, 4) => Datum::Int(i32::from_be_bytes(bytes.try_into().ok()?).into()),
            (types::INT8 | types::XID8, 8) => {
                Datum::Int(i64::from_be_bytes(bytes.try_into().ok()?))
            }
            (_, 4) => Datum::Int(u32::from_be_bytes(bytes.try_into().ok()?).into()),
            _ => return None,
        },
        Kind::Float => match (type_oid, bytes.len()) {
            (types::FLOAT4, 4) => Datum::float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
            (types::FLOAT8, 8) => Datum::float(f64::from_be_bytes(bytes.try_into().ok()?)),
            _ => return None,
        },
        Kind::Text => Datum::text(str::from_utf8(bytes).ok()?),
        Kind::Array => return array_of_binary(bytes, type_oid),
        Kind::Record => return None,
    })
}

fn array_of_binary(bytes: &[u8], type_oid: Oid) -> Option<Datum> {
    let mut rest = bytes;
    let mut next = || {
        let (number, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some(i32::from_be_bytes(*number))
    };
    let (dimensions, _, element) = (next()?, next()?, next()?);
    if dimensions == 0 {
        return Some(Datum::array([]));
    }
    let (count, lower) = (next()?, next()?);
    if dimensions != 1 || !(0..=ITEMS_MAX).contains(&count) {
        return None;
    }
    if types::element(type_oid) != u32::try_from(element).ok() {
        return None;
    }
    let mut items = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        items.push(match usize::try_from(i32::from_be_bytes(*length)) {
            Err(_) => Datum::Null,
            Ok(length) => {
                let (item, after) = rest.split_at_checked(length)?;
                rest = after;
                of_binary(item, element.try_into().ok()?)?
            }
        });
    }
    Some(Datum::Array(std::sync::Arc::new(ArrayDatum {
        lower: lower.into(),
        items,
    })))
}

/// Returns the bytes of a value that is not NULL.
pub(crate) fn encode(calls: Calls<'_>, value: &Datum, column: &Output, is_binary: bool) -> Vec<u8> {
    match is_binary {
        false => casts::text(&calls, value, column.type_oid).into_bytes(),
        true => {
            let mut out = Vec::new();
            let fields: Vec<Oid> = column.fields.iter().map(|(_, oid)| *oid).collect();
            write_binary(calls, value, column.type_oid, &fields, &mut out);
            out
        }
    }
}

fn write_binary(calls: Calls<'_>, value: &Datum, type_oid: Oid, fields: &[Oid], out: &mut Vec<u8>) {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int(number) => write_whole(*number, type_oid, out),
        Datum::Float(bits) => match type_oid {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the value is one of four bytes"
            )]
            types::FLOAT4 => {
                out.extend((f64::from_bits(bits.0) as f32).to_be_bytes());
            }
            types::NUMERIC => {
                write_numeric(&casts::text(&calls, value, types::NUMERIC), out);
            }
            _ => out.extend(f64::from_bits(bits.0).to_be_bytes()),
        },
        Datum::Text(text) => out.extend(text.as_bytes()),
        Datum::Array(array) => {
            let element = types::element(type_oid).unwrap_or(types::TEXT);
            let has_null = array.items.iter().any(Datum::is_null);
            let dimensions = i32::from(!array.items.is_empty());
            out.extend(dimensions.to_be_bytes());
            out.extend(i32::from(has_null).to_be_bytes());
            out.extend(element.to_be_bytes());
            if dimensions == 1 {
                out.extend(length_bytes(array.items.len()));
                out.extend(i32::try_from(array.lower).unwrap_or(1).to_be_bytes());
            }
            for item in &array.items {
                write_item(calls, item, element, out);
            }
        }
        Datum::Record(items) => {
            out.extend(length_bytes(items.len()));
            for (position, item) in items.iter().enumerate() {
                let of = fields.get(position).copied().unwrap_or(types::TEXT);
                let of = if of == types::UNKNOWN {
                    types::TEXT
                } else {
                    of
                };
                out.extend(of.to_be_bytes());
                write_item(calls, item, of, out);
            }
        }
    }
}

fn length_bytes(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

/// Appends a value with its length; NULL has none.
fn write_item(calls: Calls<'_>, item: &Datum, type_oid: Oid, out: &mut Vec<u8>) {
    if item.is_null() {
        out.extend((-1_i32).to_be_bytes());
        return;
    }
    let start = out.len();
    out.extend([0; 4]);
    write_binary(calls, item, type_oid, &[], out);
    let length = length_bytes(out.len() - start - 4);
    out[start..start + 4].copy_from_slice(&length);
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are in the range of their types"
)]
fn write_whole(number: i64, type_oid: Oid, out: &mut Vec<u8>) {
    match type_oid {
        types::INT2 => out.extend((number as i16).to_be_bytes()),
        types::INT4 => out.extend((number as i32).to_be_bytes()),
        types::INT8 | types::XID8 => out.extend(number.to_be_bytes()),
        types::TIMESTAMP | types::TIMESTAMPTZ => {
            out.extend(number.saturating_sub(EPOCH_2000_US).to_be_bytes());
        }
        _ => out.extend((number as u32).to_be_bytes()),
    }
}

/// Appends a `numeric`: groups of four decimal digits.
fn write_numeric(text: &str, out: &mut Vec<u8>) {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(whole) || !is_plain(fraction) {
        // Not a number: no digits, and the sign that says so.
        out.extend([0, 0, 0, 0, 0xc0, 0, 0, 0]);
        return;
    }
    let whole = format!("{whole:0>width$}", width = whole.len().div_ceil(4) * 4);
    let scale = fraction.len();
    let fraction = format!(
        "{fraction:0<width$}",
        width = fraction.len().div_ceil(4) * 4
    );
    let digits = [whole.as_bytes(), fraction.as_bytes()].concat();
    let groups = digits.chunks(4).map(|group| {
        group
            .iter()
            .fold(0_u16, |number, digit| number * 10 + u16::from(digit - b'0'))
    });
    let groups: Vec<u16> = groups.collect();
    let number = |value: usize| u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes();
    out.extend(number(groups.len()));
    out.extend(number((whole.len() / 4).saturating_sub(1)));
    out.extend(if is_negative { [0x40, 0] } else { [0, 0] });
    out.extend(number(scale));
    for group in groups {
        out.extend(group.to_be_bytes());
    }
}
