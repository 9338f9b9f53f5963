//! Transactions: operations of several rows, of any tables (R40 to R46;
//! `docs/design/2026-11-28-transactions.md`).
//!
//! | where | what |
//! |---|---|
//! | `request` | a transaction arrives at the core of its first primary, the *coordinator* |
//! | `walk` | the primaries lock and evaluate the rows, core after core; nothing is logged |
//! | `coordinator` | sends each member its part of the prepare, collects votes, decides |
//! | `progress` | the state of a transaction at its coordinator |
//! | `part` | the work of a member: it judges, votes, logs the decision, settles |
//! | `checks` | rows that the client has read are compared, after all votes |
//! | `outcome` | when clients may see the outcome; when all members have it |
//! | `repeat` | the coordinator sends again what may be lost |
//! | `changes` | a new configuration: which transactions continue, which are resolved |
//!
//! A transaction has one [`Member`](crate::core::member::Member) for each partition that takes
//! part, as a single-row operation has. Votes and decisions are always on disk before they are
//! sent, so a core that restarts has forgotten none of them. A resolution commits what a member
//! knows to be committed, and aborts everything else. So a commit may be seen once it is on the
//! disks of f + 1 failure domains of each table that is changed (R43).

mod changes;
mod checks;
mod coordinator;
mod outcome;
mod part;
mod progress;
mod references;
mod repeat;
mod request;
mod walk;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{CoreId, OperationId, PartitionId, Position, TableId};
use protocol::message::PeerMessage;
use protocol::transaction::{TransactionContent, TransactionMessage};

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::step::Step;

use checks::CoreChecks;
pub(crate) use outcome::ChangedDomains;
use progress::Coordinated;
use walk::LocalWalk;

/// The transactions of one core, beside their members.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// Walks that wait for keys of this core, or hold some.
    walks: BTreeMap<OperationId, LocalWalk>,
    /// The transactions that this core coordinates.
    coordinated: BTreeMap<OperationId, Coordinated>,
}

impl Transactions {
    /// Returns the number of walks and of coordinated transactions.
    pub fn count(&self) -> usize {
        self.walks.len() + self.coordinated.len()
    }

    /// Returns the time of the next repetition; none if nothing is coordinated.
    pub fn due_us(&self) -> Option<u64> {
        self.coordinated.values().map(|it| it.due_us).min()
    }
}

impl CoreMachine {
    /// Handles a message about a transaction.
    pub(crate) fn on_transaction<T: Tables>(
        &mut self,
        from: CoreId,
        message: TransactionMessage,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let operation = message.operation;
        match message.content {
            TransactionContent::Walk(walk) => {
                let tables = message.epochs.iter().map(|(table, _)| *table);
                self.on_walk(operation, (walk, tables.collect()), step)
            }
            TransactionContent::Walked(walk) => self.on_walked(operation, walk, step),
            TransactionContent::WalkEnded(end) => self.on_walk_ended(operation, end, step),
            TransactionContent::DropWalk => self.drop_walk(operation, step),
            TransactionContent::Prepare(prepare) => self.on_part(from, prepare, step),
            TransactionContent::Voted { member, vote } => {
                self.on_voted((operation, member), vote, step)
            }
            TransactionContent::Check {
                checks,
                ranges,
                references,
            } => {
                let tables: Vec<TableId> = message.epochs.iter().map(|it| it.0).collect();
                let checks = CoreChecks {
                    rows: checks,
                    ranges,
                    references,
                };
                self.on_check(from, (operation, &tables), &checks, step)
            }
            TransactionContent::Checked {
                passed,
                failed,
                held,
            } => self.on_checked(operation, &passed, (failed, held), step),
            TransactionContent::Decision {
                to,
                decision,
                settled,
            } => self.on_outcome((operation, to), (decision, settled), from, step),
            TransactionContent::Kept { member } => self.on_kept((operation, member), step),
            TransactionContent::Ended { member } => self.on_ended((operation, member), step),
            TransactionContent::Ask { member } => {
                self.on_ask(from, (operation, member), step.output);
                Ok(())
            }
            TransactionContent::Over { to, finished_below } => {
                self.on_over((operation, to), finished_below, step)
            }
            TransactionContent::AskDecision { to } => {
                self.on_ask_decision(from, (operation, to), step.output);
                Ok(())
            }
            TransactionContent::Known { member, decision } => {
                self.on_known((operation, member), decision, step)
            }
        }
    }

    /// Emits a message about a transaction of these tables to a core.
    fn send_transaction(
        &self,
        to: CoreId,
        (operation, tables): (OperationId, &[TableId]),
        after: Position,
        content: TransactionContent,
        output: &mut CoreOutput,
    ) {
        // No core needs the epoch of a table that was dropped.
        let known = tables.iter().filter_map(|table| self.view.table(*table));
        let epochs = known.map(|table| (table.id, table.epoch)).collect();
        let message = PeerMessage::Transaction(TransactionMessage {
            operation,
            epochs,
            content,
        });
        output.sends.push(PeerSend { to, after, message });
    }

    /// Emits a message about a transaction to the core that holds one of its members.
    fn send_to_member(
        &self,
        member: PartitionId,
        of: (OperationId, &[TableId]),
        content: TransactionContent,
        output: &mut CoreOutput,
    ) {
        if let Some(place) = self.view.place(member) {
            self.send_transaction(place.core, of, Position(0), content, output);
        }
    }

    /// Returns whether operations on one of these tables stand still, or the table was dropped.
    pub(crate) fn any_stands_still(&self, tables: &[TableId]) -> bool {
        tables.iter().any(|table| self.stands_still(*table))
    }
}
