//! Binds literals, operators and functions of intervals and times of the day.
//!
//! A time of the day stands for an interval where PostgreSQL converts it. Days and months that are
//! added to a moment are those of the session's time zone, whose rules become a part of the
//! expression.

use std::sync::LazyLock;

use placement::{ColumnType, Interval, IntervalError, IntervalField, Value, ValueError};
use protocol::expression::{
    BinaryOperator, Expression, ExpressionError, FunctionCall, ScalarFunction, UnaryOperator,
};
use sqlparser::ast::{self, Expr};

use super::{Bound, Scope, converted, expression_error};
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;

const INTERVAL: ColumnType = ColumnType::INTERVAL;

/// The names of the operands of `make_interval`, in their order.
const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// The operand that `make_interval` has where none is written.
static ZERO: LazyLock<Expr> =
    LazyLock::new(|| Expr::value(ast::Value::Number("0".to_owned(), false)));

/// Returns the operands of a call of `make_interval`, whose arguments may be named or left out;
/// none if the call has other ones.
pub(super) fn interval_parts(function: &ast::Function) -> Option<Vec<&Expr>> {
    let ast::FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let mut parts: [Option<&Expr>; 7] = [None; 7];
    for (position, argument) in list.args.iter().enumerate() {
        let (place, value) = match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => (position, value),
            ast::FunctionArg::ExprNamed {
                name: Expr::Identifier(named),
                arg: ast::FunctionArgExpr::Expr(value),
                ..
            } => {
                let named = name(named);
                (PARTS.iter().position(|it| *it == named)?, value)
            }
            _ => return None,
        };
        if parts.get_mut(place)?.replace(value).is_some() {
            return None;
        }
    }
    Some(parts.into_iter().map(|it| it.unwrap_or(&ZERO)).collect())
}

/// Returns the types of two operands, in which a time of the day is an interval where PostgreSQL
/// converts it.
pub(crate) fn times_as_intervals(
    operator: BinaryOperator,
    types: (Option<ColumnType>, Option<ColumnType>),
) -> (Option<ColumnType>, Option<ColumnType>) {
    let is_time = |it: Option<ColumnType>| matches!(it, Some(ColumnType::Time(_)));
    let is_interval = |it: Option<ColumnType>| matches!(it, Some(ColumnType::Interval(_)));
    let is_moment = |it: Option<ColumnType>| {
        matches!(it, Some(ColumnType::Timestamp | ColumnType::TimestampTz))
    };
    let (left, right) = types;
    let (converts_left, converts_right) = match operator {
        BinaryOperator::Multiply | BinaryOperator::Divide => (true, true),
        BinaryOperator::Add => (is_moment(right), is_moment(left)),
        BinaryOperator::Subtract => {
            let is_day = left == Some(ColumnType::Date);
            (false, is_interval(left) || is_moment(left) || is_day)
        }
        operator if operator.is_comparison() => (is_interval(right), is_interval(left)),
        _ => (false, false),
    };
    let of = |it, converts| match is_time(it) && converts {
        true => Some(INTERVAL),
        false => it,
    };
    (of(left, converts_left), of(right, converts_right))
}

/// Returns the type that an operand without a type gets beside another one, if it is not that of
/// the other one.
pub(crate) fn type_beside(operator: BinaryOperator, other: ColumnType) -> Option<ColumnType> {
    match (operator, other.of_values()) {
        (
            BinaryOperator::Add,
            ColumnType::Timestamp | ColumnType::TimestampTz | ColumnType::Time(_),
        ) => Some(INTERVAL),
        (BinaryOperator::Multiply | BinaryOperator::Divide, ColumnType::Interval(_)) => {
            Some(ColumnType::Float64)
        }
        _ => None,
    }
}

fn field(written: &ast::DateTimeField) -> Option<IntervalField> {
    Some(match written {
        ast::DateTimeField::Year | ast::DateTimeField::Years => IntervalField::Year,
        ast::DateTimeField::Month | ast::DateTimeField::Months => IntervalField::Month,
        ast::DateTimeField::Day | ast::DateTimeField::Days => IntervalField::Day,
        ast::DateTimeField::Hour | ast::DateTimeField::Hours => IntervalField::Hour,
        ast::DateTimeField::Minute | ast::DateTimeField::Minutes => IntervalField::Minute,
        ast::DateTimeField::Second | ast::DateTimeField::Seconds => IntervalField::Second,
        _ => return None,
    })
}

/// Returns whether PostgreSQL has these two fields in one qualifier.
fn is_range(first: IntervalField, last: IntervalField) -> bool {
    use IntervalField::{Day, Hour, Minute, Month, Second, Year};
    matches!(
        (first, last),
        (Year, Month) | (Day, Hour | Minute | Second) | (Hour, Minute | Second) | (Minute, Second)
    )
}

impl Scope<'_> {
    /// Binds a literal such as `INTERVAL '1' DAY`.
    pub(super) fn bind_interval(
        &self,
        literal: &ast::Interval,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        let refused = || {
            SqlError::unsupported(
                format!("\"{source}\""),
                "write INTERVAL, a text in quotes and perhaps the fields, as INTERVAL '1 day'",
            )
        };
        let text = match &*literal.value {
            Expr::Value(value) => value.value.clone().into_string().ok_or_else(refused)?,
            _ => return Err(refused()),
        };
        let fields = match (&literal.leading_field, &literal.last_field) {
            (None, None) => None,
            (Some(one), None) => field(one).map(|it| (it, it)),
            (Some(first), Some(last)) => {
                let pair = field(first).zip(field(last));
                pair.filter(|(first, last)| is_range(*first, *last))
            }
            (None, Some(_)) => return Err(refused()),
        };
        if literal.leading_field.is_some() && fields.is_none() {
            return Err(refused());
        }
        let is_second = matches!(fields, Some((IntervalField::Second, IntervalField::Second)));
        let precision = match (
            literal.leading_precision,
            literal.fractional_seconds_precision,
        ) {
            (None, digits) => digits,
            (digits, None) if is_second => digits,
            _ => return Err(refused()),
        };
        let to = match precision.map(u8::try_from) {
            None => INTERVAL,
            Some(Ok(digits)) => ColumnType::Interval(digits)
                .if_valid()
                .ok_or_else(refused)?,
            Some(Err(_)) => return Err(refused()),
        };
        let read = match fields {
            Some(fields) => Interval::parse_fields(&text, fields),
            None => Interval::parse(&text),
        };
        let value = read.map_err(|error| invalid(error, text))?;
        let value = self.cast(&Value::Interval(value), to, source)?;
        Ok(Bound::Typed(Expression::Literal(value), Some(to)))
    }

    /// Gives operands that have no type the one that an operator on times needs, and converts times
    /// of the day to intervals.
    pub(super) fn time_operands(
        &self,
        operator: BinaryOperator,
        (left, right): (Bound, Bound),
        source: &Expr,
    ) -> Result<(Bound, Bound), SqlError> {
        let typed = |bound: Bound, other: Option<ColumnType>| -> Result<Bound, SqlError> {
            let wanted = other.and_then(|it| type_beside(operator, it));
            match (bound, wanted) {
                (bound @ Bound::Quoted(_), Some(wanted)) => {
                    let (bound, found) = self.resolve(bound, Some(wanted), source)?;
                    Ok(Bound::Typed(bound, found))
                }
                (bound, _) => Ok(bound),
            }
        };
        let (of_left, of_right) = (left.context(), right.context());
        let (left, right) = (typed(left, of_right)?, typed(right, of_left)?);
        let types = (left.context(), right.context());
        let wanted = times_as_intervals(operator, types);
        let as_interval = |bound: Bound, to: Option<ColumnType>| match bound {
            Bound::Typed(inner, Some(found)) if Some(found) != to => {
                let inner = self.converted(inner, (found, INTERVAL), source)?;
                Ok(Bound::Typed(inner, to))
            }
            bound => Ok::<Bound, SqlError>(bound),
        };
        Ok((as_interval(left, wanted.0)?, as_interval(right, wanted.1)?))
    }

    /// Returns a moment an interval later or earlier, in the zone of the session; none if the
    /// operands are others, or the zone does not count.
    ///
    /// # Errors
    /// The expression is stored.
    pub(super) fn bind_later(
        &self,
        operator: BinaryOperator,
        (left, right): (&Expression, &Expression),
        types: (Option<ColumnType>, Option<ColumnType>),
        source: &Expr,
    ) -> Result<Option<Bound>, SqlError> {
        let is_moment = |it| it == Some(ColumnType::TimestampTz);
        let is_interval = |it| matches!(it, Some(ColumnType::Interval(_)));
        let (at, by) = match operator {
            BinaryOperator::Add if is_interval(types.0) && is_moment(types.1) => (right, left),
            BinaryOperator::Add | BinaryOperator::Subtract
                if is_moment(types.0) && is_interval(types.1) =>
            {
                (left, right)
            }
            _ => return Ok(None),
        };
        let has_days = match by {
            Expression::Literal(Value::Interval(by)) => by.months != 0 || by.days != 0,
            Expression::Literal(_) => false,
            _ => true,
        };
        if !has_days {
            return Ok(None);
        }
        if !matches!(at, Expression::Literal(_)) {
            self.refuse_if_stored(source)?;
        }
        if self.zone.is_utc() {
            return Ok(None);
        }
        let by = match operator {
            BinaryOperator::Subtract => {
                let negated = Expression::Unary(UnaryOperator::Negate, Box::new(by.clone()));
                let negated = self.compound(negated, source)?;
                self.resolve(negated, None, source)?.0
            }
            _ => by.clone(),
        };
        let zone = Expression::Literal(Value::Bytes(self.zone.encode()));
        let operands = vec![at.clone(), by, zone];
        let function = ScalarFunction::MomentLater;
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        self.compound(call, source).map(Some)
    }

    /// Binds `age` of one or two times; of one, it is the age at the begin of the present day.
    pub(super) fn bind_age(&self, operands: Vec<Bound>, source: &Expr) -> Result<Bound, SqlError> {
        let function = ScalarFunction::Age;
        let wrong = || expression_error(source, ExpressionError::WrongOperands { function });
        let mut operands = operands;
        let contexts: Vec<_> = operands.iter().map(Bound::context).collect();
        let moment = ColumnType::TimestampTz;
        let local = ColumnType::Timestamp;
        let has = |wanted| contexts.contains(&Some(wanted));
        let to = match has(local) && !has(moment) {
            true => local,
            false => moment,
        };
        match operands.len() {
            1 if contexts[0].is_some() => {
                let Some(now_us) = self.now_us else {
                    return Err(wrong());
                };
                let now = Value::TimestampTz(now_us);
                let today = self.cast(&now, ColumnType::Date, source)?;
                let today = Expression::Literal(today);
                operands.insert(0, Bound::Typed(today, Some(ColumnType::Date)));
            }
            2 => {}
            _ => return Err(wrong()),
        }
        let mut bound = Vec::with_capacity(3);
        for operand in operands {
            let (operand, found) = self.resolve(operand, Some(to), source)?;
            bound.push(match found {
                Some(found) if found != to && found.is_time() => {
                    self.converted(operand, (found, to), source)?
                }
                Some(found) if found != to => return Err(wrong()),
                _ => operand,
            });
        }
        if to == moment {
            if !bound.iter().all(|it| matches!(it, Expression::Literal(_))) {
                self.refuse_if_stored(source)?;
            }
            bound.push(Expression::Literal(Value::Bytes(self.zone.encode())));
        }
        let operands = bound;
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        self.compound(call, source)
    }

    /// Returns an operand as an interval, if it is a time of the day.
    pub(super) fn as_interval(
        &self,
        operand: Expression,
        found: Option<ColumnType>,
        source: &Expr,
    ) -> Result<(Expression, Option<ColumnType>), SqlError> {
        match found {
            Some(from @ ColumnType::Time(_)) => {
                let operand = match operand {
                    operand @ Expression::Literal(_) => {
                        self.converted(operand, (from, INTERVAL), source)?
                    }
                    operand => converted(operand, INTERVAL),
                };
                Ok((operand, Some(INTERVAL)))
            }
            found => Ok((operand, found)),
        }
    }
}

/// Returns the error of a text that is no interval.
fn invalid(error: IntervalError, text: String) -> SqlError {
    if error == IntervalError::Range {
        return SqlError::with_state(sqlstate::DATETIME_RANGE, error.to_string());
    }
    let column_type = INTERVAL;
    SqlError::Literal {
        place: String::new(),
        error: ValueError { column_type, text },
    }
}
