//! Ranges of keys that are read: those that lookups wait for, those that statements hold, and those
//! that are read for a lost partition.

use alloc::collections::BTreeSet;
use core::ops::{Bound, RangeBounds};

use placement::RowView;
use protocol::identity::{OperationId, PartitionId};
use protocol::message::{Agreement, Read, Redirect};
use protocol::operation::Prepare;

use crate::core::answers::ReplyDestination;
use crate::core::member::Member;
use crate::core::table::TableInfo;

/// A read that waits for decisions. It covers some key: one that covers none finds no holder to
/// wait for.
#[derive(Debug)]
pub(crate) struct WaitingRead {
    pub asker: ReplyDestination,
    pub read: Read,
    /// Operations on what it reads; it is answered once none is left.
    pub waits_for: BTreeSet<OperationId>,
    pub since_us: u64,
}

impl WaitingRead {
    /// Returns whether it reads the present row of a key of its partition's order. A redirected
    /// read looks at rows. One of a snapshot need not hold back what comes later.
    pub fn covers(&self, key: &[u8]) -> bool {
        let is_present = self.read.redirect.is_none() && self.read.snapshot.is_none();
        is_present && self.range().contains(key)
    }

    /// Returns whether it reads what the operation changes, and holds it back until it is answered.
    /// In the primary replex a redirected read holds back nothing: the order of operations per pk
    /// is made there from held keys alone (R6).
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

/// First key and first key beyond.
pub(crate) type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Returns the keys that a read covers, in its partition's order.
pub(crate) fn bounds(read: &Read) -> KeyBounds<'_> {
    let end = read.end.as_deref();
    (
        Bound::Included(&read.start),
        end.map_or(Bound::Unbounded, Bound::Excluded),
    )
}

/// One range that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub asker: ReplyDestination,
    /// The range that was read, cut to the page that was answered.
    pub read: Read,
    pub until_us: u64,
    /// Something of the range has changed all the same.
    pub changed: bool,
}

impl Hold {
    /// Returns whether it holds a key of its partition's order.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.range().contains(key)
    }

    /// Returns whether the operation changes something of its range.
    pub fn covers_operation(&self, member: &Member) -> bool {
        member.held.iter().any(|held| self.covers(held))
    }

    pub fn range(&self) -> KeyBounds<'_> {
        bounds(&self.read)
    }
}

/// The rows that a redirected read wants of one member.
pub(crate) struct RedirectFilter<'a> {
    table: &'a TableInfo,
    read: &'a Read,
    redirect: &'a Redirect,
}

impl<'a> RedirectFilter<'a> {
    /// Returns the filter of a read that was checked; none if it is not redirected.
    pub fn of(table: &'a TableInfo, read: &'a Read) -> Option<RedirectFilter<'a>> {
        let redirect = read.redirect.as_ref()?;
        Some(RedirectFilter {
            table,
            read,
            redirect,
        })
    }

    /// Returns whether the row is to be given by this member of the cover.
    pub fn admits(&self, row: &RowView<'_>) -> bool {
        let constraints = &self.redirect.constraints;
        self.table.layout.admits_row(constraints, row)
    }

    /// Returns whether the operation changes a row of the range, before or after it.
    pub fn is_touched_by(&self, prepare: &Prepare) -> bool {
        prepare.changes.iter().any(|change| {
            let rows = [self.table.old_row(change), self.table.new_row(change)];
            rows.iter().flatten().any(|row| self.ranges_over(row))
        })
    }

    /// Returns whether the operation changes what a reader of all members must see at one moment.
    /// Of a scan that stands alone only a row that leaves for another partition matters: it is not
    /// a snapshot, but nor may it miss a row.
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
