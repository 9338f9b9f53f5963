//! Makes a replica of a streaming standby of the primary: the quickest way to fill one, as files
//! are copied and not rows (P3).
//!
//! The slot is held from before. The standby is promoted, which ends its replay somewhere in the
//! primary's log: it has every commit whose record ends there or before, and no other. PostgreSQL
//! writes down where that is, since a new timeline begins there.
//!
//! Invariant: a replica is followed from such a place only if it was a standby of this primary
//! right before.

use std::time::Duration;

use super::query::one;
use super::query::{rows, value};
use super::setup::{self, ReplicaStart};
use super::{ReplicationError, SLOT, Shared, connect, fence, quarantine, standby};
use pg_connect::address::Address;
use pg_wire::quoting::literal;
use proxy_core::freshness::ReplicaId;

/// Between two looks at how far the standby is.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Promotes a standby, and writes down there how far it is. From then on it is a replica that goes
/// on where it stopped.
pub async fn convert(
    shared: &Shared,
    id: ReplicaId,
    replica: &Address,
) -> Result<(), ReplicationError> {
    let primary = connect(&shared.primary, "replex set-up").await?;
    let client = connect(replica, fence::EXTRACTOR).await?;
    if !standby::is_one(&client).await? {
        return Err(ReplicationError::Setup(
            "it is not a standby, or takes writes by now: add it without CONVERT, or rebuild it as a standby"
                .into(),
        ));
    }
    if let Some(why) = standby::refused(&primary, &client).await? {
        return Err(ReplicationError::Setup(why.into()));
    }
    // The slot does not go past this any more: nothing is confirmed for this replica.
    let confirmed = setup::confirmed(&primary).await?;
    while standby::position(&client).await? < confirmed {
        shared.set_status(id, "waiting until it has all commits of the others");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    shared.set_status(id, "promoting the standby to a database of its own");
    if one(&client, "SELECT pg_promote(true, 60)").await? != "t" {
        return Err(ReplicationError::Setup(
            "the standby was promoted, and takes no writes yet: see its log".into(),
        ));
    }
    let unreadable =
        || ReplicationError::Setup("PostgreSQL does not report where its replay ended".into());
    let parted = standby::timeline_fork(&client)
        .await?
        .ok_or_else(unreadable)?;
    let start = ReplicaStart {
        applied: parted.at,
        seed: None,
    };
    quarantine::refuse_primary(&primary, &client).await?;
    // A prepared transaction comes as a whole with its COMMIT PREPARED.
    let prepared = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()";
    for row in rows(&client, prepared).await? {
        let prepared = literal(&value(&row, 0)?);
        client
            .batch_execute(&format!("ROLLBACK PREPARED {prepared}"))
            .await?;
    }
    // The primary's own.
    let forget =
        format!("DROP SCHEMA IF EXISTS hihooi CASCADE; DROP PUBLICATION IF EXISTS {SLOT};");
    setup::make_tables_after(&client, &forget, &start).await
}
