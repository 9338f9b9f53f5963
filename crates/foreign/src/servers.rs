//! Starts the servers that a suite runs against: one PostgreSQL alone, the proxy in front of a
//! primary and two replicas, or a store.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pg_local::{Postgres, SUPERUSER};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Failure, program};

/// The number of replicas.
const REPLICAS: usize = 2;
/// The time within which replicas must have every commit after a suite.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(600);
/// A table that is created after a suite, to find out when replicas have every commit.
const LAST_TABLE: &str = "public.foreign_last_table";
/// The name of the run against a store.
const STORE_RUN: &str = "store";
/// The pause between two checks of whether replicas have every commit.
const PAUSE: Duration = Duration::from_millis(500);

/// Settings of every PostgreSQL server, in addition to those for its role.
const SETTINGS: &[&str] = &[
    "max_connections=300",
    "max_prepared_transactions=20",
    "max_worker_processes=16",
    "max_locks_per_transaction=256",
    "max_wal_senders=30",
    "max_replication_slots=30",
    "synchronous_commit=on",
    "shared_buffers=64MB",
];

/// The server that a suite connects to.
#[derive(Debug)]
pub struct SuiteTarget {
    /// A host name or address.
    pub host: String,
    pub port: u16,
    /// The superuser. It needs no password.
    pub user: &'static str,
    pub database: &'static str,
    /// PostgreSQL's programs.
    pub programs: PathBuf,
    /// The name of this run, which distinguishes the runs of the suite.
    pub run: &'static str,
}

impl SuiteTarget {
    /// Returns the URL of the server for drivers, with the scheme `postgresql`.
    pub fn url(&self) -> String {
        self.url_of("postgresql")
    }

    /// Returns the URL of the server with another scheme.
    pub fn url_of(&self, scheme: &str) -> String {
        let SuiteTarget {
            host,
            port,
            user,
            database,
            ..
        } = self;
        format!("{scheme}://{user}@{host}:{port}/{database}")
    }

    /// Runs a statement. Returns the names of the columns and the rows, values between tabs.
    pub fn psql(&self, statement: &str) -> Result<String, Failure> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-F", "\t", "-P", "footer=off"]);
        psql.args([&self.url(), "-c", statement]);
        program::run(&mut psql)
    }

    /// Runs a statement that prepares a suite. Does nothing against a store: it has no such
    /// objects, and their tests fail there.
    ///
    /// # Errors
    /// The statement fails.
    pub fn prepare(&self, statement: &str) -> Result<(), Failure> {
        match self.run {
            STORE_RUN => Ok(()),
            _ => self.psql(statement).map(drop),
        }
    }

    /// Returns the environment variables for programs that use libpq.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("PGHOST", self.host.clone()),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", self.user.to_owned()),
            ("PGDATABASE", self.database.to_owned()),
        ]
    }
}

/// The state of the replicas after a suite.
#[derive(Debug)]
pub struct ReplicaReport {
    /// The state of each, as the console shows it.
    states: Vec<String>,
}

impl ReplicaReport {
    /// Returns whether all replicas serve reads.
    pub fn are_serving(&self) -> bool {
        self.states.iter().all(|state| state == "serving")
    }
}

impl fmt::Display for ReplicaReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.are_serving() {
            true => formatter.write_str("serving"),
            false => formatter.write_str(&self.states.join(", ")),
        }
    }
}

/// The requirements of a suite on its servers.
pub struct SuiteRequirements {
    /// The database in which the suite runs.
    pub database: &'static str,
    /// Settings of the primary.
    pub settings: &'static [&'static str],
}

/// The running servers of a suite. Dropping this value stops them.
pub struct SuiteServers {
    database: &'static str,
    primary: Postgres,
    replicas: Vec<Postgres>,
    /// The proxy or the store, if the suite connects to one.
    front: Option<FrontProgram>,
}

/// A `replex` that a suite connects to.
struct FrontProgram {
    /// The name of the run.
    run: &'static str,
    child: Child,
    host: String,
    port: u16,
}

impl SuiteServers {
    /// Starts a PostgreSQL server without a proxy.
    pub fn without_proxy(needs: &SuiteRequirements) -> Result<SuiteServers, Failure> {
        let primary = postgres(needs)?;
        make_database(&primary, needs.database)?;
        Ok(SuiteServers {
            database: needs.database,
            primary,
            replicas: Vec::new(),
            front: None,
        })
    }

    /// Starts a store with an empty folder. Its log goes to `folder`. The PostgreSQL server beside
    /// it only has the programs of clients.
    pub fn of_store(needs: &SuiteRequirements, folder: &Path) -> Result<SuiteServers, Failure> {
        let mut servers = SuiteServers::without_proxy(needs)?;
        let data = folder.join("store-data");
        // Of the run before.
        let _ = std::fs::remove_dir_all(&data);
        let mut command = Command::new(beside("replex")?);
        command.args(["start", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(&data);
        servers.front = Some(FrontProgram::start(STORE_RUN, "sql=", command, folder)?);
        Ok(servers)
    }

    /// Starts the proxy in front of a primary and replicas. Its log goes to `folder`.
    pub fn through_proxy(
        needs: &SuiteRequirements,
        folder: &Path,
    ) -> Result<SuiteServers, Failure> {
        let primary = postgres(needs)?;
        make_database(&primary, needs.database)?;
        let mut servers = SuiteServers {
            database: needs.database,
            primary,
            replicas: Vec::new(),
            front: None,
        };
        for _ in 0..REPLICAS {
            let replica = postgres(needs)?;
            make_database(&replica, needs.database)?;
            servers.replicas.push(replica);
        }
        servers.front = Some(servers.start_proxy(folder)?);
        Ok(servers)
    }

    fn start_proxy(&self, folder: &Path) -> Result<FrontProgram, Failure> {
        let state = folder.join("proxy-state");
        // Of the run before.
        let _ = std::fs::remove_dir_all(&state);
        let mut command = Command::new(beside("replex")?);
        command.args(["proxy", "--listen", "127.0.0.1:0", "--trust"]);
        command.args(["--connections", "100"]);
        command.args(["--primary", &target_of(&self.primary, self.database).url()]);
        for replica in &self.replicas {
            command.args(["--replica", &target_of(replica, self.database).url()]);
        }
        command.env("XDG_STATE_HOME", &state);
        FrontProgram::start("proxy", "proxy=", command, folder)
    }

    /// Returns the server that the suite connects to.
    pub fn target(&self) -> SuiteTarget {
        let straight = target_of(&self.primary, self.database);
        match &self.front {
            None => straight,
            Some(front) => SuiteTarget {
                host: front.host.clone(),
                port: front.port,
                run: front.run,
                ..straight
            },
        }
    }

    /// Returns the console's report of the replicas, after waiting for a limited time until all of
    /// them have the suite's commits.
    pub fn replicas(&mut self) -> ReplicaReport {
        // The last commit of the suite: a replica that has it has everything before it.
        if let Err(failure) = self.target().psql(&format!("CREATE TABLE {LAST_TABLE} ()")) {
            return ReplicaReport {
                states: vec![failure],
            };
        }
        let begun = Instant::now();
        loop {
            let replicas = ReplicaReport {
                states: self.states().unwrap_or_else(|failure| vec![failure]),
            };
            let has_failed = replicas.states.iter().any(|state| state == "failed");
            if replicas.are_serving() || has_failed || begun.elapsed() > CAUGHT_UP_WITHIN {
                return replicas;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the state of each replica, as the console shows it. A replica that serves and lacks
    /// commits has a state of its own.
    fn states(&self) -> Result<Vec<String>, Failure> {
        let console = SuiteTarget {
            database: "hihooi",
            ..self.target()
        };
        let shown = console.psql("SHOW REPLICAS")?;
        let mut lines = shown.lines();
        let header = lines.next().unwrap_or_default();
        let state = header.split('\t').position(|name| name == "state");
        let state = state.ok_or_else(|| format!("SHOW REPLICAS shows no state: {header}"))?;
        let states = lines.map(|row| row.split('\t').nth(state).unwrap_or_default());
        let query = format!("SELECT to_regclass('{LAST_TABLE}') IS NOT NULL");
        let states = states.zip(&self.replicas).map(|(state, replica)| {
            let has_all = target_of(replica, self.database)
                .psql(&query)?
                .ends_with("t\n");
            Ok(match (state, has_all) {
                ("serving", false) => "serving, but lags".to_owned(),
                _ => state.to_owned(),
            })
        });
        states.collect()
    }
}

impl FrontProgram {
    /// Starts a program, whose log goes to `folder`. The word with this prefix, of a line of its
    /// output, has the address.
    fn start(
        run: &'static str,
        prefix: &str,
        mut command: Command,
        folder: &Path,
    ) -> Result<FrontProgram, Failure> {
        let log = folder.join("replex.log");
        let written = std::fs::File::create(&log).map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(written).spawn();
        let mut child = child.map_err(|error| format!("the {run} does not start: {error}"))?;
        let stdout = child.stdout.take().expect("it was asked for");
        let mut front = FrontProgram {
            run,
            child,
            host: String::new(),
            port: 0,
        };
        let place = BufReader::new(stdout).lines().find_map(|line| {
            let line = line.ok()?;
            let mut words = line.split_whitespace();
            words.find_map(|word| word.strip_prefix(prefix).map(str::to_owned))
        });
        let place = place.as_deref().and_then(|place| place.rsplit_once(':'));
        let (host, port) =
            place.ok_or_else(|| format!("the {run} does not start: see {}", log.display()))?;
        front.host = host.to_owned();
        front.port = port.parse().map_err(|_| format!("no port: {port}"))?;
        Ok(front)
    }
}

impl Drop for FrontProgram {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn postgres(needs: &SuiteRequirements) -> Result<Postgres, Failure> {
    let settings: Vec<&str> = SETTINGS.iter().chain(needs.settings).copied().collect();
    Postgres::start(&settings).map_err(|error| error.to_string())
}

fn make_database(postgres: &Postgres, name: &str) -> Result<(), Failure> {
    if name == "postgres" {
        return Ok(());
    }
    let statement = format!("CREATE DATABASE {name} TEMPLATE template0");
    target_of(postgres, "postgres").psql(&statement).map(drop)
}

/// Returns a PostgreSQL server without a proxy as the target of a suite.
fn target_of(postgres: &Postgres, database: &'static str) -> SuiteTarget {
    let socket = postgres.socket();
    SuiteTarget {
        host: socket.ip().to_string(),
        port: socket.port(),
        user: SUPERUSER,
        database,
        programs: postgres.programs().to_owned(),
        run: "straight",
    }
}

/// Returns the path of a program that was built together with this one.
fn beside(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = own.with_file_name(name);
    match program.exists() {
        true => Ok(program),
        false => Err(format!(
            "{} is not there: run `cargo xtask foreign`",
            program.display()
        )),
    }
}
