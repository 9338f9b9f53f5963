//! Runs the suites that are written in Python, with pytest.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Suite, git, judge, once};
use crate::Failure;
use crate::outcomes::TestOutcomes;
use crate::program;
use crate::servers::SuiteRequirements;
use crate::servers::SuiteTarget;

/// How long a suite may take.
const MOST: Duration = Duration::from_secs(45 * 60);

pub const PSYCOPG2: Suite = Suite {
    name: "psycopg2",
    about: "psycopg 2.9",
    needs: SuiteRequirements {
        database: "foreign_test",
        settings: &[],
    },
    known: include_str!("../../known/psycopg2.txt"),
    known_of_store: Some(include_str!("../../known/store-psycopg2.txt")),
    fetch: |folder| {
        source(folder, "psycopg2==2.9.11")?;
        environment(folder, ["psycopg2-binary==2.9.11", "pytest==8.4.2"])
    },
    run: |folder, target| {
        target.prepare("CREATE EXTENSION IF NOT EXISTS hstore")?;
        let mut pytest = pytest(folder, &folder.join("source"));
        pytest.arg("tests").env("PSYCOPG2_TESTDB", target.database);
        pytest.env("PSYCOPG2_TESTDB_HOST", &target.host);
        pytest.env("PSYCOPG2_TESTDB_PORT", target.port.to_string());
        pytest.env("PSYCOPG2_TESTDB_USER", target.user);
        judge(&mut pytest, (folder, target), MOST, outcomes)
    },
};

pub const PSYCOPG3: Suite = Suite {
    name: "psycopg3",
    about: "psycopg 3.2, with Debian's libpq",
    needs: SuiteRequirements {
        database: "foreign_test",
        settings: &[],
    },
    known: include_str!("../../known/psycopg3.txt"),
    known_of_store: Some(include_str!("../../known/store-psycopg3.txt")),
    fetch: |folder| {
        git::source(folder, "https://github.com/psycopg/psycopg", "3.2.12")?;
        let tools = [
            "psycopg==3.2.12",
            "psycopg-pool==3.2.6",
            "pytest==8.4.2",
            "anyio==4.11.0",
            "dnspython==2.8.0",
            "pproxy==2.7.9",
        ];
        environment(folder, tools)
    },
    run: |folder, target| {
        let mut pytest = python(folder, &folder.join("source"));
        // Its own check that the run before did not crash needs the cache, and would fail here.
        pytest.args(["-m", "pytest", "-v", "--tb=short", "--cache-clear"]);
        pytest.args(["-o", "console_output_style=classic"]);
        pytest.args(["tests", "-m", "not slow and not timing and not flakey"]);
        // A connection that a failed test has left open fails the test that happens to collect it.
        pytest.args(["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]);
        pytest.arg("--test-dsn").arg(target.url());
        judge(&mut pytest, (folder, target), MOST, outcomes)
    },
};

pub const ASYNCPG: Suite = Suite {
    name: "asyncpg",
    about: "asyncpg 0.31",
    needs: SuiteRequirements {
        database: "foreign_test",
        settings: &[],
    },
    known: include_str!("../../known/asyncpg.txt"),
    known_of_store: Some(include_str!("../../known/store-asyncpg.txt")),
    fetch: |folder| {
        source(folder, "asyncpg==0.31.0")?;
        // It is not compiled, and would be found before the installed one. It may have gone before.
        let _ = std::fs::remove_dir_all(folder.join("source/asyncpg"));
        let tools = [
            "asyncpg==0.31.0",
            "pytest==8.4.2",
            "distro==1.9.0",
            "uvloop==0.21.0",
        ];
        environment(folder, tools)
    },
    run: |folder, target| {
        let mut pytest = pytest(folder, &folder.join("source"));
        pytest.args([
            "--import-mode=append",
            "tests",
            "--ignore=tests/test__sourcecode.py",
            // A test that recurses too deeply makes pytest itself end, where it shows the source.
            "--tb=native",
        ]);
        pytest.envs(target.environment());
        judge(&mut pytest, (folder, target), MOST, outcomes)
    },
};

pub const SQLALCHEMY: Suite = Suite {
    name: "sqlalchemy",
    about: "SQLAlchemy 2.0, tests of dialects",
    needs: SuiteRequirements {
        database: "foreign_test",
        settings: &[],
    },
    known: include_str!("../../known/sqlalchemy.txt"),
    known_of_store: None,
    fetch: |folder| {
        source(folder, "sqlalchemy==2.0.44")?;
        let tools = [
            "sqlalchemy==2.0.44",
            "psycopg2-binary==2.9.11",
            "pytest==8.4.2",
        ];
        environment(folder, tools)
    },
    run: |folder, target| {
        let prepared = [
            "CREATE SCHEMA IF NOT EXISTS test_schema",
            "CREATE SCHEMA IF NOT EXISTS test_schema_2",
            "CREATE EXTENSION IF NOT EXISTS hstore",
            "CREATE EXTENSION IF NOT EXISTS citext",
        ];
        for statement in prepared {
            target.prepare(statement)?;
        }
        let mut pytest = pytest(folder, &folder.join("source"));
        pytest.args([
            "test/dialect/test_suite.py",
            "test/dialect/postgresql",
            "--dburi",
        ]);
        pytest.arg(target.url_of("postgresql+psycopg2"));
        judge(&mut pytest, (folder, target), MOST, outcomes)
    },
};

pub const DJANGO: Suite = Suite {
    name: "django",
    about: "Django 5.2, twenty of its apps",
    needs: SuiteRequirements {
        database: "postgres",
        settings: &[],
    },
    known: include_str!("../../known/django.txt"),
    known_of_store: None,
    fetch: |folder| {
        source(folder, "django==5.2.8")?;
        let tools = [
            "django==5.2.8",
            "psycopg[binary]==3.2.12",
            "jinja2==3.1.6",
            "tblib==3.2.2",
        ];
        environment(folder, tools)
    },
    run: |folder, target| {
        let settings = folder.join("foreign_settings.py");
        let failed = |error: std::io::Error| format!("{}: {error}", settings.display());
        std::fs::write(&settings, django_settings(target)).map_err(failed)?;
        let mut tests = Command::new(folder.join("environment/bin/python"));
        tests.current_dir(folder.join("source/tests"));
        tests
            .env("PYTHONPATH", folder)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        tests.args([
            "runtests.py",
            "--settings=foreign_settings",
            "--keepdb",
            "--noinput",
        ]);
        tests.args(["--parallel=1", "-v", "2"]).args(DJANGO_APPS);
        judge(&mut tests, (folder, target), MOST, unittest_outcomes)
    },
};

/// The apps of Django with tests that query the database most.
const DJANGO_APPS: &[&str] = &[
    "aggregation",
    "annotations",
    "backends",
    "basic",
    "bulk_create",
    "constraints",
    "datetimes",
    "delete",
    "expressions",
    "expressions_window",
    "get_or_create",
    "introspection",
    "lookup",
    "many_to_many",
    "model_fields",
    "prefetch_related",
    "queries",
    "schema",
    "select_for_update",
    "transactions",
];

/// Returns the settings of Django's tests. Both databases that the tests require are the same one.
fn django_settings(target: &SuiteTarget) -> String {
    let SuiteTarget {
        host,
        port,
        user,
        database,
        ..
    } = target;
    format!(
        "SECRET_KEY = 'tests'\n\
         USE_TZ = False\n\
         DEFAULT_AUTO_FIELD = 'django.db.models.AutoField'\n\
         PASSWORD_HASHERS = ['django.contrib.auth.hashers.MD5PasswordHasher']\n\
         DATABASE = dict(ENGINE='django.db.backends.postgresql', HOST='{host}', PORT={port},\n    \
         USER='{user}', NAME='{database}')\n\
         DATABASES = {{\n    \
         'default': dict(DATABASE, TEST=dict(NAME='{database}')),\n    \
         'other': dict(DATABASE, TEST=dict(MIRROR='default')),\n\
         }}\n"
    )
}

/// Unpacks the source distribution of a package into `source`.
fn source(folder: &Path, package: &str) -> Result<(), Failure> {
    once(folder, "source", |part| {
        let download = "python3 -m pip -q download --no-deps --no-binary :all:";
        let mut pip = program::words(download, part);
        // Some ask PostgreSQL's programs for their build options.
        let path = std::env::var("PATH").unwrap_or_default();
        let programs = pg_local::programs().unwrap_or_default();
        pip.env("PATH", format!("{path}:{}", programs.display()));
        program::run(pip.arg(package))?;
        let files = std::fs::read_dir(part).map_err(|error| error.to_string())?;
        let mut names = files.flatten().map(|file| file.file_name());
        let archive = names.next().ok_or("nothing was fetched")?;
        program::run(program::words("tar --strip-components=1 -xzf", part).arg(archive)).map(drop)
    })
}

/// Makes an environment of its own with these packages.
fn environment<'a>(
    folder: &Path,
    packages: impl IntoIterator<Item = &'a str>,
) -> Result<(), Failure> {
    let done = folder.join("environment/done");
    if done.exists() {
        return Ok(());
    }
    program::run(&mut program::words(
        "python3 -m venv --clear environment",
        folder,
    ))?;
    let mut pip = program::words("environment/bin/python -m pip -q install", folder);
    program::run(pip.args(packages))?;
    std::fs::write(done, "").map_err(|error| error.to_string())
}

/// Returns a command that runs pytest of the suite's environment in `tests`.
fn pytest(folder: &Path, tests: &Path) -> Command {
    let mut command = python(folder, tests);
    command.args(["-m", "pytest", "-v", "--tb=short"]);
    command.args([
        "-p",
        "no:cacheprovider",
        "-o",
        "console_output_style=classic",
    ]);
    command
}

/// Returns a command that runs Python of the suite's environment in `tests`.
fn python(folder: &Path, tests: &Path) -> Command {
    let mut command = Command::new(folder.join("environment/bin/python"));
    command
        .current_dir(tests)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Lines of unittest with `-v`: the test's name, perhaps a line about it, and one word.
fn unittest_outcomes(printed: &str) -> TestOutcomes {
    let mut outcomes = TestOutcomes::default();
    let mut name = None;
    for line in printed.lines() {
        let named = line.split_once(" (").and_then(|(test, rest)| {
            let (class, _) = rest.split_once(')')?;
            let is_test = test.starts_with("test") && !test.contains(' ');
            is_test.then(|| class.to_owned())
        });
        name = named.or(name);
        let Some((_, word)) = line.rsplit_once(" ... ") else {
            continue;
        };
        match (word, &name) {
            ("ok" | "expected failure", Some(name)) => outcomes.note(name, true),
            ("FAIL" | "ERROR", Some(name)) => outcomes.note(name, false),
            _ => {}
        }
    }
    outcomes
}

/// Lines of `-v`: the test's name, and one word.
fn outcomes(printed: &str) -> TestOutcomes {
    let mut outcomes = TestOutcomes::default();
    for line in printed.lines() {
        let Some((name, word)) = line.trim_end().rsplit_once(' ') else {
            continue;
        };
        if !name.contains(".py::") || name.starts_with(' ') {
            continue;
        }
        match word {
            "PASSED" | "XFAIL" | "XPASS" => outcomes.note(name, true),
            "FAILED" | "ERROR" => outcomes.note(name, false),
            _ => {}
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pytest_is_read() {
        let printed = "tests/a.py::test_a[x y] PASSED\ntests/a.py::test_b FAILED\n\
                       tests/a.py::test_c SKIPPED\nERROR tests/d.py - broken\n\
                       tests/a.py::test_a[x y] ERROR\n  tests/a.py::note PASSED\n";
        let outcomes = outcomes(printed);
        assert_eq!(outcomes.sums(), (0, 2));
    }

    #[test]
    fn unittest_is_read() {
        let printed = "test_a (basic.tests.A.test_a) ... ok\n\
                       test_b (basic.tests.A.test_b)\nA line about it. ... FAIL\n\
                       test_c (basic.tests.A.test_c) ... skipped 'why'\n\
                       test_d (basic.tests.A.test_d) ... ERROR\n";
        assert_eq!(unittest_outcomes(printed).sums(), (1, 2));
    }
}
