//! Parses `CREATE SEQUENCE`, `ALTER SEQUENCE`, and the options of sequences.
//!
//! PostgreSQL takes the options in any order, so they are read word by word. The options of an
//! identity column are taken out of the tokens of `CREATE TABLE` before the rest is parsed.

use placement::{ColumnType, Sequence};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::indexes::keyword;
use super::session::words;
use crate::error::{SqlError, sqlstate};
use crate::script::is_space;
use crate::statement::{SequenceOptions, Statement};

/// The options of the identity columns of a `CREATE TABLE`, in the order of the columns. None if a
/// column has no list of options.
pub(super) type IdentityOptions = Vec<Option<SequenceOptions>>;

/// Parses `CREATE SEQUENCE` and `ALTER SEQUENCE`.
pub(super) fn statement(words: &[String]) -> Result<Statement, SqlError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["create", "sequence", "if", "not", "exists", ref rest @ ..] => create(rest, true),
        ["create", "sequence", ref rest @ ..] => create(rest, false),
        ["alter", "sequence", "if", "exists", ref rest @ ..] => alter(rest, true),
        ["alter", "sequence", ref rest @ ..] => alter(rest, false),
        _ => Err(SqlError::unsupported(
            "a temporary or unlogged sequence",
            "write CREATE SEQUENCE name",
        )),
    }
}

fn create(words: &[&str], if_not_exists: bool) -> Result<Statement, SqlError> {
    let (name, rest) = name(words)?;
    let options = options(rest)?;
    if options.restart.is_some() || options.name.is_some() {
        return Err(unexpected(rest));
    }
    Ok(Statement::CreateSequence {
        name,
        options,
        if_not_exists,
    })
}

fn alter(words: &[&str], if_exists: bool) -> Result<Statement, SqlError> {
    let (name, rest) = name(words)?;
    let mut options = match rest {
        [] => return Err(unexpected(rest)),
        ["rename" | "set" | "owner", ..] => return Err(alter_unsupported(&rest[0].to_uppercase())),
        rest => options(rest)?,
    };
    let restart = options.restart.take();
    match restart {
        Some(restart) if options == SequenceOptions::default() => Ok(Statement::RestartSequence {
            name,
            restart,
            if_exists,
        }),
        _ => Err(alter_unsupported(
            "a change of the options of an existing sequence",
        )),
    }
}

fn alter_unsupported(what: &str) -> SqlError {
    SqlError::unsupported(
        format!("ALTER SEQUENCE: {what}"),
        "write ALTER SEQUENCE name RESTART [WITH value], or drop the sequence and create it again",
    )
}

/// Returns the name at the beginning, without a schema before it, and the rest.
fn name<'w, 'a>(words: &'w [&'a str]) -> Result<(String, &'w [&'a str]), SqlError> {
    match words {
        ["public", ".", name, rest @ ..] => Ok(((*name).to_owned(), rest)),
        [schema, ".", name, ..] => Err(SqlError::unsupported(
            format!("the name {schema}.{name}"),
            "there is one name space: name the sequence alone",
        )),
        [name, rest @ ..] => Ok(((*name).to_owned(), rest)),
        [] => Err(unexpected(words)),
    }
}

fn unexpected(words: &[&str]) -> SqlError {
    let message = match words.first() {
        Some(word) => format!("syntax error at or near \"{word}\""),
        None => "syntax error at end of input".to_owned(),
    };
    SqlError::with_state(sqlstate::SYNTAX, message)
}

/// Parses options, in any order.
fn options(mut words: &[&str]) -> Result<SequenceOptions, SqlError> {
    let mut options = SequenceOptions::default();
    while !words.is_empty() {
        words = option(&mut options, words)?;
    }
    Ok(options)
}

// tidy: long — one arm per option.
/// Parses the first option, and returns the words after it.
fn option<'w, 'a>(
    options: &mut SequenceOptions,
    words: &'w [&'a str],
) -> Result<&'w [&'a str], SqlError> {
    let number_at = |skipped: usize| number(&words[skipped..]);
    Ok(match words {
        ["as", rest @ ..] => {
            let (value_type, rest) = value_type(rest)?;
            set(&mut options.value_type, value_type)?;
            rest
        }
        ["increment", rest @ ..] => {
            let by = usize::from(rest.first() == Some(&"by"));
            let (value, rest) = number_at(1 + by)?;
            set(&mut options.increment, value)?;
            rest
        }
        ["minvalue", ..] => {
            let (value, rest) = number_at(1)?;
            set(&mut options.min, Some(value))?;
            rest
        }
        ["maxvalue", ..] => {
            let (value, rest) = number_at(1)?;
            set(&mut options.max, Some(value))?;
            rest
        }
        ["no", "minvalue", rest @ ..] => {
            set(&mut options.min, None)?;
            rest
        }
        ["no", "maxvalue", rest @ ..] => {
            set(&mut options.max, None)?;
            rest
        }
        ["start", rest @ ..] => {
            let with = usize::from(rest.first() == Some(&"with"));
            let (value, rest) = number_at(1 + with)?;
            set(&mut options.start, value)?;
            rest
        }
        ["restart", "with", ..] => {
            let (value, rest) = number_at(2)?;
            set(&mut options.restart, Some(value))?;
            rest
        }
        ["restart", rest @ ..] => match number(rest) {
            Ok((value, rest)) => {
                set(&mut options.restart, Some(value))?;
                rest
            }
            Err(_) => {
                set(&mut options.restart, None)?;
                rest
            }
        },
        ["cache", ..] => {
            let (value, rest) = number_at(1)?;
            set(&mut options.cache, value)?;
            rest
        }
        ["cycle", rest @ ..] => {
            set(&mut options.cycles, true)?;
            rest
        }
        ["no", "cycle", rest @ ..] => {
            set(&mut options.cycles, false)?;
            rest
        }
        ["owned", "by", "none", rest @ ..] => {
            set(&mut options.owner, None)?;
            rest
        }
        ["owned", "by", "public", ".", table, ".", column, rest @ ..]
        | ["owned", "by", table, ".", column, rest @ ..] => {
            let owner = ((*table).to_owned(), (*column).to_owned());
            set(&mut options.owner, Some(owner))?;
            rest
        }
        ["owned", "by", _, ..] => {
            return Err(SqlError::with_state(
                sqlstate::SYNTAX,
                "invalid OWNED BY option: write OWNED BY table.column or OWNED BY NONE",
            ));
        }
        ["sequence", "name", rest @ ..] => {
            let (name, rest) = name(rest)?;
            set(&mut options.name, name)?;
            rest
        }
        words => return Err(unexpected(words)),
    })
}

fn set<T>(option: &mut Option<T>, value: T) -> Result<(), SqlError> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "conflicting or redundant options: write each option once",
        )),
    }
}

fn number<'w, 'a>(words: &'w [&'a str]) -> Result<(i64, &'w [&'a str]), SqlError> {
    let (text, rest) = match words {
        ["-", digits, rest @ ..] => (format!("-{digits}"), rest),
        ["+", digits, rest @ ..] | [digits, rest @ ..] => ((*digits).to_owned(), rest),
        [] => return Err(unexpected(words)),
    };
    let digits = text.strip_prefix('-').unwrap_or(&text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unexpected(words));
    }
    let value = text.parse().map_err(|_| {
        let message = format!("value \"{text}\" is out of range for type bigint");
        SqlError::with_state(sqlstate::OUT_OF_RANGE, message)
    })?;
    Ok((value, rest))
}

fn value_type<'w, 'a>(words: &'w [&'a str]) -> Result<(ColumnType, &'w [&'a str]), SqlError> {
    let [name, rest @ ..] = words else {
        return Err(unexpected(words));
    };
    let found = ColumnType::parse(name).filter(|found| Sequence::bounds(*found).is_some());
    let found = found.ok_or_else(|| {
        let message = "sequence type must be smallint, integer, or bigint";
        SqlError::with_state(sqlstate::INVALID_VALUE, message)
    })?;
    Ok((found, rest))
}

/// Takes the lists of options out of `GENERATED … AS IDENTITY (…)`. Leaves statements other than
/// `CREATE TABLE` unchanged.
pub(super) fn take_identity_options(
    tokens: Vec<TokenWithSpan>,
) -> Result<(Vec<TokenWithSpan>, IdentityOptions), SqlError> {
    let is_identity = |token: &TokenWithSpan| keyword(token) == Some(Keyword::IDENTITY);
    let mut first = tokens.iter().filter(|it| !is_space(&it.token));
    let creates = first.next().and_then(keyword) == Some(Keyword::CREATE);
    if !creates || !tokens.iter().any(is_identity) {
        return Ok((tokens, Vec::new()));
    }
    let tokens = tokens.into_iter().filter(|it| !is_space(&it.token));
    let mut kept: Vec<TokenWithSpan> = Vec::new();
    let mut found = Vec::new();
    let mut tokens = tokens.peekable();
    while let Some(token) = tokens.next() {
        let is_as = kept.last().and_then(keyword) == Some(Keyword::AS);
        let begins = is_as && is_identity(&token);
        kept.push(token);
        if !begins {
            continue;
        }
        if tokens.peek().is_none_or(|next| next.token != Token::LParen) {
            found.push(None);
            continue;
        }
        tokens.next();
        let list: Vec<TokenWithSpan> = tokens
            .by_ref()
            .take_while(|token| token.token != Token::RParen)
            .collect();
        let list = words(&list);
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        if list.is_empty() {
            return Err(unexpected(&[")"]));
        }
        found.push(Some(options(&list)?));
    }
    Ok((kept, found))
}

impl SequenceOptions {
    /// Returns the rules of a sequence with these options. `usual` is its type, unless the options
    /// have one.
    pub(crate) fn rules(&self, usual: ColumnType) -> Result<Sequence, SqlError> {
        let value_type = self.value_type.unwrap_or(usual);
        let bounds = Sequence::bounds(value_type);
        let (lowest, highest) = bounds.expect("only types of sequences are parsed");
        let increment = self.increment.unwrap_or(1);
        let (min, max) = match increment > 0 {
            true => (1, highest),
            false => (lowest, -1),
        };
        let min = self.min.flatten().unwrap_or(min);
        let max = self.max.flatten().unwrap_or(max);
        let start = if increment > 0 { min } else { max };
        let rules = Sequence {
            value_type,
            increment,
            min,
            max,
            start: self.start.unwrap_or(start),
            cache: self.cache.unwrap_or(1),
            cycles: self.cycles.unwrap_or(false),
            owner: None,
        };
        let invalid = |message: String| SqlError::with_state(sqlstate::INVALID_VALUE, message);
        rules.validate().map_err(invalid)?;
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn parsed(text: &str) -> Result<Statement, SqlError> {
        let parsed = parse(text).map_err(|error| error.error)?;
        Ok(parsed.into_iter().next().unwrap().statement)
    }

    #[test]
    fn options_in_any_order() {
        let text = "CREATE SEQUENCE IF NOT EXISTS public.s START 7 NO CYCLE CACHE 3 INCREMENT -2 AS \
                    integer MAXVALUE 9 NO MINVALUE OWNED BY t.c";
        let Ok(Statement::CreateSequence {
            name,
            options,
            if_not_exists: true,
        }) = parsed(text)
        else {
            panic!("{text}");
        };
        assert_eq!(name, "s");
        assert_eq!(options.owner, Some(Some(("t".into(), "c".into()))));
        let rules = options.rules(ColumnType::Int64).unwrap();
        assert_eq!(
            (rules.value_type, rules.increment, rules.start, rules.cache),
            (ColumnType::Int32, -2, 7, 3)
        );
        assert_eq!((rules.min, rules.max), (i32::MIN.into(), 9));
    }

    #[test]
    fn restarts() {
        for (text, expected) in [
            ("ALTER SEQUENCE s RESTART", None),
            ("ALTER SEQUENCE s RESTART WITH -5", Some(-5)),
            ("ALTER SEQUENCE s RESTART 5", Some(5)),
        ] {
            let Ok(Statement::RestartSequence { restart, .. }) = parsed(text) else {
                panic!("{text}");
            };
            assert_eq!(restart, expected, "{text}");
        }
    }

    #[test]
    fn identity_columns_take_options_in_any_order() {
        let text = "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (START 5 INCREMENT BY 2) \
                    PRIMARY KEY, b bigint GENERATED BY DEFAULT AS IDENTITY)";
        let Ok(Statement::CreateTable { serials, .. }) = parsed(text) else {
            panic!("{text}");
        };
        let rules: Vec<(i64, i64, i64)> = serials
            .iter()
            .map(|it| (it.rules.start, it.rules.increment, it.rules.max))
            .collect();
        assert_eq!(rules, [(5, 2, i32::MAX.into()), (1, 1, i64::MAX)]);
    }

    #[test]
    fn wrong_options_are_refused() {
        for (text, expected) in [
            ("CREATE SEQUENCE s START 1 START 2", "conflicting"),
            ("CREATE SEQUENCE s CACHE 0", "CACHE (0) must be greater"),
            ("CREATE SEQUENCE s AS text", "sequence type must be"),
            ("CREATE SEQUENCE s STRAT 1", "syntax error at or near"),
            ("CREATE SEQUENCE s START", "syntax error at end of input"),
            ("CREATE SEQUENCE s OWNED BY t", "invalid OWNED BY option"),
            (
                "CREATE SEQUENCE s START 9223372036854775808",
                "out of range",
            ),
            ("CREATE TEMP SEQUENCE s", "a temporary or unlogged sequence"),
            ("ALTER SEQUENCE s INCREMENT 2", "is not supported"),
            ("ALTER SEQUENCE s RENAME TO t", "RENAME is not supported"),
        ] {
            let error = match parsed(text) {
                Ok(Statement::CreateSequence { options, .. }) => {
                    options.rules(ColumnType::Int64).unwrap_err()
                }
                Ok(other) => panic!("{text}: {other:?}"),
                Err(error) => error,
            };
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }
}
