//! Holds: ranges that a statement has read. No operation changes them until the statement has read
//! its other ranges (R35).
//!
//! A client first reads all ranges of a statement at once, and gets the time for which each has
//! been quiet (`redirect`). If writers leave no quiet moment, it requests *holds*. It reads the
//! ranges one after the other, in the order in which operations acquire keys (R7), and releases all
//! of them at the end. While a hold lasts, operations on its range wait as they wait behind an
//! unanswered read.
//!
//! These waits only ensure that such a read ends. The answers to the release prove that it is
//! correct: each reports whether its range has stayed unchanged since it was read. The client reads
//! all ranges before it releases the first. So if all are unchanged, all had the returned contents
//! at one moment.
//!
//! A hold is not logged. It ends with a new epoch of its table, with its connection, and with its
//! time limit.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, PartitionId, Position, TableId};
use protocol::message::{Agreement, HoldRelease, Read, Reply, RowPage};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::contract::ClientId;
use crate::core::member::MemberKey;
use crate::core::partition::Partition;
use crate::core::partition::ranges::Hold;
use crate::core::step::Step;

/// The longest time of a hold, whatever the client requests, because operations wait for it.
pub const HOLD_US_MAX: u64 = 200_000;
/// Holds of one partition; further reads are answered without one.
const HOLDS_MAX: usize = 1_024;

/// The times at which holds end.
#[derive(Debug, Default)]
pub(crate) struct HoldClock {
    /// The time at which to look for expired holds. Set while there is a hold.
    due_us: Option<u64>,
}

impl HoldClock {
    /// Returns the time of the next check for expired holds; none if there are no holds.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    fn end_by(&mut self, until_us: u64) {
        self.due_us = Some(self.due_us.map_or(until_us, |due| due.min(until_us)));
    }
}

impl CoreMachine {
    /// Holds the range of a page, if its read requests that. The page was read in the same step.
    pub(crate) fn hold_page(
        &mut self,
        now: ClockReading,
        asker: ReplyDestination,
        read: &Read,
        page: &mut RowPage,
    ) {
        let Agreement::Hold(hold_us) = read.agreement else {
            return;
        };
        let stands_still = self.stands_still(read.partition.table);
        let partition = self.partitions.get_mut(&read.partition);
        let partition = partition.expect("it was read");
        // A redirected read is in another order, so that it would hold keys of another kind. An
        // operation that waits at a side member can deadlock (R28).
        let foreign = read.redirect.is_some() || partition.is_thin();
        if foreign || partition.holds.len() >= HOLDS_MAX || stands_still {
            return;
        }
        let mut read = read.clone();
        if let Some(next) = &page.next {
            match read.descending {
                true => read.start.clone_from(next),
                false => read.end = Some(next.clone()),
            }
        }
        let until_us = now.monotonic_us.saturating_add(hold_us.min(HOLD_US_MAX));
        partition.holds.push(Hold {
            asker,
            read,
            until_us,
            changed: false,
        });
        page.held = true;
        let id = partition.id;
        self.partitions.note_waiting(id);
        self.hold_clock.end_by(until_us);
    }

    /// Records that an operation has changed rows of held ranges.
    pub(crate) fn note_change_of_held(&mut self, key: MemberKey) {
        let Some(partition) = self.partitions.get_mut(&key.1) else {
            return;
        };
        if planted::is(Bug::HoldChangesUnseen) {
            return;
        }
        let member = &self.members[&key];
        for hold in &mut partition.holds {
            hold.changed |= hold.covers_operation(member);
        }
    }

    /// Ends these holds, and returns whether all of them lasted until now.
    pub(crate) fn release_holds<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        release: &HoldRelease,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let readable = self.check_readable(step.now, release.epoch, release.partition);
        let is_named = |hold: &Hold| {
            hold.asker.client == asker.client && release.holds.contains(&hold.asker.correlation)
        };
        let ended = self.end_holds(release.partition, is_named);
        let lasted = ended
            .iter()
            .filter(|hold| !hold.changed && hold.until_us > step.now.monotonic_us);
        let unchanged =
            lasted.count() == release.holds.len() || planted::is(Bug::HoldChangesUnseen);
        match readable {
            Ok(()) => {
                let lease = Some(self.lease_until_us(step.now, release.partition.table));
                let reply = Reply::Released(unchanged);
                self.answer(asker, Position(0), lease, reply, step.output);
            }
            Err(refusal) => self.refuse(asker, refusal, step.output),
        }
        self.holds_gone(release.partition, &ended, step)
    }

    /// Ends expired holds, and the holds of clients whose connection has ended.
    pub(crate) fn drop_holds<T: Tables>(
        &mut self,
        gone: Option<ClientId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if self.hold_clock.due_us.is_none() {
            return Ok(());
        }
        let with_holds = |partition: &&Partition| !partition.holds.is_empty();
        let ids = self.partitions.waited_in().filter(with_holds);
        let ids: Vec<PartitionId> = ids.map(|partition| partition.id).collect();
        for id in ids {
            let ended = self.end_holds(id, |hold| {
                gone == Some(hold.asker.client) || hold.until_us <= step.now.monotonic_us
            });
            self.holds_gone(id, &ended, step)?;
        }
        let left = self.partitions.waited_in().flat_map(|it| &it.holds);
        self.hold_clock.due_us = left.map(|hold| hold.until_us).min();
        Ok(())
    }

    /// Ends all holds on these tables, because their epochs have changed. Waiting operations
    /// continue at the next tick.
    pub(crate) fn end_holds_of(&mut self, tables: &BTreeSet<TableId>) {
        let waited_in = self.partitions.waited_in_ids().into_iter();
        for id in waited_in.filter(|id| tables.contains(&id.table)) {
            let partition = self.partitions.get_mut(&id).expect("it is held");
            for hold in &mut partition.holds {
                hold.changed = true;
                hold.until_us = 0;
                self.hold_clock.due_us = Some(0);
            }
        }
    }

    fn end_holds(&mut self, id: PartitionId, ends: impl Fn(&Hold) -> bool) -> Vec<Hold> {
        let partition = self.partitions.get_mut(&id);
        partition.map_or_else(Vec::new, |partition| {
            partition.holds.extract_if(.., |hold| ends(hold)).collect()
        })
    }

    fn holds_gone<T: Tables>(
        &mut self,
        id: PartitionId,
        ended: &[Hold],
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let ranges: Vec<_> = ended.iter().map(Hold::range).collect();
        self.ranges_free(id, &ranges, step)
    }
}
