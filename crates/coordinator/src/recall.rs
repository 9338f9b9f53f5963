//! Rebuilds a coordinator's state from the servers' configurations if the state is lost or is an
//! older copy.
//!
//! If a server has a later epoch than the coordinator, the coordinator's state is older than a
//! state that it has announced. While the coordinator recovers its state, it makes no decisions:
//! leases do not end, no server joins, no session is opened. The coordinator asks each server for
//! its configuration. The newest of these configurations becomes the state once every server that
//! it lists as up has reported. A table serves after a seal only once each of its remaining cores
//! has reported the seal. So the report of any of these cores prevents a return to a configuration
//! before the seal. Then the coordinator raises all numbers by a large step, so that none is
//! assigned twice: epochs, incarnations, servers, tables and sessions (R13 to R16).
//!
//! Facts that only the lost state had are lost: operators must repeat changes of copies that had
//! not begun.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::configuration::losses::names;
use protocol::configuration::{Configuration, Server, ServerState};
use protocol::identity::{ClockReading, CoreId, Epoch, Incarnation, ServerId, SessionId};
use protocol::message::{CoordinatorReply, CoordinatorRequest, FolderReport, RecallReport};

use super::{
    Coordinator, CoordinatorOutput, CoordinatorState, FolderTrust, LastReport, Outcome, Refused,
    ServerMember, core_id,
};

/// No epoch that was ever sent is this much later than those that the servers report.
const EPOCHS_SKIPPED: u64 = 1 << 32;
/// The numbers of sessions that are skipped after a recall.
const SESSIONS_SKIPPED: u64 = 1 << 32;
/// The numbers of tables that are skipped.
const TABLES_SKIPPED: u32 = 1 << 16;
/// The numbers of servers that are skipped.
const SERVERS_SKIPPED: u32 = 1000;
/// The numbers of roles that are skipped.
const ROLES_SKIPPED: u32 = 1 << 16;
/// The incarnations that are skipped for a server that has not reported its own.
pub(super) const INCARNATIONS_SKIPPED: u32 = 1000;

/// The reports and numbers that have arrived so far.
#[derive(Debug)]
pub(super) struct Recall {
    /// Why the state is not used as it is, for people.
    why: String,
    /// Servers that are not waited for, because an operator has given them up as lost.
    without: BTreeSet<ServerId>,
    /// The newest configuration that was reported, or that the state has.
    newest: Configuration,
    reports: BTreeMap<ServerId, ServerReport>,
    /// Cores that have reported, of servers whose processes serve.
    cores: BTreeSet<CoreId>,
    session_floor: SessionId,
}

/// The report of a server.
#[derive(Clone, Copy, Debug)]
struct ServerReport {
    folder: FolderReport,
    incarnation: Incarnation,
    /// Its process serves; otherwise it waits to join.
    runs: bool,
}

impl Coordinator {
    /// Begins to compare `state` with what the servers know. If the servers have a newer state, it
    /// replaces `state`. Servers in `without` are lost for good. A state of version 0 belongs to no
    /// cluster yet, and is always replaced.
    pub fn recall(&mut self, without: BTreeSet<ServerId>, output: &mut CoordinatorOutput) {
        let why = match self.state.version {
            0 => String::from("the coordinator has no state, and was started to recover it"),
            _ => String::from("the coordinator was started to recover its state"),
        };
        self.begin_recall(why, without, output);
    }

    /// Returns whether the state is being rebuilt, so that nothing in it is reliable.
    pub fn is_recalling(&self) -> bool {
        self.recall.is_some()
    }

    /// Returns the cluster; none if a coordinator without a state does not know it yet.
    pub fn cluster(&self) -> Option<u64> {
        let own = self.state.configuration.cluster;
        match &self.recall {
            Some(recall) if self.state.version == 0 => {
                Some(recall.newest.cluster).filter(|cluster| *cluster != 0)
            }
            _ => Some(own),
        }
    }

    fn begin_recall(
        &mut self,
        why: String,
        without: BTreeSet<ServerId>,
        output: &mut CoordinatorOutput,
    ) {
        output.notes.push(format!(
            "RECOVERING: {why}; it asks the servers for the configuration that they hold, and decides \
             nothing until then"
        ));
        let newest = match self.state.version {
            0 => Configuration::default(),
            _ => self.state.configuration.clone(),
        };
        self.recall = Some(Recall {
            why,
            without,
            newest,
            reports: BTreeMap::new(),
            cores: BTreeSet::new(),
            session_floor: self.state.session_floor,
        });
        self.waiting.clear();
    }

    /// Handles a server with a later epoch than the coordinator: the coordinator's state is an
    /// older copy.
    pub(super) fn notice_newer(
        &mut self,
        server: ServerId,
        epoch: Epoch,
        output: &mut CoordinatorOutput,
    ) {
        let own = self.state.configuration.epoch;
        if self.recall.is_none() && epoch > own {
            let why = format!(
                "the coordinator's state is an older copy: it is of epoch {}, server {} knows \
                 epoch {}",
                own.0, server.0, epoch.0
            );
            self.begin_recall(why, BTreeSet::new(), output);
        }
    }

    /// Returns the answer to a request while the state is being rebuilt.
    pub(super) fn recalling(
        &mut self,
        now: ClockReading,
        request: CoordinatorRequest,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        match request {
            CoordinatorRequest::Remember(memory) => self.remember(now, memory, output),
            CoordinatorRequest::Join {
                server: Some(_), ..
            }
            | CoordinatorRequest::Heartbeat { .. } => Ok(Outcome::Now(CoordinatorReply::Recall)),
            _ => Err(Refused {
                message: self.recall_text(),
                retry: true,
            }),
        }
    }

    /// Returns the reason why requests are refused, with the servers that the coordinator waits
    /// for.
    pub fn recall_text(&self) -> String {
        let Some(recall) = &self.recall else {
            return String::new();
        };
        let missing = recall.missing();
        let waits = match missing.is_empty() {
            true => String::from("it waits for its servers: start them"),
            false => format!(
                "it waits for servers {0}: start them, or, if they are lost for good, start the \
                 coordinator with --recover --without {1}",
                names(&missing),
                names(&missing).replace(' ', "")
            ),
        };
        format!("{}; {waits}", recall.why)
    }

    fn remember(
        &mut self,
        now: ClockReading,
        memory: RecallReport,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let recall = self.recall.as_mut().expect("callers have looked");
        let RecallReport {
            core,
            incarnation,
            runs,
            folder,
            session_floor,
            configuration,
        } = memory;
        if let Err(why) = configuration.check() {
            return Err(Refused::new(format!(
                "the configuration of {core} is invalid: {why}"
            )));
        }
        let cluster = recall.newest.cluster;
        if cluster != 0 && configuration.cluster != cluster {
            return Err(Refused::new(format!(
                "{core} is of cluster {:016x}, and cluster {cluster:016x} is being recovered",
                configuration.cluster
            )));
        }
        recall.session_floor = recall.session_floor.max(session_floor);
        let report = ServerReport {
            folder,
            incarnation,
            runs,
        };
        recall.reports.insert(core.server, report);
        recall.cores.insert(core);
        if configuration.epoch > recall.newest.epoch {
            recall.newest = configuration;
        }
        let text = self.recall_text();
        let recall = self.recall.as_ref().expect("it was there above");
        if recall.missing().is_empty() {
            self.end_recall(now, output);
            return Ok(self.done_now());
        }
        self.seals.notify(format!("RECOVERING: {text}"), output);
        Ok(self.done_now())
    }

    /// Ends the recall, once every needed server has reported: the newest reported configuration
    /// becomes the state.
    fn end_recall(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        let recall = self.recall.take().expect("callers have looked");
        let own = self.state.configuration.epoch;
        let newest = recall.newest.epoch;
        let epoch = Epoch(own.max(newest).0 + EPOCHS_SKIPPED);
        let mut configuration = recall.newest;
        configuration.epoch = epoch;
        for table in configuration.tables.iter_mut() {
            table.epoch = epoch;
        }
        Arc::make_mut(&mut configuration.roles).next += ROLES_SKIPPED;
        let mut members = Vec::new();
        for server in &mut configuration.servers {
            let report = recall.reports.get(&server.id);
            let runs = report
                .is_some_and(|report| report.runs && report.incarnation >= server.incarnation);
            server.state = match runs {
                true => ServerState::Up,
                false => ServerState::Down,
            };
            if let Some(report) = report {
                server.incarnation = server.incarnation.max(report.incarnation);
            }
            let folder = report.map(|report| report.folder).unwrap_or_default();
            members.push(ServerMember {
                server: server.id,
                disk: folder.disk,
                instance: folder.last,
                has_stopped: report.is_some_and(|report| !report.runs && report.folder.has_stopped),
                trust: FolderTrust::Newest,
                logs: Vec::new(),
            });
        }
        let servers = configuration.servers.iter().map(|server| server.id.0 + 1);
        let servers = servers
            .chain(recall.reports.keys().map(|id| id.0 + 1))
            .max();
        let tables = configuration
            .tables
            .last()
            .map_or(1, |table| table.id.0 + 1);
        let before = &self.state;
        let sessions = before.sessions_reserved.max(recall.session_floor.0);
        self.state = CoordinatorState {
            version: before.version,
            members,
            changes: Vec::new(),
            failures: before.failures.clone(),
            next_server: before.next_server.max(servers.unwrap_or(1)) + SERVERS_SKIPPED,
            next_table: before.next_table.max(tables) + TABLES_SKIPPED,
            sessions_reserved: sessions + SESSIONS_SKIPPED,
            session_floor: recall.session_floor,
            configuration,
        };
        self.before = self.state.configuration.clone();
        self.sums.follow(&self.state.configuration.tables);
        self.drops = super::RecentDrops::new(epoch);
        self.resizes = super::ResizeTracker::new(&self.state.configuration);
        self.sessions = super::Sessions::new(&self.state);
        self.seals.forget_reports();
        self.reports.clear();
        output.notes.push(format!(
            "RECOVERED: the configuration of epoch {} that the servers had is epoch {} now; changes of \
             copies that had not begun are to be asked for again",
            newest.0, epoch.0
        ));
        self.keep(output);
        self.expect_reports_from_all(now);
    }

    /// Gives all servers that are up the time of a whole lease to report.
    pub(super) fn expect_reports_from_all(&mut self, now: ClockReading) {
        let servers = self.state.configuration.servers.iter();
        for server in servers.filter(|server| server.state == ServerState::Up) {
            for core in 0..server.cores.len() {
                self.reports
                    .insert(core_id(server.id, core), LastReport::new(now, Epoch(0)));
            }
        }
        let servers = self.state.configuration.servers.iter();
        let down = servers.filter(|server| server.state == ServerState::Down);
        for id in down.map(|server| server.id).collect::<Vec<_>>() {
            self.watch_down(id, now);
        }
        self.sessions.start(now, &self.state);
    }
}

impl Recall {
    /// Returns servers that have to report before the newest configuration is known to be the
    /// newest.
    fn missing(&self) -> BTreeSet<ServerId> {
        let servers = self.newest.servers.iter();
        let needed = servers.filter(|server| server.state == ServerState::Up);
        let missing = needed.filter(|server| !self.has_reported(server));
        let missing = missing.map(|server| server.id);
        missing.filter(|id| !self.without.contains(id)).collect()
    }

    /// Returns whether a server has reported all that it knows: its cores may know different
    /// epochs.
    fn has_reported(&self, server: &Server) -> bool {
        let Some(report) = self.reports.get(&server.id) else {
            return false;
        };
        let mut cores = (0..server.cores.len()).map(|core| core_id(server.id, core));
        !report.runs || cores.all(|core| self.cores.contains(&core))
    }
}
