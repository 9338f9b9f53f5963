//! Parses the further table of an `UPDATE … FROM` or a `DELETE … USING`: a table, `(VALUES …)` or
//! `unnest(…)`. Joins of more tables and other subqueries are refused.

use sqlparser::ast::{self, Expr};

use super::query::table_name;
use super::values::is_only_values;
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;
use crate::statement::{FromItem, SelectItem};

/// Returns the further table of a change, and leaves nothing of it in the statement.
pub(super) fn from_item(
    tables: Option<Vec<ast::TableWithJoins>>,
) -> Result<Option<FromItem>, SqlError> {
    let Some(mut tables) = tables else {
        return Ok(None);
    };
    let [table] = &mut tables[..] else {
        return Err(too_many_tables());
    };
    if !table.joins.is_empty() {
        return Err(too_many_tables());
    }
    match &mut table.relation {
        ast::TableFactor::Derived {
            lateral: false,
            subquery,
            alias,
            sample: None,
        } => values(subquery, alias.as_ref()).map(Some),
        ast::TableFactor::UNNEST {
            alias,
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        } => {
            let arrays = std::mem::take(array_exprs);
            unnest(arrays, alias.as_ref()).map(Some)
        }
        _ => table_name(table).map(FromItem::Table).map(Some),
    }
}

/// Names the table of each `t.*` among the items of a change with two tables.
pub(super) fn name_wildcards(
    written: Option<&Vec<ast::SelectItem>>,
    items: &mut [SelectItem],
) -> Result<(), SqlError> {
    let written = written.into_iter().flatten();
    for (written, item) in written.zip(items) {
        if let ast::SelectItem::QualifiedWildcard(
            ast::SelectItemQualifiedWildcardKind::ObjectName(table),
            _,
        ) = written
        {
            *item = SelectItem::AllOf(super::object_name(table)?);
        }
    }
    Ok(())
}

fn too_many_tables() -> SqlError {
    SqlError::unsupported(
        "an UPDATE or DELETE with joins of more than two tables",
        "name one table after FROM or USING, and read the others before",
    )
}

fn values(
    subquery: &mut ast::Query,
    alias: Option<&ast::TableAlias>,
) -> Result<FromItem, SqlError> {
    let unsupported = || {
        SqlError::unsupported(
            "a subquery after FROM or USING",
            "name a table, or write (VALUES (…), (…)) AS name (columns)",
        )
    };
    let ast::SetExpr::Values(values) = &mut *subquery.body else {
        return Err(unsupported());
    };
    let rows = std::mem::take(&mut values.rows);
    if !is_only_values(subquery) {
        return Err(unsupported());
    }
    let rows: Vec<Vec<Expr>> = rows.into_iter().map(|row| row.content).collect();
    let width = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|row| row.len() != width) {
        return Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "VALUES lists must all be the same length",
        ));
    }
    let Some(alias) = alias else {
        return Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "VALUES in FROM must have an alias: write (VALUES (…), (…)) AS name (columns)",
        ));
    };
    let columns = columns(alias, (0..width).map(|it| format!("column{}", it + 1)))?;
    Ok(FromItem::Values {
        name: name(&alias.name),
        columns,
        rows,
    })
}

fn unnest(arrays: Vec<Expr>, alias: Option<&ast::TableAlias>) -> Result<FromItem, SqlError> {
    let function = || "unnest".to_string();
    let Some(alias) = alias else {
        return Ok(FromItem::Unnest {
            name: function(),
            columns: arrays.iter().map(|_| function()).collect(),
            arrays,
        });
    };
    // The alias of a function with one column names the column, too.
    let column = match arrays.len() {
        1 => name(&alias.name),
        _ => function(),
    };
    let columns = columns(alias, arrays.iter().map(|_| column.clone()))?;
    Ok(FromItem::Unnest {
        name: name(&alias.name),
        columns,
        arrays,
    })
}

/// Returns the names of columns: those of the alias, and then the usual ones.
fn columns(
    alias: &ast::TableAlias,
    usual: impl ExactSizeIterator<Item = String>,
) -> Result<Vec<String>, SqlError> {
    let table = name(&alias.name);
    if alias.columns.iter().any(|it| it.data_type.is_some()) {
        return Err(SqlError::unsupported(
            format!("a type among the columns of {table}"),
            "convert the values, as in VALUES (1::bigint)",
        ));
    }
    if alias.columns.len() > usual.len() {
        return Err(SqlError::with_state(
            sqlstate::INVALID_REFERENCE,
            format!(
                "table \"{table}\" has {} columns available but {} columns specified",
                usual.len(),
                alias.columns.len()
            ),
        ));
    }
    let named = alias.columns.iter().map(|it| name(&it.name));
    Ok(named.chain(usual.skip(alias.columns.len())).collect())
}
