//! The options of servers and coordinators, and the addresses at which they may listen.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use ::coordinator::CoordinatorSettings;
use cluster_tls::Credentials;
use machines::core::CoreLimits;
use protocol::identity::ServerId;
use storage::StoreOptions;

use crate::error::ServerError;
use crate::event_loop;

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The server's data folder, created if it is missing.
    pub folder: PathBuf,
    /// The address of the server's first core. The other cores use the next ports. Port 0 uses free
    /// ports.
    pub listen: SocketAddr,
    /// The address that others connect to, if it differs from the listen address.
    pub advertise: Option<IpAddr>,
    /// The number of cores: event loops, each with its own log and partitions.
    pub cores: u16,
    /// `host:port` of each coordinator, tried in order.
    pub coordinators: Vec<String>,
    /// The failure domain; empty if the server fails alone.
    pub domain: String,
    /// Whether to listen on a network without encryption.
    pub allow_unencrypted_network: bool,
    /// The certificates of the process, if its connections are encrypted.
    pub credentials: Option<Credentials>,
    /// The longest wait for a temporary refusal of the coordinator, because the lease of the
    /// earlier process must end.
    pub join_patience: Duration,
    /// Whether to poll without sleeping.
    pub spin: bool,
    /// The address that serves counters as Prometheus text; port 0 uses a free port.
    pub metrics: Option<SocketAddr>,
    /// The limits of each event loop.
    pub loop_limits: event_loop::LoopLimits,
    /// The limits of each core's machine.
    pub machine_limits: CoreLimits,
    /// The location of a core's data.
    pub storage: StorageOptions,
    /// The memory of each core's tables, its checkpoints and its log, if its data are in the
    /// folder. Whether the folder may be new is not set here, because the folder has that
    /// information.
    pub store: StoreOptions,
}

/// The location of a core's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageOptions {
    /// In the data folder.
    Folder,
    /// Only in memory, lost with the process. For measurements without a disk.
    Memory,
}

impl ServerOptions {
    /// Returns the defaults: loopback, a free port, one core.
    pub fn new(folder: impl Into<PathBuf>, coordinators: Vec<String>) -> Self {
        ServerOptions {
            folder: folder.into(),
            listen: loopback(),
            advertise: None,
            cores: 1,
            coordinators,
            domain: String::new(),
            allow_unencrypted_network: false,
            credentials: None,
            join_patience: Duration::from_secs(10),
            spin: false,
            metrics: None,
            loop_limits: event_loop::LoopLimits::default(),
            machine_limits: CoreLimits::default(),
            storage: StorageOptions::Folder,
            store: StoreOptions::default(),
        }
    }
}

/// The options of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorOptions {
    /// The location of the coordinator's state.
    pub state: StateOptions,
    /// The listen address; port 0 uses a free port.
    pub listen: SocketAddr,
    /// The address that others connect to, if it differs from the listen address.
    pub advertise: Option<IpAddr>,
    /// Whether to listen on a network without encryption.
    pub allow_unencrypted_network: bool,
    /// The certificates of the process, if its connections are encrypted.
    pub credentials: Option<Credentials>,
    /// Leases and other intervals.
    pub settings: CoordinatorSettings,
    /// Set to rebuild the state from the servers, because it is lost or an older copy. The
    /// coordinator does not wait for the given servers, which are lost for good.
    pub recover: Option<BTreeSet<ServerId>>,
    /// The limits of the event loop.
    pub loop_limits: event_loop::LoopLimits,
}

/// The location of a coordinator's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateOptions {
    /// In a folder, created if it is missing, by one coordinator.
    Folder(PathBuf),
    /// In etcd, by any number of coordinators, one of which leads.
    Etcd(EtcdOptions),
}

/// The etcd and the prefix of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// `http://host:port` of its members, tried in order.
    pub urls: Vec<String>,
    /// The prefix of all keys. Each cluster needs its own.
    pub prefix: String,
}

impl CoordinatorOptions {
    /// Returns the defaults: loopback, a free port, and the state in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        CoordinatorOptions::of(StateOptions::Folder(folder.into()))
    }

    /// Returns the defaults with this place of the state.
    pub fn of(state: StateOptions) -> Self {
        CoordinatorOptions {
            state,
            listen: loopback(),
            advertise: None,
            allow_unencrypted_network: false,
            credentials: None,
            settings: CoordinatorSettings::default(),
            recover: None,
            loop_limits: event_loop::LoopLimits::default(),
        }
    }
}

fn loopback() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

/// Returns an error for an address that other machines can reach, unless unencrypted networks are
/// allowed.
///
/// # Errors
/// Other machines can reach the address, and unencrypted networks are not allowed. Contains the
/// reason and the remedy.
pub fn check_listen(address: SocketAddr, allow_unencrypted: bool) -> Result<(), ServerError> {
    if address.ip().is_loopback() || allow_unencrypted {
        return Ok(());
    }
    Err(ServerError::Options(format!(
        "{address} can be reached from the network, and without certificates there is no encryption \
         and no login: any process that reaches it could read and change everything. Give \
         --certificates FOLDER, which `replex cert --node` makes, or listen at a loopback address \
         such as 127.0.0.1, or, in a network that you trust, add --allow-unencrypted-network"
    )))
}

/// Returns the IP address that others connect to.
///
/// # Errors
/// No process could connect to it.
pub(crate) fn advertised_ip(
    listen: SocketAddr,
    advertise: Option<IpAddr>,
) -> Result<IpAddr, ServerError> {
    let ip = advertise.unwrap_or(listen.ip());
    if ip.is_unspecified() {
        return Err(ServerError::Options(format!(
            "no process can connect to {ip}: name the address that others are to use, with --advertise"
        )));
    }
    Ok(ip)
}

/// Returns the addresses for names, in the order of the names.
///
/// # Errors
/// There is none, or a name stands for nothing.
pub(crate) fn resolve(names: &[String]) -> Result<Vec<SocketAddr>, ServerError> {
    let mut addresses = Vec::new();
    for name in names {
        let found = name.to_socket_addrs();
        let what = format!("find the coordinator {name} (host:port)");
        addresses.extend(found.map_err(ServerError::io(what))?);
    }
    if addresses.is_empty() {
        return Err(ServerError::Options(
            "no coordinator is named: give its host:port".to_owned(),
        ));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_address_needs_a_word() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for address in ["127.0.0.1:0", "127.8.8.8:1", "[::1]:7"] {
            check_listen(at(address), false).unwrap();
        }
        for address in ["0.0.0.0:0", "10.0.0.1:7", "[::]:7"] {
            let error = check_listen(at(address), false).unwrap_err().to_string();
            assert!(error.contains(address), "{error}");
            assert!(error.contains("no encryption"), "{error}");
            assert!(error.contains("--certificates"), "{error}");
            assert!(error.contains("--allow-unencrypted-network"), "{error}");
            check_listen(at(address), true).unwrap();
        }
    }
}
