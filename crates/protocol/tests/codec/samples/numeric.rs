//! Samples with decimal numbers, and with arrays.

pub mod arrays;

use placement::{ColumnType, Numeric, Value};
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
    let call = FunctionCall {
        function: ScalarFunction::Round,
        operands: vec![product, Expression::Literal(Value::Int32(1))],
    };
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
