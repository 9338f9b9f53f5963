//! Measures the time to open a snapshot, and the cost of open snapshots for concurrent writes (Q2,
//! Q3).
//!
//! Left out: reads of a snapshot, whose pages cost as much as other pages, and snapshots whose
//! history does not fit into memory.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use client::{Client, Table};
use placement::Durability;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::LOOKUP_FRAME_BYTES;
use crate::baselines::BaselineChain;
use crate::cpu;
use crate::distribution::BenchRandom;
use crate::measure::{Sample, Series, latency_plot, run as measure};
use crate::options::MeasureOptions;
use crate::pairs::{Latencies, Measurements};
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, HotWrite, InsertWorker, RowShape, failed};

const TABLE: &str = "snapshots";
/// Clients that insert.
const WRITERS: usize = 16;
/// Snapshots that are opened in a second while they do.
const OPENED_PER_SECOND: u64 = 100;
const FIELD_BYTES: usize = 10;

/// The pause between two openings that are measured: servers pause for 4 ms after each.
const PAUSE: Duration = Duration::from_millis(8);

/// Opens one snapshot after the other, with pauses that do not count.
async fn open_one_by_one(
    client: &Client,
    table: &Table,
    span: Duration,
    ids: &[u32],
) -> io::Result<Sample> {
    let server_before = cpu::processes_us(ids)?;
    let client_before = cpu::process_us(std::process::id())?;
    let start = Instant::now();
    let (mut operations, mut latencies) = (0, Latencies::default());
    while start.elapsed() < span {
        sleep(PAUSE).await;
        let before = Instant::now();
        let snapshot = client.snapshot(&[table]).await.map_err(failed)?;
        latencies.push(before.elapsed().as_secs_f64() * 1e6);
        drop(snapshot);
        operations += 1;
    }
    Ok(Sample {
        operations,
        seconds: start.elapsed().as_secs_f64(),
        server_us: cpu::processes_us(ids)? - server_before,
        client_us: cpu::process_us(std::process::id())? - client_before,
        latencies,
    })
}

/// The measured runs.
#[derive(Default)]
struct Measured {
    echoes: Series,
    /// Inserts of one client.
    one_insert: Series,
    opened: Series,
    /// Inserts of all clients without a snapshot.
    alone: Series,
    beside_openings: Series,
    beside_open: Series,
    updated: Series,
    updated_beside: Series,
}

/// Runs `replex bench snapshots`.
///
/// # Errors
/// A process does not start, an operation fails.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: options.rows,
        field_bytes: FIELD_BYTES,
    };
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let echo = BaselineChain::start(cluster.folder(), 1)?;
    let clients = store::clients(&cluster, WRITERS + 1).await?;
    let table = store::create(&clients[0], TABLE, Durability::Replicated).await?;
    store::load(&table, shape).await?;
    let tables = store::tables(&clients, TABLE).await?;
    let next = Rc::new(Cell::new(shape.rows));
    let inserts = |count: usize| {
        let tables = tables[1..].iter().take(count);
        let workers = tables.map(|table| InsertWorker {
            table: table.clone(),
            field_bytes: FIELD_BYTES,
            next: next.clone(),
            end: u64::MAX,
        });
        workers.collect::<Vec<InsertWorker>>()
    };
    let updates = || {
        let tables = tables[1..].iter().zip(0..);
        let workers = tables.map(|(table, number)| HotWrite {
            table: table.clone(),
            number,
            field_bytes: FIELD_BYTES,
            random: BenchRandom::new(number),
        });
        workers.collect::<Vec<HotWrite>>()
    };
    let (ids, echo_ids, span) = (cluster.server_ids(), echo.ids(), options.span());
    let mut it = Measured::default();
    for _ in 0..options.pairs {
        let workers = vec![echo.blocking(LOOKUP_FRAME_BYTES)?];
        it.echoes.push(measure(workers, span, &echo_ids).await?);
        it.one_insert.push(measure(inserts(1), span, &ids).await?);
        let one_by_one = open_one_by_one(&clients[0], &table, span, &ids);
        it.opened.push(one_by_one.await?);
        it.alone.push(measure(inserts(WRITERS), span, &ids).await?);
        let opening = open_often(&clients[0], &table, span);
        let (sample, done) = tokio::join!(measure(inserts(WRITERS), span, &ids), opening);
        done?;
        it.beside_openings.push(sample?);
        it.updated.push(measure(updates(), span, &ids).await?);
        let snapshot = clients[0].snapshot(&[&table]).await.map_err(failed)?;
        it.beside_open
            .push(measure(inserts(WRITERS), span, &ids).await?);
        it.updated_beside
            .push(measure(updates(), span, &ids).await?);
        drop(snapshot);
    }
    let plot = latency_plot(
        "Inserts of 16 clients beside snapshots",
        &[
            ("no snapshot", &it.alone),
            ("100 opened a second", &it.beside_openings),
            ("one open", &it.beside_open),
            ("opening one, no other load", &it.opened),
        ],
    );
    options.draw_lines("snapshots", &plot)?;
    Ok(it.report())
}

impl Measured {
    fn report(&self) -> FigureReport {
        let mut report = FigureReport::default();
        let mut asked = Measurements::default();
        let (echo_us, insert_us) = (self.echoes.p50_us(), self.one_insert.p50_us());
        for (echo_us, insert_us) in echo_us.iter().zip(insert_us.iter()) {
            asked.push(4.0 * echo_us + insert_us);
        }
        report.pair(
            ("Q2", "≤ 1 ×"),
            "a snapshot over 3 servers is opened: p50",
            (&self.opened.p50_us(), "µs"),
            ("4 × echo and one insert", &asked),
        );
        report.plain(
            "",
            "a snapshot is opened and ended: server CPU",
            &self.opened.server_us(),
            "µs",
        );
        report.pair(
            ("Q2", "≥ 0.9 ×"),
            "inserts of 16 clients while 100 snapshots are opened a second: rate",
            (&self.beside_openings.rate(), "1/s"),
            ("none", &self.alone.rate()),
        );
        report.pair(
            ("Q3", "≤ 1.1 ×"),
            "inserts of 16 clients while a snapshot is open: server CPU",
            (&self.beside_open.server_us(), "µs"),
            ("none open", &self.alone.server_us()),
        );
        report.pair(
            ("", ""),
            "updates of 16 rows while a snapshot is open: server CPU",
            (&self.updated_beside.server_us(), "µs"),
            ("none open", &self.updated.server_us()),
        );
        report
    }
}

/// Opens [`OPENED_PER_SECOND`] snapshots a second for a while, and ends each at once.
async fn open_often(client: &Client, table: &Table, span: Duration) -> io::Result<()> {
    let end = Instant::now() + span;
    let mut due = interval(Duration::from_micros(1_000_000 / OPENED_PER_SECOND));
    due.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while Instant::now() < end {
        due.tick().await;
        client.snapshot(&[table]).await.map_err(failed)?;
    }
    Ok(())
}
