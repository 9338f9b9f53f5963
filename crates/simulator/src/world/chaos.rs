//! Makes faults happen. Each kind of fault recurs at the rate of the run's plan, until faults stop.

use protocol::identity::CoreId;
use protocol::message::Room;

use crate::disk::UnflushedTail;
use crate::event::{CoreLife, Event};
use crate::fault::Fault;
use crate::network::Node;
use crate::plan::{MILLISECOND, SECOND};
use crate::world::World;
use crate::world::server::ServerPhase;

impl World {
    /// Schedules the next fault of a kind.
    pub fn plan_fault(&mut self, fault: Fault) {
        let every_us = fault.every_us(&self.faults);
        if every_us > 0 {
            let delay_us = self.random.exponential(every_us);
            self.after(delay_us, Event::Fault(fault));
        }
    }

    /// Makes a fault happen, unless faults have stopped.
    pub fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::CoordinatorStarts => return self.start_coordinator(),
            Fault::Succession => return self.succeed_coordinator(),
            _ => {}
        }
        if fault.every_us(&self.faults) == 0 {
            return;
        }
        match fault {
            Fault::Break => self.break_one(),
            Fault::Clog => self.clog_one(),
            Fault::Crash => {
                let place = self.any_place();
                self.crash_one(place, 200 * MILLISECOND);
            }
            Fault::PowerCut => self.power_cut(),
            Fault::Pause => self.pause_one(),
            Fault::ClockStep => {
                let place = self.random.below(self.servers.len() as u64) as usize;
                let step_us = self.random.between(0, 2 * SECOND) as i64 - SECOND as i64;
                self.servers[place].clock.step_us += step_us;
            }
            Fault::Coordinator => {
                self.crash_coordinator();
                let down_us = self.random.exponential(300 * MILLISECOND);
                self.after(down_us, Event::Fault(Fault::CoordinatorStarts));
            }
            Fault::Loss => {
                let place = self.any_place();
                self.lose(place);
            }
            Fault::Seal => self.seal_epoch(),
            Fault::Drain => {
                let place = self.any_place();
                let drains = self.random.chance(0.5);
                self.drain(place, drains);
            }
            Fault::Copies => self.change_copies(),
            Fault::Stop => {
                let place = self.any_place();
                self.stop(place);
            }
            Fault::Rolling => self.begin_rolling(),
            Fault::Deposition => {
                self.hold_coordinator();
                let held_us = self.random.between(MILLISECOND, 2 * self.plan.lease_us);
                self.after(held_us, Event::Fault(Fault::Succession));
            }
            Fault::Client => self.replace_client(),
            Fault::Full => {
                if let Some(life) = self.any_core() {
                    let room = *self.random.pick(&[Room::Reserve, Room::Full]);
                    self.space(life, room);
                    let full_us = self.random.exponential(200 * MILLISECOND);
                    self.after(full_us, Event::Space(life));
                }
            }
            Fault::CoordinatorStarts | Fault::Succession => {}
        }
        self.plan_fault(fault);
    }

    /// Suspends a process for some time.
    fn pause_one(&mut self) {
        let place = self.any_place();
        // Some are replaced meanwhile, and do not answer for long after that.
        let long_us = if self.random.chance(0.3) {
            4 * SECOND
        } else {
            0
        };
        let longest_us = 2 * self.plan.lease_us + long_us;
        let until_us = self.now_us + self.random.between(MILLISECOND, longest_us);
        self.trace.note(self.now_us, || {
            format!("machine {place} sleeps to {until_us}")
        });
        self.servers[place].paused_until_us = until_us;
    }

    fn any_place(&mut self) -> usize {
        self.random.below(self.servers.len() as u64) as usize
    }

    /// Crashes a process, which stays down for `mean_us` on average.
    fn crash_one(&mut self, place: usize, mean_us: u64) {
        let (tail, down_us) = (self.tail(place), self.random.exponential(mean_us));
        self.crash(place, tail, down_us);
    }

    /// Kills a process, which stays down long enough to be replaced.
    pub fn lose(&mut self, place: usize) {
        if self.faults.loss_every_us > 0 {
            self.crash_one(place, 3 * self.plan.lease_us + 500 * MILLISECOND);
        }
    }

    /// Kills a process at a chosen moment.
    pub fn die(&mut self, place: usize) {
        if self.faults.crash_every_us > 0 {
            self.crash_one(place, 20 * MILLISECOND);
        }
    }

    /// Cuts the power everywhere at a chosen moment.
    pub fn cut(&mut self) {
        if self.faults.power_cut_every_us > 0 {
            self.power_cut();
        }
    }

    /// Handles a hand-over of partitions, whose new holders lack the last changes: with some
    /// probability, cuts the power before these changes have arrived.
    pub fn maybe_kill_at_hand_over(&mut self) {
        if self.faults.cut_at_hand_over > 0.0 && self.random.chance(self.faults.cut_at_hand_over) {
            let delay_us = self.random.exponential(4 * self.faults.latency_us);
            self.after(delay_us, Event::Cut);
        }
    }

    /// Handles the end of a copy: with some probability, one core does not learn of it for a while.
    pub fn maybe_silence_at_drop(&mut self) {
        if self.faults.copies_every_us > 0
            && self.random.chance(0.5)
            && let Some(CoreLife { core, .. }) = self.any_core()
        {
            self.clog(Node::Coordinator, Node::Core(core));
        }
    }

    /// Kills a server, with some probability, shortly after one has started.
    pub fn maybe_kill_after_start(&mut self) {
        if self.random.chance(self.faults.crash_at_start) {
            let delay_us = self.random.exponential(10 * self.faults.latency_us);
            let place = self.any_place();
            self.after(delay_us, Event::Die(place));
        }
    }

    /// Kills a process, with some probability, that has written a vote or a decision, before any
    /// peer receives it.
    pub fn maybe_kill_after_record(&mut self, place: usize) {
        if self.random.chance(self.faults.crash_at_record) {
            let delay_us = self.random.exponential(2 * self.faults.latency_us);
            self.after(delay_us, Event::Die(place));
        }
        if self.random.chance(self.faults.loss_at_record) {
            let delay_us = self.random.exponential(2 * self.faults.latency_us);
            self.after(delay_us, Event::Lose(place));
            let other = self.any_place();
            if other != place {
                let delay_us = self.random.exponential(4 * self.faults.latency_us);
                self.after(delay_us, Event::Die(other));
            }
        }
    }

    /// Kills all processes at once, and drops all unflushed records, unless the table does not
    /// promise to survive that. With some probability the coordinator is killed, too.
    pub fn power_cut(&mut self) {
        self.trace.note(self.now_us, || "the power fails".into());
        let tail = match self.is_sync() {
            true => UnflushedTail::Torn,
            false => UnflushedTail::Kept,
        };
        for place in 0..self.servers.len() {
            let down_us = self.random.exponential(100 * MILLISECOND);
            self.crash(place, tail, down_us);
        }
        if self.random.chance(0.5) {
            self.crash_coordinator();
            let down_us = self.random.exponential(100 * MILLISECOND);
            self.after(down_us, Event::Fault(Fault::CoordinatorStarts));
        }
    }

    /// Returns the part of the unflushed records that a crash leaves on the disk. `replicated`
    /// promises that rows survive the loss of the memory of f servers at a time. So a further
    /// server loses its memory only after an earlier one has recovered.
    fn tail(&mut self, place: usize) -> UnflushedTail {
        let mut forgetful = 0;
        for (other, server) in self.servers.iter_mut().enumerate() {
            forgetful += usize::from(!server.is_whole() && other != place);
        }
        let survives = forgetful < self.coordinator.memories_tolerated();
        if (self.is_sync() || survives) && self.random.chance(0.7) {
            UnflushedTail::Torn
        } else {
            UnflushedTail::Kept
        }
    }

    /// Returns a random core; none if it does not run.
    fn any_core(&mut self) -> Option<CoreLife> {
        let place = self.random.below(self.servers.len() as u64) as usize;
        let number = self.random.below(u64::from(self.plan.cores)) as u16;
        let server = &self.servers[place];
        if !matches!(server.state, ServerPhase::Running(_)) {
            return None;
        }
        let core = CoreId {
            server: server.id?,
            core: number,
        };
        Some(CoreLife {
            core,
            life: server.life,
        })
    }

    fn any_node(&mut self) -> Option<Node> {
        match self.random.below(8) {
            0 => Some(Node::Coordinator),
            1 | 2 => {
                let clients: Vec<u64> = self.clients.keys().copied().collect();
                let among = clients.len() as u64;
                (among > 0).then(|| Node::Client(clients[self.random.below(among) as usize]))
            }
            _ => self.any_core().map(|life| Node::Core(life.core)),
        }
    }

    /// Breaks a connection. Both ends notice this and open a new one.
    fn break_one(&mut self) {
        let (Some(one), Some(two)) = (self.any_node(), self.any_node()) else {
            return;
        };
        if one == two {
            return;
        }
        self.trace.note(self.now_us, || {
            format!("the connection of {one} and {two} breaks")
        });
        self.notify_broken(one, two);
        self.notify_broken(two, one);
        self.network.break_connection(self.now_us, one, two);
        self.network.break_connection(self.now_us, two, one);
    }

    fn notify_broken(&mut self, at: Node, other: Node) {
        let delay_us = self.random.exponential(4 * self.faults.latency_us);
        match (at, other) {
            (Node::Core(core), Node::Core(to)) => {
                if let Some(from) = self.life(core) {
                    self.after(delay_us, Event::Connect { from, to });
                }
            }
            (Node::Core(core), Node::Client(client)) => {
                if let Some(life) = self.life(core) {
                    let breaks = self.network.connection(Node::Client(client), at);
                    let name = self.connections.name(client, life, breaks);
                    self.after(delay_us, Event::ClientGone(life, name.0));
                }
            }
            (Node::Client(client), Node::Core(core)) => {
                self.after(delay_us, Event::ClientDisconnected(client, core));
            }
            _ => {}
        }
    }

    fn clog_one(&mut self) {
        let (Some(from), Some(to)) = (self.any_node(), self.any_node()) else {
            return;
        };
        let until_us = self.clog(from, to);
        if self.random.chance(0.5) {
            self.network.block(to, from, until_us);
        }
    }

    /// Blocks one direction for some time. Returns the end of this time.
    fn clog(&mut self, from: Node, to: Node) -> u64 {
        let until_us = self.now_us + self.random.between(MILLISECOND, 2 * self.plan.lease_us);
        self.trace.note(self.now_us, || {
            format!("{from} → {to} is clogged until {until_us}")
        });
        self.network.block(from, to, until_us);
        until_us
    }

    /// Ends all faults: delayed connections deliver again, suspended cores resume, and servers that
    /// are down start.
    pub fn end_faults(&mut self) {
        self.trace.note(self.now_us, || "faults stop".into());
        self.faults = self.plan.faults.calm();
        // Everything ends in a minute from now, also for clients that have many ranges to read.
        let pause_us = &mut self.plan.workload.snapshot_pause_us;
        *pause_us = (*pause_us).min(2 * MILLISECOND);
        self.network.unblock_all(self.now_us);
        for place in 0..self.servers.len() {
            let server = &mut self.servers[place];
            server.paused_until_us = server.paused_until_us.min(self.now_us);
            let cores = server
                .cores()
                .iter()
                .map(|core| core.machine.identity().core);
            let lives: Vec<CoreLife> = cores
                .map(|core| CoreLife {
                    core,
                    life: server.life,
                })
                .collect();
            for life in lives {
                self.space(life, Room::Free);
            }
            if matches!(self.servers[place].state, ServerPhase::Down) {
                self.after(0, Event::Start(place));
            }
        }
        self.start_coordinator();
    }
}
