//! Runs a server process: opens its folder, reads its identity, and starts its cores on their
//! threads.
//!
//! It opens the folder, listens and joins the cluster. Then each core restores its state and
//! serves, on a thread of its own. If one core fails, the process stops the others, too.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use machines::core::{CoreIdentity, CoreMachine};
use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Incarnation, Position, ServerId, SessionId};
use protocol::message::{CoordinatorRequest, FolderReport, RecallReport};

use storage::StoreOptions;

use crate::clock::Clock;
use crate::configuration_file::ConfigurationFile;
use crate::core::{CoreDriver, CoreEnvironment};
use crate::disk_store::{DiskStore, DiskStoreOptions};
use crate::error::ServerError;
use crate::event_loop::{EventLoop, LoopHandle, LoopOptions};
use crate::folder::DataFolder;
use crate::identity_file::ServerIdentity;
use crate::journal::{self, JournalLevel};
use crate::limits;
use crate::membership::{self, Coordinators, JoinHeartbeat, PULSE_PAUSE};
use crate::metrics::{self, Metrics};
use crate::options::{ServerOptions, StorageOptions, advertised_ip, check_listen, resolve};
use crate::random;
use crate::store::{CoreStore, MemoryStore};

/// The log message about a folder that is an older copy.
const OLD_FOLDER: &str = "the folder is an older copy: nothing of it is served, and its partitions are \
                          refilled from the other copies before this server comes back";

/// A server that listens, but has not joined yet.
pub struct ServerProcess {
    options: ServerOptions,
    folder: DataFolder,
    configuration_file: ConfigurationFile,
    identity: ServerIdentity,
    /// The newest configuration that the folder has.
    known: Option<Configuration>,
    coordinators: Coordinators,
    clock: Clock,
    loops: Vec<EventLoop>,
    addresses: Vec<SocketAddr>,
    metrics: Option<Metrics>,
}

/// Stops a server from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    handles: Vec<LoopHandle>,
}

impl Stopper {
    /// Tells every core to finish its open work and to end.
    pub fn stop(&self) {
        for handle in &self.handles {
            handle.stop();
        }
    }

    fn is_stopped(&self) -> bool {
        self.handles.iter().any(LoopHandle::is_stopped)
    }
}

/// A server that serves.
#[derive(Clone, Debug)]
pub struct ServingServer {
    /// The server's cluster.
    pub cluster: u64,
    /// The server's number.
    pub server: ServerId,
    /// The server's incarnation.
    pub incarnation: Incarnation,
    /// The address of each core.
    pub addresses: Vec<SocketAddr>,
    /// The address that serves counters, if there is one.
    pub metrics: Option<SocketAddr>,
}

/// A report of a core's thread.
enum CoreEvent {
    /// The core has restored its state from disk, and waits to start.
    Restored,
    /// The core has received a configuration.
    Configured(Arc<Configuration>),
    /// The core has ended. Contains the last position of its log.
    Ended(u16, Result<Position, ServerError>),
}

/// A core's store, opened.
enum OpenStore {
    Disk(Box<DiskStore>),
    Memory(MemoryStore),
}

impl OpenStore {
    /// Returns the position up to which the log is durable.
    fn durable(&self) -> Position {
        match self {
            OpenStore::Disk(store) => store.durable(),
            OpenStore::Memory(store) => store.durable(),
        }
    }
}

impl ServerProcess {
    /// Opens the folder and listens.
    ///
    /// # Errors
    /// An option or the folder cannot be used, or an address is taken.
    pub fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        let is_allowed = options.allow_unencrypted_network;
        check_listen(options.listen, is_allowed || options.credentials.is_some())?;
        if options.cores == 0 {
            return Err(ServerError::Options(
                "a server needs at least one core".to_owned(),
            ));
        }
        let coordinators = Coordinators {
            addresses: resolve(&options.coordinators)?,
            credentials: options.credentials.clone(),
        };
        let advertise = advertised_ip(options.listen, options.advertise)?;
        let folder = DataFolder::open(&options.folder)?;
        let identity = match ServerIdentity::read(&folder)? {
            Some(identity) => identity,
            None => {
                let identity = ServerIdentity {
                    disk: random::number()?,
                    cores: 0,
                    joined: None,
                    last: 0,
                    incarnation: Incarnation(0),
                    attempt: None,
                    has_stopped: false,
                    is_old: false,
                };
                identity.write(&folder)?;
                identity
            }
        };
        let configuration_file = ConfigurationFile::default();
        let known = configuration_file.read(&folder)?;
        limits::raise_descriptors();
        let clock = Clock::start();
        let loop_options = LoopOptions {
            limits: options.loop_limits,
            spin: options.spin,
            clock,
            credentials: options.credentials.clone(),
        };
        let loops = (0..options.cores)
            .map(|core| EventLoop::bind(core_address(options.listen, core)?, loop_options.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let addresses = advertised(&loops, advertise);
        let metrics = options.metrics.map(|address| {
            check_listen(address, options.allow_unencrypted_network)?;
            Metrics::bind(address)
        });
        let metrics = metrics.transpose()?;
        Ok(ServerProcess {
            options,
            folder,
            configuration_file,
            identity,
            known,
            coordinators,
            clock,
            loops,
            addresses,
            metrics,
        })
    }

    /// Returns the address of each core, with the real ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            handles: self.loops.iter().map(EventLoop::handle).collect(),
        }
    }

    /// Joins the cluster, restores the folder's state and serves until it is stopped. Calls `ready`
    /// once all cores serve.
    ///
    /// # Errors
    /// The coordinator refused, the folder is unusable, or a core failed. Then the process must end
    /// with an error, and a new process reads the actual contents of the disk (R23).
    pub fn run(mut self, ready: impl FnOnce(&ServingServer)) -> Result<(), ServerError> {
        let stopper = self.stopper();
        // Before it joins, so that it is not taken for down while it reads its disk.
        let stores = self.open_stores()?;
        // All that the process before had is in the log: it has forgotten nothing.
        let is_complete = self.identity.has_stopped && !self.identity.is_old;
        let joined = match self.join_with(&stores, &stopper) {
            Err(ServerError::Stopped) => return Ok(()),
            other => other?,
        };
        let is_ready = ServingServer {
            cluster: joined.configuration.cluster,
            server: joined.server,
            incarnation: joined.incarnation,
            addresses: self.addresses.clone(),
            metrics: self.metrics.as_ref().map(Metrics::address),
        };
        if let Some(metrics) = self.metrics.take() {
            let cores: Vec<_> = self.loops.iter().map(EventLoop::address).collect();
            let server = joined.server;
            let credentials = self.options.credentials.clone();
            metrics.serve(move || metrics::text(server, &cores, credentials.as_ref()))?;
        }
        let start = (stores, is_complete);
        let mut cores = Cores::spawn(&mut self, &is_ready, joined.configuration, start)?;
        let (mut result, logs) = self.follow(&mut cores, &is_ready, &stopper, ready);
        for thread in cores.threads {
            if thread.join().is_err() {
                result = result.and(Err(ServerError::Panicked));
            }
        }
        if result.is_ok() {
            // Every core's loop has ended and its log is closed: this is the last message. A
            // process that failed does not send it, since its open work is unknown. The folder
            // records it as well, for a coordinator that does not receive it.
            self.identity.has_stopped = true;
            self.identity.write(&self.folder)?;
            let goodbye = CoordinatorRequest::Stopped {
                server: is_ready.server,
                incarnation: is_ready.incarnation,
                logs,
            };
            membership::send_goodbye(&self.coordinators, is_ready.cluster, &goodbye);
            journal::line(
                JournalLevel::Info,
                "server_stopped",
                &[("server", &is_ready.server.0)],
            );
        }
        result
    }

    /// Lets the cores begin once all have restored their state, and follows them to their end.
    fn follow(
        &mut self,
        cores: &mut Cores,
        ready: &ServingServer,
        stopper: &Stopper,
        when_ready: impl FnOnce(&ServingServer),
    ) -> (Result<(), ServerError>, Vec<Position>) {
        let mut starting = cores.threads.len();
        let mut logs = vec![Position(0); starting];
        let mut when_ready = Some(when_ready);
        let mut result = Ok(());
        while let Some(event) = cores.next() {
            match event {
                CoreEvent::Restored => {
                    starting -= 1;
                    if starting > 0 {
                        continue;
                    }
                    cores.pulse = None;
                    result = self.keep_cores();
                    if result.is_ok() {
                        cores.begin();
                        note_ready(ready);
                        if let Some(when_ready) = when_ready.take() {
                            when_ready(ready);
                        }
                    }
                    cores.begin.clear();
                }
                CoreEvent::Ended(core, Err(error)) => {
                    journal::line(
                        JournalLevel::Error,
                        "core_failed",
                        &[("core", &core), ("error", &error)],
                    );
                    stopper.stop();
                    cores.begin.clear();
                    result = result.and(Err(error));
                }
                CoreEvent::Ended(core, Ok(last)) => logs[usize::from(core)] = last,
                CoreEvent::Configured(configuration) => {
                    self.configuration_file.write(&self.folder, &configuration);
                }
            }
        }
        (result, logs)
    }

    /// Records the number of cores in the identity file. From now on, a missing log of a core is a
    /// loss.
    fn keep_cores(&mut self) -> Result<(), ServerError> {
        let identity = ServerIdentity {
            cores: self.identity.cores.max(self.options.cores),
            ..self.identity
        };
        if identity != self.identity {
            self.identity = identity;
            self.identity.write(&self.folder)?;
        }
        Ok(())
    }

    /// Opens the stores of all cores, at once.
    fn open_stores(&self) -> Result<Vec<OpenStore>, ServerError> {
        std::thread::scope(|scope| {
            let opening = self.loops.iter().enumerate().map(|(core, event_loop)| {
                let handle = event_loop.handle();
                scope.spawn(move || self.open_store(core, handle))
            });
            let opening: Vec<_> = opening.collect();
            let opened = opening.into_iter().map(|thread| thread.join());
            let opened = opened.map(|result| result.unwrap_or(Err(ServerError::Panicked)));
            opened.collect()
        })
    }

    fn open_store(&self, core: usize, handle: LoopHandle) -> Result<OpenStore, ServerError> {
        if self.options.storage == StorageOptions::Memory {
            return Ok(OpenStore::Memory(MemoryStore::default()));
        }
        let folder = self.options.folder.join(format!("core-{core}"));
        let options = DiskStoreOptions {
            disk: self.identity.disk,
            store: StoreOptions {
                create: core >= usize::from(self.identity.cores),
                ..self.options.store.clone()
            },
        };
        let store = DiskStore::open(&folder, options, handle)?;
        Ok(OpenStore::Disk(Box::new(store)))
    }

    /// Joins with these logs, as soon as the coordinator lets it. The folder knows of it before
    /// anything is served.
    fn join_with(
        &mut self,
        stores: &[OpenStore],
        stopper: &Stopper,
    ) -> Result<membership::JoinedServer, ServerError> {
        loop {
            let attempt = match self.identity.attempt {
                // It may have joined: the coordinator knows it by that number.
                Some(attempt) => attempt,
                None => random::number()?.max(1),
            };
            self.identity.attempt = Some(attempt);
            self.identity.write(&self.folder)?;
            let joined = self.join(attempt, stopper)?;
            let ends = stores.iter().map(OpenStore::durable);
            let mut logs = (0..).zip(ends.zip(&joined.logs));
            let old = logs.find(|(_, (end, known))| end < known);
            self.identity = ServerIdentity {
                joined: Some((joined.configuration.cluster, joined.server)),
                last: attempt,
                incarnation: joined.incarnation,
                attempt: None,
                // This process has served nothing so far.
                has_stopped: old.is_some(),
                is_old: old.is_some(),
                ..self.identity
            };
            self.identity.write(&self.folder)?;
            let Some((core, (end, known))): Option<(u32, _)> = old else {
                let configuration = Arc::new(joined.configuration.clone());
                self.configuration_file.write(&self.folder, &configuration);
                return Ok(joined);
            };
            let folder = self.options.folder.display();
            journal::line(
                JournalLevel::Error,
                "old_folder",
                &[
                    ("server", &joined.server.0),
                    ("folder", &folder),
                    ("core", &core),
                    ("log_ends_at", &end.0),
                    ("was_durable_to", &known.0),
                    ("what", &OLD_FOLDER),
                ],
            );
        }
    }

    fn join(
        &self,
        instance: u64,
        stopper: &Stopper,
    ) -> Result<membership::JoinedServer, ServerError> {
        let epoch = self.known.as_ref().map(|known| known.epoch);
        let folder = self.identity.report(epoch.unwrap_or_default());
        let request = CoordinatorRequest::Join {
            server: self.identity.joined.map(|(_, server)| server),
            instance,
            folder,
            domain: self.options.domain.clone(),
            cores: self.addresses.iter().map(ToString::to_string).collect(),
        };
        let cluster = self.identity.joined.map(|(cluster, _)| cluster);
        let patience =
            membership::JoinLimits {
                refusals: self.options.join_patience,
                stopped: &|| stopper.is_stopped(),
                memory: self.identity.joined.zip(self.known.as_ref()).map(
                    |((_, server), known)| {
                        CoordinatorRequest::Remember(RecallReport {
                            core: CoreId { server, core: 0 },
                            incarnation: self.identity.incarnation,
                            runs: false,
                            folder,
                            session_floor: SessionId(0),
                            configuration: known.clone(),
                        })
                    },
                ),
            };
        membership::join(&self.coordinators, cluster, &request, &patience)
    }
}

/// The threads of all cores.
struct Cores {
    threads: Vec<JoinHandle<()>>,
    events: Receiver<CoreEvent>,
    /// One for each core that waits to begin; a core whose sender is dropped ends.
    begin: Vec<Sender<()>>,
    /// Beats until all cores have restored their state.
    pulse: Option<JoinHeartbeat>,
}

impl Cores {
    fn spawn(
        server: &mut ServerProcess,
        ready: &ServingServer,
        configuration: Configuration,
        (stores, is_complete): (Vec<OpenStore>, bool),
    ) -> Result<Cores, ServerError> {
        let configuration = Arc::new(configuration);
        let (sender, events) = mpsc::channel();
        let mut cores = Cores {
            threads: Vec::new(),
            events,
            begin: Vec::new(),
            pulse: Some(JoinHeartbeat::new(
                &server.coordinators,
                ready.cluster,
                ready.server,
                ready.incarnation,
                configuration.epoch,
            )),
        };
        let loops = std::mem::take(&mut server.loops);
        for (core, (event_loop, store)) in (0..).zip(loops.into_iter().zip(stores)) {
            let start = CoreStart {
                identity: CoreIdentity {
                    cluster: ready.cluster,
                    core: CoreId {
                        server: ready.server,
                        core,
                    },
                    incarnation: ready.incarnation,
                },
                configuration: Arc::clone(&configuration),
                options: server.options.clone(),
                folder: server.identity.report(configuration.epoch),
                is_complete,
                coordinators: server.coordinators.addresses.clone(),
                clock: server.clock,
            };
            let sender = sender.clone();
            let (begin, may_begin) = mpsc::channel();
            cores.begin.push(begin);
            let thread = std::thread::Builder::new()
                .name(format!("core-{core}"))
                .spawn(move || {
                    let result = start.serve(store, event_loop, &sender, &may_begin);
                    // The receiver is gone only when the process is ending anyway.
                    let _ = sender.send(CoreEvent::Ended(core, result));
                })
                .map_err(ServerError::io(format!("start the thread of core {core}")))?;
            cores.threads.push(thread);
        }
        Ok(cores)
    }

    /// Returns the next event of a core; none once all have ended.
    fn next(&mut self) -> Option<CoreEvent> {
        while let Some(pulse) = &mut self.pulse {
            match self.events.recv_timeout(PULSE_PAUSE) {
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Timeout) => pulse.beat(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        self.events.recv().ok()
    }

    fn begin(&self) {
        for begin in &self.begin {
            // A core that has ended meanwhile reports it itself.
            let _ = begin.send(());
        }
    }
}

/// The values that a core needs to start, on its own thread.
struct CoreStart {
    identity: CoreIdentity,
    configuration: Arc<Configuration>,
    options: ServerOptions,
    folder: FolderReport,
    /// The process before ended cleanly: its log has all that it had.
    is_complete: bool,
    coordinators: Vec<SocketAddr>,
    clock: Clock,
}

impl CoreStart {
    fn serve(
        self,
        store: OpenStore,
        event_loop: EventLoop,
        sender: &Sender<CoreEvent>,
        may_begin: &Receiver<()>,
    ) -> Result<Position, ServerError> {
        match store {
            OpenStore::Disk(store) => self.serve_on(*store, event_loop, sender, may_begin),
            OpenStore::Memory(store) => self.serve_on(store, event_loop, sender, may_begin),
        }
    }

    fn serve_on<S: CoreStore>(
        self,
        mut store: S,
        event_loop: EventLoop,
        sender: &Sender<CoreEvent>,
        may_begin: &Receiver<()>,
    ) -> Result<Position, ServerError> {
        let limits = self.options.machine_limits;
        let mut machine = CoreMachine::new(self.identity, limits, self.configuration);
        store.recover(&mut machine)?;
        if self.is_complete {
            machine.note_complete();
        }
        // The receiver is gone only when the process is ending anyway.
        let _ = sender.send(CoreEvent::Restored);
        if may_begin.recv().is_err() {
            let last = store.durable();
            return store.close().map(|()| last);
        }
        let sender = (self.identity.core.core == 0).then(|| sender.clone());
        let environment = CoreEnvironment {
            clock: self.clock,
            coordinators: self.coordinators,
            folder: self.folder,
            configured: Box::new(move |configuration| {
                if let Some(sender) = &sender {
                    // The receiver is gone only when the process is ending anyway.
                    let _ = sender.send(CoreEvent::Configured(Arc::clone(configuration)));
                }
            }),
        };
        let mut core = CoreDriver::start(machine, store, environment)?;
        event_loop.run(&mut core)?;
        core.close()
    }
}

fn core_address(listen: SocketAddr, core: u16) -> Result<SocketAddr, ServerError> {
    if listen.port() == 0 {
        return Ok(listen);
    }
    let port = listen.port().checked_add(core);
    let port = port.ok_or_else(|| {
        ServerError::Options(format!(
            "core {core} would listen at a port beyond 65535: begin at a lower one than {}",
            listen.port()
        ))
    })?;
    Ok(SocketAddr::new(listen.ip(), port))
}

fn advertised(loops: &[EventLoop], advertise: IpAddr) -> Vec<SocketAddr> {
    let ports = loops.iter().map(|event_loop| event_loop.address().port());
    ports.map(|port| SocketAddr::new(advertise, port)).collect()
}

fn note_ready(ready: &ServingServer) {
    let addresses: Vec<String> = ready.addresses.iter().map(ToString::to_string).collect();
    let cluster = format!("{:016x}", ready.cluster);
    journal::line(
        JournalLevel::Info,
        "server_ready",
        &[
            ("server", &ready.server.0),
            ("incarnation", &ready.incarnation.0),
            ("cluster", &cluster),
            ("addresses", &addresses.join(",")),
        ],
    );
}
