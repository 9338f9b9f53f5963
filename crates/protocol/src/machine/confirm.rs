//! Forgetting operations, and asking again for what was lost.
//!
//! A member keeps an operation, outcome and all, until every member has the outcome durably: one
//! that restarts can then always ask its neighbours (`recovery`). That everything below a member
//! is durable travels up in batches; the head draws the line below which all is finished, and
//! every prepare carries it down. The head alone has timers: whatever it sends again makes the
//! members on the way answer again.

use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};

use super::{CoreMachine, Member, MemberKey, Output, Told};
use crate::identity::{CoreId, Finished, Now, OperationId, PartitionId, Position};
use crate::message::PeerMessage;
use crate::operation::{Decision, RequestResult};
use crate::planted::{self, Bug};

/// Confirmations gathered for one core before they are sent without waiting for the timer.
const CONFIRMATIONS_MAX: usize = 256;

impl CoreMachine {
    /// Records up to `position` are durable.
    pub(super) fn on_durable<T: Tables>(
        &mut self,
        now: Now,
        position: Position,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.durable = self.durable.max(position);
        if self.stands_still() {
            self.seal_goes_on(now, output);
            return Ok(());
        }
        self.take_whole(now, tables, output)?;
        while let Some(&(position, key)) = self.undurable.front() {
            if position > self.durable {
                break;
            }
            self.undurable.pop_front();
            let Some(member) = self.members.get(&key) else {
                continue;
            };
            if member.decision.is_none() {
                if member.is_decider() {
                    self.decide(now, key, tables, output)?;
                }
            } else if member.decided_at == position {
                self.decision_durable(now, key, tables, output)?;
            }
        }
        Ok(())
    }

    fn decision_durable<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let member = &self.members[&key];
        // With `replicated`, the record is not what it waits for: it may be lost.
        if !member.settled && member.table.sync && member.settles_here() {
            return self.settle_first(now, key, tables, output);
        }
        self.try_confirm(now, key, output);
        Ok(())
    }

    /// Tells the previous member, or notes at the head, that the outcome is durable from here on
    /// down.
    pub(super) fn try_confirm(&mut self, now: Now, key: MemberKey, output: &mut Output) {
        let Some(member) = self.members.get_mut(&key) else {
            return;
        };
        let below = member.is_decider() || member.next_durable;
        let durable = member.decided_at <= self.durable || planted::is(Bug::FinishedTooEarly);
        let here = member.settled && durable;
        if member.confirmed || !below || !here {
            return;
        }
        member.confirmed = true;
        let member = &self.members[&key];
        let Some(previous) = member.previous() else {
            let due = now.monotonic_us + self.limits.confirm_us;
            self.confirm_due_us.get_or_insert(due);
            self.unfinished.remove(&key.0.order());
            for partition in &member.prepare.chain {
                if let Some(place) = self.configuration.place(*partition) {
                    self.finished_owed.insert(place.core);
                }
            }
            return;
        };
        if let Some(place) = self.configuration.place(previous) {
            self.confirm_to(now, place.core, key, output);
        }
    }

    /// Gathers a confirmation of one of this core's members for the core of the previous one.
    fn confirm_to(&mut self, now: Now, core: CoreId, member: MemberKey, output: &mut Output) {
        let due = now.monotonic_us + self.limits.confirm_us;
        self.confirm_due_us.get_or_insert(due);
        let gathered = self.confirmations.entry(core).or_default();
        gathered.push(member);
        if gathered.len() >= CONFIRMATIONS_MAX {
            let operations = core::mem::take(gathered);
            let message = PeerMessage::Durable { operations };
            output.sends.push(super::Send {
                to: core,
                after: Position(0),
                message,
            });
        }
    }

    /// Sends what was gathered, and the line of finished operations to whom it concerns.
    pub(super) fn send_confirmations<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if self.confirm_due_us.is_none_or(|due| due > now.monotonic_us) {
            return Ok(());
        }
        self.confirm_due_us = None;
        for (to, operations) in core::mem::take(&mut self.confirmations) {
            if !operations.is_empty() {
                let message = PeerMessage::Durable { operations };
                output.sends.push(super::Send {
                    to,
                    after: Position(0),
                    message,
                });
            }
        }
        let below = self.own_finished();
        let owed = core::mem::take(&mut self.finished_owed);
        for to in owed.into_iter().filter(|to| *to != self.identity.core) {
            let message = PeerMessage::Finished(below);
            output.sends.push(super::Send {
                to,
                after: Position(0),
                message,
            });
        }
        self.forget(now, (self.identity.core, below), tables, output)
    }

    /// The line below which all operations of this head are finished. Until a restarted core has
    /// heard its peers it can have forgotten operations of its own: the line that its log knows of
    /// holds until then.
    pub(super) fn own_finished(&self) -> Finished {
        if self.recovering.is_some() {
            return self
                .finished
                .get(&self.identity.core)
                .copied()
                .unwrap_or_default();
        }
        let next = Finished {
            incarnation: self.identity.incarnation,
            sequence: self.next_sequence,
        };
        self.unfinished.first().copied().unwrap_or(next)
    }

    /// Members further down have the outcome durably, and have settled it: so this one may (R3). It has
    /// not if it has restarted without the record of that; and who has forgotten what is finished does
    /// not tell the decision again.
    pub(super) fn on_member_durable<T: Tables>(
        &mut self,
        now: Now,
        operations: Vec<(OperationId, PartitionId)>,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        for (operation, confirmed) in operations {
            let own = (operation, PartitionId::default())..;
            let before = self
                .members
                .range(own)
                .take_while(|(key, _)| key.0 == operation)
                .find(|(_, member)| member.next() == Some(confirmed));
            let Some(key) = before.map(|(key, _)| *key) else {
                continue;
            };
            let member = self.members.get_mut(&key).expect("it was just found");
            member.next_durable = true;
            if let Some(decision) = member.decision.clone().filter(|_| !member.settled) {
                let told = Told {
                    decision,
                    settled: true,
                    in_order: true,
                };
                self.on_decision(now, key, told, tables, output)?;
            }
            self.try_confirm(now, key, output);
        }
        Ok(())
    }

    /// The head asks whether the outcome is durable further down.
    pub(super) fn on_confirm<T: Tables>(
        &mut self,
        now: Now,
        (from, operations): (CoreId, Vec<(OperationId, PartitionId, bool)>),
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        for (operation, to, settled) in operations {
            let key = (operation, to);
            let Some(member) = self.members.get(&key) else {
                // What is forgotten here was finished: a head that has restarted may not know.
                if operation.order() < self.finished_below(operation.head) {
                    self.confirm_to(now, from, key, output);
                }
                continue;
            };
            if member.decision.is_some() && settled && !member.settled {
                self.settle(now, key, tables, output)?;
            }
            let Some(member) = self.members.get(&key) else {
                continue;
            };
            // The asker has the decision, but not up the chain, or not as settled.
            if !settled {
                self.pass_up(key, output);
            }
            match member.confirmed {
                true => self.confirm_to(now, from, key, output),
                false => self.ask_below(key, output),
            }
        }
        Ok(())
    }

    /// Asks the next member for what is missing: the decision, or that it is durable.
    fn ask_below(&self, key: MemberKey, output: &mut Output) {
        let member = &self.members[&key];
        let (Some(next), Some(_)) = (member.next(), member.prepared_at) else {
            return;
        };
        let message = match member.decision {
            None => PeerMessage::Prepare(Arc::clone(&member.prepare)),
            Some(_) if !member.next_durable => PeerMessage::Confirm {
                operations: alloc::vec![(key.0, next, member.settled)],
            },
            Some(_) => return,
        };
        self.send(next, Position(0), message, output);
    }

    /// A head has finished operations: forgets them.
    pub(super) fn on_finished<T: Tables>(
        &mut self,
        now: Now,
        (head, below): (CoreId, Finished),
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if head == self.identity.core || below <= self.finished_below(head) {
            return Ok(());
        }
        self.finished.insert(head, below);
        self.forget(now, (head, below), tables, output)
    }

    /// Forgets the operations of `head` before `below`.
    pub(super) fn forget<T: Tables>(
        &mut self,
        now: Now,
        (head, below): (CoreId, Finished),
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        // Decisions wait for the end of recovery, and so does this.
        if self.recovering.is_some() {
            return Ok(());
        }
        let first = OperationId {
            head,
            ..OperationId::default()
        };
        let beyond = OperationId {
            head,
            incarnation: below.incarnation,
            sequence: below.sequence,
        };
        let range = (first, PartitionId::default())..(beyond, PartitionId::default());
        let keys: Vec<MemberKey> = self.members.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            // Finished means settled everywhere; only the record of it was lost here.
            if !self.members[&key].settled {
                assert!(
                    self.members[&key].decision.is_some(),
                    "finished means decided durably"
                );
                self.settle(now, key, tables, output)?;
                // One that waits for an earlier operation is forgotten with a later line.
                if !self.members[&key].settled {
                    continue;
                }
            }
            self.members.remove(&key);
            // A restarted head can know from its log that an operation is finished, before it has
            // found out by asking again.
            if head == self.identity.core {
                self.unfinished.remove(&key.0.order());
            }
        }
        Ok(())
    }

    /// Sends again what has had no answer for long.
    pub(super) fn retry<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        while let Some(&(due, operation)) = self.retries.first() {
            if due > now.monotonic_us {
                break;
            }
            self.retries.pop_first();
            let Some(key) = self.head_member(operation) else {
                continue;
            };
            let member = self.members.get_mut(&key).expect("it was just found");
            if member.confirmed || member.retry_due_us != due {
                continue;
            }
            member.retry_due_us = now.monotonic_us + member.retry_us;
            self.retries.insert((member.retry_due_us, operation));
            member.retry_us = (member.retry_us * 2).min(self.limits.retry_us * 16);
            self.counters.resent += 1;
            if planted::is(Bug::HeadAbortsOnTimeout) && self.members[&key].decision.is_none() {
                let told = Told {
                    decision: Decision::Abort(RequestResult::Conflict),
                    settled: true,
                    in_order: true,
                };
                self.on_decision(now, key, told, tables, output)?;
            }
            self.ask_below(key, output);
        }
        Ok(())
    }

    /// The head's member of one of this core's operations.
    fn head_member(&self, operation: OperationId) -> Option<MemberKey> {
        let first = (operation, PartitionId::default());
        let (key, member) = self.members.range(first..).next()?;
        (key.0 == operation && member.place == 0).then_some(*key)
    }

    /// Starts the timer that sends an operation of this head again.
    pub(super) fn watch(&mut self, key: MemberKey, due_us: u64) {
        let member = self.members.get_mut(&key).expect("callers have the member");
        member.retry_due_us = due_us;
        self.retries.insert((due_us, key.0));
    }

    /// Sends again now what concerns a peer that may have missed it.
    pub(super) fn hurry(&mut self, now: Now, concerns: impl Fn(&Member) -> bool) {
        let head = self.identity.core;
        let unfinished: Vec<Finished> = self.unfinished.iter().copied().collect();
        for Finished {
            incarnation,
            sequence,
        } in unfinished
        {
            let operation = OperationId {
                head,
                incarnation,
                sequence,
            };
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
