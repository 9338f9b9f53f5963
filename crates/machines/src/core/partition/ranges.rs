//! The ranges of keys that concern a partition: ranges of waiting reads, ranges that statements
//! hold, and ranges of redirected reads.

use alloc::collections::BTreeSet;
use core::ops::{Bound, RangeBounds};

use placement::RowView;
use protocol::identity::{OperationId, PartitionId};
use protocol::message::{Agreement, Read, Redirect};
use protocol::operation::Prepare;

use crate::core::answers::ReplyDestination;
use crate::core::member::Member;
use crate::core::table::TableInfo;

/// A read that waits for decisions. Its range is never empty, because an empty range has no holder
/// to wait for.
#[derive(Debug)]
pub(crate) struct WaitingRead {
    pub asker: ReplyDestination,
    pub read: Read,
    /// The operations that the read waits for. The core answers the read once none of them is left.
    pub waits_for: BTreeSet<OperationId>,
    pub since_us: u64,
}

impl WaitingRead {
    /// Returns whether the read covers the present row of this key, in the order of the partition.
    /// Redirected reads and reads of snapshots cover no key: the former look at rows, and the
    /// latter need not delay later operations.
    pub fn covers(&self, key: &[u8]) -> bool {
        let is_present = self.read.redirect.is_none() && self.read.snapshot.is_none();
        is_present && self.range().contains(key) && self.read.wants_key(key)
    }

    /// Returns whether the operation must wait for the read, because it changes what the read
    /// returns. In the primary replex a redirected read delays no operation: there, held keys alone
    /// determine the order of operations per pk (R6).
    pub fn covers_operation(&self, member: &Member) -> bool {
        match RedirectFilter::of(&member.table, &self.read) {
            Some(wanted) => {
                !member.table.is_primary(self.read.partition)
                    && wanted.is_touched_by(&member.prepare)
            }
            None => member.held.iter().any(|held| self.covers(held)),
        }
    }

    pub fn range(&self) -> KeyBounds<'_> {
        bounds(&self.read)
    }
}

/// The first key, and the first key after the range.
pub(crate) type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Returns the keys that a read covers, in its partition's order.
pub(crate) fn bounds(read: &Read) -> KeyBounds<'_> {
    let end = read.end.as_deref();
    (
        Bound::Included(&read.start),
        end.map_or(Bound::Unbounded, Bound::Excluded),
    )
}

/// A held range.
#[derive(Debug)]
pub(crate) struct Hold {
    pub asker: ReplyDestination,
    /// The read, limited to the range of the page that was answered.
    pub read: Read,
    pub until_us: u64,
    /// Whether the range has changed nevertheless.
    pub changed: bool,
}

impl Hold {
    /// Returns whether the range includes a key, in the order of the partition.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.range().contains(key)
    }

    /// Returns whether the operation changes the range.
    pub fn covers_operation(&self, member: &Member) -> bool {
        member.held.iter().any(|held| self.covers(held))
    }

    pub fn range(&self) -> KeyBounds<'_> {
        bounds(&self.read)
    }
}

/// The condition of a redirected read: which rows this member must return.
pub(crate) struct RedirectFilter<'a> {
    table: &'a TableInfo,
    read: &'a Read,
    redirect: &'a Redirect,
}

impl<'a> RedirectFilter<'a> {
    /// Returns the filter of a checked read; none if it is not redirected.
    pub fn of(table: &'a TableInfo, read: &'a Read) -> Option<RedirectFilter<'a>> {
        let redirect = read.redirect.as_ref()?;
        Some(RedirectFilter {
            table,
            read,
            redirect,
        })
    }

    /// Returns whether this member of the cover must return the row.
    pub fn admits(&self, row: &RowView<'_>) -> bool {
        let constraints = &self.redirect.constraints;
        self.table.layout.admits_row(constraints, row) && self.table.gives(self.read.partition, row)
    }

    /// Returns whether the operation changes a row of the range. The row may be in the range before
    /// or after the change.
    pub fn is_touched_by(&self, prepare: &Prepare) -> bool {
        prepare.changes.iter().any(|change| {
            let rows = [self.table.old_row(change), self.table.new_row(change)];
            rows.iter().flatten().any(|row| self.ranges_over(row))
        })
    }

    /// Returns whether the operation changes a row that all members must show as of one moment. For
    /// a scan by a single member only a row that leaves for another partition counts: a scan is no
    /// snapshot, but it must not miss a row.
    pub fn is_disturbed_by(&self, prepare: &Prepare) -> bool {
        if !self.read.is_scan() || self.read.agreement != Agreement::Alone {
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

    /// Returns whether the row is in the range.
    pub fn ranges_over(&self, row: &RowView<'_>) -> bool {
        let key = self.table.entry_key(usize::from(self.redirect.replex), row);
        key[..] >= *self.read.start && self.read.end.as_ref().is_none_or(|end| key[..] < **end)
    }
}
