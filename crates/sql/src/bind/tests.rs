//! Tests the binding of expressions over a table of each type: the bound expressions, and the
//! refusals.

use placement::Numeric;
use protocol::expression::evaluate;

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::operators::Place;
use super::*;
use crate::fixture::{FLIGHTS, schema};

fn parsed(text: &str) -> Expr {
    let mut parser = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(text)
        .unwrap();
    parser.parse_expr().unwrap()
}

/// Returns the value of an expression without columns, as psql would print it.
fn computed(text: &str) -> Result<String, String> {
    let scope = Scope {
        now_us: Some(0),
        ..Scope::CONSTANTS
    };
    let (expression, _) = scope.output(&parsed(text)).map_err(|it| it.to_string())?;
    let value = evaluate(&expression, &Vec::new(), None).map_err(|it| it.to_string())?;
    Ok(match value {
        Value::Null => "NULL".to_string(),
        value => value.to_string(),
    })
}

/// Right-hand sides are from PostgreSQL's documentation and regression tests.
#[test]
// tidy: long — a table of cases
fn constants_as_postgresql_computes_them() {
    for (text, expected) in [
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("5 / 2", "2"),
        ("-5 / 2", "-2"),
        ("5 % 4", "1"),
        ("-5 % 3", "-2"),
        ("5.0 / 2", "2.5000000000000000"),
        ("- 4", "-4"),
        ("+4", "4"),
        ("'Post' || 'greSQL'", "PostgreSQL"),
        ("'it''s'", "it's"),
        ("e'a\\tb'", "a\tb"),
        ("$$a'b$$", "a'b"),
        ("1 = 1.0", "t"),
        ("'5' = 5", "t"),
        ("'10' > 9", "t"),
        ("NULL = NULL", "NULL"),
        ("NULL AND false", "f"),
        ("NULL AND true", "NULL"),
        ("NULL OR true", "t"),
        ("NOT NULL", "NULL"),
        ("NULL IS NULL", "t"),
        ("1 IS NOT NULL", "t"),
        ("NULL IS NOT TRUE", "t"),
        ("false IS FALSE", "t"),
        ("NULL IS DISTINCT FROM 1", "t"),
        ("NULL IS NOT DISTINCT FROM NULL", "t"),
        ("2 BETWEEN 1 AND 3", "t"),
        ("2 NOT BETWEEN 1 AND 3", "f"),
        ("3 IN (1, 2)", "f"),
        ("3 NOT IN (1, 2)", "t"),
        ("3 IN (1, NULL)", "NULL"),
        ("3 NOT IN (3, NULL)", "f"),
        ("'abc' LIKE 'abc'", "t"),
        ("'abc' LIKE 'a%'", "t"),
        ("'abc' LIKE '_b_'", "t"),
        ("'abc' LIKE 'c'", "f"),
        ("'abc' NOT LIKE 'c'", "t"),
        ("(1, 'a') = (1, 'a')", "t"),
        ("(1, 'a') <> (1, 'b')", "t"),
        ("(1, 2) IN ((3, 4), (1, 2))", "t"),
        ("'2013-01-01 05:15:00'::timestamp", "2013-01-01 05:15:00"),
        ("timestamp '2013-01-01 05:15'", "2013-01-01 05:15:00"),
        ("CAST('42' AS bigint)", "42"),
        ("42::text || '!'", "42!"),
        ("true::text", "true"),
        ("'yes'::boolean", "t"),
        ("1::boolean", "t"),
        ("'\\x00ff'::bytea", "\\x00ff"),
        (
            "'{A0EEBC99-9c0b4ef8-bb6d6bb9-bd380a11}'::uuid",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("'a%b' LIKE 'a!%b' ESCAPE '!'", "t"),
        ("'axb' LIKE 'a!%b' ESCAPE '!'", "f"),
        ("'axb' NOT LIKE 'a!_b' ESCAPE '!'", "t"),
        ("'a\\b' LIKE 'a\\b' ESCAPE '!'", "t"),
        ("'a\\b' LIKE 'a\\b' ESCAPE ''", "t"),
        ("'a\\xb' LIKE 'a\\%b' ESCAPE ''", "t"),
        ("'a!b' LIKE 'a!!b' ESCAPE '!'", "t"),
        ("'a%b' LIKE 'a\\%b' ESCAPE '\\'", "t"),
        ("'a%' LIKE 'a%%' ESCAPE '%'", "t"),
        ("'€a' LIKE '€€€a' ESCAPE '€'", "t"),
        ("'a' LIKE 'a' ESCAPE NULL", "NULL"),
        ("1.50::text", "1.50"),
        ("1e5::text", "100000"),
        ("9007199254740993.4::bigint", "9007199254740993"),
        ("9007199254740993 = 9007199254740992.0", "f"),
        ("0.1 = 0.10", "t"),
        ("'2024-01-01 00:00:00+02'::timestamp", "2024-01-01 00:00:00"),
        ("'infinity'::timestamp > now()", "t"),
        // Numeric literals round halves away from zero, floats to the even neighbour.
        ("2.5::bigint", "3"),
        ("-2.5::bigint", "-3"),
        ("2.5::float8::bigint", "2"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1e3", "1000"),
        ("'1e3'::float8", "1000"),
        ("'infinity'::float8", "Infinity"),
        ("now()", "1970-01-01 00:00:00+00"),
        ("CURRENT_TIMESTAMP", "1970-01-01 00:00:00+00"),
        ("localtimestamp", "1970-01-01 00:00:00"),
        ("current_date", "1970-01-01"),
        ("now()::date - date '1969-12-25'", "7"),
        ("'2024-02-28'::date + 2", "2024-03-01"),
        ("'2024-01-01 10:00'::date", "2024-01-01"),
        (
            "'2024-01-01 00:00:00+02'::timestamptz",
            "2023-12-31 22:00:00+00",
        ),
        ("date '2024-01-01' < timestamp '2024-01-01 00:00:01'", "t"),
        ("'5'::int", "5"),
        ("smallint '5' + 1", "6"),
        ("2.5::smallint", "3"),
        ("1.5::real", "1.5"),
        ("1234567::real", "1.234567e+06"),
        ("123456::float4", "123456"),
        ("0.1::real = 0.1", "f"),
        ("'0.1'::real = '0.1'::real", "t"),
        ("1e-45::real", "1e-45"),
        ("'abcd'::varchar(3)", "abc"),
        ("12345::varchar(3)", "123"),
        ("'a  '::char(3) = 'a'", "t"),
        ("'a  '::char(3) || '!'", "a!"),
        ("true::int", "1"),
        ("0::int::boolean", "f"),
        ("1.50 + 1", "2.50"),
        ("1 / 3.0", "0.33333333333333333333"),
        ("9223372036854775808 - 1", "9223372036854775807"),
        ("1.005::numeric(10, 2)", "1.01"),
        ("1549::numeric(2, -2)", "1500"),
        ("round(2.5)", "3"),
        ("round(2.345, 2)", "2.35"),
        ("1.5 IN ('1.50')", "t"),
        ("mod(-7.5, 2)", "-1.5"),
        ("nullif(1, 2.5)::text", "1"),
    ] {
        assert_eq!(computed(text).as_deref(), Ok(expected), "{text}");
    }
}

// tidy: long — a table of cases.
#[test]
fn constants_that_have_no_value() {
    for (text, part) in [
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "out of range"),
        ("1e400::float8", "is not of type double precision"),
        ("1e400 < '1'::float8", "is not of type double precision"),
        ("1e200000", "is not of type numeric"),
        ("1e131071 * 10", "value overflows numeric format"),
        ("999.995::numeric(5,2)", "less than 10^3"),
        (
            "'NaN'::numeric::int",
            "NaN and infinity cannot become a integer",
        ),
        ("1.5 % '1'::float8", "% double precision has no meaning"),
        ("'x'::bigint", "\"x\" is not of type bigint"),
        ("'2013-13-01'::timestamp", "is not of type timestamp"),
        ("1 || 2", "integer || integer has no meaning"),
        ("1 LIKE 'a'", "has no meaning"),
        ("true + 1", "has no meaning"),
        ("'x' = 5", "\"x\" is not of type integer"),
        ("NOT 5", "must be boolean"),
        ("1 AND true", "must be boolean"),
        ("1::uuid", "cannot become a uuid"),
        ("gamma(4)", "the function gamma is not supported"),
        ("'a' ILIKE 'A' ESCAPE 'x'", "is not supported"),
        ("1 > ANY (SELECT 1)", "is not supported"),
        ("1 > ANY (2)", "requires array on right side"),
        ("1 > ANY ('{a}')", "is not of type integer"),
        ("1::nosuch", "type \"nosuch\" does not exist"),
        ("'a' ~ '(b)\\1'", "has a back reference"),
        ("(SELECT 1)", "is not supported"),
        ("CASE WHEN 1 THEN 1 END", "case does not take operands"),
        ("'12:00'::timetz", "is not supported"),
        ("a", "column \"a\" does not exist: no column can stand here"),
        ("(1, 2) = (1, 2, 3)", "the lists have 2 and 3 members"),
        ("$1", "parameter $1 has no value: 0 were given"),
        ("'ab' LIKE 'a!' ESCAPE '!'", "ends"),
        (
            "'a' LIKE 'a' ESCAPE '!!'",
            "is one character or the empty text",
        ),
        ("2147483648::int", "\"2147483648\" is not of type integer"),
        ("'40000'::smallint", "\"40000\" is not of type smallint"),
        ("2147483647 + 1", "out of range"),
        ("32767::smallint + 1::smallint", "out of range"),
        ("1e39::real", "is not of type real"),
        ("1e39::float8::real", "out of range"),
        (
            "date '2024-01-01' + 1::bigint",
            "date + bigint has no meaning",
        ),
        ("'2024-02-30'::date", "is not of type date"),
        ("5::tinyint", "is not supported: write smallint"),
        (
            "'a'::varchar(0)",
            "the length of varchar is from 1 to 10485760",
        ),
        (
            "1::numeric(0)",
            "the precision of numeric is from 1 to 1000",
        ),
        ("1::money", "is not supported: write numeric(19,2)"),
        ("5::bigint::boolean", "cannot become a boolean"),
        ("true::bigint", "cannot become a bigint"),
        ("3000000000::boolean", "cannot become a boolean"),
        ("'1e400'::float8", "is not of type double precision"),
        ("'1e-400'::float8", "is not of type double precision"),
    ] {
        let error = computed(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn literals_take_the_type_of_the_column_beside_them() {
    let schema = schema(FLIGHTS);
    let scope = Scope {
        schema: Some(&schema),
        alias: Some("f"),
        ..Scope::CONSTANTS
    };
    let condition = |text: &str| scope.condition(&parsed(text)).map_err(|it| it.to_string());
    let right = |text: &str| match &condition(text).unwrap()[..] {
        [Expression::Binary(_, _, right)] => match &**right {
            Expression::Literal(value) => value.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(right("f.dep_delay = 1"), Value::Float64(1.0));
    assert_eq!(condition("tailnum::bigint = 5").unwrap().len(), 1);
    assert_eq!(right("id = '7'"), Value::Int64(7));
    assert_eq!(right("id < 7.5"), Value::Int64(7));
    assert_eq!(right("id < 7.5::numeric"), Value::Int64(7));
    assert_eq!(right("dep_delay > 7.5"), Value::Float64(7.5));
    assert_eq!(
        right("scheduled >= '1970-01-02'"),
        Value::Timestamp(86_400_000_000)
    );
    for (text, part) in [
        ("id = 'x'", "in id = 'x': \"x\" is not of type bigint"),
        ("tailnum = 5", "text = integer has no meaning"),
        ("speed = 5", "table flights has no column speed: it has id"),
        ("flights.id = 5", "write f.id"),
        ("excluded.id = 5", "write f.id"),
        ("id", "must be boolean, this one is bigint"),
        ("scheduled + 1 = scheduled", "has no meaning"),
        ("cancelled::bigint = 5", "a boolean cannot become a bigint"),
    ] {
        let error = condition(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(condition("true"), Ok(Vec::new()));
    assert_eq!(
        condition("cancelled AND (id = 1 AND note = 'x')")
            .unwrap()
            .len(),
        3
    );
    // A chain longer than the store's depth is fine, since it is laid out as a tree.
    let long: Vec<String> = (0..1000).map(|it| format!("note = '{it}'")).collect();
    assert_eq!(condition(&long.join(" OR ")).unwrap().len(), 1);
}

#[test]
fn parameters_stand_for_values() {
    let schema = schema(FLIGHTS);
    let parameters = [Value::Text("2013-01-01".into()), Value::Int64(7)];
    let scope = Scope {
        schema: Some(&schema),
        parameters: &parameters,
        ..Scope::CONSTANTS
    };
    let conjuncts = scope
        .condition(&parsed("scheduled = $1 AND id = $2"))
        .unwrap();
    assert!(matches!(&conjuncts[0], Expression::Binary(_, _, right)
        if matches!(**right, Expression::Literal(Value::Timestamp(_)))));
    assert!(matches!(&conjuncts[1], Expression::Binary(_, _, right)
        if **right == Expression::Literal(Value::Int64(7))));
}

#[test]
fn values_for_columns_convert_as_on_assignment() {
    let value = |text: &str, column_type| {
        constant(&parsed(text), column_type, "column x", TimeZone::UTC).map_err(|it| it.to_string())
    };
    assert_eq!(value("2.5", ColumnType::Int64), Ok(Value::Int64(3)));
    assert_eq!(value("1", ColumnType::Float64), Ok(Value::Float64(1.0)));
    assert_eq!(value("5", ColumnType::Text), Ok(Value::Text("5".into())));
    assert_eq!(
        value("true", ColumnType::Text),
        Ok(Value::Text("true".into()))
    );
    assert_eq!(value("'5'", ColumnType::Int64), Ok(Value::Int64(5)));
    assert_eq!(value("NULL", ColumnType::Uuid), Ok(Value::Null));
    assert_eq!(value("1 + 1.6", ColumnType::Int64), Ok(Value::Int64(3)));
    assert_eq!(
        value("true", ColumnType::Int64),
        Err("column x: a boolean cannot be stored in a column of type bigint: convert it".into())
    );
    assert_eq!(
        value("9223372036854775808", ColumnType::Int64),
        Err(
            "column x: \"9223372036854775808\" is not of type bigint: write a whole number from \
             -2^63 to 2^63 - 1"
                .into()
        )
    );
}

#[test]
fn places_of_numbers_among_the_integers() {
    for (text, place) in [
        ("0", Place::At(0)),
        ("-0.0", Place::At(0)),
        ("1.5", Place::After(1)),
        ("-1.5", Place::After(-2)),
        ("-0.001", Place::After(-1)),
        ("2.000", Place::At(2)),
        ("1.5e1", Place::At(15)),
        ("9007199254740993.0", Place::At(9_007_199_254_740_993)),
        ("9223372036854775807", Place::At(i64::MAX)),
        ("9223372036854775807.1", Place::Above),
        ("9223372036854775808", Place::Above),
        ("-9223372036854775808", Place::At(i64::MIN)),
        ("-9223372036854775808.5", Place::Below),
        ("1e131071", Place::Above),
        ("-1e131071", Place::Below),
        ("1e-16383", Place::After(0)),
        ("-Infinity", Place::Below),
        ("Infinity", Place::Above),
        ("NaN", Place::Above),
    ] {
        let number = Numeric::parse(text).unwrap();
        assert_eq!(Place::of(number.as_ref()), place, "{text}");
    }
}
