//! Transfers: transactions that change two rows of one table, compared with single updates
//! (T1 to T3). The field is text, so that a transfer sets it in both rows, without reading them.

use std::io;

use client::{Table, TransactionResult, Value};
use placement::Durability;

use crate::distribution::BenchRandom;
use crate::measure::{MeasuredWorker, Series, run as measure};
use crate::options::MeasureOptions;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, FIELDS, HotWrite, RowShape, failed};

const CLIENTS: u64 = 64;
const FIELD_BYTES: usize = 10;
/// The rows of T3.
const HOT_ROWS: u64 = 10;

/// A worker that changes two rows, as one transaction or one after the other. Workers with other
/// numbers change other rows, unless the rows are hot.
#[derive(Debug)]
struct PairWrite {
    table: Table,
    random: BenchRandom,
    /// The rows: this many, from this number on.
    first: u64,
    rows: u64,
    is_transaction: bool,
}

impl PairWrite {
    fn pair(&mut self) -> [u64; 2] {
        let one = self.random.below(self.rows);
        let other = (one + 1 + self.random.below(self.rows - 1)) % self.rows;
        [self.first + one, self.first + other]
    }
}

impl MeasuredWorker for PairWrite {
    /// Counts transfers that have committed, or pairs of updates. A transfer that has lost against
    /// others begins again.
    async fn operate(&mut self) -> io::Result<u64> {
        let pair = self.pair();
        let pk = |number| [Value::Text(store::key(number))];
        let text = self.random.text(FIELD_BYTES);
        if !self.is_transaction {
            for number in pair {
                let set = vec![store::set(FIELDS - 1, text.clone())];
                store::applied(self.table.update(&pk(number), set, None).await)?;
            }
            return Ok(1);
        }
        loop {
            let mut transfer = self.table.client().transaction();
            for number in pair {
                let set = vec![store::set(FIELDS - 1, text.clone())];
                let added = transfer.update(&self.table, &pk(number), set, None);
                added.map_err(failed)?;
            }
            match transfer.commit().await.map_err(failed)? {
                TransactionResult::Committed { .. } => return Ok(1),
                aborted if aborted.is_conflict() => {}
                other => return Err(io::Error::other(format!("a transfer ended as {other:?}"))),
            }
        }
    }
}

/// The series of one table.
#[derive(Default)]
struct Measured {
    update: Series,
    transfer: Series,
    updates_many: Series,
    transfers_many: Series,
    hot_updates: Series,
    hot_transfers: Series,
}

/// Runs `replex bench transfers`.
///
/// # Errors
/// A process does not start, an operation fails.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let clients = store::clients(&cluster, CLIENTS as usize).await?;
    store::wait_until_up(&clients[0]).await?;
    let shape = RowShape {
        rows: options.rows.max(CLIENTS * 16),
        field_bytes: FIELD_BYTES,
    };
    let own_rows = shape.rows / CLIENTS;
    let mut report = FigureReport::default();
    for (name, durability) in [
        ("sync", Durability::Sync),
        ("replicated", Durability::Replicated),
    ] {
        let table = store::create(&clients[0], name, durability).await?;
        store::load(&table, shape).await?;
        let tables = store::tables(&clients, name).await?;
        let (ids, span) = (cluster.server_ids(), options.span());
        let mut it = Measured::default();
        let pairs = |count: u64, hot: bool, is_transaction: bool| {
            let workers = tables
                .iter()
                .zip(0..count)
                .map(move |(table, seed)| PairWrite {
                    table: table.clone(),
                    random: BenchRandom::new(seed),
                    first: if hot { 0 } else { seed * own_rows },
                    rows: if hot { HOT_ROWS } else { own_rows },
                    is_transaction,
                });
            workers.collect::<Vec<PairWrite>>()
        };
        let hot = |number: u64, count: u64| {
            let workers = tables
                .iter()
                .zip(0..count)
                .map(move |(table, seed)| HotWrite {
                    table: table.clone(),
                    number,
                    field_bytes: FIELD_BYTES,
                    random: BenchRandom::new(seed),
                });
            workers.collect::<Vec<HotWrite>>()
        };
        for _ in 0..options.pairs {
            it.update.push(measure(hot(1, 1), span, &ids).await?);
            it.transfer
                .push(measure(pairs(1, false, true), span, &ids).await?);
            it.updates_many
                .push(measure(pairs(CLIENTS, false, false), span, &ids).await?);
            it.transfers_many
                .push(measure(pairs(CLIENTS, false, true), span, &ids).await?);
            it.hot_updates
                .push(measure(hot(0, CLIENTS), span, &ids).await?);
            it.hot_transfers
                .push(measure(pairs(CLIENTS, true, true), span, &ids).await?);
        }
        add(&mut report, name, &it);
    }
    Ok(report)
}

fn add(report: &mut FigureReport, durability: &str, it: &Measured) {
    report.pair(
        ("T1", "≤ 1.8 ×"),
        &format!("transfer, {durability}, one client: p50"),
        (&it.transfer.p50_us(), "µs"),
        ("one update", &it.update.p50_us()),
    );
    report.pair(
        ("T2", "≤ 1.5 ×"),
        &format!("transfers, {durability}, 64 clients: server CPU"),
        (&it.transfers_many.server_us(), "µs"),
        ("two updates", &it.updates_many.server_us()),
    );
    report.pair(
        ("", ""),
        &format!("transfers, {durability}, 64 clients: rate"),
        (&it.transfers_many.rate(), "1/s"),
        ("pairs of updates", &it.updates_many.rate()),
    );
    report.pair(
        ("T3", "≥ 0.2 ×"),
        &format!("transfers over 10 rows, {durability}, 64 clients: commits"),
        (&it.hot_transfers.rate(), "1/s"),
        ("updates of one row", &it.hot_updates.rate()),
    );
}
