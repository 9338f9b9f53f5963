//! Runs the coordinator's machine on an event loop, with a keeper that stores its state.
//!
//! In a turn the loop steps the machine with all requests that have arrived, passes the state to
//! the keeper, and sends the answers whose state is stored. So no process receives a configuration
//! that the next coordinator would not know. The coordinator accepts requests only while it
//! certainly leads. A standby names the leader, and closes the connection. Only the machine makes
//! decisions. The keeper knows where the state is stored, and which coordinator leads.

mod etcd;
mod file;
mod keeper;
pub mod migrate;

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use ::coordinator::{
    Coordinator, CoordinatorAnswer, CoordinatorInput, CoordinatorOutput, CoordinatorSettings,
    RequesterId,
};
use protocol::frame::Frame;
use protocol::identity::{Epoch, ServerId};
use protocol::message::{CoordinatorReply, Hello, Leadership, Message, Reply, Request, Welcome};
use protocol::state::CoordinatorState;

use crate::clock::Clock;
use crate::error::ServerError;
use crate::event_loop::{
    ConnectionId, ConnectionSide, EventLoop, Handler, Io, LoopHandle, LoopOptions,
};
use crate::journal::{self, JournalLevel};
use crate::limits;
use crate::options::{CoordinatorOptions, StateOptions, advertised_ip, check_listen};
use etcd::EtcdKeeper;
use file::FileKeeper;
use keeper::{KeeperEvent, StateKeeper};

/// The most other clusters that are remembered.
const STRANGERS_MAX: usize = 64;

/// A coordinator that listens, but does not serve yet.
pub struct CoordinatorProcess {
    event_loop: EventLoop,
    role: Role,
}

impl CoordinatorProcess {
    /// Opens the folder, or connects to etcd, and listens.
    ///
    /// # Errors
    /// The address is refused or in use. The folder is in use by another process, has a newer
    /// format, or is damaged. Nothing is changed then. A failure of etcd is reported later.
    pub fn bind(options: &CoordinatorOptions) -> Result<Self, ServerError> {
        let is_allowed = options.allow_unencrypted_network;
        check_listen(options.listen, is_allowed || options.credentials.is_some())?;
        let ip = advertised_ip(options.listen, options.advertise)?;
        limits::raise_descriptors();
        let clock = Clock::start();
        let loop_options = LoopOptions {
            limits: options.loop_limits,
            credentials: options.credentials.clone(),
            ..LoopOptions::new(clock)
        };
        let event_loop = EventLoop::bind(options.listen, loop_options)?;
        let address = SocketAddr::new(ip, event_loop.address().port()).to_string();
        let keeper: Box<dyn StateKeeper> = match &options.state {
            StateOptions::Folder(folder) => Box::new(FileKeeper::open(folder, address.clone())?),
            StateOptions::Etcd(etcd) => {
                let wake = event_loop.handle();
                Box::new(EtcdKeeper::start(etcd, address.clone(), clock, wake)?)
            }
        };
        let mut role = Role {
            keeper,
            leading: None,
            settings: options.settings,
            recover: options.recover.clone(),
            clock,
            greeted: BTreeSet::new(),
            strangers: BTreeSet::new(),
            dismissed: Vec::new(),
        };
        role.take_events()?;
        role.keep()?;
        journal::line(
            JournalLevel::Info,
            "coordinator_listening",
            &[
                ("address", &address),
                ("kept_in", &role.keeper.leadership().kept_in),
            ],
        );
        Ok(CoordinatorProcess { event_loop, role })
    }

    /// Returns the listening address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.event_loop.address()
    }

    /// Returns a handle that stops the coordinator.
    pub fn handle(&self) -> LoopHandle {
        self.event_loop.handle()
    }

    /// Serves until the coordinator is stopped.
    ///
    /// # Errors
    /// The state cannot be kept.
    pub fn run(mut self) -> Result<(), ServerError> {
        let result = self.event_loop.run(&mut self.role);
        self.role.keeper.close();
        if result.is_ok() {
            journal::line(JournalLevel::Info, "coordinator_stopped", &[]);
        }
        result
    }
}

struct Role {
    keeper: Box<dyn StateKeeper>,
    leading: Option<Leading>,
    settings: CoordinatorSettings,
    /// Set if the state is to be rebuilt from the servers; without these.
    recover: Option<BTreeSet<ServerId>>,
    clock: Clock,
    /// Connections that have sent Hello to this coordinator as the leader.
    greeted: BTreeSet<ConnectionId>,
    /// Other clusters whose servers or clients have come here: each is noted once.
    strangers: BTreeSet<u64>,
    /// Connections to be notified, in this turn, that the leadership that greeted them is over, and
    /// why.
    dismissed: Vec<(ConnectionId, String)>,
}

/// The state of a coordinator while it leads.
struct Leading {
    machine: Coordinator,
    output: CoordinatorOutput,
    deadline_us: Option<u64>,
    /// The version of the newest stored state, and its epoch; version 0 if no state is stored.
    kept: (u64, Epoch),
    /// The later states that the keeper was asked to store.
    under_way: VecDeque<(u64, Epoch)>,
    /// The answers that wait for these states, in the order in which the states are written.
    held: VecDeque<CoordinatorAnswer>,
}

impl Leading {
    fn new(
        state: CoordinatorState,
        settings: CoordinatorSettings,
        clock: Clock,
        recover: Option<BTreeSet<ServerId>>,
    ) -> Leading {
        let mut leading = Leading {
            kept: (state.version, state.configuration.epoch),
            machine: Coordinator::new(state, settings),
            output: CoordinatorOutput::default(),
            deadline_us: None,
            under_way: VecDeque::new(),
            held: VecDeque::new(),
        };
        if let Some(without) = recover {
            leading.machine.recall(without, &mut leading.output);
        }
        leading.machine.start(clock.now(), &mut leading.output);
        leading
    }

    /// Records that the state of this version is stored.
    fn kept(&mut self, version: u64) {
        while self.under_way.front().is_some_and(|it| it.0 <= version) {
            let state = self.under_way.pop_front().expect("it was there above");
            assert!(state.0 > self.kept.0, "versions rise");
            self.kept = state;
        }
        assert_eq!(self.kept.0, version, "only what is under way is kept");
    }
}

impl Role {
    /// Handles the keeper's reports.
    fn take_events(&mut self) -> Result<(), ServerError> {
        while let Some(event) = self.keeper.next_event()? {
            match event {
                KeeperEvent::Lead { state, reason } => {
                    self.stop_leading(&reason);
                    let cluster = format!("{:016x}", state.configuration.cluster);
                    journal::line(
                        JournalLevel::Info,
                        "coordinator_leads",
                        &[
                            ("cluster", &cluster),
                            ("epoch", &state.configuration.epoch.0),
                            ("reason", &reason),
                        ],
                    );
                    // Once it has led, its own state is the newest.
                    let recover = self.recover.take();
                    self.leading = Some(Leading::new(*state, self.settings, self.clock, recover));
                }
                KeeperEvent::Kept(version) => {
                    if let Some(leading) = &mut self.leading {
                        leading.kept(version);
                    }
                }
                KeeperEvent::Follow => self.stop_leading("another coordinator may lead"),
            }
        }
        Ok(())
    }

    /// Returns whether this coordinator leads for certain at this moment.
    fn leads(&self) -> bool {
        self.leading.is_some() && self.clock.monotonic_us() < self.keeper.leads_until_us()
    }

    /// Stops leading once the leadership was not renewed in time. Another coordinator may have
    /// begun already, so nothing is sent before this.
    fn stop_if_succeeded(&mut self) {
        if self.leading.is_some() && !self.leads() {
            self.stop_leading("it could not renew its leadership in time");
            self.keeper.resign();
        }
    }

    /// Steps the machine with the time, if its deadline has come.
    fn tick(&mut self, io: &Io) {
        let due = self.leading.as_mut().is_some_and(|leading| {
            let due = leading.deadline_us.take_if(|at| *at <= io.now_us());
            due.is_some()
        });
        if due {
            self.step(CoordinatorInput::Tick);
        }
    }

    /// Ends the leadership. Changes that the keeper has not stored are void, and so are all waiting
    /// requests.
    fn stop_leading(&mut self, reason: &str) {
        if self.leading.take().is_none() {
            return;
        }
        journal::line(
            JournalLevel::Warn,
            "coordinator_leads_no_more",
            &[("reason", &reason)],
        );
        let greeted = std::mem::take(&mut self.greeted).into_iter();
        self.dismissed
            .extend(greeted.map(|id| (id, reason.to_owned())));
    }

    /// Steps the machine, unless this coordinator may not lead any more.
    fn step(&mut self, input: CoordinatorInput) {
        let now = self.clock.now();
        let leads = now.monotonic_us < self.keeper.leads_until_us();
        if let Some(leading) = self.leading.as_mut().filter(|_| leads) {
            leading.machine.step(now, input, &mut leading.output);
        }
    }

    /// Passes the newest state to the keeper, and handles the machine's other output.
    fn keep(&mut self) -> Result<(), ServerError> {
        let Some(leading) = &mut self.leading else {
            return Ok(());
        };
        for note in leading.output.notes.drain(..) {
            journal::line(JournalLevel::Info, "coordinator", &[("note", &note)]);
        }
        let deadline_us = leading.output.deadline_us.take();
        leading.deadline_us = deadline_us.or(leading.deadline_us);
        leading.held.extend(leading.output.replies.drain(..));
        if let Some(persist) = leading.output.persist.take() {
            let epoch = leading.machine.configuration().epoch;
            leading.under_way.push_back((persist.version, epoch));
            self.keeper.keep(persist)?;
        }
        self.take_events()
    }

    /// Sends the answers whose state is kept.
    fn answer(&mut self, io: &mut Io) {
        let Some(leading) = &mut self.leading else {
            return;
        };
        let kept = leading.kept.0;
        // Answers wait for ever later states, in order.
        let ready = leading.held.partition_point(|answer| answer.after <= kept);
        for answer in leading.held.drain(..ready) {
            let id = ConnectionId(answer.to.0);
            if !matches!(answer.reply, CoordinatorReply::NewEpoch { .. }) {
                io.settle(id);
            }
            io.send(id, answer.correlation, &Message::Answer(answer.reply));
        }
    }

    /// Notifies greeted connections that this leadership is over: they ask the new leader again.
    fn dismiss(&mut self, io: &mut Io) {
        let leadership = self.leadership();
        for (id, reason) in std::mem::take(&mut self.dismissed) {
            if !leadership.leads {
                io.send(id, 0, &Message::Leadership(leadership.clone()));
            }
            io.close(id, &reason);
        }
    }

    fn leadership(&self) -> Leadership {
        // A new cluster is one only when it is kept.
        let is_kept = self.leading.as_ref().is_some_and(|it| it.kept.0 > 0);
        Leadership {
            leads: is_kept && self.leads(),
            ..self.keeper.leadership()
        }
    }

    fn on_hello(&mut self, io: &mut Io, id: ConnectionId, hello: &Hello) -> Result<(), String> {
        let leads = |leading: &&Leading| leading.kept.0 > 0 || leading.machine.is_recalling();
        let Some(leading) = self.leading.as_ref().filter(leads) else {
            self.dismissed
                .push((id, "this coordinator does not lead".to_owned()));
            return Ok(());
        };
        let own = match leading.machine.cluster() {
            Some(own) => own,
            // The servers know which cluster it is.
            None => hello.cluster.ok_or_else(|| leading.machine.recall_text())?,
        };
        if let Some(cluster) = hello.cluster
            && cluster != own
        {
            if self.strangers.len() < STRANGERS_MAX && self.strangers.insert(cluster) {
                let (asks, own) = (format!("{cluster:016x}"), format!("{own:016x}"));
                journal::line(
                    JournalLevel::Error,
                    "another_cluster_asks",
                    &[
                        ("cluster", &asks),
                        ("own", &own),
                        (
                            "what_to_do",
                            &"if this coordinator's folder was lost, stop it and start it on \
                                         an empty folder with --recover",
                        ),
                    ],
                );
            }
            return Err(format!(
                "this is the coordinator of cluster {own:016x}, not of {cluster:016x}: a server \
                 stays with the cluster that its folder belongs to; if the coordinator's folder was \
                 lost, start it on an empty one with --recover"
            ));
        }
        let welcome = Message::Welcome(Welcome {
            cluster: own,
            core: None,
            epoch: leading.kept.1,
        });
        if leading.machine.is_recalling() {
            io.expect_configurations(id);
        }
        self.greeted.insert(id);
        io.send(id, 0, &welcome);
        Ok(())
    }

    fn counters(&self, io: &Io, leading: &Leading) -> Vec<(String, u64)> {
        let configuration = leading.machine.configuration();
        let own = [
            ("epoch", leading.kept.1.0),
            ("servers", configuration.servers.len() as u64),
            ("tables", configuration.tables.len() as u64),
            ("state_version", leading.kept.0),
            ("connections", io.connections() as u64),
        ];
        let named = own.into_iter().chain(io.counters().named());
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

impl Handler for Role {
    fn opened(&mut self, _: &mut Io, _: ConnectionId, _: ConnectionSide) {}

    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String> {
        match frame.message {
            Message::Goodbye { .. } => {
                io.close(id, "as requested");
                Ok(())
            }
            Message::FindLeader => {
                let leadership = Message::Leadership(self.leadership());
                io.send(id, frame.correlation, &leadership);
                Ok(())
            }
            _ if !self.leads() => {
                self.dismissed
                    .push((id, "this coordinator does not lead".to_owned()));
                Ok(())
            }
            Message::Hello(hello) => self.on_hello(io, id, &hello),
            _ if !self.greeted.contains(&id) => Err("the first frame must be a Hello".to_owned()),
            Message::Ask(request) => {
                io.owe(id);
                self.step(CoordinatorInput::Request {
                    from: RequesterId(id.0),
                    correlation: frame.correlation,
                    request,
                });
                // The servers send their configurations next.
                if self
                    .leading
                    .as_ref()
                    .is_some_and(|it| it.machine.is_recalling())
                {
                    io.expect_configurations(id);
                }
                Ok(())
            }
            Message::Request(Request::Status) => {
                let counters = self.leading.as_ref().map(|it| self.counters(io, it));
                let status = Message::Reply(Reply::Status(counters.unwrap_or_default()));
                io.send(id, frame.correlation, &status);
                Ok(())
            }
            _ => Err(
                "this is a coordinator: it answers questions about the cluster, and the \
                      servers that it names hold the rows"
                    .to_owned(),
            ),
        }
    }

    fn closed(&mut self, _: &mut Io, id: ConnectionId, _: &str) {
        if self.greeted.remove(&id) {
            self.step(CoordinatorInput::Gone {
                from: RequesterId(id.0),
            });
        }
    }

    fn turn(&mut self, io: &mut Io) -> Result<(), ServerError> {
        self.take_events()?;
        self.stop_if_succeeded();
        self.tick(io);
        self.keep()?;
        self.answer(io);
        self.dismiss(io);
        Ok(())
    }

    fn deadline_us(&self) -> Option<u64> {
        let leading = self.leading.as_ref()?;
        let leads_until_us = self.keeper.leads_until_us();
        let due_us = leading
            .deadline_us
            .into_iter()
            .chain([leads_until_us])
            .min();
        due_us.filter(|at| *at < u64::MAX)
    }
}
