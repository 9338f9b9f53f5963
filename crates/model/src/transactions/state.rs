//! One state: the changes of the configuration so far, the changes that each core knows, the rows
//! at each core, and each core's state of each transaction.

use super::case::{TRANSACTIONS_MAX, TransactionCase};
use crate::changes::{CORES_MAX, Changes, Outcome};
use crate::packing::{packed_enums, packed_structs};

/// One step of the model. Cores and transactions are indexes into the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStep {
    /// A client reads the rows that a transaction checks, and sends the transaction.
    Begin(usize),
    /// The walk of a transaction arrives at its next primary.
    Walk(usize),
    /// The walk comes back to the coordinator, which sends the complete prepare.
    Send(usize),
    /// A core where a walk has ended without a prepare releases the transaction's locks.
    Release(usize, usize),
    /// A prepare arrives at a member, which judges it.
    Prepare(usize, usize),
    /// A check of a row is judged.
    Check(usize, usize),
    /// A prepare arrives at a core, which refuses it because of a constraint.
    Refuse(usize, usize),
    /// The coordinator decides by the votes.
    Decide(usize),
    /// The coordinator aborts a transaction before it has all votes.
    GiveUp(usize),
    /// The decision arrives at a core.
    Deliver(usize, usize),
    /// A coordinator that has restarted asks all members for the decision.
    AskMembers(usize),
    /// A primary drops a walk that has taken too long.
    DropWalk(usize, usize),
    /// A member records that no attempt of an aborted request may commit any more.
    Close(usize, usize),
    /// The client is answered.
    Answer(usize),
    /// All members forget a transaction that is finished everywhere.
    Forget(usize),
    /// A client reads a row at a core.
    Read(usize, usize),
    /// A core shows the outcome to readers, and releases the locks.
    Settle(usize, usize),
    /// A core restarts: it has lost locks and evaluations of walks, or all of its memory.
    Crash(usize),
    /// A core that has lost its memory has the answers of all others.
    AskOthers(usize),
    /// A core learns of the next change of the configuration.
    Learn(usize),
    /// A core applies the resolution of a transaction.
    Resolve(usize, usize),
    /// A server is removed. Its tables are sealed.
    Lose(usize),
    /// A table serves again.
    Serve(u8),
}

packed_enums! {
    /// How far a transaction has come at a core.
    Stage {
        /// The core does not know the transaction.
        Unknown,
        /// The core holds locks for a walk, and has evaluated its rows. It has no record of this.
        Walked,
        /// The core has durably voted yes.
        Prepared,
        /// The core has voted no. It has no record of this.
        Refused,
    }
}

packed_structs! {
    /// One core's part in a transaction.
    Part {
        /// How far it has come.
        stage: Stage,
        /// The outcome, durably.
        outcome: Outcome,
        /// Whether readers see the outcome here.
        settled: bool,
        /// Whether the core may have forgotten that it took part.
        forgot: bool,
    }

    /// One transaction. Its messages, once sent, may arrive at any time and more than once.
    TransactionState {
        /// The number of the change in which it began; 0 before.
        begun: u8,
        /// The number of primaries that have evaluated it.
        walked: u8,
        /// Whether the walk ended because the request was known.
        known: bool,
        /// Whether the coordinator has sent the complete prepare.
        sent: bool,
        /// By row: the value that the client has read, if the transaction checks it.
        read: [u8; 2],
        /// By row: the value on which the primary evaluated the change.
        old: [u8; 2],
        /// Transactions whose clients had their answers when this one began, as a set.
        after: u8,
        /// Members that have ever voted yes, as a set.
        voted: u8,
        /// Rows whose checks have passed, as a set.
        checked: u8,
        /// Whether a member has voted no, or a check has failed.
        refused: bool,
        /// Whether the coordinator has restarted since, and not asked the members for a decision.
        unsure: bool,
        /// Whether the coordinator has restarted since.
        restarted: bool,
        /// The decision, as the coordinator sends it.
        decision: Outcome,
        /// Cores that have reported the decision as durable, as a set.
        reported: u8,
        /// Members that have recorded the abort as the request's result, as a set.
        closed: u8,
        /// Whether the client has its answer.
        answered: bool,
        /// Whether all members have forgotten the transaction.
        forgotten: bool,
        /// Whether a client or a reader may have seen the commit.
        seen_commit: bool,
        /// Whether the client may have received the answer that the transaction aborted.
        seen_abort: bool,
        /// The parts, by core.
        parts: [Part; CORES_MAX],
    }

    /// One read of the client that only reads.
    ReadState {
        /// Whether it has happened.
        done: bool,
        /// The row.
        row: u8,
        /// The value that it has returned.
        value: u8,
        /// Transactions whose clients had their answers when it began, as a set.
        after: u8,
    }

    /// A state of the model.
    ModelState {
        /// The changes of the configuration.
        changes: Changes,
        /// Cores that have lost their memory and not asked the others, as a set.
        asking: u8,
        /// By row and core: the settled value, which lists the transactions that changed it.
        rows: [[u8; CORES_MAX]; 2],
        /// By transaction.
        transactions: [TransactionState; TRANSACTIONS_MAX],
        /// The reads of a client that reads twice, one after the other.
        reads: [ReadState; 2],
        /// Whether a core has replaced a value that the transaction had not evaluated.
        replaced_unseen: bool,
        /// Losses that may still happen.
        losses_left: u8,
        /// Restarts that may still happen.
        crashes_left: u8,
    }
}

/// Returns a value after one more transaction has changed it.
pub fn changed(value: u8, transaction: usize) -> u8 {
    value * 4 + transaction as u8 + 1
}

/// Returns the transactions that have changed a value, the last one first.
pub fn history(value: u8) -> impl Iterator<Item = usize> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let last = (rest % 4).checked_sub(1)?;
        rest /= 4;
        Some(usize::from(last))
    })
}

impl Part {
    /// Returns whether the core has voted yes, and has not shown the outcome.
    pub fn holds(&self) -> bool {
        self.stage == Stage::Prepared && !self.settled
    }
}

impl ModelState {
    /// Returns the initial state: all cores know the first change.
    pub fn start(case: &TransactionCase) -> ModelState {
        ModelState {
            changes: Changes::first(case.cores.len()),
            losses_left: case.losses,
            crashes_left: case.crashes,
            ..ModelState::default()
        }
    }

    /// Returns the transactions whose clients have their answers, as a set.
    pub fn answered(&self) -> u8 {
        let numbers = self.transactions.iter().enumerate();
        let answered = numbers.filter(|(_, it)| it.answered && it.seen_commit);
        answered.map(|(number, _)| 1 << number).sum()
    }
}
