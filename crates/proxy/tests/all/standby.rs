//! Streaming standbys of the primary as replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pg_local::Postgres;
use proxy::check::{FindingWeight, check};
use proxy_core::freshness::ReplicaState;
use replication::ExistingData;
use tokio::task::JoinSet;

use crate::support::cluster::{Cluster, PATIENCE, pause, text};
use crate::support::{connect, is_there};

fn standby_of(primary: &Postgres) -> Postgres {
    Postgres::standby_of(primary, &[]).unwrap()
}

/// Every acknowledged commit is read by others at once, on any server. A standby that dies and
/// comes back serves again, and a promoted standby does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_at_a_standby_see_all_that_was_answered() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(0).await;
    let mut standby = standby_of(&cluster.primary);
    let address = standby.address("postgres");
    let replicas = cluster.front.replicas();
    replicas.add(&address, ExistingData::Kept).unwrap();
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
    let writer = cluster.front.connect().await;
    let reader = cluster.front.connect().await;
    let create = "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)";
    writer.batch_execute(create).await.unwrap();
    writer
        .batch_execute("INSERT INTO t VALUES (1, 0), (2, 0)")
        .await
        .unwrap();
    for life in 0..2 {
        let (before, started) = (cluster.served(), Instant::now());
        let mut round = 0;
        while cluster.served() < before + 50 {
            round += 1;
            let n = life * 1_000_000 + round;
            let write = format!("UPDATE t SET n = {n} WHERE id = 1");
            writer.batch_execute(&write).await.unwrap();
            for row in [1, 2] {
                let read = format!("SELECT n FROM t WHERE id = {row}");
                let expected = if row == 1 { n } else { 0 };
                assert_eq!(text(&reader, &read).await, expected.to_string());
            }
            assert!(started.elapsed() < PATIENCE);
            pause().await;
        }
        standby.kill();
        cluster
            .wait(|states| states == [ReplicaState::Unavailable])
            .await;
        assert_eq!(text(&reader, "SELECT n FROM t WHERE id = 2").await, "0");
        standby.start_again().unwrap();
        cluster
            .wait(|states| states == [ReplicaState::Serving])
            .await;
    }
    let promote = "SELECT pg_promote()";
    assert_eq!(text(&connect(standby.socket()).await, promote).await, "t");
    cluster
        .wait(|states| states != [ReplicaState::Serving])
        .await;
    assert_eq!(text(&reader, "SELECT n FROM t WHERE id = 2").await, "0");
}

/// Others' standbys have other rows, and no standby can be emptied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standbys_of_others_are_refused() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(0).await;
    let other = Postgres::start(&[]).unwrap();
    let standbys = [standby_of(&other), standby_of(&cluster.primary)];
    let named = standbys
        .each_ref()
        .map(|standby| standby.address("postgres"));
    let findings = check(&cluster.primary.address("postgres"), &named, 10).await;
    let of_standbys = findings.iter().filter(|it| it.what.contains("standby"));
    let of_standbys: Vec<_> = of_standbys
        .map(|it| (it.weight, it.what.as_str()))
        .collect();
    let expected = [
        (
            FindingWeight::Stops,
            "it is a standby of another server than the primary",
        ),
        (
            FindingWeight::Fine,
            "it is a standby, and is followed as it is",
        ),
    ];
    assert_eq!(of_standbys, expected);
    let whys = ["of another server", "without EMPTY"];
    let contents = [ExistingData::Kept, ExistingData::Dropped];
    for ((standby, contents), why) in standbys.iter().zip(contents).zip(whys) {
        let replicas = cluster.front.replicas();
        let id = replicas.add(&standby.address("postgres"), contents);
        let id = id.unwrap();
        cluster
            .wait(|states| states.last() == Some(&ReplicaState::Quarantined))
            .await;
        let message = &replicas.replication().status()[&id].text;
        assert!(message.contains(why), "{message}");
    }
}

const ALL: &str =
    "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM t";

/// Writers, each with a row of its own.
async fn write_until(cluster: &Cluster, is_over: &Arc<AtomicBool>) -> JoinSet<()> {
    let mut writers = JoinSet::new();
    for writer in 2..5 {
        let (client, is_over) = (cluster.front.connect().await, Arc::clone(is_over));
        writers.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let write = format!(
                    "BEGIN; UPDATE t SET n = n + 1 WHERE id = {writer}; INSERT INTO t (n) VALUES (1); COMMIT"
                );
                client.batch_execute(&write).await.unwrap();
            }
        });
    }
    writers
}

/// A standby becomes a replica of its own while writers go on. No commit is missing there, and none
/// is executed twice; also none that was prepared before and committed after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_is_converted_under_load() {
    if !is_there() {
        return;
    }
    let settings = ["synchronous_commit=on", "max_prepared_transactions=5"];
    let cluster = Cluster::of(Postgres::start(&settings).unwrap(), 1).await;
    let client = cluster.front.connect().await;
    for sql in [
        "CREATE TABLE t (id serial PRIMARY KEY, n int NOT NULL DEFAULT 0)",
        "INSERT INTO t (n) SELECT 0 FROM generate_series(1, 100)",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    let standby = Postgres::standby_of(&cluster.primary, &settings[1..]);
    let standby = standby.unwrap();
    let direct = connect(cluster.primary.socket()).await;
    let prepare = "BEGIN; INSERT INTO t (n) VALUES (-1); UPDATE t SET n = -1 WHERE id = 1;
                   PREPARE TRANSACTION 'before'";
    direct.batch_execute(prepare).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = write_until(&cluster, &is_over).await;
    let replicas = cluster.front.replicas();
    let id = replicas.add(&standby.address("postgres"), ExistingData::Converted);
    let id = id.unwrap();
    let serving = [ReplicaState::Serving; 2];
    cluster.wait(|states| states == serving).await;
    client
        .batch_execute("COMMIT PREPARED 'before'")
        .await
        .unwrap();
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    cluster.settle().await;
    let converted = connect(standby.socket()).await;
    assert_eq!(text(&converted, ALL).await, text(&direct, ALL).await);
    for (query, answer) in [
        ("SELECT pg_is_in_recovery()", "f"),
        ("SELECT count(*) FROM pg_prepared_xacts", "0"),
        (
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'hihooi' AND tablename = 'secret'",
            "0",
        ),
    ] {
        assert_eq!(text(&converted, query).await, answer, "{query}");
    }
    // It goes on where it stopped, as any other, and is none that could be converted again.
    assert!(replicas.remove(id).await.unwrap());
    let again = replicas.add(&standby.address("postgres"), ExistingData::Kept);
    cluster.wait(|states| states == serving).await;
    assert!(replicas.remove(again.unwrap()).await.unwrap());
    let id = replicas.add(&standby.address("postgres"), ExistingData::Converted);
    cluster
        .wait(|states| states == [ReplicaState::Serving, ReplicaState::Quarantined])
        .await;
    let status = replicas.replication().status();
    let output = &status[&id.unwrap()].text;
    assert!(output.contains("it is not a standby"), "{output}");
}

/// The standby of another primary is not touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_of_another_is_not_converted() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(0).await;
    let other = Postgres::start(&[]).unwrap();
    let standby = standby_of(&other);
    let replicas = cluster.front.replicas();
    let id = replicas.add(&standby.address("postgres"), ExistingData::Converted);
    cluster
        .wait(|states| states == [ReplicaState::Quarantined])
        .await;
    let status = replicas.replication().status();
    let output = &status[&id.unwrap()].text;
    assert!(output.contains("of another server"), "{output}");
    let client = connect(standby.socket()).await;
    assert_eq!(text(&client, "SELECT pg_is_in_recovery()").await, "t");
}
