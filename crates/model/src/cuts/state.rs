//! One state: the cores with their clocks, the operations in progress, the openings, and the
//! results of reads.

use super::case::{CORES_MAX, CutCase, OPENINGS_MAX, OPERATIONS_MAX, PLACES_MAX};
use crate::packing::{packed_enums, packed_structs};

/// The highest version that occurs.
pub const VERSION_MAX: u8 = 30;

/// One step of the model. Cores, operations, members of a chain and openings are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutStep {
    /// The head begins an operation. Contains the distance of its version from the next version.
    Begin(usize, u8),
    /// A prepare arrives at the core at this index in the chain.
    Prepare(usize, usize),
    /// A decision arrives at the core at this index in the chain.
    Decide(usize, usize),
    /// The head sends an operation again.
    Resend(usize),
    /// An opening begins, for the statements that wait.
    Open(usize),
    /// A statement joins an opening whose version is chosen, as only a planted bug allows.
    Join(usize),
    /// The `Hold` of an opening arrives at a core.
    Hold(usize, usize),
    /// A core's hold expires.
    Expire(usize),
    /// The opener chooses the version.
    Close(usize),
    /// The `Close` of an opening arrives at a core, and its acknowledgement at the opener.
    Release(usize, usize),
    /// A core's history is full, or the lease of its snapshots is over.
    Trim(usize),
    /// A core crashes and restarts; it may have lost what was not durable.
    Restart(usize, bool),
    /// A restarted core has back what it may have forgotten.
    Recover(usize),
    /// A core learns of the next epoch.
    Learn(usize),
    /// A server is removed.
    Lose(usize),
    /// The epoch's operations are resolved, and it serves.
    Serve,
}

packed_enums! {
    /// How far an operation has come at a core.
    CutStage {
        /// The core does not know the operation.
        Unknown,
        /// The operation is prepared.
        Prepared,
        /// The operation is settled: the row has changed.
        Applied,
    }
}

packed_structs! {
    /// One operation.
    CutOperationState {
        /// The version that the head assigned; 0 before the operation begins.
        version: u8,
        /// The operations that were acknowledged when this one began, as a set.
        after: u8,
        /// Whether its client was answered.
        acknowledged: bool,
        /// The epochs in which a prepare was sent, as a set, by the receiver's index in the chain.
        sent: [u8; PLACES_MAX],
        /// The stage at each core, by index in the chain.
        stages: [CutStage; PLACES_MAX],
    }

    /// One core.
    CutCore {
        /// The highest version given or seen, unless the wall clock is higher.
        clock: u8,
        /// The epoch that it has taken up.
        epoch: u8,
        /// It has restarted, and has not heard from its peers what it may have forgotten.
        recovering: bool,
        /// The opening for which it holds, plus one.
        hold: u8,
        /// A second one, as only a planted bug has it.
        second_hold: u8,
        /// It has answered that hold.
        answered: bool,
        /// Openings whose hold it has seen in this life, as a set.
        seen: u8,
        /// Openings at whose version it answers reads, as a set.
        known: u8,
        /// Operations whose rows were overwritten and are kept as history, as a set; the row
        /// before the first operation is the one behind the last.
        history: u8,
        /// History was trimmed although it is needed.
        trimmed: bool,
    }

    /// One opening, at its opener.
    CutOpening {
        /// It has begun.
        begun: bool,
        /// The epoch in which it began.
        epoch: u8,
        /// Cores that have answered, as a set.
        answered: u8,
        /// The highest clock of the answers.
        highest: u8,
        /// The version; 0 before it is chosen.
        version: u8,
        /// Cores that have closed, as a set.
        closed: u8,
        /// A core did not hold any more: nothing is ever read at the version.
        void: bool,
        /// The statements have the version.
        given: bool,
        /// Operations that were acknowledged when the last of its statements began, as a set.
        must: u8,
        /// By row: the operation that was read, plus two; 1 for the row before all operations.
        read: [u8; 2],
    }

    /// A state of the model.
    CutState {
        /// The newest epoch.
        epoch: u8,
        /// The newest epoch does not serve yet.
        sealed: bool,
        /// Servers that were removed, as a set.
        removed: u8,
        /// Servers whose leases have ended, as a set.
        fenced: u8,
        /// Two reads at one version differed, or one had no complete history.
        torn: bool,
        /// By core.
        cores: [CutCore; CORES_MAX],
        /// By operation.
        operations: [CutOperationState; OPERATIONS_MAX],
        /// By opening.
        openings: [CutOpening; OPENINGS_MAX],
        /// Restarts that may still happen.
        restarts_left: u8,
        /// Losses that may still happen.
        losses_left: u8,
        /// Jumps that may still happen.
        jumps_left: u8,
        /// Times that a history may still be trimmed.
        trims_left: u8,
    }
}

impl CutState {
    /// Returns the initial state: no operation has begun, and the clocks differ.
    pub fn start(case: &CutCase) -> CutState {
        let mut state = CutState {
            restarts_left: case.restarts,
            losses_left: case.losses,
            jumps_left: case.jumps,
            trims_left: case.trims,
            ..CutState::default()
        };
        for (core, clock) in state.cores.iter_mut().zip(case.clocks) {
            core.clock = *clock;
        }
        state
    }
}
