//! Runs clients that read and write through the proxy with an ordinary driver, and check every
//! answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pg_connect::address::Address;
use replex::failure::CommandFailure;
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Clients at a time.
pub const CLIENTS: u64 = 4;
/// Accounts, between which money moves.
pub const ACCOUNTS: u64 = 20_000;
/// The initial balance of each account.
const BALANCE: u64 = 100;
/// The pause of a client between two rounds, because the machine has other work, too.
const PAUSE: Duration = Duration::from_millis(2);

/// The primary's tables at the start.
pub const SCHEMA: &str = "
CREATE TABLE country (id int PRIMARY KEY, name text);
CREATE TABLE account (id int PRIMARY KEY, country int REFERENCES country, balance bigint NOT NULL,
                      note text);
CREATE TABLE entry (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int NOT NULL,
                    amount bigint NOT NULL, made timestamptz DEFAULT clock_timestamp(),
                    luck float8 DEFAULT random());
CREATE TABLE counter (client int PRIMARY KEY, n bigint NOT NULL);
INSERT INTO country SELECT n, 'country ' || n FROM generate_series(0, 199) n;
INSERT INTO account SELECT n, n % 200, 100, repeat(md5(n::text), 8) FROM generate_series(0, 19999) n;
INSERT INTO entry (account, amount) SELECT n % 20000, 0 FROM generate_series(1, 60000) n;
INSERT INTO counter SELECT n, 0 FROM generate_series(0, 3) n";

/// The observations of clients.
#[derive(Debug, Default)]
pub struct LoadSeen {
    /// Transactions that were answered.
    pub commits: AtomicU64,
    /// Reads that were answered.
    pub reads: AtomicU64,
    /// Reads that missed a commit that was answered before they began.
    pub stale: AtomicU64,
    /// Reads that saw a part of a transaction.
    pub torn: AtomicU64,
    /// Reads that failed because the replica where they ran was lost.
    pub lost: AtomicU64,
    /// The number of statements that failed for another reason.
    pub failed: AtomicU64,
    stop: AtomicBool,
}

/// A load that runs until it is stopped or dropped.
pub struct DemoLoad {
    /// The observations of the load's clients.
    pub seen: Arc<LoadSeen>,
    clients: JoinSet<u64>,
}

impl DemoLoad {
    /// Starts the load's clients at this proxy.
    pub async fn start(proxy: &Address) -> Result<DemoLoad, CommandFailure> {
        let seen = Arc::<LoadSeen>::default();
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = connect(proxy).await?;
            clients.spawn(work(number, client, Arc::clone(&seen)));
        }
        Ok(DemoLoad { seen, clients })
    }

    /// Stops the load. Returns the number of its clients' transactions that were answered.
    pub async fn stop(self) -> u64 {
        self.seen.stop.store(true, Ordering::Relaxed);
        self.clients.join_all().await.into_iter().sum()
    }
}

/// Opens a session of an ordinary driver.
pub async fn connect(address: &Address) -> Result<Client, CommandFailure> {
    let mut config = tokio_postgres::Config::new();
    config
        .host(&address.host)
        .port(address.port)
        .user(&address.user)
        .dbname(&address.database);
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(CommandFailure::at("connect"))?;
    // The client's user gets the error that ends the connection.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

/// Returns the first value of a query's answer.
pub async fn value(client: &Client, query: &str) -> Result<String, tokio_postgres::Error> {
    let answer = client.simple_query(query).await?;
    let found = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(found.unwrap_or_default().to_owned())
}

/// Runs one client until the load stops. The client moves money, counts this in the same
/// transaction, and reads. Returns the number of its answered transactions.
async fn work(number: u64, client: Client, seen: Arc<LoadSeen>) -> u64 {
    let mut answered = 0;
    let mut round = number;
    while !seen.stop.load(Ordering::Relaxed) {
        round += CLIENTS;
        let (from, to) = (round * 7919 % ACCOUNTS, round * 104_729 % ACCOUNTS);
        let transfer = format!(
            "BEGIN;
             UPDATE account SET balance = balance - 1 WHERE id = {from};
             UPDATE account SET balance = balance + 1 WHERE id = {to};
             INSERT INTO entry (account, amount) VALUES ({from}, -1), ({to}, 1);
             UPDATE counter SET n = n + 1 WHERE client = {number};
             COMMIT"
        );
        match client.batch_execute(&transfer).await {
            Ok(()) => {
                answered += 1;
                seen.commits.fetch_add(1, Ordering::Relaxed);
            }
            // Two that move money between the same accounts may be in each other's way.
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                if client.batch_execute("ROLLBACK").await.is_err() {
                    seen.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(_) => {
                seen.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        read(&client, number, answered, round, &seen).await;
        tokio::time::sleep(PAUSE).await;
    }
    answered
}

/// The condition for a read's answer.
enum Expected {
    /// No answered transaction is missing: the counter has this value.
    Fresh(u64),
    /// No transaction is seen in parts.
    Whole(u64),
    /// The value never changes.
    Same(String),
}

/// Runs one round of a client's reads: its own counter, whose value it knows, a row that is never
/// written, and in some rounds the sum of all balances. Counts each answer in `seen`.
async fn read(client: &Client, number: u64, answered: u64, round: u64, seen: &LoadSeen) {
    let country = round % 200;
    let reads = [
        (
            format!("SELECT n FROM counter WHERE client = {number}"),
            Expected::Fresh(answered),
        ),
        (
            format!("SELECT name FROM country WHERE id = {country}"),
            Expected::Same(format!("country {country}")),
        ),
        (
            "SELECT sum(balance) FROM account".into(),
            Expected::Whole(ACCOUNTS * BALANCE),
        ),
    ];
    // The last takes a while: not in every round.
    let count = if round % 16 < CLIENTS { 3 } else { 2 };
    for (query, expected) in reads.iter().take(count) {
        let counter = match value(client, query).await {
            Ok(found) => match expected {
                Expected::Fresh(n) if found != n.to_string() => &seen.stale,
                Expected::Whole(sum) if found != sum.to_string() => &seen.torn,
                Expected::Same(name) if found != *name => &seen.stale,
                _ => &seen.reads,
            },
            Err(error) if error.code() == Some(&SqlState::CONNECTION_FAILURE) => &seen.lost,
            Err(_) => &seen.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
