//! Assigns numbers to the questions of fills and moves, and to the lists of changed keys.

use protocol::identity::Incarnation;

/// Assigns the numbers of questions and lists. No other process of this core uses the same numbers.
#[derive(Debug)]
pub(crate) struct QuestionNumbers {
    last: u64,
}

impl QuestionNumbers {
    /// Returns the numbers for one process of a core.
    pub fn of(incarnation: Incarnation) -> QuestionNumbers {
        QuestionNumbers {
            last: u64::from(incarnation.0) << 32,
        }
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
