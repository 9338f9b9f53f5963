//! Drives one core's machine: carries out its output on a simulated disk and network, in the order
//! that the machine's contract requires.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machines::core::{
    ClientReply, CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput, LogRecord, PeerSend,
};
use placement::Durability;
use placement::tables::MemoryTables;
use protocol::codec::Wire;
use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, CoreId, Incarnation, Position};
use protocol::message::{CoordinatorRequest, PeerHeader, PeerMessage};
use protocol::record::Record;

use crate::disk::{Recovered, SimulatedDisk};

/// A running core.
#[derive(Debug)]
pub struct SimulatedCore {
    /// The core's state machine.
    pub machine: CoreMachine,
    /// The core's sorted tables.
    pub tables: MemoryTables,
    /// The number of operations that the core recovered from its log.
    pub read_back: usize,
    /// The time of the event for its next deadline, if there is one.
    pub tick_at_us: Option<u64>,
    /// The core's next deadline, on its own monotonic clock.
    pub deadline_us: u64,
    /// The position up to which the running flush will make the log durable.
    pub flushing: Option<Position>,
    /// Whether a message or a reply waits for a flush.
    pub flush_wanted: bool,
    /// Whether records must be flushed at the end of the interval.
    pub flush_due: bool,
    /// Whether the end of the interval is already in the event queue.
    pub flush_scheduled: bool,
    waiting_sends: BTreeMap<Position, Vec<PeerSend>>,
    waiting_replies: BTreeMap<Position, Vec<ClientReply>>,
}

/// The outputs of a core that the simulated world carries out.
#[derive(Debug, Default)]
pub struct Effects {
    /// Records that were appended.
    pub records: Vec<(Position, Record)>,
    /// Messages to other cores.
    pub sends: Vec<(CoreId, PeerHeader, PeerMessage)>,
    /// Replies to clients.
    pub replies: Vec<ClientReply>,
    /// Questions to the coordinator.
    pub asks: Vec<CoordinatorRequest>,
    /// Notes for the trace.
    pub notes: Vec<String>,
}

/// The identity of a core, and the configuration that it starts from.
pub struct SimulatedCoreStart {
    /// The id of the core.
    pub core: CoreId,
    /// The incarnation of the core's server.
    pub incarnation: Incarnation,
    /// The limits of the machine.
    pub limits: CoreLimits,
    /// The configuration that the coordinator gave it.
    pub configuration: Arc<Configuration>,
    /// The tables and records that the core recovered from its disk.
    pub recovered: Recovered,
}

impl SimulatedCore {
    /// Returns a core that starts from its disk.
    ///
    /// # Errors
    /// A record or a checkpoint cannot be read.
    pub fn start(
        start: SimulatedCoreStart,
        now: ClockReading,
        disk: &mut SimulatedDisk,
        effects: &mut Effects,
    ) -> Result<SimulatedCore, String> {
        let SimulatedCoreStart {
            core,
            incarnation,
            limits,
            configuration,
            recovered,
        } = start;
        let cluster = configuration.cluster;
        let identity = CoreIdentity {
            cluster,
            core,
            incarnation,
        };
        let mut machine = CoreMachine::new(identity, limits, configuration);
        let mut tables = recovered.tables;
        machine
            .restore(&mut tables)
            .map_err(|error| error.to_string())?;
        for (position, record) in &recovered.records {
            let replayed = machine.replay(*position, record, &mut tables);
            replayed.map_err(|error| error.to_string())?;
        }
        let mut core = SimulatedCore {
            read_back: machine.backlog().operations,
            machine,
            tables,
            tick_at_us: None,
            deadline_us: now.monotonic_us,
            flushing: None,
            flush_wanted: false,
            flush_due: false,
            flush_scheduled: false,
            waiting_sends: BTreeMap::new(),
            waiting_replies: BTreeMap::new(),
        };
        let mut output = CoreOutput::default();
        let started = core
            .machine
            .start(now, recovered.next, &mut core.tables, &mut output);
        started.expect("memory can be read");
        core.carry_out(now, output, disk, effects);
        Ok(core)
    }

    /// Handles an input, and the messages that the core then sends to itself.
    pub fn step(
        &mut self,
        now: ClockReading,
        input: CoreInput,
        disk: &mut SimulatedDisk,
        effects: &mut Effects,
    ) {
        let mut output = CoreOutput::default();
        let stepped = self.machine.step(now, input, &mut self.tables, &mut output);
        stepped.expect("memory can be read");
        self.carry_out(now, output, disk, effects);
    }

    /// Handles the report that the log is durable up to a position, and releases the messages that
    /// waited for it.
    pub fn durable(
        &mut self,
        now: ClockReading,
        position: Position,
        disk: &mut SimulatedDisk,
        effects: &mut Effects,
    ) {
        let later = self.waiting_replies.split_off(&Position(position.0 + 1));
        let due = std::mem::replace(&mut self.waiting_replies, later);
        effects.replies.extend(due.into_values().flatten());
        let later = self.waiting_sends.split_off(&Position(position.0 + 1));
        let due = std::mem::replace(&mut self.waiting_sends, later);
        let sends = due.into_values().flatten().collect();
        let output = CoreOutput {
            sends,
            ..CoreOutput::default()
        };
        self.carry_out(now, output, disk, effects);
        self.step(now, CoreInput::Durable(position), disk, effects);
    }

    fn carry_out(
        &mut self,
        now: ClockReading,
        output: CoreOutput,
        disk: &mut SimulatedDisk,
        effects: &mut Effects,
    ) {
        let mut outputs = VecDeque::from([output]);
        // Each message to itself is one step of the chain, so this ends with the chains.
        while let Some(output) = outputs.pop_front() {
            self.append(output.records, disk, effects);
            effects.asks.extend(output.asks);
            effects.notes.extend(output.notes);
            if let Some(deadline_us) = output.deadline_us {
                self.deadline_us = deadline_us;
            }
            for reply in output.replies {
                if reply.after <= disk.durable() {
                    effects.replies.push(reply);
                } else {
                    self.waiting_replies
                        .entry(reply.after)
                        .or_default()
                        .push(reply);
                }
            }
            let identity = self.machine.identity();
            for send in output.sends {
                if send.after > disk.durable() {
                    self.waiting_sends.entry(send.after).or_default().push(send);
                    continue;
                }
                let header = self.machine.header(&send.message);
                if send.to != identity.core {
                    effects.sends.push((send.to, header, send.message));
                    continue;
                }
                let input = CoreInput::Peer {
                    header,
                    message: send.message,
                };
                let mut next = CoreOutput::default();
                let stepped = self.machine.step(now, input, &mut self.tables, &mut next);
                stepped.expect("memory can be read");
                outputs.push_back(next);
            }
        }
    }

    fn append(&mut self, records: Vec<LogRecord>, disk: &mut SimulatedDisk, effects: &mut Effects) {
        for record in records {
            let position = disk.append(record.epoch.0, &record.bytes);
            assert_eq!(position, record.position, "machine and log count alike");
            match record.durability {
                Durability::Sync => self.flush_wanted = true,
                Durability::Replicated => self.flush_due = true,
            }
            let decoded = Record::decode_all(&record.bytes);
            effects
                .records
                .push((position, decoded.expect("the machine wrote it")));
        }
    }

    /// Returns the tables for a checkpoint, and the first position of the log that is still needed.
    pub fn checkpoint(&self) -> (MemoryTables, Position) {
        let mut tables = self.tables.clone();
        self.machine.before_checkpoint(&mut tables);
        (tables, self.machine.retain_from())
    }
}
