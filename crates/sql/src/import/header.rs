//! Parses the first line of a CSV file, which names the column of each field, and converts a line
//! to a row.

use placement::{ColumnType, TimeZone, Value};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::expression::{Assignment, Expression};
use protocol::operation::{Action, Mutation};

use super::{ImportConflict, ImportOptions};
use crate::bind::{stored, unknown_column};
use crate::error::SqlError;
use crate::plan::{DefaultRow, encode, generated_column};
use crate::zones::time_input;

/// The columns of the fields, from the first line.
pub(super) struct Header<'a> {
    table: &'a PlacedTable,
    /// For each field, its column.
    columns: Vec<usize>,
    /// A row of defaults. It needs values of sequences before a line is converted.
    pub defaults: DefaultRow,
    on_conflict: ImportConflict,
    null: Option<&'a str>,
}

impl<'a> Header<'a> {
    /// Parses the first line.
    pub fn read(
        table: &'a PlacedTable,
        record: &csv::ByteRecord,
        options: &'a ImportOptions,
    ) -> Result<Header<'a>, SqlError> {
        let schema = &table.schema;
        let mut columns = Vec::new();
        for field in record {
            let name = String::from_utf8_lossy(field);
            let name = name.trim();
            let column = schema
                .column_index(name)
                .or_else(|| schema.column_index(&name.to_ascii_lowercase()))
                .ok_or_else(|| unknown_column(schema, name))?;
            if columns.contains(&column) {
                return Err(SqlError::statement(format!(
                    "the header names column {name} twice: name it once"
                )));
            }
            if schema.columns[column].generation().is_some() {
                return Err(generated_column(&schema.columns[column].name));
            }
            columns.push(column);
        }
        for (position, column) in schema.columns.iter().enumerate() {
            if !column.nullable && column.default.is_none() && !columns.contains(&position) {
                return Err(SqlError::statement(format!(
                    "column {} of table {} is NOT NULL and has no default: the file must have it",
                    column.name, schema.name
                )));
            }
        }
        Ok(Header {
            table,
            defaults: DefaultRow::new(schema, &columns, &TimeZone::UTC),
            columns,
            on_conflict: options.on_conflict,
            null: options.null.as_deref(),
        })
    }

    /// Returns the mutation for a line.
    pub fn mutation(&mut self, record: &csv::ByteRecord) -> Result<Mutation, SqlError> {
        if record.len() != self.columns.len() {
            return Err(SqlError::statement(format!(
                "{} fields, the header names {}: give one field per column",
                record.len(),
                self.columns.len()
            )));
        }
        let mut values = self.defaults.row()?;
        for (field, column) in record.iter().zip(&self.columns) {
            values[*column] = self.value(*column, field)?;
        }
        let (pk, row) = encode(self.table, &mut values, 1).map_err(|error| match error {
            // The line is named already, the row of a statement has no meaning here.
            SqlError::Row { error, .. } => SqlError::statement(error.to_string()),
            SqlError::Key { error, .. } => SqlError::statement(error.to_string()),
            other => other,
        })?;
        let row = Bytes(row);
        let action = match self.on_conflict {
            ImportConflict::Error => Action::Insert { row },
            ImportConflict::Skip => Action::InsertOrKeep { row },
            ImportConflict::Update => {
                let overwritten = self
                    .columns
                    .iter()
                    .filter(|column| !self.table.schema.primary_key.contains(column));
                let assignments: Vec<Assignment> = overwritten
                    .map(|column| Assignment {
                        column: *column as u16,
                        value: Expression::Excluded(*column as u16),
                    })
                    .collect();
                if assignments.is_empty() {
                    Action::InsertOrKeep { row }
                } else {
                    Action::Upsert {
                        row,
                        assignments,
                        condition: None,
                    }
                }
            }
        };
        let pk = Bytes(pk);
        Ok(Mutation { pk, action })
    }

    fn value(&self, column: usize, field: &[u8]) -> Result<Value, SqlError> {
        let column = &self.table.schema.columns[column];
        let place = || format!("column {}", column.name);
        let text = std::str::from_utf8(field).map_err(|_| {
            SqlError::statement(format!(
                "{}: the field is not UTF-8: convert the file",
                place()
            ))
        })?;
        let is_null = text.is_empty() || self.null == Some(text);
        if is_null && column.nullable {
            return Ok(Value::Null);
        }
        if is_null && !(text.is_empty() && column.column_type.of_values() == ColumnType::Text) {
            return Err(SqlError::statement(format!(
                "{} is NOT NULL: the field needs a value",
                place()
            )));
        }
        let input = time_input(TimeZone::UTC, None);
        stored(text, column.column_type, &place(), &input)
    }
}
