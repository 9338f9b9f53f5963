//! The statements about a session that this server runs itself, and that the store does not know:
//! `SET`, `SHOW`, `RESET`, `DISCARD`, `DEALLOCATE` and their like.

use pg_wire::report::Report;

use crate::errors::{SYNTAX_ERROR, error, unsupported};
use crate::settings::SettingSpan;

/// A statement about the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCommand {
    /// `SET`: a setting, and its value; none is the default.
    Set(String, Option<String>),
    /// `SET LOCAL`: a setting, and its value until the end of the transaction; none is the default.
    SetLocal(String, Option<String>),
    /// `SET ROLE` or `SET SESSION AUTHORIZATION`.
    SetRole(SettingSpan, SessionRole),
    /// `SHOW` of a setting.
    Show(String),
    /// `RESET` of one setting: what it does, as a `SET`.
    Reset(Box<SessionCommand>),
    /// `RESET ALL`.
    ResetAll,
    /// `DISCARD`. Contains its tag.
    Discard(&'static str),
    /// `DEALLOCATE`: the prepared statement; none is all.
    Deallocate(Option<String>),
    /// A statement about objects of which there are none. Contains its tag.
    Nothing(&'static str),
}

/// A role that a session takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRole {
    /// `SET ROLE`; none is the role of the session's user.
    Current(Option<String>),
    /// `SET SESSION AUTHORIZATION`; none is the user that has logged in.
    Session(Option<String>),
}

/// Statements of PostgreSQL that are refused by their first word, with the remedy.
const REFUSED: &[(&str, &str)] = &[
    ("listen", "Read the rows that have changed."),
    ("notify", "Read the rows that have changed."),
    (
        "lock",
        "A COMMIT fails if rows that were read have changed.",
    ),
    ("vacuum", "The store removes old versions by itself."),
    ("analyze", "EXPLAIN fetches new estimates."),
    ("reindex", "Drop the index and create it again."),
    ("do", "Run the statements one by one."),
    ("call", "Run the statements one by one."),
];

impl SessionCommand {
    /// Returns the command of a statement's words; none if the store runs the statement.
    ///
    /// # Errors
    /// The statement is invalid, or is not supported.
    pub fn read(words: &[String]) -> Result<Option<SessionCommand>, Report> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(Some(match words[..] {
            ["set", ref rest @ ..] => return set(rest),
            ["show", "transaction", "isolation", "level"] => {
                SessionCommand::Show("transaction_isolation".into())
            }
            ["show", "time", "zone"] => SessionCommand::Show("timezone".into()),
            [
                "show",
                "tables" | "servers" | "scan" | "scan_rows" | "stale_reads",
            ]
            | ["show", "table" | "index", ..] => return Ok(None),
            ["show", "all"] => {
                return Err(unsupported("SHOW ALL", "Show one setting by its name."));
            }
            ["show", ref name @ ..] if !name.is_empty() => SessionCommand::Show(name.concat()),
            ["reset", "all"] => SessionCommand::ResetAll,
            ["reset", "role"] => SessionCommand::Reset(Box::new(SessionCommand::SetRole(
                SettingSpan::Session,
                SessionRole::Current(None),
            ))),
            ["reset", "session", "authorization"] | ["reset", "session_authorization"] => {
                SessionCommand::Reset(Box::new(SessionCommand::SetRole(
                    SettingSpan::Session,
                    SessionRole::Session(None),
                )))
            }
            ["reset", "time", "zone"] => {
                let set = SessionCommand::Set("timezone".into(), None);
                SessionCommand::Reset(Box::new(set))
            }
            ["reset", name @ ("scan" | "scan_rows" | "stale_reads")] => {
                let hint = format!("Write SET {name} = DEFAULT.");
                return Err(unsupported(format!("RESET {name}"), &hint));
            }
            ["reset", ref name @ ..] if !name.is_empty() => {
                SessionCommand::Reset(Box::new(SessionCommand::Set(name.concat(), None)))
            }
            ["discard", "all"] => SessionCommand::Discard("DISCARD ALL"),
            ["discard", "plans"] => SessionCommand::Discard("DISCARD PLANS"),
            ["discard", "sequences"] => SessionCommand::Discard("DISCARD SEQUENCES"),
            ["discard", "temp" | "temporary"] => SessionCommand::Discard("DISCARD TEMP"),
            ["deallocate", "all"] | ["deallocate", "prepare", "all"] => {
                SessionCommand::Deallocate(None)
            }
            ["deallocate", name] | ["deallocate", "prepare", name] => {
                SessionCommand::Deallocate(Some(name.into()))
            }
            ["unlisten", ..] => SessionCommand::Nothing("UNLISTEN"),
            [first, ..] => match REFUSED.iter().find(|(known, _)| *known == first) {
                Some((_, hint)) => return Err(unsupported(first.to_ascii_uppercase(), hint)),
                None => return Ok(None),
            },
            [] => return Ok(None),
        }))
    }
}

/// Returns the command of `SET SESSION CHARACTERISTICS AS TRANSACTION`, from its modes. Every
/// isolation level is serializable, which is stricter than the others.
fn characteristics(mut modes: &[&str]) -> Result<SessionCommand, Report> {
    let mut read_only = None;
    loop {
        modes = match modes {
            [] => break,
            [",", rest @ ..]
            | ["isolation", "level", "serializable", rest @ ..]
            | ["isolation", "level", "repeatable", "read", rest @ ..]
            | [
                "isolation",
                "level",
                "read",
                "committed" | "uncommitted",
                rest @ ..,
            ]
            | ["not", "deferrable", rest @ ..] => rest,
            ["read", mode @ ("only" | "write"), rest @ ..] => {
                read_only = Some(if *mode == "only" { "on" } else { "off" });
                rest
            }
            _ => {
                return Err(unsupported(
                    format!(
                        "the mode {} of all transactions",
                        modes.join(" ").to_uppercase()
                    ),
                    "Write ISOLATION LEVEL with a level, READ ONLY or READ WRITE.",
                ));
            }
        };
    }
    Ok(match read_only {
        Some(value) => {
            let name = "default_transaction_read_only".to_owned();
            SessionCommand::Set(name, Some(value.to_owned()))
        }
        None => SessionCommand::Nothing("SET"),
    })
}

/// Returns the command of a `SET`, from the words after it.
fn set(words: &[&str]) -> Result<Option<SessionCommand>, Report> {
    let (is_local, words) = match words {
        ["local", rest @ ..] => (true, rest),
        ["session", rest @ ..] if rest.first() != Some(&"characteristics") => (false, rest),
        rest => (false, rest),
    };
    let words = match words {
        ["transaction", ..] | ["constraints", ..] => return Ok(None),
        ["role", rest @ ..]
        | ["session", "authorization", rest @ ..]
        | ["authorization" | "session_authorization", rest @ ..] => {
            return role(words[0], rest, is_local).map(Some);
        }
        [
            "session",
            "characteristics",
            "as",
            "transaction",
            modes @ ..,
        ] => {
            return characteristics(modes).map(Some);
        }
        rest => rest,
    };
    let (name, value) = match words {
        ["time", "zone", value @ ..] => ("timezone".to_owned(), value),
        ["names", value @ ..] => ("client_encoding".to_owned(), value),
        _ => {
            let end = words.iter().position(|word| matches!(*word, "=" | "to"));
            let Some(end) = end.filter(|end| *end > 0) else {
                return Err(error(
                    SYNTAX_ERROR,
                    "syntax error: expected SET name = value",
                ));
            };
            (words[..end].concat(), &words[end + 1..])
        }
    };
    if matches!(&*name, "scan" | "scan_rows" | "stale_reads") {
        return match is_local {
            true => {
                let hint = "It holds for the session: write SET.";
                Err(unsupported(format!("SET LOCAL {name}"), hint))
            }
            false => Ok(None),
        };
    }
    let value = match value {
        [] => return Err(error(SYNTAX_ERROR, "syntax error: SET has no value")),
        ["default"] | ["local"] => None,
        ["-", number] => Some(format!("-{number}")),
        value => Some(value.join(" ").replace(" ,", ",")),
    };
    Ok(Some(match is_local {
        true => SessionCommand::SetLocal(name, value),
        false => SessionCommand::Set(name, value),
    }))
}

/// Returns the command of a `SET` of a role, from its first word and those after it.
fn role(first: &str, words: &[&str], is_local: bool) -> Result<SessionCommand, Report> {
    let name = match words {
        ["=" | "to", name] | [name] => *name,
        _ => {
            return Err(error(
                SYNTAX_ERROR,
                "syntax error: expected the name of a role",
            ));
        }
    };
    let span = match is_local {
        true => SettingSpan::Transaction,
        false => SettingSpan::Session,
    };
    let named = |default: &[&str]| Some(name.to_owned()).filter(|_| !default.contains(&name));
    let role = match first {
        "role" => SessionRole::Current(named(&["none", "default"])),
        _ => SessionRole::Session(named(&["default"])),
    };
    Ok(SessionCommand::SetRole(span, role))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<SessionCommand>, String> {
        let pieces = sql::split(text).unwrap();
        SessionCommand::read(&pieces[0].words()).map_err(|report| report.code)
    }

    // tidy: long — a table of statements and their meanings
    #[test]
    fn forms_of_commands() {
        let set = |name: &str, value: Option<&str>| {
            SessionCommand::Set(name.into(), value.map(str::to_owned))
        };
        let reset = |command| SessionCommand::Reset(Box::new(command));
        let set_role = |span, role: Option<&str>| {
            SessionCommand::SetRole(span, SessionRole::Current(role.map(str::to_owned)))
        };
        for (text, expected) in [
            (
                "SET application_name = 'My App'",
                set("application_name", Some("My App")),
            ),
            (
                "set session DateStyle to ISO, MDY",
                set("datestyle", Some("iso, mdy")),
            ),
            (
                "SET extra_float_digits = -1",
                set("extra_float_digits", Some("-1")),
            ),
            ("SET a.b = 1", set("a.b", Some("1"))),
            ("SET search_path TO DEFAULT", set("search_path", None)),
            ("SET TIME ZONE 'UTC'", set("timezone", Some("UTC"))),
            ("SET TIME ZONE LOCAL", set("timezone", None)),
            ("SET SESSION TIME ZONE -7", set("timezone", Some("-7"))),
            (
                "SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE",
                set("timezone", Some("interval +02:00 hour to minute")),
            ),
            (
                "SET LOCAL work_mem = '1MB'",
                SessionCommand::SetLocal("work_mem".into(), Some("1MB".into())),
            ),
            ("SET NAMES 'utf8'", set("client_encoding", Some("utf8"))),
            ("RESET work_mem", reset(set("work_mem", None))),
            ("RESET ALL", SessionCommand::ResetAll),
            (
                "SHOW server_version",
                SessionCommand::Show("server_version".into()),
            ),
            (
                "SHOW TRANSACTION ISOLATION LEVEL",
                SessionCommand::Show("transaction_isolation".into()),
            ),
            ("DISCARD ALL", SessionCommand::Discard("DISCARD ALL")),
            ("SET ROLE Ann", set_role(SettingSpan::Session, Some("ann"))),
            (
                "SET LOCAL ROLE ann",
                set_role(SettingSpan::Transaction, Some("ann")),
            ),
            (
                "SET role TO 'ann'",
                set_role(SettingSpan::Session, Some("ann")),
            ),
            ("SET ROLE NONE", set_role(SettingSpan::Session, None)),
            ("RESET ROLE", reset(set_role(SettingSpan::Session, None))),
            (
                "SET SESSION AUTHORIZATION DEFAULT",
                SessionCommand::SetRole(SettingSpan::Session, SessionRole::Session(None)),
            ),
            ("DEALLOCATE ALL", SessionCommand::Deallocate(None)),
            (
                "DEALLOCATE \"a B\"",
                SessionCommand::Deallocate(Some("a B".into())),
            ),
            ("UNLISTEN *", SessionCommand::Nothing("UNLISTEN")),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
                SessionCommand::Nothing("SET"),
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
                set("default_transaction_read_only", Some("on")),
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
                set("default_transaction_read_only", Some("off")),
            ),
        ] {
            assert_eq!(read(text), Ok(Some(expected)), "{text}");
        }
    }

    #[test]
    fn statements_of_the_store() {
        for text in [
            "SELECT 1",
            "SET scan = on",
            "SHOW TABLES",
            "SHOW TABLE t",
            "SET TRANSACTION READ ONLY",
            "BEGIN",
        ] {
            assert_eq!(read(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn refusals_have_codes() {
        for (text, code) in [
            ("LISTEN a", "0A000"),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION DEFERRABLE",
                "0A000",
            ),
            ("NOTIFY a", "0A000"),
            ("VACUUM", "0A000"),
            ("SET LOCAL scan = on", "0A000"),
            ("SET ROLE ann bob", "42601"),
            ("SET work_mem", "42601"),
            ("SET work_mem =", "42601"),
        ] {
            assert_eq!(read(text), Err(code.into()), "{text}");
        }
    }
}
