//! The simulated cluster: servers, a coordinator and clients around one queue of events.
//!
//! One event is handled at a time, and the events that follow from it go into the queue. This
//! module has the shared state. Its child modules have the parts, as `impl` blocks.

pub mod chaos;
pub mod client;
pub mod coordinator;
pub mod operator;
pub mod server;
mod snapshot;
mod submitted;
mod transaction;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use machines::core::ClientId;
use placement::Durability;
use protocol::identity::{CoreId, Epoch, PartitionId, RequestId, ServerId, TableId};
use protocol::message::{CoordinatorReply, Room};
use session::Ticket;

use crate::check::Violation;
use crate::check::collisions::Collisions;
use crate::check::cuts::GivenSnapshots;
use crate::check::cycles::Shown;
use crate::check::lease::Leases;
use crate::check::results::Results;
use crate::clock::SimulatedClock;
use crate::event::{CoreLife, Event, EventQueue, Packet, PacketContent};
use crate::fault::Fault;
use crate::ledger::Ledger;
use crate::linearizable::Call;
use crate::model::{ModelRow, Observation, WorkloadOperation};
use crate::network::{Network, Node};
use crate::plan::{Faults, RunPlan};
use crate::random::Random;
use crate::trace::Trace;
use crate::watch::Watch;
use crate::workload::{Generator, Translation};

use client::SimulatedClient;
use coordinator::SimulatedCoordinator;
use operator::OPERATOR;
use server::SimulatedServer;
use transaction::KnownRange;

/// The whole simulated cluster.
#[derive(Debug)]
pub struct World {
    /// The plan of the run, which follows from the seed.
    pub plan: RunPlan,
    /// The rates of faults in the present phase.
    pub faults: Faults,
    /// Simulated time.
    pub now_us: u64,
    /// The events that are to come.
    pub queue: EventQueue,
    /// The stream of random numbers of the world itself.
    pub random: Random,
    /// The simulated network.
    pub network: Network,
    /// The servers. Their indexes are used as places.
    pub servers: Vec<SimulatedServer>,
    /// The index of each server in `servers`, by the server's number.
    pub places: BTreeMap<ServerId, usize>,
    /// The coordinator.
    pub coordinator: SimulatedCoordinator,
    /// The clients that are alive, by number.
    pub clients: BTreeMap<u64, SimulatedClient>,
    /// The number of the next client.
    pub next_client: u64,
    /// The clients' connections to cores.
    pub connections: Connections,
    /// The server that is being restarted in a rolling restart; none outside of one.
    pub rolling: Option<usize>,
    /// The workload.
    pub generator: Generator,
    /// The number of operations that clients have not begun yet.
    pub operations_left: u32,
    /// The tables that were created.
    pub tables: Vec<SimulatedTable>,
    /// The newest epoch that was sent to any node.
    pub epoch: Epoch,
    /// The coordinator's answer to the creation of a table that has rows.
    pub created: Option<CoordinatorReply>,
    /// The number of tables without rows that were created and dropped.
    pub bystanders: u32,
    /// All records on all disks.
    pub ledger: Ledger,
    /// The results that clients received.
    pub results: Results,
    /// The leases that cores have received.
    pub leases: Leases,
    /// The snapshots whose T clients have received.
    pub snapshots: GivenSnapshots,
    /// The renewals in the name of another client that clients have sent.
    pub mistakes: BTreeSet<(u64, Ticket)>,
    /// The table that is watched; none if no table is.
    pub watch: Option<Watch>,
    /// The unique indexes that were added, and those that were given up.
    pub collisions: Collisions,
    /// Rows by id and version, as reads returned them: each version has one content.
    pub contents: BTreeMap<(i64, u64), ModelRow>,
    /// For each group, a range that a client has read.
    known_ranges: BTreeMap<i64, KnownRange>,
    /// The requests and reads of clients, for the order of all of them.
    pub shown: Shown,
    /// The calls of clients and what they observed, with their group.
    pub history: Vec<(i64, Call<WorkloadOperation, Observation>)>,
    /// A counter that orders the events of the history.
    pub moment: u64,
    /// The first violation, which ends the run.
    pub violation: Option<Violation>,
    /// The trace.
    pub trace: Trace,
    /// The number of events that were handled.
    pub events: u64,
}

/// A table that clients use.
#[derive(Clone, Debug)]
pub struct SimulatedTable {
    /// The table's number.
    pub id: TableId,
    /// The table in the model's words and the protocol's.
    pub translation: Rc<Translation>,
}

/// Names of clients' connections.
#[derive(Debug, Default)]
pub struct Connections {
    names: BTreeMap<(u64, CoreLife, u64), ClientId>,
    ends: Vec<(u64, CoreLife, u64)>,
    /// For each request of a write, by connection and correlation: the operation, and the partition
    /// that it was sent to.
    pub writes: BTreeMap<(ClientId, u64), (RequestId, PartitionId)>,
    /// The tables of which a snapshot was asked for, each with its epoch.
    pub snapshots: BTreeMap<(ClientId, u64), Vec<(TableId, Epoch)>>,
    /// The table that a request concerns.
    pub tables: BTreeMap<(ClientId, u64), TableId>,
}

impl Connections {
    /// Returns the name of a client's connection to one life of a core. `breaks` counts the earlier
    /// connections that broke.
    pub fn name(&mut self, client: u64, life: CoreLife, breaks: u64) -> ClientId {
        let key = (client, life, breaks);
        *self.names.entry(key).or_insert_with(|| {
            self.ends.push(key);
            ClientId(self.ends.len() as u64)
        })
    }

    /// Returns the client of a connection, the life of the core, and the number of breaks before
    /// it.
    pub fn ends(&self, name: ClientId) -> (u64, CoreLife, u64) {
        self.ends[name.0 as usize - 1]
    }
}

impl World {
    /// Returns a world in which nothing has started, with the plan of a seed.
    pub fn new(seed: u64, trace: Trace) -> World {
        let mut random = Random::new(seed);
        let plan = RunPlan::of_seed(seed, &mut random);
        World::of(plan, random, trace)
    }

    /// Returns a world in which nothing has started.
    pub fn of(plan: RunPlan, mut random: Random, trace: Trace) -> World {
        let network = Network::new(random.fork());
        let drift = plan.faults.drift_ppm;
        let mut clock = || SimulatedClock::draw(&mut random, drift);
        let coordinator = SimulatedCoordinator::new(clock(), plan.lease_us, plan.replace_after_us);
        let clocks: Vec<SimulatedClock> = (0..plan.servers).map(|_| clock()).collect();
        let servers = clocks
            .into_iter()
            .map(|clock| SimulatedServer::new(clock, &plan, &mut random));
        let servers = servers.collect();
        World {
            faults: plan.faults.calm(),
            now_us: 0,
            queue: EventQueue::default(),
            network,
            servers,
            places: BTreeMap::new(),
            coordinator,
            clients: BTreeMap::new(),
            next_client: 1,
            connections: Connections::default(),
            rolling: None,
            generator: Generator::new(plan.workload.clone(), random.fork()),
            operations_left: plan.workload.operations,
            tables: Vec::new(),
            epoch: Epoch(0),
            created: None,
            bystanders: 0,
            ledger: Ledger::new(plan.schema.durability),
            results: Results::default(),
            leases: Leases::default(),
            snapshots: GivenSnapshots::default(),
            mistakes: BTreeSet::new(),
            watch: None,
            collisions: Collisions::default(),
            contents: BTreeMap::new(),
            known_ranges: BTreeMap::new(),
            shown: Shown::default(),
            history: Vec::new(),
            moment: 0,
            violation: None,
            trace,
            events: 0,
            random,
            plan,
        }
    }

    /// Handles events until `done` returns true, at most until `limit_us` of simulated time.
    /// Returns whether `done` returned true. Also ends, with false, after a violation.
    pub fn run(&mut self, limit_us: u64, done: impl Fn(&World) -> bool) -> bool {
        while self.violation.is_none() {
            if done(self) {
                return true;
            }
            // Events after the limit stay in the queue for the next phase.
            if self.queue.next_at_us().is_none_or(|at_us| at_us > limit_us) {
                self.now_us = self.now_us.max(limit_us);
                return false;
            }
            let Some((at_us, event)) = self.queue.pop() else {
                return false;
            };
            self.now_us = at_us;
            self.events += 1;
            self.handle(event);
        }
        false
    }

    /// Records a violation, if there is one.
    pub fn check(&mut self, property: &'static str, result: Result<(), String>) {
        if let (Err(text), None) = (result, &self.violation) {
            let text = format!("{text} (at {} µs)", self.now_us);
            self.violation = Some(Violation { property, text });
        }
    }

    /// Adds an event after a delay.
    pub fn after(&mut self, delay_us: u64, event: Event) {
        self.queue.push(self.now_us + delay_us, event);
    }

    /// Sends a message; the network decides what becomes of it.
    pub fn send(&mut self, from: Node, to: Node, content: PacketContent) {
        if let Some(watch) = &mut self.watch {
            watch.sent(from, to, &content);
        }
        let arrivals = self.network.send(self.now_us, from, to, &self.faults);
        self.trace.sent(self.now_us, from, to, &content, arrivals);
        let connection = self.network.connection(from, to);
        for at_us in arrivals.into_iter().flatten() {
            let content = content.clone();
            let packet = Packet {
                from,
                to,
                connection,
                content,
            };
            self.queue.push(at_us, Event::Arrive(packet));
        }
    }

    /// Returns the index of a core's server; none if this life of the core has ended.
    pub fn alive(&self, life: CoreLife) -> Option<usize> {
        let place = *self.places.get(&life.core.server)?;
        let server = &self.servers[place];
        (server.life == life.life && server.is_running()).then_some(place)
    }

    /// Returns the present life of a core.
    pub fn life(&self, core: CoreId) -> Option<CoreLife> {
        let place = *self.places.get(&core.server)?;
        Some(CoreLife {
            core,
            life: self.servers[place].life,
        })
    }

    /// Returns whether the table is `sync`, so that acknowledged writes are flushed.
    pub fn is_sync(&self) -> bool {
        self.plan.schema.durability == Durability::Sync
    }

    /// Returns the next moment of the history.
    pub fn next_moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn handle(&mut self, event: Event) {
        if let Some(until_us) = self.paused(&event) {
            // A process that stands still takes in everything later, in the same order.
            self.queue.push(until_us, event);
            return;
        }
        match event {
            Event::Arrive(packet) => self.arrive(packet),
            Event::CoreTick(life) => self.core_tick(life),
            Event::Flushed {
                life,
                target,
                failed,
            } => self.flushed(life, target, failed),
            Event::FlushDue(life) => self.flush_due(life),
            Event::ReplyLeaves(life, reply) => self.reply_leaves(life, reply),
            Event::Checkpoint(life) => self.checkpoint(life),
            Event::CoordinatorTick(life) => self.coordinator_tick(life),
            Event::CoordinatorKept(life, version) => self.coordinator_kept(life, version),
            Event::LateAnswer(answer) => self.send_answer(answer),
            Event::Submit(client, ticket, operation, deadline_us) => {
                self.submit(client, ticket, operation, deadline_us);
            }
            Event::Start(place) => self.start_server(place),
            Event::Die(place) => self.die(place),
            Event::Cut => self.cut(),
            Event::Lose(place) => self.lose(place),
            Event::Roll(place) => self.roll(place),
            Event::JoinAgain(place, life) => self.join(place, life),
            Event::Connect { from, to } => self.connected(from, to),
            Event::NewsDue(epoch, life, announced_us) => self.judge_news(epoch, life, announced_us),
            Event::ClientWakes(client) => self.client_wakes(client),
            Event::ClientConnects(client, core) => self.client_connects(client, core),
            Event::ClientDisconnected(client, core) => self.client_disconnected(client, core),
            Event::ClientGone(life, client) => self.client_gone(life, ClientId(client)),
            Event::Fault(fault) => self.fault(fault),
            Event::Space(life) => self.space(life, Room::Free),
        }
    }

    /// Returns the time until which the process of an event is suspended; none if it is not.
    fn paused(&self, event: &Event) -> Option<u64> {
        let core = match event {
            Event::Arrive(Packet {
                to: Node::Core(core),
                ..
            }) => *core,
            Event::CoreTick(life) | Event::FlushDue(life) | Event::ReplyLeaves(life, _) => {
                life.core
            }
            Event::Flushed { life, .. } | Event::ClientGone(life, _) => life.core,
            Event::Connect { from, .. } => from.core,
            _ => return None,
        };
        let until_us = self.servers[*self.places.get(&core.server)?].paused_until_us;
        (until_us > self.now_us).then_some(until_us)
    }

    fn arrive(&mut self, packet: Packet) {
        let Packet {
            from,
            to,
            connection,
            content,
        } = packet;
        if self.network.connection(from, to) != connection {
            return;
        }
        self.trace.arrived(self.now_us, from, to, &content);
        match (to, content) {
            (Node::Core(core), PacketContent::Peer(header, message, life)) => {
                self.peer_message(CoreLife { core, life }, header, message);
            }
            (Node::Core(core), PacketContent::Request(correlation, request, life)) => {
                let Node::Client(client) = from else {
                    unreachable!("clients request")
                };
                self.client_request(CoreLife { core, life }, client, correlation, request);
            }
            (Node::Client(client), PacketContent::Reply(correlation, reply)) => {
                let Node::Core(core) = from else {
                    unreachable!("cores reply")
                };
                self.client_reply(client, core, correlation, reply);
            }
            (Node::Coordinator, PacketContent::Ask(correlation, request, life)) => {
                self.coordinator_asked(from, life, correlation, request);
            }
            (to, PacketContent::Answer(_, reply, life)) => match to {
                Node::Core(core) => self.core_answered(CoreLife { core, life }, reply),
                Node::Starting(place) => self.join_answered(place, life, reply),
                OPERATOR => self.operator_answered(reply),
                Node::Client(client) => self.client_answered(client, reply),
                Node::Coordinator => unreachable!("the coordinator asks no node"),
            },
            (to, content) => unreachable!("{to:?} gets no {content:?}"),
        }
    }

    /// Schedules the first fault of each kind in the plan.
    pub fn begin_faults(&mut self) {
        self.faults = self.plan.faults.clone();
        for fault in Fault::ALL {
            self.plan_fault(*fault);
        }
    }
}
