//! Runs changes: one operation per row, many at a time, and what became of them.

use client::protocol::codec::Bytes;
use client::protocol::configuration::Table;
use client::protocol::identity::TableId;
use client::protocol::operation::{Action, Mutation, RequestResult};
use futures_util::stream::{FuturesUnordered, StreamExt};
use placement::{ColumnType, ReplexKind, decode_key, encode_key};

use super::{Attempt, Outcome, Reading};
use crate::error::{Error, Progress};
use crate::plan::{Change, ChangePlan, InsertPlan, Target, text};
use crate::store::Store;

/// The most rows of one `UPDATE` or `DELETE` that were found by a read.
pub const CHANGE_ROWS_MAX: usize = 1_000_000;
/// The most rows of one statement on their way at the same time.
pub const ROWS_IN_FLIGHT_MAX: usize = 256;
/// How often a row is tried again that others held for too long (SAFETY R8).
pub const CONFLICT_RETRIES_MAX: usize = 3;

/// Runs an `INSERT`.
pub(super) async fn insert<S: Store>(
    reading: &Reading<'_, S>,
    plan: InsertPlan,
) -> Result<Outcome, Attempt> {
    let table = table(reading, plan.table);
    let in_flight = insert_in_flight(plan.in_order);
    let done = changes(reading.store, table, plan.mutations.into_iter(), in_flight).await?;
    Ok(Outcome::Done(format!("INSERT 0 {done}")))
}

/// How many rows may be on their way at the same time.
fn insert_in_flight(in_order: bool) -> usize {
    if in_order { 1 } else { ROWS_IN_FLIGHT_MAX }
}

/// Runs an `UPDATE` or `DELETE`.
pub(super) async fn change<S: Store>(
    reading: &Reading<'_, S>,
    plan: ChangePlan,
) -> Result<Outcome, Attempt> {
    let table = table(reading, plan.table);
    let keys = match &plan.target {
        Target::Keys(keys) => keys.clone(),
        Target::Rows(read) => {
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
            keys.collect()
        }
    };
    let mutations = keys.into_iter().map(|pk| Mutation {
        pk: Bytes(pk),
        action: match &plan.change {
            Change::Update(assignments) => Action::Update {
                assignments: assignments.clone(),
                condition: plan.condition.clone(),
            },
            Change::Delete => Action::Delete {
                condition: plan.condition.clone(),
            },
        },
    });
    let in_flight = insert_in_flight(plan.in_order);
    let done = changes(reading.store, table, mutations, in_flight).await?;
    let verb = match plan.change {
        Change::Update(_) => "UPDATE",
        Change::Delete => "DELETE",
    };
    Ok(Outcome::Done(format!("{verb} {done}")))
}

/// Sends mutations, so many at a time, and counts the rows that changed. After the first failure
/// no more are sent; those on their way are waited for, so that the error can say how many rows
/// changed.
async fn changes<S: Store>(
    store: &S,
    table: &Table,
    mut mutations: impl ExactSizeIterator<Item = Mutation>,
    in_flight: usize,
) -> Result<usize, Attempt> {
    let sender = Sender { store, table };
    let mut progress = Progress {
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
            sent.push(sender.send(mutation));
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
        // Planned anew, rows that were changed already would count as duplicates.
        Some(Attempt::Stale(error)) if progress.done == 0 => Err(Attempt::Stale(error)),
        Some(Attempt::Stale(error)) => Err(Error::from(error).after(progress).into()),
        Some(Attempt::Failed(error) | Attempt::Planned(error)) => Err(error.after(progress).into()),
    }
}

/// Sends single mutations of one table.
#[derive(Debug)]
pub(crate) struct Sender<'a, S> {
    /// Where to.
    pub store: &'a S,
    /// The table.
    pub table: &'a Table,
}

impl<S: Store> Sender<'_, S> {
    /// Sends one mutation; whether a row changed.
    pub async fn send(&self, mutation: Mutation) -> Result<bool, Attempt> {
        let table = self.table.schema.name.clone();
        let done = Progress::default();
        for _ in 0..CONFLICT_RETRIES_MAX {
            let result = self.store.execute(self.table.id, mutation.clone()).await?;
            return Err(Attempt::Failed(match result {
                RequestResult::Applied { .. } => return Ok(true),
                RequestResult::Kept | RequestResult::NotFound | RequestResult::ConditionFailed => {
                    return Ok(false);
                }
                RequestResult::Conflict => continue,
                RequestResult::Duplicate { replex, key } => Error::Duplicate {
                    table,
                    key: describe_key(self.table, usize::from(replex), &key),
                    done,
                },
                RequestResult::NotDense { replex, expected } => Error::NotDense {
                    table,
                    index: replex_name(self.table, usize::from(replex)),
                    expected,
                    done,
                },
                RequestResult::Invalid { message } => Error::Invalid {
                    table,
                    message,
                    done,
                },
            }));
        }
        Err(Attempt::Failed(Error::Conflict { table, done }))
    }
}

fn table<'a, S>(reading: &Reading<'a, S>, table: TableId) -> &'a Table {
    let table = reading.configuration.table(table);
    table.expect("the plan was made over this configuration")
}

fn replex_name(table: &Table, replex: usize) -> String {
    let replex = table.layout.replexes.get(replex);
    replex.map_or_else(|| "unknown".to_string(), |it| it.name.clone())
}

/// `index by_email (email) = ('a@b')`; the bytes where they are no such key.
fn describe_key(table: &Table, replex: usize, key: &[u8]) -> String {
    let name = match table.layout.replexes.get(replex).map(|it| it.kind) {
        Some(ReplexKind::Primary) => "primary key".to_string(),
        _ => format!("index {}", replex_name(table, replex)),
    };
    let columns = table
        .layout
        .replexes
        .get(replex)
        .map(|it| &it.sort_columns[..]);
    let columns = columns.unwrap_or(&[]);
    let types: Vec<ColumnType> = columns
        .iter()
        .map(|column| table.schema.columns[*column].column_type)
        .collect();
    match decode_key(key, &types) {
        Ok(values) => text::key(&name, &table.schema, columns, &values),
        Err(_) => name,
    }
}

impl Error {
    /// Adds what the statement had done before it stopped.
    fn after(mut self, progress: Progress) -> Error {
        match &mut self {
            Error::Duplicate { done, .. }
            | Error::NotDense { done, .. }
            | Error::Invalid { done, .. }
            | Error::Conflict { done, .. }
            | Error::Store { done, .. } => *done = progress,
            _ => {}
        }
        self
    }
}

impl From<Attempt> for Error {
    fn from(attempt: Attempt) -> Error {
        match attempt {
            Attempt::Failed(error) | Attempt::Planned(error) => error,
            Attempt::Stale(error) => error.into(),
        }
    }
}
