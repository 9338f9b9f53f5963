//! A member's part in a transaction: it judges its part of the prepare, votes, takes the decision,
//! and settles (R42, R43).
//!
//! A member does not wait for other operations that are undecided, and refuses instead (R46). A
//! vote and a decision are on disk before the coordinator receives them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, CoreId, FinishedLine, Position, TableId};
use protocol::operation::{Decision, Prepare, RequestResult, Vote};
use protocol::planted::{self, Bug};
use protocol::record::Record;
use protocol::transaction::{TransactionContent, TransactionResult};

use crate::core::CoreMachine;
use crate::core::chain::votes;
use crate::core::contract::CoreOutput;
use crate::core::key::Key;
use crate::core::member::{Member, MemberKey};
use crate::core::partition::locks::Released;
use crate::core::step::Step;

/// How many times `CoreLimits::retry_us` a member waits for its coordinator before it asks.
const PATIENCE: u64 = 8;

impl CoreMachine {
    /// Handles a member's part of a prepare.
    pub(super) fn on_part<T: Tables>(
        &mut self,
        from: CoreId,
        prepare: Arc<Prepare>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let operation = prepare.operation;
        let place = prepare.receiver().filter(|_| prepare.is_consistent());
        let (Some(place), Some(part)) = (place, prepare.transaction.clone()) else {
            return Ok(());
        };
        if from != operation.head {
            return Ok(());
        }
        self.fills.note_operation(step.now);
        if prepare.epoch <= self.view.epoch() {
            self.on_finished((operation.head, prepare.finished_below), step)?;
        }
        let is_finished = operation.order() < self.finished_below(operation.head);
        if is_finished && !planted::is(Bug::LineOfTransactionsIgnored) {
            return Ok(());
        }
        let key = (operation, prepare.members[place]);
        if self.members.contains_key(&key) {
            self.repeat_part(key, step.output);
            return Ok(());
        }
        if self.recovers(key.1.table) || !self.partitions.contains_key(&key.1) {
            return Ok(());
        }
        let is_primary = self.partitions[&key.1].table.is_primary(key.1);
        let evaluated = match is_primary {
            true => self.take_walk(operation, key.1),
            false => None,
        };
        let is_lost = is_primary && evaluated.is_none();
        let is_full = self.members.len() >= self.limits.operations_max;
        if is_lost && !planted::is(Bug::LostEvaluationCounts) || is_full {
            self.release_keys(key, evaluated.unwrap_or_default(), step)?;
            self.vote_no(key, prepare.tables(), RequestResult::Conflict, step.output);
            return Ok(());
        }
        let mut member = self
            .member(step.now, prepare, place)
            .expect("the partition is held");
        let ask_us = self.limits.retry_us * PATIENCE;
        member.retry_due_us = step.now.monotonic_us + ask_us;
        debug_assert!(part.member as usize == place);
        self.members.insert(key, member);
        self.acquire_part(key, step)
    }

    /// Releases the keys that a walk has held for a member that does not vote yes.
    fn release_keys<T: Tables>(
        &mut self,
        (operation, id): MemberKey,
        keys: Vec<Key>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        for pk in keys {
            let partition = self
                .partitions
                .get_mut(&id)
                .expect("the walk held keys there");
            if let Released::Wakes(waiter) = partition.locks.release(&pk, operation) {
                self.wake((waiter, id), step)?;
            }
            self.start_queue(id, &pk, step)?;
        }
        Ok(())
    }

    /// Acquires the keys of a member, judges its part and votes. The keys of a primary are held by
    /// the walk already.
    pub(crate) fn acquire_part<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let member = &self.members[&key];
        let tables = member.prepare.tables();
        if self.any_stands_still(&tables) {
            return Ok(());
        }
        let partition = self
            .partitions
            .get_mut(&key.1)
            .expect("a member's partition is held");
        let is_primary = partition.table.is_primary(key.1);
        let mut reads = partition.reads.iter();
        let behind_read = reads.any(|read| read.covers_operation(member));
        if behind_read && !is_primary && member.granted() == 0 {
            return self.refuse_part(key, RequestResult::Conflict, step);
        }
        let member = self.members.get_mut(&key).expect("callers have the member");
        let wanted = &member.held[member.granted()..];
        let acquired = partition.locks.acquire_in_order(wanted, key.0);
        member.grant(acquired);
        let member = &self.members[&key];
        if let Some(wanted) = member.held.get(member.granted()) {
            let holders = partition.locks.holders(wanted);
            // It waits only for what is decided, and settles soon (R46).
            let decided = holders.iter().all(|holder| {
                let holder = self.members.get(&(*holder, key.1));
                holder.is_some_and(|holder| holder.decision().is_some())
            });
            let is_next = partition.locks.waiters(wanted) == 1;
            let waits = decided && is_next || planted::is(Bug::PartWaits);
            return match waits {
                true => Ok(()),
                false => self.refuse_part(key, RequestResult::Conflict, step),
            };
        }
        if self.is_not_whole(key.1) || self.fetches_for_vote(step.now, key, step.output) {
            return Ok(());
        }
        match votes::judge(&self.members[&key], step.tables)? {
            Vote::Yes => {
                self.vote_yes(key, step.output);
                Ok(())
            }
            Vote::No(reason) => self.refuse_part(key, reason, step),
        }
    }

    /// Logs the vote yes, and sends it once it is durable.
    fn vote_yes(&mut self, key: MemberKey, output: &mut CoreOutput) {
        let member = self.members.get_mut(&key).expect("callers have the member");
        member.vote(Vote::Yes);
        let prepare = Arc::clone(&member.prepare);
        self.know_versions(&prepare);
        let record = Record::Prepared {
            partition: key.1,
            prepare,
        };
        let position = self.append(&record, Durability::Sync, output);
        let member = self.members.get_mut(&key).expect("it was there");
        member.prepare_at(position);
        let member = &self.members[&key];
        let partition = self.partitions.get_mut(&key.1).expect("it is held");
        if partition.is_thin() {
            self.ranges.note_change(key.1, &member.held);
        }
        // A read that came after the walk has taken the keys sees the transaction, or comes before
        // it at every copy.
        for read in &mut partition.reads {
            if read.covers_operation(member) && !planted::is(Bug::ReadIgnoresPart) {
                read.waits_for.insert(key.0);
            }
        }
        // Readers of its other rows can see the transaction before this member has settled it.
        if !planted::is(Bug::HeldDuringPart) {
            self.note_change_of_held(key);
        }
        self.repeat_part(key, output);
    }

    /// Votes no: the member releases its keys, and forgets the transaction.
    pub(crate) fn refuse_part<T: Tables>(
        &mut self,
        key: MemberKey,
        reason: RequestResult,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.counters.conflicts += u64::from(reason == RequestResult::Conflict);
        let tables = self.members[&key].prepare.tables();
        self.release(key, step)?;
        self.members.remove(&key);
        self.vote_no(key, tables, reason, step.output);
        Ok(())
    }

    fn vote_no(
        &self,
        (operation, member): MemberKey,
        tables: Vec<TableId>,
        reason: RequestResult,
        output: &mut CoreOutput,
    ) {
        let vote = Vote::No(reason);
        let content = TransactionContent::Voted { member, vote };
        let of = (operation, &tables[..]);
        self.send_transaction(operation.head, of, Position(0), content, output);
    }

    /// Sends the coordinator again what it may lack of a member.
    fn repeat_part(&self, key: MemberKey, output: &mut CoreOutput) {
        let member = &self.members[&key];
        let Some(prepared_at) = member.prepared_at() else {
            return;
        };
        let id = key.1;
        let (content, after) = match member.decision() {
            None => {
                let vote = Vote::Yes;
                (TransactionContent::Voted { member: id, vote }, prepared_at)
            }
            Some(_) if member.is_settled() => (
                TransactionContent::Ended { member: id },
                member.decided_at(),
            ),
            Some(_) => (TransactionContent::Kept { member: id }, member.decided_at()),
        };
        let early = planted::is(Bug::VoteBeforeDisk);
        let after = if early { Position(0) } else { after };
        let tables = member.prepare.tables();
        let of = (key.0, &tables[..]);
        self.send_transaction(key.0.head, of, after, content, output);
    }

    /// Handles the decision, from the coordinator.
    pub(super) fn on_outcome<T: Tables>(
        &mut self,
        key: MemberKey,
        (decision, settled): (Decision, bool),
        from: CoreId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        // It settles once all operations are known again, in the order of their rows.
        if self.recovers(key.1.table) {
            return Ok(());
        }
        let is_void = |member: &Member| member.prepared_at().is_none();
        if self.members.get(&key).is_some_and(is_void) {
            // It still waits for a key, so that it has not voted.
            self.release(key, step)?;
            self.members.remove(&key);
        }
        if !self.members.contains_key(&key) {
            // A commit has the durable vote of every member: it has ended here before, and was
            // forgotten, or the partition has moved here since.
            let keys = self.take_walk(key.0, key.1).unwrap_or_default();
            self.release_keys(key, keys, step)?;
            let content = TransactionContent::Ended { member: key.1 };
            let of = (key.0, core::slice::from_ref(&key.1.table));
            self.send_transaction(from, of, Position(0), content, step.output);
            return Ok(());
        }
        self.take_outcome(key, decision, settled, step)
    }

    /// Logs a decision at a member, and settles it if clients may see it.
    fn take_outcome<T: Tables>(
        &mut self,
        key: MemberKey,
        decision: Decision,
        settled: bool,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let ask_us = step.now.monotonic_us + self.limits.retry_us * PATIENCE;
        let member = self.members.get_mut(&key).expect("callers have the member");
        member.retry_due_us = ask_us;
        if let Some(known) = member.decision() {
            let is_same = core::mem::discriminant(known) == core::mem::discriminant(&decision);
            assert!(is_same, "a decision never changes");
        } else {
            let record = Record::Decided {
                partition: key.1,
                operation: key.0,
                decision: decision.clone(),
                settles: false,
            };
            let position = self.append(&record, Durability::Sync, step.output);
            let member = self.members.get_mut(&key).expect("it was there");
            member.decide(decision, position, None);
        }
        let member = &self.members[&key];
        let shows = settled || planted::is(Bug::SettledBeforeKept);
        if shows && !member.is_settled() && !member.settle_waits() {
            return self.settle(key, step);
        }
        self.repeat_part(key, step.output);
        Ok(())
    }

    /// Reports to the coordinator that a member is settled.
    pub(crate) fn report_part(&self, key: MemberKey, output: &mut CoreOutput) {
        if self.members[&key].resolved_in().is_none() {
            self.repeat_part(key, output);
        }
    }

    /// Handles the coordinator's answer that it has ended the transaction, or never knew it.
    pub(super) fn on_over<T: Tables>(
        &mut self,
        key: MemberKey,
        finished_below: FinishedLine,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let member = self.members.get(&key);
        let Some(member) = member.filter(|_| !self.recovers(key.1.table)) else {
            return Ok(());
        };
        match member.decision().cloned() {
            None => self.abort_part(key, step)?,
            Some(decision) => self.take_outcome(key, decision, true, step)?,
        }
        // The message with the line may be lost, and this core may share no table with the other.
        self.on_finished((key.0.head, finished_below), step)
    }

    /// Aborts a part that is undecided, because the transaction is known to be over.
    pub(crate) fn abort_part<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if self.members[&key].prepared_at().is_none() {
            self.release(key, step)?;
            self.members.remove(&key);
            return Ok(());
        }
        // In the log, too: later operations on its keys must not wait for it after a restart.
        let result = TransactionResult::conflict(key.1.table);
        let decision = Decision::abort_transaction(result);
        self.take_outcome(key, decision, true, step)
    }

    /// Answers a coordinator that has restarted. From now on this core takes nothing that the
    /// coordinator had sent before, because of its incarnation.
    pub(super) fn on_ask_decision(
        &mut self,
        from: CoreId,
        (operation, id): MemberKey,
        output: &mut CoreOutput,
    ) {
        let member = self.members.get(&(operation, id));
        let decision = member.and_then(|member| member.decision().cloned());
        let content = TransactionContent::Known {
            member: id,
            decision,
        };
        let of = (operation, core::slice::from_ref(&id.table));
        self.send_transaction(from, of, Position(0), content, output);
    }

    /// Asks the coordinators of members that have heard nothing for long.
    pub(crate) fn ask_coordinators(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let waits =
            |member: &&Member| member.is_transaction() && member.retry_due_us <= now.monotonic_us;
        let late = self.members.iter().filter(|(_, member)| waits(member));
        let late: Vec<(MemberKey, Vec<TableId>)> = late
            .map(|(key, member)| (*key, member.prepare.tables()))
            .collect();
        for (key, tables) in late {
            let member = self.members.get_mut(&key).expect("it was just listed");
            member.retry_due_us = now.monotonic_us + self.limits.retry_us * PATIENCE;
            if self.any_stands_still(&tables) {
                continue;
            }
            let content = TransactionContent::Ask { member: key.1 };
            let of = (key.0, &tables[..]);
            self.send_transaction(key.0.head, of, Position(0), content, output);
        }
    }
}
