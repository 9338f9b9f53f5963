//! Parses `COMMENT`.

use sqlparser::ast::{self, CommentObject};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{object_name, parse_tokens};
use crate::error::{SqlError, sqlstate};
use crate::script::is_space;
use crate::spelling::name;
use crate::statement::{CommentName, CommentStatement, Statement};

/// The kinds of objects that have comments.
const KINDS: [&str; 5] = ["table", "column", "index", "constraint", "sequence"];

/// Parses `COMMENT ON object IS text`. The words are those of the tokens.
pub(super) fn statement(
    text: &str,
    tokens: &[TokenWithSpan],
    words: &[String],
) -> Result<Statement, SqlError> {
    if let [_, on, kind, ..] = words
        && on == "on"
        && !KINDS.contains(&&kind[..])
    {
        return Err(SqlError::unsupported(
            format!("COMMENT ON {}", kind.to_uppercase()),
            "comment on a TABLE, COLUMN, INDEX, CONSTRAINT or SEQUENCE",
        ));
    }
    let (tokens, constraint) = take_constraint(tokens)?;
    let parsed = parse_tokens(text, tokens)?;
    let ast::Statement::Comment {
        object_type,
        object_name: object,
        comment,
        if_exists: false,
    } = parsed
    else {
        return Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "syntax error: write COMMENT ON TABLE name IS 'text'",
        ));
    };
    let object = match (object_type, constraint) {
        (CommentObject::Table, Some(constraint)) => CommentName::Constraint {
            table: object_name(&object)?,
            constraint,
        },
        (CommentObject::Table, None) => CommentName::Table(object_name(&object)?),
        (CommentObject::Sequence, _) => CommentName::Sequence(object_name(&object)?),
        (CommentObject::Index, _) => CommentName::Index(object_name(&object)?),
        _ => column(object)?,
    };
    Ok(Statement::Comment(CommentStatement {
        object,
        text: comment,
    }))
}

/// Returns a column, which its table qualifies.
fn column(mut object: ast::ObjectName) -> Result<CommentName, SqlError> {
    let column = object.0.pop();
    let column = column.as_ref().and_then(|it| it.as_ident()).map(name);
    match column {
        Some(column) if !object.0.is_empty() => Ok(CommentName::Column {
            table: object_name(&object)?,
            column,
        }),
        _ => Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "column name must be qualified: write table.column",
        )),
    }
}

/// Returns the tokens without spaces. Of `COMMENT ON CONSTRAINT name ON table` they become those of
/// `COMMENT ON TABLE table`, because the parser does not know it; returns the name then.
fn take_constraint(
    tokens: &[TokenWithSpan],
) -> Result<(Vec<TokenWithSpan>, Option<String>), SqlError> {
    let tokens = tokens.iter().filter(|it| !is_space(&it.token)).cloned();
    let mut tokens: Vec<TokenWithSpan> = tokens.collect();
    let keyword = |at: usize| match tokens.get(at).map(|it| &it.token) {
        Some(Token::Word(word)) => Some(word.keyword),
        _ => None,
    };
    if keyword(2) != Some(Keyword::CONSTRAINT) {
        return Ok((tokens, None));
    }
    let (Some(Token::Word(word)), Some(Keyword::ON)) =
        (tokens.get(3).map(|it| &it.token), keyword(4))
    else {
        return Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "syntax error: write COMMENT ON CONSTRAINT name ON table IS 'text'",
        ));
    };
    if keyword(5) == Some(Keyword::DOMAIN) {
        return Err(SqlError::unsupported(
            "COMMENT ON CONSTRAINT of a domain",
            "comment on a constraint of a table",
        ));
    }
    let constraint = name(&ast::Ident {
        value: word.value.clone(),
        quote_style: word.quote_style,
        span: tokens[3].span,
    });
    let table = TokenWithSpan::new(Token::make_keyword("TABLE"), tokens[2].span);
    tokens.splice(2..5, [table]);
    Ok((tokens, Some(constraint)))
}
