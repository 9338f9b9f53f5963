//! Compares three indexes without a hybrid and with one hybrid that all three share (Replex section
//! 5.4, Figure 15, Table 6).

use std::io;

use super::failures::{OutageRuns, PaperFigures, kilobyte_rows, lines};
use crate::options::MeasureOptions;
use crate::outage::{OutageSite, OutageTable, ServerLoss};
use crate::report::FigureReport;
use crate::store::RowShape;

/// Reads of all keys alike.
const THIRDS: [u32; 3] = [1, 1, 1];

/// Runs `replex bench sharing`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: kilobyte_rows(options),
        field_bytes: 100,
    };
    let systems = [
        ("no hybrid", None, "14.7 ± 0.6", "5,831"),
        (
            "one hybrid (3,2,2)",
            Some(vec![3, 2, 2]),
            "13.0 ± 0",
            "14,569",
        ),
    ];
    let mut report = FigureReport::default();
    let mut plotted = Vec::new();
    for (name, hybrid, paper_seconds, paper_rate) in systems {
        let grid = OutageTable {
            name: name.to_owned(),
            keys: 3,
            hybrid,
        };
        let mut site = OutageSite::new(options, &grid, shape, 1).await?;
        site.hold_back();
        let losses = [ServerLoss {
            at: options.span(),
            holder_of: (0, 0),
        }];
        let mut runs = OutageRuns::default();
        for _ in 0..options.pairs {
            runs.push(site.outage(&THIRDS, &losses, options.span()).await?);
        }
        let what = format!("table 6, 1 kB, {name}");
        let published = PaperFigures {
            what: &what,
            paper_seconds,
            paper_rate,
        };
        runs.add_to(&mut report, &published);
        plotted.push((grid.name, runs.timeline()));
    }
    let title = format!(
        "Reads by three keys while a server is lost, {} rows",
        shape.rows
    );
    options.draw_lines("sharing", &lines(&title, plotted))?;
    Ok(report)
}
