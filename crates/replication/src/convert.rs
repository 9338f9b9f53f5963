//! Makes a streaming standby of the primary a replica. It is the quickest way to fill a replica,
//! because files are copied instead of rows (P3).
//!
//! The slot exists before that. The standby is promoted, which ends its replay at some WAL position
//! of the primary. It has every commit whose record ends at or before this position, and no other.
//! PostgreSQL records the position, because a new timeline begins there.
//!
//! Invariant: a replica is followed from such a position only if it was a standby of this primary
//! immediately before.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Client;

use super::query::{one, rows, value};
use super::setup::{self, ReplicaStart};
use super::{ReplicationError, SLOT, Shared, connect, fence, quarantine, standby};
use pg_connect::address::Address;
use pg_wire::quoting::literal;
use proxy_core::freshness::ReplicaId;

/// Time between two looks at the standby's position.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// A standby that lacks commits and whose replay has not progressed for this long is refused,
/// because it may have lost its stream from the primary.
const STALL_MAX: Duration = Duration::from_secs(300);
/// How long PostgreSQL may take to promote the standby.
const PROMOTION_MAX: Duration = Duration::from_secs(60);

/// Promotes a standby, and records its position in its database. From then on it is a replica that
/// continues from this position.
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
    wait_for_confirmed(shared, id, (&primary, &client)).await?;
    shared.set_status(id, "promoting the standby to a database of its own");
    let seconds = PROMOTION_MAX.as_secs();
    if one(&client, &format!("SELECT pg_promote(true, {seconds})")).await? != "t" {
        return Err(ReplicationError::Setup(
            "the standby was promoted, and takes no writes yet: see its log".into(),
        ));
    }
    let unreadable =
        || ReplicationError::Setup("PostgreSQL does not report where its replay ended".into());
    let fork = standby::timeline_fork(&client)
        .await?
        .ok_or_else(unreadable)?;
    let start = ReplicaStart {
        applied: fork.at,
        seed: None,
    };
    // Only now, though the promotion is irreversible: `quarantine::is_same` needs two servers that
    // take writes.
    quarantine::refuse_primary(&primary, &client).await?;
    // A prepared transaction comes as a whole with its COMMIT PREPARED.
    let prepared = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()";
    for row in rows(&client, prepared).await? {
        let prepared = literal(&value(&row, 0)?);
        client
            .batch_execute(&format!("ROLLBACK PREPARED {prepared}"))
            .await?;
    }
    // These are copies of the primary's.
    let forget =
        format!("DROP SCHEMA IF EXISTS hihooi CASCADE; DROP PUBLICATION IF EXISTS {SLOT};");
    setup::make_tables_after(&client, &forget, &start).await
}

/// Waits until the standby has every commit that the slot has confirmed. Fails if its replay stands
/// still meanwhile.
async fn wait_for_confirmed(
    shared: &Shared,
    id: ReplicaId,
    (primary, standby): (&Client, &Client),
) -> Result<(), ReplicationError> {
    // The slot cannot be confirmed past this while nothing of this replica is known to be on disk.
    let confirmed = setup::confirmed(primary).await?;
    if confirmed == setup::NO_SLOT {
        return Err(ReplicationError::Stream(
            "the primary has no slot any more".into(),
        ));
    }
    let mut position = standby::position(standby).await?;
    let mut advanced = Instant::now();
    while position < confirmed {
        if advanced.elapsed() > STALL_MAX {
            let seconds = STALL_MAX.as_secs();
            return Err(ReplicationError::Setup(format!(
                "its replay has stood still at {position} for {seconds} s, and it needs {confirmed}: check that it \
                 streams from the primary (pg_stat_wal_receiver), then remove it and add it again with \
                 CONVERT"
            )));
        }
        shared.set_status(id, "waiting until it has all commits of the others");
        tokio::time::sleep(LOOK_INTERVAL).await;
        let newer = standby::position(standby).await?;
        if newer > position {
            (position, advanced) = (newer, Instant::now());
        }
    }
    Ok(())
}
