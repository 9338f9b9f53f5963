//! The driver of a running core. It passes inputs to the machine, and carries out the machine's
//! output on the log, the network and the clock. The checkers see every record and every effect.

use std::sync::Arc;

use machines::core::{ClientId, CoreInput};
use protocol::configuration::Place;
use protocol::identity::{
    ClockReading, CoreId, Epoch, OperationId, PartitionId, Position, TableId,
};
use protocol::message::{
    CoordinatorReply, CoordinatorRequest, OpenedSnapshot, PeerHeader, PeerMessage, Reply, Room,
    SealStage, SnapshotReply,
};
use protocol::operation::{Decision, Prepare};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use super::{ServerPhase, SimulatedServer};
use crate::check::{budget, earlier_life, outcomes, prepared, sealed, waits};
use crate::core::{Effects, SimulatedCore};
use crate::disk::{SimulatedDisk, UnflushedTail};
use crate::event::{CoreLife, Event, PacketContent};
use crate::network::Node;
use crate::plan::MILLISECOND;
use crate::world::World;

/// How long `replicated` records may wait for a flush.
const FLUSH_INTERVAL_US: u64 = 50 * MILLISECOND;
/// Between making a reply and writing it.
const REPLY_DELAY_US: u64 = 5;

impl World {
    /// Handles a new connection from a core to another one.
    pub fn connected(&mut self, from: CoreLife, to: CoreId) {
        self.input(from, CoreInput::PeerConnected { core: to });
    }

    /// Passes an input to a core, if this life of the core still runs.
    pub fn input(&mut self, life: CoreLife, input: CoreInput) {
        self.with_core(life, |core, now, disk, effects| {
            core.step(now, input, disk, effects)
        });
    }

    fn with_core(
        &mut self,
        life: CoreLife,
        act: impl FnOnce(&mut SimulatedCore, ClockReading, &mut SimulatedDisk, &mut Effects),
    ) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let ServerPhase::Running(cores) = &mut server.state else {
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
    pub(super) fn carry_out(&mut self, life: CoreLife, effects: Effects) {
        let CoreLife { core, .. } = life;
        for note in effects.notes {
            self.trace.note(self.now_us, || note);
        }
        for (position, record) in &effects.records {
            self.trace.note(self.now_us, || {
                format!("{core} logs {}: {record:?}", position.0)
            });
            self.recorded(core, *position, record);
        }
        self.check_settled(core, &effects.records);
        for (to, header, message) in effects.sends {
            if let PeerMessage::Witness { table, .. } | PeerMessage::WitnessEnd { table, .. } =
                message
            {
                // A core that does not hold the table, and knows of nothing, has nothing to seal.
                let knows_nothing = matches!(message, PeerMessage::WitnessEnd { count: 0, .. })
                    && !self.is_holder(core, table);
                let has_sealed = knows_nothing || self.ledger.has_sealed(core, table);
                let sealed = sealed::reported(core, has_sealed);
                self.check("R16 a seal is durable before it is reported", sealed);
            }
            // A peer that is down has no connection; the driver notifies the machine when it has.
            if let Some(receiver) = self.life(to).filter(|life| self.alive(*life).is_some()) {
                let content = PacketContent::Peer(header, message, receiver.life);
                self.send(Node::Core(core), Node::Core(to), content);
            }
        }
        for request in effects.asks {
            self.check_report(core, &request);
            let content = PacketContent::Ask(0, request, life.life);
            self.send(Node::Core(core), Node::Coordinator, content);
        }
        for reply in effects.replies {
            if let Reply::Snapshot(SnapshotReply::Opened(opened)) = &reply.reply {
                self.check_given(life, (reply.client, reply.correlation), *opened);
            }
            self.after(REPLY_DELAY_US, Event::ReplyLeaves(life, reply));
        }
        self.start_flush(life);
        self.schedule_tick(life);
    }

    /// Checks a snapshot that a core gives out.
    fn check_given(&mut self, life: CoreLife, asked: (ClientId, u64), opened: OpenedSnapshot) {
        let (snapshot, at) = (opened.share.snapshot, opened.at);
        let tables = self.connections.snapshots.remove(&asked);
        let tables = tables.unwrap_or_default();
        let given = self.snapshots.give(&self.ledger, (snapshot, at), &tables);
        self.check("R36 nothing below a snapshot is under way", given);
        self.trace.note(self.now_us, || {
            format!("{} gives out a snapshot at {at:?}", life.core)
        });
    }

    /// Checks that clients may see each outcome that a core settles. The outcomes of an epoch's end
    /// are settled all at once when the next one serves.
    fn check_settled(&mut self, core: CoreId, records: &[(Position, Record)]) {
        let mut all = records.iter().map(|(_, record)| record);
        if all.any(|record| matches!(record, Record::Resolved { .. })) {
            return;
        }
        for (_, record) in records {
            if let Record::Settled {
                operation,
                partition,
            } = record
            {
                self.transaction_shows(core, *operation, *partition);
                let entry = self.ledger.operations.get(operation);
                let settled = entry.map_or(Ok(()), outcomes::settled);
                self.check("R11 the old row stays until the new one is seen", settled);
            }
        }
    }

    /// Checks that a core which reports to the coordinator that it has resolved everything has done
    /// so.
    fn check_report(&mut self, core: CoreId, request: &CoordinatorRequest) {
        let CoordinatorRequest::Heartbeat { seals, .. } = request else {
            return;
        };
        for report in seals.iter().filter(|it| it.stage == SealStage::Resolved) {
            let is_durable = self.ledger.is_all_durable(core, report.table);
            let resolved = sealed::resolved(core, is_durable);
            self.check("R5 outcomes are durable before they are reported", resolved);
        }
    }

    /// Checks an operation that may be new, against the snapshots that were given out.
    fn check_begun(&mut self, core: CoreId, prepare: &Prepare) {
        let epoch = self.table_epoch(core, prepare.table);
        // A copy can log its part after a primary has refused its own.
        let is_new = match &prepare.transaction {
            Some(part) => prepare.members.get(usize::from(part.member)) == Some(&part.head),
            None => !self.ledger.operations.contains_key(&prepare.operation),
        };
        if is_new && !prepare.changes.is_empty() && prepare.epoch >= epoch {
            let begun = self.snapshots.begun(prepare, epoch);
            self.check("R36 nothing begins below a snapshot", begun);
        }
    }

    /// Checks a new record, before and after it is in the ledger.
    fn recorded(&mut self, core: CoreId, position: Position, record: &Record) {
        match record {
            Record::Prepared { prepare, .. } => {
                let agrees = prepared::votes_agree(&self.ledger, prepare);
                self.check("R1 a vote never changes", agrees);
                self.check_begun(core, prepare);
            }
            Record::Decided {
                partition,
                operation,
                decision,
                ..
            } => {
                let Some(entry) = self.ledger.operations.get(operation) else {
                    let text = format!("{operation:?} is decided, but prepared nowhere");
                    self.check("I1 commit ⇒ prepared at all members", Err(text));
                    return;
                };
                let awaited = self.ledger.awaited(core, (entry, *partition));
                let outcome = match awaited {
                    Some(awaited) => outcomes::resolved(entry, decision, awaited),
                    None => {
                        let shows = entry.shows(*partition);
                        outcomes::decided(entry, decision, shows)
                    }
                };
                let complete = match decision {
                    Decision::Commit if awaited.is_none() => {
                        match self.is_sync() || entry.is_transaction() {
                            true => prepared::decided(&self.ledger, entry, *partition),
                            false => prepared::decided_in_memory(entry),
                        }
                    }
                    _ => Ok(()),
                };
                self.check("I3 nothing is both committed and aborted", outcome);
                self.check("I1 commit ⇒ prepared at all members", complete);
            }
            Record::Settled { .. }
            | Record::Completed { .. }
            | Record::Copied { .. }
            | Record::Matched { .. }
            | Record::Whole { .. }
            | Record::Versions { .. }
            | Record::Sealed { .. }
            | Record::Resolved { .. }
            | Record::Given { .. } => {}
        }
        if let Record::Decided { operation, .. } = record {
            self.snapshots.note_decided(*operation);
        }
        let visible_at = self.visible_at(core, record);
        self.ledger.append((core, position), record, visible_at);
        if let Record::Resolved { epoch, tables } = record {
            let cores = self.servers[self.places[&core.server]].cores();
            let configuration = cores[usize::from(core.core)].machine.configuration();
            let place = |partition: PartitionId| configuration.place(partition);
            // A core that hands a partition over settles it, and gives what it has from there on.
            let holds = |partition: PartitionId| {
                let place = place(partition);
                let is_own = |place: Place| place.core == core || place.giver() == Some(core);
                place.is_some_and(is_own)
            };
            let served = self.ledger.served((core, *epoch), tables, holds);
            self.check("I2 a seen outcome is never reversed", served);
        }
        if let Record::Prepared { .. } | Record::Decided { .. } = record {
            self.maybe_kill_after_record(self.places[&core.server]);
        }
    }

    /// Checks that clients may see a transaction's outcome, which a member shows from now on.
    pub(super) fn transaction_shows(
        &mut self,
        core: CoreId,
        operation: OperationId,
        at: PartitionId,
    ) {
        let entry = self.ledger.operations.get(&operation);
        let Some(entry) = entry.filter(|entry| entry.is_transaction()) else {
            return;
        };
        if entry.decision == Some(Decision::Commit) {
            let cores = self.servers[self.places[&core.server]].cores();
            let configuration = cores[usize::from(core.core)].machine.configuration();
            let domain = |partition: PartitionId| {
                let table = configuration.table(partition.table)?;
                let place = configuration.place(partition)?;
                let server = configuration.server(place.core.server)?;
                let is_thin = table.layout.is_thin(usize::from(partition.replex));
                let failures = usize::from(table.schema.failures_tolerated);
                (!is_thin).then(|| (server.domain.clone(), failures))
            };
            let kept = outcomes::kept(&self.ledger, entry, domain);
            let kept = kept.map_err(|text| format!("{at}: {text}"));
            self.check("R43 a commit that is seen is durable widely", kept);
        }
        self.ledger.show(operation);
    }

    /// Returns whether a core holds partitions of a table, as it knows itself.
    fn is_holder(&self, core: CoreId, table: TableId) -> bool {
        let cores = self.servers[self.places[&core.server]].cores();
        let configuration = cores[usize::from(core.core)].machine.configuration();
        let table = configuration.table(table);
        table.is_some_and(|table| table.holders().contains(&core))
    }

    /// Returns the epoch of a table, as a core knows it.
    fn table_epoch(&self, core: CoreId, table: TableId) -> Epoch {
        let cores = self.servers[self.places[&core.server]].cores();
        let configuration = cores[usize::from(core.core)].machine.configuration();
        configuration
            .table(table)
            .map_or(Epoch(0), |table| table.epoch)
    }

    /// Returns the replex, from 0, at which a decision on what is prepared becomes visible, where
    /// that is not the first to log it.
    fn visible_at(&self, core: CoreId, record: &Record) -> Option<u8> {
        let Record::Prepared { prepare, .. } = record else {
            return None;
        };
        let cores = self.servers[self.places[&core.server]].cores();
        let configuration = cores[usize::from(core.core)].machine.configuration();
        let table = configuration.table(prepare.table)?;
        let position = configuration.decision_position(table);
        let chain = table.layout.chain(&table.schema);
        (position < chain.len()).then(|| chain[position - 1] as u8)
    }

    fn schedule_tick(&mut self, life: CoreLife) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let clock = server.clock;
        let ServerPhase::Running(cores) = &mut server.state else {
            unreachable!("it is alive")
        };
        let core = &mut cores[usize::from(life.core.core)];
        let at_us = clock.when(core.deadline_us).max(self.now_us);
        if core.tick_at_us.is_none_or(|tick_at_us| at_us < tick_at_us) {
            core.tick_at_us = Some(at_us);
            self.queue.push(at_us, Event::CoreTick(life));
        }
    }

    /// Handles a core's deadline. Ignores a deadline that was replaced by another one.
    pub fn core_tick(&mut self, life: CoreLife) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let now = server.clock.now(self.now_us);
        let ServerPhase::Running(cores) = &mut server.state else {
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
        let within = budget::within(&backlog, &self.plan.limits, keys, core.read_back);
        self.check("I15 memory stays in its budget", within);
        let running = self.servers.iter().flat_map(SimulatedServer::cores);
        let waiting: Vec<_> = running.flat_map(|core| core.machine.waits()).collect();
        self.check(
            "I11 the wait-for graph has no cycle",
            waits::acyclic(&waiting),
        );
        self.input(life, CoreInput::Tick);
    }

    /// Begins a flush if one is wanted and none is in progress.
    fn start_flush(&mut self, life: CoreLife) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let server = &mut self.servers[place];
        let number = usize::from(life.core.core);
        let ServerPhase::Running(cores) = &mut server.state else {
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

    /// Flushes `replicated` records at the end of their interval.
    pub fn flush_due(&mut self, life: CoreLife) {
        self.with_core(life, |core, _, _, _| {
            core.flush_due = false;
            core.flush_scheduled = false;
            core.flush_wanted = true;
        });
    }

    /// Handles the end of a flush.
    pub fn flushed(&mut self, life: CoreLife, target: Position, failed: bool) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let number = usize::from(life.core.core);
        if failed {
            self.servers[place].disks[number].flush_failed();
            if !planted::is(Bug::FailedFlushTrusted) {
                // R23: it is not known what is on the disk now. The process must die.
                self.trace
                    .note(self.now_us, || format!("{} fails to flush", life.core));
                self.crash(place, UnflushedTail::Torn, 100 * MILLISECOND);
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

    fn report_durable(&mut self, life: CoreLife, target: Position) {
        self.with_core(life, |core, now, disk, effects| {
            core.durable(now, target, disk, effects)
        });
    }

    /// Delivers a peer's message to a core.
    pub fn peer_message(&mut self, life: CoreLife, header: PeerHeader, message: PeerMessage) {
        let Some(place) = self.alive(life) else {
            return;
        };
        if let PeerMessage::LeaseGrant { sent_us, .. } = message {
            let server = &self.servers[place];
            let core = &server.cores()[usize::from(life.core.core)];
            let until_us = server.clock.when(sent_us + self.plan.limits.lease_us);
            let configuration = Arc::clone(core.machine.configuration());
            if header.epoch <= configuration.epoch {
                let vouching = (header.from, header.epoch, until_us);
                self.leases.note_lease_grant(life.core, vouching);
            }
            self.leases.count(life.core, &configuration);
        }
        let mut unheard = Ok(());
        self.with_core(life, |core, now, disk, effects| {
            let from = header.from.server;
            let speaker = core.machine.configuration().server(from);
            let known = speaker.map_or(header.incarnation, |server| server.incarnation);
            core.step(now, CoreInput::Peer { header, message }, disk, effects);
            let done = (effects.records.len(), effects.sends.len());
            unheard = earlier_life::dropped_message(header.incarnation, known, done);
        });
        self.check("R16 messages of an earlier life are dropped", unheard);
    }

    /// Handles the coordinator's answer to a core.
    pub fn core_answered(&mut self, life: CoreLife, reply: CoordinatorReply) {
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
                self.leases.note_lease_renewal(life.core, until_us);
                self.input(
                    life,
                    CoreInput::Beat {
                        sent_us,
                        epoch,
                        lease_us,
                        session_floor,
                    },
                );
            }
            CoordinatorReply::Configuration(configuration) => {
                self.input(life, CoreInput::Configuration(Arc::new(configuration)));
            }
            CoordinatorReply::Changes(changes) => self.input(life, CoreInput::Changes(changes)),
            CoordinatorReply::NewEpoch { epoch } => self.input(life, CoreInput::NewEpoch(epoch)),
            CoordinatorReply::Unchanged { .. } => {}
            CoordinatorReply::Refused { message, retry } => {
                self.trace
                    .note(self.now_us, || format!("{}: refused: {message}", life.core));
                if std::mem::take(&mut self.servers[place].joined_late) && !retry {
                    return self.crash(place, UnflushedTail::Kept, 100 * MILLISECOND);
                }
                let refused = if retry { Ok(()) } else { Err(message) };
                self.check("a core is refused by the coordinator", refused);
            }
            other => self.check("heartbeat", Err(format!("a core was answered {other:?}"))),
        }
    }

    /// Takes a checkpoint of a core, and plans the next one.
    pub fn checkpoint(&mut self, life: CoreLife) {
        self.with_core(life, |core, _, disk, _| {
            let (tables, retain_from) = core.checkpoint();
            disk.checkpoint(tables, retain_from);
        });
        if let Some(place) = self.alive(life) {
            self.schedule_checkpoint(place);
        }
    }

    pub(super) fn schedule_checkpoint(&mut self, place: usize) {
        let every_us = self.faults.checkpoint_every_us;
        if every_us == 0 {
            return;
        }
        let server = &self.servers[place];
        let id = server.id.expect("it has joined");
        let number = self.random.below(server.disks.len() as u64) as u16;
        let life = CoreLife {
            core: CoreId {
                server: id,
                core: number,
            },
            life: server.life,
        };
        let delay_us = self.random.exponential(every_us);
        self.after(delay_us, Event::Checkpoint(life));
    }

    /// Changes the room on a core's disk.
    pub fn space(&mut self, life: CoreLife, room: Room) {
        self.input(life, CoreInput::Space(room));
    }
}
