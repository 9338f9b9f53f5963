//! Computes functions about the session, such as `version()`, where they are items of a `SELECT`.
//!
//! The store has no such functions. A server of SQL has them, and gives their values here, so that
//! the rest of the statement needs to know nothing about them.

use placement::{ColumnType, Value};
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use crate::bind::Scope;
use crate::error::SqlError;
use crate::spelling::name;
use crate::statement::{SelectItem, Statement};

/// The functions about a session.
pub trait SessionFunctions {
    /// Returns the type of a function's result; none if there is no such function.
    fn result_type(&self, name: &str) -> Option<ColumnType>;

    /// Calls a function. Its arguments are texts; none is NULL.
    ///
    /// # Errors
    /// The arguments are invalid.
    fn call(&mut self, name: &str, arguments: &[Option<String>]) -> Result<Value, SqlError>;
}

impl Statement {
    /// Returns the statement with the values of all functions about the session, or none if it has
    /// none of them. They are known only as whole items of a `SELECT`.
    ///
    /// # Errors
    /// The arguments of a function are invalid.
    pub fn with_session_values(
        &self,
        parameters: &[Value],
        functions: &mut dyn SessionFunctions,
    ) -> Result<Option<Statement>, SqlError> {
        let Statement::Select(select) = self else {
            return Ok(None);
        };
        let scope = Scope {
            parameters,
            ..Scope::CONSTANTS
        };
        let mut found = None;
        for (position, item) in select.items.iter().enumerate() {
            let SelectItem::Expression { expression, .. } = item else {
                continue;
            };
            let Some((function, arguments)) = session_call(expression, functions) else {
                continue;
            };
            let arguments: Vec<Option<String>> = arguments
                .into_iter()
                .map(
                    |argument| match scope.value(argument, ColumnType::Text, "")? {
                        Value::Null => Ok(None),
                        value => Ok(Some(value.to_string())),
                    },
                )
                .collect::<Result<_, SqlError>>()?;
            let value = functions.call(&function, &arguments)?;
            let select = found.get_or_insert_with(|| select.clone());
            if let SelectItem::Expression { expression, .. } = &mut select.items[position] {
                *expression = Expr::value(match value {
                    Value::Null => ast::Value::Null,
                    Value::Bool(value) => ast::Value::Boolean(value),
                    value @ (Value::Int32(_) | Value::Int64(_)) => {
                        ast::Value::Number(value.to_string(), false)
                    }
                    value => ast::Value::SingleQuotedString(value.to_string()),
                });
            }
        }
        Ok(found.map(Statement::Select))
    }
}

/// Returns the name and the arguments of a function about the session; none if the expression is
/// none.
pub(crate) fn session_call<'e>(
    expression: &'e Expr,
    functions: &dyn SessionFunctions,
) -> Option<(String, Vec<&'e Expr>)> {
    if let Expr::Nested(inner) = expression {
        return session_call(inner, functions);
    }
    let Expr::Function(function) = expression else {
        return None;
    };
    let parts: Option<Vec<String>> = function
        .name
        .0
        .iter()
        .map(|it| it.as_ident().map(name))
        .collect();
    let parts = parts?;
    let function_name = match &parts[..] {
        [function] => function,
        [schema, function] if schema == "pg_catalog" => function,
        _ => return None,
    };
    functions.result_type(function_name)?;
    let arguments = match &function.args {
        FunctionArguments::None => Vec::new(),
        FunctionArguments::List(list) => {
            let expressions = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
                _ => None,
            });
            expressions.collect::<Option<_>>()?
        }
        FunctionArguments::Subquery(_) => return None,
    };
    Some((function_name.clone(), arguments))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::parse::parse;

    /// A server of SQL with one function.
    pub(crate) struct Version;

    impl SessionFunctions for Version {
        fn result_type(&self, name: &str) -> Option<ColumnType> {
            (name == "version").then_some(ColumnType::Text)
        }

        fn call(&mut self, _: &str, arguments: &[Option<String>]) -> Result<Value, SqlError> {
            Ok(Value::Text(format!("{arguments:?}")))
        }
    }

    #[test]
    fn calls_become_their_values() {
        let statement = |text: &str| parse(text).unwrap().remove(0).statement;
        let called = |text: &str, parameters: &[Value]| {
            let called = statement(text).with_session_values(parameters, &mut Version);
            called.unwrap()
        };
        assert_eq!(called("SELECT now(), 1", &[]), None);
        let expected = statement("SELECT 1, '[]' AS version");
        let Some(Statement::Select(found)) = called("SELECT 1, pg_catalog.version()", &[]) else {
            panic!("no call was found")
        };
        let Statement::Select(expected) = expected else {
            unreachable!("it selects")
        };
        let expressions = |items: &[SelectItem]| -> Vec<String> {
            let items = items.iter().map(|item| match item {
                SelectItem::Expression {
                    expression, name, ..
                } => format!("{expression} {name}"),
                other => format!("{other:?}"),
            });
            items.collect()
        };
        assert_eq!(expressions(&found.items), expressions(&expected.items));
        let text = "SELECT version($1, NULL, 'b')";
        let Some(Statement::Select(found)) = called(text, &[Value::Text("a".into())]) else {
            panic!("no call was found")
        };
        let expected = "'[Some(\"a\"), None, Some(\"b\")]' version";
        assert_eq!(expressions(&found.items), [expected]);
    }
}
