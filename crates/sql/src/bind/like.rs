//! Rewrites the patterns of `LIKE … ESCAPE`. In the store's patterns a backslash is the escape
//! character, so a pattern with another escape character, or with none, is rewritten.

use placement::{ColumnType, Value};
use protocol::expression::{BinaryOperator, Expression};
use sqlparser::ast::Expr;

use super::{Bound, Scope};
use crate::error::{SqlError, sqlstate};

/// The escape character of PostgreSQL and the store.
const ESCAPE_DEFAULT: &str = "\\";

/// The parts of `text LIKE pattern ESCAPE escape`.
pub(super) struct Like<'e> {
    pub text: &'e Expr,
    pub pattern: &'e Expr,
    pub escape: Option<&'e Expr>,
}

impl Scope<'_> {
    pub(super) fn bind_like(
        &self,
        like: &Like<'_>,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        let text = self.bind(like.text, depth + 1)?;
        let mut pattern = self.bind(like.pattern, depth + 1)?;
        if let Some(escape) = like.escape {
            pattern = self.rewritten(pattern, escape, source)?;
        }
        self.binary(BinaryOperator::Like, text, pattern, source)
    }

    fn rewritten(&self, pattern: Bound, escape: &Expr, source: &Expr) -> Result<Bound, SqlError> {
        let place = format!("in {source}: the escape character");
        let escape = match self.value(escape, ColumnType::Text, &place)? {
            Value::Text(escape) => escape,
            // Nothing is like a pattern that is not known.
            _ => return Ok(Bound::Typed(Expression::Literal(Value::Null), None)),
        };
        let mut characters = escape.chars();
        let (escape, more) = (characters.next(), characters.next());
        if more.is_some() {
            return Err(SqlError::with_state(
                sqlstate::INVALID_ESCAPE,
                format!("{place} is one character or the empty text"),
            ));
        }
        let pattern = match pattern {
            pattern if escape.map(String::from).as_deref() == Some(ESCAPE_DEFAULT) => {
                return Ok(pattern);
            }
            Bound::Quoted(pattern) => pattern,
            Bound::Typed(Expression::Literal(Value::Text(pattern)), _) => pattern,
            Bound::Typed(Expression::Literal(Value::Null), found) => {
                return Ok(Bound::Typed(Expression::Literal(Value::Null), found));
            }
            _ => {
                return Err(SqlError::unsupported(
                    format!("ESCAPE beside a pattern that is no constant, as in {source}"),
                    "escape by a backslash in the pattern and leave ESCAPE out",
                ));
            }
        };
        Ok(Bound::Quoted(with_backslashes(&pattern, escape)))
    }
}

/// Returns the same pattern escaped by a backslash.
fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut rewritten = String::with_capacity(pattern.len());
    let mut is_escaped = false;
    for character in pattern.chars() {
        if !is_escaped && Some(character) == escape {
            rewritten.push('\\');
            is_escaped = true;
            continue;
        }
        if character == '\\' && !is_escaped {
            rewritten.push('\\');
        }
        rewritten.push(character);
        is_escaped = false;
    }
    rewritten
}
