//! Reads of clients: lookups and scans of one partition, also of a lost one's rows, checksums, and
//! the ranges that statements hold.

pub(crate) mod holds;
mod page;
mod read;
mod redirect;
