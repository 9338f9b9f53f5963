//! Runs PostgreSQL's isolation tests: specifications whose sessions run their steps in many orders.
//!
//! The program that runs a specification finds out by process numbers whether a session waits for
//! another. The process numbers that a client of the proxy knows are no server's, so the program is
//! compiled with a query that finds the sessions by the `application_name` that it gives each of
//! them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::regress::{self, Schedule};
use super::{Suite, judge, once};
use crate::Failure;
use crate::program;
use crate::servers::SuiteRequirements;

/// How long it may take.
const MOST: Duration = Duration::from_secs(30 * 60);
/// The seconds after which a step that neither ends nor waits is cancelled.
const STEP_SECONDS_MAX: &str = "20";
/// Where the sources have the tests.
const TESTS: &str = "src/test/isolation";

/// Texts of `isolationtester.c`, and their replacements.
const REPLACED: &[(&str, &str)] = &[
    (
        r#"psprintf("%d", conns[i].backend_pid)"#,
        r#"psprintf("%s/%s", getenv("PGAPPNAME"), sessionname)"#,
    ),
    (
        r#""SELECT pg_catalog.pg_isolation_test_session_is_blocked($1, '{""#,
        r#""SELECT coalesce(pg_catalog.bool_or(pg_catalog.pg_isolation_test_session_is_blocked("
           "a.pid, ARRAY(SELECT b.pid FROM pg_catalog.pg_stat_activity b"
           " WHERE b.application_name = ANY ('{""#,
    ),
    (
        r#""}')""#,
        r#""}'::pg_catalog.text[])))), false) FROM pg_catalog.pg_stat_activity a"
           " WHERE a.application_name = $1""#,
    ),
];

pub const SUITE: Suite = Suite {
    name: "isolation",
    about: "PostgreSQL's isolation tests",
    needs: SuiteRequirements {
        database: "isolation_regression",
        settings: &["autovacuum=off"],
    },
    known: include_str!("../../known/isolation.txt"),
    known_of_store: None,
    fetch: |folder| {
        regress::sources(folder)?;
        once(folder, "programs", |part| compile(folder, part))
    },
    run: |folder, target| {
        let source = folder.join("debian/source").join(TESTS);
        let out = folder.join(target.run);
        let failed = |error: std::io::Error| format!("{}: {error}", out.display());
        // Of the run before.
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir_all(&out).map_err(failed)?;
        let schedule = Schedule {
            file: &source.join("isolation_schedule"),
            left_out: &[],
        };
        let program = folder.join("programs/pg_isolation_regress");
        let mut command = regress::tester(&program, &schedule, &out, target)?;
        command.env("PGISOLATIONTIMEOUT", STEP_SECONDS_MAX);
        judge(&mut command, (folder, target), MOST, regress::outcomes)
    },
};

/// Compiles the program that runs one specification, into the folder of the program that runs all
/// of them.
fn compile(folder: &Path, part: &Path) -> Result<(), Failure> {
    let programs = regress::programs()?;
    let pg_config = |what: &str| {
        let printed = program::run(Command::new(programs.join("pg_config")).arg(what));
        printed.map(|printed| printed.trim().to_owned())
    };
    let source = folder.join("debian/source").join(TESTS);
    let tester = source.join("isolationtester.c");
    let mut text = std::fs::read_to_string(&tester)
        .map_err(|error| format!("{}: {error}", tester.display()))?;
    for (found, replacement) in REPLACED {
        if text.matches(found).count() != 1 {
            return Err(format!("{} has changed: no {found}", tester.display()));
        }
        text = text.replace(found, replacement);
    }
    let patched = part.join("isolationtester.c");
    std::fs::write(&patched, text).map_err(|error| format!("{}: {error}", patched.display()))?;

    let includes = pg_config("--includedir")?;
    let mut gcc = program::words("gcc -O1 -o isolationtester isolationtester.c", part);
    gcc.arg(source.join("specparse.c")).args([
        format!("-I{}", pg_config("--includedir-server")?),
        format!("-I{includes}"),
        format!("-I{includes}/internal"),
        format!("-I{}", source.display()),
        format!("-L{}", programs.with_file_name("lib").display()),
    ]);
    gcc.args(["-lpgfeutils", "-lpgcommon", "-lpgport", "-lpq", "-lm"]);
    program::run(&mut gcc)?;
    let runner = regress::test_program(&programs, TESTS, "pg_isolation_regress")?;
    // It looks for the other program in its own folder.
    let copied = std::fs::copy(&runner, part.join("pg_isolation_regress"));
    copied.map_err(|error| format!("{}: {error}", runner.display()))?;
    Ok(())
}
