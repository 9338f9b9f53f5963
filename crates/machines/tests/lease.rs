//! A lease is renewed by answers to what this process asked, and by nothing else (R15).

mod pair;

use std::sync::Arc;

use machines::core::{CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput, PeerSend};
use placement::tables::MemoryTables;
use protocol::identity::{ClockReading, Epoch, Incarnation, Position, TableId};
use protocol::message::{CoordinatorRequest, PeerHeader, PeerMessage, Room};

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
