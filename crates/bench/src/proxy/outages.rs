//! Measures clients' reads and errors while a replica is offline, and while replicas receive no
//! commit: sections 7.6 and 7.7 of the paper, Figures 9 and 10.
//!
//! The load is YCSB's balanced mix, 85% reads and 15% inserts, where the newest rows are read most,
//! and each database gets an equal share of a core. The clients are part of this program: if a
//! statement fails, a client counts the failure and continues, as applications do.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

use super::balanced::{self, INSERTS, READS};
use super::databases::{DatabaseSite, LOOK_AGAIN_AFTER, PATIENCE, ask, connect};
use super::{CLIENTS_PER_REPLICA, RAMP_UP, SHARE, has_quotas};
use crate::distribution::{BenchRandom, Zipfian};
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::plot::{AxisScale, LineChart};
use crate::quota::Quota;
use crate::report::FigureReport;
use crate::store::FIELDS;

/// The number of replicas in section 7.6 of the paper.
const REPLICAS: usize = 3;
/// The runs in each part: before the outage, during it, and after the replica has caught up.
const RUNS: u32 = 10;
/// The query for the end of the primary's WAL, as a number.
const LOG_END: &str = "SELECT pg_current_wal_insert_lsn() - '0/0'";

/// Runs `replex bench proxy outages`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    if !has_quotas("the paper's Figures 9 and 10") {
        return Ok(FigureReport::default());
    }
    let base = options.base();
    std::fs::create_dir_all(&base)?;
    let schema = balanced::schema(options.rows);
    let mut site = DatabaseSite::start(&base, &schema, REPLICAS, &[]).await?;
    site.hold_back()?;
    note!("each database is held to {SHARE} from here on");
    let load = Arc::new(PgbenchLoad::new(site.place()?, options.rows));
    let clients = Clients::start(&load);
    tokio::time::sleep(RAMP_UP).await;
    let mut report = FigureReport::default();
    let of = clients.without_replica(&mut site, options.span() * RUNS);
    let (quota, offline) = of.await?;
    offline.report_rows("a replica is killed", &mut report);
    options.draw_lines(
        "proxy-replica-offline",
        &offline.plot("a replica is killed, and started again"),
    )?;
    let deaf = clients
        .without_commits(&mut site, options.span() * RUNS)
        .await?;
    deaf.report_rows("replication stands still", &mut report);
    options.draw_lines(
        "proxy-replication-stopped",
        &deaf.plot("replication stands still, and goes on"),
    )?;
    clients.stop()?;
    // Processes go before their quotas.
    drop(site);
    drop(quota);
    Ok(report)
}

/// The load of the clients, and its result.
struct PgbenchLoad {
    place: SocketAddr,
    newest_first: Zipfian,
    /// The key of the next row.
    next: AtomicU64,
    /// When each statement that was answered ended, and how long it took.
    answered: Mutex<Vec<(Instant, Duration)>>,
    failed: AtomicU64,
    is_over: AtomicBool,
}

impl PgbenchLoad {
    fn new(place: SocketAddr, rows: u64) -> PgbenchLoad {
        PgbenchLoad {
            place,
            newest_first: Zipfian::new(rows),
            next: AtomicU64::new(rows),
            answered: Mutex::default(),
            failed: AtomicU64::default(),
            is_over: AtomicBool::default(),
        }
    }

    /// Returns the next statement of a client.
    fn statement(&self, random: &mut BenchRandom) -> String {
        if random.below(u64::from(READS + INSERTS)) < u64::from(READS) {
            let newest = self.next.load(Ordering::Relaxed) - 1;
            let key = newest - self.newest_first.rank(random);
            return format!("SELECT * FROM usertable WHERE key = {key}");
        }
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let fields = (0..FIELDS).map(|_| format!(", '{}'", random.text(10)));
        let fields: String = fields.collect();
        format!("INSERT INTO usertable VALUES ({key}{fields})")
    }

    /// Runs one client until the load ends.
    async fn run(self: Arc<PgbenchLoad>, number: u64) {
        let mut random = BenchRandom::new(number);
        let mut session = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let Some(client) = &session else {
                match connect(self.place).await {
                    Ok(client) => session = Some(client),
                    Err(_) => tokio::time::sleep(LOOK_AGAIN_AFTER).await,
                }
                continue;
            };
            let statement = self.statement(&mut random);
            let begun = Instant::now();
            match client.simple_query(&statement).await {
                Ok(_) => {
                    let ended = Instant::now();
                    let mut answered = self.answered.lock();
                    let answered = answered.as_mut().unwrap_or_else(PoisonError::get_mut);
                    answered.push((ended, ended - begun));
                }
                Err(_) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    session = session.filter(|client| !client.is_closed());
                }
            }
        }
    }
}

/// All clients, on a thread of their own.
struct Clients {
    load: Arc<PgbenchLoad>,
    thread: JoinHandle<io::Result<()>>,
}

impl Clients {
    fn start(load: &Arc<PgbenchLoad>) -> Clients {
        let shared = Arc::clone(load);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let mut clients = JoinSet::new();
            for number in 0..CLIENTS_PER_REPLICA * REPLICAS {
                clients.spawn_on(Arc::clone(&shared).run(number as u64), runtime.handle());
            }
            runtime.block_on(clients.join_all());
            Ok(())
        });
        Clients {
            load: Arc::clone(load),
            thread,
        }
    }

    fn stop(self) -> io::Result<()> {
        self.load.is_over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a client panicked")))
    }

    /// Kills a replica, and starts it again with its quota. Returns the quota, too, which must be
    /// kept as long as the replica runs.
    async fn without_replica(
        &self,
        site: &mut DatabaseSite,
        part: Duration,
    ) -> io::Result<(Option<Quota>, Timeline)> {
        let mut watch = Watch::begin(&self.load, site).await?;
        tokio::time::sleep(part).await;
        watch.outage_begins(site).await?;
        site.replicas[0].crash()?;
        tokio::time::sleep(part).await;
        watch.outage_ends(site).await?;
        site.replicas[0].start_again()?;
        let process = site.replicas[0].process();
        let quota = process
            .map(|process| Quota::of(process, SHARE))
            .transpose()?;
        watch.first_read = Some(None);
        Ok((quota, watch.end(site, part).await?))
    }

    /// Stops the primary's process that sends commits, and lets it continue after a while.
    async fn without_commits(
        &self,
        site: &mut DatabaseSite,
        part: Duration,
    ) -> io::Result<Timeline> {
        let mut watch = Watch::begin(&self.load, site).await?;
        tokio::time::sleep(part).await;
        watch.outage_begins(site).await?;
        let sender = "SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical'";
        let primary = connect(site.primary.socket()).await?;
        let sender = ask(&primary, sender)
            .await?
            .and_then(|pid| pid.parse().ok());
        let sender = sender.and_then(Pid::from_raw);
        let sender = sender.ok_or_else(|| io::Error::other("no proxy reads the slot"))?;
        kill_process(sender, Signal::STOP)?;
        tokio::time::sleep(part).await;
        kill_process(sender, Signal::CONT)?;
        watch.outage_ends(site).await?;
        watch.end(site, part).await
    }
}

/// Returns whether the first replica serves, and has answered a read since it was connected.
async fn serves_reads(site: &DatabaseSite) -> io::Result<bool> {
    let rows = site.ask("SHOW REPLICAS").await?;
    Ok(rows[0][3] == "serving" && rows[0][8] != "0")
}

/// The samples that are taken during an event.
struct Watch {
    load: Arc<PgbenchLoad>,
    begun: Instant,
    failed_before: u64,
    outage: [Option<Instant>; 2],
    /// Batches, and those at replicas, when the outage begins and ends.
    batches: [(f64, f64); 2],
    /// The end of the primary's log when the outage ends.
    missed_until: String,
    /// From the outage's end; none yet, or not to be waited for.
    first_read: Option<Option<Duration>>,
}

impl Watch {
    async fn begin(load: &Arc<PgbenchLoad>, site: &DatabaseSite) -> io::Result<Watch> {
        let begun = Instant::now();
        Ok(Watch {
            load: Arc::clone(load),
            begun,
            failed_before: load.failed.load(Ordering::Relaxed),
            outage: [None; 2],
            batches: [site.batches().await?; 2],
            missed_until: String::new(),
            first_read: None,
        })
    }

    async fn outage_begins(&mut self, site: &DatabaseSite) -> io::Result<()> {
        self.batches[0] = site.batches().await?;
        self.outage[0] = Some(Instant::now());
        Ok(())
    }

    async fn outage_ends(&mut self, site: &DatabaseSite) -> io::Result<()> {
        self.batches[1] = site.batches().await?;
        let primary = connect(site.primary.socket()).await?;
        self.missed_until = ask(&primary, LOG_END).await?.unwrap_or_default();
        self.outage[1] = Some(Instant::now());
        Ok(())
    }

    fn since_outage(&self) -> Duration {
        self.outage[1].map_or(Duration::ZERO, |ended| ended.elapsed())
    }

    /// Waits until the first replica has all commits that it missed, and for the time `after` in
    /// addition. Returns the result of the run.
    async fn end(mut self, site: &DatabaseSite, after: Duration) -> io::Result<Timeline> {
        let replica = connect(site.replicas[0].socket()).await?;
        let missed = &self.missed_until;
        let there = format!("SELECT 1 FROM hihooi.applied HAVING max(tsid) >= {missed}");
        let mut caught_up = None;
        while self.first_read == Some(None) || caught_up.is_none() {
            if self.first_read == Some(None) && serves_reads(site).await? {
                self.first_read = Some(Some(self.since_outage()));
            }
            if caught_up.is_none() && ask(&replica, &there).await?.is_some() {
                caught_up = Some(self.since_outage());
            }
            if self.since_outage() > PATIENCE {
                return Err(io::Error::other("the replica does not catch up"));
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
        let caught_up = caught_up.unwrap_or_default();
        tokio::time::sleep(after).await;
        let answered = self.load.answered.lock();
        let answered = answered.unwrap_or_else(PoisonError::into_inner).clone();
        let seconds = |moment: &Instant| moment.saturating_duration_since(self.begun).as_secs_f64();
        let answered = answered.iter().filter(|(ended, _)| *ended >= self.begun);
        let [(all, there), (all_then, there_then)] = self.batches;
        Ok(Timeline {
            answered: answered
                .map(|(ended, took)| (seconds(ended), took.as_secs_f64() * 1e3))
                .collect(),
            length: self.begun.elapsed().as_secs_f64(),
            outage: self
                .outage
                .map(|moment| moment.as_ref().map_or(0.0, seconds)),
            failed: self.load.failed.load(Ordering::Relaxed) - self.failed_before,
            share_meanwhile: (there_then - there) / (all_then - all),
            first_read: self.first_read.flatten().map(|it| it.as_secs_f64()),
            caught_up: caught_up.as_secs_f64(),
        })
    }
}

/// The statements of a run. Times are in seconds from the beginning of the run, durations of
/// statements in milliseconds.
struct Timeline {
    /// When each statement ended, and how long it took.
    answered: Vec<(f64, f64)>,
    length: f64,
    outage: [f64; 2],
    failed: u64,
    /// Of the batches during the outage, the share that replicas answered.
    share_meanwhile: f64,
    /// From the outage's end.
    first_read: Option<f64>,
    caught_up: f64,
}

impl Timeline {
    /// Returns the number of statements in each whole second of a part of the run.
    fn rates(&self, from: f64, to: f64) -> Measurements {
        let mut figures = Measurements::default();
        for second in from.ceil() as u64..to.floor() as u64 {
            let during = second as f64..(second + 1) as f64;
            let count = self.answered.iter().filter(|it| during.contains(&it.0));
            figures.push(count.count() as f64);
        }
        figures
    }

    /// Returns the mean duration of the statements in a part of the run.
    fn mean(&self, from: f64, to: f64) -> Measurements {
        let during = self.answered.iter().filter(|it| (from..to).contains(&it.0));
        let took: Vec<f64> = during.map(|(_, took)| *took).collect();
        one(took.iter().sum::<f64>() / took.len() as f64)
    }

    fn report_rows(&self, what: &str, report: &mut FigureReport) {
        let [begun, ended] = self.outage;
        let parts = [
            ("before", 0.0, begun),
            ("meanwhile", begun, ended),
            (
                "once all has come that was missed",
                ended + self.caught_up,
                self.length,
            ),
        ];
        let before = one(self.rates(0.0, begun).median());
        for (when, from, to) in parts {
            let rate = one(self.rates(from, to).median());
            let name = format!("{what}: rate {when}");
            match when {
                "before" => report.plain("", &name, &rate, "1/s"),
                _ => report.pair(("", ""), &name, (&rate, "1/s"), ("before", &before)),
            }
            let name = format!("{what}: mean time {when}");
            report.plain("", &name, &self.mean(from, to), "ms");
        }
        let share = one(self.share_meanwhile * 100.0);
        let name = format!("{what}: answered by replicas meanwhile");
        report.plain("", &name, &share, "%");
        let failed = one(self.failed as f64);
        report.plain("", &format!("{what}: statements that failed"), &failed, "");
        if let Some(first_read) = self.first_read {
            let name = format!("{what}: from its start to its first read");
            report.plain("", &name, &one(first_read), "s");
        }
        let name = format!("{what}: from the end until all that was missed had come");
        report.plain("", &name, &one(self.caught_up), "s");
    }

    fn plot(&self, what: &str) -> LineChart {
        let seconds = 0..self.length as u64;
        let rate = seconds.map(|second| {
            let during = second as f64..(second + 1) as f64;
            let count = self.answered.iter().filter(|it| during.contains(&it.0));
            (second as f64, count.count() as f64)
        });
        let rate: Vec<(f64, f64)> = rate.collect();
        let top = rate.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let [begun, ended] = self.outage;
        LineChart {
            title: format!("YCSB 85/15, 18 clients, 3 replicas: {what}"),
            x: "seconds".to_owned(),
            y: "statements per second".to_owned(),
            x_scale: AxisScale::Linear,
            series: vec![
                ("answered".to_owned(), rate),
                (
                    "the outage".to_owned(),
                    vec![(begun, 0.0), (begun, top), (ended, top), (ended, 0.0)],
                ),
            ],
        }
    }
}

fn one(value: f64) -> Measurements {
    let mut figures = Measurements::default();
    figures.push(value);
    figures
}
