//! The measurements, one file each: the systems that run in turn, and how to interpret the result.

pub mod baselines;
pub mod changes;
mod failures;
pub mod hot_key;
pub mod import;
pub mod index_building;
pub mod index_ranges;
pub mod indexes;
pub mod insert;
pub mod killed;
pub mod lookup;
pub mod memory;
pub mod parametrization;
pub mod rebuild;
pub mod recovery;
pub mod scans;
pub mod servers;
pub mod sharing;
pub mod snapshots;
pub mod statements;
pub mod tables;
pub mod transfers;
pub mod ycsb;

/// Bytes of a frame in `echo`: between a lookup's question and its answer with a row of 100 B.
const LOOKUP_FRAME_BYTES: usize = 128;
/// Bytes of a frame in `chain-echo`: an insert of a row of 100 B, as it passes down the chain.
const INSERT_FRAME_BYTES: usize = 256;
