//! A thin index is made over a full table, without and with writes that start at fixed times (O8).

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use client::{Client, IfMissing, Table, Value};
use placement::{Durability, ThinIndex, ascending};
use tokio::task::LocalSet;

use crate::distribution::BenchRandom;
use crate::open_loop;
use crate::options::MeasureOptions;
use crate::pairs::{Latencies, Measurements};
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, FIELDS, RowShape, failed};

const TABLE: &str = "indexed";
const INDEX: &str = "by_last";
/// Writes that start each second. Each changes the indexed column of a row.
const RATE: f64 = 1_000.0;
const FIELD_BYTES: usize = 10;

/// Runs `replex bench index-building`: the rows per second, and the writes meanwhile.
///
/// # Errors
/// A process does not start, an operation fails.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let clients = store::clients(&cluster, 2).await?;
    store::wait_until_up(&clients[0]).await?;
    let rows = options.rows;
    let shape = RowShape {
        rows,
        field_bytes: FIELD_BYTES,
    };
    let table = store::create(&clients[0], TABLE, Durability::Replicated).await?;
    store::load(&table, shape).await?;
    let written = clients[1].table(TABLE).await.map_err(failed)?;
    let (mut alone, mut loaded) = (Measurements::default(), Measurements::default());
    let (mut quiet, mut beside) = (Measurements::default(), Measurements::default());
    for _ in 0..options.pairs {
        alone.push(rows as f64 / make_index(&clients[0]).await?.as_secs_f64());
        drop_index(&clients[0]).await?;
        let pause = async {
            tokio::time::sleep(options.span()).await;
            Ok(options.span())
        };
        let (_, p99_us) = while_written(&written, rows, pause).await?;
        quiet.push(p99_us);
        let (took, p99_us) = while_written(&written, rows, make_index(&clients[0])).await?;
        loaded.push(rows as f64 / took.as_secs_f64());
        beside.push(p99_us);
        drop_index(&clients[0]).await?;
    }
    let mut report = FigureReport::default();
    report.pair(
        ("O8", "≥ 100,000/s"),
        &format!("a thin index over {rows} rows is made under load: rows"),
        (&loaded, "1/s"),
        ("without load", &alone),
    );
    report.pair(
        ("", ""),
        "writes meanwhile: p99",
        (&beside, "µs"),
        ("without", &quiet),
    );
    Ok(report)
}

/// Writes at fixed times until the work is done. Returns the result of the work, and the 99th
/// percentile of the latencies in microseconds.
async fn while_written(
    table: &Table,
    rows: u64,
    work: impl Future<Output = io::Result<Duration>>,
) -> io::Result<(Duration, f64)> {
    let operate = |number: u64| {
        let mut random = BenchRandom::new(number);
        let table = table.clone();
        async move {
            let pk = [Value::Text(store::key(random.below(rows)))];
            let text = store::set(FIELDS - 1, random.text(FIELD_BYTES));
            let written = table.update(&pk, vec![text], None).await;
            written.is_ok_and(|written| written.took_effect())
        }
    };
    let stop = Rc::new(Cell::new(false));
    let load = open_loop::run(RATE, Instant::now(), Rc::clone(&stop), operate);
    let working = async {
        let done = work.await;
        stop.set(true);
        done
    };
    let both = async { tokio::join!(load, working) };
    let (operations, done) = LocalSet::new().run_until(both).await;
    let done = done?;
    let mut latencies = Latencies::default();
    for operation in &operations {
        if operation.failed {
            return Err(io::Error::other("a write failed"));
        }
        latencies.push(operation.latency_us());
    }
    Ok((done, latencies.percentile(0.99)))
}

/// Makes the index, and returns how long it took.
async fn make_index(client: &Client) -> io::Result<Duration> {
    let table = client.table(TABLE).await.map_err(failed)?;
    let mut wanted = table.schema().clone();
    let column = table.column(&format!("field{}", FIELDS - 1));
    wanted.thin.push(ThinIndex {
        name: INDEX.to_owned(),
        columns: ascending(&[usize::from(column.map_err(failed)?)]),
        included: Vec::new(),
        by_range: true,
        unique: false,
        copies: 1,
    });
    let begun = Instant::now();
    client.add_copy(wanted, &|_| {}).await.map_err(failed)?;
    Ok(begun.elapsed())
}

async fn drop_index(client: &Client) -> io::Result<()> {
    let dropped = client.drop_copy(TABLE, INDEX, IfMissing::Fail);
    dropped.await.map(|_| ()).map_err(failed)
}
