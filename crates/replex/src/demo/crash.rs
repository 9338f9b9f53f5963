//! The chapters of the demo in which a server is killed, and in which the demo checks that no row
//! was lost.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use placement::{Value, encode_row};
use replex::cluster::Cluster;
use replex::failure::CommandFailure;
use replex::inspect::Inspector;
use replex::say;

use super::chapters::{condition, positions};
use super::load::{self, LoadProgress};
use super::store::{Flights, PRIMARY};
use crate::admin::check;
use crate::output::{ShortDuration, count};
use crate::story::Story;

/// Which server is killed: the one with the copy by tail number.
const VICTIM: usize = 1;
/// How far the load must be before it is, in hundredths.
const KILL_AT: u64 = 30;
/// Between two looks at how far the load is.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// The columns of the copy by route.
const ROUTE: &[&str] = &["origin", "dest"];
/// Time for every copy to be read.
const INSPECT_WITHIN: Duration = Duration::from_secs(60);

/// Kills a server in mid-load and starts it again; gives the rows that were acknowledged.
pub async fn crash(
    story: &mut Story,
    cluster: &mut Cluster,
    flights: &Flights,
    early: &[Vec<Value>],
    rows: &[Vec<Value>],
) -> Result<Vec<Vec<Value>>, CommandFailure> {
    story.chapter("A server is killed with SIGKILL while the rest is being loaded");
    let bar = load::bar(rows.len());
    let progress = LoadProgress::default();
    let work = load::load(
        flights.clone(),
        rows.to_vec(),
        bar.clone(),
        progress.clone(),
    );
    let mut load = load::RunningLoad(tokio::spawn(work));
    let until = rows.len() as u64 * KILL_AT / 100;
    while progress.acknowledged() < until && !load.0.is_finished() {
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
    let pid = cluster.server(VICTIM).id();
    let failed = "kill a server";
    cluster
        .kill(VICTIM)
        .await
        .map_err(CommandFailure::at(failed))?;
    let killed = Instant::now();
    let acknowledged = progress.acknowledged();
    bar.suspend(|| {
        story.say(format!(
            "kill -9 {pid}   server {}, after {} of {} rows were acknowledged",
            VICTIM + 1,
            count(acknowledged),
            count(rows.len() as u64)
        ));
    });
    let reads_go_on =
        lookups_without(story, flights, quiet_row(flights, early, rows), &bar).await?;
    cluster
        .restart(VICTIM)
        .await
        .map_err(CommandFailure::at("start the server again"))?;
    let offline = killed.elapsed();
    bar.suspend(|| {
        story.say(format!(
            "started again on its old folder; it serves after {}, and the load goes on",
            ShortDuration(offline)
        ));
    });
    let loaded = (&mut load.0).await;
    let loaded = loaded.map_err(CommandFailure::at("wait for the load"))??;
    story.say(format!(
        "{} rows in {}; the longest pause between two acknowledgements was {}",
        count(loaded.rows.len() as u64),
        ShortDuration(loaded.elapsed),
        ShortDuration(loaded.longest_gap)
    ));
    story.claim(
        "Lookups by id and by route were answered while the server was gone",
        reads_go_on,
    );
    story.claim(
        "The kill came in mid-load, and every insert was acknowledged in the end",
        acknowledged < rows.len() as u64 && loaded.rows.len() == rows.len(),
    );
    Ok(loaded.rows)
}

/// Returns a flight whose route is not among those being loaded: a lookup of a key with an insert
/// in progress waits for its outcome, as it must to be linearisable.
fn quiet_row<'a>(
    flights: &Flights,
    early: &'a [Vec<Value>],
    late: &[Vec<Value>],
) -> Option<&'a [Value]> {
    let columns = positions(flights.schema(), ROUTE);
    let route = |row: &[Value]| [row[columns[0]].to_string(), row[columns[1]].to_string()];
    let busy: HashSet<[String; 2]> = late.iter().map(|row| route(row)).collect();
    let found = early.iter().find(|row| !busy.contains(&route(row)));
    found.map(Vec::as_slice)
}

/// Looks a flight up by the keys whose copies are still there; whether it was found by both.
async fn lookups_without(
    story: &Story,
    flights: &Flights,
    row: Option<&[Value]>,
    bar: &ProgressBar,
) -> Result<bool, CommandFailure> {
    let Some(row) = row else {
        return Ok(false);
    };
    let mut found = true;
    for (index, names) in [(PRIMARY, &["id"][..]), ("by_route", ROUTE)] {
        let columns = positions(flights.schema(), names);
        let key: Vec<Value> = columns.iter().map(|at| row[*at].clone()).collect();
        let started = Instant::now();
        let rows = flights.lookup(index, &key).await?;
        let took = started.elapsed();
        found &= rows.iter().any(|it| it[0] == row[0]);
        bar.suspend(|| {
            story.say(format!(
                "meanwhile, {}: {} found in {}",
                condition(names, &key),
                count(rows.len() as u64),
                ShortDuration(took)
            ));
        });
    }
    Ok(found)
}

/// Reads every copy from the servers that hold it, and compares.
pub async fn compare(
    story: &mut Story,
    cluster: &Cluster,
    flights: &Flights,
    expected: &[Vec<Value>],
) -> Result<(), CommandFailure> {
    let failed = |error| CommandFailure::Failed(format!("cannot read the copies: {error}"));
    let coordinators = [cluster.coordinator_address().to_owned()];
    let mut inspector = Inspector::new(&coordinators, INSPECT_WITHIN)
        .await
        .map_err(failed)?;
    let table = &flights.schema().name;
    let copies = inspector.sums(table).await.map_err(failed)?;
    for line in check::copies_table(story.screen, &copies).lines() {
        say!(" {line}");
    }
    let equal = replex::inspect::are_equal(&copies);
    story.claim("Count and checksum are equal in all copies", equal);
    let columns = &flights.schema().columns;
    let mut wanted = HashSet::with_capacity(expected.len());
    for row in expected {
        let bytes = encode_row(columns, row).map_err(CommandFailure::at("encode a flight"))?;
        wanted.insert(bytes);
    }
    let mut missing = 0;
    let mut unexpected = 0;
    for replex in 0..copies.len() {
        let rows = inspector.rows(table, replex).await.map_err(failed)?;
        missing += wanted.iter().filter(|row| !rows.contains_key(*row)).count();
        unexpected += rows.keys().filter(|row| !wanted.contains(*row)).count();
    }
    story.claim(
        format!(
            "Each of the {} acknowledged rows is in each copy, column by column, and no other row",
            count(expected.len() as u64)
        ),
        missing == 0 && unexpected == 0,
    );
    Ok(())
}
