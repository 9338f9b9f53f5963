//! The options of `replex proxy`, with their help.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use proxy::serve::WAIT_MS_DEFAULT;
use replication::{REPLAY_CONNECTIONS_DEFAULT, REPLAY_GROUP_DEFAULT};

use crate::login::LoginArguments;

/// `replex proxy`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex proxy --primary postgresql://ann:secret@db:5432/shop\n  \
    replex proxy --primary postgresql://ann:secret@db/shop \\\n      \
        --replica postgresql://ann:secret@db2/shop --replica postgresql://ann:secret@db3/shop\n  \
    replex proxy --primary postgresql://proxy@db/shop --users users.txt --listen 0.0.0.0:6432 \\\n      \
        --tls-certificate chain.pem --tls-key key.pem\n\n\
    A file of users has a line `\"name\" \"password\"` for each user. Clients log in to the proxy with \
    these passwords, and the proxy logs in to the databases as the same user.\n\n\
    Writes go to the primary. A read outside of transactions goes to a replica that has all commits \
    on the tables and rows that the statement reads. With --replica, the user in --primary must be a \
    superuser there, the primary needs wal_level = logical, and each table needs a primary key or \
    REPLICA IDENTITY FULL.\n\n\
    The proxy prints one line `ready proxy=ADDRESS` once it serves, with `socket=PATH` and \
    `metrics=ADDRESS` if these options are given. If another proxy with replicas already serves the \
    same database, the proxy prints `standby …` instead, refuses clients, and takes over when the \
    other proxy ends or stops responding. After SIGHUP it reads --config, the file of users and the \
    certificates again.\n\n\
    A --config file is TOML with the names of these options:\n  \
    primary = \"postgresql://ann:secret@db/shop\"\n  \
    replica = [\"postgresql://ann:secret@db2/shop\", \"postgresql://ann:secret@db3/shop\"]\n  \
    replicate = true")]
#[command(args_conflicts_with_subcommands = true)]
pub struct ProxyArguments {
    /// A command; none to run the proxy.
    #[command(subcommand)]
    pub command: Option<ProxyCommand>,
    /// The options of the proxy.
    #[command(flatten)]
    pub serve: ServeArguments,
}

/// The commands beside running a proxy.
#[derive(Subcommand, Clone, Debug)]
pub enum ProxyCommand {
    /// Send a command to a running proxy: `replex proxy admin SHOW REPLICAS`.
    Admin(ProxyAdminArguments),
    /// Check whether databases meet the requirements of a proxy, and print how to fix what is
    /// missing. Changes nothing. Fails if the proxy could not start.
    Check(CheckArguments),
    /// Make a replica the primary after the primary is lost for good. Chooses the replica with the
    /// most commits, keeps the other replicas if they have the same commits, and prints the command
    /// that starts the proxy.
    Promote(PromoteArguments),
    /// Show the proxy with its own databases in a temporary folder: a load, a new replica and a
    /// killed replica. Needs the programs of PostgreSQL's server. Removes its files at the end.
    Demo,
}

/// The databases of a command.
#[derive(Args, Clone, Debug)]
pub struct Databases {
    /// The database that takes all writes.
    #[arg(
        long,
        value_name = "URL",
        env = "REPLEX_PRIMARY",
        hide_env_values = true
    )]
    pub primary: String,
    /// A replica, or a database that becomes one. May be given several times.
    #[arg(
        long,
        value_name = "URL",
        env = "REPLEX_REPLICAS",
        value_delimiter = ' ',
        hide_env_values = true
    )]
    pub replica: Vec<String>,
}

/// `replex proxy promote`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  \
    replex proxy promote --primary postgresql://ann:secret@db/shop \\\n      \
        --replica postgresql://ann:secret@db2/shop --replica postgresql://ann:secret@db3/shop\n\n\
    The old primary must be down, and must not be started again: no other server would have the commits \
    that clients then make there. Commits that no replica had when the primary was lost are lost; \
    with `SET replex.consistency = '1sr'`, no acknowledged commit is. The new primary needs \
    wal_level = logical.\n\n\
    If the command fails half-way, run it again.")]
pub struct PromoteArguments {
    /// The databases.
    #[command(flatten)]
    pub databases: Databases,
    /// The replica to promote. No other replica may have more commits.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
}

/// `replex proxy check`
#[derive(Args, Clone, Debug)]
pub struct CheckArguments {
    /// The databases.
    #[command(flatten)]
    pub databases: Databases,
    /// The maximum number of connections to each database.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,
}

/// `replex proxy admin`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex proxy admin SHOW HELP\n  \
    replex proxy admin --proxy postgresql://ann:secret@127.0.0.1:6432 SHOW REPLICAS\n  \
    replex proxy admin \"ADD REPLICA 'postgresql://ann:secret@db3/shop'\"\n\n\
    The same commands work in psql: psql -h 127.0.0.1 -p 6432 -U ann hihooi")]
pub struct ProxyAdminArguments {
    /// The proxy's address and the user: postgresql://user:password@host:port.
    #[arg(
        long,
        value_name = "URL",
        env = "REPLEX_PROXY",
        hide_env_values = true,
        default_value = "postgresql://postgres@127.0.0.1:6432"
    )]
    pub proxy: String,
    /// The command. Several words are joined.
    #[arg(required = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// The options of the proxy itself.
#[derive(Args, Clone, Debug)]
pub struct ServeArguments {
    /// A file with options, see below. Options of the command line override options of the file.
    /// Replicas and operators of both are used.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The database that takes all writes: postgresql://user:password@host:port/database. After
    /// `?`: sslmode (disable, prefer, require, verify-full), sslrootcert, sslcrl, sslcert and
    /// sslkey. For a Unix socket: postgresql://user:password@%2Fvar%2Frun%2Fpostgresql/database, or
    /// host and port after `?`.
    #[arg(
        long,
        value_name = "URL",
        env = "REPLEX_PRIMARY",
        hide_env_values = true
    )]
    pub primary: Option<String>,
    /// A replica: a database to which reads may go. If it is empty, the proxy copies the primary's
    /// tables. Then the proxy applies the primary's commits. May be given several times.
    #[arg(
        long,
        value_name = "URL",
        env = "REPLEX_REPLICAS",
        value_delimiter = ' ',
        hide_env_values = true
    )]
    pub replica: Vec<String>,
    /// Prepare the primary for replicas that are added later in the console.
    #[arg(long)]
    pub replicate: bool,
    /// The listening address for clients. With port 0 the system chooses a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6432")]
    pub listen: SocketAddr,
    /// The folder of a Unix socket for clients, with the port of --listen: psql -h DIR -p PORT.
    #[arg(long, value_name = "DIR")]
    pub socket_directory: Option<PathBuf>,
    /// The rules for logins.
    #[command(flatten)]
    pub login: LoginArguments,
    /// Allow all users to log in without a password.
    #[arg(long, conflicts_with_all = ["users", "tls_client_ca"])]
    pub trust: bool,
    /// A user that may use the console (`psql … hihooi`, `replex proxy admin`). May be given
    /// several times. Default: the user of --primary.
    #[arg(long, value_name = "USER")]
    pub operator: Vec<String>,
    /// The address at which metrics are served as Prometheus text. With port 0 the system chooses a
    /// free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// The time for which a client keeps its connection to a database.
    #[arg(long, value_enum, default_value_t)]
    pub pooling: Pooling,
    /// The maximum number of connections to each database.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,
    /// The number of connections to each replica on which the proxy executes the primary's commits.
    /// With 1, the proxy executes them one after the other.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = REPLAY_CONNECTIONS_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub replay_connections: u16,
    /// The maximum number of waiting commits that such a connection executes as one transaction,
    /// which is faster. With 1, each commit is its own transaction.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = REPLAY_GROUP_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub replay_group: u16,
    /// The maximum time that a read waits for a replica to catch up, in milliseconds. A read waits
    /// only while the primary serves many more sessions than a replica. Otherwise, and after this
    /// time, the read goes to the primary. With 0, reads never wait.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = WAIT_MS_DEFAULT, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub wait_ms: u64,
    /// The buffer of commits for offline replicas, so that the primary need not retain WAL for
    /// them: a folder; replex://HOST:PORT,… with the coordinators of a cluster, which two proxies
    /// can share; or none. Default with replicas: the folder replex/buffer-PORT in $XDG_STATE_HOME
    /// or ~/.local/state.
    #[arg(long, value_name = "DIR|URL|none")]
    pub buffer: Option<String>,
    /// The size of this buffer in MiB. It has the newest commits. A replica that lacks more commits
    /// is filled again.
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub buffer_mib: u32,
    /// The number of threads that serve sessions. A single thread uses the least CPU time per
    /// message, and can serve about 50,000 queries per second. Default: one for four processors.
    #[arg(long, value_name = "COUNT", default_value_t = threads_default(), value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// The time for which the thread that serves sessions polls for messages before it sleeps, in
    /// microseconds. This shortens latencies with few clients, and uses a whole processor. Needs
    /// --threads 1.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub spin_us: u32,
    /// The maximum number of clients that are logged in.
    #[arg(long, value_name = "COUNT", default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(1..))]
    pub clients: u16,
    /// The maximum duration of a login, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub login_timeout: u64,
    /// Allow a listening address on a network without TLS.
    #[arg(long)]
    pub allow_unencrypted_network: bool,
    /// Stop when stdin ends, so that this process ends with the process that started it.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}

impl ServeArguments {
    /// Returns the options that cannot be changed while the proxy runs, by name.
    pub fn fixed(&self) -> [(&'static str, String); 17] {
        let text = |value: &dyn Debug| format!("{value:?}");
        [
            ("primary", text(&self.primary)),
            ("replicate", text(&self.replicate)),
            ("listen", text(&self.listen)),
            ("socket-directory", text(&self.socket_directory)),
            ("trust", text(&self.trust)),
            ("metrics", text(&self.metrics)),
            ("pooling", text(&self.pooling)),
            ("connections", text(&self.connections)),
            ("replay-connections", text(&self.replay_connections)),
            ("replay-group", text(&self.replay_group)),
            ("wait-ms", text(&self.wait_ms)),
            ("buffer", text(&self.buffer)),
            ("buffer-mib", text(&self.buffer_mib)),
            ("threads", text(&self.threads)),
            ("spin-us", text(&self.spin_us)),
            ("clients", text(&self.clients)),
            ("login-timeout", text(&self.login_timeout)),
        ]
    }
}

/// Returns the default number of threads: a quarter of the processors, because the others belong to
/// other programs.
fn threads_default() -> u16 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(processors / 4)
        .unwrap_or(u16::MAX)
        .clamp(1, 1024)
}

/// The time for which a client keeps its connection to a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pooling {
    /// Until its transaction ends. After a statement that may leave state in the session, such as
    /// SET, until the client disconnects.
    #[default]
    Transaction,
    /// Until the client disconnects.
    Session,
}
