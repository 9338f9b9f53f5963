//! Parses `SELECT` from one table.

use sqlparser::ast::{self, Expr};

use super::{object_name, template};
use crate::bind::{has_aggregate, written_call};
use crate::error::{SqlError, sqlstate};
use crate::spelling::{is_descending, name};
use crate::statement::{OrderItem, Select, SelectItem, TableName};

/// Returns a query of one table, or of constants alone.
pub(super) fn select(mut query: ast::Query, scan: bool) -> Result<Select, SqlError> {
    refuse_query_clauses(&query)?;
    let locks = !query.locks.is_empty();
    let order = order_items(query.order_by.take())?;
    let (limit, offset) = limits(query.limit_clause.take(), query.fetch.take())?;
    let ast::SetExpr::Select(mut select) = *query.body else {
        return Err(SqlError::unsupported(
            "VALUES, UNION, INTERSECT, EXCEPT and nested SELECT",
            "run one SELECT per table",
        ));
    };
    refuse_select_clauses(&select)?;
    let items = std::mem::take(&mut select.projection);
    let items: Vec<SelectItem> = items.into_iter().map(item).collect::<Result<_, _>>()?;
    let from = std::mem::take(&mut select.from);
    let filter = select.selection.take();
    let distinct = match select.distinct.take() {
        None | Some(ast::Distinct::All) => false,
        Some(ast::Distinct::Distinct) => true,
        Some(ast::Distinct::On(_)) => {
            return Err(SqlError::unsupported(
                "DISTINCT ON",
                "write GROUP BY and min() or max()",
            ));
        }
    };
    let group_by = groups(&mut select.group_by)?;
    let having = select.having.take();
    // The one hint there is was read from the tokens; others mean nothing, as in PostgreSQL.
    select.optimizer_hints.clear();
    let ast::Statement::Query(blank) = template("SELECT 1") else {
        unreachable!("the template selects");
    };
    let ast::SetExpr::Select(mut blank) = *blank.body else {
        unreachable!("the template selects");
    };
    blank.projection.clear();
    if select != blank {
        return Err(SqlError::unsupported(
            "a clause of this SELECT",
            "write SELECT columns FROM table WHERE … ORDER BY … LIMIT … OFFSET …",
        ));
    }
    let table = match &from[..] {
        [] => None,
        [table] => Some(table_name(table)?),
        _ => return Err(joins()),
    };
    if items.is_empty() {
        return Err(SqlError::statement(
            "SELECT returns nothing: name columns, * or aggregates",
        ));
    }
    Ok(Select {
        table,
        items,
        distinct,
        filter,
        group_by,
        having,
        order,
        limit,
        offset,
        scan,
        locks,
    })
}

/// Returns the only table of a statement.
pub(super) fn table_name(table: &ast::TableWithJoins) -> Result<TableName, SqlError> {
    if !table.joins.is_empty() {
        return Err(joins());
    }
    let unsupported = || {
        SqlError::unsupported(
            format!("\"{table}\" as a table"),
            "name one table, with an alias if you like",
        )
    };
    let ast::TableFactor::Table {
        name: object,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = &table.relation
    else {
        return Err(unsupported());
    };
    let alias_columns = alias.as_ref().is_some_and(|it| !it.columns.is_empty());
    if alias_columns || !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty()
    {
        return Err(unsupported());
    }
    Ok(TableName {
        name: object_name(object)?,
        alias: alias.as_ref().map(|it| name(&it.name)),
    })
}

fn joins() -> SqlError {
    SqlError::unsupported(
        "a join of tables",
        "run one SELECT per table, or keep the columns in one table",
    )
}

fn refuse_query_clauses(query: &ast::Query) -> Result<(), SqlError> {
    let refused = [
        (query.with.is_some(), "WITH", "run one SELECT per table"),
        (
            query.locks.iter().any(|lock| lock.nonblock.is_some()),
            "FOR UPDATE with NOWAIT or SKIP LOCKED",
            "no rows are locked: a COMMIT checks that the rows which were read have not changed",
        ),
        (
            query.for_clause.is_some()
                || query.settings.is_some()
                || query.format_clause.is_some()
                || !query.pipe_operators.is_empty(),
            "a clause after the SELECT",
            "end it with ORDER BY, LIMIT or OFFSET",
        ),
    ];
    refuse(&refused)
}

fn refuse_select_clauses(select: &ast::Select) -> Result<(), SqlError> {
    let refused = [
        (
            select.into.is_some(),
            "SELECT INTO",
            "export the rows and import them",
        ),
        (
            !select.named_window.is_empty(),
            "WINDOW",
            "export the rows and compute it there",
        ),
    ];
    refuse(&refused)
}

fn refuse(clauses: &[(bool, &str, &str)]) -> Result<(), SqlError> {
    match clauses.iter().find(|(there, ..)| *there) {
        Some((_, what, remedy)) => Err(SqlError::unsupported(*what, *remedy)),
        None => Ok(()),
    }
}

/// Returns the expressions after `RETURNING`.
pub(super) fn returning(items: Option<Vec<ast::SelectItem>>) -> Result<Vec<SelectItem>, SqlError> {
    let items = items.unwrap_or_default().into_iter().map(item);
    let items: Vec<SelectItem> = items.collect::<Result<_, _>>()?;
    let mut kinds = items.iter();
    let is_aggregate = |it: &SelectItem| match it {
        SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => false,
        SelectItem::Expression { expression, .. } => has_aggregate(expression),
    };
    if kinds.any(is_aggregate) {
        return Err(SqlError::with_state(
            sqlstate::GROUPING,
            "aggregate functions are not allowed in RETURNING: SELECT them afterwards",
        ));
    }
    Ok(items)
}

fn item(item: ast::SelectItem) -> Result<SelectItem, SqlError> {
    let unsupported = |item: &dyn std::fmt::Display| {
        SqlError::unsupported(
            format!("\"{item}\" among the items of a result"),
            "name columns, expressions over them, * or aggregates",
        )
    };
    let plain = ast::WildcardAdditionalOptions::default();
    match item {
        ast::SelectItem::Wildcard(options)
        | ast::SelectItem::QualifiedWildcard(
            ast::SelectItemQualifiedWildcardKind::ObjectName(_),
            options,
        ) if options == plain => Ok(SelectItem::All),
        ast::SelectItem::UnnamedExpr(expression) => {
            let output = output_name(&expression);
            Ok(SelectItem::Expression {
                expression,
                name: output,
                named: false,
            })
        }
        ast::SelectItem::ExprWithAlias { expr, alias } => {
            let name = name(&alias);
            Ok(SelectItem::Expression {
                expression: expr,
                name,
                named: true,
            })
        }
        other => Err(unsupported(&other)),
    }
}

/// Returns the name that PostgreSQL gives an output without one.
fn output_name(expression: &Expr) -> String {
    match expression {
        Expr::Identifier(column) => name(column),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, name),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => output_name(inner),
        Expr::Function(function) => {
            let parts = function.name.0.last().and_then(|part| part.as_ident());
            parts.map_or_else(String::new, name)
        }
        Expr::Case { else_result, .. } => match else_result.as_deref() {
            Some(column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => {
                output_name(column)
            }
            Some(call @ Expr::Function(_)) => output_name(call),
            _ => "case".to_string(),
        },
        Expr::Position { .. } => "position".to_string(),
        Expr::Substring {
            shorthand: true, ..
        } => "substr".to_string(),
        expression => match written_call(expression) {
            Some(call) => call.function.name().to_string(),
            None => "?column?".to_string(),
        },
    }
}

/// Takes the expressions of a GROUP BY.
fn groups(group_by: &mut ast::GroupByExpr) -> Result<Vec<Expr>, SqlError> {
    let refused = |what: &str| {
        SqlError::unsupported(
            what,
            "name the columns after GROUP BY, in one SELECT per grouping",
        )
    };
    match group_by {
        ast::GroupByExpr::Expressions(expressions, modifiers) if modifiers.is_empty() => {
            let expressions = std::mem::take(expressions);
            match expressions.iter().find(|it| {
                matches!(
                    it,
                    Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) | Expr::Tuple(_)
                )
            }) {
                Some(set) => Err(refused(&format!("GROUP BY {set}"))),
                None => Ok(expressions),
            }
        }
        ast::GroupByExpr::Expressions(..) => Err(refused("GROUP BY … WITH")),
        ast::GroupByExpr::All(_) => Err(refused("GROUP BY ALL")),
    }
}

fn order_items(order: Option<ast::OrderBy>) -> Result<Vec<OrderItem>, SqlError> {
    let Some(order) = order else {
        return Ok(Vec::new());
    };
    let ast::OrderByKind::Expressions(items) = order.kind else {
        return Err(SqlError::unsupported("ORDER BY ALL", "name the columns"));
    };
    let items = items.into_iter().map(|item| {
        Ok(OrderItem {
            descending: is_descending(&item.options)?,
            expression: item.expr,
            nulls_first: item.options.nulls_first,
        })
    });
    items.collect()
}

type Limits = (Option<Expr>, Option<Expr>);

fn limits(clause: Option<ast::LimitClause>, fetch: Option<ast::Fetch>) -> Result<Limits, SqlError> {
    let unsupported =
        || SqlError::unsupported("this form of LIMIT", "write LIMIT count OFFSET count");
    let (mut limit, offset) = match clause {
        None => (None, None),
        Some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => (limit, offset.map(|it| it.value)),
        Some(_) => return Err(unsupported()),
    };
    match fetch {
        None => {}
        Some(ast::Fetch {
            with_ties: false,
            percent: false,
            quantity,
        }) if limit.is_none() => {
            let one = || Expr::value(ast::Value::Number("1".to_string(), false));
            limit = Some(quantity.unwrap_or_else(one));
        }
        Some(_) => return Err(unsupported()),
    }
    Ok((limit, offset))
}
