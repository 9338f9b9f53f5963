//! Two proxies in front of one primary, each in a process of its own that can be killed and
//! stopped, and clients that write and read through whichever is the active one.
//!
//! Such a process is this very program, run again for the same test.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::console::client::{self, CommandOutput};
use proxy::serve::Proxy;
use replication::ReplicationSettings;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

use super::cluster::{PATIENCE, text, wait};
use super::{connect, is_there, options_at};

/// Makes a test a proxy, in front of these databases.
const INSIDE: &str = "REPLEX_TEST_PROXY";
/// The output of such a process begins so, wherever the line has it.
const PREFIX: &str = "proxy output: ";

/// Runs a test, or is a proxy if the process that started this one asks for that.
pub fn run<F: Future<Output = ()>>(name: &'static str, test: fn(&'static str) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
    match std::env::var(INSIDE) {
        Ok(databases) => runtime.block_on(be_proxy(&databases)),
        Err(_) if is_there() => runtime.block_on(test(name)),
        Err(_) => {}
    }
}

/// Is a proxy, for as long as the process lives that started this one.
async fn be_proxy(databases: &str) {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let mut addresses = databases.split(' ').map(|url| Address::parse(url).unwrap());
    let mut proxy_options = options_at(addresses.next().unwrap(), 10);
    proxy_options.replicas = addresses.collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{PREFIX}{}", listener.local_addr().unwrap());
    let proxy = Proxy::standing_by(proxy_options);
    let settings = ReplicationSettings::default();
    tokio::select! {
        served = proxy.serve(listener) => served.unwrap(),
        problem = proxy.compete_for_leadership(&settings, |standing| println!("{PREFIX}{standing:?}")) => panic!("{problem}"),
    }
}

/// A proxy in a process of its own.
pub struct Running {
    pub child: Child,
    pub address: SocketAddr,
    messages: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Starts one for this test, in front of the first of these databases.
    fn start(test: &str, databases: &[&Postgres]) -> Running {
        let url = |it: &&Postgres| format!("postgresql://{SUPERUSER}@{}/postgres", it.socket());
        let urls: Vec<String> = databases.iter().map(url).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, urls.join(" "))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut messages = lines.filter_map(|line| {
            let line = line.unwrap();
            line.split_once(PREFIX)
                .map(|(_, message)| message.to_owned())
        });
        let address = messages.next().unwrap().parse().unwrap();
        let all = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&all);
        std::thread::spawn(move || messages.for_each(|line| kept.lock().unwrap().push(line)));
        Running {
            child,
            address,
            messages: all,
        }
    }

    /// Waits until it reports something that begins like this.
    pub async fn status_text(&self, start: &str) -> String {
        let messages = Arc::clone(&self.messages);
        let found = || {
            let messages = messages.lock().unwrap();
            messages
                .iter()
                .find(|line| line.starts_with(start))
                .cloned()
        };
        wait(&format!("{start} of {:?}", self.messages), || async {
            found()
        })
        .await
    }

    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(process, signal).unwrap();
    }

    pub async fn ask(&self, command: &str) -> CommandOutput {
        let address = Address::parse(&format!("postgresql://{SUPERUSER}@{}/x", self.address));
        client::ask(&address.unwrap(), command).await.unwrap()
    }

    /// Waits until all its replicas serve.
    pub async fn serves(&self) {
        wait("proxy whose replicas all serve", || async {
            let output = self.ask("SHOW REPLICAS").await;
            let states = output.rows.iter().map(|row| row[3].as_deref());
            let states: Vec<Option<&str>> = states.collect();
            assert!(!states.contains(&Some("failed")), "{output:?}");
            let do_all = states.iter().all(|state| *state == Some("serving"));
            (do_all && !states.is_empty()).then_some(())
        })
        .await;
    }

    /// Reads that its replicas answered.
    pub async fn served(&self) -> u64 {
        let output = self.ask("SHOW REPLICAS").await;
        let reads = output.rows.iter().map(|row| row[8].as_ref().unwrap());
        reads.map(|reads| reads.parse::<u64>().unwrap()).sum()
    }

    /// Returns whether it reports that it is the active one.
    pub async fn is_active(&self) -> bool {
        self.ask("SHOW PROXY").await.rows[0][0].as_deref() == Some("active")
    }

    /// It was active, has lost that, and stands by for the other.
    pub async fn stands_by(&self) {
        self.status_text("Lost").await;
        wait("proxy that stands by", || async {
            (self.ask("SHOW PROXY").await.rows[0][1].is_some()).then_some(())
        })
        .await;
        assert_eq!(refused(self.address).await.0, "57P03");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The SQLSTATE of a login that must fail, and its message.
pub async fn refused(address: SocketAddr) -> (String, String) {
    let (host, port) = (address.ip(), address.port());
    let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
    let Err(error) = tokio_postgres::connect(&line, NoTls).await else {
        panic!("a standby let a client in");
    };
    let error = error.as_db_error().expect("the proxy sends the reason");
    (error.code().code().to_owned(), error.message().to_owned())
}

/// SQLSTATEs of a proxy that is the active one no more, and of a connection without a word.
pub const GOODBYES: [&str; 4] = ["57P01", "08001", "08006", "closed"];

/// Returns a session's answer in one word: the value that it reads, or an SQLSTATE.
pub async fn returned_by(client: &Client, query: &str) -> String {
    match client.simple_query(query).await {
        Ok(messages) => first(&messages).unwrap_or_default(),
        Err(error) => match error.code() {
            Some(code) => code.code().to_owned(),
            None => "closed".into(),
        },
    }
}

/// The first value of the first row.
fn first(messages: &[SimpleQueryMessage]) -> Option<String> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

const SCHEMA: &str = "
CREATE TABLE counter (id int PRIMARY KEY, n int8 NOT NULL);
INSERT INTO counter SELECT id, 0 FROM generate_series(0, 9) id;
CREATE TABLE entry (writer int, n int8, PRIMARY KEY (writer, n));
CREATE TABLE log (writer int, n int8);
ALTER TABLE log REPLICA IDENTITY FULL";

/// Every row of the tables, and the conditions that hold for them.
pub const ALL: &str = "
SELECT 'counter ' || string_agg(id || ':' || n, ' ' ORDER BY id) FROM counter
UNION ALL SELECT 'entry ' || count(*) || md5(string_agg(writer || ':' || n, ' ' ORDER BY writer, n)) FROM entry
UNION ALL SELECT 'log ' || count(*) || md5(string_agg(writer || ':' || n, ' ' ORDER BY writer, n)) FROM log";
const TORN: &str = "
SELECT id FROM counter c WHERE n <> (SELECT count(*) FROM entry e WHERE e.writer = c.id)
    OR n <> (SELECT count(*) FROM log l WHERE l.writer = c.id)";

/// A primary, its replicas, and two proxies.
pub struct Pair {
    pub primary: Postgres,
    pub replicas: Vec<Postgres>,
    pub active: Running,
    pub standby: Running,
}

impl Pair {
    /// With so many replicas, all of which serve.
    pub async fn start(test: &str, replicas: usize) -> Pair {
        let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
        let start = |_| Postgres::start(&[]).unwrap();
        let replicas: Vec<Postgres> = (0..replicas).map(start).collect();
        let client = connect(primary.socket()).await;
        client.batch_execute(SCHEMA).await.unwrap();
        let mut all = vec![&primary];
        all.extend(&replicas);
        let active = Running::start(test, &all);
        active.status_text("Active").await;
        active.serves().await;
        let standby = Running::start(test, &all);
        let waits = standby.status_text("Waits").await;
        let of_active = format!("process {} on", active.child.id());
        assert!(waits.contains(&of_active), "{waits}");
        Pair {
            primary,
            replicas,
            active,
            standby,
        }
    }

    /// All that was acknowledged is on the primary, each commit is there whole and once, and so it
    /// is at every replica.
    pub async fn expect_everything(&self, load: &Load) {
        let client = connect(self.primary.socket()).await;
        assert_eq!(text(&client, TORN).await, "");
        let rows = client.query("SELECT writer, n FROM entry", &[]).await;
        let rows = rows.unwrap();
        let found: BTreeSet<(i32, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let acknowledged = load.known.acknowledged.lock().unwrap().clone();
        let missing: Vec<_> = acknowledged.difference(&found).collect();
        assert!(missing.is_empty(), "{missing:?}");
        self.expect_equal().await;
    }

    /// Every replica comes to equal the primary, however long that takes while it gets on.
    pub async fn expect_equal(&self) {
        let primary = connect(self.primary.socket()).await;
        for replica in &self.replicas {
            let there = connect(replica.socket()).await;
            let (mut last, mut since) = (String::new(), Instant::now());
            loop {
                let (expected, found) = (text(&primary, ALL).await, text(&there, ALL).await);
                if expected == found {
                    break;
                }
                if found != last {
                    (last, since) = (found, Instant::now());
                }
                if since.elapsed() > PATIENCE {
                    let states = self.standby.ask("SHOW REPLICAS").await.rows;
                    panic!("{last}\nis not\n{expected}\nand the proxy has {states:?}");
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// How long a client waits for a silent proxy before it tries again.
const LOGIN_MAX: Duration = Duration::from_secs(5);

/// Clients of a pair that write and read until they are asked to end.
pub struct Load {
    known: Arc<SharedKnowledge>,
    writers: JoinSet<()>,
    readers: JoinSet<u64>,
}

/// The knowledge that all clients share.
struct SharedKnowledge {
    /// Both proxies, as a driver takes them.
    line: String,
    acknowledged: Mutex<BTreeSet<(i32, i64)>>,
    /// A lower bound of each writer's counter, since a client received that value.
    counters: [AtomicI64; 8],
    is_over: AtomicBool,
}

impl Load {
    /// With these writers, whose numbers no others have, and two readers.
    pub fn start(pair: &Pair, writers: Range<i32>) -> Load {
        // The standby comes first, so that no silent proxy is asked once that one is active.
        let addresses = [pair.standby.address, pair.active.address];
        let hosts = addresses.map(|it| it.ip().to_string()).join(",");
        let ports = addresses.map(|it| it.port().to_string()).join(",");
        let known = SharedKnowledge {
            line: format!("host={hosts} port={ports} user={SUPERUSER} dbname=postgres"),
            acknowledged: Mutex::default(),
            counters: Default::default(),
            is_over: AtomicBool::default(),
        };
        let mut load = Load {
            known: Arc::new(known),
            writers: JoinSet::new(),
            readers: JoinSet::new(),
        };
        load.join(writers);
        load
    }

    /// So many more writers, and two readers more.
    pub fn join(&mut self, writers: Range<i32>) {
        for writer in writers {
            self.writers.spawn(Arc::clone(&self.known).write(writer));
        }
        for _ in 0..2 {
            self.readers.spawn(Arc::clone(&self.known).read());
        }
    }

    /// Commits that were acknowledged.
    pub fn len(&self) -> usize {
        self.known.acknowledged.lock().unwrap().len()
    }

    /// Waits until so many more commits were acknowledged.
    pub async fn grow(&self, by: usize) {
        let before = self.len();
        let is_grown = || async { (self.len() >= before + by).then_some(()) };
        wait("commits that are acknowledged", is_grown).await;
    }

    /// Returns a lower bound of a writer's counter.
    pub fn counter(&self, writer: usize) -> i64 {
        self.known.counters[writer].load(Ordering::SeqCst)
    }

    /// Ends it. Every client must have found all its rows.
    pub async fn end(&mut self) {
        self.known.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.writers.join_next().await {
            ended.unwrap();
        }
        let mut reads = 0;
        while let Some(ended) = self.readers.join_next().await {
            reads += ended.unwrap();
        }
        println!("{} commits acknowledged, {reads} reads", self.len());
        assert_ne!(reads, 0);
    }
}

impl SharedKnowledge {
    /// A session at the proxy that is active.
    async fn connect(&self) -> Client {
        wait("proxy that lets clients in", || async {
            let connect = tokio_postgres::connect(&self.line, NoTls);
            let (client, connection) = tokio::time::timeout(LOGIN_MAX, connect).await.ok()?.ok()?;
            tokio::spawn(connection);
            Some(client)
        })
        .await
    }

    /// Writes numbers, each once for any outcome, until the load is over.
    async fn write(self: Arc<Self>, writer: i32) {
        let counter = &self.counters[usize::try_from(writer).unwrap()];
        let mut client = self.connect().await;
        for n in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let begin = if n % 2 == 0 { "BEGIN;" } else { "" };
            let end = if n % 2 == 0 { "; COMMIT" } else { "" };
            // Without BEGIN the text is a transaction of its own.
            let text = format!(
                "{begin} UPDATE counter SET n = n + 1 WHERE id = {writer} RETURNING n;
                 INSERT INTO entry VALUES ({writer}, {n}); INSERT INTO log VALUES ({writer}, {n}){end}"
            );
            match client.simple_query(&text).await {
                Ok(messages) => {
                    let now = first(&messages).expect("the counter is there");
                    counter.fetch_max(now.parse().unwrap(), Ordering::SeqCst);
                    self.acknowledged.lock().unwrap().insert((writer, n));
                }
                // Whether it was committed is seen later; it is not tried again.
                Err(error) => {
                    expect_lost(&error);
                    client = self.connect().await;
                }
            }
        }
    }

    /// Reads all counters: each must be at least any value that a client received before, and its
    /// further rows must be there.
    async fn read(self: Arc<Self>) -> u64 {
        let mut client = self.connect().await;
        let mut reads = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            for (id, counter) in self.counters.iter().enumerate() {
                let entries = match reads % 4 {
                    0 => "(SELECT count(*) FROM entry WHERE writer = id)",
                    _ => "n",
                };
                let query = format!("SELECT n, {entries} FROM counter WHERE id = {id}");
                let before = counter.load(Ordering::SeqCst);
                match client.query_one(&query, &[]).await {
                    Ok(row) => {
                        let (found, entries): (i64, i64) = (row.get(0), row.get(1));
                        assert!(found >= before, "counter {id} was {found}, not {before}");
                        assert_eq!(found, entries, "counter {id} is not what its entries are");
                        counter.fetch_max(found, Ordering::SeqCst);
                        reads += 1;
                    }
                    Err(error) => {
                        expect_lost(&error);
                        client = self.connect().await;
                    }
                }
            }
        }
        reads
    }
}

/// A client without an answer has lost the connection, and not a statement.
fn expect_lost(error: &Error) {
    let is_lost = |code: &str| ["08", "57"].contains(&&code[..2]);
    let code = error.code();
    assert!(code.is_none_or(|code| is_lost(code.code())), "{error:?}");
}
