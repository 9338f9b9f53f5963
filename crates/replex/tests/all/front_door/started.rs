//! `replex start` as a command: psql, addresses, ends and restarts.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::process::Signal;
use tokio_postgres::NoTls;

use super::{Started, psql};
use crate::support::{self, raw_client::RawClient};

#[tokio::test]
async fn psql_works() {
    if !support::postgres_is_there() {
        return;
    }
    let started = Started::new().await;
    let address = started.sql();
    let (stdout, stderr) = psql(
        address,
        &[
            "CREATE TABLE fish (id bigint PRIMARY KEY, name text NOT NULL, weight double precision)",
            "INSERT INTO fish VALUES (1, 'carp', 2.5), (2, 'pike', NULL)",
            "SELECT * FROM fish ORDER BY id",
            "UPDATE fish SET weight = 3 WHERE id = 2",
            "BEGIN; DELETE FROM fish WHERE id = 1; ROLLBACK",
            "SELECT count(*) FROM fish",
            "SELECT version(), current_database()",
            "SHOW server_version",
            "SET application_name = 'me'",
            "EXPLAIN SELECT * FROM fish WHERE id = 1",
        ],
    );
    let expected = "CREATE TABLE\nINSERT 0 2\n id | name | weight \n----+------+--------\n  1 | carp |    2.5\n  \
                    2 | pike |       \n(2 rows)\n\nUPDATE 1\nBEGIN\nDELETE 1\nROLLBACK\n count \n-------\n     \
                    2\n(1 row)\n\n";
    assert!(stdout.starts_with(expected), "{stdout}\n{stderr}");
    let release = env!("CARGO_PKG_VERSION");
    let version = format!("PostgreSQL 15.0 (Replex {release}) | postgres");
    assert!(stdout.contains(&version), "{stdout}");
    assert!(stdout.contains("QUERY PLAN"), "{stdout}");
    assert!(
        stderr.contains("NOTICE:  table fish does not survive"),
        "{stderr}"
    );

    for (statement, expected) in [
        (
            "INSERT INTO fish VALUES (1, 'eel', 0)",
            "duplicate key value violates",
        ),
        ("SELECT * FROM birds", "relation \"birds\" does not exist"),
        (
            "SELECT name FROM fish WHERE",
            "LINE 1: SELECT name FROM fish WHERE",
        ),
        (
            "SELECT 1 FROM pg_class, fish",
            "table fish beside relations of the catalogue is not supported",
        ),
        (
            "SELECT nothing FROM pg_class",
            "column \"nothing\" does not exist",
        ),
        ("LISTEN news", "LISTEN is not supported"),
        (
            "COPY fish FROM '/tmp/fish'",
            "COPY with a file of the server is not supported",
        ),
        ("SET DateStyle = 'German'", "\"DateStyle\" is not supported"),
    ] {
        let (_, stderr) = psql(address, &[statement]);
        assert!(stderr.contains(expected), "{statement}: {stderr}");
    }
    let (stdout, _) = psql(address, &["SHOW TABLE fish"]);
    assert!(stdout.contains("double precision"), "{stdout}");
}

#[tokio::test]
async fn acknowledged_rows_survive_a_kill() {
    let mut started = Started::new().await;
    let setup = "CREATE TABLE log (id bigint PRIMARY KEY, note text)";
    RawClient::connect(started.sql()).rows(setup);
    let acknowledged = Arc::new(AtomicI64::new(0));
    let address = started.sql();
    let writer = {
        let acknowledged = Arc::clone(&acknowledged);
        std::thread::spawn(move || {
            let mut client = RawClient::connect(address);
            for id in 1.. {
                let text = format!("INSERT INTO log VALUES ({id}, 'row {id}')");
                let messages = support::raw_client::Messages::new().query(&text);
                if std::io::Write::write_all(&mut client.stream, &messages.0).is_err() {
                    return;
                }
                if !client.until_ready().iter().any(|it| it.tag == b'C') {
                    return;
                }
                acknowledged.store(id, Ordering::SeqCst);
            }
        })
    };
    while acknowledged.load(Ordering::SeqCst) < 100 {
        tokio::task::yield_now().await;
    }
    started.process.kill().await.unwrap();
    writer.join().unwrap();
    let last = acknowledged.load(Ordering::SeqCst);
    started.again().await;
    let mut client = RawClient::connect(started.sql());
    let rows = client.rows("SELECT id FROM log ORDER BY id");
    let ids: Vec<i64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    assert!(
        ids.len() as i64 >= last,
        "{last} acknowledged, {} left",
        ids.len()
    );
    assert_eq!(ids[..last as usize], (1..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn it_ends_in_order_and_starts_again() {
    let mut started = Started::new().await;
    let mut client = RawClient::connect(started.sql());
    client.rows("CREATE TABLE t (id bigint PRIMARY KEY)");
    client.rows("INSERT INTO t VALUES (7)");
    for signal in [Signal::TERM, Signal::INT] {
        let mut idle = RawClient::connect(started.sql());
        started.process.signal(signal).unwrap();
        let status = started
            .process
            .wait(std::time::Duration::from_secs(30))
            .await;
        assert!(status.unwrap().success());
        let end = idle.answer().unwrap();
        assert_eq!((end.tag, end.report().code), (b'E', "57P01".into()));
        started.again().await;
        let rows = RawClient::connect(started.sql()).rows("SELECT id FROM t");
        assert_eq!(rows, [["7"]]);
    }
}

#[tokio::test]
async fn addresses_that_are_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    let stderr = support::run_badly(&["start", "--data", &data, "--listen", &address], 1);
    assert!(stderr.contains("another process listens at"), "{stderr}");
    assert!(stderr.contains("for any free port"), "{stderr}");
    let stderr = support::run_badly(&["start", "--data", &data, "--listen", "0.0.0.0:0"], 2);
    assert!(stderr.contains("--insecure"), "{stderr}");
    assert!(!folder.path().join("data").exists());
    let started = Started::new().await;
    let data = started.folder.path().join("data").display().to_string();
    let stderr = support::run_badly(&["start", "--data", &data, "--listen", "127.0.0.1:0"], 1);
    assert!(stderr.contains("data"), "{stderr}");
}

#[tokio::test]
async fn clients_beyond_the_limit_are_refused() {
    let started = Started::with(&["--connections", "2"]).await;
    let first = RawClient::connect(started.sql());
    let second = RawClient::connect(started.sql());
    let third = RawClient::connect(started.sql());
    let refused = &third.greeting[0];
    assert_eq!((refused.tag, refused.report().code), (b'E', "53300".into()));
    drop((first, second));
    // The server notices the ends of the others a moment later.
    loop {
        let again = RawClient::connect(started.sql());
        if again.greeting[0].tag != b'E' {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn clients_of_one_store_see_each_others_tables() {
    let started = Started::new().await;
    let url = format!("postgresql://postgres@{}/postgres", started.sql());
    let (one, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let (other, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for round in 0..3_i64 {
        one.batch_execute("CREATE TABLE t (id bigint PRIMARY KEY)")
            .await
            .unwrap();
        other
            .execute("INSERT INTO t VALUES ($1)", &[&round])
            .await
            .unwrap();
        let row = one.query_one("SELECT id FROM t", &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), round);
        other.batch_execute("DROP TABLE t").await.unwrap();
        let missing = one.query("SELECT id FROM t", &[]).await.unwrap_err();
        assert_eq!(missing.code().unwrap().code(), "42P01");
    }
}

#[tokio::test]
async fn any_server_of_a_cluster_answers() {
    let mut options = support::options(3);
    options.server_arguments = ["--sql", "127.0.0.1:0"].map(str::to_owned).into();
    let cluster = replex::cluster::Cluster::start(options).await.unwrap();
    let address = |server: usize| {
        let address = cluster.server(server).ready_value("sql").unwrap();
        address.parse().unwrap()
    };
    let mut first = RawClient::connect(address(0));
    first.rows("CREATE TABLE t (id bigint PRIMARY KEY)");
    for server in 0..3 {
        let mut client = RawClient::connect(address(server));
        client.rows(&format!("INSERT INTO t VALUES ({server})"));
        assert_eq!(
            first.rows("SELECT count(*) FROM t"),
            [[(server + 1).to_string()]]
        );
    }
    let tables = first.rows("SHOW TABLES");
    assert_eq!(tables[0][4], "1", "{tables:?}");
}
