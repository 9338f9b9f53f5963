//! Changes of the definitions of tables in use, and removal of all their rows.
//!
//! The client sends one request to the coordinator, and then asks for its progress.

use std::time::Duration;

use placement::Alteration;
use protocol::configuration::{ALTERATION_NAME, TRUNCATION_NAME};
use protocol::identity::TableId;
use protocol::message::CoordinatorRequest;
use tokio::time::sleep;

use crate::client::Client;
use crate::error::Error;

/// The pause between two questions about the progress: `PAUSE_MIN` first, then each pause is twice
/// as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

impl Client {
    /// Changes the definition of a table while clients use it, in one step. Its rows stay as they
    /// are. Returns once all servers with parts of the table have the change.
    ///
    /// The caller must know that all rows satisfy a condition that the change claims of them: a
    /// constraint that is valid, a column that does not allow NULL.
    ///
    /// # Errors
    /// - [`Error::Refused`]: the coordinator refuses, and the table is as it was.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. The change may be made later.
    pub async fn alter_table(
        &self,
        table: &str,
        alterations: Vec<Alteration>,
    ) -> Result<(), Error> {
        let id = self.table(table).await?.id();
        let request = CoordinatorRequest::AlterTable {
            table: table.to_owned(),
            alterations,
        };
        let what = format!("the change of table {table}");
        self.accepted(request, &what).await?;
        let followed = self.follow_change(&[id], ALTERATION_NAME).await;
        followed.map_err(|error| error.after_acceptance(&what))
    }

    /// Removes all rows of tables, in one step. The tables get other numbers, so that a handle of a
    /// table must be looked up again. `cascade` can include the tables that refer to them. The
    /// outcome of a write that is in progress can become unknown; its row is gone.
    ///
    /// # Errors
    /// - [`Error::Refused`]: the coordinator refuses, and all rows are there.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. The rows may be removed later.
    pub async fn truncate(&self, tables: &[String], cascade: Cascade) -> Result<(), Error> {
        self.refresh().await?;
        let mut ids = Vec::with_capacity(tables.len());
        for table in tables {
            ids.push(self.table(table).await?.id());
        }
        let request = CoordinatorRequest::Truncate {
            tables: tables.to_vec(),
            cascade: cascade == Cascade::Referring,
        };
        let what = format!("the removal of all rows of {}", tables.join(", "));
        self.accepted(request, &what).await?;
        let followed = self.follow_change(&ids, TRUNCATION_NAME).await;
        followed.map_err(|error| error.after_acceptance(&what))
    }

    /// Waits until a change of tables is no longer due.
    async fn follow_change(&self, ids: &[TableId], name: &str) -> Result<(), Error> {
        let mut pause = PAUSE_MIN;
        loop {
            let progress = self.fills().await?;
            if !ids.iter().any(|id| progress.is_due(*id, name)) {
                self.refresh().await?;
                let mut failures = progress.failures.into_iter();
                let failed = failures.find(|it| ids.contains(&it.table) && it.name == name);
                return match failed {
                    None => Ok(()),
                    Some(failed) => Err(Error::Refused {
                        message: failed.why,
                        retry: false,
                    }),
                };
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Whether `truncate` also empties the tables that refer to the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cascade {
    /// It is refused if a table refers to them that is not named.
    Named,
    /// They are emptied, too.
    Referring,
}
