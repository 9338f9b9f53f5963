//! Translates operators of SQL to the few operators that the store evaluates.

use std::cmp::Ordering;

use placement::{ColumnType, Numeric, NumericRef, TEXT_LIMIT_MAX, TextFunction, Value};
use protocol::expression::{
    BinaryOperator, Expression, ExpressionError, FunctionCall, NODES_MAX, ScalarFunction,
    UnaryOperator,
};
use sqlparser::ast::{self, Expr};

use super::like::Like;
use super::literal::{are_other_texts, concatenation};
use super::{Bound, Scope, converted, expression_error, literal};
use crate::error::{SqlError, sqlstate};

/// The position of a number among the 64-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is below all of them.
    Below,
    /// It equals this one.
    At(i64),
    /// It lies between this one and the next one.
    After(i64),
    /// It is above all of them.
    Above,
}

impl Place {
    /// Returns the position of a number. NaN is above all integers.
    pub(super) fn of(number: NumericRef<'_>) -> Place {
        let floor = number.floor().ok();
        let integer = floor.as_ref().map(|it| it.as_ref().to_integer());
        match integer {
            Some(Ok(Some(integer))) if Numeric::from(integer).as_ref() == number => {
                Place::At(integer)
            }
            Some(Ok(Some(i64::MAX))) => Place::Above,
            Some(Ok(Some(integer))) => Place::After(integer),
            _ if number.signum() == Some(-1) => Place::Below,
            _ => Place::Above,
        }
    }
}

/// Returns the number that an operand is, if it is a constant that is no double.
fn constant_number(operand: &Bound) -> Option<Numeric> {
    match operand {
        Bound::Number(number) => Numeric::parse(number).ok(),
        Bound::Typed(Expression::Literal(Value::Numeric(number)), _) => Some(number.clone()),
        _ => None,
    }
}

/// Returns the operands of a chain of one operator, from left to right. Chains can be long, so the
/// function does not recurse.
pub(crate) fn chain<'e>(expression: &'e Expr, operator: &ast::BinaryOperator) -> Vec<&'e Expr> {
    let mut operands = Vec::new();
    let mut open = vec![expression];
    while let Some(next) = open.pop() {
        match next {
            Expr::BinaryOp { left, op, right } if op == operator => {
                open.push(right);
                open.push(left);
            }
            Expr::Nested(inner) => open.push(inner),
            operand => operands.push(operand),
        }
    }
    operands
}

/// Returns whether `||` joins two values of a type other than text.
fn has_own_join(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Bytes | ColumnType::Jsonb)
}

/// Appends the conjuncts of a condition to a list.
pub(super) fn split_conjunction(condition: Expression, conjuncts: &mut Vec<Expression>) {
    match condition {
        Expression::Binary(BinaryOperator::And, left, right) => {
            split_conjunction(*left, conjuncts);
            split_conjunction(*right, conjuncts);
        }
        other => conjuncts.push(other),
    }
}

impl Scope<'_> {
    pub(super) fn bind_operator(&self, expression: &Expr, depth: usize) -> Result<Bound, SqlError> {
        match expression {
            Expr::UnaryOp { op, expr } => self.bind_unary(*op, expr, expression, depth),
            Expr::BinaryOp {
                op: op @ (ast::BinaryOperator::And | ast::BinaryOperator::Or),
                ..
            } => self.bind_chain(op, expression, depth),
            Expr::BinaryOp { left, op, right } => {
                if let (Expr::Tuple(left), Expr::Tuple(right)) = (&**left, &**right) {
                    return self.bind_tuples(left, op, right, expression);
                }
                if let Some(regex) = regex_operator(op) {
                    return self.bind_regex((left, right), regex, expression, depth);
                }
                let operator = binary_operator(op, expression)?;
                let left = self.bind(left, depth + 1)?;
                let right = self.bind(right, depth + 1)?;
                self.binary(operator, left, right, expression)
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let value = self.bind(expr, depth + 1)?;
                let low = self.bind(low, depth + 1)?;
                let high = self.bind(high, depth + 1)?;
                let above =
                    self.binary(BinaryOperator::GreaterEqual, value.clone(), low, expression)?;
                let below = self.binary(BinaryOperator::LessEqual, value, high, expression)?;
                let both = self.binary(BinaryOperator::And, above, below, expression)?;
                self.negated(both, *negated, expression)
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => self.bind_in(expr, list, *negated, expression),
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => {
                let like = Like {
                    text: expr,
                    pattern,
                    escape: escape_char.as_deref(),
                };
                let like = self.bind_like(&like, expression, depth)?;
                self.negated(like, *negated, expression)
            }
            _ => self.bind_test(expression, depth),
        }
    }

    /// Binds an operator of regular expressions.
    fn bind_regex(
        &self,
        (text, pattern): (&Expr, &Expr),
        regex: RegexOperator,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        let function = ScalarFunction::Text(TextFunction::RegexpLike);
        let mut operands = Vec::with_capacity(3);
        for (place, operand) in [text, pattern].into_iter().enumerate() {
            let operand = self.bind(operand, depth + 1)?;
            operands.push(self.bind_operand(function, (place, 2), operand, source)?);
        }
        if regex.ignores_case {
            operands.push(Expression::Literal(Value::Text("i".into())));
        }
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        let matches = self.compound(call, source)?;
        self.negated(matches, regex.is_negated, source)
    }

    /// Binds a test such as `IS NULL` or `IS TRUE`, whose result is never NULL.
    fn bind_test(&self, expression: &Expr, depth: usize) -> Result<Bound, SqlError> {
        let unary = |operator, operand| Expression::Unary(operator, Box::new(operand));
        let and =
            |left, right| Expression::Binary(BinaryOperator::And, Box::new(left), Box::new(right));
        let (test, negated) = match expression {
            Expr::IsNull(inner) | Expr::IsUnknown(inner) => {
                let operand = self.operand(inner, None, depth)?;
                (unary(UnaryOperator::IsNull, operand), false)
            }
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => {
                let operand = self.operand(inner, None, depth)?;
                (unary(UnaryOperator::IsNotNull, operand), false)
            }
            Expr::IsTrue(inner) | Expr::IsNotTrue(inner) => {
                let operand = self.operand(inner, Some(ColumnType::Bool), depth)?;
                let known = unary(UnaryOperator::IsNotNull, operand.clone());
                let negated = matches!(expression, Expr::IsNotTrue(_));
                (and(known, operand), negated)
            }
            Expr::IsFalse(inner) | Expr::IsNotFalse(inner) => {
                let operand = self.operand(inner, Some(ColumnType::Bool), depth)?;
                let known = unary(UnaryOperator::IsNotNull, operand.clone());
                let negated = matches!(expression, Expr::IsNotFalse(_));
                (and(known, unary(UnaryOperator::Not, operand)), negated)
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                let (left, right) = (self.bind(left, depth + 1)?, self.bind(right, depth + 1)?);
                let (left, right) = self.operands(left, right, expression)?;
                let test = |operator| {
                    and(
                        unary(operator, left.clone()),
                        unary(operator, right.clone()),
                    )
                };
                let nulls = test(UnaryOperator::IsNull);
                let values = test(UnaryOperator::IsNotNull);
                let equal = Expression::Binary(
                    BinaryOperator::Equal,
                    Box::new(left.clone()),
                    Box::new(right.clone()),
                );
                let same = Expression::Binary(
                    BinaryOperator::Or,
                    Box::new(nulls),
                    Box::new(and(values, equal)),
                );
                (same, matches!(expression, Expr::IsDistinctFrom(..)))
            }
            other => {
                return Err(SqlError::unsupported(
                    format!("\"{other}\""),
                    "expressions know columns, constants, AND, OR, NOT, comparisons, IN, BETWEEN, \
                     LIKE, IS NULL, + - * / % and ||",
                ));
            }
        };
        let test = self.compound(test, expression)?;
        self.negated(test, negated, expression)
    }

    fn operand(
        &self,
        operand: &Expr,
        context: Option<ColumnType>,
        depth: usize,
    ) -> Result<Expression, SqlError> {
        let bound = self.bind(operand, depth + 1)?;
        Ok(self.resolve(bound, context, operand)?.0)
    }

    fn bind_unary(
        &self,
        operator: ast::UnaryOperator,
        operand: &Expr,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        if let Expr::BinaryOp {
            op: ast::BinaryOperator::PGExp,
            ..
        } = operand
        {
            return Err(SqlError::unsupported(
                format!("\"{source}\""),
                "PostgreSQL applies the sign before the power: write (-a) ^ b or -(a ^ b)",
            ));
        }
        let bound = self.bind(operand, depth + 1)?;
        match (operator, bound) {
            (ast::UnaryOperator::Plus, bound @ Bound::Number(_)) => Ok(bound),
            (ast::UnaryOperator::Plus, Bound::Typed(operand, found))
                if found.is_none_or(ColumnType::is_number) =>
            {
                Ok(Bound::Typed(operand, found.map(ColumnType::of_values)))
            }
            // The smallest int64 has no positive counterpart, so the sign belongs to the literal.
            (ast::UnaryOperator::Minus, Bound::Number(number)) => {
                Ok(Bound::Number(match number.strip_prefix('-') {
                    Some(positive) => positive.to_string(),
                    None => format!("-{number}"),
                }))
            }
            (ast::UnaryOperator::Minus, bound) => {
                let (bound, found) = self.resolve(bound, Some(ColumnType::Float64), operand)?;
                let (operand, _) = self.as_interval(bound, found, operand)?;
                let negation = Expression::Unary(UnaryOperator::Negate, Box::new(operand));
                self.compound(negation, source)
            }
            (ast::UnaryOperator::Not, bound) => self.negated(bound, true, source),
            _ => Err(SqlError::unsupported(
                format!("the operator of {source}"),
                "the operators with one operand are NOT, + and -",
            )),
        }
    }

    pub(super) fn negated(
        &self,
        bound: Bound,
        negate: bool,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        if !negate {
            return Ok(bound);
        }
        let (operand, _) = self.resolve(bound, Some(ColumnType::Bool), source)?;
        self.compound(
            Expression::Unary(UnaryOperator::Not, Box::new(operand)),
            source,
        )
    }

    fn bind_chain(
        &self,
        operator: &ast::BinaryOperator,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        let mut operands = Vec::new();
        for part in chain(source, operator) {
            let bound = self.bind(part, depth + 1)?;
            let (operand, found) = self.resolve(bound, Some(ColumnType::Bool), part)?;
            if !matches!(found, None | Some(ColumnType::Bool)) {
                return Err(expression_error(
                    part,
                    ExpressionError::NotBoolean { found },
                ));
            }
            operands.push(operand);
        }
        let joined = match operator {
            ast::BinaryOperator::And => Expression::all(operands),
            _ => Expression::any(operands),
        };
        self.compound(joined.expect("a chain has two operands"), source)
    }

    fn bind_tuples(
        &self,
        left: &[Expr],
        operator: &ast::BinaryOperator,
        right: &[Expr],
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        let negated = match operator {
            ast::BinaryOperator::Eq => false,
            ast::BinaryOperator::NotEq => true,
            _ => {
                return Err(SqlError::unsupported(
                    format!("\"{source}\""),
                    "compare lists by = or <>, or column by column",
                ));
            }
        };
        if left.len() != right.len() || left.is_empty() {
            return Err(SqlError::with_state(
                sqlstate::SYNTAX,
                format!(
                    "in {source}: the lists have {} and {} members: give both as many",
                    left.len(),
                    right.len()
                ),
            ));
        }
        let mut equalities = Vec::new();
        for (left, right) in left.iter().zip(right) {
            let (left, right) = (self.bind(left, 1)?, self.bind(right, 1)?);
            let equal = self.binary(BinaryOperator::Equal, left, right, source)?;
            equalities.push(self.resolve(equal, None, source)?.0);
        }
        let all = Expression::all(equalities).expect("the lists are not empty");
        let bound = self.compound(all, source)?;
        self.negated(bound, negated, source)
    }

    fn bind_in(
        &self,
        value: &Expr,
        list: &[Expr],
        negated: bool,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        let mut alternatives = Vec::with_capacity(list.len());
        if let Expr::Tuple(left) = value {
            for member in list {
                let Expr::Tuple(right) = member else {
                    return Err(SqlError::statement(format!(
                        "in {source}: {member} is no list: write (a, b) IN ((1, 2), (3, 4))"
                    )));
                };
                alternatives.push(self.bind_tuples(
                    left,
                    &ast::BinaryOperator::Eq,
                    right,
                    source,
                )?);
            }
        } else {
            let left = self.bind(value, 1)?;
            for right in self.bind_members(&left, list, source)? {
                let equal = self.binary(BinaryOperator::Equal, left.clone(), right, source)?;
                alternatives.push(equal);
            }
        }
        let alternatives = alternatives.into_iter();
        let alternatives = alternatives.map(|it| Ok(self.resolve(it, None, source)?.0));
        let alternatives = alternatives.collect::<Result<_, SqlError>>()?;
        let any = Expression::any(alternatives).unwrap_or(Expression::Literal(Value::Bool(false)));
        let bound = self.compound(any, source).map_err(|error| match error {
            SqlError::Expression {
                error: ExpressionError::TooCostly,
                ..
            } => long_list(value, list.len()),
            other => other,
        })?;
        self.negated(bound, negated, source)
    }

    /// Returns the members of a list. As in PostgreSQL they are of one type: where one of several
    /// constants is a double, its numbers are, and beside a real several numbers are reals.
    fn bind_members(
        &self,
        left: &Bound,
        list: &[Expr],
        source: &Expr,
    ) -> Result<Vec<Bound>, SqlError> {
        let members = list.iter().map(|member| self.bind(member, 1));
        let mut members: Vec<Bound> = members.collect::<Result<_, _>>()?;
        let is_double = |it: &Bound| {
            matches!(
                it,
                Bound::Typed(Expression::Literal(_), Some(ColumnType::Float64))
            )
        };
        let is_real = matches!(left, Bound::Typed(_, Some(ColumnType::Float32)));
        let to = match members.iter().any(is_double) {
            true => ColumnType::Float64,
            false if is_real && members.len() > 1 => ColumnType::Float32,
            false => return Ok(members),
        };
        for member in &mut members {
            let float = match member {
                Bound::Typed(Expression::Literal(value), Some(found))
                    if found.is_integer() || found.is_numeric() =>
                {
                    Expression::Literal(literal::cast(value, to, source)?)
                }
                Bound::Number(text) | Bound::Quoted(text) => {
                    Expression::Literal(literal::quoted(text, to, "")?)
                }
                Bound::Typed(..) => continue,
            };
            *member = Bound::Typed(float, Some(to));
        }
        Ok(members)
    }

    // tidy: long — some operators give their operands types by rules of their own.
    pub(super) fn binary(
        &self,
        operator: BinaryOperator,
        left: Bound,
        right: Bound,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        if operator == BinaryOperator::Concatenate
            && let Some(function) = concatenation(left.context(), right.context())
        {
            return self.bind_array_call(function, vec![left, right], source);
        }
        if are_other_texts(&left, &right) {
            let (left, right) = (left.context(), right.context());
            return Err(expression_error(
                source,
                ExpressionError::WrongTypes {
                    operator,
                    left,
                    right,
                },
            ));
        }
        if operator.is_comparison() {
            let is_integer = |found: &Option<ColumnType>| found.is_some_and(|it| it.is_integer());
            if let (Bound::Typed(operand, found), Some(number)) = (&left, constant_number(&right))
                && is_integer(found)
            {
                return self.beside_number(operator, operand, &number, source);
            }
            if let (Some(number), Bound::Typed(operand, found)) = (constant_number(&left), &right)
                && is_integer(found)
            {
                return self.beside_number(mirrored(operator), operand, &number, source);
            }
        }
        let (left, right) = self.time_operands(operator, (left, right), source)?;
        let types = (left.context(), right.context());
        let (left, right) = match operator {
            BinaryOperator::Like => {
                let text = Some(ColumnType::Text);
                (
                    self.resolve(left, text, source)?.0,
                    self.resolve(right, text, source)?.0,
                )
            }
            BinaryOperator::JsonMember
            | BinaryOperator::JsonMemberText
            | BinaryOperator::HasKey
            | BinaryOperator::Subtract
                if operator != BinaryOperator::Subtract || is_jsonb(&left) =>
            {
                let text = Some(ColumnType::Text);
                let left = match self.resolve(left, None, source)? {
                    // The type of a NULL is that of its cast.
                    (null @ Expression::Literal(Value::Null), Some(found)) => {
                        converted(null, found)
                    }
                    (left, _) => left,
                };
                (left, self.resolve(right, text, source)?.0)
            }
            BinaryOperator::Concatenate => self.concatenated(left, right, source)?,
            _ if operator.is_comparison() => {
                let (left, right) = without_spaces(left, right);
                self.operands(left, right, source)?
            }
            _ => self.operands(left, right, source)?,
        };
        if let Some(later) = self.bind_later(operator, (&left, &right), types, source)? {
            return Ok(later);
        }
        self.compound(
            Expression::Binary(operator, Box::new(left), Box::new(right)),
            source,
        )
    }

    /// Returns the operands of `||`.
    fn concatenated(
        &self,
        left: Bound,
        right: Bound,
        source: &Expr,
    ) -> Result<(Expression, Expression), SqlError> {
        // Beside a value of another type, a literal is a text.
        let context = |bound: &Bound| {
            let found = bound.context().map(ColumnType::of_values);
            found.filter(has_own_join).or(Some(ColumnType::Text))
        };
        let (of_left, of_right) = (context(&left), context(&right));
        let left = self.resolve(left, of_right, source)?;
        let right = self.resolve(right, of_left, source)?;
        let is_text =
            |it: Option<ColumnType>| it.is_some_and(|it| it.of_values() == ColumnType::Text);
        let (of_left, of_right) = (left.1, right.1);
        // Any value can be appended to a text, or a text to it.
        let joined = |(operand, found): (Expression, Option<ColumnType>), other| match found {
            Some(found) if is_text(Some(found)) => Ok(operand),
            Some(found) if is_text(other) || (other.is_none() && !has_own_join(&found)) => {
                self.converted(operand, (found, ColumnType::Text), source)
            }
            _ => Ok(operand),
        };
        Ok((joined(left, of_right)?, joined(right, of_left)?))
    }

    /// Returns an integer compared with a number that need not be one, as decimal numbers compare.
    fn beside_number(
        &self,
        operator: BinaryOperator,
        operand: &Expression,
        number: &Numeric,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        let place = Place::of(number.as_ref());
        let below = matches!(place, Place::After(_) | Place::Above);
        let (operator, right) = match (operator, place) {
            (operator, Place::At(value)) => (operator, Value::Int64(value)),
            (BinaryOperator::Less | BinaryOperator::LessEqual, Place::After(floor)) => {
                (BinaryOperator::LessEqual, Value::Int64(floor))
            }
            (BinaryOperator::Greater | BinaryOperator::GreaterEqual, Place::After(floor)) => {
                (BinaryOperator::Greater, Value::Int64(floor))
            }
            (operator, _) => {
                // It holds for all integers or for none, and is NULL beside NULL.
                let order = if below {
                    Ordering::Less
                } else {
                    Ordering::Greater
                };
                let operator = match holds(operator, order) {
                    true => BinaryOperator::Equal,
                    false => BinaryOperator::NotEqual,
                };
                let operand = || Box::new(operand.clone());
                let constant = Expression::Binary(operator, operand(), operand());
                return self.compound(constant, source);
            }
        };
        let right = Box::new(Expression::Literal(right));
        let comparison = Expression::Binary(operator, Box::new(operand.clone()), right);
        self.compound(comparison, source)
    }

    /// Returns two operands, each literal typed by the other one.
    pub(super) fn operands(
        &self,
        left: Bound,
        right: Bound,
        source: &Expr,
    ) -> Result<(Expression, Expression), SqlError> {
        let (left_context, right_context) = (left.context(), right.context());
        // A constant is converted once, and not for each row.
        let resolved = |bound, context: Option<ColumnType>| -> Result<Expression, SqlError> {
            match self.resolve(bound, context, source)?.0 {
                Expression::Literal(value @ Value::Numeric(_))
                    if context.is_some_and(ColumnType::is_float) =>
                {
                    let double = literal::cast(&value, ColumnType::Float64, source)?;
                    Ok(Expression::Literal(double))
                }
                resolved => Ok(resolved),
            }
        };
        let operands = (
            resolved(left, right_context)?,
            resolved(right, left_context)?,
        );
        self.in_one_zone(operands, (left_context, right_context), source)
    }
}

fn is_jsonb(bound: &Bound) -> bool {
    matches!(bound, Bound::Typed(_, Some(ColumnType::Jsonb)))
}

/// Returns the operands of a comparison. Beside a `char`, the spaces at the end of a `varchar` do
/// not count, as in PostgreSQL; those of a `text` do.
fn without_spaces(left: Bound, right: Bound) -> (Bound, Bound) {
    let stripped = |bound: Bound| match bound {
        Bound::Typed(inner, Some(ColumnType::Varchar(_))) => {
            let to = ColumnType::Char(TEXT_LIMIT_MAX);
            Bound::Typed(converted(inner, to), Some(to))
        }
        other => other,
    };
    let is_char = |bound: &Bound| matches!(bound, Bound::Typed(_, Some(ColumnType::Char(_))));
    match (is_char(&left), is_char(&right)) {
        (true, false) => (left, stripped(right)),
        (false, true) => (stripped(left), right),
        _ => (left, right),
    }
}

/// Returns the error for a list after `IN` that is too long, with the longest possible length.
fn long_list(value: &Expr, members: usize) -> SqlError {
    /// Parts of the expression that a comparison of one column takes, with the OR before it.
    const PARTS: usize = 4;
    let columns = match value {
        Expr::Tuple(columns) => columns.len().max(1),
        _ => 1,
    };
    SqlError::with_state(
        sqlstate::LIMIT,
        format!(
            "the list after {value} IN has {members} members, and at most {} fit into one statement: \
         split it over several",
            NODES_MAX / PARTS / columns
        ),
    )
}

/// Returns whether a comparison holds for operands of this order.
fn holds(operator: BinaryOperator, order: Ordering) -> bool {
    match operator {
        BinaryOperator::Equal => order.is_eq(),
        BinaryOperator::NotEqual => order.is_ne(),
        BinaryOperator::Less => order.is_lt(),
        BinaryOperator::LessEqual => order.is_le(),
        BinaryOperator::Greater => order.is_gt(),
        BinaryOperator::GreaterEqual => order.is_ge(),
        _ => unreachable!("only comparisons come here"),
    }
}

/// Returns the operator that means the same with its operands exchanged.
fn mirrored(operator: BinaryOperator) -> BinaryOperator {
    match operator {
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessEqual => BinaryOperator::GreaterEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterEqual => BinaryOperator::LessEqual,
        same => same,
    }
}

/// An operator of regular expressions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegexOperator {
    ignores_case: bool,
    is_negated: bool,
}

/// Returns what kind of an operator of regular expressions this is; none of another operator.
pub(crate) fn regex_operator(operator: &ast::BinaryOperator) -> Option<RegexOperator> {
    let (ignores_case, is_negated) = match operator {
        ast::BinaryOperator::PGRegexMatch => (false, false),
        ast::BinaryOperator::PGRegexIMatch => (true, false),
        ast::BinaryOperator::PGRegexNotMatch => (false, true),
        ast::BinaryOperator::PGRegexNotIMatch => (true, true),
        _ => return None,
    };
    Some(RegexOperator {
        ignores_case,
        is_negated,
    })
}

pub(crate) fn binary_operator(
    operator: &ast::BinaryOperator,
    source: &Expr,
) -> Result<BinaryOperator, SqlError> {
    Ok(match operator {
        ast::BinaryOperator::Eq => BinaryOperator::Equal,
        ast::BinaryOperator::NotEq => BinaryOperator::NotEqual,
        ast::BinaryOperator::Lt => BinaryOperator::Less,
        ast::BinaryOperator::LtEq => BinaryOperator::LessEqual,
        ast::BinaryOperator::Gt => BinaryOperator::Greater,
        ast::BinaryOperator::GtEq => BinaryOperator::GreaterEqual,
        ast::BinaryOperator::Plus => BinaryOperator::Add,
        ast::BinaryOperator::Minus => BinaryOperator::Subtract,
        ast::BinaryOperator::Multiply => BinaryOperator::Multiply,
        ast::BinaryOperator::Divide => BinaryOperator::Divide,
        ast::BinaryOperator::Modulo => BinaryOperator::Modulo,
        ast::BinaryOperator::StringConcat => BinaryOperator::Concatenate,
        ast::BinaryOperator::Arrow => BinaryOperator::JsonMember,
        ast::BinaryOperator::LongArrow => BinaryOperator::JsonMemberText,
        ast::BinaryOperator::AtArrow => BinaryOperator::Contains,
        ast::BinaryOperator::ArrowAt => BinaryOperator::ContainedBy,
        ast::BinaryOperator::Question => BinaryOperator::HasKey,
        ast::BinaryOperator::PGOverlap => BinaryOperator::Overlaps,
        other => {
            return Err(SqlError::unsupported(
                format!("the operator {other} of {source}"),
                "the operators are comparisons, LIKE, ~ ~* !~ !~*, AND, OR, NOT, + - * / % ||, of \
                 arrays @> <@ and &&, and of JSON -> ->> #> #>> @> <@ ? ?| ?& and #-",
            ));
        }
    })
}
