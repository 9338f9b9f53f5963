//! Runs a PostgreSQL server for comparison with Replex, as a user would install it: Debian's
//! programs and default settings. It has its own folder below the measured folder, a Unix socket in
//! this folder, and no port.
//!
//! PostgreSQL refuses to run as root, so a root user starts it as a user without privileges.
//! Dropping the value stops the server.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cpu;

/// The time within which a started server must answer.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The pause between two checks of whether the server answers.
const READY_PAUSE: Duration = Duration::from_millis(20);
/// The user and the group without privileges.
const UNPRIVILEGED: u32 = 65_534;
const USER: &str = "postgres";

/// A running PostgreSQL.
#[derive(Debug)]
pub struct DebianPostgres {
    programs: PathBuf,
    postmaster: Child,
    folder: tempfile::TempDir,
}

/// Returns the folder of PostgreSQL's programs, the newest of Debian's; none if PostgreSQL is not
/// installed.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    folders
        .filter(|folder| folder.join("initdb").exists())
        .max()
}

impl DebianPostgres {
    /// Creates an empty database server and starts it. Returns none if PostgreSQL is not installed.
    ///
    /// # Errors
    /// PostgreSQL does not start.
    pub fn start(base: &Path) -> io::Result<Option<DebianPostgres>> {
        let Some(programs) = programs() else {
            return Ok(None);
        };
        let folder = tempfile::TempDir::with_prefix_in("replex-pg-", base)?;
        if is_root()? {
            chown(folder.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
        }
        let data = folder.path().join("data");
        let mut initdb = command(&programs, "initdb", folder.path())?;
        let words = ["--auth=trust", "--encoding=UTF8", "--locale=C"];
        initdb
            .args(words)
            .args(["--username", USER])
            .arg("--pgdata")
            .arg(&data);
        run(&mut initdb, "initdb").map(drop)?;
        let log = fs::File::create(folder.path().join("log"))?;
        let mut postgres = command(&programs, "postgres", folder.path())?;
        let sockets = format!("unix_socket_directories={}", folder.path().display());
        postgres.arg("-D").arg(&data).args(["-c", &sockets]);
        postgres.args(["-c", "listen_addresses="]);
        let postmaster = postgres.stdout(log.try_clone()?).stderr(log).spawn()?;
        let postgres = DebianPostgres {
            programs,
            postmaster,
            folder,
        };
        postgres.wait()?;
        Ok(Some(postgres))
    }

    fn wait(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let mut command = command(&self.programs, "pg_isready", self.folder.path())?;
            if command
                .arg("--quiet")
                .arg("-h")
                .arg(self.folder.path())
                .status()?
                .success()
            {
                return Ok(());
            }
            if begun.elapsed() > READY_WITHIN {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "PostgreSQL does not serve: {log}"
                )));
            }
            std::thread::sleep(READY_PAUSE);
        }
    }

    /// Runs statements or commands by `psql`, and returns their duration. Then waits until the
    /// server's process for them has ended, so that [`DebianPostgres::cpu_us`] includes its CPU
    /// time.
    ///
    /// # Errors
    /// A program fails.
    pub fn psql(&self, words: &[&str]) -> io::Result<Duration> {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]);
        command.args(["--username", USER, "--host"]);
        command.arg(self.folder.path());
        command.args(["--tuples-only", "--no-align"]);
        for word in words.iter().chain(&["SELECT pg_backend_pid()"]) {
            command.args(["--command", word]);
        }
        let begun = Instant::now();
        let output = run(&mut command, "psql")?;
        let taken = begun.elapsed();
        let process = output.lines().last().unwrap_or_default();
        let process = Path::new("/proc").join(process);
        while process.exists() && begun.elapsed() < READY_WITHIN {
            std::thread::sleep(READY_PAUSE);
        }
        Ok(taken)
    }

    /// Runs scripts in pgbench's language for some seconds, with prepared statements: each
    /// transaction is one of the scripts, drawn by their weights. The scripts know `rows`. Returns
    /// the number of transactions.
    ///
    /// # Errors
    /// pgbench fails.
    pub fn pgbench(
        &self,
        scripts: &[(&str, u32)],
        rows: u64,
        (clients, span): (usize, Duration),
    ) -> io::Result<u64> {
        let mut command = Command::new(self.programs.join("pgbench"));
        command.args(["--no-vacuum", "--protocol=prepared", "--username", USER]);
        command.arg("--host").arg(self.folder.path());
        command.args(["--client", &clients.to_string()]);
        command.args(["--time", &span.as_secs().max(1).to_string()]);
        command.args(["--define", &format!("rows={rows}")]);
        for (number, (script, weight)) in scripts.iter().enumerate() {
            let file = self.folder.path().join(format!("script{number}"));
            fs::write(&file, script)?;
            command.arg("--file");
            command.arg(format!("{}@{weight}", file.display()));
        }
        let output = run(command.arg(USER), "pgbench")?;
        let count = output.lines().find_map(|line| {
            let count = line.strip_prefix("number of transactions actually processed: ")?;
            count.parse().ok()
        });
        count.ok_or_else(|| io::Error::other(format!("pgbench printed no count: {output}")))
    }

    /// Returns the CPU time of the server and of all its processes that have ended, in
    /// microseconds. Programs that still run in the background are left out.
    ///
    /// # Errors
    /// The server's process has ended.
    pub fn cpu_us(&self) -> io::Result<f64> {
        cpu::with_ended_us(self.postmaster.id())
    }
}

impl Drop for DebianPostgres {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        let stopped = command(&self.programs, "pg_ctl", self.folder.path()).and_then(|mut it| {
            it.arg("stop").args(["-m", "immediate", "-D"]).arg(data);
            run(&mut it, "pg_ctl").map(drop)
        });
        if let Err(error) = stopped {
            // There is no caller to return it to.
            let _ = writeln!(io::stderr(), "{error}");
            let _ = self.postmaster.kill();
        }
        let _ = self.postmaster.wait();
    }
}

/// Returns a command that runs one of PostgreSQL's programs as a user other than root.
fn command(programs: &Path, program: &str, folder: &Path) -> io::Result<Command> {
    let mut command = Command::new(programs.join(program));
    command.current_dir(folder).stdin(Stdio::null());
    if is_root()? {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    Ok(command)
}

fn is_root() -> io::Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

/// Runs a program that must succeed, and returns its output.
fn run(command: &mut Command, name: &str) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{name} failed: {words}")))
}
