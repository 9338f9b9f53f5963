//! Serves redirected reads: reads of a lost partition's rows at a member of its cover (Replex
//! sections 3.1 and 4).
//!
//! A redirected read requests a range in the order of the lost partition's replex, which may differ
//! from the member's order. So the read waits for operations by the rows that they change (R10),
//! not by the keys that they hold. A client that reads at several members needs answers that show
//! one moment. So each member reports for how long nothing has changed in the range (R12). Until a
//! client asks, a partition records only when it last changed.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeBounds;

use placement::{ColumnType, KeyError, decode_sorted};
use protocol::codec::Bytes;
use protocol::identity::{ClockReading, OperationId, PartitionId};
use protocol::message::Read;
use protocol::operation::Decision;
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::member::MemberKey;
use crate::core::partition::Partition;
use crate::core::partition::ranges::{RedirectFilter, bounds};
use crate::core::table::TableInfo;

/// Returns an error if a redirected read is invalid.
pub(crate) fn check(table: &TableInfo, read: &Read) -> Result<(), String> {
    let Some(redirect) = &read.redirect else {
        return Ok(());
    };
    if read.snapshot.is_some() {
        return Err("a cover has no rows of a snapshot".into());
    }
    let order = usize::from(redirect.replex);
    if !table.layout.numbers().any(|number| number == order) {
        return Err("there is no replex with the order that is asked for".into());
    }
    let bounds = [Some(&read.start), read.end.as_ref()];
    let columns = &table.replexes[order].entry_columns;
    let types = columns.iter();
    let types = types.map(|it| table.schema.columns[it.column].column_type);
    let types: Vec<ColumnType> = types.collect();
    // Members with another order find rows by a longer key, which begins with the key of this one.
    let is_longer = |bound: &Bytes| {
        let decoded = decode_sorted(columns, &types, bound);
        matches!(decoded, Err(KeyError::TrailingBytes { .. }))
    };
    if bounds.into_iter().flatten().any(is_longer) {
        return Err("the range starts or ends beyond a whole key of its order".into());
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
    /// Returns the operations in progress that change rows of a redirected read (R10).
    pub(crate) fn pending_on(
        &self,
        partition: &Partition,
        wanted: &RedirectFilter<'_>,
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

    /// Records changes of the partition from now on, because a read must agree with other reads.
    pub(crate) fn watch_changes(&mut self, now: ClockReading, id: PartitionId) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.recent.watch(now.monotonic_us);
        }
    }

    /// Records that a member's outcome has changed its partition.
    pub(crate) fn note_change(&mut self, now: ClockReading, key: MemberKey) {
        let member = &self.members[&key];
        if member.decision() != Some(&Decision::Commit) {
            return;
        }
        if let Some(partition) = self.partitions.get_mut(&key.1) {
            partition.recent.note(now.monotonic_us, member);
        }
        self.note_change_of_held(key);
    }

    /// Returns for how long no row of a read's range has changed. `wanted` is set for a redirected
    /// read.
    pub(crate) fn quiet_us(
        &self,
        now: ClockReading,
        partition: &Partition,
        read: &Read,
        wanted: Option<&RedirectFilter<'_>>,
    ) -> u64 {
        let range = bounds(read);
        let changed_us = partition.recent.changed_us(|change| match wanted {
            Some(wanted) => wanted.is_disturbed_by(&change.prepare),
            None => {
                let is_wanted = |key: &[u8]| range.contains(key) && read.wants_key(key);
                change.keys.iter().any(|key| is_wanted(key))
            }
        });
        now.monotonic_us
            .saturating_sub(changed_us.max(self.view.since_us(partition.id.table)))
    }
}
