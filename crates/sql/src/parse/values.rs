//! `INSERT … SELECT … FROM (VALUES …) AS t (columns) [ORDER BY column]`, which ORMs write in place
//! of `INSERT … VALUES`, and `INSERT … SELECT … FROM generate_series(first, last)`. The statement
//! inserts the same rows.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, SelectItem, VisitMut, VisitorMut};

use super::template;
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;

/// The most numbers of a series. Each becomes a row of the parsed statement.
const SERIES_MAX: i128 = 100_000;

/// The rows after `VALUES`.
type ValuesRows = Vec<ast::Parens<Vec<Expr>>>;

/// Returns the rows of a query that reads nothing but rows of constants; none for another query.
///
/// # Errors
/// The constants are a series of too many numbers.
pub(super) fn rows_of_values(
    query: &mut ast::Query,
) -> Result<Option<Vec<Vec<Option<Expr>>>>, SqlError> {
    write_out_series(query)?;
    Ok(rows_of_constants(query))
}

fn rows_of_constants(query: &mut ast::Query) -> Option<Vec<Vec<Option<Expr>>>> {
    // They may be thousands, so the rest of the query is looked at without them.
    let rows = std::mem::take(rows_of_table(query)?);
    let inserted = inserted(query, &rows);
    if inserted.is_none() {
        *rows_of_table(query)? = rows;
    }
    inserted
}

/// Puts `VALUES` with the same rows in place of a series of numbers that is the only table of a
/// query.
fn write_out_series(query: &mut ast::Query) -> Result<(), SqlError> {
    let ast::SetExpr::Select(select) = &mut *query.body else {
        return Ok(());
    };
    let [from] = &mut select.from[..] else {
        return Ok(());
    };
    let Some((bounds, alias)) = series(&from.relation) else {
        return Ok(());
    };
    let [first, last, step] = bounds;
    if step == 0 {
        return Err(SqlError::with_state(
            sqlstate::INVALID_VALUE,
            "step size cannot equal zero: give a step above or below 0",
        ));
    }
    let (way, step) = (i128::from(last) - i128::from(first), i128::from(step));
    let count = match way == 0 || (way > 0) == (step > 0) {
        true => way / step + 1,
        false => 0,
    };
    if count > SERIES_MAX {
        return Err(SqlError::with_state(
            sqlstate::LIMIT,
            format!(
                "a series of {count} numbers is inserted at once: at most {SERIES_MAX} may be, \
                     so insert it in parts"
            ),
        ));
    }
    let numbers = (0..count).map(|place| i128::from(first) + place * step);
    let rows = numbers.map(|number| ast::Parens {
        opening_token: ast::helpers::attached_token::AttachedToken::empty(),
        content: vec![Expr::value(ast::Value::Number(number.to_string(), false))],
        closing_token: ast::helpers::attached_token::AttachedToken::empty(),
    });
    let ast::Statement::Query(mut subquery) = template("VALUES (1)") else {
        unreachable!("the template has values");
    };
    if let ast::SetExpr::Values(values) = &mut *subquery.body {
        values.rows = rows.collect();
    }
    from.relation = ast::TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(alias),
        sample: None,
    };
    Ok(())
}

/// Returns the first and the last number and the step of a table that is a series of constant
/// numbers, and the alias that gives it and its column their names.
fn series(table: &ast::TableFactor) -> Option<([i64; 3], ast::TableAlias)> {
    let ast::TableFactor::Table {
        name: function,
        alias,
        args: Some(arguments),
        with_ordinality: false,
        sample: None,
        ..
    } = table
    else {
        return None;
    };
    let [function] = &function.0[..] else {
        return None;
    };
    let function = function
        .as_ident()
        .filter(|it| name(it) == "generate_series")?;
    let numbers = arguments.args.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(it)) => whole(it),
        _ => None,
    });
    let bounds = match numbers.collect::<Option<Vec<i64>>>()?[..] {
        [first, last] => [first, last, 1],
        [first, last, step] => [first, last, step],
        _ => return None,
    };
    let mut alias = alias.clone().unwrap_or_else(|| ast::TableAlias {
        explicit: true,
        name: function.clone(),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(ast::TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        });
    }
    Some((bounds, alias))
}

/// Returns the whole number that an expression is.
fn whole(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => whole(expr)?.checked_neg(),
        Expr::Nested(inner) => whole(inner),
        _ => None,
    }
}

/// Returns the rows of the `VALUES` that are the only table of a query.
fn rows_of_table(query: &mut ast::Query) -> Option<&mut ValuesRows> {
    let ast::SetExpr::Select(select) = &mut *query.body else {
        return None;
    };
    let [from] = &mut select.from[..] else {
        return None;
    };
    let ast::TableFactor::Derived { subquery, .. } = &mut from.relation else {
        return None;
    };
    match &mut *subquery.body {
        ast::SetExpr::Values(values) => Some(&mut values.rows),
        _ => None,
    }
}

/// Returns the rows that a query inserts whose table has these rows; none for another query.
fn inserted(query: &ast::Query, rows: &ValuesRows) -> Option<Vec<Vec<Option<Expr>>>> {
    let ast::SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let [from] = &select.from[..] else {
        return None;
    };
    let ast::TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(alias),
        sample: None,
    } = &from.relation
    else {
        return None;
    };
    if !from.joins.is_empty() || !is_plain(query) || !is_only_values(subquery) {
        return None;
    }
    let mut rows: Vec<&Vec<Expr>> = rows.iter().map(|row| &row.content).collect();
    let width = rows.first().map_or(alias.columns.len(), |row| row.len());
    let mut all = rows.iter().flat_map(|row| &**row);
    if rows.iter().any(|row| row.len() != width) || all.any(calls_function) {
        return None;
    }
    let names = (0..width).map(|position| match alias.columns.get(position) {
        Some(column) => name(&column.name),
        None => format!("column{}", position + 1),
    });
    let names: Vec<String> = names.collect();
    let table = name(&alias.name);
    if let Some(order) = &query.order_by {
        sort(&mut rows, order, &names)?;
    }
    let inserted = rows.into_iter().map(|row| {
        let items = select.projection.iter().map(|item| {
            let (SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
                item
            else {
                return None;
            };
            let mut values = ValuesOfRow {
                table: &table,
                names: &names,
                row,
            };
            let mut item = item.clone();
            let replaced = VisitMut::visit(&mut item, &mut values);
            matches!(replaced, ControlFlow::Continue(())).then_some(Some(item))
        });
        items.collect::<Option<Vec<Option<Expr>>>>()
    });
    inserted.collect()
}

/// Returns whether an expression calls a function. Its value may differ with each use.
fn calls_function(expression: &Expr) -> bool {
    let found = ast::visit_expressions(expression, |part| match part {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Returns whether a query is a `SELECT` of items, a table and an order, and has no other clause.
fn is_plain(query: &ast::Query) -> bool {
    let mut query = query.clone();
    query.order_by = None;
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.from.clear();
        select.projection.clear();
        select.optimizer_hints.clear();
    }
    let ast::Statement::Query(mut blank) = template("SELECT 1") else {
        unreachable!("the template selects");
    };
    if let ast::SetExpr::Select(select) = &mut *blank.body {
        select.projection.clear();
    }
    query == *blank
}

/// Returns whether a query is `VALUES` alone. Its rows were taken out.
pub(super) fn is_only_values(query: &ast::Query) -> bool {
    let ast::Statement::Query(mut blank) = template("VALUES (1)") else {
        unreachable!("the template has values");
    };
    if let ast::SetExpr::Values(values) = &mut *blank.body {
        values.rows.clear();
    }
    *query == *blank
}

/// Sorts rows by a column of whole numbers. Returns none for another order.
fn sort(rows: &mut [&Vec<Expr>], order: &ast::OrderBy, names: &[String]) -> Option<()> {
    let ast::OrderByKind::Expressions(keys) = &order.kind else {
        return None;
    };
    let [key] = &keys[..] else {
        return None;
    };
    let Expr::Identifier(column) = &key.expr else {
        return None;
    };
    let is_ascending = key.options == ast::OrderByOptions::default()
        && key.with_fill.is_none()
        && order.interpolate.is_none();
    let column = names.iter().position(|known| *known == name(column));
    let column = column.filter(|_| is_ascending)?;
    let number = |row: &Vec<Expr>| match &row[column] {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => text.parse::<i64>().ok(),
            _ => None,
        },
        _ => None,
    };
    if rows.iter().any(|row| number(row).is_none()) {
        return None;
    }
    rows.sort_by_key(|row| number(row));
    Some(())
}

/// Puts the values of a row in place of the names of its columns. Stops at any other name.
struct ValuesOfRow<'a> {
    table: &'a str,
    names: &'a [String],
    row: &'a [Expr],
}

impl VisitorMut for ValuesOfRow<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let column = match &*expression {
            Expr::Identifier(column) => column,
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [table, column] if name(table) == self.table => column,
                _ => return ControlFlow::Break(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        let found = self.names.iter().position(|known| *known == name(column));
        let Some(found) = found else {
            return ControlFlow::Break(());
        };
        *expression = self.row[found].clone();
        ControlFlow::Continue(())
    }
}
