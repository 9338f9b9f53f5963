//! Arithmetic of `numeric` with the results and the scales of PostgreSQL.
//!
//! The sums of [`NumericRef::plus`] are exact, whatever the order of the numbers is, so that an
//! aggregate can use it, and [`NumericRef::divided_by`] for a mean.

use alloc::format;
use alloc::string::String;

use num_bigint::BigInt;

use super::decimal::{Decimal, Rounding, divided, power_of_ten};
use super::{
    Class, NUMERIC_PRECISION_MAX, NUMERIC_SCALE_MAX, NUMERIC_WHOLE_DIGITS_MAX, Numeric,
    NumericError, NumericRef,
};

/// The fewest significant digits of a quotient.
const SIGNIFICANT_DIGITS_MIN: i64 = 16;

impl NumericRef<'_> {
    /// Returns the exact sum. It has the larger one of both scales.
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn plus(self, other: NumericRef<'_>) -> Result<Numeric, NumericError> {
        let (Some(left), Some(right)) = (self.decimal(), other.decimal()) else {
            let is_nan = self.is_nan() || other.is_nan();
            return Ok(match (self.is_finite(), other.is_finite()) {
                _ if is_nan => Numeric::nan(),
                (false, false) if self != other => Numeric::nan(),
                (false, _) => self.to_owned(),
                (true, _) => other.to_owned(),
            });
        };
        let scale = left.scale.max(right.scale);
        Numeric::of(&Decimal {
            unscaled: left.widened(scale).unscaled + right.widened(scale).unscaled,
            scale,
        })
    }

    /// Returns the exact difference. It has the larger one of both scales.
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn minus(self, other: NumericRef<'_>) -> Result<Numeric, NumericError> {
        self.plus(other.negate().as_ref())
    }

    /// Returns the product, which is exact unless its digits after the point are more than a number
    /// can have.
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn times(self, other: NumericRef<'_>) -> Result<Numeric, NumericError> {
        let (Some(left), Some(right)) = (self.decimal(), other.decimal()) else {
            let sign = self.signum().zip(other.signum());
            return Ok(match sign.map(|(left, right)| left * right) {
                None | Some(0) => Numeric::nan(),
                Some(sign) => Numeric::infinity(sign < 0),
            });
        };
        let product = Decimal {
            unscaled: left.unscaled * right.unscaled,
            scale: left.scale + right.scale,
        };
        let scale = product.scale.min(NUMERIC_SCALE_MAX).cast_signed();
        Numeric::of(&product.rescaled(scale, Rounding::HalfAwayFromZero))
    }

    /// Returns the quotient, rounded to the scale that PostgreSQL gives it: at least 16 significant
    /// digits, and no scale below that of an operand.
    ///
    /// # Errors
    /// The divisor is zero, or the result has too many digits.
    pub fn divided_by(self, other: NumericRef<'_>) -> Result<Numeric, NumericError> {
        let Some((left, right)) = self.operands_of_division(other)? else {
            return Ok(self.quotient_of_special(other));
        };
        let scale = quotient_scale(&left, &right);
        // Both as whole numbers, of which the quotient has the wanted scale.
        let more = i64::from(scale) + i64::from(right.scale) - i64::from(left.scale);
        let power = BigInt::from(power_of_ten(more.unsigned_abs() as u32));
        let (dividend, divisor) = match more >= 0 {
            true => (left.unscaled * power, right.unscaled),
            false => (left.unscaled, right.unscaled * power),
        };
        Numeric::of(&Decimal {
            unscaled: divided(&dividend, &divisor, Rounding::HalfAwayFromZero),
            scale,
        })
    }

    /// Returns the square root, rounded to the scale that PostgreSQL gives it: at least 16
    /// significant digits, and no scale below that of the number. There is none of a number below
    /// 0.
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn square_root(self) -> Option<Result<Numeric, NumericError>> {
        if self.signum().is_some_and(|sign| sign < 0) {
            return None;
        }
        let Some(number) = self.decimal() else {
            return Some(Ok(self.to_owned()));
        };
        let (_, groups) = number.first_group();
        // The digits of the root before the point, estimated by its groups.
        let whole = match groups >= 0 {
            true => (groups + 1) * 2 - 1,
            false => 1 - (1 - 4 * groups) / 2,
        };
        let scale = (SIGNIFICANT_DIGITS_MIN - whole).max(number.scale.into());
        let scale = scale.clamp(0, NUMERIC_PRECISION_MAX.into());
        let scale = u32::try_from(scale).expect("it is clamped");
        // With one digit more than the root has, which decides how it is rounded: no root of a
        // fraction ends in a half.
        let wide = number.rescaled(2 * (scale as i32 + 1), Rounding::Truncate);
        let root = Decimal {
            unscaled: wide.unscaled.sqrt(),
            scale: scale + 1,
        };
        let rounded = root.rescaled(scale as i32, Rounding::HalfAwayFromZero);
        Some(Numeric::of(&rounded))
    }

    /// Returns the quotient without its fraction.
    ///
    /// # Errors
    /// The divisor is zero, or the result has too many digits.
    pub fn divide_whole(self, other: NumericRef<'_>) -> Result<Numeric, NumericError> {
        let Some((left, right)) = self.operands_of_division(other)? else {
            return Ok(self.quotient_of_special(other));
        };
        let scale = left.scale.max(right.scale);
        let (left, right) = (left.widened(scale), right.widened(scale));
        Numeric::of(&Decimal {
            unscaled: divided(&left.unscaled, &right.unscaled, Rounding::Truncate),
            scale: 0,
        })
    }

    /// Returns the remainder of the division without a fraction. It has the sign of the dividend.
    ///
    /// # Errors
    /// The divisor is zero, or the result has too many digits.
    pub fn remainder(self, other: NumericRef<'_>) -> Result<Numeric, NumericError> {
        let Some((left, right)) = self.operands_of_division(other)? else {
            return Ok(match self.is_finite() && !other.is_nan() {
                true => self.to_owned(),
                false => Numeric::nan(),
            });
        };
        let scale = left.scale.max(right.scale);
        Numeric::of(&Decimal {
            unscaled: left.widened(scale).unscaled % right.widened(scale).unscaled,
            scale,
        })
    }

    /// Returns both numbers of a division; none if an operand is no number.
    fn operands_of_division(
        self,
        other: NumericRef<'_>,
    ) -> Result<Option<(Decimal, Decimal)>, NumericError> {
        if other.class() == Class::Zero && !self.is_nan() {
            return Err(NumericError::DivisionByZero);
        }
        Ok(self.decimal().zip(other.decimal()))
    }

    /// Returns the quotient of two values of which one is no number.
    fn quotient_of_special(self, other: NumericRef<'_>) -> Numeric {
        let (Some(sign), Some(other_sign)) = (self.signum(), other.signum()) else {
            return Numeric::nan();
        };
        match (self.is_finite(), other.is_finite()) {
            (true, _) => Numeric::from(0),
            (false, true) => Numeric::infinity(sign * other_sign < 0),
            (false, false) => Numeric::nan(),
        }
    }

    /// Returns the value with the other sign.
    pub fn negate(self) -> Numeric {
        match self.class() {
            Class::NaN | Class::Zero => self.to_owned(),
            Class::Infinity => Numeric::infinity(true),
            Class::NegativeInfinity => Numeric::infinity(false),
            Class::Positive | Class::Negative => {
                let mut bytes = self.to_owned().0;
                // The lowest bit of the kind is the sign.
                bytes[1] ^= 1 << 6;
                Numeric(bytes)
            }
        }
    }

    /// Returns the value without its sign.
    pub fn abs(self) -> Numeric {
        match self.signum() {
            Some(-1) => self.negate(),
            _ => self.to_owned(),
        }
    }

    /// Returns -1, 0 or 1, or NaN.
    pub fn sign(self) -> Numeric {
        self.signum().map_or_else(Numeric::nan, Numeric::from)
    }

    /// Returns the number rounded to so many digits after the point, halves away from zero. A
    /// negative count rounds digits before the point. The result has as many digits after it.
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn round(self, digits: i32) -> Result<Numeric, NumericError> {
        self.rescaled(digits, Rounding::HalfAwayFromZero)
    }

    /// Returns the number without its digits beyond so many after the point; see
    /// [`NumericRef::round`].
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn truncate(self, digits: i32) -> Result<Numeric, NumericError> {
        self.rescaled(digits, Rounding::Truncate)
    }

    fn rescaled(self, digits: i32, rounding: Rounding) -> Result<Numeric, NumericError> {
        // Beyond these nothing is left, or nothing is rounded.
        let digits_min = -NUMERIC_WHOLE_DIGITS_MAX.cast_signed() - 1;
        let digits = digits.clamp(digits_min, NUMERIC_SCALE_MAX.cast_signed());
        match self.decimal() {
            None => Ok(self.to_owned()),
            Some(number) => Numeric::of(&number.rescaled(digits, rounding)),
        }
    }

    /// Returns the next whole number that is not larger.
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn floor(self) -> Result<Numeric, NumericError> {
        self.whole(true)
    }

    /// Returns the next whole number that is not smaller.
    ///
    /// # Errors
    /// The result has too many digits.
    pub fn ceil(self) -> Result<Numeric, NumericError> {
        self.whole(false)
    }

    fn whole(self, is_floor: bool) -> Result<Numeric, NumericError> {
        let whole = self.truncate(0)?;
        let step = match whole.as_ref().cmp(&self) {
            core::cmp::Ordering::Greater if is_floor => -1,
            core::cmp::Ordering::Less if !is_floor => 1,
            _ => return Ok(whole),
        };
        whole.as_ref().plus(Numeric::from(step).as_ref())
    }

    /// Returns the number without zeros at the end of its fraction.
    pub fn trim_scale(self) -> Numeric {
        let Some(scale) = self.scale_min() else {
            return self.to_owned();
        };
        let number = self.decimal().expect("only numbers have a scale");
        let trimmed = number.rescaled(scale.cast_signed(), Rounding::Truncate);
        Numeric::of(&trimmed).expect("fewer digits are in range")
    }

    /// Returns the digits after the point without zeros at their end; none if this is no number.
    pub fn scale_min(self) -> Option<u32> {
        let number = self.decimal()?;
        let digits = number.digits();
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let zeros = u32::try_from(zeros).unwrap_or(u32::MAX);
        Some(match number.is_zero() {
            true => 0,
            false => number.scale.saturating_sub(zeros),
        })
    }

    /// Returns the number as a column of so many digits stores it: rounded to the scale, halves
    /// away from zero. A negative scale makes it a multiple of a power of ten. Returns none if it
    /// has more digits then, or is infinite.
    pub fn limited(self, precision: u16, scale: i16) -> Option<Numeric> {
        let Some(number) = self.decimal() else {
            return self.is_nan().then(Numeric::nan);
        };
        let number = number.rescaled(scale.into(), Rounding::HalfAwayFromZero);
        let digits_max = i32::from(precision) - i32::from(scale.min(0));
        let fits = number.digit_count() <= digits_max.unsigned_abs();
        fits.then(|| Numeric::of(&number).ok()).flatten()
    }

    /// Returns whether a column of so many digits can store the number as it is.
    pub fn is_limited(self, precision: u16, scale: i16) -> bool {
        if self.is_nan() {
            return true;
        }
        let shown = self.scale().map(u32::cast_signed);
        // A byte is at most two and a half digits. Beyond that they are counted.
        let has_few_bytes =
            || scale >= 0 && 5 * self.magnitude().len() <= 2 * usize::from(precision);
        shown == Some(i32::from(scale.max(0)))
            && (has_few_bytes()
                || self
                    .limited(precision, scale)
                    .is_some_and(|it| it.as_bytes() == self.as_bytes()))
    }

    /// Returns the number rounded to an integer, halves away from zero; none if it exceeds 64 bits.
    ///
    /// # Errors
    /// This is no number.
    pub fn to_integer(self) -> Result<Option<i64>, NumericError> {
        let number = self.decimal().ok_or(NumericError::NotFinite)?;
        let rounded = number.rescaled(0, Rounding::HalfAwayFromZero);
        Ok(i64::try_from(&rounded.unscaled).ok())
    }

    /// Returns the nearest double; none if it is beyond the range of doubles, or so small that it
    /// would be zero.
    pub fn to_double(self) -> Option<f64> {
        match self.decimal() {
            None => Some(self.special_double()),
            Some(number) => {
                let nearest: f64 = exponential(&number).parse().ok()?;
                let is_lost = nearest.is_infinite() || nearest == 0.0 && !number.is_zero();
                (!is_lost).then_some(nearest)
            }
        }
    }

    /// Returns the nearest float of 32 bits; see [`NumericRef::to_double`].
    pub fn to_single(self) -> Option<f32> {
        match self.decimal() {
            None => Some(self.special_double() as f32),
            Some(number) => {
                let nearest: f32 = exponential(&number).parse().ok()?;
                let is_lost = nearest.is_infinite() || nearest == 0.0 && !number.is_zero();
                (!is_lost).then_some(nearest)
            }
        }
    }

    fn special_double(self) -> f64 {
        match self.class() {
            Class::Infinity => f64::INFINITY,
            Class::NegativeInfinity => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }
}

/// Returns the text of a number as `150e-2`.
fn exponential(number: &Decimal) -> String {
    let sign = if number.is_negative() { "-" } else { "" };
    format!("{sign}0{}e-{}", number.digits(), number.scale)
}

/// Returns the scale of a quotient, as PostgreSQL selects it.
fn quotient_scale(dividend: &Decimal, divisor: &Decimal) -> u32 {
    let (first, weight) = dividend.first_group();
    let (divisor_first, divisor_weight) = divisor.first_group();
    // The groups of the quotient before the point, estimated by the first group of each.
    let groups = weight - divisor_weight - i64::from(first <= divisor_first);
    let scales = dividend.scale.max(divisor.scale);
    let scale = (SIGNIFICANT_DIGITS_MIN - 4 * groups).max(scales.into());
    u32::try_from(scale.min(NUMERIC_PRECISION_MAX.into())).expect("a scale is not negative")
}
