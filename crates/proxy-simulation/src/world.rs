//! All simulated parts of one run, and the events that may happen next.

mod copies;
mod other;
mod reads;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use self::other::Other;
use super::Counts;
use super::buffer::Buffer;
use super::primary::{COLUMNS, Key, Primary, ROWS, Reads, Statement, TABLES};
use super::random::Random;
use super::reader::Reader;
use super::replica::{Database, Extractor, Mood, Pace};
use super::session::{Chosen, Doing, Read, Session};
use proxy_core::freshness::mark;
use proxy_core::freshness::{
    ConsistencyLevel, FreshnessManager, ManagerLimits, ReadTarget, ReplicaId, ReplicaState, Tsid,
};
use proxy_core::touched::CombinedAnalysis;
use replication::locked;

/// The number of events with faults, and the most events after these.
const EVENTS: u64 = 600;
const EVENTS_AFTER_MAX: u64 = 20_000;
const SESSIONS: usize = 4;
/// A buffer may lose its contents in steps whose number is a multiple of this one.
const LOSE_EVERY: u64 = 50;
const REPLICAS: u32 = 2;
/// The number of commits of which a replica refuses one, on average.
const REFUSED_OF: u64 = 20;
/// The most connections to a replica that execute commits.
const WORKERS_MAX: u64 = 3;
/// The most commits that a replica executes as one group.
const GROUPS_MAX: u64 = 5;
/// The number of commits that a small buffer can hold.
const BUFFER_LENGTH: u64 = 12;

/// Something that can happen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A client begins a read or a transaction.
    Begin(usize),
    /// A session's work continues.
    GoOn(usize),
    /// A session's connection to the primary breaks.
    Lose(usize),
    /// A process whose connection broke continues.
    Orphan(usize),
    /// A client writes around the proxy.
    Bypass,
    /// The slot's reader continues.
    Read,
    /// The slot's reader settles commits in doubt.
    Settle,
    /// The stream of the slot breaks.
    Break,
    /// An Extractor takes a commit, or receives a reply of its database.
    Take(ReplicaId),
    Receive(ReplicaId),
    /// A database does something.
    Do(ReplicaId),
    /// An Extractor writes down how far it is.
    Flush(ReplicaId),
    /// A database dies, and comes back.
    Crash(ReplicaId),
    Start(ReplicaId),
    /// It executes the commands of an earlier Extractor.
    DoLeft(ReplicaId),
    /// Its connections break, or are found to be broken.
    Cut(ReplicaId),
    Notice(ReplicaId),
    /// It is taken up.
    Join(ReplicaId),
    /// It gets the next commits, from the buffer or from the reader.
    Deliver(ReplicaId),
    /// The buffer is taken up, writes, dies, loses all it has, and comes back.
    OpenBuffer,
    WriteBuffer,
    CrashBuffer,
    LoseBuffer,
    StartBuffer,
    /// The proxy dies, and another one begins.
    Restart,
    /// Another proxy comes to wait, or goes.
    Other,
}

/// The state of one run: its servers, proxy and sessions. It makes one event happen at a time.
pub(crate) struct World {
    random: Random,
    now: u64,
    primary: Primary,
    manager: Mutex<FreshnessManager>,
    reader: Reader,
    databases: BTreeMap<ReplicaId, Database>,
    extractors: BTreeMap<ReplicaId, Extractor>,
    /// Up to where each replica has everything on disk, as the proxy knows it.
    durable: BTreeMap<ReplicaId, Tsid>,
    /// Keeps commits for offline replicas, in every second world.
    buffer: Option<Buffer>,
    /// Another proxy, where each has a buffer of its own: in every eighth world.
    other: Option<Other>,
    /// The last position that was delivered to each replica to which the reader does not deliver
    /// yet.
    delivered: BTreeMap<ReplicaId, Tsid>,
    /// How many proxies there were.
    epoch: u64,
    /// The slot delivers the commits behind this.
    confirmed: Tsid,
    pace: Pace,
    /// Idle connections for reads: the life of the server that each was opened in.
    idle: BTreeMap<ReplicaId, Vec<u64>>,
    sessions: Vec<Session>,
    /// Processes whose connection broke, and whether they commit before they end.
    orphans: Vec<(i32, bool)>,
    last_value: u64,
    /// Locks that Extractors took.
    locks: i64,
    has_faults: bool,
    /// Reads may wait for a replica, in every second four worlds.
    may_wait: bool,
    pub story: Vec<String>,
    pub counts: Counts,
}

impl World {
    /// Returns the world of a seed.
    pub fn new(seed: u64) -> World {
        let primary = Primary::new();
        let floor = primary.position();
        let ids = (1..=REPLICAS).map(ReplicaId);
        World {
            random: Random::new(seed),
            now: 0,
            manager: manager(floor),
            reader: Reader::new(&primary, floor),
            databases: ids.map(|id| (id, Database::new(floor))).collect(),
            extractors: BTreeMap::new(),
            durable: BTreeMap::new(),
            buffer: match seed % 4 {
                1 => Some(Buffer::new(u64::MAX)),
                3 => Some(Buffer::new(BUFFER_LENGTH)),
                _ => None,
            },
            other: (seed % 8 == 5).then(Other::new),
            delivered: BTreeMap::new(),
            epoch: 1,
            confirmed: floor,
            pace: Pace {
                workers: (1 + seed / 8 % WORKERS_MAX) as usize,
                group_max: (1 + seed / 8 / WORKERS_MAX % GROUPS_MAX) as usize,
            },
            idle: BTreeMap::new(),
            sessions: (0..SESSIONS).map(|_| Session::default()).collect(),
            orphans: Vec::new(),
            last_value: 0,
            locks: 0,
            has_faults: true,
            may_wait: seed % 8 < 4,
            story: Vec::new(),
            counts: Counts::default(),
            primary,
        }
    }

    /// Runs the world until all events have happened and everything is at rest.
    pub fn run(&mut self) -> Result<(), String> {
        while self.now < EVENTS {
            self.step()?;
        }
        self.has_faults = false;
        while !self.is_at_rest() {
            if self.now > EVENTS + EVENTS_AFTER_MAX {
                return Err(format!(
                    "it does not come to rest: the log ends at {}, {:?}; {:?}; {:?}",
                    self.primary.position(),
                    self.reader,
                    self.extractors,
                    locked(&self.manager)
                ));
            }
            self.step()?;
        }
        for (id, database) in &self.databases {
            if database.data != self.primary.shown {
                return Err(format!("at rest replica {} differs", id.0));
            }
        }
        self.counts.commits = self.primary.log.len() as u64;
        Ok(())
    }

    /// Returns whether no client does anything, no commit is Pending, and the replicas have every
    /// commit.
    fn is_at_rest(&self) -> bool {
        let is_idle = |session: &Session| matches!(session.doing, Doing::Nothing);
        let end = self.primary.position();
        let has_all = |id| {
            let extractor = self.extractors.get(id);
            let life = self.databases[id].life;
            extractor.is_some_and(|extractor| extractor.life == life && extractor.applied == end)
        };
        self.sessions.iter().all(is_idle)
            && self.orphans.is_empty()
            && locked(&self.manager).pending_count() == 0
            && self.databases.keys().all(has_all)
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += 1;
        let actions = self.actions();
        let total = actions.iter().map(|(weight, _)| weight).sum();
        let mut at = self.random.below(total);
        let chosen = actions.iter().find(|(weight, _)| {
            let is_here = at < *weight;
            at = at.saturating_sub(*weight);
            is_here
        });
        let (_, action) = chosen.expect("the weights are all of it");
        self.story.push(format!("{:5} {action:?}", self.now));
        self.perform(*action)
    }

    /// Returns the possible next events with their likelihoods.
    fn actions(&self) -> Vec<(u64, Action)> {
        let mut all = vec![(20, Action::Settle)];
        for (number, session) in self.sessions.iter().enumerate() {
            match session.doing {
                Doing::Nothing if self.has_faults => all.push((30, Action::Begin(number))),
                Doing::Nothing => {}
                Doing::Logged(_) => {
                    all.push((30, Action::GoOn(number)));
                    if self.has_faults {
                        all.push((3, Action::Lose(number)));
                    }
                }
                Doing::Waits(..) => all.push((40, Action::GoOn(number))),
                Doing::Runs(ref read, _) if read.is_slow => all.push((5, Action::GoOn(number))),
                _ => all.push((100, Action::GoOn(number))),
            }
            if self.has_faults && session.backend.is_some() {
                all.push((1, Action::Lose(number)));
            }
        }
        let orphans = 0..self.orphans.len();
        all.extend(orphans.map(|number| (20, Action::Orphan(number))));
        if self.reader.can_go_on(&self.primary) {
            all.push((100, Action::Read));
        }
        if self.has_faults {
            all.extend([
                (3, Action::Bypass),
                (2, Action::Break),
                (1, Action::Restart),
            ]);
            all.extend(self.other.as_ref().map(|_| (1, Action::Other)));
        }
        for (id, database) in &self.databases {
            self.actions_of_replica(*id, database, &mut all);
        }
        if let Some(buffer) = &self.buffer {
            let own = [
                (!buffer.is_up, 10, Action::StartBuffer),
                (
                    buffer.is_up && !buffer.is_following(),
                    20,
                    Action::OpenBuffer,
                ),
                (buffer.can_write(), 30, Action::WriteBuffer),
                (buffer.is_up && self.has_faults, 2, Action::CrashBuffer),
            ];
            let own = own.into_iter().filter(|(can, ..)| *can);
            all.extend(own.map(|(_, weight, action)| (weight, action)));
            if self.has_faults && self.now.is_multiple_of(LOSE_EVERY) {
                all.push((20, Action::LoseBuffer));
            }
        }
        all
    }

    fn actions_of_replica(&self, id: ReplicaId, database: &Database, all: &mut Vec<(u64, Action)>) {
        if !database.is_up {
            all.push((20, Action::Start(id)));
        } else if self.has_faults {
            all.push((2, Action::Crash(id)));
        }
        if database.has_left() {
            all.push((20, Action::DoLeft(id)));
        }
        let Some(extractor) = self.extractors.get(&id) else {
            if database.is_up {
                all.push((20, Action::Join(id)));
            }
            return;
        };
        let is_connected = database.is_up && extractor.life == database.life;
        let [takes, sends, returned_by] = extractor.can();
        let own = [
            (takes, 100, Action::Take(id)),
            (sends && is_connected, 100, Action::Do(id)),
            (returned_by, 100, Action::Receive(id)),
            (is_connected, 10, Action::Flush(id)),
            (is_connected && self.has_faults, 1, Action::Cut(id)),
            (!is_connected, 30, Action::Notice(id)),
            (self.delivered.contains_key(&id), 50, Action::Deliver(id)),
        ];
        let own = own.into_iter().filter(|(can, ..)| *can);
        all.extend(own.map(|(_, weight, action)| (weight, action)));
    }

    fn perform(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Begin(number) => self.begin(number),
            Action::GoOn(number) => return self.go_on(number),
            Action::Lose(number) => self.lose(number),
            Action::Orphan(number) => self.orphan(number),
            Action::Bypass => {
                let statement = self.statement();
                self.primary.bypass(&statement);
            }
            Action::Read => {
                let mut manager = locked(&self.manager);
                let extractors = &mut self.extractors;
                let buffer = self.buffer.as_mut();
                self.reader
                    .go_on(&self.primary, &mut manager, extractors, buffer);
            }
            Action::Settle => {
                let mut manager = locked(&self.manager);
                self.reader.settle(&self.primary, &mut manager);
            }
            Action::Break => {
                self.counts.faults += 1;
                self.reader.restart(&self.primary, self.confirmed);
            }
            Action::Take(id) => {
                self.extractor(id).take();
                self.report(id);
            }
            Action::Receive(id) => {
                self.extractor(id).receive();
                self.report(id);
            }
            Action::Do(id) => return self.do_one(id),
            Action::Flush(id) => {
                let applied = self.extractors[&id].applied;
                self.database(id).flush(applied);
                self.durable.insert(id, applied);
                self.confirm();
            }
            Action::Crash(id) => {
                self.counts.faults += 1;
                let recent = self.databases[&id].recent_count() as u64;
                let kept = self.random.below(recent + 1) as usize;
                self.database(id).crash(kept);
            }
            Action::Start(id) => self.database(id).is_up = true,
            Action::DoLeft(id) => {
                let done = self.database(id).do_left();
                return self.is_prefix(id, done);
            }
            Action::Cut(id) | Action::Notice(id) => {
                let extractor = self.extractors.remove(&id).expect("it is there");
                self.database(id).leave(&extractor);
                self.reader.leave(id);
                self.delivered.remove(&id);
                locked(&self.manager).set_state(id, ReplicaState::Unavailable);
            }
            Action::Join(id) => return self.join(id),
            Action::Deliver(id) => return self.deliver(id),
            Action::OpenBuffer
            | Action::WriteBuffer
            | Action::CrashBuffer
            | Action::LoseBuffer
            | Action::StartBuffer => self.keep_buffer(action),
            Action::Restart => self.restart(),
            Action::Other => self.come_or_go(),
        }
        Ok(())
    }

    fn extractor(&mut self, id: ReplicaId) -> &mut Extractor {
        self.extractors.get_mut(&id).expect("it is there")
    }

    fn database(&mut self, id: ReplicaId) -> &mut Database {
        self.databases.get_mut(&id).expect("it is there")
    }

    fn report(&self, id: ReplicaId) {
        let extractor = &self.extractors[&id];
        let mut manager = locked(&self.manager);
        manager.applied(id, extractor.applied);
        manager.set_state(id, ReplicaState::Serving);
    }

    /// Executes one command at a replica's database, and checks that the replica then shows a
    /// prefix of the log (I14).
    fn do_one(&mut self, id: ReplicaId) -> Result<(), String> {
        let which = self.random.below(8) as usize;
        let mood = match self.has_faults && self.random.one_in(REFUSED_OF) {
            true => Mood::Refusing,
            false => Mood::Willing,
        };
        let extractor = self.extractors.get_mut(&id).expect("it is there");
        let database = self.databases.get_mut(&id).expect("it is there");
        let grouped = extractor.grouped;
        let done = extractor.do_one(database, which, mood);
        self.counts.grouped += extractor.grouped - grouped;
        self.is_prefix(id, done)
    }

    fn is_prefix(&self, id: ReplicaId, done: Option<Tsid>) -> Result<(), String> {
        match done {
            Some(tsid) if self.databases[&id].data != self.primary.states[&tsid] => Err(format!(
                "I14: replica {} with the commit at {tsid} is no prefix of the log",
                id.0
            )),
            _ => Ok(()),
        }
    }

    /// Ends the proxy, and starts the next one, which ends all processes of the previous proxy
    /// before it begins.
    fn restart(&mut self) {
        self.counts.faults += 1;
        for number in 0..self.sessions.len() {
            let doing = std::mem::take(&mut self.sessions[number].doing);
            self.abandon(number, &doing);
            self.sessions[number] = Session::default();
        }
        while !self.orphans.is_empty() {
            self.orphan(0);
        }
        let floor = self.primary.position();
        self.manager = manager(floor);
        for id in self.databases.keys() {
            locked(&self.manager).add_replica(*id);
        }
        self.reader = Reader::new(&self.primary, self.confirmed);
        self.epoch += 1;
        if let Some(buffer) = &mut self.buffer {
            buffer.leave();
        }
        self.take_over();
        self.delivered.clear();
        for (id, extractor) in std::mem::take(&mut self.extractors) {
            self.database(id).leave(&extractor);
        }
        self.durable.clear();
        self.idle.clear();
    }

    /// Breaks a session's connection to the primary. The proxy notices this and ends the session,
    /// and the client connects again.
    fn lose(&mut self, number: usize) {
        self.counts.faults += 1;
        let session = &mut self.sessions[number];
        let doing = std::mem::take(&mut session.doing);
        if let Some(backend) = session.backend {
            session
                .writes
                .lost(backend as u32, || locked(&self.manager));
        }
        self.abandon(number, &doing);
        self.sessions[number] = Session::default();
    }

    /// Leaves a session's process on the primary without its session. Its statement may still run.
    fn abandon(&mut self, number: usize, doing: &Doing) {
        let commits = match doing {
            Doing::Logged(_) => true,
            Doing::End { commits } => *commits && self.random.one_in(2),
            Doing::Marks(marks) => {
                let sent = self.random.below(marks.len() as u64 + 1) as usize;
                for mark in marks.iter().take(sent) {
                    self.primary.emit(mark);
                }
                false
            }
            Doing::Runs(_, chosen) | Doing::Answers(_, chosen, _) => {
                locked(&self.manager).ended(Some(chosen.id));
                false
            }
            _ => false,
        };
        if let Some(backend) = self.sessions[number].backend.take() {
            self.orphans.push((backend, commits));
        }
    }

    fn orphan(&mut self, number: usize) {
        let (backend, commits) = self.orphans[number];
        if self.primary.is_logged(backend) {
            self.primary.show(backend);
        } else if commits && self.primary.commit(backend).is_some() {
            self.orphans[number].1 = false;
            return;
        }
        self.primary.close(backend);
        self.orphans.remove(number);
    }

    fn key(&mut self) -> Key {
        Key {
            table: self.random.below(u64::from(TABLES)) as u32,
            row: self.random.below(ROWS),
        }
    }

    fn statement(&mut self) -> Statement {
        self.last_value += 1;
        let value = self.last_value;
        let key = self.key();
        match self.random.below(16) {
            0..6 => Statement::Put(key, [value; COLUMNS]),
            6..11 => Statement::Set(key, self.random.below(COLUMNS as u64) as usize, value),
            11..13 => Statement::Delete(key),
            13..15 => Statement::SetWhere(key.table, value % 2, value),
            _ => Statement::Schema,
        }
    }

    /// Begins a read or a transaction of a client.
    fn begin(&mut self, number: usize) {
        if !self.random.one_in(3) {
            let key = self.key();
            let reads = match self.random.below(8) {
                0..4 => Reads::Row(key),
                4..6 => Reads::Column(key.table, self.random.below(COLUMNS as u64) as usize),
                6 => Reads::Table(key.table),
                _ => Reads::Anything,
            };
            let level = match self.random.below(10) {
                0 => ConsistencyLevel::Weak,
                1 => ConsistencyLevel::RsiPc,
                _ => ConsistencyLevel::Gssi,
            };
            let started = self.now;
            let sets = reads.sets();
            let mut manager = locked(&self.manager);
            let target = manager.route(&sets, level);
            let watch = match target {
                ReadTarget::Primary(_) => None,
                ReadTarget::Replica { id, .. } => manager.watch(&sets, level, id),
            };
            drop(manager);
            let chosen = match target {
                ReadTarget::Primary(_) => None,
                ReadTarget::Replica { id, need, life, .. } => Some(Chosen {
                    id,
                    need,
                    life,
                    server: 0,
                }),
            };
            let read = Read {
                reads,
                level,
                started,
                is_slow: self.random.one_in(4),
                watch,
            };
            self.sessions[number].doing = match chosen {
                None if self.may_wait && self.random.one_in(2) => {
                    let moment = locked(&self.manager).moment(&read.reads.sets(), read.level);
                    Doing::Waits(read, moment)
                }
                chosen => Doing::Asks(read, chosen),
            };
            return;
        }
        let alone = self.random.one_in(2);
        let more = match alone {
            true => 0,
            false => self.random.below(3),
        };
        if self.sessions[number].backend.is_none() {
            self.sessions[number].backend = Some(self.primary.open());
        }
        self.send(number, more, alone);
    }

    /// Sends a statement of a session. Its possible writes are recorded before.
    fn send(&mut self, number: usize, more: u64, alone: bool) {
        let statement = self.statement();
        let touched = CombinedAnalysis {
            sets: statement.sets(),
            may_end: matches!(statement, Statement::Schema),
            ..CombinedAnalysis::default()
        };
        let session = &mut self.sessions[number];
        session
            .writes
            .note(&touched, !alone, || locked(&self.manager));
        session.doing = Doing::Statement {
            statement,
            more,
            alone,
        };
    }

    /// Sends the COMMIT or ROLLBACK of a session.
    fn send_end(&mut self, number: usize, commits: bool) {
        let touched = CombinedAnalysis {
            may_end: true,
            ..CombinedAnalysis::default()
        };
        let session = &mut self.sessions[number];
        session
            .writes
            .note(&touched, true, || locked(&self.manager));
        session.doing = Doing::End { commits };
    }

    /// Writes the marks of a session's transaction, which has ended, if there are any.
    fn ended(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        let marks: VecDeque<String> = session.writes.ended(|| locked(&self.manager)).into();
        session.doing = match marks.is_empty() {
            true => Doing::Nothing,
            false => Doing::Marks(marks),
        };
    }

    fn go_on(&mut self, number: usize) -> Result<(), String> {
        let doing = std::mem::take(&mut self.sessions[number].doing);
        let backend = self.sessions[number].backend;
        match doing {
            Doing::Nothing => unreachable!("it does something"),
            Doing::Statement {
                statement,
                more,
                alone,
            } => {
                let backend = backend.expect("it has one");
                match self.primary.execute(backend, &statement) {
                    true if alone => self.sessions[number].doing = Doing::End { commits: true },
                    true if more > 0 => self.send(number, more - 1, false),
                    true => {
                        let commits = !self.random.one_in(6);
                        self.send_end(number, commits);
                    }
                    // It has waited for too long, as in a deadlock.
                    false if self.random.one_in(8) => match alone {
                        true => self.sessions[number].doing = Doing::End { commits: false },
                        false => self.send_end(number, false),
                    },
                    false => {
                        self.sessions[number].doing = Doing::Statement {
                            statement,
                            more,
                            alone,
                        };
                    }
                }
            }
            Doing::End { commits } => {
                let backend = backend.expect("it has one");
                let logged = match commits {
                    true => self.primary.commit(backend),
                    false => None,
                };
                match logged {
                    Some(place) => self.sessions[number].doing = Doing::Logged(place),
                    None => {
                        self.primary.roll_back(backend);
                        self.ended(number);
                    }
                }
            }
            Doing::Logged(place) => {
                self.primary.show(backend.expect("it has one"));
                self.primary.log[place].known_at = Some(self.now);
                self.ended(number);
            }
            Doing::Marks(mut marks) => {
                self.primary.emit(&marks.pop_front().expect("there is one"));
                match marks.is_empty() {
                    true => self.ended(number),
                    false => self.sessions[number].doing = Doing::Marks(marks),
                }
            }
            Doing::Waits(read, moment) => self.wait(number, read, moment),
            Doing::Asks(read, None) => return self.read_primary(&read),
            Doing::Asks(read, Some(chosen)) => self.connect(number, read, chosen),
            Doing::Runs(read, chosen) => self.read_replica(number, read, chosen),
            Doing::Answers(read, chosen, has) => return self.receive(number, read, (chosen, has)),
        }
        Ok(())
    }
}

/// Returns a new manager that begins at the log's end. Its epoch is higher than that of every
/// earlier manager.
fn manager(floor: Tsid) -> Mutex<FreshnessManager> {
    let key = mark::MarkKey::new(b"secret");
    Mutex::new(FreshnessManager::with_limits(
        key,
        floor.0,
        floor,
        ManagerLimits::SMALL,
    ))
}
