//! Expressions that the store evaluates as others: `ILIKE` as `LIKE` of texts in lower case.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, VisitMut, VisitorMut};

use super::template;

/// Rewrites the expressions of a statement.
pub(super) fn rewrite(statement: &mut ast::Statement) {
    // It never breaks.
    let _: ControlFlow<()> = VisitMut::visit(statement, &mut Rewriting);
}

struct Rewriting;

impl VisitorMut for Rewriting {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let rewritten = match &*expression {
            Expr::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } if !escape_char.as_ref().is_some_and(|it| has_case(it)) => Some(Expr::Like {
                negated: *negated,
                any: false,
                expr: Box::new(lower(expr)),
                pattern: Box::new(lower(pattern)),
                escape_char: escape_char.clone(),
            }),
            _ => None,
        };
        if let Some(rewritten) = rewritten {
            *expression = rewritten;
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether an escape character is a letter, which the lower case of a pattern would change.
fn has_case(escape: &Expr) -> bool {
    let text = match escape {
        Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    };
    text.is_none_or(|text| text.chars().any(char::is_alphabetic))
}

/// Returns the call `lower(expression)`.
fn lower(expression: &Expr) -> Expr {
    let ast::Statement::Query(query) = template("SELECT lower(x)") else {
        unreachable!("the template selects");
    };
    let ast::SetExpr::Select(mut select) = *query.body else {
        unreachable!("the template selects");
    };
    let Some(ast::SelectItem::UnnamedExpr(Expr::Function(mut call))) = select.projection.pop()
    else {
        unreachable!("the template calls a function");
    };
    if let ast::FunctionArguments::List(list) = &mut call.args {
        let argument = FunctionArgExpr::Expr(expression.clone());
        list.args = vec![FunctionArg::Unnamed(argument)];
    }
    Expr::Function(call)
}
