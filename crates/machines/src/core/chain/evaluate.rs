//! The effect of a mutation on a row. The head evaluates it under the key's lock.
//!
//! The code is pure: it maps a row image to a result and perhaps a new image. Other partitions vote
//! on whether the new image is valid (unique, dense).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use placement::{Column, KEY_BYTES_MAX, ROW_BYTES_MAX, RowView, Value, ValueRef, encode_row_refs};
use protocol::expression::{
    Assignment, Columns, Expression, Scope, check_assignable, check_condition, evaluate_for,
    failed_check, generated_values, holds,
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
            if column.generation().is_some() {
                let (name, table) = (&column.name, &table.schema.name);
                return Err(format!(
                    "column {name} of table {table} is generated, and cannot be assigned: assign the \
                     columns that it is computed from"
                ));
            }
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
    let proposed = match &mutation.action {
        Action::Insert { row } | Action::InsertOrKeep { row } | Action::Upsert { row, .. } => {
            match completed(table, row) {
                Ok(completed) => Some(completed),
                Err(refused) => return MutationOutcome::Ended(refused),
            }
        }
        Action::Update { .. } | Action::Delete { .. } => None,
    };
    let proposed = proposed.as_deref();
    // As in PostgreSQL, a proposed row must be valid, even if it does not take its place.
    if let (Some(proposed), Some(_)) = (proposed, current)
        && !table.schema.constraints.checks.is_empty()
        && let Err(refused) = view(table, proposed).and_then(|it| satisfies_checks(table, &it))
    {
        return MutationOutcome::Ended(refused);
    }
    let result = match (&mutation.action, current) {
        (Action::Insert { .. } | Action::InsertOrKeep { .. } | Action::Upsert { .. }, None) => {
            let row = proposed.expect("these actions propose a row");
            new_image(table, partition, &mutation.pk, row)
        }
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
                assignments,
                condition,
                ..
            },
            Some(current),
        ) => update(table, current, proposed, assignments, condition.as_ref()),
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
    result.unwrap_or_else(MutationOutcome::Ended)
}

/// Returns a proposed row with the values of the generated columns.
fn completed<'a>(table: &TableInfo, row: &'a [u8]) -> Result<Cow<'a, [u8]>, RequestResult> {
    if !table.has_generated {
        return Ok(Cow::Borrowed(row));
    }
    let view = view(table, row)?;
    let columns = &table.schema.columns;
    let mut values: Vec<ValueRef<'_>> = (0..columns.len()).map(|it| view.column(it)).collect();
    let generated = generated(table, &values)?;
    for (index, value) in &generated {
        values[*index] = value.as_ref();
    }
    let row = encode_row_refs(columns, &values).map_err(invalid)?;
    Ok(Cow::Owned(row))
}

/// The values of a row that is not encoded.
struct RowValues<'a>(&'a [ValueRef<'a>]);

impl Columns for RowValues<'_> {
    fn column(&self, index: usize) -> Option<ValueRef<'_>> {
        self.0.get(index).copied()
    }
}

/// Returns the values of the generated columns of a row, with their positions.
fn generated(
    table: &TableInfo,
    row: &[ValueRef<'_>],
) -> Result<Vec<(usize, Value)>, RequestResult> {
    if !table.has_generated {
        return Ok(Vec::new());
    }
    let values = generated_values(&table.schema, &RowValues(row)).map_err(invalid)?;
    for (index, value) in &values {
        let column = &table.schema.columns[*index];
        if value.is_null() && !column.nullable {
            return Err(null_in(table, column));
        }
    }
    Ok(values)
}

fn view<'a>(table: &'a TableInfo, row: &'a [u8]) -> Result<RowView<'a>, RequestResult> {
    RowView::parse(&table.schema.columns, row).map_err(invalid)
}

fn invalid(reason: impl ToString) -> RequestResult {
    RequestResult::Invalid {
        message: reason.to_string(),
    }
}

/// Tests the CHECK constraints on a row that a change would leave.
fn satisfies_checks(table: &TableInfo, row: &RowView<'_>) -> Result<(), RequestResult> {
    match failed_check(&table.schema, row).map_err(invalid)? {
        None => Ok(()),
        Some(constraint) => Err(RequestResult::CheckFailed {
            constraint: constraint.into(),
        }),
    }
}

fn new_image(
    table: &TableInfo,
    partition: PartitionId,
    pk: &[u8],
    row: &[u8],
) -> Result<MutationOutcome, RequestResult> {
    if row.len() > ROW_BYTES_MAX {
        return Err(invalid(format!(
            "the row has {} bytes; at most {ROW_BYTES_MAX} are possible",
            row.len()
        )));
    }
    let view = view(table, row)?;
    for (index, column) in table.schema.columns.iter().enumerate() {
        if !column.nullable && matches!(view.column(index), ValueRef::Null) {
            return Err(null_in(table, column));
        }
    }
    let primary = table.layout.primary();
    let same_pk = table.entry_key(primary, &view) == pk;
    if !same_pk || table.layout.partition_of_row(primary, &view) != partition.number {
        return Err(invalid(
            "the row's primary key is not the one that the request names",
        ));
    }
    satisfies_checks(table, &view)?;
    check_keys(table, &view, row.len())?;
    Ok(MutationOutcome::Write(Some(row.to_vec())))
}

fn null_in(table: &TableInfo, column: &Column) -> RequestResult {
    invalid(format!(
        "column {} of table {} may not be null",
        column.name, table.schema.name
    ))
}

fn check_keys(table: &TableInfo, row: &RowView<'_>, row_bytes: usize) -> Result<(), RequestResult> {
    if row_bytes <= table.row_bytes_short {
        return Ok(());
    }
    for (replex, layout) in table.layout.replexes.iter().enumerate() {
        let bytes = table.entry_key(replex, row).len();
        if bytes > KEY_BYTES_MAX {
            let name = &layout.name;
            return Err(invalid(format!(
                "the key of index {name} has {bytes} bytes; at most {KEY_BYTES_MAX} are possible"
            )));
        }
    }
    Ok(())
}

fn condition_holds(
    condition: Option<&Expression>,
    row: &RowView<'_>,
    excluded: Option<&dyn Columns>,
) -> Result<bool, RequestResult> {
    match condition {
        None => Ok(true),
        Some(condition) => holds(condition, row, excluded).map_err(invalid),
    }
}

fn delete(
    table: &TableInfo,
    current: &[u8],
    condition: Option<&Expression>,
) -> Result<MutationOutcome, RequestResult> {
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
) -> Result<MutationOutcome, RequestResult> {
    let row = view(table, current)?;
    let proposed = proposed.map(|proposed| view(table, proposed)).transpose()?;
    if !condition_holds(condition, &row, columns_of(&proposed))? {
        return Ok(MutationOutcome::Ended(RequestResult::ConditionFailed));
    }
    let mut assigned = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let index = usize::from(assignment.column);
        let Some(column) = table.schema.columns.get(index) else {
            return Err(invalid(format!(
                "table {} has no column number {index}",
                table.schema.name
            )));
        };
        if table.schema.primary_key.contains(&index) {
            let name = &column.name;
            return Err(invalid(format!(
                "column {name} is part of the primary key, which cannot change: delete the row \
                 and insert a new one"
            )));
        }
        let wanted = column.column_type;
        let value = evaluate_for(wanted, &assignment.value, &row, columns_of(&proposed));
        let value = value.map_err(invalid)?;
        if value.is_null() && !column.nullable {
            return Err(null_in(table, column));
        }
        assigned.push((index, value));
    }
    let columns = &table.schema.columns;
    let mut values: Vec<ValueRef<'_>> = (0..columns.len()).map(|index| row.column(index)).collect();
    for (index, value) in &assigned {
        values[*index] = value.as_ref();
    }
    let generated = generated(table, &values)?;
    for (index, value) in &generated {
        values[*index] = value.as_ref();
    }
    let image = encode_row_refs(columns, &values).map_err(invalid)?;
    let new = view(table, &image)?;
    satisfies_checks(table, &new)?;
    check_keys(table, &new, image.len())?;
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
            || key_columns().all(|(index, _)| before.column(index).is_same(after.column(index))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec;
    use placement::{
        CheckConstraint, ColumnDefault, ColumnType, Durability, Layout, Schema, TableComments,
        TableConstraints, Value, encode_key, encode_row,
    };
    use protocol::configuration::{Configuration, Place, PlacedTable};
    use protocol::expression::BinaryOperator;
    use protocol::identity::{CoreId, Epoch, ServerId, TableId};

    /// Returns a table `t(id, number)` with the constraint `number < 10`.
    fn table() -> TableInfo {
        table_of(vec![column("id", false), column("number", true)])
    }

    fn column(name: &str, nullable: bool) -> Column {
        Column {
            name: name.into(),
            column_type: ColumnType::Int64,
            nullable,
            default: None,
            missing: None,
        }
    }

    /// Returns a table with these columns and the constraint that the second one is less than 10.
    fn table_of(columns: Vec<Column>) -> TableInfo {
        let schema = Schema {
            name: "t".into(),
            columns,
            primary_key: vec![0],
            indexes: Vec::new(),
            further: Vec::new(),
            thin: Vec::new(),
            partitions: 1,
            failures_tolerated: 0,
            failures_wanted: 0,
            local_entries: true,
            durability: Durability::Sync,
            primary_partition_columns: None,
            sequence: None,
            constraints: TableConstraints {
                checks: vec![CheckConstraint {
                    name: "small".into(),
                    condition: Expression::Binary(
                        BinaryOperator::Less,
                        Box::new(Expression::Column(1)),
                        Box::new(Expression::Literal(Value::Int64(10))),
                    ),
                    is_valid: true,
                }],
                ..TableConstraints::default()
            },
        };
        let core = CoreId {
            server: ServerId(1),
            core: 0,
        };
        let table = PlacedTable {
            id: TableId(1),
            epoch: Epoch(0),
            sealing: None,
            columns_since: Epoch(0),
            layout: Layout::base(&schema),
            schema,
            placement: vec![vec![Place::serving(core, Epoch(0))]],
            building: Vec::new(),
            comments: TableComments::default(),
        };
        TableInfo::new(&table, &Configuration::default())
    }

    #[test]
    fn checks_are_tested_on_every_row_that_a_change_leaves() {
        let table = table();
        let row = |number: Option<i64>| {
            let number = number.map_or(Value::Null, Value::Int64);
            let row = encode_row(&table.schema.columns, &[Value::Int64(7), number]);
            row.expect("it is of the table")
        };
        let outcome = |action: Action, current: Option<&[u8]>| {
            let pk = encode_key([Value::Int64(7).as_ref()]).into();
            let mutation = Mutation { pk, action };
            apply(&table, table.partition(0, 0), &mutation, current)
        };
        let insert = |number| Action::Insert {
            row: row(number).into(),
        };
        let keep = |number| Action::InsertOrKeep {
            row: row(number).into(),
        };
        let add = |count| Assignment {
            column: 1,
            value: Expression::Binary(
                BinaryOperator::Add,
                Box::new(Expression::Column(1)),
                Box::new(Expression::Literal(Value::Int64(count))),
            ),
        };
        let update = |count| Action::Update {
            assignments: vec![add(count)],
            condition: None,
        };
        let upsert = |number, count| Action::Upsert {
            row: row(number).into(),
            assignments: vec![add(count)],
            condition: None,
        };
        let (small, null) = (row(Some(5)), row(None));
        let refused = MutationOutcome::Ended(RequestResult::CheckFailed {
            constraint: "small".into(),
        });
        for (action, current) in [
            (insert(Some(10)), None),
            (keep(Some(10)), None),
            (keep(Some(10)), Some(&small[..])),
            (update(5), Some(&small[..])),
            (upsert(Some(10), 0), None),
            (upsert(Some(10), 0), Some(&small[..])),
            (upsert(Some(1), 5), Some(&small[..])),
        ] {
            assert_eq!(outcome(action.clone(), current), refused, "{action:?}");
        }
        for (action, current) in [
            (insert(Some(9)), None),
            (insert(None), None),
            (update(4), Some(&small[..])),
            (update(4), Some(&null[..])),
            (upsert(Some(1), 4), Some(&small[..])),
            (Action::Delete { condition: None }, Some(&small[..])),
        ] {
            let written = outcome(action.clone(), current);
            assert!(matches!(written, MutationOutcome::Write(_)), "{action:?}");
        }
    }

    #[test]
    fn generated_columns_are_computed_whatever_a_change_has_for_them() {
        let double = Expression::Binary(
            BinaryOperator::Multiply,
            Box::new(Expression::Column(1)),
            Box::new(Expression::Literal(Value::Int64(2))),
        );
        let generated = Column {
            default: Some(ColumnDefault::Generated(double)),
            ..column("double", false)
        };
        let table = table_of(vec![column("id", false), column("number", true), generated]);
        let row = |number: Option<i64>, double| {
            let number = number.map_or(Value::Null, Value::Int64);
            let values = [Value::Int64(7), number, Value::Int64(double)];
            encode_row(&table.schema.columns, &values).expect("it is of the table")
        };
        let outcome = |action: Action, current: Option<&[u8]>| {
            let pk = encode_key([Value::Int64(7).as_ref()]).into();
            let mutation = Mutation { pk, action };
            assert_eq!(check(&table, &mutation), Ok(()));
            apply(&table, table.partition(0, 0), &mutation, current)
        };
        let assign = |column, value| Assignment { column, value };
        let number = |number| Expression::Literal(Value::Int64(number));
        let insert = |number| Action::Insert {
            row: row(number, 0).into(),
        };
        let update = |value| Action::Update {
            assignments: vec![assign(1, value)],
            condition: None,
        };
        let upsert = Action::Upsert {
            row: row(Some(4), 0).into(),
            assignments: vec![assign(1, Expression::Excluded(2))],
            condition: None,
        };
        let current = row(Some(3), 6);
        let written = |number, double| MutationOutcome::Write(Some(row(Some(number), double)));
        assert_eq!(outcome(insert(Some(3)), None), written(3, 6));
        assert_eq!(outcome(update(number(5)), Some(&current)), written(5, 10));
        assert_eq!(outcome(upsert.clone(), None), written(4, 8));
        assert_eq!(outcome(upsert, Some(&current)), written(8, 16));
        let refused = |outcome| match outcome {
            MutationOutcome::Ended(RequestResult::Invalid { message }) => message,
            other => panic!("{other:?}"),
        };
        let null = refused(outcome(insert(None), None));
        assert!(
            null.contains("column double of table t may not be null"),
            "{null}"
        );
        let over = refused(outcome(update(number(i64::MIN)), Some(&current)));
        assert!(over.contains("out of range"), "{over}");
        let pk = encode_key([Value::Int64(7).as_ref()]).into();
        let action = Action::Update {
            assignments: vec![assign(2, number(1))],
            condition: None,
        };
        let refused = check(&table, &Mutation { pk, action }).unwrap_err();
        assert!(
            refused.contains("column double of table t is generated"),
            "{refused}"
        );
    }
}
