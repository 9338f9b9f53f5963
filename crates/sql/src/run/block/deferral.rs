//! `SET CONSTRAINTS`: when the foreign keys of a transaction are checked.

use std::collections::BTreeMap;

use placement::{Deferral, ForeignKey};
use protocol::configuration::Configuration;

use super::{Block, BlockStore, SqlSession, StatementOutcome, done};
use crate::error::{SqlError, sqlstate};
use crate::statement::{SetConstraints, Statement, TransactionStatement};
use crate::store::Store;

/// When a transaction checks foreign keys, where it differs from their definitions. Only deferrable
/// ones can differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferrals {
    /// For all that are not named.
    all: Option<bool>,
    named: BTreeMap<String, bool>,
}

impl Deferrals {
    /// Returns whether only the commit checks a foreign key.
    pub fn is_deferred(&self, key: &ForeignKey) -> bool {
        if key.deferral == Deferral::NotDeferrable {
            return false;
        }
        let own = key.deferral == Deferral::InitiallyDeferred;
        let named = self.named.get(&key.name).copied();
        named.or(self.all).unwrap_or(own)
    }

    fn set(&mut self, statement: &SetConstraints) {
        if statement.names.is_empty() {
            self.named.clear();
            self.all = Some(statement.deferred);
        }
        for name in &statement.names {
            self.named.insert(name.clone(), statement.deferred);
        }
    }
}

impl<S: Store> SqlSession<S> {
    /// Runs `SET CONSTRAINTS`. Foreign keys that are no longer deferred are checked at once.
    pub(super) async fn set_constraints(
        &mut self,
        statement: &SetConstraints,
    ) -> Result<StatementOutcome, SqlError> {
        let Some(block) = self.block.as_mut() else {
            self.notice("SET CONSTRAINTS can only be used in transaction blocks".into());
            return Ok(done("SET CONSTRAINTS"));
        };
        block.check()?;
        let configuration = self.store.configuration();
        let set = async {
            check_names(statement, &configuration)?;
            let before = block.deferrals.clone();
            block.deferrals.set(statement);
            if statement.deferred || block.work().changes.is_empty() {
                return Ok(());
            }
            let whole = TransactionStatement::SetConstraints(statement.clone());
            let store = BlockStore::new(&self.store, block, &Statement::Transaction(whole));
            let checked = store.check_references(&configuration, 0).await;
            if checked.is_err() {
                block.deferrals = before;
            }
            checked
        };
        let outcome = set.await;
        if outcome.is_err() {
            self.fail_transaction();
        }
        outcome.map(|()| done("SET CONSTRAINTS"))
    }
}

/// Checks that the constraints exist, and that they are deferrable.
fn check_names(statement: &SetConstraints, configuration: &Configuration) -> Result<(), SqlError> {
    for name in &statement.names {
        let tables = configuration.tables.iter();
        let keys = tables.flat_map(|table| &table.schema.constraints.foreign_keys);
        let mut named = keys.filter(|key| key.name == *name).peekable();
        if named.peek().is_none() {
            return Err(SqlError::with_state(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" does not exist"),
            ));
        }
        if named.any(|key| key.deferral == Deferral::NotDeferrable) {
            return Err(SqlError::with_state(
                sqlstate::WRONG_OBJECT,
                format!("constraint \"{name}\" is not deferrable"),
            ));
        }
    }
    Ok(())
}

impl<P> Block<P> {
    /// Returns whether only the commit checks a foreign key.
    pub(super) fn is_deferred(&self, key: &ForeignKey) -> bool {
        self.deferrals.is_deferred(key)
    }
}
