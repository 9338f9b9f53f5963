//! Values, conversions and errors of expressions, each as a row of a table.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use placement::{Column, Interval, encode_row};
use placement::{ColumnType, Numeric, RowView, Value};
use proptest::prelude::*;

use super::BinaryOperator as Two;
use super::UnaryOperator as One;
use super::*;
use crate::codec::Wire;

const INT: fn(i64) -> Expression = |value| Expression::Literal(Value::Int64(value));
const FLOAT: fn(f64) -> Expression = |value| Expression::Literal(Value::Float64(value));
const BOOL: fn(bool) -> Expression = |value| Expression::Literal(Value::Bool(value));
const NULL: Expression = Expression::Literal(Value::Null);

fn text(value: &str) -> Expression {
    Expression::Literal(Value::Text(value.into()))
}

fn two(operator: Two, left: Expression, right: Expression) -> Expression {
    Expression::Binary(operator, Box::new(left), Box::new(right))
}

fn one(operator: One, operand: Expression) -> Expression {
    Expression::Unary(operator, Box::new(operand))
}

fn value(expression: &Expression) -> Result<Value, ExpressionError> {
    evaluate(expression, &Vec::new(), None)
}

#[test]
fn three_valued_logic() {
    let (yes, no, unknown) = (Value::Bool(true), Value::Bool(false), Value::Null);
    for (left, right, and, or) in [
        (&yes, &yes, &yes, &yes),
        (&yes, &no, &no, &yes),
        (&no, &no, &no, &no),
        (&yes, &unknown, &unknown, &yes),
        (&no, &unknown, &no, &unknown),
        (&unknown, &unknown, &unknown, &unknown),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let literal = |value: &Value| Expression::Literal(value.clone());
            let both = two(Two::And, literal(left), literal(right));
            let either = two(Two::Or, literal(left), literal(right));
            assert_eq!(value(&both), Ok(and.clone()), "{left:?} AND {right:?}");
            assert_eq!(value(&either), Ok(or.clone()), "{left:?} OR {right:?}");
        }
    }
    assert_eq!(value(&one(One::Not, NULL)), Ok(Value::Null));
    assert_eq!(value(&one(One::IsNull, NULL)), Ok(Value::Bool(true)));
    assert_eq!(value(&one(One::IsNotNull, INT(1))), Ok(Value::Bool(true)));
    let null_equals_null = two(Two::Equal, NULL, NULL);
    assert_eq!(value(&null_equals_null), Ok(Value::Null));
    assert_eq!(holds(&null_equals_null, &Vec::new(), None), Ok(false));
}

#[test]
fn arithmetic_as_postgresql() {
    use ExpressionError::{DivisionByZero, Overflow, Underflow};
    for (operator, left, right, expected) in [
        (Two::Add, INT(2), INT(3), Ok(Value::Int64(5))),
        (Two::Add, INT(i64::MAX), INT(1), Err(Overflow)),
        (Two::Subtract, INT(i64::MIN), INT(1), Err(Overflow)),
        (Two::Multiply, INT(i64::MIN), INT(-1), Err(Overflow)),
        (Two::Divide, INT(-7), INT(2), Ok(Value::Int64(-3))),
        (Two::Divide, INT(i64::MIN), INT(-1), Err(Overflow)),
        (Two::Divide, INT(1), INT(0), Err(DivisionByZero)),
        (Two::Modulo, INT(-7), INT(3), Ok(Value::Int64(-1))),
        (Two::Modulo, INT(i64::MIN), INT(-1), Ok(Value::Int64(0))),
        (Two::Modulo, INT(1), INT(0), Err(DivisionByZero)),
        (Two::Add, INT(1), FLOAT(0.5), Ok(Value::Float64(1.5))),
        (Two::Divide, FLOAT(7.0), INT(2), Ok(Value::Float64(3.5))),
        (Two::Divide, FLOAT(1.0), FLOAT(0.0), Err(DivisionByZero)),
        (
            Two::Divide,
            FLOAT(f64::NAN),
            FLOAT(0.0),
            Ok(Value::Float64(f64::NAN)),
        ),
        (Two::Multiply, FLOAT(1e200), FLOAT(1e200), Err(Overflow)),
        (Two::Multiply, FLOAT(1e-200), FLOAT(1e-200), Err(Underflow)),
        (
            Two::Multiply,
            FLOAT(f64::INFINITY),
            FLOAT(2.0),
            Ok(Value::Float64(f64::INFINITY)),
        ),
        (
            Two::Divide,
            FLOAT(1.0),
            FLOAT(f64::INFINITY),
            Ok(Value::Float64(0.0)),
        ),
        (Two::Add, INT(1), NULL, Ok(Value::Null)),
    ] {
        let expression = two(operator, left, right);
        assert_eq!(value(&expression), expected, "{expression:?}");
    }
    assert_eq!(value(&one(One::Negate, INT(i64::MIN))), Err(Overflow));
    assert_eq!(
        value(&one(One::Negate, FLOAT(1.5))),
        Ok(Value::Float64(-1.5))
    );
}

#[test]
fn comparisons_promote_numbers() {
    for (operator, left, right, expected) in [
        (Two::Equal, INT(1), FLOAT(1.0), true),
        (Two::Less, INT(1), FLOAT(1.5), true),
        (Two::GreaterEqual, FLOAT(-0.0), INT(0), true),
        (Two::Greater, FLOAT(f64::NAN), INT(i64::MAX), true),
        (Two::Equal, FLOAT(f64::NAN), FLOAT(f64::NAN), true),
        (Two::NotEqual, text("a"), text("b"), true),
        (Two::LessEqual, text("Z"), text("a"), true),
        (Two::Less, BOOL(false), BOOL(true), true),
        (Two::Greater, INT(2), INT(3), false),
    ] {
        let expression = two(operator, left, right);
        assert_eq!(
            value(&expression),
            Ok(Value::Bool(expected)),
            "{expression:?}"
        );
    }
}

#[test]
fn types_that_do_not_go_together() {
    let message = |expression: Expression| {
        let error = value(&expression).expect_err("no such operator");
        // The check finds the error of a row before there is one.
        assert_eq!(check(&expression, &[], Scope::Row), Err(error));
        error.to_string()
    };
    assert_eq!(
        message(two(Two::Equal, INT(1), text("1"))),
        "bigint = text has no meaning: give both sides types that = knows"
    );
    assert_eq!(
        message(two(Two::Modulo, FLOAT(1.0), INT(1))),
        "double precision % bigint has no meaning: give both sides types that % knows"
    );
    assert_eq!(
        message(two(Two::And, BOOL(true), INT(1))),
        "a condition must be boolean, this one is bigint: compare it with something"
    );
    assert_eq!(
        message(one(One::Negate, text("1"))),
        "only numbers can be negated, not text: name a numeric column or constant"
    );
    assert_eq!(
        holds(&INT(1), &Vec::new(), None),
        Err(ExpressionError::NotBoolean {
            found: Some(ColumnType::Int64)
        })
    );
}

#[test]
fn texts_and_bytes_concatenate_up_to_a_row() {
    assert_eq!(
        value(&two(Two::Concatenate, text("a€"), text("b"))),
        Ok(Value::Text("a€b".into()))
    );
    let bytes = |bytes: &[u8]| Expression::Literal(Value::Bytes(bytes.into()));
    assert_eq!(
        value(&two(Two::Concatenate, bytes(&[0]), bytes(&[255]))),
        Ok(Value::Bytes(vec![0, 255]))
    );
    let half = text(&"x".repeat(ROW_BYTES_MAX / 2 + 1));
    assert_eq!(
        value(&two(Two::Concatenate, half.clone(), half)),
        Err(ExpressionError::TooLong {
            bytes: ROW_BYTES_MAX + 2
        })
    );
}

#[test]
fn assignments_convert_numbers() {
    let assign = |column_type, expression: Expression| {
        evaluate_for(column_type, &expression, &Vec::new(), None)
    };
    assert_eq!(assign(ColumnType::Float64, INT(2)), Ok(Value::Float64(2.0)));
    for (float, rounded) in [
        (0.5, 0),
        (1.5, 2),
        (-2.5, -2),
        (2.4999, 2),
        (-0.6, -1),
        (1e15, 1_000_000_000_000_000),
    ] {
        assert_eq!(
            assign(ColumnType::Int64, FLOAT(float)),
            Ok(Value::Int64(rounded)),
            "{float}"
        );
    }
    assert_eq!(
        assign(ColumnType::Int64, FLOAT(-9_223_372_036_854_775_808.0)),
        Ok(Value::Int64(i64::MIN))
    );
    for out in [9_223_372_036_854_775_808.0, f64::NAN, f64::INFINITY, -1e300] {
        assert_eq!(
            assign(ColumnType::Int64, FLOAT(out)),
            Err(ExpressionError::Overflow)
        );
    }
    assert_eq!(assign(ColumnType::Int64, NULL), Ok(Value::Null));
    let wrong = ExpressionError::NotAssignable {
        expected: ColumnType::Int64,
        found: ColumnType::Text,
    };
    assert_eq!(assign(ColumnType::Int64, text("1")), Err(wrong));
    assert_eq!(
        check_assignable(ColumnType::Int64, &text("1"), &[], Scope::Row),
        Err(wrong)
    );
    assert_eq!(
        check_assignable(ColumnType::Int64, &FLOAT(1.0), &[], Scope::Row),
        Ok(())
    );
}

fn column(column_type: ColumnType) -> Column {
    Column {
        name: column_type.name().into(),
        column_type,
        nullable: true,
        default: None,
        missing: None,
    }
}

fn columns() -> Vec<Column> {
    ColumnType::ALL
        .iter()
        .map(|column_type| column(*column_type))
        .collect()
}

/// Types and values as PostgreSQL has them.
#[test]
// tidy: long — a table of cases
fn operators_promote_their_operands() {
    let literal = Expression::Literal;
    let day = |days| literal(Value::Date(days));
    for (operator, left, right, expected) in [
        (
            Two::Add,
            Value::Int16(1),
            Value::Int16(2),
            Ok(Value::Int16(3)),
        ),
        (
            Two::Add,
            Value::Int16(1),
            Value::Int32(2),
            Ok(Value::Int32(3)),
        ),
        (
            Two::Multiply,
            Value::Int32(2),
            Value::Int64(3),
            Ok(Value::Int64(6)),
        ),
        (
            Two::Add,
            Value::Int32(i32::MAX),
            Value::Int16(1),
            Err(ExpressionError::Overflow),
        ),
        (
            Two::Divide,
            Value::Int16(i16::MIN),
            Value::Int16(-1),
            Err(ExpressionError::Overflow),
        ),
        (
            Two::Divide,
            Value::Float32(1.0),
            Value::Float32(3.0),
            Ok(Value::Float32(1.0 / 3.0)),
        ),
        (
            Two::Multiply,
            Value::Float32(1e30),
            Value::Float32(1e30),
            Err(ExpressionError::Overflow),
        ),
        (
            Two::Multiply,
            Value::Float32(1e-30),
            Value::Float32(1e-30),
            Err(ExpressionError::Underflow),
        ),
        (
            Two::Add,
            Value::Float32(0.5),
            Value::Int32(1),
            Ok(Value::Float64(1.5)),
        ),
        (
            Two::Equal,
            Value::Float32(0.1),
            Value::Float64(0.1),
            Ok(Value::Bool(false)),
        ),
        (
            Two::Equal,
            Value::Int16(7),
            Value::Int64(7),
            Ok(Value::Bool(true)),
        ),
        (
            Two::Add,
            Value::Date(1),
            Value::Int32(30),
            Ok(Value::Date(31)),
        ),
        (
            Two::Add,
            Value::Int16(30),
            Value::Date(1),
            Ok(Value::Date(31)),
        ),
        (
            Two::Subtract,
            Value::Date(31),
            Value::Date(1),
            Ok(Value::Int32(30)),
        ),
        (
            Two::Add,
            Value::Date(i32::MAX),
            Value::Int32(1),
            Ok(Value::Date(i32::MAX)),
        ),
        (
            Two::Subtract,
            Value::Date(i32::MAX),
            Value::Date(1),
            Err(ExpressionError::Overflow),
        ),
        (
            Two::Less,
            Value::Date(1),
            Value::Timestamp(86_400_000_001),
            Ok(Value::Bool(true)),
        ),
        (
            Two::Equal,
            Value::TimestampTz(0),
            Value::Date(0),
            Ok(Value::Bool(true)),
        ),
    ] {
        let expression = two(operator, literal(left), literal(right));
        assert_eq!(value(&expression), expected, "{expression:?}");
        if let Ok(expected) = expected {
            let found = check(&expression, &[], Scope::Row);
            assert_eq!(found, Ok(expected.column_type()), "{expression:?}");
        }
    }
    for wrong in [
        two(Two::Add, day(1), INT(1)),
        two(Two::Multiply, day(1), literal(Value::Int32(1))),
        two(Two::Subtract, literal(Value::Int32(1)), day(1)),
        two(Two::Modulo, FLOAT(1.0), literal(Value::Int32(1))),
    ] {
        assert!(check(&wrong, &[], Scope::Row).is_err(), "{wrong:?}");
        assert!(value(&wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn columns_of_the_row_and_of_the_proposed_row() {
    let columns = [ColumnType::Int64, ColumnType::Float64, ColumnType::Text].map(column);
    let columns = &columns[..];
    let row = |number| {
        let values = [
            Value::Int64(number),
            Value::Float64(0.5),
            Value::Text("JFK".into()),
        ];
        encode_row(columns, &values).unwrap()
    };
    let (held, proposed) = (row(1), row(10));
    let held = RowView::parse(columns, &held).unwrap();
    let proposed = RowView::parse(columns, &proposed).unwrap();
    let sum = two(Two::Add, Expression::Column(0), Expression::Excluded(0));
    assert_eq!(evaluate(&sum, &held, Some(&proposed)), Ok(Value::Int64(11)));
    assert_eq!(
        evaluate(&sum, &held, None),
        Err(ExpressionError::NoExcluded)
    );
    assert_eq!(
        check(&sum, columns, Scope::Row),
        Err(ExpressionError::NoExcluded)
    );
    let unknown = ExpressionError::UnknownColumn { column: 3 };
    assert_eq!(evaluate(&Expression::Column(3), &held, None), Err(unknown));
    assert_eq!(
        check(&Expression::Column(3), columns, Scope::Row),
        Err(unknown)
    );
    let filter = two(
        Two::And,
        two(Two::Like, Expression::Column(2), text("J%")),
        two(Two::Less, Expression::Column(1), Expression::Column(0)),
    );
    assert_eq!(check_condition(&filter, columns, Scope::Row), Ok(()));
    assert_eq!(holds(&filter, &held, None), Ok(true));
}

#[test]
fn depth_and_size_are_bounded() {
    let mut deep = INT(1);
    for _ in 0..DEPTH_MAX {
        deep = one(One::Negate, deep);
    }
    assert_eq!(value(&deep), Ok(Value::Int64(1)));
    assert_eq!(Expression::decode_all(&deep.to_bytes()), Ok(deep.clone()));
    deep = one(One::Negate, deep);
    assert_eq!(value(&deep), Err(ExpressionError::TooDeep));
    assert_eq!(check(&deep, &[], Scope::Row), Err(ExpressionError::TooDeep));
    assert!(Expression::decode_all(&deep.to_bytes()).is_err());

    let equal = |number| two(Two::Equal, INT(number), INT(999));
    let list = Expression::any((0..1000).map(equal).collect()).unwrap();
    assert_eq!(check_condition(&list, &[], Scope::Row), Ok(()));
    assert_eq!(value(&list), Ok(Value::Bool(true)));
    let list = Expression::any((0..2000).map(equal).collect()).unwrap();
    assert_eq!(
        check(&list, &[], Scope::Row),
        Err(ExpressionError::TooCostly)
    );
    assert_eq!(Expression::all(Vec::new()), None);
    assert_eq!(
        value(&Expression::all(vec![BOOL(true), BOOL(true), BOOL(false)]).unwrap()),
        Ok(Value::Bool(false))
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![any::<i64>(), -3..3i64].prop_map(Value::Int64),
        prop_oneof![any::<f64>(), -3.0..3.0].prop_map(Value::Float64),
        "[ab%_\\\\]{0,4}".prop_map(Value::Text),
        proptest::collection::vec(any::<u8>(), 0..4).prop_map(Value::Bytes),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        prop_oneof![any::<i16>(), -3..3i16].prop_map(Value::Int16),
        prop_oneof![any::<i32>(), -3..3i32].prop_map(Value::Int32),
        prop_oneof![any::<f32>(), -3.0..3.0f32].prop_map(Value::Float32),
        prop_oneof![any::<i32>(), -3..3i32].prop_map(Value::Date),
        prop_oneof![any::<i64>(), -3..3i64].prop_map(Value::TimestampTz),
        prop_oneof![
            "-?[0-9]{1,30}(\\.[0-9]{1,30})?",
            "-?[0-3]\\.[05]",
            "NaN",
            "-?Infinity"
        ]
        .prop_map(|text| Value::Numeric(Numeric::parse(&text).unwrap())),
        any_json().prop_map(Value::Json),
        any_json().prop_map(|it| Value::parse(ColumnType::Jsonb, &it).unwrap()),
        (0..=86_400_000_000_i64).prop_map(Value::Time),
        (any::<i32>(), -99..99_i32, any::<i64>()).prop_map(|(months, days, micros)| {
            Value::Interval(Interval {
                months,
                days,
                micros,
            })
        }),
    ]
}

fn any_json() -> impl Strategy<Value = String> {
    const TEXTS: [&str; 9] = [
        "1",
        "-1.50",
        "true",
        "null",
        "\"a\"",
        "[]",
        "[1, \"a\"]",
        "{\"a\": [1]}",
        " {}",
    ];
    proptest::sample::select(&TEXTS[..]).prop_map(String::from)
}

/// An operator with one operand. Casts are as likely as all others.
fn any_unary() -> impl Strategy<Value = One> {
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let limited = [ColumnType::Varchar(2), ColumnType::Char(2)];
    let limited = limited.into_iter().chain([decimal(3, 1), decimal(0, -7)]);
    let types: Vec<ColumnType> = ColumnType::ALL.into_iter().chain(limited).collect();
    prop_oneof![
        (0..4u8).prop_map(|tag| One::decode_all(&[tag]).unwrap()),
        proptest::sample::select(types).prop_map(One::Cast),
    ]
}

/// The tag of an operator with two operands.
fn any_two() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 0..15u8, 1 => 32..37u8]
}

/// The tags of a function.
fn any_function() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..42u8).prop_map(|tag| vec![tag]),
        (0..21u8).prop_map(|tag| vec![64, tag]),
    ]
}

fn any_expression() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        (0..18u16).prop_map(Expression::Column),
        (0..18u16).prop_map(Expression::Excluded),
        any_value().prop_map(Expression::Literal),
    ];
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            (any_unary(), inner.clone()).prop_map(|(operator, operand)| one(operator, operand)),
            (any_two(), inner.clone(), inner.clone()).prop_map(|(tag, left, right)| {
                two(Two::decode_all(&[tag]).unwrap(), left, right)
            }),
            (any_function(), proptest::collection::vec(inner, 0..4)).prop_map(|(tag, operands)| {
                let function = ScalarFunction::decode_all(&tag).unwrap();
                Expression::Call(Box::new(FunctionCall::new(function, operands)))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// An expression that passes the check fails on a row only because of values, and has the type
    /// that the check found.
    #[test]
    fn checked_expressions_fail_only_by_value(
        expression in any_expression(),
        seed in proptest::collection::vec(any_value(), 34),
    ) {
        let columns = columns();
        let fits = |offset: usize| {
            let value = |(index, column): (usize, &Column)| {
                let value = seed[offset + index].clone();
                if value.column_type() == Some(column.column_type) { value } else { Value::Null }
            };
            columns.iter().enumerate().map(value).collect::<Vec<_>>()
        };
        let (row, excluded) = (fits(0), fits(17));
        if let Ok(column_type) = check(&expression, &columns, Scope::RowAndExcluded) {
            match evaluate(&expression, &row, Some(&excluded)) {
                Ok(value) => prop_assert!(
                    value.is_null() || value.column_type() == column_type,
                    "{:?} is not of type {:?}", value, column_type
                ),
                Err(error) => prop_assert!(matches!(
                    error,
                    ExpressionError::Overflow
                        | ExpressionError::Underflow
                        | ExpressionError::DivisionByZero
                        | ExpressionError::PatternEnd
                        | ExpressionError::NotOfType { .. }
                        | ExpressionError::NegativeLength
                        | ExpressionError::NumericOverflow
                        | ExpressionError::TooManyDigits { .. }
                        | ExpressionError::NotFinite { .. }
                        | ExpressionError::Json(_)
                        | ExpressionError::TimeRange
                        | ExpressionError::FieldOfOtherType
                        | ExpressionError::UnknownField
                        | ExpressionError::NoZone
                ), "{}", error),
            }
        }
        // Without the check nothing panics either.
        let _ = evaluate(&expression, &row, None);
        prop_assert_eq!(Expression::decode_all(&expression.to_bytes()), Ok(expression));
    }
}

fn numeric(text: &str) -> Expression {
    let number = Numeric::parse(text).unwrap();
    Expression::Literal(Value::Numeric(number))
}

#[test]
fn numerics_promote_as_in_postgresql() {
    for (operator, left, right, expected) in [
        (Two::Add, INT(1), numeric("0.50"), Ok("1.50")),
        (
            Two::Divide,
            numeric("1"),
            INT(3),
            Ok("0.33333333333333333333"),
        ),
        (Two::Modulo, numeric("-7.5"), INT(2), Ok("-1.5")),
        (
            Two::Add,
            numeric("0.1"),
            FLOAT(0.2),
            Ok("0.30000000000000004"),
        ),
        (Two::Equal, numeric("1.50"), numeric("1.5"), Ok("t")),
        (
            Two::Less,
            INT(i64::MAX),
            numeric("9223372036854775807.5"),
            Ok("t"),
        ),
        (Two::Greater, numeric("NaN"), FLOAT(f64::INFINITY), Ok("t")),
        (
            Two::Less,
            numeric("1e400"),
            FLOAT(1.0),
            Err(ExpressionError::Overflow),
        ),
        (
            Two::Divide,
            numeric("1"),
            numeric("0.00"),
            Err(ExpressionError::DivisionByZero),
        ),
        (
            Two::Multiply,
            numeric("1e131071"),
            numeric("10"),
            Err(ExpressionError::NumericOverflow),
        ),
    ] {
        let found = value(&two(operator, left.clone(), right.clone()));
        let found = found.map(|it| it.to_string());
        assert_eq!(found, expected.map(String::from), "{left:?} {right:?}");
    }
    let remainder = two(Two::Modulo, numeric("1"), FLOAT(1.0));
    assert!(check(&remainder, &[], Scope::Row).is_err());
}

#[test]
fn assigned_numerics_are_rounded_to_their_column() {
    let column = ColumnType::Decimal {
        precision: 4,
        scale: 2,
    };
    let assigned = |expression| evaluate_for(column, &expression, &Vec::new(), None);
    let shown = |expression| assigned(expression).map(|it| it.to_string());
    assert_eq!(shown(numeric("1.005")), Ok("1.01".into()));
    assert_eq!(shown(INT(7)), Ok("7.00".into()));
    assert_eq!(shown(FLOAT(0.125)), Ok("0.13".into()));
    let too_large = ExpressionError::TooManyDigits {
        column_type: column,
    };
    assert_eq!(shown(numeric("99.995")), Err(too_large));
    assert_eq!(shown(numeric("Infinity")), Err(too_large));
    let integer = evaluate_for(ColumnType::Int32, &numeric("NaN"), &Vec::new(), None);
    let column_type = ColumnType::Int32;
    assert_eq!(integer, Err(ExpressionError::NotFinite { column_type }));
}

#[test]
fn many_digits_cost_steps() {
    let long = || numeric(&format!("1{}e-16000", "3".repeat(120_000)));
    let quotient = || two(Two::Divide, long(), long());
    assert!(value(&quotient()).is_ok());
    let both = two(Two::Add, quotient(), quotient());
    let both = two(Two::Add, both, quotient());
    assert_eq!(value(&both), Err(ExpressionError::TooCostly));
}
