//! Runs the suites that are written in Java.

use std::process::Command;
use std::time::Duration;

use super::{Suite, judge, once};
use crate::outcomes::TestOutcomes;
use crate::servers::{SuiteRequirements, SuiteTarget};
use crate::{Failure, program};

/// How long a suite may take.
const MOST: Duration = Duration::from_secs(60 * 60);
const ARTIFACT: &str = "org.postgresql:postgresql:42.7.8:tar.gz:jdbc-src";

/// Packages and classes that are run, and excluded tests: thousands of texts in quotes, and a test
/// that writes until its session is terminated, by a process number that is no server's.
const TESTS: &[&str] = &[
    "org/postgresql/test/jdbc*/**/*Test*",
    "org/postgresql/jdbc/*Test*",
    "!**/QuotationTest*",
    "!**/CopyTest#lockReleaseOnCancelFailure",
];

/// Runs the tests, and prints the reports, which name each of them.
const SCRIPT: &str = r#"
rm -rf target/surefire-reports
mvn -B -DskipShadeDependencies=true -Dtest="$1" surefire:test
cat target/surefire-reports/TEST-*.xml
"#;

pub const PGJDBC: Suite = Suite {
    name: "pgjdbc",
    about: "pgjdbc 42.7",
    needs: SuiteRequirements {
        database: "test",
        settings: &[],
    },
    known: include_str!("../../known/pgjdbc.txt"),
    known_of_store: Some(include_str!("../../known/store-pgjdbc.txt")),
    fetch: |folder| {
        once(folder, "source", |part| {
            let copy = "mvn -q -B dependency:copy -Dtransitive=false -DoutputDirectory=.";
            let mut mvn = program::words(copy, part);
            program::run(mvn.arg(format!("-Dartifact={ARTIFACT}")))?;
            let archive = "postgresql-42.7.8-jdbc-src.tar.gz";
            let tar = "tar --strip-components=1 -xzf";
            program::run(program::words(tar, part).arg(archive))?;
            let compile = "mvn -q -B -DskipShadeDependencies=true test-compile";
            program::run(&mut program::words(compile, part)).map(drop)
        })
    },
    run: |folder, target| {
        prepare(target)?;
        let source = folder.join("source");
        let properties = source.join("build.local.properties");
        std::fs::write(&properties, server_properties(target))
            .map_err(|error| format!("{}: {error}", properties.display()))?;
        let mut tests = Command::new("sh");
        tests
            .current_dir(&source)
            .args(["-c", SCRIPT, "sh", &TESTS.join(",")]);
        judge(&mut tests, (folder, target), MOST, outcomes)
    },
};

/// Creates the roles and tables that the tests expect in the database.
fn prepare(target: &SuiteTarget) -> Result<(), Failure> {
    for statement in [
        "CREATE EXTENSION IF NOT EXISTS hstore",
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\"",
    ] {
        target.prepare(statement)?;
    }
    Ok(())
}

/// Overrides the server's address in the source.
fn server_properties(target: &SuiteTarget) -> String {
    let SuiteTarget {
        host,
        port,
        user,
        database,
        ..
    } = target;
    format!(
        "test.url.PGHOST={host}\ntest.url.PGPORT={port}\ntest.url.PGDBNAME={database}\n\
         user={user}\npassword=\nprivilegedUser={user}\nprivilegedPassword=\n\
         secondaryServer1={host}\nsecondaryPort1={port}\n\
         secondaryServer2={host}\nsecondaryPort2={port}\n"
    )
}

/// Parses Surefire's reports, in which each element begins a line.
fn outcomes(printed: &str) -> TestOutcomes {
    let mut outcomes = TestOutcomes::default();
    let mut running: Option<(String, Option<bool>)> = None;
    for line in printed.lines().map(str::trim_start) {
        if line.starts_with("<testcase ") {
            let name = |key| attribute(line, key).unwrap_or_default();
            let class = name("classname");
            let class = class.strip_prefix("org.postgresql.").unwrap_or(class);
            let test = format!("{class} {}", name("name"));
            match line.ends_with("/>") {
                true => outcomes.note(test, true),
                false => running = Some((test, Some(true))),
            }
        } else if let Some((_, passed)) = &mut running {
            if line.starts_with("<failure") || line.starts_with("<error") {
                *passed = Some(false);
            } else if line.starts_with("<skipped") {
                *passed = None;
            } else if line.starts_with("</testcase>")
                && let Some((test, Some(passed))) = running.take()
            {
                outcomes.note(test, passed);
            }
        }
    }
    outcomes
}

/// Returns the value of an attribute in the tag that begins a line; none if the tag does not have
/// it.
fn attribute<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {key}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let printed = r#"[INFO] Running org.postgresql.jdbc.ATest
  <testcase name="one" classname="org.postgresql.jdbc.ATest" time="0.1"/>
  <testcase name="two" classname="org.postgresql.jdbc.ATest" time="0.1">
    <failure message="no" type="x">text</failure>
  </testcase>
  <testcase name="three" classname="org.postgresql.jdbc.ATest" time="0.1">
    <skipped/>
  </testcase>
  <testcase name="four" classname="org.postgresql.jdbc.ATest" time="0.1">
    <system-out><![CDATA[text]]></system-out>
  </testcase>
"#;
        let outcomes = outcomes(printed);
        assert_eq!(outcomes.sums(), (2, 1));
    }
}
