//! The chapters of the demo without failures: the cluster, the table, the load, lookups, and a
//! move.

use std::time::Instant;

use placement::{Schema, TableReport, Value};
use replex::cluster::Cluster;
use replex::failure::CommandFailure;

use super::load::{self, LoadProgress};
use super::percentile_of;
use super::store::{Flights, PRIMARY};
use crate::flights::CREATE_TABLE;
use crate::output::{ShortDuration, count};
use crate::story::Story;

/// Lookups that a latency is taken from.
const SAMPLES: usize = 500;
/// Rows of a lookup that are shown.
const ROWS_SHOWN: usize = 3;
/// Columns of a flight that are shown.
const COLUMNS_SHOWN: &[&str] = &[
    "id", "month", "day", "dep_time", "carrier", "flight", "tailnum", "origin", "dest",
];

/// Shows the processes.
pub async fn cluster(story: &mut Story, cluster: &Cluster) -> Result<(), CommandFailure> {
    story.chapter("A cluster of real processes on this machine");
    let configuration = cluster.configuration().await;
    let configuration = configuration.map_err(CommandFailure::at("ask the coordinator"))?;
    let coordinator = cluster.coordinator(0);
    let mut rows = vec![vec![
        coordinator.name().to_owned(),
        coordinator.id().to_string(),
        cluster.coordinator_address().to_owned(),
        "knows servers, tables and placements".to_owned(),
    ]];
    for (position, server) in configuration.servers.iter().enumerate() {
        let process = cluster.server(position);
        rows.push(vec![
            process.name().to_owned(),
            process.id().to_string(),
            server.cores.join(", "),
            "holds rows".to_owned(),
        ]);
    }
    story.show(&["process", "#pid", "address", "what it does"], &rows);
    story.say(format!("data in {}", cluster.folder().display()));
    Ok(())
}

/// Creates and shows the table and its copies.
pub fn table(story: &mut Story, flights: &Flights) {
    story.chapter("A table whose three copies are sorted and partitioned by three keys");
    for line in CREATE_TABLE.lines() {
        story.say(story.screen.dim(line));
    }
    let report = flights.report();
    let rows: Vec<Vec<String>> = report
        .replexes
        .iter()
        .map(|replex| {
            let servers: Vec<String> = replex.servers.iter().map(u32::to_string).collect();
            vec![
                replex.name.clone(),
                replex.axes.join(" × "),
                replex.sorted_by.join(", "),
                servers.join(", "),
            ]
        })
        .collect();
    story.show(
        &["copy", "a row is in the partition", "sorted by", "server"],
        &rows,
    );
    survives(story, &report);
}

fn survives(story: &mut Story, report: &TableReport) {
    let asked = report.failures_tolerated;
    let holds = report.holds_now();
    story.claim(
        format!("Every possible row survives the loss of any {asked} servers"),
        holds,
    );
}

/// Loads rows.
pub async fn load(
    story: &mut Story,
    flights: &mut Flights,
    rows: &[Vec<Value>],
) -> Result<(), CommandFailure> {
    story.chapter("Flights out of New York are loaded, each row into every copy");
    let bar = load::bar(rows.len());
    let loaded = load::load(flights.clone(), rows.to_vec(), bar, LoadProgress::default()).await?;
    let per_second = loaded.rows.len() as f64 / loaded.elapsed.as_secs_f64();
    story.say(format!(
        "{} rows in {}: {} a second, each acknowledged when it was on the disk of all three",
        count(loaded.rows.len() as u64),
        ShortDuration(loaded.elapsed),
        count(per_second as u64)
    ));
    Ok(())
}

/// One kind of lookup: the key's columns, which it is an index on.
struct LookupKind {
    index: &'static str,
    columns: &'static [&'static str],
}

const KINDS: [LookupKind; 3] = [
    LookupKind {
        index: PRIMARY,
        columns: &["id"],
    },
    LookupKind {
        index: "by_tail",
        columns: &["tailnum"],
    },
    LookupKind {
        index: "by_route",
        columns: &["origin", "dest"],
    },
];

/// Lookups by each key.
pub async fn lookups(
    story: &mut Story,
    flights: &Flights,
    rows: &[Vec<Value>],
) -> Result<(), CommandFailure> {
    story.chapter("Each copy answers lookups by its own key, in one hop");
    let mut shown = Vec::new();
    let mut found_all = true;
    for kind in &KINDS {
        let columns = positions(flights.schema(), kind.columns);
        let key = |row: &[Value]| {
            columns
                .iter()
                .map(|at| row[*at].clone())
                .collect::<Vec<_>>()
        };
        let example = key(&rows[0]);
        let found = flights.lookup(kind.index, &example).await?;
        let loaded = rows.iter().filter(|row| key(row) == example).count();
        found_all &= found.len() == loaded;
        // Keys from all over the table, so that no answer repeats the previous one.
        let step = (rows.len() / SAMPLES).max(1);
        let mut times = Vec::with_capacity(SAMPLES);
        for row in rows.iter().step_by(step).take(SAMPLES) {
            let key = key(row);
            if key.iter().any(Value::is_null) {
                continue;
            }
            let started = Instant::now();
            let found = flights.lookup(kind.index, &key).await?;
            times.push(started.elapsed());
            found_all &= found.iter().any(|it| it[0] == row[0]);
        }
        shown.push(vec![
            condition(kind.columns, &example),
            kind.index.to_owned(),
            count(found.len() as u64),
            ShortDuration(percentile_of(&times, 0.5)).to_string(),
            ShortDuration(percentile_of(&times, 0.99)).to_string(),
        ]);
        example_rows(
            story,
            &condition(kind.columns, &example),
            flights.schema(),
            &found,
        );
    }
    story.show(
        &["lookup", "answered by copy", "#rows", "#p50", "#p99"],
        &shown,
    );
    story.claim(
        "Every lookup found exactly the flights that were loaded",
        found_all,
    );
    Ok(())
}

fn example_rows(story: &Story, title: &str, schema: &Schema, found: &[Vec<Value>]) {
    let columns = positions(schema, COLUMNS_SHOWN);
    let rows: Vec<Vec<String>> = found
        .iter()
        .take(ROWS_SHOWN)
        .map(|row| columns.iter().map(|at| row[*at].to_string()).collect())
        .collect();
    let more = found.len().saturating_sub(ROWS_SHOWN);
    story.say(format!("SELECT … WHERE {title}"));
    story.show(COLUMNS_SHOWN, &rows);
    if more > 0 {
        story.say(
            story
                .screen
                .dim(format!("… and {} more", count(more as u64))),
        );
    }
}

/// A tail number that was changed.
pub struct ChangedTailNumber {
    id: Value,
    column: usize,
    tail: Value,
}

impl ChangedTailNumber {
    /// Repeats the cluster's changes on the loaded rows.
    pub fn apply(&self, rows: &mut [Vec<Value>]) {
        for row in rows.iter_mut().filter(|row| row[0] == self.id) {
            row[self.column] = self.tail.clone();
        }
    }
}

/// Moves a row from one partition to another by changing its key.
pub async fn moving(
    story: &mut Story,
    flights: &mut Flights,
    rows: &[Vec<Value>],
) -> Result<ChangedTailNumber, CommandFailure> {
    story.chapter("A tail number changes, so the row moves to another partition of one copy");
    let column = positions(flights.schema(), &["tailnum"])[0];
    let (row, old) = only_flight(rows, column)?;
    let id = row[0].clone();
    let new = flights.tail_elsewhere(&old);
    let partition = |tail: &Value| format!("{} of by_tail", flights.tail_partition(tail));
    let before = counts(flights, [&old, &new]).await?;
    story.say(story.screen.dim(format!(
        "UPDATE flights SET tailnum = '{new}' WHERE id = {id};"
    )));
    let started = Instant::now();
    flights.set_tail(&id, &new).await?;
    let took = started.elapsed();
    let after = counts(flights, [&old, &new]).await?;
    let line = |tail: &Value, at: usize| {
        vec![
            format!("tailnum = '{tail}'"),
            partition(tail),
            before[at].to_string(),
            after[at].to_string(),
        ]
    };
    story.show(
        &["lookup", "partition", "#rows before", "#rows after"],
        &[line(&old, 0), line(&new, 1)],
    );
    story.claim(
        format!(
            "The old lookup is empty and the new one full, after one update of {}",
            ShortDuration(took)
        ),
        before == [1, 0] && after == [0, 1],
    );
    let by_id = flights.lookup(PRIMARY, std::slice::from_ref(&id)).await?;
    let agrees = by_id.len() == 1 && by_id[0][column] == new;
    story.claim("The copy by id shows the new tail number too", agrees);
    Ok(ChangedTailNumber {
        id,
        column,
        tail: new,
    })
}

/// Returns how many rows are found under each tail number.
async fn counts(flights: &Flights, tails: [&Value; 2]) -> Result<[usize; 2], CommandFailure> {
    let mut counts = [0; 2];
    for (count, tail) in counts.iter_mut().zip(tails) {
        let found = flights
            .lookup("by_tail", std::slice::from_ref(tail))
            .await?;
        *count = found.len();
    }
    Ok(counts)
}

/// Returns a flight whose plane flew only once, so that its lookup is empty once it has moved.
fn only_flight(rows: &[Vec<Value>], column: usize) -> Result<(&[Value], Value), CommandFailure> {
    let mut times: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for row in rows {
        *times.entry(row[column].to_string()).or_default() += 1;
    }
    let row = rows
        .iter()
        .find(|row| !row[column].is_null() && times[&row[column].to_string()] == 1)
        .ok_or_else(|| CommandFailure::Failed("no plane flew exactly once".to_owned()))?;
    Ok((row, row[column].clone()))
}

/// Returns positions of columns in the schema.
pub fn positions(schema: &Schema, names: &[&str]) -> Vec<usize> {
    let found = names.iter().map(|name| schema.column_index(name));
    found
        .map(|at| at.expect("the demo's own table has its own columns"))
        .collect()
}

/// Returns a predicate, as SQL writes it.
pub fn condition(columns: &[&str], key: &[Value]) -> String {
    let parts = columns
        .iter()
        .zip(key)
        .map(|(column, value)| format!("{column} = {}", sql::literal(value)));
    parts.collect::<Vec<_>>().join(" AND ")
}
