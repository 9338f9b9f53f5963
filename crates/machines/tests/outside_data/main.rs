//! Any request of any client leaves the machine of a core standing and answering: what a client
//! sends is outside data, however well it decodes.
//!
//! The core holds every partition of the golden table, so that operations run to their end within
//! it. Requests are generated, and for most of them some fields are then made to fit, so that they
//! reach past the first check.

#[allow(dead_code, reason = "the codec's own tests use the rest")]
#[path = "../../../protocol/tests/codec/samples/mod.rs"]
mod samples;

mod reads;

use std::collections::BTreeMap;
use std::sync::Arc;

use machines::core::{
    ClientId, CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput, HOLD_US_MAX,
};
use placement::TableConstraints;
use placement::tables::MemoryTables;
use proptest::prelude::*;
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PartitionState};
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::identity::{ClockReading, CoreId, PartitionId, RequestId, SessionId};
use protocol::message::{Execute, Message, Reply, Request, SnapshotRequest};
use protocol::operation::Action;

use samples::generate::{Generate, Source};
use samples::kinds;

struct Core {
    machine: CoreMachine,
    tables: MemoryTables,
    now: ClockReading,
    identity: CoreIdentity,
    /// Requests that were not answered yet.
    open: u64,
    /// The last reply.
    last: Option<Reply>,
    /// How often each kind of reply was given.
    replies: BTreeMap<&'static str, u64>,
}

fn configuration() -> Configuration {
    let mut configuration = samples::configuration();
    for table in configuration.tables.iter_mut() {
        table.sealing = None;
        // Rows that are drawn would violate them.
        table.schema.constraints = TableConstraints::default();
    }
    for places in &mut configuration.tables[0].placement {
        for place in places {
            place.core = CoreId {
                server: configuration.servers[0].id,
                core: 0,
            };
            place.state = PartitionState::Serving;
            place.moving = None;
        }
    }
    configuration.servers.truncate(1);
    configuration
}

impl Core {
    fn new() -> Core {
        Core::of(configuration(), CoreLimits::default())
    }

    fn of(configuration: Configuration, limits: CoreLimits) -> Core {
        let configuration = Arc::new(configuration);
        let identity = CoreIdentity {
            cluster: configuration.cluster,
            core: CoreId {
                server: configuration.servers[0].id,
                core: 0,
            },
            incarnation: configuration.servers[0].incarnation,
        };
        let mut core = Core {
            machine: CoreMachine::new(identity, limits, Arc::clone(&configuration)),
            tables: MemoryTables::new(),
            now: ClockReading {
                monotonic_us: 1,
                wall_us: 1 << 50,
            },
            identity,
            open: 0,
            last: None,
            replies: BTreeMap::new(),
        };
        let mut output = CoreOutput::default();
        let next = protocol::identity::Position(1);
        let started = core
            .machine
            .start(core.now, next, &mut core.tables, &mut output);
        started.expect("tables in memory do not fail");
        core.carry_out(output);
        core.step(CoreInput::Beat {
            sent_us: 0,
            epoch: configuration.epoch,
            lease_us: u64::MAX / 2,
            session_floor: SessionId(1),
        });
        core
    }

    fn step(&mut self, input: CoreInput) {
        let mut output = CoreOutput::default();
        self.machine
            .step(self.now, input, &mut self.tables, &mut output)
            .expect("tables in memory do not fail");
        self.carry_out(output);
    }

    /// The log is durable at once; messages to itself arrive at once.
    fn carry_out(&mut self, mut output: CoreOutput) {
        for _ in 0..10_000 {
            for reply in output.replies {
                self.open -= 1;
                self.last = Some(reply.reply.clone());
                let kind = kinds::kind(&Message::Reply(reply.reply));
                *self.replies.entry(kind).or_default() += 1;
            }
            let mut next = CoreOutput::default();
            let mut inputs: Vec<CoreInput> = Vec::new();
            if let Some(last) = output.records.last() {
                inputs.push(CoreInput::Durable(last.position));
            }
            for send in output.sends {
                let header = self.machine.header(&send.message);
                if send.to == self.identity.core {
                    inputs.push(CoreInput::Peer {
                        header,
                        message: send.message,
                    });
                }
            }
            if inputs.is_empty() {
                return;
            }
            for input in inputs {
                self.machine
                    .step(self.now, input, &mut self.tables, &mut next)
                    .expect("tables in memory do not fail");
            }
            output = next;
        }
        panic!("one request keeps the core busy for ever");
    }

    fn ask(&mut self, correlation: u64, request: Request) {
        self.open += 1;
        self.step(CoreInput::Request {
            client: ClientId(1),
            correlation,
            request,
        });
        // A read before it can have held what it is to change, for so long.
        if self.open > 0 {
            self.now.monotonic_us += HOLD_US_MAX;
            self.step(CoreInput::Tick);
        }
        assert_eq!(
            self.open, 0,
            "with nothing else under way, all is answered at once"
        );
        self.now.monotonic_us += 1000;
    }
}

/// Makes fields of a request fit, each of them most of the time.
fn fit(request: &mut Request, source: &mut Source<'_>, number: u64) {
    let known = configuration();
    let table = &known.tables[0];
    let partition = PartitionId {
        table: table.id,
        replex: number as u8 % table.placement.len() as u8,
        number: number as u32 / 4 % 2,
    };
    match request {
        Request::Execute(execute) => fit_execute(execute, source, number),
        Request::Read(read) => {
            if mostly(source) {
                read.epoch = known.epoch;
                read.partition = partition;
            }
            if mostly(source) {
                read.filter = None;
            }
            if mostly(source) {
                read.projection = None;
            }
            if mostly(source) {
                read.start = Bytes::default();
            }
        }
        Request::Checksum(read) if mostly(source) => {
            read.epoch = known.epoch;
            read.partition = partition;
        }
        Request::Statistics(read) if mostly(source) => {
            read.epoch = known.epoch;
            read.partition = partition;
        }
        Request::Release(release) if mostly(source) => {
            release.epoch = known.epoch;
            release.partition = partition;
        }
        Request::Snapshot(SnapshotRequest::Open { tables, .. }) if mostly(source) => {
            *tables = vec![(table.id, known.epoch)];
        }
        Request::Transact(transact) => {
            let placed = (known.tables[0].id, known.epoch);
            if mostly(source) {
                transact.epochs = vec![placed];
                transact.partition = PartitionId {
                    replex: 0,
                    ..partition
                };
            }
            for change in &mut transact.changes {
                if mostly(source) {
                    change.table = table.id;
                }
            }
        }
        Request::Checksum(_)
        | Request::Statistics(_)
        | Request::Status
        | Request::Release(_)
        | Request::Snapshot(_) => {}
    }
}

fn fit_execute(execute: &mut Execute, source: &mut Source<'_>, number: u64) {
    let known = configuration();
    let table = &known.tables[0];
    if mostly(source) {
        execute.epoch = known.epoch;
        execute.table = table.id;
    }
    if mostly(source) {
        execute.acknowledged_below = 0;
        execute.request = RequestId {
            session: SessionId(5),
            number,
        };
    }
    // The golden row's own partition.
    if mostly(source) {
        let row = samples::row();
        let view = placement::RowView::parse(&table.schema.columns, &row);
        let view = view.expect("the golden row is a row");
        execute.partition = PartitionId {
            table: table.id,
            replex: 0,
            number: table.layout.partition_of_row(0, &view),
        };
    }
    if mostly(source) {
        execute.mutations.truncate(1);
    }
    for mutation in &mut execute.mutations {
        if mostly(source) {
            mutation.pk = samples::pk();
        }
        match &mut mutation.action {
            Action::Insert { row } | Action::InsertOrKeep { row } | Action::Upsert { row, .. }
                if mostly(source) =>
            {
                *row = samples::row();
            }
            Action::Update {
                assignments,
                condition,
            } if mostly(source) => {
                *condition = None;
                *assignments = vec![moved_text()];
            }
            _ => {}
        }
    }
}

fn mostly(source: &mut Source<'_>) -> bool {
    !u8::generate(source).is_multiple_of(8)
}

/// `tail = tail || 'x'`, which moves the row in the index by tail until it is too long.
fn moved_text() -> Assignment {
    let text = |text: &str| Box::new(Expression::Literal(placement::Value::Text(text.into())));
    Assignment {
        column: 1,
        value: Expression::Binary(
            BinaryOperator::Concatenate,
            Box::new(Expression::Column(1)),
            text("x"),
        ),
    }
}

/// A core that was asked what the bytes contain.
fn asked(bytes: &[u8]) -> Core {
    let mut core = Core::new();
    let mut source = Source::new(bytes);
    for number in 1..24 {
        let mut request = Request::generate(&mut source);
        // A few are sent again.
        let name = number - u64::from(number % 7 == 0);
        fit(&mut request, &mut source, name);
        core.ask(number, request);
    }
    core
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_requests_are_answered(seed in proptest::collection::vec(any::<u8>(), 0..3000)) {
        asked(&seed);
    }
}

/// The same, and what was answered: requests that fit must be among them.
#[test]
fn requests_reach_every_reply_of_one_core() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut replies: BTreeMap<&'static str, u64> = BTreeMap::new();
    for _ in 0..400 {
        let bytes = proptest::collection::vec(any::<u8>(), 3000);
        let tree = bytes.new_tree(&mut runner).expect("bytes are not filtered");
        let seed = proptest::strategy::ValueTree::current(&tree);
        for (kind, count) in asked(&seed).replies {
            *replies.entry(kind).or_default() += count;
        }
    }
    for kind in [
        "reply-applied",
        "reply-kept",
        "reply-not-found",
        "reply-condition",
        "reply-duplicate",
        "reply-invalid",
        "reply-rows",
        "reply-checksum",
        "reply-status",
        "refused-stale-epoch",
        "refused-wrong-partition",
        "refused-session-ended",
        "refused-request-mismatch",
        "refused-invalid",
    ] {
        assert!(
            replies.contains_key(kind),
            "{kind} was not given: {replies:?}"
        );
    }
}
