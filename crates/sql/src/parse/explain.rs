//! Parses `EXPLAIN` with its options.

use placement::TimeZone;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::parse_piece;
use crate::error::{SqlError, sqlstate};
use crate::script::{self, StatementTokens};
use crate::statement::Statement;

/// The options that are on or off, of all releases of PostgreSQL. All but `analyze` change nothing
/// here: an explanation always has the expected rows and costs, and that of a run its time.
const SWITCHES: [&str; 11] = [
    "analyze",
    "verbose",
    "costs",
    "settings",
    "generic_plan",
    "buffers",
    "wal",
    "timing",
    "summary",
    "memory",
    "serialize",
];

/// The options of an `EXPLAIN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ExplainOptions {
    analyzes: bool,
    is_json: bool,
}

/// Parses `EXPLAIN [ANALYZE] [VERBOSE] statement` and `EXPLAIN (option, …) statement`.
pub(super) fn explain(text: &str, piece: &StatementTokens) -> Result<Statement, SqlError> {
    let mut tokens = piece.tokens.clone();
    tokens.retain(|token| !script::is_space(&token.token) || is_hint(&token.token));
    let mut rest = skip_word(&tokens);
    let first = rest.iter().position(|it| !script::is_space(&it.token));
    let options = match first.map(|it| (it, &rest[it].token)) {
        Some((begin, Token::LParen)) => {
            let end = rest.iter().position(|it| it.token == Token::RParen);
            let end = end
                .ok_or_else(|| SqlError::with_state(sqlstate::SYNTAX, "EXPLAIN (… lacks its )"))?;
            let options = options(&rest[begin + 1..end])?;
            rest = &rest[end + 1..];
            options
        }
        _ => {
            let mut options = ExplainOptions::default();
            if next_is(rest, "analyze") {
                options.analyzes = true;
                rest = skip_word(rest);
            }
            if next_is(rest, "verbose") {
                rest = skip_word(rest);
            }
            options
        }
    };
    let piece = StatementTokens {
        tokens: rest.to_vec(),
        line: piece.line,
    };
    let statement = parse_piece(text, &piece, TimeZone::UTC)?;
    let explained = match statement {
        Statement::Insert(_)
        | Statement::Select(_)
        | Statement::Update(_)
        | Statement::Delete(_) => match options.analyzes {
            true => Statement::ExplainAnalyze(Box::new(statement)),
            false => Statement::Explain(Box::new(statement)),
        },
        _ => {
            return Err(SqlError::unsupported(
                "EXPLAIN of this statement",
                "explain a SELECT, INSERT, UPDATE or DELETE",
            ));
        }
    };
    Ok(match options.is_json {
        true => Statement::ExplainAsJson(Box::new(explained)),
        false => explained,
    })
}

/// Parses the options in parentheses.
fn options(tokens: &[TokenWithSpan]) -> Result<ExplainOptions, SqlError> {
    let mut found = ExplainOptions::default();
    for option in tokens.split(|it| it.token == Token::Comma) {
        let option = option.iter().filter(|it| !script::is_space(&it.token));
        let mut words = option.map(|it| word(&it.token));
        let name = words.next().unwrap_or_default();
        let value = words.next();
        if name.is_empty() || words.next().is_some() {
            return Err(SqlError::with_state(
                sqlstate::SYNTAX,
                "an option of EXPLAIN is a name, or a name and a value, as in EXPLAIN (ANALYZE, \
                 FORMAT JSON)",
            ));
        }
        let is_on = match value.as_deref() {
            None | Some("on" | "true" | "1") => Some(true),
            Some("off" | "false" | "0" | "none") => Some(false),
            Some("text" | "binary") if name == "serialize" => Some(true),
            Some(_) => None,
        };
        let shown = value.as_deref().unwrap_or_default();
        match (name.as_str(), is_on) {
            ("format", _) => match shown {
                "text" => found.is_json = false,
                "json" => found.is_json = true,
                "xml" | "yaml" => {
                    return Err(SqlError::unsupported(
                        format!("EXPLAIN (FORMAT {})", shown.to_uppercase()),
                        "write FORMAT JSON or FORMAT TEXT",
                    ));
                }
                _ => {
                    return Err(SqlError::with_state(
                        sqlstate::INVALID_VALUE,
                        format!("unrecognized value for EXPLAIN option \"format\": \"{shown}\""),
                    ));
                }
            },
            ("analyze", Some(is_on)) => found.analyzes = is_on,
            (name, Some(_)) if SWITCHES.contains(&name) => {}
            (name, None) if SWITCHES.contains(&name) => {
                let text = format!("{name} requires a Boolean value");
                return Err(SqlError::with_state(sqlstate::SYNTAX, text));
            }
            _ => {
                let text = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::with_state(sqlstate::SYNTAX, text));
            }
        }
    }
    Ok(found)
}

/// Returns the text of a token, in lower case.
fn word(token: &Token) -> String {
    match token {
        Token::Word(word) => word.value.to_lowercase(),
        Token::SingleQuotedString(text) => text.to_lowercase(),
        other => other.to_string(),
    }
}

fn next_is(tokens: &[TokenWithSpan], expected: &str) -> bool {
    let first = tokens.iter().find(|it| !script::is_space(&it.token));
    first.is_some_and(|it| word(&it.token) == expected)
}

/// Returns the tokens after the first word, and without what is before it.
fn skip_word(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let first = tokens.iter().position(|it| !script::is_space(&it.token));
    first.map_or(&[], |first| &tokens[first + 1..])
}

fn is_hint(token: &Token) -> bool {
    matches!(token, Token::Whitespace(Whitespace::MultiLineComment(_)))
}
