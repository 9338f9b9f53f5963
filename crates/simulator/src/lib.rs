//! Simulates a whole cluster on one thread, with faults and checkers. One seed determines the run.
//!
//! The real machines of `machines` and `session` run on a simulated network, simulated
//! disks with the real record codec of `storage`, and simulated clocks. Everything that happens
//! follows from the seed, so that a failure is replayed by its number. Invariants are
//! checked while it runs and at rest; histories of lookups by every index are checked for
//! linearisability.
//!
//! It must not know how the machines work: it sees their contracts, the log records, and the
//! replies to clients.

pub mod check;
pub mod clock;
pub mod core;
pub mod disk;
pub mod event;
pub mod fault;
#[cfg(feature = "planted")]
pub mod gate;
mod later_columns;
pub mod ledger;
pub mod linearizable;
pub mod model;
pub mod network;
pub mod plan;
pub mod random;
pub mod run;
pub mod splits;
pub mod start;
pub mod trace;
pub mod undisturbed;
pub mod watch;
pub mod workload;
pub mod world;
