//! 64 writers update one row. Operations on one key follow each other along the chain, and do not
//! wait for each other's round trip. So the rate is more than one operation per round trip (S9).

use std::io;

use placement::Durability;

use super::INSERT_FRAME_BYTES;
use crate::baselines::BaselineChain;
use crate::distribution::BenchRandom;
use crate::measure::{Series, run as measure};
use crate::options::MeasureOptions;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, HotWrite, RowShape};

const WRITERS: u64 = 64;
const TABLE: &str = "hot";

/// Runs `replex bench hot-key`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: 2,
        field_bytes: 10,
    };
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let chain = BaselineChain::start(cluster.folder(), 3)?;
    let clients = store::clients(&cluster, WRITERS as usize).await?;
    let table = store::create(&clients[0], TABLE, Durability::Replicated).await?;
    store::load(&table, shape).await?;
    let tables = store::tables(&clients, TABLE).await?;
    let (ids, chain_ids, span) = (cluster.server_ids(), chain.ids(), options.span());
    let (mut round_trips, mut hot) = (Series::default(), Series::default());
    for _ in 0..options.pairs {
        let workers = vec![chain.blocking(INSERT_FRAME_BYTES)?];
        round_trips.push(measure(workers, span, &chain_ids).await?);
        let writers = tables.iter().zip(0..WRITERS).map(|(table, seed)| HotWrite {
            table: table.clone(),
            number: 0,
            field_bytes: shape.field_bytes,
            random: BenchRandom::new(seed),
        });
        hot.push(measure(writers.collect(), span, &ids).await?);
    }
    let mut report = FigureReport::default();
    report.pair(
        ("S9", "≥ 10 ×"),
        "updates of one row, 64 writers: rate",
        (&hot.rate(), "1/s"),
        ("round trips of chain-echo 3", &round_trips.rate()),
    );
    report.plain("", "updates of one row: p50", &hot.p50_us(), "µs");
    report.work("updates of one row", &hot);
    Ok(report)
}
