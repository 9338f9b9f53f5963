//! Plans `SELECT`: the access, the filter and the columns for the partitions, and the remaining
//! work for the client.

use protocol::configuration::PlacedTable;
use protocol::expression::Expression;
use sqlparser::ast::{self, Expr};

use super::access::{Estimates, OrderColumn, ReadRequirements};
use super::reading::{Scan, projection, read, renumber};
use super::{
    AggregatePlan, Context, OutputItem, ReadPlan, SelectPlan, SortKey, StatementPlan, aggregate,
};
use crate::bind::Scope;
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;
use crate::statement::{OrderItem, Select, SelectItem};

/// Plans a `SELECT` of rows or of aggregates.
pub(super) fn plan(select: &Select, context: &Context<'_>) -> Result<StatementPlan, SqlError> {
    let table = select.table.as_ref();
    let table = table.map(|it| Ok::<_, SqlError>((context.table(&it.name)?, it)));
    let table = table.transpose()?;
    let scope = match table {
        Some((table, name)) => context.scope(&table.schema, name),
        None => Scope {
            parameters: context.parameters,
            now_us: Some(context.now_us),
            ..Scope::CONSTANTS
        },
    };
    let limit = match &select.limit {
        Some(limit) => scope.count(limit, "LIMIT")?,
        None => None,
    };
    let offset = match &select.offset {
        Some(offset) => scope.count(offset, "OFFSET")?.unwrap_or(0),
        None => 0,
    };
    let conjuncts = match &select.filter {
        Some(filter) => scope.condition(filter)?,
        None => Vec::new(),
    };
    let scan = Scan::of(select.scan, context);
    if let Some(SelectItem::Aggregate { function, .. }) = select.items.first() {
        let Some((table, _)) = table else {
            return Err(SqlError::statement(format!(
                "{} is computed from the rows of a table: write FROM and its name",
                function.name()
            )));
        };
        let aggregates = aggregate::bind(&select.items, &scope)?;
        let is_returned = limit != Some(0) && offset == 0;
        let reading = (scan, context);
        let plan = aggregate::plan(table, conjuncts, aggregates, reading);
        return Ok(StatementPlan::Aggregate(AggregatePlan {
            is_returned,
            ..plan
        }));
    }
    let items = output_items(&select.items, &scope)?;
    let order = sort_keys(&select.order, &items, &select.items, &scope)?;
    let mut plan = SelectPlan {
        read: None,
        items,
        order,
        ordered_by_index: true,
        limit,
        offset,
    };
    let Some((table, _)) = table else {
        // Constants other than true are false or NULL.
        if !conjuncts.is_empty() {
            plan.limit = Some(0);
        }
        return Ok(StatementPlan::Select(Box::new(plan)));
    };
    read_table(&mut plan, table, conjuncts, (scan, context));
    Ok(StatementPlan::Select(Box::new(plan)))
}

/// Adds the read of a table: the access, the filter there and the columns that are sent.
fn read_table(
    plan: &mut SelectPlan,
    table: &PlacedTable,
    conjuncts: Vec<Expression>,
    (scan, context): (Scan, &Context<'_>),
) {
    let SelectPlan {
        items,
        order,
        limit,
        offset,
        ..
    } = plan;
    let wanted = columns_of(order);
    let rows = limit.map(|it| it.saturating_add(*offset));
    let needed = items.iter().map(|it| &it.expression);
    let needed = needed.chain(order.iter().map(|it| &it.expression));
    let projection = projection(&table.schema, needed);
    let request = ReadRequirements {
        order: wanted.as_deref(),
        rows,
        limited: rows.is_some_and(|rows| rows <= context.settings.scan_rows),
        counted: false,
        columns: projection.as_deref(),
        estimates: Estimates::of(context),
    };
    if let Some(projection) = &projection {
        let expressions = items.iter_mut().map(|it| &mut it.expression);
        for expression in expressions.chain(order.iter_mut().map(|it| &mut it.expression)) {
            renumber(expression, projection);
        }
    }
    let (read, is_ordered) = read(table, conjuncts, request, scan);
    plan.ordered_by_index = is_ordered;
    plan.read = Some(ReadPlan { projection, ..read });
}

/// Binds the items of a result that has no aggregates.
pub(super) fn output_items(
    written: &[SelectItem],
    scope: &Scope<'_>,
) -> Result<Vec<OutputItem>, SqlError> {
    let mut items = Vec::new();
    for item in written {
        match item {
            SelectItem::All => {
                let Some(schema) = scope.schema else {
                    return Err(SqlError::statement(
                        "* means all columns of a table: write FROM and its name",
                    ));
                };
                for (position, column) in schema.columns.iter().enumerate() {
                    items.push(OutputItem {
                        name: column.name.clone(),
                        expression: Expression::Column(position as u16),
                        column_type: Some(column.column_type),
                    });
                }
            }
            SelectItem::Aggregate { .. } => unreachable!("all items are aggregates, or none is"),
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

fn sort_keys(
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
        let expression = match &item.expression {
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
                    output.expression.clone()
                }
                _ => scope.output(&item.expression)?.0,
            },
            Expr::Identifier(identifier) => match by_name(identifier) {
                Some(expression) => scope.output(expression)?.0,
                None => scope.output(&item.expression)?.0,
            },
            expression => scope.output(expression)?.0,
        };
        Ok(SortKey {
            expression,
            descending: item.descending,
            // As PostgreSQL: NULL is larger than everything.
            nulls_first: item.nulls_first.unwrap_or(item.descending),
        })
    });
    keys.collect()
}

/// Returns the order as columns, if it is one of columns alone.
fn columns_of(order: &[SortKey]) -> Option<Vec<OrderColumn>> {
    let columns = order.iter().map(|key| match key.expression {
        Expression::Column(column) => Some(OrderColumn {
            column: usize::from(column),
            descending: key.descending,
            nulls_first: key.nulls_first,
        }),
        _ => None,
    });
    columns.collect()
}
