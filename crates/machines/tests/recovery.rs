//! Restarts of one machine, whose log and whose peers are written down here.

mod inserts;
mod pair;

use std::sync::Arc;

use machines::core::{CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput};
use placement::tables::{MemoryTables, Tables};
use placement::{Layout, Value, encode_key, encode_row};
use protocol::codec::{Bytes, Wire};
use protocol::configuration::{Configuration, Place, PlacedTables};
use protocol::identity::{
    ClockReading, CoreId, Epoch, FinishedLine, Incarnation, Position, TableId, Version,
};
use protocol::message::{PeerHeader, PeerMessage};
use protocol::operation::{Decision, OldRow, Prepare, RequestResult, RowChange, Vote};
use protocol::record::{PartitionStart, Record};

use inserts::partition;
use pair::{configuration, core};

#[test]
fn a_recovery_whose_peers_hold_nothing_any_more_ends() {
    let identity = CoreIdentity {
        cluster: 1,
        core: core(1),
        incarnation: Incarnation(2),
    };
    let (mut tables, mut output) = (MemoryTables::new(), CoreOutput::default());
    let mut machine = CoreMachine::new(identity, CoreLimits::default(), Arc::new(configuration()));
    machine
        .start(
            ClockReading::default(),
            Position(1),
            &mut tables,
            &mut output,
        )
        .expect("tables in memory do not fail");
    assert!(machine.is_recovering());
    let mut without_tables = configuration();
    without_tables.epoch = Epoch(4);
    without_tables.tables = PlacedTables::default();
    let input = CoreInput::Configuration(Arc::new(without_tables));
    machine
        .step(ClockReading::default(), input, &mut tables, &mut output)
        .expect("tables in memory do not fail");
    assert!(!machine.is_recovering());
}

/// The table has a third copy, on a third server.
fn three_copies() -> Configuration {
    let mut configuration = configuration();
    let mut third = configuration.servers[1].clone();
    third.id = core(3).server;
    third.domain = "server-3".into();
    third.cores = vec!["127.0.0.1:7003".into()];
    configuration.servers.push(third);
    let table = &mut configuration.tables[0];
    let mut index = table.schema.indexes[0].clone();
    index.name = "by_tail_again".into();
    table.schema.indexes.push(index);
    table.layout = Layout::base(&table.schema);
    let place = Place::serving(core(3), Epoch(0));
    table.placement.push(vec![place]);
    configuration
}

/// An insert of one row, the same one each time, by server 1; server 3 decides it.
fn insert(sequence: u64, version: u64, vote: Vote) -> Prepare {
    let mut prepare = inserts::insert((0..3).map(partition).collect());
    prepare.operation.sequence = sequence;
    prepare.votes.push(vote);
    Arc::make_mut(&mut prepare.changes[0]).version = Version(version);
    prepare
}

/// Sends this to the machine as another server, and reports that all it has logged is durable.
fn receive(
    machine: &mut CoreMachine,
    tables: &mut MemoryTables,
    messages: Vec<(CoreId, PeerMessage)>,
) {
    let header = |from| PeerHeader {
        from,
        incarnation: Incarnation(1),
        epoch: Epoch(3),
        table_epoch: Epoch(3),
    };
    let inputs = messages.into_iter();
    let mut inputs: Vec<CoreInput> = inputs
        .map(|(from, message)| CoreInput::Peer {
            header: header(from),
            message,
        })
        .collect();
    inputs.push(CoreInput::Durable(Position(99)));
    for input in inputs {
        let mut output = CoreOutput::default();
        let stepped = machine.step(ClockReading::default(), input, tables, &mut output);
        stepped.expect("tables in memory do not fail");
    }
}

/// Returns the core of server 2 after a restart, before it has read its log.
fn second(known: Arc<Configuration>) -> CoreMachine {
    let identity = CoreIdentity {
        cluster: 1,
        core: core(2),
        incarnation: Incarnation(2),
    };
    CoreMachine::new(identity, CoreLimits::default(), known)
}

/// The record of an operation that server 2 has voted on.
fn prepared(prepare: &Prepare) -> Record {
    Record::Prepared {
        partition: partition(1),
        prepare: Arc::new(prepare.clone()),
    }
}

/// The record of the outcome of an operation that server 2 has not settled.
fn decided(prepare: &Prepare, decision: Decision) -> Record {
    Record::Decided {
        partition: partition(1),
        operation: prepare.operation,
        decision,
        settles: false,
    }
}

/// Reads a log, from its first position on.
fn replay(machine: &mut CoreMachine, tables: &mut MemoryTables, log: &[Record]) {
    for (position, record) in (1..).map(Position).zip(log) {
        let replayed = machine.replay(position, &record.to_bytes(), tables);
        replayed.expect("the record is whole");
    }
}

/// Returns the peers that a restarted core asks, each with its attempt.
fn asked(output: &CoreOutput) -> impl Iterator<Item = (CoreId, u64)> {
    output.sends.iter().filter_map(|send| match send.message {
        PeerMessage::Recover { attempt, .. } => Some((send.to, attempt)),
        _ => None,
    })
}

/// Returns answers of the peers that know no operation. The head has finished its first one.
fn ends(output: &CoreOutput) -> Vec<(CoreId, PeerMessage)> {
    let ends = asked(output).map(|(from, attempt)| {
        let end = PeerMessage::RecoverEnd {
            table: TableId(1),
            attempt,
            count: 0,
            finished_below: FinishedLine {
                incarnation: Incarnation(1),
                sequence: if from == core(1) { 2 } else { 1 },
            },
        };
        (from, end)
    });
    ends.collect()
}

#[test]
fn a_refused_operation_waits_for_nothing() {
    let reason = RequestResult::Conflict;
    let vote = Vote::No(reason.clone());
    expect_forgotten(&insert(1, 9, vote), Decision::Abort(reason));
}

#[test]
fn an_operation_that_has_waited_is_forgotten() {
    expect_forgotten(&insert(1, 9, Vote::Yes), Decision::Commit);
}

/// Of a finished operation only that it is settled is lost here; another one with a lower version,
/// which a clock gives that stepped back, is on the same row and open. Once that one is settled, it
/// alone is left.
fn expect_forgotten(finished: &Prepare, decision: Decision) {
    let open = insert(2, 4, Vote::Yes);
    let (mut tables, mut output) = (MemoryTables::new(), CoreOutput::default());
    let mut machine = second(Arc::new(three_copies()));
    let log = [
        prepared(finished),
        decided(finished, decision),
        prepared(&open),
    ];
    replay(&mut machine, &mut tables, &log);
    machine
        .start(
            ClockReading::default(),
            Position(4),
            &mut tables,
            &mut output,
        )
        .expect("tables in memory do not fail");
    receive(&mut machine, &mut tables, ends(&output));
    assert!(!machine.is_recovering());
    let decision = PeerMessage::Decision {
        operation: open.operation,
        to: partition(1),
        decision: Decision::Commit,
        settled: false,
    };
    let settled = PeerMessage::Settled {
        operation: open.operation,
        to: partition(1),
    };
    let outcome = vec![(core(3), decision), (core(1), settled)];
    receive(&mut machine, &mut tables, outcome);
    let backlog = machine.backlog();
    assert_eq!(backlog.oldest, Some((open.operation, partition(1))));
    assert_eq!(backlog.operations, 1);
}

/// The checkpoint knows the present tenure of the partition. The log still has an operation of the
/// tenure before, which ended while the partition was at another core, so that no record says how.
#[test]
fn operations_of_an_earlier_tenure_are_not_replayed() {
    let mut known = three_copies();
    known.epoch = Epoch(5);
    known.tables[0].epoch = Epoch(5);
    known.tables[0].placement[1][0].since = Epoch(5);
    let known = Arc::new(known);
    let machine = || second(Arc::clone(&known));
    let prepared = prepared(&insert(1, 9, Vote::Yes));
    let resolved = Record::Resolved {
        epoch: Epoch(4),
        tables: vec![TableId(1)],
    };
    let given = Record::Given {
        partition: partition(1),
        since: Epoch(5),
        start: PartitionStart::Empty,
    };
    let mut tables = MemoryTables::new();
    let mut before = machine();
    let replayed = before.replay(Position(3), &given.to_bytes(), &mut tables);
    replayed.expect("the record is whole");
    before.before_checkpoint(&mut tables);
    let mut after = machine();
    let restored = after.restore(&mut tables);
    restored.expect("the checkpoint is whole");
    replay(&mut after, &mut tables, &[prepared, resolved, given]);
    assert_eq!(after.backlog().operations, 0);
}

/// A core has decided an operation and restarts. While it asks its peers, one sends it a later
/// prepare, which says that the operation is finished. A checkpoint includes the prepare's record
/// and not the operation's effect. After another restart the operation has its effect.
#[test]
fn an_operation_that_was_open_at_a_checkpoint_is_settled_after_it() {
    let known = Arc::new(three_copies());
    let machine = || second(Arc::clone(&known));
    let finished = insert(1, 9, Vote::Yes);
    let mut later = insert(2, 10, Vote::Yes);
    let columns = &configuration().tables[0].schema.columns;
    let row = encode_row(columns, &[Value::Int64(2), Value::Int64(8)]);
    let change = Arc::make_mut(&mut later.changes[0]);
    change.pk = Bytes(encode_key([Value::Int64(2).as_ref()]));
    change.new = Some(Bytes(row.expect("the values are of the columns")));
    later.finished_below.sequence = 2;
    let decided = decided(&finished, Decision::Commit);
    let log = [prepared(&finished), decided, prepared(&later)];
    let start = |machine: &mut CoreMachine, tables: &mut MemoryTables, next: Position| {
        let mut output = CoreOutput::default();
        let started = machine.start(ClockReading::default(), next, tables, &mut output);
        started.expect("tables in memory do not fail");
        output
    };

    let mut tables = MemoryTables::new();
    let mut before = machine();
    replay(&mut before, &mut tables, &log[..2]);
    let output = start(&mut before, &mut tables, Position(3));
    let attempt = asked(&output).find(|(to, _)| *to == core(3));
    let mut voted = later.clone();
    voted.votes.push(Vote::Yes);
    let message = PeerMessage::Adopt {
        attempt: attempt.expect("the decider is asked").1,
        prepare: Arc::new(voted),
        decision: None,
    };
    receive(&mut before, &mut tables, vec![(core(3), message)]);
    assert!(before.is_recovering());
    let has_row = |tables: &MemoryTables| tables.entries_about(partition(1).rows_table()) > 0;
    assert!(!has_row(&tables));
    before.before_checkpoint(&mut tables);

    let mut after = machine();
    let restored = after.restore(&mut tables);
    restored.expect("the checkpoint is whole");
    replay(&mut after, &mut tables, &log);
    let output = start(&mut after, &mut tables, Position(4));
    receive(&mut after, &mut tables, ends(&output));
    assert!(!after.is_recovering());
    assert!(has_row(&tables), "the finished operation has no effect");
}

/// Seed 741745: a core has voted on the insert of two rows, of which the second one's head is
/// ahead, and then on the deletion of the first row. After a restart it learns the outcome of the
/// deletion first. The insert must not bring the row back.
#[test]
fn the_versions_of_other_rows_do_not_order_two_operations() {
    let mut both = insert(1, 5, Vote::Yes);
    let columns = &configuration().tables[0].schema.columns;
    let row = encode_row(columns, &[Value::Int64(2), Value::Int64(8)]);
    let mut second_row = RowChange::clone(&both.changes[0]);
    second_row.pk = Bytes(encode_key([Value::Int64(2).as_ref()]));
    second_row.version = Version(20);
    second_row.new = Some(Bytes(row.expect("the values are of the columns")));
    both.changes.push(Arc::new(second_row));
    let mut deletion = insert(2, 10, Vote::Yes);
    let change = Arc::make_mut(&mut deletion.changes[0]);
    let row = change.new.take().expect("it was an insert");
    change.old = OldRow::Keys {
        version: Version(5),
        row,
    };

    let (mut tables, mut output) = (MemoryTables::new(), CoreOutput::default());
    let mut machine = second(Arc::new(three_copies()));
    let log = [prepared(&both), prepared(&deletion)];
    replay(&mut machine, &mut tables, &log);
    let started = machine.start(
        ClockReading::default(),
        Position(3),
        &mut tables,
        &mut output,
    );
    started.expect("tables in memory do not fail");
    let mut ends = ends(&output);
    for (_, end) in &mut ends {
        if let PeerMessage::RecoverEnd { finished_below, .. } = end {
            finished_below.sequence = 1;
        }
    }
    receive(&mut machine, &mut tables, ends);
    for prepare in [&deletion, &both] {
        let decision = PeerMessage::Decision {
            operation: prepare.operation,
            to: partition(1),
            decision: Decision::Commit,
            settled: true,
        };
        receive(&mut machine, &mut tables, vec![(core(3), decision)]);
    }
    assert_eq!(tables.entries_about(partition(1).rows_table()), 1);
}

// `cargo xtask mutants` runs it alone: the bugs are planted for the whole process.
#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_are_noticed() {
    use protocol::planted::{Bug, select};
    let tests: [(Bug, fn()); 2] = [
        (
            Bug::ReplayedLineSettles,
            an_operation_that_was_open_at_a_checkpoint_is_settled_after_it,
        ),
        (
            Bug::WholeOperationsCompared,
            the_versions_of_other_rows_do_not_order_two_operations,
        ),
    ];
    for (bug, test) in tests {
        select(Some(bug));
        assert!(std::panic::catch_unwind(test).is_err(), "{}", bug.name());
    }
}
