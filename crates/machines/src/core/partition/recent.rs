//! Remembers the recent changes of a partition, so that redirected reads can report for how long a
//! range has been quiet.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::operation::Prepare;

use crate::core::key::Key;
use crate::core::member::Member;

/// Changes of a partition are remembered for so long after a redirected read.
const WATCHED_US: u64 = 1_000_000;
/// Changes that are remembered per partition.
const CHANGES_MAX: usize = 1_024;

/// The recent changes of a partition.
#[derive(Debug, Default)]
pub(crate) struct RecentChanges {
    /// No change up to then is among `changes`.
    before_us: u64,
    watched_until_us: u64,
    /// By time, rising.
    changes: VecDeque<RecentChange>,
}

/// An operation that has changed a partition.
#[derive(Debug)]
pub(crate) struct RecentChange {
    at_us: u64,
    pub prepare: Arc<Prepare>,
    /// The keys that the operation held in the partition, in the partition's own order.
    pub keys: Vec<Key>,
}

impl RecentChanges {
    /// Records that an operation has changed the partition.
    pub fn note(&mut self, now_us: u64, member: &Member) {
        if now_us > self.watched_until_us {
            self.changes.clear();
            self.before_us = now_us;
            return;
        }
        if self.changes.len() == CHANGES_MAX {
            let oldest = self.changes.pop_front();
            self.before_us = oldest.map_or(now_us, |oldest| oldest.at_us);
        }
        self.changes.push_back(RecentChange {
            at_us: now_us,
            prepare: Arc::clone(&member.prepare),
            keys: member.held.clone(),
        });
    }

    /// Returns the time of the last change for which `matters` is true, or a later time.
    pub fn changed_us(&self, matters: impl Fn(&RecentChange) -> bool) -> u64 {
        let mut changes = self.changes.iter().rev();
        let last = changes.find(|change| matters(change));
        last.map_or(self.before_us, |change| change.at_us)
    }

    /// Records changes for a while from now on, because a read must agree with other reads.
    pub fn watch(&mut self, now_us: u64) {
        self.watched_until_us = now_us + WATCHED_US;
    }
}
