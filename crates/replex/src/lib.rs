//! The parts of the `replex` command as a library, so that tests and benchmarks can start the same
//! clusters as the demo.
//!
//! This crate combines the other crates of the workspace: it parses arguments, starts processes,
//! and prints tables. It makes no decisions about data. Crate `sql` executes SQL.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a closed pipe makes these panic: use say! and note!"
)]

pub mod cluster;
pub mod compare;
pub mod compare_entries;
pub mod compare_snapshot;
pub mod console;
pub mod credentials;
pub mod embedded;
pub mod failure;
pub mod inspect;
pub mod self_check;
pub mod tolerance;
pub mod wire;
