//! The years, months, days and microseconds from one local time to another one.

use super::{Interval, MONTHS_PER_YEAR};
use crate::calendar::{civil_from_days, days_from_civil};
use crate::clock::MICROS_PER_DAY;

/// Returns the span from one local time to another one, both in microseconds since 1970, with
/// whole months as far as possible. `is_negative` says that `to` is the earlier one, so that all
/// parts are negative.
pub fn age(to: i64, from: i64, is_negative: bool) -> Interval {
    let parts = |at: i64| {
        let (year, month, day) = civil_from_days(at.div_euclid(MICROS_PER_DAY));
        (year, month, day, at.rem_euclid(MICROS_PER_DAY))
    };
    let (first, second) = (parts(to), parts(from));
    let sign = if is_negative { -1 } else { 1 };
    let per_year = i64::from(MONTHS_PER_YEAR);
    let months = (first.0 - second.0) * per_year + first.1 - second.1;
    let mut months = sign * months;
    let mut days = sign * (first.2 - second.2);
    let mut micros = sign * (first.3 - second.3);
    if micros < 0 {
        micros += MICROS_PER_DAY;
        days -= 1;
    }
    let (year, month) = match is_negative {
        true => (first.0, first.1),
        false => (second.0, second.1),
    };
    let of_month = days_of_month(year, month);
    while days < 0 {
        days += of_month;
        months -= 1;
    }
    let small = |it: i64| i32::try_from(sign * it).expect("years have at most six digits");
    Interval {
        months: small(months),
        days: small(days),
        micros: sign * micros,
    }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let month = u32::try_from(month).expect("it is a month");
    let mut days = (28..=31_u32).rev();
    let found = days.find(|day| days_from_civil(year, month, *day).is_some());
    found.map_or(28, i64::from)
}
