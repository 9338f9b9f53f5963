//! The values of the functions of real numbers, as in PostgreSQL.
//!
//! They are computed by the same code on every machine, so that a condition holds at each copy of a
//! row or at none. Their last digit may differ from PostgreSQL's, which asks the C library.

use placement::{ColumnType, FunctionError, MathFunction, Value, ValueRef};

use super::{ExpressionError, ScalarFunction};

const RADIANS_PER_DEGREE: f64 = 0.017_453_292_519_943_295;

/// Returns the type of a function's results; none if it does not take such operands.
pub(super) fn function_type(
    function: MathFunction,
    operands: &[Option<ColumnType>],
) -> Option<ColumnType> {
    let all = |wanted| {
        let mut known = operands.iter().flatten();
        operands.len() == function.operand_count() && known.all(|found| *found == wanted)
    };
    match function {
        _ if all(ColumnType::Float64) => Some(ColumnType::Float64),
        MathFunction::Sqrt if all(ColumnType::Numeric) => Some(ColumnType::Numeric),
        _ => None,
    }
}

/// Returns the value of a function.
pub(super) fn call(
    function: MathFunction,
    values: &[ValueRef<'_>],
) -> Result<Value, ExpressionError> {
    if values.iter().any(|it| it.is_null()) {
        return Ok(Value::Null);
    }
    Ok(Value::Float64(match *values {
        [] if function == MathFunction::Pi => core::f64::consts::PI,
        [ValueRef::Numeric(value)] if function == MathFunction::Sqrt => {
            return Ok(Value::Numeric(
                value.square_root().ok_or(FunctionError::SquareRoot)??,
            ));
        }
        [ValueRef::Float64(value)] => of_one(function, value)?,
        [ValueRef::Float64(left), ValueRef::Float64(right)] => match function {
            MathFunction::Power => power(left, right)?,
            MathFunction::Atan2 => libm::atan2(left, right),
            function => return Err(wrong(function)),
        },
        _ => return Err(wrong(function)),
    }))
}

fn wrong(function: MathFunction) -> ExpressionError {
    ExpressionError::WrongOperands {
        function: ScalarFunction::Math(function),
    }
}

fn of_one(function: MathFunction, value: f64) -> Result<f64, ExpressionError> {
    let out_of_range = || ExpressionError::Function(FunctionError::InputRange);
    let angle = || match value.is_infinite() {
        true => Err(out_of_range()),
        false => Ok(value),
    };
    let ratio = || match value.abs() > 1.0 {
        true => Err(out_of_range()),
        false => Ok(value),
    };
    Ok(match function {
        MathFunction::Acos => libm::acos(ratio()?),
        MathFunction::Asin => libm::asin(ratio()?),
        MathFunction::Atan => libm::atan(value),
        MathFunction::Cos => libm::cos(angle()?),
        MathFunction::Sin => libm::sin(angle()?),
        MathFunction::Tan => libm::tan(angle()?),
        MathFunction::Cot => 1.0 / libm::tan(angle()?),
        MathFunction::Cbrt => libm::cbrt(value),
        MathFunction::Sqrt if value < 0.0 => return Err(FunctionError::SquareRoot.into()),
        MathFunction::Sqrt => libm::sqrt(value),
        MathFunction::Exp => in_range(libm::exp(value), value.is_finite())?,
        MathFunction::Ln | MathFunction::Log | MathFunction::Log10 => {
            if value == 0.0 {
                return Err(FunctionError::LogarithmOfZero.into());
            }
            if value < 0.0 {
                return Err(FunctionError::LogarithmOfNegative.into());
            }
            match function {
                MathFunction::Ln => libm::log(value),
                _ => libm::log10(value),
            }
        }
        MathFunction::Degrees => scaled(value, value / RADIANS_PER_DEGREE)?,
        MathFunction::Radians => scaled(value, value * RADIANS_PER_DEGREE)?,
        MathFunction::Atan2 | MathFunction::Pi | MathFunction::Power => {
            return Err(wrong(function));
        }
    })
}

/// Returns a result unless it left the range of a double although its operands are in it.
fn in_range(result: f64, is_finite: bool) -> Result<f64, ExpressionError> {
    match is_finite {
        true if result.is_infinite() => Err(ExpressionError::Overflow),
        true if result == 0.0 => Err(ExpressionError::Underflow),
        _ => Ok(result),
    }
}

fn scaled(value: f64, result: f64) -> Result<f64, ExpressionError> {
    in_range(result, value.is_finite() && value != 0.0)
}

fn power(base: f64, exponent: f64) -> Result<f64, ExpressionError> {
    if base == 0.0 && exponent < 0.0 {
        return Err(FunctionError::ZeroToNegative.into());
    }
    if base < 0.0 && libm::floor(exponent) != exponent && !exponent.is_nan() {
        return Err(FunctionError::ComplexPower.into());
    }
    let is_finite = base.is_finite() && exponent.is_finite() && base != 0.0;
    in_range(libm::pow(base, exponent), is_finite)
}
