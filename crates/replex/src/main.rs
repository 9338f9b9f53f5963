//! The `replex` command: reads the command line, runs the command, and says how it ended.

mod admin;
mod arguments;
mod demo;
mod flights;
mod output;
mod serve;

use std::process::ExitCode;

use clap::Parser;
use replex::failure::Failure;
use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Server(options) => serve::server(&options),
        Command::Coordinator(options) => serve::coordinator(&options),
        Command::Baseline(options) => serve::baseline(&options),
        Command::Demo(arguments) => run(demo::run(&arguments)),
        Command::Admin(arguments) => run(admin::run(&arguments)),
        _ => Err(Failure::Usage("not there".into())),
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

/// Runs a command that talks to a cluster, until it ends or somebody stops it.
fn run(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::at("start the event loop"))?;
    runtime.block_on(async {
        let mut terminate =
            signal(SignalKind::terminate()).map_err(Failure::at("wait for signals"))?;
        tokio::select! {
            result = command => result,
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
            _ = terminate.recv() => Err(Failure::Interrupted),
        }
    })
}
