//! Computes expressions.

use std::cmp::Ordering;
use std::rc::Rc;

use regex::Regex;

use super::{Env, REGEXES_MAX, Run};
use crate::casts;
use crate::datum::{ArrayDatum, Datum};
use crate::description::Oid;
use crate::error::CatalogueError;
use crate::functions;
use crate::plan::{Node, Operator, Query};
use crate::types::{self, Kind};

/// Returns whether all truths are true, or some are. NULL is neither, and the first truth that
/// decides ends the search.
fn truth_of(
    all: bool,
    truths: impl Iterator<Item = Result<Datum, CatalogueError>>,
) -> Result<Datum, CatalogueError> {
    let mut is_unknown = false;
    for truth in truths {
        match truth? {
            Datum::Bool(value) if value != all => return Ok(Datum::Bool(!all)),
            Datum::Bool(_) => {}
            _ => is_unknown = true,
        }
    }
    Ok(match is_unknown {
        true => Datum::Null,
        false => Datum::Bool(all),
    })
}

impl Run<'_> {
    // tidy: long — one arm per form of an expression.
    /// Returns the value of an expression.
    pub(super) fn value(&self, node: &Node, env: &Env<'_>) -> Result<Datum, CatalogueError> {
        Ok(match node {
            Node::Constant(value) => value.clone(),
            Node::Parameter(position) => self
                .parameters
                .get(*position)
                .cloned()
                .unwrap_or(Datum::Null),
            Node::Column { up, slot } => {
                let mut env = env;
                for _ in 0..*up {
                    env = env.parent.expect("a slot is of a row that exists");
                }
                env.row[*slot].clone()
            }
            Node::And(parts) => return self.all_or_any(parts, true, env),
            Node::Or(parts) => return self.all_or_any(parts, false, env),
            Node::Not(inner) => match self.value(inner, env)? {
                Datum::Bool(value) => Datum::Bool(!value),
                other => other,
            },
            Node::IsNull(inner) => {
                let value = self.value(inner, env)?;
                let is_null = match &value {
                    Datum::Record(fields) => fields.iter().all(Datum::is_null),
                    value => value.is_null(),
                };
                Datum::Bool(is_null)
            }
            Node::IsTruth(inner, wanted) => {
                let wanted = wanted.map_or(Datum::Null, Datum::Bool);
                Datum::Bool(self.value(inner, env)? == wanted)
            }
            Node::IsDistinct(left, right) => {
                let (left, right) = (self.value(left, env)?, self.value(right, env)?);
                Datum::Bool(left.order(&right) != Ordering::Equal)
            }
            Node::Binary(operator, left, right) => {
                let left = self.value(left, env)?;
                let right = self.value(right, env)?;
                return self.apply(*operator, &left, &right);
            }
            Node::Negate(inner) => match self.value(inner, env)? {
                Datum::Int(value) => Datum::Int(value.wrapping_neg()),
                value => Datum::option(value.as_float(), |it| Datum::float(-it)),
            },
            Node::Case { arms, otherwise } => {
                for (condition, value) in arms {
                    if self.value(condition, env)?.is_true() {
                        return self.value(value, env);
                    }
                }
                match otherwise {
                    Some(otherwise) => return self.value(otherwise, env),
                    None => Datum::Null,
                }
            }
            Node::Coalesce(values) => {
                for value in values {
                    let value = self.value(value, env)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            Node::Extreme { largest, values } => {
                let wanted = if *largest {
                    Ordering::Greater
                } else {
                    Ordering::Less
                };
                let mut found = Datum::Null;
                for value in values {
                    let value = self.value(value, env)?;
                    if !value.is_null() && (found.is_null() || value.order(&found) == wanted) {
                        found = value;
                    }
                }
                found
            }
            Node::Cast { inner, from, to } => {
                let value = self.value(inner, env)?;
                return casts::convert(&self.calls, value, *from, *to);
            }
            Node::Array(items) => {
                let items = items.iter().map(|it| self.value(it, env));
                Datum::array(items.collect::<Result<Vec<_>, _>>()?)
            }
            Node::Record(fields) => {
                let fields = fields.iter().map(|it| self.value(it, env));
                Datum::Record(fields.collect::<Result<Vec<_>, _>>()?.into())
            }
            Node::Field(inner, position) => match self.value(inner, env)? {
                Datum::Record(fields) => fields.get(*position).cloned().unwrap_or(Datum::Null),
                _ => Datum::Null,
            },
            Node::Subscript(array, index) => {
                let (array, index) = (self.value(array, env)?, self.value(index, env)?);
                let item = array
                    .as_array()
                    .zip(index.as_int())
                    .and_then(|(array, index)| {
                        let position = usize::try_from(index.checked_sub(array.lower)?).ok()?;
                        array.items.get(position).cloned()
                    });
                item.unwrap_or(Datum::Null)
            }
            Node::Slice(array, lower, upper) => {
                let array = self.value(array, env)?;
                let bound = |bound: &Option<Box<Node>>| match bound {
                    None => Ok(None),
                    Some(bound) => self.value(bound, env).map(|it| it.as_int()),
                };
                slice(&array, bound(lower)?, bound(upper)?)
            }
            Node::InList(left, list) => {
                let left = self.value(left, env)?;
                let mut is_unknown = left.is_null();
                for item in list {
                    let item = self.value(item, env)?;
                    is_unknown |= item.is_null();
                    if !left.is_null() && !item.is_null() && left.order(&item) == Ordering::Equal {
                        return Ok(Datum::Bool(true));
                    }
                }
                if is_unknown {
                    Datum::Null
                } else {
                    Datum::Bool(false)
                }
            }
            Node::Quantified {
                operator,
                all,
                left,
                array,
            } => {
                let left = self.value(left, env)?;
                let array = self.value(array, env)?;
                let Some(array) = array.as_array() else {
                    return Ok(Datum::Null);
                };
                return self.quantified(*operator, *all, &left, array.items.iter());
            }
            Node::QuantifiedQuery {
                operator,
                all,
                left,
                query,
            } => {
                let left = self.value(left, env)?;
                let rows = self.cached_query(query, Some(env))?;
                if query.columns.len() > 1 {
                    let items: Vec<Datum> = rows
                        .rows
                        .iter()
                        .map(|row| Datum::Record(row[..].into()))
                        .collect();
                    return self.quantified(*operator, *all, &left, items.iter());
                }
                return self.quantified(*operator, *all, &left, rows.rows.iter().map(|it| &it[0]));
            }
            Node::Exists(query) => {
                let rows = self.cached_query(query, Some(env))?;
                Datum::Bool(!rows.rows.is_empty())
            }
            Node::Scalar(query) => return self.scalar(query, env),
            Node::ArrayOf(query) => {
                let rows = self.cached_query(query, Some(env))?;
                Datum::array(rows.rows.iter().map(|row| row[0].clone()))
            }
            Node::Call(function, arguments) => {
                self.step()?;
                let values = arguments.iter().map(|it| self.value(it, env));
                let values: Vec<Datum> = values.collect::<Result<_, _>>()?;
                if function.is_strict && values.iter().any(Datum::is_null) {
                    return Ok(Datum::Null);
                }
                return (function.body)(self.calls, &values);
            }
        })
    }

    /// Returns whether all parts are true, or any; NULL if that depends on a NULL.
    fn all_or_any(
        &self,
        parts: &[Node],
        all: bool,
        env: &Env<'_>,
    ) -> Result<Datum, CatalogueError> {
        truth_of(all, parts.iter().map(|part| self.value(part, env)))
    }

    fn quantified<'d>(
        &self,
        operator: Operator,
        all: bool,
        left: &Datum,
        items: impl Iterator<Item = &'d Datum>,
    ) -> Result<Datum, CatalogueError> {
        let truths = items.map(|item| {
            self.step()?;
            self.apply(operator, left, item)
        });
        truth_of(all, truths)
    }

    fn scalar(&self, query: &Query, env: &Env<'_>) -> Result<Datum, CatalogueError> {
        let rows = self.cached_query(query, Some(env))?;
        match &rows.rows[..] {
            [] => Ok(Datum::Null),
            [row] => Ok(row[0].clone()),
            _ => {
                let text = "more than one row returned by a subquery used as an expression";
                Err(CatalogueError::new("21000", text))
            }
        }
    }

    // tidy: long — one arm per operator.
    /// Applies an operator.
    fn apply(
        &self,
        operator: Operator,
        left: &Datum,
        right: &Datum,
    ) -> Result<Datum, CatalogueError> {
        match operator {
            Operator::ConcatArrays => return Ok(functions::concat(left, right)),
            Operator::Append => return Ok(functions::append(left, right)),
            Operator::Prepend => return Ok(functions::prepend(left, right)),
            _ if left.is_null() || right.is_null() => return Ok(Datum::Null),
            _ => {}
        }
        let truth = |value: bool| Ok(Datum::Bool(value));
        match operator {
            Operator::Equal => truth(left.order(right).is_eq()),
            Operator::NotEqual => truth(left.order(right).is_ne()),
            Operator::Less => truth(left.order(right).is_lt()),
            Operator::LessOrEqual => truth(left.order(right).is_le()),
            Operator::Greater => truth(left.order(right).is_gt()),
            Operator::GreaterOrEqual => truth(left.order(right).is_ge()),
            Operator::Add(of) => arithmetic(of, left, right, i64::checked_add, |a, b| a + b),
            Operator::Subtract(of) => arithmetic(of, left, right, i64::checked_sub, |a, b| a - b),
            Operator::Multiply(of) => arithmetic(of, left, right, i64::checked_mul, |a, b| a * b),
            Operator::Divide(_) | Operator::Modulo(_) if right.as_float() == Some(0.0) => {
                Err(CatalogueError::new("22012", "division by zero"))
            }
            Operator::Divide(of) => arithmetic(of, left, right, i64::checked_div, |a, b| a / b),
            Operator::Modulo(of) => arithmetic(of, left, right, i64::checked_rem, |a, b| a % b),
            Operator::BitAnd => whole(left, right, |left, right| left & right),
            Operator::BitOr => whole(left, right, |left, right| left | right),
            Operator::Concat => {
                let (Some(left), Some(right)) = (left.as_text(), right.as_text()) else {
                    return Ok(Datum::Null);
                };
                functions::check_length(left.len() + right.len())?;
                Ok(Datum::text([left, right].concat()))
            }
            Operator::Contains => truth(contains(left, right)),
            Operator::ContainedBy => truth(contains(right, left)),
            Operator::Overlaps => {
                let (Some(left), Some(right)) = (left.as_array(), right.as_array()) else {
                    return Ok(Datum::Null);
                };
                truth(
                    left.items
                        .iter()
                        .any(|it| !it.is_null() && right.items.contains(it)),
                )
            }
            Operator::Regex {
                insensitive,
                negated,
            } => {
                let (Some(text), Some(pattern)) = (left.as_text(), right.as_text()) else {
                    return Ok(Datum::Null);
                };
                let regex = self.regex(pattern, insensitive)?;
                truth(regex.is_match(text) != negated)
            }
            Operator::Like {
                insensitive,
                negated,
            } => {
                let (Some(text), Some(pattern)) = (left.as_text(), right.as_text()) else {
                    return Ok(Datum::Null);
                };
                self.steps_of((text.len() + pattern.len()) as u64 / 16)?;
                let found = match insensitive {
                    true => functions::like(&text.to_lowercase(), &pattern.to_lowercase())?,
                    false => functions::like(text, pattern)?,
                };
                truth(found != negated)
            }
            Operator::ConcatArrays | Operator::Append | Operator::Prepend => {
                unreachable!("they are handled above")
            }
        }
    }

    /// Returns a compiled regular expression.
    fn regex(&self, pattern: &str, insensitive: bool) -> Result<Rc<Regex>, CatalogueError> {
        let key = (pattern.to_owned(), insensitive);
        if let Some(known) = self.regexes.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        self.steps_of(1 + pattern.len() as u64)?;
        let made = Rc::new(functions::regex(pattern, insensitive)?);
        let mut known = self.regexes.borrow_mut();
        if known.len() >= REGEXES_MAX {
            known.clear();
        }
        known.insert(key, Rc::clone(&made));
        Ok(made)
    }
}

fn whole(
    left: &Datum,
    right: &Datum,
    compute: fn(i64, i64) -> i64,
) -> Result<Datum, CatalogueError> {
    let operands = left.as_int().zip(right.as_int());
    Ok(Datum::option(operands, |(left, right)| {
        Datum::Int(compute(left, right))
    }))
}

fn arithmetic(
    of: Oid,
    left: &Datum,
    right: &Datum,
    on_whole: fn(i64, i64) -> Option<i64>,
    on_float: fn(f64, f64) -> f64,
) -> Result<Datum, CatalogueError> {
    if types::kind(of) == Kind::Int {
        let operands = left.as_int().zip(right.as_int());
        let Some((left, right)) = operands else {
            return Ok(Datum::Null);
        };
        let out_of_range = || CatalogueError::out_of_range(types::sql_name(of));
        let result = on_whole(left, right).ok_or_else(out_of_range)?;
        return casts::whole(result, of);
    }
    let operands = left.as_float().zip(right.as_float());
    Ok(Datum::option(operands, |(left, right)| {
        Datum::float(on_float(left, right))
    }))
}

fn contains(left: &Datum, right: &Datum) -> bool {
    let (Some(left), Some(right)) = (left.as_array(), right.as_array()) else {
        return false;
    };
    right
        .items
        .iter()
        .all(|item| !item.is_null() && left.items.contains(item))
}

/// Returns the items of an array between two subscripts.
fn slice(array: &Datum, lower: Option<i64>, upper: Option<i64>) -> Datum {
    let Some(array) = array.as_array() else {
        return Datum::Null;
    };
    let ArrayDatum {
        lower: first,
        items,
    } = array;
    let numbered = (*first..).zip(items);
    let chosen = numbered.filter(|(number, _)| {
        lower.is_none_or(|lower| *number >= lower) && upper.is_none_or(|upper| *number <= upper)
    });
    Datum::array(chosen.map(|(_, item)| item.clone()))
}
