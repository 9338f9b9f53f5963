//! The keys of arrays, in the order of [`ArrayRef`]s.
//!
//! Each element is in its own form of keys, which begins with `01` or `02`. Behind the last one are
//! `00`, the number of dimensions, their lengths, and their first subscripts, which are big endian
//! with the sign bit flipped.

use alloc::vec::Vec;

use super::{ArrayBuilder, ArrayDimension, ArrayRef, ElementType};
use crate::key::{KeyError, Sink, decode_value, encode_value_to};
use crate::value::Value;

const END: u8 = 0x00;
const SIGN: u32 = 1 << 31;

/// Appends the key of an array.
pub(crate) fn write(out: &mut impl Sink, array: ArrayRef<'_>) {
    for value in array.values() {
        encode_value_to(out, value);
    }
    let count = u8::try_from(array.dimension_count()).expect("an array has at most six");
    out.write(&[END, count]);
    for dimension in array.dimensions() {
        out.write(&dimension.length.to_be_bytes());
    }
    for dimension in array.dimensions() {
        out.write(&(dimension.lower.cast_unsigned() ^ SIGN).to_be_bytes());
    }
}

/// Reads an array off the start of a key.
///
/// # Errors
/// The bytes are none of such a key.
pub(crate) fn read(
    rest: &mut &[u8],
    element: ElementType,
    column: usize,
) -> Result<Value, KeyError> {
    let truncated = KeyError::Truncated { column };
    let malformed = KeyError::Malformed { column };
    let mut builder = ArrayBuilder::new(element);
    loop {
        match rest.first() {
            None => return Err(truncated),
            Some(&END) => break,
            Some(_) => {
                let value = decode_value(rest, element.column_type(), column)?;
                builder.push(value.as_ref());
            }
        }
    }
    *rest = &rest[1..];
    let (count, after) = rest.split_first().ok_or(truncated.clone())?;
    let count = usize::from(*count);
    let (numbers, after) = after.split_at_checked(count * 8).ok_or(truncated)?;
    let (numbers, _) = numbers.as_chunks::<4>();
    let (lengths, lowers) = numbers.split_at(count);
    let dimensions = lengths
        .iter()
        .zip(lowers)
        .map(|(length, lower)| ArrayDimension {
            length: u32::from_be_bytes(*length),
            lower: (u32::from_be_bytes(*lower) ^ SIGN).cast_signed(),
        });
    let dimensions: Vec<ArrayDimension> = dimensions.collect();
    if dimensions.iter().any(|it| it.length == 0) {
        return Err(malformed);
    }
    let array = builder.finish(&dimensions).map_err(|_| malformed)?;
    *rest = after;
    Ok(Value::Array(array))
}
