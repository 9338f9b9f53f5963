//! Clients and databases that are reached by Unix sockets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pg_auth::admission::ClientAuthentication;
use pg_connect::address::{Address, socket_in};
use pg_local::{Postgres, SUPERUSER};
use pg_wire::startup::write_tls;
use proxy::serve::listener::UnixSocket;
use proxy::serve::routing::Routing;
use replication::{ExistingData, ReplicationSettings};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::support;
use crate::support::cluster::{PATIENCE, pause, text, until_all_serve};
use crate::support::{Front, complained, connect_by, is_there, options, printed, psql, users};

/// The number of a port that is not in use here: sockets are in folders of their own.
const PORT: u16 = 6432;

fn lock_of(socket: &Path) -> PathBuf {
    socket.with_file_name(format!(".s.PGSQL.{PORT}.lock"))
}

/// By psql, with a password; there is no TLS, whether or not the proxy has it elsewhere.
#[tokio::test]
async fn clients_come_by_a_unix_socket() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let postgres = Postgres::start(&[]).unwrap();
    let admin = support::connect(postgres.socket()).await;
    let role = format!("CREATE ROLE {} LOGIN", support::USER);
    admin.batch_execute(&role).await.unwrap();
    let mut proxy_options = options(&postgres, 4);
    proxy_options.admission.clients.authentication = ClientAuthentication::Scram(users());
    let shown = support::tls::identity(folder.path(), &rcgen::PKCS_ECDSA_P256_SHA256);
    proxy_options.admission.clients.tls = Some(shown);
    let mut front = Front::start(proxy_options).await;
    front.listen_in(folder.path()).await;

    let port = front.address.port();
    let place = format!("host={} port={port}", folder.path().display());
    assert_eq!(printed(&psql(&postgres, &place).await), "here\n");
    let wrong = format!("{place} password=wrong");
    let message = complained(&psql(&postgres, &wrong).await);
    assert!(
        message.contains("password authentication failed"),
        "{message}"
    );

    let socket = socket_in(folder.path(), port);
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o777);
    let mut client = UnixStream::connect(&socket).await.unwrap();
    client.write_all(&write_tls()).await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'N');

    drop(front);
    let started = Instant::now();
    while fs::exists(&socket).unwrap() {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
}

/// A request to cancel comes by the same socket as the session.
#[tokio::test]
async fn statement_is_cancelled_by_a_unix_socket() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let postgres = Postgres::start(&[]).unwrap();
    let mut front = Front::start(options(&postgres, 4)).await;
    front.listen_in(folder.path()).await;
    let (host, port) = (folder.path().display(), front.address.port());
    let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
    let client = connect_by(&line).await;
    let token = client.cancel_token();
    let sleeping = tokio::spawn(async move { client.batch_execute("SELECT pg_sleep(600)").await });
    let admin = support::connect(postgres.socket()).await;
    let sleeps = "SELECT count(*) FROM pg_stat_activity \
        WHERE query = 'SELECT pg_sleep(600)' AND wait_event = 'PgSleep'";
    let started = Instant::now();
    while text(&admin, sleeps).await != "1" {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    token.cancel_query(NoTls).await.unwrap();
    let error = sleeping.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error}");
}

/// The socket of a process that is gone is replaced, and nothing else.
#[tokio::test]
async fn only_abandoned_sockets_are_replaced() {
    let folder = TempDir::new().unwrap();
    let socket = socket_in(folder.path(), PORT);
    let bind = || UnixSocket::bind(folder.path(), PORT);
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries
            .map(|it| it.unwrap().file_name())
            .collect::<Vec<_>>()
    };

    let first = bind().await.unwrap();
    assert_eq!(first.path(), socket);
    let refused = bind().await.unwrap_err().to_string();
    assert_eq!(
        refused,
        format!("process {} serves there", std::process::id())
    );
    UnixStream::connect(&socket).await.unwrap();
    drop(first);
    assert!(names().is_empty(), "{:?}", names());

    // A process answers that keeps no lock file.
    let other = UnixListener::bind(&socket).unwrap();
    let refused = bind().await.unwrap_err().to_string();
    assert!(refused.contains("another program"), "{refused}");
    UnixStream::connect(&socket).await.unwrap();
    assert_eq!(names().len(), 1, "{:?}", names());

    // No process answers any more.
    drop(other);
    fs::write(lock_of(&socket), "4194305\n").unwrap();
    let second = bind().await.unwrap();
    UnixStream::connect(&socket).await.unwrap();
    let signed = fs::read_to_string(lock_of(&socket)).unwrap();
    assert_eq!(signed, format!("{}\n", std::process::id()));
    drop(second);

    fs::write(&socket, "of another process").unwrap();
    let refused = bind().await.unwrap_err().to_string();
    assert!(refused.contains("not a socket"), "{refused}");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "of another process");
    let elsewhere = UnixSocket::bind(&folder.path().join("nowhere"), PORT).await;
    assert!(elsewhere.is_err());
}

/// The socket of a PostgreSQL that serves is left alone, and the socket of a dead one is replaced.
#[tokio::test]
async fn postgresql_has_the_socket() {
    if !is_there() {
        return;
    }
    let folder = pg_local::folder_in(&std::env::temp_dir(), "replex-socket-").unwrap();
    let setting = format!("unix_socket_directories={}", folder.path().display());
    let mut postgres = Postgres::start(&[&setting]).unwrap();
    let port = postgres.socket().port();
    let bind = || UnixSocket::bind(folder.path(), port);
    let refused = bind().await.unwrap_err().to_string();
    assert!(refused.contains("another program"), "{refused}");
    let line = format!(
        "host={} port={port} user={SUPERUSER}",
        folder.path().display()
    );
    connect_by(&line).await;
    postgres.crash().unwrap();
    assert!(fs::exists(socket_in(folder.path(), port)).unwrap());
    drop(bind().await.unwrap());
    postgres.start_again().unwrap();
    connect_by(&line).await;
}

/// Sessions, the slot's reader, Extractors, and the programs that fill: all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_are_reached_by_unix_sockets() {
    if !is_there() {
        return;
    }
    let folder = pg_local::folder_in(&std::env::temp_dir(), "replex-socket-").unwrap();
    let setting = format!("unix_socket_directories={}", folder.path().display());
    let primary = Postgres::start(&["synchronous_commit=on", &setting]).unwrap();
    let replica = Postgres::start(&[&setting]).unwrap();
    // No client can log in by the network.
    for postgres in [&primary, &replica] {
        let admin = support::connect(postgres.socket()).await;
        fs::write(postgres.data().join("pg_hba.conf"), "local all all trust\n").unwrap();
        let reload = "SELECT pg_reload_conf()";
        admin.batch_execute(reload).await.unwrap();
        let place = postgres.socket();
        let (host, port) = (place.ip(), place.port());
        let line = format!("host={host} port={port} user={SUPERUSER}");
        let started = Instant::now();
        while tokio_postgres::connect(&line, NoTls).await.is_ok() {
            assert!(started.elapsed() < PATIENCE);
            pause().await;
        }
    }
    let host = folder.path().display().to_string().replace('/', "%2F");
    let address = |postgres: &Postgres| {
        let port = postgres.socket().port();
        let url = format!("postgresql://{SUPERUSER}@{host}:{port}/postgres");
        Address::parse(&url).unwrap()
    };
    let routing = Routing::start(&address(&primary), 10, &ReplicationSettings::default())
        .await
        .unwrap();
    let manager = Arc::clone(&routing.manager);
    let added = routing.replicas.add(&address(&replica), ExistingData::Kept);
    added.unwrap();
    let mut proxy_options = options(&primary, 10);
    proxy_options.primary = address(&primary);
    let front = Front::routed(proxy_options, Some(routing)).await;
    until_all_serve(&front, &manager).await;
}
