//! A primary, its replicas, and the proxy in front of them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pg_auth::admission::ClientAuthentication;
use pg_local::Postgres;
use proxy::serve::routing::Routing;
use proxy::serve::{ProxyOptions, WAIT_MS_DEFAULT};
use proxy_core::freshness::{FreshnessManager, ReplicaState};
use replication::{ExistingData, ReplicationSettings};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{Front, PASSWORD, USER, ask_for_passwords, connect, options, users};

/// Everything here is done within this.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A primary, its replicas, and the proxy in front of them.
pub struct Cluster {
    pub primary: Postgres,
    pub replicas: Vec<Postgres>,
    pub manager: Arc<Mutex<FreshnessManager>>,
    pub front: Front,
}

impl Cluster {
    /// With so many replicas, all of which serve.
    pub async fn start(replicas: usize) -> Cluster {
        Cluster::of(primary(), replicas).await
    }

    /// The same, with this primary.
    pub async fn of(primary: Postgres, replicas: usize) -> Cluster {
        let proxy_options = options(&primary, 10);
        Cluster::behind(proxy_options, primary, replicas).await
    }

    /// With a replica, so many connections to each server, and passwords on both sides of the
    /// proxy. The database belongs to [`support::USER`], which is no superuser.
    pub async fn with_passwords(connections: usize) -> Cluster {
        let primary = primary();
        ask_for_passwords(&primary).await;
        let admin = connect(primary.socket()).await;
        let make = format!(
            "CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'; ALTER DATABASE postgres OWNER TO {USER}"
        );
        admin.batch_execute(&make).await.unwrap();
        let mut proxy_options = options(&primary, connections);
        proxy_options.admission.clients.authentication = ClientAuthentication::Scram(users());
        let cluster = Cluster::behind(proxy_options, primary, 1).await;
        // That user has not logged in there yet.
        ask_for_passwords(&cluster.replicas[0]).await;
        cluster
    }

    /// With a replica of a primary in which this was run before.
    pub async fn start_after(setup: &str) -> Cluster {
        Cluster::patient(setup, Duration::from_millis(WAIT_MS_DEFAULT)).await
    }

    /// The same, where reads wait for so long.
    pub async fn patient(setup: &str, wait_max: Duration) -> Cluster {
        let primary = primary();
        let admin = connect(primary.socket()).await;
        admin.batch_execute(setup).await.unwrap();
        let mut proxy_options = options(&primary, 10);
        proxy_options.wait_max = wait_max;
        Cluster::behind(proxy_options, primary, 1).await
    }

    async fn behind(proxy_options: ProxyOptions, primary: Postgres, replicas: usize) -> Cluster {
        let address = primary.address("postgres");
        let settings = ReplicationSettings::default();
        let routing = Routing::start(&address, proxy_options.connections_max, &settings).await;
        let routing = routing.unwrap();
        let manager = Arc::clone(&routing.manager);
        let mut started = Vec::new();
        for _ in 0..replicas {
            let postgres = Postgres::start(&[]).unwrap();
            let address = postgres.address("postgres");
            let added = routing.replicas.add(&address, ExistingData::Kept);
            added.unwrap();
            started.push(postgres);
        }
        let front = Front::routed(proxy_options, Some(routing)).await;
        let cluster = Cluster {
            primary,
            replicas: started,
            manager,
            front,
        };
        cluster
            .wait(|states| states.iter().all(|state| *state == ReplicaState::Serving))
            .await;
        cluster
    }

    pub async fn wait(&self, condition: impl Fn(&[ReplicaState]) -> bool) {
        let started = Instant::now();
        loop {
            let states: Vec<ReplicaState> = {
                let manager = self.manager.lock().unwrap();
                manager
                    .replicas()
                    .map(|(_, replica)| replica.state)
                    .collect()
            };
            if condition(&states) {
                return;
            }
            let status = self.front.replicas().replication().status();
            assert!(started.elapsed() < PATIENCE, "{states:?} {status:?}");
            pause().await;
        }
    }

    /// Waits until every replica gives the same answer as the primary.
    pub async fn wait_until_equal(&self, query: &str) {
        let expected = text(&connect(self.primary.socket()).await, query).await;
        for replica in &self.replicas {
            let client = connect(replica.socket()).await;
            let started = Instant::now();
            while text(&client, query).await != expected {
                let status = self.front.replicas().replication().status();
                assert!(started.elapsed() < PATIENCE, "{query}: {status:?}");
                pause().await;
            }
        }
    }

    /// Waits until every replica has all that was committed, and the manager knows it.
    pub async fn settle(&self) {
        let started = Instant::now();
        loop {
            let is_settled = {
                let manager = self.manager.lock().unwrap();
                let applied = manager.applied_everywhere();
                manager.pending_count() == 0 && applied >= Some(manager.latest())
            };
            if is_settled {
                return;
            }
            let status = self.front.replicas().replication().status();
            assert!(started.elapsed() < PATIENCE, "{status:?}");
            pause().await;
        }
    }

    /// From here on the proxy itself writes into the log which changes of the schema replicas are
    /// to make, as where it may not make triggers.
    pub async fn drop_triggers(&self) {
        let primary = connect(self.primary.socket()).await;
        for trigger in [
            "hihooi_before",
            "hihooi_after",
            "hihooi_drop",
            "hihooi_rewrite",
        ] {
            let drop = format!("DROP EVENT TRIGGER {trigger}");
            primary.batch_execute(&drop).await.unwrap();
        }
    }

    /// Reads that replicas were given.
    pub fn served(&self) -> u64 {
        let manager = self.manager.lock().unwrap();
        manager.replicas().map(|(_, replica)| replica.served).sum()
    }
}

/// The time between two looks at what is waited for. Without it the waiting test takes the
/// processors from what it waits for.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// Looks again and again until there is something.
pub async fn wait<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "no {what}");
        pause().await;
    }
}

/// Writes and reads through the proxy until every replica has been read at.
pub async fn until_all_serve(front: &Front, manager: &Mutex<FreshnessManager>) {
    let client = front.connect().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        .await
        .unwrap();
    let started = Instant::now();
    let served = || -> Vec<u64> {
        let manager = manager.lock().unwrap();
        manager.replicas().map(|(_, it)| it.served).collect()
    };
    let mut number = 0;
    while served().contains(&0) {
        number += 1;
        let write = format!(
            "INSERT INTO t VALUES (1, {number}) ON CONFLICT (id) DO UPDATE SET n = {number}"
        );
        client.batch_execute(&write).await.unwrap();
        let before = served();
        // The primary answers until a replica has the written row.
        while served() == before {
            let read = text(&client, "SELECT n FROM t WHERE id = 1").await;
            assert_eq!(read, number.to_string());
            let status = front.replicas().replication().status();
            assert!(started.elapsed() < PATIENCE, "{status:?}");
            pause().await;
        }
    }
}

/// The slot delivers only commits that are on the primary's disk.
fn primary() -> Postgres {
    Postgres::start(&["synchronous_commit=on"]).unwrap()
}

/// The first column of all rows; an error, as of a table that is not there yet, is an answer, too.
pub async fn text(client: &Client, query: &str) -> String {
    let messages = match client.simple_query(query).await {
        Ok(messages) => messages,
        Err(error) => {
            return error
                .as_db_error()
                .map_or(error.to_string(), ToString::to_string);
        }
    };
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("").to_string()),
        _ => None,
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// Lines that only one of them has.
pub fn differing(expected: &str, there: &str) -> String {
    let only = |one: &str, other: &str, sign: char| {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|it| it == *line));
        lines
            .map(|line| format!("{sign} {line}\n"))
            .collect::<String>()
    };
    only(expected, there, '-') + &only(there, expected, '+')
}
