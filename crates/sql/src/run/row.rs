//! The effect of a mutation on a row, as its primary partition evaluates it.

use placement::{RowView, Schema, Value};
use protocol::configuration::PlacedTable;
use protocol::expression::{
    Assignment, Columns, Expression, evaluate_for, failed_check, generated_values, holds,
};
use protocol::operation::{Action, Mutation, RequestResult};

/// Returns the row that a mutation leaves, if it leaves one.
///
/// # Errors
/// The result of a mutation that changes nothing.
pub(crate) fn row_after(
    table: &PlacedTable,
    mutation: &Mutation,
    old: Option<&Vec<Value>>,
) -> Result<Option<Vec<Value>>, RequestResult> {
    let schema = &table.schema;
    let decode = |row: &[u8]| {
        let row = RowView::parse(&schema.columns, row);
        row.expect("the planner encoded it").to_values()
    };
    let holds_for = |condition: &Option<Expression>, row: &Vec<Value>, new: Option<&Vec<Value>>| {
        let excluded = new.map(|it| it as &dyn Columns);
        match condition {
            None => Ok(()),
            Some(condition) => match holds(condition, row, excluded) {
                Ok(true) => Ok(()),
                Ok(false) => Err(RequestResult::ConditionFailed),
                Err(error) => Err(RequestResult::Invalid {
                    message: error.to_string(),
                }),
            },
        }
    };
    // As in PostgreSQL, a proposed row must be valid, even if it does not take its place.
    if let Action::Insert { row } | Action::InsertOrKeep { row } | Action::Upsert { row, .. } =
        &mutation.action
    {
        satisfies_checks(schema, &decode(row))?;
    }
    Ok(match (&mutation.action, old) {
        (Action::Insert { row }, None) | (Action::InsertOrKeep { row }, None) => Some(decode(row)),
        (Action::Upsert { row, .. }, None) => Some(decode(row)),
        (Action::Insert { .. }, Some(_)) => {
            return Err(RequestResult::Duplicate {
                replex: table.primary_partition(0).replex,
                key: mutation.pk.clone(),
            });
        }
        (Action::InsertOrKeep { .. }, Some(_)) => return Err(RequestResult::Kept),
        (Action::Update { .. } | Action::Delete { .. }, None) => {
            return Err(RequestResult::NotFound);
        }
        (Action::Delete { condition }, Some(old)) => {
            holds_for(condition, old, None)?;
            None
        }
        (
            Action::Update {
                assignments,
                condition,
            },
            Some(old),
        ) => {
            holds_for(condition, old, None)?;
            Some(assigned(schema, assignments, old, None)?)
        }
        (
            Action::Upsert {
                row,
                assignments,
                condition,
            },
            Some(old),
        ) => {
            let proposed = decode(row);
            holds_for(condition, old, Some(&proposed))?;
            Some(assigned(schema, assignments, old, Some(&proposed))?)
        }
    })
}

fn assigned(
    schema: &Schema,
    assignments: &[Assignment],
    old: &Vec<Value>,
    proposed: Option<&Vec<Value>>,
) -> Result<Vec<Value>, RequestResult> {
    let invalid = |message: String| RequestResult::Invalid { message };
    let mut new = old.clone();
    let excluded = proposed.map(|it| it as &dyn Columns);
    for assignment in assignments {
        let column = &schema.columns[usize::from(assignment.column)];
        let value = evaluate_for(column.column_type, &assignment.value, old, excluded);
        let value = value.map_err(|error| invalid(error.to_string()))?;
        new[usize::from(assignment.column)] = value;
    }
    let generated = generated_values(schema, &new).map_err(|error| invalid(error.to_string()))?;
    for (position, value) in generated {
        new[position] = value;
    }
    let mut columns = schema.columns.iter().zip(&new);
    if let Some((column, _)) = columns.find(|(it, value)| value.is_null() && !it.nullable) {
        let name = &column.name;
        return Err(invalid(format!(
            "column {name} is NOT NULL: give it a value"
        )));
    }
    satisfies_checks(schema, &new)?;
    Ok(new)
}

fn satisfies_checks(schema: &Schema, row: &Vec<Value>) -> Result<(), RequestResult> {
    match failed_check(schema, row) {
        Ok(None) => Ok(()),
        Ok(Some(constraint)) => Err(RequestResult::CheckFailed {
            constraint: constraint.into(),
        }),
        Err(error) => Err(RequestResult::Invalid {
            message: error.to_string(),
        }),
    }
}
