//! The messages of a coordinator may be lost: it repeats them until it has every answer.

use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, OperationId, PartitionId, TableId};
use protocol::operation::Decision;
use protocol::transaction::{TransactionContent, TransactionResult};

use super::progress::Stage;
use crate::core::CoreMachine;
use crate::core::step::Step;

impl CoreMachine {
    /// Makes the messages of a transaction due again soon.
    pub(super) fn hurry_transaction(&mut self, now: ClockReading, operation: OperationId) {
        let retry_us = self.limits.retry_us;
        if let Some(coordinated) = self.transactions.coordinated.get_mut(&operation) {
            coordinated.retry_us = retry_us;
            coordinated.due_us = now.monotonic_us + retry_us;
        }
    }

    /// Repeats the messages of the transactions whose time has come.
    pub(crate) fn repeat_transactions<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let now_us = step.now.monotonic_us;
        let due = self.transactions.coordinated.iter();
        let due = due.filter(|(_, coordinated)| coordinated.due_us <= now_us);
        let due: Vec<OperationId> = due.map(|(operation, _)| *operation).collect();
        for operation in due {
            let Some(coordinated) = self.transactions.coordinated.get_mut(&operation) else {
                continue;
            };
            if coordinated.stage == Stage::Pausing {
                let coordinated = self.transactions.coordinated.remove(&operation);
                self.end_operation(operation);
                self.begin_attempt(coordinated.expect("it was just there"), step)?;
                continue;
            }
            coordinated.due_us = now_us + coordinated.retry_us;
            coordinated.retry_us = (coordinated.retry_us * 2).min(self.limits.retry_us * 16);
            let is_late = now_us.saturating_sub(coordinated.begun_us) > self.limits.wait_us_max;
            let result = TransactionResult::conflict(coordinated.tables[0]);
            match coordinated.stage {
                Stage::Walking if is_late => {
                    self.end_attempt(operation, result, step)?;
                    continue;
                }
                // Others wait for what it holds.
                Stage::Voting | Stage::Checking if is_late => {
                    let abort = Decision::abort_transaction(result);
                    self.decide_transaction(operation, abort, step)?;
                    continue;
                }
                _ => {}
            }
            self.counters.resent += 1;
            self.repeat_transaction(operation, step)?;
        }
        Ok(())
    }

    /// Sends what the members have not answered.
    pub(super) fn repeat_transaction<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = &self.transactions.coordinated[&operation];
        let tables = coordinated.tables.clone();
        if self.any_stands_still(&tables) {
            return Ok(());
        }
        let of = (operation, &tables[..]);
        match &coordinated.stage {
            Stage::Pausing => {}
            Stage::Walking => return self.repeat_walk(operation, step),
            Stage::Voting => {
                for member in coordinated.members.iter().filter(|it| !it.has_voted) {
                    let prepare = member.prepare.clone().expect("votes are being collected");
                    let content = TransactionContent::Prepare(prepare);
                    self.send_to_member(member.id, of, content, step.output);
                }
            }
            Stage::Checking => return self.ask_for_checks(operation, step),
            Stage::Asking => {
                for member in coordinated.members.iter().filter(|it| !it.has_answered) {
                    let content = TransactionContent::AskDecision { to: member.id };
                    self.send_to_member(member.id, of, content, step.output);
                }
            }
            Stage::Decided(decision) => {
                for member in coordinated.members.iter().filter(|it| !it.has_ended) {
                    let content = TransactionContent::Decision {
                        to: member.id,
                        decision: decision.clone(),
                        settled: coordinated.is_seen,
                    };
                    self.send_to_member(member.id, of, content, step.output);
                }
            }
        }
        Ok(())
    }

    /// Makes the messages due at once that a peer may have missed.
    pub(crate) fn hurry_transactions(
        &mut self,
        now: ClockReading,
        concerns: impl Fn(&[PartitionId], &[TableId]) -> bool,
    ) {
        let retry_us = self.limits.retry_us;
        for coordinated in self.transactions.coordinated.values_mut() {
            let members: Vec<PartitionId> = coordinated.members.iter().map(|it| it.id).collect();
            let waits = coordinated.stage != Stage::Pausing;
            if waits && (members.is_empty() || concerns(&members, &coordinated.tables)) {
                coordinated.retry_us = retry_us;
                coordinated.due_us = now.monotonic_us;
            }
        }
    }
}
