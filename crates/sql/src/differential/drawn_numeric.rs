//! Generates statements about `numeric`: literals, casts, arithmetic and functions over numbers of
//! few and many digits, and a table with columns of it.

use super::drawn::Draw;

/// The statements that create the table for these statements, in both languages.
pub(super) const SETUP: &str = "
    CREATE TABLE f (id integer PRIMARY KEY, a numeric, b numeric(6,2), c numeric(3,5), i integer,
        n bigint, x double precision, r real);
    INSERT INTO f VALUES
        (1, 0, 0, 0, 0, 0, 0, 0),
        (2, 1.5, 1.5, 0.00155, 1, 1, 1.5, 1.5),
        (3, 1.50, 1.505, 0.00999, -1, -1, 0.1, 0.1),
        (4, -2.500, -2.5, -0.005, 2, 2, -2.5, -2.5),
        (5, 'NaN', 'NaN', 'NaN', 7, 7, 'NaN', 'NaN'),
        (6, 'Infinity', 9999.99, NULL, 2147483647, 9223372036854775807, 'Infinity', 'Infinity'),
        (7, '-Infinity', -9999.994, NULL, -2147483648, -9223372036854775808, '-Infinity',
            '-Infinity'),
        (8, 12345678901234567890.123456789, 0.005, NULL, 3, 3, 1e300, 1e30),
        (9, 1e-30, 100, NULL, 100, 100, 1e-300, 1e-30),
        (10, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (11, 9007199254740993, 2, 0.00002, 100, 9007199254740993, 9007199254740992, 2);";

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
const ARITHMETIC: [&str; 5] = ["+", "-", "*", "/", "%"];

/// Numbers at the ends of types, with equal ones of different scales.
const NUMBERS: [&str; 30] = [
    "0.0",
    "0.000",
    "1.0",
    "1.50",
    "1.5",
    "2.5",
    "-2.5",
    "0.5",
    "-0.5",
    "0.1",
    "10.00",
    "9999.5",
    "99999999.99",
    "1e20",
    "-1e20",
    "1e-20",
    "3000000000.5",
    "9223372036854775807.5",
    "9223372036854775808",
    "-9223372036854775808.5",
    "123456789012345678901234567890.123456789",
    "0.00000000000000000000000123",
    "32767.5",
    "-32768.5",
    "2147483647.5",
    "'NaN'::numeric",
    "'Infinity'::numeric",
    "'-Infinity'::numeric",
    "NULL::numeric",
    "'7'::numeric(10,3)",
];

pub(super) fn statements(draw: &mut Draw, all: &mut Vec<String>) {
    literals(draw, all);
    casts(draw, all);
    operators(draw, all);
    functions(draw, all);
    rows(draw, all);
}

/// Returns a number without a sign, of up to 40 digits before and after the point.
fn drawn(draw: &mut Draw) -> String {
    let digits = |draw: &mut Draw, count: u32| -> String {
        let digits = (0..count).map(|_| draw.of(&["0", "0", "1", "4", "5", "9", "9", "7"]));
        digits.collect()
    };
    let long = ["0", "1", "2", "3", "5", "8", "15", "21", "40"];
    let whole: u32 = draw.of(&long).parse().unwrap();
    let fraction: u32 = draw.of(&long).parse().unwrap();
    let (whole, fraction) = (digits(draw, whole), digits(draw, fraction));
    format!("0{whole}.{fraction}")
}

/// Returns a number as an operand, negative or not.
fn operand(draw: &mut Draw) -> String {
    let number = drawn(draw);
    match draw.of(&["plain", "plain", "negative", "known"]) {
        "plain" => number,
        "negative" => format!("(-{number})"),
        _ => format!("({})", draw.of(&NUMBERS)),
    }
}

// tidy: long — a list of parts, and how they are put together
fn literals(draw: &mut Draw, all: &mut Vec<String>) {
    let texts = [
        "0",
        "-0",
        "-0.00",
        "+5",
        " 5 ",
        "  5  ",
        "5 5",
        "",
        " ",
        "-",
        ".",
        "-.",
        "007",
        "1.5",
        ".5",
        "5.",
        "1.2.3",
        "1e3",
        "1E-3",
        "1e+3",
        "1e",
        "1e+",
        "1e 3",
        "1e3 ",
        "e1",
        "1_000",
        "0x10",
        "nan",
        "NaN",
        "+NaN",
        "NaN1",
        "inf",
        "-inf",
        "+inf",
        "Infinity",
        "-INFINITY",
        "infinit",
        "1e131071x",
        "1e131072",
        "1e-16384",
        "0e-16384",
        "0e99999",
        "1e2147483648",
        "1e-2147483648",
        "1e99999999999999999999",
        "-00000.00001",
        "ä",
    ];
    for text in texts {
        for name in ["numeric", "numeric(5,2)", "numeric(3)", "decimal(2,4)"] {
            all.push(format!("SELECT '{text}'::{name}"));
        }
    }
    let plain = [
        "1.5",
        "1.50",
        ".5",
        "5.",
        "1e3",
        "1e-3",
        "007",
        "00.10",
        "- 1.5",
        "-(-1.5)",
        "+1.5",
        "9223372036854775808",
        "1e25",
        "1.5e2",
        "1E+2",
        "1e200000",
        "1e-20000",
        "-0.0",
    ];
    all.extend(plain.map(|it| format!("SELECT {it}")));
    for (text, name) in [
        ("999.994", "numeric(5,2)"),
        ("999.995", "numeric(5,2)"),
        ("-999.995", "numeric(5,2)"),
        ("0.5", "numeric(1)"),
        ("9.5", "numeric(1)"),
        ("0.00005", "numeric(2,4)"),
        ("0.0099", "numeric(2,4)"),
        ("0.00995", "numeric(2,4)"),
        ("0.01", "numeric(2,4)"),
        ("Infinity", "numeric(5,2)"),
        ("NaN", "numeric(5,2)"),
        ("1", "numeric(0)"),
        ("1", "numeric(1001)"),
        ("1", "numeric(1000,1000)"),
        ("0.1", "numeric(1000,1000)"),
        ("1", "numeric(5,1001)"),
        ("1", "dec(5)"),
        ("1", "numeric(5, 2)"),
        ("149", "numeric(2,-2)"),
        ("150", "numeric(2,-2)"),
        ("9949", "numeric(2,-2)"),
        ("9950", "numeric(2,-2)"),
        ("0", "numeric(2,-2)"),
    ] {
        all.push(format!("SELECT '{text}'::{name}"));
        all.push(format!("SELECT CAST({text} AS {name})"));
    }
    for _ in 0..300 {
        let (number, power) = (drawn(draw), draw.of(&["", "e3", "e-3", "e25", "e-25"]));
        let name = draw.of(&[
            "numeric",
            "numeric(10,2)",
            "numeric(40)",
            "numeric(38,10)",
            "numeric(5,7)",
        ]);
        all.push(format!("SELECT '{number}{power}'::{name}"));
        all.push(format!("SELECT -{number}{power}"));
    }
}

fn casts(draw: &mut Draw, all: &mut Vec<String>) {
    let types = [
        "smallint",
        "integer",
        "bigint",
        "real",
        "float8",
        "numeric",
        "numeric(10,3)",
        "text",
        "varchar(4)",
        "char(12)",
        "boolean",
        "date",
        "uuid",
    ];
    let others = [
        "7::smallint",
        "70000",
        "'5'::bigint",
        "'2.5'::float8",
        "'0.1'::float8",
        "'1e300'::float8",
        "'1e-300'::float8",
        "'123456789.123456789'::float8",
        "'-1e22'::float8",
        "'NaN'::float8",
        "'-Infinity'::float8",
        "'0.1'::real",
        "'16777217'::real",
        "'1e-45'::real",
        "'1234567.5'::real",
        "'0.30000001192092896'::real",
        "true",
        "'12.50'::text",
        "'abc'::text",
        "'12.50'::varchar(4)",
        "'12.5 '::char(6)",
        "'2024-01-01'::date",
        "NULL::text",
    ];
    for value in others {
        for name in ["numeric", "numeric(10,3)", "numeric(3,1)"] {
            all.push(format!("SELECT ({value})::{name}"));
        }
    }
    for value in NUMBERS {
        for name in types {
            all.push(format!("SELECT ({value})::{name}"));
        }
    }
    for _ in 0..200 {
        let (number, name) = (operand(draw), draw.of(&types));
        all.push(format!("SELECT {number}::{name}"));
        let bits = u64::from(draw.number()) << 32 | u64::from(draw.number());
        let double = f64::from_bits(bits);
        if double.abs() < 1e80 && double.abs() > 1e-80 {
            all.push(format!("SELECT '{double:e}'::float8::numeric"));
        }
        let single = f32::from_bits(draw.number());
        all.push(format!("SELECT '{single:e}'::real::numeric"));
    }
}

fn operators(draw: &mut Draw, all: &mut Vec<String>) {
    let others = [
        "0",
        "1",
        "-7",
        "2::smallint",
        "3000000000",
        "(-9223372036854775808)::bigint",
        "'0.1'::float8",
        "'0'::float8",
        "'1e300'::float8",
        "'NaN'::float8",
        "'0.1'::real",
        "'Infinity'::real",
        "'1.5'",
        "'x'",
        "true",
        "'1'::text",
    ];
    for left in NUMBERS {
        for right in NUMBERS {
            for _ in 0..2 {
                let operator = draw.of(&ARITHMETIC);
                all.push(format!("SELECT ({left}) {operator} ({right})"));
            }
            all.push(format!(
                "SELECT ({left}) {} ({right})",
                draw.of(&COMPARISONS)
            ));
        }
        for other in others {
            let operator = draw.of(&ARITHMETIC);
            all.push(format!("SELECT ({left}) {operator} {other}"));
            let operator = draw.of(&ARITHMETIC);
            all.push(format!("SELECT {other} {operator} ({left})"));
            all.push(format!("SELECT ({left}) {} {other}", draw.of(&COMPARISONS)));
            all.push(format!("SELECT {other} {} ({left})", draw.of(&COMPARISONS)));
        }
        all.push(format!("SELECT - ({left})"));
        all.push(format!("SELECT + ({left})"));
        all.push(format!("SELECT ({left}) IN (1, 1.5, '2.5', 10)"));
        all.push(format!("SELECT ({left}) IN (1, '0.1'::float8)"));
        all.push(format!(
            "SELECT ({left}) BETWEEN -2.5 AND {}",
            draw.of(&NUMBERS)
        ));
        all.push(format!("SELECT ({left}) IS DISTINCT FROM 1.5"));
    }
    for _ in 0..1500 {
        let (left, right) = (operand(draw), operand(draw));
        let operator = draw.of(&["+", "-", "*", "/", "/", "/", "%", "=", "<", ">="]);
        all.push(format!("SELECT {left} {operator} {right}"));
    }
    for value in ["1e400", "1e-400", "1e131000"] {
        for other in ["'1'::float8", "'1'::real", "1", "1.0"] {
            all.push(format!("SELECT {value} < {other}"));
            all.push(format!("SELECT {other} = {value}"));
        }
        all.push(format!("SELECT {value}::float8"));
        all.push(format!("SELECT {value}::real"));
    }
    for count in ["2001", "16383", "2147483647"] {
        all.push(format!("SELECT scale(round(1.5, {count}))"));
        all.push(format!("SELECT scale(trunc(1.5, {count}))"));
    }
    all.push("SELECT 1e131071 * 10".into());
    all.push("SELECT 1e131071 + 9e131071".into());
    all.push("SELECT (1e-16383 * 0.1) = 0".into());
}

// tidy: long — a list of parts, and how they are put together
fn functions(draw: &mut Draw, all: &mut Vec<String>) {
    let one = [
        "abs",
        "round",
        "trunc",
        "ceil",
        "ceiling",
        "floor",
        "sign",
        "scale",
        "min_scale",
        "trim_scale",
        "length",
        "concat",
    ];
    let others = [
        "5",
        "5::smallint",
        "5::bigint",
        "'-2.5'::float8",
        "'-2.5'::real",
        "'0'::float8",
        "'NaN'::float8",
        "'2.5'",
        "NULL",
        "'x'::text",
        "true",
    ];
    let digits = [
        "0",
        "1",
        "2",
        "-1",
        "-2",
        "3",
        "30",
        "-30",
        "40",
        "-2147483648",
        "NULL",
        "1::smallint",
        "1::bigint",
        "1.5",
    ];
    for name in one {
        for value in NUMBERS.into_iter().chain(others) {
            all.push(format!("SELECT {name}({value})"));
        }
        for _ in 0..30 {
            all.push(format!("SELECT {name}({})", operand(draw)));
        }
    }
    for name in ["round", "trunc"] {
        for value in NUMBERS.into_iter().chain(others) {
            for _ in 0..4 {
                all.push(format!("SELECT {name}({value}, {})", draw.of(&digits)));
            }
        }
        for _ in 0..200 {
            all.push(format!(
                "SELECT {name}({}, {})",
                operand(draw),
                draw.of(&digits)
            ));
        }
        for count in digits {
            all.push(format!("SELECT {name}(1234.5678, {count})"));
            all.push(format!("SELECT {name}(12345, {count})"));
        }
    }
    for name in ["mod", "div", "nullif", "greatest", "least", "coalesce"] {
        for value in NUMBERS.into_iter().chain(others) {
            for _ in 0..3 {
                let numbers = draw.of(&["numbers", "others"]);
                let other = match numbers {
                    "numbers" => draw.of(&NUMBERS),
                    _ => draw.of(&others),
                };
                all.push(format!("SELECT {name}({value}, {other})"));
                all.push(format!("SELECT {name}({other}, {value})"));
            }
        }
        for _ in 0..60 {
            all.push(format!(
                "SELECT {name}({}, {})",
                operand(draw),
                operand(draw)
            ));
        }
    }
    for (left, right) in [
        ("7", "2"),
        ("7::smallint", "2::bigint"),
        ("-7", "0"),
        ("-9223372036854775808", "-1"),
    ] {
        all.push(format!("SELECT mod({left}, {right})"));
    }
    for value in NUMBERS {
        all.push(format!(
            "SELECT CASE WHEN {value} > 1 THEN {value} ELSE 1 END"
        ));
        all.push(format!(
            "SELECT CASE {value} WHEN 1.50 THEN 'a' WHEN 2 THEN 'b' END"
        ));
        all.push(format!("SELECT coalesce(NULL, 1, {value})"));
        all.push(format!("SELECT coalesce({value}, '0.1'::float8)"));
    }
}

// tidy: long — a list of parts, and how they are put together
fn rows(draw: &mut Draw, all: &mut Vec<String>) {
    let columns = ["id", "a", "b", "c", "i", "n", "x", "r"];
    let conditions = [
        "a = 1.5",
        "a = 1.500",
        "a = '1.50'",
        "a = 0",
        "a > 1",
        "a < 1.5::float8",
        "a IN (1.5, 0, -2.5)",
        "a IN (1.5::float8, 2)",
        "a = 'NaN'",
        "a >= 'Infinity'",
        "a < '-Infinity'",
        "a BETWEEN -3 AND 2",
        "a IS NULL",
        "a = b",
        "a = x",
        "a = r",
        "a = n",
        "b = i",
        "b > 1.505",
        "b = 1.51",
        "b = 1.505",
        "b + 0.005 = 1.515",
        "b * b > 4",
        "i::numeric = 2.0",
        "b::text = '1.50'",
        "c = 0.00155",
        "c < 0.001",
        "i = 1.0",
        "i = 1.5",
        "i < 1.5",
        "i >= 1.5::numeric",
        "i < 'NaN'::numeric",
        "i > '-Infinity'::numeric",
        "n = 9007199254740993.0",
        "n > 9223372036854775806.5",
        "n < -9223372036854775807.5",
        "n = 1e30",
        "x = 0.1",
        "x = 0.1::numeric",
        "x > 1.5::numeric",
        "r = 0.1",
        "r = 0.1::numeric",
        "mod(i, 2) = 1",
        "round(a) = 2",
        "round(b, 1) = 1.5",
        "a % 2 = 1.5",
        "a / 2 > 0.5",
        "-a < 0",
        "true",
    ];
    let outputs = [
        "a + 1",
        "a + b",
        "a - b",
        "a * b",
        "b / 3",
        "b / i",
        "i / b",
        "i + b",
        "x + b",
        "r * b",
        "n * a",
        "n + 0.5",
        "b % 1",
        "-b",
        "abs(b)",
        "round(b)",
        "round(a, 3)",
        "trunc(b, 1)",
        "ceil(b)",
        "floor(a)",
        "coalesce(b, 0)",
        "coalesce(b, a)",
        "coalesce(c, i)",
        "greatest(b, i)",
        "least(a, x)",
        "nullif(b, 100)",
        "nullif(i, 1.0)",
        "b::numeric(4,1)",
        "a::numeric(30,3)",
        "a::bigint",
        "a::float8",
        "b::real",
        "b::text",
        "i::numeric",
        "x::numeric",
        "r::numeric(8,2)",
        "CASE WHEN b > 1 THEN b ELSE i END",
        "CASE WHEN a > 1 THEN a ELSE 0.00 END",
        "scale(a)",
        "trim_scale(b)",
        "div(a, b)",
    ];
    for condition in conditions {
        all.push(format!("SELECT id FROM f WHERE {condition} ORDER BY id"));
    }
    for output in outputs {
        all.push(format!("SELECT {output} FROM f WHERE id < 5 ORDER BY id"));
        for id in 5..=11 {
            all.push(format!("SELECT {output} FROM f WHERE id = {id}"));
        }
    }
    for column in columns {
        all.push(format!("SELECT min({column}), max({column}) FROM f"));
        all.push(format!("SELECT id, {column} FROM f ORDER BY {column}, id"));
        all.push(format!(
            "SELECT {column} FROM f ORDER BY {column} DESC, id LIMIT 4"
        ));
    }
    for column in ["a", "b", "c", "i", "n"] {
        for function in ["sum", "avg", "count", "min", "max"] {
            all.push(format!("SELECT {function}({column}) FROM f WHERE id < 5"));
            all.push(format!("SELECT {function}({column}) FROM f WHERE id > 7"));
            all.push(format!(
                "SELECT {function}(DISTINCT {column}) FROM f WHERE id = 10"
            ));
        }
        all.push(format!("SELECT sum({column}), avg({column}) FROM f"));
    }
    for text in [
        "SELECT min(a * 2), max(b / 3), count(a) FROM f WHERE id < 5",
        "SELECT avg(a) + 1, sum(b) / count(b), round(avg(b), 2) FROM f WHERE id < 5",
        "SELECT a, count(*), sum(b) FROM f GROUP BY a ORDER BY count(*) DESC, a",
        "SELECT sum(DISTINCT a), count(DISTINCT a) FROM f WHERE id < 4",
        "SELECT DISTINCT a = 1.5 FROM f ORDER BY 1",
        "SELECT round(b), sum(i), avg(n) FROM f WHERE id < 5 GROUP BY round(b) ORDER BY 1",
        "SELECT b, sum(n) FROM f GROUP BY b HAVING sum(n) > 1.5 ORDER BY b",
        "SELECT sum(n) FILTER (WHERE a > 1), avg(i) FILTER (WHERE b > 1) FROM f",
    ] {
        all.push(text.into());
    }
    for _ in 0..300 {
        let (one, other) = (draw.of(&conditions), draw.of(&conditions));
        let condition = match draw.of(&["and", "or", "not", "one"]) {
            "and" => format!("{one} AND ({other})"),
            "or" => format!("({one}) OR ({other})"),
            "not" => format!("NOT ({one} OR {other})"),
            _ => one.to_string(),
        };
        let (order, way) = (
            draw.of(&["a", "b", "c", "a + b", "b * -1", "b % 2", "round(a)"]),
            draw.of(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]),
        );
        let (column, limit) = (draw.of(&columns), draw.of(&["", "", " LIMIT 3"]));
        all.push(format!(
            "SELECT id, {column} FROM f WHERE {condition} ORDER BY {order}{way}, id{limit}"
        ));
    }
}
