//! The simulated reader of the slot. It passes every commit of the log to the manager and then,
//! once the primary shows the commit, to the replicas, in order. It also determines the outcome of
//! commits in doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::buffer::{Buffer, Given};
use super::primary::{Change, Entry, Primary};
use super::replica::{Commit, Extractor};
use proxy_core::freshness::mark::MarkMessage;
use proxy_core::freshness::{
    AccessSets, FreshnessManager, Mark, ReceivedCommit, ReplicaId, RowHash, TStateId, TableAccess,
    TableOid, Tsid,
};
use replication::handover::{self, CommitSource, RecentCommits};
use replication::snapshot::ShownOrder;

/// The simulated reader of the slot.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The next commit of the log.
    next: usize,
    /// The position up to which every commit has been read.
    pub position: Tsid,
    /// The index in the log of a commit that was read, and waits until the primary shows it.
    unshown: Option<usize>,
    /// The position of the last commit that each replica was sent.
    given: BTreeMap<ReplicaId, Tsid>,
    /// The position of the last commit that the buffer was sent; none if it does not follow.
    buffered: Option<Tsid>,
    pub recent: RecentCommits<Given>,
    /// The commits in doubt whose process has ended, each with the log's end at that time.
    doubts: BTreeMap<TStateId, Tsid>,
    /// Snapshots of the primary, each as the commits that it shows.
    shown: ShownOrder<BTreeSet<Tsid>>,
}

impl Reader {
    /// Returns a reader that begins behind `confirmed`.
    pub fn new(primary: &Primary, confirmed: Tsid) -> Reader {
        let mut reader = Reader {
            next: place(primary, confirmed),
            position: Tsid(0),
            unshown: None,
            given: BTreeMap::new(),
            buffered: None,
            recent: RecentCommits::default(),
            doubts: BTreeMap::new(),
            shown: ShownOrder::default(),
        };
        reader.recent.begin(confirmed);
        reader
    }

    /// Restarts the stream behind `confirmed`, as when it has broken.
    pub fn restart(&mut self, primary: &Primary, confirmed: Tsid) {
        let lacks = |given: &Tsid| *given < confirmed;
        assert!(!self.given.values().any(lacks), "it gives them no more");
        self.recent.begin(confirmed);
        self.next = place(primary, confirmed);
        self.unshown = None;
    }

    /// Adds a replica that needs the commits behind `applied` that are not in the buffer, as
    /// `Reader::needs_older` does. Restarts the stream if it has gone past them and no other source
    /// has them.
    pub fn join(
        &mut self,
        extractor: (ReplicaId, &mut Extractor),
        applied: Tsid,
        (primary, confirmed): (&Primary, Tsid),
    ) -> CommitSource {
        let (id, extractor) = extractor;
        let read = (self.position, confirmed);
        let source = handover::source(applied, read, &self.recent, false);
        match source {
            CommitSource::Buffer | CommitSource::Lost => return source,
            CommitSource::Recent => {
                let behind = self.recent.iter().filter(|given| given.0 > applied);
                for Given(tsid, commit) in behind {
                    extractor.give(*tsid, commit.clone());
                }
                self.given.insert(id, self.position.max(applied));
                return source;
            }
            CommitSource::RestartedStream => self.restart(primary, confirmed),
            CommitSource::Stream => {}
        }
        self.given.insert(id, applied);
        source
    }

    /// Adds the buffer. It needs the commits after its last page, and only the reader can deliver
    /// them.
    pub fn join_buffer(
        &mut self,
        buffer: &mut Buffer,
        (primary, confirmed): (&Primary, Tsid),
        leaves: bool,
    ) {
        let applied = buffer.open(confirmed, leaves);
        self.buffered = Some(applied);
        let read = (self.position, confirmed);
        match handover::source(applied, read, &self.recent, false) {
            CommitSource::Stream => {}
            CommitSource::Recent => {
                for given in self.recent.iter().filter(|given| given.0 > applied) {
                    buffer.give(given.clone());
                }
                self.buffered = Some(self.position.max(applied));
            }
            CommitSource::RestartedStream => self.restart(primary, confirmed),
            CommitSource::Buffer | CommitSource::Lost => {
                unreachable!("it begins where the slot has all")
            }
        }
    }

    /// Removes a replica, which takes nothing any more.
    pub fn leave(&mut self, id: ReplicaId) {
        self.given.remove(&id);
    }

    /// Returns whether the reader can continue.
    pub fn can_go_on(&self, primary: &Primary) -> bool {
        match self.unshown {
            Some(place) => primary.log[place].is_shown,
            None => self.next < primary.log.len() || self.position < primary.position(),
        }
    }

    /// Delivers the commit that waits, if there is one. Otherwise reads the next commit.
    pub fn go_on(
        &mut self,
        primary: &Primary,
        manager: &mut FreshnessManager,
        extractors: &mut BTreeMap<ReplicaId, Extractor>,
        buffer: Option<&mut Buffer>,
    ) {
        if let Some(place) = self.unshown.take() {
            self.show(primary, place, manager);
            self.give(&primary.log[place], extractors, buffer);
            return;
        }
        let place = self.next;
        let Some(entry) = primary.log.get(place) else {
            // A keep-alive message: there is nothing up to the log's end.
            self.position = self.position.max(primary.position());
            self.give_each(Given(self.position, None), extractors, buffer);
            return;
        };
        self.next += 1;
        let is_shown = manager.committed(&ReceivedCommit {
            tsid: entry.tsid,
            mark: mark(entry, manager),
            writes: &sets(entry),
            has_statements: entry.has_statements,
            hidden_until: self.shown.hidden_until(|shown| shown.contains(&entry.tsid)),
        });
        if is_shown {
            self.pass(entry);
            self.give(entry, extractors, buffer);
        } else if entry.is_shown {
            self.show(primary, place, manager);
            self.give(entry, extractors, buffer);
        } else {
            self.unshown = Some(place);
        }
    }

    /// Records that the primary shows a commit. Takes a new snapshot of the primary, unless the
    /// newest snapshot already has the commit.
    fn show(&mut self, primary: &Primary, place: usize, manager: &mut FreshnessManager) {
        let entry = &primary.log[place];
        let newest = self.shown.newest();
        if !newest.is_some_and(|shown| shown.contains(&entry.tsid)) {
            let shown = primary.log.iter().filter(|entry| entry.is_shown);
            self.shown.taken(shown.map(|entry| entry.tsid).collect());
        }
        manager.shown(entry.tsid);
        self.pass(entry);
    }

    fn pass(&mut self, entry: &Entry) {
        if !entry.changes.is_empty() || entry.has_statements {
            let shows = |shown: &BTreeSet<Tsid>| shown.contains(&entry.tsid);
            self.shown.passed(entry.tsid, shows);
        }
    }

    /// Settles the commits in doubt that are certain not to have happened.
    pub fn settle(&mut self, primary: &Primary, manager: &mut FreshnessManager) {
        let in_doubt = manager.in_doubt();
        for (id, backend) in &in_doubt {
            if !primary.is_alive(*backend) {
                self.doubts.entry(*id).or_insert(primary.position());
            }
        }
        let settled = self.doubts.iter().filter(|(_, end)| **end <= self.position);
        let settled: Vec<TStateId> = settled.map(|(id, _)| *id).collect();
        self.doubts
            .retain(|id, _| in_doubt.iter().any(|(doubt, _)| doubt == id));
        manager.settle_doubts(&settled);
    }

    fn give(
        &mut self,
        entry: &Entry,
        extractors: &mut BTreeMap<ReplicaId, Extractor>,
        buffer: Option<&mut Buffer>,
    ) {
        self.position = self.position.max(entry.tsid);
        let commit = Rc::new(Commit {
            tsid: entry.tsid,
            changes: entry.changes.clone(),
            sets: sets(entry),
        });
        self.give_each(Given(entry.tsid, Some(commit)), extractors, buffer);
    }

    fn give_each(
        &mut self,
        given: Given,
        extractors: &mut BTreeMap<ReplicaId, Extractor>,
        buffer: Option<&mut Buffer>,
    ) {
        let tsid = given.0;
        for (id, last) in &mut self.given {
            if *last < tsid
                && let Some(extractor) = extractors.get_mut(id)
            {
                *last = tsid;
                extractor.give(tsid, given.1.clone());
            }
        }
        let Some(buffer) = buffer else { return };
        self.recent.push(given.clone());
        if buffer.is_following() && self.buffered < Some(tsid) {
            self.buffered = Some(tsid);
            buffer.give(given);
        }
    }
}

/// Returns the index of the first commit after a position of the log.
fn place(primary: &Primary, confirmed: Tsid) -> usize {
    primary.log.partition_point(|entry| entry.tsid <= confirmed)
}

fn mark(entry: &Entry, manager: &FreshnessManager) -> Option<Mark> {
    let (prefix, bytes) = entry.message.as_ref()?;
    match MarkMessage::decode(prefix, bytes, manager.key())? {
        MarkMessage::Mark(mark) => Some(mark),
        MarkMessage::Statement(_) => None,
    }
}

/// Returns the writes of a commit, from its row images.
fn sets(entry: &Entry) -> AccessSets {
    let mut sets = AccessSets::default();
    for Change { key, .. } in &entry.changes {
        sets.touch(
            TableOid(key.table),
            TableAccess::write_rows([RowHash(key.row)]),
        );
    }
    if entry.has_statements {
        sets.merge(&AccessSets::writes_anything());
    }
    sets
}
