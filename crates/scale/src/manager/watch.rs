//! Reads at Extensions that may be torn: a read takes its snapshot some time after its Extension was chosen, and
//! commits that began since may have become visible on the Primary in another order than that of its log, in which
//! Extensions get them. Who sees the later one on the Primary, without the earlier, and who sees the earlier one at an
//! Extension, without the later, disagree for ever (a long fork; HIHOOI c6, the strict mode).
//!
//! So a read is *watched* from the choice until its snapshot is known to have been taken. It is torn only if it
//! touches two commits since then of which the later in the log may have been visible first. Then it is
//! done again, on the Primary.
//!
//! A read of one row is never torn: who writes a row waits for who wrote it before.

use std::collections::VecDeque;
use std::sync::Arc;

use super::independence::independent;
use super::indexes::Indexes;
use super::items::Tsid;
use super::mark::TStateId;
use super::pending::Pending;
use super::sets::Sets;

/// Commits that are remembered for those that watch, at most. Who began before is torn if anything was written
/// of what it reads.
const COMMITS_MAX: usize = 4096;

/// A read from the choice of its Extension on.
#[derive(Debug)]
pub struct Watch {
    reads: Sets,
    /// The newest commit then. Those up to here, the Extension has, as far as it is read.
    latest: Tsid,
    /// While somebody has one, commits are remembered.
    _watcher: Arc<()>,
}

/// A commit that somebody watched.
#[derive(Debug)]
struct Commit {
    tsid: Tsid,
    /// None if somebody wrote without the proxy.
    id: Option<TStateId>,
    /// Whatever had this number or a higher one had not sent its COMMIT yet when this was visible; none where
    /// that is not known.
    shown: Option<TStateId>,
    writes: Sets,
}

/// Commits since the oldest watch.
#[derive(Debug, Default)]
pub struct Commits {
    commits: VecDeque<Commit>,
    /// The newest that is remembered no more.
    forgotten: Tsid,
    watchers: Arc<()>,
}

impl Commits {
    /// A read for which an Extension is chosen now; none if it cannot be torn.
    pub fn watch(&self, reads: &Sets, indexes: &Indexes) -> Option<Watch> {
        (!reads.read_one_row()).then(|| Watch {
            reads: reads.clone(),
            latest: indexes.latest(),
            _watcher: Arc::clone(&self.watchers),
        })
    }

    /// The slot's reader saw a commit.
    pub fn committed(
        &mut self,
        (tsid, id): (Tsid, Option<TStateId>),
        shown: Option<TStateId>,
        writes: impl FnOnce() -> Sets,
    ) {
        let is_watched = Arc::strong_count(&self.watchers) > 1;
        let is_again = self.commits.back().is_some_and(|last| last.tsid >= tsid);
        if !is_watched {
            self.commits.clear();
        } else if !is_again {
            if self.commits.len() == COMMITS_MAX {
                let oldest = self.commits.pop_front();
                self.forgotten = oldest.map_or(self.forgotten, |oldest| oldest.tsid);
            }
            let writes = writes();
            let commit = Commit {
                tsid,
                id,
                shown,
                writes,
            };
            self.commits.push_back(commit);
        }
    }

    /// The newest commit is visible, and `next` is the number that the next one gets.
    pub fn shown(&mut self, tsid: Tsid, next: TStateId) {
        if let Some(last) = self.commits.back_mut().filter(|last| last.tsid == tsid) {
            last.shown.get_or_insert(next);
        }
    }

    /// Whether a snapshot that was taken since may have one commit and not another that was visible before.
    pub fn is_torn(&self, watch: &Watch, indexes: &Indexes, pending: &Pending) -> bool {
        if indexes.need(&watch.reads) <= watch.latest {
            return false;
        }
        if self.forgotten > watch.latest {
            return true;
        }
        let since = self.commits.partition_point(|it| it.tsid <= watch.latest);
        // When the last of those before was visible at the latest: everything with a lower number may have been
        // visible before.
        let mut last: Option<TStateId> = None;
        let touches = |writes: &Sets| !independent(writes, &watch.reads);
        for commit in self.commits.range(since..) {
            if !touches(&commit.writes) {
                continue;
            }
            if last.is_some_and(|last| commit.id.is_none_or(|id| id < last)) {
                return true;
            }
            last = last.max(Some(commit.shown.unwrap_or(TStateId(u64::MAX))));
        }
        let mut pending = pending.iter();
        last.is_some_and(|last| pending.any(|(id, writes)| id < last && touches(writes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::{
        Class, Committed, Level, Manager, Mark, Outcome, Parts, Row, Table, Touch, mark,
    };

    fn manager() -> Manager {
        Manager::new(mark::Key::new(b"secret"), 1, Tsid(10))
    }

    fn write(row: u64) -> Sets {
        let mut sets = Sets::default();
        sets.touch(Table(1), &Touch::write_rows([Row(row)]));
        sets
    }

    fn read_rows(rows: &[u64]) -> Sets {
        let mut sets = Sets::default();
        let reads = Parts {
            rows: rows.iter().copied().map(Row).collect(),
            ..Parts::default()
        };
        let touch = Touch {
            class: Class::Rows,
            reads: Some(reads),
            writes: None,
        };
        sets.touch(Table(1), &touch);
        sets
    }

    fn see(manager: &mut Manager, tsid: u64, mark: Option<Mark>, row: u64) {
        manager.committed(&Committed {
            tsid: Tsid(tsid),
            mark,
            writes: &write(row),
            has_statements: false,
        });
    }

    /// One commits after the other began, and before it is seen.
    fn two_at_once(manager: &mut Manager, rows: [u64; 2]) -> [Mark; 2] {
        let marks = rows.map(|row| manager.begin_commit(write(row), None));
        manager.finished(marks[0].id, Outcome::Committed);
        see(manager, 12, Some(marks[0]), rows[0]);
        marks
    }

    #[test]
    fn two_that_were_under_way_together_tear() {
        let mut manager = manager();
        let watch = |manager: &Manager, rows: &[u64]| {
            let watch = manager.watch(&read_rows(rows), Level::Gssi);
            watch.expect("it reads several rows")
        };
        let before = watch(&manager, &[1, 2]);
        let other = watch(&manager, &[1, 3]);
        let marks = two_at_once(&mut manager, [1, 2]);
        // The second may have been visible before.
        assert!(manager.is_torn(&before));
        assert!(!manager.is_torn(&other), "it reads one of both only");
        let later = watch(&manager, &[1, 2]);
        manager.finished(marks[1].id, Outcome::Committed);
        see(&mut manager, 13, Some(marks[1]), 2);
        assert!(manager.is_torn(&before), "it is seen, and still in doubt");
        assert!(!manager.is_torn(&later));
    }

    #[test]
    fn one_after_the_other_never_tears() {
        let mut manager = manager();
        let watch = manager.watch(&Sets::reads_anything(), Level::Gssi);
        let watch = watch.expect("it may read all");
        for (row, tsid) in (1..5).zip(11..) {
            let mark = manager.begin_commit(write(row), None);
            manager.finished(mark.id, Outcome::Committed);
            see(&mut manager, tsid, Some(mark), row);
        }
        assert!(!manager.is_torn(&watch));
        // Nobody knows when that became visible.
        see(&mut manager, 20, None, 7);
        assert!(manager.is_torn(&watch));
    }

    /// A commit that is read before its answer has come, as one from around the proxy always is, is visible when the
    /// Primary says so.
    #[test]
    fn what_begins_when_the_last_is_shown_never_tears() {
        let watch = |manager: &Manager| manager.watch(&Sets::reads_anything(), Level::Gssi);
        for shows in [false, true] {
            let mut manager = manager();
            let watch = watch(&manager).expect("it may read all");
            let under_way = manager.begin_commit(write(3), None);
            see(&mut manager, 11, None, 1);
            if shows {
                manager.shown(Tsid(11));
            }
            manager.finished(under_way.id, Outcome::RolledBack);
            let mark = manager.begin_commit(write(2), None);
            manager.finished(mark.id, Outcome::Committed);
            see(&mut manager, 12, Some(mark), 2);
            assert_eq!(manager.is_torn(&watch), !shows);
        }
    }

    #[test]
    fn one_row_is_never_torn() {
        let manager = manager();
        assert!(manager.watch(&read_rows(&[1]), Level::Gssi).is_none());
        assert!(manager.watch(&read_rows(&[1, 2]), Level::Weak).is_none());
        assert!(manager.watch(&read_rows(&[1, 2]), Level::OneCopy).is_some());
        assert!(manager.watch(&Sets::default(), Level::Gssi).is_none());
    }

    /// What is not remembered may have been torn, and nothing is remembered for nobody.
    #[test]
    fn long_reads_are_torn_by_what_is_forgotten() {
        let mut manager = manager();
        see(&mut manager, 11, None, 1);
        assert!(manager.commits.commits.is_empty());
        let watch = |manager: &Manager, row| manager.watch(&read_rows(&[row, 9]), Level::Gssi);
        let [one, two] = [1, 2].map(|row| watch(&manager, row).expect("two rows"));
        for tsid in 0..=COMMITS_MAX as u64 {
            let mark = manager.begin_commit(write(1), None);
            manager.finished(mark.id, Outcome::Committed);
            see(&mut manager, 12 + tsid, Some(mark), 1);
        }
        assert!(manager.is_torn(&one));
        assert!(!manager.is_torn(&two));
        assert_eq!(manager.commits.commits.len(), COMMITS_MAX);
        drop((one, two));
        see(&mut manager, 1 << 20, None, 1);
        assert!(manager.commits.commits.is_empty());
    }
}
