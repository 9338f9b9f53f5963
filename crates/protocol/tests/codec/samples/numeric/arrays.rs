//! A sample with arrays.

use placement::{ArrayFunction, ColumnType, ElementType, Value};
use protocol::expression::{
    Assignment, BinaryOperator, Comparison, Expression, FunctionCall, ScalarFunction,
};
use protocol::operation::Action;

/// `SET c = array_append(c, 7)[1:] WHERE c && '[0:1]={1,NULL}' OR d = ANY ('{}')
/// AND d LIKE ALL ('{"a%",NULL}')`
pub fn action() -> Action {
    let array = |element, text| {
        let value = Value::parse(ColumnType::Array(element), text).expect("it is an array");
        Box::new(Expression::Literal(value))
    };
    let call = |function, operands| {
        let function = ScalarFunction::Array(function);
        Expression::Call(Box::new(FunctionCall::new(function, operands)))
    };
    let appended = call(
        ArrayFunction::Append(ElementType::Int32),
        vec![Expression::Column(2), Expression::Literal(Value::Int32(7))],
    );
    let sliced = call(
        ArrayFunction::Slice(0b10),
        vec![appended, Expression::Literal(Value::Int32(1))],
    );
    let of_column = |column, operator, array| {
        let column = Box::new(Expression::Column(column));
        Box::new(Expression::Binary(operator, column, array))
    };
    let integers = array(ElementType::Int32, "[0:1]={1,NULL}");
    let texts = array(ElementType::Text, "{}");
    let patterns = array(ElementType::Text, "{\"a%\",NULL}");
    let any = of_column(3, BinaryOperator::Any(Comparison::Equal), texts);
    let all = of_column(3, BinaryOperator::All(Comparison::Like), patterns);
    Action::Update {
        assignments: vec![Assignment {
            column: 2,
            value: sliced,
        }],
        condition: Some(Expression::Binary(
            BinaryOperator::Or,
            of_column(2, BinaryOperator::Overlaps, integers),
            Box::new(Expression::Binary(BinaryOperator::And, any, all)),
        )),
    }
}
