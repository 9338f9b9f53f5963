//! Parses the statements that begin, divide and end transactions, word by word.

use crate::error::SqlError;
use crate::statement::{TransactionMode, TransactionStatement};

/// Parses `BEGIN`, `START TRANSACTION`, `COMMIT`, `ROLLBACK`, `SAVEPOINT` and their like.
pub(super) fn parse(words: &[String]) -> Result<TransactionStatement, SqlError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let wanted = || {
        SqlError::unsupported(
            words.join(" "),
            "write BEGIN [READ ONLY], COMMIT, ROLLBACK, SAVEPOINT name, RELEASE SAVEPOINT name or \
             ROLLBACK TO SAVEPOINT name",
        )
    };
    let (first, rest) = words.split_first().ok_or_else(wanted)?;
    // Words that mean nothing.
    let rest = match rest {
        ["work" | "transaction", rest @ ..] if *first != "savepoint" && *first != "release" => rest,
        rest => rest,
    };
    Ok(match (*first, rest) {
        ("begin", modes) => TransactionStatement::Begin(mode(modes, &words)?),
        ("start", modes) if words.get(1) == Some(&"transaction") => {
            TransactionStatement::Begin(mode(modes, &words)?)
        }
        ("commit" | "end", [] | ["and", "no", "chain"]) => TransactionStatement::Commit,
        ("rollback" | "abort", [] | ["and", "no", "chain"]) => TransactionStatement::Rollback,
        ("rollback", ["to", name] | ["to", "savepoint", name]) => {
            TransactionStatement::RollbackTo((*name).to_owned())
        }
        ("savepoint", [name]) => TransactionStatement::Savepoint((*name).to_owned()),
        ("release", [name] | ["savepoint", name]) => {
            TransactionStatement::Release((*name).to_owned())
        }
        _ => return Err(wanted()),
    })
}

/// Parses `SET TRANSACTION …`.
pub(super) fn set(words: &[String]) -> Result<TransactionStatement, SqlError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(TransactionStatement::Set(mode(&words[2..], &words)?))
}

/// Parses the modes of a transaction. Returns none if they do not say whether it can write. Every
/// isolation level is serializable, which is stricter than the others.
fn mode(mut modes: &[&str], words: &[&str]) -> Result<Option<TransactionMode>, SqlError> {
    let mut mode = None;
    loop {
        modes = match modes {
            [] => return Ok(mode),
            [",", rest @ ..] => rest,
            ["isolation", "level", "serializable", rest @ ..]
            | ["isolation", "level", "repeatable", "read", rest @ ..]
            | [
                "isolation",
                "level",
                "read",
                "committed" | "uncommitted",
                rest @ ..,
            ]
            | ["deferrable", rest @ ..]
            | ["not", "deferrable", rest @ ..] => rest,
            ["read", "only", rest @ ..] => {
                mode = Some(TransactionMode::ReadOnly);
                rest
            }
            ["read", "write", rest @ ..] => {
                mode = Some(TransactionMode::ReadWrite);
                rest
            }
            _ => {
                return Err(SqlError::unsupported(
                    words.join(" "),
                    "the modes of a transaction are ISOLATION LEVEL with a level, READ ONLY, READ \
                     WRITE and DEFERRABLE",
                ));
            }
        };
    }
}
