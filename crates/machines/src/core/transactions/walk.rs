//! The walk of a transaction at one core: it waits for the keys of all rows whose primaries are
//! here, and evaluates the changes with the keys held (R42).
//!
//! The keys are waited for in the queues of requests, first come first served. A walk enters all of
//! its queues at a core at once, and visits cores in ascending order, so that walks do not wait for
//! one another in a cycle (R46). Nothing is logged: a walk may be dropped at any moment, and its
//! primaries then refuse the prepare.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::codec::Wire;
use protocol::identity::{
    ClockReading, CoreId, OperationId, PartitionId, Position, TableId, Version,
};
use protocol::message::Refusal;
use protocol::operation::{RequestResult, RowChange};
use protocol::planted::{self, Bug};
use protocol::transaction::{
    AbortReason, ChangeOutcome, EVALUATED_BYTES_MAX, EvaluatedRow, TransactionContent,
    TransactionResult, Walk, WalkEnd,
};
use smallvec::SmallVec;

use crate::core::CoreMachine;
use crate::core::chain::evaluate::{self, MutationOutcome};
use crate::core::chain::sessions::RequestStatus;
use crate::core::key::Key;
use crate::core::partition::locks::Released;
use crate::core::partition::queue::Queued;
use crate::core::partition::rows::stored_row;
use crate::core::step::Step;

/// A walk at this core.
#[derive(Debug)]
pub(super) struct LocalWalk {
    walk: Walk,
    tables: Vec<TableId>,
    /// The rows of this core, by partition and pk.
    rows: Vec<WalkRow>,
    /// How many keys it waits for.
    waits_for: usize,
    /// Whether the walk has the rows of this core.
    is_evaluated: bool,
    since_us: u64,
}

/// A row of a walk.
#[derive(Debug)]
struct WalkRow {
    primary: PartitionId,
    pk: Key,
    /// The indexes of its changes, ascending.
    changes: SmallVec<[usize; 1]>,
    /// Whether the walk waits for its key.
    waits: bool,
}

impl LocalWalk {
    /// Returns whether the walk holds a key of one of these tables.
    fn holds_any(&self, concerns: impl Fn(TableId) -> bool) -> bool {
        let mut held = self.rows.iter().filter(|row| !row.waits);
        held.any(|row| concerns(row.primary.table))
    }

    /// Returns the row that waits for a key.
    fn waiting_row(&mut self, (primary, pk): (PartitionId, &[u8])) -> Option<&mut WalkRow> {
        let place = self
            .rows
            .binary_search_by(|row| (row.primary, &*row.pk).cmp(&(primary, pk)));
        let row = self.rows.get_mut(place.ok()?);
        row.filter(|row| row.waits)
    }
}

impl CoreMachine {
    /// Handles the walk of a transaction that arrives at this core.
    pub(super) fn on_walk<T: Tables>(
        &mut self,
        operation: OperationId,
        (walk, tables): (Walk, Vec<TableId>),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        // A late copy: the walk has ended, and its keys belong to members of this core.
        let is_voted = self.own_members(operation).next().is_some() && !planted::is(Bug::WalkAgain);
        if is_voted || operation.order() < self.finished_below(operation.head) {
            return Ok(());
        }
        if self.transactions.walks.contains_key(&operation) {
            // It was sent again: its result may be lost.
            return self.repeat_walk(operation, step);
        }
        let place = usize::from(walk.place);
        if walk.route.get(place) != Some(&self.identity.core) {
            return Ok(());
        }
        let rows = self.rows_here(&walk);
        let checked = rows.and_then(|rows| self.check_walk(step.now, &rows).map(|()| rows));
        let mut rows = match checked {
            Ok(rows) => rows,
            Err(refusal) => {
                let end = WalkEnd::Refused(refusal);
                return self.end_walk((operation, &tables), end, step);
            }
        };
        let waiting = self.take_free_keys(operation, &mut rows);
        let has_rows = !rows.is_empty();
        let local = LocalWalk {
            walk,
            tables,
            waits_for: waiting.len(),
            rows,
            is_evaluated: false,
            since_us: step.now.monotonic_us,
        };
        self.transactions.walks.insert(operation, local);
        if waiting.is_empty() && has_rows {
            return self.evaluate_walk(operation, step);
        }
        for (primary, pk) in waiting {
            self.start_queue(primary, &pk, step)?;
        }
        Ok(())
    }

    /// Returns the rows of a walk whose primaries are here. They all wait.
    fn rows_here(&self, walk: &Walk) -> Result<Vec<WalkRow>, Refusal> {
        let mut found: Vec<(PartitionId, usize)> = Vec::with_capacity(walk.changes.len());
        for (index, change) in walk.changes.iter().enumerate() {
            let primary = self.primary_of(change)?;
            if self.view.place(primary).map(|place| place.core) == Some(self.identity.core) {
                found.push((primary, index));
            }
        }
        let pk = |index: usize| &walk.changes[index].mutation.pk[..];
        // The changes of one row stay in their order.
        found.sort_by(|(one, first), (other, second)| (one, pk(*first)).cmp(&(other, pk(*second))));
        let of_rows = found
            .chunk_by(|(one, first), (other, second)| one == other && pk(*first) == pk(*second));
        let rows = of_rows.map(|changes| WalkRow {
            primary: changes[0].0,
            pk: Key::from(pk(changes[0].1)),
            changes: changes.iter().map(|(_, index)| *index).collect(),
            waits: true,
        });
        Ok(rows.collect())
    }

    /// Checks that a walk may wait for its rows here.
    fn check_walk(&self, now: ClockReading, rows: &[WalkRow]) -> Result<(), Refusal> {
        if self.transactions.walks.len() >= self.limits.operations_max {
            return Err(Refusal::Overloaded);
        }
        for of_primary in rows.chunk_by(|one, other| one.primary == other.primary) {
            let primary = of_primary[0].primary;
            let epoch = self.view.table_epoch(primary.table);
            self.check_taking(now, epoch, primary)?;
            let queues = &self.partitions[&primary].queues;
            let is_full = |row: &WalkRow| {
                let queue = queues.get(&*row.pk);
                queue.is_some_and(|queue| queue.len() >= self.limits.requests_per_key_max)
            };
            if !queues.is_empty() && of_primary.iter().any(is_full) {
                return Err(Refusal::Overloaded);
            }
        }
        Ok(())
    }

    /// Lets a walk hold the keys that nothing else holds or waits for. It enters the queues of the
    /// others, and this function returns those.
    fn take_free_keys(
        &mut self,
        operation: OperationId,
        rows: &mut [WalkRow],
    ) -> Vec<(PartitionId, Key)> {
        let mut waiting = Vec::new();
        for of_primary in rows.chunk_by_mut(|one, other| one.primary == other.primary) {
            let primary = of_primary[0].primary;
            let starts_at_once = self.starts_at_once(primary);
            let partition = self.partitions.get_mut(&primary).expect("just checked");
            let before = waiting.len();
            for row in of_primary {
                let is_queued =
                    !partition.queues.is_empty() && partition.queues.contains_key(&*row.pk);
                if starts_at_once && !is_queued && partition.locks.take_free(&row.pk, operation) {
                    row.waits = false;
                    continue;
                }
                let queue = partition.queues.entry(row.pk.to_vec()).or_default();
                queue.push_back(Queued::Walk(operation));
                waiting.push((primary, Key::clone(&row.pk)));
            }
            if waiting.len() > before {
                self.partitions.note_waiting(primary);
            }
        }
        waiting
    }

    /// Lets a walk hold the key that it has waited for. Evaluates its rows once it holds all keys.
    pub(crate) fn grant_to_walk<T: Tables>(
        &mut self,
        operation: OperationId,
        key: (PartitionId, &[u8]),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(local) = self.transactions.walks.get_mut(&operation) else {
            return Ok(());
        };
        let Some(row) = local.waiting_row(key) else {
            return Ok(());
        };
        row.waits = false;
        let pk = Key::clone(&row.pk);
        local.waits_for -= 1;
        let is_complete = local.waits_for == 0;
        let partition = self.partitions.get_mut(&key.0);
        let partition = partition.expect("its queue was there");
        partition.locks.force(&pk, operation);
        match is_complete {
            true => self.evaluate_walk(operation, step),
            false => Ok(()),
        }
    }

    /// Evaluates the rows of this core. All keys are held.
    fn evaluate_walk<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let local = &self.transactions.walks[&operation];
        let (request, digest) = (local.walk.request, local.walk.digest);
        let tables = local.tables.clone();
        let end = match self.sessions.known(request, digest) {
            RequestStatus::New => None,
            // Without effect it was only this core's word, and another attempt may still commit.
            RequestStatus::Completed(result) => Some(WalkEnd::Known(result.clone())),
            RequestStatus::Mismatch => Some(WalkEnd::Refused(Refusal::RequestMismatch)),
            RequestStatus::Ended => Some(WalkEnd::Refused(Refusal::SessionEnded)),
        };
        let end = end.filter(|_| !planted::is(Bug::AttemptNotLookedUp));
        if let Some(end) = end {
            self.drop_walk(operation, step)?;
            return self.end_walk((operation, &tables), end, step);
        }
        let local = self.transactions.walks.remove(&operation);
        let mut local = local.expect("it was just there");
        let aborted = self.evaluate_rows(&mut local, step)?;
        local.is_evaluated = aborted.is_none();
        self.transactions.walks.insert(operation, local);
        if let Some(result) = aborted {
            self.drop_walk(operation, step)?;
            return self.end_walk((operation, &tables), WalkEnd::Aborted(result), step);
        }
        self.pass_walk_on(operation, step)
    }

    /// Evaluates the rows of this core. Returns the result if the transaction aborts.
    fn evaluate_rows<T: Tables>(
        &mut self,
        local: &mut LocalWalk,
        step: &mut Step<'_, T>,
    ) -> Result<Option<TransactionResult>, TablesError> {
        let (walk, mut buffer) = (&mut local.walk, Vec::new());
        let mut size = |row: &EvaluatedRow| {
            buffer.clear();
            row.encode(&mut buffer);
            buffer.len()
        };
        let mut bytes: usize = walk.evaluated.iter().map(&mut size).sum();
        for WalkRow {
            primary,
            pk,
            changes,
            ..
        } in &local.rows
        {
            let mut reason = None;
            match self.evaluate_row((*primary, pk), changes, walk, step)? {
                Ok(None) => {}
                Ok(Some(change)) => {
                    let table = primary.table;
                    let change = Arc::new(change);
                    let row = EvaluatedRow { table, change };
                    bytes += size(&row);
                    walk.evaluated.push(row);
                    reason = too_large(bytes);
                }
                Err(refused) => reason = Some(refused),
            }
            if let Some(reason) = reason {
                return Ok(Some(TransactionResult::Aborted {
                    table: primary.table,
                    reason,
                }));
            }
        }
        Ok(None)
    }

    /// Evaluates the changes of one row, one after the other. Returns the change of the row, if it
    /// changes, or the reason why the transaction aborts.
    fn evaluate_row<T: Tables>(
        &mut self,
        (primary, pk): (PartitionId, &[u8]),
        changes: &[usize],
        walk: &mut Walk,
        step: &mut Step<'_, T>,
    ) -> Result<Result<Option<RowChange>, AbortReason>, TablesError> {
        let table = self.partitions[&primary].table.clone();
        let stored = step.tables.value(primary.rows_table(), pk)?;
        let before = stored.as_deref().map(stored_row);
        let mut image = before.map(|(_, row)| row.to_vec());
        let mut writes = false;
        for index in changes {
            let change = &walk.changes[*index];
            let outcome = match evaluate::apply(&table, primary, &change.mutation, image.as_deref())
            {
                MutationOutcome::Write(new) => {
                    image = new;
                    writes = true;
                    ChangeOutcome::Applied
                }
                MutationOutcome::Ended(RequestResult::Kept) => ChangeOutcome::Kept,
                MutationOutcome::Ended(RequestResult::NotFound) => ChangeOutcome::NotFound,
                MutationOutcome::Ended(RequestResult::ConditionFailed) => {
                    ChangeOutcome::ConditionFailed
                }
                MutationOutcome::Ended(refused) => {
                    return Ok(Err(match refused.refuses_transaction(primary.table) {
                        TransactionResult::Aborted { reason, .. } => reason,
                        TransactionResult::Committed { .. } => AbortReason::Conflict,
                    }));
                }
            };
            let change_number = u32::try_from(*index).expect("changes are limited");
            if change.must_apply && outcome != ChangeOutcome::Applied {
                return Ok(Err(AbortReason::NotApplied {
                    change: change_number,
                    outcome,
                }));
            }
            walk.outcomes.push((change_number, outcome));
        }
        if !writes || before.is_none() && image.is_none() {
            return Ok(Ok(None));
        }
        let old_version = before.map_or(Version(0), |(version, _)| version);
        self.versions.see(old_version);
        Ok(Ok(Some(RowChange {
            pk: pk.into(),
            version: self.versions.next(step.now),
            old: evaluate::old_row(&table, before, image.as_deref()),
            new: image.map(Into::into),
        })))
    }

    /// Passes a walk on again that is evaluated here.
    pub(super) fn repeat_walk<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        match self.has_walk(operation) {
            true => self.pass_walk_on(operation, step),
            false => Ok(()),
        }
    }

    /// Sends an evaluated walk to the next core, or back to the coordinator.
    fn pass_walk_on<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let local = self.transactions.walks.get_mut(&operation);
        let local = local.expect("callers have it");
        let tables = local.tables.clone();
        // Between a core and itself nothing is lost, so that it is not sent again.
        let only_here = local.walk.route == [operation.head];
        let evaluated = only_here.then(|| core::mem::take(&mut local.walk.evaluated));
        let mut walk = local.walk.clone();
        walk.evaluated = evaluated.unwrap_or(walk.evaluated);
        walk.place += 1;
        let next = walk.route.get(usize::from(walk.place)).copied();
        let (to, content) = match next {
            Some(next) => (next, TransactionContent::Walk(walk)),
            None if operation.head == self.identity.core => {
                return self.on_walked(operation, walk, step);
            }
            None => (operation.head, TransactionContent::Walked(walk)),
        };
        self.send_transaction(to, (operation, &tables), Position(0), content, step.output);
        Ok(())
    }

    /// Reports to the coordinator that a walk ends here.
    fn end_walk<T: Tables>(
        &mut self,
        (operation, tables): (OperationId, &[TableId]),
        end: WalkEnd,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if operation.head == self.identity.core {
            return self.on_walk_ended(operation, end, step);
        }
        let (to, content) = (operation.head, TransactionContent::WalkEnded(end));
        self.send_transaction(to, (operation, tables), Position(0), content, step.output);
        Ok(())
    }

    /// Drops a walk: leaves its queues, and releases the keys that it holds.
    pub(super) fn drop_walk<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(local) = self.transactions.walks.remove(&operation) else {
            return Ok(());
        };
        for WalkRow { primary, pk, .. } in &local.rows {
            let Some(partition) = self.partitions.get_mut(primary) else {
                continue;
            };
            if let Some(queue) = partition.queues.get_mut(&**pk) {
                queue.retain(|queued| !matches!(queued, Queued::Walk(it) if *it == operation));
                if queue.is_empty() {
                    partition.queues.remove(&**pk);
                }
            }
            if let Released::Wakes(waiter) = partition.locks.release(pk, operation) {
                self.wake((waiter, *primary), step)?;
            }
            self.start_queue(*primary, pk, step)?;
        }
        Ok(())
    }

    /// Drops the walks that hold keys of these tables, because operations on them are held back.
    /// The versions that such a walk has given would be too low for what begins afterwards (R36).
    pub(crate) fn drop_walks_that_hold<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if planted::is(Bug::WalkSurvivesHold) {
            return Ok(());
        }
        self.drop_walks(step, |_, local| {
            local.holds_any(|table| tables.contains(&table))
        })
    }

    /// Drops the walks of these tables, whose epochs have changed.
    pub(super) fn drop_walks_of<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.drop_walks(step, |_, local| {
            local.tables.iter().any(|table| tables.contains(table))
        })
    }

    /// Drops the walks that have taken too long, or whose coordinator has restarted.
    pub(crate) fn drop_old_walks<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let now_us = step.now.monotonic_us;
        let deadline_us = now_us.saturating_sub(self.limits.wait_us_max);
        let restarted: BTreeSet<CoreId> = self.restarted_coordinators();
        self.drop_walks(step, |operation, local| {
            local.since_us < deadline_us || restarted.contains(&operation.head)
        })
    }

    /// Returns the coordinators of walks of whose later incarnation this core knows.
    fn restarted_coordinators(&self) -> BTreeSet<CoreId> {
        let walks = self.transactions.walks.keys();
        let restarted =
            walks.filter(|operation| self.view.incarnation(operation.head) > operation.incarnation);
        restarted.map(|operation| operation.head).collect()
    }

    fn drop_walks<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
        is_void: impl Fn(&OperationId, &LocalWalk) -> bool,
    ) -> Result<(), TablesError> {
        let walks = self.transactions.walks.iter();
        let void = walks.filter(|(operation, local)| is_void(operation, local));
        let void: Vec<(OperationId, Vec<TableId>)> = void
            .map(|(operation, local)| (*operation, local.tables.clone()))
            .collect();
        for (operation, tables) in void {
            self.drop_walk(operation, step)?;
            self.end_walk((operation, &tables), WalkEnd::Dropped, step)?;
        }
        Ok(())
    }

    /// Takes the keys of a partition over from an evaluated walk, for the member that votes now.
    /// Returns none if the walk is not here any more, so that its evaluation is lost.
    pub(super) fn take_walk(
        &mut self,
        operation: OperationId,
        partition: PartitionId,
    ) -> Option<Vec<Key>> {
        let walks = &mut self.transactions.walks;
        let local = walks.get_mut(&operation).filter(|it| it.is_evaluated)?;
        let taken = local.rows.extract_if(.., |row| row.primary == partition);
        let taken: Vec<Key> = taken.map(|row| row.pk).collect();
        if local.rows.is_empty() {
            walks.remove(&operation);
        }
        (!taken.is_empty()).then_some(taken)
    }

    /// Returns whether a walk of this operation is evaluated here and was not dropped.
    pub(super) fn has_walk(&self, operation: OperationId) -> bool {
        let local = self.transactions.walks.get(&operation);
        local.is_some_and(|local| local.is_evaluated)
    }
}

/// Returns the reason why a walk with so many bytes of evaluated rows cannot continue; none if it
/// can.
fn too_large(bytes: usize) -> Option<AbortReason> {
    let message = format!(
        "the rows that the transaction changes have more than {EVALUATED_BYTES_MAX} bytes: split it"
    );
    (bytes > EVALUATED_BYTES_MAX).then_some(AbortReason::Invalid { message })
}
