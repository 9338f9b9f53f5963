//! Prints expressions, keys and ranges as SQL, for `EXPLAIN` and for errors.

use placement::{ArrayFunction, ColumnType, JsonFunction, Schema, TimeZone, Value};
use protocol::expression::{BinaryOperator, Expression, ScalarFunction, UnaryOperator};

use super::access::ValueRange;
use super::facts::RangeEnd;

/// Returns the SQL literal of a value.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int16(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::Float32(_)
        | Value::Float64(_) => value.to_string(),
        // PostgreSQL has no literal of them without quotes.
        Value::Numeric(number) if !number.as_ref().is_finite() => format!("'{number}'"),
        Value::Numeric(number) => number.to_string(),
        Value::Text(text) | Value::Json(text) | Value::Jsonb(text) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Value::Array(array) => {
            let column_type = ColumnType::Array(array.as_ref().element());
            format!("'{}'::{column_type}", value.to_string().replace('\'', "''"))
        }
        Value::Bytes(_)
        | Value::Date(_)
        | Value::Timestamp(_)
        | Value::TimestampTz(_)
        | Value::Time(_)
        | Value::Interval(_)
        | Value::Uuid(_) => format!("'{value}'"),
    }
}

/// Returns the text of a key: `by_route (origin, dest) = ('EWR', 'IAH')`
pub(crate) fn key(name: &str, schema: &Schema, columns: &[usize], values: &[Value]) -> String {
    let columns: Vec<&str> = columns
        .iter()
        .map(|it| schema.columns[*it].name.as_str())
        .collect();
    let values: Vec<String> = values.iter().map(literal).collect();
    format!("{name} ({}) = ({})", columns.join(", "), values.join(", "))
}

/// Returns the text of a range: `position > 100 AND position <= 200`
pub(super) fn range(schema: &Schema, column: usize, range: &ValueRange) -> String {
    let name = &schema.columns[column].name;
    let end = |bound: &RangeEnd, operator: &str| {
        let equal = if bound.inclusive { "=" } else { "" };
        format!("{name} {operator}{equal} {}", literal(&bound.value))
    };
    if range.not_null && !range.is_bounded() {
        return format!("{name} IS NOT NULL");
    }
    let lower = range.lower.as_ref().map(|bound| end(bound, ">"));
    let upper = range.upper.as_ref().map(|bound| end(bound, "<"));
    let ends: Vec<String> = lower.into_iter().chain(upper).collect();
    ends.join(" AND ")
}

/// Returns the text of an expression. Compound operands are in parentheses.
pub(crate) fn expression(schema: &Schema, expression: &Expression) -> String {
    let column = |position: u16| schema.columns[usize::from(position)].name.as_str();
    match expression {
        Expression::Column(position) => column(*position).to_string(),
        Expression::Excluded(position) => format!("excluded.{}", column(*position)),
        Expression::Literal(value) => literal(value),
        Expression::Unary(operator, inner) => {
            let inner = operand(schema, inner);
            match operator {
                UnaryOperator::Not => format!("NOT {inner}"),
                UnaryOperator::Negate => format!("-{inner}"),
                UnaryOperator::IsNull => format!("{inner} IS NULL"),
                UnaryOperator::IsNotNull => format!("{inner} IS NOT NULL"),
                UnaryOperator::Cast(to) => format!("{inner}::{to}"),
            }
        }
        Expression::Binary(operator, left, right) => {
            // A chain of one operator reads as it was written.
            let side = |it: &Expression| match it {
                Expression::Binary(inner, ..)
                    if inner == operator
                        && matches!(operator, BinaryOperator::And | BinaryOperator::Or) =>
                {
                    self::expression(schema, it)
                }
                it => operand(schema, it),
            };
            let (left, symbol, right) = (side(left), operator.symbol(), side(right));
            match operator {
                BinaryOperator::Any(_) | BinaryOperator::All(_) => {
                    format!("{left} {symbol} ({right})")
                }
                _ => format!("{left} {symbol} {right}"),
            }
        }
        Expression::Call(call) => {
            let operands = call.operands.iter().map(|it| self::expression(schema, it));
            let operands: Vec<String> = operands.collect();
            match call.function {
                ScalarFunction::Case => case(&operands),
                ScalarFunction::AtZone
                | ScalarFunction::MomentText
                | ScalarFunction::ReadMoment => {
                    let zone = match &call.operands[..] {
                        [_, Expression::Literal(Value::Bytes(zone))] => TimeZone::decode(zone),
                        _ => None,
                    };
                    let zone = zone.as_ref().map_or("unknown", TimeZone::name);
                    format!("{}({}, '{zone}')", call.function.name(), operands[0])
                }
                ScalarFunction::Array(function) => array_function(function, &operands),
                ScalarFunction::Json(function) if function.takes_path() => {
                    with_path(function, &operands)
                }
                function => {
                    let operands = match call.operands.last() {
                        Some(Expression::Literal(Value::Bytes(zone))) if operands.len() == 3 => {
                            let zone = TimeZone::decode(zone);
                            let name = zone.as_ref().map_or("unknown", TimeZone::name);
                            format!("{}, {}, '{name}'", operands[0], operands[1])
                        }
                        _ => operands.join(", "),
                    };
                    format!("{}({operands})", function.name())
                }
            }
        }
    }
}

/// Returns the text of a function of arrays.
fn array_function(function: ArrayFunction, operands: &[String]) -> String {
    match (function, operands) {
        (ArrayFunction::Make(element) | ArrayFunction::Join(element), _) => {
            let column_type = ColumnType::Array(element);
            format!("ARRAY[{}]::{column_type}", operands.join(", "))
        }
        (ArrayFunction::Subscript, [array, subscripts @ ..]) => {
            format!("({array})[{}]", subscripts.join("]["))
        }
        (ArrayFunction::Slice(open), [array, bounds @ ..]) => {
            let mut text = format!("({array})");
            let mut bounds = bounds.iter();
            let mut place = 0;
            while bounds.len() > 0 || open >> place != 0 {
                let mut next = |bit: u32| match open >> (place + bit) & 1 {
                    0 => bounds.next().map_or("", String::as_str),
                    _ => "",
                };
                let (lower, upper) = (next(0), next(1));
                text.push_str(&format!("[{lower}:{upper}]"));
                place += 2;
            }
            text
        }
        (function, operands) => format!("{}({})", function.name(), operands.join(", ")),
    }
}

/// Returns the text of a function whose last operands are the steps of a path.
fn with_path(function: JsonFunction, operands: &[String]) -> String {
    let name = function.name();
    match (function, operands) {
        (JsonFunction::JsonbSet, [target, value, is_added, steps @ ..]) => {
            let steps = steps.join(", ");
            format!("{name}({target}, ARRAY[{steps}]::text[], {value}, {is_added})")
        }
        (_, [target, steps @ ..]) => {
            format!("{name}({target}, ARRAY[{}]::text[])", steps.join(", "))
        }
        (_, []) => format!("{name}()"),
    }
}

fn case(operands: &[String]) -> String {
    let (pairs, otherwise) = operands.as_chunks::<2>();
    let pairs = pairs
        .iter()
        .map(|[condition, value]| format!(" WHEN {condition} THEN {value}"));
    let otherwise = otherwise.iter().map(|value| format!(" ELSE {value}"));
    let parts: String = pairs.chain(otherwise).collect();
    format!("CASE{parts} END")
}

fn operand(schema: &Schema, inner: &Expression) -> String {
    let text = expression(schema, inner);
    match inner {
        Expression::Column(_)
        | Expression::Excluded(_)
        | Expression::Literal(_)
        | Expression::Call(_) => text,
        Expression::Unary(..) | Expression::Binary(..) => format!("({text})"),
    }
}
