//! The `replex` command: reads the command line, runs the command, and says how it ended.

mod admin;
mod arguments;
mod demo;
mod flights;
mod front;
mod output;
#[cfg(feature = "scale")]
mod scale;
mod serve;
mod story;

use std::process::ExitCode;

use clap::Parser;
use replex::failure::Failure;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Server(options) => serve::server(&options),
        Command::Coordinator(options) => serve::coordinator(&options),
        Command::Baseline(options) => serve::baseline(&options),
        Command::Demo(arguments) => run(demo::run(&arguments)),
        Command::Sql(arguments) => front::sql(&arguments),
        Command::Import(arguments) => run(front::import(&arguments)),
        Command::Export(arguments) => run(front::export(&arguments)),
        Command::Admin(arguments) => run(admin::run(&arguments)),
        #[cfg(feature = "scale")]
        Command::Scale(arguments) => scale::run(&arguments),
        Command::Bench(options) => measure(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let message = failure.to_string();
            if !message.is_empty() {
                eprintln!("replex: {message}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// `replex bench`: the rest of the command line is the benchmarks' own, help included.
fn measure(options: &arguments::Bench) -> Result<(), Failure> {
    let name = std::ffi::OsString::from("replex bench");
    let words = std::iter::once(name).chain(options.arguments.iter().cloned());
    let arguments = bench::Arguments::parse_from(words);
    bench::run(&arguments).map_err(Failure::at("measure"))
}

/// Runs a command that talks to a cluster, until it ends or somebody stops it.
fn run(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    runtime()?.block_on(interruptible(command))
}

/// One thread: what waits for a cluster needs no more.
fn runtime() -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build();
    runtime.map_err(Failure::at("start the event loop"))
}

/// Work that ctrl-C, SIGTERM or a closed terminal ends; what it holds is dropped, which cleans up after it.
async fn interruptible<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let what = "wait for signals";
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::at(what))?;
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::at(what))?;
    tokio::select! {
        result = work => result,
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
        _ = terminate.recv() => Err(Failure::Interrupted),
        _ = hangup.recv() => Err(Failure::Interrupted),
    }
}
