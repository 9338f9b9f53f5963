//! Pending: the transactions that may have committed, but whose commits the indexes do not have yet
//! (R32).
//!
//! Their merged write sets are kept beside them, so that a read needs one comparison, whatever
//! their number.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::mark::TStateId;
use super::sets::AccessSets;
use crate::planted::{self, ProxyBug};

/// The outcome of a commit, as its connection to the primary reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is committed, and new snapshots on the primary include it.
    Committed,
    /// It is rolled back.
    RolledBack,
    /// The connection broke after the proxy had sent COMMIT.
    InDoubt {
        /// The process on the primary that had it.
        backend: i32,
    },
}

/// The number of the next transaction at the time when a commit was known to be visible on the
/// primary. Transactions with this number or a higher one had not sent their COMMIT then.
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

/// The Pending transactions, and their merged write sets.
#[derive(Debug, Default)]
pub struct PendingTransactions {
    transactions: BTreeMap<TStateId, PendingTransaction>,
    merged_writes: AccessSets,
}

impl PendingTransactions {
    /// Adds a transaction, before its COMMIT is sent.
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

    /// Records that the writes of all these transactions are unknown from now on.
    pub fn widen(&mut self) {
        for transaction in self.transactions.values_mut() {
            self.merged_writes.remove(&transaction.writes);
            transaction.writes = AccessSets::writes_anything();
            self.merged_writes.merge(&transaction.writes);
        }
    }

    /// Records the outcome of a transaction. If it is rolled back, its entry ends. Otherwise its
    /// entry stays. `next` is the number of the next transaction.
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

    /// Removes a commit that the indexes now have. Returns since when it is known to be visible on
    /// the primary; none if that is unknown.
    pub fn committed(&mut self, id: TStateId) -> Option<ShownBefore> {
        self.remove(id)?.shown
    }

    /// Returns the merged write sets of all entries.
    pub fn merged_writes(&self) -> &AccessSets {
        &self.merged_writes
    }

    /// Returns the possible writes of each entry.
    pub fn iter(&self) -> impl Iterator<Item = (TStateId, &AccessSets)> {
        let transactions = self.transactions.iter();
        transactions.map(|(id, transaction)| (*id, &transaction.writes))
    }

    /// Returns the possible writes of each entry that is not known to be visible on the primary.
    pub fn hidden(&self) -> impl Iterator<Item = (TStateId, &AccessSets)> {
        let transactions = self.transactions.iter();
        let hidden = transactions.filter(|(_, transaction)| transaction.shown.is_none());
        hidden.map(|(id, transaction)| (*id, &transaction.writes))
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Returns whether there is an entry for this transaction.
    pub fn contains(&self, id: TStateId) -> bool {
        self.transactions.contains_key(&id)
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.transactions.len()
    }

    /// Records this time for each entry without one. Its age counts from then.
    pub fn stamp(&mut self, now: Duration) {
        // Only the newest have none.
        let newest = self.transactions.values_mut().rev();
        newest
            .take_while(|transaction| transaction.since.is_none())
            .for_each(|transaction| transaction.since = Some(now));
    }

    /// Returns the age of the oldest entry with a recorded time.
    pub fn age_of_oldest(&self, now: Duration) -> Option<Duration> {
        let (_, oldest) = self.transactions.first_key_value()?;
        oldest.since.map(|since| now.saturating_sub(since))
    }

    /// Returns the transactions in doubt, each with its process on the primary.
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
