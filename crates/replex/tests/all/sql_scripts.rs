//! SQL scripts through the built program against real servers, with all that they print.
//!
//! `tests/sql/NAME.sql` is run statement by statement, errors included. Its expected output is in
//! `NAME.out`. `REPLEX_UPDATE=1` writes the present output, to be checked before it is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use replex::cluster::Cluster;

use crate::support;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql")
}

/// A script's statements: pieces that end with a semicolon at the end of a line.
fn statements(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    let mut statements = Vec::new();
    let mut statement = String::new();
    for line in lines {
        statement.push_str(line);
        statement.push('\n');
        if line.ends_with(';') {
            statements.push(std::mem::take(&mut statement));
        }
    }
    assert!(statement.trim().is_empty(), "no semicolon: {statement}");
    statements
}

/// Each statement, its output, and how it ended.
fn transcript(cluster: &Cluster, text: &str) -> String {
    let mut transcript = String::new();
    for statement in statements(text) {
        let address = cluster.coordinator_address();
        let output = support::run(&["sql", "-C", address, "-c", &statement]);
        transcript += &format!("> {}\n", statement.trim_end().replace('\n', "\n> "));
        transcript += &without_ports(&String::from_utf8(output.stdout).unwrap());
        transcript += &without_ports(&String::from_utf8(output.stderr).unwrap());
        match output.status.code() {
            Some(0) => {}
            code => transcript += &format!("exit code {}\n", code.unwrap()),
        }
        transcript.push('\n');
    }
    transcript
}

/// The system picks the ports.
fn without_ports(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut without = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_digit());
        without += &format!("127.0.0.1:PORT{rest}");
    }
    without
}

fn check(cluster: &Cluster, name: &str) {
    let text = fs::read_to_string(folder().join(format!("{name}.sql"))).unwrap();
    let printed = transcript(cluster, &text);
    let expected = folder().join(format!("{name}.out"));
    if std::env::var_os("REPLEX_UPDATE").is_some() {
        fs::write(&expected, &printed).unwrap();
    }
    let wanted = fs::read_to_string(&expected).unwrap();
    assert_eq!(printed, wanted, "{name}.sql does not print {name}.out");
}

#[tokio::test]
async fn scripts_print_their_golden_output() {
    let cluster = support::cluster(3).await;
    for name in [
        "tour",
        "constraints",
        "mistakes",
        "indexes",
        "thin",
        "aggregates",
        "unique_thin",
        "alter_index",
        "ranged",
        "transactions",
        "checks",
        "foreign_keys",
        "types",
        "returning",
        "functions",
        "without_key",
        "numeric",
        "sequences",
    ] {
        check(&cluster, name);
    }
}

#[tokio::test]
async fn tables_change_in_use() {
    check(&support::cluster(3).await, "alter");
}

#[tokio::test]
async fn grids_of_every_kind_hold_every_row() {
    let cluster = support::cluster(3).await;
    check(&cluster, "grids");
    let at = ["--json", "-C", cluster.coordinator_address()];
    let json = |command: &[&str]| -> serde_json::Value {
        let text = support::run_well(&[command, &at].concat());
        serde_json::from_str(&text).unwrap()
    };
    let equal = json(&["admin", "check", "planes"]);
    assert_eq!(equal["equal"], true, "{equal}");
    assert_eq!(equal["copies"][6]["rows"], 3, "{equal}");
    let shown = json(&["admin", "table", "show", "planes"]);
    assert_eq!(
        (&shown["copies"], &shown["last_voter"]),
        (&7.into(), &1.into())
    );
    assert_eq!(shown["failures_proven"], 2, "{shown}");
    let kinds = shown["replexes"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|it| it["kind"].as_str().unwrap()).collect();
    let further = [
        "hybrid",
        "hybrid",
        "hybrid",
        "exact replica of by_tail",
        "hyperspace",
    ];
    assert_eq!(kinds[2..], further);
    let primary = &shown["replexes"][0];
    assert_eq!(primary["after_one_failure"]["max"], 2, "{primary}");
}

/// The primary key stands after the sorting key, which may have its columns too.
#[tokio::test]
async fn key_that_is_too_long_with_the_primary_key_behind_it_is_refused() {
    let cluster = support::cluster(2).await;
    let address = cluster.coordinator_address();
    let create = "CREATE TABLE t (id bytea PRIMARY KEY, n bigint NOT NULL, \
                  INDEX s USING hyperspace (id, n) WITH (divisions = '2,2'))";
    support::run_well(&["sql", "-C", address, "-c", create]);
    let zeros = "00".repeat(450);
    let insert = format!("INSERT INTO t VALUES ('\\x{zeros}', 1)");
    let stderr = support::run_badly(&["sql", "-C", address, "-c", &insert], 1);
    assert!(stderr.contains("the key of index s has 18"), "{stderr}");
    let count = "SELECT /*+ scan */ count(*) FROM t";
    assert!(support::run_well(&["sql", "-C", address, "-c", count]).contains("0"));
}

#[tokio::test]
async fn script_stops_at_its_first_error_and_names_the_line() {
    let cluster = support::cluster(1).await;
    let address = cluster.coordinator_address();
    let script = cluster.folder().join("script.sql");
    let text = "SHOW TABLES;\n\nSELECT * FROM missing\n  WHERE id = 1;\nSHOW SERVERS;\n";
    fs::write(&script, text).unwrap();
    let path = script.display().to_string();
    let output = support::run(&["sql", "-C", address, "-f", &path]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&format!("{path}:3")), "{stderr}");
    assert!(stderr.contains("missing"), "{stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(!stdout.contains("127.0.0.1"), "it went on: {stdout}");
}

#[tokio::test]
async fn csv_goes_in_and_out_unchanged_and_bad_lines_are_listed() {
    let cluster = support::cluster(3).await;
    let address = cluster.coordinator_address();
    let create = "CREATE TABLE t (id bigint PRIMARY KEY, name text, INDEX by_name (name)) \
                  WITH (partitions = 2, failures_tolerated = 1)";
    support::run_well(&["sql", "-C", address, "-c", create]);
    let file = cluster.folder().join("in.csv");
    fs::write(&file, "name,id\nada,1\n\"a, b\",2\nbabbage,three\n,4\n").unwrap();
    let path = file.display().to_string();
    let import = ["import", &path, "--table", "t", "-C", address];
    let stderr = support::run_badly(&import, 1);
    assert!(stderr.contains("line 4"), "{stderr}");
    assert!(stderr.contains("three"), "{stderr}");

    let skipping = [
        &import[..],
        &["--skip-errors", "--on-conflict", "skip", "--json"],
    ]
    .concat();
    let output = support::run(&skipping);
    assert_eq!(output.status.code(), Some(1));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["bad"], 1, "{summary}");
    assert_eq!(summary["bad_lines"][0]["line"], 4, "{summary}");

    let mut lines: Vec<String> = support::run_well(&["export", "t", "-C", address])
        .lines()
        .map(str::to_owned)
        .collect();
    lines[1..].sort();
    assert_eq!(lines, ["id,name", "1,ada", "2,\"a, b\"", "4,"]);

    let check = support::run_well(&["admin", "check", "t", "--json", "-C", address]);
    let check: serde_json::Value = serde_json::from_str(&check).unwrap();
    assert_eq!(check["equal"], true, "{check}");
    assert_eq!(check["copies"][1]["rows"], 3, "{check}");

    let stdin = std::process::Command::new(support::program())
        .args(["sql", "-C", address, "--format", "json"])
        .stdin(Stdio::from(fs::File::open(statement(&cluster)).unwrap()))
        .output()
        .unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&stdin.stdout).unwrap();
    assert_eq!(rows, serde_json::json!([{ "id": 1 }]));
}

/// A file with one statement, to be read as stdin.
fn statement(cluster: &Cluster) -> PathBuf {
    let path = cluster.folder().join("stdin.sql");
    fs::write(&path, "SELECT id FROM t WHERE name = 'ada';\n").unwrap();
    path
}
