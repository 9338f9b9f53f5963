//! Measures the effect of a change of one table on writes of another table: the longest write of
//! each table while writes start at fixed times, and the decrease of the rate of writers that wait
//! for each write. Both tables are on the same three servers, so the effect is as large as it can
//! be.
//!
//! Left out: a change while a server is lost, and the cost of a fill for readers.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use client::{Client, IfMissing, Table};
use placement::{Durability, Index, ThinIndex, Value, ascending};
use tokio::task::LocalSet;

use crate::distribution::BenchRandom;
use crate::measure::{Series, run as measure};
use crate::open_loop;
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, FIELDS, HotWrite, RowShape, failed};

/// Writes that start each second, to both tables in turn.
const RATE: f64 = 1_000.0;
/// Writers that wait for each write.
const WRITERS: u64 = 4;
/// Rows of each table: so few that an index is made within a round.
const ROWS: u64 = 10_000;
/// Tables that are created in all rounds together.
const TABLES: u32 = 500;
const CHANGED: &str = "changed";
const STEADY: &str = "steady";
const INDEX: &str = "by_field2";
/// A thin index over the column that writes change.
const THIN: &str = "thin_by_last";
/// So few that the index is split several times.
const RANGE_ENTRIES: u64 = 2_000;
/// The ranges that the index has in the end: each has more than half of `RANGE_ENTRIES`.
const RANGES: usize = 6;

/// Runs `replex bench changes`.
///
/// # Errors
/// A process does not start, an operation fails.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: ROWS,
        field_bytes: 10,
    };
    let kind = ServerKind {
        range_entries: Some(RANGE_ENTRIES),
        ..ServerKind::default()
    };
    let cluster = BenchCluster::start(&options.base(), 3, kind)?;
    let clients = store::clients(&cluster, 3).await?;
    for name in [STEADY, CHANGED] {
        let table = store::create(&clients[0], name, Durability::Replicated).await?;
        store::load(&table, shape).await?;
    }
    let steady = clients[1].table(STEADY).await.map_err(failed)?;
    let changed = clients[2].table(CHANGED).await.map_err(failed)?;
    let (ids, span) = (cluster.server_ids(), options.span());
    let mut report = FigureReport::default();

    let (mut quiet, mut beside) = (LongestWrites::default(), LongestWrites::default());
    for _ in 0..options.pairs {
        let nothing = async { Ok(()) };
        quiet.push(longest_ms([&steady, &changed], span, nothing).await?);
        let change = index(&clients[0]);
        beside.push(longest_ms([&steady, &changed], span, change).await?);
        let dropped = clients[0].drop_copy(CHANGED, INDEX, IfMissing::Fail);
        dropped.await.map_err(failed)?;
    }
    report.pair(
        ("", "≤ 5 ms"),
        "longest write of another table while an index is added",
        (&beside.steady, "ms"),
        ("without", &quiet.steady),
    );
    report.pair(
        ("", "≤ 50 ms"),
        "longest write of the table that gets the index",
        (&beside.changed, "ms"),
        ("without", &quiet.changed),
    );

    splits(options, &clients[0], [&steady, &changed], &mut report).await?;

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

/// Measures the longest writes while an index of the changed table is made and split.
async fn splits(
    options: &MeasureOptions,
    client: &Client,
    tables: [&Table; 2],
    report: &mut FigureReport,
) -> io::Result<()> {
    let span = options.span();
    let (mut unsplit, mut splitting) = (LongestWrites::default(), LongestWrites::default());
    for _ in 0..options.pairs {
        let nothing = async { Ok(()) };
        unsplit.push(longest_ms(tables, span, nothing).await?);
        let split = split_index(client);
        splitting.push(longest_ms(tables, span, split).await?);
        let dropped = client.drop_copy(CHANGED, THIN, IfMissing::Fail);
        dropped.await.map_err(failed)?;
    }
    report.pair(
        ("O7", "≤ 5 ms"),
        "longest write of another table while the ranges of an index are split",
        (&splitting.steady, "ms"),
        ("without", &unsplit.steady),
    );
    report.pair(
        ("O7", "≤ 50 ms"),
        "longest write of the table whose index is made and split",
        (&splitting.changed, "ms"),
        ("without", &unsplit.changed),
    );
    Ok(())
}

/// The longest write of each table in each run, in milliseconds.
#[derive(Debug, Default)]
struct LongestWrites {
    steady: Measurements,
    changed: Measurements,
}

impl LongestWrites {
    fn push(&mut self, [steady, changed]: [f64; 2]) {
        self.steady.push(steady);
        self.changed.push(changed);
    }
}

/// Writes to two tables in turn for a span, and until the change has ended. Returns the longest
/// write of each table, from its scheduled start, in milliseconds.
async fn longest_ms(
    tables: [&Table; 2],
    span: Duration,
    change: impl Future<Output = io::Result<()>>,
) -> io::Result<[f64; 2]> {
    let operate = |number: u64| {
        let mut random = BenchRandom::new(number);
        let table = tables[(number % 2) as usize].clone();
        async move {
            let pk = [Value::Text(store::key(random.below(ROWS)))];
            let text = store::set(FIELDS - 1, random.text(10));
            let written = table.update(&pk, vec![text], None).await;
            written.is_ok_and(|written| written.took_effect())
        }
    };
    let (stop, started) = (Rc::new(Cell::new(false)), Instant::now());
    let load = open_loop::run(RATE, started, Rc::clone(&stop), operate);
    let changing = async {
        let (changed, ()) = tokio::join!(change, tokio::time::sleep(span));
        stop.set(true);
        changed
    };
    let both = async { tokio::join!(load, changing) };
    let (operations, changed) = LocalSet::new().run_until(both).await;
    changed?;
    let mut longest = [0.0; 2];
    for operation in operations {
        if operation.failed {
            return Err(io::Error::other("a write failed"));
        }
        let of_table = &mut longest[(operation.number % 2) as usize];
        *of_table = f64::max(*of_table, operation.latency_us() / 1000.0);
    }
    Ok(longest)
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
        by_range: false,
    });
    client.add_copy(schema, &|_| {}).await.map_err(failed)
}

/// Adds a thin index to the changed table, and waits until it has been split.
async fn split_index(client: &Client) -> io::Result<()> {
    let table = client.table(CHANGED).await.map_err(failed)?;
    let mut schema = table.schema().clone();
    let column = table
        .column(&format!("field{}", FIELDS - 1))
        .map_err(failed)?;
    schema.thin.push(ThinIndex {
        name: THIN.into(),
        columns: ascending(&[usize::from(column)]),
        included: Vec::new(),
        by_range: true,
        unique: false,
        copies: 1,
    });
    client.add_copy(schema, &|_| {}).await.map_err(failed)?;
    loop {
        let configuration = client.refresh().await.map_err(failed)?;
        let table = configuration.table_named(CHANGED);
        let replexes = table.map_or(&[][..], |table| &table.layout.replexes);
        let ranges = replexes.iter().flat_map(|replex| &replex.ranges);
        if ranges.map(|ranges| ranges.starts.len()).sum::<usize>() >= RANGES {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
