//! Confirming and forgetting operations, and repeating lost messages.
//!
//! A member keeps an operation and its outcome until every member has the outcome durably. So a
//! restarted member can always ask its neighbours (`recovery`). Members report durable outcomes to
//! the previous member in batches. The head draws the line below which everything is finished, and
//! every prepare carries the line to the members. Only the head has timers: when it repeats a
//! message, the members along the chain repeat their answers.

use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, CoreId, FinishedLine, OperationId, PartitionId, Position};
use protocol::message::PeerMessage;
use protocol::operation::{Decision, RequestResult};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::member::{IncomingDecision, Member, MemberKey, members_below};
use crate::core::step::Step;

impl CoreMachine {
    /// Handles that records up to `position` are durable: a decider decides, and other members take
    /// the next step that waited for their record.
    pub(crate) fn on_durable<T: Tables>(
        &mut self,
        position: Position,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.log.note_durable(position);
        self.seals_go_on(step.now, step.output);
        self.take_whole(step)?;
        self.report_fills(step.now);
        while let Some((position, key)) = self.awaited.pop(self.log.durable()) {
            // A resolution decides the undecided operations of a sealed table.
            if self.stands_still(key.1.table) {
                continue;
            }
            let Some(member) = self.members.get(&key) else {
                continue;
            };
            if member.decision().is_none() {
                if member.is_decider() {
                    self.decide(key, step)?;
                }
            } else if member.decided_at() == position {
                self.decision_durable(key, step)?;
            }
        }
        Ok(())
    }

    fn decision_durable<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let member = &self.members[&key];
        // With `replicated`, the record is not what it waits for: it may be lost.
        if !member.is_settled() && member.table.sync && member.settles_here() {
            return self.settle_first(key, step);
        }
        self.try_confirm(step.now, key, step.output);
        Ok(())
    }

    /// Confirms to the previous member that the outcome is durable at this member and all members
    /// after it, once it is. The head ends the operation instead.
    pub(crate) fn try_confirm(
        &mut self,
        now: ClockReading,
        key: MemberKey,
        output: &mut CoreOutput,
    ) {
        let member = self.members.get_mut(&key);
        let Some(member) = member.filter(|it| !it.is_transaction()) else {
            return;
        };
        let below = member.others_durable();
        let durable =
            self.log.is_durable(member.decided_at()) || planted::is(Bug::FinishedTooEarly);
        let here = member.is_settled() && durable;
        if member.is_confirmed() || !below || !here {
            return;
        }
        member.confirm();
        let member = &self.members[&key];
        let Some(previous) = member.confirms_to() else {
            let due_us = now.monotonic_us + self.limits.confirm_us;
            self.confirmations.send_by(due_us);
            self.operations.end(key.0);
            let places = member.prepare.members.iter();
            let places = places.filter_map(|partition| self.view.place(*partition));
            self.confirmations.owe(places.map(|place| place.core));
            return;
        };
        if let Some(place) = self.view.place(previous) {
            self.confirm_to(now, place.core, key, output);
        }
    }

    /// Confirms an outcome at a side member to the head again, because a confirmation may be lost.
    pub(crate) fn confirm_side(
        &mut self,
        now: ClockReading,
        (key, head): (MemberKey, PartitionId),
        output: &mut CoreOutput,
    ) {
        if let Some(place) = self.view.place(head) {
            self.confirm_to(now, place.core, key, output);
        }
    }

    /// Gathers a confirmation of one of this core's members for the core of the previous one.
    fn confirm_to(
        &mut self,
        now: ClockReading,
        core: CoreId,
        member: MemberKey,
        output: &mut CoreOutput,
    ) {
        let due_us = now.monotonic_us + self.limits.confirm_us;
        self.confirmations.send_by(due_us);
        if let Some(operations) = self.confirmations.gather(core, member) {
            let message = PeerMessage::Durable { operations };
            output.sends.push(PeerSend {
                to: core,
                after: Position(0),
                message,
            });
        }
    }

    /// Sends the collected confirmations, and the line of finished operations to the cores that
    /// need it.
    pub(crate) fn send_confirmations<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let (gathered, owed) = self.confirmations.take();
        for ((to, _), operations) in gathered {
            if !operations.is_empty() {
                let message = PeerMessage::Durable { operations };
                step.output.sends.push(PeerSend {
                    to,
                    after: Position(0),
                    message,
                });
            }
        }
        let below = self.own_finished();
        for to in owed.into_iter().filter(|to| *to != self.identity.core) {
            let message = PeerMessage::Finished(below);
            step.output.sends.push(PeerSend {
                to,
                after: Position(0),
                message,
            });
        }
        self.forget((self.identity.core, below), step)
    }

    /// Ends an operation that was never in the log of a member, or is gone with an epoch. Later
    /// operations may be finished that only waited for it, so the line is drawn at once.
    pub(crate) fn end_operation(&mut self, operation: OperationId) {
        self.operations.end(operation);
        self.confirmations.send_by(0);
    }

    /// Returns the line below which all operations of this head are finished. A restarted core may
    /// have forgotten operations of its own. Until its peers have answered, it uses the line in its
    /// log.
    pub(crate) fn own_finished(&self) -> FinishedLine {
        if !self.recovering.is_empty() {
            return self.finished.of(self.identity.core);
        }
        self.operations.finished()
    }

    /// Handles the report that all members after this one have settled the outcome durably. So this
    /// member may settle, too (R3). It may not have settled yet: after a restart it can lack the
    /// record of the settlement, and no member sends the decision again once they have forgotten
    /// the operation.
    pub(crate) fn on_member_durable<T: Tables>(
        &mut self,
        operations: Vec<(OperationId, PartitionId)>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        for (operation, confirmed) in operations {
            let own = (operation, PartitionId::default())..;
            let before = self
                .members
                .range(own)
                .take_while(|(key, _)| key.0 == operation)
                .find_map(|(key, member)| {
                    let sides = member.prepare.side_members().iter();
                    let mut sides = sides.enumerate().filter(|_| member.place == 0);
                    let side = sides.find(|(_, side)| **side == confirmed);
                    let is_next = member.next() == Some(confirmed);
                    (is_next || side.is_some()).then_some((*key, side.map(|(side, _)| side)))
                });
            let Some((key, side)) = before else {
                continue;
            };
            let member = self.members.get_mut(&key).expect("it was just found");
            if let Some(side) = side {
                member.sides_durable |= 1 << side;
                self.try_confirm(step.now, key, step.output);
                continue;
            }
            member.next_durable = true;
            if let Some(decision) = member.decision().cloned().filter(|_| !member.is_settled()) {
                let incoming = IncomingDecision {
                    decision,
                    settled: true,
                    in_order: true,
                };
                self.on_decision(key, incoming, step)?;
            }
            self.try_confirm(step.now, key, step.output);
        }
        Ok(())
    }

    /// Handles the previous member's question whether the outcome is durable at this member and
    /// those after it.
    pub(crate) fn on_confirm<T: Tables>(
        &mut self,
        from: CoreId,
        operations: Vec<(OperationId, PartitionId, bool)>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        for (operation, to, settled) in operations {
            let key = (operation, to);
            let Some(member) = self.members.get(&key) else {
                // An operation that is forgotten here was finished: a head that has restarted may
                // not know.
                if operation.order() < self.finished_below(operation.head) {
                    self.confirm_to(step.now, from, key, step.output);
                }
                continue;
            };
            if member.decision().is_some() && settled && !member.is_settled() {
                self.settle(key, step)?;
            }
            let Some(member) = self.members.get(&key) else {
                continue;
            };
            // The asker has the decision, but not up the chain, or not as settled.
            if !settled {
                self.pass_up(key, step.output);
            }
            match member.is_confirmed() {
                true => self.confirm_to(step.now, from, key, step.output),
                false => self.ask_below(key, step.output),
            }
        }
        Ok(())
    }

    /// Asks the next member for the decision, or for the confirmation that the decision is durable,
    /// whichever is missing.
    pub(crate) fn ask_below(&self, key: MemberKey, output: &mut CoreOutput) {
        let member = &self.members[&key];
        if member.place == 0 && member.prepared_at().is_some() {
            self.tell_sides(key, output);
        }
        let (Some(next), Some(_)) = (member.next(), member.prepared_at()) else {
            return;
        };
        let message = match member.decision() {
            None => PeerMessage::Prepare(Arc::clone(&member.prepare)),
            Some(_) if !member.next_durable => PeerMessage::Confirm {
                operations: alloc::vec![(key.0, next, member.is_settled())],
            },
            Some(_) => return,
        };
        self.send(next, Position(0), message, output);
    }

    /// Handles a head's line: forgets the operations below it.
    pub(crate) fn on_finished<T: Tables>(
        &mut self,
        (head, below): (CoreId, FinishedLine),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if head == self.identity.core || below <= self.finished_below(head) {
            return Ok(());
        }
        self.finished.raise(head, below);
        self.forget((head, below), step)
    }

    /// Forgets the operations of `head` before `below`.
    pub(crate) fn forget<T: Tables>(
        &mut self,
        (head, below): (CoreId, FinishedLine),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.side_reports.forget(head, below);
        let range = members_below(head, below);
        let keys: Vec<MemberKey> = self.members.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            // Decisions wait for the end of recovery or of the seal, and so does this.
            if self.recovers(key.1.table) || self.has_sealed(key.1.table) {
                continue;
            }
            // An operation that settles can take along the operations that waited for it.
            let Some(member) = self.members.get(&key) else {
                continue;
            };
            // Finished means settled everywhere; only the record of it was lost here.
            if member.is_transaction() && self.any_stands_still(&member.prepare.tables()) {
                continue;
            }
            if member.is_transaction() && member.decision().is_none() {
                // It came late, after this core had reported that it knows nothing.
                self.abort_part(key, step)?;
                if !self.members.contains_key(&key) {
                    continue;
                }
            }
            let member = &self.members[&key];
            if !member.is_settled() {
                assert!(
                    member.decision().is_some(),
                    "finished means decided durably"
                );
                self.settle(key, step)?;
            }
            self.forget_late(key);
        }
        Ok(())
    }

    /// Forgets a finished operation, unless its settlement still waits for an earlier operation.
    pub(crate) fn forget_late(&mut self, key: MemberKey) {
        let head = key.0.head;
        // A restarted head can know from its log that an operation is finished, before it has
        // found out by asking again.
        let logged = self.finished.of(head);
        let below = self.finished_below(head).max(logged);
        let is_settled = self.members.get(&key).is_some_and(|it| it.is_settled());
        if is_settled && key.0.order() < below {
            self.members.remove(&key);
            if head == self.identity.core {
                self.operations.end(key.0);
            }
        }
    }

    /// Sends messages again that have had no answer for long.
    pub(crate) fn retry<T: Tables>(&mut self, step: &mut Step<'_, T>) -> Result<(), TablesError> {
        while let Some((due, operation)) = self.operations.pop_retry(step.now.monotonic_us) {
            let Some(key) = self.head_member(operation) else {
                continue;
            };
            if self.stands_still(key.1.table) {
                continue;
            }
            let member = self.members.get_mut(&key).expect("it was just found");
            if member.is_confirmed() || member.retry_due_us != due {
                continue;
            }
            member.retry_due_us = step.now.monotonic_us + member.retry_us;
            self.operations.retry_at(member.retry_due_us, operation);
            member.retry_us = (member.retry_us * 2).min(self.limits.retry_us * 16);
            self.counters.resent += 1;
            if planted::is(Bug::HeadAbortsOnTimeout) && self.members[&key].decision().is_none() {
                let incoming = IncomingDecision {
                    decision: Decision::Abort(RequestResult::Conflict),
                    settled: true,
                    in_order: true,
                };
                self.on_decision(key, incoming, step)?;
            }
            self.ask_below(key, step.output);
        }
        Ok(())
    }

    /// Returns the head's member of one of this core's operations.
    fn head_member(&self, operation: OperationId) -> Option<MemberKey> {
        let first = (operation, PartitionId::default());
        let members = self.members.range(first..);
        let mut own = members.take_while(|(key, _)| key.0 == operation);
        let head = own.find(|(_, member)| member.place == 0 && !member.is_transaction());
        head.map(|(key, _)| *key)
    }

    /// Starts the timer after which the head sends an operation again.
    pub(crate) fn watch(&mut self, key: MemberKey, due_us: u64) {
        let member = self.members.get_mut(&key).expect("callers have the member");
        member.retry_due_us = due_us;
        self.operations.retry_at(due_us, key.0);
    }

    /// Makes messages due at once that concern a peer which may have missed them.
    pub(crate) fn hurry(&mut self, now: ClockReading, concerns: impl Fn(&Member) -> bool) {
        for operation in self.operations.unfinished() {
            let Some(key) = self.head_member(operation) else {
                continue;
            };
            if concerns(&self.members[&key]) {
                // A peer that has just come back may not take it yet: it is asked often again.
                let member = self.members.get_mut(&key).expect("it was just looked at");
                member.retry_us = self.limits.retry_us;
                self.watch(key, now.monotonic_us);
            }
        }
    }
}
