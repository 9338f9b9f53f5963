//! A streaming standby of the Primary as an Extension: PostgreSQL keeps it up, and its replay position says
//! how far it is (HIHOOI c7).
//!
//! A TSID is the place in the log behind a commit's record, and a standby shows a commit once its replay has
//! gone past that. It may do so a moment before the Primary does: what came by the proxy is Pending until then,
//! so that nobody reads it there; for what is written around the proxy that moment remains.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use super::extractor::{ANSWER_MAX, SERVING};
use super::setup::{self, one};
use super::{Error, RETRY_WAIT_MIN, Shared};
use crate::manager::{ExtensionId, State, Tsid};

/// Time between two questions how far it is, while it is behind, and while it is not.
const BEHIND_INTERVAL: Duration = Duration::from_millis(2);
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// How far a standby is; an empty text if it is none.
const REPLAYED: &str = "SELECT CASE WHEN pg_is_in_recovery()
    THEN (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::text ELSE '' END";

/// Whether a server is a standby.
pub async fn is_one(server: &Client) -> Result<bool, Error> {
    Ok(one(server, "SELECT pg_is_in_recovery()").await? == "t")
}

/// Why a standby cannot be an Extension of this Primary, if so.
pub async fn refused(primary: &Client, standby: &Client) -> Result<Option<&'static str>, Error> {
    let server = "SELECT system_identifier FROM pg_control_system()";
    if one(primary, server).await? != one(standby, server).await? {
        return Ok(Some("it is a standby of another server than the Primary"));
    }
    let database = "SELECT current_database()";
    if one(primary, database).await? != one(standby, database).await? {
        return Ok(Some("it is a standby: name the Primary's database there"));
    }
    Ok(None)
}

/// Follows a standby until something goes wrong.
pub async fn follow(
    shared: &Shared,
    id: ExtensionId,
    (primary, standby): (&Client, &Client),
    wait: &mut Duration,
) -> Result<(), Error> {
    if let Some(why) = refused(primary, standby).await? {
        return Err(Error::Setup(why.into()));
    }
    // It gets its log by itself: the slot keeps nothing for it.
    shared.durable().remove(&id);
    let life = setup::begin_life(standby).await?;
    let mut applied = position(standby).await?;
    shared.manager().connected(id, life, applied);
    *wait = RETRY_WAIT_MIN;
    shared.set_status(id, SERVING);
    let mut asked = Instant::now();
    loop {
        let latest = {
            let mut manager = shared.manager();
            manager.applied(id, applied);
            manager.set_state(id, State::Serving);
            manager.latest()
        };
        while applied >= latest
            && asked.elapsed() < IDLE_INTERVAL
            && shared.manager().latest() == latest
        {
            tokio::time::sleep(BEHIND_INTERVAL).await;
        }
        tokio::time::sleep(BEHIND_INTERVAL).await;
        applied = applied.max(position(standby).await?);
        asked = Instant::now();
    }
}

/// How far its replay has come.
pub async fn position(standby: &Client) -> Result<Tsid, Error> {
    let silent = |_| Error::Connection("it does not answer".into());
    let answer = timeout(ANSWER_MAX, one(standby, REPLAYED)).await;
    let place = answer.map_err(silent)??;
    match place.is_empty() {
        false => setup::number(&place).map(Tsid),
        true => Err(Error::Connection("it is a standby no more".into())),
    }
}
