//! The cases of the model of fills: how the partitions begin, and the events that may happen.

/// One small cluster.
#[derive(Clone, Copy, Debug)]
pub struct FillCase {
    /// The name on the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: &'static str,
    /// Whether the index is being made at the beginning. Otherwise its first partition serves.
    pub is_made: bool,
    /// Whether the high key may go to the second partition.
    pub splits: bool,
    /// The number of operations on the row.
    pub operations: u8,
    /// The number of restarts of partitions that may happen.
    pub restarts: u8,
    /// The number of partitions that may be lost.
    pub losses: u8,
}

/// Returns every case, from small to large.
pub fn cases() -> Vec<FillCase> {
    let made = FillCase {
        name: "fills",
        about: "fills; an index is made while its row changes",
        is_made: true,
        splits: false,
        operations: 3,
        restarts: 0,
        losses: 0,
    };
    let split = FillCase {
        name: "splits",
        about: "fills; a range is split while the row changes",
        is_made: false,
        splits: true,
        ..made
    };
    vec![
        made,
        FillCase {
            name: "fills-restart",
            about: "fills; an index is made, and its partition restarts",
            restarts: 1,
            ..made
        },
        FillCase {
            name: "fills-lost",
            about: "fills; an index is made, and its partition is lost",
            losses: 1,
            ..made
        },
        split,
        FillCase {
            name: "splits-restart",
            about: "fills; a range is split, and a partition restarts",
            restarts: 1,
            ..split
        },
        FillCase {
            name: "splits-lost",
            about: "fills; a range is split, and a partition is lost",
            losses: 1,
            ..split
        },
        FillCase {
            name: "splits-far",
            about: "fills; an index is made and split, and partitions restart and are lost",
            is_made: true,
            restarts: 1,
            losses: 2,
            ..split
        },
    ]
}

/// Returns the case of this name.
pub fn named(name: &str) -> Option<FillCase> {
    cases().into_iter().find(|case| case.name == name)
}
