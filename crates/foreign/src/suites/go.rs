//! Runs the suites that are written in Go.

use std::time::Duration;

use serde_json::Value;

use super::{Suite, judge, once};
use crate::outcomes::TestOutcomes;
use crate::program;
use crate::servers::SuiteRequirements;

/// How long a suite may take.
const MOST: Duration = Duration::from_secs(30 * 60);

pub const PGX: Suite = Suite {
    name: "pgx",
    about: "pgx 5.7",
    needs: SuiteRequirements {
        database: "foreign_test",
        settings: &[],
    },
    known: include_str!("../../known/pgx.txt"),
    known_of_store: Some(include_str!("../../known/store-pgx.txt")),
    fetch: |folder| {
        once(folder, "source", |part| {
            let module = "go mod download -json github.com/jackc/pgx/v5@v5.7.6";
            let printed = program::run(&mut program::words(module, part))?;
            let module = serde_json::from_str::<Value>(&printed);
            let module = module.map_err(|error| error.to_string())?;
            let place = module["Dir"]
                .as_str()
                .ok_or("go does not say where the module is")?;
            program::run(program::words("cp -r --no-preserve=mode", part).args([place, "pgx"]))
                .map(drop)
        })
    },
    run: |folder, target| {
        for statement in [
            "CREATE EXTENSION IF NOT EXISTS hstore",
            "CREATE EXTENSION IF NOT EXISTS ltree",
            "DROP DOMAIN IF EXISTS uint64",
            "CREATE DOMAIN uint64 AS numeric(20,0)",
        ] {
            target.prepare(statement)?;
        }
        let mut go = program::words(
            "go test -json -count=1 -p 1 ./...",
            &folder.join("source/pgx"),
        );
        go.env("PGX_TEST_DATABASE", target.url());
        go.env("PGX_TEST_TCP_CONN_STRING", target.url());
        go.env("GOFLAGS", "-mod=mod");
        judge(&mut go, (folder, target), MOST, outcomes)
    },
};

/// Lines of `go test -json`.
fn outcomes(printed: &str) -> TestOutcomes {
    let mut outcomes = TestOutcomes::default();
    for line in printed.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let (Some(package), Some(test)) = (event["Package"].as_str(), event["Test"].as_str())
        else {
            continue;
        };
        let package = package.rsplit("/v5").next().unwrap_or(package);
        let name = format!("{} {test}", package.trim_start_matches('/'));
        match event["Action"].as_str() {
            Some("pass") => outcomes.note(name.trim_start(), true),
            Some("fail") => outcomes.note(name.trim_start(), false),
            _ => {}
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read() {
        let printed = r#"{"Action":"run","Package":"x/v5/pgtype","Test":"TestA"}
{"Action":"pass","Package":"x/v5/pgtype","Test":"TestA"}
{"Action":"fail","Package":"x/v5","Test":"TestB/one"}
{"Action":"skip","Package":"x/v5","Test":"TestC"}
not an event"#;
        let outcomes = outcomes(printed);
        assert_eq!(outcomes.sums(), (1, 1));
    }
}
