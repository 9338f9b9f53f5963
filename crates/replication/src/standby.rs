//! Uses a streaming standby of the primary as a replica. PostgreSQL keeps it up to date, and its
//! replay position shows which commits it has (P3).
//!
//! A TSID is the WAL position after a commit's record, and a standby shows a commit once its replay
//! has passed this position. It may do so before the primary does: slightly before, or long before
//! if the primary waits for its standbys. So a read at a standby that may have seen such a commit
//! runs again (`proxy_core::freshness::watch`). Writes around the proxy are not known before the
//! slot's reader has read them. Until then, a read at a standby may see such a write early.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use super::progress::{ANSWER_MAX, SERVING};
use super::query::{number, one};
use super::setup;
use super::{RETRY_WAIT_MIN, ReplicationError, Shared};
use pg_wire::quoting::literal;
use proxy_core::freshness::{ReplicaId, ReplicaState, Tsid};

/// Time between two queries of the standby's position, while the standby lags, and while it does
/// not.
const BEHIND_INTERVAL: Duration = Duration::from_millis(2);
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// The query for a standby's replay position. The result is empty if the server is no standby.
const REPLAYED: &str = "SELECT CASE WHEN pg_is_in_recovery()
    THEN (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::text ELSE '' END";

/// The position at which a server stopped being a standby.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineFork {
    /// The timeline that the standby had followed, as eight digits.
    pub timeline: String,
    /// The server has exactly the commits of that timeline whose records end at or before this
    /// position.
    pub at: Tsid,
}

/// The query for the timeline of a server that accepts writes, as the eight digits in the name of
/// its history.
const TIMELINE: &str = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";

/// Returns whether a server is a standby.
pub async fn is_one(server: &Client) -> Result<bool, ReplicationError> {
    Ok(one(server, "SELECT pg_is_in_recovery()").await? == "t")
}

/// Returns the reason why a standby cannot be a replica of this primary; none if it can.
pub async fn refused(
    primary: &Client,
    standby: &Client,
) -> Result<Option<&'static str>, ReplicationError> {
    let server = "SELECT system_identifier FROM pg_control_system()";
    if one(primary, server).await? != one(standby, server).await? {
        return Ok(Some("it is a standby of another server than the primary"));
    }
    let database = "SELECT current_database()";
    if one(primary, database).await? != one(standby, database).await? {
        return Ok(Some("it is a standby: name the primary's database there"));
    }
    Ok(None)
}

/// Follows a standby. Returns only with an error.
pub async fn follow(
    shared: &Shared,
    id: ReplicaId,
    (primary, standby): (&Client, &Client),
    wait: &mut Duration,
) -> Result<(), ReplicationError> {
    if let Some(why) = refused(primary, standby).await? {
        return Err(ReplicationError::Setup(why.into()));
    }
    // It streams its log from the primary: the slot keeps nothing for it.
    shared.durable().remove(&id);
    let life = setup::begin_life(standby).await?;
    let mut applied = position(standby).await?;
    {
        let mut manager = shared.manager();
        manager.connected(id, life, applied);
        manager.shows_early(id);
    }
    *wait = RETRY_WAIT_MIN;
    shared.set_status(id, SERVING);
    let mut asked = Instant::now();
    loop {
        let latest = {
            let mut manager = shared.manager();
            manager.applied(id, applied);
            manager.set_state(id, ReplicaState::Serving);
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

/// Returns the replay position of the standby.
pub async fn position(standby: &Client) -> Result<Tsid, ReplicationError> {
    let silent = |_| ReplicationError::Connection("it does not answer".into());
    let answer = timeout(ANSWER_MAX, one(standby, REPLAYED)).await;
    let place = answer.map_err(silent)??;
    match place.is_empty() {
        false => number(&place).map(Tsid),
        true => Err(ReplicationError::Connection(
            "it is a standby no more".into(),
        )),
    }
}

/// Returns the position at which a server that accepts writes stopped being a standby; none if it
/// never was one.
pub async fn timeline_fork(client: &Client) -> Result<Option<TimelineFork>, ReplicationError> {
    let timeline = one(client, TIMELINE).await?;
    let file = literal(&format!("pg_wal/{timeline}.history"));
    // The first timeline has no history.
    let read = format!("SELECT coalesce(pg_read_file({file}, 0, 1000000, true), '')");
    let history = one(client, &read).await?;
    let Some((timeline, place)) = last_switch(&history) else {
        return Ok(None);
    };
    let place = literal(place);
    let at = one(client, &format!("SELECT {place}::pg_lsn - '0/0'")).await?;
    Ok(Some(TimelineFork {
        timeline: format!("{:08X}", number(timeline)?),
        at: Tsid(number(&at)?),
    }))
}

/// Returns the last timeline of a history, and the position at which its successor begins; none for
/// an empty history. Each line of a history is a timeline, the position of its end, and the reason.
fn last_switch(history: &str) -> Option<(&str, &str)> {
    let mut lines = history.lines().map(str::trim);
    let last = lines.rfind(|line| line.starts_with(|sign: char| sign.is_ascii_digit()))?;
    let mut words = last.split_whitespace();
    Some((words.next()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_switch_of_a_history_is_found() {
        assert_eq!(last_switch(""), None);
        assert_eq!(last_switch("# nothing yet\n"), None);
        let first = "1\t0/3000148\tno recovery target specified\n";
        assert_eq!(last_switch(first), Some(("1", "0/3000148")));
        let second = format!("{first}\n2\tA/7F\tno recovery target specified\n\n");
        assert_eq!(last_switch(&second), Some(("2", "A/7F")));
    }
}
