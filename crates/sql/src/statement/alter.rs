//! Changes of tables in use, as the parser returns them.

use placement::ColumnType;
use sqlparser::ast::{ColumnDef, Expr};

use crate::statement::{CreateIndex, Reference};

/// `ALTER TABLE`: changes of a table that take effect together.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table; none if it is the only one with the index that is renamed.
    pub table: Option<String>,
    /// Whether the table, or the index that is renamed, need not exist.
    pub if_exists: bool,
    /// The changes, in order.
    pub actions: Vec<AlterAction>,
}

impl AlterTable {
    /// Returns whether the statement is `ALTER INDEX … RENAME`.
    pub fn renames_index(&self) -> bool {
        matches!(self.actions[..], [AlterAction::RenameIndex { .. }])
    }
}

/// One change of a table.
#[allow(
    clippy::large_enum_variant,
    reason = "a statement is made once, by a person or a script; boxes would only be in the way"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum AlterAction {
    /// `RENAME TO name`.
    Rename(String),
    /// `RENAME COLUMN column TO name`.
    RenameColumn {
        /// The column.
        column: String,
        /// The new name.
        name: String,
    },
    /// `RENAME CONSTRAINT constraint TO name`.
    RenameConstraint {
        /// The constraint.
        constraint: String,
        /// The new name.
        name: String,
    },
    /// `ALTER INDEX index RENAME TO name`.
    RenameIndex {
        /// The index.
        index: String,
        /// The new name.
        name: String,
    },
    /// `ALTER COLUMN column SET DEFAULT value`, or `DROP DEFAULT`.
    SetDefault {
        /// The column.
        column: String,
        /// The default; none for `DROP DEFAULT`.
        default: Option<Expr>,
    },
    /// `ALTER COLUMN column SET NOT NULL`, or `DROP NOT NULL`.
    SetNullable {
        /// The column.
        column: String,
        /// Whether it allows NULL afterwards.
        nullable: bool,
    },
    /// `ADD COLUMN definition`.
    AddColumn {
        /// The column.
        definition: ColumnDef,
        /// Whether a column of the same name is left as it is.
        if_not_exists: bool,
    },
    /// `ADD CHECK (condition)`.
    AddCheck(NewCheck),
    /// `ADD UNIQUE (columns)`.
    AddUnique(CreateIndex),
    /// `ADD FOREIGN KEY (columns) REFERENCES parent`.
    AddReference {
        /// The foreign key.
        reference: Reference,
        /// Whether existing rows must satisfy it.
        validates: bool,
    },
    /// `DROP COLUMN column`.
    DropColumn {
        /// The column.
        column: String,
        /// Whether it need not exist.
        if_exists: bool,
        /// Whether the generated columns that are computed from it go, too.
        cascade: bool,
    },
    /// `ALTER COLUMN column TYPE type`.
    SetType {
        /// The column.
        column: String,
        /// The type.
        column_type: ColumnType,
    },
    /// `DROP CONSTRAINT constraint`.
    DropConstraint {
        /// The constraint.
        constraint: String,
        /// Whether it need not exist.
        if_exists: bool,
    },
    /// `VALIDATE CONSTRAINT constraint`.
    Validate(String),
}

/// A CHECK constraint to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCheck {
    /// The name; none for the one that PostgreSQL would make.
    pub name: Option<String>,
    /// The condition.
    pub condition: Expr,
    /// Whether existing rows must satisfy it.
    pub validates: bool,
}

/// `TRUNCATE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// The tables' names.
    pub tables: Vec<String>,
    /// Whether the tables that refer to them are emptied, too.
    pub cascade: bool,
    /// Whether the sequences that belong to their columns begin again.
    pub restarts: bool,
}
