//! Makes tables survive as many failures as they are to survive, once there are enough servers.
//!
//! A table that was created while there was one server does not survive the loss of it. The process
//! of the leading coordinator adds the copies as soon as servers have come, and then changes the
//! table's promise. The operator's log has a line for each table.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::thread;
use std::time::Duration;

use client::{Client, Configuration, ConnectOptions};
use server::journal::{self, JournalLevel};

use crate::credentials;

/// The pause between two looks at the servers and tables.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a failure, which lets a server that restarts come back.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Starts a thread that raises the number of failures that tables survive, while the coordinator at
/// this address leads. The thread ends with the process.
///
/// # Errors
/// The thread cannot be started.
pub fn start(coordinator: String) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build()?;
    let thread = thread::Builder::new().name("tolerance".to_owned());
    thread.spawn(move || runtime.block_on(go_on(&coordinator)))?;
    Ok(())
}

async fn go_on(coordinator: &str) {
    // The last failure of each table, so that it is logged once.
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        let options = ConnectOptions::new([coordinator]).credentials(credentials::current());
        // A coordinator that does not lead answers nothing.
        let Ok(client) = Client::connect(options).await else {
            continue;
        };
        while let Ok(configuration) = client.refresh().await {
            let mut pause = PAUSE;
            for (table, wanted) in open(&configuration) {
                if let Err(error) = raise(&client, &table, wanted).await {
                    pause = PAUSE_AFTER_FAILURE;
                    let text = error.to_string();
                    if failures.insert(table.clone(), text.clone()).as_ref() != Some(&text) {
                        let fields: [(&str, &dyn Display); 2] =
                            [("table", &table), ("reason", &text)];
                        journal::line(JournalLevel::Warn, "tolerance_not_raised", &fields);
                    }
                }
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// Returns the tables that are to survive more failures than they do, and for which there are
/// enough servers, each with the number.
fn open(configuration: &Configuration) -> Vec<(String, u8)> {
    let domains = configuration.failure_domains();
    let schemas = configuration.tables.iter().map(|table| &table.schema);
    schemas
        .filter(|schema| schema.failures_wanted > schema.failures_tolerated)
        .filter(|schema| domains > usize::from(schema.failures_wanted))
        .map(|schema| (schema.name.clone(), schema.failures_wanted))
        .collect()
}

async fn raise(client: &Client, table: &str, wanted: u8) -> Result<(), client::Error> {
    client
        .set_failures_tolerated(table, wanted, &|_| {})
        .await?;
    let fields: [(&str, &dyn Display); 2] = [("table", &table), ("failures_tolerated", &wanted)];
    journal::line(JournalLevel::Info, "tolerance_raised", &fields);
    Ok(())
}
