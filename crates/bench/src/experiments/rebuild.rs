//! How fast the partitions of a lost server are there again, with nothing else to do (target F3).
//! From the word that the server will not come back until everything serves: ending the epochs
//! before is part of it.

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
