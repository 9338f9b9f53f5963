//! Generates the statements of the differential test: every combination of parts of literals, and
//! operators and conditions over values at the ends of their types. The generator's seed is fixed,
//! so every run generates the same statements.

use std::collections::BTreeSet;

use super::{drawn_functions, drawn_groups, drawn_numeric, drawn_types, drawn_zones};

/// The statements that create the table for the drawn statements, in both languages.
pub(super) const SETUP: &str = "
    CREATE TABLE d (id bigint PRIMARY KEY, n bigint, x double precision, s text, b boolean,
        at timestamp);
    INSERT INTO d VALUES
        (1, 0, 0, '', true, '2024-01-01'),
        (2, 7, 0.5, 'a', false, '2024-02-29 23:59:59.999999'),
        (3, -7, -0.5, 'B', NULL, 'infinity'),
        (4, 9223372036854775807, 1e300, 'a%b', true, '-infinity'),
        (5, -9223372036854775808, -1e300, 'a_b', false, '1969-12-31 23:59:59'),
        (6, 9007199254740993, 9007199254740992, 'ä', true, '0044-03-15 BC'),
        (7, NULL, 'NaN', NULL, NULL, NULL),
        (8, 1, 'Infinity', 'a\\b', true, '2024-01-01 00:00:00.5'),
        (9, 2, '-Infinity', 'aa', false, '2024-01-01 24:00:00'),
        (10, 3, NULL, 'b', true, '9999-12-31');";

/// A small generator, so that every run draws the same.
pub(super) struct Draw(u64);

impl Draw {
    /// Returns the choices of a seed.
    pub(super) fn of_seed(seed: u64) -> Draw {
        Draw(seed)
    }

    pub(super) fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[(self.next() >> 33) as usize % texts.len()]
    }

    pub(super) fn number(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// The generator xorshift64*.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Returns all drawn statements, each once.
pub(super) fn statements() -> Vec<String> {
    let mut draw = Draw(0x5eed_0025);
    let mut all = Vec::new();
    literals(&mut all);
    timestamps(&mut draw, &mut all);
    operators(&mut draw, &mut all);
    patterns(&mut draw, &mut all);
    rows(&mut draw, &mut all);
    drawn_types::statements(&mut draw, &mut all);
    drawn_functions::statements(&mut draw, &mut all);
    drawn_groups::statements(&mut draw, &mut all);
    drawn_numeric::statements(&mut draw, &mut all);
    all.extend(drawn_zones::statements());
    let mut seen = BTreeSet::new();
    all.retain(|it| seen.insert(it.clone()));
    all
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
        " ",
        "-",
        "+-5",
        "--5",
        "007",
        "1.5",
        "-1.5",
        ".5",
        "5.",
        "1e3",
        "1E-3",
        "1e",
        "e1",
        "1e400",
        "-1e400",
        "1e-400",
        "0e-400",
        "5e-324",
        "1e-323",
        "1.7976931348623157e308",
        "1.8e308",
        "4.9e-324",
        "2e-324",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "9007199254740993",
        "0x10",
        "1_000",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "+inf",
        "Infinity",
        "-INFINITY",
        "+infinity",
        "infinit",
        "NaN1",
        "1e15",
        "123456789012345678",
        "1e16",
        "0.0001",
        "0.00001",
        "0.1",
        "100000000000000",
        "1000000000000000",
        "12345678901234567890",
    ];
    for text in numbers {
        for name in ["bigint", "double precision", "float8", "int8"] {
            all.push(format!("SELECT '{text}'::{name}"));
        }
    }
    let words = [
        "t", "tr", "tru", "true", "truee", "T", "TRUE", "f", "fa", "false", "y", "ye", "yes", "n",
        "no", "on", "o", "of", "off", "1", "0", "2", "", " true ", "nope",
    ];
    all.extend(words.map(|word| format!("SELECT '{word}'::boolean")));
    let uuids = [
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        "a0ee--bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        "-a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
        "a0e-ebc999c0b4ef8bb6d6bb9bd380a11",
        "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ];
    all.extend(uuids.map(|text| format!("SELECT '{text}'::uuid")));
    let bytes = [
        "\\x", "\\x00ff", "\\xFF", "\\x0", "\\x00 ff", "\\x0 0", " \\x00", "\\x00 ", "\\X00",
        "\\xg0", "abc", "",
    ];
    all.extend(bytes.map(|text| format!("SELECT '{text}'::bytea")));
    let decimals = [
        "1.5",
        "2.5",
        "-2.5",
        "0.5",
        "1.50",
        "1e5",
        "1e-3",
        ".5",
        "9007199254740993.4",
        "9223372036854775807.4",
        "9223372036854775807.5",
        "1e30",
    ];
    for number in decimals {
        for name in ["bigint", "float8", "text", "boolean"] {
            // In parentheses, since a sign in front binds less than the cast.
            all.push(format!("SELECT ({number})::{name}"));
        }
    }
    for value in [
        "true",
        "'5'::bigint",
        "'2.5'::float8",
        "'2024-01-01'::timestamp",
        "'7'",
        "0",
        "5",
    ] {
        for name in [
            "bigint",
            "float8",
            "text",
            "boolean",
            "timestamp",
            "bytea",
            "uuid",
        ] {
            all.push(format!("SELECT ({value})::{name}"));
        }
    }
}

// tidy: long — a list of parts, and how they are put together
fn timestamps(draw: &mut Draw, all: &mut Vec<String>) {
    let dates = [
        "2024-01-01",
        "2024-02-29",
        "2023-02-29",
        "2024-1-5",
        "0001-01-01",
        "9999-12-31",
        "2024-13-01",
        "2024-00-10",
        "2024-04-31",
        "12345-06-07",
        "4714-11-24",
        "4713-01-01",
        "2024-01",
        "0000-01-01",
        "1969-12-31",
        "2024-12-31",
    ];
    let times = [
        "",
        " 00:00:00",
        " 24:00:00",
        " 24:00:01",
        " 23:59:60",
        " 23:59:60.5",
        " 23:59:59.9999999",
        " 05:15",
        " 5:15:00",
        " 25:00:00",
        " 12:60:00",
        " 12:30:61",
        " 10:00:00.5",
        " 10:00:00.",
        " 10:00:00.1234565",
        " 10:00:00.1234575",
        " 10:00:00.123456789",
        " 10:00:00.0000005",
        " 10:00:00.0000015",
        "T10:20:30",
        "T",
        " 24:00",
        " 24:00:00.0000001",
        " 24:00:00.000001",
        " 10:20:30.12345678901234567890",
        " 10",
        " 10:5",
    ];
    let zones = [
        "", "", "Z", "+02", "-05:30", " UTC", "+0530", "+16", "-15:59", "+2", " +02", " GMT", "z",
        "+00:00", "+1x",
    ];
    for date in dates {
        for time in times {
            let (zone, era) = (draw.of(&zones), draw.of(&["", "", "", " BC"]));
            all.push(format!("SELECT '{date}{time}'::timestamp"));
            all.push(format!("SELECT '{date}{time}{zone}{era}'::timestamp"));
        }
    }
    for zone in zones {
        all.push(format!("SELECT '2024-01-01 00:00:00{zone}'::timestamp"));
    }
    for word in [
        "infinity",
        "-infinity",
        "Infinity",
        "+infinity",
        "epoch",
        "Epoch",
        "infinit",
        "never",
        " 2024-01-01 ",
        "2024-01-01  10:00:00",
        "",
        " ",
    ] {
        all.push(format!("SELECT '{word}'::timestamp"));
        all.push(format!("SELECT timestamp '{word}'"));
    }
    let values = [
        "'infinity'",
        "'-infinity'",
        "'2024-01-01'",
        "'2024-01-01 24:00:00'",
        "'0044-03-15 BC'",
        "NULL",
    ];
    for left in values {
        for right in values {
            let operator = draw.of(&["=", "<>", "<", "<=", ">", ">="]);
            all.push(format!(
                "SELECT {left}::timestamp {operator} {right}::timestamp"
            ));
        }
    }
}

// tidy: long — a list of parts, and how they are put together
fn operators(draw: &mut Draw, all: &mut Vec<String>) {
    let integers = [
        "0",
        "1",
        "-1",
        "2",
        "7",
        "9223372036854775807",
        "-9223372036854775808",
        "9007199254740993",
        "3037000500",
    ];
    let floats = [
        "0",
        "-0",
        "1",
        "0.1",
        "-2.5",
        "1e300",
        "1e-300",
        "5e-324",
        "NaN",
        "Infinity",
        "-Infinity",
        "9007199254740992",
        "1e15",
        "123456.789",
    ];
    let decimals = [
        "0.0",
        "1.0",
        "1.5",
        "-0.5",
        "1e30",
        "-1e30",
        "9223372036854775807.5",
        "9223372036854775807.0",
        "9007199254740992.5",
        "9007199254740993.0",
        "-9223372036854775808.0",
        "1e-30",
        "7",
        "2e0",
    ];
    let comparisons = ["=", "<>", "<", "<=", ">", ">="];
    for left in integers {
        for right in integers {
            for operator in ["+", "-", "*", "/", "%", draw.of(&comparisons)] {
                all.push(format!(
                    "SELECT '{left}'::bigint {operator} '{right}'::bigint"
                ));
            }
        }
        for right in decimals {
            for operator in comparisons {
                all.push(format!("SELECT '{left}'::bigint {operator} {right}"));
            }
            all.push(format!(
                "SELECT {right} {} '{left}'::bigint",
                draw.of(&comparisons)
            ));
            all.push(format!("SELECT '{left}'::bigint IN (1, {right}, 7)"));
            all.push(format!("SELECT '{left}'::bigint NOT IN ({right}, NULL)"));
            all.push(format!(
                "SELECT '{left}'::bigint BETWEEN {right} AND {}",
                draw.of(&decimals)
            ));
        }
        for right in floats {
            for operator in ["+", "*", "/", draw.of(&comparisons), draw.of(&comparisons)] {
                all.push(format!(
                    "SELECT '{left}'::bigint {operator} '{right}'::float8"
                ));
            }
        }
        all.push(format!("SELECT - '{left}'::bigint"));
    }
    for left in floats {
        for right in floats {
            for operator in ["+", "-", "*", "/", draw.of(&comparisons)] {
                all.push(format!(
                    "SELECT '{left}'::float8 {operator} '{right}'::float8"
                ));
            }
        }
        for right in decimals {
            all.push(format!(
                "SELECT '{left}'::float8 {} {right}",
                draw.of(&comparisons)
            ));
        }
        all.push(format!("SELECT '{left}'::float8::bigint"));
        all.push(format!("SELECT - '{left}'::float8"));
    }
    for left in decimals {
        for right in decimals {
            all.push(format!("SELECT {left} {} {right}", draw.of(&comparisons)));
        }
    }
    let truths = ["true", "false", "NULL::boolean"];
    for left in truths {
        for right in truths {
            for operator in [
                "AND",
                "OR",
                "=",
                "<>",
                "<",
                "IS DISTINCT FROM",
                "IS NOT DISTINCT FROM",
            ] {
                all.push(format!("SELECT {left} {operator} {right}"));
            }
        }
        for test in [
            "IS TRUE",
            "IS NOT TRUE",
            "IS FALSE",
            "IS NOT FALSE",
            "IS NULL",
            "IS UNKNOWN",
        ] {
            all.push(format!("SELECT {left} {test}"));
            all.push(format!("SELECT NOT {left} {test}"));
        }
    }
    let texts = ["''", "'a'", "'b'", "'ä'", "'A'", "NULL", "'a b'"];
    for left in texts {
        for right in texts {
            let operator = draw.of(&comparisons);
            all.push(format!("SELECT {left}::text {operator} {right}::text"));
            all.push(format!("SELECT {left}::text || {right}::text"));
        }
    }
}

fn patterns(draw: &mut Draw, all: &mut Vec<String>) {
    let parts = ["a", "b", "%", "_", "\\", "!", "ä", "", "a"];
    let texts = [
        "", "a", "ab", "a%b", "a_b", "a\\b", "!a", "aäb", "!", "\\", "b!b",
    ];
    let escapes = [
        "",
        "",
        " ESCAPE '!'",
        " ESCAPE ''",
        " ESCAPE '\\'",
        " ESCAPE '%'",
        " ESCAPE 'ä'",
    ];
    for _ in 0..500 {
        let text = draw.of(&texts);
        let pattern: String = (0..4).map(|_| draw.of(&parts)).collect();
        let (not, escape) = (draw.of(&["", "NOT "]), draw.of(&escapes));
        all.push(format!("SELECT '{text}' {not}LIKE '{pattern}'{escape}"));
    }
    for escape in ["NULL", "'!!'", "'ab'"] {
        all.push(format!("SELECT 'a' LIKE 'a' ESCAPE {escape}"));
        all.push(format!("SELECT 'a' NOT LIKE 'a' ESCAPE {escape}"));
    }
    all.push("SELECT NULL LIKE 'a' ESCAPE '!'".to_string());
    all.push("SELECT 'a' LIKE NULL ESCAPE '!'".to_string());
}

// tidy: long — a list of parts, and how they are put together
fn rows(draw: &mut Draw, all: &mut Vec<String>) {
    let columns = ["id", "n", "x", "s", "b", "at"];
    let conditions = [
        "id = 1.5",
        "id = 2.0",
        "id IN (1, 1.5, 3)",
        "id BETWEEN 0.5 AND 2.5",
        "id < 1e30",
        "id > 2.5",
        "n = 7.0",
        "n = 0.5",
        "n < 0.5",
        "n <= -6.5",
        "n > 9223372036854775806.5",
        "n = 9007199254740993.0",
        "n <> 1.5",
        "NOT n = 1.5",
        "n BETWEEN -7.5 AND 7.5",
        "n NOT BETWEEN -7.5 AND 7.5",
        "n IN (0.5, 7.0, 1e40)",
        "n NOT IN (0.5, 7)",
        "1.5 < n",
        "n = x",
        "n < x",
        "x = 0.5",
        "x > 1e299",
        "x = 'NaN'",
        "x <> x",
        "x >= 'Infinity'",
        "n = '9007199254740992'::float8",
        "n > '1e18'::float8",
        "n < 'NaN'::float8",
        "at = '2024-01-01 00:00:00+02'",
        "at > '2024-01-01'",
        "at = 'infinity'",
        "at < 'infinity'",
        "at <= '2024-01-02 00:00:00'",
        "at = '2024-01-01 24:00:00'",
        "s LIKE 'a!%b' ESCAPE '!'",
        "s LIKE 'a\\%b'",
        "s LIKE 'a\\%b' ESCAPE ''",
        "s NOT LIKE '%!_%' ESCAPE '!'",
        "s > 'a'",
        "s || 'x' = 'ax'",
        "b",
        "NOT b",
        "b IS NOT TRUE",
        "b = (n > 0)",
        "n IS NULL",
        "true",
        "NULL",
        "n % 2 = 1",
        "n + 0 = n",
        "x / 2 = 0.25",
        "10 / n > 1",
    ];
    let orders = [
        "1 / (n - 7)",
        "n + 9223372036854775807",
        "- n",
        "n % 3",
        "x * 2",
        "x * 1e10",
        "s || s",
        "n / 2",
        "b",
        "at",
        "x",
        "n",
        "s",
        "1 / n",
        "x / n",
        "at IS NULL",
    ];
    for condition in conditions {
        all.push(format!("SELECT id FROM d WHERE {condition} ORDER BY id"));
        all.push(format!("SELECT count(*) FROM d WHERE {condition}"));
    }
    for _ in 0..600 {
        let (one, other) = (
            draw.of(&conditions[..conditions.len() - 1]),
            draw.of(&conditions[..48]),
        );
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
        let (column, limit) = (
            draw.of(&columns),
            draw.of(&["", "", " LIMIT 3", " LIMIT 2 OFFSET 1"]),
        );
        all.push(format!(
            "SELECT id, {column} FROM d WHERE {condition} ORDER BY {order}{way}, id{limit}"
        ));
    }
}
