//! Measuring Replex: every figure is compared with a baseline from the same run, interleaved, as
//! medians.
//!
//! Machines are shared and noisy, so an absolute figure means little: the result is the ratio to an
//! echo, a chain of echoes or a flush of the same size, and CPU time per operation, which noise
//! moves least. Processes under measurement are started from this very program. Nothing here
//! asserts a time; rivals are measured elsewhere and quoted in the documents.

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
