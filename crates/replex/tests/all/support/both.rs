//! Statements that the store and a PostgreSQL run side by side, and that must end alike.

use client::{Client, ConnectOptions};
use pg_local::Postgres;
use replex::cluster::Cluster;
use sql::SqlSession;

use crate::ranges_postgres::{ask_postgres, ask_store, connect};

/// Words that begin statements of which only whether they work is compared.
const CONTROL: [&str; 7] = [
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "CREATE",
    "DROP",
];

/// A session of the store and one of PostgreSQL.
pub struct Both {
    store: SqlSession<Client>,
    pub postgres: tokio_postgres::Client,
    seed: u64,
    log: Vec<String>,
    _processes: (Cluster, Postgres),
}

impl Both {
    /// Starts both; none if no PostgreSQL is installed.
    pub async fn start() -> Option<Both> {
        if !super::postgres_is_there() {
            return None;
        }
        let server = Postgres::start(&[]).unwrap();
        let cluster = super::cluster(3).await;
        let options = ConnectOptions::new([cluster.coordinator_address()]);
        Some(Both {
            store: SqlSession::new(Client::connect(options).await.unwrap()),
            postgres: connect(&server).await,
            seed: 0,
            log: Vec::new(),
            _processes: (cluster, server),
        })
    }

    /// Begins the statements of a seed, which a difference names.
    pub fn begin(&mut self, seed: u64) {
        println!("seed {seed}");
        (self.seed, self.log) = (seed, Vec::new());
    }

    /// Asks both. Returns whether the statement has worked, in both.
    pub async fn run(&mut self, text: &str) -> bool {
        self.log.push(text.to_owned());
        let ours = ask_store(&mut self.store, text).await;
        let theirs = ask_postgres(&self.postgres, text).await;
        let is_control = CONTROL.iter().any(|word| text.starts_with(word));
        let is_same = match is_control {
            true => ours.is_some() == theirs.is_some(),
            false => ours == theirs,
        };
        assert!(
            is_same,
            "seed {}: the store answers {ours:?}, PostgreSQL {theirs:?}, after\n{}",
            self.seed,
            self.log.join(";\n")
        );
        ours.is_some()
    }
}
