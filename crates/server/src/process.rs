//! A server process: its folder, its identity, its cores and their threads.
//!
//! It opens the folder, listens, joins the cluster, and then each core restores what it knew and
//! serves, on a thread of its own. When one core fails the others are stopped too: a server is
//! there or it is not.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Incarnation, ServerId};
use protocol::machine::{CoreMachine, Identity};
use protocol::message::CoordinatorRequest;

use storage::StoreOptions;

use crate::clock::Clock;
use crate::core::Core;
use crate::disk_store::{DiskStore, DiskStoreOptions};
use crate::error::ServerError;
use crate::event_loop::{EventLoop, Handle, Options};
use crate::folder::Folder;
use crate::identity_file::ServerIdentity;
use crate::journal::{self, Level};
use crate::limits;
use crate::membership::{self, PULSE_PAUSE, Pulse};
use crate::metrics::{self, Metrics};
use crate::options::{ServerOptions, StorageOptions, advertised_ip, check_listen, resolve};
use crate::random;
use crate::store::{MemoryStore, Store};

/// A server that listens and has not joined yet.
pub struct Server {
    options: ServerOptions,
    folder: Folder,
    identity: ServerIdentity,
    coordinators: Vec<SocketAddr>,
    clock: Clock,
    loops: Vec<EventLoop>,
    addresses: Vec<SocketAddr>,
    metrics: Option<Metrics>,
}

/// Stops a server from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    handles: Vec<Handle>,
}

impl Stopper {
    /// Asks every core to finish what is under way and end.
    pub fn stop(&self) {
        for handle in &self.handles {
            handle.stop();
        }
    }

    fn is_stopped(&self) -> bool {
        self.handles.iter().any(Handle::is_stopped)
    }
}

/// A server that serves.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The cluster that it belongs to.
    pub cluster: u64,
    /// Its number.
    pub server: ServerId,
    /// How often it has joined.
    pub incarnation: Incarnation,
    /// Where each core can be reached.
    pub addresses: Vec<SocketAddr>,
    /// Where its counters can be read, if that was asked for.
    pub metrics: Option<SocketAddr>,
}

/// What a core's thread tells.
enum Told {
    /// It knows what its disk knew, and waits to begin.
    Restored,
    Ended(u16, Result<(), ServerError>),
}

impl Server {
    /// Opens the folder and listens.
    ///
    /// # Errors
    /// An option or the folder cannot be used, or an address is taken.
    pub fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        check_listen(options.listen, options.allow_unencrypted_network)?;
        if options.cores == 0 {
            return Err(ServerError::Options(
                "a server needs at least one core".to_owned(),
            ));
        }
        let coordinators = resolve(&options.coordinators)?;
        let advertise = advertised_ip(options.listen, options.advertise)?;
        let folder = Folder::open(&options.folder)?;
        let identity = match ServerIdentity::read(&folder)? {
            Some(identity) => identity,
            None => {
                let identity = ServerIdentity {
                    disk: random::number()?,
                    cores: 0,
                    joined: None,
                };
                identity.write(&folder)?;
                identity
            }
        };
        limits::raise_descriptors();
        let clock = Clock::start();
        let loop_options = Options {
            limits: options.loop_limits,
            spin: options.spin,
            clock,
        };
        let loops = (0..options.cores)
            .map(|core| EventLoop::bind(core_address(options.listen, core)?, loop_options))
            .collect::<Result<Vec<_>, _>>()?;
        let addresses = advertised(&loops, advertise);
        let metrics = options.metrics.map(|address| {
            check_listen(address, options.allow_unencrypted_network)?;
            Metrics::bind(address)
        });
        let metrics = metrics.transpose()?;
        Ok(Server {
            options,
            folder,
            identity,
            coordinators,
            clock,
            loops,
            addresses,
            metrics,
        })
    }

    /// Where each core can be reached, with real ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// To stop it.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            handles: self.loops.iter().map(EventLoop::handle).collect(),
        }
    }

    /// Joins the cluster, restores what the folder holds and serves until it is stopped. `ready`
    /// is called once all cores serve.
    ///
    /// # Errors
    /// The coordinator refused, the folder cannot be used, or a core failed: then the process is
    /// to end with an error, and a new one reads what is really on the disk (SAFETY R23).
    pub fn run(mut self, ready: impl FnOnce(&Ready)) -> Result<(), ServerError> {
        let stopper = self.stopper();
        let joined = match self.join(&stopper) {
            Err(ServerError::Stopped) => return Ok(()),
            other => other?,
        };
        let is_ready = Ready {
            cluster: joined.configuration.cluster,
            server: joined.server,
            incarnation: joined.incarnation,
            addresses: self.addresses.clone(),
            metrics: self.metrics.as_ref().map(Metrics::address),
        };
        if let Some(metrics) = self.metrics.take() {
            let cores: Vec<_> = self.loops.iter().map(EventLoop::address).collect();
            let server = joined.server;
            metrics.serve(move || metrics::text(server, &cores))?;
        }
        let mut cores = Cores::spawn(&mut self, &is_ready, joined.configuration)?;
        let mut result = self.follow(&mut cores, &is_ready, &stopper, ready);
        for thread in cores.threads {
            if thread.join().is_err() {
                result = result.and(Err(ServerError::Panicked));
            }
        }
        if result.is_ok() {
            // Every core's loop has ended and its log is closed: this is the last word. A process
            // that failed does not say it, for nobody knows what it has still under way.
            let incarnation = (is_ready.server, is_ready.incarnation);
            membership::say_goodbye(&self.coordinators, is_ready.cluster, incarnation);
            journal::line(
                Level::Info,
                "server_stopped",
                &[("server", &is_ready.server.0)],
            );
        }
        result
    }

    /// Lets the cores begin once all have restored what they knew, and follows them to their end.
    fn follow(
        &mut self,
        cores: &mut Cores,
        ready: &Ready,
        stopper: &Stopper,
        when_ready: impl FnOnce(&Ready),
    ) -> Result<(), ServerError> {
        let mut starting = cores.threads.len();
        let mut when_ready = Some(when_ready);
        let mut result = Ok(());
        while let Some(told) = cores.next() {
            match told {
                Told::Restored => {
                    starting -= 1;
                    if starting > 0 {
                        continue;
                    }
                    cores.pulse = None;
                    result = self.keep_identity(ready);
                    if result.is_ok() {
                        cores.begin();
                        note_ready(ready);
                        if let Some(when_ready) = when_ready.take() {
                            when_ready(ready);
                        }
                    }
                    cores.begin.clear();
                }
                Told::Ended(core, Err(error)) => {
                    journal::line(
                        Level::Error,
                        "core_failed",
                        &[("core", &core), ("error", &error)],
                    );
                    stopper.stop();
                    cores.begin.clear();
                    result = result.and(Err(error));
                }
                Told::Ended(_, Ok(())) => {}
            }
        }
        result
    }

    /// From now on a log that is missing is a loss.
    fn keep_identity(&mut self, ready: &Ready) -> Result<(), ServerError> {
        let identity = ServerIdentity {
            cores: self.identity.cores.max(self.options.cores),
            joined: Some((ready.cluster, ready.server)),
            ..self.identity
        };
        if identity != self.identity {
            self.identity = identity;
            self.identity.write(&self.folder)?;
        }
        Ok(())
    }

    fn join(&self, stopper: &Stopper) -> Result<membership::Joined, ServerError> {
        let request = CoordinatorRequest::Join {
            server: self.identity.joined.map(|(_, server)| server),
            instance: random::number()?,
            disk: self.identity.disk,
            domain: self.options.domain.clone(),
            cores: self.addresses.iter().map(ToString::to_string).collect(),
        };
        let cluster = self.identity.joined.map(|(cluster, _)| cluster);
        let patience = membership::Patience {
            refusals: self.options.join_patience,
            stopped: &|| stopper.is_stopped(),
        };
        membership::join(&self.coordinators, cluster, &request, &patience)
    }
}

/// The threads of all cores.
struct Cores {
    threads: Vec<JoinHandle<()>>,
    told: Receiver<Told>,
    /// One for each core that waits to begin; a core whose sender is dropped ends.
    begin: Vec<Sender<()>>,
    /// Beats until all cores have restored what they knew.
    pulse: Option<Pulse>,
}

impl Cores {
    fn spawn(
        server: &mut Server,
        ready: &Ready,
        configuration: Configuration,
    ) -> Result<Cores, ServerError> {
        let configuration = Arc::new(configuration);
        let (tell, told) = mpsc::channel();
        let mut cores = Cores {
            threads: Vec::new(),
            told,
            begin: Vec::new(),
            pulse: Some(Pulse::new(
                &server.coordinators,
                ready.cluster,
                (ready.server, ready.incarnation),
                configuration.epoch,
            )),
        };
        for (core, event_loop) in (0..).zip(std::mem::take(&mut server.loops)) {
            let start = CoreStart {
                identity: Identity {
                    cluster: ready.cluster,
                    core: CoreId {
                        server: ready.server,
                        core,
                    },
                    incarnation: ready.incarnation,
                },
                configuration: Arc::clone(&configuration),
                options: server.options.clone(),
                disk: DiskStoreOptions {
                    disk: server.identity.disk,
                    store: StoreOptions {
                        create: core >= server.identity.cores,
                        ..server.options.store.clone()
                    },
                },
                coordinators: server.coordinators.clone(),
                clock: server.clock,
            };
            let tell = tell.clone();
            let (begin, may_begin) = mpsc::channel();
            cores.begin.push(begin);
            let thread = std::thread::Builder::new()
                .name(format!("core-{core}"))
                .spawn(move || {
                    let result = start.serve(event_loop, &tell, &may_begin);
                    // Nobody listens only when the process is ending anyway.
                    let _ = tell.send(Told::Ended(core, result));
                })
                .map_err(ServerError::io(format!("start the thread of core {core}")))?;
            cores.threads.push(thread);
        }
        Ok(cores)
    }

    /// What a core tells next; none once all have ended.
    fn next(&mut self) -> Option<Told> {
        while let Some(pulse) = &mut self.pulse {
            match self.told.recv_timeout(PULSE_PAUSE) {
                Ok(told) => return Some(told),
                Err(RecvTimeoutError::Timeout) => pulse.beat(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        self.told.recv().ok()
    }

    fn begin(&self) {
        for begin in &self.begin {
            // A core that has ended meanwhile tells so itself.
            let _ = begin.send(());
        }
    }
}

/// What a core needs to start, on its own thread.
struct CoreStart {
    identity: Identity,
    configuration: Arc<Configuration>,
    options: ServerOptions,
    disk: DiskStoreOptions,
    coordinators: Vec<SocketAddr>,
    clock: Clock,
}

impl CoreStart {
    fn serve(
        self,
        event_loop: EventLoop,
        tell: &Sender<Told>,
        may_begin: &Receiver<()>,
    ) -> Result<(), ServerError> {
        match self.options.storage {
            StorageOptions::Folder => {
                let core = format!("core-{}", self.identity.core.core);
                let folder = self.options.folder.join(core);
                let store = DiskStore::open(&folder, self.disk.clone(), event_loop.handle())?;
                self.serve_on(store, event_loop, tell, may_begin)
            }
            StorageOptions::Memory => {
                self.serve_on(MemoryStore::default(), event_loop, tell, may_begin)
            }
        }
    }

    fn serve_on<S: Store>(
        self,
        mut store: S,
        event_loop: EventLoop,
        tell: &Sender<Told>,
        may_begin: &Receiver<()>,
    ) -> Result<(), ServerError> {
        let limits = self.options.machine_limits;
        let mut machine = CoreMachine::new(self.identity, limits, self.configuration);
        store.recover(&mut machine)?;
        // Nobody listens only when the process is ending anyway.
        let _ = tell.send(Told::Restored);
        if may_begin.recv().is_err() {
            return store.close();
        }
        let mut core = Core::start(machine, store, self.clock, self.coordinators)?;
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

fn note_ready(ready: &Ready) {
    let addresses: Vec<String> = ready.addresses.iter().map(ToString::to_string).collect();
    let cluster = format!("{:016x}", ready.cluster);
    journal::line(
        Level::Info,
        "server_ready",
        &[
            ("server", &ready.server.0),
            ("incarnation", &ready.incarnation.0),
            ("cluster", &cluster),
            ("addresses", &addresses.join(",")),
        ],
    );
}
