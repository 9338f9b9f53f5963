//! Extensions that operators have added, written down on the Primary in `hihooi.extension`, so that whichever proxy
//! is active next follows them, too.
//!
//! Their URLs are kept with their passwords, as PostgreSQL keeps those of subscriptions: for superusers only.
//!
//! Invariant: only the active proxy writes there, in the epoch that is its own.

use std::time::Duration;

use tokio::time::timeout;

use super::catalogue::{rows, value};
use super::{Error, Shared, connect};
use crate::address::Address;
use crate::sql::literal;

/// The table, which whoever prepares the Primary makes.
pub const TABLE: &str = "
CREATE TABLE IF NOT EXISTS hihooi.extension (host text, port int4, database text, url text NOT NULL,
  PRIMARY KEY (host, port, database));
REVOKE ALL ON hihooi.extension FROM PUBLIC;";

/// How long the Primary may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The URLs of all.
pub async fn all(shared: &Shared) -> Result<Vec<String>, Error> {
    let urls = ask(
        shared,
        "SELECT url FROM hihooi.extension ORDER BY host, port, database",
    )
    .await?;
    Ok(urls)
}

/// Writes one down, by this URL.
pub async fn keep(shared: &Shared, address: &Address, url: &str) -> Result<(), Error> {
    let (host, port, database) = address.place();
    let [host, database, url] = [host, database, url].map(literal);
    let epoch = shared.epoch;
    let insert = format!(
        "WITH mine AS (SELECT FROM hihooi.leader WHERE epoch = {epoch} FOR SHARE)
         INSERT INTO hihooi.extension SELECT {host}, {port}, {database}, {url} FROM mine
         ON CONFLICT (host, port, database) DO UPDATE SET url = excluded.url RETURNING 1"
    );
    expect_leader(&ask(shared, &insert).await?)
}

/// Forgets one, if it was written down.
pub async fn forget(shared: &Shared, address: &Address) -> Result<(), Error> {
    let (host, port, database) = address.place();
    let [host, database] = [host, database].map(literal);
    let epoch = shared.epoch;
    let delete = format!(
        "WITH mine AS (SELECT FROM hihooi.leader WHERE epoch = {epoch} FOR SHARE), gone AS (
           DELETE FROM hihooi.extension WHERE EXISTS (SELECT FROM mine)
             AND host = {host} AND port = {port} AND database = {database})
         SELECT 1 FROM mine"
    );
    expect_leader(&ask(shared, &delete).await?)
}

fn expect_leader(answer: &[String]) -> Result<(), Error> {
    match answer {
        [] => Err(Error::Setup("another proxy is the active one".into())),
        _ => Ok(()),
    }
}

/// The first column of a statement's answer. What it writes does not wait for standbys, of which one may be what
/// is removed.
async fn ask(shared: &Shared, sql: &str) -> Result<Vec<String>, Error> {
    let answered = timeout(ANSWER_MAX, async {
        let client = connect(&shared.primary, "replex set-up").await?;
        let local = "SET synchronous_commit = local";
        client.batch_execute(local).await?;
        let rows = rows(&client, sql).await?;
        rows.iter().map(|row| value(row, 0)).collect()
    });
    let silent = |_| Error::Connection("the Primary does not answer".into());
    answered.await.map_err(silent)?
}
