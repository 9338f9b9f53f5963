//! Plans `UPDATE … FROM` and `DELETE … USING`: changes of the rows of a table that match rows of a
//! further table.
//!
//! A plan has the read of the further table's rows, and expressions over *joined rows*: the columns
//! of the changed table, followed by those of the further one. Once the rows of the further table
//! are known, [`JoinedPlan::target_reads`] plans the reads of the rows to change. The values of
//! each row are constants there, so that the reads use the indexes of the changed table.

use std::collections::{BTreeMap, BTreeSet};

use placement::{Column, ColumnType, Value};
use protocol::configuration::PlacedTable;
use protocol::expression::{Columns, Expression, FunctionCall, ScalarFunction, evaluate, holds};
use protocol::identity::TableId;
use sqlparser::ast::{self, Expr};

use super::access::{Access, AccessKind, Estimates, ReadRequirements, Segment};
use super::insert::bind_assignments;
use super::outputs::output_items;
use super::reading::{Scan, check_size, read};
use super::{ChangeKind, Context, OutputItem, ReadPlan, access_path, has_dense};
use crate::bind::{FurtherColumns, JoinedTables, Scope, common_type, element_of, is_open};
use crate::error::{SqlError, sqlstate};
use crate::statement::{Delete, FromItem, SelectItem, TableName, Update};

/// The most ranges of indexes by which the rows to change are looked up, apart from whole primary
/// keys. The commit of a transaction compares each range. With more, the table is read once.
const LOOKUPS_MAX: usize = 500;

/// An `UPDATE … FROM` or a `DELETE … USING`.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedPlan {
    /// The changed table.
    pub table: TableId,
    /// The change of each row. New values are over joined rows.
    pub change: ChangeKind,
    /// The rows of the further table.
    pub source: SourceRows,
    /// The conjuncts that name no column of the further table.
    pub target_filter: Vec<Expression>,
    /// The conjuncts over rows of the further table that name no column of the changed one.
    pub source_filter: Vec<Expression>,
    /// The conjuncts over joined rows that name columns of both tables.
    pub join: Vec<Expression>,
    /// Whether the rows of the changed table are read first: an index finds them, and none finds
    /// those of the further table.
    pub begins_with_target: bool,
    /// Whether each change waits for the previous one, because a dense index needs its values in
    /// order.
    pub in_order: bool,
    /// The expressions to return of each row that is changed, over joined rows.
    pub returning: Vec<OutputItem>,
    pub(super) tables: JoinedTables,
    scan: Scan,
}

/// The rows of the further table that may match.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceRows {
    /// These rows, of constants.
    Known(Vec<Vec<Value>>),
    /// The rows that a read of another table finds, with all of their columns.
    Read(Box<ReadPlan>),
}

/// The further table of a statement.
struct Source<'a> {
    columns: FurtherColumns,
    /// None if the rows are known.
    table: Option<&'a PlacedTable>,
    rows: Vec<Vec<Value>>,
}

/// The parts of a statement that an `UPDATE` and a `DELETE` have in common.
struct JoinedSelection<'a> {
    name: &'a TableName,
    from: &'a FromItem,
    filter: Option<&'a Expr>,
    scan: bool,
    returning: &'a [SelectItem],
}

/// Plans an `UPDATE … FROM`.
pub(super) fn update(
    update: &Update,
    from: &FromItem,
    context: &Context<'_>,
) -> Result<JoinedPlan, SqlError> {
    let selection = JoinedSelection {
        name: &update.table,
        from,
        filter: update.filter.as_ref(),
        scan: update.scan,
        returning: &update.returning,
    };
    change(&selection, context, |table, scope| {
        let assignments = bind_assignments(&update.assignments, table, scope)?;
        Ok(ChangeKind::Update(assignments))
    })
}

/// Plans a `DELETE … USING`.
pub(super) fn delete(
    delete: &Delete,
    using: &FromItem,
    context: &Context<'_>,
) -> Result<JoinedPlan, SqlError> {
    let selection = JoinedSelection {
        name: &delete.table,
        from: using,
        filter: delete.filter.as_ref(),
        scan: delete.scan,
        returning: &delete.returning,
    };
    change(&selection, context, |_, _| Ok(ChangeKind::Delete))
}

fn change(
    selection: &JoinedSelection<'_>,
    context: &Context<'_>,
    kind: impl FnOnce(&PlacedTable, &Scope<'_>) -> Result<ChangeKind, SqlError>,
) -> Result<JoinedPlan, SqlError> {
    let table = context.table(&selection.name.name)?;
    let constants = Scope {
        parameters: context.parameters,
        now_us: Some(context.now_us),
        zone: context.settings.zone,
        ..Scope::CONSTANTS
    };
    let source = source(selection.from, &constants, context)?;
    let second = selection.from.name();
    let named = (&table.schema, selection.name);
    let tables = JoinedTables::new(named, second, source.columns)?;
    let scope = tables.scope(constants);
    let change = kind(table, &scope)?;
    let conjuncts = match selection.filter {
        Some(filter) => scope.condition(filter)?,
        None => Vec::new(),
    };
    let columns = &tables.schema.columns;
    check_size(columns, Expression::all(conjuncts.clone()).as_ref())?;
    let returning = output_items(selection.returning, &scope)?;
    let own = u16::try_from(tables.own).expect("Schema::validate bounds the columns");
    let (mut target_filter, mut source_filter, mut join) = (Vec::new(), Vec::new(), Vec::new());
    for conjunct in conjuncts {
        let names_own = !conjunct.all_columns(&|column| column >= own);
        let names_further = !conjunct.all_columns(&|column| column < own);
        match (names_own, names_further) {
            (true, true) => join.push(conjunct),
            (true, false) => target_filter.push(conjunct),
            (false, _) => source_filter.push(replaced(&conjunct, &|column| {
                Expression::Column(column - own)
            })),
        }
    }
    let scan = Scan::of(selection.scan, context);
    let source = match source.table {
        Some(table) => {
            let request = ReadRequirements {
                estimates: Estimates::of(context),
                ..WHOLE_ROWS
            };
            SourceRows::Read(Box::new(
                read(table, source_filter.clone(), request, scan).0,
            ))
        }
        None => SourceRows::Known(filtered(source.rows, &source_filter)?),
    };
    let reads_whole = match &source {
        SourceRows::Known(_) => false,
        SourceRows::Read(read) => read.access.kind == AccessKind::Scan,
    };
    let has_index = || access_path::by_index(table, &target_filter, WHOLE_ROWS).is_some();
    Ok(JoinedPlan {
        table: table.id,
        change,
        source,
        begins_with_target: reads_whole && has_index(),
        target_filter,
        source_filter,
        join,
        in_order: has_dense(&table.schema),
        returning,
        tables,
        scan,
    })
}

/// A read of whole rows in any order.
const WHOLE_ROWS: ReadRequirements<'static> = ReadRequirements {
    order: None,
    rows: None,
    limited: false,
    counted: false,
    columns: None,
    estimates: Estimates::NONE,
};

/// Returns the columns of the further table of a statement, and its rows if they are constants.
fn source<'a>(
    from: &FromItem,
    scope: &Scope<'_>,
    context: &Context<'a>,
) -> Result<Source<'a>, SqlError> {
    match from {
        FromItem::Table(name) => {
            let table = context.table(&name.name)?;
            let columns = table.schema.columns.clone();
            Ok(Source {
                columns: FurtherColumns {
                    columns,
                    untyped: Vec::new(),
                },
                table: Some(table),
                rows: Vec::new(),
            })
        }
        FromItem::Values { columns, rows, .. } => values(columns, rows, scope),
        FromItem::Unnest {
            columns, arrays, ..
        } => unnested(columns, arrays, scope),
    }
}

fn values(
    names: &[String],
    rows: &[Vec<Expr>],
    scope: &Scope<'_>,
) -> Result<Source<'static>, SqlError> {
    let mut columns = FurtherColumns::default();
    let mut values: Vec<Vec<Value>> = rows
        .iter()
        .map(|_| Vec::with_capacity(names.len()))
        .collect();
    for (position, name) in names.iter().enumerate() {
        let mut types = Vec::with_capacity(rows.len());
        // A parameter that is NULL does not show the type that a client has declared for it.
        let (mut has_text, mut has_parameter) = (false, false);
        for row in rows {
            let value = &row[position];
            let (_, found) = scope.output(value)?;
            let is_text = is_open(value) && found == Some(ColumnType::Text);
            has_text |= is_text;
            has_parameter |= is_parameter(value);
            types.push(found.filter(|_| !is_text));
        }
        let common = common_type_of_values(name, types.into_iter())?;
        let column_type = common.unwrap_or(ColumnType::Text);
        if common.is_none() && has_parameter && !has_text {
            columns.untyped.push(position);
        }
        let place = format!("column {name}");
        for (row, values) in rows.iter().zip(&mut values) {
            values.push(scope.value(&row[position], column_type, &place)?);
        }
        columns.columns.push(further_column(name, column_type));
    }
    Ok(Source {
        columns,
        table: None,
        rows: values,
    })
}

fn is_parameter(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_parameter(inner),
        Expr::Value(value) => matches!(value.value, ast::Value::Placeholder(_)),
        _ => false,
    }
}

/// Returns the type of a column of `VALUES` by the types of its values; none if all of them are
/// NULL.
pub(crate) fn common_type_of_values(
    name: &str,
    types: impl Iterator<Item = Option<ColumnType>>,
) -> Result<Option<ColumnType>, SqlError> {
    common_type(ScalarFunction::Coalesce, types).map_err(|_| {
        SqlError::with_state(
            sqlstate::TYPE_MISMATCH,
            format!("VALUES types of column {name} cannot be matched: convert the values"),
        )
    })
}

/// Returns a column of a further table that is no table of the store.
pub(crate) fn further_column(name: &str, column_type: ColumnType) -> Column {
    Column {
        name: name.to_string(),
        column_type,
        nullable: true,
        default: None,
        missing: None,
    }
}

/// Returns the type of the elements of an argument of `unnest`.
pub(crate) fn unnested_type(
    array: &Expr,
    found: Option<ColumnType>,
) -> Result<ColumnType, SqlError> {
    element_of(found).ok_or_else(|| {
        SqlError::with_state(
            sqlstate::UNDEFINED_FUNCTION,
            format!("unnest takes no {array}: give it an array, as in unnest($1::int[])"),
        )
    })
}

fn unnested(
    names: &[String],
    arrays: &[Expr],
    scope: &Scope<'_>,
) -> Result<Source<'static>, SqlError> {
    let mut columns = FurtherColumns::default();
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for (position, (name, array)) in names.iter().zip(arrays).enumerate() {
        let (_, found) = scope.output(array)?;
        let column_type = unnested_type(array, found)?;
        columns.columns.push(further_column(name, column_type));
        let of_array = found.expect("it has elements");
        let elements: Vec<Value> = match scope.value(array, of_array, "unnest")? {
            Value::Array(array) => array.as_ref().values().map(|it| it.to_owned()).collect(),
            _ => Vec::new(),
        };
        // A shorter array is filled up with NULLs.
        while rows.len() < elements.len() {
            rows.push(vec![Value::Null; position]);
        }
        let elements = elements.into_iter().chain(std::iter::repeat(Value::Null));
        for (row, element) in rows.iter_mut().zip(elements) {
            row.push(element);
        }
    }
    Ok(Source {
        columns,
        table: None,
        rows,
    })
}

/// Returns the rows for which all conditions hold.
fn filtered(rows: Vec<Vec<Value>>, conditions: &[Expression]) -> Result<Vec<Vec<Value>>, SqlError> {
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows {
        if all_hold(conditions, &row)? {
            kept.push(row);
        }
    }
    Ok(kept)
}

/// Returns whether all conditions of a `WHERE` hold for a row.
pub(crate) fn all_hold(conditions: &[Expression], row: &dyn Columns) -> Result<bool, SqlError> {
    for condition in conditions {
        let satisfied = holds(condition, row, None).map_err(|error| SqlError::Expression {
            text: "WHERE".to_string(),
            error,
        })?;
        if !satisfied {
            return Ok(false);
        }
    }
    Ok(true)
}

impl JoinedPlan {
    /// Returns the number of columns of the changed table. In a joined row the columns of the
    /// further table follow.
    pub fn own_columns(&self) -> usize {
        self.tables.own
    }

    /// Returns the type of a column of joined rows.
    pub fn column_type(&self, position: usize) -> ColumnType {
        self.tables.schema.columns[position].column_type
    }

    /// Returns a joined row with some value of each column, to show how rows are found.
    pub(super) fn any_row(&self) -> Vec<Value> {
        const TEXTS: [&str; 4] = ["0", "2000-01-01", "{}", "00000000000000000000000000000000"];
        let columns = self.tables.schema.columns.iter();
        let values = columns.map(|column| {
            let mut values = TEXTS
                .iter()
                .filter_map(|text| Value::parse(column.column_type, text).ok());
            values.next().unwrap_or(Value::Null)
        });
        values.collect()
    }

    /// Returns the reads of the rows of the changed table that may match one of these rows of the
    /// further table. They find each such row, and others, too.
    pub(crate) fn target_reads<'r>(
        &self,
        table: &PlacedTable,
        sources: impl Iterator<Item = &'r [Value]>,
    ) -> Vec<ReadPlan> {
        let own = self.tables.own;
        self.lookups(
            table,
            &self.target_filter,
            sources,
            |source, column| match column.checked_sub(own) {
                Some(further) => Expression::Literal(source[further].clone()),
                None => column_at(column),
            },
        )
    }

    /// Returns the reads of the rows of the further table that may match one of these rows of the
    /// changed table.
    pub(crate) fn source_reads<'r>(
        &self,
        table: &PlacedTable,
        targets: impl Iterator<Item = &'r [Value]>,
    ) -> Vec<ReadPlan> {
        let own = self.tables.own;
        self.lookups(
            table,
            &self.source_filter,
            targets,
            |target, column| match column.checked_sub(own) {
                Some(further) => column_at(further),
                None => Expression::Literal(target[column].clone()),
            },
        )
    }

    /// Returns the read of all rows of the changed table that satisfy the conjuncts over it.
    pub(crate) fn target_read(&self, table: &PlacedTable) -> ReadPlan {
        read(table, self.target_filter.clone(), WHOLE_ROWS, self.scan).0
    }

    /// Returns the reads of the rows of a table that satisfy a filter and may match one of some
    /// rows of the other table. `named` returns the expression for a column of a joined row beside
    /// one of these.
    fn lookups<'r>(
        &self,
        table: &PlacedTable,
        filter: &[Expression],
        others: impl Iterator<Item = &'r [Value]>,
        named: impl Fn(&[Value], usize) -> Expression,
    ) -> Vec<ReadPlan> {
        let whole = || vec![read(table, filter.to_vec(), WHOLE_ROWS, self.scan).0];
        let mut lookups: BTreeMap<usize, (Access, BTreeSet<Range>)> = BTreeMap::new();
        let mut is_by_keys = true;
        for other in others {
            let named = |column: u16| named(other, usize::from(column));
            let of_row = self.join.iter().map(|conjunct| replaced(conjunct, &named));
            let conjuncts: Vec<Expression> = filter.iter().cloned().chain(of_row).collect();
            let Some((choice, _)) = access_path::by_index(table, &conjuncts, WHOLE_ROWS) else {
                return whole();
            };
            let mut access = choice.access;
            is_by_keys &= matches!(access.kind, AccessKind::Nothing)
                || access.kind == AccessKind::Point && access.replex == table.layout.primary();
            let segments = std::mem::take(&mut access.segments);
            let (_, ranges) = lookups
                .entry(access.replex)
                .or_insert_with(|| (access, BTreeSet::new()));
            ranges.extend(
                segments
                    .into_iter()
                    .map(|it| (it.start, it.end, it.partition)),
            );
        }
        let count: usize = lookups.values().map(|(_, ranges)| ranges.len()).sum();
        if !is_by_keys && count > LOOKUPS_MAX {
            return whole();
        }
        let reads = lookups
            .into_values()
            .filter(|(_, ranges)| !ranges.is_empty());
        let reads = reads.map(|(access, ranges)| {
            let segments = ranges.into_iter().map(|(start, end, partition)| Segment {
                partition,
                start,
                end,
                keys: Vec::new(),
            });
            ReadPlan {
                table: table.id,
                access: Access {
                    segments: segments.collect(),
                    ..access
                },
                unasked: None,
                filter: Expression::all(filter.to_vec()),
                projection: None,
                descending: false,
                estimated: None,
            }
        });
        reads.collect()
    }
}

fn column_at(position: usize) -> Expression {
    Expression::Column(u16::try_from(position).expect("Schema::validate bounds the columns"))
}

/// A range of a partition: its first key, the key after it, and the partition.
type Range = (Vec<u8>, Option<Vec<u8>>, u32);

/// Returns an expression with others in place of its columns. Parts without columns are computed,
/// unless that fails. The depth is limited, because the binder limits it.
fn replaced(expression: &Expression, column: &impl Fn(u16) -> Expression) -> Expression {
    let is_literal = |it: &Expression| matches!(it, Expression::Literal(_));
    let (replaced, is_constant) = match expression {
        Expression::Column(position) => (column(*position), false),
        Expression::Excluded(_) | Expression::Literal(_) => (expression.clone(), false),
        Expression::Unary(operator, operand) => {
            let operand = replaced(operand, column);
            let is_constant = is_literal(&operand);
            (Expression::Unary(*operator, Box::new(operand)), is_constant)
        }
        Expression::Binary(operator, left, right) => {
            let (left, right) = (replaced(left, column), replaced(right, column));
            let is_constant = is_literal(&left) && is_literal(&right);
            let binary = Expression::Binary(*operator, Box::new(left), Box::new(right));
            (binary, is_constant)
        }
        Expression::Call(call) => {
            let operands = call.operands.iter().map(|it| replaced(it, column));
            let operands: Vec<Expression> = operands.collect();
            let is_constant = operands.iter().all(is_literal);
            let call = FunctionCall::new(call.function, operands);
            (Expression::Call(Box::new(call)), is_constant)
        }
    };
    match is_constant.then(|| evaluate(&replaced, &Vec::new(), None)) {
        Some(Ok(value)) => Expression::Literal(value),
        _ => replaced,
    }
}
