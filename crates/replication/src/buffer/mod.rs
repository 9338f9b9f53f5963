//! The transactions buffer (the paper's section 3): stores commits by TSID in a table of the store.
//!
//! With a buffer, the primary need not retain its WAL for offline replicas. A replica that
//! reconnects gets its missed commits from the buffer, and later commits from the slot's reader.
//! The buffer follows the reader as a replica does. Only offline and removed replicas depend on the
//! buffer. While it is stopped or unavailable, or if it has lost its data, the primary retains the
//! WAL for offline replicas. For removed ones, it does so only for a while
//! ([`BufferOptions::absence_max`]).
//!
//! - `pages` knows which commits the buffer has, `record` encodes commits as bytes, and `table`
//!   stores these bytes.
//! - `delivery` delivers the missed commits to a replica.
//!
//! While there is room, the buffer also keeps commits that all replicas have, because a replica
//! that was removed and is added again needs them (the paper's Archiver). Without room, it drops
//! the oldest commit, even if a replica needs it.
//!
//! Invariants:
//! - The slot forgets nothing that an offline replica lacks and that is not here on disk.
//! - Pages leave no gap. A buffer that has missed something, since it was another one's or has lost
//!   it, begins from scratch.
//! - Only the active proxy writes.

pub mod delivery;

mod record;
mod table;

use super::lineage;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::Level;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_postgres::Client;

use super::extractor::QUEUE_LENGTH_MAX;
use super::pages::{BufferPage, BufferPages};
use super::reader::{Follower, JoinAnswer, StreamedCommit, join};
use super::spill::SpillFile;
use super::tstate::{CommitEffect, TState};
use super::{
    CONNECTING, RETRY_WAIT_MAX, RETRY_WAIT_MIN, ReplicationError, SERVING, Shared, connect,
    handover, setup,
};
use crate::events::EventLog;
use proxy_core::freshness::Tsid;
use proxy_pool::ledger::UNPROVEN;
use table::{BufferTable, PART_LENGTH_MAX};

/// Name in the log of its events.
const EVENT: &str = "transactions_buffer";
/// Bytes of a page of several commits, about.
const PAGE_LENGTH: usize = 256 * 1024;
/// Where nothing is committed, how far the primary's log is gets written down so often.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// The usual [`BufferOptions::absence_max`].
pub const ABSENCE_MAX: Duration = Duration::from_secs(60);

/// The location of a transactions buffer, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferOptions {
    /// `host:port` of the coordinators of its store.
    pub coordinators: Vec<String>,
    /// The most bytes.
    pub length_max: u64,
    /// Whether a proxy that takes over has the same buffer.
    pub is_for_all: bool,
    /// How long the slot waits for a buffer that it does not reach. After that, the buffer begins
    /// from scratch, and has nothing for replicas that were removed before.
    pub absence_max: Duration,
}

/// The transactions buffer of this proxy, with its record of the pages in the store.
pub struct TransactionsBuffer {
    options: BufferOptions,
    state: Mutex<BufferState>,
    /// The buffer's events in the log.
    events: EventLog,
}

/// The state of the buffer, as far as it is known.
struct BufferState {
    is_following: bool,
    /// Whether it is connected. The slot waits for it then.
    is_connected: bool,
    /// When it was created, or last stopped following.
    absent_since: Instant,
    /// None before it was reached.
    pages: Option<BufferPages>,
    table: Option<BufferTable>,
    status: String,
}

/// The status of a transactions buffer, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferStatus {
    /// The buffer's activity, or its error.
    pub text: String,
    /// Whether the buffer follows the slot.
    pub is_following: bool,
    /// The first and the last position that it covers; none before it was reached.
    pub covered: Option<(Tsid, Tsid)>,
    /// The number of pages.
    pub pages: u64,
    /// The number of bytes of the commits.
    pub length: u64,
    /// The most bytes.
    pub length_max: u64,
}

impl TransactionsBuffer {
    /// Creates a buffer that has not been reached yet.
    pub fn new(options: BufferOptions) -> TransactionsBuffer {
        TransactionsBuffer {
            options,
            state: Mutex::new(BufferState {
                is_following: false,
                is_connected: false,
                absent_since: Instant::now(),
                pages: None,
                table: None,
                status: String::new(),
            }),
            events: EventLog::default(),
        }
    }

    /// Returns whether a proxy that takes over has the same buffer.
    pub fn is_for_all(&self) -> bool {
        self.options.is_for_all
    }

    /// Returns the position up to which the buffer has every commit on disk; none while this
    /// position is not known.
    pub fn until(&self) -> Option<Tsid> {
        self.state().pages.as_ref().map(BufferPages::until)
    }

    /// Returns whether the buffer has every commit after this position.
    pub fn covers(&self, place: Tsid) -> bool {
        let state = self.state();
        state.pages.as_ref().is_some_and(|it| it.covers(place))
    }

    /// Returns whether the buffer has every commit after this position, and at least one.
    pub fn has_after(&self, place: Tsid) -> bool {
        self.page_after(place).is_some()
    }

    /// Returns the status of the buffer.
    pub fn status(&self) -> BufferStatus {
        let state = self.state();
        let pages = state.pages.as_ref();
        BufferStatus {
            text: state.status.clone(),
            is_following: state.is_following,
            covered: pages.map(|pages| (pages.from(), pages.until())),
            pages: pages.map_or(0, |pages| pages.count() as u64),
            length: pages.map_or(0, BufferPages::length),
            length_max: self.options.length_max,
        }
    }

    /// Calls `ask` with its pages, or with none before it was reached.
    pub(super) fn with_pages<T>(&self, ask: impl FnOnce(Option<&BufferPages>) -> T) -> T {
        ask(self.state().pages.as_ref())
    }

    /// Returns the position up to which the slot may drop the WAL, as far as the buffer is
    /// concerned.
    pub(super) fn holds(&self, tsid: Tsid) -> Tsid {
        let state = self.state();
        let waits = state.is_connected || state.absent_since.elapsed() < self.options.absence_max;
        match (waits, &state.pages) {
            (false, _) => tsid,
            (true, Some(pages)) => handover::forgettable_by_buffer(tsid, pages),
            (true, None) => Tsid(0),
        }
    }

    fn set_status(&self, is_following: bool, text: &str) {
        let level = match is_following {
            true => Level::Info,
            false => Level::Warn,
        };
        if text != CONNECTING {
            self.events.report(level, EVENT, None, text);
        }
        let mut state = self.state();
        if state.is_following && !is_following {
            state.absent_since = Instant::now();
        }
        (state.is_following, state.is_connected) = (is_following, is_following);
        state.status = text.into();
    }

    fn page_after(&self, place: Tsid) -> Option<BufferPage> {
        let state = self.state();
        state.pages.as_ref()?.next(place)
    }

    fn state(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the buffer up to date. Never returns.
    pub(super) async fn keep(self: Arc<TransactionsBuffer>, shared: Shared) {
        let mut wait = RETRY_WAIT_MIN;
        loop {
            self.set_status(false, CONNECTING);
            let followed = BufferWriter::follow(&shared, &self, &mut wait).await;
            let problem = match followed {
                Err(problem) => problem,
                Ok(never) => match never {},
            };
            self.set_status(false, &problem.to_string());
            tokio::time::sleep(wait).await;
            wait = RETRY_WAIT_MAX.min(wait * 2);
        }
    }
}

/// Writes the reader's commits.
struct BufferWriter<'a> {
    shared: &'a Shared,
    buffer: &'a TransactionsBuffer,
    table: BufferTable,
    /// States that wait to be written, as bytes.
    page: Vec<u8>,
    /// The position of the last received commit.
    received: Tsid,
}

impl BufferWriter<'_> {
    /// Writes commits, until an error.
    async fn follow(
        shared: &Shared,
        buffer: &TransactionsBuffer,
        wait: &mut Duration,
    ) -> Result<Infallible, ReplicationError> {
        let primary = connect(&shared.primary, "replex buffer").await?;
        let line = lineage::line(&primary).await?;
        let table = BufferTable::open(&buffer.options.coordinators, &line).await?;
        buffer.state().is_connected = true;
        let start = open(shared, buffer, &table, &primary).await?;
        let (commits, mut received) = mpsc::channel(QUEUE_LENGTH_MAX);
        let joined = join(&shared.joins, Follower::Buffer, start, commits, true);
        if joined.await? != JoinAnswer::Taken {
            let text = "the primary's slot has gone past the position of the transactions buffer";
            return Err(ReplicationError::Connection(text.into()));
        }
        *wait = RETRY_WAIT_MIN;
        buffer.set_status(true, SERVING);
        let mut keeper = BufferWriter {
            shared,
            buffer,
            table,
            page: Vec::new(),
            received: start,
        };
        let mut idle = tokio::time::interval(IDLE_INTERVAL);
        idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut commits = Vec::new();
        loop {
            tokio::select! {
                count = received.recv_many(&mut commits, QUEUE_LENGTH_MAX) => {
                    if count == 0 {
                        return Err(ReplicationError::Connection("the slot's reader dropped it".into()));
                    }
                    for commit in commits.drain(..) {
                        keeper.take(&commit).await?;
                    }
                    if !keeper.page.is_empty() {
                        keeper.write_page().await?;
                    }
                }
                _ = idle.tick() => {
                    if buffer.until() < Some(keeper.received) {
                        keeper.write_page().await?;
                    }
                }
            }
        }
    }

    async fn take(&mut self, commit: &StreamedCommit) -> Result<(), ReplicationError> {
        if let StreamedCommit::Transaction(tstate) = commit {
            match &tstate.effect {
                CommitEffect::Long(spill) if spill.length() > 0 => {
                    if !self.page.is_empty() {
                        self.write_page().await?;
                    }
                    self.received = tstate.tsid;
                    return self.write_long(tstate, spill).await;
                }
                _ => record::encode(tstate, &mut self.page)?,
            }
        }
        self.received = self.received.max(commit.tsid());
        match self.page.len() >= PAGE_LENGTH {
            true => self.write_page().await,
            false => Ok(()),
        }
    }

    /// Writes the waiting commits as a page. A page without commits replaces another one.
    async fn write_page(&mut self) -> Result<(), ReplicationError> {
        let after = self.after();
        let page = BufferPage {
            epoch: self.shared.epoch,
            after,
            until: self.received,
            parts: 1,
            length: self.page.len() as u64,
        };
        self.prove()?;
        let states = std::mem::take(&mut self.page);
        self.table.write(&page, 0, states).await?;
        self.add(page).await
    }

    /// Writes a commit that is too long for memory as a page of its own.
    async fn write_long(
        &mut self,
        tstate: &TState,
        spill: &SpillFile,
    ) -> Result<(), ReplicationError> {
        let mut head = Vec::new();
        record::encode(tstate, &mut head)?;
        let piece = PART_LENGTH_MAX as u64;
        let parts = 1 + spill.length().div_ceil(piece);
        let page = BufferPage {
            epoch: self.shared.epoch,
            after: self.after(),
            until: self.received,
            parts: u32::try_from(parts).expect("a file is not that long"),
            length: head.len() as u64 + spill.length(),
        };
        for part in 1..page.parts {
            self.prove()?;
            let at = u64::from(part - 1) * piece;
            let bytes = spill.bytes(at, piece).await?;
            self.table.write(&page, part, bytes).await?;
        }
        self.prove()?;
        self.table.write(&page, 0, head).await?;
        self.add(page).await
    }

    /// Returns after which place the next page begins. An empty page at the end makes way for it.
    fn after(&self) -> Tsid {
        let state = self.buffer.state();
        let pages = state.pages.as_ref().expect("it was opened");
        match pages.last() {
            Some(last) if last.length == 0 => last.after,
            _ => pages.until(),
        }
    }

    /// Notes that a page is on disk.
    async fn add(&self, page: BufferPage) -> Result<(), ReplicationError> {
        let gone = {
            let mut state = self.buffer.state();
            let pages = state.pages.as_mut().expect("it was opened");
            let mut gone: Vec<BufferPage> = pages.push(page).into_iter().collect();
            while let Some(surplus) = pages.take_surplus(self.buffer.options.length_max) {
                gone.push(surplus);
            }
            gone
        };
        for page in gone {
            self.prove()?;
            self.table.remove(&page).await?;
        }
        Ok(())
    }

    fn prove(&self) -> Result<(), ReplicationError> {
        proven(self.shared)
    }
}

/// Fails if another proxy may be the active one.
fn proven(shared: &Shared) -> Result<(), ReplicationError> {
    match shared.lease.is_valid() {
        true => Ok(()),
        false => Err(ReplicationError::Connection(UNPROVEN.into())),
    }
}

/// Reads the present pages, removes useless ones, and returns the position from which on it needs
/// commits.
async fn open(
    shared: &Shared,
    buffer: &TransactionsBuffer,
    table: &BufferTable,
    primary: &Client,
) -> Result<Tsid, ReplicationError> {
    // No source has the commits that the slot has forgotten by now.
    let confirmed = setup::confirmed(primary).await?;
    let (found, torn) = table.pages().await?;
    let (pages, mut useless) = match BufferPages::of(found.clone()) {
        Some((pages, useless)) if pages.until() >= confirmed => (pages, useless),
        _ => (BufferPages::beginning_at(confirmed), found),
    };
    let start = pages.until();
    {
        let mut state = buffer.state();
        state.pages = Some(pages);
        state.table = Some(table.clone());
    }
    for page in useless.drain(..) {
        proven(shared)?;
        table.remove(&page).await?;
    }
    for (epoch, tsid, part) in torn {
        proven(shared)?;
        table.remove_part(epoch, tsid, part).await?;
    }
    Ok(start)
}
