//! Expressions over one row: conditions, filters and assignments, evaluated where the row is.
//!
//! A condition makes an update atomic (HyperDex's conditional operations), an assignment such as
//! `n = n + 1` is evaluated at the primary under the key's lock (DESIGN section 3). SQL's three
//! values hold: a comparison with NULL is NULL, and a condition that is NULL does not hold. What
//! is left out: functions, subqueries, anything that needs more than the row.

use alloc::boxed::Box;
use alloc::vec::Vec;

use placement::Value;

use crate::codec::{DecodeError, Reader, Wire, wire_enum, wire_struct};

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
    /// Both hold.
    And,
    /// One holds.
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
    /// Text or bytes one after the other.
    Concatenate,
    /// Text matches a pattern with `%` and `_`.
    Like,
}

/// One column's new value in an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column's position.
    pub column: u16,
    /// Its new value, computed from the row as it was before the update.
    pub value: Expression,
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

impl Wire for Value {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0),
            Value::Bool(value) => {
                out.push(1);
                value.encode(out);
            }
            Value::Int64(value) => {
                out.push(2);
                value.encode(out);
            }
            Value::Float64(value) => {
                out.push(3);
                value.encode(out);
            }
            Value::Text(value) => {
                out.push(4);
                value.encode(out);
            }
            Value::Bytes(value) => {
                out.push(5);
                (value.len() as u32).encode(out);
                out.extend_from_slice(value);
            }
            Value::Timestamp(value) => {
                out.push(6);
                value.encode(out);
            }
            Value::Uuid(value) => {
                out.push(7);
                out.extend_from_slice(value);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::decode(reader)? {
            0 => Value::Null,
            1 => Value::Bool(Wire::decode(reader)?),
            2 => Value::Int64(Wire::decode(reader)?),
            3 => Value::Float64(Wire::decode(reader)?),
            4 => Value::Text(Wire::decode(reader)?),
            5 => Value::Bytes(reader.bytes()?.into()),
            6 => Value::Timestamp(Wire::decode(reader)?),
            7 => {
                let bytes = reader.take(16)?;
                Value::Uuid(bytes.try_into().expect("take gave 16 bytes"))
            }
            _ => return Err(DecodeError::Invalid("value")),
        })
    }
}
