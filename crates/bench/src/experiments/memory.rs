//! Memory of all servers compared with the data that they hold, and the time that a server takes to
//! restart from its folder (S11).

use std::io;
use std::time::Instant;

use placement::Durability;

use crate::cpu;
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, FIELDS, RowShape};

const COPIES: u64 = 3;
const TABLE: &str = "memory";

/// Runs `replex bench memory`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: options.memory_rows,
        field_bytes: 10,
    };
    let mut cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let clients = store::clients(&cluster, 1).await?;
    let table = store::create(&clients[0], TABLE, Durability::Replicated).await?;
    let empty = resident(&cluster)?;
    let start = Instant::now();
    store::load(&table, shape).await?;
    let load_seconds = start.elapsed().as_secs_f64();
    let grown = resident(&cluster)? - empty;

    let start = Instant::now();
    cluster.restart(0)?;
    let restart_seconds = start.elapsed().as_secs_f64();
    let found = table.scan().count().await.map_err(store::failed)?;
    if found != shape.rows {
        let what = format!("{found} rows of {} are there after a restart", shape.rows);
        return Err(io::Error::other(what));
    }

    let row_bytes = store::key(0).len() + FIELDS * shape.field_bytes;
    let held = (shape.rows * COPIES * row_bytes as u64) as f64;
    let mebibyte = f64::from(1 << 20);
    let mut report = FigureReport::default();
    let (rows, copies) = (shape.rows, COPIES);
    report.pair(
        ("S11", "≤ 1.5 ×"),
        &format!("memory of all servers for {rows} rows, {copies} copies"),
        (&single(grown / mebibyte), "MiB"),
        ("key and fields", &single(held / mebibyte)),
    );
    report.plain(
        "",
        "rows loaded per second",
        &single(rows as f64 / load_seconds),
        "1/s",
    );
    report.plain(
        "S11",
        "stop, restart and serve again",
        &single(restart_seconds),
        "s",
    );
    Ok(report)
}

fn single(value: f64) -> Measurements {
    let mut figures = Measurements::default();
    figures.push(value);
    figures
}

fn resident(cluster: &BenchCluster) -> io::Result<f64> {
    let bytes: io::Result<u64> = cluster
        .server_ids()
        .into_iter()
        .map(cpu::resident_bytes)
        .sum();
    Ok(bytes? as f64)
}
