//! Generates statements that group rows: aggregates of every type, `GROUP BY`, `HAVING`, `DISTINCT`
//! and `FILTER`, valid and invalid.

use super::drawn::Draw;

/// The table: few different values, so that groups have several rows.
pub(super) const SETUP: &str = "
    CREATE TABLE g (id integer PRIMARY KEY, h smallint, i integer, n bigint, r real,
        x double precision, s text, v varchar(4), b boolean, dt date);
    INSERT INTO g VALUES
        (1, 1, 1, 10, 0.5, 0.25, 'a', 'p', true, '2024-01-01'),
        (2, 1, 2, 20, 1.5, 0.5, 'b', 'p', false, '2024-01-02'),
        (3, 2, 1, 10, -0.5, 1.25, 'a', 'q', NULL, '2024-01-01'),
        (4, 2, NULL, 9007199254740993, NULL, NULL, 'b', 'q', true, NULL),
        (5, NULL, 2, -30, 2, 4, NULL, 'r', true, '2024-01-02'),
        (6, NULL, 1, NULL, 0.25, -8, 'a', NULL, false, 'infinity'),
        (7, 3, 2147483647, 9223372036854775807, 16777216, 1e100, 'c', 'p', false, '-infinity'),
        (8, 3, 2147483647, 9223372036854775806, 1, 1e100, 'c', '', NULL, '2024-01-01');
    CREATE TABLE g_empty (id integer PRIMARY KEY, h smallint, i integer, n bigint, r real,
        x double precision, s text, v varchar(4), b boolean, dt date);";

const COLUMNS: [&str; 10] = ["id", "h", "i", "n", "r", "x", "s", "v", "b", "dt"];

/// Adds the statements.
pub(super) fn statements(draw: &mut Draw, all: &mut Vec<String>) {
    for table in ["g", "g_empty"] {
        for function in ["count", "min", "max", "sum", "avg", "bool_and", "bool_or"] {
            for column in COLUMNS {
                all.push(format!("SELECT {function}({column}) FROM {table}"));
                let distinct = format!("SELECT {function}(DISTINCT {column}) FROM {table}");
                // PostgreSQL adds distinct numbers in their order, as the store does.
                all.push(distinct);
            }
        }
    }
    for _ in 0..1500 {
        let table = match draw.number() % 8 {
            0 => "g_empty",
            _ => "g",
        };
        all.push(grouped(draw, table));
    }
    all.extend(WRITTEN.map(String::from));
}

/// Statements whose meaning depends on their form.
const WRITTEN: [&str; 36] = [
    "SELECT s FROM g",
    "SELECT s, count(*) FROM g",
    "SELECT count(*), id + 1 FROM g",
    "SELECT g.s, count(*) FROM g GROUP BY s ORDER BY 1",
    "SELECT t.s, count(*) FROM g AS t GROUP BY t.s ORDER BY s",
    "SELECT id, s, v FROM g GROUP BY id ORDER BY id",
    "SELECT * FROM g_empty GROUP BY id",
    "SELECT s AS v, count(*) FROM g GROUP BY v ORDER BY 2, 1",
    "SELECT i + 1 AS j, count(*) FROM g GROUP BY j ORDER BY j",
    "SELECT i + 1, count(*) FROM g GROUP BY i + 1 ORDER BY i + 1",
    "SELECT i + 2, count(*) FROM g GROUP BY i + 1",
    "SELECT (i + 1) * 2 AS k, count(*) FROM g GROUP BY (i + 1) ORDER BY k",
    "SELECT count(*) FROM g GROUP BY 1",
    "SELECT s FROM g GROUP BY 0",
    "SELECT s FROM g GROUP BY 2",
    "SELECT s FROM g GROUP BY 'a'",
    "SELECT 1 FROM g GROUP BY 1",
    "SELECT 1 FROM g_empty GROUP BY 1",
    "SELECT 1 FROM g_empty HAVING true",
    "SELECT 1 FROM g_empty HAVING false",
    "SELECT 2 FROM g HAVING count(*) = 8",
    "SELECT count(*) FROM g HAVING s = 'a'",
    "SELECT count(count(*)) FROM g",
    "SELECT count(*) FROM g WHERE count(*) > 1",
    "SELECT max(i) FROM g ORDER BY i",
    "SELECT s FROM g GROUP BY s ORDER BY count(*) DESC, s LIMIT 2",
    "SELECT s FROM g GROUP BY s ORDER BY max(id) OFFSET 1",
    "SELECT DISTINCT s FROM g ORDER BY s",
    "SELECT DISTINCT s FROM g ORDER BY v",
    "SELECT DISTINCT h + 1 AS k FROM g ORDER BY k DESC",
    "SELECT DISTINCT s, b FROM g ORDER BY 2, 1 LIMIT 3",
    "SELECT DISTINCT count(*) FROM g GROUP BY s ORDER BY 1",
    "SELECT DISTINCT 1, 2 FROM g",
    "SELECT sum(x * 1e208) FROM g WHERE id > 6",
    "SELECT sum(r * 1e31) FROM g WHERE id > 6",
    "SELECT count(*), max(3), min('x'), count(NULL)",
];

/// Returns a statement with a total order, so that the answer is one.
fn grouped(draw: &mut Draw, table: &str) -> String {
    let keys = [
        "s",
        "v",
        "h",
        "b",
        "dt",
        "i",
        "i % 2",
        "b IS NULL",
        "coalesce(s, 'none')",
        "h + 1",
        "upper(s)",
        "x > 0",
        "CASE WHEN i > 1 THEN 'many' ELSE 'few' END",
    ];
    let mut group = vec![draw.of(&keys)];
    if draw.number().is_multiple_of(3) {
        let other = draw.of(&keys);
        if !group.contains(&other) {
            group.push(other);
        }
    }
    let mut items: Vec<String> = group.iter().map(|key| (*key).to_string()).collect();
    for _ in 0..=draw.number() % 3 {
        items.push(item(draw));
    }
    let filter = match draw.number() % 3 {
        0 => format!(" WHERE {}", condition(draw)),
        _ => String::new(),
    };
    let having = match draw.number() % 3 {
        0 => format!(
            " HAVING {} {} {}",
            draw.of(&["count(*)", "max(id)", "min(i)", "count(DISTINCT s)"]),
            draw.of(&["<", ">", "=", "<>"]),
            draw.of(&["0", "1", "2", "5"])
        ),
        _ => String::new(),
    };
    let positions: Vec<String> = (1..=group.len()).map(|it| it.to_string()).collect();
    let order = match draw.number() % 3 {
        0 => format!("count(*) DESC, max(id), {}", positions.join(", ")),
        1 => group.join(", "),
        _ => format!("{} DESC", positions.join(" DESC NULLS LAST, ")),
    };
    let limit = draw.of(&["", "", " LIMIT 2", " LIMIT 2 OFFSET 1"]);
    let distinct = match draw.number() % 8 {
        0 => "DISTINCT ",
        _ => "",
    };
    let (items, group) = (items.join(", "), group.join(", "));
    format!(
        "SELECT {distinct}{items} FROM {table}{filter} GROUP BY {group}{having} ORDER BY {order}\
         {limit}"
    )
}

fn item(draw: &mut Draw) -> String {
    let function = draw.of(&["count", "min", "max", "sum", "avg", "count", "max", "sum"]);
    let argument = match function {
        "sum" | "avg" => draw.of(&[
            "h", "i", "n", "r", "x", "id", "h * 2", "i - id", "x / 2", "r",
        ]),
        _ => draw.of(&[
            "id",
            "h",
            "n",
            "s",
            "v",
            "b IS NULL",
            "id % 3",
            "dt",
            "h / (id - 1)",
        ]),
    };
    let distinct = match draw.number() % 5 {
        0 => "DISTINCT ",
        _ => "",
    };
    let filter = match draw.number() % 4 {
        0 => format!(" FILTER (WHERE {})", condition(draw)),
        _ => String::new(),
    };
    let call = match draw.number() % 6 {
        0 => format!("count(*){filter}"),
        1 => format!("bool_or({}){filter}", condition(draw)),
        2 => format!("every({})", condition(draw)),
        _ => format!("{function}({distinct}{argument}){filter}"),
    };
    match draw.number() % 6 {
        0 => format!("{call} IS NULL"),
        1 if call.starts_with("count") => format!("{call} + 1"),
        _ => call,
    }
}

fn condition(draw: &mut Draw) -> String {
    draw.of(&[
        "id > 2",
        "b",
        "NOT b",
        "s = 'a'",
        "s IN ('a', 'c')",
        "i > 1",
        "v IS NOT NULL",
        "x < 1",
        "h BETWEEN 1 AND 2",
    ])
    .to_string()
}
