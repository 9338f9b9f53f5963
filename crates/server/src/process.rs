//! A server process: its folder, its identity, its cores and their threads.
//!
//! It opens the folder, listens, joins the cluster, and then each core restores what it knew and
//! serves, on a thread of its own. When one core fails the others are stopped too: a server is
//! there or it is not.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Incarnation, ServerId};
use protocol::machine::{CoreMachine, Identity};
use protocol::message::CoordinatorRequest;

use crate::clock::Clock;
use crate::core::Core;
use crate::error::ServerError;
use crate::event_loop::{EventLoop, Handle, Options};
use crate::folder::Folder;
use crate::identity_file::ServerIdentity;
use crate::joining;
use crate::journal::{self, Level};
use crate::options::{ServerOptions, StorageOptions, check_listen, resolve};
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
}

/// What a core's thread tells.
enum Told {
    Ready,
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
        let advertise = options.advertise.unwrap_or(options.listen.ip());
        if advertise.is_unspecified() {
            return Err(ServerError::Options(format!(
                "nobody can connect to {advertise}: say which address others are to use, with \
                 --advertise"
            )));
        }
        let folder = Folder::open(&options.folder)?;
        let identity = match ServerIdentity::read(&folder)? {
            Some(identity) => identity,
            None => {
                let identity = ServerIdentity {
                    disk: random::number()?,
                    joined: None,
                };
                identity.write(&folder)?;
                identity
            }
        };
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
        Ok(Server {
            options,
            folder,
            identity,
            coordinators,
            clock,
            loops,
            addresses,
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
        self.identity.joined = Some((joined.configuration.cluster, joined.server));
        self.identity.write(&self.folder)?;
        let is_ready = Ready {
            cluster: joined.configuration.cluster,
            server: joined.server,
            incarnation: joined.incarnation,
            addresses: self.addresses.clone(),
        };
        let configuration = Arc::new(joined.configuration);
        let (tell, told) = mpsc::channel();
        let mut threads = Vec::new();
        for (core, event_loop) in (0..).zip(std::mem::take(&mut self.loops)) {
            let start = CoreStart {
                identity: Identity {
                    cluster: is_ready.cluster,
                    core: CoreId {
                        server: is_ready.server,
                        core,
                    },
                    incarnation: is_ready.incarnation,
                },
                configuration: Arc::clone(&configuration),
                options: self.options.clone(),
                coordinators: self.coordinators.clone(),
                clock: self.clock,
            };
            let tell = tell.clone();
            let thread = std::thread::Builder::new()
                .name(format!("core-{core}"))
                .spawn(move || {
                    let result = start.serve(event_loop, &tell);
                    // Nobody listens only when the process is ending anyway.
                    let _ = tell.send(Told::Ended(core, result));
                })
                .map_err(ServerError::io(format!("start the thread of core {core}")))?;
            threads.push(thread);
        }
        drop(tell);
        let mut starting = threads.len();
        let mut ready = Some(ready);
        let mut result = Ok(());
        for told in told {
            match told {
                Told::Ready => {
                    starting -= 1;
                    if starting == 0
                        && let Some(ready) = ready.take()
                    {
                        note_ready(&is_ready);
                        ready(&is_ready);
                    }
                }
                Told::Ended(core, Err(error)) => {
                    journal::line(
                        Level::Error,
                        "core_failed",
                        &[("core", &core), ("error", &error)],
                    );
                    stopper.stop();
                    result = result.and(Err(error));
                }
                Told::Ended(_, Ok(())) => {}
            }
        }
        for thread in threads {
            if thread.join().is_err() {
                result = result.and(Err(ServerError::Panicked));
            }
        }
        if result.is_ok() {
            journal::line(
                Level::Info,
                "server_stopped",
                &[("server", &is_ready.server.0)],
            );
        }
        result
    }

    fn join(&self, stopper: &Stopper) -> Result<joining::Joined, ServerError> {
        let request = CoordinatorRequest::Join {
            server: self.identity.joined.map(|(_, server)| server),
            instance: random::number()?,
            disk: self.identity.disk,
            domain: self.options.domain.clone(),
            cores: self.addresses.iter().map(ToString::to_string).collect(),
        };
        let cluster = self.identity.joined.map(|(cluster, _)| cluster);
        let stopped = || stopper.is_stopped();
        joining::join(&self.coordinators, cluster, &request, &stopped)
    }
}

/// What a core needs to start, on its own thread.
struct CoreStart {
    identity: Identity,
    configuration: Arc<Configuration>,
    options: ServerOptions,
    coordinators: Vec<SocketAddr>,
    clock: Clock,
}

impl CoreStart {
    fn serve(self, event_loop: EventLoop, tell: &Sender<Told>) -> Result<(), ServerError> {
        match self.options.storage {
            StorageOptions::Memory => self.serve_on(MemoryStore::default(), event_loop, tell),
        }
    }

    fn serve_on<S: Store>(
        self,
        mut store: S,
        event_loop: EventLoop,
        tell: &Sender<Told>,
    ) -> Result<(), ServerError> {
        let limits = self.options.machine_limits;
        let mut machine = CoreMachine::new(self.identity, limits, self.configuration);
        store.recover(&mut machine)?;
        let mut core = Core::start(machine, store, self.clock, self.coordinators)?;
        // Nobody listens only when the process is ending anyway.
        let _ = tell.send(Told::Ready);
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
