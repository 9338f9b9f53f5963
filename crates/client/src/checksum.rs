//! Counts and checksums of whole copies: equal sums mean equal rows, in any sort order.

use protocol::codec::Bytes;
use protocol::identity::{Epoch, PartitionId, SnapshotId};
use protocol::message::ChecksumRead;
use session::{SessionOperation, SessionOutcome};
use tokio::task::JoinSet;

use crate::client::{Client, other_outcome};
use crate::error::Error;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// Rows that one request sums at most: a core works on one request at a time.
const PART_ROWS: u32 = 16_384;
/// Partitions summed at a time.
const PARTITIONS_AT_A_TIME: usize = 8;

/// The number of rows of a copy, and their checksum. At rest, all copies of a table have equal
/// checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// The number of rows.
    pub count: u64,
    /// The wrapping sum of a hash of each row and its version.
    pub sum: u64,
}

impl Checksum {
    fn add(&mut self, other: Checksum) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl Table {
    /// Counts and sums the rows of one replex, given by its position in the chain, page by page.
    /// Concurrent writes may be in some pages and not in others. To compare copies, stop the
    /// writers or use [`Table::checksum_at`].
    ///
    /// # Errors
    /// [`Error::Deadline`] if a partition does not answer, [`Error::TableGone`].
    pub async fn checksum(&self, replex: u8) -> Result<Checksum, Error> {
        self.checksum_at(replex, None).await
    }

    /// Returns the checksum of one replex at a snapshot. It is equal for all copies, also while
    /// clients write.
    ///
    /// # Errors
    /// The same as for [`Table::checksum`], and [`Error::Snapshot`] if the snapshot has ended.
    pub async fn checksum_at(
        &self,
        replex: u8,
        snapshot: Option<&Snapshot>,
    ) -> Result<Checksum, Error> {
        let count = match self.definition().placement.get(usize::from(replex)) {
            Some(places) => places.len(),
            None => {
                let replexes = self.definition().layout.replexes.iter();
                return Err(Error::UnknownIndex {
                    table: self.schema().name.clone(),
                    index: format!("number {replex}"),
                    indexes: replexes.map(|replex| replex.name.clone()).collect(),
                });
            }
        };
        let partition = |number: usize| PartitionId {
            table: self.id(),
            replex,
            number: u32::try_from(number).expect("a replex has few partitions"),
        };
        let what = format!("the checksum of table {}", self.schema().name);
        let mut waiting = (0..count).map(partition);
        let mut summing = JoinSet::new();
        let mut sum = Checksum::default();
        let runtime = self.client().hub().runtime().clone();
        loop {
            while summing.len() < PARTITIONS_AT_A_TIME
                && let Some(partition) = waiting.next()
            {
                let state = (self.epoch(), snapshot.map(Snapshot::id));
                let part = sum_partition(self.client().clone(), state, partition, what.clone());
                summing.spawn_on(part, &runtime);
            }
            match summing.join_next().await {
                None => return Ok(sum),
                Some(Ok(part)) => sum.add(part?),
                Some(Err(_)) => return Err(Error::Closed),
            }
        }
    }

    /// Returns [`Table::checksum`] of every readable replex, with its name, in the order of their
    /// numbers.
    ///
    /// # Errors
    /// The same as for [`Table::checksum`].
    pub async fn checksums(&self) -> Result<Vec<(String, Checksum)>, Error> {
        let mut sums = Vec::new();
        let definition = self.definition();
        for number in definition.readable() {
            let name = definition.layout.replexes[number].name.clone();
            let number = u8::try_from(number).expect("a table has at most 63 replexes");
            sums.push((name, self.checksum(number).await?));
        }
        Ok(sums)
    }
}

async fn sum_partition(
    client: Client,
    (epoch, snapshot): (Epoch, Option<SnapshotId>),
    partition: PartitionId,
    what: String,
) -> Result<Checksum, Error> {
    let mut sum = Checksum::default();
    let mut start = Bytes::default();
    loop {
        let read = ChecksumRead {
            epoch,
            partition,
            start,
            limit: PART_ROWS,
            snapshot,
            entries_of: None,
        };
        let operation = SessionOperation::Checksum(read);
        let part = match client.run(operation, &what, None).await? {
            SessionOutcome::Checksum(part) => part,
            other => return Err(other_outcome(&other)),
        };
        sum.add(Checksum {
            count: part.count,
            sum: part.sum,
        });
        match part.next {
            None => return Ok(sum),
            Some(next) => start = next,
        }
    }
}
