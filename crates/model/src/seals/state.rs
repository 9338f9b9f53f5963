//! One state: the changes so far, the changes that each core knows, and each core's state of each
//! operation.

use super::case::{CORES_MAX, OPERATIONS_MAX, SealCase};
use crate::packing::{packed_enums, packed_structs};

/// The largest number of changes in a case, including the initial state.
pub const NUMBERS_MAX: usize = 10;

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

    /// The outcome of an operation, if it is known.
    SealOutcome {
        /// The outcome is not known.
        Undecided,
        /// The operation commits.
        Commit,
        /// The operation aborts.
        Abort,
    }
}

packed_structs! {
    /// The epochs that the coordinator states in one change.
    TableEpochs {
        /// By table: the number of the last change that concerned it.
        epochs: [u8; 2],
        /// Tables whose chains are blocked, as a set.
        sealed: u8,
        /// Servers that were removed, as a set.
        removed: u8,
    }

    /// One member's part in an operation.
    SealPart {
        /// How far it has come.
        stage: SealStage,
        /// The outcome, durably.
        outcome: SealOutcome,
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
        decision: SealOutcome,
        /// Whether a client or a reader may have seen the commit.
        seen_commit: bool,
        /// Whether the client may have received the answer that the operation aborted.
        seen_abort: bool,
        /// The members' parts, by index in the list of members.
        parts: [SealPart; CORES_MAX],
    }

    /// A state of the model.
    SealState {
        /// The number of the newest change.
        newest: u8,
        /// By number.
        changes: [TableEpochs; NUMBERS_MAX],
        /// By table: servers that it has lost since it last served, as a set.
        lost: [u8; 2],
        /// Servers whose leases have ended, as a set.
        fenced: u8,
        /// By core: the newest change that it has taken up.
        numbers: [u8; CORES_MAX],
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
        let mut state = SealState {
            newest: 1,
            losses_left: case.losses,
            changes_left: case.changes,
            forgets_left: 1,
            ..SealState::default()
        };
        state.changes[1].epochs = [1, 1];
        for number in &mut state.numbers[..case.cores.len()] {
            *number = 1;
        }
        state
    }

    /// Returns the newest change that a core knows.
    pub fn view(&self, core: usize) -> TableEpochs {
        self.changes[usize::from(self.numbers[core])]
    }

    /// Returns the newest change.
    pub fn current(&self) -> TableEpochs {
        self.changes[usize::from(self.newest)]
    }

    /// Adds a change of `tables`. Returns false if the case permits no further change.
    pub fn change(&mut self, tables: u8, mut next: TableEpochs) -> bool {
        if usize::from(self.newest) + 1 == NUMBERS_MAX {
            return false;
        }
        self.newest += 1;
        for table in (0..2).filter(|table| tables >> table & 1 != 0) {
            next.epochs[table] = self.newest;
        }
        self.changes[usize::from(self.newest)] = next;
        true
    }
}
