//! Operands of which a function has no value.

use core::fmt;

use crate::pattern::PatternError;

/// Why a function has no value for its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionError {
    /// The square root of a number below 0.
    SquareRoot,
    /// The logarithm of 0.
    LogarithmOfZero,
    /// The logarithm of a number below 0.
    LogarithmOfNegative,
    /// 0 to the power of a number below 0.
    ZeroToNegative,
    /// A number below 0 to the power of a fraction.
    ComplexPower,
    /// A number for which the function is not defined.
    InputRange,
    /// The number of a character below 0.
    NegativeCharacter,
    /// A number of no character.
    NoCharacter,
    /// Part number 0 of a text.
    NoPart,
    /// An encoding of bytes that there is not.
    NoEncoding,
    /// A text that is no bytes in the named encoding.
    NotEncoded,
    /// A text that is no regular expression.
    Pattern(PatternError),
}

impl FunctionError {
    /// All errors.
    pub const ALL: [FunctionError; 15] = [
        FunctionError::SquareRoot,
        FunctionError::LogarithmOfZero,
        FunctionError::LogarithmOfNegative,
        FunctionError::ZeroToNegative,
        FunctionError::ComplexPower,
        FunctionError::InputRange,
        FunctionError::NegativeCharacter,
        FunctionError::NoCharacter,
        FunctionError::NoPart,
        FunctionError::NoEncoding,
        FunctionError::NotEncoded,
        FunctionError::Pattern(PatternError::ALL[0]),
        FunctionError::Pattern(PatternError::ALL[1]),
        FunctionError::Pattern(PatternError::ALL[2]),
        FunctionError::Pattern(PatternError::ALL[3]),
    ];

    /// Returns PostgreSQL's code of the error.
    pub fn sqlstate(self) -> &'static str {
        match self {
            FunctionError::SquareRoot
            | FunctionError::ZeroToNegative
            | FunctionError::ComplexPower => "2201F",
            FunctionError::LogarithmOfZero | FunctionError::LogarithmOfNegative => "2201E",
            FunctionError::InputRange => "22003",
            FunctionError::NoCharacter => "54000",
            FunctionError::NegativeCharacter
            | FunctionError::NoPart
            | FunctionError::NoEncoding
            | FunctionError::NotEncoded => "22023",
            FunctionError::Pattern(error) => error.sqlstate(),
        }
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FunctionError::Pattern(error) => return error.fmt(f),
            FunctionError::SquareRoot => {
                "cannot take square root of a negative number: give one that is not"
            }
            FunctionError::LogarithmOfZero => {
                "cannot take logarithm of zero: give a number above 0"
            }
            FunctionError::LogarithmOfNegative => {
                "cannot take logarithm of a negative number: give a number above 0"
            }
            FunctionError::ZeroToNegative => {
                "zero raised to a negative power is undefined: give another number"
            }
            FunctionError::ComplexPower => {
                "a negative number raised to a non-integer power yields a complex result: give \
                 another number"
            }
            FunctionError::InputRange => {
                "input is out of range: the function has no value for this number"
            }
            FunctionError::NegativeCharacter => {
                "character number must be positive: give one from 1 to 1114111"
            }
            FunctionError::NoCharacter => {
                "the number is that of no character that a text can have: give another one from 1 \
                 to 1114111"
            }
            FunctionError::NoPart => {
                "field position must not be zero: the first part is 1, the last one -1"
            }
            FunctionError::NoEncoding => "unrecognized encoding: name hex, base64 or escape",
            FunctionError::NotEncoded => "the text is no bytes in the named encoding",
        })
    }
}

impl core::error::Error for FunctionError {}
