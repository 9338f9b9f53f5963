//! Replaces servers that are lost for good. The remaining servers seal and resolve the earlier
//! epochs of the tables of which a lost server held partitions. Then an epoch of each table serves
//! in which other servers hold these partitions (R4, R5, R15). Other tables are not affected (R44).
//!
//! By default a silent server is replaced as soon as its lease has ended, because its rows accept
//! no writes until it is replaced. A server that has reported its stop has time to return. While
//! epochs end, this time is only [`PATIENCE_US`], because the epochs cannot end without the server
//! and their tables accept no writes. A server that returns before the new epoch serves takes part
//! again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use protocol::configuration::losses::names;
use protocol::configuration::{PlacedTable, Sealing, ServerState};
use protocol::identity::{ClockReading, CoreId, Epoch, ServerId, TableId};
use protocol::message::{SealReport, SealStage};

use super::{Coordinator, CoordinatorOutput, Outcome, Refused, core_id};

/// How long the end of an epoch waits for a server that was stopped cleanly: as long as a restart.
const PATIENCE_US: u64 = 5_000_000;
/// Tables that a note names.
const NAMES_MAX: usize = 3;

/// The state of lost servers and of ending epochs. It starts empty with each process.
#[derive(Debug, Default)]
pub(super) struct SealTracker {
    /// When servers that are down are to be replaced.
    due_us: BTreeMap<ServerId, u64>,
    /// The same for those that were stopped cleanly and that the end of epochs waits for.
    waited_for_us: BTreeMap<ServerId, u64>,
    /// The reports of cores.
    reports: BTreeMap<CoreId, CoreSeals>,
    /// When the next step of a seal is due, as far as time alone leads to one. Unset when reports,
    /// the configuration or the servers that are watched have changed: seals are then looked
    /// through again. There can be one for each of ten thousand tables, and a step for each
    /// heartbeat.
    reviewed: Option<Option<u64>>,
    /// How often seals were looked through.
    #[cfg(test)]
    pub reviews: u64,
    /// The obstacle of which operators were last notified.
    last_notice: String,
}

/// The report of a core on all tables that it has sealed.
#[derive(Debug)]
struct CoreSeals {
    at_us: u64,
    /// The core's epoch: what it reports of a table counts if the table has not changed since.
    epoch: Epoch,
    seals: BTreeMap<TableId, SealReport>,
}

impl CoreSeals {
    /// Returns whether a later report states nothing else.
    fn is_repeated(&self, epoch: Epoch, seals: &[SealReport]) -> bool {
        let key = |it: &SealReport| (it.table, it.stage, it.vouched_ago_us.is_some());
        self.epoch == epoch && self.seals.values().map(key).eq(seals.iter().map(key))
    }
}

impl SealTracker {
    /// Begins to wait for a server that is down: it is replaced after this time.
    pub fn watch(&mut self, server: ServerId, now: ClockReading, after_us: u64) {
        let due_us = now.monotonic_us.saturating_add(after_us);
        self.due_us.insert(server, due_us);
        self.reviewed = None;
    }

    /// Records that the configuration has changed, so that the next review checks all seals again.
    pub fn note_change(&mut self) {
        self.reviewed = None;
    }

    /// Ends the wait for a server that has returned or was removed.
    pub fn unwatch(&mut self, server: ServerId) {
        self.due_us.remove(&server);
        self.waited_for_us.remove(&server);
        self.reviewed = None;
    }

    /// Forgets all reports.
    pub fn forget_reports(&mut self) {
        self.reports.clear();
        self.reviewed = None;
    }

    /// Records a core's reports about the tables that it has sealed, as of this epoch. A report
    /// states for how long the core has not vouched. A repeated report is as valid as the first,
    /// because the core does not vouch for a table that it has sealed.
    pub fn report(
        &mut self,
        core: CoreId,
        epoch: Epoch,
        seals: Vec<SealReport>,
        now: ClockReading,
    ) {
        if self
            .reports
            .get(&core)
            .is_some_and(|known| known.is_repeated(epoch, &seals))
        {
            return;
        }
        self.reviewed = None;
        let seals = seals.into_iter().map(|report| (report.table, report));
        let report = CoreSeals {
            at_us: now.monotonic_us,
            epoch,
            seals: seals.collect(),
        };
        self.reports.insert(core, report);
    }

    /// Returns a core's report about a table in its present epoch, and the time of the report; none
    /// if there is no such report.
    fn of(&self, core: CoreId, table: &PlacedTable) -> Option<(SealReport, u64)> {
        let report = self.reports.get(&core)?;
        let seal = report.seals.get(&table.id)?;
        (report.epoch >= table.epoch).then_some((*seal, report.at_us))
    }

    fn is_due(&self, server: ServerId, now: ClockReading) -> bool {
        let mut due_us = self.all_due_us().filter(|(id, _)| *id == server);
        due_us.any(|(_, due_us)| due_us <= now.monotonic_us)
    }

    /// Returns the servers that are to be replaced, each with the time for that. Some are named
    /// twice.
    fn all_due_us(&self) -> impl Iterator<Item = (ServerId, u64)> {
        let all = self.due_us.iter().chain(&self.waited_for_us);
        all.map(|(id, due_us)| (*id, *due_us))
    }

    /// Writes a line to the operator's log, unless the same line was the last.
    pub fn notify(&mut self, text: String, output: &mut CoordinatorOutput) {
        if self.last_notice != text {
            output.notes.push(text.clone());
            self.last_notice = text;
        }
    }
}

impl Coordinator {
    /// Replaces a server that is down, because an operator has reported that it will not return.
    pub(super) fn remove(
        &mut self,
        now: ClockReading,
        id: ServerId,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let server = self.state.configuration.server(id);
        let server = server.ok_or_else(|| super::members::unknown_server(id))?;
        if server.state == ServerState::Up {
            return Err(Refused::new(format!(
                "server {} is up: stop it first",
                id.0
            )));
        }
        if !self.holds(id) {
            return self.leave(id, output);
        }
        self.seals.watch(id, now, 0);
        Ok(self.done_now())
    }

    /// Lets a server take part again that has returned while the earlier epochs of its tables are
    /// ending.
    pub(super) fn take_part_again(&mut self, id: ServerId) {
        let tables = &mut self.state.configuration.tables;
        let removing = tables.unsettled().filter(|table| table.removes(id));
        let removing: Vec<TableId> = removing.map(|table| table.id).collect();
        for table in removing {
            let table = tables.get_mut(table).expect("it was just found");
            if let Some(sealing) = &mut table.sealing {
                sealing.removed.retain(|removed| *removed != id);
            }
        }
    }

    /// Replaces servers whose time has passed.
    pub(super) fn advance_seal(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        let reviewed = self.seals.reviewed.is_some_and(|due_us| {
            let is_due = |due_us| due_us <= now.monotonic_us;
            !due_us.is_some_and(is_due)
        });
        if reviewed {
            return;
        }
        #[cfg(test)]
        {
            self.seals.reviews += 1;
        }
        self.wait_for_stopped(now);
        let servers = self.state.configuration.servers.iter();
        let due =
            servers.filter(|it| it.state == ServerState::Down && self.seals.is_due(it.id, now));
        let due: BTreeSet<ServerId> = due.map(|server| server.id).collect();
        let mut begun = BTreeMap::new();
        let mut obstacle = None;
        let mut waits = BTreeSet::new();
        let tables = self.state.configuration.tables.iter();
        for table in tables.filter(|_| !due.is_empty()) {
            let lost = due
                .iter()
                .filter(|id| table.names(**id) && !table.removes(**id));
            let lost: BTreeSet<ServerId> = lost.copied().collect();
            if lost.is_empty() {
                continue;
            }
            let removed: BTreeSet<ServerId> = removed(table).union(&lost).copied().collect();
            match self.check_removal(table, &removed) {
                Ok(()) => {
                    begun.insert(table.id, removed);
                }
                Err(text) => {
                    obstacle.get_or_insert(text);
                    waits.extend(removed);
                }
            }
        }
        if !begun.is_empty() {
            self.begin_seals(&begun, output);
        }
        if let Some(text) = obstacle {
            self.seals.notify(text, output);
            let after_us = self.settings.lease_us;
            for id in waits {
                self.seals.waited_for_us.remove(&id);
                self.seals.watch(id, now, after_us);
            }
        }
        self.end_seals(now, output);
    }

    /// Notes which servers that were stopped cleanly the end of epochs waits for.
    fn wait_for_stopped(&mut self, now: ClockReading) {
        let is_resolved = |core: &CoreId, table: &PlacedTable| {
            let report = self.seals.of(*core, table);
            report.is_some_and(|(report, _)| report.stage == SealStage::Resolved)
        };
        let tables = self.state.configuration.tables.unsettled();
        let sealing = tables.filter(|table| table.sealing.is_some());
        let missing = sealing.flat_map(|table| {
            let remaining = remaining_cores(table).into_iter();
            remaining.filter(move |core| !is_resolved(core, table))
        });
        let missing: BTreeSet<ServerId> = missing
            .map(|core| core.server)
            .filter(|server| self.has_stopped(*server))
            .collect();
        // No shorter than for one that fell silent: where nothing is to be replaced before an
        // operator asks for it, epochs wait, too.
        let patience_us = self.settings.replace_after_us.max(PATIENCE_US);
        let due_us = now.monotonic_us.saturating_add(patience_us);
        let waited_for_us = &mut self.seals.waited_for_us;
        waited_for_us.retain(|server, _| missing.contains(server));
        for server in missing {
            waited_for_us.entry(server).or_insert(due_us);
        }
    }

    /// Ends the earlier epochs of a table, without removing further servers.
    pub fn begin_seal(&mut self, table: TableId, output: &mut CoordinatorOutput) {
        let removed = self.state.configuration.table(table).map(removed);
        self.begin_seals(
            &BTreeMap::from([(table, removed.unwrap_or_default())]),
            output,
        );
    }

    /// Ends the earlier epochs of these tables, and removes these servers from them.
    pub(super) fn begin_seals(
        &mut self,
        begun: &BTreeMap<TableId, BTreeSet<ServerId>>,
        output: &mut CoordinatorOutput,
    ) {
        let next = Epoch(self.state.configuration.epoch.0 + 1);
        for (id, removed) in begun {
            let leaving = self.leaving(*id);
            let tables = &mut self.state.configuration.tables;
            let Some(table) = tables.get_mut(*id) else {
                continue;
            };
            let since = table.sealing.as_ref().map_or(next, |sealing| sealing.since);
            table.sealing = Some(Sealing {
                since,
                removed: removed.iter().copied().collect(),
                leaving,
            });
        }
        let removed: BTreeSet<ServerId> = begun.values().flatten().copied().collect();
        let without = without(&removed);
        let tables = self.table_names(begun.keys());
        output
            .notes
            .push(format!("epochs before {} of {tables} end{without}", next.0));
        self.reconfigure(output);
    }

    /// Returns tables' names, for people.
    fn table_names<'a>(&self, tables: impl ExactSizeIterator<Item = &'a TableId>) -> String {
        let count = tables.len();
        if count > NAMES_MAX {
            return format!("{count} tables");
        }
        let tables = tables.filter_map(|id| self.state.configuration.table(*id));
        let names: Vec<&str> = tables.map(|table| &table.schema.name[..]).collect();
        match names.len() {
            1 => format!("table {}", names[0]),
            _ => format!("tables {}", names.join(", ")),
        }
    }

    /// Checks that a table can continue without these servers. If not, returns the reason.
    pub(super) fn check_removal(
        &self,
        table: &PlacedTable,
        removed: &BTreeSet<ServerId>,
    ) -> Result<(), String> {
        let configuration = &self.state.configuration;
        if let Some(why) = configuration.cannot_lose(table, removed) {
            return Err(why);
        }
        let mut servers = configuration.servers.iter();
        if !servers.any(|it| it.state == ServerState::Up && !removed.contains(&it.id)) {
            return Err("no server is up that could take what others held".into());
        }
        Ok(())
    }

    /// Lets tables serve of which all remaining servers have resolved everything, and for which no
    /// lease of a removed one runs.
    fn end_seals(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        let tables = self.state.configuration.tables.unsettled();
        let sealing = tables.filter(|table| table.sealing.is_some());
        let ended = sealing.filter(|table| {
            let ends_us = self.seal_ends_us(table);
            ends_us.is_some_and(|ends_us| ends_us <= now.monotonic_us)
        });
        let ended: BTreeMap<TableId, BTreeSet<ServerId>> =
            ended.map(|table| (table.id, removed(table))).collect();
        if ended.is_empty() {
            self.notify_stuck(output);
            return;
        }
        let epoch = Epoch(self.state.configuration.epoch.0 + 1);
        let mut replaced = BTreeSet::new();
        let shrunk = ended.iter().filter(|(_, removed)| !removed.is_empty());
        let shrunk: BTreeSet<TableId> = shrunk.map(|(id, _)| *id).collect();
        // The taker of a lost partition is chosen by what servers hold, not by what they are about
        // to hold.
        self.cancel_moves(|table| shrunk.contains(&table), output);
        for (id, removed) in &ended {
            let tables = &mut self.state.configuration.tables;
            let table = tables.get_mut(*id);
            table.expect("it is being sealed").sealing = None;
            let voided = self.to_be_voided(removed);
            self.void_places(*id, &voided, epoch, output);
            let lost: BTreeSet<ServerId> = removed.difference(&voided).copied().collect();
            self.replace(*id, &lost, epoch, output);
            self.refill_elsewhere(*id, epoch, output);
            replaced.extend(lost);
        }
        let names = self.table_names(ended.keys());
        self.hand_over(|table| ended.contains_key(&table), output);
        self.change_copies(|table| ended.contains_key(&table), epoch, output);
        let still_holds = |id: &ServerId| self.holds(*id);
        let gone: Vec<ServerId> = replaced
            .iter()
            .copied()
            .filter(|id| !still_holds(id))
            .collect();
        for id in gone {
            self.seals.unwatch(id);
            self.moves.note_lost(id);
        }
        self.note_voided(now);
        output.notes.push(format!(
            "epoch {} of {names} serves{}",
            epoch.0,
            without(&replaced)
        ));
        self.reconfigure(output);
    }

    /// Returns the time from which a table's new epoch may serve, together with the tables that
    /// change in the same epoch.
    fn seal_ends_us(&self, table: &PlacedTable) -> Option<u64> {
        let mut ends_us = 0;
        for table in self.changed_with(table.id) {
            ends_us = ends_us.max(self.own_seal_ends_us(table)?);
        }
        Some(ends_us)
    }

    /// Returns the time from which a table's new epoch may serve: after the last lease that a
    /// removed server can have from the servers that vouched for it. None while a server has not
    /// resolved everything.
    fn own_seal_ends_us(&self, table: &PlacedTable) -> Option<u64> {
        table.sealing.as_ref()?;
        let after_us = self.settings.lease_us + self.settings.drift_us;
        let mut free_us = 0;
        for core in remaining_cores(table) {
            let (report, at_us) = self.seals.of(core, table)?;
            if report.stage != SealStage::Resolved {
                return None;
            }
            if let Some(ago_us) = report.vouched_ago_us {
                free_us = free_us.max(at_us.saturating_sub(ago_us) + after_us);
            }
        }
        self.others_have_resolved(table).then_some(free_us)
    }

    /// Returns whether the cores that hold only other tables have resolved the transactions that
    /// touch this one (R44): they have its epoch, and report nothing that is open. Until then the
    /// holders must remember the outcomes.
    fn others_have_resolved(&self, table: &PlacedTable) -> bool {
        let holders = table.holders();
        let servers = self.state.configuration.servers.iter();
        let up = servers.filter(|server| server.state == ServerState::Up);
        let mut cores = up.flat_map(|server| {
            let numbers = 0..server.cores.len();
            numbers.map(|core| core_id(server.id, core))
        });
        let has_resolved = |report: &CoreSeals| {
            let seal = report.seals.get(&table.id);
            let is_open = seal.is_some_and(|seal| seal.stage != SealStage::Resolved);
            report.epoch >= table.epoch && !is_open
        };
        let holds_any = |core: CoreId| {
            let mut tables = self.state.configuration.tables.iter();
            tables.any(|table| table.holders().contains(&core))
        };
        cores.all(|core| {
            let report = self.seals.reports.get(&core);
            holders.contains(&core) || report.is_some_and(has_resolved) || !holds_any(core)
        })
    }

    fn notify_stuck(&mut self, output: &mut CoordinatorOutput) {
        let mut seals = self.seals.reports.values().flat_map(|it| it.seals.values());
        let stuck = seals.find(|report| report.stage == SealStage::Stuck);
        let table = stuck.and_then(|report| self.state.configuration.table(report.table));
        if let Some(table) = table.filter(|table| table.sealing.is_some()) {
            let text = format!(
                "what became of some operations is known to lost servers alone: table {} stands \
                 still until one of {} is back",
                table.schema.name,
                names(&removed(table))
            );
            self.seals.notify(text, output);
        }
    }

    /// Returns the time of the next step of a seal.
    pub(super) fn seal_deadline_us(&mut self) -> Option<u64> {
        let reviewed = self.seals.reviewed;
        let due_us = reviewed.unwrap_or_else(|| self.next_seal_due_us());
        self.seals.reviewed = Some(due_us);
        due_us
    }

    fn next_seal_due_us(&self) -> Option<u64> {
        let tables = &self.state.configuration.tables;
        let is_waited_for = |id: ServerId| {
            if !self.holds(id) {
                return false;
            }
            let mut tables = tables.iter();
            tables.any(|table| table.names(id) && !table.removes(id))
        };
        let due = self.seals.all_due_us();
        let due = due.filter(|(id, due_us)| *due_us != u64::MAX && is_waited_for(*id));
        let due = due.map(|(_, due_us)| due_us);
        let unsettled = tables.unsettled();
        let ends = unsettled.filter_map(|table| self.seal_ends_us(table));
        due.chain(ends).min()
    }
}

/// Returns the servers that are being removed from a table.
pub(super) fn removed(table: &PlacedTable) -> BTreeSet<ServerId> {
    let sealing = table.sealing.iter();
    sealing
        .flat_map(|sealing| sealing.removed.iter().copied())
        .collect()
}

/// Returns the cores of a table, except those of removed servers.
pub(super) fn remaining_cores(table: &PlacedTable) -> BTreeSet<CoreId> {
    let mut cores = table.holders();
    cores.retain(|core| !table.removes(core.server));
    cores
}

fn without(removed: &BTreeSet<ServerId>) -> String {
    match removed.is_empty() {
        true => String::new(),
        false => format!(" without server {}", names(removed)),
    }
}
