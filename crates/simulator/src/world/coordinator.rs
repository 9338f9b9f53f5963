//! The coordinator's driver: stores the coordinator's state before it sends an answer, and restarts
//! the coordinator from the stored state.
//!
//! The driver simulates both kinds of coordinators. A single coordinator restarts from its own
//! disk. Of several coordinators, whose state is stored elsewhere, another one with other clocks
//! takes over from the stored state. The answers that the old one gave while it led arrive late.
//! The old one stores and sends nothing any more.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use ::coordinator::{
    Coordinator, CoordinatorAnswer, CoordinatorInput, CoordinatorOutput, CoordinatorSettings,
    RequesterId,
};
use placement::ReplexKind;
use protocol::change_log::encode_record;
use protocol::configuration::{Configuration, MoveProgress, PartitionState, PlacedTable};
use protocol::identity::{Epoch, TableId};
use protocol::message::{CoordinatorReply, CoordinatorRequest};
use protocol::state::{CoordinatorState, StateChange, decode_state_and_changes, encode_state};

use crate::check::holders;
use crate::check::newer_epoch::LEARNS_WITHIN_US;
use crate::clock::SimulatedClock;
use crate::event::{Event, PacketContent};
use crate::linearizable::Call;
use crate::model::{Observation, WorkloadOperation};
use crate::network::Node;
use crate::plan::MILLISECOND;
use crate::world::{SimulatedTable, World};

/// The coordinator's process and its disk.
#[derive(Debug)]
pub struct SimulatedCoordinator {
    machine: Option<Coordinator>,
    settings: CoordinatorSettings,
    clock: SimulatedClock,
    life: u64,
    kept: KeptState,
    /// The states that are being written to the disk, by version.
    keeping: BTreeMap<u64, CoordinatorState>,
    /// The answers that wait until a state is stored.
    waiting: Vec<CoordinatorAnswer>,
    /// The askers, by name; kept for ever, so that names are never used twice.
    askers: Vec<(Node, u64)>,
    names: BTreeMap<(Node, u64), RequesterId>,
    /// The time of the next tick.
    tick_at_us: Option<u64>,
    /// The answers that are held back; none while the coordinator sends its answers.
    unsent: Option<Vec<CoordinatorAnswer>>,
}

/// The coordinator's disk: a state, and a log of the changes since.
#[derive(Debug)]
struct KeptState {
    base: Vec<u8>,
    log: Vec<u8>,
    /// The state that results from `base` and `log`.
    state: CoordinatorState,
}

impl KeptState {
    fn new(state: CoordinatorState) -> KeptState {
        KeptState {
            base: encode_state(&state),
            log: Vec::new(),
            state,
        }
    }

    fn keep(&mut self, state: CoordinatorState) {
        let change = StateChange::between(&self.state, &state);
        self.log.extend(encode_record(&change));
        self.state = state;
    }

    /// Appends half of the record of this state, because the process ends while it writes the
    /// record.
    fn tear(&mut self, state: &CoordinatorState) {
        let record = encode_record(&StateChange::between(&self.state, state));
        self.log.extend(&record[..record.len() / 2]);
    }

    /// Returns the state as a starting process reads it. The changes become part of the base.
    fn read(&mut self) -> CoordinatorState {
        let read = decode_state_and_changes(&self.base, &self.log);
        let read = read.expect("what was kept can be read");
        assert_eq!(read, self.state, "the changes make the state");
        *self = KeptState::new(read.clone());
        read
    }
}

impl SimulatedCoordinator {
    /// Returns a coordinator that has not started, of a new cluster.
    pub fn new(clock: SimulatedClock, lease_us: u64, replace_after_us: u64) -> Self {
        let drift_us = lease_us / 20;
        SimulatedCoordinator {
            machine: None,
            settings: CoordinatorSettings {
                lease_us,
                drift_us,
                replace_after_us,
                replace_stopped_after_us: replace_after_us.saturating_mul(2),
                ..CoordinatorSettings::default()
            },
            clock,
            life: 0,
            kept: KeptState::new(CoordinatorState::new(0x5eed)),
            keeping: BTreeMap::new(),
            waiting: Vec::new(),
            askers: Vec::new(),
            names: BTreeMap::new(),
            tick_at_us: None,
            unsent: None,
        }
    }

    /// Returns whether the coordinator runs.
    pub fn is_running(&self) -> bool {
        self.machine.is_some()
    }

    /// Returns whether this process of the coordinator runs and sends its answers.
    pub fn leads(&self, life: u64) -> bool {
        self.machine.is_some() && self.life == life && self.unsent.is_none()
    }

    /// Returns the coordinator's configuration, if the coordinator runs.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.machine.as_ref().map(Coordinator::configuration)
    }

    /// Returns whether no partition is being rebuilt or moved, according to the coordinator's
    /// configuration.
    pub fn is_whole(&self) -> bool {
        self.configuration().is_some_and(|configuration| {
            let tables = configuration.tables.iter();
            let mut places = tables.flat_map(|table| table.placement.iter().flatten());
            !configuration.is_sealing()
                && places.all(|it| it.state == PartitionState::Serving && it.moving.is_none())
        })
    }

    /// Returns a description of the partitions that are being rebuilt or moved.
    pub fn unfinished_reason(&self) -> String {
        let Some(configuration) = self.configuration() else {
            return "; no coordinator runs".into();
        };
        let mut text = format!("; epoch {}", configuration.epoch.0);
        for table in configuration.tables.iter() {
            if let Some(sealing) = &table.sealing {
                text += &format!(", table {} {sealing:?}", table.id.0);
            }
        }
        let moves = configuration
            .places()
            .filter(|(_, place)| place.state != PartitionState::Serving || place.moving.is_some());
        for (id, place) in moves {
            text += &format!(", {id} {place:?}");
        }
        text
    }

    /// Returns the number of servers that may lose their memory at a time: 0 while a partition is
    /// being rebuilt, otherwise at most the number of failures that every row survives at its
    /// present places.
    pub fn memories_tolerated(&self) -> usize {
        let configuration = self.configuration().filter(|_| self.is_whole());
        let proven = configuration.and_then(|configuration| {
            let tables = configuration.tables.iter();
            let proven = tables.map(|table| {
                let stated = u32::from(table.schema.failures_tolerated);
                configuration.proof(table).failures_tolerated().min(stated)
            });
            proven.min()
        });
        proven.unwrap_or(0) as usize
    }

    fn name(&mut self, node: Node, life: u64) -> RequesterId {
        *self.names.entry((node, life)).or_insert_with(|| {
            self.askers.push((node, life));
            RequesterId(self.askers.len() as u64)
        })
    }
}

impl World {
    /// Starts the coordinator with its stored state.
    pub fn start_coordinator(&mut self) {
        let process = &mut self.coordinator;
        if process.machine.is_some() {
            return;
        }
        process.life += 1;
        process.tick_at_us = None;
        let state = process.kept.read();
        let mut machine = Coordinator::new(state, process.settings);
        let mut output = CoordinatorOutput::default();
        machine.start(process.clock.now(self.now_us), &mut output);
        process.machine = Some(machine);
        self.carry_out_coordinator(output);
    }

    /// Kills the coordinator, which may lose the state that it has not kept. It starts again at
    /// once or later.
    pub fn crash_coordinator(&mut self) {
        self.end_coordinator();
        self.coordinator.unsent = None;
        self.trace
            .note(self.now_us, || "the coordinator restarts".into());
    }

    /// Holds back the coordinator's answers, while the coordinator continues to run.
    pub fn hold_coordinator(&mut self) {
        let process = &mut self.coordinator;
        if process.machine.is_some() {
            process.unsent.get_or_insert_default();
        }
    }

    /// Replaces a suspended coordinator by another coordinator, which starts from the stored state
    /// with its own clocks. The old coordinator's answers arrive later.
    pub fn succeed_coordinator(&mut self) {
        let Some(unsent) = self.coordinator.unsent.take() else {
            return;
        };
        self.end_coordinator();
        self.coordinator.clock = SimulatedClock::draw(&mut self.random, self.plan.faults.drift_ppm);
        self.trace
            .note(self.now_us, || "another coordinator leads".into());
        self.start_coordinator();
        for answer in unsent {
            let delay_us = self.random.exponential(self.plan.lease_us / 2);
            self.after(delay_us, Event::LateAnswer(answer));
        }
    }

    fn end_coordinator(&mut self) {
        let process = &mut self.coordinator;
        process.machine = None;
        process.waiting.clear();
        for state in std::mem::take(&mut process.keeping).into_values() {
            // Any first part of what was under way may have come to the disk.
            if self.random.chance(0.5) {
                process.kept.tear(&state);
                break;
            }
            process.kept.keep(state);
        }
    }

    /// Makes the coordinator end the earlier epochs of any table, without replacing a server.
    pub fn seal_epoch(&mut self) {
        let configuration = self.coordinator.configuration();
        let tables = configuration.map_or(0, |configuration| configuration.tables.len());
        if tables == 0 {
            return;
        }
        let number = self.random.below(tables as u64) as usize;
        let configuration = self.coordinator.configuration();
        let table = configuration.map(|configuration| configuration.tables[number].id);
        self.seal(table.expect("it is below their number"));
    }

    /// Makes the coordinator end the earlier epochs of a table.
    pub fn seal(&mut self, table: TableId) {
        if let Some(machine) = &mut self.coordinator.machine {
            let mut output = CoordinatorOutput::default();
            machine.begin_seal(table, &mut output);
            self.carry_out_coordinator(output);
        }
    }

    /// Drains a server for an operator, or ends its drain.
    pub fn drain(&mut self, place: usize, is_draining: bool) {
        let server = self.servers[place].id;
        if let (Some(machine), Some(server)) = (&mut self.coordinator.machine, server) {
            let mut output = CoordinatorOutput::default();
            machine.set_draining(server, is_draining, &mut output);
            self.carry_out_coordinator(output);
        }
    }

    /// Handles a node's request to the coordinator.
    pub fn coordinator_asked(
        &mut self,
        from: Node,
        life: u64,
        correlation: u64,
        request: CoordinatorRequest,
    ) {
        if let (Node::Starting(place), CoordinatorRequest::Join { .. }) = (from, &request) {
            let server = &mut self.servers[place];
            server.joined_late |= life < server.life;
        }
        let name = self.coordinator.name(from, life);
        self.step_coordinator(CoordinatorInput::Request {
            from: name,
            correlation,
            request,
        });
    }

    /// Handles the coordinator's deadline.
    pub fn coordinator_tick(&mut self, life: u64) {
        if self.coordinator.life == life {
            self.coordinator.tick_at_us = None;
            self.step_coordinator(CoordinatorInput::Tick);
        }
    }

    /// Sends the answers that waited until a state was stored.
    pub fn coordinator_kept(&mut self, life: u64, version: u64) {
        let process = &mut self.coordinator;
        if process.life != life || process.machine.is_none() {
            return;
        }
        let Some(state) = process.keeping.remove(&version) else {
            return;
        };
        process.keeping.retain(|other, _| *other > version);
        process.kept.keep(state);
        let due = |answer: &mut CoordinatorAnswer| answer.after <= version;
        let ready: Vec<CoordinatorAnswer> = process.waiting.extract_if(.., due).collect();
        for answer in ready {
            self.answer_asker(answer);
        }
    }

    fn step_coordinator(&mut self, input: CoordinatorInput) {
        let process = &mut self.coordinator;
        let Some(machine) = &mut process.machine else {
            return;
        };
        let mut output = CoordinatorOutput::default();
        machine.step(process.clock.now(self.now_us), input, &mut output);
        self.carry_out_coordinator(output);
    }

    fn carry_out_coordinator(&mut self, output: CoordinatorOutput) {
        let life = self.coordinator.life;
        if let Some(persist) = output.persist {
            let given_up = self.collisions.given_up(&persist.failures);
            self.check(
                "R20 only rows that collide prevent a unique index",
                given_up,
            );
            let process = &self.coordinator;
            let before = process.keeping.values().next_back();
            let before = before.unwrap_or(&process.kept.state);
            let left = holders::stay(&before.configuration, &persist.configuration);
            self.check("R15 cores stop holding a table when it serves again", left);
            let version = persist.version;
            self.coordinator.keeping.insert(persist.version, persist);
            let delay_us = self.random.exponential(MILLISECOND / 2);
            self.after(delay_us, Event::CoordinatorKept(life, version));
        }
        for note in output.notes {
            self.trace
                .note(self.now_us, || format!("coordinator: {note}"));
        }
        for answer in output.replies {
            if answer.after <= self.coordinator.kept.state.version {
                self.answer_asker(answer);
            } else {
                self.coordinator.waiting.push(answer);
            }
        }
        if let Some(deadline_us) = output.deadline_us {
            let at_us = self.coordinator.clock.when(deadline_us).max(self.now_us);
            if self
                .coordinator
                .tick_at_us
                .is_none_or(|tick_at_us| at_us < tick_at_us)
            {
                self.coordinator.tick_at_us = Some(at_us);
                self.queue.push(at_us, Event::CoordinatorTick(life));
            }
        }
    }

    fn answer_asker(&mut self, answer: CoordinatorAnswer) {
        match &mut self.coordinator.unsent {
            Some(unsent) => unsent.push(answer),
            None => self.send_answer(answer),
        }
    }

    /// Sends an answer, from the coordinator that gave it.
    pub fn send_answer(&mut self, answer: CoordinatorAnswer) {
        let CoordinatorAnswer {
            to,
            correlation,
            reply,
            ..
        } = answer;
        if let CoordinatorReply::Configuration(configuration)
        | CoordinatorReply::Joined { configuration, .. } = &reply
        {
            let tables: Vec<_> = configuration.tables.shared().cloned().collect();
            self.note_first_sent(configuration.epoch, &tables);
        }
        if let CoordinatorReply::Changes(changes) = &reply {
            self.note_first_sent(changes.epoch, &changes.tables);
        }
        let (node, life) = self.coordinator.askers[to.0 as usize - 1];
        self.send(
            Node::Coordinator,
            node,
            PacketContent::Answer(correlation, reply, life),
        );
    }

    /// Records that a node receives the configuration of `epoch` for the first time. It includes
    /// all tables that have changed since the last sent one. All operations of earlier epochs are
    /// settled, and no core has begun one in this epoch. So the copies of a table change at this
    /// moment.
    fn note_first_sent(&mut self, epoch: Epoch, tables: &[Arc<PlacedTable>]) {
        if epoch <= self.epoch {
            // An answer of a coordinator that has lost its lead can be late: the copies have
            // changed in its epoch, which no node had received.
            for table in &mut self.tables {
                if let Some(late) = tables.iter().find(|late| late.id == table.id) {
                    Rc::make_mut(&mut table.translation).note_late(
                        epoch,
                        &late.schema,
                        &late.layout,
                    );
                }
            }
            return;
        }
        self.epoch = epoch;
        let due = Event::NewsDue(self.epoch, self.coordinator.life, self.now_us);
        self.after(LEARNS_WITHIN_US, due);
        let mut places = tables
            .iter()
            .flat_map(|table| table.placement.iter().flatten());
        if places.any(|place| matches!(place.moving, Some(MoveProgress::From(_)))) {
            self.maybe_kill_at_hand_over();
        }
        for place in 0..self.tables.len() {
            self.note_copies(place, tables);
        }
        self.change_carelessly(tables);
    }

    /// Records the change if a table has other copies from this epoch on.
    fn note_copies(&mut self, place: usize, tables: &[Arc<PlacedTable>]) {
        let SimulatedTable { id, translation } = &mut self.tables[place];
        let Some(newest) = tables.iter().find(|table| table.id == *id) else {
            return;
        };
        if newest.schema == translation.schema && newest.layout == translation.layout {
            return;
        }
        let stays = |number: usize| {
            let replex = newest.layout.replexes.get(number);
            replex.is_some_and(|replex| replex.kind != ReplexKind::Vacant)
        };
        let leaves = translation.layout.numbers().any(|number| !stays(number));
        let table = Rc::make_mut(translation);
        let change = table.change(self.epoch, &newest.schema, &newest.layout);
        let era = change.expect("its copies are others");
        let noted = self
            .collisions
            .begin(&self.ledger, (*id, self.epoch), table);
        let begun = self.next_moment();
        let ended = Some((self.next_moment(), Observation::Applied));
        let groups = 0..self.plan.workload.groups;
        let plan = self.plan.clone();
        for group in groups.filter(|group| plan.table_of(*group) == place) {
            let call = Call {
                begun,
                ended: ended.clone(),
                operation: WorkloadOperation::Change(era),
            };
            self.history.push((group, call));
        }
        self.check("R20 only rows that collide prevent a unique index", noted);
        if leaves {
            self.maybe_silence_at_drop();
        }
    }
}
