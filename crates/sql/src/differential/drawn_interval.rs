//! Generates statements about `time` and `interval`.

use super::drawn::Draw;

/// The statements that create the tables for these statements, in both languages.
pub(super) const SETUP: &str = "
    CREATE TABLE i (id integer PRIMARY KEY, i interval, t time, i0 interval(0), t3 time(3),
        at timestamp, tz timestamptz, d date, f double precision, n numeric, x text);
    INSERT INTO i VALUES
        (1, '1 mon', '12:00', '1.5 seconds', '12:00:00.1235', '2024-01-31 10:00',
            '2024-03-30 12:00+00', '2024-02-29', 1.5, 2.5, '1 day'),
        (2, '30 days', '00:00', '-1.5 seconds', '23:59:59.9996', '2024-02-29 23:59:59.5',
            '2024-10-26 22:30+00', '2023-12-31', -2, -0.1, '12:30'),
        (3, '720:00:00', '24:00', '1 year', '00:00:00.0004', '1999-12-31', '2000-01-01 00:00+00',
            '2000-01-01', 0.1, 3, '-1:00'),
        (4, '-1 mons +2 days -03:04:05.678', '23:59:59.999999', '1 day', '04:05:06', 'infinity',
            '-infinity', 'infinity', 1e10, 1e20, 'x'),
        (5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (6, '1 year -1 days', '05:06:07.8', '0', '05:06', '2024-11-03 05:30',
            '2024-11-03 05:30+00', '2024-11-03', 0, 0, 'P1DT2H'),
        (7, '178000000 years', '00:00:00.000001', '36:00', '13:00', '0044-03-15 12:00 BC',
            '1900-01-01 00:00+00', '0001-01-01 BC', -0.5, 7, '2 mons'),
        (8, '00:00:00', '06:30', '-1 days', '06:30', '2024-03-31 02:30', '2024-03-31 01:00+00',
            '2024-03-31', 3, 0.333, '00:00');
    CREATE TABLE ik (i interval PRIMARY KEY, n integer);
    CREATE INDEX ik_n ON ik (n, i);
    INSERT INTO ik VALUES ('1 mon', 1), ('31 days', 1), ('-1 day', 2), ('1 year', 2), ('0', 2),
        ('359 days', 3), ('24:00:01', 3), ('-178000000 years', 3), ('178000000 years', 4);
    CREATE TABLE tk (t time PRIMARY KEY, n integer);
    CREATE INDEX tk_n ON tk (n, t);
    INSERT INTO tk VALUES ('12:00', 1), ('00:00', 1), ('24:00', 2), ('23:59:59.999999', 2),
        ('00:00:00.000001', 2), ('06:30', 3);";

pub(super) const TABLES: &str = "i, ik, tk";

/// Texts of intervals, right and wrong ones, with lines between them.
const INTERVALS: &str = "\
    1 day|1 days|-1 day|1day|1 day 1 day|1 year 2 months 3 days 4 hours 5 minutes 6 seconds|\
    1 y 2 mons 3 d 4 h 5 m 6 s|1 yr 2 mon|2 yrs|3 hrs|4 mins|5 secs|6 ms|7 us|8 msec|9 usec|\
    1 millisecond|2 milliseconds|3 microsecond|4 microseconds|1 week|2 weeks|1 w|1 decade|\
    2 decades|1 century|2 centuries|1 c|1 millennium|2 millennia|1 mil|1 quarter|1 qtr|\
    1 fortnight|1.5 years|1.5 months|1.5 weeks|1.5 days|1.5 hours|1.5 minutes|1.5 seconds|\
    1.5 ms|1.5 us|1.5 decades|1.55 centuries|0.1 millennium|0.7 years|-0.7 years|0.04 years|\
    1.999999 months|-1.5 months|-1.5 days|-1.5 hours|0.0000005 seconds|0.0000015 seconds|\
    .5 days|-.5 days|+.5 days|1. day|1.5.5 days|1 day ago|ago|1 day ago ago|\
    1 year -2 months ago|-1 day 2 hours ago|ago 1 day|1 ago|@ 1 day|@ 1 day 2 hours ago|@ 1|\
    @|1|-1|1.5|12|90|3600.25|1 2|1 2 3|12:30|-12:30|+12:30|12:30:45|12:30:45.678|\
    -12:30:45.678|12:60|12:59:60|12:59:61|1:2:3|100:00|1000000:00:00|12:30.5|12:|:30|12:30:|\
    1:2:3:4|2562047788:00:54.775807|2562047788:00:54.775808|1 12:30|1 day 12:30|\
    1 day -12:30|-1 day 12:30|-1 12:30|-1 day +12:30|1-2|-1-2|+1-2|1-2 3|1-2 3 4:05|\
    1-2 -3 -4:05:06|-1-2 +3 -4:05|1-12|1-13|1-2-3|1-2 1 month|0-0|1 year 1-2|5 1-2|\
    3 4:05 1-2|4:05 3|1.5 day 12:00|12:00 1.5 day|1 day, 2 hours|1 day; 2 hours|1day2hours|\
    1d2h3m4s|1mon2d|1min2s|1h30m|1h 30m|P1Y|P1Y2M|P1Y2M3W4DT5H6M7S|PT1H|PT1.5H|P1.5Y|P1.5M|\
    P1.5W|P1.5D|PT1.5M|PT1.5S|P-1Y|P-1Y2M-3DT-4H5M-6S|P1Y-2M|P0001-02-03|\
    P0001-02-03T04:05:06|P1-2-3|P1-2-3T4:5:6.7|P00010203|P00010203T040506|P20060102T1|\
    P20060102T15|P1|P1T2|PT1|PT10:20|PT10:20:30.5|PT102030|PT102030.5|PT1:2:3:4|P|PT|P1|P1X|\
    P1H|PT1D|p1y|P 1Y|P1Y | P1Y|P1YT|P1DT|P1e3D|P1E-1D|PT0.1S|P1Y1Y|PT1H1H|P1D1Y|\
    P999999999999Y|P1e15Y|P1e16D|| |x|day|1 x|1 2 days|1 day 2|1 day 2 3|2147483647 days|\
    2147483648 days|-2147483648 days|-2147483649 days|2147483647 months|2147483648 months|\
    178956970 years|178956971 years|-178956970 years -8 months|-178956970 years -9 months|\
    306783378 weeks|306783379 weeks|9223372036854775807 us|9223372036854775808 us|\
    9223372036855 seconds|2147483648 hours|99999999999999999999 days|21474837 centuries|\
    infinity|-infinity|now|epoch|today|1 Day|1 DAY|1 Months|-|+|- 1 day|+ 1 day|1 -day|\
    --1 day|1/2 days|1/2|1 day 1.5|0.5 1:00|1 mon -1 day 1:00|1 mon -1 day -1:00|\
    -1 mon -1 day -0.5 sec|1e3 days|0x10 days|1_000 days| 1 day |1 sec 500 ms|\
    1.5 sec 500 ms|1 sec 500 us 3 ms|1 timezone|1 minute 1 hour|one day|1 hour 1:00";

/// Texts of times of the day, right and wrong ones, with lines between them.
const TIMES: &str = "\
    04:05:06.789|04:05:06|04:05|040506|0405|04|4:5|4:5:6|04:05 AM|04:05 PM|12:05 AM|\
    12:05 PM|13:05 PM|00:05 PM|04:05:06.789-8|04:05:06-08:00|04:05-08:00|040506-08|\
    040506+0730|04:05:06 PST|04:05:06PST|04:05:06 America/New_York|\
    2003-04-12 04:05:06 America/New_York|2003-04-12 04:05:06|2003-04-12|04:05:06 zulu|\
    04:05:06Z|24:00|24:00:00|24:00:01|24:01|25:00|23:59:60|23:59:59.9999999|23:59:61|23:60|\
    -04:05|allballs|ALLBALLS|T040506|t04:05|T04:05:06|now x|infinity|epoch|today|| |x|\
    04:05:06.1234567|04:05:06.|04:05:|04:05:06:07|  04:05  |04:05 04:06|noon|\
    Jan 8 1999 04:05|04:05 Jan 8 1999|4:05 a|123456.5|1999-01-08T04:05:06|19990108T040506|\
    20030412 040506|J2451187 04:05|04h05m06|04:05 BC|tomorrow 04:05|04:05 on Friday";

/// Values of intervals for operators.
const SPANS: &[&str] = &[
    "1 day",
    "-1 day",
    "1 mon",
    "-1 mons +1 day",
    "1 year 2 mons 3 days 04:05:06.789",
    "00:00:01",
    "-00:00:00.000001",
    "0",
    "30 days",
    "24:00:00",
    "1000 years",
    "-13 mons",
    "11 mons 29 days 23:59:59",
    "2147483647 days",
    "178000000 years",
    "2562047788:00:54.775807",
    "1 mon -1 day",
    "36:00",
    "-36:00",
    "1 day -25:00",
    "-35 days",
    "65 days -50:00",
    "0.000001 seconds",
];

const MOMENTS: &[&str] = &[
    "2024-01-31 10:00",
    "2024-02-29",
    "2023-12-31 23:59:59.999999",
    "0001-01-01 BC",
    "2024-03-30 02:30",
    "2024-03-31 01:30",
    "2024-10-26 02:30",
    "2024-10-27 01:30",
    "2024-11-03 01:30",
    "2024-03-10 02:30",
    "4713-02-01 BC",
    "290000-01-01",
    "infinity",
    "-infinity",
    "2000-02-29 12:34:56.789012",
    "1970-01-01",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "3",
    "7",
    "0.5",
    "-0.5",
    "1.5",
    "0.1",
    "1e10",
    "1e-10",
    "1e300",
    "100000",
    "0.333333333",
    "12.75",
    "'0.25'",
    "'x'",
    "'NaN'::float8",
    "'Infinity'::float8",
    "2::smallint",
    "3::bigint",
    "0.7::real",
    "NULL",
];

const ZONES: &[&str] = &["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"];

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
    "doy",
    "epoch",
    "timezone",
    "nonsense",
];

const QUALIFIERS: &[&str] = &[
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "year to month",
    "day to hour",
    "day to minute",
    "day to second",
    "hour to minute",
    "hour to second",
    "minute to second",
    "second(2)",
    "day to second(1)",
    "month to day",
];

/// Operands of all types.
const OPERANDS: &[&str] = &[
    "time '12:34'",
    "interval '1 mon 2 days'",
    "timestamp '2024-01-31 10:00'",
    "date '2024-02-29'",
    "timestamptz '2024-03-30 12:00+00'",
    "'1 day'",
    "'12:00'",
    "'2024-01-01'",
    "NULL",
    "2",
    "1.5",
    "true",
    "'x'::text",
    "NULL::interval",
    "NULL::time",
    "NULL::timestamp",
    "2::float8",
];

/// Expressions over the columns of the table.
const OVER_ROWS: &[&str] = &[
    "i",
    "t",
    "i0",
    "t3",
    "-i",
    "i + i0",
    "i - i0",
    "i * f",
    "n * i0",
    "i0 / n",
    "i / 2",
    "2.5 * i0",
    "t + i0",
    "t - i0",
    "t - t3",
    "t - '01:00'",
    "d + t",
    "t + d",
    "d + i0",
    "d - i0",
    "at + i0",
    "at - i0",
    "tz + i0",
    "tz - i0",
    "i0 + tz",
    "tz + '1 mon'",
    "tz - interval '1 mon 1 day'",
    "at - d",
    "at - tz",
    "tz - d",
    "tz - at",
    "at + t",
    "tz - t",
    "t * 2",
    "t / 2",
    "t = i",
    "i < i0",
    "age(at, d)",
    "age(tz, at)",
    "age(tz, d)",
    "extract(epoch FROM i0)",
    "date_part('hour', t)",
    "date_trunc('month', i)",
    "justify_interval(i0)",
    "make_interval(days => id)",
    "make_time(id, 2, 3.5)",
    "tz::time",
    "at::time",
    "i::time",
    "t::interval",
    "coalesce(i, i0)",
    "i = '30 days'",
    "t > '12:00'",
    "make_interval(secs => f)",
    "justify_hours(t)",
];

/// Statements that are not drawn.
const FIXED: [&str; 24] = [
    "SELECT age(timestamp '2024-01-01'), 1 WHERE false",
    "SELECT age(current_date) = '0'",
    "SELECT age(timestamp 'today') = interval '0'",
    "SELECT age('2024-01-01')",
    "SELECT age(1)",
    "SELECT localtime < '24:00', localtime::text < '25'",
    "SELECT now() - interval '1 day' < now(), now() - now() = '0'",
    "SELECT statement_timestamp() + interval '1 day' > now()",
    "SELECT timestamp '2024-01-01' AT TIME ZONE interval '2 hours'",
    "SELECT timestamptz '2024-01-01 00:00+00' AT TIME ZONE interval '-03:30'",
    "SELECT timestamp '2024-01-01' AT TIME ZONE interval '1 day'",
    "SELECT timestamp '2024-01-01' AT TIME ZONE interval '200 hours'",
    "SELECT greatest(interval '1 mon', interval '30 days', interval '29 days')",
    "SELECT coalesce(NULL, interval '1 day', '2 days')",
    "SELECT coalesce(time '12:00', interval '1 day')",
    "SELECT nullif(interval '1 mon', interval '30 days')",
    "SELECT CASE WHEN true THEN time '12:00' ELSE '13:00' END",
    "SELECT interval '1 day' IN ('24:00', '1 mon'), time '12:00' BETWEEN '11:00' AND '13:00'",
    "SELECT interval '1 day' || 'x', 'x' || time '12:00'",
    "SELECT concat(interval '1 day', time '12:00')",
    "SELECT to_json(interval '1 day'), to_jsonb(time '12:00')",
    "SELECT abs(interval '-1 day')",
    "SELECT interval '1 day' IS DISTINCT FROM interval '24:00'",
    "SELECT date '2024-01-01' + 1 + time '12:00' - interval '1 mon'",
];

pub(super) fn statements() -> Vec<String> {
    let mut all = Vec::new();
    let mut draw = Draw::of_seed(1186);
    texts(&mut all);
    operators(&mut draw, &mut all);
    drawn_operators(&mut draw, &mut all);
    functions(&mut draw, &mut all);
    casts(&mut all);
    rows(&mut all);
    conditions(&mut all);
    all
}

fn texts(all: &mut Vec<String>) {
    for text in INTERVALS.split('|') {
        all.push(format!("SELECT interval '{text}'"));
        all.push(format!("SELECT '{text}'::interval(2)"));
    }
    for text in TIMES.split('|') {
        all.push(format!("SELECT time '{text}'"));
        all.push(format!("SELECT '{text}'::time(2)"));
    }
    for qualifier in QUALIFIERS {
        for text in [
            "1",
            "-2",
            "1:02",
            "1:02:03",
            "1:02.5",
            "3-4",
            "3 4",
            "3 4:05",
            "3 4:05:06.789",
            "1.5",
        ] {
            all.push(format!("SELECT interval '{text}' {qualifier}"));
        }
    }
    for span in SPANS {
        for digits in 0..7 {
            all.push(format!(
                "SELECT '{span}'::interval({digits}), interval '{span}'::text"
            ));
        }
    }
}

fn operators(draw: &mut Draw, all: &mut Vec<String>) {
    for span in SPANS {
        for operator in ["+", "-", "=", "<", ">=", "<>"] {
            for _ in 0..6 {
                let other = draw.of(SPANS);
                all.push(format!(
                    "SELECT interval '{span}' {operator} interval '{other}'"
                ));
            }
        }
        for number in NUMBERS {
            all.push(format!("SELECT interval '{span}' * {number}"));
            all.push(format!("SELECT {number} * interval '{span}'"));
            all.push(format!("SELECT interval '{span}' / {number}"));
        }
        all.push(format!("SELECT -interval '{span}'"));
        for moment in MOMENTS {
            for operator in ["+", "-"] {
                all.push(format!(
                    "SELECT timestamp '{moment}' {operator} interval '{span}'"
                ));
                let zone = draw.of(ZONES);
                all.push(format!(
                    "SET timezone = '{zone}'; \
                     SELECT timestamptz '{moment}' {operator} interval '{span}'"
                ));
                all.push(format!(
                    "SELECT date '{moment}' {operator} interval '{span}'"
                ));
            }
            all.push(format!("SELECT interval '{span}' + timestamp '{moment}'"));
        }
        for time in ["00:00", "12:34:56.789", "24:00", "23:59:59.999999"] {
            all.push(format!(
                "SELECT time '{time}' + interval '{span}', time '{time}' - interval '{span}'"
            ));
            all.push(format!(
                "SELECT interval '{span}' + time '{time}', interval '{span}' - time '{time}'"
            ));
            all.push(format!(
                "SELECT time '{time}' = interval '{span}', interval '{span}' < time '{time}'"
            ));
        }
    }
}

/// Operators whose operands are of other types.
fn drawn_operators(draw: &mut Draw, all: &mut Vec<String>) {
    let zoned = |draw: &mut Draw, text: String| {
        let zone = draw.of(ZONES);
        format!("SET timezone = '{zone}'; SELECT {text}")
    };
    for left in OPERANDS {
        for right in OPERANDS {
            // Without any type the store returns NULL.
            if [left, right]
                .iter()
                .all(|it| **it == "NULL" || it.starts_with("date"))
            {
                continue;
            }
            for operator in ["+", "-", "*", "/", "=", "<", "%"] {
                let text = format!("{left} {operator} {right}");
                all.push(zoned(draw, text));
            }
        }
    }
    for left in MOMENTS {
        for right in MOMENTS {
            all.push(format!("SELECT timestamp '{left}' - timestamp '{right}'"));
            all.push(zoned(
                draw,
                format!("timestamptz '{left}' - timestamptz '{right}'"),
            ));
            all.push(zoned(
                draw,
                format!("date '{left}' - timestamptz '{right}'"),
            ));
            all.push(zoned(
                draw,
                format!("age(timestamptz '{left}', timestamptz '{right}')"),
            ));
            all.push(format!(
                "SELECT age(timestamp '{left}', timestamp '{right}')"
            ));
            all.push(zoned(
                draw,
                format!("age(date '{left}', timestamp '{right}')"),
            ));
            all.push(zoned(draw, format!("age(date '{left}', '{right}')")));
        }
        for time in ["00:00", "12:34:56.789", "24:00"] {
            all.push(format!(
                "SELECT date '{left}' + time '{time}', time '{time}' + date '{left}'"
            ));
            all.push(format!("SELECT timestamp '{left}' - time '{time}'"));
        }
        all.push(zoned(
            draw,
            format!("timestamptz '{left}'::time, timestamp '{left}'::time(1)"),
        ));
    }
}

fn functions(draw: &mut Draw, all: &mut Vec<String>) {
    for span in SPANS {
        for function in ["justify_days", "justify_hours", "justify_interval"] {
            all.push(format!(
                "SELECT {function}(interval '{span}'), {function}('{span}')"
            ));
        }
        for field in FIELDS {
            all.push(format!("SELECT extract({field} FROM interval '{span}')"));
            all.push(format!("SELECT date_part('{field}', interval '{span}')"));
            all.push(format!("SELECT date_trunc('{field}', interval '{span}')"));
        }
    }
    for field in FIELDS {
        for time in ["00:00", "12:34:56.789012", "24:00", "23:59:59.999999"] {
            all.push(format!("SELECT extract({field} FROM time '{time}')"));
            all.push(format!("SELECT date_part('{field}', time '{time}')"));
            all.push(format!("SELECT date_trunc('{field}', time '{time}')"));
        }
    }
    let counts = [
        "0",
        "1",
        "-1",
        "13",
        "100",
        "2147483647",
        "-2147483648",
        "NULL",
        "1.5",
        "'2'",
    ];
    let seconds = [
        "0",
        "1.5",
        "-0.0000015",
        "59.9999999",
        "60",
        "61",
        "1e10",
        "1e20",
        "'NaN'",
        "NULL",
        "7",
    ];
    for _ in 0..300 {
        let parts: Vec<&str> = (0..6).map(|_| draw.of(&counts)).collect();
        let count = (draw.number() % 8) as usize;
        let parts: Vec<&str> = parts
            .into_iter()
            .chain([draw.of(&seconds)])
            .take(count)
            .collect();
        all.push(format!("SELECT make_interval({})", parts.join(", ")));
        let hour = draw.of(&["0", "12", "23", "24", "25", "-1", "'7'"]);
        let minute = draw.of(&["0", "30", "59", "60", "-1"]);
        let second = draw.of(&seconds);
        all.push(format!("SELECT make_time({hour}, {minute}, {second})"));
    }
    for part in [
        "years", "months", "weeks", "days", "hours", "mins", "secs", "seconds",
    ] {
        all.push(format!("SELECT make_interval({part} => 10)"));
        all.push(format!("SELECT make_interval(1, {part} => 3, secs => 2.5)"));
    }
    all.extend(FIXED.map(String::from));
}

fn casts(all: &mut Vec<String>) {
    let types = [
        "text",
        "varchar(5)",
        "time",
        "time(0)",
        "interval",
        "interval(0)",
        "date",
        "timestamp",
        "timestamptz",
        "integer",
        "double precision",
        "boolean",
        "json",
        "char(3)",
    ];
    for to in types {
        for column in ["i", "t", "i0", "t3", "at", "tz", "d", "f", "x"] {
            for zone in ["UTC", "Asia/Kolkata"] {
                all.push(format!(
                    "SET timezone = '{zone}'; \
                     SELECT id, {column}::{to} FROM i WHERE id <> 4 ORDER BY id"
                ));
                all.push(format!(
                    "SET timezone = '{zone}'; SELECT id, {column}::{to} FROM i WHERE id = 4"
                ));
            }
        }
    }
}

fn rows(all: &mut Vec<String>) {
    for expression in OVER_ROWS {
        for zone in ["UTC", "Europe/Berlin", "America/New_York"] {
            for rows in ["id IN (1, 2, 3, 5)", "id IN (6, 8)", "id = 4", "id = 7"] {
                all.push(format!(
                    "SET timezone = '{zone}'; \
                     SELECT id, {expression} FROM i WHERE {rows} ORDER BY id"
                ));
            }
        }
    }
    for aggregate in [
        "min(i)",
        "max(i)",
        "sum(i0)",
        "avg(i0)",
        "min(t)",
        "max(t)",
        "sum(t)",
        "avg(t)",
        "count(i)",
        "count(DISTINCT i)",
        "sum(DISTINCT i0)",
        "sum(i)",
        "min(i0)",
        "max(t3)",
        "avg(DISTINCT t)",
    ] {
        all.push(format!("SELECT {aggregate} FROM i"));
        all.push(format!("SELECT {aggregate} FROM i WHERE id < 4"));
        all.push(format!("SELECT {aggregate} FROM i WHERE id > 100"));
        // Of equal intervals PostgreSQL returns any one.
        if !matches!(aggregate, "min(i)" | "max(i)") {
            all.push(format!(
                "SELECT id % 2, {aggregate} FROM i GROUP BY 1 ORDER BY 1"
            ));
        }
    }
}

fn conditions(all: &mut Vec<String>) {
    for (table, column, values) in [
        (
            "ik",
            "i",
            &[
                "1 mon", "30 days", "1 year", "0", "24:00", "-1 day", "x", "360 days",
            ][..],
        ),
        (
            "tk",
            "t",
            &["12:00", "24:00", "00:00", "06:30", "23:59:59.999999", "x"][..],
        ),
    ] {
        for value in values {
            for operator in ["=", "<", "<=", ">", ">=", "<>"] {
                all.push(format!(
                    "SELECT {column}, n FROM {table} \
                     WHERE {column} {operator} '{value}' ORDER BY {column}"
                ));
                all.push(format!(
                    "SELECT {column} FROM {table} \
                     WHERE n = 2 AND {column} {operator} '{value}' ORDER BY 1 DESC"
                ));
            }
            all.push(format!(
                "SELECT n FROM {table} WHERE {column} IN ('{value}', '{value}')"
            ));
        }
        all.push(format!("SELECT {column} FROM {table} ORDER BY {column}"));
        all.push(format!(
            "SELECT {column} FROM {table} ORDER BY {column} DESC LIMIT 2"
        ));
        all.push(format!(
            "SELECT n, min({column}), max({column}) FROM {table} GROUP BY n ORDER BY n"
        ));
        all.push(format!("SELECT min({column}), max({column}) FROM {table}"));
        all.push(format!(
            "SELECT {column}, count(*) FROM {table} GROUP BY {column} ORDER BY {column}"
        ));
        all.push(format!("SELECT DISTINCT {column} FROM {table} ORDER BY 1"));
    }
    for condition in [
        "i = interval '1 mon'",
        "i > '29 days'",
        "t >= '12:00' AND t < '24:00'",
        "t - t3 > '1 hour'",
        "at - interval '1 mon' < '2024-01-01'",
        "tz + interval '1 day' > '2024-03-31'",
        "t = '24:00'",
        "i BETWEEN '1 day' AND '40 days'",
        "i0 IS NULL",
        "d + t > '2024-01-01'",
        "now() - i0 < now()",
        "tz < now() - interval '1 year'",
        "i IN ('30 days', '0')",
        "extract(hour FROM t) = 12",
    ] {
        for zone in ["UTC", "Europe/Berlin"] {
            all.push(format!(
                "SET timezone = '{zone}'; SELECT id FROM i WHERE {condition} ORDER BY id"
            ));
        }
    }
    all.push("SELECT i, count(*) FROM i WHERE id > 3 GROUP BY i ORDER BY i, 2".into());
    all.push("SELECT count(*) FROM i GROUP BY i ORDER BY i".into());
    all.push("SELECT id FROM i ORDER BY i, id".into());
    all.push("SELECT id FROM i ORDER BY t DESC, id".into());
}
