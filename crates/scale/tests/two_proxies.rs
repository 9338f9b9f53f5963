//! Of two proxies in front of one Primary one is active, whatever becomes of it: killed, stopped for
//! longer than its lease, cut off from the Primary, or ended in good order.
//!
//! Proxies that are killed and stopped are processes: this very program, run again for the same test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use scale::address::Address;
use scale::console::client::{self, Told};
use scale::local::{Postgres, SUPERUSER};
use scale::proxy::Proxy;
use scale::proxy::routing::Routing;
use scale::replication::{Replication, Settings};
use support::cluster::{Cluster, text, wait};
use support::raw::Raw;
use support::{Front, connect, connect_by, is_there, options, options_at, printed};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Says to a test that it is to be a proxy, in front of these databases.
const INSIDE: &str = "REPLEX_TEST_PROXY";
/// What such a process says begins so, wherever the line has it.
const SAYS: &str = "the proxy says: ";

/// A proxy in a process of its own.
struct Running {
    child: Child,
    address: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

/// Runs a test, or is a proxy if whoever started this process says so.
fn run<F: Future<Output = ()>>(name: &'static str, test: fn(&'static str) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    match std::env::var(INSIDE) {
        Ok(databases) => runtime.block_on(be_proxy(&databases)),
        Err(_) if is_there() => runtime.block_on(test(name)),
        Err(_) => {}
    }
}

/// Is a proxy, for as long as whoever started this process lives.
async fn be_proxy(databases: &str) {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let mut addresses = databases.split(' ').map(|url| Address::parse(url).unwrap());
    let mut told = options_at(addresses.next().unwrap(), 10);
    told.extensions = addresses.collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{SAYS}{}", listener.local_addr().unwrap());
    let proxy = Proxy::standing_by(told);
    let settings = Settings::default();
    tokio::select! {
        served = proxy.serve(listener) => served.unwrap(),
        problem = proxy.stand(&settings, |standing| println!("{SAYS}{standing:?}")) => panic!("{problem}"),
    }
}

fn url(postgres: &Postgres) -> String {
    format!("postgresql://{SUPERUSER}@{}/postgres", postgres.socket())
}

impl Running {
    /// Starts one for this test.
    fn start(test: &str, databases: &[&Postgres]) -> Running {
        let urls: Vec<String> = databases.iter().map(|it| url(it)).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, urls.join(" "))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = lines.filter_map(|line| {
            let line = line.unwrap();
            line.split_once(SAYS).map(|(_, said)| said.to_owned())
        });
        let address = said.next().unwrap().parse().unwrap();
        let all = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&all);
        std::thread::spawn(move || said.for_each(|line| kept.lock().unwrap().push(line)));
        Running {
            child,
            address,
            said: all,
        }
    }

    /// Waits until it says something that begins like this.
    async fn says(&self, start: &str) -> String {
        let said = Arc::clone(&self.said);
        let found = || {
            let said = said.lock().unwrap();
            said.iter().find(|line| line.starts_with(start)).cloned()
        };
        wait(&format!("{start} of {:?}", self.said), || async { found() }).await
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(process, signal).unwrap();
    }

    async fn ask(&self, command: &str) -> Told {
        let address = Address::parse(&format!("postgresql://{SUPERUSER}@{}/x", self.address));
        client::ask(&address.unwrap(), command).await.unwrap()
    }

    /// Waits until its Extension serves.
    async fn serves(&self) {
        wait("an Extension that serves", || async {
            let told = self.ask("SHOW EXTENSIONS").await;
            let state = told.rows.first().and_then(|row| row[3].clone());
            assert_ne!(state.as_deref(), Some("failed"), "{told:?}");
            (state.as_deref() == Some("serving")).then_some(())
        })
        .await;
    }

    /// Reads that its Extension answered.
    async fn served(&self) -> u64 {
        let told = self.ask("SHOW EXTENSIONS").await;
        told.rows[0][8].as_ref().unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The SQLSTATE of a login that must fail.
async fn refused(address: SocketAddr) -> (String, String) {
    let (host, port) = (address.ip(), address.port());
    let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
    let Err(error) = tokio_postgres::connect(&line, NoTls).await else {
        panic!("a standby let somebody in");
    };
    let error = error.as_db_error().expect("the proxy says why");
    (error.code().code().to_owned(), error.message().to_owned())
}

const SCHEMA: &str = "
CREATE TABLE counter (id int PRIMARY KEY, n int8 NOT NULL);
INSERT INTO counter SELECT id, 0 FROM generate_series(0, 9) id;
CREATE TABLE entry (writer int, n int8, PRIMARY KEY (writer, n));
CREATE TABLE log (writer int, n int8);
ALTER TABLE log REPLICA IDENTITY FULL";

async fn databases() -> (Postgres, Postgres) {
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let extension = Postgres::start(&[]).unwrap();
    let client = connect(primary.socket()).await;
    client.batch_execute(SCHEMA).await.unwrap();
    (primary, extension)
}

/// What the writers know.
struct Load {
    /// Both proxies, as a driver takes them.
    line: String,
    acknowledged: Mutex<BTreeSet<(i32, i64)>>,
    /// How many commits of each were acknowledged.
    counts: [AtomicI64; 4],
    is_over: AtomicBool,
}

impl Load {
    fn len(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// A session at the proxy that is active.
    async fn connect(&self) -> Client {
        wait("proxy that lets anybody in", || async {
            let (client, connection) = tokio_postgres::connect(&self.line, NoTls).await.ok()?;
            tokio::spawn(connection);
            Some(client)
        })
        .await
    }

    /// Writes numbers, each once whatever becomes of it, until the load is over.
    async fn write(self: Arc<Self>, writer: i32) {
        let mut client = self.connect().await;
        for n in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let begin = if n % 2 == 0 { "BEGIN;" } else { "" };
            let end = if n % 2 == 0 { "; COMMIT" } else { "" };
            // Without BEGIN the text is a transaction of its own.
            let text = format!(
                "{begin} UPDATE counter SET n = n + 1 WHERE id = {writer};
                 INSERT INTO entry VALUES ({writer}, {n}); INSERT INTO log VALUES ({writer}, {n}){end}"
            );
            match client.batch_execute(&text).await {
                Ok(()) => {
                    let at = usize::try_from(writer).unwrap();
                    self.counts[at].fetch_add(1, Ordering::SeqCst);
                    self.acknowledged.lock().unwrap().insert((writer, n));
                }
                // Whether it was committed is seen later; it is not tried again.
                Err(_) => client = self.connect().await,
            }
        }
    }

    /// Reads all counters: each must have what was acknowledged before.
    async fn read(self: Arc<Self>) -> u64 {
        let mut client = self.connect().await;
        let mut reads = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            for (id, count) in self.counts.iter().enumerate() {
                let before = count.load(Ordering::SeqCst);
                let query = format!("SELECT n FROM counter WHERE id = {id}");
                match client.query_one(&query, &[]).await {
                    Ok(row) => {
                        let found: i64 = row.get(0);
                        assert!(found >= before, "counter {id} was {found}, not {before}");
                        reads += 1;
                    }
                    Err(_) => client = self.connect().await,
                }
            }
        }
        reads
    }
}

/// Every row of the tables, and what must be so of them.
const ALL: &str = "
SELECT 'counter ' || string_agg(id || ':' || n, ' ' ORDER BY id) FROM counter
UNION ALL SELECT 'entry ' || count(*) || md5(string_agg(writer || ':' || n, ' ' ORDER BY writer, n)) FROM entry
UNION ALL SELECT 'log ' || count(*) || md5(string_agg(writer || ':' || n, ' ' ORDER BY writer, n)) FROM log";
const TORN: &str = "
SELECT id FROM counter c WHERE n <> (SELECT count(*) FROM entry e WHERE e.writer = c.id)
    OR n <> (SELECT count(*) FROM log l WHERE l.writer = c.id)";

#[test]
fn standby_takes_over_from_one_that_is_killed() {
    run("standby_takes_over_from_one_that_is_killed", take_over);
}

async fn take_over(test: &'static str) {
    let (primary, extension) = databases().await;
    let mut active = Running::start(test, &[&primary, &extension]);
    active.says("Active").await;
    active.serves().await;
    let standby = Running::start(test, &[&primary, &extension]);
    let waits = standby.says("Waits").await;
    let of_active = format!("process {} on", active.child.id());
    assert!(waits.contains(&of_active), "{waits}");
    expect_refusal(&primary, &active, &standby).await;

    let hosts = format!("{},{}", standby.address.ip(), active.address.ip());
    let ports = format!("{},{}", standby.address.port(), active.address.port());
    let load = Arc::new(Load {
        line: format!("host={hosts} port={ports} user={SUPERUSER} dbname=postgres"),
        acknowledged: Mutex::default(),
        counts: Default::default(),
        is_over: AtomicBool::default(),
    });
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        writers.spawn(Arc::clone(&load).write(writer));
    }
    let mut readers = JoinSet::new();
    for _ in 0..2 {
        readers.spawn(Arc::clone(&load).read());
    }
    wait("commits", || async { (load.len() > 300).then_some(()) }).await;
    active.signal(Signal::KILL);
    let killed = Instant::now();
    active.child.wait().unwrap();
    standby.says("Active").await;
    println!("active {:?} after the other was killed", killed.elapsed());
    let before = load.len();
    let more = || async { (load.len() > before).then_some(()) };
    wait("commit by the other", more).await;
    println!(
        "first commit {:?} after the other was killed",
        killed.elapsed()
    );
    wait("commits by the other", || async {
        (load.len() > before + 300).then_some(())
    })
    .await;
    standby.serves().await;
    let served = standby.served().await;
    let more = || async { (standby.served().await > served + 20).then_some(()) };
    wait("reads at the Extension", more).await;
    load.is_over.store(true, Ordering::Relaxed);
    writers.join_all().await;
    let reads: u64 = readers.join_all().await.iter().sum();
    println!("{} commits acknowledged, {reads} reads", load.len());
    expect_everything(&load, &primary, &extension).await;
    let told = standby.ask("SHOW EXTENSIONS").await;
    assert_eq!(told.rows[0][3].as_deref(), Some("serving"), "{told:?}");
}

/// A standby sends its clients away so that they find the active one, and says to operators what it is.
async fn expect_refusal(primary: &Postgres, active: &Running, standby: &Running) {
    let (code, message) = refused(standby.address).await;
    assert_eq!(code, "57P03");
    let of_active = format!("process {} on", active.child.id());
    assert!(message.contains(&of_active), "{message}");
    let both = format!(
        "postgresql://{SUPERUSER}@{},{}/postgres",
        standby.address, active.address
    );
    let mut psql = Command::new(primary.programs().join("psql"));
    psql.args([&both, "-Atc", "SELECT count(*) FROM counter"]);
    let output = tokio::task::spawn_blocking(move || psql.output().unwrap());
    assert_eq!(printed(&output.await.unwrap()), "10\n");
    let told = standby.ask("SHOW PROXY").await;
    assert_eq!(told.rows[0][0].as_deref(), Some("standby"));
    assert!(told.rows[0][1].as_ref().unwrap().contains(&of_active));
    let told = active.ask("SHOW PROXY").await;
    assert_eq!(told.rows[0][0].as_deref(), Some("active"));
    assert!(told.rows[0][2].is_some());
}

/// All that was acknowledged is on the Primary, each commit is there whole and once, and so it is at the
/// Extension.
async fn expect_everything(load: &Load, primary: &Postgres, extension: &Postgres) {
    let client = connect(primary.socket()).await;
    assert_eq!(text(&client, TORN).await, "");
    let rows = client.query("SELECT writer, n FROM entry", &[]).await;
    let rows = rows.unwrap();
    let found: BTreeSet<(i32, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let acknowledged = load.acknowledged.lock().unwrap().clone();
    let missing: Vec<_> = acknowledged.difference(&found).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let expected = text(&client, ALL).await;
    let there = connect(extension.socket()).await;
    wait("Extension that equals the Primary", || async {
        (text(&there, ALL).await == expected).then_some(())
    })
    .await;
}

/// What a session is told, in one word: the value that it reads, or an SQLSTATE.
async fn hears(client: &Client, query: &str) -> String {
    match client.simple_query(query).await {
        Ok(messages) => {
            let row = messages.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            row.unwrap_or_default()
        }
        Err(error) => match error.code() {
            Some(code) => code.code().to_owned(),
            None => "closed".into(),
        },
    }
}

/// SQLSTATEs of a proxy that is the active one no more, and of a connection without a word.
const GOODBYES: [&str; 4] = ["57P01", "08001", "08006", "closed"];
const READ: &str = "SELECT n FROM counter WHERE id = 1";

#[test]
fn one_that_slept_through_its_lease_says_nothing_old() {
    run(
        "one_that_slept_through_its_lease_says_nothing_old",
        sleep_through,
    );
}

async fn sleep_through(test: &'static str) {
    let (primary, extension) = databases().await;
    let zombie = Running::start(test, &[&primary, &extension]);
    zombie.says("Active").await;
    zombie.serves().await;
    let other = Running::start(test, &[&primary, &extension]);
    other.says("Waits").await;

    let early = session_at_extension(&zombie).await;
    let late = session_at_extension(&zombie).await;
    let later = session_at_extension(&zombie).await;
    // One has written, and not committed.
    let writer = connect(zombie.address).await;
    let begun = "BEGIN; UPDATE counter SET n = 13 WHERE id = 2";
    writer.batch_execute(begun).await.unwrap();
    // One reads at the Extension, and is not answered before everything else has happened.
    let there = connect(extension.socket()).await;
    there
        .batch_execute("BEGIN; LOCK TABLE counter IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let early = tokio::spawn(async move { hears(&early, READ).await });
    let watch = connect(extension.socket()).await;
    wait_for_reads(&watch, READ, 1).await;
    zombie.signal(Signal::STOP);
    let stopped = Instant::now();
    // Nothing more is executed at the Extension, so that what is read there is old.
    let held = connect(extension.socket()).await;
    held.batch_execute("BEGIN; LOCK TABLE hihooi.applied IN EXCLUSIVE MODE")
        .await
        .unwrap();
    other.says("Active").await;
    println!("active {:?} after the other fell silent", stopped.elapsed());
    let new = connect(other.address).await;
    // The second is not in the way any more of what the zombie has written.
    for write in [
        "UPDATE counter SET n = 1 WHERE id = 1",
        "UPDATE counter SET n = n + 7 WHERE id = 2",
    ] {
        new.batch_execute(write).await.unwrap();
    }
    assert_eq!(hears(&new, READ).await, "1");
    // These ask after the other's commit.
    let asked =
        [late, later].map(|session| tokio::spawn(async move { hears(&session, READ).await }));
    let commit = tokio::spawn(async move { hears(&writer, "COMMIT").await });
    there.batch_execute("COMMIT").await.unwrap();
    wait_for_reads(&watch, READ, 0).await;
    assert_eq!(
        text(&watch, READ).await,
        "0",
        "what the Extension says is old"
    );
    zombie.signal(Signal::CONT);
    for heard in [early, commit].into_iter().chain(asked) {
        let heard = heard.await.unwrap();
        assert!(GOODBYES.contains(&heard.as_str()), "{heard}");
    }
    expect_standby(&zombie).await;
    assert_eq!(hears(&new, "SELECT n FROM counter WHERE id = 2").await, "7");
    held.batch_execute("COMMIT").await.unwrap();
    other.serves().await;
    let expected = text(&connect(primary.socket()).await, ALL).await;
    wait("Extension that equals the Primary", || async {
        (text(&watch, ALL).await == expected).then_some(())
    })
    .await;
}

/// A session whose reads go to the Extension.
async fn session_at_extension(proxy: &Running) -> Client {
    let session = connect(proxy.address).await;
    let served = proxy.served().await;
    wait("read at the Extension", || async {
        assert_eq!(hears(&session, READ).await, "0");
        (proxy.served().await > served).then_some(())
    })
    .await;
    session
}

/// One that was active has lost that, and stands by for the other.
async fn expect_standby(zombie: &Running) {
    zombie.says("Lost").await;
    wait("zombie that stands by", || async {
        (zombie.ask("SHOW PROXY").await.rows[0][1].is_some()).then_some(())
    })
    .await;
    assert_eq!(refused(zombie.address).await.0, "57P03");
}

/// Says who has the lock of the active proxy: its process on the Primary.
const HOLDER: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
    AND classid = 1751738479 AND granted";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_gives_up_is_followed_at_once() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let address = primary.address("postgres");
    let first = Routing::start(&address, 10, &Settings::default())
        .await
        .unwrap();
    let epoch = first.extensions.replication().epoch();
    let front = Front::routed(options(&primary, 10), Some(first)).await;
    let mut raw = Raw::log_in(front.address).await;
    let (waits, mut is_waiting) = tokio::sync::mpsc::unbounded_channel();
    let second = {
        let address = address.clone();
        let told = move |name: &str| waits.send(name.to_owned()).unwrap();
        tokio::spawn(async move { Replication::stand(&address, told).await.unwrap() })
    };
    let name = is_waiting.recv().await.unwrap();
    assert!(
        name.contains(&format!("process {}", std::process::id())),
        "{name}"
    );
    let began = Instant::now();
    front.proxy.give_up().await;
    let leadership = second.await.unwrap();
    println!("active {:?} after the other gave up", began.elapsed());
    assert!(leadership.epoch > epoch);
    assert!(leadership.lease.is_valid());
    let last = raw.last_words().await;
    assert_eq!(last.code, "57P01", "{last}");
    assert_eq!(refused(front.address).await.0, "57P03");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_loses_its_session_goes_on_if_nobody_else_came() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let primary = connect(cluster.primary.socket()).await;
    let client = cluster.front.connect().await;
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(table).await.unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    let epoch = text(&primary, "SELECT epoch FROM hihooi.leader").await;
    let before = text(&primary, HOLDER).await;
    let end = format!("SELECT pg_terminate_backend({before})");
    primary.batch_execute(&end).await.unwrap();
    wait("session that has the lock", || async {
        let holder = text(&primary, HOLDER).await;
        (!holder.is_empty() && holder != before).then_some(())
    })
    .await;
    // The session goes on, writes, and is answered by the Extension; others can come.
    client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    reads_at_extension(&cluster, &client).await;
    let other = cluster.front.connect().await;
    other
        .batch_execute("INSERT INTO t VALUES (2)")
        .await
        .unwrap();
    assert_eq!(
        text(&primary, "SELECT epoch FROM hihooi.leader").await,
        epoch
    );
}

async fn reads_at_extension(cluster: &Cluster, client: &Client) {
    let served = cluster.served();
    wait("read at the Extension", || async {
        client
            .batch_execute("SELECT count(*) FROM t")
            .await
            .unwrap();
        (cluster.served() > served).then_some(())
    })
    .await;
}

/// Nothing is read at Extensions while the Primary does not confirm that the proxy is active, and what was
/// read there before is told only once it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extensions_say_nothing_while_the_lease_is_not_renewed() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let (client, early) = (cluster.front.connect().await, cluster.front.connect().await);
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(table).await.unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    reads_at_extension(&cluster, &client).await;
    let there = connect(cluster.extensions[0].socket()).await;
    let watch = connect(cluster.extensions[0].socket()).await;
    let lock = "BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE";
    there.batch_execute(lock).await.unwrap();
    let read = "SELECT 5 + count(*) FROM t";
    let early = tokio::spawn(async move { hears(&early, read).await });
    wait_for_reads(&watch, read, 1).await;
    let held = connect(cluster.primary.socket()).await;
    let lock = "BEGIN; LOCK TABLE hihooi.beat IN ACCESS EXCLUSIVE MODE";
    held.batch_execute(lock).await.unwrap();
    let lease = cluster.front.proxy.followed().unwrap().lease.clone();
    wait("lease that has run out", || async {
        (!lease.is_valid()).then_some(())
    })
    .await;
    there.batch_execute("COMMIT").await.unwrap();
    wait_for_reads(&watch, read, 0).await;
    let served = cluster.served();
    for _ in 0..20 {
        assert_eq!(hears(&client, "SELECT count(*) FROM t").await, "0");
    }
    assert_eq!(cluster.served(), served);
    let routes = cluster.front.proxy.visitors().routes();
    let why = (None, "another proxy might be the active one");
    assert_eq!(routes.get(&why), Some(&20), "{routes:?}");
    assert!(!early.is_finished(), "{:?}", early.await);
    held.batch_execute("COMMIT").await.unwrap();
    assert_eq!(early.await.unwrap(), "5");
    reads_at_extension(&cluster, &client).await;
}

/// Waits until so many sessions of an Extension are with this statement.
async fn wait_for_reads(extension: &Client, read: &str, count: u64) {
    let running = format!(
        "SELECT count(*) FROM pg_stat_activity
          WHERE state = 'active' AND pid <> pg_backend_pid() AND query = '{read}'"
    );
    wait("other number of reads at the Extension", || async {
        (text(extension, &running).await == count.to_string()).then_some(())
    })
    .await;
}

/// Who is no proxy may have the lock; they are left alone, and waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stranger_with_the_lock_is_waited_for() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let line = format!(
        "host={} port={} user={SUPERUSER} dbname=postgres application_name=ann",
        primary.socket().ip(),
        primary.socket().port()
    );
    let stranger = connect_by(&line).await;
    let lock = "SELECT pg_advisory_lock(1751738479, 1)";
    stranger.batch_execute(lock).await.unwrap();
    let address = primary.address("postgres");
    let (waits, mut is_waiting) = tokio::sync::mpsc::unbounded_channel();
    let told = move |name: &str| waits.send(name.to_owned()).unwrap();
    let standing = tokio::spawn(async move { Replication::stand(&address, told).await });
    let name = is_waiting.recv().await.unwrap();
    assert!(
        name.contains(&format!("nobody known: user {SUPERUSER}")),
        "{name}"
    );
    assert!(!standing.is_finished());
    let unlock = "SELECT pg_advisory_unlock(1751738479, 1)";
    stranger.batch_execute(unlock).await.unwrap();
    let leadership = standing.await.unwrap().unwrap();
    assert!(leadership.lease.is_valid());
}

/// What a proxy before has begun at an Extension, and not committed, it never commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extractor_of_a_proxy_before_is_ended() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let client = cluster.front.connect().await;
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(table).await.unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    let socket = cluster.extensions[0].socket();
    let (host, port) = (socket.ip(), socket.port());
    let line = format!(
        "host={host} port={port} user={SUPERUSER} dbname=postgres application_name='replex extractor'"
    );
    let before = connect_by(&line).await;
    let begun = "BEGIN; INSERT INTO t VALUES (1); UPDATE hihooi.applied SET tsid = tsid";
    before.batch_execute(begun).await.unwrap();
    let process = text(&before, "SELECT pg_backend_pid()").await;
    let end_others = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = 'replex extractor' AND pid <> {process}"
    );
    let extension = connect(socket).await;
    extension.batch_execute(&end_others).await.unwrap();
    let insert = "INSERT INTO t VALUES (1), (2)";
    client.batch_execute(insert).await.unwrap();
    cluster
        .wait_until_equal("SELECT id FROM t ORDER BY id")
        .await;
    let heard = hears(&before, "COMMIT").await;
    assert!(GOODBYES.contains(&heard.as_str()), "{heard}");
}

/// What a later proxy has taken up is not executed at any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extension_of_a_later_epoch_is_left_alone() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let extension = connect(cluster.extensions[0].socket()).await;
    let take_up = "UPDATE hihooi.epoch SET epoch = epoch + 1;
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'replex extractor'";
    extension.batch_execute(take_up).await.unwrap();
    wait("word of the other proxy", || async {
        let status = cluster.front.extensions().replication().status();
        let mut all = status.values();
        all.any(|it| it.text.contains("another proxy has taken it up"))
            .then_some(())
    })
    .await;
    // Neither does it stay, nor does it come back.
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'replex extractor'";
    wait("Extension without its Extractor", || async {
        (text(&extension, sessions).await == "0").then_some(())
    })
    .await;
}
