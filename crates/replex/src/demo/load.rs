//! Inserts the flights with many requests in flight, and shows a progress bar.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use placement::Value;
use replex::failure::CommandFailure;
use tokio::task::{JoinHandle, JoinSet};

use super::store::Flights;
use crate::output::count;

/// Inserts that have been sent and not answered.
const IN_FLIGHT: usize = 256;

/// The result of a load.
pub struct LoadSummary {
    /// Rows that were acknowledged.
    pub rows: Vec<Vec<Value>>,
    /// The duration of the load.
    pub elapsed: Duration,
    /// The longest time between two acknowledgements.
    pub longest_gap: Duration,
}

/// A load that ends with its waiter.
pub struct RunningLoad(pub JoinHandle<Result<LoadSummary, CommandFailure>>);

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The progress of a load, to be displayed.
#[derive(Clone, Default)]
pub struct LoadProgress(Arc<AtomicU64>);

impl LoadProgress {
    /// Returns rows acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns a bar for rows, that is drawn on a terminal and nowhere else.
pub fn bar(rows: usize) -> ProgressBar {
    bar_of(rows as u64, "{human_pos}/{human_len} rows, {rate} a second")
}

/// Returns a bar of another length, with this text behind it.
pub fn bar_of(length: u64, text: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template(&format!("   {{bar:40.cyan/dim}} {text}"))
        .expect("the template is well formed")
        .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}", count(state.per_sec() as u64));
        });
    bar.set_style(style.progress_chars("━━─"));
    bar
}

/// Inserts all rows, and returns the acknowledged rows. Without an error these are all rows.
pub async fn load(
    flights: Flights,
    rows: Vec<Vec<Value>>,
    bar: ProgressBar,
    progress: LoadProgress,
) -> Result<LoadSummary, CommandFailure> {
    let started = Instant::now();
    let mut under_way = JoinSet::new();
    let mut acknowledged = Vec::with_capacity(rows.len());
    let mut last = started;
    let mut longest_gap = Duration::ZERO;
    let mut waiting = rows.into_iter();
    loop {
        while under_way.len() < IN_FLIGHT
            && let Some(row) = waiting.next()
        {
            let flights = flights.clone();
            under_way.spawn(async move { flights.insert(row).await });
        }
        let Some(ended) = under_way.join_next().await else {
            break;
        };
        let row = ended.map_err(CommandFailure::at("wait for an insert"))??;
        acknowledged.push(row);
        let now = Instant::now();
        longest_gap = longest_gap.max(now - last);
        last = now;
        progress.0.fetch_add(1, Ordering::Relaxed);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(LoadSummary {
        rows: acknowledged,
        elapsed: started.elapsed(),
        longest_gap,
    })
}
