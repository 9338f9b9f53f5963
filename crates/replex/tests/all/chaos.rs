//! Real processes under every failure that this machine can make, and under changes of indexes and
//! places, one after the other and in random order, while clients work. Every acknowledged write is
//! there. No lookup by any index shows a state that a single machine could not have shown. In the
//! end all copies are equal (I2, I4, I5, I7, I12, I16). Meanwhile whole tables are read all the
//! time: each export, snapshot and check that returns is of one state, by every index (R35-R39,
//! I18).
//!
//! Where it can, each server has a host of its own (`support::hosts`). Without the right to that it
//! prints so, and makes the failures that need none.
//!
//! `REPLEX_CHAOS_SECONDS` is the duration, 0 is each failure once; `REPLEX_CHAOS_SEED` repeats the
//! order and the moments of another run as far as processes can; `REPLEX_CHAOS_ONLY` names the
//! failures to make. `cargo xtask chaos` sets them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use client::{Client, ConnectOptions, IfMissing};
use protocol::configuration::{Configuration, PartitionState, ServerState};
use protocol::identity::ServerId;
use replex::cluster::{Cluster, ClusterOptions};

use crate::support;
use crate::support::counting::{self, Counting};
use crate::support::history::{self, Record};
use crate::support::hosts::Hosts;
use crate::support::needs;
use crate::support::noise::Noise;
use crate::support::syncs::SyncFault;
use crate::support::whole_reads::WholeReads;

const SERVERS: usize = 6;
const CLIENTS: u64 = 8;
const SEED_DEFAULT: u64 = 0x5eed_0004;
/// The coordinator gives a server's partitions to others after so many seconds.
const REPLACE_AFTER: &str = "3";
/// Operations and pairs of the table of counters that must end well after each failure, within a
/// time; and a whole read of each way.
const PROGRESS: u64 = 100;
const PAIRS: u64 = 10;
const PROGRESS_WITHIN: Duration = Duration::from_secs(180);
/// A server whose disk fails ends within this.
const ENDED_WITHIN: Duration = Duration::from_secs(30);
/// Servers that are lost again and again take no partitions for up to 160 s each time, so that a
/// drain may outlast one wait.
const MOVE_WAITS_MAX: u32 = 3;
/// Ranges have so few entries or rows that they split all the while.
const RANGE_ENTRIES: &str = "24";
/// The host of the coordinator, after the servers'.
const COORDINATOR: usize = SERVERS;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A server is killed and started again.
    Kill,
    /// All servers are killed at once and started again.
    KillAll,
    /// A server stands still until its lease is over, and goes on.
    Pause,
    /// One server after the other is stopped cleanly and started again.
    Rolling,
    /// A server is killed for good and replaced; much later it comes back.
    Lose,
    /// Messages of one server do not arrive at another.
    CutOneWay,
    /// A server reaches some, and receives from others.
    CutSome,
    /// A server receives nothing from the coordinator, and is replaced while it runs.
    CutOff,
    /// A host loses its power.
    PowerOne,
    /// All hosts of servers lose their power at once.
    PowerAll,
    /// A disk reports that it could not sync; the server must end rather than go on.
    Sync,
    /// A table gets an index of any kind while a server is killed and started again, and loses it.
    Index,
    /// A server is drained: its partitions move to others.
    Move,
}

impl Kind {
    const ALL: [Kind; 13] = [
        Kind::Kill,
        Kind::KillAll,
        Kind::Pause,
        Kind::Rolling,
        Kind::Lose,
        Kind::CutOneWay,
        Kind::CutSome,
        Kind::CutOff,
        Kind::PowerOne,
        Kind::PowerAll,
        Kind::Sync,
        Kind::Index,
        Kind::Move,
    ];

    fn needs_hosts(self) -> bool {
        use Kind::{CutOff, CutOneWay, CutSome, PowerAll, PowerOne};
        [CutOneWay, CutSome, CutOff, PowerOne, PowerAll].contains(&self)
    }
}

/// The parameters from the environment.
struct Settings {
    span: Duration,
    seed: u64,
    kinds: Vec<Kind>,
}

impl Settings {
    fn read() -> Settings {
        let seconds = support::setting("REPLEX_CHAOS_SECONDS", 0);
        let seed = support::setting("REPLEX_CHAOS_SEED", SEED_DEFAULT);
        let only = std::env::var("REPLEX_CHAOS_ONLY").unwrap_or_default();
        println!(
            "REPLEX_CHAOS_SECONDS={seconds} REPLEX_CHAOS_SEED={seed} REPLEX_CHAOS_ONLY={only}"
        );
        let wanted: Vec<&str> = only.split(',').filter(|name| !name.is_empty()).collect();
        let name = |kind: &Kind| format!("{kind:?}");
        for word in &wanted {
            let known = Kind::ALL.iter().any(|kind| name(kind) == *word);
            assert!(known, "{word} is none of {:?}", Kind::ALL);
        }
        let is_wanted = |kind: &Kind| wanted.is_empty() || wanted.contains(&&*name(kind));
        Settings {
            span: Duration::from_secs(seconds),
            seed,
            kinds: Kind::ALL.into_iter().filter(is_wanted).collect(),
        }
    }
}

#[test]
fn failures_lose_nothing_and_no_lookup_shows_them() {
    let mut settings = Settings::read();
    let hosts = Hosts::new(SERVERS as u8 + 1);
    let why = hosts.as_ref().err().cloned().unwrap_or_default();
    let hosts = needs::require(
        &format!("hosts with cuts and lost power ({why})"),
        hosts.ok(),
    );
    if hosts.is_none() {
        settings.kinds.retain(|kind| !kind.needs_hosts());
    }
    if needs::require_program("strace", &["--version"]).is_none() {
        settings.kinds.retain(|kind| *kind != Kind::Sync);
    }
    assert!(
        !settings.kinds.is_empty(),
        "nothing of this can be made here"
    );
    // A thread of its own, for it enters the hosts' network.
    let thread = std::thread::spawn(move || {
        if let Some(hosts) = &hosts {
            hosts.enter().unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(chaos(settings, hosts));
    });
    thread.join().unwrap();
}

async fn chaos(settings: Settings, hosts: Option<Hosts>) {
    let mut options = ClusterOptions {
        servers: SERVERS,
        coordinator_arguments: ["--replace-after", REPLACE_AFTER].map(str::to_owned).into(),
        server_arguments: ["--range-entries", RANGE_ENTRIES].map(str::to_owned).into(),
        ..ClusterOptions::new(support::program())
    };
    if let Some(hosts) = &hosts {
        options.server_hosts = (0..SERVERS).map(|number| hosts.host(number)).collect();
        options.coordinator_host = hosts.host(COORDINATOR);
    }
    let mut noise = Noise::new(settings.seed);
    let record = Record::default();
    let mut world = World {
        cluster: Cluster::start(options).await.unwrap(),
        hosts,
    };
    let clients = history::start(&world.cluster, CLIENTS, settings.seed, &record).await;
    let load = Load {
        counting: Counting::start(&world.cluster).await,
        reads: WholeReads::start(&world.cluster, history::TABLE),
        record: record.clone(),
    };
    let mut judged = BTreeSet::new();
    let mut rounds = 0;
    let started = Instant::now();
    'rounds: loop {
        let mut bag = settings.kinds.clone();
        while !bag.is_empty() {
            if rounds >= settings.kinds.len() && started.elapsed() >= settings.span {
                break 'rounds;
            }
            let kind = bag.swap_remove(noise.below(bag.len() as u64) as usize);
            round(&mut world, kind, &mut noise, &load).await;
            record.judge(&mut judged);
            load.counting.expect_running();
            load.reads.expect_running();
            assert!(
                !clients.iter().any(|task| task.is_finished()),
                "a client ended"
            );
            rounds += 1;
        }
    }
    record.stop();
    for client in clients {
        client.await.unwrap();
    }
    let split = |configuration: &Configuration| ranges(configuration).all(|count| count > 1);
    let all_split = world.cluster.wait_until("all ranges are split", split);
    all_split.await.unwrap();
    let pairs = load.counting.pairs();
    load.counting.stop().await;
    load.reads.stop().await;
    let rows = record.judge_at_rest(&world.cluster).await;
    println!(
        "{rounds} failures in {:?}, {} operations, {} known to be done; {pairs} pairs; {rows} rows \
         in the end",
        started.elapsed(),
        record.len(),
        record.acknowledged()
    );
}

/// Returns how many ranges each thin index and copy has that ranges divide.
fn ranges(configuration: &Configuration) -> impl Iterator<Item = usize> {
    let tables = configuration.tables.iter();
    let replexes = tables.flat_map(|table| &table.layout.replexes);
    let ranges = replexes.filter_map(|replex| replex.ranges.as_ref());
    ranges.map(|ranges| ranges.starts.len())
}

/// One failure: it happens, it is repaired, and everything goes on.
async fn round(world: &mut World, kind: Kind, noise: &mut Noise, load: &Load) {
    let record = &load.record;
    // Random moments are the point of this pause: nothing waits for anything here.
    tokio::time::sleep(Duration::from_millis(noise.below(800))).await;
    let (begun, before) = (Instant::now(), record.acknowledged());
    let what = world.fail(kind, noise).await;
    let (repaired, during) = (begun.elapsed(), record.acknowledged() - before);
    world.cluster.wait_until_serving().await.unwrap();
    let whole = |configuration: &Configuration| {
        let mut servers = configuration.servers.iter();
        servers.all(|server| server.state == ServerState::Up) && !is_held(configuration, None)
    };
    world
        .cluster
        .wait_until("all is filled", whole)
        .await
        .unwrap();
    let filled = begun.elapsed();
    load.go_on(&what).await;
    println!(
        "{what}: repaired after {repaired:.1?}, {during} operations meanwhile; all is filled and \
         serves after {filled:.1?}"
    );
}

/// The clients of a cluster under failures.
struct Load {
    record: Record,
    counting: Counting,
    reads: WholeReads,
}

impl Load {
    /// Waits until operations, pairs and whole reads of each way have ended well that began after
    /// this.
    async fn go_on(&self, what: &str) {
        let (operations, pairs) = (self.record.acknowledged(), self.counting.pairs());
        let (begun, since) = (self.reads.begun(), Instant::now());
        loop {
            let operations = self.record.acknowledged() - operations;
            let pairs = self.counting.pairs() - pairs;
            let missing = self.reads.missing_since(&begun);
            if operations >= PROGRESS && pairs >= PAIRS && missing.is_empty() {
                return;
            }
            self.counting.expect_running();
            self.reads.expect_running();
            assert!(
                since.elapsed() < PROGRESS_WITHIN,
                "{what}: {operations} operations and {pairs} pairs since, no whole {missing:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Returns whether an epoch is ending, a partition is being filled, or this server holds one.
fn is_held(configuration: &Configuration, server: Option<ServerId>) -> bool {
    let tables = configuration.tables.iter();
    let mut places = tables.flat_map(|table| table.placement.iter().flatten());
    configuration.is_sealing()
        || places.any(|place| {
            Some(place.core.server) == server || place.state == PartitionState::Rebuilding
        })
}

struct World {
    cluster: Cluster,
    hosts: Option<Hosts>,
}

impl World {
    /// Has it happen and repairs it. Returns the event.
    async fn fail(&mut self, kind: Kind, noise: &mut Noise) -> String {
        let victim = self.victim(noise).await;
        let other = (victim + 1 + noise.below(SERVERS as u64 - 1) as usize) % SERVERS;
        let pause = Duration::from_millis(noise.below(1_500));
        let all: Vec<usize> = (0..SERVERS).collect();
        match kind {
            Kind::Kill => self.kill(&[victim], pause).await,
            Kind::KillAll => self.kill(&all, pause).await,
            Kind::Pause => self.pause(victim).await,
            Kind::Rolling => self.roll().await,
            Kind::Lose => self.lose(victim).await,
            Kind::CutOneWay => self.cut(&[(victim, other)], pause * 2).await,
            Kind::CutSome => {
                let nodes = 0..=COORDINATOR;
                let pairs = nodes.flat_map(|node| [(victim, node), (node, victim)]);
                let cuts: Vec<_> = pairs
                    .filter(|(from, to)| from != to && noise.below(2) == 0)
                    .collect();
                self.cut(&cuts, pause * 2).await;
            }
            Kind::CutOff => self.cut_off(victim).await,
            Kind::PowerOne => self.cut_power(&[victim], pause).await,
            Kind::PowerAll => self.cut_power(&all, pause).await,
            Kind::Sync => self.fail_sync(victim).await,
            Kind::Index => self.change_indexes(victim, pause, noise).await,
            Kind::Move => self.move_off(victim).await,
        }
        match kind {
            Kind::KillAll | Kind::PowerAll | Kind::Rolling => format!("{kind:?}"),
            _ => format!("{kind:?} of server {}", victim + 1),
        }
    }

    /// A server that holds partitions.
    async fn victim(&self, noise: &mut Noise) -> usize {
        let configuration = self.cluster.configuration().await.unwrap();
        let tables = configuration.tables.iter();
        let places = tables.flat_map(|table| table.placement.iter().flatten());
        let holders: BTreeSet<usize> = places
            .map(|place| place.core.server.0 as usize - 1)
            .collect();
        let holders: Vec<usize> = holders.into_iter().collect();
        holders[noise.below(holders.len() as u64) as usize]
    }

    fn hosts(&self) -> &Hosts {
        self.hosts.as_ref().expect("this kind was left out without")
    }

    async fn kill(&mut self, victims: &[usize], pause: Duration) {
        for victim in victims {
            self.cluster.kill(*victim).await.unwrap();
        }
        tokio::time::sleep(pause).await;
        self.restart(victims).await;
    }

    async fn restart(&mut self, victims: &[usize]) {
        for victim in victims {
            self.cluster.restart(*victim).await.unwrap();
        }
    }

    async fn wait_until_state(&mut self, position: usize, wanted: ServerState) {
        let is_there = |configuration: &Configuration| {
            let server = configuration.server(ServerId(position as u32 + 1));
            server.is_some_and(|server| server.state == wanted)
        };
        let what = format!("server {} is {wanted:?}", position + 1);
        self.cluster.wait_until(&what, is_there).await.unwrap();
    }

    async fn pause(&mut self, victim: usize) {
        self.cluster.pause(victim).unwrap();
        // The coordinator calls it down when its lease is over for certain.
        self.wait_until_state(victim, ServerState::Down).await;
        self.cluster.resume(victim).unwrap();
        self.wait_until_state(victim, ServerState::Up).await;
    }

    async fn roll(&mut self) {
        for position in 0..SERVERS {
            self.cluster.stop(position).await.unwrap();
            self.cluster.restart(position).await.unwrap();
            self.cluster.wait_until_serving().await.unwrap();
        }
    }

    async fn lose(&mut self, victim: usize) {
        self.cluster.kill(victim).await.unwrap();
        self.wait_until_replaced(victim).await;
        self.cluster.restart(victim).await.unwrap();
    }

    async fn wait_until_replaced(&mut self, victim: usize) {
        let lost = Some(ServerId(victim as u32 + 1));
        let replaced = |configuration: &Configuration| !is_held(configuration, lost);
        let what = format!("server {} is replaced", victim + 1);
        self.cluster.wait_until(&what, replaced).await.unwrap();
    }

    async fn cut(&mut self, cuts: &[(usize, usize)], span: Duration) {
        for (from, to) in cuts {
            self.hosts().cut(*from, *to);
        }
        tokio::time::sleep(span).await;
        self.hosts().heal();
    }

    async fn cut_off(&mut self, victim: usize) {
        self.hosts().cut(COORDINATOR, victim);
        self.wait_until_state(victim, ServerState::Down).await;
        self.wait_until_replaced(victim).await;
        self.hosts().heal();
        self.wait_until_state(victim, ServerState::Up).await;
    }

    async fn cut_power(&mut self, victims: &[usize], pause: Duration) {
        // A machine without power does nothing more, whatever its disk reports.
        for victim in victims {
            self.cluster.pause(*victim).unwrap();
        }
        for victim in victims {
            self.hosts().cut_power(*victim);
        }
        for victim in victims {
            self.cluster.kill(*victim).await.unwrap();
        }
        tokio::time::sleep(pause).await;
        for victim in victims {
            self.hosts().restore_power(*victim);
        }
        self.restart(victims).await;
    }

    async fn client(&self) -> Client {
        let options = ConnectOptions::new(self.cluster.coordinator_addresses().to_vec());
        Client::connect(options).await.unwrap()
    }

    async fn change_indexes(&mut self, victim: usize, pause: Duration, noise: &mut Noise) {
        const INDEX: &str = "late";
        let client = self.client().await;
        let table = client.table(counting::TABLE).await.unwrap();
        let wanted = match noise.below(3) {
            0 => counting::with_index(table.schema(), INDEX),
            kind => counting::with_thin_index(table.schema(), INDEX, kind == 1),
        };
        let adding = {
            let client = client.clone();
            tokio::spawn(async move { client.add_copy(wanted, &|_| {}).await })
        };
        self.kill(&[victim], pause).await;
        let added = adding.await.unwrap();
        let may_be_repeated = |error: &client::Error| counting::may_be_repeated(error);
        assert!(
            added.as_ref().err().is_none_or(may_be_repeated),
            "{added:?}"
        );
        while let Err(error) = client
            .drop_copy(counting::TABLE, INDEX, IfMissing::Accept)
            .await
        {
            assert!(may_be_repeated(&error), "{error}");
        }
    }

    async fn move_off(&mut self, victim: usize) {
        let (client, drained) = (self.client().await, ServerId(victim as u32 + 1));
        client.drain_server(drained).await.unwrap();
        let is_empty = |configuration: &Configuration| !configuration.holds(drained);
        let what = format!("server {} holds nothing", victim + 1);
        let mut waits = 1;
        while let Err(error) = self.cluster.wait_until(&what, is_empty).await {
            assert!(waits < MOVE_WAITS_MAX, "{error}");
            waits += 1;
        }
        client.end_drain(drained).await.unwrap();
    }

    /// From now on the kernel answers each sync of a server with an error.
    async fn fail_sync(&mut self, victim: usize) {
        let server = self.cluster.server(victim).id();
        let failing = SyncFault::start(server, "error=EIO").await;
        let ended = self.cluster.wait_ended(victim, ENDED_WITHIN).await;
        let status = ended.unwrap();
        drop(failing);
        assert!(!status.success(), "it ended as if all were well");
        self.cluster.restart(victim).await.unwrap();
    }
}
