//! Checks a schema before the coordinator creates its table.
//!
//! The copies are checked last, because the possible copies follow from columns, indexes and
//! partitions. These checks do not know the servers: `assignment` checks whether there are enough
//! of them.

use alloc::format;
use alloc::vec::Vec;

use crate::constraints::{CHECKS_MAX, FOREIGN_KEYS_MAX, REFERENCED_BY_MAX};
use crate::further::{Cut, FurtherCopy};
use crate::grid::Layout;
use crate::schema::{
    COLUMNS_MAX, ColumnDefault, Constraint, NAME_BYTES_MAX, PARTITIONS_MAX, REPLEXES_MAX, Schema,
    SchemaError, THIN_MAX,
};
use crate::sort::columns_of;
use crate::value::{ColumnType, Value};

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(SchemaError { message: format!($($message)+) });
        }
    };
}

impl Schema {
    /// Checks everything that does not depend on servers. Every table must pass this check.
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
        self.check_thin()?;
        self.check_constraints()?;
        self.check_further()?;
        self.check_sequence()
    }

    /// Checks that a sequence has its table.
    fn check_sequence(&self) -> Result<(), SchemaError> {
        let Some(sequence) = &self.sequence else {
            return Ok(());
        };
        let valid = sequence.validate();
        valid.map_err(|message| SchemaError { message })?;
        let failures = self.failures_tolerated;
        let mut wanted = sequence.clone().into_schema(self.name.clone(), failures);
        wanted.failures_wanted = self.failures_wanted;
        // More failures take more copies, which are alike.
        wanted.further.clone_from(&self.further);
        let is_alike = |copy: &FurtherCopy| matches!(copy.cut, Cut::Replica { of: None });
        let are_alike = self.further.iter().all(is_alike);
        ensure!(
            *self == wanted && are_alike,
            "sequence {} has another table than sequences have: create it with CREATE SEQUENCE",
            self.name
        );
        Ok(())
    }

    // tidy: long — one check of a column after another.
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
            if !column.is_dropped() {
                check_name("column", name)?;
            }
            ensure!(
                self.column_index(name) == Some(index),
                "table {table} has two columns named {name}: rename one"
            );
            ensure!(
                column.column_type.if_valid().is_some(),
                "column {name} of table {table} has the type {}, whose limit is out of range: give \
                 another limit",
                column.column_type
            );
            let missing = column.missing.as_ref().and_then(Value::column_type);
            ensure!(
                missing.is_none_or(|found| found == column.column_type.of_values()),
                "column {name} of table {table} is of type {}, and its value in earlier rows is not",
                column.column_type
            );
            let Some(default) = &column.default else {
                continue;
            };
            let value = match default {
                ColumnDefault::Constant(value) => value,
                ColumnDefault::Computed(computed) => {
                    ensure!(
                        computed.fits(column.column_type),
                        "column {name} of table {table} is of type {}, and cannot have the default {}: convert the column",
                        column.column_type,
                        computed.text()
                    );
                    continue;
                }
                ColumnDefault::Generated(_) => {
                    self.check_generated(index)?;
                    continue;
                }
                ColumnDefault::Sequence(default) => {
                    ensure!(
                        column.column_type.is_integer(),
                        "column {name} of table {table} is of type {}, and cannot have the default {default}: declare it BIGINT",
                        column.column_type
                    );
                    continue;
                }
            };
            match value.column_type() {
                None => ensure!(
                    column.nullable,
                    "column {name} of table {table} is NOT NULL but its default is NULL: give another default or allow NULL"
                ),
                Some(found) => ensure!(
                    found == column.column_type.of_values()
                        && column.column_type.admits(value.as_ref()),
                    "column {name} of table {table} is of type {}, its default of type {found}: convert the default",
                    column.column_type
                ),
            }
        }
        Ok(())
    }

    /// Checks the columns of the expression of a generated column. Crate `protocol` checks types.
    fn check_generated(&self, position: usize) -> Result<(), SchemaError> {
        let table = &self.name;
        let column = &self.columns[position];
        let name = &column.name;
        ensure!(
            column.missing.is_none(),
            "column {name} of table {table} is generated, and has a value in earlier rows: leave it \
             out"
        );
        ensure!(
            !self.primary_key.contains(&position),
            "column {name} of table {table} is generated, and cannot be in the primary key: use \
             other columns"
        );
        let expression = column.generation();
        let generated = self.generated_columns();
        for (other, used, _) in generated {
            ensure!(
                !expression.is_some_and(|it| it.uses(other)),
                "cannot use generated column \"{}\" in column generation expression of column {name} \
                 of table {table}: use the columns that it is computed from",
                used.name
            );
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
        let (asked, columns) = (self.primary_partition_columns, self.primary_key.len());
        self.check_cut("the primary key", asked, columns)?;
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
            let is_dense = index.constraint == Some(Constraint::Dense);
            let key_columns = index.columns.len() - usize::from(is_dense);
            self.check_cut(
                &format!("index {name}"),
                index.partition_columns,
                key_columns,
            )?;
            ensure!(
                !index.by_range || index.constraint.is_none(),
                "index {name} of table {table} demands something of the rows, so ranges cannot \
                 divide it: leave ranges out"
            );
            ensure!(
                !index.by_range || index.partition_columns.is_none(),
                "index {name} of table {table} is divided by ranges and by a hash: leave out one of \
                 them"
            );
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

    /// Checks the number of first columns by which a copy is partitioned: `asked` of the key's
    /// `columns`.
    fn check_cut(&self, what: &str, asked: Option<u8>, columns: usize) -> Result<(), SchemaError> {
        let is_possible = asked.is_none_or(|asked| (1..=columns).contains(&usize::from(asked)));
        ensure!(
            is_possible,
            "{what} of table {} cannot be partitioned by its first {} columns: it can by the first {columns} or fewer, but for none",
            self.name,
            asked.unwrap_or(0)
        );
        Ok(())
    }

    fn check_key(&self, what: &str, columns: &[usize]) -> Result<(), SchemaError> {
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
            let column = &self.columns[*column];
            ensure!(
                column.column_type.has_order(),
                "{what} of table {table} names column {}, but values of type {} have no order: \
                 declare it jsonb",
                column.name,
                column.column_type
            );
        }
        Ok(())
    }

    /// Checks the thin indexes; columns and other indexes have been checked.
    fn check_thin(&self) -> Result<(), SchemaError> {
        let table = &self.name;
        ensure!(
            self.thin_count() <= THIN_MAX,
            "table {table} has {} thin indexes, all copies counted, the limit is {THIN_MAX}: drop \
             some",
            self.thin_count()
        );
        for (position, index) in self.thin.iter().enumerate() {
            let name = &index.name;
            check_name("index", name)?;
            let mut others = self.indexes.iter().map(|index| &index.name);
            let mut before = self.thin[..position].iter().map(|index| &index.name);
            ensure!(
                name != table && others.all(|it| it != name) && before.all(|it| it != name),
                "the name {name} is taken within table {table}: rename the index"
            );
            ensure!(
                !index.columns.is_empty(),
                "index {name} of table {table} has no columns: name at least one"
            );
            ensure!(
                index.copies > 0,
                "index {name} of table {table} has copies = 0: keep its entries at least once"
            );
            ensure!(
                !(index.unique && index.by_range),
                "index {name} of table {table} is unique, so ranges cannot divide it: leave ranges \
                 out"
            );
            let columns = [columns_of(&index.columns), index.included.clone()].concat();
            self.check_key(&format!("index {name}"), &columns)?;
        }
        Ok(())
    }

    /// Checks the names of the constraints, and which columns they name. Crate `protocol` checks
    /// the types of their conditions.
    fn check_constraints(&self) -> Result<(), SchemaError> {
        let table = &self.name;
        let checks = &self.constraints.checks;
        ensure!(
            checks.len() <= CHECKS_MAX,
            "table {table} has {} CHECK constraints, the limit is {CHECKS_MAX}: join some by AND",
            checks.len()
        );
        for pair in checks.windows(2) {
            ensure!(
                pair[0].name <= pair[1].name,
                "the CHECK constraints of table {table} are not in the order of their names"
            );
        }
        let keys = &self.constraints.foreign_keys;
        ensure!(
            keys.len() <= FOREIGN_KEYS_MAX,
            "table {table} has {} foreign keys, the limit is {FOREIGN_KEYS_MAX}: drop some",
            keys.len()
        );
        let names = checks.iter().map(|check| &check.name);
        let names: Vec<_> = names.chain(keys.iter().map(|key| &key.name)).collect();
        for (position, name) in names.iter().enumerate() {
            check_name("constraint", name)?;
            ensure!(
                !names[..position].contains(name),
                "table {table} has two constraints named {name}: rename one"
            );
        }
        for key in keys {
            let name = &key.name;
            check_name("table", &key.parent)?;
            ensure!(
                !key.columns.is_empty(),
                "foreign key {name} of table {table} has no columns: name at least one"
            );
            self.check_key(&format!("foreign key {name}"), &key.columns)?;
            let mut columns = key.columns.iter().map(|it| &self.columns[*it]);
            ensure!(
                !key.sets_columns() || columns.all(|column| column.generation().is_none()),
                "foreign key {name} of table {table} sets a generated column: leave the action out"
            );
        }
        if let Some(key) = self.unserved_reference() {
            let columns = key.columns.iter();
            let columns: Vec<&str> = columns.map(|it| self.columns[*it].name.as_str()).collect();
            return Err(SchemaError {
                message: format!(
                    "foreign key {} of table {table} needs an index that is a copy and begins with \
                     its columns: keep or add INDEX ({})",
                    key.name,
                    columns.join(", ")
                ),
            });
        }
        let by = &self.constraints.referenced_by;
        ensure!(
            by.len() <= REFERENCED_BY_MAX,
            "{} tables refer to table {table}, the limit is {REFERENCED_BY_MAX}",
            by.len()
        );
        ensure!(
            by.is_sorted_by(|one, other| one < other),
            "the tables that refer to table {table} are not in order"
        );
        Ok(())
    }

    /// Checks the further copies; columns, indexes and partitions have been checked.
    fn check_further(&self) -> Result<(), SchemaError> {
        let replexes = self.replex_count();
        ensure!(
            replexes <= REPLEXES_MAX,
            "table {} takes {replexes} copies and thin indexes ({} indexes beside the primary key, {} thin ones, {} further copies, {} failures tolerated), the limit is {REPLEXES_MAX}: drop some, or tolerate fewer failures",
            self.name,
            self.indexes.len(),
            self.thin_count(),
            self.further
                .iter()
                .map(FurtherCopy::replex_count)
                .sum::<usize>(),
            self.failures_tolerated
        );
        for copy in &self.further {
            let name = &copy.name;
            check_name("copy", name)?;
            let known = |index: &usize| *index < self.indexes.len();
            ensure!(
                copy.indexes().iter().flatten().all(known),
                "copy {name} of table {} names an index that the table does not have: name one of its {}",
                self.name,
                self.indexes.len()
            );
            if let Cut::Hyperspace { dimensions } = &copy.cut {
                let columns: Vec<usize> = dimensions.iter().map(|it| it.column).collect();
                self.check_key(&format!("hyperspace {name}"), &columns)?;
            }
        }
        let mut layout = Layout::of_indexes(self);
        layout.add_further(self).map_err(|error| SchemaError {
            message: error.message,
        })
    }
}

/// Checks that a name is one: of `what`, a table, a column or another object.
///
/// # Errors
/// The name is empty or too long, or has characters that names do not have.
pub fn check_name(what: &str, name: &str) -> Result<(), SchemaError> {
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
