//! `replex proxy check`: a line for each finding, and under it how to fix it.

use proxy::check::{Weight, check};
use replex::failure::CommandFailure;
use replex::say;

use super::arguments::Check;
use super::databases;
use crate::output::{Screen, plural};

/// `replex proxy check`
pub async fn run(arguments: &Check) -> Result<(), CommandFailure> {
    let (primary, replicas) = databases(&arguments.databases)?;
    let findings = check(&primary, &replicas, arguments.connections.into()).await;
    let screen = Screen::of_stdout();
    for finding in &findings {
        let mark = match finding.weight {
            Weight::Fine => screen.good("✓"),
            Weight::Mind => screen.bold("!"),
            Weight::Stops => screen.bad("✗"),
        };
        say!("{mark} {}: {}", finding.place, finding.what);
        if !finding.fix.is_empty() {
            say!("    {}", screen.dim(&finding.fix));
        }
    }
    let stops = findings.iter().filter(|it| it.weight == Weight::Stops);
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
