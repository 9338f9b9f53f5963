//! Numbers of questions and lists.

use protocol::identity::Incarnation;

/// Names what this core asks and lists. No other process of this core uses the same numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    last: u64,
}

impl Numbers {
    /// Returns those of one process of a core.
    pub fn of(incarnation: Incarnation) -> Numbers {
        Numbers {
            last: u64::from(incarnation.0) << 32,
        }
    }

    /// Returns the next one.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
