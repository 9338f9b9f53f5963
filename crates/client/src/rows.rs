//! A stream of rows that show one state of the table. A small result is read as of one moment. A
//! larger result is read page by page from a snapshot, with back-pressure: the client requests a
//! page only when it has room for the page.

use std::collections::HashMap;

use placement::{Column, RowView, Value};
use protocol::identity::Version;
use protocol::message::{Consistency, SnapshotFailure};
use session::gather::{Gather, GatherStep};
use session::{SessionOperation, SessionOutcome};
use tokio::sync::mpsc;

use crate::client::{Client, other_outcome};
use crate::error::Error;
use crate::hub::{SubmittedOperation, Waiter};
use crate::index_read::IndexRead;
use crate::snapshot::Snapshot;

/// Rows between looks at whether more pages should be asked for.
const LOOK_EVERY: u64 = 256;
/// Rows of a page that [`Rows::next_page`] gives at most.
const PAGE_ROWS: usize = 1_024;

/// A row that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The version of the row. It rises with every change.
    pub version: Version,
    /// One value per requested column, in the requested order.
    pub values: Vec<Value>,
}

/// A read in progress. Dropping it cancels it.
#[derive(Debug)]
pub struct Rows {
    client: Client,
    what: String,
    /// The read, to be begun again if the table turns out to be cut otherwise.
    wanted: IndexRead,
    gather: Gather,
    columns: Vec<Column>,
    visible: usize,
    sender: mpsc::UnboundedSender<(usize, SessionOutcome)>,
    /// The read requests at most one page per partition at a time, and reads few partitions at a
    /// time.
    receiver: mpsc::UnboundedReceiver<(usize, SessionOutcome)>,
    submitted: HashMap<usize, SubmittedOperation>,
    taken: u64,
    failed: bool,
    /// None until the first page is wanted.
    is_of_one_moment: Option<bool>,
    /// The snapshot that pages are read of, as long as they are.
    snapshot: Option<Snapshot>,
}

impl Rows {
    pub(crate) fn begin(mut wanted: IndexRead) -> Result<Rows, Error> {
        wanted.table.check_plan(&wanted.plan)?;
        let snapshot = wanted.snapshot.take();
        if let Some(snapshot) = &snapshot {
            snapshot.check(&wanted.table)?;
        }
        let table = &wanted.table;
        let gather = Gather::new(table.definition(), wanted.plan.clone());
        let (sender, receiver) = mpsc::unbounded_channel();
        Ok(Rows {
            client: table.client().clone(),
            what: format!("a read of table {}", table.schema().name),
            columns: gather.columns().to_vec(),
            visible: gather.visible_columns(),
            gather,
            sender,
            receiver,
            submitted: HashMap::new(),
            taken: 0,
            failed: false,
            is_of_one_moment: snapshot.as_ref().map(|_| true),
            snapshot,
            wanted,
        })
    }

    /// Returns whether all rows are as of one moment: between the first call and its answer, or the
    /// moment of a snapshot. If not, the read is stale by request, or a server of the table was
    /// missing, so no snapshot was possible. Then a row that moves in the order of its index during
    /// the read may be missing or appear twice. Returns none before the first row was requested.
    pub fn is_of_one_moment(&self) -> Option<bool> {
        self.is_of_one_moment
    }

    /// Returns the next row. Returns none at the end, and after an error.
    ///
    /// # Errors
    /// [`Error::Deadline`] if a partition does not answer in time, [`Error::TableGone`],
    /// [`Error::Invalid`] for a filter that cannot be evaluated. [`Error::Snapshot`] if the
    /// snapshot that is read has ended: the rows before are of one state, and none of the others
    /// come.
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        if self.failed {
            return Ok(None);
        }
        if self.is_of_one_moment.is_none() {
            self.read_moment().await?;
        }
        if self.taken.is_multiple_of(LOOK_EVERY) {
            self.submit_reads();
        }
        loop {
            match self.gather.step() {
                GatherStep::Row(version, row) => {
                    self.taken += 1;
                    return match decode(&self.columns, self.visible, row) {
                        Ok(values) => Ok(Some(Row { version, values })),
                        Err(error) => {
                            self.failed = true;
                            Err(error)
                        }
                    };
                }
                GatherStep::End => {
                    self.snapshot = None;
                    return Ok(None);
                }
                GatherStep::Wait => {
                    self.submit_reads();
                    self.take_page().await?;
                }
            }
        }
    }

    /// Waits for at least one row, and returns all rows that have arrived. Returns none at the end.
    ///
    /// # Errors
    /// As [`Rows::next`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<Row>>, Error> {
        let Some(first) = self.next().await? else {
            return Ok(None);
        };
        let mut page = vec![first];
        while page.len() < PAGE_ROWS {
            let GatherStep::Row(version, row) = self.gather.step() else {
                break;
            };
            self.taken += 1;
            let values = decode(&self.columns, self.visible, row)?;
            page.push(Row { version, values });
        }
        self.submit_reads();
        Ok(Some(page))
    }

    /// Returns all remaining rows.
    ///
    /// # Errors
    /// As [`Rows::next`].
    pub async fn all(mut self) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        while let Some(row) = self.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }

    /// Returns the number of rows, for a read that only counts.
    ///
    /// # Errors
    /// As [`Rows::next`].
    pub async fn count(mut self) -> Result<u64, Error> {
        while self.next().await?.is_some() {}
        Ok(self.gather.count())
    }

    /// Reads all of it as of one moment if it is small enough, or opens a snapshot for it.
    async fn read_moment(&mut self) -> Result<(), Error> {
        let result = loop {
            let Err(failure) = self.try_moment().await else {
                break Ok(());
            };
            match self.wanted.follow(&failure).await {
                Ok(true) => {
                    let definition = self.wanted.table.definition();
                    self.gather = Gather::new(definition, self.wanted.plan.clone());
                }
                Ok(false) => break Err(failure),
                Err(error) => break Err(error),
            }
        };
        self.failed |= result.is_err();
        result
    }

    async fn try_moment(&mut self) -> Result<(), Error> {
        let reads = self.gather.moment_reads();
        if reads.is_empty() {
            self.is_of_one_moment = Some(true);
            return Ok(());
        }
        let read = self
            .client
            .read_moment(reads, self.wanted.patience, &self.what);
        match read.await {
            Ok(Some(pages)) => {
                self.is_of_one_moment = Some(true);
                let accepted = self.gather.accept_moment(pages.ranges);
                accepted.map_err(|error| Error::Protocol {
                    message: error.to_string(),
                })
            }
            Ok(None) if self.wanted.plan.consistency == Consistency::Stale => {
                self.is_of_one_moment = Some(false);
                Ok(())
            }
            Ok(None) => self.open_snapshot().await,
            Err(error) => Err(error),
        }
    }

    /// Opens a snapshot for the read. While a server of the table is missing, no snapshot is
    /// possible, and the read continues without one.
    async fn open_snapshot(&mut self) -> Result<(), Error> {
        let tables = vec![self.wanted.table.id()];
        match self
            .client
            .open_snapshot(tables, self.wanted.patience)
            .await
        {
            Ok(snapshot) => {
                self.gather.read_at(snapshot.id());
                self.snapshot = Some(snapshot);
                self.is_of_one_moment = Some(true);
                Ok(())
            }
            Err(Error::Snapshot {
                reason: SnapshotFailure::ServerMissing(_),
            }) => {
                self.is_of_one_moment = Some(false);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn submit_reads(&mut self) {
        let hub = self.client.hub();
        let patience = self.wanted.patience.unwrap_or(hub.options().deadline);
        while let Some((index, read)) = self.gather.next_read() {
            let waiter = Waiter::Many(index, self.sender.clone());
            let deadline_us = hub.deadline_us(patience);
            let submitted = hub.submit(SessionOperation::Read(read), deadline_us, waiter);
            self.submitted.insert(index, submitted);
        }
    }

    async fn take_page(&mut self) -> Result<(), Error> {
        assert!(!self.submitted.is_empty(), "a waiting scan has asked");
        let came = self.receiver.recv().await;
        let (index, outcome) = came.expect("this holds a sender itself");
        if let Some(mut submitted) = self.submitted.remove(&index) {
            submitted.ended = true;
        }
        let result = match self.client.judge(outcome, &self.what) {
            Ok(SessionOutcome::Rows(page)) => {
                self.gather
                    .accept(index, page)
                    .map_err(|error| Error::Protocol {
                        message: error.to_string(),
                    })
            }
            Ok(other) => Err(other_outcome(&other)),
            Err(error) => Err(error),
        };
        self.failed |= result.is_err();
        result
    }
}

/// Decodes the first `visible` values of a row.
pub(crate) fn decode(columns: &[Column], visible: usize, row: &[u8]) -> Result<Vec<Value>, Error> {
    let view = RowView::parse(columns, row)?;
    Ok((0..visible)
        .map(|index| view.column(index).to_owned())
        .collect())
}
