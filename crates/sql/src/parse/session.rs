//! Parses the store's `SHOW` and `SET`: a few fixed forms, word by word.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{SqlError, sqlstate};
use crate::script::is_space;
use crate::statement::{
    FixedSetting, SCAN_ROWS, Set, SetConstraints, Setting, Show, Statement, TransactionStatement,
};

/// Returns the words of a statement, in lower case unless quoted. Other tokens stay as they are.
pub(super) fn words(tokens: &[TokenWithSpan]) -> Vec<String> {
    let significant = tokens.iter().filter(|it| !is_space(&it.token));
    significant
        .map(|it| match &it.token {
            Token::Word(word) if word.quote_style.is_some() => word.value.clone(),
            Token::Word(word) => word.value.to_ascii_lowercase(),
            Token::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        })
        .collect()
}

/// Parses `SHOW TABLES`, `SHOW TABLE t`, `DESCRIBE t`, `SHOW INDEX RANGES FROM t`, `SHOW SERVERS`,
/// `SHOW setting`.
pub(super) fn show(words: &[String]) -> Result<Show, SqlError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["show", "tables"] => Show::Tables,
        ["show", "servers"] => Show::Servers,
        ["show", "table", name] | ["describe", name] | ["describe", "table", name] => {
            Show::Table(name.to_string())
        }
        ["show", "index", "ranges", "from", name] => Show::IndexRanges(name.to_string()),
        ["show", "time", "zone"] => show_setting("timezone")?,
        ["show", name] => show_setting(name)?,
        _ => {
            return Err(SqlError::unsupported(
                words.join(" "),
                "write SHOW TABLES, SHOW TABLE name, SHOW INDEX RANGES FROM table, SHOW SERVERS, SHOW \
                 scan, SHOW scan_rows or SHOW stale_reads",
            ));
        }
    })
}

fn show_setting(name: &str) -> Result<Show, SqlError> {
    match fixed(name) {
        Some(fixed) => Ok(Show::Fixed(fixed)),
        None => setting(name).map(Show::Setting),
    }
}

/// Parses `SET [SESSION] setting = on`, `SET setting TO off`, `SET TIME ZONE 'UTC'`.
pub(super) fn set(words: &[String]) -> Result<Statement, SqlError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, value) = match &words[1..] {
        ["local", ..] => {
            return Err(SqlError::unsupported(
                "SET LOCAL",
                "a setting holds for the session: write SET",
            ));
        }
        ["constraints", names @ .., when @ ("deferred" | "immediate")] if !names.is_empty() => {
            return Ok(set_constraints(names, *when == "deferred"));
        }
        ["time", "zone", value] | ["session", "time", "zone", value] => {
            ("timezone", value.to_string())
        }
        [name, "=" | "to", value @ ..] | ["session", name, "=" | "to", value @ ..]
            if !value.is_empty() =>
        {
            (*name, value.join(" ").replace(" ,", ","))
        }
        _ => {
            return Err(SqlError::unsupported(
                words.join(" "),
                "write SET scan = on, SET scan_rows = a number or SET stale_reads = on",
            ));
        }
    };
    if let Some(fixed) = fixed(name) {
        if fixed.is(&value) {
            return Ok(Statement::SetAlready);
        }
        return Err(SqlError::unsupported(
            format!("setting {} to {value}", fixed.name),
            format!("it is always {}; {}", fixed.value, fixed.remedy),
        ));
    }
    let value = value.to_ascii_lowercase();
    let is_on = || match value.as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" | "default" => Ok(false),
        _ => Err(SqlError::with_state(
            sqlstate::INVALID_VALUE,
            format!("{value} is no value of setting {name}: write on or off"),
        )),
    };
    let set = match setting(name)? {
        Setting::Scan => Set::Scan(is_on()?),
        Setting::StaleReads => Set::StaleReads(is_on()?),
        Setting::ScanRows if value == "default" => Set::ScanRows(SCAN_ROWS),
        Setting::ScanRows => Set::ScanRows(value.parse().map_err(|_| {
            SqlError::with_state(sqlstate::INVALID_VALUE, format!(
                "{value} is no value of setting {name}: write a number of rows, or DEFAULT, which \
                 is {SCAN_ROWS}"
            ))
        })?),
    };
    Ok(Statement::Set(set))
}

/// Returns `SET CONSTRAINTS` with these names, or `ALL`. A schema in front of a name is left out.
fn set_constraints(names: &[&str], deferred: bool) -> Statement {
    let names = match names {
        ["all"] => Vec::new(),
        names => {
            let names = names.split(|word| *word == ",");
            let names = names.filter_map(|name| name.last());
            names.map(|name| (*name).to_owned()).collect()
        }
    };
    let set = SetConstraints { names, deferred };
    Statement::Transaction(TransactionStatement::SetConstraints(set))
}

fn fixed(name: &str) -> Option<FixedSetting> {
    FixedSetting::ALL.into_iter().find(|it| it.name == name)
}

fn setting(name: &str) -> Result<Setting, SqlError> {
    let known = Setting::ALL.into_iter().find(|it| it.name() == name);
    known.ok_or_else(|| {
        let fixed: Vec<&str> = FixedSetting::ALL.iter().map(|it| it.name).collect();
        SqlError::with_state(sqlstate::UNDEFINED_OBJECT, format!(
            "there is no setting {name}: the settings are scan, scan_rows and stale_reads, and {} cannot be \
             changed",
            fixed.join(", ")
        ))
    })
}
