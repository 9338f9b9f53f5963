//! The store as unmodified clients of PostgreSQL see it: `replex start` with psql, with a driver,
//! and beside a real PostgreSQL that gets the same bytes.

mod catalogue;
mod comments;
mod copy;
mod definitions;
mod differences;
mod drawn_values;
mod driver;
mod generated;
mod hostile;
mod joined;
mod login;
mod machines;
mod named;
mod read_only;
mod roles;
mod same_as_postgres;
mod sequences;
mod started;

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use pg_local::Postgres;
use replex::cluster::{Process, ProcessLife};
use tempfile::TempDir;

use crate::support;

/// How long a test waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `replex start`.
struct Started {
    process: Process,
    folder: TempDir,
}

impl Started {
    /// Starts a store in a new folder, at a free port.
    async fn new() -> Started {
        Started::with(&[]).await
    }

    async fn with(arguments: &[&str]) -> Started {
        let folder = tempfile::tempdir().unwrap();
        let process = Started::process(&folder, arguments).await;
        Started { process, folder }
    }

    async fn process(folder: &TempDir, further: &[&str]) -> Process {
        let data = folder.path().join("data").display().to_string();
        let arguments = ["start", "--data", &data, "--listen", "127.0.0.1:0"];
        let arguments = arguments.iter().chain(further).map(ToString::to_string);
        let arguments: Vec<String> = arguments.collect();
        let log = folder.path().join("log");
        let life = ProcessLife::WithParent;
        Process::start("start", &support::program(), &arguments, &log, life)
            .await
            .unwrap()
    }

    /// Starts the store again in its folder.
    async fn again(&mut self) {
        self.process = Started::process(&self.folder, &[]).await;
    }

    /// Waits until the operator's log has this text.
    async fn wait_for_log(&self, text: &str) {
        let begun = Instant::now();
        while !self.process.log_text().contains(text) {
            assert!(begun.elapsed() < PATIENCE, "no {text} in the log");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn sql(&self) -> SocketAddr {
        self.process.ready_value("sql").unwrap().parse().unwrap()
    }
}

/// Runs psql with statements, one `-c` each. Returns its stdout and its stderr.
fn psql(address: SocketAddr, statements: &[&str]) -> (String, String) {
    let programs = pg_local::programs().unwrap();
    let mut psql = Command::new(programs.join("psql"));
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    psql.args([
        "-X", "-h", &host, "-p", &port, "-U", "postgres", "-d", "postgres",
    ]);
    for statement in statements {
        psql.args(["-c", statement]);
    }
    let output = psql.env("LC_ALL", "C.UTF-8").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// Returns a real PostgreSQL, or none if the run allows that it is missing.
fn postgres() -> Option<Postgres> {
    support::postgres_is_there().then(|| Postgres::start(&[]).unwrap())
}
