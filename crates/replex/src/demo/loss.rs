//! The chapter in which a server is lost for good. A hybrid keeps lookups cheap during the
//! recovery, writes continue, other servers rebuild the partitions, and no row is lost (Replex
//! sections 2.4, 3.1 and 5.2).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use placement::{Schema, Value};
use protocol::configuration::{Configuration, PartitionState, ServerState};
use protocol::identity::ServerId;
use replex::cluster::Cluster;
use replex::failure::CommandFailure;

use super::chapters::positions;
use super::crash::compare;
use super::load::{self, LoadProgress, LoadSummary};
use super::percentile_of;
use super::store::Flights;
use crate::output::{ShortDuration, count, plural};
use crate::story::Story;

/// Three copies: by id, by tail number, and a hybrid of both.
const CREATE_TABLE: &str = "\
CREATE TABLE legs (
  id BIGINT PRIMARY KEY, tailnum TEXT, origin TEXT NOT NULL, dest TEXT NOT NULL,
  INDEX by_tail (tailnum),
  INDEX shared USING hybrid (legs, by_tail) WITH (divisions = '3,4')
) WITH (partitions = 12, failures_tolerated = 2, durability = 'sync');";
const COLUMNS: &[&str] = &["id", "tailnum", "origin", "dest"];
const TAIL: usize = 1;
/// Servers that join before, so that some are left to rebuild.
const NEWCOMERS: usize = 3;
/// Rows that are there before the loss, and rows that are written after it.
const ROWS_BEFORE: usize = 6_000;
const ROWS_AFTER: usize = 3_000;
/// Tail numbers that are looked up at most.
const TAILS: usize = 200;
/// Partitions of a copy.
const PARTITIONS: u32 = 12;

/// Kills a server for good; `rows` are flights of a table with this schema.
pub async fn loss(
    story: &mut Story,
    cluster: &mut Cluster,
    schema: &Schema,
    rows: &[Vec<Value>],
) -> Result<(), CommandFailure> {
    story.chapter("A server is lost for good, and others take over its partitions");
    for _ in 0..NEWCOMERS {
        let joined = cluster.add_server().await;
        joined.map_err(CommandFailure::at("start a server"))?;
    }
    let serving = cluster.wait_until_serving().await;
    serving.map_err(CommandFailure::at("wait for the servers"))?;
    // The figures of lookups below are of places that stay.
    let what = "the new servers have got their share";
    let at_rest = cluster.wait_until(what, Configuration::is_at_rest).await;
    at_rest.map_err(CommandFailure::at("wait for moves to end"))?;
    story.say(format!(
        "{NEWCOMERS} servers more; {PARTITIONS} partitions of each copy:"
    ));
    for line in CREATE_TABLE.lines() {
        story.say(story.screen.dim(line));
    }
    let legs = Flights::create(cluster.coordinator_address(), CREATE_TABLE).await?;
    let columns = positions(schema, COLUMNS);
    let rows = rows.iter().take(ROWS_BEFORE + ROWS_AFTER);
    let rows = rows.map(|row| columns.iter().map(|at| row[*at].clone()).collect());
    let rows: Vec<Vec<Value>> = rows.collect();
    let (before, after) = rows.split_at(ROWS_BEFORE.min(rows.len()));
    let bar = load::bar(before.len());
    load::load(legs.clone(), before.to_vec(), bar, LoadProgress::default()).await?;

    let lost = legs.tail_server(&before[0][TAIL]);
    let lookups = Lookups::of(&legs, before, lost);
    let whole = lookups.run(&legs).await?;
    kill(story, cluster, &legs, lost).await?;
    // The first request to a server on behalf of another may be sent twice: only from then on does
    // it record changes.
    lookups.run(&legs).await?;
    let without = lookups.run(&legs).await?;
    show_lookups(story, &lookups, &whole, &without);
    let loaded = rebuild(story, cluster, &legs, after, lost).await?;
    story.claim(
        format!(
            "All {} inserts that were begun without it were acknowledged",
            count(after.len() as u64)
        ),
        loaded.rows.len() == after.len(),
    );
    let report = legs.report();
    let asked = report.failures_tolerated;
    story.claim(
        format!("Every possible row of it survives the loss of any {asked} servers again"),
        report.holds_now(),
    );
    compare(story, cluster, &legs, &rows).await?;
    let back = cluster.restart(lost.0 as usize - 1).await;
    back.map_err(CommandFailure::at("start the lost server again"))?;
    story.say(format!(
        "server {} comes back with its old folder, to hold nothing of that and to be there for the next loss",
        lost.0
    ));
    Ok(())
}

/// Kills the server, and waits until it is known to be gone.
async fn kill(
    story: &Story,
    cluster: &mut Cluster,
    legs: &Flights,
    lost: ServerId,
) -> Result<(), CommandFailure> {
    let position = lost.0 as usize - 1;
    let pid = cluster.server(position).id();
    let killed = cluster.kill(position).await;
    killed.map_err(CommandFailure::at("kill a server"))?;
    let started = Instant::now();
    let is_down = |configuration: &Configuration| {
        let server = configuration.server(lost);
        server.is_some_and(|server| server.state == ServerState::Down)
    };
    let known = cluster.wait_until("the server is known to be gone", is_down);
    known.await.map_err(CommandFailure::at("wait for that"))?;
    legs.refresh().await?;
    story.say(format!(
        "kill -9 {pid}   server {}, whose lease is over after {}",
        lost.0,
        ShortDuration(started.elapsed())
    ));
    Ok(())
}

/// Lookups by tail numbers whose partition one server holds.
struct Lookups {
    /// By tail number as text: the tail number, how many rows there are, and how many partitions a
    /// lookup visits once the server is lost.
    tails: BTreeMap<String, (Value, usize, u32)>,
}

/// The results of lookups.
struct LookupReport {
    found_all: bool,
    /// Reads that were sent on behalf of a lost partition.
    redirected: u64,
    p50: Duration,
}

impl Lookups {
    fn of(legs: &Flights, rows: &[Vec<Value>], lost: ServerId) -> Lookups {
        let mut tails = BTreeMap::new();
        let flown = rows.iter().map(|row| &row[TAIL]);
        for tail in flown.filter(|tail| !tail.is_null() && legs.tail_server(tail) == lost) {
            let predicted = legs.predicted(tail, lost).unwrap_or_default();
            let new = (tail.clone(), 0, predicted);
            let is_new = tails.len() < TAILS || tails.contains_key(&tail.to_string());
            if is_new {
                tails.entry(tail.to_string()).or_insert(new).1 += 1;
            }
        }
        Lookups { tails }
    }

    fn predicted(&self) -> u64 {
        self.tails
            .values()
            .map(|(_, _, visits)| u64::from(*visits))
            .sum()
    }

    async fn run(&self, legs: &Flights) -> Result<LookupReport, CommandFailure> {
        let before = legs.counter("reads_redirected").await?;
        let mut found_all = true;
        let mut times = Vec::new();
        for (tail, rows, _) in self.tails.values() {
            let started = Instant::now();
            let found = legs.lookup("by_tail", std::slice::from_ref(tail)).await?;
            times.push(started.elapsed());
            found_all &= found.len() == *rows;
        }
        Ok(LookupReport {
            found_all,
            redirected: legs.counter("reads_redirected").await? - before,
            p50: percentile_of(&times, 0.5),
        })
    }
}

fn show_lookups(
    story: &mut Story,
    lookups: &Lookups,
    whole: &LookupReport,
    without: &LookupReport,
) {
    let number = lookups.tails.len() as u64;
    let each = |reads: u64| format!("{:.2}", reads as f64 / number.max(1) as f64);
    let line = |when: &str, reads: String, p50| {
        vec![when.to_owned(), reads, ShortDuration(p50).to_string()]
    };
    story.show(
        &["lookup of its rows", "#partitions", "#p50"],
        &[
            line("before", each(number), whole.p50),
            line(
                "without it, by the hybrid",
                each(without.redirected),
                without.p50,
            ),
        ],
    );
    story.say(format!(
        "the grid of the hybrid predicts {}; without a hybrid it would be {PARTITIONS}",
        each(lookups.predicted())
    ));
    story.claim(
        "Lookups found every flight of the lost server, before and after",
        number > 0 && whole.found_all && without.found_all,
    );
    story.claim(
        "They visited exactly as many partitions as the grid of the hybrid predicts",
        whole.redirected == 0 && without.redirected == lookups.predicted(),
    );
}

/// Gives the server up, waits until others hold all that it held, and writes all the while.
async fn rebuild(
    story: &mut Story,
    cluster: &mut Cluster,
    legs: &Flights,
    rows: &[Vec<Value>],
    lost: ServerId,
) -> Result<LoadSummary, CommandFailure> {
    let filled_before = legs.counter("fill_rows").await?;
    let parts = cluster.configuration().await;
    let parts = missing(
        &parts.map_err(CommandFailure::at("ask the coordinator"))?,
        lost,
    );
    let progress = LoadProgress::default();
    let hidden = ProgressBar::hidden();
    let work = load::load(legs.clone(), rows.to_vec(), hidden, progress.clone());
    let mut load = load::RunningLoad(tokio::spawn(work));
    story.say(format!(
        "replex admin server remove {}   (automatic unless the coordinator has --replace-after never, as here)",
        lost.0
    ));
    let removed = Instant::now();
    legs.remove_server(lost).await?;
    let bar = load::bar_of(parts, "{human_pos}/{human_len} partitions");
    let is_whole = |configuration: &Configuration| {
        let left = missing(configuration, lost);
        bar.set_position(parts.saturating_sub(left));
        left == 0
    };
    let filled = cluster.wait_until("all is filled again", is_whole).await;
    filled.map_err(CommandFailure::at("wait for the rebuild"))?;
    bar.finish_and_clear();
    let (took, meanwhile) = (removed.elapsed(), progress.acknowledged());
    legs.refresh().await?;
    story.say(format!(
        "{} and {} are rebuilt after {}; {} inserts were acknowledged meanwhile",
        plural(parts, "partition"),
        plural(legs.counter("fill_rows").await? - filled_before, "row"),
        ShortDuration(took),
        count(meanwhile)
    ));
    let loaded = (&mut load.0).await;
    let loaded = loaded.map_err(CommandFailure::at("wait for the load"))??;
    story.say(format!(
        "all {} took {}; the longest pause between two acknowledgements was {}",
        count(loaded.rows.len() as u64),
        ShortDuration(loaded.elapsed),
        ShortDuration(loaded.longest_gap)
    ));
    Ok(loaded)
}

/// Returns partitions that the server still holds, or that are being filled.
fn missing(configuration: &Configuration, lost: ServerId) -> u64 {
    let places = configuration
        .tables
        .iter()
        .flat_map(|table| table.placement.iter().flatten());
    let missing = places
        .filter(|place| place.core.server == lost || place.state == PartitionState::Rebuilding);
    missing.count() as u64
}
