//! Starts the measured databases: a primary with replicas behind the proxy, or a primary with
//! streaming standbys.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pg_connect::address::Address;
use pg_connect::tls::TlsPolicy;
use pg_local::{Postgres, SUPERUSER};
use proxy::console::client as console;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::SHARE;
use crate::processes::BenchProcess;
use crate::quota::Quota;

/// The name of the database in each server.
pub const DATABASE: &str = "postgres";
/// Time between two checks of the state.
pub const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Time between two checks if a check delays a database under a quota.
const SETTLE_LOOK: Duration = Duration::from_millis(200);
/// A step that takes longer is stuck.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Connections of a pooler to each database: more than there are clients.
pub const CONNECTIONS: &str = "60";
/// Of all databases. An answered commit is in the log that replicas follow; nothing is vacuumed at
/// a moment of the system's choice.
const SETTINGS: &[&str] = &[
    "synchronous_commit=on",
    "autovacuum=off",
    // Every pool keeps some, and those of a run that has ended go a little later.
    "max_connections=400",
];

/// A primary with its replicas, and the proxy. The fields are ordered so that processes are dropped
/// before their quotas.
pub struct DatabaseSite {
    proxy: Option<BenchProcess>,
    pub replicas: Vec<Postgres>,
    pub primary: Postgres,
    _quotas: Vec<Quota>,
    folder: TempDir,
}

impl DatabaseSite {
    /// Starts a primary, which `schema` fills, and replicas with these further settings. When this
    /// returns, the replicas have all rows and serve.
    ///
    /// # Errors
    /// Something does not start, or is not filled.
    pub async fn start(
        base: &Path,
        schema: &str,
        replicas: usize,
        settings: &[&str],
    ) -> io::Result<DatabaseSite> {
        let primary = primary(base, schema).await?;
        let settings = [SETTINGS, settings].concat();
        let replicas = (0..replicas).map(|_| Postgres::start_in(base, &settings));
        let mut site = DatabaseSite {
            proxy: None,
            replicas: replicas.collect::<io::Result<_>>()?,
            primary,
            _quotas: Vec::new(),
            folder: tempfile::tempdir_in(base)?,
        };
        site.start_proxy(&[]).await?;
        Ok(site)
    }

    /// Starts the proxy, with these further options, and waits until all replicas serve.
    ///
    /// # Errors
    /// The proxy does not start, or a replica cannot follow the primary.
    pub async fn start_proxy(&mut self, options: &[&str]) -> io::Result<()> {
        let urls: Vec<String> = self.replicas.iter().map(url).collect();
        let urls = urls.iter().flat_map(|url| ["--replica", url.as_str()]);
        let options: Vec<&str> = urls.chain(options.iter().copied()).collect();
        self.proxy = Some(proxy(&self.primary, self.folder.path(), &options)?);
        let begun = Instant::now();
        loop {
            let rows = self.ask("SHOW REPLICAS").await?;
            let is = |row: &[String], state: &str| row[3] == state;
            if rows.iter().all(|row| is(row, "serving")) {
                return Ok(());
            }
            let failed = rows.iter().find(|row| is(row, "failed"));
            if failed.is_some() || begun.elapsed() > PATIENCE {
                return Err(io::Error::other(format!(
                    "a replica does not serve: {rows:?}"
                )));
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// Returns the folder of this site's transactions buffer.
    pub fn buffer_folder(&self) -> PathBuf {
        self.folder.path().join("buffer")
    }

    /// Stops the proxy. The databases continue to run.
    ///
    /// # Errors
    /// The system call that waits for the proxy's process fails.
    pub fn stop_proxy(&mut self) -> io::Result<()> {
        self.proxy.take().map_or(Ok(()), BenchProcess::stop)
    }

    /// Limits each database to the same fraction of a core.
    ///
    /// # Errors
    /// The machine does not permit CPU quotas.
    pub fn hold_back(&mut self) -> io::Result<()> {
        self._quotas = hold_back(std::iter::once(&self.primary).chain(&self.replicas))?;
        Ok(())
    }

    /// Returns the address at which the proxy listens.
    ///
    /// # Errors
    /// The proxy is not running, or has not printed its address.
    pub fn place(&self) -> io::Result<SocketAddr> {
        place(self.proxy()?)
    }

    /// Returns the id of the proxy's process.
    ///
    /// # Errors
    /// The proxy is not running.
    pub fn proxy_id(&self) -> io::Result<u32> {
        Ok(self.proxy()?.id())
    }

    /// Returns the fraction of batches that the proxy has sent to replicas since its start.
    ///
    /// # Errors
    /// The console does not answer.
    pub async fn share_at_replicas(&self) -> io::Result<f64> {
        let (all, there) = self.batches().await?;
        Ok(there / all)
    }

    /// Returns the most memory that the proxy's indexes of written rows have needed so far, in
    /// bytes.
    ///
    /// # Errors
    /// The console does not answer.
    pub async fn index_bytes_max(&self) -> io::Result<f64> {
        let rows = self.ask("SHOW PROXY").await?;
        rows[0][3].parse().map_err(io::Error::other)
    }

    /// Returns the number of batches that the proxy has sent to servers since its start, and the
    /// number of those that it has sent to replicas. As in `SHOW ROUTES`, a batch that can only
    /// continue on the server of the previous batch is not counted.
    ///
    /// # Errors
    /// The console does not answer.
    pub async fn batches(&self) -> io::Result<(f64, f64)> {
        let (mut all, mut there) = (0.0, 0.0);
        for row in self.ask("SHOW ROUTES").await? {
            let batches: f64 = row[2].parse().map_err(io::Error::other)?;
            all += batches;
            there += if row[0] == "primary" { 0.0 } else { batches };
        }
        Ok((all, there))
    }

    /// Waits until all replicas have the primary's present commits, so that the backlog of one run
    /// does not burden the next.
    ///
    /// # Errors
    /// A server does not answer, or that takes too long.
    pub async fn settle(&self) -> io::Result<()> {
        let primary = connect(self.primary.socket()).await?;
        let position = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn";
        let end = ask(&primary, position).await?.unwrap_or_default();
        // Something after it, so that the stream goes past it.
        ask(
            &primary,
            "SELECT pg_logical_emit_message(true, 'bench', '')",
        )
        .await?;
        let begun = Instant::now();
        loop {
            let lag = self.ask("SHOW LAG").await?;
            let applied = lag
                .iter()
                .map(|row| format!("('{}'::pg_lsn - '0/0')", row[2]));
            let applied: Vec<String> = applied.collect();
            let has = format!("SELECT least({}) >= {end}", applied.join(", "));
            if ask(&primary, &has).await?.as_deref() == Some("t") {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let text = format!("replicas do not catch up: {lag:?}");
                return Err(io::Error::other(text));
            }
            tokio::time::sleep(SETTLE_LOOK).await;
        }
    }

    fn proxy(&self) -> io::Result<&BenchProcess> {
        let missing = || io::Error::other("the proxy does not run");
        self.proxy.as_ref().ok_or_else(missing)
    }

    /// Runs a command on the proxy's console, and returns its rows.
    ///
    /// # Errors
    /// The console does not answer, or answers with an error.
    pub async fn ask(&self, command: &str) -> io::Result<Vec<Vec<String>>> {
        let place = self.place()?;
        let address = Address {
            host: place.ip().to_string(),
            port: place.port(),
            user: SUPERUSER.into(),
            password: None,
            database: DATABASE.into(),
            tls: TlsPolicy::Disable,
        };
        let output = console::ask(&address, command).await;
        let rows = output.map_err(io::Error::other)?.rows.into_iter();
        Ok(rows
            .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
            .collect())
    }
}

/// A primary with streaming standbys. The fields are ordered so that processes are dropped before
/// their quotas.
pub struct Streaming {
    pub standbys: Vec<Postgres>,
    pub primary: Postgres,
    _quotas: Vec<Quota>,
}

impl Streaming {
    /// Starts a primary and its standbys, each with all rows and limited to the same fraction of a
    /// core.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(base: &Path, schema: &str, standbys: usize) -> io::Result<Streaming> {
        let primary = primary(base, schema).await?;
        let standbys = (0..standbys).map(|_| Postgres::standby_in(&primary, base, SETTINGS));
        let standbys: Vec<Postgres> = standbys.collect::<io::Result<_>>()?;
        let quotas = hold_back(std::iter::once(&primary).chain(&standbys))?;
        Ok(Streaming {
            standbys,
            primary,
            _quotas: quotas,
        })
    }
}

/// Starts a database without replicas, and creates its tables.
///
/// # Errors
/// The database does not start, or the schema is refused.
async fn primary(base: &Path, schema: &str) -> io::Result<Postgres> {
    let primary = Postgres::start_in(base, SETTINGS)?;
    ask(&connect(primary.socket()).await?, schema).await?;
    Ok(primary)
}

/// Starts a proxy in front of a primary.
///
/// # Errors
/// The proxy does not start.
pub fn proxy(primary: &Postgres, folder: &Path, options: &[&str]) -> io::Result<BenchProcess> {
    let program: PathBuf = std::env::current_exe()?;
    let primary = url(primary);
    // There is one by default, where people keep such things.
    let buffer = folder.join("buffer").display().to_string();
    let follows = options.contains(&"--replica") && !options.contains(&"--buffer");
    let buffer = follows.then_some(["--buffer", &*buffer]);
    let words = [
        "proxy",
        "--primary",
        &primary,
        "--trust",
        "--listen",
        "127.0.0.1:0",
        "--connections",
        CONNECTIONS,
    ];
    let words = [&words[..], buffer.as_slice().as_flattened(), options].concat();
    BenchProcess::start(&program, &words, &folder.join("proxy.log"))
}

/// Returns the address at which a proxy listens.
///
/// # Errors
/// The proxy has not printed its address.
pub fn place(proxy: &BenchProcess) -> io::Result<SocketAddr> {
    proxy
        .ready_value("proxy")?
        .parse()
        .map_err(io::Error::other)
}

/// Connects to the server with an ordinary driver.
///
/// # Errors
/// The server cannot be reached.
pub async fn connect(place: SocketAddr) -> io::Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host(place.ip().to_string()).port(place.port());
    config.user(SUPERUSER).dbname(DATABASE);
    let (client, connection) = config.connect(NoTls).await.map_err(io::Error::other)?;
    // The caller that waits for an answer gets the error that ends it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// Runs statements, and returns the first value of the last row, if there is a row.
///
/// # Errors
/// The server refuses a statement, or the connection breaks.
pub async fn ask(client: &Client, sql: &str) -> io::Result<Option<String>> {
    let failed = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(reported) => io::Error::other(format!("{}: {sql:.200}", reported.message())),
        None => io::Error::other(error),
    };
    let answer = client.simple_query(sql).await.map_err(failed)?;
    let rows = answer.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(rows.last())
}

/// Repeats a query until it returns a row, and returns the row's first value.
///
/// # Errors
/// The server refuses the query, or the query returns no row for a long time.
pub async fn await_row(client: &Client, sql: &str) -> io::Result<String> {
    let begun = Instant::now();
    loop {
        if let Some(value) = ask(client, sql).await? {
            return Ok(value);
        }
        if begun.elapsed() > PATIENCE {
            let text = format!("nothing came after a long time: {sql}");
            return Err(io::Error::other(text));
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
}

fn url(postgres: &Postgres) -> String {
    format!("postgresql://{SUPERUSER}@{}/{DATABASE}", postgres.socket())
}

/// Holds each database to an equal CPU quota.
///
/// # Errors
/// This machine does not support quotas.
fn hold_back<'a>(all: impl Iterator<Item = &'a Postgres>) -> io::Result<Vec<Quota>> {
    all.filter_map(Postgres::process)
        .map(|process| Quota::of(process, SHARE))
        .collect()
}
