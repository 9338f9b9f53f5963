//! Two commits become visible on the primary in another order than that of its log. One client sees
//! on the primary only the commit that is later in the log. Meanwhile the read of another client is
//! on its way to a replica that has only the earlier commit.

use std::time::{Duration, Instant};

use pg_local::{Postgres, SUPERUSER};
use proxy_core::freshness::{ReplicaId, ReplicaState};
use replication::ExistingData;
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::Client;

use crate::support::cluster::{Cluster, PATIENCE, text};
use crate::support::held::{hold_commits, let_commits_go, wait_until_held};
use crate::support::{connect, connect_by, is_there};

/// Poll interval.
const PAUSE: Duration = Duration::from_millis(2);
/// By which the process is found at the replica that runs it.
const READ: &str = "SELECT /* the read */ n FROM pairs ORDER BY id";

/// How the read is asked for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Simple,
    Extended,
    /// With another one.
    Several,
    /// In a transaction that has written.
    Within,
    /// In a transaction that has its snapshot at the replica.
    Snapshot,
}

async fn read(client: &Client, way: Way) -> Vec<i32> {
    let simple = async |before: &[&str], after: &str| {
        for statement in before {
            client.batch_execute(statement).await.unwrap();
        }
        let read = text(client, &format!("{READ}{after}")).await;
        read.lines().map(|line| line.parse().unwrap()).collect()
    };
    let rows = match way {
        Way::Extended => {
            let rows = client.query(READ, &[]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        }
        Way::Simple => simple(&[], "").await,
        Way::Several => {
            let mut both: Vec<i32> = simple(&[], &format!("; {READ}")).await;
            both.split_off(both.len() / 2)
        }
        Way::Within => simple(&["BEGIN", "INSERT INTO others VALUES (1)"], "").await,
        Way::Snapshot => simple(&["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"], "").await,
    };
    client.batch_execute("ROLLBACK").await.unwrap();
    rows
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// A session at the replica with the name that the proxy's own sessions have.
async fn directly(cluster: &Cluster) -> Client {
    let address = cluster.replicas[0].socket();
    let (host, port) = (address.ip(), address.port());
    let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
    connect_by(&(line + " application_name=direct")).await
}

/// A session whose commits wait for standbys.
async fn waiter(cluster: &Cluster) -> Client {
    let address = cluster.front.address;
    let (host, port) = (address.ip(), address.port());
    connect_by(&format!(
        "host={host} port={port} user=waits dbname=postgres"
    ))
    .await
}

/// A session that has read at the replica, and the process there.
async fn reader(cluster: &Cluster, way: Way) -> (Client, Pid) {
    let reader = cluster.front.connect().await;
    let before = cluster.served();
    until("it reads at the replica", async || {
        read(&reader, way).await;
        cluster.served() > before
    })
    .await;
    let there = directly(cluster).await;
    let process = "SELECT pid FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND application_name = '' ORDER BY state_change DESC LIMIT 1";
    let process: i32 = text(&there, process).await.parse().unwrap();
    (reader, Pid::from_raw(process).unwrap())
}

async fn read_is_whole(cluster: &Cluster, way: Way) {
    let primary = connect(cluster.primary.socket()).await;
    let there = directly(cluster).await;
    let clear = "UPDATE pairs SET n = 0";
    primary.batch_execute(clear).await.unwrap();
    cluster.wait_until_equal(READ).await;
    cluster.settle().await;
    let (reader, process) = reader(cluster, way).await;
    let node = cluster.front.replicas().node(ReplicaId(1)).unwrap();
    until("no session reads", async || node.usage().in_use == 0).await;
    kill_process(process, Signal::STOP).unwrap();
    let reading = tokio::spawn(async move { read(&reader, way).await });
    until("the read is on its way", async || node.usage().in_use > 0).await;

    hold_commits(&cluster.primary, &primary).await;
    let first = waiter(cluster).await;
    let update = "UPDATE pairs SET n = 1 WHERE id = 1";
    let first = tokio::spawn(async move { first.batch_execute(update).await });
    wait_until_held(&primary).await;
    let second = cluster.front.connect().await;
    let update = "UPDATE pairs SET n = 2 WHERE id = 2";
    second.batch_execute(update).await.unwrap();
    // A client sees the second without the first.
    assert_eq!(text(&second, READ).await, "0\n2");

    // The replica gets the first, and not the second yet.
    let lock = "BEGIN; SELECT FROM pairs WHERE id = 2 FOR UPDATE";
    there.batch_execute(lock).await.unwrap();
    let_commits_go(&primary).await;
    first.await.unwrap().unwrap();
    let looks = directly(cluster).await;
    until("the first is there", async || {
        text(&looks, READ).await == "1\n0"
    })
    .await;
    kill_process(process, Signal::CONT).unwrap();
    assert_eq!(reading.await.unwrap(), [1, 2], "{way:?}");
    there.batch_execute("ROLLBACK").await.unwrap();
}

/// A primary whose commits wait for standbys only where that is set.
async fn primary() -> (Postgres, Client) {
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let admin = connect(primary.socket()).await;
    for sql in [
        "CREATE TABLE pairs (id int PRIMARY KEY, n int)",
        "CREATE TABLE others (id int PRIMARY KEY)",
        "INSERT INTO pairs VALUES (1, 0), (2, 0)",
        // By default a session waits for no standby.
        "ALTER DATABASE postgres SET synchronous_commit = local",
        "CREATE ROLE waits SUPERUSER LOGIN",
        "ALTER ROLE waits SET synchronous_commit = on",
    ] {
        admin.batch_execute(sql).await.unwrap();
    }
    (primary, admin)
}

/// P1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_commits_are_never_seen_in_different_orders() {
    if !is_there() {
        return;
    }
    let (primary, _admin) = primary().await;
    let cluster = Cluster::of(primary, 1).await;
    for way in [
        Way::Simple,
        Way::Extended,
        Way::Several,
        Way::Within,
        Way::Snapshot,
    ] {
        println!("{way:?}");
        read_is_whole(&cluster, way).await;
    }
}

/// A standby shows a commit while the primary still waits for another standby. A client that has
/// seen it there, and asks the primary then, would see it no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_shows_nothing_before_the_primary() {
    if !is_there() {
        return;
    }
    let (primary, admin) = primary().await;
    let mut cluster = Cluster::of(primary, 0).await;
    let standby = Postgres::standby_of(&cluster.primary, &[]).unwrap();
    let address = standby.address("postgres");
    let replicas = cluster.front.replicas();
    replicas.add(&address, ExistingData::Kept).unwrap();
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
    cluster.replicas.push(standby);
    let there = directly(&cluster).await;
    let one_row = "SELECT n FROM pairs WHERE id = 1";
    for (number, sql) in [one_row, READ].into_iter().enumerate() {
        println!("{sql}");
        cluster.settle().await;
        let (reader, process) = reader(&cluster, Way::Simple).await;
        let node = cluster.front.replicas().node(ReplicaId(1)).unwrap();
        until("no session reads", async || node.usage().in_use == 0).await;
        let shown = text(&admin, sql).await;
        kill_process(process, Signal::STOP).unwrap();
        let reading = tokio::spawn(async move { text(&reader, sql).await });
        until("the read is on its way", async || node.usage().in_use > 0).await;
        hold_commits(&cluster.primary, &admin).await;
        let writer = waiter(&cluster).await;
        let update = format!("UPDATE pairs SET n = {} WHERE id = 1", number + 1);
        let writing = tokio::spawn(async move { writer.batch_execute(&update).await });
        until("the standby shows it", async || {
            text(&there, sql).await != shown
        })
        .await;
        assert_eq!(text(&admin, sql).await, shown);
        kill_process(process, Signal::CONT).unwrap();
        assert_eq!(reading.await.unwrap(), shown);
        let_commits_go(&admin).await;
        writing.await.unwrap().unwrap();
        assert_ne!(text(&admin, sql).await, shown);
    }
}
