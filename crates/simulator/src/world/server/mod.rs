//! The simulated servers: processes with a core machine per event loop. They start, run, are
//! suspended and crash.
//!
//! This module starts and ends servers. Module `driver` drives a running core, and `front` handles
//! the requests of clients.

mod driver;
mod front;

use std::sync::Arc;

use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Epoch, Incarnation, ServerId};
use protocol::message::{CoordinatorReply, CoordinatorRequest, FolderReport};

use crate::clock::SimulatedClock;
use crate::core::{Effects, SimulatedCore, SimulatedCoreStart};
use crate::disk::{SimulatedDisk, UnflushedTail};
use crate::event::{CoreLife, Event, PacketContent};
use crate::network::Node;
use crate::plan::{MILLISECOND, RunPlan};
use crate::random::Random;
use crate::world::World;

/// A server that has had no answer joins again after this.
const JOIN_RETRY_US: u64 = 200 * MILLISECOND;

/// One server.
#[derive(Debug)]
pub struct SimulatedServer {
    /// The server's number, once it has joined.
    pub id: Option<ServerId>,
    /// The number of the server's data folder.
    pub disk: u64,
    /// The processes that joined with its folder, as the folder knows them.
    pub folder: Folder,
    /// The number of the server's starts.
    pub life: u64,
    /// The phase of the server's process.
    pub state: ServerPhase,
    /// The time until which the process is suspended.
    pub paused_until_us: u64,
    /// The server's clocks.
    pub clock: SimulatedClock,
    /// The disks, one for each core.
    pub disks: Vec<SimulatedDisk>,
    /// A request of an earlier process to join came after that of the present one, which it
    /// replaces: the present one is asked to stop, and its supervisor starts it again.
    pub joined_late: bool,
    /// The newest epoch that an older copy of its folder may have, if the server returns with one,
    /// and the time at which an operator restores the newest folder.
    pub old: Option<(Epoch, u64)>,
    /// Whether a crash lost records that the server's peers may not have sent back yet.
    pub forgot: bool,
}

/// The durable facts about processes in a data folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folder {
    /// The last process that joined with the folder.
    pub last: u64,
    /// The incarnation of that process.
    pub incarnation: Incarnation,
    /// A process that has sent a request to join, and may have joined.
    pub attempt: Option<u64>,
}

/// The phase of a server.
#[derive(Debug)]
pub enum ServerPhase {
    /// No process.
    Down,
    /// Asks the coordinator to let it in.
    Joining,
    /// By core number.
    Running(Vec<SimulatedCore>),
}

impl SimulatedServer {
    /// Returns a server that has never started.
    pub fn new(clock: SimulatedClock, plan: &RunPlan, random: &mut Random) -> SimulatedServer {
        SimulatedServer {
            id: None,
            disk: random.bits(),
            folder: Folder::default(),
            life: 0,
            state: ServerPhase::Down,
            paused_until_us: 0,
            clock,
            disks: (0..plan.cores)
                .map(|_| SimulatedDisk::new(random.bits()))
                .collect(),
            joined_late: false,
            old: None,
            forgot: false,
        }
    }

    /// Returns whether the server's cores have all their earlier votes and decisions again, from
    /// their logs and the reports of their peers.
    pub fn is_whole(&mut self) -> bool {
        let recovering = |core: &SimulatedCore| core.machine.is_recovering();
        if self.is_running() && !self.cores().iter().any(recovering) {
            self.forgot = false;
        }
        !self.forgot
    }

    /// Returns whether the server's cores run.
    pub fn is_running(&self) -> bool {
        matches!(self.state, ServerPhase::Running(_))
    }

    /// Returns the server's cores, or none if the server does not run.
    pub fn cores(&self) -> &[SimulatedCore] {
        match &self.state {
            ServerPhase::Running(cores) => cores,
            ServerPhase::Down | ServerPhase::Joining => &[],
        }
    }
}

impl World {
    /// Starts a server's process, which asks to join.
    pub fn start_server(&mut self, place: usize) {
        let server = &mut self.servers[place];
        if !matches!(server.state, ServerPhase::Down) {
            return;
        }
        server.life += 1;
        server.state = ServerPhase::Joining;
        server.paused_until_us = 0;
        let life = server.life;
        self.trace.note(self.now_us, || {
            format!("machine {place} starts, life {life}")
        });
        self.join(place, life);
    }

    /// Asks the coordinator to let a starting server in.
    pub fn join(&mut self, place: usize, life: u64) {
        let server = &mut self.servers[place];
        if server.life != life || !matches!(server.state, ServerPhase::Joining) {
            return;
        }
        server.old = server.old.filter(|(_, until_us)| self.now_us < *until_us);
        let last = match server.old {
            Some(_) => 0,
            None => server.folder.last,
        };
        let own = server.disk.wrapping_add(life);
        let instance = *server.folder.attempt.get_or_insert(own);
        let request = CoordinatorRequest::Join {
            server: server.id,
            instance,
            folder: FolderReport {
                disk: server.disk,
                last,
                incarnation: server.folder.incarnation,
                ..FolderReport::default()
            },
            domain: format!("machine{place}"),
            cores: (0..self.plan.cores)
                .map(|core| format!("machine{place}:{}", 7000 + core))
                .collect(),
        };
        let content = PacketContent::Ask(0, request, life);
        self.send(Node::Starting(place), Node::Coordinator, content);
        self.after(JOIN_RETRY_US, Event::JoinAgain(place, life));
    }

    /// Handles the coordinator's answer to a starting server.
    pub fn join_answered(&mut self, place: usize, life: u64, reply: CoordinatorReply) {
        let server = &self.servers[place];
        if server.life != life || !matches!(server.state, ServerPhase::Joining) {
            return;
        }
        match reply {
            CoordinatorReply::Joined {
                server,
                incarnation,
                logs,
                configuration,
            } => {
                self.places.insert(server, place);
                let disks = self.servers[place]
                    .disks
                    .iter()
                    .map(SimulatedDisk::appended);
                let is_old = disks.zip(&logs).any(|(end, known)| end < *known);
                let is_newest = match is_old {
                    true => Err(format!("server {} is let in with an old log", server.0)),
                    false => Ok(()),
                };
                self.check("R25 a log has what it reported to have", is_newest);
                let old = self.servers[place].old.take();
                self.check_old(server, old, &configuration);
                let joining = &mut self.servers[place];
                joining.id = Some(server);
                let last = joining.folder.attempt.take();
                joining.folder.last = last.unwrap_or(joining.folder.last);
                joining.folder.incarnation = incarnation;
                self.boot(place, incarnation, Arc::new(configuration));
            }
            CoordinatorReply::Refused { retry: true, .. } | CoordinatorReply::Wait { .. } => {}
            other => self.check("join", Err(format!("a join was answered by {other:?}"))),
        }
    }

    /// Checks that a server which was admitted with an older copy of its folder holds no earlier
    /// partitions.
    fn check_old(
        &mut self,
        id: ServerId,
        old: Option<(Epoch, u64)>,
        configuration: &Configuration,
    ) {
        let Some((epoch, _)) = old else {
            return;
        };
        let mut own = configuration
            .places()
            .filter(|(_, place)| place.core.server == id);
        let is_void = match own.find(|(_, place)| place.since <= epoch) {
            None => Ok(()),
            Some((partition, _)) => Err(format!("{partition} is as server {} had it", id.0)),
        };
        self.check("R25 an older copy of a folder is void", is_void);
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
                    let start = SimulatedCoreStart {
                        core,
                        incarnation,
                        limits,
                        configuration,
                        recovered,
                    };
                    SimulatedCore::start(start, now, disk, &mut effects)
                });
            match started {
                Ok(core) => cores.push(core),
                Err(error) => {
                    // R24: it must not serve from a log that it cannot trust. The operator looks
                    // at the cable and starts it again.
                    self.trace
                        .note(self.now_us, || format!("{core} does not start: {error}"));
                    server.state = ServerPhase::Down;
                    self.after(100 * MILLISECOND, Event::Start(place));
                    return;
                }
            }
            all_effects.push((core, effects));
        }
        let life = server.life;
        server.state = ServerPhase::Running(cores);
        for (core, effects) in all_effects {
            self.leases.started(core);
            self.ledger.crash(
                core,
                self.servers[place].disks[usize::from(core.core)].appended(),
            );
            self.trace.note(self.now_us, || {
                format!("{core} runs, incarnation {}", incarnation.0)
            });
            self.carry_out(CoreLife { core, life }, effects);
        }
        self.connect_all(place);
        self.schedule_checkpoint(place);
        self.maybe_kill_after_start();
        self.roll_on(place);
    }

    /// Connections between a server that has started and those that run are opened again.
    fn connect_all(&mut self, place: usize) {
        let lives = |world: &World, place: usize| -> Vec<CoreLife> {
            let server = &world.servers[place];
            let cores = server
                .cores()
                .iter()
                .map(|core| core.machine.identity().core);
            cores
                .map(|core| CoreLife {
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

    /// Kills a server's process; it starts again after `down_us`.
    pub fn crash(&mut self, place: usize, tail: UnflushedTail, down_us: u64) {
        let server = &mut self.servers[place];
        let before = std::mem::replace(&mut server.state, ServerPhase::Down);
        self.trace
            .note(self.now_us, || format!("machine {place} dies ({tail:?})"));
        match (before, server.id) {
            (ServerPhase::Down, _) => return,
            // It has not touched its disks yet.
            (ServerPhase::Joining, _) | (ServerPhase::Running(_), None) => {}
            (ServerPhase::Running(_), Some(id)) => {
                server.forgot |= tail == UnflushedTail::Torn;
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

    /// Breaks all connections of a server. Messages that it had sent may still be in flight.
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
                    .break_connection(self.now_us, Node::Client(client), Node::Core(core));
                self.network
                    .break_connection(self.now_us, Node::Core(core), Node::Client(client));
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
                        self.network
                            .break_connection(self.now_us, Node::Core(core), other);
                    }
                }
            }
        }
    }
}
