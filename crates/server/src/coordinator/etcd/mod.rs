//! Keeps a coordinator's state in etcd. A lease decides which coordinator leads, and every state is
//! written by compare-and-swap.
//!
//! A thread speaks to etcd, so that the event loop never waits for it: it renews the lease, stands
//! by while another one leads, and keeps states while it leads. Invariants: A state is written only
//! by `record`, so a deposed coordinator changes nothing. `leads_until_us` ends some time before
//! etcd lets another coordinator lead, and is counted from the time before the renewal was sent.

mod gateway;
mod manifest;
mod record;
mod term;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use protocol::message::Leadership;
use protocol::state::CoordinatorState;

use super::keeper::{KeeperEvent, StateKeeper};
use crate::clock::Clock;
use crate::error::ServerError;
use crate::event_loop::LoopHandle;
use crate::options::EtcdOptions;
use crate::random;
use gateway::Gateway;
pub(super) use record::{
    CampaignOutcome, CoordinatorLease, LeaderRevisions, LoadError, Record, SaveOutcome, StoredState,
};
use term::Candidate;

/// The seconds after its last renewal in etcd for which a coordinator leads, or counts as present.
pub(super) const LEASE_S: u64 = 5;

/// A command of the role to the thread.
#[derive(Debug)]
enum Command {
    /// Store a state of this leadership.
    Keep(u64, Box<CoordinatorState>),
    /// End this leadership.
    Resign(u64),
}

/// A report of the thread, and the leadership that it is of.
#[derive(Debug)]
struct TermReport {
    leadership: u64,
    event: Result<KeeperEvent, ServerError>,
}

/// The state that both sides see at once.
#[derive(Debug)]
struct Shared {
    leads_until_us: AtomicU64,
    known: Mutex<Leadership>,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Leadership> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side of the coordinator's role.
pub(super) struct EtcdKeeper {
    commands: Option<Sender<Command>>,
    reports: Receiver<TermReport>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Rises with every `KeeperEvent::Lead`: events of an earlier one are void.
    leadership: u64,
}

impl EtcdKeeper {
    /// Stands by, and leads as soon as no other coordinator does. `wake` is called when there is an
    /// event.
    ///
    /// # Errors
    /// The options make no sense. Whether etcd is there shows later.
    pub fn start(
        options: &EtcdOptions,
        address: String,
        clock: Clock,
        wake: LoopHandle,
    ) -> Result<EtcdKeeper, ServerError> {
        let record = open(options, address)?;
        let shared = Arc::new(Shared {
            leads_until_us: AtomicU64::new(0),
            known: Mutex::new(Leadership {
                leads: false,
                leader: None,
                standbys: Vec::new(),
                kept_in: record.place(),
            }),
        });
        let (commands, to_do) = mpsc::channel();
        let (sender, reports) = mpsc::channel();
        let candidate = Candidate::new(record, clock, Arc::clone(&shared), sender, wake);
        let thread = std::thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || candidate.run(&to_do))
            .map_err(ServerError::io("start the thread that speaks to etcd"))?;
        Ok(EtcdKeeper {
            commands: Some(commands),
            reports,
            shared,
            thread: Some(thread),
            leadership: 0,
        })
    }

    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A thread that has ended has reported why.
            let _ = commands.send(command);
        }
    }
}

/// Returns the record in etcd for a coordinator with this address.
///
/// # Errors
/// The options make no sense.
pub(super) fn open(options: &EtcdOptions, address: String) -> Result<Record, ServerError> {
    if !options.prefix.starts_with('/') || options.prefix.trim_end_matches('/').is_empty() {
        return Err(ServerError::Options(format!(
            "{:?} is no prefix of keys: begin it with / and a name, as /replex",
            options.prefix
        )));
    }
    let gateway = Gateway::new(&options.urls)?;
    Ok(Record::new(
        gateway,
        &options.prefix,
        random::number()?,
        address,
    ))
}

impl StateKeeper for EtcdKeeper {
    fn next_event(&mut self) -> Result<Option<KeeperEvent>, ServerError> {
        loop {
            let report = match self.reports.try_recv() {
                Ok(report) => report,
                Err(TryRecvError::Empty) => return Ok(None),
                // It reports why it ends, unless it panicked.
                Err(TryRecvError::Disconnected) => return Err(ServerError::Panicked),
            };
            let event = report.event?;
            if matches!(event, KeeperEvent::Lead { .. }) {
                self.leadership = report.leadership;
            }
            if report.leadership == self.leadership {
                return Ok(Some(event));
            }
        }
    }

    fn keep(&mut self, state: CoordinatorState) -> Result<(), ServerError> {
        self.command(Command::Keep(self.leadership, Box::new(state)));
        Ok(())
    }

    fn resign(&mut self) {
        self.command(Command::Resign(self.leadership));
    }

    fn leads_until_us(&self) -> u64 {
        self.shared.leads_until_us.load(Ordering::Acquire)
    }

    fn leadership(&self) -> Leadership {
        self.shared.known().clone()
    }

    fn close(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed. Its keys in etcd go with its lease.
            let _ = thread.join();
        }
    }
}
