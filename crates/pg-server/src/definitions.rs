//! Writes defaults and conditions of tables as PostgreSQL prints them in its catalogue.

use placement::{Column, ColumnDefault, ColumnType, Schema, SequenceDefault, TimeZone, Value};
use protocol::expression::{BinaryOperator, Expression, ScalarFunction, UnaryOperator};

/// Returns the default of a column, or the expression of a generated one.
pub fn default(schema: &Schema, column: &Column) -> Option<String> {
    Some(match column.default.as_ref()? {
        ColumnDefault::Constant(value) => literal(value, Some(column.column_type)),
        ColumnDefault::Computed(computed) => computed.text().to_owned(),
        ColumnDefault::Sequence(SequenceDefault {
            identity: Some(_), ..
        }) => return None,
        ColumnDefault::Sequence(SequenceDefault { sequence, .. }) => {
            format!("nextval('{}'::regclass)", sequence.replace('\'', "''"))
        }
        ColumnDefault::Generated(written) => expression(schema, written),
    })
}

/// Returns a condition in parentheses.
pub fn condition(schema: &Schema, condition: &Expression) -> String {
    let text = expression(schema, condition);
    match text.starts_with('(') {
        true => text,
        false => format!("({text})"),
    }
}

/// Returns the columns that an expression reads, in ascending order.
pub fn columns_of(expression: &Expression) -> Vec<usize> {
    let mut found = Vec::new();
    collect(expression, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn collect(expression: &Expression, found: &mut Vec<usize>) {
    match expression {
        Expression::Column(column) | Expression::Excluded(column) => {
            found.push(usize::from(*column));
        }
        Expression::Literal(_) => {}
        Expression::Unary(_, inner) => collect(inner, found),
        Expression::Binary(_, left, right) => {
            collect(left, found);
            collect(right, found);
        }
        Expression::Call(call) => call.operands.iter().for_each(|it| collect(it, found)),
    }
}

/// Returns PostgreSQL's name of a type after `::`.
fn type_name(column_type: ColumnType) -> String {
    match column_type {
        ColumnType::Char(_) => "bpchar".into(),
        ColumnType::Varchar(_) => "character varying".into(),
        ColumnType::Timestamp => "timestamp without time zone".into(),
        ColumnType::TimestampTz => "timestamp with time zone".into(),
        other => other.name().to_owned(),
    }
}

/// Returns a literal. Numbers stand for themselves, unless they are negative or large; other values
/// have their types.
fn literal(value: &Value, of: Option<ColumnType>) -> String {
    let quoted = |of: ColumnType| {
        let text = value.to_string().replace('\'', "''");
        format!("'{text}'::{}", type_name(of))
    };
    match value {
        Value::Null => match of {
            Some(of) => format!("NULL::{}", type_name(of)),
            None => "NULL".into(),
        },
        Value::Bool(value) => value.to_string(),
        Value::Int16(_) | Value::Int32(_) | Value::Int64(_) => {
            let text = value.to_string();
            match text.parse::<i32>() {
                Ok(0..) => text,
                Ok(_) => format!("'{text}'::integer"),
                Err(_) => format!("'{text}'::bigint"),
            }
        }
        Value::Float32(_) | Value::Float64(_) => {
            let text = value.to_string();
            match text.starts_with('-') || text.parse::<f64>().is_ok_and(|it| !it.is_finite()) {
                true => format!("'{text}'::{}", type_name(of.unwrap_or(ColumnType::Float64))),
                false => text,
            }
        }
        // Without a point it would be read as an integer.
        Value::Numeric(_) if is_plain_decimal(&value.to_string()) => value.to_string(),
        value => {
            let own = value.column_type().unwrap_or(ColumnType::Text);
            quoted(of.unwrap_or(own))
        }
    }
}

/// Returns whether a number is positive and has a point.
fn is_plain_decimal(text: &str) -> bool {
    text.contains('.') && text.starts_with(|first: char| first.is_ascii_digit())
}

fn expression(schema: &Schema, written: &Expression) -> String {
    match written {
        Expression::Column(position) | Expression::Excluded(position) => {
            schema.columns[usize::from(*position)].name.clone()
        }
        Expression::Literal(value) => literal(value, None),
        Expression::Unary(operator, inner) => {
            let inner = operand(schema, inner);
            match operator {
                UnaryOperator::Not => format!("(NOT {inner})"),
                UnaryOperator::Negate => format!("(- {inner})"),
                UnaryOperator::IsNull => format!("({inner} IS NULL)"),
                UnaryOperator::IsNotNull => format!("({inner} IS NOT NULL)"),
                UnaryOperator::Cast(to) => format!("({inner})::{}", type_name(*to)),
            }
        }
        Expression::Binary(operator @ (BinaryOperator::And | BinaryOperator::Or), ..) => {
            let mut parts = Vec::new();
            chain(written, operator, &mut parts);
            let parts: Vec<String> = parts.into_iter().map(|it| operand(schema, it)).collect();
            format!("({})", parts.join(&format!(" {} ", operator.symbol())))
        }
        Expression::Binary(operator, left, right) => {
            let (left, right) = (operand(schema, left), operand(schema, right));
            format!("({left} {} {right})", operator.symbol())
        }
        Expression::Call(call) => {
            let operands = call.operands.iter().map(|it| expression(schema, it));
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
                    let zone = zone.replace('\'', "''");
                    format!("({} AT TIME ZONE '{zone}'::text)", operands[0])
                }
                ScalarFunction::Extract => {
                    format!("EXTRACT({} FROM {})", operands[0], operands[1])
                }
                // These are no functions in PostgreSQL's grammar.
                function @ (ScalarFunction::Coalesce
                | ScalarFunction::NullIf
                | ScalarFunction::Greatest
                | ScalarFunction::Least) => {
                    let name = function.name().to_uppercase();
                    format!("{name}({})", operands.join(", "))
                }
                function => format!("{}({})", function.name(), operands.join(", ")),
            }
        }
    }
}

/// Returns an operand. A text of limited length is compared as a text.
fn operand(schema: &Schema, inner: &Expression) -> String {
    let text = expression(schema, inner);
    match inner {
        Expression::Column(position) => {
            let column_type = schema.columns[usize::from(*position)].column_type;
            match column_type {
                ColumnType::Varchar(_) => format!("({text})::text"),
                _ => text,
            }
        }
        _ => text,
    }
}

fn chain<'e>(written: &'e Expression, of: &BinaryOperator, parts: &mut Vec<&'e Expression>) {
    let mut rest = written;
    let mut right_parts = Vec::new();
    while let Expression::Binary(operator, left, right) = rest
        && operator == of
    {
        right_parts.push(&**right);
        rest = left;
    }
    parts.push(rest);
    parts.extend(right_parts.into_iter().rev());
}

fn case(operands: &[String]) -> String {
    let (pairs, otherwise) = operands.as_chunks::<2>();
    let pairs = pairs
        .iter()
        .map(|[condition, value]| format!("    WHEN {condition} THEN {value}\n"));
    let otherwise = match otherwise {
        [value] => format!("    ELSE {value}\n"),
        _ => "    ELSE NULL\n".to_owned(),
    };
    format!("CASE\n{}{otherwise}END", pairs.collect::<String>())
}
