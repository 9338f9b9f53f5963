//! The options that all measurements share.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::plot::{BarChart, LineChart};

/// The options that all measurements share.
#[derive(Args, Clone, Debug)]
pub struct MeasureOptions {
    /// How long one run lasts; a measurement has several runs per pair.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, global = true)]
    pub seconds: f64,
    /// Pairs of baseline and store; below five, medians mean little.
    #[arg(long, default_value_t = 5, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Rows loaded before anything is measured.
    #[arg(long, default_value_t = 20_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub rows: u64,
    /// Rows that `memory` loads; S11 asks for 10,000,000, which takes some minutes.
    #[arg(long, default_value_t = 200_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub memory_rows: u64,
    /// Tables that `tables` creates.
    #[arg(long, default_value_t = 10_000, global = true, value_parser = clap::value_parser!(u32).range(1000..=16_000))]
    pub tables: u32,
    /// Rows that `import` loads; S12 asks for 1,000,000.
    #[arg(long, default_value_t = 1_000_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub import_rows: u64,
    /// Rows of 100 B that `rebuild`, `recovery`, `killed`, `parametrization` and `sharing` load,
    /// and a tenth as many of 1 kB; the paper has 10,000,000.
    #[arg(long, default_value_t = 200_000, global = true, value_parser = clap::value_parser!(u64).range(20..))]
    pub failure_rows: u64,
    /// Where CSV and SVG files go.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "target/bench",
        global = true
    )]
    pub out: PathBuf,
    /// Where servers keep their data: the disk under measurement. The system's temporary folder
    /// unless given.
    #[arg(long, value_name = "FOLDER", global = true)]
    pub folder: Option<PathBuf>,
}

impl MeasureOptions {
    /// Returns how long one run lasts.
    pub fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Prints how far a long measurement is.
    pub fn say_round(&self, round: u32, what: &str) {
        note!("round {round} of {}: {what}", self.pairs);
    }

    /// Returns where processes keep their data.
    pub fn base(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Writes a plot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw_lines(&self, name: &str, lines: &LineChart) -> io::Result<()> {
        std::fs::write(self.out.join(format!("{name}.svg")), lines.svg())
    }

    /// Writes a plot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw_bars(&self, name: &str, bars: &BarChart) -> io::Result<()> {
        std::fs::write(self.out.join(format!("{name}.svg")), bars.svg())
    }
}
