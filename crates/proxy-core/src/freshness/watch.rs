//! Watched reads. A read takes its snapshot some time after its replica was chosen. Commits that
//! began since then may have become visible on the primary in another order than that of the WAL,
//! in which replicas apply them. One client may see the later commit on the primary without the
//! earlier one, and another client the earlier one at a replica without the later one. The two
//! would contradict each other (a long fork; P1).
//!
//! So a read is *watched* from the choice of its replica until its snapshot is taken. It is torn
//! only if it touches two commits since then, and the later one in the WAL may have been visible
//! first. Then it runs again, on the primary.
//!
//! A read of one row is never torn, because a writer of a row waits for the previous writer.
//!
//! A read that waits for its replica (see [`ReadMoment`](super::ReadMoment)) is watched from the
//! beginning of its wait, because the replica may have applied commits since then. It is not sent
//! to a replica whose present state would tear it.
//!
//! A standby of the primary may show a commit before the primary does, and long before if the
//! primary waits for standbys. At a standby, a read also runs again if it touches a commit that is
//! not known to be visible, even if it reads one row.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::independence::independent;
use super::indexes::Indexes;
use super::items::Tsid;
use super::mark::TStateId;
use super::pending::{PendingTransactions, ShownBefore};
use super::sets::AccessSets;

/// The most commits that are remembered for watched reads. A read that began before the oldest of
/// them is torn if any part that it reads was written.
const COMMITS_MAX: usize = 4096;

/// Keeps commits recorded while it exists.
#[derive(Clone, Debug)]
pub struct ReadWatcher {
    /// All commits up to this position were visible before the watch began.
    since: Tsid,
    _held: Arc<()>,
}

/// A watched read, from the choice of its replica on.
#[derive(Debug)]
pub struct ReadWatch {
    reads: AccessSets,
    watcher: ReadWatcher,
    /// The position up to which the replica has all commits, as far as the proxy knows.
    has: Tsid,
    /// Whether the read reads more than one row.
    may_tear: bool,
    /// Whether the replica may show commits that the primary does not show yet.
    shows_early: bool,
}

impl ReadWatch {
    /// Returns a watched read at a replica that has the commits up to `has`. Returns none if the
    /// read needs no watch: it reads at most one row, and the replica shows no commit early.
    pub fn new(
        reads: &AccessSets,
        watcher: impl FnOnce() -> ReadWatcher,
        has: Tsid,
        shows_early: bool,
    ) -> Option<ReadWatch> {
        let may_tear = !reads.read_one_row();
        (may_tear || shows_early).then(|| ReadWatch {
            reads: reads.clone(),
            watcher: watcher(),
            has,
            may_tear,
            shows_early,
        })
    }
}

/// The time at which a commit became visible on the primary, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct VisibilityOrder {
    /// The id of the transaction. None if the transaction has no mark, such as a write that
    /// bypassed the proxy.
    pub id: Option<TStateId>,
    /// None if it is not known whether the primary shows it.
    pub shown: Option<ShownBefore>,
    /// The TSID up to which all commits became visible before this one.
    pub hidden_until: Tsid,
}

/// A commit that a read watches.
#[derive(Debug)]
struct WatchedCommit {
    tsid: Tsid,
    order: VisibilityOrder,
    writes: AccessSets,
}

/// The commits since the oldest watched read began.
#[derive(Debug, Default)]
pub struct WatchedCommits {
    commits: VecDeque<WatchedCommit>,
    /// The newest commit that is no longer remembered.
    forgotten: Tsid,
    watchers: Arc<()>,
}

impl WatchedCommits {
    /// Returns a watcher. Until it is dropped, every commit from now on is remembered.
    pub fn watcher(&self, latest: Tsid) -> ReadWatcher {
        let last = self.commits.back();
        let hidden = last.filter(|last| last.order.shown.is_none());
        ReadWatcher {
            since: hidden.map_or(latest, |hidden| Tsid(hidden.tsid.0 - 1)),
            _held: Arc::clone(&self.watchers),
        }
    }

    /// Records a commit from the slot. Without a watched read, only the last commit is remembered,
    /// until it is visible.
    pub fn committed(
        &mut self,
        tsid: Tsid,
        order: VisibilityOrder,
        writes: impl FnOnce() -> AccessSets,
    ) {
        if self.commits.back().is_some_and(|last| last.tsid >= tsid) {
            return;
        }
        if Arc::strong_count(&self.watchers) == 1 {
            self.commits.clear();
            if order.shown.is_some() {
                return;
            }
        } else if self.commits.len() == COMMITS_MAX {
            let oldest = self.commits.pop_front();
            self.forgotten = oldest.map_or(self.forgotten, |oldest| oldest.tsid);
        }
        self.commits.push_back(WatchedCommit {
            tsid,
            order,
            writes: writes(),
        });
    }

    /// Records that a commit is visible, if it is the newest recorded one.
    pub fn shown(&mut self, tsid: Tsid, shown: ShownBefore) {
        if let Some(last) = self.commits.back_mut().filter(|last| last.tsid == tsid) {
            last.order.shown.get_or_insert(shown);
        }
    }

    /// Returns whether a snapshot that was taken since the watch began may contain a commit and
    /// lack another commit that was visible earlier.
    pub fn is_torn(
        &self,
        watch: &ReadWatch,
        indexes: &Indexes,
        pending: &PendingTransactions,
    ) -> bool {
        let is_early = watch.shows_early && self.is_early(watch, pending);
        let unknown = Tsid(u64::MAX);
        is_early || self.tears(watch, unknown, (indexes, pending))
    }

    /// Returns whether the replica's present state, as far as it is known, may contain a commit and
    /// lack another commit that was visible earlier.
    pub fn is_split(
        &self,
        watch: &ReadWatch,
        indexes: &Indexes,
        pending: &PendingTransactions,
    ) -> bool {
        self.tears(watch, watch.has, (indexes, pending))
    }

    /// Returns whether a state that has the replica's commits, and none after `until`, may contain
    /// a commit and lack another commit that was visible earlier.
    fn tears(
        &self,
        watch: &ReadWatch,
        until: Tsid,
        (indexes, pending): (&Indexes, &PendingTransactions),
    ) -> bool {
        let since = watch.watcher.since;
        if !watch.may_tear || indexes.need(&watch.reads) <= since {
            return false;
        }
        if self.forgotten > since {
            return true;
        }
        // Its commits in order, with when each was visible at the latest: every commit with a lower
        // number may have been visible before. A commit is left out if a later one stands for it,
        // which may have become visible as late.
        let mut has: Vec<(Tsid, TStateId)> = Vec::new();
        let touches = |writes: &AccessSets| !independent(writes, &watch.reads);
        for commit in self.since(since).filter(|it| touches(&it.writes)) {
            let order = commit.order;
            let first = has.partition_point(|(tsid, _)| *tsid <= order.hidden_until);
            let last = has.get(first).map(|(_, shown)| *shown);
            let may_lack = commit.tsid > watch.has;
            if may_lack && last.is_some_and(|last| order.id.is_none_or(|id| id < last)) {
                return true;
            }
            if commit.tsid <= until {
                let shown = order.shown.map_or(TStateId(u64::MAX), |shown| shown.0);
                while has.pop_if(|(_, before)| *before <= shown).is_some() {}
                has.push((commit.tsid, shown));
            }
        }
        let last = has.first().map(|(_, shown)| *shown);
        let mut pending = pending.iter();
        last.is_some_and(|last| pending.any(|(id, writes)| id < last && touches(writes)))
    }

    /// Returns whether the watched read may have seen a commit that the primary does not show yet.
    fn is_early(&self, watch: &ReadWatch, pending: &PendingTransactions) -> bool {
        let since = watch.watcher.since;
        let hidden = self.since(since).filter(|it| it.order.shown.is_none());
        let mut writes = hidden
            .map(|it| &it.writes)
            .chain(pending.hidden().map(|(_, writes)| writes));
        self.forgotten > since || writes.any(|writes| !independent(writes, &watch.reads))
    }

    fn since(&self, tsid: Tsid) -> impl Iterator<Item = &WatchedCommit> {
        let first = self.commits.partition_point(|it| it.tsid <= tsid);
        self.commits.range(first..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::{
        AffectingClass, CommitOutcome, ConsistencyLevel, FreshnessManager, Mark, ReceivedCommit,
        ReplicaId, RowHash, TableAccess, TableOid, TableParts, mark,
    };

    const FIRST: ReplicaId = ReplicaId(1);

    fn manager() -> FreshnessManager {
        FreshnessManager::with_limits(
            mark::MarkKey::new(b"secret"),
            1,
            Tsid(10),
            super::super::ManagerLimits::SMALL,
        )
    }

    fn write(row: u64) -> AccessSets {
        let mut sets = AccessSets::default();
        sets.touch(TableOid(1), TableAccess::write_rows([RowHash(row)]));
        sets
    }

    fn read_rows(rows: &[u64]) -> AccessSets {
        let mut sets = AccessSets::default();
        let reads = TableParts {
            rows: rows.iter().copied().map(RowHash).collect(),
            ..TableParts::default()
        };
        let touch = TableAccess {
            class: AffectingClass::Rows,
            reads: Some(reads),
            writes: None,
        };
        sets.touch(TableOid(1), touch);
        sets
    }

    fn see(manager: &mut FreshnessManager, tsid: u64, mark: Option<Mark>, row: u64) {
        manager.committed(&ReceivedCommit {
            tsid: Tsid(tsid),
            mark,
            writes: &write(row),
            has_statements: false,
            hidden_until: Tsid(0),
        });
    }

    /// Begins two commits, of which the first commits before the second is seen. Returns their
    /// marks.
    fn two_at_once(manager: &mut FreshnessManager, rows: [u64; 2]) -> [Mark; 2] {
        let marks = rows.map(|row| manager.begin_commit(write(row), None));
        manager.note_outcome(marks[0].id, CommitOutcome::Committed);
        see(manager, 12, Some(marks[0]), rows[0]);
        marks
    }

    #[test]
    fn two_that_were_under_way_together_tear() {
        let mut manager = manager();
        let watch = |manager: &FreshnessManager, rows: &[u64]| {
            let watch = manager.watch(&read_rows(rows), ConsistencyLevel::Gssi, FIRST);
            watch.expect("it reads several rows")
        };
        let before = watch(&manager, &[1, 2]);
        let other = watch(&manager, &[1, 3]);
        let marks = two_at_once(&mut manager, [1, 2]);
        // The second may have been visible before.
        assert!(manager.is_torn(&before));
        assert!(!manager.is_torn(&other), "it reads one of both only");
        let later = watch(&manager, &[1, 2]);
        manager.note_outcome(marks[1].id, CommitOutcome::Committed);
        see(&mut manager, 13, Some(marks[1]), 2);
        assert!(manager.is_torn(&before), "it is seen, and still in doubt");
        assert!(!manager.is_torn(&later));
    }

    #[test]
    fn one_after_the_other_never_tears() {
        let mut manager = manager();
        let watch = manager.watch(&AccessSets::reads_anything(), ConsistencyLevel::Gssi, FIRST);
        let watch = watch.expect("it may read all");
        for (row, tsid) in (1..5).zip(11..) {
            let mark = manager.begin_commit(write(row), None);
            manager.note_outcome(mark.id, CommitOutcome::Committed);
            see(&mut manager, tsid, Some(mark), row);
        }
        assert!(!manager.is_torn(&watch));
        // It is not known when that became visible.
        see(&mut manager, 20, None, 7);
        assert!(manager.is_torn(&watch));
    }

    /// A commit that is read before its answer has come, as one from around the proxy always is,
    /// becomes visible when the primary reports it.
    #[test]
    fn read_after_the_last_commit_is_shown_never_tears() {
        let watch = |manager: &FreshnessManager| {
            manager.watch(&AccessSets::reads_anything(), ConsistencyLevel::Gssi, FIRST)
        };
        for shows in [false, true] {
            let mut manager = manager();
            let watch = watch(&manager).expect("it may read all");
            let under_way = manager.begin_commit(write(3), None);
            see(&mut manager, 11, None, 1);
            if shows {
                manager.shown(Tsid(11));
            }
            manager.note_outcome(under_way.id, CommitOutcome::RolledBack);
            let mark = manager.begin_commit(write(2), None);
            manager.note_outcome(mark.id, CommitOutcome::Committed);
            see(&mut manager, 12, Some(mark), 2);
            assert_eq!(manager.is_torn(&watch), !shows);
        }
    }

    /// Marks follow their transactions, so that most commits have none in them. The reader's
    /// snapshots of the primary show their order.
    #[test]
    fn commits_that_were_hidden_before_never_tear() {
        for (hidden_until, is_torn) in [(11, false), (10, true)] {
            let mut manager = manager();
            let watch = manager.watch(&AccessSets::reads_anything(), ConsistencyLevel::Gssi, FIRST);
            let watch = watch.expect("it may read all");
            for (tsid, hidden_until) in [(11, 0), (12, hidden_until)] {
                manager.committed(&ReceivedCommit {
                    tsid: Tsid(tsid),
                    mark: None,
                    writes: &write(tsid),
                    has_statements: false,
                    hidden_until: Tsid(hidden_until),
                });
                manager.shown(Tsid(tsid));
            }
            assert_eq!(manager.is_torn(&watch), is_torn);
        }
    }

    #[test]
    fn one_row_is_never_torn() {
        let manager = manager();
        assert!(
            manager
                .watch(&read_rows(&[1]), ConsistencyLevel::Gssi, FIRST)
                .is_none()
        );
        assert!(
            manager
                .watch(&read_rows(&[1, 2]), ConsistencyLevel::Weak, FIRST)
                .is_none()
        );
        assert!(
            manager
                .watch(&read_rows(&[1, 2]), ConsistencyLevel::OneCopy, FIRST)
                .is_some()
        );
        assert!(
            manager
                .watch(&AccessSets::default(), ConsistencyLevel::Gssi, FIRST)
                .is_none()
        );
    }

    /// A read whose commits are not remembered may have been torn, and no commit is remembered
    /// without a watched read.
    #[test]
    fn long_reads_are_torn_by_forgotten_commits() {
        let mut manager = manager();
        see(&mut manager, 11, None, 1);
        assert_eq!(manager.commits.commits.len(), 1, "it is not visible yet");
        let mark = manager.begin_commit(write(1), None);
        manager.note_outcome(mark.id, CommitOutcome::Committed);
        see(&mut manager, 12, Some(mark), 1);
        assert!(manager.commits.commits.is_empty());
        let watch = |manager: &FreshnessManager, row| {
            manager.watch(&read_rows(&[row, 9]), ConsistencyLevel::Gssi, FIRST)
        };
        let [one, two] = [1, 2].map(|row| watch(&manager, row).expect("two rows"));
        for tsid in 0..=COMMITS_MAX as u64 {
            let mark = manager.begin_commit(write(1), None);
            manager.note_outcome(mark.id, CommitOutcome::Committed);
            see(&mut manager, 13 + tsid, Some(mark), 1);
        }
        assert!(manager.is_torn(&one));
        assert!(!manager.is_torn(&two));
        assert_eq!(manager.commits.commits.len(), COMMITS_MAX);
        drop((one, two));
        see(&mut manager, 1 << 20, None, 1);
        assert_eq!(manager.commits.commits.len(), 1);
    }
}
