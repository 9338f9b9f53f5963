//! Messages of every kind, by the names of their golden frames, with something of every type.

mod asks;
mod constraints;
mod copies;
pub mod generate;
pub mod kinds;
mod numeric;
mod reads;
mod replacing;
mod roles;
mod snapshots;
mod transactions;

use std::collections::BTreeMap;
use std::sync::Arc;

use asks::asks;
use constraints::{comments, constraints};
use copies::copies;
use placement::{
    Column, ColumnDefault, ColumnType, Constraint, Cut, Dimension, Durability, FurtherCopy, Index,
    Layout, Schema, Share, SortColumn, ThinIndex, Value, encode_key, encode_row,
};
use protocol::codec::Bytes;
use protocol::configuration::{
    Configuration, ConfigurationChanges, MoveProgress, PartitionState, Place, PlacedTable,
    PlacedTables, Sealing, Server, ServerState, Tenure,
};
use protocol::expression::{Assignment, BinaryOperator, Expression, UnaryOperator};
use protocol::identity::*;
use protocol::message::*;
use protocol::operation::*;
use protocol::state::*;
use reads::reads;
use replacing::{fills, moves, seals};
use roles::roles;
use snapshots::snapshots;
use transactions::{row_change, transactions};

// tidy: long — one table that has everything
/// A table with copies of every kind.
pub fn schema() -> Schema {
    let column = |name: &str, column_type, nullable, default: Option<Value>| Column {
        name: name.into(),
        column_type,
        nullable,
        default: default.map(ColumnDefault::Constant),
        missing: None,
    };
    let index = |name: &str, columns: &[usize], constraint| Index {
        name: name.into(),
        columns: columns.into(),
        constraint,
        partition_columns: None,
        by_range: false,
    };
    Schema {
        name: "flights".into(),
        columns: vec![
            column("id", ColumnType::Int64, false, None),
            column(
                "tail",
                ColumnType::Text,
                true,
                Some(Value::Text("N/A".into())),
            ),
            column("delayed", ColumnType::Bool, false, Some(Value::Bool(false))),
            column(
                "distance",
                ColumnType::Float64,
                true,
                Some(Value::Float64(-0.5)),
            ),
            column(
                "departure",
                ColumnType::Timestamp,
                true,
                Some(Value::Timestamp(1)),
            ),
            column(
                "notes",
                ColumnType::Bytes,
                true,
                Some(Value::Bytes(vec![0, 255])),
            ),
            column("uuid", ColumnType::Uuid, true, Some(Value::Uuid([7; 16]))),
            column("position", ColumnType::Int64, false, Some(Value::Int64(-1))),
        ],
        primary_key: vec![0],
        indexes: vec![
            index("by_tail", &[1, 4], None),
            index("by_uuid", &[6], Some(Constraint::Unique)),
            index("log", &[2, 7], Some(Constraint::Dense)),
        ],
        further: further(),
        thin: vec![ThinIndex {
            name: "by_place_thin".into(),
            columns: vec![SortColumn::descending(2)],
            included: vec![1],
            by_range: true,
            unique: false,
            copies: 2,
        }],
        partitions: 2,
        failures_tolerated: 1,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: Some(1),
        sequence: None,
        constraints: constraints(),
    }
}

/// A row of the table.
pub fn row() -> Bytes {
    let values = [
        Value::Int64(42),
        Value::Text("N14228".into()),
        Value::Bool(true),
        Value::Float64(1400.0),
        Value::Timestamp(1_357_016_400_000_000),
        Value::Null,
        Value::Uuid([9; 16]),
        Value::Int64(1),
    ];
    Bytes(encode_row(&schema().columns, &values).expect("the row fits"))
}

/// Its key.
pub fn pk() -> Bytes {
    Bytes(encode_key([Value::Int64(42).as_ref()]))
}

pub fn core(server: u32, core: u16) -> CoreId {
    CoreId {
        server: ServerId(server),
        core,
    }
}

pub fn partition(replex: u8, number: u32) -> PartitionId {
    PartitionId {
        table: TableId(3),
        replex,
        number,
    }
}

fn operation() -> OperationId {
    OperationId {
        head: core(1, 0),
        incarnation: Incarnation(2),
        sequence: 1000,
    }
}

fn finished() -> FinishedLine {
    FinishedLine {
        incarnation: Incarnation(2),
        sequence: 990,
    }
}

pub fn request_id() -> RequestId {
    RequestId {
        session: SessionId(77),
        number: 5,
    }
}

fn literal(value: Value) -> Box<Expression> {
    Box::new(Expression::Literal(value))
}

/// `distance + 1 > 0 AND tail IS NOT NULL`
pub fn condition() -> Expression {
    let sum = Expression::Binary(
        BinaryOperator::Add,
        Box::new(Expression::Column(3)),
        literal(Value::Int64(1)),
    );
    let positive = Expression::Binary(
        BinaryOperator::Greater,
        Box::new(sum),
        literal(Value::Float64(0.0)),
    );
    let known = Expression::Unary(UnaryOperator::IsNotNull, Box::new(Expression::Column(1)));
    Expression::Binary(BinaryOperator::And, Box::new(positive), Box::new(known))
}

fn assignments() -> Vec<Assignment> {
    vec![
        Assignment {
            column: 1,
            value: Expression::Excluded(1),
        },
        Assignment {
            column: 5,
            value: *literal(Value::Null),
        },
    ]
}

fn execute(action: Action) -> Message {
    Message::Request(Request::Execute(Execute {
        request: request_id(),
        acknowledged_below: 4,
        epoch: Epoch(6),
        table: TableId(3),
        partition: partition(0, 1),
        mutations: vec![Mutation { pk: pk(), action }],
    }))
}

/// A further copy of every kind.
fn further() -> Vec<FurtherCopy> {
    let share = |index, divisions| Share { index, divisions };
    let dimension = |column, divisions| Dimension { column, divisions };
    let cuts = [
        Cut::Hybrid {
            shares: vec![share(None, 1), share(Some(0), 2)],
        },
        Cut::HybridsBetween {
            first: Some(0),
            last: Some(1),
            factors: vec![1, 2, 1],
        },
        Cut::Replica { of: Some(2) },
        Cut::Hyperspace {
            dimensions: vec![dimension(1, 2), dimension(3, 1)],
        },
    ];
    let names = ["h", "k", "r", "s"];
    let copies = names.iter().zip(cuts);
    let copies = copies.map(|(name, cut)| FurtherCopy {
        name: (*name).into(),
        cut,
    });
    copies.collect()
}

/// Two servers and a table, with something of everything.
pub fn configuration() -> Configuration {
    let server = |id: u32, state| Server {
        id: ServerId(id),
        incarnation: Incarnation(1),
        domain: format!("server-{id}"),
        cores: vec![
            format!("127.0.0.1:{}", 7000 + 2 * id),
            format!("[::1]:{}", 7001 + 2 * id),
        ],
        state,
        is_draining: id == 1,
        is_new: id == 2,
    };
    let tenure = |server| Tenure {
        core: core(server, 0),
        since: Epoch(3),
    };
    let place = |server, state| Place {
        core: core(server, 1),
        state,
        since: Epoch(2),
        moving: Some(match state {
            PartitionState::Serving => MoveProgress::To(tenure(3 - server)),
            PartitionState::Rebuilding => MoveProgress::From(tenure(3 - server)),
        }),
        former: (server == 1).then_some(core(2, 0)),
    };
    let mut layout = Layout::base(&schema());
    for ranges in layout.replexes.iter_mut().flat_map(|it| &mut it.ranges) {
        assert!(ranges.begin_split(0, &[1, 2, 3], 1), "the key is in it");
    }
    let placement = (0..layout.replexes.len()).map(|replex| {
        vec![
            place(1 + replex as u32 % 2, PartitionState::Serving),
            place(1 + replex as u32 % 2, PartitionState::Rebuilding),
        ]
    });
    Configuration {
        cluster: 0x1122_3344_5566_7788,
        epoch: Epoch(6),
        servers: vec![server(1, ServerState::Up), server(2, ServerState::Down)],
        tables: PlacedTables::from(vec![PlacedTable {
            id: TableId(3),
            epoch: Epoch(6),
            sealing: Some(Sealing {
                since: Epoch(5),
                removed: vec![ServerId(2)],
                leaving: vec![1],
            }),
            columns_since: Epoch(4),
            schema: schema(),
            placement: placement.collect(),
            layout,
            building: vec![1],
            comments: comments(),
        }]),
        roles: Arc::new(roles()),
    }
}

/// A state of the coordinator around that configuration.
pub fn state() -> CoordinatorState {
    let member = |id| ServerMember {
        server: ServerId(id),
        disk: 1000 + u64::from(id),
        instance: 2000 + u64::from(id),
        has_stopped: id == 1,
        trust: FolderTrust::Newest,
        logs: vec![Position(9)],
    };
    CoordinatorState {
        version: 9,
        configuration: configuration(),
        members: vec![member(1), member(2)],
        changes: vec![WaitingChange {
            table: TableId(3),
            wanted: RequestedChange::Drop {
                name: "by_tail".into(),
            },
        }],
        failures: Vec::new(),
        next_server: 3,
        next_table: 4,
        sessions_reserved: 4097,
        session_floor: SessionId(40),
    }
}

pub fn prepare() -> Arc<Prepare> {
    let duplicate = RequestResult::Duplicate {
        replex: 1,
        key: Bytes(encode_key([Value::Uuid([9; 16]).as_ref()])),
    };
    Arc::new(Prepare {
        operation: operation(),
        epoch: Epoch(6),
        finished_below: finished(),
        table: TableId(3),
        members: vec![
            partition(0, 1),
            partition(1, 0),
            partition(2, 1),
            partition(3, 2),
        ],
        sides: 1,
        side: None,
        votes: vec![Vote::Yes, Vote::No(duplicate)],
        changes: vec![
            row_change(OldRow::Absent, Some(row())),
            row_change(
                OldRow::SameKeys {
                    version: Version(5),
                },
                None,
            ),
            row_change(
                OldRow::Keys {
                    version: Version(6),
                    row: row(),
                },
                Some(row()),
            ),
        ],
        requests: vec![RequestRecord {
            request: request_id(),
            acknowledged_below: 4,
            digest: 0xfeed,
            result: RequestResult::Applied {
                version: Version(1 << 40),
            },
        }],
        transaction: None,
    })
}

/// Every golden message, by the name of its file.
pub fn samples() -> BTreeMap<&'static str, Message> {
    let mut samples = BTreeMap::new();
    let lists = [
        greetings(),
        requests(),
        reads(),
        snapshots(),
        transactions(),
        replies(),
        refusals(),
        peers(),
        copies(),
        fills(),
        moves(),
        seals(),
        asks(),
        answers(),
    ];
    for (name, message) in lists.into_iter().flatten() {
        assert!(
            samples.insert(name, message).is_none(),
            "{name} is there twice"
        );
    }
    samples
}

fn greetings() -> Vec<(&'static str, Message)> {
    let (cluster, member) = (0x1122_3344_5566_7788, (core(2, 1), Incarnation(3)));
    vec![
        (
            "hello-client",
            Message::Hello(Hello {
                cluster: None,
                core: None,
            }),
        ),
        (
            "hello-core",
            Message::Hello(Hello {
                cluster: Some(cluster),
                core: Some(member),
            }),
        ),
        (
            "welcome-coordinator",
            Message::Welcome(Welcome {
                cluster,
                core: None,
                epoch: Epoch(6),
            }),
        ),
        (
            "welcome-core",
            Message::Welcome(Welcome {
                cluster,
                core: Some(member),
                epoch: Epoch(6),
            }),
        ),
        (
            "goodbye",
            Message::Goodbye {
                reason: "a frame whose checksum does not match".into(),
            },
        ),
        ("echo", Message::Echo(Bytes(vec![0, 1, 2, 255]))),
        ("find-leader", Message::FindLeader),
        (
            "leadership",
            Message::Leadership(Leadership {
                leads: false,
                leader: Some("10.0.0.1:7400".into()),
                standbys: vec!["10.0.0.2:7400".into(), "10.0.0.3:7400".into()],
                kept_in: "etcd http://10.0.0.9:2379, prefix /replex".into(),
            }),
        ),
    ]
}

fn requests() -> Vec<(&'static str, Message)> {
    vec![
        ("request-insert", execute(Action::Insert { row: row() })),
        ("request-keep", execute(Action::InsertOrKeep { row: row() })),
        (
            "request-upsert",
            execute(Action::Upsert {
                row: row(),
                assignments: assignments(),
                condition: Some(condition()),
            }),
        ),
        ("request-update", execute(numeric::update(assignments()))),
        ("request-update-numeric", execute(numeric::action())),
        ("request-update-interval", execute(numeric::spans())),
        ("request-update-arrays", execute(numeric::arrays::action())),
        (
            "request-delete",
            execute(Action::Delete {
                condition: Some(condition()),
            }),
        ),
        (
            "request-checksum",
            Message::Request(Request::Checksum(ChecksumRead {
                epoch: Epoch(6),
                partition: partition(2, 1),
                start: pk(),
                limit: 4096,
                snapshot: None,
                entries_of: Some(3),
            })),
        ),
        (
            "request-statistics",
            Message::Request(Request::Statistics(StatisticsRead {
                epoch: Epoch(6),
                partition: partition(2, 1),
            })),
        ),
        ("request-status", Message::Request(Request::Status)),
        (
            "request-release",
            Message::Request(Request::Release(HoldRelease {
                epoch: Epoch(6),
                partition: partition(2, 1),
                holds: vec![41, 42],
            })),
        ),
    ]
}

fn replies() -> Vec<(&'static str, Message)> {
    let executed = |result| Message::Reply(Reply::Executed(result));
    let mut page = RowPage::default();
    page.push(Version(1 << 40), &row());
    page.push(Version(3), &[]);
    page.next = Some(pk());
    page.quiet_us = Some(1_500);
    page.held = true;
    page.marked = vec![1];
    let part = ChecksumPart {
        count: 3,
        sum: u64::MAX,
        next: None,
    };
    let counters = vec![("frames_in".into(), 12), ("log_flushes".into(), 3)];
    vec![
        (
            "reply-applied",
            executed(RequestResult::Applied {
                version: Version(1 << 40),
            }),
        ),
        ("reply-kept", executed(RequestResult::Kept)),
        ("reply-not-found", executed(RequestResult::NotFound)),
        (
            "reply-condition-failed",
            executed(RequestResult::ConditionFailed),
        ),
        (
            "reply-duplicate",
            executed(RequestResult::Duplicate {
                replex: 0,
                key: pk(),
            }),
        ),
        (
            "reply-not-dense",
            executed(RequestResult::NotDense {
                replex: 3,
                expected: 17,
            }),
        ),
        (
            "reply-invalid",
            executed(RequestResult::Invalid {
                message: "column id may not be NULL".into(),
            }),
        ),
        (
            "reply-check-failed",
            executed(RequestResult::CheckFailed {
                constraint: "flights_distance_check".into(),
            }),
        ),
        ("reply-conflict", executed(RequestResult::Conflict)),
        ("reply-rows", Message::Reply(Reply::Rows(page))),
        ("reply-checksum", Message::Reply(Reply::Checksum(part))),
        (
            "reply-statistics",
            Message::Reply(Reply::Statistics(PartitionStatistics {
                rows: Some(1_000),
                rows_per_key: vec![20, 1],
                first: pk(),
                last: pk(),
            })),
        ),
        ("reply-status", Message::Reply(Reply::Status(counters))),
        ("reply-released", Message::Reply(Reply::Released(true))),
    ]
}

fn refusals() -> Vec<(&'static str, Message)> {
    let refused = |refusal| Message::Reply(Reply::Refused(refusal));
    vec![
        (
            "refused-stale-epoch",
            refused(Refusal::StaleEpoch { epoch: Epoch(7) }),
        ),
        ("refused-wrong-partition", refused(Refusal::WrongPartition)),
        ("refused-begun", refused(Refusal::Begun)),
        (
            "refused-lost",
            refused(Refusal::Lost {
                server: ServerId(2),
                begun: true,
            }),
        ),
        ("refused-not-serving", refused(Refusal::NotServing)),
        ("refused-overloaded", refused(Refusal::Overloaded)),
        (
            "refused-disk-full",
            refused(Refusal::DiskFull {
                server: ServerId(2),
            }),
        ),
        ("refused-session-ended", refused(Refusal::SessionEnded)),
        (
            "refused-request-mismatch",
            refused(Refusal::RequestMismatch),
        ),
        (
            "refused-invalid",
            refused(Refusal::Invalid {
                message: "an operation has one mutation".into(),
            }),
        ),
    ]
}

pub fn peer(message: PeerMessage) -> Message {
    let header = PeerHeader {
        from: core(2, 1),
        incarnation: Incarnation(3),
        epoch: Epoch(6),
        table_epoch: Epoch(5),
    };
    Message::Peer(header, message)
}

// tidy: long — one sample a message
fn peers() -> Vec<(&'static str, Message)> {
    let (operation, to) = (operation(), partition(1, 0));
    let decision = |decision, settled| PeerMessage::Decision {
        operation,
        to,
        decision,
        settled,
    };
    let not_dense = RequestResult::NotDense {
        replex: 3,
        expected: 17,
    };
    let messages = [
        ("peer-prepare", PeerMessage::Prepare(prepare())),
        ("peer-decision-commit", decision(Decision::Commit, true)),
        (
            "peer-decision-abort",
            decision(Decision::Abort(not_dense), false),
        ),
        ("peer-settled", PeerMessage::Settled { operation, to }),
        (
            "peer-reported",
            PeerMessage::Reported {
                operation,
                to,
                side: 1,
            },
        ),
        (
            "peer-durable",
            PeerMessage::Durable {
                operations: vec![(operation, to), (operation, partition(2, 1))],
            },
        ),
        (
            "peer-confirm",
            PeerMessage::Confirm {
                operations: vec![(operation, to, true)],
            },
        ),
        ("peer-finished", PeerMessage::Finished(finished())),
        (
            "peer-recover",
            PeerMessage::Recover {
                table: TableId(3),
                attempt: 2,
            },
        ),
        (
            "peer-adopt",
            PeerMessage::Adopt {
                attempt: 2,
                prepare: prepare(),
                decision: Some((Decision::Commit, false)),
            },
        ),
        (
            "peer-end-of-recovery",
            PeerMessage::RecoverEnd {
                table: TableId(3),
                attempt: 2,
                count: 1,
                finished_below: finished(),
            },
        ),
        (
            "peer-lease-request",
            PeerMessage::LeaseRequest {
                sent_us: 123_456,
                room: Room::Full,
                finished_below: finished(),
            },
        ),
        (
            "peer-lease-grant",
            PeerMessage::LeaseGrant {
                sent_us: 123_456,
                room: Room::Reserve,
            },
        ),
        (
            "peer-newer-epoch",
            PeerMessage::NewerEpoch { epoch: Epoch(7) },
        ),
    ];
    messages.map(|(name, message)| (name, peer(message))).into()
}

// tidy: long — one sample a message
fn answers() -> Vec<(&'static str, Message)> {
    let replies = [
        (
            "answer-joined",
            CoordinatorReply::Joined {
                server: ServerId(2),
                incarnation: Incarnation(3),
                logs: vec![Position(77), Position(12)],
                configuration: configuration(),
            },
        ),
        (
            "answer-beat",
            CoordinatorReply::Beat {
                sent_us: 123_456,
                epoch: Epoch(6),
                lease_us: 1_000_000,
                session_floor: SessionId(40),
            },
        ),
        (
            "answer-configuration",
            CoordinatorReply::Configuration(configuration()),
        ),
        (
            "answer-changes",
            CoordinatorReply::Changes(ConfigurationChanges::between(
                &configuration(),
                Epoch(5),
                vec![TableId(2)],
            )),
        ),
        (
            "answer-unchanged",
            CoordinatorReply::Unchanged { epoch: Epoch(6) },
        ),
        (
            "answer-new-epoch",
            CoordinatorReply::NewEpoch { epoch: Epoch(7) },
        ),
        (
            "answer-session",
            CoordinatorReply::Session {
                session: SessionId(77),
                life_us: 3_600_000_000,
            },
        ),
        (
            "answer-done",
            CoordinatorReply::Done {
                epoch: Epoch(7),
                table: Some(TableId(3)),
            },
        ),
        (
            "answer-refused",
            CoordinatorReply::Refused {
                message: "there is no table \"flights\": say IF EXISTS if that is fine".into(),
                retry: false,
            },
        ),
        ("answer-recall", CoordinatorReply::Recall),
        (
            "answer-wait",
            CoordinatorReply::Wait {
                message: "server 2 came with an older copy of its folder".into(),
            },
        ),
    ];
    replies
        .map(|(name, reply)| (name, Message::Answer(reply)))
        .into()
}
