//! Lookups by each of three keys, compared with `echo`: one client, 64 connections, and 64 lookups
//! in flight on one connection (S1, S4, S5).

use std::io;
use std::rc::Rc;

use client::Table;
use placement::Durability;

use super::LOOKUP_FRAME_BYTES;
use crate::baselines::BaselineChain;
use crate::measure::{Series, latency_plot, run as measure};
use crate::options::MeasureOptions;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, LookupWorker, RowShape};

const CONNECTIONS: usize = 64;
const TABLE: &str = "lookup";
/// The keys, as columns of the table, and their names.
const KEYS: [(usize, &str); 3] = [(0, "primary key"), (1, "field0"), (2, "field1")];

/// The requested keys of one replex.
#[derive(Clone)]
struct Keys {
    replex: u8,
    all: Rc<Vec<Vec<u8>>>,
}

impl Keys {
    fn workers(&self, tables: &[Table]) -> Vec<LookupWorker> {
        let tables = tables.iter().zip(0..);
        tables
            .map(|(table, seed)| {
                LookupWorker::new(table.clone(), self.replex, self.all.clone(), seed)
            })
            .collect()
    }
}

/// Runs `replex bench lookup`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: options.rows,
        field_bytes: 10,
    };
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let echo = BaselineChain::start(cluster.folder(), 1)?;
    let clients = store::clients(&cluster, CONNECTIONS).await?;
    let table = store::create(&clients[0], TABLE, Durability::Replicated).await?;
    store::load(&table, shape).await?;
    let tables = store::tables(&clients, TABLE).await?;
    let keys = KEYS.map(|(column, _)| Keys {
        replex: store::replex_of(&table, column),
        all: Rc::new(store::encoded_keys(shape, column)),
    });
    let near = Keys {
        replex: keys[0].replex,
        all: Rc::new(store::on_one_core(&table, keys[0].replex, &keys[0].all)),
    };
    let same_connection = vec![tables[0].clone(); CONNECTIONS];

    let (ids, echo_ids, span) = (cluster.server_ids(), echo.ids(), options.span());
    let mut echoes = [const { None }; 3].map(|_: Option<()>| Series::default());
    let mut one = KEYS.map(|_| Series::default());
    let (mut many, mut window) = (Series::default(), Series::default());
    for _ in 0..options.pairs {
        let bytes = LOOKUP_FRAME_BYTES;
        let workers = vec![echo.blocking(bytes)?];
        echoes[0].push(measure(workers, span, &echo_ids).await?);
        for (series, keys) in one.iter_mut().zip(&keys) {
            series.push(measure(keys.workers(&tables[..1]), span, &ids).await?);
        }
        let workers = echo.windows(CONNECTIONS, 1, bytes).await?;
        echoes[1].push(measure(workers, span, &echo_ids).await?);
        many.push(measure(keys[0].workers(&tables), span, &ids).await?);
        let workers = echo.windows(1, CONNECTIONS as u64, bytes).await?;
        echoes[2].push(measure(workers, span, &echo_ids).await?);
        window.push(measure(near.workers(&same_connection), span, &ids).await?);
    }

    let plot = latency_plot(
        "Lookup by any key, one client",
        &[
            ("echo", &echoes[0]),
            ("by primary key", &one[0]),
            ("by field0", &one[1]),
            ("by field1", &one[2]),
        ],
    );
    options.draw_lines("lookup", &plot)?;
    Ok(report(&echoes, &one, &many, &window))
}

/// Returns the three targets, each compared with the echo of the same shape.
fn report(
    echoes: &[Series; 3],
    one: &[Series; KEYS.len()],
    many: &Series,
    window: &Series,
) -> FigureReport {
    let mut report = FigureReport::default();
    for ((_, name), series) in KEYS.iter().zip(one) {
        report.pair(
            ("S1", "≤ 1.5 ×"),
            &format!("lookup by {name}, one client: p50"),
            (&series.p50_us(), "µs"),
            ("echo", &echoes[0].p50_us()),
        );
    }
    report.work("lookup by primary key, one client", &one[0]);
    report.pair(
        ("S4", "≤ 1.6 ×"),
        "lookup, 64 connections: server CPU",
        (&many.server_us(), "µs"),
        ("echo", &echoes[1].server_us()),
    );
    report.work("lookup, 64 connections", many);
    report.pair(
        ("S5", "≤ 3 µs"),
        "lookup, 64 in flight on one connection: server CPU",
        (&window.server_us(), "µs"),
        ("echo", &echoes[2].server_us()),
    );
    report.work("lookup, 64 in flight on one connection", window);
    report
}
