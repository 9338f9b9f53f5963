//! An operation's way down the chain and its decision's way up (Replex section 2.3, Fig. 3).
//!
//! A prepare is forwarded as soon as it is logged, not yet durable; a decision passes a member
//! upwards only after the member's own prepare is durable (SAFETY R1). Messages may be lost,
//! doubled and reordered: every handler takes a repeated message as a question for what it has
//! said before.

use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};

use super::{CoreMachine, Member, MemberKey, Output, Told};
use crate::identity::{CoreId, Now, OperationId, PartitionId, Position};
use crate::message::PeerMessage;
use crate::operation::{Decision, Prepare, RequestResult, Vote};
use crate::planted::{self, Bug};
use crate::record::Record;

impl CoreMachine {
    /// Phase 1 has reached one of this core's partitions.
    pub(super) fn on_prepare<T: Tables>(
        &mut self,
        now: Now,
        prepare: Arc<Prepare>,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let operation = prepare.operation;
        let place = prepare.votes.len();
        let Some(&partition) = prepare.chain.get(place) else {
            return Ok(());
        };
        self.on_finished(
            now,
            (operation.head, prepare.finished_below),
            tables,
            output,
        )?;
        if operation.order() < self.finished_below(operation.head) {
            return Ok(());
        }
        let key = (operation, partition);
        if self.members.contains_key(&key) {
            if planted::is(Bug::VoteChanges) && self.unvote(key) {
                return self.acquire(now, key, tables, output);
            }
            return self.repeat(now, key, tables, output);
        }
        // A core that may have forgotten votes gives no new ones; the head sends again.
        if self.recovering.is_some() {
            return Ok(());
        }
        // The oldest operation of a head is let in even where there is no room: until it is
        // finished, none of those behind it is forgotten, and there would never be room again.
        let oldest = operation.order() == self.finished_below(operation.head);
        if self.members.len() >= self.limits.operations_max && !oldest {
            return Ok(());
        }
        let Some(member) = self.member(now, prepare, place) else {
            return Ok(());
        };
        self.members.insert(key, member);
        self.acquire(now, key, tables, output)
    }

    /// A member as it arrives; none if this core does not hold the partition.
    pub(super) fn member(&self, now: Now, prepare: Arc<Prepare>, place: usize) -> Option<Member> {
        let partition = prepare.chain[place];
        let table = Arc::clone(&self.partitions.get(&partition)?.table);
        let changes = prepare.changes.iter();
        let parts = changes.map(|change| table.part(partition, change));
        let (effects, held): (Vec<_>, Vec<_>) = parts.unzip();
        let held = match <[_; 1]>::try_from(held) {
            Ok([held]) => held,
            Err(several) => {
                let mut held = several.concat();
                held.sort_unstable();
                held.dedup();
                held
            }
        };
        Some(Member {
            prepare,
            table,
            place,
            effects,
            held,
            granted: 0,
            since_us: now.monotonic_us,
            retry_due_us: 0,
            retry_us: self.limits.retry_us,
            has_fetched: false,
            prepared_at: None,
            decision: None,
            decided_at: Position(0),
            settled: false,
            settle_waits: false,
            next_durable: false,
            confirmed: false,
            resolved_in: None,
        })
    }

    /// Takes the keys that the operation still needs here, in order (SAFETY R7); votes once it
    /// has all of them.
    pub(super) fn acquire<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if self.stands_still() {
            return Ok(());
        }
        let member = self.members.get_mut(&key).expect("callers have the member");
        assert!(member.prepared_at.is_none(), "an operation votes once");
        let partition = self
            .partitions
            .get_mut(&key.1)
            .expect("a member's partition is held");
        // What came after a waiting lookup stays behind it, unless it holds keys already: then the
        // lookup waits for it.
        let behind = member.granted == 0
            && partition
                .reads
                .iter()
                .any(|read| read.covers_operation(member));
        if behind {
            if !partition.behind_reads.contains(&key.0) {
                partition.behind_reads.push_back(key.0);
            }
            return Ok(());
        }
        while let Some(wanted) = member.held.get(member.granted) {
            if planted::is(Bug::ConflictDoesNotWait) {
                partition.locks.force(wanted, key.0);
            } else if !partition.locks.acquire(wanted, key.0) {
                if planted::is(Bug::DuplicateOfPending)
                    && let Some(duplicate) = super::votes::duplicate_of(member, wanted)
                {
                    self.cast(key, Vote::No(duplicate), tables, now, output)?;
                    return self.release(now, key, tables, output);
                }
                let waiters = partition.locks.waiters(wanted);
                if waiters > self.limits.waiters_per_key_max && member.may_refuse() {
                    return self.give_up(now, key, tables, output);
                }
                return Ok(());
            }
            member.granted += 1;
        }
        if self.is_not_whole(key.1) || self.fetches_for_vote(now, key, output) {
            return Ok(());
        }
        let vote = super::votes::judge(&self.members[&key], tables)?;
        self.cast(key, vote, tables, now, output)
    }

    /// Votes `Conflict` instead of waiting on (SAFETY R8). Such an operation cannot commit, so
    /// that it needs none of its keys.
    pub(super) fn give_up<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.counters.conflicts += 1;
        self.cast(key, Vote::No(RequestResult::Conflict), tables, now, output)?;
        self.release(now, key, tables, output)
    }

    /// What this core gives from here on is higher (SAFETY R6).
    pub(super) fn know_versions(&mut self, prepare: &Prepare) {
        let newest = prepare.changes.iter().map(|change| change.version).max();
        self.last_version = self.last_version.max(newest.unwrap_or_default());
    }

    /// Logs the vote and forwards the prepare (SAFETY R1).
    pub(super) fn cast<T: Tables>(
        &mut self,
        key: MemberKey,
        vote: Vote,
        tables: &mut T,
        now: Now,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let member = self.members.get_mut(&key).expect("callers have the member");
        let prepare = Arc::make_mut(&mut member.prepare);
        assert_eq!(
            prepare.votes.len(),
            member.place,
            "votes come in chain order"
        );
        prepare.votes.push(vote);
        let prepare = Arc::clone(&member.prepare);
        self.know_versions(&prepare);
        if planted::is(Bug::PreparedIsVisible) {
            self.write(key, tables)?;
        }
        let durability = self.members[&key].table.durability();
        let record = Record::Prepared {
            partition: key.1,
            prepare: Arc::clone(&prepare),
        };
        let position = self.log(&record, durability, output);
        let member = self.members.get_mut(&key).expect("it was there");
        member.prepared_at = Some(position);
        if let Some(next) = member.next() {
            self.send(next, Position(0), PeerMessage::Prepare(prepare), output);
            return Ok(());
        }
        if !member.table.sync || planted::is(Bug::DecisionBeforeDurable) {
            return self.decide(now, key, tables, output);
        }
        self.undurable.push_back((position, key));
        Ok(())
    }

    /// The decider's prepare is durable: the AND of all votes is the decision (SAFETY R2). Its
    /// durable record, which holds all votes, is the decision's record as well.
    pub(super) fn decide<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let member = &self.members[&key];
        assert!(member.is_decider(), "only the decider decides");
        let mut votes = &member.prepare.votes[..];
        assert_eq!(votes.len(), member.prepare.chain.len(), "all have voted");
        if planted::is(Bug::VotesIgnored) {
            votes = &votes[votes.len() - 1..];
        }
        let no = votes.iter().find_map(|vote| match vote {
            Vote::Yes => None,
            Vote::No(reason) => Some(reason.clone()),
        });
        let decision = no.map_or(Decision::Commit, Decision::Abort);
        let told = Told {
            decision,
            settled: false,
            in_order: true,
        };
        self.on_decision(now, key, told, tables, output)
    }

    /// The decision has come to a member, from the one after it or from itself, or from anybody
    /// while it recovers.
    pub(super) fn on_decision<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        told: Told,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let Some(member) = self.members.get(&key) else {
            return Ok(());
        };
        if member.prepared_at.is_none() {
            // Its vote was lost and cast anew by nobody: only an adoption can bring it back.
            return Ok(());
        }
        if let Some(recovering) = &mut self.recovering
            && !planted::is(Bug::AppliedAsTold)
        {
            recovering.remember(key, told);
            return Ok(());
        }
        let Told {
            decision,
            settled,
            in_order,
        } = told;
        if let Some(known) = &member.decision {
            assert_eq!(*known, decision, "a decision never changes");
        } else {
            let durability = member.decision_durability();
            let record = Record::Decided {
                partition: key.1,
                operation: key.0,
                decision: decision.clone(),
                settles: member.settles_at_decision(),
            };
            let position = self.log(&record, durability, output);
            self.undurable.push_back((position, key));
            let member = self.members.get_mut(&key).expect("it was there");
            member.decision = Some(decision);
            member.decided_at = position;
        }
        let member = &self.members[&key];
        let forgets = planted::is(Bug::OldRowForgotten);
        if !member.settled && (settled || member.settles_at_decision() || forgets) {
            self.settle(now, key, tables, output)?;
        } else if !member.settled && !member.table.sync && in_order && member.settles_here() {
            self.settle_first(now, key, tables, output)?;
        } else if planted::is(Bug::AnswerBeforeSettled) && member.place == 0 {
            self.finish_requests(key, output);
        }
        self.pass_up(key, output);
        Ok(())
    }

    /// Sends the decision to the previous member, as soon as it may pass this one.
    pub(super) fn pass_up(&self, key: MemberKey, output: &mut Output) {
        let Some(member) = self.members.get(&key) else {
            return;
        };
        let (Some(previous), Some(decision)) = (member.previous(), &member.decision) else {
            return;
        };
        // What waits for its record here is settled when it is sent.
        let will_settle = member.table.sync && member.settles_here();
        let message = PeerMessage::Decision {
            operation: key.0,
            to: previous,
            decision: decision.clone(),
            settled: member.settled || member.settle_waits || will_settle,
        };
        let after = member.decision_after();
        self.send(previous, after, message, output);
    }

    /// Forgets a vote: only a planted bug does.
    fn unvote(&mut self, key: MemberKey) -> bool {
        let Some(member) = self.members.get_mut(&key) else {
            return false;
        };
        let forgets = member.place > 0 && member.prepared_at.is_some() && member.decision.is_none();
        if forgets {
            let place = member.place;
            Arc::make_mut(&mut member.prepare).votes.truncate(place);
            member.prepared_at = None;
        }
        forgets
    }

    /// A prepare came again: says again what it said then. A decider that had lost its decision
    /// with its memory (`replicated`) takes it now, for the prepare has passed all members again.
    fn repeat<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.counters.resent += 1;
        let member = &self.members[&key];
        if member.decision.is_some() {
            self.pass_up(key, output);
        } else if let (Some(next), Some(_)) = (member.next(), member.prepared_at) {
            let prepare = Arc::clone(&member.prepare);
            self.send(next, Position(0), PeerMessage::Prepare(prepare), output);
        } else if member.prepared_at.is_some() && !member.table.sync {
            return self.decide(now, key, tables, output);
        }
        Ok(())
    }

    /// Where a head's finished operations end, as far as this core knows.
    pub(super) fn finished_below(&self, head: CoreId) -> crate::identity::Finished {
        if head == self.identity.core {
            return self.own_finished();
        }
        self.finished.get(&head).copied().unwrap_or_default()
    }

    /// The settled outcome has come from above (SAFETY R3, x before the chain's end).
    pub(super) fn on_settled<T: Tables>(
        &mut self,
        now: Now,
        operation: OperationId,
        to: PartitionId,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let key = (operation, to);
        let Some(member) = self.members.get(&key) else {
            return Ok(());
        };
        if member.decision.is_some() && !member.settled {
            self.settle(now, key, tables, output)?;
        }
        if let Some(next) = self.members.get(&key).and_then(Member::next) {
            let message = PeerMessage::Settled {
                operation,
                to: next,
            };
            self.send(next, Position(0), message, output);
        }
        Ok(())
    }
}
