//! Implements the store's interface with the client, for statements on a real cluster.

use std::sync::Arc;

use client::{
    Alteration, Cascade, Client, IfExists, IfMissing, SequenceError, Snapshot, SnapshotFailure,
    Table,
};
use placement::{Schema, SequenceLimit};
use protocol::configuration::Configuration;
use protocol::configuration::roles::{RoleChange, RoleId};
use protocol::identity::{Epoch, TableId};
use protocol::message::{FillReport, Read, RowPage};
use protocol::operation::{Mutation, RequestResult};
use protocol::transaction::{RangeCheck, RowCheck, TransactionChange, TransactionResult};
use session::MomentPages;
use session::statistics::TableStatistics;

use crate::store::{SnapshotAnswer, Store, StoreError};

impl Store for Client {
    type Snapshot = Snapshot;

    fn configuration(&self) -> Arc<Configuration> {
        Client::configuration(self)
    }

    async fn refresh(&self) -> Result<Arc<Configuration>, StoreError> {
        Ok(Client::refresh(self).await?)
    }

    async fn page(&self, read: Read) -> Result<RowPage, StoreError> {
        let table = handle(self, read.partition.table).await?;
        Ok(table.read_page(read, None).await?)
    }

    async fn moment(&self, reads: Vec<Read>) -> Result<Option<MomentPages>, StoreError> {
        let Some(first) = reads.first() else {
            return Ok(Some(MomentPages::default()));
        };
        let table = handle(self, first.partition.table).await?;
        Ok(table.read_moment(reads, None).await?)
    }

    async fn snapshot(&self, tables: Vec<TableId>) -> Result<SnapshotAnswer<Snapshot>, StoreError> {
        let mut handles = Vec::with_capacity(tables.len());
        for table in tables {
            handles.push(handle(self, table).await?);
        }
        let handles: Vec<&Table> = handles.iter().collect();
        match Client::snapshot(self, &handles).await {
            Ok(snapshot) => {
                let id = snapshot.id();
                Ok(SnapshotAnswer::Open(snapshot, id))
            }
            Err(client::Error::Snapshot {
                reason: reason @ SnapshotFailure::ServerMissing(_),
            }) => Ok(SnapshotAnswer::Impossible(reason.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    fn statistics(&self, table: TableId) -> Option<Arc<TableStatistics>> {
        Client::known_statistics(self, table)
    }

    async fn measure(&self, table: TableId) {
        Client::measure(self, table).await;
    }

    async fn execute(
        &self,
        planned: Epoch,
        table: TableId,
        mutation: Mutation,
    ) -> Result<RequestResult, StoreError> {
        let table = handle(self, table).await?;
        Ok(table.execute_made_in(planned, mutation).await?)
    }

    async fn transact(
        &self,
        planned: Epoch,
        changes: Vec<TransactionChange>,
        checks: Vec<RowCheck>,
        ranges: Vec<RangeCheck>,
    ) -> Result<TransactionResult, StoreError> {
        Ok(Client::transact(self, planned, changes, checks, ranges).await?)
    }

    async fn next_values(
        &self,
        sequence: TableId,
        count: usize,
    ) -> Result<Result<Vec<i64>, SequenceLimit>, StoreError> {
        match Client::next_values(self, sequence, count).await {
            Ok(values) => Ok(Ok(values)),
            Err(SequenceError::Limit(limit)) => Ok(Err(limit)),
            Err(SequenceError::Failed(error)) => Err(error.into()),
        }
    }

    async fn reset_sequence(
        &self,
        sequence: TableId,
        last_value: i64,
        is_called: bool,
    ) -> Result<(), StoreError> {
        Ok(Client::reset_sequence(self, sequence, last_value, is_called).await?)
    }

    async fn create_table(
        &self,
        schema: Schema,
        sequences: Vec<Schema>,
        owner: RoleId,
        if_not_exists: bool,
    ) -> Result<(), StoreError> {
        let exists = if if_not_exists {
            IfExists::Accept
        } else {
            IfExists::Fail
        };
        Client::create_with_sequences(self, schema, sequences, owner, exists).await?;
        Ok(())
    }

    async fn change_roles(&self, change: RoleChange) -> Result<(), StoreError> {
        Ok(Client::change_roles(self, change).await?)
    }

    async fn add_copy(
        &self,
        wanted: Schema,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        Ok(Client::add_copy(self, wanted, progress).await?)
    }

    async fn set_failures_tolerated(
        &self,
        table: &str,
        failures: u8,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        Ok(Client::set_failures_tolerated(self, table, failures, progress).await?)
    }

    async fn set_partitions(
        &self,
        table: &str,
        partitions: u32,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        Ok(Client::set_partitions(self, table, partitions, progress).await?)
    }

    async fn drop_copy(&self, table: &str, name: &str, if_exists: bool) -> Result<(), StoreError> {
        let missing = if if_exists {
            IfMissing::Accept
        } else {
            IfMissing::Fail
        };
        Ok(Client::drop_copy(self, table, name, missing).await?)
    }

    async fn replace_copy(
        &self,
        table: &str,
        name: &str,
        by: &str,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        Ok(Client::replace_copy(self, table, name, by, progress).await?)
    }

    async fn alter_table(
        &self,
        table: &str,
        alterations: Vec<Alteration>,
    ) -> Result<(), StoreError> {
        Ok(Client::alter_table(self, table, alterations).await?)
    }

    async fn truncate(&self, tables: &[String], cascade: bool) -> Result<(), StoreError> {
        let cascade = match cascade {
            true => Cascade::Referring,
            false => Cascade::Named,
        };
        Ok(Client::truncate(self, tables, cascade).await?)
    }

    async fn drop_table(&self, name: &str, if_exists: bool) -> Result<(), StoreError> {
        let missing = if if_exists {
            IfMissing::Accept
        } else {
            IfMissing::Fail
        };
        Ok(Client::drop_table(self, name, missing).await?)
    }
}

/// Returns the client's handle of a table, by its number: a table of the same name may be another
/// one.
async fn handle(client: &Client, id: TableId) -> Result<Table, StoreError> {
    let gone = || StoreError::dropped(id);
    let configuration = Client::configuration(client);
    let name = &configuration.table(id).ok_or_else(gone)?.schema.name;
    let table = client.table(name).await?;
    if table.id() == id {
        Ok(table)
    } else {
        Err(gone())
    }
}

impl From<client::Error> for StoreError {
    fn from(error: client::Error) -> StoreError {
        StoreError {
            unknown: matches!(error, client::Error::Unknown { .. }),
            begin_again: false,
            refused: matches!(
                error,
                client::Error::Refused { .. } | client::Error::NoTable { .. }
            ),
            stale: matches!(
                error,
                client::Error::TableGone { .. }
                    | client::Error::TableChanged { .. }
                    | client::Error::NoTable { .. }
            ),
            snapshot_ended: matches!(error, client::Error::Snapshot { .. }),
            message: error.to_string(),
        }
    }
}
