//! Sends simple queries to a server, and returns the rows of their answers.

use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::ReplicationError;

/// Returns the rows of a query.
pub async fn rows(client: &Client, sql: &str) -> Result<Vec<SimpleQueryRow>, ReplicationError> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.collect())
}

/// Returns a value, or an error if it is NULL.
pub fn value(row: &SimpleQueryRow, index: usize) -> Result<String, ReplicationError> {
    let missing = || ReplicationError::Stream("a value is NULL that must not be".into());
    row.get(index).map(str::to_owned).ok_or_else(missing)
}

/// Returns whether this table of the proxy exists.
pub async fn has_table(client: &Client, name: &str) -> Result<bool, ReplicationError> {
    let has = format!(
        "SELECT count(*) FROM pg_tables WHERE schemaname = 'hihooi' AND tablename = '{name}'"
    );
    Ok(one(client, &has).await? != "0")
}

/// Returns the only value of a query.
pub async fn one(client: &Client, sql: &str) -> Result<String, ReplicationError> {
    first(&client.simple_query(sql).await?)
}

/// Returns the first value of a query's answer.
pub fn first(answer: &[SimpleQueryMessage]) -> Result<String, ReplicationError> {
    let found = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(value(row, 0)),
        _ => None,
    });
    found.ok_or_else(|| ReplicationError::Connection("a query has no answer".into()))?
}

/// Returns the number in a string.
pub fn number(text: &str) -> Result<u64, ReplicationError> {
    let problem = |_| ReplicationError::Connection(format!("{text} is not a number"));
    text.parse().map_err(problem)
}

/// Returns an error of the primary during its preparation.
pub fn setup_error(error: tokio_postgres::Error) -> ReplicationError {
    match error.as_db_error() {
        Some(reported) => ReplicationError::Setup(format!(
            "the primary refused to be set up: {}. It needs a role that may create publications \
             for all tables and replication slots (a superuser)",
            reported.message()
        )),
        None => error.into(),
    }
}
