//! What a session's transaction has written, and how the manager learns of its end.
//!
//! Before anything is sent that may commit, what may have been written is Pending (R32). When the
//! transaction has ended, marks are written into the primary's log, in a transaction of their own
//! right behind it on the same connection: once the slot's reader has seen a mark, it has seen what
//! was committed before it, and the Pending item ends (R29).

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::DerefMut;

use crate::freshness::independence::independent;
use crate::freshness::{CommitOutcome, Manager, Mark, Sets, TStateId};
use crate::planted::{self, ProxyBug};
use crate::touched::Touched;

/// The writes of one session. Its functions lock the manager only where they need it.
#[derive(Debug, Default)]
pub struct Writes {
    /// Written in a transaction that cannot have committed.
    unsent: Sets,
    /// What it has locked: what writers around the proxy did there before is seen on the primary at
    /// once.
    locked: Sets,
    /// The oldest catalogue by which that is known.
    generation: Option<u64>,
    /// What is Pending.
    pending: Vec<Mark>,
    /// May the transaction have ended, so that what follows runs outside of it?
    may_be_over: bool,
    /// Have the marks been sent?
    is_marked: bool,
    /// Has the transaction changed its settings?
    has_settings: bool,
    /// Has something run on the connection that may have done anything there?
    has_run_anything: bool,
}

impl Writes {
    /// Notes that statements are about to be sent. With `is_inside` they run inside of a
    /// transaction that goes on behind them, unless it may end by them.
    pub fn note<L: DerefMut<Target = Manager>>(
        &mut self,
        touched: &Touched,
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

    /// Has something run since this was asked last that may have done anything, as functions of
    /// users may?
    pub fn take_run_anything(&mut self) -> bool {
        core::mem::take(&mut self.has_run_anything)
    }

    /// Has the transaction changed its settings? Then names in it may mean something else.
    pub fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// Notes that the transaction has not ended, whatever was sent.
    pub fn goes_on(&mut self) {
        self.may_be_over = false;
    }

    /// May the transaction have ended?
    pub fn may_be_over(&self) -> bool {
        self.may_be_over
    }

    /// May a read of the transaction run elsewhere at all? Not where it may have ended, or where
    /// names may mean something else: what is not understood may have changed settings, too.
    pub fn let_reads_go(&self) -> bool {
        !self.may_be_over && !self.has_settings && !self.unsent.may_write_anything()
    }

    /// Does a read touch nothing of what the transaction has written (Algorithm 1), and no table in
    /// which it has locked something?
    pub fn is_independent(&self, reads: &Sets) -> bool {
        independent(&self.unsent, reads) && !self.locked.shares_table(reads)
    }

    /// Has the schema changed since the transaction wrote? Then what it wrote is not known: a
    /// trigger or a foreign key may have come before its lock. To be asked when a read has been
    /// routed: as long as the change is Pending, that read goes to the primary.
    pub fn is_outdated(&self, generation: u64) -> bool {
        self.unsent.is_written() && self.generation != Some(generation)
    }

    /// Is something Pending?
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns what is Pending.
    pub fn pending(&self) -> impl Iterator<Item = TStateId> {
        self.pending.iter().map(|mark| mark.id)
    }

    /// Returns the statements that are to be run now, each in a transaction of its own. To be
    /// called when no transaction is open any more and everything that was sent is answered.
    pub fn ended<L: DerefMut<Target = Manager>>(
        &mut self,
        lock: impl FnOnce() -> L,
    ) -> Vec<String> {
        self.unsent = Sets::default();
        self.locked = Sets::default();
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
            manager.finished(mark.id, CommitOutcome::Committed);
        }
        Vec::new()
    }

    /// Notes that the session has ended without a connection to the primary: of what is Pending
    /// nothing was sent.
    pub fn never_sent<L: DerefMut<Target = Manager>>(&mut self, lock: impl FnOnce() -> L) {
        if !self.is_pending() {
            return;
        }
        let mut manager = lock();
        for mark in self.pending.drain(..) {
            manager.finished(mark.id, CommitOutcome::RolledBack);
        }
    }

    /// Notes that the connection to this process on the primary is lost or closed.
    pub fn lost<L: DerefMut<Target = Manager>>(&mut self, backend: u32, lock: impl FnOnce() -> L) {
        let mut manager = lock();
        for mark in self.pending.drain(..) {
            let backend = i32::try_from(backend).unwrap_or(0);
            manager.finished(mark.id, CommitOutcome::InDoubt { backend });
        }
    }
}
