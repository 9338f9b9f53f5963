//! The part of one core in snapshots: the opening for which it is paused, the open snapshots, and
//! the history that it keeps for them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound;

use placement::tables::{Tables, TablesError};
use protocol::identity::{
    ClockReading, CoreId, Epoch, Incarnation, PartitionId, Position, SnapshotId, TableId, Version,
};
use protocol::message::{PeerMessage, SnapshotFailure, SnapshotMessage};
use protocol::planted::{self, Bug};

use super::history::{History, RowsAt, WantedVersions};
use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::member::{Member, MemberKey};
use crate::core::partition::rows::stored_row;
use crate::core::step::Step;

/// The longest time of a hold, whatever the opener requests, because operations wait for it.
pub(super) const HOLD_US_MAX: u64 = 320_000;
/// Snapshots that a core knows at a time.
pub(super) const SNAPSHOTS_MAX: usize = 256;
/// The most ended snapshots that are remembered, so that a read of one is refused with the reason.
const ENDED_MAX: usize = 256;

/// The state of one core as a participant in snapshots.
#[derive(Debug, Default)]
pub(crate) struct Participation {
    /// The opening that this core holds for. There is only one at a time, so that the end of one
    /// opening does not release operations that another opening holds back.
    hold: Option<CutHold>,
    /// The newest opening of each other core for which this core has held.
    seen: BTreeMap<CoreId, (Incarnation, u64)>,
    known: BTreeMap<SnapshotId, KnownSnapshot>,
    ended: VecDeque<(SnapshotId, SnapshotFailure)>,
    history: History,
}

/// An opening that this core holds for.
#[derive(Debug)]
struct CutHold {
    snapshot: SnapshotId,
    tables: BTreeSet<TableId>,
    until_us: u64,
    /// Whether this core has reported that none of its operations is in progress.
    is_drained: bool,
    /// Why the opening cannot succeed any more. The core begins operations again at the next tick.
    interrupted: Option<SnapshotFailure>,
    /// An operation in progress that the last search has found.
    waits_for: Option<MemberKey>,
}

/// A snapshot whose rows this core can return.
#[derive(Debug)]
struct KnownSnapshot {
    at: Version,
    tables: BTreeSet<TableId>,
    until_us: u64,
}

impl CutHold {
    /// Returns whether the core begins no operations of a table, and waits for the running ones.
    fn holds(&self, table: TableId) -> bool {
        match planted::is(Bug::OtherTablesNotHeld) {
            true => self.tables.first() == Some(&table),
            false => self.tables.contains(&table),
        }
    }

    fn lasts(&self, now: ClockReading) -> bool {
        self.interrupted.is_none() && self.until_us > now.monotonic_us
    }
}

impl Participation {
    /// Returns whether this core is paused for an opening of a table, so that it begins no
    /// operations of the table.
    pub fn holds(&self, table: TableId) -> bool {
        let hold = self.hold.as_ref();
        hold.is_some_and(|hold| hold.holds(table)) && !planted::is(Bug::HoldBeginsOperations)
    }

    /// Returns the number of snapshots that this core knows.
    pub fn known_count(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of snapshots that this core knows, plus 1 if it is paused for an opening.
    pub fn count(&self) -> usize {
        self.known.len() + usize::from(self.hold.is_some())
    }

    /// Returns the approximate bytes of the rows that this core keeps for snapshots.
    pub fn history_bytes(&self) -> usize {
        self.history.bytes()
    }

    /// Returns the time of the next check for expired snapshots and pauses; none if there are
    /// neither.
    pub fn due_us(&self) -> Option<u64> {
        let hold = self.hold.iter().map(|hold| match hold.interrupted {
            Some(_) => 0,
            None => hold.until_us,
        });
        let known = self.known.values().map(|known| known.until_us);
        hold.chain(known).min()
    }

    /// Returns the version T of a snapshot at which this core answers reads of a table.
    ///
    /// # Errors
    /// The reason why this core cannot answer reads of the snapshot.
    pub fn version_of(
        &self,
        now: ClockReading,
        snapshot: SnapshotId,
        table: TableId,
    ) -> Result<Version, SnapshotFailure> {
        if let Some(known) = self.known.get(&snapshot) {
            if known.until_us <= now.monotonic_us {
                return Err(SnapshotFailure::LeaseOver);
            }
            return match known.tables.contains(&table) {
                true => Ok(known.at),
                false => Err(SnapshotFailure::Unknown),
            };
        }
        if planted::is(Bug::UnknownSnapshotAnswered) {
            return Ok(Version(u64::MAX));
        }
        Err(self.reason_of(snapshot))
    }

    /// Returns the reason why this core does not know a snapshot.
    fn reason_of(&self, snapshot: SnapshotId) -> SnapshotFailure {
        let ended = self.ended.iter().find(|(ended, _)| *ended == snapshot);
        ended.map_or(SnapshotFailure::Unknown, |(_, reason)| *reason)
    }

    /// Returns the rows that one partition had at a version.
    pub fn rows_at(&self, id: PartitionId, version: Version) -> RowsAt<'_> {
        self.history.at(id, version)
    }

    /// Returns the versions at which a table is read, or may be read soon; none if no snapshot and
    /// no hold includes the table.
    fn wanted_of(&self, table: TableId) -> Option<WantedVersions> {
        let known = self.known.values();
        let known = known.filter(|known| known.tables.contains(&table));
        let mut of_snapshots: Vec<Version> = known.map(|known| known.at).collect();
        of_snapshots.sort_unstable();
        let held = self.hold.as_ref();
        let is_held = held.is_some_and(|hold| hold.tables.contains(&table));
        (is_held || !of_snapshots.is_empty()).then_some(WantedVersions {
            of_snapshots,
            is_held,
        })
    }

    fn end(&mut self, snapshot: SnapshotId, reason: SnapshotFailure) {
        if self.known.remove(&snapshot).is_some() {
            if self.ended.len() == ENDED_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back((snapshot, reason));
        }
    }

    /// Drops the history that neither a snapshot nor the hold needs: all history if there is
    /// neither. Otherwise does so only once the history has grown, because this looks through all
    /// of it.
    fn trim(&mut self) {
        if self.known.is_empty() && self.hold.is_none() {
            self.history.clear();
        } else if self.history.has_grown() {
            self.trim_all();
        }
    }

    /// Drops the unneeded part of the whole history. Returns the table with the most remaining
    /// history; none if no history remains.
    fn trim_all(&mut self) -> Option<TableId> {
        let known = self.known.values().flat_map(|known| &known.tables);
        let held = self.hold.iter().flat_map(|hold| &hold.tables);
        let tables: BTreeSet<TableId> = known.chain(held).copied().collect();
        let wanted = tables.into_iter();
        let wanted = wanted.filter_map(|table| Some((table, self.wanted_of(table)?)));
        let wanted = wanted.collect();
        self.history.trim(&wanted)
    }

    /// Ends snapshots until the history has at most `bytes_max` bytes. Each step ends the older
    /// half of the snapshots of the table with the most history. If this table has no snapshot yet,
    /// the hold ends instead.
    fn fit(&mut self, bytes_max: usize) {
        if self.history.bytes() > bytes_max && planted::is(Bug::HistoryDropped) {
            self.history.drop_half();
        }
        while self.history.bytes() > bytes_max {
            let largest = self.trim_all();
            let Some(table) = largest.filter(|_| self.history.bytes() > bytes_max) else {
                return;
            };
            let known = self.known.iter();
            let known = known.filter(|(_, known)| known.tables.contains(&table));
            let mut known: Vec<_> = known.map(|(id, known)| (known.at, *id)).collect();
            known.sort_unstable();
            known.truncate(known.len().div_ceil(2));
            if known.is_empty() {
                self.interrupt(SnapshotFailure::HistoryFull);
                self.history.drop_table(table);
            }
            for (_, snapshot) in known {
                self.end(snapshot, SnapshotFailure::HistoryFull);
            }
        }
    }

    fn interrupt(&mut self, reason: SnapshotFailure) {
        if let Some(hold) = &mut self.hold {
            hold.interrupted.get_or_insert(reason);
        }
    }

    /// Ends the snapshots of these tables, because their epochs have changed (R39).
    pub fn end_of_tables(&mut self, tables: &BTreeSet<TableId>) {
        let reason = SnapshotFailure::ClusterChanged;
        let hold = self.hold.as_ref();
        if hold.is_some_and(|hold| !hold.tables.is_disjoint(tables)) {
            self.interrupt(reason);
        }
        if planted::is(Bug::SnapshotSurvivesEpoch) {
            return;
        }
        let concerned = self.known.iter();
        let concerned = concerned.filter(|(_, known)| !known.tables.is_disjoint(tables));
        let concerned: Vec<SnapshotId> = concerned.map(|(snapshot, _)| *snapshot).collect();
        for snapshot in concerned {
            self.end(snapshot, reason);
        }
        self.trim();
    }
}

impl CoreMachine {
    /// Handles a message of an opener.
    pub(crate) fn on_snapshot_message<T: Tables>(
        &mut self,
        from: CoreId,
        message: SnapshotMessage,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        match message {
            SnapshotMessage::Hold {
                snapshot,
                tables,
                hold_us,
            } => self.on_hold((from, snapshot), &tables, hold_us, step)?,
            SnapshotMessage::Close {
                snapshot,
                at,
                lease_us,
            } => self.on_close((from, snapshot), at, lease_us, step)?,
            SnapshotMessage::Keep { snapshot, lease_us } => {
                let participation = &mut self.participation;
                if let Some(known) = participation.known.get_mut(&snapshot) {
                    known.until_us = step.now.monotonic_us.saturating_add(lease_us);
                } else {
                    // It has ended here, so that it is of no use elsewhere.
                    let reason = participation.reason_of(snapshot);
                    let refused = SnapshotMessage::Refused { snapshot, reason };
                    send(from, refused, step.output);
                }
            }
            SnapshotMessage::End { snapshot } => {
                self.participation.end(snapshot, SnapshotFailure::Unknown);
                let hold = self.participation.hold.as_ref();
                if hold.is_some_and(|hold| hold.snapshot == snapshot) {
                    self.end_hold(step)?;
                }
                self.participation.trim();
            }
            SnapshotMessage::Held { snapshot, clock } => {
                self.on_held(step.now, (from, snapshot), clock, step.output);
            }
            SnapshotMessage::Closed { snapshot } => {
                self.on_closed(step.now, (from, snapshot), step.output);
            }
            SnapshotMessage::Refused { snapshot, reason } => {
                self.on_cut_refused(step.now, snapshot, reason, step.output);
            }
        }
        Ok(())
    }

    /// Holds back new operations of these tables, or sends the opener the reason why this core does
    /// not.
    fn on_hold<T: Tables>(
        &mut self,
        (from, snapshot): (CoreId, SnapshotId),
        tables: &[(TableId, Epoch)],
        hold_us: u64,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if let Err(reason) = self.may_hold(snapshot, tables) {
            send(
                from,
                SnapshotMessage::Refused { snapshot, reason },
                step.output,
            );
            return Ok(());
        }
        let participation = &mut self.participation;
        let name = (snapshot.incarnation, snapshot.number);
        participation.seen.insert(snapshot.opener, name);
        participation.hold = Some(CutHold {
            snapshot,
            tables: tables.iter().map(|(table, _)| *table).collect(),
            until_us: step.now.monotonic_us + hold_us.min(HOLD_US_MAX),
            is_drained: false,
            interrupted: None,
            waits_for: None,
        });
        let tables = tables.iter().map(|(table, _)| *table).collect();
        self.drop_walks_that_hold(&tables, step)
    }

    /// Returns whether this core may hold for an opening, or the reason why it may not. It must not
    /// accept a late copy of a hold, because it may have reported, let the hold expire and begun
    /// operations since.
    fn may_hold(
        &self,
        snapshot: SnapshotId,
        tables: &[(TableId, Epoch)],
    ) -> Result<(), SnapshotFailure> {
        let participation = &self.participation;
        let name = (snapshot.incarnation, snapshot.number);
        let seen = participation.seen.get(&snapshot.opener);
        let is_old = seen.is_some_and(|seen| *seen >= name);
        if is_old || participation.hold.is_some() || participation.known.len() >= SNAPSHOTS_MAX {
            return Err(SnapshotFailure::Busy);
        }
        let is_open = |(table, epoch): &(TableId, Epoch)| {
            let known = self.view.table(*table);
            known.is_some_and(|known| known.epoch == *epoch)
                && !self.stands_still(*table)
                && !self.recovers(*table)
        };
        match tables.iter().all(is_open) {
            true => Ok(()),
            false => Err(SnapshotFailure::ClusterChanged),
        }
    }

    /// Reports to the opener once no operation of the held tables is in progress here. Called after
    /// each step.
    pub(crate) fn report_drained(&mut self, output: &mut CoreOutput) {
        let Some(hold) = &mut self.participation.hold else {
            return;
        };
        if hold.is_drained || hold.interrupted.is_some() {
            return;
        }
        let members = &self.members;
        let is_under_way = |member: &Member| !member.is_settled();
        let first_from = |key: Option<MemberKey>| {
            let from = key.map_or(Bound::Unbounded, Bound::Included);
            let mut members = members.range((from, Bound::Unbounded));
            let first =
                members.find(|(key, member)| hold.holds(key.1.table) && is_under_way(member));
            first.map(|(key, _)| *key)
        };
        // From the one that was found last, and only then from the beginning.
        let later = hold.waits_for.and_then(|key| first_from(Some(key)));
        let under_way = later.or_else(|| first_from(None));
        hold.waits_for = under_way.filter(|_| !planted::is(Bug::HeldBeforeDrained));
        if hold.waits_for.is_some() {
            return;
        }
        hold.is_drained = true;
        let (snapshot, clock) = (hold.snapshot, self.versions.last());
        send(
            snapshot.opener,
            SnapshotMessage::Held { snapshot, clock },
            output,
        );
    }

    /// Closes the snapshot at version T if this core has held without interruption. Otherwise
    /// refuses it.
    fn on_close<T: Tables>(
        &mut self,
        (from, snapshot): (CoreId, SnapshotId),
        at: Version,
        lease_us: u64,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let hold = self.participation.hold.as_ref();
        let hold = hold.filter(|hold| hold.snapshot == snapshot && hold.is_drained);
        let lasts = hold.filter(|hold| hold.lasts(step.now));
        let tables = match (hold, lasts) {
            (_, Some(hold)) => hold.tables.clone(),
            _ if planted::is(Bug::ExpiredHoldCounts) => {
                let tables = self.view.configuration().tables.iter();
                tables.map(|table| table.id).collect()
            }
            _ => {
                let interrupted = hold.and_then(|hold| hold.interrupted);
                let reason = interrupted.unwrap_or(SnapshotFailure::Busy);
                send(
                    from,
                    SnapshotMessage::Refused { snapshot, reason },
                    step.output,
                );
                return Ok(());
            }
        };
        if !planted::is(Bug::ClockNotMoved) {
            self.versions.see(at);
        }
        let known = KnownSnapshot {
            at,
            tables,
            until_us: step.now.monotonic_us.saturating_add(lease_us),
        };
        self.participation.known.insert(snapshot, known);
        send(from, SnapshotMessage::Closed { snapshot }, step.output);
        self.end_hold(step)
    }

    /// Ends the hold: the requests that have waited for it begin.
    fn end_hold<T: Tables>(&mut self, step: &mut Step<'_, T>) -> Result<(), TablesError> {
        let Some(hold) = self.participation.hold.take() else {
            return Ok(());
        };
        for (id, pk) in self.partitions.queued_pks() {
            if hold.tables.contains(&id.table) {
                self.start_queue(id, &pk, step)?;
            }
        }
        Ok(())
    }

    /// Ends expired snapshots, and holds that were interrupted.
    pub(crate) fn expire_snapshots<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let now_us = step.now.monotonic_us;
        let participation = &mut self.participation;
        let expired = participation.known.iter();
        let expired = expired.filter(|(_, known)| known.until_us <= now_us);
        let expired: Vec<SnapshotId> = expired.map(|(snapshot, _)| *snapshot).collect();
        for snapshot in expired {
            participation.end(snapshot, SnapshotFailure::LeaseOver);
        }
        let hold = participation.hold.as_ref();
        if let Some(hold) = hold.filter(|hold| !hold.lasts(step.now)) {
            // Only so that the opener need not wait: without it the close is refused.
            if !planted::is(Bug::ExpiredHoldCounts) {
                let reason = hold.interrupted.unwrap_or(SnapshotFailure::Busy);
                let snapshot = hold.snapshot;
                let refused = SnapshotMessage::Refused { snapshot, reason };
                send(snapshot.opener, refused, step.output);
            }
            self.end_hold(step)?;
        }
        self.participation.trim();
        Ok(())
    }

    /// Keeps the rows that an operation is about to replace or remove, if a snapshot may need them.
    pub(crate) fn keep_history<T: Tables>(
        &mut self,
        key: MemberKey,
        tables: &T,
    ) -> Result<(), TablesError> {
        let id = key.1;
        let Some(mut wanted) = self.participation.wanted_of(id.table) else {
            return Ok(());
        };
        wanted.is_held &= !planted::is(Bug::HistoryFromClose);
        let member = &self.members[&key];
        for (change, effect) in member.prepare.changes.iter().zip(&member.effects) {
            for key in effect.remove.iter().chain(&effect.put) {
                let history = &mut self.participation.history;
                tables.read(id.rows_table(), key, &mut |value| {
                    if wanted.want(stored_row(value).0, change.version) {
                        history.keep(id, key, change.version, value);
                    }
                })?;
            }
        }
        self.participation.fit(self.limits.history_bytes_max);
        Ok(())
    }

    /// Returns the version at which a read of a table must be answered; none if it reads the
    /// present rows.
    ///
    /// # Errors
    /// This core cannot answer reads of the snapshot (any more).
    pub(crate) fn version_of(
        &self,
        now: ClockReading,
        snapshot: Option<SnapshotId>,
        table: TableId,
    ) -> Result<Option<Version>, SnapshotFailure> {
        let at = snapshot.map(|snapshot| self.participation.version_of(now, snapshot, table));
        at.transpose()
    }

    /// Returns whether an operation with a version up to `at` has not changed the rows of a
    /// partition yet.
    pub(crate) fn is_pending_at(&self, partition: PartitionId, at: Version) -> bool {
        let mut members = self.members.iter();
        members.any(|(key, member)| {
            key.1 == partition && !member.is_settled() && member.oldest_version() <= at
        })
    }
}

pub(super) fn send(to: CoreId, message: SnapshotMessage, output: &mut CoreOutput) {
    output.sends.push(PeerSend {
        to,
        after: Position(0),
        message: PeerMessage::Snapshot(message),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use protocol::codec::Wire;

    fn partition(table: u32) -> PartitionId {
        PartitionId {
            table: TableId(table),
            ..PartitionId::default()
        }
    }

    fn snapshot(number: u64) -> SnapshotId {
        SnapshotId {
            number,
            ..SnapshotId::default()
        }
    }

    #[test]
    fn a_hold_whose_history_is_full_takes_nothing_from_snapshots_of_other_tables() {
        let mut participation = Participation::default();
        let known = KnownSnapshot {
            at: Version(5),
            tables: BTreeSet::from([TableId(1)]),
            until_us: 1_000,
        };
        participation.known.insert(snapshot(1), known);
        participation.hold = Some(CutHold {
            snapshot: snapshot(2),
            tables: BTreeSet::from([TableId(2)]),
            until_us: 1_000,
            is_drained: true,
            interrupted: None,
            waits_for: None,
        });
        let history = &mut participation.history;
        history.keep(partition(1), b"a", Version(7), &Version(3).to_bytes());
        let long = [Version(3).to_bytes(), vec![0; 10_000]].concat();
        history.keep(partition(2), b"b", Version(7), &long);
        participation.fit(1_000);
        let hold = participation
            .hold
            .as_ref()
            .expect("it lasts until the next tick");
        assert_eq!(hold.interrupted, Some(SnapshotFailure::HistoryFull));
        assert!(participation.known.contains_key(&snapshot(1)));
        assert!(participation.history.has(partition(1), b"a"));
        assert!(!participation.history.has(partition(2), b"b"));
    }
}
