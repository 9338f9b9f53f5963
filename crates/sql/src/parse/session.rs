//! `SHOW` and `SET` of the store: a few fixed forms, read word by word.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::Error;
use crate::script::is_space;
use crate::statement::{Set, Setting, Show};

/// The words of a statement, folded to lower case unless quoted; other tokens as they are.
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

/// `SHOW TABLES`, `SHOW TABLE t`, `DESCRIBE t`, `SHOW SERVERS`, `SHOW setting`.
pub(super) fn show(words: &[String]) -> Result<Show, Error> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["show", "tables"] => Show::Tables,
        ["show", "servers"] => Show::Servers,
        ["show", "table", name] | ["describe", name] | ["describe", "table", name] => {
            Show::Table(name.to_string())
        }
        ["show", name] => Show::Setting(setting(name)?),
        _ => {
            return Err(Error::unsupported(
                words.join(" "),
                "write SHOW TABLES, SHOW TABLE name, SHOW SERVERS, SHOW scan or SHOW stale_reads",
            ));
        }
    })
}

/// `SET setting = on`, `SET setting TO off`.
pub(super) fn set(words: &[String]) -> Result<Set, Error> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["set", name, "=" | "to", value] = words[..] else {
        return Err(Error::unsupported(
            words.join(" "),
            "write SET scan = on or SET stale_reads = on (or off)",
        ));
    };
    let on = match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => true,
        "off" | "false" | "0" | "no" | "default" => false,
        _ => {
            return Err(Error::statement(format!(
                "{value} is no value of setting {name}: write on or off"
            )));
        }
    };
    let setting = setting(name)?;
    Ok(Set { setting, on })
}

fn setting(name: &str) -> Result<Setting, Error> {
    let known = Setting::ALL.into_iter().find(|it| it.name() == name);
    known.ok_or_else(|| {
        Error::statement(format!(
            "there is no setting {name}: the settings are scan and stale_reads"
        ))
    })
}
