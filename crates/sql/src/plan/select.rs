//! Plans `SELECT`: the access, the filter and the columns for the partitions, and the remaining
//! work for the client. Module `group` plans those that group their rows.

use protocol::configuration::PlacedTable;
use protocol::expression::Expression;

use super::access::{Estimates, OrderColumn, ReadRequirements};
use super::outputs::{output_items, sort_keys};
use super::reading::{Scan, projection, read, renumber};
use super::{Context, ReadPlan, SelectPlan, SortKey, StatementPlan, group};
use crate::bind::{Scope, refuse_aggregates};
use crate::error::SqlError;
use crate::statement::Select;

/// Plans a `SELECT` of rows or of groups.
pub(super) fn plan(select: &Select, context: &Context<'_>) -> Result<StatementPlan, SqlError> {
    let table = select.table.as_ref();
    let table = table.map(|it| Ok::<_, SqlError>((context.relation(&it.name)?, it)));
    let table = table.transpose()?;
    let scope = match table {
        Some((table, name)) => context.scope(&table.schema, name),
        None => Scope {
            parameters: context.parameters,
            now_us: Some(context.now_us),
            zone: context.settings.zone,
            ..Scope::CONSTANTS
        },
    };
    let limit = match &select.limit {
        Some(limit) => scope.count(limit, "LIMIT")?,
        None => None,
    };
    let offset = match &select.offset {
        Some(offset) => scope.count(offset, "OFFSET")?.unwrap_or(0),
        None => 0,
    };
    let conjuncts = match &select.filter {
        Some(filter) => {
            refuse_aggregates(filter, "WHERE")?;
            scope.condition(filter)?
        }
        None => Vec::new(),
    };
    let scan = Scan::of(select.scan, context);
    if group::is_grouped(select) {
        let table = table.map(|(table, _)| table);
        let reading = (scan, context);
        let plan = group::plan(select, table, (&scope, conjuncts), (limit, offset), reading)?;
        return Ok(StatementPlan::Aggregate(plan));
    }
    let items = output_items(&select.items, &scope)?;
    let order = sort_keys(&select.order, &items, &select.items, &scope)?;
    let mut plan = SelectPlan {
        read: None,
        items,
        order,
        ordered_by_index: true,
        limit,
        offset,
    };
    let Some((table, _)) = table else {
        // Constants other than true are false or NULL.
        if !conjuncts.is_empty() {
            plan.limit = Some(0);
        }
        return Ok(StatementPlan::Select(Box::new(plan)));
    };
    read_table(&mut plan, table, conjuncts, (scan, context));
    Ok(StatementPlan::Select(Box::new(plan)))
}

/// Adds the read of a table: the access, the filter there and the columns that are sent.
fn read_table(
    plan: &mut SelectPlan,
    table: &PlacedTable,
    conjuncts: Vec<Expression>,
    (scan, context): (Scan, &Context<'_>),
) {
    let SelectPlan {
        items,
        order,
        limit,
        offset,
        ..
    } = plan;
    let wanted = columns_of(order);
    let rows = limit.map(|it| it.saturating_add(*offset));
    let needed = items.iter().map(|it| &it.expression);
    let needed = needed.chain(order.iter().map(|it| &it.expression));
    let projection = projection(&table.schema, needed);
    let request = ReadRequirements {
        order: wanted.as_deref(),
        rows,
        limited: rows.is_some_and(|rows| rows <= context.settings.scan_rows),
        counted: false,
        columns: projection.as_deref(),
        estimates: Estimates::of(context),
    };
    if let Some(projection) = &projection {
        let expressions = items.iter_mut().map(|it| &mut it.expression);
        for expression in expressions.chain(order.iter_mut().map(|it| &mut it.expression)) {
            renumber(expression, projection);
        }
    }
    let (read, is_ordered) = read(table, conjuncts, request, scan);
    plan.ordered_by_index = is_ordered;
    plan.read = Some(ReadPlan { projection, ..read });
}

/// Returns the order as columns, if it is one of columns alone.
fn columns_of(order: &[SortKey]) -> Option<Vec<OrderColumn>> {
    let columns = order.iter().map(|key| match key.expression {
        Expression::Column(column) => Some(OrderColumn {
            column: usize::from(column),
            descending: key.descending,
            nulls_first: key.nulls_first,
        }),
        _ => None,
    });
    columns.collect()
}
