//! The interface of a store on which statements run: pages, operations, tables.
//!
//! `adapter` implements it with the client, and tests use a model in memory. The implementation
//! routes and retries requests so that each takes effect exactly once. The caller merges pages and
//! filters by value.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use placement::{Alteration, Schema, SequenceLimit, Value};
use protocol::configuration::Configuration;
use protocol::configuration::roles::{RoleChange, RoleId};
use protocol::identity::{Epoch, SnapshotId, TableId};
use protocol::message::{FillReport, Read, RowPage};
use protocol::operation::{Mutation, RequestResult};
use protocol::transaction::{RangeCheck, RowCheck, TransactionChange, TransactionResult};
use session::MomentPages;
use session::statistics::TableStatistics;

/// The interface of a store, as statements use it.
pub trait Store: Sync {
    /// Keeps a snapshot open while it exists.
    type Snapshot: Send + Sync + fmt::Debug;

    /// Returns the configuration known now.
    fn configuration(&self) -> Arc<Configuration>;

    /// Returns the coordinator's newest configuration.
    fn refresh(&self) -> impl Future<Output = Result<Arc<Configuration>, StoreError>> + Send;

    /// Returns one page of one partition. The read's epoch is that of the configuration by which
    /// its copy was chosen.
    fn page(&self, read: Read) -> impl Future<Output = Result<RowPage, StoreError>> + Send;

    /// Returns ranges as of one moment, each with all of its pages. None if they are
    /// too large for that, or change too often: rows that are then read page by page are of no one
    /// moment.
    fn moment(
        &self,
        reads: Vec<Read>,
    ) -> impl Future<Output = Result<Option<MomentPages>, StoreError>> + Send;

    /// Opens a snapshot of tables, for pages that name it.
    fn snapshot(
        &self,
        tables: Vec<TableId>,
    ) -> impl Future<Output = Result<SnapshotAnswer<Self::Snapshot>, StoreError>> + Send;

    /// Returns the estimates about a table that are known now; none without any. If they are old,
    /// the store asks for new ones in the background.
    fn statistics(&self, table: TableId) -> Option<Arc<TableStatistics>>;

    /// Asks for new estimates about a table, for `EXPLAIN`. They are known afterwards.
    fn measure(&self, table: TableId) -> impl Future<Output = ()> + Send;

    /// Executes one operation, exactly once. It was made by the configuration of epoch `planned`.
    /// If the table has other columns by now, the operation is refused as stale.
    fn execute(
        &self,
        planned: Epoch,
        table: TableId,
        mutation: Mutation,
    ) -> impl Future<Output = Result<RequestResult, StoreError>> + Send;

    /// Returns whether the store is a transaction in the making, which executes nothing before it
    /// is committed.
    fn is_transaction(&self) -> bool {
        false
    }

    /// Returns a row as a transaction sees it, and makes its commit compare the row. Other stores
    /// have no such row.
    fn row_of_transaction(
        &self,
        _table: TableId,
        _pk: &[u8],
    ) -> impl Future<Output = Result<Option<Vec<Value>>, StoreError>> + Send {
        let error = StoreError::plain("only a transaction returns the rows that it changes".into());
        std::future::ready(Err(error))
    }

    /// Runs the changes of a transaction together, exactly once, if all rows and ranges are
    /// as the checks say. They were made by configurations of epoch `planned` and later ones.
    fn transact(
        &self,
        planned: Epoch,
        changes: Vec<TransactionChange>,
        checks: Vec<RowCheck>,
        ranges: Vec<RangeCheck>,
    ) -> impl Future<Output = Result<TransactionResult, StoreError>> + Send;

    /// Draws the next values of a sequence. No call returns them again, unless the sequence cycles
    /// or is reset.
    fn next_values(
        &self,
        sequence: TableId,
        count: usize,
    ) -> impl Future<Output = Result<Result<Vec<i64>, SequenceLimit>, StoreError>> + Send;

    /// Sets the last value of a sequence, and whether it was drawn. Values that were drawn before
    /// are not handed out afterwards.
    fn reset_sequence(
        &self,
        sequence: TableId,
        last_value: i64,
        is_called: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Creates a table, and the sequences of its columns unless it exists. All belong to a role.
    /// The configuration known afterwards has them.
    fn create_table(
        &self,
        schema: Schema,
        sequences: Vec<Schema>,
        owner: RoleId,
        if_not_exists: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Changes roles or privileges, in one step. The configuration known afterwards has the change.
    /// Only the store of a whole cluster has roles.
    fn change_roles(
        &self,
        _change: RoleChange,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let error = StoreError::plain("this part of a store has no roles".into());
        std::future::ready(Err(error))
    }

    /// Adds an index or a further copy to a table: `wanted` is its schema with one more, its last.
    /// Returns once statements can read it; `progress` is called with how far it is. The
    /// configuration known afterwards has it.
    fn add_copy(
        &self,
        wanted: Schema,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Changes how many failures a table survives, and adds the copies that this takes. `progress`
    /// is called from time to time with the state of their fills.
    fn set_failures_tolerated(
        &self,
        table: &str,
        failures: u8,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Cuts the copies of a table into another number of partitions, and returns once it has them;
    /// `progress` is called with how far it is. The configuration known afterwards has them.
    fn set_partitions(
        &self,
        table: &str,
        partitions: u32,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Drops an index or a further copy of a table. The configuration known afterwards has it no
    /// more.
    fn drop_copy(
        &self,
        table: &str,
        name: &str,
        if_exists: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Drops an index of a table and gives its name to another one, once that is complete;
    /// `progress` is called with how far it is. The configuration known afterwards shows it.
    fn replace_copy(
        &self,
        table: &str,
        name: &str,
        by: &str,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Changes the definition of a table, in one step. The configuration known afterwards has it.
    fn alter_table(
        &self,
        table: &str,
        alterations: Vec<Alteration>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes all rows of tables, and with `cascade` of the tables that refer to them, in one
    /// step. The configuration known afterwards has empty tables in their places.
    fn truncate(
        &self,
        tables: &[String],
        cascade: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Drops a table and the sequences of its columns, or a sequence. The configuration known
    /// afterwards has them no more.
    fn drop_table(
        &self,
        name: &str,
        if_exists: bool,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The answer to a request for a snapshot.
#[derive(Debug)]
pub enum SnapshotAnswer<S> {
    /// The snapshot is open. Pages can be read from it while the first part exists.
    Open(S, SnapshotId),
    /// No snapshot can be opened now, although pages can be read. Contains the reason, for people.
    Impossible(String),
}

/// The reason why a store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// For people: what happened, to which object, and what to do.
    pub message: String,
    /// Whether the change may have taken effect (R14). Then it must not be reported as failed.
    pub unknown: bool,
    /// Whether the table or partition does not exist any more, so that the statement must be
    /// planned again.
    pub stale: bool,
    /// Whether the snapshot has ended, so that the statement must run again.
    pub snapshot_ended: bool,
    /// Whether the transaction of the session must begin again, because of another operation.
    pub begin_again: bool,
    /// Whether the coordinator has answered, and refused the definition.
    pub refused: bool,
}

impl StoreError {
    /// Returns an error about which only people need to know something.
    pub fn plain(message: String) -> StoreError {
        StoreError {
            message,
            unknown: false,
            stale: false,
            snapshot_ended: false,
            begin_again: false,
            refused: false,
        }
    }

    /// Returns the error of a transaction that must begin again, because of another operation.
    pub(crate) fn begin_again(message: String) -> StoreError {
        StoreError {
            begin_again: true,
            ..StoreError::plain(message)
        }
    }

    /// Returns the error for a table that has other columns than the statement knew.
    pub(crate) fn altered(table: &str) -> StoreError {
        StoreError {
            stale: true,
            ..StoreError::plain(format!(
                "the columns of table {table} have changed meanwhile"
            ))
        }
    }

    /// Returns the error for a table that does not exist any more.
    pub(crate) fn dropped(table: TableId) -> StoreError {
        StoreError {
            stale: true,
            ..StoreError::plain(format!("table number {} was dropped meanwhile", table.0))
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}
