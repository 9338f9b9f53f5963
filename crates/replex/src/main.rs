//! The `replex` command: reads the command line, runs the command, and reports how it ended.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a closed pipe makes these panic: use say! and note!"
)]

mod admin;
mod arguments;
mod cert;
mod demo;
mod export;
mod flights;
mod import;
mod login;
mod output;
mod output_file;
#[cfg(feature = "proxy")]
mod proxy;
mod serve;
mod sql_command;
mod sql_listener;
mod start;
mod stdin;
mod story;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use cluster_tls::CredentialFiles;
use replex::failure::CommandFailure;
use replex::{console, credentials, note};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use arguments::{Arguments, ReplexCommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = read_credentials(&arguments.command).and_then(|()| run_command(arguments.command));
    // A command that did its work has failed nevertheless if its result could not be written.
    let result = match (result, console::failure()) {
        (Ok(()) | Err(CommandFailure::OutputEnded), Some(error)) => {
            Err(CommandFailure::Failed(error))
        }
        (result, _) => result,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let message = failure.to_string();
            if !message.is_empty() {
                note!("replex: {message}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Runs a command.
fn run_command(command: ReplexCommand) -> Result<(), CommandFailure> {
    match command {
        ReplexCommand::Start(options) => start::start(&options),
        ReplexCommand::Cert(arguments) => cert::make(&arguments),
        ReplexCommand::Server(options) => serve::server(&options),
        ReplexCommand::Coordinator(options) => serve::coordinator(&options),
        ReplexCommand::Baseline(options) => serve::baseline(&options),
        ReplexCommand::Demo(arguments) => demo::demo(&arguments),
        ReplexCommand::Sql(arguments) => sql_command::sql(&arguments),
        ReplexCommand::Import(arguments) => import::import(&arguments),
        ReplexCommand::Export(arguments) => run(export::export(&arguments)),
        ReplexCommand::Admin(arguments) => run(admin::run(&arguments)),
        #[cfg(feature = "proxy")]
        ReplexCommand::Proxy(arguments) => proxy::run(&arguments),
        #[cfg(not(feature = "proxy"))]
        ReplexCommand::Proxy(arguments) => Err(arguments.failure()),
        ReplexCommand::Bench(options) => measure(&options),
    }
}

/// Reads the certificates of a client of a cluster, before its command connects.
fn read_credentials(command: &ReplexCommand) -> Result<(), CommandFailure> {
    let cluster = match command {
        ReplexCommand::Sql(arguments) => &arguments.cluster,
        ReplexCommand::Import(arguments) => &arguments.cluster,
        ReplexCommand::Export(arguments) => &arguments.cluster,
        ReplexCommand::Admin(arguments) => &arguments.cluster,
        _ => return Ok(()),
    };
    credentials::read(cluster.certificates.as_deref(), CredentialFiles::Admin)
}

/// Runs `replex bench`. The benchmarks parse the rest of the command line, help included.
fn measure(options: &arguments::BenchArguments) -> Result<(), CommandFailure> {
    let name = std::ffi::OsString::from("replex bench");
    let words = std::iter::once(name).chain(options.arguments.iter().cloned());
    let arguments = bench::MeasureArguments::parse_from(words);
    bench::run(&arguments).map_err(CommandFailure::at("measure"))
}

/// Runs a command that talks to a cluster, until it ends or is stopped.
fn run<T>(command: impl Future<Output = Result<T, CommandFailure>>) -> Result<T, CommandFailure> {
    let runtime = runtime()?;
    let result = runtime.block_on(interruptible(command));
    // Threads that wait in a system call, as for the reader of a FIFO, end with the process.
    runtime.shutdown_background();
    result
}

/// Returns a runtime of one thread: commands that wait for a cluster need no more.
fn runtime() -> Result<Runtime, CommandFailure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build();
    runtime.map_err(CommandFailure::at("start the event loop"))
}

/// Runs work until it is done, or until ctrl-C, SIGTERM, a closed terminal or a closed stdout ends
/// it. The values of the work are dropped then, which cleans up. If the work does not notice the
/// signal, because it waits for the reader of a pipe, a second signal ends the process.
async fn interruptible<T>(
    work: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let what = "wait for signals";
    let (sender, mut interrupted) = watch::channel(false);
    let (ready, is_ready) = oneshot::channel();
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let listening = thread.spawn(move || runtime().map(|it| it.block_on(listen(ready, &sender))));
    listening.map_err(CommandFailure::at(what))?;
    let is_ready = is_ready.await.map_err(CommandFailure::at(what))?;
    is_ready.map_err(CommandFailure::at(what))?;
    tokio::select! {
        result = work => result,
        Ok(_) = interrupted.wait_for(|it| *it) => Err(CommandFailure::Interrupted),
        () = console::ended() => Err(CommandFailure::OutputEnded),
    }
}

/// Sends word of the first signal, and ends the process at the second one.
async fn listen(ready: oneshot::Sender<io::Result<()>>, interrupted: &watch::Sender<bool>) {
    let open = || {
        Ok([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ])
    };
    let [mut interrupt, mut terminate, mut hangup] = match open() {
        Ok(signals) => signals,
        Err(error) => {
            // The waiter has ended otherwise.
            let _ = ready.send(Err(error));
            return;
        }
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            () = interrupted.closed() => return,
        }
        if interrupted.send_replace(true) {
            std::process::exit(CommandFailure::Interrupted.exit_code().into());
        }
    }
}
