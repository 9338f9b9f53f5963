//! Reads of one page.

use alloc::vec::Vec;

use placement::SlotConstraints;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::expression::Expression;
use crate::identity::{Epoch, PartitionId, SnapshotId};

/// A read of one page: rows of one partition between two keys of its sort order.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
    /// The first key, memcomparable: a prefix of the sort order, or the `next` of the previous
    /// page.
    pub start: Bytes,
    /// The first key after the range; none reads to the end.
    pub end: Option<Bytes>,
    /// Only rows that fulfil this condition are returned.
    pub filter: Option<Expression>,
    /// The columns to return, by position; none returns all.
    pub projection: Option<Vec<u16>>,
    /// The most rows to return.
    pub limit: u32,
    /// Whether to read from the last key to the first.
    pub descending: bool,
    /// Whether to return only the number of rows.
    pub count_only: bool,
    /// Whether the read is linearizable, or may return stale rows (R10).
    pub consistency: Consistency,
    /// How the page must agree with other pages of its statement.
    pub agreement: Agreement,
    /// Set if this core is a member of the cover of a lost partition, whose rows are wanted.
    pub redirect: Option<Redirect>,
    /// The snapshot to read from; none reads the present rows.
    pub snapshot: Option<SnapshotId>,
    /// The wanted keys of the range, ascending, at most [`KEYS_MAX`]; empty wants all rows.
    pub keys: Vec<Bytes>,
}

/// The most keys of one read.
pub const KEYS_MAX: usize = 1_024;

/// How the core helps to make the pages of one statement show one moment (R35).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The page is all that the statement reads, so nothing has to agree.
    Alone,
    /// The core reports for how long nothing has changed in the range
    /// ([`RowPage::quiet_us`](crate::message::RowPage::quiet_us)).
    Quiet,
    /// The core also holds the range: operations that change the page's rows wait until a
    /// [`HoldRelease`](crate::message::HoldRelease), or for this many microseconds. A core may hold
    /// for less time, or not at all ([`RowPage::held`](crate::message::RowPage::held)).
    Hold(u64),
}

impl Agreement {
    /// Returns how parts of a read must agree that never hold their range.
    pub fn without_hold(self) -> Agreement {
        let is_alone = self == Agreement::Alone;
        if is_alone { self } else { Agreement::Quiet }
    }
}

impl Read {
    /// Returns a linearizable read of all rows of a partition, alone.
    pub fn of(epoch: Epoch, partition: PartitionId) -> Read {
        Read {
            epoch,
            partition,
            start: Bytes::default(),
            end: None,
            filter: None,
            projection: None,
            limit: u32::MAX,
            descending: false,
            count_only: false,
            consistency: Consistency::Linearizable,
            agreement: Agreement::Alone,
            redirect: None,
            snapshot: None,
            keys: Vec::new(),
        }
    }

    /// Returns whether a row with this key of the range is wanted.
    pub fn wants_key(&self, key: &[u8]) -> bool {
        self.keys.is_empty() || self.keys.binary_search_by(|it| it[..].cmp(key)).is_ok()
    }

    /// Returns whether the page must show the same moment as other pages. Then the core reports for
    /// how long the range has been quiet.
    pub fn must_agree(&self) -> bool {
        self.redirect.is_some() || self.agreement != Agreement::Alone
    }

    /// Returns whether the range begins or ends with the partition itself, as a page of a scan does
    /// and a lookup does not.
    pub fn is_scan(&self) -> bool {
        self.start.is_empty() || self.end.is_none()
    }
}

/// The part of a `Read` that asks a member of a cover for rows of a lost partition (Replex sections
/// 3.1 and 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The replex of the lost partition. `start`, `end` and the order of the rows follow its sort
    /// order.
    pub replex: u8,
    /// The slots of the wanted rows. Other members return the rows with other slots.
    pub constraints: SlotConstraints,
    /// The key of the member's own order from which to continue. Set if the previous page was in
    /// that order ([`RowPage::own_order`](crate::message::RowPage::own_order)): the member then
    /// scans all of its rows.
    pub scan_from: Option<Bytes>,
}

/// Whether a read waits for operations in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// The read waits for operations in progress on its rows.
    Linearizable,
    /// The read returns committed rows at once, and may miss operations in progress.
    Stale,
}

wire_struct!(Read {
    epoch,
    partition,
    start,
    end,
    filter,
    projection,
    limit,
    descending,
    count_only,
    consistency,
    agreement,
    redirect,
    snapshot,
    keys,
});
wire_enum!(Agreement { 0 => Alone, 1 => Quiet, 2 => Hold(hold_us) });
wire_struct!(Redirect {
    replex,
    constraints,
    scan_from
});
wire_enum!(Consistency { 0 => Linearizable, 1 => Stale });
