//! The command line of `replex`: every command and option, with its help.
//!
//! Nothing is done here. Help texts describe the purpose of a command, its output and its syntax.
//! The meaning of the options is described once, here.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Where a coordinator listens, and is looked for, by default.
pub const COORDINATOR_DEFAULT: &str = "127.0.0.1:7400";

/// The default prefix of the coordinators' keys in etcd.
pub const ETCD_PREFIX_DEFAULT: &str = "/replex";

/// Tables whose copies are their indexes.
///
/// Replex keeps several copies of every table anyway, for safety. Here each copy is sorted and
/// partitioned by another key, so that each one also answers lookups by that key, in one hop.
#[derive(Debug, Parser)]
#[command(
    name = "replex",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "Start with `replex demo`.\n\n\
        Exit codes: 0 it worked; 1 it did not, or a check found something wrong; 2 the command \
        line is wrong; 3 the cluster cannot be reached; 130 it was interrupted."
)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: ReplexCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ReplexCommand {
    /// Show everything on real flights: a cluster, three keys, a move, a kill -9, nothing lost.
    Demo(DemoArguments),
    /// Run a server, which holds partitions.
    Server(Box<ServerArguments>),
    /// Run the coordinator, which knows servers, tables and placements.
    Coordinator(CoordinatorArguments),
    /// Talk SQL: a shell, or statements from a script.
    Sql(SqlArguments),
    /// Load a CSV file into a table.
    Import(ImportArguments),
    /// Write a table as CSV.
    Export(ExportArguments),
    /// Look into a cluster and check it.
    Admin(AdminArguments),
    /// Stand before a PostgreSQL database: sessions share its connections, and reads may go to
    /// databases that follow it.
    #[cfg(feature = "proxy")]
    Proxy(Box<crate::proxy::ProxyArguments>),
    /// Not part of this build: a PostgreSQL proxy. Build it with `--features proxy`.
    #[cfg(not(feature = "proxy"))]
    #[command(disable_help_flag = true)]
    Proxy(ProxyIsMissing),
    /// Measure, each figure as a ratio to a baseline.
    Bench(BenchArguments),
    /// Run a process that a measurement is compared with.
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

/// Which cluster is meant.
#[derive(Args, Clone, Debug)]
pub struct ClusterArguments {
    /// Where the coordinator listens; several are tried in order.
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
    /// Give up requests without an answer after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, global = true)]
    pub deadline: u64,
}

/// `replex demo`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex demo            January 2013: 27,004 flights, well under a minute\n  \
    replex demo --full     the whole year: 336,776 flights, a minute or two (data/fetch-flights)\n  \
    replex demo --keep     leave the cluster running and print how to go on by hand\n\n\
    Everything it starts is stopped and everything it writes is removed at the end, on ctrl-C \
    and on failure. It exits with 1 if anything that it claims does not hold.")]
pub struct DemoArguments {
    /// Load the whole year from data/flights-2013.csv.gz, which `data/fetch-flights` makes.
    #[arg(long)]
    pub full: bool,
    /// Where the whole year's file is.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "data/flights-2013.csv.gz",
        requires = "full"
    )]
    pub flights: PathBuf,
    /// Leave the cluster up, and print the commands that go on with it and that end it.
    #[arg(long)]
    pub keep: bool,
    /// Put the data folder into this folder instead of the system's temporary one.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

/// `replex server`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example, three servers on one machine:\n  \
    replex coordinator --data /tmp/r/coordinator &\n  \
    replex server --data /tmp/r/1 &\n  \
    replex server --data /tmp/r/2 &\n  \
    replex server --data /tmp/r/3 &\n  \
    replex sql\n\n\
    Prints one line `ready server=… core0=ADDRESS …` once it serves; its log goes to stderr. \
    SIGTERM or ctrl-C lets it finish what is under way, put everything on the disk and exit \
    with 0.")]
pub struct ServerArguments {
    /// Its data folder; made where there is none.
    #[arg(long, value_name = "FOLDER")]
    pub data: PathBuf,
    /// Where the coordinator listens; several are tried in order.
    #[arg(
        long,
        short = 'C',
        value_name = "HOST:PORT",
        env = "REPLEX_COORDINATOR",
        value_delimiter = ',',
        default_value = COORDINATOR_DEFAULT
    )]
    pub coordinator: Vec<String>,
    /// Where its first core listens, the others at the ports after it; port 0 takes free ones.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The address that others connect to, if not the one listened at.
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<IpAddr>,
    /// Event loops, each with its own log and partitions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// The failure domain, such as a rack or a zone; by default the server fails alone.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub domain: String,
    /// Keep everything in memory and nothing on the disk: to measure, not to keep data.
    #[arg(long)]
    pub memory: bool,
    /// Memory for the tables of each core, in MiB. A server uses it once per core, and reads the
    /// rest of the tables from the disk.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub tables_memory_mib: u32,
    /// Serve counters as Prometheus text here; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Poll without sleeping: faster by some microseconds a hop, burns a CPU per core.
    #[arg(long)]
    pub spin: bool,
    /// The options that it shares with `coordinator`.
    #[command(flatten)]
    pub process: ProcessArguments,
}

/// `replex coordinator`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex coordinator --data /var/lib/replex/coordinator\n  \
    replex coordinator --etcd http://a:2379,http://b:2379,http://c:2379 --etcd-prefix /replex/shop\n\n\
    With --data its state is one file in its folder, and it is the only coordinator. With --etcd any \
    number of coordinators share the state: one leads, the others stand by and take over; name all \
    of them to servers and clients with --coordinator A,B,C.\n\n\
    Prints one line `ready coordinator=ADDRESS` once it listens; its log goes to stderr. Reads and \
    writes go on while no coordinator is there.")]
pub struct CoordinatorArguments {
    /// Its data folder; made where there is none.
    #[arg(
        long,
        value_name = "FOLDER",
        required_unless_present = "etcd",
        conflicts_with = "etcd"
    )]
    pub data: Option<PathBuf>,
    /// Keep the state in this etcd instead: its members, tried in order.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub etcd: Vec<String>,
    /// The prefix of its keys in etcd: one cluster, one prefix.
    #[arg(long, value_name = "PREFIX", default_value = ETCD_PREFIX_DEFAULT, requires = "etcd")]
    pub etcd_prefix: String,
    /// Where it listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = COORDINATOR_DEFAULT)]
    pub listen: SocketAddr,
    /// The address that others connect to, if not the one listened at.
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<IpAddr>,
    /// Give the partitions of a server that fell silent to others, so many seconds after its lease
    /// is over, or `never`. Until then writes to its rows wait.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub replace_after: Duration,
    /// The same for a server that was stopped cleanly, and may just be started again. While writes
    /// wait for it (an epoch ends), it has 5 seconds, or those of --replace-after if that is more.
    #[arg(long, value_name = "SECONDS", default_value = "never", value_parser = seconds)]
    pub replace_stopped_after: Duration,
    /// Compare all copies of all tables so often, at low rate, and log differences; or `never`.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub check_every: Duration,
    /// Rebuild the lost state from the servers: with an empty folder, or a folder
    /// that was restored from an older copy. It waits until all servers that were up have reported.
    #[arg(long)]
    pub recover: bool,
    /// With --recover: do not wait for these servers, which are lost for good.
    #[arg(
        long,
        value_name = "SERVER",
        value_delimiter = ',',
        requires = "recover"
    )]
    pub without: Vec<u32>,
    /// The options that it shares with `server`.
    #[command(flatten)]
    pub process: ProcessArguments,
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
    /// Listen on a network although nothing is encrypted and there is no login yet.
    #[arg(long)]
    pub allow_unencrypted_network: bool,
    /// Stop when stdin ends, and so with the process that started this one.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FormatArgument {
    /// For people.
    #[default]
    Table,
    /// Comma-separated values, with a header.
    Csv,
    /// One array of objects.
    Json,
}

/// `replex sql`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex sql                                              the shell; \\? helps\n  \
    replex sql -c 'SHOW TABLES'\n  \
    replex sql -f schema.sql\n  \
    replex sql --format csv -c \"SELECT * FROM flights WHERE tailnum = 'N14228'\"\n  \
    echo 'SHOW SERVERS' | replex sql --format json\n\n\
    A script stops at its first error, names its line, and exits with 1. From a pipe each statement \
    runs as it comes. In csv and json, stdout has rows only; what was done, as UPDATE 3, goes to \
    stderr.")]
pub struct SqlArguments {
    /// Run these statements and exit; may be given several times.
    #[arg(long, short = 'c', value_name = "STATEMENTS")]
    pub command: Vec<String>,
    /// Run the statements of this file and exit; - is stdin.
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatArgument,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// The treatment of a row whose primary key exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnConflictArgument {
    /// It is an error of that line.
    #[default]
    Error,
    /// The row that exists stays.
    Skip,
    /// The row that exists is overwritten.
    Update,
}

/// `replex import`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex import data/flights-2013-01.csv.gz --table flights\n  \
    replex import new.csv --table flights --on-conflict update --skip-errors\n\n\
    The header names columns of the table, in any order; a column that is missing gets its \
    default. An empty field is NULL. Lines that cannot be loaded are reported with their numbers.\n\n\
    An import that ends early, also by ctrl-C, reports how many rows are written and the command \
    that goes on.")]
pub struct ImportArguments {
    /// The file; .gz is unpacked, - is stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The table, which must exist.
    #[arg(long, short = 't', value_name = "TABLE")]
    pub table: String,
    /// Go on after a line that cannot be loaded; it exits with 1 all the same.
    #[arg(long)]
    pub skip_errors: bool,
    /// The treatment of a row whose primary key exists.
    #[arg(long, value_enum, default_value_t)]
    pub on_conflict: OnConflictArgument,
    /// Leave out the lines before this one; the header is line 1 and is always read.
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    pub from_line: u64,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// Which cluster.
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
    /// The file to write; .gz packs it, without it stdout. A device or FIFO is written through, a
    /// regular file appears when it is whole.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Export although a server of the table is missing: rows that change meanwhile are then as
    /// they were or as they are, and the file is of no one state.
    #[arg(long)]
    pub without_snapshot: bool,
    /// Which cluster.
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
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    pub json: bool,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// The commands of `admin`.
#[derive(Clone, Debug, Subcommand)]
pub enum AdminCommand {
    /// The cluster at a glance: servers, tables, and the counters of every core.
    Status,
    /// Tables: their copies, and the effect of failures on them.
    Table {
        /// The command.
        #[command(subcommand)]
        command: TableCommand,
    },
    /// Servers.
    Server {
        /// The command.
        #[command(subcommand)]
        command: ServerCommand,
    },
    /// Coordinators: the leader, and where their state is.
    Coordinator {
        /// The command.
        #[command(subcommand)]
        command: CoordinatorCommand,
    },
    /// Count and checksum every copy of a table, and name the rows that differ; exits with 1 if
    /// any do.
    Check {
        /// The table.
        table: String,
    },
    /// Refill partitions that contradict most copies of a table, from the other copies.
    Repair {
        /// The table.
        table: String,
        /// Where there is no majority, this copy is right.
        #[arg(long, value_name = "COPY")]
        trust: Option<String>,
    },
}

/// The commands of `admin table`.
#[derive(Clone, Debug, Subcommand)]
pub enum TableCommand {
    /// All tables.
    List,
    /// One table: its copies, how many failures it survives and the cost of a failure.
    Show {
        /// The table.
        table: String,
    },
}

/// The commands of `admin server`.
#[derive(Clone, Debug, Subcommand)]
pub enum ServerCommand {
    /// All servers.
    List,
    /// Takes its partitions from a server that is down and will not come back; others rebuild them.
    Remove {
        /// Its number, as `admin server list` has it.
        server: u32,
    },
    /// Lets a server that is down come back with an older copy of its folder, although rows that
    /// were acknowledged since are missing there: for tables whose rows no other server has.
    AcceptFolder {
        /// Its number, as `admin server list` has it.
        server: u32,
    },
    /// Moves everything from a server that is up to others, while reads and writes go on; it may be
    /// stopped for good after that. Waits until it holds nothing.
    Drain {
        /// Its number, as `admin server list` has it.
        server: u32,
        /// Do not wait.
        #[arg(long)]
        no_wait: bool,
    },
    /// Lets a server that was drained hold partitions again.
    Undrain {
        /// Its number, as `admin server list` has it.
        server: u32,
    },
}

/// The commands of `admin coordinator`.
#[derive(Clone, Debug, Subcommand)]
pub enum CoordinatorCommand {
    /// Show the leader, the standbys and where the state is; exits with 1 if there is no leader.
    Show,
    /// Move the state from a folder to etcd or back, while no coordinator runs on it.
    Migrate(MigrateArguments),
}

/// `replex admin coordinator migrate`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex admin coordinator migrate --data /var/lib/replex/coordinator \\\n      \
        --etcd http://a:2379,http://b:2379,http://c:2379 --to etcd\n\n\
    Stop all coordinators before, and start them on the new place after; reads and writes go on \
    meanwhile. The place that is left remembers where the state has moved, and no coordinator \
    starts on it. If it is interrupted, run it again.")]
pub struct MigrateArguments {
    /// Which way.
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

/// Where a coordinator's state is kept.
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
    replex baseline                             answers every frame: `echo`\n  \
    replex baseline --next 127.0.0.1:4000       passes it on and back: `chain-echo`\n\n\
    Prints one line `ready baseline=ADDRESS` once it serves.")]
pub struct BaselineArguments {
    /// Where it listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Pass frames on to this process, and its answers back, instead of answering.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub next: Option<SocketAddr>,
    /// Poll without sleeping.
    #[arg(long)]
    pub spin: bool,
    /// Stop when stdin ends.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}
