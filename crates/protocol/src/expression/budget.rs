//! Limits the work of one evaluation of an expression.

use super::ExpressionError;

/// The most steps of one evaluation. A `LIKE` over the longest text with a simple pattern needs
/// half of them. They take some ten milliseconds.
pub const STEPS_MAX: u32 = 1 << 22;

/// The remaining steps of [`STEPS_MAX`].
pub(super) struct Budget(u32);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(STEPS_MAX)
    }

    pub(super) fn spend(&mut self, steps: u32) -> Result<(), ExpressionError> {
        self.0 = self
            .0
            .checked_sub(steps)
            .ok_or(ExpressionError::TooCostly)?;
        Ok(())
    }
}
