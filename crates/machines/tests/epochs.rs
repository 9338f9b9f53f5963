//! A core that learns of an epoch later than its peers do.

mod pair;

use std::sync::Arc;

use machines::core::{CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput};
use placement::tables::MemoryTables;
use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, Epoch, Incarnation, Position, TableId};
use protocol::message::{CoordinatorRequest, PeerHeader, PeerMessage};

use pair::{configuration, core};

struct Machine {
    machine: CoreMachine,
    tables: MemoryTables,
    now: ClockReading,
}

impl Machine {
    fn new() -> Machine {
        let identity = CoreIdentity {
            cluster: 1,
            core: core(1),
            incarnation: Incarnation(1),
        };
        let configuration = Arc::new(configuration());
        let mut it = Machine {
            machine: CoreMachine::new(identity, CoreLimits::default(), configuration),
            tables: MemoryTables::new(),
            now: ClockReading {
                monotonic_us: 5_000_000,
                wall_us: 0,
            },
        };
        let mut output = CoreOutput::default();
        let started = it
            .machine
            .start(it.now, Position(1), &mut it.tables, &mut output);
        started.expect("tables in memory do not fail");
        it
    }

    fn step(&mut self, input: CoreInput) -> CoreOutput {
        let mut output = CoreOutput::default();
        self.machine
            .step(self.now, input, &mut self.tables, &mut output)
            .expect("tables in memory do not fail");
        output
    }

    /// A peer with this epoch of the table asks about its recovery: each such message is answered.
    fn ask(&mut self, attempt: u64, epoch: Epoch) -> CoreOutput {
        self.step(CoreInput::Peer {
            header: PeerHeader {
                from: core(2),
                incarnation: Incarnation(1),
                epoch,
                table_epoch: epoch,
            },
            message: PeerMessage::Recover {
                table: TableId(1),
                attempt,
            },
        })
    }
}

/// The configuration with another epoch, in which the table has changed.
fn changed(epoch: Epoch) -> Arc<Configuration> {
    let mut next = configuration();
    next.epoch = epoch;
    for table in next.tables.iter_mut() {
        table.epoch = epoch;
    }
    Arc::new(next)
}

/// Returns the attempts that are answered.
fn answered(output: &CoreOutput) -> Vec<u64> {
    let answers = output.sends.iter().filter_map(|send| match send.message {
        PeerMessage::RecoverEnd { attempt, .. } => Some(attempt),
        _ => None,
    });
    answers.collect()
}

fn fetches(output: &CoreOutput) -> usize {
    let is_fetch = |ask: &&CoordinatorRequest| matches!(ask, CoordinatorRequest::Fetch { .. });
    output.asks.iter().filter(is_fetch).count()
}

#[test]
fn a_message_of_a_later_epoch_waits_for_this_epoch() {
    let mut machine = Machine::new();
    let own = configuration().tables[0].epoch;
    assert_eq!(answered(&machine.ask(1, own)), [1]);
    let (next, last) = (Epoch(own.0 + 10), Epoch(own.0 + 11));
    assert_eq!(answered(&machine.ask(2, next)), []);
    assert_eq!(answered(&machine.ask(3, last)), []);
    assert_eq!(answered(&machine.ask(4, next)), []);
    let output = machine.step(CoreInput::Configuration(changed(next)));
    assert_eq!(answered(&output), [2, 4]);
    let output = machine.step(CoreInput::Configuration(changed(last)));
    assert_eq!(answered(&output), [3]);
    assert_eq!(answered(&machine.ask(5, next)), [], "its epoch has ended");
}

#[test]
fn a_message_of_an_epoch_that_was_passed_over_is_dropped() {
    let mut machine = Machine::new();
    let own = configuration().tables[0].epoch;
    machine.ask(2, Epoch(own.0 + 10));
    let output = machine.step(CoreInput::Configuration(changed(Epoch(own.0 + 11))));
    assert_eq!(answered(&output), []);
}

/// Otherwise the core would be behind until the next heartbeat.
#[test]
fn an_epoch_that_is_noticed_during_a_fetch_is_fetched_after_it() {
    let mut machine = Machine::new();
    let own = configuration().epoch;
    let (next, last) = (Epoch(own.0 + 1), Epoch(own.0 + 2));
    assert_eq!(fetches(&machine.step(CoreInput::NewEpoch(next))), 1);
    assert_eq!(fetches(&machine.step(CoreInput::NewEpoch(last))), 0);
    let output = machine.step(CoreInput::Configuration(changed(next)));
    assert_eq!(fetches(&output), 1);
    // A coordinator that knows no more is not asked again and again.
    let output = machine.step(CoreInput::Configuration(changed(next)));
    assert_eq!(fetches(&output), 0);
}
