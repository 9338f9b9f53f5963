//! One core's part in transactions: reads, holds and checks between a walk, a vote and a decision
//! (R10, R35, R41).

mod pair;
mod serving;

use std::sync::Arc;

use machines::core::{ClientId, CoreInput, CoreLimits, CoreOutput};
use placement::{Value, encode_key, encode_row};
use protocol::codec::Bytes;
use protocol::identity::{
    Epoch, FinishedLine, Incarnation, OperationId, PartitionId, RequestId, SessionId, TableId,
};
use protocol::message::{Agreement, Execute, HoldRelease, PeerMessage, Read, Reply, Request};
use protocol::operation::{Action, Decision, Mutation, Prepare, RequestResult, Vote};
use protocol::transaction::{
    RangeCheck, TransactionChange, TransactionContent, TransactionMessage, TransactionPart, Walk,
    digest_of_rows,
};

use pair::{configuration, core};
use serving::Participant;

/// The only partition of a replex.
fn partition(replex: u8) -> PartitionId {
    PartitionId {
        table: TableId(1),
        replex,
        number: 0,
    }
}

/// A transaction that server 2 coordinates.
fn transaction(sequence: u64) -> OperationId {
    OperationId {
        head: core(2),
        incarnation: Incarnation(1),
        sequence,
    }
}

fn insertion(id: i64) -> Mutation {
    let values = [Value::Int64(id), Value::Int64(id)];
    let columns = configuration().tables[0].schema.columns.clone();
    let row = encode_row(&columns, &values).expect("it is of the table");
    Mutation {
        pk: Bytes(encode_key([values[0].as_ref()])),
        action: Action::Insert { row: Bytes(row) },
    }
}

/// All rows of the primary partition.
fn whole() -> Read {
    Read {
        limit: 10,
        ..Read::of(Epoch(3), partition(0))
    }
}

impl Participant {
    /// Returns server 1, which serves the primary copy.
    fn start() -> Participant {
        Participant::of(1, configuration(), CoreLimits::default())
    }

    /// Takes a message of the coordinator about a transaction.
    fn coordinator(&mut self, sequence: u64, content: TransactionContent) -> CoreOutput {
        self.peer(PeerMessage::Transaction(TransactionMessage {
            operation: transaction(sequence),
            epochs: vec![(TableId(1), Epoch(3))],
            content,
        }))
    }

    fn ask(&mut self, correlation: u64, request: Request) -> Vec<Reply> {
        let output = self.step(CoreInput::Request {
            client: ClientId(1),
            correlation,
            request,
        });
        replies(output)
    }

    /// Walks through this core: it holds the key of a new row. Returns the evaluated walk.
    fn walk(&mut self, sequence: u64, id: i64) -> Walk {
        let changes = vec![TransactionChange {
            table: TableId(1),
            mutation: insertion(id),
            must_apply: true,
        }];
        let walk = Walk {
            request: RequestId {
                session: SessionId(9),
                number: sequence,
            },
            digest: 7,
            route: vec![core(1)],
            place: 0,
            changes: Arc::new(changes),
            evaluated: Vec::new(),
            outcomes: Vec::new(),
        };
        let output = self.coordinator(sequence, TransactionContent::Walk(walk));
        let walked = contents(output).find_map(|content| match content {
            TransactionContent::Walked(walk) => Some(walk),
            _ => None,
        });
        walked.expect("nothing is in the way of the walk")
    }

    /// Takes this core's part of the prepare of a walk, for which it votes yes.
    fn vote(&mut self, sequence: u64, walk: &Walk) {
        let prepare = Prepare {
            operation: transaction(sequence),
            epoch: Epoch(3),
            finished_below: FinishedLine {
                incarnation: Incarnation(1),
                sequence: 1,
            },
            table: TableId(1),
            members: vec![partition(0), partition(1)],
            sides: 0,
            side: None,
            votes: Vec::new(),
            changes: walk
                .evaluated
                .iter()
                .map(|row| row.change.clone())
                .collect(),
            requests: Vec::new(),
            transaction: Some(TransactionPart {
                member: 0,
                unchanged: 0,
                head: partition(0),
                still: Vec::new(),
            }),
        };
        let output = self.coordinator(sequence, TransactionContent::Prepare(Arc::new(prepare)));
        let vote = contents(output).find_map(|content| match content {
            TransactionContent::Voted { vote, .. } => Some(vote),
            _ => None,
        });
        assert_eq!(vote, Some(Vote::Yes));
    }

    /// Takes the commit of a transaction, which clients may see. Returns the answers that follow.
    fn commit(&mut self, sequence: u64) -> Vec<Reply> {
        replies(self.coordinator(
            sequence,
            TransactionContent::Decision {
                to: partition(0),
                decision: Decision::Commit,
                settled: true,
            },
        ))
    }
}

fn replies(output: CoreOutput) -> Vec<Reply> {
    output.replies.into_iter().map(|it| it.reply).collect()
}

fn contents(output: CoreOutput) -> impl Iterator<Item = TransactionContent> {
    output
        .sends
        .into_iter()
        .filter_map(|send| match send.message {
            PeerMessage::Transaction(message) => Some(message.content),
            _ => None,
        })
}

fn rows_of(replies: &[Reply]) -> Option<u64> {
    replies.iter().find_map(|reply| match reply {
        Reply::Rows(page) => Some(page.count),
        _ => None,
    })
}

/// A read waits for an insert. Meanwhile a transaction that has held its key since before votes:
/// readers of other partitions can see it from now on, so this read waits for it, too.
#[test]
fn a_waiting_read_waits_for_a_transaction_that_has_walked_before_it() {
    let mut it = Participant::start();
    let execute = Request::Execute(Execute {
        request: RequestId {
            session: SessionId(1),
            number: 1,
        },
        acknowledged_below: 1,
        epoch: Epoch(3),
        table: TableId(1),
        partition: partition(0),
        mutations: vec![insertion(5)],
    });
    assert_eq!(it.ask(1, execute), [], "it is under way");
    let walk = it.walk(1, 1);
    assert_eq!(
        it.ask(2, Request::Read(whole())),
        [],
        "it waits for the insert"
    );
    it.vote(1, &walk);
    let insert = OperationId {
        head: core(1),
        incarnation: Incarnation(1),
        sequence: 1,
    };
    let decided = replies(it.peer(PeerMessage::Decision {
        operation: insert,
        to: partition(0),
        decision: Decision::Commit,
        settled: true,
    }));
    assert!(
        decided
            .iter()
            .any(|reply| matches!(reply, Reply::Executed(RequestResult::Applied { .. }))),
        "the insert is done: {decided:?}"
    );
    assert_eq!(rows_of(&decided), None, "the transaction is undecided");
    assert_eq!(rows_of(&it.commit(1)), Some(2));
}

/// A range is read and held between the walk of a transaction and its vote. The transaction changes
/// a row of it, so the statement has to read it again (R35).
#[test]
fn a_vote_changes_a_range_that_is_held() {
    let mut it = Participant::start();
    let walk = it.walk(1, 1);
    let read = Read {
        agreement: Agreement::Hold(100_000),
        ..whole()
    };
    let answers = it.ask(2, Request::Read(read));
    let [Reply::Rows(page)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(page.held && page.count == 0, "{page:?}");
    it.vote(1, &walk);
    let release = Request::Release(HoldRelease {
        epoch: Epoch(3),
        partition: partition(0),
        holds: vec![2],
    });
    assert_eq!(it.ask(3, release), [Reply::Released(false)]);
}

/// Two transactions have each read a range in which the other one writes. If a check passed while
/// the other one has voted on a row of its range, both could commit.
#[test]
fn the_check_of_a_range_fails_while_another_transaction_has_voted_in_it() {
    let mut it = Participant::start();
    let check = |it: &mut Participant| {
        let range = RangeCheck {
            read: whole(),
            versions: true,
            digest: digest_of_rows(std::iter::empty(), true),
        };
        let content = TransactionContent::Check {
            checks: Vec::new(),
            ranges: vec![(0, range)],
            references: Vec::new(),
        };
        let mut answers = contents(it.coordinator(2, content));
        answers.find_map(|content| match content {
            TransactionContent::Checked { passed, failed, .. } => Some((passed, failed)),
            _ => None,
        })
    };
    assert_eq!(check(&mut it), Some((vec![0], None)));
    let walk = it.walk(1, 1);
    it.vote(1, &walk);
    assert_eq!(check(&mut it), Some((Vec::new(), Some((0, TableId(1))))));
}

// `cargo xtask mutants` runs it alone: the bugs are planted for the whole process.
#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_are_noticed() {
    use protocol::planted::{Bug, select};
    let tests: [(Bug, fn()); 3] = [
        (
            Bug::ReadIgnoresPart,
            a_waiting_read_waits_for_a_transaction_that_has_walked_before_it,
        ),
        (Bug::HeldDuringPart, a_vote_changes_a_range_that_is_held),
        (
            Bug::RangeIgnoresVotes,
            the_check_of_a_range_fails_while_another_transaction_has_voted_in_it,
        ),
    ];
    for (bug, test) in tests {
        select(Some(bug));
        assert!(std::panic::catch_unwind(test).is_err(), "{}", bug.name());
    }
}
