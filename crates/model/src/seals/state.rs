//! One state: the changes so far, the changes that each core knows, and each core's state of each
//! operation.

use super::case::{OPERATIONS_MAX, SealCase};
use crate::changes::{CORES_MAX, Changes, Outcome};
use crate::packing::{packed_enums, packed_structs};

/// One step of the model. Cores and operations are indexes into the case, members are indexes into
/// an operation's list of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealStep {
    /// An operation begins.
    Begin(usize),
    /// A prepare arrives at this member of the operation, which votes yes.
    Prepare(usize, usize),
    /// A prepare arrives at this member of the operation, which votes no.
    Refuse(usize, usize),
    /// The decider or the coordinator decides.
    Decide(usize),
    /// The decision arrives at this member of the operation.
    Deliver(usize, usize),
    /// The operation's coordinator answers the client, which then sees the outcome.
    Answer(usize),
    /// A core learns of the next change.
    Learn(usize),
    /// A core applies the resolution of an operation.
    Resolve(usize, usize),
    /// A server is lost, or the coordinator assumes that it is. Its tables are sealed.
    Lose(usize),
    /// A table changes in a way that needs a seal.
    Change(u8),
    /// A table serves again.
    Serve(u8),
    /// A core restarts and forgets its last seal.
    ForgetSeal(usize),
}

packed_enums! {
    /// How far an operation has come at a member.
    SealStage {
        /// The member does not know the operation.
        Unknown,
        /// The operation is durably prepared, and the member has voted yes.
        Prepared,
        /// The member has voted no.
        Refused,
    }
}

packed_structs! {
    /// One member's part in an operation.
    SealPart {
        /// How far it has come.
        stage: SealStage,
        /// The outcome, durably.
        outcome: Outcome,
    }

    /// One operation. Its messages, once sent, may arrive at any time and more than once.
    OperationState {
        /// The number of the change in which it began; 0 before.
        begun: u8,
        /// Places that have ever voted yes, as a set.
        voted: u8,
        /// Whether a member has voted no.
        refused: bool,
        /// The decision, as its decider sends it.
        decision: Outcome,
        /// Whether a client or a reader may have seen the commit.
        seen_commit: bool,
        /// Whether the client may have received the answer that the operation aborted.
        seen_abort: bool,
        /// The members' parts, by index in the list of members.
        parts: [SealPart; CORES_MAX],
    }

    /// A state of the model.
    SealState {
        /// The changes of the configuration.
        changes: Changes,
        /// By operation.
        operations: [OperationState; OPERATIONS_MAX],
        /// Losses that may still happen.
        losses_left: u8,
        /// Seals without a loss that may still come.
        changes_left: u8,
        /// Restarts that forget something.
        forgets_left: u8,
    }
}

impl SealState {
    /// Returns the initial state: all cores know the first change.
    pub fn start(case: &SealCase) -> SealState {
        SealState {
            changes: Changes::first(case.cores.len()),
            losses_left: case.losses,
            changes_left: case.changes,
            forgets_left: 1,
            ..SealState::default()
        }
    }
}
