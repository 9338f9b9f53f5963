//! Compares our SQL with PostgreSQL's. Literals, casts, operators, conditions and orders are
//! generated, and their answers are those of PostgreSQL 15.
//!
//! `golden.tsv` and the other files beside it hold each statement and PostgreSQL's answer, so that
//! the comparison needs no database. A statement may be refused here that PostgreSQL answers, which
//! its third column records; another answer, or one where PostgreSQL has none, is a fault. To ask a
//! database again, in a cluster with `--locale=C`:
//!
//! ```sh
//! REPLEX_POSTGRES='host=127.0.0.1 user=postgres' cargo test -p sql differential
//! ```
//!
//! With `REPLEX_UPDATE=1` as well, the file is written again, to be looked at before it is kept.

mod drawn;
mod drawn_arrays;
mod drawn_functions;
mod drawn_further;
mod drawn_groups;
mod drawn_interval;
mod drawn_json;
mod drawn_numeric;
mod drawn_regex;
mod drawn_types;
mod drawn_zones;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use placement::{ColumnType, TimeZone, Value};

use crate::model::{Model, block_on};
use crate::run::{OutputColumn, SqlSession, StatementOutcome};

/// The answer of a statement that fails.
const ERROR: &str = "ERROR";
const GOLDEN: Golden = Golden {
    name: "golden.tsv",
    text: include_str!("golden.tsv"),
    tables: "d, e, f, g, g_empty, z",
};
const GOLDEN_JSON: Golden = Golden {
    name: "golden_json.tsv",
    text: include_str!("golden_json.tsv"),
    tables: drawn_json::TABLES,
};
const GOLDEN_FURTHER: Golden = Golden {
    name: "golden_further.tsv",
    text: include_str!("golden_further.tsv"),
    tables: drawn_further::TABLES,
};
const GOLDEN_REGEX: Golden = Golden {
    name: "golden_regex.tsv",
    text: include_str!("golden_regex.tsv"),
    tables: drawn_regex::TABLES,
};
const GOLDEN_INTERVAL: Golden = Golden {
    name: "golden_interval.tsv",
    text: include_str!("golden_interval.tsv"),
    tables: drawn_interval::TABLES,
};
const GOLDEN_ARRAYS: Golden = Golden {
    name: "golden_arrays.tsv",
    text: include_str!("golden_arrays.tsv"),
    tables: drawn_arrays::TABLES,
};
/// A line that psql prints after each answer.
const MARK: &str = "@@";

/// A statement that begins so runs in the time zone in the quotes after it.
const IN_ZONE: &str = "SET timezone = '";

/// Returns the time zone in which a statement runs, and the statement itself.
fn zoned(statement: &str) -> (TimeZone<'static>, &str) {
    let Some((zone, statement)) = statement
        .strip_prefix(IN_ZONE)
        .and_then(|rest| rest.split_once("'; "))
    else {
        return (TimeZone::UTC, statement);
    };
    let zone = crate::session_zone(zone).unwrap_or_else(|| panic!("{zone} is a zone"));
    (zone, statement)
}

/// A golden file.
struct Golden {
    name: &'static str,
    text: &'static str,
    /// The tables that its statements read, to be dropped in PostgreSQL.
    tables: &'static str,
}

/// One line of the golden file.
struct GoldenLine<'a> {
    answer: &'a str,
    is_refused: bool,
}

fn known(golden: &Golden) -> BTreeMap<&'static str, GoldenLine<'static>> {
    let lines = golden.text.lines().map(|line| {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or("");
        let (statement, answer, refused) = (field(), field(), field());
        let is_refused = refused == "refused";
        (statement, GoldenLine { answer, is_refused })
    });
    lines.collect()
}

/// Returns the store's answer: rows as psql prints them, one after the other.
fn answer(session: &mut SqlSession<Model>, statement: &str) -> String {
    let (zone, statement) = zoned(statement);
    session.set_time_zone(zone);
    let outcomes = match block_on(session.run_text(statement)) {
        Ok(outcomes) => outcomes,
        Err(_) => return ERROR.to_string(),
    };
    let [StatementOutcome::Rows(rows)] = &outcomes[..] else {
        panic!("{statement} has no rows: {outcomes:?}");
    };
    let shown = |(value, column): (&Value, &OutputColumn)| match value {
        Value::Null => "NULL".to_string(),
        value => {
            let column_type = column.column_type.unwrap_or(ColumnType::Text);
            // psql prints its lines one by one, as it does rows.
            column_type.shown_in(value, &zone).replace('\n', "/")
        }
    };
    let columns = &rows.columns;
    let rows = rows.rows.iter();
    let rows = rows.map(|row| {
        let values = row.iter().zip(columns).map(shown);
        values.collect::<Vec<_>>().join("|")
    });
    rows.collect::<Vec<_>>().join("/")
}

/// Returns PostgreSQL's answer to each statement.
fn asked(connection: &str, tables: &str, setup: &str, statements: &[String]) -> Vec<String> {
    let mut script =
        format!("SET client_min_messages = error;\nSET timezone = 'UTC';\nBEGIN;\n{setup}\n");
    script += "COMMIT;\n";
    for statement in statements {
        writeln!(script, "{statement};\n\\echo {MARK} :ERROR").unwrap();
        if statement.starts_with(IN_ZONE) {
            script += "SET timezone = 'UTC';\n";
        }
    }
    writeln!(script, "DROP TABLE IF EXISTS {tables};").unwrap();
    let mut psql = Command::new("psql")
        .args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-P",
            "null=NULL",
            "-d",
            connection,
            "-f",
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("psql is Debian's package postgresql-client");
    let mut stdin = psql.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = psql.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut answers = Vec::new();
    let mut rows: Vec<&str> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix(MARK) {
            Some(" true") => answers.push(ERROR.to_string()),
            Some(_) => answers.push(rows.join("/")),
            None => {
                rows.push(line);
                continue;
            }
        }
        rows.clear();
    }
    answers
}

#[test]
fn answers_equal_those_of_postgresql() {
    let statements = drawn::statements();
    let setup = [
        drawn::SETUP,
        drawn_types::SETUP,
        drawn_groups::SETUP,
        drawn_numeric::SETUP,
        drawn_zones::SETUP,
    ];
    compare(&GOLDEN, &setup.concat(), &statements);
}

#[test]
fn answers_about_json_equal_those_of_postgresql() {
    compare(&GOLDEN_JSON, drawn_json::SETUP, &drawn_json::statements());
}

#[test]
fn answers_of_further_functions_equal_those_of_postgresql() {
    let statements = drawn_further::statements();
    compare(&GOLDEN_FURTHER, drawn_further::SETUP, &statements);
}

#[test]
fn answers_about_regular_expressions_equal_those_of_postgresql() {
    compare(
        &GOLDEN_REGEX,
        drawn_regex::SETUP,
        &drawn_regex::statements(),
    );
}

#[test]
fn answers_about_intervals_equal_those_of_postgresql() {
    let statements = drawn_interval::statements();
    compare(&GOLDEN_INTERVAL, drawn_interval::SETUP, &statements);
}

#[test]
fn answers_about_arrays_equal_those_of_postgresql() {
    compare(
        &GOLDEN_ARRAYS,
        drawn_arrays::SETUP,
        &drawn_arrays::statements(),
    );
}

fn compare(golden: &Golden, setup: &str, statements: &[String]) {
    let mut session = Model::session(&format!("{setup} SET scan = on;"));
    let ours: Vec<String> = statements
        .iter()
        .map(|it| answer(&mut session, it))
        .collect();
    let theirs = std::env::var("REPLEX_POSTGRES")
        .ok()
        .map(|connection| asked(&connection, golden.tables, setup, statements));
    if let Some(theirs) = &theirs
        && std::env::var_os("REPLEX_UPDATE").is_some()
    {
        assert_eq!(theirs.len(), statements.len());
        let mut text = String::new();
        for ((statement, ours), theirs) in statements.iter().zip(&ours).zip(theirs) {
            let refused = match ours == ERROR && theirs != ERROR {
                true => "\trefused",
                false => "",
            };
            writeln!(text, "{statement}\t{theirs}{refused}").unwrap();
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/differential");
        let path = folder.join(golden.name);
        std::fs::write(path, text).unwrap();
    }
    let known = known(golden);
    let mut faults = Vec::new();
    for (number, (statement, ours)) in statements.iter().zip(&ours).enumerate() {
        let fault = match (known.get(statement.as_str()), &theirs) {
            (_, Some(theirs)) if ours != &theirs[number] && ours != ERROR => {
                format!("PostgreSQL returns {}", theirs[number])
            }
            (Some(known), None) if known.is_refused && ours == ERROR => continue,
            (Some(known), None) if ours != known.answer => format!("expected {}", known.answer),
            (None, None) => format!("it is not in {}", golden.name),
            _ => continue,
        };
        faults.push(format!("{statement}: {ours}, {fault}"));
    }
    let count = faults.len();
    faults.truncate(60);
    assert!(
        faults.is_empty(),
        "{count} of {} differ:\n{}",
        statements.len(),
        faults.join("\n")
    );
    let answered = ours.iter().filter(|it| *it != ERROR).count();
    assert!(answered * 3 > statements.len(), "{answered} have an answer");
}
