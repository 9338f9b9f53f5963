//! `replex start`: a store in one process that serves PostgreSQL's protocol.

use std::net::SocketAddr;

use pg_server::ServerLimits;
use replex::embedded::{EmbeddedOptions, EmbeddedStore};
use replex::failure::CommandFailure;
use replex::{note, say};
use server::signals::stop_on_signals;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::arguments::StartArguments;
use crate::runtime;
use crate::sql_listener::{NetworkPolicy, SqlListener};
use crate::stdin::stop_when_stdin_ends;

/// Runs `replex start`.
pub fn start(arguments: &StartArguments) -> Result<(), CommandFailure> {
    let policy = match arguments.insecure {
        true => NetworkPolicy::Allowed,
        false => NetworkPolicy::NeedsOption("--insecure"),
    };
    let listener = SqlListener::bind(arguments.listen, &arguments.login, policy)?;
    let (signal, signals) = unbounded_channel();
    // The command may be stopping already.
    let stop = move || signal.send(()).unwrap_or_default();
    stop_on_signals(stop).map_err(CommandFailure::at("wait for signals"))?;
    if arguments.until_stdin_ends {
        stop_when_stdin_ends();
    }
    let store = EmbeddedStore::start_with(&EmbeddedOptions {
        folder: arguments.data.clone(),
        memory_bytes: arguments.tables_memory_mib as usize * (1 << 20),
        cores: arguments.cores,
        small_log: None,
    })?;
    let (address, coordinator) = (listener.address(), store.coordinator());
    let limits = ServerLimits {
        connections: arguments.connections as usize,
        ..ServerLimits::default()
    };
    let (sql, is_connected) = listener.serve(vec![coordinator.to_string()], limits)?;
    let ended = runtime()?.block_on(wait(&store, is_connected, signals, || {
        print_start(arguments, address, coordinator);
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

/// Waits until a signal ends the process, or a part of the store has ended. Returns its name.
async fn wait(
    store: &EmbeddedStore,
    is_connected: oneshot::Receiver<()>,
    mut signals: UnboundedReceiver<()>,
    ready: impl FnOnce(),
) -> Option<&'static str> {
    let serving = async {
        if is_connected.await.is_ok() {
            ready();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => unreachable!("it waits for ever"),
        _ = signals.recv() => None,
        part = store.ended() => Some(part),
    }
}

fn print_start(arguments: &StartArguments, address: SocketAddr, coordinator: SocketAddr) {
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
    say!("or with        replex sql -C {coordinator}");
    say!("Data is in     {}", arguments.data.display());
    say!(
        "Tables survive a restart and a crash, and not the loss of this disk: there is one server."
    );
    if !address.ip().is_loopback() && arguments.insecure {
        note!(
            "replex: {address} is open to the network; --insecure has switched its protection off"
        );
    }
    say!("ready sql={address} coordinator={coordinator}");
}
