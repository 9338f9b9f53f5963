//! Lookups of the rows with one key of an index, and scans of all rows of a table.

use std::future::{Future, IntoFuture};
use std::ops::Bound;
use std::pin::Pin;
use std::time::Duration;

use placement::{SortColumn, Value, encode_prefix, prefix_end, sorted_range};
use protocol::codec::Bytes;
use protocol::identity::PartitionId;
use protocol::message::{Read, RowPage};
use session::gather::{PAGE_ROWS_MAX, RowOrder};
use session::{MomentPages, SessionOperation, SessionOutcome};

use crate::client::other_outcome;
use crate::error::Error;
use crate::index_read::{IndexRead, IndexRows};
use crate::read_options::common_options;
use crate::rows::{Row, decode};
use crate::table::{IndexSelector, Table};

/// A read of the rows with one key of an index: it needs one partition of one replex, one hop. By a
/// thin index it needs another hop, from the entries to the rows.
/// Awaiting it returns all rows. [`Lookup::rows`] returns them one by one.
#[derive(Clone, Debug)]
#[must_use = "it is sent when it is awaited"]
pub struct Lookup {
    wanted: IndexRead,
    /// The values of the first columns of the index.
    key: Vec<Value>,
    /// The columns of the index.
    columns: Vec<SortColumn>,
    is_thin: bool,
}

/// A read of all rows of a table that pass a filter. It reads every partition of the primary
/// replex, so its cost grows with the table.
#[derive(Clone, Debug)]
#[must_use = "it is sent when its rows are taken"]
pub struct Scan {
    wanted: IndexRead,
}

common_options!(Lookup);
common_options!(Scan);

impl Lookup {
    /// Builds a lookup by values of an index's first columns, which must determine the partition.
    pub(crate) fn new(
        table: &Table,
        by: IndexSelector<'_>,
        key: &[Value],
    ) -> Result<Lookup, Error> {
        let index = table.index(by)?;
        table.check_key(&index, key, index.partition_columns)?;
        let columns = index.columns.into_owned();
        let values = key.iter().take(index.partition_columns).cloned();
        let rows = IndexRows {
            index: index.name.map(String::from),
            equated: columns.iter().map(|it| it.column).zip(values).collect(),
            none: false,
        };
        let start = encode_prefix(&columns, key);
        let end = prefix_end(&start);
        let wanted = IndexRead::new(table, rows, start, end)?;
        if wanted.plan.partitions.len() != 1 && !index.is_thin && !index.is_ranged {
            return Err(Error::Protocol {
                message: format!("table {} is not cut by its keys", table.schema().name),
            });
        }
        Ok(Lookup {
            wanted,
            key: key.to_vec(),
            columns,
            is_thin: index.is_thin,
        })
    }

    /// Restricts the read to rows whose next column of the index is between these values. NULL is
    /// never between them.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key names all columns of the index, [`Error::WrongType`] for
    /// values of another type than the column's.
    pub fn range(mut self, lower: Bound<Value>, upper: Bound<Value>) -> Result<Lookup, Error> {
        let Some(next) = self.columns.get(self.key.len()) else {
            return Err(Error::Invalid {
                message: "the key names all columns of the index: no column is left for a range"
                    .to_owned(),
            });
        };
        let table = &self.wanted.table;
        for bound in [&lower, &upper] {
            if let Bound::Included(value) | Bound::Excluded(value) = bound {
                table.check_type(next.column, value)?;
            }
        }
        let (lower, upper) = (lower.as_ref(), upper.as_ref());
        let (start, end) =
            sorted_range(&self.columns, &self.key, lower, upper).unwrap_or_else(|| {
                let prefix = encode_prefix(&self.columns, &self.key);
                (prefix.clone(), Some(prefix))
            });
        self.wanted.narrow(start, end)?;
        Ok(self)
    }

    /// Returns all rows: one page, if they fit there. A partition answers a page at one moment.
    async fn fetch(mut self) -> Result<Vec<Row>, Error> {
        loop {
            match self.fetch_once().await {
                Err(failure) if self.wanted.follow(&failure).await? => {}
                result => return result,
            }
        }
    }

    async fn fetch_once(&self) -> Result<Vec<Row>, Error> {
        let IndexRead {
            table,
            plan,
            patience,
            snapshot,
            ..
        } = &self.wanted;
        if plan.partitions.len() != 1 || self.is_thin && snapshot.is_some() {
            return self.clone().rows()?.all().await;
        }
        table.check_plan(plan)?;
        if let Some(snapshot) = snapshot {
            snapshot.check(table)?;
        }
        let wanted = plan.limit.unwrap_or(u64::MAX);
        let read = Read {
            start: plan.start.clone(),
            end: plan.end.clone(),
            filter: plan.filter.clone(),
            projection: plan.projection.clone(),
            limit: u32::try_from(wanted).unwrap_or(u32::MAX).min(PAGE_ROWS_MAX),
            descending: plan.order == RowOrder::Descending,
            consistency: plan.consistency,
            snapshot: plan.snapshot,
            ..Read::of(plan.epoch, plan.partitions[0])
        };
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let page = match self.is_thin {
            false => table.read_page(read, *patience).await?,
            true => match self.read_entries(read).await? {
                Some(page) => page,
                None => return self.clone().rows()?.all().await,
            },
        };
        if page.next.is_some() && page.count < wanted {
            return self.clone().rows()?.all().await;
        }
        let columns = table.projected(plan.projection.as_deref());
        let rows = page.rows().map(|(version, row)| {
            let values = decode(&columns, columns.len(), row)?;
            Ok(Row { version, values })
        });
        rows.collect()
    }

    /// Returns the page of a read of one range of a thin index. Its entries and rows are of one
    /// moment. Returns none if there are several pages, or they change too often for one moment.
    async fn read_entries(&self, read: Read) -> Result<Option<RowPage>, Error> {
        let pages = self
            .wanted
            .table
            .read_moment(vec![read], self.wanted.patience);
        let ranges = pages.await?.map(|pages| pages.ranges);
        let pages = ranges.and_then(|mut ranges| ranges.pop());
        Ok(pages
            .and_then(|pages| <[RowPage; 1]>::try_from(pages).ok())
            .map(|[page]| page))
    }
}

impl IntoFuture for Lookup {
    type Output = Result<Vec<Row>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}

impl Scan {
    pub(crate) fn new(table: &Table) -> Scan {
        let wanted = IndexRead::new(table, IndexRows::default(), Vec::new(), None);
        let mut wanted = wanted.expect("a table has a primary key");
        wanted.plan.order = RowOrder::Any;
        Scan { wanted }
    }

    /// Reads in the order of the primary key.
    pub fn ascending(mut self) -> Self {
        self.wanted.plan.order = RowOrder::Ascending;
        self
    }
}

impl Table {
    /// Returns the row with this pk.
    ///
    /// # Errors
    /// The same as for awaiting a [`Lookup`].
    pub async fn get(&self, pk: &[Value]) -> Result<Option<Row>, Error> {
        let rows = self.lookup(IndexSelector::PrimaryKey, pk)?.limit(1).await?;
        Ok(rows.into_iter().next())
    }

    /// Returns a lookup of the rows that have these values in the first columns of an index.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]; [`Error::IncompleteKey`] if the values do not fix one partition of
    /// the index; [`Error::WrongType`].
    pub fn lookup<'b>(
        &self,
        by: impl Into<IndexSelector<'b>>,
        key: &[Value],
    ) -> Result<Lookup, Error> {
        Lookup::new(self, by.into(), key)
    }

    /// Returns all rows, or the rows that pass a filter.
    pub fn scan(&self) -> Scan {
        Scan::new(self)
    }

    /// Returns rows with this encoded key. The key must have exactly the columns by which the
    /// replex is partitioned. This is the fastest way, for callers that encode keys and decode rows
    /// themselves.
    ///
    /// # Errors
    /// As [`Table::read_page`].
    #[doc(hidden)]
    pub async fn get_raw(&self, replex: u8, key: &[u8], limit: u32) -> Result<RowPage, Error> {
        let layout = &self.definition().layout;
        let number = layout.partition_of_key(usize::from(replex), key);
        let read = Read {
            start: Bytes::from(key),
            end: prefix_end(key).map(Bytes),
            limit,
            ..Read::of(
                self.epoch(),
                PartitionId {
                    table: self.id(),
                    replex,
                    number,
                },
            )
        };
        self.read_page(read, None).await
    }

    /// Returns the pages of several ranges of this table's partitions, as of one moment. The rows
    /// stay encoded. Returns none if the ranges are too large for that, or change too often. The
    /// limit of each read applies to all pages of its range together.
    ///
    /// # Errors
    /// [`Error::Deadline`], [`Error::TableGone`], [`Error::Invalid`].
    #[doc(hidden)]
    pub async fn read_moment(
        &self,
        reads: Vec<Read>,
        patience: Option<Duration>,
    ) -> Result<Option<MomentPages>, Error> {
        let what = format!("a read of table {}", self.schema().name);
        self.client().read_moment(reads, patience, &what).await
    }

    /// Returns one page of a partition. The rows stay encoded. The method sets the read's epoch.
    ///
    /// # Errors
    /// [`Error::Deadline`], [`Error::TableGone`], [`Error::Invalid`].
    #[doc(hidden)]
    pub async fn read_page(
        &self,
        read: Read,
        patience: Option<Duration>,
    ) -> Result<RowPage, Error> {
        let outcome = self.client().hub();
        let patience = patience.unwrap_or(outcome.options().deadline);
        let deadline_us = outcome.deadline_us(patience);
        match outcome
            .run(SessionOperation::Read(read), deadline_us)
            .await?
        {
            SessionOutcome::Rows(page) => Ok(page),
            outcome => {
                let what = format!("a read of table {}", self.schema().name);
                let outcome = self.client().judge(outcome, &what)?;
                Err(other_outcome(&outcome))
            }
        }
    }
}
