//! Limits the work of one evaluation of an expression.

use placement::ValueRef;

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

    /// Counts an operation of these values, if one is a number of many digits. Its work grows like
    /// that of a multiplication by hand.
    pub(super) fn spend_for_digits(
        &mut self,
        values: &[ValueRef<'_>],
    ) -> Result<(), ExpressionError> {
        /// So many products of two bytes are a step.
        const PRODUCTS: usize = 8192;
        let size = |value: &ValueRef<'_>| match value {
            ValueRef::Numeric(value) => value.size(),
            ValueRef::Text(text) => text.len() / 2,
            _ => 0,
        };
        let has_numeric = values.iter().any(|it| matches!(it, ValueRef::Numeric(_)));
        let is_cast = matches!(values, [_]);
        if !has_numeric && !is_cast {
            return Ok(());
        }
        let size: usize = values.iter().map(size).sum();
        let products = size.saturating_mul(size) / PRODUCTS;
        self.spend(u32::try_from(products).unwrap_or(u32::MAX))
    }
}
