//! The definition of a table: columns, primary key, indexes, and the failures that it must
//! tolerate.
//!
//! A schema describes the requested table. `copies` computes its replexes, `assignment` places
//! them, and `validation` refuses invalid schemas. This module knows no syntax of SQL.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::constraints::{ForeignKey, TableConstraints};
use crate::expression::Expression;
use crate::further::FurtherCopy;
use crate::key::{KeyError, decode_key};
use crate::sequence::{Sequence, SequenceDefault};
use crate::sort::SortColumn;
use crate::value::{ColumnType, Value};

/// The most columns of a table.
pub const COLUMNS_MAX: usize = 1600;
/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = 63;
/// The most replexes of a table. A chain has one position for each.
pub const REPLEXES_MAX: usize = 63;
/// The most thin indexes of a table, all copies counted. An operation can have two side members for
/// each, and a set of side members has 64 bits.
pub const THIN_MAX: usize = 31;
/// The most partitions of a replex.
pub const PARTITIONS_MAX: u32 = 4096;

/// The name of the key of a table whose definition has no primary key: a random UUID. Statements
/// have this column only where they name it.
pub const HIDDEN_KEY: &str = "__row_id";

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name, unique within the table.
    pub name: String,
    /// The type of the column's values.
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The value of new rows whose statement does not set the column; none is NULL.
    pub default: Option<ColumnDefault>,
    /// The value in rows that were written before the table had the column; none is NULL. It never
    /// changes, whatever becomes of the default.
    pub missing: Option<Value>,
}

/// The first part of the names of dropped columns.
const DROPPED: &str = "........pg.dropped.";

impl Column {
    /// Returns whether no statement means the column: it was dropped, or it is the key of a table
    /// without a primary key.
    pub fn is_hidden(&self) -> bool {
        self.name == HIDDEN_KEY || self.is_dropped()
    }

    /// Returns whether the column was dropped. It is still there because columns keep their
    /// numbers.
    pub fn is_dropped(&self) -> bool {
        is_dropped_name(&self.name)
    }

    /// Returns the expression of a generated column; none of another column.
    pub fn generation(&self) -> Option<&Expression> {
        match &self.default {
            Some(ColumnDefault::Generated(expression)) => Some(expression),
            _ => None,
        }
    }

    /// Returns the name of a dropped column, which is PostgreSQL's.
    pub(crate) fn dropped_name(position: usize) -> String {
        alloc::format!("{DROPPED}{}........", position + 1)
    }
}

/// Returns whether a name is one of dropped columns, so that no other column can have it.
pub fn is_dropped_name(name: &str) -> bool {
    name.starts_with(DROPPED)
}

/// The value of a column that a statement does not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnDefault {
    /// The same value for every row.
    Constant(Value),
    /// A value that the client computes.
    Computed(ComputedDefault),
    /// A value that the client draws from a sequence.
    Sequence(SequenceDefault),
    /// The value of an expression over the other columns of the row. The primaries compute it for
    /// each row that a change leaves, whatever value the change has for the column.
    Generated(Expression),
}

/// The values that a client computes for new rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputedDefault {
    /// The time at which the statement began.
    Now,
    /// The day on which the statement began, in UTC.
    Today,
    /// A random UUID of version 4, another one for each row.
    RandomUuid,
}

impl ComputedDefault {
    /// Returns whether a column of this type can have the value.
    pub fn fits(self, column: ColumnType) -> bool {
        match self {
            ComputedDefault::Now => column.is_time() || matches!(column, ColumnType::Time(_)),
            ComputedDefault::Today => column.is_time(),
            ComputedDefault::RandomUuid => column == ColumnType::Uuid,
        }
    }

    /// Returns the expression in SQL.
    pub fn text(self) -> &'static str {
        match self {
            ComputedDefault::Now => "now()",
            ComputedDefault::Today => "CURRENT_DATE",
            ComputedDefault::RandomUuid => "gen_random_uuid()",
        }
    }
}

/// A condition of an index on the rows. Because of it, the index's replex can vote no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// No two rows have the same key, except keys with NULL.
    Unique,
    /// The last column counts 1, 2, 3, … within each group of equal values in the columns before
    /// it. A value is valid only if all smaller ones exist (Replex section 2.3).
    Dense,
}

/// A sorting key by which rows can be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The name, unique within the table and different from the table's.
    pub name: String,
    /// The sorting key, as indexes into the table's columns.
    pub columns: Vec<usize>,
    /// The condition that the index imposes on the rows, if any.
    pub constraint: Option<Constraint>,
    /// How many of the first columns determine the partition. None is all of them; for a dense
    /// index, all but the last. Rows with equal values in these columns are in one partition, in
    /// order.
    pub partition_columns: Option<u8>,
    /// Whether partitions are ranges of the order, which split and merge. Otherwise there are as
    /// many as the table has, and a hash determines the partition.
    pub by_range: bool,
}

/// An index with entries instead of a copy of the table. An entry has the key, the primary key and
/// the included columns of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinIndex {
    /// The name, unique within the table and different from the table's.
    pub name: String,
    /// The sorting key. It determines the partition.
    pub columns: Vec<SortColumn>,
    /// Further columns that the entries have.
    pub included: Vec<usize>,
    /// Whether partitions are ranges of the order, which split and merge. Otherwise there are as
    /// many as the table has, and the hash of the sorting key determines the partition.
    pub by_range: bool,
    /// Whether no two rows may have the same key. NULLs are never the same.
    pub unique: bool,
    /// How often the entries are kept, at least once. Each copy has partitions of its own.
    pub copies: u8,
}

impl ThinIndex {
    /// Returns the names of the replexes of all copies.
    pub(crate) fn replex_names(&self) -> Vec<String> {
        let copies = 0..self.copies;
        copies.map(|copy| self.replex_name(copy)).collect()
    }

    /// Returns the name of the replex of one copy, counted from 0. The first has the index's name.
    /// No user can give the names of the others.
    pub fn replex_name(&self, copy: u8) -> String {
        match copy {
            0 => self.name.clone(),
            _ => alloc::format!("{}#{}", self.name, copy + 1),
        }
    }
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The write is durable on every copy.
    Sync,
    /// Every copy has the write in memory. Disks follow within a limited time.
    Replicated,
}

/// The definition of a table, as a user requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The table's name.
    pub name: String,
    /// The columns, in the order in which rows have them. New columns go to the end.
    pub columns: Vec<Column>,
    /// Sorting key of the primary replex, as indexes into `columns`.
    pub primary_key: Vec<usize>,
    /// The secondary indexes.
    pub indexes: Vec<Index>,
    /// The copies in addition to those of the primary key and the indexes.
    pub further: Vec<FurtherCopy>,
    /// The thin indexes, which are no copies.
    pub thin: Vec<ThinIndex>,
    /// Partitions per replex.
    pub partitions: u32,
    /// f: how many failure domains may be lost without losing a row.
    pub failures_tolerated: u8,
    /// How many lost failure domains the table is to survive as soon as there are enough of them;
    /// 0 for no more than `failures_tolerated`, which is raised then.
    pub failures_wanted: u8,
    /// Whether partitions keep thin local entries in the orders of other replexes, so that reads
    /// instead of a lost partition are lookups and not scans.
    pub local_entries: bool,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// The number of leading columns of the primary key that determine the partition; none means
    /// all columns.
    pub primary_partition_columns: Option<u8>,
    /// The rules, if the table is a sequence.
    pub sequence: Option<Sequence>,
    /// The constraints that the primaries test.
    pub constraints: TableConstraints,
}

/// The fault of a schema, and the remedy. The user changes the statement and tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// For people: the fault, its object, and the remedy.
    pub message: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for SchemaError {}

impl Schema {
    /// Returns the columns by whose values the copy of an index, or of the primary key, is cut into
    /// partitions: the first columns of its key. None if it is one partition. If ranges divide it,
    /// rows with the same values are mostly in one range.
    pub fn partition_columns(&self, index: Option<usize>) -> &[usize] {
        let (columns, asked, is_dense) = match index.map(|index| &self.indexes[index]) {
            None => (&self.primary_key, self.primary_partition_columns, false),
            Some(index) => {
                let is_dense = index.constraint == Some(Constraint::Dense);
                (&index.columns, index.partition_columns, is_dense)
            }
        };
        // One partition sees the whole sequence of a dense group, so that it can vote alone.
        let most = columns.len() - usize::from(is_dense);
        &columns[..asked.map_or(most, usize::from).min(most)]
    }

    /// Returns the columns that a statement means without naming them, with their positions.
    pub fn visible_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| !column.is_hidden())
    }

    /// Returns the positions of the columns that a statement means without naming them.
    pub fn visible_positions(&self) -> Vec<usize> {
        self.visible_columns()
            .map(|(position, _)| position)
            .collect()
    }

    /// Returns the generated columns, with their positions and expressions.
    pub fn generated_columns(&self) -> impl Iterator<Item = (usize, &Column, &Expression)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(position, column)| Some((position, column, column.generation()?)))
    }

    /// Returns the names of the generated columns that are computed from a column.
    pub fn generated_from(&self, position: usize) -> Vec<&str> {
        let generated = self.generated_columns();
        let generated = generated.filter(|(_, _, expression)| expression.uses(position));
        generated.map(|(_, column, _)| &column.name[..]).collect()
    }

    /// Returns the index of the column with this name.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns a column of a sorting key as in a definition: `age`, `age DESC`, `age NULLS FIRST`.
    pub fn sorted_name(&self, sorted: &SortColumn) -> String {
        let name = &self.columns[sorted.column].name;
        let direction = if sorted.descending { " DESC" } else { "" };
        let nulls = match sorted.nulls_first {
            first if first == sorted.descending => "",
            true => " NULLS FIRST",
            false => " NULLS LAST",
        };
        alloc::format!("{name}{direction}{nulls}")
    }

    /// Returns the columns of the primary key, in the order of the schema, as a projection names
    /// them.
    pub fn key_projection(&self) -> Vec<u16> {
        let columns = self.primary_key.iter();
        let columns = columns.map(|it| u16::try_from(*it).expect("Schema::validate bounds them"));
        let mut columns: Vec<u16> = columns.collect();
        columns.sort_unstable();
        columns
    }

    /// Returns the values of a memcomparable primary key.
    ///
    /// # Errors
    /// The bytes are no primary key of the table.
    pub fn decode_primary_key(&self, pk: &[u8]) -> Result<Vec<Value>, KeyError> {
        let columns = self.primary_key.iter();
        let types: Vec<ColumnType> = columns
            .map(|column| self.columns[*column].column_type)
            .collect();
        decode_key(pk, &types)
    }

    /// Returns whether the primary key or an index, each a copy of the table, begins with the
    /// columns of a foreign key. The rows that refer to one row are then a range of it.
    pub fn serves(&self, key: &ForeignKey) -> bool {
        let indexes = self.indexes.iter().map(|index| &index.columns);
        let mut copies = indexes.chain([&self.primary_key]);
        copies.any(|columns| columns.starts_with(&key.columns))
    }

    /// Returns the first foreign key that no copy of the table serves ([`Schema::serves`]).
    pub fn unserved_reference(&self) -> Option<&ForeignKey> {
        let mut keys = self.constraints.foreign_keys.iter();
        keys.find(|key| !self.serves(key))
    }

    /// Returns how many replexes the table has.
    pub fn replex_count(&self) -> usize {
        let named = self.further.iter().map(FurtherCopy::replex_count);
        let named = named.fold(self.indexes.len() + 1, usize::saturating_add);
        let copies = named.max(usize::from(self.failures_tolerated) + 1);
        copies.saturating_add(self.thin_count())
    }

    /// Returns how many replexes the thin indexes have.
    pub fn thin_count(&self) -> usize {
        let copies = self.thin.iter().map(|index| usize::from(index.copies));
        copies.fold(0, usize::saturating_add)
    }
}
