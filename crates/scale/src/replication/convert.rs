//! Makes an Extension of a streaming standby of the Primary: the quickest way to fill one, as files are copied
//! and not rows (HIHOOI c7, way B).
//!
//! The slot is held from before. The standby is told to take writes, which ends its replay somewhere in the
//! Primary's log: it has every commit whose record ends there or before, and no other. PostgreSQL writes
//! down where that is, since a new timeline begins there.
//!
//! Invariant: only what was a standby of this Primary right before is followed from such a place.

use std::time::Duration;

use tokio_postgres::Client;

use super::catalogue::{rows, value};
use super::setup::{self, Start, number, one};
use super::{Error, SLOT, Shared, connect, fence, quarantine, standby};
use crate::address::Address;
use crate::manager::{ExtensionId, Tsid};
use crate::sql::literal;

/// Between two looks at how far the standby is.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Which timeline a server that takes writes is on, as the eight digits by which its history is named.
const TIMELINE: &str = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";

/// Has a standby take writes, and writes down there how far it is. From then on it is an Extension that goes
/// on where it stopped.
pub async fn convert(shared: &Shared, id: ExtensionId, extension: &Address) -> Result<(), Error> {
    let primary = connect(&shared.primary, "replex set-up").await?;
    let client = connect(extension, fence::EXTRACTOR).await?;
    if !standby::is_one(&client).await? {
        return Err(Error::Setup(
            "it is no standby, or takes writes since: add it without CONVERT, or make it anew as a standby"
                .into(),
        ));
    }
    if let Some(why) = standby::refused(&primary, &client).await? {
        return Err(Error::Setup(why.into()));
    }
    // The slot does not go past this any more: nothing is confirmed for this Extension.
    let confirmed = setup::confirmed(&primary).await?;
    while standby::position(&client).await? < confirmed {
        shared.set_status(id, "waiting until it has what the others have");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    shared.set_status(id, "making a database of its own of the standby");
    if one(&client, "SELECT pg_promote(true, 60)").await? != "t" {
        return Err(Error::Setup(
            "the standby was told to take writes, and does not: see its log".into(),
        ));
    }
    let start = Start {
        applied: ended(&client).await?,
        seed: None,
    };
    quarantine::refuse_primary(&primary, &client).await?;
    // What is prepared comes as a whole with its COMMIT PREPARED.
    let prepared = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()";
    for row in rows(&client, prepared).await? {
        let prepared = literal(&value(&row, 0)?);
        client
            .batch_execute(&format!("ROLLBACK PREPARED {prepared}"))
            .await?;
    }
    // The Primary's own.
    let forget =
        format!("DROP SCHEMA IF EXISTS hihooi CASCADE; DROP PUBLICATION IF EXISTS {SLOT};");
    setup::make_tables_after(&client, &forget, &start).await
}

/// Where the replay of a server ended that was a standby.
async fn ended(client: &Client) -> Result<Tsid, Error> {
    let timeline = one(client, TIMELINE).await?;
    let file = literal(&format!("pg_wal/{timeline}.history"));
    let history = one(client, &format!("SELECT pg_read_file({file})")).await?;
    let unreadable = || Error::Setup("PostgreSQL does not say where its replay ended".into());
    let place = last_switch(&history).ok_or_else(unreadable)?;
    let place = literal(place);
    let place = one(client, &format!("SELECT {place}::pg_lsn - '0/0'")).await?;
    number(&place).map(Tsid)
}

/// Where the last timeline of a history begins: its lines are a timeline, where that ended, and why.
fn last_switch(history: &str) -> Option<&str> {
    let mut lines = history.lines().map(str::trim);
    let last = lines.rfind(|line| line.starts_with(|sign: char| sign.is_ascii_digit()));
    last?.split_whitespace().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_switch_of_a_history_is_found() {
        assert_eq!(last_switch(""), None);
        assert_eq!(last_switch("# nothing yet\n"), None);
        let first = "1\t0/3000148\tno recovery target specified\n";
        assert_eq!(last_switch(first), Some("0/3000148"));
        let second = format!("{first}\n2\tA/7F\tno recovery target specified\n\n");
        assert_eq!(last_switch(&second), Some("A/7F"));
    }
}
