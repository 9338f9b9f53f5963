//! The values of sequences that a client has drawn and not handed out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use placement::{Sequence, SequenceBlock};
use protocol::identity::TableId;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// The time for which values of a block are handed out without a look at the row.
pub(crate) const LEASE: Duration = Duration::from_millis(100);
/// The fewest values of a block, if the sequence asks for no more.
const BLOCK_MIN: u64 = 32;
/// The most values of a block, unless the sequence or a caller asks for more. A block is twice as
/// long as the last one if that one was used up within [`BUSY`].
const BLOCK_MAX: u64 = 4096;
/// A sequence is busy if it uses up a block within this time.
const BUSY: Duration = Duration::from_secs(1);

/// The blocks of a client's sequences.
#[derive(Debug, Default)]
pub(crate) struct SequenceBlocks {
    of: Mutex<BTreeMap<TableId, Arc<AsyncMutex<HeldBlock>>>>,
}

/// The values of one sequence that a client has drawn and not handed out.
#[derive(Debug, Default)]
pub(crate) struct HeldBlock {
    pub held: Option<Held>,
    /// The number of values of the last block, and when it was drawn.
    pub last: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub block: SequenceBlock,
    /// The number of resets of the sequence when the block was drawn.
    pub resets: i64,
    /// When the row with this number was read, or earlier.
    pub read_at: Instant,
}

impl SequenceBlocks {
    pub fn block(&self, sequence: TableId) -> Arc<AsyncMutex<HeldBlock>> {
        let mut of = self.of.lock().expect("nothing panics while it is held");
        Arc::clone(of.entry(sequence).or_default())
    }

    /// Forgets a sequence that was dropped.
    pub fn forget(&self, sequence: TableId) {
        let mut of = self.of.lock().expect("nothing panics while it is held");
        of.remove(&sequence);
    }
}

impl HeldBlock {
    /// Returns how many values to draw if a caller needs `needed` now.
    pub fn length(&self, rules: &Sequence, needed: u64) -> u64 {
        let usual = match self.last {
            Some((last, at)) if at.elapsed() < BUSY => (last * 2).min(BLOCK_MAX),
            _ => BLOCK_MIN,
        };
        let cache = u64::try_from(rules.cache).unwrap_or(1);
        usual.max(cache).max(needed)
    }
}

#[cfg(test)]
mod tests {
    use placement::ColumnType;

    use super::*;

    #[test]
    fn blocks_of_busy_sequences_grow() {
        let rules = Sequence {
            value_type: ColumnType::Int64,
            increment: 1,
            min: 1,
            max: i64::MAX,
            start: 1,
            cache: 1,
            cycles: false,
            owner: None,
        };
        let block = |last| HeldBlock { held: None, last };
        let now = Instant::now();
        assert_eq!(block(None).length(&rules, 1), BLOCK_MIN);
        assert_eq!(block(Some((64, now))).length(&rules, 1), 128);
        assert_eq!(block(Some((64, now))).length(&rules, 5000), 5000);
        assert_eq!(block(Some((BLOCK_MAX, now))).length(&rules, 1), BLOCK_MAX);
        let long_ago = now.checked_sub(2 * BUSY);
        let idle = block(long_ago.map(|at| (64, at)));
        assert_eq!(idle.length(&rules, 1), BLOCK_MIN);
        let cached = Sequence {
            cache: 10_000,
            ..rules
        };
        assert_eq!(block(None).length(&cached, 1), 10_000);
    }
}
