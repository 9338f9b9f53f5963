//! Records the writes of a session's transaction, and reports to the manager how the transaction
//! ended.
//!
//! Before a statement is sent that may commit, all its possible writes are Pending (R32). When the
//! transaction has ended, its marks are written into the primary's WAL, in a transaction directly
//! after it on the same connection. Once the slot's reader has read a mark, it has read all earlier
//! commits, and the Pending entry ends (R29).

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::DerefMut;

use crate::freshness::independence::independent;
use crate::freshness::{AccessSets, CommitOutcome, FreshnessManager, Mark, TStateId};
use crate::planted::{self, ProxyBug};
use crate::touched::CombinedAnalysis;

/// The writes of one session. Its functions lock the manager only when they need it.
#[derive(Debug, Default)]
pub struct SessionWrites {
    /// Written in a transaction that cannot have committed.
    unsent: AccessSets,
    /// The rows and tables that it has locked: earlier writes there that bypass the proxy are
    /// visible on the primary at once.
    locked: AccessSets,
    /// The oldest catalogue by which that is known.
    generation: Option<u64>,
    /// The marks of Pending commits.
    pending: Vec<Mark>,
    /// Whether the transaction may have ended, so that later statements run outside of it.
    may_be_over: bool,
    /// Whether the marks have been sent.
    is_marked: bool,
    /// Whether the transaction has changed its settings.
    has_settings: bool,
    /// Whether a statement with unknown effects has run on the connection.
    has_run_anything: bool,
}

impl SessionWrites {
    /// Records statements that are about to be sent. If their transaction may end with them, its
    /// writes become Pending. `is_inside` states whether they run inside a transaction that the
    /// client has begun.
    pub fn note<L: DerefMut<Target = FreshnessManager>>(
        &mut self,
        touched: &CombinedAnalysis,
        is_inside: bool,
        lock: impl FnOnce() -> L,
    ) {
        self.has_settings |= touched.changes_settings;
        self.has_run_anything |= touched.sets.may_write_anything();
        self.locked.merge(&touched.locked);
        if touched.sets.is_written() {
            self.unsent.merge(&touched.sets);
            self.generation = self.generation.or(touched.generation);
        }
        self.may_be_over |= touched.may_end || !is_inside;
        if self.unsent.is_written() && self.may_be_over && !planted::is(ProxyBug::NotPending) {
            let sets = core::mem::take(&mut self.unsent);
            self.pending
                .push(lock().begin_commit(sets, self.generation));
        }
    }

    /// Returns whether a statement with unknown effects, such as a call of a user's function, has
    /// run since the last call.
    pub fn take_run_anything(&mut self) -> bool {
        core::mem::take(&mut self.has_run_anything)
    }

    /// Returns whether the transaction has changed its settings, so that its names may mean other
    /// objects.
    pub fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// Records that the transaction has not ended, despite the messages that were sent.
    pub fn goes_on(&mut self) {
        self.may_be_over = false;
    }

    /// Returns whether the transaction may have ended.
    pub fn may_be_over(&self) -> bool {
        self.may_be_over
    }

    /// Returns whether reads of the transaction may run at a replica. They may not if the
    /// transaction may have ended, or if names may mean something else, because a statement that is
    /// not understood may have changed settings.
    pub fn let_reads_go(&self) -> bool {
        !self.may_be_over && !self.has_settings && !self.unsent.may_write_anything()
    }

    /// Returns whether a read touches none of the transaction's writes (Algorithm 1), and no table
    /// with rows that it has locked.
    pub fn is_independent(&self, reads: &AccessSets) -> bool {
        independent(&self.unsent, reads) && !self.locked.shares_table(reads)
    }

    /// Returns whether the schema has changed since the transaction wrote. Then its writes are
    /// unknown, because a trigger or a foreign key may have been created before its lock. The
    /// caller checks this after it has routed a read: while the schema change is Pending, the read
    /// goes to the primary.
    pub fn is_outdated(&self, generation: u64) -> bool {
        self.unsent.is_written() && self.generation != Some(generation)
    }

    /// Returns whether a write of the session is Pending.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the session's Pending marks.
    pub fn pending(&self) -> impl Iterator<Item = TStateId> {
        self.pending.iter().map(|mark| mark.id)
    }

    /// Handles the end of a transaction. The first call returns its marks, which the caller runs,
    /// each in a transaction of its own. After their answers the caller calls it again: it reports
    /// to the manager that the transaction is committed, and returns nothing.
    pub fn ended<L: DerefMut<Target = FreshnessManager>>(
        &mut self,
        lock: impl FnOnce() -> L,
    ) -> Vec<String> {
        self.unsent = AccessSets::default();
        self.locked = AccessSets::default();
        self.generation = None;
        self.has_settings = false;
        self.may_be_over = false;
        if !self.is_pending() {
            return Vec::new();
        }
        if !self.is_marked {
            self.is_marked = true;
            let manager = lock();
            let key = manager.key();
            return self.pending.iter().map(|mark| mark.sql(key)).collect();
        }
        self.is_marked = false;
        let mut manager = lock();
        for mark in self.pending.drain(..) {
            manager.note_outcome(mark.id, CommitOutcome::Committed);
        }
        Vec::new()
    }

    /// Records that the session has ended without a connection to the primary, so that no Pending
    /// commit was sent.
    pub fn never_sent<L: DerefMut<Target = FreshnessManager>>(&mut self, lock: impl FnOnce() -> L) {
        if !self.is_pending() {
            return;
        }
        let mut manager = lock();
        for mark in self.pending.drain(..) {
            manager.note_outcome(mark.id, CommitOutcome::RolledBack);
        }
    }

    /// Records that the connection to this process on the primary is lost or closed.
    pub fn lost<L: DerefMut<Target = FreshnessManager>>(
        &mut self,
        backend: u32,
        lock: impl FnOnce() -> L,
    ) {
        let mut manager = lock();
        for mark in self.pending.drain(..) {
            let backend = i32::try_from(backend).unwrap_or(0);
            manager.note_outcome(mark.id, CommitOutcome::InDoubt { backend });
        }
    }
}
