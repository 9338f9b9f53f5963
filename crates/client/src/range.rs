//! Reads the rows between two keys of an index, in order, from every partition that can have such
//! rows.
//!
//! If the key already determines the partition, use a [`Lookup`](crate::Lookup) with a range of the
//! next column instead.

use std::future::{Future, IntoFuture};
use std::ops::Bound;
use std::pin::Pin;

use placement::{Value, columns_of, encode_prefix, prefix_end};

use crate::error::Error;
use crate::index_read::{IndexRead, IndexRows};
use crate::read_options::common_options;
use crate::rows::Row;
use crate::table::{IndexSelector, Table};

/// A read of the rows between two keys of an index, in its order. Each partition reads its part of
/// the range, and the client merges the parts. Awaiting it returns all rows. [`IndexRange::rows`]
/// returns them one by one.
#[derive(Clone, Debug)]
#[must_use = "it is sent when it is awaited"]
pub struct IndexRange {
    wanted: IndexRead,
}

common_options!(IndexRange);

impl Table {
    /// Returns a read of the rows between two keys of the primary key or of an index, in its order.
    ///
    /// A key has values for the first columns of the index, for all of them or for fewer, and
    /// stands for all rows that have these values: [`Bound::Included`] reads them,
    /// [`Bound::Excluded`] leaves them out, [`Bound::Unbounded`] reads to that end of the index.
    /// Keys are compared column by column, texts and bytes by their bytes. NULL comes after every
    /// value. A descending column of an index sorts the other way: `lower` is the key that comes
    /// first in the index. A range that ends before it begins has no rows.
    ///
    /// One partition is read if both keys share the values that choose it
    /// ([`SchemaBuilder::partitioned_by_first`](crate::SchemaBuilder::partitioned_by_first)), and
    /// otherwise every partition. The rows are as of one moment if they are few
    /// ([`Rows::is_of_one_moment`](crate::Rows::is_of_one_moment)).
    ///
    /// ```no_run
    /// use std::ops::Bound;
    /// use client::{Client, ConnectOptions, Value};
    ///
    /// # async fn example() -> Result<(), client::Error> {
    /// let client = Client::connect(ConnectOptions::new(["127.0.0.1:7400"])).await?;
    /// let flights = client.table("flights").await?;
    /// // The ten last flights of tail numbers from N1 up to, and not with, N2.
    /// let (from, to) = ([Value::Text("N1".into())], [Value::Text("N2".into())]);
    /// let range = flights.range("by_tail", Bound::Included(&from), Bound::Excluded(&to))?;
    /// for row in range.descending().limit(10).await? {
    ///     println!("{:?}", row.values);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]; [`Error::IncompleteKey`] if a key has more values than the index
    /// has columns; [`Error::WrongType`].
    pub fn range<'b>(
        &self,
        by: impl Into<IndexSelector<'b>>,
        lower: Bound<&[Value]>,
        upper: Bound<&[Value]>,
    ) -> Result<IndexRange, Error> {
        IndexRange::new(self, by.into(), lower, upper)
    }
}

impl IndexRange {
    fn new(
        table: &Table,
        by: IndexSelector<'_>,
        lower: Bound<&[Value]>,
        upper: Bound<&[Value]>,
    ) -> Result<IndexRange, Error> {
        let index = table.index(by)?;
        let (from, to) = (values_of(lower), values_of(upper));
        for key in [from, to] {
            table.check_key(&index, key, 0)?;
        }
        let encode = |key: &[Value]| encode_prefix(&index.columns, key);
        // No key stands for all rows: there is none after it, and none is left without it.
        let after = |key: &[Value]| prefix_end(&encode(key));
        let start = match lower {
            Bound::Included(key) => Some(encode(key)),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Some(Vec::new()),
        };
        let end = match upper {
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => Some(encode(key)),
            Bound::Unbounded => None,
        };
        let is_empty = match (&start, &end) {
            (None, _) => true,
            (Some(start), Some(end)) => start >= end,
            (Some(_), None) => false,
        };
        let shared = from.iter().zip(to).take_while(|(one, other)| one == other);
        let shared = from[..shared.count()].iter().cloned();
        let rows = IndexRows {
            index: index.name.map(String::from),
            equated: columns_of(&index.columns).into_iter().zip(shared).collect(),
            none: is_empty,
        };
        let start = start.unwrap_or_default();
        Ok(IndexRange {
            wanted: IndexRead::new(table, rows, start, end)?,
        })
    }
}

impl IntoFuture for IndexRange {
    type Output = Result<Vec<Row>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.rows()?.all().await })
    }
}

fn values_of(bound: Bound<&[Value]>) -> &[Value] {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key,
        Bound::Unbounded => &[],
    }
}
