//! The relay of one session: it moves bytes between the client, the session's machine and the
//! server.
//!
//! Memory per session is bounded: the relay reads nothing for a peer that does not read its own
//! messages.

mod batch_plan;
mod cancels;
mod changes;
mod ending;
mod held_answers;
mod notices;
mod processes;
mod replica_reads;
mod server_place;
mod snapshot;
mod waiting;
mod watched;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Buf;
use tokio::sync::Semaphore;
use tokio::task::unconstrained;

use self::batch_plan::BatchPlan;
use self::cancels::CancelRoute;
use self::held_answers::HeldAnswers;
use self::processes::RelayProcesses;
use self::server_place::ServerPlace;
use super::Proxy;
use super::cancel::{CancelEntry, CancelGoal};
use super::clients::{self, ConnectedClient};
use super::login::SessionStart;
use super::proxy_role::{self, SessionServers};
use super::router::SessionRouter;
use super::routing::{ChosenReplica, Routing, RoutingReason};
use super::server_settings::{IsolationLevel, ServerSettings};
use super::spinning;
use pg_analysis::effect::GRAMMAR;
use pg_connect::stream::BufferedStream;
use pg_wire::Malformed;
use pg_wire::framing::{MessageCutter, MessageSender, StreamPiece, WHOLE_LEN_MAX};
use pg_wire::message;
use pg_wire::report::{Report, Severity};
use pg_wire::startup::CancelKey;
use proxy_core::freshness::{ConsistencyLevel, FreshnessManager, ReadWatch, ReplicaId};
use proxy_core::server::ReportedParameters;
use proxy_core::session::{
    AfterTransaction, AttachedServer, Attachment, BatchTransaction, ClientPart, PeerOutput,
    ReplicaRead, Session, SessionAction, SessionEnding, SessionEvent, SessionOptions,
    SettingChanges, SnapshotScope,
};
use proxy_core::writes::SessionWrites;
use proxy_pool::{Connection, KnownSettings, ServerLogin};
use replication::leadership::lease::BootTime;

/// Bytes that may wait for a peer before nothing more is read for it.
const OUTPUT_LEN_MAX: usize = 256 * 1024;

/// How often the relay checks whether replicas have a commit for which an answer waits.
const HELD_INTERVAL: Duration = Duration::from_millis(1);

/// A client that sends nothing for this long in the middle of a batch may wait for an error, which
/// the server sends without a Sync.
const GATHERING_MAX: Duration = Duration::from_millis(50);

/// Bytes of a client that are read ahead, at most: one whole message, and the bytes that came with
/// it.
const INPUT_LEN_MAX: usize = WHOLE_LEN_MAX;

/// How long a session waits for a peer when it ends.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// The classes of SQLSTATEs of a setting's value that cannot be had.
const OF_SETTINGS: [&str; 2] = ["22", "42"];

/// SQLSTATE: a peer's messages violate the protocol.
const PROTOCOL_VIOLATION: &str = "08P01";
/// SQLSTATE: the connection to a server is lost, or of no use any more.
const CONNECTION_FAILURE: &str = "08006";
/// SQLSTATE: a session was idle in a transaction for too long.
const IDLE_IN_TRANSACTION: &str = "25P03";

/// A client's session and its sockets.
struct Relay<'a> {
    servers: &'a SessionServers,
    /// Ready when another proxy is the active one. Once polled, it wakes the session.
    lost: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    /// It was polled.
    is_woken_when_lost: bool,
    /// None if there are no replicas of the session's database.
    routing: Option<&'a Routing>,
    client: BufferedStream,
    cutter: MessageCutter,
    /// The client has sent all it will send.
    client_ended: bool,
    session: Session,
    /// The session's settings on every server now, and its initial ones.
    server_settings: ServerSettings,
    at_login: ServerSettings,
    /// Settings kept once for all sessions.
    known: &'a KnownSettings,
    /// Replicas that do not take its settings.
    unfit: Vec<ReplicaId>,
    login: ServerLogin,
    entry: CancelEntry<'a>,
    /// Processes that it has lent to other sessions, or borrowed.
    processes: RelayProcesses<'a>,
    /// How long a read waits for a replica, at most.
    wait_max: Duration,
    /// Permits for further waiting reads.
    waiting: &'a Semaphore,
    /// The session's entry in the list of clients, which operators see.
    visit: clients::ClientEntry<'a>,
    /// Where cancel requests go while a server is attached.
    cancels: CancelRoute,
    /// The server that is attached, and where it is.
    connection: Option<Box<Connection>>,
    place: ServerPlace,
    /// Watches the read that runs there, if it may be torn.
    watch: Option<ReadWatch>,
    /// The primary's, while a read of its transaction runs at a replica.
    kept: Option<Box<Connection>>,
    writes: SessionWrites,
    held: HeldAnswers,
    /// Since when no replica serves, as far as this session knows.
    none_serves: Option<BootTime>,
    /// The bytes that wait for the client may come from a replica.
    has_read: bool,
    /// A part of the bytes for the client was sent.
    is_cut: bool,
    out: PeerOutput,
}

/// Why a session ends.
enum SessionEnd {
    /// The client has closed the connection, or sent Terminate.
    Client,
    /// The client gets the error.
    Reported(Report),
    /// The connection to the server has ended. The server has sent the reason itself, or no client
    /// is left to receive it.
    Server,
    /// The connection to the server is lost.
    Lost(Option<io::Error>),
}

/// Relays a session from its first message to its last.
pub async fn run(
    proxy: &Arc<Proxy>,
    peer: BufferedStream,
    address: Option<SocketAddr>,
    start: SessionStart,
) {
    let SessionStart {
        minor,
        server_settings,
        login,
        servers,
        parameters,
        permit: _logged_in,
    } = start;
    let entry = proxy.cancels.enter(minor);
    let out = welcomed(&parameters, &entry.key);
    let number = proxy.session_number();
    let client = ConnectedClient {
        user: server_settings.key.user.clone(),
        database: server_settings.key.database.clone(),
        address,
        since: Instant::now(),
        batches: AtomicU64::default(),
        server: Mutex::default(),
    };
    let routing = servers.routing_of(&server_settings.key.database);
    let lease = servers.routing.as_ref().map(|routing| &routing.lease);
    let session = Session::new(SessionOptions {
        number,
        process: entry.key.process,
        parameters,
        pinning: proxy.pinning,
        grammar: GRAMMAR,
        snapshots: routing.and_then(|_| snapshots(server_settings.isolation)),
    });
    let mut relay = Relay {
        // Unconstrained: tokio's budget must not make it look pending.
        lost: lease.map(|lease| Box::pin(unconstrained(lease.ended())) as _),
        is_woken_when_lost: false,
        servers: &servers,
        routing,
        client: peer,
        cutter: MessageCutter::new(MessageSender::Client),
        client_ended: false,
        session,
        at_login: server_settings.clone(),
        server_settings,
        known: &proxy.known,
        unfit: Vec::new(),
        login,
        processes: RelayProcesses::new(&proxy.processes, entry.key.process),
        entry,
        wait_max: proxy.options.wait_max,
        waiting: &proxy.waiting,
        visit: proxy.visitors.enter(number, client),
        cancels: CancelRoute::Lead,
        connection: None,
        place: servers.primary_place(),
        watch: None,
        kept: None,
        writes: SessionWrites::default(),
        held: HeldAnswers::Nothing,
        none_serves: None,
        has_read: false,
        is_cut: false,
        out,
    };
    let end = relay.serve().await;
    relay.end(end).await;
}

/// Returns the snapshots of transactions that need not begin on a server; none where they must.
fn snapshots(isolation: IsolationLevel) -> Option<SnapshotScope> {
    match isolation {
        IsolationLevel::ReadCommitted => Some(SnapshotScope::OfStatements),
        IsolationLevel::RepeatableRead => Some(SnapshotScope::OfTransaction),
        IsolationLevel::Serializable => None,
    }
}

/// Returns the messages to a client that has logged in.
fn welcomed(parameters: &ReportedParameters, key: &CancelKey) -> PeerOutput {
    let mut out = PeerOutput::default();
    message::write(&mut out.to_client, b'R', &[&0_u32.to_be_bytes()], 0);
    for (name, value) in parameters.iter() {
        message::write(&mut out.to_client, b'S', &[name, b"\0", value, b"\0"], 0);
    }
    let process = key.process.to_be_bytes();
    message::write(&mut out.to_client, b'K', &[&process, &key.secret], 0);
    message::write_ready(&mut out.to_client, b'I');
    out
}

impl Relay<'_> {
    /// Relays until the session ends. Returns the reason for the end.
    async fn serve(&mut self) -> SessionEnd {
        loop {
            let moved = match self.process().await {
                Ok(()) => self.transfer().await,
                Err(end) => Err(end),
            };
            if let Err(end) = moved {
                return end;
            }
        }
    }

    /// Handles the messages that have been read, and carries out the session's next actions. Stops
    /// when a peer's output buffer is full.
    async fn process(&mut self) -> Result<(), SessionEnd> {
        self.lend_process().await?;
        self.name_processes().await;
        loop {
            self.read_server()?;
            self.lead_cancels().await;
            match self.session.next() {
                SessionAction::Exchange
                | SessionAction::Await
                | SessionAction::AwaitCheck
                | SessionAction::Gather => {}
                SessionAction::Pause => self.pause()?,
                SessionAction::Over(then) => self.finish(then).await?,
                SessionAction::Return => self.release(SettingChanges::Nothing).await?,
                SessionAction::Route(BatchTransaction::Waiting) => self.go_on().await?,
                SessionAction::Route(batch_in) => self.attach(batch_in).await?,
                SessionAction::End(ending) => return Err(ending.into()),
            }
            let is_more = self.read_client()?;
            // The batch that was just sent may be cancelled: if none of the proxy's own statements
            // runs before it, no answer comes first.
            self.lead_cancels().await;
            if !is_more {
                break;
            }
        }
        let is_over = self.client_ended && self.session.next().takes(ClientPart::Message);
        if is_over && self.out.to_client.is_empty() && self.out.to_server.is_empty() {
            return Err(SessionEnd::Client);
        }
        Ok(())
    }

    /// Handles the server's messages.
    fn read_server(&mut self) -> Result<(), SessionEnd> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let mut used = 0;
        while self.out.to_client.len() < OUTPUT_LEN_MAX {
            if connection.cutter.is_between_messages() {
                self.processes
                    .name_notifier(&mut connection.peer.input[used..]);
            }
            let input = &connection.peer.input[used..];
            let Some(piece) = connection.cutter.next(input).map_err(protocol_violation)? else {
                break;
            };
            used += length(&piece);
            let (watch, routing) = (&mut self.watch, self.routing);
            let event = SessionEvent::Server {
                piece,
                server: &mut connection.server,
                is_valid: &mut || match (watch.take(), routing) {
                    (Some(watch), Some(routing)) => !routing.manager().is_torn(&watch),
                    _ => true,
                },
            };
            let replied = self.session.step(event, &mut self.out);
            replied.map_err(protocol_violation)?;
        }
        connection.peer.input.advance(used);
        self.has_read |= used > 0 && self.place.replica.is_some();
        Ok(())
    }

    /// Handles the client's messages. Returns whether the session's next action is anything but to
    /// exchange messages.
    fn read_client(&mut self) -> Result<bool, SessionEnd> {
        let mut used = 0;
        let mut action = self.session.next();
        let mut router = SessionRouter {
            routing: self.routing,
            server_settings: &self.server_settings,
            place: self.place.replica,
            is_notified: false,
            writes: &mut self.writes,
        };
        while self.out.to_server.len() < OUTPUT_LEN_MAX {
            let is_rest = !self.cutter.is_between_messages() && action.takes(ClientPart::Rest);
            if !is_rest && !action.takes(ClientPart::Message) {
                break;
            }
            let bytes = &self.client.input[used..];
            let Some(piece) = self.cutter.next(bytes).map_err(violation)? else {
                break;
            };
            used += length(&piece);
            let event = SessionEvent::Client {
                piece,
                server: self.connection.as_mut().map(|it| &mut it.server),
                router: &mut router,
            };
            let taken = self.session.step(event, &mut self.out);
            action = taken.map_err(violation)?;
            if !action.is_exchange() {
                break;
            }
        }
        self.client.input.advance(used);
        self.processes.advance(used);
        Ok(!action.is_exchange())
    }

    /// Finishes an answered batch without an open transaction: first the marks that must follow it
    /// on its server.
    async fn finish(&mut self, then: AfterTransaction) -> Result<(), SessionEnd> {
        let is_marking = self.mark().await?;
        match then {
            AfterTransaction::Release(changes) if !is_marking => self.release(changes).await,
            AfterTransaction::Release(_) | AfterTransaction::Keep => Ok(()),
        }
    }

    /// Handles the end of a transaction that may have written. Returns true if the server first
    /// runs the transaction's marks.
    async fn mark(&mut self) -> Result<bool, SessionEnd> {
        let (Some(routing), Some(connection)) = (self.routing, &mut self.connection) else {
            return Ok(false);
        };
        if self.writes.is_pending() {
            // A late request must not cancel the proxy's own statements.
            self.entry.leads_to(None).await;
            self.cancels = CancelRoute::GoNowhere;
        }
        let is_one_copy = self.session.settings().level == ConsistencyLevel::OneCopy;
        if is_one_copy && self.writes.is_pending() {
            self.held = HeldAnswers::Commits(self.writes.pending().collect());
        }
        let statements = self.writes.ended(|| routing.manager());
        if statements.is_empty() {
            return Ok(false);
        }
        let event = SessionEvent::Run {
            statements: &statements,
            server: &mut connection.server,
        };
        let runs = self.session.step(event, &mut self.out);
        runs.map(|_| true).map_err(violation)
    }

    /// Chooses a server for the session's held batch, takes a connection to it, and sends the
    /// batch.
    async fn attach(&mut self, batch_in: BatchTransaction) -> Result<(), SessionEnd> {
        // It may take a while: the client gets its finished answers first.
        self.flush_client().await?;
        let planned = match batch_in {
            BatchTransaction::Snapshot => self.plan_snapshot().await,
            _ => self.plan_or_wait(batch_in).await,
        };
        let attached = match planned {
            Ok(mut plan) => {
                let taken = self.take(&mut plan, batch_in).await;
                taken.map(|taken| (plan, taken))
            }
            Err(report) => Err(report),
        };
        let (mut plan, (place, mut connection)) = match attached {
            Ok(attached) => attached,
            Err(report) => {
                let refused = self
                    .session
                    .step(SessionEvent::Refuse(&report), &mut self.out);
                return refused.map(drop).map_err(violation);
            }
        };
        self.notify_route(&plan.reason, &plan.touches);
        let goal = CancelGoal::Server(Arc::clone(&place.node), connection.cancel_key.clone());
        self.entry.leads_to(Some(goal)).await;
        // There is no await from here to the end: a Pending commit has a connection, and ends with
        // it.
        if let (Some(writes), Some(routing)) = (&plan.writes, self.routing) {
            let (touched, is_inside) = &**writes;
            self.writes.note(touched, *is_inside, || routing.manager());
        }
        self.visit.count_route(place.replica, plan.reason.summary);
        if place.replica.is_none() {
            self.processes.uses(&connection);
        }
        self.servers.count(&place, FreshnessManager::started);
        self.place = place;
        self.watch = None;
        let chosen = plan.replica.take().filter(|_| self.place.replica.is_some());
        let at = match chosen {
            None => AttachedServer::Primary,
            Some(chosen) => {
                let numbers = self.numbers_there(&chosen, batch_in, &plan.named, &mut connection);
                let numbers = numbers.await;
                match batch_in {
                    BatchTransaction::Snapshot => AttachedServer::Snapshot(numbers),
                    _ => AttachedServer::Replica(ReplicaRead {
                        proof: self.watches(chosen),
                        numbers,
                        prepared_form: plan.prepared_form,
                    }),
                }
            }
        };
        self.connection = Some(connection);
        self.attaches(Attachment {
            at,
            prelude: plan.prelude,
            is_schema_only: plan.is_schema_only,
        })?;
        self.hold_cancels().await;
        Ok(())
    }

    /// Returns a connection for a plan; if a replica has none, the primary's.
    async fn take(
        &mut self,
        plan: &mut BatchPlan,
        batch_in: BatchTransaction,
    ) -> Result<(ServerPlace, Box<Connection>), Report> {
        if let (Some(chosen), Some(routing)) = (&plan.replica, self.routing) {
            let mut taken = self.take_there(chosen, routing).await;
            if batch_in == BatchTransaction::Snapshot
                && let Ok(connection) = taken
            {
                taken = self.take_snapshot(chosen, connection, routing).await;
            }
            match taken {
                Ok(connection) => {
                    let place = chosen.place();
                    return Ok((place, connection));
                }
                Err(reason) => plan.reason = reason,
            }
        }
        let place = self.servers.primary_place();
        let key = &self.server_settings.key;
        let connection = match self.processes.take_lent(key) {
            Some(lent) => lent,
            None => place.node.take(key, &self.login).await?,
        };
        Ok((place, connection))
    }

    /// Returns a connection of the chosen replica. A new connection must reach the server life for
    /// which the replica was chosen. The server may have crashed meanwhile and lost commits, or
    /// another database may have its address by now.
    async fn take_there(
        &mut self,
        chosen: &ChosenReplica,
        routing: &Routing,
    ) -> Result<Box<Connection>, RoutingReason> {
        if self.unfit.contains(&chosen.id) {
            return Err(RoutingReason::primary(
                "the replica does not take its settings",
            ));
        }
        let node = &chosen.node;
        let key = self
            .server_settings
            .reads
            .of_database(&node.address.database);
        let taken = node.take_for_read(&key, &self.login, chosen.life).await;
        let connection = taken.map_err(|report| {
            if OF_SETTINGS
                .iter()
                .any(|class| report.code.starts_with(class))
            {
                self.unfit.push(chosen.id);
            }
            RoutingReason::unreachable(report)
        })?;
        if !routing.manager().has(chosen.id, chosen.need) {
            node.give_back(connection);
            return Err(RoutingReason::primary(
                "the replica has gone back meanwhile",
            ));
        }
        Ok(connection)
    }

    /// Sends the answer, and returns the connection to the pool unless the session must keep it.
    /// The transaction's statements may have changed whether it must.
    async fn release(&mut self, changes: SettingChanges) -> Result<(), SessionEnd> {
        self.answer_first().await?;
        // Waits for a cancel request that is under way.
        self.entry.leads_to(None).await;
        let action = match changes {
            SettingChanges::Nothing => self.session.next(),
            _ => self.read_settings(changes).await?,
        };
        if action.is_exchange() {
            if let Some(connection) = &self.connection {
                let key = connection.cancel_key.clone();
                let goal = CancelGoal::Server(Arc::clone(&self.place.node), key);
                self.entry.leads_to(Some(goal)).await;
            }
            return Ok(());
        }
        self.visit.leaves();
        if let Some(mut connection) = self.connection.take() {
            self.servers.count(&self.place, FreshnessManager::ended);
            if self.place.replica.is_none() && self.writes.take_run_anything() {
                // A function may have deallocated statements that others have prepared there.
                connection.server.outdate();
            }
            let is_lent = self.place.replica.is_none() && self.out.to_server.is_empty();
            let left = match is_lent {
                true => self.processes.keeps(connection),
                false => Some(connection),
            };
            if let Some(connection) = left {
                self.leave(connection);
            }
        }
        let released = self.session.step(SessionEvent::Released, &mut self.out);
        released.map_err(violation)?;
        self.return_to_primary().await;
        Ok(())
    }

    /// Gives a connection back to its server, or closes it if others must not have it.
    fn leave(&mut self, connection: Box<Connection>) {
        if self.out.to_server.is_empty() && !connection.server.is_dirty {
            self.place.node.give_back(connection);
        } else {
            self.out.to_server.clear();
            self.place.node.close(connection);
        }
    }

    /// Reads and writes as much as possible, and waits until there is something to handle: bytes
    /// were read, or there is place again for their results.
    async fn transfer(&mut self) -> Result<(), SessionEnd> {
        self.return_processes();
        let is_held = self.check_held();
        let is_gathering = self.session.next() == SessionAction::Gather;
        // A server ends others that are idle for too long.
        let idle_max = self.server_settings.idle_max;
        let idle_max = idle_max.filter(|_| self.session.is_idle_on_no_server());
        let transfer = poll_fn(|context| self.poll_transfer(is_held, context));
        let moved = match (is_held, is_gathering) {
            (true, _) => tokio::time::timeout(HELD_INTERVAL, transfer).await,
            (false, true) => {
                let moved = tokio::time::timeout(GATHERING_MAX, transfer).await;
                if moved.is_err() {
                    let routed = self.session.step(SessionEvent::Silence, &mut self.out);
                    routed.map_err(violation)?;
                }
                moved
            }
            (false, false) => match idle_max {
                None => Ok(transfer.await),
                Some(max) => match tokio::time::timeout(max, transfer).await {
                    Ok(moved) => Ok(moved),
                    Err(_) => return Err(idle_for_too_long()),
                },
            },
        };
        match moved.unwrap_or(Ok(())) {
            Err(SessionEnd::Lost(error)) => self.server_lost(error).await,
            moved => moved,
        }
    }

    fn poll_transfer(
        &mut self,
        is_held: bool,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SessionEnd>> {
        let mut has_moved = false;
        if self.servers.is_lost() {
            return Poll::Ready(Err(self.end_of_lost()));
        }
        if let Some(connection) = &mut self.connection {
            let peer = &mut connection.peer;
            let was_full = self.out.to_server.len() >= OUTPUT_LEN_MAX;
            while peer.has_to_write(&self.out.to_server)
                && let Poll::Ready(written) = peer.poll_write(context, &mut self.out.to_server)
            {
                has_moved |= was_full || self.client_ended;
                // Messages that the server sent before it closed are still read.
                if written.is_err() {
                    self.out.to_server.clear();
                    has_moved = true;
                    break;
                }
            }
            if self.out.to_client.len() < OUTPUT_LEN_MAX
                && let Poll::Ready(read) = peer.poll_read(context)
            {
                match read {
                    Ok(count) if count > 0 => has_moved = true,
                    read => return Poll::Ready(Err(SessionEnd::Lost(read.err()))),
                }
            }
        }
        let was_full = self.out.to_client.len() >= OUTPUT_LEN_MAX;
        while !is_held && self.client.has_to_write(&self.out.to_client) {
            if self.check_unproven() {
                // It is held from now on.
                has_moved = true;
                break;
            }
            match self.poll_proven(context) {
                Poll::Ready(Ok(())) => has_moved |= was_full || self.client_ended,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(SessionEnd::Client)),
                Poll::Pending => break,
            }
        }
        if !self.client_ended
            && self.client.input.len() < INPUT_LEN_MAX
            && let Poll::Ready(read) = self.client.poll_read(context)
        {
            match read {
                Ok(0) => self.client_ended = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(SessionEnd::Client)),
            }
            has_moved = true;
        }
        match self.processes.poll(context) {
            Poll::Ready(false) => return Poll::Ready(Err(self.ended_by_operator())),
            polled => has_moved |= polled.is_ready(),
        }
        if has_moved {
            spinning::moved();
            return Poll::Ready(Ok(()));
        }
        match self.poll_lost(context) {
            true => Poll::Ready(Err(self.end_of_lost())),
            false => Poll::Pending,
        }
    }

    /// Returns whether another proxy is the active one. From the first call on, that wakes the
    /// session, which then looks at the lease.
    fn poll_lost(&mut self, context: &mut Context<'_>) -> bool {
        let is_first = !std::mem::replace(&mut self.is_woken_when_lost, true);
        let lost = self.lost.as_mut().filter(|_| is_first);
        lost.is_some_and(|lost| lost.as_mut().poll(context).is_ready())
    }

    /// Returns the end of a session whose proxy is no longer the active one.
    fn end_of_lost(&self) -> SessionEnd {
        let connection = self.connection.as_ref();
        match connection.is_none_or(|it| it.cutter.is_between_messages()) {
            true => proxy_role::is_lost().into(),
            // Behind a part of a message nothing else is understood.
            false => SessionEnd::Server,
        }
    }

    /// Handles the loss of a server: a session outlives a replica, but not the primary's
    /// connection.
    async fn server_lost(&mut self, error: Option<io::Error>) -> Result<(), SessionEnd> {
        let Some(connection) = &self.connection else {
            return Err(SessionEnd::Server);
        };
        let is_cut = !connection.cutter.is_between_messages();
        let address = &self.place.node.address;
        let mut text = format!("the server at {address} closed the connection");
        if let Some(error) = error {
            text += &format!(": {error}");
        }
        let report = Report::new(Severity::Error, CONNECTION_FAILURE, text);
        let event = SessionEvent::ServerLost { report, is_cut };
        let lost = self.session.step(event, &mut self.out);
        if let SessionAction::End(ending) = lost.map_err(protocol_violation)? {
            return Err(ending.into());
        }
        self.visit.leaves();
        self.entry.leads_to(None).await;
        self.servers.count(&self.place, FreshnessManager::ended);
        if let Some(connection) = self.connection.take() {
            self.place.node.close(connection);
        }
        self.return_to_primary().await;
        Ok(())
    }
}

impl From<Report> for SessionEnd {
    fn from(report: Report) -> SessionEnd {
        SessionEnd::Reported(report.fatal())
    }
}

impl From<SessionEnding> for SessionEnd {
    fn from(ending: SessionEnding) -> SessionEnd {
        match ending {
            SessionEnding::Client => SessionEnd::Client,
            SessionEnding::Server => SessionEnd::Server,
            SessionEnding::Lost(report) => report.into(),
        }
    }
}

fn length(piece: &StreamPiece<'_>) -> usize {
    match piece {
        StreamPiece::Message(message) => message.frame.len(),
        StreamPiece::Rest(rest) => rest.len(),
    }
}

fn idle_for_too_long() -> SessionEnd {
    let text = "terminating connection due to idle-in-transaction timeout";
    SessionEnd::Reported(Report::new(Severity::Fatal, IDLE_IN_TRANSACTION, text))
}

fn violation(error: Malformed) -> SessionEnd {
    let text = error.to_string();
    SessionEnd::Reported(Report::new(Severity::Fatal, PROTOCOL_VIOLATION, text))
}

fn protocol_violation(error: Malformed) -> SessionEnd {
    let text = format!("the server does not keep to the protocol: {error}");
    SessionEnd::Reported(Report::new(Severity::Fatal, CONNECTION_FAILURE, text))
}
