//! Finds PostgreSQL's server, which the demo needs, or installs it if this is possible.

use replex::failure::CommandFailure;
use replex::say;
use rustix::process::geteuid;
use tokio::process::Command;

/// Installs PostgreSQL's server if it is missing. This is possible as root on Debian.
pub async fn provide() -> Result<(), CommandFailure> {
    if pg_local::programs().is_some() {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(missing("only root can install it"));
    }
    say!("PostgreSQL's server is not installed. Installing Debian's package postgresql.");
    // A list of packages that is old may do.
    let _ = apt_get(&["update", "-q"]).await;
    let installed = apt_get(&["install", "-qy", "--no-install-recommends", "postgresql"]).await;
    match (pg_local::programs(), installed) {
        (Some(_), _) => Ok(()),
        (None, Ok(())) => Err(missing("it was not found after the installation")),
        (None, Err(problem)) => Err(missing(&problem)),
    }
}

fn missing(why: &str) -> CommandFailure {
    CommandFailure::Failed(format!(
        "PostgreSQL's server is not installed, and {why}. On Debian it is there after `apt-get install postgresql` as \
         root; elsewhere its programs must be in PATH"
    ))
}

/// Runs `apt-get` with these arguments. The error contains the last line of the command's output.
async fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    let command = command.args(arguments).kill_on_drop(true);
    let ran = command.env("DEBIAN_FRONTEND", "noninteractive").output();
    let output = ran
        .await
        .map_err(|error| format!("apt-get cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let last = message.lines().next_back().unwrap_or("nothing").trim();
    Err(format!("apt-get ended with {}: {last}", output.status))
}
