//! Making an outcome visible: rows change, keys are given up, whoever waited goes on.
//!
//! Nothing of an operation is in the tables before this (SAFETY R3), and all of it here happens
//! in one step, so that no reader sees half of it. Lookups that waited are answered before the
//! next operation on their keys is let in (R10, first come first served).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};

use super::{CoreMachine, Member, MemberKey, Output};
use crate::identity::{Now, OperationId, PartitionId, Position, Version};
use crate::message::PeerMessage;
use crate::operation::{Decision, RowChange};
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
        let is_rebuilding = self.is_rebuilding(key.1);
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
            write(member, is_rebuilding, tables)?;
        }
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

    /// Drops a partition's rows.
    pub(super) fn drop_rows<T: Tables>(&mut self, partition: PartitionId, tables: &mut T) {
        tables.drop_table(partition.rows_table());
        tables.drop_table(partition.departures_table());
    }
}

/// Changes the rows of the member's partition. While it is being filled, entries that go leave
/// their version behind, so that a late page does not bring them back (SAFETY R19, R22).
pub(super) fn write<T: Tables>(
    member: &Member,
    is_rebuilding: bool,
    tables: &mut T,
) -> Result<(), TablesError> {
    let table = member.partition().rows_table();
    for (change, effect) in member.prepare.changes.iter().zip(&member.effects) {
        if let Some(entry) = &effect.remove
            && !planted::is(Bug::DepartureKept)
        {
            remove(tables, table, entry, change.version)?;
            if is_rebuilding && !planted::is(Bug::DepartureForgotten) {
                depart(member.partition(), entry, change.version, tables)?;
            }
        }
        if let Some(entry) = &effect.put {
            put(tables, table, entry, change)?;
        }
    }
    Ok(())
}

pub(super) fn newest_version(member: &Member) -> Version {
    let versions = member.prepare.changes.iter().map(|change| change.version);
    versions.max().unwrap_or_default()
}

/// A row as a sorted table holds it.
pub(super) fn stored_value(version: Version, row: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + row.len());
    value.extend_from_slice(&version.0.to_le_bytes());
    value.extend_from_slice(row);
    value
}

/// A stored value's version and row.
pub(super) fn stored_row(value: &[u8]) -> (Version, &[u8]) {
    let (version, row) = value
        .split_first_chunk::<8>()
        .expect("a stored row has a version");
    (Version(u64::from_le_bytes(*version)), row)
}

/// Notes that an entry left a partition that is being filled, or is known not to be there.
pub(super) fn depart<T: Tables>(
    partition: PartitionId,
    entry: &[u8],
    version: Version,
    tables: &mut T,
) -> Result<(), TablesError> {
    let table = partition.departures_table();
    if stored_version(tables, table, entry)?.is_none_or(|known| known < version) {
        tables.put(table, entry, &version.0.to_le_bytes());
    }
    Ok(())
}

pub(super) fn stored_version<T: Tables>(
    tables: &T,
    table: u64,
    entry: &[u8],
) -> Result<Option<Version>, TablesError> {
    let mut version = None;
    tables.read(table, entry, &mut |value| {
        version = Some(stored_row(value).0)
    })?;
    Ok(version)
}

/// Higher version wins, so that replaying an old record over newer rows changes nothing.
fn put<T: Tables>(
    tables: &mut T,
    table: u64,
    entry: &[u8],
    change: &RowChange,
) -> Result<(), TablesError> {
    if stored_version(tables, table, entry)?.is_some_and(|stored| stored >= change.version) {
        return Ok(());
    }
    let row = change.new.as_ref().expect("an entry comes with its row");
    tables.put(table, entry, &stored_value(change.version, row));
    Ok(())
}

fn remove<T: Tables>(
    tables: &mut T,
    table: u64,
    entry: &[u8],
    version: Version,
) -> Result<(), TablesError> {
    if stored_version(tables, table, entry)?.is_some_and(|stored| stored <= version) {
        tables.delete(table, entry);
    }
    Ok(())
}
