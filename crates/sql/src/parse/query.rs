//! Parses `SELECT` from one table.

use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::{object_name, template};
use crate::error::SqlError;
use crate::spelling::name;
use crate::statement::{OrderItem, Select, SelectItem, TableName};

/// Returns a query of one table, or of constants alone.
pub(super) fn select(mut query: ast::Query, scan: bool) -> Result<Select, SqlError> {
    refuse_query_clauses(&query)?;
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
    let counts = items
        .iter()
        .any(|it| matches!(it, SelectItem::Count { .. }));
    if counts && items.len() > 1 {
        return Err(SqlError::unsupported(
            "count(*) beside other items",
            "select count(*) alone",
        ));
    }
    if items.is_empty() {
        return Err(SqlError::statement(
            "SELECT returns nothing: name columns, * or count(*)",
        ));
    }
    Ok(Select {
        table,
        items,
        filter,
        order,
        limit,
        offset,
        scan,
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
            !query.locks.is_empty(),
            "FOR UPDATE",
            "put the condition into the WHERE of an UPDATE: it is checked atomically",
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
    let groups = match &select.group_by {
        ast::GroupByExpr::Expressions(expressions, modifiers) => {
            !expressions.is_empty() || !modifiers.is_empty()
        }
        ast::GroupByExpr::All(_) => true,
    };
    let refused = [
        (groups, "GROUP BY", "export the rows and group them there"),
        (
            select.having.is_some(),
            "HAVING",
            "export the rows and group them there",
        ),
        (
            select.distinct.is_some(),
            "DISTINCT",
            "select the primary key as well: its rows are distinct",
        ),
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

fn item(item: ast::SelectItem) -> Result<SelectItem, SqlError> {
    let unsupported = |item: &dyn std::fmt::Display| {
        SqlError::unsupported(
            format!("\"{item}\" after SELECT"),
            "name columns, expressions over them, * or count(*)",
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
            if is_count(&expression)? {
                let name = "count".to_string();
                return Ok(SelectItem::Count { name });
            }
            let output = output_name(&expression);
            Ok(SelectItem::Expression {
                expression,
                name: output,
                named: false,
            })
        }
        ast::SelectItem::ExprWithAlias { expr, alias } => {
            let name = name(&alias);
            if is_count(&expr)? {
                return Ok(SelectItem::Count { name });
            }
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
        Expr::Function(function) => function.name.to_string().to_lowercase(),
        _ => "?column?".to_string(),
    }
}

/// Returns whether this is `count(*)`; other aggregates are refused here, by name.
fn is_count(expression: &Expr) -> Result<bool, SqlError> {
    let Expr::Function(function) = expression else {
        return Ok(false);
    };
    let name = function.name.to_string().to_lowercase();
    let aggregates = [
        "avg",
        "count",
        "max",
        "min",
        "sum",
        "array_agg",
        "string_agg",
    ];
    if !aggregates.contains(&name.as_str()) {
        return Ok(false);
    }
    if let FunctionArguments::List(list) = &function.args
        && name == "count"
        && list.duplicate_treatment.is_none()
        && function.filter.is_none()
        && function.over.is_none()
        && let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = list.args[..]
    {
        return Ok(true);
    }
    Err(SqlError::unsupported(
        format!("{expression}"),
        "the only aggregate is count(*); ORDER BY with LIMIT 1 finds a smallest or largest row",
    ))
}

fn order_items(order: Option<ast::OrderBy>) -> Result<Vec<OrderItem>, SqlError> {
    let Some(order) = order else {
        return Ok(Vec::new());
    };
    let ast::OrderByKind::Expressions(items) = order.kind else {
        return Err(SqlError::unsupported("ORDER BY ALL", "name the columns"));
    };
    let items = items.into_iter().map(|item| {
        let descending = match item.options.sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(ast::OrderBySort::Using(_)) => {
                return Err(SqlError::unsupported(
                    "ORDER BY … USING",
                    "write ASC or DESC",
                ));
            }
        };
        Ok(OrderItem {
            expression: item.expr,
            descending,
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
