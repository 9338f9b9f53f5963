//! Operators see the proxy's state and change its replicas, through psql and through drivers. No
//! other user does.

use std::time::{Duration, Instant};

use pg_local::{Postgres, SUPERUSER};
use proxy::console::{client, metrics};
use proxy::serve::routing::Routing;
use replication::ReplicationSettings;

use crate::support::cluster::pause;
use crate::support::raw::Raw;
use crate::support::{Front, connect_by, is_there, options, printed, run};

/// Everything here is done within this.
const PATIENCE: Duration = Duration::from_secs(120);

/// A proxy that has no replica yet.
async fn start(primary: &Postgres) -> Front {
    let address = primary.address("postgres");
    let routing = Routing::start(&address, 10, &ReplicationSettings::default())
        .await
        .unwrap();
    routing.replicas.replication().knows_all();
    Front::routed(options(primary, 10), Some(routing)).await
}

async fn psql(postgres: &Postgres, front: &Front, command: &str) -> String {
    let words = ["-At", "-c", command, "hihooi"];
    printed(&run(postgres, "psql", front.address, &words).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_added_and_removed_by_psql() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let replica = Postgres::start(&[]).unwrap();
    let front = start(&primary).await;
    let user = front.connect().await;
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    user.batch_execute(table).await.unwrap();
    assert_eq!(psql(&primary, &front, "SHOW REPLICAS").await, "");
    let socket = replica.socket();
    let add = format!("ADD REPLICA 'postgresql://{SUPERUSER}@{socket}/postgres?sslmode=disable'");
    assert_eq!(psql(&primary, &front, &add).await, "1\n");
    let started = Instant::now();
    loop {
        let shown = psql(&primary, &front, "show replicas;").await;
        if shown.starts_with(&format!("1|{socket}|postgres|serving|serving|||0|")) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{shown}");
        pause().await;
    }
    let started = Instant::now();
    loop {
        user.simple_query("SELECT count(*) FROM t").await.unwrap();
        let routes = psql(&primary, &front, "SHOW ROUTES").await;
        if routes.contains("replica 1|it has all that is read|") {
            assert!(
                routes.contains("primary|it changes the schema|1"),
                "{routes}"
            );
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{routes}");
        pause().await;
    }
    let lag = psql(&primary, &front, "SHOW LAG").await;
    assert!(lag.starts_with("1|") && lag.ends_with("|0\n"), "{lag}");
    let pools = psql(&primary, &front, "SHOW POOLS").await;
    let primary_line = format!("primary|{}|", primary.socket());
    assert!(pools.starts_with(&primary_line), "{pools}");
    assert!(
        pools.contains(&format!("\nreplica 1|{socket}|1|0|1|10\n")),
        "{pools}"
    );
    let clients = psql(&primary, &front, "SHOW CLIENTS").await;
    assert!(
        clients.contains(&format!("|{SUPERUSER}|postgres|127.0.0.1:")),
        "{clients}"
    );

    expect_figures(&front);
    assert_eq!(
        psql(&primary, &front, "REMOVE REPLICA 1").await,
        "REMOVE REPLICA\n"
    );
    assert_eq!(psql(&primary, &front, "SHOW REPLICAS; SHOW LAG").await, "");
    user.simple_query("SELECT count(*) FROM t").await.unwrap();
}

/// The metrics show the figures of the console.
fn expect_figures(front: &Front) {
    let figures = metrics::text(&front.proxy);
    for figure in [
        "replex_proxy_clients 1\n",
        "replex_proxy_replica_serving{replica=\"1\"} 1\n",
        "replex_proxy_replica_behind_bytes{replica=\"1\"} 0\n",
        "replex_proxy_batches_total{server=\"primary\",why=\"it changes the schema\"} 1\n",
        "replex_proxy_connections{server=\"replica 1\",state=\"idle\"} 1\n",
    ] {
        assert!(figures.contains(figure), "{figures}");
    }
}

/// Commands as drivers send them: prepared commands, typed values in binary; and the thin client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_have_types() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let front = start(&primary).await;
    let (host, port) = (front.address.ip(), front.address.port());
    let line = format!("host={host} port={port} user={SUPERUSER} dbname=hihooi");
    let operator = connect_by(&line).await;
    let pools = operator.query("SHOW POOLS", &[]).await.unwrap();
    assert_eq!(pools.len(), 1);
    assert_eq!(pools[0].get::<_, &str>("server"), "primary");
    assert_eq!(pools[0].get::<_, i64>("connections_max"), 10);
    let unknown = operator.query("SHOW TABLES", &[]).await.unwrap_err();
    let unknown = unknown.as_db_error().unwrap();
    assert_eq!(unknown.code().code(), "42601");
    assert!(unknown.hint().unwrap().contains("REPLICAS, ROUTES"));
    // The session goes on, and its prepared statement is closed.
    let none = "REMOVE REPLICA 7";
    let error = operator.execute(none, &[]).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "42704");
    let mut address = primary.address("postgres");
    address.port = port;
    address.host = host.to_string();
    let output = client::ask(&address, "SHOW HELP").await.unwrap();
    assert_eq!(output.columns, ["command", "meaning"]);
    assert!(
        output
            .rows
            .iter()
            .any(|row| row[0].as_deref() == Some("RELOAD"))
    );
    let refused = client::ask(&address, "RELOAD")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("nothing is kept in files here"),
        "{refused}"
    );
    let bad = "ADD REPLICA 'postgresql://a:secret@b:x'";
    let refused = client::ask(&address, bad).await.unwrap_err().to_string();
    assert!(refused.contains("port is not a number") && !refused.contains("secret"));
    let own = format!(
        "ADD REPLICA 'postgresql://{SUPERUSER}@{}/postgres' EMPTY",
        primary.socket()
    );
    client::ask(&address, &own).await.unwrap();
    let started = Instant::now();
    loop {
        let output = client::ask(&address, "SHOW REPLICAS").await.unwrap();
        if output.rows[0][4].as_deref() == Some("it is the primary itself") {
            assert_eq!(output.rows[0][3].as_deref(), Some("failed"));
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{output:?}");
        pause().await;
    }
}

#[tokio::test]
async fn console_is_for_operators_and_for_its_commands_only() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&postgres, 1)).await;
    let mut other = Raw::connect(front.address).await;
    other.out = pg_wire::startup::write([("user", "ann"), ("database", "hihooi")]);
    other.flush().await;
    assert_eq!(other.last_words().await.code, "42501");
    let mut raw = Raw::connect(front.address).await;
    raw.out = pg_wire::startup::write([("user", SUPERUSER), ("database", "hihooi")]);
    assert_eq!(raw.reply().await, "ZI");
    raw.query("SELECT 1");
    assert_eq!(raw.reply().await, "[42601]ZI");
    raw.query("");
    assert_eq!(raw.reply().await, "IZI");
    raw.query("BEGIN; SHOW LAG; COMMIT");
    assert_eq!(raw.reply().await, "CTCCZI");
    raw.query("ADD REPLICA 'postgresql://a@b/c'");
    assert_eq!(raw.reply().await, "[55000]ZI");
    raw.parse("", "SHOW LAG").bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "12CZI");
    raw.parse("s", "oops").bind("s").execute(0).sync();
    assert_eq!(raw.reply().await, "[42601]ZI");
    raw.bind("gone").execute(0).sync();
    assert_eq!(raw.reply().await, "[26000]ZI");
    raw.say(b'D', &[b"Sgone\0"]).sync();
    assert_eq!(raw.reply().await, "[26000]ZI");
    raw.say(b'B', &[b"\0\0"]).sync().flush().await;
    assert_eq!(raw.last_words().await.code, "08P01");
}
