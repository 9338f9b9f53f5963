//! Expressions over one row: conditions, filters and assignments. The core that has the row
//! evaluates them.
//!
//! A condition makes an update atomic (HyperDex's conditional operations). An assignment such as
//! `n = n + 1` is evaluated at the primary partition under the key's lock. Three-valued logic, as
//! in SQL: a comparison with NULL is NULL, and a condition that is NULL does not hold. Functions,
//! subqueries and anything else that needs more than the row are left out.
//!
//! `check` types an expression once per request, `evaluate` runs it per row.

mod budget;
mod check;
mod evaluate;
mod like;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use placement::{ColumnType, ROW_BYTES_MAX, Value};

use crate::codec::{DEPTH_MAX, wire_enum, wire_struct};

pub use budget::STEPS_MAX;
pub use check::{NODES_MAX, Scope, check, check_assignable, check_condition};
pub use evaluate::{Columns, evaluate, evaluate_for, holds};

/// A tree over the columns of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// The value of a column of the row as it is, by position.
    Column(u16),
    /// The value of a column of the row proposed for insertion (`EXCLUDED.c` of an upsert).
    Excluded(u16),
    /// A constant.
    Literal(Value),
    /// One operand.
    Unary(UnaryOperator, Box<Expression>),
    /// Two operands.
    Binary(BinaryOperator, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// Returns whether a condition holds for every column of the present row that is named. The
    /// depth is limited, because expressions are decoded with a limit.
    pub fn all_columns(&self, holds: &impl Fn(u16) -> bool) -> bool {
        match self {
            Expression::Column(column) => holds(*column),
            Expression::Excluded(_) | Expression::Literal(_) => true,
            Expression::Unary(_, operand) => operand.all_columns(holds),
            Expression::Binary(_, left, right) => {
                left.all_columns(holds) && right.all_columns(holds)
            }
        }
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOperator {
    /// Boolean negation.
    Not,
    /// Arithmetic negation.
    Negate,
    /// True for NULL, never NULL itself.
    IsNull,
    /// False for NULL, never NULL itself.
    IsNotNull,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    /// Logical AND.
    And,
    /// Logical OR.
    Or,
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less.
    Less,
    /// Less or equal.
    LessEqual,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterEqual,
    /// Sum; an overflow is an error.
    Add,
    /// Difference; an overflow is an error.
    Subtract,
    /// Product; an overflow is an error.
    Multiply,
    /// Quotient; by zero is an error; of integers, truncated.
    Divide,
    /// Remainder; by zero is an error.
    Modulo,
    /// The concatenation of two strings or byte strings.
    Concatenate,
    /// Text matches a pattern with `%` and `_`.
    Like,
}

/// One column's new value in an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column's position.
    pub column: u16,
    /// The column's new value, computed from the row as it was before the update.
    pub value: Expression,
}

/// Why an expression has no type or no value. Retrying does not help: the statement or the row is
/// at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionError {
    /// The table has no column at this position.
    UnknownColumn {
        /// The position.
        column: u16,
    },
    /// `EXCLUDED` where no row is proposed.
    NoExcluded,
    /// A binary operator between types that it does not know. None is NULL.
    WrongTypes {
        /// The operator.
        operator: BinaryOperator,
        /// The type of the left operand.
        left: Option<ColumnType>,
        /// The type of the right operand.
        right: Option<ColumnType>,
    },
    /// Something else where a condition must be.
    NotBoolean {
        /// The type that was there.
        found: Option<ColumnType>,
    },
    /// Something else where a number must be.
    NotNumeric {
        /// The type that was there.
        found: Option<ColumnType>,
    },
    /// A value of another type than the column's that it is for.
    NotAssignable {
        /// The column's type.
        expected: ColumnType,
        /// The value's type.
        found: ColumnType,
    },
    /// The result is beyond its type's range.
    Overflow,
    /// The result is too small for a float64.
    Underflow,
    /// Division by zero.
    DivisionByZero,
    /// A `LIKE` pattern that ends in its escape character.
    PatternEnd,
    /// A string or bytes value that is longer than a row may be.
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// More than [`NODES_MAX`] nodes, or more than [`STEPS_MAX`] steps for one row.
    TooCostly,
}

impl fmt::Display for ExpressionError {
    // tidy: long — the one match over the messages of all variants.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |column_type: &Option<ColumnType>| column_type.map_or("NULL", ColumnType::name);
        match self {
            ExpressionError::UnknownColumn { column } => {
                write!(
                    f,
                    "the table has no column at position {column}: name one that it has"
                )
            }
            ExpressionError::NoExcluded => write!(
                f,
                "EXCLUDED has a meaning only after ON CONFLICT DO UPDATE: name the column alone"
            ),
            ExpressionError::WrongTypes {
                operator,
                left,
                right,
            } => write!(
                f,
                "{} {} {} has no meaning: give both sides types that {} knows",
                name(left),
                operator.symbol(),
                name(right),
                operator.symbol()
            ),
            ExpressionError::NotBoolean { found } => write!(
                f,
                "a condition must be boolean, this one is {}: compare it with something",
                name(found)
            ),
            ExpressionError::NotNumeric { found } => {
                write!(
                    f,
                    "only numbers can be negated, not {}: name a numeric column or constant",
                    name(found)
                )
            }
            ExpressionError::NotAssignable { expected, found } => write!(
                f,
                "a {} cannot be stored in a column of type {}: convert it",
                found.name(),
                expected.name()
            ),
            ExpressionError::Overflow => {
                write!(f, "the result is out of range: use smaller numbers")
            }
            ExpressionError::Underflow => {
                write!(
                    f,
                    "the result is too close to zero for double precision: use larger numbers"
                )
            }
            ExpressionError::DivisionByZero => {
                write!(f, "division by zero: give a divisor other than 0")
            }
            ExpressionError::PatternEnd => write!(
                f,
                "the LIKE pattern ends in its escape character: write \\\\ for a backslash"
            ),
            ExpressionError::TooLong { bytes } => write!(
                f,
                "the result has {bytes} bytes, a row holds at most {ROW_BYTES_MAX}: shorten its \
                 parts"
            ),
            ExpressionError::TooDeep => write!(
                f,
                "the expression is nested deeper than {DEPTH_MAX} levels: simplify it"
            ),
            ExpressionError::TooCostly => write!(
                f,
                "the expression has more than {NODES_MAX} parts, or takes more than {STEPS_MAX} steps \
                 for one row: split the statement, or shorten its lists (each value of IN takes 4 \
                 parts), texts and patterns"
            ),
        }
    }
}

impl core::error::Error for ExpressionError {}

impl BinaryOperator {
    /// Returns whether the operator compares its operands by their order.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOperator::Equal
                | BinaryOperator::NotEqual
                | BinaryOperator::Less
                | BinaryOperator::LessEqual
                | BinaryOperator::Greater
                | BinaryOperator::GreaterEqual
        )
    }

    /// Returns the operator as SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOperator::And => "AND",
            BinaryOperator::Or => "OR",
            BinaryOperator::Equal => "=",
            BinaryOperator::NotEqual => "<>",
            BinaryOperator::Less => "<",
            BinaryOperator::LessEqual => "<=",
            BinaryOperator::Greater => ">",
            BinaryOperator::GreaterEqual => ">=",
            BinaryOperator::Add => "+",
            BinaryOperator::Subtract => "-",
            BinaryOperator::Multiply => "*",
            BinaryOperator::Divide => "/",
            BinaryOperator::Modulo => "%",
            BinaryOperator::Concatenate => "||",
            BinaryOperator::Like => "LIKE",
        }
    }
}

impl Expression {
    /// Returns an expression that holds if all conditions hold, as a tree of least depth; none if
    /// there are none. A chain as deep as the list is long would soon be nested deeper than
    /// [`DEPTH_MAX`].
    pub fn all(conditions: Vec<Expression>) -> Option<Expression> {
        Expression::joined(BinaryOperator::And, conditions)
    }

    /// Returns an expression that holds if at least one condition holds, as a tree of least depth;
    /// none if there are none.
    pub fn any(conditions: Vec<Expression>) -> Option<Expression> {
        Expression::joined(BinaryOperator::Or, conditions)
    }

    fn joined(operator: BinaryOperator, mut level: Vec<Expression>) -> Option<Expression> {
        while level.len() > 1 {
            let mut rest = level.into_iter();
            let mut next = Vec::with_capacity(rest.len().div_ceil(2));
            while let Some(left) = rest.next() {
                next.push(match rest.next() {
                    Some(right) => Expression::Binary(operator, Box::new(left), Box::new(right)),
                    None => left,
                });
            }
            level = next;
        }
        level.pop()
    }
}

wire_struct!(Assignment { column, value });
wire_enum!(UnaryOperator { 0 => Not, 1 => Negate, 2 => IsNull, 3 => IsNotNull });
wire_enum!(BinaryOperator {
    0 => And, 1 => Or, 2 => Equal, 3 => NotEqual, 4 => Less, 5 => LessEqual, 6 => Greater,
    7 => GreaterEqual, 8 => Add, 9 => Subtract, 10 => Multiply, 11 => Divide, 12 => Modulo,
    13 => Concatenate, 14 => Like,
});
wire_enum!(Expression {
    0 => Column(column),
    1 => Excluded(column),
    2 => Literal(value),
    3 => Unary(operator, operand),
    4 => Binary(operator, left, right),
});
