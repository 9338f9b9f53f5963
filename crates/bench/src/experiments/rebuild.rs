//! Measures how fast the partitions of a lost server are rebuilt on an otherwise idle cluster
//! (target F3). The time begins when the operator removes the server, and ends when all partitions
//! serve. So it includes the end of the earlier epochs.

use std::io;

use super::recovery::INDEX;
use crate::options::MeasureOptions;
use crate::outage::{OutageSite, OutageTable};
use crate::pairs::Measurements;
use crate::report::FigureReport;
use crate::store::RowShape;

/// Runs `replex bench rebuild`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    let shape = RowShape {
        rows: options.failure_rows,
        field_bytes: 10,
    };
    let mut site = OutageSite::new(options, &OutageTable::replex_2(), shape, 1).await?;
    let (mut rates, mut rows) = (Measurements::default(), Measurements::default());
    for _ in 0..options.pairs {
        let quiet = site.quiet_loss(&[(INDEX, 0)]).await?;
        rates.push(quiet.rows as f64 / quiet.seconds);
        rows.push(quiet.rows as f64);
    }
    report.plain("", "rows of 100 B that one server held", &rows, "");
    report.plain("F3", "rows rebuilt", &rates, "1/s");
    Ok(report)
}
