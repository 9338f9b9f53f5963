//! The machine of one core: all partitions that it holds.

mod contract;

pub use contract::*;
