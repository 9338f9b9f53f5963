//! Generates statements about functions and `CASE`, over the tables of the other statements.

use super::drawn::Draw;

pub(super) fn statements(draw: &mut Draw, all: &mut Vec<String>) {
    of_texts(draw, all);
    of_numbers(all);
    choices(draw, all);
    rows(draw, all);
    arrays(all);
    without_case(all);
}

// tidy: long — a list of parts, and how they are put together
fn of_texts(draw: &mut Draw, all: &mut Vec<String>) {
    let texts = [
        "''",
        "'a'",
        "' a b '",
        "'abcabc'",
        "'Hello'",
        "'aäb'",
        "'  '",
        "NULL",
        "'a  '::char(4)",
        "'ab'::varchar(3)",
        "'x'::text",
        "'€uro€'",
    ];
    let numbers = [
        "0",
        "1",
        "2",
        "-1",
        "-2",
        "3",
        "100",
        "-2147483648",
        "2147483647",
        "NULL",
        "2::smallint",
    ];
    let parts = ["''", "'a'", "'b'", "'ab'", "' '", "'ba'", "NULL", "'€'"];
    for text in texts {
        for name in ["lower", "upper"] {
            // Other letters than those of ASCII depend on PostgreSQL's locale.
            if text.is_ascii() {
                all.push(format!("SELECT {name}({text})"));
            }
        }
        for name in [
            "length",
            "char_length",
            "character_length",
            "octet_length",
            "btrim",
            "ltrim",
            "rtrim",
            "trim",
        ] {
            all.push(format!("SELECT {name}({text})"));
        }
        for number in numbers {
            all.push(format!("SELECT left({text}, {number})"));
            all.push(format!("SELECT right({text}, {number})"));
            all.push(format!("SELECT substr({text}, {number})"));
            all.push(format!(
                "SELECT substring({text} from {number} for {})",
                draw.of(&numbers)
            ));
            all.push(format!(
                "SELECT substring({text}, {number}, {})",
                draw.of(&numbers)
            ));
        }
        for part in parts {
            all.push(format!("SELECT strpos({text}, {part})"));
            all.push(format!("SELECT position({part} in {text})"));
            all.push(format!(
                "SELECT replace({text}, {part}, {})",
                draw.of(&parts)
            ));
            all.push(format!("SELECT btrim({text}, {part})"));
            all.push(format!("SELECT trim(leading {part} from {text})"));
            all.push(format!("SELECT trim(trailing {part} from {text})"));
            all.push(format!("SELECT trim(both from {text})"));
            all.push(format!(
                "SELECT concat({part}, {}, 7, true)",
                draw.of(&parts)
            ));
        }
    }
    for wrong in [
        "lower(5)",
        "length(5)",
        "left('a', 'b')",
        "left('a', 1::bigint)",
        "substr('a', 1, -1)",
        "replace('a', 'b')",
        "strpos('a')",
        "concat()",
        "btrim('a', 'b', 'c')",
        "length('\\x00ff'::bytea)",
        "octet_length('\\x00ff'::bytea)",
        "upper(true)",
        "missing(1)",
        "coalesce()",
        "nullif(1)",
        "pg_catalog.lower('A')",
    ] {
        all.push(format!("SELECT {wrong}"));
    }
}

fn of_numbers(all: &mut Vec<String>) {
    let numbers = [
        "0",
        "-1",
        "7::smallint",
        "(-32768)::smallint",
        "(-2147483648)::int",
        "3000000000",
        "'-9223372036854775808'::bigint",
        "'-2.5'::real",
        "'2.5'::float8",
        "'3.5'::float8",
        "'-2.5'::float8",
        "'-0.4'::float8",
        "'1e300'::float8",
        "'4503599627370497.5'::float8",
        "'NaN'::float8",
        "'-Infinity'::float8",
        "'0.5'::float8",
        "'-0'::float8",
        "NULL",
        "'1.4'::real",
    ];
    for number in numbers {
        for name in ["abs", "round", "floor", "ceil", "ceiling", "trunc"] {
            if (name, number) == ("trunc", "NULL") {
                // PostgreSQL has one for network addresses, too.
                continue;
            }
            all.push(format!("SELECT {name}({number})"));
        }
    }
    for wrong in [
        "abs('a')",
        "abs(true)",
        "round('a')",
        "floor(true)",
        "abs(1, 2)",
    ] {
        all.push(format!("SELECT {wrong}"));
    }
}

fn choices(draw: &mut Draw, all: &mut Vec<String>) {
    let values = [
        "NULL",
        "1",
        "2::smallint",
        "3000000000",
        "'1.5'::float8",
        "'0.1'::real",
        "'7'",
        "'a'",
        "'b'::text",
        "'c '::char(2)",
        "'d'::varchar(3)",
        "true",
        "'2024-01-01'::date",
        "'2024-01-01 12:00'::timestamp",
        "'2024-01-01 12:00+02'::timestamptz",
        "NULL::int",
        "-5",
    ];
    for left in values {
        for right in values {
            all.push(format!("SELECT coalesce({left}, {right})"));
            all.push(format!("SELECT nullif({left}, {right})"));
            all.push(format!("SELECT greatest({left}, {right})"));
            all.push(format!(
                "SELECT least({left}, {right}, {})",
                draw.of(&values)
            ));
            all.push(format!(
                "SELECT CASE WHEN true THEN {left} ELSE {right} END"
            ));
            all.push(format!(
                "SELECT CASE WHEN false THEN {left} ELSE {right} END"
            ));
            all.push(format!("SELECT CASE {left} WHEN {right} THEN 1 ELSE 0 END"));
            all.push(format!(
                "SELECT CASE WHEN NULL THEN {left} WHEN 1 = 1 THEN {right} END"
            ));
        }
    }
    for text in [
        "CASE WHEN 1 THEN 2 END",
        "CASE WHEN 'true' THEN 2 END",
        "CASE WHEN false THEN 1 / 0 ELSE 5 END",
        "CASE WHEN 1 = 2 THEN 1 / 0 END",
        "coalesce(5, 1 / 0)",
        "CASE 1 WHEN 2 THEN 'a' WHEN 1 THEN 'b' END || 'c'",
        "CASE WHEN true THEN 'a' END = 'a'",
    ] {
        all.push(format!("SELECT {text}"));
    }
}

/// Arrays that are written out, of which a value is one or none.
fn arrays(all: &mut Vec<String>) {
    let values = ["1", "NULL", "3::smallint", "'a'::text", "7::bigint"];
    let arrays = [
        "'{}'",
        "'{1,2}'",
        "'{1,NULL}'",
        "'{NULL}'",
        "'{ 1 , 3 }'",
        "'{7}'",
        "'{x}'",
        "'{1'",
        "ARRAY[1,2]",
        "ARRAY[NULL,3]",
        "ARRAY[1,3,7]",
    ];
    for value in values {
        for array in arrays {
            if value.contains("text") && array.starts_with("ARRAY") {
                continue;
            }
            all.push(format!("SELECT {value} = ANY ({array})"));
            all.push(format!("SELECT {value} <> ALL ({array})"));
        }
    }
    for array in [
        "'{a}'",
        "'{\"a\"}'",
        "'{b,\"a b\"}'",
        "'{\"a\\\"\"}'",
        "'{NULL,\"NULL\"}'",
        "'{A}'::text[]",
        "ARRAY['a','b']",
        "ARRAY['b']::text[]",
    ] {
        for text in ["'a'::text", "'a b'::text", "'NULL'::text", "'b'::varchar"] {
            all.push(format!("SELECT {text} = ANY ({array})"));
            all.push(format!("SELECT {text} = SOME ({array})"));
            all.push(format!("SELECT {text} <> ALL ({array})"));
        }
    }
    for condition in [
        "i = ANY ('{7,1,-3}')",
        "i <> ALL (ARRAY[7,1])",
        "v = ANY ('{a,b}')",
    ] {
        all.push(format!("SELECT id FROM e WHERE {condition} ORDER BY id"));
    }
}

/// `ILIKE` of texts of ASCII: other letters depend on PostgreSQL's locale.
fn without_case(all: &mut Vec<String>) {
    let texts = ["''", "'a'", "'AbC'", "'a_b'", "'100%'", "'A\\b'", "NULL"];
    let patterns = [
        "''", "'A'", "'%b%'", "'_B_'", "'ABC'", "'a\\_B'", "'A\\\\B'", "'100\\%'", "NULL", "'%'",
    ];
    for text in texts {
        for pattern in patterns {
            all.push(format!("SELECT {text} ILIKE {pattern}"));
            all.push(format!("SELECT {text} NOT ILIKE {pattern}"));
        }
        all.push(format!("SELECT {text} ILIKE 'A!_B' ESCAPE '!'"));
    }
    for condition in ["v ILIKE 'A%'", "s NOT ILIKE '%B%'", "lower(s) ILIKE 'A'"] {
        all.push(format!("SELECT id FROM e WHERE {condition} ORDER BY id"));
    }
}

fn rows(draw: &mut Draw, all: &mut Vec<String>) {
    let values = [
        "coalesce(h, 0)",
        "coalesce(i, n)",
        "coalesce(r, 0)",
        "coalesce(v, '?')",
        "coalesce(c, s)",
        "coalesce(dt, '2000-01-01')",
        "coalesce(at, z)",
        "nullif(i, 7)",
        "nullif(v, 'a')",
        "greatest(h, i, n)",
        "least(dt, at)",
        "CASE WHEN h > 0 THEN 'plus' WHEN h < 0 THEN 'minus' ELSE 'none' END",
        "CASE h WHEN 7 THEN h ELSE i END",
        "CASE WHEN c = 'a' THEN c ELSE v END",
        "lower(v)",
        "upper(c)",
        "length(c)",
        "length(v)",
        "left(s, 2)",
        "substr(v, 2)",
        "btrim(v)",
        "rtrim(s)",
        "replace(s, 'a', 'xy')",
        "strpos(s, 'b')",
        "concat(h, '-', v)",
        "abs(h)",
        "abs(i + 1)",
        "abs(r)",
        "round(r)",
        "floor(r)",
        "ceil(h)",
        "trunc(r)",
        "abs(n)",
    ];
    let conditions = [
        "coalesce(h, 0) = 0",
        "lower(v) = 'a'",
        "length(c) = 1",
        "CASE WHEN h > 0 THEN i = 7 ELSE false END",
        "nullif(v, '') IS NULL",
        "abs(h) = 7",
        "greatest(h, 5) > 5",
        "left(s, 1) = 'a'",
        "coalesce(v, c) = 'a'",
        "upper(s) LIKE 'A%'",
        "round(r) = 0",
    ];
    for value in values {
        all.push(format!(
            "SELECT id, {value} FROM e WHERE id NOT IN (4, 5) ORDER BY id"
        ));
        all.push(format!(
            "SELECT id FROM e WHERE id NOT IN (4, 5) ORDER BY {value} DESC, id"
        ));
        // Of the zeros with and without a sign any may be the smallest.
        if !value.contains("round") && !value.contains("trunc") {
            all.push(format!("SELECT min({value}) FROM e WHERE id NOT IN (4, 5)"));
        }
    }
    for condition in conditions {
        let other = draw.of(&conditions);
        all.push(format!("SELECT id FROM e WHERE {condition} ORDER BY id"));
        all.push(format!(
            "SELECT count(*) FROM e WHERE NOT ({condition} OR {other})"
        ));
    }
}
