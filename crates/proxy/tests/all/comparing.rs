//! Comparing a replica with the primary, while others change the definitions of tables.

use proxy_core::freshness::{ReplicaId, ReplicaState};

use crate::support::cluster::{Cluster, text, wait};
use crate::support::{connect, is_there};

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

/// A comparison holds locks, and waits for none meanwhile: a client whose locks come in another
/// order is in no deadlock with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparison_waits_for_no_lock() {
    if !is_there() {
        return;
    }
    let setup = "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)";
    let cluster = Cluster::start_after(setup).await;
    let replication = cluster.front.replicas().replication();
    let client = connect(cluster.primary.socket()).await;
    let admin = connect(cluster.primary.socket()).await;
    client.batch_execute("BEGIN; LOCK TABLE b").await.unwrap();
    let looks = "SELECT coalesce(string_agg(pid::text, ' '), ''),
        coalesce(bool_or(wait_event_type = 'Lock' AND now() - query_start > interval '1.5 s'), false)
        FROM pg_stat_activity WHERE application_name = 'replex compare'";
    let mut seen = std::collections::BTreeSet::new();
    // Until some have come and gone; or one waits for longer than it takes to look for a deadlock.
    while seen.len() < 10 {
        replication.compare_now();
        let row = admin.query_one(looks, &[]).await.unwrap();
        let (processes, waits): (String, bool) = (row.get(0), row.get(1));
        seen.extend(processes.split_whitespace().map(str::to_owned));
        if waits {
            break;
        }
    }
    client.batch_execute("LOCK TABLE a; COMMIT").await.unwrap();
    let compared = || replication.compared().get(&ReplicaId(1)).copied();
    let before = compared();
    cluster
        .wait(|_| {
            replication.compare_now();
            compared() > before
        })
        .await;
}
