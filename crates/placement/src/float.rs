//! Doubles as whole numbers, and in the order of SQL.

/// From here on every double is a whole number.
pub const WHOLE_DOUBLES: f64 = 4_503_599_627_370_496.0;

/// Rounds a double to the nearest whole number, halves to the even one. It keeps its sign.
pub fn round_half_even(value: f64) -> f64 {
    match value.abs() < WHOLE_DOUBLES {
        // Adding pushes the fraction out of the mantissa, by the rounding that is wanted.
        true => ((value.abs() + WHOLE_DOUBLES) - WHOLE_DOUBLES).copysign(value),
        false => value,
    }
}

/// Returns bits whose unsigned order is the SQL order of the floats.
pub(crate) fn float_order_bits(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    // One zero and one NaN, so that equal values have equal bytes.
    let bits = if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits() & !SIGN
    } else {
        value.to_bits()
    };
    if bits & SIGN != 0 { !bits } else { bits | SIGN }
}

/// Returns the float for bits from [`float_order_bits`]; none for other bits.
pub(crate) fn float_from_order_bits(bits: u64) -> Option<f64> {
    const SIGN: u64 = 1 << 63;
    let value = f64::from_bits(if bits & SIGN != 0 {
        bits & !SIGN
    } else {
        !bits
    });
    (float_order_bits(value) == bits).then_some(value)
}
