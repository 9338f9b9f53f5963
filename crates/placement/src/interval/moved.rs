//! Times an interval later.
//!
//! Months come first, then days, then microseconds. In a month that is too short, the day is its
//! last one.

use super::{Interval, MONTHS_PER_YEAR};
use crate::calendar::{civil_from_days, days_from_civil};
use crate::clock::{MICROS_PER_DAY, TIMESTAMPS};
use crate::zone::TimeZone;

/// Returns a timestamp an interval later; none beyond the range of timestamps. Infinities stay.
pub fn moved_local(at: i64, by: Interval) -> Option<i64> {
    moved(at, by, &|at| Some(at), &|local| Some(local))
}

/// Returns a moment an interval later: months and days are those of local time in a zone. Returns
/// none beyond the range of timestamps. Infinities stay.
pub fn moved_moment(at: i64, by: Interval, zone: &TimeZone<'_>) -> Option<i64> {
    moved(at, by, &|at| zone.local(at), &|local| zone.moment(local))
}

fn moved(
    at: i64,
    by: Interval,
    local: &dyn Fn(i64) -> Option<i64>,
    moment: &dyn Fn(i64) -> Option<i64>,
) -> Option<i64> {
    if matches!(at, i64::MIN | i64::MAX) {
        return Some(at);
    }
    let within = |at: i64| TIMESTAMPS.contains(&at).then_some(at);
    let on_day = |at: i64, day: &dyn Fn(i64) -> Option<i64>| {
        let local = local(at)?;
        let moved = day(local.div_euclid(MICROS_PER_DAY))?.checked_mul(MICROS_PER_DAY)?;
        let moved = moved.checked_add(local.rem_euclid(MICROS_PER_DAY))?;
        within(moment(within(moved)?)?)
    };
    let mut at = at;
    if by.months != 0 {
        at = on_day(at, &|day| Some(month_later(day, by.months)))?;
    }
    if by.days != 0 {
        at = on_day(at, &|day| Some(day + i64::from(by.days)))?;
    }
    within(at.checked_add(by.micros)?)
}

/// Returns a day, as days since 1970, so many months later.
fn month_later(day: i64, months: i32) -> i64 {
    let (year, month, day) = civil_from_days(day);
    let per_year = i64::from(MONTHS_PER_YEAR);
    let month = year * per_year + month - 1 + i64::from(months);
    let (year, month) = (month.div_euclid(per_year), month.rem_euclid(per_year) + 1);
    let month = u32::try_from(month).expect("it is a month");
    let last = u32::try_from(day).expect("it is a day of a month");
    let found = (1..=last).rev();
    let mut found = found.filter_map(|day| days_from_civil(year, month, day));
    found.next().expect("each month has a first day")
}

/// Returns the time of the day an interval later, in microseconds since midnight. Only the
/// microseconds of the interval count.
pub fn time_after(time: i64, by: Interval) -> i64 {
    time.wrapping_add(by.micros).rem_euclid(MICROS_PER_DAY)
}
