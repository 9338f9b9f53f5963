//! Thin indexes whose entries are kept twice: with one server down, lookups and ranges by such an
//! index read no copy of the table.

use std::collections::BTreeSet;

use client::{Client, ConnectOptions};
use placement::Value;
use protocol::configuration::{Configuration, ServerState};
use protocol::identity::ServerId;
use replex::cluster::{Cluster, ClusterOptions};
use sql::SqlSession;

use crate::support;
use crate::support::redirected::redirected;
use crate::support::rows::is_quiet;
use crate::support::statements::run;

const ROWS: i64 = 600;
const SERVERS: usize = 4;
/// Ranges have so few entries that both copies are split, at keys of their own.
const RANGE_ENTRIES: &str = "64";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_copy_answers_for_a_lost_server() {
    let options = ClusterOptions {
        servers: SERVERS,
        server_arguments: ["--range-entries", RANGE_ENTRIES].map(str::to_owned).into(),
        // No partition is filled at another server meanwhile.
        coordinator_arguments: ["--replace-after", "never"].map(str::to_owned).into(),
        ..ClusterOptions::new(support::program())
    };
    let mut cluster = Cluster::start(options).await.unwrap();
    let options = ConnectOptions::new([cluster.coordinator_address().to_owned()]);
    let client = Client::connect(options).await.unwrap();
    let mut session = SqlSession::new(client.clone());
    // Entries that are kept twice answer alone for `k`, and those that are kept once for `m`.
    run(
        &mut session,
        "CREATE TABLE kept (id bigint PRIMARY KEY, k bigint NOT NULL, m bigint NOT NULL, \
         u bigint NOT NULL) WITH (failures_tolerated = 1, durability = 'replicated'); \
         CREATE INDEX by_k ON kept (k) WITH (copies = 2); \
         CREATE INDEX by_hash ON kept (k, m) WITH (copies = 2, ranges = off); \
         CREATE UNIQUE INDEX by_u ON kept USING btree (u) WITH (copies = 2); \
         CREATE INDEX by_m ON kept (m)",
    )
    .await;
    for first in (0..ROWS).step_by(100) {
        let rows = (first..first + 100).map(|id| format!("({id}, {id}, {id}, {id})"));
        let rows: Vec<String> = rows.collect();
        let text = format!("INSERT INTO kept VALUES {}", rows.join(", "));
        run(&mut session, &text).await;
    }
    let are_split = |configuration: &Configuration| {
        let counts = ["by_k", "by_k#2", "by_m"].map(|name| ranges(configuration, name).len());
        counts.iter().all(|count| *count >= 4) && is_quiet(configuration)
    };
    cluster
        .wait_until("they are split", are_split)
        .await
        .unwrap();
    let address = cluster.coordinator_address().to_owned();
    let show = "SHOW INDEX RANGES FROM kept";
    let shown = support::run_well(&["sql", "-C", &address, "-c", show]);
    assert!(shown.matches("by_k#2").count() >= 4, "{shown}");

    for lost in 0..SERVERS {
        let id = ServerId(u32::try_from(lost).unwrap() + 1);
        cluster.kill(lost).await.unwrap();
        let is_down = |configuration: &Configuration| {
            let server = configuration.server(id);
            server.is_some_and(|server| server.state == ServerState::Down)
        };
        cluster.wait_until("it is down", is_down).await.unwrap();
        check(&mut session, &client, id).await;
        cluster.restart(lost).await.unwrap();
        cluster.wait_until_serving().await.unwrap();
        cluster.wait_until("all is filled", is_quiet).await.unwrap();
    }
    cluster.check_processes().unwrap();
}

/// Reads by all indexes while a server is down.
async fn check(session: &mut SqlSession<Client>, client: &Client, lost: ServerId) {
    let holds = |name: &str| {
        let configuration = client.configuration();
        ranges(&configuration, name).contains(&lost)
    };
    let loses_single = holds("by_m");
    let dead = BTreeSet::from([lost]);
    let before = redirected(client, &dead).await[0];
    let ascending: Vec<i64> = (100..500).collect();
    let descending: Vec<i64> = ascending.iter().rev().copied().collect();
    for (order, expected) in [("k", &ascending), ("k DESC", &descending)] {
        let text = format!("SELECT k FROM kept WHERE k >= 100 AND k < 500 ORDER BY {order}");
        let found = run(session, &text).await;
        let expected: Vec<Vec<Value>> = expected.iter().map(|k| vec![Value::Int64(*k)]).collect();
        assert_eq!(found, expected, "{order} without {lost:?}");
    }
    for k in (0..ROWS).step_by(7) {
        let by_range = format!("SELECT k FROM kept WHERE k = {k}");
        let by_hash = format!("SELECT m FROM kept WHERE k = {k} AND m = {k}");
        let by_key = format!("SELECT u FROM kept WHERE u = {k}");
        for text in [by_range, by_hash, by_key] {
            let found = run(session, &text).await;
            assert_eq!(found, [[Value::Int64(k)]], "{text} without {lost:?}");
        }
    }
    let after = redirected(client, &dead).await[0];
    assert_eq!(
        after, before,
        "a copy of the table was read without {lost:?}"
    );
    // The same statement by an index with one copy does read a copy of the table.
    let found = run(session, "SELECT m FROM kept WHERE m >= 0 ORDER BY m").await;
    assert_eq!(found.len(), ROWS as usize);
    assert_eq!(redirected(client, &dead).await[0] > after, loses_single);
}

/// Returns the servers of the ranges of an index.
fn ranges(configuration: &Configuration, name: &str) -> Vec<ServerId> {
    let Some(table) = configuration.table_named("kept") else {
        return Vec::new();
    };
    let replexes = &table.layout.replexes;
    let Some(number) = replexes.iter().position(|replex| replex.name == name) else {
        return Vec::new();
    };
    let ranges = replexes[number].ranges.as_ref().unwrap();
    let places = ranges.starts.iter();
    let places = places.map(|start| table.placement[number][start.partition as usize]);
    places.map(|place| place.core.server).collect()
}
