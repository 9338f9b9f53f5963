//! Random worlds around one session machine: requests, replies and answers are lost and delayed,
//! connections break, cores refuse requests, epochs and sessions end. Each world follows from one
//! seed, so that a failure can be repeated.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use protocol::identity::{ClockReading, CoreId, Epoch, RequestId, SessionId, Version};
use protocol::message::{CoordinatorRequest, Execute, Refusal, Reply, Request, RowPage};
use protocol::operation::RequestResult;

use super::{TABLE, configuration, core, insert, read};
use crate::{
    Attempt, SessionInput, SessionLimits, SessionMachine, SessionOutcome, SessionOutput, Ticket,
};

const SEEDS: u64 = 300;
const TICKETS: u64 = 60;

#[test]
fn requests_have_one_effect_and_one_outcome_in_random_worlds() {
    let mut totals = [0; 3];
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.run();
        for (total, count) in totals.iter_mut().zip(world.judge()) {
            *total += count;
        }
    }
    let [executed, failed, unknown] = totals;
    assert!(executed > 0, "{failed} failed, {unknown} unknown");
    assert!(failed > 0 && unknown > 0, "{executed} executed");
}

/// An event of the machine or of a core at some time.
#[derive(Debug)]
enum Event {
    Submit(Ticket),
    Cancel(Ticket),
    /// A request arrives, if its connection still is the one with this number.
    Arrive(u64, Attempt),
    Reply(u64, CoreId, u64, Reply),
    Opened(CoreId),
    Refused(CoreId),
    Break(CoreId),
    Fetched(Epoch),
    SessionOpened(SessionId, u64),
    NextEpoch,
    EndSessions,
    Tick(u64),
}

#[derive(Default)]
struct Core {
    epoch: Epoch,
    /// Results by name, until acknowledged.
    completed: BTreeMap<RequestId, RequestResult>,
    acknowledged: BTreeMap<SessionId, u64>,
    floor: SessionId,
}

struct World {
    seed: u64,
    random: u64,
    now_us: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    machine: SessionMachine,
    cores: BTreeMap<CoreId, Core>,
    /// The open connection to each core.
    connections: BTreeMap<CoreId, u64>,
    epoch: Epoch,
    sessions: u64,
    /// Chances of 1,000.
    loss: u64,
    refusal: u64,
    healthy_from_us: u64,
    limits: SessionLimits,
    outcomes: BTreeMap<Ticket, SessionOutcome>,
    cancelled: BTreeSet<Ticket>,
    deadlines: BTreeMap<Ticket, u64>,
    /// Effects by pk, which is the ticket's number.
    effects: BTreeMap<Vec<u8>, u32>,
    names: BTreeMap<RequestId, Vec<u8>>,
    acknowledged_sent: BTreeMap<SessionId, u64>,
}

impl World {
    fn new(seed: u64) -> World {
        let limits = SessionLimits {
            in_flight_max: 3,
            requests_max: 40,
            span_max: 8,
            attempts_max: 2,
            attempt_us: 20_000,
            ..SessionLimits::default()
        };
        let mut world = World {
            seed,
            random: seed,
            now_us: 1_000,
            events: BTreeMap::new(),
            sequence: 0,
            machine: SessionMachine::new(limits, seed, None),
            cores: [(core(1), Core::default()), (core(2), Core::default())].into(),
            connections: BTreeMap::new(),
            epoch: Epoch(1),
            sessions: 0,
            loss: 0,
            refusal: 0,
            healthy_from_us: 3_000_000,
            limits,
            outcomes: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            effects: BTreeMap::new(),
            names: BTreeMap::new(),
            acknowledged_sent: BTreeMap::new(),
        };
        world.loss = world.below(300);
        world.refusal = world.below(400);
        for number in 0..TICKETS {
            let at = world.below(3_000_000);
            world.at(at, Event::Submit(Ticket(number)));
            if world.chance(30) {
                let later = at + world.below(100_000);
                world.at(later, Event::Cancel(Ticket(number)));
            }
        }
        for _ in 0..world.below(6) {
            let at = world.below(3_000_000);
            world.at(at, Event::NextEpoch);
        }
        for _ in 0..world.below(3) {
            let at = world.below(3_000_000);
            world.at(at, Event::EndSessions);
        }
        for _ in 0..world.below(10) {
            let (at, server) = (world.below(3_000_000), 1 + world.below(2));
            world.at(at, Event::Break(core(server as u32)));
        }
        // When all is well again, requests succeed.
        for number in TICKETS..TICKETS + 10 {
            world.at(4_000_000 + number, Event::Submit(Ticket(number)));
        }
        world
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound.max(1)
    }

    fn chance(&mut self, of_1000: u64) -> bool {
        self.below(1_000) < of_1000
    }

    fn faulty(&mut self, of_1000: u64) -> bool {
        self.now_us < self.healthy_from_us && self.chance(of_1000)
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at_us, self.sequence), event);
    }

    fn later(&mut self, event: Event) {
        let delay = 50 + self.below(30_000);
        self.at(self.now_us + delay, event);
    }

    fn run(&mut self) {
        let mut steps = 0;
        while let Some(((at_us, _), event)) = self.events.pop_first() {
            self.now_us = self.now_us.max(at_us);
            steps += 1;
            assert!(steps < 100_000, "seed {}: it never ends", self.seed);
            self.handle(event);
        }
    }

    // tidy: long — one arm for each event
    fn handle(&mut self, event: Event) {
        let input = match event {
            Event::Submit(ticket) => {
                let deadline_us = self.now_us + 20_000 + self.below(2_000_000);
                self.deadlines.insert(ticket, deadline_us);
                let is_read = ticket.0 % 5 == 4;
                SessionInput::Submit {
                    ticket,
                    operation: if is_read {
                        read((ticket.0 % 4) as u32)
                    } else {
                        insert(ticket.0 as i64)
                    },
                    deadline_us,
                }
            }
            Event::Cancel(ticket) => {
                if !self.outcomes.contains_key(&ticket) {
                    self.cancelled.insert(ticket);
                }
                SessionInput::Cancel { ticket }
            }
            Event::Arrive(connection, attempt) => {
                if self.connections.get(&attempt.core) == Some(&connection) {
                    self.arrive(connection, attempt);
                }
                return;
            }
            Event::Reply(connection, core, correlation, reply) => {
                if self.connections.get(&core) != Some(&connection) {
                    return;
                }
                if self.faulty(50) {
                    let reply = reply.clone();
                    self.later(Event::Reply(connection, core, correlation, reply));
                }
                SessionInput::Reply {
                    core,
                    correlation,
                    reply,
                }
            }
            Event::Opened(core) => {
                self.sequence += 1;
                self.connections.insert(core, self.sequence);
                let epoch = self.cores[&core].epoch;
                SessionInput::Connected { core, epoch }
            }
            Event::Refused(core) => SessionInput::Disconnected { core },
            Event::Break(core) => {
                if self.connections.remove(&core).is_none() {
                    return;
                }
                SessionInput::Disconnected { core }
            }
            Event::Fetched(known) if known == self.epoch => {
                SessionInput::Unchanged { epoch: self.epoch }
            }
            Event::Fetched(_) => SessionInput::Configuration(configuration(self.epoch.0)),
            Event::SessionOpened(session, life_us) => SessionInput::Session { session, life_us },
            Event::NextEpoch => {
                self.epoch.0 += 1;
                return;
            }
            Event::EndSessions => {
                // All but the newest: a core receives it sooner or later.
                let floor = SessionId(self.sessions);
                let server = 1 + self.below(2);
                let core = self.cores.get_mut(&core(server as u32)).unwrap();
                core.floor = core.floor.max(floor);
                core.completed.retain(|name, _| name.session >= floor);
                return;
            }
            Event::Tick(at_us) => {
                assert!(at_us <= self.now_us);
                SessionInput::Tick
            }
        };
        self.step(input);
    }

    fn step(&mut self, input: SessionInput) {
        let mut output = SessionOutput::default();
        let now = ClockReading {
            monotonic_us: self.now_us,
            wall_us: 0,
        };
        self.machine.step(now, input, &mut output);
        for core in output.connects {
            assert!(!self.connections.contains_key(&core), "it is open already");
            let event = if self.faulty(300) {
                Event::Refused(core)
            } else {
                Event::Opened(core)
            };
            self.later(event);
        }
        for attempt in output.sends {
            self.check_sent(&attempt);
            let connection = self.connections[&attempt.core];
            if !self.faulty(self.loss) {
                self.later(Event::Arrive(connection, attempt));
            }
        }
        for ask in output.asks {
            if self.faulty(self.loss) {
                continue;
            }
            match ask {
                CoordinatorRequest::Fetch { known } => self.later(Event::Fetched(known)),
                CoordinatorRequest::OpenSession => {
                    self.sessions += 1;
                    let life_us = self.below(1_000_000);
                    self.later(Event::SessionOpened(SessionId(self.sessions), life_us));
                }
                other => panic!("a session asks for {other:?}"),
            }
        }
        for completion in output.completions {
            let ticket = completion.ticket;
            assert!(!self.cancelled.contains(&ticket), "seed {}", self.seed);
            let late_us = self.now_us.saturating_sub(self.deadlines[&ticket]);
            assert!(late_us == 0, "seed {}: {late_us} µs late", self.seed);
            let before = self.outcomes.insert(ticket, completion.outcome);
            assert_eq!(before, None, "seed {}: ended twice", self.seed);
        }
        assert!(self.machine.open_requests() <= self.limits.requests_max);
        if let Some(at_us) = output.deadline_us {
            self.at(at_us, Event::Tick(at_us));
        } else {
            assert_eq!(
                self.machine.open_requests(),
                0,
                "nothing is left without a timer"
            );
        }
    }

    /// Checks the conditions that every attempt must satisfy.
    fn check_sent(&mut self, attempt: &Attempt) {
        let links = &mut self.machine.links.values();
        assert!(links.all(|link| link.in_flight <= self.limits.in_flight_max));
        let Request::Execute(execute) = &attempt.request else {
            return;
        };
        let pk = execute.mutations[0].pk.0.clone();
        let known = self.names.entry(execute.request).or_insert(pk.clone());
        assert_eq!(*known, pk, "seed {}: a number is used again", self.seed);
        assert_eq!(execute.table, TABLE);
        let below = execute.acknowledged_below;
        let before = self
            .acknowledged_sent
            .insert(execute.request.session, below);
        assert!(before <= Some(below), "acknowledgements rise");
        assert!(below <= execute.request.number);
        assert!(execute.request.number - below < self.limits.span_max);
    }

    fn arrive(&mut self, connection: u64, attempt: Attempt) {
        let reply = self.answer(&attempt);
        if !self.faulty(self.loss) {
            let Attempt {
                core, correlation, ..
            } = attempt;
            self.later(Event::Reply(connection, core, correlation, reply));
        }
    }

    fn answer(&mut self, attempt: &Attempt) -> Reply {
        if self.faulty(self.refusal) {
            let refusals = [
                Refusal::NotServing,
                Refusal::Overloaded,
                Refusal::WrongPartition,
                Refusal::DiskFull {
                    server: attempt.core.server,
                },
            ];
            let which = self.below(4) as usize;
            return Reply::Refused(refusals[which].clone());
        }
        let epoch = match &attempt.request {
            Request::Execute(execute) => execute.epoch,
            Request::Read(read) => read.epoch,
            _ => panic!("not part of this test"),
        };
        // A core receives a new epoch late.
        let news = self.chance(500) || self.now_us >= self.healthy_from_us;
        let newest = self.epoch;
        let core = self.cores.get_mut(&attempt.core).unwrap();
        if news {
            core.epoch = newest;
        }
        if epoch != core.epoch {
            return Reply::Refused(Refusal::StaleEpoch { epoch: core.epoch });
        }
        match &attempt.request {
            Request::Execute(execute) => self.execute(attempt.core, execute),
            _ => Reply::Rows(RowPage::default()),
        }
    }

    /// Executes a request as the machine of a core does.
    fn execute(&mut self, core: CoreId, execute: &Execute) -> Reply {
        let core = self.cores.get_mut(&core).unwrap();
        let name = execute.request;
        if name.session < core.floor {
            return Reply::Refused(Refusal::SessionEnded);
        }
        let below = core.acknowledged.entry(name.session).or_default();
        *below = (*below).max(execute.acknowledged_below);
        let below = *below;
        core.completed
            .retain(|other, _| other.session != name.session || other.number >= below);
        if let Some(result) = core.completed.get(&name) {
            return Reply::Executed(result.clone());
        }
        if name.number < below {
            return Reply::Refused(Refusal::RequestMismatch);
        }
        let pk = execute.mutations[0].pk.0.clone();
        *self.effects.entry(pk).or_default() += 1;
        let version = Version(self.effects.len() as u64);
        let result = RequestResult::Applied { version };
        core.completed.insert(name, result.clone());
        Reply::Executed(result)
    }

    /// Compares reported results with the actual ones. Counts results, failures and unknowns.
    fn judge(&self) -> [u64; 3] {
        let seed = self.seed;
        let mut counts = [0; 3];
        assert_eq!(self.machine.open_requests(), 0, "seed {seed}");
        assert_eq!(self.machine.open_attempts(), 0, "seed {seed}");
        for number in 0..TICKETS + 10 {
            let ticket = Ticket(number);
            let pk = super::key(number as i64);
            let effects = self.effects.get(&pk).copied().unwrap_or(0);
            assert!(
                effects <= 1,
                "seed {seed}: {ticket:?} happened {effects} times"
            );
            let Some(outcome) = self.outcomes.get(&ticket) else {
                assert!(self.cancelled.contains(&ticket), "seed {seed}: {ticket:?}");
                continue;
            };
            match outcome {
                SessionOutcome::Executed(_) => {
                    assert_eq!(effects, 1, "seed {seed}: {ticket:?}");
                    counts[0] += 1;
                }
                SessionOutcome::Failed(failure) => {
                    assert_eq!(effects, 0, "seed {seed}: {ticket:?} {failure}");
                    counts[1] += 1;
                }
                SessionOutcome::Unknown(_) => counts[2] += 1,
                _ => {}
            }
            let well = matches!(
                outcome,
                SessionOutcome::Executed(_) | SessionOutcome::Rows(_)
            );
            let excuse = number < TICKETS || self.deadlines[&ticket] < 4_300_000;
            assert!(well || excuse, "seed {seed}: {ticket:?} {outcome:?}");
        }
        counts
    }
}
