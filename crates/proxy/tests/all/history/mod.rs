//! Clients that append to lists and read them through the proxy see global strong snapshot
//! isolation, under failures of the primary and of replicas. A session that asks for less gets
//! less, which shows that the checker sees the difference.

mod checker;
mod checks_itself;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use checker::{Anomaly, Element, Key, Operation, Transaction, TransactionOutcome, check};
use pg_local::Postgres;
use proxy_core::freshness::ReplicaState;
use rustix::process::Signal;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use crate::support::cluster::Cluster;
use crate::support::{connect, is_there, signal, try_connect};

const LISTS: Key = 24;
/// Most appends go to so many lists: the others are rarely about to change.
const BUSY_LISTS: Key = 3;
const CLIENTS: u64 = 8;
/// Transactions of a run between one failure and the next, at least.
const TRANSACTIONS: usize = 300;
/// Reads that replicas answer in a run, at least.
const SERVED: u64 = 100;
/// The primary is stopped for so long: longer than the lease, by which replicas serve.
const PAUSE: Duration = Duration::from_secs(4);
/// A run that gets no further for so long has failed. On a busy machine databases take minutes to
/// start, and replicas to catch up.
const STALL_MAX: Duration = Duration::from_secs(600);
/// Time between two tries to connect again.
const RETRY: Duration = Duration::from_millis(10);

/// A failure of databases, once in every run.
#[derive(Clone, Copy, Debug)]
enum Failure {
    KillReplica(usize),
    PauseReplica(usize),
    KillPrimary,
    PausePrimary,
    /// Both at once.
    KillPrimaryAnd(usize),
    /// A replica dies while the primary is stopped.
    PausePrimaryKill(usize),
}

const FAILURES: [Failure; 7] = [
    Failure::KillReplica(0),
    Failure::KillReplica(1),
    Failure::PauseReplica(0),
    Failure::KillPrimary,
    Failure::PausePrimary,
    Failure::KillPrimaryAnd(1),
    Failure::PausePrimaryKill(0),
];

/// The state that all clients of a run share.
#[derive(Default)]
struct Run {
    history: Mutex<Vec<Transaction>>,
    elements: AtomicI64,
    is_over: AtomicBool,
}

impl Run {
    /// How many transactions have committed.
    fn committed(&self) -> usize {
        let history = self.history.lock().unwrap();
        let committed = history
            .iter()
            .filter(|it| it.ending == TransactionOutcome::Committed);
        committed.count()
    }

    /// Waits until clients have come so far.
    async fn reach(&self, is_there: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_there() {
            let committed = self.committed();
            assert!(started.elapsed() < STALL_MAX, "{committed} committed");
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Deterministic choices (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn key(&mut self, below: Key) -> Key {
        i32::try_from(self.below(below.unsigned_abs().into())).unwrap()
    }
}

/// A client, and its current transaction's operations.
struct Writer {
    proxy: SocketAddr,
    client: Client,
    run: Arc<Run>,
    random: Random,
    operations: Vec<Operation>,
}

async fn make_lists(cluster: &Cluster) {
    let client = cluster.front.connect().await;
    let create = "CREATE TABLE lists (id int PRIMARY KEY, items int8[] NOT NULL)";
    client.batch_execute(create).await.unwrap();
    let fill =
        format!("INSERT INTO lists SELECT id, '{{}}' FROM generate_series(0, {LISTS} - 1) id");
    client.batch_execute(&fill).await.unwrap();
    cluster
        .wait_until_equal("SELECT id FROM lists ORDER BY id")
        .await;
}

impl Writer {
    async fn new(cluster: &Cluster, run: &Arc<Run>, seed: u64) -> Writer {
        Writer {
            proxy: cluster.front.address,
            client: cluster.front.connect().await,
            run: Arc::clone(run),
            random: Random(seed),
            operations: Vec::new(),
        }
    }

    async fn work(&mut self) {
        while !self.run.is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let ended = match self.random.below(6) {
                0 => self.append().await,
                1 => self.transaction().await,
                2 => self.read_committed().await,
                3 => self.snapshot().await,
                _ => self.read_some().await,
            };
            let ending = match ended {
                Ok(ending) => ending,
                Err(error) => self.ending_of(&error),
            };
            let transaction = Transaction {
                began,
                ended: Instant::now(),
                ending,
                operations: std::mem::take(&mut self.operations),
            };
            self.run.history.lock().unwrap().push(transaction);
            if self.client.is_closed() {
                self.connect().await;
            }
        }
    }

    async fn connect(&mut self) {
        let started = Instant::now();
        self.client = loop {
            match try_connect(self.proxy).await {
                Ok(client) => break client,
                Err(error) => assert!(started.elapsed() < STALL_MAX, "{error:?}"),
            }
            tokio::time::sleep(RETRY).await;
        };
    }

    /// How a transaction ended that failed so. A commit that its connection did not report any more
    /// may have taken effect, if it has appended something.
    fn ending_of(&self, error: &Error) -> TransactionOutcome {
        let appends = |operation: &Operation| matches!(operation, Operation::Append(..));
        let known = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            // The server that its snapshot was on died between two statements.
            SqlState::IN_FAILED_SQL_TRANSACTION,
        ];
        let is_lost = |code: &SqlState| ["08", "57"].contains(&&code.code()[..2]);
        match error.code() {
            Some(code) if known.contains(code) => TransactionOutcome::Aborted,
            Some(code) if !is_lost(code) => panic!("{error:?}"),
            None if !error.is_closed() && !self.client.is_closed() => panic!("{error:?}"),
            _ if self.operations.iter().any(appends) => TransactionOutcome::Unknown,
            _ => TransactionOutcome::Aborted,
        }
    }

    /// Several statements with one snapshot.
    async fn transaction(&mut self) -> Result<TransactionOutcome, Error> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
        self.client.batch_execute(begin).await?;
        let done = self.statements().await;
        self.end(done).await
    }

    /// Several reads with one snapshot.
    async fn snapshot(&mut self) -> Result<TransactionOutcome, Error> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.client.batch_execute(begin).await?;
        let mut done = Ok(());
        for _ in 0..=self.random.below(4) {
            if done.is_ok() {
                done = self.read_some().await.map(|_| ());
            }
        }
        self.end(done).await
    }

    /// Several statements, of which each has a snapshot of its own.
    async fn read_committed(&mut self) -> Result<TransactionOutcome, Error> {
        self.client.batch_execute("BEGIN").await?;
        let done = self.separate_statements().await;
        self.end(done).await
    }

    async fn end(&mut self, done: Result<(), Error>) -> Result<TransactionOutcome, Error> {
        let commits = done.is_ok() && self.random.below(8) > 0;
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        self.client.batch_execute(end).await?;
        done?;
        Ok(if commits {
            TransactionOutcome::Committed
        } else {
            TransactionOutcome::Aborted
        })
    }

    async fn separate_statements(&mut self) -> Result<(), Error> {
        for _ in 0..=self.random.below(4) {
            match self.random.below(2) {
                0 => {
                    self.append().await?;
                }
                _ => self.read_separately().await?,
            }
        }
        Ok(())
    }

    /// A read within a transaction at READ COMMITTED, which is judged as a transaction of its own
    /// that sees the commits of others. The elements that its transaction has appended so far stand
    /// behind that.
    async fn read_separately(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        let appended = self.operations.len();
        self.read_some().await?;
        let mut reads = self.operations.split_off(appended);
        for read in &mut reads {
            let Operation::Read(key, seen) = read else {
                panic!("a read appends nothing");
            };
            let own = self.operations.iter().filter_map(|own| match own {
                Operation::Append(list, element) if list == key => Some(*element),
                _ => None,
            });
            let own: Vec<Element> = own.collect();
            let others = seen.strip_suffix(&own[..]).map(<[Element]>::to_vec);
            *seen = others.unwrap_or_else(|| panic!("list {key} is {seen:?} without own {own:?}"));
        }
        let transaction = Transaction {
            began,
            ended: Instant::now(),
            ending: TransactionOutcome::Committed,
            operations: reads,
        };
        self.run.history.lock().unwrap().push(transaction);
        Ok(())
    }

    async fn statements(&mut self) -> Result<(), Error> {
        for _ in 0..=self.random.below(3) {
            match self.random.below(2) {
                0 => self.append().await?,
                _ => self.read_some().await?,
            };
        }
        Ok(())
    }

    async fn append(&mut self) -> Result<TransactionOutcome, Error> {
        let lists = if self.random.below(4) > 0 {
            BUSY_LISTS
        } else {
            LISTS
        };
        let (key, element) = (
            self.random.key(lists),
            self.run.elements.fetch_add(1, Ordering::Relaxed),
        );
        self.operations.push(Operation::Append(key, element));
        let append = "UPDATE lists SET items = items || $1::int8 WHERE id = $2";
        let count = self.client.execute(append, &[&element, &key]).await?;
        assert_eq!(count, 1);
        Ok(TransactionOutcome::Committed)
    }

    /// One list by its key, or several in one statement.
    async fn read_some(&mut self) -> Result<TransactionOutcome, Error> {
        let (first, second) = (self.random.key(LISTS), self.random.key(LISTS));
        let text = match self.random.below(3) {
            0 => "SELECT id, items FROM lists WHERE id = $1",
            1 => "SELECT id, items FROM lists WHERE id IN ($1, $2)",
            _ => "SELECT id, items FROM lists",
        };
        let keys: [&(dyn ToSql + Sync); 2] = [&first, &second];
        let count = text.matches('$').count();
        let rows = self.client.query(text, &keys[..count]).await?;
        let read = |row: &Row| Operation::Read(row.get(0), row.get(1));
        self.operations.extend(rows.iter().map(read));
        Ok(TransactionOutcome::Committed)
    }
}

/// Returns the final lists.
async fn last(cluster: &Cluster) -> BTreeMap<Key, Vec<Element>> {
    let client = connect(cluster.primary.socket()).await;
    let rows = client.query("SELECT id, items FROM lists", &[]).await;
    let rows = rows.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn verdict(cluster: &Cluster, run: &Run) -> Result<(), Anomaly> {
    let last = last(cluster).await;
    let history = run.history.lock().unwrap();
    check(&history, &last)
}

/// Makes a failure happen, and repairs it.
async fn fail(cluster: &mut Cluster, failure: Failure) {
    let Cluster {
        primary,
        replicas,
        manager,
        ..
    } = cluster;
    let crash = |postgres: &mut Postgres| postgres.crash().unwrap();
    let restart = |postgres: &mut Postgres| {
        postgres.start_again().unwrap();
    };
    match failure {
        Failure::KillReplica(number) => {
            crash(&mut replicas[number]);
            restart(&mut replicas[number]);
        }
        Failure::PauseReplica(number) => {
            signal(&replicas[number], Signal::STOP);
            let serves = || {
                let manager = manager.lock().unwrap();
                manager.replicas().nth(number).unwrap().1.state == ReplicaState::Serving
            };
            let started = Instant::now();
            while serves() {
                assert!(started.elapsed() < STALL_MAX);
                tokio::time::sleep(RETRY).await;
            }
            signal(&replicas[number], Signal::CONT);
        }
        Failure::KillPrimary => {
            crash(primary);
            restart(primary);
        }
        Failure::PausePrimary => {
            signal(primary, Signal::STOP);
            tokio::time::sleep(PAUSE).await;
            signal(primary, Signal::CONT);
        }
        Failure::KillPrimaryAnd(number) => {
            crash(primary);
            crash(&mut replicas[number]);
            restart(&mut replicas[number]);
            restart(primary);
        }
        Failure::PausePrimaryKill(number) => {
            signal(primary, Signal::STOP);
            crash(&mut replicas[number]);
            tokio::time::sleep(PAUSE).await;
            restart(&mut replicas[number]);
            signal(primary, Signal::CONT);
        }
    }
    cluster
        .wait(|states| states == [ReplicaState::Serving; 2])
        .await;
}

/// One run with every failure once. Returns the verdict, and the number of transactions.
async fn round(cluster: &mut Cluster, seed: u64) -> (Result<(), Anomaly>, usize) {
    let client = cluster.front.connect().await;
    let clear = "UPDATE lists SET items = '{}'";
    client.batch_execute(clear).await.unwrap();
    let run = Arc::new(Run::default());
    let served_before = cluster.served();
    let mut tasks = Vec::new();
    for number in 1..=CLIENTS {
        let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed * CLIENTS + number);
        println!("client {number}: seed {seed}");
        let mut writer = Writer::new(cluster, &run, seed).await;
        tasks.push(tokio::spawn(async move { writer.work().await }));
    }
    let mut random = Random(0x2545_f491_4f6c_dd1d_u64.wrapping_mul(seed + 1));
    let mut failures = FAILURES.to_vec();
    while !failures.is_empty() {
        let before = run.committed();
        run.reach(|| run.committed() > before + TRANSACTIONS).await;
        let count = failures.len().try_into().unwrap();
        let failure = failures.swap_remove(random.below(count).try_into().unwrap());
        let started = Instant::now();
        fail(cluster, failure).await;
        println!("{failure:?}: {:?}", started.elapsed());
    }
    run.reach(|| cluster.served() > served_before + SERVED)
        .await;
    run.is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let verdict = verdict(cluster, &run).await;
    cluster
        .wait_until_equal("SELECT id || items::text FROM lists ORDER BY id")
        .await;
    (verdict, run.committed())
}

/// Once, or for as many minutes as `REPLEX_HISTORY_MINUTES` is set to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_are_isolated_while_databases_die() {
    if !is_there() {
        return;
    }
    let minutes = std::env::var("REPLEX_HISTORY_MINUTES");
    let minutes = minutes.map_or(0, |text| text.parse().expect("minutes are a number"));
    let started = Instant::now();
    let mut cluster = Cluster::start(2).await;
    make_lists(&cluster).await;
    for number in 0.. {
        let (verdict, count) = round(&mut cluster, number).await;
        println!("round {number}: {count} committed, {verdict:?}");
        verdict.unwrap();
        if started.elapsed() >= Duration::from_mins(minutes) {
            break;
        }
    }
}

/// While a replica cannot apply anything, sessions at `gssi` see everything all the same, and such
/// at `weak` do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weak_reads_are_found_to_be_stale() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    make_lists(&cluster).await;
    let behind = connect(cluster.replicas[0].socket()).await;
    let lock = "BEGIN; LOCK TABLE lists IN EXCLUSIVE MODE";
    behind.batch_execute(lock).await.unwrap();
    for level in ["gssi", "rsi-pc", "weak"] {
        let run = Arc::new(Run::default());
        let clear = "UPDATE lists SET items = '{}'";
        let mut writer = Writer::new(&cluster, &run, 7).await;
        writer.client.batch_execute(clear).await.unwrap();
        let set = format!("SET replex.consistency = '{level}'");
        writer.client.batch_execute(&set).await.unwrap();
        let work = tokio::spawn(async move { writer.work().await });
        run.reach(|| run.committed() > TRANSACTIONS).await;
        run.is_over.store(true, Ordering::Relaxed);
        work.await.unwrap();
        let found = verdict(&cluster, &run).await;
        match level {
            "weak" => assert!(matches!(found, Err(Anomaly::Stale(_))), "{found:?}"),
            _ => found.unwrap(),
        }
    }
}

/// While a replica cannot execute the commits that write one list, it commits nothing behind them.
/// Where it does (the planted bug `CommitsOutOfOrder`), reads are found to be stale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_commit_delays_later_commits() {
    if !is_there() {
        return;
    }
    let is_planted = std::env::var_os("REPLEX_HIHOOI_PLANTED").is_some();
    let cluster = Cluster::start(1).await;
    make_lists(&cluster).await;
    let run = Arc::new(Run::default());
    let mut writer = Writer::new(&cluster, &run, 7).await;
    let behind = connect(cluster.replicas[0].socket()).await;
    let lock = "BEGIN; SELECT FROM lists WHERE id = 0 FOR UPDATE";
    behind.batch_execute(lock).await.unwrap();
    let work = tokio::spawn(async move { writer.work().await });
    run.reach(|| run.committed() > TRANSACTIONS).await;
    run.is_over.store(true, Ordering::Relaxed);
    work.await.unwrap();
    let found = verdict(&cluster, &run).await;
    if is_planted {
        let is_old = matches!(found, Err(Anomaly::Stale(_) | Anomaly::LongFork(_)));
        assert!(is_old, "{found:?}");
    } else {
        found.unwrap();
    }
    behind.batch_execute("ROLLBACK").await.unwrap();
    let read = "SELECT id || items::text FROM lists ORDER BY id";
    cluster.wait_until_equal(read).await;
}
