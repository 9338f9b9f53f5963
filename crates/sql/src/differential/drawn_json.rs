//! Generates statements about `json` and `jsonb`.

use super::drawn::Draw;

/// The statements that create the tables for these statements, in both languages.
pub(super) const SETUP: &str = r#"
    CREATE TABLE j (id integer PRIMARY KEY, j json, b jsonb, t text);
    INSERT INTO j VALUES
        (1, '{"a" : 1, "b": [1, 2, {"c": null}]}', '{"a" : 1, "b": [1, 2, {"c": null}]}', 'a'),
        (2, '[1,"a",true]', '[1,"a",true]', 'b'),
        (3, '"a"', '"a"', 'c'),
        (4, ' 1.50 ', '1.50', '1.5'),
        (5, 'null', 'null', 'null'),
        (6, NULL, NULL, NULL),
        (7, '{"a":2,"a":{"a":"x"}}', '{"a":2,"a":{"a":"x"}}', '{"a": 1}'),
        (8, '[]', '[]', ''),
        (9, '{}', '{}', '[]'),
        (10, '[1.0]', '[1.0]', '0'),
        (11, 'true', 'true', 'true'),
        (12, '1.5', '1.5', '-1');
    CREATE TABLE jk (b jsonb PRIMARY KEY, n integer);
    CREATE INDEX jk_n ON jk (n, b);
    INSERT INTO jk VALUES ('{"a": 1}', 1), ('[]', 1), ('null', 2), ('"a"', 2), ('"b"', 2),
        ('1.50', 3), ('-7', 3), ('true', 4), ('[1, 2]', 4), ('[2]', 4), ('{"b": 0}', 5), ('{}', 5),
        ('{"a": 1, "b": [null]}', 5), ('[[]]', 5), ('[{}]', 5);"#;

pub(super) const TABLES: &str = "j, jk";

const TEXTS: [&str; 44] = [
    "1",
    "-0",
    "-1.50",
    "1e2",
    "1.5e-3",
    "01",
    "1.",
    ".5",
    "+1",
    "1e",
    "NaN",
    "true",
    "false",
    "null",
    "True",
    "\"\"",
    "\"a\"",
    "\"a",
    "a",
    "",
    " ",
    "[]",
    "[ ]",
    "[1 , 2]",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,[2,[3]]]",
    "{}",
    "{ }",
    "{\"b\":1,\"a\":2}",
    "{\"bb\":1,\"c\":2,\"a\":3,\"c\":4}",
    "{\"a\"}",
    "{a:1}",
    "{\"a\":1,}",
    "{\"a\":{\"b\":{\"c\":[null]}}}",
    "\"\\u0041\\n\\/\\\\\\\"\"",
    "\"\\u00e4\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\"\\ude00\"",
    "\"\\u0000\"",
    "\"\\x\"",
    "\"\\u12\"",
    "123456789012345678901234567890.10",
];

const VALUES: [&str; 27] = [
    "1",
    "1.0",
    "-2",
    "true",
    "false",
    "null",
    "\"\"",
    "\"a\"",
    "\"b\"",
    "\"1\"",
    "[]",
    "{}",
    "[1]",
    "[1, 2]",
    "[2, 1, 1]",
    "[\"a\", \"b\", \"a\"]",
    "[[1]]",
    "[[]]",
    "[{\"a\": 1}]",
    "{\"a\": 1}",
    "{\"a\": 1.0}",
    "{\"a\": 1, \"b\": 2}",
    "{\"b\": {\"a\": [1, null]}}",
    "{\"a\": null}",
    "{\"aa\": 1, \"b\": 2}",
    "{\"a\": \"x\"}",
    "{\"\": 0, \"1\": [true]}",
];

const STEPS: [&str; 14] = [
    "'a'",
    "'b'",
    "''",
    "'1'",
    "'0'",
    "0",
    "1",
    "-1",
    "-2",
    "7",
    "NULL",
    "0::smallint",
    "'a'::text",
    "0::bigint",
];

pub(super) fn statements() -> Vec<String> {
    let mut draw = Draw::of_seed(0x5eed_0114);
    let mut all = Vec::new();
    texts(&mut all);
    operators(&mut draw, &mut all);
    functions(&mut draw, &mut all);
    with_paths(&mut draw, &mut all);
    casts(&mut all);
    rows(&mut all);
    all
}

fn texts(all: &mut Vec<String>) {
    for text in TEXTS {
        for name in ["json", "jsonb"] {
            all.push(format!("SELECT '{text}'::{name}"));
            all.push(format!("SELECT '{text}'::text::{name}::text"));
        }
        all.push(format!(
            "SELECT '{text}'::json -> 'a', '{text}'::json ->> 0"
        ));
        all.push(format!("SELECT '[{text}]'::json ->> 0"));
    }
}

fn operators(draw: &mut Draw, all: &mut Vec<String>) {
    for left in VALUES {
        for step in STEPS {
            for name in ["json", "jsonb"] {
                all.push(format!("SELECT '{left}'::{name} -> {step}"));
                all.push(format!("SELECT '{left}'::{name} ->> {step}"));
            }
            all.push(format!("SELECT '{left}'::jsonb - {step}"));
            all.push(format!("SELECT '{left}'::jsonb ? {step}"));
        }
        for right in VALUES {
            for operator in ["=", "<", ">=", "@>", "<@", "||"] {
                let typed = draw.of(&["", "::jsonb"]);
                all.push(format!(
                    "SELECT '{left}'::jsonb {operator} '{right}'{typed}"
                ));
            }
        }
        all.push(format!("SELECT '{left}'::json = '{left}'::json"));
        all.push(format!("SELECT '{left}'::json || '{left}'::json"));
        all.push(format!("SELECT '{left}'::jsonb || NULL"));
        all.push(format!("SELECT '{left}'::jsonb IN ('1', '{{\"a\": 1}}')"));
        all.push(format!("SELECT '{left}'::jsonb BETWEEN '1' AND '[1]'"));
        all.push(format!("SELECT '{left}'::jsonb IS DISTINCT FROM '1'"));
        all.push(format!("SELECT '{left}'::jsonb -> 'b' -> 'a' -> 0 = '1'"));
    }
}

// tidy: long — a list of parts, and how they are put together
fn functions(draw: &mut Draw, all: &mut Vec<String>) {
    let paths = [
        "'a'",
        "'b', 'a'",
        "'b', 'a', '0'",
        "'0'",
        "'-1'",
        "'1'",
        "'a', NULL",
        "'0', 'a'",
        "' 0'",
        "'x'",
    ];
    for value in VALUES {
        for name in ["typeof", "array_length"] {
            all.push(format!(
                "SELECT json_{name}('{value}'), jsonb_{name}('{value}')"
            ));
        }
        all.push(format!("SELECT jsonb_strip_nulls('{value}')"));
        all.push(format!("SELECT jsonb_pretty('{value}')"));
        all.push(format!("SELECT jsonb_exists('{value}', 'a')"));
        for path in paths {
            for name in ["json", "jsonb"] {
                all.push(format!("SELECT {name}_extract_path('{value}', {path})"));
                all.push(format!(
                    "SELECT {name}_extract_path_text('{value}', {path})"
                ));
            }
        }
    }
    let values = [
        "1",
        "1.50",
        "3000000000",
        "'a'",
        "'a\"b\\'::text",
        "NULL",
        "true",
        "'2024-02-29'::date",
        "'infinity'::date",
        "'2024-02-29 12:00:00.5'::timestamp",
        "'2024-02-29 12:00+02'::timestamptz",
        "'-infinity'::timestamp",
        "'0044-03-15 BC'::date",
        "'0044-03-15 BC'::timestamp",
        "'0.1'::real",
        "'1e300'::float8",
        "'NaN'::float8",
        "'Infinity'::numeric",
        "'\\xff'::bytea",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
        "' {\"a\":1}'::json",
        "'{\"a\":1}'::jsonb",
        "'ab'::varchar(3)",
        "NULL::int",
        "7::smallint",
        "'[1,2]'::jsonb",
    ];
    for value in values {
        let other = draw.of(&values);
        all.push(format!("SELECT to_json({value})"));
        all.push(format!("SELECT to_jsonb({value})"));
        for name in ["json", "jsonb"] {
            all.push(format!("SELECT {name}_build_array({value}, {other})"));
            all.push(format!(
                "SELECT {name}_build_object('k', {value}, 'l', {other})"
            ));
            all.push(format!("SELECT {name}_build_object({value}, {other})"));
        }
    }
    for text in [
        "json_build_array()",
        "jsonb_build_array()",
        "json_build_object()",
        "jsonb_build_object()",
        "jsonb_build_object('a')",
        "json_build_object('a', 1, 'b')",
        "jsonb_build_object('a', 1, 'a', 2)",
        "json_build_object('a', 1, 'a', 2)",
        "to_jsonb()",
        "to_jsonb(1, 2)",
        "jsonb_typeof('1'::json)",
        "json_typeof('1'::jsonb)",
        "jsonb_typeof('1'::text)",
        "jsonb_typeof(1)",
        "jsonb_pretty('{')",
        "coalesce('1'::jsonb, '2')",
        "coalesce('1'::json, '2'::jsonb)",
        "nullif('1'::jsonb, '1.0')",
        "nullif('1'::json, '1')",
        "greatest('1'::jsonb, '[]')",
        "greatest('1'::json, '2')",
        "CASE WHEN true THEN '1'::jsonb ELSE '2' END",
        "concat('{\"a\":1}'::jsonb, 'x')",
        "'{\"a\": 1}' -> 'a'",
        "'[3]'::jsonb -> 0 + 1",
        "('[3]'::jsonb -> 0)::int + 1",
        "'{\"a\": {\"b\": 1}}'::jsonb -> 'a' ->> 'b' = '1'",
    ] {
        all.push(format!("SELECT {text}"));
    }
}

// tidy: long — a list of parts, and how they are put together
fn with_paths(draw: &mut Draw, all: &mut Vec<String>) {
    let paths = [
        "{}",
        "{a}",
        "{b}",
        "{b,a}",
        "{b,a,0}",
        "{0}",
        "{-1}",
        "{1}",
        "{7}",
        "{-7}",
        "{a,b}",
        "{0,0}",
        "{NULL}",
        "{a,NULL}",
        "{\"\"}",
        "{ 1 }",
        "{x,y}",
        "{0,a}",
        "{\"a\",\"b\"}",
        "{1,0}",
    ];
    for value in VALUES {
        for path in paths {
            for name in ["json", "jsonb"] {
                all.push(format!("SELECT '{value}'::{name} #> '{path}'"));
                all.push(format!("SELECT '{value}'::{name} #>> '{path}'"));
            }
            all.push(format!("SELECT '{value}'::jsonb #- '{path}'"));
            all.push(format!("SELECT '{value}'::jsonb ?| '{path}'"));
            all.push(format!("SELECT '{value}'::jsonb ?& '{path}'::text[]"));
            let added = draw.of(&["", ", true", ", false", ", NULL"]);
            let new = draw.of(&["'7'", "'[1]'", "'null'", "NULL", "'{'"]);
            all.push(format!(
                "SELECT jsonb_set('{value}', '{path}', {new}{added})"
            ));
        }
    }
    for text in [
        "jsonb_set('{}', ARRAY['a', 'b'], '1')",
        "jsonb_set('{}', ARRAY['a'], '1', 'true')",
        "jsonb_set('{}', NULL, '1')",
        "'{}'::jsonb #> NULL",
        "'{}'::jsonb #- NULL",
        "'[1]'::jsonb #> ARRAY['0']",
        "'[1]'::jsonb #> ARRAY[0]",
        "'{\"a\": 1}'::jsonb #> '{a'",
        "'{\"a\": 1}'::jsonb #> 'a'",
        "'{\"a\": 1}'::jsonb ?| ARRAY['a', 'b']",
        "'{\"a\": 1}'::jsonb ?& ARRAY['a', NULL]",
        "'{\"a\": 1}'::jsonb ?& ARRAY['a', 'b']::text[]",
        "jsonb_set('{}', '{a}')",
        "jsonb_set('[0]', '{a}', '1')",
        "jsonb_set('1', '{a}', '1')",
        "jsonb_exists_any('[\"a\"]', '{b,a}')",
        "jsonb_exists_all('[\"a\"]', '{b,a}')",
        "jsonb_delete_path('[1, [2]]', '{1,0}')",
        "jsonb_extract_path('[1]')",
        "jsonb_exists('[1]')",
        "'{\"a\": {\"b\": 1}}'::jsonb #>> '{a,b}' = '1'",
        "jsonb_set('{\"a\": 1}', '{a}', to_jsonb(2))",
    ] {
        all.push(format!("SELECT {text}"));
    }
    for value in [
        "b #> '{a}'",
        "b #>> '{b,2}'",
        "j #>> '{b,0}'",
        "b #- '{a}'",
        "b ?| '{a,b}'",
        "b ?& ARRAY['a', t]",
        "b #> ARRAY[t]",
        "jsonb_build_object('x', b) #> ARRAY['x', 'a']",
        "jsonb_set(jsonb_build_object('x', b), '{x,a}', to_jsonb(id))",
    ] {
        all.push(format!("SELECT id, {value} FROM j ORDER BY id"));
        all.push(format!(
            "SELECT id FROM j WHERE {value} IS NOT NULL ORDER BY id"
        ));
    }
}

fn casts(all: &mut Vec<String>) {
    let values = [
        "1",
        "1.5",
        "2.5",
        "-1e3",
        "3000000000",
        "1e20",
        "1e400",
        "true",
        "null",
        "\"1\"",
        "[]",
        "{}",
        "40000",
    ];
    let types = [
        "smallint",
        "integer",
        "bigint",
        "numeric",
        "numeric(3,1)",
        "real",
        "float8",
        "boolean",
        "text",
        "varchar(2)",
        "json",
        "jsonb",
        "date",
        "bytea",
        "uuid",
    ];
    for value in values {
        for name in types {
            all.push(format!("SELECT '{value}'::jsonb::{name}"));
            all.push(format!("SELECT '{value}'::json::{name}"));
        }
    }
    for value in [
        "1",
        "true",
        "1.5::numeric",
        "now()",
        "'1'::text",
        "'{'::text",
    ] {
        all.push(format!("SELECT ({value})::jsonb IS NULL"));
        all.push(format!("SELECT ({value})::json IS NULL"));
    }
}

// tidy: long — a list of parts, and how they are put together
fn rows(all: &mut Vec<String>) {
    let values = [
        "j",
        "b",
        "j -> 'a'",
        "b -> 'a'",
        "b ->> 'a'",
        "b -> 0",
        "j ->> 1",
        "b || '[1]'",
        "b || b",
        "b - 'a'",
        "b @> '1'",
        "b ? 'a'",
        "b ? t",
        "b -> t",
        "to_jsonb(t)",
        "to_json(id)",
        "jsonb_typeof(b)",
        "json_typeof(j)",
        "jsonb_build_object('id', id, 't', t, 'b', b)",
        "json_build_array(id, t, j)",
        "jsonb_extract_path_text(b, 'b', '2')",
        "jsonb_strip_nulls(b)",
        "b::text",
        "j::jsonb",
        "b::json",
        "length(b::text)",
        "coalesce(b, '0')",
        "CASE WHEN b ? 'a' THEN b -> 'a' ELSE b END",
        "b = '1.5'",
        "b IS NULL",
        "(b ->> 'a') || 'x'",
        "jsonb_pretty(b)",
    ];
    for value in values {
        all.push(format!("SELECT id, {value} FROM j ORDER BY id"));
        all.push(format!(
            "SELECT id FROM j ORDER BY {value} DESC NULLS LAST, id"
        ));
    }
    let conditions = [
        "b = '1.50'",
        "b <> '1.50'",
        "b > 'null'",
        "b < '[]'",
        "b @> '{\"a\": 1}'",
        "b @> '[1]'",
        "b @> '1'",
        "b ? 'a'",
        "b -> 'a' = '1'",
        "b ->> 'a' = '1'",
        "j ->> 'a' IS NOT NULL",
        "b IN ('1.5', 'true', '{}')",
        "jsonb_typeof(b) = 'array'",
        "b IS NULL",
        "j = '1'",
        "b -> 'b' -> 2 -> 'c' = 'null'",
        "(b -> 'a')::text = '1'",
        "b BETWEEN '1' AND '{}'",
        "'a' = b ->> 1",
        "b <@ '[1, 2, true, \"a\"]'",
    ];
    for condition in conditions {
        all.push(format!("SELECT id FROM j WHERE {condition} ORDER BY id"));
        all.push(format!("SELECT count(*) FROM j WHERE NOT ({condition})"));
        all.push(format!(
            "SELECT id FROM j WHERE {condition} OR id = 2 ORDER BY id"
        ));
    }
    for text in [
        "SELECT DISTINCT j FROM j",
        "SELECT DISTINCT b FROM j WHERE id NOT IN (4, 12, 10) ORDER BY b",
        "SELECT j FROM j ORDER BY j",
        "SELECT b FROM j WHERE id <> 12 ORDER BY b",
        "SELECT b, count(*) FROM j WHERE id < 12 GROUP BY b ORDER BY b",
        "SELECT count(DISTINCT b) FROM j",
        "SELECT count(DISTINCT j) FROM j",
        "SELECT count(j) FROM j",
        "SELECT max(b) FROM j",
        "SELECT min(j) FROM j",
        "SELECT sum(b) FROM j",
        "SELECT j, count(*) FROM j GROUP BY j",
        "SELECT b -> 'a', count(*) FROM j GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM j GROUP BY jsonb_typeof(b) ORDER BY 1",
        "SELECT b, n FROM jk ORDER BY b",
        "SELECT b, n FROM jk ORDER BY b DESC",
        "SELECT b FROM jk ORDER BY n, b",
        "SELECT b, n FROM jk WHERE b = '1.5'",
        "SELECT b, n FROM jk WHERE b = '1.500' OR b = '{\"b\":0}' ORDER BY b",
        "SELECT b FROM jk WHERE b > '\"a\"' AND b <= '[2]' ORDER BY b",
        "SELECT b FROM jk WHERE b >= '[]' AND b < '{}' ORDER BY b DESC",
        "SELECT b FROM jk WHERE n = 4 AND b > 'true' ORDER BY b",
        "SELECT b FROM jk WHERE b IN ('null', '[[]]', '7') ORDER BY b",
        "SELECT n, count(*) FROM jk WHERE b > '1' GROUP BY n ORDER BY n",
    ] {
        all.push(text.into());
    }
}
