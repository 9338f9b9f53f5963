//! Combines the effects of several statements, as far as these decide where the statements run.

use proxy_core::freshness::AccessSets;
use proxy_core::touched::{CombinedAnalysis, WRITES};

use crate::{AnalysedStatement, BoundParameter, StatementAction, TransactionCommand};

impl AnalysedStatement {
    /// Adds the effect of this statement with its parameters to the effects of earlier statements.
    pub fn add_to(&self, touched: &mut CombinedAnalysis, parameters: &[BoundParameter<'_>]) {
        touched.count += 1;
        touched.of_transaction_time |= self.of_transaction_time;
        let sets = self.sets(parameters);
        if self.locks {
            touched.locked.merge(&sets);
        }
        touched.sets.absorb(sets);
        let why = match &self.action {
            StatementAction::Read => {
                touched.named.extend(self.named());
                return;
            }
            StatementAction::Primary(why)
            | StatementAction::Unproven(why)
            | StatementAction::Pin(why) => why,
            StatementAction::Alone(_, why) => why,
            StatementAction::Session => {
                touched.changes_settings = true;
                "it is about the session"
            }
            StatementAction::Write => WRITES,
            StatementAction::Schema(text) | StatementAction::MayFill(text, _) => {
                touched.may_end = true;
                touched.schema.push(text.clone());
                if let StatementAction::MayFill(_, why) = &self.action {
                    touched.unless_rows = touched.unless_rows.or(Some(why));
                }
                "it changes the schema"
            }
            StatementAction::Transaction(command) => {
                touched.commands += 1;
                match command {
                    TransactionCommand::Begin => touched.begins |= touched.count == 1,
                    TransactionCommand::Savepoint => {}
                    TransactionCommand::Commit | TransactionCommand::Rollback => {
                        touched.may_end = true;
                    }
                    // A transaction that another session has prepared may contain anything.
                    TransactionCommand::TwoPhase => {
                        touched.sets.merge(&AccessSets::writes_anything())
                    }
                }
                "it begins or ends a transaction"
            }
            StatementAction::Refused(why) | StatementAction::MayDiffer(_, why) => {
                touched.refused = Some(why);
                "it is refused"
            }
        };
        // A statement that writes anything may be a procedure, which may end transactions.
        touched.may_end |= touched.sets.may_write_anything();
        touched.needs_primary = touched.needs_primary.or(Some(why));
    }
}
