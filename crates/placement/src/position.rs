//! The position of a record in the log of a core.

use core::fmt;

/// The number of a record in a core's log, from 1; 0 is before every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The position before every record.
    pub const ZERO: Position = Position(0);

    /// Returns the position after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0.checked_add(1).expect("2^64 records take millennia"))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
