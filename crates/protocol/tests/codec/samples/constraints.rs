//! A sample of the constraints of a table.

use placement::{
    CheckConstraint, Deferral, ForeignKey, ReferentialAction, TableConstraints, Value,
};
use protocol::expression::{BinaryOperator, Expression};

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
