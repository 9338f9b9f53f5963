//! Expressions over one row: conditions, filters and assignments. The core that has the row
//! evaluates them.
//!
//! A condition makes an update atomic (HyperDex's conditional operations). An assignment such as
//! `n = n + 1` is evaluated at the primary partition under the key's lock. Three-valued logic, as
//! in SQL: a comparison with NULL is NULL, and a condition that is NULL does not hold. Functions,
//! subqueries and anything else that needs more than the row are left out.
//!
//! `check` types an expression once per request, `evaluate` runs it per row.

mod arithmetic;
mod array;
mod budget;
mod check;
mod compare;
mod evaluate;
mod fields;
mod functions;
mod interval;
mod json;
mod like;
mod math;
mod pattern;
mod results;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod types;

use alloc::vec::Vec;
use core::fmt;

use placement::{
    ArrayError, ArrayFunction, ColumnType, ElementType, FunctionError, JsonError, JsonFunction,
    MathFunction, NumericError, ROW_BYTES_MAX, TextFunction,
};

use crate::codec::{DEPTH_MAX, DecodeError, Reader, Wire, wire_enum, wire_struct};

pub use budget::STEPS_MAX;
pub use check::{NODES_MAX, Scope, check, check_assignable, check_condition, check_constraints};
pub use evaluate::{Columns, evaluate, evaluate_for, failed_check, generated_values, holds};
pub use placement::{
    BinaryOperator, Comparison, Expression, FunctionCall, ScalarFunction, UnaryOperator,
};
pub use types::{common_number, result_type};

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
    /// Operands that a function does not take.
    WrongOperands {
        /// The function.
        function: ScalarFunction,
    },
    /// A negative length of a part of a text.
    NegativeLength,
    /// A conversion that does not exist.
    NotCastable {
        /// The operand's type.
        from: ColumnType,
        /// The type that it should get.
        to: ColumnType,
    },
    /// A text that is no value of the type to which it should be converted.
    NotOfType {
        /// The type.
        column_type: ColumnType,
    },
    /// A text that has more characters than its type allows.
    TooManyCharacters {
        /// The type.
        column_type: ColumnType,
    },
    /// A number that has more digits than its type allows.
    TooManyDigits {
        /// The type, which has a limit.
        column_type: ColumnType,
    },
    /// NaN or an infinity that a type does not have.
    NotFinite {
        /// The type.
        column_type: ColumnType,
    },
    /// The result is beyond its type's range.
    Overflow,
    /// The result has more digits than a numeric can have.
    NumericOverflow,
    /// The result is too small for a float64.
    Underflow,
    /// Division by zero.
    DivisionByZero,
    /// A time or an interval beyond its range.
    TimeRange,
    /// Bytes that are no time zone.
    NoZone,
    /// The name of a field that a type of times does not have.
    UnknownField,
    /// The name of a field that only other types of times have.
    FieldOfOtherType,
    /// A `LIKE` pattern that ends in its escape character.
    PatternEnd,
    /// A fault of JSON.
    Json(JsonError),
    /// A function has no value for its operands.
    Function(FunctionError),
    /// A fault of an array.
    Array(ArrayError),
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
                "a {found} cannot be stored in a column of type {expected}: convert it"
            ),
            ExpressionError::WrongOperands { function } => {
                let name = function.name();
                write!(
                    f,
                    "{name} does not take operands of these types: convert them"
                )
            }
            ExpressionError::NegativeLength => {
                write!(
                    f,
                    "negative substring length not allowed: give a length from 0"
                )
            }
            ExpressionError::NotCastable { from, to } => {
                write!(f, "a {from} cannot become a {to}: write the value as text")
            }
            ExpressionError::NotOfType { column_type } => {
                write!(
                    f,
                    "a text is not of type {column_type}: convert only texts that are"
                )
            }
            ExpressionError::TooManyCharacters { column_type } => {
                write!(
                    f,
                    "the value is too long for the type {column_type}: shorten it"
                )
            }
            ExpressionError::TooManyDigits { column_type } => {
                write!(f, "numeric field overflow: ")?;
                match column_type {
                    ColumnType::Decimal { precision, scale } => write!(
                        f,
                        "a {column_type} must round to an absolute value less than 10^{}",
                        i32::from(*precision) - i32::from(*scale)
                    ),
                    other => write!(f, "a {other} has too many digits"),
                }
            }
            ExpressionError::NotFinite { column_type } => write!(
                f,
                "NaN and infinity cannot become a {column_type}: convert only numbers"
            ),
            ExpressionError::NumericOverflow => write!(f, "{}", NumericError::Overflow),
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
            ExpressionError::TimeRange => write!(
                f,
                "timestamp, time or interval out of range: use smaller numbers"
            ),
            ExpressionError::FieldOfOtherType => write!(
                f,
                "this unit is not supported for this type: name one such as hour or minute"
            ),
            ExpressionError::UnknownField => write!(
                f,
                "this type of times has no such field: name one such as year, month, day or hour"
            ),
            ExpressionError::NoZone => {
                write!(f, "the operand is no time zone: name one that is")
            }
            ExpressionError::PatternEnd => write!(
                f,
                "the LIKE pattern ends in its escape character: write \\\\ for a backslash"
            ),
            ExpressionError::Json(error) => write!(f, "{error}"),
            ExpressionError::Function(error) => write!(f, "{error}"),
            ExpressionError::Array(error) => write!(f, "{error}"),
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

impl From<FunctionError> for ExpressionError {
    fn from(error: FunctionError) -> ExpressionError {
        ExpressionError::Function(error)
    }
}

impl From<NumericError> for ExpressionError {
    fn from(error: NumericError) -> ExpressionError {
        match error {
            NumericError::DivisionByZero => ExpressionError::DivisionByZero,
            NumericError::Overflow => ExpressionError::NumericOverflow,
            NumericError::Syntax => ExpressionError::NotOfType {
                column_type: ColumnType::Numeric,
            },
            NumericError::NotFinite => ExpressionError::NotFinite {
                column_type: ColumnType::Int64,
            },
        }
    }
}

impl From<ArrayError> for ExpressionError {
    fn from(error: ArrayError) -> ExpressionError {
        ExpressionError::Array(error)
    }
}

wire_struct!(Assignment { column, value });
wire_enum!(UnaryOperator {
    0 => Not, 1 => Negate, 2 => IsNull, 3 => IsNotNull, 4 => Cast(column_type),
});
wire_enum!(BinaryOperator {
    0 => And, 1 => Or, 2 => Equal, 3 => NotEqual, 4 => Less, 5 => LessEqual, 6 => Greater,
    7 => GreaterEqual, 8 => Add, 9 => Subtract, 10 => Multiply, 11 => Divide, 12 => Modulo,
    13 => Concatenate, 14 => Like,
    24 => Any(comparison), 25 => All(comparison), 26 => Overlaps,
    32 => JsonMember, 33 => JsonMemberText, 34 => Contains, 35 => ContainedBy, 36 => HasKey,
});
wire_enum!(Comparison {
    0 => Equal, 1 => NotEqual, 2 => Less, 3 => LessEqual, 4 => Greater, 5 => GreaterEqual,
    6 => Like, 7 => NotLike,
});
wire_enum!(Expression {
    0 => Column(column),
    1 => Excluded(column),
    2 => Literal(value),
    3 => Unary(operator, operand),
    4 => Binary(operator, left, right),
    5 => Call(call),
});
impl Wire for FunctionCall {
    fn encode(&self, out: &mut Vec<u8>) {
        self.function.encode(out);
        self.operands.encode(out);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let function = Wire::decode(from)?;
        Ok(FunctionCall::new(function, Wire::decode(from)?))
    }
}

wire_enum!(ScalarFunction {
    0 => Coalesce, 1 => Case, 2 => NullIf, 3 => Greatest, 4 => Least, 5 => Lower, 6 => Upper,
    7 => Length, 8 => OctetLength, 9 => Abs, 10 => Round, 11 => Floor, 12 => Ceil, 13 => Trunc,
    14 => Substring, 15 => Trim, 16 => TrimStart, 17 => TrimEnd, 18 => Replace, 19 => Position,
    20 => Left, 21 => Right, 22 => Concat, 23 => Sign, 24 => Modulo, 25 => DivideWhole, 26 => Scale,
    27 => ScaleMin, 28 => TrimScale, 29 => AtZone, 30 => MomentText, 31 => ReadMoment,
    32 => DateTrunc, 33 => Extract, 34 => DatePart,
    35 => MomentLater, 36 => Age, 37 => MakeInterval, 38 => MakeTime, 39 => JustifyDays,
    40 => JustifyHours, 41 => JustifyInterval,
    50 => Array(function),
    64 => Json(function), 65 => Text(function), 66 => Math(function),
});
wire_enum!(TextFunction {
    0 => Ascii, 1 => BitLength, 2 => Chr, 3 => ConcatWs, 4 => Decode, 5 => Encode, 6 => Initcap,
    7 => Lpad, 8 => Md5, 9 => QuoteLiteral, 10 => Repeat, 11 => Reverse, 12 => Rpad, 13 => Sha224,
    14 => Sha256, 15 => Sha384, 16 => Sha512, 17 => SplitPart, 18 => StartsWith, 19 => ToHex,
    20 => Translate, 21 => RegexpCount, 22 => RegexpLike, 23 => RegexpReplace, 24 => RegexpSubstr,
});
wire_enum!(MathFunction {
    0 => Acos, 1 => Asin, 2 => Atan, 3 => Atan2, 4 => Cbrt, 5 => Cos, 6 => Cot, 7 => Degrees,
    8 => Exp, 9 => Ln, 10 => Log, 11 => Log10, 12 => Pi, 13 => Power, 14 => Radians, 15 => Sin,
    16 => Sqrt, 17 => Tan,
});
wire_enum!(JsonFunction {
    0 => JsonTypeof, 1 => JsonbTypeof, 2 => JsonArrayLength, 3 => JsonbArrayLength,
    4 => JsonBuildObject, 5 => JsonbBuildObject, 6 => JsonBuildArray, 7 => JsonbBuildArray,
    8 => ToJson, 9 => ToJsonb, 10 => JsonbStripNulls, 11 => JsonbPretty, 12 => JsonExtractPath,
    13 => JsonExtractPathText, 14 => JsonbExtractPath, 15 => JsonbExtractPathText,
    16 => JsonbExists, 17 => JsonbSet, 18 => JsonbDeletePath, 19 => JsonbExistsAny,
    20 => JsonbExistsAll,
});
wire_enum!(ArrayFunction {
    0 => Make(element), 1 => Subscript, 2 => Slice(open), 3 => Length, 4 => Dimensions,
    5 => DimensionsText, 6 => Lower, 7 => Upper, 8 => Cardinality, 9 => Append(element),
    10 => Prepend(element), 11 => Concatenate, 12 => Remove, 13 => Replace, 14 => Position,
    15 => Positions, 16 => ToText, 17 => OfText, 18 => Trim, 19 => ToJson,
    20 => Join(element),
});

/// The bytes are those of the column's type.
impl Wire for ElementType {
    fn encode(&self, out: &mut Vec<u8>) {
        self.column_type().encode(out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Only an array has an element type, and it is none itself: one level is enough.
        let column_type = reader.nested(ColumnType::decode)?;
        ElementType::of(column_type).ok_or(DecodeError::Invalid("element type"))
    }
}
