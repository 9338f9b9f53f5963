//! `replex proxy check`: prints a line for each finding, followed by its remedy.

use proxy::check::{FindingWeight, check};
use replex::failure::CommandFailure;
use replex::say;

use super::arguments::CheckArguments;
use super::databases;
use crate::output::{Screen, plural};

/// Runs `replex proxy check`.
pub async fn run(arguments: &CheckArguments) -> Result<(), CommandFailure> {
    let (primary, replicas) = databases(&arguments.databases)?;
    let findings = check(&primary, &replicas, arguments.connections.into()).await;
    let screen = Screen::of_stdout();
    for finding in &findings {
        let mark = match finding.weight {
            FindingWeight::Fine => screen.good("✓"),
            FindingWeight::Mind => screen.bold("!"),
            FindingWeight::Stops => screen.bad("✗"),
        };
        say!("{mark} {}: {}", finding.place, finding.what);
        if !finding.fix.is_empty() {
            say!("    {}", screen.dim(&finding.fix));
        }
    }
    let stops = findings
        .iter()
        .filter(|it| it.weight == FindingWeight::Stops);
    match stops.count() as u64 {
        0 => {
            say!("Nothing stands in the way.");
            Ok(())
        }
        count => {
            say!("{} would stop the proxy.", plural(count, "finding"));
            Err(CommandFailure::Reported)
        }
    }
}
