//! The coordinator as a deterministic state machine: it owns the configuration.
//!
//! It admits servers and grants them leases, detects servers that stop renewing their leases,
//! places the partitions of new tables, and numbers client sessions. Every change of the
//! configuration is a new epoch and a new state, which is stored before any reply shows it.
//! Invariants: Epochs and the versions of states rise. No two servers, tables or sessions ever have
//! the same number. When a table's placement is made, it is proven to tolerate the failures that
//! the table requires. If a table tolerates fewer failures later, the coordinator reports this.
//!
//! The crate does not decide where the state is stored, or which of several coordinators leads.
//! This crate must not know about sockets, files, threads, clocks or chance.
#![no_std]

extern crate alloc;

mod alterations;
mod announcements;
mod contract;
mod copies;
mod drops;
mod folders;
mod members;
mod moves;
mod partitions;
mod ranges;
mod recall;
mod renewal;
mod replacement;
mod resizes;
mod roles;
mod room;
mod sealing;
mod sessions;
mod sums;
mod tables;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, CoreId, Epoch, Position, ServerId};
use protocol::message::{CoordinatorReply, CoordinatorRequest, Room};
use protocol::state::{
    CoordinatorState, FolderTrust, RequestedChange, ServerMember, WaitingChange,
};

pub use contract::*;

use announcements::Listeners;
use drops::RecentDrops;
use members::{CoreHeartbeat, ServerJoin};
use moves::MoveTracker;
use recall::Recall;
use resizes::ResizeTracker;
use sealing::SealTracker;
use sessions::Sessions;
use sums::TableSums;

/// The machine. Its durable part is [`CoordinatorState`]; the rest begins empty with each process.
#[derive(Debug)]
pub struct Coordinator {
    settings: CoordinatorSettings,
    state: CoordinatorState,
    /// The configuration as its last epoch began.
    before: Configuration,
    sums: TableSums,
    drops: RecentDrops,
    /// Cores of the servers that are up, and each one's last report.
    reports: BTreeMap<CoreId, LastReport>,
    listeners: Listeners,
    /// Cores whose disks have no room for all writes.
    rooms: BTreeMap<CoreId, Room>,
    /// Ranges of thin indexes that should be split or may be merged.
    ranges: ranges::RangeTracker,
    sessions: Sessions,
    seals: SealTracker,
    fills: copies::FillReports,
    moves: MoveTracker,
    resizes: ResizeTracker,
    /// Set while the state is rebuilt from what the servers know.
    recall: Option<Recall>,
    waiting: Vec<Waiting>,
    /// The deadline of the last output.
    deadline_us: Option<u64>,
}

/// A core's last report.
#[derive(Clone, Copy, Debug)]
struct LastReport {
    at_us: u64,
    /// The table's epoch.
    epoch: Epoch,
    /// The position up to which the core's log is durable; 0 until the core reports one.
    durable: Position,
    /// Whether `at_us` was put off since because the coordinator slept.
    forgiven: bool,
}

impl LastReport {
    fn new(now: ClockReading, epoch: Epoch) -> LastReport {
        LastReport {
            at_us: now.monotonic_us,
            epoch,
            durable: Position(0),
            forgiven: false,
        }
    }
}

/// A request whose answer waits until these cores know an epoch.
#[derive(Debug)]
struct Waiting {
    from: RequesterId,
    correlation: u64,
    reply: CoordinatorReply,
    epoch: Epoch,
    cores: BTreeSet<CoreId>,
    until_us: u64,
}

/// The answer to a request, and when it is sent.
enum Outcome {
    Now(CoordinatorReply),
    /// After these cores know the present epoch.
    WhenKnown(BTreeSet<CoreId>, CoordinatorReply),
}

/// The reason why a request is refused; becomes [`CoordinatorReply::Refused`].
struct Refused {
    message: String,
    retry: bool,
}

impl Refused {
    fn new(message: String) -> Refused {
        Refused {
            message,
            retry: false,
        }
    }
}

impl Coordinator {
    /// Returns a coordinator that continues with `state`. Call [`Coordinator::start`] next.
    pub fn new(state: CoordinatorState, settings: CoordinatorSettings) -> Coordinator {
        Coordinator {
            settings,
            sessions: Sessions::new(&state),
            before: state.configuration.clone(),
            sums: TableSums::new(&state.configuration.tables),
            drops: RecentDrops::new(state.configuration.epoch),
            resizes: ResizeTracker::new(&state.configuration),
            state,
            reports: BTreeMap::new(),
            listeners: Listeners::default(),
            rooms: BTreeMap::new(),
            ranges: ranges::RangeTracker::default(),
            seals: SealTracker::default(),
            fills: copies::FillReports::default(),
            moves: MoveTracker::default(),
            recall: None,
            waiting: Vec::new(),
            deadline_us: None,
        }
    }

    /// Starts the coordinator. Keeps the state if it was never kept. Servers that are up get a
    /// whole lease in which to report, because the previous coordinator may have just renewed their
    /// leases.
    pub fn start(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        assert!(self.reports.is_empty(), "a coordinator starts once");
        self.expect_reports_from_all(now);
        if self.state.version == 0 && self.recall.is_none() {
            self.keep(output);
        }
        self.set_deadline(output);
    }

    /// Takes one input.
    pub fn step(
        &mut self,
        now: ClockReading,
        input: CoordinatorInput,
        output: &mut CoordinatorOutput,
    ) {
        self.forgive_sleep(now);
        match input {
            CoordinatorInput::Request {
                from,
                correlation,
                request,
            } => self.request(now, (from, correlation), request, output),
            CoordinatorInput::Gone { from } => {
                self.waiting.retain(|waiting| waiting.from != from);
                self.listeners.gone(from);
            }
            CoordinatorInput::Tick => {}
        }
        if self.recall.is_some() {
            // Nothing is decided on a state that may be an older copy.
            self.deadline_us = None;
            return;
        }
        self.expire_leases(now, output);
        self.advance_seal(now, output);
        self.advance_moves(now, output);
        self.advance_resizes(output);
        if self.sessions.advance(now, &self.settings, &mut self.state) {
            self.keep(output);
        }
        self.answer_waiting(now, output);
        self.announce(output);
        self.set_deadline(output);
    }

    /// Returns the present configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.state.configuration
    }

    /// Returns the present state of the coordinator.
    pub fn state(&self) -> &CoordinatorState {
        &self.state
    }

    /// Returns the version of the state.
    pub fn version(&self) -> u64 {
        self.state.version
    }

    fn request(
        &mut self,
        now: ClockReading,
        (from, correlation): (RequesterId, u64),
        request: CoordinatorRequest,
        output: &mut CoordinatorOutput,
    ) {
        let beats = match &request {
            CoordinatorRequest::Heartbeat { core, .. } => Some(*core),
            _ => None,
        };
        let reply = match self.outcome(now, request, output) {
            Ok(Outcome::Now(reply)) => {
                if let Some(core) = beats {
                    // The answer itself names the newest epoch.
                    self.listeners
                        .note_heartbeat(core, from, self.state.configuration.epoch);
                }
                reply
            }
            Ok(Outcome::WhenKnown(cores, reply)) => {
                self.waiting.push(Waiting {
                    from,
                    correlation,
                    reply,
                    epoch: self.state.configuration.epoch,
                    cores,
                    until_us: now.monotonic_us + self.settings.wait_us_max,
                });
                return;
            }
            Err(Refused { message, retry }) => CoordinatorReply::Refused { message, retry },
        };
        if let CoordinatorReply::Unchanged { epoch } = reply {
            self.listeners.note_fetch(from, epoch);
        }
        output.replies.push(CoordinatorAnswer {
            to: from,
            correlation,
            after: self.state.version,
            reply,
        });
    }

    // tidy: long — a dispatching match over the requests.
    fn outcome(
        &mut self,
        now: ClockReading,
        request: CoordinatorRequest,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        self.compare_epochs(&request, output);
        if self.recall.is_some() {
            return self.recalling(now, request, output);
        }
        match request {
            CoordinatorRequest::Remember(_) => Ok(self.done_now()),
            CoordinatorRequest::Join {
                server,
                instance,
                folder,
                domain,
                cores,
            } => {
                let join = ServerJoin {
                    server,
                    instance,
                    folder,
                    domain,
                    cores,
                };
                self.join(now, join, output)
            }
            CoordinatorRequest::Heartbeat {
                core,
                incarnation,
                epoch,
                sent_us,
                durable,
                filled,
                fills,
                seals,
                room,
                ranges,
            } => {
                let beat = CoreHeartbeat {
                    core,
                    incarnation,
                    epoch,
                    sent_us,
                    durable,
                    filled,
                    fills,
                    seals,
                    room,
                    ranges,
                };
                self.heartbeat(now, beat, output)
            }
            CoordinatorRequest::Fetch { known } => Ok(self.fetch(known)),
            CoordinatorRequest::OpenSession => Ok(self.open_session(output)),
            CoordinatorRequest::CreateTable {
                schema,
                if_not_exists,
                sequences,
                owner,
            } => self.create_table((schema, sequences), owner, if_not_exists, output),
            CoordinatorRequest::ChangeRoles { change } => self.change_roles(&change, output),
            CoordinatorRequest::DropTable { name, if_exists } => {
                self.drop_table(&name, if_exists, output)
            }
            CoordinatorRequest::AddCopy { schema } => self.add_copy(schema, output),
            CoordinatorRequest::DropCopy {
                table,
                name,
                if_exists,
            } => self.drop_copy((&table, name), if_exists, output),
            CoordinatorRequest::ReplaceCopy { table, name, by } => {
                self.replace_copy(&table, name, by, output)
            }
            CoordinatorRequest::Renew { table, cells } => self.renew(&table, cells, output),
            CoordinatorRequest::SetPartitions { table, partitions } => {
                self.set_partitions(&table, partitions, output)
            }
            CoordinatorRequest::AlterTable { table, alterations } => {
                self.alter_table(&table, alterations, output)
            }
            CoordinatorRequest::Truncate { tables, cascade } => {
                self.truncate(&tables, cascade, output)
            }
            CoordinatorRequest::Progress => Ok(self.progress()),
            CoordinatorRequest::Leave { server } => self.leave(server, output),
            CoordinatorRequest::Stopped {
                server,
                incarnation,
                logs,
            } => self.stopped(now, (server, incarnation), &logs, output),
            CoordinatorRequest::Remove { server } => self.remove(now, server, output),
            CoordinatorRequest::AcceptFolder { server } => self.accept_folder(server, output),
            CoordinatorRequest::Drain { server } => self.drain(server, true, output),
            CoordinatorRequest::EndDrain { server } => self.drain(server, false, output),
        }
    }

    /// Compares the epoch in a request with the present one. A newer epoch proves that this
    /// coordinator's state is an older copy.
    fn compare_epochs(&mut self, request: &CoordinatorRequest, output: &mut CoordinatorOutput) {
        match request {
            CoordinatorRequest::Heartbeat { core, epoch, .. } => {
                self.notice_newer(core.server, *epoch, output);
            }
            CoordinatorRequest::Join {
                server: Some(server),
                folder,
                ..
            } => self.notice_newer(*server, folder.epoch, output),
            _ => {}
        }
    }

    fn fetch(&self, known: Epoch) -> Outcome {
        let configuration = &self.state.configuration;
        let epoch = configuration.epoch;
        Outcome::Now(if known >= epoch {
            CoordinatorReply::Unchanged { epoch }
        } else if let Some(changes) = self.drops.changes(configuration, known) {
            CoordinatorReply::Changes(changes)
        } else {
            CoordinatorReply::Configuration(configuration.clone())
        })
    }

    fn open_session(&mut self, output: &mut CoordinatorOutput) -> Outcome {
        let (session, reserved) = self.sessions.open(&mut self.state);
        if reserved {
            self.keep(output);
        }
        Outcome::Now(CoordinatorReply::Session {
            session,
            life_us: self.settings.session_life_us,
        })
    }

    /// Counts all reports as new if the coordinator was paused past its own deadline. Heartbeats
    /// then wait unread, and no server is to lose a lease because the coordinator slept. A core is
    /// forgiven once until its next report, so that a coordinator that is always late still notices
    /// which servers are gone.
    fn forgive_sleep(&mut self, now: ClockReading) {
        let slept = self
            .deadline_us
            .is_some_and(|deadline| deadline + self.settings.lease_us / 2 < now.monotonic_us);
        if slept {
            for report in self.reports.values_mut().filter(|report| !report.forgiven) {
                report.at_us = now.monotonic_us;
                report.forgiven = true;
            }
        }
    }

    /// Answers the requests that need not wait any longer: all awaited cores know the epoch, their
    /// servers went down, or the time is over.
    fn answer_waiting(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        let reports = &self.reports;
        let due = self.waiting.extract_if(.., |waiting| {
            let epoch = waiting.epoch;
            waiting
                .cores
                .retain(|core| reports.get(core).is_some_and(|report| report.epoch < epoch));
            waiting.cores.is_empty() || waiting.until_us <= now.monotonic_us
        });
        for waiting in due {
            if let Some(core) = waiting.cores.first() {
                output.notes.push(format!(
                    "epoch {} was answered for before {core} knew it",
                    waiting.epoch.0
                ));
            }
            output.replies.push(CoordinatorAnswer {
                to: waiting.from,
                correlation: waiting.correlation,
                after: self.state.version,
                reply: waiting.reply,
            });
        }
    }

    /// Makes a changed configuration a new epoch, and keeps the state.
    fn reconfigure(&mut self, output: &mut CoordinatorOutput) {
        self.end_transfers();
        let configuration = &mut self.state.configuration;
        configuration.epoch.0 += 1;
        configuration.date_changes(&self.before);
        self.before.clone_from(configuration);
        self.sums.follow(&configuration.tables);
        self.seals.note_change();
        self.keep(output);
    }

    fn keep(&mut self, output: &mut CoordinatorOutput) {
        self.state.version += 1;
        self.note_logs();
        output.persist = Some(self.state.clone());
    }

    fn set_deadline(&mut self, output: &mut CoordinatorOutput) {
        let seal = self.seal_deadline_us();
        let leases = self.lease_ends().map(|(_, end_us)| end_us);
        let waits = self.waiting.iter().map(|waiting| waiting.until_us);
        let sessions = self.sessions.deadline_us(&self.settings);
        let moves = self.moves_deadline_us();
        let others = sessions.into_iter().chain(seal).chain(moves);
        self.deadline_us = leases.chain(waits).chain(others).min();
        output.deadline_us = self.deadline_us;
    }
}

fn core_id(server: ServerId, core: usize) -> CoreId {
    CoreId {
        server,
        core: u16::try_from(core).expect("a server has at most CORES_MAX cores"),
    }
}
