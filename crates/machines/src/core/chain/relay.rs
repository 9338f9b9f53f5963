//! Passes an operation down the chain, and its decision back up (Replex section 2.3, Fig. 3).
//!
//! A member forwards a prepare as soon as the prepare is in its log, before it is durable. It
//! passes a decision up only once its own prepare is durable (R1). Messages may be lost, duplicated
//! and reordered. If a message arrives again, its handler repeats what it has sent before.

use alloc::sync::Arc;

use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, CoreId, FinishedLine, OperationId, PartitionId, Position};
use protocol::message::PeerMessage;
use protocol::operation::{Decision, Prepare, RequestResult, Vote};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::chain::votes;
use crate::core::contract::CoreOutput;
use crate::core::member::{IncomingDecision, Member, MemberKey};
use crate::core::partition::Partition;
use crate::core::step::Step;

impl CoreMachine {
    /// Handles a `Prepare` from the previous member: creates the member at this core's partition,
    /// and has it acquire its keys.
    pub(crate) fn on_prepare<T: Tables>(
        &mut self,
        prepare: Arc<Prepare>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if !prepare.is_consistent() || prepare.transaction.is_some() {
            return Ok(());
        }
        let operation = prepare.operation;
        let Some(place) = prepare.receiver() else {
            return Ok(());
        };
        let partition = prepare.members[place];
        // The line passes operations of other tables, too: of epochs that this core may not know.
        if prepare.epoch <= self.view.epoch() {
            self.on_finished((operation.head, prepare.finished_below), step)?;
        }
        let key = (operation, partition);
        if operation.order() < self.finished_below(operation.head) {
            // A head that has restarted may not know that the operation is finished.
            if prepare.side.is_some() {
                self.confirm_side(step.now, (key, prepare.members[0]), step.output);
            }
            return Ok(());
        }
        if let Some(member) = self.members.get_mut(&key) {
            member.come_down();
            if planted::is(Bug::VoteChanges) && self.unvote(key) {
                return self.acquire(key, step);
            }
            return self.repeat(key, step);
        }
        // A core that may have forgotten votes gives no new ones; the head sends again.
        if self.recovers(partition.table) {
            return Ok(());
        }
        // The oldest operation of a head is let in even where there is no room: until it is
        // finished, none of those after it is forgotten, and there would never be room again.
        let oldest = operation.order() == self.finished_below(operation.head);
        if self.members.len() >= self.limits.operations_max && !oldest {
            return Ok(());
        }
        let Some(mut member) = self.member(step.now, prepare, place) else {
            return Ok(());
        };
        member.come_down();
        self.members.insert(key, member);
        self.acquire(key, step)
    }

    /// Returns the new member at one index in a chain; none if this core does not hold the
    /// partition.
    pub(crate) fn member(
        &self,
        now: ClockReading,
        prepare: Arc<Prepare>,
        place: usize,
    ) -> Option<Member> {
        let partition = prepare.members[place];
        let table = Arc::clone(&self.partitions.get(&partition)?.table);
        let mut member = Member::new(prepare, table, place, now);
        member.retry_us = self.limits.retry_us;
        Some(member)
    }

    /// Acquires the keys that the operation still needs here, in order (R7). Votes once the
    /// operation has all of them.
    pub(crate) fn acquire<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if self.stands_still(key.1.table) {
            return Ok(());
        }
        if self.members[&key].is_transaction() {
            return self.acquire_part(key, step);
        }
        let member = self.members.get_mut(&key).expect("callers have the member");
        assert!(member.prepared_at().is_none(), "an operation votes once");
        let partition = self
            .partitions
            .get_mut(&key.1)
            .expect("a member's partition is held");
        if !member.is_side() && waits_behind_read(partition, member) {
            if !partition.behind_reads.contains(&key.0) {
                partition.behind_reads.push_back(key.0);
            }
            return Ok(());
        }
        while let Some(wanted) = member.held.get(member.granted()) {
            if planted::is(Bug::ConflictDoesNotWait) {
                partition.locks.force(wanted, key.0);
            } else if !partition.locks.acquire(wanted, key.0) {
                if planted::is(Bug::DuplicateOfPending)
                    && let Some(duplicate) = votes::duplicate_of(member, wanted)
                {
                    self.cast(key, Vote::No(duplicate), step)?;
                    return self.release(key, step);
                }
                let waiters = partition.locks.waiters(wanted);
                if waiters > self.limits.waiters_per_key_max && member.may_refuse() {
                    return self.give_up(key, step);
                }
                return Ok(());
            }
            member.grant(1);
        }
        if self.is_not_whole(key.1) || self.fetches_for_vote(step.now, key, step.output) {
            return Ok(());
        }
        let vote = votes::judge(&self.members[&key], step.tables)?;
        self.cast(key, vote, step)
    }

    /// Votes `Conflict` instead of waiting any longer (R8). The operation cannot commit then, so
    /// the member needs none of its keys.
    pub(crate) fn give_up<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if self.members[&key].is_transaction() {
            return self.refuse_part(key, RequestResult::Conflict, step);
        }
        self.counters.conflicts += 1;
        self.cast(key, Vote::No(RequestResult::Conflict), step)?;
        self.release(key, step)
    }

    /// Raises the versions that this core assigns from now on above those of the operation (R6),
    /// whose record is in the log, or is appended by the caller.
    pub(crate) fn know_versions(&mut self, prepare: &Prepare) {
        let newest = prepare.changes.iter().map(|change| change.version).max();
        self.versions.log(newest.unwrap_or_default());
    }

    /// Logs the vote, and sends the prepare to the next member without waiting for a flush (R1).
    /// The decider decides once its record is durable.
    pub(crate) fn cast<T: Tables>(
        &mut self,
        key: MemberKey,
        vote: Vote,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let member = self.members.get_mut(&key).expect("callers have the member");
        member.vote(vote);
        let prepare = Arc::clone(&member.prepare);
        self.know_versions(&prepare);
        if planted::is(Bug::PreparedIsVisible) {
            self.write(key, step.tables)?;
        }
        let durability = self.members[&key].table.durability();
        let record = Record::Prepared {
            partition: key.1,
            prepare: Arc::clone(&prepare),
        };
        let position = self.append(&record, durability, step.output);
        let member = self.members.get_mut(&key).expect("it was there");
        member.prepare_at(position);
        if member.place == 0 {
            self.tell_sides(key, step.output);
        }
        let member = &self.members[&key];
        if member.is_side() {
            self.ranges.note_change(key.1, &member.held);
            self.report_side(key, step.output);
            return Ok(());
        }
        if let Some(next) = member.next() {
            self.send(
                next,
                Position(0),
                PeerMessage::Prepare(prepare),
                step.output,
            );
            return Ok(());
        }
        if !member.table.sync || planted::is(Bug::DecisionBeforeDurable) {
            return self.decide(key, step);
        }
        self.awaited.push(position, key);
        Ok(())
    }

    /// Decides by the AND of all votes (R2). The decider's `Prepared` is durable by now. It holds
    /// all votes, so it is the durable record of the decision, too. With `replicated` the prepare
    /// has come down the chain.
    pub(crate) fn decide<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let member = &self.members[&key];
        assert!(member.is_decider(), "only the decider decides");
        assert!(
            member.table.sync || member.has_come_down(),
            "all members have the prepare"
        );
        if !self.sides_have_reported(key) {
            return Ok(());
        }
        let mut votes = &member.prepare.votes[..];
        assert_eq!(votes.len(), member.prepare.chain().len(), "all have voted");
        if planted::is(Bug::VotesIgnored) {
            votes = &votes[votes.len() - 1..];
        }
        let no = votes.iter().find_map(|vote| match vote {
            Vote::Yes => None,
            Vote::No(reason) => Some(reason.clone()),
        });
        let decision = no.map_or(Decision::Commit, Decision::Abort);
        let incoming = IncomingDecision {
            decision,
            settled: false,
            in_order: true,
        };
        self.on_decision(key, incoming, step)
    }

    /// Handles the decision at a member: logs it, settles if readers may see the outcome, and
    /// passes the decision to the previous member. The decision comes from the next member, from
    /// the decider itself, or from any peer during a recovery.
    pub(crate) fn on_decision<T: Tables>(
        &mut self,
        key: MemberKey,
        incoming: IncomingDecision,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(member) = self.members.get(&key) else {
            return Ok(());
        };
        // A side member takes only an outcome that clients may see (R48).
        if member.is_side() && !incoming.settled || member.is_transaction() {
            return Ok(());
        }
        if member.prepared_at().is_none() {
            // The member's vote was lost and is never cast again: only an adoption restores it.
            return Ok(());
        }
        if let Some(recovering) = self.recovering.get_mut(&key.1.table)
            && !planted::is(Bug::AppliedAsReceived)
        {
            recovering.remember(key, incoming);
            return Ok(());
        }
        let IncomingDecision {
            decision,
            settled,
            in_order,
        } = incoming;
        if let Some(known) = member.decision() {
            assert_eq!(*known, decision, "a decision never changes");
        } else {
            let durability = member.decision_durability();
            let record = Record::Decided {
                partition: key.1,
                operation: key.0,
                decision: decision.clone(),
                settles: member.settles_at_decision(),
            };
            let position = self.append(&record, durability, step.output);
            self.awaited.push(position, key);
            let member = self.members.get_mut(&key).expect("it was there");
            member.decide(decision, position, None);
        }
        let member = self.members.get_mut(&key).expect("it was there");
        if in_order || settled {
            member.note_in_order();
        }
        let member = &self.members[&key];
        let forgets = planted::is(Bug::OldRowForgotten);
        if !member.is_settled() && (settled || member.settles_at_decision() || forgets) {
            self.settle(key, step)?;
        } else if !member.is_settled() && !member.table.sync && in_order && member.settles_here() {
            self.settle_first(key, step)?;
        } else if planted::is(Bug::AnswerBeforeSettled) && member.place == 0 {
            self.finish_requests(step.now, key, step.output);
        }
        if !in_order && self.members.get(&key).is_some_and(Member::has_skipped) {
            self.ask_below(key, step.output);
        } else {
            self.pass_up(key, step.output);
        }
        Ok(())
    }

    /// Sends the decision to the previous member, unless it has skipped later members. The message
    /// waits for this member's record.
    pub(crate) fn pass_up(&self, key: MemberKey, output: &mut CoreOutput) {
        let member = self.members.get(&key).filter(|it| !it.has_skipped());
        let Some(member) = member else {
            return;
        };
        let (Some(previous), Some(decision)) = (member.previous(), member.decision()) else {
            return;
        };
        // An outcome that waits for its record here is settled when it is sent.
        let will_settle = member.table.sync && member.settles_here();
        let message = PeerMessage::Decision {
            operation: key.0,
            to: previous,
            decision: decision.clone(),
            settled: member.is_settled() || member.settle_waits() || will_settle,
        };
        let after = member.decision_after();
        self.send(previous, after, message, output);
    }

    /// Removes this core's vote on an operation. Only a planted bug does this. Returns false if
    /// there is no vote.
    fn unvote(&mut self, key: MemberKey) -> bool {
        let Some(member) = self.members.get_mut(&key) else {
            return false;
        };
        member.unvote()
    }

    /// Handles a repeated prepare: sends the same answer again. A decider that has lost its
    /// decision with its memory (`replicated`) decides again, because the prepare has passed all
    /// members again.
    fn repeat<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.counters.resent += 1;
        let member = &self.members[&key];
        if member.is_side() {
            let head = member.prepare.members[0];
            let is_confirmed = member.is_confirmed();
            self.report_side(key, step.output);
            if is_confirmed {
                self.confirm_side(step.now, (key, head), step.output);
            }
        } else if member.has_skipped() {
            self.ask_below(key, step.output);
        } else if member.decision().is_some() {
            self.pass_up(key, step.output);
        } else if let (Some(next), Some(_)) = (member.next(), member.prepared_at()) {
            let prepare = Arc::clone(&member.prepare);
            self.send(
                next,
                Position(0),
                PeerMessage::Prepare(prepare),
                step.output,
            );
        } else if member.prepared_at().is_some() && !member.table.sync {
            return self.decide(key, step);
        }
        Ok(())
    }

    /// Returns the line of a head's finished operations, as far as this core knows.
    pub(crate) fn finished_below(&self, head: CoreId) -> FinishedLine {
        if head == self.identity.core {
            return self.own_finished();
        }
        self.finished.of(head)
    }

    /// Handles the message that the outcome is settled, from the previous member (R3, x before the
    /// chain's end).
    pub(crate) fn on_settled<T: Tables>(
        &mut self,
        operation: OperationId,
        to: PartitionId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let key = (operation, to);
        let Some(member) = self.members.get(&key) else {
            return Ok(());
        };
        if member.decision().is_some() && !member.is_settled() {
            self.settle(key, step)?;
        }
        if let Some(next) = self.members.get(&key).and_then(Member::next) {
            let message = PeerMessage::Settled {
                operation,
                to: next,
            };
            self.send(next, Position(0), message, step.output);
        }
        Ok(())
    }
}

/// Returns whether an operation that came after a waiting read or a hold waits for its end. An
/// operation that holds keys already does not: the read waits for the operation.
fn waits_behind_read(partition: &Partition, member: &Member) -> bool {
    let mut reads = partition.reads.iter();
    let mut holds = partition.holds.iter();
    member.granted() == 0
        && (reads.any(|read| read.covers_operation(member))
            || holds.any(|hold| hold.covers_operation(member)))
}
