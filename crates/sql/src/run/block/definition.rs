//! Changes of tables, sequences and indexes in an open transaction.
//!
//! The coordinator makes such a change at once, for all clients. So the transaction commits what it
//! has changed so far, then the statement takes effect, and a new transaction goes on with the same
//! mode and savepoints. A notice says so.

use placement::Value;

use super::{Block, SqlSession, StatementOutcome};
use crate::error::{SqlError, TransactionFault};
use crate::statement::{Statement, TransactionMode};
use crate::store::Store;

/// The notice of a statement before which nothing was committed.
const AT_ONCE: &str = "the statement takes effect at once: ROLLBACK does not undo it";
/// The notice of a statement that has committed the changes before it.
const COMMITTED: &str = "the statement takes effect at once, and the changes of the transaction \
                         before it are committed: ROLLBACK undoes neither";

/// The refusal of a definition in a transaction that cannot write.
pub(super) const READ_ONLY: &str =
    "the transaction is READ ONLY: begin one that is not, to change tables";

impl<S: Store> SqlSession<S> {
    /// Runs a statement that changes tables, sequences or indexes, in the open transaction.
    pub(in crate::run) async fn define_in_block(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<StatementOutcome, SqlError> {
        let block = self.block.as_ref().expect("callers have one");
        block.check()?;
        if block.mode == TransactionMode::ReadOnly && block.reads_since.is_none() {
            self.fail_transaction();
            return Err(SqlError::fault(TransactionFault::ReadOnly, READ_ONLY));
        }
        let commits = self.changes_so_far() > 0;
        let savepoints = block.savepoints.iter().map(|(name, _)| (name.clone(), 0));
        let next = Block {
            // Until the statement has succeeded: it may fail, or be canceled, also while the
            // changes before it are being committed.
            failed: true,
            used: true,
            deferrals: block.deferrals.clone(),
            savepoints: savepoints.collect(),
            ..Block::new(TransactionMode::ReadWrite)
        };
        let before = self.block.replace(next).expect("callers have one");
        self.commit_block(before).await?;
        let outcome = self.run_at_once(statement, parameters).await?;
        let block = self.block.as_mut().expect("it was put there");
        block.failed = false;
        self.notice(if commits { COMMITTED } else { AT_ONCE }.into());
        Ok(outcome)
    }
}
