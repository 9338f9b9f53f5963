//! A replica whose machine falls silent: nothing arrives from there, and nothing is closed.
//!
//! The test runs once more alone in a network namespace, where packets can be dropped without harm
//! to others. That needs root, `unshare`, `ip` and `nft`.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio_postgres::SimpleQueryMessage;

use crate::support::cluster::{Cluster, PATIENCE, text};
use crate::support::{is_there, needs};

/// Shows the test that it is inside of its namespace.
const INSIDE: &str = "REPLEX_TEST_INSIDE";
/// Without asking, the system would wait for a quarter of an hour.
const SOON: Duration = Duration::from_secs(90);

fn runs(program: &str, words: &[&str]) -> bool {
    let run = Command::new(program).args(words).status();
    run.is_ok_and(|status| status.success())
}

/// Returns whether the test's requirements are on this machine.
fn is_possible() -> bool {
    let tools = [
        ("unshare", &["--net", "true"][..]),
        ("nft", &["--version"]),
        ("ip", &["-V"]),
    ];
    let mut tools = tools.iter();
    tools.all(|(program, words)| needs::require_program(program, words).is_some())
}

#[test]
fn replica_that_falls_silent() {
    if !is_there() || !is_possible() {
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        let this = std::env::current_exe().unwrap();
        let status = Command::new("unshare")
            .arg("--net")
            .arg(this)
            .args([
                "--exact",
                "silence::replica_that_falls_silent",
                "--nocapture",
            ])
            .env(INSIDE, "")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    assert!(runs("ip", &["link", "set", "lo", "up"]));
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(fall_silent());
}

async fn fall_silent() {
    let cluster = Cluster::start(1).await;
    let writer = cluster.front.connect().await;
    writer
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY)")
        .await
        .unwrap();
    writer
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    let reader = cluster.front.connect().await;
    // A read that runs until its server is asked to end it.
    let endless = tokio::spawn(async move {
        let query = "SELECT count(*) FROM t, generate_series(1, 1000000000000)";
        let ended = reader.simple_query(query).await;
        (reader, ended)
    });
    let started = Instant::now();
    while cluster.served() == 0 {
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let port = cluster.replicas[0].socket().port();
    let rules = format!(
        "add table inet silence; add chain inet silence in {{ type filter hook input priority 0; }}; \
         add rule inet silence in tcp dport {port} drop; add rule inet silence in tcp sport {port} drop"
    );
    assert!(runs("nft", &[&rules]));
    let cut = Instant::now();
    // Reads that are asked from now on are answered elsewhere, sooner or later.
    while text(&writer, "SELECT count(*) FROM t").await != "1" {
        assert!(cut.elapsed() < SOON);
    }
    // The session that ran there fails, and its session goes on.
    let ended = tokio::time::timeout(SOON, endless).await;
    let (reader, ended) = ended.expect("it is waited for").unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "08006", "{error}");
    let again = reader.simple_query("SELECT id FROM t").await.unwrap();
    assert!(
        again
            .iter()
            .any(|it| matches!(it, SimpleQueryMessage::Row(_)))
    );
}
