//! Parses `COPY`, with the options in parentheses and with those of releases before 9.0. The
//! grammar is PostgreSQL's. `sqlparser` has one of its own, which lacks `FREEZE ON`, `HEADER
//! MATCH`, `FORCE NULL` and others.

use sqlparser::ast::{Expr, Ident};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::copy_options::GivenOptions;
use super::parse_piece;
use crate::error::{SqlError, sqlstate};
use crate::script::{StatementTokens, is_space, syntax_error};
use crate::statement::{
    CopyColumns, CopyDirection, CopyFormat, CopyHeader, CopyStatement, Select, SelectItem,
    Statement, TableName,
};

/// Parses a statement that begins with the word `COPY`.
///
/// # Errors
/// It is invalid, or the store does not support it.
pub(super) fn parse(text: &str, piece: &StatementTokens) -> Result<CopyStatement, SqlError> {
    let tokens = piece.tokens.iter().enumerate();
    let significant = tokens.filter(|(_, token)| !is_space(&token.token));
    let mut words = Words {
        text,
        piece,
        places: significant.map(|(place, _)| place).collect(),
        next: 1,
    };
    let is_old_binary = words.take_word("binary");
    let source = words.source()?;
    let reads = match words.take_any(&["from", "to"]) {
        Some("from") => true,
        Some(_) => false,
        None => return Err(words.expected("FROM or TO")),
    };
    if reads && matches!(source, Source::Query(_)) {
        return Err(words.expected("TO"));
    }
    words.end_point()?;
    if words.take_any(&["using"]).is_some() {
        words.must("delimiters")?;
        return Err(SqlError::unsupported("USING DELIMITERS", "write DELIMITER"));
    }
    words.take_word("with");
    let mut options = GivenOptions::default();
    match words.take_token(&Token::LParen) {
        true => words.options(&mut options)?,
        false => words.old_options(&mut options)?,
    }
    if reads && words.take_word("where") {
        let remedy = "copy all rows, and delete those that do not match";
        return Err(SqlError::unsupported("WHERE of COPY", remedy));
    }
    if words.peek().is_some() {
        return Err(words.expected("end of statement"));
    }
    if is_old_binary {
        once(&mut options.format, CopyFormat::Binary)?;
    }
    let options = options.check(reads)?;
    let direction = match source {
        Source::Table { table, columns } if reads => CopyDirection::From { table, columns },
        Source::Table { table, columns } => CopyDirection::To(Box::new(all_rows(table, columns))),
        Source::Query(select) => CopyDirection::To(select),
    };
    Ok(CopyStatement { direction, options })
}

/// The part of the statement before `FROM` or `TO`.
enum Source {
    Table {
        table: String,
        columns: Option<Vec<String>>,
    },
    Query(Box<Select>),
}

/// Returns the `SELECT` of all rows of a table. It asks for the scan.
fn all_rows(table: String, columns: Option<Vec<String>>) -> Select {
    let items = match columns {
        None => vec![SelectItem::AllButGenerated],
        Some(columns) => {
            let columns = columns.into_iter().map(|name| SelectItem::Expression {
                expression: Expr::Identifier(Ident::with_quote('"', name.clone())),
                name,
                named: false,
            });
            columns.collect()
        }
    };
    Select {
        table: Some(TableName {
            name: table,
            alias: None,
        }),
        items,
        distinct: false,
        filter: None,
        group_by: Vec::new(),
        having: None,
        order: Vec::new(),
        limit: None,
        offset: None,
        scan: true,
        locks: false,
    }
}

/// The tokens of the statement that are no spaces.
struct Words<'a> {
    text: &'a str,
    piece: &'a StatementTokens,
    places: Vec<usize>,
    next: usize,
}

impl<'a> Words<'a> {
    fn token(&self, ahead: usize) -> Option<&'a TokenWithSpan> {
        let place = self.places.get(self.next + ahead)?;
        Some(&self.piece.tokens[*place])
    }

    fn peek(&self) -> Option<&'a Token> {
        self.token(0).map(|token| &token.token)
    }

    fn expected(&self, what: &str) -> SqlError {
        let (found, at) = match self.token(0) {
            Some(token) => (token.token.to_string(), token.span.start),
            None => ("EOF".to_owned(), Location { line: 0, column: 0 }),
        };
        let message = format!("expected: {what}, found: {found}");
        syntax_error(self.text, at, message).into()
    }

    /// Returns the next token if it is a word without quotes, in lower case.
    fn peek_word(&self) -> Option<String> {
        match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                Some(word.value.to_ascii_lowercase())
            }
            _ => None,
        }
    }

    fn take_any<'w>(&mut self, words: &[&'w str]) -> Option<&'w str> {
        let found = self.peek_word()?;
        let word = words.iter().find(|word| **word == found)?;
        self.next += 1;
        Some(word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.take_any(&[word]).is_some()
    }

    fn must(&mut self, word: &str) -> Result<(), SqlError> {
        match self.take_word(word) {
            true => Ok(()),
            false => Err(self.expected(&word.to_ascii_uppercase())),
        }
    }

    fn take_token(&mut self, token: &Token) -> bool {
        let is_it = self.peek() == Some(token);
        self.next += usize::from(is_it);
        is_it
    }

    fn name(&mut self) -> Result<String, SqlError> {
        let name = match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_some() => word.value.clone(),
            Some(Token::Word(word)) => word.value.to_ascii_lowercase(),
            _ => return Err(self.expected("a name")),
        };
        self.next += 1;
        Ok(name)
    }

    fn literal(&mut self) -> Result<String, SqlError> {
        let text = match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                text.clone()
            }
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return Err(self.expected("a text in quotes")),
        };
        self.next += 1;
        Ok(text)
    }

    /// Parses the rest of a list of names after its parenthesis.
    fn rest_of_names(&mut self) -> Result<Vec<String>, SqlError> {
        let mut names = vec![self.name()?];
        while self.take_token(&Token::Comma) {
            names.push(self.name()?);
        }
        match self.take_token(&Token::RParen) {
            true => Ok(names),
            false => Err(self.expected(")")),
        }
    }

    fn source(&mut self) -> Result<Source, SqlError> {
        if self.take_token(&Token::LParen) {
            return self.query();
        }
        let mut table = self.name()?;
        if self.take_token(&Token::Period) {
            if table != "public" {
                return Err(SqlError::unsupported(
                    format!("the schema {table}"),
                    "there is one name space: name the table alone",
                ));
            }
            table = self.name()?;
        }
        let columns = match self.take_token(&Token::LParen) {
            true => Some(self.rest_of_names()?),
            false => None,
        };
        Ok(Source::Table { table, columns })
    }

    /// Parses the query after its opening parenthesis.
    fn query(&mut self) -> Result<Source, SqlError> {
        let first = self.next;
        let mut depth = 1_usize;
        loop {
            match self.peek() {
                None => return Err(self.expected(")")),
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                Some(_) => {}
            }
            if depth == 0 {
                break;
            }
            self.next += 1;
        }
        // Hints stand between the tokens.
        let tokens = self.places[first - 1] + 1..self.places[self.next];
        let tokens = self.piece.tokens[tokens].to_vec();
        if self.next == first {
            return Err(self.expected("a SELECT"));
        }
        self.next += 1;
        let line = self.piece.line;
        match parse_piece(
            self.text,
            &StatementTokens { tokens, line },
            placement::TimeZone::UTC,
        )? {
            Statement::Select(select) => Ok(Source::Query(Box::new(select))),
            _ => Err(SqlError::unsupported(
                "COPY of this statement",
                "copy a table or a SELECT",
            )),
        }
    }

    fn end_point(&mut self) -> Result<(), SqlError> {
        // PostgreSQL takes either word in both directions.
        if self.take_any(&["stdin", "stdout"]).is_some() {
            return Ok(());
        }
        let what = match self.take_word("program") {
            true => "COPY with a program of the server",
            false => "COPY with a file of the server",
        };
        self.literal()?;
        Err(SqlError::unsupported(
            what,
            "use STDIN or STDOUT, or psql's \\copy for a file of the client",
        ))
    }

    /// Parses the options after their opening parenthesis.
    fn options(&mut self, options: &mut GivenOptions) -> Result<(), SqlError> {
        loop {
            let name = self.name()?;
            self.option(&name, options)?;
            if self.take_token(&Token::RParen) {
                return Ok(());
            }
            if !self.take_token(&Token::Comma) {
                return Err(self.expected(", or )"));
            }
        }
    }

    fn option(&mut self, name: &str, options: &mut GivenOptions) -> Result<(), SqlError> {
        match name {
            "format" => {
                let format = self.value(name)?;
                let format = match &*format {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    _ => {
                        let text = format!("COPY format \"{format}\" not recognized");
                        return Err(SqlError::with_state(sqlstate::INVALID_VALUE, text));
                    }
                };
                once(&mut options.format, format)
            }
            "freeze" => {
                let freeze = self.boolean(name)?;
                once(&mut options.freeze, freeze)
            }
            "delimiter" => once(&mut options.delimiter, self.value(name)?),
            "null" => once(&mut options.null, self.value(name)?),
            "header" => {
                let header = match self.is_value("match") {
                    true => {
                        self.next += 1;
                        CopyHeader::Match
                    }
                    false => match self.boolean(name)? {
                        true => CopyHeader::Yes,
                        false => CopyHeader::No,
                    },
                };
                once(&mut options.header, header)
            }
            "quote" => once(&mut options.quote, self.value(name)?),
            "escape" => once(&mut options.escape, self.value(name)?),
            "encoding" => once(&mut options.encoding, self.value(name)?),
            "force_quote" => once(&mut options.force_quote, self.columns(true)?),
            "force_not_null" => once(&mut options.force_not_null, self.columns(false)?),
            "force_null" => once(&mut options.force_null, self.columns(false)?),
            other => {
                let text = format!("option \"{other}\" not recognized");
                Err(SqlError::with_state(sqlstate::SYNTAX, text))
            }
        }
    }

    fn is_value(&self, value: &str) -> bool {
        match self.peek() {
            Some(Token::Word(word)) => word.value.eq_ignore_ascii_case(value),
            Some(Token::SingleQuotedString(text)) => text.eq_ignore_ascii_case(value),
            _ => false,
        }
    }

    /// Parses the value of an option: a word, a text or a number.
    fn value(&mut self, option: &str) -> Result<String, SqlError> {
        match self.peek() {
            Some(Token::Word(_)) => self.name(),
            Some(Token::Number(number, _)) => {
                self.next += 1;
                Ok(number.clone())
            }
            None | Some(Token::Comma | Token::RParen) => {
                let text = format!("{option} requires a parameter");
                Err(SqlError::with_state(sqlstate::SYNTAX, text))
            }
            Some(_) => self.literal(),
        }
    }

    /// Parses a truth value; none is true.
    fn boolean(&mut self, option: &str) -> Result<bool, SqlError> {
        if let None | Some(Token::Comma | Token::RParen) = self.peek() {
            return Ok(true);
        }
        match &*self.value(option)?.to_ascii_lowercase() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => {
                let text = format!("{option} requires a Boolean value");
                Err(SqlError::with_state(sqlstate::SYNTAX, text))
            }
        }
    }

    /// Parses a list of columns in parentheses, or `*` if that is possible.
    fn columns(&mut self, may_be_all: bool) -> Result<CopyColumns, SqlError> {
        if may_be_all && self.take_token(&Token::Mul) {
            return Ok(CopyColumns::All);
        }
        match self.take_token(&Token::LParen) {
            true => Ok(CopyColumns::Named(self.rest_of_names()?)),
            false => {
                let text = "the argument of the option must be a list of column names";
                Err(SqlError::with_state(sqlstate::INVALID_VALUE, text))
            }
        }
    }

    /// Parses the options of releases before 9.0, which have no parentheses.
    fn old_options(&mut self, options: &mut GivenOptions) -> Result<(), SqlError> {
        while let Some(word) = self.take_any(&[
            "binary",
            "csv",
            "freeze",
            "header",
            "delimiter",
            "null",
            "quote",
            "escape",
            "encoding",
            "force",
        ]) {
            match word {
                "binary" => once(&mut options.format, CopyFormat::Binary)?,
                "csv" => once(&mut options.format, CopyFormat::Csv)?,
                "freeze" => once(&mut options.freeze, true)?,
                "header" => once(&mut options.header, CopyHeader::Yes)?,
                "force" => self.old_force(options)?,
                name => {
                    if name != "encoding" {
                        self.take_word("as");
                    }
                    let value = self.literal()?;
                    let option = match name {
                        "delimiter" => &mut options.delimiter,
                        "null" => &mut options.null,
                        "quote" => &mut options.quote,
                        "escape" => &mut options.escape,
                        _ => &mut options.encoding,
                    };
                    once(option, value)?;
                }
            }
        }
        Ok(())
    }

    fn old_force(&mut self, options: &mut GivenOptions) -> Result<(), SqlError> {
        let is_quote = self.take_word("quote");
        let option = match is_quote {
            true => &mut options.force_quote,
            false => match self.take_word("not") {
                true => &mut options.force_not_null,
                false => &mut options.force_null,
            },
        };
        if !is_quote {
            self.must("null")?;
        }
        if is_quote && self.take_token(&Token::Mul) {
            return once(option, CopyColumns::All);
        }
        let mut names = vec![self.name()?];
        while self.take_token(&Token::Comma) {
            names.push(self.name()?);
        }
        once(option, CopyColumns::Named(names))
    }
}

/// Sets an option that may be set once.
fn once<T>(option: &mut Option<T>, value: T) -> Result<(), SqlError> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "conflicting or redundant options: name each option once",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::CopyOptions;

    fn parsed(text: &str) -> Result<CopyStatement, SqlError> {
        let pieces = crate::script::split(text).unwrap();
        parse(text, &pieces[0])
    }

    fn state(text: &str) -> String {
        match parsed(text).expect_err(text) {
            SqlError::Syntax(_) => "42601".into(),
            SqlError::Unsupported { .. } => "0A000".into(),
            SqlError::Statement { sqlstate, .. } => sqlstate.into(),
            other => panic!("{text}: {other}"),
        }
    }

    #[test]
    fn forms_of_the_statement() {
        let csv = CopyOptions {
            format: CopyFormat::Csv,
            header: CopyHeader::Yes,
            delimiter: b',',
            null: String::new(),
            ..CopyOptions::default()
        };
        for text in [
            "COPY t (a, \"B\") FROM STDIN WITH CSV HEADER",
            "copy public.t(a,\"B\") from stdin csv header",
            "COPY t (a, \"B\") FROM STDIN (FORMAT csv, HEADER)",
            "COPY t (a, \"B\") FROM STDIN WITH (HEADER on, FORMAT 'csv', FREEZE off)",
            "COPY t (a, \"B\") FROM STDOUT WITH DELIMITER AS ',' NULL '' CSV HEADER",
        ] {
            let columns = Some(vec!["a".to_owned(), "B".to_owned()]);
            let table = "t".to_owned();
            let expected = CopyStatement {
                direction: CopyDirection::From { table, columns },
                options: csv.clone(),
            };
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
        let freeze = parsed("copy pgbench_accounts from stdin with (freeze on)").unwrap();
        assert_eq!(freeze.options, CopyOptions::default());
        let query = parsed("COPY (SELECT /*+ scan */ (1), ')' FROM t) TO STDOUT").unwrap();
        let CopyDirection::To(select) = query.direction else {
            panic!("it copies a query")
        };
        assert!(select.scan);
        assert_eq!(select.items.len(), 2);
        let options = parsed("COPY t TO STDOUT (DELIMITER E'\\x01', FORMAT csv, FORCE_QUOTE *)");
        let options = options.unwrap().options;
        assert_eq!(options.delimiter, 1);
        assert_eq!(options.force_quote, CopyColumns::All);
    }

    #[test]
    fn refused_forms() {
        for (text, expected) in [
            ("COPY t", "42601"),
            ("COPY t FROM", "42601"),
            ("COPY t FROM STDIN x", "42601"),
            ("COPY t FROM STDIN (", "42601"),
            ("COPY t FROM STDIN (FORMAT csv", "42601"),
            ("COPY t FROM STDIN (FORMAT csv, FORMAT csv)", "42601"),
            ("COPY t FROM STDIN (no_such_option)", "42601"),
            ("COPY t FROM STDIN (HEADER 7)", "42601"),
            ("COPY (SELECT 1) FROM STDIN", "42601"),
            ("COPY () TO STDOUT", "42601"),
            ("COPY t FROM STDIN (FORMAT xml)", "22023"),
            ("COPY t FROM STDIN (DELIMITER 'a')", "22023"),
            ("COPY t FROM STDIN (DELIMITER E'\\n')", "22023"),
            ("COPY t FROM STDIN (DELIMITER '||')", "0A000"),
            ("COPY t FROM STDIN (DELIMITER '')", "0A000"),
            ("COPY t FROM STDIN (QUOTE '''')", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, QUOTE ',')", "22023"),
            ("COPY t FROM STDIN (FORMAT csv, NULL 'a,b')", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE *)", "0A000"),
            ("COPY t TO STDOUT (FORMAT csv, FORCE_NULL (a))", "0A000"),
            ("COPY t TO STDOUT (HEADER match)", "0A000"),
            ("COPY t FROM STDIN (ENCODING 'latin1')", "0A000"),
            ("COPY BINARY t FROM STDIN (FORMAT csv)", "42601"),
            ("COPY t FROM STDIN (FORMAT binary, NULL '')", "42601"),
            ("COPY t FROM STDIN (FORMAT binary, HEADER)", "0A000"),
            ("COPY t FROM '/etc/passwd'", "0A000"),
            ("COPY t TO PROGRAM 'cat'", "0A000"),
            ("COPY other.t FROM STDIN", "0A000"),
            ("COPY t FROM STDIN WHERE a > 1", "0A000"),
            ("COPY (DELETE FROM t WHERE a = 1) TO STDOUT", "0A000"),
        ] {
            assert_eq!(state(text), expected, "{text}");
        }
    }
}
