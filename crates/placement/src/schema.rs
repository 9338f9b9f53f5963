//! What a table is: columns, primary key, indexes, and the safety that its user asks for.
//!
//! A schema says what is wanted; `grid` says which replexes that takes, `assignment` where they
//! go. Nothing here knows how SQL spells any of it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::further::FurtherCopy;
use crate::value::{ColumnType, Value};

/// The most columns of a table.
pub const COLUMNS_MAX: usize = 1600;
/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = 63;
/// The most replexes of a table: a chain has one position for each.
pub const REPLEXES_MAX: usize = 63;
/// The most partitions of a replex.
pub const PARTITIONS_MAX: u32 = 4096;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Unique within the table.
    pub name: String,
    /// Type of its values.
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// What a row holds that was written without the column; NULL if there is none.
    pub default: Option<Value>,
}

/// What an index demands of the rows, so that its replex can vote no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// No two rows have the same key, unless a part of it is NULL.
    Unique,
    /// The last column counts 1, 2, 3, … within the group that the columns before it name: a
    /// value is valid only when all smaller ones exist (Replex section 2.3).
    Dense,
}

/// A sorting key by which rows can be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Unique within the table, and not the table's own.
    pub name: String,
    /// Sorting key, as indexes into the table's columns.
    pub columns: Vec<usize>,
    /// What it demands of the rows, if anything.
    pub constraint: Option<Constraint>,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable on every copy.
    Sync,
    /// When every copy has it in memory; disks follow within a stated interval.
    Replicated,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The table's name.
    pub name: String,
    /// In the order in which rows hold them; new ones go to the end.
    pub columns: Vec<Column>,
    /// Sorting key of the primary replex, as indexes into `columns`.
    pub primary_key: Vec<usize>,
    /// The secondary indexes.
    pub indexes: Vec<Index>,
    /// Copies beside those of the primary key and the indexes.
    pub further: Vec<FurtherCopy>,
    /// Partitions per replex.
    pub partitions: u32,
    /// f: how many failure domains may be lost without losing a row.
    pub failures_tolerated: u8,
    /// Whether partitions keep thin local entries in the orders of other replexes, so that reads
    /// instead of a lost partition are lookups and not scans.
    pub local_entries: bool,
    /// When a write is acknowledged.
    pub durability: Durability,
}

/// What is wrong with a schema, and what to do. The user changes the statement and tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// For people: what is wrong, with what, and the remedy.
    pub message: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for SchemaError {}

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::schema::SchemaError { message: alloc::format!($($message)+) });
        }
    };
}
pub(crate) use ensure;

impl Schema {
    /// Checks everything that can be known before servers are; every table passes through this.
    pub fn validate(&self) -> Result<(), SchemaError> {
        check_name("table", &self.name)?;
        self.check_columns()?;
        self.check_primary_key()?;
        self.check_indexes()?;
        ensure!(
            (1..=PARTITIONS_MAX).contains(&self.partitions),
            "table {} has {} partitions: choose 1 to {PARTITIONS_MAX}",
            self.name,
            self.partitions
        );
        self.check_further()
    }

    /// The index of the column with this name.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn check_columns(&self) -> Result<(), SchemaError> {
        let table = &self.name;
        ensure!(
            !self.columns.is_empty(),
            "table {table} has no columns: give it at least one"
        );
        ensure!(
            self.columns.len() <= COLUMNS_MAX,
            "table {table} has {} columns, the limit is {COLUMNS_MAX}: split the table",
            self.columns.len()
        );
        for (index, column) in self.columns.iter().enumerate() {
            let name = &column.name;
            check_name("column", name)?;
            ensure!(
                self.column_index(name) == Some(index),
                "table {table} has two columns named {name}: rename one"
            );
            let Some(default) = &column.default else {
                continue;
            };
            match default.column_type() {
                None => ensure!(
                    column.nullable,
                    "column {name} of table {table} is NOT NULL but its default is NULL: give another default or allow NULL"
                ),
                Some(found) => ensure!(
                    found == column.column_type,
                    "column {name} of table {table} is of type {}, its default of type {}: convert the default",
                    column.column_type.name(),
                    found.name()
                ),
            }
        }
        Ok(())
    }

    fn check_primary_key(&self) -> Result<(), SchemaError> {
        let table = &self.name;
        ensure!(
            !self.primary_key.is_empty(),
            "table {table} has no primary key: add PRIMARY KEY (column, …)"
        );
        self.check_key("the primary key", &self.primary_key)?;
        for column in &self.primary_key {
            let column = &self.columns[*column];
            ensure!(
                !column.nullable,
                "column {} of table {table} is in the primary key but may be NULL: declare it NOT NULL",
                column.name
            );
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), SchemaError> {
        let table = &self.name;
        for (position, index) in self.indexes.iter().enumerate() {
            let name = &index.name;
            check_name("index", name)?;
            ensure!(
                name != table
                    && self.indexes[..position]
                        .iter()
                        .all(|other| other.name != *name),
                "the name {name} is taken within table {table}: rename the index"
            );
            ensure!(
                !index.columns.is_empty(),
                "index {name} of table {table} has no columns: name at least one"
            );
            self.check_key(&format!("index {name}"), &index.columns)?;
            if index.constraint != Some(Constraint::Dense) {
                continue;
            }
            let last = &self.columns[index.columns[index.columns.len() - 1]];
            ensure!(
                last.column_type == ColumnType::Int64 && !last.nullable,
                "index {name} of table {table} is dense, so its last column {} must count: declare it BIGINT NOT NULL",
                last.name
            );
        }
        Ok(())
    }

    pub(crate) fn check_key(&self, what: &str, columns: &[usize]) -> Result<(), SchemaError> {
        let table = &self.name;
        for (position, column) in columns.iter().enumerate() {
            ensure!(
                *column < self.columns.len(),
                "{what} of table {table} names column number {column}, the table has {}: name a column of the table",
                self.columns.len()
            );
            ensure!(
                !columns[..position].contains(column),
                "{what} of table {table} names column {} twice: name it once",
                self.columns[*column].name
            );
        }
        Ok(())
    }
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<(), SchemaError> {
    let mut characters = name.chars();
    let starts_well = characters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let goes_on_well = characters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    ensure!(
        starts_well && goes_on_well,
        "{what} name {name:?} is not a name: use letters, digits and _, and no digit first"
    );
    ensure!(
        name.len() <= NAME_BYTES_MAX,
        "{what} name {name} has {} bytes, the limit is {NAME_BYTES_MAX}: shorten it",
        name.len()
    );
    Ok(())
}
