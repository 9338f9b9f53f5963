//! Forbidden messages of clients and servers have a clear end. They cost no other session anything,
//! and no memory without bound.

use std::time::Duration;

use pg_auth::admission::ClientAuthentication;
use pg_auth::users::UserSecrets;
use pg_connect::address::Address;
use pg_local::Postgres;
use rcgen::PKCS_ECDSA_P256_SHA256;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::support::raw::Raw;
use crate::support::tls::identity;
use crate::support::{Front, ask_for_passwords, connect, is_there, options, users};

#[tokio::test]
async fn garbage_ends_only_its_own_connection() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&postgres, 1)).await;
    // A first packet of an impossible length is no protocol of PostgreSQL: it gets no answer.
    for first in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\xff\xff\xff\xff\0\0\0\0",
        b"\0\0\0\x07\0\x03\0",
        b"\0\0\0\0",
    ] {
        let mut raw = Raw::connect(front.address).await;
        raw.out.extend_from_slice(first);
        raw.flush().await;
        assert_eq!(raw.message().await, None, "{first:?}");
    }
    for (first, code) in [
        (&b"\0\0\0\x08\0\x02\0\0"[..], "0A000"),
        (b"\0\0\0\x08\0\x04\0\0", "0A000"),
        (b"\0\0\0\x0c\0\x03\0\0user", "08P01"),
        (b"\0\0\0\x09\0\x03\0\0\0", "28000"),
        (b"\0\0\0\x0f\0\x03\0\0user\0\0\0", "28000"),
    ] {
        let mut raw = Raw::connect(front.address).await;
        raw.out.extend_from_slice(first);
        raw.flush().await;
        let words = raw.last_words().await;
        assert_eq!(words.code, code, "{first:?}: {words}");
    }
    for garbage in [
        &b"!\0\0\0\x04"[..],
        b"Q\xff\xff\xff\xff",
        b"Q\0\0\0\x03",
        b"P\0\0\0\x05x\xffS\0\0\0\x04",
        b"B\0\0\0\x04S\0\0\0\x04",
        b"D\0\0\0\x06X\0S\0\0\0\x04",
    ] {
        let mut raw = Raw::log_in(front.address).await;
        raw.out.extend_from_slice(garbage);
        raw.flush().await;
        let words = raw.last_words().await;
        assert_eq!(words.code, "08P01", "{garbage:?}: {words}");
        let mut other = Raw::log_in(front.address).await;
        other.query("SELECT 1");
        assert_eq!(other.reply().await, "T'1'CZI");
    }
}

#[tokio::test]
async fn clients_that_never_log_in() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let mut proxy_options = options(&postgres, 1);
    proxy_options.login_timeout = Duration::from_millis(200);
    let front = Front::start(proxy_options).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(Raw::connect(front.address).await);
    }
    for raw in &mut silent {
        assert_eq!(raw.message().await, None);
    }
    connect(front.address).await;
}

#[tokio::test]
async fn too_many_clients() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let mut proxy_options = options(&postgres, 1);
    proxy_options.clients_max = 2;
    let front = Front::start(proxy_options).await;
    let one = Raw::log_in(front.address).await;
    let _two = Raw::log_in(front.address).await;
    let mut three = Raw::connect(front.address).await;
    three.out = pg_wire::startup::write([("user", "postgres")]);
    three.flush().await;
    assert_eq!(three.last_words().await.code, "53300");
    drop(one);
    // The place is free once the proxy has seen that the client has gone.
    loop {
        let mut raw = Raw::connect(front.address).await;
        raw.out = pg_wire::startup::write([("user", "postgres")]);
        if raw.reply().await.ends_with("ZI") {
            break;
        }
    }
}

#[tokio::test]
async fn primary_that_is_offline_and_comes_back() {
    if !is_there() {
        return;
    }
    let mut postgres = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&postgres, 2)).await;
    let mut idle = Raw::log_in(front.address).await;
    let mut inside = Raw::log_in(front.address).await;
    inside.query("BEGIN");
    assert_eq!(inside.reply().await, "CZT");
    postgres.kill();
    let words = inside.last_words().await;
    assert!(
        words.code == "08006" || words.code.starts_with("57P"),
        "{words}"
    );
    idle.query("SELECT 1");
    assert_eq!(idle.reply().await, "[08001]ZI");
    idle.parse("", "SELECT 1").bind("").execute(0).sync();
    assert_eq!(idle.reply().await, "[08001]ZI");
    let mut late = Raw::connect(front.address).await;
    late.out = pg_wire::startup::write([("user", "postgres")]);
    late.flush().await;
    let words = late.last_words().await;
    assert_eq!(words.code, "08001");
    assert!(
        words.message.contains("cannot be reached") && !words.hint.is_empty(),
        "{words}"
    );
    postgres.start_again().unwrap();
    idle.query("SELECT 1");
    assert_eq!(idle.reply().await, "T'1'CZI");
}

/// SCRAM and TLS to the proxy; SCRAM, md5 and TLS from there to the server, which is a proxy
/// itself.
#[tokio::test]
async fn passwords_and_encryption_on_both_sides() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let postgres = Postgres::start(&[]).unwrap();
    let admin = connect(postgres.socket()).await;
    for (encryption, method) in [("scram-sha-256", "scram-sha-256"), ("md5", "md5")] {
        let text = format!(
            "DROP ROLE IF EXISTS ann; SET password_encryption = '{encryption}';
             CREATE ROLE ann LOGIN PASSWORD 'right';"
        );
        admin.batch_execute(&text).await.unwrap();
        let rules = format!("host all ann all {method}\nhost all all all trust\n");
        std::fs::write(postgres.data().join("pg_hba.conf"), rules).unwrap();
        admin
            .batch_execute("SELECT pg_reload_conf()")
            .await
            .unwrap();

        let mut inner = options(&postgres, 1);
        inner.admission.clients.authentication = ClientAuthentication::Scram(users());
        inner.admission.clients.tls = Some(identity(folder.path(), &PKCS_ECDSA_P256_SHA256));
        let inner = Front::start(inner).await;
        let mut outer = options(&postgres, 1);
        let url = format!(
            "postgresql://ann:right@{}/postgres?sslmode=verify-full&sslrootcert={}",
            inner.address,
            folder.path().join("chain.pem").display()
        );
        outer.primary = Address::parse(&url).unwrap();
        outer.admission.clients.authentication = ClientAuthentication::Scram(users());
        let outer = Front::start(outer).await;

        let (host, port) = (outer.address.ip(), outer.address.port());
        let line = format!("host={host} port={port} user=ann dbname=postgres password=");
        let right = format!("{line}right");
        let (client, connection) = tokio_postgres::connect(&right, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let row = client
            .query_one("SELECT current_user::text", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, String>(0), "ann");
        for (user, password) in [("ann", "wrong"), ("eve", "right")] {
            let line = format!("{line}{password}").replace("ann", user);
            let Err(error) = tokio_postgres::connect(&line, tokio_postgres::NoTls).await else {
                panic!("{user} logged in")
            };
            let error = error.as_db_error().unwrap();
            assert_eq!(error.code().code(), "28P01");
            let text = format!("password authentication failed for user \"{user}\"");
            assert_eq!(error.message(), text);
        }
    }
}

/// The proxy knows another password than the server.
#[tokio::test]
async fn password_that_the_server_refuses() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let admin = connect(postgres.socket()).await;
    let text = "CREATE ROLE ann LOGIN PASSWORD 'other'";
    admin.batch_execute(text).await.unwrap();
    ask_for_passwords(&postgres).await;
    for known in [users(), UserSecrets::default()] {
        let mut proxy_options = options(&postgres, 1);
        proxy_options.admission.clients.authentication = ClientAuthentication::Trust(known);
        let front = Front::start(proxy_options).await;
        let mut raw = Raw::connect(front.address).await;
        raw.out = pg_wire::startup::write([("user", "ann"), ("database", "postgres")]);
        raw.flush().await;
        let words = raw.last_words().await;
        assert!(words.code.starts_with("28"), "{words}");
        assert!(words.message.contains("password"), "{words}");
        assert!(!words.message.contains("right"), "{words}");
    }
}

/// Bytes after the wish for TLS, before the handshake, could be an attacker's.
#[tokio::test]
async fn bytes_before_the_tls_handshake() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let postgres = Postgres::start(&[]).unwrap();
    let mut proxy_options = options(&postgres, 1);
    proxy_options.admission.clients.tls = Some(identity(folder.path(), &PKCS_ECDSA_P256_SHA256));
    let front = Front::start(proxy_options).await;
    let mut raw = Raw::connect(front.address).await;
    let mut packet = pg_wire::startup::write_tls();
    packet.extend_from_slice(&pg_wire::startup::write([("user", "postgres")]));
    raw.socket.write_all(&packet).await.unwrap();
    assert_eq!(raw.message().await, None);
}
