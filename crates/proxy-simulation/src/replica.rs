//! A simulated replica: a database that loses unflushed commits when it crashes, and an Extractor.
//! The Extractor's decisions are the real code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::primary::{Change, Data, Key, put};
use proxy_core::freshness::execution::{GroupSharing, Task};
use proxy_core::freshness::{AccessSets, ServerLife, Tsid};
use proxy_core::planted::{self, ProxyBug};
use replication::schedule::{ReplaySchedule, WorkerCommand, WorkerNumber};

/// The length of each commit for the schedule, in bytes.
const LENGTH: usize = 1000;

/// A commit, as the slot's reader gives it.
#[derive(Debug)]
pub(crate) struct Commit {
    pub tsid: Tsid,
    pub changes: Vec<Change>,
    pub sets: AccessSets,
}

/// The database of a simulated replica: its rows, and the commits that it loses in a crash.
#[derive(Debug)]
pub(crate) struct Database {
    /// The number of times that the replica has started.
    pub life: u64,
    pub is_up: bool,
    /// The visible data, and the position that it reports.
    pub data: Data,
    pub noted: Tsid,
    /// The state on its disk, and the commits since.
    durable: (Data, Tsid),
    recent: Vec<(Data, Tsid)>,
    /// The executed groups by their last commit, each with its changes and the position that it
    /// records.
    executed: BTreeMap<Tsid, (Vec<Change>, Tsid)>,
    /// Commits that were sent on connections that have no reader any more.
    left: Vec<Tsid>,
}

impl Database {
    /// Returns a copy of an empty primary.
    pub fn new(noted: Tsid) -> Database {
        Database {
            life: 1,
            is_up: true,
            data: Data::new(),
            noted,
            durable: (Data::new(), noted),
            recent: Vec::new(),
            executed: BTreeMap::new(),
            left: Vec::new(),
        }
    }

    /// Fills the database with the primary's state at a position.
    pub fn fill(&mut self, data: &Data, place: Tsid) {
        self.hang_up();
        self.data = data.clone();
        self.noted = place;
        self.flush(place);
    }

    /// Crashes the database, which loses all but the first `kept` of the unflushed commits.
    pub fn crash(&mut self, kept: usize) {
        self.is_up = false;
        self.life += 1;
        self.hang_up();
        self.recent.truncate(kept);
        let last = self.recent.last().unwrap_or(&self.durable).clone();
        (self.data, self.noted) = last.clone();
        self.durable = last;
        self.recent.clear();
    }

    /// Returns the position up to which all commits are on the database's disk.
    pub fn on_disk(&self) -> Tsid {
        self.durable.1
    }

    /// Returns the number of commits that are not on disk.
    pub fn recent_count(&self) -> usize {
        self.recent.len()
    }

    /// Writes all commits to disk, and records this position.
    pub fn flush(&mut self, applied: Tsid) {
        self.noted = self.noted.max(applied);
        self.durable = (self.data.clone(), self.noted);
        self.recent.clear();
    }

    /// Closes the database's connections to Extractors.
    pub fn hang_up(&mut self) {
        self.executed.clear();
        self.left.clear();
    }

    /// Records that an Extractor has ended. Its transactions in this life of the database remain.
    pub fn leave(&mut self, extractor: &Extractor) {
        if extractor.life == self.life {
            self.left
                .extend(extractor.sent.iter().filter_map(|sent| match sent {
                    WorkerCommand::Commit(_, tsid) => Some(*tsid),
                    _ => None,
                }));
        }
    }

    /// Executes one commit that an ended Extractor has sent. Returns the committed group; none if
    /// there is no such commit.
    pub fn do_left(&mut self) -> Option<Tsid> {
        let tsid = self.left.pop()?;
        self.commit(tsid);
        Some(tsid)
    }

    /// Returns whether an Extractor that has ended left transactions that the database still
    /// executes.
    pub fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Executes a group without committing it.
    fn execute(&mut self, group: &[Rc<Commit>]) -> Result<(), Problem> {
        let held = self.executed.values().flat_map(|(changes, _)| changes);
        let held: BTreeSet<Key> = held.map(|change| change.key).collect();
        // The group's own versions of rows.
        let mut own = BTreeMap::new();
        for change in group.iter().flat_map(|commit| &commit.changes) {
            if held.contains(&change.key) {
                return Err(Problem::InTheWay);
            }
            let here = match own.get(&change.key) {
                Some(is_here) => *is_here,
                None => self.data.contains_key(&change.key),
            };
            // Every row is found as it was on the primary (R30).
            if here != change.old.is_some() {
                return Err(Problem::Differs);
            }
            own.insert(change.key, change.new.is_some());
        }
        let changes = group.iter().flat_map(|commit| commit.changes.clone());
        let [first, last] = [group.first(), group.last()].map(|commit| commit.map(|it| it.tsid));
        let last = last.expect("a group is of something");
        let notes = match planted::is(ProxyBug::GroupNotesItsFirst) {
            true => first.unwrap_or(last),
            false => last,
        };
        self.executed.insert(last, (changes.collect(), notes));
        Ok(())
    }

    /// Commits an executed group: its changes and its position become visible together.
    fn commit(&mut self, name: Tsid) {
        let (changes, notes) = self.executed.remove(&name).expect("it was executed");
        for change in changes {
            put(&mut self.data, change.key, change.new);
        }
        self.noted = notes;
        self.recent.push((self.data.clone(), notes));
    }
}

/// The reason why a commit cannot be executed now.
#[derive(Debug)]
enum Problem {
    /// Another executed transaction has changed one of its rows.
    InTheWay,
    Differs,
    /// A temporary cause, such as a lock that a reader holds.
    Passing,
}

/// Whether the database executes its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Willing,
    /// The database refuses this command.
    Refusing,
}

/// A reply on a connection to the database.
#[derive(Debug)]
enum Reply {
    Executed(Tsid),
    Failed(Tsid, Problem),
    Committed(WorkerNumber, Tsid),
    RolledBack(Tsid),
}

/// The Extractor of one replica, from its start to its end.
#[derive(Debug)]
pub(crate) struct Extractor {
    /// The advisory lock that the Extractor holds at the replica.
    pub lock: ServerLife,
    /// The life of the database to which the Extractor is connected.
    pub life: u64,
    schedule: ReplaySchedule,
    /// The commits that the reader has sent, and that were not received.
    queue: VecDeque<(Tsid, Option<Rc<Commit>>)>,
    in_hand: BTreeMap<Tsid, Rc<Commit>>,
    /// The commands that were sent to the database and not executed.
    sent: Vec<WorkerCommand>,
    /// The replies that the database has sent, and that were not received.
    replies: VecDeque<Reply>,
    pub applied: Tsid,
    /// The number of commits that were executed in groups of several.
    pub grouped: u64,
}

/// How Extractors execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Connections that execute.
    pub workers: usize,
    /// The most commits of one group.
    pub group_max: usize,
}

impl Extractor {
    /// Returns an Extractor that begins at the position of the database.
    pub fn new(database: &Database, lock: ServerLife, pace: Pace) -> Extractor {
        Extractor {
            lock,
            life: database.life,
            schedule: ReplaySchedule::new(pace.workers, pace.group_max),
            queue: VecDeque::new(),
            in_hand: BTreeMap::new(),
            sent: Vec::new(),
            replies: VecDeque::new(),
            applied: database.noted,
            grouped: 0,
        }
    }

    /// Queues a commit from the reader, or, with none, the report that no further commit exists up
    /// to `tsid`.
    pub fn give(&mut self, tsid: Tsid, commit: Option<Rc<Commit>>) {
        self.queue.push_back((tsid, commit));
    }

    /// Queues the report that no further commit exists up to a position.
    pub fn give_nothing(&mut self, until: Tsid) {
        if self.queue.back().is_none_or(|(last, _)| *last < until) {
            self.give(until, None);
        }
    }

    /// Returns three flags: the queue has a commit, the database has a command to execute, and the
    /// Extractor has a reply to receive.
    pub fn can(&self) -> [bool; 3] {
        [
            !self.queue.is_empty(),
            !self.sent.is_empty(),
            !self.replies.is_empty(),
        ]
    }

    /// Takes the next commit from the queue, and adds it to the schedule.
    pub fn take(&mut self) {
        let (tsid, commit) = self.queue.pop_front().expect("there is one");
        match commit.filter(|commit| !commit.changes.is_empty()) {
            Some(commit) => {
                let sharing = match commit.sets.may_write_anything() {
                    true => GroupSharing::Own,
                    false => GroupSharing::Any,
                };
                let task = Task {
                    sets: commit.sets.clone(),
                    length: LENGTH,
                    sharing,
                };
                self.schedule.add(tsid, task);
                self.in_hand.insert(tsid, commit);
            }
            None => self.schedule.add_empty(tsid),
        }
        self.go_on();
    }

    /// Has the database execute one of the commands that it was sent. Returns the group that the
    /// command has committed; none for other commands.
    pub fn do_one(&mut self, database: &mut Database, which: usize, mood: Mood) -> Option<Tsid> {
        let command = self.sent.remove(which % self.sent.len());
        match command {
            WorkerCommand::Execute(_, tsid) => {
                let group = &self.schedule.group(tsid).tsids;
                let group: Vec<_> = group
                    .iter()
                    .map(|tsid| self.in_hand[tsid].clone())
                    .collect();
                if group.len() > 1 {
                    self.grouped += group.len() as u64;
                }
                let done = match mood {
                    Mood::Willing => database.execute(&group),
                    Mood::Refusing => Err(Problem::Passing),
                };
                let replies = match done {
                    Ok(()) => Reply::Executed(tsid),
                    Err(problem) => Reply::Failed(tsid, problem),
                };
                self.replies.push_back(replies);
            }
            WorkerCommand::Commit(worker, tsid) => {
                database.commit(tsid);
                self.replies.push_back(Reply::Committed(worker, tsid));
                return Some(tsid);
            }
            WorkerCommand::Rollback(_, tsid) => {
                database.executed.remove(&tsid);
                self.replies.push_back(Reply::RolledBack(tsid));
            }
            WorkerCommand::Advance(_) => unreachable!("it is sent to no connection"),
        }
        None
    }

    /// Receives the database's reply.
    pub fn receive(&mut self) {
        match self.replies.pop_front().expect("there is something") {
            Reply::Executed(tsid) => self.schedule.executed(tsid),
            Reply::Failed(tsid, problem) => {
                self.schedule.failed(tsid);
                // Concurrent groups touch no common row, and each earlier group has committed or
                // touches none of these rows. So nothing fails for another reason, alone or not.
                assert!(
                    matches!(problem, Problem::Passing),
                    "the commit at {tsid} failed: {problem:?}"
                );
            }
            Reply::Committed(worker, tsid) => {
                self.schedule.committed(worker, tsid);
                self.in_hand.retain(|other, _| *other > tsid);
                self.applied = self.applied.max(tsid);
            }
            Reply::RolledBack(tsid) => self.schedule.rolled_back(tsid),
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        let mut commands = self.schedule.urgent_commands();
        commands.extend(self.schedule.commands());
        for command in commands {
            match command {
                WorkerCommand::Advance(tsid) => self.applied = self.applied.max(tsid),
                other => self.sent.push(other),
            }
        }
    }
}
