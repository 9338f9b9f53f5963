//! Sends commands to a running proxy's console.

use std::sync::mpsc;

use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::DbError;

use crate::serve::CONSOLE;
use pg_connect::address::Address;
use replication::{ReplicationError, connect_with_notices};

/// The console's answer: names of columns, rows as text, and notices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// The names of the columns; empty if there are no rows.
    pub columns: Vec<String>,
    /// The rows, with one text per column; none is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Notices for people, of one or two sentences each.
    pub notices: Vec<String>,
}

/// Sends one command to the console at an address, and returns the answer. The database in the
/// address is ignored.
pub async fn ask(address: &Address, command: &str) -> Result<CommandOutput, ReplicationError> {
    let address = Address {
        database: CONSOLE.into(),
        ..address.clone()
    };
    let (sender, notices) = mpsc::channel();
    let sender = move |notice| {
        // After the last answer there is no receiver.
        let _ = sender.send(sentences(&notice));
    };
    let client = connect_with_notices(&address, "replex proxy admin", sender).await?;
    let refused = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(reported) => ReplicationError::Setup(sentences(reported)),
        None => error.into(),
    };
    let mut output = CommandOutput::default();
    for message in client.simple_query(command).await.map_err(refused)? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                output.columns = columns.iter().map(|it| it.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let texts = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
                output.rows.push(texts.collect());
            }
            _ => {}
        }
    }
    output.notices = notices.try_iter().collect();
    Ok(output)
}

/// Returns a report for people.
fn sentences(report: &DbError) -> String {
    let hint = report.hint().map(|hint| format!(". {hint}"));
    format!("{}{}", report.message(), hint.unwrap_or_default())
}
