//! `replex proxy admin`: sends one command to a running proxy's console, and prints the answer as a
//! table.

use pg_connect::address::Address;
use proxy::console::client;
use replex::failure::CommandFailure;
use replex::{console, note, say};
use replication::ReplicationError;

use super::arguments::ProxyAdminArguments;
use crate::output::Screen;

/// Runs `replex proxy admin`.
pub async fn run(arguments: &ProxyAdminArguments) -> Result<(), CommandFailure> {
    let address = Address::parse(&arguments.proxy).map_err(CommandFailure::Usage)?;
    let output = client::ask(&address, &arguments.words.join(" ")).await;
    let output = output.map_err(|error| match error {
        ReplicationError::Connection(what) => CommandFailure::Unreachable(format!(
            "the proxy at {address} does not answer: {what}. Name it by --proxy URL"
        )),
        other => CommandFailure::Failed(other.to_string()),
    })?;
    for notice in &output.notices {
        note!("note: {notice}");
    }
    if output.columns.is_empty() {
        say!("done");
        return Ok(());
    }
    let header: Vec<&str> = output.columns.iter().map(String::as_str).collect();
    let rows = output.rows.into_iter();
    let rows = rows.map(|row| row.into_iter().map(Option::unwrap_or_default).collect());
    let rows: Vec<Vec<String>> = rows.collect();
    console::print(format_args!(
        "{}",
        Screen::of_stdout().table(&header, &rows)
    ));
    Ok(())
}
