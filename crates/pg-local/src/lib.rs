//! Runs a private PostgreSQL server on loopback in a temporary folder, for the demo, benchmarks and
//! tests.
//!
//! The server gives up durability for speed. Dropping it removes all of its files. PostgreSQL
//! refuses to run as root. If this process runs as root, it starts the server as the user nobody.

mod template;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use pg_connect::address::Address;
use pg_connect::tls::TlsPolicy;

/// The time within which a database must start.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The attempts to start on a free port, because another process may use the port first.
const TRIES_MAX: usize = 5;
/// The file system in memory, and what must be free of it for a server.
const MEMORY: &str = "/dev/shm";
const MEMORY_BYTES_MIN: u64 = 2 << 30;
/// How the names of folders begin.
const PREFIX: &str = "replex-postgres-";
/// The user nobody and the group nogroup.
const UNPRIVILEGED_USER: u32 = 65_534;
/// The line that PostgreSQL logs once it serves.
const READY: &str = "database system is ready to accept";

/// The superuser. It needs no password on loopback by default.
pub const SUPERUSER: &str = "postgres";

/// The settings of every such database.
const SETTINGS: &[&str] = &[
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=32MB",
    "wal_level=logical",
    "max_wal_senders=10",
    "max_replication_slots=10",
    "unix_socket_directories=",
];

/// A running PostgreSQL server. Dropping the value kills the server.
pub struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    host: Ipv4Addr,
    port: u16,
    settings: Vec<String>,
    process: Option<Child>,
    /// The folder from which the data folder was copied.
    template: Option<Arc<TempDir>>,
}

/// Returns the folder of PostgreSQL's programs: the newest of Debian's, or the first in PATH.
/// Returns none if PostgreSQL is not installed.
pub fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").ok();
    let debian = debian.into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders
        .into_iter()
        .rev()
        .chain(std::env::split_paths(&path));
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").exists())
}

impl Postgres {
    /// Makes and starts a database with these further settings (`name=value`). Its folder is in
    /// memory if there is room.
    pub fn start(settings: &[&str]) -> io::Result<Postgres> {
        Postgres::start_in(&base(), settings)
    }

    /// Starts a server with its folder below `base`, which every user must be able to reach.
    pub fn start_in(base: &Path, settings: &[&str]) -> io::Result<Postgres> {
        let mut postgres = Postgres::stopped(base, settings)?;
        postgres.template = Some(template::copy_into(&postgres, base)?);
        postgres.restart()?;
        Ok(postgres)
    }

    /// Starts a copy of another database that follows it by PostgreSQL's own streaming replication,
    /// and answers reads.
    pub fn standby_of(primary: &Postgres, settings: &[&str]) -> io::Result<Postgres> {
        Postgres::standby_in(primary, &base(), settings)
    }

    /// Starts such a copy with its folder below `base`, which every user must be able to reach.
    pub fn standby_in(primary: &Postgres, base: &Path, settings: &[&str]) -> io::Result<Postgres> {
        let mut postgres = Postgres::stopped(base, settings)?;
        let mut command = postgres.command("pg_basebackup")?;
        let words = "--checkpoint=fast --no-sync --wal-method=stream --write-recovery-conf";
        command
            .args(words.split(' '))
            .args(["--username", SUPERUSER])
            .args(["--host", &primary.host.to_string()])
            .args(["--port", &primary.port.to_string()]);
        run(
            command.arg("--pgdata").arg(postgres.data()),
            "pg_basebackup",
        )?;
        postgres.restart()?;
        Ok(postgres)
    }

    /// Returns a server that has no data yet.
    fn stopped(base: &Path, settings: &[&str]) -> io::Result<Postgres> {
        let programs = programs().ok_or_else(|| {
            io::Error::other("PostgreSQL is not installed: `apt-get install postgresql`")
        })?;
        let settings = SETTINGS.iter().chain(settings);
        Ok(Postgres {
            programs,
            host: own_address(),
            port: 0,
            settings: settings.map(ToString::to_string).collect(),
            process: None,
            template: None,
            folder: folder_in(base, PREFIX)?,
        })
    }

    /// Returns a command that runs one of PostgreSQL's programs.
    fn command(&self, program: &str) -> io::Result<Command> {
        self.command_of(self.programs.join(program))
    }

    /// Returns a command that runs a program as the server's user, in the server's folder.
    fn command_of(&self, program: impl AsRef<OsStr>) -> io::Result<Command> {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        without_root(&mut command)?;
        Ok(command)
    }

    /// Starts the server again, on a free port.
    pub fn restart(&mut self) -> io::Result<()> {
        let mut last = Ok(());
        for _ in 0..TRIES_MAX {
            last = self.restart_at(free_place()?.port());
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Starts the server again, on the same port.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.restart_at(self.port)
    }

    /// Starts the server again, on the given port.
    pub fn restart_at(&mut self, port: u16) -> io::Result<()> {
        self.kill();
        self.port = port;
        let served = self.serve()?;
        served.map_err(|output| io::Error::other(format!("PostgreSQL does not start: {output}")))
    }

    /// Starts the server once. The inner error is the server's output before it ended.
    fn serve(&mut self) -> io::Result<Result<(), String>> {
        let mut command = self.command("postgres")?;
        command.arg("-D").arg(self.data());
        command.args(["-p", &self.port.to_string()]);
        command.args(["-h", &self.host.to_string()]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let mut process = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let log = File::options().create(true).append(true).open(self.log())?;
        let errors = process.stderr.take().expect("it was asked for");
        let (sender, receiver) = channel();
        std::thread::spawn(move || keep_log(BufReader::new(errors), log, &sender));
        self.process = Some(process);
        Ok(wait(&receiver))
    }

    /// Returns the data folder of the server.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the path of the server's log.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the folder of PostgreSQL's programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Returns the server's listening address.
    pub fn socket(&self) -> SocketAddr {
        SocketAddr::from((self.host, self.port))
    }

    /// Returns the server's address for the superuser and this database.
    pub fn address(&self, database: &str) -> Address {
        Address {
            host: self.host.to_string(),
            port: self.port,
            user: SUPERUSER.into(),
            password: None,
            database: database.into(),
            tls: TlsPolicy::Disable,
        }
    }

    /// Kills the server's first process, and no other: the others notice this, and end. Returns
    /// when they have ended.
    pub fn crash(&mut self) -> io::Result<()> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let id = process.id();
        let others = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        process.kill()?;
        process.wait()?;
        let begun = Instant::now();
        for other in others.split_ascii_whitespace() {
            while is_running(other) {
                if begun.elapsed() > READY_WITHIN {
                    return Err(io::Error::other(format!("process {other} does not end")));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// Returns the id of the server's first process; none if the server does not run.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Stops the server at once, without a checkpoint, as a power cut would.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        // SIGQUIT makes it end its own processes, too, and at once. It may have ended already.
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::QUIT);
        }
        let _ = process.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Has a command run as the user nobody if this process is root: PostgreSQL and its poolers refuse
/// to run as root.
pub fn without_root(command: &mut Command) -> io::Result<()> {
    if is_root()? {
        command.uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER);
    }
    Ok(())
}

/// Creates a temporary folder that belongs to the user under which [`without_root`] runs commands.
pub fn folder_in(base: &Path, prefix: &str) -> io::Result<TempDir> {
    let folder = TempDir::with_prefix_in(prefix, base)?;
    if is_root()? {
        chown(
            folder.path(),
            Some(UNPRIVILEGED_USER),
            Some(UNPRIVILEGED_USER),
        )?;
    }
    Ok(folder)
}

/// Returns the folder for servers whose place does not matter. ext4 takes up to a second to create
/// the thousand files of a database if as many were deleted just before, since it does not use
/// their inodes again at once.
fn base() -> PathBuf {
    let free = rustix::fs::statvfs(MEMORY).map(|memory| memory.f_bavail * memory.f_frsize);
    match free {
        Ok(bytes) if bytes >= MEMORY_BYTES_MIN => PathBuf::from(MEMORY),
        _ => std::env::temp_dir(),
    }
}

/// Returns a port on loopback that is free now: for programs that do not take port 0.
pub fn free_place() -> io::Result<SocketAddr> {
    TcpListener::bind((own_address(), 0))?.local_addr()
}

fn run(command: &mut Command, name: &str) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{name} failed: {output}")))
}

/// Returns whether a process runs. A process that has ended and was not waited for does not.
fn is_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let stat = stat.unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

fn is_root() -> io::Result<bool> {
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

/// Returns a loopback address that only this process uses, so that no other process takes the ports
/// that were found free.
fn own_address() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | high, middle, low)
}

/// Copies the server's output to its log. Reports through `sender` once the server serves, or with
/// the output if the server ends before that.
fn keep_log(errors: impl BufRead, mut log: File, sender: &Sender<Result<(), String>>) {
    let mut output = String::new();
    let mut is_ready = false;
    for line in errors.lines().map_while(Result::ok) {
        // The log is for people; the database runs without it.
        let _ = writeln!(log, "{line}");
        if !is_ready {
            is_ready = line.contains(READY);
            output += &line;
            output.push('\n');
            if is_ready {
                let _ = sender.send(Ok(()));
            }
        }
    }
    if !is_ready {
        let _ = sender.send(Err(output));
    }
}

fn wait(receiver: &Receiver<Result<(), String>>) -> Result<(), String> {
    let answer = receiver.recv_timeout(READY_WITHIN);
    answer.unwrap_or_else(|_| Err(format!("no answer for {} s", READY_WITHIN.as_secs())))
}
