//! Determines the types of a statement's parameters and of its result, before the parameters have
//! values.
//!
//! A parameter has the type of the place where it stands, as in PostgreSQL: the type of the column
//! that it is compared with or assigned to. Without such a place it is a text. The rest of the
//! statement's errors is found when it is planned.

mod arrays;
mod joined;

use joined::scope_of;
use placement::{ColumnType, Schema};
use protocol::configuration::Configuration;
use protocol::expression::{BinaryOperator, ScalarFunction, result_type};
use sqlparser::ast::{self, Expr};

use crate::bind::{
    PathCall, PathOperation, Scope, WrittenCall, aggregate_type, binary_operator, chain,
    common_type, is_open, may_be_result, null_if_type, number_type, operand_type, path_call,
    path_parts, regex_operator, takes_doubles, times_as_intervals, type_beside, written_aggregate,
    written_call,
};
use crate::error::{SqlError, sqlstate};
use crate::plan::{Context, SessionSettings, WithoutStatistics};
use crate::run::{OutputColumn, show_columns};
use crate::sequence_call::sequence_call;
use crate::session_functions::{SessionFunctions, session_call};
use crate::spelling::column_type;
use crate::statement::{Insert, Select, SelectItem, SetColumn, Statement, TableName};

/// The most parameters of a statement: as many as a message of PostgreSQL's protocol can have.
const PARAMETERS_MAX: usize = 65_535;
/// How deep an expression may nest before the planner refuses it anyway.
const DEPTH_MAX: usize = 64;

/// The types of a statement's parameters and of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementDescription {
    /// The type of `$1`, `$2`, …
    pub parameters: Vec<ColumnType>,
    /// The columns of the result; none if the statement returns no rows.
    pub columns: Option<Vec<OutputColumn>>,
}

/// Describes a statement. `declared` are the types of parameters as far as the client has declared
/// them.
///
/// # Errors
/// A table or a column does not exist, or a type does not.
pub fn describe(
    statement: &Statement,
    configuration: &Configuration,
    declared: &[Option<ColumnType>],
    functions: &dyn SessionFunctions,
) -> Result<StatementDescription, SqlError> {
    let context = Context {
        configuration,
        settings: SessionSettings::default(),
        parameters: &[],
        now_us: 0,
        statistics: &WithoutStatistics,
        explains: false,
    };
    let mut types = ParameterTypes {
        types: declared.to_vec(),
        functions,
    };
    let columns = types.statement(statement, &context)?;
    let parameters = types.types.into_iter();
    Ok(StatementDescription {
        parameters: parameters
            .map(|it| it.unwrap_or(ColumnType::Text))
            .collect(),
        columns,
    })
}

/// The types of parameters as far as they are known.
struct ParameterTypes<'f> {
    types: Vec<Option<ColumnType>>,
    functions: &'f dyn SessionFunctions,
}

impl ParameterTypes<'_> {
    /// Infers the types of a statement, and returns the columns of its result.
    fn statement(
        &mut self,
        statement: &Statement,
        context: &Context<'_>,
    ) -> Result<Option<Vec<OutputColumn>>, SqlError> {
        match statement {
            Statement::Select(select) => self.select(select, context).map(Some),
            Statement::Insert(insert) => {
                self.insert(insert, context)?;
                let scope = table(&insert.table, context)?;
                self.returning(statement, scope)
            }
            Statement::Update(update) => {
                let joined = self.joined(&update.table, update.from.as_ref(), context)?;
                let (schema, scope) = scope_of(joined.as_ref(), &update.table, context)?;
                self.assignments(&update.assignments, schema, &scope)?;
                self.condition(update.filter.as_ref(), &scope)?;
                self.returning(statement, (schema, scope))
            }
            Statement::Delete(delete) => {
                let joined = self.joined(&delete.table, delete.using.as_ref(), context)?;
                let (schema, scope) = scope_of(joined.as_ref(), &delete.table, context)?;
                self.condition(delete.filter.as_ref(), &scope)?;
                self.returning(statement, (schema, scope))
            }
            Statement::Explain(explained)
            | Statement::ExplainAnalyze(explained)
            | Statement::ExplainAsJson(explained) => {
                self.statement(explained, context)?;
                Ok(show_columns(statement, context.configuration))
            }
            Statement::Show(_) => {
                // Fails if the table does not exist.
                crate::plan::plan(statement, context)?;
                Ok(show_columns(statement, context.configuration))
            }
            _ => Ok(None),
        }
    }

    /// Returns the columns of the rows that a change returns; none if it returns no rows.
    fn returning(
        &mut self,
        statement: &Statement,
        (schema, scope): (&Schema, Scope<'_>),
    ) -> Result<Option<Vec<OutputColumn>>, SqlError> {
        match statement.returning() {
            Some((_, items)) => self.items(items, Some(schema), &scope).map(Some),
            None => Ok(None),
        }
    }

    fn select(
        &mut self,
        select: &Select,
        context: &Context<'_>,
    ) -> Result<Vec<OutputColumn>, SqlError> {
        let (schema, scope) = match &select.table {
            Some(name) => {
                let (schema, scope) = table(name, context)?;
                (Some(schema), scope)
            }
            None => (None, constants()),
        };
        let columns = self.items(&select.items, schema, &scope)?;
        self.condition(select.filter.as_ref(), &scope)?;
        self.condition(select.having.as_ref(), &scope)?;
        let order = select.order.iter().map(|key| &key.expression);
        for key in select.group_by.iter().chain(order) {
            // The name of an output is no column, and the planner knows it.
            if !matches!(key, Expr::Identifier(_)) {
                self.infer(key, None, &scope, 0)?;
            }
        }
        for count in [&select.limit, &select.offset].into_iter().flatten() {
            self.infer(count, Some(ColumnType::Int64), &scope, 0)?;
        }
        Ok(columns)
    }

    /// Infers the items of a result, and returns its columns.
    fn items(
        &mut self,
        items: &[SelectItem],
        schema: Option<&Schema>,
        scope: &Scope<'_>,
    ) -> Result<Vec<OutputColumn>, SqlError> {
        let mut columns = Vec::new();
        for item in items {
            let (name, column_type) = match item {
                SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => {
                    let meant = match item {
                        SelectItem::AllOf(table) => scope.columns_of(table)?,
                        _ => 0..usize::MAX,
                    };
                    let all = schema.into_iter().flat_map(Schema::visible_columns);
                    let all = all.filter(|(position, column)| {
                        let is_left_out =
                            *item == SelectItem::AllButGenerated && column.generation().is_some();
                        meant.contains(position) && !is_left_out
                    });
                    columns.extend(all.map(|(_, column)| OutputColumn {
                        name: column.name.clone(),
                        column_type: Some(column.column_type),
                    }));
                    continue;
                }
                SelectItem::Expression {
                    expression, name, ..
                } => match session_call(expression, self.functions) {
                    Some((function, arguments)) => {
                        for argument in arguments {
                            self.infer(argument, Some(ColumnType::Text), scope, 0)?;
                        }
                        (name, self.functions.result_type(&function))
                    }
                    None => (name, self.infer(expression, None, scope, 0)?),
                },
            };
            columns.push(OutputColumn {
                name: name.clone(),
                column_type,
            });
        }
        Ok(columns)
    }

    fn insert(&mut self, insert: &Insert, context: &Context<'_>) -> Result<(), SqlError> {
        let (schema, scope) = table(&insert.table, context)?;
        let columns: Vec<usize> = match &insert.columns {
            None => schema.visible_positions(),
            Some(names) => names
                .iter()
                .map(|name| scope.column(name))
                .collect::<Result<_, _>>()?,
        };
        if let Some(select) = &insert.select {
            // A parameter that is an item has the type of the column.
            for (item, column) in select.items.iter().zip(&columns) {
                if let SelectItem::Expression { expression, .. } = item
                    && is_open(expression)
                {
                    let wanted = schema.columns[*column].column_type;
                    self.infer(expression, Some(wanted), &constants(), 0)?;
                }
            }
            self.select(select, context)?;
        }
        for row in &insert.rows {
            for (value, column) in row.iter().zip(&columns) {
                if let Some(value) = value {
                    let wanted = schema.columns[*column].column_type;
                    self.infer(value, Some(wanted), &constants(), 0)?;
                }
            }
        }
        let update = insert
            .on_conflict
            .as_ref()
            .and_then(|it| it.update.as_ref());
        if let Some(update) = update {
            let scope = Scope {
                excluded: true,
                ..scope
            };
            self.assignments(&update.assignments, schema, &scope)?;
            self.condition(update.condition.as_ref(), &scope)?;
        }
        Ok(())
    }

    fn assignments(
        &mut self,
        assignments: &[SetColumn],
        schema: &Schema,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        for assignment in assignments {
            let column = scope.column(&assignment.column)?;
            let wanted = schema.columns[column].column_type;
            if let Some(value) = &assignment.value {
                self.infer(value, Some(wanted), scope, 0)?;
            }
        }
        Ok(())
    }

    fn condition(&mut self, condition: Option<&Expr>, scope: &Scope<'_>) -> Result<(), SqlError> {
        match condition {
            Some(condition) => self
                .infer(condition, Some(ColumnType::Bool), scope, 0)
                .map(drop),
            None => Ok(()),
        }
    }

    // tidy: long — one arm per form of an expression.
    /// Infers the types of an expression's parameters, and returns the type of its value; none if
    /// it is always NULL. A literal or parameter has the type `wanted` if its place determines it.
    fn infer(
        &mut self,
        expression: &Expr,
        wanted: Option<ColumnType>,
        scope: &Scope<'_>,
        depth: usize,
    ) -> Result<Option<ColumnType>, SqlError> {
        if depth > DEPTH_MAX {
            return Err(SqlError::with_state(
                sqlstate::TOO_COMPLEX,
                format!("an expression is nested deeper than {DEPTH_MAX} levels: simplify it"),
            ));
        }
        let next = depth + 1;
        let is = |found: ColumnType| Ok(Some(found));
        if let Some(call) = path_call(expression) {
            return self.path_call(&call, scope, next);
        }
        if let Some(call) = written_call(expression) {
            return self.call(&call, (expression, wanted), scope, next);
        }
        if let Some(found) = self.array_form(expression, wanted, (scope, next))? {
            return Ok(found);
        }
        if let Some(aggregate) = written_aggregate(expression)? {
            let argument = aggregate.argument;
            let found = argument.map(|it| self.infer(it, None, scope, next));
            self.condition(aggregate.filter, scope)?;
            if let Some(separator) = aggregate.separator {
                self.infer(separator, Some(ColumnType::Text), scope, next)?;
            }
            for item in aggregate.order {
                self.infer(&item.expr, None, scope, next)?;
            }
            return aggregate_type(aggregate.function, found.transpose()?.flatten()).map(Some);
        }
        if let Expr::Function(function) = expression
            && let Some(call) = sequence_call(function)
        {
            let types = call.function.argument_types().iter();
            for (argument, wanted) in call.arguments.iter().zip(types) {
                self.infer(argument, Some(*wanted), scope, next)?;
            }
            return is(call.function.result_type());
        }
        match expression {
            Expr::Nested(inner) => self.infer(inner, wanted, scope, next),
            Expr::Value(value) => match &value.value {
                ast::Value::Placeholder(placeholder) => self.parameter(placeholder, wanted),
                ast::Value::Number(number, _) => is(number_type(number, wanted)),
                ast::Value::Boolean(_) => is(ColumnType::Bool),
                ast::Value::Null => Ok(None),
                _ => Ok(wanted.or(Some(ColumnType::Text))),
            },
            Expr::TypedString(typed) => column_type(&typed.data_type).map(Some),
            Expr::Cast {
                expr, data_type, ..
            } => {
                let to = column_type(data_type)?;
                self.infer(expr, Some(to), scope, next)?;
                is(to)
            }
            Expr::UnaryOp {
                op: ast::UnaryOperator::Not,
                expr,
            } => {
                self.infer(expr, Some(ColumnType::Bool), scope, next)?;
                is(ColumnType::Bool)
            }
            Expr::UnaryOp { expr, .. } => {
                let found = self.infer(expr, wanted, scope, next)?;
                Ok(found.map(ColumnType::of_values))
            }
            Expr::BinaryOp {
                op: op @ (ast::BinaryOperator::And | ast::BinaryOperator::Or),
                ..
            } => {
                for part in chain(expression, op) {
                    self.infer(part, Some(ColumnType::Bool), scope, next)?;
                }
                is(ColumnType::Bool)
            }
            Expr::BinaryOp { left, op, right } => match op {
                ast::BinaryOperator::Arrow
                | ast::BinaryOperator::LongArrow
                | ast::BinaryOperator::Question
                | ast::BinaryOperator::Minus
                    if *op != ast::BinaryOperator::Minus
                        || self.is_jsonb(left, (scope, next))? =>
                {
                    let left = self.infer(left, Some(ColumnType::Jsonb), scope, next)?;
                    let right = self.infer(right, Some(ColumnType::Text), scope, next)?;
                    let operator = binary_operator(op, expression)?;
                    result_type(operator, left, right).map_err(|error| SqlError::Expression {
                        text: expression.to_string(),
                        error,
                    })
                }
                ast::BinaryOperator::StringConcat
                    if self.is_jsonb(left, (scope, next))?
                        || self.is_jsonb(right, (scope, next))? =>
                {
                    self.pair(left, right, None, (scope, next))?;
                    is(ColumnType::Jsonb)
                }
                ast::BinaryOperator::Plus
                | ast::BinaryOperator::Minus
                | ast::BinaryOperator::Multiply
                | ast::BinaryOperator::Divide
                | ast::BinaryOperator::Modulo => {
                    let operator = binary_operator(op, expression)?;
                    let types =
                        self.arithmetic_pair(operator, (left, right), wanted, (scope, next))?;
                    let (left, right) = times_as_intervals(operator, types);
                    result_type(operator, left, right).map_err(|error| SqlError::Expression {
                        text: expression.to_string(),
                        error,
                    })
                }
                ast::BinaryOperator::StringConcat
                    if let Some(found) =
                        self.array_concatenation((left, right), (scope, next))? =>
                {
                    is(found)
                }
                ast::BinaryOperator::StringConcat => {
                    let is_bytes = |found| found == Some(ColumnType::Bytes);
                    let left = self.infer(left, Some(ColumnType::Text), scope, next)?;
                    let wanted = match is_bytes(left) {
                        true => ColumnType::Bytes,
                        false => ColumnType::Text,
                    };
                    let right = self.infer(right, Some(wanted), scope, next)?;
                    is(match is_bytes(left) && is_bytes(right) {
                        true => ColumnType::Bytes,
                        false => ColumnType::Text,
                    })
                }
                op if regex_operator(op).is_some() => {
                    for operand in [left, right] {
                        self.infer(operand, Some(ColumnType::Text), scope, next)?;
                    }
                    is(ColumnType::Bool)
                }
                _ => {
                    self.pair(left, right, None, (scope, next))?;
                    is(ColumnType::Bool)
                }
            },
            Expr::Between {
                expr, low, high, ..
            } => {
                self.pair(expr, low, None, (scope, next))?;
                self.pair(expr, high, None, (scope, next))?;
                is(ColumnType::Bool)
            }
            Expr::InList { expr, list, .. } => {
                for member in list {
                    self.pair(expr, member, None, (scope, next))?;
                }
                is(ColumnType::Bool)
            }
            Expr::Like { expr, pattern, .. } => {
                self.infer(expr, Some(ColumnType::Text), scope, next)?;
                self.infer(pattern, Some(ColumnType::Text), scope, next)?;
                is(ColumnType::Bool)
            }
            Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => {
                self.infer(inner, None, scope, next)?;
                is(ColumnType::Bool)
            }
            Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner) => {
                self.infer(inner, Some(ColumnType::Bool), scope, next)?;
                is(ColumnType::Bool)
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.pair(left, right, None, (scope, next))?;
                is(ColumnType::Bool)
            }
            // Columns, functions, and forms that the binder refuses by name.
            other => scope.output(other).map(|(_, found)| found),
        }
    }

    // tidy: long — a dispatching match over the functions.
    /// Infers the operands of a call, and returns the type of its value.
    fn call(
        &mut self,
        call: &WrittenCall<'_>,
        (source, wanted): (&Expr, Option<ColumnType>),
        scope: &Scope<'_>,
        depth: usize,
    ) -> Result<Option<ColumnType>, SqlError> {
        let function = call.function;
        let failed = |error| SqlError::Expression {
            text: source.to_string(),
            error,
        };
        if let (ScalarFunction::Modulo, [left, right]) = (function, &call.operands[..]) {
            let (left, right) = self.pair(left, right, wanted, (scope, depth))?;
            return result_type(BinaryOperator::Modulo, left, right).map_err(failed);
        }
        if let (ScalarFunction::AtZone, [zone, time]) = (function, &call.operands[..]) {
            self.infer(zone, Some(ColumnType::Text), scope, depth)?;
            let found = self.infer(time, Some(ColumnType::TimestampTz), scope, depth)?;
            return Ok(match found {
                Some(ColumnType::Timestamp) => Some(ColumnType::TimestampTz),
                _ => Some(ColumnType::Timestamp),
            });
        }
        if let ScalarFunction::DateTrunc | ScalarFunction::Extract | ScalarFunction::DatePart =
            function
        {
            let mut time = None;
            for (place, operand) in call.operands.iter().enumerate() {
                let is_time = call.field.is_some() || place == 1;
                let wanted = if is_time {
                    ColumnType::TimestampTz
                } else {
                    ColumnType::Text
                };
                let found = self.infer(operand, Some(wanted), scope, depth)?;
                time = if is_time { found } else { time };
            }
            return Ok(Some(match (function, time) {
                (ScalarFunction::DateTrunc, Some(ColumnType::Timestamp)) => ColumnType::Timestamp,
                (
                    ScalarFunction::DateTrunc,
                    Some(ColumnType::Time(_) | ColumnType::Interval(_)),
                ) => ColumnType::INTERVAL,
                (ScalarFunction::DateTrunc, _) => ColumnType::TimestampTz,
                (ScalarFunction::DatePart, _) => ColumnType::Float64,
                _ => ColumnType::Numeric,
            }));
        }
        let count = call.operands.len();
        let is_result = |place: &usize| may_be_result(function, *place, count);
        // The first value that has a type gives it to the parameters.
        let mut common = None;
        for value in (0..count).filter(is_result).map(|it| call.operands[it]) {
            if !is_open(value) {
                common = common.or(self.infer(value, wanted, scope, depth)?);
            }
        }
        let mut types = Vec::with_capacity(count);
        for (place, operand) in call.operands.iter().enumerate() {
            types.push(match call.compared {
                _ if is_result(&place) => self.infer(operand, common.or(wanted), scope, depth)?,
                Some(compared) => {
                    self.pair(compared, operand, None, (scope, depth))?;
                    Some(ColumnType::Bool)
                }
                None => {
                    let wanted = operand_type(function, place, count);
                    // An operand with a type of its own keeps it, if it is a numeric.
                    let has_type = takes_doubles(function) && !is_open(operand);
                    let wanted = wanted.filter(|_| !has_type);
                    self.infer(operand, wanted, scope, depth)?
                }
            });
        }
        let first = types.first().copied().flatten();
        if (0..count).any(|place| is_result(&place)) {
            let types = (0..count).filter(is_result).map(|place| types[place]);
            return common_type(function, types).map_err(failed);
        }
        Ok(match function {
            ScalarFunction::NullIf => null_if_type(first, types.get(1).copied().flatten()),
            ScalarFunction::Abs => first.map(ColumnType::of_values),
            ScalarFunction::Length
            | ScalarFunction::OctetLength
            | ScalarFunction::Position
            | ScalarFunction::Scale
            | ScalarFunction::ScaleMin => Some(ColumnType::Int32),
            function if takes_doubles(function) => {
                let is_numeric = count == 2 || first.is_some_and(ColumnType::is_numeric);
                Some(match is_numeric {
                    true => ColumnType::Numeric,
                    false => ColumnType::Float64,
                })
            }
            ScalarFunction::Age
            | ScalarFunction::MakeInterval
            | ScalarFunction::JustifyDays
            | ScalarFunction::JustifyHours
            | ScalarFunction::JustifyInterval => Some(ColumnType::INTERVAL),
            ScalarFunction::MakeTime => Some(ColumnType::TIME),
            ScalarFunction::DivideWhole | ScalarFunction::TrimScale => Some(ColumnType::Numeric),
            ScalarFunction::Json(function) => Some(function.result_type()),
            ScalarFunction::Text(function) => Some(function.result_type()),
            ScalarFunction::Math(_) => Some(ColumnType::Float64),
            _ => Some(ColumnType::Text),
        })
    }

    /// Infers the operands of an operation with a path, and returns the type of its value.
    fn path_call(
        &mut self,
        call: &PathCall<'_>,
        scope: &Scope<'_>,
        depth: usize,
    ) -> Result<Option<ColumnType>, SqlError> {
        let json = Some(ColumnType::Jsonb);
        let target = self.infer(call.target, json, scope, depth)?;
        for part in path_parts(call.path) {
            self.infer(part, Some(ColumnType::Text), scope, depth)?;
        }
        for (other, wanted) in call
            .others
            .iter()
            .zip([ColumnType::Jsonb, ColumnType::Bool])
        {
            self.infer(other, Some(wanted), scope, depth)?;
        }
        Ok(match call.operation {
            PathOperation::Extract => target.or(json),
            PathOperation::ExtractText => Some(ColumnType::Text),
            PathOperation::Function(function) => Some(function.result_type()),
        })
    }

    /// Returns whether an operand with a type of its own is a `jsonb`.
    fn is_jsonb(
        &mut self,
        operand: &Expr,
        (scope, depth): (&Scope<'_>, usize),
    ) -> Result<bool, SqlError> {
        if is_open(operand) {
            return Ok(false);
        }
        Ok(self.infer(operand, None, scope, depth)? == Some(ColumnType::Jsonb))
    }

    /// Infers two operands, of which each gives its type to a parameter that is the other one.
    fn pair(
        &mut self,
        left: &Expr,
        right: &Expr,
        wanted: Option<ColumnType>,
        (scope, depth): (&Scope<'_>, usize),
    ) -> Result<(Option<ColumnType>, Option<ColumnType>), SqlError> {
        if let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) {
            for (left, right) in left.iter().zip(right) {
                self.pair(left, right, None, (scope, depth + 1))?;
            }
            return Ok((None, None));
        }
        if is_open(left) {
            let right_type = self.infer(right, wanted, scope, depth)?;
            let left_type = self.infer(left, right_type, scope, depth)?;
            return Ok((left_type, right_type));
        }
        let left_type = self.infer(left, wanted, scope, depth)?;
        let right_type = self.infer(right, left_type, scope, depth)?;
        Ok((left_type, right_type))
    }

    /// Infers two operands of an arithmetic operator. A parameter beside a time is an interval
    /// where an operator takes one.
    fn arithmetic_pair(
        &mut self,
        operator: BinaryOperator,
        (left, right): (&Expr, &Expr),
        wanted: Option<ColumnType>,
        (scope, depth): (&Scope<'_>, usize),
    ) -> Result<(Option<ColumnType>, Option<ColumnType>), SqlError> {
        let beside = |other: Option<ColumnType>| other.and_then(|it| type_beside(operator, it));
        match (is_open(left), is_open(right)) {
            (false, true) => {
                let left_type = self.infer(left, wanted, scope, depth)?;
                let wanted = beside(left_type).or(left_type);
                Ok((left_type, self.infer(right, wanted, scope, depth)?))
            }
            (true, false) => {
                let right_type = self.infer(right, wanted, scope, depth)?;
                let wanted = beside(right_type).or(right_type);
                Ok((self.infer(left, wanted, scope, depth)?, right_type))
            }
            _ => self.pair(left, right, wanted, (scope, depth)),
        }
    }

    fn parameter(
        &mut self,
        placeholder: &str,
        wanted: Option<ColumnType>,
    ) -> Result<Option<ColumnType>, SqlError> {
        let number = placeholder.strip_prefix('$').and_then(|it| it.parse().ok());
        let number: Option<usize> = number.filter(|it| (1..=PARAMETERS_MAX).contains(it));
        let number = number.ok_or_else(|| {
            SqlError::with_state(
                sqlstate::UNDEFINED_PARAMETER,
                format!("{placeholder} is no parameter: write $1 to ${PARAMETERS_MAX}"),
            )
        })?;
        if self.types.len() < number {
            self.types.resize(number, None);
        }
        let known = &mut self.types[number - 1];
        *known = known.or(wanted);
        Ok(Some(known.unwrap_or(ColumnType::Text)))
    }
}

fn table<'a>(
    name: &'a TableName,
    context: &Context<'a>,
) -> Result<(&'a Schema, Scope<'a>), SqlError> {
    let schema = &context.relation(&name.name)?.schema;
    let scope = Scope {
        schema: Some(schema),
        alias: name.alias.as_deref(),
        ..constants()
    };
    Ok((schema, scope))
}

fn constants() -> Scope<'static> {
    Scope {
        now_us: Some(0),
        ..Scope::CONSTANTS
    }
}

#[cfg(test)]
mod tests;
