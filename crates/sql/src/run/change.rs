//! Runs changes: one operation per row, many at a time, and collects their outcomes.

use std::collections::HashSet;

use futures_util::stream::{FuturesUnordered, StreamExt};
use placement::encode_key;
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::identity::TableId;
use protocol::operation::{Action, Mutation};

use super::{Attempt, ReadContext, Sender, StatementOutcome, conflict};
use crate::error::{SqlError, StatementProgress};
use crate::plan::{ChangeKind, ChangePlan, ChangeTarget, InsertPlan};
use crate::store::Store;

/// The most rows that one `UPDATE` or `DELETE` finds by a read.
pub const CHANGE_ROWS_MAX: usize = 1_000_000;
/// The most rows of one statement that are in flight at the same time.
pub const ROWS_IN_FLIGHT_MAX: usize = 256;

/// Runs an `INSERT`.
pub(super) async fn insert<S: Store>(
    reading: &ReadContext<'_, S>,
    plan: InsertPlan,
) -> Result<StatementOutcome, Attempt> {
    let table = table(reading, plan.table);
    let in_flight = insert_in_flight(plan.in_order);
    let sender = Sender {
        store: reading.store,
        table,
    };
    let inserts = plan.mutations.into_iter();
    let send = |mutation| conflict::send(&sender, mutation, plan.left_out);
    let done = changes(inserts, in_flight, send).await?;
    Ok(StatementOutcome::Done(format!("INSERT 0 {done}")))
}

/// Returns the most rows of an INSERT that may be in flight at the same time.
fn insert_in_flight(in_order: bool) -> usize {
    if in_order { 1 } else { ROWS_IN_FLIGHT_MAX }
}

/// Runs an `UPDATE` or `DELETE`.
pub(super) async fn change<S: Store>(
    reading: &ReadContext<'_, S>,
    plan: ChangePlan,
) -> Result<StatementOutcome, Attempt> {
    let table = table(reading, plan.table);
    let keys = match &plan.target {
        ChangeTarget::Keys(keys) => keys.clone(),
        ChangeTarget::Rows(read) => {
            let projection = read
                .projection
                .as_deref()
                .expect("a change reads keys only");
            let places: Vec<usize> = table
                .schema
                .primary_key
                .iter()
                .map(|column| projection.binary_search(&(*column as u16)))
                .map(|place| place.expect("the projection holds the primary key"))
                .collect();
            let rows = reading.all(read, CHANGE_ROWS_MAX).await?;
            let keys = rows
                .iter()
                .map(|row| encode_key(places.iter().map(|place| row[*place].as_ref())));
            // A row that moved while a read went on that is of no one state can have been found
            // twice, and is to be changed once all the same (R35).
            let mut known = HashSet::new();
            keys.filter(|key| known.insert(key.clone())).collect()
        }
    };
    let mutations = keys.into_iter().map(|pk| Mutation {
        pk: Bytes(pk),
        action: match &plan.change {
            ChangeKind::Update(assignments) => Action::Update {
                assignments: assignments.clone(),
                condition: plan.condition.clone(),
            },
            ChangeKind::Delete => Action::Delete {
                condition: plan.condition.clone(),
            },
        },
    });
    let in_flight = insert_in_flight(plan.in_order);
    let sender = Sender {
        store: reading.store,
        table,
    };
    let done = changes(mutations, in_flight, |it| sender.send(it)).await?;
    let verb = match plan.change {
        ChangeKind::Update(_) => "UPDATE",
        ChangeKind::Delete => "DELETE",
    };
    Ok(StatementOutcome::Done(format!("{verb} {done}")))
}

/// Sends mutations, a limited number at a time, and counts the rows that changed. After the first
/// failure it sends no more. It waits for the mutations that were sent, so that the error can
/// report how many rows changed.
async fn changes<F: Future<Output = Result<bool, Attempt>>>(
    mut mutations: impl ExactSizeIterator<Item = Mutation>,
    in_flight: usize,
    send: impl Fn(Mutation) -> F,
) -> Result<usize, Attempt> {
    let mut progress = StatementProgress {
        done: 0,
        of: mutations.len(),
    };
    let mut sent = FuturesUnordered::new();
    let mut failed: Option<Attempt> = None;
    loop {
        while failed.is_none() && sent.len() < in_flight {
            let Some(mutation) = mutations.next() else {
                break;
            };
            sent.push(send(mutation));
        }
        match sent.next().await {
            None => break,
            Some(Ok(true)) => progress.done += 1,
            Some(Ok(false)) => {}
            Some(Err(error)) => {
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        None => Ok(progress.done),
        // Planned again, rows that were changed already would count as duplicates.
        Some(Attempt::Stale(error)) if progress.done == 0 => Err(Attempt::Stale(error)),
        Some(Attempt::Stale(error) | Attempt::SnapshotEnded(error)) => {
            Err(SqlError::from(error).after(progress).into())
        }
        Some(Attempt::Failed(error) | Attempt::Planned(error)) => Err(error.after(progress).into()),
    }
}

fn table<'a, S>(reading: &ReadContext<'a, S>, table: TableId) -> &'a PlacedTable {
    let table = reading.configuration.table(table);
    table.expect("the plan was made over this configuration")
}

impl SqlError {
    /// Adds the part that the statement had completed before it stopped.
    fn after(mut self, progress: StatementProgress) -> SqlError {
        match &mut self {
            SqlError::Duplicate { done, .. }
            | SqlError::NotDense { done, .. }
            | SqlError::Invalid { done, .. }
            | SqlError::Conflict { done, .. }
            | SqlError::Store { done, .. } => *done = progress,
            _ => {}
        }
        self
    }
}

impl From<Attempt> for SqlError {
    fn from(attempt: Attempt) -> SqlError {
        match attempt {
            Attempt::Failed(error) | Attempt::Planned(error) => error,
            Attempt::Stale(error) | Attempt::SnapshotEnded(error) => error.into(),
        }
    }
}
