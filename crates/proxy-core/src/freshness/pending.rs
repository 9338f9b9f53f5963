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

/// The number that the next transaction had when the primary was known to show a commit.
/// Transactions with this number or a higher one had not sent their COMMIT then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownBefore(pub TStateId);

#[derive(Debug)]
struct PendingTransaction {
    writes: AccessSets,
    outcome: Option<CommitOutcome>,
    /// If the primary shows it: transactions from this number on had not sent their COMMIT then.
    shown: Option<ShownBefore>,
    /// When its age was first measured, by the caller's clock.
    since: Option<Duration>,
}

/// The transactions that are Pending, and the merged write sets of all.
#[derive(Debug, Default)]
pub struct PendingTransactions {
    transactions: BTreeMap<TStateId, PendingTransaction>,
    merged_writes: AccessSets,
}

impl PendingTransactions {
    /// Adds one, before COMMIT is sent.
    pub fn insert(&mut self, id: TStateId, writes: AccessSets) {
        self.merged_writes.merge(&writes);
        let transaction = PendingTransaction {
            writes,
            outcome: None,
            shown: None,
            since: None,
        };
        let before = self.transactions.insert(id, transaction);
        assert!(before.is_none(), "ids are given out once");
    }

    /// Notes that the writes of each are unknown from now on.
    pub fn widen(&mut self) {
        for transaction in self.transactions.values_mut() {
            self.merged_writes.remove(&transaction.writes);
            transaction.writes = AccessSets::writes_anything();
            self.merged_writes.merge(&transaction.writes);
        }
    }

    /// Notes the outcome of a transaction. A rolled back one ends. A committed one, and one in
    /// doubt, stay. `next` is the number that the next transaction gets.
    pub fn note_outcome(&mut self, id: TStateId, outcome: CommitOutcome, next: TStateId) {
        let is_over = match outcome {
            CommitOutcome::RolledBack => true,
            CommitOutcome::Committed => planted::is(ProxyBug::PendingEndsAtAnswer),
            CommitOutcome::InDoubt { .. } => planted::is(ProxyBug::DoubtForgotten),
        };
        if is_over {
            self.remove(id);
        } else if let Some(transaction) = self.transactions.get_mut(&id) {
            transaction.outcome = Some(outcome);
            let is_shown = outcome == CommitOutcome::Committed;
            transaction.shown = is_shown.then_some(ShownBefore(next));
        }
    }

    /// Removes a commit that the indexes have from now on. Returns since when the primary is known
    /// to show it, if it is.
    pub fn committed(&mut self, id: TStateId) -> Option<ShownBefore> {
        self.remove(id)?.shown
    }

    /// Returns the merged write sets of all.
    pub fn merged_writes(&self) -> &AccessSets {
        &self.merged_writes
    }

    /// Returns the possible writes of each.
    pub fn iter(&self) -> impl Iterator<Item = (TStateId, &AccessSets)> {
        let transactions = self.transactions.iter();
        transactions.map(|(id, transaction)| (*id, &transaction.writes))
    }

    /// Returns the possible writes of each that the primary is not known to show.
    pub fn hidden(&self) -> impl Iterator<Item = (TStateId, &AccessSets)> {
        let transactions = self.transactions.iter();
        let hidden = transactions.filter(|(_, transaction)| transaction.shown.is_none());
        hidden.map(|(id, transaction)| (*id, &transaction.writes))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Returns whether this one is there.
    pub fn contains(&self, id: TStateId) -> bool {
        self.transactions.contains_key(&id)
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.transactions.len()
    }

    /// Notes this time for each transaction that has none: its age counts from then.
    pub fn stamp(&mut self, now: Duration) {
        // Only the newest have none.
        let newest = self.transactions.values_mut().rev();
        newest
            .take_while(|transaction| transaction.since.is_none())
            .for_each(|transaction| transaction.since = Some(now));
    }

    /// Returns the time since the oldest was stamped, if there is one that was.
    pub fn age_of_oldest(&self, now: Duration) -> Option<Duration> {
        let (_, oldest) = self.transactions.first_key_value()?;
        oldest.since.map(|since| now.saturating_sub(since))
    }

    /// Returns those in doubt, each with its process on the primary.
    pub fn in_doubt(&self) -> Vec<(TStateId, i32)> {
        let transactions = self.transactions.iter();
        transactions
            .filter_map(|(id, transaction)| match transaction.outcome {
                Some(CommitOutcome::InDoubt { backend }) => Some((*id, backend)),
                _ => None,
            })
            .collect()
    }

    fn remove(&mut self, id: TStateId) -> Option<PendingTransaction> {
        let transaction = self.transactions.remove(&id)?;
        self.merged_writes.remove(&transaction.writes);
        Some(transaction)
    }
}
