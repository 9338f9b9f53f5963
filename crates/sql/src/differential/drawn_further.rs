//! Generates statements about the further functions of texts, bytes and numbers.

use super::drawn::Draw;

/// The statements that create the table for these statements, in both languages.
pub(super) const SETUP: &str = r"
    CREATE TABLE ft (id integer PRIMARY KEY, t text, b bytea, i integer, l bigint,
        f double precision, n numeric);
    INSERT INTO ft VALUES
        (1, 'a,b,,c', '\x00ff5c41', 3, 255, 0.25, 2),
        (2, '', '\x', 0, -1, 0, 0),
        (3, 'Hello big world', '\x48656c6c6f', -2, 65536, 1, 2.25),
        (4, NULL, NULL, NULL, NULL, NULL, NULL),
        (5, 'äöü€', '\xc3a4', 100, 1, -1.5, -4),
        (6, 'it''s \ here', '\x5c5c', 1, 9223372036854775807, 'NaN', 'NaN'),
        (7, 'aaa', '\x616161', 5, 10, 'Infinity', 0.000001),
        (8, '  x  ', '\x2020', 2, 16, 100, 123456789012345678901234567890.5);";

pub(super) const TABLES: &str = "ft";

const TEXTS: [&str; 12] = [
    "''",
    "'a'",
    "'abc'",
    "'a,b,,c'",
    "'Hello big-world x2y'",
    "'äöü€'",
    "'it''s'",
    r"'back\slash'",
    "'  x  '",
    "NULL",
    "'ab '::char(4)",
    "'ab'::varchar(3)",
];
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "5",
    "10",
    "100",
    "255",
    "-255",
    "2147483647",
    "-2147483648",
    "1::smallint",
    "-1::smallint",
    "NULL",
];
const DOUBLES: [&str; 26] = [
    "0",
    "1",
    "-1",
    "2",
    "4",
    "8",
    "-8",
    "10",
    "100",
    "0.5::double precision",
    "-0.5::double precision",
    "'1e-300'::double precision",
    "'1e300'::double precision",
    "'-1e300'::double precision",
    "710::double precision",
    "-800::double precision",
    "'Infinity'::double precision",
    "'-Infinity'::double precision",
    "'NaN'::double precision",
    "'-0'::double precision",
    "2::bigint",
    "9::smallint",
    "0.25::real",
    "NULL",
    "'4'",
    "pi()",
];
const NUMERICS: [&str; 22] = [
    "0.0",
    "2.0",
    "4.00",
    "0.25",
    "2.25",
    "-1.0",
    "1e-10",
    "1e20",
    "1e-20",
    "12345.678901234567890123456789",
    "99999999999999999999.9",
    "0.000001",
    "0.1",
    "10::numeric",
    "100::numeric",
    "1e4::numeric",
    "123456789::numeric",
    "'NaN'::numeric",
    "'Infinity'::numeric",
    "'-Infinity'::numeric",
    "NULL::numeric",
    "3::numeric(10,4)",
];

pub(super) fn statements() -> Vec<String> {
    let mut draw = Draw::of_seed(0x0066_7572);
    let mut all = Vec::new();
    joined(&mut all);
    aggregates(&mut all);
    names_of_types(&mut all);
    of_texts(&mut all);
    of_parts(&mut draw, &mut all);
    of_bytes(&mut all);
    of_numbers(&mut draw, &mut all);
    of_rows(&mut all);
    all
}

/// Two values with `||` between them.
fn joined(all: &mut Vec<String>) {
    let values = [
        "'a'",
        "'b'::text",
        "''",
        "NULL",
        "NULL::integer",
        "1",
        "-2.50",
        "3::smallint",
        "1e20::double precision",
        "true",
        "'2020-02-03'::date",
        "'2020-02-03 04:05:06'::timestamp",
        "'c'::varchar(3)",
        "'d '::char(4)",
        "'\\x41'::bytea",
        "'{\"a\": 1}'::jsonb",
        "'[2]'::json",
        "'00000000-0000-0000-0000-000000000001'::uuid",
    ];
    for left in values {
        for right in values {
            all.push(format!("SELECT {left} || {right}"));
            all.push(format!("SELECT ({left} || {right}) || 'x'"));
        }
    }
    for expression in [
        "t || id",
        "id || t",
        "'no. ' || id || ', ' || l",
        "f || ''",
        "n || t",
        "b || b",
        "t || b",
        "b || 'a'",
        "id || l",
    ] {
        all.push(format!("SELECT id, {expression} FROM ft ORDER BY id"));
        all.push(format!(
            "SELECT id FROM ft WHERE {expression} <> 'x' ORDER BY id"
        ));
    }
}

/// Aggregates that keep all values.
fn aggregates(all: &mut Vec<String>) {
    for call in [
        "string_agg(t, ',' ORDER BY id)",
        "string_agg(t, ', ' ORDER BY id DESC)",
        "string_agg(t, '' ORDER BY length(t), t DESC)",
        "string_agg(t, NULL ORDER BY t)",
        "string_agg(DISTINCT left(t, 1), '-' ORDER BY left(t, 1))",
        "string_agg(DISTINCT left(t, 1), '-' ORDER BY left(t, 1) DESC)",
        "string_agg(id::text, '+' ORDER BY n NULLS FIRST, id) FILTER (WHERE id > 2)",
        "string_agg(t || id, ' ' ORDER BY f DESC NULLS LAST, id)",
        "string_agg('x', 'y')",
        "string_agg(NULL, 'y')",
        "string_agg(t, ',' ORDER BY id) || '!'",
        "string_agg(id, ',')",
        "string_agg(t)",
        "string_agg(t, ',', id)",
        "string_agg(DISTINCT t, ',' ORDER BY id)",
        "string_agg(t, ',' ORDER BY max(id))",
        "array_agg(id ORDER BY id DESC)",
        "array_agg(t ORDER BY i NULLS FIRST, id)",
        "array_agg(DISTINCT i ORDER BY i DESC)",
        "array_agg(l ORDER BY n DESC, id) FILTER (WHERE id < 5)",
        "array_agg(id ORDER BY t COLLATE \"C\", id)",
    ] {
        all.push(format!("SELECT {call} FROM ft"));
        all.push(format!("SELECT {call} FROM ft WHERE id > 100"));
        all.push(format!(
            "SELECT id % 2, {call}, count(*) FROM ft GROUP BY 1 ORDER BY 1"
        ));
    }
}

/// Types with a schema, in quotes, and by the names of their arrays.
fn names_of_types(all: &mut Vec<String>) {
    for name in [
        "pg_catalog.int4",
        "\"pg_catalog\".\"int8\"",
        "\"int4\"",
        "pg_catalog.varchar(2)",
        "pg_catalog.numeric(4,1)",
        "\"text\"",
        "pg_catalog._int4",
        "_text",
        "\"_int8\"",
        "pg_catalog.nosuch",
        "other.int4",
        "\"INT4\"",
    ] {
        all.push(format!("SELECT '12'::{name}"));
        all.push(format!("SELECT '{{12}}'::{name}"));
        all.push(format!("SELECT CAST(12 AS {name})"));
    }
}

fn of_texts(all: &mut Vec<String>) {
    for text in TEXTS {
        for name in [
            "ascii",
            "bit_length",
            "initcap",
            "md5",
            "quote_literal",
            "reverse",
        ] {
            all.push(format!("SELECT {name}({text})"));
        }
        for number in NUMBERS {
            // A text that is too long is refused at another length.
            if !number.starts_with("21") {
                all.push(format!("SELECT repeat({text}, {number})"));
                all.push(format!("SELECT lpad({text}, {number})"));
                all.push(format!("SELECT rpad({text}, {number}, 'xyz')"));
                all.push(format!("SELECT lpad({text}, {number}, {text})"));
            }
            all.push(format!("SELECT split_part({text}, ',', {number})"));
        }
    }
    for number in NUMBERS
        .iter()
        .chain(&["55296", "57343", "1114111", "1114112", "8364"])
    {
        all.push(format!("SELECT ascii(chr({number}))"));
        all.push(format!("SELECT to_hex({number})"));
        all.push(format!("SELECT to_hex({number}::bigint)"));
    }
}

fn of_parts(draw: &mut Draw, all: &mut Vec<String>) {
    let parts = [
        "''", "'a'", "'b'", "','", "'abc'", "'€'", "NULL", "'l'", "'ba'",
    ];
    for _ in 0..250 {
        let (text, one, other) = (draw.of(&TEXTS), draw.of(&parts), draw.of(&parts));
        let number = draw.of(&["1", "2", "-1", "-3", "4", "0"]);
        all.push(format!("SELECT split_part({text}, {one}, {number})"));
        all.push(format!("SELECT translate({text}, {one}, {other})"));
        all.push(format!("SELECT starts_with({text}, {one})"));
        all.push(format!(
            "SELECT concat_ws({one}, {text}, {other}, {number}, true)"
        ));
        all.push(format!("SELECT rpad({text}, {number}, {one})"));
    }
    for statement in [
        "SELECT concat_ws(',')",
        "SELECT concat_ws(',', NULL)",
        "SELECT concat_ws(',', 1, 2.50, '2020-01-01'::date, false, NULL, 'x'::varchar(3))",
        "SELECT concat_ws(1, 'a', 'b')",
        "SELECT split_part('a,b', ',')",
        "SELECT reverse(1)",
        "SELECT md5()",
        "SELECT pi(1)",
        "SELECT pg_catalog.md5('a')",
        "SELECT to_hex('255')",
        "SELECT to_hex(1.5)",
        "SELECT repeat('a', 'b')",
    ] {
        all.push(statement.to_string());
    }
}

fn of_bytes(all: &mut Vec<String>) {
    let long = format!("'\\x{}'::bytea", "4142430fff".repeat(40));
    let bytes = [
        r"'\x'",
        r"'\x00'",
        r"'\xff5c41'",
        r"'\x4869'::bytea",
        r"'\x486921'::bytea",
        r"'\x4869210a'::bytea",
        "'text'::bytea",
        "NULL",
        &long,
    ];
    for it in bytes {
        for name in ["sha224", "sha256", "sha384", "sha512", "md5", "bit_length"] {
            all.push(format!("SELECT {name}({it}::bytea)"));
        }
        for encoding in ["hex", "base64", "escape", "HEX", "none"] {
            all.push(format!("SELECT encode({it}, '{encoding}')"));
            all.push(format!(
                "SELECT decode(encode({it}, '{encoding}'), '{encoding}')"
            ));
        }
    }
    for text in [
        "", "4", "48", "4 8", "48 69", "4G", "0x48", "SGk=", "SGkh", "SGk", "S", "SG==", "S===",
        "SGk=SGk=", "SG k=", "SGl=", "====", "a", r"\", r"\", r"\101", r"\400", r"\1", r"a\\b",
        "ä", "*",
    ] {
        for encoding in ["hex", "base64", "escape"] {
            all.push(format!("SELECT decode('{text}', '{encoding}')"));
        }
    }
}

fn of_numbers(draw: &mut Draw, all: &mut Vec<String>) {
    let names = [
        "sqrt", "cbrt", "exp", "ln", "log", "log10", "degrees", "radians", "sin", "cos", "tan",
        "cot", "asin", "acos", "atan",
    ];
    // The last digits depend on the C library.
    let rounded = |call: String| {
        format!(
            "SELECT CASE WHEN abs({call}) < 1e12 THEN (round(({call})::numeric, 9))::text ELSE \
             left(({call})::text, 12) END"
        )
    };
    for name in names {
        for value in DOUBLES {
            all.push(rounded(format!("{name}({value})")));
        }
    }
    for value in DOUBLES {
        all.push(format!("SELECT sqrt({value})"));
        for other in DOUBLES {
            all.push(rounded(format!("power({value}, {other})")));
        }
    }
    for value in NUMERICS {
        all.push(format!("SELECT sqrt({value})"));
        all.push(format!("SELECT exp({value})"));
        all.push(format!("SELECT power({value}, 2)"));
        all.push(rounded(format!("power({value}, 2::double precision)")));
        all.push(rounded(format!("atan2({value}, 2)")));
        all.push(rounded(format!("sin({value})")));
    }
    for _ in 0..150 {
        let digits = draw.number() % 1_000_000_007;
        let shift = draw.of(&["1", "100", "1e-5", "1e-30", "1e15", "1e31", "0.03"]);
        all.push(format!("SELECT sqrt({digits}.{} * {shift})", digits % 997));
    }
    for statement in [
        "SELECT 2 ^ 10",
        "SELECT 2 ^ 3 ^ 2",
        "SELECT 2 * 3 ^ 2",
        "SELECT -2 ^ 2",
        "SELECT 2 ^ -1",
        "SELECT pow(2, 8)",
        "SELECT pi()",
        "SELECT sqrt('4')",
        "SELECT sqrt('a')",
        "SELECT log(2, 8)",
        "SELECT power(2)",
        "SELECT sqrt(true)",
    ] {
        all.push(statement.to_string());
    }
}

fn of_rows(all: &mut Vec<String>) {
    for call in [
        "md5(t)",
        "md5(b)",
        "initcap(t)",
        "reverse(t)",
        "lpad(t, i, '*')",
        "rpad(t, i + 3)",
        "split_part(t, ',', i)",
        "translate(t, 'abl', 'xy')",
        "starts_with(t, 'a')",
        "concat_ws('-', t, i, l, f, n, id)",
        "to_hex(l)",
        "to_hex(i)",
        "encode(b, 'escape')",
        "encode(sha256(b), 'hex')",
        "quote_literal(t)",
        "ascii(t)",
        "sqrt(n)",
        "sqrt(abs(f))",
        "round(power(i, 2))",
        "i ^ 2",
        "bit_length(t) + bit_length(b)",
    ] {
        all.push(format!("SELECT id, {call} FROM ft ORDER BY id"));
        all.push(format!(
            "SELECT id FROM ft WHERE {call} IS NOT NULL ORDER BY id"
        ));
        all.push(format!(
            "SELECT id, {call} FROM ft WHERE id <> 5 ORDER BY 2, 1"
        ));
        all.push(format!(
            "SELECT max(({call})::text) FROM ft WHERE id IN (1, 3, 8)"
        ));
    }
}
