//! Checks: after all members have voted yes, rows and ranges that the client has read are compared
//! with what it has read (R41), and the references that the changed rows demand are looked up
//! (R57).
//!
//! At that moment every member holds what the transaction writes, which is its place in the serial
//! order. A check leaves no state, and holds no key.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{CoreId, OperationId, PartitionId, Position, TableId, Version};
use protocol::operation::Decision;
use protocol::planted::{self, Bug};
use protocol::transaction::{
    AbortReason, RangeCheck, ReferenceCheck, RowCheck, TransactionContent, TransactionResult,
    digest_of_rows,
};

use crate::core::CoreMachine;
use crate::core::partition::rows::stored_row;
use crate::core::step::Step;

use super::progress::Stage;
use super::references::ReferenceState;

/// The checks that one core judges, with their indexes in the transaction.
#[derive(Default)]
pub(super) struct CoreChecks {
    pub rows: Vec<(u32, RowCheck)>,
    pub ranges: Vec<(u32, RangeCheck)>,
    pub references: Vec<(u32, ReferenceCheck)>,
}

impl CoreMachine {
    /// Asks for the checks that have not passed.
    pub(super) fn ask_for_checks<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = &self.transactions.coordinated[&operation];
        let mut by_core: BTreeMap<CoreId, CoreChecks> = BTreeMap::new();
        for (number, check) in (0..).zip(&coordinated.checks) {
            if coordinated.passed.contains(&number) {
                continue;
            }
            let primary = self.primary_of_row(check.table, &check.pk);
            let place = primary.ok().and_then(|primary| self.view.place(primary));
            let Some(place) = place else {
                continue;
            };
            let checks = by_core.entry(place.core).or_default();
            checks.rows.push((number, check.clone()));
        }
        let first = u32::try_from(coordinated.checks.len()).expect("checks are limited");
        for (number, check) in (first..).zip(&coordinated.ranges) {
            let place = self.view.place(check.read.partition);
            if let Some(place) = place.filter(|_| !coordinated.passed.contains(&number)) {
                let checks = by_core.entry(place.core).or_default();
                checks.ranges.push((number, check.clone()));
            }
        }
        let first = coordinated.checks.len() + coordinated.ranges.len();
        let first = u32::try_from(first).expect("checks are limited");
        for (number, demanded) in (first..).zip(&coordinated.references) {
            let place = self.judge_of_reference(&demanded.check);
            let place = place.and_then(|judge| self.view.place(judge));
            if let Some(place) = place.filter(|_| !coordinated.passed.contains(&number)) {
                let checks = by_core.entry(place.core).or_default();
                checks.references.push((number, demanded.check.clone()));
            }
        }
        let mut tables = coordinated.tables.clone();
        tables.extend(coordinated.referred_tables());
        tables.sort_unstable();
        tables.dedup();
        for (core, checks) in by_core {
            let content = TransactionContent::Check {
                checks: checks.rows,
                ranges: checks.ranges,
                references: checks.references,
            };
            self.send_transaction(
                core,
                (operation, &tables),
                Position(0),
                content,
                step.output,
            );
        }
        Ok(())
    }

    /// Returns the partition that judges the check of a reference.
    fn judge_of_reference(&self, check: &ReferenceCheck) -> Option<PartitionId> {
        match check {
            ReferenceCheck::Parent { table, pk } => self.primary_of_row(*table, pk).ok(),
            ReferenceCheck::NoChild { partition, .. } => Some(*partition),
        }
    }

    /// Judges checks. They count as reads: they need the lease, and a partition that serves.
    pub(super) fn on_check<T: Tables>(
        &mut self,
        from: CoreId,
        (operation, tables): (OperationId, &[TableId]),
        checks: &CoreChecks,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let mut passed = Vec::with_capacity(checks.rows.len() + checks.ranges.len());
        let mut failed = None;
        for (number, check) in &checks.rows {
            let epoch = self.view.table_epoch(check.table);
            let Ok(primary) = self.primary_of_row(check.table, &check.pk) else {
                continue;
            };
            if self.check_readable(step.now, epoch, primary).is_err() {
                // Asked again, it may serve.
                continue;
            }
            match self.passes(operation, (primary, check), step)? {
                true => passed.push(*number),
                false => failed = Some((*number, check.table)),
            }
        }
        for (number, check) in &checks.ranges {
            let id = check.read.partition;
            let epoch = self.view.table_epoch(id.table);
            // In another epoch the partition can have other keys.
            let is_old = check.read.epoch < epoch && !planted::is(Bug::RangeOfOldEpoch);
            if !is_old && self.check_readable(step.now, epoch, id).is_err() {
                continue;
            }
            match !is_old && self.range_passes(operation, check, step)? {
                true => passed.push(*number),
                false => failed = Some((*number, id.table)),
            }
        }
        let mut held = None;
        for (number, check) in &checks.references {
            let Some(judge) = self.judge_of_reference(check) else {
                continue;
            };
            let epoch = self.view.table_epoch(judge.table);
            if self.check_readable(step.now, epoch, judge).is_err() {
                continue;
            }
            let state = match check {
                ReferenceCheck::Parent { pk, .. } => {
                    self.parent_state(operation, (judge, pk), step)?
                }
                ReferenceCheck::NoChild { key, except, .. } => {
                    self.children_state(operation, (judge, key), except, step)?
                }
            };
            match state {
                ReferenceState::Holds => passed.push(*number),
                ReferenceState::Violated => failed = Some((*number, judge.table)),
                ReferenceState::Held => held = Some(judge.table),
            }
        }
        let content = TransactionContent::Checked {
            passed,
            failed,
            held,
        };
        self.send_transaction(from, (operation, tables), Position(0), content, step.output);
        Ok(())
    }

    /// Returns whether one of these holders of keys is another operation that has voted. A walk has
    /// changed nothing yet.
    pub(super) fn another_has_voted<'a>(
        &self,
        operation: OperationId,
        id: PartitionId,
        holders: impl IntoIterator<Item = &'a OperationId>,
    ) -> bool {
        let mut others = holders.into_iter().filter(|holder| **holder != operation);
        others.any(|holder| self.members.contains_key(&(*holder, id)))
    }

    /// Returns whether a row is as the client has read it, and no other operation has voted on it.
    fn passes<T: Tables>(
        &self,
        operation: OperationId,
        (id, check): (PartitionId, &RowCheck),
        step: &mut Step<'_, T>,
    ) -> Result<bool, TablesError> {
        let holders = self.partitions[&id].locks.holders(&check.pk);
        let is_held = self.another_has_voted(operation, id, holders);
        let mut version: Option<Version> = None;
        step.tables.read(id.rows_table(), &check.pk, &mut |value| {
            version = Some(stored_row(value).0);
        })?;
        Ok(!is_held && version == check.version)
    }

    /// Returns whether a range is as the client has read it, and no other operation has voted on a
    /// row of it.
    fn range_passes<T: Tables>(
        &self,
        operation: OperationId,
        check: &RangeCheck,
        step: &mut Step<'_, T>,
    ) -> Result<bool, TablesError> {
        let read = &check.read;
        let id = read.partition;
        let is_plain = read.redirect.is_none() && read.snapshot.is_none() && read.keys.is_empty();
        if !is_plain {
            return Ok(false);
        }
        let locks = &self.partitions[&id].locks;
        let holders = locks.holders_in(&read.start, read.end.as_deref());
        if self.another_has_voted(operation, id, &holders) && !planted::is(Bug::RangeIgnoresVotes) {
            return Ok(false);
        }
        let page = self.present_page(read, step.tables)?;
        Ok(
            page.is_some_and(|page| digest_of_rows(page.rows(), check.versions) == check.digest)
                || planted::is(Bug::RangeNotCompared),
        )
    }

    /// Handles the answer to some checks.
    pub(super) fn on_checked<T: Tables>(
        &mut self,
        operation: OperationId,
        passed: &[u32],
        (failed, held): (Option<(u32, TableId)>, Option<TableId>),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let Some(coordinated) = coordinated.filter(|it| it.stage == Stage::Checking) else {
            return Ok(());
        };
        if let Some((check, table)) = failed {
            let of_client = coordinated.checks.len() + coordinated.ranges.len();
            let reference = (check as usize).checked_sub(of_client);
            let reference = reference.and_then(|it| coordinated.references.get(it));
            let result = match reference {
                Some(reference) => reference.violated.clone(),
                None => {
                    let reason = AbortReason::Changed { check };
                    TransactionResult::Aborted { table, reason }
                }
            };
            let abort = Decision::abort_transaction(result);
            return self.decide_transaction(operation, abort, step);
        }
        if let Some(table) = held {
            let abort = Decision::abort_transaction(TransactionResult::conflict(table));
            return self.decide_transaction(operation, abort, step);
        }
        coordinated.passed.extend(passed);
        match coordinated.passed.len() == coordinated.check_count() {
            true => self.decide_transaction(operation, Decision::Commit, step),
            false => Ok(()),
        }
    }
}
