//! Expressions that the store evaluates as others: `x = ANY (array)` and `x <> ALL (array)` as `IN`
//! if the array is written out, and `ILIKE` as `LIKE` of texts in lower case.

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
            Expr::AnyOp {
                left,
                compare_op: ast::BinaryOperator::Eq,
                right,
                ..
            } => elements(right).map(|list| in_list(left, list, false)),
            Expr::AllOp {
                left,
                compare_op: ast::BinaryOperator::NotEq,
                right,
            } => elements(right).map(|list| in_list(left, list, true)),
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

fn in_list(left: &Expr, list: Vec<Expr>, negated: bool) -> Expr {
    Expr::InList {
        expr: Box::new(left.clone()),
        list,
        negated,
    }
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

/// Returns the elements of an array that is written out; none of another expression.
fn elements(array: &Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Nested(inner) => elements(inner),
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Cast {
            expr,
            data_type: ast::DataType::Array(_),
            ..
        } => elements(expr),
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => elements_of_text(text),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the elements of an array of one dimension in PostgreSQL's form: `{1,NULL,"a b"}`.
fn elements_of_text(text: &str) -> Option<Vec<Expr>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Some(elements);
    }
    let mut characters = inner.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        let mut element = String::new();
        let quoted = characters.next_if_eq(&'"').is_some();
        loop {
            match characters.peek()? {
                '"' if quoted => break,
                ',' if !quoted => break,
                '{' | '}' | '"' if !quoted => return None,
                '\\' => {
                    characters.next();
                    element.push(characters.next()?);
                }
                _ => element.extend(characters.next()),
            }
            if !quoted && characters.peek().is_none() {
                break;
            }
        }
        if quoted {
            characters.next();
            while characters.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        }
        let is_null = !quoted && element.trim().eq_ignore_ascii_case("null");
        elements.push(match (quoted, element.trim_end()) {
            (false, "") => return None,
            _ if is_null => Expr::value(ast::Value::Null),
            (true, _) => Expr::value(ast::Value::SingleQuotedString(element)),
            (false, bare) => Expr::value(ast::Value::SingleQuotedString(bare.to_owned())),
        });
        match characters.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Option<Vec<String>> {
        let elements = elements_of_text(text)?;
        Some(elements.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn texts_of_arrays_have_elements() {
        for (text, expected) in [
            ("{}", &[][..]),
            ("{ }", &[]),
            ("{1,2}", &["'1'", "'2'"]),
            (" { a b , NULL,null } ", &["'a b'", "NULL", "NULL"]),
            (
                "{\"a,b\", \"NULL\" ,\"q\\\"x\\\\\",\"\"}",
                &["'a,b'", "'NULL'", "'q\"x\\'", "''"],
            ),
            ("{a\\,b}", &["'a,b'"]),
        ] {
            let found = texts(text).unwrap_or_else(|| panic!("{text} is an array"));
            assert_eq!(found, expected, "{text}");
        }
        for text in [
            "",
            "{",
            "1,2",
            "{1",
            "{,}",
            "{1,}",
            "{{1},{2}}",
            "{\"a}",
            "{\"a\"b}",
            "{a\\",
        ] {
            assert_eq!(texts(text), None, "{text}");
        }
    }
}
