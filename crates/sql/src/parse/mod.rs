//! Parses text into statements. The grammar is `sqlparser`'s for PostgreSQL, restricted to the
//! store's statements.
//!
//! Syntax of PostgreSQL that the store does not have is refused by name, never ignored. Two things
//! are added: `INDEX` clauses inside `CREATE TABLE` (`indexes`), and `SHOW` and `SET` of the store
//! (`session`). Names and types of columns are not looked at here, except in `CREATE TABLE`.

mod alter;
mod change;
mod comment;
mod constraints;
mod copy;
mod copy_options;
mod create;
mod create_index;
mod explain;
mod from_item;
mod generated;
mod indexes;
mod named;
mod query;
mod rewrite;
mod roles;
mod sequence;
mod serial;
mod session;
mod transaction;
mod values;

use placement::TimeZone;
use protocol::expression::NODES_MAX;

pub(crate) use constraints::{added_check, constraint_exists, constraint_names};
pub use create::FAILURES_TOLERATED_DEFAULT;
pub(crate) use create::{AddedColumn, added_column, column_default};
use create_index::IndexPlace;
pub(crate) use create_index::{as_using, has_index, with_index};

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::error::{SqlError, SyntaxError, sqlstate};
use crate::script::{self, StatementTokens};
use crate::spelling::name;
use crate::statement::{CopyStatement, NamedStatement, RoleStatement, Statement};

/// A statement, and the line of the SQL string on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedStatement {
    /// The statement.
    pub statement: Statement,
    /// The line number, from 1.
    pub line: usize,
}

/// An invalid statement, and the line of the SQL string on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct ParseError {
    /// The error.
    pub error: SqlError,
    /// The line number, from 1.
    pub line: usize,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.error)
    }
}

impl std::error::Error for ParseError {}

impl ParseError {
    /// Returns the error with this number added to its line.
    pub(crate) fn moved_down(mut self, lines: usize) -> ParseError {
        self.line += lines;
        if let SqlError::Syntax(error) = &mut self.error {
            error.line += lines;
        }
        self
    }
}

/// One statement of an SQL string, cut out and not parsed.
#[derive(Clone, Debug)]
pub struct UnparsedStatement<'a> {
    text: &'a str,
    tokens: StatementTokens,
}

impl UnparsedStatement<'_> {
    /// Returns the words of the statement, in lower case unless quoted. Quoted texts are without
    /// their quotes. Other tokens stay as they are.
    pub fn words(&self) -> Vec<String> {
        session::words(&self.tokens.tokens)
    }

    /// Returns the tokens of the statement, for parts of a server that read other statements than
    /// the store's.
    pub fn tokens(&self) -> &[TokenWithSpan] {
        &self.tokens.tokens
    }

    /// Parses the statement, which begins with the word `COPY`. It is none of [`Statement`]: a
    /// server of SQL runs it, because its rows come from a client or go there.
    ///
    /// # Errors
    /// The statement is invalid, or the store does not support it.
    pub fn parse_copy(&self) -> Result<CopyStatement, SqlError> {
        copy::parse(self.text, &self.tokens)
    }

    /// Parses the statement if it is about a prepared statement or a cursor of a session; none if
    /// it is not. A server of SQL runs it.
    ///
    /// # Errors
    /// The statement is invalid, or the store does not support it.
    pub fn parse_named(&self) -> Result<Option<NamedStatement>, SqlError> {
        named::parse(self)
    }

    /// Parses the statement if it is about roles or privileges; none if it is not. A server of SQL
    /// runs it. No error has the text of a password.
    ///
    /// # Errors
    /// The statement is invalid, or the store does not support it.
    pub fn parse_role(&self) -> Result<Option<RoleStatement>, SqlError> {
        roles::parse(&self.tokens.tokens)
    }

    /// Parses the statement.
    ///
    /// # Errors
    /// The statement is invalid, or the store does not support it.
    pub fn parse(&self) -> Result<Statement, SqlError> {
        self.parse_in(TimeZone::UTC)
    }

    /// Parses the statement. Constants that it stores, such as the defaults of a table, are local
    /// times of a zone.
    ///
    /// # Errors
    /// The statement is invalid, or the store does not support it.
    pub fn parse_in(&self, zone: TimeZone<'static>) -> Result<Statement, SqlError> {
        parse_piece(self.text, &self.tokens, zone)
    }
}

/// Cuts an SQL string into statements, without those that are only spaces and comments.
///
/// # Errors
/// A quote or a comment has no end, or a character is none of SQL's.
pub fn split(text: &str) -> Result<Vec<UnparsedStatement<'_>>, SyntaxError> {
    let pieces = script::split(text)?.into_iter();
    Ok(pieces
        .map(|tokens| UnparsedStatement { text, tokens })
        .collect())
}

/// Returns all statements of an SQL string.
pub fn parse(text: &str) -> Result<Vec<ParsedStatement>, ParseError> {
    let pieces = script::split(text).map_err(|error| ParseError {
        line: error.line,
        error: error.into(),
    })?;
    let mut all: Vec<ParsedStatement> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let line = piece.line;
        let fail = |error| ParseError { error, line };
        let statement = parse_piece(text, &piece, TimeZone::UTC).map_err(fail)?;
        match (all.last_mut().map(|it| &mut it.statement), statement) {
            (
                Some(Statement::CreateTable {
                    schema,
                    if_not_exists: _,
                    references: _,
                    serials: _,
                }),
                Statement::CreateIndex(index),
            ) if index.table == schema.name => {
                create_index::push_index(schema, index).map_err(fail)?;
            }
            (_, statement) => all.push(ParsedStatement { statement, line }),
        }
    }
    Ok(all)
}

/// Refuses a statement with an expression of too many operators. A chain of them is a tree as deep
/// as it is long, and functions over such a tree recurse.
fn check_operators(piece: &StatementTokens) -> Result<(), SqlError> {
    if script::operators_max(&piece.tokens) <= NODES_MAX {
        return Ok(());
    }
    Err(SqlError::with_state(
        sqlstate::TOO_COMPLEX,
        format!(
            "an expression has more than {NODES_MAX} operators: use IN with a list, or several \
             statements"
        ),
    ))
}

fn parse_piece(
    text: &str,
    piece: &StatementTokens,
    zone: TimeZone<'static>,
) -> Result<Statement, SqlError> {
    check_operators(piece)?;
    let words = session::words(&piece.tokens);
    match words.first().map(String::as_str) {
        Some("show" | "describe") => return session::show(&words).map(Statement::Show),
        Some("set") if words.get(1).is_some_and(|it| it == "transaction") => {
            return transaction::set(&words).map(Statement::Transaction);
        }
        Some("set") => return session::set(&words),
        Some(
            "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release",
        ) => return transaction::parse(&words).map(Statement::Transaction),
        Some("alter") if words.get(1).is_some_and(|it| it == "index") => {
            return alter::index(text, &piece.tokens);
        }
        Some("create" | "alter") if words.iter().take(3).any(|it| it == "sequence") => {
            return sequence::statement(&words);
        }
        Some("comment") => return comment::statement(text, &piece.tokens, &words),
        Some("explain") => return explain::explain(text, piece),
        _ => {}
    }
    let (tokens, index_clauses) = indexes::take_clauses(&piece.tokens)?;
    let (tokens, identities) = sequence::take_identity_options(tokens)?;
    let (tokens, overriding) = change::take_overriding(tokens);
    let statement = parse_tokens(text, tokens).map_err(change::of_element)?;
    let scan = script::asks_for_scan(&piece.tokens);
    let mut statement = match statement {
        ast::Statement::CreateTable(table) => create::table(table, identities, zone)?,
        statement => convert(statement, scan)?,
    };
    if let Statement::Insert(insert) = &mut statement {
        insert.overriding = overriding;
    }
    for clause in index_clauses {
        let Statement::CreateTable { schema, .. } = &mut statement else {
            unreachable!("index clauses are taken from CREATE TABLE only");
        };
        match parse_tokens(text, clause)? {
            ast::Statement::CreateIndex(index) => {
                let index = create_index::index(index, IndexPlace::Clause)?;
                create_index::push_index(schema, index)?;
            }
            _ => unreachable!("the tokens begin with CREATE INDEX"),
        }
    }
    Ok(statement)
}

fn parse_tokens(text: &str, tokens: Vec<TokenWithSpan>) -> Result<ast::Statement, SyntaxError> {
    let places: Vec<(Location, String)> = tokens
        .iter()
        .filter(|token| !script::is_space(&token.token))
        .map(|token| (token.span.start, token.token.to_string()))
        .collect();
    let end = tokens
        .iter()
        .rfind(|token| !script::is_space(&token.token))
        .map_or(Location { line: 0, column: 0 }, |token| token.span.end);
    let fail = |error: ParserError| {
        let (message, at) = match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
                place(&message)
            }
            ParserError::RecursionLimitExceeded => (
                "the statement is nested too deeply: simplify it".to_string(),
                None,
            ),
        };
        let at = at.map(|at| found_at(&message, at, &places));
        script::syntax_error(text, at.unwrap_or(end), message)
    };
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
    let mut statement = parser.parse_statement().map_err(fail)?;
    rewrite::rewrite(&mut statement);
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        let message = format!("expected: end of statement, found: {}", rest.token);
        return Err(script::syntax_error(text, rest.span.start, message));
    }
    Ok(statement)
}

/// Returns the location of the token that the message names, because the parser sometimes reports
/// the location of the next token.
fn found_at(message: &str, at: Location, places: &[(Location, String)]) -> Location {
    let Some((_, found)) = message.rsplit_once("found: ") else {
        return at;
    };
    match places.iter().position(|(start, _)| *start == at) {
        Some(next) if next > 0 && places[next].1 != found && places[next - 1].1 == found => {
            places[next - 1].0
        }
        _ => at,
    }
}

/// Splits `Expected: x, found: y at Line: 1, Column: 2` into the message and the place.
fn place(message: &str) -> (String, Option<Location>) {
    let lower_first = |text: &str| {
        let mut characters = text.chars();
        match characters.next() {
            Some(first) => first.to_lowercase().chain(characters).collect(),
            None => String::new(),
        }
    };
    if let Some((what, place)) = message.rsplit_once(" at Line: ")
        && let Some((line, column)) = place.split_once(", Column: ")
        && let (Ok(line), Ok(column)) = (line.parse(), column.parse())
    {
        return (lower_first(what), Some(Location { line, column }));
    }
    (lower_first(message), None)
}

fn convert(statement: ast::Statement, scan: bool) -> Result<Statement, SqlError> {
    match statement {
        ast::Statement::CreateIndex(index) => {
            create_index::index(index, IndexPlace::Statement).map(Statement::CreateIndex)
        }
        statement @ ast::Statement::Drop { .. } => create::drop(statement),
        ast::Statement::Insert(insert) => change::insert(insert, scan).map(Statement::Insert),
        ast::Statement::Update(update) => change::update(update, scan).map(Statement::Update),
        ast::Statement::Delete(delete) => change::delete(delete, scan).map(Statement::Delete),
        ast::Statement::Query(query) => query::select(*query, scan).map(Statement::Select),
        ast::Statement::AlterTable(alter) => alter::table(alter),
        ast::Statement::Truncate(truncate) => alter::truncate(truncate),
        ast::Statement::Copy { .. } => Err(SqlError::unsupported(
            "COPY",
            "use the commands replex import and replex export, or a client of PostgreSQL",
        )),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(SqlError::unsupported(
                words.join(" "),
                "\\? in the shell lists the statements that there are",
            ))
        }
    }
}

/// Returns a name without a schema before it; `public` is taken for none.
fn object_name(object: &ast::ObjectName) -> Result<String, SqlError> {
    let parts: Option<Vec<String>> = object
        .0
        .iter()
        .map(|part| part.as_ident().map(name))
        .collect();
    match parts.as_deref() {
        Some([table]) => Ok(table.clone()),
        Some([schema, table]) if schema == "public" => Ok(table.clone()),
        _ => Err(SqlError::unsupported(
            format!("the name {object}"),
            "there is one name space: name the table alone",
        )),
    }
}

/// Returns the text of a literal or of a bare word.
fn text_of(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Value(value) => value
            .clone()
            .into_string()
            .unwrap_or_else(|| value.to_string()),
        other => other.to_string(),
    }
}

/// Returns a statement that is known to parse: the rest of another statement, once everything that
/// the store supports has been taken out of it, must equal this.
fn template(text: &str) -> ast::Statement {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, text);
    parsed
        .ok()
        .and_then(|statements| statements.into_iter().next())
        .expect("the text is a fixed statement")
}

/// Renames the index that the statement left without a name, as PostgreSQL does.
fn made_up_name(table: &str, columns: &[String], suffix: &str) -> String {
    format!("{table}_{}_{suffix}", columns.join("_"))
}

#[cfg(test)]
mod tests;
