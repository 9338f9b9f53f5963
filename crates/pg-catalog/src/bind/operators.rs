//! Chooses operators by the types of their operands, and converts values to wanted types.

use sqlparser::ast::BinaryOperator;

use super::{Binder, Typed};
use crate::casts;
use crate::datum::Datum;
use crate::description::Oid;
use crate::error::CatalogueError;
use crate::plan::{Node, Operator, Output};
use crate::types::{self, Kind};

/// Returns the type to which values of several types are converted.
pub(super) fn common_type(
    found: impl IntoIterator<Item = Oid>,
    place: &str,
) -> Result<Oid, CatalogueError> {
    let mut common = types::UNKNOWN;
    for next in found {
        common = match (common, next) {
            (common, next) if common == next || next == types::UNKNOWN => common,
            (types::UNKNOWN, next) => next,
            (common, next) if types::is_number(common) && types::is_number(next) => {
                larger(common, next)
            }
            (common, next) if types::is_text(common) && types::is_text(next) => types::TEXT,
            (common, next) if types::is_whole(common) && types::is_whole(next) => {
                if types::is_number(common) {
                    next
                } else {
                    common
                }
            }
            (common, next)
                if types::kind(common) == Kind::Array && types::kind(next) == Kind::Array =>
            {
                common
            }
            (common, next) => {
                let text = format!(
                    "{place} types {} and {} cannot be matched",
                    types::sql_name(common),
                    types::sql_name(next)
                );
                return Err(CatalogueError::new("42804", text));
            }
        };
    }
    Ok(common)
}

/// Returns the one of two types of numbers that has the values of both.
fn larger(left: Oid, right: Oid) -> Oid {
    let order = [
        types::INT2,
        types::INT4,
        types::INT8,
        types::NUMERIC,
        types::FLOAT4,
        types::FLOAT8,
    ];
    let place = |oid: Oid| order.iter().position(|it| *it == oid).unwrap_or(0);
    order[place(left).max(place(right))]
}

/// Returns the symbol of an operator, without the schema in `OPERATOR(pg_catalog.…)`.
pub(super) fn symbol(operator: &BinaryOperator) -> Result<String, CatalogueError> {
    match operator {
        BinaryOperator::PGCustomBinaryOperator(parts) => match &parts[..] {
            [symbol] => Ok(symbol.clone()),
            [schema, symbol] if schema.eq_ignore_ascii_case("pg_catalog") => Ok(symbol.clone()),
            parts => Err(CatalogueError::new(
                "42883",
                format!("operator does not exist: {}", parts.join(".")),
            )),
        },
        other => Ok(other.to_string()),
    }
}

/// Returns an operator that takes two texts; none if the symbol is of none.
fn on_texts(symbol: &str) -> Option<Operator> {
    let regex = |insensitive, negated| Operator::Regex {
        insensitive,
        negated,
    };
    let like = |insensitive, negated| Operator::Like {
        insensitive,
        negated,
    };
    Some(match symbol {
        "~" => regex(false, false),
        "~*" => regex(true, false),
        "!~" => regex(false, true),
        "!~*" => regex(true, true),
        "~~" => like(false, false),
        "~~*" => like(true, false),
        "!~~" => like(false, true),
        "!~~*" => like(true, true),
        _ => return None,
    })
}

pub(super) fn comparison(symbol: &str) -> Option<Operator> {
    Some(match symbol {
        "=" => Operator::Equal,
        "<>" | "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => return None,
    })
}

fn missing(symbol: &str, left: &Typed, right: &Typed) -> CatalogueError {
    let text = format!(
        "operator does not exist: {} {symbol} {}",
        types::sql_name(left.type_oid),
        types::sql_name(right.type_oid)
    );
    let mut error = CatalogueError::new("42883", text);
    error.hint = Some(
        "No operator matches the given name and argument types. You might need to add explicit \
         type casts."
            .into(),
    );
    error
}

impl Binder<'_> {
    /// Binds an operator with two operands that are bound already.
    pub(super) fn operator(
        &mut self,
        symbol: &str,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, CatalogueError> {
        if let Some(operator) = comparison(symbol) {
            let (left, right) = self.comparable(symbol, left, right)?;
            let node = Node::Binary(operator, Box::new(left), Box::new(right));
            return Ok(Typed::new(node, types::BOOL));
        }
        if let Some(operator) = on_texts(symbol) {
            let (left, right) = self.texts(symbol, left, right)?;
            let node = Node::Binary(operator, Box::new(left), Box::new(right));
            return Ok(Typed::new(node, types::BOOL));
        }
        match symbol {
            "||" => self.concat(left, right),
            "+" | "-" | "*" | "/" | "%" | "&" | "|" => self.arithmetic(symbol, left, right),
            "@>" | "<@" | "&&" => {
                let (is_left, is_right) = (is_array(&left), is_array(&right));
                let (left, right) = match (is_left, is_right) {
                    (true, _) => {
                        let array = left.type_oid;
                        (left.node, self.coerce(right, array)?)
                    }
                    (false, true) => {
                        let array = right.type_oid;
                        (self.coerce(left, array)?, right.node)
                    }
                    (false, false) => return Err(missing(symbol, &left, &right)),
                };
                let operator = match symbol {
                    "@>" => Operator::Contains,
                    "<@" => Operator::ContainedBy,
                    _ => Operator::Overlaps,
                };
                let node = Node::Binary(operator, Box::new(left), Box::new(right));
                Ok(Typed::new(node, types::BOOL))
            }
            _ => Err(missing(symbol, &left, &right)),
        }
    }

    /// Converts the operands of a comparison to types whose values can be compared.
    pub(super) fn comparable(
        &mut self,
        symbol: &str,
        left: Typed,
        right: Typed,
    ) -> Result<(Node, Node), CatalogueError> {
        let (left_type, right_type) = (left.type_oid, right.type_oid);
        match (left.is_unknown(), right.is_unknown()) {
            (true, true) => Ok((
                self.coerce(left, types::TEXT)?,
                self.coerce(right, types::TEXT)?,
            )),
            (true, false) => Ok((self.coerce(left, right_type)?, right.node)),
            (false, true) => Ok((left.node, self.coerce(right, left_type)?)),
            (false, false) => {
                let kinds = (types::kind(left_type), types::kind(right_type));
                let fits = match kinds {
                    (Kind::Text, Kind::Text) => {
                        left_type == right_type
                            || (types::is_text(left_type) && types::is_text(right_type))
                    }
                    (Kind::Int, Kind::Int) => {
                        left_type == right_type
                            || types::is_whole(left_type) == types::is_whole(right_type)
                    }
                    (Kind::Int | Kind::Float, Kind::Int | Kind::Float) => {
                        types::is_number(left_type) && types::is_number(right_type)
                    }
                    (left, right) => left == right,
                };
                match fits {
                    true => Ok((left.node, right.node)),
                    false => Err(missing(symbol, &left, &right)),
                }
            }
        }
    }

    fn texts(
        &mut self,
        symbol: &str,
        left: Typed,
        right: Typed,
    ) -> Result<(Node, Node), CatalogueError> {
        match types::is_text(left.type_oid) && types::is_text(right.type_oid) {
            true => Ok((
                self.coerce(left, types::TEXT)?,
                self.coerce(right, types::TEXT)?,
            )),
            false => Err(missing(symbol, &left, &right)),
        }
    }

    fn concat(&mut self, left: Typed, right: Typed) -> Result<Typed, CatalogueError> {
        let (operator, left, right, result) = match (is_array(&left), is_array(&right)) {
            (true, true) => (Operator::ConcatArrays, left.node, right.node, left.type_oid),
            (true, false) => {
                let array = left.type_oid;
                let element = types::element(array).unwrap_or(types::TEXT);
                // A literal next to an array is an array, too.
                match right.is_unknown() {
                    true => (
                        Operator::ConcatArrays,
                        left.node,
                        self.coerce(right, array)?,
                        array,
                    ),
                    false => (
                        Operator::Append,
                        left.node,
                        self.coerce(right, element)?,
                        array,
                    ),
                }
            }
            (false, true) => {
                let array = right.type_oid;
                let element = types::element(array).unwrap_or(types::TEXT);
                match left.is_unknown() {
                    true => (
                        Operator::ConcatArrays,
                        self.coerce(left, array)?,
                        right.node,
                        array,
                    ),
                    false => (
                        Operator::Prepend,
                        self.coerce(left, element)?,
                        right.node,
                        array,
                    ),
                }
            }
            (false, false) => {
                if !types::is_text(left.type_oid) && !types::is_text(right.type_oid) {
                    return Err(missing("||", &left, &right));
                }
                let left = self.cast(left, types::TEXT)?;
                (
                    Operator::Concat,
                    left.node,
                    self.cast(right, types::TEXT)?.node,
                    types::TEXT,
                )
            }
        };
        let node = Node::Binary(operator, Box::new(left), Box::new(right));
        Ok(Typed::new(node, result))
    }

    fn arithmetic(
        &mut self,
        symbol: &str,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, CatalogueError> {
        let (left_type, right_type) = (left.type_oid, right.type_oid);
        let result = match (left.is_unknown(), right.is_unknown()) {
            (true, true) => return Err(missing(symbol, &left, &right)),
            (true, false) => right_type,
            (false, true) => left_type,
            (false, false) if types::is_number(left_type) && types::is_number(right_type) => {
                larger(left_type, right_type)
            }
            (false, false) if types::is_whole(left_type) && types::is_whole(right_type) => {
                types::INT8
            }
            (false, false) => return Err(missing(symbol, &left, &right)),
        };
        if !types::is_number(result) && !types::is_whole(result) {
            return Err(missing(symbol, &left, &right));
        }
        let operator = match symbol {
            "+" => Operator::Add(result),
            "-" => Operator::Subtract(result),
            "*" => Operator::Multiply(result),
            "/" => Operator::Divide(result),
            "%" => Operator::Modulo(result),
            "&" if types::is_whole(result) => Operator::BitAnd,
            "|" if types::is_whole(result) => Operator::BitOr,
            _ => return Err(missing(symbol, &left, &right)),
        };
        let left = self.coerce(left, result)?;
        let right = self.coerce(right, result)?;
        let node = Node::Binary(operator, Box::new(left), Box::new(right));
        Ok(Typed::new(node, result))
    }

    /// Returns an expression as a value of a type, if PostgreSQL converts it without a cast.
    pub(super) fn coerce(&mut self, typed: Typed, to: Oid) -> Result<Node, CatalogueError> {
        let from = typed.type_oid;
        if from == to || to == types::ANY || to == types::UNKNOWN {
            return Ok(typed.node);
        }
        if from == types::UNKNOWN {
            return self.cast(typed, to).map(|it| it.node);
        }
        match fits(from, to) {
            true => Ok(self.cast(typed, to)?.node),
            false => {
                let text = format!(
                    "a value of type {} is needed, but the expression is of type {}",
                    types::sql_name(to),
                    types::sql_name(from)
                );
                Err(CatalogueError::new("42804", text))
            }
        }
    }

    /// Binds a cast.
    pub(super) fn cast(&mut self, typed: Typed, to: Oid) -> Result<Typed, CatalogueError> {
        let from = typed.type_oid;
        if from == to {
            return Ok(typed);
        }
        if self.is_strict {
            super::check_exact(to)?;
        }
        if from == types::UNKNOWN {
            match typed.node {
                Node::Parameter(position) => {
                    self.parameters[position].get_or_insert(to);
                    return Ok(Typed::new(Node::Parameter(position), to));
                }
                Node::Constant(Datum::Text(text)) if !names_objects(to) => {
                    let value = casts::parse(&text, to)?;
                    return Ok(Typed::new(Node::Constant(value), to));
                }
                Node::Constant(Datum::Null) => {
                    return Ok(Typed::new(Node::Constant(Datum::Null), to));
                }
                _ => {}
            }
        }
        if !casts::exists(from, to) {
            let text = format!(
                "cannot cast type {} to {}",
                types::sql_name(from),
                types::sql_name(to)
            );
            return Err(CatalogueError::new("42846", text));
        }
        let inner = Box::new(typed.node);
        Ok(Typed::new(Node::Cast { inner, from, to }, to))
    }
}

/// Returns whether the text of a value is the name of an object, so that the catalogue must be
/// asked for it.
fn names_objects(type_oid: Oid) -> bool {
    types::is_reg(type_oid) || types::element(type_oid).is_some_and(types::is_reg)
}

pub(super) fn is_array(typed: &Typed) -> bool {
    types::kind(typed.type_oid) == Kind::Array
}

/// Returns whether PostgreSQL converts values of a type without a cast.
pub(super) fn fits(from: Oid, to: Oid) -> bool {
    if from == to || from == types::UNKNOWN || to == types::ANY || to == types::ANYELEMENT {
        return true;
    }
    match (types::kind(from), types::kind(to)) {
        (Kind::Array, Kind::Array) => {
            to == types::ANYARRAY
                || match (types::element(from), types::element(to)) {
                    (Some(from), Some(to)) => fits(from, to),
                    _ => false,
                }
        }
        (Kind::Text, Kind::Text) => types::is_text(from) && types::is_text(to),
        (Kind::Int, Kind::Int) if types::is_number(from) && types::is_number(to) => {
            larger(from, to) == to
        }
        (Kind::Int, Kind::Int) => types::is_whole(from) == types::is_whole(to),
        (Kind::Int, Kind::Float) => types::is_number(from),
        (Kind::Float, Kind::Float) => true,
        _ => false,
    }
}

/// Returns the type of the only column of a query.
pub(super) fn only_column(columns: &[Output]) -> Result<Oid, CatalogueError> {
    match columns {
        [column] => Ok(column.type_oid),
        _ => Err(CatalogueError::syntax(
            "subquery must return only one column",
        )),
    }
}

/// Returns PostgreSQL's error for a function that does not exist.
pub(super) fn no_function(name: &str, arguments: &[Typed]) -> CatalogueError {
    let types: Vec<&str> = arguments
        .iter()
        .map(|it| types::sql_name(it.type_oid))
        .collect();
    let text = format!("function {name}({}) does not exist", types.join(", "));
    let mut error = CatalogueError::new("42883", text);
    error.hint = Some(
        "No function matches the given name and argument types. You might need to add explicit \
         type casts."
            .into(),
    );
    error
}
