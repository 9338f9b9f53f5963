//! Statements that ask for too much, or for something that there is not: each ends with an error,
//! in bounded time and memory.

mod shop;

use std::time::{Duration, Instant};

use shop::{answer, shop};

/// Longer than any of the statements may take, also on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

#[test]
fn statements_end() {
    let catalogue = shop();
    let deep = format!(
        "SELECT {}1{} FROM pg_class",
        "(".repeat(5_000),
        ")".repeat(5_000)
    );
    let chain = format!("SELECT 1{} FROM pg_class", " + 1".repeat(100_000));
    let sum = format!("SELECT 1{} FROM pg_class", " + 1".repeat(3_000));
    let minus = format!("SELECT {}1 FROM pg_class", "- ".repeat(3_000));
    let selects = format!("{}SELECT 1{}", "SELECT (".repeat(500), ")".repeat(500));
    let regex = format!("SELECT 'a' ~ '{}' FROM pg_class", "(a{1,900}){1,900}");
    let everything = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c";
    let held = "SELECT a.*, b.* FROM pg_attribute a, pg_attribute b";
    let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t";
    let long = "SELECT repeat(repeat('a', 1000000), 1000000) FROM pg_class";
    let series = "SELECT count(*) FROM generate_series(1, 9000000000000) s, pg_class";
    for (statement, codes) in [
        (&*deep, &["54001"][..]),
        (&chain, &["54001"]),
        (&sum, &["54001"]),
        (&minus, &["54001"]),
        (&selects, &["54001"]),
        (&regex, &["54000"]),
        (everything, &["54000"]),
        (held, &["54000"]),
        (endless, &["54000", "22003"]),
        (long, &["54000"]),
        (series, &["54000"]),
    ] {
        let begun = Instant::now();
        let found = answer(&catalogue, statement);
        let start: String = statement.chars().take(60).collect();
        let is_expected = codes
            .iter()
            .any(|code| found.starts_with(&format!("ERROR {code}")));
        let shown: String = found.chars().take(200).collect();
        assert!(is_expected, "{start}: {shown}");
        assert!(begun.elapsed() < LONGEST, "{start}");
    }
}

#[test]
fn errors_are_those_of_postgres() {
    let catalogue = shop();
    for (statement, expected) in [
        (
            "SELECT nothing FROM pg_class",
            "ERROR 42703: column \"nothing\" does not exist",
        ),
        (
            "SELECT c.nothing FROM pg_class c",
            "ERROR 42703: column c.nothing does not exist",
        ),
        (
            "SELECT oid FROM pg_class, pg_type",
            "ERROR 42702: column reference \"oid\" is ambiguous",
        ),
        (
            "SELECT x.oid FROM pg_class",
            "ERROR 42P01: missing FROM-clause entry for table \"x\"",
        ),
        (
            "SELECT 1 FROM pg_catalog.pg_nothing",
            "ERROR 42P01: relation \"pg_catalog.pg_nothing\" does not exist",
        ),
        (
            "SELECT 'nothing'::regclass",
            "ERROR 42P01: relation \"nothing\" does not exist",
        ),
        (
            "SELECT 'nothing'::regtype",
            "ERROR 42704: type \"nothing\" does not exist",
        ),
        (
            "SELECT 1::nothing",
            "ERROR 42704: type \"nothing\" does not exist",
        ),
        (
            "SELECT nothing(1) FROM pg_class",
            "ERROR 42883: function nothing(integer) does not exist",
        ),
        (
            "SELECT 1 FROM pg_class WHERE relname = 1",
            "ERROR 42883: operator does not exist: name = integer",
        ),
        (
            "SELECT relname, count(*) FROM pg_class",
            "ERROR 42803: column \"pg_class.relname\" must appear in the GROUP BY clause or be used \
             in an aggregate function",
        ),
        (
            "SELECT 1 / 0 FROM pg_class",
            "ERROR 22012: division by zero",
        ),
        (
            "SELECT 'x'::int4",
            "ERROR 22P02: invalid input syntax for type integer: \"x\"",
        ),
        (
            "SELECT (SELECT oid FROM pg_class)",
            "ERROR 21000: more than one row returned by a subquery used as an expression",
        ),
        (
            "SELECT 1 FROM pg_class, flights",
            "ERROR 0A000: table flights beside relations of the catalogue is not supported in a \
             statement about the catalogue",
        ),
    ] {
        assert_eq!(answer(&catalogue, statement), expected, "{statement}");
    }
}
