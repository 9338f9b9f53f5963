//! Exact decimal numbers. PostgreSQL compares `id = 1.5` and rounds `2.5` as decimal numbers, of
//! which a double would keep 15 digits only.

use std::cmp::Ordering;

/// The most digits that [`Decimal::to_plain`] writes.
const PLAIN_DIGITS_MAX: i64 = 1000;

/// A decimal number: `0.DIGITS` times ten to the power of `exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Without zeros at either end; empty is zero.
    digits: Vec<u8>,
    exponent: i64,
    /// How many digits stand after the point as it is written; never negative.
    scale: i64,
}

/// The position of a decimal number among the 64-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is below all of them.
    Below,
    /// It equals this one.
    At(i64),
    /// It lies between this one and the next one.
    After(i64),
    /// It is above all of them.
    Above,
}

impl Decimal {
    /// Parses a number such as `-1.50e3`; returns none if the text is not one.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, text),
        };
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let written: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if written.is_empty() || !written.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let scale = (fraction.len() as i64 - i64::from(power)).max(0);
        let zeros = written.iter().take_while(|digit| **digit == b'0').count();
        let mut digits: Vec<u8> = written[zeros..].iter().map(|digit| digit - b'0').collect();
        let exponent = digits.len() as i64 - fraction.len() as i64 + i64::from(power);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let is_zero = digits.is_empty();
        Some(Decimal {
            negative: negative && !is_zero,
            exponent: if is_zero { 0 } else { exponent },
            digits,
            scale,
        })
    }

    /// Returns the number's position among the 64-bit integers.
    pub fn place(&self) -> Place {
        let outside = match self.negative {
            true => Place::Below,
            false => Place::Above,
        };
        // No integer of 64 bits has twenty digits.
        if self.exponent > 19 {
            return outside;
        }
        let whole = self.exponent.max(0) as usize;
        let digit = |at: usize| i128::from(self.digits.get(at).copied().unwrap_or(0));
        let magnitude = (0..whole).fold(0, |sum, at| 10 * sum + digit(at));
        let exact = self.digits.len() <= whole;
        let floor = match (self.negative, exact) {
            (false, _) => magnitude,
            (true, true) => -magnitude,
            (true, false) => -magnitude - 1,
        };
        match i64::try_from(floor) {
            Ok(floor) if exact => Place::At(floor),
            Ok(i64::MAX) => Place::Above,
            Ok(floor) => Place::After(floor),
            Err(_) => outside,
        }
    }

    /// Returns the nearest integer, rounding halves away from zero; none if it exceeds 64 bits.
    pub fn rounded(&self) -> Option<i64> {
        if self.exponent > 19 {
            return None;
        }
        let whole = self.exponent.max(0) as usize;
        let digit = |at: usize| i128::from(self.digits.get(at).copied().unwrap_or(0));
        let magnitude = (0..whole).fold(0, |sum, at| 10 * sum + digit(at));
        let first_behind = match self.exponent {
            0.. => digit(whole),
            // Zeros stand between the point and the first digit.
            _ => 0,
        };
        let magnitude = magnitude + i128::from(first_behind >= 5);
        let value = if self.negative { -magnitude } else { magnitude };
        i64::try_from(value).ok()
    }

    /// Returns all digits of the number without an exponent, as PostgreSQL prints it; none if there
    /// are too many digits.
    pub fn to_plain(&self) -> Option<String> {
        if self.exponent.max(1) + self.scale > PLAIN_DIGITS_MAX {
            return None;
        }
        let digit = |at: i64| {
            let at = usize::try_from(at).ok();
            let digit = at.and_then(|at| self.digits.get(at)).copied();
            char::from(b'0' + digit.unwrap_or(0))
        };
        let mut text = String::new();
        if self.negative {
            text.push('-');
        }
        match self.exponent {
            1.. => text.extend((0..self.exponent).map(digit)),
            _ => text.push('0'),
        }
        if self.scale > 0 {
            text.push('.');
            text.extend((self.exponent..self.exponent + self.scale).map(digit));
        }
        Some(text)
    }

    fn magnitude_cmp(&self, other: &Decimal) -> Ordering {
        let zero = self.digits.is_empty().cmp(&other.digits.is_empty());
        let exponents = self.exponent.cmp(&other.exponent);
        zero.reverse()
            .then(exponents)
            .then_with(|| self.digits.cmp(&other.digits))
    }
}

impl Decimal {
    /// Compares two numbers by value, independent of their spelling.
    pub fn compare(&self, other: &Decimal) -> Ordering {
        match (self.negative, other.negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.magnitude_cmp(other),
            (true, true) => other.magnitude_cmp(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn places_among_the_integers() {
        for (text, place) in [
            ("0", Place::At(0)),
            ("-0.0", Place::At(0)),
            ("1.5", Place::After(1)),
            ("-1.5", Place::After(-2)),
            (".5", Place::After(0)),
            ("-0.001", Place::After(-1)),
            ("2.000", Place::At(2)),
            ("1.5e1", Place::At(15)),
            ("150e-1", Place::At(15)),
            ("155e-1", Place::After(15)),
            ("9007199254740993.0", Place::At(9_007_199_254_740_993)),
            ("9223372036854775807", Place::At(i64::MAX)),
            ("9223372036854775807.1", Place::Above),
            ("9223372036854775808", Place::Above),
            ("-9223372036854775808", Place::At(i64::MIN)),
            ("-9223372036854775808.5", Place::Below),
            ("1e30", Place::Above),
            ("-1e300000", Place::Below),
            ("1e-300000", Place::After(0)),
        ] {
            assert_eq!(decimal(text).place(), place, "{text}");
        }
        assert_eq!(Decimal::parse("1x"), None);
        assert_eq!(Decimal::parse("1e99999999999"), None);
    }

    #[test]
    fn rounding_and_plain_digits() {
        for (text, rounded, plain) in [
            ("2.5", Some(3), "2.5"),
            ("-2.5", Some(-3), "-2.5"),
            ("2.49", Some(2), "2.49"),
            (".5", Some(1), "0.5"),
            ("0.05", Some(0), "0.05"),
            ("1e3", Some(1000), "1000"),
            ("1.50", Some(2), "1.50"),
            ("1e-3", Some(0), "0.001"),
            ("007", Some(7), "7"),
            ("5.", Some(5), "5"),
            ("9223372036854775807.5", None, "9223372036854775807.5"),
            (
                "9007199254740993.4",
                Some(9_007_199_254_740_993),
                "9007199254740993.4",
            ),
        ] {
            assert_eq!(decimal(text).rounded(), rounded, "{text}");
            assert_eq!(decimal(text).to_plain().as_deref(), Some(plain), "{text}");
        }
        assert_eq!(decimal("1e5000").to_plain(), None);
    }

    #[test]
    fn values_compare_exactly() {
        let rising = [
            "-1e9", "-2.5", "-2.25", "-1e-9", "0", "1e-9", "0.1", "2.25", "2.5", "1e9",
        ];
        for (at, left) in rising.iter().enumerate() {
            for (other, right) in rising.iter().enumerate() {
                let order = decimal(left).compare(&decimal(right));
                assert_eq!(order, at.cmp(&other), "{left} and {right}");
            }
        }
        assert_eq!(decimal("1.0").compare(&decimal("1")), Ordering::Equal);
        assert_eq!(decimal("-0").compare(&decimal("0.00")), Ordering::Equal);
    }
}
