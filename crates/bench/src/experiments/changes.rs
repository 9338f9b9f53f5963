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
use placement::{Durability, Index, Value};
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
