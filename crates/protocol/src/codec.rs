//! Encodes and decodes messages and log records: little-endian integers, length-prefixed bytes and
//! lists, and one tag byte per enum.
//!
//! One trait and three macros, so that a message's fields are named once. Decoding bounds-checks
//! everything and allocates no more than the input can fill: bytes from a network or a disk
//! never cause a panic. Frames (length, checksum, version) are in `frame`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use placement::{ArrayRef, Interval, NumericRef, Value, check_json, stored_jsonb};

/// The microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// An error in decoding. Sending the same bytes again does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ended inside a value.
    Truncated,
    /// An invalid tag or flag, or a string that is not UTF-8.
    Invalid(&'static str),
    /// Bytes are left over after the value.
    TrailingBytes(usize),
    /// Values are nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// The items of the lists would take more memory than [`MEMORY_BYTES_MAX`].
    TooLarge,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => write!(f, "the bytes end inside a value"),
            DecodeError::Invalid(what) => write!(f, "the bytes hold no valid {what}"),
            DecodeError::TrailingBytes(count) => {
                write!(f, "{count} bytes are left over after the value")
            }
            DecodeError::TooDeep => {
                write!(
                    f,
                    "the bytes hold values nested deeper than {DEPTH_MAX} levels"
                )
            }
            DecodeError::TooLarge => write!(
                f,
                "the bytes hold so many items that they would take more than \
                 {MEMORY_BYTES_MAX} bytes"
            ),
        }
    }
}

impl core::error::Error for DecodeError {}

/// A cursor over received bytes.
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Open nested values; bounds recursion over outside data.
    depth: u32,
    /// Bytes that lists and nested values may still take in memory.
    memory: usize,
}

/// The deepest nesting of values. Only expressions are recursive.
pub const DEPTH_MAX: u32 = 32;

/// The most memory that the lists and nested values of one message may take, besides texts and
/// bytes. An item of one or two bytes can take forty times that in memory, so the size of the frame
/// is no limit.
pub const MEMORY_BYTES_MAX: usize = 32 << 20;

/// The memory that a byte of a kept value can take: an item of one byte in a list.
const KEPT_EXPANSION_MAX: usize = 64;

/// Items for which a decoded list reserves memory at once; a longer list grows as they are read.
const ITEMS_RESERVED_MAX: usize = 1024;

impl<'a> Reader<'a> {
    /// Returns a cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader {
            bytes,
            depth: 0,
            memory: MEMORY_BYTES_MAX,
        }
    }

    /// Returns a reader of bytes whose decoded lists may take up to `memory` bytes.
    pub fn with_memory(bytes: &'a [u8], memory: usize) -> Self {
        Reader {
            memory,
            ..Reader::new(bytes)
        }
    }

    /// Returns the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        if count > self.bytes.len() {
            return Err(DecodeError::Truncated);
        }
        let (head, tail) = self.bytes.split_at(count);
        self.bytes = tail;
        Ok(head)
    }

    /// Reads a length as `u32`, and returns the bytes of this length that follow it.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = u32::decode(self)? as usize;
        self.take(length)
    }

    /// Returns how many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Reserves the memory of `count` values of type `T`, within [`MEMORY_BYTES_MAX`].
    pub fn claim<T>(&mut self, count: usize) -> Result<(), DecodeError> {
        let bytes = count.checked_mul(size_of::<T>());
        let left = bytes.and_then(|bytes| self.memory.checked_sub(bytes));
        self.memory = left.ok_or(DecodeError::TooLarge)?;
        Ok(())
    }

    /// Runs `read` one level deeper. Returns an error beyond [`DEPTH_MAX`].
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth == DEPTH_MAX {
            return Err(DecodeError::TooDeep);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }
}

/// A value with exactly one encoding.
pub trait Wire: Sized {
    /// Appends the value.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads the value back.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Decodes a whole buffer; bytes left over are an error.
    fn decode_all(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_within(bytes, MEMORY_BYTES_MAX)
    }

    /// Decodes bytes that this program has written itself, and whose checksum matches. Such a value
    /// may take the memory that it took when it was written, without the limit for messages.
    fn decode_kept(bytes: &[u8]) -> Result<Self, DecodeError> {
        let memory = bytes.len().saturating_mul(KEPT_EXPANSION_MAX);
        Self::decode_within(bytes, memory.max(MEMORY_BYTES_MAX))
    }

    /// Decodes all of `bytes`, whose lists and nested values may take up to `memory` bytes.
    fn decode_within(bytes: &[u8], memory: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::with_memory(bytes, memory);
        let value = Self::decode(&mut reader)?;
        match reader.remaining() {
            0 => Ok(value),
            count => Err(DecodeError::TrailingBytes(count)),
        }
    }

    /// Returns the value as a new buffer.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// Implements [`Wire`] for a struct, field by field in the order named.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::codec::Wire for $name {
            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                // A struct without fields leaves the parameter unused.
                let _ = &out;
                $($crate::codec::Wire::encode(&self.$field, out);)*
            }
            fn decode(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                // As in `encode`.
                let _ = &reader;
                Ok($name { $($field: $crate::codec::Wire::decode(reader)?),* })
            }
        }
    };
}

/// Implements [`Wire`] for an enum: a tag byte, then the variant's fields in the order named.
macro_rules! wire_enum {
    ($name:ident { $($tag:literal => $variant:ident
        $(( $($item:ident),* ))? $({ $($field:ident),* $(,)? })?),* $(,)? }) => {
        impl $crate::codec::Wire for $name {
            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                match self {
                    $($name::$variant $(( $($item),* ))? $({ $($field),* })? => {
                        out.push($tag);
                        $($($crate::codec::Wire::encode($item, out);)*)?
                        $($($crate::codec::Wire::encode($field, out);)*)?
                    })*
                }
            }
            fn decode(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                match <u8 as $crate::codec::Wire>::decode(reader)? {
                    $($tag => {
                        $($(let $item = $crate::codec::Wire::decode(reader)?;)*)?
                        $($(let $field = $crate::codec::Wire::decode(reader)?;)*)?
                        Ok($name::$variant $(( $($item),* ))? $({ $($field),* })?)
                    })*
                    _ => Err($crate::codec::DecodeError::Invalid(stringify!($name))),
                }
            }
        }
    };
}

/// Implements [`Wire`] for structs of one unnamed field: their bytes are those of the field.
macro_rules! wire_newtype {
    ($($type:ident),*) => {$(
        impl $crate::codec::Wire for $type {
            fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                $crate::codec::Wire::encode(&self.0, out);
            }
            fn decode(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                Ok($type($crate::codec::Wire::decode(reader)?))
            }
        }
    )*};
}

/// Implements [`Wire`] for numbers of a fixed size: their bytes, the lowest first.
macro_rules! wire_number {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let bytes = reader.take(size_of::<$type>())?;
                Ok(<$type>::from_le_bytes(bytes.try_into().expect("take gave that many bytes")))
            }
        }
    )*};
}

// An import of a macro stands behind its definition.
pub(crate) use wire_enum;
pub(crate) use wire_newtype;
pub(crate) use wire_struct;

wire_number!(u8, u16, u32, u64, i16, i32, i64, f32, f64);

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::decode(reader)?, B::decode(reader)?))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
        self.2.encode(out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::decode(reader)?, B::decode(reader)?, C::decode(reader)?))
    }
}

impl Wire for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::decode(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Invalid("bool")),
        }
    }
}

impl Wire for String {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.bytes()?;
        let text = core::str::from_utf8(bytes).map_err(|_| DecodeError::Invalid("UTF-8 text"))?;
        Ok(text.into())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::decode(reader)? {
            0 => Ok(None),
            1 => Ok(Some(T::decode(reader)?)),
            _ => Err(DecodeError::Invalid("option")),
        }
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Arc::new(T::decode(reader)?))
    }
}

impl<T: Wire> Wire for Box<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.claim::<T>(1)?;
        reader.nested(|reader| Ok(Box::new(T::decode(reader)?)))
    }
}

/// A byte string: its length as `u32`, then the bytes. It is a separate type because a list of `u8`
/// would be read byte by byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl core::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(bytes)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Bytes(bytes.into())
    }
}

impl Wire for Bytes {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(&self.0, out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Bytes(reader.bytes()?.into()))
    }
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("a frame is smaller than 4 GiB");
    length.encode(out);
    out.extend_from_slice(bytes);
}

impl<T: Wire> Wire for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.len()).expect("a frame is smaller than 4 GiB");
        count.encode(out);
        for item in self {
            item.encode(out);
        }
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u32::decode(reader)? as usize;
        // Every item takes a byte or more, so a count beyond the input cannot be true: it must not
        // reserve memory.
        if count > reader.remaining() {
            return Err(DecodeError::Truncated);
        }
        reader.claim::<T>(count)?;
        let mut items = Vec::with_capacity(count.min(ITEMS_RESERVED_MAX));
        for _ in 0..count {
            items.push(T::decode(reader)?);
        }
        Ok(items)
    }
}

/// Appends the number of a kind of value, and the value.
fn encode_tagged(tag: u8, value: &impl Wire, out: &mut Vec<u8>) {
    out.push(tag);
    value.encode(out);
}

impl Wire for Value {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0),
            Value::Bool(value) => encode_tagged(1, value, out),
            Value::Int64(value) => encode_tagged(2, value, out),
            Value::Float64(value) => encode_tagged(3, value, out),
            Value::Text(value) => encode_tagged(4, value, out),
            Value::Bytes(value) => {
                out.push(5);
                encode_bytes(value, out);
            }
            Value::Timestamp(value) => encode_tagged(6, value, out),
            Value::Uuid(value) => {
                out.push(7);
                out.extend_from_slice(value);
            }
            Value::Int16(value) => encode_tagged(8, value, out),
            Value::Int32(value) => encode_tagged(9, value, out),
            Value::Float32(value) => encode_tagged(10, value, out),
            Value::Date(value) => encode_tagged(11, value, out),
            Value::TimestampTz(value) => encode_tagged(12, value, out),
            Value::Numeric(value) => {
                out.push(13);
                encode_bytes(value.as_bytes(), out);
            }
            Value::Time(value) => encode_tagged(14, value, out),
            Value::Interval(value) => {
                encode_tagged(15, &value.months, out);
                value.days.encode(out);
                value.micros.encode(out);
            }
            Value::Json(value) => encode_tagged(16, value, out),
            Value::Jsonb(value) => encode_tagged(17, value, out),
            Value::Array(value) => {
                out.push(18);
                encode_bytes(value.as_bytes(), out);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::decode(reader)? {
            0 => Value::Null,
            1 => Value::Bool(Wire::decode(reader)?),
            2 => Value::Int64(Wire::decode(reader)?),
            3 => Value::Float64(Wire::decode(reader)?),
            4 => Value::Text(Wire::decode(reader)?),
            5 => Value::Bytes(reader.bytes()?.into()),
            6 => Value::Timestamp(Wire::decode(reader)?),
            7 => {
                let bytes = reader.take(16)?;
                Value::Uuid(bytes.try_into().expect("take gave 16 bytes"))
            }
            8 => Value::Int16(Wire::decode(reader)?),
            9 => Value::Int32(Wire::decode(reader)?),
            10 => Value::Float32(Wire::decode(reader)?),
            11 => Value::Date(Wire::decode(reader)?),
            12 => Value::TimestampTz(Wire::decode(reader)?),
            13 => match NumericRef::from_bytes(reader.bytes()?) {
                Some(value) => Value::Numeric(value.to_owned()),
                None => return Err(DecodeError::Invalid("numeric")),
            },
            14 => match i64::decode(reader)? {
                micros @ 0..=DAY_US => Value::Time(micros),
                _ => return Err(DecodeError::Invalid("time")),
            },
            15 => Value::Interval(Interval {
                months: Wire::decode(reader)?,
                days: Wire::decode(reader)?,
                micros: Wire::decode(reader)?,
            }),
            16 => Value::Json(json(reader, |it| check_json(it).is_ok())?),
            17 => Value::Jsonb(json(reader, stored_jsonb)?),
            18 => match ArrayRef::from_bytes(reader.bytes()?) {
                Some(value) => Value::Array(value.to_owned()),
                None => return Err(DecodeError::Invalid("array")),
            },
            _ => return Err(DecodeError::Invalid("value")),
        })
    }
}

fn json(
    reader: &mut Reader<'_>,
    is_valid: impl FnOnce(&str) -> bool,
) -> Result<String, DecodeError> {
    let text = String::decode(reader)?;
    match is_valid(&text) {
        true => Ok(text),
        false => Err(DecodeError::Invalid("JSON")),
    }
}
