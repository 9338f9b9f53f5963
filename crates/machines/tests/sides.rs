//! Side members: a machine alone as a partition of a thin index, as the decider and as the head of
//! an operation that changes an entry (R48).

mod inserts;
mod pair;

use std::sync::Arc;

use machines::core::{
    ClientId, CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput, PeerSend,
};
use placement::tables::{MemoryTables, Tables};
use placement::{Durability, Index, Layout, RowView, ThinIndex, Value, encode_key, encode_row};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, Place};
use protocol::expression::Expression;
use protocol::identity::{
    ClockReading, CoreId, Epoch, FinishedLine, Incarnation, OperationId, PartitionId, Position,
    Version,
};
use protocol::message::{
    Agreement, ChecksumRead, PeerHeader, PeerMessage, Read, Refusal, Reply, Request, RowPage,
};
use protocol::operation::{Decision, OldRow, Prepare, RowChange, Vote};

use inserts::partition;
use pair::{configuration, core};

const HEAD: u32 = 1;
const DECIDER: u32 = 2;
const SIDE: u32 = 3;
const MIDDLE: u32 = 4;

fn add_server(configuration: &mut Configuration, number: u32) {
    let mut server = configuration.servers[1].clone();
    server.id = core(number).server;
    server.domain = format!("server-{number}");
    server.cores = vec![format!("127.0.0.1:700{number}")];
    configuration.servers.push(server);
}

/// A table with two copies, and a thin index over `tail` on a third server.
fn with_thin() -> Configuration {
    let mut configuration = configuration();
    add_server(&mut configuration, SIDE);
    let table = &mut configuration.tables[0];
    table.schema.thin.push(ThinIndex {
        name: "by_tail_thin".into(),
        columns: placement::ascending(&[1]),
        included: Vec::new(),
        by_range: false,
        unique: false,
        copies: 1,
    });
    table.layout = Layout::base(&table.schema);
    let place = Place::serving(core(SIDE), Epoch(0));
    table.placement.push(vec![place]);
    configuration
}

/// A `replicated` table with three copies, of which the middle one cannot refuse, and a thin index.
fn with_middle() -> Configuration {
    let mut configuration = with_thin();
    add_server(&mut configuration, MIDDLE);
    let table = &mut configuration.tables[0];
    table.schema.durability = Durability::Replicated;
    table.schema.indexes.push(Index {
        name: "by_both".into(),
        columns: vec![1, 0],
        constraint: None,
        partition_columns: None,
        by_range: false,
    });
    table.layout = Layout::base(&table.schema);
    let servers = [HEAD, MIDDLE, DECIDER, SIDE];
    let places = servers.map(|it| vec![Place::serving(core(it), Epoch(0))]);
    table.placement = places.into();
    configuration
}

/// [`insert`] into the table of [`with_middle`].
fn long_insert(side: Option<u8>, votes: usize) -> Arc<Prepare> {
    let mut prepare = Prepare::clone(&insert(side));
    prepare.members = (0..4).map(partition).collect();
    prepare.votes = vec![Vote::Yes; votes];
    Arc::new(prepare)
}

/// An insert of one row, as the head sends it down the chain, or to the side member.
fn insert(side: Option<u8>) -> Arc<Prepare> {
    Arc::new(Prepare {
        sides: 1,
        side,
        ..inserts::insert((0..3).map(partition).collect())
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
        Machine::start_in(with_thin(), server, reports)
    }

    fn start_in(
        configuration: Configuration,
        server: u32,
        reports: &[(u32, Arc<Prepare>)],
    ) -> Machine {
        let identity = CoreIdentity {
            cluster: 1,
            core: core(server),
            incarnation: Incarnation(1),
        };
        let limits = CoreLimits::default();
        let mut machine = Machine {
            machine: CoreMachine::new(identity, limits, Arc::new(configuration)),
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
        self.outputs(input).sends
    }

    fn outputs(&mut self, input: CoreInput) -> CoreOutput {
        let now = ClockReading {
            monotonic_us: self.now_us,
            ..ClockReading::default()
        };
        let mut output = CoreOutput::default();
        let stepped = self.machine.step(now, input, &mut self.tables, &mut output);
        stepped.expect("tables in memory do not fail");
        output
    }

    /// Sends the side member a prepare, and lets it become durable.
    fn prepare(&mut self, prepare: Prepare) {
        self.receive(core(HEAD), PeerMessage::Prepare(Arc::new(prepare)));
        self.step(CoreInput::Durable(Position(99)));
    }

    /// Reads entries at the thin index with a valid lease. Returns the tail and the id of each
    /// entry and whether it is marked, and the page.
    fn entries(&mut self, change: impl Fn(&mut Read)) -> (Vec<(i64, i64, bool)>, RowPage) {
        self.step(CoreInput::Beat {
            sent_us: self.now_us,
            epoch: Epoch(3),
            lease_us: 1_000_000_000,
            session_floor: Default::default(),
        });
        let page = match self.ask(change) {
            Reply::Rows(page) => page,
            other => panic!("no page: {other:?}"),
        };
        let columns = configuration().tables[0].schema.columns.clone();
        let entry = |(index, (_, row)): (u32, (Version, &[u8]))| {
            let row = RowView::parse(&columns, row).expect("an entry decodes");
            let [Value::Int64(id), Value::Int64(tail)] = &row.to_values()[..] else {
                panic!("an entry has other columns");
            };
            (*tail, *id, page.marked.contains(&index))
        };
        let entries = (0..).zip(page.rows()).map(entry).collect();
        (entries, page)
    }

    fn ask(&mut self, change: impl Fn(&mut Read)) -> Reply {
        let mut read = Read {
            limit: 10,
            agreement: Agreement::Quiet,
            ..Read::of(Epoch(3), partition(2))
        };
        change(&mut read);
        let output = self.outputs(CoreInput::Request {
            client: ClientId(1),
            correlation: 1,
            request: Request::Read(read),
        });
        let [reply] = &output.replies[..] else {
            panic!("a read of a thin index is answered at once");
        };
        reply.reply.clone()
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

/// Seed 700,003,206: all that can refuse had voted yes, so the restarted decider took its vote from
/// the head's report. The middle member had never received the prepare.
#[test]
fn a_decider_that_has_adopted_its_vote_waits_for_the_chain() {
    let reports = [
        (HEAD, long_insert(None, 1)),
        (SIDE, long_insert(Some(0), 1)),
    ];
    let mut machine = Machine::start_in(with_middle(), DECIDER, &reports);
    assert_eq!(machine.machine.backlog().operations, 1);
    let report = PeerMessage::Reported {
        operation: insert(None).operation,
        to: partition(2),
        side: 0,
    };
    let decides = |sends: &[PeerSend]| {
        let is_decision = |send: &PeerSend| matches!(&send.message, PeerMessage::Decision { to, .. } if *to == partition(1));
        sends.iter().any(is_decision)
    };
    assert!(!decides(&machine.receive(core(SIDE), report.clone())));
    assert!(!decides(&machine.step(CoreInput::Durable(Position(99)))));
    assert!(!decides(&machine.receive(core(SIDE), report.clone())));
    let prepare = PeerMessage::Prepare(long_insert(None, 2));
    assert!(decides(&machine.receive(core(MIDDLE), prepare.clone())));

    // The report may also come last.
    let mut machine = Machine::start_in(with_middle(), DECIDER, &reports);
    assert!(!decides(&machine.receive(core(MIDDLE), prepare)));
    assert!(decides(&machine.receive(core(SIDE), report)));
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

/// Seed 1,000,179,835: head and decider had restarted, both without the outcome. The side member
/// had confirmed it to the head, which never asked it again. So it never reported to the decider.
#[test]
fn a_side_member_that_has_confirmed_is_asked_until_the_chain_has_the_outcome() {
    let asks_for_report = |sends: &[PeerSend]| {
        let is_prepare = |send: &PeerSend| matches!(&send.message, PeerMessage::Prepare(prepare) if prepare.side == Some(0));
        sends.iter().any(is_prepare)
    };
    let confirmed_by = |place| PeerMessage::Durable {
        operations: vec![(insert(None).operation, partition(place))],
    };
    let mut machine = Machine::start(HEAD, &[(SIDE, insert(Some(0)))]);
    machine.step(CoreInput::Durable(Position(99)));
    machine.receive(core(SIDE), confirmed_by(2));
    assert!(asks_for_report(&machine.wait()));
    // The decider may crash after it has sent the outcome, so it can lack it when the head has it.
    let PeerMessage::Decision {
        operation,
        decision,
        settled,
        ..
    } = settled()
    else {
        unreachable!("made above")
    };
    let decided = PeerMessage::Decision {
        operation,
        to: partition(0),
        decision,
        settled,
    };
    machine.receive(core(DECIDER), decided);
    machine.step(CoreInput::Durable(Position(99)));
    assert!(asks_for_report(&machine.wait()));
    machine.receive(core(DECIDER), confirmed_by(1));
    assert!(!asks_for_report(&machine.wait()), "all have the outcome");
}

// `cargo xtask mutants` runs it alone: the bug is planted for the whole process.
#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_is_noticed() {
    use protocol::planted::{Bug, select};
    select(Some(Bug::ConfirmedSideLeftOut));
    let noticed = std::panic::catch_unwind(
        a_side_member_that_has_confirmed_is_asked_until_the_chain_has_the_outcome,
    );
    assert!(noticed.is_err());
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

/// Returns an operation on the row of an id, that changes its tail.
fn change(sequence: u64, id: i64, (from, to): (Option<i64>, Option<i64>)) -> Prepare {
    let columns = &configuration().tables[0].schema.columns;
    let row = |tail| {
        let row = encode_row(columns, &[Value::Int64(id), Value::Int64(tail)]);
        Bytes(row.expect("the values are of the columns"))
    };
    let mut prepare = Prepare::clone(&insert(Some(0)));
    prepare.operation.sequence = sequence;
    prepare.changes = vec![Arc::new(RowChange {
        pk: Bytes(encode_key([Value::Int64(id).as_ref()])),
        version: Version(100 + sequence),
        old: match from {
            None => OldRow::Absent,
            Some(tail) => OldRow::Keys {
                version: Version(1),
                row: row(tail),
            },
        },
        new: to.map(row),
    })];
    prepare
}

fn settle(machine: &mut Machine, sequence: u64) {
    let PeerMessage::Decision { operation, to, .. } = settled() else {
        unreachable!("made above")
    };
    let message = PeerMessage::Decision {
        operation: OperationId {
            sequence,
            ..operation
        },
        to,
        decision: Decision::Commit,
        settled: true,
    };
    machine.receive(core(HEAD), message);
}

#[test]
fn entries_of_unsettled_operations_are_marked() {
    let mut machine = Machine::start(SIDE, &[]);
    for (sequence, id) in (1..).zip([10, 20, 30]) {
        machine.prepare(change(sequence, id, (None, Some(5))));
        settle(&mut machine, sequence);
    }
    let all = |_: &mut Read| {};
    let settled = vec![(5, 10, false), (5, 20, false), (5, 30, false)];
    assert_eq!(machine.entries(all).0, settled);
    // One moves to another key, one stays at its key, one comes, one goes.
    machine.prepare(change(4, 10, (Some(5), Some(9))));
    machine.prepare(change(5, 20, (Some(5), Some(5))));
    machine.prepare(change(6, 40, (None, Some(1))));
    machine.prepare(change(7, 30, (Some(5), None)));
    let marked = vec![
        (1, 40, true),
        (5, 10, true),
        (5, 20, true),
        (5, 30, true),
        (9, 10, true),
    ];
    assert_eq!(machine.entries(all).0, marked);
    let backwards: Vec<_> = marked.iter().rev().copied().collect();
    assert_eq!(machine.entries(|read| read.descending = true).0, backwards);
    let key = |tail: i64| encode_key([Value::Int64(tail).as_ref()]);
    let part = machine.entries(|read| {
        read.start = Bytes(key(2));
        read.end = Some(Bytes(key(6)));
    });
    assert_eq!(part.0, marked[1..4]);
    settle(&mut machine, 4);
    settle(&mut machine, 7);
    let some = vec![(1, 40, true), (5, 20, true), (9, 10, false)];
    let (entries, page) = machine.entries(all);
    assert_eq!(entries, some);
    assert_eq!(page.quiet_us, Some(0), "it has just changed");
    machine.now_us += 400_000;
    let (_, page) = machine.entries(all);
    assert_eq!(page.quiet_us, Some(400_000));
}

#[test]
fn a_page_has_as_many_certain_entries_as_its_limit() {
    let mut machine = Machine::start(SIDE, &[]);
    for (sequence, id) in (1..).zip([10, 20, 30]) {
        machine.prepare(change(sequence, id, (None, Some(id))));
        settle(&mut machine, sequence);
    }
    machine.prepare(change(4, 10, (Some(10), Some(25))));
    let (entries, page) = machine.entries(|read| read.limit = 1);
    assert_eq!(entries, [(10, 10, true), (20, 20, false)]);
    let next = page.next.expect("there is more");
    let (entries, page) = machine.entries(|read| read.start = next.clone());
    assert_eq!(entries, [(25, 10, true), (30, 30, false)]);
    assert_eq!(page.next, None);
    let (entries, page) = machine.entries(|read| (read.limit, read.descending) = (1, true));
    assert_eq!(entries, [(30, 30, false)]);
    let next = page.next.expect("there is more");
    let last = |read: &mut Read| (read.descending, read.end) = (true, Some(next.clone()));
    let (entries, _) = machine.entries(last);
    assert_eq!(entries, [(25, 10, true), (20, 20, false), (10, 10, true)]);
    // Single keys: those that are there, with their marks, and none beside them.
    let key = |tail, id| {
        let values = [Value::Int64(tail), Value::Int64(id)];
        Bytes(encode_key(values.iter().map(Value::as_ref)))
    };
    let keys = [(10, 10), (20, 20), (25, 9), (25, 10)].map(|(tail, id)| key(tail, id));
    let (entries, _) = machine.entries(|read| read.keys = keys[..3].to_vec());
    assert_eq!(entries, [(10, 10, true), (20, 20, false)]);
    let (entries, _) = machine.entries(|read| read.keys = keys[3..].to_vec());
    assert_eq!(entries, [(25, 10, true)]);
}

#[test]
fn what_entries_do_not_have_is_refused() {
    let mut machine = Machine::start(SIDE, &[]);
    machine.entries(|_| {});
    let refused: [fn(&mut Read); 3] = [
        |read| read.count_only = true,
        |read| read.projection = Some(vec![0, 7]),
        |read| read.filter = Some(Expression::Column(7)),
    ];
    for change in refused {
        let reply = machine.ask(change);
        let is_refused = matches!(reply, Reply::Refused(Refusal::Invalid { .. }));
        assert!(is_refused, "{reply:?}");
    }
    let mut sum = |entries_of| {
        let output = machine.outputs(CoreInput::Request {
            client: ClientId(1),
            correlation: 1,
            request: Request::Checksum(ChecksumRead {
                epoch: Epoch(3),
                partition: partition(2),
                start: Bytes::default(),
                limit: 10,
                snapshot: None,
                entries_of,
            }),
        });
        let mut replies = output.replies.into_iter();
        replies.next().expect("it is answered at once").reply
    };
    assert!(matches!(sum(Some(2)), Reply::Checksum(_)));
    for no_thin_index in [0, 1, 9] {
        let reply = sum(Some(no_thin_index));
        let is_refused = matches!(reply, Reply::Refused(Refusal::Invalid { .. }));
        assert!(is_refused, "{reply:?}");
    }
}

#[test]
fn a_read_of_some_keys_waits_for_operations_on_these_keys_alone() {
    let mut machine = Machine::start(DECIDER, &[]);
    machine.step(CoreInput::Beat {
        sent_us: 0,
        epoch: Epoch(3),
        lease_us: 1_000_000_000,
        session_floor: Default::default(),
    });
    let mut prepare = change(1, 10, (None, Some(5)));
    prepare.side = None;
    machine.prepare(prepare);
    let key = |id: i64| {
        Bytes(encode_key(
            [Value::Int64(5), Value::Int64(id)]
                .iter()
                .map(Value::as_ref),
        ))
    };
    let read = |ids: &[i64]| Read {
        start: key(0),
        end: Some(key(99)),
        limit: 10,
        agreement: Agreement::Quiet,
        keys: ids.iter().map(|id| key(*id)).collect(),
        ..Read::of(Epoch(3), partition(1))
    };
    let mut correlation = 0;
    let mut answers = |read: Read| {
        correlation += 1;
        let output = machine.outputs(CoreInput::Request {
            client: ClientId(1),
            correlation,
            request: Request::Read(read),
        });
        let replies = output.replies.into_iter();
        replies.map(|reply| reply.reply).next()
    };
    let is_answered = |reply| matches!(reply, Some(Reply::Rows(_)));
    assert!(is_answered(answers(read(&[9, 11]))), "another row changes");
    assert_eq!(answers(read(&[9, 10])), None, "it waits for the outcome");
    assert_eq!(answers(read(&[])), None, "a range has all keys");
    let beyond = Read {
        start: key(11),
        ..read(&[9, 10, 12])
    };
    assert!(is_answered(answers(beyond)), "10 is outside of the range");
    let invalid = answers(read(&[12, 11]));
    let is_refused = matches!(invalid, Some(Reply::Refused(Refusal::Invalid { .. })));
    assert!(is_refused, "keys ascend: {invalid:?}");
}
