//! Finds a position in the primary's WAL up to which all servers have every commit on disk.
//! Operators request it before they stop a server, or copy its files.
//!
//! The checkpoint does not wait for an offline replica, because it may never return. It reports the
//! replica instead.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Replication, ReplicationError, Shared, connect, setup};
use proxy_core::freshness::{ReplicaId, ReplicaState, Tsid};

/// A checkpoint that takes longer is stuck.
const CHECKPOINT_MAX: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A checkpoint of the replicas and the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationCheckpoint {
    /// Every commit up to this position is on disk.
    pub at: Tsid,
    /// The replicas that were offline, for people.
    pub without: Vec<String>,
}

impl Replication {
    /// Waits until everything committed so far is on disk at every serving replica and in the
    /// transactions buffer.
    ///
    /// Fails where that takes longer than a minute: the progress until then is kept.
    pub async fn checkpoint(&self) -> Result<ReplicationCheckpoint, ReplicationError> {
        let shared = &self.shared;
        let primary = connect(&shared.primary, "replex checkpoint").await?;
        let at = setup::position(&primary).await?;
        // Something after it, so that the stream goes past it.
        let nudge = "SELECT pg_logical_emit_message(true, 'replex', '')";
        primary.batch_execute(nudge).await?;
        let begun = Instant::now();
        loop {
            let LaggingServers { lack, unavailable } = lagging_servers(shared, at);
            if lack.is_empty() {
                return Ok(ReplicationCheckpoint {
                    at,
                    without: unavailable,
                });
            }
            if begun.elapsed() > CHECKPOINT_MAX {
                let lack = lack.join(", ");
                return Err(ReplicationError::Connection(format!(
                    "the commits up to {at} are not on disk everywhere yet: {lack}. SHOW LAG shows the position of each"
                )));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// The servers that are not past a position yet, and the servers that are offline, for people.
struct LaggingServers {
    lack: Vec<String>,
    unavailable: Vec<String>,
}

fn lagging_servers(shared: &Shared, at: Tsid) -> LaggingServers {
    let known: Vec<(ReplicaId, ReplicaState, Tsid)> = {
        let manager = shared.manager();
        let all = manager.replicas();
        all.map(|(id, it)| (id, it.state, it.applied)).collect()
    };
    let durable = shared.durable().clone();
    let mut standing = LaggingServers {
        lack: Vec::new(),
        unavailable: Vec::new(),
    };
    for (id, state, applied) in known {
        let name = format!("replica {}", id.0);
        // A streaming standby writes its log to disk before it shows the commits in it.
        let on_disk = durable.get(&id).copied().unwrap_or(applied);
        match state {
            ReplicaState::Serving if on_disk < at => standing.lack.push(name),
            ReplicaState::Serving => {}
            ReplicaState::Unavailable | ReplicaState::Quarantined => {
                standing.unavailable.push(name)
            }
        }
    }
    if let Some(buffer) = &shared.buffer {
        let name = "the transactions buffer".to_owned();
        match buffer.status().is_following {
            true if buffer.until() < Some(at) => standing.lack.push(name),
            true => {}
            false => standing.unavailable.push(name),
        }
    }
    standing
}
