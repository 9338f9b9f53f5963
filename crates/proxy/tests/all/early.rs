//! Messages that PostgreSQL sends before Sync, and in a transaction that has failed.

use pg_wire::startup::{self, CancelKey, write_cancel};

use crate::support::cluster::Cluster;
use crate::support::is_there;
use crate::support::raw::Raw;

const SETUP: &str = "CREATE TABLE t (id int PRIMARY KEY)";

/// An error comes without Sync or Flush.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_come_without_sync() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    cluster.settle().await;
    for address in [cluster.primary.socket(), cluster.front.address] {
        for (before, text) in [
            ("SELECT 1", "SELECT 1/0"),
            ("BEGIN", "SELECT 1/0"),
            ("SELECT 1", "selec"),
        ] {
            let mut raw = Raw::log_in(address).await;
            raw.query(before);
            raw.reply().await;
            raw.parse("", text).bind("").execute(0);
            raw.flush().await;
            // Messages before the error are sent with it.
            let mut tags = String::new();
            while !tags.ends_with('E') {
                tags.push(char::from(raw.message().await.unwrap().0));
            }
            raw.sync();
            assert!(raw.reply().await.starts_with('Z'));
        }
    }
}

/// Statements are closed, and Sync is answered, in a transaction that has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_closed_in_a_failed_transaction() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    cluster.settle().await;
    let mut answers = Vec::new();
    for address in [cluster.primary.socket(), cluster.front.address] {
        let mut replies = Vec::new();
        let mut raw = Raw::log_in(address).await;
        for first in ["SELECT 1/0", "INSERT INTO t VALUES (1), (1)"] {
            raw.parse("a", "SELECT 1").sync();
            replies.push(raw.reply().await);
            for text in ["BEGIN", first] {
                raw.query(text);
                replies.push(raw.reply().await);
            }
            raw.close("a").sync();
            replies.push(raw.reply().await);
            raw.sync();
            replies.push(raw.reply().await);
            raw.close("a").bind("a").sync();
            replies.push(raw.reply().await);
            raw.query("");
            replies.push(raw.reply().await);
            raw.close("a")
                .parse("", "ROLLBACK")
                .bind("")
                .execute(0)
                .sync();
            replies.push(raw.reply().await);
        }
        answers.push(replies);
    }
    assert_eq!(answers[1], answers[0]);
    assert_eq!(answers[0][3], "3ZE");
}

/// A notification of one's own names the process that was reported to the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_notifications_name_the_process_that_is_known() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for address in [cluster.primary.socket(), cluster.front.address] {
        let (mut raw, key) = log_in_with_key(address).await;
        raw.query("LISTEN here; NOTIFY here");
        raw.flush().await;
        while let Some((tag, body)) = raw.message().await {
            if tag == b'A' {
                assert_eq!(body[..4], key.process.to_be_bytes());
                break;
            }
        }
    }
}

/// Logs in, and returns the packet that cancels the session's statements.
async fn log_in_with_key(address: std::net::SocketAddr) -> (Raw, CancelKey) {
    let mut raw = Raw::connect(address).await;
    raw.out = startup::write([("user", "postgres"), ("database", "postgres")]);
    raw.flush().await;
    let mut key = CancelKey::default();
    while let Some((tag, body)) = raw.message().await {
        if tag == b'K' {
            let (process, secret) = body.split_first_chunk().unwrap();
            key.process = u32::from_be_bytes(*process);
            key.secret = secret.to_vec();
        }
        if tag == b'Z' {
            break;
        }
    }
    (raw, key)
}

/// Cancel requests that come at any time cancel the client's statement, or nothing: its session
/// goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_requests_come_at_any_time() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after("CREATE TABLE t (id serial PRIMARY KEY, n int)").await;
    let address = cluster.front.address;
    let (mut raw, key) = log_in_with_key(address).await;
    let statements = [
        "INSERT INTO t (n) VALUES (1)",
        "BEGIN",
        "UPDATE t SET n = 2 WHERE id = 1",
        "COMMIT",
    ];
    for round in 0..150_usize {
        for text in statements {
            raw.query(text);
            raw.flush().await;
            for _ in 0..round % 40 {
                tokio::task::yield_now().await;
            }
            let mut cancel = Raw::connect(address).await;
            cancel.out = write_cancel(&key);
            cancel.flush().await;
            let replies = raw.until_ready().await;
            assert!(!replies.ends_with("END"), "{text}: {replies}");
        }
        raw.query("ROLLBACK");
        let replies = raw.reply().await;
        assert!(!replies.ends_with("END"), "{replies}");
    }
    cluster.settle().await;
    let count = "SELECT count(*) > 0 FROM t";
    cluster.wait_until_equal(count).await;
}
