//! The transactions buffer: replicas that were offline get from the store the commits that the
//! primary no longer has, under any failure of the store.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pg_local::Postgres;
use proxy_core::freshness::{FreshnessManager, ReplicaId, ReplicaState};
use replex::cluster::Cluster;
use replex::embedded::EmbeddedStore;
use replication::buffer::{ABSENCE_MAX, BufferOptions, BufferStatus};
use replication::{ExistingData, Replication, ReplicationSettings};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::support;

/// A wait beyond this has come to a stop, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const FIRST: ReplicaId = ReplicaId(1);
const SECOND: ReplicaId = ReplicaId(2);
/// Bytes that are enough for each test.
const ENOUGH: u64 = 1 << 30;

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, note text)";

/// A primary, replicas, and replication with a buffer.
struct Stage {
    primary: Postgres,
    /// By their numbers, from 1 on.
    replicas: Vec<Postgres>,
    /// At the primary.
    client: Client,
    settings: ReplicationSettings,
    replication: Replication,
    manager: Arc<Mutex<FreshnessManager>>,
}

fn url(postgres: &Postgres) -> String {
    format!(
        "host={} port={} user={} dbname=postgres",
        postgres.socket().ip(),
        postgres.socket().port(),
        pg_local::SUPERUSER
    )
}

async fn connect(postgres: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&url(postgres), NoTls)
        .await
        .unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

async fn replicate(
    primary: &Postgres,
    settings: &ReplicationSettings,
) -> (Replication, Arc<Mutex<FreshnessManager>>) {
    let since = Instant::now();
    loop {
        match Replication::start(&primary.address("postgres"), settings).await {
            Ok(started) => return (started.replication, started.manager),
            // The sessions of an earlier proxy may still be there.
            Err(problem) => assert!(since.elapsed() < PATIENCE, "{problem}"),
        }
    }
}

impl Stage {
    /// With two replicas that have everything, and the buffer following. None where there is no
    /// PostgreSQL.
    async fn start(coordinators: Vec<String>, length_max: u64) -> Option<Stage> {
        let is_for_all = true;
        Stage::start_with(BufferOptions {
            coordinators,
            length_max,
            is_for_all,
            absence_max: ABSENCE_MAX,
        })
        .await
    }

    async fn start_with(buffer: BufferOptions) -> Option<Stage> {
        if !support::postgres_is_there() {
            return None;
        }
        let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
        let client = connect(&primary).await;
        client.batch_execute(TABLE).await.unwrap();
        let settings = ReplicationSettings {
            buffer: Some(buffer),
            ..ReplicationSettings::default()
        };
        let (replication, manager) = replicate(&primary, &settings).await;
        let replicas: Vec<Postgres> = (0..2).map(|_| Postgres::start(&[]).unwrap()).collect();
        let stage = Stage {
            primary,
            replicas,
            client,
            settings,
            replication,
            manager,
        };
        stage.add(FIRST);
        stage.add(SECOND);
        stage.wait_for(FIRST).await;
        stage.wait_for(SECOND).await;
        stage.wait_until_buffer_follows().await;
        Some(stage)
    }

    fn replica(&mut self, id: ReplicaId) -> &mut Postgres {
        &mut self.replicas[id.0 as usize - 1]
    }

    fn restart(&mut self, id: ReplicaId) {
        let replica = self.replica(id);
        replica.start_again().unwrap();
    }

    fn add(&self, id: ReplicaId) {
        let address = self.replicas[id.0 as usize - 1].address("postgres");
        self.replication
            .add_replica(id, &address, ExistingData::Kept);
    }

    fn status_text(&self, id: ReplicaId) -> String {
        let status = self.replication.status().remove(&id);
        status.map(|status| status.text).unwrap_or_default()
    }

    async fn wait(&self, what: &str, condition: impl Fn(&FreshnessManager, &BufferStatus) -> bool) {
        let started = Instant::now();
        loop {
            let buffer = self.replication.buffer().unwrap();
            if condition(&self.manager.lock().unwrap(), &buffer) {
                return;
            }
            let status = self.replication.status();
            assert!(
                started.elapsed() < PATIENCE,
                "no {what}: {status:?} {buffer:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a replica has everything that is committed now.
    async fn wait_for(&self, id: ReplicaId) {
        let position = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn";
        let end = number(&self.client, position).await;
        // Something after it, so that the stream goes past it.
        let nudge = "SELECT pg_logical_emit_message(true, 'test', '')";
        self.client.batch_execute(nudge).await.unwrap();
        let has = |manager: &FreshnessManager, _: &BufferStatus| {
            let mut replicas = manager.replicas();
            replicas.any(|(other, replica)| {
                other == id && replica.state == ReplicaState::Serving && replica.applied.0 >= end
            })
        };
        self.wait("replica that has all", has).await;
    }

    async fn wait_until_is(&self, state: ReplicaState, id: ReplicaId) {
        let is = |manager: &FreshnessManager, _: &BufferStatus| {
            let mut replicas = manager.replicas();
            replicas.any(|(other, it)| other == id && it.state == state)
        };
        self.wait(&format!("replica that is {state:?}"), is).await;
    }

    /// Waits until a replica reports that it must be filled again.
    async fn wait_until_refused(&self, id: ReplicaId) {
        self.wait_until_is(ReplicaState::Quarantined, id).await;
        assert!(
            self.status_text(id).contains("EMPTY"),
            "{}",
            self.status_text(id)
        );
    }

    async fn wait_until_buffer_follows(&self) {
        let follows = |_: &FreshnessManager, buffer: &BufferStatus| buffer.is_following;
        self.wait("buffer that follows", follows).await;
    }

    async fn kill(&mut self, id: ReplicaId) {
        self.replica(id).kill();
        self.wait_until_is(ReplicaState::Unavailable, id).await;
    }

    /// Kills a replica, and commits transactions that only the buffer keeps for it. The others go
    /// on.
    async fn have_miss(&mut self, id: ReplicaId, from: u32) {
        self.kill(id).await;
        self.write(from).await;
        let all = (1..).map(ReplicaId).take(self.replicas.len());
        for other in all.filter(|other| *other != id) {
            self.wait_for(other).await;
        }
        self.wait_until_forgotten(id).await;
    }

    /// Commits of all kinds: short ones, a commit of many rows, a commit beyond the limit of
    /// memory, and several at once.
    async fn write(&self, from: u32) {
        for id in from..from + 20 {
            let insert = format!("INSERT INTO t VALUES ({id}, 'row {id}')");
            self.client.batch_execute(&insert).await.unwrap();
        }
        let (many, long) = (from + 100, from + 1000);
        let sql = [
            format!("INSERT INTO t SELECT n, 'many' FROM generate_series({many}, {many} + 99) n"),
            format!(
                "INSERT INTO t SELECT n, repeat(md5(n::text), 100) FROM generate_series({long}, {long} + 499) n"
            ),
            format!("UPDATE t SET note = note || '!' WHERE id BETWEEN {from} AND {many} + 10"),
            format!("DELETE FROM t WHERE id = {many}"),
        ];
        for sql in sql {
            self.client.batch_execute(&sql).await.unwrap();
        }
    }

    /// Up to where the primary has forgotten its log.
    async fn forgotten(&self) -> u64 {
        let sql = "SELECT max(confirmed_flush_lsn - '0/0') FROM pg_replication_slots WHERE slot_name = 'hihooi'";
        number(&self.client, sql).await
    }

    /// Waits until the primary has forgotten this replica's missing commits.
    async fn wait_until_forgotten(&self, id: ReplicaId) {
        let has = self.replication.durable()[&id].0;
        let started = Instant::now();
        loop {
            let nudge = "SELECT pg_logical_emit_message(true, 'test', '')";
            self.client.batch_execute(nudge).await.unwrap();
            if self.forgotten().await > has {
                return;
            }
            let buffer = self.replication.buffer();
            assert!(started.elapsed() < PATIENCE, "it remembers all: {buffer:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until this replica, should it crash, still has the commits that the primary has
    /// forgotten.
    async fn wait_until_kept(&self, id: ReplicaId) {
        let started = Instant::now();
        while self.replication.durable()[&id].0 < self.forgotten().await {
            assert!(started.elapsed() < PATIENCE, "it flushes nothing");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the primary has got two reports of the position that it may forget.
    async fn wait_until_confirmed(&self) {
        let printed = "SELECT max(reply_time)::text FROM pg_stat_replication WHERE application_name = 'replex slot'";
        for _ in 0..2 {
            let started = Instant::now();
            let before = text(&self.client, printed).await;
            while text(&self.client, printed).await == before {
                assert!(started.elapsed() < PATIENCE, "nothing is confirmed");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    async fn check_equal(&self) {
        let sum = "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM t";
        let expected = text(&self.client, sum).await;
        for (number, replica) in (1..).zip(&self.replicas) {
            self.wait_for(ReplicaId(number)).await;
            let found = text(&connect(replica).await, sum).await;
            assert_eq!(found, expected, "replica {number}");
        }
    }

    /// Another proxy in place of this one.
    async fn start_again(&mut self) {
        self.replication.give_up().await;
        (self.replication, self.manager) = replicate(&self.primary, &self.settings).await;
    }
}

fn own(coordinators: Vec<String>) -> BufferOptions {
    BufferOptions {
        coordinators,
        length_max: ENOUGH,
        is_for_all: false,
        absence_max: ABSENCE_MAX,
    }
}

async fn number(client: &Client, sql: &str) -> u64 {
    text(client, sql).await.parse().unwrap()
}

async fn text(client: &Client, sql: &str) -> String {
    for row in client.simple_query(sql).await.unwrap() {
        if let SimpleQueryMessage::Row(row) = row {
            return row.get(0).unwrap_or("NULL").to_owned();
        }
    }
    panic!("no row from {sql}")
}

fn embedded() -> (tempfile::TempDir, EmbeddedStore, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::start(folder.path()).unwrap();
    let coordinators = vec![store.coordinator().to_string()];
    (folder, store, coordinators)
}

/// A proxy that waits may have another buffer: then the primary keeps its log for offline replicas
/// from then on, and the other proxy has all for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_takes_over_with_its_own_buffer_lacks_nothing() {
    let [
        (_folder, _store, first),
        (_other_folder, _other_store, other),
    ] = [embedded(), embedded()];
    let Some(mut stage) = Stage::start_with(own(first)).await else {
        return;
    };
    // While no other proxy waits, the primary forgets the commits that the buffer has.
    stage.have_miss(SECOND, 1_000).await;
    stage.restart(SECOND);
    stage.check_equal().await;
    stage.settings.buffer = Some(own(other));
    let (primary, settings) = (stage.primary.address("postgres"), stage.settings.clone());
    let other = tokio::spawn(async move { Replication::start(&primary, &settings).await });
    let started = Instant::now();
    while !stage.replication.lease().has_standby() {
        assert!(started.elapsed() < PATIENCE, "the other is not seen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A replica that lags behind the slot when the other comes is helped by the first one's buffer
    // only.
    stage.wait_until_kept(SECOND).await;
    stage.kill(SECOND).await;
    stage.write(10_000).await;
    stage.wait_for(FIRST).await;
    let applied = stage.replication.durable()[&FIRST];
    let has = |_: &FreshnessManager, buffer: &BufferStatus| {
        buffer.covered.is_some_and(|it| it.1 >= applied)
    };
    stage.wait("commits in the buffer", has).await;
    stage.wait_until_confirmed().await;
    stage.replication.give_up().await;
    let started = other.await.unwrap().unwrap();
    let (replication, manager) = (started.replication, started.manager);
    (stage.replication, stage.manager) = (replication, manager);
    stage.add(FIRST);
    stage.add(SECOND);
    stage.restart(SECOND);
    stage.check_equal().await;
}

/// The primary need not keep its log for an offline replica, and it has all once it is back, be it
/// the same proxy that kept it or the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offline_replica_catches_up_beyond_the_primarys_wal() {
    let (_folder, _store, coordinators) = embedded();
    let Some(mut stage) = Stage::start(coordinators, ENOUGH).await else {
        return;
    };
    for round in 0..3 {
        stage.have_miss(SECOND, round * 10_000).await;
        if round == 1 {
            stage.start_again().await;
            stage.add(FIRST);
            stage.add(SECOND);
            stage.write(5_000).await;
        }
        stage.restart(SECOND);
        stage.check_equal().await;
    }
}

/// A removed replica goes on where it stopped, though only the buffer kept commits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_replica_goes_on_where_it_stopped() {
    let (_folder, _store, coordinators) = embedded();
    let Some(mut stage) = Stage::start(coordinators, ENOUGH).await else {
        return;
    };
    let has = stage.replication.durable()[&SECOND].0;
    stage.replication.remove_replica(SECOND).await;
    stage.write(0).await;
    stage.wait_for(FIRST).await;
    let started = Instant::now();
    while stage.forgotten().await <= has {
        assert!(started.elapsed() < PATIENCE, "it remembers all");
        stage.wait_for(FIRST).await;
    }
    // The next proxy has the commits that this one has kept.
    stage.start_again().await;
    stage.add(FIRST);
    stage.wait_for(FIRST).await;
    stage.wait_until_buffer_follows().await;
    stage.add(SECOND);
    stage.check_equal().await;
}

/// A store that is offline for a moment still has all commits for a removed replica: the primary
/// keeps the ones that it has missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_replica_goes_on_though_the_buffer_was_offline() {
    let mut cluster: Cluster = support::cluster(1).await;
    let coordinators = cluster.coordinator_addresses().to_vec();
    let Some(mut stage) = Stage::start(coordinators, ENOUGH).await else {
        return;
    };
    stage.replication.remove_replica(SECOND).await;
    // It is offline while commits are made, and when the next proxy starts.
    for round in 0..2 {
        cluster.kill_coordinator(0).await.unwrap();
        cluster.kill(0).await.unwrap();
        let (_, kept) = stage.replication.buffer().unwrap().covered.unwrap();
        if round == 1 {
            stage.start_again().await;
            stage.add(FIRST);
        }
        stage.write(round * 10_000).await;
        stage
            .wait("sign of its absence", |_, it| !it.is_following)
            .await;
        let started = Instant::now();
        while stage.replication.durable()[&FIRST] <= kept {
            assert!(started.elapsed() < PATIENCE, "it flushes nothing");
            stage.wait_for(FIRST).await;
        }
        stage.wait_until_confirmed().await;
        assert!(
            stage.forgotten().await <= kept.0,
            "the buffer lacks what the primary has forgotten"
        );
        cluster.start_coordinator(0).await.unwrap();
        cluster.restart(0).await.unwrap();
        stage.wait_until_buffer_follows().await;
    }
    stage.add(SECOND);
    stage.check_equal().await;
}

/// While the store is unavailable, replicas go on without it, and the primary keeps its log for the
/// replicas that rely on it. Killed and started again, the store has its earlier commits, and
/// catches up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_go_on_while_the_buffer_is_killed() {
    let mut cluster: Cluster = support::cluster(1).await;
    let coordinators = cluster.coordinator_addresses().to_vec();
    let Some(mut stage) = Stage::start(coordinators, ENOUGH).await else {
        return;
    };
    stage.have_miss(SECOND, 0).await;
    cluster.kill(0).await.unwrap();
    stage.write(10_000).await;
    stage.wait_for(FIRST).await;
    stage
        .wait("sign of its absence", |_, it| !it.is_following)
        .await;
    let (_, until) = stage.replication.buffer().unwrap().covered.unwrap();
    assert!(
        stage.forgotten().await <= until.0,
        "it is kept for the replica that relies on the buffer"
    );
    // A replica that comes back meanwhile waits: its missing commits are nowhere else.
    stage.restart(SECOND);
    cluster.restart(0).await.unwrap();
    stage.check_equal().await;
    stage.wait_until_buffer_follows().await;
    stage.have_miss(FIRST, 20_000).await;
    stage.restart(FIRST);
    stage.check_equal().await;
}

/// With two servers each page is at both, so that one of them may go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_loses_nothing_with_a_server() {
    let mut cluster: Cluster = support::cluster(2).await;
    let coordinators = cluster.coordinator_addresses().to_vec();
    let Some(mut stage) = Stage::start(coordinators, ENOUGH).await else {
        return;
    };
    stage.have_miss(SECOND, 0).await;
    cluster.kill(0).await.unwrap();
    stage.write(10_000).await;
    stage.restart(SECOND);
    stage.check_equal().await;
}

/// A buffer that has lost everything begins from scratch; a replica that relied on it must be
/// filled again, and others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buffer_that_lost_everything_begins_from_scratch() {
    let (_folder, store, coordinators) = embedded();
    let Some(mut stage) = Stage::start(coordinators, ENOUGH).await else {
        return;
    };
    stage.have_miss(SECOND, 0).await;
    let (_other_folder, _other_store, coordinators) = embedded();
    if let Some(buffer) = &mut stage.settings.buffer {
        buffer.coordinators = coordinators;
    }
    drop(store);
    stage.start_again().await;
    stage.add(FIRST);
    stage.add(SECOND);
    stage.restart(SECOND);
    stage.wait_for(FIRST).await;
    stage.wait_until_buffer_follows().await;
    stage.wait_until_refused(SECOND).await;
    // The new one is as good as the old one.
    stage.replication.remove_replica(SECOND).await;
    stage.replicas.pop();
    stage.have_miss(FIRST, 10_000).await;
    stage.restart(FIRST);
    stage.check_equal().await;
}

/// Where there is no room any more the oldest goes: a replica that has missed it gets that error,
/// and stops no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_buffer_lets_the_oldest_go() {
    const LITTLE: u64 = 64 * 1024;
    let (_folder, _store, coordinators) = embedded();
    let Some(mut stage) = Stage::start(coordinators, LITTLE).await else {
        return;
    };
    stage.kill(SECOND).await;
    let has = stage.replication.durable()[&SECOND];
    // The slot keeps nothing for it while the buffer has its missing commits, nor after.
    let insert = "INSERT INTO t VALUES (9999, 'little')";
    stage.client.batch_execute(insert).await.unwrap();
    stage.wait_until_forgotten(SECOND).await;
    stage.write(10_000).await;
    stage.wait_for(FIRST).await;
    stage
        .wait("place for what is new", |_, buffer| {
            buffer.covered.is_some_and(|(from, _)| from > has)
        })
        .await;
    stage.restart(SECOND);
    stage.wait_until_refused(SECOND).await;
    stage.replicas.pop();
    stage.check_equal().await;
}

/// A store that is not there when the proxy starts: everything else goes on, and the status shows
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_buffer_stops_no_replica() {
    if !support::postgres_is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let client = connect(&primary).await;
    client.batch_execute(TABLE).await.unwrap();
    let place = pg_local::free_place().unwrap();
    let settings = ReplicationSettings {
        buffer: Some(BufferOptions {
            coordinators: vec![place.to_string()],
            length_max: ENOUGH,
            is_for_all: true,
            absence_max: Duration::from_millis(500),
        }),
        ..ReplicationSettings::default()
    };
    let (replication, manager) = replicate(&primary, &settings).await;
    let stage = Stage {
        replicas: vec![Postgres::start(&[]).unwrap()],
        primary,
        client,
        settings,
        replication,
        manager,
    };
    let before = stage.forgotten().await;
    stage.add(FIRST);
    stage.write(0).await;
    stage.check_equal().await;
    stage
        .wait("word of it", |_, it| it.text.contains(&place.to_string()))
        .await;
    // No replica relies on it, so that the primary soon keeps nothing for it.
    let started = Instant::now();
    while stage.forgotten().await <= before {
        assert!(started.elapsed() < PATIENCE, "it remembers all");
        stage.wait_for(FIRST).await;
    }
}

/// Writes rows until it is asked to stop, under any failure of the primary, and returns the number
/// of acknowledged rows.
async fn write_on(primary: String, stops: Arc<AtomicBool>, answered: Arc<AtomicU32>) {
    let mut id = 1_000_000;
    while !stops.load(Ordering::Relaxed) {
        let Ok((client, connection)) = tokio_postgres::connect(&primary, NoTls).await else {
            continue;
        };
        tokio::spawn(async move { drop(connection.await) });
        while !stops.load(Ordering::Relaxed) {
            id += 1;
            let insert = format!("INSERT INTO t VALUES ({id}, 'under load')");
            if client.batch_execute(&insert).await.is_err() {
                break;
            }
            answered.fetch_add(1, Ordering::Relaxed);
            // Replicas are to keep pace on a busy machine, too.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// The server that fails at once.
#[derive(Clone, Copy, Debug)]
enum Pair {
    BufferAndReplica,
    BufferAndPrimary,
    BufferAndProxy,
    ReplicaAndPrimary,
    /// The buffer only stands still.
    PausedBufferAndReplica,
    PausedBufferAndProxy,
}

impl Stage {
    async fn fail(&mut self, pair: Pair, cluster: &mut Cluster) {
        match pair {
            Pair::BufferAndReplica | Pair::BufferAndPrimary | Pair::BufferAndProxy => {
                cluster.kill(0).await.unwrap();
            }
            Pair::PausedBufferAndReplica | Pair::PausedBufferAndProxy => cluster.pause(0).unwrap(),
            Pair::ReplicaAndPrimary => {}
        }
        match pair {
            Pair::BufferAndReplica | Pair::PausedBufferAndReplica => {
                self.replica(SECOND).kill();
            }
            Pair::BufferAndProxy | Pair::PausedBufferAndProxy => {
                self.start_again().await;
                self.add(FIRST);
                self.add(SECOND);
            }
            Pair::BufferAndPrimary => self.primary.kill(),
            Pair::ReplicaAndPrimary => {
                self.replica(SECOND).kill();
                self.primary.kill();
            }
        }
    }

    async fn repair(&mut self, pair: Pair, cluster: &mut Cluster) {
        if matches!(pair, Pair::BufferAndPrimary | Pair::ReplicaAndPrimary) {
            self.primary.start_again().unwrap();
            self.client = connect(&self.primary).await;
        }
        if self.replica(SECOND).process().is_none() {
            self.restart(SECOND);
        }
        match pair {
            Pair::BufferAndReplica | Pair::BufferAndPrimary | Pair::BufferAndProxy => {
                cluster.restart(0).await.unwrap();
            }
            Pair::PausedBufferAndReplica | Pair::PausedBufferAndProxy => cluster.resume(0).unwrap(),
            Pair::ReplicaAndPrimary => {}
        }
    }
}

/// The buffer, a replica, the primary and the proxy fail in pairs under load, and nothing is
/// lost or done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_in_pairs_lose_nothing() {
    let mut cluster: Cluster = support::cluster(1).await;
    let coordinators = cluster.coordinator_addresses().to_vec();
    let Some(mut stage) = Stage::start(coordinators, ENOUGH).await else {
        return;
    };
    let (stops, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
    let url = url(&stage.primary);
    let writer = tokio::spawn(write_on(url, Arc::clone(&stops), Arc::clone(&answered)));
    for pair in [
        Pair::BufferAndReplica,
        Pair::BufferAndPrimary,
        Pair::BufferAndProxy,
        Pair::ReplicaAndPrimary,
        Pair::PausedBufferAndReplica,
        Pair::PausedBufferAndProxy,
    ] {
        println!("{pair:?} after {} rows", answered.load(Ordering::Relaxed));
        stage.fail(pair, &mut cluster).await;
        let is_gone = stage.primary.process().is_none();
        let before = answered.load(Ordering::Relaxed);
        let started = Instant::now();
        while !is_gone && answered.load(Ordering::Relaxed) < before + 50 {
            assert!(started.elapsed() < PATIENCE, "writers wait for {pair:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stage.repair(pair, &mut cluster).await;
        for id in [FIRST, SECOND] {
            stage.wait_for(id).await;
        }
        stage.wait_until_buffer_follows().await;
    }
    stops.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let rows = number(&stage.client, "SELECT count(*) FROM t").await;
    assert!(rows >= u64::from(answered.load(Ordering::Relaxed)));
    stage.check_equal().await;
}

#[test]
fn folder_is_for_one_process_and_the_error_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::start(folder.path()).unwrap();
    let Err(problem) = EmbeddedStore::start(folder.path()) else {
        panic!("two stores have one folder");
    };
    assert!(problem.to_string().contains("process"), "{problem}");
    drop(store);
    EmbeddedStore::start(folder.path()).unwrap();
}
