//! Reads wait for a replica that has all that they must see, while there is more to do on the
//! primary.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::support::cluster::{Cluster, PATIENCE, text};
use crate::support::{connect, is_there};

const SETUP: &str = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1);
    CREATE TABLE other (id int PRIMARY KEY)";
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const READ: &str = "SELECT sum(n) FROM t";
/// Nothing here takes as long.
const LONG: Duration = Duration::from_secs(3600);

/// Returns once a read has begun to wait.
async fn until_waiting<T>(cluster: &Cluster, reading: &JoinHandle<T>) {
    let started = Instant::now();
    while cluster.front.proxy.reads_waiting() == 0 {
        assert!(!reading.is_finished(), "it has not waited");
        assert!(started.elapsed() < PATIENCE, "it does not wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A replica that answers reads, and cannot take up the row that was written last.
struct Held {
    cluster: Cluster,
    lock: Client,
    /// Have transactions on the primary.
    busy: Vec<Client>,
    reader: Client,
}

impl Held {
    async fn start(wait_max: Duration, is_busy: bool) -> Held {
        let cluster = Cluster::patient(SETUP, wait_max).await;
        let lock = connect(cluster.replicas[0].socket()).await;
        let writer = cluster.front.connect().await;
        cluster.settle().await;
        let mode = "BEGIN; LOCK TABLE t IN SHARE MODE";
        lock.batch_execute(mode).await.unwrap();
        let write = "INSERT INTO t VALUES (2, 10)";
        writer.batch_execute(write).await.unwrap();
        let mut busy = Vec::new();
        // With as many, it is not busy.
        let count = if is_busy { 5 } else { 4 };
        for number in 0..count {
            let client = cluster.front.connect().await;
            let write = format!("BEGIN; INSERT INTO other VALUES ({number})");
            client.batch_execute(&write).await.unwrap();
            busy.push(client);
        }
        let reader = cluster.front.connect().await;
        Held {
            cluster,
            lock,
            busy,
            reader,
        }
    }

    /// A read that has begun to wait.
    async fn begin(self, before: Option<&str>) -> (JoinHandle<String>, Held) {
        if let Some(before) = before {
            self.reader.batch_execute(before).await.unwrap();
        }
        let Held {
            cluster,
            lock,
            busy,
            reader,
        } = self;
        let reading = tokio::spawn(async move { text(&reader, READ).await });
        until_waiting(&cluster, &reading).await;
        let reader = cluster.front.connect().await;
        let held = Held {
            cluster,
            lock,
            busy,
            reader,
        };
        (reading, held)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_wait_are_cancelled() {
    if !is_there() {
        return;
    }
    for before in [None, Some(BEGIN)] {
        println!("{before:?}");
        let held = Held::start(LONG, true).await;
        let reader = held.cluster.front.connect().await;
        if let Some(before) = before {
            reader.batch_execute(before).await.unwrap();
        }
        let cancel = reader.cancel_token();
        let reading = tokio::spawn(async move { (reader.batch_execute(READ).await, reader) });
        until_waiting(&held.cluster, &reading).await;
        cancel.cancel_query(NoTls).await.unwrap();
        let (failed, reader) = reading.await.unwrap();
        let failed = failed.unwrap_err();
        assert_eq!(failed.code(), Some(&SqlState::QUERY_CANCELED), "{failed}");
        // It is over as if a server had reported it.
        if before.is_some() {
            let next = reader.batch_execute("SELECT 1").await.unwrap_err();
            assert_eq!(next.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
            reader.batch_execute("ROLLBACK").await.unwrap();
        }
        assert_eq!(text(&reader, "SELECT 7").await, "7");
    }
}

/// It sees the commits before it, and need not see later ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_wait_while_the_primary_is_busier() {
    if !is_there() {
        return;
    }
    for before in [None, Some(BEGIN)] {
        println!("{before:?}");
        let held = Held::start(LONG, true).await;
        let served = held.cluster.served();
        let (reading, held) = held.begin(before).await;
        held.lock.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(reading.await.unwrap(), "11");
        assert_eq!(held.cluster.served(), served + 1);
        assert_eq!(held.cluster.front.proxy.reads_waiting(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_wait_no_longer_than_they_may() {
    if !is_there() {
        return;
    }
    for wait_max in [Duration::ZERO, Duration::from_millis(20)] {
        let held = Held::start(wait_max, true).await;
        let served = held.cluster.served();
        assert_eq!(text(&held.reader, READ).await, "11");
        assert_eq!(held.cluster.served(), served);
    }
}

/// The primary answers at once where it has nothing else to do, and as soon as it has not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_do_not_wait_for_an_idle_primary() {
    if !is_there() {
        return;
    }
    let held = Held::start(LONG, false).await;
    assert_eq!(text(&held.reader, READ).await, "11");
    let held = Held::start(LONG, true).await;
    let served = held.cluster.served();
    let (reading, held) = held.begin(None).await;
    held.busy[0].batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(reading.await.unwrap(), "11");
    assert_eq!(held.cluster.served(), served);
}

/// A view may have another definition by now, and the commits that the read must see were
/// determined by the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_do_not_wait_beyond_a_change_of_the_schema() {
    if !is_there() {
        return;
    }
    let held = Held::start(LONG, true).await;
    let served = held.cluster.served();
    let (reading, held) = held.begin(None).await;
    let change = "CREATE TABLE another (id int PRIMARY KEY)";
    held.reader.batch_execute(change).await.unwrap();
    assert_eq!(reading.await.unwrap(), "11");
    assert_eq!(held.cluster.served(), served);
}

/// Its replica may go while it waits: the primary answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_do_not_wait_for_offline_replicas() {
    if !is_there() {
        return;
    }
    let held = Held::start(LONG, true).await;
    let (reading, mut held) = held.begin(None).await;
    held.cluster.replicas[0].kill();
    assert_eq!(reading.await.unwrap(), "11");
}
