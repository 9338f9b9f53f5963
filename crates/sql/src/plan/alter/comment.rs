//! Plans `COMMENT`: finds the object, which belongs to a table or is one.

use placement::{Alteration, COMMENT_BYTES_MAX, CommentedObject};
use protocol::configuration::PlacedTable;

use super::AlterPlan;
use crate::bind::unknown_column;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Context, StatementPlan, no_relation, sequence_named};
use crate::statement::{CommentName, CommentStatement};

/// Plans `COMMENT`.
pub(in crate::plan) fn comment(
    statement: &CommentStatement,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let (table, object) = found(&statement.object, context)?;
    let text = statement.text.clone();
    let bytes = text.as_ref().map_or(0, String::len);
    if bytes > COMMENT_BYTES_MAX {
        return Err(SqlError::with_state(
            sqlstate::LIMIT,
            format!("the comment has {bytes} bytes, the limit is {COMMENT_BYTES_MAX}: shorten it"),
        ));
    }
    Ok(StatementPlan::Alter(AlterPlan {
        alterations: vec![Alteration::Comment { object, text }],
        ..AlterPlan::new(&table.schema.name, "COMMENT")
    }))
}

/// Returns the object of a name, and the table that has it.
fn found<'c>(
    name: &CommentName,
    context: &Context<'c>,
) -> Result<(&'c PlacedTable, CommentedObject), SqlError> {
    Ok(match name {
        CommentName::Table(name) => (context.table(name)?, CommentedObject::Table),
        CommentName::Sequence(name) => {
            let sequence = sequence_named(context.configuration, name)?;
            (sequence, CommentedObject::Table)
        }
        CommentName::Column { table, column } => {
            let table = context.table(table)?;
            let mut columns = table.schema.visible_columns();
            let found = columns.find(|(_, it)| it.name == *column);
            let (position, _) = found.ok_or_else(|| unknown_column(&table.schema, column))?;
            (table, CommentedObject::Column { position })
        }
        CommentName::Index(name) => {
            let object = CommentedObject::Index { name: name.clone() };
            (index_holder(name, &object, context)?, object)
        }
        CommentName::Constraint { table, constraint } => {
            let table = context.table(table)?;
            let name = constraint.clone();
            let object = CommentedObject::Constraint { name };
            if !table.schema.has(&object) {
                let table = &table.schema.name;
                return Err(SqlError::with_state(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("constraint \"{constraint}\" for table \"{table}\" does not exist"),
                ));
            }
            (table, object)
        }
    })
}

/// Returns the table that has an index of this name.
fn index_holder<'c>(
    name: &str,
    object: &CommentedObject,
    context: &Context<'c>,
) -> Result<&'c PlacedTable, SqlError> {
    let tables = context.configuration.tables.iter();
    let tables = tables.filter(|table| table.schema.sequence.is_none());
    let holders: Vec<&PlacedTable> = tables.filter(|table| table.schema.has(object)).collect();
    match holders[..] {
        [table] => Ok(table),
        [] => match context.configuration.table_named(name) {
            None => Err(no_relation(name)),
            Some(_) => Err(SqlError::with_state(
                sqlstate::WRONG_OBJECT,
                format!("\"{name}\" is not an index"),
            )),
        },
        _ => {
            let names = holders.iter().map(|it| it.schema.name.as_str());
            let names = names.collect::<Vec<&str>>().join(", ");
            Err(SqlError::statement(format!(
                "tables {names} have an index {name}: rename all but one of them"
            )))
        }
    }
}
