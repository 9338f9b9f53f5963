//! The suites: the source of each, and how it is run.

mod debian;
mod git;
mod go;
mod isolation;
mod java;
mod node;
mod python;
mod regress;
mod ruby;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::outcomes::TestOutcomes;
use crate::program::{self, ProgramEnd};
use crate::servers::{SuiteRequirements, SuiteTarget};

/// A test suite of another project.
pub struct Suite {
    /// The name of the suite on the command line.
    pub name: &'static str,
    /// The project, its version, and which of its tests run.
    pub about: &'static str,
    /// The requirements of the suite on its servers.
    pub needs: SuiteRequirements,
    /// Differences that are known, in the form that `known` reads.
    pub known: &'static str,
    /// The same for the store; none if the suite needs what the store does not have.
    pub known_of_store: Option<&'static str>,
    /// Fetches the suite into its folder, unless the folder has it already.
    pub fetch: fn(folder: &Path) -> Result<(), Failure>,
    /// Runs the suite against a server.
    pub run: fn(folder: &Path, target: &SuiteTarget) -> Result<TestOutcomes, Failure>,
}

/// All suites.
pub const ALL: &[Suite] = &[
    regress::SUITE,
    isolation::SUITE,
    python::PSYCOPG2,
    python::PSYCOPG3,
    python::ASYNCPG,
    python::SQLALCHEMY,
    python::DJANGO,
    go::PGX,
    java::PGJDBC,
    node::NODE_POSTGRES,
    ruby::ACTIVE_RECORD,
];

/// Does something in a folder that is there only once it was done whole.
fn once(
    folder: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (whole, part) = (folder.join(name), folder.join(format!("{name}.part")));
    if whole.exists() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", part.display());
    if part.exists() {
        std::fs::remove_dir_all(&part).map_err(failed)?;
    }
    std::fs::create_dir_all(&part).map_err(failed)?;
    make(&part)?;
    std::fs::rename(&part, &whole).map_err(failed)
}

/// Runs a suite's program for at most so long, and reads the outcomes from its output, with bytes
/// that are no text replaced. An error if no test ran.
fn judge(
    command: &mut Command,
    (folder, target): (&Path, &SuiteTarget),
    most: Duration,
    outcomes: fn(&str) -> TestOutcomes,
) -> Result<TestOutcomes, Failure> {
    let log = folder.join(format!("{}.log", target.run));
    let end = program::run_for(command, &log, most)?;
    let printed = std::fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut outcomes = outcomes(&String::from_utf8_lossy(&printed));
    outcomes.timed_out = end == ProgramEnd::TimedOut;
    match outcomes.sums() {
        (0, 0) => Err(format!("no test ran: see {}", log.display())),
        _ => Ok(outcomes),
    }
}
