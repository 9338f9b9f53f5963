//! Binds aggregates, and the expressions of a statement that groups its rows.
//!
//! Such a statement computes its results from one row per group: the values of its keys, then those
//! of its aggregates. While its items, its `HAVING` and its `ORDER BY` are bound, an aggregate and
//! an expression that is a key stand for their column of that row. The argument of an aggregate and
//! the keys are bound over the columns of the table.

use std::ops::ControlFlow;

use placement::{Column, ColumnType, ElementType, Value};
use protocol::expression::Expression;
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Visit, Visitor};

use super::array::array_of;
use super::{Bound, Scope};
use crate::error::{SqlError, sqlstate};
use crate::spelling::{function_name, is_descending};
use crate::statement::AggregateFunction;

/// The names of aggregates that the store does not have.
const REFUSED: [&str; 18] = [
    "any_value",
    "bit_and",
    "bit_or",
    "bit_xor",
    "corr",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "mode",
    "percentile_cont",
    "percentile_disc",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "var_pop",
    "var_samp",
    "variance",
];

/// An aggregate as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenAggregate<'e> {
    /// The function.
    pub function: AggregateFunction,
    /// The expression whose values count; none is `*`.
    pub argument: Option<&'e Expr>,
    /// Whether each value counts once.
    pub distinct: bool,
    /// The condition of the rows that count.
    pub filter: Option<&'e Expr>,
    /// The text between the values.
    pub separator: Option<&'e Expr>,
    /// The order of the values.
    pub order: &'e [ast::OrderByExpr],
}

/// A key by which an aggregate sorts its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValueOrder {
    /// The key, over the columns of the table.
    pub expression: Expression,
    /// Whether to sort from the largest to the smallest.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// An aggregate over the columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundAggregate {
    /// The function.
    pub function: AggregateFunction,
    /// Its argument; none counts rows.
    pub argument: Option<Expression>,
    /// The type of the argument; none if there is no argument, or its value is always NULL.
    pub argument_type: Option<ColumnType>,
    /// Whether each value counts once.
    pub distinct: bool,
    /// The conditions of the rows that count, all of which must hold.
    pub filter: Vec<Expression>,
    /// The text between the values.
    pub separator: String,
    /// The order of the values.
    pub order: Vec<ValueOrder>,
    /// The type of the result.
    pub column_type: ColumnType,
}

/// One row per group.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupRow {
    /// The values by which rows are grouped, over the columns of the table.
    pub keys: Vec<Expression>,
    /// The aggregates of each group.
    pub aggregates: Vec<BoundAggregate>,
    /// The columns of the row: first those of the keys.
    pub columns: Vec<Column>,
}

/// Returns the aggregate that an expression is; none if it is none.
///
/// # Errors
/// The expression is an aggregate that the store does not have, or of a form that it does not have.
pub(crate) fn written_aggregate(
    expression: &Expr,
) -> Result<Option<WrittenAggregate<'_>>, SqlError> {
    let Expr::Function(function) = expression else {
        return Ok(None);
    };
    let Some(called) = function_name(function) else {
        return Ok(None);
    };
    let called = called.as_str();
    let unsupported = |remedy| Err(SqlError::unsupported(format!("{expression}"), remedy));
    let mut known = AggregateFunction::NAMES.into_iter();
    let Some((_, known)) = known.find(|(name, _)| *name == called) else {
        return match REFUSED.contains(&called) {
            true => unsupported(
                "the aggregates are count, sum, avg, min, max, bool_and, bool_or, array_agg and \
                 string_agg",
            ),
            false => Ok(None),
        };
    };
    let ast::Function {
        args: FunctionArguments::List(list),
        filter,
        over: None,
        null_treatment: None,
        parameters: FunctionArguments::None,
        uses_odbc_syntax: false,
        ..
    } = function
    else {
        return unsupported("write it with its argument in parentheses, and without OVER");
    };
    let keeps_all = matches!(
        known,
        AggregateFunction::ArrayAgg | AggregateFunction::StringAgg
    );
    let order: &[ast::OrderByExpr] = match &list.clauses[..] {
        [] => &[],
        [ast::FunctionArgumentClause::OrderBy(order)] if keeps_all => order,
        _ => return unsupported("of this aggregate, leave ORDER BY and other clauses out"),
    };
    if !function.within_group.is_empty() {
        return unsupported("leave WITHIN GROUP out");
    }
    let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    let (argument, separator) = written_arguments(known, called, list)?;
    Ok(Some(WrittenAggregate {
        function: known,
        argument,
        // The smallest and the largest value are the same with and without duplicates.
        distinct: distinct && !matches!(known, AggregateFunction::Min | AggregateFunction::Max),
        filter: filter.as_deref(),
        separator,
        order,
    }))
}

/// Returns the argument of an aggregate, none for `*`, and the text between its values.
fn written_arguments<'e>(
    known: AggregateFunction,
    called: &str,
    list: &'e ast::FunctionArgumentList,
) -> Result<(Option<&'e Expr>, Option<&'e Expr>), SqlError> {
    Ok(match &list.args[..] {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(written)),
        ] if known == AggregateFunction::StringAgg => (Some(argument), Some(written)),
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
            if known == AggregateFunction::Count && list.duplicate_treatment.is_none() =>
        {
            (None, None)
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))]
            if known != AggregateFunction::StringAgg =>
        {
            (Some(argument), None)
        }
        arguments => {
            let wanted = match known {
                AggregateFunction::StringAgg => "a text and a separator",
                _ => "one",
            };
            let text = format!(
                "{called} with {} arguments: give it {wanted}",
                arguments.len()
            );
            return Err(SqlError::with_state(sqlstate::UNDEFINED_FUNCTION, text));
        }
    })
}

/// Returns whether an expression has an aggregate in it, also one that the store does not have. An
/// expression that nests too deeply for [`walk`] has none: it is refused when it is bound.
pub(crate) fn has_aggregate(expression: &Expr) -> bool {
    let found = walk(expression, |part| match written_aggregate(part) {
        Ok(None) => ControlFlow::Continue(()),
        Ok(Some(_)) | Err(_) => ControlFlow::Break(true),
    });
    matches!(found, ControlFlow::Break(WalkEnd::Stopped(true)))
}

/// The reason why a walk ended before its end.
pub(crate) enum WalkEnd<T> {
    /// The function ended it.
    Stopped(T),
    /// The expression nests too deeply.
    TooDeep,
}

/// Passes an expression and all expressions in it to a function. A chain of operators may be long.
/// Other parts may nest up to [`WALK_DEPTH_MAX`], which is more than the binder allows.
pub(crate) fn walk<T>(
    expression: &Expr,
    mut each: impl FnMut(&Expr) -> ControlFlow<T>,
) -> ControlFlow<WalkEnd<T>> {
    let mut left = vec![expression];
    while let Some(expression) = left.pop() {
        if let Expr::BinaryOp {
            left: one,
            right: other,
            ..
        } = expression
        {
            each(expression).map_break(WalkEnd::Stopped)?;
            left.extend([&**other, &**one]);
        } else {
            let each = &mut each;
            expression.visit(&mut BoundedWalk { each, depth: 0 })?;
        }
    }
    ControlFlow::Continue(())
}

/// How deep [`walk`] goes, so that it needs little of the stack.
const WALK_DEPTH_MAX: usize = 256;

struct BoundedWalk<'f, F> {
    each: &'f mut F,
    depth: usize,
}

impl<T, F: FnMut(&Expr) -> ControlFlow<T>> Visitor for BoundedWalk<'_, F> {
    type Break = WalkEnd<T>;

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<WalkEnd<T>> {
        if self.depth == WALK_DEPTH_MAX {
            return ControlFlow::Break(WalkEnd::TooDeep);
        }
        self.depth += 1;
        (self.each)(expression).map_break(WalkEnd::Stopped)
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<WalkEnd<T>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Refuses aggregates in a part of a statement that PostgreSQL refuses them in.
pub(crate) fn refuse_aggregates(expression: &Expr, part: &str) -> Result<(), SqlError> {
    match has_aggregate(expression) {
        true => Err(SqlError::with_state(
            sqlstate::GROUPING,
            format!("aggregate functions are not allowed in {part}"),
        )),
        false => Ok(()),
    }
}

/// Returns the type of an aggregate's result.
///
/// # Errors
/// The function does not take an argument of this type.
pub(crate) fn aggregate_type(
    function: AggregateFunction,
    argument: Option<ColumnType>,
) -> Result<ColumnType, SqlError> {
    let refused = || {
        let found = argument.map_or("unknown", ColumnType::name);
        let text = format!("function {}({found}) does not exist", function.name());
        SqlError::with_state(sqlstate::UNDEFINED_FUNCTION, text)
    };
    match function {
        AggregateFunction::Count => Ok(ColumnType::Int64),
        AggregateFunction::StringAgg => match argument {
            None => Ok(ColumnType::Text),
            Some(found) if found.of_values() == ColumnType::Text => Ok(ColumnType::Text),
            Some(ColumnType::Bytes) => Err(SqlError::unsupported(
                "string_agg of bytea",
                "encode the values as texts",
            )),
            Some(_) => Err(refused()),
        },
        AggregateFunction::ArrayAgg => Ok(match argument.ok_or_else(refused)? {
            array @ ColumnType::Array(_) => array,
            found => array_of(found).ok_or_else(refused)?,
        }),
        AggregateFunction::Min | AggregateFunction::Max => match argument {
            None | Some(ColumnType::Varchar(_)) => Ok(ColumnType::Text),
            Some(found @ ColumnType::Array(ElementType::Char(_))) => Ok(found),
            Some(found @ ColumnType::Array(_)) if found.has_order() => Ok(found.of_values()),
            Some(ColumnType::Array(_)) => Err(refused()),
            Some(ColumnType::Bool | ColumnType::Json | ColumnType::Jsonb) => Err(refused()),
            Some(ColumnType::Decimal { .. }) => Ok(ColumnType::Numeric),
            Some(found @ (ColumnType::Time(_) | ColumnType::Interval(_))) => Ok(found.of_values()),
            Some(found) => Ok(found),
        },
        AggregateFunction::BoolAnd | AggregateFunction::BoolOr => match argument {
            None | Some(ColumnType::Bool) => Ok(ColumnType::Bool),
            Some(_) => Err(refused()),
        },
        AggregateFunction::Sum => match argument {
            Some(ColumnType::Int16 | ColumnType::Int32) => Ok(ColumnType::Int64),
            Some(ColumnType::Float32) => Ok(ColumnType::Float32),
            Some(ColumnType::Float64) => Ok(ColumnType::Float64),
            Some(ColumnType::Time(_) | ColumnType::Interval(_)) => Ok(ColumnType::INTERVAL),
            Some(found) if found.is_number() => Ok(ColumnType::Numeric),
            _ => Err(refused()),
        },
        AggregateFunction::Avg => match argument {
            Some(found) if found.is_float() => Ok(ColumnType::Float64),
            Some(ColumnType::Time(_) | ColumnType::Interval(_)) => Ok(ColumnType::INTERVAL),
            Some(found) if found.is_number() => Ok(ColumnType::Numeric),
            _ => Err(refused()),
        },
    }
}

/// Checks that values of a type can be ordered and grouped.
///
/// # Errors
/// They cannot.
pub(crate) fn check_order(column_type: Option<ColumnType>) -> Result<(), SqlError> {
    match column_type.filter(|it| !it.has_order()) {
        None => Ok(()),
        Some(found) => Err(SqlError::with_state(
            sqlstate::UNDEFINED_FUNCTION,
            format!("values of type {found} have no order and no equality: convert them to jsonb"),
        )),
    }
}

/// Returns the error of an expression whose aggregates were not all found.
pub(crate) fn too_deep() -> SqlError {
    SqlError::with_state(
        sqlstate::TOO_COMPLEX,
        "an expression with aggregates is nested too deeply: simplify it",
    )
}

impl Scope<'_> {
    /// Returns an aggregate over the columns of the table.
    pub fn aggregate(&self, written: &WrittenAggregate<'_>) -> Result<BoundAggregate, SqlError> {
        let rows = Scope {
            groups: None,
            ..*self
        };
        let ordered = written.order.iter().map(|item| &item.expr);
        let parts = [written.argument, written.filter, written.separator];
        for part in parts.into_iter().flatten().chain(ordered) {
            if has_aggregate(part) {
                return Err(SqlError::with_state(
                    sqlstate::GROUPING,
                    "aggregate function calls cannot be nested",
                ));
            }
        }
        let argument = written.argument.map(|it| -> Result<_, SqlError> {
            let (bound, found) = rows.output(it)?;
            match written.function {
                AggregateFunction::Sum | AggregateFunction::Avg => {
                    rows.as_interval(bound, found, it)
                }
                _ => Ok((bound, found)),
            }
        });
        let argument = argument.transpose()?;
        let argument_type = argument.as_ref().and_then(|(_, found)| *found);
        if written.distinct {
            check_order(argument_type)?;
        }
        let filter = written.filter.map(|it| rows.condition(it)).transpose()?;
        let separator = written.separator.map(|it| rows.separator(it)).transpose()?;
        Ok(BoundAggregate {
            separator: separator.unwrap_or_default(),
            order: rows.order_of_values(written)?,
            function: written.function,
            argument: argument.map(|(bound, _)| bound),
            argument_type,
            distinct: written.distinct,
            filter: filter.unwrap_or_default(),
            column_type: aggregate_type(written.function, argument_type)?,
        })
    }

    /// Returns the text between the values of an aggregate; nothing for NULL.
    fn separator(&self, written: &Expr) -> Result<String, SqlError> {
        let bound = self.bind(written, 0)?;
        match self.resolve(bound, Some(ColumnType::Text), written)?.0 {
            Expression::Literal(Value::Text(text)) => Ok(text),
            Expression::Literal(Value::Null) => Ok(String::new()),
            _ => Err(SqlError::unsupported(
                format!("\"{written}\" as a separator"),
                "write a constant text",
            )),
        }
    }

    /// Returns the order in which an aggregate takes its values.
    fn order_of_values(&self, written: &WrittenAggregate<'_>) -> Result<Vec<ValueOrder>, SqlError> {
        let items = written.order.iter().map(|item| {
            if written.distinct && Some(&item.expr) != written.argument {
                return Err(SqlError::with_state(
                    sqlstate::INVALID_REFERENCE,
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument \
                     list",
                ));
            }
            let descending = is_descending(&item.options)?;
            let (expression, found) = self.output(&item.expr)?;
            check_order(found)?;
            Ok(ValueOrder {
                expression,
                descending,
                nulls_first: item.options.nulls_first.unwrap_or(descending),
            })
        });
        items.collect()
    }

    /// Returns the column of a group's row that an expression stands for; none if it stands for
    /// none.
    pub(super) fn bind_of_group(
        &self,
        groups: &GroupRow,
        expression: &Expr,
        depth: usize,
    ) -> Result<Option<Bound>, SqlError> {
        let column = |position: usize| {
            let found = u16::try_from(position).expect("a row of groups has few columns");
            Bound::Typed(
                Expression::Column(found),
                Some(groups.columns[position].column_type),
            )
        };
        if let Some(written) = written_aggregate(expression)? {
            let bound = self.aggregate(&written)?;
            let position = groups.aggregates.iter().position(|it| *it == bound);
            let position = position.ok_or_else(too_deep)?;
            return Ok(Some(column(groups.keys.len() + position)));
        }
        if groups.keys.is_empty() || has_aggregate(expression) {
            return Ok(None);
        }
        let rows = Scope {
            groups: None,
            ..*self
        };
        let Bound::Typed(bound, _) = rows.bind(expression, depth)? else {
            return Ok(None);
        };
        let is_constant = matches!(bound, Expression::Literal(_));
        let key = groups.keys.iter().position(|key| *key == bound);
        Ok(key.filter(|_| !is_constant).map(column))
    }
}
