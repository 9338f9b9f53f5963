//! Runs changes. A statement that changes several rows is one transaction, so that all rows are
//! changed or none. Beyond the limits of a transaction, each row is an operation of its own, and
//! many are under way at a time.

use std::collections::HashSet;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use placement::encode_key;
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::identity::TableId;
use protocol::operation::{Action, Mutation, RequestResult};
use protocol::transaction::{
    AbortReason, ChangeOutcome, TransactionChange, TransactionResult, check_size,
};

use super::children::changes_children;
use super::insert_select;
use super::returning::Returned;
use super::sender::ROWS_IN_FLIGHT_MAX;
use super::{
    Attempt, CONFLICT_ATTEMPTS_MAX, ReadContext, Sender, StatementOutcome, cascade, conflict,
};
use crate::error::{SqlError, StatementProgress};
use crate::plan::{ChangeKind, ChangePlan, ChangeTarget, InsertPlan, SkippedDuplicates};
use crate::store::Store;

/// The most rows that one `UPDATE` or `DELETE` finds by a read.
pub const CHANGE_ROWS_MAX: usize = 1_000_000;

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
        planned: reading.configuration.epoch,
    };
    let leaves_out = plan.left_out != SkippedDuplicates::Nothing;
    if leaves_out && reading.store.is_transaction() {
        return Err(SqlError::unsupported(
            "ON CONFLICT DO NOTHING for other keys than the primary key in a transaction",
            "name the primary key: ON CONFLICT (columns)",
        )
        .into());
    }
    if plan.only_together && (plan.in_order || leaves_out) && plan.mutations.len() > 1 {
        return Err(SqlError::unsupported(
            "INSERT … SELECT of several rows that must be inserted one by one",
            "insert rows into tables with dense indexes one by one, name the primary key after ON \
             CONFLICT, and leave duplicates out of the SELECT",
        )
        .into());
    }
    if plan.only_together {
        check_together(&plan.mutations, table)?;
    }
    let mut returned = Returned::new(&plan.returning, table.id);
    returned.expect(&plan.mutations, table)?;
    let pks = returned.pks(&plan.mutations);
    let applied = match plan.in_order || leaves_out {
        true => Err(plan.mutations),
        false => together(reading, &sender, plan.mutations).await?,
    };
    let applied = match applied {
        Ok(applied) => applied,
        Err(mutations) => {
            let send = |mutation| conflict::send(&sender, mutation, plan.left_out);
            changes(mutations.into_iter(), in_flight, send).await?
        }
    };
    returned.read(reading, &pks, &applied).await?;
    Ok(returned.outcome("INSERT 0", &applied)?)
}

/// Checks that one transaction takes all rows.
fn check_together(mutations: &[Mutation], table: &PlacedTable) -> Result<(), SqlError> {
    let changes = mutations.iter().map(|mutation| TransactionChange {
        table: table.id,
        mutation: mutation.clone(),
        must_apply: false,
    });
    let changes: Vec<TransactionChange> = changes.collect();
    check_size(&changes, &[], &[]).map_err(|why| insert_select::too_large(&why))
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
    let keys = found_keys(reading, table, &plan.target).await?;
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
    let changes = RowChanges {
        table,
        mutations: mutations.collect(),
        is_delete: plan.change == ChangeKind::Delete,
        in_order: plan.in_order,
        returned: Returned::new(&plan.returning, table.id),
    };
    apply(reading, changes).await
}

/// The changes of rows by an `UPDATE` or `DELETE`.
pub(super) struct RowChanges<'a> {
    /// The table.
    pub table: &'a PlacedTable,
    /// The changes, each of another row.
    pub mutations: Vec<Mutation>,
    /// Whether rows are removed, so that those to return are read before.
    pub is_delete: bool,
    /// Whether each mutation waits for the previous one.
    pub in_order: bool,
    /// The rows that the statement returns.
    pub returned: Returned<'a>,
}

/// Changes rows, and returns the outcome of the statement.
pub(super) async fn apply<S: Store>(
    reading: &ReadContext<'_, S>,
    changes: RowChanges<'_>,
) -> Result<StatementOutcome, Attempt> {
    let RowChanges {
        table,
        mutations,
        is_delete,
        in_order,
        mut returned,
    } = changes;
    let in_flight = insert_in_flight(in_order);
    let sender = Sender {
        store: reading.store,
        table,
        planned: reading.configuration.epoch,
    };
    let pks = returned.pks(&mutations);
    if is_delete {
        returned.read(reading, &pks, &vec![true; pks.len()]).await?;
    }
    let applied = if is_delete && changes_children(reading.configuration, table) {
        Ok(cascade::delete(reading, table, mutations).await?)
    } else if in_order {
        Err(mutations)
    } else {
        together(reading, &sender, mutations).await?
    };
    let applied = match applied {
        Ok(applied) => applied,
        Err(mutations) => {
            self::changes(mutations.into_iter(), in_flight, |it| sender.send(it)).await?
        }
    };
    if !is_delete {
        returned.read(reading, &pks, &applied).await?;
    }
    let verb = if is_delete { "DELETE" } else { "UPDATE" };
    Ok(returned.outcome(verb, &applied)?)
}

/// Returns the pks of the rows to change, each once.
async fn found_keys<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &PlacedTable,
    target: &ChangeTarget,
) -> Result<Vec<Vec<u8>>, Attempt> {
    Ok(match target {
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
    })
}

/// Sends mutations of several rows as one transaction. Returns for each one whether its row
/// changed, or the mutations if they are to be sent one by one: because there is only one, because
/// the session's transaction collects them, or because they exceed the limits of a transaction.
async fn together<S: Store>(
    reading: &ReadContext<'_, S>,
    sender: &Sender<'_, S>,
    mutations: Vec<Mutation>,
) -> Result<Result<Vec<bool>, Vec<Mutation>>, Attempt> {
    if mutations.len() < 2 || sender.store.is_transaction() {
        return Ok(Err(mutations));
    }
    let changes = mutations.into_iter().map(|mutation| TransactionChange {
        table: sender.table.id,
        mutation,
        must_apply: false,
    });
    let changes: Vec<TransactionChange> = changes.collect();
    if let Err(why) = check_size(&changes, &[], &[]) {
        let notices = reading.notices.lock();
        let mut notices = notices.expect("nothing panics while it is held");
        notices.push(format!(
            "the statement is no transaction, and each row is changed by itself: {why}"
        ));
        return Ok(Err(changes.into_iter().map(|it| it.mutation).collect()));
    }
    let mut attempts = 1;
    loop {
        let result = sender
            .store
            .transact(sender.planned, changes.clone(), Vec::new(), Vec::new())
            .await?;
        match result {
            TransactionResult::Committed { outcomes, .. } => {
                let applied = outcomes.iter().map(|it| *it == ChangeOutcome::Applied);
                return Ok(Ok(applied.collect()));
            }
            TransactionResult::Aborted { ref reason, .. } => {
                if *reason == AbortReason::Conflict && attempts < CONFLICT_ATTEMPTS_MAX {
                    attempts += 1;
                    continue;
                }
                let refused = RequestResult::of_abort(reason);
                sender.changed(refused.unwrap_or(RequestResult::Transaction(result)))?;
            }
        }
    }
}

/// Sends mutations, a limited number at a time. Returns for each one whether its row changed. After
/// the first failure it sends no more. It waits for the mutations that were sent, so that the error
/// can report how many rows changed.
async fn changes<F: Future<Output = Result<bool, Attempt>>>(
    mutations: impl ExactSizeIterator<Item = Mutation>,
    in_flight: usize,
    send: impl Fn(Mutation) -> F,
) -> Result<Vec<bool>, Attempt> {
    let mut progress = StatementProgress {
        done: 0,
        of: mutations.len(),
    };
    let mut applied = vec![false; mutations.len()];
    let mut mutations = mutations.enumerate();
    let mut sent = FuturesUnordered::new();
    let mut failed: Option<Attempt> = None;
    loop {
        while failed.is_none() && sent.len() < in_flight {
            let Some((number, mutation)) = mutations.next() else {
                break;
            };
            sent.push(send(mutation).map(move |result| (number, result)));
        }
        match sent.next().await {
            None => break,
            Some((number, Ok(is_applied))) => {
                applied[number] = is_applied;
                progress.done += usize::from(is_applied);
            }
            Some((_, Err(error))) => {
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        None => Ok(applied),
        // Planned again, rows that were changed already would count as duplicates.
        Some(Attempt::Stale(error)) if progress.done == 0 => Err(Attempt::Stale(error)),
        Some(Attempt::Stale(error) | Attempt::SnapshotEnded(error)) => {
            Err(SqlError::from(error).after(progress).into())
        }
        Some(Attempt::Failed(error) | Attempt::Planned(error)) => Err(error.after(progress).into()),
    }
}

pub(super) fn table<'a, S>(reading: &ReadContext<'a, S>, table: TableId) -> &'a PlacedTable {
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
            | SqlError::CheckFailed { done, .. }
            | SqlError::ForeignKey { done, .. }
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
