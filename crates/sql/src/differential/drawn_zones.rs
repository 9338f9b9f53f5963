//! Statements about time zones, and about dates and times as text.

/// A table with the same moments in several types, some of them around a change of the clock.
pub(super) const SETUP: &str = "
CREATE TABLE z (id int PRIMARY KEY, tz timestamptz, ts timestamp, d date, t text);
INSERT INTO z VALUES
 (1, '2024-03-31 00:59:59.5+00', '2024-03-31 02:30:00', '2024-03-31', '2024-03-31 02:30'),
 (2, '2024-03-31 01:00:00+00', '2024-03-31 03:00:00', '2024-03-31', '2024-10-27 02:30'),
 (3, '2024-10-27 00:30:00+00', '2024-10-27 02:30:00', '2024-10-27', '2024-10-27 02:30+02'),
 (4, '2024-10-27 01:30:00+00', '2024-10-27 02:30:00', '2024-10-27', '1900-01-01'),
 (5, '1900-01-01 00:00:00+00', '1900-01-01 00:00:00', '1900-01-01', 'infinity'),
 (6, 'infinity', '-infinity', 'infinity', '2024-06-01T12:00:00Z'),
 (7, NULL, NULL, NULL, NULL),
 (8, '2024-11-03 06:30:00+00', '2024-11-03 01:30:00', '2024-11-03', '2024-03-10 02:30');
";

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "america/new_york",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Europe/Dublin",
    "America/St_Johns",
    "EST5EDT",
    "<+02>-02",
    "FOO-3BAR,M3.5.0,M10.5.0/3",
    "5.5",
];

/// Local times, of which some are in a gap or an overlap of a zone.
const LOCAL: &[&str] = &[
    "2024-03-31 01:59:59.999999",
    "2024-03-31 02:00:00",
    "2024-03-31 02:30:00",
    "2024-03-31 03:00:00",
    "2024-10-27 01:59:59",
    "2024-10-27 02:00:00",
    "2024-10-27 02:59:59.25",
    "2024-10-27 03:00:00",
    "2024-03-10 02:30:00",
    "2024-11-03 01:30:00",
    "2024-04-07 01:45:00",
    "2024-10-06 02:15:00",
    "2011-12-30 12:00:00",
    "2023-03-19 02:30:00",
    "2050-07-01 12:00:00",
    "2400-07-01 12:00:00.25",
    "2099-12-31 23:59:59",
    "1970-01-01 00:00:00",
    "1945-06-01 00:00:00",
    "1850-01-01 00:00:00",
    "0044-03-15 12:00:00 BC",
    "infinity",
    "-infinity",
];

/// Expressions over the table `z`.
const OVER_ROWS: &[&str] = &[
    "tz",
    "tz::timestamp",
    "tz::date",
    "tz::text",
    "tz::varchar(13)",
    "ts::timestamptz",
    "d::timestamptz",
    "concat(tz, '|', ts)",
    "tz = ts",
    "tz < d",
    "ts >= tz",
    "tz BETWEEN d AND ts",
    "tz IN ('2024-03-31 02:00', '1900-01-01')",
    "greatest(tz, ts)",
    "coalesce(d, tz)",
    "nullif(tz, ts)",
    "CASE WHEN id > 3 THEN tz ELSE d END",
    "tz AT TIME ZONE 'America/New_York'",
    "ts AT TIME ZONE 'America/New_York'",
    "d AT TIME ZONE 'Asia/Tokyo'",
    "timezone('utc', ts)",
    "(tz AT TIME ZONE 'CET')::date",
    "tz AT TIME ZONE 'PST'",
    "ts AT TIME ZONE 'XYZ-2'",
    "tz IS DISTINCT FROM ts",
];

/// Fields of times.
const FIELDS: &[&str] = &[
    "microseconds",
    "milliseconds",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
    "isoyear",
    "dow",
    "isodow",
    "doy",
    "epoch",
    "timezone",
    "timezone_hour",
    "timezone_minute",
    "YEARS",
    "nonsense",
];

const CONDITIONS: &[&str] = &[
    "tz = '2024-03-31 02:30'",
    "tz < '2024-03-31'",
    "tz > date '2024-03-31'",
    "tz >= timestamp '2024-10-27 02:30'",
    "d = '2024-10-27 00:30+02'::timestamptz",
    "ts < '2024-03-31 03:00:00+02'::timestamptz",
    "tz::date = '2024-10-27'",
    "tz = ts OR d = tz",
    "tz AT TIME ZONE 'Europe/Berlin' = ts",
];

/// Texts of dates and times.
const WRITTEN: &[&str] = &[
    "1999-01-08",
    "January 8, 1999",
    "Jan 8 1999",
    "8 January 1999",
    "8 Jan 99",
    "1999 Jan 8",
    "1/8/1999",
    "1/18/1999",
    "18/1/1999",
    "01/02/03",
    "1999-Jan-08",
    "Jan-08-1999",
    "08-Jan-1999",
    "99-Jan-08",
    "08-Jan-99",
    "Jan-08-99",
    "19990108",
    "990108",
    "J2451187",
    "January 8, 99 BC",
    "1999/01/08",
    "1999.01.08",
    "8.1.1999",
    "Friday January 8 1999",
    "Sat, 9 Jan 1999 04:05:06",
    "1999-01-08 04:05:06.789",
    "1999-01-08 04:05",
    "1999-01-08 4:5",
    "1999-01-08 040506",
    "1999-01-08 0405",
    "1999-01-08T04:05:06",
    "1999-01-08T040506",
    "19990108T040506",
    "1999-01-08t04:05Z",
    "1999-01-08 04:05 AM",
    "1999-01-08 04:05 PM",
    "1999-01-08 12:05 AM",
    "1999-01-08 12:05 PM",
    "1999-01-08 13:05 PM",
    "1999-01-08 04:05PM",
    "1999-01-08 04:05:06 PST",
    "1999-01-08 04:05:06PST",
    "1999-01-08 04:05:06 America/New_York",
    "1999-07-08 04:05:06 America/New_York",
    "1999-07-08 04:05:06 Nowhere/Else",
    "1999-01-08 04:05:06 CEST",
    "1999-01-08 04:05:06-8",
    "1999-01-08 04:05:06-800",
    "1999-01-08 04:05:06 -08:00",
    "1999-01-08 04:05:06 +05:30",
    "1999-01-08 04:05:06+05:30:15",
    "1999-01-08 04:05:06+16",
    "1999-01-08 04:05:06 EST5EDT",
    "1999-01-08 04:05:06 Etc/GMT+5",
    "1999-01-08 04:05:06 zulu",
    "1999-01-08 allballs",
    "04:05:06 1999-01-08",
    "04:05 Jan 8, 1999",
    "1999-01-08 24:00",
    "1999-01-08 24:00:01",
    "1999-01-08 23:59:60",
    "1999-01-08 23:59:61",
    "1999-02-29",
    "2000-02-29",
    "1999-13-01",
    "0000-01-01",
    "0001-01-01 BC",
    "0001-01-01 AD",
    "1999-01-08 BC",
    "10000-01-01",
    "294276-12-31 23:59:59",
    "4713-01-01 BC",
    "infinity",
    "-infinity",
    "epoch",
    "1999",
    "Jan 1999",
    "1999-01",
    "04:05",
    "1999-01-08 05",
    "1999-01-08-09",
    "1999-01-08 04:05:06 04:05:07",
    "Jan 8 Feb 1999",
    "",
    "x",
    "1999-01-08 x",
    "1999-01-08 04:05:06.1234567",
    "1999-01-08 04:05:06.",
    "1999-01-08 04:05:",
    "  1999-01-08   04:05  ",
    "1999-01-08,04:05",
];

pub(super) fn statements() -> Vec<String> {
    let mut statements = Vec::new();
    for zone in ZONES {
        let mut add = |statement: String| {
            statements.push(format!("SET timezone = '{zone}'; {statement}"));
        };
        for local in LOCAL {
            add(format!("SELECT timestamptz '{local}'"));
            add(format!(
                "SELECT timestamp '{local}' AT TIME ZONE '{}'",
                zone_name(zone)
            ));
            add(format!("SELECT timestamptz '{}'::timestamp", in_utc(local)));
        }
        for expression in OVER_ROWS {
            add(format!("SELECT id, {expression} FROM z ORDER BY id"));
        }
        for condition in CONDITIONS {
            add(format!("SELECT id FROM z WHERE {condition} ORDER BY id"));
        }
        add("SELECT id, t::timestamptz FROM z WHERE id <> 3 ORDER BY id".into());
        add("SELECT tz::date, count(*) FROM z GROUP BY tz::date ORDER BY 1".into());
        add("SELECT max(tz), min(tz) FROM z".into());
    }
    fields(&mut statements);
    for text in WRITTEN {
        for column_type in ["date", "timestamp", "timestamptz"] {
            statements.push(format!("SELECT {column_type} '{text}'"));
        }
        statements.push(format!(
            "SET timezone = 'America/New_York'; SELECT timestamptz '{text}'"
        ));
    }
    for wrong in [
        "SELECT tz AT TIME ZONE 'Nowhere' FROM z WHERE id = 1",
        "SELECT now() AT TIME ZONE 'UTC' = now()",
        "SELECT timezone('UTC', 1)",
        "SELECT (now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' = now()",
        "SELECT timestamptz 'now' = now(), timestamptz 'today' <= now(), date 'tomorrow' > 'today'",
        "SELECT id FROM z WHERE date_trunc('month', tz) = '2024-10-01' ORDER BY id",
        "SELECT id FROM z WHERE extract(year FROM d) = 2024 AND extract(month FROM d) < 10 ORDER BY id",
        "SELECT extract(year FROM '2024-01-01')",
        "SELECT date_trunc('day', '2024-01-01')",
        "SELECT date 'today' = current_date, timestamp 'yesterday' < localtimestamp",
    ] {
        statements.push(wrong.into());
    }
    statements
}

/// Adds statements about the fields of times.
fn fields(statements: &mut Vec<String>) {
    for zone in ["UTC", "Europe/Berlin", "America/St_Johns"] {
        for field in FIELDS {
            for time in ["tz", "ts", "d"] {
                for function in [
                    format!("extract({field} FROM {time})"),
                    format!("date_part('{field}', {time})"),
                    format!("date_trunc('{field}', {time})"),
                    format!("date_trunc('{field}', {time}, 'Asia/Kolkata')"),
                ] {
                    statements.push(format!(
                        "SET timezone = '{zone}'; SELECT id, {function} FROM z ORDER BY id"
                    ));
                }
            }
            for local in [
                "2004-12-31 23:59:59.999",
                "2000-01-01",
                "0001-12-31 BC",
                "0101-01-01 BC",
            ] {
                statements.push(format!(
                    "SET timezone = '{zone}'; SELECT extract({field} FROM timestamp '{local}'), \
                     date_part('{field}', timestamp '{local}')"
                ));
                statements.push(format!(
                    "SET timezone = '{zone}'; SELECT date_trunc('{field}', timestamptz '{local}')"
                ));
            }
        }
    }
}

/// Returns the name of a zone, of a number of hours a POSIX string.
fn zone_name(zone: &str) -> &str {
    match zone {
        "5.5" => "<+05:30>-05:30",
        zone => zone,
    }
}

/// Returns a local time as one of UTC.
fn in_utc(local: &str) -> String {
    match (local.contains("infinity"), local.strip_suffix(" BC")) {
        (true, _) => local.into(),
        (_, Some(time)) => format!("{time}+00 BC"),
        (_, None) => format!("{local}+00"),
    }
}
