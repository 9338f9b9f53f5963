//! One state: the row at the head and at the copy, the operations in progress, and the partitions
//! of the index.

use super::case::FillCase;
use crate::packing::{packed_enums, packed_structs};

/// The head, as a member of operations.
pub const HEAD: usize = 2;
/// The copy that is read, as a member of operations.
pub const COPY: usize = 3;
/// The first partition of the index, also as a member of operations.
pub const FIRST: usize = 0;
/// The second partition.
pub const SECOND: usize = 1;
/// Both partitions.
pub const PARTITIONS: [usize; 2] = [FIRST, SECOND];
/// The key that a split gives to the second partition.
pub const HIGH: u8 = 1;

/// One step of the model. Operations are numbered by their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillStep {
    /// An operation begins that puts the row here, or removes it.
    Begin(Option<Place>),
    /// All members of an operation have prepared it.
    Commit(usize),
    /// The end of an epoch aborts an operation.
    Abort(usize),
    /// A member applies the outcome of an operation.
    Settle(usize, usize),
    /// The copy answers the question of a partition for its next page.
    ReadPage(usize),
    /// A page arrives at a partition.
    TakePage(usize, usize),
    /// A partition that has all pages serves.
    Serve(usize),
    /// The coordinator begins to split the range.
    BeginSplit,
    /// The giver sends its entry and its count of changes.
    Send,
    /// They arrive at the taker.
    Receive,
    /// The coordinator seals the table, because the taker lacks no more than the last changes.
    Seal,
    /// An epoch begins in which the taker has the range.
    HandOver,
    /// The taker has the last changes.
    BecomeWhole,
    /// The giver removes the entries that it has given.
    Sweep,
    /// A partition restarts.
    Restart(usize),
    /// A partition is lost.
    Lose(usize),
    /// An epoch begins in which other servers have the lost partitions.
    Replace,
}

packed_enums! {
    /// The condition of a partition.
    PartitionStage {
        /// It has no range.
        Empty,
        /// It is being filled from the copy.
        Filling,
        /// It gets the entries of a range that another partition still has.
        Following,
        /// It has the range, but not yet the last changes.
        Taking,
        /// It serves.
        Serving,
        /// Its server is lost.
        Lost,
    }

    /// How far an operation is.
    OperationStage {
        /// The slot is free.
        Free,
        /// It is in progress.
        Begun,
        /// It commits.
        Committed,
    }
}

packed_structs! {
    /// Where a row is.
    Place {
        /// The page of the copy that has it.
        page: u8,
        /// Its key in the index.
        key: u8,
    }

    /// A row, as one member has it.
    RowState {
        /// Its place; none if there is no row.
        place: Option<Place>,
        /// The version of its last change.
        version: u8,
    }

    /// An operation in progress.
    FillOperation {
        /// How far it is.
        stage: OperationStage,
        /// The row before.
        old: RowState,
        /// The row after.
        new: RowState,
        /// Its members, as a set.
        members: u8,
        /// The members that have applied the outcome, as a set.
        settled: u8,
    }

    /// The giver's message to the taker.
    RangeMessage {
        /// The version of the giver's entry; 0 is none.
        entry: u8,
        /// The giver's count of changes.
        count: u8,
    }

    /// A partition of the index.
    PartitionState {
        /// Its condition.
        stage: PartitionStage,
        /// By key, the version of the entry; 0 is none.
        entries: [u8; 2],
        /// By key, the version with which an entry left while the partition was being filled.
        left: [u8; 2],
        /// The pages that it has.
        pages_taken: u8,
        /// Pages that may arrive, by number: the row, if the page has it.
        pages: [Option<RowState>; 2],
    }

    /// A state of the model.
    FillState {
        /// The row at the head and at the copy.
        rows: [RowState; 2],
        /// The operations in progress.
        operations: [FillOperation; 2],
        /// The partitions.
        partitions: [PartitionState; 2],
        /// Whether the second partition has the high key.
        is_split: bool,
        /// Whether no operation begins.
        is_sealed: bool,
        /// The giver's count of changes of the high key.
        changes: u8,
        /// The count up to which the taker has them; none before it has compared.
        taken_up_to: Option<u8>,
        /// The giver's last message.
        sent: Option<RangeMessage>,
        /// The version of the last operation.
        version: u8,
        /// Operations that may still begin.
        operations_left: u8,
        /// Restarts that may still happen.
        restarts_left: u8,
        /// Losses that may still happen.
        losses_left: u8,
    }
}

impl PartitionState {
    /// Returns a partition without entries.
    pub fn at(stage: PartitionStage) -> PartitionState {
        PartitionState {
            stage,
            ..PartitionState::default()
        }
    }
}

impl FillState {
    /// Returns the initial state: a row with the high key, in the second page.
    pub fn start(case: &FillCase) -> FillState {
        let row = RowState {
            place: Some(Place { page: 1, key: HIGH }),
            version: 1,
        };
        let mut state = FillState {
            rows: [row; 2],
            version: 1,
            operations_left: case.operations,
            restarts_left: case.restarts,
            losses_left: case.losses,
            ..FillState::default()
        };
        let first = &mut state.partitions[FIRST];
        match case.is_made {
            true => first.stage = PartitionStage::Filling,
            false => {
                first.stage = PartitionStage::Serving;
                first.entries[usize::from(HIGH)] = 1;
            }
        }
        state
    }

    /// Returns the partition that has a key.
    pub fn owner(&self, key: u8) -> usize {
        match self.is_split && key == HIGH {
            true => SECOND,
            false => FIRST,
        }
    }

    /// Returns the row at the head or at the copy.
    pub fn row(&self, member: usize) -> RowState {
        self.rows[member - HEAD]
    }

    /// Returns whether the taker has counted as many changes as the giver.
    pub fn is_level(&self) -> bool {
        self.taken_up_to == Some(self.changes)
    }

    /// Drops the taker's progress, and the message that is on its way to it.
    pub fn forget_transfer(&mut self) {
        self.taken_up_to = None;
        self.sent = None;
    }

    /// Returns whether no operation is in progress.
    pub fn is_at_rest(&self) -> bool {
        let mut operations = self.operations.iter();
        operations.all(|it| it.stage == OperationStage::Free)
    }
}
