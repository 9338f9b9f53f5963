//! Rewrites a schema change for replicas. It changes the parts that name objects which each server
//! has of its own.
//!
//! It names no tablespace there: all is in the default one. A statement about a database that the
//! replica's server does not have does nothing. Indexes are each server's own, too. An index that
//! exists already, or is missing, is no failure, and none is built concurrently with the changes
//! that a replica applies. Statistics may be those of a temporary table, which replicas lack.

use pg_raw_parse::Node;
use pg_raw_parse::nodes::{AlterTableStmt, RangeVar};
use pg_raw_parse::raw::{AlterTableType, ObjectType};

use super::utility::{concerns, detached_concurrently};
use pg_wire::quoting::{identifier_length, literal, quoted};

/// The tablespace that every database has.
const DEFAULT: &str = "pg_default";
/// How an index is built or dropped that waits for others.
const CONCURRENTLY: &str = "concurrently";
/// How a partition is detached at last, when that was interrupted.
const FINALIZE: &str = "finalize";
/// The words before the names of indexes and statistics.
const INDEX: &str = "index";
const STATISTICS: &str = "statistics";
/// The word before a tablespace's name.
const TABLESPACE: &str = "tablespace";

/// Returns the statement that repeats a schema change at replicas.
pub fn at_replica(text: &str) -> String {
    if is_about(text, ObjectType::OBJECT_DATABASE) {
        return unless(text, "invalid_catalog_name");
    }
    let text = in_default_tablespace(text);
    tolerant(&text).unwrap_or(text)
}

/// Returns the quoted name of a table, with its schema if it has one.
fn qualified(table: &RangeVar) -> Option<String> {
    let schema = table.schemaname().map(|name| quoted(name) + ".");
    Some(schema.unwrap_or_default() + &quoted(table.relname()?))
}

/// Returns a statement that runs `create`, and does nothing if the rows of a partitioned table do
/// not allow the index. The primary does not read the rows of a partition that already has such an
/// index, even an invalid one, which replicas do not have.
fn unless_partitioned(create: &str, table: &str) -> String {
    let body = format!(
        "BEGIN EXECUTE {}; EXCEPTION WHEN data_exception OR unique_violation OR raise_exception THEN \
         IF (SELECT relkind FROM pg_catalog.pg_class \
              WHERE oid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass) OPERATOR(pg_catalog.<>) 'p' \
         THEN RAISE; END IF; END",
        literal(create),
        literal(table)
    );
    format!("DO {}", literal(&body))
}

/// Returns a statement that runs `text`, and does nothing if `text` fails for this reason.
fn unless(text: &str, failure: &str) -> String {
    let text = literal(text);
    let body = format!("BEGIN EXECUTE {text}; EXCEPTION WHEN {failure} THEN NULL; END");
    format!("DO {}", literal(&body))
}

/// Returns the tolerant form of a statement. A statement about an index does not fail if the index
/// exists already or is missing, and so for a statement that drops statistics. A concurrent
/// statement becomes one without CONCURRENTLY. Returns none for any other.
fn tolerant(text: &str) -> Option<String> {
    let tree = pg_raw_parse::parse(text).ok()?;
    let mut statements = tree.iter();
    let (node, None) = (statements.next()?.stmt(), statements.next()) else {
        return None;
    };
    match node {
        Node::IndexStmt(index) if index.concurrent => {
            let is_plain = |node: Node<'_>| matches!(node, Node::IndexStmt(it) if !it.concurrent);
            changed(text, CONCURRENTLY, &["IF NOT EXISTS", ""], is_plain)
        }
        Node::IndexStmt(index) => {
            let is_so = |node: Node<'_>| matches!(node, Node::IndexStmt(it) if it.if_not_exists);
            let named = match index.if_not_exists {
                true => None,
                false => changed(text, INDEX, &["INDEX IF NOT EXISTS"], is_so),
            };
            let create = named.unwrap_or_else(|| text.to_owned());
            let with_partitions = index.relation().filter(|table| table.inh);
            match with_partitions.and_then(qualified) {
                Some(table) => Some(unless_partitioned(&create, &table)),
                None => Some(create),
            }
        }
        Node::DropStmt(drop) if drop.concurrent => {
            let is_so = |node: Node<'_>| matches!(node, Node::DropStmt(it) if !it.concurrent && it.missing_ok);
            changed(text, CONCURRENTLY, &["IF EXISTS", ""], is_so)
        }
        Node::DropStmt(drop) if !drop.missing_ok => {
            let (word, instead) = match drop.remove_type {
                ObjectType::OBJECT_INDEX => (INDEX, "INDEX IF EXISTS"),
                ObjectType::OBJECT_STATISTIC_EXT => (STATISTICS, "STATISTICS IF EXISTS"),
                _ => return None,
            };
            let is_so = |node: Node<'_>| matches!(node, Node::DropStmt(it) if it.missing_ok);
            changed(text, word, &[instead], is_so)
        }
        Node::RenameStmt(rename)
            if rename.rename_type == ObjectType::OBJECT_INDEX && !rename.missing_ok =>
        {
            let is_so = |node: Node<'_>| matches!(node, Node::RenameStmt(it) if it.missing_ok);
            changed(text, INDEX, &["INDEX IF EXISTS"], is_so)
        }
        // The index of the partition may be missing, too.
        Node::AlterTableStmt(alter) if alter.cmds().iter().any(attaches_index) => {
            Some(unless(text, "undefined_table"))
        }
        Node::AlterTableStmt(alter)
            if alter.objtype == ObjectType::OBJECT_INDEX && !alter.missing_ok =>
        {
            let is_so = |node: Node<'_>| matches!(node, Node::AlterTableStmt(it) if it.missing_ok);
            changed(text, INDEX, &["INDEX IF EXISTS"], is_so)
        }
        Node::AlterTableStmt(alter) => detaching(alter, text),
        Node::CommentStmt(comment) if comment.objtype == ObjectType::OBJECT_INDEX => {
            Some(unless(text, "undefined_table"))
        }
        _ => None,
    }
}

/// Returns whether a part of ALTER TABLE or ALTER INDEX attaches the index of a partition.
fn attaches_index(command: Node<'_>) -> bool {
    match command {
        Node::AlterTableCmd(command) if command.subtype == AlterTableType::AT_AttachPartition => {
            matches!(command.def(), Node::PartitionCmd(partition) if partition.bound().is_none())
        }
        _ => false,
    }
}

/// Returns the replicas' form of a statement that detaches a partition concurrently, or that ends
/// an interrupted detachment; none for any other statement. The detached table gets a constraint
/// for its bounds, as on the primary. A partition of hashes gets none: the constraint would name
/// the parent, which may be dropped.
fn detaching(alter: &AlterTableStmt, text: &str) -> Option<String> {
    let (word, partition) = alter.cmds().iter().find_map(in_two_steps)?;
    let is_plain = |node: Node<'_>| match node {
        Node::AlterTableStmt(it) => it.cmds().iter().all(|it| in_two_steps(it).is_none()),
        _ => false,
    };
    let detach = changed(text, word, &[""], is_plain)?;
    let name = qualified(partition)?;
    let body = format!(
        "DECLARE bounds text := (\
           SELECT pg_catalog.pg_get_partition_constraintdef(i.inhrelid) FROM pg_catalog.pg_inherits AS i \
             JOIN pg_catalog.pg_partitioned_table AS p ON p.partrelid OPERATOR(pg_catalog.=) i.inhparent \
            WHERE i.inhrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass \
              AND p.partstrat OPERATOR(pg_catalog.<>) 'h'); \
         BEGIN EXECUTE {}; IF bounds IS NOT NULL THEN EXECUTE pg_catalog.concat({}, bounds, ')'); END IF; END",
        literal(&name),
        literal(&detach),
        literal(&format!("ALTER TABLE {name} ADD CHECK ("))
    );
    Some(format!("DO {}", literal(&body)))
}

/// Returns the partition that a part of ALTER TABLE detaches in two transactions, or in the second
/// of them, and the word that says so.
fn in_two_steps(command: Node<'_>) -> Option<(&'static str, &RangeVar)> {
    if let Some(partition) = detached_concurrently(command) {
        return Some((CONCURRENTLY, partition));
    }
    match command {
        Node::AlterTableCmd(command)
            if command.subtype == AlterTableType::AT_DetachPartitionFinalize =>
        {
            match command.def() {
                Node::PartitionCmd(partition) => Some((FINALIZE, partition.name()?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Replaces one occurrence of a word by one of the texts in `instead`, so that the result is one
/// statement for which `is_so` returns true; none if no replacement gives one.
fn changed(
    text: &str,
    word: &str,
    instead: &[&str],
    is_so: impl Fn(Node<'_>) -> bool,
) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let places = lower.match_indices(word).map(|(at, _)| at);
    let mut candidates = places.flat_map(|at| {
        let (head, rest) = (&text[..at], &text[at + word.len()..]);
        instead.iter().map(move |it| format!("{head}{it}{rest}"))
    });
    candidates.find(|text| {
        pg_raw_parse::parse(text)
            .is_ok_and(|tree| tree.len() == 1 && tree.iter().all(|raw| is_so(raw.stmt())))
    })
}

/// Returns whether a text is one statement about an object of this kind.
fn is_about(text: &str, kind: ObjectType::Type) -> bool {
    let is = |node: Node<'_>| concerns(node, kind);
    pg_raw_parse::parse(text)
        .is_ok_and(|tree| tree.len() == 1 && tree.iter().all(|raw| is(raw.stmt())))
}

/// Returns a statement without the tablespaces that it names. A word names a tablespace if the text
/// still parses, with one tablespace less, when the word is left out or replaced by the default.
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

/// Returns a text without these words at its end, the last first.
fn without_words<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    words.iter().try_fold(text.trim_ascii_end(), |text, word| {
        let (head, end) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
        end.eq_ignore_ascii_case(word)
            .then(|| head.trim_ascii_end())
    })
}

/// Returns the start and the end of the name that follows spaces and comments after `from`; none if
/// no name follows.
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

/// Returns how many tablespaces a text names that are not the default one; none if it cannot be
/// parsed.
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
                "ALTER INDEX IF EXISTS i SET TABLESPACE /* x */ pg_default",
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
            ("CREATE INDEX ON ONLY t (id) TABLESPACE pg_default", ""),
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
    fn indexes_may_be_there_or_not() {
        for (text, expected) in [
            (
                "CREATE INDEX CONCURRENTLY \"concurrently\" ON t (a)",
                "CREATE INDEX IF NOT EXISTS \"concurrently\" ON t (a)",
            ),
            (
                "CREATE UNIQUE INDEX /* concurrently */ Concurrently i ON t (a) TABLESPACE fast",
                "CREATE UNIQUE INDEX /* concurrently */ IF NOT EXISTS i ON t (a)  ",
            ),
            (
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON t (a)",
                "CREATE INDEX  IF NOT EXISTS i ON t (a)",
            ),
            (
                "CREATE INDEX CONCURRENTLY ON t (a) -- concurrently",
                "CREATE INDEX  ON t (a) -- concurrently",
            ),
            (
                "CREATE INDEX index_a ON ONLY t (a) TABLESPACE fast",
                "CREATE INDEX IF NOT EXISTS index_a ON ONLY t (a)  ",
            ),
            ("CREATE INDEX ON ONLY t (a)", "CREATE INDEX ON ONLY t (a)"),
            ("DROP INDEX CONCURRENTLY i", "DROP INDEX IF EXISTS i"),
            (
                "DROP INDEX concurrently IF EXISTS i",
                "DROP INDEX  IF EXISTS i",
            ),
            (
                "drop index i, \"index\"",
                "drop INDEX IF EXISTS i, \"index\"",
            ),
            (
                "ALTER INDEX i RENAME TO index",
                "ALTER INDEX IF EXISTS i RENAME TO index",
            ),
            (
                "ALTER INDEX i SET (fillfactor = 50)",
                "ALTER INDEX IF EXISTS i SET (fillfactor = 50)",
            ),
            (
                "COMMENT ON INDEX i IS 'x'",
                "DO 'BEGIN EXECUTE ''COMMENT ON INDEX i IS ''''x''''''; EXCEPTION WHEN \
                 undefined_table THEN NULL; END'",
            ),
            (
                "/* statistics */ DROP Statistics a, b",
                "/* statistics */ DROP STATISTICS IF EXISTS a, b",
            ),
            ("DROP TABLE index", "DROP TABLE index"),
            (
                "ALTER TABLE t ADD CONSTRAINT c UNIQUE USING INDEX i",
                "ALTER TABLE t ADD CONSTRAINT c UNIQUE USING INDEX i",
            ),
        ] {
            assert_eq!(at_replica(text), expected);
        }
    }

    #[test]
    fn partitions_are_detached_at_once() {
        for (text, detach, name) in [
            (
                "ALTER TABLE \"concurrently\" DETACH PARTITION s.p CONCURRENTLY",
                "ALTER TABLE \"concurrently\" DETACH PARTITION s.p ",
                "\"s\".\"p\"",
            ),
            (
                "ALTER TABLE t DETACH PARTITION finalize FINALIZE",
                "ALTER TABLE t DETACH PARTITION  FINALIZE",
                "\"finalize\"",
            ),
        ] {
            let expected = format!(
                "DO 'DECLARE bounds text := (SELECT pg_catalog.pg_get_partition_constraintdef(i.inhrelid) \
                 FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_partitioned_table AS p \
                 ON p.partrelid OPERATOR(pg_catalog.=) i.inhparent \
                 WHERE i.inhrelid OPERATOR(pg_catalog.=) ''{name}''::pg_catalog.regclass \
                 AND p.partstrat OPERATOR(pg_catalog.<>) ''h''); \
                 BEGIN EXECUTE ''{detach}''; IF bounds IS NOT NULL THEN \
                 EXECUTE pg_catalog.concat(''ALTER TABLE {name} ADD CHECK ('', bounds, '')''); END IF; END'"
            );
            assert_eq!(at_replica(text), expected);
        }
        let attached = "DO 'BEGIN EXECUTE ''ALTER INDEX i ATTACH PARTITION j''; EXCEPTION WHEN \
                        undefined_table THEN NULL; END'";
        assert_eq!(at_replica("ALTER INDEX i ATTACH PARTITION j"), attached);
        let of_table = "ALTER TABLE t ATTACH PARTITION p FOR VALUES IN (1)";
        assert_eq!(at_replica(of_table), of_table);
        let of_rest = "ALTER TABLE t ATTACH PARTITION p DEFAULT";
        assert_eq!(at_replica(of_rest), of_rest);
    }

    #[test]
    fn indexes_of_partitioned_tables_may_fail() {
        for (text, create, table) in [
            (
                "CREATE INDEX index_a ON t (a)",
                "CREATE INDEX IF NOT EXISTS index_a ON t (a)",
                "\"t\"",
            ),
            ("CREATE INDEX ON t (a)", "CREATE INDEX ON t (a)", "\"t\""),
            (
                "CREATE INDEX IF NOT EXISTS i ON t (a) TABLESPACE pg_default",
                "CREATE INDEX IF NOT EXISTS i ON t (a) TABLESPACE pg_default",
                "\"t\"",
            ),
            (
                "CREATE UNIQUE INDEX i ON s.\"t\" (a) TABLESPACE fast",
                "CREATE UNIQUE INDEX IF NOT EXISTS i ON s.\"t\" (a)  ",
                "\"s\".\"t\"",
            ),
        ] {
            let expected = format!(
                "DO 'BEGIN EXECUTE ''{create}''; EXCEPTION WHEN data_exception OR unique_violation \
                 OR raise_exception THEN IF (SELECT relkind FROM pg_catalog.pg_class \
                 WHERE oid OPERATOR(pg_catalog.=) ''{table}''::pg_catalog.regclass) \
                 OPERATOR(pg_catalog.<>) ''p'' THEN RAISE; END IF; END'"
            );
            assert_eq!(at_replica(text), expected);
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
