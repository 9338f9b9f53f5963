//! Decimal numbers of any size with PostgreSQL's scales: the values of `numeric`.
//!
//! A number is a whole number and a *scale*, the count of its digits after the point: `1.50` is
//! 150 with scale 2. The scale is shown and stored, but does not count in comparisons: `1.5` equals
//! `1.50`. NaN equals itself and is larger than every other value, as in PostgreSQL.
//!
//! | part of the stored form | bytes |
//! |---|---|
//! | header | u16, little endian: bits 0–13 the scale, bits 14–15 the kind |
//! | magnitude | the whole number without its sign, little endian, without zeros at its end |
//!
//! Kind 0 is a number from 0 on, 1 a negative one, and 2 no number: its scale is 0 for NaN, 1 for
//! `Infinity`, 2 for `-Infinity`, and it has no magnitude. Each value with its scale has one form.
//!
//! `decimal` has the whole numbers with their scales, `arithmetic` the operations, `text` what is
//! read and printed, `key` the form that sorts. This module must not know of columns and types.

mod arithmetic;
mod decimal;
mod key;
#[cfg(test)]
mod tests;
mod text;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use decimal::Decimal;

/// The most digits after the point.
pub const NUMERIC_SCALE_MAX: u32 = 16_383;
/// The most digits before the point.
pub const NUMERIC_WHOLE_DIGITS_MAX: u32 = 131_072;
/// The most digits that a column type can declare, and the largest scale.
pub const NUMERIC_PRECISION_MAX: u16 = 1000;

const HEADER_BYTES: usize = 2;
const SCALE_MASK: u16 = (1 << 14) - 1;
const KIND_SHIFT: u16 = 14;
const KIND_POSITIVE: u16 = 0;
const KIND_NEGATIVE: u16 = 1;
const KIND_SPECIAL: u16 = 2;
/// The headers of the values that are no numbers.
const NAN: [u8; 2] = (KIND_SPECIAL << KIND_SHIFT).to_le_bytes();
const INFINITY: [u8; 2] = (KIND_SPECIAL << KIND_SHIFT | 1).to_le_bytes();
const NEGATIVE_INFINITY: [u8; 2] = (KIND_SPECIAL << KIND_SHIFT | 2).to_le_bytes();

/// A `numeric` that owns its bytes. It compares by its number; see the module's header.
#[derive(Clone)]
pub struct Numeric(Box<[u8]>);

/// A `numeric` that borrows its bytes, which are in the stored form.
#[derive(Clone, Copy)]
pub struct NumericRef<'a>(&'a [u8]);

/// Why there is no such `numeric`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumericError {
    /// A text is no number.
    Syntax,
    /// More than [`NUMERIC_WHOLE_DIGITS_MAX`] digits before the point, or more than
    /// [`NUMERIC_SCALE_MAX`] after it.
    Overflow,
    /// Division by zero.
    DivisionByZero,
    /// NaN or an infinity where only numbers are possible.
    NotFinite,
}

/// The classes of values, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    NegativeInfinity,
    Negative,
    Zero,
    Positive,
    Infinity,
    NaN,
}

impl Numeric {
    /// Returns NaN.
    pub fn nan() -> Numeric {
        Numeric(NAN.into())
    }

    /// Returns an infinity.
    pub fn infinity(is_negative: bool) -> Numeric {
        Numeric(match is_negative {
            true => NEGATIVE_INFINITY.into(),
            false => INFINITY.into(),
        })
    }

    /// Returns the value of an integer of 128 bits, such as a sum.
    pub fn from_wide(value: i128) -> Numeric {
        Numeric::of(&Decimal::from_integer(value)).expect("forty digits are in range")
    }

    /// Returns a borrowed form of the value.
    pub fn as_ref(&self) -> NumericRef<'_> {
        NumericRef(&self.0)
    }

    /// Returns the stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the stored form of a number.
    ///
    /// # Errors
    /// It has too many digits.
    fn of(decimal: &Decimal) -> Result<Numeric, NumericError> {
        if !decimal.is_in_range() {
            return Err(NumericError::Overflow);
        }
        let (is_negative, magnitude) = decimal.magnitude_bytes();
        let kind = match is_negative {
            true => KIND_NEGATIVE,
            false => KIND_POSITIVE,
        };
        let scale = u16::try_from(decimal.scale).expect("it is in range");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + magnitude.len());
        bytes.extend_from_slice(&(scale | kind << KIND_SHIFT).to_le_bytes());
        bytes.extend_from_slice(&magnitude);
        Ok(Numeric(bytes.into_boxed_slice()))
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric::from_wide(value.into())
    }
}

impl<'a> NumericRef<'a> {
    /// Returns the value with these bytes, if they are the stored form of one.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<NumericRef<'a>> {
        let (header, magnitude) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let header = u16::from_le_bytes(*header);
        let has_one_form = match header >> KIND_SHIFT {
            KIND_POSITIVE => magnitude.last() != Some(&0),
            KIND_NEGATIVE => magnitude.last().is_some_and(|last| *last != 0),
            KIND_SPECIAL => magnitude.is_empty() && header & SCALE_MASK <= 2,
            _ => false,
        };
        let value = NumericRef(bytes);
        // Two digits and a bit are one byte, so only long numbers are counted.
        let is_short = 3 * magnitude.len() <= NUMERIC_WHOLE_DIGITS_MAX as usize;
        let is_in_range = || is_short || value.decimal().is_none_or(|it| it.is_in_range());
        (has_one_form && is_in_range()).then_some(value)
    }

    /// Returns bytes that [`NumericRef::from_bytes`] accepted before. Others make the value wrong.
    pub(crate) fn checked_before(bytes: &'a [u8]) -> NumericRef<'a> {
        NumericRef(bytes)
    }

    /// Returns the stored form.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns an owned form of the value.
    #[allow(
        clippy::wrong_self_convention,
        reason = "the type is Copy, and the name is that of ToOwned, which Clone types cannot implement"
    )]
    pub fn to_owned(self) -> Numeric {
        Numeric(self.0.into())
    }

    /// Returns the digits after the point that the number has and shows; none if it is no number.
    pub fn scale(self) -> Option<u32> {
        self.is_finite().then(|| self.shown_scale())
    }

    /// Returns whether this is a number: neither NaN nor an infinity.
    pub fn is_finite(self) -> bool {
        self.header() >> KIND_SHIFT != KIND_SPECIAL
    }

    /// Returns whether this is NaN.
    pub fn is_nan(self) -> bool {
        self.0 == NAN
    }

    /// Returns -1, 0 or 1 for negative values, zero and positive values; none for NaN.
    pub fn signum(self) -> Option<i64> {
        match self.class() {
            Class::NaN => None,
            Class::Zero => Some(0),
            Class::Negative | Class::NegativeInfinity => Some(-1),
            Class::Positive | Class::Infinity => Some(1),
        }
    }

    /// Returns about how many bytes the digits of the number take, for estimates of the work with
    /// it. Two digits are one byte.
    pub fn size(self) -> usize {
        self.0.len() + self.shown_scale() as usize / 2
    }

    fn header(self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]])
    }

    fn shown_scale(self) -> u32 {
        u32::from(self.header() & SCALE_MASK)
    }

    fn magnitude(self) -> &'a [u8] {
        &self.0[HEADER_BYTES..]
    }

    fn class(self) -> Class {
        match (self.header() >> KIND_SHIFT, self.header() & SCALE_MASK) {
            (KIND_POSITIVE, _) if self.magnitude().is_empty() => Class::Zero,
            (KIND_POSITIVE, _) => Class::Positive,
            (KIND_NEGATIVE, _) => Class::Negative,
            (_, 0) => Class::NaN,
            (_, 1) => Class::Infinity,
            (_, _) => Class::NegativeInfinity,
        }
    }

    /// Returns the number; none if this is none.
    fn decimal(self) -> Option<Decimal> {
        let is_negative = match self.header() >> KIND_SHIFT {
            KIND_POSITIVE => false,
            KIND_NEGATIVE => true,
            _ => return None,
        };
        let scale = self.shown_scale();
        Some(Decimal::from_magnitude(
            is_negative,
            self.magnitude(),
            scale,
        ))
    }

    /// Compares the magnitudes of two numbers.
    fn magnitude_order(self, other: NumericRef<'_>) -> Ordering {
        let (scale, other_scale) = (self.shown_scale(), other.shown_scale());
        if let (Some(left), Some(right)) = (small(self.magnitude()), small(other.magnitude())) {
            let scaled = |value: u128, by: u32| value.checked_mul(10_u128.checked_pow(by)?);
            let left = scaled(left, other_scale.saturating_sub(scale));
            let right = scaled(right, scale.saturating_sub(other_scale));
            if let (Some(left), Some(right)) = (left, right) {
                return left.cmp(&right);
            }
        }
        let magnitude =
            |it: NumericRef<'_>| Decimal::from_magnitude(false, it.magnitude(), it.shown_scale());
        magnitude(self).order(&magnitude(other))
    }
}

/// Returns a magnitude of at most 16 bytes as a number.
fn small(magnitude: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes.get_mut(..magnitude.len())?.copy_from_slice(magnitude);
    Some(u128::from_le_bytes(bytes))
}

impl Ord for NumericRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (class, other_class) = (self.class(), other.class());
        class.cmp(&other_class).then_with(|| match class {
            Class::Positive => self.magnitude_order(*other),
            Class::Negative => other.magnitude_order(*self),
            _ => Ordering::Equal,
        })
    }
}

impl Hash for NumericRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal numbers of different scales have one key.
        let mut key = Vec::new();
        self.write_key(|bytes| key.extend_from_slice(bytes));
        key.hash(state);
    }
}

impl PartialOrd for NumericRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NumericRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for NumericRef<'_> {}

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for NumericRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NumericError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumericError::Syntax => write!(f, "the text is no number"),
            NumericError::Overflow => write!(
                f,
                "value overflows numeric format: at most {NUMERIC_WHOLE_DIGITS_MAX} digits before \
                 the point and {NUMERIC_SCALE_MAX} after it are possible"
            ),
            NumericError::DivisionByZero => write!(f, "division by zero"),
            NumericError::NotFinite => write!(f, "NaN and infinities are no whole numbers"),
        }
    }
}

impl core::error::Error for NumericError {}
