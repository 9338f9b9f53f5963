//! Drops columns, and gives them other types.

use placement::{
    Alteration, BinaryOperator, ColumnType, Expression, FunctionCall, ScalarFunction, Value,
};

use super::Change;
use crate::bind::unknown_column;
use crate::error::{SqlError, sqlstate};

impl Change<'_, '_> {
    /// Drops a column. Indexes and constraints over it go with it, as in PostgreSQL, and the
    /// sequence that belongs to it.
    pub(super) fn drop_column(
        &mut self,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let table = self.schema.name.clone();
        let mut columns = self.schema.visible_columns();
        let position = columns.find(|(_, column)| column.name == name);
        let position = position.map(|(position, _)| position);
        drop(columns);
        let Some(position) = position else {
            if !if_exists {
                return Err(unknown_column(&self.schema, name));
            }
            let missing =
                format!("column \"{name}\" of relation \"{table}\" does not exist, skipping");
            self.plan.notices.push(missing);
            return Ok(());
        };
        if self.schema.primary_key.contains(&position) {
            return Err(SqlError::unsupported(
                format!("DROP COLUMN {name}, which is in the primary key of table {table}"),
                "create a table with another primary key, then export and import the rows",
            ));
        }
        self.drop_generated_from((name, position), cascade)?;
        let keys = self.schema.constraints.foreign_keys.iter();
        let keys = keys.filter(|key| key.columns.contains(&position));
        let gone: Vec<Alteration> = keys
            .map(|key| Alteration::DropConstraint {
                constraint: key.name.clone(),
            })
            .collect();
        self.schema = self.schema.altered(&gone)?;
        self.plan.first.extend(gone);
        let copies = self.schema.indexes_of(position).into_iter();
        for copy in copies.map(str::to_owned).collect::<Vec<String>>() {
            self.schema.remove(&copy);
            self.plan.dropped_copies.push(copy);
        }
        let sequences = self.context.configuration.tables.iter().filter(|it| {
            let sequence = it.schema.sequence.as_ref();
            let owner = sequence.and_then(|sequence| sequence.owner.as_ref());
            owner.is_some_and(|owner| owner.table == table && owner.column == name)
        });
        let sequences = sequences.map(|sequence| sequence.schema.name.clone());
        self.plan.dropped_sequences.extend(sequences);
        let column = name.to_owned();
        self.alter(Alteration::DropColumn { column })
    }

    /// Drops the generated columns that are computed from a column.
    fn drop_generated_from(
        &mut self,
        (name, position): (&str, usize),
        cascade: bool,
    ) -> Result<(), SqlError> {
        let table = self.schema.name.clone();
        let generated = self.schema.generated_from(position).into_iter();
        for other in generated.map(str::to_owned).collect::<Vec<String>>() {
            if !cascade {
                return Err(SqlError::with_state(
                    sqlstate::DEPENDENT_OBJECTS,
                    format!(
                        "cannot drop column {name} of table {table} because other objects depend on \
                         it: column {other} of table {table} depends on column {name} of table \
                         {table}. Use DROP ... CASCADE to drop the dependent objects too"
                    ),
                ));
            }
            let notice = format!("drop cascades to column {other} of table {table}");
            self.plan.notices.push(notice);
            self.drop_column(&other, false, false)?;
        }
        Ok(())
    }

    pub(super) fn set_type(&mut self, name: &str, wanted: ColumnType) -> Result<(), SqlError> {
        let before = self.column(name)?.column_type;
        if before == wanted {
            return Ok(());
        }
        let position = self.schema.column_index(name).unwrap_or_default();
        if let Some(generated) = self.schema.generated_from(position).first() {
            return Err(SqlError::with_state(
                sqlstate::UNSUPPORTED,
                format!(
                    "cannot alter type of a column used by a generated column: column \"{name}\" is \
                     used by generated column \"{generated}\""
                ),
            ));
        }
        if !before.is_stored_as(wanted) {
            return Err(SqlError::unsupported(
                format!("another type for column {name}: from {before} to {wanted}"),
                "add a column of the new type, copy the values with UPDATE, drop the column, and \
                 rename the new one",
            ));
        }
        let shortened = match (before, wanted) {
            (
                ColumnType::Varchar(before) | ColumnType::Char(before),
                ColumnType::Varchar(limit),
            ) => (before > limit).then_some(limit),
            (_, ColumnType::Varchar(limit)) => Some(limit),
            _ => None,
        };
        if let Some(limit) = shortened {
            let error = SqlError::with_state(
                sqlstate::TRUNCATION,
                format!("value too long for type character varying({limit})"),
            );
            let length = Expression::Call(Box::new(FunctionCall::new(
                ScalarFunction::Length,
                vec![self.value_of(name)],
            )));
            let limit = Expression::Literal(Value::Int32(limit.cast_signed()));
            let condition =
                Expression::Binary(BinaryOperator::LessEqual, Box::new(length), Box::new(limit));
            let constraint = format!("{}_{name}_length", self.schema.name);
            self.require(constraint, condition, error)?;
        }
        self.alter(Alteration::SetType {
            column: name.to_owned(),
            column_type: wanted,
        })
    }
}
