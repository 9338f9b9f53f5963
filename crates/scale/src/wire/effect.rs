//! What a statement may leave behind in the session that runs it, by its words alone.
//!
//! It errs to one side: a text is [`Effect::Nothing`] only if it begins like a statement that
//! leaves nothing, and no word of it, even in a literal or a comment, belongs to what leaves
//! something. Functions that users have written are not looked into.

use super::cut::Message;
use super::message;
use crate::sql::name_length;

/// What a text leaves behind in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing once its transaction has ended: the next one may run on another connection.
    Nothing,
    /// It reads what the session's last use of a sequence left: right only where that use was.
    ReadsSequenceState,
    /// Settings, temporary tables, locks, cursors, listening, or who knows what: its session keeps
    /// the connection.
    KeepsSession,
}

/// Statements that leave nothing behind, whatever follows, but for the words below. The usual ones come first.
const LEAVES_NOTHING: &[&str] = &[
    "select",
    "insert",
    "update",
    "delete",
    "abort",
    "alter",
    "analyze",
    "begin",
    "checkpoint",
    "close",
    "cluster",
    "comment",
    "commit",
    "copy",
    "create",
    "declare",
    "drop",
    "end",
    "explain",
    "fetch",
    "grant",
    "lock",
    "merge",
    "move",
    "notify",
    "reassign",
    "refresh",
    "reindex",
    "release",
    "reset",
    "revoke",
    "rollback",
    "savepoint",
    "security",
    "show",
    "start",
    "table",
    "truncate",
    "unlisten",
    "vacuum",
    "values",
    "with",
];

/// Words that make a session keep its connection, wherever they stand.
const KEEPS: &[&str] = &[
    "current_schema",
    "discard",
    "dblink",
    "deallocate",
    "execute",
    "hold",
    "listen",
    "load",
    "lo_open",
    "lo_create",
    "pg_temp",
    "prepare",
    "prepared",
    "set_config",
    "setseed",
    "temp",
    "temporary",
];

/// How further such words begin: functions of advisory locks that outlive transactions, and the
/// schemas of temporary tables.
const KEEPS_BEGINNINGS: &[&str] = &[
    "pg_advisory_lock",
    "pg_advisory_unlock",
    "pg_temp_",
    "pg_try_advisory_lock",
];

/// Words that read what the last use of a sequence left.
const READS_SEQUENCE_STATE: &[&str] = &["currval", "lastval"];

/// Whether one of the words above may begin like this, by [`beginning`]; few other words do.
const IS_WATCHED: [bool; BEGINNINGS] = {
    let mut is = [false; BEGINNINGS];
    let lists = [KEEPS, KEEPS_BEGINNINGS, READS_SEQUENCE_STATE];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        if at == lists[list].len() {
            (list, at) = (list + 1, 0);
            continue;
        }
        is[beginning(lists[list][at].as_bytes())] = true;
        at += 1;
    }
    is
};
const BEGINNINGS: usize = 1 << 10;

/// A number for the first three letters of a word, in whatever case.
const fn beginning(word: &[u8]) -> usize {
    let (mut number, mut at) = (0, 0);
    while at < 3 && at < word.len() {
        number = number * 37 + word[at].to_ascii_lowercase() as usize;
        at += 1;
    }
    number % BEGINNINGS
}

/// Drivers' pools call it, with CLOSE ALL, UNLISTEN * and RESET ALL, whatever was done before: a session
/// that shares connections has nothing of the kind.
const UNLOCKS_ALL: &str = "pg_advisory_unlock_all";

/// What may stand behind SET to make it end with the transaction.
const SET_FOR_TRANSACTION: &[&str] = &["constraints", "local", "transaction"];

/// The effect of a simple query's message.
pub fn of_query(message: Message<'_>) -> Effect {
    match message::split_string(message.body()) {
        Ok((text, _)) if message.is_whole() => of(text),
        _ => Effect::KeepsSession,
    }
}

/// The effect of a simple query's or a prepared statement's text, which may hold several
/// statements.
pub fn of(text: &[u8]) -> Effect {
    let text = without_leading_comments(text);
    // An identifier in Unicode escapes could spell any word.
    if text.contains(&b'&') && text.windows(2).any(|pair| pair == b"&\"") {
        return Effect::KeepsSession;
    }
    let mut place = Place::Start;
    let mut effect = Effect::Nothing;
    for word in words(text) {
        let name = match word {
            Word::End => {
                place = Place::Start;
                continue;
            }
            Word::Sign(b'(') => continue,
            // Past the first statement a comment cannot be told from the inside of a literal.
            Word::Sign(_) if place == Place::Start => return Effect::KeepsSession,
            Word::Sign(_) => continue,
            Word::Name(name) => name,
        };
        let first = name[0].to_ascii_lowercase();
        let is = |known: &&str| {
            known.as_bytes()[0] == first && name.eq_ignore_ascii_case(known.as_bytes())
        };
        place = match place {
            Place::Start if is(&"set") => Place::AfterSet,
            Place::Start if LEAVES_NOTHING.iter().any(is) => Place::Within,
            Place::AfterSet if SET_FOR_TRANSACTION.iter().any(is) => Place::Within,
            Place::Within => Place::Within,
            Place::Start | Place::AfterSet => return Effect::KeepsSession,
        };
        if !IS_WATCHED[beginning(name)] {
            continue;
        }
        let begins = |known: &&str| {
            let start = name.get(..known.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(known.as_bytes()))
        };
        let keeps = KEEPS.iter().any(is) || KEEPS_BEGINNINGS.iter().any(begins);
        if keeps && !is(&UNLOCKS_ALL) {
            return Effect::KeepsSession;
        }
        if READS_SEQUENCE_STATE.iter().any(is) {
            effect = Effect::ReadsSequenceState;
        }
    }
    effect
}

/// Where in a statement the next word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    AfterSet,
    Within,
}

/// The text from its first word on. Comments nest, as in PostgreSQL.
fn without_leading_comments(text: &[u8]) -> &[u8] {
    let mut rest = text.trim_ascii_start();
    loop {
        if rest.starts_with(b"--") {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            rest = rest[end.unwrap_or(rest.len())..].trim_ascii_start();
        } else if rest.starts_with(b"/*") {
            let mut depth = 0_usize;
            while !rest.is_empty() {
                let step = match rest.get(..2) {
                    Some(b"/*") => {
                        depth += 1;
                        2
                    }
                    Some(b"*/") => {
                        depth -= 1;
                        2
                    }
                    _ => 1,
                };
                rest = &rest[step..];
                if depth == 0 {
                    break;
                }
            }
            rest = rest.trim_ascii_start();
        } else {
            return rest;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word<'a> {
    /// Letters, digits and underscores.
    Name(&'a [u8]),
    /// A semicolon.
    End,
    /// Any other sign that is no white space.
    Sign(u8),
}

/// The words of a text, without regard to literals and comments: what stands in those is a word,
/// too. So nothing can be hidden behind a quote that is read otherwise by the server.
fn words(text: &[u8]) -> impl Iterator<Item = Word<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        rest = &rest[start..];
        let length = name_length(rest);
        let (word, after) = rest.split_at(length.max(1));
        rest = after;
        Some(match word {
            b";" => Word::End,
            _ if length == 0 => Word::Sign(word[0]),
            _ => Word::Name(word),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_leave_nothing() {
        for text in [
            "",
            "SELECT * FROM t WHERE a = 'x'",
            "  insert into t values (1); UPDATE t SET a = 2",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "(select 1) union (select 2)",
            "SELECT pg_advisory_xact_lock(1)",
            "COPY t FROM STDIN",
            "/* a /* nested */ note */ -- and\n SELECT 1",
            "SET LOCAL a.b = 1",
            "set transaction read only",
            "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;",
        ] {
            assert_eq!(of(text.as_bytes()), Effect::Nothing, "{text}");
        }
    }

    #[test]
    fn statements_that_keep_their_session() {
        for text in [
            "SET search_path = x",
            "select 1; set a.b = 1",
            "LISTEN x",
            "CREATE TEMP TABLE t (a int)",
            "CREATE TABLE pg_temp.t (a int)",
            "SELECT Set_Config('a.b', '1', false)",
            "select pg_advisory_lock(1)",
            "SELECT pg_try_advisory_lock_shared(1)",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "DO $$ BEGIN END $$",
            "CALL p()",
            "/* SELECT */ SET a.b = 1",
            "-- note\nSET a.b = 1; RESET ALL",
            "SELECT pg_advisory_unlock(1)",
            "SELECT 1 INTO TEMP t",
            "SELECT '; -- ', 1; SET a.b = 1",
            "SELECT 1; /* SELECT */ SET a.b = 1",
            "SELECT U&\"set\\005fconfig\"('a.b', '1', false)",
            "PREPARE x AS SELECT 1",
            "SELECT \"set_config\"('a.b', '1', false)",
        ] {
            assert_eq!(of(text.as_bytes()), Effect::KeepsSession, "{text}");
        }
    }

    #[test]
    fn state_of_sequences() {
        assert_eq!(of(b"SELECT lastval()"), Effect::ReadsSequenceState);
        assert_eq!(of(b"select currval('s')"), Effect::ReadsSequenceState);
        assert_eq!(of(b"select nextval('s')"), Effect::Nothing);
    }
}
