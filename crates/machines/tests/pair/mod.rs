//! The shared part of tests of one machine alone: the configuration that it is part of.

use placement::{
    Column, ColumnType, Durability, Index, Layout, Schema, TableComments, TableConstraints,
};
use protocol::configuration::{Configuration, Place, PlacedTable, Server, ServerState};
use protocol::identity::{CoreId, Epoch, Incarnation, ServerId, TableId};

/// The only core of a server.
pub const fn core(server: u32) -> CoreId {
    CoreId {
        server: ServerId(server),
        core: 0,
    }
}

/// A table of two copies, one on each of two servers, in epoch 3.
pub fn configuration() -> Configuration {
    let column = |name: &str| Column {
        name: name.into(),
        column_type: ColumnType::Int64,
        nullable: false,
        default: None,
        missing: None,
    };
    let schema = Schema {
        name: "t".into(),
        columns: vec![column("id"), column("tail")],
        primary_key: vec![0],
        indexes: vec![Index {
            name: "by_tail".into(),
            columns: vec![1],
            constraint: None,
            partition_columns: None,
            by_range: false,
        }],
        further: Vec::new(),
        thin: Vec::new(),
        partitions: 1,
        failures_tolerated: 1,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    };
    let server = |id| Server {
        id: ServerId(id),
        incarnation: Incarnation(1),
        domain: format!("server-{id}"),
        cores: vec![format!("127.0.0.1:{}", 7000 + id)],
        state: ServerState::Up,
        is_draining: false,
        is_new: false,
    };
    let place = |server| vec![Place::serving(core(server), Epoch(0))];
    Configuration {
        cluster: 1,
        epoch: Epoch(3),
        servers: vec![server(1), server(2)],
        tables: vec![PlacedTable {
            id: TableId(1),
            epoch: Epoch(3),
            sealing: None,
            columns_since: Epoch(0),
            layout: Layout::base(&schema),
            schema,
            placement: vec![place(1), place(2)],
            building: Vec::new(),
            comments: TableComments::default(),
        }]
        .into(),
        roles: Default::default(),
    }
}
