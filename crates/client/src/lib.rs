//! Placeholder.

pub use protocol;
