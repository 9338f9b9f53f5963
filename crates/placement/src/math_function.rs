//! Functions of real numbers in expressions, by their names in SQL.

/// A function of doubles. It is NULL if an operand is. The square root is one of numerics, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathFunction {
    /// The angle in radians whose cosine is a number.
    Acos,
    /// The angle in radians whose sine is a number.
    Asin,
    /// The angle in radians whose tangent is a number.
    Atan,
    /// The angle in radians whose tangent is a quotient.
    Atan2,
    /// The cube root.
    Cbrt,
    /// The cosine of an angle in radians.
    Cos,
    /// The cotangent of an angle in radians.
    Cot,
    /// An angle in radians, in degrees.
    Degrees,
    /// The power of Euler's number.
    Exp,
    /// The natural logarithm.
    Ln,
    /// The logarithm to base 10.
    Log,
    /// The same.
    Log10,
    /// The circumference of a circle whose diameter is 1.
    Pi,
    /// The first operand to the power of the second one.
    Power,
    /// An angle in degrees, in radians.
    Radians,
    /// The sine of an angle in radians.
    Sin,
    /// The square root.
    Sqrt,
    /// The tangent of an angle in radians.
    Tan,
}

impl MathFunction {
    /// All functions.
    pub const ALL: [MathFunction; 18] = [
        MathFunction::Acos,
        MathFunction::Asin,
        MathFunction::Atan,
        MathFunction::Atan2,
        MathFunction::Cbrt,
        MathFunction::Cos,
        MathFunction::Cot,
        MathFunction::Degrees,
        MathFunction::Exp,
        MathFunction::Ln,
        MathFunction::Log,
        MathFunction::Log10,
        MathFunction::Pi,
        MathFunction::Power,
        MathFunction::Radians,
        MathFunction::Sin,
        MathFunction::Sqrt,
        MathFunction::Tan,
    ];

    /// Returns the name of the function in SQL.
    pub fn name(self) -> &'static str {
        match self {
            MathFunction::Acos => "acos",
            MathFunction::Asin => "asin",
            MathFunction::Atan => "atan",
            MathFunction::Atan2 => "atan2",
            MathFunction::Cbrt => "cbrt",
            MathFunction::Cos => "cos",
            MathFunction::Cot => "cot",
            MathFunction::Degrees => "degrees",
            MathFunction::Exp => "exp",
            MathFunction::Ln => "ln",
            MathFunction::Log => "log",
            MathFunction::Log10 => "log10",
            MathFunction::Pi => "pi",
            MathFunction::Power => "power",
            MathFunction::Radians => "radians",
            MathFunction::Sin => "sin",
            MathFunction::Sqrt => "sqrt",
            MathFunction::Tan => "tan",
        }
    }

    /// Returns the number of operands.
    pub fn operand_count(self) -> usize {
        match self {
            MathFunction::Pi => 0,
            MathFunction::Atan2 | MathFunction::Power => 2,
            _ => 1,
        }
    }

    /// Returns whether PostgreSQL has the function for numerics, too, of which the result is a
    /// numeric.
    pub fn is_of_numerics(self) -> bool {
        matches!(
            self,
            MathFunction::Exp
                | MathFunction::Ln
                | MathFunction::Log
                | MathFunction::Log10
                | MathFunction::Power
                | MathFunction::Sqrt
        )
    }
}
