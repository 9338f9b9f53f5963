//! The constraints of a table that its primaries test on each row that a change leaves.
//!
//! Constraints that compare rows with each other belong to indexes ([`crate::Constraint`]).

use alloc::string::String;
use alloc::vec::Vec;

use crate::expression::Expression;

/// The most CHECK constraints of a table.
pub const CHECKS_MAX: usize = 100;

/// The constraints of a table, beside those of its columns and indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableConstraints {
    /// The CHECK constraints, by name, ascending. A row is tested in this order.
    pub checks: Vec<CheckConstraint>,
}

/// A condition that every row must satisfy. A row for which it is NULL satisfies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConstraint {
    /// The name, unique among the constraints of the table.
    pub name: String,
    /// The condition, over the columns of the table.
    pub condition: Expression,
}
