//! The values of columns that an import or a `COPY` does not have.

use std::collections::VecDeque;

use client::{default_value, now_us};
use placement::{Column, ColumnDefault, ComputedDefault, Schema, TimeZone, Value};
use protocol::configuration::Configuration;

use super::sequence::sequence_named;
use crate::error::{SqlError, sqlstate};
use crate::store::Store;

/// The most values of a sequence that are drawn at a time. The first time it is one, and then
/// twice as many as the last time: values that no row needs are lost.
const DRAWN_MAX: usize = 1000;

/// A row of defaults, for the rows of one statement.
#[derive(Clone, Debug)]
pub(crate) struct DefaultRow {
    values: Vec<Value>,
    /// The columns that get another value in each row.
    random: Vec<(usize, Column)>,
    drawn: Vec<DrawnColumn>,
}

/// A column whose values come from a sequence.
#[derive(Clone, Debug)]
struct DrawnColumn {
    position: usize,
    column: Column,
    sequence: String,
    values: VecDeque<i64>,
    /// The number of values that are drawn next.
    count: usize,
}

impl DefaultRow {
    /// Returns the defaults of a table. The columns in `given` get other values. Local times are
    /// those of `zone`.
    pub fn new(schema: &Schema, given: &[usize], zone: &TimeZone<'_>) -> DefaultRow {
        let now_us = now_us();
        let columns = schema.columns.iter();
        let values = columns.clone().map(|it| default_value(it, now_us, zone));
        let is_open = |(position, _): &(usize, &Column)| !given.contains(position);
        let open = || columns.clone().enumerate().filter(is_open);
        let random = ColumnDefault::Computed(ComputedDefault::RandomUuid);
        let is_random = |(_, column): &(usize, &Column)| column.default.as_ref() == Some(&random);
        let drawn = |(position, column): (usize, &Column)| match &column.default {
            Some(ColumnDefault::Sequence(default)) => Some(DrawnColumn {
                position,
                column: column.clone(),
                sequence: default.sequence.clone(),
                values: VecDeque::new(),
                count: 1,
            }),
            _ => None,
        };
        DefaultRow {
            values: values.collect(),
            random: open()
                .filter(is_random)
                .map(|(position, column)| (position, column.clone()))
                .collect(),
            drawn: open().filter_map(drawn).collect(),
        }
    }

    /// Returns whether values of sequences must be drawn before the next row.
    pub fn lacks_values(&self) -> bool {
        self.drawn.iter().any(|drawn| drawn.values.is_empty())
    }

    /// Draws values for the next rows.
    pub async fn draw<S: Store>(
        &mut self,
        store: &S,
        configuration: &Configuration,
    ) -> Result<(), SqlError> {
        for column in &mut self.drawn {
            if column.values.is_empty() {
                let sequence = sequence_named(configuration, &column.sequence)?;
                let values = store.next_values(sequence.id, column.count).await?;
                column.values.extend(values.map_err(|limit| {
                    let message = limit.text(&column.sequence);
                    SqlError::with_state(sqlstate::SEQUENCE_LIMIT, message)
                })?);
                column.count = (column.count * 2).min(DRAWN_MAX);
            }
        }
        Ok(())
    }

    /// Returns the values of a new row.
    ///
    /// # Errors
    /// The value of a sequence is out of the range of its column.
    ///
    /// # Panics
    /// The row lacks values of sequences.
    pub fn row(&mut self) -> Result<Vec<Value>, SqlError> {
        let mut values = self.values.clone();
        for (position, column) in &self.random {
            values[*position] = default_value(column, 0, &TimeZone::UTC);
        }
        for drawn in &mut self.drawn {
            let value = drawn.values.pop_front().expect("callers draw values first");
            let column = &drawn.column;
            let assigned = Value::Int64(value).assigned(column.column_type);
            values[drawn.position] = assigned.map_err(|_| {
                let message = format!(
                    "the value {value} of sequence {} is out of range for column {}",
                    drawn.sequence, column.name
                );
                SqlError::with_state(sqlstate::OUT_OF_RANGE, message)
            })?;
        }
        Ok(values)
    }
}

/// Returns the error for a generated column among those of lines.
pub(crate) fn generated_column(name: &str) -> SqlError {
    SqlError::with_state(
        sqlstate::INVALID_REFERENCE,
        format!("column \"{name}\" is a generated column, which cannot be copied: leave it out"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::statement::Statement;

    #[test]
    fn each_row_has_a_uuid_of_its_own_and_the_same_time() {
        let text = "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), other uuid DEFAULT \
                    gen_random_uuid(), at timestamptz DEFAULT now(), n int DEFAULT 7)";
        let Statement::CreateTable { schema, .. } = parse(text).unwrap().remove(0).statement else {
            panic!("it creates a table");
        };
        // The file has the second column.
        let mut defaults = DefaultRow::new(&schema, &[1], &TimeZone::UTC);
        let (one, other) = (defaults.row().unwrap(), defaults.row().unwrap());
        assert_ne!(one[0], other[0]);
        assert_eq!(one[1..], other[1..]);
        assert_eq!(one[3], Value::Int32(7));
    }
}
