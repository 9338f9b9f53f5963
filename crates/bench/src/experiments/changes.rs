//! Measures the effect of a change of one table on writes of another table: the longest write of
//! each table, and the decrease of the write rate. Both tables are on the same three servers, so
//! the effect is as large as it can be.
//!
//! Left out: a change while a server is lost, and the cost of a fill for readers.

use std::io;
use std::ops::Range;
use std::time::Duration;

use client::{Client, IfMissing, Table};
use placement::{Durability, Index};

use crate::distribution::BenchRandom;
use crate::measure::{Sample, Series, run as measure};
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, HotWrite, RowShape, failed};

/// Writers of each table.
const WRITERS: u64 = 4;
/// Rows of each table: so few that an index is made within a round.
const ROWS: u64 = 10_000;
/// Tables that are created in all rounds together.
const TABLES: u32 = 500;
const CHANGED: &str = "changed";
const STEADY: &str = "steady";
const INDEX: &str = "by_field2";

/// Runs `replex bench changes`.
///
/// # Errors
/// A process does not start, an operation fails.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: ROWS,
        field_bytes: 10,
    };
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let clients = store::clients(&cluster, 3).await?;
    for name in [STEADY, CHANGED] {
        let table = store::create(&clients[0], name, Durability::Replicated).await?;
        store::load(&table, shape).await?;
    }
    let steady = clients[1].table(STEADY).await.map_err(failed)?;
    let changed = clients[2].table(CHANGED).await.map_err(failed)?;
    let (ids, span) = (cluster.server_ids(), options.span());
    let mut report = FigureReport::default();

    let (mut quiet, mut beside) = (TwoTables::default(), TwoTables::default());
    for _ in 0..options.pairs {
        let both = written(&steady, &changed, span, &ids);
        quiet.push(both.await?);
        let both = written(&steady, &changed, span, &ids);
        let (both, done) = tokio::join!(both, index(&clients[0]));
        done?;
        beside.push(both?);
        let dropped = clients[0].drop_copy(CHANGED, INDEX, IfMissing::Fail);
        dropped.await.map_err(failed)?;
    }
    report.pair(
        ("", "≤ 5 ms"),
        "longest write of another table while an index is added",
        (&longest_ms(&beside.steady), "ms"),
        ("without", &longest_ms(&quiet.steady)),
    );
    report.pair(
        ("", "≤ 50 ms"),
        "longest write of the table that gets the index",
        (&longest_ms(&beside.changed), "ms"),
        ("without", &longest_ms(&quiet.changed)),
    );

    let (mut alone, mut creating) = (Series::default(), Series::default());
    let each = TABLES.div_ceil(options.pairs.max(1));
    for round in 0..options.pairs {
        alone.push(measure(writers(&steady), span, &ids).await?);
        let many = create_tables(&clients[0], round * each..(round + 1) * each, span);
        let (sample, done) = tokio::join!(measure(writers(&steady), span, &ids), many);
        done?;
        creating.push(sample?);
    }
    report.pair(
        ("", "≥ 0.95 ×"),
        "writes of a table while 500 others are created: rate",
        (&creating.rate(), "1/s"),
        ("without", &alone.rate()),
    );
    Ok(report)
}

/// Runs of both tables' writers side by side.
#[derive(Debug, Default)]
struct TwoTables {
    steady: Vec<Sample>,
    changed: Vec<Sample>,
}

impl TwoTables {
    fn push(&mut self, (steady, changed): (Sample, Sample)) {
        self.steady.push(steady);
        self.changed.push(changed);
    }
}

/// Writes both tables for a while.
async fn written(
    steady: &Table,
    changed: &Table,
    span: Duration,
    ids: &[u32],
) -> io::Result<(Sample, Sample)> {
    let (one, other) = tokio::join!(
        measure(writers(steady), span, ids),
        measure(writers(changed), span, ids)
    );
    Ok((one?, other?))
}

fn writers(table: &Table) -> Vec<HotWrite> {
    let writers = (0..WRITERS).map(|number| HotWrite {
        table: table.clone(),
        number,
        field_bytes: 10,
        random: BenchRandom::new(number),
    });
    writers.collect()
}

/// Adds an index to the changed table, and waits until it serves.
async fn index(client: &Client) -> io::Result<()> {
    let table = client.table(CHANGED).await.map_err(failed)?;
    let mut schema = table.schema().clone();
    let column = table.column("field2").map_err(failed)?;
    schema.indexes.push(Index {
        name: INDEX.into(),
        columns: vec![usize::from(column)],
        constraint: None,
        partition_columns: None,
    });
    client.add_copy(schema, &|_| {}).await.map_err(failed)
}

/// Creates tables of these numbers, spread over the span.
async fn create_tables(client: &Client, numbers: Range<u32>, span: Duration) -> io::Result<()> {
    let pause = span / (numbers.end - numbers.start).max(1);
    let mut due = tokio::time::Instant::now();
    for number in numbers {
        store::create_one_of_many(client, number).await?;
        due += pause;
        tokio::time::sleep_until(due).await;
    }
    Ok(())
}

/// Returns the longest operation of each run, in milliseconds.
fn longest_ms(samples: &[Sample]) -> Measurements {
    let mut longest = Measurements::default();
    for sample in samples {
        longest.push(sample.latencies.percentile(1.0) / 1000.0);
    }
    longest
}
