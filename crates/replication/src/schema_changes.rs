//! Records the schema changes of all sessions. Event triggers record each on the primary, and
//! replicas execute it at the same place among the rows of its transaction.
//!
//! The triggers write each into a table of our own, which only superusers may write, and delete it
//! again: the slot's stream has it all the same, and no other user can have put it there. A trigger
//! knows the text that the client sent, which may be several statements. Each of them that an event
//! trigger can see is noted, also statements that did nothing or concern temporary tables, so that
//! the notes are matched with the statements in order. Statements in functions are found by
//! PL/pgSQL's own call stack. A statement that is ambiguous or cannot be run again is *lost*: no
//! replica can execute it.

use std::collections::VecDeque;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::ReplicationError;
use super::checks;
use super::pgoutput::{Tuple, TupleValue};
use super::query::setup_error;
use pg_analysis::temporary::{self, TemporaryNames, TemporaryTableUse};
use pg_analysis::{
    Analyser, StatementAction, TEMPORARY_TABLE, TransactionCommand, fires_triggers, search_path,
};
use pg_wire::quoting::literal;
use proxy_core::freshness::mark::AnnouncedStatement;

/// The table to which the triggers write, in the proxy's schema.
pub const TABLE: &str = "schema_change";

/// The statements that create a stand-in for the triggers' function, before a copy of the primary's
/// schema is restored. [`FORGET`] removes it again, with the copied triggers.
pub const STAND_IN: &str = "
CREATE SCHEMA IF NOT EXISTS hihooi;
CREATE OR REPLACE FUNCTION hihooi.note_schema_change() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'";
/// See [`STAND_IN`].
pub const FORGET: &str = "DROP FUNCTION IF EXISTS hihooi.note_schema_change() CASCADE";

/// The checks of the triggers; `{may_fail}` stands for [`checks::MAY_FAIL`].
const CHECKS: &str = include_str!("schema_checks.sql");
/// The table, the triggers and their functions.
const TRIGGERS: &str = include_str!("schema_changes.sql");

/// Creates the triggers on the primary. Returns false if the role may not create them.
pub async fn prepare(primary: &Client) -> Result<bool, ReplicationError> {
    let checks = CHECKS.replace("{may_fail}", checks::MAY_FAIL);
    let make = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtext('hihooi')); {checks}; {TRIGGERS}; COMMIT"
    );
    let Err(error) = primary.simple_query(&make).await else {
        return Ok(true);
    };
    primary.batch_execute("ROLLBACK").await?;
    match error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        true => Ok(false),
        false => Err(setup_error(error)),
    }
}

/// Returns a statement that executes `otherwise`, in PL/pgSQL, if the triggers will not record the
/// session's next statements.
///
/// Before that it refuses `text`, the statement that follows, if that makes something for good of
/// temporary tables. With `unless_rows`, the triggers refuse the statements that follow if one of
/// their tables has rows, for this reason.
pub fn unless_noted(otherwise: &str, text: &str, unless_rows: Option<&str>) -> String {
    let refusing = refusing_temporary(&temporary::named(text));
    let checked = literal(unless_rows.unwrap_or("on"));
    format!(
        "DO $replex_noted$BEGIN {refusing}PERFORM pg_catalog.set_config('hihooi.checked', {checked}, true); IF pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica' \
         OR pg_catalog.current_setting('event_triggers', true) OPERATOR(pg_catalog.=) 'off' \
         OR (SELECT pg_catalog.count(*) FROM pg_catalog.pg_event_trigger WHERE evtenabled IN ('O', 'A') \
             AND evtname IN ('hihooi_before', 'hihooi_after', 'hihooi_drop', 'hihooi_rewrite')) OPERATOR(pg_catalog.<>) 4 \
         THEN {otherwise}; END IF; END$replex_noted$"
    )
}

/// Returns PL/pgSQL that fails if these tables are the session's own, or some of them where all may
/// be.
fn refusing_temporary(named: &TemporaryNames) -> String {
    if named.names.is_empty() && named.temporary_count == 0 {
        return String::new();
    }
    // As the client's bytes, independent of its settings for quotes.
    let hex = |name: &String| name.bytes().map(|byte| format!("{byte:02x}")).collect();
    let names: Vec<String> = named.names.iter().map(hex).collect();
    let (names, sure, most) = (
        names.join(","),
        named.temporary_count,
        match named.may_be_all {
            true => named.count.saturating_sub(1),
            false => named.count,
        },
    );
    format!(
        "IF (SELECT pg_catalog.count(*) OPERATOR(pg_catalog.+) {sure} FROM pg_catalog.pg_class AS c \
             WHERE c.relpersistence OPERATOR(pg_catalog.=) 't' AND pg_catalog.pg_table_is_visible(c.oid) \
               AND c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
               AND pg_catalog.encode(pg_catalog.namesend(c.relname), 'hex') OPERATOR(pg_catalog.=) \
                   ANY ('{{{names}}}'::pg_catalog.text[])) BETWEEN 1 AND {most} \
         THEN RAISE EXCEPTION USING ERRCODE = '0A000', \
           MESSAGE = 'this cannot be done with a temporary table, which replicas do not have', \
           HINT = 'Name temporary tables in a statement of their own; instead of CREATE TABLE ... AS or LIKE, write \
                   CREATE TABLE with its columns, then INSERT ... SELECT.'; END IF; "
    )
}

/// A record of a trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaNote {
    /// The time at which the client's text began to run. It identifies the text within a session.
    pub at: String,
    /// The trigger's event; `index` is the definition of an index that the next statement needs.
    pub event: String,
    /// The command tag.
    pub tag: String,
    /// Whether the statement changes objects that replicas have. For a DROP, the previous record
    /// shows that.
    pub matters: bool,
    /// Settings that change the meaning of texts, one per line.
    pub settings: String,
    /// The `search_path`.
    pub path: String,
    /// The role.
    pub role: String,
    /// The text that the client sent.
    pub query: String,
    /// The PL/pgSQL stack, innermost first. The first line is that of the trigger itself.
    pub context: String,
    /// The temporary tables, views and sequences of the session, one per line.
    pub temporary: String,
}

impl SchemaNote {
    /// Reads a row of the table, whose columns have these names.
    pub fn of<'c>(columns: impl Iterator<Item = &'c str>, row: &Tuple) -> Option<SchemaNote> {
        let mut note = SchemaNote::default();
        for (column, value) in columns.zip(row) {
            let TupleValue::Text(text) = value else {
                return None;
            };
            let text = str::from_utf8(text).ok()?;
            let field = match column {
                "at" => &mut note.at,
                "event" => &mut note.event,
                "tag" => &mut note.tag,
                "settings" => &mut note.settings,
                "path" => &mut note.path,
                "role" => &mut note.role,
                "query" => &mut note.query,
                "context" => &mut note.context,
                "temporary" => &mut note.temporary,
                "matters" => {
                    note.matters = text == "t";
                    continue;
                }
                _ => continue,
            };
            text.clone_into(field);
        }
        (!note.query.is_empty()).then_some(note)
    }

    /// Returns the text that has the statement, if the client did not send it; `None` if it is not
    /// known.
    fn inner(&self) -> Option<Option<&str>> {
        let Some((_, callers)) = self.context.split_once('\n') else {
            return Some(None);
        };
        let rest = callers.strip_prefix("SQL statement \"")?;
        let end = rest.find("\"\nPL/pgSQL function ")?;
        Some(Some(&rest[..end]))
    }

    /// Returns the statement that creates an index which the next statement needs. The triggers
    /// wrote it.
    fn needed_index(&self) -> ReplayableChange {
        ReplayableChange::Statement(self.statement(self.query.clone()), Vec::new())
    }

    /// Returns a statement that runs with the note's path and role.
    fn statement(&self, text: String) -> AnnouncedStatement {
        AnnouncedStatement {
            search_path: self.path.clone(),
            role: self.role.clone(),
            text,
        }
    }

    fn lost(&self, why: &str) -> ReplayableChange {
        ReplayableChange::Lost(format!("{} cannot be run again here: {why}", self.tag))
    }
}

/// A schema change for replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayableChange {
    /// A statement to run, with these settings.
    Statement(AnnouncedStatement, Vec<(String, String)>),
    /// Replicas cannot repeat the change, for this reason.
    Lost(String),
}

/// The schema changes of one transaction, in their order.
#[derive(Debug, Default)]
pub struct SchemaChanges {
    /// Statements that the proxy wrote into the log itself, before the client's text ran.
    announced: Vec<String>,
    /// The announced statements that no trigger sees, and that replicas have not been given. The
    /// proxy writes them in front of the text, so their place among its other statements is known
    /// only when a trigger has noted the text.
    held: Vec<AnnouncedStatement>,
    /// The last text from the client with a statement that was noted.
    sent: Option<NotedText>,
    /// The text that a function ran last.
    inner: Option<NotedText>,
    /// Whether the DROP that is to be noted next has dropped objects that replicas have.
    drops: bool,
}

/// A text, and how far its statements were noted.
#[derive(Debug)]
struct NotedText {
    /// When the client's text began to run.
    at: String,
    text: String,
    /// The last note of it.
    note: SchemaNote,
    /// The statements that change the schema and were not noted yet, in order. `None` is a
    /// statement that is not for replicas: it makes something temporary, or they have it already.
    rest: VecDeque<Option<String>>,
    /// The statements of `rest` that the proxy has announced. They run as announced.
    announced: Vec<AnnouncedStatement>,
    /// Why it cannot be run again.
    problem: Option<&'static str>,
    /// Whether the text runs scripts. Their statements are noted as if they were its own.
    has_script: bool,
    /// Whether the text may run statements that are not seen.
    is_unproven: bool,
}

impl NotedText {
    fn is(&self, at: &str, text: &str) -> bool {
        self.at == at && self.text == text
    }

    fn is_announced(&self, text: &str) -> bool {
        self.announced.iter().any(|it| it.text == text)
    }

    fn run(&self, text: String) -> ReplayableChange {
        if let Some(announced) = self.announced.iter().find(|it| it.text == text) {
            return ReplayableChange::Statement(announced.clone(), Vec::new());
        }
        let statement = self.note.statement(text);
        let settings = self.note.settings.lines();
        let settings = settings.filter_map(|line| line.split_once('='));
        let settings = settings.map(|(name, value)| (name.into(), value.into()));
        ReplayableChange::Statement(statement, settings.collect())
    }

    /// Returns the change of a noted statement, unless it is about temporary tables.
    fn run_noted(&self, text: String) -> Option<ReplayableChange> {
        let own: Vec<&str> = self.note.temporary.lines().collect();
        match temporary::uses(&text, &own) {
            TemporaryTableUse::Nothing => Some(self.run(text)),
            TemporaryTableUse::Only => None,
            TemporaryTableUse::Some => Some(self.note.lost("it uses a temporary table")),
        }
    }

    /// Returns the statements that replicas run for a note. The statement that was noted is the
    /// next of this tag; those before it are of kinds that no trigger sees.
    fn noted(&mut self, note: &SchemaNote, matters: bool) -> Vec<ReplayableChange> {
        self.note = note.clone();
        if let Some(why) = self.problem {
            return matters.then(|| note.lost(why)).into_iter().collect();
        }
        let is_it = |it: &Option<String>| {
            let is_it = |text: &String| !self.is_announced(text) && is_of(text, &note.tag);
            it.as_ref().is_none_or(is_it)
        };
        let Some(place) = self.rest.iter().position(is_it) else {
            return match self.is_unproven && matters {
                true => vec![note.lost("the statement that ran it is unknown")],
                false => Vec::new(),
            };
        };
        let before: Vec<String> = self.rest.drain(..place).flatten().collect();
        let mut found: Vec<ReplayableChange> =
            before.into_iter().map(|text| self.run(text)).collect();
        let noted = self.rest.pop_front().flatten().filter(|_| matters);
        found.extend(noted.and_then(|text| self.run_noted(text)));
        found
    }

    /// Returns all that is left. At its end that is of kinds that no trigger sees.
    fn take_rest(&mut self) -> Vec<ReplayableChange> {
        let rest = std::mem::take(&mut self.rest).into_iter().flatten();
        rest.map(|text| self.run(text)).collect()
    }
}

impl SchemaChanges {
    /// Handles a statement that the proxy has written into the WAL, and returns what replicas run
    /// at once. A trigger's record of the same statement then adds nothing.
    pub fn announced(&mut self, statement: AnnouncedStatement) -> Vec<ReplayableChange> {
        self.announced.push(statement.text.clone());
        let fires = fires_triggers(&statement.text);
        self.held.push(statement);
        match fires {
            true => self.take_held(),
            false => Vec::new(),
        }
    }

    /// Removes and returns the announced statements that were held back. Replicas run them before
    /// the next change of rows.
    pub fn take_held(&mut self) -> Vec<ReplayableChange> {
        let held = self.held.drain(..);
        held.map(|it| ReplayableChange::Statement(it, Vec::new()))
            .collect()
    }

    /// Handles a trigger's record.
    pub fn noted(&mut self, note: &SchemaNote, analyser: &Analyser) -> Vec<ReplayableChange> {
        if note.event == "index" {
            return vec![note.needed_index()];
        }
        let mut found = Vec::new();
        let is_same = |it: &NotedText| it.is(&note.at, &note.query);
        if !self.sent.as_ref().is_some_and(is_same) {
            found = self.end_texts();
            let announced = std::mem::take(&mut self.announced);
            let mut sent = begin(note, &note.query, announced, analyser);
            let own =
                |it: &AnnouncedStatement| sent.rest.iter().flatten().any(|own| *own == it.text);
            let (own, others) = std::mem::take(&mut self.held).into_iter().partition(own);
            self.held = others;
            found.extend(self.take_held());
            sent.announced = own;
            let sent = self.sent.insert(sent);
            if sent.has_script {
                found.extend(sent.take_rest());
            }
        }
        if note.event == "sql_drop" {
            self.drops = true;
            return found;
        }
        let matters = note.matters || std::mem::take(&mut self.drops);
        let Some(sent) = self.sent.as_mut().filter(|it| !it.has_script) else {
            return found;
        };
        let inner = match note.inner() {
            Some(Some(inner)) => inner,
            Some(None) => {
                found.extend(sent.noted(note, matters));
                return found;
            }
            None => {
                let why = "a function ran it that is not in PL/pgSQL";
                found.extend(matters.then(|| note.lost(why)));
                return found;
            }
        };
        // The same statement may run again and again.
        let is_same =
            |it: &NotedText| it.is(&note.at, inner) && (it.has_script || !it.rest.is_empty());
        if !self.inner.as_ref().is_some_and(is_same) {
            let before = self.inner.take();
            found.extend(before.into_iter().flat_map(|mut it| it.take_rest()));
            self.inner = Some(begin(note, inner, Vec::new(), analyser));
        }
        let Some(inner) = &mut self.inner else {
            return found;
        };
        match inner.has_script {
            true => found.extend(inner.take_rest()),
            false => found.extend(inner.noted(note, matters)),
        }
        found
    }

    /// Handles the end of the transaction.
    pub fn end(&mut self) -> Vec<ReplayableChange> {
        let mut rest = self.end_texts();
        rest.extend(self.take_held());
        rest
    }

    /// Returns the remaining changes of the last text, because the next one begins or the
    /// transaction ends.
    fn end_texts(&mut self) -> Vec<ReplayableChange> {
        let ended = [self.inner.take(), self.sent.take()].into_iter().flatten();
        ended.flat_map(|mut it| it.take_rest()).collect()
    }
}

/// Begins a text whose first statement is noted.
fn begin(
    note: &SchemaNote,
    text: &str,
    mut announced: Vec<String>,
    analyser: &Analyser,
) -> NotedText {
    let mut begun = NotedText {
        at: note.at.clone(),
        text: text.to_owned(),
        note: note.clone(),
        rest: VecDeque::new(),
        announced: Vec::new(),
        problem: None,
        has_script: false,
        is_unproven: false,
    };
    let analysis = analyser.analyse(text, &search_path(&note.path, &note.role));
    let last = analysis.len().saturating_sub(1);
    let mut is_cut = false;
    for (place, statement) in analysis.iter().enumerate() {
        match &statement.action {
            StatementAction::Schema(text) | StatementAction::MayFill(text, _) => {
                begun.has_script |= is_of_extension(text);
                let known = announced.iter().position(|it| it == text);
                let is_news = known.map(|place| announced.remove(place)).is_none();
                // No note will come of what no trigger sees: it runs between the others.
                let is_held = !is_news && !fires_triggers(text);
                let is_theirs = is_held || is_news && !is_of_our_schema(text);
                begun.rest.push_back(is_theirs.then(|| text.clone()));
            }
            StatementAction::Alone(text, _) | StatementAction::MayDiffer(text, _) => {
                begun.rest.push_back(Some(text.clone()))
            }
            StatementAction::Pin(TEMPORARY_TABLE) => begun.rest.push_back(None),
            StatementAction::Refused(why) => begun.problem = Some(why),
            StatementAction::Transaction(TransactionCommand::Begin) if place == 0 => {}
            StatementAction::Transaction(TransactionCommand::Commit) if place == last => {}
            StatementAction::Transaction(_) => is_cut = true,
            StatementAction::Unproven(_) | StatementAction::Pin(_) => begun.is_unproven = true,
            StatementAction::Read
            | StatementAction::Write
            | StatementAction::Primary(_)
            | StatementAction::Session => {}
        }
    }
    let is_conforming = !note.settings.contains("standard_conforming_strings=off");
    if !is_conforming && text.contains('\\') {
        begun.problem = Some("standard_conforming_strings is off");
    }
    if is_cut && begun.rest.len() > 1 {
        begun.problem = Some("its text has several transactions");
    }
    if begun.has_script && begun.is_unproven {
        begun.problem = Some("its text also runs statements that the triggers do not see");
    }
    if begun.problem.is_some() {
        begun.rest.clear();
        begun.has_script = false;
    }
    begun
}

/// Returns whether the text may be a statement of this tag.
fn is_of(text: &str, tag: &str) -> bool {
    // It is run again as the other.
    let tag = match tag {
        "SELECT INTO" => "CREATE TABLE AS",
        tag => tag,
    };
    let mut tag = tag.split(' ');
    let first = tag.next();
    let last = tag.next_back();
    let mut words = words(text);
    words.next().as_deref() == first && last.is_none_or(|last| words.any(|word| word == last))
}

/// Rights in the schema that proxies keep for themselves; of anything else there the triggers know.
fn is_of_our_schema(text: &str) -> bool {
    let mut words = words(text);
    let first = words.next();
    ["GRANT", "REVOKE"].map(Some).contains(&first.as_deref()) && words.any(|word| word == "HIHOOI")
}

/// Returns whether the text is CREATE EXTENSION or ALTER EXTENSION.
fn is_of_extension(text: &str) -> bool {
    words(text).nth(1).is_some_and(|word| word == "EXTENSION")
}

/// Returns the words of a statement, in capital letters.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| !word.is_empty()).map(str::to_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pg_analysis::Catalogue;

    /// Returns the changes that are found for notes of this text, by event and tag; `~` stands for
    /// a change without effect on replicas.
    fn found(query: &str, notes: &[&str]) -> Vec<String> {
        let mut changes = SchemaChanges::default();
        found_by(&mut changes, query, notes)
    }

    fn found_by(changes: &mut SchemaChanges, query: &str, notes: &[&str]) -> Vec<String> {
        let analyser = Analyser::new(Catalogue::default());
        let mut found = Vec::new();
        for note in notes {
            let (tag, matters) = match note.strip_prefix('~') {
                Some(tag) => (tag, false),
                None => (*note, true),
            };
            let (event, tag) = match tag.strip_prefix("drop:") {
                Some(tag) => ("sql_drop", tag),
                None => ("ddl_command_end", tag),
            };
            let (tag, inner) = tag.split_once('|').unwrap_or((tag, ""));
            let context = match inner {
                "" => "PL/pgSQL function note".to_owned(),
                inner => format!("PL/pgSQL function note\n{inner}"),
            };
            let note = SchemaNote {
                event: event.into(),
                tag: tag.into(),
                matters,
                query: query.into(),
                context,
                ..SchemaNote::default()
            };
            found.extend(changes.noted(&note, &analyser));
        }
        found.extend(changes.end());
        let text = |found| match found {
            ReplayableChange::Statement(statement, _) => statement.text,
            ReplayableChange::Lost(why) => {
                format!("lost: {}", why.rsplit(": ").next().unwrap_or_default())
            }
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn statements_of_a_text_are_matched_in_order() {
        let text = "CREATE TEMP TABLE t (a int); CREATE TABLE a (a int); CREATE ROLE r; DROP TABLE IF EXISTS b; \
                    DROP TABLE a, t; ALTER TABLE t ADD b int; SELECT 1";
        let notes = [
            "~CREATE TABLE",
            "CREATE TABLE",
            "~DROP TABLE",
            "drop:DROP TABLE",
            "~DROP TABLE",
            "~ALTER TABLE",
        ];
        let expected = ["CREATE TABLE a (a int)", "CREATE ROLE r", "DROP TABLE a, t"];
        assert_eq!(found(text, &notes), expected);
        assert_eq!(
            found("CREATE TABLE a (a int); CREATE ROLE r", &["CREATE TABLE"]),
            ["CREATE TABLE a (a int)", "CREATE ROLE r"]
        );
    }

    #[test]
    fn scripts_of_extensions_are_their_own_affair() {
        let text = "CREATE EXTENSION e; CREATE TABLE a (a int)";
        let notes = [
            "CREATE FUNCTION",
            "CREATE TABLE|SQL statement \"CREATE TABLE x ()\"\nPL/pgSQL function f",
            "CREATE EXTENSION",
            "CREATE TABLE",
        ];
        assert_eq!(
            found(text, &notes),
            ["CREATE EXTENSION e", "CREATE TABLE a (a int)"]
        );
        assert_eq!(
            found("CREATE EXTENSION e; SELECT f()", &["CREATE EXTENSION"]),
            ["lost: its text also runs statements that the triggers do not see"]
        );
    }

    #[test]
    fn functions_name_their_statements() {
        let inner = "CREATE TABLE|SQL statement \"CREATE TABLE \"a\" (a int)\"\nPL/pgSQL function f() line 1";
        let found_twice = found(
            "SELECT f(), f()",
            &[
                inner,
                "~CREATE TABLE|SQL statement \"CREATE TEMP TABLE t ()\"\nPL/pgSQL function g",
                inner,
            ],
        );
        assert_eq!(found_twice, ["CREATE TABLE \"a\" (a int)"; 2]);
        let between = found(
            "CREATE TABLE b (a int); SELECT f(); CREATE TABLE c (a int)",
            &["CREATE TABLE", inner, "CREATE TABLE"],
        );
        assert_eq!(
            between,
            [
                "CREATE TABLE b (a int)",
                "CREATE TABLE \"a\" (a int)",
                "CREATE TABLE c (a int)"
            ]
        );
        assert_eq!(
            found(
                "SELECT f()",
                &["CREATE TABLE|SQL function \"f\" statement 1"]
            ),
            ["lost: a function ran it that is not in PL/pgSQL"]
        );
        assert_eq!(
            found("SELECT f()", &["CREATE TABLE"]),
            ["lost: the statement that ran it is unknown"]
        );
    }

    /// A proxy that writes statements into the log itself, and triggers besides.
    #[test]
    fn announced_statements_are_known() {
        let mut changes = SchemaChanges::default();
        let announce = |changes: &mut SchemaChanges, text: &str| {
            let at_once = changes.announced(AnnouncedStatement {
                search_path: String::new(),
                role: String::new(),
                text: text.into(),
            });
            at_once.len()
        };
        let table = "CREATE TABLE a AS SELECT 1\nWITH NO DATA";
        assert_eq!(announce(&mut changes, table), 1);
        assert_eq!(
            found_by(
                &mut changes,
                "CREATE TABLE a AS SELECT 1",
                &["CREATE TABLE AS"]
            ),
            [""; 0]
        );
        assert_eq!(announce(&mut changes, "CREATE ROLE r"), 0);
        let prelude = unless_noted("NULL", "", None);
        let text = format!("SELECT 1; {prelude};CREATE ROLE r; CREATE TABLE b (a int)");
        assert_eq!(
            found_by(&mut changes, &text, &["CREATE TABLE"]),
            ["CREATE ROLE r", "CREATE TABLE b (a int)"]
        );
        // They run in the order of the text, although all were announced before it.
        announce(&mut changes, "DROP ROLE r");
        announce(&mut changes, "CREATE ROLE s");
        let text = "DROP TABLE b; DROP ROLE r; CREATE ROLE s; GRANT s TO t; GRANT SELECT ON c TO s";
        announce(&mut changes, "GRANT s TO t");
        assert_eq!(
            found_by(
                &mut changes,
                text,
                &["drop:DROP TABLE", "~DROP TABLE", "GRANT"]
            ),
            text.split("; ").collect::<Vec<_>>()
        );
        announce(&mut changes, "DROP ROLE s");
        assert_eq!(changes.take_held().len(), 1, "rows follow");
        announce(&mut changes, "DROP ROLE t");
        assert_eq!(changes.end().len(), 1, "the transaction ends");
        let text = "BEGIN; CREATE EXTENSION e; COMMIT";
        assert_eq!(found(text, &["CREATE EXTENSION"]), ["CREATE EXTENSION e"]);
    }
}
