//! A read by an index, before it is sent: it chooses the partitions of a replex that can have the
//! rows.

use std::time::Duration;

use placement::{KeyInterval, Value};
use protocol::codec::Bytes;
use protocol::configuration::routes;
use protocol::identity::PartitionId;
use protocol::message::Consistency;
use session::gather::{GatherPlan, RowOrder};

use crate::error::Error;
use crate::snapshot::Snapshot;
use crate::table::{IndexSelector, Table};

/// How often a read chooses its partitions, before it fails because they change all the time.
const CUTS_MAX: usize = 4;

/// The part that lookups, ranges and scans have in common.
#[derive(Clone, Debug)]
pub(crate) struct IndexRead {
    /// The definition of the table with which the partitions of the read were chosen.
    pub table: Table,
    rows: IndexRows,
    /// How often its partitions were chosen.
    cuts: usize,
    pub plan: GatherPlan,
    pub patience: Option<Duration>,
    /// Set if the read returns the rows of a snapshot.
    pub snapshot: Option<Snapshot>,
}

/// The facts about the rows of a read from which the read chooses its partitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexRows {
    /// The name of the index; none is the primary key.
    pub index: Option<String>,
    /// Values that these columns have in all of the rows.
    pub equated: Vec<(usize, Value)>,
    /// Whether the conditions exclude every row, so that no partition is read.
    pub none: bool,
}

impl IndexRead {
    /// Builds a linearizable read of the rows with keys from `start` up to `end`, which is
    /// excluded. The read returns all columns, in the order of the index.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn new(
        table: &Table,
        rows: IndexRows,
        start: Vec<u8>,
        end: Option<Vec<u8>>,
    ) -> Result<IndexRead, Error> {
        let partitions = rows.partitions(table, (&start, end.as_deref()))?;
        let plan = GatherPlan {
            partitions,
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
        Ok(IndexRead {
            table: table.clone(),
            rows,
            cuts: 1,
            plan,
            patience: None,
            snapshot: None,
        })
    }

    /// Restricts the read to these keys, and chooses its partitions again.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn narrow(&mut self, start: Vec<u8>, end: Option<Vec<u8>>) -> Result<(), Error> {
        let keys = (&start[..], end.as_deref());
        self.plan.partitions = self.rows.partitions(&self.table, keys)?;
        self.plan.start = Bytes(start);
        self.plan.end = end.map(Bytes);
        Ok(())
    }

    /// Chooses the partitions again, if a read failed because the table is cut otherwise by now.
    /// Returns false if the failure stands: it is another one, the table is as it was, or its index
    /// is another one.
    pub async fn follow(&mut self, failure: &Error) -> Result<bool, Error> {
        if !matches!(failure, Error::TableChanged { .. }) || self.cuts == CUTS_MAX {
            return Ok(false);
        }
        self.cuts += 1;
        self.table.client().refresh().await?;
        let Some(newest) = self.table.newest() else {
            return Ok(false);
        };
        if newest.definition().epoch == self.table.definition().epoch {
            return Ok(false);
        }
        let index = |table: &Table| {
            let index = table.index(self.rows.selector()).ok()?;
            Some(index.columns.to_vec())
        };
        let is_same = newest.schema().columns == self.table.schema().columns
            && index(&newest) == index(&self.table);
        if is_same {
            let keys = (&self.plan.start[..], self.plan.end.as_deref());
            self.plan.partitions = self.rows.partitions(&newest, keys)?;
            self.plan.epoch = newest.epoch();
            self.table = newest;
        }
        Ok(is_same)
    }
}

impl IndexRows {
    fn selector(&self) -> IndexSelector<'_> {
        match &self.index {
            None => IndexSelector::PrimaryKey,
            Some(name) => IndexSelector::Name(name),
        }
    }

    /// Returns the partitions that can hold such rows with keys of this range.
    fn partitions(&self, table: &Table, keys: KeyInterval<'_>) -> Result<Vec<PartitionId>, Error> {
        if self.none {
            return Ok(Vec::new());
        }
        let replex = table.index(self.selector())?.replex;
        let equated = |column: usize| {
            let mut equated = self.equated.iter();
            let found = equated.find(|(other, _)| *other == column);
            found.map(|(_, value)| value.as_ref())
        };
        let numbers = routes::partitions(table.definition(), replex, equated, keys);
        let partition = |number| PartitionId {
            table: table.id(),
            replex,
            number,
        };
        Ok(numbers.into_iter().map(partition).collect())
    }
}
