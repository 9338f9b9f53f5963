//! A thin index with 1 to 8 ranges on 8 servers: the lookups that a second of server CPU serves
//! (O5).

use std::io;
use std::time::{Duration, Instant};

use client::{Client, IfExists, SchemaBuilder, Table, Value};
use placement::{ColumnType, Durability, ThinIndex, ascending};
use tokio::time::sleep;

use crate::distribution::BenchRandom;
use crate::measure::{MeasuredWorker, Series, run as measure};
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, applied, failed};

/// The numbers of ranges that are compared.
const RANGES: [u64; 4] = [1, 2, 4, 8];
const SERVERS: usize = 8;
/// Lookups in flight for each range, so that a server has as many at a time in each cluster: it
/// handles those that arrive together in one turn.
const WINDOW: u64 = 16;
/// How long an index may take to split.
const SPLIT_WITHIN: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);
const INDEX: &str = "by_a";

/// Looks up one row by the index, whose entries have all columns.
struct LookupWorker {
    table: Table,
    rows: u64,
    random: BenchRandom,
}

/// Measures lookups at clusters that differ in the number of ranges.
pub async fn run(options: &MeasureOptions, report: &mut FigureReport) -> io::Result<()> {
    let mut clusters = Vec::new();
    for count in RANGES {
        clusters.push(with_ranges(options, count).await?);
    }
    let mut series = RANGES.map(|_| Series::default());
    for _ in 0..options.pairs {
        let measured = RANGES.iter().zip(&clusters).zip(&mut series);
        for ((count, (cluster, table)), series) in measured {
            let workers = (0..WINDOW * count).map(|seed| LookupWorker {
                table: table.clone(),
                rows: options.rows,
                random: BenchRandom::new(seed),
            });
            let ids = cluster.server_ids();
            series.push(measure(workers.collect(), options.span(), &ids).await?);
        }
    }
    let rates = series.each_ref().map(per_second);
    let (one, more) = rates.split_first().expect("there are several");
    for (count, rate) in RANGES[1..].iter().zip(more) {
        let target = match count {
            8 => ("O5", "≥ 0.9 ×"),
            _ => ("", ""),
        };
        report.pair(
            target,
            &format!("lookups per second of server CPU, {count} ranges on {SERVERS} servers"),
            (rate, "1/s"),
            ("one range", one),
        );
    }
    Ok(())
}

/// Returns the operations for each second of server CPU.
fn per_second(series: &Series) -> Measurements {
    let mut rates = Measurements::default();
    series
        .server_us()
        .iter()
        .for_each(|us| rates.push(1e6 / us));
    rates
}

/// Starts a cluster whose index has so many ranges.
async fn with_ranges(options: &MeasureOptions, count: u64) -> io::Result<(BenchCluster, Table)> {
    let kind = ServerKind {
        // A part of this number of equal ranges is smaller, and a part of half as many is larger.
        range_entries: Some((options.rows * 4 / 3 / count).max(2)),
        ..ServerKind::default()
    };
    let cluster = BenchCluster::start(&options.base(), SERVERS, kind)?;
    let clients = store::clients(&cluster, 1).await?;
    store::wait_until_up(&clients[0]).await?;
    let schema = SchemaBuilder::new("split")
        .column("id", ColumnType::Int64)
        .column("a", ColumnType::Int64)
        .primary_key(&["id"])
        .failures_tolerated(0)
        .durability(Durability::Replicated)
        .build()
        .map_err(failed)?;
    let created = clients[0].create_table(schema, IfExists::Fail);
    let table = created.await.map_err(failed)?;
    for id in 0..options.rows as i64 {
        applied(table.insert(&[Value::Int64(id), Value::Int64(id)]).await)?;
    }
    // On the full table, so that it is split into equal ranges.
    let mut wanted = table.schema().clone();
    wanted.thin.push(ThinIndex {
        name: INDEX.to_owned(),
        columns: ascending(&[1]),
        included: Vec::new(),
        by_range: true,
        unique: false,
        copies: 1,
    });
    let added = clients[0].add_copy(wanted, &|_| {});
    added.await.map_err(failed)?;
    let table = wait_until_split(&clients[0], count).await?;
    Ok((cluster, table))
}

async fn wait_until_split(client: &Client, count: u64) -> io::Result<Table> {
    let begun = Instant::now();
    loop {
        client.refresh().await.map_err(failed)?;
        let table = client.table("split").await.map_err(failed)?;
        let mut replexes = table.definition().layout.replexes.iter();
        let ranges = replexes.find_map(|replex| replex.ranges.as_ref());
        let ranges = ranges.expect("the index has ranges");
        if ranges.starts.len() as u64 == count && ranges.transfers.is_empty() {
            return Ok(table);
        }
        if begun.elapsed() > SPLIT_WITHIN {
            let found = ranges.starts.len();
            return Err(io::Error::other(format!("{found} ranges, not {count}")));
        }
        sleep(PAUSE).await;
    }
}

impl MeasuredWorker for LookupWorker {
    async fn operate(&mut self) -> io::Result<u64> {
        let value = [Value::Int64(self.random.below(self.rows) as i64)];
        let lookup = self.table.lookup(INDEX, &value).map_err(failed)?;
        match lookup.await.map_err(failed)?.len() {
            1 => Ok(1),
            found => Err(io::Error::other(format!("{found} rows, not 1"))),
        }
    }
}
