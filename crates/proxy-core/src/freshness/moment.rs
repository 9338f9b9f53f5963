//! Tracks reads that wait for a replica instead of going to the primary.
//!
//! A read must see the commits that were finished when it began to wait. It must also see the
//! commits that were Pending then, because another client may have seen them on the primary. Later
//! commits do not matter. So its wait ends, however much is written meanwhile.
//!
//! After a wait has timed out, other reads do not wait for the same commits, or until some replica
//! makes progress.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::independence::may_see;
use super::items::Tsid;
use super::mark::TStateId;
use super::replicas::ReplicaId;
use super::sets::AccessSets;
use super::watch::{ReadWatch, ReadWatcher};
use super::{ConsistencyLevel, FreshnessManager, PrimaryReason, ReadTarget};
use crate::planted::{self, ProxyBug};

/// The time at which a read began to wait, and the commits that it waits for.
#[derive(Debug)]
pub struct ReadMoment {
    reads: AccessSets,
    level: ConsistencyLevel,
    /// The catalogue by which the touched tables were determined.
    generation: u64,
    /// The commits that were Pending when the wait began, and that touch the read.
    pending: Vec<TStateId>,
    /// The position up to which the read must see all commits, once the positions of all of these
    /// commits are known.
    need: Option<Tsid>,
    /// The position of the most advanced replica when the wait began.
    newest: Option<Tsid>,
    /// The watcher of the read; none if its level needs none.
    watcher: Option<ReadWatcher>,
}

/// The waits that have timed out.
#[derive(Debug, Default)]
pub struct TimedOutWaits {
    pending: BTreeSet<TStateId>,
    /// A replica must advance beyond this position before reads wait again.
    newest: Option<Tsid>,
}

impl FreshnessManager {
    /// Returns a new [`ReadMoment`] for a read that waits from now on: the commits that the read
    /// must see. Pass sets that read anything for a transaction that waits for its snapshot,
    /// because it may read any table.
    pub fn moment(&self, reads: &AccessSets, level: ConsistencyLevel) -> ReadMoment {
        let reads = match level {
            ConsistencyLevel::RsiPc => AccessSets::reads_anything(),
            ConsistencyLevel::Weak | ConsistencyLevel::Gssi | ConsistencyLevel::OneCopy => {
                reads.clone()
            }
        };
        let pending = self.pending.iter();
        let touching = pending.filter(|(_, writes)| may_see(writes, &reads));
        let pending = match level {
            ConsistencyLevel::Weak => Vec::new(),
            _ if planted::is(ProxyBug::WaitIgnoresPending) => Vec::new(),
            _ => touching.map(|(id, _)| id).collect(),
        };
        let watcher = Self::is_strict(level).then(|| self.watcher());
        ReadMoment {
            reads,
            level,
            generation: self.generation,
            pending,
            need: None,
            newest: self.replicas.newest(),
            watcher,
        }
    }

    /// Returns whether a wait is useless, because an earlier one has timed out: for one of these
    /// Pending commits, or since the last progress of any replica.
    pub fn is_hopeless(&self, moment: &ReadMoment) -> bool {
        let mut pending = moment.pending.iter();
        let newest = self.timed_out.newest;
        pending.any(|id| self.timed_out.pending.contains(id))
            || newest.is_some() && newest == moment.newest
    }

    /// Records that a wait has timed out, so that other reads do not wait for the same commits.
    pub fn wait_timed_out(&mut self, moment: &ReadMoment) {
        let timed_out = &mut self.timed_out;
        timed_out.pending.extend(&moment.pending);
        timed_out.pending.retain(|id| self.pending.contains(*id));
        if moment.pending.is_empty() && self.replicas.newest() == moment.newest {
            timed_out.newest = moment.newest;
        }
    }

    /// Returns the present route of a waiting read. While the TSIDs of its commits are unknown, or
    /// no replica has these commits, the route is the primary, and the caller asks again a little
    /// later (P1). Otherwise the read is watched from the beginning of its wait.
    pub fn route_moment(&mut self, moment: &mut ReadMoment) -> (ReadTarget, Option<ReadWatch>) {
        if moment.generation != self.generation {
            return (ReadTarget::Primary(PrimaryReason::Outdated), None);
        }
        if planted::is(ProxyBug::WaitIsNotWatched) {
            moment.watcher = moment.watcher.take().map(|_| self.watcher());
        }
        moment.pending.retain(|id| self.pending.contains(*id));
        if !moment.pending.is_empty() {
            return (ReadTarget::Primary(PrimaryReason::Pending), None);
        }
        let need = self.need(&moment.reads, moment.level);
        let need = *moment.need.get_or_insert(need);
        let watch = |id, has| -> Option<ReadWatch> {
            let shows_early = self.replicas.shows_early(id);
            let watcher = moment.watcher.as_ref()?;
            ReadWatch::new(&moment.reads, || watcher.clone(), has, shows_early)
        };
        let is_whole = |id: ReplicaId, has: Tsid| {
            let commits = &self.commits;
            let is_split =
                |watch: &ReadWatch| commits.is_split(watch, &self.indexes, &self.pending);
            watch(id, has).is_none_or(|watch| !is_split(&watch))
                || planted::is(ProxyBug::TornReadsCount)
        };
        let target = self.least_loaded(need, is_whole);
        match target {
            ReadTarget::Replica { id, applied, .. } => (target, watch(id, applied)),
            ReadTarget::Primary(_) => (target, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FIRST, LIFE, SECOND, read, see, two_replicas, write};
    use super::*;
    use crate::freshness::{
        AffectingClass, CommitOutcome, Mark, RowHash, TableAccess, TableOid, TableParts,
    };

    fn committed(manager: &mut FreshnessManager, tsid: u64, mark: Mark, row: u64) {
        manager.note_outcome(mark.id, CommitOutcome::Committed);
        see(manager, tsid, Some(mark), &write(1, row));
    }

    fn at(id: ReplicaId, need: Tsid) -> ReadTarget {
        ReadTarget::Replica {
            id,
            need,
            applied: need,
            life: LIFE,
        }
    }

    /// P1: a snapshot covers the acknowledged and the Pending commits, and waits for no later
    /// commit.
    #[test]
    fn moment_waits_for_earlier_pending_commits_only() {
        for reads in [read(1), AccessSets::reads_anything()] {
            let mut manager = two_replicas();
            let first = manager.begin_commit(write(1, 7), None);
            let mut moment = manager.moment(&reads, ConsistencyLevel::Gssi);
            let mut weak = manager.moment(&reads, ConsistencyLevel::Weak);
            let pending = ReadTarget::Primary(PrimaryReason::Pending);
            assert_eq!(manager.route_moment(&mut moment).0, pending);
            let (target, watch) = manager.route_moment(&mut weak);
            assert_eq!(
                (target, watch.is_none()),
                (at(FIRST, Tsid(0)).with(Tsid(10)), true)
            );
            committed(&mut manager, 12, first, 7);
            let later = manager.begin_commit(write(1, 8), None);
            let need = Tsid(12);
            let lacks = ReadTarget::Primary(PrimaryReason::NoneFresh { need });
            assert_eq!(manager.route_moment(&mut moment).0, lacks);
            committed(&mut manager, 13, later, 8);
            manager.applied(SECOND, need);
            let (target, watch) = manager.route_moment(&mut moment);
            assert_eq!(target, at(SECOND, need));
            assert!(!manager.is_torn(&watch.expect("it reads more than a row")));
        }
    }

    /// A read does not wait for Pending commits that do not touch it.
    #[test]
    fn moment_ignores_commits_of_other_rows() {
        let mut manager = two_replicas();
        manager.begin_commit(write(2, 7), None);
        let mut moment = manager.moment(&read(1), ConsistencyLevel::Gssi);
        assert_eq!(manager.route_moment(&mut moment).0, at(FIRST, Tsid(10)));
        let mut moment = manager.moment(&read(1), ConsistencyLevel::RsiPc);
        let pending = ReadTarget::Primary(PrimaryReason::Pending);
        assert_eq!(manager.route_moment(&mut moment).0, pending);
    }

    /// Two commits in progress together, of which the replica has the first: the second may have
    /// been visible before.
    #[test]
    fn tearing_replica_is_not_chosen() {
        let mut manager = two_replicas();
        let first = manager.begin_commit(write(1, 7), None);
        let mut moment = manager.moment(&read(1), ConsistencyLevel::Gssi);
        let second = manager.begin_commit(write(1, 8), None);
        committed(&mut manager, 12, first, 7);
        manager.applied(SECOND, Tsid(12));
        let (split, need) = (manager.route_moment(&mut moment).0, Tsid(12));
        assert_eq!(
            split,
            ReadTarget::Primary(PrimaryReason::NoneFresh { need })
        );
        committed(&mut manager, 13, second, 8);
        manager.applied(FIRST, Tsid(13));
        let (whole, watch) = manager.route_moment(&mut moment);
        assert_eq!(whole, at(FIRST, need).with(Tsid(13)));
        let watch = watch.expect("it reads more than a row");
        assert!(!manager.is_torn(&watch));
        let mut row = manager.moment(&row_of(7), ConsistencyLevel::Gssi);
        assert!(manager.route_moment(&mut row).1.is_none(), "one row");
    }

    /// If replication is blocked, or a commit takes long, only one read waits until the time limit.
    #[test]
    fn wait_that_timed_out_is_not_repeated() {
        let mut manager = two_replicas();
        let slow = manager.begin_commit(write(1, 7), None);
        let moment = manager.moment(&read(1), ConsistencyLevel::Gssi);
        assert!(!manager.is_hopeless(&moment));
        manager.wait_timed_out(&moment);
        let again = |manager: &FreshnessManager, table| {
            let moment = manager.moment(&read(table), ConsistencyLevel::Gssi);
            manager.is_hopeless(&moment)
        };
        assert!(again(&manager, 1));
        assert!(!again(&manager, 2), "another table");
        committed(&mut manager, 12, slow, 7);
        assert!(!again(&manager, 1), "it is in the log");
        let moment = manager.moment(&read(1), ConsistencyLevel::Gssi);
        manager.wait_timed_out(&moment);
        assert!(again(&manager, 1) && again(&manager, 2));
        manager.applied(SECOND, Tsid(11));
        assert!(!again(&manager, 1));
        manager.wait_timed_out(&moment);
        assert!(!again(&manager, 1), "it got something meanwhile");
    }

    /// It may touch something else by now.
    #[test]
    fn a_new_catalogue_ends_the_wait() {
        let mut manager = two_replicas();
        let mut moment = manager.moment(&read(1), ConsistencyLevel::Gssi);
        manager.catalogue_replaced(1);
        let outdated = ReadTarget::Primary(PrimaryReason::Outdated);
        assert_eq!(manager.route_moment(&mut moment).0, outdated);
    }

    /// It shows commits before the primary does: a client that has seen one there, and asks the
    /// primary, would not see it.
    #[test]
    fn early_commits_of_a_standby_do_not_count() {
        let mut manager = two_replicas();
        manager.shows_early(FIRST);
        let reads = row_of(7);
        assert!(
            manager
                .watch(&reads, ConsistencyLevel::Gssi, SECOND)
                .is_none(),
            "one row"
        );
        let watch = |manager: &FreshnessManager| {
            let watch = manager.watch(&reads, ConsistencyLevel::Gssi, FIRST);
            watch.expect("it is a standby")
        };
        let before = watch(&manager);
        let other = manager.begin_commit(write(1, 8), None);
        assert!(!manager.is_torn(&before), "another row");
        let mark = manager.begin_commit(write(1, 7), None);
        assert!(manager.is_torn(&before), "it may be there already");
        see(&mut manager, 12, Some(mark), &write(1, 7));
        assert!(manager.is_torn(&before), "it is not known to be visible");
        manager.applied(FIRST, Tsid(12));
        assert!(manager.is_torn(&watch(&manager)), "nor since");
        manager.shown(Tsid(12));
        assert!(!manager.is_torn(&before) && !manager.is_torn(&watch(&manager)));
        manager.note_outcome(other.id, CommitOutcome::RolledBack);
    }

    /// Returns a read of one row of the first table.
    fn row_of(row: u64) -> AccessSets {
        let mut sets = AccessSets::default();
        let rows = TableParts {
            rows: [RowHash(row)].into_iter().collect(),
            ..TableParts::default()
        };
        let touch = TableAccess {
            class: AffectingClass::Rows,
            reads: Some(rows),
            writes: None,
        };
        sets.touch(TableOid(1), touch);
        sets
    }

    impl ReadTarget {
        /// Returns this route with a replica that has every commit up to `has`.
        fn with(self, has: Tsid) -> ReadTarget {
            match self {
                ReadTarget::Replica { id, need, life, .. } => ReadTarget::Replica {
                    id,
                    need,
                    applied: has,
                    life,
                },
                primary => primary,
            }
        }
    }
}
