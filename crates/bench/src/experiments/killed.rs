//! One of six servers is killed during reads and writes that start at fixed times. The experiment
//! measures latencies before the kill, until the lease has ended and the other servers serve, while
//! the partitions are filled, and after that.
//!
//! Left out: hybrids, loads that the machine cannot keep up with, and a coordinator that waits for
//! a silent server to return. An operation is counted in the phase *lease* if any part of it lies
//! between the kill and the moment when the other servers serve.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use placement::Value;
use tokio::task::LocalSet;

use crate::distribution::BenchRandom;
use crate::open_loop::{self, TimedOperation};
use crate::options::MeasureOptions;
use crate::outage::{LossMoments, OutageSite, OutageTable};
use crate::pairs::{Latencies, Measurements};
use crate::report::FigureReport;
use crate::store::{self, FIELDS, RowShape};

const SERVERS: usize = 6;
/// Three copies, so that two failures are tolerated.
const KEYS: usize = 3;
/// Operations a second, reads and writes in turn.
const RATE: f64 = 1_000.0;
/// The bound outside of the lease.
const TARGET: &str = "≤ 10 ×";
const SHARES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")];
/// Reads, writes.
const KINDS: [&str; 2] = ["reads", "writes"];

/// The part of a run that an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunPart {
    Normal,
    Lease,
    Filling,
    Whole,
}

impl RunPart {
    const ALL: [RunPart; 4] = [
        RunPart::Normal,
        RunPart::Lease,
        RunPart::Filling,
        RunPart::Whole,
    ];

    fn name(self) -> &'static str {
        match self {
            RunPart::Normal => "normal",
            RunPart::Lease => "from the kill until the rest serves",
            RunPart::Filling => "then, while its partitions are filled",
            RunPart::Whole => "by five servers, all filled",
        }
    }

    /// Returns the part of an operation; none if it began after the run.
    fn of(operation: &TimedOperation, moments: &LossMoments) -> Option<RunPart> {
        match operation.intended {
            _ if operation.ended < moments.killed => Some(RunPart::Normal),
            at if at < moments.serving => Some(RunPart::Lease),
            at if at < moments.whole => Some(RunPart::Filling),
            at if at < moments.ended => Some(RunPart::Whole),
            _ => None,
        }
    }
}

/// The percentiles of each run, by part, kind and share.
#[derive(Default)]
struct PartFigures {
    figures: [[[Measurements; 3]; 2]; 4],
    failed: [Measurements; 4],
}

impl PartFigures {
    fn push(&mut self, operations: &[TimedOperation], moments: &LossMoments) {
        for (place, part) in RunPart::ALL.into_iter().enumerate() {
            let of_part = |it: &&TimedOperation| RunPart::of(it, moments) == Some(part);
            let of_part = operations.iter().filter(of_part);
            for (kind, figures) in self.figures[place].iter_mut().enumerate() {
                let mut latencies = Latencies::default();
                let own = of_part.clone().filter(|it| it.number % 2 == kind as u64);
                own.for_each(|it| latencies.push(it.latency_us()));
                for (figures, (share, _)) in figures.iter_mut().zip(SHARES) {
                    figures.push(latencies.percentile(share));
                }
            }
            let failed = of_part.filter(|it| it.failed).count();
            self.failed[place].push(failed as f64);
        }
    }

    fn add_to(&self, report: &mut FigureReport) {
        let normal = &self.figures[0];
        for (place, part) in RunPart::ALL.into_iter().enumerate() {
            for (kind, name) in KINDS.into_iter().enumerate() {
                for (at, (_, share)) in SHARES.into_iter().enumerate() {
                    let what = format!("{share} of {name}, {}", part.name());
                    let figures = &self.figures[place][kind][at];
                    let baseline = ("normal", &normal[kind][at]);
                    let is_bounded = !matches!(part, RunPart::Lease) && share == "p99";
                    let target = if is_bounded { TARGET } else { "" };
                    match part {
                        RunPart::Normal => report.plain("", &what, figures, "µs"),
                        _ => report.pair(("", target), &what, (figures, "µs"), baseline),
                    }
                }
            }
            let what = format!("operations with an error, {}", part.name());
            report.plain("", &what, &self.failed[place], "");
        }
    }
}

/// Runs `replex bench killed`.
///
/// # Errors
/// A process does not start, the cluster does not become whole.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: options.failure_rows,
        field_bytes: 10,
    };
    let grid = OutageTable {
        name: "three keys".to_owned(),
        keys: KEYS,
        hybrid: None,
    };
    let mut site = OutageSite::of_servers(options, &grid, shape, (SERVERS, 0)).await?;
    let mut parts = PartFigures::default();
    let (mut lease, mut filling) = (Measurements::default(), Measurements::default());
    for round in 1..=options.pairs {
        options.say_round(round, "a server is killed");
        let (operations, moments) = one_round(&mut site, shape, options.span()).await?;
        parts.push(&operations, &moments);
        lease.push((moments.serving - moments.killed).as_secs_f64());
        filling.push((moments.whole - moments.serving).as_secs_f64());
    }
    let mut report = FigureReport::default();
    report.plain("", "from the kill until the rest serves", &lease, "s");
    report.plain("", "from then until all is filled", &filling, "s");
    parts.add_to(&mut report);
    Ok(report)
}

async fn one_round(
    site: &mut OutageSite,
    shape: RowShape,
    span: Duration,
) -> io::Result<(Vec<TimedOperation>, LossMoments)> {
    let tables = site.tables().await?;
    let keys: Vec<Rc<Vec<Vec<u8>>>> = (0..KEYS)
        .map(|column| Rc::new(store::encoded_keys(shape, column)))
        .collect();
    let operate = |number: u64| {
        let mut random = BenchRandom::new(number);
        let row = random.below(shape.rows);
        let table = tables[number as usize % tables.len()].clone();
        let column = (number / 2 % KEYS as u64) as usize;
        let keys = Rc::clone(&keys[column]);
        async move {
            if number.is_multiple_of(2) {
                let replex = u8::try_from(column).expect("keys are few");
                let page = table.get_raw(replex, &keys[row as usize], 2).await;
                return page.is_ok_and(|page| page.count == 1);
            }
            let text = store::set(FIELDS - 1, random.text(10));
            let pk = [Value::Text(store::key(row))];
            let written = table.update(&pk, vec![text], None).await;
            written.is_ok_and(|written| written.took_effect())
        }
    };
    let (stop, started) = (Rc::new(Cell::new(false)), Instant::now());
    let set = LocalSet::new();
    let (operations, moments) = set
        .run_until(async {
            let load = open_loop::run(RATE, started, Rc::clone(&stop), operate);
            let loss = async {
                let moments = site.staged_loss((0, 0), started, span).await;
                stop.set(true);
                moments
            };
            tokio::join!(load, loss)
        })
        .await;
    site.bring_back().await?;
    Ok((operations, moments?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_belongs_to_the_lease_if_any_part_of_it_does() {
        let ms = Duration::from_millis;
        let moments = LossMoments {
            killed: ms(100),
            serving: ms(200),
            whole: ms(300),
            ended: ms(400),
        };
        let part = |from: u64, to: u64| {
            let operation = TimedOperation {
                number: 0,
                intended: ms(from),
                ended: ms(to),
                failed: false,
            };
            RunPart::of(&operation, &moments)
        };
        assert_eq!(part(10, 20), Some(RunPart::Normal));
        assert_eq!(part(90, 350), Some(RunPart::Lease));
        assert_eq!(part(150, 160), Some(RunPart::Lease));
        assert_eq!(part(200, 350), Some(RunPart::Filling));
        assert_eq!(part(300, 500), Some(RunPart::Whole));
        assert_eq!(part(400, 401), None);
    }
}
