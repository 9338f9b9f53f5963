//! Measures how quickly a replica catches up, with several connections and with one (H5).
//!
//! The baseline is serial replay: one connection, and a separate transaction for each commit, as in
//! the paper. The proxy's default differs in two ways: it has more connections, and it executes
//! waiting commits in groups. Each difference is also measured alone.
//!
//! The replica misses the load in two ways. In the first, the proxy is stopped. Then the primary's
//! slot delivers the load later, and the primary decodes its WAL during the replay. In the second,
//! the replica is stopped. Then the transactions buffer has the load.
//!
//! The load goes to the primary directly. It consists of TPC-C's two transactions that write most,
//! New-Order and Payment, in the standard proportion (45 to 43), over ten warehouses. Orders have
//! ten lines, which is TPC-C's mean, customers are found by number, and reads without effect on
//! later statements are left out. The measured time is the time between the first and the last of
//! the missed commits at the replica, by the replica's clock.
//!
//! The experiment also measures the time that a replica needs for one statement that changes many
//! rows, and compares it with the statement's time at the primary.

use std::io;
use std::time::Instant;

use super::databases::{DatabaseSite, LOOK_AGAIN_AFTER, PATIENCE, ask, await_row, connect};
use super::pgbench::{PgbenchLoad, Script};
use super::tpcc;
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::plot::{AxisScale, LineChart};
use crate::report::FigureReport;

/// The measured ways to replay. The first is serial replay.
const WAYS: [ReplayMode; 6] = [
    ReplayMode::new(1, Groups::None),
    ReplayMode::new(1, Groups::Default),
    ReplayMode::new(2, Groups::Default),
    ReplayMode::new(4, Groups::Default),
    ReplayMode::new(8, Groups::Default),
    ReplayMode::new(4, Groups::None),
];
/// The proxy's default.
const DEFAULT: ReplayMode = WAYS[3];
/// The store of the commits that a replica has missed, until the replica catches up.
const KEEPERS: [Keeper; 2] = [Keeper::Slot, Keeper::Buffer];
const CLIENTS: usize = 8;
/// The tables that mark each run, and that single statements change.
const RUNS: &str = "
CREATE TABLE run (number bigint, what text, PRIMARY KEY (number, what));
CREATE TABLE many (id int PRIMARY KEY, kind int, word text, changed timestamptz)";
/// Rows that one statement changes.
const MANY: u64 = 50_000;

/// The way in which a replica replays commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplayMode {
    connections: usize,
    groups: Groups,
}

/// Whether commits that wait are executed in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Groups {
    /// Each commit is a transaction of its own.
    None,
    /// Commits run in groups, of the size that the proxy uses by default.
    Default,
}

impl Groups {
    fn name(self) -> &'static str {
        match self {
            Groups::None => "each commit for itself",
            Groups::Default => "in groups",
        }
    }
}

impl ReplayMode {
    const fn new(connections: usize, groups: Groups) -> ReplayMode {
        ReplayMode {
            connections,
            groups,
        }
    }

    fn name(self) -> String {
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            count => format!("{count} connections"),
        };
        format!("{connections}, {}", self.groups.name())
    }

    /// Returns the options of the proxy for this way to replay.
    fn options(self) -> Vec<String> {
        let connections = self.connections.to_string();
        let mut options = vec!["--replay-connections".to_owned(), connections];
        if self.groups == Groups::None {
            options.extend(["--replay-group", "1"].map(str::to_owned));
        }
        options
    }
}

/// The keeper of the commits that a replica has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    /// The primary's slot, while the proxy is stopped.
    Slot,
    /// The transactions buffer, while the replica is offline.
    Buffer,
}

impl Keeper {
    fn name(self) -> &'static str {
        match self {
            Keeper::Slot => "slot",
            Keeper::Buffer => "buffer",
        }
    }
}

/// Returns the statements that change many rows of the table `many`, in the order of execution.
fn statements() -> [(&'static str, String); 3] {
    let insert = format!(
        "INSERT INTO many SELECT n, n % 100, 'row ' || n, now() FROM generate_series(1, {MANY}) n"
    );
    let update = "UPDATE many SET kind = kind + 1, changed = now()";
    [
        ("INSERT", insert),
        ("UPDATE", update.to_owned()),
        ("DELETE", "DELETE FROM many".to_owned()),
    ]
}

/// Runs `replex bench proxy replay`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let base = options.base();
    std::fs::create_dir_all(&base)?;
    let settings = ["track_commit_timestamp=on"];
    let schema = format!("{RUNS}; {}", tpcc::schema());
    let mut site = DatabaseSite::start(&base, &schema, 1, &settings).await?;
    let mut measured = KEEPERS.map(|_| WAYS.map(|_| Measurements::default()));
    let mut run = 0;
    for round in 1..=options.pairs {
        options.say_round(round, "replay");
        for (keeper, figures) in KEEPERS.into_iter().zip(&mut measured) {
            for (way, figures) in WAYS.into_iter().zip(figures) {
                run += 1;
                let missed = Missed { keeper, run, way };
                figures.push(missed.rate(&mut site, options).await?);
            }
        }
    }
    let many = many_rows(&site, options).await?;
    let mut report = FigureReport::default();
    for (keeper, measured) in KEEPERS.into_iter().zip(&measured) {
        let serial = ("serial", &measured[0]);
        for (way, figures) in WAYS.into_iter().zip(measured) {
            let what = format!("replay from the {}, {}", keeper.name(), way.name());
            let own = (figures, "1/s");
            match way {
                way if way == WAYS[0] => report.plain("", &what, figures, "1/s"),
                DEFAULT => report.pair(("H5", "≥ 1.7 ×"), &what, own, serial),
                _ => report.pair(("", ""), &what, own, serial),
            }
        }
    }
    for ((name, _), [primary, replica]) in statements().into_iter().zip(&many) {
        let what = format!("{name} of {MANY} rows: from its answer until the replica has it");
        report.pair(
            ("", ""),
            &what,
            (replica, "s"),
            ("the statement itself", primary),
        );
    }
    let series = KEEPERS
        .into_iter()
        .zip(&measured)
        .flat_map(|(keeper, measured)| {
            [Groups::Default, Groups::None].map(|groups| {
                let ways = WAYS.into_iter().zip(measured);
                let points = ways.filter(|(way, _)| way.groups == groups);
                let points =
                    points.map(|(way, figures)| (way.connections as f64, figures.median()));
                let name = format!("from the {}, {}", keeper.name(), groups.name());
                (name, points.collect())
            })
        });
    let plot = LineChart {
        title: "New-Order and Payment of TPC-C, replayed at one replica".to_owned(),
        x: "connections".to_owned(),
        y: "transactions per second".to_owned(),
        x_scale: AxisScale::Linear,
        series: series.collect(),
    };
    options.draw_lines("proxy-replay", &plot)?;
    Ok(report)
}

/// Returns two times in seconds for each statement that changes many rows: until the primary
/// answers, and from then until the replica has the change.
async fn many_rows(
    site: &DatabaseSite,
    options: &MeasureOptions,
) -> io::Result<[[Measurements; 2]; 3]> {
    let primary = connect(site.primary.socket()).await?;
    let replica = connect(site.replicas[0].socket()).await?;
    let mut measured = statements().map(|_| [Measurements::default(), Measurements::default()]);
    for run in 0..options.pairs {
        for (number, (_, statement)) in statements().into_iter().enumerate() {
            let name = format!("many {run}");
            let marked =
                format!("BEGIN; {statement}; INSERT INTO run VALUES ({number}, '{name}'); COMMIT");
            let begun = Instant::now();
            ask(&primary, &marked).await?;
            measured[number][0].push(begun.elapsed().as_secs_f64());
            let answered = Instant::now();
            let there = format!("SELECT 1 FROM run WHERE number = {number} AND what = '{name}'");
            await_row(&replica, &there).await?;
            measured[number][1].push(answered.elapsed().as_secs_f64());
        }
    }
    Ok(measured)
}

/// A load that the replica misses.
struct Missed {
    keeper: Keeper,
    run: u64,
    /// The way in which the replica catches up.
    way: ReplayMode,
}

impl Missed {
    /// Runs the load without the replica, and returns the rate at which the replica catches up, in
    /// transactions a second.
    async fn rate(&self, site: &mut DatabaseSite, options: &MeasureOptions) -> io::Result<f64> {
        let output = self.way.options();
        let replay: Vec<&str> = output.iter().map(String::as_str).collect();
        let folder = site.buffer_folder();
        let buffer = ["--buffer", &*folder.to_string_lossy()];
        let with_buffer = [&replay[..], &buffer].concat();
        site.stop_proxy()?;
        let operations = match self.keeper {
            Keeper::Slot => {
                // A proxy with a buffer may have confirmed more at the end than the replica has.
                while !has_what_is_confirmed(site).await? {
                    site.start_proxy(&with_buffer).await?;
                    await_confirmed(site).await?;
                    site.stop_proxy()?;
                }
                let operations = self.load(site, options).await?;
                let slot_only = [&replay[..], &["--buffer", "none"]].concat();
                site.start_proxy(&slot_only).await?;
                operations
            }
            Keeper::Buffer => {
                site.start_proxy(&with_buffer).await?;
                site.replicas[0].kill();
                let operations = self.load(site, options).await?;
                is_kept(site).await?;
                site.replicas[0].start_again()?;
                operations
            }
        };
        let run = self.run;
        let took = format!(
            "SELECT extract(epoch FROM pg_xact_commit_timestamp(ended.xmin)
                                     - pg_xact_commit_timestamp(begun.xmin))
               FROM run begun, run ended
              WHERE begun.number = {run} AND begun.what = 'begun'
                AND ended.number = {run} AND ended.what = 'ended'"
        );
        let replica = connect(site.replicas[0].socket()).await?;
        let seconds = await_row(&replica, &took).await?;
        // The next proxy may have no buffer: then all that the slot has forgotten must be there.
        await_confirmed(site).await?;
        let seconds: f64 = seconds.parse().map_err(io::Error::other)?;
        Ok(operations as f64 / seconds)
    }

    /// Runs the load at the primary. Returns the number of its transactions.
    async fn load(&self, site: &DatabaseSite, options: &MeasureOptions) -> io::Result<u64> {
        let run = self.run;
        let primary = connect(site.primary.socket()).await?;
        let note = |what| format!("INSERT INTO run VALUES ({run}, '{what}')");
        ask(&primary, &note("begun")).await?;
        let sample = load(options).run(site.primary.socket(), &[]).await?;
        ask(&primary, &note("ended")).await?;
        Ok(sample.operations)
    }
}

/// Returns the condition that the replica has all that the slot has forgotten by now.
async fn confirmed(site: &DatabaseSite) -> io::Result<String> {
    let primary = connect(site.primary.socket()).await?;
    let confirmed = "SELECT max(confirmed_flush_lsn - '0/0') FROM pg_replication_slots";
    let confirmed = ask(&primary, confirmed).await?.unwrap_or_default();
    Ok(format!(
        "SELECT 1 FROM hihooi.applied HAVING max(tsid) >= {confirmed}"
    ))
}

async fn await_confirmed(site: &DatabaseSite) -> io::Result<()> {
    let replica = connect(site.replicas[0].socket()).await?;
    await_row(&replica, &confirmed(site).await?).await.map(drop)
}

async fn has_what_is_confirmed(site: &DatabaseSite) -> io::Result<bool> {
    let replica = connect(site.replicas[0].socket()).await?;
    Ok(ask(&replica, &confirmed(site).await?).await?.is_some())
}

/// Waits until the transactions buffer has every commit of the primary.
async fn is_kept(site: &DatabaseSite) -> io::Result<()> {
    let primary = connect(site.primary.socket()).await?;
    let end = ask(&primary, "SELECT pg_current_wal_insert_lsn()").await?;
    let end = end.unwrap_or_default();
    let begun = Instant::now();
    loop {
        let standing = site.ask("SHOW BUFFER").await?;
        let until = &standing[0][2];
        let has_all = format!("SELECT 1 WHERE nullif('{until}', '')::pg_lsn >= '{end}'");
        if ask(&primary, &has_all).await?.is_some() {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            let text = format!("the buffer does not get everything: {standing:?}");
            return Err(io::Error::other(text));
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
}

fn load(options: &MeasureOptions) -> PgbenchLoad {
    let mut load = PgbenchLoad::of(
        &tpcc::new_order(tpcc::TpccReads::None),
        0,
        CLIENTS,
        options.span(),
    );
    load.scripts[0].weight = 45;
    load.scripts.push(Script {
        text: tpcc::payment(),
        weight: 43,
    });
    load
}
