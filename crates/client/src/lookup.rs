//! What to read: by a key of an index, or everything by asking for it.

use std::future::{Future, IntoFuture};
use std::ops::Bound;
use std::pin::Pin;
use std::time::Duration;

use placement::{Value, encode_key, encode_value, prefix_end};
use protocol::codec::Bytes;
use protocol::expression::Expression;
use protocol::identity::PartitionId;
use protocol::message::{Consistency, Read};
use protocol::session::gather::{Order, PAGE_ROWS_MAX, Plan};
use protocol::session::{Operation, Outcome, route};

use crate::client::other_outcome;
use crate::error::Error;
use crate::rows::{Row, Rows, decode};
use crate::table::Table;

/// Names an index of a table. A text is a name, a number a position among the schema's indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By<'a> {
    /// The primary key.
    PrimaryKey,
    /// The index of this name; the table's name is its primary key.
    Name(&'a str),
    /// The index at this position in the schema.
    Position(usize),
}

impl<'a> From<&'a str> for By<'a> {
    fn from(name: &'a str) -> By<'a> {
        By::Name(name)
    }
}

impl<'a> From<&'a String> for By<'a> {
    fn from(name: &'a String) -> By<'a> {
        By::Name(name)
    }
}

impl From<usize> for By<'_> {
    fn from(position: usize) -> Self {
        By::Position(position)
    }
}

/// What lookups and scans have in common.
#[derive(Clone, Debug)]
struct Wanted<'a> {
    table: &'a Table,
    plan: Plan,
    patience: Option<Duration>,
}

/// Rows with one key of an index: one partition of one replex, one hop. Awaiting it gives all
/// rows; [`Lookup::rows`] gives them as they come.
#[derive(Clone, Debug)]
#[must_use = "it is sent when it is awaited"]
pub struct Lookup<'a> {
    wanted: Wanted<'a>,
    /// The encoded values of the key's first columns.
    prefix: Vec<u8>,
    /// The column after those, if the index has one.
    next_column: Option<usize>,
}

/// All rows of a table that pass a filter: every partition of the primary replex is read. Asked
/// for by name, because it costs as much as the table is large.
#[derive(Clone, Debug)]
#[must_use = "it is sent when its rows are taken"]
pub struct Scan<'a> {
    wanted: Wanted<'a>,
}

macro_rules! common_options {
    ($type:ident) => {
        impl<'a> $type<'a> {
            /// Only rows for which this holds; evaluated where the rows are.
            pub fn filter(mut self, filter: Expression) -> Self {
                self.wanted.plan.filter = Some(filter);
                self
            }

            /// Only these columns, by position, in this order.
            pub fn projection(mut self, columns: impl Into<Vec<u16>>) -> Self {
                self.wanted.plan.projection = Some(columns.into());
                self
            }

            /// At most so many rows.
            pub fn limit(mut self, rows: u64) -> Self {
                self.wanted.plan.limit = Some(rows);
                self
            }

            /// In the order of the index, from its end.
            pub fn descending(mut self) -> Self {
                self.wanted.plan.order = Order::Descending;
                self
            }

            /// `Consistency::Stale` answers at once from what is committed and may miss
            /// operations under way (SAFETY R10).
            pub fn consistency(mut self, consistency: Consistency) -> Self {
                self.wanted.plan.consistency = consistency;
                self
            }

            /// Each page of rows may take so long.
            pub fn deadline(mut self, patience: Duration) -> Self {
                self.wanted.patience = Some(patience);
                self
            }

            /// The rows as they come.
            ///
            /// # Errors
            /// [`Error::NoIndex`] for a column that the table does not have.
            pub fn rows(self) -> Result<Rows, Error> {
                let Wanted {
                    table,
                    plan,
                    patience,
                } = self.wanted;
                Rows::begin(table.client().clone(), table, plan, patience)
            }

            /// How many rows there are, counted where they are.
            ///
            /// # Errors
            /// As [`Rows::next`].
            pub async fn count(mut self) -> Result<u64, Error> {
                self.wanted.plan.count_only = true;
                self.rows()?.count().await
            }

            /// What will be read.
            pub fn plan(&self) -> &Plan {
                &self.wanted.plan
            }
        }
    };
}

common_options!(Lookup);
common_options!(Scan);

impl<'a> Lookup<'a> {
    /// Values of an index's first columns. They must fix the partition.
    pub(crate) fn new(table: &'a Table, by: By<'_>, key: &[Value]) -> Result<Lookup<'a>, Error> {
        let (replex, columns) = table.index(by)?;
        if key.len() > columns.len() {
            return Err(Error::NoIndex {
                message: format!(
                    "{} values for an index of {} columns ({}): give at most one value per column",
                    key.len(),
                    columns.len(),
                    table.column_names(columns)
                ),
            });
        }
        for (column, value) in columns.iter().zip(key) {
            table.check_type(*column, value)?;
        }
        let equated = |column: usize| {
            let position = columns.iter().position(|it| *it == column)?;
            key.get(position).map(Value::as_ref)
        };
        let numbers = route::partitions(table.definition(), replex, equated);
        let [number] = numbers[..] else {
            let needed = table.key_space_columns(replex);
            return Err(Error::NoIndex {
                message: format!(
                    "a lookup needs values of {}, the columns that table {} is partitioned by \
                     there: give all of them, or ask for a scan",
                    table.column_names(&needed),
                    table.schema().name
                ),
            });
        };
        let prefix = encode_key(key.iter().map(Value::as_ref));
        let partition = PartitionId {
            table: table.id(),
            replex,
            number,
        };
        Ok(Lookup {
            wanted: Wanted {
                table,
                plan: Plan {
                    partitions: vec![partition],
                    end: prefix_end(&prefix).map(Bytes),
                    start: Bytes(prefix.clone()),
                    filter: None,
                    projection: None,
                    limit: None,
                    order: Order::Ascending,
                    count_only: false,
                    epoch: table.epoch(),
                    consistency: Consistency::Linearizable,
                },
                patience: None,
            },
            prefix,
            next_column: columns.get(key.len()).copied(),
        })
    }

    /// Only rows whose next column of the index lies between these values. NULL lies nowhere.
    ///
    /// # Errors
    /// [`Error::NoIndex`] if the key names all columns of the index, [`Error::WrongType`] for
    /// values of another type than the column's.
    pub fn range(mut self, lower: Bound<Value>, upper: Bound<Value>) -> Result<Lookup<'a>, Error> {
        let Some(column) = self.next_column else {
            return Err(Error::NoIndex {
                message: "the key names all columns of the index: no column is left for a range"
                    .to_owned(),
            });
        };
        let table = self.wanted.table;
        let key = |value: &Value| {
            let mut key = self.prefix.clone();
            encode_value(&mut key, value.as_ref());
            key
        };
        let after = |key: &[u8]| prefix_end(key).expect("a key has a byte that is not 255");
        for bound in [&lower, &upper] {
            if let Bound::Included(value) | Bound::Excluded(value) = bound {
                table.check_type(column, value)?;
            }
        }
        let start = match &lower {
            Bound::Included(value) => key(value),
            Bound::Excluded(value) => after(&key(value)),
            Bound::Unbounded => self.prefix.clone(),
        };
        let end = match &upper {
            Bound::Included(value) => after(&key(value)),
            Bound::Excluded(value) => key(value),
            // NULLs come last in an index.
            Bound::Unbounded => key(&Value::Null),
        };
        self.wanted.plan.start = Bytes(start);
        self.wanted.plan.end = Some(Bytes(end));
        Ok(self)
    }

    /// All rows, page after page of the one partition.
    async fn fetch(self) -> Result<Vec<Row>, Error> {
        let Wanted {
            table,
            plan,
            patience,
        } = self.wanted;
        table.check_plan(&plan)?;
        let descending = plan.order == Order::Descending;
        let columns = table.projected(plan.projection.as_deref());
        let mut rows = Vec::new();
        let mut left = plan.limit.unwrap_or(u64::MAX);
        let mut read = Read {
            epoch: plan.epoch,
            partition: plan.partitions[0],
            start: plan.start,
            end: plan.end,
            filter: plan.filter,
            projection: plan.projection,
            limit: 0,
            descending,
            count_only: false,
            consistency: plan.consistency,
            redirect: None,
        };
        while left > 0 {
            read.limit = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE_ROWS_MAX);
            let page = table.read_page(read.clone(), patience).await?;
            for (version, row) in page.rows() {
                let values = decode(&columns, columns.len(), row)?;
                rows.push(Row { version, values });
            }
            left = left.saturating_sub(page.count);
            match page.next {
                None => break,
                Some(next) if descending => read.end = Some(next),
                Some(next) => read.start = next,
            }
        }
        Ok(rows)
    }
}

impl<'a> IntoFuture for Lookup<'a> {
    type Output = Result<Vec<Row>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}

impl<'a> Scan<'a> {
    pub(crate) fn new(table: &'a Table) -> Scan<'a> {
        let count = table.definition().layout.partition_count(0);
        let partition = |number| PartitionId {
            table: table.id(),
            replex: 0,
            number,
        };
        Scan {
            wanted: Wanted {
                table,
                plan: Plan {
                    partitions: (0..count).map(partition).collect(),
                    start: Bytes::default(),
                    end: None,
                    filter: None,
                    projection: None,
                    limit: None,
                    order: Order::Any,
                    count_only: false,
                    epoch: table.epoch(),
                    consistency: Consistency::Linearizable,
                },
                patience: None,
            },
        }
    }

    /// In the order of the primary key.
    pub fn ascending(mut self) -> Self {
        self.wanted.plan.order = Order::Ascending;
        self
    }
}

impl Table {
    /// One page of a partition, as it comes: rows are not decoded. The epoch is filled in.
    ///
    /// # Errors
    /// [`Error::Deadline`], [`Error::TableGone`], [`Error::Invalid`].
    pub async fn read_page(
        &self,
        read: Read,
        patience: Option<Duration>,
    ) -> Result<protocol::message::RowPage, Error> {
        let outcome = self.client().hub();
        let patience = patience.unwrap_or(outcome.options().deadline);
        let deadline_us = outcome.deadline_us(patience);
        match outcome.run(Operation::Read(read), deadline_us).await? {
            Outcome::Rows(page) => Ok(page),
            outcome => {
                let what = format!("a read of table {}", self.schema().name);
                let outcome = self.client().judge(outcome, &what)?;
                Err(other_outcome(&outcome))
            }
        }
    }
}
