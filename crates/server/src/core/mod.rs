//! The driver of one core: it passes inputs from sockets, log and clock to the machine, and carries
//! out the machine's output.
//!
//! In one turn (`turn`) the driver steps the machine with everything that has arrived, passes all
//! records to the log at once, and queues all messages that need not wait. Other messages wait for
//! the log in the outbox (`PeerSend::after`, `ClientReply::after`). Only the machine makes
//! decisions about data: this file must not inspect operations, rows or votes.

mod links;
mod outbox;
mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use machines::core::{ClientId, ClientReply, CoreInput, CoreMachine, CoreOutput, PeerSend};
use protocol::configuration::Configuration;
use protocol::frame::Frame;
use protocol::identity::{ClockReading, CoreId, Epoch, Incarnation, Position};
use protocol::message::{
    CoordinatorReply, CoordinatorRequest, FolderReport, Hello, Message, PeerMessage, RecallReport,
    Refusal, Reply, Request, Welcome,
};
use storage::log::LogAdmission;

use crate::clock::Clock;
use crate::error::ServerError;
use crate::event_loop::{ConnectionId, ConnectionMap, ConnectionSide, Handler, Io};
use crate::journal::{self, JournalLevel};
use crate::store::CoreStore;
use links::{CoordinatorLink, Peers};
use outbox::{DelayedMessage, Outbox};

/// The most replies, and the most bytes of rows in them, that a turn collects before it passes them
/// to their connections. Back-pressure on a connection is noticed only then.
const REPLIES_GATHERED_MAX: usize = 64;
const REPLY_BYTES_GATHERED_MAX: usize = 256 << 10;
/// The time between two log lines of a repeated failure, in microseconds.
const NOTE_PAUSE_US: u64 = 10_000_000;
/// The longest time for which a core that ends cleanly writes a checkpoint, so that the next start
/// is quick.
const CLOSING_CHECKPOINT_MAX: Duration = Duration::from_secs(5);

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remote {
    /// A process that has not sent `Hello` yet.
    Stranger,
    Client,
    /// A core that opened the connection to send messages.
    Peer(CoreId, Incarnation),
    /// A core to which this core opened the connection.
    Link(CoreId),
    Coordinator,
}

/// The driver of a core's machine, as the handler of an event loop.
pub struct CoreDriver<S> {
    machine: CoreMachine,
    store: S,
    clock: Clock,
    /// The time of this turn's steps, sampled at the first one.
    now: Option<ClockReading>,
    /// The output of the steps since the last execution.
    output: CoreOutput,
    reply_bytes: usize,
    outbox: Outbox,
    /// Messages of this core to itself.
    to_self: VecDeque<PeerMessage>,
    connections: ConnectionMap<Remote>,
    peers: Peers,
    coordinator: CoordinatorLink,
    /// The report that is sent to a coordinator that has lost its state.
    folder: FolderReport,
    configured: ConfigurationCallback,
    /// The machine knows that so much is durable.
    durable: Position,
    admission: LogAdmission,
    /// The epoch that the links follow.
    epoch: Epoch,
    deadline_us: Option<u64>,
    stopping: bool,
    failure: Option<ServerError>,
    noted_us: Option<u64>,
    steps: u64,
    refused_busy: u64,
    /// Records appended, turns with records, and rises of the durable position: the effect of
    /// batching.
    log_records: u64,
    log_records_submitted: u64,
    log_batches: u64,
    log_flushes: u64,
}

/// The surroundings of a core in its process.
pub struct CoreEnvironment {
    /// The process's clock.
    pub clock: Clock,
    /// The addresses of coordinators.
    pub coordinators: Vec<std::net::SocketAddr>,
    /// The report on the folder, with this process as its last one.
    pub folder: FolderReport,
    /// A function that is called with each configuration that the core receives.
    pub configured: ConfigurationCallback,
}

/// A function that is called with each new configuration.
pub type ConfigurationCallback = Box<dyn FnMut(&Arc<Configuration>) + Send>;

impl<S: CoreStore> CoreDriver<S> {
    /// Returns the driver of a core. Its machine must have been restored and have replayed its log,
    /// but not been started.
    ///
    /// # Errors
    /// The data that a start needs is unreadable.
    pub fn start(
        machine: CoreMachine,
        store: S,
        environment: CoreEnvironment,
    ) -> Result<Self, ServerError> {
        let CoreEnvironment {
            clock,
            coordinators,
            folder,
            configured,
        } = environment;
        let identity = machine.identity();
        let mut core = CoreDriver {
            peers: Peers::new(identity),
            coordinator: CoordinatorLink::new(identity, coordinators),
            folder,
            configured,
            durable: store.durable(),
            machine,
            store,
            clock,
            now: None,
            output: CoreOutput::default(),
            reply_bytes: 0,
            outbox: Outbox::default(),
            to_self: VecDeque::new(),
            connections: ConnectionMap::default(),
            admission: LogAdmission::Open,
            epoch: Epoch(0),
            deadline_us: Some(0),
            stopping: false,
            failure: None,
            noted_us: None,
            steps: 0,
            refused_busy: 0,
            log_records: 0,
            log_records_submitted: 0,
            log_batches: 0,
            log_flushes: 0,
        };
        let next = Position(core.durable.0 + 1);
        let now = core.clock.now();
        core.machine
            .start(now, next, core.store.tables(), &mut core.output)
            .map_err(|error| ServerError::Tables(error.to_string()))?;
        Ok(core)
    }

    /// Ends a core whose loop has ended: writes everything to disk.
    ///
    /// # Errors
    /// Not everything is durable.
    pub fn close(mut self) -> Result<Position, ServerError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.store.checkpoint_pays() {
            // A checkpoint under way lacks the later changes.
            self.store.finish_checkpoint(CLOSING_CHECKPOINT_MAX);
            self.machine.before_checkpoint(self.store.tables());
            self.store.checkpoint(self.machine.retain_from())?;
            self.store.finish_checkpoint(CLOSING_CHECKPOINT_MAX);
        }
        let last = self.machine.last_position();
        self.store.close().map(|()| last)
    }

    /// Steps the machine with an input. The machine adds its output to `self.output`.
    fn step(&mut self, input: CoreInput) {
        if self.failure.is_some() {
            return;
        }
        self.steps += 1;
        let now = *self.now.get_or_insert_with(|| self.clock.now());
        let before = self.output.replies.len();
        let tables = self.store.tables();
        if let Err(error) = self.machine.step(now, input, tables, &mut self.output) {
            // Memory no longer agrees with the log: nothing may go out any more.
            self.failure = Some(ServerError::Tables(error.to_string()));
        }
        for reply in &self.output.replies[before..] {
            if let Reply::Rows(page) = &reply.reply {
                self.reply_bytes += page.rows.len();
            }
        }
    }

    /// Carries out the machine's output: appends the records to the log, sends each message and
    /// reply whose `after` is durable, and keeps the others in the outbox.
    fn carry_out(&mut self, io: &mut Io) {
        loop {
            self.log_records += self.output.records.len() as u64;
            for record in self.output.records.drain(..) {
                if let Err(error) = self.store.append(&record) {
                    self.failure.get_or_insert(error);
                }
            }
            if self.failure.is_some() {
                // A vote or an answer must not outlive a record that is not there (R1).
                self.output = CoreOutput::default();
                return;
            }
            let mut sends = std::mem::take(&mut self.output.sends);
            for send in sends.drain(..) {
                if send.after <= self.durable {
                    self.send(io, send);
                } else {
                    self.outbox.push(DelayedMessage::Message(send));
                }
            }
            self.output.sends = sends;
            let mut replies = std::mem::take(&mut self.output.replies);
            let fresh_us = self.clock.monotonic_us();
            for reply in replies.drain(..) {
                if reply.after <= self.durable {
                    answer(io, reply, fresh_us);
                } else {
                    self.outbox.push(DelayedMessage::Reply(reply));
                }
            }
            self.output.replies = replies;
            self.reply_bytes = 0;
            for request in self.output.asks.drain(..) {
                self.coordinator.ask(io, request);
            }
            for note in self.output.notes.drain(..) {
                journal::line(JournalLevel::Info, "machine", &[("note", &note)]);
            }
            if let Some(deadline_us) = self.output.deadline_us.take() {
                self.deadline_us = Some(deadline_us);
            }
            if self.to_self.is_empty() {
                return;
            }
            // The steps so far may have taken long. A core that fills a partition from its own rows
            // measures its pages by this time, and pauses accordingly.
            self.now = None;
            while let Some(message) = self.to_self.pop_front() {
                let header = self.machine.header(&message);
                self.step(CoreInput::Peer { header, message });
            }
        }
    }

    fn send(&mut self, io: &mut Io, send: PeerSend) {
        let identity = self.machine.identity();
        if send.to == identity.core {
            self.to_self.push_back(send.message);
            return;
        }
        self.peers.want(send.to, self.machine.configuration());
        let header = self.machine.header(&send.message);
        self.peers.send(io, send.to, header, send.message);
    }

    fn on_hello(&mut self, io: &mut Io, id: ConnectionId, hello: &Hello) -> Result<(), String> {
        let identity = self.machine.identity();
        if let Some(cluster) = hello.cluster
            && cluster != identity.cluster
        {
            return Err(format!(
                "this is {} of cluster {:016x}, not of cluster {cluster:016x}: ask the coordinator \
                 of your cluster for its addresses",
                identity.core, identity.cluster
            ));
        }
        let remote = match hello.core {
            None => Remote::Client,
            Some((core, incarnation)) => Remote::Peer(core, incarnation),
        };
        self.connections.insert(id, remote);
        let welcome = Message::Welcome(Welcome {
            cluster: identity.cluster,
            core: Some((identity.core, identity.incarnation)),
            epoch: self.machine.epoch(),
        });
        io.send(id, 0, &welcome);
        Ok(())
    }

    fn on_request(&mut self, io: &mut Io, id: ConnectionId, correlation: u64, request: Request) {
        let refusal = match request {
            Request::Status => {
                let status = Reply::Status(self.counters(io));
                io.send(id, correlation, &Message::Reply(status));
                return;
            }
            _ if self.stopping => Some(Refusal::NotServing),
            Request::Execute(_) if self.admission == LogAdmission::Busy => {
                self.refused_busy += 1;
                Some(Refusal::Overloaded)
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            let reply = Message::Reply(Reply::Refused(refusal));
            io.send(id, correlation, &reply);
            return;
        }
        io.owe(id);
        self.step(CoreInput::Request {
            client: ClientId(id.0),
            correlation,
            request,
        });
        let gathered = self.output.replies.len();
        if gathered >= REPLIES_GATHERED_MAX || self.reply_bytes >= REPLY_BYTES_GATHERED_MAX {
            self.carry_out(io);
        }
    }

    fn on_welcome(
        &mut self,
        io: &mut Io,
        id: ConnectionId,
        remote: Remote,
        welcome: &Welcome,
    ) -> Result<(), String> {
        match remote {
            Remote::Link(core) => {
                self.peers.welcomed(core, id, welcome)?;
                self.step(CoreInput::PeerConnected { core });
                Ok(())
            }
            Remote::Coordinator => {
                self.coordinator.welcomed(io, welcome)?;
                Ok(())
            }
            Remote::Stranger | Remote::Client | Remote::Peer(..) => Err(unexpected("a Welcome")),
        }
    }

    fn on_answer(&mut self, io: &mut Io, reply: CoordinatorReply) -> Result<(), String> {
        if let CoordinatorReply::NewEpoch { epoch } = reply {
            self.step(CoreInput::NewEpoch(epoch));
            return Ok(());
        }
        self.coordinator.answered();
        match reply {
            CoordinatorReply::Beat {
                sent_us,
                epoch,
                lease_us,
                session_floor,
            } => self.step(CoreInput::Beat {
                sent_us,
                epoch,
                lease_us,
                session_floor,
            }),
            CoordinatorReply::Configuration(configuration) => {
                self.step(CoreInput::Configuration(Arc::new(configuration)));
            }
            CoordinatorReply::Changes(changes) => self.step(CoreInput::Changes(changes)),
            CoordinatorReply::Unchanged { .. } | CoordinatorReply::NewEpoch { .. } => {}
            CoordinatorReply::Recall => self.remember(io),
            CoordinatorReply::Refused { message, .. } => {
                self.complain(io, Remote::Coordinator, &message);
            }
            CoordinatorReply::Joined { .. }
            | CoordinatorReply::Session { .. }
            | CoordinatorReply::Done { .. }
            | CoordinatorReply::Wait { .. }
            | CoordinatorReply::Progress { .. } => {
                return Err("it answered a request that was not sent".to_owned());
            }
        }
        Ok(())
    }

    /// Sends what this core knows to a coordinator that has lost its state.
    fn remember(&mut self, io: &mut Io) {
        let identity = self.machine.identity();
        let configuration = Arc::clone(self.machine.configuration());
        let request = CoordinatorRequest::Remember(RecallReport {
            core: identity.core,
            incarnation: identity.incarnation,
            runs: true,
            folder: FolderReport {
                epoch: configuration.epoch,
                ..self.folder
            },
            session_floor: self.machine.session_floor(),
            configuration: Configuration::clone(&configuration),
        });
        self.coordinator.ask(io, request);
        let reason = "the coordinator's state is lost or an older copy: sending it the state that is known here";
        self.complain(io, Remote::Coordinator, reason);
    }

    /// Logs a message about a connection, unless one was logged a short time ago.
    fn complain(&mut self, io: &Io, remote: Remote, message: &str) {
        let noted = self
            .noted_us
            .is_some_and(|at| at + NOTE_PAUSE_US > io.now_us());
        if noted {
            return;
        }
        self.noted_us = Some(io.now_us());
        let core = self.machine.identity().core;
        let whose = match remote {
            Remote::Link(peer) | Remote::Peer(peer, _) => peer.to_string(),
            Remote::Coordinator => "coordinator".to_owned(),
            Remote::Client | Remote::Stranger => "client".to_owned(),
        };
        journal::line(
            JournalLevel::Warn,
            "connection_trouble",
            &[("core", &core), ("with", &whose), ("reason", &message)],
        );
    }

    fn counters(&self, io: &Io) -> Vec<(String, u64)> {
        let mut counters = self.machine.counters();
        let own = [
            ("connections", io.connections() as u64),
            (
                "clients",
                self.connections.count(|remote| *remote == Remote::Client) as u64,
            ),
            ("steps", self.steps),
            ("waiting_for_log", self.outbox.len() as u64),
            ("peer_messages_dropped", self.peers.dropped),
            ("refused_busy", self.refused_busy),
            ("log_durable", self.durable.0),
            ("log_records", self.log_records),
            ("log_batches", self.log_batches),
            ("log_flushes", self.log_flushes),
            ("recovering", u64::from(self.machine.is_recovering())),
        ];
        let named = own.into_iter().chain(io.counters().named());
        counters.extend(named.map(|(name, value)| (name.to_owned(), value)));
        counters.extend(self.store.counters());
        counters
    }
}

impl<S: CoreStore> Handler for CoreDriver<S> {
    fn opened(&mut self, _: &mut Io, id: ConnectionId, side: ConnectionSide) {
        if side == ConnectionSide::Accepted {
            self.connections.insert(id, Remote::Stranger);
        }
    }

    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String> {
        let Some(&remote) = self.connections.get(id) else {
            return Ok(());
        };
        match (remote, frame.message) {
            (Remote::Client, Message::Request(request)) => {
                self.on_request(io, id, frame.correlation, request);
                Ok(())
            }
            (Remote::Peer(core, incarnation), Message::Peer(header, message)) => {
                if (header.from, header.incarnation) != (core, incarnation) {
                    return Err(format!("{core} speaks in the name of {}", header.from));
                }
                self.step(CoreInput::Peer { header, message });
                Ok(())
            }
            (Remote::Stranger, Message::Hello(hello)) => self.on_hello(io, id, &hello),
            (Remote::Link(_) | Remote::Coordinator, Message::Welcome(welcome)) => {
                self.on_welcome(io, id, remote, &welcome)
            }
            (Remote::Coordinator, Message::Answer(reply)) => self.on_answer(io, reply),
            (Remote::Coordinator, Message::Leadership(leadership)) => {
                self.coordinator.redirected(leadership.leader.as_deref());
                io.close(id, "the coordinator that leads is looked for");
                Ok(())
            }
            (Remote::Stranger | Remote::Client, message @ Message::Echo(_)) => {
                io.send(id, frame.correlation, &message);
                Ok(())
            }
            (_, Message::Goodbye { reason }) => {
                if matches!(remote, Remote::Link(_) | Remote::Coordinator) {
                    self.complain(io, remote, &reason);
                }
                io.close(id, "as requested");
                Ok(())
            }
            (Remote::Stranger, _) => Err("the first frame must be a Hello".to_owned()),
            (_, message) => Err(unexpected(kind(&message))),
        }
    }

    fn closed(&mut self, io: &mut Io, id: ConnectionId, reason: &str) {
        match self.connections.remove(id) {
            Some(Remote::Client) => {
                let client = ClientId(id.0);
                self.step(CoreInput::ClientGone { client });
            }
            Some(Remote::Link(core)) => self.peers.broke(core, id, io.now_us()),
            Some(Remote::Coordinator) => {
                self.coordinator.broke(io.now_us());
                self.complain(io, Remote::Coordinator, reason);
            }
            Some(Remote::Stranger | Remote::Peer(..)) | None => {}
        }
    }

    fn turn(&mut self, io: &mut Io) -> Result<(), ServerError> {
        self.take_turn(io)
    }

    fn deadline_us(&self) -> Option<u64> {
        let links = [self.peers.deadline_us(), self.coordinator.deadline_us()];
        let links = links.into_iter().flatten();
        links.chain(self.deadline_us).min()
    }

    fn stop(&mut self, _: &mut Io) {
        self.stopping = true;
    }

    fn is_finished(&self) -> bool {
        !self.machine.has_outstanding_answers() && !self.outbox.holds_replies()
    }
}

/// Sends a reply, or `NotServing` if the core's lease has ended. The rows were read before, so this
/// check comes after the read, as R15 requires.
fn answer(io: &mut Io, reply: ClientReply, fresh_us: u64) {
    let id = ConnectionId(reply.client.0);
    let over = reply.valid_until_us.is_some_and(|until| until < fresh_us);
    let reply_now = if over {
        Reply::Refused(Refusal::NotServing)
    } else {
        reply.reply
    };
    io.settle(id);
    io.send(id, reply.correlation, &Message::Reply(reply_now));
}

fn unexpected(what: &str) -> String {
    format!("{what} was not expected on this connection")
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::Hello(_) => "a second Hello",
        Message::Welcome(_) => "a Welcome",
        Message::Request(_) => "a Request",
        Message::Reply(_) => "a Reply",
        Message::Peer(..) => "a message of a core",
        Message::Ask(_) => "a question to the coordinator",
        Message::Answer(_) => "an answer of the coordinator",
        Message::Goodbye { .. } => "a Goodbye",
        Message::Echo(_) => "an Echo",
        Message::FindLeader => "a request for the leader",
        Message::Leadership(_) => "the name of the leader",
    }
}
