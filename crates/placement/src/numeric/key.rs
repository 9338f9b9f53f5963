//! The bytes of a `numeric` in keys: equal numbers have equal bytes, and their order is that of the
//! numbers.
//!
//! | part | bytes |
//! |---|---|
//! | class | `00` `-Infinity`, `01` negative, `02` zero, `03` positive, `04` `Infinity`, `05` NaN |
//! | exponent | 3 bytes, big endian: 2^16 and the digits before the point, which can be negative |
//! | digits | one byte for two of them, plus 1; without zeros at either end of all |
//! | end | `00` |
//!
//! Only numbers other than zero have more than the class. Below zero, all bytes after the class are
//! inverted.

use alloc::format;
use alloc::string::String;

use super::decimal::Decimal;
use super::{Class, NUMERIC_SCALE_MAX, NUMERIC_WHOLE_DIGITS_MAX, Numeric, NumericRef};

const EXPONENT_BYTES: usize = 3;
const EXPONENT_BIAS: i64 = 1 << 16;
const END: u8 = 0;

impl NumericRef<'_> {
    /// Passes the bytes of the value in keys to `write`.
    pub(crate) fn write_key(self, mut write: impl FnMut(&[u8])) {
        let class = self.class();
        write(&[class as u8]);
        let number = match self.decimal() {
            Some(number) if !number.is_zero() => number,
            _ => return,
        };
        let mask = match number.is_negative() {
            true => 0xff,
            false => 0,
        };
        let digits = number.digits();
        let exponent = digits.len() as i64 - i64::from(number.scale) + EXPONENT_BIAS;
        let exponent = u32::try_from(exponent).expect("a scale is less than 2^16");
        for byte in &exponent.to_be_bytes()[4 - EXPONENT_BYTES..] {
            write(&[byte ^ mask]);
        }
        for pair in digits.trim_end_matches('0').as_bytes().chunks(2) {
            let value = |at: usize| pair.get(at).map_or(0, |digit| digit - b'0');
            write(&[(10 * value(0) + value(1) + 1) ^ mask]);
        }
        write(&[END ^ mask]);
    }
}

impl Numeric {
    /// Returns the value of bytes in a key, with as few digits after the point as it has, and
    /// removes the bytes.
    ///
    /// # Errors
    /// The bytes are none of [`NumericRef::write_key`]. Contains whether they are too few.
    pub(crate) fn read_key(rest: &mut &[u8]) -> Result<Numeric, bool> {
        let mut next = || match rest.split_first() {
            Some((byte, tail)) => {
                *rest = tail;
                Ok(*byte)
            }
            None => Err(true),
        };
        let is_negative = match next()? {
            byte if byte == Class::NegativeInfinity as u8 => return Ok(Numeric::infinity(true)),
            byte if byte == Class::Infinity as u8 => return Ok(Numeric::infinity(false)),
            byte if byte == Class::NaN as u8 => return Ok(Numeric::nan()),
            byte if byte == Class::Zero as u8 => return Ok(Numeric::from(0)),
            byte if byte == Class::Negative as u8 => true,
            byte if byte == Class::Positive as u8 => false,
            _ => return Err(false),
        };
        let mask = if is_negative { 0xff } else { 0 };
        let mut exponent = -EXPONENT_BIAS;
        let mut biased = 0;
        for _ in 0..EXPONENT_BYTES {
            biased = biased << 8 | i64::from(next()? ^ mask);
        }
        exponent += biased;
        let mut digits = String::new();
        loop {
            match next()? ^ mask {
                END => break,
                pair @ 1..=100 => digits.push_str(&format!("{:02}", pair - 1)),
                _ => return Err(false),
            }
        }
        // Two zeros at the end are no part of a key.
        let is_padded = digits.ends_with("00");
        let trimmed = digits.strip_suffix('0').unwrap_or(&digits);
        let scale = (trimmed.len() as i64 - exponent).max(0);
        let has_one_form = !trimmed.is_empty() && !trimmed.starts_with('0') && !is_padded;
        let has_room = exponent <= i64::from(NUMERIC_WHOLE_DIGITS_MAX)
            && scale <= i64::from(NUMERIC_SCALE_MAX);
        if !has_one_form || !has_room {
            return Err(false);
        }
        let zeros = usize::try_from(exponent - trimmed.len() as i64).unwrap_or(0);
        let zeros = "0".repeat(zeros);
        let scale = u32::try_from(scale).expect("it has an upper limit");
        let number = Decimal::from_digits(is_negative, &format!("{trimmed}{zeros}"), scale);
        number.and_then(|it| Numeric::of(&it).ok()).ok_or(false)
    }
}
