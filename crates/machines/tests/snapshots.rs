//! One core's part in snapshots: holds that expire, late copies of them, closes of other openings,
//! and reads of snapshots that it does not know (R36, R37, R39). The shares that it gives to
//! clients (R51, R52).

mod inserts;
mod pair;
mod serving;

use std::sync::Arc;

use machines::core::{ClientId, CoreInput, CoreLimits, CoreOutput};
use placement::{Constraint, Durability, Layout, Value, encode_key, encode_row};
use protocol::codec::{Bytes, Wire};
use protocol::configuration::{Configuration, PartitionState};
use protocol::identity::{
    Epoch, Incarnation, OperationId, ReaderId, RequestId, SessionId, SnapshotId, TableId, Version,
};
use protocol::message::{
    Execute, PeerMessage, Read, Refusal, Reply, Request, SnapshotFailure, SnapshotMessage,
    SnapshotReply, SnapshotRequest, SnapshotUse,
};
use protocol::operation::{Action, Decision, Mutation, RequestResult};
use protocol::record::Record;

use inserts::partition;
use pair::{configuration, core};
use serving::Participant;

const HOLD_US: u64 = 20_000;
const LEASE_US: u64 = 400_000;

impl Participant {
    /// Returns server 1, which serves.
    fn start() -> Participant {
        Participant::of(1, configuration(), CoreLimits::default())
    }

    /// Takes a message of server 2 as the opener, and returns the answer.
    fn opener(&mut self, message: SnapshotMessage) -> Option<SnapshotMessage> {
        let output = self.peer(PeerMessage::Snapshot(message));
        answer(output)
    }

    fn hold(&mut self, number: u64) -> Option<SnapshotMessage> {
        self.opener(SnapshotMessage::Hold {
            snapshot: opening(number),
            tables: vec![(TableId(1), Epoch(self.epoch))],
            hold_us: HOLD_US,
        })
    }

    fn close(&mut self, number: u64) -> Option<SnapshotMessage> {
        self.opener(SnapshotMessage::Close {
            snapshot: opening(number),
            at: Version(1 << 40),
            lease_us: LEASE_US,
        })
    }

    fn ask(&mut self, request: Request) -> CoreOutput {
        self.ask_over(1, request)
    }

    /// Takes a request that arrives over a connection.
    fn ask_over(&mut self, connection: u64, request: Request) -> CoreOutput {
        self.step(CoreInput::Request {
            client: ClientId(connection),
            correlation: 1,
            request,
        })
    }

    /// Opens a snapshot for a client, in which server 2 takes part, and returns the answer.
    fn open(&mut self, connection: u64, reader: u64) -> Reply {
        // Until the pause after the opening before is over.
        self.now.monotonic_us += 5_000;
        self.renew();
        let open = SnapshotRequest::Open {
            reader: ReaderId(reader),
            tables: vec![(TableId(1), Epoch(self.epoch))],
        };
        let mut outputs = vec![self.ask_over(connection, Request::Snapshot(open))];
        while let Some(output) = outputs.pop() {
            if let Some(reply) = output.replies.into_iter().next() {
                return reply.reply;
            }
            for send in output.sends {
                let PeerMessage::Snapshot(message) = send.message else {
                    continue;
                };
                let (from, message) = match (send.to == core(1), message) {
                    (true, message) => (1, message),
                    (false, SnapshotMessage::Hold { snapshot, .. }) => {
                        let clock = Version(1);
                        (2, SnapshotMessage::Held { snapshot, clock })
                    }
                    (false, SnapshotMessage::Close { snapshot, .. }) => {
                        (2, SnapshotMessage::Closed { snapshot })
                    }
                    (false, other) => panic!("{other:?}"),
                };
                outputs.push(self.message(from, PeerMessage::Snapshot(message)));
            }
        }
        panic!("the opening has no end");
    }

    /// Opens a snapshot that must be given.
    fn share(&mut self, connection: u64, reader: u64) -> SnapshotUse {
        match self.open(connection, reader) {
            Reply::Snapshot(SnapshotReply::Opened(opened)) => opened.share,
            other => panic!("{other:?}"),
        }
    }

    /// Takes a request about a share, and what it has this core send to itself; the answer.
    fn ask_about(&mut self, connection: u64, request: SnapshotRequest) -> Reply {
        let output = self.ask_over(connection, Request::Snapshot(request));
        for send in output.sends {
            if send.to == core(1) {
                self.message(1, send.message);
            }
        }
        output.replies[0].reply.clone()
    }

    /// Inserts a row, and returns whether its operation begins at once.
    fn insert(&mut self, id: i64) -> bool {
        let values = [Value::Int64(id), Value::Int64(id)];
        let columns = configuration().tables[0].schema.columns.clone();
        let row = encode_row(&columns, &values).expect("it is of the table");
        let mutation = Mutation {
            pk: Bytes(encode_key([values[0].as_ref()])),
            action: Action::Insert { row: Bytes(row) },
        };
        let output = self.ask(Request::Execute(Execute {
            request: RequestId {
                session: SessionId(1),
                number: id as u64,
            },
            acknowledged_below: 1,
            epoch: Epoch(self.epoch),
            table: TableId(1),
            partition: partition(0),
            mutations: vec![mutation],
        }));
        assert_eq!(output.replies, [], "it is neither refused nor done");
        begins(&output)
    }

    /// Reads the primary partition at a snapshot that server 2 has opened.
    fn read(&mut self, number: u64) -> Reply {
        self.read_at(opening(number))
    }

    /// Reads the primary partition at a snapshot.
    fn read_at(&mut self, snapshot: SnapshotId) -> Reply {
        let output = self.ask(Request::Read(Read {
            limit: 10,
            snapshot: Some(snapshot),
            ..Read::of(Epoch(self.epoch), partition(0))
        }));
        let [reply] = &output.replies[..] else {
            panic!("{:?}", output.replies);
        };
        reply.reply.clone()
    }

    /// Takes the next configuration, in which the table is another one.
    fn change_table(&mut self) {
        self.epoch += 1;
        let mut next: Configuration = configuration();
        next.epoch = Epoch(self.epoch);
        next.tables[0].epoch = Epoch(self.epoch);
        self.step(CoreInput::Configuration(Arc::new(next)));
        self.renew();
    }
}

fn opening(number: u64) -> SnapshotId {
    SnapshotId {
        opener: core(2),
        incarnation: Incarnation(1),
        number,
    }
}

/// Returns whether a core sends a prepare.
fn begins(output: &CoreOutput) -> bool {
    let mut sends = output.sends.iter();
    sends.any(|send| matches!(send.message, PeerMessage::Prepare(_)))
}

/// Returns what a core answers its opener.
fn answer(output: CoreOutput) -> Option<SnapshotMessage> {
    let mut sends = output.sends.into_iter();
    sends.find_map(|send| match send.message {
        PeerMessage::Snapshot(message) if send.to == core(2) => Some(message),
        _ => None,
    })
}

fn refused(number: u64, reason: SnapshotFailure) -> Option<SnapshotMessage> {
    Some(SnapshotMessage::Refused {
        snapshot: opening(number),
        reason,
    })
}

fn failed(failure: SnapshotFailure) -> Reply {
    Reply::Refused(Refusal::Snapshot(failure))
}

fn is_held(answer: &Option<SnapshotMessage>) -> bool {
    matches!(answer, Some(SnapshotMessage::Held { .. }))
}

#[test]
fn a_hold_that_expires_lets_operations_begin_and_closes_nothing() {
    let mut it = Participant::start();
    assert!(is_held(&it.hold(1)), "nothing is under way");
    assert!(!it.insert(1), "it waits for the hold");
    it.now.monotonic_us += HOLD_US;
    let output = it.step(CoreInput::Tick);
    assert!(begins(&output));
    assert_eq!(answer(output), refused(1, SnapshotFailure::Busy));
    assert_eq!(it.close(1), refused(1, SnapshotFailure::Busy));
    assert_eq!(it.hold(1), refused(1, SnapshotFailure::Busy), "a late copy");
    assert_eq!(it.read(1), failed(SnapshotFailure::Unknown));
    // The next opening waits for the insert.
    assert_eq!(it.hold(2), None);
    assert_eq!(it.close(2), refused(2, SnapshotFailure::Busy));
}

#[test]
fn a_core_holds_for_one_opening_and_closes_no_other() {
    let mut it = Participant::start();
    assert!(is_held(&it.hold(1)));
    assert_eq!(it.hold(2), refused(2, SnapshotFailure::Busy));
    assert_eq!(it.close(2), refused(2, SnapshotFailure::Busy));
    assert!(!it.insert(1));
    let snapshot = opening(1);
    assert_eq!(it.close(1), Some(SnapshotMessage::Closed { snapshot }));
    assert!(matches!(it.read(1), Reply::Rows(page) if page.count == 0));
    assert_eq!(it.read(2), failed(SnapshotFailure::Unknown));
    it.opener(SnapshotMessage::End { snapshot });
    assert_eq!(it.read(1), failed(SnapshotFailure::Unknown));
}

#[test]
fn what_waits_for_a_hold_begins_above_the_snapshot() {
    let mut it = Participant::start();
    assert!(is_held(&it.hold(1)));
    assert!(!it.insert(1));
    let closed = it.peer(PeerMessage::Snapshot(SnapshotMessage::Close {
        snapshot: opening(1),
        at: Version(1 << 40),
        lease_us: LEASE_US,
    }));
    let prepares = closed.sends.iter().filter_map(|send| match &send.message {
        PeerMessage::Prepare(prepare) => Some(prepare.changes[0].version),
        _ => None,
    });
    assert_eq!(prepares.collect::<Vec<Version>>(), [Version((1 << 40) + 1)]);
}

/// Server 2 decides, and waits to settle until server 1 has the decision.
#[test]
fn a_read_of_a_snapshot_waits_for_an_earlier_operation() {
    let mut known = configuration();
    let table = &mut known.tables[0];
    table.schema.durability = Durability::Replicated;
    table.schema.indexes[0].constraint = Some(Constraint::Unique);
    table.layout = Layout::base(&table.schema);
    let mut it = Participant::of(2, known, CoreLimits::default());
    let snapshot = SnapshotId {
        opener: core(1),
        ..opening(1)
    };
    let opened = |it: &mut Participant, message| it.peer(PeerMessage::Snapshot(message));
    let held = opened(
        &mut it,
        SnapshotMessage::Hold {
            snapshot,
            tables: vec![(TableId(1), Epoch(3))],
            hold_us: HOLD_US,
        },
    );
    assert_eq!(held.sends.len(), 1, "nothing is under way");
    // Server 1 begins this before the hold arrives there.
    let index = partition(1);
    let begun = inserts::insert(vec![partition(0), index]);
    let operation = begun.operation;
    it.peer(PeerMessage::Prepare(Arc::new(begun)));
    opened(
        &mut it,
        SnapshotMessage::Close {
            snapshot,
            at: Version(20),
            lease_us: LEASE_US,
        },
    );
    let read = it.ask(Request::Read(Read {
        limit: 10,
        snapshot: Some(snapshot),
        ..Read::of(Epoch(3), index)
    }));
    assert_eq!(read.replies, [], "the row is of the snapshot");
    let to = index;
    let settled = it.peer(PeerMessage::Settled { operation, to });
    assert_eq!(settled.replies.len(), 1);
    assert!(matches!(&settled.replies[0].reply, Reply::Rows(page) if page.count == 1));
}

#[test]
fn a_snapshot_ends_with_its_lease_and_with_the_epoch_of_its_table() {
    let mut it = Participant::start();
    assert!(is_held(&it.hold(1)));
    assert!(it.close(1).is_some());
    it.opener(SnapshotMessage::Keep {
        snapshot: opening(1),
        lease_us: 2 * LEASE_US,
    });
    it.now.monotonic_us += LEASE_US;
    it.renew();
    assert!(matches!(it.read(1), Reply::Rows(_)), "it was kept");
    it.now.monotonic_us += LEASE_US;
    it.renew();
    assert_eq!(it.read(1), failed(SnapshotFailure::LeaseOver));

    assert!(is_held(&it.hold(2)));
    assert!(it.close(2).is_some());
    assert!(is_held(&it.hold(3)));
    it.change_table();
    assert_eq!(it.read(2), failed(SnapshotFailure::ClusterChanged));
    assert_eq!(it.close(3), refused(3, SnapshotFailure::Busy));
    let old = SnapshotMessage::Hold {
        snapshot: opening(4),
        tables: vec![(TableId(1), Epoch(3))],
        hold_us: HOLD_US,
    };
    let reason = SnapshotFailure::ClusterChanged;
    assert_eq!(it.opener(old), refused(4, reason));
}

#[test]
fn times_and_tables_of_malformed_messages_are_bounded() {
    let mut it = Participant::start();
    let hold = SnapshotMessage::Hold {
        snapshot: opening(1),
        tables: vec![(TableId(1), Epoch(3)); 3],
        hold_us: u64::MAX,
    };
    assert!(is_held(&it.opener(hold)));
    it.now.monotonic_us += 350_000;
    it.renew();
    assert!(it.insert(1), "no hold lasts so long");
    let unknown = SnapshotMessage::Hold {
        snapshot: opening(2),
        tables: vec![(TableId(7), Epoch(3))],
        hold_us: HOLD_US,
    };
    let reason = SnapshotFailure::ClusterChanged;
    assert_eq!(it.opener(unknown), refused(2, reason));
    for lease_us in [0, u64::MAX] {
        let snapshot = opening(9);
        it.opener(SnapshotMessage::Keep { snapshot, lease_us });
    }
    let output = it.ask(Request::Snapshot(SnapshotRequest::Open {
        reader: ReaderId(1),
        tables: Vec::new(),
    }));
    assert!(
        matches!(
            output.replies[0].reply,
            Reply::Refused(Refusal::Invalid { .. })
        ),
        "{:?}",
        output.replies
    );
    let old = vec![(TableId(1), Epoch(2))];
    let output = it.ask(Request::Snapshot(SnapshotRequest::Open {
        reader: ReaderId(1),
        tables: old,
    }));
    let stale = Refusal::StaleEpoch { epoch: Epoch(3) };
    assert_eq!(output.replies[0].reply, Reply::Refused(stale));
}

#[test]
fn a_share_belongs_to_the_client_that_opened_it() {
    let mut it = Participant::start();
    let share = it.share(1, 7);
    let of_another = SnapshotUse {
        reader: ReaderId(8),
        ..share
    };
    let kept = it.ask_about(3, SnapshotRequest::Keep(of_another));
    assert_eq!(kept, failed(SnapshotFailure::Unknown));
    it.ask_about(3, SnapshotRequest::Close(of_another));
    assert!(matches!(it.read_at(share.snapshot), Reply::Rows(_)));

    // Its own client may come over another connection. The end of the first one is nothing then.
    let kept = it.ask_about(2, SnapshotRequest::Keep(share));
    assert_eq!(kept, Reply::Snapshot(SnapshotReply::Kept));
    it.step(CoreInput::ClientGone {
        client: ClientId(1),
    });
    it.now.monotonic_us += 3_000_000;
    it.renew();
    let kept = it.ask_about(2, SnapshotRequest::Keep(share));
    assert_eq!(kept, Reply::Snapshot(SnapshotReply::Kept));
    it.ask_about(2, SnapshotRequest::Close(share));
    let ended = failed(SnapshotFailure::Unknown);
    assert_eq!(it.read_at(share.snapshot), ended);
}

#[test]
fn a_client_that_keeps_its_snapshots_leaves_room_for_others() {
    let mut it = Participant::start();
    let shares: Vec<SnapshotUse> = (0..32).map(|_| it.share(1, 7)).collect();
    for connection in [1, 2] {
        let refused = it.open(connection, 7);
        assert_eq!(refused, failed(SnapshotFailure::TooMany));
    }
    it.share(1, 8);
    it.ask_about(1, SnapshotRequest::Close(shares[5]));
    it.share(1, 7);
    assert_eq!(it.open(1, 7), failed(SnapshotFailure::TooMany));
}

/// Seed 1,100,014,072: the core knew the version from a snapshot, so it did not log it, and forgot
/// it with a restart.
#[test]
fn a_version_that_a_snapshot_has_shown_is_logged_with_the_rows() {
    let mut known = configuration();
    known.tables[0].placement[1][0].state = PartitionState::Rebuilding;
    let mut it = Participant::of(2, known, CoreLimits::default());
    let held = it.hold(1);
    assert!(matches!(held, Some(SnapshotMessage::Held { .. })));
    it.close(1);
    let copied = it.peer(PeerMessage::CopiedCompletions {
        of: partition(1),
        start: RequestId::default(),
        completions: Vec::new(),
        next: None,
        last_version: Version(1 << 40),
    });
    let expected = Record::Versions {
        last: Version(1 << 40),
    };
    let mut records = copied.records.iter();
    assert!(records.any(|record| record.bytes == expected.to_bytes()));
}

/// Seed 1,200,007,988: the head had been stopped for longer than its lease.
#[test]
fn an_abort_is_answered_under_the_lease() {
    let mut it = Participant::start();
    it.insert(1);
    let operation = OperationId {
        head: core(1),
        incarnation: Incarnation(1),
        sequence: 1,
    };
    let output = it.peer(PeerMessage::Decision {
        operation,
        to: partition(0),
        decision: Decision::Abort(RequestResult::Conflict),
        settled: true,
    });
    let mut replies = output.replies.into_iter();
    let reply = replies.next().expect("the client gets the result");
    assert_eq!(reply.reply, Reply::Executed(RequestResult::Conflict));
    let until_us = reply.valid_until_us.expect("it needs the lease");
    assert!(until_us < it.now.monotonic_us + 2 * CoreLimits::default().lease_us);
}

// `cargo xtask mutants` runs it alone: the bugs are planted for the whole process.
#[cfg(feature = "planted")]
#[test]
fn the_planted_bugs_are_noticed() {
    use protocol::planted::{Bug, select};
    let tests: [(Bug, fn()); 3] = [
        (Bug::AbortNeedsNoLease, an_abort_is_answered_under_the_lease),
        (
            Bug::SnapshotDoesNotWait,
            a_read_of_a_snapshot_waits_for_an_earlier_operation,
        ),
        (
            Bug::SeenCountsAsLogged,
            a_version_that_a_snapshot_has_shown_is_logged_with_the_rows,
        ),
    ];
    for (bug, test) in tests {
        select(Some(bug));
        assert!(std::panic::catch_unwind(test).is_err(), "{}", bug.name());
    }
}
