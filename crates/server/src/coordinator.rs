//! The coordinator's role: its machine on an event loop, its state in one local file.
//!
//! In a turn all questions that arrived are stepped, then the state is kept once, then the
//! answers go out: nobody hears of a configuration that a killed coordinator would forget. What is
//! decided is the machine's alone.

use protocol::coordinator::{AskerId, Coordinator, Input, Output, State, decode_state};
use protocol::frame::Frame;
use protocol::message::{Hello, Message, Reply, Request, Welcome};

use crate::clock::Clock;
use crate::error::ServerError;
use crate::event_loop::{
    ConnectionId, ConnectionMap, EventLoop, Handle, Handler, Io, Options, Side,
};
use crate::folder::Folder;
use crate::journal::{self, Level};
use crate::limits;
use crate::options::{CoordinatorOptions, check_listen};
use crate::random;

const STATE_FILE: &str = "coordinator";

/// A coordinator that listens and does not run yet.
pub struct CoordinatorProcess {
    event_loop: EventLoop,
    role: Role,
}

impl CoordinatorProcess {
    /// Opens the folder and listens.
    ///
    /// # Errors
    /// The address is refused or in use; the folder is in use by another process, of a newer
    /// format, or damaged. Nothing is changed then.
    pub fn bind(options: &CoordinatorOptions) -> Result<Self, ServerError> {
        check_listen(options.listen, options.allow_unencrypted_network)?;
        let folder = Folder::open(&options.folder)?;
        let state = match folder.read(STATE_FILE)? {
            None => State::new(random::number()?),
            Some(bytes) => decode_state(&bytes).map_err(|error| {
                let path = folder.path().join(STATE_FILE);
                ServerError::Folder(format!("{}: {error}", path.display()))
            })?,
        };
        limits::raise_descriptors();
        let clock = Clock::start();
        let loop_options = Options {
            limits: options.loop_limits,
            ..Options::new(clock)
        };
        let event_loop = EventLoop::bind(options.listen, loop_options)?;
        let mut role = Role {
            kept: state.version,
            machine: Coordinator::new(state, options.settings),
            folder,
            clock,
            output: Output::default(),
            greeted: ConnectionMap::default(),
            deadline_us: None,
        };
        role.machine.start(clock.now(), &mut role.output);
        role.keep()?;
        let address = event_loop.address();
        let cluster = format!("{:016x}", role.machine.configuration().cluster);
        let epoch = role.machine.configuration().epoch.0;
        journal::line(
            Level::Info,
            "coordinator_listening",
            &[
                ("address", &address),
                ("folder", &options.folder.display()),
                ("cluster", &cluster),
                ("epoch", &epoch),
            ],
        );
        Ok(CoordinatorProcess { event_loop, role })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> std::net::SocketAddr {
        self.event_loop.address()
    }

    /// To stop it.
    pub fn handle(&self) -> Handle {
        self.event_loop.handle()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// The state cannot be kept.
    pub fn run(mut self) -> Result<(), ServerError> {
        let result = self.event_loop.run(&mut self.role);
        if result.is_ok() {
            journal::line(Level::Info, "coordinator_stopped", &[]);
        }
        result
    }
}

struct Role {
    machine: Coordinator,
    folder: Folder,
    clock: Clock,
    output: Output,
    /// The version of the state that is on the disk.
    kept: u64,
    /// Connections that have said Hello.
    greeted: ConnectionMap<()>,
    deadline_us: Option<u64>,
}

impl Role {
    fn step(&mut self, input: Input) {
        let now = self.clock.now();
        self.machine.step(now, input, &mut self.output);
    }

    fn keep(&mut self) -> Result<(), ServerError> {
        if let Some(persist) = self.output.persist.take() {
            assert!(persist.version > self.kept, "versions rise");
            self.folder.replace(STATE_FILE, &persist.bytes)?;
            self.kept = persist.version;
        }
        for note in self.output.notes.drain(..) {
            journal::line(Level::Info, "coordinator", &[("note", &note)]);
        }
        self.deadline_us = self.output.deadline_us.take().or(self.deadline_us);
        Ok(())
    }

    fn on_hello(&mut self, io: &mut Io, id: ConnectionId, hello: &Hello) -> Result<(), String> {
        let configuration = self.machine.configuration();
        if let Some(cluster) = hello.cluster
            && cluster != configuration.cluster
        {
            return Err(format!(
                "this is the coordinator of cluster {:016x}, not of {cluster:016x}: a server \
                 stays with the cluster that its folder belongs to",
                configuration.cluster
            ));
        }
        let welcome = Message::Welcome(Welcome {
            cluster: configuration.cluster,
            core: None,
            epoch: configuration.epoch,
        });
        self.greeted.insert(id, ());
        io.send(id, 0, &welcome);
        Ok(())
    }

    fn counters(&self, io: &Io) -> Vec<(String, u64)> {
        let configuration = self.machine.configuration();
        let own = [
            ("epoch", configuration.epoch.0),
            ("servers", configuration.servers.len() as u64),
            ("tables", configuration.tables.len() as u64),
            ("state_version", self.kept),
            ("connections", io.connections() as u64),
        ];
        let named = own.into_iter().chain(io.counters().named());
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

impl Handler for Role {
    fn opened(&mut self, _: &mut Io, _: ConnectionId, _: Side) {}

    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String> {
        match frame.message {
            Message::Hello(hello) => self.on_hello(io, id, &hello),
            Message::Goodbye { .. } => {
                io.close(id, "as you said");
                Ok(())
            }
            _ if self.greeted.get(id).is_none() => {
                Err("the first frame must be a Hello".to_owned())
            }
            Message::Ask(request) => {
                io.owe(id);
                self.step(Input::Request {
                    from: AskerId(id.0),
                    correlation: frame.correlation,
                    request,
                });
                Ok(())
            }
            Message::Request(Request::Status) => {
                let status = Message::Reply(Reply::Status(self.counters(io)));
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
        if self.greeted.remove(id).is_some() {
            self.step(Input::Gone {
                from: AskerId(id.0),
            });
        }
    }

    fn turn(&mut self, io: &mut Io) -> Result<(), ServerError> {
        if self.deadline_us.is_some_and(|at| at <= io.now_us()) {
            self.deadline_us = None;
            self.step(Input::Tick);
        }
        self.keep()?;
        for answer in self.output.replies.drain(..) {
            assert!(answer.after <= self.kept, "answers wait for their state");
            let id = ConnectionId(answer.to.0);
            io.settle(id);
            io.send(id, answer.correlation, &Message::Answer(answer.reply));
        }
        Ok(())
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }
}
