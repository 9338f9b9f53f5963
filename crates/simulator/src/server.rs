//! Servers: processes with a core machine per event loop, that start, run, stand still and die.

use std::sync::Arc;

use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Incarnation, Now, Position, ServerId};
use protocol::machine::{ClientId, ClientReply, Input};
use protocol::message::{
    CoordinatorReply, CoordinatorRequest, PeerHeader, PeerMessage, Refusal, Reply, Request,
};
use protocol::operation::{Decision, RequestResult};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::check::{budget, earlier_life, outcomes, prepared, waits};
use crate::clock::Clock;
use crate::core::{Core, Effects, Start};
use crate::disk::{Disk, Tail};
use crate::event::{Content, Event, Life};
use crate::network::Node;
use crate::plan::{MILLISECOND, Plan};
use crate::random::Random;
use crate::world::World;

/// How long `replicated` records may wait for a flush.
const FLUSH_INTERVAL_US: u64 = 50 * MILLISECOND;
/// A server that has had no answer joins again after this.
const JOIN_RETRY_US: u64 = 200 * MILLISECOND;
/// Between making a reply and writing it.
const REPLY_DELAY_US: u64 = 5;

/// One server.
#[derive(Debug)]
pub struct Server {
    /// Its number, once it has joined.
    pub id: Option<ServerId>,
    /// Names its data folder.
    pub disk: u64,
    /// Counts its starts.
    pub life: u64,
    /// Whether it runs.
    pub state: State,
    /// It stands still until then.
    pub paused_until_us: u64,
    /// Its clocks.
    pub clock: Clock,
    /// One per core.
    pub disks: Vec<Disk>,
    /// A request of an earlier process to join came after that of the present one, which it replaces:
    /// the present one is told to stop, and whoever looks after it starts it again.
    pub joined_late: bool,
    /// A crash took memory from it that its peers may not have given back yet.
    pub forgot: bool,
}

/// What a server is doing.
#[derive(Debug)]
pub enum State {
    /// No process.
    Down,
    /// Asks the coordinator to let it in.
    Joining,
    /// By core number.
    Running(Vec<Core>),
}

impl Server {
    /// A server that has never started.
    pub fn new(clock: Clock, plan: &Plan, random: &mut Random) -> Server {
        Server {
            id: None,
            disk: random.bits(),
            life: 0,
            state: State::Down,
            paused_until_us: 0,
            clock,
            disks: (0..plan.cores).map(|_| Disk::new(random.bits())).collect(),
            joined_late: false,
            forgot: false,
        }
    }

    /// Whether its cores know, with what their peers have told them, all that they ever did.
    pub fn is_whole(&mut self) -> bool {
        let recovering = |core: &Core| core.machine.is_recovering();
        if self.is_running() && !self.cores().iter().any(recovering) {
            self.forgot = false;
        }
        !self.forgot
    }

    /// Whether its cores run.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Its cores; none unless it runs.
    pub fn cores(&self) -> &[Core] {
        match &self.state {
            State::Running(cores) => cores,
            State::Down | State::Joining => &[],
        }
    }
}

impl World {
    /// A server's process starts: it asks to join.
    pub fn start_server(&mut self, place: usize) {
        let server = &mut self.servers[place];
        if !matches!(server.state, State::Down) {
            return;
        }
        server.life += 1;
        server.state = State::Joining;
        server.paused_until_us = 0;
        let life = server.life;
        self.trace.note(self.now_us, || {
            format!("machine {place} starts, life {life}")
        });
        self.join(place, life);
    }

    /// Asks the coordinator to let a starting server in.
    pub fn join(&mut self, place: usize, life: u64) {
        let server = &self.servers[place];
        if server.life != life || !matches!(server.state, State::Joining) {
            return;
        }
        let request = CoordinatorRequest::Join {
            server: server.id,
            instance: server.disk.wrapping_add(life),
            disk: server.disk,
            domain: format!("machine{place}"),
            cores: (0..self.plan.cores)
                .map(|core| format!("machine{place}:{}", 7000 + core))
                .collect(),
        };
        let content = Content::Ask(0, request, life);
        self.send(Node::Starting(place), Node::Coordinator, content);
        self.after(JOIN_RETRY_US, Event::JoinAgain(place, life));
    }

    /// The coordinator has answered a starting server.
    pub fn join_answered(&mut self, place: usize, life: u64, reply: CoordinatorReply) {
        let server = &self.servers[place];
        if server.life != life || !matches!(server.state, State::Joining) {
            return;
        }
        match reply {
            CoordinatorReply::Joined {
                server,
                incarnation,
                configuration,
            } => {
                self.places.insert(server, place);
                self.servers[place].id = Some(server);
                self.boot(place, incarnation, Arc::new(configuration));
            }
            CoordinatorReply::Refused { retry: true, .. } => {}
            other => self.check("join", Err(format!("a join was answered by {other:?}"))),
        }
    }

    /// Starts the cores of a server from their disks.
    fn boot(&mut self, place: usize, incarnation: Incarnation, configuration: Arc<Configuration>) {
        let misreads = self.random.chance(self.faults.misread);
        let server = &mut self.servers[place];
        let id = server.id.expect("it has joined");
        let now = server.clock.now(self.now_us);
        let mut cores = Vec::new();
        let mut all_effects = Vec::new();
        for (number, disk) in server.disks.iter_mut().enumerate() {
            let core = CoreId {
                server: id,
                core: number as u16,
            };
            let mut effects = Effects::default();
            let started = disk
                .recover(misreads, &mut self.random)
                .and_then(|recovered| {
                    let configuration = Arc::clone(&configuration);
                    let limits = self.plan.limits;
                    let start = Start {
                        core,
                        incarnation,
                        limits,
                        configuration,
                        recovered,
                    };
                    Core::start(start, now, disk, &mut effects)
                });
            match started {
                Ok(core) => cores.push(core),
                Err(error) => {
                    // R24: it must not serve from a log that it cannot trust. The operator looks
                    // at the cable and starts it again.
                    self.trace
                        .note(self.now_us, || format!("{core} does not start: {error}"));
                    server.state = State::Down;
                    self.after(100 * MILLISECOND, Event::Start(place));
                    return;
                }
            }
            all_effects.push((core, effects));
        }
        let life = server.life;
        server.state = State::Running(cores);
        for (core, effects) in all_effects {
            self.leases.started(core);
            self.ledger.crash(
                core,
                self.servers[place].disks[usize::from(core.core)].appended(),
            );
            self.trace.note(self.now_us, || {
                format!("{core} runs, incarnation {}", incarnation.0)
            });
            self.carry_out(Life { core, life }, effects);
        }
        self.connect_all(place);
        self.schedule_checkpoint(place);
        self.tempt_start();
    }

    /// Connections between a server that has started and those that run are made anew.
    fn connect_all(&mut self, place: usize) {
        let lives = |world: &World, place: usize| -> Vec<Life> {
            let server = &world.servers[place];
            let cores = server
                .cores()
                .iter()
                .map(|core| core.machine.identity().core);
            cores
                .map(|core| Life {
                    core,
                    life: server.life,
                })
                .collect()
        };
        let new = lives(self, place);
        for other in 0..self.servers.len() {
            for (one, two) in lives(self, other)
                .iter()
                .flat_map(|a| new.iter().map(move |b| (a, b)))
            {
                if one.core != two.core {
                    let delay_us = self.random.exponential(2 * self.faults.latency_us);
                    self.after(
                        delay_us,
                        Event::Connect {
                            from: *one,
                            to: two.core,
                        },
                    );
                    self.after(
                        delay_us,
                        Event::Connect {
                            from: *two,
                            to: one.core,
                        },
                    );
                }
            }
        }
    }

    /// A core's connection to another one is new.
    pub fn connected(&mut self, from: Life, to: CoreId) {
        self.input(from, Input::PeerConnected { core: to });
    }

    /// Hands an input to a core, if that life of it still runs.
    pub fn input(&mut self, life: Life, input: Input) {
        self.with_core(life, |core, now, disk, effects| {
            core.step(now, input, disk, effects)
        });
    }

    fn with_core(&mut self, life: Life, act: impl FnOnce(&mut Core, Now, &mut Disk, &mut Effects)) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let State::Running(cores) = &mut server.state else {
            unreachable!("it is alive")
        };
        let number = usize::from(life.core.core);
        let now = server.clock.now(self.now_us);
        let mut effects = Effects::default();
        act(
            &mut cores[number],
            now,
            &mut server.disks[number],
            &mut effects,
        );
        self.carry_out(life, effects);
    }

    /// Does what a core's machine wants done.
    fn carry_out(&mut self, life: Life, effects: Effects) {
        let Life { core, .. } = life;
        for note in effects.notes {
            self.trace.note(self.now_us, || note);
        }
        for (position, record) in effects.records {
            self.trace.note(self.now_us, || {
                format!("{core} logs {}: {record:?}", position.0)
            });
            self.recorded(core, position, &record);
        }
        for (to, header, message) in effects.sends {
            // A peer that is down has no connection; the driver tells the machine when it has.
            if let Some(receiver) = self.life(to).filter(|life| self.alive(*life).is_some()) {
                let content = Content::Peer(header, message, receiver.life);
                self.send(Node::Core(core), Node::Core(to), content);
            }
        }
        for request in effects.asks {
            let content = Content::Ask(0, request, life.life);
            self.send(Node::Core(core), Node::Coordinator, content);
        }
        for reply in effects.replies {
            self.after(REPLY_DELAY_US, Event::ReplyLeaves(life, reply));
        }
        self.start_flush(life);
        self.schedule_tick(life);
    }

    /// The checks on each record, before and after it is in the ledger.
    fn recorded(&mut self, core: CoreId, position: Position, record: &Record) {
        match record {
            Record::Prepared { prepare, .. } => {
                let agrees = prepared::votes_agree(&self.ledger, prepare);
                self.check("R1 a vote never changes", agrees);
            }
            Record::Decided {
                partition,
                operation,
                decision,
            } => {
                let Some(entry) = self.ledger.operations.get(operation) else {
                    let text = format!("{operation:?} is decided, but prepared nowhere");
                    self.check("I1 commit ⇒ prepared at all members", Err(text));
                    return;
                };
                let outcome = outcomes::decided(entry, decision);
                let complete = match decision {
                    Decision::Commit if self.is_sync() => {
                        prepared::decided(&self.ledger, entry, *partition)
                    }
                    _ => Ok(()),
                };
                self.check("I3 nothing is both committed and aborted", outcome);
                self.check("I1 commit ⇒ prepared at all members", complete);
            }
            Record::Settled { .. } | Record::Completed { .. } => {}
        }
        self.ledger.append(core, position, record);
        if let Record::Prepared { .. } | Record::Decided { .. } = record {
            self.tempt_record(self.places[&core.server]);
        }
    }

    fn schedule_tick(&mut self, life: Life) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let clock = server.clock;
        let State::Running(cores) = &mut server.state else {
            unreachable!("it is alive")
        };
        let core = &mut cores[usize::from(life.core.core)];
        let at_us = clock.when(core.deadline_us).max(self.now_us);
        if core.tick_at_us.is_none_or(|tick_at_us| at_us < tick_at_us) {
            core.tick_at_us = Some(at_us);
            self.queue.push(at_us, Event::CoreTick(life));
        }
    }

    /// A core's deadline, or an earlier one that is none any more.
    pub fn core_tick(&mut self, life: Life) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let now = server.clock.now(self.now_us);
        let State::Running(cores) = &mut server.state else {
            unreachable!("it is alive")
        };
        let core = &mut cores[usize::from(life.core.core)];
        if core
            .tick_at_us
            .is_some_and(|tick_at_us| tick_at_us > self.now_us)
        {
            return;
        }
        core.tick_at_us = None;
        if core.deadline_us > now.monotonic_us {
            self.schedule_tick(life);
            return;
        }
        let backlog = core.machine.backlog();
        let keys = (self.plan.workload.groups * self.plan.workload.ids) as usize;
        let within = budget::within(&backlog, &self.plan.limits, keys);
        self.check("I15 memory stays in its budget", within);
        let running = self.servers.iter().flat_map(Server::cores);
        let waiting: Vec<_> = running.flat_map(|core| core.machine.waits()).collect();
        self.check(
            "I11 the wait-for graph has no cycle",
            waits::acyclic(&waiting),
        );
        self.input(life, Input::Tick);
    }

    /// Begins a flush if one is wanted and none is under way.
    fn start_flush(&mut self, life: Life) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let number = usize::from(life.core.core);
        let State::Running(cores) = &mut server.state else {
            unreachable!("it is alive")
        };
        let (core, disk) = (&mut cores[number], &server.disks[number]);
        let pending = disk.appended() > disk.durable();
        if core.flush_due && pending && !core.flush_scheduled {
            core.flush_scheduled = true;
            self.queue
                .push(self.now_us + FLUSH_INTERVAL_US, Event::FlushDue(life));
        }
        if !core.flush_wanted || !pending || core.flushing.is_some() {
            return;
        }
        core.flush_wanted = false;
        core.flushing = Some(disk.appended());
        let target = disk.appended();
        let mut takes_us = self.random.exponential(self.faults.flush_us);
        if self.random.chance(self.faults.flush_slow) {
            takes_us *= 100;
        }
        if planted::is(Bug::UnflushedIsDurable) {
            self.report_durable(life, target);
        }
        // A failed flush loses memory at any time, which `replicated` does not promise to survive.
        let failed = self.is_sync() && self.random.chance(self.faults.flush_failure);
        self.after(
            takes_us,
            Event::Flushed {
                life,
                target,
                failed,
            },
        );
    }

    /// The interval is over after which `replicated` records are flushed.
    pub fn flush_due(&mut self, life: Life) {
        self.with_core(life, |core, _, _, _| {
            core.flush_due = false;
            core.flush_scheduled = false;
            core.flush_wanted = true;
        });
    }

    /// A flush has ended.
    pub fn flushed(&mut self, life: Life, target: Position, failed: bool) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let number = usize::from(life.core.core);
        if failed {
            self.servers[place].disks[number].flush_failed();
            if !planted::is(Bug::FailedFlushTrusted) {
                // R23: nobody knows what is on the disk now. The process must die.
                self.trace
                    .note(self.now_us, || format!("{} fails to flush", life.core));
                self.crash(place, Tail::Torn, 100 * MILLISECOND);
                return;
            }
        }
        self.servers[place].disks[number].flushed(target);
        let lost = self.servers[place].disks[number].has_lost();
        if !lost {
            self.ledger.durable(life.core, target);
        }
        self.with_core(life, |core, _, disk, _| {
            core.flushing = None;
            core.flush_wanted |= disk.appended() > target && !core.flush_due;
        });
        self.report_durable(life, target);
    }

    fn report_durable(&mut self, life: Life, target: Position) {
        self.with_core(life, |core, now, disk, effects| {
            core.durable(now, target, disk, effects)
        });
    }

    /// A message of a peer has come to a core.
    pub fn peer_message(&mut self, life: Life, header: PeerHeader, message: PeerMessage) {
        let Some(place) = self.alive(life) else {
            return;
        };
        if let PeerMessage::LeaseGrant { sent_us, .. } = message {
            let server = &self.servers[place];
            let core = &server.cores()[usize::from(life.core.core)];
            if core.machine.epoch() == header.epoch {
                let until_us = server.clock.when(sent_us + self.plan.limits.lease_us);
                let vouching = (header.from.server, header.epoch);
                let needed = usize::from(self.plan.schema.failures_tolerated);
                self.leases.vouched(life.core, vouching, until_us, needed);
            }
        }
        let mut unheard = Ok(());
        self.with_core(life, |core, now, disk, effects| {
            let from = header.from.server;
            let speaker = core.machine.configuration().server(from);
            let known = speaker.map_or(header.incarnation, |server| server.incarnation);
            core.step(now, Input::Peer { header, message }, disk, effects);
            let done = (effects.records.len(), effects.sends.len());
            unheard = earlier_life::unheard(header.incarnation, known, done);
        });
        self.check("R16 an earlier life is not heard", unheard);
    }

    /// The coordinator has answered a core.
    pub fn core_answered(&mut self, life: Life, reply: CoordinatorReply) {
        let Some(place) = self.alive(life) else {
            return;
        };
        match reply {
            CoordinatorReply::Beat {
                sent_us,
                epoch,
                lease_us,
                session_floor,
            } => {
                let until_us = self.servers[place].clock.when(sent_us + lease_us);
                self.leases.beaten(life.core, until_us);
                self.input(
                    life,
                    Input::Beat {
                        sent_us,
                        epoch,
                        lease_us,
                        session_floor,
                    },
                );
            }
            CoordinatorReply::Configuration(configuration) => {
                self.input(life, Input::Configuration(Arc::new(configuration)));
            }
            CoordinatorReply::Unchanged { .. } => {}
            CoordinatorReply::Refused { message, retry } => {
                self.trace
                    .note(self.now_us, || format!("{}: refused: {message}", life.core));
                if std::mem::take(&mut self.servers[place].joined_late) && !retry {
                    return self.crash(place, Tail::Kept, 100 * MILLISECOND);
                }
                let refused = if retry { Ok(()) } else { Err(message) };
                self.check("a core is refused by the coordinator", refused);
            }
            other => self.check("heartbeat", Err(format!("a core was answered {other:?}"))),
        }
    }

    /// A client's request has come to a core.
    pub fn client_request(&mut self, life: Life, client: u64, correlation: u64, request: Request) {
        let core = life.core;
        let Some(place) = self.alive(life) else {
            let delay_us = self.faults.latency_us;
            self.after(delay_us, Event::ClientDisconnected(client, core));
            return;
        };
        let breaks = self
            .network
            .connection(Node::Client(client), Node::Core(core));
        let name = self.connections.name(client, life, breaks);
        let epoch = match &request {
            Request::Execute(execute) => {
                self.connections
                    .writes
                    .insert((name, correlation), execute.request);
                Some(execute.epoch)
            }
            Request::Read(read) => Some(read.epoch),
            Request::Checksum(_) | Request::Status => None,
        };
        let own = self.servers[place].cores()[usize::from(core.core)]
            .machine
            .epoch();
        if epoch.is_some_and(|epoch| epoch != own) {
            self.leases.mismatched(name, correlation);
        }
        self.input(
            life,
            Input::Request {
                client: name,
                correlation,
                request,
            },
        );
    }

    /// A core learns that a client's connection is gone.
    pub fn client_gone(&mut self, life: Life, client: ClientId) {
        self.input(life, Input::ClientGone { client });
    }

    /// The driver writes a reply: the last look at the lease, after the value was taken (R15).
    pub fn reply_leaves(&mut self, life: Life, reply: ClientReply) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let ClientReply {
            client,
            correlation,
            valid_until_us,
            mut reply,
            ..
        } = reply;
        let now = self.servers[place].clock.now(self.now_us);
        let over = valid_until_us.is_some_and(|until_us| until_us <= now.monotonic_us);
        if over && !planted::is(Bug::LeaseUnchecked) {
            reply = Reply::Refused(Refusal::NotServing);
        }
        if !matches!(reply, Reply::Refused(_)) {
            let served = self.leases.served(client, correlation);
            self.check("R15 another epoch's request is refused", served);
            if valid_until_us.is_some() {
                let leased = self.leases.answers(life.core, self.now_us);
                self.check("R15 a read needs a lease", leased);
            }
        }
        if let Reply::Executed(result) = &reply {
            self.check_told(client, correlation, result);
        }
        let (receiver, life, breaks) = self.connections.ends(client);
        let (from, to) = (Node::Core(life.core), Node::Client(receiver));
        if self.network.connection(to, from) == breaks {
            self.send(from, to, Content::Reply(correlation, reply));
        }
    }

    fn check_told(&mut self, client: ClientId, correlation: u64, result: &RequestResult) {
        let request = self.connections.writes[&(client, correlation)];
        // With `replicated`, a result without effect is in the head's memory alone: when that is
        // lost before the client has heard, there may be another one. The client's session makes
        // sure that it hears only one.
        if self.is_sync() {
            let told = self.results.told(request, result);
            self.check("I7 one result per request", told);
        }
        let operations = self.ledger.of_request.get(&request);
        let last = operations.and_then(|operations| {
            let entries = operations
                .iter()
                .map(|operation| &self.ledger.operations[operation]);
            entries.max_by_key(|entry| entry.decision == Some(Decision::Commit))
        });
        let (mut outcome, mut complete) = (Ok(()), Ok(()));
        match last {
            Some(entry) if matches!(result, RequestResult::Applied { .. }) => {
                outcome = outcomes::told(entry, result);
                if self.is_sync() {
                    complete = prepared::told(&self.ledger, entry);
                }
            }
            None if matches!(result, RequestResult::Applied { .. }) => {
                outcome = Err(format!(
                    "{request:?} is told as applied, but no operation did it"
                ));
            }
            _ => {}
        }
        self.check("I2 a seen outcome is never reversed", outcome);
        self.check("I1 commit ⇒ prepared at all members", complete);
    }

    /// Takes a checkpoint of a core, and plans the next one.
    pub fn checkpoint(&mut self, life: Life) {
        self.with_core(life, |core, _, disk, _| {
            let (tables, retain_from) = core.checkpoint();
            disk.checkpoint(tables, retain_from);
        });
        if let Some(place) = self.alive(life) {
            self.schedule_checkpoint(place);
        }
    }

    fn schedule_checkpoint(&mut self, place: usize) {
        let every_us = self.faults.checkpoint_every_us;
        if every_us == 0 {
            return;
        }
        let server = &self.servers[place];
        let id = server.id.expect("it has joined");
        let number = self.random.below(server.disks.len() as u64) as u16;
        let life = Life {
            core: CoreId {
                server: id,
                core: number,
            },
            life: server.life,
        };
        let delay_us = self.random.exponential(every_us);
        self.after(delay_us, Event::Checkpoint(life));
    }

    /// Kills a server's process; it starts again after `down_us`.
    pub fn crash(&mut self, place: usize, tail: Tail, down_us: u64) {
        let server = &mut self.servers[place];
        let before = std::mem::replace(&mut server.state, State::Down);
        self.trace
            .note(self.now_us, || format!("machine {place} dies ({tail:?})"));
        match (before, server.id) {
            (State::Down, _) => return,
            // It has not touched its disks yet.
            (State::Joining, _) | (State::Running(_), None) => {}
            (State::Running(_), Some(id)) => {
                server.forgot |= tail == Tail::Torn;
                for (number, disk) in server.disks.iter_mut().enumerate() {
                    let kept = disk.crash(tail, &mut self.random);
                    let core = CoreId {
                        server: id,
                        core: number as u16,
                    };
                    self.ledger.crash(core, kept);
                }
                self.break_all(id);
            }
        }
        self.after(down_us, Event::Start(place));
    }

    /// All connections of a server break. What it had sent may still be under way.
    fn break_all(&mut self, id: ServerId) {
        let vanish = self.random.chance(0.5);
        for number in 0..self.plan.cores {
            let core = CoreId {
                server: id,
                core: number,
            };
            let clients: Vec<u64> = self.clients.keys().copied().collect();
            for client in clients {
                self.network
                    .break_connection(Node::Client(client), Node::Core(core));
                self.network
                    .break_connection(Node::Core(core), Node::Client(client));
                let delay_us = self.faults.latency_us;
                self.after(delay_us, Event::ClientDisconnected(client, core));
            }
            if vanish {
                let others: Vec<ServerId> = self.places.keys().copied().collect();
                for server in others {
                    for other in 0..self.plan.cores {
                        let other = Node::Core(CoreId {
                            server,
                            core: other,
                        });
                        self.network.break_connection(Node::Core(core), other);
                    }
                }
            }
        }
    }

    /// A core's disk has space, or has none.
    pub fn space(&mut self, life: Life, admits: bool) {
        self.input(life, Input::Space { admits });
    }
}
