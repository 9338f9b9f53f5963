//! Rewrites `SELECT … INTO table` for replicas as `CREATE TABLE table AS SELECT …` without rows.
//! The rows arrive as row images.

use pg_raw_parse::Node;
use pg_raw_parse::nodes::RangeVar;

use crate::select::first_of_union;
use pg_wire::quoting::{IS_OF_NAME, identifier_length, name_length, quoted};

/// The error for a statement that cannot be rewritten.
pub const REFUSED: &str =
    "this SELECT INTO is not replicated: write CREATE TABLE … AS SELECT … instead";

/// The word before the table.
const INTO: &str = "into";
/// The persistence of unlogged tables in the tree.
const UNLOGGED: u8 = b'u';

/// Rewrites a statement that creates this table as `CREATE TABLE … AS`. It finds the words to move
/// by removing candidates and parsing the rest.
pub fn as_create_table(made: &RangeVar, text: &str) -> Option<String> {
    let schema = made.schemaname().map(|name| format!("{}.", quoted(name)));
    let name = quoted(made.relname()?);
    let kind = match made.relpersistence as u8 {
        UNLOGGED => "UNLOGGED ",
        _ => "",
    };
    let head = format!(
        "CREATE {kind}TABLE {}{name} AS ",
        schema.unwrap_or_default()
    );
    let lower = text.to_ascii_lowercase();
    let is_unlogged = !kind.is_empty();
    let candidates = lower.match_indices(INTO).filter_map(|(at, into)| {
        let start = at + into.len();
        let is_of_name =
            |byte: Option<&u8>| byte.is_some_and(|byte| IS_OF_NAME[usize::from(*byte)]);
        let bytes = text.as_bytes();
        if is_of_name(bytes[..at].last()) || is_of_name(bytes.get(start)) {
            return None;
        }
        Some((at, start + table_length(&text[start..], is_unlogged)?))
    });
    let mut written = candidates
        .map(|(start, end)| format!("{head}{} {}\nWITH NO DATA", &text[..start], &text[end..]));
    written.find(|written| makes_empty(written))
}

/// Returns how many bytes at the beginning of a text name a table, with the words before its name.
fn table_length(text: &str, is_unlogged: bool) -> Option<usize> {
    let mut rest = text;
    let words = ["unlogged", "table"];
    for word in &words[usize::from(!is_unlogged)..] {
        let behind = rest.trim_ascii_start();
        let length = name_length(behind.as_bytes());
        if behind[..length].eq_ignore_ascii_case(word) {
            rest = &behind[length..];
        }
    }
    loop {
        rest = rest.trim_ascii_start();
        rest = &rest[identifier_length(rest)?..];
        match rest.trim_ascii_start().strip_prefix('.') {
            Some(part) => rest = part,
            None => return Some(text.len() - rest.len()),
        }
    }
}

/// Returns whether a query string is one statement that creates an empty table from a query.
pub fn makes_empty(text: &str) -> bool {
    let Ok(tree) = pg_raw_parse::parse(text) else {
        return false;
    };
    let mut statements = tree.iter().map(|raw| raw.stmt());
    let (Some(Node::CreateTableAsStmt(create)), None) = (statements.next(), statements.next())
    else {
        return false;
    };
    let is_empty = create.into().is_some_and(|into| into.skip_data);
    let is_whole = matches!(create.query(), Node::SelectStmt(select)
        if first_of_union(select).into_clause().is_none());
    is_empty && is_whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_made_first() {
        for (text, expected) in [
            (
                "SELECT a INTO t FROM x",
                "CREATE TABLE \"t\" AS SELECT a FROM x",
            ),
            (
                "select 'into t' AS b, a into TABLE s . \"T\" FROM x",
                "CREATE TABLE \"s\".\"T\" AS select 'into t' AS b, a FROM x",
            ),
            (
                "SELECT a INTO UNLOGGED TABLE t FROM x -- all",
                "CREATE UNLOGGED TABLE \"t\" AS SELECT a FROM x -- all",
            ),
            (
                "SELECT a INTO unlogged FROM x",
                "CREATE TABLE \"unlogged\" AS SELECT a FROM x",
            ),
            (
                "WITH y AS (SELECT 1 AS a) SELECT a INTO t FROM y UNION SELECT 2",
                "CREATE TABLE \"t\" AS WITH y AS (SELECT 1 AS a) SELECT a FROM y UNION SELECT 2",
            ),
            (
                "SELECT pinto INTO t FROM x",
                "CREATE TABLE \"t\" AS SELECT pinto FROM x",
            ),
            ("SELECT a INTO /* here */ t FROM x", ""),
        ] {
            let tree = pg_raw_parse::parse(text).unwrap();
            let statement = tree.iter().next().unwrap().stmt();
            let Node::SelectStmt(select) = statement else {
                panic!("{text}");
            };
            let into = first_of_union(select).into_clause().unwrap();
            let written = as_create_table(into.rel().unwrap(), text).unwrap_or_default();
            let written: Vec<&str> = written.split_ascii_whitespace().collect();
            let expected = match expected {
                "" => String::new(),
                expected => format!("{expected} WITH NO DATA"),
            };
            assert_eq!(written.join(" "), expected);
        }
    }
}
