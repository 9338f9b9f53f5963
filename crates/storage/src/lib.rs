//! Durable partitions and log of one core.
//!
//! The log is the truth; sorted tables are its materialisation. The crate is dumb and exact: it
//! keeps opaque records and bytes, and knows nothing of what they mean, of messages, of votes or
//! of other servers. It depends on `placement` for the [`placement::tables::Tables`] trait only.

pub mod disk;
pub mod error;
pub mod log;
pub mod record;
pub mod segment;

pub use error::StorageError;
