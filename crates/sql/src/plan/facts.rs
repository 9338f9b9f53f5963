//! Finds the values or the range that the conjuncts of a `WHERE` determine for single columns.
//!
//! Only exact facts go in: a conjunct that an access path uses is not filtered again, so a fact
//! must hold for just the rows for which its conjunct holds.

use std::collections::BTreeMap;

use placement::{ArrayRef, ColumnType, Numeric, Schema, Value};
use protocol::expression::{BinaryOperator, Comparison, Expression, UnaryOperator};

/// The facts about all rows that satisfy a `WHERE`.
#[derive(Debug)]
pub(super) struct Facts {
    /// The facts about each column.
    pub columns: BTreeMap<usize, Fact>,
    /// Whether no row can satisfy the `WHERE`.
    pub impossible: bool,
}

/// The facts about one column, and the conjuncts that determine them.
#[derive(Debug, Default)]
pub(super) struct Fact {
    /// The only values that the column may have.
    pub keys: Option<KnownKeys>,
    /// A lower bound.
    pub lower: Option<KnownEnd>,
    /// An upper bound.
    pub upper: Option<KnownEnd>,
    /// The conjunct by which the column is not NULL.
    pub not_null: Option<usize>,
}

/// The values that a column may have.
#[derive(Debug)]
pub(super) struct KnownKeys {
    /// The values, ascending; NULL for `IS NULL`.
    pub keys: Vec<Value>,
    /// The conjuncts that determine these values.
    pub conjuncts: Vec<usize>,
}

/// A bound of the values of a column.
#[derive(Debug)]
pub(super) struct KnownEnd {
    /// The bound.
    pub end: RangeEnd,
    /// The conjunct that determines the bound.
    pub conjunct: usize,
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeEnd {
    /// The value.
    pub value: Value,
    /// Whether the range includes the value.
    pub inclusive: bool,
}

/// The restriction by one conjunct.
enum Restriction {
    Keys(usize, Vec<Value>),
    Lower(usize, RangeEnd),
    Upper(usize, RangeEnd),
    NotNull(usize),
    Never,
}

impl Facts {
    /// Returns the facts that the conjuncts determine.
    pub fn of(schema: &Schema, conjuncts: &[Expression]) -> Facts {
        let mut facts = Facts {
            columns: BTreeMap::new(),
            impossible: false,
        };
        for (conjunct, expression) in conjuncts.iter().enumerate() {
            match restriction(schema, expression) {
                None => {}
                Some(Restriction::Never) => facts.impossible = true,
                Some(Restriction::Keys(column, keys)) => facts.narrow_keys(column, keys, conjunct),
                Some(Restriction::Lower(column, end)) => {
                    let lower = &mut facts.columns.entry(column).or_default().lower;
                    let tighter = |KnownEnd { end: old, .. }: &KnownEnd| {
                        (&end.value, !end.inclusive) > (&old.value, !old.inclusive)
                    };
                    if lower.as_ref().is_none_or(tighter) {
                        *lower = Some(KnownEnd { end, conjunct });
                    }
                }
                Some(Restriction::Upper(column, end)) => {
                    let upper = &mut facts.columns.entry(column).or_default().upper;
                    let tighter = |KnownEnd { end: old, .. }: &KnownEnd| {
                        (&end.value, end.inclusive) < (&old.value, old.inclusive)
                    };
                    if upper.as_ref().is_none_or(tighter) {
                        *upper = Some(KnownEnd { end, conjunct });
                    }
                }
                Some(Restriction::NotNull(column)) => {
                    facts.columns.entry(column).or_default().not_null = Some(conjunct);
                }
            }
        }
        facts.exclude_nulls();
        facts
    }

    /// Returns the values that a column may have; none if they are not restricted.
    pub fn keys(&self, column: usize) -> Option<&KnownKeys> {
        self.columns.get(&column)?.keys.as_ref()
    }

    /// Removes NULL from the values of columns that are not NULL.
    fn exclude_nulls(&mut self) {
        for fact in self.columns.values_mut() {
            if let (Some(known), Some(conjunct)) = (&mut fact.keys, fact.not_null) {
                known.keys.retain(|key| !key.is_null());
                known.conjuncts.push(conjunct);
                self.impossible |= known.keys.is_empty();
            }
        }
    }

    fn narrow_keys(&mut self, column: usize, mut keys: Vec<Value>, conjunct: usize) {
        let known = &mut self.columns.entry(column).or_default().keys;
        let mut conjuncts = vec![conjunct];
        if let Some(old) = known.take() {
            keys.retain(|key| old.keys.binary_search(key).is_ok());
            conjuncts.extend(old.conjuncts);
        }
        self.impossible |= keys.is_empty();
        *known = Some(KnownKeys { keys, conjuncts });
    }
}

fn restriction(schema: &Schema, expression: &Expression) -> Option<Restriction> {
    match expression {
        Expression::Literal(Value::Bool(false) | Value::Null) => Some(Restriction::Never),
        Expression::Binary(BinaryOperator::Or, ..) => {
            let mut column = None;
            let mut keys = Vec::new();
            alternatives(schema, expression, &mut column, &mut keys)?;
            keys.sort();
            keys.dedup();
            Some(match column {
                Some(column) => Restriction::Keys(column, keys),
                None => Restriction::Never,
            })
        }
        // No value differs from itself, and NULL is not known to.
        Expression::Binary(
            BinaryOperator::NotEqual | BinaryOperator::Less | BinaryOperator::Greater,
            left,
            right,
        ) if left == right => Some(Restriction::Never),
        Expression::Binary(BinaryOperator::Any(Comparison::Equal), left, right) => {
            match (&**left, &**right) {
                (_, Expression::Literal(Value::Null)) => Some(Restriction::Never),
                (Expression::Column(column), Expression::Literal(Value::Array(array))) => {
                    of_elements(schema, usize::from(*column), array.as_ref())
                }
                _ => None,
            }
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
        Expression::Unary(UnaryOperator::IsNotNull, operand) => match **operand {
            Expression::Column(column) => Some(Restriction::NotNull(usize::from(column))),
            _ => None,
        },
        _ => {
            let (column, key) = equality(schema, expression)?;
            Some(Restriction::Keys(column, vec![key]))
        }
    }
}

/// Returns the values of a column that equal an element of an array.
fn of_elements(schema: &Schema, column: usize, array: ArrayRef<'_>) -> Option<Restriction> {
    let is_integer = schema.columns[column].column_type.is_integer();
    let mut keys = Vec::new();
    for element in array.values() {
        let element = match element.to_owned() {
            Value::Null => continue,
            Value::Numeric(number) if is_integer => match number.as_ref().to_integer() {
                Ok(Some(integer)) if Numeric::from(integer) == number => Value::Int64(integer),
                // No integer equals it.
                _ => continue,
            },
            element => element,
        };
        match comparison(schema, BinaryOperator::Equal, column, &element)? {
            Restriction::Keys(_, found) => keys.extend(found),
            Restriction::Never => {}
            _ => return None,
        }
    }
    keys.sort();
    keys.dedup();
    Some(match keys.is_empty() {
        true => Restriction::Never,
        false => Restriction::Keys(column, keys),
    })
}

fn comparison(
    schema: &Schema,
    operator: BinaryOperator,
    column: usize,
    literal: &Value,
) -> Option<Restriction> {
    if !operator.is_comparison() {
        return None;
    }
    if literal.is_null() {
        return Some(Restriction::Never);
    }
    let column_type = schema.columns[column].column_type;
    if let (true, Some(value)) = (column_type.is_integer(), literal.as_ref().float()) {
        return beside_float(operator, column, value);
    }
    let value = exact(column_type, literal)?;
    let bound = |inclusive| RangeEnd {
        value: value.clone(),
        inclusive,
    };
    Some(match operator {
        BinaryOperator::Equal => Restriction::Keys(column, vec![value]),
        BinaryOperator::Less => Restriction::Upper(column, bound(false)),
        BinaryOperator::LessEqual => Restriction::Upper(column, bound(true)),
        BinaryOperator::Greater => Restriction::Lower(column, bound(false)),
        BinaryOperator::GreaterEqual => Restriction::Lower(column, bound(true)),
        _ => return None,
    })
}

/// Returns the values that a disjunction of equalities of one column allows.
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
    if let Some(Restriction::Never) = restriction(schema, expression) {
        return Some(());
    }
    if let Expression::Binary(BinaryOperator::Any(_), ..) = expression {
        let Restriction::Keys(found, more) = restriction(schema, expression)? else {
            return None;
        };
        keys.extend(more);
        return (*column.get_or_insert(found) == found).then_some(());
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
        Expression::Binary(BinaryOperator::Equal, ..) => match restriction(schema, expression)? {
            Restriction::Keys(column, mut keys) => Some((column, keys.pop()?)),
            _ => None,
        },
        _ => None,
    }
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

/// Returns the literal as a value of the column's type that compares alike with all of its values.
fn exact(column_type: ColumnType, literal: &Value) -> Option<Value> {
    let found = literal.column_type()?;
    match literal {
        literal if column_type.shares_keys(found) => Some(literal.clone()),
        // All of these compare with the column's values as values of its type do.
        literal if column_type.is_float() && (found.is_integer() || found.is_numeric()) => {
            literal.clone().assigned(ColumnType::Float64).ok()
        }
        literal if column_type.is_numeric() && found.is_integer() => {
            literal.clone().assigned(ColumnType::Numeric).ok()
        }
        literal if column_type.is_time() && column_type != ColumnType::Date && found.is_time() => {
            literal.clone().assigned(column_type).ok()
        }
        _ => None,
    }
}

/// Returns the restriction by the comparison of an integer with a double: integers compare by their
/// doubles, so several of them may be equal to one.
fn beside_float(operator: BinaryOperator, column: usize, value: f64) -> Option<Restriction> {
    let less = |candidate: i64| Value::Float64(candidate as f64) < Value::Float64(value);
    let not_greater = |candidate: i64| Value::Float64(candidate as f64) <= Value::Float64(value);
    let (first_equal, first_greater) = (first_beyond(less), first_beyond(not_greater));
    let bound = |value, inclusive| RangeEnd {
        value: Value::Int64(value),
        inclusive,
    };
    let below =
        |first: Option<i64>| first.map(|first| Restriction::Upper(column, bound(first, false)));
    let from = |first: Option<i64>| match first {
        Some(first) => Restriction::Lower(column, bound(first, true)),
        None => Restriction::Never,
    };
    match operator {
        BinaryOperator::Equal if first_equal == first_greater => Some(Restriction::Never),
        BinaryOperator::Equal => {
            let first = first_equal?;
            let is_alone = first.checked_add(1) == first_greater;
            is_alone.then(|| Restriction::Keys(column, vec![Value::Int64(first)]))
        }
        BinaryOperator::Less => below(first_equal),
        BinaryOperator::LessEqual => below(first_greater),
        BinaryOperator::Greater => Some(from(first_greater)),
        BinaryOperator::GreaterEqual => Some(from(first_equal)),
        _ => None,
    }
}

/// Returns the first integer for which `is_before`, which holds up to some integer, does not hold.
fn first_beyond(is_before: impl Fn(i64) -> bool) -> Option<i64> {
    if is_before(i64::MAX) {
        return None;
    }
    let (mut low, mut high) = (i128::from(i64::MIN), i128::from(i64::MAX));
    while low < high {
        let middle = (low + high).div_euclid(2);
        let candidate = i64::try_from(middle).expect("it lies between two integers");
        if is_before(candidate) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    i64::try_from(low).ok()
}
