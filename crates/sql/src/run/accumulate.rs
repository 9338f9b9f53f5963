//! The state of an aggregate over the rows of a group so far.

use std::collections::BTreeSet;

use placement::{ArrayBuilder, ArrayDimension, ColumnType, ElementType, Interval, Numeric, Value};
use protocol::expression::ExpressionError;

use super::order::order_of_keys;
use crate::error::{SqlError, sqlstate};
use crate::plan::{AggregateCall, SortKey};
use crate::statement::AggregateFunction;

/// The most bytes of a text that an aggregate makes.
const JOINED_BYTES_MAX: usize = 16 << 20;

/// An aggregate over the rows so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AggregateState {
    /// The number of values or rows.
    Count(u64),
    /// The smallest or largest value, or the truth of all or some; NULL if there is no value yet.
    Last(Value),
    /// The sum of integers, and their number.
    Integers(i128, u64),
    /// The sum of numbers of 32 bits, as PostgreSQL adds them; none if there is none yet.
    Singles(Option<f32>),
    /// The sum of doubles, and their number.
    Doubles(f64, u64),
    /// The sum of decimal numbers, and their number.
    Numerics(Numeric, u64),
    /// The sum of intervals, and their number.
    Intervals(Interval, u64),
    /// Values that count once each.
    Distinct(BTreeSet<Value>),
    /// All values, each with those by which it is sorted.
    Elements(Vec<(Vec<Value>, Value)>),
}

impl AggregateState {
    /// Returns the state of no rows.
    pub fn of_none(call: &AggregateCall) -> AggregateState {
        match call.distinct {
            true => AggregateState::Distinct(BTreeSet::new()),
            false => AggregateState::of_no_values(call),
        }
    }

    /// Returns the state of no values, without regard to `DISTINCT`.
    fn of_no_values(call: &AggregateCall) -> AggregateState {
        match (call.function, call.argument_type) {
            (AggregateFunction::Count, _) => AggregateState::Count(0),
            (AggregateFunction::ArrayAgg | AggregateFunction::StringAgg, _) => {
                AggregateState::Elements(Vec::new())
            }
            (AggregateFunction::Sum, Some(ColumnType::Float32)) => AggregateState::Singles(None),
            (AggregateFunction::Sum | AggregateFunction::Avg, Some(found)) if found.is_float() => {
                AggregateState::Doubles(0.0, 0)
            }
            (AggregateFunction::Sum | AggregateFunction::Avg, Some(found))
                if found.is_numeric() =>
            {
                AggregateState::Numerics(Numeric::from(0), 0)
            }
            (AggregateFunction::Sum | AggregateFunction::Avg, Some(ColumnType::Interval(_))) => {
                AggregateState::Intervals(Interval::default(), 0)
            }
            (AggregateFunction::Sum | AggregateFunction::Avg, _) => AggregateState::Integers(0, 0),
            _ => AggregateState::Last(Value::Null),
        }
    }

    /// Adds the value of a row, and those by which it is sorted; no value if the aggregate counts
    /// rows. Returns the number of further values that are held.
    pub fn add(
        &mut self,
        call: &AggregateCall,
        (value, keys): (Option<Value>, Vec<Value>),
    ) -> Result<usize, SqlError> {
        let Some(value) = value else {
            self.add_count(1);
            return Ok(0);
        };
        if value.is_null() && call.function != AggregateFunction::ArrayAgg {
            return Ok(0);
        }
        match self {
            AggregateState::Count(_) => self.add_count(1),
            AggregateState::Last(last) => combine(call.function, last, value),
            AggregateState::Integers(sum, count) => {
                let number = value
                    .as_ref()
                    .integer()
                    .expect("the planner checked the type");
                *sum += i128::from(number);
                *count += 1;
            }
            AggregateState::Singles(sum) => {
                let Value::Float32(number) = value else {
                    unreachable!("the planner checked the type")
                };
                add_single(call, sum, number)?;
            }
            AggregateState::Doubles(sum, count) => {
                let number = value
                    .as_ref()
                    .float()
                    .expect("the planner checked the type");
                *sum = added(call, *sum, number)?;
                *count += 1;
            }
            AggregateState::Numerics(sum, count) => {
                let Value::Numeric(number) = value else {
                    unreachable!("the planner checked the type")
                };
                *sum = added_numeric(call, sum, &number)?;
                *count += 1;
            }
            AggregateState::Intervals(sum, count) => {
                let Value::Interval(value) = value else {
                    unreachable!("the planner checked the type")
                };
                *sum = within(call, sum.plus(value))?;
                *count += 1;
            }
            AggregateState::Distinct(values) => return Ok(usize::from(values.insert(value))),
            AggregateState::Elements(elements) => {
                elements.push((keys, value));
                return Ok(1);
            }
        }
        Ok(0)
    }

    /// Adds a number of rows that partitions counted.
    pub fn add_count(&mut self, more: u64) {
        let AggregateState::Count(count) = self else {
            unreachable!("only a count is of rows")
        };
        *count = count.saturating_add(more);
    }

    /// Adds the state of other rows. Returns the number of further values that are held.
    pub fn merge(
        &mut self,
        call: &AggregateCall,
        other: AggregateState,
    ) -> Result<usize, SqlError> {
        match (self, other) {
            (AggregateState::Count(count), AggregateState::Count(more)) => {
                *count = count.saturating_add(more);
            }
            (AggregateState::Last(last), AggregateState::Last(other)) => {
                if !other.is_null() {
                    combine(call.function, last, other);
                }
            }
            (AggregateState::Integers(sum, count), AggregateState::Integers(other, more)) => {
                *sum += other;
                *count += more;
            }
            (AggregateState::Singles(sum), AggregateState::Singles(other)) => {
                if let Some(other) = other {
                    add_single(call, sum, other)?;
                }
            }
            (AggregateState::Doubles(sum, count), AggregateState::Doubles(other, more)) => {
                *sum = added(call, *sum, other)?;
                *count += more;
            }
            (AggregateState::Numerics(sum, count), AggregateState::Numerics(other, more)) => {
                *sum = added_numeric(call, sum, &other)?;
                *count += more;
            }
            (AggregateState::Intervals(sum, count), AggregateState::Intervals(other, more)) => {
                *sum = within(call, sum.plus(other))?;
                *count += more;
            }
            (AggregateState::Distinct(values), AggregateState::Distinct(others)) => {
                let before = values.len();
                values.extend(others);
                return Ok(values.len() - before);
            }
            (AggregateState::Elements(elements), AggregateState::Elements(others)) => {
                let count = others.len();
                elements.extend(others);
                return Ok(count);
            }
            (state, other) => unreachable!("{state:?} and {other:?} are of one aggregate"),
        }
        Ok(0)
    }

    /// Returns the number of values that are held.
    pub fn held(&self) -> usize {
        match self {
            AggregateState::Distinct(values) => values.len(),
            AggregateState::Elements(elements) => elements.len(),
            _ => 0,
        }
    }
}

/// Returns the value of an aggregate over all rows of its group.
pub(super) fn result(call: &AggregateCall, state: AggregateState) -> Result<Value, SqlError> {
    Ok(match state {
        AggregateState::Count(count) => Value::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
        AggregateState::Last(last) => last,
        AggregateState::Elements(elements) => {
            let elements = sorted(&call.order, elements);
            match call.function {
                AggregateFunction::StringAgg => joined(&call.separator, &elements)?,
                _ => array_of(call, &elements)?,
            }
        }
        AggregateState::Integers(_, 0)
        | AggregateState::Doubles(_, 0)
        | AggregateState::Numerics(_, 0)
        | AggregateState::Intervals(_, 0)
        | AggregateState::Singles(None) => Value::Null,
        AggregateState::Integers(sum, count)
            if call.function == AggregateFunction::Avg
                || call.argument_type == Some(ColumnType::Int64) =>
        {
            let sum = Numeric::from_wide(sum);
            Value::Numeric(of_numerics(call, sum, count)?)
        }
        AggregateState::Numerics(sum, count) => Value::Numeric(of_numerics(call, sum, count)?),
        AggregateState::Intervals(sum, count) => Value::Interval(match call.function {
            AggregateFunction::Avg => within(call, sum.divided_by(count as f64))?,
            _ => sum,
        }),
        AggregateState::Integers(sum, _) => {
            let sum = i64::try_from(sum).map_err(|_| overflow(call))?;
            Value::Int64(sum)
        }
        AggregateState::Singles(Some(sum)) => Value::Float32(sum),
        AggregateState::Doubles(sum, count) => Value::Float64(match call.function {
            AggregateFunction::Avg => sum / count as f64,
            _ => sum,
        }),
        AggregateState::Distinct(values) => {
            let mut state = AggregateState::of_no_values(call);
            for value in values {
                // With DISTINCT the only key is the value itself.
                let keys = call.order.iter().map(|_| value.clone()).collect();
                state.add(call, (Some(value), keys))?;
            }
            return result(call, state);
        }
    })
}

/// Returns values in their order; those with equal keys in the order in which they came.
fn sorted(order: &[SortKey], mut elements: Vec<(Vec<Value>, Value)>) -> Vec<Value> {
    if !order.is_empty() {
        elements.sort_by(|(left, _), (right, _)| order_of_keys(order, left, right));
    }
    elements.into_iter().map(|(_, value)| value).collect()
}

/// Returns texts with a separator between them; NULL if there are none.
fn joined(separator: &str, elements: &[Value]) -> Result<Value, SqlError> {
    if elements.is_empty() {
        return Ok(Value::Null);
    }
    let mut joined = String::new();
    for (place, element) in elements.iter().enumerate() {
        let Value::Text(text) = element else {
            unreachable!("the planner checked the type")
        };
        if place > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
        if joined.len() > JOINED_BYTES_MAX {
            return Err(SqlError::with_state(
                sqlstate::LIMIT,
                format!(
                    "the result of string_agg has more than {JOINED_BYTES_MAX} bytes: join fewer \
                     texts"
                ),
            ));
        }
    }
    Ok(Value::Text(joined))
}

/// Returns the array of elements, or of arrays as its members; NULL if there are none.
fn array_of(call: &AggregateCall, elements: &[Value]) -> Result<Value, SqlError> {
    let fault = |state, text| Err(SqlError::with_state(state, text));
    if elements.is_empty() {
        return Ok(Value::Null);
    }
    let column_type = call.argument_type.unwrap_or(ColumnType::Text);
    let (element, inner) = match column_type {
        ColumnType::Array(element) => {
            let mut inner: Option<Vec<ArrayDimension>> = None;
            for value in elements {
                let Value::Array(array) = value else {
                    return fault("22004", "cannot accumulate null arrays");
                };
                let dimensions: Vec<ArrayDimension> = array.as_ref().dimensions().collect();
                if dimensions.is_empty() {
                    return fault("2202E", "cannot accumulate empty arrays");
                }
                if *inner.get_or_insert_with(|| dimensions.clone()) != dimensions {
                    let text = "cannot accumulate arrays of different dimensionality";
                    return fault("2202E", text);
                }
            }
            (element, inner.unwrap_or_default())
        }
        found => (ElementType::of(found).expect("it is no array"), Vec::new()),
    };
    let mut builder = ArrayBuilder::new(element);
    for value in elements {
        match value {
            Value::Array(array) => builder.extend(array.as_ref()),
            value => builder.push(value.as_ref()),
        }
    }
    let length = u32::try_from(elements.len()).unwrap_or(u32::MAX);
    let mut dimensions = vec![ArrayDimension { length, lower: 1 }];
    dimensions.extend(inner);
    let array = builder.finish(&dimensions);
    array
        .map(Value::Array)
        .map_err(|error| failed(call, error.into()))
}

/// Adds a value that is not NULL to the last one of an aggregate that keeps one. Of equal numbers
/// with different scales it keeps the later one, as PostgreSQL does.
fn combine(function: AggregateFunction, last: &mut Value, value: Value) {
    let is_better = match function {
        AggregateFunction::Max | AggregateFunction::BoolOr => value >= *last,
        _ => value <= *last,
    };
    if last.is_null() || is_better {
        *last = value;
    }
}

fn add_single(call: &AggregateCall, sum: &mut Option<f32>, number: f32) -> Result<(), SqlError> {
    let before = sum.unwrap_or(0.0);
    let after = before + number;
    if after.is_infinite() && before.is_finite() && number.is_finite() {
        return Err(overflow(call));
    }
    *sum = Some(after);
    Ok(())
}

fn added(call: &AggregateCall, sum: f64, number: f64) -> Result<f64, SqlError> {
    let after = sum + number;
    match after.is_infinite() && sum.is_finite() && number.is_finite() {
        true => Err(overflow(call)),
        false => Ok(after),
    }
}

fn added_numeric(
    call: &AggregateCall,
    sum: &Numeric,
    number: &Numeric,
) -> Result<Numeric, SqlError> {
    let after = sum.as_ref().plus(number.as_ref());
    after.map_err(|error| failed(call, error.into()))
}

/// Returns the sum of numbers, or their mean.
fn of_numerics(call: &AggregateCall, sum: Numeric, count: u64) -> Result<Numeric, SqlError> {
    match call.function {
        AggregateFunction::Avg => {
            let mean = sum
                .as_ref()
                .divided_by(Numeric::from_wide(count.into()).as_ref());
            mean.map_err(|error| failed(call, error.into()))
        }
        _ => Ok(sum),
    }
}

fn within(call: &AggregateCall, interval: Option<Interval>) -> Result<Interval, SqlError> {
    interval.ok_or_else(|| failed(call, ExpressionError::TimeRange))
}

fn overflow(call: &AggregateCall) -> SqlError {
    failed(call, ExpressionError::Overflow)
}

fn failed(call: &AggregateCall, error: ExpressionError) -> SqlError {
    let text = call.function.name().to_string();
    SqlError::Expression { text, error }
}
