//! `replex start`: a store in one process that serves PostgreSQL's protocol, alone or as a part of
//! a cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use cluster_tls::CredentialFiles;
use pg_server::ServerLimits;
use replex::embedded::{COORDINATOR, ClusterPlace, EmbeddedOptions, EmbeddedStore, SERVER};
use replex::failure::CommandFailure;
use replex::{credentials, inspect, note, say, tolerance};
use server::signals::stop_on_signals;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::arguments::{CLUSTER_PORT, StartArguments};
use crate::runtime;
use crate::sql_listener::{NetworkPolicy, SqlListener};
use crate::stdin::stop_when_stdin_ends;

/// Runs `replex start`.
pub fn start(arguments: &StartArguments) -> Result<(), CommandFailure> {
    credentials::read(arguments.certificates.as_deref(), CredentialFiles::Node)?;
    let policy = match arguments.insecure {
        true => NetworkPolicy::Allowed,
        false => NetworkPolicy::NeedsOption("--insecure"),
    };
    let listener = SqlListener::bind(arguments.listen, &arguments.login, policy)?;
    let (signal, mut signals) = unbounded_channel();
    // The command may be stopping already.
    let stop = move || signal.send(()).unwrap_or_default();
    stop_on_signals(stop).map_err(CommandFailure::at("wait for signals"))?;
    if arguments.until_stdin_ends {
        stop_when_stdin_ends();
    }
    let place = place(arguments)?;
    let (store, start) = EmbeddedStore::begin(&EmbeddedOptions {
        folder: arguments.data.clone(),
        memory_bytes: arguments.tables_memory_mib as usize * (1 << 20),
        cores: arguments.cores,
        small_log: None,
        cluster: place,
    })?;
    let address = listener.address();
    let runtime = runtime()?;
    let started = runtime.block_on(async {
        tokio::select! {
            started = start.wait() => started.map(|()| true),
            _ = signals.recv() => Ok(false),
        }
    });
    if !started? {
        return Ok(());
    }
    let limits = ServerLimits {
        connections: arguments.connections as usize,
        ..ServerLimits::default()
    };
    let coordinators = vec![store.coordinator().to_owned()];
    if arguments.join.is_none() {
        let raised = tolerance::start(store.coordinator().to_owned());
        raised.map_err(CommandFailure::at("start a thread"))?;
    }
    let (sql, is_connected) = listener.serve(coordinators.clone(), limits)?;
    let ended = runtime.block_on(wait(&store, is_connected, signals, async || {
        print_start(arguments, address, &coordinators).await;
    }));
    // Clients end first, because they use the store.
    drop(sql);
    drop(store);
    match ended {
        None => Ok(()),
        Some(part) => Err(CommandFailure::Failed(format!(
            "the {part} of the store has ended: the line before gives the reason"
        ))),
    }
}

/// Returns the place of this machine in a cluster; none for a store of one machine.
fn place(arguments: &StartArguments) -> Result<Option<ClusterPlace>, CommandFailure> {
    let folder = &arguments.data;
    let has = |part: &str| folder.join(part).exists();
    let coordinator = arguments.join.clone();
    if coordinator.is_some() && has(COORDINATOR) {
        return Err(CommandFailure::Usage(format!(
            "{} has a cluster of its own, with its coordinator: start it without --join, or give \
             --join another folder by --data",
            folder.display()
        )));
    }
    if coordinator.is_none() && has(SERVER) && !has(COORDINATOR) {
        return Err(CommandFailure::Usage(format!(
            "{} belongs to a machine that has joined a cluster: give --join and the address of its \
             coordinator again",
            folder.display()
        )));
    }
    let address = match (arguments.cluster, &coordinator) {
        (Some(address), _) => address,
        (None, Some(coordinator)) => own_address(coordinator)?,
        (None, None) if arguments.certificates.is_some() => {
            let text = "--certificates are for a cluster: give --cluster ADDRESS or --join ADDRESS";
            return Err(CommandFailure::Usage(text.into()));
        }
        (None, None) => return Ok(None),
    };
    if !address.ip().is_loopback() && arguments.certificates.is_none() && !arguments.insecure {
        return Err(CommandFailure::Usage(format!(
            "{address} can be reached from the network, and its connections would not be \
             encrypted: any process that reaches it could read and change everything. Give \
             --certificates FOLDER, which `replex cert --node` makes, or, in a network that you \
             trust, add --insecure"
        )));
    }
    Ok(Some(ClusterPlace {
        address,
        coordinator,
        domain: arguments.domain.clone(),
        allow_unencrypted: arguments.insecure,
    }))
}

/// Returns the address by which this machine reaches a coordinator. On one machine, ports are free
/// ones.
fn own_address(coordinator: &str) -> Result<SocketAddr, CommandFailure> {
    let what = || format!("find the way to {coordinator}");
    let mut found = coordinator
        .to_socket_addrs()
        .map_err(CommandFailure::at(what()))?;
    let other = found
        .next()
        .ok_or_else(|| CommandFailure::Failed(format!("{coordinator} has no address")))?;
    let any: IpAddr = match other {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: the system only chooses the address that it would send from.
    let own = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(other)?;
        socket.local_addr()
    });
    let ip = own.map_err(CommandFailure::at(what()))?.ip();
    let port = if ip.is_loopback() { 0 } else { CLUSTER_PORT };
    Ok(SocketAddr::new(ip, port))
}

/// Waits until a signal ends the process, or a part of the store has ended. Returns its name.
async fn wait(
    store: &EmbeddedStore,
    is_connected: oneshot::Receiver<()>,
    mut signals: UnboundedReceiver<()>,
    ready: impl AsyncFnOnce(),
) -> Option<&'static str> {
    let serving = async {
        if is_connected.await.is_ok() {
            ready().await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => unreachable!("it waits for ever"),
        _ = signals.recv() => None,
        part = store.ended() => Some(part),
    }
}

/// Prints the addresses, and how many failures the store survives.
async fn print_start(arguments: &StartArguments, address: SocketAddr, coordinators: &[String]) {
    let host = match address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        ip => ip.to_string(),
    };
    let port = address.port();
    match (&arguments.login.users, arguments.login.can_encrypt()) {
        (None, false) => say!("Connect with   psql -h {host} -p {port} replex"),
        (_, can_encrypt) => {
            let mode = if can_encrypt { " sslmode=require" } else { "" };
            say!("Connect with   psql \"host={host} port={port} user=NAME dbname=replex{mode}\"");
        }
    }
    let coordinator = coordinators.join(",");
    let with = match &arguments.certificates {
        None => String::new(),
        Some(folder) => format!(" --certificates {}", folder.display()),
    };
    say!("or with        replex sql -C {coordinator}{with}");
    if arguments.cluster.is_some() || arguments.join.is_some() {
        say!("Add a machine  replex start --join {coordinator}{with}");
    }
    say!("Data is in     {}", arguments.data.display());
    // The line is left out if the coordinator has just gone.
    if let Ok((_, configuration)) = inspect::fetch_any(coordinators).await {
        say!("{}", survival(configuration.servers.len()));
    }
    let exposed = !address.ip().is_loopback() && arguments.insecure;
    if exposed {
        note!(
            "replex: {address} is open to the network; --insecure has switched its protection off"
        );
    }
    say!("ready sql={address} coordinator={coordinator}");
}

/// Returns what the tables of a cluster survive, for people.
fn survival(servers: usize) -> String {
    match servers {
        0..=1 => {
            "Tables survive a restart and a crash, and not the loss of this disk: there is one \
                  server."
                .into()
        }
        servers => format!(
            "There are {servers} servers: tables survive the loss of one of them, older ones as soon \
             as their copies are made."
        ),
    }
}
