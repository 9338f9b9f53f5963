//! `replex admin`: inspects and checks a cluster, and moves its coordinator's state.

pub mod check;
mod coordinator;
mod drain;
mod source;
mod status;
pub mod tables;

use replex::failure::CommandFailure;
use replex::{console, say};
use serde_json::Value;

use crate::arguments::{
    AdminArguments, AdminCommand, CoordinatorCommand, ServerCommand, TableCommand,
};
use crate::output::Screen;

/// The result of a command, in both its forms.
pub struct AdminReport {
    /// For people.
    text: String,
    /// For programs.
    json: Value,
    /// Whether everything is as it should be.
    is_sound: bool,
}

/// Runs `replex admin`.
pub async fn run(arguments: &AdminArguments) -> Result<(), CommandFailure> {
    let screen = Screen::of_stdout();
    let cluster = &arguments.cluster;
    let report = match &arguments.command {
        AdminCommand::Status => status::status(cluster, screen).await?,
        AdminCommand::Server {
            command: ServerCommand::List,
        } => status::servers(cluster, screen).await?,
        AdminCommand::Server {
            command: ServerCommand::Remove { server },
        } => status::remove(cluster, *server).await?,
        AdminCommand::Server {
            command: ServerCommand::AcceptFolder { server },
        } => status::accept_folder(cluster, *server).await?,
        AdminCommand::Server {
            command: ServerCommand::Drain { server, no_wait },
        } => drain::drain(cluster, *server, *no_wait).await?,
        AdminCommand::Server {
            command: ServerCommand::Undrain { server },
        } => drain::undrain(cluster, *server).await?,
        AdminCommand::Table {
            command: TableCommand::List,
        } => tables::list(cluster, screen).await?,
        AdminCommand::Table {
            command: TableCommand::Show { table },
        } => tables::show(cluster, screen, table).await?,
        AdminCommand::Coordinator {
            command: CoordinatorCommand::Show,
        } => coordinator::show(cluster, screen).await?,
        AdminCommand::Coordinator {
            command: CoordinatorCommand::Migrate(migrate),
        } => coordinator::migrate(migrate)?,
        AdminCommand::Check { table } => check::check(cluster, screen, table).await?,
        AdminCommand::Repair { table, trust } => {
            check::repair(cluster, screen, table, trust.as_deref()).await?
        }
    };
    if arguments.json {
        say!("{:#}", report.json);
    } else {
        console::print(format_args!("{}", report.text));
    }
    if report.is_sound {
        Ok(())
    } else {
        Err(CommandFailure::Reported)
    }
}
