//! Transactions at REPEATABLE READ that only read take their snapshot at a replica that has all,
//! and stay there.

use std::time::Instant;

use crate::support::cluster::{Cluster, PATIENCE, pause, text};
use crate::support::raw::Raw;
use crate::support::{connect, connect_by, is_there};

/// Where a statement went.
const REPLICA: &str = "replica 1,";
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const READ: &str = "SELECT n FROM t WHERE id = 1";
const BEGUN: [(&str, &str, &str); 2] = [(BEGIN, "no server", "CZT"), (READ, REPLICA, "T'0'CZT")];

/// A cluster whose replica has all; none where there is no PostgreSQL.
async fn cluster() -> Option<Cluster> {
    if !is_there() {
        return None;
    }
    let setup = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)";
    let cluster = Cluster::start_after(setup).await;
    cluster.settle().await;
    Some(cluster)
}

/// A session with notices of where its statements go.
async fn traced(cluster: &Cluster) -> Raw {
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.converse(&[("SET replex.trace = on", "CZI")]).await;
    raw
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_stay_where_they_were_taken() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let mut raw = traced(&cluster).await;
    let served = cluster.served();
    raw.converse_at(&BEGUN).await;
    let other = cluster.front.connect().await;
    let update = "UPDATE t SET n = 5";
    other.batch_execute(update).await.unwrap();
    cluster.settle().await;
    raw.converse_at(&[
        (READ, "", "T'0'CZT"),
        ("SELECT sum(n) FROM t", "", "T'0'CZT"),
        ("SELECT now() = now()", "", "T't'CZT"),
        ("SAVEPOINT a", "", "CZT"),
        ("SELECT 1 / n FROM t", "", "T[22012]ZE"),
        (READ, "", "[25P02]ZE"),
        ("ROLLBACK TO a", "", "CZT"),
        (READ, "", "T'0'CZT"),
        ("COMMIT", "", "CZI"),
    ])
    .await;
    assert_eq!(cluster.served(), served + 1);
    raw.converse_at(&[
        (READ, REPLICA, "T'5'CZI"),
        (
            "BEGIN READ ONLY, ISOLATION LEVEL REPEATABLE READ",
            "no server",
            "CZT",
        ),
        ("COMMIT", "no server", "CZI"),
        // A transaction that may write has its snapshot on the primary, and so has a transaction
        // that begins otherwise.
        (
            "BEGIN ISOLATION LEVEL REPEATABLE READ",
            "the primary",
            "CZT",
        ),
        (READ, "", "T'5'CZT"),
        ("ROLLBACK", "", "CZI"),
        (BEGIN, "no server", "CZT"),
        (
            "SELECT count(*) > 0 FROM pg_class",
            "the primary",
            "T't'CZT",
        ),
        (READ, "", "T'5'CZT"),
        ("COMMIT", "", "CZI"),
    ])
    .await;
    // As drivers do: the first statement comes with BEGIN.
    raw.parse("", BEGIN).bind("").execute(0);
    raw.parse("", READ).bind("").execute(0).sync();
    let (place, output) = raw.reply_at().await;
    assert!(place.starts_with(REPLICA), "{place}");
    assert_eq!(output, "12C12'5'CZT");
    raw.parse("", "COMMIT").bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "12NCZI");
}

/// Sessions whose transactions are at REPEATABLE READ by default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_usual_level_counts() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let (host, port) = (cluster.front.address.ip(), cluster.front.address.port());
    let options = "-c default_transaction_isolation=repeatable\\\\ read";
    let line = format!("host={host} port={port} user=postgres dbname=postgres options='{options}'");
    let client = connect_by(&line).await;
    let level = text(&client, "SHOW transaction_isolation").await;
    assert_eq!(level, "repeatable read");
    let other = cluster.front.connect().await;
    for (begin, after, reads) in [
        ("BEGIN READ ONLY", "0", 1),
        ("BEGIN", "1", 0),
        ("BEGIN ISOLATION LEVEL READ COMMITTED", "3", 2),
    ] {
        cluster.settle().await;
        let served = cluster.served();
        client.batch_execute(begin).await.unwrap();
        let before = text(&client, READ).await;
        let update = "UPDATE t SET n = n + 1 WHERE id = 1";
        other.batch_execute(update).await.unwrap();
        cluster.settle().await;
        assert_eq!(text(&client, READ).await, after, "{begin} after {before}");
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(cluster.served() - served, reads, "{begin}");
    }
}

/// A statement that is no read for any node fails with an error after which the client can retry,
/// and the retry works. It leaves nothing at the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statement_refused_at_a_snapshot_can_be_retried() {
    let Some(cluster) = cluster().await else {
        return;
    };
    for (text, again) in [
        ("SELECT count(*) > 0 FROM pg_class", "T't'CZT"),
        ("UPDATE t SET n = 1; UPDATE t SET n = 2", "[25006]ZE"),
        ("SET LOCAL a.b = 1", "CZT"),
        ("SET a.b = 1", "CZT"),
        ("SELECT 'temp\\'", "T'temp\\'CZT"),
        ("COMMIT AND CHAIN", "CZT"),
        ("COMMIT; SELECT 1", "CT'1'CZI"),
        ("SELECT 1; COMMIT", "T'1'CCZI"),
        ("SELEC", "[42601]ZE"),
    ] {
        let mut raw = traced(&cluster).await;
        cluster.settle().await;
        raw.converse_at(&BEGUN).await;
        raw.query(text);
        assert_eq!(raw.reply().await, "[40001]ZE", "{text}");
        raw.converse_at(&[("COMMIT", "", "CZI"), (BEGIN, "the primary", "CZT")])
            .await;
        raw.converse_at(&[(READ, "", "T'0'CZT"), (text, "", again)])
            .await;
        raw.query("ROLLBACK");
        assert!(raw.reply().await.ends_with("CZI"), "{text}");
    }
    for text in ["SET a.b = 1", "LISTEN a", "SELECT random()"] {
        let mut raw = traced(&cluster).await;
        cluster.settle().await;
        raw.converse_at(&BEGUN).await;
        raw.parse("", text).bind("").execute(0);
        raw.parse("", READ).bind("").execute(0).sync();
        assert_eq!(raw.reply().await, "[40001]ZE", "{text}");
        raw.converse_at(&[
            ("ROLLBACK", "", "CZI"),
            (
                "UPDATE t SET n = 0 WHERE id = 2",
                "the primary, it writes",
                "CZI",
            ),
            (BEGIN, "the primary", "CZT"),
        ])
        .await;
    }
    // A statement after an end in the same batch would be outside of the snapshot.
    let mut raw = traced(&cluster).await;
    cluster.settle().await;
    raw.converse_at(&BEGUN).await;
    raw.parse("", "COMMIT").bind("").execute(0);
    raw.parse("", READ).bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "12NC[40001]ZI");
    cluster.settle().await;
    raw.converse_at(&[(READ, REPLICA, "T'0'CZI")]).await;
}

/// A write in a read-only transaction gets PostgreSQL's error, not the advice to try again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_refused_there() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, READ WRITE, READ ONLY";
    for text in [
        "UPDATE t SET n = 1",
        "INSERT INTO t VALUES (7, 7)",
        "DELETE FROM t",
        "WITH d AS (DELETE FROM t RETURNING n) DELETE FROM t",
        "COPY t FROM STDIN",
    ] {
        for is_simple in [true, false] {
            let mut raw = traced(&cluster).await;
            cluster.settle().await;
            raw.converse_at(&[(begin, "no server", "CZT"), (READ, REPLICA, "T'0'CZT")])
                .await;
            match is_simple {
                true => raw.query(text),
                false => {
                    raw.parse("", text).bind("").execute(0);
                    raw.parse("", READ).bind("").execute(0).sync()
                }
            };
            let (place, output) = raw.reply_at().await;
            assert!(place.starts_with(REPLICA), "{place}: {text}");
            assert!(output.ends_with("[25006]ZE"), "{output}: {text}");
            raw.converse_at(&[("ROLLBACK", "", "CZI"), (READ, REPLICA, "T'0'CZI")])
                .await;
        }
    }
}

/// A message that is too long to be looked at is not sent on in part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_messages_do_not_run_there() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let long = format!("SELECT '{}'", "x".repeat(1_000_000));
    for is_simple in [true, false] {
        let mut raw = traced(&cluster).await;
        cluster.settle().await;
        raw.converse_at(&BEGUN).await;
        match is_simple {
            true => raw.query(&long),
            false => raw.parse("", &long).bind("").execute(0).sync(),
        };
        assert_eq!(raw.reply().await, "[40001]ZE");
        raw.converse_at(&[("ROLLBACK", "", "CZI"), (READ, REPLICA, "T'0'CZI")])
            .await;
    }
}

/// With its replica a transaction has failed, and its session goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_end_with_their_replica() {
    let Some(mut cluster) = cluster().await else {
        return;
    };
    let mut idle = traced(&cluster).await;
    idle.converse_at(&BEGUN).await;
    let mut busy = traced(&cluster).await;
    busy.converse_at(&BEGUN).await;
    let slow = "SELECT count(*) FROM t, generate_series(1, 1000000000)";
    busy.query(slow).flush().await;
    let mut open = traced(&cluster).await;
    open.converse_at(&BEGUN).await;
    open.parse("", slow).bind("").say(b'H', &[]).flush().await;
    for tag in [b'1', b'2'] {
        assert_eq!(open.message().await.unwrap().0, tag);
    }
    open.execute(0).say(b'H', &[]).flush().await;
    let replica = connect(cluster.replicas[0].socket()).await;
    let running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%1000000000)'";
    let started = Instant::now();
    while text(&replica, running).await != "2" {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    cluster.replicas[0].kill();
    assert!(busy.until_ready().await.ends_with("[08006]ZE"));
    open.sync();
    assert!(open.reply().await.ends_with("[08006]ZE"));
    idle.query(READ);
    assert!(idle.reply().await.ends_with("[08006]ZE"));
    for raw in [&mut idle, &mut busy, &mut open] {
        raw.converse_at(&[
            (READ, "", "[25P02]ZE"),
            ("ROLLBACK", "no server", "CZI"),
            ("UPDATE t SET n = 0 WHERE id = 1", "the primary", "CZI"),
            (BEGIN, "no server", "CZT"),
            (READ, "the primary", "T'0'CZT"),
            ("COMMIT", "", "CZI"),
        ])
        .await;
    }
}

/// Other clients may have seen on the primary already the commits that are under way when a
/// transaction begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_wait_for_no_transaction() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let in_the_way = connect(cluster.primary.socket()).await;
    let lock = "BEGIN; SELECT n FROM t WHERE id = 2 FOR UPDATE";
    in_the_way.batch_execute(lock).await.unwrap();
    let writer = cluster.front.connect().await;
    let pending = tokio::spawn(async move {
        let update = "UPDATE t SET n = 5 WHERE id = 2";
        writer.batch_execute(update).await.unwrap();
    });
    let started = Instant::now();
    while cluster.manager.lock().unwrap().pending_count() == 0 {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    let mut raw = traced(&cluster).await;
    let why = "the primary, it must see a commit under way";
    raw.converse_at(&[
        (BEGIN, "no server", "CZT"),
        (READ, why, "T'0'CZT"),
        ("SELECT n FROM t WHERE id = 2", "", "T'0'CZT"),
    ])
    .await;
    in_the_way.batch_execute("COMMIT").await.unwrap();
    pending.await.unwrap();
    raw.converse_at(&[
        ("SELECT n FROM t WHERE id = 2", "", "T'0'CZT"),
        ("COMMIT", "", "CZI"),
    ])
    .await;
    cluster.settle().await;
    raw.converse_at(&[
        (BEGIN, "no server", "CZT"),
        ("SELECT n FROM t WHERE id = 2", REPLICA, "T'5'CZT"),
        ("COMMIT", "", "CZI"),
    ])
    .await;
}
