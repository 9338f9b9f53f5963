//! Runs PostgreSQL's own regression tests, in the version of the installed server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Suite, debian, judge, once};
use crate::Failure;
use crate::outcomes::TestOutcomes;
use crate::program;
use crate::servers::{SuiteRequirements, SuiteTarget};

/// How long it may take.
const MOST: Duration = Duration::from_secs(30 * 60);
/// A test that is left out: its functions in C write texts that are not valid in the database's
/// encoding, which PostgreSQL takes from no client, so that no replica can be given them.
const LEFT_OUT: &str = "encoding";
/// Where the sources have the tests.
const TESTS: &str = "src/test/regress";

pub const SUITE: Suite = Suite {
    name: "regress",
    about: "PostgreSQL's regression tests",
    needs: SuiteRequirements {
        database: "regression",
        settings: &["autovacuum=off"],
    },
    known: include_str!("../../known/regress.txt"),
    known_of_store: None,
    fetch,
    run: |folder, target| {
        let source = folder.join("debian/source").join(TESTS);
        let out = folder.join(target.run);
        let failed = |error: std::io::Error| format!("{}: {error}", out.display());
        // Of the run before.
        let _ = std::fs::remove_dir_all(&out);
        // The server writes files there, too, and is another user.
        for part in ["", "results", "testtablespace"] {
            let part = out.join(part);
            std::fs::create_dir_all(&part).map_err(failed)?;
            std::fs::set_permissions(part, Permissions::from_mode(0o777)).map_err(failed)?;
        }
        let program = test_program(&target.programs, TESTS, "pg_regress")?;
        let schedule = Schedule {
            file: &source.join("parallel_schedule"),
            left_out: &[LEFT_OUT],
        };
        let mut command = tester(&program, &schedule, &out, target)?;
        command.arg("--max-connections=4");
        command.arg(format!("--dlpath={}", folder.join("library").display()));
        judge(&mut command, (folder, target), MOST, outcomes)
    },
};

/// Returns the folder of PostgreSQL's programs.
pub(super) fn programs() -> Result<PathBuf, Failure> {
    let programs = pg_local::programs();
    programs.ok_or_else(|| "PostgreSQL is not installed: `apt-get install postgresql`".to_owned())
}

/// Unpacks the sources of the installed version into `debian/source`.
pub(super) fn sources(folder: &Path) -> Result<(), Failure> {
    let version = version(&programs()?)?;
    once(folder, "debian", |part| {
        let package = format!("postgresql-{version}");
        // The tests of a release expect its answers.
        debian::unpack_installed(&package, &package, part)
    })
}

fn fetch(folder: &Path) -> Result<(), Failure> {
    let programs = programs()?;
    let version = version(&programs)?;
    sources(folder)?;
    // Functions that the tests call, in a library that the server loads.
    once(folder, "library", |part| {
        let pg_config = programs.join("pg_config");
        let headers = program::run(Command::new(pg_config).arg("--includedir-server"));
        let headers = headers
            .ok()
            .filter(|it| Path::new(it.trim()).join("postgres.h").exists());
        let headers = headers.ok_or_else(|| {
            format!("PostgreSQL's headers are missing: `apt-get install postgresql-server-dev-{version}`")
        })?;
        let source = folder.join("debian/source").join(TESTS).join("regress.c");
        let mut gcc = program::words("gcc -O1 -fPIC -shared -fwrapv -o regress.so", part);
        gcc.arg(format!("-I{}", headers.trim())).arg(source);
        program::run(&mut gcc).map(drop)
    })
}

/// Which of PostgreSQL's tests run.
pub(super) struct Schedule<'a> {
    /// The source's own schedule, beside the files that it names.
    pub file: &'a Path,
    /// Tests of it that do not run.
    pub left_out: &'a [&'a str],
}

/// Returns one of PostgreSQL's programs that run a schedule, with its files in `out`.
pub(super) fn tester(
    program: &Path,
    schedule: &Schedule<'_>,
    out: &Path,
    target: &SuiteTarget,
) -> Result<Command, Failure> {
    let failed = |error: std::io::Error| format!("{}: {error}", schedule.file.display());
    let tests = std::fs::read_to_string(schedule.file).map_err(failed)?;
    let tests = schedule
        .left_out
        .iter()
        .fold(tests, |tests, test| without(&tests, test));
    let own = out.join("schedule");
    std::fs::write(&own, tests).map_err(|error| format!("{}: {error}", own.display()))?;
    let source = schedule.file.parent().unwrap_or(schedule.file);
    let mut command = Command::new(program);
    command.current_dir(out).arg("--use-existing");
    command.args([
        format!("--bindir={}", target.programs.display()),
        format!("--inputdir={}", source.display()),
        format!("--outputdir={}", out.display()),
        format!("--schedule={}", own.display()),
        format!("--dbname={}", target.database),
        format!("--user={}", target.user),
        format!("--host={}", target.host),
        format!("--port={}", target.port),
    ]);
    Ok(command)
}

/// Returns a schedule without this test.
fn without(schedule: &str, test: &str) -> String {
    let lines = schedule.lines().map(|line| {
        let words = line.split(' ').filter(|word| *word != test);
        words.collect::<Vec<_>>().join(" ") + "\n"
    });
    lines.filter(|line| line.trim_end() != "test:").collect()
}

/// Returns the major version of these programs.
fn version(programs: &Path) -> Result<String, Failure> {
    let output = program::run(Command::new(programs.join("postgres")).arg("--version"))?;
    let number = output.split_whitespace().find(|word| word.contains('.'));
    let major = number.and_then(|number| number.split('.').next());
    major
        .map(str::to_owned)
        .ok_or_else(|| format!("no version in {output}"))
}

/// Returns a program that runs tests, from the folder where the sources have those.
pub(super) fn test_program(programs: &Path, tests: &str, name: &str) -> Result<PathBuf, Failure> {
    let libraries = program::run(Command::new(programs.join("pg_config")).arg("--pkglibdir"))?;
    let folder = Path::new(libraries.trim()).join("pgxs").join(tests);
    let program = folder.join(name);
    match program.exists() {
        true => Ok(program),
        false => Err(format!(
            "{} is not there: install PostgreSQL's server-dev package",
            program.display()
        )),
    }
}

/// Lines such as `test int4 ... ok 12 ms` and, of several at a time, `     int4 ... FAILED`.
pub(super) fn outcomes(printed: &str) -> TestOutcomes {
    let mut outcomes = TestOutcomes::default();
    for line in printed.lines() {
        let Some((name, end)) = line.split_once(" ... ") else {
            continue;
        };
        let name = name.trim_start_matches("test ").trim();
        match end.split_whitespace().next() {
            Some("ok") => outcomes.note(name, true),
            Some("FAILED" | "failed") => outcomes.note(name, false),
            _ => {}
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_lack_a_test() {
        let schedule = "# All\ntest: a encoding b\ntest: encoding\ntest: json_encoding\n";
        assert_eq!(
            without(schedule, "encoding"),
            "# All\ntest: a b\ntest: json_encoding\n"
        );
    }

    #[test]
    fn lines_of_pg_regress_are_read() {
        let printed = "parallel group (2 tests):  a b\n\
                       \x20    a                            ... ok           31 ms\n\
                       \x20    b                            ... FAILED       12 ms\n\
                       test tablespace                   ... ok          100 ms\n";
        assert_eq!(outcomes(printed).sums(), (2, 1));
    }
}
