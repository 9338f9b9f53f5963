//! A statement reads one state (R35): rows that move between the keys, cells and pages that it
//! reads are found once each, and are changed once each.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use client::Client;
use placement::Value;
use sql::SqlSession;
use tokio::task::JoinSet;

use crate::support;
use crate::support::statements::{run, session};

const MOVERS: i64 = 4;
const ROWS: i64 = 8;
const READS: usize = 300;

/// Rows 1 to 8 of a table, each moved by `UPDATE … SET tail = …` without pause while `reads` goes
/// on.
async fn while_rows_move<F: Future<Output = ()>>(
    address: &str,
    table: &'static str,
    tails: &'static [&'static str],
    reads: F,
) {
    let over = Arc::new(AtomicBool::new(false));
    let mut movers = JoinSet::new();
    for mover in 0..MOVERS {
        let mut session = session(address).await;
        let over = Arc::clone(&over);
        movers.spawn(async move {
            let mut moves = 0;
            while !over.load(Ordering::Relaxed) {
                let tail = tails[moves % tails.len()];
                for id in [2 * mover + 1, 2 * mover + 2] {
                    let text = format!("UPDATE {table} SET tail = '{tail}' WHERE id = {id}");
                    run(&mut session, &text).await;
                }
                moves += 1;
            }
            assert!(moves > 0, "no row has moved");
        });
    }
    reads.await;
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = movers.join_next().await {
        ended.unwrap();
    }
}

async fn create(session: &mut SqlSession<Client>, table: &str, index: &str) {
    let text = format!(
        "CREATE TABLE {table} (id bigint PRIMARY KEY, tail text, origin text, n bigint, {index}) \
         WITH (durability = 'replicated')"
    );
    run(session, &text).await;
    for id in 1..=ROWS {
        let text = format!("INSERT INTO {table} VALUES ({id}, 'a', 'x', 0)");
        run(session, &text).await;
    }
}

fn ids() -> Vec<Vec<Value>> {
    (1..=ROWS).map(|id| vec![Value::Int64(id)]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_move_between_keys_are_read_and_changed_once() {
    let cluster = support::cluster(3).await;
    let address = cluster.coordinator_address().to_owned();
    let mut session = session(&address).await;
    create(&mut session, "mv", "INDEX by_tail (tail)").await;
    while_rows_move(&address, "mv", &["b", "a"], async {
        let lists = [
            "SELECT id FROM mv WHERE tail IN ('a', 'b') ORDER BY id",
            "SELECT id FROM mv WHERE tail = 'b' OR tail = 'a' ORDER BY id",
            "SELECT /*+ scan */ id FROM mv WHERE tail >= 'a' ORDER BY id",
            "SELECT id FROM mv WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8) AND n >= 0 ORDER BY id",
        ];
        let counts = [
            "SELECT count(*) FROM mv WHERE tail IN ('a', 'b')",
            "SELECT /*+ scan */ count(*) FROM mv",
        ];
        let update = "UPDATE mv SET n = n + 1 WHERE tail IN ('a', 'b')";
        for read in 0..READS {
            let text = lists[read % lists.len()];
            assert_eq!(run(&mut session, text).await, ids(), "{text}");
            let text = counts[read % counts.len()];
            let count = run(&mut session, text).await;
            assert_eq!(count, [[Value::Int64(ROWS)]], "{text}");
            if read % 3 == 0 {
                run(&mut session, update).await;
            }
        }
        assert_eq!(session.take_notices(), [] as [String; 0]);
        let changed = run(&mut session, "SELECT /*+ scan */ n FROM mv").await;
        let updates = i64::try_from(READS.div_ceil(3)).unwrap();
        assert_eq!(changed, vec![vec![Value::Int64(updates)]; 8]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_move_between_cells_are_read_once() {
    let cluster = support::cluster(3).await;
    let address = cluster.coordinator_address().to_owned();
    let mut session = session(&address).await;
    let index = "INDEX s USING hyperspace (tail, origin) WITH (divisions = '4,3')";
    create(&mut session, "hs", index).await;
    while_rows_move(&address, "hs", &["b", "c", "d", "a"], async {
        for _ in 0..READS {
            let text = "SELECT id FROM hs WHERE origin = 'x' ORDER BY id";
            assert_eq!(run(&mut session, text).await, ids());
            let text = "SELECT count(*) FROM hs WHERE origin = 'x'";
            assert_eq!(run(&mut session, text).await, [[Value::Int64(ROWS)]]);
        }
    })
    .await;
}

/// Two rows at the two ends of a key of several pages: the first is always written before the
/// second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_several_pages_is_of_one_moment() {
    const LONG: i64 = 300;
    let cluster = support::cluster(3).await;
    let address = cluster.coordinator_address().to_owned();
    let mut session = session(&address).await;
    run(
        &mut session,
        "CREATE TABLE pg (id bigint PRIMARY KEY, k text, n bigint, pad text, INDEX by_k (k)) \
         WITH (durability = 'replicated')",
    )
    .await;
    let pad = "p".repeat(8_000);
    for id in 0..LONG {
        let text = format!("INSERT INTO pg VALUES ({id}, 'big', 0, '{pad}')");
        run(&mut session, &text).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicI64::new(0));
    let mut writer = self::session(&address).await;
    let (ends, counts) = (Arc::clone(&over), Arc::clone(&written));
    let writing = tokio::spawn(async move {
        for round in 1.. {
            if ends.load(Ordering::Relaxed) {
                return;
            }
            for id in [0, LONG - 1] {
                let text = format!("UPDATE pg SET n = {round} WHERE id = {id}");
                run(&mut writer, &text).await;
            }
            counts.store(round, Ordering::Relaxed);
        }
    });
    for _ in 0..40 {
        let known = written.load(Ordering::Relaxed);
        let text = "SELECT n, pad FROM pg WHERE k = 'big' ORDER BY id";
        let rows = run(&mut session, text).await;
        assert_eq!(rows.len() as i64, LONG);
        let n = |row: &Vec<Value>| match row[0] {
            Value::Int64(n) => n,
            ref other => panic!("n is {other:?}"),
        };
        let (first, last) = (n(&rows[0]), n(&rows[rows.len() - 1]));
        assert!(
            first >= last && last >= known,
            "the later write without the earlier one: {first}, {last}, known {known}"
        );
    }
    assert_eq!(session.take_notices(), [] as [String; 0]);
    over.store(true, Ordering::Relaxed);
    writing.await.unwrap();
}
