//! Reads that are too large for a moment show one state of the table, whatever is written meanwhile
//! (R36-R39): exports, reads by every index, checksums.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{
    Assignment, Client, ConnectOptions, Durability, Error, Expression, IfExists, Index,
    SchemaBuilder, SnapshotFailure, Table,
};
use placement::{ColumnType, Value};
use protocol::configuration::{Configuration, ServerState};
use protocol::identity::CoreId;
use replex::cluster::Cluster;
use tokio::task::JoinSet;

use crate::support;
use crate::support::counting::{self, WRITERS, counts_at, counts_of, expect_one_state};
use crate::support::rows::is_quiet;

/// Rows of which each is 8 KiB: more than a moment reads.
const ROWS: i64 = 700;

async fn connect(cluster: &Cluster) -> Client {
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    Client::connect(options).await.unwrap()
}

fn row(id: i64, n: i64) -> Vec<Value> {
    let pad = "x".repeat(8_192);
    vec![
        Value::Int64(id),
        Value::Int64(ROWS - id),
        Value::Int64(n),
        Value::Text(pad),
    ]
}

/// Creates the table `counters`, whose rows all count 0.
async fn create(cluster: &Cluster) -> Table {
    let schema = counting::schema()
        .partitions(3)
        .failures_tolerated(1)
        .durability(Durability::Replicated)
        .build()
        .unwrap();
    let client = connect(cluster).await;
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    let mut inserts = JoinSet::new();
    for first in 0..8 {
        let table = table.clone();
        inserts.spawn(async move {
            for id in (first..ROWS).step_by(8) {
                assert!(table.insert(&row(id, 0)).await.unwrap().took_effect());
            }
        });
    }
    while let Some(inserted) = inserts.join_next().await {
        inserted.unwrap();
    }
    table
}

/// Sets the count of a row.
async fn count(table: &Table, id: i64, n: i64) {
    let assignment = Assignment {
        column: 2,
        value: Expression::Literal(Value::Int64(n)),
    };
    let pk = [Value::Int64(id)];
    let written = table.update(&pk, vec![assignment], None).await.unwrap();
    assert!(written.took_effect(), "{written:?}");
}

/// Counts rows up by pairs, the second of a pair once the first is acknowledged.
struct Counting {
    over: Arc<AtomicBool>,
    writers: JoinSet<i64>,
}

impl Counting {
    fn start(table: &Table) -> Counting {
        let over = Arc::new(AtomicBool::new(false));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (table, over) = (table.clone(), Arc::clone(&over));
            writers.spawn(async move {
                let mut rounds = 0;
                while !over.load(Ordering::Relaxed) {
                    rounds += 1;
                    // The pairs of a writer are far apart, so that a slow read meets many writes.
                    for id in [writer, ROWS - 1 - writer] {
                        count(&table, id, rounds).await;
                    }
                }
                rounds
            });
        }
        Counting { over, writers }
    }

    async fn stop(mut self) -> i64 {
        self.over.store(true, Ordering::Relaxed);
        let mut rounds = 0;
        while let Some(written) = self.writers.join_next().await {
            rounds += written.unwrap();
        }
        rounds
    }
}

/// Returns how many snapshots the cores of the cluster know, and the bytes that they keep for them.
async fn kept(client: &Client) -> u64 {
    let mut kept = 0;
    for server in &client.configuration().servers {
        for core in 0..server.cores.len() {
            let core = CoreId {
                server: server.id,
                core: u16::try_from(core).unwrap(),
            };
            let counters = client.status(core).await.unwrap();
            let of_snapshots = [
                "snapshots",
                "snapshots_opened_here",
                "snapshot_history_bytes",
            ];
            let counters = counters.into_iter();
            let counters = counters.filter(|(name, _)| of_snapshots.contains(&name.as_str()));
            kept += counters.map(|(_, count)| count).sum::<u64>();
        }
    }
    kept
}

async fn wait_until_nothing_is_kept(client: &Client) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while kept(client).await > 0 {
        assert!(Instant::now() < deadline, "snapshots are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_under_load_are_of_one_state() {
    let cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    let address = cluster.coordinator_address().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let counting = Counting::start(&table);
    for number in 0..6 {
        let path = folder.path().join(format!("{number}.csv"));
        let output = path.to_str().unwrap();
        support::run_well(&["export", "counters", "-C", &address, "-o", output]);
        expect_one_state(&counts_of(&path), ROWS, "the export");
    }
    assert!(counting.stop().await > 0, "no row was counted up");
    wait_until_nothing_is_kept(table.client()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_the_same_by_every_index_while_rows_change() {
    let cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    let client = table.client();
    let counting = Counting::start(&table);
    for round in 1..=5 {
        count(&table, ROWS / 2, round).await;
        let snapshot = client.snapshot(&[&table]).await.unwrap();
        // Later writes are not in it, although every row is overwritten or removed.
        count(&table, ROWS / 2, -round).await;
        let gone = [Value::Int64(ROWS / 3)];
        assert!(table.delete(&gone, None).await.unwrap().took_effect());
        let by_id = counts_at(&table, "counters", &snapshot).await.unwrap();
        expect_one_state(&by_id, ROWS, "by id");
        assert_eq!(by_id[&(ROWS / 2)], round, "an acknowledged write is there");
        for index in ["by_back", "by_n"] {
            assert_eq!(
                counts_at(&table, index, &snapshot).await.unwrap(),
                by_id,
                "{index}"
            );
        }
        let mut sums = Vec::new();
        for copy in 0..3 {
            sums.push(table.checksum_at(copy, Some(&snapshot)).await.unwrap());
        }
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        assert_eq!(
            counts_at(&table, "counters", &snapshot).await.unwrap(),
            by_id,
            "read again"
        );
        let back = row(ROWS / 3, 0);
        assert!(table.insert(&back).await.unwrap().took_effect());
    }
    assert!(counting.stop().await > 0, "no row was counted up");
    wait_until_nothing_is_kept(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_came_later_are_passed_page_by_page() {
    const LATER: i64 = 40_000;
    let cluster = support::cluster(3).await;
    let schema = SchemaBuilder::new("log")
        .column("id", ColumnType::Int64)
        .primary_key(&["id"])
        .index("by_id", &["id"])
        .partitions(1)
        .failures_tolerated(1)
        .durability(Durability::Replicated)
        .build()
        .unwrap();
    let client = connect(&cluster).await;
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    support::rows::fill(&table, 0..3, 1, |id| vec![Value::Int64(-id)]).await;
    let snapshot = client.snapshot(&[&table]).await.unwrap();
    support::rows::fill(&table, 0..LATER, 64, |id| vec![Value::Int64(id + 1)]).await;
    // More keys than a page looks at have no row at the version.
    for descending in [false, true] {
        let scan = table.scan().at(&snapshot);
        let scan = if descending {
            scan.descending()
        } else {
            scan.ascending()
        };
        let rows = scan.rows().unwrap().all().await.unwrap();
        let mut ids: Vec<Value> = rows.into_iter().map(|row| row.values[0].clone()).collect();
        if descending {
            ids.reverse();
        }
        assert_eq!(ids, [-2, -1, 0].map(Value::Int64));
    }
    assert_eq!(table.scan().at(&snapshot).count().await.unwrap(), 3);
    let sum = table.checksum_at(1, Some(&snapshot)).await.unwrap();
    assert_eq!(sum.count, 3);
    assert_eq!(table.scan().count().await.unwrap(), LATER as u64 + 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_overwritten_all_the_time_fills_no_history() {
    let cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    let snapshot = table.client().snapshot(&[&table]).await.unwrap();
    // Each version has 8 KiB: all of them together would take more than a core keeps.
    let before = counts_at(&table, "counters", &snapshot).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let table = table.clone();
        writers.spawn(async move {
            for round in 1..=1_200 {
                count(&table, writer, round).await;
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    assert_eq!(
        counts_at(&table, "counters", &snapshot).await.unwrap(),
        before
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_copies_are_equal_under_load() {
    let cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    let address = cluster.coordinator_address().to_owned();
    let counting = Counting::start(&table);
    for _ in 0..5 {
        let report = support::run_well(&["admin", "check", "counters", "-C", &address, "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let copies = report["copies"].as_array().unwrap();
        assert_eq!(copies.len(), 3);
        for copy in copies {
            assert_eq!(copy["rows"], ROWS, "{report}");
            assert_eq!(copy["checksum"], copies[0]["checksum"], "{report}");
        }
    }
    assert!(counting.stop().await > 0, "no row was counted up");
    wait_until_nothing_is_kept(table.client()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_ends_with_a_change_of_its_table() {
    let cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    let client = table.client();
    let snapshot = client.snapshot(&[&table]).await.unwrap();
    let mut wanted = table.schema().clone();
    wanted.indexes.push(Index {
        name: "by_n_again".to_owned(),
        columns: vec![2],
        constraint: None,
        partition_columns: None,
        by_range: false,
    });
    client.add_copy(wanted, &|_| {}).await.unwrap();
    let table = client.table("counters").await.unwrap();
    let read = table.scan().at(&snapshot).rows().unwrap().all().await;
    let reason = match read {
        Err(Error::Snapshot { reason }) => reason,
        other => panic!("{:?}", other.map(|rows| rows.len())),
    };
    assert_eq!(reason, SnapshotFailure::ClusterChanged);
    // The next one has all rows, by the new index, too.
    let snapshot = client.snapshot(&[&table]).await.unwrap();
    let by_id = counts_at(&table, "counters", &snapshot).await.unwrap();
    expect_one_state(&by_id, ROWS, "by id");
    drop(snapshot);
    wait_until_nothing_is_kept(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_there_is_no_snapshot_but_rows_can_be_read() {
    let mut cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    let client = table.client();
    let address = cluster.coordinator_address().to_owned();
    let snapshot = client.snapshot(&[&table]).await.unwrap();
    // The server of the core that opens snapshots of the table.
    let known = client.configuration();
    let opener = known.table(table.id()).unwrap().placement[0][0].core.server;
    let position = opener.0 as usize - 1;
    cluster.kill(position).await.unwrap();
    let is_down = |it: &Configuration| {
        let mut servers = it.servers.iter();
        servers.any(|server| server.state == ServerState::Down)
    };
    cluster
        .wait_until("a server is down", is_down)
        .await
        .unwrap();
    client.refresh().await.unwrap();
    let refused = client.snapshot(&[&table]).await;
    assert!(
        matches!(
            refused,
            Err(Error::Snapshot {
                reason: SnapshotFailure::ServerMissing(_)
            })
        ),
        "{refused:?}"
    );
    let read = table.scan().at(&snapshot).rows().unwrap().all().await;
    assert!(matches!(read, Err(Error::Snapshot { .. })), "it has ended");
    let error = support::run_badly(&["export", "counters", "-C", &address], 1);
    assert!(error.contains("cannot be read as one state"), "{error}");
    assert!(error.contains("--without-snapshot"), "{error}");
    let whole = table.scan().rows().unwrap().all().await.unwrap();
    assert_eq!(whole.len() as i64, ROWS);
    let arguments = ["export", "counters", "-C", &address, "--without-snapshot"];
    let exported = support::run_well(&arguments);
    assert_eq!(exported.lines().count() as i64, ROWS + 1);
    cluster.restart(position).await.unwrap();
    cluster.wait_until("all serve", is_quiet).await.unwrap();
    let snapshot = client.snapshot(&[&table]).await.unwrap();
    expect_one_state(
        &counts_at(&table, "counters", &snapshot).await.unwrap(),
        ROWS,
        "afterwards",
    );
}

/// Kills the process when it goes out of scope.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_killed_leaves_nothing_behind() {
    let cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    // It stands still when its pipe is full, in the middle of the table.
    let export = Command::new(support::program())
        .args(["export", "counters", "-C", cluster.coordinator_address()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let export = Killed(export.unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    while kept(table.client()).await == 0 {
        assert!(Instant::now() < deadline, "no snapshot is opened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let counting = Counting::start(&table);
    drop(export);
    wait_until_nothing_is_kept(table.client()).await;
    assert!(counting.stop().await > 0, "no row was counted up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_keeps_its_snapshots_leaves_room_for_others() {
    let cluster = support::cluster(3).await;
    let table = create(&cluster).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let hasty = Client::connect(options.deadline(Duration::from_secs(1)));
    let hasty = hasty.await.unwrap();
    let of_hasty = hasty.table("counters").await.unwrap();
    let mut kept = Vec::new();
    // How many it may keep is the servers' limit.
    let refused = loop {
        match hasty.snapshot(&[&of_hasty]).await {
            Ok(snapshot) => kept.push(snapshot),
            Err(error) => break error,
        }
    };
    let text = refused.to_string();
    assert!(text.contains("as many snapshots of the table"), "{text}");
    assert_eq!(kept.len(), 32);
    let client = connect(&cluster).await;
    let table_of_client = client.table("counters").await.unwrap();
    let snapshot = client.snapshot(&[&table_of_client]).await.unwrap();
    expect_one_state(
        &counts_at(&table_of_client, "counters", &snapshot)
            .await
            .unwrap(),
        ROWS,
        "another client's",
    );
    kept.pop();
    hasty.snapshot(&[&of_hasty]).await.unwrap();
    drop((kept, snapshot));
    wait_until_nothing_is_kept(table.client()).await;
}
