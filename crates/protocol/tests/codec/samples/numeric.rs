//! Samples with decimal numbers, intervals, times of the day and arrays.

pub mod arrays;

use placement::{ColumnType, Interval, Numeric, TimeZone, Value};
use protocol::expression::{
    Assignment, BinaryOperator, Expression, FunctionCall, ScalarFunction, UnaryOperator,
};
use protocol::operation::Action;

/// `SET distance = round(CAST(distance AS numeric(10,-2)) * -1.50, 1) WHERE 'NaN' > 0.000`
pub fn action() -> Action {
    let number = |text| {
        let number = Numeric::parse(text).expect("it is a number");
        Box::new(Expression::Literal(Value::Numeric(number)))
    };
    let cast = UnaryOperator::Cast(ColumnType::Decimal {
        precision: 10,
        scale: -2,
    });
    let distance = Expression::Unary(cast, Box::new(Expression::Column(3)));
    let product = Expression::Binary(
        BinaryOperator::Multiply,
        Box::new(distance),
        number("-1.50"),
    );
    let operands = vec![product, Expression::Literal(Value::Int32(1))];
    let call = FunctionCall::new(ScalarFunction::Round, operands);
    Action::Update {
        assignments: vec![Assignment {
            column: 3,
            value: Expression::Call(Box::new(call)),
        }],
        condition: Some(Expression::Binary(
            BinaryOperator::Greater,
            number("NaN"),
            number("0.000"),
        )),
    }
}

/// `SET at = at + '-1 mons +2 days 00:00:03' WHERE justify_days(span)::time(3) > '12:00'`
pub fn spans() -> Action {
    let by = Value::Interval(Interval {
        months: -1,
        days: 2,
        micros: 3_000_000,
    });
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("it is a zone");
    let call =
        |function, operands| Expression::Call(Box::new(FunctionCall::new(function, operands)));
    let later = call(
        ScalarFunction::MomentLater,
        vec![
            Expression::Column(4),
            Expression::Literal(by),
            Expression::Literal(Value::Bytes(zone.encode())),
        ],
    );
    let justified = call(ScalarFunction::JustifyDays, vec![Expression::Column(5)]);
    let cast = UnaryOperator::Cast(ColumnType::Time(3));
    Action::Update {
        assignments: vec![Assignment {
            column: 4,
            value: later,
        }],
        condition: Some(Expression::Binary(
            BinaryOperator::Greater,
            Box::new(Expression::Unary(cast, Box::new(justified))),
            Box::new(Expression::Literal(Value::Time(43_200_000_000))),
        )),
    }
}

/// Returns an unconditional update.
pub fn update(assignments: Vec<Assignment>) -> Action {
    Action::Update {
        assignments,
        condition: None,
    }
}
