//! Operators and functions of intervals and times of the day, with the results and errors of
//! PostgreSQL.
//!
//! Days and months of a moment are those of UTC here. [`ScalarFunction::MomentLater`] has a zone.

use placement::{
    ColumnType, Interval, TimeZone, Value, ValueRef, age, moment_of, moved_local, moved_moment,
    numeric_of, round_half_even, time_after,
};

use super::{BinaryOperator, ExpressionError, ScalarFunction};

const INTERVAL: Option<ColumnType> = Some(ColumnType::INTERVAL);
const TIME: Option<ColumnType> = Some(ColumnType::TIME);
const DATE: Option<ColumnType> = Some(ColumnType::Date);
const TIMESTAMP: Option<ColumnType> = Some(ColumnType::Timestamp);
const MICROS_PER_SECOND: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * MICROS_PER_SECOND;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// Returns the type of the results of an operator on intervals and times; none for other operands.
pub(super) fn operator_type(
    operator: BinaryOperator,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Option<ColumnType> {
    let is_moment = |it: Option<ColumnType>| {
        matches!(it, Some(ColumnType::Timestamp | ColumnType::TimestampTz))
    };
    let is_number = |it: Option<ColumnType>| it.is_none_or(ColumnType::is_number);
    match operator {
        BinaryOperator::Add => match (left, right) {
            (INTERVAL, INTERVAL | None) | (None, INTERVAL) => INTERVAL,
            (DATE, INTERVAL | TIME) | (INTERVAL | TIME, DATE) => TIMESTAMP,
            (TIME, INTERVAL | None) | (INTERVAL | None, TIME) => TIME,
            (moment, INTERVAL | None) if is_moment(moment) => moment,
            (INTERVAL | None, moment) if is_moment(moment) => moment,
            _ => None,
        },
        BinaryOperator::Subtract => match (left, right) {
            (INTERVAL, INTERVAL | None) | (None, INTERVAL) => INTERVAL,
            (TIME, TIME | None) | (None, TIME) => INTERVAL,
            (TIME, INTERVAL) => TIME,
            (DATE, INTERVAL) => TIMESTAMP,
            (moment, INTERVAL) if is_moment(moment) => moment,
            (moment, other) if is_moment(moment) => {
                let is_time = other.is_none_or(ColumnType::is_time);
                INTERVAL.filter(|_| is_time)
            }
            (DATE | None, moment) if is_moment(moment) => INTERVAL,
            _ => None,
        },
        BinaryOperator::Multiply => match (left, right) {
            (INTERVAL, number) | (number, INTERVAL) if is_number(number) => INTERVAL,
            _ => None,
        },
        BinaryOperator::Divide if left == INTERVAL && is_number(right) => INTERVAL,
        _ => None,
    }
}

/// Returns the result of an operator on intervals and times, none of which is NULL; none for other
/// operands.
pub(super) fn operator(
    operator: BinaryOperator,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> Result<Option<Value>, ExpressionError> {
    let types = (left.column_type(), right.column_type());
    if operator_type(operator, types.0, types.1).is_none() {
        return Ok(None);
    }
    let interval = |found: Option<Interval>| found.map(Value::Interval);
    let result = match (operator, left, right) {
        (BinaryOperator::Add, ValueRef::Interval(left), ValueRef::Interval(right)) => {
            interval(left.plus(right))
        }
        (BinaryOperator::Subtract, ValueRef::Interval(left), ValueRef::Interval(right)) => {
            interval(left.minus(right))
        }
        (BinaryOperator::Multiply, ValueRef::Interval(value), number)
        | (BinaryOperator::Multiply, number, ValueRef::Interval(value)) => {
            interval(value.times(double(number)?))
        }
        (BinaryOperator::Divide, ValueRef::Interval(value), number) => {
            let divisor = double(number)?;
            if divisor == 0.0 {
                return Err(ExpressionError::DivisionByZero);
            }
            interval(value.divided_by(divisor))
        }
        (BinaryOperator::Add, ValueRef::Interval(by), time)
        | (BinaryOperator::Add, time, ValueRef::Interval(by)) => later(time, by)?,
        (BinaryOperator::Subtract, time, ValueRef::Interval(by)) => match time {
            ValueRef::Time(at) => {
                let back = Interval {
                    micros: by.micros.wrapping_neg(),
                    ..Interval::default()
                };
                Some(Value::Time(time_after(at, back)))
            }
            time => match by.negated() {
                Some(back) => later(time, back)?,
                None => None,
            },
        },
        (BinaryOperator::Add, ValueRef::Date(day), ValueRef::Time(at))
        | (BinaryOperator::Add, ValueRef::Time(at), ValueRef::Date(day)) => {
            let midnight = moment_of(day).map_err(|_| ExpressionError::TimeRange)?;
            let by = Interval {
                micros: at,
                ..Interval::default()
            };
            moved_local(midnight, by).map(Value::Timestamp)
        }
        (BinaryOperator::Subtract, ValueRef::Time(left), ValueRef::Time(right)) => {
            let micros = left.checked_sub(right);
            interval(micros.map(of_micros))
        }
        (BinaryOperator::Subtract, left, right) => interval(between(left, right)?),
        _ => None,
    };
    result.map(Some).ok_or(ExpressionError::TimeRange)
}

fn of_micros(micros: i64) -> Interval {
    Interval {
        micros,
        ..Interval::default()
    }
}

/// Returns a time, a day or a moment an interval later; none beyond its range.
fn later(time: ValueRef<'_>, by: Interval) -> Result<Option<Value>, ExpressionError> {
    Ok(match time {
        ValueRef::Time(at) => Some(Value::Time(time_after(at, by))),
        ValueRef::TimestampTz(at) => moved_local(at, by).map(Value::TimestampTz),
        time => moved_local(local(time)?, by).map(Value::Timestamp),
    })
}

/// Returns the days and microseconds between two days or moments; none beyond the range.
fn between(left: ValueRef<'_>, right: ValueRef<'_>) -> Result<Option<Interval>, ExpressionError> {
    let (left, right) = (local(left)?, local(right)?);
    let is_infinite = |at: i64| matches!(at, i64::MIN | i64::MAX);
    if is_infinite(left) || is_infinite(right) {
        return Ok(None);
    }
    let micros = left.checked_sub(right).map(of_micros);
    Ok(micros.and_then(Interval::justified_hours))
}

fn local(time: ValueRef<'_>) -> Result<i64, ExpressionError> {
    match time {
        ValueRef::Timestamp(at) | ValueRef::TimestampTz(at) => Ok(at),
        ValueRef::Date(days) => moment_of(days).map_err(|_| ExpressionError::TimeRange),
        _ => Err(ExpressionError::TimeRange),
    }
}

fn double(number: ValueRef<'_>) -> Result<f64, ExpressionError> {
    if let Some(float) = number.float() {
        return Ok(float);
    }
    let double = numeric_of(number).and_then(|it| it.as_ref().to_double());
    double.ok_or(ExpressionError::Overflow)
}

/// Returns whether this module has a function.
pub(super) fn has(function: ScalarFunction) -> bool {
    matches!(
        function,
        ScalarFunction::MomentLater
            | ScalarFunction::Age
            | ScalarFunction::MakeInterval
            | ScalarFunction::MakeTime
            | ScalarFunction::JustifyDays
            | ScalarFunction::JustifyHours
            | ScalarFunction::JustifyInterval
    )
}

/// Returns the type of a function's results; none if it does not take such operands.
pub(super) fn function_type(
    function: ScalarFunction,
    operands: &[Option<ColumnType>],
) -> Option<ColumnType> {
    const MOMENT: ColumnType = ColumnType::TimestampTz;
    const NUMBERS: [ColumnType; 7] = [
        ColumnType::Int32,
        ColumnType::Int32,
        ColumnType::Int32,
        ColumnType::Int32,
        ColumnType::Int32,
        ColumnType::Int32,
        ColumnType::Float64,
    ];
    let takes = |wanted: &[ColumnType]| {
        let mut pairs = operands.iter().zip(wanted);
        let fits = pairs.all(|(found, wanted)| found.is_none_or(|it| it == *wanted));
        operands.len() == wanted.len() && fits
    };
    let (fits, result) = match function {
        ScalarFunction::MomentLater => {
            let fits = takes(&[MOMENT, ColumnType::INTERVAL, ColumnType::Bytes]);
            (fits, MOMENT)
        }
        ScalarFunction::Age => {
            let local = [ColumnType::Timestamp; 2];
            let fits = takes(&local) || takes(&[MOMENT, MOMENT, ColumnType::Bytes]);
            (fits, ColumnType::INTERVAL)
        }
        ScalarFunction::MakeInterval => (takes(&NUMBERS), ColumnType::INTERVAL),
        ScalarFunction::MakeTime => (takes(&NUMBERS[4..]), ColumnType::TIME),
        _ => (takes(&[ColumnType::INTERVAL]), ColumnType::INTERVAL),
    };
    fits.then_some(result)
}

/// Returns the value of a function, none of whose operands is NULL.
pub(super) fn call(
    function: ScalarFunction,
    values: &[ValueRef<'_>],
) -> Result<Value, ExpressionError> {
    let range = ExpressionError::TimeRange;
    let zone = |bytes| TimeZone::decode(bytes).ok_or(ExpressionError::NoZone);
    match (function, values) {
        (
            ScalarFunction::MomentLater,
            [
                ValueRef::TimestampTz(at),
                ValueRef::Interval(by),
                ValueRef::Bytes(rules),
            ],
        ) => {
            let moved = moved_moment(*at, *by, &zone(rules)?);
            moved.map(Value::TimestampTz).ok_or(range)
        }
        (ScalarFunction::Age, [ValueRef::Timestamp(to), ValueRef::Timestamp(from)]) => {
            age_of((*to, *from), (*to, *from))
        }
        (
            ScalarFunction::Age,
            [
                ValueRef::TimestampTz(to),
                ValueRef::TimestampTz(from),
                ValueRef::Bytes(rules),
            ],
        ) => {
            let zone = zone(rules)?;
            let local = |at| zone.local(at).ok_or(ExpressionError::TimeRange);
            age_of((*to, *from), (local(*to)?, local(*from)?))
        }
        (ScalarFunction::MakeInterval, values) => made(values).map(Value::Interval),
        (
            ScalarFunction::MakeTime,
            [
                ValueRef::Int32(hour),
                ValueRef::Int32(minute),
                ValueRef::Float64(second),
            ],
        ) => {
            let second = round_half_even(second * MICROS_PER_SECOND as f64);
            let is_valid = (0..=24).contains(hour)
                && (0..60).contains(minute)
                && (0.0..=MINUTE_US as f64).contains(&second);
            let whole = i64::from(*hour) * HOUR_US + i64::from(*minute) * MINUTE_US;
            let micros = whole.saturating_add(second as i64);
            match is_valid && micros <= DAY_US {
                true => Ok(Value::Time(micros)),
                false => Err(range),
            }
        }
        (function, [ValueRef::Interval(value)]) => {
            let found = match function {
                ScalarFunction::JustifyDays => value.justified_days(),
                ScalarFunction::JustifyHours => value.justified_hours(),
                _ => value.justified(),
            };
            found.map(Value::Interval).ok_or(range)
        }
        _ => Err(ExpressionError::WrongOperands { function }),
    }
}

/// Returns the age between two moments, by their local times.
fn age_of(moments: (i64, i64), (to, from): (i64, i64)) -> Result<Value, ExpressionError> {
    let is_infinite = |at: i64| matches!(at, i64::MIN | i64::MAX);
    if is_infinite(to) || is_infinite(from) {
        return Err(ExpressionError::TimeRange);
    }
    Ok(Value::Interval(age(to, from, moments.0 < moments.1)))
}

/// Returns the interval of years, months, weeks, days, hours, minutes and seconds.
fn made(values: &[ValueRef<'_>]) -> Result<Interval, ExpressionError> {
    let wrong = ExpressionError::WrongOperands {
        function: ScalarFunction::MakeInterval,
    };
    let [numbers @ .., ValueRef::Float64(seconds)] = values else {
        return Err(wrong);
    };
    let numbers = numbers.iter().filter_map(|it| it.integer());
    let mut counts = [0_i64; 6];
    for (count, number) in counts.iter_mut().zip(numbers) {
        *count = number;
    }
    let [years, months, weeks, days, hours, minutes] = counts;
    let range = ExpressionError::TimeRange;
    let narrow = |it: i64| i32::try_from(it).map_err(|_| ExpressionError::TimeRange);
    // 2^63 is a double, and no integer of 64 bits.
    const END: f64 = 9_223_372_036_854_775_808.0;
    let micros = round_half_even(seconds * MICROS_PER_SECOND as f64);
    if !(-END..END).contains(&micros) {
        return Err(range);
    }
    let whole = hours * HOUR_US + minutes * MINUTE_US;
    Ok(Interval {
        months: narrow(12 * years + months)?,
        days: narrow(7 * weeks + days)?,
        micros: whole.checked_add(micros as i64).ok_or(range)?,
    })
}
