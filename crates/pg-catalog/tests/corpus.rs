//! Statements that psql and drivers send, with the answers of a PostgreSQL 15 that has the same
//! schema.
//!
//! Each file of `corpus` has statements as they were recorded, and below each the answer as psql
//! prints it. The numbers of objects in [`shop`] are those of the database where they were
//! recorded, so that statements with numbers fit. An answer that differs must be named in
//! [`DIFFERENCES`].

mod shop;

use std::fmt::Write as _;

use shop::{answer, shop};

/// Parts of statements whose answers differ from PostgreSQL's, with the reason. A statement that
/// has such a part and does not differ fails the test.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "pg_size_pretty(pg_catalog.pg_table_size",
        "the store does not know sizes",
    ),
    ("FROM pg_catalog.pg_extension e", "there is no plpgsql"),
    ("FROM pg_catalog.pg_ts_config c", "there is no text search"),
    ("FROM pg_catalog.pg_language l", "there is no plpgsql"),
    ("FROM pg_catalog.pg_database d", "there is one database"),
    ("CASE amtype", "indexes are B-trees"),
    (
        "format_type(c.opcintype",
        "classes of types that no column has are missing",
    ),
    (
        "AS \"Value\"\nFROM pg_catalog.pg_settings s",
        "the settings are those of the store",
    ),
    ("WHERE c.oid = '1259'", "the catalogue has no indexes"),
    (
        "c.oid = '1259' AND c.oid = i.indrelid",
        "the catalogue has no indexes",
    ),
    ("select pg_catalog.version()", "it is another program"),
];

/// Returns an answer of a driver's statement with its rows in one order: most of them have none.
fn unordered(answer: &str, file: &str) -> String {
    let mut lines: Vec<&str> = answer.lines().collect();
    if file == "drivers" && lines.len() > 1 {
        lines[1..].sort_unstable();
    }
    lines.join("\n")
}

#[test]
fn answers_are_those_of_postgres() {
    let catalogue = shop();
    let mut failures = String::new();
    let mut count = 0;
    for file in ["psql", "drivers"] {
        let path = format!("{}/tests/corpus/{file}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        for recorded in text.split("\n====\n") {
            let Some((statement, expected)) = recorded.split_once(";\n----\n") else {
                continue;
            };
            count += 1;
            let known = DIFFERENCES
                .iter()
                .find(|(part, _)| statement.contains(part));
            let found = unordered(&answer(&catalogue, statement), file);
            let expected = unordered(expected.trim_end_matches('\n'), file);
            match (found == expected, known) {
                (true, None) | (false, Some(_)) => {}
                (true, Some((part, _))) => {
                    writeln!(failures, "{part} does not differ: {statement}\n").unwrap();
                }
                (false, None) => writeln!(
                    failures,
                    "{file}: {statement}\n--- found\n{found}\n--- expected\n{expected}\n"
                )
                .unwrap(),
            }
        }
    }
    assert!(count > 200, "{count} statements");
    assert!(failures.is_empty(), "{failures}");
}
