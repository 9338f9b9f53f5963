//! The end of the demo in a terminal: a session with the demo's tables, in psql if it is installed.

use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;
use std::process::{Command, Stdio};

use pg_server::ServerLimits;
use replex::failure::CommandFailure;
use replex::say;
use tokio::signal::unix::{SignalKind, signal};

use crate::login::LoginArguments;
use crate::runtime;
use crate::sql_listener::{NetworkPolicy, SqlListener};

/// Returns whether a person is there for a session.
pub fn is_wanted() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Runs a session until the person ends it. A signal from the keyboard is for the session's
/// program: this process has a handler for it since the story.
pub fn run(coordinator: &str, own_program: &Path) -> Result<(), CommandFailure> {
    let has_psql = Command::new("psql")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    say!("\nThe cluster is still up: here is a session with its tables, until \\q.");
    say!("Try   SELECT * FROM flights WHERE tailnum = 'N14228';\n");
    if !has_psql {
        let mut shell = tokio::process::Command::new(own_program);
        shell.args(["sql", "-C", coordinator]);
        return wait(shell);
    }
    let anywhere = ([127, 0, 0, 1], 0).into();
    let login = LoginArguments::default();
    let listener = SqlListener::bind(anywhere, &login, NetworkPolicy::Allowed)?;
    let port = listener.address().port().to_string();
    let (sql, is_connected) =
        listener.serve(vec![coordinator.to_owned()], ServerLimits::default())?;
    // The other side goes only when it has ended.
    let _ = is_connected.blocking_recv();
    let mut psql = tokio::process::Command::new("psql");
    psql.args(["-h", "127.0.0.1", "-p", &port, "replex"]);
    let ended = wait(psql);
    drop(sql);
    ended
}

/// Waits until a program has ended, or a signal ends it with this process.
fn wait(mut program: tokio::process::Command) -> Result<(), CommandFailure> {
    let what = || CommandFailure::at("run a session");
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(what())?;
        let mut hangup = signal(SignalKind::hangup()).map_err(what())?;
        let mut running = program.kill_on_drop(true).spawn().map_err(what())?;
        tokio::select! {
            ended = running.wait() => ended.map(drop).map_err(what()),
            _ = terminate.recv() => Err(CommandFailure::Interrupted),
            _ = hangup.recv() => Err(CommandFailure::Interrupted),
        }
    })
}
