//! Parses `INSERT`, `UPDATE` and `DELETE`.

use sqlparser::ast::{self, Expr};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::from_item::{from_item, name_wildcards};
use super::query::{returning, select, table_name};
use super::values::rows_of_values;
use super::{object_name, template};
use crate::error::{SqlError, SyntaxError, sqlstate};
use crate::script::is_space;
use crate::spelling::name;
use crate::statement::{
    ConflictUpdate, Delete, Insert, OnConflict, Overriding, SelectItem, SetColumn, TableName,
    Update,
};

/// Parses `INSERT INTO table (columns) VALUES …` and `INSERT INTO table (columns) SELECT …`.
pub(super) fn insert(mut insert: ast::Insert, scan: bool) -> Result<Insert, SqlError> {
    let ast::TableObject::TableName(table) = &insert.table else {
        return Err(SqlError::unsupported(
            "INSERT into a function",
            "name a table",
        ));
    };
    let table = TableName {
        name: object_name(table)?,
        alias: insert.table_alias.take().map(|it| name(&it.alias)),
    };
    let returning = returning(insert.returning.take())?;
    let columns = std::mem::take(&mut insert.columns);
    let columns: Vec<String> = columns.iter().map(object_name).collect::<Result<_, _>>()?;
    let source = insert.source.take();
    insert.optimizer_hints.clear();
    let on_conflict = insert.on.take().map(on_conflict).transpose()?;
    let ast::Statement::Insert(mut blank) = template("INSERT INTO t VALUES (1)") else {
        unreachable!("the template inserts");
    };
    blank.source = None;
    blank.table = insert.table.clone();
    if insert != blank {
        return Err(SqlError::unsupported(
            "this form of INSERT",
            "write INSERT INTO table (columns) VALUES (…), (…) or SELECT … [ON CONFLICT …] [RETURNING …]",
        ));
    }
    let (rows, select) = match source {
        // `INSERT INTO t DEFAULT VALUES`
        None => (vec![Vec::new()], None),
        Some(mut source) => match *source.body {
            ast::SetExpr::Values(_) => (rows(*source)?, None),
            _ => match rows_of_values(&mut source)? {
                Some(rows) => (rows, None),
                None => (Vec::new(), Some(Box::new(select(*source, scan)?))),
            },
        },
    };
    Ok(Insert {
        table,
        columns: (!columns.is_empty()).then_some(columns),
        overriding: None,
        rows,
        select,
        on_conflict,
        returning,
    })
}

/// Parses `UPDATE table SET … [FROM table] WHERE …`
pub(super) fn update(mut update: ast::Update, scan: bool) -> Result<Update, SqlError> {
    let table = table_name(&update.table)?;
    let tables = match update.from.take() {
        Some(ast::UpdateTableFromKind::AfterSet(tables)) => Some(tables),
        before_set => {
            update.from = before_set;
            None
        }
    };
    let from = from_item(tables)?;
    let returning = returned(update.returning.take(), from.is_some())?;
    let assignments = assignments(std::mem::take(&mut update.assignments))?;
    let filter = update.selection.take();
    update.optimizer_hints.clear();
    let ast::Statement::Update(mut blank) = template("UPDATE t SET c = 1") else {
        unreachable!("the template updates");
    };
    blank.assignments.clear();
    blank.table = update.table.clone();
    if update != blank {
        return Err(SqlError::unsupported(
            "this form of UPDATE",
            "write UPDATE table SET column = value [FROM table] WHERE …",
        ));
    }
    Ok(Update {
        table,
        assignments,
        from,
        filter,
        scan,
        returning,
    })
}

/// Parses `DELETE FROM table [USING table] WHERE …`
pub(super) fn delete(mut delete: ast::Delete, scan: bool) -> Result<Delete, SqlError> {
    let tables = match &delete.from {
        ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables) => tables,
    };
    let [table] = &tables[..] else {
        return Err(SqlError::unsupported(
            "DELETE from several tables",
            "run one DELETE per table",
        ));
    };
    let table = table_name(table)?;
    let using = from_item(delete.using.take())?;
    let returning = returned(delete.returning.take(), using.is_some())?;
    let filter = delete.selection.take();
    delete.optimizer_hints.clear();
    let ast::Statement::Delete(mut blank) = template("DELETE FROM t") else {
        unreachable!("the template deletes");
    };
    blank.from = delete.from.clone();
    if delete != blank {
        return Err(SqlError::unsupported(
            "this form of DELETE",
            "write DELETE FROM table [USING table] WHERE …",
        ));
    }
    Ok(Delete {
        table,
        using,
        filter,
        scan,
        returning,
    })
}

/// Returns the expressions after `RETURNING` of a change of one or of two tables.
fn returned(
    written: Option<Vec<ast::SelectItem>>,
    of_two_tables: bool,
) -> Result<Vec<SelectItem>, SqlError> {
    let mut items = returning(written.clone())?;
    if of_two_tables {
        name_wildcards(written.as_ref(), &mut items)?;
    }
    Ok(items)
}

/// Takes `OVERRIDING SYSTEM VALUE` or `OVERRIDING USER VALUE` out of an `INSERT`, where it stands
/// before the new rows.
pub(super) fn take_overriding(
    mut tokens: Vec<TokenWithSpan>,
) -> (Vec<TokenWithSpan>, Option<Overriding>) {
    let significant = tokens.iter().enumerate();
    let significant: Vec<(usize, String)> = significant
        .filter_map(|(position, token)| match &token.token {
            Token::Word(word) if word.quote_style.is_none() => {
                Some((position, word.value.to_ascii_lowercase()))
            }
            token if is_space(token) => None,
            _ => Some((position, String::new())),
        })
        .collect();
    if significant.first().is_none_or(|(_, word)| word != "insert") {
        return (tokens, None);
    }
    let found = significant.windows(4).find_map(|words| {
        let [first, second, third, next] = words else {
            return None;
        };
        let overriding = match second.1.as_str() {
            "system" => Overriding::System,
            "user" => Overriding::User,
            _ => return None,
        };
        let begins_rows = matches!(
            next.1.as_str(),
            "values" | "select" | "default" | "with" | ""
        );
        let is_clause = first.1 == "overriding" && third.1 == "value" && begins_rows;
        is_clause.then_some((first.0..=third.0, overriding))
    });
    let Some((clause, overriding)) = found else {
        return (tokens, None);
    };
    tokens.drain(clause);
    (tokens, Some(overriding))
}

fn rows(source: ast::Query) -> Result<Vec<Vec<Option<Expr>>>, SqlError> {
    let extras = source.order_by.is_some()
        || source.limit_clause.is_some()
        || source.fetch.is_some()
        || source.with.is_some();
    match *source.body {
        ast::SetExpr::Values(values) if !extras => Ok(values
            .rows
            .into_iter()
            .map(|row| row.content.into_iter().map(value_or_default).collect())
            .collect()),
        _ => Err(SqlError::unsupported(
            "a clause after the VALUES of an INSERT",
            "write INSERT INTO table (columns) VALUES (…), (…) [ON CONFLICT …] [RETURNING …]",
        )),
    }
}

/// Returns the error of a statement, which may assign to an element of an array.
pub(super) fn of_element(error: SyntaxError) -> SqlError {
    if error.message.starts_with("expected: =, found: [") {
        return SqlError::unsupported(
            "an assignment to an element of an array",
            "assign the whole array, as in SET a = array_replace(a, 1, 2)",
        );
    }
    error.into()
}

fn assignments(assignments: Vec<ast::Assignment>) -> Result<Vec<SetColumn>, SqlError> {
    let mut all: Vec<SetColumn> = Vec::with_capacity(assignments.len());
    let set = |column: &ast::ObjectName, value| {
        Ok::<_, SqlError>(SetColumn {
            column: object_name(column)?,
            value: value_or_default(value),
        })
    };
    for assignment in assignments {
        match (assignment.target, assignment.value) {
            (ast::AssignmentTarget::ColumnName(column), value) => {
                all.push(set(&column, value)?);
            }
            (ast::AssignmentTarget::Tuple(columns), Expr::Tuple(values))
                if columns.len() == values.len() =>
            {
                for (column, value) in columns.iter().zip(values) {
                    all.push(set(column, value)?);
                }
            }
            (target, _) => {
                return Err(SqlError::with_state(
                    sqlstate::SYNTAX,
                    format!(
                        "{target} takes as many values as it has columns: write (a, b) = (1, 2)"
                    ),
                ));
            }
        }
    }
    for (position, SetColumn { column, .. }) in all.iter().enumerate() {
        if all[..position].iter().any(|other| other.column == *column) {
            return Err(SqlError::with_state(
                sqlstate::SYNTAX,
                format!("column {column} is assigned to twice: assign to it once"),
            ));
        }
    }
    Ok(all)
}

fn on_conflict(on: ast::OnInsert) -> Result<OnConflict, SqlError> {
    let ast::OnInsert::OnConflict(on) = on else {
        return Err(SqlError::unsupported(
            "ON DUPLICATE KEY UPDATE",
            "write ON CONFLICT DO UPDATE SET …",
        ));
    };
    let target = match on.conflict_target {
        None => None,
        Some(ast::ConflictTarget::Columns(columns)) => Some(columns.iter().map(name).collect()),
        Some(ast::ConflictTarget::OnConstraint(_)) => {
            return Err(SqlError::unsupported(
                "ON CONFLICT ON CONSTRAINT",
                "name the primary key's columns, or none",
            ));
        }
    };
    let update = match on.action {
        ast::OnConflictAction::DoNothing => None,
        ast::OnConflictAction::DoUpdate(update) => Some(ConflictUpdate {
            assignments: assignments(update.assignments)?,
            condition: update.selection,
        }),
    };
    Ok(OnConflict { target, update })
}

/// Returns a value, or none for a bare `DEFAULT`, which the parser reads as a column of that name.
fn value_or_default(value: Expr) -> Option<Expr> {
    match &value {
        Expr::Identifier(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") =>
        {
            None
        }
        _ => Some(value),
    }
}
