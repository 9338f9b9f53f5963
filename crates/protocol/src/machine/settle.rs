//! Making an outcome visible: rows change, keys are given up, whoever waited goes on.
//!
//! Nothing of an operation is in the tables before this (SAFETY R3), and all of it here happens
//! in one step, so that no reader sees half of it. Lookups that waited are answered before the
//! next operation on their keys is let in (R10, first come first served).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};

use super::rows::{Rows, depart};
use super::{CoreMachine, Member, MemberKey, Output};
use crate::identity::{Now, OperationId, Position, Version};
use crate::message::PeerMessage;
use crate::operation::Decision;
use crate::planted::{self, Bug};
use crate::record::Record;

impl CoreMachine {
    /// The outcome may be seen: applies it here.
    pub(super) fn settle<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if self.earlier_unsettled(key) {
            let member = self.members.get_mut(&key).expect("callers have the member");
            member.settle_waits = true;
            return Ok(());
        }
        let member = &self.members[&key];
        let logged = !member.settles_at_decision();
        self.apply(key, tables)?;
        self.note_change(now, key);
        if logged {
            let record = Record::Settled {
                partition: key.1,
                operation: key.0,
            };
            // Nobody waits for it: a restarted member asks the one at position x again.
            self.log(&record, Durability::Replicated, output);
        }
        let member = &self.members[&key];
        match member.decision {
            Some(Decision::Commit) => self.counters.commits += 1,
            _ => self.counters.aborts += 1,
        }
        if member.place == 0 {
            self.finish_requests(key, output);
        }
        self.release(now, key, tables, output)?;
        self.try_confirm(now, key, output);
        Ok(())
    }

    /// The decision is where it must be before anybody may see it, position x (SAFETY R3): settles
    /// it here, and tells those further down, which have waited for this.
    pub(super) fn settle_first<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if let Some(next) = self.members[&key].next() {
            let message = PeerMessage::Settled {
                operation: key.0,
                to: next,
            };
            self.send(next, Position(0), message, output);
        }
        self.settle(now, key, tables, output)
    }

    /// Whether an operation with an earlier version on one of the same keys is unsettled: both
    /// had been voted on before a restart, and come back in any order.
    fn earlier_unsettled(&self, key: MemberKey) -> bool {
        let member = &self.members[&key];
        let version = newest_version(member);
        let Some(partition) = self.partitions.get(&key.1) else {
            return false;
        };
        member.held.iter().any(|held| {
            partition.locks.other_holders(held, key.0).any(|other| {
                let other = &self.members[&(other, key.1)];
                !other.settled && newest_version(other) < version
            })
        })
    }

    /// Changes rows and completion records as the decision says, and marks the member settled.
    /// Also what replaying a log does.
    pub(super) fn apply<T: Tables>(
        &mut self,
        key: MemberKey,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let rows_are_newer = self.next_position < self.rows_from;
        let member = self.members.get_mut(&key).expect("callers have the member");
        assert!(!member.settled, "an outcome is settled once");
        assert!(
            member.prepared_at.is_some(),
            "a decision presupposes the prepare"
        );
        member.settled = true;
        member.settle_waits = false;
        let commit = match &member.decision {
            Some(Decision::Commit) => true,
            Some(Decision::Abort(_)) => false,
            None => panic!("only a decided operation is settled"),
        };
        if commit && !rows_are_newer {
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
        let head = member.prepare.chain[0];
        let requests = &member.prepare.requests;
        match &member.decision {
            // Folded requests that abort are evaluated again, one by one: no result yet. Nor is the
            // end of an epoch one, where nobody tells it: a next head may know nothing of it.
            Some(Decision::Abort(reason)) => {
                let told = member.resolved_in.is_none() || member.place == 0;
                if let [request] = &requests[..]
                    && told
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

    /// Gives up the operation's keys; answers lookups that waited for it, then lets in whoever
    /// is next.
    pub(super) fn release<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
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
            next.extend(partition.locks.release(held, operation));
            settle_next.extend(partition.locks.other_holders(held, operation));
        }
        partition.behind_reads.retain(|behind| *behind != operation);
        self.answer_waiting_reads(now, id, operation, tables, output)?;
        for other in settle_next {
            if self
                .members
                .get(&(other, id))
                .is_some_and(|member| member.settle_waits)
            {
                self.settle(now, (other, id), tables, output)?;
            }
        }
        for waiter in next {
            self.wake(now, (waiter, id), tables, output)?;
        }
        if id.replex == 0 {
            for pk in held {
                self.start_queue(now, id, &pk, tables, output)?;
            }
        }
        Ok(())
    }

    /// Lets an operation that waits try again.
    pub(super) fn wake<T: Tables>(
        &mut self,
        now: Now,
        key: MemberKey,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let waits = self
            .members
            .get(&key)
            .is_some_and(|member| member.prepared_at.is_none());
        if waits {
            self.acquire(now, key, tables, output)
        } else {
            Ok(())
        }
    }

    /// Changes the rows of the member's partition. While it is being filled, entries that go leave
    /// their version behind, so that a late page does not bring them back (SAFETY R19, R22). Higher
    /// version wins, so that replaying an old record over newer rows changes nothing.
    ///
    /// In a place that is not whole only the end of an epoch changes rows, in the order of versions.
    /// What is there may be of nobody's; all keys leave their version behind, for what the giver
    /// tells is older.
    pub(super) fn write<T: Tables>(
        &self,
        key: MemberKey,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.part(key.1) else {
            return Ok(());
        };
        let rows = Rows::of(partition);
        let is_not_whole = self.is_not_whole(key.1);
        let is_rebuilding = self.is_rebuilding(key.1) || is_not_whole;
        let member = &self.members[&key];
        for (change, effect) in member.prepare.changes.iter().zip(&member.effects) {
            if let Some(key) = &effect.remove
                && !planted::is(Bug::DepartureKept)
            {
                if let Some(stored) = rows.stored(key, tables)?
                    && (is_not_whole || stored.version <= change.version)
                {
                    rows.remove(key, &stored, tables);
                }
                if is_rebuilding && !planted::is(Bug::DepartureForgotten) {
                    depart(rows.id, key, change.version, tables)?;
                }
            }
            if let Some(key) = &effect.put {
                let stored = rows.stored(key, tables)?;
                let known = stored.as_ref().map(|stored| stored.version);
                if is_not_whole {
                    depart(rows.id, key, change.version, tables)?;
                }
                if is_not_whole || known.is_none_or(|known| known < change.version) {
                    let row = change.new.as_ref().expect("an entry comes with its row");
                    rows.put(key, (change.version, row), stored.as_ref(), tables);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn newest_version(member: &Member) -> Version {
    let versions = member.prepare.changes.iter().map(|change| change.version);
    versions.max().unwrap_or_default()
}
