//! Drivers of other languages do real work through the proxy, with passwords and a replica.
//!
//! Each has a program in a folder here, which does that work, checks its reads and prints `done`.
//! Its dependencies are fetched once in the pinned versions, and kept below the folder of the
//! build. That takes the language's tools, and a network the first time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::cluster::{Cluster, PATIENCE};
use crate::support::{PASSWORD, USER, is_there, needs, printed};

/// The proxy's connections to each server, which are fewer than any driver's clients.
const CONNECTIONS: usize = 5;
/// Reads that the replica answers for each driver, at least.
const SERVED: u64 = 20;
/// The time for fetching a driver, as `timeout` takes it, and how often this is tried.
const FETCH_MAX: &str = "180s";
const FETCHES: usize = 3;

/// The files that a driver's program is run from.
struct Driver {
    /// The files in the repository.
    sources: PathBuf,
    /// The fetched and built files.
    kept: PathBuf,
    /// Held for as long as that changes.
    _lock: File,
}

impl Driver {
    /// None without one of these programs.
    fn with(name: &str, tools: &[(&str, &str)]) -> Option<Driver> {
        for (tool, version) in tools {
            needs::require_program(tool, &[version])?;
        }
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/clients");
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
        let kept = kept.join(name);
        std::fs::create_dir_all(&kept).unwrap();
        let lock = File::create(kept.join("lock")).unwrap();
        lock.lock().unwrap();
        Some(Driver {
            sources: Path::new(tests).join(name),
            kept,
            _lock: lock,
        })
    }

    /// Runs the script that fetches the driver, unless it was run for the same pins. False if it
    /// fails and the run allows that.
    fn fetch(&self, pins: &str, command: &mut Command) -> bool {
        let pins = std::fs::read(self.sources.join(pins)).unwrap();
        let stamp = self.kept.join("fetched");
        if std::fs::read(&stamp).is_ok_and(|fetched| fetched == pins) {
            return true;
        }
        let is_fetched = (0..FETCHES).any(|_| {
            let output = within(FETCH_MAX, command).output().unwrap();
            let status = output.status;
            if !status.success() {
                println!("{command:?} failed ({status}; 124 is over {FETCH_MAX}):");
                println!("{}", String::from_utf8_lossy(&output.stdout));
                println!("{}", String::from_utf8_lossy(&output.stderr));
            }
            status.success()
        });
        if !is_fetched {
            let need = "a network, to fetch the driver the first time";
            return needs::require::<()>(need, None).is_some();
        }
        std::fs::write(stamp, pins).unwrap();
        true
    }
}

/// Returns a command that ends another one, and all that it started, after some time.
///
/// Package managers wait for silent servers for a long time: `go` without end, Maven for half an
/// hour.
fn within(limit: &str, command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=10s", limit]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited.stdin(Stdio::null());
    limited
}

#[test]
fn a_fetch_has_an_end() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo $NAME; sleep 600 & wait"]);
    let output = within("0.5s", command.env("NAME", "begun"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(output.stdout, b"begun\n");
}

/// Runs a program with the proxy's URL. When its work is done, it goes on reading until its
/// standard input ends, which is when the replica has answered it often enough. The rows that it
/// wrote must then be there, too.
async fn works(program: Command) {
    let cluster = Cluster::with_passwords(CONNECTIONS).await;
    let address = cluster.front.address;
    let mut program = tokio::process::Command::from(program);
    program.arg(format!("postgresql://{USER}:{PASSWORD}@{address}/postgres"));
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    program.stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = program.spawn().unwrap();
    let input = child.stdin.take();
    let is_read = async {
        while cluster.served() < SERVED {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(input);
    };
    let ended = async {
        let mut ended = pin!(child.wait_with_output());
        tokio::select! {
            output = &mut ended => output,
            () = is_read => ended.await,
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    let output: Output = ended.expect("it does not end").unwrap();
    assert_eq!(printed(&output), "done\n");
    let rows = "SELECT count(*) || md5(string_agg(item::text, ' ' ORDER BY id)) FROM item";
    cluster.wait_until_equal(rows).await;
    assert!(cluster.served() >= SERVED, "{}", cluster.served());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_postgres() {
    let tools = [("node", "--version"), ("npm", "--version")];
    let Some(driver) = Driver::with("node", &tools).filter(|_| is_there()) else {
        return;
    };
    for file in ["client.mjs", "package.json", "package-lock.json"] {
        std::fs::copy(driver.sources.join(file), driver.kept.join(file)).unwrap();
    }
    let mut fetch = Command::new("npm");
    fetch.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    if driver.fetch("package-lock.json", fetch.current_dir(&driver.kept)) {
        let mut program = Command::new("node");
        program.arg(driver.kept.join("client.mjs"));
        works(program).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgx() {
    let tools = [("go", "version")];
    let Some(driver) = Driver::with("pgx", &tools).filter(|_| is_there()) else {
        return;
    };
    let go = || {
        let mut go = Command::new("go");
        go.current_dir(&driver.sources)
            .env("GOMODCACHE", driver.kept.join("modules"))
            .env("GOFLAGS", "-buildvcs=false -modcacherw")
            .env("GOTOOLCHAIN", "local");
        go
    };
    if driver.fetch("go.sum", go().args(["mod", "download"])) {
        let program = driver.kept.join("client");
        let built = go().args(["build", "-o"]).arg(&program).arg(".").output();
        printed(&built.unwrap());
        works(Command::new(program)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgjdbc() {
    let tools = [("java", "--version"), ("mvn", "--version")];
    let Some(driver) = Driver::with("pgjdbc", &tools).filter(|_| is_there()) else {
        return;
    };
    let jars = driver.kept.join("jars");
    let mut fetch = Command::new("mvn");
    let definition = |name: &str, path: &Path| format!("-D{name}={}", path.display());
    fetch
        .args(["--quiet", "--batch-mode", "--strict-checksums"])
        .args([
            "dependency:copy-dependencies",
            "-Dmdep.overWriteReleases=true",
        ])
        .arg("-Dmdep.stripVersion=true")
        .arg(definition(
            "maven.repo.local",
            &driver.kept.join("repository"),
        ))
        .arg(definition("outputDirectory", &jars))
        .current_dir(&driver.sources);
    if driver.fetch("pom.xml", &mut fetch) {
        let mut program = Command::new("java");
        program.arg("-cp").arg(jars.join("*"));
        program.arg(driver.sources.join("Client.java"));
        works(program).await;
    }
}

/// psycopg 3 and asyncpg, as Debian has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psycopg_and_asyncpg() {
    let chosen = std::env::var("REPLEX_PYTHON").unwrap_or_else(|_| "python3".into());
    // The first in PATH may be another one than Debian's, for which there are these packages.
    let pythons = [chosen, "/usr/bin/python3".into()];
    let has_drivers = |python: &&String| {
        let mut import = Command::new(python);
        let output = import.args(["-c", "import asyncpg, psycopg"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let need = "Debian's packages python3-psycopg and python3-asyncpg";
    let Some(python) = needs::require(need, pythons.iter().find(has_drivers)) else {
        return;
    };
    if is_there() {
        let mut program = Command::new(python);
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/clients");
        program.arg(tests.join("python/drivers.py"));
        works(program).await;
    }
}
