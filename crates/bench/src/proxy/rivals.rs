//! Starts alternatives to the proxy in front of PostgreSQL: PgBouncer, and Pgpool-II over streaming
//! standbys. Both are Debian's packages, configured as well as we can.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pg_local::{Postgres, SUPERUSER};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::databases::{CONNECTIONS, DATABASE, LOOK_AGAIN_AFTER, PATIENCE, Streaming, connect};
use crate::cpu;

/// The first version of PgBouncer that keeps prepared statements beyond their transaction.
const PGBOUNCER_PREPARES_FROM: (u32, u32) = (1, 21);

/// The time after which a process that does not end is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// A running rival. Dropping the value stops the rival.
pub struct Rival {
    child: Child,
    /// The address at which the rival listens.
    pub place: SocketAddr,
    _folder: TempDir,
}

impl Rival {
    /// Returns the ids of the rival's processes.
    ///
    /// # Errors
    /// The rival's process has ended.
    pub fn ids(&self) -> io::Result<Vec<u32>> {
        let mut ids = cpu::children(self.child.id())?;
        ids.push(self.child.id());
        Ok(ids)
    }

    /// Starts a program over the configuration that it is given, and waits until it answers.
    async fn start(mut command: Command, folder: TempDir, place: SocketAddr) -> io::Result<Rival> {
        let log = folder.path().join("log");
        let output = File::create(&log)?;
        pg_local::without_root(&mut command)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?);
        let mut rival = Rival {
            child: command.stderr(output).spawn()?,
            place,
            _folder: folder,
        };
        let begun = Instant::now();
        while let Err(error) = connect(place).await {
            if rival.child.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
                let output = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(io::Error::other(format!("{command:?}: {error}; {output}")));
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
        Ok(rival)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It ends its own processes, and gives back memory that it shares with them. All this fails
        // where it has ended already.
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::INT);
        }
        let begun = Instant::now();
        while let Ok(None) = self.child.try_wait()
            && begun.elapsed() < ENDS_WITHIN
        {
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts PgBouncer, and returns it with whether it supports prepared statements; none if PgBouncer
/// is not installed.
///
/// # Errors
/// PgBouncer is installed, but does not start.
pub async fn pgbouncer(base: &Path, primary: &Postgres) -> io::Result<Option<(Rival, bool)>> {
    let Some(program) = find("pgbouncer") else {
        missing("pgbouncer");
        return Ok(None);
    };
    let output = Command::new(&program).arg("--version").output()?;
    let prepares =
        version(&String::from_utf8_lossy(&output.stdout)) >= Some(PGBOUNCER_PREPARES_FROM);
    let folder = pg_local::folder_in(base, "replex-pgbouncer-")?;
    let place = pg_local::free_place()?;
    let mut text = format!(
        "[databases]\n\
         {DATABASE} = host={} port={} user={SUPERUSER}\n\
         [pgbouncer]\n\
         listen_addr = {}\n\
         listen_port = {}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = {CONNECTIONS}\n\
         log_connections = 0\n\
         log_disconnections = 0\n",
        primary.socket().ip(),
        primary.socket().port(),
        place.ip(),
        place.port(),
    );
    if prepares {
        text += "max_prepared_statements = 100\n";
    }
    let file = folder.path().join("pgbouncer.ini");
    std::fs::write(&file, text)?;
    let mut command = Command::new(program);
    command.arg(file);
    let rival = Rival::start(command, folder, place).await?;
    Ok(Some((rival, prepares)))
}

/// Starts Pgpool-II in front of a primary and its standbys, for up to `clients` clients. Returns
/// none if Pgpool-II is not installed.
///
/// # Errors
/// Pgpool-II is installed, but does not start.
pub async fn pgpool(
    base: &Path,
    databases: &Streaming,
    clients: usize,
) -> io::Result<Option<Rival>> {
    let Some(program) = find("pgpool") else {
        return Ok(None);
    };
    let folder = pg_local::folder_in(base, "replex-pgpool-")?;
    let (place, pcp) = (pg_local::free_place()?, pg_local::free_place()?);
    let own = folder.path().display();
    // Reads go to a node by statement, not by session, and to all nodes alike: its better settings.
    // A process serves one client at a time and keeps that client's connections for the next one:
    // with no more processes than clients, all of them are warm.
    let mut text = format!(
        "backend_clustering_mode = 'streaming_replication'\n\
         listen_addresses = '{}'\n\
         port = {}\n\
         socket_dir = '{own}'\n\
         pcp_listen_addresses = '{}'\n\
         pcp_port = {}\n\
         pcp_socket_dir = '{own}'\n\
         pid_file_name = '{own}/pid'\n\
         logdir = '{own}'\n\
         work_dir = '{own}'\n\
         num_init_children = {clients}\n\
         max_pool = 1\n\
         load_balance_mode = on\n\
         statement_level_load_balance = on\n\
         enable_pool_hba = off\n\
         sr_check_user = '{SUPERUSER}'\n\
         sr_check_database = '{DATABASE}'\n",
        place.ip(),
        place.port(),
        pcp.ip(),
        pcp.port(),
    );
    let nodes = std::iter::once(&databases.primary).chain(&databases.standbys);
    for (number, node) in nodes.enumerate() {
        let socket = node.socket();
        text += &format!(
            "backend_hostname{number} = '{}'\n\
             backend_port{number} = {}\n\
             backend_weight{number} = 1\n\
             backend_data_directory{number} = '{}'\n\
             backend_flag{number} = 'DISALLOW_TO_FAILOVER'\n",
            socket.ip(),
            socket.port(),
            node.data().display(),
        );
    }
    for (name, text) in [
        ("pgpool.conf", text.as_str()),
        ("pcp.conf", ""),
        ("hba.conf", ""),
    ] {
        std::fs::write(folder.path().join(name), text)?;
    }
    let file = |name: &str| folder.path().join(name);
    let mut command = Command::new(program);
    command.arg("-n").arg("-f").arg(file("pgpool.conf"));
    command.arg("-F").arg(file("pcp.conf"));
    command.arg("-a").arg(file("hba.conf"));
    Rival::start(command, folder, place).await.map(Some)
}

/// Reports that a package is missing.
pub fn missing(package: &str) {
    note!("LEFT OUT: {package} is not installed, `apt-get install {package}`");
}

/// Returns whether Pgpool-II is installed. If not, reports that the package is missing.
pub fn has_pgpool() -> bool {
    let found = find("pgpool").is_some();
    if !found {
        missing("pgpool2");
    }
    found
}

/// Returns the path of a program; none if it is not installed. Also searches `/usr/sbin`, where
/// Debian installs these programs and which is only in root's PATH.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let mut files = folders.into_iter().map(|folder| folder.join(program));
    files.find(|file| file.exists())
}

/// Returns the first two numbers of the output of `--version`: `PgBouncer 1.18.0`.
fn version(output: &str) -> Option<(u32, u32)> {
    let word = output.split_whitespace().nth(1)?;
    let mut numbers = word.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let of = |output| version(output) >= Some(PGBOUNCER_PREPARES_FROM);
        assert!(!of("PgBouncer 1.18.0\nlibevent 2.1.12"));
        assert!(!of("PgBouncer 1.9.1"));
        assert!(of("PgBouncer 1.21.0"));
        assert!(of("PgBouncer 2.0"));
        assert!(!of("unknown"));
    }
}
