//! Measures a cluster that loses servers for good during reads and writes: the rate of reads during
//! the recovery, the wait of writes, the number of partitions that a lookup visits, and the time
//! until all partitions are filled (Replex sections 5.2 to 5.4).
//!
//! A lost server is replaced as soon as its lease has ended, and returns after each run as a spare
//! server without partitions. So a cluster is loaded once and used for many runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use client::{Client, IfExists, Retry, SchemaBuilder, Table};
use placement::{
    ColumnType, CoverCosts, Cut, Durability, FurtherCopy, Layout, Share, Value, cover, encode_key,
};
use protocol::configuration::{Configuration, PartitionState, ServerState};
use protocol::identity::{CoreId, ServerId};
use tokio::task::LocalSet;

use crate::cpu;
use crate::distribution::BenchRandom;
use crate::options::MeasureOptions;
use crate::processes::{BenchCluster, BenchProcess, ServerKind};
use crate::quota::{self, CoreShare, Quota};
use crate::store::{self, FIELDS, RowShape};

/// The quota of each server. With half as much, servers that were asked for more than they could do
/// while others were filled lost their leases.
const SHARE: CoreShare = CoreShare::of_core(20);
/// Servers of the paper's experiments, and partitions of each copy.
const SERVERS: usize = 12;
const PARTITIONS: u32 = 12;
/// The number of clients, and the number of lookups in flight of all clients together. The CPU is
/// to be the bottleneck, so there are enough lookups to use it while some of them wait for a slow
/// server.
const CLIENTS: usize = 4;
const READERS: usize = 128;
/// Writers of rows that the lost server holds.
const WRITERS: u64 = 8;
/// Lookups whose partitions are counted.
const COUNTED: usize = 200;
/// Throughput is counted in steps of this.
const STEP: Duration = Duration::from_millis(250);
/// Between two looks at the coordinator's state.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// A cluster that is not whole again after this is not going to be.
const WHOLE_WITHIN: Duration = Duration::from_secs(600);

/// A table of the paper: how many keys it has, and its hybrid if it has one.
#[derive(Clone, Debug)]
pub struct OutageTable {
    pub name: String,
    /// The number of keys, including the primary key.
    pub keys: usize,
    /// The hybrid's divisions, one for each key; none without a hybrid.
    pub hybrid: Option<Vec<u32>>,
}

impl OutageTable {
    /// Returns the paper's Replex-2: two keys, no hybrid.
    pub fn replex_2() -> OutageTable {
        OutageTable {
            name: "Replex-2".to_owned(),
            keys: 2,
            hybrid: None,
        }
    }

    /// Returns the number of copies of each row.
    pub fn copies(&self) -> usize {
        self.keys + usize::from(self.hybrid.is_some())
    }
}

/// The loss of a server, and when, from the beginning of a run.
#[derive(Clone, Copy, Debug)]
pub struct ServerLoss {
    pub at: Duration,
    /// The lost server: the one that holds this partition (replex, number) at that time.
    pub holder_of: (usize, usize),
}

/// The moments of the loss of a server, from the beginning of a run.
#[derive(Clone, Copy, Debug)]
pub struct LossMoments {
    pub killed: Duration,
    /// The moment when the server's lease has ended and an epoch without the server serves: its
    /// partitions begin to be filled.
    pub serving: Duration,
    /// The moment when all partitions are filled.
    pub whole: Duration,
    pub ended: Duration,
}

/// The lookup rates before and during a loss of servers, and the duration of the recovery, as
/// [`OutageSite::outage`] measures them.
#[derive(Clone, Debug)]
pub struct OutageOutcome {
    /// Points in time in seconds, each with the lookups per second around it.
    pub timeline: Vec<(f64, f64)>,
    /// Lookups per second before the first loss, and from it until all was filled again.
    pub before: f64,
    pub during: f64,
    /// The time from the first loss until all partitions were filled, in seconds.
    pub recovery_seconds: f64,
}

/// The measurements of a loss of servers in a cluster without other clients.
#[derive(Clone, Copy, Debug)]
pub struct IdleRecovery {
    /// The number of partitions that a lookup of a lost row visits: as computed from the grid, and
    /// as measured.
    pub predicted: f64,
    pub measured: f64,
    /// The number of filled rows, and the duration of the fill from the new epoch on.
    pub rows: u64,
    pub seconds: f64,
}

/// A loaded cluster. The fields are ordered so that processes are dropped before their quotas.
pub struct OutageSite {
    cluster: BenchCluster,
    servers: Vec<(ServerId, usize, BenchProcess)>,
    /// Numbers of folders whose servers were lost.
    lost: Vec<usize>,
    clients: Vec<Client>,
    shape: RowShape,
    grid: OutageTable,
    quotas: Option<Vec<Quota>>,
}

impl OutageSite {
    /// Starts twelve servers, loads the table, and adds spares.
    ///
    /// # Errors
    /// A process does not start, a row cannot be written.
    pub async fn new(
        options: &MeasureOptions,
        grid: &OutageTable,
        shape: RowShape,
        spares: usize,
    ) -> io::Result<OutageSite> {
        OutageSite::of_servers(options, grid, shape, (SERVERS, spares)).await
    }

    /// Starts a cluster with `servers` servers, loads the table, and adds `spares` servers without
    /// partitions.
    ///
    /// # Errors
    /// A process does not start, or a row cannot be inserted.
    pub async fn of_servers(
        options: &MeasureOptions,
        grid: &OutageTable,
        shape: RowShape,
        (servers, spares): (usize, usize),
    ) -> io::Result<OutageSite> {
        note!("{}: {} rows are loaded", grid.name, shape.rows);
        let mut cluster = BenchCluster::start(&options.base(), servers, ServerKind::default())?;
        let clients = store::clients(&cluster, CLIENTS).await?;
        let table = create(&clients[0], grid).await?;
        store::load(&table, shape).await?;
        for number in servers..servers + spares {
            let process = cluster.server(number)?;
            cluster.servers.push(process);
        }
        let started = std::mem::take(&mut cluster.servers).into_iter().enumerate();
        let servers = started.map(|(number, process)| Ok((id(&process)?, number, process)));
        let site = OutageSite {
            servers: servers.collect::<io::Result<_>>()?,
            cluster,
            lost: Vec::new(),
            clients,
            shape,
            grid: grid.clone(),
            quotas: None,
        };
        site.wait(all_up).await?;
        Ok(site)
    }

    /// Limits each server to a twentieth of a core. Prints a note if the machine does not permit
    /// CPU quotas.
    pub fn hold_back(&mut self) {
        let ids = self.servers.iter().map(|(_, _, process)| process.id());
        let quotas: io::Result<_> =
            quota::remove_leftovers().and_then(|()| ids.map(|id| Quota::of(id, SHARE)).collect());
        match quotas {
            Ok(quotas) => {
                note!("each server is held to {SHARE} from here on");
                self.quotas = Some(quotas);
            }
            Err(error) => note!(
                "NO QUOTAS: servers take what they get of this machine, and the figures are not \
                 those of a cluster ({error})"
            ),
        }
    }

    /// Returns the resident memory of all servers, in bytes.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.servers
            .iter()
            .map(|(_, _, process)| cpu::resident_bytes(process.id()))
            .sum()
    }

    /// Runs lookups, kills servers for good, and continues for `after` once all partitions are
    /// filled again. `shares` are the relative rates of lookups by each key.
    ///
    /// # Errors
    /// A lookup fails, or does not find its row; the cluster does not become whole.
    pub async fn outage(
        &mut self,
        shares: &[u32],
        losses: &[ServerLoss],
        after: Duration,
    ) -> io::Result<OutageOutcome> {
        let counts = Rc::new(RefCell::new(Vec::new()));
        let stop = Rc::new(Cell::new(false));
        let keys: Vec<Rc<Vec<Vec<u8>>>> = (0..self.grid.keys)
            .map(|column| Rc::new(store::encoded_keys(self.shape, column)))
            .collect();
        let set = LocalSet::new();
        let tables = store::tables(&self.clients, TABLE).await?;
        let started = Instant::now();
        let mut readers = Vec::new();
        for (table, seed) in tables.iter().cycle().take(READERS).zip(1..) {
            let reader = Reader {
                table: table.clone(),
                keys: keys.clone(),
                shares: shares.to_vec(),
                random: BenchRandom::new(seed),
                counts: counts.clone(),
                stop: stop.clone(),
                started,
            };
            readers.push(set.spawn_local(reader.run()));
        }
        let first = losses[0].at;
        let whole = set
            .run_until(async {
                let whole = self.lose(losses, started).await?;
                tokio::time::sleep(after).await;
                stop.set(true);
                for reader in readers {
                    reader.await.map_err(io::Error::other)??;
                }
                io::Result::Ok(whole)
            })
            .await?;
        self.bring_back().await?;
        Ok(outcome(&counts.borrow(), first, whole))
    }

    /// Loses servers when their time has come, gives them up, and returns when all was whole again,
    /// seen from `started`.
    async fn lose(&mut self, losses: &[ServerLoss], started: Instant) -> io::Result<Duration> {
        let mut waiting = losses.iter();
        let mut next = waiting.next();
        let mut gone = BTreeSet::new();
        let mut given_up = BTreeSet::new();
        loop {
            let configuration = self.clients[0].refresh().await.map_err(store::failed)?;
            if let Some(loss) = next
                && started.elapsed() >= loss.at
            {
                gone.insert(self.kill(&configuration, loss.holder_of)?);
                next = waiting.next();
            }
            for server in configuration
                .servers
                .iter()
                .filter(|it| gone.contains(&it.id))
            {
                if server.state == ServerState::Down && !given_up.contains(&server.id) {
                    match self.clients[0].remove_server(server.id).await {
                        Ok(()) => drop(given_up.insert(server.id)),
                        Err(error) if error.retry() == Retry::Later => {}
                        Err(error) => return Err(store::failed(error)),
                    }
                }
            }
            if next.is_none() && given_up.len() == gone.len() && is_whole(&configuration, &gone) {
                return Ok(started.elapsed());
            }
            if started.elapsed() > WHOLE_WITHIN {
                return Err(io::Error::other("the cluster does not become whole again"));
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// Returns each client's handle of the table.
    ///
    /// # Errors
    /// There is no such table.
    pub async fn tables(&self) -> io::Result<Vec<Table>> {
        store::tables(&self.clients, TABLE).await
    }

    /// Kills the holder of a partition after some time, and replaces it once its lease has ended.
    /// Waits until all partitions are filled, and continues for some time.
    ///
    /// # Errors
    /// The cluster does not become whole.
    pub async fn staged_loss(
        &mut self,
        holder_of: (usize, usize),
        started: Instant,
        span: Duration,
    ) -> io::Result<LossMoments> {
        tokio::time::sleep(span).await;
        let configuration = self.clients[0].refresh().await.map_err(store::failed)?;
        let killed = started.elapsed();
        let gone = self.kill(&configuration, holder_of)?;
        self.wait(|configuration| {
            let server = configuration.server(gone);
            server.is_some_and(|server| server.state == ServerState::Down)
        })
        .await?;
        // As a coordinator does by itself, unless it waits for a silent server (`--replace-after`).
        while let Err(error) = self.clients[0].remove_server(gone).await {
            if error.retry() != Retry::Later {
                return Err(store::failed(error));
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
        self.wait(|configuration| !configuration.is_sealing() && !configuration.holds(gone))
            .await?;
        let serving = started.elapsed();
        let gone = BTreeSet::from([gone]);
        self.wait(|configuration| is_whole(configuration, &gone))
            .await?;
        let whole = started.elapsed();
        tokio::time::sleep(span).await;
        Ok(LossMoments {
            killed,
            serving,
            whole,
            ended: started.elapsed(),
        })
    }

    fn kill(
        &mut self,
        configuration: &Configuration,
        (replex, number): (usize, usize),
    ) -> io::Result<ServerId> {
        let table = configuration.table_named(TABLE);
        let table = table.ok_or_else(|| io::Error::other("the table is gone"))?;
        let server = table.placement[replex][number].core.server;
        let found = self.servers.iter().position(|(id, _, _)| *id == server);
        let found = found.ok_or_else(|| io::Error::other("this server was lost before"))?;
        let (_, number, process) = self.servers.remove(found);
        drop(process);
        self.lost.push(number);
        Ok(server)
    }

    /// Starts the lost servers again, as spare servers without partitions.
    ///
    /// # Errors
    /// One of the servers does not start.
    pub async fn bring_back(&mut self) -> io::Result<()> {
        for number in std::mem::take(&mut self.lost) {
            let process = self.cluster.server(number)?;
            if let Some(quotas) = &mut self.quotas {
                quotas.push(Quota::of(process.id(), SHARE)?);
            }
            self.servers.push((id(&process)?, number, process));
        }
        self.wait(all_up).await
    }

    /// Kills the holders of partitions without other load, counts the partitions that lookups
    /// visit, and replaces the servers until all partitions are filled.
    ///
    /// # Errors
    /// A lookup fails, or the cluster does not recover all partitions in time.
    pub async fn quiet_loss(&mut self, holders_of: &[(usize, usize)]) -> io::Result<IdleRecovery> {
        let mut gone = BTreeSet::new();
        for place in holders_of {
            let configuration = self.clients[0].refresh().await.map_err(store::failed)?;
            gone.insert(self.kill(&configuration, *place)?);
        }
        let known = |configuration: &Configuration| {
            let mut lost = configuration
                .servers
                .iter()
                .filter(|server| gone.contains(&server.id));
            lost.all(|server| server.state == ServerState::Down)
        };
        self.wait(known).await?;
        let (predicted, measured) = self.amplification(holders_of[0].0, &gone).await?;
        let before = self.counter("fill_rows").await?;
        for server in &gone {
            let removed = self.clients[0].remove_server(*server).await;
            removed.map_err(store::failed)?;
        }
        let serving = Instant::now();
        self.wait(|configuration| is_whole(configuration, &gone))
            .await?;
        let seconds = serving.elapsed().as_secs_f64();
        let rows = self.counter("fill_rows").await? - before;
        self.bring_back().await?;
        Ok(IdleRecovery {
            predicted,
            measured,
            rows,
            seconds,
        })
    }

    /// Returns partitions that lookups by a key visit whose partition is lost: predicted, measured.
    async fn amplification(
        &self,
        replex: usize,
        gone: &BTreeSet<ServerId>,
    ) -> io::Result<(f64, f64)> {
        let table = self.clients[0].table(TABLE).await.map_err(store::failed)?;
        let definition = table.definition();
        let lives = |replex: usize, number: u32| {
            let place = definition.placement[replex][number as usize];
            !gone.contains(&place.core.server)
        };
        let (mut predicted, mut keys) = (0, Vec::new());
        for key in store::encoded_keys(self.shape, replex) {
            let lost = (replex, partition(&definition.layout, replex, &key));
            if lives(lost.0, lost.1) {
                continue;
            }
            let found = cover(&definition.layout, lost, &lives, &CoverCosts::LOOKUP);
            let lost_with = || {
                let places = definition.placement.iter().enumerate();
                let held = places.map(|(replex, places)| {
                    let places = places.iter().filter(|it| gone.contains(&it.core.server));
                    format!("{} of replex {replex}", places.count())
                });
                let held: Vec<String> = held.collect();
                format!("rows are lost in every copy: {} are gone", held.join(", "))
            };
            let found = found.ok_or_else(|| io::Error::other(lost_with()))?;
            predicted += found.amplification();
            keys.push(key);
            if keys.len() == COUNTED {
                break;
            }
        }
        let number = u8::try_from(replex).expect("replexes are few");
        let mut measured = 0;
        // The first lookup at a server on behalf of another may be sent twice: only from then on
        // does it record changes. So the second round counts.
        for _ in 0..2 {
            let before = self.counter("reads_redirected").await?;
            for key in &keys {
                let page = table.get_raw(number, key, 2).await;
                if page.map_err(store::failed)?.count != 1 {
                    let what = "a lookup of what is lost does not find its row";
                    return Err(io::Error::other(what));
                }
            }
            measured = self.counter("reads_redirected").await? - before;
        }
        let each = |sum: f64| sum / keys.len() as f64;
        Ok((each(f64::from(predicted)), each(measured as f64)))
    }

    /// Writes rows of a server while it is lost. Returns the longest time in which none of these
    /// writes was acknowledged.
    ///
    /// # Errors
    /// A write fails for good, or the cluster does not recover all partitions in time.
    pub async fn write_gap(&mut self, loss: ServerLoss, after: Duration) -> io::Result<Duration> {
        let table = self.clients[0].table(TABLE).await.map_err(store::failed)?;
        let definition = table.definition();
        let (replex, number) = loss.holder_of;
        let server = definition.placement[replex][number].core.server;
        let held = |row: &u64| {
            let values = store::row(*row, self.shape.field_bytes);
            let key = encode_key([values[replex].as_ref()]);
            let place = partition(&definition.layout, replex, &key);
            definition.placement[replex][place as usize].core.server == server
        };
        let rows: Rc<Vec<u64>> = Rc::new((0..self.shape.rows).filter(held).take(1_000).collect());
        let (stop, started) = (Rc::new(Cell::new(false)), Instant::now());
        let (last, gap) = (
            Rc::new(Cell::new(started)),
            Rc::new(Cell::new(Duration::ZERO)),
        );
        let set = LocalSet::new();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (table, rows, mut random) =
                    (table.clone(), rows.clone(), BenchRandom::new(writer));
                let (stop, last, gap) = (stop.clone(), last.clone(), gap.clone());
                set.spawn_local(async move {
                    while !stop.get() {
                        let row = rows[random.below(rows.len() as u64) as usize];
                        let text = store::set(FIELDS - 1, random.text(10));
                        let pk = [Value::Text(store::key(row))];
                        store::applied(table.update(&pk, vec![text], None).await)?;
                        let now = Instant::now();
                        gap.set(gap.get().max(now - last.replace(now)));
                    }
                    io::Result::Ok(())
                })
            })
            .collect();
        set.run_until(async {
            self.lose(&[loss], started).await?;
            tokio::time::sleep(after).await;
            stop.set(true);
            for writer in writers {
                writer.await.map_err(io::Error::other)??;
            }
            io::Result::Ok(())
        })
        .await?;
        self.bring_back().await?;
        Ok(gap.get())
    }

    /// Returns the sum of a counter over all servers that are up.
    async fn counter(&self, name: &str) -> io::Result<u64> {
        let mut sum = 0;
        for (server, _, _) in &self.servers {
            let core = CoreId {
                server: *server,
                core: 0,
            };
            let counters = self.clients[0].status(core).await.map_err(store::failed)?;
            let found = counters.iter().find(|(known, _)| known == name);
            sum += found.map_or(0, |(_, value)| *value);
        }
        Ok(sum)
    }

    async fn wait(&self, holds: impl Fn(&Configuration) -> bool) -> io::Result<()> {
        let started = Instant::now();
        while started.elapsed() < WHOLE_WITHIN {
            let configuration = self.clients[0].refresh().await.map_err(store::failed)?;
            if holds(&configuration) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
        Err(io::Error::other(
            "the cluster does not become as it should be",
        ))
    }
}

const TABLE: &str = "outage";

async fn create(client: &Client, grid: &OutageTable) -> io::Result<Table> {
    let mut builder = SchemaBuilder::new(TABLE).column("key", ColumnType::Text);
    for field in 0..FIELDS {
        builder = builder.column(format!("field{field}"), ColumnType::Text);
    }
    builder = builder.primary_key(&["key"]);
    for field in 0..grid.keys - 1 {
        let column = format!("field{field}");
        builder = builder.index(format!("by_{column}"), &[&column]);
    }
    let failures = u8::try_from(grid.copies() - 1).expect("copies are few");
    let schema = builder
        .partitions(PARTITIONS)
        .failures_tolerated(failures)
        .durability(Durability::Replicated)
        .build();
    let mut schema = schema.map_err(store::failed)?;
    if let Some(divisions) = &grid.hybrid {
        let indexes = std::iter::once(None).chain((0..).map(Some));
        let shares = indexes.zip(divisions);
        let shares = shares.map(|(index, &divisions)| Share { index, divisions });
        schema.further.push(FurtherCopy {
            name: "hybrid".to_owned(),
            cut: Cut::Hybrid {
                shares: shares.collect(),
            },
        });
    }
    let created = client.create_table(schema, IfExists::Fail).await;
    created.map_err(store::failed)
}

fn id(process: &BenchProcess) -> io::Result<ServerId> {
    let number = process.ready_value("server")?.parse();
    number.map(ServerId).map_err(io::Error::other)
}

fn all_up(configuration: &Configuration) -> bool {
    let mut servers = configuration.servers.iter();
    servers.all(|server| server.state == ServerState::Up)
}

/// Returns whether nothing is held by these servers, being filled, or about to be.
fn is_whole(configuration: &Configuration, gone: &BTreeSet<ServerId>) -> bool {
    let mut places = configuration
        .tables
        .iter()
        .flat_map(|table| table.placement.iter().flatten());
    !configuration.is_sealing()
        && places.all(|place| {
            place.state != PartitionState::Rebuilding && !gone.contains(&place.core.server)
        })
}

fn partition(layout: &Layout, replex: usize, key: &[u8]) -> u32 {
    let axes = &layout.replexes[replex].axes;
    axes.iter().fold(0, |number, axis| {
        let slot = layout.slot_of_key(axis.key_space, key);
        number * axis.divisions + axis.coordinate(slot)
    })
}

/// Looks up one row after the other, by each key as often as its share.
struct Reader {
    table: Table,
    keys: Vec<Rc<Vec<Vec<u8>>>>,
    shares: Vec<u32>,
    random: BenchRandom,
    /// Lookups that ended in each step.
    counts: Rc<RefCell<Vec<u64>>>,
    stop: Rc<Cell<bool>>,
    started: Instant,
}

impl Reader {
    async fn run(mut self) -> io::Result<()> {
        let sum: u32 = self.shares.iter().sum();
        while !self.stop.get() {
            let mut drawn = self.random.below(u64::from(sum)) as u32;
            let mut column = 0;
            while drawn >= self.shares[column] {
                drawn -= self.shares[column];
                column += 1;
            }
            let keys = &self.keys[column];
            let key = &keys[self.random.below(keys.len() as u64) as usize];
            // The primary key and the indexes come first, in this order.
            let replex = u8::try_from(column).expect("keys are few");
            let page = self.table.get_raw(replex, key, 2).await;
            let count = page.map_err(store::failed)?.count;
            if count != 1 {
                let what = format!("{count} rows were found where there is one");
                return Err(io::Error::other(what));
            }
            let step = (self.started.elapsed().as_secs_f64() / STEP.as_secs_f64()) as usize;
            let mut counts = self.counts.borrow_mut();
            if counts.len() <= step {
                counts.resize(step + 1, 0);
            }
            counts[step] += 1;
        }
        Ok(())
    }
}

fn outcome(counts: &[u64], first: Duration, whole: Duration) -> OutageOutcome {
    let step = STEP.as_secs_f64();
    let place = |time: Duration| (time.as_secs_f64() / step) as usize;
    let rate = |counts: &[u64]| counts.iter().sum::<u64>() as f64 / (counts.len() as f64 * step);
    // The last step is not a whole one.
    let timeline = counts[..counts.len() - 1].iter().enumerate();
    let timeline =
        timeline.map(|(number, count)| ((number as f64 + 0.5) * step, *count as f64 / step));
    OutageOutcome {
        timeline: timeline.collect(),
        before: rate(&counts[..place(first).max(1)]),
        during: rate(&counts[place(first)..=place(whole).min(counts.len() - 1)]),
        recovery_seconds: (whole - first).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_taken_before_the_loss_and_until_all_is_whole() {
        let counts = [50, 50, 10, 10, 10, 10, 50, 50, 1];
        let outcome = outcome(
            &counts,
            Duration::from_millis(500),
            Duration::from_millis(1_400),
        );
        assert_eq!((outcome.before, outcome.during), (200.0, 40.0));
        assert!((outcome.recovery_seconds - 0.9).abs() < 1e-9);
        assert_eq!(outcome.timeline.len(), 8);
        assert_eq!(outcome.timeline[0], (0.125, 200.0));
    }
}
