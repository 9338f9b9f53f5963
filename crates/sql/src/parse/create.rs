//! `CREATE TABLE`, `DROP TABLE` and `DROP INDEX`: from trees to schemas. Indexes are in `create_index`.
//!
//! Only shape and spelling are checked here; what a schema may be is `Schema::validate`'s, and
//! what the servers at hand can carry is the coordinator's.

use client::PARTITIONS_DEFAULT;
use placement::{Column, ColumnType, Constraint, Durability, Schema, Value};
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{self, ColumnOption, Expr, TableConstraint};

use super::create_index::push_index;
use super::{made_up_name, name, object_name};
use crate::bind;
use crate::error::Error;
use crate::statement::{CreateIndex, IndexKind, Statement};

/// Failures tolerated where the statement does not say.
pub const FAILURES_TOLERATED_DEFAULT: u8 = 1;

/// `CREATE TABLE`.
pub(super) fn table(mut create: ast::CreateTable) -> Result<Statement, Error> {
    let table = object_name(&create.name)?;
    let columns = std::mem::take(&mut create.columns);
    let constraints = std::mem::take(&mut create.constraints);
    let options = std::mem::take(&mut create.table_options);
    let if_not_exists = std::mem::take(&mut create.if_not_exists);
    let blank = CreateTableBuilder::new(create.name.clone()).build();
    if create != blank {
        return Err(Error::unsupported(
            format!("\"{create}\""),
            "write CREATE TABLE name (columns) WITH (options) and nothing else",
        ));
    }
    let mut schema = Schema {
        name: table,
        columns: Vec::new(),
        primary_key: Vec::new(),
        indexes: Vec::new(),
        further: Vec::new(),
        partitions: PARTITIONS_DEFAULT,
        failures_tolerated: FAILURES_TOLERATED_DEFAULT,
        local_entries: true,
        durability: Durability::Sync,
    };
    let mut unique = Vec::new();
    for definition in columns {
        column(&mut schema, definition, &mut unique)?;
    }
    for constraint in constraints {
        table_constraint(&mut schema, constraint, &mut unique)?;
    }
    for column in schema.primary_key.clone() {
        schema.columns[column].nullable = false;
    }
    for index in unique {
        push_index(&mut schema, index)?;
    }
    table_options(&mut schema, options)?;
    Ok(Statement::CreateTable {
        schema: Box::new(schema),
        if_not_exists,
    })
}

/// `DROP TABLE` and `DROP INDEX`.
pub(super) fn drop(statement: ast::Statement) -> Result<Statement, Error> {
    let ast::Statement::Drop {
        object_type,
        if_exists,
        names,
        cascade: false,
        restrict: _,
        purge: false,
        temporary: false,
        table,
    } = statement
    else {
        return Err(Error::unsupported(
            "this form of DROP",
            "write DROP TABLE [IF EXISTS] name, or DROP INDEX [IF EXISTS] name [ON table]",
        ));
    };
    match (object_type, &names[..]) {
        (ast::ObjectType::Index, [index]) => Ok(Statement::DropIndex {
            table: table.as_ref().map(object_name).transpose()?,
            name: object_name(index)?,
            if_exists,
        }),
        (ast::ObjectType::Table, [table]) => Ok(Statement::DropTable {
            name: object_name(table)?,
            if_exists,
        }),
        (ast::ObjectType::Table, _) => Err(Error::unsupported(
            "DROP TABLE of several tables at once",
            "drop them one by one",
        )),
        (ast::ObjectType::Index, _) => Err(Error::unsupported(
            "DROP INDEX of several indexes at once",
            "drop them one by one",
        )),
        (other, _) => Err(Error::unsupported(
            format!("DROP {other}"),
            "only tables and indexes can be dropped",
        )),
    }
}

fn column(
    schema: &mut Schema,
    definition: ast::ColumnDef,
    unique: &mut Vec<CreateIndex>,
) -> Result<(), Error> {
    let column = name(&definition.name);
    let column_type = column_type(&definition.data_type)?;
    let position = schema.columns.len();
    let mut nullable = true;
    let mut default = None;
    for option in definition.options {
        match option.option {
            ColumnOption::Null => nullable = true,
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Default(expression) => {
                let place = format!("the default of column {column}");
                let value = bind::constant(&expression, column_type, &place)?;
                default = (value != Value::Null || !nullable).then_some(value);
            }
            ColumnOption::PrimaryKey(_) => {
                if !schema.primary_key.is_empty() {
                    return Err(two_primary_keys(&schema.name));
                }
                schema.primary_key = vec![position];
            }
            ColumnOption::Unique(_) => {
                let columns = vec![column.clone()];
                unique.push(CreateIndex {
                    name: option
                        .name
                        .as_ref()
                        .map_or_else(|| made_up_name(&schema.name, &columns, "key"), name),
                    table: schema.name.clone(),
                    names: columns,
                    kind: IndexKind::Sorted(Some(Constraint::Unique)),
                    if_not_exists: false,
                });
            }
            other => {
                return Err(Error::unsupported(
                    format!("\"{other}\" of column {column}"),
                    "a column takes NOT NULL, DEFAULT with a constant, PRIMARY KEY and UNIQUE",
                ));
            }
        }
    }
    schema.columns.push(Column {
        name: column,
        column_type,
        nullable,
        default,
    });
    Ok(())
}

fn table_constraint(
    schema: &mut Schema,
    constraint: TableConstraint,
    unique: &mut Vec<CreateIndex>,
) -> Result<(), Error> {
    match constraint {
        TableConstraint::PrimaryKey(key)
            if key.include.is_empty() && key.characteristics.is_none() =>
        {
            if !schema.primary_key.is_empty() {
                return Err(two_primary_keys(&schema.name));
            }
            schema.primary_key = positions(schema, &index_columns(&key.columns)?)?;
        }
        TableConstraint::Unique(key)
            if key.include.is_empty()
                && key.characteristics.is_none()
                && key.nulls_distinct != ast::NullsDistinctOption::NotDistinct =>
        {
            let columns = index_columns(&key.columns)?;
            let given = key.name.or(key.index_name);
            unique.push(CreateIndex {
                name: given
                    .as_ref()
                    .map_or_else(|| made_up_name(&schema.name, &columns, "key"), name),
                table: schema.name.clone(),
                names: columns,
                kind: IndexKind::Sorted(Some(Constraint::Unique)),
                if_not_exists: false,
            });
        }
        other => {
            return Err(Error::unsupported(
                format!("\"{other}\""),
                "a table takes PRIMARY KEY (columns), UNIQUE (columns) and INDEX name (columns)",
            ));
        }
    }
    Ok(())
}

fn two_primary_keys(table: &str) -> Error {
    Error::statement(format!(
        "table {table} has two primary keys: keep one, as PRIMARY KEY (column, …)"
    ))
}

fn table_options(schema: &mut Schema, options: ast::CreateTableOptions) -> Result<(), Error> {
    let options = match options {
        ast::CreateTableOptions::None => Vec::new(),
        ast::CreateTableOptions::With(options) => options,
        other => {
            return Err(Error::unsupported(
                format!("\"{other}\""),
                "write WITH (option = value, …)",
            ));
        }
    };
    for option in options {
        let ast::SqlOption::KeyValue { key, value } = option else {
            return Err(Error::statement(format!(
                "{option} is no option of a table: write option = value"
            )));
        };
        let key = name(&key);
        let text = text_of(&value);
        let number = |max: u64| {
            text.parse::<u64>()
                .ok()
                .filter(|it| *it <= max)
                .ok_or_else(|| {
                    Error::statement(format!(
                        "{text} is no value of option {key}: write a whole number up to {max}"
                    ))
                })
        };
        match key.as_str() {
            "partitions" => {
                schema.partitions = number(placement::PARTITIONS_MAX.into())? as u32;
            }
            "failures_tolerated" => {
                schema.failures_tolerated = number((placement::REPLEXES_MAX - 1) as u64)? as u8;
            }
            "local_entries" => {
                schema.local_entries = match text.to_lowercase().as_str() {
                    "on" | "true" => true,
                    "off" | "false" => false,
                    _ => {
                        return Err(Error::statement(format!(
                            "{text} is no value of option local_entries: write on or off"
                        )));
                    }
                };
            }
            "durability" => {
                schema.durability = match text.to_lowercase().as_str() {
                    "sync" => Durability::Sync,
                    "replicated" => Durability::Replicated,
                    _ => {
                        return Err(Error::statement(format!(
                            "{text} is no value of option durability: write 'sync' or \
                             'replicated'"
                        )));
                    }
                };
            }
            _ => {
                return Err(Error::statement(format!(
                    "a table has no option {key}: there are partitions, failures_tolerated, \
                     local_entries and durability"
                )));
            }
        }
    }
    Ok(())
}

/// The text of a literal or of a bare word.
pub(super) fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => value
            .clone()
            .into_string()
            .unwrap_or_else(|| value.to_string()),
        other => other.to_string(),
    }
}

pub(super) fn index_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>, Error> {
    let columns = columns.iter().map(|it| match (&it.column.expr, &it.operator_class) {
        (Expr::Identifier(column), None)
            if it.column.options == ast::OrderByOptions::default() =>
        {
            Ok(name(column))
        }
        _ => Err(Error::unsupported(
            format!("{it} in an index"),
            "name columns alone: indexes sort their columns from small to large and can be read \
             both ways",
        )),
    });
    columns.collect()
}

pub(super) fn positions(schema: &Schema, columns: &[String]) -> Result<Vec<usize>, Error> {
    let positions = columns.iter().map(|column| {
        schema
            .column_index(column)
            .ok_or_else(|| bind::unknown_column(schema, column))
    });
    positions.collect()
}

/// The column type that an SQL type means.
pub(crate) fn column_type(data_type: &ast::DataType) -> Result<ColumnType, Error> {
    ColumnType::parse(&data_type.to_string()).ok_or_else(|| {
        let names: Vec<&str> = ColumnType::ALL.iter().map(|it| it.name()).collect();
        Error::unsupported(
            format!("the type {data_type}"),
            format!("use one of {} (without a length)", names.join(", ")),
        )
    })
}
