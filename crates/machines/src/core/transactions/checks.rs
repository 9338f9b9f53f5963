//! Checks: after all members have voted yes, rows that the client has read are compared with what
//! it has read (R41).
//!
//! At that moment every member holds what the transaction writes, which is its place in the serial
//! order. A check leaves no state, and holds no key.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{CoreId, OperationId, PartitionId, Position, TableId, Version};
use protocol::operation::Decision;
use protocol::transaction::{AbortReason, RowCheck, TransactionContent, TransactionResult};

use crate::core::CoreMachine;
use crate::core::partition::rows::stored_row;
use crate::core::step::Step;

use super::progress::Stage;

impl CoreMachine {
    /// Asks for the checks that have not passed.
    pub(super) fn ask_for_checks<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = &self.transactions.coordinated[&operation];
        let mut by_core: BTreeMap<CoreId, Vec<(u32, RowCheck)>> = BTreeMap::new();
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
            checks.push((number, check.clone()));
        }
        for (core, checks) in by_core {
            let of = (operation, &coordinated.tables[..]);
            let content = TransactionContent::Check { checks };
            self.send_transaction(core, of, Position(0), content, step.output);
        }
        Ok(())
    }

    /// Judges checks. They count as reads: they need the lease, and a partition that serves.
    pub(super) fn on_check<T: Tables>(
        &mut self,
        from: CoreId,
        (operation, tables): (OperationId, &[TableId]),
        checks: &[(u32, RowCheck)],
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let mut passed = Vec::with_capacity(checks.len());
        let mut failed = None;
        for (number, check) in checks {
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
        let content = TransactionContent::Checked { passed, failed };
        self.send_transaction(from, (operation, tables), Position(0), content, step.output);
        Ok(())
    }

    /// Returns whether a row is as the client has read it, and no other operation has voted on it.
    fn passes<T: Tables>(
        &self,
        operation: OperationId,
        (id, check): (PartitionId, &RowCheck),
        step: &mut Step<'_, T>,
    ) -> Result<bool, TablesError> {
        let holders = self.partitions[&id].locks.holders(&check.pk);
        let is_held = holders
            .iter()
            .any(|holder| *holder != operation && self.members.contains_key(&(*holder, id)));
        let mut version: Option<Version> = None;
        step.tables.read(id.rows_table(), &check.pk, &mut |value| {
            version = Some(stored_row(value).0);
        })?;
        Ok(!is_held && version == check.version)
    }

    /// Handles the answer to some checks.
    pub(super) fn on_checked<T: Tables>(
        &mut self,
        operation: OperationId,
        passed: &[u32],
        failed: Option<(u32, TableId)>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let Some(coordinated) = coordinated.filter(|it| it.stage == Stage::Checking) else {
            return Ok(());
        };
        if let Some((check, table)) = failed {
            let reason = AbortReason::Changed { check };
            let result = TransactionResult::Aborted { table, reason };
            let abort = Decision::abort_transaction(result);
            return self.decide_transaction(operation, abort, step);
        }
        coordinated.passed.extend(passed);
        match coordinated.passed.len() == coordinated.checks.len() {
            true => self.decide_transaction(operation, Decision::Commit, step),
            false => Ok(()),
        }
    }
}
