//! Pending: transactions whose COMMIT may have happened and that the indexes do not know yet (R32).
//!
//! Their merged write sets are kept beside them, so that a read needs one comparison, whatever
//! their number.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::mark::TStateId;
use super::sets::AccessSets;
use crate::planted::{self, ProxyBug};

/// The outcome of a commit, as the primary's connection reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is committed, and the primary shows it.
    Committed,
    /// It is rolled back.
    RolledBack,
    /// The connection broke after COMMIT was sent.
    InDoubt {
        /// The process on the primary that had it.
        backend: i32,
    },
}

#[derive(Debug)]
struct PendingTransaction {
    writes: AccessSets,
    outcome: Option<CommitOutcome>,
    /// The next commit's number when the primary was known to show it.
    shown: Option<TStateId>,
    /// When its age was first asked for, by the caller's clock.
    since: Option<Duration>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct PendingTransactions {
    items: BTreeMap<TStateId, PendingTransaction>,
    state: AccessSets,
}

impl PendingTransactions {
    /// Adds one, before COMMIT is sent.
    pub fn insert(&mut self, id: TStateId, writes: AccessSets) {
        self.state.merge(&writes);
        let item = PendingTransaction {
            writes,
            outcome: None,
            shown: None,
            since: None,
        };
        let before = self.items.insert(id, item);
        assert!(before.is_none(), "ids are given out once");
    }

    /// Notes that the writes of each are unknown from now on.
    pub fn widen(&mut self) {
        for item in self.items.values_mut() {
            self.state.remove(&item.writes);
            item.writes = AccessSets::writes_anything();
            self.state.merge(&item.writes);
        }
    }

    /// Notes the outcome, which is known or will never be known from that connection. `next` is the
    /// number that the next commit gets.
    pub fn finished(&mut self, id: TStateId, outcome: CommitOutcome, next: TStateId) {
        let is_over = match outcome {
            CommitOutcome::RolledBack => true,
            CommitOutcome::Committed => planted::is(ProxyBug::PendingEndsAtAnswer),
            CommitOutcome::InDoubt { .. } => planted::is(ProxyBug::DoubtForgotten),
        };
        if is_over {
            self.remove(id);
        } else if let Some(item) = self.items.get_mut(&id) {
            item.outcome = Some(outcome);
            item.shown = (outcome == CommitOutcome::Committed).then_some(next);
        }
    }

    /// Removes a commit that the indexes have from now on. If the primary is known to show it,
    /// returns the number that the next commit had when that became known.
    pub fn committed(&mut self, id: TStateId) -> Option<TStateId> {
        self.remove(id)?.shown
    }

    /// Returns the merged write sets of all.
    pub fn state(&self) -> &AccessSets {
        &self.state
    }

    /// Returns the possible writes of each.
    pub fn iter(&self) -> impl Iterator<Item = (TStateId, &AccessSets)> {
        self.items.iter().map(|(id, item)| (*id, &item.writes))
    }

    /// Returns the possible writes of each that the primary is not known to show.
    pub fn hidden(&self) -> impl Iterator<Item = (TStateId, &AccessSets)> {
        let items = self.items.iter().filter(|(_, item)| item.shown.is_none());
        items.map(|(id, item)| (*id, &item.writes))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns whether this one is there.
    pub fn contains(&self, id: TStateId) -> bool {
        self.items.contains_key(&id)
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// Returns for how long the oldest has been there, if there is one. To be asked again and
    /// again: its age counts from when it was first asked for.
    pub fn oldest(&mut self, now: Duration) -> Option<Duration> {
        // The newest have no age yet.
        let items = self.items.values_mut().rev();
        items
            .take_while(|item| item.since.is_none())
            .for_each(|item| item.since = Some(now));
        let (_, oldest) = self.items.first_key_value()?;
        oldest.since.map(|since| now.saturating_sub(since))
    }

    /// Returns those in doubt, each with its process on the primary.
    pub fn in_doubt(&self) -> Vec<(TStateId, i32)> {
        let items = self.items.iter();
        items
            .filter_map(|(id, item)| match item.outcome {
                Some(CommitOutcome::InDoubt { backend }) => Some((*id, backend)),
                _ => None,
            })
            .collect()
    }

    fn remove(&mut self, id: TStateId) -> Option<PendingTransaction> {
        let item = self.items.remove(&id)?;
        self.state.remove(&item.writes);
        Some(item)
    }
}
