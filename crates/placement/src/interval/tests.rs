//! Tests intervals against PostgreSQL's results.

use alloc::string::ToString;

use super::{Interval, IntervalError, IntervalField, age, moved_local, moved_moment, time_after};
use crate::clock::TIMESTAMPS;
use crate::value::{ColumnType, Value};
use crate::zone::TimeZone;

const DAY: i64 = 86_400_000_000;

fn of(months: i32, days: i32, micros: i64) -> Interval {
    Interval {
        months,
        days,
        micros,
    }
}

fn local(text: &str) -> i64 {
    match Value::parse(ColumnType::Timestamp, text) {
        Ok(Value::Timestamp(at)) => at,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn texts_are_read_and_shown_as_in_postgresql() {
    for (text, shown) in [
        ("1 day", "1 day"),
        (
            "1 year 2 mons 3 days 04:05:06.789",
            "1 year 2 mons 3 days 04:05:06.789",
        ),
        ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("@ 1 minute ago", "-00:01:00"),
        ("-1 day +02:03", "-1 days +02:03:00"),
        ("1.5 months", "1 mon 15 days"),
        ("1.5 years", "1 year 6 mons"),
        ("0.1 weeks", "16:48:00"),
        ("P1Y2M3W4DT5H6M7.5S", "1 year 2 mons 25 days 05:06:07.5"),
        ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
        ("1d2h3m4s", "1 day 02:03:04"),
        ("90", "00:01:30"),
        ("0", "00:00:00"),
        ("1 millennium 1 century 1 decade", "1110 years"),
        ("12:34.5", "00:12:34.5"),
        ("-13 months", "-1 years -1 mons"),
    ] {
        let found = Interval::parse(text).unwrap();
        assert_eq!(found.to_string(), shown, "{text}");
        assert!(Interval::parse(shown).unwrap().is_same(found), "{shown}");
    }
    for (text, error) in [
        ("", IntervalError::Syntax),
        ("x", IntervalError::Syntax),
        ("1 day 1 day", IntervalError::Syntax),
        ("1 fortnight", IntervalError::Syntax),
        ("P", IntervalError::Syntax),
        ("P1", IntervalError::Syntax),
        ("99999999999 years", IntervalError::FieldRange),
        ("1:61", IntervalError::FieldRange),
        ("178956971 years", IntervalError::Range),
    ] {
        let found = Interval::parse(text);
        if text == "P1" {
            assert_eq!(found.unwrap(), of(12, 0, 0));
        } else {
            assert_eq!(found.unwrap_err(), error, "{text}");
        }
    }
}

#[test]
fn fields_of_a_literal_limit_it() {
    let read = |text, first, last| Interval::parse_fields(text, (first, last)).unwrap();
    let day = read("1 05:06", IntervalField::Day, IntervalField::Day);
    assert!(day.is_same(of(0, 1, 0)));
    let minute = read("5:06", IntervalField::Minute, IntervalField::Second);
    assert!(minute.is_same(of(0, 0, 306_000_000)));
    let year = read("14", IntervalField::Month, IntervalField::Month);
    assert!(year.is_same(of(14, 0, 0)));
}

#[test]
fn equal_spans_are_equal_intervals() {
    assert_eq!(of(1, 0, 0), of(0, 30, 0));
    assert_eq!(of(0, 1, 0), of(0, 0, DAY));
    assert!(of(1, -1, 0) < of(0, 30, 0));
    assert!(!of(1, 0, 0).is_same(of(0, 30, 0)));
    for found in [
        of(i32::MAX, i32::MAX, i64::MAX),
        of(i32::MIN, i32::MIN, i64::MIN),
        of(i32::MAX, i32::MIN, i64::MIN),
        of(0, 31, -1),
        of(-1, 0, 0),
    ] {
        assert_eq!(Interval::of_span(found.span()), Some(found));
    }
    let last = of(i32::MAX, i32::MAX, i64::MAX).span();
    assert!(Interval::of_span(last + 1).is_none());
    let first = of(i32::MIN, i32::MIN, i64::MIN).span();
    assert!(Interval::of_span(first - 1).is_none());
}

#[test]
fn parts_are_computed_with() {
    let shown = |it: Option<Interval>| it.unwrap().to_string();
    assert_eq!(shown(of(1, 0, 0).times(0.5)), "15 days");
    assert_eq!(shown(of(1, 1, 0).divided_by(2.0)), "15 days 12:00:00");
    assert_eq!(shown(of(0, 1, -1).justified_hours()), "23:59:59.999999");
    assert_eq!(shown(of(0, 35, 0).justified_days()), "1 mon 5 days");
    assert_eq!(
        shown(of(1, 0, -3_600_000_000).justified()),
        "29 days 23:00:00"
    );
    assert!(of(i32::MAX, 0, 0).plus(of(1, 0, 0)).is_none());
    assert!(of(i32::MIN, 0, 0).negated().is_none());
    assert!(of(1, 0, 0).times(f64::NAN).is_none());
    assert_eq!(of(0, 0, 1_500_000).rounded(0), Some(of(0, 0, 2_000_000)));
    assert_eq!(of(0, 0, -1_499_999).rounded(0), Some(of(0, 0, -1_000_000)));
}

#[test]
fn months_come_before_days() {
    let moved = |at: &str, by| Value::Timestamp(moved_local(local(at), by).unwrap()).to_string();
    assert_eq!(moved("2024-01-31", of(1, 1, 0)), "2024-03-01 00:00:00");
    assert_eq!(moved("2023-03-31", of(-1, 0, 0)), "2023-02-28 00:00:00");
    assert_eq!(moved_local(i64::MAX, of(1, 0, 0)), Some(i64::MAX));
    assert_eq!(moved_local(*TIMESTAMPS.end(), of(1, 0, 0)), None);
    assert_eq!(time_after(0, of(5, 5, -1)), DAY - 1);
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let noon = zone.moment(local("2024-03-30 12:00")).unwrap();
    let next = moved_moment(noon, of(0, 1, 0), &zone).unwrap();
    assert_eq!(next - noon, 23 * 3_600_000_000);
    let next = moved_moment(noon, of(0, 0, DAY), &zone).unwrap();
    assert_eq!(next - noon, DAY);
}

#[test]
fn ages_have_whole_months() {
    let between = |to: &str, from: &str| {
        let (to, from) = (local(to), local(from));
        age(to, from, to < from).to_string()
    };
    assert_eq!(
        between("2001-04-10", "1957-06-13"),
        "43 years 9 mons 27 days"
    );
    assert_eq!(
        between("1957-06-13", "2001-04-10"),
        "-43 years -9 mons -27 days"
    );
    assert_eq!(between("2024-03-01", "2024-01-31 12:00"), "1 mon 12:00:00");
}
