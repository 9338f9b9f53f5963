//! Reads the slot: every commit of the primary, in the order of its log (R29).
//!
//! For each commit, in this order: the catalogue is read again if it changed, the manager registers
//! the commit, the primary shows it, and every follower gets it. Followers are the replicas, and
//! the transactions buffer if there is one. When a follower joins that needs older commits than the
//! last one read, and the transactions buffer does not have them, the stream begins again from
//! where the slot is confirmed. Every other follower does not get commits again that it has had.
//! Commits that the buffer does not have on its disks yet are remembered here, so that a follower
//! that comes from there finds its next commits.

use super::query;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use log::Level;
use pgwire_replication::{Lsn, ReplicationClient, ReplicationConfig, ReplicationEvent};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_postgres::Client;

use super::bridge::{self, Bridge};
use super::handover::{self, CommitSource, LogPlaced, RecentCommits};
use super::slot::RetainedWal;
use super::snapshot::{PgSnapshot, ShownOrder};
use super::tstate::{TState, TStateAssembler};
use super::{
    RETRY_WAIT_MAX, RETRY_WAIT_MIN, ReplicationError, SLOT, Shared, catalogue, connect, setup,
};
use crate::events::EventLog;
use pg_connect::address::Address;
use pg_connect::tls::TlsPolicy;
use proxy_core::freshness::{ReceivedCommit, ReplicaId, TStateId, Tsid};
use proxy_pool::ledger::UNPROVEN;

/// The name of the slot's events in the log.
const EVENT: &str = "slot";
/// Time between two checks of the confirmable position and of commits in doubt.
const TICK: Duration = Duration::from_millis(200);
/// Time between two checks of the WAL that the primary retains.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Wait before the primary is asked again whether it shows a commit.
const SHOWN_WAIT: Duration = Duration::from_millis(1);
/// A replica that takes nothing from its full queue for this time is dropped, and joins again.
const STALL_MAX: Duration = Duration::from_secs(10);
/// The time after which a stalled transactions buffer is dropped. Online replicas need not wait for
/// it.
const BUFFER_STALL_MAX: Duration = Duration::from_secs(1);
/// The settings of the stream's session. With them, values have the same text as at replicas, and
/// names in a text have their schemas.
const OPTIONS: &str = "-c datestyle=ISO,YMD -c intervalstyle=postgres -c extra_float_digits=3 \
                       -c bytea_output=hex -c timezone=UTC -c client_encoding=UTF8 -c lc_monetary=C \
                       -c search_path=";

/// The receiver of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follower {
    /// The transactions buffer.
    Buffer,
    /// A replica.
    Replica(ReplicaId),
}

/// A request of a follower for every commit after `applied`.
pub struct JoinRequest {
    follower: Follower,
    applied: Tsid,
    commits: mpsc::Sender<StreamedCommit>,
    insists: bool,
    answer: oneshot::Sender<JoinAnswer>,
}

/// Sends a request for every commit after `applied` to the receiver of `joins`. `insists` states
/// that the transactions buffer has nothing more for the follower.
pub async fn join(
    joins: &mpsc::Sender<JoinRequest>,
    follower: Follower,
    applied: Tsid,
    commits: mpsc::Sender<StreamedCommit>,
    insists: bool,
) -> Result<JoinAnswer, ReplicationError> {
    let ended = || ReplicationError::Connection("the slot's reader has ended".into());
    let (answer, answered) = oneshot::channel();
    let join = JoinRequest {
        follower,
        applied,
        commits,
        insists,
        answer,
    };
    joins.send(join).await.map_err(|_| ended())?;
    answered.await.map_err(|_| ended())
}

/// The answer to a request to join the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinAnswer {
    /// The follower gets every following commit.
    Taken,
    /// The next commits are in the transactions buffer. Ask again after they are delivered.
    BufferHasMore,
    /// The next commits are lost.
    Gone,
}

/// The state of one follower.
struct FollowerState {
    /// The position of the last commit that was put into the follower's queue.
    applied: Tsid,
    commits: mpsc::Sender<StreamedCommit>,
    stall_max: Duration,
}

impl FollowerState {
    /// Sends a commit to the follower, unless the follower has it already. Returns false if the
    /// follower does not accept the commit in time.
    async fn give(&mut self, commit: &StreamedCommit) -> bool {
        if self.applied >= commit.tsid() {
            return true;
        }
        self.applied = commit.tsid();
        let sent = self.commits.send_timeout(commit.clone(), self.stall_max);
        sent.await.is_ok()
    }
}

/// An item for an Extractor, in TSID order.
#[derive(Clone, Debug)]
pub enum StreamedCommit {
    /// A commit.
    Transaction(Arc<TState>),
    /// There is no further commit up to this position.
    Nothing(Tsid),
}

impl StreamedCommit {
    /// Returns the TSID of the commit, or the position up to which there is no further commit.
    pub fn tsid(&self) -> Tsid {
        match self {
            StreamedCommit::Transaction(tstate) => tstate.tsid,
            StreamedCommit::Nothing(tsid) => *tsid,
        }
    }
}

impl LogPlaced for StreamedCommit {
    fn tsid(&self) -> Tsid {
        StreamedCommit::tsid(self)
    }

    fn length(&self) -> usize {
        match self {
            StreamedCommit::Transaction(tstate) => tstate.length,
            StreamedCommit::Nothing(_) => 0,
        }
    }
}

/// The reader of the primary's slot. It passes each commit to the manager and to every follower.
pub struct SlotReader {
    shared: Shared,
    joined: mpsc::Receiver<JoinRequest>,
    followers: BTreeMap<Follower, FollowerState>,
    /// Every commit up to here has been read.
    position: Tsid,
    /// The position before which the slot delivers no commits any more.
    confirmed: Tsid,
    recent: RecentCommits<StreamedCommit>,
    /// The snapshot of the catalogue that the analyser has, if this reader has read it.
    catalogue_at: Option<PgSnapshot>,
    /// The order in which commits became visible, as far as it is known.
    shown: ShownOrder<PgSnapshot>,
    /// Commits in doubt whose process is gone: if they are not read up to here, they did not
    /// happen.
    doubts: BTreeMap<TStateId, Tsid>,
    /// The events of the slot in the log.
    events: EventLog,
}

impl SlotReader {
    /// Returns a reader that has read nothing.
    pub fn new(shared: Shared, joined: mpsc::Receiver<JoinRequest>) -> SlotReader {
        SlotReader {
            shared,
            joined,
            followers: BTreeMap::new(),
            position: Tsid(0),
            confirmed: Tsid(0),
            recent: RecentCommits::default(),
            catalogue_at: None,
            shown: ShownOrder::default(),
            doubts: BTreeMap::new(),
            events: EventLog::default(),
        }
    }

    /// Reads the slot. Never returns.
    pub async fn run(mut self) {
        let mut wait = RETRY_WAIT_MIN;
        loop {
            let position = self.position;
            let done = match self.shared.lease.is_valid() {
                true => self.read().await,
                // Another proxy may have the slot.
                false => Err(ReplicationError::Connection(UNPROVEN.into())),
            };
            if let Err(problem) = done {
                let text = format!("the primary's slot cannot be read: {problem}");
                self.events.report(Level::Warn, EVENT, None, &text);
                for follower in self.followers.keys() {
                    if let Follower::Replica(id) = follower {
                        self.shared.set_progress(*id, &*text, None);
                    }
                }
                wait = match self.position > position {
                    true => RETRY_WAIT_MIN,
                    false => RETRY_WAIT_MAX.min(wait * 2),
                };
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Reads until a follower needs older commits, or something goes wrong.
    async fn read(&mut self) -> Result<(), ReplicationError> {
        let primary = connect(&self.shared.primary, "replex reader").await?;
        let stream_error =
            |error: pgwire_replication::PgWireError| ReplicationError::Stream(error.to_string());
        let address = &self.shared.primary;
        let bridge = match address.tls {
            TlsPolicy::Disable => None,
            _ => Some(Bridge::start(address)),
        };
        let unreachable = |error: io::Error| ReplicationError::Connection(error.to_string());
        let bridge = bridge.transpose().map_err(unreachable)?;
        let configuration = stream_configuration(address, bridge.as_ref());
        let mut stream = ReplicationClient::connect(configuration)
            .await
            .map_err(stream_error)?;
        self.begin_behind(setup::confirmed(&primary).await?)?;
        nudge(&primary).await?;
        let key = self.shared.manager().key().clone();
        let mut assembler = TStateAssembler::default();
        let mut is_inside = false;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = stream.recv() => {
                    let ended = || ReplicationError::Stream("the primary ended the stream".into());
                    let event = event.map_err(stream_error)?.ok_or_else(ended)?;
                    match event {
                        ReplicationEvent::KeepAlive { wal_end, .. } if !is_inside => {
                            self.nothing(Tsid(wal_end.as_u64())).await;
                        }
                        ReplicationEvent::Begin { xid, .. } => {
                            is_inside = true;
                            assembler.begin(xid);
                        }
                        ReplicationEvent::XLogData { data, .. } => {
                            assembler.data(data, &self.shared.analyser)?;
                            assembler.bound().await.map_err(no_file)?;
                        }
                        ReplicationEvent::Message { transactional: true, prefix, content, .. } => {
                            assembler.message(&prefix, &content, &key);
                        }
                        ReplicationEvent::Commit { end_lsn, .. } => {
                            is_inside = false;
                            let end = Tsid(end_lsn.as_u64());
                            let tstate = assembler.commit(end).await.map_err(no_file)?;
                            let is_old = std::mem::take(&mut assembler.catalogue_is_old);
                            self.committed(&primary, tstate, is_old).await?;
                        }
                        _ => {}
                    }
                }
                join = self.joined.recv() => {
                    let Some(join) = join else { return Ok(()) };
                    if self.needs_older(join).await {
                        // The next stream begins again, whatever this one sends while it ends.
                        let _ = stream.shutdown().await;
                        return Ok(());
                    }
                }
                _ = look.tick() => self.look(&primary).await?,
                _ = tick.tick() => {
                    self.confirm(&stream);
                    self.settle_doubts(&primary).await?;
                }
            }
        }
    }

    /// Records that the stream delivers the commits after this position.
    fn begin_behind(&mut self, confirmed: Tsid) -> Result<(), ReplicationError> {
        if confirmed == setup::NO_SLOT {
            return Err(ReplicationError::Stream(
                "the primary has no slot any more".into(),
            ));
        }
        // The slot was moved, or dropped and made again: a follower that lacks some of it joins
        // again, and gets the error.
        self.followers.retain(|_, given| given.applied >= confirmed);
        self.confirmed = self.confirmed.max(confirmed);
        self.recent.begin(confirmed);
        Ok(())
    }

    async fn committed(
        &mut self,
        primary: &Client,
        tstate: TState,
        catalogue_is_old: bool,
    ) -> Result<(), ReplicationError> {
        // Of many changes of the schema that are read late, one reading shows all.
        let is_read = |snapshot: &PgSnapshot| snapshot.shows(tstate.xid);
        let is_old = !self.catalogue_at.as_ref().is_some_and(is_read);
        if is_old && (catalogue_is_old || tstate.has_statements) {
            self.wait_until_shown(primary, tstate.xid).await?;
            let read = catalogue::read(primary).await?;
            self.catalogue_at = Some(read.snapshot);
            let analyser = &self.shared.analyser;
            analyser.replace(read.catalogue);
            let generation = analyser.generation();
            self.shared.manager().catalogue_replaced(generation);
        }
        let shows = |snapshot: &PgSnapshot| snapshot.shows(tstate.xid);
        let is_shown = self.shared.manager().committed(&ReceivedCommit {
            tsid: tstate.tsid,
            mark: tstate.mark,
            writes: &tstate.sets,
            has_statements: tstate.has_statements,
            hidden_until: self.shown.hidden_until(shows),
        });
        if !is_shown {
            self.wait_until_shown(primary, tstate.xid).await?;
            self.shared.manager().shown(tstate.tsid);
        }
        // The order of commits without an effect, such as marks, is of no account.
        if !tstate.effect.is_empty() {
            self.shown.passed(tstate.tsid, shows);
        }
        self.position = self.position.max(tstate.tsid);
        self.give(&StreamedCommit::Transaction(Arc::new(tstate)))
            .await;
        Ok(())
    }

    async fn nothing(&mut self, until: Tsid) {
        if until > self.position {
            self.position = until;
            self.give(&StreamedCommit::Nothing(until)).await;
        }
    }

    /// Waits until the primary shows a commit whose record is in its log already.
    async fn wait_until_shown(
        &mut self,
        primary: &Client,
        xid: u32,
    ) -> Result<(), ReplicationError> {
        let shows = |snapshot: Option<&PgSnapshot>| snapshot.is_some_and(|it| it.shows(xid));
        while !shows(self.shown.newest()) {
            let text = query::one(primary, "SELECT pg_current_snapshot()").await?;
            let snapshot = text.parse::<PgSnapshot>()?;
            let is_shown = snapshot.shows(xid);
            self.shown.taken(snapshot);
            if !is_shown {
                tokio::time::sleep(SHOWN_WAIT).await;
            }
        }
        Ok(())
    }

    async fn give(&mut self, commit: &StreamedCommit) {
        if self.shared.buffer.is_some() {
            self.recent.push(commit.clone());
        }
        let mut gone = Vec::new();
        for (follower, given) in &mut self.followers {
            if !given.give(commit).await {
                gone.push(*follower);
            }
        }
        for follower in gone {
            self.followers.remove(&follower);
        }
    }

    /// Adds a follower, if the commits that it needs are available. Returns whether the stream must
    /// begin again for it.
    async fn needs_older(&mut self, join: JoinRequest) -> bool {
        let JoinRequest {
            follower,
            applied,
            commits,
            insists,
            answer,
        } = join;
        let mut given = FollowerState {
            applied,
            commits,
            stall_max: match follower {
                Follower::Buffer => BUFFER_STALL_MAX,
                Follower::Replica(_) => STALL_MAX,
            },
        };
        let buffer = self.shared.buffer.as_ref().filter(|_| !insists);
        let has_more = buffer.is_some_and(|buffer| buffer.has_after(applied));
        let read = (self.position, self.confirmed);
        let source = handover::source(applied, read, &self.recent, has_more);
        // A follower that does not receive the answer has ended, and is dropped with its queue.
        match source {
            CommitSource::Buffer => {
                let _ = answer.send(JoinAnswer::BufferHasMore);
                return false;
            }
            CommitSource::Lost => {
                let _ = answer.send(JoinAnswer::Gone);
                return false;
            }
            CommitSource::Recent => {
                for commit in self.recent.iter() {
                    if !given.give(commit).await {
                        return false;
                    }
                }
            }
            CommitSource::Stream | CommitSource::RestartedStream => {}
        }
        self.followers.insert(follower, given);
        let _ = answer.send(JoinAnswer::Taken);
        source == CommitSource::RestartedStream
    }

    /// Confirms to the primary the position that every replica has on disk. Without replicas,
    /// confirms everything that was read.
    fn confirm(&mut self, stream: &ReplicationClient) {
        if !self.shared.lease.is_valid() {
            return;
        }
        let durable = self.shared.needed(self.confirmed);
        let knows_all = self.shared.knows_all.load(Ordering::Acquire);
        let mut durable = durable.or(knows_all.then_some(self.position));
        if let Some(buffer) = &self.shared.buffer {
            self.recent.forget(buffer.until().unwrap_or_default());
            durable = durable.map(|durable| buffer.holds(durable));
        }
        if let Some(durable) = durable.filter(|durable| *durable > Tsid(0)) {
            // A follower that got older commits from the transactions buffer may be behind the
            // slot.
            self.confirmed = self.confirmed.max(durable);
            stream.update_applied_lsn(Lsn::from_u64(self.confirmed.0));
        }
    }

    /// Logs a warning when the primary keeps so much for offline replicas that the slot may be
    /// lost.
    async fn look(&self, primary: &Client) -> Result<(), ReplicationError> {
        let retained = RetainedWal::of(primary).await?;
        *self
            .shared
            .retained_wal
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = retained;
        let (level, text) = match retained.is_alarming() {
            false => (Level::Info, "the primary's slot is read"),
            true => (
                Level::Warn,
                "the primary keeps more of its log for the slot than may still come: at max_slot_wal_keep_size the \
                 slot is lost, and offline replicas must be filled again: see SHOW LAG",
            ),
        };
        self.events.report(level, EVENT, None, text);
        Ok(())
    }

    /// Settles the commits whose connection broke. Such a commit happened if it is read before the
    /// position that was the end of the WAL after its process had ended.
    async fn settle_doubts(&mut self, primary: &Client) -> Result<(), ReplicationError> {
        let in_doubt = self.shared.manager().in_doubt();
        for (id, backend) in &in_doubt {
            if self.doubts.contains_key(id) {
                continue;
            }
            let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {backend}");
            if query::one(primary, &alive).await? == "0" {
                let end = setup::position(primary).await?;
                self.doubts.insert(*id, end);
                nudge(primary).await?;
            }
        }
        let still = |id: &TStateId| in_doubt.iter().any(|(doubt, _)| doubt == id);
        self.doubts.retain(|id, _| still(id));
        let settled = self.doubts.iter().filter(|(_, end)| **end <= self.position);
        let settled: Vec<TStateId> = settled.map(|(id, _)| *id).collect();
        self.shared.manager().settle_doubts(&settled);
        Ok(())
    }
}

fn no_file(error: io::Error) -> ReplicationError {
    ReplicationError::Stream(format!(
        "a long transaction cannot be kept in a temporary file ({error}): is the disk full? TMPDIR names \
         another folder"
    ))
}

/// Writes a commit without effect, so that the stream passes the present end of the WAL.
pub async fn nudge(primary: &Client) -> Result<(), ReplicationError> {
    let sql = "SELECT pg_logical_emit_message(true, 'hihooi.nudge', '')";
    primary.simple_query(sql).await?;
    Ok(())
}

/// Returns the configuration of the connection that reads the slot. With TLS, it connects through
/// the bridge.
fn stream_configuration(primary: &Address, bridge: Option<&Bridge>) -> ReplicationConfig {
    let (host, port) = match bridge {
        Some(bridge) => (bridge.folder().to_string_lossy(), bridge::PORT),
        None => (Cow::from(&primary.host), primary.port),
    };
    let password = primary.password.as_deref().unwrap_or_default();
    let (user, database) = (&primary.user, &primary.database);
    ReplicationConfig::new(&*host, user, password, database, SLOT, SLOT)
        .with_port(port)
        .with_options(OPTIONS)
        .with_status_interval(TICK)
        .with_wakeup_interval(TICK)
        .with_application_name("replex slot")
}
