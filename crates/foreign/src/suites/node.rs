//! Runs the suites that are written in JavaScript.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Suite, git, judge, once};
use crate::outcomes::TestOutcomes;
use crate::servers::SuiteRequirements;
use crate::{Failure, program};

/// How long a suite may take.
const MOST: Duration = Duration::from_secs(30 * 60);

/// The packages that the tests import. The native bindings are left out, as they need to be
/// compiled.
const PACKAGES: &[&str] = &[
    "pg@8.16.3",
    "pg-cursor@2.15.3",
    "async@2.6.4",
    "bluebird@3.7.2",
    "co@4.6.0",
    "pg-copy-streams@0.3.0",
    "expect.js@0.3.1",
    "lodash@4.17.21",
    "mocha@10.8.2",
];

/// Runs each file of `pg` in a process of its own, then the packages that build on it.
const SCRIPT: &str = r#"
cd source/packages/pg
node script/create-test-tables.js "$1" || exit 1
for file in $(find test/integration -name '*-tests.js' | sort); do
    timeout 120 node "$file" "$1" && outcome=ok || outcome='not ok'
    printf '\nFILE %s %s\n' "$outcome" "$file"
done
for package in pg-pool pg-cursor; do
    echo "PACKAGE $package"
    cd "../$package"
    timeout 300 node ../../../tools/node_modules/mocha/bin/mocha.js --exit --reporter tap test
done
"#;

pub const NODE_POSTGRES: Suite = Suite {
    name: "node-postgres",
    about: "node-postgres 8.16",
    needs: SuiteRequirements {
        database: "foreign_test",
        settings: &[],
    },
    known: include_str!("../../known/node-postgres.txt"),
    known_of_store: Some(include_str!("../../known/store-node-postgres.txt")),
    fetch: |folder| {
        git::source(
            folder,
            "https://github.com/brianc/node-postgres",
            "pg@8.16.3",
        )?;
        once(folder, "tools", |part| {
            let npm =
                "npm install --no-save --no-package-lock --no-audit --ignore-scripts --prefix .";
            program::run(program::words(npm, part).args(PACKAGES)).map(drop)
        })?;
        allow_a_minute(folder)?;
        reach_tools(folder)
    },
    run: |folder, target| {
        let mut tests = Command::new("sh");
        tests.current_dir(folder).args(["-c", SCRIPT, "sh"]);
        tests.arg(target.url()).envs(target.environment());
        tests.env("PGTESTNOSSL", "true");
        tests.env("TEST_TIMEOUT", "60000");
        judge(&mut tests, (folder, target), MOST, outcomes)
    },
};

/// Gives each test a minute where the source gives it five seconds: some of them run thousands of
/// statements.
fn allow_a_minute(folder: &Path) -> Result<(), Failure> {
    let suite = folder.join("source/packages/pg/test/suite.js");
    let failed = |error: std::io::Error| format!("{}: {error}", suite.display());
    let text = std::fs::read_to_string(&suite).map_err(failed)?;
    let text = text.replace("this.timeout = 5000", "this.timeout = 60000");
    std::fs::write(&suite, text).map_err(failed)
}

/// Links the tools into the sources, because Node looks for packages only in the folders above a
/// file, under one name.
fn reach_tools(folder: &Path) -> Result<(), Failure> {
    let link = folder.join("source/node_modules");
    if link.exists() {
        return Ok(());
    }
    std::os::unix::fs::symlink("../tools/node_modules", &link)
        .map_err(|error| format!("{}: {error}", link.display()))
}

/// Parses the script's lines about files, and the lines of the TAP reporter about tests.
fn outcomes(printed: &str) -> TestOutcomes {
    let mut outcomes = TestOutcomes::default();
    let mut package = "pg";
    for line in printed.lines() {
        if let Some(name) = line.strip_prefix("PACKAGE ") {
            package = name;
        } else if let Some(file) = line.strip_prefix("FILE ok ") {
            outcomes.note(format!("{package} {file}"), true);
        } else if let Some(file) = line.strip_prefix("FILE not ok ") {
            outcomes.note(format!("{package} {file}"), false);
        } else if let Some(test) = tap_test(line, "ok ") {
            outcomes.note(format!("{package} {test}"), true);
        } else if let Some(test) = tap_test(line, "not ok ") {
            outcomes.note(format!("{package} {test}"), false);
        }
    }
    outcomes
}

/// Returns the name of the test in a line such as `ok 12 pool rejects`; none if the test was
/// skipped.
fn tap_test<'a>(line: &'a str, beginning: &str) -> Option<&'a str> {
    let (number, name) = line.strip_prefix(beginning)?.split_once(' ')?;
    let is_test = number.parse::<u32>().is_ok() && !name.contains("# SKIP");
    is_test.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_tests_are_read() {
        let printed = "a-tests.js\n  works ✔\nFILE ok test/a-tests.js\n\
                       FILE not ok test/b-tests.js\nPACKAGE pg-pool\n1..3\n\
                       ok 1 pool works\nnot ok 2 pool waits\nok 3 pool rests # SKIP -\n\
                       ok then\n";
        let outcomes = outcomes(printed);
        assert_eq!(outcomes.sums(), (2, 2));
    }
}
