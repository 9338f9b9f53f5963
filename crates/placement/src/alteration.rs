//! Changes of a schema that leave all stored rows as they are (R50): names, defaults, constraints,
//! columns at the end, columns that go, types that store the same values, and the number of
//! failures that the copies survive.
//!
//! A column keeps its number, so a row or an expression that was encoded with an earlier schema
//! means the same with a later one. This module changes the definition only. The coordinator
//! decides when a change takes effect, and the caller proves that the rows satisfy it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::comment::CommentedObject;
use crate::constraints::{CheckConstraint, ForeignKey};
use crate::further::Cut;
use crate::schema::{Column, ColumnDefault, Schema, SchemaError};
use crate::value::ColumnType;

/// One change of a table's definition. Names are those that the table has before this change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// The table gets another name.
    RenameTable {
        /// The new name.
        name: String,
    },
    /// A column gets another name.
    RenameColumn {
        /// The column.
        column: String,
        /// The new name.
        name: String,
    },
    /// An index gets another name.
    RenameIndex {
        /// The index.
        index: String,
        /// The new name.
        name: String,
    },
    /// A CHECK constraint or a foreign key gets another name.
    RenameConstraint {
        /// The constraint.
        constraint: String,
        /// The new name.
        name: String,
    },
    /// A column gets another default, or none.
    SetDefault {
        /// The column.
        column: String,
        /// The default; none is NULL.
        default: Option<ColumnDefault>,
    },
    /// A column allows NULL, or does not any more.
    SetNullable {
        /// The column.
        column: String,
        /// Whether it allows NULL.
        nullable: bool,
    },
    /// The table gets another column, its last.
    AddColumn {
        /// The column.
        column: Column,
    },
    /// The table gets another CHECK constraint.
    AddCheck {
        /// The constraint.
        check: CheckConstraint,
    },
    /// All rows are known to satisfy a CHECK constraint or a foreign key.
    Validate {
        /// The constraint.
        constraint: String,
    },
    /// A CHECK constraint or a foreign key goes.
    DropConstraint {
        /// The constraint.
        constraint: String,
    },
    /// A column goes, and with it each CHECK constraint that names it. It keeps its number, and no
    /// key may have it. Rows keep its values, which no statement can read.
    DropColumn {
        /// The column.
        column: String,
    },
    /// A column gets another type, which stores the same values ([`ColumnType::is_stored_as`]).
    SetType {
        /// The column.
        column: String,
        /// The type.
        column_type: ColumnType,
    },
    /// The table promises to survive another number of failures. Its copies must be able to.
    SetFailures {
        /// The number of failure domains that may be lost.
        failures: u8,
    },
    /// The table gets another foreign key.
    AddForeignKey {
        /// The foreign key.
        key: ForeignKey,
    },
    /// The table or a part of it gets another comment, or none.
    Comment {
        /// The object.
        object: CommentedObject,
        /// The text; none removes the comment.
        text: Option<String>,
    },
}

impl Alteration {
    /// Returns whether the change is that of a comment, which is no part of the schema.
    pub fn is_comment(&self) -> bool {
        matches!(self, Alteration::Comment { .. })
    }
}

impl Schema {
    /// Returns the schema after these changes, one after the other.
    ///
    /// # Errors
    /// A change names something that is not there, or the schema is invalid afterwards.
    pub fn altered(&self, alterations: &[Alteration]) -> Result<Schema, SchemaError> {
        let mut schema = self.clone();
        for alteration in alterations {
            schema.alter(alteration)?;
        }
        schema.validate()?;
        Ok(schema)
    }

    // tidy: long — a dispatching match over the changes.
    fn alter(&mut self, alteration: &Alteration) -> Result<(), SchemaError> {
        match alteration {
            Alteration::RenameTable { name } => self.rename(name),
            Alteration::RenameColumn { column, name } => {
                self.column_named(column)?.name.clone_from(name);
            }
            Alteration::RenameIndex { index, name } => {
                let indexes = self.indexes.iter_mut().map(|it| &mut it.name);
                let thin = self.thin.iter_mut().map(|it| &mut it.name);
                let found = indexes.chain(thin).find(|it| *it == index);
                found
                    .ok_or_else(|| missing(&self.name, "index", index))?
                    .clone_from(name);
            }
            Alteration::RenameConstraint { constraint, name } => {
                let checks = &mut self.constraints.checks;
                let keys = self.constraints.foreign_keys.iter_mut();
                let names = checks.iter_mut().map(|it| &mut it.name);
                let mut names = names.chain(keys.map(|it| &mut it.name));
                let found = names.find(|it| *it == constraint);
                found
                    .ok_or_else(|| missing(&self.name, "constraint", constraint))?
                    .clone_from(name);
                checks.sort_by(|one, other| one.name.cmp(&other.name));
            }
            Alteration::SetDefault { column, default } => {
                let is_generated = matches!(default, Some(ColumnDefault::Generated(_)));
                let table = self.name.clone();
                let found = self.column_named(column)?;
                if is_generated || found.generation().is_some() {
                    let message = format!(
                        "column {column} of table {table} is generated, or would be: its rows would \
                         keep other values"
                    );
                    return Err(SchemaError { message });
                }
                found.default.clone_from(default);
            }
            Alteration::SetNullable { column, nullable } => {
                self.column_named(column)?.nullable = *nullable;
            }
            Alteration::AddColumn { column } => {
                if column.generation().is_some() {
                    let message = format!(
                        "column {} of table {} is generated, and the rows have no values for it: \
                         create a table with it",
                        column.name, self.name
                    );
                    return Err(SchemaError { message });
                }
                self.columns.push(column.clone());
            }
            Alteration::AddCheck { check } => {
                let checks = &mut self.constraints.checks;
                checks.push(check.clone());
                checks.sort_by(|one, other| one.name.cmp(&other.name));
            }
            Alteration::Validate { constraint } => *self.validity(constraint)? = true,
            Alteration::DropConstraint { constraint } => {
                let constraints = &mut self.constraints;
                let count = constraints.checks.len() + constraints.foreign_keys.len();
                constraints.checks.retain(|it| it.name != *constraint);
                constraints.foreign_keys.retain(|it| it.name != *constraint);
                if count == constraints.checks.len() + constraints.foreign_keys.len() {
                    return Err(missing(&self.name, "constraint", constraint));
                }
            }
            Alteration::DropColumn { column } => self.drop_column(column)?,
            Alteration::SetType {
                column,
                column_type,
            } => self.set_type(column, *column_type)?,
            Alteration::SetFailures { failures } => {
                self.failures_tolerated = *failures;
                self.failures_wanted = 0;
            }
            Alteration::AddForeignKey { key } => self.constraints.foreign_keys.push(key.clone()),
            Alteration::Comment { object, .. } if self.has(object) => {}
            Alteration::Comment { object, .. } => {
                let message = format!("table {} has no {object:?} any more", self.name);
                return Err(SchemaError { message });
            }
        }
        Ok(())
    }

    fn drop_column(&mut self, name: &str) -> Result<(), SchemaError> {
        let position = self.column_index(name);
        let position = position.ok_or_else(|| missing(&self.name, "column", name))?;
        let refused = |user: &str| {
            let message = format!("column {name} of table {} is in {user}", self.name);
            Err(SchemaError { message })
        };
        if self.primary_key.contains(&position) {
            return refused("the primary key");
        }
        if let Some(index) = self.indexes_of(position).first() {
            return refused(&format!("index {index}: drop the index first"));
        }
        let mut keys = self.constraints.foreign_keys.iter();
        if let Some(key) = keys.find(|key| key.columns.contains(&position)) {
            return refused(&format!("foreign key {}: drop it first", key.name));
        }
        if let Some(generated) = self.generated_from(position).first() {
            return refused(&format!("generated column {generated}: drop it first"));
        }
        let checks = &mut self.constraints.checks;
        checks.retain(|check| !check.condition.uses(position));
        let column = &mut self.columns[position];
        column.name = Column::dropped_name(position);
        column.nullable = true;
        column.default = None;
        Ok(())
    }

    /// Returns the names of the indexes and further copies that a column is in.
    pub fn indexes_of(&self, column: usize) -> Vec<&str> {
        let indexes = self.indexes.iter();
        let indexes = indexes.filter(|index| index.columns.contains(&column));
        let thin = self.thin.iter().filter(|index| {
            let mut key = index.columns.iter();
            key.any(|sorted| sorted.column == column) || index.included.contains(&column)
        });
        let further = self.further.iter().filter(|copy| match &copy.cut {
            Cut::Hyperspace { dimensions } => dimensions.iter().any(|it| it.column == column),
            _ => false,
        });
        let names = indexes.map(|it| &it.name).chain(thin.map(|it| &it.name));
        let names = names.chain(further.map(|it| &it.name));
        names.map(String::as_str).collect()
    }

    fn set_type(&mut self, name: &str, column_type: ColumnType) -> Result<(), SchemaError> {
        let position = self.column_index(name);
        let position = position.ok_or_else(|| missing(&self.name, "column", name))?;
        if let Some(generated) = self.generated_from(position).first() {
            let message = format!(
                "column {name} of table {} is used by generated column {generated}: drop it first",
                self.name
            );
            return Err(SchemaError { message });
        }
        let column = &mut self.columns[position];
        if !column.column_type.is_stored_as(column_type) {
            let message = format!(
                "column {name} of type {} stores other values than {column_type}: add a column of \
                 this type",
                column.column_type
            );
            return Err(SchemaError { message });
        }
        column.column_type = column_type;
        Ok(())
    }

    /// Gives the table another name, also where it refers to itself.
    fn rename(&mut self, name: &str) {
        let before = core::mem::replace(&mut self.name, name.into());
        self.rename_referred(&before, name);
    }

    /// Follows a table that has another name: the foreign keys to it, and its own name in the list
    /// of tables that refer to this one.
    pub fn rename_referred(&mut self, before: &str, name: &str) {
        let keys = self.constraints.foreign_keys.iter_mut();
        let parents = keys.map(|key| &mut key.parent);
        let children = self.constraints.referenced_by.iter_mut();
        for named in parents.chain(children).filter(|it| *it == before) {
            *named = name.into();
        }
        self.constraints.referenced_by.sort_unstable();
    }

    /// Follows the table to whose column this sequence belongs, which has another name now, or
    /// another name of the column.
    pub fn follow_owner(&mut self, before: &Schema, after: &Schema) {
        let sequence = self.sequence.as_mut();
        let Some(owner) = sequence.and_then(|sequence| sequence.owner.as_mut()) else {
            return;
        };
        let column = before.column_index(&owner.column);
        if let (true, Some(column)) = (owner.table == before.name, column) {
            owner.table.clone_from(&after.name);
            owner.column.clone_from(&after.columns[column].name);
        }
    }

    fn column_named(&mut self, name: &str) -> Result<&mut Column, SchemaError> {
        let position = self.column_index(name);
        let position = position.ok_or_else(|| missing(&self.name, "column", name))?;
        Ok(&mut self.columns[position])
    }

    /// Returns whether all rows are known to satisfy a CHECK constraint or a foreign key, to be
    /// changed.
    fn validity(&mut self, name: &str) -> Result<&mut bool, SchemaError> {
        let constraints = &mut self.constraints;
        let checks = constraints.checks.iter_mut();
        let checks = checks.map(|check| (&check.name, &mut check.is_valid));
        let keys = constraints.foreign_keys.iter_mut();
        let keys = keys.map(|key| (&key.name, &mut key.is_valid));
        let mut all = checks.chain(keys);
        let found = all.find(|(known, _)| *known == name);
        let (_, is_valid) = found.ok_or_else(|| missing(&self.name, "constraint", name))?;
        Ok(is_valid)
    }
}

fn missing(table: &str, what: &str, name: &str) -> SchemaError {
    SchemaError {
        message: format!("table {table} has no {what} {name}: it may have changed meanwhile"),
    }
}
