//! Divides a text into statements, and keeps the position of each token.
//!
//! The cut is by tokens, so a semicolon inside quotes or comments does not count. The meaning of a
//! statement is for `parse`. Also here: whether an SQL string is complete, so that the shell knows
//! whether it needs another line.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};

use crate::error::SyntaxError;

/// The tokens of one statement, without its semicolon.
#[derive(Clone, Debug)]
pub(crate) struct StatementTokens {
    /// The tokens, including spaces and comments.
    pub tokens: Vec<TokenWithSpan>,
    /// The line of the statement's first token that is not a space, from 1.
    pub line: usize,
}

/// Splits a text into statements. Skips statements of nothing but spaces and comments.
pub(crate) fn split(text: &str) -> Result<Vec<StatementTokens>, SyntaxError> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| syntax_error(text, error.location, error.message))?;
    let mut pieces = Vec::new();
    let mut current = Vec::new();
    for token in tokens {
        if token.token == Token::SemiColon {
            push_piece(&mut pieces, std::mem::take(&mut current));
        } else {
            current.push(token);
        }
    }
    push_piece(&mut pieces, current);
    Ok(pieces)
}

fn push_piece(pieces: &mut Vec<StatementTokens>, tokens: Vec<TokenWithSpan>) {
    let first = tokens.iter().find(|token| !is_space(&token.token));
    if let Some(first) = first {
        let line = first.span.start.line as usize;
        pieces.push(StatementTokens { tokens, line });
    }
}

/// Returns whether the text typed so far ends with a complete statement: all quotes and comments
/// are closed, and the last token is a semicolon. A text of only spaces and comments is complete.
pub(crate) fn is_whole(text: &str) -> bool {
    match Tokenizer::new(&PostgreSqlDialect {}, text).tokenize() {
        Ok(tokens) => tokens
            .iter()
            .rfind(|token| !is_space(token))
            .is_none_or(|token| *token == Token::SemiColon),
        Err(error) => !["Unterminated", "EOF"]
            .iter()
            .any(|open| error.message.contains(open)),
    }
}

/// Returns whether the statement has the hint `/*+ scan */`.
pub(crate) fn asks_for_scan(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| match &token.token {
        Token::Whitespace(Whitespace::MultiLineComment(comment)) => comment
            .strip_prefix('+')
            .is_some_and(|hint| hint.trim().eq_ignore_ascii_case("scan")),
        _ => false,
    })
}

/// Returns the largest number of operators between two commas. No expression has more.
pub(crate) fn operators_max(tokens: &[TokenWithSpan]) -> usize {
    let mut most = 0;
    let mut count = 0;
    for token in tokens {
        match &token.token {
            Token::Comma => count = 0,
            Token::Word(word) => {
                let joins = matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT);
                count += usize::from(joins && word.quote_style.is_none());
            }
            Token::Whitespace(_)
            | Token::EOF
            | Token::LParen
            | Token::RParen
            | Token::Number(..)
            | Token::SingleQuotedString(_) => {}
            _ => count += 1,
        }
        most = most.max(count);
    }
    most
}

pub(crate) fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_) | Token::EOF)
}

/// Returns an error at a place of the text, or at its end if the place is unknown.
pub(crate) fn syntax_error(text: &str, at: Location, message: impl Into<String>) -> SyntaxError {
    let (line, column) = if at.line == 0 {
        let trimmed = text.trim_end();
        let last = trimmed.lines().last().unwrap_or("");
        (trimmed.lines().count().max(1), last.chars().count() + 1)
    } else {
        (at.line as usize, at.column.max(1) as usize)
    };
    SyntaxError {
        message: message.into(),
        line,
        column,
        source: text.lines().nth(line - 1).unwrap_or("").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_quotes_and_comments_do_not_count() {
        let text = "SELECT ';' /* ; */; -- ;\n\n  SELECT $$;$$;;";
        let pieces = split(text).unwrap();
        let lines: Vec<usize> = pieces.iter().map(|piece| piece.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn open_quotes_want_another_line() {
        for (text, whole) in [
            ("", true),
            ("-- nothing", true),
            ("SELECT 1", false),
            ("SELECT 1;", true),
            ("SELECT 1; -- done", true),
            ("SELECT 'a;", false),
            ("SELECT \"a;", false),
            ("SELECT /* ;", false),
            ("SELECT $$;", false),
            ("SELECT 1; SELECT", false),
        ] {
            assert_eq!(is_whole(text), whole, "{text:?}");
        }
    }

    #[test]
    fn hint_in_any_case_and_place() {
        for (text, asks) in [
            ("SELECT /*+ scan */ 1", true),
            ("SELECT /*+SCAN*/ 1", true),
            ("SELECT /* scan */ 1", false),
            ("SELECT '/*+ scan */'", false),
        ] {
            let pieces = split(text).unwrap();
            assert_eq!(asks_for_scan(&pieces[0].tokens), asks, "{text}");
        }
    }

    #[test]
    fn open_quote_is_an_error_with_its_place() {
        let error = split("SELECT 1;\nSELECT 'abc").unwrap_err();
        assert_eq!((error.line, error.column), (2, 8));
        assert_eq!(error.source, "SELECT 'abc");
    }
}
