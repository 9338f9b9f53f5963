//! The rules of a POSIX string: `std offset [dst [offset] [,start[/time],end[/time]]]`.
//!
//! PostgreSQL's reading of it: a name may be empty, and without dates summer time lasts from the
//! second Sunday of March to the first one of November.

use super::{SECONDS_PER_DAY, Transition};
use crate::calendar::{civil_from_days, days_from_civil};

/// Offsets from UTC, and when they change in each year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PosixRules {
    /// The seconds that standard time is ahead of UTC.
    standard: i32,
    summer: Option<SummerTime>,
}

/// The part of each year with another offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SummerTime {
    /// The seconds that it is ahead of UTC.
    ahead: i32,
    start: YearDay,
    end: YearDay,
}

/// A moment of each year, in the local time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct YearDay {
    day: DayRule,
    /// Seconds since midnight. They may be of another day.
    seconds: i32,
}

/// A day of each year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayRule {
    /// `Jn`: from 1, without February 29th.
    WithoutLeap(u32),
    /// `n`: from 0, with February 29th.
    WithLeap(u32),
    /// `Mm.w.d`: the week is from 1, 5 is the last one; the day is from 0, which is Sunday.
    Weekday { month: u32, week: u32, day: u32 },
}

const DEFAULT_DATES: &str = ",M3.2.0,M11.1.0";
const DEFAULT_SECONDS: i32 = 7200;
const HOUR: i32 = 3600;
/// The hours of a week, without the last one: POSIX strings have fewer.
const HOURS_MAX: u32 = 167;

impl PosixRules {
    pub const UTC: PosixRules = PosixRules {
        standard: 0,
        summer: None,
    };

    pub fn parse(text: &str) -> Option<PosixRules> {
        let (_, rest) = name(text)?;
        let (west, rest) = offset(rest)?;
        let standard = -west;
        if rest.is_empty() {
            let summer = None;
            return Some(PosixRules { standard, summer });
        }
        let (found, rest) = name(rest)?;
        if found.is_empty() {
            return None;
        }
        let (ahead, rest) = match rest.starts_with([',', ';']) || rest.is_empty() {
            true => (standard + HOUR, rest),
            false => {
                let (west, rest) = offset(rest)?;
                (-west, rest)
            }
        };
        let dates = if rest.is_empty() { DEFAULT_DATES } else { rest };
        let (start, rest) = YearDay::parse(dates.strip_prefix([',', ';'])?)?;
        let (end, rest) = YearDay::parse(rest.strip_prefix(',')?)?;
        let summer = Some(SummerTime { ahead, start, end });
        rest.is_empty().then_some(PosixRules { standard, summer })
    }

    pub fn ahead_at(&self, at: i64) -> i32 {
        let Some(summer) = &self.summer else {
            return self.standard;
        };
        let transitions = self.around(summer, at).into_iter();
        let last = transitions.filter(|it| it.at <= at).max_by_key(|it| it.at);
        last.map_or(self.standard, |it| it.after)
    }

    pub fn transition_after(&self, at: i64) -> Option<Transition> {
        let summer = self.summer.as_ref()?;
        let transitions = self.around(summer, at).into_iter();
        transitions.filter(|it| it.at > at).min_by_key(|it| it.at)
    }

    /// Returns the transitions of the year of a moment and of the years beside it.
    fn around(&self, summer: &SummerTime, at: i64) -> [Transition; 6] {
        let (year, _, _) = civil_from_days(at.div_euclid(SECONDS_PER_DAY));
        let start = |year| Transition {
            at: summer.start.at(year, self.standard),
            before: self.standard,
            after: summer.ahead,
        };
        let end = |year| Transition {
            at: summer.end.at(year, summer.ahead),
            before: summer.ahead,
            after: self.standard,
        };
        [
            start(year - 1),
            end(year - 1),
            start(year),
            end(year),
            start(year + 1),
            end(year + 1),
        ]
    }
}

impl YearDay {
    fn parse(text: &str) -> Option<(YearDay, &str)> {
        let (day, rest) = match text.strip_prefix('J') {
            Some(text) => {
                let (day, rest) = number(text, 365)?;
                (DayRule::WithoutLeap(day).if_from_one(day)?, rest)
            }
            None => match text.strip_prefix('M') {
                Some(text) => {
                    let (month, rest) = number(text, 12)?;
                    let (week, rest) = number(rest.strip_prefix('.')?, 5)?;
                    let (day, rest) = number(rest.strip_prefix('.')?, 6)?;
                    let rule = DayRule::Weekday { month, week, day };
                    (rule.if_from_one(month.min(week))?, rest)
                }
                None => {
                    let (day, rest) = number(text, 365)?;
                    (DayRule::WithLeap(day), rest)
                }
            },
        };
        let (seconds, rest) = match rest.strip_prefix('/') {
            Some(rest) => offset(rest)?,
            None => (DEFAULT_SECONDS, rest),
        };
        Some((YearDay { day, seconds }, rest))
    }

    /// Returns the moment in a year, in seconds since 1970 UTC. Local time is so far ahead of UTC.
    fn at(&self, year: i64, ahead: i32) -> i64 {
        let first = |year, month| days_from_civil(year, month, 1).expect("each month has it");
        let january = first(year, 1);
        let days = match self.day {
            DayRule::WithLeap(day) => january + i64::from(day),
            DayRule::WithoutLeap(day) => {
                let is_leap = first(year, 3) - january == 60;
                january + i64::from(day) - i64::from(!is_leap || day < 60)
            }
            DayRule::Weekday { month, week, day } => {
                let start = first(year, month);
                let end = match month {
                    12 => first(year + 1, 1),
                    month => first(year, month + 1),
                };
                // 1970-01-01 was a Thursday.
                let weekday = (start + 4).rem_euclid(7);
                let first = start + (i64::from(day) - weekday).rem_euclid(7);
                let days = first + 7 * i64::from(week - 1);
                if days >= end { days - 7 } else { days }
            }
        };
        days * SECONDS_PER_DAY + i64::from(self.seconds) - i64::from(ahead)
    }
}

impl DayRule {
    fn if_from_one(self, number: u32) -> Option<DayRule> {
        (number >= 1).then_some(self)
    }
}

/// Returns the name at the start, and the rest.
fn name(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let is_end = |it: char| it.is_ascii_digit() || matches!(it, ',' | '-' | '+');
    Some(text.split_at(text.find(is_end).unwrap_or(text.len())))
}

/// Returns the seconds of `[+-]hours[:minutes[:seconds]]` at the start, and the rest.
fn offset(text: &str) -> Option<(i32, &str)> {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (hours, rest) = number(rest, HOURS_MAX)?;
    let mut seconds = hours.cast_signed() * HOUR;
    let mut rest = rest;
    for (unit, max) in [(60, 59), (1, 60)] {
        let Some(part) = rest.strip_prefix(':') else {
            break;
        };
        let (count, after) = number(part, max)?;
        seconds += count.cast_signed() * unit;
        rest = after;
    }
    let is_negative = text.starts_with('-');
    Some((if is_negative { -seconds } else { seconds }, rest))
}

/// Returns the number at the start, at most `max`, and the rest.
fn number(text: &str, max: u32) -> Option<(u32, &str)> {
    let end = text.find(|it: char| !it.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = digits.parse().ok().filter(|it| *it <= max)?;
    Some((number, rest))
}
