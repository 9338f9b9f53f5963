//! Makes rows of a table from the fields of a `COPY`.

use std::sync::Arc;

use placement::{ColumnType, TimeInput, Value};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::{Epoch, TableId};
use protocol::operation::{Action, Mutation};

use crate::bind::{fitted, stored, unknown_column};
use crate::error::{SqlError, sqlstate};
use crate::import::known_table;
use crate::plan::{DefaultRow, encode, generated_column, has_dense};
use crate::statement::{CopyHeader, CopyOptions};
use crate::store::Store;

/// The table of a `COPY … FROM`, and the columns of the fields.
#[derive(Clone, Debug)]
pub struct CopyTarget {
    /// It has the table.
    configuration: Arc<Configuration>,
    table: TableId,
    /// For each field, its column.
    columns: Vec<usize>,
    /// A row of defaults.
    defaults: DefaultRow,
    options: CopyOptions,
    /// The zone of times without one.
    input: TimeInput<'static>,
}

/// The reason why the fields of a line are no row, and where in the line.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyFault {
    /// The error.
    pub error: SqlError,
    /// The column and its field, if the error is about one.
    pub column: Option<Box<(String, String)>>,
}

impl From<SqlError> for CopyFault {
    fn from(error: SqlError) -> CopyFault {
        CopyFault {
            error,
            column: None,
        }
    }
}

impl CopyTarget {
    /// Returns the configuration with the table.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Finds the table and its columns. Asks the coordinator for the newest configuration if the
    /// table is unknown. `input` has the meaning of times in the fields.
    ///
    /// # Errors
    /// The table or a column does not exist, or a column is named twice.
    pub async fn find<S: Store>(
        store: &S,
        table: &str,
        names: Option<&[String]>,
        options: &CopyOptions,
        input: TimeInput<'static>,
    ) -> Result<CopyTarget, SqlError> {
        let configuration = known_table(store, table).await?;
        let found = configuration.table_named(table);
        let found = found.expect("it was looked for");
        let schema = &found.schema;
        let find = |name: &String| {
            let column = schema.column_index(name);
            column.ok_or_else(|| unknown_column(schema, name))
        };
        let is_generated = |position: &usize| schema.columns[*position].generation().is_some();
        let columns: Vec<usize> = match names {
            None => {
                let all = schema.visible_positions().into_iter();
                all.filter(|it| !is_generated(it)).collect()
            }
            Some(names) => names.iter().map(find).collect::<Result<_, _>>()?,
        };
        if let Some(generated) = columns.iter().find(|it| is_generated(it)) {
            return Err(generated_column(&schema.columns[*generated].name));
        }
        if let Some(twice) = (1..columns.len()).find(|it| columns[..*it].contains(&columns[*it])) {
            let name = &schema.columns[columns[twice]].name;
            return Err(SqlError::with_state(
                sqlstate::DUPLICATE_COLUMN,
                format!("column {name} is named twice: name it once"),
            ));
        }
        for forced in [&options.force_null, &options.force_not_null] {
            for name in forced.names() {
                if !columns.contains(&find(name)?) {
                    return Err(SqlError::with_state(
                        sqlstate::INVALID_REFERENCE,
                        format!("column {name} is forced, and is none of the columns of the COPY"),
                    ));
                }
            }
        }
        let defaults = DefaultRow::new(schema, &columns, &input.zone);
        Ok(CopyTarget {
            table: found.id,
            columns,
            defaults,
            options: options.clone(),
            input,
            configuration,
        })
    }

    /// Returns the table's number and name.
    pub fn table(&self) -> (TableId, &str) {
        (self.table, &self.placed().schema.name)
    }

    /// Returns the name and the type of a field's column.
    pub fn column(&self, field: usize) -> (&str, ColumnType) {
        let column = &self.placed().schema.columns[self.columns[field]];
        (&column.name, column.column_type)
    }

    /// Returns the epoch of the configuration that has the columns.
    pub fn epoch(&self) -> Epoch {
        self.configuration.epoch
    }

    /// Returns the number of the fields of a line.
    pub fn fields(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether each row is an operation of its own, because an index is dense.
    pub fn is_row_by_row(&self) -> bool {
        has_dense(&self.placed().schema)
    }

    fn placed(&self) -> &PlacedTable {
        let table = self.configuration.table(self.table);
        table.expect("the configuration has the table")
    }

    /// Checks the first line, if it has the names of columns.
    ///
    /// # Errors
    /// It has other names, and the options want those of the columns.
    pub fn check_header(&self, fields: &[Option<String>]) -> Result<(), SqlError> {
        if self.options.header != CopyHeader::Match {
            return Ok(());
        }
        let bad = |text: String| Err(SqlError::with_state(sqlstate::BAD_COPY, text));
        if fields.len() != self.fields() {
            return bad(format!(
                "wrong number of fields in header line: got {}, expected {}",
                fields.len(),
                self.fields()
            ));
        }
        for (position, field) in fields.iter().enumerate() {
            let (expected, _) = self.column(position);
            if field.as_deref() != Some(expected) {
                let found = field.as_deref().unwrap_or(&self.options.null);
                return bad(format!(
                    "column name mismatch in header line field {}: got \"{found}\", expected \
                     \"{expected}\"",
                    position + 1
                ));
            }
        }
        Ok(())
    }

    /// Draws values of sequences for the next rows, if the table needs them.
    ///
    /// # Errors
    /// A sequence has no further value, or a request failed.
    pub async fn prepare<S: Store>(&mut self, store: &S) -> Result<(), SqlError> {
        match self.defaults.lacks_values() {
            true => self.defaults.draw(store, &self.configuration).await,
            false => Ok(()),
        }
    }

    /// Returns the insertion of the row of a line.
    ///
    /// # Panics
    /// [`CopyTarget::prepare`] was not called before.
    ///
    /// # Errors
    /// The line has another number of fields, a field is no value of its column, or the row is
    /// none of the table.
    pub fn mutation(&mut self, fields: Vec<Option<String>>) -> Result<Mutation, CopyFault> {
        if fields.len() > self.fields() {
            let text = "extra data after last expected column";
            return Err(SqlError::with_state(sqlstate::BAD_COPY, text).into());
        }
        let mut values = Vec::with_capacity(self.fields());
        let mut fields = fields.into_iter();
        for position in 0..self.fields() {
            let (name, column_type) = self.column(position);
            let Some(field) = fields.next() else {
                let text = format!("missing data for column \"{name}\"");
                return Err(SqlError::with_state(sqlstate::BAD_COPY, text).into());
            };
            let field = match field {
                None if self.options.force_not_null.contains(name) => {
                    Some(self.options.null.clone())
                }
                Some(text)
                    if self.options.force_null.contains(name) && text == self.options.null =>
                {
                    None
                }
                field => field,
            };
            values.push(match field {
                None => Value::Null,
                Some(text) => {
                    let place = format!("column {name}");
                    let value = stored(&text, column_type, &place, &self.input);
                    value.map_err(|error| CopyFault {
                        error,
                        column: Some(Box::new((name.to_owned(), text))),
                    })?
                }
            });
        }
        Ok(self.mutation_of_values(values)?)
    }

    /// Returns a value of a field as its column stores it.
    ///
    /// # Errors
    /// It is too long for the column.
    pub fn fitted(&self, field: usize, value: Value) -> Result<Value, SqlError> {
        let (name, column_type) = self.column(field);
        fitted(value, column_type, &format!("column {name}"))
    }

    /// Returns the insertion of a row with these values, one for each field, as their columns store
    /// them.
    ///
    /// # Panics
    /// [`CopyTarget::prepare`] was not called before.
    ///
    /// # Errors
    /// The row is none of the table.
    pub fn mutation_of_values(&mut self, values: Vec<Value>) -> Result<Mutation, SqlError> {
        assert_eq!(values.len(), self.fields());
        let mut row = self.defaults.row()?;
        for (column, value) in self.columns.iter().zip(values) {
            row[*column] = value;
        }
        let (pk, row) = encode(self.placed(), &mut row, 1)?;
        Ok(Mutation {
            pk: Bytes(pk),
            action: Action::Insert { row: Bytes(row) },
        })
    }
}
