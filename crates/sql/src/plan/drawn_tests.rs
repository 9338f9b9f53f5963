//! Generates random conditions and random words: a plan is equivalent to its text, and no text
//! causes a panic. The generator's seeds are fixed, so every run generates the same.

use protocol::expression::holds;

use super::access_tests::found_in;
use super::tests::read;
use super::*;
use crate::fixture::configuration;
use crate::parse::parse;

/// A small generator, so that every run draws the same.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % count
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    /// Returns a condition over `users`. Its values come from small domains, so that they coincide.
    fn condition(&mut self, depth: usize) -> String {
        let texts = ["'eu'", "'us'", "'a1'", "NULL", "''"];
        let numbers = ["-1", "0", "1", "2", "1.0", "1.5", "NULL"];
        let (column, values): (&str, &[&str]) = match self.below(4) {
            0 => ("region", &texts),
            1 => ("email", &texts),
            2 => ("number", &numbers),
            _ => ("n", &numbers),
        };
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0 | 1 => format!("{column} = {}", self.of(values)),
            2 => {
                let operator = self.of(&["<", "<=", ">", ">=", "<>"]);
                format!("{column} {operator} {}", self.of(values))
            }
            3 => format!("{} < {column}", self.of(values)),
            4 => {
                let list = [self.of(values), self.of(values), self.of(values)];
                format!("{column} IN ({})", list.join(", "))
            }
            5 => format!("{column} IS {}NULL", self.of(&["", "NOT "])),
            6 => format!(
                "({}) OR ({})",
                self.condition(depth - 1),
                self.condition(depth - 1)
            ),
            7 => format!("NOT ({})", self.condition(depth - 1)),
            _ => format!(
                "({}) AND ({})",
                self.condition(depth - 1),
                self.condition(depth - 1)
            ),
        }
    }
}

/// As `ranges_and_filter_together_are_the_condition`, over two thousand drawn conditions.
#[test]
fn drawn_conditions_keep_their_meaning() {
    keep_their_meaning("users");
}

#[test]
fn drawn_conditions_keep_their_meaning_in_a_hyperspace() {
    keep_their_meaning("grids");
}

fn keep_their_meaning(table: &str) {
    let configuration = configuration();
    let table = configuration.table_named(table).unwrap();
    let mut rows = Vec::new();
    for region in ["eu", "us", "a1", ""] {
        for number in -1..3 {
            for email in [
                Value::Null,
                Value::Text("a1".into()),
                Value::Text(String::new()),
            ] {
                let n = Value::Int64((number + email.to_string().len() as i64) % 3);
                rows.push(vec![
                    Value::Text(region.into()),
                    Value::Int64(number),
                    email,
                    n,
                ]);
            }
        }
    }
    let mut draw = Draw(20_130_101);
    let mut kinds = [0; 6];
    for _ in 0..2000 {
        let conjuncts: Vec<String> = (0..=draw.below(4)).map(|_| draw.condition(2)).collect();
        let condition: Vec<String> = conjuncts.iter().map(|it| format!("({it})")).collect();
        let condition = condition.join(" AND ");
        let order = draw.of(&["", "", "ORDER BY email LIMIT 3"]);
        let text = format!(
            "SELECT /*+ scan */ * FROM {} WHERE {condition} {order}",
            table.schema.name
        );
        let (_, read) = read(&text);
        kinds[read.access.kind as usize] += 1;
        let Statement::Select(select) = parse(&text).unwrap().remove(0).statement else {
            panic!("{text}");
        };
        let scope = Scope {
            schema: Some(&table.schema),
            ..Scope::CONSTANTS
        };
        let whole = Expression::all(scope.condition(&select.filter.unwrap()).unwrap());
        let holds = |expression: &Option<Expression>, row: &Vec<Value>| match expression {
            None => true,
            Some(it) => holds(it, row, None).unwrap(),
        };
        for row in &rows {
            let passes = found_in(&read, &table.layout, row) && holds(&read.filter, row);
            assert_eq!(passes, holds(&whole, row), "{condition}: {row:?}");
        }
    }
    assert!(
        kinds.iter().all(|count| *count > 20),
        "every kind was drawn: {kinds:?}"
    );
}

#[rustfmt::skip]
const WORDS: [&str; 68] = [
    "SELECT", "*", "count(*)", "FROM", "WHERE", "flights", "users", "id", "tailnum", "=", "<",
    "'N1'", "1", "-", "NULL", "AND", "OR", "NOT", "IN", "(", ")", ",", "ORDER BY", "LIMIT",
    "OFFSET", "INSERT INTO", "VALUES", "(1, 'a', 'b', 'c')", "ON CONFLICT", "DO NOTHING",
    "DO UPDATE SET", "UPDATE", "SET", "DELETE FROM", "CREATE TABLE", "CREATE INDEX", "x", "ON",
    "INDEX", "UNIQUE", "bigint", "PRIMARY KEY", "WITH", "constraint", "'dense'", "DROP TABLE",
    "EXPLAIN", "SHOW", "TABLES", "scan", "on", "excluded", ".", "::", "text", "e'\\n'", "$1",
    "BETWEEN", "IS", "DISTINCT", "LIKE", "/*+ scan */", "DEFAULT", "now()", "AS", ";", "*/",
    "--\n",
];

#[rustfmt::skip]
const STARTS: [&str; 8] = [
    "", "SELECT * FROM flights WHERE ", "SELECT ", "INSERT INTO users VALUES (",
    "UPDATE users SET ", "CREATE TABLE t (", "DELETE FROM flights WHERE id ",
    "EXPLAIN SELECT id FROM flights ",
];

/// Words of SQL in any order are planned or refused, never more than that.
#[test]
fn any_words_are_planned_or_refused() {
    let configuration = configuration();
    let context = Context {
        configuration: &configuration,
        settings: SessionSettings::default(),
        parameters: &[],
        now_us: 0,
        statistics: &WithoutStatistics,
        explains: false,
    };
    let mut draw = Draw(42);
    let mut planned = 0;
    for _ in 0..20_000 {
        let mut text = draw.of(&STARTS).to_string();
        for _ in 0..=draw.below(9) {
            text += draw.of(&WORDS);
            text += " ";
        }
        for parsed in parse(&text).unwrap_or_default() {
            planned += usize::from(plan(&parsed.statement, &context).is_ok());
        }
    }
    assert!(planned > 30, "only {planned} were planned");
}
