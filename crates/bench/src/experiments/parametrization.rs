//! Measures five hybrids and three mixes of reads after the loss of a server of either index
//! (Replex section 5.3, Figures 13 and 14).

use std::io;

use super::failures::{OutageRuns, PaperFigures, kilobyte_rows, lines};
use crate::options::MeasureOptions;
use crate::outage::{OutageSite, OutageTable, ServerLoss};
use crate::report::FigureReport;
use crate::store::RowShape;

const DIVISIONS: [[u32; 2]; 5] = [[1, 12], [2, 6], [3, 4], [6, 2], [12, 1]];
const MIXES: [[u32; 2]; 3] = [[50, 50], [25, 75], [75, 25]];
/// The replexes of the keys, as the paper calls them.
const A: usize = 0;
const B: usize = 1;
/// The replex whose server is lost, and the mix of reads: Figure 13, then Figure 14.
const LOST: [(usize, [u32; 2]); 4] = [(B, MIXES[0]), (B, MIXES[1]), (B, MIXES[2]), (A, MIXES[1])];

/// Runs `replex bench parametrization`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: kilobyte_rows(options),
        field_bytes: 100,
    };
    let mut report = FigureReport::default();
    let mut plotted = vec![Vec::new(); LOST.len()];
    for divisions in DIVISIONS {
        let grid = OutageTable {
            name: format!("({},{})", divisions[0], divisions[1]),
            keys: 2,
            hybrid: Some(divisions.to_vec()),
        };
        let mut site = OutageSite::new(options, &grid, shape, 1).await?;
        site.hold_back();
        for ((lost, mix), plotted) in LOST.into_iter().zip(&mut plotted) {
            let what = format!("{}, {}, {}", of(lost), mixed(mix), grid.name);
            let losses = [ServerLoss {
                at: options.span(),
                holder_of: (lost, 0),
            }];
            let mut runs = OutageRuns::default();
            for _ in 0..options.pairs {
                runs.push(site.outage(&mix, &losses, options.span()).await?);
            }
            let published = PaperFigures {
                what: &what,
                paper_seconds: "",
                paper_rate: "",
            };
            runs.add_to(&mut report, &published);
            plotted.push((grid.name.clone(), runs.timeline()));
        }
    }
    for ((lost, mix), plotted) in LOST.into_iter().zip(plotted) {
        let title = format!("Reads {}, a server of {} is lost", mixed(mix), of(lost));
        let letter = ["a", "b"][lost];
        let name = format!("parametrization-{letter}-{}-{}", mix[0], mix[1]);
        options.draw_lines(&name, &lines(&title, plotted))?;
    }
    Ok(report)
}

fn of(replex: usize) -> &'static str {
    ["replex A", "replex B"][replex]
}

fn mixed(mix: [u32; 2]) -> String {
    format!("{}:{}", mix[0], mix[1])
}
