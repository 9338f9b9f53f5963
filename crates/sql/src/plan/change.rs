//! Plans `UPDATE` and `DELETE`. With the whole primary key the row is changed at once. Otherwise a
//! read finds the rows first.
//!
//! Either way each row is changed by an operation of its own whose condition is the `WHERE`, so
//! a row that has changed since it was found is left alone.

use placement::Constraint;
use protocol::configuration::PlacedTable;
use protocol::expression::Expression;
use sqlparser::ast::Expr;

use super::access::{AccessChoice, AccessKind, Estimates, ReadRequirements};
use super::insert::bind_assignments;
use super::outputs::output_items;
use super::reading::{Scan, check_size, choose, rest};
use super::{ChangeKind, ChangePlan, ChangeTarget, Context, ReadPlan, has_dense};
use crate::error::SqlError;
use crate::statement::{Delete, SelectItem, TableName, Update};

/// Plans an `UPDATE`.
pub(super) fn update(update: &Update, context: &Context<'_>) -> Result<ChangePlan, SqlError> {
    let table = context.table(&update.table.name)?;
    let scope = context.scope(&table.schema, &update.table);
    let assignments = bind_assignments(&update.assignments, table, &scope)?;
    let selection = Selection {
        name: &update.table,
        filter: update.filter.as_ref(),
        scan: update.scan,
        returning: &update.returning,
    };
    change(ChangeKind::Update(assignments), table, &selection, context)
}

/// Plans a `DELETE`.
pub(super) fn delete(delete: &Delete, context: &Context<'_>) -> Result<ChangePlan, SqlError> {
    let table = context.table(&delete.table.name)?;
    let selection = Selection {
        name: &delete.table,
        filter: delete.filter.as_ref(),
        scan: delete.scan,
        returning: &delete.returning,
    };
    change(ChangeKind::Delete, table, &selection, context)
}

/// Which rows a statement is about, and what it returns of them.
struct Selection<'a> {
    name: &'a TableName,
    filter: Option<&'a Expr>,
    scan: bool,
    returning: &'a [SelectItem],
}

fn change(
    change: ChangeKind,
    table: &PlacedTable,
    selection: &Selection<'_>,
    context: &Context<'_>,
) -> Result<ChangePlan, SqlError> {
    let scope = context.scope(&table.schema, selection.name);
    let conjuncts = match selection.filter {
        Some(filter) => scope.condition(filter)?,
        None => Vec::new(),
    };
    let columns = table.schema.key_projection();
    // Rows of a dense index are removed in its order, so the choice does not depend on estimates.
    let estimates = match has_dense(&table.schema) {
        true => Estimates::NONE,
        false => Estimates::of(context),
    };
    let request = ReadRequirements {
        order: None,
        rows: None,
        limited: false,
        counted: false,
        columns: Some(&columns),
        estimates,
    };
    let (choice, estimated) = choose(table, &conjuncts, request);
    let scan = Scan::of(selection.scan, context);
    let unasked = scan.bound(&choice, request, &conjuncts);
    let AccessChoice { access, taken, .. } = choice;
    let is_pk = access.replex == table.layout.primary()
        && matches!(access.kind, AccessKind::Point | AccessKind::Nothing);
    let filter = rest(conjuncts.clone(), &taken);
    let (target, condition) = if is_pk {
        // The start of a segment that is one whole primary key is that key.
        let keys = access.segments.into_iter().map(|segment| segment.start);
        (ChangeTarget::Keys(keys.collect()), filter)
    } else {
        // Of a dense index only the last row of a group can go, so they go from the end.
        let dense = table.layout.replexes[access.replex].kind;
        let descending = change == ChangeKind::Delete
            && matches!(dense, placement::ReplexKind::Index { index }
                if table.schema.indexes[index].constraint == Some(Constraint::Dense));
        let read = ReadPlan {
            table: table.id,
            access,
            unasked,
            filter,
            projection: Some(columns),
            descending,
            estimated,
        };
        (
            ChangeTarget::Rows(Box::new(read)),
            Expression::all(conjuncts),
        )
    };
    check_size(&table.schema.columns, condition.as_ref())?;
    Ok(ChangePlan {
        table: table.id,
        change,
        target,
        condition,
        in_order: has_dense(&table.schema),
        returning: output_items(selection.returning, &scope)?,
    })
}
