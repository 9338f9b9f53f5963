//! The aggregates inside expressions that a session computes itself.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Visit, VisitMut, Visitor, VisitorMut};

use crate::bind::written_aggregate;
use crate::error::SqlError;
use crate::statement::SelectItem;

/// Puts values in place of the aggregates in an expression, in their order.
struct ReplacedAggregates<'a> {
    values: &'a mut dyn Iterator<Item = Expr>,
}

impl VisitorMut for ReplacedAggregates<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Ok(Some(_)) = written_aggregate(expression) {
            *expression = self.values.next().expect("each aggregate has a value");
        }
        ControlFlow::Continue(())
    }
}

/// Puts values in place of the aggregates in an expression that [`aggregates`] returns.
pub(super) fn replace_aggregates(expression: &mut Expr, values: &mut dyn Iterator<Item = Expr>) {
    // It never breaks.
    let _ = expression.visit(&mut ReplacedAggregates { values });
}

/// Collects aggregates.
struct FoundAggregates(Vec<SelectItem>);

impl Visitor for FoundAggregates {
    type Break = Box<SqlError>;

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Box<SqlError>> {
        match written_aggregate(expression) {
            Ok(None) => {}
            Ok(Some(_)) => self.0.push(SelectItem::Expression {
                expression: expression.clone(),
                name: String::new(),
                named: false,
            }),
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

/// Returns the aggregates in an expression, in their order.
pub(super) fn aggregates(expression: &Expr) -> Result<Vec<SelectItem>, SqlError> {
    let mut found = FoundAggregates(Vec::new());
    match expression.visit(&mut found) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(found.0),
    }
}
