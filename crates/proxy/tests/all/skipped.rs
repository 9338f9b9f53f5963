//! Queries that stand in an extended batch which has failed are skipped with it, up to Sync, and
//! nothing waits for their answers.

/// The tags that PostgreSQL answers with, for each way to fail before a query; and that the session
/// goes on, its connection is free, and reads go to replicas again.
use crate::support::cluster::{Cluster, wait};
use crate::support::raw::Raw;
use crate::support::{connect, is_there};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_after_a_failed_message_answer_as_in_postgresql() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after("CREATE TABLE t (id int PRIMARY KEY)").await;
    cluster.settle().await;
    let mut answers = Vec::new();
    for address in [cluster.primary.socket(), cluster.front.address] {
        let mut replies = Vec::new();
        let mut raw = Raw::log_in(address).await;
        raw.parse("", "selec").query("SELECT 5").sync();
        replies.push(raw.reply().await);
        raw.bind("nothing")
            .execute(0)
            .query("INSERT INTO t VALUES (1)");
        raw.query("SELECT 6").sync();
        replies.push(raw.reply().await);
        raw.parse("", "SELECT 1/0").bind("").execute(0);
        raw.say(b'F', &[&[0; 8]]).sync();
        replies.push(raw.reply().await);
        // Its statement is there still after a query that was skipped.
        raw.parse("", "SELECT 7").sync();
        replies.push(raw.reply().await);
        raw.bind("nothing").query("SELECT 8").sync();
        replies.push(raw.reply().await);
        raw.bind("").execute(0).sync();
        replies.push(raw.reply().await);
        // Nothing has failed: the query is answered, and Sync, too.
        raw.parse("", "SELECT 9").query("SELECT 10").sync();
        replies.push(raw.reply().await);
        replies.push(raw.until_ready().await);
        raw.query("SELECT count(*) FROM t");
        replies.push(raw.reply().await);
        // One leaves in the middle of it.
        raw.parse("", "selec").query("INSERT INTO t VALUES (2)");
        raw.flush().await;
        let (tag, _) = raw.message().await.unwrap();
        assert_eq!(tag, b'E');
        answers.push(replies);
    }
    assert_eq!(answers[1], answers[0]);
    assert_eq!(answers[0][0], "[42601]ZI");
    cluster.settle().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.converse(&[("SET replex.trace = on", "CZI")]).await;
    raw.converse_at(&[("SELECT count(*) FROM t", "replica", "T'0'CZI")])
        .await;
}

/// A batch that has begun to write and is not ended keeps no reads from replicas: nothing of it can
/// have been committed. Nor does a session that is gone in the middle of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_pending_only_between_sync_and_the_end() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after("CREATE TABLE t (id int PRIMARY KEY)").await;
    cluster.settle().await;
    let mut reader = Raw::log_in(cluster.front.address).await;
    reader.converse(&[("SET replex.trace = on", "CZI")]).await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.parse("", "INSERT INTO t VALUES (1)")
        .bind("")
        .execute(0);
    raw.say(b'H', &[]);
    raw.flush().await;
    for tag in *b"12C" {
        assert_eq!(raw.message().await.unwrap().0, tag);
    }
    let read = ("SELECT count(*) FROM t", "replica", "T'0'CZI");
    reader.converse_at(&[read]).await;
    // Now it may be committed, or not: the client does not wait for the answer.
    raw.sync();
    raw.flush().await;
    drop(raw);
    cluster.settle().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.parse("", "INSERT INTO t VALUES (2)")
        .bind("")
        .execute(0);
    raw.parse("", "SELECT pg_sleep(100)").bind("").execute(0);
    raw.say(b'H', &[]);
    raw.flush().await;
    let admin = &connect(cluster.primary.socket()).await;
    let sleeps = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    wait("server that sleeps", async || {
        let rows = admin.query(sleeps, &[]).await.unwrap();
        (!rows.is_empty()).then_some(())
    })
    .await;
    drop(raw);
    cluster.settle().await;
    cluster
        .wait_until_equal("SELECT count(*) FROM t WHERE id = 1")
        .await;
    let (place, _) = {
        reader.query("SELECT count(*) FROM t");
        reader.reply_at().await
    };
    assert!(place.starts_with("replica"), "{place}");
}
