//! The options of `replex proxy`, with their help.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use proxy::serve::WAIT_MS_DEFAULT;
use replication::{REPLAY_CONNECTIONS_DEFAULT, REPLAY_GROUP_DEFAULT};

/// `replex proxy`
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    replex proxy --primary postgresql://ann:secret@db:5432/shop\n  \
    replex proxy --primary postgresql://ann:secret@db/shop \\\n      \
        --replica postgresql://ann:secret@db2/shop --replica postgresql://ann:secret@db3/shop\n  \
    replex proxy --primary postgresql://proxy@db/shop --users users.txt --listen 0.0.0.0:6432 \\\n      \
        --tls-certificate chain.pem --tls-key key.pem\n\n\
    A file of users has a line `\"name\" \"password\"` for each. Clients log in with these, and so does \
    the proxy, as the same user, at the database.\n\n\
    Writes go to the primary. A read outside of transactions goes to a replica that has all that \
    it must see, by what it touches. With --replica, the user in --primary must be a superuser there; \
    the primary needs wal_level = logical, and each table a primary key or REPLICA IDENTITY FULL.\n\n\
    Prints one line `ready proxy=ADDRESS` once it serves, with `socket=PATH` and `metrics=ADDRESS` if \
    there are any. \
    Where another proxy with replicas is in front of the same database, it prints `standby …` \
    instead, refuses clients, and takes over when the other one ends or falls silent. \
    SIGHUP reads --config, the file of users and the certificates again.\n\n\
    A file for --config is TOML with the names of these options:\n  \
    primary = \"postgresql://ann:secret@db/shop\"\n  \
    replica = [\"postgresql://ann:secret@db2/shop\", \"postgresql://ann:secret@db3/shop\"]\n  \
    replicate = true")]
#[command(args_conflicts_with_subcommands = true)]
pub struct ProxyArguments {
    /// A command other than to serve.
    #[command(subcommand)]
    pub command: Option<ProxyCommand>,
    /// How it serves.
    #[command(flatten)]
    pub serve: ServeArguments,
}

/// The commands other than running a proxy.
#[derive(Subcommand, Clone, Debug)]
pub enum ProxyCommand {
    /// Send a command to a running proxy: `replex proxy admin SHOW REPLICAS`.
    Admin(ProxyAdminArguments),
    /// Print the missing requirements of databases before a proxy is put in front of them, and how
    /// to fix them. Nothing is changed there. Fails if something would stop the proxy.
    Check(CheckArguments),
    /// Make a replica the primary after the primary is gone for good. Chooses the most advanced
    /// replica, lets the others follow it where they have the same commits, and prints how to start
    /// the proxy then.
    Promote(PromoteArguments),
    /// Show the whole idea: databases of its own in a temporary folder, a load, a new replica and a
    /// killed one. Needs PostgreSQL's server, and leaves nothing behind.
    Demo,
}

/// Which databases a command is about.
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
    /// A database that is a replica, or is to be one. May be given several times.
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
    The primary must not answer any more, and must not be started again: what clients commit there from \
    now on no other server will see. Commits that no replica had when it went are lost; with \
    `SET replex.consistency = '1sr'` none that was answered is. The new primary needs wal_level = logical.\n\n\
    If it fails half way, run it again.")]
pub struct PromoteArguments {
    /// Which databases there are.
    #[command(flatten)]
    pub databases: Databases,
    /// The replica to promote; it must have as much as any other.
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
}

/// `replex proxy check`
#[derive(Args, Clone, Debug)]
pub struct CheckArguments {
    /// Which databases there are.
    #[command(flatten)]
    pub databases: Databases,
    /// Connections to each database, at most.
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
    /// Where the proxy is, and as which user: postgresql://user:password@host:port.
    #[arg(
        long,
        value_name = "URL",
        env = "REPLEX_PROXY",
        hide_env_values = true,
        default_value = "postgresql://postgres@127.0.0.1:6432"
    )]
    pub proxy: String,
    /// The command; several words are one.
    #[arg(required = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// The options of the proxy itself.
#[derive(Args, Clone, Debug)]
pub struct ServeArguments {
    /// A file with options, see below. Options of the command line override it; replicas and
    /// operators are added up.
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
    /// A database that reads may go to, too; its tables are filled from the primary if it is empty,
    /// and follow it from then on. May be given several times.
    #[arg(
        long,
        value_name = "URL",
        env = "REPLEX_REPLICAS",
        value_delimiter = ' ',
        hide_env_values = true
    )]
    pub replica: Vec<String>,
    /// Prepare for replicas although none is given: they are added later, by the console.
    #[arg(long)]
    pub replicate: bool,
    /// Where clients connect; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6432")]
    pub listen: SocketAddr,
    /// Listen at the Unix socket of the same port in this folder, too: psql -h DIR -p PORT.
    #[arg(long, value_name = "DIR")]
    pub socket_directory: Option<PathBuf>,
    /// The users that may log in.
    #[arg(long, value_name = "FILE", conflicts_with = "trust")]
    pub users: Option<PathBuf>,
    /// Let everybody log in without a password.
    #[arg(long)]
    pub trust: bool,
    /// A user that may use the console (`psql … hihooi`, `replex proxy admin`), by name; may be
    /// given several times. Without it the user of --primary may.
    #[arg(long, value_name = "USER")]
    pub operator: Vec<String>,
    /// Serve counters for Prometheus there; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// The chain of certificates that clients are shown, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// The certificates of the authorities for clients, as PEM: clients are asked for a
    /// certificate.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_certificate",
        conflicts_with = "trust"
    )]
    pub tls_client_ca: Option<PathBuf>,
    /// Lists of certificates that the authorities for clients have revoked, as PEM: one of each of
    /// them, none out of date. Read again by SIGHUP and RELOAD.
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    pub tls_client_crl: Option<PathBuf>,
    /// The use of a client's certificate. Its common name must be the user's name.
    #[arg(long, value_enum, default_value_t, requires = "tls_client_ca")]
    pub tls_client_auth: ClientAuth,
    /// How long a client keeps its connection to a database.
    #[arg(long, value_enum, default_value_t)]
    pub pooling: Pooling,
    /// Connections to each database, at most.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,
    /// Connections to each replica on which the primary's commits are executed; 1 is one after
    /// the other.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = REPLAY_CONNECTIONS_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub replay_connections: u16,
    /// Commits that such a connection executes as one transaction, at most, if so many wait there:
    /// that is quicker. 1 is each for itself.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = REPLAY_GROUP_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub replay_group: u16,
    /// How long a read waits for a replica to have all that it must see, at most, while there
    /// are many more sessions on the primary than on a replica; then, and otherwise at once, it
    /// goes to the primary. 0 never waits.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = WAIT_MS_DEFAULT, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub wait_ms: u64,
    /// Where commits are kept for offline replicas, so that the primary need not retain WAL for
    /// them: a folder for a store inside this process; replex://HOST:PORT,… with the coordinators
    /// of a cluster, which two proxies can share; or none. By default, where there are replicas,
    /// the folder replex/buffer-PORT in $XDG_STATE_HOME or ~/.local/state.
    #[arg(long, value_name = "DIR|URL|none")]
    pub buffer: Option<String>,
    /// Mebibytes of commits that are kept there: the newest. A replica that has missed more is
    /// filled again.
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub buffer_mib: u32,
    /// Threads that serve sessions. One is the cheapest for each message, since none wakes another
    /// thread, and is good for some 50,000 queries a second; by default there is one for every four
    /// processors.
    #[arg(long, value_name = "COUNT", default_value_t = threads_default(), value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// How long the thread that serves sessions looks for messages before it sleeps, in
    /// microseconds: quicker for few clients, and it burns a processor meanwhile. Needs --threads 1
    /// and a processor to spare.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub spin_us: u32,
    /// Clients that are logged in, at most.
    #[arg(long, value_name = "COUNT", default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(1..))]
    pub clients: u16,
    /// Give up clients that take longer to log in.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub login_timeout: u64,
    /// Listen on a network although nothing is encrypted.
    #[arg(long)]
    pub allow_unencrypted_network: bool,
    /// Stop when stdin ends: with the process that started this one.
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

/// The use of a client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ClientAuth {
    /// Every client must show one, and know the password.
    #[default]
    VerifyFull,
    /// Every client must show one, and needs no password.
    Cert,
    /// A client that shows one needs no password; others do.
    CertOrPassword,
}

/// How long a client keeps its connection to a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pooling {
    /// Until its transaction ends; to its own end once it runs a statement that could leave state
    /// behind, such as SET.
    #[default]
    Transaction,
    /// Until it leaves.
    Session,
}
