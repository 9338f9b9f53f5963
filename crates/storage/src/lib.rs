//! The durable partitions and the log of one core.
//!
//! The log is the truth. Sorted tables are derived from it: recent data in memory, older data on
//! disk. Checkpoints save them, so that the log can be truncated. Nothing is logged twice. The
//! crate stores opaque records and bytes. It knows nothing of their meaning, of messages, of votes
//! or of other servers. It depends on `placement` only for the [`placement::tables::Tables`] trait
//! and for [`placement::Position`]. The format on disk is in `docs/reference/storage-format.md`.

pub mod disk;
pub mod error;
pub mod log;
mod manifest;
pub mod record;
pub mod segment;
pub mod store;
pub mod tables;

pub use error::StorageError;
pub use store::{DurableStore, StoreOptions, StoreRecovery};
