//! Parses `ALTER TABLE … SET (partitions = …)`.

use sqlparser::ast;

use super::{object_name, text_of};
use crate::error::SqlError;
use crate::spelling::name;
use crate::statement::Statement;

/// Parses `ALTER TABLE`.
pub(super) fn table(alter: ast::AlterTable) -> Result<Statement, SqlError> {
    let table = object_name(&alter.name)?;
    let operation = match &alter.operations[..] {
        [ast::AlterTableOperation::SetOptionsParens { options }] if is_plain(&alter) => options,
        _ => {
            return Err(SqlError::unsupported(
                "this form of ALTER TABLE",
                "write ALTER TABLE name SET (partitions = number); for other changes create a new \
                 table, then export and import the rows",
            ));
        }
    };
    let [ast::SqlOption::KeyValue { key, value }] = &operation[..] else {
        return Err(SqlError::statement(
            "ALTER TABLE … SET changes one option: write SET (partitions = number)",
        ));
    };
    let (key, text) = (name(key), text_of(value));
    if key != "partitions" {
        return Err(SqlError::statement(format!(
            "option {key} of a table cannot be changed, only partitions can: create a new table, \
             then export and import the rows"
        )));
    }
    let max = placement::PARTITIONS_MAX;
    let partitions = text.parse::<u32>().ok();
    let partitions = partitions.filter(|it| (1..=max).contains(it));
    let partitions = partitions.ok_or_else(|| {
        SqlError::statement(format!(
            "{text} is no value of option partitions: write a whole number from 1 to {max}"
        ))
    })?;
    Ok(Statement::SetPartitions { table, partitions })
}

/// Returns whether nothing but the operation is given.
fn is_plain(alter: &ast::AlterTable) -> bool {
    !alter.if_exists
        && !alter.only
        && alter.location.is_none()
        && alter.on_cluster.is_none()
        && alter.table_type.is_none()
}
