//! What a change of the schema says at replicas, where it names what each server has of its own.
//!
//! It names no tablespace there: all is in the default one. A statement about a database that the
//! replica's server does not have does nothing.

use pg_raw_parse::Node;
use pg_raw_parse::raw::{AlterTableType, ObjectType};

use super::utility::concerns;
use pg_wire::quoting::{identifier_length, literal};

/// The tablespace that every database has.
const DEFAULT: &str = "pg_default";
/// The word before a tablespace's name.
const TABLESPACE: &str = "tablespace";

/// Returns what a replica is to run for a change of the schema.
pub fn at_replica(text: &str) -> String {
    if is_about_database(text) {
        let body = format!(
            "BEGIN EXECUTE {}; EXCEPTION WHEN invalid_catalog_name THEN NULL; END",
            literal(text)
        );
        return format!("DO {}", literal(&body));
    }
    in_default_tablespace(text)
}

/// Is it about a database, and nothing else?
fn is_about_database(text: &str) -> bool {
    let is = |node: Node<'_>| concerns(node, ObjectType::OBJECT_DATABASE);
    pg_raw_parse::parse(text)
        .is_ok_and(|tree| tree.len() == 1 && tree.iter().all(|raw| is(raw.stmt())))
}

/// The same, without the tablespaces that it names. Whether a word of the text names one is found
/// by leaving it out, or putting the default in its place, and parsing.
fn in_default_tablespace(text: &str) -> String {
    let mut text = text.to_owned();
    let Some(mut count) = others_named(&text).filter(|count| *count > 0) else {
        return text;
    };
    let mut from = 0;
    while let Some(found) = text[from..].to_ascii_lowercase().find(TABLESPACE) {
        from += found + TABLESPACE.len();
        let Some((start, end)) = name_behind(&text, from) else {
            continue;
        };
        let word = from - TABLESPACE.len();
        let (head, rest) = (&text[..word], &text[end..]);
        // A partitioned table must not name the default one.
        let without_index = without_words(head, &["index", "using"]);
        let mut changes = vec![format!("{head} {rest}")];
        changes.extend(without_index.map(|head| format!("{head} {rest}")));
        changes.push(format!("{} {DEFAULT} {rest}", &text[..start]));
        let fewer = changes.into_iter().find_map(|changed| {
            let left = others_named(&changed).filter(|left| *left < count)?;
            Some((changed, left))
        });
        if let Some((changed, left)) = fewer {
            (text, count, from) = (changed, left, 0);
        }
    }
    text
}

/// A text without these words at its end, the last first.
fn without_words<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    words.iter().try_fold(text.trim_ascii_end(), |text, word| {
        let (head, end) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
        end.eq_ignore_ascii_case(word)
            .then(|| head.trim_ascii_end())
    })
}

/// Where the name stands that follows spaces and comments.
fn name_behind(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut rest = &text[from..];
    loop {
        rest = rest.trim_ascii_start();
        rest = match rest {
            _ if rest.starts_with("--") => rest.split_once('\n')?.1,
            _ if rest.starts_with("/*") => rest.split_once("*/")?.1,
            _ => break,
        };
    }
    let start = text.len() - rest.len();
    Some((start, start + identifier_length(rest)?))
}

/// How many tablespaces a text names that are not the default one; none if it cannot be parsed.
fn others_named(text: &str) -> Option<usize> {
    let tree = pg_raw_parse::parse(text).ok()?;
    Some(tree.iter().map(|raw| named_by(raw.stmt())).sum())
}

fn named_by(node: Node<'_>) -> usize {
    let is_other = |name: Option<&str>| usize::from(name.is_some_and(|name| name != DEFAULT));
    match node {
        Node::CreateSchemaStmt(create) => create.schema_elts().iter().map(named_by).sum(),
        Node::CreateStmt(create) => {
            let parts: usize = create.table_elts().iter().map(named_by).sum();
            is_other(create.tablespacename()) + parts
        }
        Node::ColumnDef(column) => column.constraints().iter().map(named_by).sum(),
        Node::Constraint(constraint) => is_other(constraint.indexspace()),
        Node::IndexStmt(index) => is_other(index.table_space()),
        Node::CreateTableAsStmt(create) => {
            is_other(create.into().and_then(|into| into.table_space_name()))
        }
        Node::SelectStmt(select) => is_other(
            select
                .into_clause()
                .and_then(|into| into.table_space_name()),
        ),
        Node::AlterTableStmt(alter) => alter.cmds().iter().map(named_by).sum(),
        Node::AlterTableCmd(command) if command.subtype == AlterTableType::AT_SetTableSpace => {
            is_other(command.name())
        }
        Node::AlterTableCmd(command) => named_by(command.def()),
        Node::AlterTableMoveAllStmt(moves) => {
            is_other(moves.orig_tablespacename()) + is_other(moves.new_tablespacename())
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tablespaces_are_the_default_one() {
        for (text, expected) in [
            (
                "CREATE TABLE t (id int) TABLESPACE fast",
                "CREATE TABLE t (id int)",
            ),
            (
                "CREATE TABLE t (id int PRIMARY KEY USING INDEX TABLESPACE a) tablespace -- b\n\"b c\"",
                "CREATE TABLE t (id int PRIMARY KEY )",
            ),
            (
                "CREATE TABLE t TABLESPACE fast AS SELECT 'tablespace x', tablespace y FROM pg_tables",
                "CREATE TABLE t AS SELECT 'tablespace x', tablespace y FROM pg_tables",
            ),
            (
                "ALTER TABLE t SET TABLESPACE fast",
                "ALTER TABLE t SET TABLESPACE pg_default",
            ),
            (
                "ALTER INDEX i SET TABLESPACE /* x */ fast",
                "ALTER INDEX i SET TABLESPACE /* x */ pg_default",
            ),
            (
                "ALTER TABLE t ADD UNIQUE (a) USING INDEX TABLESPACE fast, ADD b int",
                "ALTER TABLE t ADD UNIQUE (a) , ADD b int",
            ),
            (
                "ALTER TABLE ALL IN TABLESPACE a SET TABLESPACE b",
                "ALTER TABLE ALL IN TABLESPACE pg_default SET TABLESPACE pg_default",
            ),
            (
                "CREATE SCHEMA s CREATE TABLE t (id int) TABLESPACE x CREATE INDEX ON t (id) TABLESPACE y",
                "CREATE SCHEMA s CREATE TABLE t (id int) CREATE INDEX ON t (id)",
            ),
            ("CREATE VIEW v AS SELECT tablespace fast FROM pg_tables", ""),
            (
                "CREATE TABLE t (id int) PARTITION BY LIST (id) TABLESPACE fast",
                "CREATE TABLE t (id int) PARTITION BY LIST (id)",
            ),
            ("CREATE INDEX ON t (id) TABLESPACE pg_default", ""),
            ("COMMENT ON TABLE t IS 'TABLESPACE fast'", ""),
        ] {
            let expected = match expected {
                "" => text,
                expected => expected,
            };
            let squeezed: Vec<String> = [at_replica(text).as_str(), expected]
                .map(|text| text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
                .into();
            assert_eq!(squeezed[0], squeezed[1]);
        }
    }

    #[test]
    fn databases_may_be_missing() {
        let text = "COMMENT ON DATABASE other IS 'it''s'";
        assert_eq!(
            at_replica(text),
            "DO 'BEGIN EXECUTE ''COMMENT ON DATABASE other IS ''''it''''''''s''''''; \
             EXCEPTION WHEN invalid_catalog_name THEN NULL; END'"
        );
        assert_eq!(
            at_replica("COMMENT ON TABLE t IS ''"),
            "COMMENT ON TABLE t IS ''"
        );
    }
}
