//! Writes the operator's log: one line per event on stderr, `time level key=value …`.
//!
//! It is for rare events (starts, stops, connections refused, errors). Operations are counted, not
//! logged.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use crate::clock;

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JournalLevel {
    /// An expected event.
    Info,
    /// An event that an operator may want to check.
    Warn,
    /// An event that needs an operator's action.
    Error,
}

/// Writes one line. Keys are in lower case without spaces. Values with spaces or quotes are quoted.
pub fn line(level: JournalLevel, event: &str, fields: &[(&str, &dyn fmt::Display)]) {
    let mut text = String::with_capacity(128);
    let level = match level {
        JournalLevel::Info => "info",
        JournalLevel::Warn => "warn",
        JournalLevel::Error => "error",
    };
    text.push_str(&timestamp(clock::wall_us()));
    let _ = write!(text, " {level} event={event}");
    for (key, value) in fields {
        let _ = write!(text, " {key}=");
        push_value(&mut text, &value.to_string());
    }
    text.push('\n');
    // A line that cannot be written has nowhere to go.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn push_value(text: &mut String, value: &str) {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=';
    if !value.is_empty() && value.chars().all(plain) {
        text.push_str(value);
    } else {
        let _ = write!(text, "{value:?}");
    }
}

/// Returns a time as `2026-11-21T07:30:00.123456Z`, by the civil calendar's arithmetic (era of 400
/// years).
fn timestamp(wall_us: u64) -> String {
    let seconds = wall_us / 1_000_000;
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months are counted from March here, so that the leap day is the last of the year.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let fraction = wall_us % 1_000_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_827_696_000_001, "2000-02-29T12:34:56.000001Z"),
            (1_798_761_599_999_999, "2026-12-31T23:59:59.999999Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ];
        for (wall_us, text) in cases {
            assert_eq!(timestamp(wall_us), text);
        }
    }

    #[test]
    fn values_with_spaces_are_quoted() {
        let mut text = String::new();
        for value in ["plain:1", "two words", "", "a=b", "line\nbreak"] {
            push_value(&mut text, value);
            text.push(' ');
        }
        assert_eq!(text, r#"plain:1 "two words" "" "a=b" "line\nbreak" "#);
    }
}
