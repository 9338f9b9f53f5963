//! Generates statements about arrays.

use std::collections::BTreeSet;

use super::drawn::Draw;

/// The statements that create the tables for these statements, in both languages.
pub(super) const SETUP: &str = r#"
    CREATE TABLE r (id integer PRIMARY KEY, a integer[], t text[], g bigint[][], n numeric(6,2)[],
        v varchar(3)[], c char(3)[], f double precision[], b boolean[], u uuid[], m timestamptz[],
        d date[], j jsonb[], x text, y numeric, z double precision, k smallint);
    INSERT INTO r VALUES
        (1, '{1,2,3}', '{a,b}', '{{1,2},{3,4}}', '{1.5,2}', '{ab,c}', '{ab,c}', '{1.5,NaN}',
            '{t,f}', '{00000000-0000-0000-0000-000000000001}', '{2024-01-01 00:00:00+00}',
            '{2024-01-01}', '{"{\"a\":1}",2}', 'a', 1.5, 1, 1),
        (2, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '', 2, 2.5, 2),
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL),
        (4, '{NULL,1,NULL}', '{NULL,"NULL","",a}', '[0:1][-1:0]={{1,NULL},{3,4}}', '{NULL,-7.125}',
            '{NULL,""}', '{NULL,""}', '{NULL,Infinity,-0}', '{NULL}', '{NULL}', '{NULL,infinity}',
            '{NULL,-infinity}', '{NULL,"null"}', 'b', -7.13, 'NaN', 3),
        (5, '[2:3]={1,2}', '{"a b","c,d","{e}","f\"g","h\\i"}', '{{7}}', '{0,0.00}', '{abc}',
            '{abc}', '{1e300,-1e-300}', '{t,t,t}', NULL, NULL, NULL, NULL, 'a b', 0, 0, 4),
        (6, '{1,2}', '{b,a}', '{{1,2},{3,5}}', '{1.50,2}', '{c,ab}', '{c,ab}', '{1.5,NULL}',
            '{f}', NULL, NULL, NULL, NULL, 'NULL', 1.50, 1.5, 5),
        (7, '{3,2,1}', '{a}', '{{{1,2}},{{3,4}}}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, 'c', 100, 1e300, 6);
    CREATE TABLE rk (a integer[] PRIMARY KEY, t text[], n bigint);
    CREATE INDEX rk_t ON rk (t, n);
    INSERT INTO rk VALUES ('{}', '{}', 1), ('{1}', '{a}', 2), ('{1,2}', '{a,b}', 3),
        ('{1,NULL}', '{a,NULL}', 4), ('{NULL}', '{NULL}', 5), ('{{1,2}}', '{{a,b}}', 6),
        ('[0:1]={1,2}', NULL, 7), ('{2}', '{b}', 8), ('{-1}', '{""}', 9), ('{1,2,0}', '{a,b,c}', 10);
    CREATE TABLE ri (id bigint PRIMARY KEY, n integer, t text, v varchar(4), q numeric, f real);
    CREATE INDEX ri_n ON ri (n);
    CREATE INDEX ri_t ON ri (t, n);
    INSERT INTO ri VALUES (1, 1, 'a', 'a', 1, 1), (2, 1, 'b', 'b ', 1.50, 1.5),
        (3, 2, 'a', NULL, 2, 0.1), (4, NULL, NULL, 'ab', NULL, NULL), (5, 7, '', '', 'NaN', 'NaN'),
        (6, -1, 'c', 'c', -1, -1), (7, 3, 'B', 'abcd', 0.1, 3);"#;

pub(super) const TABLES: &str = "r, rk, ri";

const TEXTS: [&str; 72] = [
    "{}",
    " { } ",
    "{1}",
    "{1,2}",
    " {1 , 2 } ",
    "{1,NULL,3}",
    "{null}",
    "{\"NULL\"}",
    "{nul}",
    "{a}",
    "{a b}",
    "{ a b , c }",
    "{\"a b\"}",
    "{\"a\"b}",
    "{a\"b\"}",
    "{\"a\",\"b\"}",
    "{\"a\" , \"b\" }",
    "{\"\"}",
    "{,}",
    "{1,}",
    "{,1}",
    "{1,,2}",
    "{",
    "}",
    "",
    " ",
    "1",
    "1,2",
    "{1",
    "1}",
    "{1}}",
    "{{1}",
    "{1}x",
    "{1} ",
    "{{1,2},{3,4}}",
    "{{1,2},{3}}",
    "{{1},2}",
    "{1,{2}}",
    "{{1},{}}",
    "{{}}",
    "{{},{}}",
    "{{{1}}}",
    "{{{{{{1}}}}}}",
    "{{{{{{{1}}}}}}}",
    "[1:2]={1,2}",
    "[0:1]={1,2}",
    "[2]={1,2}",
    "[1:3]={1,2}",
    "[2:1]={1}",
    "[1:2] = {1,2}",
    "[1:2]={{1,2}}",
    "[1:1][0:1]={{1,2}}",
    "[-2:-1]={1,2}",
    "[1:2]",
    "[1:2={1,2}",
    "[]={1}",
    "[a:b]={1}",
    "[1:]={1}",
    "[1:0]={}",
    "{\\a}",
    "{\"\\\"\"}",
    "{\"\\\\\"}",
    "{a\\,b}",
    "{\"a,b\"}",
    "{\"{a}\"}",
    "{a{b}}",
    "{t,f}",
    "{true,FALSE,yes}",
    "{1.5,-2}",
    "{2147483648}",
    "{'a'}",
    "{ä,\"ö\"}",
];

const TYPES: [&str; 14] = [
    "int[]",
    "bigint[]",
    "smallint[]",
    "text[]",
    "varchar(2)[]",
    "numeric[]",
    "numeric(3,1)[]",
    "boolean[]",
    "double precision[]",
    "real[]",
    "date[]",
    "uuid[]",
    "bytea[]",
    "jsonb[]",
];

const ARRAYS: [&str; 34] = [
    "ARRAY[1,2,3]",
    "ARRAY[1]",
    "ARRAY[]::int[]",
    "'{}'::int[]",
    "'{1,2}'::int[]",
    "'{1,NULL}'::int[]",
    "'{NULL}'::int[]",
    "NULL::int[]",
    "'{{1,2},{3,4}}'::int[]",
    "ARRAY[ARRAY[1,2],ARRAY[3,4]]",
    "ARRAY[[1,2],[3,4]]",
    "'[0:1]={1,2}'::int[]",
    "'[2:3]={1,2}'::int[]",
    "ARRAY[3,2,1]",
    "ARRAY[1,2,3,2,1]",
    "'{{{1}},{{2}}}'::int[]",
    "ARRAY[1,2]::bigint[]",
    "'{1,2}'::bigint[]",
    "ARRAY[1.5,2]",
    "'{1.50,2.0}'::numeric[]",
    "ARRAY['a','b']",
    "'{a,b}'::text[]",
    "'{a,NULL,\"\"}'::text[]",
    "'{}'::text[]",
    "ARRAY['a','b','a']::text[]",
    "'{{a,b},{c,d}}'::text[]",
    "'{ab,c}'::varchar(5)[]",
    "ARRAY[true,false]",
    "ARRAY[NULL]::text[]",
    "'{1.5,NaN}'::double precision[]",
    "'{2024-01-01,2024-02-29}'::date[]",
    "ARRAY['{\"a\":1}'::jsonb]",
    "'{1,2}'",
    "NULL",
];

const VALUES: [&str; 18] = [
    "1",
    "2",
    "NULL",
    "'a'",
    "'1'",
    "1.5",
    "NULL::int",
    "NULL::text",
    "2::bigint",
    "3::smallint",
    "'b'::text",
    "true",
    "''",
    "'2024-01-01'::date",
    "1.0::double precision",
    "'{\"a\":1}'::jsonb",
    "-1",
    "'x'::varchar",
];

const INTEGERS: [&str; 10] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "NULL",
    "'1'",
    "1::smallint",
    "7",
    "NULL::int",
];

/// Returns all statements, each once.
pub(super) fn statements() -> Vec<String> {
    let mut draw = Draw::of_seed(0x5eed_a44a);
    let mut all = Vec::new();
    literals(&mut all);
    casts(&mut draw, &mut all);
    operators(&mut draw, &mut all);
    functions(&mut draw, &mut all);
    subscripts(&mut draw, &mut all);
    quantified(&mut draw, &mut all);
    rows(&mut draw, &mut all);
    let mut seen = BTreeSet::new();
    all.retain(|it| seen.insert(it.clone()));
    all
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn literals(all: &mut Vec<String>) {
    for text in TEXTS {
        for column_type in TYPES {
            all.push(format!("SELECT {}::{column_type}", quote(text)));
        }
        all.push(format!("SELECT {} = ARRAY[1,2]", quote(text)));
        all.push(format!("SELECT array_dims({}::text[])", quote(text)));
        all.push(format!("SELECT {}::timestamptz[]", quote(text)));
    }
    for text in [
        "SELECT ARRAY[]",
        "SELECT ARRAY[]::text[]",
        "SELECT ARRAY[1,'2']",
        "SELECT ARRAY['a',1]",
        "SELECT ARRAY[1,2.5]",
        "SELECT ARRAY[1,NULL]",
        "SELECT ARRAY[NULL]",
        "SELECT ARRAY[NULL,NULL]::int[]",
        "SELECT ARRAY[1,true]",
        "SELECT ARRAY[[1,2],[3]]",
        "SELECT ARRAY[[1,2],3]",
        "SELECT ARRAY[[]]::int[]",
        "SELECT ARRAY[[],[]]::int[]",
        "SELECT ARRAY['{1,2}','{3,4}']::int[]",
        "SELECT ARRAY['{1,2}'::int[],'{3,4}'::int[]]",
        "SELECT ARRAY['{1,2}'::int[],'{}'::int[]]",
        "SELECT ARRAY['{}'::int[],'{}'::int[]]",
        "SELECT ARRAY['{1,2}'::int[],NULL]",
        "SELECT ARRAY['{1}'::int[],'{2}'::bigint[]]",
        "SELECT ARRAY[1,2]::text[]",
        "SELECT ARRAY['1','2']::int[]",
        "SELECT ARRAY['1','x']::int[]",
        "SELECT ARRAY[1,2,3]::numeric(4,1)[]",
        "SELECT ARRAY['abc','d']::varchar(2)[]",
        "SELECT ARRAY[1.25,2.35]::numeric(3,1)[]",
        "SELECT ARRAY[1000]::numeric(3,1)[]",
        "SELECT ARRAY[true,NULL]::text[]",
        "SELECT ARRAY[true,NULL]::text",
        "SELECT '{1,2}'::int[]::text[]::varchar",
        "SELECT '{1.5,2.5}'::numeric[]::int[]",
        "SELECT '{1,2}'::int[]::boolean[]",
        "SELECT '{1,2}'::bigint[]::boolean[]",
        "SELECT '{a}'::text[]::int[]",
        "SELECT '{{1,2}}'::int[]::text",
        "SELECT '[0:0]={7}'::int[]::text::int[]",
        "SELECT ARRAY[ARRAY[1],ARRAY[NULL]]",
        "SELECT '{2024-01-01}'::timestamptz[]::date[]",
        "SELECT '{2024-01-01}'::date[]::timestamp[]",
        "SET timezone = 'Europe/Berlin'; SELECT '{2024-01-01,2024-07-01 12:00}'::timestamptz[]",
        "SET timezone = 'Europe/Berlin'; SELECT '{2024-01-01}'::date[]::timestamptz[]",
        "SET timezone = 'Europe/Berlin'; SELECT '{2024-01-01}'::timestamptz[]::text",
        "SET timezone = 'Europe/Berlin'; SELECT m FROM r ORDER BY id",
        "SELECT '{1,2}'::int[][]",
        "SELECT '{1,2}'::int[3]",
        "SELECT CAST('{1,2}' AS int ARRAY)",
        "SELECT CAST(ARRAY[1] AS text[])",
    ] {
        all.push(text.into());
    }
}

fn casts(draw: &mut Draw, all: &mut Vec<String>) {
    for array in ARRAYS {
        for column_type in TYPES {
            all.push(format!("SELECT ({array})::{column_type}"));
        }
        all.push(format!("SELECT ({array})::text"));
        all.push(format!("SELECT ({array})::int"));
        all.push(format!("SELECT {array}"));
        all.push(format!("SELECT {array} IS NULL, {array} IS NOT NULL"));
    }
    for _ in 0..200 {
        let (one, other) = (draw.of(&VALUES), draw.of(&VALUES));
        all.push(format!("SELECT ARRAY[{one},{other},{}]", draw.of(&VALUES)));
        let (a, b) = (draw.of(&ARRAYS), draw.of(&ARRAYS));
        all.push(format!("SELECT ARRAY[{a},{b}]"));
        all.push(format!("SELECT coalesce({a}, {b}), greatest({a}, {b})"));
        all.push(format!("SELECT nullif({a}, {b})"));
        all.push(format!("SELECT CASE WHEN {a} = {b} THEN {a} ELSE {b} END"));
    }
}

fn operators(draw: &mut Draw, all: &mut Vec<String>) {
    for operator in ["=", "<>", "<", "<=", ">", ">=", "||", "@>", "<@", "&&"] {
        for left in ARRAYS {
            for _ in 0..6 {
                all.push(format!("SELECT {left} {operator} {}", draw.of(&ARRAYS)));
            }
        }
        for _ in 0..40 {
            let (array, value) = (draw.of(&ARRAYS), draw.of(&VALUES));
            all.push(format!("SELECT {array} {operator} {value}"));
            all.push(format!("SELECT {value} {operator} {array}"));
        }
    }
    let integers = &ARRAYS[..16];
    for operator in [
        "=",
        "<",
        "||",
        "@>",
        "<@",
        "&&",
        "IS DISTINCT FROM",
        "+",
        "-",
        "LIKE",
    ] {
        for _ in 0..60 {
            let (left, right) = (draw.of(integers), draw.of(integers));
            all.push(format!("SELECT {left} {operator} {right}"));
        }
    }
}

fn functions(draw: &mut Draw, all: &mut Vec<String>) {
    for array in ARRAYS {
        for function in [
            "array_ndims",
            "array_dims",
            "cardinality",
            "array_to_json",
            "to_jsonb",
            "to_json",
        ] {
            all.push(format!("SELECT {function}({array})"));
        }
        for function in ["array_length", "array_lower", "array_upper", "trim_array"] {
            for number in INTEGERS {
                all.push(format!("SELECT {function}({array}, {number})"));
            }
        }
        for function in [
            "array_append",
            "array_remove",
            "array_position",
            "array_positions",
        ] {
            for _ in 0..8 {
                all.push(format!("SELECT {function}({array}, {})", draw.of(&VALUES)));
            }
        }
        for _ in 0..6 {
            let (one, other) = (draw.of(&VALUES), draw.of(&VALUES));
            all.push(format!("SELECT array_prepend({one}, {array})"));
            all.push(format!("SELECT array_replace({array}, {one}, {other})"));
            all.push(format!("SELECT array_cat({array}, {})", draw.of(&ARRAYS)));
            let start = draw.of(&INTEGERS);
            all.push(format!("SELECT array_position({array}, {one}, {start})"));
        }
        for separator in ["','", "''", "NULL", "' - '", "1"] {
            all.push(format!("SELECT array_to_string({array}, {separator})"));
            all.push(format!("SELECT array_to_string({array}, {separator}, '*')"));
            all.push(format!(
                "SELECT array_to_string({array}, {separator}, NULL)"
            ));
        }
        all.push(format!(
            "SELECT jsonb_build_array({array}, 1), concat({array})"
        ));
        all.push(format!("SELECT length({array}), upper({array})"));
    }
    for text in [
        "'a,b,c'",
        "''",
        "NULL",
        "'abc'",
        "',a,,'",
        "'ab'",
        "1",
        "'a'::varchar",
        "'äö'",
    ] {
        for separator in ["','", "''", "NULL", "'b'", "'bc'", "'a'", "'ö'"] {
            all.push(format!("SELECT string_to_array({text}, {separator})"));
            for null in ["'a'", "''", "NULL", "'c'"] {
                all.push(format!(
                    "SELECT string_to_array({text}, {separator}, {null})"
                ));
            }
        }
    }
}

fn subscripts(draw: &mut Draw, all: &mut Vec<String>) {
    let subscript = |draw: &mut Draw| {
        let one = draw.of(&[
            "0",
            "1",
            "2",
            "3",
            "-1",
            "NULL",
            "'1'",
            "1.4",
            "true",
            "1::bigint",
        ]);
        let other = draw.of(&["0", "1", "2", "3", "NULL", "9"]);
        match draw.number() % 6 {
            0..=2 => format!("[{one}]"),
            3 => format!("[{one}:{other}]"),
            4 => format!("[:{other}]"),
            _ => format!("[{one}:]"),
        }
    };
    for array in ARRAYS {
        for _ in 0..12 {
            all.push(format!("SELECT ({array}){}", subscript(draw)));
        }
        for _ in 0..6 {
            let (one, other) = (subscript(draw), subscript(draw));
            all.push(format!("SELECT ({array}){one}{other}"));
        }
        all.push(format!("SELECT ({array})[:]"));
        all.push(format!("SELECT ({array})[:][:]"));
        all.push(format!("SELECT ({array})[1][1][1]"));
        all.push(format!("SELECT (({array})[1:2])[1]"));
    }
    for text in [
        "SELECT (1)[1]",
        "SELECT ('{1}')[1]",
        "SELECT (ARRAY[1,2])[1] + 1",
        "SELECT (ARRAY[1,2])[1][1][1][1][1][1][1]",
        "SELECT r.a[1], r.g[1][2], a[1:2] FROM r ORDER BY id",
        "SELECT g[1], g[:1], g[1:1][2], g[0][0] FROM r ORDER BY id",
        "SELECT t[id] FROM r ORDER BY id",
        "SELECT id FROM r WHERE a[1] = 1 ORDER BY id",
        "SELECT id FROM r WHERE a[2:3] = '{1,2}' ORDER BY id",
        "SELECT (string_to_array('a,b', ','))[2]",
    ] {
        all.push(text.into());
    }
}

// tidy: long — a list of statements.
fn quantified(draw: &mut Draw, all: &mut Vec<String>) {
    const OPERATORS: [&str; 8] = ["=", "<>", "<", "<=", ">", ">=", "=", "LIKE"];
    for value in VALUES {
        for _ in 0..30 {
            let operator = draw.of(&OPERATORS[..7]);
            let quantifier = draw.of(&["ANY", "ALL", "SOME"]);
            all.push(format!(
                "SELECT {value} {operator} {quantifier} ({})",
                draw.of(&ARRAYS)
            ));
        }
    }
    for _ in 0..200 {
        let operator = draw.of(&OPERATORS[..7]);
        let quantifier = draw.of(&["ANY", "ALL"]);
        let value = draw.of(&["1", "2", "NULL", "'1'", "3::bigint", "1.5"]);
        let array = draw.of(&ARRAYS[..20]);
        all.push(format!("SELECT {value} {operator} {quantifier} ({array})"));
        all.push(format!(
            "SELECT NOT {value} {operator} {quantifier} ({array})"
        ));
    }
    for text in [
        "SELECT 'ab' LIKE ANY (ARRAY['a%','c'])",
        "SELECT 'ab' LIKE ALL (ARRAY['a%','c'])",
        "SELECT 'ab' NOT LIKE ANY (ARRAY['a%','c'])",
        "SELECT 'ab' NOT LIKE ALL (ARRAY['a%','c'])",
        "SELECT 'ab' ~~ ANY ('{a%}')",
        "SELECT 'ab' !~~ ALL ('{a%,x}')",
        "SELECT 1 + ANY (ARRAY[1])",
        "SELECT NULL = ANY (ARRAY[]::int[])",
        "SELECT 1 = ANY (1)",
        "SELECT 1 = ANY ('x')",
        "SELECT ARRAY[1] = ANY (ARRAY[ARRAY[1]])",
        "SELECT 1 = ANY (NULL)",
        "SELECT 1 = ALL (NULL)",
        "SELECT 1 = ANY (NULL::int[])",
        "SELECT 1 = ANY ('{{1,2},{3,4}}')",
        "SELECT 4 = ANY ('{{1,2},{3,4}}'::int[])",
    ] {
        all.push(text.into());
    }
    const CONDITIONS: [&str; 40] = [
        "n = ANY ('{1,2}')",
        "n = ANY ('{1,NULL}')",
        "n = ANY ('{}')",
        "n = ANY (NULL)",
        "n = ANY (NULL::int[])",
        "n <> ALL ('{1,2}')",
        "n <> ALL ('{1,NULL}')",
        "n <> ALL ('{}')",
        "n <> ANY ('{1}')",
        "n = ALL ('{1}')",
        "n = ALL ('{1,1}')",
        "n > ANY ('{1,5}')",
        "n > ALL ('{1,2}')",
        "n <= ANY ('{}')",
        "n = ANY (ARRAY[1,7])",
        "n = ANY (ARRAY[1,NULL])",
        "n = ANY (ARRAY[]::int[])",
        "n = ANY ('{1,2}'::bigint[])",
        "n = ANY ('{1,2.5}'::numeric[])",
        "n = ANY (ARRAY[1,2.5])",
        "n = ANY ('{1,2.5}'::double precision[])",
        "id = ANY ('{1,3,99}')",
        "id = ANY ('{3,3,1}'::int[])",
        "id <> ALL ('{1,3}')",
        "t = ANY ('{a,B}')",
        "t = ANY (ARRAY['a','b'])",
        "t = ANY ('{a,NULL,\"\"}')",
        "t LIKE ANY ('{a%,B}')",
        "v = ANY ('{a,\"b \"}')",
        "v = ANY ('{a,ab}'::text[])",
        "q = ANY ('{1,1.5}')",
        "q = ANY ('{1,2}'::int[])",
        "q = ANY ('{NaN}')",
        "f = ANY ('{0.1,1.5}')",
        "f = ANY ('{0.1,1.5}'::double precision[])",
        "f = ANY (ARRAY[0.1,1])",
        "(n, t) = ANY ('{}')",
        "n = ANY (ARRAY[id, 1])",
        "1 = ANY (ARRAY[n, id])",
        "n = ANY ('{1,2}') AND n <> ALL ('{2}')",
    ];
    for condition in CONDITIONS {
        all.push(format!("SELECT id FROM ri WHERE {condition} ORDER BY id"));
        all.push(format!(
            "SELECT id FROM ri WHERE NOT ({condition}) ORDER BY id"
        ));
        all.push(format!(
            "SELECT id FROM ri WHERE ({condition}) IS NULL ORDER BY id"
        ));
        all.push(format!(
            "SELECT count(*) FROM ri WHERE {condition} AND t = 'a'"
        ));
        all.push(format!(
            "SELECT id FROM ri WHERE {condition} OR id = 2 ORDER BY id"
        ));
        let other = draw.of(&CONDITIONS);
        all.push(format!(
            "SELECT id FROM ri WHERE {condition} AND {other} ORDER BY id"
        ));
        all.push(format!(
            "SELECT id FROM ri WHERE {condition} OR {other} ORDER BY id"
        ));
    }
}

// tidy: long — a list of statements.
fn rows(draw: &mut Draw, all: &mut Vec<String>) {
    for column in ["a", "t", "g", "n", "v", "c", "f", "b", "u", "m", "d", "j"] {
        for value in [
            "{}",
            "{}::text",
            "array_dims({})",
            "cardinality({})",
            "{}[1]",
            "{} || {}",
            "{} = {}",
            "array_to_json({})",
            "{}[1:1]",
            "to_jsonb({})",
            "array_to_string({}, ',', '-')",
            "array_length({}, 1)",
            "array_position({}, {}[2])",
            "array_remove({}, {}[1])",
            "{} || {}[1]",
            "coalesce({}, '{}')",
            "{}[1] = ANY ({})",
            "{}[1] || {}",
        ] {
            let value = value
                .replace("{}", column)
                .replace(&format!("'{column}'"), "'{}'");
            all.push(format!("SELECT id, {value} FROM r ORDER BY id"));
            all.push(format!(
                "SELECT id FROM r ORDER BY {value} DESC NULLS LAST, id"
            ));
        }
        all.push(format!("SELECT DISTINCT {column} FROM r ORDER BY {column}"));
        all.push(format!(
            "SELECT {column}, count(*) FROM r GROUP BY {column} ORDER BY {column}"
        ));
        all.push(format!("SELECT max({column}), min({column}) FROM r"));
        all.push(format!(
            "SELECT count({column}), count(DISTINCT {column}) FROM r"
        ));
        for operator in ["=", "<>", "<", ">=", "@>", "<@", "&&"] {
            for array in [
                "'{}'",
                "'{1,2}'",
                "'{a,b}'",
                "'{NULL}'",
                "ARRAY[1,2]",
                "'{1.5,2}'::numeric[]",
                "'{t}'",
            ] {
                all.push(format!(
                    "SELECT id FROM r WHERE {column} {operator} {array} ORDER BY id"
                ));
            }
        }
    }
    for condition in [
        "x = ANY (t)",
        "x <> ALL (t)",
        "id = ANY (a)",
        "id <> ALL (a)",
        "y = ANY (n)",
        "z = ANY (f)",
        "k = ANY (a)",
        "k = ANY (g)",
        "id < ANY (a)",
        "id >= ALL (a)",
        "y = ANY (a)",
        "z = ANY (a)",
        "x = ANY (v)",
        "x = ANY (c)",
        "NULL = ANY (a)",
        "2 = ANY (a)",
        "'a' = ANY (t)",
        "'a' = ANY (v)",
        "1.5 = ANY (n)",
        "true = ANY (b)",
        "true = ALL (b)",
        "'2024-01-01' = ANY (d)",
        "x LIKE ANY (t)",
        "a = '{1,2}' OR 'a' = ANY (t)",
        "a @> ARRAY[id]",
        "t && string_to_array(x, ' ')",
        "a[1] = ANY (ARRAY[1,3])",
        "cardinality(a) = 2",
        "a || id = '{1,2,6}'",
        "a IS NULL",
        "array_position(t, 'a') = 1",
        "array_length(g, 2) = 2",
    ] {
        all.push(format!("SELECT id FROM r WHERE {condition} ORDER BY id"));
        all.push(format!(
            "SELECT id FROM r WHERE NOT ({condition}) ORDER BY id"
        ));
        all.push(format!(
            "SELECT count(*) FROM r WHERE ({condition}) IS NULL"
        ));
    }
    for order in [
        "a",
        "a DESC",
        "t, a",
        "t DESC, a DESC",
        "n",
        "t NULLS FIRST, n",
    ] {
        all.push(format!("SELECT a, t, n FROM rk ORDER BY {order}"));
    }
    for _ in 0..150 {
        let column = draw.of(&["a", "t"]);
        let arrays: &[&str] = match column {
            "a" => &[
                "'{}'",
                "'{1}'",
                "'{1,2}'",
                "'{1,NULL}'",
                "'{NULL}'",
                "'{{1,2}}'",
                "'[0:1]={1,2}'",
                "'{0}'",
                "ARRAY[1,2]",
                "'{1,1}'",
            ],
            _ => &[
                "'{}'",
                "'{a}'",
                "'{a,b}'",
                "'{a,NULL}'",
                "'{NULL}'",
                "'{{a,b}}'",
                "'{\"\"}'",
                "ARRAY['a','b']",
                "'{b}'",
            ],
        };
        let operator = draw.of(&["=", "<", "<=", ">", ">=", "<>"]);
        let (array, other) = (draw.of(arrays), draw.of(arrays));
        let second = draw.of(&["<", "<=", ">", ">="]);
        all.push(format!(
            "SELECT n FROM rk WHERE {column} {operator} {array} ORDER BY n"
        ));
        all.push(format!(
            "SELECT n FROM rk WHERE {column} {operator} {array} AND {column} {second} {other} ORDER BY n"
        ));
        all.push(format!(
            "SELECT n FROM rk WHERE {column} IN ({array}, {other}) ORDER BY {column}"
        ));
        all.push(format!(
            "SELECT n FROM rk WHERE t = {other} AND n > 2 ORDER BY n"
        ));
    }
    aggregates(all);
}

fn aggregates(all: &mut Vec<String>) {
    for text in [
        "SELECT array_agg(id) FROM r WHERE id = 1",
        "SELECT array_agg(id) FROM r WHERE id > 99",
        "SELECT array_agg(a) FROM r WHERE id = 1",
        "SELECT array_agg(a) FROM r WHERE id IN (2, 3)",
        "SELECT array_agg(x) FROM r WHERE id = 3",
        "SELECT array_agg(DISTINCT k) FROM r",
        "SELECT array_agg(DISTINCT x) FROM r",
        "SELECT array_agg(g) FROM r WHERE id = 5",
        "SELECT id, array_agg(t) FROM r WHERE id < 3 GROUP BY id ORDER BY id",
        "SELECT id, array_agg(x) FROM r GROUP BY id ORDER BY id",
        "SELECT cardinality(array_agg(id)) FROM r",
        "SELECT array_agg(NULL) FROM r WHERE id = 1",
        "SELECT array_agg(x) FILTER (WHERE id = 4) FROM r",
        "SELECT array_agg(1) FROM r",
        "SELECT array_agg(n) FROM ri WHERE id = 4",
        "SELECT array_agg(m) FROM r WHERE id = 1",
    ] {
        all.push(text.into());
    }
}
