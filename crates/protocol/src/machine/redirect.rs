//! Reads of a lost partition's rows at a member of its cover (Replex sections 3.1 and 4).
//!
//! What is asked for is a range in the order of the lost partition's replex, which need not be the
//! member's. So the rows of pending operations tell what the read waits for (SAFETY R10), not the
//! keys that they hold. A client that reads at several members must know that they all were, at one
//! moment, as they were read: each says for how long nothing had changed in what was asked for
//! (R12). Until somebody asks, a partition remembers only when it changed last.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;

use placement::RowView;

use super::rows::Rows;
use super::table::TableInfo;
use super::{CoreMachine, MemberKey, Partition};
use crate::identity::{Now, OperationId, PartitionId};
use crate::message::{Read, Redirect};
use crate::operation::{Decision, Prepare};
use crate::planted::{self, Bug};

/// Changes of a partition are remembered for so long after a redirected read.
const WATCHED_US: u64 = 1_000_000;
/// Changes that are remembered per partition.
const CHANGES_MAX: usize = 1_024;

/// What changed in a partition lately.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// No change up to then is among `changes`.
    before_us: u64,
    watched_until_us: u64,
    /// By time, rising.
    changes: VecDeque<(u64, Arc<Prepare>)>,
}

impl Recent {
    fn note(&mut self, now_us: u64, prepare: &Arc<Prepare>) {
        if now_us > self.watched_until_us {
            self.changes.clear();
            self.before_us = now_us;
            return;
        }
        if self.changes.len() == CHANGES_MAX {
            let oldest = self.changes.pop_front();
            self.before_us = oldest.map_or(now_us, |(at_us, _)| at_us);
        }
        self.changes.push_back((now_us, Arc::clone(prepare)));
    }

    /// When something of this kind changed last, or a time after it.
    fn changed_us(&self, matters: impl Fn(&Prepare) -> bool) -> u64 {
        let mut changes = self.changes.iter().rev();
        let last = changes.find(|(_, prepare)| matters(prepare));
        last.map_or(self.before_us, |(at_us, _)| *at_us)
    }
}

/// What a redirected read asks a member for.
pub(super) struct Wanted<'a> {
    table: &'a TableInfo,
    read: &'a Read,
    redirect: &'a Redirect,
}

impl<'a> Wanted<'a> {
    /// Of a read that was checked; none if it is not redirected.
    pub fn of(table: &'a TableInfo, read: &'a Read) -> Option<Wanted<'a>> {
        let redirect = read.redirect.as_ref()?;
        Some(Wanted {
            table,
            read,
            redirect,
        })
    }

    /// Whether the row is to be given by this member of the cover.
    pub fn admits(&self, row: &RowView<'_>) -> bool {
        let constraints = &self.redirect.constraints;
        self.table.layout.admits_row(constraints, row)
    }

    /// Whether the operation changes a row of the range, before or after it.
    pub fn is_touched_by(&self, prepare: &Prepare) -> bool {
        prepare.changes.iter().any(|change| {
            let rows = [self.table.old_row(change), self.table.new_row(change)];
            rows.iter().flatten().any(|row| self.ranges_over(row))
        })
    }

    /// Whether the operation changes what a reader of all members must see at one moment. Of a
    /// scan only a row that leaves for another partition matters: it is not a snapshot, but nor may
    /// it miss a row.
    fn is_disturbed_by(&self, prepare: &Prepare) -> bool {
        if !self.read.is_scan() {
            return self.is_touched_by(prepare);
        }
        let PartitionId { replex, number, .. } = self.read.partition;
        let here = |row: &RowView<'_>| {
            self.table.layout.partition_of_row(usize::from(replex), row) == number
        };
        prepare.changes.iter().any(|change| {
            let old = self.table.old_row(change);
            let new = self.table.new_row(change);
            old.is_some_and(|old| here(&old)) && new.is_some_and(|new| !here(&new))
        })
    }

    /// Whether the row is in the range.
    pub fn ranges_over(&self, row: &RowView<'_>) -> bool {
        let key = self.table.entry_key(usize::from(self.redirect.replex), row);
        key[..] >= *self.read.start && self.read.end.as_ref().is_none_or(|end| key[..] < **end)
    }
}

/// How a partition finds what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way<'a> {
    /// In its own order, which serves.
    Rows,
    /// By its local entries in this order.
    Entries(u8),
    /// Going through all of its rows in its own order, from this key on.
    Scan(&'a [u8]),
}

impl<'a> Way<'a> {
    /// Of a read that was checked. A member of a cover scans if it has begun so, or if it has no
    /// entries in the lost partition's order.
    pub fn of(rows: Rows<'_>, read: &'a Read) -> Way<'a> {
        let Some(redirect) = &read.redirect else {
            return Way::Rows;
        };
        match &redirect.scan_from {
            Some(from) => Way::Scan(from),
            None => rows.way(redirect.replex),
        }
    }
}

impl Rows<'_> {
    /// How the partition finds rows by their order in another replex.
    pub fn way(&self, replex: u8) -> Way<'static> {
        let [own, other] = [self.id.replex, replex].map(|it| &self.table.replexes[usize::from(it)]);
        if own.entry_columns.starts_with(&other.entry_columns) {
            return Way::Rows;
        }
        let is_whole = self.orders.contains(&other.order) && !self.unmade.contains(&other.order);
        match is_whole {
            true => Way::Entries(other.order),
            false => Way::Scan(b""),
        }
    }
}

/// What is wrong with what a redirected read asks of a partition, if anything.
pub(super) fn check(table: &TableInfo, read: &Read) -> Result<(), String> {
    let Some(redirect) = &read.redirect else {
        return Ok(());
    };
    if usize::from(redirect.replex) >= table.replexes.len() {
        return Err("there is no replex with the order that is asked for".into());
    }
    let residues = &redirect.constraints.residues;
    let possible = residues
        .iter()
        .flatten()
        .all(|residue| residue.is_possible());
    if residues.len() != table.layout.key_spaces.len() || !possible {
        return Err("the constraints are not of this table".into());
    }
    Ok(())
}

impl CoreMachine {
    /// Operations under way on what a redirected read asks for (SAFETY R10).
    pub(super) fn pending_on(
        &self,
        partition: &Partition,
        wanted: &Wanted<'_>,
    ) -> BTreeSet<OperationId> {
        if planted::is(Bug::RedirectDoesNotWait) {
            return BTreeSet::new();
        }
        let mut pending: BTreeSet<OperationId> =
            partition.locks.holders_in(&[], None).into_iter().collect();
        pending.retain(|operation| {
            let member = self.members.get(&(*operation, partition.id));
            member.is_some_and(|member| wanted.is_touched_by(&member.prepare))
        });
        pending
    }

    /// A redirected read has come: changes of the partition are remembered from now on.
    pub(super) fn watch_changes(&mut self, now: Now, id: PartitionId) {
        self.counters.reads_redirected += 1;
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.recent.watched_until_us = now.monotonic_us + WATCHED_US;
        }
    }

    /// The member's outcome has changed its partition.
    pub(super) fn note_change(&mut self, now: Now, key: MemberKey) {
        let member = &self.members[&key];
        if member.decision == Some(Decision::Commit)
            && let Some(partition) = self.partitions.get_mut(&key.1)
        {
            partition.recent.note(now.monotonic_us, &member.prepare);
        }
    }

    /// For how long nothing has changed in what is asked for.
    pub(super) fn quiet_us(&self, now: Now, partition: &Partition, wanted: &Wanted<'_>) -> u64 {
        let disturbs = |prepare: &Prepare| wanted.is_disturbed_by(prepare);
        let changed_us = partition.recent.changed_us(disturbs);
        now.monotonic_us
            .saturating_sub(changed_us.max(self.quiet_from_us))
    }
}
