//! The constraints of a table beside those of its columns and indexes: conditions on each row, and
//! references to rows of other tables.
//!
//! Constraints that compare rows of one table with each other belong to indexes
//! ([`crate::Constraint`]).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::expression::Expression;

/// The most CHECK constraints of a table.
pub const CHECKS_MAX: usize = 100;
/// The most foreign keys of a table.
pub const FOREIGN_KEYS_MAX: usize = 32;
/// The most tables with a foreign key to one table.
pub const REFERENCED_BY_MAX: usize = 100;

/// The constraints of a table, beside those of its columns and indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableConstraints {
    /// The CHECK constraints, by name, ascending. A row is tested in this order.
    pub checks: Vec<CheckConstraint>,
    /// The foreign keys, in the order of their definitions.
    pub foreign_keys: Vec<ForeignKey>,
    /// The names of the tables with a foreign key to this table, ascending. The coordinator keeps
    /// them. A table can refer to itself.
    pub referenced_by: Vec<String>,
}

impl TableConstraints {
    /// Returns whether rows of the table refer to rows, or rows refer to them.
    pub fn has_references(&self) -> bool {
        !self.foreign_keys.is_empty() || !self.referenced_by.is_empty()
    }
}

/// Returns how PostgreSQL reports a row that would violate a CHECK constraint of a table.
pub fn check_violation_text(table: &str, constraint: &str) -> String {
    format!("new row for relation \"{table}\" violates check constraint \"{constraint}\"")
}

/// A condition that every row must satisfy. A row for which it is NULL satisfies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConstraint {
    /// The name, unique among the constraints of the table.
    pub name: String,
    /// The condition, over the columns of the table.
    pub condition: Expression,
    /// Whether all rows of the table are known to satisfy it. New rows must satisfy it in any case.
    pub is_valid: bool,
}

/// A reference to the primary key of a row of a table, the *parent*. If one of the columns is NULL,
/// the row refers to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The name, unique among the constraints of the table.
    pub name: String,
    /// The columns that refer, in the order of the parent's primary key.
    pub columns: Vec<usize>,
    /// The name of the parent.
    pub parent: String,
    /// The effect of the deletion of the parent's row.
    pub on_delete: ReferentialAction,
    /// The effect of a change of the key of the parent's row. A primary key never changes, so that
    /// this is only shown.
    pub on_update: ReferentialAction,
    /// When a transaction of several statements checks it.
    pub deferral: Deferral,
    /// Whether all rows are known to satisfy it. If not, it binds new rows only, and new values of
    /// its columns.
    pub is_valid: bool,
}

impl ForeignKey {
    /// Returns whether an action of the foreign key sets its columns, which no generated column
    /// allows.
    pub fn sets_columns(&self) -> bool {
        let sets_on_update = matches!(
            self.on_update,
            ReferentialAction::Cascade | ReferentialAction::SetNull
        );
        sets_on_update || self.on_delete == ReferentialAction::SetNull
    }
}

/// When a transaction of several statements checks a constraint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// After each statement.
    #[default]
    NotDeferrable,
    /// After each statement, unless the transaction asks for something else.
    InitiallyImmediate,
    /// At the commit.
    InitiallyDeferred,
}

impl Deferral {
    /// Returns the property as SQL writes it, with a space in front; empty if it is the usual one.
    pub fn clause(self) -> &'static str {
        match self {
            Deferral::NotDeferrable => "",
            Deferral::InitiallyImmediate => " DEFERRABLE",
            Deferral::InitiallyDeferred => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}

/// The effect on the rows that refer to a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReferentialAction {
    /// The change is refused if rows refer to the row after the statement.
    #[default]
    NoAction,
    /// The change is refused if rows refer to the row.
    Restrict,
    /// They are changed in the same way.
    Cascade,
    /// Their columns that refer become NULL.
    SetNull,
}

impl ReferentialAction {
    /// Returns the action as SQL writes it.
    pub fn name(self) -> &'static str {
        match self {
            ReferentialAction::NoAction => "NO ACTION",
            ReferentialAction::Restrict => "RESTRICT",
            ReferentialAction::Cascade => "CASCADE",
            ReferentialAction::SetNull => "SET NULL",
        }
    }
}
