//! Sends the rows of several lines as one transaction.
//!
//! A transaction visits the cores of all of its primaries in turn. So lines are collected by the
//! core of their primary, and a transaction visits one core.

use std::collections::BTreeMap;

use futures_util::stream::{FuturesUnordered, StreamExt};
use placement::Schema;
use protocol::codec::Wire;
use protocol::configuration::{Configuration, PlacedTable, routes};
use protocol::identity::CoreId;
use protocol::operation::Mutation;
use protocol::transaction::{ChangeOutcome, TransactionChange, TransactionResult};

use super::BATCHES_IN_FLIGHT;
use crate::error::SqlError;
use crate::plan::has_dense;
use crate::run::Sender;
use crate::store::Store;

/// A transaction takes no further row once its rows have this many bytes. The limits of
/// transactions are far above.
const BATCH_BYTES: usize = 512 << 10;
/// The number of rows that are under way at a time after their transaction has aborted.
const ROWS_IN_FLIGHT: usize = 128;

/// Lines, each with its number and the change that it asks for.
pub(super) type Batch = Vec<(u64, Mutation)>;

/// Returns whether the lines of a table are sent one after the other in the order of the file: rows
/// of a dense index follow one another, and a row that refers to the same table follows the row
/// that it refers to.
fn is_ordered(schema: &Schema) -> bool {
    let mut keys = schema.constraints.foreign_keys.iter();
    has_dense(schema) || keys.any(|key| key.parent == schema.name)
}

/// Returns the most rows of a transaction, and the most transactions under way at a time.
pub(super) fn limits(schema: &Schema, in_flight: usize) -> (usize, usize) {
    if has_dense(schema) {
        (1, 1)
    } else if is_ordered(schema) {
        (in_flight, 1)
    } else {
        (in_flight / BATCHES_IN_FLIGHT, usize::MAX)
    }
}

/// The lines that were read and not sent.
pub(super) struct Collected<'a> {
    configuration: &'a Configuration,
    table: &'a PlacedTable,
    is_ordered: bool,
    by_core: BTreeMap<Option<CoreId>, Open>,
    rows: usize,
    rows_max: usize,
    /// For the size of a line.
    buffer: Vec<u8>,
}

/// The lines of one core, and their size.
#[derive(Default)]
struct Open {
    batch: Batch,
    bytes: usize,
}

impl<'a> Collected<'a> {
    /// Collects lines for transactions of at most `rows_max` rows.
    pub(super) fn new(
        configuration: &'a Configuration,
        table: &'a PlacedTable,
        rows_max: usize,
    ) -> Collected<'a> {
        Collected {
            configuration,
            table,
            is_ordered: is_ordered(&table.schema),
            by_core: BTreeMap::new(),
            rows: 0,
            rows_max,
            buffer: Vec::new(),
        }
    }

    /// Returns the number of lines.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a line. Returns the lines of its core if they are enough for a transaction.
    pub(super) fn add(&mut self, line: u64, mutation: Mutation) -> Option<Batch> {
        let core = self.core_of(&mutation);
        let open = self.by_core.entry(core).or_default();
        self.buffer.clear();
        mutation.encode(&mut self.buffer);
        open.bytes += self.buffer.len();
        open.batch.push((line, mutation));
        self.rows += 1;
        let is_enough = open.batch.len() >= self.rows_max || open.bytes >= BATCH_BYTES;
        if is_enough { self.take(core) } else { None }
    }

    /// Returns the most lines of one core; none if there are no lines.
    pub(super) fn take_largest(&mut self) -> Option<Batch> {
        let largest = self.by_core.iter().max_by_key(|(_, open)| open.batch.len());
        let core = *largest?.0;
        self.take(core)
    }

    /// Returns lines of one core that precede a line; none if there are none.
    pub(super) fn take_before(&mut self, end: u64) -> Option<Batch> {
        let taken = self.by_core.values_mut().find_map(|open| {
            let before = open.batch.extract_if(.., |(line, _)| *line < end);
            let before: Batch = before.collect();
            (!before.is_empty()).then_some(before)
        })?;
        self.rows -= taken.len();
        Some(taken)
    }

    fn take(&mut self, core: Option<CoreId>) -> Option<Batch> {
        let batch = self.by_core.remove(&core)?.batch;
        self.rows -= batch.len();
        Some(batch)
    }

    /// Returns the core that evaluates a change; none if the lines stay in their order.
    fn core_of(&self, mutation: &Mutation) -> Option<CoreId> {
        if self.is_ordered {
            return None;
        }
        let partition = routes::primary_partition(self.table, &mutation.pk)?;
        let place = self.configuration.place(partition)?;
        Some(place.core)
    }
}

/// Sends a batch. Returns for each line whether it has changed a row, or why not.
pub(super) async fn send<S: Store>(
    sender: &Sender<'_, S>,
    batch: Batch,
) -> Vec<(u64, Result<bool, SqlError>)> {
    if batch.len() < 2 {
        return send_alone(sender, batch).await;
    }
    let changes = batch.iter().map(|(_, mutation)| TransactionChange {
        table: sender.table.id,
        mutation: mutation.clone(),
        must_apply: false,
    });
    let changes = changes.collect();
    let sent = sender
        .store
        .transact(sender.planned, changes, Vec::new(), Vec::new())
        .await;
    match sent {
        Ok(TransactionResult::Committed { outcomes, .. }) => {
            let applied = outcomes.iter().map(|it| *it == ChangeOutcome::Applied);
            let lines = batch.iter().map(|(line, _)| *line);
            lines.zip(applied.map(Ok)).collect()
        }
        Ok(TransactionResult::Aborted { .. }) => send_alone(sender, batch).await,
        Err(error) => {
            let lines = batch.iter().map(|(line, _)| *line);
            lines
                .map(|line| (line, Err(error.clone().into())))
                .collect()
        }
    }
}

/// Sends each line as an operation of its own.
async fn send_alone<S: Store>(
    sender: &Sender<'_, S>,
    batch: Batch,
) -> Vec<(u64, Result<bool, SqlError>)> {
    let in_flight = match is_ordered(&sender.table.schema) {
        true => 1,
        false => ROWS_IN_FLIGHT,
    };
    let mut left = batch.into_iter();
    let mut sent = FuturesUnordered::new();
    let mut answers = Vec::new();
    loop {
        while sent.len() < in_flight {
            let Some((line, mutation)) = left.next() else {
                break;
            };
            let write = sender.send(mutation);
            sent.push(async move { (line, write.await.map_err(SqlError::from)) });
        }
        match sent.next().await {
            Some(answer) => answers.push(answer),
            None => return answers,
        }
    }
}
