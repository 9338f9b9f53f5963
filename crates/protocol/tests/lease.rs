//! A lease is renewed by answers to what this process asked, and by nothing else (SAFETY R15).

mod pair;

use std::sync::Arc;

use placement::tables::MemoryTables;
use protocol::identity::{Epoch, Incarnation, Now, Position};
use protocol::machine::{CoreMachine, Identity, Input, Limits, Output};
use protocol::message::{PeerHeader, PeerMessage};

use pair::{configuration, core};

#[test]
fn answers_to_other_questions_renew_nothing() {
    let identity = Identity {
        cluster: 1,
        core: core(1),
        incarnation: Incarnation(1),
    };
    let limits = Limits::default();
    let mut machine = CoreMachine::new(identity, limits, Arc::new(configuration()));
    let mut tables = MemoryTables::new();
    let mut output = Output::default();
    let now = Now {
        monotonic_us: 5_000_000,
        wall_us: 0,
    };
    machine
        .start(now, Position(1), &mut tables, &mut output)
        .expect("tables in memory do not fail");
    machine
        .step(now, Input::Tick, &mut tables, &mut output)
        .expect("tables in memory do not fail");
    let asked = output.sends.iter().find_map(|send| match send.message {
        PeerMessage::LeaseRequest { sent_us } if send.to == core(2) => Some(sent_us),
        _ => None,
    });
    let asked = asked.expect("a core that has started asks its peers");
    assert_eq!(machine.lease_until_us(), 0);

    let mut grant = |sent_us| {
        let input = Input::Peer {
            header: PeerHeader {
                from: core(2),
                incarnation: Incarnation(1),
                epoch: Epoch(3),
            },
            message: PeerMessage::LeaseGrant {
                sent_us,
                admits: true,
            },
        };
        machine
            .step(now, input, &mut tables, &mut output)
            .expect("tables in memory do not fail");
        machine.lease_until_us()
    };
    // Its process before had run for longer, or for less long; or somebody makes things up.
    for other in [asked + 3_600_000_000, asked - 1, u64::MAX] {
        assert_eq!(grant(other), 0);
    }
    assert_eq!(grant(asked), asked + limits.lease_us);
}
