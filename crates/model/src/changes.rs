//! The changes of the configuration in models of two tables: the epochs of the tables, the lost
//! servers, and how far each core has followed.
//!
//! Every change has a number, and a table's epoch is the number of the last change that concerned
//! it.

use crate::packing::{packed_enums, packed_structs};

/// An upper bound for the number of cores in a case.
pub const CORES_MAX: usize = 5;
/// The largest number of changes in a case, including the initial state.
const NUMBERS_MAX: usize = 10;

packed_enums! {
    /// The outcome of an operation, if it is known.
    Outcome {
        /// The outcome is not known.
        Undecided,
        /// The operation commits.
        Commit,
        /// The operation aborts.
        Abort,
    }
}

packed_structs! {
    /// The epochs that the coordinator of the cluster states in one change.
    TableEpochs {
        /// By table: the number of the last change that concerned it.
        epochs: [u8; 2],
        /// Tables whose operations are blocked, as a set.
        sealed: u8,
        /// Servers that were removed, as a set.
        removed: u8,
    }

    /// The changes so far, and the changes that each core knows.
    Changes {
        /// The number of the newest change.
        newest: u8,
        /// By number.
        all: [TableEpochs; NUMBERS_MAX],
        /// By table: servers that it has lost since it last served, as a set.
        lost: [u8; 2],
        /// Servers whose leases have ended, as a set.
        fenced: u8,
        /// By core: the newest change that it has adopted.
        numbers: [u8; CORES_MAX],
    }
}

/// Returns the tables, or the rows, of a set.
pub fn members(set: u8) -> impl Iterator<Item = usize> + Clone {
    (0..2).filter(move |index| set >> index & 1 != 0)
}

/// Returns a violation of I2 or I3: an outcome that was seen or decided is reversed, or members
/// disagree. Of an operation's outcomes, `seen` says whether a commit and an abort may have been
/// seen, and `known` whether a member knows a commit and an abort.
pub fn contradiction(name: &str, seen: (bool, bool), known: (bool, bool)) -> Option<String> {
    let ((seen_commit, seen_abort), (commit, abort)) = (seen, known);
    if seen_commit && (abort || seen_abort) {
        Some(format!("I2: {name} was seen committed, and is aborted"))
    } else if seen_abort && commit {
        Some(format!("I2: {name} was seen aborted, and is committed"))
    } else if commit && abort {
        Some(format!("I3: {name} is both committed and aborted"))
    } else {
        None
    }
}

impl Changes {
    /// Returns the first change, which all of these cores know.
    pub fn first(cores: usize) -> Changes {
        let mut changes = Changes {
            newest: 1,
            ..Changes::default()
        };
        changes.all[1].epochs = [1, 1];
        changes.numbers[..cores].fill(1);
        changes
    }

    /// Returns the change of a number.
    pub fn of(&self, number: u8) -> TableEpochs {
        self.all[usize::from(number)]
    }

    /// Returns the newest change that a core knows.
    pub fn view(&self, core: usize) -> TableEpochs {
        self.of(self.numbers[core])
    }

    /// Returns the newest change.
    pub fn current(&self) -> TableEpochs {
        self.of(self.newest)
    }

    /// Returns whether a core is removed, whether or not it still runs.
    pub fn is_removed(&self, core: usize) -> bool {
        (self.current().removed | self.fenced) >> core & 1 != 0
    }

    /// Adds a change of `tables`. Returns false if the model has no room for another one.
    pub fn add(&mut self, tables: u8, mut next: TableEpochs) -> bool {
        if usize::from(self.newest) + 1 == NUMBERS_MAX {
            return false;
        }
        self.newest += 1;
        for table in members(tables) {
            next.epochs[table] = self.newest;
        }
        self.all[usize::from(self.newest)] = next;
        true
    }

    /// Removes a server, and seals the tables that it holds.
    pub fn lose(&mut self, core: usize, holds: u8) -> bool {
        for table in members(holds) {
            self.lost[table] |= 1 << core;
        }
        let current = self.current();
        let next = TableEpochs {
            sealed: current.sealed | holds,
            removed: current.removed | 1 << core,
            ..current
        };
        self.add(holds, next)
    }

    /// Lets a table serve again. The leases of removed servers have ended then, unless the other
    /// table still waits for its lost ones.
    pub fn serve(&mut self, table: u8) -> bool {
        for table in members(table) {
            self.lost[table] = 0;
        }
        let current = self.current();
        let waiting = self.lost[0] | self.lost[1];
        self.fenced |= current.removed & !waiting;
        let sealed = current.sealed & !table;
        self.add(table, TableEpochs { sealed, ..current })
    }
}
