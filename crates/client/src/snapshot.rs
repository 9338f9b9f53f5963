//! Snapshots: the state of tables at one version, for reads that are too large to be read as of one
//! moment.

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

/// The state of some tables at one version. Reads of the snapshot, by any index, show exactly the
/// changes up to this version, also while clients write. Clones share the snapshot. It ends with
/// the last clone.
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
    /// Opens a snapshot of tables. It includes every change that was acknowledged before this call.
    /// While it is opened, writes to these tables wait, usually for less than a millisecond after
    /// the running operations have ended.
    ///
    /// # Errors
    /// [`Error::Snapshot`] while a server with partitions of the tables is down, or one of these
    /// partitions is being rebuilt. [`Error::Deadline`] if it could not be opened in time,
    /// [`Error::TableGone`].
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
    /// Returns the version of the snapshot: it includes every change up to this version, and no
    /// later one.
    pub fn version(&self) -> Version {
        self.open.opened.at
    }

    /// Returns the snapshot's id in the protocol.
    #[doc(hidden)]
    pub fn id(&self) -> SnapshotId {
        self.open.opened.share.snapshot
    }

    /// Returns an error if the snapshot does not include the table.
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
