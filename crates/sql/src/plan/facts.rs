//! What the conjuncts of a `WHERE` say about single columns: which values, or which range.
//!
//! Only what is exact goes in: a conjunct that is taken up by an access path is not filtered
//! again, so a fact must hold for just the rows for which its conjunct holds.

use std::collections::BTreeMap;

use client::protocol::expression::{BinaryOperator, Expression, UnaryOperator};
use placement::{ColumnType, Schema, Value};

/// What is known of all rows that satisfy a `WHERE`.
#[derive(Debug)]
pub(super) struct Facts {
    /// By column.
    pub columns: BTreeMap<usize, Fact>,
    /// No row can satisfy it.
    pub impossible: bool,
}

/// What is known of one column, and which conjuncts say so.
#[derive(Debug, Default)]
pub(super) struct Fact {
    /// The values that it may have, rising; NULL for `IS NULL`.
    pub keys: Option<(Vec<Value>, Vec<usize>)>,
    /// It is larger; conjunct last.
    pub lower: Option<(Bound, usize)>,
    /// It is smaller; conjunct last.
    pub upper: Option<(Bound, usize)>,
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The value.
    pub value: Value,
    /// Whether the range holds it.
    pub inclusive: bool,
}

/// What one conjunct says.
enum Says {
    Keys(usize, Vec<Value>),
    Lower(usize, Bound),
    Upper(usize, Bound),
    Never,
}

impl Facts {
    /// Gathers what the conjuncts say.
    pub fn of(schema: &Schema, conjuncts: &[Expression]) -> Facts {
        let mut facts = Facts {
            columns: BTreeMap::new(),
            impossible: false,
        };
        for (conjunct, expression) in conjuncts.iter().enumerate() {
            match says(schema, expression) {
                None => {}
                Some(Says::Never) => facts.impossible = true,
                Some(Says::Keys(column, keys)) => facts.narrow_keys(column, keys, conjunct),
                Some(Says::Lower(column, bound)) => {
                    let lower = &mut facts.columns.entry(column).or_default().lower;
                    let tighter = |(old, _): &(Bound, usize)| {
                        (&bound.value, !bound.inclusive) > (&old.value, !old.inclusive)
                    };
                    if lower.as_ref().is_none_or(tighter) {
                        *lower = Some((bound, conjunct));
                    }
                }
                Some(Says::Upper(column, bound)) => {
                    let upper = &mut facts.columns.entry(column).or_default().upper;
                    let tighter = |(old, _): &(Bound, usize)| {
                        (&bound.value, bound.inclusive) < (&old.value, old.inclusive)
                    };
                    if upper.as_ref().is_none_or(tighter) {
                        *upper = Some((bound, conjunct));
                    }
                }
            }
        }
        facts
    }

    /// The values that a column may have.
    pub fn keys(&self, column: usize) -> Option<&(Vec<Value>, Vec<usize>)> {
        self.columns.get(&column)?.keys.as_ref()
    }

    fn narrow_keys(&mut self, column: usize, mut keys: Vec<Value>, conjunct: usize) {
        let known = &mut self.columns.entry(column).or_default().keys;
        let mut from = vec![conjunct];
        if let Some((old, old_from)) = known.take() {
            keys.retain(|key| old.contains(key));
            from.extend(old_from);
        }
        self.impossible |= keys.is_empty();
        *known = Some((keys, from));
    }
}

fn says(schema: &Schema, expression: &Expression) -> Option<Says> {
    match expression {
        Expression::Literal(Value::Bool(false) | Value::Null) => Some(Says::Never),
        Expression::Binary(BinaryOperator::Or, ..) => {
            let mut column = None;
            let mut keys = Vec::new();
            alternatives(schema, expression, &mut column, &mut keys)?;
            keys.sort();
            keys.dedup();
            Some(Says::Keys(column?, keys))
        }
        Expression::Binary(operator, left, right) => {
            let (operator, column, literal) = match (&**left, &**right) {
                (Expression::Column(column), Expression::Literal(literal)) => {
                    (*operator, *column, literal)
                }
                (Expression::Literal(literal), Expression::Column(column)) => {
                    (mirrored(*operator)?, *column, literal)
                }
                _ => return None,
            };
            comparison(schema, operator, usize::from(column), literal)
        }
        _ => {
            let (column, key) = equality(schema, expression)?;
            Some(Says::Keys(column, vec![key]))
        }
    }
}

fn comparison(
    schema: &Schema,
    operator: BinaryOperator,
    column: usize,
    literal: &Value,
) -> Option<Says> {
    if !is_comparison(operator) {
        return None;
    }
    if literal.is_null() {
        return Some(Says::Never);
    }
    let value = exact(schema.columns[column].column_type, literal)?;
    let bound = |inclusive| Bound {
        value: value.clone(),
        inclusive,
    };
    Some(match operator {
        BinaryOperator::Equal => Says::Keys(column, vec![value]),
        BinaryOperator::Less => Says::Upper(column, bound(false)),
        BinaryOperator::LessEqual => Says::Upper(column, bound(true)),
        BinaryOperator::Greater => Says::Lower(column, bound(false)),
        BinaryOperator::GreaterEqual => Says::Lower(column, bound(true)),
        _ => return None,
    })
}

/// The values that a disjunction of equalities of one column allows.
fn alternatives(
    schema: &Schema,
    expression: &Expression,
    column: &mut Option<usize>,
    keys: &mut Vec<Value>,
) -> Option<()> {
    if let Expression::Binary(BinaryOperator::Or, left, right) = expression {
        alternatives(schema, left, column, keys)?;
        return alternatives(schema, right, column, keys);
    }
    // An alternative that never holds adds nothing.
    if let Some(Says::Never) = says(schema, expression) {
        return Some(());
    }
    let (found, key) = equality(schema, expression)?;
    if *column.get_or_insert(found) != found {
        return None;
    }
    keys.push(key);
    Some(())
}

fn equality(schema: &Schema, expression: &Expression) -> Option<(usize, Value)> {
    let is_bool = |column: u16| schema.columns[usize::from(column)].column_type == ColumnType::Bool;
    match expression {
        Expression::Column(column) if is_bool(*column) => {
            Some((usize::from(*column), Value::Bool(true)))
        }
        Expression::Unary(operator, operand) => match (operator, &**operand) {
            (UnaryOperator::IsNull, Expression::Column(column)) => {
                Some((usize::from(*column), Value::Null))
            }
            (UnaryOperator::Not, Expression::Column(column)) if is_bool(*column) => {
                Some((usize::from(*column), Value::Bool(false)))
            }
            _ => None,
        },
        Expression::Binary(BinaryOperator::Equal, ..) => match says(schema, expression)? {
            Says::Keys(column, mut keys) => Some((column, keys.pop()?)),
            Says::Lower(..) | Says::Upper(..) | Says::Never => None,
        },
        _ => None,
    }
}

fn is_comparison(operator: BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::Equal
            | BinaryOperator::NotEqual
            | BinaryOperator::Less
            | BinaryOperator::LessEqual
            | BinaryOperator::Greater
            | BinaryOperator::GreaterEqual
    )
}

fn mirrored(operator: BinaryOperator) -> Option<BinaryOperator> {
    Some(match operator {
        BinaryOperator::Equal | BinaryOperator::NotEqual => operator,
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessEqual => BinaryOperator::GreaterEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterEqual => BinaryOperator::LessEqual,
        _ => return None,
    })
}

/// The literal as a value of the column's type that compares alike with all of its values.
fn exact(column_type: ColumnType, literal: &Value) -> Option<Value> {
    // Beyond this, neighbouring integers are the same float.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    match (column_type, literal) {
        (ColumnType::Float64, Value::Int64(value)) => Some(Value::Float64(*value as f64)),
        (ColumnType::Int64, Value::Float64(value))
            if value.fract() == 0.0 && value.abs() < WHOLE_MAX =>
        {
            Some(Value::Int64(*value as i64))
        }
        (column_type, value) => (value.column_type() == Some(column_type)).then(|| value.clone()),
    }
}
