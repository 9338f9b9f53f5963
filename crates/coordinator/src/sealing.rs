//! Members that are lost for good are replaced: the epochs before are sealed and resolved by those
//! that remain, then an epoch serves in which others hold their partitions (R4, R5, R15).
//!
//! A server that fell silent is given up at once by default, for its rows take no writes until
//! then. A server that has reported its stop has time to come back. While epochs end that is only
//! [`PATIENCE_US`], for they do not end without it, and nothing is written until then. A server
//! that comes back before the new epoch serves takes part again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use protocol::configuration::losses::names;
use protocol::configuration::{Sealing, ServerState};
use protocol::identity::{ClockReading, CoreId, ServerId};
use protocol::message::{SealReport, SealStage};

use super::{Coordinator, CoordinatorOutput, Outcome, Refused};

/// So long does the end of epochs wait for a server that was stopped in order: as a restart takes.
const PATIENCE_US: u64 = 5_000_000;

/// The state of lost servers and of the end of epochs. Begins empty with each process.
#[derive(Debug, Default)]
pub(super) struct SealTracker {
    /// When servers that are down are to be replaced.
    due_us: BTreeMap<ServerId, u64>,
    /// The same for those that were stopped in order and that the end of epochs waits for.
    waited_for_us: BTreeMap<ServerId, u64>,
    /// The reports of cores in this epoch, and when they came.
    reports: BTreeMap<CoreId, (SealReport, u64)>,
    /// The obstacle of which operators were last notified.
    last_notice: String,
}

impl SealTracker {
    /// Watches a server that is down: it is replaced when this much time has passed.
    pub fn watch(&mut self, server: ServerId, now: ClockReading, after_us: u64) {
        let due_us = now.monotonic_us.saturating_add(after_us);
        self.due_us.insert(server, due_us);
    }

    /// Ends the watch of a server that is back, or removed.
    pub fn unwatch(&mut self, server: ServerId) {
        self.due_us.remove(&server);
        self.waited_for_us.remove(&server);
    }

    /// Forgets the reports of an earlier epoch, which no longer count.
    pub fn forget_reports(&mut self) {
        self.reports.clear();
    }

    pub fn report(&mut self, core: CoreId, report: SealReport, now: ClockReading) {
        self.reports.insert(core, (report, now.monotonic_us));
    }

    fn is_due(&self, server: ServerId, now: ClockReading) -> bool {
        let mut due_us = self.all_due_us().filter(|(id, _)| *id == server);
        due_us.any(|(_, due_us)| due_us <= now.monotonic_us)
    }

    /// When which servers are to be replaced; some are named twice.
    fn all_due_us(&self) -> impl Iterator<Item = (ServerId, u64)> {
        let all = self.due_us.iter().chain(&self.waited_for_us);
        all.map(|(id, due_us)| (*id, *due_us))
    }

    /// Notifies operators of a thing once.
    pub fn notify(&mut self, text: String, output: &mut CoordinatorOutput) {
        if self.last_notice != text {
            output.notes.push(text.clone());
            self.last_notice = text;
        }
    }
}

impl Coordinator {
    /// Gives up a server that is down: an operator knows that it will not come back.
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
        if !self.state.configuration.holds(id) {
            return self.leave(id, output);
        }
        self.seals.watch(id, now, 0);
        Ok(self.done_now())
    }

    /// Lets a server take part again that is back while the epochs before are being ended.
    pub(super) fn take_part_again(&mut self, id: ServerId) {
        if let Some(sealing) = &mut self.state.configuration.sealing {
            sealing.removed.retain(|removed| *removed != id);
        }
    }

    /// Replaces servers that are due.
    pub(super) fn advance_seal(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        self.wait_for_stopped(now);
        let mut removed = self.removed();
        let known = removed.len();
        let servers = self.state.configuration.servers.iter();
        let lost = servers.filter(|server| {
            server.state == ServerState::Down
                && self.seals.is_due(server.id, now)
                && self.state.configuration.holds(server.id)
        });
        removed.extend(lost.map(|server| server.id));
        if removed.len() > known {
            match self.check_removal(&removed) {
                Ok(()) => self.begin_seal(&removed, output),
                Err(text) => {
                    self.seals.notify(text, output);
                    let after_us = self.settings.lease_us;
                    for id in removed {
                        self.seals.waited_for_us.remove(&id);
                        self.seals.watch(id, now, after_us);
                    }
                }
            }
        }
        self.end_seal(now, output);
    }

    /// Notes which servers that were stopped in order the end of epochs waits for.
    fn wait_for_stopped(&mut self, now: ClockReading) {
        let configuration = &self.state.configuration;
        let is_resolved = |core: &CoreId| {
            let report = self.seals.reports.get(core);
            report.is_some_and(|(report, _)| report.stage == SealStage::Resolved)
        };
        let remaining = match configuration.sealing {
            Some(_) => self.remaining_cores(),
            None => BTreeSet::new(),
        };
        let missing = remaining.iter().filter(|core| !is_resolved(core));
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

    /// Ends the epochs before without these servers.
    pub fn begin_seal(&mut self, removed: &BTreeSet<ServerId>, output: &mut CoordinatorOutput) {
        let next = protocol::identity::Epoch(self.state.configuration.epoch.0 + 1);
        let sealing = self.state.configuration.sealing.as_ref();
        let since = sealing.map_or(next, |sealing| sealing.since);
        self.state.configuration.sealing = Some(Sealing {
            since,
            removed: removed.iter().copied().collect(),
            leaving: self.leaving(),
        });
        output
            .notes
            .push(format!("epochs before {} end{}", since.0, without(removed)));
        self.reconfigure(output);
    }

    pub(super) fn removed(&self) -> BTreeSet<ServerId> {
        let sealing = self.state.configuration.sealing.iter();
        sealing
            .flat_map(|sealing| sealing.removed.iter().copied())
            .collect()
    }

    /// Checks that the cluster can continue without these servers; if not, returns the reason.
    pub(super) fn check_removal(&self, removed: &BTreeSet<ServerId>) -> Result<(), String> {
        let configuration = &self.state.configuration;
        if let Some(why) = configuration.cannot_lose(removed) {
            return Err(why);
        }
        let mut servers = configuration.servers.iter();
        if !servers.any(|it| it.state == ServerState::Up && !removed.contains(&it.id)) {
            return Err("no server is up that could take what others held".into());
        }
        Ok(())
    }

    /// Serves, once all remaining servers have resolved everything and no lease of a removed one
    /// runs.
    fn end_seal(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        let Some(free_us) = self.seal_ends_us() else {
            self.notify_stuck(output);
            return;
        };
        if now.monotonic_us < free_us {
            return;
        }
        let removed = self.removed();
        self.state.configuration.sealing = None;
        let epoch = protocol::identity::Epoch(self.state.configuration.epoch.0 + 1);
        if !removed.is_empty() {
            // The taker of a lost partition is chosen by what servers hold, not by what they are
            // about to hold.
            self.cancel_moves(|_| true, output);
        }
        let voided = self.to_be_voided(&removed);
        self.void_places(&voided, epoch, output);
        let replaced: BTreeSet<ServerId> = removed.difference(&voided).copied().collect();
        self.replace(&replaced, epoch, output);
        self.hand_over(output);
        self.change_copies(epoch, output);
        for id in &replaced {
            self.seals.unwatch(*id);
            self.moves.note_lost(*id);
        }
        self.note_voided(now, &voided);
        output
            .notes
            .push(format!("epoch {} serves{}", epoch.0, without(&replaced)));
        self.reconfigure(output);
    }

    /// Returns the time from which the new epoch may serve: after the last lease that a removed
    /// server can have from the servers that vouched for it. None while a server has not resolved
    /// everything.
    pub(super) fn seal_ends_us(&self) -> Option<u64> {
        let configuration = &self.state.configuration;
        configuration.sealing.as_ref()?;
        let after_us = self.settings.lease_us + self.settings.drift_us;
        let mut free_us = 0;
        for core in self.remaining_cores() {
            let (report, at_us) = self.seals.reports.get(&core)?;
            if report.stage != SealStage::Resolved {
                return None;
            }
            if let Some(ago_us) = report.vouched_ago_us {
                free_us = free_us.max(at_us.saturating_sub(ago_us) + after_us);
            }
        }
        Some(free_us)
    }

    fn notify_stuck(&mut self, output: &mut CoordinatorOutput) {
        let mut reports = self.seals.reports.values();
        if reports.any(|(report, _)| report.stage == SealStage::Stuck) {
            let removed = self.removed();
            let text = format!(
                "what became of some operations is known to lost servers alone: tables stand \
                 still until one of {} is back",
                names(&removed)
            );
            self.seals.notify(text, output);
        }
    }

    /// Returns cores with partitions, but for those of removed servers.
    pub(super) fn remaining_cores(&self) -> BTreeSet<CoreId> {
        let configuration = &self.state.configuration;
        let tables = configuration.tables.iter();
        let places = tables.flat_map(|table| table.placement.iter().flatten());
        let cores = places.map(|place| place.core);
        cores
            .filter(|core| !configuration.is_removed(core.server))
            .collect()
    }

    /// Returns the time of the next step of a seal.
    pub(super) fn seal_deadline_us(&self) -> Option<u64> {
        let configuration = &self.state.configuration;
        let due = self.seals.all_due_us();
        let due = due.filter(|(id, _)| !configuration.is_removed(*id));
        let due = due.filter(|(id, _)| configuration.holds(*id));
        let due = due.map(|(_, due_us)| due_us);
        let due = due.filter(|due_us| *due_us != u64::MAX);
        due.chain(self.seal_ends_us()).min()
    }
}

fn without(removed: &BTreeSet<ServerId>) -> String {
    match removed.is_empty() {
        true => String::new(),
        false => format!(" without server {}", names(removed)),
    }
}
