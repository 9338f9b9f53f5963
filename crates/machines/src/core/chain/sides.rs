//! Side members: the partitions of thin indexes, which take part in an operation beside its chain
//! (R27, R48; `docs/design/2026-11-27-thin-indexes.md`).
//!
//! The head sends the prepare to the side members when it sends it down the chain. They report to
//! the decider, which decides when all have reported. The head tells them the outcome when clients
//! may see it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use placement::tables::{Tables, TablesError};
use protocol::identity::{CoreId, FinishedLine, OperationId, PartitionId, Position, TableId};
use protocol::message::PeerMessage;
use protocol::operation::Decision;
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::member::{MemberKey, members_below};
use crate::core::step::Step;

/// The reports of side members, by the operation and its decider's partition on this core: a set of
/// side members. A report can arrive before the prepare, or after the decision.
#[derive(Debug, Default)]
pub(crate) struct SideReports(BTreeMap<MemberKey, u64>);

impl SideReports {
    /// Drops the reports on finished operations of a head.
    pub fn forget(&mut self, head: CoreId, below: FinishedLine) {
        let range = members_below(head, below);
        self.0.extract_if(range, |_, _| true).for_each(drop);
    }

    /// Drops the reports on a table, whose undecided operations are resolved.
    pub fn forget_table(&mut self, table: TableId) {
        self.0.retain(|key, _| key.1.table != table);
    }
}

impl CoreMachine {
    /// Sends the side members what they may lack: the prepare, and the outcome once clients may see
    /// it. A side member that has the prepare reports again, because the decider may have forgotten
    /// the report. So a side member is left out only when the whole chain has the outcome durably,
    /// too (R48).
    pub(crate) fn tell_sides(&self, key: MemberKey, output: &mut CoreOutput) {
        let member = &self.members[&key];
        let shows = member.is_settled() || planted::is(Bug::SidesLearnEarly);
        let outcome = member.decision().filter(|_| shows);
        let no_report_needed = member.chain_durable() || planted::is(Bug::ConfirmedSideLeftOut);
        for (side, partition) in (0..).zip(member.prepare.side_members()) {
            if member.sides_durable >> side & 1 != 0 && no_report_needed {
                continue;
            }
            let prepare = PeerMessage::Prepare(Arc::new(member.prepare_of_side(side)));
            self.send(*partition, Position(0), prepare, output);
            if let Some(decision) = outcome {
                self.send_outcome(key, *partition, decision, output);
            }
        }
    }

    /// Sends the outcome to the side members. Clients may see it.
    pub(crate) fn settle_sides(&self, key: MemberKey, output: &mut CoreOutput) {
        let member = &self.members[&key];
        // Every member settles a resolved outcome by itself.
        let decision = member.decision().filter(|_| member.resolved_in().is_none());
        let Some(decision) = decision else {
            return;
        };
        for partition in member.prepare.side_members() {
            self.send_outcome(key, *partition, decision, output);
        }
    }

    /// Sends a side member an outcome that clients may see.
    fn send_outcome(
        &self,
        key: MemberKey,
        to: PartitionId,
        decision: &Decision,
        output: &mut CoreOutput,
    ) {
        let message = PeerMessage::Decision {
            operation: key.0,
            to,
            decision: decision.clone(),
            settled: true,
        };
        self.send(to, self.members[&key].decision_after(), message, output);
    }

    /// Reports to the decider that a side member has the prepare, once it is durable.
    pub(crate) fn report_side(&self, key: MemberKey, output: &mut CoreOutput) {
        let member = &self.members[&key];
        let (Some(side), Some(position)) = (member.prepare.side, member.prepared_at()) else {
            return;
        };
        let Some(decider) = member.prepare.chain().last() else {
            return;
        };
        let early = !member.table.sync || planted::is(Bug::ReportedBeforeDurable);
        let after = if early { Position(0) } else { position };
        let message = PeerMessage::Reported {
            operation: key.0,
            to: *decider,
            side,
        };
        self.send(*decider, after, message, output);
    }

    /// Handles the report of a side member.
    pub(crate) fn on_reported<T: Tables>(
        &mut self,
        operation: OperationId,
        (to, side): (PartitionId, u8),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let is_finished = operation.order() < self.finished_below(operation.head);
        if is_finished || side >= 64 || !self.partitions.contains_key(&to) {
            return Ok(());
        }
        let key = (operation, to);
        let is_known = self.members.contains_key(&key);
        if !is_known && self.side_reports.0.len() >= self.limits.operations_max {
            return Ok(());
        }
        *self.side_reports.0.entry(key).or_default() |= 1 << side;
        let Some(member) = self.members.get(&key) else {
            return Ok(());
        };
        let is_due = member
            .prepared_at()
            .is_some_and(|it| match member.table.sync {
                true => self.log.is_durable(it),
                false => member.has_come_down(),
            });
        match is_due && member.is_decider() && member.decision().is_none() {
            true => self.decide(key, step),
            false => Ok(()),
        }
    }

    /// Returns whether all side members of an operation have reported to this core, its decider.
    pub(crate) fn sides_have_reported(&self, key: MemberKey) -> bool {
        let sides = self.members[&key].prepare.sides;
        let reported = self.side_reports.0.get(&key).copied().unwrap_or(0);
        sides == 0
            || reported == u64::MAX >> (64 - u32::from(sides))
            || planted::is(Bug::DecidesWithoutReports)
    }
}
