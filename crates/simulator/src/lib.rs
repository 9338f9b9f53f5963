//! A whole cluster on one thread, from one seed, with faults and with checkers.
//!
//! The real machines of `protocol` (cores, coordinator) run on a simulated network, simulated
//! disks with the real record codec of `storage`, and simulated clocks. Everything that happens
//! follows from the seed, so that a failure is replayed by its number. Invariants of SAFETY are
//! checked while it runs and at rest; histories of lookups by every index are checked for
//! linearisability.
//!
//! It must not know how the machines work: it sees their contracts, the log records, and what
//! clients are told.

pub mod chaos;
pub mod check;
pub mod client;
pub mod clock;
pub mod coordinator;
pub mod core;
pub mod disk;
pub mod event;
#[cfg(feature = "planted")]
pub mod gate;
pub mod ledger;
pub mod model;
pub mod network;
pub mod operator;
pub mod plan;
pub mod random;
pub mod run;
pub mod server;
pub mod trace;
pub mod workload;
pub mod world;
