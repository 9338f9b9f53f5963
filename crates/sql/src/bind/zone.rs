//! Conversions of times that depend on the session's time zone.
//!
//! The rules of the zone become a part of the expression, because servers know no session. In UTC
//! the plain casts and comparisons are the same, and indexes serve them. A stored condition cannot
//! depend on a session.

use placement::{
    Array, ArrayDimension, ColumnType, ElementType, TimeInput, TimeZone, Value, is_castable,
};
use protocol::expression::{self, Expression, ExpressionError, FunctionCall, ScalarFunction};
use sqlparser::ast::Expr;

use super::{Bound, Scope, StoredIn, converted, expression_error, literal};
use crate::error::{SqlError, sqlstate};
use crate::zones::{time_input, zone_named};

/// Returns whether a conversion depends on the time zone.
fn depends_on_zone(from: ColumnType, to: ColumnType) -> bool {
    let is_local = |it| {
        matches!(
            it,
            ColumnType::Date | ColumnType::Timestamp | ColumnType::Text
        )
    };
    match (from.of_values(), to.of_values()) {
        (ColumnType::TimestampTz, ColumnType::Time(_)) => true,
        (ColumnType::Array(from), ColumnType::Array(to)) => {
            depends_on_zone(from.column_type(), to.column_type())
        }
        (ColumnType::Array(element), ColumnType::Text)
        | (ColumnType::Text, ColumnType::Array(element)) => element == ElementType::TimestampTz,
        (ColumnType::TimestampTz, other) | (other, ColumnType::TimestampTz) => is_local(other),
        _ => false,
    }
}

/// Returns the call of a function of a time and a zone.
fn call(function: ScalarFunction, time: Expression, zone: &TimeZone<'_>) -> Expression {
    let zone = Expression::Literal(Value::Bytes(zone.encode()));
    let operands = vec![time, zone];
    Expression::Call(Box::new(FunctionCall::new(function, operands)))
}

/// Returns a conversion between times, or between a time and a text, by the rules of a zone.
fn in_zone(
    inner: Expression,
    (from, to): (ColumnType, ColumnType),
    zone: &TimeZone<'_>,
) -> Expression {
    match (from.of_values(), to.of_values()) {
        (ColumnType::TimestampTz, ColumnType::Text) => {
            let text = call(ScalarFunction::MomentText, inner, zone);
            match to {
                ColumnType::Text => text,
                limited => converted(text, limited),
            }
        }
        (ColumnType::TimestampTz, ColumnType::Date | ColumnType::Time(_)) => {
            converted(call(ScalarFunction::AtZone, inner, zone), to)
        }
        (ColumnType::Text, _) => call(ScalarFunction::ReadMoment, inner, zone),
        (ColumnType::Date, _) => {
            let midnight = converted(inner, ColumnType::Timestamp);
            call(ScalarFunction::AtZone, midnight, zone)
        }
        _ => call(ScalarFunction::AtZone, inner, zone),
    }
}

impl Scope<'_> {
    /// Returns the context in which texts are read as times.
    pub(super) fn input(&self) -> TimeInput<'static> {
        time_input(self.zone, self.now_us)
    }

    /// Returns the value of a quoted literal.
    pub(super) fn quoted(
        &self,
        text: &str,
        column_type: ColumnType,
        place: &str,
    ) -> Result<Value, SqlError> {
        literal::quoted_at(text, column_type, place, &self.input())
    }

    /// Returns a constant converted to another type.
    pub(super) fn cast(
        &self,
        value: &Value,
        to: ColumnType,
        source: &Expr,
    ) -> Result<Value, SqlError> {
        match value {
            Value::Text(text) if to.is_time() || to == ColumnType::TIME => {
                self.quoted(text, to, &format!("in {source}"))
            }
            Value::Text(text) if matches!(to, ColumnType::Array(_)) => {
                let value = self.quoted(text, to, &format!("in {source}"))?;
                literal::cast(&value, to, source)
            }
            Value::Array(array) if to == ColumnType::Text => {
                let shown = ColumnType::Array(array.as_ref().element());
                let text = shown.shown_in(value, &self.zone);
                Ok(Value::Text(text.into_owned()))
            }
            Value::Array(array) if let ColumnType::Array(element) = to => {
                self.cast_elements(array, element, source)
            }
            value => match value.column_type() {
                Some(from) if depends_on_zone(from, to) => {
                    let constant = Expression::Literal(value.clone());
                    evaluated(&in_zone(constant, (from, to), &self.zone), source)
                }
                _ => literal::cast(value, to, source),
            },
        }
    }

    fn cast_elements(
        &self,
        array: &Array,
        to: ElementType,
        source: &Expr,
    ) -> Result<Value, SqlError> {
        let array = array.as_ref();
        if !is_castable(array.element().column_type(), to.column_type()) {
            let value = Value::Array(array.to_owned());
            return literal::cast(&value, ColumnType::Array(to), source);
        }
        let elements = array.values();
        let elements = elements.map(|it| self.cast(&it.to_owned(), to.column_type(), source));
        let elements: Vec<Value> = elements.collect::<Result<_, _>>()?;
        let dimensions: Vec<ArrayDimension> = array.dimensions().collect();
        let cast = Array::new(to, &dimensions, elements.iter().map(Value::as_ref));
        Ok(Value::Array(
            cast.expect("the dimensions are those of an array"),
        ))
    }

    /// Returns an expression of a type converted to another one.
    ///
    /// # Errors
    /// The conversion depends on the session's time zone, and the expression is stored.
    pub(super) fn converted(
        &self,
        inner: Expression,
        (from, to): (ColumnType, ColumnType),
        source: &Expr,
    ) -> Result<Expression, SqlError> {
        if let Expression::Literal(value) = &inner {
            return Ok(Expression::Literal(self.cast(value, to, source)?));
        }
        if !depends_on_zone(from, to) {
            return Ok(converted(inner, to));
        }
        self.refuse_if_stored(source)?;
        let has_array = [from, to].map(|it| matches!(it, ColumnType::Array(_)));
        if has_array.contains(&true) && !self.zone.is_utc() {
            return Err(SqlError::unsupported(
                format!("\"{source}\" in a time zone"),
                "the elements depend on the time zone of the session: SET timezone = 'UTC'",
            ));
        }
        Ok(match self.zone.is_utc() {
            true => converted(inner, to),
            false => in_zone(inner, (from, to), &self.zone),
        })
    }

    /// Returns the operands of a comparison, a local time as a moment if the other one is a moment.
    pub(super) fn in_one_zone(
        &self,
        (left, right): (Expression, Expression),
        types: (Option<ColumnType>, Option<ColumnType>),
        source: &Expr,
    ) -> Result<(Expression, Expression), SqlError> {
        let moment = ColumnType::TimestampTz;
        let is_local = |it| matches!(it, ColumnType::Date | ColumnType::Timestamp);
        let (is_left, from) = match types {
            (Some(local), Some(ColumnType::TimestampTz)) if is_local(local) => (true, local),
            (Some(ColumnType::TimestampTz), Some(local)) if is_local(local) => (false, local),
            _ => return Ok((left, right)),
        };
        let is_constant = |it: &Expression| matches!(it, Expression::Literal(_));
        if !is_constant(&left) && !is_constant(&right) {
            self.refuse_if_stored(source)?;
        }
        if self.zone.is_utc() {
            return Ok((left, right));
        }
        Ok(match is_left {
            true => (self.converted(left, (from, moment), source)?, right),
            false => (left, self.converted(right, (from, moment), source)?),
        })
    }

    pub(super) fn refuse_if_stored(&self, source: &Expr) -> Result<(), SqlError> {
        match self.stored_in {
            None => return Ok(()),
            Some(StoredIn::GeneratedColumn) => {
                return Err(SqlError::with_state(
                    sqlstate::INVALID_OBJECT,
                    format!(
                        "generation expression is not immutable: \"{source}\" depends on the time \
                         zone of the session, so name the zone by AT TIME ZONE"
                    ),
                ));
            }
            Some(StoredIn::Check) => {}
        }
        Err(SqlError::with_state(
            sqlstate::UNSUPPORTED,
            format!(
                "\"{source}\" depends on the time zone of the session, and a condition that is \
                 stored cannot: name the zone by AT TIME ZONE"
            ),
        ))
    }

    /// Returns the zone that a constant names.
    fn named_zone(&self, zone: Bound, source: &Expr) -> Result<TimeZone<'static>, SqlError> {
        match self.resolve(zone, Some(ColumnType::Text), source)?.0 {
            Expression::Literal(Value::Interval(ahead)) => {
                let has_days = ahead.months != 0 || ahead.days != 0;
                let zone = TimeZone::fixed(ahead.micros / 1_000_000);
                zone.filter(|_| !has_days).ok_or_else(|| {
                    SqlError::with_state(
                        sqlstate::INVALID_VALUE,
                        "interval time zone must not include months or days, and be a zone's",
                    )
                })
            }
            Expression::Literal(Value::Text(name)) => zone_named(&name).ok_or_else(|| {
                SqlError::with_state(
                    sqlstate::INVALID_VALUE,
                    format!("time zone \"{name}\" not recognized"),
                )
            }),
            _ => Err(SqlError::unsupported(
                format!("the zone of \"{source}\""),
                "write the name of a time zone as a constant",
            )),
        }
    }

    /// Binds a function of the name of a field, a time, and perhaps a zone. A moment has the fields
    /// of its local time in that zone, or else in the session's.
    pub(super) fn bind_field(
        &self,
        function: ScalarFunction,
        operands: Vec<Bound>,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        let wrong = || expression_error(source, ExpressionError::WrongOperands { function });
        let mut operands = operands.into_iter();
        let (field, time) = (operands.next(), operands.next());
        let (Some(field), Some(time)) = (field, time) else {
            return Err(wrong());
        };
        let named = operands.next().map(|it| self.named_zone(it, source));
        let named = named.transpose()?;
        let takes_zone = function == ScalarFunction::DateTrunc;
        if operands.next().is_some() || named.is_some() && !takes_zone {
            return Err(wrong());
        }
        // In PostgreSQL a time without a type could be an interval, too.
        let found = match (&time, named) {
            (Bound::Quoted(_), None) => return Err(wrong()),
            _ => time.context(),
        };
        let (field, _) = self.resolve(field, Some(ColumnType::Text), source)?;
        let moment = ColumnType::TimestampTz;
        let (time, found) = match (self.resolve(time, Some(moment), source)?.0, found) {
            (time, Some(from @ ColumnType::Date)) if takes_zone => {
                (self.converted(time, (from, moment), source)?, Some(moment))
            }
            (time, found) if takes_zone && named.is_none() => {
                self.as_interval(time, found, source)?
            }
            (time, found) => (time, found),
        };
        if named.is_some() && found.is_some_and(|it| it != moment) {
            return Err(wrong());
        }
        let mut operands = vec![field, time];
        if found == Some(moment) || named.is_some() {
            if named.is_none() && !matches!(operands[1], Expression::Literal(_)) {
                self.refuse_if_stored(source)?;
            }
            let zone = named.unwrap_or(self.zone);
            if !zone.is_utc() {
                operands.push(Expression::Literal(Value::Bytes(zone.encode())));
            }
        }
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        self.compound(call, source)
    }

    /// Binds `timezone(zone, time)`, which `time AT TIME ZONE zone` is, too.
    pub(super) fn bind_at_zone(
        &self,
        operands: Vec<Bound>,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        let function = ScalarFunction::AtZone;
        let wrong = || expression_error(source, ExpressionError::WrongOperands { function });
        let Ok([zone, time]) = <[Bound; 2]>::try_from(operands) else {
            return Err(wrong());
        };
        let zone = self.named_zone(zone, source)?;
        let moment = ColumnType::TimestampTz;
        let (time, found) = self.resolve(time, Some(moment), source)?;
        let time = match found {
            // PostgreSQL prefers the moment of its midnight.
            Some(from @ ColumnType::Date) => self.converted(time, (from, moment), source)?,
            _ => time,
        };
        self.compound(call(function, time, &zone), source)
    }
}

/// Returns the value of an expression without columns.
fn evaluated(expression: &Expression, source: &Expr) -> Result<Value, SqlError> {
    let value = expression::evaluate(expression, &Vec::new(), None);
    value.map_err(|error| expression_error(source, error))
}
