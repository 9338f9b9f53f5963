//! Adding copies to tables and dropping them, while clients use the tables.
//!
//! The client sends one request to the coordinator, and then asks for its progress. The servers do
//! the work, which continues without the client.

use std::time::Duration;

use placement::{Replex, ReplexKind, Schema};
use protocol::configuration::PlacedTable;
use protocol::configuration::partitions::resize_name;
use protocol::identity::TableId;
use protocol::message::{CoordinatorReply, CoordinatorRequest, CopyFailure, FillReport, Shortage};
use tokio::time::{Instant, sleep};

use crate::client::{Client, IfMissing, unexpected};
use crate::error::Error;

/// The pause between two questions about the progress: `PAUSE_MIN` first, because a table without
/// rows is filled within milliseconds, then each pause is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// For this long the coordinator may be unavailable while the command waits.
const UNAVAILABLE_MAX: Duration = Duration::from_secs(60);

/// The partitions that a cluster is filling, and the copies that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillProgress {
    /// Replexes with partitions that are being filled, in the order of table and number.
    pub fills: Vec<FillReport>,
    /// Copies whose addition or removal is due, by table and name.
    pub waiting: Vec<(TableId, String)>,
    /// The copies that could not be made, the last one at the end.
    pub failures: Vec<CopyFailure>,
    /// Servers that do not accept all writes, because their disks are full.
    pub without_room: Vec<Shortage>,
}

impl FillProgress {
    /// Returns whether the addition or removal of a copy is due.
    pub(crate) fn is_due(&self, table: TableId, name: &str) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|it| it.0 == table && it.1 == name)
    }
}

/// A change of copies that the client follows until it is made.
struct CopyChange<'a> {
    table: TableId,
    /// The name under which the coordinator reports the change.
    name: &'a str,
    /// Returns whether a replex of the table is part of the change.
    is_own: &'a (dyn Fn(&PlacedTable, &Replex) -> bool + Send + Sync),
}

impl Client {
    /// Adds an index, a thin index or a further copy to an existing table. Returns once statements
    /// can use it for reads. `wanted` is the table's schema with the new one at the end. `progress`
    /// is called from time to time with the state of the fill. The work continues if the caller
    /// stops waiting; [`Client::drop_copy`] cancels it.
    ///
    /// # Errors
    /// - [`Error::Schema`]: the copy is invalid.
    /// - [`Error::Refused`]: the coordinator refuses, or rows violate a unique index. Nothing of
    ///   the copy is left.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. The copy may be made later.
    pub async fn add_copy(
        &self,
        wanted: Schema,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), Error> {
        wanted.validate()?;
        let table = self.table(&wanted.name).await?;
        let known = &table.definition().schema;
        let name = known.added_name(&wanted);
        let request = CoordinatorRequest::AddCopy { schema: wanted };
        let what = format!("the making of {name}");
        let is_own =
            |table: &PlacedTable, replex: &Replex| table.schema.copy_of(&replex.name) == name;
        let change = CopyChange {
            table: table.id(),
            name: &name,
            is_own: &is_own,
        };
        self.change_copies(request, &what, &change, progress)
            .await?;
        let configuration = self.configuration();
        let table = configuration.table(table.id());
        let exists = table.is_some_and(|table| {
            let mut names = table.layout.replexes.iter().map(|it| &it.name);
            names.any(|replex| table.schema.copy_of(replex) == name)
        });
        match exists {
            true => Ok(()),
            false => Err(Error::Refused {
                message: format!("{name} was dropped while it was being made"),
                retry: false,
            }),
        }
    }

    /// Changes the number of partitions of a table's copies, while clients read and write it.
    /// Returns once statements read the new copies. `progress` is called from time to time with the
    /// state of their fill. The work continues if the caller stops waiting. A call with the table's
    /// present number cancels it.
    ///
    /// # Errors
    /// - [`Error::Refused`]: the coordinator refuses, and the table is as it was.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. The change may be made later.
    pub async fn set_partitions(
        &self,
        table: &str,
        partitions: u32,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), Error> {
        let id = self.table(table).await?.id();
        let request = CoordinatorRequest::SetPartitions {
            table: table.to_owned(),
            partitions,
        };
        let name = resize_name(partitions);
        let is_own =
            |_: &PlacedTable, replex: &Replex| matches!(replex.kind, ReplexKind::Successor { .. });
        let change = CopyChange {
            table: id,
            name: &name,
            is_own: &is_own,
        };
        let what = format!("the change to {name}");
        self.change_copies(request, &what, &change, progress)
            .await?;
        let configuration = self.configuration();
        let now = configuration.table(id).map(|it| it.schema.partitions);
        match now {
            Some(now) if now == partitions => Ok(()),
            Some(now) => Err(Error::Refused {
                message: format!(
                    "the change of table {table} to {partitions} partitions was given up: it keeps \
                     its {now}"
                ),
                retry: false,
            }),
            None => Err(Error::Refused {
                message: format!("table {table} was dropped meanwhile"),
                retry: false,
            }),
        }
    }

    /// Drops an index or a further copy of a table, or cancels an unfinished one.
    ///
    /// # Errors
    /// - [`Error::Refused`]: the coordinator refuses.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. The copy may be dropped later.
    pub async fn drop_copy(
        &self,
        table: &str,
        name: &str,
        missing: IfMissing,
    ) -> Result<(), Error> {
        let id = self.table(table).await?.id();
        let request = CoordinatorRequest::DropCopy {
            table: table.to_owned(),
            name: name.to_owned(),
            if_exists: missing == IfMissing::Accept,
        };
        let what = format!("the drop of {name}");
        self.accepted(request, &what).await?;
        let dropped = self.follow_drop(id, name).await;
        dropped.map_err(|error| error.after_acceptance(&what))
    }

    /// Drops an index and gives its name to another one of the table, in one step. Waits until the
    /// other one is complete; statements use the first one until then. `progress` is called from
    /// time to time with the state of the other one's fill.
    ///
    /// # Errors
    /// - [`Error::Refused`]: the coordinator refuses, or the other index cannot be made.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the coordinator stopped answering. It may be done later.
    pub async fn replace_copy(
        &self,
        table: &str,
        name: &str,
        by: &str,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), Error> {
        let id = self.table(table).await?.id();
        let change = CopyChange {
            table: id,
            name: by,
            is_own: &|table, replex| table.schema.copy_of(&replex.name) == by,
        };
        self.follow(&change, progress).await?;
        let request = CoordinatorRequest::ReplaceCopy {
            table: table.to_owned(),
            name: name.to_owned(),
            by: by.to_owned(),
        };
        let what = format!("the replacement of {name}");
        self.accepted(request, &what).await?;
        let replaced = self.follow_drop(id, name).await;
        replaced.map_err(|error| error.after_acceptance(&what))?;
        let configuration = self.configuration();
        let placed = configuration.table(id).map(|it| &it.layout.replexes[..]);
        let mut names = placed.unwrap_or_default().iter().map(|it| &it.name);
        match names.any(|it| it == by) {
            false => Ok(()),
            true => Err(Error::Refused {
                message: format!("{name} could not be replaced by {by}: try again"),
                retry: false,
            }),
        }
    }

    /// Waits until the drop of a copy is no longer due.
    async fn follow_drop(&self, id: TableId, name: &str) -> Result<(), Error> {
        let mut pause = PAUSE_MIN;
        while self.fills().await?.is_due(id, name) {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.refresh().await?;
        Ok(())
    }

    /// Asks the coordinator for copies of a table, and waits until they are neither waited for nor
    /// being made.
    async fn change_copies(
        &self,
        request: CoordinatorRequest,
        what: &str,
        change: &CopyChange<'_>,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), Error> {
        self.accepted(request, what).await?;
        let followed = self.follow(change, progress).await;
        followed.map_err(|error| error.after_acceptance(what))
    }

    /// Returns the unfinished copies, and those that could not be made.
    ///
    /// # Errors
    /// [`Error::NoCoordinator`] and [`Error::Deadline`].
    pub async fn fills(&self) -> Result<FillProgress, Error> {
        let what = "the progress of fills";
        match self.ask(CoordinatorRequest::Progress, what).await? {
            CoordinatorReply::Progress {
                fills,
                waiting,
                failures,
                without_room,
            } => Ok(FillProgress {
                fills,
                waiting,
                failures,
                without_room,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until the copies of a change are neither waited for nor being made.
    async fn follow(
        &self,
        change: &CopyChange<'_>,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), Error> {
        let (id, name) = (change.table, change.name);
        let mut answered = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            let fills = match self.fills().await {
                Ok(fills) => fills,
                Err(error) if answered.elapsed() > UNAVAILABLE_MAX => return Err(error),
                Err(_) => {
                    sleep(PAUSE_MAX).await;
                    continue;
                }
            };
            answered = Instant::now();
            let is_waiting = fills.is_due(id, name);
            let mut failures = fills.failures.into_iter();
            let failure = failures.find(|it| it.table == id && it.name == name);
            // Returns once nothing of it is left.
            if let Some(failure) = failure.filter(|_| !is_waiting) {
                self.refresh().await?;
                return Err(Error::Refused {
                    message: format!("{name} cannot be made: {}", failure.why),
                    retry: false,
                });
            }
            let configuration = self.refresh().await?;
            let table = configuration.table(id);
            let building = table.map_or(Vec::new(), |table| {
                let of_copy = |number: &&u8| {
                    (change.is_own)(table, &table.layout.replexes[usize::from(**number)])
                };
                table.building.iter().filter(of_copy).copied().collect()
            });
            if building.is_empty() && !is_waiting {
                return Ok(());
            }
            let own = fills.fills.iter();
            let own = own.filter(|fill| fill.table == id && building.contains(&fill.replex));
            let mut sum = FillReport::new(id, 0);
            own.for_each(|fill| sum.add(fill));
            progress(&sum);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
