//! Streaming standbys of the Primary as Extensions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Instant;

use scale::check::{Weight, check};
use scale::local::Postgres;
use scale::manager::State;
use scale::replication::Contents;
use support::cluster::{Cluster, PATIENCE, text};
use support::{connect, is_there};

fn standby_of(primary: &Postgres) -> Postgres {
    Postgres::standby_of(primary, &std::env::temp_dir(), &[]).unwrap()
}

/// What was answered is read by others at once, wherever that is; a standby that dies and comes back serves
/// again, and one that is promoted does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_at_a_standby_see_all_that_was_answered() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(0).await;
    let mut standby = standby_of(&cluster.primary);
    let address = standby.address("postgres");
    let extensions = cluster.front.extensions();
    extensions.add(&address, Contents::Kept).unwrap();
    cluster.wait(|states| states == [State::Serving]).await;
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
        }
        standby.kill();
        cluster.wait(|states| states == [State::Away]).await;
        assert_eq!(text(&reader, "SELECT n FROM t WHERE id = 2").await, "0");
        standby.restart_at(address.port).unwrap();
        cluster.wait(|states| states == [State::Serving]).await;
    }
    let promote = "SELECT pg_promote()";
    assert_eq!(text(&connect(standby.socket()).await, promote).await, "t");
    cluster.wait(|states| states != [State::Serving]).await;
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
            Weight::Stops,
            "it is a standby of another server than the Primary",
        ),
        (Weight::Fine, "it is a standby, and is followed as it is"),
    ];
    assert_eq!(of_standbys, expected);
    let whys = ["of another server", "without EMPTY"];
    let contents = [Contents::Kept, Contents::Dropped];
    for ((standby, contents), why) in standbys.iter().zip(contents).zip(whys) {
        let extensions = cluster.front.extensions();
        let id = extensions.add(&standby.address("postgres"), contents);
        let id = id.unwrap();
        cluster
            .wait(|states| states.last() == Some(&State::Quarantined))
            .await;
        let said = &extensions.replication().status()[&id].text;
        assert!(said.contains(why), "{said}");
    }
}
