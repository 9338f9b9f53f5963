//! Databases that speak with TLS only, as those that others run do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use scale::address::Address;
use scale::local::{Postgres, SUPERUSER};
use scale::proxy::routing::Routing;
use scale::replication::Contents;
use support::cluster::{PATIENCE, text};
use support::{Front, connect, is_there, options};
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A certificate for all of these databases; from now on they let in nobody without TLS.
async fn require_tls(databases: &[&Postgres], folder: &Path) {
    let hosts: Vec<String> = databases
        .iter()
        .map(|it| it.socket().ip().to_string())
        .collect();
    let made = rcgen::generate_simple_self_signed(hosts).unwrap();
    fs::write(folder.join("roots.pem"), made.cert.pem()).unwrap();
    for postgres in databases {
        let data = postgres.data();
        let owner = fs::metadata(&data).unwrap();
        let (certificate, key) = (data.join("server.crt"), data.join("server.key"));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        for file in [&certificate, &key] {
            chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        let client = connect(postgres.socket()).await;
        client
            .batch_execute("ALTER SYSTEM SET ssl = on")
            .await
            .unwrap();
        fs::write(data.join("pg_hba.conf"), "hostssl all all all trust\n").unwrap();
        client
            .batch_execute("SELECT pg_reload_conf()")
            .await
            .unwrap();
        let (host, port) = (postgres.socket().ip(), postgres.socket().port());
        let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
        let started = Instant::now();
        while tokio_postgres::connect(&line, NoTls).await.is_ok() {
            assert!(started.elapsed() < PATIENCE);
        }
    }
}

fn address(postgres: &Postgres, query: &str) -> Address {
    let place = postgres.socket();
    let url = format!("postgresql://{SUPERUSER}@{place}/postgres?{query}");
    Address::parse(&url).unwrap()
}

/// It is filled, follows and serves, with servers that prove who they are and with others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_with_tls_only_are_followed() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let extensions = [Postgres::start(&[]).unwrap(), Postgres::start(&[]).unwrap()];
    require_tls(&[&primary, &extensions[0], &extensions[1]], folder.path()).await;
    let roots = folder.path().join("roots.pem");
    let proven = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    let at = address(&primary, &proven);
    let routing = Routing::start(&at, 10, 4).await.unwrap();
    let manager = Arc::clone(&routing.manager);
    for (extension, query) in extensions.iter().zip([proven.as_str(), "sslmode=require"]) {
        let at = address(extension, query);
        let added = routing.extensions.add(&at, Contents::Kept);
        added.unwrap();
    }
    let mut options = options(&primary, 10);
    options.primary = at;
    let front = Front::routed(options, Some(routing)).await;
    let client = front.connect().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        .await
        .unwrap();
    let started = Instant::now();
    let mut number = 0;
    loop {
        number += 1;
        let write = format!(
            "INSERT INTO t VALUES (1, {number}) ON CONFLICT (id) DO UPDATE SET n = {number}"
        );
        client.batch_execute(&write).await.unwrap();
        let read = text(&client, "SELECT n FROM t WHERE id = 1").await;
        assert_eq!(read, number.to_string());
        let all_served = {
            let manager = manager.lock().unwrap();
            manager.extensions().all(|(_, it)| it.served > 0)
        };
        if all_served {
            break;
        }
        let status = front.extensions().replication().status();
        assert!(started.elapsed() < PATIENCE, "{status:?}");
    }
}

/// One that nobody vouches for is not spoken to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_do_not_prove_who_they_are() {
    if !is_there() {
        return;
    }
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    require_tls(&[&primary], folder.path()).await;
    let stranger = rcgen::generate_simple_self_signed(["elsewhere".to_string()]).unwrap();
    let roots = other.path().join("roots.pem");
    fs::write(&roots, stranger.cert.pem()).unwrap();
    let query = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    let Err(problem) = Routing::start(&address(&primary, &query), 10, 4).await else {
        panic!("it was trusted");
    };
    assert!(problem.to_string().contains("certificate"), "{problem}");
    let Err(problem) = Routing::start(&address(&primary, "sslmode=disable"), 10, 4).await else {
        panic!("it was spoken to without TLS");
    };
    assert!(problem.to_string().contains("no encryption"), "{problem}");
}
