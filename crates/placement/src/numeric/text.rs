//! Reads and prints `numeric`, as PostgreSQL does: all digits, without an exponent.

use alloc::format;
use core::fmt;

use super::decimal::Decimal;
use super::{
    Class, NUMERIC_SCALE_MAX, NUMERIC_WHOLE_DIGITS_MAX, Numeric, NumericError, NumericRef,
};

/// The significant digits of a double that become a `numeric`, and of a float of 32 bits.
const DOUBLE_DIGITS: usize = 15;
const SINGLE_DIGITS: usize = 6;

impl Numeric {
    /// Returns the value of a text such as `-1.50e3`, `NaN` or `-Infinity`. Spaces around it are
    /// ignored.
    ///
    /// # Errors
    /// The text is no number, or has too many digits.
    pub fn parse(text: &str) -> Result<Numeric, NumericError> {
        let text = text.trim_matches(is_space);
        let (is_negative, unsigned) = match text.strip_prefix(['+', '-']) {
            Some(unsigned) => (text.starts_with('-'), unsigned),
            None => (false, text),
        };
        let is = |word: &str| unsigned.eq_ignore_ascii_case(word);
        if text.eq_ignore_ascii_case("nan") {
            return Ok(Numeric::nan());
        }
        if is("infinity") || is("inf") {
            return Ok(Numeric::infinity(is_negative));
        }
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, exponent(power)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return Err(NumericError::Syntax);
        }
        let scale = fraction.len() as i64 - power;
        let whole = whole.trim_start_matches('0');
        let digits = match whole {
            "" => fraction.trim_start_matches('0').into(),
            whole => format!("{whole}{fraction}"),
        };
        // Before the digits are converted: an exponent of a few digits stands for any number.
        let whole_digits = digits.len() as i64 - scale;
        let has_room = scale <= i64::from(NUMERIC_SCALE_MAX)
            && (digits.is_empty() || whole_digits <= i64::from(NUMERIC_WHOLE_DIGITS_MAX));
        if !has_room {
            return Err(NumericError::Overflow);
        }
        let shown_scale = u32::try_from(scale.max(0)).expect("it has an upper limit");
        let zeros = usize::try_from((-scale).max(0)).unwrap_or(0);
        let number = match digits.is_empty() {
            true => Decimal::from_digits(false, "0", shown_scale),
            false => {
                let zeros = "0".repeat(zeros);
                Decimal::from_digits(is_negative, &format!("{digits}{zeros}"), shown_scale)
            }
        };
        Numeric::of(&number.ok_or(NumericError::Syntax)?)
    }

    /// Returns the value of a double, with the 15 digits that it surely has.
    pub fn from_double(value: f64) -> Numeric {
        of_float(value, DOUBLE_DIGITS)
    }

    /// Returns the value of a float of 32 bits, with the 6 digits that it surely has.
    pub fn from_single(value: f32) -> Numeric {
        of_float(value.into(), SINGLE_DIGITS)
    }
}

/// Returns the power of ten after an `e`.
fn exponent(text: &str) -> Result<i64, NumericError> {
    // PostgreSQL reads it with a function of C, which skips spaces.
    let text = text.trim_start_matches(is_space);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(NumericError::Syntax);
    }
    let power: Option<i64> = text.parse().ok();
    let power = power.filter(|it| it.unsigned_abs() < u64::from(u32::MAX / 4));
    power.ok_or(NumericError::Overflow)
}

fn of_float(value: f64, digits: usize) -> Numeric {
    if value.is_nan() {
        return Numeric::nan();
    }
    if value.is_infinite() {
        return Numeric::infinity(value < 0.0);
    }
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    Numeric::parse(&format!("{mantissa}e{power}")).expect("the digits of a double are in range")
}

/// Returns whether a character is a space in C.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

impl fmt::Display for NumericRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match self.class() {
            Class::NaN => return f.write_str("NaN"),
            Class::Infinity => return f.write_str("Infinity"),
            Class::NegativeInfinity => return f.write_str("-Infinity"),
            _ => self.decimal().expect("other values are numbers"),
        };
        let scale = number.scale as usize;
        // One digit at least stands before the point.
        let digits = format!("{:0>width$}", number.digits(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if number.is_negative() { "-" } else { "" };
        match fraction {
            "" => write!(f, "{sign}{whole}"),
            fraction => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
