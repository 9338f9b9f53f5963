//! Calls of the functions of sequences in expressions: `nextval('name')` and the like.
//!
//! No expression of the store has such a call. A session computes the calls of a statement before
//! the statement is planned, and puts their values in their place.

use std::ops::ControlFlow;

use placement::{ColumnType, Value};
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Visit, VisitMut, Visitor,
    VisitorMut,
};

use crate::error::{SqlError, sqlstate};
use crate::spelling::name;

/// A function about sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceFunction {
    /// `nextval(sequence)`.
    NextValue,
    /// `setval(sequence, value [, is_called])`.
    SetValue,
    /// `currval(sequence)`.
    CurrentValue,
    /// `lastval()`.
    LastValue,
    /// `pg_get_serial_sequence(table, column)`.
    SerialSequence,
}

impl SequenceFunction {
    /// Returns the function of this name.
    pub fn named(name: &str) -> Option<SequenceFunction> {
        Some(match name {
            "nextval" => SequenceFunction::NextValue,
            "setval" => SequenceFunction::SetValue,
            "currval" => SequenceFunction::CurrentValue,
            "lastval" => SequenceFunction::LastValue,
            "pg_get_serial_sequence" => SequenceFunction::SerialSequence,
            _ => return None,
        })
    }

    /// Returns whether a call changes no sequence, so that its value is the same for all rows of a
    /// statement.
    pub fn is_stable(self) -> bool {
        !matches!(
            self,
            SequenceFunction::NextValue | SequenceFunction::SetValue
        )
    }

    /// Returns the type of the value.
    pub fn result_type(self) -> ColumnType {
        match self {
            SequenceFunction::SerialSequence => ColumnType::Text,
            _ => ColumnType::Int64,
        }
    }

    /// Returns the types of the arguments, the last of which may be left out for `setval`.
    pub fn argument_types(self) -> &'static [ColumnType] {
        match self {
            SequenceFunction::NextValue | SequenceFunction::CurrentValue => &[ColumnType::Text],
            SequenceFunction::SetValue => &[ColumnType::Text, ColumnType::Int64, ColumnType::Bool],
            SequenceFunction::LastValue => &[],
            SequenceFunction::SerialSequence => &[ColumnType::Text, ColumnType::Text],
        }
    }

    /// Returns whether a call can have so many arguments.
    pub fn takes(self, count: usize) -> bool {
        let most = self.argument_types().len();
        let least = most - usize::from(self == SequenceFunction::SetValue);
        (least..=most).contains(&count)
    }
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct SequenceCall {
    /// The function.
    pub function: SequenceFunction,
    /// The arguments, without casts to `regclass`.
    pub arguments: Vec<Expr>,
}

/// Returns the call that an expression is; none if it is none.
pub(crate) fn sequence_call(function: &ast::Function) -> Option<SequenceCall> {
    let parts = function.name.0.iter();
    let parts: Option<Vec<String>> = parts.map(|it| it.as_ident().map(name)).collect();
    let found = match parts.as_deref()? {
        [function] => function,
        [schema, function] if schema == "pg_catalog" => function,
        _ => return None,
    };
    let found = SequenceFunction::named(found)?;
    let arguments = match &function.args {
        FunctionArguments::None => Vec::new(),
        FunctionArguments::List(list) => {
            let arguments = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => {
                    Some(without_cast(argument).clone())
                }
                _ => None,
            });
            arguments.collect::<Option<_>>()?
        }
        FunctionArguments::Subquery(_) => return None,
    };
    Some(SequenceCall {
        function: found,
        arguments,
    })
}

/// Returns an expression without casts to `regclass`. The names of sequences are texts here.
fn without_cast(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => without_cast(inner),
        Expr::Cast {
            expr, data_type, ..
        } if data_type.to_string().eq_ignore_ascii_case("regclass") => without_cast(expr),
        other => other,
    }
}

/// Finds the first call whose arguments have no calls.
struct FirstCall {
    /// Whether calls that change sequences count, too.
    all: bool,
}

impl Visitor for FirstCall {
    type Break = Box<SequenceCall>;

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Box<SequenceCall>> {
        let Expr::Function(function) = expression else {
            return ControlFlow::Continue(());
        };
        match sequence_call(function) {
            Some(call) if self.all || call.function.is_stable() => ControlFlow::Break(call.into()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns the first call in an expression whose arguments have no calls. If not `all` count, these
/// are only calls that change no sequence.
pub(crate) fn first_call(expression: &Expr, all: bool) -> Option<SequenceCall> {
    match expression.visit(&mut FirstCall { all }) {
        ControlFlow::Break(call) => Some(*call),
        ControlFlow::Continue(()) => None,
    }
}

/// Returns whether an expression has calls that change sequences.
pub(crate) fn draws_values(expression: &Expr) -> bool {
    let mut changing = ChangingCall;
    expression.visit(&mut changing).is_break()
}

/// Finds a call that changes a sequence.
struct ChangingCall;

impl Visitor for ChangingCall {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expression else {
            return ControlFlow::Continue(());
        };
        match sequence_call(function) {
            Some(call) if !call.function.is_stable() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Puts a value in place of the first call.
struct ReplacedCall<'a> {
    all: bool,
    value: &'a Value,
}

impl VisitorMut for ReplacedCall<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expression else {
            return ControlFlow::Continue(());
        };
        let call = sequence_call(function);
        let Some(call) = call.filter(|call| self.all || call.function.is_stable()) else {
            return ControlFlow::Continue(());
        };
        *expression = match self.value {
            Value::Null => typed(ast::Value::Null, call.function.result_type()),
            value => constant(value),
        };
        ControlFlow::Break(())
    }
}

/// Puts a value in place of the call that [`first_call`] returns.
pub(crate) fn replace_first_call(expression: &mut Expr, all: bool, value: &Value) {
    let replaced = expression.visit(&mut ReplacedCall { all, value });
    assert!(replaced.is_break(), "the call was just found");
}

/// Returns a value as an expression of its type.
pub(crate) fn constant(value: &Value) -> Expr {
    let Some(column_type) = value.column_type() else {
        return Expr::value(ast::Value::Null);
    };
    let text = ast::Value::SingleQuotedString(value.to_string());
    typed(text, column_type)
}

fn typed(literal: ast::Value, column_type: ColumnType) -> Expr {
    let name = ast::Ident::new(column_type.to_string());
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(Expr::value(literal)),
        data_type: ast::DataType::Custom(ast::ObjectName::from(vec![name]), Vec::new()),
        format: None,
    }
}

/// Returns the name that a text names, such as `s`, `"S"` or `public.s`.
pub(crate) fn relation_name(text: &str) -> Result<String, SqlError> {
    let invalid = || {
        let message = format!("invalid name syntax: \"{text}\"");
        SqlError::with_state(sqlstate::INVALID_NAME, message)
    };
    let mut parts: Vec<String> = Vec::new();
    let mut rest = text.trim();
    loop {
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut found = String::new();
            let mut characters = quoted.char_indices().peekable();
            let end = loop {
                match characters.next() {
                    Some((_, '"')) if characters.next_if(|(_, it)| *it == '"').is_some() => {
                        found.push('"');
                    }
                    Some((at, '"')) => break at,
                    Some((_, other)) => found.push(other),
                    None => return Err(invalid()),
                }
            };
            part = found;
            rest = &quoted[end + 1..];
        } else {
            let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
            let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
            part = rest[..end].to_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => break,
            None => return Err(invalid()),
        }
    }
    match &parts[..] {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "public" => Ok(name.clone()),
        _ => Err(SqlError::with_state(
            sqlstate::UNDEFINED_SCHEMA,
            format!("the schema of \"{text}\" does not exist: the only one is public"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_identifiers() {
        for (text, expected) in [
            ("s", "s"),
            (" S ", "s"),
            ("\"S s\"", "S s"),
            ("\"a\"\"b\"", "a\"b"),
            ("public.t_id_seq", "t_id_seq"),
            ("public . \"T\"", "T"),
        ] {
            assert_eq!(relation_name(text).unwrap(), expected, "{text}");
        }
        for text in ["", "a b", "\"a", "a.", "other.s", "a.b.c", "\"\""] {
            assert!(relation_name(text).is_err(), "{text}");
        }
    }
}
