//! Finds the columns that names mean, in the table of a statement or in the two tables of an
//! `UPDATE … FROM` or a `DELETE … USING`.

use placement::{Column, Schema, Value};
use protocol::expression::Expression;
use sqlparser::ast;

use super::{Bound, Scope, unknown_column};
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;
use crate::statement::TableName;

/// The second table of a scope. Its columns are the last ones of the scope's schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecondTable<'a> {
    /// The name that qualifies its columns.
    pub name: &'a str,
    /// The position of its first column.
    pub first: usize,
    /// The positions of columns without a type, because all of their values are NULL.
    pub untyped: &'a [usize],
}

/// The changed table and the further table of a statement, as one table of joined rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JoinedTables {
    /// The definition of the changed table. Its columns are followed by those of the further one.
    pub schema: Schema,
    /// The number of columns of the changed table.
    pub own: usize,
    /// The name that qualifies the columns of the changed table.
    pub target: String,
    /// The name that qualifies the columns of the further table.
    pub second: String,
    /// The positions of columns without a type, because all of their values are NULL.
    pub untyped: Vec<usize>,
}

/// The columns of the further table of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FurtherColumns {
    /// The columns.
    pub columns: Vec<Column>,
    /// The positions of those without a type, because all of their values are NULL.
    pub untyped: Vec<usize>,
}

impl JoinedTables {
    /// Returns two tables as one.
    ///
    /// # Errors
    /// Both have the same name in the statement.
    pub fn new(
        (schema, table): (&Schema, &TableName),
        second: &str,
        further: FurtherColumns,
    ) -> Result<JoinedTables, SqlError> {
        let target = table.alias.as_ref().unwrap_or(&schema.name);
        if target == second {
            return Err(SqlError::with_state(
                sqlstate::DUPLICATE_ALIAS,
                format!(
                    "table name \"{second}\" specified more than once: give one of them an alias"
                ),
            ));
        }
        let own = schema.columns.len();
        let mut schema = schema.clone();
        schema.columns.extend(further.columns);
        Ok(JoinedTables {
            own,
            target: target.clone(),
            second: second.to_string(),
            untyped: further.untyped.iter().map(|it| own + it).collect(),
            schema,
        })
    }

    /// Returns the definition with the table's name before the name of each column, for people.
    pub fn qualified(&self) -> Schema {
        let mut schema = self.schema.clone();
        for (position, column) in schema.columns.iter_mut().enumerate() {
            let table = match position < self.own {
                true => &self.target,
                false => &self.second,
            };
            column.name = format!("{table}.{}", column.name);
        }
        schema
    }

    /// Returns the scope of expressions over both tables.
    pub fn scope<'a>(&'a self, constants: Scope<'a>) -> Scope<'a> {
        Scope {
            schema: Some(&self.schema),
            alias: Some(&self.target),
            second: Some(SecondTable {
                name: &self.second,
                first: self.own,
                untyped: &self.untyped,
            }),
            ..constants
        }
    }
}

impl Scope<'_> {
    /// Returns the position of a column of the only table, or of the one that is changed.
    pub fn column(&self, name: &str) -> Result<usize, SqlError> {
        let Some(schema) = self.schema else {
            return Err(SqlError::with_state(
                sqlstate::UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" does not exist: no column can stand here, so write a \
                     constant, in single quotes if it is text"
                ),
            ));
        };
        let found = match self.second {
            None => schema.column_index(name),
            Some(_) => self.found(name)[0],
        };
        found.ok_or_else(|| unknown_column(schema, name))
    }

    /// Returns the positions of the columns with a name: one of the first table, and one of the
    /// second.
    fn found(&self, name: &str) -> [Option<usize>; 2] {
        let columns = self.columns();
        let first = self.second.map_or(columns.len(), |second| second.first);
        let (own, further) = columns.split_at(first);
        let position = |columns: &[Column]| columns.iter().position(|it| it.name == name);
        [position(own), position(further).map(|it| first + it)]
    }

    /// Returns the position of a column of two tables.
    fn column_of_two(
        &self,
        (target, second): (&str, &str),
        qualifier: Option<&str>,
        column: &str,
    ) -> Result<usize, SqlError> {
        let [own, further] = self.found(column);
        let found = match qualifier {
            None if own.is_some() && further.is_some() => {
                return Err(SqlError::with_state(
                    sqlstate::AMBIGUOUS_COLUMN,
                    format!(
                        "column reference \"{column}\" is ambiguous: write {target}.{column} or \
                         {second}.{column}"
                    ),
                ));
            }
            None => own.or(further),
            Some(name) if name == target => own,
            Some(name) if name == second => further,
            Some(name) => return Err(missing_table(name, (target, second))),
        };
        found.ok_or_else(|| {
            let column = match qualifier {
                None => format!("\"{column}\""),
                Some(name) => format!("{name}.{column}"),
            };
            SqlError::with_state(
                sqlstate::UNDEFINED_COLUMN,
                format!("column {column} does not exist: name one of {target} or {second}"),
            )
        })
    }

    /// Returns the positions of the columns of one of two tables, for `t.*`.
    pub fn columns_of(&self, table: &str) -> Result<std::ops::Range<usize>, SqlError> {
        let count = self.columns().len();
        let target = self.alias.unwrap_or_default();
        let Some(second) = self.second else {
            return Ok(0..count);
        };
        match table {
            _ if table == target => Ok(0..second.first),
            _ if table == second.name => Ok(second.first..count),
            _ => Err(missing_table(table, (target, second.name))),
        }
    }

    pub(super) fn bind_column(
        &self,
        qualifiers: &[ast::Ident],
        column: &ast::Ident,
    ) -> Result<Bound, SqlError> {
        let column = name(column);
        let qualifier = match qualifiers {
            [] => None,
            [one] => Some(name(one)),
            _ => {
                return Err(SqlError::statement(format!(
                    "{column} has too many qualifiers: name the column alone"
                )));
            }
        };
        if let (Some(second), Some(target)) = (self.second, self.alias) {
            let tables = (target, second.name);
            let position = self.column_of_two(tables, qualifier.as_deref(), &column)?;
            if second.untyped.contains(&position) {
                return Ok(Bound::Typed(Expression::Literal(Value::Null), None));
            }
            return Ok(self.bound_column(position, Expression::Column));
        }
        let position = self.column(&column)?;
        let schema = self.schema.expect("a column was found in it");
        let own = self.alias.unwrap_or(&schema.name);
        let excluded = match qualifier.as_deref() {
            None => false,
            Some(name) if name == own => false,
            Some("excluded") if self.excluded => true,
            Some(name) => {
                return Err(SqlError::with_state(
                    sqlstate::UNDEFINED_TABLE,
                    format!(
                        "{name}.{column} is about no table of this statement: write {own}.{column}"
                    ),
                ));
            }
        };
        if self.groups.is_some() {
            return Err(SqlError::with_state(
                sqlstate::GROUPING,
                format!(
                    "column \"{own}.{column}\" must appear in the GROUP BY clause or be used in an \
                     aggregate function"
                ),
            ));
        }
        Ok(self.bound_column(
            position,
            match excluded {
                true => Expression::Excluded,
                false => Expression::Column,
            },
        ))
    }

    fn bound_column(&self, position: usize, named: fn(u16) -> Expression) -> Bound {
        let schema = self.schema.expect("a column was found in it");
        let column_type = schema.columns[position].column_type;
        let position = u16::try_from(position).expect("Schema::validate bounds the columns");
        Bound::Typed(named(position), Some(column_type))
    }
}

fn missing_table(name: &str, (target, second): (&str, &str)) -> SqlError {
    SqlError::with_state(
        sqlstate::UNDEFINED_TABLE,
        format!(
            "missing FROM-clause entry for table \"{name}\": the tables are {target} and {second}"
        ),
    )
}
