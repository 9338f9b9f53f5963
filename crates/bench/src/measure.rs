//! One run of closed-loop workers. It measures the number of operations, the elapsed time, and the
//! CPU time of each process.
//!
//! A worker starts its next operation when the previous one has ended, as YCSB's threads do. So the
//! rate follows from the latency, and no operation waits in a queue without being measured.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;

use crate::cpu;
use crate::pairs::{Latencies, Measurements};
use crate::plot::{AxisScale, LineChart};

/// A worker that executes one operation after the other.
pub trait MeasuredWorker {
    /// Does the next; returns how many operations that was, 0 when there is nothing left to do.
    ///
    /// # Errors
    /// The operation failed, or had a result that it must not have.
    async fn operate(&mut self) -> io::Result<u64>;
}

/// The result of one run.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub operations: u64,
    pub seconds: f64,
    /// CPU time of all processes under measurement.
    pub server_us: f64,
    /// CPU time of this process.
    pub client_us: f64,
    pub latencies: Latencies,
}

/// Runs the workers concurrently for `span`, or until none has an operation left. `ids` are the
/// processes under measurement.
///
/// # Errors
/// A worker's; a process is gone.
pub async fn run<W: MeasuredWorker + 'static>(
    workers: Vec<W>,
    span: Duration,
    ids: &[u32],
) -> io::Result<Sample> {
    let latencies = Rc::new(RefCell::new(Latencies::default()));
    let set = LocalSet::new();
    let own = std::process::id();
    let server_before = cpu::processes_us(ids)?;
    let client_before = cpu::process_us(own)?;
    let start = Instant::now();
    let end = start + span;
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|worker| set.spawn_local(work(worker, end, latencies.clone())))
        .collect();
    let mut operations = 0;
    set.run_until(async {
        for task in tasks {
            operations += task.await.map_err(io::Error::other)??;
        }
        io::Result::Ok(())
    })
    .await?;
    Ok(Sample {
        operations,
        seconds: start.elapsed().as_secs_f64(),
        server_us: cpu::processes_us(ids)? - server_before,
        client_us: cpu::process_us(own)? - client_before,
        latencies: latencies.take(),
    })
}

async fn work<W: MeasuredWorker>(
    mut worker: W,
    end: Instant,
    latencies: Rc<RefCell<Latencies>>,
) -> io::Result<u64> {
    let mut operations = 0;
    let mut before = Instant::now();
    while before < end {
        let done = worker.operate().await?;
        if done == 0 {
            break;
        }
        operations += done;
        let after = Instant::now();
        latencies
            .borrow_mut()
            .push((after - before).as_secs_f64() * 1e6);
        before = after;
    }
    Ok(operations)
}

/// The runs of one measured system, in the order of the pairs.
#[derive(Clone, Debug, Default)]
pub struct Series {
    samples: Vec<Sample>,
}

impl Series {
    /// Adds a run.
    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    fn figures(&self, figure: impl Fn(&Sample) -> f64) -> Measurements {
        let mut figures = Measurements::default();
        for sample in &self.samples {
            figures.push(figure(sample));
        }
        figures
    }

    /// Returns the median latency of each run, in microseconds.
    pub fn p50_us(&self) -> Measurements {
        self.figures(|sample| sample.latencies.percentile(0.5))
    }

    /// Returns the median latency of each run, for latencies that are known only in whole
    /// microseconds.
    #[cfg(feature = "proxy")]
    pub fn p50_of_whole_us(&self) -> Measurements {
        self.figures(|sample| sample.latencies.median_of_whole())
    }

    /// Returns the mean latency of each run, in microseconds.
    #[cfg(feature = "proxy")]
    pub fn mean_us(&self) -> Measurements {
        self.figures(|sample| sample.latencies.mean())
    }

    /// Returns operations per second of each run.
    pub fn rate(&self) -> Measurements {
        self.figures(|sample| sample.operations as f64 / sample.seconds)
    }

    /// Returns the CPU time per operation of the processes under measurement, in microseconds.
    pub fn server_us(&self) -> Measurements {
        self.figures(|sample| sample.server_us / sample.operations as f64)
    }

    /// Returns the CPU time per operation of this process, in microseconds.
    pub fn client_us(&self) -> Measurements {
        self.figures(|sample| sample.client_us / sample.operations as f64)
    }

    /// Latencies of all runs.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for sample in &self.samples {
            all.extend(sample.latencies.clone());
        }
        all
    }
}

/// Returns a chart that compares the cumulative distributions of the latencies of several series.
pub fn latency_plot(title: &str, series: &[(&str, &Series)]) -> LineChart {
    let lines = series.iter().map(|(name, series)| {
        let points = series.latencies().distribution();
        ((*name).to_owned(), points)
    });
    LineChart {
        title: title.to_owned(),
        x: "latency, µs (logarithmic)".to_owned(),
        y: "share of operations".to_owned(),
        x_scale: AxisScale::Logarithmic,
        series: lines.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Countdown(u64);

    impl MeasuredWorker for Countdown {
        async fn operate(&mut self) -> io::Result<u64> {
            let done = self.0.min(1);
            self.0 -= done;
            Ok(done)
        }
    }

    #[test]
    fn workers_with_nothing_left_end_the_run() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let workers = vec![Countdown(3), Countdown(4)];
        let span = Duration::from_secs(3600);
        let sample = runtime.unwrap().block_on(run(workers, span, &[])).unwrap();
        assert_eq!(sample.operations, 7);
        assert!(sample.latencies.percentile(1.0) > 0.0);
        assert_eq!(sample.server_us, 0.0);
    }
}
