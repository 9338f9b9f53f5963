//! Opens snapshots for the statements that wait for one, one opening at a time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use protocol::identity::{
    ClockReading, CoreId, Epoch, Position, ReaderId, SnapshotId, TableId, Version,
};
use protocol::message::{
    OpenedSnapshot, Refusal, Reply, SnapshotFailure, SnapshotMessage, SnapshotReply,
    SnapshotRequest, SnapshotUse,
};
use protocol::planted::{self, Bug};

use super::participation::{HOLD_US_MAX, send};
use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::contract::{ClientId, CoreOutput};

/// The pause after an opening: each stops the writes of its tables for a moment.
const PAUSE_US: u64 = 4_000;
/// The pause after one that has failed, as a multiple of the time for which its cores held: writers
/// have most of the time, whatever keeps openings from succeeding.
const PAUSES_PER_HOLD: u64 = 4;
/// How long the snapshots of a client are kept whose connection is gone: it may connect again.
const GONE_US: u64 = 2_500_000;
/// Attempts before a statement is refused.
const ATTEMPTS_MAX: u32 = 8;
/// Statements that wait for a snapshot, or read one, at a time.
const STATEMENTS_MAX: usize = 4_096;

/// The snapshots that this core opens and keeps.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    waiting: Vec<Statement>,
    current: Option<Opening>,
    /// The next opening begins no earlier.
    not_before_us: u64,
    last_number: u64,
    last_user: u64,
    open: BTreeMap<SnapshotId, OpenSnapshot>,
}

/// A statement that waits for a snapshot.
#[derive(Debug)]
struct Statement {
    asker: ReplyDestination,
    reader: ReaderId,
    tables: BTreeMap<TableId, Epoch>,
    attempts: u32,
}

/// An opening in progress.
#[derive(Debug)]
struct Opening {
    snapshot: SnapshotId,
    tables: BTreeMap<TableId, Epoch>,
    cores: BTreeSet<CoreId>,
    step: OpeningStep,
    until_us: u64,
    hold_us: u64,
    /// The statements that waited when it began. A later one would have to see operations that a
    /// core has acknowledged after it closed.
    statements: Vec<Statement>,
}

#[derive(Debug)]
enum OpeningStep {
    /// Cores hold back new operations. Contains the clocks of the cores that have no operation in
    /// progress any more.
    Holding(BTreeMap<CoreId, Version>),
    Closing {
        at: Version,
        closed: BTreeSet<CoreId>,
    },
}

/// A snapshot that statements read.
#[derive(Debug)]
struct OpenSnapshot {
    tables: BTreeSet<TableId>,
    cores: BTreeSet<CoreId>,
    at: Version,
    /// The statements, each under its client and number: no other client has the name (R51).
    users: BTreeMap<(ReaderId, u64), User>,
    /// When its cores hear next that it is still read.
    keep_us: u64,
}

impl OpenSnapshot {
    /// Returns the name of the lease that a request concerns (R51).
    fn lease_of(&self, share: SnapshotUse) -> (ReaderId, u64) {
        let is_named = |(_, user): &&(ReaderId, u64)| *user == share.user;
        if planted::is(Bug::LeasesShared)
            && let Some(name) = self.users.keys().find(is_named)
        {
            return *name;
        }
        (share.reader, share.user)
    }
}

/// The lease of a statement.
#[derive(Debug)]
struct User {
    /// The connection over which its client was heard last.
    client: ClientId,
    until_us: u64,
}

impl Openings {
    /// Returns the time of the next action.
    pub fn due_us(&self) -> Option<u64> {
        let opening = match &self.current {
            Some(opening) => Some(opening.until_us),
            None if self.waiting.is_empty() => None,
            None => Some(self.not_before_us),
        };
        let users = self.open.values().map(|open| {
            let users = open.users.values().map(|user| user.until_us);
            users.min().unwrap_or(0).min(open.keep_us)
        });
        opening.into_iter().chain(users).min()
    }

    /// Returns the number of snapshots that are open or being opened, plus the number of waiting
    /// statements.
    pub fn count(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some()) + self.open.len()
    }

    /// Returns the number of open snapshots that a client's statements read.
    fn open_of(&self, reader: ReaderId) -> usize {
        let is_read = |open: &&OpenSnapshot| {
            let own = (reader, 0)..=(reader, u64::MAX);
            open.users.range(own).next().is_some()
        };
        self.open.values().filter(is_read).count()
    }

    /// Returns the number of snapshots that a client's statements read or wait for.
    fn count_of(&self, reader: ReaderId) -> usize {
        let open = self.open_of(reader);
        // Statements that wait together get one snapshot.
        let is_own = |statement: &Statement| statement.reader == reader;
        let opening = self.current.as_ref();
        let is_opening = opening.is_some_and(|it| it.statements.iter().any(is_own));
        let is_waiting = self.waiting.iter().any(is_own);
        open + usize::from(is_opening) + usize::from(is_waiting)
    }

    /// Returns the most open snapshots that one client's statements read.
    pub fn of_one_reader(&self) -> usize {
        let mut counts: BTreeMap<ReaderId, usize> = BTreeMap::new();
        for open in self.open.values() {
            let readers: BTreeSet<ReaderId> =
                open.users.keys().map(|(reader, _)| *reader).collect();
            for reader in readers {
                *counts.entry(reader).or_default() += 1;
            }
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// Returns the number of open snapshots.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }
}

impl CoreMachine {
    /// Handles a client's request about snapshots.
    pub(crate) fn on_snapshot_request(
        &mut self,
        asker: ReplyDestination,
        now: ClockReading,
        request: SnapshotRequest,
        output: &mut CoreOutput,
    ) {
        match request {
            SnapshotRequest::Open { reader, tables } => {
                let statement = Statement {
                    asker,
                    reader,
                    tables: tables.into_iter().collect(),
                    attempts: 0,
                };
                self.open_snapshot(statement, now, output);
            }
            SnapshotRequest::Keep(share) => {
                let until_us = now.monotonic_us + self.limits.snapshot_lease_us;
                let open = self.openings.open.get_mut(&share.snapshot);
                let user = open.and_then(|open| open.users.get_mut(&open.lease_of(share)));
                let reply = match user {
                    Some(user) => {
                        *user = User {
                            client: asker.client,
                            until_us,
                        };
                        Reply::Snapshot(SnapshotReply::Kept)
                    }
                    None => Reply::Refused(Refusal::Snapshot(SnapshotFailure::Unknown)),
                };
                self.answer(asker, Position(0), None, reply, output);
            }
            SnapshotRequest::Close(share) => {
                if let Some(open) = self.openings.open.get_mut(&share.snapshot) {
                    open.users.remove(&open.lease_of(share));
                }
                let reply = Reply::Snapshot(SnapshotReply::Closed);
                self.answer(asker, Position(0), None, reply, output);
                self.end_unread(output);
            }
        }
    }

    fn open_snapshot(&mut self, statement: Statement, now: ClockReading, output: &mut CoreOutput) {
        let Statement {
            asker,
            reader,
            ref tables,
            ..
        } = statement;
        for epoch in tables.values() {
            self.notice_epoch(*epoch, output);
        }
        if tables.is_empty() {
            let message = "a snapshot is one of at least one table".into();
            self.refuse(asker, Refusal::Invalid { message }, output);
            return;
        }
        let checked = self.check_opener(tables);
        if let Err(refusal) = checked.and_then(|()| self.check_openable(tables)) {
            self.refuse(asker, refusal, output);
            return;
        }
        let openings = &mut self.openings;
        let users = openings.open.values().map(|open| open.users.len());
        if openings.waiting.len() + users.sum::<usize>() >= STATEMENTS_MAX {
            self.refuse(asker, Refusal::Snapshot(SnapshotFailure::Busy), output);
            return;
        }
        // One more statement that waits gets the snapshot of those that do.
        let openings = &self.openings;
        let waits = openings.waiting.iter().any(|it| it.reader == reader);
        let is_full = openings.count_of(reader) >= self.limits.snapshots_per_reader_max;
        if !waits && is_full && !planted::is(Bug::ReaderUnlimited) {
            self.refuse(asker, Refusal::Snapshot(SnapshotFailure::TooMany), output);
            return;
        }
        if planted::is(Bug::OldSnapshotGiven) && self.join_open(&statement, now, output) {
            return;
        }
        self.openings.waiting.push(statement);
        self.begin_opening(now, output);
    }

    /// Gives a statement a snapshot that is open already: only a planted bug does.
    fn join_open(
        &mut self,
        statement: &Statement,
        now: ClockReading,
        output: &mut CoreOutput,
    ) -> bool {
        let mut open = self.openings.open.iter();
        let fits =
            open.find(|(_, open)| statement.tables.keys().all(|it| open.tables.contains(it)));
        let snapshot = fits.map(|(snapshot, _)| *snapshot);
        if let Some(snapshot) = snapshot {
            self.give_snapshot(snapshot, statement, now, output);
        }
        snapshot.is_some()
    }

    /// Checks that this core is the one that opens snapshots of these tables. Openings by several
    /// cores would prevent each other.
    fn check_opener(&self, tables: &BTreeMap<TableId, Epoch>) -> Result<(), Refusal> {
        let table = tables.keys().next().expect("callers have some");
        let table = self.view.configuration().table(*table);
        let first = table.map(|table| table.primary_partition(0));
        match first.is_some_and(|first| self.partitions.contains_key(&first)) {
            true => Ok(()),
            false => Err(Refusal::WrongPartition),
        }
    }

    /// Checks that a snapshot of these tables can be opened: no server with a copy is missing,
    /// since the rows that a lost partition had at a version cannot be read from its cover.
    fn check_openable(&self, tables: &BTreeMap<TableId, Epoch>) -> Result<(), Refusal> {
        for (id, epoch) in tables {
            let known = self.view.table_epoch(*id);
            let Some(table) = self.view.table(*id).filter(|_| known == *epoch) else {
                return Err(Refusal::StaleEpoch { epoch: known });
            };
            let missing = self.view.configuration().missing_in(*id);
            if let Some(server) = table.lost.first().copied().or(missing) {
                let failure = SnapshotFailure::ServerMissing(server);
                return Err(Refusal::Snapshot(failure));
            }
            if self.stands_still(*id) {
                return Err(Refusal::Snapshot(SnapshotFailure::ClusterChanged));
            }
        }
        Ok(())
    }

    /// Begins an opening for all statements that wait, if none is in progress.
    fn begin_opening(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let openings = &mut self.openings;
        let may_begin = openings.current.is_none()
            && !openings.waiting.is_empty()
            && openings.not_before_us <= now.monotonic_us;
        if !may_begin {
            return;
        }
        // After a failure statements of other tables wait, so that they do not fail with it.
        let first = &openings.waiting[0];
        let (attempts, tables) = (first.attempts, first.tables.clone());
        let together = |statement: &mut Statement| match attempts {
            0 => statement.attempts == 0,
            _ => statement.tables == tables,
        };
        let waiting: Vec<Statement> = openings.waiting.extract_if(.., together).collect();
        let mut statements = Vec::new();
        for statement in waiting {
            // Statements that waited together can have been separated by a failure since.
            let is_full = self.openings.open_of(statement.reader)
                >= self.limits.snapshots_per_reader_max
                && !planted::is(Bug::ReaderUnlimited);
            let checked = match is_full {
                true => Err(Refusal::Snapshot(SnapshotFailure::TooMany)),
                false => self.check_openable(&statement.tables),
            };
            match checked {
                Ok(()) => statements.push(statement),
                Err(refusal) => self.refuse(statement.asker, refusal, output),
            }
        }
        let tables = statements.iter().flat_map(|it| &it.tables);
        let tables: BTreeMap<TableId, Epoch> = tables.map(|(id, epoch)| (*id, *epoch)).collect();
        let infos = tables.keys().filter_map(|id| self.view.table(*id));
        let cores: BTreeSet<CoreId> = infos.flat_map(|it| &it.holders).copied().collect();
        let Some(attempts) = statements.iter().map(|it| it.attempts).max() else {
            return;
        };
        let hold_us = (self.limits.snapshot_hold_us << attempts.min(8)).min(HOLD_US_MAX);
        self.openings.last_number += 1;
        let snapshot = SnapshotId {
            opener: self.identity.core,
            incarnation: self.identity.incarnation,
            number: self.openings.last_number,
        };
        let hold = SnapshotMessage::Hold {
            snapshot,
            tables: tables.iter().map(|(id, epoch)| (*id, *epoch)).collect(),
            hold_us,
        };
        for core in &cores {
            send(*core, hold.clone(), output);
        }
        self.openings.current = Some(Opening {
            snapshot,
            tables,
            cores,
            step: OpeningStep::Holding(BTreeMap::new()),
            until_us: now.monotonic_us + hold_us,
            hold_us,
            statements,
        });
    }

    /// Handles a core's report that it holds and has no operation in progress.
    pub(super) fn on_held(
        &mut self,
        now: ClockReading,
        (core, snapshot): (CoreId, SnapshotId),
        clock: Version,
        output: &mut CoreOutput,
    ) {
        let opening = self.openings.current.as_mut();
        let Some(opening) = opening.filter(|opening| opening.snapshot == snapshot) else {
            return;
        };
        let OpeningStep::Holding(clocks) = &mut opening.step else {
            return;
        };
        if opening.cores.contains(&core) {
            clocks.insert(core, clock);
        }
        if clocks.len() < opening.cores.len() {
            return;
        }
        let at = match planted::is(Bug::LowestClockWins) {
            true => clocks.values().min(),
            false => clocks.values().max(),
        };
        let at = *at.expect("a table has cores");
        opening.step = OpeningStep::Closing {
            at,
            closed: BTreeSet::new(),
        };
        opening.until_us = now.monotonic_us + opening.hold_us;
        for core in &opening.cores {
            let close = SnapshotMessage::Close {
                snapshot,
                at,
                lease_us: self.limits.snapshot_lease_us,
            };
            send(*core, close, output);
        }
        if planted::is(Bug::GivenBeforeClosed) {
            self.give_snapshot_to_all(now, output);
        }
    }

    /// Handles a core's report that it has closed. Once all have, the waiting statements get T.
    pub(super) fn on_closed(
        &mut self,
        now: ClockReading,
        (core, snapshot): (CoreId, SnapshotId),
        output: &mut CoreOutput,
    ) {
        let opening = self.openings.current.as_mut();
        let Some(opening) = opening.filter(|opening| opening.snapshot == snapshot) else {
            return;
        };
        let OpeningStep::Closing { closed, .. } = &mut opening.step else {
            return;
        };
        closed.insert(core);
        if closed.is_superset(&opening.cores) {
            self.give_snapshot_to_all(now, output);
        }
    }

    fn give_snapshot_to_all(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let opening = self.openings.current.take().expect("callers have it");
        let OpeningStep::Closing { at, .. } = opening.step else {
            panic!("callers have looked");
        };
        self.openings.not_before_us = now.monotonic_us + PAUSE_US;
        let snapshot = opening.snapshot;
        let open = OpenSnapshot {
            tables: opening.tables.keys().copied().collect(),
            cores: opening.cores,
            at,
            users: BTreeMap::new(),
            keep_us: now.monotonic_us + self.keep_interval_us(),
        };
        self.openings.open.insert(snapshot, open);
        for statement in opening.statements {
            self.give_snapshot(snapshot, &statement, now, output);
        }
        self.end_unread(output);
    }

    fn give_snapshot(
        &mut self,
        snapshot: SnapshotId,
        &Statement { asker, reader, .. }: &Statement,
        now: ClockReading,
        output: &mut CoreOutput,
    ) {
        let lease_us = self.limits.snapshot_lease_us;
        self.openings.last_user += 1;
        let user = self.openings.last_user;
        let open = self.openings.open.get_mut(&snapshot);
        let open = open.expect("callers have it open");
        let lease = User {
            client: asker.client,
            until_us: now.monotonic_us + lease_us,
        };
        open.users.insert((reader, user), lease);
        let opened = OpenedSnapshot {
            share: SnapshotUse {
                snapshot,
                reader,
                user,
            },
            at: open.at,
            lease_us,
        };
        let reply = Reply::Snapshot(SnapshotReply::Opened(opened));
        self.answer(asker, Position(0), None, reply, output);
    }

    /// Handles a core's report that it does not take part, or not any more. The opening fails, or
    /// the snapshot ends.
    pub(super) fn on_cut_refused(
        &mut self,
        now: ClockReading,
        snapshot: SnapshotId,
        reason: SnapshotFailure,
        output: &mut CoreOutput,
    ) {
        let opening = self.openings.current.as_ref();
        if opening.is_some_and(|opening| opening.snapshot == snapshot) {
            self.void_opening(now, reason, output);
        } else if let Some(open) = self.openings.open.get_mut(&snapshot) {
            open.users.clear();
            self.end_unread(output);
        }
    }

    /// Ends the opening without a snapshot. Its statements wait for the next one, unless they have
    /// waited for too many.
    fn void_opening(
        &mut self,
        now: ClockReading,
        reason: SnapshotFailure,
        output: &mut CoreOutput,
    ) {
        let Some(opening) = self.openings.current.take() else {
            return;
        };
        for core in &opening.cores {
            let snapshot = opening.snapshot;
            send(*core, SnapshotMessage::End { snapshot }, output);
        }
        for mut statement in opening.statements {
            statement.attempts += 1;
            if statement.attempts < ATTEMPTS_MAX {
                self.openings.waiting.push(statement);
            } else {
                self.refuse(statement.asker, Refusal::Snapshot(reason), output);
            }
        }
        // Two openers that met each other do not meet again at once.
        let core = self.identity.core;
        let own_us = u64::from(core.server.0 % 8) * 1_700 + u64::from(core.core % 8) * 900;
        let pause_us = PAUSES_PER_HOLD * opening.hold_us + own_us;
        self.openings.not_before_us = now.monotonic_us + pause_us;
    }

    /// Ends openings and snapshots of tables whose epochs have changed (R39). The tables' cores do
    /// the same.
    pub(crate) fn end_openings_of(
        &mut self,
        now: ClockReading,
        tables: &BTreeSet<TableId>,
        output: &mut CoreOutput,
    ) {
        let opening = self.openings.current.as_ref();
        if opening.is_some_and(|it| it.tables.keys().any(|table| tables.contains(table))) {
            self.void_opening(now, SnapshotFailure::ClusterChanged, output);
        }
        if planted::is(Bug::SnapshotSurvivesEpoch) {
            return;
        }
        for open in self.openings.open.values_mut() {
            if !open.tables.is_disjoint(tables) {
                open.users.clear();
            }
        }
        self.end_unread(output);
    }

    /// Drops the statements of a client whose connection has ended. Its snapshots end soon after.
    pub(crate) fn drop_snapshots_of(&mut self, now: ClockReading, client: ClientId) {
        let is_gone = |statement: &Statement| statement.asker.client == client;
        self.openings.waiting.retain(|it| !is_gone(it));
        if let Some(opening) = &mut self.openings.current {
            opening.statements.retain(|it| !is_gone(it));
        }
        let open = self.openings.open.values_mut();
        let users = open.flat_map(|open| open.users.values_mut());
        for user in users.filter(|user| user.client == client) {
            user.until_us = user.until_us.min(now.monotonic_us + GONE_US);
        }
    }

    /// Ends expired openings and snapshots, renews snapshots that clients read, and begins the next
    /// opening.
    pub(crate) fn review_openings(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let now_us = now.monotonic_us;
        let opening = self.openings.current.as_ref();
        if opening.is_some_and(|opening| opening.until_us <= now_us) {
            self.void_opening(now, SnapshotFailure::Busy, output);
        }
        for open in self.openings.open.values_mut() {
            open.users.retain(|_, user| user.until_us > now_us);
        }
        self.end_unread(output);
        let (interval_us, lease_us) = (self.keep_interval_us(), self.limits.snapshot_lease_us);
        for (snapshot, open) in &mut self.openings.open {
            if open.keep_us <= now_us {
                open.keep_us = now_us + interval_us;
                let snapshot = *snapshot;
                for core in &open.cores {
                    send(*core, SnapshotMessage::Keep { snapshot, lease_us }, output);
                }
            }
        }
        self.begin_opening(now, output);
    }

    /// Ends the snapshots that no statement reads any more.
    fn end_unread(&mut self, output: &mut CoreOutput) {
        let open = &mut self.openings.open;
        let unread = open.extract_if(.., |_, open| open.users.is_empty());
        for (snapshot, open) in unread {
            for core in open.cores {
                send(core, SnapshotMessage::End { snapshot }, output);
            }
        }
    }

    fn keep_interval_us(&self) -> u64 {
        self.limits.snapshot_lease_us / 4
    }
}
