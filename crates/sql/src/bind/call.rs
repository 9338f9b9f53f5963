//! Binds calls of functions, `CASE` among them, and gives their operands the types that they take.
//!
//! Operands of which one becomes the result get one type, as in PostgreSQL: the widest of numbers,
//! the one that knows most of times.

use placement::{
    ArrayFunction, ColumnType, ElementType, JsonFunction, MathFunction, TextFunction, Value,
};
use protocol::expression::{
    BinaryOperator, Expression, ExpressionError, FunctionCall, ScalarFunction, common_number,
};
use sqlparser::ast::{self, Expr};

use super::interval::interval_parts;
use super::literal::are_other_texts;
use super::{Bound, Scope, converted, expression_error, literal};
use crate::error::SqlError;
use crate::spelling::function_name;

/// The names of functions.
const FUNCTIONS: &[(&str, ScalarFunction)] = &[
    ("abs", ScalarFunction::Abs),
    ("age", ScalarFunction::Age),
    ("btrim", ScalarFunction::Trim),
    ("ceil", ScalarFunction::Ceil),
    ("ceiling", ScalarFunction::Ceil),
    ("char_length", ScalarFunction::Length),
    ("character_length", ScalarFunction::Length),
    ("coalesce", ScalarFunction::Coalesce),
    ("concat", ScalarFunction::Concat),
    ("date_part", ScalarFunction::DatePart),
    ("date_trunc", ScalarFunction::DateTrunc),
    ("div", ScalarFunction::DivideWhole),
    ("floor", ScalarFunction::Floor),
    ("greatest", ScalarFunction::Greatest),
    ("justify_days", ScalarFunction::JustifyDays),
    ("justify_hours", ScalarFunction::JustifyHours),
    ("justify_interval", ScalarFunction::JustifyInterval),
    ("least", ScalarFunction::Least),
    ("left", ScalarFunction::Left),
    ("length", ScalarFunction::Length),
    ("lower", ScalarFunction::Lower),
    ("ltrim", ScalarFunction::TrimStart),
    ("make_interval", ScalarFunction::MakeInterval),
    ("make_time", ScalarFunction::MakeTime),
    ("min_scale", ScalarFunction::ScaleMin),
    ("mod", ScalarFunction::Modulo),
    ("nullif", ScalarFunction::NullIf),
    ("octet_length", ScalarFunction::OctetLength),
    ("replace", ScalarFunction::Replace),
    ("right", ScalarFunction::Right),
    ("round", ScalarFunction::Round),
    ("rtrim", ScalarFunction::TrimEnd),
    ("scale", ScalarFunction::Scale),
    ("sign", ScalarFunction::Sign),
    ("strpos", ScalarFunction::Position),
    ("substr", ScalarFunction::Substring),
    ("substring", ScalarFunction::Substring),
    ("timezone", ScalarFunction::AtZone),
    ("trim_scale", ScalarFunction::TrimScale),
    ("trunc", ScalarFunction::Trunc),
    ("upper", ScalarFunction::Upper),
];

/// A call of a function as it is written.
pub(crate) struct WrittenCall<'e> {
    /// The function.
    pub function: ScalarFunction,
    /// The operands. A `CASE` has conditions and values in turn, and the last value.
    pub operands: Vec<&'e Expr>,
    /// The operand that a `CASE` compares with its conditions.
    pub compared: Option<&'e Expr>,
    /// The name of the field that an `EXTRACT` returns.
    pub field: Option<String>,
}

/// Returns the names of all functions.
pub(super) fn names() -> String {
    let names = FUNCTIONS.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names
        .chain(JsonFunction::ALL.map(JsonFunction::name))
        .chain(TextFunction::ALL.map(TextFunction::name))
        .chain(MathFunction::ALL.map(MathFunction::name))
        .chain(ArrayFunction::NAMED.map(ArrayFunction::name))
        .collect();
    names.join(", ")
}

/// Returns the further function with a name.
fn further(called: &str) -> Option<ScalarFunction> {
    let mut texts = TextFunction::ALL.into_iter();
    let text = texts.find(|it| it.name() == called);
    let called = if called == "pow" { "power" } else { called };
    let mut numbers = MathFunction::ALL.into_iter();
    let number = numbers.find(|it| it.name() == called);
    text.map(ScalarFunction::Text)
        .or(number.map(ScalarFunction::Math))
}

// tidy: long — a dispatching match over the forms of calls.
/// Returns the call that an expression is; none if it is no call of one of these functions.
// tidy: long — one arm per form of a call.
pub(crate) fn written_call(expression: &Expr) -> Option<WrittenCall<'_>> {
    let call = |function, operands| {
        Some(WrittenCall {
            function,
            operands,
            compared: None,
            field: None,
        })
    };
    match expression {
        Expr::Function(function) => {
            let called = &function_name(function)?[..];
            let mut of_json = JsonFunction::ALL.into_iter();
            if let Some(found) = of_json.find(|it| it.name() == called && !it.takes_path()) {
                let operands = arguments(function)?;
                let operands_min = match found {
                    found if found.builds() => 0,
                    // Only an operator has a path without a step.
                    found if found.takes(1) && found.takes(2) => 2,
                    _ => 1,
                };
                let is_call = operands.len() >= operands_min;
                let written = call(ScalarFunction::Json(found), operands);
                return written.filter(|_| is_call);
            }
            if let Some(found) = further(called) {
                return call(found, arguments(function)?);
            }
            let mut known = FUNCTIONS.iter();
            let (_, found) = known.find(|(known, _)| *known == called)?;
            if *found == ScalarFunction::MakeInterval {
                return call(*found, interval_parts(function)?);
            }
            let operands = arguments(function).filter(|it| !it.is_empty())?;
            call(*found, operands)
        }
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => {
            let pairs = conditions.iter();
            let pairs = pairs.flat_map(|it| [&it.condition, &it.result]);
            let operands = pairs.chain(else_result.as_deref()).collect();
            Some(WrittenCall {
                function: ScalarFunction::Case,
                operands,
                compared: operand.as_deref(),
                field: None,
            })
        }
        Expr::Trim {
            trim_where,
            trim_what,
            expr,
            trim_characters: None,
        } => {
            let function = match trim_where {
                None | Some(ast::TrimWhereField::Both) => ScalarFunction::Trim,
                Some(ast::TrimWhereField::Leading) => ScalarFunction::TrimStart,
                Some(ast::TrimWhereField::Trailing) => ScalarFunction::TrimEnd,
            };
            let characters = trim_what.as_deref();
            call(
                function,
                std::iter::once(&**expr).chain(characters).collect(),
            )
        }
        Expr::Substring {
            expr,
            substring_from: Some(from),
            substring_for,
            ..
        } => {
            let count = substring_for.as_deref();
            let operands = [&**expr, from].into_iter().chain(count);
            call(ScalarFunction::Substring, operands.collect())
        }
        Expr::Extract { field, expr, .. } => Some(WrittenCall {
            function: ScalarFunction::Extract,
            operands: vec![expr],
            compared: None,
            field: Some(field.to_string().trim_matches(['\'', '"']).to_owned()),
        }),
        Expr::AtTimeZone {
            timestamp,
            time_zone,
        } => call(ScalarFunction::AtZone, vec![time_zone, timestamp]),
        Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::PGExp,
            right,
        } => call(ScalarFunction::Math(MathFunction::Power), vec![left, right]),
        Expr::Position { expr, r#in } => call(ScalarFunction::Position, vec![r#in, expr]),
        Expr::Ceil { expr, field } if is_plain(field) => call(ScalarFunction::Ceil, vec![expr]),
        Expr::Floor { expr, field } if is_plain(field) => call(ScalarFunction::Floor, vec![expr]),
        _ => None,
    }
}

fn is_plain(field: &ast::CeilFloorKind) -> bool {
    let plain = ast::DateTimeField::NoDateTime;
    *field == ast::CeilFloorKind::DateTimeField(plain)
}

/// Returns the arguments of a call that has nothing else.
pub(super) fn arguments(function: &ast::Function) -> Option<Vec<&Expr>> {
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let is_plain = function.over.is_none()
        && function.filter.is_none()
        && function.within_group.is_empty()
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty();
    if !is_plain {
        return None;
    }
    let arguments = list.args.iter();
    let arguments = arguments.map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    });
    arguments.collect()
}

/// Returns the type that an operand of a function must have, or gets if it has none; none if it may
/// have several. `count` is the number of all operands.
pub(crate) fn operand_type(
    function: ScalarFunction,
    place: usize,
    count: usize,
) -> Option<ColumnType> {
    match function {
        ScalarFunction::Round | ScalarFunction::Trunc if count == 2 => match place {
            0 => Some(ColumnType::Numeric),
            _ => Some(ColumnType::Int32),
        },
        function if takes_doubles(function) => Some(ColumnType::Float64),
        ScalarFunction::DivideWhole
        | ScalarFunction::Scale
        | ScalarFunction::ScaleMin
        | ScalarFunction::TrimScale => Some(ColumnType::Numeric),
        ScalarFunction::Lower
        | ScalarFunction::Upper
        | ScalarFunction::Trim
        | ScalarFunction::TrimStart
        | ScalarFunction::TrimEnd
        | ScalarFunction::Replace
        | ScalarFunction::Position => Some(ColumnType::Text),
        ScalarFunction::Substring | ScalarFunction::Left | ScalarFunction::Right => match place {
            0 => Some(ColumnType::Text),
            _ => Some(ColumnType::Int32),
        },
        ScalarFunction::JustifyDays
        | ScalarFunction::JustifyHours
        | ScalarFunction::JustifyInterval => Some(ColumnType::INTERVAL),
        ScalarFunction::MakeInterval | ScalarFunction::MakeTime => match place + 1 == count {
            true => Some(ColumnType::Float64),
            false => Some(ColumnType::Int32),
        },
        ScalarFunction::Age => Some(ColumnType::TimestampTz),
        ScalarFunction::Case if place.is_multiple_of(2) => Some(ColumnType::Bool),
        ScalarFunction::Json(function) => function.operand_type(place),
        ScalarFunction::Text(function) => function.operand_type(place),
        ScalarFunction::Math(_) => Some(ColumnType::Float64),
        _ => None,
    }
}

/// Returns whether a function of one number takes a numeric or a double, and other numbers as
/// doubles.
pub(crate) fn takes_doubles(function: ScalarFunction) -> bool {
    matches!(
        function,
        ScalarFunction::Round
            | ScalarFunction::Floor
            | ScalarFunction::Ceil
            | ScalarFunction::Trunc
            | ScalarFunction::Sign
            | ScalarFunction::Math(MathFunction::Sqrt)
    )
}

/// Returns the type of the result of `nullif`: that of the first operand, promoted as far as its
/// comparison with the second one needs it. There is no comparison of an integer with a numeric.
pub(crate) fn null_if_type(
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Option<ColumnType> {
    match (left, right) {
        (Some(left), Some(right)) if left.is_integer() && right.is_integer() => Some(left),
        (Some(left), Some(right)) if left.is_number() && right.is_number() && !left.is_float() => {
            match common_number(left.of_values(), right.of_values()) {
                common if common == left.of_values() => Some(left),
                common => Some(common),
            }
        }
        (left, _) => left,
    }
}

/// Returns whether an operand is one of those of which one becomes the result. `count` is the
/// number of all operands.
pub(crate) fn may_be_result(function: ScalarFunction, place: usize, count: usize) -> bool {
    match function {
        ScalarFunction::Coalesce | ScalarFunction::Greatest | ScalarFunction::Least => true,
        ScalarFunction::Case => !place.is_multiple_of(2) || place + 1 == count,
        _ => false,
    }
}

/// Returns the type of operands of which one is the result; none if all are NULL or have no type of
/// their own.
///
/// # Errors
/// They have no common type.
pub(crate) fn common_type(
    function: ScalarFunction,
    types: impl Iterator<Item = Option<ColumnType>>,
) -> Result<Option<ColumnType>, ExpressionError> {
    let mut common: Option<ColumnType> = None;
    for found in types.flatten() {
        common = Some(match common {
            None => found,
            Some(common) if common == found => common,
            Some(common) if common.of_values() == found.of_values() => common.of_values(),
            Some(ColumnType::Array(_)) => return Err(ExpressionError::WrongOperands { function }),
            Some(common) => match (rank(common), rank(found)) {
                (Some((kind, first)), Some((other, second))) if kind == other => {
                    let wider = if first >= second { common } else { found };
                    wider.of_values()
                }
                _ => return Err(ExpressionError::WrongOperands { function }),
            },
        });
    }
    Ok(common)
}

/// Returns the kind of a type, and its place among the types of this kind.
fn rank(column_type: ColumnType) -> Option<(bool, u8)> {
    Some(match column_type {
        ColumnType::Int16 => (true, 0),
        ColumnType::Int32 => (true, 1),
        ColumnType::Int64 => (true, 2),
        ColumnType::Numeric | ColumnType::Decimal { .. } => (true, 3),
        ColumnType::Float32 => (true, 4),
        ColumnType::Float64 => (true, 5),
        ColumnType::Date => (false, 0),
        ColumnType::Timestamp => (false, 1),
        ColumnType::TimestampTz => (false, 2),
        _ => return None,
    })
}

/// Refuses to make one type of a `char` and another one: in PostgreSQL each value keeps the spaces
/// of its own type.
pub(super) fn refuse_mixed_chars<'b>(
    values: impl Iterator<Item = &'b Bound>,
    source: &Expr,
) -> Result<(), SqlError> {
    let types = values.map(|bound| match bound {
        Bound::Typed(_, found) => *found,
        Bound::Quoted(_) | Bound::Number(_) => Some(ColumnType::Text),
    });
    let types: Vec<ColumnType> = types.flatten().collect();
    let is_char = |found: &&ColumnType| matches!(found, ColumnType::Char(_));
    match types.iter().find(is_char) {
        Some(found) if types.iter().any(|other| other != found) => Err(SqlError::unsupported(
            format!("\"{source}\" with a {found} and another type"),
            "convert the char to text",
        )),
        _ => Ok(()),
    }
}

/// Refuses a function whose result is a numeric in PostgreSQL, where the store has none.
fn refuse_numerics(function: MathFunction, bound: &[Bound], source: &Expr) -> Result<(), SqlError> {
    let types = || bound.iter().filter_map(Bound::context);
    let is_numeric = types().any(ColumnType::is_numeric) && !types().any(ColumnType::is_float);
    let is_known = function == MathFunction::Sqrt || !function.is_of_numerics();
    let has_base = function == MathFunction::Log && bound.len() == 2;
    match has_base || (is_numeric && !is_known) {
        true => Err(SqlError::unsupported(
            format!("\"{source}\", whose result is a numeric"),
            "convert the operands to double precision; log(b, x) is ln(x) / ln(b)",
        )),
        false => Ok(()),
    }
}

impl Scope<'_> {
    // tidy: long — some functions give their operands types by rules of their own.
    /// Binds a call.
    pub(super) fn bind_call(
        &self,
        call: &WrittenCall<'_>,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        let function = call.function;
        let mut bound = Vec::with_capacity(call.operands.len() + 1);
        for (place, operand) in call.operands.iter().enumerate() {
            let is_last = place + 1 == call.operands.len();
            let operand = self.bind(operand, depth + 1)?;
            bound.push(match call.compared {
                Some(compared) if place.is_multiple_of(2) && !is_last => {
                    let compared = self.bind_compared(compared, depth)?;
                    self.binary(BinaryOperator::Equal, compared, operand, source)?
                }
                _ => operand,
            });
        }
        if matches!(
            function,
            ScalarFunction::DateTrunc | ScalarFunction::Extract | ScalarFunction::DatePart
        ) {
            let field = call.field.clone().map(Bound::Quoted);
            let operands = field.into_iter().chain(bound).collect();
            return self.bind_field(function, operands, source);
        }
        if function == ScalarFunction::AtZone {
            return self.bind_at_zone(bound, source);
        }
        if function == ScalarFunction::Age {
            return self.bind_age(bound, source);
        }
        if function == ScalarFunction::NullIf {
            return self.bind_null_if(bound, source);
        }
        if function == ScalarFunction::Modulo {
            let Ok([left, right]) = <[Bound; 2]>::try_from(bound) else {
                let error = ExpressionError::WrongOperands { function };
                return Err(expression_error(source, error));
            };
            let (left, right) = self.operands(left, right, source)?;
            let operands = vec![left, right];
            let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
            return self.compound(call, source);
        }
        if let ScalarFunction::Math(function) = function {
            refuse_numerics(function, &bound, source)?;
        }
        let count = bound.len();
        let is_result = |place: &usize| may_be_result(function, *place, count);
        let results = || (0..count).filter(is_result).map(|place| &bound[place]);
        refuse_mixed_chars(results(), source)?;
        let types = results().map(Bound::context);
        let common = common_type(function, types).map_err(|it| expression_error(source, it))?;
        let mut operands = Vec::with_capacity(count);
        for (place, operand) in bound.into_iter().enumerate() {
            operands.push(match is_result(&place) {
                true => self.of_type(operand, common.unwrap_or(ColumnType::Text), source)?,
                false => self.bind_operand(function, (place, count), operand, source)?,
            });
        }
        if count == 1
            && matches!(
                function,
                ScalarFunction::Trim | ScalarFunction::TrimStart | ScalarFunction::TrimEnd
            )
        {
            operands.push(Expression::Literal(Value::Text(" ".into())));
        }
        let expression = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        let bound = self.compound(expression, source)?;
        Ok(match (bound, common) {
            // The limit of a text stays, if all have the same one.
            (Bound::Typed(expression, found), Some(common)) if found.is_some() => {
                Bound::Typed(expression, Some(common))
            }
            (bound, _) => bound,
        })
    }

    /// Binds the operand that a `CASE` compares. Without a type of its own it is a text.
    fn bind_compared(&self, compared: &Expr, depth: usize) -> Result<Bound, SqlError> {
        Ok(match self.bind(compared, depth + 1)? {
            Bound::Quoted(text) => Bound::Typed(
                Expression::Literal(Value::Text(text)),
                Some(ColumnType::Text),
            ),
            Bound::Typed(null, None) => {
                Bound::Typed(converted(null, ColumnType::Text), Some(ColumnType::Text))
            }
            other => other,
        })
    }

    fn bind_null_if(&self, bound: Vec<Bound>, source: &Expr) -> Result<Bound, SqlError> {
        let function = ScalarFunction::NullIf;
        let Ok([left, right]) = <[Bound; 2]>::try_from(bound) else {
            let error = ExpressionError::WrongOperands { function };
            return Err(expression_error(source, error));
        };
        if let Bound::Typed(..) = right {
            refuse_mixed_chars([&left, &right].into_iter(), source)?;
        }
        if are_other_texts(&left, &right) {
            let error = ExpressionError::WrongOperands { function };
            return Err(expression_error(source, error));
        }
        let result = null_if_type(left.context(), right.context());
        let left = match result {
            Some(to) if left.context() != result => {
                Bound::Typed(self.of_type(left, to, source)?, result)
            }
            _ => left,
        };
        let (left, right) = self.operands(left, right, source)?;
        let operands = vec![left, right];
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        Ok(match self.compound(call, source)? {
            Bound::Typed(expression, found) => Bound::Typed(expression, result.or(found)),
            other => other,
        })
    }

    /// Binds an operand that does not become the result.
    pub(super) fn bind_operand(
        &self,
        function: ScalarFunction,
        (place, count): (usize, usize),
        operand: Bound,
        source: &Expr,
    ) -> Result<Expression, SqlError> {
        if matches!(
            function,
            ScalarFunction::Concat
                | ScalarFunction::OctetLength
                | ScalarFunction::Json(_)
                | ScalarFunction::Text(TextFunction::ConcatWs)
        ) && let Bound::Typed(
            _,
            Some(found @ (ColumnType::Char(_) | ColumnType::Array(ElementType::Char(_)))),
        ) = operand
        {
            return Err(SqlError::unsupported(
                format!("{} of a {found}", function.name()),
                "PostgreSQL counts the spaces at its end: convert it to text",
            ));
        }
        // PostgreSQL has several for a value without a type, and prefers none.
        let is_open = operand.context().is_none();
        let needs_type = match function {
            ScalarFunction::Trunc => count == 1,
            ScalarFunction::Json(JsonFunction::ToJson | JsonFunction::ToJsonb)
            | ScalarFunction::Text(TextFunction::ToHex) => true,
            _ => false,
        };
        if needs_type && is_open {
            let error = ExpressionError::WrongOperands { function };
            return Err(expression_error(source, error));
        }
        let is_numeric = operand.context().is_some_and(ColumnType::is_numeric);
        let wanted = match operand_type(function, place, count) {
            Some(ColumnType::Float64) if is_numeric && takes_doubles(function) => {
                Some(ColumnType::Numeric)
            }
            wanted => wanted,
        };
        let Some(wanted) = wanted else {
            let (operand, found) = self.resolve(operand, None, source)?;
            return match (function, found) {
                (
                    ScalarFunction::Concat | ScalarFunction::Text(TextFunction::ConcatWs),
                    Some(from @ ColumnType::TimestampTz),
                ) => self.converted(operand, (from, ColumnType::Text), source),
                _ => Ok(operand),
            };
        };
        let (operand, found) = self.resolve(operand, Some(wanted), source)?;
        let converts = match (wanted, found) {
            (ColumnType::Int32, Some(found)) => found == ColumnType::Int16,
            (ColumnType::Float64, Some(found)) => found.is_number() && found != wanted,
            (ColumnType::Numeric, Some(found)) => found.is_integer(),
            (ColumnType::Interval(_), Some(found)) => matches!(found, ColumnType::Time(_)),
            _ => false,
        };
        match operand {
            operand if !converts => Ok(operand),
            Expression::Literal(value) => {
                Ok(Expression::Literal(literal::cast(&value, wanted, source)?))
            }
            operand => Ok(converted(operand, wanted)),
        }
    }

    /// Returns an operand as a value of this type.
    pub(super) fn of_type(
        &self,
        bound: Bound,
        to: ColumnType,
        source: &Expr,
    ) -> Result<Expression, SqlError> {
        let (expression, found) = match bound {
            Bound::Number(number) if to == ColumnType::Float32 => {
                return Ok(Expression::Literal(literal::quoted(&number, to, "")?));
            }
            bound => self.resolve(bound, Some(to), source)?,
        };
        match found {
            Some(found) if found.of_values() != to.of_values() => {
                self.converted(expression, (found, to), source)
            }
            _ => Ok(expression),
        }
    }
}
