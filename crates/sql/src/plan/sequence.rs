//! Plans statements about sequences: which sequences the columns of a new table get, and what can
//! be dropped.

use std::collections::BTreeSet;

use placement::{ColumnDefault, ColumnType, IdentityKind, Schema, SequenceDefault, SequenceOwner};
use protocol::configuration::{Configuration, PlacedTable};

use super::reference::free_name;
use super::{Context, StatementPlan};
use crate::bind::unknown_column;
use crate::error::{SqlError, sqlstate};
use crate::parse::FAILURES_TOLERATED_DEFAULT;
use crate::statement::{SequenceOptions, SerialColumn};

/// Returns the sequences of the columns of a new table, and gives their names to the defaults.
/// Checks that the sequences of other defaults exist.
pub(super) fn own_sequences(
    schema: &mut Schema,
    serials: &[SerialColumn],
    context: &Context<'_>,
) -> Result<Vec<Schema>, SqlError> {
    let configuration = context.configuration;
    let mut names = BTreeSet::from([schema.name.clone()]);
    let mut sequences = Vec::with_capacity(serials.len());
    for serial in serials {
        let column = &mut schema.columns[serial.column];
        let Some(ColumnDefault::Sequence(default)) = &mut column.default else {
            unreachable!("the parser has given it the default")
        };
        let is_taken =
            |name: &String| names.contains(name) || configuration.table_named(name).is_some();
        if serial.is_named && is_taken(&default.sequence) {
            return Err(already_exists(&default.sequence));
        }
        default.sequence = free_name(&default.sequence, |name| !is_taken(name));
        names.insert(default.sequence.clone());
        let mut rules = serial.rules.clone();
        rules.owner = Some(SequenceOwner {
            table: schema.name.clone(),
            column: column.name.clone(),
        });
        let name = default.sequence.clone();
        let mut sequence = rules.into_schema(name, schema.failures_tolerated);
        sequence.failures_wanted = schema.failures_wanted;
        sequences.push(sequence);
    }
    for (_, default) in sequence_defaults(schema) {
        if !sequences.iter().any(|it| it.name == default.sequence) {
            sequence_named(configuration, &default.sequence)?;
        }
    }
    Ok(sequences)
}

fn already_exists(name: &str) -> SqlError {
    SqlError::with_state(
        sqlstate::DUPLICATE_TABLE,
        format!("relation \"{name}\" already exists"),
    )
}

/// Plans `CREATE SEQUENCE`.
pub(super) fn create(
    name: &str,
    options: &SequenceOptions,
    if_not_exists: bool,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let configuration = context.configuration;
    if configuration.table_named(name).is_some() {
        if if_not_exists {
            let text = format!("relation \"{name}\" already exists, skipping");
            return Ok(StatementPlan::Already(text));
        }
        return Err(already_exists(name));
    }
    let mut rules = options.rules(ColumnType::Int64)?;
    if let Some((table, column)) = options.owner.clone().flatten() {
        let schema = &context.table(&table)?.schema;
        if schema.column_index(&column).is_none() {
            return Err(unknown_column(schema, &column));
        }
        rules.owner = Some(SequenceOwner { table, column });
    }
    let (wanted, possible, notice) = tolerance(name, configuration);
    let mut schema = rules.into_schema(name.to_owned(), wanted.min(possible));
    schema.failures_wanted = if wanted > possible { wanted } else { 0 };
    schema.validate()?;
    Ok(StatementPlan::CreateSequence {
        schema: Box::new(schema),
        if_not_exists,
        notice,
    })
}

/// Returns how many failures a new sequence is to survive, as many as the safest table, and how
/// many the servers allow. Returns a notice if these are fewer than usual.
fn tolerance(name: &str, configuration: &Configuration) -> (u8, u8, Option<String>) {
    let tables = configuration.tables.iter();
    let tolerated = tables.map(|table| table.schema.failures_tolerated).max();
    let wanted = tolerated.unwrap_or(0).max(FAILURES_TOLERATED_DEFAULT);
    let beside = configuration.failure_domains().saturating_sub(1);
    let possible = u8::try_from(beside).unwrap_or(u8::MAX);
    let notice = (possible < FAILURES_TOLERATED_DEFAULT).then(|| {
        format!(
            "sequence {name} does not survive the loss of its server yet, because the store has \
             one server"
        )
    });
    (wanted, possible, notice)
}

/// Plans `ALTER SEQUENCE … RESTART`.
pub(super) fn restart(
    name: &str,
    value: Option<i64>,
    if_exists: bool,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let configuration = context.configuration;
    if if_exists && configuration.table_named(name).is_none() {
        let text = format!("relation \"{name}\" does not exist, skipping");
        return Ok(StatementPlan::Already(text));
    }
    let table = sequence_named(configuration, name)?;
    let rules = table.schema.sequence.as_ref();
    let rules = rules.expect("it is a sequence");
    let value = value.unwrap_or(rules.start);
    rules
        .check_bounds("RESTART", value)
        .map_err(|message| SqlError::with_state(sqlstate::INVALID_VALUE, message))?;
    Ok(StatementPlan::RestartSequence {
        sequence: table.id,
        value,
    })
}

/// Plans `DROP SEQUENCE`.
pub(super) fn drop(
    names: &[String],
    if_exists: bool,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let configuration = context.configuration;
    let mut dropped: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        match configuration.table_named(name) {
            None if if_exists => continue,
            None => {
                return Err(SqlError::with_state(
                    sqlstate::UNDEFINED_TABLE,
                    format!("sequence \"{name}\" does not exist"),
                ));
            }
            Some(_) => {
                sequence_named(configuration, name)?;
            }
        }
        check_unused(name, names, configuration)?;
        if !dropped.contains(name) {
            dropped.push(name.clone());
        }
    }
    if dropped.is_empty() {
        let text = format!("sequence \"{}\" does not exist, skipping", names[0]);
        return Ok(StatementPlan::Already(text));
    }
    Ok(StatementPlan::DropSequence {
        names: dropped,
        if_exists,
    })
}

/// Checks that tables can be dropped: they are no sequences, and no other table takes defaults
/// from sequences that are dropped with them.
pub(super) fn check_tables(
    names: &[String],
    configuration: &Configuration,
) -> Result<(), SqlError> {
    for name in names {
        let Some(table) = configuration.table_named(name) else {
            continue;
        };
        refuse_sequence(table)?;
        let belongs = |other: &&PlacedTable| {
            let sequence = other.schema.sequence.as_ref();
            let owner = sequence.and_then(|sequence| sequence.owner.as_ref());
            owner.is_some_and(|owner| owner.table == *name)
        };
        for sequence in configuration.tables.iter().filter(belongs) {
            check_unused(&sequence.schema.name, names, configuration)?;
        }
    }
    Ok(())
}

/// Puts tables that take defaults from sequences of other tables before these.
pub(super) fn users_first(names: &mut [String], configuration: &Configuration) {
    let owner = |sequence: &str| {
        let table = configuration.table_named(sequence)?;
        let owner = table.schema.sequence.as_ref()?.owner.as_ref()?;
        Some(&owner.table)
    };
    names.sort_by_key(|name| {
        let table = configuration.table_named(name);
        let mut defaults = table
            .into_iter()
            .flat_map(|it| sequence_defaults(&it.schema));
        let uses_others = defaults.any(|(_, default)| {
            let owner = owner(&default.sequence);
            owner.is_some_and(|owner| owner != name)
        });
        // A missing table is reported before others are dropped.
        table.is_some() && !uses_others
    });
}

/// Refuses a sequence where a table must be named.
pub(super) fn refuse_sequence(table: &PlacedTable) -> Result<(), SqlError> {
    match &table.schema.sequence {
        None => Ok(()),
        Some(_) => Err(SqlError::with_state(
            sqlstate::WRONG_OBJECT,
            format!(
                "\"{}\" is not a table but a sequence: use nextval, setval, ALTER SEQUENCE and \
                 DROP SEQUENCE",
                table.schema.name
            ),
        )),
    }
}

/// Checks that no table takes a default from a sequence, apart from those that are dropped, too.
fn check_unused(
    sequence: &str,
    dropped: &[String],
    configuration: &Configuration,
) -> Result<(), SqlError> {
    for table in configuration.tables.iter() {
        let schema = &table.schema;
        if dropped.contains(&schema.name) {
            continue;
        }
        let mut defaults = sequence_defaults(schema);
        let Some((column, default)) = defaults.find(|(_, it)| it.sequence == sequence) else {
            continue;
        };
        let table = &schema.name;
        let message = match default.identity {
            Some(IdentityKind::Always | IdentityKind::ByDefault) => format!(
                "cannot drop sequence {sequence} because column {column} of table {table} requires \
                 it: drop the table instead"
            ),
            None => format!(
                "cannot drop sequence {sequence} because other objects depend on it: default value \
                 for column {column} of table {table} depends on sequence {sequence}"
            ),
        };
        return Err(SqlError::with_state(sqlstate::DEPENDENT_OBJECTS, message));
    }
    Ok(())
}

/// Returns the columns of a table whose defaults come from sequences.
fn sequence_defaults(schema: &Schema) -> impl Iterator<Item = (&str, &SequenceDefault)> {
    let columns = schema.columns.iter();
    columns.filter_map(|column| match &column.default {
        Some(ColumnDefault::Sequence(default)) => Some((column.name.as_str(), default)),
        _ => None,
    })
}

/// Returns the sequence of this name.
pub(crate) fn sequence_named<'a>(
    configuration: &'a Configuration,
    name: &str,
) -> Result<&'a PlacedTable, SqlError> {
    match configuration.table_named(name) {
        Some(table) if table.schema.sequence.is_some() => Ok(table),
        Some(_) => Err(SqlError::with_state(
            sqlstate::WRONG_OBJECT,
            format!("\"{name}\" is not a sequence"),
        )),
        None => Err(no_relation(name)),
    }
}

/// Returns the error for a table or sequence that does not exist.
pub(crate) fn no_relation(name: &str) -> SqlError {
    let message = format!("relation \"{name}\" does not exist");
    SqlError::with_state(sqlstate::UNDEFINED_TABLE, message)
}
