//! Plans statements that compute their results from groups of rows: `GROUP BY`, `HAVING`,
//! `DISTINCT`, and aggregates of all rows that match.
//!
//! | statement | groups |
//! |---|---|
//! | aggregates alone | one, also of no rows |
//! | `GROUP BY a, b` | one for each pair of values of which there is a row |
//! | `GROUP BY` the primary key | the same; every other column belongs to its group |
//! | `DISTINCT` without aggregates | one for each row of the result |
//! | `DISTINCT` of groups | as without it; equal rows of the result are returned once |
//!
//! The results are computed from one row per group, which `bind/aggregate.rs` describes.

use std::ops::ControlFlow;

use placement::{Column, ColumnType, Schema};
use protocol::configuration::PlacedTable;
use protocol::expression::Expression;
use sqlparser::ast::{self, Expr};

use super::outputs::{output_items, sort_keys};
use super::reading::Scan;
use super::{AggregatePlan, Context, OutputItem, SortKey, aggregate, text};
use crate::bind::{
    GroupRow, Scope, WalkEnd, check_order, has_aggregate, refuse_aggregates, too_deep,
    unknown_column, walk, written_aggregate,
};
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;
use crate::statement::{Select, SelectItem};

/// The limits of a result: the most rows, and the rows to skip first.
pub(super) type RowLimits = (Option<u64>, u64);

/// Returns whether the results of a statement are computed from groups of rows.
pub(super) fn is_grouped(select: &Select) -> bool {
    let is_grouped = select.distinct || !select.group_by.is_empty() || select.having.is_some();
    is_grouped || has_aggregates(select)
}

fn has_aggregates(select: &Select) -> bool {
    expressions(select).any(has_aggregate)
}

/// Plans a statement whose results are computed from groups of rows. `conjuncts` are the conditions
/// of the rows.
pub(super) fn plan(
    select: &Select,
    table: Option<&PlacedTable>,
    (scope, conjuncts): (&Scope<'_>, Vec<Expression>),
    (limit, offset): RowLimits,
    reading: (Scan, &Context<'_>),
) -> Result<AggregatePlan, SqlError> {
    let is_distinct_rows =
        select.group_by.is_empty() && select.having.is_none() && !has_aggregates(select);
    let (row, items, order, having) = if is_distinct_rows {
        let (row, items, order) = distinct_rows(select, scope)?;
        (row, items, order, None)
    } else {
        let row = group_row(select, scope)?;
        let groups = Scope {
            groups: Some(&row),
            ..*scope
        };
        let items = output_items(&select.items, &groups)?;
        let order = sort_keys(&select.order, &items, &select.items, &groups)?;
        if select.distinct {
            for item in &items {
                check_order(item.column_type)?;
            }
            let mut keys = order.iter().map(|key| &key.expression);
            if !keys.all(|key| items.iter().any(|item| item.expression == *key)) {
                return Err(order_of_distinct());
            }
        }
        let having = match &select.having {
            Some(having) => Expression::all(groups.condition(having)?),
            None => None,
        };
        (row, items, order, having)
    };
    let names = row.columns.iter().map(|column| column.name.clone());
    let mut plan = AggregatePlan {
        reads: Vec::new(),
        has_keys: is_distinct_rows || !select.group_by.is_empty(),
        names: names.collect(),
        keys: row.keys,
        aggregates: row.aggregates.into_iter().map(aggregate::call).collect(),
        having,
        items,
        distinct: select.distinct && !is_distinct_rows,
        order,
        limit,
        offset,
    };
    match table {
        Some(table) => aggregate::add_reads(&mut plan, table, conjuncts, reading),
        // Constants other than true are false or NULL.
        None if !conjuncts.is_empty() => plan.limit = Some(0),
        None => {}
    }
    Ok(plan)
}

/// Returns the row of the groups of a statement: its keys and all aggregates that it names.
fn group_row(select: &Select, scope: &Scope<'_>) -> Result<GroupRow, SqlError> {
    let mut row = GroupRow::default();
    for written in &select.group_by {
        let written = key(written, select, scope)?;
        refuse_aggregates(written, "GROUP BY")?;
        let (key, found) = scope.output(written)?;
        let is_constant = matches!(key, Expression::Literal(_));
        if !is_constant && !row.keys.contains(&key) {
            check_order(found)?;
            add_key(&mut row, key, found, scope.schema);
        }
    }
    if let Some(schema) = scope.schema {
        let is_key = |it: &usize| row.keys.contains(&column(*it));
        if schema.primary_key.iter().all(is_key) {
            for named in named_columns(select, schema) {
                if !row.keys.contains(&column(named)) {
                    let found = Some(schema.columns[named].column_type);
                    add_key(&mut row, column(named), found, scope.schema);
                }
            }
        }
    }
    for expression in expressions(select) {
        let walked = walk(expression, |part| match gather(part, &mut row, scope) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        match walked {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(WalkEnd::Stopped(error)) => return Err(error),
            ControlFlow::Break(WalkEnd::TooDeep) => return Err(too_deep()),
        }
    }
    let columns = row.aggregates.iter().map(|aggregate| Column {
        name: aggregate.function.name().to_string(),
        column_type: aggregate.column_type,
        nullable: true,
        default: None,
        missing: None,
    });
    row.columns.extend(columns.collect::<Vec<_>>());
    Ok(row)
}

/// Adds the aggregate that an expression is, if it is one.
fn gather(expression: &Expr, row: &mut GroupRow, scope: &Scope<'_>) -> Result<(), SqlError> {
    if let Some(written) = written_aggregate(expression)? {
        let bound = scope.aggregate(&written)?;
        if !row.aggregates.contains(&bound) {
            row.aggregates.push(bound);
        }
    }
    Ok(())
}

/// Returns the expression that a key after `GROUP BY` stands for: a column has precedence over an
/// output of its name.
fn key<'s>(written: &'s Expr, select: &'s Select, scope: &Scope<'_>) -> Result<&'s Expr, SqlError> {
    let output = |item: &'s SelectItem| match item {
        SelectItem::Expression { expression, .. } => Some(expression),
        SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => None,
    };
    match written {
        Expr::Nested(inner) => key(inner, select, scope),
        Expr::Value(value) => match &value.value {
            ast::Value::Number(number, _) => {
                let position = number.parse::<usize>().ok();
                let item = position.and_then(|it| select.items.get(it.checked_sub(1)?));
                item.and_then(output).ok_or_else(|| {
                    SqlError::with_state(
                        sqlstate::INVALID_REFERENCE,
                        format!("GROUP BY position {number} is not in select list"),
                    )
                })
            }
            ast::Value::Placeholder(_) => Ok(written),
            _ => Err(SqlError::with_state(
                sqlstate::SYNTAX,
                "non-integer constant in GROUP BY",
            )),
        },
        Expr::Identifier(identifier) => {
            let wanted = name(identifier);
            let schema = scope.schema;
            if schema.is_some_and(|it| it.column_index(&wanted).is_some()) {
                return Ok(written);
            }
            let named = select.items.iter().find(|item| match item {
                SelectItem::Expression { name, named, .. } => *named && *name == wanted,
                SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => false,
            });
            match (named.and_then(output), schema) {
                (Some(expression), _) => Ok(expression),
                (None, Some(schema)) => Err(unknown_column(schema, &wanted)),
                (None, None) => Ok(written),
            }
        }
        _ => Ok(written),
    }
}

/// Returns the groups of a `SELECT DISTINCT` of rows: its outputs are the keys.
fn distinct_rows(
    select: &Select,
    scope: &Scope<'_>,
) -> Result<(GroupRow, Vec<OutputItem>, Vec<SortKey>), SqlError> {
    let mut row = GroupRow::default();
    let mut items = output_items(&select.items, scope)?;
    let mut order = sort_keys(&select.order, &items, &select.items, scope)?;
    for item in &mut items {
        check_order(item.column_type)?;
        let known = row.keys.iter().position(|key| *key == item.expression);
        let position = known.unwrap_or_else(|| {
            let key = item.expression.clone();
            add_key(&mut row, key, item.column_type, scope.schema);
            row.keys.len() - 1
        });
        item.expression = column(position);
    }
    for key in &mut order {
        let position = row.keys.iter().position(|it| *it == key.expression);
        key.expression = column(position.ok_or_else(order_of_distinct)?);
    }
    Ok((row, items, order))
}

fn order_of_distinct() -> SqlError {
    SqlError::with_state(
        sqlstate::INVALID_REFERENCE,
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
    )
}

fn add_key(
    row: &mut GroupRow,
    key: Expression,
    found: Option<ColumnType>,
    schema: Option<&Schema>,
) {
    let name = schema.map(|schema| text::expression(schema, &key));
    row.columns.push(Column {
        name: name.unwrap_or_default(),
        column_type: found.unwrap_or(ColumnType::Text),
        nullable: true,
        default: None,
        missing: None,
    });
    row.keys.push(key);
}

/// Returns the positions of the columns that a statement names in what it computes from groups.
fn named_columns(select: &Select, schema: &Schema) -> Vec<usize> {
    if select.items.contains(&SelectItem::All) {
        return schema.visible_positions();
    }
    let mut named = Vec::new();
    for expression in expressions(select) {
        let walked: ControlFlow<WalkEnd<()>> = walk(expression, |part| {
            let column = match part {
                Expr::Identifier(column) => Some(column),
                Expr::CompoundIdentifier(parts) => parts.last(),
                _ => None,
            };
            named.extend(column.and_then(|it| schema.column_index(&name(it))));
            ControlFlow::Continue(())
        });
        if walked.is_break() {
            // It nests too deeply, and is refused when it is bound.
            break;
        }
    }
    named
}

/// Returns the expressions of a statement that are computed from groups.
fn expressions(select: &Select) -> impl Iterator<Item = &Expr> {
    let items = select.items.iter().filter_map(|item| match item {
        SelectItem::Expression { expression, .. } => Some(expression),
        SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => None,
    });
    let order = select.order.iter().map(|key| &key.expression);
    items.chain(&select.having).chain(order)
}

fn column(position: usize) -> Expression {
    Expression::Column(u16::try_from(position).expect("a statement names few columns"))
}
