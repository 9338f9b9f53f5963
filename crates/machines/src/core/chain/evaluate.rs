//! The effect of a mutation on a row. The head evaluates it under the key's lock.
//!
//! The code is pure: it maps a row image to a result and perhaps a new image. Other partitions vote
//! on whether the new image is valid (unique, dense).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use placement::{Column, KEY_BYTES_MAX, ROW_BYTES_MAX, RowView, ValueRef, encode_row_refs};
use protocol::expression::{
    Assignment, Columns, Expression, Scope, check_assignable, check_condition, evaluate_for, holds,
};
use protocol::identity::PartitionId;
use protocol::operation::{Action, Mutation, OldRow, RequestResult};
use protocol::planted::{self, Bug};

use crate::core::table::TableInfo;

/// The outcome of a mutation, evaluated on a row.
#[derive(Debug, PartialEq)]
pub(crate) enum MutationOutcome {
    /// The row gets this new image; none is a delete.
    Write(Option<Vec<u8>>),
    /// The row stays, and the request has this result.
    Ended(RequestResult),
}

/// Checks a mutation's expressions against the table, before any row is read.
pub(crate) fn check(table: &TableInfo, mutation: &Mutation) -> Result<(), String> {
    let (assignments, condition, scope) = match &mutation.action {
        Action::Insert { .. } | Action::InsertOrKeep { .. } => return Ok(()),
        Action::Upsert {
            assignments,
            condition,
            ..
        } => (&assignments[..], condition, Scope::RowAndExcluded),
        Action::Update {
            assignments,
            condition,
        } => (&assignments[..], condition, Scope::Row),
        Action::Delete { condition } => (&[][..], condition, Scope::Row),
    };
    let columns = &table.schema.columns;
    if let Some(condition) = condition {
        check_condition(condition, columns, scope).map_err(|error| error.to_string())?;
    }
    for Assignment { column, value } in assignments {
        // A column that is not there is reported when a row is at hand.
        if let Some(column) = columns.get(usize::from(*column)) {
            check_assignable(column.column_type, value, columns, scope)
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Applies `mutation` to the row image `current`. `partition` is the primary partition in the
/// request.
pub(crate) fn apply(
    table: &TableInfo,
    partition: PartitionId,
    mutation: &Mutation,
    current: Option<&[u8]>,
) -> MutationOutcome {
    let result = match (&mutation.action, current) {
        (
            Action::Insert { row } | Action::InsertOrKeep { row } | Action::Upsert { row, .. },
            None,
        ) => new_image(table, partition, &mutation.pk, row),
        (Action::Insert { .. }, Some(_)) => {
            let duplicate = RequestResult::Duplicate {
                replex: partition.replex,
                key: mutation.pk.clone(),
            };
            return MutationOutcome::Ended(duplicate);
        }
        (Action::InsertOrKeep { .. }, Some(_)) => {
            return MutationOutcome::Ended(RequestResult::Kept);
        }
        (
            Action::Upsert {
                row,
                assignments,
                condition,
            },
            Some(current),
        ) => update(table, current, Some(row), assignments, condition.as_ref()),
        (Action::Update { .. } | Action::Delete { .. }, None) => {
            return MutationOutcome::Ended(RequestResult::NotFound);
        }
        (
            Action::Update {
                assignments,
                condition,
            },
            Some(current),
        ) => update(table, current, None, assignments, condition.as_ref()),
        (Action::Delete { condition }, Some(current)) => delete(table, current, condition.as_ref()),
    };
    result.unwrap_or_else(|message| MutationOutcome::Ended(RequestResult::Invalid { message }))
}

fn view<'a>(table: &'a TableInfo, row: &'a [u8]) -> Result<RowView<'a>, String> {
    RowView::parse(&table.schema.columns, row).map_err(|error| error.to_string())
}

fn new_image(
    table: &TableInfo,
    partition: PartitionId,
    pk: &[u8],
    row: &[u8],
) -> Result<MutationOutcome, String> {
    if row.len() > ROW_BYTES_MAX {
        return Err(format!(
            "the row has {} bytes; at most {ROW_BYTES_MAX} are possible",
            row.len()
        ));
    }
    let view = view(table, row)?;
    for (index, column) in table.schema.columns.iter().enumerate() {
        if !column.nullable && matches!(view.column(index), ValueRef::Null) {
            return Err(null_message(table, column));
        }
    }
    let primary = table.layout.primary();
    let same_pk = table.entry_key(primary, &view) == pk;
    if !same_pk || table.layout.partition_of_row(primary, &view) != partition.number {
        return Err("the row's primary key is not the one that the request names".into());
    }
    check_keys(table, &view, row.len())?;
    Ok(MutationOutcome::Write(Some(row.to_vec())))
}

fn null_message(table: &TableInfo, column: &Column) -> String {
    format!(
        "column {} of table {} may not be null",
        column.name, table.schema.name
    )
}

fn check_keys(table: &TableInfo, row: &RowView<'_>, row_bytes: usize) -> Result<(), String> {
    if row_bytes <= table.row_bytes_short {
        return Ok(());
    }
    for (replex, layout) in table.layout.replexes.iter().enumerate() {
        let bytes = table.entry_key(replex, row).len();
        if bytes > KEY_BYTES_MAX {
            let name = &layout.name;
            return Err(format!(
                "the key of index {name} has {bytes} bytes; at most {KEY_BYTES_MAX} are possible"
            ));
        }
    }
    Ok(())
}

fn condition_holds(
    condition: Option<&Expression>,
    row: &RowView<'_>,
    excluded: Option<&dyn Columns>,
) -> Result<bool, String> {
    match condition {
        None => Ok(true),
        Some(condition) => holds(condition, row, excluded).map_err(|error| error.to_string()),
    }
}

fn delete(
    table: &TableInfo,
    current: &[u8],
    condition: Option<&Expression>,
) -> Result<MutationOutcome, String> {
    let row = view(table, current)?;
    Ok(match condition_holds(condition, &row, None)? {
        true => MutationOutcome::Write(None),
        false => MutationOutcome::Ended(RequestResult::ConditionFailed),
    })
}

fn update(
    table: &TableInfo,
    current: &[u8],
    proposed: Option<&[u8]>,
    assignments: &[Assignment],
    condition: Option<&Expression>,
) -> Result<MutationOutcome, String> {
    let row = view(table, current)?;
    let proposed = proposed.map(|proposed| view(table, proposed)).transpose()?;
    if !condition_holds(condition, &row, columns_of(&proposed))? {
        return Ok(MutationOutcome::Ended(RequestResult::ConditionFailed));
    }
    let mut assigned = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let index = usize::from(assignment.column);
        let Some(column) = table.schema.columns.get(index) else {
            return Err(format!(
                "table {} has no column number {index}",
                table.schema.name
            ));
        };
        if table.schema.primary_key.contains(&index) {
            let name = &column.name;
            return Err(format!(
                "column {name} is part of the primary key, which cannot change: delete the row \
                 and insert a new one"
            ));
        }
        let wanted = column.column_type;
        let value = evaluate_for(wanted, &assignment.value, &row, columns_of(&proposed));
        let value = value.map_err(|error| error.to_string())?;
        if value.is_null() && !column.nullable {
            return Err(null_message(table, column));
        }
        assigned.push((index, value));
    }
    let columns = &table.schema.columns;
    let mut values: Vec<ValueRef<'_>> = (0..columns.len()).map(|index| row.column(index)).collect();
    for (index, value) in &assigned {
        values[*index] = value.as_ref();
    }
    let image = encode_row_refs(columns, &values).map_err(|error| error.to_string())?;
    check_keys(table, &view(table, &image)?, image.len())?;
    Ok(MutationOutcome::Write(Some(image)))
}

fn columns_of<'a>(row: &'a Option<RowView<'_>>) -> Option<&'a dyn Columns> {
    row.as_ref().map(|row| row as &dyn Columns)
}

/// Returns the coordinates by which partitions find the old row's entries (R1, R21).
pub(crate) fn old_row(
    table: &TableInfo,
    before: Option<(protocol::identity::Version, &[u8])>,
    after: Option<&[u8]>,
) -> OldRow {
    let Some((version, before)) = before else {
        return OldRow::Absent;
    };
    let before = RowView::parse(&table.schema.columns, before).expect("a stored row decodes");
    let after = after.map(|after| {
        RowView::parse(&table.schema.columns, after).expect("an evaluated row decodes")
    });
    let key_columns = || {
        table
            .key_columns
            .iter()
            .enumerate()
            .filter(|(_, is_key)| **is_key)
    };
    if let Some(after) = &after
        && (planted::is(Bug::OldCoordinatesLost)
            || key_columns().all(|(index, _)| before.column(index) == after.column(index)))
    {
        return OldRow::SameKeys { version };
    }
    let values: Vec<ValueRef<'_>> = table
        .key_columns
        .iter()
        .enumerate()
        .map(|(index, is_key)| {
            if *is_key {
                before.column(index)
            } else {
                ValueRef::Null
            }
        })
        .collect();
    let row = encode_row_refs(&table.coordinate_columns, &values);
    OldRow::Keys {
        version,
        row: row.expect("a part of a row encodes").into(),
    }
}

/// Returns whether two images of a row have the same constrained columns. Then a request between
/// them can join an operation without a vote of its own.
pub(crate) fn same_constraints(table: &TableInfo, before: &[u8], after: &[u8]) -> bool {
    if !table.constrained_columns.contains(&true) {
        return true;
    }
    let columns = &table.schema.columns;
    let (Ok(before), Ok(after)) = (
        RowView::parse(columns, before),
        RowView::parse(columns, after),
    ) else {
        return false;
    };
    let constrained = table
        .constrained_columns
        .iter()
        .enumerate()
        .filter(|(_, is)| **is);
    constrained
        .into_iter()
        .all(|(index, _)| before.column(index) == after.column(index))
}
