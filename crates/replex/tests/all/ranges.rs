//! Ranges of every partition while rows move between partitions and a server is killed: each row
//! that is in the range throughout is read once.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Client, Table};
use placement::Value;
use protocol::configuration::Configuration;
use replex::cluster::{Cluster, ClusterOptions};
use sql::SqlSession;
use tokio::sync::mpsc;

use crate::support;
use crate::support::rows::number;
use crate::support::statements::{run, session};

const ROWS: i64 = 60;
/// Keys of the range that is read. The rows with even numbers never leave it.
const RANGE: std::ops::Range<i64> = 0..100;
const READS: usize = 25;
/// How long ranges may take to split or merge.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rows that are moved during each read.
const MOVES: usize = 4;

/// Moves some rows for each permit: those with even numbers within the range, the others into it
/// and out of it. A move whose outcome is unknown is repeated, which changes nothing.
async fn move_rows(address: String, mut permits: mpsc::Receiver<()>) -> usize {
    let mut session = session(&address).await;
    let mut moves = 0;
    while permits.recv().await.is_some() {
        for _ in 0..MOVES {
            let id = (moves as i64 * 7) % ROWS;
            let key = match id % 2 {
                0 => (moves as i64 * 37) % RANGE.end,
                _ => (moves as i64 % 2) * 1_000 + id,
            };
            let text = format!("UPDATE mv SET k = {key} WHERE id = {id}");
            while session.run_text(&text).await.is_err() {}
            moves += 1;
        }
    }
    moves
}

/// Checks rows of number and key: each once, those that stayed, none from outside, in order.
fn check(rows: &[(i64, i64)], descending: bool, what: &str) {
    let ids: BTreeSet<i64> = rows.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), rows.len(), "{what}: a row twice: {rows:?}");
    let stayed = (0..ROWS).step_by(2);
    let missing: Vec<i64> = stayed.filter(|id| !ids.contains(id)).collect();
    assert!(missing.is_empty(), "{what}: {missing:?} are missing");
    assert!(
        rows.iter().all(|(_, key)| RANGE.contains(key)),
        "{what}: {rows:?}"
    );
    let mut sorted: Vec<(i64, i64)> = rows.iter().map(|(id, key)| (*key, *id)).collect();
    if descending {
        sorted.reverse();
    }
    assert!(sorted.is_sorted(), "{what}: not in order: {rows:?}");
}

/// Reads the range in every way while rows move.
async fn read(session: &mut SqlSession<Client>, table: &Table, permits: &mpsc::Sender<()>) {
    let statements = [
        (
            "SELECT id, k FROM mv WHERE k BETWEEN 0 AND 99 ORDER BY k, id",
            false,
        ),
        (
            "SELECT id, k FROM mv WHERE k >= 0 AND k < 100 ORDER BY k DESC, id DESC",
            true,
        ),
        (
            "SELECT id, k FROM mv WHERE k < 100 ORDER BY k, id LIMIT 1000",
            false,
        ),
    ];
    for read in 0..READS {
        let (text, descending) = statements[read % statements.len()];
        // Rows are moved while these are read. A mover that is not through with the last ones, as
        // while a server is down, holds no read up.
        let _ = permits.try_send(());
        let rows = run(session, text).await;
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (number(&row[0]), number(&row[1])))
            .collect();
        check(&rows, descending, text);

        let text = "SELECT count(*) FROM mv WHERE k BETWEEN 0 AND 99";
        let count = number(&run(session, text).await[0][0]);
        assert!((ROWS / 2..=ROWS).contains(&count), "{text}: {count}");

        let (from, to) = ([Value::Int64(RANGE.start)], [Value::Int64(RANGE.end)]);
        let range = table.range("by_k", Bound::Included(&from), Bound::Excluded(&to));
        let mut coming = range.unwrap().rows().unwrap();
        let mut rows = Vec::new();
        while let Some(row) = coming.next().await.unwrap() {
            rows.push((number(&row.values[0]), number(&row.values[1])));
        }
        assert_eq!(coming.is_of_one_moment(), Some(true));
        check(&rows, false, "Table::range");

        let rows = run(session, "SELECT id FROM mv ORDER BY k LIMIT 1000").await;
        let ids: BTreeSet<i64> = rows.iter().map(|row| number(&row[0])).collect();
        assert_eq!((ids.len(), rows.len()), (ROWS as usize, ROWS as usize));
    }
    assert_eq!(session.take_notices(), [] as [String; 0]);
}

/// Reads ranges while a server is killed that holds a partition of the last replex of the table
/// that these statements make.
async fn read_while_a_server_is_killed(definition: &str) {
    let options = ClusterOptions {
        servers: 4,
        ..ClusterOptions::new(support::program())
    };
    let mut cluster = Cluster::start(options).await.unwrap();
    let address = cluster.coordinator_address().to_owned();
    let mut session = session(&address).await;
    run(&mut session, definition).await;
    for id in 0..ROWS {
        run(&mut session, &format!("INSERT INTO mv VALUES ({id}, {id})")).await;
    }
    let table = session.store().table("mv").await.unwrap();
    // One permit waits at most, so that rows do not move without pause: a read from a cover does
    // not hold them up.
    let (permits, wanted) = mpsc::channel(1);
    let moving = tokio::spawn(move_rows(address, wanted));

    read(&mut session, &table, &permits).await;
    let places = table.definition().placement.last();
    let killed = places.expect("a table has copies")[0].core.server;
    cluster.kill(killed.0 as usize - 1).await.unwrap();
    read(&mut session, &table, &permits).await;
    let is_replaced = |it: &Configuration| !it.holds(killed) && it.is_at_rest();
    cluster
        .wait_until("it is replaced", is_replaced)
        .await
        .unwrap();
    cluster.restart(killed.0 as usize - 1).await.unwrap();
    read(&mut session, &table, &permits).await;

    drop(permits);
    assert!(moving.await.unwrap() > READS, "rows were moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_have_each_row_once_while_rows_move_and_a_server_is_killed() {
    read_while_a_server_is_killed(
        "CREATE TABLE mv (id bigint PRIMARY KEY, k bigint NOT NULL, INDEX by_k (k), \
         INDEX by_k_id (k, id) WITH (partition_by = 'k')) \
         WITH (partitions = 5, durability = 'replicated')",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thin_indexes_show_each_row_once_while_rows_move_and_a_server_is_killed() {
    for durability in ["replicated", "sync"] {
        read_while_a_server_is_killed(&format!(
            "CREATE TABLE mv (id bigint PRIMARY KEY, k bigint NOT NULL) \
             WITH (partitions = 5, failures_tolerated = 1, durability = '{durability}'); \
             CREATE INDEX by_k_id ON mv (k, id); CREATE INDEX by_k ON mv (k)"
        ))
        .await;
    }
}

/// Returns the ranges of an index, in the order of their keys: the first key of each as text, and
/// the core that holds it.
async fn index_ranges(session: &mut SqlSession<Client>, index: &str) -> Vec<(String, String)> {
    let rows = run(session, "SHOW INDEX RANGES FROM mv").await;
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?} is no text"),
    };
    let rows = rows.iter().filter(|row| text(&row[0]) == index);
    rows.map(|row| (text(&row[1]), text(&row[4]))).collect()
}

/// Waits until the number of an index's ranges is as wanted.
async fn wait_for_ranges(
    session: &mut SqlSession<Client>,
    index: &str,
    is_wanted: impl Fn(usize) -> bool,
) {
    let begin = Instant::now();
    loop {
        session.store().refresh().await.unwrap();
        let ranges = index_ranges(session, index).await;
        if is_wanted(ranges.len()) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{index} has {ranges:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_an_index_split_and_merge_while_it_is_used() {
    split_and_merge(
        "CREATE TABLE mv (id bigint PRIMARY KEY, k bigint NOT NULL) \
         WITH (partitions = 5, failures_tolerated = 1, durability = 'replicated'); \
         CREATE INDEX by_k_id ON mv (k, id); CREATE INDEX by_k ON mv (k)",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_a_copy_split_and_merge_while_it_is_used() {
    split_and_merge(
        "CREATE TABLE mv (id bigint PRIMARY KEY, k bigint NOT NULL, \
         INDEX by_k_id (k, id) WITH (ranges = on)) \
         WITH (partitions = 5, failures_tolerated = 1, durability = 'sync'); \
         CREATE INDEX by_k ON mv USING replex (k) WITH (ranges = on)",
    )
    .await;
}

/// Ranges split while rows are written and read, spread over servers, survive a server, and merge
/// again once the rows are gone. Each read has every row once, in order. The statements make the
/// table.
async fn split_and_merge(definition: &str) {
    let options = ClusterOptions {
        servers: 4,
        server_arguments: vec!["--range-entries".into(), "16".into()],
        ..ClusterOptions::new(support::program())
    };
    let mut cluster = Cluster::start(options).await.unwrap();
    let address = cluster.coordinator_address().to_owned();
    let mut session = session(&address).await;
    run(&mut session, definition).await;
    assert_eq!(index_ranges(&mut session, "by_k").await.len(), 1);
    for id in 0..ROWS {
        run(&mut session, &format!("INSERT INTO mv VALUES ({id}, {id})")).await;
    }
    let table = session.store().table("mv").await.unwrap();
    let (permits, wanted) = mpsc::channel(1);
    let moving = tokio::spawn(move_rows(address, wanted));
    read(&mut session, &table, &permits).await;
    wait_for_ranges(&mut session, "by_k", |count| count >= 4).await;
    let ranges = index_ranges(&mut session, "by_k").await;
    let cores: BTreeSet<&String> = ranges.iter().map(|(_, core)| core).collect();
    assert!(cores.len() > 1, "all ranges are on {cores:?}");
    read(&mut session, &table, &permits).await;

    let places = table.definition().placement.last();
    let killed = places.expect("a table has copies")[0].core.server;
    cluster.kill(killed.0 as usize - 1).await.unwrap();
    read(&mut session, &table, &permits).await;
    let is_replaced = |it: &Configuration| !it.holds(killed);
    cluster
        .wait_until("it is replaced", is_replaced)
        .await
        .unwrap();
    cluster.restart(killed.0 as usize - 1).await.unwrap();
    read(&mut session, &table, &permits).await;
    drop(permits);
    assert!(moving.await.unwrap() > READS, "rows were moved");

    run(&mut session, "DELETE FROM mv WHERE id >= 2").await;
    for index in ["by_k", "by_k_id"] {
        wait_for_ranges(&mut session, index, |count| count == 1).await;
    }
    let rows = run(
        &mut session,
        "SELECT id FROM mv WHERE k > -1 ORDER BY k, id",
    )
    .await;
    assert_eq!(rows.len(), 2);
}

/// Reads rows by keys of an index until it is over, each key as often as the others.
async fn look_up(address: String, over: Arc<AtomicBool>) -> usize {
    let mut session = session(&address).await;
    let mut reads = 0;
    while !over.load(Ordering::Relaxed) {
        let key = (reads as i64 * 37) % ROWS;
        let text = format!("SELECT id FROM mv WHERE k = {key}");
        let rows = run(&mut session, &text).await;
        assert_eq!(rows, [[Value::Int64(key)]], "{text}");
        reads += 1;
    }
    reads
}

/// A range with few entries and many requests is split while it is read and written, and is merged
/// no more than the requests allow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_with_many_requests_is_split() {
    let options = ClusterOptions {
        servers: 3,
        server_arguments: vec!["--range-requests".into(), "20".into()],
        ..ClusterOptions::new(support::program())
    };
    let cluster = Cluster::start(options).await.unwrap();
    let address = cluster.coordinator_address().to_owned();
    let mut session = session(&address).await;
    run(
        &mut session,
        "CREATE TABLE mv (id bigint PRIMARY KEY, k bigint NOT NULL, n bigint) \
         WITH (failures_tolerated = 1, durability = 'replicated'); \
         CREATE INDEX by_k ON mv (k); CREATE INDEX by_n ON mv (n)",
    )
    .await;
    for id in 0..ROWS {
        let text = format!("INSERT INTO mv VALUES ({id}, {id}, 0)");
        run(&mut session, &text).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let reading = tokio::spawn(look_up(address, Arc::clone(&over)));
    wait_for_ranges(&mut session, "by_k", |count| count >= 2).await;
    let ranges = index_ranges(&mut session, "by_k").await;
    let cores: BTreeSet<&String> = ranges.iter().map(|(_, core)| core).collect();
    assert!(cores.len() > 1, "all ranges are on {cores:?}");
    run(
        &mut session,
        "UPDATE mv SET n = n + 1 WHERE k BETWEEN 0 AND 99",
    )
    .await;
    let rows = run(&mut session, "SELECT id FROM mv WHERE k < 100 ORDER BY k").await;
    assert_eq!(rows.len(), ROWS as usize);
    over.store(true, Ordering::Relaxed);
    assert!(reading.await.unwrap() > 0);
    let unread = index_ranges(&mut session, "by_n").await;
    assert_eq!(unread.len(), 1, "nothing reads it");
}
