//! Parses `SELECT` from one table.

use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::{object_name, template};
use crate::bind::written_call;
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;
use crate::statement::{AggregateFunction, OrderItem, Select, SelectItem, TableName};

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
    let is_aggregate = |it: &SelectItem| matches!(it, SelectItem::Aggregate { .. });
    if items.iter().any(is_aggregate) && !items.iter().all(is_aggregate) {
        return Err(SqlError::unsupported(
            "an aggregate beside other items",
            "select aggregates in one statement, and columns in another",
        ));
    }
    if items.is_empty() {
        return Err(SqlError::statement(
            "SELECT returns nothing: name columns, * or aggregates",
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

/// Returns the expressions after `RETURNING`.
pub(super) fn returning(items: Option<Vec<ast::SelectItem>>) -> Result<Vec<SelectItem>, SqlError> {
    let items = items.unwrap_or_default().into_iter().map(item);
    let items: Vec<SelectItem> = items.collect::<Result<_, _>>()?;
    let mut kinds = items.iter();
    if kinds.any(|it| matches!(it, SelectItem::Aggregate { .. })) {
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
            if let Some((function, argument)) = aggregate(&expression)? {
                return Ok(SelectItem::Aggregate {
                    function,
                    argument,
                    name: output,
                });
            }
            Ok(SelectItem::Expression {
                expression,
                name: output,
                named: false,
            })
        }
        ast::SelectItem::ExprWithAlias { expr, alias } => {
            let name = name(&alias);
            if let Some((function, argument)) = aggregate(&expr)? {
                return Ok(SelectItem::Aggregate {
                    function,
                    argument,
                    name,
                });
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

/// Returns the function and the argument of an aggregate; none if the expression is none. The
/// argument of `count(*)` is none. Other aggregates are refused here, by name.
fn aggregate(expression: &Expr) -> Result<Option<(AggregateFunction, Option<Expr>)>, SqlError> {
    let Expr::Function(function) = expression else {
        return Ok(None);
    };
    let name = function.name.to_string().to_lowercase();
    let refused = ["avg", "sum", "array_agg", "string_agg"];
    let mut known = AggregateFunction::ALL.into_iter();
    let known = known.find(|it| it.name() == name);
    let unsupported = |remedy| Err(SqlError::unsupported(format!("{expression}"), remedy));
    let Some(known) = known else {
        return match refused.contains(&name.as_str()) {
            true => unsupported("the aggregates are count, min and max"),
            false => Ok(None),
        };
    };
    let ast::Function {
        args: FunctionArguments::List(list),
        filter: None,
        over: None,
        null_treatment: None,
        parameters: FunctionArguments::None,
        uses_odbc_syntax: false,
        ..
    } = function
    else {
        return unsupported("write FILTER as a WHERE, and no OVER");
    };
    // The smallest and the largest value are the same with and without duplicates.
    let is_distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    if known == AggregateFunction::Count && is_distinct {
        return unsupported("export the rows and count the distinct values there");
    }
    match &list.args[..] {
        _ if !list.clauses.is_empty() || !function.within_group.is_empty() => {
            unsupported("write ORDER BY after the WHERE")
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
            if known == AggregateFunction::Count && list.duplicate_treatment.is_none() =>
        {
            Ok(Some((known, None)))
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => {
            Ok(Some((known, Some(argument.clone()))))
        }
        _ => unsupported("name one column or expression"),
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
