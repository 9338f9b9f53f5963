//! Products and quotients of intervals, and days of 24 hours and months of 30 days.

use super::{DAYS_PER_MONTH, Interval};
use crate::clock::{MICROS_PER_DAY, MICROS_PER_SECOND, SECONDS_PER_DAY};
use crate::float::round_half_even;

/// Rounds to the sixth digit after the point.
fn rounded(value: f64) -> f64 {
    const PLACES: f64 = 1_000_000.0;
    round_half_even(value * PLACES) / PLACES
}

/// Returns the number without its fraction; none if it is no number of 32 bits.
fn whole(value: f64) -> Option<i32> {
    let is_within = value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
    is_within.then_some(value as i32)
}

impl Interval {
    /// Returns the interval times a number. Fractions of months become days, of which a month has
    /// 30, and fractions of days become microseconds. Returns none beyond the range of a part.
    pub fn times(self, factor: f64) -> Option<Interval> {
        self.scaled(|part| part * factor)
    }

    /// Returns the interval divided by a number that is not 0, as [`Interval::times`] multiplies.
    pub fn divided_by(self, divisor: f64) -> Option<Interval> {
        self.scaled(|part| part / divisor)
    }

    fn scaled(self, scale: impl Fn(f64) -> f64) -> Option<Interval> {
        let (exact_months, exact_days) = (scale(self.months.into()), scale(self.days.into()));
        let months = whole(exact_months)?;
        let mut days = whole(exact_days)?;
        let rest_days = (exact_months - f64::from(months)) * f64::from(DAYS_PER_MONTH);
        let rest_days = rounded(rest_days);
        let of_months = rest_days as i32;
        let rest = exact_days - f64::from(days) + rest_days - f64::from(of_months);
        let mut seconds = rounded(rest * SECONDS_PER_DAY as f64);
        if seconds.abs() >= SECONDS_PER_DAY as f64 {
            let more = (seconds / SECONDS_PER_DAY as f64) as i32;
            days = days.checked_add(more)?;
            seconds -= f64::from(more) * SECONDS_PER_DAY as f64;
        }
        days = days.checked_add(of_months)?;
        let micros = scale(self.micros as f64) + seconds * MICROS_PER_SECOND as f64;
        let micros = round_half_even(micros);
        // 2^63 is a double, and no integer of 64 bits.
        const END: f64 = 9_223_372_036_854_775_808.0;
        (-END..END).contains(&micros).then_some(Interval {
            months,
            days,
            micros: micros as i64,
        })
    }

    /// Returns the interval with days instead of each 24 hours; none beyond the range of a part.
    pub fn justified_hours(mut self) -> Option<Interval> {
        self.carry_days()?;
        self.align_micros();
        Some(self)
    }

    /// Returns the interval with months instead of each 30 days; none beyond the range of a part.
    pub fn justified_days(mut self) -> Option<Interval> {
        self.carry_months()?;
        if self.months > 0 && self.days < 0 {
            self.days += DAYS_PER_MONTH;
            self.months -= 1;
        } else if self.months < 0 && self.days > 0 {
            self.days -= DAYS_PER_MONTH;
            self.months += 1;
        }
        Some(self)
    }

    /// Returns the interval with days instead of each 24 hours, months instead of each 30 days, and
    /// parts of one sign; none beyond the range of a part.
    pub fn justified(mut self) -> Option<Interval> {
        let (days, micros) = (self.days, self.micros);
        if days > 0 && micros > 0 || days < 0 && micros < 0 {
            self.carry_months()?;
        }
        self.carry_days()?;
        self.carry_months()?;
        let (days, micros) = (self.days, self.micros);
        if self.months > 0 && (days < 0 || days == 0 && micros < 0) {
            self.days += DAYS_PER_MONTH;
            self.months -= 1;
        } else if self.months < 0 && (days > 0 || days == 0 && micros > 0) {
            self.days -= DAYS_PER_MONTH;
            self.months += 1;
        }
        self.align_micros();
        Some(self)
    }

    fn carry_days(&mut self) -> Option<()> {
        let days = i32::try_from(self.micros / MICROS_PER_DAY).ok()?;
        self.micros %= MICROS_PER_DAY;
        self.days = self.days.checked_add(days)?;
        Some(())
    }

    fn carry_months(&mut self) -> Option<()> {
        self.months = self.months.checked_add(self.days / DAYS_PER_MONTH)?;
        self.days %= DAYS_PER_MONTH;
        Some(())
    }

    /// Gives the microseconds the sign of the days.
    fn align_micros(&mut self) {
        if self.days > 0 && self.micros < 0 {
            self.micros += MICROS_PER_DAY;
            self.days -= 1;
        } else if self.days < 0 && self.micros > 0 {
            self.micros -= MICROS_PER_DAY;
            self.days += 1;
        }
    }
}
