//! Rewrites the parts of a statement that mean something else to a client of the proxy than to the
//! server.
//!
//! - A client knows its process by the number in its cancel key, which no process of a server has.
//!   `pg_backend_pid()` is that number. In a statement about processes, the number of a client
//!   stands for the process that the client has at its server.
//! - The proxy's own publication is not the client's: psql's `\d` leaves it out. Queries that read
//!   system columns of the catalogue, as those of `pg_dump`, are left as they are.
//!
//! Each is found in the parse tree, and only where the text has it in its plain form. Views,
//! functions and defaults are stored as they were written. So only statements are changed that read
//! or write rows.

use std::ops::{ControlFlow, Range};

use pg_raw_parse::nodes::{A_Const, FuncCall, RangeVar};
use pg_raw_parse::walk::{Recurse, walk_manual};
use pg_raw_parse::{ConstValue, Node};

use super::facts::QualifiedName;
use super::functions::SYSTEM_COLUMNS;
use pg_wire::quoting::identifier_length;

/// A longer text is left as it is, in bytes: programs write none about processes.
const TEXT_LENGTH_MAX: usize = 64 * 1024;
/// A text without this has nothing to change.
const MARKER: &str = "pg_";
/// The function that returns the process of its session.
const OWN_PROCESS: &str = "pg_backend_pid";
/// Functions whose arguments or results are processes.
const PROCESS_FUNCTIONS: [&str; 14] = [
    "pg_blocking_pids",
    "pg_cancel_backend",
    "pg_get_replication_slots",
    "pg_isolation_test_session_is_blocked",
    "pg_lock_status",
    "pg_log_backend_memory_contexts",
    "pg_safe_snapshot_blocking_pids",
    "pg_stat_get_activity",
    "pg_stat_get_backend_pid",
    "pg_stat_get_progress_info",
    "pg_stat_get_subscription",
    "pg_stat_get_wal_receiver",
    "pg_stat_get_wal_senders",
    "pg_terminate_backend",
];
/// Views with the number of a process in each row.
const PROCESS_VIEWS: [&str; 8] = [
    "pg_locks",
    "pg_replication_slots",
    "pg_stat_activity",
    "pg_stat_gssapi",
    "pg_stat_replication",
    "pg_stat_ssl",
    "pg_stat_subscription",
    "pg_stat_wal_receiver",
];
/// The beginning of the names of further ones.
const PROGRESS_VIEWS: &str = "pg_stat_progress_";
/// Relations that list publications, and the name of the proxy's own.
const PUBLICATION_VIEWS: [&str; 2] = ["pg_publication", "pg_publication_tables"];
const OWN_PUBLICATION: &str = "hihooi";

/// The facts about a client that determine the meaning of its query strings.
pub struct ClientIdentity<'a> {
    /// The process number that the client has received with its cancel key.
    pub process: u32,
    /// A function that returns whether a logged-in client other than this one has a process number.
    pub is_client: &'a dyn Fn(u32) -> bool,
    /// Whether the proxy has its publication in the client's database.
    pub has_publication: bool,
}

/// The string that replaces a part of a query string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// This.
    Text(String),
    /// The number of the process that this client has at its server, in as many bytes.
    ProcessOf(u32),
}

/// The replacements that a query string needs before a server executes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientView {
    /// Ranges of bytes, in order, without overlaps.
    pub edits: Vec<(Range<usize>, Replacement)>,
    /// Whether a parameter of the query may be the process number of a client.
    pub has_process_parameters: bool,
}

impl ClientView {
    /// Returns the changes of a text that these bytes are.
    pub fn of(text: &[u8], identity: &ClientIdentity<'_>) -> ClientView {
        let text = match ClientView::may_be(text) {
            true => str::from_utf8(text).ok(),
            false => None,
        };
        // The meaning of a backslash depends on a setting.
        let text = text.filter(|text| names_any(text) && !text.contains('\\'));
        let Some(Ok(tree)) = text.map(pg_raw_parse::parse) else {
            return ClientView::default();
        };
        let mut view = ClientView::default();
        for raw in tree.iter() {
            view.add(text.unwrap_or_default(), raw.stmt(), identity);
        }
        view.edits.sort_by_key(|(range, _)| range.start);
        // Some forms of a query do not have a place for such a part, as `TABLE name`.
        let is_valid = |text: &str| pg_raw_parse::parse(&view.applied(text)).is_ok();
        match text.is_some_and(is_valid) {
            true => view,
            false => ClientView::default(),
        }
    }

    /// Returns a text with its changes, but for the numbers of clients.
    fn applied(&self, text: &str) -> String {
        let mut changed = String::new();
        let mut from = 0;
        for (range, by) in &self.edits {
            if let Replacement::Text(by) = by {
                changed += &text[from..range.start];
                changed += by;
                from = range.end;
            }
        }
        changed + &text[from..]
    }

    /// Returns false for bytes that surely need no change. The parse tree decides the rest.
    pub fn may_be(text: &[u8]) -> bool {
        let marker = MARKER.as_bytes();
        let mut starts = text.windows(marker.len());
        text.len() <= TEXT_LENGTH_MAX && starts.any(|it| it.eq_ignore_ascii_case(marker))
    }

    fn add(&mut self, text: &str, statement: Node<'_>, identity: &ClientIdentity<'_>) {
        let is_select = match statement {
            Node::SelectStmt(select) => {
                if select.into_clause().is_some() {
                    return;
                }
                true
            }
            Node::InsertStmt(_) | Node::UpdateStmt(_) | Node::DeleteStmt(_) => false,
            _ => return,
        };
        let found = FoundParts::of(statement);
        let edit = |part: Option<(Range<usize>, Replacement)>| self.edits.extend(part);
        if found.is_about_processes {
            self.has_process_parameters |= found.has_parameters;
            found
                .constants
                .into_iter()
                .map(|it| process_constant(text, it, identity))
                .for_each(edit);
        } else {
            let calls = found.own_process.into_iter();
            calls
                .filter(|_| !found.has_functions_as_tables)
                .map(|call| own_process(text, call, identity.process))
                .for_each(edit);
        }
        let hides = is_select && identity.has_publication && !found.has_system_columns;
        if hides && !found.writes && !found.names_with {
            found
                .publications
                .into_iter()
                .map(|range| without_own(text, range))
                .for_each(|part| self.edits.extend(part));
        }
    }
}

/// Returns whether this is the name of a PostgreSQL view or function that returns or accepts
/// process numbers.
pub fn is_of_processes(name: &str) -> bool {
    let mut names = PROCESS_FUNCTIONS.into_iter().chain(PROCESS_VIEWS);
    name.starts_with(PROGRESS_VIEWS) || names.any(|it| it == name)
}

/// Returns whether a text has a name that matters. The parse tree decides what it means.
fn names_any(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut names = [OWN_PROCESS, PROGRESS_VIEWS, PUBLICATION_VIEWS[0]]
        .into_iter()
        .chain(PROCESS_FUNCTIONS)
        .chain(PROCESS_VIEWS);
    names.any(|name| lower.contains(name))
}

/// The parts of a statement that may have to be changed.
#[derive(Default)]
struct FoundParts<'a> {
    is_about_processes: bool,
    has_parameters: bool,
    has_system_columns: bool,
    /// A function stands in the place of a table, where it gives names to columns.
    has_functions_as_tables: bool,
    writes: bool,
    /// A query of WITH has the name of a relation that is looked for.
    names_with: bool,
    constants: Vec<&'a A_Const>,
    own_process: Vec<&'a FuncCall>,
    publications: Vec<&'a RangeVar>,
}

impl<'a> FoundParts<'a> {
    fn of(statement: Node<'a>) -> FoundParts<'a> {
        let mut found = FoundParts::default();
        // A list of work instead of recursion: no text, however nested, exhausts the stack.
        let mut work = vec![statement];
        while let Some(node) = work.pop() {
            found.see(node);
            walk_manual::<()>(node, |child| {
                work.push(child);
                ControlFlow::Continue(Recurse::No)
            });
        }
        found
    }

    fn see(&mut self, node: Node<'a>) {
        match node {
            Node::A_Const(constant) => self.constants.push(constant),
            Node::ParamRef(_) => self.has_parameters = true,
            Node::ColumnRef(column) => {
                let mut names = column.fields().iter().filter_map(Node::as_str);
                self.has_system_columns |= names.any(|name| SYSTEM_COLUMNS.contains(&name));
            }
            Node::FuncCall(call) => {
                let names: Vec<&str> = call.funcname().iter().filter_map(Node::as_str).collect();
                match names[..] {
                    [OWN_PROCESS] | ["pg_catalog", OWN_PROCESS] => self.own_process.push(call),
                    [name] | ["pg_catalog", name] => {
                        self.is_about_processes |= is_of_processes(name);
                    }
                    _ => {}
                }
            }
            Node::RangeVar(range) => self.see_relation(range),
            Node::RangeFunction(_) => self.has_functions_as_tables = true,
            Node::CommonTableExpr(with) => {
                let name = with.ctename().unwrap_or_default();
                self.names_with |= PUBLICATION_VIEWS.contains(&name);
            }
            Node::InsertStmt(_) | Node::UpdateStmt(_) | Node::DeleteStmt(_) => self.writes = true,
            _ => {}
        }
    }

    fn see_relation(&mut self, range: &'a RangeVar) {
        let Some(QualifiedName { schema, name }) = QualifiedName::of(range) else {
            return;
        };
        if schema.is_some_and(|schema| schema != "pg_catalog") {
            return;
        }
        self.is_about_processes |= is_of_processes(&name);
        if PUBLICATION_VIEWS.contains(&&*name) && range.inh {
            self.publications.push(range);
        }
    }
}

/// Returns the offset in the text that a location of the syntax tree names; none if it names none.
fn place(location: i32) -> Option<usize> {
    usize::try_from(location).ok()
}

/// Returns how many bytes at the beginning of a text are a name with its schemas.
fn qualified_length(text: &str) -> Option<usize> {
    let mut rest = text;
    loop {
        rest = &rest[identifier_length(rest)?..];
        match rest.strip_prefix('.') {
            Some(part) => rest = part,
            None => return Some(text.len() - rest.len()),
        }
    }
}

/// Returns the change of a call of `pg_backend_pid()`. The name of its column stays.
fn own_process(text: &str, call: &FuncCall, process: u32) -> Option<(Range<usize>, Replacement)> {
    let start = place(call.location)?;
    let rest = text.get(start..)?;
    let behind = &rest[qualified_length(rest)?..];
    let behind = behind.trim_start().strip_prefix('(')?;
    let behind = behind.trim_start().strip_prefix(')')?;
    let range = start..text.len() - behind.len();
    let by = format!("(SELECT {process} AS {OWN_PROCESS})");
    Some((range, Replacement::Text(by)))
}

/// Returns the change of a number of a client.
fn process_constant(
    text: &str,
    constant: &A_Const,
    identity: &ClientIdentity<'_>,
) -> Option<(Range<usize>, Replacement)> {
    let (number, quote) = match constant.val()? {
        ConstValue::Integer(number) => (u32::try_from(number).ok()?, 0),
        ConstValue::String(text) => (text.parse().ok()?, 1),
        _ => return None,
    };
    let start = place(constant.location)? + quote;
    let range = start..start + number.to_string().len();
    if text.get(range.clone())? != number.to_string() {
        return None;
    }
    let by = match number {
        own if own == identity.process && quote == 0 => {
            Replacement::Text(format!("({OWN_PROCESS}() + 0)"))
        }
        client if (identity.is_client)(client) => Replacement::ProcessOf(client),
        _ => return None,
    };
    Some((range, by))
}

/// Returns the change of a relation that lists publications.
fn without_own(text: &str, range: &RangeVar) -> Option<(Range<usize>, Replacement)> {
    let start = place(range.location)?;
    let rest = text.get(start..)?;
    let length = qualified_length(rest)?;
    let behind = rest[length..].trim_start();
    // Of the table alone, or with those that inherit from it: there is no such form of a query.
    if behind.starts_with('*') || behind.to_ascii_lowercase().starts_with("tablesample") {
        return None;
    }
    let relation = &rest[..length];
    let name = range.relname()?;
    let alias = match range.alias() {
        Some(_) => String::new(),
        None => format!(" AS {name}"),
    };
    let by = format!(
        "(SELECT * FROM {relation} WHERE pubname OPERATOR(pg_catalog.<>) '{OWN_PUBLICATION}'){alias}"
    );
    Some((start..start + length, Replacement::Text(by)))
}

/// Returns the integer in a parameter's value, if it can be a process number.
pub fn process_of_value(value: &[u8], is_binary: bool) -> Option<u32> {
    match (is_binary, value.len()) {
        (true, 4) => value.try_into().ok().map(u32::from_be_bytes),
        (true, 8) => {
            let number = value.try_into().ok().map(u64::from_be_bytes)?;
            u32::try_from(number).ok()
        }
        (true, _) => None,
        (false, _) => str::from_utf8(value).ok()?.parse().ok(),
    }
}

/// Returns a process number as a parameter's value, with the same length in bytes.
pub fn value_of_process(process: u32, is_binary: bool, length: usize) -> Vec<u8> {
    match is_binary {
        true if length == 8 => u64::from(process).to_be_bytes().to_vec(),
        true => process.to_be_bytes().to_vec(),
        false => format!("{process:>length$}").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text as the server gets it: a client's process is three digits.
    fn seen(text: &str) -> String {
        let identity = ClientIdentity {
            process: 1_500_000_000,
            is_client: &|number| number == 1_600_000_000,
            has_publication: true,
        };
        let view = ClientView::of(text.as_bytes(), &identity);
        let marked = view.edits.iter().map(|(range, by)| match by {
            Replacement::Text(_) => (range.clone(), by.clone()),
            Replacement::ProcessOf(client) => {
                (range.clone(), Replacement::Text(format!("<{client}>")))
            }
        });
        let end = if view.has_process_parameters {
            " $"
        } else {
            ""
        };
        let view = ClientView {
            edits: marked.collect(),
            ..ClientView::default()
        };
        view.applied(text) + end
    }

    #[test]
    fn clients_stand_for_their_processes() {
        for (text, expected) in [
            (
                "SELECT pg_backend_pid()",
                "SELECT (SELECT 1500000000 AS pg_backend_pid)",
            ),
            (
                "INSERT INTO log VALUES (pg_catalog.pg_backend_pid ( ) + 1)",
                "INSERT INTO log VALUES ((SELECT 1500000000 AS pg_backend_pid) + 1)",
            ),
            (
                "SELECT pg_terminate_backend(1600000000)",
                "SELECT pg_terminate_backend(<1600000000>)",
            ),
            (
                "SELECT pg_cancel_backend('1600000000')",
                "SELECT pg_cancel_backend('<1600000000>')",
            ),
            (
                "SELECT pg_cancel_backend($1)",
                "SELECT pg_cancel_backend($1) $",
            ),
            (
                "SELECT 1; SELECT * FROM pg_stat_activity WHERE pid IN (7, 1600000000, 1500000000)",
                "SELECT 1; SELECT * FROM pg_stat_activity WHERE pid IN (7, <1600000000>, (pg_backend_pid() + 0))",
            ),
            // Both are the server's numbers.
            (
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
            ),
            // It is about no process, though it has the words.
            (
                "SELECT 'pg_terminate_backend' FROM t WHERE id = 1600000000",
                "SELECT 'pg_terminate_backend' FROM t WHERE id = 1600000000",
            ),
            (
                "SELECT my.pg_terminate_backend(1600000000), my.pg_backend_pid()",
                "SELECT my.pg_terminate_backend(1600000000), my.pg_backend_pid()",
            ),
            // It is stored as it was written.
            (
                "CREATE VIEW v AS SELECT pg_backend_pid()",
                "CREATE VIEW v AS SELECT pg_backend_pid()",
            ),
            (
                "SELECT * FROM pg_backend_pid() AS f",
                "SELECT * FROM pg_backend_pid() AS f",
            ),
        ] {
            assert_eq!(seen(text), expected);
        }
    }

    #[test]
    fn the_own_publication_is_left_out() {
        let all = "(SELECT * FROM pg_publication WHERE pubname OPERATOR(pg_catalog.<>) 'hihooi')";
        for (text, expected) in [
            (
                "SELECT * FROM pg_publication p",
                format!("SELECT * FROM {all} p"),
            ),
            ("TABLE pg_publication", "TABLE pg_publication".into()),
            (
                "SELECT * FROM pg_publication, t ORDER BY 1",
                format!("SELECT * FROM {all} AS pg_publication, t ORDER BY 1"),
            ),
            (
                "SELECT tableoid FROM pg_publication",
                "SELECT tableoid FROM pg_publication".into(),
            ),
            (
                "SELECT * FROM ONLY pg_publication",
                "SELECT * FROM ONLY pg_publication".into(),
            ),
            (
                "SELECT * FROM my.pg_publication",
                "SELECT * FROM my.pg_publication".into(),
            ),
            (
                "WITH pg_publication AS (SELECT 1) SELECT * FROM pg_publication",
                "WITH pg_publication AS (SELECT 1) SELECT * FROM pg_publication".into(),
            ),
            (
                "UPDATE pg_publication SET pubname = 'a'",
                "UPDATE pg_publication SET pubname = 'a'".into(),
            ),
        ] {
            assert_eq!(seen(text), expected);
        }
    }

    #[test]
    fn values_are_replaced_in_place() {
        for (value, is_binary) in [
            (&b"1600000000"[..], false),
            (&1_600_000_000_u32.to_be_bytes(), true),
            (&1_600_000_000_u64.to_be_bytes(), true),
        ] {
            assert_eq!(process_of_value(value, is_binary), Some(1_600_000_000));
            let other = value_of_process(77, is_binary, value.len());
            assert_eq!(other.len(), value.len());
            let text = String::from_utf8_lossy(&other);
            assert!(is_binary || text.trim() == "77", "{text}");
        }
    }

    /// However deep a text is nested, it is looked at without recursion.
    #[test]
    fn nested_texts_do_not_exhaust_the_stack() {
        let text = format!("SELECT pg_backend_pid() {}", "+ (- 1".repeat(500));
        let text = text + &")".repeat(500);
        assert!(seen(&text).contains("AS pg_backend_pid"));
    }
}
