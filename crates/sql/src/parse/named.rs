//! Parses statements about the prepared statements and cursors of a session: `PREPARE`, `EXECUTE`,
//! `DECLARE`, `FETCH`, `MOVE` and `CLOSE`.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{UnparsedStatement, check_operators, parse_piece, session};
use crate::error::{SqlError, sqlstate};
use crate::script::{self, StatementTokens};
use crate::spelling::column_type;
use crate::statement::{FetchedRows, NamedStatement, Statement};

/// The words with which these statements begin.
const FIRST: [&str; 6] = ["prepare", "execute", "declare", "fetch", "move", "close"];

/// Parses a statement; none if it is of another kind.
///
/// # Errors
/// The statement is invalid, or not supported.
pub(super) fn parse(piece: &UnparsedStatement<'_>) -> Result<Option<NamedStatement>, SqlError> {
    let words = session::words(&piece.tokens.tokens);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(first) = words.first().filter(|word| FIRST.contains(word)) else {
        return Ok(None);
    };
    check_operators(&piece.tokens)?;
    let statement = match (*first, &words[1..]) {
        ("prepare", ["transaction", ..]) => {
            return Err(SqlError::unsupported(
                "PREPARE TRANSACTION",
                "write COMMIT: a transaction of the store is atomic in all of its tables",
            ));
        }
        ("prepare", [name, ..]) => prepare(piece, name, &words)?,
        ("execute", [name, ..]) => NamedStatement::Execute {
            name: (*name).to_owned(),
            arguments: in_parentheses(piece, 2, |parser| parser.parse_expr())?,
        },
        ("declare", [name, rest @ ..]) => declare(piece, name, rest)?,
        ("fetch", rest @ [_, ..]) => fetch(rest, false)?,
        ("move", rest @ [_, ..]) => fetch(rest, true)?,
        ("close", ["all"]) => NamedStatement::Close(None),
        ("close", [name]) => NamedStatement::Close(Some((*name).to_owned())),
        _ => return Err(syntax(&format!("{first} is not complete"))),
    };
    Ok(Some(statement))
}

fn prepare(
    piece: &UnparsedStatement<'_>,
    name: &str,
    words: &[&str],
) -> Result<NamedStatement, SqlError> {
    let begin = words.iter().position(|word| *word == "as");
    let begin = begin.ok_or_else(|| syntax("PREPARE has no AS"))?;
    let types = match begin {
        2 => Vec::new(),
        _ => in_parentheses(&upto(piece, begin), 2, |parser| parser.parse_data_type())?,
    };
    let statement = after(piece, begin + 1)?;
    if !matches!(
        statement,
        Statement::Select(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
    ) {
        return Err(syntax("PREPARE takes a SELECT, INSERT, UPDATE or DELETE"));
    }
    Ok(NamedStatement::Prepare {
        name: name.to_owned(),
        types: types.iter().map(column_type).collect::<Result<_, _>>()?,
        statement: Box::new(statement),
    })
}

fn declare(
    piece: &UnparsedStatement<'_>,
    name: &str,
    words: &[&str],
) -> Result<NamedStatement, SqlError> {
    let query = words.iter().position(|word| *word == "for");
    let query = query.ok_or_else(|| syntax("DECLARE has no FOR and SELECT"))?;
    let options = &words[..query];
    let cursor = options.iter().position(|word| *word == "cursor");
    let cursor = cursor.ok_or_else(|| syntax("DECLARE has no CURSOR"))?;
    let (kind, holding) = (&options[..cursor], &options[cursor + 1..]);
    let mut rest = kind;
    loop {
        rest = match rest {
            [] => break,
            ["no", "scroll", rest @ ..] => rest,
            ["insensitive" | "asensitive", rest @ ..] => rest,
            ["scroll", ..] => {
                return Err(SqlError::unsupported(
                    "a SCROLL cursor",
                    "leave SCROLL out, and fetch forward",
                ));
            }
            ["binary", ..] => {
                return Err(SqlError::unsupported(
                    "a BINARY cursor",
                    "prepare the statement by your driver, which can ask for binary values",
                ));
            }
            [word, ..] => return Err(syntax(&format!("{word} is no option of a cursor"))),
        };
    }
    let is_held = match holding {
        [] | ["without", "hold"] => false,
        ["with", "hold"] => true,
        _ => return Err(syntax("expected WITH HOLD, WITHOUT HOLD or FOR")),
    };
    let select = after(piece, 2 + query + 1)?;
    if !matches!(select, Statement::Select(_)) {
        return Err(syntax("a cursor is for a SELECT"));
    }
    Ok(NamedStatement::Declare {
        name: name.to_owned(),
        is_held,
        select: Box::new(select),
    })
}

/// Parses the words after `FETCH` or `MOVE`.
fn fetch(words: &[&str], moves: bool) -> Result<NamedStatement, SqlError> {
    let [direction @ .., name] = words else {
        unreachable!("callers pass a word")
    };
    let direction = match direction {
        [direction @ .., "from" | "in"] => direction,
        direction => direction,
    };
    let rows = match direction {
        [] | ["next"] | ["forward"] => FetchedRows::UpTo(1),
        ["all"] | ["forward", "all"] => FetchedRows::All,
        [number] | ["forward", number] if number.parse::<u64>().is_ok() => {
            match number.parse::<u64>() {
                Ok(0) | Err(_) => FetchedRows::Earlier,
                Ok(count) => FetchedRows::UpTo(count),
            }
        }
        [
            "prior" | "first" | "last" | "absolute" | "relative" | "backward",
            ..,
        ]
        | ["-", _]
        | ["forward", "-", _] => FetchedRows::Earlier,
        _ => {
            return Err(syntax(
                "expected FETCH, a number of rows, FROM and a cursor",
            ));
        }
    };
    Ok(NamedStatement::Fetch {
        name: (*name).to_owned(),
        rows,
        moves,
    })
}

/// Returns the tokens of a piece from this word on, or up to it.
fn cut(
    piece: &UnparsedStatement<'_>,
    range: impl FnOnce(usize) -> std::ops::Range<usize>,
    word: usize,
) -> StatementTokens {
    let tokens = &piece.tokens.tokens;
    let mut words = (0..tokens.len()).filter(|it| !script::is_space(&tokens[*it].token));
    let at = words.nth(word).unwrap_or(tokens.len());
    let tokens: Vec<TokenWithSpan> = tokens[range(at)].to_vec();
    let line = tokens.first().map_or(piece.tokens.line, |token| {
        usize::try_from(token.span.start.line).unwrap_or(piece.tokens.line)
    });
    StatementTokens { tokens, line }
}

fn upto<'t>(piece: &UnparsedStatement<'t>, word: usize) -> UnparsedStatement<'t> {
    UnparsedStatement {
        text: piece.text,
        tokens: cut(piece, |at| 0..at, word),
    }
}

/// Parses the statement that begins with this word of a piece.
fn after(piece: &UnparsedStatement<'_>, word: usize) -> Result<Statement, SqlError> {
    let end = piece.tokens.tokens.len();
    let rest = cut(piece, |at| at..end, word);
    match rest.tokens.is_empty() {
        true => Err(syntax("there is no statement")),
        false => parse_piece(piece.text, &rest, placement::TimeZone::UTC),
    }
}

/// Parses a list in parentheses that begins with this word of a piece and ends it. Without such a
/// word the list is empty.
fn in_parentheses<T>(
    piece: &UnparsedStatement<'_>,
    word: usize,
    each: impl FnMut(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<Vec<T>, SqlError> {
    let end = piece.tokens.tokens.len();
    let rest = cut(piece, |at| at..end, word);
    if rest.tokens.is_empty() {
        return Ok(Vec::new());
    }
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(rest.tokens);
    let list = || {
        parser.expect_token(&Token::LParen)?;
        let list = parser.parse_comma_separated(each)?;
        parser.expect_token(&Token::RParen)?;
        parser.expect_token(&Token::EOF)?;
        Ok::<_, ParserError>(list)
    };
    list().map_err(|error| syntax(&error.to_string()))
}

fn syntax(text: &str) -> SqlError {
    SqlError::with_state(sqlstate::SYNTAX, format!("syntax error: {text}"))
}
