//! Expressions over one row, as trees: the conditions of a table's constraints, and those of
//! requests.
//!
//! This module has only their form. Crate `protocol` checks their types and evaluates them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::array_function::ArrayFunction;
use crate::json_function::JsonFunction;
use crate::math_function::MathFunction;
use crate::pattern::{Pattern, PatternError};
use crate::text_function::TextFunction;
use crate::value::{ColumnType, Value};

/// A tree over the columns of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// A function of any number of operands.
    Call(Box<FunctionCall>),
}

/// A function and its operands.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// The function.
    pub function: ScalarFunction,
    /// The operands, in their order.
    pub operands: Vec<Expression>,
    /// The compiled regular expression among the operands, if it is a constant: compiling it takes
    /// much longer than matching a short text.
    pattern: Option<Result<Pattern, PatternError>>,
}

impl FunctionCall {
    /// Returns a call. A constant regular expression is compiled.
    pub fn new(function: ScalarFunction, operands: Vec<Expression>) -> FunctionCall {
        let text = |place: usize| match operands.get(place) {
            Some(Expression::Literal(Value::Text(text))) => Some(text.as_str()),
            None => Some(""),
            _ => None,
        };
        let flags = match function {
            ScalarFunction::Text(function) => function.pattern_flags(),
            _ => None,
        };
        let parts = flags.and_then(|place| Some((text(1)?, text(place)?)));
        let pattern = parts.map(|(pattern, flags)| Pattern::new(pattern, flags));
        FunctionCall {
            function,
            operands,
            pattern,
        }
    }

    /// Returns the compiled regular expression among the operands, if it is a valid constant.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref()?.as_ref().ok()
    }

    /// Returns the fault of a constant regular expression among the operands; none if it is valid.
    pub fn pattern_error(&self) -> Option<PatternError> {
        self.pattern.as_ref()?.as_ref().err().copied()
    }
}

impl PartialEq for FunctionCall {
    fn eq(&self, other: &FunctionCall) -> bool {
        self.function == other.function && self.operands == other.operands
    }
}

impl Eq for FunctionCall {}

impl Expression {
    /// Returns whether the expression names a column of the present row.
    pub fn uses(&self, column: usize) -> bool {
        !self.all_columns(&|named| usize::from(named) != column)
    }

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
            Expression::Call(call) => call.operands.iter().all(|it| it.all_columns(holds)),
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
    /// The operand, converted to a type.
    Cast(ColumnType),
}

/// The functions. Without another word they are NULL if an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarFunction {
    /// The first operand that is not NULL.
    Coalesce,
    /// Conditions and values in turn, and at the end the value if no condition holds.
    Case,
    /// The first operand, or NULL if it equals the second one.
    NullIf,
    /// The largest operand that is not NULL.
    Greatest,
    /// The smallest operand that is not NULL.
    Least,
    /// A text in small letters. A letter stays as it is if its small form is several letters.
    Lower,
    /// A text in capital letters. A letter stays as it is if its capital form is several letters.
    Upper,
    /// The number of characters of a text, or of bytes.
    Length,
    /// The number of bytes of a text.
    OctetLength,
    /// A number without its sign.
    Abs,
    /// A number rounded to a whole one, halves of a double to the even one, those of a numeric to
    /// the larger one without its sign. With a second operand, a numeric rounded to so many digits
    /// after the point.
    Round,
    /// The next whole number that is not larger than a number.
    Floor,
    /// The next whole number that is not smaller than a number.
    Ceil,
    /// A number without its fraction. With a second operand, a numeric without its digits beyond so
    /// many after the point.
    Trunc,
    /// -1, 0 or 1, or NaN.
    Sign,
    /// The remainder of a division without a fraction.
    Modulo,
    /// The quotient of two numerics without its fraction.
    DivideWhole,
    /// The digits of a numeric after the point; NULL if it is no number.
    Scale,
    /// The digits of a numeric after the point without zeros at their end; NULL if it is no number.
    ScaleMin,
    /// A numeric without zeros at the end of its fraction.
    TrimScale,
    /// The characters of a text from a position, which counts from 1; with a third operand, at most
    /// so many.
    Substring,
    /// A text without the characters of another one at both ends.
    Trim,
    /// A text without the characters of another one at its start.
    TrimStart,
    /// A text without the characters of another one at its end.
    TrimEnd,
    /// A text in which another one is replaced by a third one.
    Replace,
    /// The position of a text in another one, from 1; 0 if it is not there. The text to search is
    /// the first operand.
    Position,
    /// The first characters of a text: so many, or all but so many if the number is negative.
    Left,
    /// The last characters of a text: so many, or all but so many if the number is negative.
    Right,
    /// The texts of all values that are not NULL, one after the other.
    Concat,
    /// The local time of a moment in a zone, or the moment of a local time. The last operand is the
    /// zone, as [`TimeZone::encode`](crate::TimeZone::encode) encodes it. It is so of the next two
    /// functions, too.
    AtZone,
    /// The text of a moment in a zone.
    MomentText,
    /// The moment that a text names. A text without a zone names a local time of the zone.
    ReadMoment,
    /// A time without the fields below the named one. A third operand is the zone of a moment,
    /// encoded as of [`ScalarFunction::AtZone`]; without it the zone is UTC. It is so of the next
    /// two functions, too.
    DateTrunc,
    /// A field of a time, as a numeric.
    Extract,
    /// A field of a time, as a double.
    DatePart,
    /// A moment an interval later. The last operand is the zone of its days and months, encoded as
    /// of [`ScalarFunction::AtZone`].
    MomentLater,
    /// The years, months, days and microseconds between two local times, or two moments and their
    /// zone.
    Age,
    /// An interval of years, months, weeks, days, hours, minutes and seconds.
    MakeInterval,
    /// A time of the day of an hour, a minute and a second.
    MakeTime,
    /// An interval with months instead of each 30 days.
    JustifyDays,
    /// An interval with days instead of each 24 hours.
    JustifyHours,
    /// An interval with both, whose parts have one sign.
    JustifyInterval,
    /// A function of JSON.
    Json(JsonFunction),
    /// A further function of texts and bytes.
    Text(TextFunction),
    /// A function of real numbers.
    Math(MathFunction),
    /// A function of arrays.
    Array(ArrayFunction),
}

impl ScalarFunction {
    /// Returns the name of the function in SQL.
    pub fn name(self) -> &'static str {
        match self {
            ScalarFunction::Coalesce => "coalesce",
            ScalarFunction::Case => "case",
            ScalarFunction::NullIf => "nullif",
            ScalarFunction::Greatest => "greatest",
            ScalarFunction::Least => "least",
            ScalarFunction::Lower => "lower",
            ScalarFunction::Upper => "upper",
            ScalarFunction::Length => "length",
            ScalarFunction::OctetLength => "octet_length",
            ScalarFunction::Abs => "abs",
            ScalarFunction::Round => "round",
            ScalarFunction::Floor => "floor",
            ScalarFunction::Ceil => "ceil",
            ScalarFunction::Trunc => "trunc",
            ScalarFunction::Sign => "sign",
            ScalarFunction::Modulo => "mod",
            ScalarFunction::DivideWhole => "div",
            ScalarFunction::Scale => "scale",
            ScalarFunction::ScaleMin => "min_scale",
            ScalarFunction::TrimScale => "trim_scale",
            ScalarFunction::Substring => "substring",
            ScalarFunction::Trim => "btrim",
            ScalarFunction::TrimStart => "ltrim",
            ScalarFunction::TrimEnd => "rtrim",
            ScalarFunction::Replace => "replace",
            ScalarFunction::Position => "strpos",
            ScalarFunction::Left => "left",
            ScalarFunction::Right => "right",
            ScalarFunction::Concat => "concat",
            ScalarFunction::AtZone => "timezone",
            ScalarFunction::MomentText => "text",
            ScalarFunction::ReadMoment => "timestamptz",
            ScalarFunction::DateTrunc => "date_trunc",
            ScalarFunction::Extract => "extract",
            ScalarFunction::DatePart => "date_part",
            ScalarFunction::MomentLater => "timestamptz_pl_interval",
            ScalarFunction::Age => "age",
            ScalarFunction::MakeInterval => "make_interval",
            ScalarFunction::MakeTime => "make_time",
            ScalarFunction::JustifyDays => "justify_days",
            ScalarFunction::JustifyHours => "justify_hours",
            ScalarFunction::JustifyInterval => "justify_interval",
            ScalarFunction::Json(function) => function.name(),
            ScalarFunction::Text(function) => function.name(),
            ScalarFunction::Math(function) => function.name(),
            ScalarFunction::Array(function) => function.name(),
        }
    }
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
    /// The concatenation of two strings, byte strings or values of `jsonb`.
    Concatenate,
    /// Text matches a pattern with `%` and `_`.
    Like,
    /// The part of JSON that a key or a position names.
    JsonMember,
    /// The text of the part of JSON that a key or a position names.
    JsonMemberText,
    /// The left operand has all parts of the right one.
    Contains,
    /// The right operand has all parts of the left one.
    ContainedBy,
    /// A `jsonb` has a key.
    HasKey,
    /// A comparison with one element of an array at least holds. It is NULL if the array is, or if
    /// no comparison holds and one is NULL.
    Any(Comparison),
    /// A comparison with all elements of an array holds. It is NULL if the array is, or if no
    /// comparison is false and one is NULL.
    All(Comparison),
    /// Two arrays have an element in common.
    Overlaps,
}

/// The comparison of a value with each element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
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
    /// Text matches a pattern.
    Like,
    /// Text does not match a pattern.
    NotLike,
}

impl Comparison {
    /// Returns the comparison of two values, and whether its result is negated.
    pub fn operator(self) -> (BinaryOperator, bool) {
        let operator = match self {
            Comparison::Equal => BinaryOperator::Equal,
            Comparison::NotEqual => BinaryOperator::NotEqual,
            Comparison::Less => BinaryOperator::Less,
            Comparison::LessEqual => BinaryOperator::LessEqual,
            Comparison::Greater => BinaryOperator::Greater,
            Comparison::GreaterEqual => BinaryOperator::GreaterEqual,
            Comparison::Like | Comparison::NotLike => BinaryOperator::Like,
        };
        (operator, self == Comparison::NotLike)
    }

    /// Returns what a comparison of two values is; none of another operator.
    pub fn of(operator: BinaryOperator) -> Option<Comparison> {
        Some(match operator {
            BinaryOperator::Equal => Comparison::Equal,
            BinaryOperator::NotEqual => Comparison::NotEqual,
            BinaryOperator::Less => Comparison::Less,
            BinaryOperator::LessEqual => Comparison::LessEqual,
            BinaryOperator::Greater => Comparison::Greater,
            BinaryOperator::GreaterEqual => Comparison::GreaterEqual,
            BinaryOperator::Like => Comparison::Like,
            _ => return None,
        })
    }
}

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
            BinaryOperator::JsonMember => "->",
            BinaryOperator::JsonMemberText => "->>",
            BinaryOperator::Contains => "@>",
            BinaryOperator::ContainedBy => "<@",
            BinaryOperator::HasKey => "?",
            BinaryOperator::Any(comparison) => match comparison {
                Comparison::Equal => "= ANY",
                Comparison::NotEqual => "<> ANY",
                Comparison::Less => "< ANY",
                Comparison::LessEqual => "<= ANY",
                Comparison::Greater => "> ANY",
                Comparison::GreaterEqual => ">= ANY",
                Comparison::Like => "LIKE ANY",
                Comparison::NotLike => "NOT LIKE ANY",
            },
            BinaryOperator::All(comparison) => match comparison {
                Comparison::Equal => "= ALL",
                Comparison::NotEqual => "<> ALL",
                Comparison::Less => "< ALL",
                Comparison::LessEqual => "<= ALL",
                Comparison::Greater => "> ALL",
                Comparison::GreaterEqual => ">= ALL",
                Comparison::Like => "LIKE ALL",
                Comparison::NotLike => "NOT LIKE ALL",
            },
            BinaryOperator::Overlaps => "&&",
        }
    }
}

impl Expression {
    /// Returns an expression that holds if all conditions hold, as a tree of least depth; none if
    /// there are none. A chain as deep as the list is long would soon be nested too deeply.
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
