//! Statements of a client in this process.

use client::{Client, ConnectOptions};
use placement::Value;
use sql::{SqlSession, StatementOutcome};

/// Returns a session of a new client.
pub async fn session(address: &str) -> SqlSession<Client> {
    let options = ConnectOptions::new([address.to_owned()]);
    SqlSession::new(Client::connect(options).await.unwrap())
}

/// Runs statements, and returns the rows of the last one; no rows if it returns none.
pub async fn run(session: &mut SqlSession<Client>, text: &str) -> Vec<Vec<Value>> {
    let outcomes = session.run_text(text).await;
    let outcome = outcomes.unwrap_or_else(|error| panic!("{text}: {}", error.error));
    match outcome.into_iter().next_back().unwrap() {
        StatementOutcome::Rows(rows) => rows.rows,
        _ => Vec::new(),
    }
}
