//! Inserts through three replexes, compared with `chain-echo 3` and `fsync`: one client and 64
//! clients, `replicated` and `sync` (S2, S3, S6).

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use client::Table;
use placement::Durability;

use super::INSERT_FRAME_BYTES;
use crate::baselines::{BaselineChain, FlushBaseline};
use crate::measure::{Series, latency_plot, run as measure};
use crate::options::MeasureOptions;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, InsertWorker};

const CLIENTS: usize = 64;
const FIELD_BYTES: usize = 10;

/// Handles of one table, and the number that the next row gets.
struct Target {
    tables: Vec<Table>,
    next: Rc<Cell<u64>>,
}

impl Target {
    fn workers(&self, count: usize) -> Vec<InsertWorker> {
        let tables = self.tables.iter().take(count);
        tables
            .map(|table| InsertWorker {
                table: table.clone(),
                field_bytes: FIELD_BYTES,
                next: self.next.clone(),
                end: u64::MAX,
            })
            .collect()
    }
}

/// The measured systems: the baselines, and the store at both durabilities.
#[derive(Default)]
struct Measured {
    chain_one: Series,
    chain_many: Series,
    flush: Series,
    replicated_one: Series,
    replicated_many: Series,
    sync_one: Series,
    sync_many: Series,
}

/// Runs `replex bench insert`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let chain = BaselineChain::start(cluster.folder(), 3)?;
    let clients = store::clients(&cluster, CLIENTS).await?;
    let mut targets = Vec::new();
    for (name, durability) in [
        ("replicated", Durability::Replicated),
        ("sync", Durability::Sync),
    ] {
        store::create(&clients[0], name, durability).await?;
        targets.push(Target {
            tables: store::tables(&clients, name).await?,
            next: Rc::new(Cell::new(0)),
        });
    }
    let (ids, chain_ids, span) = (cluster.server_ids(), chain.ids(), options.span());
    let mut it = Measured::default();
    for _ in 0..options.pairs {
        let bytes = INSERT_FRAME_BYTES;
        let workers = vec![chain.blocking(bytes)?];
        it.chain_one.push(measure(workers, span, &chain_ids).await?);
        let workers = targets[0].workers(1);
        it.replicated_one.push(measure(workers, span, &ids).await?);
        let workers = vec![FlushBaseline::create(cluster.folder(), bytes)?];
        it.flush.push(measure(workers, span, &[]).await?);
        let workers = targets[1].workers(1);
        it.sync_one.push(measure(workers, span, &ids).await?);
        let workers = chain.windows(CLIENTS, 1, bytes).await?;
        it.chain_many
            .push(measure(workers, span, &chain_ids).await?);
        let workers = targets[0].workers(CLIENTS);
        it.replicated_many.push(measure(workers, span, &ids).await?);
        let workers = targets[1].workers(CLIENTS);
        it.sync_many.push(measure(workers, span, &ids).await?);
    }
    let plot = latency_plot(
        "Insert through three replexes, one client",
        &[
            ("chain-echo 3", &it.chain_one),
            ("insert, replicated", &it.replicated_one),
            ("insert, sync", &it.sync_one),
            ("fsync", &it.flush),
        ],
    );
    options.draw_lines("insert", &plot)?;
    Ok(report(&it))
}

fn report(it: &Measured) -> FigureReport {
    let mut report = FigureReport::default();
    report.pair(
        ("S2", "≤ 1.5 ×"),
        "insert, replicated, one client: p50",
        (&it.replicated_one.p50_us(), "µs"),
        ("chain-echo 3", &it.chain_one.p50_us()),
    );
    report.plain(
        "",
        "insert, sync, one client: p50",
        &it.sync_one.p50_us(),
        "µs",
    );
    report.pair(
        ("S3", "≤ 1.5 ×"),
        "what sync adds, one client: p50",
        (
            &it.sync_one.p50_us().minus(&it.replicated_one.p50_us()),
            "µs",
        ),
        ("fsync", &it.flush.p50_us()),
    );
    report.pair(
        ("S6", "≤ 2 ×"),
        "insert, replicated, 64 clients: server CPU",
        (&it.replicated_many.server_us(), "µs"),
        ("chain-echo 3", &it.chain_many.server_us()),
    );
    report.pair(
        ("", ""),
        "insert, sync, 64 clients: server CPU",
        (&it.sync_many.server_us(), "µs"),
        ("chain-echo 3", &it.chain_many.server_us()),
    );
    report.work("insert, replicated, one client", &it.replicated_one);
    report.work("insert, sync, one client", &it.sync_one);
    report.work("insert, replicated, 64 clients", &it.replicated_many);
    report.work("insert, sync, 64 clients", &it.sync_many);
    report
}
