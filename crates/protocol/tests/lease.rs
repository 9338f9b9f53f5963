//! A lease is renewed by answers to what this process asked, and by nothing else (SAFETY R15).

use std::sync::Arc;

use placement::tables::MemoryTables;
use placement::{Column, ColumnType, Durability, Index, Layout, Schema};
use protocol::configuration::{Configuration, PartitionState, Place, Server, ServerState, Table};
use protocol::identity::{CoreId, Epoch, Incarnation, Now, Position, ServerId, TableId};
use protocol::machine::{CoreMachine, Identity, Input, Limits, Output};
use protocol::message::{PeerHeader, PeerMessage};

const fn core(server: u32) -> CoreId {
    CoreId {
        server: ServerId(server),
        core: 0,
    }
}

/// A table of two copies, one on each of two servers.
fn configuration() -> Configuration {
    let column = |name: &str| Column {
        name: name.into(),
        column_type: ColumnType::Int64,
        nullable: false,
        default: None,
    };
    let schema = Schema {
        name: "t".into(),
        columns: vec![column("id"), column("tail")],
        primary_key: vec![0],
        indexes: vec![Index {
            name: "by_tail".into(),
            columns: vec![1],
            constraint: None,
        }],
        partitions: 1,
        failures_tolerated: 1,
        durability: Durability::Sync,
    };
    let server = |id| Server {
        id: ServerId(id),
        incarnation: Incarnation(1),
        domain: format!("server-{id}"),
        cores: vec![format!("127.0.0.1:{}", 7000 + id)],
        state: ServerState::Up,
    };
    let place = |server| {
        vec![Place {
            core: core(server),
            state: PartitionState::Serving,
        }]
    };
    Configuration {
        cluster: 1,
        epoch: Epoch(3),
        servers: vec![server(1), server(2)],
        tables: vec![Table {
            id: TableId(1),
            layout: Layout::base(&schema),
            schema,
            placement: vec![place(1), place(2)],
        }],
    }
}

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
