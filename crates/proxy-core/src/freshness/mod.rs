//! The manager: tracks pending and finished commits, and the commits of each replica, and decides
//! on which servers a read may run.
//!
//! It has no I/O and no clock. The proxy reports commits before and after they happen, the slot's
//! reader reports their order, and the Extractors their progress. One lock around a
//! [`FreshnessManager`] is enough, because no call waits.
//!
//! Invariants:
//! - From before COMMIT is sent until the indexes know the commit, its write set is in Pending, and
//!   a read that may touch it goes to the primary (R32).
//! - A read goes to a replica only if the replica has applied every commit that the read must see,
//!   by Algorithm 4. Without a proof it goes to the primary (R33).
//! - A commit is given to replicas only after the primary shows it.

use alloc::vec::Vec;
use core::time::Duration;

pub mod execution;
pub mod independence;
pub mod indexes;
pub mod items;
pub mod mark;
#[cfg(any(test, feature = "testing"))]
pub mod paper;
pub mod sets;

#[cfg(test)]
mod fixture;
mod moment;
mod pending;
mod replicas;
mod watch;

pub use items::{ColumnNumber, CountedItems, RowHash, TableOid, Tsid};
pub use mark::{Mark, TStateId};
pub use moment::ReadMoment;
pub use pending::CommitOutcome;
pub use replicas::{Replica, ReplicaId, ReplicaState, ServerLife};
pub use sets::{AccessSets, AffectingClass, TableAccess, TableParts, TableSets};
pub use watch::ReadWatch;

use independence::may_see;
use indexes::Indexes;
use moment::TimedOutWaits;
use pending::{PendingTransactions, ShownBefore};
use replicas::ReplicaMap;
use watch::{ReadWatcher, VisibilityOrder, WatchedCommits};

use crate::planted::{self, ProxyBug};

/// Rows that come to RIndex between two prunings, at most: a commit may write many.
const PRUNE_ROWS: usize = 4096;

/// The limits of a manager's indexes.
#[derive(Clone, Copy, Debug)]
pub struct ManagerLimits {
    /// Commits between two prunings of RIndex.
    pub prune_interval: u64,
    /// While RIndex has no more rows than this, it keeps the rows that an unavailable replica
    /// lacks. The replica then serves as soon as it is back.
    pub rows_for_unavailable_max: usize,
}

impl Default for ManagerLimits {
    fn default() -> ManagerLimits {
        ManagerLimits {
            prune_interval: 1024,
            rows_for_unavailable_max: 1 << 16,
        }
    }
}

impl ManagerLimits {
    /// Limits that are so low that tests reach them.
    pub const SMALL: ManagerLimits = ManagerLimits {
        prune_interval: 8,
        rows_for_unavailable_max: 4,
    };
}

/// The primary may have this many more sessions than a replica before reads are kept off it: it
/// answers them at once, where replication takes a millisecond or two.
const SPARE: u64 = 4;

/// How consistent a session's reads are (the paper's section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ConsistencyLevel {
    /// Global Strong Snapshot Isolation: every read sees all committed transactions that it must
    /// see.
    #[default]
    Gssi,
    /// Weak: any replica, however old.
    Weak,
    /// Only replicas that have everything.
    RsiPc,
    /// Reads as [`ConsistencyLevel::Gssi`]; the proxy answers a commit once all replicas have it.
    OneCopy,
}

/// The server of a read, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// The primary.
    Primary(PrimaryReason),
    /// A replica that has `applied`, at least the `need`.
    Replica {
        /// Which.
        id: ReplicaId,
        /// The commits that the read must see.
        need: Tsid,
        /// The position up to which the replica has applied all commits.
        applied: Tsid,
        /// The life of its server that has it. A connection that is opened for this read, and
        /// reaches another life, has found a server that crashed and lost commits, which
        /// replication has not noticed yet.
        life: ServerLife,
    },
}

/// The reason why a read goes to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrimaryReason {
    /// The statement writes, or it is not proven that it does not write.
    Writes,
    /// The read touches a commit that is Pending.
    Pending,
    /// No serving replica has all commits that the read must see.
    NoneFresh {
        /// The position up to which the read must see all commits.
        need: Tsid,
    },
    /// The rows that the read touches were determined by a catalogue that has changed since.
    Outdated,
}

/// A commit as the slot's reader received it.
#[derive(Debug)]
pub struct ReceivedCommit<'a> {
    /// The position of the commit in the primary's WAL.
    pub tsid: Tsid,
    /// The proxy's own mark in the commit; none in most commits, because a mark is written in a
    /// separate transaction.
    pub mark: Option<Mark>,
    /// The written rows, from its row images.
    pub writes: &'a AccessSets,
    /// Whether the commit has statements such as DDL, whose effects row images do not show.
    pub has_statements: bool,
    /// The primary showed every commit up to this position before it showed this one; 0 if no such
    /// position is known.
    pub hidden_until: Tsid,
}

/// Pending and finished commits, and the commits that each replica has.
#[derive(Debug)]
pub struct FreshnessManager {
    key: mark::MarkKey,
    epoch: u64,
    next_id: u64,
    pending: PendingTransactions,
    indexes: Indexes,
    /// The commits since the oldest watched read began.
    commits: WatchedCommits,
    replicas: ReplicaMap,
    /// Sessions that are on the primary.
    primary_running: u64,
    timed_out: TimedOutWaits,
    commit_count: u64,
    /// RIndex is pruned when it has this many rows.
    rows_max: usize,
    /// Memory that the indexes took, at most, in bytes.
    index_bytes_max: usize,
    /// The catalogue by which touched tables are determined now. It rises with each change.
    generation: u64,
    limits: ManagerLimits,
}

impl FreshnessManager {
    /// Makes a manager that begins when everything up to `floor` was committed. `epoch` is higher
    /// than that of every manager before. `key` signs the manager's messages in the log.
    pub fn new(key: mark::MarkKey, epoch: u64, floor: Tsid) -> FreshnessManager {
        FreshnessManager::with_limits(key, epoch, floor, ManagerLimits::default())
    }

    /// Returns a manager as [`FreshnessManager::new`] does, but with these limits.
    pub fn with_limits(
        key: mark::MarkKey,
        epoch: u64,
        floor: Tsid,
        limits: ManagerLimits,
    ) -> FreshnessManager {
        FreshnessManager {
            limits,
            key,
            epoch,
            next_id: 1,
            pending: PendingTransactions::default(),
            indexes: Indexes::new(floor),
            commits: WatchedCommits::default(),
            replicas: ReplicaMap::default(),
            primary_running: 0,
            timed_out: TimedOutWaits::default(),
            commit_count: 0,
            rows_max: PRUNE_ROWS,
            index_bytes_max: 0,
            generation: 0,
        }
    }

    /// Records that COMMIT is about to be sent for a transaction that writes `writes` (R32).
    /// `generation` is that of the catalogue with which the writes were determined; none if they
    /// depend on no catalogue. Returns the mark. The caller writes the mark after the transaction,
    /// on the same connection (R29).
    pub fn begin_commit(&mut self, writes: AccessSets, generation: Option<u64>) -> Mark {
        let id = TStateId(self.next_id);
        self.next_id += 1;
        let is_outdated = generation.is_some_and(|generation| generation < self.generation);
        let writes = match is_outdated {
            true => AccessSets::writes_anything(),
            false => writes,
        };
        self.pending.insert(id, writes);
        Mark {
            epoch: self.epoch,
            id,
        }
    }

    /// Returns the key that signs the marks and statements that the proxy writes into the log.
    pub fn key(&self) -> &mark::MarkKey {
        &self.key
    }

    /// Records a newer catalogue. Pending writes were determined with an older catalogue, and may
    /// have run on the newer tables, with a trigger or a foreign key that the older catalogue
    /// lacks. So each of them counts as a write of everything (R33).
    pub fn catalogue_replaced(&mut self, generation: u64) {
        self.generation = generation;
        self.pending.widen();
    }

    /// Records the outcome of a commit that the primary's connection has reported.
    ///
    /// A committed transaction stays Pending until the slot's reader has it. So does a transaction
    /// in doubt, at most until [`FreshnessManager::settle_doubts`].
    pub fn note_outcome(&mut self, id: TStateId, outcome: CommitOutcome) {
        let next = TStateId(self.next_id);
        self.pending.note_outcome(id, outcome, next);
    }

    /// Returns the time for which the oldest Pending commit has been Pending; none if there is no
    /// Pending commit. A commit's time counts from the first call that finds it.
    pub fn oldest_pending(&mut self, now: Duration) -> Option<Duration> {
        self.pending.stamp(now);
        self.pending.age_of_oldest(now)
    }

    /// Returns the commits that are in doubt, each with the process on the primary that had it.
    pub fn in_doubt(&self) -> Vec<(TStateId, i32)> {
        self.pending.in_doubt()
    }

    /// Records that these commits in doubt did not happen: their processes on the primary have
    /// ended, and the slot's reader has read every earlier commit without finding them.
    pub fn settle_doubts(&mut self, ids: &[TStateId]) {
        for id in ids {
            self.note_outcome(*id, CommitOutcome::RolledBack);
        }
    }

    /// Records a commit of the slot's reader. Returns whether the primary is known to show the
    /// commit already. If not, the reader asks the primary before it sends the commit to replicas.
    pub fn committed(&mut self, committed: &ReceivedCommit<'_>) -> bool {
        self.indexes.update(committed.writes, committed.tsid);
        if committed.has_statements {
            self.indexes
                .update(&AccessSets::writes_anything(), committed.tsid);
        }
        self.prune_now_and_then();
        let is_ours =
            |mark: &Mark| mark.epoch == self.epoch || planted::is(ProxyBug::MarkOfAnyEpoch);
        let id = committed.mark.filter(is_ours).map(|mark| mark.id);
        let shown = id.and_then(|id| self.pending.committed(id));
        let writes = || match committed.has_statements {
            true => AccessSets::writes_anything(),
            false => committed.writes.clone(),
        };
        let hidden_until = match planted::is(ProxyBug::HiddenWithoutProof) {
            true => Tsid(committed.tsid.0 - 1),
            false => committed.hidden_until,
        };
        let order = VisibilityOrder {
            id,
            shown,
            hidden_until,
        };
        self.commits.committed(committed.tsid, order, writes);
        shown.is_some() || planted::is(ProxyBug::GivenBeforeShown)
    }

    /// Records that a commit is visible on the primary. The reader of the slot had got the commit
    /// earlier.
    pub fn shown(&mut self, tsid: Tsid) {
        let shown = ShownBefore(TStateId(self.next_id));
        self.commits.shown(tsid, shown);
    }

    /// Returns the server for a read with these sets. The caller brackets its work there with
    /// [`FreshnessManager::started`] and [`FreshnessManager::ended`].
    pub fn route(&mut self, reads: &AccessSets, level: ConsistencyLevel) -> ReadTarget {
        if reads.is_written() {
            return ReadTarget::Primary(PrimaryReason::Writes);
        }
        let need = self.need(reads, level);
        let touches_pending = match level {
            ConsistencyLevel::Weak => false,
            ConsistencyLevel::RsiPc => !self.pending.is_empty(),
            ConsistencyLevel::Gssi | ConsistencyLevel::OneCopy => {
                may_see(self.pending.merged_writes(), reads)
            }
        };
        if touches_pending {
            return ReadTarget::Primary(PrimaryReason::Pending);
        }
        self.least_loaded(need, |_, _| true)
    }

    /// Returns the position up to which a read must see all commits, of those whose position is
    /// known.
    fn need(&self, reads: &AccessSets, level: ConsistencyLevel) -> Tsid {
        match level {
            ConsistencyLevel::Weak => Tsid(0),
            ConsistencyLevel::RsiPc => self.indexes.latest(),
            ConsistencyLevel::Gssi | ConsistencyLevel::OneCopy => self.indexes.need(reads),
        }
    }

    /// Watches a read for which [`FreshnessManager::route`] has just chosen this replica. Returns
    /// none if the read cannot be torn there, or if its level allows torn reads.
    pub fn watch(
        &self,
        reads: &AccessSets,
        level: ConsistencyLevel,
        id: ReplicaId,
    ) -> Option<ReadWatch> {
        if !Self::is_strict(level) {
            return None;
        }
        let shows_early = self.replicas.shows_early(id);
        let watcher = || self.watcher();
        ReadWatch::new(reads, watcher, self.indexes.latest(), shows_early)
    }

    /// Returns whether a snapshot that was taken at the replica since the watch began may be torn.
    /// The caller must then run the read again, on the primary.
    pub fn is_torn(&self, watch: &ReadWatch) -> bool {
        self.commits.is_torn(watch, &self.indexes, &self.pending)
            && !planted::is(ProxyBug::TornReadsCount)
    }

    fn watcher(&self) -> ReadWatcher {
        self.commits.watcher(self.indexes.latest())
    }

    fn is_strict(level: ConsistencyLevel) -> bool {
        matches!(level, ConsistencyLevel::Gssi | ConsistencyLevel::OneCopy)
    }

    fn least_loaded(&self, need: Tsid, is_good: impl Fn(ReplicaId, Tsid) -> bool) -> ReadTarget {
        match self.replicas.least_loaded(need, is_good) {
            Some((id, life, applied)) => ReadTarget::Replica {
                id,
                need,
                applied,
                life,
            },
            None => ReadTarget::Primary(PrimaryReason::NoneFresh { need }),
        }
    }

    /// Returns whether a replica still serves and has every commit up to `need`. It may have been
    /// removed, or have lost commits in a crash, while the read waited for a connection.
    pub fn has(&self, id: ReplicaId, need: Tsid) -> bool {
        self.replicas.has(id, need) || planted::is(ProxyBug::GoneBackServes)
    }

    /// Records that a read began at a replica, or, with none, that a session began to use the
    /// primary.
    pub fn started(&mut self, id: Option<ReplicaId>) {
        match id {
            Some(id) => self.replicas.started(id),
            None => self.primary_running += 1,
        }
    }

    /// Records that a read at a replica has ended, or, with none, a session's use of the primary.
    pub fn ended(&mut self, id: Option<ReplicaId>) {
        match id {
            Some(id) => self.replicas.ended(id),
            None => self.primary_running = self.primary_running.saturating_sub(1),
        }
    }

    /// Returns whether the primary has more than `SPARE` more sessions than the serving replica
    /// with the fewest reads. Then it is better that a read waits for this replica. Returns false
    /// if no replica serves.
    pub fn is_primary_busier(&self) -> bool {
        let least = self.replicas.running_least();
        least.is_some_and(|least| self.primary_running > least + SPARE)
    }

    /// Records that this replica is a standby, which may show commits before the primary does.
    pub fn shows_early(&mut self, id: ReplicaId) {
        self.replicas.set_shows_early(id);
    }

    /// Adds a replica that replication has not connected to yet.
    pub fn add_replica(&mut self, id: ReplicaId) {
        self.replicas.add(id, Tsid(0), None);
    }

    /// Records that replication has connected to a replica, which has every commit up to `applied`.
    /// It serves reads once its state is [`ReplicaState::Serving`].
    pub fn connected(&mut self, id: ReplicaId, life: ServerLife, applied: Tsid) {
        self.replicas.add(id, applied, Some(life));
    }

    /// Removes a replica for good.
    pub fn remove_replica(&mut self, id: ReplicaId) {
        self.replicas.remove(id);
    }

    /// Sets whether a replica serves.
    pub fn set_state(&mut self, id: ReplicaId, state: ReplicaState) {
        self.replicas.set_state(id, state);
    }

    /// Records that a replica has executed every commit up to `tsid`.
    pub fn applied(&mut self, id: ReplicaId, tsid: Tsid) {
        self.replicas.applied(id, tsid);
    }

    /// Returns the state of each replica, by its number.
    pub fn replicas(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        self.replicas.iter()
    }

    /// Returns the newest commit of the slot's reader.
    pub fn latest(&self) -> Tsid {
        self.indexes.latest()
    }

    /// Returns the memory that the three indexes took so far, at most, in bytes.
    pub fn index_bytes_max(&self) -> usize {
        self.index_bytes_max.max(self.indexes.bytes())
    }

    /// Returns whether this commit is Pending: it may have happened, and the slot's reader has not
    /// read it yet.
    pub fn is_pending(&self, id: TStateId) -> bool {
        self.pending.contains(id)
    }

    /// Returns the number of commits that are Pending.
    pub fn pending_count(&self) -> usize {
        self.pending.count()
    }

    /// Returns the position that every serving replica has, if one serves.
    pub fn applied_everywhere(&self) -> Option<Tsid> {
        self.replicas.applied_everywhere()
    }

    fn prune_now_and_then(&mut self) {
        self.commit_count += 1;
        let has_many = self.indexes.row_count() >= self.rows_max;
        if !has_many && !self.commit_count.is_multiple_of(self.limits.prune_interval) {
            return;
        }
        self.index_bytes_max = self.index_bytes_max();
        let applied = match self.indexes.row_count() <= self.limits.rows_for_unavailable_max {
            true => self.replicas.applied_wherever(),
            false => self.applied_everywhere(),
        };
        if let Some(applied) = applied {
            self.indexes.prune(applied);
        }
        self.rows_max = self.indexes.row_count() + PRUNE_ROWS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const FIRST: ReplicaId = ReplicaId(1);
    pub(super) const SECOND: ReplicaId = ReplicaId(2);
    pub(super) const LIFE: ServerLife = ServerLife(1);

    pub(super) fn read(table: u32) -> AccessSets {
        let mut sets = AccessSets::default();
        sets.touch(TableOid(table), TableAccess::read_table());
        sets
    }

    pub(super) fn write(table: u32, row: u64) -> AccessSets {
        let mut sets = AccessSets::default();
        sets.touch(TableOid(table), TableAccess::write_rows([RowHash(row)]));
        sets
    }

    pub(super) fn two_replicas() -> FreshnessManager {
        let mut manager = FreshnessManager::with_limits(
            mark::MarkKey::new(b"secret"),
            1,
            Tsid(10),
            ManagerLimits::SMALL,
        );
        for id in [FIRST, SECOND] {
            manager.connected(id, LIFE, Tsid(10));
            manager.set_state(id, ReplicaState::Serving);
        }
        manager
    }

    pub(super) fn see(
        manager: &mut FreshnessManager,
        tsid: u64,
        mark: Option<Mark>,
        writes: &AccessSets,
    ) -> bool {
        manager.committed(&ReceivedCommit {
            tsid: Tsid(tsid),
            mark,
            writes,
            has_statements: false,
            hidden_until: Tsid(0),
        })
    }

    fn goes_to_primary(
        manager: &mut FreshnessManager,
        reads: &AccessSets,
    ) -> Option<PrimaryReason> {
        match manager.route(reads, ConsistencyLevel::Gssi) {
            ReadTarget::Primary(reason) => Some(reason),
            ReadTarget::Replica { .. } => None,
        }
    }

    /// R32: from before COMMIT until a replica has it, a read that must see it never misses it.
    #[test]
    fn commit_is_never_missed() {
        let mut manager = two_replicas();
        let mark = manager.begin_commit(write(1, 7), None);
        let pending = Some(PrimaryReason::Pending);
        assert_eq!(goes_to_primary(&mut manager, &read(1)), pending);
        assert_eq!(goes_to_primary(&mut manager, &read(2)), None);
        manager.note_outcome(mark.id, CommitOutcome::Committed);
        assert_eq!(goes_to_primary(&mut manager, &read(1)), pending);
        assert!(see(&mut manager, 12, Some(mark), &write(1, 7)));
        let need = Tsid(12);
        let stale = Some(PrimaryReason::NoneFresh { need });
        assert_eq!(goes_to_primary(&mut manager, &read(1)), stale);
        manager.applied(SECOND, need);
        let expected = ReadTarget::Replica {
            id: SECOND,
            need,
            applied: need,
            life: LIFE,
        };
        assert_eq!(manager.route(&read(1), ConsistencyLevel::Gssi), expected);
    }

    #[test]
    fn commit_seen_before_its_answer_is_not_known_to_be_shown() {
        let mut manager = two_replicas();
        let mark = manager.begin_commit(write(1, 7), None);
        assert!(!see(&mut manager, 12, Some(mark), &write(1, 7)));
        manager.note_outcome(mark.id, CommitOutcome::Committed);
        assert_eq!(manager.pending_count(), 0);
    }

    #[test]
    fn doubt_keeps_reads_on_the_primary_until_it_is_settled() {
        let mut manager = two_replicas();
        let mark = manager.begin_commit(AccessSets::writes_anything(), None);
        manager.note_outcome(mark.id, CommitOutcome::InDoubt { backend: 99 });
        assert_eq!(manager.in_doubt(), [(mark.id, 99)]);
        assert!(goes_to_primary(&mut manager, &read(5)).is_some());
        manager.settle_doubts(&[mark.id]);
        assert_eq!(goes_to_primary(&mut manager, &read(5)), None);
    }

    #[test]
    fn writers_that_bypass_the_proxy_raise_needs() {
        let mut manager = two_replicas();
        assert!(!see(&mut manager, 20, None, &write(1, 1)));
        assert!(goes_to_primary(&mut manager, &read(1)).is_some());
        assert_eq!(goes_to_primary(&mut manager, &read(2)), None);
    }

    #[test]
    fn mark_of_another_epoch_settles_nothing() {
        let mut manager = two_replicas();
        let ours = manager.begin_commit(write(1, 7), None);
        let mut theirs = ours;
        theirs.epoch = 0;
        assert!(!see(&mut manager, 12, Some(theirs), &write(1, 7)));
        assert_eq!(manager.pending_count(), 1);
    }

    #[test]
    fn statement_touches_everything() {
        let mut manager = two_replicas();
        let mark = manager.begin_commit(AccessSets::writes_anything(), None);
        manager.committed(&ReceivedCommit {
            tsid: Tsid(12),
            mark: Some(mark),
            writes: &AccessSets::default(),
            has_statements: true,
            hidden_until: Tsid(0),
        });
        let need = Tsid(12);
        let reason = goes_to_primary(&mut manager, &read(9));
        assert_eq!(reason, Some(PrimaryReason::NoneFresh { need }));
    }

    /// A schema change may create the operators of a read of no table.
    #[test]
    fn reads_of_no_table_see_the_schema() {
        let mut manager = two_replicas();
        let nothing = AccessSets::default();
        assert_eq!(goes_to_primary(&mut manager, &nothing), None);
        let mark = manager.begin_commit(AccessSets::writes_anything(), None);
        let reason = goes_to_primary(&mut manager, &nothing);
        assert_eq!(reason, Some(PrimaryReason::Pending));
        let mut moment = manager.moment(&nothing, ConsistencyLevel::Gssi);
        let (target, _) = manager.route_moment(&mut moment);
        assert_eq!(target, ReadTarget::Primary(PrimaryReason::Pending));
        see(&mut manager, 12, Some(mark), &AccessSets::writes_anything());
        let need = Tsid(12);
        let reason = goes_to_primary(&mut manager, &nothing);
        assert_eq!(reason, Some(PrimaryReason::NoneFresh { need }));
    }

    /// A write that used an old catalogue may have written the rows of a new trigger.
    #[test]
    fn writes_by_an_old_catalogue_may_be_of_anything() {
        let mut manager = two_replicas();
        let old = manager.begin_commit(write(1, 7), Some(0));
        assert_eq!(goes_to_primary(&mut manager, &read(2)), None);
        manager.catalogue_replaced(1);
        let pending = Some(PrimaryReason::Pending);
        assert_eq!(goes_to_primary(&mut manager, &read(2)), pending);
        see(&mut manager, 12, Some(old), &write(1, 7));
        assert_eq!(goes_to_primary(&mut manager, &read(2)), None);
        let late = manager.begin_commit(write(1, 7), Some(0));
        assert_eq!(goes_to_primary(&mut manager, &read(2)), pending);
        see(&mut manager, 13, Some(late), &write(1, 7));
        manager.begin_commit(write(1, 7), Some(1));
        assert_eq!(goes_to_primary(&mut manager, &read(2)), None);
    }

    #[test]
    fn levels_differ() {
        let mut manager = two_replicas();
        let mark = manager.begin_commit(write(1, 7), None);
        let on_primary = |manager: &mut FreshnessManager, table, level| {
            matches!(manager.route(&read(table), level), ReadTarget::Primary(_))
        };
        assert!(!on_primary(&mut manager, 1, ConsistencyLevel::Weak));
        assert!(on_primary(&mut manager, 2, ConsistencyLevel::RsiPc));
        assert!(!on_primary(&mut manager, 2, ConsistencyLevel::Gssi));
        see(&mut manager, 12, Some(mark), &write(1, 7));
        assert!(on_primary(&mut manager, 2, ConsistencyLevel::RsiPc));
        assert!(!on_primary(&mut manager, 2, ConsistencyLevel::OneCopy));
    }

    #[test]
    fn replica_that_has_gone_back_loses_its_position() {
        let mut manager = two_replicas();
        manager.applied(FIRST, Tsid(12));
        assert!(manager.has(FIRST, Tsid(12)));
        manager.connected(FIRST, LIFE, Tsid(11));
        assert!(!manager.has(FIRST, Tsid(11)), "it does not serve yet");
        manager.set_state(FIRST, ReplicaState::Serving);
        assert!(manager.has(FIRST, Tsid(11)) && !manager.has(FIRST, Tsid(12)));
    }

    /// As long as that takes little memory, see [`ManagerLimits`].
    #[test]
    fn returning_replica_serves_rows_not_written_since() {
        for (rows, serves) in [(3, true), (5, false)] {
            let mut manager = two_replicas();
            manager.set_state(FIRST, ReplicaState::Unavailable);
            let commits = 11..=10 + ManagerLimits::SMALL.prune_interval;
            for tsid in commits {
                see(&mut manager, tsid, None, &write(1, tsid % rows));
                manager.applied(SECOND, Tsid(tsid));
            }
            manager.connected(FIRST, LIFE, Tsid(10));
            manager.set_state(FIRST, ReplicaState::Serving);
            manager.set_state(SECOND, ReplicaState::Unavailable);
            let is_served = goes_to_primary(&mut manager, &read(2)).is_none();
            assert_eq!(is_served, serves, "{rows}");
            assert!(goes_to_primary(&mut manager, &read(1)).is_some());
        }
    }

    #[test]
    fn the_primary_is_busier_by_more_than_a_few() {
        let mut manager = two_replicas();
        manager.started(Some(FIRST));
        for _ in 0..SPARE {
            manager.started(None);
        }
        assert!(!manager.is_primary_busier());
        manager.started(None);
        assert!(manager.is_primary_busier());
        manager.started(Some(SECOND));
        assert!(!manager.is_primary_busier());
        manager.ended(Some(SECOND));
        manager.ended(None);
        assert!(!manager.is_primary_busier());
        manager.started(None);
        for id in [FIRST, SECOND] {
            manager.set_state(id, ReplicaState::Unavailable);
        }
        assert!(!manager.is_primary_busier(), "there is no replica");
    }

    #[test]
    fn reads_go_to_the_least_loaded_that_serves() {
        let mut manager = two_replicas();
        let target = |manager: &mut FreshnessManager| match manager
            .route(&read(1), ConsistencyLevel::Gssi)
        {
            ReadTarget::Replica { id, .. } => Some(id),
            ReadTarget::Primary(_) => None,
        };
        assert_eq!(target(&mut manager), Some(FIRST));
        manager.started(Some(FIRST));
        assert_eq!(target(&mut manager), Some(SECOND));
        manager.set_state(SECOND, ReplicaState::Quarantined);
        assert_eq!(target(&mut manager), Some(FIRST));
        manager.ended(Some(FIRST));
        manager.remove_replica(FIRST);
        assert_eq!(target(&mut manager), None);
    }

    #[test]
    fn writes_stay_on_the_primary() {
        let mut manager = two_replicas();
        let target = manager.route(&write(1, 1), ConsistencyLevel::Weak);
        assert_eq!(target, ReadTarget::Primary(PrimaryReason::Writes));
    }
}
