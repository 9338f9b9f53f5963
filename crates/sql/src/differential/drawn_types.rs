//! Generates statements about the types that are variants of others: shorter integers and floats,
//! texts with a limit, dates, and timestamps with a zone.

use super::drawn::Draw;

/// The statements that create the table for these statements, in both languages.
pub(super) const SETUP: &str = "
    CREATE TABLE e (id integer PRIMARY KEY, h smallint, i integer, n bigint, r real, v varchar(4),
        c char(4), s text, dt date, at timestamp, z timestamptz);
    INSERT INTO e VALUES
        (1, 0, 0, 0, 0, '', '', '', '2024-01-01', '2024-01-01', '2024-01-01'),
        (2, 7, 7, 7, 0.5, 'a', 'a', 'a', '2024-02-29', '2024-02-29 12:00', '2024-02-29 12:00+02'),
        (3, -7, -7, -7, -0.1, 'a  ', 'a  ', 'a  ', 'infinity', 'infinity', 'infinity'),
        (4, 32767, 2147483647, 2147483648, 3e38, 'abcd', 'abcd', 'abcd', '-infinity', '-infinity',
            '-infinity'),
        (5, -32768, -2147483648, -2147483649, 1e-44, 'ä', 'ä', 'ä', '0044-03-15 BC',
            '0044-03-15 BC', '0044-03-15 00:00:00+00 BC'),
        (6, NULL, NULL, NULL, 'NaN', NULL, NULL, NULL, NULL, NULL, NULL),
        (7, 1, 16777217, 16777217, 16777217, 'b', 'b', 'b ', '5874897-12-31',
            '2024-01-01 00:00:00.5', '2024-01-01 00:00:00.5-05:30');";

const TYPES: [&str; 15] = [
    "smallint",
    "integer",
    "bigint",
    "real",
    "float8",
    "text",
    "varchar(2)",
    "char(3)",
    "boolean",
    "date",
    "timestamp",
    "timestamptz",
    "bytea",
    "uuid",
    "char",
];

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

pub(super) fn statements(draw: &mut Draw, all: &mut Vec<String>) {
    literals(all);
    floats(draw, all);
    times(draw, all);
    operators(draw, all);
    texts(draw, all);
    rows(draw, all);
}

// tidy: long — a list of parts, and how they are put together
fn literals(all: &mut Vec<String>) {
    let numbers = [
        "0",
        "-0",
        "+5",
        " 5 ",
        "5 5",
        "",
        "-",
        "007",
        "1.5",
        "1e3",
        "32767",
        "32768",
        "-32768",
        "-32769",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "1_000",
        "nan",
        "-inf",
        "Infinity",
        "1e38",
        "3.5e38",
        "-3.5e38",
        "1e-45",
        "1e-46",
        "7e-46",
        "8e-46",
        "0.1",
        "1e6",
        "999999",
        "1000000",
        "9999995",
        "123456789",
        "0.0001",
        "0.00001",
        "16777217",
    ];
    for text in numbers {
        for name in [
            "smallint", "integer", "int", "int2", "int4", "real", "float4",
        ] {
            all.push(format!("SELECT '{text}'::{name}"));
        }
    }
    let plain = [
        "1.5",
        "2.5",
        "-2.5",
        "32767.4",
        "32767.5",
        "2147483647.4",
        "2147483647.5",
        "-32768.5",
        "1e30",
        "40000",
        "3000000000",
        "0.1",
        "16777217",
        "0.30000001192092896",
        "1e-50",
    ];
    for number in plain {
        for name in [
            "smallint",
            "integer",
            "real",
            "varchar(3)",
            "char(3)",
            "boolean",
            "date",
        ] {
            all.push(format!("SELECT ({number})::{name}"));
        }
    }
    let values = [
        "true",
        "0::smallint",
        "5::smallint",
        "5",
        "70000",
        "'5'::bigint",
        "'2.5'::float8",
        "'2.5'::real",
        "'1e20'::real",
        "'NaN'::real",
        "'2024-01-01 12:00'::timestamp",
        "'2024-01-01 12:00-02'::timestamptz",
        "'2024-01-01'::date",
        "'infinity'::date",
        "'5874897-12-31'::date",
        "'-infinity'::timestamptz",
        "'abc  '",
        "'abc  '::text",
        "'abc  '::varchar(5)",
        "'abc '::char(5)",
        "'12'::varchar(5)",
        "'12'::char(5)",
        "'2024-01-01'::text",
        "'2024-01-01 10:00+02'::text",
        "NULL",
    ];
    for value in values {
        for name in TYPES {
            all.push(format!("SELECT ({value})::{name}"));
        }
    }
}

/// Floats of 32 bits as they are printed: of any bits, and whole numbers beyond the mantissa.
fn floats(draw: &mut Draw, all: &mut Vec<String>) {
    for _ in 0..500 {
        let value = f32::from_bits(draw.number());
        all.push(format!("SELECT '{value:e}'::real"));
    }
    for power in 20..70 {
        for by in [-1.0, 0.0, 1.0_f32] {
            let value = 2_f32.powi(power);
            let value = value + by * 2_f32.powi((power - 23).max(0));
            all.push(format!("SELECT '{value:e}'::real"));
        }
    }
    for _ in 0..100 {
        let value = f64::from_bits(u64::from(draw.number()) << 32 | u64::from(draw.number()));
        all.push(format!("SELECT '{value:e}'::float8"));
    }
}

// tidy: long — a list of parts, and how they are put together
fn times(draw: &mut Draw, all: &mut Vec<String>) {
    let dates = [
        "2024-01-01",
        "2024-02-29",
        "2023-02-29",
        "2024-1-5",
        "0001-01-01",
        "9999-12-31",
        "2024-13-01",
        "12345-06-07",
        "4714-11-24",
        "4714-11-23",
        "5874897-12-31",
        "5874898-01-01",
        "5874898-06-01",
        "2024-01",
        "0000-01-01",
        "294276-12-31",
        "294277-01-01",
        "12345678-01-01",
    ];
    let times = [
        "",
        " 00:00:00",
        " 24:00:00",
        " 24:00:01",
        " 05:15",
        " 25:00:00",
        " 23:59:59.9999999",
        "T10:20:30",
    ];
    let zones = [
        "",
        "Z",
        "+02",
        "-05:30",
        " UTC",
        "+0530",
        "+15:59:59",
        "-15:59",
        "+16",
        "+02:00:30",
        "+2",
        "+1x",
    ];
    for date in dates {
        for time in times {
            let (zone, era) = (draw.of(&zones), draw.of(&["", "", " BC"]));
            let zone = if time.is_empty() { "" } else { zone };
            all.push(format!("SELECT '{date}{time}{era}'::date"));
            all.push(format!("SELECT '{date}{time}{zone}{era}'::date"));
            all.push(format!("SELECT '{date}{time}{zone}{era}'::timestamptz"));
        }
    }
    for zone in zones {
        all.push(format!(
            "SELECT '2024-01-01 00:00:00.25{zone}'::timestamptz"
        ));
    }
    for word in [
        "infinity",
        "-infinity",
        "epoch",
        "never",
        "",
        " 2024-01-01 ",
    ] {
        all.push(format!("SELECT '{word}'::date"));
        all.push(format!("SELECT '{word}'::timestamptz"));
    }
    let days = [
        "'infinity'::date",
        "'-infinity'::date",
        "'2024-01-01'::date",
        "'0044-03-15 BC'::date",
        "'5874897-12-31'::date",
        "'4714-11-24 BC'::date",
        "NULL::date",
    ];
    let moments = [
        "'infinity'::timestamp",
        "'2024-01-01'::timestamp",
        "'2024-01-01 00:00:01'::timestamp",
        "'-infinity'::timestamptz",
        "'2024-01-01 00:00:00+00'::timestamptz",
        "'2023-12-31 23:00-02'::timestamptz",
        "NULL::timestamptz",
        "'294276-12-31'::timestamp",
    ];
    let numbers = [
        "1",
        "-1",
        "100000",
        "2147483647",
        "2::smallint",
        "2::bigint",
        "1.5",
    ];
    for day in days {
        for other in days.into_iter().chain(moments) {
            all.push(format!("SELECT {day} {} {other}", draw.of(&COMPARISONS)));
            all.push(format!("SELECT {other} {} {day}", draw.of(&COMPARISONS)));
        }
        for other in days {
            all.push(format!("SELECT {day} - {other}"));
            all.push(format!("SELECT {day} + {other}"));
        }
        for number in numbers {
            for operator in ["+", "-", "*"] {
                all.push(format!("SELECT {day} {operator} {number}"));
            }
            all.push(format!("SELECT {number} + {day}"));
        }
    }
    for left in moments {
        for right in moments {
            all.push(format!("SELECT {left} {} {right}", draw.of(&COMPARISONS)));
        }
    }
}

fn operators(draw: &mut Draw, all: &mut Vec<String>) {
    let numbers = [
        "0::smallint",
        "7::smallint",
        "(-7)::smallint",
        "32767::smallint",
        "(-32768)::smallint",
        "0",
        "1",
        "-1",
        "46341",
        "2147483647",
        "(-2147483648)::int",
        "2147483648",
        "'0.1'::real",
        "'-2.5'::real",
        "'3e38'::real",
        "'1e-45'::real",
        "'NaN'::real",
        "'Infinity'::real",
        "'16777217'::real",
        "'0.1'::float8",
        "'16777217'::float8",
    ];
    for left in numbers {
        for right in ["0.1", "1.5", "1e30"] {
            all.push(format!("SELECT {left} {} {right}", draw.of(&COMPARISONS)));
        }
        for right in numbers {
            for operator in ["+", "-", "*", "/", "%", draw.of(&COMPARISONS)] {
                all.push(format!("SELECT {left} {operator} {right}"));
            }
        }
        all.push(format!("SELECT - ({left})"));
        all.push(format!("SELECT {left} IN (1, 0.1, 7)"));
        all.push(format!(
            "SELECT {left} BETWEEN -2.5 AND {}",
            draw.of(&numbers)
        ));
    }
}

fn texts(draw: &mut Draw, all: &mut Vec<String>) {
    let values = [
        "'a'",
        "'a  '",
        "'a'::text",
        "'a  '::text",
        "'a'::varchar(3)",
        "'a  '::varchar(3)",
        "'a  '::char(3)",
        "'a'::char(5)",
        "'ab'::char(3)",
        "''::char(2)",
        "NULL::char(3)",
    ];
    for left in values {
        for right in values {
            all.push(format!("SELECT {left} {} {right}", draw.of(&COMPARISONS)));
            all.push(format!("SELECT {left} || {right}"));
        }
        all.push(format!("SELECT {left} IN ('a', 'b  ')"));
        all.push(format!("SELECT {left} IS NULL"));
    }
}

// tidy: long — a list of parts, and how they are put together
fn rows(draw: &mut Draw, all: &mut Vec<String>) {
    let columns = ["id", "h", "i", "n", "r", "v", "c", "s", "dt", "at", "z"];
    let conditions = [
        "id = 2",
        "id = 2::bigint",
        "id IN (1, 2.0, 7)",
        "id < 2147483648",
        "id > 2.5",
        "id = 3000000000",
        "h = 7",
        "h < 32768",
        "h > 6.5",
        "h = i",
        "i = n",
        "i = r",
        "h + 1 > 0",
        "i + 1 > 0",
        "i < '16777216'::float8",
        "i = '16777216'::real",
        "n = 7::smallint",
        "r = 0.5",
        "r = -0.1",
        "r = '-0.1'",
        "r = '-0.1'::real",
        "r < '0'::float8",
        "r > 1e38",
        "r = 'NaN'",
        "r = 16777217",
        "r = i",
        "v = 'a'",
        "v = 'a  '",
        "v > 'a'",
        "v = c",
        "c = 'a'",
        "c = 'a    '",
        "c = 'abcde'",
        "c > 'a'",
        "c = s",
        "c < 'b'",
        "c IN ('a ', 'b  ')",
        "c || '!' = 'a!'",
        "v || '!' = 'a  !'",
        "dt = '2024-01-01'",
        "dt > '2024-01-01'",
        "dt = 'infinity'",
        "dt < '2024-01-01'::timestamp",
        "dt = at",
        "dt = z",
        "at = z",
        "at > '2024-01-01'::date",
        "at = '2024-01-01'::timestamptz",
        "z > '2024-01-01 00:00-02'",
        "z = '2024-02-29 10:00'",
        "z <= '2024-01-01'::date",
        "z = 'infinity'",
        "dt + 1 = '2024-01-02'",
        "dt - '2024-01-01'::date = 59",
        "i::smallint = 7",
        "h::text = '7'",
        "at::date = dt",
        "z::timestamp = at",
        "v::char(1) = 'a'",
        "true",
    ];
    let orders = [
        "h",
        "i",
        "n",
        "r",
        "v",
        "c",
        "s",
        "dt",
        "at",
        "z",
        "h + i",
        "i / h",
        "r * 2",
        "- r",
        "c || v",
        "dt - '2024-01-01'::date",
        "i::text",
        "at::date",
    ];
    for condition in conditions {
        all.push(format!("SELECT id FROM e WHERE {condition} ORDER BY id"));
    }
    for column in columns {
        for name in TYPES {
            all.push(format!(
                "SELECT {column}::{name} FROM e WHERE id IN (1, 2, 7) ORDER BY id"
            ));
        }
        all.push(format!("SELECT min({column}), max({column}) FROM e"));
    }
    for _ in 0..400 {
        let (one, other) = (draw.of(&conditions), draw.of(&conditions));
        let condition = match draw.of(&["and", "or", "not", "one"]) {
            "and" => format!("{one} AND ({other})"),
            "or" => format!("({one}) OR ({other})"),
            "not" => format!("NOT ({one} OR {other})"),
            _ => one.to_string(),
        };
        let (order, way) = (
            draw.of(&orders),
            draw.of(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]),
        );
        let (column, limit) = (draw.of(&columns), draw.of(&["", "", " LIMIT 3"]));
        all.push(format!(
            "SELECT id, {column} FROM e WHERE {condition} ORDER BY {order}{way}, id{limit}"
        ));
    }
}
