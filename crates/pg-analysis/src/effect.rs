//! Determines the state that a statement may leave in the session that runs it.
//!
//! Most texts leave no state, and are recognised by their words alone. Such a text begins like a
//! statement that leaves none, and none of its words, even in a literal or a comment, occurs in
//! statements that leave state. A text with such a word is read by PostgreSQL's own grammar (module
//! `parsed`). A text that the grammar does not understand pins its session. Functions that users
//! have written are not looked into.

mod calls;
mod parsed;

use pg_raw_parse::Node;
use pg_raw_parse::raw::TransactionStmtKind;
use pg_wire::quoting::name_length;
use pg_wire::settings;
use proxy_core::grammar::{Grammar, SessionEffect};
use proxy_core::names;
use proxy_core::touched::TEMPORARY_SCHEMA;

/// Statements that leave nothing behind with any continuation, except for the words below. The
/// usual ones come first.
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

/// Words of statements that make a session keep its connection.
const KEEPS: &[&str] = &[
    "discard",
    "deallocate",
    "execute",
    "hold",
    "listen",
    "load",
    "prepare",
    "prepared",
    "temp",
    "temporary",
];

/// PostgreSQL's own functions whose callers keep their connections. They hold a lock, a setting or
/// an open resource, or run the text of another statement.
const KEEPS_FUNCTIONS: &[&str] = &[
    "cursor_to_xml",
    "cursor_to_xmlschema",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_backup_start",
    "pg_backup_stop",
    "pg_copy_logical_replication_slot",
    "pg_copy_physical_replication_slot",
    "pg_create_logical_replication_slot",
    "pg_create_physical_replication_slot",
    "pg_replication_origin_session_reset",
    "pg_replication_origin_session_setup",
    "pg_start_backup",
    "pg_stop_backup",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "query_to_xml",
    "query_to_xml_and_xmlschema",
    "query_to_xmlschema",
    "set_config",
    "set_limit",
    "setseed",
    "ts_rewrite",
    "ts_stat",
];

/// The beginnings of further such words: of functions, and of the schemas of temporary tables.
const KEEPS_BEGINNINGS: &[&str] = &["binary_upgrade_", "dblink", TEMPORARY_SCHEMA];

/// Words that read the state of a sequence's last use.
const READS_SEQUENCE_STATE: &[&str] = &["currval", "lastval"];

/// Whether one of the words above may begin like this, by [`beginning`]; few other words do.
const IS_WATCHED: [bool; BEGINNINGS] = {
    let mut is = [false; BEGINNINGS];
    let lists = [
        KEEPS,
        KEEPS_FUNCTIONS,
        KEEPS_BEGINNINGS,
        READS_SEQUENCE_STATE,
    ];
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

/// Returns a number for the first three letters of a word in either case.
const fn beginning(word: &[u8]) -> usize {
    let (mut number, mut at) = (0, 0);
    while at < 3 && at < word.len() {
        number = number * 37 + word[at].to_ascii_lowercase() as usize;
        at += 1;
    }
    number % BEGINNINGS
}

/// Words after SET that make it end with the transaction.
const SET_FOR_TRANSACTION: &[&str] = &["constraints", "local", "transaction"];

/// Words after SET SESSION CHARACTERISTICS with which it sets `default_transaction_isolation` and
/// nothing else.
const OF_ISOLATION: &[&str] = &[
    "as",
    "committed",
    "isolation",
    "level",
    "read",
    "repeatable",
    "serializable",
    "transaction",
    "uncommitted",
];

/// The functions that parse statements with PostgreSQL's own grammar.
pub const GRAMMAR: Grammar = Grammar {
    effect: of,
    rollback_to,
    statements,
};

fn statements(text: &[u8]) -> Result<usize, String> {
    // A text in another encoding is read where it runs.
    let Ok(text) = str::from_utf8(text) else {
        return Ok(1);
    };
    match pg_raw_parse::parse(text) {
        Ok(tree) => Ok(tree.iter().count()),
        Err(pg_raw_parse::error::Error::Parse(error)) => Err(error.to_string()),
        Err(_) => Ok(1),
    }
}

fn rollback_to(text: &[u8]) -> Option<String> {
    let tree = pg_raw_parse::parse(str::from_utf8(text).ok()?).ok()?;
    let first = tree.iter().next()?.stmt();
    let Node::TransactionStmt(command) = first else {
        return None;
    };
    let goes_back = command.kind == TransactionStmtKind::TRANS_STMT_ROLLBACK_TO;
    let name = command.savepoint_name().filter(|_| goes_back)?;
    Some(name.to_owned())
}

/// Returns the state that a simple query or a prepared statement may leave in its session.
pub fn of(text: &[u8]) -> SessionEffect {
    match by_words(text) {
        by_words @ (SessionEffect::KeepsSession | SessionEffect::ReadsSequenceState) => {
            parsed::of(text).unwrap_or(by_words)
        }
        by_words => by_words,
    }
}

fn by_words(text: &[u8]) -> SessionEffect {
    let text = without_leading_comments(text);
    if names::is_deallocate(text) {
        return SessionEffect::Nothing;
    }
    // An identifier in Unicode escapes could spell any word.
    if text.contains(&b'&') && text.windows(2).any(|pair| pair == b"&\"") {
        return SessionEffect::KeepsSession;
    }
    let mut place = WordPlace::Start;
    let mut effect = SessionEffect::Nothing;
    for word in words(text) {
        let name = match word {
            Word::End => {
                place = WordPlace::Start;
                continue;
            }
            Word::Sign(sign) => {
                match place.after_sign(sign) {
                    Some(after) => place = after,
                    None => return SessionEffect::KeepsSession,
                }
                continue;
            }
            Word::Name(name) => name,
        };
        let Some((after, found)) = place.after_name(name) else {
            return SessionEffect::KeepsSession;
        };
        place = after;
        effect = effect.and(found);
        if !IS_WATCHED[beginning(name)] {
            continue;
        }
        let first = name[0].to_ascii_lowercase();
        let is = |known: &&str| {
            known.as_bytes()[0] == first && name.eq_ignore_ascii_case(known.as_bytes())
        };
        let begins = |known: &&str| {
            let start = name.get(..known.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(known.as_bytes()))
        };
        let keeps = [KEEPS, KEEPS_FUNCTIONS]
            .iter()
            .any(|list| list.iter().any(is));
        if keeps || KEEPS_BEGINNINGS.iter().any(begins) {
            return match settings::is_set_config(text) {
                true => SessionEffect::SetsSettings,
                false => SessionEffect::KeepsSession,
            };
        }
        if READS_SEQUENCE_STATE.iter().any(is) {
            effect = effect.and(SessionEffect::ReadsSequenceState);
        }
    }
    effect
}

/// The position of the next word in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordPlace {
    Start,
    AfterSet,
    AfterSetSession,
    /// After a keyword that makes all effects end with the transaction.
    AfterLocal,
    /// After a setting's name.
    AfterSetting,
    /// After TIME, before ZONE.
    AfterTime,
    /// After a word that a string literal follows.
    BeforeText,
    /// After SET SESSION CHARACTERISTICS.
    OfIsolation,
    Within,
}

impl WordPlace {
    /// Returns the position after a sign; none if anything may follow the sign. After the first
    /// statement, a comment cannot be distinguished from the inside of a literal, and any name may
    /// be in quotes.
    fn after_sign(self, sign: u8) -> Option<WordPlace> {
        match (self, sign) {
            (WordPlace::Start, b'(') => Some(WordPlace::Start),
            (WordPlace::AfterLocal, b'.') => None,
            (WordPlace::AfterLocal, _)
            | (WordPlace::AfterSetting, b'=')
            | (WordPlace::BeforeText, b'\'')
            | (WordPlace::Within, _) => Some(WordPlace::Within),
            _ => None,
        }
    }

    /// Returns the position after a word, and the effect of the word; none if the effect is
    /// unknown.
    fn after_name(self, name: &[u8]) -> Option<(WordPlace, SessionEffect)> {
        if self == WordPlace::Within {
            return Some((WordPlace::Within, SessionEffect::Nothing));
        }
        let first = name[0].to_ascii_lowercase();
        let is = |known: &&str| {
            known.as_bytes()[0] == first && name.eq_ignore_ascii_case(known.as_bytes())
        };
        let place = match self {
            WordPlace::Start if LEAVES_NOTHING.iter().any(is) => WordPlace::Within,
            WordPlace::Start if is(&"set") => WordPlace::AfterSet,
            WordPlace::Start if is(&"reset") => {
                return Some((WordPlace::Within, SessionEffect::ResetsSettings));
            }
            WordPlace::AfterSet if SET_FOR_TRANSACTION.iter().any(is) => WordPlace::AfterLocal,
            WordPlace::AfterSet if is(&"session") => WordPlace::AfterSetSession,
            WordPlace::AfterSetSession if is(&"characteristics") => WordPlace::OfIsolation,
            WordPlace::AfterSet | WordPlace::AfterSetSession if is(&"time") => WordPlace::AfterTime,
            WordPlace::AfterSet | WordPlace::AfterSetSession
                if ["names", "schema"].iter().any(is) =>
            {
                WordPlace::BeforeText
            }
            WordPlace::AfterSet | WordPlace::AfterSetSession if settings::is_own(name) => {
                WordPlace::AfterSetting
            }
            WordPlace::AfterLocal | WordPlace::Within => WordPlace::Within,
            WordPlace::AfterSetting if is(&"to") => WordPlace::Within,
            WordPlace::AfterTime if is(&"zone") => WordPlace::Within,
            WordPlace::BeforeText if is(&"default") => WordPlace::Within,
            WordPlace::OfIsolation if OF_ISOLATION.iter().any(is) => WordPlace::OfIsolation,
            _ => return None,
        };
        let effect = match place {
            WordPlace::AfterSetting
            | WordPlace::AfterTime
            | WordPlace::BeforeText
            | WordPlace::OfIsolation => SessionEffect::SetsSettings,
            _ => SessionEffect::Nothing,
        };
        Some((place, effect))
    }
}

/// Returns the text from its first word on. Comments nest, as in PostgreSQL.
fn without_leading_comments(text: &[u8]) -> &[u8] {
    let mut rest = text.trim_ascii_start();
    loop {
        if rest.starts_with(b"--") {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            rest = rest[end.unwrap_or(rest.len())..].trim_ascii_start();
        } else if rest.starts_with(b"/*") {
            rest = &rest[calls::comment_length(rest)..];
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

/// Returns the words of a text, with the words in literals and comments. So no word is hidden
/// behind a quote that the server reads in another way.
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
            "SET CONSTRAINTS \"a\" DEFERRED",
            "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;",
            "SELECT current_schema(), current_schemas(true)",
            "SELECT temp, w.hold AS \"load\" FROM weather w WHERE note = 'please prepare'",
            "SELECT 1 -- listen\n; /* CREATE TEMP TABLE */ SELECT $$deallocate$$, $x$execute$x$",
            "INSERT INTO temp (load, hold) VALUES ('it''s temporary', 'pg_advisory_lock(1)')",
            "CREATE TABLE temp (temporary int, discard text DEFAULT 'prepared')",
            "ALTER TABLE t ADD COLUMN hold bool; DROP TABLE temp",
            "GRANT EXECUTE ON FUNCTION f() TO ann",
            "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT setseed(1); LISTEN x $$",
            "DECLARE c CURSOR WITHOUT HOLD FOR SELECT temp FROM t",
            "EXPLAIN SELECT temp FROM t; COPY t (hold) TO STDOUT",
            "SELECT 'lastval()', currval FROM t",
            "SELECT set_config('role', $1, true), pg_catalog.set_config('a.b', 'x', 'on') AS temp",
            "SELECT \"set_config\", setseed.pg_advisory_lock FROM setseed",
            "LOCK TABLE temp; SET LOCAL a.load = 1; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "DISCARD PLANS; DISCARD TEMP; NOTIFY listen, 'load'",
            "IMPORT FOREIGN SCHEMA s FROM SERVER f INTO temp",
            "SELECT pg_advisory_xact_lock(hold) FROM temp",
            "SELECT nextval('temp')",
        ] {
            assert_eq!(of(text.as_bytes()), SessionEffect::Nothing, "{text}");
        }
    }

    #[test]
    fn statements_that_keep_their_session() {
        for text in [
            "SET role = x",
            "SET a.b = x",
            "SET local.a = 1",
            "SET \"local\".a = 1",
            "SET timezone.a = 1",
            "SET names.a = 'x'",
            "SET \"role\" = x",
            "SET SESSION AUTHORIZATION DEFAULT",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE",
            "SET jit = on; SET a.b = 1",
            "SET jit = on; SELECT lastval()",
            "SET jit = on; /* SELECT */ SET a.b = 1",
            "SET search_path = pg_temp",
            "SET default_transaction_read_only = on",
            "SET time.a = 1",
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
            "CREATE TEMP VIEW v AS SELECT 1; CREATE TEMP SEQUENCE s",
            "CREATE TEMPORARY TABLE t AS SELECT 1",
            "CREATE TABLE t AS EXECUTE x",
            "SELECT 1 INTO pg_temp_3.t UNION SELECT 2",
            "EXPLAIN ANALYZE EXECUTE x",
            "EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1",
            "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql RETURN 1",
            "CREATE TYPE \"pg_temp\".t AS ENUM ('a')",
            "ALTER TABLE t SET SCHEMA pg_temp",
            "SELECT temp, setseed ( 0.5 ) FROM t",
            "INSERT INTO t SELECT pg_catalog.pg_advisory_lock /* x */ (1)",
            "WITH x AS (SELECT set_config('a.b', '1', true)) SELECT * FROM x",
            "SELECT set_config('a.b', '1', false), set_config('a.b', '1', true)",
            "SELECT set_config('search_path', hold, true) FROM temp",
            "SELECT set_config('a.b', '1', $1::bool)",
            "SELECT query_to_xml('SELECT setseed(1)', true, true, '')",
            "CREATE MATERIALIZED VIEW v AS SELECT pg_try_advisory_lock(1)",
            "PREPARE TRANSACTION 'x'",
            "COPY (SELECT setseed(1)) TO STDOUT",
            "SELECT dblink_connect('a', 'b')",
            "SELECT U&\"set!005fconfig\" UESCAPE '!' ('a.b', '1', false)",
            "SELECT 'temp",
            "SELECT 'a\\b', temp FROM t",
            "DISCARD ALL",
            "LOAD 'x'",
            "SET search_path = public, \"pg_temp_1\"",
            "SELECT \"set_config\"('a.b', '1', false)",
        ] {
            assert_eq!(of(text.as_bytes()), SessionEffect::KeepsSession, "{text}");
        }
    }

    #[test]
    fn settings_of_the_sessions_own() {
        for text in [
            "SET search_path = x, \"Y\"",
            "set session Work_Mem to '1MB'",
            "SET TimeZone='UTC'; SET enable_seqscan TO off;",
            "SET TIME ZONE INTERVAL '+1' HOUR TO MINUTE",
            "SET SESSION TIME ZONE LOCAL",
            "SET NAMES 'UTF8'",
            "SET SCHEMA 'a'",
            "SET jit TO DEFAULT; RESET jit",
            "SET \"search_path\" = x",
            "SET application_name = 'load'; SELECT temp FROM t",
            "SELECT set_config('a.b', $1, true), set_config('search_path', $2::text, false)",
            "BEGIN; SET LOCAL a.b = 1; SET client_min_messages = warning; COMMIT",
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SELECT set_config('DateStyle', 'ISO', false)",
            "/* a */ SET extra_float_digits = 3",
        ] {
            assert_eq!(of(text.as_bytes()), SessionEffect::SetsSettings, "{text}");
        }
        for text in [
            "RESET jit",
            "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;",
        ] {
            assert_eq!(of(text.as_bytes()), SessionEffect::ResetsSettings, "{text}");
        }
    }

    #[test]
    fn state_of_sequences() {
        assert_eq!(of(b"SELECT lastval()"), SessionEffect::ReadsSequenceState);
        assert_eq!(
            of(b"select currval('s')"),
            SessionEffect::ReadsSequenceState
        );
        assert_eq!(of(b"select nextval('s')"), SessionEffect::Nothing);
        assert_eq!(
            of(b"BEGIN; SELECT temp, currval('s') FROM t"),
            SessionEffect::ReadsSequenceState
        );
        assert_eq!(
            of(b"LISTEN x; SELECT lastval()"),
            SessionEffect::KeepsSession
        );
    }
}
