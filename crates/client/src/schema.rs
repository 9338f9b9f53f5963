//! A builder for schemas, which refers to columns by name.

use placement::{
    Column, ColumnDefault, ColumnType, Constraint, Durability, Index, Schema, SchemaError,
    TableConstraints, ThinIndex, Value, ascending,
};

/// The number of partitions per replex, unless the schema sets another one.
pub const PARTITIONS_DEFAULT: u32 = 12;

/// Builds a [`Schema`]. [`SchemaBuilder::build`] checks it.
///
/// ```
/// use client::{ColumnType, Constraint, SchemaBuilder};
///
/// let schema = SchemaBuilder::new("flights")
///     .column("id", ColumnType::Int64)
///     .column("tail", ColumnType::Text)
///     .nullable("note", ColumnType::Text)
///     .primary_key(&["id"])
///     .index("by_tail", &["tail"])
///     .thin_index("by_note", &["note"], &["tail"])
///     .partitions(4)
///     .failures_tolerated(1)
///     .build()?;
/// assert_eq!(schema.indexes[0].columns, [1]);
/// assert_eq!(schema.thin[0].included, [1]);
/// # Ok::<(), client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SchemaBuilder {
    schema: Schema,
    primary_key: Vec<String>,
    indexes: Vec<NamedIndex>,
    thin: Vec<NamedThinIndex>,
}

/// An index whose columns are named.
#[derive(Clone, Debug)]
struct NamedIndex {
    name: String,
    columns: Vec<String>,
    constraint: Option<Constraint>,
    partition_columns: Option<u8>,
    by_range: bool,
}

/// A thin index whose columns are named.
#[derive(Clone, Debug)]
struct NamedThinIndex {
    name: String,
    columns: Vec<String>,
    included: Vec<String>,
    unique: bool,
}

impl SchemaBuilder {
    /// Starts a schema with this name and no columns. Its defaults are 12 partitions per replex, no
    /// tolerated failure, and durability `sync`.
    pub fn new(name: impl Into<String>) -> SchemaBuilder {
        SchemaBuilder {
            schema: Schema {
                name: name.into(),
                columns: Vec::new(),
                primary_key: Vec::new(),
                indexes: Vec::new(),
                further: Vec::new(),
                thin: Vec::new(),
                partitions: PARTITIONS_DEFAULT,
                failures_tolerated: 0,
                failures_wanted: 0,
                local_entries: true,
                durability: Durability::Sync,
                primary_partition_columns: None,
                sequence: None,
                constraints: TableConstraints::default(),
            },
            primary_key: Vec::new(),
            indexes: Vec::new(),
            thin: Vec::new(),
        }
    }

    /// Adds a column that is never NULL.
    #[must_use]
    pub fn column(self, name: impl Into<String>, column_type: ColumnType) -> SchemaBuilder {
        self.push(name.into(), column_type, false, None)
    }

    /// Adds a column that may be NULL.
    #[must_use]
    pub fn nullable(self, name: impl Into<String>, column_type: ColumnType) -> SchemaBuilder {
        self.push(name.into(), column_type, true, None)
    }

    /// Adds a column that is never NULL. Rows that are written without it get the default value.
    #[must_use]
    pub fn column_with_default(
        self,
        name: impl Into<String>,
        column_type: ColumnType,
        default: Value,
    ) -> SchemaBuilder {
        let default = ColumnDefault::Constant(default);
        self.push(name.into(), column_type, false, Some(default))
    }

    /// Sets the columns of the primary key. Their order is the sort order of its encoded keys.
    #[must_use]
    pub fn primary_key(mut self, columns: &[&str]) -> SchemaBuilder {
        self.primary_key = columns.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Adds an index without a constraint.
    #[must_use]
    pub fn index(self, name: impl Into<String>, columns: &[&str]) -> SchemaBuilder {
        self.push_index(name.into(), columns, None)
    }

    /// Adds an index with a constraint.
    #[must_use]
    pub fn constrained_index(
        self,
        name: impl Into<String>,
        columns: &[&str],
        constraint: Constraint,
    ) -> SchemaBuilder {
        self.push_index(name.into(), columns, Some(constraint))
    }

    /// Adds an index whose copy is divided by ranges of its order, which split and merge. So a
    /// range of its columns is in few partitions.
    #[must_use]
    pub fn ranged_index(self, name: impl Into<String>, columns: &[&str]) -> SchemaBuilder {
        let mut added = self.push_index(name.into(), columns, None);
        let index = added.indexes.last_mut().expect("it was just added");
        index.by_range = true;
        added
    }

    /// Adds a thin index, which is no copy of the table. It has an entry for each row, with the
    /// columns of the index, those of the primary key and the `included` ones. A read that wants no
    /// other columns reads entries only. Its partitions are ranges of the order, which split and
    /// merge. For other directions than ascending, add a [`ThinIndex`] to [`Schema::thin`].
    #[must_use]
    pub fn thin_index(
        self,
        name: impl Into<String>,
        columns: &[&str],
        included: &[&str],
    ) -> SchemaBuilder {
        self.push_thin(name.into(), (columns, included), false)
    }

    /// Adds a thin index that refuses a second row with the same key. NULLs are never the same. The
    /// hash of the key divides it into as many partitions as the table has.
    #[must_use]
    pub fn unique_thin_index(
        self,
        name: impl Into<String>,
        columns: &[&str],
        included: &[&str],
    ) -> SchemaBuilder {
        self.push_thin(name.into(), (columns, included), true)
    }

    /// Partitions the last added key by its first `columns` columns only. The key is an index's or
    /// the primary key. Rows with the same values in these columns are then in one partition, in
    /// order, so a range of the next column needs only this partition.
    #[must_use]
    pub fn partitioned_by_first(mut self, columns: u8) -> SchemaBuilder {
        match self.indexes.last_mut() {
            Some(index) => index.partition_columns = Some(columns),
            None => self.schema.primary_partition_columns = Some(columns),
        }
        self
    }

    /// Sets the number of partitions per replex.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> SchemaBuilder {
        self.schema.partitions = partitions;
        self
    }

    /// Sets how many failure domains can be lost without losing a row.
    #[must_use]
    pub fn failures_tolerated(mut self, failures: u8) -> SchemaBuilder {
        self.schema.failures_tolerated = failures;
        self
    }

    /// Sets whether each copy keeps thin entries in the order of the other copies. With them, reads
    /// of a lost partition's rows are lookups instead of scans. They cost memory and some CPU time
    /// per write. They are on by default.
    #[must_use]
    pub fn local_entries(mut self, local_entries: bool) -> SchemaBuilder {
        self.schema.local_entries = local_entries;
        self
    }

    /// Sets when a write is acknowledged.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> SchemaBuilder {
        self.schema.durability = durability;
        self
    }

    /// Checks and returns the schema.
    ///
    /// # Errors
    /// [`Error::Schema`](crate::Error::Schema) names its fault and the remedy.
    pub fn build(mut self) -> Result<Schema, crate::Error> {
        self.schema.primary_key = self.positions("the primary key", &self.primary_key)?;
        for index in &self.indexes {
            let columns = self.positions(&format!("index {}", index.name), &index.columns)?;
            self.schema.indexes.push(Index {
                name: index.name.clone(),
                columns,
                constraint: index.constraint,
                partition_columns: index.partition_columns,
                by_range: index.by_range,
            });
        }
        for index in &self.thin {
            let what = format!("index {}", index.name);
            let columns = self.positions(&what, &index.columns)?;
            let included = self.positions(&what, &index.included)?;
            self.schema.thin.push(ThinIndex {
                name: index.name.clone(),
                columns: ascending(&columns),
                included,
                by_range: !index.unique,
                unique: index.unique,
                copies: 1,
            });
        }
        self.schema.validate()?;
        Ok(self.schema)
    }

    fn positions(&self, what: &str, names: &[String]) -> Result<Vec<usize>, SchemaError> {
        let position = |name: &String| {
            self.schema.column_index(name).ok_or_else(|| SchemaError {
                message: format!(
                    "{what} of table {} names column {name}, which it does not have: name one of {}",
                    self.schema.name,
                    self.schema
                        .columns
                        .iter()
                        .map(|column| column.name.as_str())
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            })
        };
        names.iter().map(position).collect()
    }

    fn push(
        mut self,
        name: String,
        column_type: ColumnType,
        nullable: bool,
        default: Option<ColumnDefault>,
    ) -> SchemaBuilder {
        self.schema.columns.push(Column {
            name,
            column_type,
            nullable,
            default,
            missing: None,
        });
        self
    }

    fn push_thin(
        mut self,
        name: String,
        (columns, included): (&[&str], &[&str]),
        unique: bool,
    ) -> SchemaBuilder {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        self.thin.push(NamedThinIndex {
            name,
            columns: owned(columns),
            included: owned(included),
            unique,
        });
        self
    }

    fn push_index(
        mut self,
        name: String,
        columns: &[&str],
        constraint: Option<Constraint>,
    ) -> SchemaBuilder {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        self.indexes.push(NamedIndex {
            name,
            columns,
            constraint,
            partition_columns: None,
            by_range: false,
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_column_is_named() {
        let schema = SchemaBuilder::new("t")
            .column("id", ColumnType::Int64)
            .primary_key(&["id"])
            .index("i", &["nothing"])
            .build();
        let message = schema.unwrap_err().to_string();
        assert!(message.contains("index i of table t names column nothing"));
        let schema = SchemaBuilder::new("t")
            .column("id", ColumnType::Int64)
            .primary_key(&["id"])
            .thin_index("thin", &["id"], &["nowhere"])
            .build();
        let message = schema.unwrap_err().to_string();
        assert!(message.contains("index thin of table t names column nowhere"));
    }
}
