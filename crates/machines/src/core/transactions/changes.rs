//! A new configuration: attempts on its tables end that are not decided, and a seal of a table
//! stops all transactions that touch it, at all of their members (R44).
//!
//! A coordinator can miss a whole seal, and learn of its end only. The seal has then removed its
//! server from the table, so that it holds the first primary no longer.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{OperationId, PartitionId, TableId};
use protocol::message::Refusal;
use protocol::operation::Decision;
use protocol::planted::{self, Bug};
use protocol::transaction::TransactionResult;

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::member::MemberKey;
use crate::core::step::Step;

use super::progress::Stage;

impl CoreMachine {
    /// Ends attempts on tables that differ in a new configuration, unless they are decided. Their
    /// clients choose the first core of the walk again.
    pub(crate) fn end_attempts_on<T: Tables>(
        &mut self,
        changed: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let touches = |tables: &[TableId]| tables.iter().any(|table| changed.contains(table));
        let coordinated = self.transactions.coordinated.iter();
        let concerned = coordinated.filter(|(_, coordinated)| {
            let mut referred = coordinated.referred_tables();
            touches(&coordinated.tables) || referred.any(|table| changed.contains(&table))
        });
        let concerned: Vec<OperationId> = concerned.map(|(operation, _)| *operation).collect();
        for operation in concerned {
            // That an earlier one has ended may have ended it, or let it go on.
            let Some(coordinated) = self.transactions.coordinated.get(&operation) else {
                continue;
            };
            match coordinated.stage {
                Stage::Pausing | Stage::Walking => {
                    let request = coordinated.request();
                    self.forget_attempt(operation, step)?;
                    let epoch = self.view.epoch();
                    self.refuse_running(request, &Refusal::StaleEpoch { epoch }, step.output);
                }
                Stage::Voting | Stage::Checking => self.end_with_epoch(operation, step)?,
                Stage::Asking | Stage::Decided(_) => self.leave_out_dropped(operation, step)?,
            }
        }
        self.drop_walks_of(changed, step)
    }

    /// Aborts a transaction whose prepare was sent: the end of an epoch may have aborted it already
    /// at members that take part in no seal of this core.
    fn end_with_epoch<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if planted::is(Bug::LostCoordinatorGoesOn) {
            return Ok(());
        }
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let coordinated = coordinated.expect("callers have it");
        // The client sends them again, to the first primary of then.
        coordinated.changes = Arc::default();
        let (request, table) = (coordinated.request(), coordinated.tables[0]);
        let epoch = self.view.epoch();
        self.refuse_running(request, &Refusal::StaleEpoch { epoch }, step.output);
        let abort = Decision::abort_transaction(TransactionResult::conflict(table));
        self.decide_transaction(operation, abort, step)
    }

    /// Forgets the transactions that this core coordinates by a partition that it has lost, or has
    /// been given again: the seal of the table has decided them.
    pub(crate) fn forget_coordinated_by(&mut self, at: PartitionId, output: &mut CoreOutput) {
        if planted::is(Bug::LostCoordinatorGoesOn) {
            return;
        }
        let coordinated = self.transactions.coordinated.iter();
        let gone = coordinated.filter(|(_, coordinated)| coordinated.at == at);
        for operation in gone.map(|(operation, _)| *operation).collect::<Vec<_>>() {
            let coordinated = self.transactions.coordinated.remove(&operation);
            let coordinated = coordinated.expect("it was just listed");
            self.end_operation(operation);
            // Once the members have their parts, the seal may have committed it.
            let refusal = match coordinated.stage {
                Stage::Pausing | Stage::Walking => Refusal::WrongPartition,
                _ => Refusal::Begun,
            };
            self.refuse_running(coordinated.request(), &refusal, output);
        }
    }

    /// Returns the members of undecided or unsettled transactions that touch a table.
    pub(crate) fn parts_touching(&self, table: TableId) -> Vec<MemberKey> {
        let parts = self.members.iter().filter(|(key, member)| {
            member.is_transaction()
                && key.1.table != table
                && member.prepare.touches(|touched| touched == table)
        });
        parts.map(|(key, _)| *key).collect()
    }

    /// Ends the coordination of transactions that a resolution has decided: their tables serve
    /// again. A client whose transaction was aborted sends it again.
    pub(crate) fn end_resolved<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) {
        let coordinated = self.transactions.coordinated.iter();
        let resolved = coordinated.filter(|(_, coordinated)| {
            let touched = &coordinated.tables;
            let serves = |table: &TableId| self.view.table(*table).is_some();
            let mut serving = touched.iter().filter(|table| serves(table));
            serving.any(|table| tables.contains(table)) && !self.any_other_sealed(touched, tables)
        });
        let resolved: Vec<OperationId> = resolved.map(|(operation, _)| *operation).collect();
        for operation in resolved {
            let coordinated = self.transactions.coordinated.remove(&operation);
            let request = coordinated.expect("it was just listed").request();
            self.end_operation(operation);
            match self.sessions.effect_of(request) {
                Some(result) => {
                    let terms = (self.log.last(), None);
                    self.answer_waiters(request, result, terms, step.output);
                }
                None => {
                    let epoch = self.view.epoch();
                    self.refuse_running(request, &Refusal::StaleEpoch { epoch }, step.output);
                }
            }
        }
    }

    /// Returns whether one of a transaction's tables other than these is sealed, in the log or in
    /// the configuration. While the log is read, the configuration is a later one.
    pub(crate) fn any_other_sealed(&self, of: &[TableId], other_than: &BTreeSet<TableId>) -> bool {
        let mut others = of.iter().filter(|table| !other_than.contains(table));
        others.any(|table| {
            let is_known = !self.log.is_replaying() && self.view.stands_still(*table);
            is_known || self.sealing.sealed_epoch(*table).is_some()
        })
    }
}
