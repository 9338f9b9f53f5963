//! Settles an operation: changes the rows, releases the keys, and lets waiting operations continue.
//!
//! Before an operation settles, the tables have none of its changes (R3). A member settles an
//! operation in one step, so no reader sees a part of it. Waiting reads are answered before the
//! next operation on their keys begins (R10, first come first served).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};
use protocol::identity::{OperationId, PartitionId, Position, Version};
use protocol::message::PeerMessage;
use protocol::operation::Decision;
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::key::Key;
use crate::core::member::MemberKey;
use crate::core::partition::locks::Released;
use crate::core::partition::rows::{NewRow, Rows, depart};
use crate::core::step::Step;

/// How many rows of a transaction are announced to the tables together. A processor's cache has
/// room for all memory that a store reads for them.
const WRITTEN_TOGETHER: usize = 64;

impl CoreMachine {
    /// Settles an operation at a member: changes the rows, answers the client at the head, and
    /// releases the keys. Readers may see the outcome from now on.
    pub(crate) fn settle<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if self.earlier_unsettled(key) {
            let member = self.members.get_mut(&key).expect("callers have the member");
            member.wait_to_settle();
            return Ok(());
        }
        let member = &self.members[&key];
        let logged = !member.settles_at_decision();
        self.apply(key, step.tables)?;
        self.note_change(step.now, key);
        if logged {
            let record = Record::Settled {
                partition: key.1,
                operation: key.0,
            };
            // Nothing waits for it: a restarted member asks the one at position x again.
            self.append(&record, Durability::Replicated, step.output);
        }
        let member = &self.members[&key];
        match member.decision() {
            Some(Decision::Commit) => self.counters.commits += 1,
            _ => self.counters.aborts += 1,
        }
        if member.is_transaction() {
            self.release(key, step)?;
            if self.members.contains_key(&key) {
                self.report_part(key, step.output);
            }
            return Ok(());
        }
        if member.place == 0 {
            self.finish_requests(step.now, key, step.output);
            self.settle_sides(key, step.output);
        }
        self.release(key, step)?;
        self.try_confirm(step.now, key, step.output);
        Ok(())
    }

    /// Settles a decision that is durable at position x, where it must be before any client may see
    /// it (R3). Sends `Settled` to the members after it, which have waited for this.
    pub(crate) fn settle_first<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if let Some(next) = self.members[&key].next() {
            let message = PeerMessage::Settled {
                operation: key.0,
                to: next,
            };
            self.send(next, Position(0), message, step.output);
        }
        self.settle(key, step)
    }

    /// Returns whether an operation that has changed one of the same rows before is unsettled: both
    /// had been voted on before a restart, and come back in any order. An abort changes no rows: it
    /// waits for no other operation, and a member that voted no holds no keys by whose release it
    /// would be found.
    fn earlier_unsettled(&self, key: MemberKey) -> bool {
        let member = &self.members[&key];
        if matches!(member.decision(), Some(Decision::Abort(_))) {
            return false;
        }
        let Some(partition) = self.partitions.get(&key.1) else {
            return false;
        };
        // It holds its keys, so that others hold them only together with it.
        if !partition.locks.is_any_shared() {
            let alone = |held: &Key| partition.locks.holders(held) == [key.0];
            debug_assert!(member.held.iter().all(alone), "a commit holds its keys");
            return false;
        }
        let held = member.held.iter();
        let others = held.flat_map(|held| partition.locks.other_holders(held, key.0));
        let others: BTreeSet<OperationId> = others.collect();
        let mut others = others
            .iter()
            .filter_map(|it| self.members.get(&(*it, key.1)));
        others.any(|other| !other.is_settled() && member.follows(other))
    }

    /// Changes rows and completion records according to the decision, and marks the member settled.
    /// Replaying a log does the same.
    pub(crate) fn apply<T: Tables>(
        &mut self,
        key: MemberKey,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let rows_are_newer = self.log.rows_are_newer();
        let member = self.members.get_mut(&key).expect("callers have the member");
        let commit = *member.settle() == Decision::Commit;
        if commit && !rows_are_newer {
            self.keep_history(key, tables)?;
            self.write(key, tables)?;
        }
        if commit {
            self.list_changes(key);
        }
        let is_rebuilding = self.is_rebuilding(key.1);
        let member = &self.members[&key];
        let collisions = match is_rebuilding && commit {
            true => member.collisions(tables)?,
            false => Vec::new(),
        };
        let part = member.prepare.transaction.as_ref();
        let head = part.map_or(member.prepare.members[0], |part| part.head);
        let requests = &member.prepare.requests;
        match member.decision() {
            // The coordinator records it.
            Some(Decision::Abort(_)) if part.is_some() => {}
            // Folded requests that abort are evaluated again, one by one: no result yet. Nor is the
            // end of an epoch one, where no message reports it: a next head may know nothing of it.
            Some(Decision::Abort(reason)) => {
                let is_result = member.resolved_in().is_none() || member.place == 0;
                if let [request] = &requests[..]
                    && is_result
                {
                    self.sessions.complete(head, request, reason);
                }
            }
            _ => {
                for request in requests {
                    self.sessions.complete(head, request, &request.result);
                }
            }
        }
        self.note_obstacles(key.1, collisions);
        Ok(())
    }

    /// Releases the operation's keys. Answers the reads that waited for the operation, and admits
    /// the next operations and requests on these keys.
    pub(crate) fn release<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let (operation, id) = key;
        let member = self.members.get_mut(&key).expect("callers have the member");
        let held = core::mem::take(&mut member.held);
        let Some(partition) = self.partitions.get_mut(&id) else {
            return Ok(());
        };
        let mut next: BTreeSet<OperationId> = BTreeSet::new();
        let mut settle_next = Vec::new();
        for held in &held {
            match partition.locks.release(held, operation) {
                Released::Free => {}
                Released::Wakes(waiter) => {
                    next.insert(waiter);
                }
                Released::Held => settle_next.extend(partition.locks.holders(held)),
            }
        }
        partition.behind_reads.retain(|behind| *behind != operation);
        self.answer_waiting_reads(id, operation, step)?;
        for other in settle_next {
            if self
                .members
                .get(&(other, id))
                .is_some_and(|member| member.settle_waits())
            {
                self.settle((other, id), step)?;
                self.forget_late((other, id));
            }
        }
        for waiter in next {
            self.wake((waiter, id), step)?;
        }
        if self.has_queues(id) {
            for pk in held {
                self.start_queue(id, &pk, step)?;
            }
        }
        Ok(())
    }

    /// Returns whether requests wait at a partition of a primary replex, at which chains begin.
    fn has_queues(&self, id: PartitionId) -> bool {
        let partition = self.partitions.get(&id);
        let partition = partition.filter(|partition| partition.table.is_primary(id));
        partition.is_some_and(|partition| !partition.queues.is_empty())
    }

    /// Lets a waiting operation try again to acquire its keys.
    pub(crate) fn wake<T: Tables>(
        &mut self,
        key: MemberKey,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let waits = self
            .members
            .get(&key)
            .is_some_and(|member| member.prepared_at().is_none());
        if waits {
            self.acquire(key, step)
        } else {
            Ok(())
        }
    }

    /// Changes the rows of the member's partition. During a fill, removed entries leave their
    /// version behind, so that a late page does not restore them (R19, R22). The higher version
    /// wins, so replaying an old record over newer rows changes nothing.
    ///
    /// In a place that is not whole only the end of an epoch changes rows, in the order of each
    /// row's versions. A row that is there may be of no operation. All keys leave their version
    /// behind, for what the giver sends is older.
    pub(crate) fn write<T: Tables>(
        &self,
        key: MemberKey,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.partitions.with_rows(key.1) else {
            return Ok(());
        };
        let rows = Rows::of(partition);
        let member = &self.members[&key];
        if member.resolved_in().is_some()
            && partition.is_thin()
            && planted::is(Bug::ResolvedWithoutEntry)
        {
            return Ok(());
        }
        let mut left = member.prepare.changes.iter().zip(&member.effects);
        loop {
            let together: Vec<_> = left.by_ref().take(WRITTEN_TOGETHER).collect();
            if together.is_empty() {
                return Ok(());
            }
            let new = together.iter().map(|&(change, effect)| {
                let key = effect.put.as_ref()?;
                let row = change.new.as_ref().expect("an entry comes with its row");
                let row = rows.table.stored_form(rows.id, row);
                Some(rows.new_row(key, change.version, row))
            });
            let new: Vec<Option<NewRow<'_>>> = new.collect();
            if together.len() > 1 {
                rows.announce(new.iter().flatten(), tables);
            }
            for ((change, effect), new) in together.into_iter().zip(&new) {
                if let Some(key) = &effect.remove {
                    self.leave(rows, (key, change.version), tables)?;
                }
                if let Some(new) = new {
                    self.enter(rows, new, tables)?;
                }
            }
        }
    }

    /// Removes the row under a key, because of a change that has this version.
    fn leave<T: Tables>(
        &self,
        rows: Rows<'_>,
        (key, version): (&[u8], Version),
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let id = rows.id;
        let is_kept = match rows.is_thin() {
            true => planted::is(Bug::EntryLeftBehind),
            false => planted::is(Bug::DepartureKept),
        };
        if is_kept {
            return Ok(());
        }
        let is_not_whole = self.is_not_whole(id);
        if let Some(stored) = rows.stored(key, tables)?
            && (is_not_whole || stored.version <= version)
        {
            rows.remove(key, &stored, tables);
        }
        let is_rebuilding = self.is_rebuilding(id) || is_not_whole;
        if is_rebuilding && !planted::is(Bug::DepartureForgotten) {
            depart(id, key, version, tables)?;
        }
        Ok(())
    }

    /// Stores a row, unless a later version of it is there.
    fn enter<T: Tables>(
        &self,
        rows: Rows<'_>,
        new: &NewRow<'_>,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let is_not_whole = self.is_not_whole(rows.id);
        let version = new.version;
        if is_not_whole {
            depart(rows.id, new.key, version, tables)?;
        }
        rows.put_if(new, tables, |known| {
            let is_missed = match known {
                None => planted::is(Bug::EntryForgotten),
                Some(_) => planted::is(Bug::IncludedColumnKept),
            };
            let is_newer = is_not_whole || known.is_none_or(|known| known < version);
            is_newer && !(is_missed && rows.is_thin())
        })?;
        Ok(())
    }
}
