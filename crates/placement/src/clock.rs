//! Units of time, the range of timestamps, and fractions of a second as text.

use core::fmt;
use core::ops::RangeInclusive;

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
pub(crate) const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;

/// The first and the last timestamp that PostgreSQL has and that fit: from 4714-11-24 BC on. The
/// ends of the integers are the infinities.
pub(crate) const TIMESTAMPS: RangeInclusive<i64> = -210_866_803_200_000_000..=i64::MAX - 1;

/// Writes microseconds of a second with a point before them, without zeros at their end.
pub(crate) fn write_fraction(f: &mut impl fmt::Write, micros: u64) -> fmt::Result {
    match micros {
        0 => Ok(()),
        fraction => {
            let fraction = alloc::format!("{fraction:06}");
            write!(f, ".{}", fraction.trim_end_matches('0'))
        }
    }
}
