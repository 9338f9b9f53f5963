//! Converts `CREATE TABLE` and `DROP` from syntax trees to schemas. Indexes are
//! in `create_index`.
//!
//! Only shape and spelling are checked here; `Schema::validate` checks the schema, and the
//! coordinator checks whether its servers can carry it.

use client::PARTITIONS_DEFAULT;
use placement::{
    Column, ColumnDefault, ColumnType, ComputedDefault, Constraint, Durability, HIDDEN_KEY,
    IdentityKind, Schema, TableConstraints, TimeZone, Value,
};
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{self, ColumnOption, TableConstraint};

use super::create_index::{key_columns, partition_columns, positions, prefix, push_index};
use super::sequence::IdentityOptions;
use super::serial::{self, OwnSequence};
use super::{constraints, generated};
use super::{made_up_name, object_name, text_of};
use crate::bind;
use crate::error::{SqlError, sqlstate};
use crate::spelling::{column_type, name};
use crate::statement::{
    CreateIndex, IndexKind, NewCheck, Reference, SequenceOptions, SerialColumn, Statement,
};

/// The constraints of a table that need all of its columns.
#[derive(Default)]
struct FoundConstraints {
    unique: Vec<CreateIndex>,
    checks: Vec<ast::CheckConstraint>,
    references: Vec<Reference>,
    serials: Vec<SerialColumn>,
    /// The generated columns, with their expressions.
    generated: Vec<(usize, ast::Expr)>,
}

/// The number of tolerated failures, unless the statement sets it.
pub const FAILURES_TOLERATED_DEFAULT: u8 = 1;

/// Parses `CREATE TABLE`. Constants in it are local times of a zone.
pub(super) fn table(
    mut create: ast::CreateTable,
    identities: IdentityOptions,
    zone: TimeZone<'static>,
) -> Result<Statement, SqlError> {
    let table = object_name(&create.name)?;
    let columns = std::mem::take(&mut create.columns);
    let constraints = std::mem::take(&mut create.constraints);
    let options = std::mem::take(&mut create.table_options);
    let if_not_exists = std::mem::take(&mut create.if_not_exists);
    let blank = CreateTableBuilder::new(create.name.clone()).build();
    if create != blank {
        return Err(SqlError::unsupported(
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
        thin: Vec::new(),
        partitions: PARTITIONS_DEFAULT,
        failures_tolerated: FAILURES_TOLERATED_DEFAULT,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    };
    let mut found = FoundConstraints::default();
    let mut identities = identities.into_iter();
    for definition in columns {
        column(&mut schema, definition, &mut found, &mut identities, zone)?;
    }
    if let Some(column) = schema.columns.iter().find(|column| column.is_hidden()) {
        let name = &column.name;
        return Err(SqlError::with_state(
            sqlstate::DUPLICATE_COLUMN,
            format!("column name \"{name}\" conflicts with a system column name"),
        ));
    }
    for constraint in constraints {
        table_constraint(&mut schema, constraint, &mut found)?;
    }
    if schema.primary_key.is_empty() {
        add_hidden_key(&mut schema);
    }
    generated::add(&mut schema, &found.generated, zone)?;
    constraints::add_checks(&mut schema, found.checks, zone)?;
    for column in schema.primary_key.clone() {
        schema.columns[column].nullable = false;
    }
    for index in found.unique {
        push_index(&mut schema, index)?;
    }
    table_options(&mut schema, options)?;
    Ok(Statement::CreateTable {
        schema: Box::new(schema),
        if_not_exists,
        references: found.references,
        serials: found.serials,
    })
}

/// Gives a table without a primary key one that statements do not see: a random UUID.
fn add_hidden_key(schema: &mut Schema) {
    schema.primary_key = vec![schema.columns.len()];
    schema.columns.push(Column {
        name: HIDDEN_KEY.to_owned(),
        column_type: ColumnType::Uuid,
        nullable: false,
        default: Some(ColumnDefault::Computed(ComputedDefault::RandomUuid)),
        missing: None,
    });
}

/// Parses `DROP TABLE`, `DROP SEQUENCE` and `DROP INDEX`.
pub(super) fn drop(statement: ast::Statement) -> Result<Statement, SqlError> {
    let ast::Statement::Drop {
        object_type,
        if_exists,
        names,
        cascade,
        restrict: _,
        purge: false,
        temporary: false,
        table,
    } = statement
    else {
        return Err(SqlError::unsupported(
            "this form of DROP",
            "write DROP TABLE [IF EXISTS] name, DROP SEQUENCE [IF EXISTS] name, or DROP INDEX [IF \
             EXISTS] name [ON table]",
        ));
    };
    match (object_type, &names[..]) {
        (ast::ObjectType::Index, [index]) => Ok(Statement::DropIndex {
            table: table.as_ref().map(object_name).transpose()?,
            name: object_name(index)?,
            if_exists,
        }),
        (ast::ObjectType::Table, tables) => Ok(Statement::DropTable {
            names: tables.iter().map(object_name).collect::<Result<_, _>>()?,
            if_exists,
            cascade,
        }),
        (ast::ObjectType::Sequence, _) if cascade => Err(SqlError::unsupported(
            "DROP SEQUENCE … CASCADE",
            "drop the defaults that use the sequence first",
        )),
        (ast::ObjectType::Sequence, names) => Ok(Statement::DropSequence {
            names: names.iter().map(object_name).collect::<Result<_, _>>()?,
            if_exists,
        }),
        (ast::ObjectType::Index, _) => Err(SqlError::unsupported(
            "DROP INDEX of several indexes at once",
            "drop them one by one",
        )),
        (other, _) => Err(SqlError::unsupported(
            format!("DROP {other}"),
            "only tables, indexes and sequences can be dropped",
        )),
    }
}

// tidy: long — one arm per option.
fn column(
    schema: &mut Schema,
    definition: ast::ColumnDef,
    found: &mut FoundConstraints,
    identities: &mut impl Iterator<Item = Option<SequenceOptions>>,
    zone: TimeZone<'static>,
) -> Result<(), SqlError> {
    let column = name(&definition.name);
    let serial = serial::serial_type(&definition.data_type);
    let column_type = match serial {
        Some(column_type) => column_type,
        None => column_type(&definition.data_type)?,
    };
    let position = schema.columns.len();
    let mut nulls = serial.map(|_| false);
    let mut default = None;
    let mut generation = None;
    let mut own = OwnSequence::new(&schema.name, &column, column_type);
    if serial.is_some() {
        own.add(None, SequenceOptions::default())?;
    }
    for option in definition.options {
        match option.option {
            ColumnOption::Null => own.set_nullable(&mut nulls, true)?,
            ColumnOption::NotNull => own.set_nullable(&mut nulls, false)?,
            ColumnOption::Default(expression) => {
                own.check_only_default()?;
                if generation.is_some() {
                    return Err(own.both_default_and_generation());
                }
                default = Some(column_default((&column, column_type), &expression, zone)?);
            }
            ColumnOption::Generated {
                generated_as: kind @ (ast::GeneratedAs::Always | ast::GeneratedAs::ByDefault),
                sequence_options,
                generation_expr: None,
                generation_expr_mode: None,
                generated_keyword: _,
            } if sequence_options.as_ref().is_none_or(Vec::is_empty) => {
                own.set_nullable(&mut nulls, false)?;
                let kind = match kind {
                    ast::GeneratedAs::Always => IdentityKind::Always,
                    _ => IdentityKind::ByDefault,
                };
                let options = identities.next().flatten();
                if default.is_some() {
                    return Err(own.both_default_and_identity());
                }
                if generation.is_some() {
                    return Err(own.both_identity_and_generation());
                }
                own.add(Some(kind), options.unwrap_or_default())?;
            }
            ColumnOption::Generated {
                generated_as: ast::GeneratedAs::ExpStored,
                sequence_options: None,
                generation_expr: Some(expression),
                generation_expr_mode: _,
                generated_keyword: true,
            } => {
                own.check_only_generation()?;
                if default.is_some() {
                    return Err(own.both_default_and_generation());
                }
                if generation.replace(expression).is_some() {
                    return Err(own.two_generations());
                }
            }
            ColumnOption::PrimaryKey(_) => {
                if !schema.primary_key.is_empty() {
                    return Err(two_primary_keys(&schema.name));
                }
                schema.primary_key = vec![position];
            }
            ColumnOption::Unique(_) => {
                let columns = vec![column.clone()];
                let given = option.name.as_ref();
                found
                    .unique
                    .push(unique_index(&schema.name, given, columns));
            }
            ColumnOption::ForeignKey(key) => {
                let key = ast::ForeignKeyConstraint {
                    name: option.name.or(key.name),
                    columns: vec![definition.name.clone()],
                    ..key
                };
                found.references.push(constraints::reference(key)?);
            }
            ColumnOption::Check(check) => found.checks.push(ast::CheckConstraint {
                name: option.name.or(check.name),
                ..check
            }),
            other => {
                return Err(SqlError::unsupported(
                    format!("\"{other}\" of column {column}"),
                    "a column takes NOT NULL, DEFAULT with a constant, now(), gen_random_uuid() or \
                     nextval('sequence'), GENERATED … AS IDENTITY, GENERATED ALWAYS AS (expression) \
                     STORED, PRIMARY KEY, UNIQUE, CHECK and REFERENCES",
                ));
            }
        }
    }
    let nullable = nulls.unwrap_or(true);
    if default == Some(ColumnDefault::Constant(Value::Null)) && nullable {
        default = None;
    }
    if let Some((own_default, rules, is_named)) = own.into_default()? {
        default = Some(ColumnDefault::Sequence(own_default));
        found.serials.push(SerialColumn {
            column: position,
            rules,
            is_named,
        });
    }
    found.generated.extend(generation.map(|it| (position, it)));
    schema.columns.push(Column {
        name: column,
        column_type,
        nullable,
        default,
        missing: None,
    });
    Ok(())
}

/// Returns the default that an expression stands for. A constant is a local time of a zone.
pub(crate) fn column_default(
    (column, column_type): (&str, ColumnType),
    expression: &ast::Expr,
    zone: TimeZone<'static>,
) -> Result<ColumnDefault, SqlError> {
    if let Some(sequence) = serial::drawn_default(expression)? {
        return Ok(ColumnDefault::Sequence(sequence));
    }
    if let Some(computed) = bind::computed_default(expression) {
        if !computed.fits(column_type) {
            return Err(unfit_default(column, column_type, computed));
        }
        return Ok(ColumnDefault::Computed(computed));
    }
    let place = format!("the default of column {column}");
    let value = bind::constant(expression, column_type, &place, zone)?;
    Ok(ColumnDefault::Constant(value))
}

/// A column that is added to a table, and the constraints in its definition.
#[derive(Debug)]
pub(crate) struct AddedColumn {
    pub column: Column,
    pub checks: Vec<NewCheck>,
    pub unique: Vec<CreateIndex>,
    pub references: Vec<Reference>,
}

/// Returns a column that is added to a table.
pub(crate) fn added_column(
    schema: &Schema,
    definition: ast::ColumnDef,
    zone: TimeZone<'static>,
) -> Result<AddedColumn, SqlError> {
    let text = definition.to_string();
    let mut with = schema.clone();
    let mut found = FoundConstraints::default();
    column(
        &mut with,
        definition,
        &mut found,
        &mut std::iter::empty(),
        zone,
    )?;
    if !found.serials.is_empty() {
        return Err(SqlError::unsupported(
            format!("\"{text}\" of ADD COLUMN, with another value in each row"),
            "add the column without a default, CREATE SEQUENCE name OWNED BY table.column, then SET \
             DEFAULT nextval('name'), then UPDATE the rows",
        ));
    }
    if !found.generated.is_empty() {
        return Err(SqlError::unsupported(
            format!("\"{text}\" of ADD COLUMN, because no row has its value"),
            "create a table with the column, then INSERT … SELECT the rows",
        ));
    }
    let checks = found.checks.into_iter().map(|check| NewCheck {
        name: check.name.as_ref().map(name),
        condition: *check.expr,
        validates: true,
    });
    let column = with.columns.pop().expect("it was just added");
    Ok(AddedColumn {
        column,
        checks: checks.collect(),
        unique: found.unique,
        references: found.references,
    })
}

fn unfit_default(column: &str, column_type: ColumnType, computed: ComputedDefault) -> SqlError {
    SqlError::with_state(
        sqlstate::TYPE_MISMATCH,
        format!(
            "column {column} is of type {column_type}, and cannot have the default {}: give it \
             another type or default",
            computed.text()
        ),
    )
}

/// Returns whether a UNIQUE constraint names columns and nothing else.
pub(super) fn is_plain_unique(key: &ast::UniqueConstraint) -> bool {
    key.include.is_empty()
        && key.characteristics.is_none()
        && key.nulls_distinct != ast::NullsDistinctOption::NotDistinct
}

/// Returns the index of a UNIQUE constraint of a table.
pub(super) fn unique(table: &str, key: ast::UniqueConstraint) -> Result<CreateIndex, SqlError> {
    let columns = key_columns(&key.columns, table)?;
    let given = key.name.or(key.index_name);
    Ok(unique_index(table, given.as_ref(), columns))
}

/// Returns the index of a UNIQUE constraint, with the name that is given or one like PostgreSQL's.
fn unique_index(table: &str, given: Option<&ast::Ident>, columns: Vec<String>) -> CreateIndex {
    CreateIndex {
        name: given.map_or_else(|| made_up_name(table, &columns, "key"), name),
        table: table.to_owned(),
        names: columns,
        kind: IndexKind::Sorted {
            constraint: Some(Constraint::Unique),
            partition_by: Vec::new(),
            by_range: false,
        },
        if_not_exists: false,
    }
}

fn table_constraint(
    schema: &mut Schema,
    constraint: TableConstraint,
    found: &mut FoundConstraints,
) -> Result<(), SqlError> {
    match constraint {
        TableConstraint::PrimaryKey(key)
            if key.include.is_empty() && key.characteristics.is_none() =>
        {
            if !schema.primary_key.is_empty() {
                return Err(two_primary_keys(&schema.name));
            }
            schema.primary_key = positions(schema, &key_columns(&key.columns, &schema.name)?)?;
        }
        TableConstraint::Unique(key) if is_plain_unique(&key) => {
            found.unique.push(unique(&schema.name, key)?);
        }
        TableConstraint::Check(check) => found.checks.push(check),
        TableConstraint::ForeignKey(key) => found.references.push(constraints::reference(key)?),
        other => {
            return Err(SqlError::unsupported(
                format!("\"{other}\""),
                "a table takes PRIMARY KEY (columns), UNIQUE (columns), CHECK (condition), FOREIGN KEY \
                 (columns) REFERENCES table and INDEX name (columns)",
            ));
        }
    }
    Ok(())
}

fn two_primary_keys(table: &str) -> SqlError {
    SqlError::with_state(
        sqlstate::INVALID_DEFINITION,
        format!("table {table} has two primary keys: keep one, as PRIMARY KEY (column, …)"),
    )
}

/// Returns how many columns of the primary key option `partition_by` names.
fn primary_prefix(schema: &Schema, value: &str) -> Result<Option<u8>, SqlError> {
    let key = schema.primary_key.iter();
    let key: Vec<String> = key.map(|it| schema.columns[*it].name.clone()).collect();
    let what = format!("the primary key of table {}", schema.name);
    prefix(&what, &key, &partition_columns(value))
}

fn table_options(schema: &mut Schema, options: ast::CreateTableOptions) -> Result<(), SqlError> {
    let invalid = |message: String| SqlError::with_state(sqlstate::INVALID_VALUE, message);
    let options = match options {
        ast::CreateTableOptions::None => Vec::new(),
        ast::CreateTableOptions::With(options) => options,
        other => {
            return Err(SqlError::unsupported(
                format!("\"{other}\""),
                "write WITH (option = value, …)",
            ));
        }
    };
    for option in options {
        let ast::SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::statement(format!(
                "{option} is no option of a table: write option = value"
            )));
        };
        let key = name(&key);
        let text = text_of(&value);
        let number = |max: u64| {
            let number = text.parse::<u64>().ok().filter(|it| *it <= max);
            number.ok_or_else(|| {
                invalid(format!(
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
                        return Err(invalid(format!(
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
                        return Err(invalid(format!(
                            "{text} is no value of option durability: write 'sync' or \
                             'replicated'"
                        )));
                    }
                };
            }
            "partition_by" => schema.primary_partition_columns = primary_prefix(schema, &text)?,
            _ => {
                return Err(invalid(format!(
                    "a table has no option {key}: there are partitions, failures_tolerated, \
                     local_entries, durability and partition_by"
                )));
            }
        }
    }
    Ok(())
}
