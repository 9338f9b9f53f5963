//! Prevents statements that no index serves from reading large tables, unless they request a scan.
//!
//! The rows of the table are counted before the statement reads, and again while it reads, because
//! the table can grow during the read. The count need not be exact for one moment.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::identity::Epoch;
use protocol::message::{Consistency, Read, RowPage};

use super::Attempt;
use crate::plan::{UnaskedScan, too_large};
use crate::store::Store;

/// Pages that are read before the rows are counted again; twice as many each time, so that large
/// rows are not counted over and over. A page looks at 16,384 rows at most.
const PAGES_UNCHECKED: u64 = 16;

/// The size limit of one read.
pub(crate) struct SizeBound<'a, S> {
    store: &'a S,
    table: &'a PlacedTable,
    /// Of the configuration by which the read was planned.
    epoch: Epoch,
    scan: UnaskedScan,
    pages_read: u64,
    pages_unchecked: u64,
}

impl<'a, S: Store> SizeBound<'a, S> {
    pub fn new(
        store: &'a S,
        table: &'a PlacedTable,
        epoch: Epoch,
        scan: UnaskedScan,
    ) -> SizeBound<'a, S> {
        SizeBound {
            store,
            table,
            epoch,
            scan,
            pages_read: 0,
            pages_unchecked: PAGES_UNCHECKED,
        }
    }

    /// Counts a page, and checks the size again after many of them. The last page of a partition
    /// does not count, because each partition has one.
    pub async fn on_page(&mut self, page: &RowPage) -> Result<(), Attempt> {
        self.pages_read += u64::from(page.next.is_some());
        if self.pages_read < self.pages_unchecked {
            return Ok(());
        }
        self.pages_unchecked *= 2;
        self.check().await
    }

    /// Returns an error if the table has too many rows now. It counts them in the order of the
    /// primary key, in which no row moves.
    pub async fn check(&self) -> Result<(), Attempt> {
        let layout = &self.table.layout;
        let partitions = 0..layout.partition_count(layout.primary());
        let counts = partitions.map(|number| self.count(number));
        let mut counts = stream::iter(counts).buffer_unordered(super::LOOKUPS_AT_A_TIME);
        let mut rows: u64 = 0;
        while let Some(count) = counts.try_next().await? {
            rows += count;
            if rows > self.scan.rows_max {
                return Err(too_large(self.table, self.scan).into());
            }
        }
        Ok(())
    }

    /// Returns how many rows a partition of the primary replex has. If it has more than `rows_max`,
    /// the count stops at `rows_max` + 1.
    async fn count(&self, number: u32) -> Result<u64, Attempt> {
        let enough = self.scan.rows_max.saturating_add(1);
        let mut rows = 0;
        let mut start = Bytes::default();
        while rows < enough {
            let read = Read {
                start,
                limit: u32::try_from(enough - rows).unwrap_or(u32::MAX),
                count_only: true,
                consistency: Consistency::Stale,
                ..Read::of(self.epoch, self.table.primary_partition(number))
            };
            let page = self.store.page(read).await?;
            rows += page.count;
            match page.next {
                Some(next) => start = next,
                None => break,
            }
        }
        Ok(rows)
    }
}
