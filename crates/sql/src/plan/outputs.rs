//! Binds the items and the order of a result, over rows of a table or of groups.

use protocol::expression::Expression;
use sqlparser::ast::{self, Expr};

use super::{OutputItem, SortKey};
use crate::bind::{Scope, check_order};
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;
use crate::statement::{OrderItem, SelectItem};

/// Binds the items of a result.
pub(super) fn output_items(
    written: &[SelectItem],
    scope: &Scope<'_>,
) -> Result<Vec<OutputItem>, SqlError> {
    let mut items = Vec::new();
    for item in written {
        match item {
            SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => {
                let Some(schema) = scope.schema else {
                    return Err(SqlError::statement(
                        "* means all columns of a table: write FROM and its name",
                    ));
                };
                let meant = match item {
                    SelectItem::AllOf(table) => scope.columns_of(table)?,
                    _ => 0..schema.columns.len(),
                };
                for (position, column) in schema.visible_columns() {
                    if !meant.contains(&position) {
                        continue;
                    }
                    if *item == SelectItem::AllButGenerated && column.generation().is_some() {
                        continue;
                    }
                    let expression = match scope.groups {
                        None => Expression::Column(position as u16),
                        Some(_) => {
                            let named = ast::Ident::with_quote('"', &column.name);
                            scope.output(&Expr::Identifier(named))?.0
                        }
                    };
                    items.push(OutputItem {
                        name: column.name.clone(),
                        expression,
                        column_type: Some(column.column_type),
                    });
                }
            }
            SelectItem::Expression {
                expression, name, ..
            } => {
                let (expression, column_type) = scope.output(expression)?;
                items.push(OutputItem {
                    name: name.clone(),
                    expression,
                    column_type,
                });
            }
        }
    }
    Ok(items)
}

/// Binds the keys of an `ORDER BY`: an output's name has precedence over a column of that name.
pub(super) fn sort_keys(
    order: &[OrderItem],
    items: &[OutputItem],
    written: &[SelectItem],
    scope: &Scope<'_>,
) -> Result<Vec<SortKey>, SqlError> {
    let keys = order.iter().map(|item| {
        let by_name = |identifier: &ast::Ident| {
            let wanted = name(identifier);
            written.iter().find_map(|it| match it {
                SelectItem::Expression {
                    expression,
                    name,
                    named: true,
                } if *name == wanted => Some(expression),
                _ => None,
            })
        };
        let (expression, column_type) = match &item.expression {
            Expr::Value(value) => match &value.value {
                ast::Value::Number(number, _) => {
                    let output = number.parse::<usize>().ok();
                    let output = output.and_then(|it| items.get(it.checked_sub(1)?));
                    let output = output.ok_or_else(|| {
                        SqlError::with_state(
                            sqlstate::INVALID_REFERENCE,
                            format!(
                                "ORDER BY {number} names no output: there are {}",
                                items.len()
                            ),
                        )
                    })?;
                    (output.expression.clone(), output.column_type)
                }
                _ => scope.output(&item.expression)?,
            },
            Expr::Identifier(identifier) => match by_name(identifier) {
                Some(expression) => scope.output(expression)?,
                None => scope.output(&item.expression)?,
            },
            expression => scope.output(expression)?,
        };
        check_order(column_type)?;
        Ok(SortKey {
            expression,
            descending: item.descending,
            // As PostgreSQL: NULL is larger than everything.
            nulls_first: item.nulls_first.unwrap_or(item.descending),
        })
    });
    keys.collect()
}
