//! Plans `SELECT`: the access, the filter and the columns for the partitions, and the remaining
//! work for the client.

use placement::Schema;
use protocol::configuration::PlacedTable;
use protocol::expression::Expression;
use sqlparser::ast::{self, Expr};

use super::access::{AccessChoice, AccessKind, OrderColumn, ReadRequirements};
use super::access_path;
use super::{Context, OutputItem, ReadPlan, SelectPlan, SortKey, UnaskedScan};
use crate::bind::Scope;
use crate::error::SqlError;
use crate::spelling::name;
use crate::statement::{OrderItem, Select, SelectItem};

/// Plans a `SELECT`.
pub(super) fn plan(select: &Select, context: &Context<'_>) -> Result<SelectPlan, SqlError> {
    let table = select.table.as_ref();
    let table = table.map(|it| Ok::<_, SqlError>((context.table(&it.name)?, it)));
    let table = table.transpose()?;
    let scope = match table {
        Some((table, name)) => context.scope(&table.schema, name),
        None => Scope {
            parameters: context.parameters,
            now_us: Some(context.now_us),
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
        Some(filter) => scope.condition(filter)?,
        None => Vec::new(),
    };
    let count = matches!(select.items[..], [SelectItem::Count { .. }]);
    let items = output_items(select, &scope)?;
    let order = match count {
        true => Vec::new(),
        false => sort_keys(&select.order, &items, &select.items, &scope)?,
    };
    let mut plan = SelectPlan {
        read: None,
        items,
        count,
        order,
        ordered_by_index: true,
        limit,
        offset,
    };
    let Some((table, _)) = table else {
        if count {
            return Err(SqlError::statement(
                "count(*) counts the rows of a table: write FROM and its name",
            ));
        }
        // Constants other than true are false or NULL.
        if !conjuncts.is_empty() {
            plan.limit = Some(0);
        }
        return Ok(plan);
    };
    let scan = Scan::of(select.scan, context);
    read_table(&mut plan, table, conjuncts, (scan, context));
    Ok(plan)
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
        count,
        ..
    } = plan;
    let wanted = columns_of(order);
    let rows = limit
        .filter(|_| !*count)
        .map(|it| it.saturating_add(*offset));
    let request = ReadRequirements {
        order: wanted.as_deref(),
        rows,
        limited: rows.is_some_and(|rows| rows <= context.settings.scan_rows),
        counted: *count,
    };
    let choice = choose(table, &conjuncts, request);
    let unasked = scan.bound(&choice, request, &conjuncts);
    let AccessChoice {
        access,
        taken,
        descending,
    } = choice;
    let needed = items.iter().map(|it| &it.expression);
    let needed = needed.chain(order.iter().map(|it| &it.expression));
    let projection = projection(&table.schema, needed);
    if let Some(projection) = &projection {
        let expressions = items.iter_mut().map(|it| &mut it.expression);
        for expression in expressions.chain(order.iter_mut().map(|it| &mut it.expression)) {
            renumber(expression, projection);
        }
    }
    plan.ordered_by_index = descending.is_some();
    plan.read = Some(ReadPlan {
        table: table.id,
        access,
        unasked,
        filter: rest(conjuncts, &taken),
        projection,
        descending: descending.unwrap_or(false),
    });
}

/// Whether a statement may read a whole table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scan {
    /// The statement requests it.
    Asked,
    /// The statement may read a table with at most this many rows.
    UpTo(u64),
}

impl Scan {
    /// Returns which tables a statement may scan: any table if it requests a scan (`is_asked`) or
    /// the session allows scans, otherwise tables with few rows.
    pub fn of(is_asked: bool, context: &Context<'_>) -> Scan {
        match is_asked || context.settings.scan {
            true => Scan::Asked,
            false => Scan::UpTo(context.settings.scan_rows),
        }
    }

    /// Returns the limit of a read. Returns none if an index serves it, if it is short, or if the
    /// statement requests a scan.
    ///
    /// | without an index | reads |
    /// |---|---|
    /// | `count(*)` of all rows | none: they are counted where they are |
    /// | a small `LIMIT` of any rows, or in the order of an index | so many |
    /// | a large one | so many, which is bounded |
    /// | a `WHERE`, another order | the whole table, which is bounded |
    pub fn bound(
        self,
        choice: &AccessChoice,
        request: ReadRequirements<'_>,
        conjuncts: &[Expression],
    ) -> Option<UnaskedScan> {
        let Scan::UpTo(rows_max) = self else {
            return None;
        };
        let is_served = !matches!(choice.access.kind, AccessKind::Scan | AccessKind::First);
        // With a filter, all rows may be looked at before there are enough.
        let stops_at_limit = choice.descending.is_some() && conjuncts.is_empty();
        let is_short = match request.counted {
            true => conjuncts.is_empty(),
            false => request.limited && stops_at_limit,
        };
        (!is_served && !is_short).then(|| UnaskedScan {
            rows_max,
            rows_wanted: request.rows.filter(|_| stops_at_limit),
        })
    }
}

/// Returns the best access.
pub(super) fn choose(
    table: &PlacedTable,
    conjuncts: &[Expression],
    request: ReadRequirements<'_>,
) -> AccessChoice {
    access_path::by_index(table, conjuncts, request)
        .unwrap_or_else(|| access_path::by_scan(table, request))
}

/// Returns the conjuncts that the access does not already guarantee.
pub(super) fn rest(conjuncts: Vec<Expression>, taken: &[usize]) -> Option<Expression> {
    let rest = conjuncts.into_iter().enumerate();
    let rest = rest.filter(|(position, _)| !taken.contains(position));
    Expression::all(rest.map(|(_, conjunct)| conjunct).collect())
}

fn output_items(select: &Select, scope: &Scope<'_>) -> Result<Vec<OutputItem>, SqlError> {
    let mut items = Vec::new();
    for item in &select.items {
        match item {
            SelectItem::All => {
                let Some(schema) = scope.schema else {
                    return Err(SqlError::statement(
                        "* means all columns of a table: write FROM and its name",
                    ));
                };
                for (position, column) in schema.columns.iter().enumerate() {
                    items.push(OutputItem {
                        name: column.name.clone(),
                        expression: Expression::Column(position as u16),
                        column_type: Some(column.column_type),
                    });
                }
            }
            SelectItem::Count { name } => items.push(OutputItem {
                name: name.clone(),
                expression: Expression::Literal(placement::Value::Null),
                column_type: Some(placement::ColumnType::Int64),
            }),
            SelectItem::Expression {
                expression, name, ..
            } => {
                let (expression, column_type) = scope.output(expression)?;
                items.push(OutputItem {
                    name: name.clone(),
                    expression,
                    column_type,
                });
            }
        }
    }
    Ok(items)
}

fn sort_keys(
    order: &[OrderItem],
    items: &[OutputItem],
    written: &[SelectItem],
    scope: &Scope<'_>,
) -> Result<Vec<SortKey>, SqlError> {
    let keys = order.iter().map(|item| {
        let by_name = |identifier: &ast::Ident| {
            let wanted = name(identifier);
            written.iter().find_map(|it| match it {
                SelectItem::Expression {
                    expression,
                    name,
                    named: true,
                } if *name == wanted => Some(expression),
                _ => None,
            })
        };
        let expression = match &item.expression {
            Expr::Value(value) => match &value.value {
                ast::Value::Number(number, _) => {
                    let output = number.parse::<usize>().ok();
                    let output = output.and_then(|it| items.get(it.checked_sub(1)?));
                    let output = output.ok_or_else(|| {
                        SqlError::statement(format!(
                            "ORDER BY {number} names no output: there are {}",
                            items.len()
                        ))
                    })?;
                    output.expression.clone()
                }
                _ => scope.output(&item.expression)?.0,
            },
            Expr::Identifier(identifier) => match by_name(identifier) {
                Some(expression) => scope.output(expression)?.0,
                None => scope.output(&item.expression)?.0,
            },
            expression => scope.output(expression)?.0,
        };
        Ok(SortKey {
            expression,
            descending: item.descending,
            // As PostgreSQL: NULL is larger than everything.
            nulls_first: item.nulls_first.unwrap_or(item.descending),
        })
    });
    keys.collect()
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

/// Returns the columns that the expressions name, rising; none if that is all of them. At least
/// one, so that rows can be distinguished from nothing.
fn projection<'e>(
    schema: &Schema,
    expressions: impl Iterator<Item = &'e Expression>,
) -> Option<Vec<u16>> {
    let mut columns = Vec::new();
    for expression in expressions {
        gather_columns(expression, &mut columns);
    }
    if columns.is_empty() {
        columns.push(schema.primary_key[0] as u16);
    }
    columns.sort_unstable();
    columns.dedup();
    (columns.len() < schema.columns.len()).then_some(columns)
}

fn gather_columns(expression: &Expression, columns: &mut Vec<u16>) {
    match expression {
        Expression::Column(column) => columns.push(*column),
        Expression::Excluded(_) | Expression::Literal(_) => {}
        Expression::Unary(_, operand) => gather_columns(operand, columns),
        Expression::Binary(_, left, right) => {
            gather_columns(left, columns);
            gather_columns(right, columns);
        }
    }
}

/// Lets the expression name columns by their place in the projection.
fn renumber(expression: &mut Expression, projection: &[u16]) {
    match expression {
        Expression::Column(column) => {
            let place = projection.binary_search(column);
            *column = place.expect("the projection holds every column named") as u16;
        }
        Expression::Excluded(_) | Expression::Literal(_) => {}
        Expression::Unary(_, operand) => renumber(operand, projection),
        Expression::Binary(_, left, right) => {
            renumber(left, projection);
            renumber(right, projection);
        }
    }
}

/// Returns a read of a whole table by its primary key, for an export: every column, partition by
/// partition.
pub(crate) fn whole_table(table: &PlacedTable) -> ReadPlan {
    let request = ReadRequirements {
        order: None,
        rows: None,
        limited: false,
        counted: false,
    };
    ReadPlan {
        unasked: None,
        table: table.id,
        access: access_path::by_scan(table, request).access,
        filter: None,
        projection: None,
        descending: false,
    }
}
