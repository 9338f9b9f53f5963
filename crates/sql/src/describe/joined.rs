//! The columns of the further table of an `UPDATE … FROM` or a `DELETE … USING`, before its
//! parameters have values.

use placement::{ColumnType, Schema};
use sqlparser::ast::{self, Expr};

use super::{ParameterTypes, constants, table};
use crate::bind::{FurtherColumns, JoinedTables, Scope, is_open};
use crate::error::SqlError;
use crate::plan::{Context, common_type_of_values, further_column, unnested_type};
use crate::statement::{FromItem, TableName};

impl ParameterTypes<'_> {
    /// Infers the further table of a change. Returns both tables as one; none if there is only one.
    pub(super) fn joined(
        &mut self,
        target: &TableName,
        from: Option<&FromItem>,
        context: &Context<'_>,
    ) -> Result<Option<JoinedTables>, SqlError> {
        let Some(from) = from else {
            return Ok(None);
        };
        let mut further = FurtherColumns::default();
        match from {
            FromItem::Table(name) => {
                let (schema, _) = table(name, context)?;
                further.columns.clone_from(&schema.columns);
            }
            FromItem::Values { columns, rows, .. } => {
                for (position, name) in columns.iter().enumerate() {
                    let values: Vec<&Expr> = rows.iter().map(|row| &row[position]).collect();
                    let column_type = self.values(name, &values)?;
                    further.columns.push(further_column(name, column_type));
                }
            }
            FromItem::Unnest {
                columns, arrays, ..
            } => {
                for (name, array) in columns.iter().zip(arrays) {
                    let found = self.infer(array, None, &constants(), 0)?;
                    let column_type = unnested_type(array, found)?;
                    further.columns.push(further_column(name, column_type));
                }
            }
        }
        let (schema, _) = table(target, context)?;
        JoinedTables::new((schema, target), from.name(), further).map(Some)
    }

    /// Infers the values of a column of `VALUES`, and returns its type. A parameter has the type
    /// that the client has declared, or that of the other values.
    fn values(&mut self, name: &str, values: &[&Expr]) -> Result<ColumnType, SqlError> {
        let mut types = Vec::with_capacity(values.len());
        for value in values {
            types.push(match is_open(value) {
                true => self.declared(value),
                false => self.infer(value, None, &constants(), 0)?,
            });
        }
        let common = common_type_of_values(name, types.into_iter())?;
        let column_type = common.unwrap_or(ColumnType::Text);
        for value in values.iter().filter(|value| is_open(value)) {
            self.infer(value, Some(column_type), &constants(), 0)?;
        }
        Ok(column_type)
    }

    /// Returns the type of a parameter that is known so far.
    fn declared(&self, value: &Expr) -> Option<ColumnType> {
        match value {
            Expr::Nested(inner) => self.declared(inner),
            Expr::Value(value) => match &value.value {
                ast::Value::Placeholder(placeholder) => {
                    let number: usize = placeholder.strip_prefix('$')?.parse().ok()?;
                    *self.types.get(number.checked_sub(1)?)?
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// Returns the definition and the scope of a change with one table or two.
pub(super) fn scope_of<'a>(
    joined: Option<&'a JoinedTables>,
    name: &'a TableName,
    context: &Context<'a>,
) -> Result<(&'a Schema, Scope<'a>), SqlError> {
    match joined {
        Some(joined) => Ok((&joined.schema, joined.scope(constants()))),
        None => table(name, context),
    }
}
