//! Executes reads of clients: lookups and scans of one partition, redirected reads for a lost
//! partition, checksums, statistics, and holds.

mod checksum;
pub(crate) mod holds;
mod marks;
mod page;
mod read;
mod redirect;
mod statistics;
