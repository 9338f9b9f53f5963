//! Foreign keys inside of a transaction: they are checked when a statement has ended, over the rows
//! as the transaction sees them.
//!
//! The servers check them again at the commit, with the rows as they are then (R57). So a parent
//! that is found here need not be compared by the commit.

use std::collections::BTreeSet;

use placement::{ForeignKey, ReferentialAction, Value, encode_key, key_has_null};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::transaction::{ReferenceFault, TransactionChange};

use super::{BlockStore, RowName};
use crate::error::SqlError;
use crate::run::children::{children, references_to};
use crate::run::sender::reference_violated;
use crate::store::Store;

impl<S: Store> BlockStore<'_, S> {
    /// Checks the foreign keys of the rows that the changes from this one on have changed.
    pub async fn check_references(
        &self,
        configuration: &Configuration,
        first: usize,
    ) -> Result<(), SqlError> {
        let concerns = |change: &TransactionChange| {
            let table = configuration.table(change.table);
            let action = &change.mutation.action;
            table.is_some_and(|table| action.may_need_reference(&table.schema))
        };
        let changed: BTreeSet<RowName> = self.changed_from(first, concerns);
        for (table, pk) in changed {
            let Some(table) = configuration.table(table) else {
                continue;
            };
            match self.row(table, &pk).await? {
                Some(row) => self.check_parents(configuration, table, &row).await?,
                None => self.check_children(configuration, (table, &pk)).await?,
            }
        }
        Ok(())
    }

    async fn check_parents(
        &self,
        configuration: &Configuration,
        child: &PlacedTable,
        row: &[Value],
    ) -> Result<(), SqlError> {
        let keys = child.schema.constraints.foreign_keys.iter();
        for key in keys.filter(|key| !self.block.is_deferred(key)) {
            let values = || key.columns.iter().map(|column| row[*column].as_ref());
            let parent = configuration.table_named(&key.parent);
            let Some(parent) = parent.filter(|_| !key_has_null(values())) else {
                continue;
            };
            let pk = encode_key(values());
            if self.row(parent, &pk).await?.is_none() {
                let fault = ReferenceFault::NoParent;
                return Err(reference_violated(self, (child, key), pk, fault).into());
            }
        }
        Ok(())
    }

    async fn check_children(
        &self,
        configuration: &Configuration,
        parent: (&PlacedTable, &[u8]),
    ) -> Result<(), SqlError> {
        // As in PostgreSQL, a refusal by RESTRICT is not deferred.
        let is_deferred = |key: &ForeignKey| {
            self.block.is_deferred(key) && key.on_delete != ReferentialAction::Restrict
        };
        let keys = references_to(configuration, parent.0);
        for (child, key) in keys.filter(|(_, key)| !is_deferred(key)) {
            let found = children(self, parent, (child, key), Some(1)).await;
            if !found.map_err(SqlError::from)?.is_empty() {
                let fault = ReferenceFault::HasChildren;
                let pk = parent.1.to_vec();
                return Err(reference_violated(self, (child, key), pk, fault).into());
            }
        }
        Ok(())
    }
}
