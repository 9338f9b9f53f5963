//! `SET replex.trace = on`: the notices that a client gets of its statements.

use std::time::Instant;

use crate::support::cluster::{Cluster, PATIENCE, pause};
use crate::support::is_there;
use crate::support::raw::Raw;

/// The message of the last notice that comes before ReadyForQuery.
async fn notice(raw: &mut Raw) -> String {
    raw.reply().await;
    raw.notices.pop().expect("a notice").message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_reports_where_statements_go() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.query("CREATE TABLE t (id int PRIMARY KEY, n int)");
    assert_eq!(raw.reply().await, "CZI");
    raw.query("INSERT INTO t VALUES (1, 10)");
    assert_eq!(raw.reply().await, "CZI");
    cluster.settle().await;
    raw.query("SET replex.trace = sometimes");
    assert_eq!(raw.reply().await, "[22023]ZI");
    raw.query("SET replex.trace = on");
    assert_eq!(raw.reply().await, "CZI");
    raw.query("UPDATE t SET n = 11 WHERE id = 1");
    assert_eq!(notice(&mut raw).await, "replex: the primary, it writes");
    raw.query("BEGIN");
    assert!(notice(&mut raw).await.contains("transaction"));
    raw.query("ROLLBACK");
    raw.reply().await;
    cluster.wait_until_equal("SELECT n FROM t").await;
    let started = Instant::now();
    loop {
        raw.query("SELECT n FROM t WHERE id = 1");
        if notice(&mut raw)
            .await
            .starts_with("replex: replica 1, it has")
        {
            break;
        }
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    for text in [
        "SELECT now(), random()",
        "SELECT nextval('s')",
        "SHOW work_mem",
        "SELECT * FROM pg_class",
    ] {
        raw.query(text);
        assert!(
            notice(&mut raw).await.starts_with("replex: the primary"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_reports_touched_tables() {
    if !is_there() {
        return;
    }
    let setup = "
        CREATE TABLE s (id int PRIMARY KEY, n int);
        CREATE TABLE t (id int PRIMARY KEY, n int, note text)";
    let cluster = Cluster::start_after(setup).await;
    cluster.settle().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.converse(&[("SET replex.trace = on", "CZI")]).await;
    let two = "UPDATE t SET n = 1 WHERE id = 1; UPDATE t SET note = '' WHERE id = 2";
    for (text, touches) in [
        (
            "SELECT note FROM t WHERE id = 1",
            "public.t by rows (RAS): reads id, note of 1 row",
        ),
        (
            "SELECT count(*) FROM t",
            "public.t by columns (CAS): reads which rows there are",
        ),
        (
            "SELECT note FROM t WHERE n > 7",
            "public.t by columns (CAS): reads n, note",
        ),
        (
            "SELECT s.n FROM s, t WHERE t.id = 1",
            "public.s as a whole (TAS): reads all columns\npublic.t by columns (CAS): reads id, n",
        ),
        (
            "UPDATE t SET n = 2 WHERE id = 1",
            "public.t by rows (RAS): reads id of 1 row; writes n of 1 row",
        ),
        (
            two,
            "public.t by rows (RAS): reads id of 2 rows; writes n, note of 2 rows",
        ),
        (
            "DELETE FROM t",
            "public.t as a whole (TAS): reads which rows there are; writes all columns",
        ),
        ("SELECT 7", "no table"),
        (
            "CALL nothing()",
            "any table as a whole (TAS): reads and writes all columns",
        ),
    ] {
        raw.query(text).reply().await;
        let output = raw.notices.pop().expect("a notice");
        assert_eq!(output.detail, touches, "{text}: {}", output.message);
    }
}

/// Also a server that a session has already is one where a statement goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_reports_each_statement_of_a_transaction() {
    if !is_there() {
        return;
    }
    let setup = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)";
    let cluster = Cluster::start_after(setup).await;
    cluster.settle().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    let settings = [
        ("SET replex.trace = on", "CZI"),
        ("SET replex.balancing = transaction", "CZI"),
    ];
    raw.converse(&settings).await;
    let read = "SELECT n FROM t WHERE id = 1";
    let update = "UPDATE t SET n = n + 1 WHERE id = 1";
    raw.converse_at(&[
        ("BEGIN", "no server", "CZT"),
        (update, "the primary, it writes", "CZT"),
        (read, "the primary, its transaction is there", "T'1'CZT"),
    ])
    .await;
    // In one batch, in its place.
    for text in [read, update, read] {
        raw.parse("", text).bind("").execute(0);
    }
    assert_eq!(raw.sync().reply().await, "12N'1'C12NC12N'2'CZT");
    let written = raw.notices.iter().rev().nth(1).expect("a notice");
    let touches = "public.t by rows (RAS): reads all columns of 1 row; writes n of 1 row";
    assert_eq!(
        (&*written.message, &*written.detail),
        ("replex: the primary, it writes", touches)
    );
    // A statement that is not run is not reported.
    let failing = "SELECT 1 / (n - 2) FROM t";
    raw.parse("", failing).bind("").execute(0);
    raw.parse("", read).bind("").execute(0);
    assert_eq!(raw.sync().reply().await, "12N[22012]ZE");
    raw.converse(&[("ROLLBACK", "NCZI")]).await;
    cluster.settle().await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let there = "replica 1, its transaction has its snapshot there";
    raw.converse_at(&[
        (begin, "no server", "CZT"),
        (read, "replica 1, it has", "T'0'CZT"),
        (read, there, "T'0'CZT"),
        ("COMMIT", there, "CZI"),
    ])
    .await;
}
