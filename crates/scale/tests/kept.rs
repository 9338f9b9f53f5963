//! What operators have said of Extensions outlives the proxy that they said it to.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scale::address::Address;
use scale::console::client::{self, Told};
use scale::local::{Postgres, SUPERUSER};
use scale::proxy::Proxy;
use support::cluster::{PATIENCE, text};
use support::{connect, is_there, options};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// A proxy that is the active one whenever it can be.
struct Running {
    proxy: Arc<Proxy>,
    address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// One to which these Extensions are named.
    async fn start(primary: &Postgres, named: &[&Postgres]) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = options(primary, 10);
        options.extensions = named.iter().map(|it| it.address("postgres")).collect();
        let proxy = Proxy::standing_by(options);
        let [serving, standing] = [Arc::clone(&proxy), Arc::clone(&proxy)];
        let told = |standing| println!("{standing:?}");
        let tasks = vec![
            tokio::spawn(async move { serving.serve(listener).await.unwrap() }),
            tokio::spawn(async move { panic!("{}", standing.stand(4, told).await) }),
        ];
        Running {
            proxy,
            address,
            tasks,
        }
    }

    async fn ask(&self, command: &str) -> Result<Told, String> {
        let url = format!("postgresql://{SUPERUSER}@{}", self.address);
        let address = Address::parse(&url).unwrap();
        let told = client::ask(&address, command).await;
        told.map_err(|error| error.to_string())
    }

    /// Waits until these are its Extensions, and serve.
    async fn serves(&self, extensions: &[&Postgres]) {
        let mut expected: Vec<String> = extensions
            .iter()
            .map(|it| format!("{} serving", it.socket()))
            .collect();
        expected.sort();
        let started = Instant::now();
        loop {
            let told = self.ask("SHOW EXTENSIONS").await;
            let mut shown = Vec::new();
            for row in told.iter().flat_map(|told| &told.rows) {
                let [address, state] = [1, 3].map(|at| row[at].clone().unwrap_or_default());
                shown.push(format!("{address} {state}"));
            }
            shown.sort();
            if told.is_ok() && shown == expected {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{told:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn stop(self) {
        self.proxy.give_up().await;
        for task in self.tasks {
            task.abort();
        }
    }
}

fn url(postgres: &Postgres) -> String {
    format!(
        "postgresql://{SUPERUSER}:secret@{}/postgres",
        postgres.socket()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_proxy_follows_what_was_added() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let [named, added] = [0, 1].map(|_| Postgres::start(&[]).unwrap());
    let first = Running::start(&primary, &[&named]).await;
    first.serves(&[&named]).await;
    let add = format!("ADD EXTENSION '{}'", url(&added));
    first.ask(&add).await.unwrap();
    first.serves(&[&named, &added]).await;
    let again = first.ask(&add).await.unwrap_err();
    assert!(again.contains("is Extension 2 already"), "{again}");
    let admin = connect(primary.socket()).await;
    let outsider = "CREATE ROLE outsider; SET ROLE outsider; SELECT url FROM hihooi.extension";
    let denied = text(&admin, outsider).await;
    assert!(denied.contains("permission denied"), "{denied}");

    // One waits, and the other gives up.
    let second = Running::start(&primary, &[&named]).await;
    first.stop().await;
    second.serves(&[&named, &added]).await;
    // It was named to both; it is not there twice.
    let both = Running::start(&primary, &[&named, &added]).await;
    second.stop().await;
    both.serves(&[&named, &added]).await;
    both.ask("REMOVE EXTENSION 2").await.unwrap();
    both.serves(&[&named]).await;
    let last = Running::start(&primary, &[&named]).await;
    both.stop().await;
    last.serves(&[&named]).await;
    last.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_written_down_does_not_happen() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let [named, added] = [0, 1].map(|_| Postgres::start(&[]).unwrap());
    let proxy = Running::start(&primary, &[&named]).await;
    proxy.serves(&[&named]).await;
    let admin = connect(primary.socket()).await;
    // As another proxy does first when it takes over.
    let took_over = "UPDATE hihooi.leader SET epoch = epoch + 1";
    admin.batch_execute(took_over).await.unwrap();
    for command in [
        format!("ADD EXTENSION '{}' EMPTY", url(&added)),
        "REMOVE EXTENSION 1".into(),
    ] {
        let refused = proxy.ask(&command).await.unwrap_err();
        assert!(
            refused.contains("another proxy is the active one"),
            "{refused}"
        );
        assert!(!refused.contains("secret"), "{refused}");
    }
    proxy.serves(&[&named]).await;
    let kept = "SELECT count(*) FROM hihooi.extension";
    assert_eq!(text(&admin, kept).await, "0");
    proxy.stop().await;
}

/// One whose URL cannot be read here is left out, and said to be; the others are followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_followed_stops_nobody() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let [named, added] = [0, 1].map(|_| Postgres::start(&[]).unwrap());
    let first = Running::start(&primary, &[&named]).await;
    first.serves(&[&named]).await;
    let add = format!("ADD EXTENSION '{}'", url(&added));
    first.ask(&add).await.unwrap();
    first.serves(&[&named, &added]).await;
    let admin = connect(primary.socket()).await;
    let broken = "UPDATE hihooi.extension SET url = url || '?sslmode=verify-full&sslrootcert=gone'";
    admin.batch_execute(broken).await.unwrap();
    let second = Running::start(&primary, &[&named]).await;
    first.stop().await;
    second.serves(&[&named]).await;
    second.stop().await;
}
