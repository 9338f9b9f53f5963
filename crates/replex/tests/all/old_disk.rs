//! A server that was replaced comes back with its old disk: it gets its partitions back, and only
//! the rows that changed meanwhile travel (R25).

use client::Table;
use futures_util::stream::{self, StreamExt};
use placement::Value;
use protocol::configuration::{Configuration, ServerState};
use protocol::identity::{CoreId, ServerId};
use protocol::operation::RequestResult;
use replex::cluster::Cluster;

use crate::support;
use crate::support::rows::{self, is_quiet};

/// Rows of 1 kB: some MiB in each copy, of which a checkpoint takes the most.
const ROWS: i64 = 6_000;
const NOTE_BYTES: usize = 1_000;
/// Rows that change while the server is offline.
const CHANGED: i64 = 40;

#[tokio::test]
async fn replaced_server_gets_its_partitions_back_by_changes_only() {
    let mut options = support::options(4);
    options.server_arguments = ["--tables-memory-mib", "1"].map(str::to_owned).into();
    let mut cluster = Cluster::start(options).await.unwrap();
    let address = cluster.coordinator_address().to_owned();
    let table = rows::create(&cluster).await;
    insert(&table, 0..ROWS).await;
    let lost = table.definition().placement[1][0].core.server;
    let before = held(&cluster.configuration().await.unwrap(), lost);
    let core = CoreId {
        server: lost,
        core: 0,
    };
    let counters = cluster.counters(core).await.unwrap();
    assert!(counter(&counters, "checkpoints") > 0, "{counters:?}");
    let rows = rows_of(&table, &before);

    cluster.kill(lost.0 as usize - 1).await.unwrap();
    let number = lost.0.to_string();
    let admin = |command: &[&str]| {
        let arguments = [&["admin"], command, &["-C", &address]].concat();
        support::run_well(&arguments)
    };
    cluster
        .wait_until("it is down", |it| {
            it.server(lost).unwrap().state == ServerState::Down
        })
        .await
        .unwrap();
    admin(&["server", "remove", &number]);
    let is_replaced = |it: &Configuration| !it.holds(lost) && is_quiet(it);
    cluster
        .wait_until("it is replaced", is_replaced)
        .await
        .unwrap();
    for id in 0..CHANGED {
        let result = table.delete(&[Value::Int64(id * 100)], None).await.unwrap();
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
    }
    insert(&table, ROWS..ROWS + CHANGED).await;

    cluster.restart(lost.0 as usize - 1).await.unwrap();
    let is_back = |it: &Configuration| held(it, lost) == before && is_quiet(it);
    cluster
        .wait_until("it has back what it held", is_back)
        .await
        .unwrap();
    let counters = cluster.counters(core).await.unwrap();
    let moved = counter(&counters, "moved_rows");
    // All rows that were inserted since the last checkpoint, too, and the changed ones.
    assert!(
        moved > 0 && moved < rows / 2,
        "{moved} of {rows} rows moved"
    );
    let check = admin(&["check", "people"]);
    assert!(check.contains("All copies hold the same rows"), "{check}");
    // Its possible later rows are dropped: nothing waits for its disk any more.
    let configuration = cluster.configuration().await.unwrap();
    assert!(configuration.places().all(|(_, it)| it.former.is_none()));
}

fn counter(counters: &[(String, u64)], name: &str) -> u64 {
    let found = counters.iter().find(|(it, _)| it == name);
    found.map(|(_, value)| *value).unwrap()
}

type Cells = Vec<(u8, u32)>;

fn held(configuration: &Configuration, server: ServerId) -> Cells {
    let places = configuration.places();
    let held = places.filter(|(_, place)| place.core.server == server);
    held.map(|(id, _)| (id.replex, id.number)).collect()
}

/// About how many rows these partitions have.
fn rows_of(table: &Table, cells: &Cells) -> u64 {
    let partitions = table.definition().placement[0].len() as u64;
    ROWS as u64 * cells.len() as u64 / partitions
}

fn person(id: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {}", id % 97));
    let note = Value::Text("n".repeat(NOTE_BYTES));
    vec![Value::Int64(id), city, Value::Int64(id % 5), note]
}

async fn insert(table: &Table, ids: std::ops::Range<i64>) {
    let inserts = stream::iter(ids).map(|id| async move { table.insert(&person(id)).await });
    let results: Vec<_> = inserts.buffer_unordered(64).collect().await;
    assert!(results.iter().all(Result::is_ok));
}
