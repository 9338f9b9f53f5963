//! Sends the session machine's requests to the coordinator. The machine fetches a configuration
//! when it learns that its own is old. It opens a session before the first operation, and again
//! when the current session has reached its maximum age.
//!
//! Requests and answers may be lost, and may arrive twice. Only operations that need the
//! coordinator's answer wait for it.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::configuration::{Configuration, routes};
use protocol::identity::{Epoch, PartitionId, SessionId, TableId};
use protocol::message::CoordinatorRequest;

use super::{
    LinkState, RequestPhase, SessionFailure, SessionMachine, SessionOperation, SessionOutput,
    Ticket, Timer,
};

/// A request for a configuration.
#[derive(Debug)]
pub(super) struct Fetch {
    /// The epoch that the configuration must have at least.
    wanted: Epoch,
    asks: u32,
}

impl SessionMachine {
    pub(super) fn on_configuration(
        &mut self,
        now_us: u64,
        configuration: Arc<Configuration>,
        output: &mut SessionOutput,
    ) {
        let epoch = configuration.epoch;
        let newer = self
            .configuration
            .as_ref()
            .is_none_or(|known| known.epoch < epoch);
        self.on_fetched(epoch);
        if !newer {
            return;
        }
        let known = self.configuration.as_deref();
        super::routing::follow_lost(&mut self.lost, &configuration, known);
        if let Some(before) = self.configuration.replace(configuration) {
            self.compare_copies(&before);
            self.end_reads_of_gone(output);
            let changed = self.changed_since(&before);
            self.all_moments_again(now_us, &changed, output);
            self.redirect_all_again(now_us, &changed, output);
        }
        self.follow_partitions(now_us, output);
        self.place_again(now_us, output, |place| {
            matches!(place, RequestPhase::Waiting | RequestPhase::Queued(_))
        });
        if self.fetch.is_none() && self.waits_for_replacement() {
            self.fetch = Some(Fetch {
                wanted: epoch,
                asks: 0,
            });
            self.ask_fetch(now_us, output);
        }
    }

    /// Returns whether a request waits for a core that this configuration still names and that
    /// serves nothing. A lost server is replaced in several epochs, and the coordinator announces
    /// an epoch only to a client that has asked for it.
    fn waits_for_replacement(&self) -> bool {
        self.requests.values().any(|pending| {
            let core = match pending.place {
                RequestPhase::Queued(core) => core,
                RequestPhase::Flying => {
                    let newest = pending.flying.last().map(|newest| &self.attempts[newest]);
                    newest.expect("a request in flight has an attempt").core
                }
                RequestPhase::Waiting => return pending.lost_us.is_some(),
                RequestPhase::Pausing | RequestPhase::Parted => return false,
            };
            let link = &self.links[&core];
            let is_broken = link.state != LinkState::Up && link.failures > 0;
            is_broken || link.useless_since_us.is_some()
        })
    }

    /// Returns the tables that have changed since an earlier configuration, or are gone.
    fn changed_since(&self, before: &Configuration) -> BTreeSet<TableId> {
        let now = self.configuration.as_ref().expect("callers have set it");
        let differing = now.tables.differing(&before.tables);
        let changed = differing.filter_map(|(table, known)| {
            let known = known?;
            let is_same = table.is_some_and(|table| table.epoch == known.epoch);
            (!is_same).then_some(known.id)
        });
        changed.collect()
    }

    /// Returns whether a request reads one of these tables.
    pub(super) fn reads_any(&self, ticket: Ticket, tables: &BTreeSet<TableId>) -> bool {
        let Some(pending) = self.requests.get(&ticket) else {
            return false;
        };
        match &pending.operation {
            SessionOperation::Read(read) => tables.contains(&read.partition.table),
            SessionOperation::Moment(reads) => {
                let mut reads = reads.iter();
                reads.any(|read| tables.contains(&read.partition.table))
            }
            SessionOperation::Execute { .. }
            | SessionOperation::Transact { .. }
            | SessionOperation::Checksum(_)
            | SessionOperation::Statistics(_)
            | SessionOperation::Status(_)
            | SessionOperation::OpenSnapshot(_)
            | SessionOperation::KeepSnapshot(_)
            | SessionOperation::CloseSnapshot(_)
            | SessionOperation::Release(_) => false,
        }
    }

    /// Finds copies whose numbers have another meaning now: another copy can have the number of a
    /// dropped one, and with it other rows in the range.
    fn compare_copies(&mut self, before: &Configuration) {
        let now = self.configuration.as_ref().expect("callers have set it");
        for (table, known) in now.tables.differing(&before.tables) {
            let Some((table, known)) = table.zip(known) else {
                continue;
            };
            let numbers = table.layout.replexes.len().max(known.layout.replexes.len());
            for number in 0..u8::try_from(numbers).expect("a table has at most 63 replexes") {
                if !routes::is_same_copy(known, table, number) {
                    self.copies_since.insert((table.id, number), now.epoch);
                }
            }
        }
        self.copies_since
            .retain(|(table, _), _| now.table(*table).is_some());
    }

    /// Returns the partition of a read whose copy was chosen from an older configuration, in which
    /// the copy's number meant another copy, or the table had other columns (R50).
    pub(super) fn chosen_before(&self, ticket: Ticket) -> Option<PartitionId> {
        let pending = &self.requests[&ticket];
        if pending.part_of.is_some() {
            return None;
        }
        let is_stale = |partition: PartitionId, chosen: Epoch| {
            let since = self.copies_since.get(&(partition.table, partition.replex));
            let is_other_copy = since.is_some_and(|since| chosen < *since);
            (is_other_copy || self.has_other_columns(partition.table, chosen)).then_some(partition)
        };
        match &pending.operation {
            SessionOperation::Read(read) => is_stale(read.partition, read.epoch),
            SessionOperation::Checksum(checksum) => is_stale(checksum.partition, checksum.epoch),
            SessionOperation::Statistics(read) => is_stale(read.partition, read.epoch),
            SessionOperation::Moment(reads) => reads
                .iter()
                .find_map(|read| is_stale(read.partition, read.epoch)),
            SessionOperation::Transact { .. }
            | SessionOperation::Execute { .. }
            | SessionOperation::Status(_)
            | SessionOperation::OpenSnapshot(_)
            | SessionOperation::KeepSnapshot(_)
            | SessionOperation::CloseSnapshot(_)
            | SessionOperation::Release(_) => None,
        }
    }

    /// Returns whether a table has other columns than in an earlier epoch.
    fn has_other_columns(&self, table: TableId, planned: Epoch) -> bool {
        let configuration = self.configuration.as_ref();
        let table = configuration.and_then(|known| known.table(table));
        table.is_some_and(|table| planned < table.columns_since)
    }

    /// Returns a table of a write that has other columns than the caller knew. A write that may
    /// have taken effect is not planned again: its core knows whether it has, and if not, the row
    /// that it names means the same as before (R50).
    pub(super) fn planned_before(&self, ticket: Ticket) -> Option<TableId> {
        let pending = &self.requests[&ticket];
        if pending.uncertain() {
            return None;
        }
        match &pending.operation {
            SessionOperation::Execute { table, planned, .. } => {
                self.has_other_columns(*table, *planned).then_some(*table)
            }
            SessionOperation::Transact {
                changes,
                checks,
                ranges,
                planned,
            } => {
                let mut tables = super::routing::tables_of(changes, checks, ranges).into_iter();
                tables.find(|table| self.has_other_columns(*table, *planned))
            }
            _ => None,
        }
    }

    /// Reads by copies that are gone end.
    fn end_reads_of_gone(&mut self, output: &mut SessionOutput) {
        let tickets = self.requests.keys().copied();
        let gone = tickets.filter_map(|ticket| Some((ticket, self.chosen_before(ticket)?)));
        for (ticket, partition) in gone.collect::<Vec<_>>() {
            let partition = Some(partition);
            self.fail(ticket, SessionFailure::PlaceGone { partition }, output);
        }
    }

    /// Handles the epoch in the coordinator's answer: the machine waits no longer for
    /// configurations up to it.
    pub(super) fn on_fetched(&mut self, epoch: Epoch) {
        if self
            .fetch
            .as_ref()
            .is_some_and(|fetch| fetch.wanted <= epoch)
        {
            self.fetch = None;
            self.timers.clear(Timer::Fetch);
        }
    }

    pub(super) fn on_session(
        &mut self,
        now_us: u64,
        session: SessionId,
        life_us: u64,
        output: &mut SessionOutput,
    ) {
        if !self.numbering.begin(session) {
            return;
        }
        self.session_ends_us = now_us.saturating_add(life_us);
        self.session_asks = None;
        self.timers.clear(Timer::Session);
        self.all_ready();
        self.place_again(now_us, output, |place| place == RequestPhase::Waiting);
    }

    /// Queues an operation that needs a name while there is no session. Returns whether it was
    /// queued.
    pub(super) fn waits_for_session(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        output: &mut SessionOutput,
    ) -> bool {
        if !self.requests[&ticket].lacks_name() {
            return false;
        }
        let current = self.numbering.current().is_some();
        if !current || now_us >= self.session_ends_us {
            self.ask_session(now_us, output);
        }
        if !current {
            self.move_to(ticket, RequestPhase::Waiting, None);
        }
        !current
    }

    /// Returns the epoch of the configuration that is known; 0 if none is.
    pub(super) fn known_epoch(&self) -> Epoch {
        let configuration = self.configuration.as_ref();
        configuration.map_or(Epoch(0), |it| it.epoch)
    }

    /// Requests a newer configuration than the known one, if there is one.
    pub(super) fn fetch_newer(&mut self, now_us: u64, output: &mut SessionOutput) {
        self.fetch(now_us, self.known_epoch(), output);
    }

    /// Requests a configuration of this epoch or a newer one: at once if the epoch is known to
    /// exist, otherwise no more often than four times in `SessionLimits::ask_us`.
    pub(super) fn fetch(&mut self, now_us: u64, wanted: Epoch, output: &mut SessionOutput) {
        let is_news = match &mut self.fetch {
            Some(fetch) if fetch.wanted >= wanted => return,
            Some(fetch) => {
                fetch.wanted = wanted;
                true
            }
            None => {
                self.fetch = Some(Fetch { wanted, asks: 0 });
                wanted > self.known_epoch()
            }
        };
        // An answer that is on its way may be from before this epoch. Each epoch is news once.
        if is_news || self.fetch_not_before_us <= now_us {
            self.ask_fetch(now_us, output);
        } else {
            self.timers.set(self.fetch_not_before_us, Timer::Fetch);
        }
    }

    pub(super) fn ask_fetch(&mut self, now_us: u64, output: &mut SessionOutput) {
        let known = self.known_epoch();
        let Some(fetch) = &mut self.fetch else {
            return;
        };
        let pause_us = self.limits.ask_us << fetch.asks.min(3);
        fetch.asks += 1;
        self.fetch_not_before_us = now_us + self.limits.ask_us / 4;
        self.timers.set(now_us + pause_us, Timer::Fetch);
        output.asks.push(CoordinatorRequest::Fetch { known });
    }

    fn ask_session(&mut self, now_us: u64, output: &mut SessionOutput) {
        if self.session_asks.is_none() {
            self.session_asks = Some(0);
            self.ask_session_again(now_us, output);
        }
    }

    pub(super) fn ask_session_again(&mut self, now_us: u64, output: &mut SessionOutput) {
        let asks = self.session_asks.unwrap_or(0);
        self.session_asks = Some(asks + 1);
        let pause_us = self.limits.ask_us << asks.min(3);
        self.timers.set(now_us + pause_us, Timer::Session);
        output.asks.push(CoordinatorRequest::OpenSession);
    }
}
