//! An operation for tests of one machine alone, as its messages and its records have it.

use std::sync::Arc;

use placement::{Value, encode_key, encode_row};
use protocol::codec::Bytes;
use protocol::identity::{
    Epoch, FinishedLine, Incarnation, OperationId, PartitionId, TableId, Version,
};
use protocol::operation::{OldRow, Prepare, RowChange, Vote};

use crate::pair::{configuration, core};

/// The only partition of a replex.
pub fn partition(replex: u8) -> PartitionId {
    PartitionId {
        table: TableId(1),
        replex,
        number: 0,
    }
}

/// An insert of row (1, 7), the first operation of server 1, which has voted on it.
pub fn insert(members: Vec<PartitionId>) -> Prepare {
    let columns = &configuration().tables[0].schema.columns;
    let row = encode_row(columns, &[Value::Int64(1), Value::Int64(7)]);
    Prepare {
        operation: OperationId {
            head: core(1),
            incarnation: Incarnation(1),
            sequence: 1,
        },
        epoch: Epoch(3),
        finished_below: FinishedLine {
            incarnation: Incarnation(1),
            sequence: 1,
        },
        table: TableId(1),
        members,
        sides: 0,
        side: None,
        votes: vec![Vote::Yes],
        changes: vec![Arc::new(RowChange {
            pk: Bytes(encode_key([Value::Int64(1).as_ref()])),
            version: Version(9),
            old: OldRow::Absent,
            new: Some(Bytes(row.expect("the values are of the columns"))),
        })],
        requests: Vec::new(),
        transaction: None,
    }
}
