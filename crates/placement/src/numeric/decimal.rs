//! Whole numbers with a scale, of any size: the numbers of `numeric` while they are computed with.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};

use super::{NUMERIC_SCALE_MAX, NUMERIC_WHOLE_DIGITS_MAX};

/// `unscaled` divided by ten to the power of `scale`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    pub unscaled: BigInt,
    pub scale: u32,
}

/// How digits are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To the nearest number, halves away from zero.
    HalfAwayFromZero,
    /// Toward zero.
    Truncate,
}

impl Decimal {
    pub(super) fn from_integer(value: i128) -> Decimal {
        Decimal {
            unscaled: value.into(),
            scale: 0,
        }
    }

    pub(super) fn from_magnitude(is_negative: bool, magnitude: &[u8], scale: u32) -> Decimal {
        let sign = match is_negative {
            true => Sign::Minus,
            false => Sign::Plus,
        };
        Decimal {
            unscaled: BigInt::from_bytes_le(sign, magnitude),
            scale,
        }
    }

    /// Returns the number of decimal digits; none if the digits are none.
    pub(super) fn from_digits(is_negative: bool, digits: &str, scale: u32) -> Option<Decimal> {
        let magnitude = BigUint::parse_bytes(digits.as_bytes(), 10)?;
        let magnitude = BigInt::from(magnitude);
        Some(Decimal {
            unscaled: if is_negative { -magnitude } else { magnitude },
            scale,
        })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.unscaled.sign() == Sign::NoSign
    }

    pub(super) fn is_negative(&self) -> bool {
        self.unscaled.sign() == Sign::Minus
    }

    /// Returns whether the number is negative, and its magnitude, little endian and without zeros
    /// at its end.
    pub(super) fn magnitude_bytes(&self) -> (bool, Vec<u8>) {
        let mut magnitude = self.unscaled.magnitude().to_bytes_le();
        if self.is_zero() {
            magnitude.clear();
        }
        (self.is_negative(), magnitude)
    }

    /// Returns the digits of the magnitude, the first one not 0; none of zero.
    pub(super) fn digits(&self) -> String {
        match self.is_zero() {
            true => String::new(),
            false => self.unscaled.magnitude().to_str_radix(10),
        }
    }

    /// Returns how many digits [`Decimal::digits`] returns.
    pub(super) fn digit_count(&self) -> u32 {
        /// The logarithm of 2 to the base of 10, times ten to the power of 15.
        const LOG_2: u64 = 301_029_995_663_981;
        let magnitude = self.unscaled.magnitude();
        let bits = magnitude.bits();
        if bits == 0 {
            return 0;
        }
        // The magnitude is at least 2^(bits - 1), and less than twice that.
        let product = u128::from(bits - 1) * u128::from(LOG_2);
        let count = (product / 1_000_000_000_000_000) as u32 + 1;
        count + u32::from(*magnitude >= power_of_ten(count))
    }

    /// Returns whether a `numeric` can have so many digits.
    pub(super) fn is_in_range(&self) -> bool {
        /// So many bits are fewer digits than may stand before the point.
        const SMALL_BITS: u64 = 3 * NUMERIC_WHOLE_DIGITS_MAX as u64;
        let is_small = || self.unscaled.bits() <= SMALL_BITS;
        self.scale <= NUMERIC_SCALE_MAX
            && (is_small() || self.digit_count() <= NUMERIC_WHOLE_DIGITS_MAX + self.scale)
    }

    /// Returns the number with at least this scale.
    pub(super) fn widened(&self, scale: u32) -> Decimal {
        match scale.checked_sub(self.scale) {
            None | Some(0) => self.clone(),
            Some(more) => Decimal {
                unscaled: &self.unscaled * BigInt::from(power_of_ten(more)),
                scale,
            },
        }
    }

    /// Returns the number with this scale, which may be negative: the number is then a multiple of
    /// a power of ten, and has the scale 0.
    pub(super) fn rescaled(&self, scale: i32, rounding: Rounding) -> Decimal {
        let wanted = u32::try_from(scale).unwrap_or(0);
        let removed = i64::from(self.scale) - i64::from(scale);
        if removed <= 0 {
            return self.widened(wanted);
        }
        let removed = u32::try_from(removed).unwrap_or(u32::MAX);
        // A larger power would leave nothing, at the cost of computing it.
        if removed > self.digit_count() {
            return Decimal {
                unscaled: BigInt::ZERO,
                scale: wanted,
            };
        }
        let quotient = divided(&self.unscaled, &power_of_ten(removed).into(), rounding);
        let zeros = scale.min(0).unsigned_abs();
        Decimal {
            unscaled: quotient * BigInt::from(power_of_ten(zeros)),
            scale: wanted,
        }
    }

    /// Compares two numbers.
    pub(super) fn order(&self, other: &Decimal) -> Ordering {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.widened(scale), other.widened(scale));
        left.unscaled.cmp(&right.unscaled)
    }

    /// Returns the first group of four digits that is not zero, counted from the point, and how
    /// many groups before the first one after the point it is: PostgreSQL's first digit and weight.
    pub(super) fn first_group(&self) -> (u32, i64) {
        let count = self.digit_count();
        if count == 0 {
            return (0, 0);
        }
        let exponent = i64::from(count) - 1 - i64::from(self.scale);
        let digits = exponent.rem_euclid(4) as u32 + 1;
        let magnitude = self.unscaled.magnitude();
        let group = match digits.checked_sub(count) {
            Some(more) => magnitude * power_of_ten(more),
            None => magnitude / power_of_ten(count - digits),
        };
        let group = u32::try_from(&group).expect("it has at most four digits");
        (group, exponent.div_euclid(4))
    }
}

/// Returns a quotient. The divisor is not zero.
pub(super) fn divided(dividend: &BigInt, divisor: &BigInt, rounding: Rounding) -> BigInt {
    match rounding {
        Rounding::Truncate => dividend / divisor,
        Rounding::HalfAwayFromZero => {
            let half = BigInt::from(divisor.magnitude().clone());
            let twice = match dividend.sign() {
                Sign::Minus => dividend * 2 - half,
                _ => dividend * 2 + half,
            };
            twice / (divisor * 2)
        }
    }
}

pub(super) fn power_of_ten(exponent: u32) -> BigUint {
    BigUint::from(10_u32).pow(exponent)
}
