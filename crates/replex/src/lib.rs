//! The parts of the `replex` command, so that tests and measurements can start the same clusters as
//! the demo.
//!
//! Here everything of the workspace meets: arguments in, processes and tables out. Nothing here
//! decides about data; that is `protocol`'s, and SQL is crate `sql`'s.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a closed pipe makes these panic: use say! and note!"
)]

pub mod cluster;
pub mod compare;
pub mod compare_snapshot;
pub mod console;
pub mod embedded;
pub mod failure;
pub mod inspect;
pub mod self_check;
pub mod wire;
