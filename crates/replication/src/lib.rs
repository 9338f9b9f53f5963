//! Replicates the primary: reads its commits from one logical slot in the order of the WAL, and
//! repeats them at every replica.
//!
//! - `reader` reads the slot, reports each commit to the manager, and gives it to the Extractors
//!   once the primary shows it.
//! - `extractor` executes transactions in parallel at one replica and commits them in order.
//!   `schedule` makes its decisions, and `apply` writes its statements.
//! - `buffer` keeps commits for offline replicas, if that is requested.
//! - `divergence` compares the rows of each replica with the primary's rows.
//! - `standby` follows a streaming standby of the primary. PostgreSQL itself replicates to it.
//! - `seed` fills a new replica while the primary serves; `convert` makes a standby a replica.
//! - `checkpoint` waits until every server has all commits up to a WAL position on its disk.
//! - `handover` decides which source gives commits to a replica that has been offline.
//! - `catalogue` reads the primary's catalogue for `pg-analysis`.
//! - `promotion` makes a replica the primary after the primary is gone.
//! - `leadership` decides which of several proxies is active; `fence` keeps the others from
//!   replicas.
//!
//! Invariants:
//! - A replica's database shows a prefix of the primary's commits (I14), and notes in the same
//!   transaction which: `hihooi.applied` (R31). So nothing is applied twice after a restart.
//! - The slot is confirmed only up to the position that every replica has on disk, or the
//!   transactions buffer has for it, and only by the active proxy.
//! - If a change does not find exactly its row, the replica is quarantined.

pub mod buffer;
pub mod catalogue;
pub mod events;
pub mod leadership;
pub mod promotion;
pub mod query;
pub mod setup;

mod apply;
mod bridge;
mod change;
mod checkpoint;
mod checks;
mod convert;
mod divergence;
mod extractor;
mod fence;
pub mod handover;
pub mod lineage;
pub mod pages;
mod pgoutput;
mod progress;
mod quarantine;
mod reader;
pub mod schedule;
pub mod schema_changes;
mod seed;
mod slot;
pub mod snapshot;
mod spill;
mod standby;
mod tstate;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use log::Level;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::error::DbError;
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config};

use crate::events::EventLog;
use buffer::TransactionsBuffer;
pub use checkpoint::ReplicationCheckpoint;
use leadership::ProxyLeadership;
use leadership::lease::Lease;
use leadership::register::ReplicaRegister;
use pg_analysis::Analyser;
use pg_connect::address::Address;
use pg_connect::stream::Stream;
use progress::SERVING;
pub use progress::{ReplicaStatus, TaskProgress};
use proxy_core::freshness::{FreshnessManager, ReplicaId, ReplicaState, Tsid};
use proxy_pool::connection;
use proxy_pool::ledger::ConnectionLedger;
pub use quarantine::is_same;
pub use quarantine::noted as noted_difference;
use reader::{JoinRequest, SlotReader};
use seed::ReplicaFill;
pub use seed::{dump_version, has_tables};
pub use slot::RetainedWal;
pub use standby::refused as refused_standby;

/// Locks the manager. The lock is held only briefly, because none of its functions waits, and none
/// leaves it half changed.
pub fn locked(manager: &Mutex<FreshnessManager>) -> MutexGuard<'_, FreshnessManager> {
    manager.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status of a replica that is not reached yet: each try begins by it.
const CONNECTING: &str = "connecting";

/// The name of the slot and of the publication on the primary.
pub const SLOT: &str = "hihooi";

/// The default number of connections that execute commits at one replica.
pub const REPLAY_CONNECTIONS_DEFAULT: u16 = 4;

/// The default of the most commits that a connection to a replica executes as one transaction.
pub const REPLAY_GROUP_DEFAULT: u16 = 8;

/// Waits between two tries to reach a server, at least and at most.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(100);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// A server that takes longer to accept a connection is offline.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Replicas that wait to be taken up by the reader, at most.
const JOINS_MAX: usize = 64;

/// The errors of replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicationError {
    /// A server cannot be reached, or the connection to it is lost. Trying again may help.
    Connection(String),
    /// The primary's stream is invalid. Trying again may help.
    Stream(String),
    /// A replica differs from the primary. It must be refilled.
    Differs(String),
    /// The operator must act, as the text describes.
    Setup(String),
}

impl std::fmt::Display for ReplicationError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplicationError::Connection(text)
            | ReplicationError::Stream(text)
            | ReplicationError::Differs(text)
            | ReplicationError::Setup(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for ReplicationError {}

impl From<tokio_postgres::Error> for ReplicationError {
    fn from(error: tokio_postgres::Error) -> ReplicationError {
        ReplicationError::Connection(described(&error))
    }
}

impl From<io::Error> for ReplicationError {
    fn from(error: io::Error) -> ReplicationError {
        ReplicationError::Stream(error.to_string())
    }
}

/// Returns an error with the server's report.
fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(reported) => format!("{} ({})", reported.message(), reported.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

/// The state that all parts share.
#[derive(Clone)]
struct Shared {
    primary: Address,
    manager: Arc<Mutex<FreshnessManager>>,
    analyser: Arc<Analyser>,
    /// Up to where each replica has everything on disk.
    durable: Arc<Mutex<BTreeMap<ReplicaId, Tsid>>>,
    status: Arc<Mutex<BTreeMap<ReplicaId, ReplicaStatus>>>,
    /// How often each replica was compared and found equal.
    compared: Arc<Mutex<BTreeMap<ReplicaId, u64>>>,
    compare_now: Arc<Notify>,
    /// The size of the WAL that the primary retains for the slot.
    retained_wal: Arc<Mutex<RetainedWal>>,
    /// Whether every replica is known that the primary keeps its log for.
    knows_all: Arc<AtomicBool>,
    /// Connections that execute at one replica.
    replay_connections: u16,
    /// Commits that one of them executes as one transaction, at most.
    replay_group: u16,
    /// The store of commits for offline replicas, if there is one.
    buffer: Option<Arc<TransactionsBuffer>>,
    /// The events of replicas in the log.
    events: Arc<EventLog>,
    /// The epoch of this proxy, and whether it is the active one.
    epoch: u64,
    lease: Lease,
    joins: mpsc::Sender<JoinRequest>,
    /// Where its tasks run: the caller that adds a replica may be served elsewhere.
    tasks: Handle,
}

impl Shared {
    fn manager(&self) -> MutexGuard<'_, FreshnessManager> {
        locked(&self.manager)
    }

    fn durable(&self) -> MutexGuard<'_, BTreeMap<ReplicaId, Tsid>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns from where on the primary's log is needed by a server that has no other source; none
    /// if it is not. An offline replica that gets its missing commits from the transactions buffer
    /// does not need it, unless another proxy waits that does not have this buffer. Then it needs
    /// the commits that the slot still has, which are those after `slot`.
    fn needed(&self, slot: Tsid) -> Option<Tsid> {
        let unavailable: BTreeSet<ReplicaId> = {
            let manager = self.manager();
            let all = manager.replicas();
            let unavailable = all.filter(|(_, replica)| replica.state == ReplicaState::Unavailable);
            unavailable.map(|(id, _)| id).collect()
        };
        let durable = self.durable();
        match &self.buffer {
            Some(buffer) => {
                let is_for_all = buffer.is_for_all() || !self.lease.has_standby();
                let slot = (!is_for_all).then_some(slot);
                buffer.with_pages(|pages| {
                    handover::forgettable(&durable, &unavailable, (pages, slot))
                })
            }
            None => handover::forgettable(&durable, &unavailable, (None, None)),
        }
    }

    fn compared(&self) -> MutexGuard<'_, BTreeMap<ReplicaId, u64>> {
        let compared = self.compared.lock();
        compared.unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> MutexGuard<'_, BTreeMap<ReplicaId, ReplicaStatus>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a replica's status, for people and for the log.
    fn set_status(&self, id: ReplicaId, text: &str) {
        if text != CONNECTING {
            self.report(Level::Info, id, text);
        }
        self.set_progress(id, text, None);
    }

    fn report(&self, level: Level, id: ReplicaId, text: &str) {
        self.events.report(level, "replica", Some(id), text);
    }

    fn set_progress(&self, id: ReplicaId, text: impl Into<String>, progress: Option<TaskProgress>) {
        let text = text.into();
        self.status().insert(id, ReplicaStatus { text, progress });
    }
}

/// The replication from one primary. It runs until it is dropped.
pub struct Replication {
    shared: Shared,
    reader: JoinHandle<()>,
    buffer: Option<JoinHandle<()>>,
    replicas: Mutex<BTreeMap<ReplicaId, JoinHandle<()>>>,
    ledger: ConnectionLedger,
    register: ReplicaRegister,
    leadership: Mutex<Option<ProxyLeadership>>,
}

/// A started replication, and the two objects that it shares with routing.
pub struct StartedReplication {
    /// The running tasks of replication.
    pub replication: Replication,
    /// The manager. Replication reports the replicas' positions to it, and routing reads them.
    pub manager: Arc<Mutex<FreshnessManager>>,
    /// The analyser of statements. Replication updates its catalogue.
    pub analyser: Arc<Analyser>,
}

/// The way in which a new replica uses the data that its database already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingData {
    /// If the database was a replica, it continues from there. Otherwise it must be empty.
    Kept,
    /// The data are dropped first.
    Dropped,
    /// The database is a standby of the primary, and is promoted first.
    Converted,
}

/// The way in which a new replica gets its data.
#[derive(Clone, Debug)]
pub struct ReplicaIntake {
    /// The way in which the replica uses the data that its database already has.
    pub contents: ExistingData,
    /// The replica to copy if it must be filled; none copies the primary.
    pub seed: Option<Address>,
}

impl From<ExistingData> for ReplicaIntake {
    fn from(contents: ExistingData) -> ReplicaIntake {
        ReplicaIntake {
            contents,
            seed: None,
        }
    }
}

/// The settings of a replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationSettings {
    /// The number of connections to each replica that execute commits.
    pub replay_connections: u16,
    /// The largest number of waiting commits that one connection executes as one transaction.
    pub replay_group: u16,
    /// The buffer of commits for offline replicas; none if there is none.
    pub buffer: Option<buffer::BufferOptions>,
}

impl Default for ReplicationSettings {
    fn default() -> ReplicationSettings {
        ReplicationSettings {
            replay_connections: REPLAY_CONNECTIONS_DEFAULT,
            replay_group: REPLAY_GROUP_DEFAULT,
            buffer: None,
        }
    }
}

impl Replication {
    /// Waits until this proxy is active, then does the same as [`Replication::begin`].
    pub async fn start(
        primary: &Address,
        settings: &ReplicationSettings,
    ) -> Result<StartedReplication, ReplicationError> {
        let leadership = Replication::acquire_leadership(primary, |_| {}).await?;
        Replication::begin(primary, settings, leadership).await
    }

    /// Waits until this proxy is active, however long another one is. `waits` gets the name of that
    /// proxy, whenever it changes. Fails at once if the primary is not set up for replication.
    pub async fn acquire_leadership(
        primary: &Address,
        waits: impl FnMut(&str),
    ) -> Result<ProxyLeadership, ReplicationError> {
        let client = connect(primary, "replex set-up").await?;
        setup::check(&client).await?;
        drop(client);
        leadership::acquire(primary, waits).await
    }

    /// Prepares the primary, reads its catalogue and begins to read its slot.
    pub async fn begin(
        primary: &Address,
        settings: &ReplicationSettings,
        leadership: ProxyLeadership,
    ) -> Result<StartedReplication, ReplicationError> {
        assert!(
            settings.replay_connections > 0,
            "at least one connection executes"
        );
        assert!(settings.replay_group > 0, "something has to be executed");
        let primary = primary.clone();
        let client = connect(&primary, "replex set-up").await?;
        // All that others have committed is before this place, as they are fenced.
        let (key, floor) = setup::prepare(&client).await?;
        let analyser = Arc::new(Analyser::new(catalogue::read(&client).await?.catalogue));
        let manager = FreshnessManager::new(key, leadership.epoch, floor);
        let manager = Arc::new(Mutex::new(manager));
        let (joins, joined) = mpsc::channel(JOINS_MAX);
        let shared = Shared {
            primary,
            manager: Arc::clone(&manager),
            analyser: Arc::clone(&analyser),
            durable: Arc::default(),
            status: Arc::default(),
            compared: Arc::default(),
            compare_now: Arc::default(),
            retained_wal: Arc::default(),
            knows_all: Arc::default(),
            replay_connections: settings.replay_connections,
            replay_group: settings.replay_group,
            events: Arc::default(),
            buffer: settings
                .buffer
                .clone()
                .map(|options| Arc::new(TransactionsBuffer::new(options))),
            epoch: leadership.epoch,
            lease: leadership.lease.clone(),
            joins,
            tasks: Handle::current(),
        };
        let reader = tokio::spawn(SlotReader::new(shared.clone(), joined).run());
        let buffer = shared.buffer.clone();
        let buffer = buffer.map(|buffer| tokio::spawn(buffer.keep(shared.clone())));
        let replication = Replication {
            shared,
            reader,
            buffer,
            replicas: Mutex::default(),
            ledger: leadership.ledger.clone(),
            register: leadership.register.clone(),
            leadership: Mutex::new(Some(leadership)),
        };
        Ok(StartedReplication {
            replication,
            manager,
            analyser,
        })
    }

    /// Returns the lease of this proxy.
    pub fn lease(&self) -> &Lease {
        &self.shared.lease
    }

    /// Returns the proxy's epoch, which is higher than the epoch of every earlier proxy.
    pub fn epoch(&self) -> u64 {
        self.shared.epoch
    }

    /// Returns the ledger that records clients' connections to the primary.
    pub fn ledger(&self) -> &ConnectionLedger {
        &self.ledger
    }

    /// Returns the register of replicas that operators add. The next active proxy reads it.
    pub fn register(&self) -> &ReplicaRegister {
        &self.register
    }

    /// Ends the replication, so that another proxy can become active at once.
    pub async fn give_up(&self) {
        let leadership = self.leadership.lock();
        let leadership = leadership.unwrap_or_else(PoisonError::into_inner).take();
        self.stop();
        if let Some(leadership) = leadership {
            leadership.give_up().await;
        }
    }

    fn stop(&self) {
        self.reader.abort();
        if let Some(buffer) = &self.buffer {
            buffer.abort();
        }
        for replica in self.replicas().values() {
            replica.abort();
        }
    }

    /// Adds a replica: fills it if its database is empty, and keeps it up to date. Its number must
    /// be new.
    ///
    /// Returns at once; [`Replication::status`] shows the progress.
    pub fn add_replica(&self, id: ReplicaId, replica: &Address, intake: impl Into<ReplicaIntake>) {
        let (replica, intake) = (replica.clone(), intake.into());
        // Holds the slot from now on.
        self.shared.durable().insert(id, Tsid(0));
        self.shared.manager().add_replica(id);
        let keep = keep(self.shared.clone(), id, replica, intake);
        let keep = self.shared.tasks.spawn(keep);
        let before = self.replicas().insert(id, keep);
        assert!(before.is_none(), "a number is used once");
    }

    /// Lets the primary retain its WAL only for the present replicas, or not at all if there are
    /// none. All replicas from before must have been added.
    pub fn knows_all(&self) {
        self.shared.knows_all.store(true, Ordering::Release);
    }

    /// Removes a replica. Its database stays as it is.
    pub async fn remove_replica(&self, id: ReplicaId) {
        let keep = self.replicas().remove(&id);
        if let Some(keep) = keep {
            keep.abort();
            // Only once it has ended does it report nothing any more. It fails since it was
            // aborted.
            let _ = keep.await;
        }
        self.shared.manager().remove_replica(id);
        self.shared.durable().remove(&id);
        self.shared.compared().remove(&id);
        self.shared.status().remove(&id);
        self.shared.events.forget(id);
    }

    /// Returns the status of each replica, for people.
    pub fn status(&self) -> BTreeMap<ReplicaId, ReplicaStatus> {
        self.shared.status().clone()
    }

    /// Returns the position up to which each replica has everything on disk.
    pub fn durable(&self) -> BTreeMap<ReplicaId, Tsid> {
        self.shared.durable().clone()
    }

    /// Returns the status of the transactions buffer, if there is one.
    pub fn buffer(&self) -> Option<buffer::BufferStatus> {
        Some(self.shared.buffer.as_ref()?.status())
    }

    /// Returns the size of the WAL that the primary retained for the slot at the last check.
    pub fn retained_wal(&self) -> RetainedWal {
        *self
            .shared
            .retained_wal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares every replica with the primary now, instead of at the next regular time.
    pub fn compare_now(&self) {
        self.shared.compare_now.notify_waiters();
    }

    /// Returns for each replica how many comparisons found it equal to the primary.
    pub fn compared(&self) -> BTreeMap<ReplicaId, u64> {
        self.shared.compared().clone()
    }

    fn replicas(&self) -> MutexGuard<'_, BTreeMap<ReplicaId, JoinHandle<()>>> {
        let replicas = self.replicas.lock();
        replicas.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Replication {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Keeps one replica until it differs from the primary.
async fn keep(shared: Shared, id: ReplicaId, replica: Address, intake: ReplicaIntake) {
    let ReplicaIntake { mut contents, seed } = intake;
    let mut wait = RETRY_WAIT_MIN;
    loop {
        let followed = async {
            match contents {
                ExistingData::Kept => {}
                ExistingData::Dropped => {
                    shared.set_status(id, "emptying its database");
                    quarantine::empty(&shared, &replica).await?;
                }
                ExistingData::Converted => convert::convert(&shared, id, &replica).await?,
            }
            contents = ExistingData::Kept;
            follow(&shared, id, (&replica, seed.as_ref()), &mut wait).await
        };
        let problem = match followed.await {
            Ok(()) => ReplicationError::Connection("the slot's reader dropped it".into()),
            Err(problem) => problem,
        };
        let level = match problem {
            ReplicationError::Connection(_) | ReplicationError::Stream(_) => Level::Warn,
            ReplicationError::Differs(_) | ReplicationError::Setup(_) => Level::Error,
        };
        shared.report(level, id, &problem.to_string());
        shared.set_progress(id, problem.to_string(), None);
        match problem {
            ReplicationError::Connection(_) | ReplicationError::Stream(_) => {
                shared.manager().set_state(id, ReplicaState::Unavailable);
            }
            ReplicationError::Differs(why) => {
                leave(&shared, id);
                // It may be offline just now; it must not count as an equal when it is back.
                while quarantine::note(&replica, &why).await.is_err() {
                    tokio::time::sleep(RETRY_WAIT_MAX).await;
                }
                return;
            }
            ReplicationError::Setup(_) => {
                leave(&shared, id);
                return;
            }
        }
        tokio::time::sleep(wait).await;
        wait = RETRY_WAIT_MAX.min(wait * 2);
    }
}

/// Drops all waits for a replica that serves nothing until an operator acts.
fn leave(shared: &Shared, id: ReplicaId) {
    shared.manager().set_state(id, ReplicaState::Quarantined);
    shared.durable().remove(&id);
}

/// Refuses a replica that has all commits up to `applied`, where no source has all later ones.
fn refuse_gap(shared: &Shared, applied: Tsid, confirmed: Tsid) -> Result<(), ReplicationError> {
    let buffer = shared.buffer.as_ref();
    let is_kept = buffer.is_some_and(|buffer| buffer.covers(applied));
    if is_kept || applied >= confirmed {
        return Ok(());
    }
    let remedy = match buffer {
        Some(buffer) if buffer.until().is_none() => {
            let text = "the commits that it has missed may be in the transactions buffer, which is not reached yet";
            return Err(ReplicationError::Connection(text.into()));
        }
        Some(_) => "remove it and add it again with EMPTY",
        None => {
            "give --buffer, if there was a transactions buffer that has kept them, or remove it and add it again \
             with EMPTY"
        }
    };
    Err(ReplicationError::Setup(format!(
        "the primary's slot has gone past this replica's position, and the commits between are lost to it: {remedy}"
    )))
}

/// Brings one replica up, from its seed or from the primary, and follows the slot, until something
/// goes wrong.
async fn follow(
    shared: &Shared,
    id: ReplicaId,
    (replica, seed): (&Address, Option<&Address>),
    wait: &mut Duration,
) -> Result<(), ReplicationError> {
    shared.set_status(id, CONNECTING);
    let control = connect(replica, fence::EXTRACTOR).await?;
    let primary = connect(&shared.primary, "replex set-up").await?;
    if standby::is_one(&control).await? {
        return standby::follow(shared, id, (&primary, &control), wait).await;
    }
    let line = lineage::line(&primary).await?;
    if lineage::has_replaced(&control, &line).await? {
        // From now on, no other server sees the writes of a client of the old primary.
        shared.lease.end();
        return Err(lineage::replaced("this replica"));
    }
    quarantine::refuse_primary(&primary, &control).await?;
    if let Some(why) = quarantine::noted(&control).await? {
        return Err(ReplicationError::Setup(format!(
            "it was found to differ from the primary ({why}): remove it and add it again with EMPTY"
        )));
    }
    if setup::applied(&control).await?.is_none() {
        seed::refuse_tables(&control).await?;
    }
    fence::raise(&control, shared.epoch).await?;
    lineage::keep_to_line(&control, &line).await?;
    let life = setup::begin_life(&control).await?;
    let start = match setup::applied(&control).await? {
        Some(start) => {
            setup::flush(&control).await?;
            start
        }
        None => {
            let filling = ReplicaFill {
                shared,
                id,
                replica,
                control: &control,
            };
            filling.fill(seed).await?
        }
    };
    refuse_gap(shared, start.applied, setup::confirmed(&primary).await?)?;
    // Its disk may have fewer commits than were known of it before its connection broke.
    shared.manager().connected(id, life, start.applied);
    shared.durable().insert(id, start.applied);
    let (commits, received) = mpsc::channel(extractor::QUEUE_LENGTH_MAX);
    let given = buffer::delivery::deliver(shared, id, start.applied, commits);
    *wait = RETRY_WAIT_MIN;
    let (requests, requested) = mpsc::channel(1);
    let inputs = extractor::ExtractorInputs {
        commits: received,
        requests: requested,
    };
    tokio::select! {
        ended = extractor::run(shared, id, replica, (control, start), inputs) => ended,
        difference = divergence::watch(shared, id, replica, requests) => Err(difference),
        given = given => given.map(|never| match never {}),
    }
}

/// Connects for the proxy's own work, with TLS as the address states. The connection's task ends
/// with the client.
pub async fn connect(address: &Address, name: &str) -> Result<Client, ReplicationError> {
    connect_with_notices(address, name, |_| {}).await
}

/// Connects in the same way. Notices are passed on before the answer to which they belong.
pub async fn connect_with_notices(
    address: &Address,
    name: &str,
    on_notice: impl Fn(DbError) + Send + 'static,
) -> Result<Client, ReplicationError> {
    let mut config = Config::new();
    config
        .user(&address.user)
        .dbname(&address.database)
        .application_name(name)
        // Whether there is TLS is decided already. This has the library ask the stream for its
        // channel binding.
        .ssl_mode(SslMode::Require)
        .ssl_negotiation(SslNegotiation::Direct);
    if let Some(password) = &address.password {
        config.password(password);
    }
    let connected = timeout(CONNECT_MAX, async {
        let stream = connection::connect(address).await;
        let stream = stream.map_err(|error| ReplicationError::Connection(error.to_string()))?;
        Ok::<_, ReplicationError>(config.connect_raw(stream, KeepStream).await?)
    });
    let silent = |_| ReplicationError::Connection("it does not answer".into());
    let (client, mut connection) = connected.await.map_err(silent)??;
    // The client's user gets the error that ends the connection.
    tokio::spawn(async move {
        while let Some(Ok(reported)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = reported {
                on_notice(notice);
            }
        }
    });
    Ok(client)
}

/// Leaves a stream to a server as it is: with TLS, or without.
struct KeepStream;

impl TlsConnect<Stream> for KeepStream {
    type Stream = Stream;
    type Error = Infallible;
    type Future = Ready<Result<Stream, Infallible>>;

    fn connect(self, stream: Stream) -> Self::Future {
        ready(Ok(stream))
    }
}
