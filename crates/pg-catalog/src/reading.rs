//! Reads statements, and tells which of them are about the catalogue.

use std::sync::Arc;

use sqlparser::ast::{self, SetExpr, TableFactor};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::CatalogueStatement;
use crate::bind::parts;
use crate::error::{CatalogueError, OPERATORS_MAX};
use crate::relations;

/// How deep the grammar of a statement may nest.
const GRAMMAR_DEPTH_MAX: usize = 30;

/// The tables of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// It reads relations of the catalogue.
    Catalogue,
    /// It reads no tables.
    Nothing,
    /// It reads only tables that are not of the catalogue.
    Others,
}

impl CatalogueStatement {
    /// Parses a statement; none if it is no query.
    ///
    /// # Errors
    /// The statement is invalid.
    pub fn parse(tokens: &[TokenWithSpan]) -> Result<Option<CatalogueStatement>, CatalogueError> {
        // A chain of operators is a tree as deep as it is long, and functions over it recurse.
        if operators(tokens) > OPERATORS_MAX {
            let text = format!("a statement has more than {OPERATORS_MAX} operators");
            return Err(CatalogueError::new("54001", text));
        }
        let dialect = PostgreSqlDialect {};
        let parser = Parser::new(&dialect).with_recursion_limit(GRAMMAR_DEPTH_MAX);
        let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
        let parsed =
            parser
                .parse_statement()
                .and_then(|statement| match parser.peek_token().token {
                    Token::EOF | Token::SemiColon => Ok(statement),
                    other => Err(ParserError::ParserError(format!(
                        "syntax error at or near \"{other}\""
                    ))),
                });
        match parsed {
            Ok(ast::Statement::Query(query)) => {
                let mut tables = Tables::default();
                tables.query(&query);
                Ok(Some(CatalogueStatement {
                    subject: tables.subject(),
                    query: Arc::new(*query),
                }))
            }
            Ok(_) => Ok(None),
            Err(ParserError::RecursionLimitExceeded) => {
                let text = format!("a statement is nested deeper than {GRAMMAR_DEPTH_MAX} levels");
                Err(CatalogueError::new("54001", text))
            }
            Err(ParserError::TokenizerError(text) | ParserError::ParserError(text)) => {
                Err(CatalogueError::syntax(text))
            }
        }
    }
}

/// Returns how many operators a statement has.
fn operators(tokens: &[TokenWithSpan]) -> usize {
    let operators = tokens.iter().filter(|token| match &token.token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::NOT
                | Keyword::JOIN
        ),
        Token::Whitespace(_)
        | Token::EOF
        | Token::Comma
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::Number(..)
        | Token::SingleQuotedString(_) => false,
        _ => true,
    });
    operators.count()
}

/// The tables in the `FROM` of a statement and its parts.
#[derive(Default)]
struct Tables {
    ctes: Vec<String>,
    of_catalogue: usize,
    others: usize,
}

impl Tables {
    fn subject(&self) -> Subject {
        match (self.of_catalogue, self.others) {
            (1.., _) => Subject::Catalogue,
            (0, 0) => Subject::Nothing,
            (0, _) => Subject::Others,
        }
    }

    fn query(&mut self, query: &ast::Query) {
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                self.ctes.push(cte.alias.name.value.to_ascii_lowercase());
                self.query(&cte.query);
            }
        }
        self.body(&query.body);
    }

    fn body(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => {
                for tables in &select.from {
                    self.tables(tables);
                }
            }
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            _ => {}
        }
    }

    fn tables(&mut self, tables: &ast::TableWithJoins) {
        let joined = tables.joins.iter().map(|join| &join.relation);
        for factor in [&tables.relation].into_iter().chain(joined) {
            match factor {
                TableFactor::Table {
                    name, args: None, ..
                } => self.table(name),
                TableFactor::Derived { subquery, .. } => self.query(subquery),
                TableFactor::NestedJoin {
                    table_with_joins, ..
                } => self.tables(table_with_joins),
                _ => {}
            }
        }
    }

    fn table(&mut self, name: &ast::ObjectName) {
        let Ok(parts) = parts(name) else {
            self.others += 1;
            return;
        };
        match &parts[..] {
            [table] if self.ctes.contains(&table.to_ascii_lowercase()) => {}
            [table] if relations::position(None, table).is_some() => self.of_catalogue += 1,
            [.., schema, _] if matches!(&**schema, "pg_catalog" | "information_schema") => {
                self.of_catalogue += 1;
            }
            _ => self.others += 1,
        }
    }
}
