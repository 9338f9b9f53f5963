//! Names, orders and equality of values.

use super::*;

#[test]
fn type_names_parse_back() {
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let limited = [
        ColumnType::Varchar(7),
        ColumnType::Char(1),
        decimal(1, 0),
        decimal(1000, -1000),
        decimal(3, 5),
        ColumnType::Time(0),
        ColumnType::Interval(3),
    ];
    for column_type in ColumnType::ALL.into_iter().chain(limited) {
        let name = format!("{column_type}");
        assert_eq!(ColumnType::parse(&name), Some(column_type));
    }
    for (name, expected) in [
        (" Double   PRECISION ", ColumnType::Float64),
        ("character varying ( 3 )", ColumnType::Varchar(3)),
        ("CHAR", ColumnType::Char(1)),
        ("timestamp with time zone", ColumnType::TimestampTz),
        ("timestamp(6) with time zone", ColumnType::TimestampTz),
        ("timestamp(6)", ColumnType::Timestamp),
        ("float(24)", ColumnType::Float32),
        ("float(25)", ColumnType::Float64),
        ("DEC ( 5 )", decimal(5, 0)),
        ("decimal(10, 2)", decimal(10, 2)),
        ("numeric", ColumnType::Numeric),
        ("time(6) without time zone", ColumnType::TIME),
        ("interval ( 6 )", ColumnType::INTERVAL),
    ] {
        assert_eq!(ColumnType::parse(name), Some(expected), "{name}");
    }
    for other in [
        "numeric(0)",
        "numeric(1001)",
        "numeric(10,1001)",
        "numeric(10,2,1)",
        "numeric()",
        "serial",
        "time with time zone",
        "time(7)",
        "interval(7)",
        "interval day to second",
        "varchar(0)",
        "varchar(99999999)",
        "integer(4)",
        "char(1) array",
        "timestamp(3)",
    ] {
        assert_eq!(ColumnType::parse(other), None, "{other}");
    }
}

#[test]
fn equal_numbers_are_equal_values() {
    for (left, right) in [
        (Value::Int16(-7), Value::Int64(-7)),
        (Value::Int32(7), Value::Int16(7)),
        (Value::Float32(0.5), Value::Float64(0.5)),
    ] {
        assert_eq!(left, right);
    }
    let numeric = |text| Value::parse(ColumnType::Numeric, text).expect("it is a number");
    assert_eq!(numeric("1.5"), numeric("1.50"));
    assert!(numeric("NaN") > numeric("Infinity"));
    assert!(!numeric("1.5").as_ref().is_same(numeric("1.50").as_ref()));
    assert!(numeric("1.5").as_ref().is_same(numeric("15e-1").as_ref()));
    assert!(!ValueRef::Float64(-0.0).is_same(ValueRef::Float64(0.0)));
    assert!(!ValueRef::Int32(1).is_same(ValueRef::Int64(1)));
    assert!(ValueRef::Null.is_same(ValueRef::Null));
    assert!(Value::Int32(1) < Value::Int64(1 << 40));
    assert!(Value::Float32(0.1) > Value::Float64(0.1));
}

#[test]
fn limits_count_characters() {
    assert!(ColumnType::Varchar(2).admits(ValueRef::Text("\u{e4}\u{1f600}")));
    assert!(!ColumnType::Char(2).admits(ValueRef::Text("abc")));
    assert!(ColumnType::Text.admits(ValueRef::Text("abc")));
    let padded = Value::Text("\u{e4}".into());
    assert_eq!(ColumnType::Char(3).shown(&padded), "\u{e4}  ");
}

#[test]
fn floats_order_as_postgresql() {
    let sorted = [
        f64::NEG_INFINITY,
        -1.5,
        -f64::MIN_POSITIVE,
        0.0,
        5e-324,
        1.0,
        f64::INFINITY,
        f64::NAN,
    ];
    for pair in sorted.windows(2) {
        assert!(
            Value::Float64(pair[0]) < Value::Float64(pair[1]),
            "{pair:?}"
        );
    }
    assert_eq!(Value::Float64(-0.0), Value::Float64(0.0));
    assert_eq!(Value::Float64(-f64::NAN), Value::Float64(f64::NAN));
}

#[test]
fn null_sorts_last() {
    assert!(Value::Null > Value::Uuid([255; 16]));
    assert!(Value::Null > Value::Bool(true));
    assert_eq!(Value::Null, Value::Null);
}
