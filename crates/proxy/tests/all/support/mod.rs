//! A proxy in front of a real PostgreSQL, and a client that speaks the protocol by hand.

pub mod cluster;
pub mod equality;
pub mod held;
#[path = "../../../../../tests/needs.rs"]
pub mod needs;
pub mod pair;
pub mod raw;
pub mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use pg_auth::admission::ClientAdmission;
use pg_auth::users::UserSecrets;
use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::serve::listener::UnixSocket;
use proxy::serve::replicas::Replicas;
use proxy::serve::routing::Routing;
use proxy::serve::{Admission, Proxy, ProxyOptions, WAIT_MS_DEFAULT};
use proxy_core::session::PinningPolicy;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

/// A user with a password, and the password.
pub const USER: &str = "ann";
pub const PASSWORD: &str = "right";

/// Returns whether there is a PostgreSQL to test with, as [`needs::require`] has it.
pub fn is_there() -> bool {
    needs::require(needs::POSTGRES, pg_local::programs()).is_some()
}

/// Stops or continues every process of a database.
pub fn signal(postgres: &Postgres, signal: Signal) {
    let parent = postgres.process().unwrap();
    let children = format!("/proc/{parent}/task/{parent}/children");
    // A child may have ended since, but none begins while the parent is stopped.
    let send = |pid| kill_process(Pid::from_raw(pid).unwrap(), signal);
    send(parent.try_into().unwrap()).unwrap();
    for pid in std::fs::read_to_string(children)
        .unwrap()
        .split_ascii_whitespace()
    {
        let _ = send(pid.parse().unwrap());
    }
}

/// A proxy that is served until it is dropped.
pub struct Front {
    pub address: SocketAddr,
    pub proxy: Arc<Proxy>,
    routing: Option<Arc<Routing>>,
    tasks: Vec<JoinHandle<()>>,
}

/// Options of a proxy that trusts everybody and has `connections` to each server.
pub fn options(postgres: &Postgres, connections: usize) -> ProxyOptions {
    options_at(postgres.address("postgres"), connections)
}

/// The same, in front of this primary.
pub fn options_at(primary: Address, connections: usize) -> ProxyOptions {
    ProxyOptions {
        serve_operator: proxy::console::serve,
        primary,
        admission: Admission {
            clients: ClientAdmission::open(),
            operators: vec![SUPERUSER.into()],
        },
        replicas: Vec::new(),
        reload: Box::new(|| Err("nothing is kept in files here".into())),
        pinning: PinningPolicy::WhenNeeded,
        connections_max: connections,
        clients_max: 100,
        login_timeout: Duration::from_secs(30),
        wait_max: Duration::from_millis(WAIT_MS_DEFAULT),
    }
}

impl Front {
    pub async fn start(options: ProxyOptions) -> Front {
        Front::routed(options, None).await
    }

    /// A proxy that may send reads to replicas.
    pub async fn routed(options: ProxyOptions, routing: Option<Routing>) -> Front {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy: Arc<Proxy> = Proxy::new(options, routing);
        let serving = Arc::clone(&proxy);
        let task = tokio::spawn(async move { serving.serve(listener).await.unwrap() });
        Front {
            address,
            routing: proxy.followed(),
            proxy,
            tasks: vec![task],
        }
    }

    /// Has it listen at a Unix socket in this folder, too.
    pub async fn listen_in(&mut self, folder: &Path) {
        let local = UnixSocket::bind(folder, self.address.port()).await.unwrap();
        let serving = Arc::clone(&self.proxy);
        let task = tokio::spawn(async move { serving.serve(local).await.unwrap() });
        self.tasks.push(task);
    }

    /// The replicas of a routed proxy.
    pub fn replicas(&self) -> &Replicas {
        &self.routing.as_ref().expect("it is routed").replicas
    }

    /// A session of tokio-postgres.
    pub async fn connect(&self) -> Client {
        connect(self.address).await
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The users of the proxy.
pub fn users() -> UserSecrets {
    let mut users = UserSecrets::default();
    users.add(USER, PASSWORD).unwrap();
    users
}

/// From now on [`USER`] has to log in to this server by SCRAM.
pub async fn ask_for_passwords(postgres: &Postgres) {
    let rules = format!("host all {USER} all scram-sha-256\nhost all all all trust\n");
    std::fs::write(postgres.data().join("pg_hba.conf"), rules).unwrap();
    let admin = connect(postgres.socket()).await;
    let reload = "SELECT pg_reload_conf()";
    admin.batch_execute(reload).await.unwrap();
}

/// A session of tokio-postgres with the superuser's right.
pub async fn connect(address: SocketAddr) -> Client {
    try_connect(address).await.unwrap()
}

/// The same, where it may fail.
pub async fn try_connect(address: SocketAddr) -> Result<Client, Error> {
    let (host, port) = (address.ip(), address.port());
    let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
    try_connect_by(&line).await
}

/// A session of tokio-postgres.
pub async fn connect_by(line: &str) -> Client {
    try_connect_by(line).await.unwrap()
}

pub async fn try_connect_by(line: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(line, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Runs one of PostgreSQL's programs against `address` to its end.
pub async fn run(
    postgres: &Postgres,
    program: &str,
    address: SocketAddr,
    words: &[&str],
) -> Output {
    let mut command = Command::new(postgres.programs().join(program));
    command
        .args(["-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        .args(["-U", SUPERUSER])
        .args(words)
        .env("PGCONNECT_TIMEOUT", "30");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

/// Asks for `'here'` by psql, as [`USER`] with her password; `words` are libpq's further ones for
/// the connection.
pub async fn psql(postgres: &Postgres, words: &str) -> Output {
    let line = format!("user={USER} dbname=postgres gssencmode=disable {words}");
    let mut command = Command::new(postgres.programs().join("psql"));
    command
        .args(["-X", "-w", "-At", "-c", "SELECT 'here'", "-d", &line])
        .env("PGPASSWORD", PASSWORD)
        .env("PGCONNECT_TIMEOUT", "30");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

/// The error output of a program that must have failed.
pub fn complained(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a program's output. The program must have succeeded.
pub fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}
