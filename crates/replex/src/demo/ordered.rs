//! The chapter about a thin index: it is made while the table is written to, its ranges split, and
//! it answers ranges and orders.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{IfMissing, Row};
use placement::{RangeStart, ThinIndex, Value, ascending, decode_sorted};
use protocol::configuration::{Configuration, PlacedTable};
use replex::failure::CommandFailure;

use super::chapters::positions;
use super::store::{Flights, PRIMARY};
use crate::output::{ShortDuration, count};
use crate::story::Story;

/// Entries with which a range is split, so that a month of flights has several ranges.
pub const RANGE_ENTRIES: &str = "5000";
const INDEX: &str = "by_departure";
/// The ranges that the chapter waits for, and how long.
const RANGES: usize = 4;
const SPLIT_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Different hours of departure in the range that is read.
const HOURS: usize = 6;
/// Flights that are read from the end of the index.
const LAST: u64 = 3;
const COLUMNS_SHOWN: &[&str] = &["time_hour", "carrier", "flight", "origin", "dest"];

/// Makes the index while flights are written, waits until it has split, reads by it, and drops it.
pub async fn ordered(
    story: &mut Story,
    flights: &Flights,
    rows: &[Vec<Value>],
) -> Result<(), CommandFailure> {
    story.chapter("A thin index comes to the full table, and splits while flights change");
    let columns = positions(flights.schema(), COLUMNS_SHOWN);
    let (time, included) = columns.split_first().expect("there are columns");
    story.say(story.screen.dim(format!(
        "CREATE INDEX {INDEX} ON flights (time_hour) INCLUDE ({});",
        COLUMNS_SHOWN[1..].join(", ")
    )));
    let over = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(flights.clone(), rows.to_vec(), Arc::clone(&over)));
    let made = make_and_split(flights, (*time, included)).await;
    over.store(true, Ordering::Relaxed);
    let written = writer.await.map_err(CommandFailure::at("wait for writes"));
    let (writes, longest) = written??;
    let (ranges, took) = made?;
    show_ranges(story, flights, &ranges);
    story.claim(
        format!(
            "{} ranges after {}, and {} updates meanwhile, the longest of {}",
            ranges.len(),
            ShortDuration(took),
            count(writes),
            ShortDuration(longest)
        ),
        ranges.len() >= RANGES && writes > 0,
    );
    read(story, flights, (rows, *time)).await?;
    let client = flights.client();
    let dropped = client.drop_copy(PRIMARY, INDEX, IfMissing::Fail).await;
    dropped.map_err(CommandFailure::at("drop an index"))
}

/// Makes the index, and waits until it has several ranges. Returns them with the time for both.
async fn make_and_split(
    flights: &Flights,
    (time, included): (usize, &[usize]),
) -> Result<(Vec<RangeStart>, Duration), CommandFailure> {
    let started = Instant::now();
    let mut wanted = flights.schema().clone();
    wanted.thin.push(ThinIndex {
        name: INDEX.to_owned(),
        columns: ascending(&[time]),
        included: included.to_vec(),
        by_range: true,
        unique: false,
        copies: 1,
    });
    let made = flights.client().add_copy(wanted, &|_| {}).await;
    made.map_err(CommandFailure::at("make an index"))?;
    loop {
        flights.refresh().await?;
        let configuration = flights.client().configuration();
        let index = placed(&configuration);
        let ranges = index.and_then(|(table, index)| table.layout.replexes[index].ranges.as_ref());
        let starts = ranges.map(|ranges| ranges.starts.clone());
        let starts = starts.unwrap_or_default();
        if starts.len() >= RANGES || started.elapsed() > SPLIT_WITHIN {
            return Ok((starts, started.elapsed()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the table and the number of its index; none once the index is gone.
fn placed(configuration: &Configuration) -> Option<(&PlacedTable, usize)> {
    let table = configuration.table_named(PRIMARY)?;
    let mut replexes = table.layout.replexes.iter();
    Some((table, replexes.position(|it| it.name == INDEX)?))
}

/// Writes the tail numbers of flights again and again. Returns the number of updates, and the
/// longest one.
async fn write(
    flights: Flights,
    rows: Vec<Vec<Value>>,
    over: Arc<AtomicBool>,
) -> Result<(u64, Duration), CommandFailure> {
    let tail = positions(flights.schema(), &["tailnum"])[0];
    let (mut writes, mut longest) = (0, Duration::ZERO);
    // The first rows have been changed by the previous chapters.
    let known = rows.iter().rev().filter(|row| !row[tail].is_null());
    for row in known.cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let started = Instant::now();
        flights.set_tail(&row[0], &row[tail]).await?;
        longest = longest.max(started.elapsed());
        writes += 1;
    }
    Ok((writes, longest))
}

fn show_ranges(story: &Story, flights: &Flights, ranges: &[RangeStart]) {
    let configuration = flights.client().configuration();
    let Some((table, index)) = placed(&configuration) else {
        return;
    };
    let order = table.layout.order(index);
    let types: Vec<_> = order
        .iter()
        .map(|it| table.schema.columns[it.column].column_type)
        .collect();
    let rows = ranges.iter().map(|range| {
        let key = decode_sorted(&order, &types, &range.key);
        let first = key.ok().and_then(|values| values.first().cloned());
        let place = table.placement[index].get(range.partition as usize);
        vec![
            first.map_or("the first".to_owned(), |value| value.to_string()),
            place.map_or(String::new(), |place| place.core.server.0.to_string()),
        ]
    });
    story.show(
        &["range from departure", "server"],
        &rows.collect::<Vec<_>>(),
    );
}

/// Reads a range and the end of the index, and compares them with the loaded flights.
async fn read(
    story: &mut Story,
    flights: &Flights,
    (rows, time): (&[Vec<Value>], usize),
) -> Result<(), CommandFailure> {
    let mut hours: Vec<&Value> = rows.iter().map(|row| &row[time]).collect();
    hours.sort_unstable_by_key(|hour| hour.to_string());
    hours.dedup();
    let from = hours.len() / 2;
    let to = (from + HOURS).min(hours.len() - 1);
    let (from, to) = ([hours[from].clone()], [hours[to].clone()]);
    let what = || CommandFailure::at("read flights by departure");
    let range = flights.range(INDEX, Bound::Included(&from), Bound::Excluded(&to));
    let found = range.await?.await.map_err(what())?;
    let is_within = |row: &&Vec<Value>| {
        let time = row[time].to_string();
        time >= from[0].to_string() && time < to[0].to_string()
    };
    let mut loaded: Vec<String> = rows.iter().filter(is_within).map(|row| id(row)).collect();
    let mut ids: Vec<String> = found.iter().map(|row| id(&row.values)).collect();
    loaded.sort_unstable();
    ids.sort_unstable();
    let times: Vec<String> = found
        .iter()
        .map(|row| row.values[time].to_string())
        .collect();
    story.say(format!(
        "SELECT … WHERE time_hour >= '{}' AND time_hour < '{}': {} flights",
        from[0],
        to[0],
        count(found.len() as u64)
    ));
    story.claim(
        "The range has exactly the loaded flights of these hours, in their order",
        !ids.is_empty() && ids == loaded && times.is_sorted(),
    );
    let range = flights.range(INDEX, Bound::Unbounded, Bound::Unbounded);
    let last = range
        .await?
        .descending()
        .limit(LAST)
        .await
        .map_err(what())?;
    story.say(format!("SELECT … ORDER BY time_hour DESC LIMIT {LAST}"));
    show_flights(story, flights, &last);
    let newest = hours.last().map(|hour| hour.to_string());
    story.claim(
        "The end of the index has the last departures",
        last.first().map(|row| row.values[time].to_string()) == newest,
    );
    Ok(())
}

fn id(row: &[Value]) -> String {
    row[0].to_string()
}

fn show_flights(story: &Story, flights: &Flights, rows: &[Row]) {
    let columns = positions(flights.schema(), COLUMNS_SHOWN);
    let shown = rows.iter().map(|row| {
        let values = columns.iter().map(|at| row.values[*at].to_string());
        values.collect()
    });
    story.show(COLUMNS_SHOWN, &shown.collect::<Vec<Vec<String>>>());
}
