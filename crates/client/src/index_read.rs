//! A read of some partitions of a replex, before it is sent.

use std::time::Duration;

use protocol::codec::Bytes;
use protocol::identity::PartitionId;
use protocol::message::Consistency;
use session::gather::{GatherPlan, RowOrder};

use crate::snapshot::Snapshot;
use crate::table::Table;

/// The common part of lookups and scans.
#[derive(Clone, Debug)]
pub(crate) struct IndexRead<'a> {
    pub table: &'a Table,
    pub plan: GatherPlan,
    pub patience: Option<Duration>,
    /// Set if it reads the rows of a snapshot.
    pub snapshot: Option<Snapshot>,
}

impl<'a> IndexRead<'a> {
    /// Builds a linearizable read of all columns of the rows from `start` to before `end`, in these
    /// partitions of a replex, in the order of the index.
    pub fn new(
        table: &'a Table,
        replex: u8,
        numbers: impl IntoIterator<Item = u32>,
        start: Vec<u8>,
        end: Option<Vec<u8>>,
    ) -> IndexRead<'a> {
        let partition = |number| PartitionId {
            table: table.id(),
            replex,
            number,
        };
        let plan = GatherPlan {
            partitions: numbers.into_iter().map(partition).collect(),
            start: Bytes(start),
            end: end.map(Bytes),
            filter: None,
            projection: None,
            limit: None,
            order: RowOrder::Ascending,
            count_only: false,
            epoch: table.epoch(),
            consistency: Consistency::Linearizable,
            snapshot: None,
        };
        IndexRead {
            table,
            plan,
            patience: None,
            snapshot: None,
        }
    }
}
