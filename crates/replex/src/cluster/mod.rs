//! Runs a cluster of processes of this program on loopback: starts, kills, pauses and restarts
//! them.
//!
//! The demo, the process tests and the benchmarks share it. It waits by asking the coordinator and
//! the cores, with a bound on every wait. It must not know the contents of the cluster.

mod process;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use protocol::configuration::{Configuration, ServerState};
use protocol::identity::CoreId;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::inspect;
use crate::wire::FrameConnection;

pub use process::{Process, ProcessLife};

/// The longest wait for a cluster to reach its state.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
/// A coordinator answers at once whether it leads, if it runs.
const LEADER_ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Between two questions whether something has come about.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The environment of a process: network, address and data folder.
#[derive(Clone, Debug)]
pub struct Host {
    /// A command that executes its further arguments in the same process, as `nsenter` does; empty
    /// means none.
    pub launcher: Vec<String>,
    /// The address to listen at.
    pub address: IpAddr,
    /// The folder for data; none means a folder in the cluster's folder.
    pub folder: Option<PathBuf>,
}

impl Default for Host {
    /// Returns a host on which processes start as this process does, on loopback.
    fn default() -> Self {
        Host {
            launcher: Vec::new(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            folder: None,
        }
    }
}

impl Host {
    /// Returns the program to start there, and all its arguments.
    fn command(&self, program: &Path, arguments: &[String]) -> (PathBuf, Vec<String>) {
        let mut words = arguments.to_vec();
        if !self.address.is_loopback() {
            words.push("--allow-unencrypted-network".to_owned());
        }
        let Some((first, launcher)) = self.launcher.split_first() else {
            return (program.to_owned(), words);
        };
        let program = program.display().to_string();
        let launched = launcher.iter().cloned().chain([program]).chain(words);
        (PathBuf::from(first), launched.collect())
    }
}

/// The options with which a cluster is started.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The program: this process's own file, or a test's build.
    pub program: PathBuf,
    /// The parent of the cluster's folder; none means the system's temporary folder.
    pub parent: Option<PathBuf>,
    /// The number of servers.
    pub servers: usize,
    /// The number of coordinators; more than one only with `etcd`.
    pub coordinators: usize,
    /// The members of the etcd that has the coordinators' state; without members the state is in a
    /// folder.
    pub etcd: Vec<String>,
    /// Further arguments of each coordinator.
    pub coordinator_arguments: Vec<String>,
    /// Further arguments of each server.
    pub server_arguments: Vec<String>,
    /// The environment of the coordinators.
    pub coordinator_host: Host,
    /// The environments of the servers, by position. Further servers run in the environment of this
    /// process.
    pub server_hosts: Vec<Host>,
    /// Whether the processes end with this one.
    pub life: ProcessLife,
}

impl ClusterOptions {
    /// Returns the options of three servers that end with this process, in the system's temporary
    /// folder.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        ClusterOptions {
            program: program.into(),
            parent: None,
            servers: 3,
            coordinators: 1,
            etcd: Vec::new(),
            coordinator_arguments: Vec::new(),
            server_arguments: Vec::new(),
            coordinator_host: Host::default(),
            server_hosts: Vec::new(),
            life: ProcessLife::WithParent,
        }
    }
}

/// Coordinators and servers. Dropped, it kills the processes and removes the folder.
pub struct Cluster {
    options: ClusterOptions,
    // Fields are dropped in this order: the folder goes last.
    coordinators: Vec<Option<Process>>,
    coordinator_addresses: Vec<String>,
    servers: Vec<Option<Process>>,
    folder: Option<TempDir>,
    path: PathBuf,
}

impl Cluster {
    /// Starts the processes and waits until all serve.
    ///
    /// # Errors
    /// A process did not start; nothing is left behind.
    pub async fn start(options: ClusterOptions) -> io::Result<Cluster> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("replex-");
        let folder = match &options.parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        }?;
        let (coordinators, servers) = (options.coordinators, options.servers);
        let mut cluster = Cluster {
            options,
            coordinators: Vec::new(),
            coordinator_addresses: Vec::new(),
            servers: Vec::new(),
            path: folder.path().to_owned(),
            folder: Some(folder),
        };
        for position in 0..coordinators {
            cluster.coordinators.push(None);
            let anywhere = SocketAddr::new(cluster.options.coordinator_host.address, 0);
            cluster.coordinator_addresses.push(anywhere.to_string());
            cluster.start_coordinator(position).await?;
        }
        for _ in 0..servers {
            cluster.add_server().await?;
        }
        if servers > 0 {
            cluster.wait_until_serving().await?;
        }
        Ok(cluster)
    }

    /// Starts a coordinator, at its earlier address if it has run before.
    ///
    /// # Errors
    /// The coordinator did not start.
    pub async fn start_coordinator(&mut self, position: usize) -> io::Result<()> {
        let place = &mut self.coordinators[position];
        assert!(place.is_none(), "this coordinator runs already");
        let name = match self.options.coordinators {
            1 => "coordinator".to_owned(),
            _ => format!("coordinator {}", position + 1),
        };
        let mut arguments = vec!["coordinator".to_owned()];
        if self.options.etcd.is_empty() {
            let folder = self.path.join("coordinator").display().to_string();
            arguments.extend(["--data".to_owned(), folder]);
        } else {
            arguments.extend(["--etcd".to_owned(), self.options.etcd.join(",")]);
        }
        let address = &mut self.coordinator_addresses[position];
        arguments.extend(["--listen".to_owned(), address.clone()]);
        arguments.extend(self.options.coordinator_arguments.iter().cloned());
        let (program, arguments) = self
            .options
            .coordinator_host
            .command(&self.options.program, &arguments);
        let process = Process::start(
            &name,
            &program,
            &arguments,
            &self.path.join(format!("{}.log", name.replace(' ', "-"))),
            self.options.life,
        )
        .await?;
        let address_line = process.ready_value("coordinator");
        let address_line =
            address_line.ok_or_else(|| io::Error::other("the coordinator has no address"))?;
        address_line.clone_into(address);
        *place = Some(process);
        Ok(())
    }

    /// Sets further arguments for coordinators that are started after this call.
    pub fn set_coordinator_arguments(&mut self, arguments: Vec<String>) {
        self.options.coordinator_arguments = arguments;
    }

    /// Makes coordinators that are started after this call keep their state in this etcd, or in the
    /// folder if `etcd` is none.
    pub fn set_etcd(&mut self, urls: Vec<String>) {
        self.options.etcd = urls;
    }

    /// Adds a server with its own folder. Returns its position, from 0.
    ///
    /// # Errors
    /// The server did not start.
    pub async fn add_server(&mut self) -> io::Result<usize> {
        let position = self.servers.len();
        let process = self.start_server(position).await?;
        self.servers.push(Some(process));
        Ok(position)
    }

    async fn start_server(&self, position: usize) -> io::Result<Process> {
        let number = position + 1;
        let host = self.options.server_hosts.get(position).cloned();
        let host = host.unwrap_or_default();
        let mut arguments = [
            "server",
            "--data",
            &self.server_folder(position).display().to_string(),
            "--coordinator",
            &self.coordinator_addresses.join(","),
            "--listen",
            &SocketAddr::new(host.address, 0).to_string(),
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend(self.options.server_arguments.iter().cloned());
        let (program, arguments) = host.command(&self.options.program, &arguments);
        Process::start(
            &format!("server {number}"),
            &program,
            &arguments,
            &self.path.join(format!("server-{number}.log")),
            self.options.life,
        )
        .await
    }

    /// Returns `host:port` of the first coordinator.
    pub fn coordinator_address(&self) -> &str {
        &self.coordinator_addresses[0]
    }

    /// Returns `host:port` of every coordinator.
    pub fn coordinator_addresses(&self) -> &[String] {
        &self.coordinator_addresses
    }

    /// Returns the folder of all processes.
    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// Returns the data folder of a server.
    pub fn server_folder(&self, position: usize) -> PathBuf {
        let host = self.options.server_hosts.get(position);
        let folder = host.and_then(|host| host.folder.clone());
        folder.unwrap_or_else(|| self.path.join(format!("server-{}", position + 1)))
    }

    /// Returns the number of servers that were started, including ended ones.
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Returns a server's process.
    ///
    /// # Panics
    /// If it was ended.
    pub fn server(&self, position: usize) -> &Process {
        let process = self.servers[position].as_ref();
        process.expect("the caller knows that this server runs")
    }

    /// Returns a coordinator's process.
    ///
    /// # Panics
    /// If it was ended.
    pub fn coordinator(&self, position: usize) -> &Process {
        let process = self.coordinators[position].as_ref();
        process.expect("the caller knows that this coordinator runs")
    }

    /// Waits until a coordinator leads, and returns its position.
    ///
    /// # Errors
    /// None does in time, or a process has ended on its own.
    pub async fn leader(&mut self) -> io::Result<usize> {
        let started = Instant::now();
        loop {
            self.check_processes()?;
            for (position, address) in self.coordinator_addresses.iter().enumerate() {
                let leadership =
                    async { FrameConnection::open(address).await?.find_leader().await };
                // A coordinator that stands still has no more time than this.
                let leadership = tokio::time::timeout(LEADER_ANSWERS_WITHIN, leadership).await;
                if matches!(leadership, Ok(Ok(leadership)) if leadership.leads) {
                    return Ok(position);
                }
            }
            if started.elapsed() > SETTLED_WITHIN {
                let text = "no coordinator leads".to_owned();
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    /// Returns all running processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        let coordinators = self.coordinators.iter().flatten();
        coordinators.chain(self.servers.iter().flatten())
    }

    /// Ends a server at once, as a crash would (SIGKILL).
    ///
    /// # Errors
    /// The server had already ended by itself.
    pub async fn kill(&mut self, position: usize) -> io::Result<()> {
        let mut process = self.servers[position].take().ok_or_else(not_running)?;
        process.kill().await
    }

    /// Ends a server in order (SIGTERM).
    ///
    /// # Errors
    /// The server had already ended by itself, does not end, or exits with an error.
    pub async fn stop(&mut self, position: usize) -> io::Result<()> {
        let mut process = self.servers[position].take().ok_or_else(not_running)?;
        let status = process.stop().await?;
        if !status.success() {
            let text = format!("{} ended with {status}", process.name());
            return Err(io::Error::other(text));
        }
        Ok(())
    }

    /// Waits until a server has ended by itself, as a server with a failing disk must. Returns its
    /// exit status.
    ///
    /// # Errors
    /// The server was not running, or did not end within the time. In the second case it keeps
    /// running.
    pub async fn wait_ended(
        &mut self,
        position: usize,
        within: Duration,
    ) -> io::Result<ExitStatus> {
        let process = self.servers[position].as_mut().ok_or_else(not_running)?;
        let status = process.wait(within).await?;
        self.servers[position] = None;
        Ok(status)
    }

    /// Ends a coordinator at once (SIGKILL).
    ///
    /// # Errors
    /// The coordinator had already ended by itself.
    pub async fn kill_coordinator(&mut self, position: usize) -> io::Result<()> {
        let process = self.coordinators[position].take();
        process.ok_or_else(not_running)?.kill().await
    }

    /// Starts a server that was ended, on its old folder.
    ///
    /// # Errors
    /// The server did not start.
    pub async fn restart(&mut self, position: usize) -> io::Result<()> {
        assert!(self.servers[position].is_none(), "this server runs already");
        let process = self.start_server(position).await?;
        self.servers[position] = Some(process);
        Ok(())
    }

    /// Suspends a server's process (SIGSTOP), like a long pause of its machine.
    ///
    /// # Errors
    /// The server has ended.
    pub fn pause(&self, position: usize) -> io::Result<()> {
        self.server(position).signal(Signal::STOP)
    }

    /// Resumes a suspended server (SIGCONT).
    ///
    /// # Errors
    /// The server has ended.
    pub fn resume(&self, position: usize) -> io::Result<()> {
        self.server(position).signal(Signal::CONT)
    }

    /// Checks that no process has ended by itself.
    ///
    /// # Errors
    /// A process has ended by itself. The error contains the end of the process's log.
    pub fn check_processes(&mut self) -> io::Result<()> {
        let coordinators = self.coordinators.iter_mut().flatten();
        for process in coordinators.chain(self.servers.iter_mut().flatten()) {
            process.check()?;
        }
        Ok(())
    }

    /// Returns the configuration of the leading coordinator.
    ///
    /// # Errors
    /// No coordinator answers.
    pub async fn configuration(&self) -> io::Result<Configuration> {
        inspect::fetch_any(&self.coordinator_addresses)
            .await
            .map(|(_, configuration)| configuration)
    }

    /// Returns a core's counters by name.
    ///
    /// # Errors
    /// The core does not answer.
    pub async fn counters(&self, core: CoreId) -> io::Result<Vec<(String, u64)>> {
        let configuration = self.configuration().await?;
        let address = configuration.address(core);
        let address = address.ok_or_else(|| io::Error::other(format!("there is no {core}")))?;
        inspect::counters(address).await
    }

    /// Waits until the coordinator's configuration satisfies a condition. If no coordinator returns
    /// one, for example because it recovers its state, this function asks again.
    ///
    /// # Errors
    /// The condition is not met in time, or a process has ended by itself. The error contains
    /// `what`, the last failure to get a configuration, and the ends of the processes' logs.
    pub async fn wait_until(
        &mut self,
        what: &str,
        holds: impl Fn(&Configuration) -> bool,
    ) -> io::Result<Configuration> {
        let started = Instant::now();
        loop {
            self.check_processes()?;
            let failure = match self.configuration().await {
                Ok(configuration) if holds(&configuration) => return Ok(configuration),
                Ok(_) => String::new(),
                Err(error) => format!("; {error}"),
            };
            if started.elapsed() > SETTLED_WITHIN {
                let seconds = SETTLED_WITHIN.as_secs();
                let mut text = format!("after {seconds} s still waiting for: {what}{failure}");
                for process in self.processes() {
                    text.push('\n');
                    text.push_str(&process.report("has written to its log:"));
                }
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    /// Waits until every server that was started and not ended is up and every core of it serves.
    ///
    /// # Errors
    /// As [`Cluster::wait_until`].
    pub async fn wait_until_serving(&mut self) -> io::Result<()> {
        let running = self.servers.iter().flatten().count();
        let what = format!("{running} servers up");
        let configuration = self
            .wait_until(&what, |configuration| {
                configuration
                    .servers
                    .iter()
                    .filter(|server| server.state == ServerState::Up)
                    .count()
                    >= running
            })
            .await?;
        let up = configuration.servers.iter();
        let up = up.filter(|server| server.state == ServerState::Up);
        let addresses: Vec<String> = up.flat_map(|server| server.cores.clone()).collect();
        let started = Instant::now();
        for address in addresses {
            loop {
                self.check_processes()?;
                let recovering = inspect::counters(&address).await.map(|counters| {
                    let found = counters.iter().find(|(name, _)| name == "recovering");
                    found.is_some_and(|(_, value)| *value != 0)
                });
                if matches!(recovering, Ok(false)) {
                    break;
                }
                if started.elapsed() > SETTLED_WITHIN {
                    let text = format!("the core at {address} does not serve: {recovering:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        }
        Ok(())
    }

    /// Leaves the processes and the folder when this value is dropped. Returns the folder and the
    /// process ids, the coordinator's first. Only detached processes also outlive this process.
    pub fn keep(mut self) -> (PathBuf, Vec<u32>) {
        let ids = self.processes().map(Process::id).collect();
        let coordinators = self.coordinators.iter_mut().flatten();
        for process in coordinators.chain(self.servers.iter_mut().flatten()) {
            process.release();
        }
        if let Some(folder) = self.folder.take() {
            let _ = folder.keep();
        }
        (self.path.clone(), ids)
    }
}

fn not_running() -> io::Error {
    io::Error::other("this process was ended before")
}
