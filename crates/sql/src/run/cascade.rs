//! Executes a `DELETE` of rows to which others refer with `ON DELETE CASCADE` or `SET NULL`: the
//! other rows change in the same transaction.
//!
//! The rows are read before the transaction, which the servers refuse if another row refers to a
//! deleted one by then (R57). Then all of it begins again.

use std::collections::{BTreeSet, VecDeque};

use protocol::configuration::PlacedTable;
use protocol::identity::TableId;
use protocol::operation::{Action, Mutation, RequestResult};
use protocol::transaction::{
    AbortReason, ChangeOutcome, ReferenceFault, TransactionChange, TransactionResult, check_size,
};

use super::children::{ChildChange, acts, changes_of_children};
use super::{Attempt, ReadContext, Sender};
use crate::error::SqlError;
use crate::store::Store;

/// The most attempts at one statement.
const ATTEMPTS_MAX: usize = 20;

/// Deletes rows of a table, and changes those that refer to them. Returns for each row of the table
/// whether it was deleted.
pub(super) async fn delete<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &PlacedTable,
    mutations: Vec<Mutation>,
) -> Result<Vec<bool>, Attempt> {
    if reading.store.is_transaction() {
        return delete_in_transaction(reading, table, mutations).await;
    }
    let mut not_applied: BTreeSet<usize> = BTreeSet::new();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let changes = all_changes(reading, table, &mutations, &not_applied).await?;
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        check_size(&changes, &[], &[]).map_err(SqlError::transaction)?;
        let planned = reading.configuration.epoch;
        let result = reading
            .store
            .transact(planned, changes, Vec::new(), Vec::new())
            .await?;
        let (aborted, reason) = match &result {
            TransactionResult::Committed { outcomes, .. } => {
                let own = outcomes.iter().take(mutations.len());
                return Ok(own.map(|it| *it == ChangeOutcome::Applied).collect());
            }
            TransactionResult::Aborted { table, reason } => (*table, reason),
        };
        let may_repeat = attempts < ATTEMPTS_MAX;
        match reason {
            // The row is gone, or its condition does not hold: the others stay as they are.
            AbortReason::NotApplied { change, .. } if may_repeat => {
                not_applied.insert(*change as usize);
                continue;
            }
            AbortReason::ReferenceViolated(violation)
                if may_repeat && violation.fault == ReferenceFault::HasChildren =>
            {
                let child = reading.configuration.table(violation.child);
                let keys = child.map(|child| &child.schema.constraints.foreign_keys);
                let mut keys = keys.into_iter().flatten();
                let key = keys.find(|key| key.name == violation.constraint);
                if key.is_some_and(acts) {
                    not_applied.clear();
                    continue;
                }
            }
            AbortReason::Conflict if may_repeat => continue,
            _ => {}
        }
        let refused = RequestResult::of_abort(reason);
        let sender = Sender {
            store: reading.store,
            table: reading.configuration.table(aborted).unwrap_or(table),
            planned,
        };
        sender.changed(refused.unwrap_or_else(|| RequestResult::Transaction(result.clone())))?;
    }
}

/// Returns the changes of the statement: first those of its own rows. Of a row in `not_applied` no
/// other row is changed.
async fn all_changes<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &PlacedTable,
    mutations: &[Mutation],
    not_applied: &BTreeSet<usize>,
) -> Result<Vec<TransactionChange>, Attempt> {
    let own = mutations.iter().map(|mutation| TransactionChange {
        table: table.id,
        mutation: mutation.clone(),
        must_apply: false,
    });
    let mut changes: Vec<TransactionChange> = own.collect();
    let mut deleted = Deleted::default();
    for (number, mutation) in mutations.iter().enumerate() {
        if not_applied.contains(&number) {
            continue;
        }
        deleted.add(table.id, &mutation.pk);
        let mut has_children = false;
        while let Some(found) = deleted.next(reading).await? {
            for ChildChange { table, mutation } in found {
                has_children = true;
                if matches!(mutation.action, Action::Delete { .. }) {
                    deleted.add(table, &mutation.pk);
                }
                changes.push(TransactionChange {
                    table,
                    mutation,
                    must_apply: false,
                });
            }
        }
        // The others change only if the row is deleted.
        changes[number].must_apply = has_children;
    }
    Ok(changes)
}

/// Deletes rows in the transaction of the session, where each change shows whether it applies.
async fn delete_in_transaction<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &PlacedTable,
    mutations: Vec<Mutation>,
) -> Result<Vec<bool>, Attempt> {
    let (store, planned) = (reading.store, reading.configuration.epoch);
    let sender = Sender {
        store,
        table,
        planned,
    };
    let mut applied = Vec::with_capacity(mutations.len());
    let mut deleted = Deleted::default();
    for mutation in mutations {
        let pk = mutation.pk.clone();
        let is_deleted = sender.send(mutation).await?;
        applied.push(is_deleted);
        if !is_deleted {
            continue;
        }
        deleted.add(table.id, &pk);
        while let Some(found) = deleted.next(reading).await? {
            for ChildChange { table, mutation } in found {
                let child = reading.configuration.table(table);
                let table = child.expect("its rows were just read");
                let (pk, action) = (mutation.pk.clone(), mutation.action.clone());
                let sender = Sender {
                    store,
                    table,
                    planned,
                };
                let is_applied = sender.send(mutation).await?;
                if is_applied && matches!(action, Action::Delete { .. }) {
                    deleted.add(table.id, &pk);
                }
            }
        }
    }
    Ok(applied)
}

/// The rows that a statement deletes, each once, and those of which the children are to be found.
#[derive(Default)]
struct Deleted {
    known: BTreeSet<(TableId, Vec<u8>)>,
    open: VecDeque<(TableId, Vec<u8>)>,
}

impl Deleted {
    fn add(&mut self, table: TableId, pk: &[u8]) {
        let row = (table, pk.to_vec());
        if self.known.insert(row.clone()) {
            self.open.push_back(row);
        }
    }

    /// Returns the changes of the children of the next row; none if there is no such row.
    async fn next<S: Store>(
        &mut self,
        reading: &ReadContext<'_, S>,
    ) -> Result<Option<Vec<ChildChange>>, Attempt> {
        let Some((table, pk)) = self.open.pop_front() else {
            return Ok(None);
        };
        let Some(table) = reading.configuration.table(table) else {
            return Ok(Some(Vec::new()));
        };
        let configuration = reading.configuration;
        let changes = changes_of_children(reading.store, configuration, (table, &pk)).await?;
        Ok(Some(changes))
    }
}
