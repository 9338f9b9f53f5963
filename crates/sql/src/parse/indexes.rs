//! Parses `INDEX name USING kind (columns) WITH (…)` inside the parentheses of `CREATE TABLE`.
//!
//! PostgreSQL's grammar has no such clause, so it is taken out of the tokens before they are parsed
//! and becomes the tokens of a `CREATE INDEX`. Each keeps its place in the text, so that errors
//! point to it. A column named index is distinguished by the parenthesis. In doubt, a user quotes
//! the name.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;
use crate::script::is_space;

/// The statement without its index clauses. For each clause it has the tokens of a `CREATE INDEX`.
pub(super) type ExtractedIndexes = (Vec<TokenWithSpan>, Vec<Vec<TokenWithSpan>>);

/// Removes the index clauses of a `CREATE TABLE`. Leaves other statements unchanged.
pub(super) fn take_clauses(tokens: &[TokenWithSpan]) -> Result<ExtractedIndexes, SqlError> {
    let untouched = || Ok((tokens.to_vec(), Vec::new()));
    let significant: Vec<&TokenWithSpan> =
        tokens.iter().filter(|it| !is_space(&it.token)).collect();
    let Some(open) = opening(&significant) else {
        return untouched();
    };
    let Some((elements, close)) = elements(&significant, open) else {
        return untouched();
    };
    let (clauses, kept): (Vec<_>, Vec<_>) = elements.into_iter().partition(|it| is_index(it));
    if clauses.is_empty() {
        return untouched();
    }
    let table = table_name(&significant[..open]);
    let mut statement: Vec<TokenWithSpan> = significant[..=open].iter().copied().cloned().collect();
    for (position, element) in kept.into_iter().enumerate() {
        if position > 0 {
            statement.push(TokenWithSpan::new(Token::Comma, element[0].span));
        }
        statement.extend(element.iter().copied().cloned());
    }
    statement.extend(significant[close..].iter().copied().cloned());
    let clauses = clauses.into_iter().map(|clause| {
        let at = clause[0].span;
        let word = |text| TokenWithSpan::new(Token::make_keyword(text), at);
        let mut tokens = vec![word("CREATE")];
        let mut rest = clause.iter().copied().cloned();
        if keyword(clause[0]) == Some(Keyword::UNIQUE) {
            tokens.extend(rest.next());
        }
        tokens.extend(rest.next());
        let rest: Vec<TokenWithSpan> = rest.collect();
        let name_length = rest.first().map_or(0, |it| usize::from(is_name(it)));
        tokens.extend_from_slice(&rest[..name_length]);
        tokens.push(word("ON"));
        tokens.extend(table.iter().copied().cloned());
        tokens.extend_from_slice(&rest[name_length..]);
        tokens
    });
    Ok((statement, clauses.collect()))
}

pub(super) fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Returns the index of the token that opens the list of columns; none if this is no `CREATE
/// TABLE`.
fn opening(tokens: &[&TokenWithSpan]) -> Option<usize> {
    let open = tokens.iter().position(|it| it.token == Token::LParen)?;
    let mut before = tokens[..open].iter().map(|it| keyword(it));
    let creates = before.next()? == Some(Keyword::CREATE);
    let a_table = before.any(|it| it == Some(Keyword::TABLE));
    (creates && a_table).then_some(open)
}

/// Returns the name of the table: the word after `TABLE` and `IF NOT EXISTS`.
fn table_name<'t, 'a>(before: &'t [&'a TokenWithSpan]) -> &'t [&'a TokenWithSpan] {
    let starts =
        |it: &&TokenWithSpan| matches!(keyword(it), Some(Keyword::TABLE | Keyword::EXISTS));
    let start = before.iter().rposition(starts).map_or(0, |last| last + 1);
    &before[start..]
}

/// The elements between commas of the list that opens at `open`, and where it closes.
#[allow(
    clippy::type_complexity,
    reason = "the pair is taken apart where it is made"
)]
fn elements<'a>(
    tokens: &[&'a TokenWithSpan],
    open: usize,
) -> Option<(Vec<Vec<&'a TokenWithSpan>>, usize)> {
    let mut elements = vec![Vec::new()];
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open + 1) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => {
                elements.retain(|element| !element.is_empty());
                return Some((elements, at));
            }
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => {
                elements.push(Vec::new());
                continue;
            }
            _ => {}
        }
        elements
            .last_mut()
            .expect("the list begins with one element")
            .push(token);
    }
    None
}

/// Returns whether an element begins as `[UNIQUE] INDEX [name] [USING kind] (`.
fn is_index(element: &[&TokenWithSpan]) -> bool {
    let keyword_at = |at: usize| element.get(at).and_then(|it| keyword(it));
    let mut at = usize::from(keyword_at(0) == Some(Keyword::UNIQUE));
    if keyword_at(at) != Some(Keyword::INDEX) {
        return false;
    }
    at += 1;
    at += element.get(at).map_or(0, |it| usize::from(is_name(it)));
    if keyword_at(at) == Some(Keyword::USING) {
        at += 2;
    }
    element.get(at).is_some_and(|it| it.token == Token::LParen)
}

/// Returns whether the word after `INDEX` is a name.
fn is_name(token: &TokenWithSpan) -> bool {
    token.token != Token::LParen && keyword(token) != Some(Keyword::USING)
}
