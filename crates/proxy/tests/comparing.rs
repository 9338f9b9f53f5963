//! Comparing a replica with the primary, while others change the definitions of tables.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use proxy_core::freshness::{ReplicaId, ReplicaState};
use support::cluster::{Cluster, text, wait};
use support::{connect, is_there};

/// Comparing the first table takes a while.
const SETUP: &str = "
CREATE TABLE a_large (id int PRIMARY KEY, v text);
INSERT INTO a_large SELECT n, repeat('x', 100) FROM generate_series(1, 60000) AS n;
CREATE TABLE latest (id int PRIMARY KEY, change text);
INSERT INTO latest VALUES (1, '')";

/// Changes of tables while they are compared are no differences: neither new columns, nor tables
/// that are emptied, or dropped and made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_tables_are_no_differences() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let changer = connect(cluster.primary.socket()).await;
    let follower = connect(cluster.replicas[0].socket()).await;
    // As fast as the replica makes them, too: on a machine of any speed it is never far behind.
    let changes = async {
        for round in 0.. {
            let table = format!("z{}", round % 5);
            let rows = "SELECT n, 'x' FROM generate_series(1, 50) AS n";
            for (step, sql) in [
                format!(
                    "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int PRIMARY KEY, v text);
                     INSERT INTO {table} {rows}"
                ),
                format!("ALTER TABLE {table} ADD n int DEFAULT 5"),
                format!("TRUNCATE {table}; INSERT INTO {table} {rows}"),
            ]
            .iter()
            .enumerate()
            {
                let name = format!("{round}.{step}");
                let named = format!("{sql}; UPDATE latest SET change = '{name}'");
                changer.batch_execute(&named).await.unwrap();
                wait("change at the replica", || async {
                    let latest = text(&follower, "SELECT change FROM latest").await;
                    (latest == name).then_some(())
                })
                .await;
            }
        }
    };
    let replication = cluster.front.replicas().replication();
    let comparisons = cluster.wait(|states| {
        replication.compare_now();
        assert_ne!(
            states,
            [ReplicaState::Quarantined],
            "{:?}",
            replication.status()
        );
        replication.compared().get(&ReplicaId(1)) >= Some(&12)
    });
    tokio::select! {
        () = changes => {}
        () = comparisons => {}
    }
}
