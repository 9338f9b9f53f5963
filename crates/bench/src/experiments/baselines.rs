//! Measures the baselines alone, which shows how fast the machine is.

use std::io;

use super::{INSERT_FRAME_BYTES, LOOKUP_FRAME_BYTES};
use crate::baselines::{BaselineChain, FlushBaseline};
use crate::measure::{Series, run as measure};
use crate::options::MeasureOptions;
use crate::report::FigureReport;

/// Runs `replex bench baselines`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    std::fs::create_dir_all(options.base())?;
    let folder = tempfile::tempdir_in(options.base())?;
    let mut report = FigureReport::default();
    for (name, length, bytes) in [
        ("echo", 1, LOOKUP_FRAME_BYTES),
        ("chain-echo 3", 3, INSERT_FRAME_BYTES),
    ] {
        let chain = BaselineChain::start(folder.path(), length)?;
        let ids = chain.ids();
        let span = options.span();
        let (mut one, mut many, mut window) =
            (Series::default(), Series::default(), Series::default());
        for _ in 0..options.pairs {
            one.push(measure(vec![chain.blocking(bytes)?], span, &ids).await?);
            many.push(measure(chain.windows(64, 1, bytes).await?, span, &ids).await?);
            window.push(measure(chain.windows(1, 64, bytes).await?, span, &ids).await?);
        }
        report.plain("", &format!("{name}, one client: p50"), &one.p50_us(), "µs");
        report.work(&format!("{name}, one client"), &one);
        report.work(&format!("{name}, 64 connections"), &many);
        report.work(&format!("{name}, 64 in flight on one connection"), &window);
    }
    let mut flush = Series::default();
    for _ in 0..options.pairs {
        let worker = FlushBaseline::create(folder.path(), INSERT_FRAME_BYTES)?;
        flush.push(measure(vec![worker], options.span(), &[]).await?);
    }
    report.plain("", "fsync: p50", &flush.p50_us(), "µs");
    Ok(report)
}
