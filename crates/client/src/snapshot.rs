//! Snapshots: the state of tables at one version, for reads that are larger than a moment.

use std::sync::Arc;
use std::time::Duration;

use protocol::identity::{SnapshotId, TableId, Version};
use protocol::message::{OpenedSnapshot, SnapshotReply};
use session::{SessionOperation, SessionOutcome};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::client::{Client, other_outcome};
use crate::error::Error;
use crate::table::Table;

/// The state of some tables at one version. Reads that name it, by any index, show exactly what was
/// committed up to that version, whatever is written meanwhile. Clones share it. It ends with the
/// last of them.
///
/// Servers keep the rows that are overwritten since, up to a budget, and end the snapshot beyond
/// it. It also ends when a table of it or a server with a copy changes. Reads then fail with
/// [`Error::Snapshot`], and never return a part.
#[derive(Clone, Debug)]
pub struct Snapshot {
    open: Arc<OpenHandle>,
}

/// Keeps a snapshot open while it exists.
#[derive(Debug)]
struct OpenHandle {
    client: Client,
    opened: OpenedSnapshot,
    tables: Vec<TableId>,
    renewal: AbortHandle,
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        self.renewal.abort();
        let (client, share) = (self.client.clone(), self.opened.share);
        // If this is lost, the lease ends the snapshot.
        self.client.hub().runtime().spawn(async move {
            let close = SessionOperation::CloseSnapshot(share);
            let _ = client.run(close, "the end of a snapshot", None).await;
        });
    }
}

impl Client {
    /// Opens a snapshot of tables. It has everything that was acknowledged before this call.
    /// Writes of the tables wait for a moment while it is opened, usually for less than a
    /// millisecond beyond those that are under way.
    ///
    /// # Errors
    /// [`Error::Snapshot`] while a server with a copy of the tables is down or is being filled.
    /// [`Error::Deadline`] if it could not be opened in time, [`Error::TableGone`].
    pub async fn snapshot(&self, tables: &[&Table]) -> Result<Snapshot, Error> {
        let ids: Vec<TableId> = tables.iter().map(|table| table.id()).collect();
        if ids.is_empty() {
            return Err(Error::Invalid {
                message: "a snapshot is one of at least one table".to_owned(),
            });
        }
        self.open_snapshot(ids, None).await
    }

    pub(crate) async fn open_snapshot(
        &self,
        tables: Vec<TableId>,
        patience: Option<Duration>,
    ) -> Result<Snapshot, Error> {
        let open = SessionOperation::OpenSnapshot(tables.clone());
        let opened = match self.run(open, "a snapshot", patience).await? {
            SessionOutcome::Snapshot(SnapshotReply::Opened(opened)) => opened,
            other => return Err(other_outcome(&other)),
        };
        let client = self.clone();
        let interval = Duration::from_micros(opened.lease_us / 4);
        let renewal = self.hub().runtime().spawn(async move {
            loop {
                sleep(interval).await;
                let keep = SessionOperation::KeepSnapshot(opened.share);
                // Reads report the end of the snapshot.
                let kept = client.run(keep, "a snapshot", None).await;
                if let Err(Error::Snapshot { .. }) = kept {
                    return;
                }
            }
        });
        Ok(Snapshot {
            open: Arc::new(OpenHandle {
                client: self.clone(),
                opened,
                tables,
                renewal: renewal.abort_handle(),
            }),
        })
    }
}

impl Snapshot {
    /// Returns its version: it has every change up to this one, and none above.
    pub fn version(&self) -> Version {
        self.open.opened.at
    }

    /// Returns its name in the protocol.
    #[doc(hidden)]
    pub fn id(&self) -> SnapshotId {
        self.open.opened.share.snapshot
    }

    /// Checks that it has a table.
    pub(crate) fn check(&self, table: &Table) -> Result<(), Error> {
        if self.open.tables.contains(&table.id()) {
            return Ok(());
        }
        let name = &table.schema().name;
        Err(Error::Invalid {
            message: format!("the snapshot does not have table {name}: open one that has"),
        })
    }
}
