//! Runs scripts and compares their whole output, as a user sees it.

use super::*;
use crate::fixture::USERS;
use crate::model::{Model, block_on};

fn shell(options: ShellOptions) -> Shell<Model> {
    Shell::new(Model::session(""), options)
}

/// Returns a script's results and errors, and whether it failed.
fn run(shell: &mut Shell<Model>, text: &str) -> (String, String, bool) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = ShellOutput {
        out: &mut out,
        err: &mut err,
    };
    let failed = block_on(shell.script("test.sql", text, &mut output)).is_err();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out), text(err), failed)
}

#[test]
fn script_from_end_to_end() {
    let script = format!(
        "-- users\n{USERS}\nINSERT INTO users VALUES ('eu', 1, 'a@b', 1),\n  ('us', 2, NULL, 2);\n\
         SELECT * FROM users WHERE region = 'eu' AND number = 1;\n\
         UPDATE users SET n = n + 1 WHERE email = 'a@b';\n\
         SELECT n FROM users WHERE email = 'a@b';\n"
    );
    let (out, err, failed) = run(&mut shell(ShellOptions::default()), &script);
    assert_eq!((err.as_str(), failed), ("", false));
    assert_eq!(
        out,
        "CREATE TABLE\n\
         INSERT 0 2\n \
         region | number | email | n\n\
         --------+--------+-------+---\n \
         eu     |      1 | a@b   | 1\n\
         (1 row)\n\n\
         UPDATE 1\n \
         n\n\
         ---\n \
         2\n\
         (1 row)\n\n"
    );
}

#[test]
fn script_stops_at_the_first_error_with_its_line() {
    let script = format!("{USERS}\nSELECT 1;\n\nSELECT * FROM nowhere;\nSELECT 2;");
    let lines = USERS.matches('\n').count();
    let (out, err, failed) = run(&mut shell(ShellOptions::default()), &script);
    assert!(failed);
    assert!(out.ends_with("(1 row)\n\n"), "{out}");
    assert!(!out.contains('2'), "{out}");
    assert_eq!(
        err,
        format!(
            "test.sql:{}: ERROR: there is no table nowhere: create it, or name one of users\n",
            lines + 4
        )
    );
    let options = ShellOptions {
        on_error: OnError::Continue,
        ..ShellOptions::default()
    };
    let (out, err, failed) = run(&mut shell(options), "SELECT x;\nSELECT 22;\nSELECT y;");
    assert!(failed && out.contains("22"));
    assert!(
        err.starts_with("test.sql:1: ERROR") && err.contains("\ntest.sql:3: ERROR"),
        "{err}"
    );
}

#[test]
fn syntax_error_runs_nothing_and_points_at_the_line() {
    let (out, err, failed) = run(
        &mut shell(ShellOptions::default()),
        "SELECT 1;\n\\timing off\nSELECT 2;\nSELECT id, FROM t;\n",
    );
    assert!(failed);
    // The batch before the command was run. The batch that does not parse was not.
    assert!(out.contains('1') && !out.contains('2'), "{out}");
    assert!(
        err.starts_with("test.sql:4: ERROR: syntax error at line 4, column 12"),
        "{err}"
    );
    assert!(
        err.contains("\n  SELECT id, FROM t;\n             ^"),
        "{err}"
    );
}

#[test]
fn commands_in_scripts() {
    let script = format!(
        "{USERS}\n\\d\n\\d users\n\\format csv\nSELECT 'a\n\\q' AS x;\n\\format json\nSELECT 1 AS x;\n\\q\nSELECT 3;"
    );
    let mut shell = shell(ShellOptions::default());
    let (out, err, failed) = run(&mut shell, &script);
    assert_eq!((err.as_str(), failed), ("", false));
    assert!(shell.is_over());
    assert!(out.contains(" users |"), "{out}");
    assert!(out.contains("Table users\n"), "{out}");
    assert!(
        out.contains(
            "Copies (failures: 1 asked for, 1 proven for every possible row; durability: sync)"
        ),
        "{out}"
    );
    // A backslash inside a quote is no command.
    assert!(out.contains("x\n\"a\n\\q\"\n"), "{out}");
    assert!(out.ends_with("[\n  {\"x\": 1}\n]\n"), "{out}");
}

#[test]
fn unknown_command_is_an_error_with_its_line() {
    let (_, err, failed) = run(
        &mut shell(ShellOptions::default()),
        "SELECT 1;\n\\copy x\nSELECT 2;",
    );
    assert!(failed);
    assert_eq!(
        err,
        "test.sql:2: ERROR: \\copy x is no command: \\? lists the commands there are\n"
    );
}

#[test]
fn timing_is_printed_beside_results() {
    let options = ShellOptions {
        timing: true,
        format: OutputFormat::Csv,
        ..ShellOptions::default()
    };
    let (out, err, _) = run(&mut shell(options), "SELECT 1 AS x;");
    assert_eq!(out, "x\n1\n");
    assert!(err.starts_with("Time: ") && err.ends_with(" ms\n"), "{err}");
    let (out, ..) = run(
        &mut shell(ShellOptions::default()),
        "\\timing\nSELECT 1 AS x;",
    );
    assert!(
        out.starts_with("Timing is on.\n") && out.contains("Time: "),
        "{out}"
    );
}

#[test]
fn an_index_comes_to_a_table_that_exists_and_goes() {
    let (out, err, failed) = run(
        &mut shell(ShellOptions::default()),
        "CREATE TABLE t (a bigint PRIMARY KEY, b bigint);\n\\timing off\nCREATE INDEX y ON t (b);\n\
         EXPLAIN SELECT * FROM t WHERE b = 1;\nDROP INDEX y;\nEXPLAIN SELECT * FROM t WHERE b = 1;",
    );
    assert!(!failed, "{err}");
    let parts = [
        "CREATE INDEX",
        "Range lookup in t by thin index y",
        "DROP INDEX",
        "Scan of t",
    ];
    let places: Vec<Option<usize>> = parts.iter().map(|part| out.find(part)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{out}"
    );
}

#[test]
fn typed_errors_have_no_place() {
    let mut shell = shell(ShellOptions::default());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut output = ShellOutput {
        out: &mut out,
        err: &mut err,
    };
    assert!(block_on(shell.typed("SELECT x;", &mut output)).is_err());
    assert!(block_on(shell.typed("\\?", &mut output)).is_ok());
    assert!(
        String::from_utf8(err)
            .unwrap()
            .starts_with("ERROR: column \"x\" does not exist")
    );
    assert!(
        String::from_utf8(out)
            .unwrap()
            .contains("SET stale_reads = on;")
    );
}

/// Returns the output of a script that comes in these pieces, after each of them.
fn fed(pieces: &[&str]) -> Vec<String> {
    let mut shell = shell(ShellOptions::default());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut feed = shell.feed_named("stdin");
    let mut written = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let input = match number + 1 == pieces.len() {
            true => ScriptInput::Ended,
            false => ScriptInput::Open,
        };
        let mut output = ShellOutput {
            out: &mut out,
            err: &mut err,
        };
        let goes_on = block_on(shell.feed(&mut feed, piece.as_bytes(), input, &mut output));
        written.push(String::from_utf8([out.clone(), err.clone()].concat()).unwrap());
        if !goes_on.unwrap() {
            break;
        }
    }
    written
}

#[test]
fn statements_run_as_they_come() {
    let written = fed(&[
        "SELECT 11 AS x;\nSELECT\n",
        "  22 AS",
        " y;\n\\format csv\nSELECT 33 AS z; SELECT 'a\n",
        "\\q\n' AS t;\n",
        "SELECT 44 AS u",
    ]);
    assert!(written[0].contains("11") && !written[0].contains("22"));
    assert_eq!(written[1], written[0]);
    assert!(
        written[2].contains("22") && !written[2].contains("33"),
        "{written:?}"
    );
    assert!(written[3].contains("z\n33\n") && written[3].contains("t\n\"a\n\\q\n\"\n"));
    assert!(written[4].ends_with("u\n44\n"));
}

#[test]
fn a_script_in_pieces_ends_at_its_first_error_and_names_its_line() {
    let written = fed(&["SELECT 1;\n\nSELECT 2;\n", "\nSELECT x;\n", "SELECT 3;\n"]);
    assert_eq!(written.len(), 2);
    assert!(
        written[1].contains("stdin:5: ERROR: column \"x\" does not exist"),
        "{written:?}"
    );
    let written = fed(&["SELECT 1;\n\n", "\nSELECT 1 2;\n", "SELECT 3;\n"]);
    assert_eq!(written.len(), 2);
    assert!(
        written[1].contains("stdin:4: ERROR: syntax error at line 4, column 10"),
        "{written:?}"
    );
}

/// Every way to cut a script into two pieces gives the output of the whole.
#[test]
fn script_in_pieces_runs_as_the_whole_script() {
    let script = format!(
        "{USERS}\n-- a; comment\nINSERT INTO users VALUES ('eu', 1, 'ä;b', 1); SELECT 5 AS five;\n\
         SELECT email\n FROM users WHERE region = 'eu' AND number = 1;\n\\format json\n\
         SELECT n, n FROM users WHERE email = 'ä;b';\n"
    );
    let whole = run(&mut shell(ShellOptions::default()), &script);
    assert!(!whole.2, "{whole:?}");
    for cut in 0..script.len() {
        let mut shell = shell(ShellOptions::default());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut feed = shell.feed_named("test.sql");
        let (first, second) = script.as_bytes().split_at(cut);
        for (piece, input) in [(first, ScriptInput::Open), (second, ScriptInput::Ended)] {
            let mut output = ShellOutput {
                out: &mut out,
                err: &mut err,
            };
            block_on(shell.feed(&mut feed, piece, input, &mut output)).unwrap();
        }
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert_eq!((text(out), text(err), false), whole, "cut at {cut}");
    }
}

#[test]
fn csv_and_json_contain_only_rows_and_messages_go_beside() {
    let script = "CREATE TABLE t (a bigint PRIMARY KEY);\nINSERT INTO t VALUES (1), (2);\n\
                  SELECT a FROM t WHERE a = 1;\nDELETE FROM t WHERE a IN (1, 2, 3);\n\
                  SET scan = on;\nCREATE TABLE IF NOT EXISTS t (a bigint PRIMARY KEY);\n";
    for (format, rows) in [
        (OutputFormat::Csv, "a\n1\n"),
        (OutputFormat::Json, "[\n  {\"a\": 1}\n]\n"),
    ] {
        let options = ShellOptions {
            format,
            ..ShellOptions::default()
        };
        let (out, err, failed) = run(&mut shell(options), script);
        assert!(!failed);
        assert_eq!(out, rows);
        assert_eq!(
            err,
            "CREATE TABLE\nINSERT 0 2\nDELETE 2\nSET\nCREATE TABLE\n"
        );
    }
}
