//! Samples of transactions: what clients ask for and are answered, and what cores send each other.

use std::sync::Arc;

use protocol::codec::Bytes;
use protocol::identity::{Epoch, TableId, Version};
use protocol::message::{Message, PeerMessage, Read, Refusal, Reply, Request};
use protocol::operation::{
    Action, Decision, Mutation, OldRow, Prepare, RequestResult, RowChange, Vote,
};
use protocol::transaction::{
    AbortReason, ChangeOutcome, EvaluatedRow, RangeCheck, ReferenceCheck, RowCheck, Transact,
    TransactionChange, TransactionContent, TransactionMessage, TransactionPart, TransactionResult,
    Walk, WalkEnd,
};

use super::{condition, core, finished, operation, partition, peer, pk, prepare, request_id, row};

fn epochs() -> Vec<(TableId, Epoch)> {
    vec![(TableId(3), Epoch(6)), (TableId(7), Epoch(2))]
}

fn change() -> TransactionChange {
    let condition = Some(condition());
    TransactionChange {
        table: TableId(3),
        mutation: Mutation {
            pk: pk(),
            action: Action::Delete { condition },
        },
        must_apply: true,
    }
}

fn range_check() -> RangeCheck {
    RangeCheck {
        read: Read {
            end: Some(Bytes(vec![1, 7])),
            limit: 10,
            ..Read::of(Epoch(4), partition(1, 0))
        },
        versions: true,
        digest: 99,
    }
}

fn check() -> RowCheck {
    RowCheck {
        table: TableId(3),
        pk: pk(),
        version: Some(Version(1 << 40)),
    }
}

fn committed() -> TransactionResult {
    TransactionResult::Committed {
        version: Version(1 << 40),
        outcomes: vec![
            ChangeOutcome::Applied,
            ChangeOutcome::Kept,
            ChangeOutcome::NotFound,
            ChangeOutcome::ConditionFailed,
        ],
    }
}

fn aborted() -> TransactionResult {
    TransactionResult::Aborted {
        table: TableId(3),
        reason: AbortReason::Duplicate {
            replex: 1,
            key: pk(),
        },
    }
}

/// A member's part, with its vote.
fn part() -> Arc<Prepare> {
    let part = TransactionPart {
        member: 1,
        unchanged: 1,
        head: partition(0, 1),
        still: vec![pk(), Bytes::default()],
    };
    Arc::new(Prepare {
        sides: 0,
        votes: vec![Vote::Yes],
        transaction: Some(part),
        ..Prepare::clone(&prepare())
    })
}

fn walk() -> Walk {
    Walk {
        request: request_id(),
        digest: 0xd1_6e57,
        route: vec![core(1, 0), core(2, 1)],
        place: 1,
        changes: Arc::new(vec![change()]),
        evaluated: vec![EvaluatedRow {
            table: TableId(3),
            change: row_change(OldRow::Absent, Some(row())),
        }],
        outcomes: vec![(0, ChangeOutcome::Applied)],
    }
}

// tidy: long — one sample after the other
pub fn transactions() -> Vec<(&'static str, Message)> {
    let member = partition(1, 0);
    let executed = |result| Message::Reply(Reply::Executed(RequestResult::Transaction(result)));
    let between = |content| {
        peer(PeerMessage::Transaction(TransactionMessage {
            operation: operation(),
            epochs: epochs(),
            content,
        }))
    };
    let transact = Transact {
        request: request_id(),
        acknowledged_below: 4,
        epochs: epochs(),
        partition: partition(0, 1),
        changes: vec![change()],
        checks: vec![check()],
        ranges: vec![range_check()],
    };
    let decision = Decision::Abort(RequestResult::Transaction(aborted()));
    let contents = [
        ("peer-walk", TransactionContent::Walk(walk())),
        ("peer-walked", TransactionContent::Walked(walk())),
        (
            "peer-walk-ended",
            TransactionContent::WalkEnded(WalkEnd::Refused(Refusal::NotServing)),
        ),
        ("peer-drop-walk", TransactionContent::DropWalk),
        ("peer-part", TransactionContent::Prepare(part())),
        (
            "peer-voted",
            TransactionContent::Voted {
                member,
                vote: Vote::No(RequestResult::Conflict),
            },
        ),
        (
            "peer-check",
            TransactionContent::Check {
                checks: vec![(2, check())],
                ranges: vec![(3, range_check())],
                references: vec![(
                    4,
                    ReferenceCheck::NoChild {
                        partition: member,
                        key: pk(),
                        except: vec![pk()],
                    },
                )],
            },
        ),
        (
            "peer-checked",
            TransactionContent::Checked {
                passed: vec![0, 1],
                failed: Some((2, TableId(3))),
                held: None,
            },
        ),
        (
            "peer-outcome",
            TransactionContent::Decision {
                to: member,
                decision: decision.clone(),
                settled: true,
            },
        ),
        ("peer-kept", TransactionContent::Kept { member }),
        ("peer-ended", TransactionContent::Ended { member }),
        ("peer-ask", TransactionContent::Ask { member }),
        (
            "peer-over",
            TransactionContent::Over {
                to: member,
                finished_below: finished(),
            },
        ),
        (
            "peer-ask-decision",
            TransactionContent::AskDecision { to: member },
        ),
        (
            "peer-known",
            TransactionContent::Known {
                member,
                decision: Some(decision),
            },
        ),
    ];
    let mut samples = vec![
        (
            "request-transact",
            Message::Request(Request::Transact(transact)),
        ),
        ("reply-committed", executed(committed())),
        ("reply-aborted", executed(aborted())),
    ];
    let contents = contents.map(|(name, content)| (name, between(content)));
    samples.extend(contents);
    samples
}

/// A change of the row of [`pk`].
pub fn row_change(old: OldRow, new: Option<Bytes>) -> Arc<RowChange> {
    Arc::new(RowChange {
        pk: pk(),
        version: Version(1 << 40),
        old,
        new,
    })
}
