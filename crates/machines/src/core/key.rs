//! Keys that several parts of an operation in progress share.

use alloc::sync::Arc;

/// A key in a partition's order. An operation's effect has it, the list of the keys that the
/// operation holds, and the partition's table of held keys.
pub(crate) type Key = Arc<[u8]>;
