//! A machine alone that serves its partitions, with a valid lease.

use std::sync::Arc;

use machines::core::{CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput};
use placement::tables::MemoryTables;
use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, Epoch, FinishedLine, Incarnation, Position};
use protocol::message::{PeerHeader, PeerMessage, Room};

use crate::pair::core;

/// The machine of one server: of server 1, which holds the primary copy, or of server 2. The other
/// one is what a test says.
pub struct Participant {
    pub machine: CoreMachine,
    /// The other server.
    other: u32,
    pub tables: MemoryTables,
    pub now: ClockReading,
    pub epoch: u64,
}

impl Participant {
    /// Returns a server that serves.
    pub fn of(server: u32, known: Configuration, limits: CoreLimits) -> Participant {
        let identity = CoreIdentity {
            cluster: 1,
            core: core(server),
            incarnation: Incarnation(1),
        };
        let now = ClockReading {
            monotonic_us: 5_000_000,
            wall_us: 1_000,
        };
        let machine = CoreMachine::new(identity, limits, Arc::new(known));
        let mut it = Participant {
            machine,
            other: 3 - server,
            tables: MemoryTables::new(),
            now,
            epoch: 3,
        };
        let mut output = CoreOutput::default();
        let started = it
            .machine
            .start(now, Position(1), &mut it.tables, &mut output);
        started.expect("tables in memory do not fail");
        for send in output.sends {
            if let PeerMessage::Recover { table, attempt } = send.message {
                it.peer(PeerMessage::RecoverEnd {
                    table,
                    attempt,
                    count: 0,
                    finished_below: FinishedLine::default(),
                });
            }
        }
        it.renew();
        assert!(!it.machine.is_recovering());
        it
    }

    pub fn step(&mut self, input: CoreInput) -> CoreOutput {
        let mut output = CoreOutput::default();
        let (now, tables) = (self.now, &mut self.tables);
        let stepped = self.machine.step(now, input, tables, &mut output);
        stepped.expect("tables in memory do not fail");
        output
    }

    /// Takes a message of the other server.
    pub fn peer(&mut self, message: PeerMessage) -> CoreOutput {
        self.message(self.other, message)
    }

    /// Takes a message of a server.
    pub fn message(&mut self, from: u32, message: PeerMessage) -> CoreOutput {
        let header = PeerHeader {
            from: core(from),
            incarnation: Incarnation(1),
            epoch: Epoch(self.epoch),
            table_epoch: message.table().map_or(Epoch(0), |_| Epoch(self.epoch)),
        };
        self.step(CoreInput::Peer { header, message })
    }

    /// Renews the lease.
    pub fn renew(&mut self) {
        self.now.monotonic_us += CoreLimits::default().heartbeat_us;
        self.step(CoreInput::Tick);
        let sent_us = self.now.monotonic_us;
        self.peer(PeerMessage::LeaseGrant {
            sent_us,
            room: Room::Free,
        });
    }
}
