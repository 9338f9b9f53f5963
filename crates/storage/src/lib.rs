//! Durable partitions and log of one core.
//!
//! The log is the truth; sorted tables are its materialisation, recent in memory, older on disk,
//! checkpointed so that the log can be cut. Nothing is logged twice. The crate is dumb and exact:
//! it keeps opaque records and bytes, and knows nothing of their meaning, of messages, of votes or
//! of other servers. It depends on `placement` for the [`placement::tables::Tables`] trait and for
//! [`placement::Position`] only. The format on the disk is in `docs/reference/storage-format.md`.

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
