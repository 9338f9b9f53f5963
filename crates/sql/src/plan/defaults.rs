//! The values of columns that an import or a `COPY` does not have.

use client::{default_value, now_us};
use placement::{Column, ColumnDefault, ComputedDefault, Schema, Value};

/// A row of defaults, for the rows of one statement.
#[derive(Clone, Debug)]
pub(crate) struct DefaultRow {
    values: Vec<Value>,
    /// The columns that get another value in each row.
    random: Vec<(usize, Column)>,
}

impl DefaultRow {
    /// Returns the defaults of a table. The columns in `given` get other values.
    pub fn new(schema: &Schema, given: &[usize]) -> DefaultRow {
        let now_us = now_us();
        let columns = schema.columns.iter();
        let values = columns.clone().map(|it| default_value(it, now_us));
        let random = ColumnDefault::Computed(ComputedDefault::RandomUuid);
        let is_random = |(position, column): &(usize, &Column)| {
            column.default.as_ref() == Some(&random) && !given.contains(position)
        };
        DefaultRow {
            values: values.collect(),
            random: columns
                .enumerate()
                .filter(is_random)
                .map(|(position, column)| (position, column.clone()))
                .collect(),
        }
    }

    /// Returns the values of a new row.
    pub fn row(&self) -> Vec<Value> {
        let mut values = self.values.clone();
        for (position, column) in &self.random {
            values[*position] = default_value(column, 0);
        }
        values
    }
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
        let defaults = DefaultRow::new(&schema, &[1]);
        let (one, other) = (defaults.row(), defaults.row());
        assert_ne!(one[0], other[0]);
        assert_eq!(one[1..], other[1..]);
        assert_eq!(one[3], Value::Int32(7));
    }
}
