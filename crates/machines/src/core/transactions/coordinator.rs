//! The coordinator of a transaction: the core of its first primary. It names the attempt, sends the
//! prepare to all members, collects the votes, and decides (R40, R43).
//!
//! All of its messages may be lost: it repeats them until it has every answer. A transaction that
//! another operation has made abort begins again under a new name, until the request has waited as
//! long as any request may wait.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};
use protocol::codec::Bytes;
use protocol::identity::{CoreId, OperationId, PartitionId, Position, TableId, Version};
use protocol::message::{Refusal, Room};
use protocol::operation::{Decision, Prepare, RequestRecord, RequestResult, RowChange, Vote};
use protocol::planted::{self, Bug};
use protocol::record::Record;
use protocol::transaction::{
    ChangeOutcome, Transact, TransactionContent, TransactionPart, TransactionResult, Walk, WalkEnd,
};

use super::progress::{Coordinated, MemberProgress, Stage};
use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::step::Step;

/// The pause before the second attempt. Each further attempt pauses one more time as long.
const PAUSE_US: u64 = 500;
/// The longest pause between two attempts, in the same unit.
const PAUSES_MAX: u64 = 40;

impl CoreMachine {
    /// Begins the first attempt of a request.
    pub(super) fn begin_transaction<T: Tables>(
        &mut self,
        (transact, digest): (Transact, u64),
        route: Vec<CoreId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let tables = transact.epochs.iter().map(|(table, _)| *table).collect();
        let request = RequestRecord {
            request: transact.request,
            acknowledged_below: transact.acknowledged_below,
            digest,
            result: RequestResult::Conflict,
        };
        let coordinated = Coordinated {
            changes: Arc::new(transact.changes),
            checks: transact.checks,
            ranges: transact.ranges,
            route,
            ..Coordinated::new(request, transact.partition, tables, step.now)
        };
        self.begin_attempt(coordinated, step)
    }

    /// Begins an attempt under a new name: its walk visits this core first.
    pub(super) fn begin_attempt<T: Tables>(
        &mut self,
        mut coordinated: Coordinated,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let operation = self.operations.begin();
        coordinated.stage = Stage::Walking;
        coordinated.attempts += 1;
        coordinated.begun_us = step.now.monotonic_us;
        coordinated.retry_us = self.limits.retry_us;
        coordinated.due_us = step.now.monotonic_us + self.limits.retry_us;
        let walk = Walk {
            request: coordinated.request.request,
            digest: coordinated.request.digest,
            route: coordinated.route.clone(),
            place: 0,
            changes: Arc::clone(&coordinated.changes),
            evaluated: Vec::new(),
            outcomes: Vec::new(),
        };
        let tables = coordinated.tables.clone();
        self.counters.transactions += u64::from(coordinated.attempts == 1);
        self.counters.attempts += 1;
        self.transactions.coordinated.insert(operation, coordinated);
        self.on_walk(operation, (walk, tables), step)
    }

    /// Handles a walk that has visited all primaries: sends every member its part of the prepare.
    pub(super) fn on_walked<T: Tables>(
        &mut self,
        operation: OperationId,
        walk: Walk,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get(&operation);
        let Some(coordinated) = coordinated.filter(|it| it.stage == Stage::Walking) else {
            if coordinated.is_none() {
                let tables: BTreeSet<TableId> = walk.changes.iter().map(|it| it.table).collect();
                let tables: Vec<TableId> = tables.into_iter().collect();
                self.drop_remote_walks(operation, (&walk.route, &tables), step.output);
            }
            return Ok(());
        };
        let tables = coordinated.tables.clone();
        // The first primary must not have lost its evaluation.
        if !self.has_walk(operation) {
            return self.end_attempt(operation, TransactionResult::conflict(tables[0]), step);
        }
        let parts = self.parts(&walk);
        if let Some(refusal) = self.refusal_of_parts(&parts, &walk) {
            return self.refuse_transaction(operation, &refusal, step);
        }
        let references = match self.demanded_references(&walk) {
            Ok(references) => references,
            Err(violated) => return self.end_attempt(operation, violated, step),
        };
        let coordinated = &self.transactions.coordinated[&operation];
        let mut record = coordinated.request.clone();
        record.result = result_of(walk);
        let members: Vec<PartitionId> = parts.iter().map(|part| part.id).collect();
        let unchanged = parts.iter().filter(|part| part.changes.is_empty()).count();
        let finished_below = self.own_finished();
        let mut progress = Vec::with_capacity(parts.len());
        for (number, part) in parts.into_iter().enumerate() {
            let prepare = Prepare {
                operation,
                epoch: self.view.epoch(),
                finished_below,
                table: part.id.table,
                members: members.clone(),
                sides: 0,
                side: None,
                votes: Vec::new(),
                changes: part.changes,
                requests: alloc::vec![record.clone()],
                transaction: Some(TransactionPart {
                    member: u16::try_from(number).expect("partitions are few"),
                    unchanged: u16::try_from(unchanged).expect("partitions are few"),
                    head: part.head,
                    still: part.still,
                }),
            };
            progress.push(MemberProgress::new(part.id, Some(Arc::new(prepare))));
        }
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let coordinated = coordinated.expect("it was just there");
        coordinated.request = record;
        coordinated.members = progress;
        coordinated.references = references;
        coordinated.unchanged = unchanged;
        coordinated.stage = Stage::Voting;
        self.hurry_transaction(step.now, operation);
        self.repeat_transaction(operation, step)
    }

    /// Returns the parts of an evaluated transaction: the partitions that it changes, ascending,
    /// then the primaries whose rows all stay as they are.
    fn parts(&self, walk: &Walk) -> Vec<Part> {
        let mut parts: BTreeMap<PartitionId, Part> = BTreeMap::new();
        for row in &walk.evaluated {
            let table = self
                .view
                .table(row.table)
                .expect("walks end with a table's epoch");
            let (members, _) = table.members(&row.change);
            let head = self.primary_of_row(row.table, &row.change.pk);
            let head = head.expect("it was decoded on arrival");
            for id in members {
                let part = parts.entry(id).or_insert_with(|| Part::new(id, head));
                part.changes.push(Arc::clone(&row.change));
            }
        }
        // Most often each change has changed a row of its own.
        let still = match walk.evaluated.len() == walk.changes.len() {
            true => BTreeMap::new(),
            false => self.note_unchanged(walk, &mut parts),
        };
        let mut parts: Vec<Part> = parts.into_values().collect();
        parts.extend(still.into_values());
        for part in &mut parts {
            let table = self.view.table(part.id.table);
            if table.is_some_and(|table| table.is_primary(part.id)) {
                part.head = part.id;
            }
        }
        parts
    }

    /// Adds the rows that stay as they are to the parts of their primaries. Returns the parts of
    /// primaries that have no other rows.
    fn note_unchanged(
        &self,
        walk: &Walk,
        parts: &mut BTreeMap<PartitionId, Part>,
    ) -> BTreeMap<PartitionId, Part> {
        let changed = walk.evaluated.iter();
        let changed = changed.map(|row| (row.table, &row.change.pk[..]));
        let changed: BTreeSet<(TableId, &[u8])> = changed.collect();
        let mut still: BTreeMap<PartitionId, Part> = BTreeMap::new();
        for change in walk.changes.iter() {
            let pk = &change.mutation.pk;
            if changed.contains(&(change.table, &pk[..])) {
                continue;
            }
            let head = self.primary_of(change).expect("it was decoded on arrival");
            let part = match parts.get_mut(&head) {
                Some(part) => part,
                None => still.entry(head).or_insert_with(|| Part::new(head, head)),
            };
            if !part.still.contains(pk) {
                part.still.push(pk.clone());
            }
        }
        still
    }

    /// Returns the reason why the members of a transaction cannot take part: a server is lost, or a
    /// disk has no room.
    fn refusal_of_parts(&self, parts: &[Part], walk: &Walk) -> Option<Refusal> {
        let members: Vec<PartitionId> = parts.iter().map(|part| part.id).collect();
        let begun = false;
        let lost = members
            .iter()
            .find_map(|id| self.view.lost_in(core::slice::from_ref(id)));
        if let Some(server) = lost {
            return Some(Refusal::Lost { server, begun });
        }
        let grows = walk.evaluated.iter().any(|row| row.change.new.is_some());
        let needed = if grows { Room::Free } else { Room::Reserve };
        let server = self.without_room(&members, needed)?;
        Some(Refusal::DiskFull { server })
    }

    /// Handles the report that a walk has ended early.
    pub(super) fn on_walk_ended<T: Tables>(
        &mut self,
        operation: OperationId,
        end: WalkEnd,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get(&operation);
        let Some(coordinated) = coordinated.filter(|it| it.stage == Stage::Walking) else {
            // A primary that has dropped its walk votes no.
            return Ok(());
        };
        let table = coordinated.tables[0];
        match end {
            WalkEnd::Known(result) => {
                let request = coordinated.request.request;
                self.forget_attempt(operation, step)?;
                let lease_us =
                    (!result.took_effect()).then(|| self.lease_until_us(step.now, table));
                let terms = (self.log.last(), lease_us);
                self.answer_waiters(request, result, terms, step.output);
                Ok(())
            }
            WalkEnd::Aborted(result) => self.end_attempt(operation, result, step),
            WalkEnd::Refused(refusal) => self.refuse_transaction(operation, &refusal, step),
            WalkEnd::Dropped => {
                self.end_attempt(operation, TransactionResult::conflict(table), step)
            }
        }
    }

    /// Ends an attempt before its prepare: drops its walk everywhere, and ends the request with
    /// this result, or begins again after a conflict.
    pub(super) fn end_attempt<T: Tables>(
        &mut self,
        operation: OperationId,
        result: TransactionResult,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(coordinated) = self.forget_attempt(operation, step)? else {
            return Ok(());
        };
        if result.is_conflict() {
            return self.pause(coordinated, step);
        }
        self.end_aborted(&coordinated, result, step);
        Ok(())
    }

    /// Refuses a transaction that has not begun to commit. The client repeats it.
    fn refuse_transaction<T: Tables>(
        &mut self,
        operation: OperationId,
        refusal: &Refusal,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if let Some(coordinated) = self.forget_attempt(operation, step)? {
            self.refuse_running(coordinated.request.request, refusal, step.output);
        }
        Ok(())
    }

    /// Forgets an attempt of which no member has voted, and drops its walk everywhere.
    pub(super) fn forget_attempt<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<Option<Coordinated>, TablesError> {
        let Some(coordinated) = self.transactions.coordinated.remove(&operation) else {
            return Ok(None);
        };
        self.end_operation(operation);
        let (route, tables) = (&coordinated.route, &coordinated.tables);
        self.drop_remote_walks(operation, (route, tables), step.output);
        self.drop_walk(operation, step)?;
        Ok(Some(coordinated))
    }

    fn drop_remote_walks(
        &self,
        operation: OperationId,
        (route, tables): (&[CoreId], &[TableId]),
        output: &mut CoreOutput,
    ) {
        for core in route.iter().filter(|core| **core != self.identity.core) {
            let content = TransactionContent::DropWalk;
            self.send_transaction(*core, (operation, tables), Position(0), content, output);
        }
    }

    /// Lets a transaction begin again after a pause, unless it has taken too long.
    fn pause<T: Tables>(
        &mut self,
        mut coordinated: Coordinated,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let now_us = step.now.monotonic_us;
        let is_late = now_us.saturating_sub(coordinated.since_us) > self.limits.wait_us_max;
        if is_late {
            self.counters.conflicts += 1;
            let result = TransactionResult::conflict(coordinated.tables[0]);
            self.end_aborted(&coordinated, result, step);
            return Ok(());
        }
        let operation = self.operations.begin();
        coordinated.stage = Stage::Pausing;
        coordinated.members.clear();
        coordinated.passed.clear();
        coordinated.references.clear();
        let pauses = coordinated.attempts.min(PAUSES_MAX);
        // Two that are in each other's way do not begin again together.
        let skew_us = operation.sequence % 8 * PAUSE_US / 8;
        coordinated.due_us = now_us + pauses * PAUSE_US + skew_us;
        self.transactions.coordinated.insert(operation, coordinated);
        Ok(())
    }

    /// Ends the request of an aborted transaction: records the result and answers. That it was
    /// aborted is known here alone, so it is answered under the lease (R45).
    fn end_aborted<T: Tables>(
        &mut self,
        coordinated: &Coordinated,
        result: TransactionResult,
        step: &mut Step<'_, T>,
    ) {
        let mut request = coordinated.request.clone();
        request.result = RequestResult::Transaction(result);
        let at = coordinated.at;
        self.sessions.complete(at, &request, &request.result);
        let record = Record::Completed {
            partition: at,
            requests: alloc::vec![request.clone()],
        };
        let position = self.append(&record, Durability::Sync, step.output);
        let terms = (position, Some(self.lease_until_us(step.now, at.table)));
        self.answer_waiters(request.request, request.result, terms, step.output);
    }

    /// Handles a member's vote.
    pub(super) fn on_voted<T: Tables>(
        &mut self,
        (operation, id): (OperationId, PartitionId),
        vote: Vote,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let Some(coordinated) = coordinated.filter(|it| it.stage == Stage::Voting) else {
            return Ok(());
        };
        let early = planted::is(Bug::DecidesBeforeLastVote);
        let Some(member) = coordinated.member_mut(id) else {
            return Ok(());
        };
        if let Vote::No(reason) = vote {
            let abort = Decision::abort_transaction(reason.refuses_transaction(id.table));
            return self.decide_transaction(operation, abort, step);
        }
        member.has_voted = true;
        let missing = coordinated
            .members
            .iter()
            .filter(|it| !it.has_voted)
            .count();
        if missing > usize::from(early) {
            return Ok(());
        }
        if coordinated.check_count() == 0 || planted::is(Bug::ChecksNotJudged) {
            return self.decide_transaction(operation, Decision::Commit, step);
        }
        coordinated.stage = Stage::Checking;
        self.hurry_transaction(step.now, operation);
        self.repeat_transaction(operation, step)
    }

    /// Decides a transaction, and sends the decision to its members.
    pub(super) fn decide_transaction<T: Tables>(
        &mut self,
        operation: OperationId,
        decision: Decision,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let coordinated = coordinated.expect("callers have it");
        let aborts = match &decision {
            Decision::Commit => None,
            Decision::Abort(RequestResult::Transaction(result)) => Some(result.clone()),
            Decision::Abort(_) => Some(TransactionResult::conflict(coordinated.tables[0])),
        };
        coordinated.stage = Stage::Decided(decision);
        coordinated.references.clear();
        for member in &mut coordinated.members {
            member.prepare = None;
        }
        if let Some(result) = aborts {
            coordinated.is_seen = true;
            self.drop_walk(operation, step)?;
            let coordinated = &self.transactions.coordinated[&operation];
            let (route, tables) = (&coordinated.route, &coordinated.tables);
            self.drop_remote_walks(operation, (route, tables), step.output);
            self.end_request(operation, result, step)?;
        }
        self.see_if_durable(operation, step)?;
        self.hurry_transaction(step.now, operation);
        self.repeat_transaction(operation, step)
    }

    /// Ends the request of a transaction that was aborted after its prepare, or lets it begin again
    /// under another name. The members of this attempt still need the decision.
    fn end_request<T: Tables>(
        &mut self,
        operation: OperationId,
        result: TransactionResult,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let old = self.transactions.coordinated.get_mut(&operation);
        let old = old.expect("callers have it");
        let (request, tables) = (old.request.clone(), old.tables.clone());
        let next = Coordinated {
            changes: core::mem::take(&mut old.changes),
            checks: core::mem::take(&mut old.checks),
            ranges: core::mem::take(&mut old.ranges),
            route: old.route.clone(),
            since_us: old.since_us,
            attempts: old.attempts,
            ..Coordinated::new(request, old.at, tables, step.now)
        };
        // A restart forgets the changes, as the end of an epoch does. The client sends them again.
        let is_forgotten = next.changes.is_empty();
        match result.is_conflict() {
            true if is_forgotten => {
                let refusal = Refusal::NotServing;
                self.refuse_running(next.request.request, &refusal, step.output);
                Ok(())
            }
            true => self.pause(next, step),
            false => {
                self.end_aborted(&next, result, step);
                Ok(())
            }
        }
    }
}

/// Returns the result of a transaction that commits, from its complete walk.
fn result_of(walk: Walk) -> RequestResult {
    let versions = walk.evaluated.iter().map(|row| row.change.version);
    let version = versions.max().unwrap_or(Version(0));
    let mut outcomes = walk.outcomes;
    outcomes.sort_unstable_by_key(|(index, _)| *index);
    let outcomes: Vec<ChangeOutcome> = outcomes.into_iter().map(|(_, it)| it).collect();
    RequestResult::Transaction(TransactionResult::Committed { version, outcomes })
}

/// The part of one member in an evaluated transaction.
struct Part {
    id: PartitionId,
    head: PartitionId,
    changes: Vec<Arc<RowChange>>,
    /// The pks of rows that were evaluated here and stay as they are.
    still: Vec<Bytes>,
}

impl Part {
    fn new(id: PartitionId, head: PartitionId) -> Part {
        Part {
            id,
            head,
            changes: Vec::new(),
            still: Vec::new(),
        }
    }
}
