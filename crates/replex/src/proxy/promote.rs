//! `replex proxy promote`: prints the steps of a promotion, and the steps that the operator takes
//! next.

use pg_connect::address::Address;
use replex::failure::CommandFailure;
use replex::say;
use replication::promotion::promote;

use super::arguments::PromoteArguments;
use super::databases;
use crate::output::Screen;

/// Runs `replex proxy promote`.
pub async fn run(arguments: &PromoteArguments) -> Result<(), CommandFailure> {
    let (primary, replicas) = databases(&arguments.databases)?;
    if replicas.is_empty() {
        return Err(CommandFailure::Usage(
            "give --replica URL, at least once".into(),
        ));
    }
    let chosen = arguments.to.as_deref().map(Address::parse).transpose();
    let chosen = chosen.map_err(CommandFailure::Usage)?;
    let screen = Screen::of_stdout();
    let report = |what: &str| say!("{}", screen.dim(what));
    let promoted = promote(&primary, &replicas, chosen.as_ref(), report).await;
    let promoted = promoted.map_err(|problem| CommandFailure::Failed(problem.to_string()))?;
    let new = &promoted.primary;
    say!("{} The primary is {new:?} now.", screen.good("✓"));
    for follower in &promoted.followers {
        say!(
            "{} {follower:?} has the same, and can follow it.",
            screen.good("✓")
        );
    }
    for (address, why) in &promoted.left {
        say!("{} {address:?} cannot follow it: {why}.", screen.bold("!"));
    }
    for note in &promoted.notes {
        say!("{} {note}.", screen.bold("!"));
    }
    say!(
        "Start the proxies again, with their other options, and with passwords where there are any:"
    );
    let followers = promoted.followers.iter();
    let followers: String = followers
        .map(|follower| format!(" --replica postgresql://{follower:?}"))
        .collect();
    say!("  replex proxy --primary postgresql://{new:?}{followers}");
    Ok(())
}
