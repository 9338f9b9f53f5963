//! Side members: a machine alone as a partition of a thin index, as the decider and as the head of
//! an operation that changes an entry (R48).

mod pair;

use std::sync::Arc;

use machines::core::{CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput, PeerSend};
use placement::tables::{MemoryTables, Tables};
use placement::{Layout, ThinIndex, Value, encode_key, encode_row};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, Place};
use protocol::identity::{
    ClockReading, CoreId, Epoch, FinishedLine, Incarnation, OperationId, PartitionId, Position,
    TableId, Version,
};
use protocol::message::{PeerHeader, PeerMessage};
use protocol::operation::{Decision, OldRow, Prepare, RowChange, Vote};

use pair::{configuration, core};

const HEAD: u32 = 1;
const DECIDER: u32 = 2;
const SIDE: u32 = 3;

/// A table with two copies, and a thin index over `tail` on a third server.
fn with_thin() -> Configuration {
    let mut configuration = configuration();
    let mut third = configuration.servers[1].clone();
    third.id = core(SIDE).server;
    third.domain = "server-3".into();
    third.cores = vec!["127.0.0.1:7003".into()];
    configuration.servers.push(third);
    let table = &mut configuration.tables[0];
    table.schema.thin.push(ThinIndex {
        name: "by_tail_thin".into(),
        columns: vec![1],
        included: Vec::new(),
    });
    table.layout = Layout::base(&table.schema);
    let place = Place::serving(core(SIDE), Epoch(0));
    table.placement.push(vec![place]);
    configuration
}

/// The only partition of a replex.
fn partition(replex: u8) -> PartitionId {
    PartitionId {
        table: TableId(1),
        replex,
        number: 0,
    }
}

/// An insert of one row, as the head sends it down the chain, or to the side member.
fn insert(side: Option<u8>) -> Arc<Prepare> {
    let columns = &configuration().tables[0].schema.columns;
    let row = encode_row(columns, &[Value::Int64(1), Value::Int64(7)]);
    let line = FinishedLine {
        incarnation: Incarnation(1),
        sequence: 1,
    };
    Arc::new(Prepare {
        operation: OperationId {
            head: core(HEAD),
            incarnation: Incarnation(1),
            sequence: 1,
        },
        epoch: Epoch(3),
        finished_below: line,
        table: TableId(1),
        members: vec![partition(0), partition(1), partition(2)],
        sides: 1,
        side,
        votes: vec![Vote::Yes],
        changes: vec![RowChange {
            pk: Bytes(encode_key([Value::Int64(1).as_ref()])),
            version: Version(9),
            old: OldRow::Absent,
            new: Some(Bytes(row.expect("the values are of the columns"))),
        }],
        requests: Vec::new(),
    })
}

/// One server's machine and its tables.
struct Machine {
    machine: CoreMachine,
    tables: MemoryTables,
    now_us: u64,
}

impl Machine {
    /// Starts a server that has nothing on its disk. Its peers have sent these operations before
    /// they ended their reports.
    fn start(server: u32, reports: &[(u32, Arc<Prepare>)]) -> Machine {
        let identity = CoreIdentity {
            cluster: 1,
            core: core(server),
            incarnation: Incarnation(1),
        };
        let limits = CoreLimits::default();
        let mut machine = Machine {
            machine: CoreMachine::new(identity, limits, Arc::new(with_thin())),
            tables: MemoryTables::new(),
            now_us: 0,
        };
        let (now, mut output) = (ClockReading::default(), CoreOutput::default());
        let started = machine
            .machine
            .start(now, Position(1), &mut machine.tables, &mut output);
        started.expect("tables in memory do not fail");
        for send in output.sends {
            let PeerMessage::Recover { table, attempt } = send.message else {
                continue;
            };
            let own = reports.iter().filter(|(from, _)| core(*from) == send.to);
            let mut count = 0;
            for (_, prepare) in own {
                let message = PeerMessage::Adopt {
                    attempt,
                    prepare: Arc::clone(prepare),
                    decision: None,
                };
                machine.receive(send.to, message);
                count += 1;
            }
            let line = FinishedLine {
                incarnation: Incarnation(1),
                sequence: 1,
            };
            let end = PeerMessage::RecoverEnd {
                table,
                attempt,
                count,
                finished_below: line,
            };
            machine.receive(send.to, end);
        }
        assert!(!machine.machine.is_recovering());
        machine
    }

    /// Handles an input, and returns the messages that go to other cores.
    fn step(&mut self, input: CoreInput) -> Vec<PeerSend> {
        let now = ClockReading {
            monotonic_us: self.now_us,
            ..ClockReading::default()
        };
        let mut output = CoreOutput::default();
        let stepped = self.machine.step(now, input, &mut self.tables, &mut output);
        stepped.expect("tables in memory do not fail");
        output.sends
    }

    fn receive(&mut self, from: CoreId, message: PeerMessage) -> Vec<PeerSend> {
        let header = PeerHeader {
            from,
            incarnation: Incarnation(1),
            epoch: Epoch(3),
            table_epoch: Epoch(3),
        };
        self.step(CoreInput::Peer { header, message })
    }

    /// Lets so much time pass that all timers are due.
    fn wait(&mut self) -> Vec<PeerSend> {
        self.now_us += 1_000_000;
        self.step(CoreInput::Tick)
    }

    /// Returns the stored entry or row of a partition under the row's key in it.
    fn stored(&self, partition: PartitionId, key: &[Value]) -> Option<Vec<u8>> {
        let key = encode_key(key.iter().map(Value::as_ref));
        let mut stored = None;
        let visit = &mut |value: &[u8]| stored = Some(value.to_vec());
        let read = self.tables.read(partition.rows_table(), &key, visit);
        read.expect("tables in memory do not fail");
        stored
    }
}

fn settled() -> PeerMessage {
    PeerMessage::Decision {
        operation: insert(None).operation,
        to: partition(2),
        decision: Decision::Commit,
        settled: true,
    }
}

fn reported() -> PeerMessage {
    PeerMessage::Reported {
        operation: insert(None).operation,
        to: partition(1),
        side: 0,
    }
}

/// Returns whether a message to the head confirms the operation at the side member.
fn confirms(sends: &[PeerSend]) -> bool {
    let expected = PeerMessage::Durable {
        operations: vec![(insert(None).operation, partition(2))],
    };
    sends.iter().any(|send| send.message == expected)
}

/// Returns whether a message carries the decider's decision.
fn decides(sends: &[PeerSend]) -> bool {
    let is_decision = |send: &PeerSend| matches!(&send.message, PeerMessage::Decision { to, .. } if *to == partition(0));
    sends.iter().any(is_decision)
}

#[test]
fn a_side_member_reports_what_is_durable_and_takes_what_may_be_seen() {
    let mut machine = Machine::start(SIDE, &[]);
    let sends = machine.receive(core(HEAD), PeerMessage::Prepare(insert(Some(0))));
    let report = sends.iter().find(|send| send.message == reported());
    let report = report.expect("it reports to the decider");
    assert_eq!(report.to, core(DECIDER));
    assert!(report.after > Position(0), "the report waits for the disk");
    let entry = [Value::Int64(7), Value::Int64(1)];
    assert_eq!(machine.stored(partition(2), &entry), None);
    machine.step(CoreInput::Durable(Position(99)));
    let PeerMessage::Decision {
        operation,
        to,
        decision,
        ..
    } = settled()
    else {
        unreachable!("made above")
    };
    let early = PeerMessage::Decision {
        operation,
        to,
        decision,
        settled: false,
    };
    machine.receive(core(HEAD), early);
    assert_eq!(machine.stored(partition(2), &entry), None);
    machine.receive(core(HEAD), settled());
    assert!(machine.stored(partition(2), &entry).is_some());
    machine.step(CoreInput::Durable(Position(99)));
    assert!(confirms(&machine.wait()));
    // Nothing is lost with a message: everything is repeated.
    let sends = machine.receive(core(HEAD), PeerMessage::Prepare(insert(Some(0))));
    assert!(sends.iter().any(|send| send.message == reported()));
    assert!(confirms(&machine.wait()));
}

/// Seed 236: the head had restarted, and did not know that the operation was finished.
#[test]
fn a_side_member_confirms_an_operation_that_it_has_forgotten() {
    let mut machine = Machine::start(SIDE, &[]);
    let line = FinishedLine {
        incarnation: Incarnation(1),
        sequence: 2,
    };
    machine.receive(core(HEAD), PeerMessage::Finished(line));
    machine.receive(core(HEAD), PeerMessage::Prepare(insert(Some(0))));
    assert!(confirms(&machine.wait()));
    assert_eq!(machine.machine.backlog().operations, 0);
}

#[test]
fn the_decider_waits_for_the_reports() {
    let mut machine = Machine::start(DECIDER, &[]);
    machine.receive(core(HEAD), PeerMessage::Prepare(insert(None)));
    let sends = machine.step(CoreInput::Durable(Position(99)));
    assert!(!decides(&sends), "the side member has not reported");
    assert!(decides(&machine.receive(core(SIDE), reported())));
}

#[test]
fn a_report_may_come_before_the_prepare() {
    let mut machine = Machine::start(DECIDER, &[]);
    assert!(!decides(&machine.receive(core(SIDE), reported())));
    let sends = machine.receive(core(HEAD), PeerMessage::Prepare(insert(None)));
    assert!(!decides(&sends), "the decider's own prepare is not durable");
    assert!(decides(&machine.step(CoreInput::Durable(Position(99)))));
}

#[test]
fn a_restarted_head_takes_its_operation_from_a_side_member() {
    let mut machine = Machine::start(HEAD, &[(SIDE, insert(Some(0)))]);
    assert_eq!(machine.machine.backlog().operations, 1);
    let sends = machine.wait();
    let prepares = sends.iter().filter_map(|send| match &send.message {
        PeerMessage::Prepare(prepare) => Some((send.to, prepare.side, prepare.votes.len())),
        _ => None,
    });
    let mut prepares: Vec<_> = prepares.collect();
    prepares.sort_unstable();
    let expected = [(core(DECIDER), None, 1), (core(SIDE), Some(0), 1)];
    assert_eq!(prepares, expected);
}

#[test]
fn impossible_prepares_and_reports_change_nothing() {
    let mut machine = Machine::start(SIDE, &[]);
    let spoilt: [fn(&mut Prepare); 5] = [
        |it| it.side = Some(1),
        |it| it.sides = 3,
        |it| it.sides = 200,
        |it| it.side = Some(255),
        |it| (it.side, it.votes) = (None, vec![Vote::Yes, Vote::Yes]),
    ];
    for spoil in spoilt {
        let mut prepare = Prepare::clone(&insert(Some(0)));
        spoil(&mut prepare);
        machine.receive(core(HEAD), PeerMessage::Prepare(Arc::new(prepare)));
    }
    for side in [0, 64, 255] {
        let PeerMessage::Reported { operation, to, .. } = reported() else {
            unreachable!("made above")
        };
        machine.receive(
            core(HEAD),
            PeerMessage::Reported {
                operation,
                to,
                side,
            },
        );
    }
    assert_eq!(machine.machine.backlog().operations, 0);
}
