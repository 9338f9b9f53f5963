//! Tests of `numeric`: its forms, its order, and results that PostgreSQL 15 returns.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn number(text: &str) -> Numeric {
    Numeric::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn shown(result: Result<Numeric, NumericError>) -> String {
    result.map_or_else(|error| format!("{error:?}"), |value| value.to_string())
}

#[test]
fn texts_are_read_as_in_postgresql() {
    for (text, expected) in [
        ("1.50", "1.50"),
        ("-007", "-7"),
        (" \t+.5 ", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        ("1e 2", "100"),
        ("-0.00", "0.00"),
        ("0e500000", "0"),
        ("nan", "NaN"),
        ("-inf", "-Infinity"),
        ("+Infinity", "Infinity"),
    ] {
        assert_eq!(shown(Numeric::parse(text)), expected, "{text}");
    }
    for text in [
        "", ".", "-", "1x", "1e", "1e+", "1 2", "- 1", "+nan", "1.2.3", "1_000", "é", "--1",
    ] {
        assert_eq!(Numeric::parse(text), Err(NumericError::Syntax), "{text}");
    }
    for text in [
        "1e131072",
        "1e-16384",
        "0e-16384",
        "1e999999999",
        "-1e99999999999999999999",
        "1e-1000000000",
    ] {
        assert_eq!(Numeric::parse(text), Err(NumericError::Overflow), "{text}");
    }
    assert_eq!(number("9.9e131071").to_string().len(), 131_072);
    assert_eq!(number("1e-16383").to_string().len(), 16_385);
}

#[test]
fn each_value_has_one_form() {
    for text in ["0", "0.00", "1.50", "-1.5", "1e30", "NaN", "-inf", "inf"] {
        let value = number(text);
        let bytes = value.as_bytes();
        let read = NumericRef::from_bytes(bytes).expect("it is a stored form");
        assert_eq!(read.to_string(), value.to_string());
    }
    let invalid: [&[u8]; 8] = [
        &[],
        &[0],
        // A zero at the end of the magnitude, a negative zero, digits of NaN, other kinds.
        &[0, 0, 1, 0],
        &[0, 0x40],
        &[0, 0x80, 1],
        &[3, 0x80],
        &[0, 0xc0],
        &[1, 0x40, 0],
    ];
    for bytes in invalid {
        assert!(NumericRef::from_bytes(bytes).is_none(), "{bytes:?}");
    }
    let mut digits = vec![0xff; 54_500];
    digits[..2].copy_from_slice(&[0, 0]);
    assert!(NumericRef::from_bytes(&digits).is_none(), "too many digits");
}

#[test]
fn numbers_order_as_in_postgresql() {
    let rising = [
        "-Infinity",
        "-1e131071",
        "-1e30",
        "-2.5",
        "-2.25",
        "-1",
        "-0.5",
        "-1e-300",
        "0",
        "1e-16383",
        "0.1",
        "0.12",
        "2.25",
        "2.5",
        "99999999999999999999999999999999999999.5",
        "99999999999999999999999999999999999999.51",
        "1e40",
        "1e131071",
        "Infinity",
        "NaN",
    ];
    let keys = rising.map(|text| {
        let mut key = Vec::new();
        number(text)
            .as_ref()
            .write_key(|bytes| key.extend_from_slice(bytes));
        key
    });
    for (at, left) in rising.iter().enumerate() {
        for (other, right) in rising.iter().enumerate() {
            let order = number(left).cmp(&number(right));
            assert_eq!(order, at.cmp(&other), "{left} and {right}");
            assert_eq!(keys[at].cmp(&keys[other]), order, "{left} and {right}");
        }
        let read = Numeric::read_key(&mut &keys[at][..]);
        assert_eq!(read, Ok(number(left)), "{left}");
        for length in 0..keys[at].len() {
            assert_eq!(Numeric::read_key(&mut &keys[at][..length]), Err(true));
        }
    }
    for (left, right) in [
        ("1.5", "1.50"),
        ("0", "0.000"),
        ("100", "1e2"),
        ("-1", "-1.0"),
    ] {
        assert_eq!(number(left), number(right));
    }
}

#[test]
fn other_bytes_are_no_keys() {
    // Zeros at either end, no digits, too many of them, an unknown class.
    for bytes in [
        &[3, 1, 0, 1, 1 + 5, 0][..],
        &[3, 1, 0, 1, 1 + 50, 1, 0],
        &[3, 1, 0, 1, 0],
        &[3, 1, 0, 1, 101, 0],
        &[3, 0xff, 0, 1, 51, 0],
        &[3, 0, 0, 0, 51, 0],
        &[9],
    ] {
        assert_eq!(Numeric::read_key(&mut &bytes[..]), Err(false), "{bytes:?}");
    }
}

#[test]
fn results_have_the_scales_of_postgresql() {
    for (left, operator, right, expected) in [
        ("1.50", "+", "2", "3.50"),
        ("1.50", "-", "1.5", "0.00"),
        ("1.50", "*", "2.0", "3.000"),
        ("1", "/", "3", "0.33333333333333333333"),
        ("2", "/", "3", "0.66666666666666666667"),
        ("10", "/", "2", "5.0000000000000000"),
        ("1e20", "/", "3", "33333333333333333333"),
        ("-7.5", "%", "2", "-1.5"),
        ("7.5", "%", "-2.00", "1.50"),
        ("-7.5", "div", "2", "-3"),
        ("inf", "+", "-inf", "NaN"),
        ("inf", "*", "0", "NaN"),
        ("-inf", "*", "-2", "Infinity"),
        ("1", "/", "inf", "0"),
        ("inf", "/", "inf", "NaN"),
        ("inf", "/", "-2", "-Infinity"),
        ("5", "%", "inf", "5"),
        ("inf", "%", "5", "NaN"),
        ("NaN", "/", "0", "NaN"),
        ("inf", "/", "0", "DivisionByZero"),
        ("1", "%", "0.00", "DivisionByZero"),
        ("1e131071", "*", "10", "Overflow"),
        ("1e-16383", "*", "0.1", "0"),
    ] {
        let (one, other) = (number(left), number(right));
        let (one, other) = (one.as_ref(), other.as_ref());
        let result = match operator {
            "+" => one.plus(other),
            "-" => one.minus(other),
            "*" => one.times(other),
            "/" => one.divided_by(other),
            "%" => one.remainder(other),
            _ => one.divide_whole(other),
        };
        let found = shown(result);
        // The zeros of the smallest scale are left out.
        let found = if found.len() > 1000 { "0" } else { &found };
        assert_eq!(found, expected, "{left} {operator} {right}");
    }
}

#[test]
fn roundings_are_away_from_zero() {
    for (text, digits, rounded, truncated) in [
        ("2.5", 0, "3", "2"),
        ("-2.5", 0, "-3", "-2"),
        ("1.005", 2, "1.01", "1.00"),
        ("1.5", 3, "1.500", "1.500"),
        ("1549", -2, "1500", "1500"),
        ("1550", -2, "1600", "1500"),
        ("0.5", -1, "0", "0"),
        ("5", -1, "10", "0"),
        ("NaN", 2, "NaN", "NaN"),
    ] {
        let value = number(text);
        assert_eq!(shown(value.as_ref().round(digits)), rounded, "{text}");
        assert_eq!(shown(value.as_ref().truncate(digits)), truncated, "{text}");
    }
    for (text, floor, ceil) in [
        ("1.5", "1", "2"),
        ("-1.5", "-2", "-1"),
        ("-2.0", "-2", "-2"),
    ] {
        let value = number(text);
        assert_eq!(shown(value.as_ref().floor()), floor, "{text}");
        assert_eq!(shown(value.as_ref().ceil()), ceil, "{text}");
    }
    assert_eq!(number("1.500").as_ref().trim_scale().to_string(), "1.5");
    assert_eq!(number("0.00").as_ref().scale_min(), Some(0));
    assert_eq!(number("-100").as_ref().trim_scale().to_string(), "-100");
}

#[test]
fn limits_round_and_refuse() {
    for (text, precision, scale, expected) in [
        ("1.005", 5, 2, Some("1.01")),
        ("999.994", 5, 2, Some("999.99")),
        ("999.995", 5, 2, None),
        ("1549", 2, -2, Some("1500")),
        ("9950", 2, -2, None),
        ("0.000451", 2, 5, Some("0.00045")),
        ("0.00451", 2, 5, None),
        ("NaN", 2, 2, Some("NaN")),
        ("inf", 1000, 0, None),
    ] {
        let limited = number(text).as_ref().limited(precision, scale);
        let limited = limited.map(|it| it.to_string());
        assert_eq!(limited.as_deref(), expected, "{text}");
    }
    for (text, precision, scale, is_limited) in [
        ("1.50", 3, 2, true),
        ("1.5", 3, 2, false),
        ("12.50", 3, 2, false),
        ("1500", 2, -2, true),
        ("1550", 2, -2, false),
        ("4294967295", 9, 0, false),
        ("999999999", 9, 0, true),
        ("NaN", 1, 0, true),
        ("inf", 1, 0, false),
    ] {
        let found = number(text).as_ref().is_limited(precision, scale);
        assert_eq!(found, is_limited, "{text} in ({precision},{scale})");
    }
}

#[test]
fn floats_keep_the_digits_that_they_surely_have() {
    assert_eq!(Numeric::from_double(0.1 + 0.2).to_string(), "0.3");
    assert_eq!(
        Numeric::from_double(1e20).to_string(),
        "100000000000000000000"
    );
    assert_eq!(Numeric::from_double(-1.5e-7).to_string(), "-0.00000015");
    assert_eq!(Numeric::from_single(16_777_217.0).to_string(), "16777200");
    assert_eq!(number("1e400").as_ref().to_double(), None);
    assert_eq!(number("1e-400").as_ref().to_double(), None);
    assert_eq!(number("0.1").as_ref().to_double(), Some(0.1));
    assert_eq!(number("1e39").as_ref().to_single(), None);
    assert_eq!(
        number("9223372036854775807.4").as_ref().to_integer(),
        Ok(Some(i64::MAX))
    );
    assert_eq!(
        number("9223372036854775807.5").as_ref().to_integer(),
        Ok(None)
    );
    assert_eq!(
        number("NaN").as_ref().to_integer(),
        Err(NumericError::NotFinite)
    );
}
