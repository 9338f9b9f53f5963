//! Measures Replex. Every figure is the median of several rounds, and is compared with a baseline
//! that runs in turn with it.
//!
//! Machines are shared and noisy, so an absolute figure means little. The result is the ratio to an
//! echo, a chain of echoes or a flush of the same size. CPU time per operation is reported too,
//! because noise affects it least. The measured processes run this same program. No measurement
//! asserts a time. Other databases are measured elsewhere, and the documents quote those figures.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a closed pipe makes these panic: use say! and note!"
)]

#[macro_use]
mod console;

mod baselines;
mod command;
mod cpu;
mod distribution;
mod experiments;
mod measure;
mod open_loop;
mod options;
mod outage;
mod pairs;
mod plot;
mod postgres;
mod processes;
#[cfg(feature = "proxy")]
mod proxy;
mod quota;
mod report;
mod store;
mod ycsb;

pub use command::{MeasureArguments, run};
