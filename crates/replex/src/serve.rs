//! The commands that run until they are stopped: `server`, `coordinator` and `baseline`.
//!
//! Each prints one line `ready key=value …` on stdout once it serves, for the process that started
//! it.

use std::io::Write;
use std::time::Duration;

use cluster_tls::CredentialFiles;
use pg_server::ServerLimits;
use protocol::identity::ServerId;
use replex::failure::CommandFailure;
use replex::{credentials, self_check, tolerance};
use server::baseline::Baseline;
use server::clock::Clock;
use server::coordinator::CoordinatorProcess;
use server::error::ServerError;
use server::event_loop;
use server::options::{
    CoordinatorOptions, EtcdOptions, ServerOptions, StateOptions, StorageOptions,
};
use server::process::{ServerProcess, ServingServer};
use server::signals::stop_on_signals;

use crate::arguments;
use crate::sql_listener::{NetworkPolicy, SqlListener};
use crate::stdin::stop_when_stdin_ends;

/// Runs `replex server`.
pub fn server(arguments: &arguments::ServerArguments) -> Result<(), CommandFailure> {
    let certificates = arguments.process.certificates.as_deref();
    credentials::read(certificates, CredentialFiles::Node)?;
    let mut options = ServerOptions::new(&arguments.data, arguments.coordinator.clone());
    options.listen = arguments.listen;
    options.advertise = arguments.advertise;
    options.cores = arguments.cores;
    options.domain.clone_from(&arguments.domain);
    options.spin = arguments.spin;
    options.metrics = arguments.metrics;
    options.machine_limits.range_entries_max = arguments.range_entries;
    options.machine_limits.range_requests_max = arguments.range_requests;
    options.store.memory_bytes = arguments.tables_memory_mib as usize * (1 << 20);
    options.allow_unencrypted_network = arguments.process.allow_unencrypted_network;
    options.credentials = credentials::current();
    if arguments.memory {
        options.storage = StorageOptions::Memory;
    }
    let policy = match arguments.process.allow_unencrypted_network {
        true => NetworkPolicy::Allowed,
        false => NetworkPolicy::NeedsOption("--allow-unencrypted-network"),
    };
    if arguments.sql.is_none() && (arguments.login.users.is_some() || arguments.login.can_encrypt())
    {
        let text =
            "--users and --tls-certificate are for clients of SQL: give --sql ADDRESS:PORT, too";
        return Err(CommandFailure::Usage(text.into()));
    }
    let sql = arguments
        .sql
        .map(|address| SqlListener::bind(address, &arguments.login, policy));
    let sql = sql.transpose()?;
    let mut serving_sql = Ok(None);
    let server = ServerProcess::bind(options).map_err(failure)?;
    let stopper = server.stopper();
    stop_on_signals(move || stopper.stop()).map_err(failure)?;
    if arguments.process.until_stdin_ends {
        stop_when_stdin_ends();
    }
    let served = server
        .run(|ready: &ServingServer| {
            let mut line = format!(
                "server={} incarnation={}",
                ready.server.0, ready.incarnation.0
            );
            for (core, address) in ready.addresses.iter().enumerate() {
                line += &format!(" core{core}={address}");
            }
            if let Some(address) = ready.metrics {
                line += &format!(" metrics={address}");
            }
            if let Some(sql) = sql {
                line += &format!(" sql={}", sql.address());
                let serving = sql.serve(arguments.coordinator.clone(), ServerLimits::default());
                serving_sql = serving.map(|(running, _)| Some(running));
            }
            print_ready(&line);
        })
        .map_err(failure);
    drop(serving_sql?);
    served
}

/// Runs `replex coordinator`.
pub fn coordinator(arguments: &arguments::CoordinatorArguments) -> Result<(), CommandFailure> {
    let state = match &arguments.data {
        Some(folder) => StateOptions::Folder(folder.clone()),
        None => StateOptions::Etcd(EtcdOptions {
            urls: arguments.etcd.clone(),
            prefix: arguments.etcd_prefix.clone(),
        }),
    };
    let certificates = arguments.process.certificates.as_deref();
    credentials::read(certificates, CredentialFiles::Node)?;
    let mut options = CoordinatorOptions::of(state);
    options.credentials = credentials::current();
    options.listen = arguments.listen;
    options.advertise = arguments.advertise;
    options.allow_unencrypted_network = arguments.process.allow_unencrypted_network;
    let micros = |after: Duration| u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
    options.settings.replace_after_us = micros(arguments.replace_after);
    options.settings.replace_stopped_after_us = micros(arguments.replace_stopped_after);
    let lost = arguments.without.iter().map(|server| ServerId(*server));
    options.recover = arguments.recover.then(|| lost.collect());
    let process = CoordinatorProcess::bind(&options).map_err(failure)?;
    let handle = process.handle();
    stop_on_signals(move || handle.stop()).map_err(failure)?;
    if arguments.process.until_stdin_ends {
        stop_when_stdin_ends();
    }
    if arguments.check_every != Duration::MAX {
        self_check::start(process.address().to_string(), arguments.check_every)
            .map_err(CommandFailure::at("start the self-check"))?;
    }
    tolerance::start(process.address().to_string())
        .map_err(CommandFailure::at("start a thread"))?;
    print_ready(&format!("coordinator={}", process.address()));
    process.run().map_err(failure)
}

/// Runs `replex baseline`.
pub fn baseline(arguments: &arguments::BaselineArguments) -> Result<(), CommandFailure> {
    let mut options = event_loop::LoopOptions::new(Clock::start());
    options.spin = arguments.spin;
    let process = Baseline::bind(arguments.listen, arguments.next, options).map_err(failure)?;
    let handle = process.handle();
    stop_on_signals(move || handle.stop()).map_err(failure)?;
    if arguments.until_stdin_ends {
        stop_when_stdin_ends();
    }
    print_ready(&format!("baseline={}", process.address()));
    process.run().map_err(failure)
}

fn failure(error: ServerError) -> CommandFailure {
    match error {
        ServerError::Options(message) => CommandFailure::Usage(message),
        other => CommandFailure::Failed(other.to_string()),
    }
}

/// Prints a `ready` line. Ignores errors, because the process serves even if the reader of stdout
/// has left.
fn print_ready(line: &str) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "ready {line}");
    let _ = stdout.flush();
}
