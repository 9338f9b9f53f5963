//! Runs the test suites of other projects, once against PostgreSQL and once through the proxy, or
//! against a store. A test that passes against PostgreSQL must pass there as well, or be in the
//! list of known differences.
//!
//! Nothing that is fetched becomes part of the repository. A suite is fetched by the tool of its
//! language from the registry that this tool is configured with.

mod known;
mod outcomes;
mod program;
mod servers;
mod suites;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::known::KnownDifferences;
use crate::outcomes::TestOutcomes;
use crate::suites::Suite;

/// Why a run cannot continue, for a person.
type Failure = String;

/// Runs test suites of other projects against a PostgreSQL, and through the proxy or against a
/// store, and prints the differences.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask foreign")]
struct Options {
    /// The suites to run; all if none is named
    #[arg(value_name = "SUITE")]
    suites: Vec<String>,
    /// The folder of the fetched suites, and of their output
    #[arg(long, value_name = "FOLDER", default_value = "target/foreign")]
    folder: PathBuf,
    /// Run the suites against a store in place of the proxy
    #[arg(long)]
    store: bool,
    /// Print the suites and end
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("foreign: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything that differs is known.
fn run(options: &Options) -> Result<bool, Failure> {
    if options.list {
        for suite in suites::ALL {
            say(&format!("{:<12} {}", suite.name, suite.about));
        }
        return Ok(true);
    }
    let mut reports = Vec::new();
    for suite in chosen(options)? {
        // A suite that cannot be fetched keeps none of the others from running.
        reports.push(compare(suite, options).unwrap_or_else(|failure| {
            eprintln!("{}: {failure}", suite.name);
            Report {
                row: format!("| {} | not run | | |", suite.about),
                is_as_known: false,
            }
        }));
    }
    match options.store {
        true => say("\n| suite | straight, passed/failed | the store | |"),
        false => {
            say("\n| suite | straight, passed/failed | through the proxy | replicas afterwards |")
        }
    }
    say("|---|---|---|---|");
    for report in &reports {
        say(&report.row);
    }
    Ok(reports.iter().all(|report| report.is_as_known))
}

/// Returns the named suites, or all suites if none is named.
fn chosen(options: &Options) -> Result<Vec<&'static Suite>, Failure> {
    let runs = |suite: &&Suite| !options.store || suite.known_of_store.is_some();
    if options.suites.is_empty() {
        return Ok(suites::ALL.iter().filter(runs).collect());
    }
    let find = |name: &String| {
        let suite = suites::ALL.iter().find(|suite| suite.name == name);
        let suite = suite.filter(runs);
        suite.ok_or_else(|| format!("there is no suite `{name}`: `--list` prints those there are"))
    };
    options.suites.iter().map(find).collect()
}

/// The result of one suite.
struct Report {
    /// A row of the table.
    row: String,
    is_as_known: bool,
}

/// Runs a suite twice, and prints the differences.
fn compare(suite: &Suite, options: &Options) -> Result<Report, Failure> {
    let folder = options.folder.join(suite.name);
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    say(&format!("{}: fetching", suite.name));
    (suite.fetch)(&folder)?;

    say(&format!("{}: straight", suite.name));
    let servers = servers::SuiteServers::without_proxy(&suite.needs)?;
    let straight = (suite.run)(&folder, &servers.target())?;
    drop(servers);

    let (through, replicas, known) = match options.store {
        false => {
            say(&format!("{}: through the proxy", suite.name));
            let mut servers = servers::SuiteServers::through_proxy(&suite.needs, &folder)?;
            let through = (suite.run)(&folder, &servers.target())?;
            (through, Some(servers.replicas()), suite.known)
        }
        true => {
            say(&format!("{}: the store", suite.name));
            let servers = servers::SuiteServers::of_store(&suite.needs, &folder)?;
            let through = (suite.run)(&folder, &servers.target())?;
            (through, None, suite.known_of_store.unwrap_or_default())
        }
    };

    let known = KnownDifferences::parse(known)?;
    let differences = straight.differences(&through);
    let unknown: Vec<&String> = differences.iter().filter(|it| !known.names(it)).collect();
    for difference in &differences {
        let reason = known.reason(difference).unwrap_or("NOT LISTED");
        say(&format!("{}: differs: {difference}: {reason}", suite.name));
    }
    for stale in known.without(&differences) {
        say(&format!(
            "{}: listed, but does not differ: {stale}",
            suite.name
        ));
    }
    let row = format!(
        "| {} | {} | {} | {} |",
        suite.about,
        sums(&straight),
        sums(&through),
        replicas.as_ref().map_or(String::new(), ToString::to_string)
    );
    let serve = replicas.is_none_or(|replicas| replicas.are_serving());
    Ok(Report {
        row,
        is_as_known: unknown.is_empty() && serve && !through.timed_out,
    })
}

fn sums(outcomes: &TestOutcomes) -> String {
    let (passed, failed) = outcomes.sums();
    let hangs = if outcomes.timed_out {
        ", then no end"
    } else {
        ""
    };
    format!("{passed}/{failed}{hangs}")
}

/// Prints a line. A closed output is no error.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
