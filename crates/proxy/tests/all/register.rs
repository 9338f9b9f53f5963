//! Replicas that operators have added last: the primary keeps them, and the next active proxy
//! follows them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::console::client::{self, CommandOutput};
use proxy::serve::Proxy;
use replication::ReplicationSettings;
use rustix::process::Signal;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::support::cluster::{text, wait};
use crate::support::{connect, is_there, options, printed, run, signal};

/// A password that no server asks for, and no client must be shown.
const SECRET: &str = "hush";

/// A proxy that stands for being the active one.
struct Running {
    address: SocketAddr,
    proxy: Arc<Proxy>,
    messages: Arc<Mutex<Vec<String>>>,
    standing: JoinHandle<()>,
    serving: JoinHandle<()>,
}

impl Running {
    async fn start(primary: &Postgres, named: &[&Postgres]) -> Running {
        let mut proxy_options = options(primary, 10);
        proxy_options.replicas = named.iter().map(|it| it.address("postgres")).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (proxy, messages) = (Proxy::standing_by(proxy_options), Arc::default());
        let (serves, stands) = (Arc::clone(&proxy), Arc::clone(&proxy));
        let serving = tokio::spawn(async move { serves.serve(listener).await.unwrap() });
        let received: Arc<Mutex<Vec<String>>> = Arc::clone(&messages);
        let standing = tokio::spawn(async move {
            let report = |standing| received.lock().unwrap().push(format!("{standing:?}"));
            panic!(
                "{}",
                stands
                    .compete_for_leadership(&ReplicationSettings::default(), report)
                    .await
            );
        });
        Running {
            address,
            proxy,
            messages,
            standing,
            serving,
        }
    }

    /// Waits until it reports something that begins like this.
    async fn status_text(&self, start: &str) -> String {
        wait(start, || async {
            let messages = self.messages.lock().unwrap();
            messages
                .iter()
                .find(|line| line.starts_with(start))
                .cloned()
        })
        .await
    }

    /// Gives up, and does not come back.
    async fn stop(self) {
        self.standing.abort();
        self.proxy.give_up().await;
        self.serving.abort();
    }

    async fn try_ask(&self, command: &str) -> Result<CommandOutput, String> {
        let address = Address::parse(&format!("postgresql://{SUPERUSER}@{}/x", self.address));
        let output = client::ask(&address.unwrap(), command).await;
        output.map_err(|problem| problem.to_string())
    }

    async fn ask(&self, command: &str) -> CommandOutput {
        self.try_ask(command).await.unwrap()
    }

    /// Addresses of its replicas, by their numbers.
    async fn replicas(&self) -> Vec<String> {
        let output = self.ask("SHOW REPLICAS").await;
        let shown = format!("{output:?}");
        assert!(!shown.contains(SECRET), "{shown}");
        let addresses = output.rows.iter().map(|row| row[1].clone().unwrap());
        addresses.collect()
    }

    /// Waits until a replica has answered a read, and has the row that was written just before.
    async fn serves(&self, replica: &Postgres) {
        let user = connect(self.address).await;
        let write = "INSERT INTO t SELECT 1 + count(*) FROM t";
        user.batch_execute(write).await.unwrap();
        let rows = text(&user, "SELECT count(*) FROM t").await;
        let place = Some(replica.socket().to_string());
        let has_served = |output: &CommandOutput| {
            let mut all = output.rows.iter();
            all.any(|row| row[1] == place && row[8].as_deref() != Some("0"))
        };
        wait("a read at the replica", || async {
            assert_eq!(text(&user, "SELECT count(*) FROM t").await, rows);
            has_served(&self.ask("SHOW REPLICAS").await).then_some(())
        })
        .await;
        let there = connect(replica.socket()).await;
        wait("what was written", || async {
            (text(&there, "SELECT count(*) FROM t").await == rows).then_some(())
        })
        .await;
    }
}

fn add(replica: &Postgres) -> String {
    let socket = replica.socket();
    format!("ADD REPLICA 'postgresql://{SUPERUSER}:{SECRET}@{socket}/postgres?sslmode=disable'")
}

/// The content of the register.
async fn registered(primary: &Client) -> String {
    text(primary, "SELECT url FROM hihooi.replica ORDER BY added").await
}

/// A primary that logs every statement and grants every right that it can, and two databases.
async fn databases() -> (Postgres, [Postgres; 2]) {
    let primary = Postgres::start(&["synchronous_commit=on", "log_statement=all"]).unwrap();
    let setup = "CREATE ROLE ann; ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC;
        CREATE TABLE t (id int PRIMARY KEY)";
    let client = connect(primary.socket()).await;
    client.batch_execute(setup).await.unwrap();
    (primary, [(); 2].map(|()| Postgres::start(&[]).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn added_replicas_are_followed_by_the_next_active_proxy() {
    if !is_there() {
        return;
    }
    let (primary, [named, added]) = databases().await;
    let both = [&named, &added].map(|it| it.socket().to_string());
    let first = Running::start(&primary, &[&named]).await;
    first.status_text("Active").await;
    let output = first.ask(&add(&added)).await;
    assert_eq!(output.rows, [[Some("2".to_owned())]]);
    first.serves(&added).await;
    let why = first.try_ask(&add(&named)).await.unwrap_err();
    assert!(why.contains("is replica 1 already"), "{why}");

    let second = Running::start(&primary, &[&named]).await;
    second.status_text("Waits").await;
    first.stop().await;
    second.status_text("Active").await;
    assert_eq!(second.replicas().await, both);
    second.serves(&added).await;
    second.stop().await;

    // One is named now that was added, and one cannot be taken up here.
    let admin = connect(primary.socket()).await;
    let unreadable = format!(
        "INSERT INTO hihooi.replica VALUES ('nowhere', 1, 'x', 'postgresql://a:{SECRET}@x?sslcert=y')"
    );
    admin.batch_execute(&unreadable).await.unwrap();
    let third = Running::start(&primary, &[&named, &added]).await;
    let without = third.status_text("Without").await;
    let place = "the replica at nowhere:1/x: sslcert and sslkey go together";
    assert!(
        without.contains(place) && !without.contains(SECRET),
        "{without}"
    );
    third.status_text("Active").await;
    assert_eq!(third.replicas().await, both);
    third.serves(&added).await;
    third.stop().await;
    expect_secrecy(&primary, &admin).await;
}

/// The register is its owner's alone, and passwords are not in the log.
async fn expect_secrecy(primary: &Postgres, admin: &Client) {
    assert!(registered(admin).await.contains(SECRET));
    let may_read = "SELECT has_table_privilege('ann', 'hihooi.replica', 'SELECT')";
    assert_eq!(text(admin, may_read).await, "f");
    let log = std::fs::read_to_string(primary.log()).unwrap();
    assert!(log.contains("CREATE TABLE t"), "{log}");
    // The test itself has written it there.
    let mut lines = log.lines().filter(|line| line.contains(SECRET));
    assert!(
        lines.all(|line| line.contains("sslcert=y")),
        "a password in the log"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_replica_is_not_followed_again() {
    if !is_there() {
        return;
    }
    let (primary, [named, added]) = databases().await;
    let places = [&named, &added].map(|it| it.socket().to_string());
    let admin = connect(primary.socket()).await;
    let first = Running::start(&primary, &[&named]).await;
    first.status_text("Active").await;
    first.ask(&add(&added)).await;
    // A replica that is no more in the file, but in the register, stays.
    let addresses = [&named, &added].map(|it| it.address("postgres"));
    let replicas = &first.proxy.followed().unwrap().replicas;
    let exchanged = replicas.exchange(&addresses, &addresses[..1]).await;
    exchanged.unwrap();
    assert_eq!(first.replicas().await, places);
    first.ask("REMOVE REPLICA 2").await;
    assert_eq!(first.replicas().await, places[..1]);
    assert_eq!(registered(&admin).await, "");
    // A number is not given twice.
    let output = first.ask(&add(&added)).await;
    assert_eq!(output.rows, [[Some("3".to_owned())]]);
    first.ask("REMOVE REPLICA 3").await;
    first.stop().await;

    let second = Running::start(&primary, &[&named]).await;
    second.status_text("Active").await;
    assert_eq!(second.replicas().await, places[..1]);
    // An operator that removes a named replica is warned that it comes back, and so it does.
    let words = ["-At", "-c", "REMOVE REPLICA 1", "hihooi"];
    let output = run(&primary, "psql", second.address, &words).await;
    let noticed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        noticed.contains("NOTICE:  options or the file name it"),
        "{noticed}"
    );
    assert_eq!(printed(&output), "REMOVE REPLICA\n");
    assert_eq!(second.replicas().await, [""; 0]);
    second.stop().await;
    let third = Running::start(&primary, &[&named]).await;
    third.status_text("Active").await;
    assert_eq!(third.replicas().await, places[..1]);
    third.stop().await;
}

/// Neither a replica nor a log line of it is left of a change that the primary does not note, and
/// none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_that_the_register_cannot_note_is_not_made() {
    if !is_there() {
        return;
    }
    let (mut primary, [replica, other]) = databases().await;
    let running = Running::start(&primary, &[]).await;
    running.status_text("Active").await;
    let admin = connect(primary.socket()).await;
    let lock = "BEGIN; LOCK TABLE hihooi.replica IN ACCESS EXCLUSIVE MODE";
    admin.batch_execute(lock).await.unwrap();
    let refuses = "the primary refused to record the change, so nothing has changed: canceling";
    let why = running.try_ask(&add(&replica)).await.unwrap_err();
    assert!(why.starts_with(refuses) && !why.contains(SECRET), "{why}");
    assert_eq!(running.replicas().await, [""; 0]);
    admin.batch_execute("COMMIT").await.unwrap();
    assert_eq!(registered(&admin).await, "");

    running.ask(&add(&replica)).await;
    running.serves(&replica).await;
    let before = registered(&admin).await;
    admin.batch_execute(lock).await.unwrap();
    let why = running.try_ask("REMOVE REPLICA 1").await.unwrap_err();
    assert!(why.starts_with(refuses), "{why}");
    admin.batch_execute("COMMIT").await.unwrap();
    running.serves(&replica).await;

    // Another one has become active, which this one does not know yet.
    let raise = "UPDATE hihooi.leader SET epoch = epoch + 1";
    admin.batch_execute(raise).await.unwrap();
    for command in [&add(&other), "REMOVE REPLICA 1"] {
        let why = running.try_ask(command).await.unwrap_err();
        assert!(why.contains("is not the active one any more"), "{why}");
    }
    let lower = "UPDATE hihooi.leader SET epoch = epoch - 1";
    admin.batch_execute(lower).await.unwrap();
    assert_eq!(registered(&admin).await, before);

    // The primary notes it once no caller waits any more.
    signal(&primary, Signal::STOP);
    expect_silence(&running, &replica, &other).await;
    signal(&primary, Signal::CONT);
    until_done(&running, "REMOVE REPLICA 1").await;
    assert_eq!(registered(&admin).await, "");
    // It is gone, and is asked when it is back.
    running.ask(&add(&replica)).await;
    primary.crash().unwrap();
    expect_silence(&running, &replica, &other).await;
    primary.start_again().unwrap();
    until_done(&running, "REMOVE REPLICA 2").await;
    assert_eq!(registered(&connect(primary.socket()).await).await, "");
    running.stop().await;
}

/// A change that the primary does not answer is not made.
async fn expect_silence(running: &Running, replica: &Postgres, other: &Postgres) {
    let why = running.try_ask(&add(other)).await.unwrap_err();
    assert!(why.contains("did not confirm the change in time"), "{why}");
    let place = replica.socket().to_string();
    assert_eq!(running.replicas().await, [place]);
}

/// Asks until the primary answers.
async fn until_done(running: &Running, command: &str) {
    wait(command, || async {
        match running.try_ask(command).await {
            Ok(_) => Some(()),
            Err(why) => {
                assert!(why.contains("does not confirm"), "{why}");
                None
            }
        }
    })
    .await;
}
