//! Binds the operators and functions of JSON that take a path or several keys.
//!
//! These are a literal of an array of texts, such as `'{a,0}'`, or `ARRAY['a', …]`. The store has
//! functions of the steps, each of which is an expression.

use placement::{ColumnType, ElementType, JsonFunction, Value};
use protocol::expression::{Expression, ExpressionError, FunctionCall, ScalarFunction};
use sqlparser::ast::{self, Expr};

use super::{Bound, Scope, call, converted, expression_error};
use crate::error::{SqlError, sqlstate};
use crate::spelling::name;

/// An operator or a function with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathOperation {
    /// The part at the path.
    Extract,
    /// The text of the part at the path.
    ExtractText,
    /// A function of a `jsonb`.
    Function(JsonFunction),
}

/// An operation with a path as it is written.
pub(crate) struct PathCall<'e> {
    /// The operation.
    pub operation: PathOperation,
    /// The JSON.
    pub target: &'e Expr,
    /// The steps, as one array.
    pub path: &'e Expr,
    /// The value that is set, and whether it is added.
    pub others: Vec<&'e Expr>,
}

/// Returns the operation with a path that an expression is; none if it is none.
pub(crate) fn path_call(expression: &Expr) -> Option<PathCall<'_>> {
    match expression {
        Expr::BinaryOp { left, op, right } => {
            let operation = match op {
                ast::BinaryOperator::HashArrow => PathOperation::Extract,
                ast::BinaryOperator::HashLongArrow => PathOperation::ExtractText,
                ast::BinaryOperator::HashMinus => {
                    PathOperation::Function(JsonFunction::JsonbDeletePath)
                }
                ast::BinaryOperator::QuestionPipe => {
                    PathOperation::Function(JsonFunction::JsonbExistsAny)
                }
                ast::BinaryOperator::QuestionAnd => {
                    PathOperation::Function(JsonFunction::JsonbExistsAll)
                }
                _ => return None,
            };
            Some(PathCall {
                operation,
                target: left,
                path: right,
                others: Vec::new(),
            })
        }
        Expr::Function(function) => {
            let called = match &function.name.0[..] {
                [called] => name(called.as_ident()?),
                _ => return None,
            };
            let mut known = JsonFunction::ALL.into_iter();
            let found = known.find(|it| it.takes_path() && it.name() == called)?;
            let operands = call::arguments(function)?;
            let (target, path, others) = match &operands[..] {
                [target, path] if found != JsonFunction::JsonbSet => (target, path, &[][..]),
                [target, path, others @ ..]
                    if found == JsonFunction::JsonbSet && matches!(others.len(), 1 | 2) =>
                {
                    (target, path, others)
                }
                _ => return None,
            };
            Some(PathCall {
                operation: PathOperation::Function(found),
                target,
                path,
                others: others.to_vec(),
            })
        }
        _ => None,
    }
}

/// Returns the expressions that a path is written with: those of its steps, or one of all of them.
pub(crate) fn path_parts(path: &Expr) -> Vec<&Expr> {
    match path {
        Expr::Nested(inner) => path_parts(inner),
        Expr::Cast {
            expr, data_type, ..
        } if is_text_array(data_type) => path_parts(expr),
        Expr::Array(array) => array.elem.iter().collect(),
        other => vec![other],
    }
}

fn is_text_array(data_type: &ast::DataType) -> bool {
    let written = data_type.to_string().to_lowercase();
    matches!(
        written.as_str(),
        "text[]" | "varchar[]" | "character varying[]"
    )
}

impl Scope<'_> {
    pub(super) fn bind_path_call(
        &self,
        call: &PathCall<'_>,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        let context = match call.operation {
            PathOperation::Function(_) => Some(ColumnType::Jsonb),
            PathOperation::Extract | PathOperation::ExtractText => None,
        };
        let target = self.bind(call.target, depth + 1)?;
        let (target, found) = self.resolve(target, context, call.target)?;
        let is_json = found == Some(ColumnType::Json);
        let function = match call.operation {
            PathOperation::Function(function) => function,
            PathOperation::Extract if is_json => JsonFunction::JsonExtractPath,
            PathOperation::Extract => JsonFunction::JsonbExtractPath,
            PathOperation::ExtractText if is_json => JsonFunction::JsonExtractPathText,
            PathOperation::ExtractText => JsonFunction::JsonbExtractPathText,
        };
        let json = if is_json {
            ColumnType::Json
        } else {
            ColumnType::Jsonb
        };
        let mut operands = vec![match target {
            null @ Expression::Literal(Value::Null) => converted(null, json),
            target => target,
        }];
        let types = [ColumnType::Jsonb, ColumnType::Bool];
        for (other, wanted) in call.others.iter().zip(types) {
            let bound = self.bind(other, depth + 1)?;
            operands.push(self.resolve(bound, Some(wanted), other)?.0);
        }
        if function == JsonFunction::JsonbSet && call.others.len() == 1 {
            operands.push(Expression::Literal(Value::Bool(true)));
        }
        match self.bind_steps(call.path, depth + 1)? {
            Some(steps) => operands.extend(steps),
            // Without a path there is no result.
            None => operands[0] = converted(Expression::Literal(Value::Null), json),
        }
        let function = ScalarFunction::Json(function);
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        self.compound(call, source)
    }

    /// Returns the steps of a path; none if the whole path is NULL.
    fn bind_steps(&self, path: &Expr, depth: usize) -> Result<Option<Vec<Expression>>, SqlError> {
        match path {
            Expr::Nested(inner) => return self.bind_steps(inner, depth + 1),
            Expr::Cast {
                expr, data_type, ..
            } if is_text_array(data_type) => return self.bind_steps(expr, depth + 1),
            Expr::Array(array) => {
                let steps = array.elem.iter().map(|step| {
                    let bound = self.bind(step, depth + 1)?;
                    let (bound, found) = self.resolve(bound, Some(ColumnType::Text), step)?;
                    match found.map(ColumnType::of_values) {
                        None | Some(ColumnType::Text) => Ok(bound),
                        found => Err(expression_error(
                            step,
                            ExpressionError::NotAssignable {
                                expected: ColumnType::Text,
                                found: found.unwrap_or(ColumnType::Text),
                            },
                        )),
                    }
                });
                return steps.collect::<Result<_, _>>().map(Some);
            }
            _ => {}
        }
        match self.bind(path, depth + 1)? {
            Bound::Quoted(text) => {
                let items = array_items(&text).ok_or_else(|| {
                    SqlError::with_state(
                        sqlstate::INVALID_TEXT,
                        format!("malformed array literal: \"{text}\": write '{{a,b}}'"),
                    )
                })?;
                let steps = items.into_iter();
                let steps =
                    steps.map(|it| Expression::Literal(it.map_or(Value::Null, Value::Text)));
                Ok(Some(steps.collect()))
            }
            Bound::Typed(Expression::Literal(Value::Null), _) => Ok(None),
            Bound::Typed(Expression::Literal(Value::Array(array)), _)
                if array.as_ref().element() == ElementType::Text =>
            {
                let steps = array.as_ref().values();
                Ok(Some(
                    steps.map(|it| Expression::Literal(it.to_owned())).collect(),
                ))
            }
            _ => Err(SqlError::unsupported(
                format!("the path {path}"),
                "write a literal such as '{a,b}', or ARRAY[…]",
            )),
        }
    }
}

/// Returns the items of a literal of an array of texts, of which none is NULL; none if it is
/// malformed, or has several dimensions.
fn array_items(text: &str) -> Option<Vec<Option<String>>> {
    let is_space = |it: char| matches!(it, ' ' | '\t'..='\r');
    let text = text.trim_matches(is_space);
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    if inner.trim_matches(is_space).is_empty() {
        return Some(items);
    }
    let mut rest = inner.chars().peekable();
    loop {
        while rest.next_if(|it| is_space(*it)).is_some() {}
        let is_quoted = rest.next_if_eq(&'"').is_some();
        let mut item = String::new();
        // The length without spaces at the end, as far as they are not escaped.
        let mut kept = 0;
        let is_last = loop {
            match rest.next() {
                Some('"') if is_quoted => {
                    kept = item.len();
                    while rest.next_if(|it| is_space(*it)).is_some() {}
                    break match rest.next() {
                        None => true,
                        Some(',') => false,
                        Some(_) => return None,
                    };
                }
                Some(',') if !is_quoted => break false,
                Some('{' | '}' | '"') if !is_quoted => return None,
                Some('\\') => {
                    item.push(rest.next()?);
                    kept = item.len();
                }
                Some(other) => {
                    item.push(other);
                    if is_quoted || !is_space(other) {
                        kept = item.len();
                    }
                }
                None if is_quoted => return None,
                None => break true,
            }
        };
        item.truncate(kept);
        items.push(match is_quoted {
            false if item.is_empty() => return None,
            false if item.eq_ignore_ascii_case("null") => None,
            _ => Some(item),
        });
        if is_last {
            return Some(items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_arrays_are_read_as_in_postgresql() {
        let items = |text: &str| {
            let items = array_items(text)?;
            let items = items.into_iter().map(|it| it.unwrap_or("-".into()));
            Some(items.collect::<Vec<String>>().join("|"))
        };
        for (text, expected) in [
            ("{}", Some("")),
            (" { } ", Some("")),
            ("{a,b}", Some("a|b")),
            ("{ a b , \" c\" ,NULL,\"NULL\"}", Some("a b| c|-|NULL")),
            ("{\"a\\\"b\",c\\,d}", Some("a\"b|c,d")),
            ("{\"\"}", Some("")),
            ("{a\\ }", Some("a ")),
            ("{a,}", None),
            ("{,a}", None),
            ("{{a}}", None),
            ("{\"a\" b}", None),
            ("{\"a}", None),
            ("a,b", None),
            ("", None),
        ] {
            assert_eq!(items(text).as_deref(), expected, "{text}");
        }
    }
}
