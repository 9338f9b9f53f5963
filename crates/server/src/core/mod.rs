//! The driver of one core: the machine's inputs from sockets, log and clock, and its outputs back.
//!
//! In one turn everything that arrived is stepped, all records are appended and handed to the log
//! at once, and whatever may go out is queued; what must wait for the log waits in the outbox
//! (`Output`'s `after`). Decisions about data are the machine's alone: this file must not look
//! into operations, rows or votes.

mod links;
mod outbox;

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::frame::Frame;
use protocol::identity::{CoreId, Epoch, Incarnation, Now, Position};
use protocol::machine::{ClientId, ClientReply, CoreMachine, Input, Output, Send};
use protocol::message::{
    CoordinatorReply, Hello, Message, PeerMessage, Refusal, Reply, Request, Welcome,
};

use crate::clock::Clock;
use crate::error::ServerError;
use crate::event_loop::{ConnectionId, ConnectionMap, Handler, Io, Side};
use crate::journal::{self, Level};
use crate::store::{Admission, Store};
use links::{CoordinatorLink, Peers};
use outbox::{Departure, Outbox};

/// Replies gathered before they are handed to their connections within a turn: back-pressure on a
/// connection is noticed after so many, or so many bytes of rows.
const REPLIES_GATHERED_MAX: usize = 64;
const REPLY_BYTES_GATHERED_MAX: usize = 256 << 10;
/// A failure that keeps happening is noted once in this time, in microseconds.
const NOTE_PAUSE_US: u64 = 10_000_000;

/// Who is on the other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Somebody who has not said yet.
    Stranger,
    Client,
    /// A core that opened the connection to tell something.
    Peer(CoreId, Incarnation),
    /// A core to which this one opened a connection.
    Link(CoreId),
    Coordinator,
}

/// A core as an event loop's handler.
pub struct Core<S> {
    machine: CoreMachine,
    store: S,
    clock: Clock,
    /// The time of this turn's steps, sampled at the first one.
    now: Option<Now>,
    /// What the steps since the last carrying out gave.
    output: Output,
    reply_bytes: usize,
    outbox: Outbox,
    /// Messages of this core to itself.
    to_self: VecDeque<PeerMessage>,
    connections: ConnectionMap<Who>,
    peers: Peers,
    coordinator: CoordinatorLink,
    /// The machine knows that so much is durable.
    durable: Position,
    admission: Admission,
    /// The epoch that the links follow.
    epoch: Epoch,
    deadline_us: Option<u64>,
    stopping: bool,
    failure: Option<ServerError>,
    noted_us: Option<u64>,
    steps: u64,
    refused_busy: u64,
    /// Records appended, turns that had some, and times that the log was found to be durable
    /// further on: what batching achieves.
    log_records: u64,
    log_records_submitted: u64,
    log_batches: u64,
    log_flushes: u64,
}

impl<S: Store> Core<S> {
    /// A core whose machine has been restored and has replayed its log, and is not started.
    ///
    /// # Errors
    /// What starting it needs to read cannot be read.
    pub fn start(
        machine: CoreMachine,
        store: S,
        clock: Clock,
        coordinators: Vec<std::net::SocketAddr>,
    ) -> Result<Self, ServerError> {
        let identity = machine.identity();
        let mut core = Core {
            peers: Peers::new(identity),
            coordinator: CoordinatorLink::new(identity, coordinators),
            durable: store.durable(),
            machine,
            store,
            clock,
            now: None,
            output: Output::default(),
            reply_bytes: 0,
            outbox: Outbox::default(),
            to_self: VecDeque::new(),
            connections: ConnectionMap::default(),
            admission: Admission::Open,
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

    /// Ends a core whose loop has ended: everything it knows is put on the disk.
    ///
    /// # Errors
    /// Not everything is durable.
    pub fn close(mut self) -> Result<(), ServerError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.store.close()
    }

    /// Steps the machine; what comes out stays in `output`.
    fn step(&mut self, input: Input) {
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

    /// Appends the records, lets go what may go, and keeps the rest.
    fn carry_out(&mut self, io: &mut Io) {
        loop {
            self.log_records += self.output.records.len() as u64;
            for record in self.output.records.drain(..) {
                if let Err(error) = self.store.append(&record) {
                    self.failure.get_or_insert(error);
                }
            }
            if self.failure.is_some() {
                // A vote or an answer must not outlive a record that is not there (SAFETY R1).
                self.output = Output::default();
                return;
            }
            let mut sends = std::mem::take(&mut self.output.sends);
            for send in sends.drain(..) {
                if send.after <= self.durable {
                    self.send(io, send);
                } else {
                    self.outbox.push(Departure::Message(send));
                }
            }
            self.output.sends = sends;
            let mut replies = std::mem::take(&mut self.output.replies);
            let fresh_us = self.clock.monotonic_us();
            for reply in replies.drain(..) {
                if reply.after <= self.durable {
                    answer(io, reply, fresh_us);
                } else {
                    self.outbox.push(Departure::Reply(reply));
                }
            }
            self.output.replies = replies;
            self.reply_bytes = 0;
            for request in self.output.asks.drain(..) {
                self.coordinator.ask(io, request);
            }
            for note in self.output.notes.drain(..) {
                journal::line(Level::Info, "machine", &[("note", &note)]);
            }
            if let Some(deadline_us) = self.output.deadline_us.take() {
                self.deadline_us = Some(deadline_us);
            }
            if self.to_self.is_empty() {
                return;
            }
            while let Some(message) = self.to_self.pop_front() {
                let header = self.machine.identity().header(self.machine.epoch());
                self.step(Input::Peer { header, message });
            }
        }
    }

    fn send(&mut self, io: &mut Io, send: Send) {
        let identity = self.machine.identity();
        if send.to == identity.core {
            self.to_self.push_back(send.message);
            return;
        }
        self.peers.want(send.to, self.machine.configuration());
        let header = identity.header(self.machine.epoch());
        self.peers.send(io, send.to, header, send.message);
    }

    /// Takes in how far the log is durable, and lets go what waited for it.
    fn follow_log(&mut self, io: &mut Io) {
        let durable = self.store.durable();
        if durable <= self.durable {
            return;
        }
        self.durable = durable;
        self.log_flushes += 1;
        self.step(Input::Durable(durable));
        // First what waited, then what the step gave: messages keep their order.
        let fresh_us = self.clock.monotonic_us();
        while let Some(departure) = self.outbox.pop(durable) {
            match departure {
                Departure::Message(send) => self.send(io, send),
                Departure::Reply(reply) => answer(io, reply, fresh_us),
            }
        }
        self.carry_out(io);
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
        let who = match hello.core {
            None => Who::Client,
            Some((core, incarnation)) => Who::Peer(core, incarnation),
        };
        self.connections.insert(id, who);
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
            Request::Execute(_) if self.admission == Admission::Busy => {
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
        self.step(Input::Request {
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
        (id, who): (ConnectionId, Who),
        welcome: &Welcome,
    ) -> Result<(), String> {
        match who {
            Who::Link(core) => {
                self.peers.welcomed(core, id, welcome)?;
                self.step(Input::PeerConnected { core });
                Ok(())
            }
            Who::Coordinator => {
                self.coordinator.welcomed(io, welcome)?;
                Ok(())
            }
            Who::Stranger | Who::Client | Who::Peer(..) => Err(unexpected("a Welcome")),
        }
    }

    fn on_answer(&mut self, io: &Io, reply: CoordinatorReply) -> Result<(), String> {
        self.coordinator.answered();
        match reply {
            CoordinatorReply::Beat {
                sent_us,
                epoch,
                lease_us,
                session_floor,
            } => self.step(Input::Beat {
                sent_us,
                epoch,
                lease_us,
                session_floor,
            }),
            CoordinatorReply::Configuration(configuration) => {
                self.step(Input::Configuration(Arc::new(configuration)));
            }
            CoordinatorReply::Unchanged { .. } => {}
            CoordinatorReply::Refused { message, .. } => {
                self.complain(io, Who::Coordinator, &message);
            }
            CoordinatorReply::Joined { .. }
            | CoordinatorReply::Session { .. }
            | CoordinatorReply::Done { .. }
            | CoordinatorReply::Progress { .. } => {
                return Err("it answered what was not asked".to_owned());
            }
        }
        Ok(())
    }

    /// Notes something that may happen again and again.
    fn complain(&mut self, io: &Io, whose: Who, message: &str) {
        let noted = self
            .noted_us
            .is_some_and(|at| at + NOTE_PAUSE_US > io.now_us());
        if noted {
            return;
        }
        self.noted_us = Some(io.now_us());
        let core = self.machine.identity().core;
        let whose = match whose {
            Who::Link(peer) | Who::Peer(peer, _) => peer.to_string(),
            Who::Coordinator => "coordinator".to_owned(),
            Who::Client | Who::Stranger => "client".to_owned(),
        };
        journal::line(
            Level::Warn,
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
                self.connections.count(|who| *who == Who::Client) as u64,
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

impl<S: Store> Handler for Core<S> {
    fn opened(&mut self, _: &mut Io, id: ConnectionId, side: Side) {
        if side == Side::Accepted {
            self.connections.insert(id, Who::Stranger);
        }
    }

    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String> {
        let Some(&who) = self.connections.get(id) else {
            return Ok(());
        };
        match (who, frame.message) {
            (Who::Client, Message::Request(request)) => {
                self.on_request(io, id, frame.correlation, request);
                Ok(())
            }
            (Who::Peer(core, incarnation), Message::Peer(header, message)) => {
                if (header.from, header.incarnation) != (core, incarnation) {
                    return Err(format!("{core} speaks in the name of {}", header.from));
                }
                self.step(Input::Peer { header, message });
                Ok(())
            }
            (Who::Stranger, Message::Hello(hello)) => self.on_hello(io, id, &hello),
            (Who::Link(_) | Who::Coordinator, Message::Welcome(welcome)) => {
                self.on_welcome(io, (id, who), &welcome)
            }
            (Who::Coordinator, Message::Answer(reply)) => self.on_answer(io, reply),
            (Who::Coordinator, Message::Leadership(leadership)) => {
                let leader = leadership.leader.as_deref();
                self.coordinator.redirected(leader);
                io.close(id, "the coordinator that leads is looked for");
                Ok(())
            }
            (Who::Stranger | Who::Client, message @ Message::Echo(_)) => {
                io.send(id, frame.correlation, &message);
                Ok(())
            }
            (_, Message::Goodbye { reason }) => {
                if matches!(who, Who::Link(_) | Who::Coordinator) {
                    self.complain(io, who, &reason);
                }
                io.close(id, "as you said");
                Ok(())
            }
            (Who::Stranger, _) => Err("the first frame must be a Hello".to_owned()),
            (_, message) => Err(unexpected(kind(&message))),
        }
    }

    fn closed(&mut self, io: &mut Io, id: ConnectionId, reason: &str) {
        match self.connections.remove(id) {
            Some(Who::Client) => {
                let client = ClientId(id.0);
                self.step(Input::ClientGone { client });
            }
            Some(Who::Link(core)) => self.peers.broke(core, id, io.now_us()),
            Some(Who::Coordinator) => {
                self.coordinator.broke(io.now_us());
                self.complain(io, Who::Coordinator, reason);
            }
            Some(Who::Stranger | Who::Peer(..)) | None => {}
        }
    }

    fn turn(&mut self, io: &mut Io) -> Result<(), ServerError> {
        self.store.health()?;
        self.carry_out(io);
        self.follow_log(io);
        let admission = self.store.admission();
        if admission != self.admission {
            let admits = admission != Admission::Full;
            if admits != (self.admission != Admission::Full) {
                self.step(Input::Space { admits });
            }
            self.admission = admission;
        }
        if self.deadline_us.is_some_and(|at| at <= io.now_us()) {
            self.deadline_us = None;
            self.step(Input::Tick);
        }
        self.carry_out(io);
        if self.log_records > self.log_records_submitted {
            self.log_records_submitted = self.log_records;
            self.log_batches += 1;
        }
        self.store.submit();
        // A store without a disk is durable at once.
        self.follow_log(io);
        self.store.submit();
        if self.store.checkpoint_due() {
            self.machine.before_checkpoint(self.store.tables());
            self.store.checkpoint(self.machine.retain_from())?;
        }
        if self.machine.epoch() != self.epoch {
            self.epoch = self.machine.epoch();
            self.peers.follow(io, self.machine.configuration());
        }
        for (id, core) in self.peers.open_due(io) {
            self.connections.insert(id, Who::Link(core));
        }
        self.coordinator.open_due(io);
        if let Some(id) = self.coordinator.connection() {
            self.connections.insert(id, Who::Coordinator);
        }
        self.now = None;
        self.failure.take().map_or(Ok(()), Err)
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
        !self.machine.owes_answers() && !self.outbox.holds_replies()
    }
}

/// Sends a reply unless its lease is over by now: its value was taken before, so the check comes
/// after it, as SAFETY R15 asks.
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
        Message::WhoLeads => "a question who leads",
        Message::Leadership(_) => "word of who leads",
    }
}
