//! `replex start` on several machines: one after the other joins, with certificates and without.

use std::path::Path;
use std::process::{Command, Output};

use super::*;

/// Runs the program to its end.
fn replex(arguments: &[&str]) -> Output {
    let mut command = Command::new(support::program());
    command.args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Makes the certificates of a cluster, and one of a user of SQL. Returns their folder.
fn certificates(folder: &TempDir) -> String {
    let path = folder.path().join("certificates").display().to_string();
    let made = replex(&[
        "cert", "--folder", &path, "--node", "--admin", "--user", "ann",
    ]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    path
}

fn coordinator(started: &Started) -> String {
    started
        .process
        .ready_value("coordinator")
        .unwrap()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_join_with_certificates_and_tables_survive_more() {
    if !support::postgres_is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(&folder);
    let of_cluster = ["--certificates", &files];
    let first = Started::with(&["--cluster", "127.0.0.1:0", "--certificates", &files]).await;
    let (_, notices) = psql(
        first.sql(),
        &["CREATE TABLE fish (id serial PRIMARY KEY, name text)"],
    );
    assert!(notices.contains("table fish does not survive"), "{notices}");
    let insert = "INSERT INTO fish (name) SELECT 'carp ' || i FROM generate_series(1, 500) AS i";
    assert_eq!(psql(first.sql(), &[insert]).0, "INSERT 0 500\n");

    let coordinator = coordinator(&first);
    let join = [&["--join", &coordinator][..], &of_cluster].concat();
    let second = Started::with(&join).await;
    let third = Started::with(&join).await;
    for table in ["fish", "fish_id_seq"] {
        let raised = format!("event=tolerance_raised table={table} failures_tolerated=1");
        first.wait_for_log(&raised).await;
    }
    let status = ["admin", "status", "-C", &coordinator];
    let shown = replex(&[&status[..], &of_cluster].concat());
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    // Each of them answers, and the loss of one that has copies costs nothing.
    drop(second);
    let (shown, errors) = psql(
        third.sql(),
        &[
            "INSERT INTO fish (name) VALUES ('pike')",
            "SELECT count(*), count(DISTINCT id) FROM fish",
        ],
    );
    assert!(shown.contains("   501 |   501"), "{shown}{errors}");

    let refused = replex(&status);
    let reason = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{reason}");
    assert!(reason.contains("--certificates"), "{reason}");

    // The certificate of a user of SQL opens nothing within the cluster.
    let path = |file: &str| Path::new(&files).join(file);
    for ending in ["pem", "key"] {
        let (ann, admin) = (format!("ann.{ending}"), format!("admin.{ending}"));
        std::fs::copy(path(&ann), path(&admin)).unwrap();
    }
    let refused = replex(&[&status[..], &of_cluster].concat());
    let reason = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{reason}");
    assert!(reason.contains("certificate"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_certificates_waits_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(&folder);
    let first = Started::with(&["--cluster", "127.0.0.1:0", "--certificates", &files]).await;
    let data = folder.path().join("data").display().to_string();
    let log = folder.path().join("log");
    let mut waiting = Command::new(support::program())
        .args(["start", "--data", &data, "--listen", "127.0.0.1:0"])
        .args(["--join", &coordinator(&first)])
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let logged = || std::fs::read_to_string(&log).unwrap();
    while !logged().contains("--certificates") {
        assert!(begun.elapsed() < PATIENCE, "{}", logged());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        logged().contains("event=waiting_for_coordinator"),
        "{}",
        logged()
    );
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(waiting.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_joined_starts_again_in_its_folder() {
    let first = Started::with(&["--cluster", "127.0.0.1:0"]).await;
    let join = ["--join", &coordinator(&first)];
    let mut second = Started::with(&join).await;
    let data = second.folder.path().join("data").display().to_string();
    let start = ["start", "--data", &data, "--listen", "127.0.0.1:0"];
    assert!(second.process.stop().await.unwrap().success());
    let refused = replex(&start);
    assert_eq!(refused.status.code(), Some(2));
    let reason = text(&refused.stderr);
    assert!(reason.contains("give --join"), "{reason}");
    second.process = Started::process(&second.folder, &join).await;

    let own = first.folder.path().join("data").display().to_string();
    let start = ["start", "--data", &own, "--join", join[1]];
    let refused = replex(&start);
    assert_eq!(refused.status.code(), Some(2));
    let reason = text(&refused.stderr);
    assert!(reason.contains("a cluster of its own"), "{reason}");
}

#[test]
fn a_cluster_on_a_network_needs_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    let listen = ["start", "--listen", "127.0.0.1:0", "--data", &data];
    let missing = folder.path().join("missing").display().to_string();
    for (arguments, expected) in [
        (&["--cluster", "10.1.2.3"][..], "give --certificates FOLDER"),
        (&["--cluster", "0.0.0.0"], "name the address"),
        (&["--cluster", "here"], "is no address"),
        (&["--join", "not/a/host"], "is no address"),
        (&["--join", "127.0.0.1:x"], "is no address"),
        (&["--certificates", &missing], "ca.pem"),
        (
            &["--cluster", "127.0.0.1:0", "--certificates", &missing],
            "`replex cert` makes them",
        ),
    ] {
        let refused = replex(&[&listen[..], arguments].concat());
        let reason = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {reason}");
        let (reason, expected) = (reason.to_lowercase(), expected.to_lowercase());
        assert!(reason.contains(&expected), "{arguments:?}: {reason}");
    }
    assert!(!folder.path().join("data").exists(), "nothing was made");
}
