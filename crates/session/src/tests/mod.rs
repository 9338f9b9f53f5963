//! Tests the session machine alone: `single` and most modules test one behaviour each, and
//! `world` runs random worlds.

mod client;
mod columns;
mod entries;
mod gather;
mod inquiries;
mod moment;
pub(crate) mod redirect;
mod single;
mod world;

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use placement::{
    Column, ColumnType, Durability, Index, Layout, Schema, TableComments, TableConstraints, Value,
    encode_key, encode_row,
};
use protocol::configuration::{Configuration, Place, PlacedTable, Server, ServerState};
use protocol::identity::{CoreId, Epoch, Incarnation, PartitionId, ServerId, TableId};
use protocol::message::Read;
use protocol::operation::{Action, Mutation};

use super::{ANY_EPOCH, SessionOperation};

pub const TABLE: TableId = TableId(3);
const PARTITIONS: u32 = 4;

pub fn schema() -> Schema {
    let column = |name: &str| Column {
        name: name.to_string(),
        column_type: ColumnType::Int64,
        nullable: false,
        default: None,
        missing: None,
    };
    Schema {
        name: "t".to_string(),
        columns: vec![column("id"), column("a")],
        primary_key: vec![0],
        indexes: vec![Index {
            name: "by_a".to_string(),
            columns: vec![1],
            constraint: None,
            partition_columns: None,
            by_range: false,
        }],
        further: Vec::new(),
        thin: Vec::new(),
        partitions: PARTITIONS,
        failures_tolerated: 0,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    }
}

/// Returns two servers of one core; the partitions of both replexes lie on them in turn.
pub fn configuration(epoch: u64) -> Arc<Configuration> {
    let schema = schema();
    let layout = Layout::base(&schema);
    let place = |number: u32| Place::serving(core(number % 2 + 1), Epoch(0));
    let server = |number: u32| Server {
        id: ServerId(number),
        incarnation: Incarnation(1),
        domain: number.to_string(),
        cores: vec![number.to_string()],
        state: ServerState::Up,
        is_draining: false,
        is_new: false,
    };
    Arc::new(Configuration {
        cluster: 1,
        epoch: Epoch(epoch),
        servers: vec![server(1), server(2)],
        tables: vec![PlacedTable {
            id: TABLE,
            epoch: Epoch(epoch),
            sealing: None,
            columns_since: Epoch(0),
            placement: vec![(0..PARTITIONS).map(place).collect(); layout.replexes.len()],
            schema,
            layout,
            building: Vec::new(),
            comments: TableComments::default(),
        }]
        .into(),
        roles: Default::default(),
    })
}

pub fn core(server: u32) -> CoreId {
    CoreId {
        server: ServerId(server),
        core: 0,
    }
}

pub fn partition(replex: u8, number: u32) -> PartitionId {
    PartitionId {
        table: TABLE,
        replex,
        number,
    }
}

pub fn key(id: i64) -> Vec<u8> {
    encode_key([Value::Int64(id).as_ref()])
}

pub fn row(id: i64, a: i64) -> Vec<u8> {
    let values = [Value::Int64(id), Value::Int64(a)];
    encode_row(&schema().columns, &values).unwrap()
}

pub fn insert(id: i64) -> SessionOperation {
    SessionOperation::Execute {
        table: TABLE,
        mutations: vec![Mutation {
            pk: key(id).into(),
            action: Action::Insert {
                row: row(id, 0).into(),
            },
        }],
        planned: ANY_EPOCH,
    }
}

pub fn read(number: u32) -> SessionOperation {
    SessionOperation::Read(Read {
        limit: 10,
        ..Read::of(Epoch(0), partition(0, number))
    })
}
