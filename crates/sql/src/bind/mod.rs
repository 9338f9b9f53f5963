//! Gives the parser's expressions columns and types, so that the store can evaluate them.
//!
//! Literals take their type from the other operand, as in PostgreSQL: `'2013-01-01'` is a timestamp
//! if the other operand is one, and `1.5` is a float64 if the other operand is one. An expression
//! without a column is computed here, once. The result is an expression of the store. The store's
//! checker has the last word on types. Functions, subqueries and everything else that needs more
//! than the row are refused by name.

mod aggregate;
mod array;
mod call;
mod interval;
mod json_path;
mod like;
mod literal;
mod names;
mod operators;
mod zone;

use std::ops::ControlFlow;

use placement::{
    Column, ColumnType, ComputedDefault, ElementType, FunctionError, Schema, TimeZone, Value,
    is_castable,
};
use protocol::expression::{self, Expression, ExpressionError, Scope as Names, UnaryOperator};
use sqlparser::ast::{self, Expr};

use crate::error::{SqlError, sqlstate};
use crate::sequence_call::SequenceFunction;
use crate::spelling::{column_type, name};
pub(crate) use aggregate::{
    BoundAggregate, GroupRow, WalkEnd, aggregate_type, check_order, has_aggregate,
    refuse_aggregates, too_deep, walk, written_aggregate,
};
pub(crate) use array::{
    WrittenSubscript, array_call, array_of, element_of, made_type, of_element, quantified,
    subscripted, written_elements,
};
pub(crate) use call::{
    WrittenCall, common_type, may_be_result, null_if_type, operand_type, takes_doubles,
    written_call,
};
pub(crate) use interval::{times_as_intervals, type_beside};
pub(crate) use json_path::{PathCall, PathOperation, path_call, path_parts};
pub(crate) use literal::{concatenation, fitted, number_type, stored};
pub(crate) use names::{FurtherColumns, JoinedTables, SecondTable};
pub(crate) use operators::{binary_operator, chain, regex_operator};

use literal::{default_type, quoted, rounded, spelt, typed_number};

/// How deep an expression may nest before the store refuses it anyway.
const DEPTH_MAX: usize = 64;

/// The context in which an expression's names have a meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// The table; none if only constants are allowed.
    pub schema: Option<&'a Schema>,
    /// The alias that qualifies the table's columns; none if the table's own name does.
    pub alias: Option<&'a str>,
    /// The second table, if there are two. Then the schema has the columns of both.
    pub second: Option<SecondTable<'a>>,
    /// Whether `EXCLUDED` stands for a proposed row.
    pub excluded: bool,
    /// The row of a group from which results are computed; none if they are computed from rows of
    /// the table.
    pub groups: Option<&'a GroupRow>,
    /// The values of `$1`, `$2`, …
    pub parameters: &'a [Value],
    /// The value of `now()`, in microseconds since 1970 UTC; none if no statement is running.
    pub now_us: Option<i64>,
    /// The time zone of the session.
    pub zone: TimeZone<'static>,
    /// The object with which the expression is stored, so that it cannot depend on the session;
    /// none if it is not stored.
    pub stored_in: Option<StoredIn>,
}

/// An object with which an expression is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredIn {
    /// A CHECK constraint.
    Check,
    /// A generated column.
    GeneratedColumn,
}

/// An expression whose type may still depend on the other operand.
#[derive(Clone, Debug)]
enum Bound {
    /// An expression and its type. The type is none for NULL, which is a value of every type.
    Typed(Expression, Option<ColumnType>),
    /// A quoted literal, whose type depends on its context.
    Quoted(String),
    /// A number, integer or not.
    Number(String),
}

/// Returns the error for a column that a table does not have.
pub(crate) fn unknown_column(schema: &Schema, column: &str) -> SqlError {
    SqlError::UnknownColumn {
        table: schema.name.clone(),
        column: column.to_string(),
        columns: schema
            .visible_columns()
            .map(|(_, column)| column.name.clone())
            .collect(),
    }
}

/// Returns the value of an expression without columns, converted to this type. Local times are
/// those of a zone.
pub(crate) fn constant(
    expression: &Expr,
    column_type: ColumnType,
    place: &str,
    zone: TimeZone<'static>,
) -> Result<Value, SqlError> {
    let scope = Scope {
        zone,
        ..Scope::CONSTANTS
    };
    scope.value(expression, column_type, place)
}

/// Returns the values of the arguments of an `EXECUTE`, as of these types. Local times are those of
/// a zone.
///
/// # Errors
/// An argument is no constant, or no value of its type.
pub fn argument_values(
    arguments: &[Expr],
    types: &[ColumnType],
    zone: TimeZone<'static>,
) -> Result<Vec<Value>, SqlError> {
    let scope = Scope {
        now_us: Some(client::now_us()),
        zone,
        ..Scope::CONSTANTS
    };
    let values = arguments.iter().zip(types).enumerate();
    let values = values.map(|(position, (argument, column_type))| {
        let place = format!("parameter ${}", position + 1);
        scope.value(argument, *column_type, &place)
    });
    values.collect()
}

/// Returns the default that an expression stands for, if it is computed for each row or statement.
pub(crate) fn computed_default(expression: &Expr) -> Option<ComputedDefault> {
    let function = match expression {
        Expr::Nested(inner) => return computed_default(inner),
        Expr::Function(function) => function,
        _ => return None,
    };
    let has_arguments = match &function.args {
        ast::FunctionArguments::None => false,
        ast::FunctionArguments::List(list) => !list.args.is_empty(),
        ast::FunctionArguments::Subquery(_) => true,
    };
    let name = function.name.to_string().to_lowercase();
    match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
        _ if has_arguments => None,
        "now" | "current_timestamp" | "localtimestamp" | "transaction_timestamp" => {
            Some(ComputedDefault::Now)
        }
        "current_date" => Some(ComputedDefault::Today),
        "gen_random_uuid" => Some(ComputedDefault::RandomUuid),
        _ => None,
    }
}

impl<'a> Scope<'a> {
    /// A scope without table and parameters.
    pub const CONSTANTS: Scope<'static> = Scope {
        schema: None,
        alias: None,
        second: None,
        excluded: false,
        groups: None,
        parameters: &[],
        now_us: None,
        zone: TimeZone::UTC,
        stored_in: None,
    };

    /// Returns a condition as a list of conjuncts, without those that are always true.
    pub fn condition(&self, condition: &Expr) -> Result<Vec<Expression>, SqlError> {
        let mut conjuncts = Vec::new();
        for part in chain(condition, &ast::BinaryOperator::And) {
            let bound = self.bind(part, 0)?;
            let (bound, found) = self.resolve(bound, Some(ColumnType::Bool), part)?;
            if !matches!(found, None | Some(ColumnType::Bool)) {
                return Err(expression_error(
                    part,
                    ExpressionError::NotBoolean { found },
                ));
            }
            operators::split_conjunction(bound, &mut conjuncts);
        }
        conjuncts.retain(|it| *it != Expression::Literal(Value::Bool(true)));
        Ok(conjuncts)
    }

    /// Returns the condition of a CHECK constraint. Unlike in a WHERE, NULL is not false.
    pub fn check(&self, condition: &Expr) -> Result<Expression, SqlError> {
        let bound = self.bind(condition, 0)?;
        let (bound, _) = self.resolve(bound, Some(ColumnType::Bool), condition)?;
        expression::check_condition(&bound, self.columns(), self.names())
            .map_err(|error| expression_error(condition, error))?;
        Ok(bound)
    }

    /// Returns an output expression, and the type of its values. The type is none if they are
    /// always NULL.
    pub fn output(&self, expression: &Expr) -> Result<(Expression, Option<ColumnType>), SqlError> {
        let bound = self.bind(expression, 0)?;
        self.resolve(bound, None, expression)
    }

    /// Returns the expression for the new value of a column.
    pub fn assigned(&self, expression: &Expr, column: &Column) -> Result<Expression, SqlError> {
        let place = match self.schema {
            Some(schema) => format!("column {} of table {}", column.name, schema.name),
            None => format!("column {}", column.name),
        };
        self.for_type(expression, column.column_type, &place)
    }

    /// Returns the value of an expression without columns, converted to this type.
    pub fn value(
        &self,
        expression: &Expr,
        column_type: ColumnType,
        place: &str,
    ) -> Result<Value, SqlError> {
        let constants = Scope {
            schema: None,
            second: None,
            ..*self
        };
        let bound = constants.for_type(expression, column_type, place)?;
        expression::evaluate_for(column_type, &bound, &Vec::new(), None)
            .map_err(|error| expression_error(expression, error))
    }

    /// Returns a whole number that is not negative, for a limit or an offset.
    pub fn count(&self, expression: &Expr, what: &str) -> Result<Option<u64>, SqlError> {
        let named = walk(expression, |part| match part {
            Expr::Identifier(column) if self.column(&name(column)).is_ok() => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        if let ControlFlow::Break(WalkEnd::Stopped(())) = named {
            return Err(SqlError::with_state(
                sqlstate::INVALID_REFERENCE,
                format!("argument of {what} must not contain variables: write a constant"),
            ));
        }
        match self.value(expression, ColumnType::Int64, what)? {
            Value::Null => Ok(None),
            Value::Int64(count) if count >= 0 => Ok(Some(count.cast_unsigned())),
            other => Err(SqlError::statement(format!(
                "{what} is {other}: give a whole number from 0"
            ))),
        }
    }

    fn for_type(
        &self,
        expression: &Expr,
        column_type: ColumnType,
        place: &str,
    ) -> Result<Expression, SqlError> {
        let is_text = column_type.of_values() == ColumnType::Text;
        let bound = match self.bind(expression, 0)? {
            Bound::Number(number) if column_type.is_integer() => {
                Expression::Literal(rounded(&number, column_type, place)?)
            }
            Bound::Number(number) if column_type == ColumnType::Float32 => {
                Expression::Literal(quoted(&number, column_type, place)?)
            }
            // PostgreSQL assigns anything to a text column.
            Bound::Number(number) if is_text => Expression::Literal(spelt(&number, place)?),
            Bound::Typed(Expression::Literal(value), Some(_)) if is_text => {
                Expression::Literal(self.cast(&value, ColumnType::Text, expression)?)
            }
            Bound::Typed(inner, Some(found))
                if is_text && found.of_values() != ColumnType::Text =>
            {
                self.converted(inner, (found, ColumnType::Text), expression)?
            }
            Bound::Typed(inner, Some(found))
                if column_type.is_time() && found.is_time() && found != column_type
                    || matches!(column_type, ColumnType::Time(_))
                        && found == ColumnType::TimestampTz =>
            {
                self.converted(inner, (found, column_type), expression)?
            }
            Bound::Quoted(text) => Expression::Literal(self.quoted(&text, column_type, place)?),
            bound => self.resolve(bound, Some(column_type), expression)?.0,
        };
        expression::check_assignable(column_type, &bound, self.columns(), self.names()).map_err(
            |error| match error {
                ExpressionError::NotAssignable { .. } => {
                    SqlError::with_state(sqlstate::TYPE_MISMATCH, format!("{place}: {error}"))
                }
                error => expression_error(expression, error),
            },
        )?;
        Ok(bound)
    }

    fn bind(&self, expression: &Expr, depth: usize) -> Result<Bound, SqlError> {
        if depth > DEPTH_MAX {
            return Err(SqlError::with_state(
                sqlstate::TOO_COMPLEX,
                format!("an expression is nested deeper than {DEPTH_MAX} levels: simplify it"),
            ));
        }
        if let Some(groups) = self.groups
            && let Some(bound) = self.bind_of_group(groups, expression, depth)?
        {
            return Ok(bound);
        }
        if let Some(call) = path_call(expression) {
            return self.bind_path_call(&call, expression, depth);
        }
        if let Some(call) = written_call(expression) {
            return self.bind_call(&call, expression, depth);
        }
        if let Some(bound) = self.bind_array_form(expression, depth)? {
            return Ok(bound);
        }
        match expression {
            Expr::Nested(inner) => self.bind(inner, depth + 1),
            Expr::Identifier(column) => self.bind_column(&[], column),
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [qualifiers @ .., column] => self.bind_column(qualifiers, column),
                [] => unreachable!("a compound name has parts"),
            },
            Expr::Value(value) => self.bind_literal(&value.value),
            Expr::TypedString(typed) => {
                let text = typed.value.clone().into_string().unwrap_or_default();
                let column_type = column_type(&typed.data_type)?;
                let mut value = self.quoted(&text, column_type, "")?;
                if let ColumnType::Time(_) | ColumnType::Interval(_) = column_type {
                    value = self.cast(&value, column_type, expression)?;
                }
                Ok(Bound::Typed(Expression::Literal(value), Some(column_type)))
            }
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                let inner = self.bind(expr, depth + 1)?;
                self.bind_cast(inner, column_type(data_type)?, expression)
            }
            Expr::Interval(interval) => self.bind_interval(interval, expression),
            Expr::Function(function) => self.bind_function(function, expression),
            _ => self.bind_operator(expression, depth),
        }
    }

    fn bind_literal(&self, value: &ast::Value) -> Result<Bound, SqlError> {
        let typed = |value: Value| {
            let column_type = value.column_type();
            Bound::Typed(Expression::Literal(value), column_type)
        };
        Ok(match value {
            ast::Value::Null => typed(Value::Null),
            ast::Value::Boolean(value) => typed(Value::Bool(*value)),
            ast::Value::Number(number, _) => Bound::Number(number.clone()),
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Bound::Quoted(text.clone())
            }
            ast::Value::UnicodeStringLiteral(text) => Bound::Quoted(text.clone()),
            ast::Value::DollarQuotedString(text) => Bound::Quoted(text.value.clone()),
            ast::Value::Placeholder(placeholder) => {
                let number = placeholder.strip_prefix('$').and_then(|it| it.parse().ok());
                let number: usize = number.filter(|it| *it > 0).ok_or_else(|| {
                    SqlError::with_state(
                        sqlstate::UNDEFINED_PARAMETER,
                        format!("{placeholder} is no parameter: write $1, $2, …"),
                    )
                })?;
                match self.parameters.get(number - 1) {
                    // A text may stand for any type, as a driver's text parameters do.
                    Some(Value::Text(text)) => Bound::Quoted(text.clone()),
                    Some(value) => typed(value.clone()),
                    None => {
                        return Err(SqlError::with_state(
                            sqlstate::UNDEFINED_PARAMETER,
                            format!(
                                "parameter {placeholder} has no value: {} were given",
                                self.parameters.len()
                            ),
                        ));
                    }
                }
            }
            other => {
                return Err(SqlError::unsupported(
                    format!("the literal {other}"),
                    "write '…', e'…', $$…$$, a number, true, false or NULL; bytes as '\\x00ff'",
                ));
            }
        })
    }

    fn bind_cast(&self, inner: Bound, to: ColumnType, source: &Expr) -> Result<Bound, SqlError> {
        let place = "";
        if let Bound::Typed(_, Some(from @ ColumnType::Array(ElementType::Char(_)))) = &inner
            && to.of_values() == ColumnType::Text
        {
            return Err(SqlError::unsupported(
                format!("{from} as {to}"),
                "PostgreSQL shows the spaces at the end of each element: convert it to text[]",
            ));
        }
        let value = match inner {
            Bound::Quoted(text) => self.cast(&self.quoted(&text, to, place)?, to, source)?,
            Bound::Number(number) => match to {
                to if to.is_integer() => rounded(&number, to, place)?,
                to if to.of_values() == ColumnType::Text => {
                    self.cast(&spelt(&number, place)?, to, source)?
                }
                ColumnType::Float32 => quoted(&number, to, place)?,
                // PostgreSQL converts an integer, and refuses a bigint.
                ColumnType::Bool if number.parse::<i32>().is_ok() => {
                    Value::Bool(number.parse() != Ok(0))
                }
                _ => self.cast(&typed_number(&number, Some(to), place)?, to, source)?,
            },
            Bound::Typed(_, Some(ColumnType::Char(_))) if to == ColumnType::Bytes => {
                return Err(SqlError::unsupported(
                    format!("\"{source}\" of a char"),
                    "PostgreSQL converts the spaces at its end, too: convert it to text first",
                ));
            }
            Bound::Typed(Expression::Literal(value), _) => self.cast(&value, to, source)?,
            Bound::Typed(inner, found) if found.is_none_or(|it| it == to) => {
                return Ok(Bound::Typed(inner, Some(to)));
            }
            Bound::Typed(inner, Some(found)) if is_castable(found, to) => {
                let inner = self.converted(inner, (found, to), source)?;
                return Ok(Bound::Typed(inner, Some(to)));
            }
            Bound::Typed(_, found) => {
                let from = found.unwrap_or(to);
                let error = ExpressionError::NotCastable { from, to };
                return Err(expression_error(source, error));
            }
        };
        let literal = Expression::Literal(value);
        let bound = match literal {
            // The type of a NULL is only that of its cast.
            Expression::Literal(Value::Null) => converted(literal, to),
            literal => literal,
        };
        Ok(Bound::Typed(bound, Some(to)))
    }

    fn bind_function(&self, function: &ast::Function, source: &Expr) -> Result<Bound, SqlError> {
        let name = function.name.to_string().to_lowercase();
        let no_arguments = match &function.args {
            ast::FunctionArguments::None => true,
            ast::FunctionArguments::List(list) => list.args.is_empty(),
            ast::FunctionArguments::Subquery(_) => false,
        };
        let type_of_now = match name.as_str() {
            "now" | "current_timestamp" | "transaction_timestamp" | "statement_timestamp" => {
                Some(ColumnType::TimestampTz)
            }
            "localtime" => Some(ColumnType::TIME),
            "localtimestamp" => Some(ColumnType::Timestamp),
            "current_date" => Some(ColumnType::Date),
            "gen_random_uuid" if no_arguments => return self.bind_random_uuid(),
            _ => None,
        };
        if let (Some(to), true) = (type_of_now, no_arguments) {
            let Some(now_us) = self.now_us else {
                return Err(SqlError::unsupported(
                    format!("{name} here"),
                    "write a constant, and now() in the statement that inserts the row",
                ));
            };
            let now = self.cast(&Value::TimestampTz(now_us), to, source)?;
            return Ok(Bound::Typed(Expression::Literal(now), Some(to)));
        }
        if written_aggregate(source)?.is_some() {
            return Err(SqlError::with_state(
                sqlstate::GROUPING,
                format!("aggregate functions are not allowed here: {source}"),
            ));
        }
        if SequenceFunction::named(&name).is_some() {
            return Err(SqlError::unsupported(
                format!("{name} here"),
                "write it among the items of a SELECT without a table, after VALUES, or as the \
                 DEFAULT of a column",
            ));
        }
        Err(SqlError::unsupported(
            format!("the function {name}"),
            format!(
                "the functions are now, current_date, gen_random_uuid, {} and the aggregates \
                 count, sum, avg, min, max, bool_and, bool_or and array_agg",
                call::names()
            ),
        ))
    }

    /// Binds a random UUID. Each row of a table would need another one.
    fn bind_random_uuid(&self) -> Result<Bound, SqlError> {
        if self.schema.is_some() || self.now_us.is_none() {
            return Err(SqlError::unsupported(
                "gen_random_uuid here",
                "write it after VALUES, or as the DEFAULT of a column",
            ));
        }
        let uuid = Expression::Literal(Value::Uuid(client::random_uuid()));
        Ok(Bound::Typed(uuid, Some(ColumnType::Uuid)))
    }

    /// Gives a literal its type, that of the context if it fits.
    fn resolve(
        &self,
        bound: Bound,
        context: Option<ColumnType>,
        source: &Expr,
    ) -> Result<(Expression, Option<ColumnType>), SqlError> {
        let value = match bound {
            Bound::Typed(expression, found) => return Ok((expression, found)),
            Bound::Quoted(text) => {
                let column_type = context.unwrap_or(ColumnType::Text);
                self.quoted(&text, column_type, &format!("in {source}"))?
            }
            Bound::Number(number) => typed_number(&number, context, &format!("in {source}"))?,
        };
        let found = value.column_type();
        Ok((Expression::Literal(value), found))
    }

    /// Types a compound expression, and computes it where it has no columns.
    fn compound(&self, expression: Expression, source: &Expr) -> Result<Bound, SqlError> {
        let fail = |error| expression_error(source, error);
        let found = expression::check(&expression, self.columns(), self.names()).map_err(fail)?;
        let literal = |it: &Expression| matches!(it, Expression::Literal(_));
        let is_constant = match &expression {
            Expression::Unary(_, operand) => literal(operand),
            Expression::Binary(_, left, right) => literal(left) && literal(right),
            Expression::Call(call) => call.operands.iter().all(literal),
            Expression::Column(_) | Expression::Excluded(_) | Expression::Literal(_) => false,
        };
        if !is_constant {
            if let Expression::Call(call) = &expression
                && let Some(error) = call.pattern_error()
            {
                return Err(fail(FunctionError::Pattern(error).into()));
            }
            return Ok(Bound::Typed(expression, found));
        }
        let value = expression::evaluate(&expression, &Vec::new(), None).map_err(fail)?;
        Ok(Bound::Typed(Expression::Literal(value), found))
    }

    fn columns(&self) -> &'a [Column] {
        match (self.groups, self.schema) {
            (Some(groups), _) => &groups.columns,
            (None, Some(schema)) => &schema.columns,
            (None, None) => &[],
        }
    }

    fn names(&self) -> Names {
        if self.excluded {
            Names::RowAndExcluded
        } else {
            Names::Row
        }
    }
}

impl Bound {
    /// Returns the type that this operand gives to a literal as the other operand; none if it gives
    /// no type.
    fn context(&self) -> Option<ColumnType> {
        match self {
            Bound::Typed(_, found) => *found,
            Bound::Quoted(_) => None,
            Bound::Number(number) => Some(default_type(number)),
        }
    }
}

/// Returns whether an operand takes the type of the other one.
pub(crate) fn is_open(operand: &Expr) -> bool {
    match operand {
        Expr::Nested(inner) => is_open(inner),
        Expr::Value(value) => {
            !matches!(value.value, ast::Value::Boolean(_) | ast::Value::Number(..))
        }
        _ => false,
    }
}

/// Returns an expression converted to a type.
fn converted(inner: Expression, to: ColumnType) -> Expression {
    Expression::Unary(UnaryOperator::Cast(to), Box::new(inner))
}

fn expression_error(source: &Expr, error: ExpressionError) -> SqlError {
    const SHOWN_MAX: usize = 80;
    let text = source.to_string();
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    SqlError::Expression { text: shown, error }
}

#[cfg(test)]
mod tests;
