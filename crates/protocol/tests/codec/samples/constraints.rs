//! Samples of the constraints and the comments of a table.

use placement::{
    CheckConstraint, Comment, CommentedObject, Deferral, ForeignKey, ReferentialAction,
    TableComments, TableConstraints, Value,
};
use protocol::expression::{BinaryOperator, Expression};

/// A comment on a column, and one on an index.
pub fn comments() -> TableComments {
    let by_tail = CommentedObject::Index {
        name: "by_tail".into(),
    };
    let commented = [
        (CommentedObject::Column { position: 1 }, "the plane"),
        (by_tail, "sorted"),
    ];
    let comments = commented.map(|(object, text)| Comment {
        object,
        text: text.into(),
    });
    TableComments(comments.into())
}

/// One constraint of each kind.
pub fn constraints() -> TableConstraints {
    TableConstraints {
        checks: vec![CheckConstraint {
            name: "flights_id_check".into(),
            condition: Expression::Binary(
                BinaryOperator::Greater,
                Box::new(Expression::Column(0)),
                Box::new(Expression::Literal(Value::Int64(0))),
            ),
            is_valid: true,
        }],
        foreign_keys: vec![ForeignKey {
            name: "flights_id_fkey".into(),
            columns: vec![0],
            parent: "planes".into(),
            on_delete: ReferentialAction::Restrict,
            on_update: ReferentialAction::NoAction,
            deferral: Deferral::InitiallyDeferred,
            is_valid: true,
        }],
        referenced_by: vec!["seats".into()],
    }
}
