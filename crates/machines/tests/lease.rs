//! A lease is renewed by answers to what this process asked, and by nothing else (R15).

mod pair;

use std::sync::Arc;

use machines::core::{
    ClientId, ClientReply, CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput, PeerSend,
};
use placement::tables::MemoryTables;
use placement::{Value, encode_key, encode_row};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, Sealing};
use protocol::identity::{
    ClockReading, Epoch, FinishedLine, Incarnation, PartitionId, Position, RequestId, ServerId,
    SessionId, TableId,
};
use protocol::message::{
    CoordinatorRequest, Execute, PeerHeader, PeerMessage, Read, Refusal, Reply, Request, Room,
};
use protocol::operation::{Action, Mutation, RequestResult};

use pair::{configuration, core};

#[test]
fn answers_to_other_questions_renew_nothing() {
    let identity = CoreIdentity {
        cluster: 1,
        core: core(1),
        incarnation: Incarnation(1),
    };
    let limits = CoreLimits::default();
    let mut machine = CoreMachine::new(identity, limits, Arc::new(configuration()));
    let mut tables = MemoryTables::new();
    let mut output = CoreOutput::default();
    let now = ClockReading {
        monotonic_us: 5_000_000,
        wall_us: 0,
    };
    machine
        .start(now, Position(1), &mut tables, &mut output)
        .expect("tables in memory do not fail");
    machine
        .step(now, CoreInput::Tick, &mut tables, &mut output)
        .expect("tables in memory do not fail");
    let asked = output.sends.iter().find_map(|send| match send.message {
        PeerMessage::LeaseRequest { sent_us, .. } if send.to == core(2) => Some(sent_us),
        _ => None,
    });
    let asked = asked.expect("a core that has started asks its peers");
    assert_eq!(machine.lease_until_us(now, TableId(1)), 0);

    let mut grant = |sent_us| {
        let input = CoreInput::Peer {
            header: PeerHeader {
                from: core(2),
                incarnation: Incarnation(1),
                epoch: Epoch(3),
                table_epoch: Epoch(0),
            },
            message: PeerMessage::LeaseGrant {
                sent_us,
                room: Room::Free,
            },
        };
        machine
            .step(now, input, &mut tables, &mut output)
            .expect("tables in memory do not fail");
        machine.lease_until_us(now, TableId(1))
    };
    // Its process before had run for longer, or for less long; or its report is made up.
    for other in [asked + 3_600_000_000, asked - 1, u64::MAX] {
        assert_eq!(grant(other), 0);
    }
    assert_eq!(grant(asked), asked + limits.lease_us);
}

#[test]
fn a_core_whose_disk_hangs_renews_no_lease_until_it_works_again() {
    let identity = CoreIdentity {
        cluster: 1,
        core: core(1),
        incarnation: Incarnation(1),
    };
    let limits = CoreLimits::default();
    let mut machine = CoreMachine::new(identity, limits, Arc::new(configuration()));
    let mut tables = MemoryTables::new();
    let mut now_us = 5_000_000;
    let mut step = |machine: &mut CoreMachine, now_us, input: Option<CoreInput>| {
        let now = ClockReading {
            monotonic_us: now_us,
            wall_us: 0,
        };
        let mut output = CoreOutput::default();
        match input {
            None => machine.start(now, Position(1), &mut tables, &mut output),
            Some(input) => machine.step(now, input, &mut tables, &mut output),
        }
        .expect("tables in memory do not fail");
        output
    };
    step(&mut machine, now_us, None);
    // It logs which partitions it was given: nothing reports that this is durable.
    let mut next = configuration();
    next.epoch.0 += 1;
    next.tables[0].epoch = next.epoch;
    for place in next.tables[0].placement.iter_mut().flatten() {
        place.since = next.epoch;
    }
    let given = step(
        &mut machine,
        now_us,
        Some(CoreInput::Configuration(Arc::new(next))),
    );
    let last = given.records.last().expect("it was given partitions");
    let last = last.position;
    let renews = |output: &CoreOutput| {
        let heartbeat = |ask: &_| matches!(ask, CoordinatorRequest::Heartbeat { .. });
        let request = |send: &PeerSend| matches!(send.message, PeerMessage::LeaseRequest { .. });
        (
            output.asks.iter().any(heartbeat),
            output.sends.iter().any(request),
        )
    };
    let hangs_from_us = now_us + limits.flush_us_max;
    while now_us < hangs_from_us {
        let output = step(&mut machine, now_us, Some(CoreInput::Tick));
        assert_eq!(renews(&output), (true, true), "a slow disk is waited for");
        now_us += limits.heartbeat_us;
    }
    for _ in 0..20 {
        now_us += limits.heartbeat_us;
        let output = step(&mut machine, now_us, Some(CoreInput::Tick));
        assert_eq!(renews(&output), (false, false));
    }
    step(&mut machine, now_us, Some(CoreInput::Durable(last)));
    now_us += limits.heartbeat_us;
    let output = step(&mut machine, now_us, Some(CoreInput::Tick));
    assert_eq!(renews(&output), (true, true), "it works again");
}

/// A machine of server 1 whose lease nothing but grants of server 2 renews.
struct Asker {
    machine: CoreMachine,
    tables: MemoryTables,
    now: ClockReading,
    /// When it asked for the lease.
    asked_us: u64,
}

impl Asker {
    /// Returns one that has started with this configuration and has asked its peer.
    fn start(configuration: Configuration) -> (Asker, CoreOutput) {
        let identity = CoreIdentity {
            cluster: 1,
            core: core(1),
            incarnation: Incarnation(1),
        };
        let now = ClockReading {
            monotonic_us: 5_000_000,
            wall_us: 0,
        };
        let machine = CoreMachine::new(identity, CoreLimits::default(), Arc::new(configuration));
        let mut asker = Asker {
            machine,
            tables: MemoryTables::new(),
            now,
            asked_us: now.monotonic_us,
        };
        let mut output = CoreOutput::default();
        let (machine, tables) = (&mut asker.machine, &mut asker.tables);
        machine
            .start(now, Position(1), tables, &mut output)
            .expect("tables in memory do not fail");
        asker.step(CoreInput::Tick);
        (asker, output)
    }

    /// Answers the questions of the start, as a peer that remembers nothing.
    fn recover(&mut self, started: CoreOutput) {
        for send in started.sends {
            if let PeerMessage::Recover { table, attempt } = send.message {
                let header = PeerHeader {
                    from: core(2),
                    incarnation: Incarnation(1),
                    epoch: Epoch(3),
                    table_epoch: Epoch(3),
                };
                let message = PeerMessage::RecoverEnd {
                    table,
                    attempt,
                    count: 0,
                    finished_below: FinishedLine::default(),
                };
                self.step(CoreInput::Peer { header, message });
            }
        }
        assert!(!self.machine.is_recovering());
    }

    /// Returns the replies to a client's request.
    fn request(&mut self, correlation: u64, request: Request) -> Vec<ClientReply> {
        let input = CoreInput::Request {
            client: ClientId(1),
            correlation,
            request,
        };
        self.step(input).replies
    }

    fn step(&mut self, input: CoreInput) -> CoreOutput {
        let mut output = CoreOutput::default();
        let stepped = self
            .machine
            .step(self.now, input, &mut self.tables, &mut output);
        stepped.expect("tables in memory do not fail");
        output
    }

    /// Takes a grant of server 2 as of an epoch, and returns the end of the lease for the table.
    fn grant(&mut self, epoch: u64) -> u64 {
        let header = PeerHeader {
            from: core(2),
            incarnation: Incarnation(1),
            epoch: Epoch(epoch),
            table_epoch: Epoch(0),
        };
        let message = PeerMessage::LeaseGrant {
            sent_us: self.asked_us,
            room: Room::Free,
        };
        self.step(CoreInput::Peer { header, message });
        self.lease()
    }

    fn lease(&self) -> u64 {
        self.machine.lease_until_us(self.now, TableId(1))
    }

    /// Takes a configuration, and returns the end of the lease for the table.
    fn follow(&mut self, configuration: &Configuration) -> u64 {
        self.step(CoreInput::Configuration(Arc::new(configuration.clone())));
        self.lease()
    }
}

#[test]
fn a_grant_counts_for_a_table_that_has_not_changed_since_and_does_not_stand_still() {
    let mut known = configuration();
    let (mut asker, _) = Asker::start(known.clone());
    let granted = asker.asked_us + CoreLimits::default().lease_us;
    assert_eq!(asker.lease(), 0);
    assert_eq!(
        asker.grant(4),
        0,
        "the peer knows an epoch that this core does not"
    );
    assert_eq!(asker.grant(3), granted);

    known.epoch = Epoch(4);
    assert_eq!(asker.follow(&known), granted, "another table has changed");
    known.epoch = Epoch(5);
    known.tables[0].epoch = Epoch(5);
    assert_eq!(asker.follow(&known), 0, "the table has changed");
    assert_eq!(asker.grant(4), 0);
    assert_eq!(asker.grant(5), granted);

    known.epoch = Epoch(6);
    known.tables[0].epoch = Epoch(6);
    known.tables[0].sealing = Some(sealing(6, Vec::new()));
    assert_eq!(asker.follow(&known), 0);
    assert_eq!(asker.grant(6), 0, "the table stands still");
}

#[test]
fn a_core_that_has_restarted_may_have_vouched_until_then() {
    let mut sealed = configuration();
    sealed.epoch = Epoch(4);
    sealed.tables[0].epoch = Epoch(4);
    sealed.tables[0].sealing = Some(sealing(4, vec![core(2).server]));
    let (mut asker, _) = Asker::start(sealed);
    asker.now.monotonic_us += CoreLimits::default().heartbeat_us;
    let output = asker.step(CoreInput::Tick);
    let ago_us = output.asks.iter().find_map(|ask| match ask {
        CoordinatorRequest::Heartbeat { seals, .. } => Some(seals[0].vouched_ago_us),
        _ => None,
    });
    assert_eq!(ago_us, Some(Some(CoreLimits::default().heartbeat_us)));
}

fn sealing(since: u64, removed: Vec<ServerId>) -> Sealing {
    Sealing {
        since: Epoch(since),
        removed,
        leaving: Vec::new(),
    }
}

#[test]
fn a_result_without_effect_is_answered_again_only_under_a_lease() {
    let (mut asker, started) = Asker::start(configuration());
    asker.recover(started);
    let lease = asker.grant(3);
    for correlation in 1..=2 {
        let replies = asker.request(correlation, execute(Action::Delete { condition: None }));
        let [reply] = &replies[..] else {
            panic!("{replies:?}");
        };
        assert_eq!(reply.reply, Reply::Executed(RequestResult::NotFound));
        assert_eq!(reply.valid_until_us, Some(lease));
    }
}

/// The only partition of the primary replex.
const PRIMARY: PartitionId = PartitionId {
    table: TableId(1),
    replex: 0,
    number: 0,
};

fn key() -> Bytes {
    Bytes(encode_key([Value::Int64(1).as_ref()]))
}

/// Returns a request that changes the row with the key 1.
fn execute(action: Action) -> Request {
    Request::Execute(Execute {
        request: RequestId {
            session: SessionId(1),
            number: 1,
        },
        acknowledged_below: 1,
        epoch: Epoch(3),
        table: TableId(1),
        partition: PRIMARY,
        mutations: vec![Mutation { pk: key(), action }],
    })
}

/// The operation that the read waits for is dropped with the partition's rows, so it never ends
/// here. Meanwhile later operations would be compared with the read, by a table of another epoch.
#[test]
fn a_read_that_waits_in_a_partition_that_is_refilled_is_refused_at_once() {
    let mut known = configuration();
    let (mut asker, started) = Asker::start(known.clone());
    asker.recover(started);
    asker.grant(3);
    let columns = &known.tables[0].schema.columns;
    let row = encode_row(columns, &[Value::Int64(1), Value::Int64(7)]);
    let row = Bytes(row.expect("the values are of the columns"));
    let inserted = asker.request(1, execute(Action::Insert { row }));
    assert_eq!(inserted, [], "the other copy has not voted");
    let read = Request::Read(Read {
        start: key(),
        limit: 1,
        ..Read::of(Epoch(3), PRIMARY)
    });
    assert_eq!(asker.request(2, read), [], "the insert may take effect");
    known.epoch = Epoch(4);
    known.tables[0] = known.tables[0].renewed(&[(0, 0)], Epoch(4));
    known.tables[0].epoch = Epoch(4);
    let output = asker.step(CoreInput::Configuration(Arc::new(known)));
    let read = output.replies.iter().find(|reply| reply.correlation == 2);
    let refusal = Reply::Refused(Refusal::StaleEpoch { epoch: Epoch(4) });
    assert_eq!(read.map(|reply| &reply.reply), Some(&refusal));
}
