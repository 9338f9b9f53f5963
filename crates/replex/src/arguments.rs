//! The command line of `replex`: every command and option, with its help.
//!
//! Nothing is done here. Help texts describe the purpose of a command, its output and its syntax.
//! The meaning of the options is described once, here.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::login::LoginArguments;

/// Where a coordinator listens, and is looked for, by default.
pub const COORDINATOR_DEFAULT: &str = "127.0.0.1:7400";

/// Where SQL is served by default: no other well-known service has this port.
pub const SQL_DEFAULT: &str = "127.0.0.1:7432";

/// The default prefix of the coordinators' keys in etcd.
pub const ETCD_PREFIX_DEFAULT: &str = "/replex";

/// Tables whose copies are their indexes.
///
/// Replex keeps several copies of each table for safety. Each copy is sorted and partitioned by
/// another key, so each copy also answers lookups by its key, with one message to one server.
#[derive(Debug, Parser)]
#[command(
    name = "replex",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "See it with `replex demo`, use it with `replex start`.\n\n\
        Exit codes: 0 success; 1 failure, or a check found a fault; 2 the command line is wrong; \
        3 the cluster cannot be reached; 130 interrupted."
)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: ReplexCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ReplexCommand {
    /// Show the store with real flights: lookups by three keys, a row that moves, a kill -9.
    Demo(DemoArguments),
    /// Run a store in one process, for any driver of PostgreSQL.
    Start(Box<StartArguments>),
    /// Make certificates for TLS, and the authority that signs them.
    Cert(CertArguments),
    /// Run a server, which holds partitions.
    Server(Box<ServerArguments>),
    /// Run the coordinator, which knows servers, tables and placements.
    Coordinator(CoordinatorArguments),
    /// Run SQL statements: in a shell, or from a script.
    Sql(SqlArguments),
    /// Load a CSV file into a table.
    Import(ImportArguments),
    /// Write a table as CSV.
    Export(ExportArguments),
    /// Show the state of a cluster, check it, and change its servers.
    Admin(AdminArguments),
    /// Run a proxy for a PostgreSQL database. Sessions share its connections, and reads may go to
    /// replicas.
    #[cfg(feature = "proxy")]
    Proxy(Box<crate::proxy::ProxyArguments>),
    /// Not part of this build: a PostgreSQL proxy. Build it with `--features proxy`.
    #[cfg(not(feature = "proxy"))]
    #[command(disable_help_flag = true)]
    Proxy(ProxyIsMissing),
    /// Measure the speed. Each figure is a ratio to a baseline.
    Bench(BenchArguments),
    /// Run a baseline process for measurements.
    Baseline(BaselineArguments),
}

/// The arguments that the proxy would get.
#[cfg(not(feature = "proxy"))]
#[derive(Args, Clone, Debug)]
pub struct ProxyIsMissing {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _options: Vec<std::ffi::OsString>,
}

#[cfg(not(feature = "proxy"))]
impl ProxyIsMissing {
    /// Returns the command.
    pub fn failure(&self) -> replex::failure::CommandFailure {
        replex::failure::CommandFailure::Usage(
            "this build has no proxy: run `cargo build --release --features proxy`, which needs a C \
             compiler and nothing else"
                .into(),
        )
    }
}

/// The options that name a cluster.
#[derive(Args, Clone, Debug)]
pub struct ClusterArguments {
    /// The coordinator's address. Several addresses are tried in order.
    #[arg(
        long,
        short = 'C',
        value_name = "HOST:PORT",
        env = "REPLEX_COORDINATOR",
        value_delimiter = ',',
        default_value = COORDINATOR_DEFAULT,
        global = true
    )]
    pub coordinator: Vec<String>,
    /// The folder with the certificates for a cluster with encryption: `ca.pem`, `admin.pem` and
    /// `admin.key`.
    #[arg(
        long,
        value_name = "FOLDER",
        env = "REPLEX_CERTIFICATES",
        global = true
    )]
    pub certificates: Option<PathBuf>,
    /// The time after which a request without an answer fails, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, global = true)]
    pub deadline: u64,
}

/// `replex demo`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex demo            January 2013: 27,004 flights, less than a minute\n  \
    replex demo --full     the whole year: 336,776 flights, one or two minutes (data/fetch-flights)\n  \
    replex demo --keep     leave the cluster running, and print commands to use it\n\n\
    The demo stops its processes and removes its files at the end, also after ctrl-C or a failure. \
    It exits with 1 if one of its claims does not hold.")]
pub struct DemoArguments {
    /// Load the whole year from data/flights-2013.csv.gz, which `data/fetch-flights` makes.
    #[arg(long)]
    pub full: bool,
    /// The file of the whole year.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "data/flights-2013.csv.gz",
        requires = "full"
    )]
    pub flights: PathBuf,
    /// Leave the cluster running, and print the commands that use it and stop it.
    #[arg(long)]
    pub keep: bool,
    /// The folder in which the demo makes its data folder. Default: the system's temporary folder.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

/// `replex cert`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex cert --node --admin\n  \
    replex cert --host db.example.com --host 10.0.0.1\n  \
    replex cert --user ann\n\n\
    The first time the command makes an authority: `ca.pem`, which clients need, and `ca.key`, which \
    only you may read. It replaces no file.")]
pub struct CertArguments {
    /// The folder of the files. It is created if it does not exist.
    #[arg(long, value_name = "FOLDER", default_value = "replex-certs")]
    pub folder: PathBuf,
    /// A name or an address by which clients reach the server, for `server.pem` and `server.key`.
    /// May be given several times.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// A user that logs in with a certificate, for `USER.pem` and `USER.key`. May be given several
    /// times.
    #[arg(long, value_name = "USER")]
    pub user: Vec<String>,
    /// Make `node.pem` and `node.key`, which all servers and coordinators of a cluster may share.
    #[arg(long)]
    pub node: bool,
    /// Make `admin.pem` and `admin.key`, for `replex sql`, `replex admin` and other native clients.
    /// They allow everything.
    #[arg(long)]
    pub admin: bool,
    /// How many days the certificates are valid. The authority's own is for ten years.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
}

/// `replex start`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex start\n  \
    replex start --data /var/lib/replex --listen 127.0.0.1:5432\n  \
    replex start --cluster 10.0.0.1 --certificates replex-certs\n  \
    replex start --join 10.0.0.1 --certificates replex-certs\n  \
    replex start --listen 0.0.0.0:5432 --users users.txt --tls-certificate chain.pem --tls-key key.pem\n\n\
    The command prints the `psql` line that connects to the store, and one line `ready sql=ADDRESS …` \
    once it serves. Started again with the same folder, it has the same data. After SIGTERM or \
    ctrl-C it writes everything to the disk and exits with 0. Without --users any process of this \
    machine can connect. Other machines can with --users, --tls-certificate and --tls-key.")]
pub struct StartArguments {
    /// The data folder. It is created if it does not exist.
    #[arg(long, value_name = "FOLDER", default_value = "replex-data")]
    pub data: PathBuf,
    /// The address at which PostgreSQL's protocol is served. With port 0 the system chooses a free
    /// port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = SQL_DEFAULT)]
    pub listen: SocketAddr,
    /// The rules for logins.
    #[command(flatten)]
    pub login: LoginArguments,
    /// The address at which other machines of the cluster reach this one. The coordinator has the
    /// port, and the cores have the next ports. By default other machines cannot join.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = cluster_address)]
    pub cluster: Option<SocketAddr>,
    /// Join the cluster of a machine that was started with --cluster ADDRESS[:PORT].
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = coordinator_address)]
    pub join: Option<String>,
    /// The folder with the certificates of this process: `ca.pem`, `node.pem` and `node.key`.
    /// Connections within the cluster are then encrypted, and both sides prove that they belong to
    /// it.
    #[arg(long, value_name = "FOLDER", env = "REPLEX_CERTIFICATES")]
    pub certificates: Option<PathBuf>,
    /// The failure domain, such as a rack or a zone. By default the server is its own domain.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub domain: String,
    /// Allow addresses on a network without protection: --listen without --users or without
    /// --tls-certificate, and --cluster without --certificates. Any process that reaches such an
    /// address can read and change everything.
    #[arg(long)]
    pub insecure: bool,
    /// The most clients at a time.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,
    /// The number of cores: event loops, each with its own log and partitions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// The memory for the tables of each core, in MiB. Rows that are not in memory are read from
    /// the disk.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub tables_memory_mib: u32,
    /// Stop when stdin ends, so that this process ends with the process that started it.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}

/// `replex server`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example, three servers on one machine:\n  \
    replex coordinator --data /tmp/r/coordinator &\n  \
    replex server --data /tmp/r/1 &\n  \
    replex server --data /tmp/r/2 &\n  \
    replex server --data /tmp/r/3 &\n  \
    replex sql\n\n\
    The server prints one line `ready server=… core0=ADDRESS …` once it serves, and its log to \
    stderr. After SIGTERM or ctrl-C it finishes its operations, writes everything to the disk and \
    exits with 0.")]
pub struct ServerArguments {
    /// The data folder. It is created if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    pub data: PathBuf,
    /// The coordinator's address. Several addresses are tried in order.
    #[arg(
        long,
        short = 'C',
        value_name = "HOST:PORT",
        env = "REPLEX_COORDINATOR",
        value_delimiter = ',',
        default_value = COORDINATOR_DEFAULT
    )]
    pub coordinator: Vec<String>,
    /// The address at which the first core listens. Further cores listen at the next ports. With
    /// port 0 the system chooses free ports.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The address to which other processes connect, if it is not the listening address.
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<IpAddr>,
    /// The number of cores: event loops, each with its own log and partitions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// The failure domain, such as a rack or a zone. By default the server is its own domain.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub domain: String,
    /// Store all data in memory only. For measurements: data is lost when the process ends.
    #[arg(long)]
    pub memory: bool,
    /// The memory for the tables of each core, in MiB. A server reads rows that are not in memory
    /// from the disk.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub tables_memory_mib: u32,
    /// The number of entries with which a range of a thin index is split. Neighbours with less than
    /// a quarter of it are merged.
    #[arg(long, value_name = "N", default_value_t = 524_288, value_parser = clap::value_parser!(u64).range(2..))]
    pub range_entries: u64,
    /// The requests per second with which a range of a thin index is split. Neighbours with less
    /// than a quarter of it, for a minute, may be merged.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(16..))]
    pub range_requests: u64,
    /// The address at which metrics are served as Prometheus text. With port 0 the system chooses a
    /// free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// The address at which PostgreSQL's protocol is served to drivers and psql. With port 0 the
    /// system chooses a free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub sql: Option<SocketAddr>,
    /// The rules for logins at --sql.
    #[command(flatten)]
    pub login: LoginArguments,
    /// Poll without sleeping. This saves some microseconds per message, and uses a whole processor
    /// per core.
    #[arg(long)]
    pub spin: bool,
    /// The options that `coordinator` has, too.
    #[command(flatten)]
    pub process: ProcessArguments,
}

/// `replex coordinator`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex coordinator --data /var/lib/replex/coordinator\n  \
    replex coordinator --etcd http://a:2379,http://b:2379,http://c:2379 --etcd-prefix /replex/shop\n\n\
    With --data, the coordinator stores its state in the folder, and it is the only coordinator. With \
    --etcd, several coordinators share the state: one leads, and the others are standbys. Give \
    servers and clients all addresses with --coordinator A,B,C.\n\n\
    The coordinator prints one line `ready coordinator=ADDRESS` once it listens, and its log to \
    stderr. Reads and writes continue while no coordinator is running.")]
pub struct CoordinatorArguments {
    /// The data folder. It is created if it does not exist.
    #[arg(
        long,
        value_name = "FOLDER",
        required_unless_present = "etcd",
        conflicts_with = "etcd"
    )]
    pub data: Option<PathBuf>,
    /// The members of an etcd cluster that stores the state. They are tried in order.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub etcd: Vec<String>,
    /// The prefix of the keys in etcd. Each cluster needs its own prefix.
    #[arg(long, value_name = "PREFIX", default_value = ETCD_PREFIX_DEFAULT, requires = "etcd")]
    pub etcd_prefix: String,
    /// The listening address. With port 0 the system chooses a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = COORDINATOR_DEFAULT)]
    pub listen: SocketAddr,
    /// The address to which other processes connect, if it is not the listening address.
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<IpAddr>,
    /// How long after the end of its lease a silent server is replaced, in seconds, or `never`.
    /// Other servers then get its partitions. Until then, writes to its rows wait.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub replace_after: Duration,
    /// How long after its end a server that was stopped cleanly is replaced, in seconds, or
    /// `never`. If writes wait for the server because an epoch ends, it is replaced after 5
    /// seconds, or after --replace-after if that is longer.
    #[arg(long, value_name = "SECONDS", default_value = "never", value_parser = seconds)]
    pub replace_stopped_after: Duration,
    /// The interval at which all copies of all tables are compared, in seconds, or `never`. The
    /// comparison is slow, so that it costs little. Differences are logged.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub check_every: Duration,
    /// Rebuild the state from the servers. For an empty folder, or a folder that was restored from
    /// an older copy. The coordinator waits until all servers that were up have reported.
    #[arg(long)]
    pub recover: bool,
    /// With --recover: servers that are lost for good. The coordinator does not wait for them.
    #[arg(
        long,
        value_name = "SERVER",
        value_delimiter = ',',
        requires = "recover"
    )]
    pub without: Vec<u32>,
    /// The options that `server` has, too.
    #[command(flatten)]
    pub process: ProcessArguments,
}

/// The port of a cluster's address that has none.
pub const CLUSTER_PORT: u16 = 7400;

/// Parses an address of this machine, with a port or without.
fn cluster_address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().or_else(|_| {
        let ip = text.trim_start_matches('[').trim_end_matches(']').parse();
        ip.map(|ip: IpAddr| SocketAddr::new(ip, CLUSTER_PORT))
    });
    let address =
        address.map_err(|_| format!("{text:?} is no address: write one such as 10.0.0.1"))?;
    match address.ip().is_unspecified() {
        true => Err("name the address at which other machines reach this one".into()),
        false => Ok(address),
    }
}

/// Parses the name or the address of another machine, with a port or without.
fn coordinator_address(text: &str) -> Result<String, String> {
    if let Ok(address) = cluster_address(text) {
        return Ok(address.to_string());
    }
    let (host, port) = text.split_once(':').unwrap_or((text, "7400"));
    match port.parse::<u16>() {
        Ok(port) if !host.is_empty() && !host.contains(['/', '[', ' ']) => {
            Ok(format!("{host}:{port}"))
        }
        _ => Err(format!(
            "{text:?} is no address: write one such as 10.0.0.1, or db1.example.com:{CLUSTER_PORT}"
        )),
    }
}

/// Parses a number of seconds, or `never`.
fn seconds(text: &str) -> Result<Duration, String> {
    if text == "never" {
        return Ok(Duration::MAX);
    }
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is no number of seconds, nor `never`"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// The options that `server` and `coordinator` share.
#[derive(Args, Clone, Debug)]
pub struct ProcessArguments {
    /// The folder with the certificates of this process: `ca.pem`, `node.pem` and `node.key`.
    /// Connections within the cluster are then encrypted, and both sides prove that they belong to
    /// it.
    #[arg(long, value_name = "FOLDER", env = "REPLEX_CERTIFICATES")]
    pub certificates: Option<PathBuf>,
    /// Allow a listening address on a network without --certificates. Connections are not
    /// encrypted, and there is no login.
    #[arg(long)]
    pub allow_unencrypted_network: bool,
    /// Stop when stdin ends, so that this process ends with the process that started it.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}

/// The output format of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FormatArgument {
    /// A table for people.
    #[default]
    Table,
    /// Comma-separated values, with a header.
    Csv,
    /// One array of JSON objects.
    Json,
}

/// `replex sql`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex sql                                              the shell; \\? prints help\n  \
    replex sql -c 'SHOW TABLES'\n  \
    replex sql -f schema.sql\n  \
    replex sql --format csv -c \"SELECT * FROM flights WHERE tailnum = 'N14228'\"\n  \
    echo 'SHOW SERVERS' | replex sql --format json\n\n\
    A script stops at its first error, prints its line number, and exits with 1. Statements from a \
    pipe run as they arrive. With csv and json, stdout has rows only; results such as UPDATE 3 go \
    to stderr.")]
pub struct SqlArguments {
    /// Statements to run before the command exits. May be given several times.
    #[arg(long, short = 'c', value_name = "STATEMENTS")]
    pub command: Vec<String>,
    /// A file of statements to run before the command exits; - is stdin.
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// The output format of rows.
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatArgument,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// The treatment of a row whose primary key exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnConflictArgument {
    /// The line is an error.
    #[default]
    Error,
    /// The existing row stays.
    Skip,
    /// The existing row is overwritten.
    Update,
}

/// `replex import`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex import data/flights-2013-01.csv.gz --table flights\n  \
    replex import new.csv --table flights --on-conflict update --skip-errors\n\n\
    The header has names of the table's columns, in any order. A missing column gets its default. An \
    empty field is NULL. Lines that cannot be loaded are reported with their numbers.\n\n\
    If an import ends early, also after ctrl-C, it reports the number of written rows, and the \
    command that continues it.")]
pub struct ImportArguments {
    /// The CSV file. A .gz file is decompressed; - is stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The table. It must exist.
    #[arg(long, short = 't', value_name = "TABLE")]
    pub table: String,
    /// Continue after a line that cannot be loaded. The command still exits with 1.
    #[arg(long)]
    pub skip_errors: bool,
    /// The treatment of a row whose primary key exists.
    #[arg(long, value_enum, default_value_t)]
    pub on_conflict: OnConflictArgument,
    /// The first line to load. The header is line 1 and is always read.
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    pub from_line: u64,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// `replex export`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex export flights > flights.csv\n  \
    replex export flights --output flights.csv.gz")]
pub struct ExportArguments {
    /// The table.
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// The output file. A .gz file is compressed. A regular file appears once it is complete.
    /// Default: stdout.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Export although a server of the table is down. The file is then no snapshot: of a row that
    /// changes during the export, it has the old or the new version.
    #[arg(long)]
    pub without_snapshot: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// `replex admin`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex admin status\n  \
    replex admin table show flights\n  \
    replex admin check flights --json")]
pub struct AdminArguments {
    /// The command.
    #[command(subcommand)]
    pub command: AdminCommand,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// The commands of `admin`.
#[derive(Clone, Debug, Subcommand)]
pub enum AdminCommand {
    /// Show servers, tables, and the counters of each core.
    Status,
    /// Show tables, their copies, and the effect of failures.
    Table {
        /// The command.
        #[command(subcommand)]
        command: TableCommand,
    },
    /// Show servers, and remove, drain or accept them.
    Server {
        /// The command.
        #[command(subcommand)]
        command: ServerCommand,
    },
    /// Show the coordinators, or migrate their state.
    Coordinator {
        /// The command.
        #[command(subcommand)]
        command: CoordinatorCommand,
    },
    /// Compare the copies of a table by counts and checksums, and print the rows that differ. Exits
    /// with 1 if copies differ.
    Check {
        /// The table.
        table: String,
    },
    /// Fill partitions again that differ from the majority of a table's copies.
    Repair {
        /// The table.
        table: String,
        /// The copy that is right if there is no majority.
        #[arg(long, value_name = "COPY")]
        trust: Option<String>,
    },
}

/// The commands of `admin table`.
#[derive(Clone, Debug, Subcommand)]
pub enum TableCommand {
    /// List all tables.
    List,
    /// Show the copies of a table, the number of tolerated failures, and the cost of a failure.
    Show {
        /// The table.
        table: String,
    },
}

/// The commands of `admin server`.
#[derive(Clone, Debug, Subcommand)]
pub enum ServerCommand {
    /// List all servers.
    List,
    /// Remove a server that is down for good. Other servers rebuild its partitions.
    Remove {
        /// The server's number in `admin server list`.
        server: u32,
    },
    /// Allow a server that is down to return with an older copy of its folder, although later
    /// acknowledged rows are missing there. For tables whose rows no other server has.
    AcceptFolder {
        /// The server's number in `admin server list`.
        server: u32,
    },
    /// Move all partitions of a running server to other servers, and wait until it holds none. It
    /// can then be stopped for good. Reads and writes continue.
    Drain {
        /// The server's number in `admin server list`.
        server: u32,
        /// Return at once.
        #[arg(long)]
        no_wait: bool,
    },
    /// Allow a drained server to hold partitions again.
    Undrain {
        /// The server's number in `admin server list`.
        server: u32,
    },
}

/// The commands of `admin coordinator`.
#[derive(Clone, Debug, Subcommand)]
pub enum CoordinatorCommand {
    /// Show the leader, the standbys and the place of the state. Exits with 1 if there is no
    /// leader.
    Show,
    /// Move the state from a folder to etcd or back. No coordinator may be running.
    Migrate(MigrateArguments),
}

/// `replex admin coordinator migrate`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex admin coordinator migrate --data /var/lib/replex/coordinator \\\n      \
        --etcd http://a:2379,http://b:2379,http://c:2379 --to etcd\n\n\
    Stop all coordinators first. Start them with the new place afterwards. Reads and writes continue \
    meanwhile. The old place records where the state has moved, so that no coordinator starts with \
    it. After an interruption, run the command again.")]
pub struct MigrateArguments {
    /// The new place of the state.
    #[arg(long, value_enum)]
    pub to: StatePlace,
    /// The data folder of the coordinator.
    #[arg(long, value_name = "FOLDER")]
    pub data: PathBuf,
    /// The members of etcd.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    pub etcd: Vec<String>,
    /// The prefix of the keys in etcd.
    #[arg(long, value_name = "PREFIX", default_value = ETCD_PREFIX_DEFAULT)]
    pub etcd_prefix: String,
}

/// The place of a coordinator's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatePlace {
    /// In etcd, for any number of coordinators.
    Etcd,
    /// In a folder, for one coordinator.
    File,
}

/// `replex bench`
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub struct BenchArguments {
    /// The measurement, with its options; `replex bench --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<std::ffi::OsString>,
}

/// `replex baseline`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex baseline                             answers each frame: `echo`\n  \
    replex baseline --next 127.0.0.1:4000       forwards each frame, and returns the answer: \
    `chain-echo`\n\n\
    The process prints one line `ready baseline=ADDRESS` once it serves.")]
pub struct BaselineArguments {
    /// The listening address. With port 0 the system chooses a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Forward frames to this process, and return its answers.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub next: Option<SocketAddr>,
    /// Poll without sleeping.
    #[arg(long)]
    pub spin: bool,
    /// Stop when stdin ends.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}
