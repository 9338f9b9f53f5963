//! The thread that speaks to etcd. Its coordinator registers, stands by, leads, and may lose its
//! leadership at any time.
//!
//! ```text
//!            seat taken              campaign won, state read
//!  absent ──────────────▶ stands by ──────────────────────────▶ leads
//!    ▲                        │                                   │
//!    └──── the lease is over, or may be; the role resigns ────────┘
//! ```
//! Losing the seat ends everything that hangs on it, here first and then in etcd. Nothing here
//! waits for longer than a few calls to etcd take.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use protocol::state::CoordinatorState;

use super::gateway::GatewayError;
use super::{
    CampaignOutcome, Command, CoordinatorLease, LEASE_S, LeaderRevisions, LoadError, Record,
    SaveOutcome, Shared, TermReport,
};
use crate::clock::Clock;
use crate::coordinator::keeper::KeeperEvent;
use crate::error::ServerError;
use crate::event_loop::LoopHandle;
use crate::journal::{self, JournalLevel};
use crate::random;

/// After this, a standby checks for a leader, and a failed request is tried again.
const LOOK_PAUSE_US: u64 = 200_000;
/// The interval at which a lease is renewed: several attempts fit into its time.
const RENEW_PAUSE_US: u64 = 800_000;
/// After etcd refused a state, the next one is not tried before this.
const REFUSED_PAUSE_US: u64 = 1_000_000;
/// Trouble that lasts is reported at most once in this time.
const NOTE_PAUSE_US: u64 = 5_000_000;

/// The coordinator's lease in etcd, and how long it is valid.
#[derive(Clone, Copy, Debug)]
struct HeldLease {
    seat: CoordinatorLease,
    renew_us: u64,
    /// Until when the lease holds for certain.
    until_us: u64,
}

/// The state of a leader.
#[derive(Debug)]
struct Leading {
    term: LeaderRevisions,
    /// The state was read, and the role leads from it.
    is_reported: bool,
    /// Why the role receives one more event.
    reason: String,
    /// The newest state that the role wants to be kept.
    pending: Option<Box<CoordinatorState>>,
    /// Before this, etcd is not asked to keep one.
    keep_from_us: u64,
}

/// A coordinator that leads or stands by in etcd.
pub(super) struct Candidate {
    record: Record,
    clock: Clock,
    shared: Arc<Shared>,
    reports: Sender<TermReport>,
    /// Woken after each report.
    wake: LoopHandle,
    seated: Option<HeldLease>,
    leading: Option<Leading>,
    leadership: u64,
    noted_us: Option<u64>,
}

/// The reason for an early end of a turn.
enum TermTrouble {
    /// etcd failed to execute a request.
    Etcd(GatewayError),
    /// The process must end.
    Fatal(ServerError),
}

impl From<GatewayError> for TermTrouble {
    fn from(error: GatewayError) -> Self {
        TermTrouble::Etcd(error)
    }
}

impl From<LoadError> for TermTrouble {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Gateway(error) => TermTrouble::Etcd(error),
            LoadError::Unusable(error) => TermTrouble::Fatal(error),
        }
    }
}

impl Candidate {
    pub fn new(
        record: Record,
        clock: Clock,
        shared: Arc<Shared>,
        reports: Sender<TermReport>,
        wake: LoopHandle,
    ) -> Candidate {
        Candidate {
            record,
            clock,
            shared,
            reports,
            wake,
            seated: None,
            leading: None,
            leadership: 0,
            noted_us: None,
        }
    }

    /// Runs until the role's side is dropped, or the process must end.
    pub fn run(mut self, commands: &Receiver<Command>) {
        loop {
            match self.turn() {
                Ok(()) => {}
                Err(TermTrouble::Etcd(error)) => self.note(&error),
                Err(TermTrouble::Fatal(error)) => {
                    self.vacate();
                    self.report(Err(error));
                    return;
                }
            }
            match commands.recv_timeout(self.pause()) {
                Ok(command) => {
                    self.take(command);
                    for command in commands.try_iter() {
                        self.take(command);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.vacate();
                    return;
                }
            }
        }
    }

    /// Does the work that is due.
    fn turn(&mut self) -> Result<(), TermTrouble> {
        self.keep_seat()?;
        let Some(seated) = self.seated else {
            return Ok(());
        };
        if self.leading.is_none() {
            self.stand_by(seated)?;
        }
        if self
            .leading
            .as_ref()
            .is_some_and(|leading| !leading.is_reported)
        {
            self.lead()?;
        }
        self.keep_state()
    }

    /// Takes a seat, or renews the one it has.
    fn keep_seat(&mut self) -> Result<(), TermTrouble> {
        let asked_us = self.clock.monotonic_us();
        let Some(seated) = self.seated else {
            let seat = self.record.enter(LEASE_S)?;
            self.seated = Some(HeldLease::new(seat, asked_us));
            return Ok(());
        };
        if asked_us >= seated.until_us {
            self.vacate();
            return Ok(());
        }
        if asked_us < seated.renew_us {
            return Ok(());
        }
        if !self.record.renew(seated.seat)? {
            self.vacate();
            return Ok(());
        }
        let renewed = HeldLease::new(seated.seat, asked_us);
        self.seated = Some(renewed);
        if self.leading.is_some() {
            self.set_leads_until(renewed.until_us);
        }
        let all = self.record.coordinators()?;
        let mut known = self.shared.known();
        let leader = known.leader.clone();
        known.standbys = all
            .into_iter()
            .filter(|it| Some(it) != leader.as_ref())
            .collect();
        Ok(())
    }

    /// Looks for a leader, and leads if there is none.
    fn stand_by(&mut self, seated: HeldLease) -> Result<(), TermTrouble> {
        let leader = match self.record.leader()? {
            Some(leader) => leader,
            None => match self.record.campaign(seated.seat)? {
                CampaignOutcome::Lost(leader) => leader,
                CampaignOutcome::Won(made_at) => {
                    self.leading = Some(Leading {
                        term: LeaderRevisions {
                            made_at,
                            changed_at: 0,
                        },
                        is_reported: false,
                        reason: String::new(),
                        pending: None,
                        keep_from_us: 0,
                    });
                    return Ok(());
                }
            },
        };
        let mut known = self.shared.known();
        if known.leader.as_ref() != Some(&leader) {
            journal::line(
                JournalLevel::Info,
                "coordinator_stands_by",
                &[("leader", &leader), ("kept_in", &known.kept_in)],
            );
        }
        known.standbys.retain(|standby| *standby != leader);
        known.leader = Some(leader);
        Ok(())
    }

    /// Reads the state as the only leader, and lets the role lead from it.
    fn lead(&mut self) -> Result<(), TermTrouble> {
        let (Some(seated), Some(leading)) = (self.seated, &mut self.leading) else {
            return Ok(());
        };
        let found = self.record.load()?;
        let state = match found {
            None => CoordinatorState::new(random::number().map_err(TermTrouble::Fatal)?),
            Some(found) => {
                if let Some(place) = found.manifest.moved_to {
                    return Err(TermTrouble::Fatal(ServerError::Folder(format!(
                        "the coordinators' state in {} has moved to {place}: start the \
                         coordinator there, or bring it back with `replex admin coordinator \
                         migrate --to etcd`",
                        self.record.place()
                    ))));
                }
                leading.term.changed_at = found.changed_at;
                found.state
            }
        };
        leading.is_reported = true;
        let reason = std::mem::take(&mut leading.reason);
        self.leadership += 1;
        self.shared.known().leader = Some(self.record.address().to_owned());
        self.set_leads_until(seated.until_us);
        let state = Box::new(state);
        self.report(Ok(KeeperEvent::Lead { state, reason }));
        Ok(())
    }

    /// Keeps the newest state that is to be kept.
    fn keep_state(&mut self) -> Result<(), TermTrouble> {
        let now_us = self.clock.monotonic_us();
        let Some(leading) = &mut self.leading else {
            return Ok(());
        };
        let Some(persist) = leading.pending.take_if(|_| leading.keep_from_us <= now_us) else {
            return Ok(());
        };
        match self.record.keep(leading.term, &persist) {
            Ok(SaveOutcome::Kept(changed_at)) => {
                leading.term.changed_at = changed_at;
                self.report(Ok(KeeperEvent::Kept(persist.version)));
            }
            Ok(SaveOutcome::Deposed) | Err(GatewayError::NoLease) => self.vacate(),
            Ok(SaveOutcome::Overwritten) => {
                return Err(TermTrouble::Fatal(ServerError::Folder(format!(
                    "the coordinators' state in {} was changed by a process that does not lead: \
                     nothing else may write below this prefix",
                    self.record.place()
                ))));
            }
            // Whether it was kept is unknown: the same one is tried again.
            Err(error @ GatewayError::Unavailable(_)) => {
                leading.pending = Some(persist);
                return Err(error.into());
            }
            // It was not kept, and the role is ahead of the kept state: it begins again from there.
            Err(error) => {
                leading.reason = format!("the coordinator's state cannot be kept: {error}");
                leading.keep_from_us = now_us + REFUSED_PAUSE_US;
                leading.is_reported = false;
                self.note(&error);
                self.lead()?;
            }
        }
        Ok(())
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Keep(leadership, persist) if leadership == self.leadership => {
                if let Some(leading) = self.leading.as_mut().filter(|leading| leading.is_reported) {
                    leading.pending = Some(persist);
                }
            }
            Command::Resign(leadership) if leadership == self.leadership => self.vacate(),
            Command::Keep(..) | Command::Resign(_) => {}
        }
    }

    /// Leaves the seat: here at once, and in etcd if it receives that.
    fn vacate(&mut self) {
        self.set_leads_until(0);
        let mut known = self.shared.known();
        known.leader = None;
        drop(known);
        if self.leading.take().is_some() {
            self.report(Ok(KeeperEvent::Follow));
        }
        if let Some(seated) = self.seated.take() {
            // A lease that it does not give back runs out.
            let _ = self.record.leave(seated.seat);
        }
    }

    fn set_leads_until(&self, until_us: u64) {
        self.shared
            .leads_until_us
            .store(until_us, Ordering::Release);
    }

    fn report(&self, event: Result<KeeperEvent, ServerError>) {
        // The receiver is gone only when the process is ending anyway.
        let _ = self.reports.send(TermReport {
            leadership: self.leadership,
            event,
        });
        self.wake.wake();
    }

    fn note(&mut self, error: &GatewayError) {
        let now_us = self.clock.monotonic_us();
        if self.noted_us.is_none_or(|at| at + NOTE_PAUSE_US <= now_us) {
            self.noted_us = Some(now_us);
            let place = self.record.place();
            journal::line(
                JournalLevel::Warn,
                "etcd_trouble",
                &[("kept_in", &place), ("reason", error)],
            );
        }
    }

    /// Returns the time until the next action is due, unless the role requests one earlier.
    fn pause(&self) -> Duration {
        let now_us = self.clock.monotonic_us();
        let renew_us = self.seated.map_or(0, |seated| seated.renew_us);
        let due_us = match &self.leading {
            Some(leading) if leading.is_reported && leading.pending.is_none() => renew_us,
            _ => now_us + LOOK_PAUSE_US,
        };
        // A failed request is due at once, and yet not tried at once.
        let due_us = due_us.clamp(now_us + LOOK_PAUSE_US / 10, now_us + RENEW_PAUSE_US);
        Duration::from_micros(due_us - now_us)
    }
}

impl HeldLease {
    /// Makes a lease from the time of the request whose answer confirms it.
    fn new(seat: CoordinatorLease, asked_us: u64) -> HeldLease {
        let ttl_us = seat.ttl_s * 1_000_000;
        HeldLease {
            seat,
            renew_us: asked_us + RENEW_PAUSE_US,
            // The margin is for clocks that run at different rates.
            until_us: asked_us + ttl_us - ttl_us / 10,
        }
    }
}
