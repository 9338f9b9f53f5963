//! Detects schema changes that use temporary tables, which replicas do not have. It covers the
//! cases for which PostgreSQL records no dependency: rights, and tables that are created from other
//! tables.

use std::collections::BTreeSet;

use pg_raw_parse::Node;
use pg_raw_parse::nodes::RangeVar;
use pg_raw_parse::raw::{GrantTargetType, ObjectType};

use super::catalogue::Catalogue;
use super::facts::{QualifiedName, StatementFacts};
use super::utility::is_temporary;

/// How every schema of temporary tables is called, or begins.
const SCHEMA: &str = "pg_temp";

/// How a statement uses temporary tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporaryTableUse {
    /// It uses none.
    Nothing,
    /// It uses nothing else.
    Only,
    /// It uses other tables, too.
    Some,
}

/// The tables in a statement that may be temporary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemporaryNames {
    /// The names of the temporary tables, without a schema.
    pub names: BTreeSet<String>,
    /// The number of names.
    pub count: usize,
    /// The number of names that are certainly temporary.
    pub temporary_count: usize,
    /// Whether all tables of the statement may be temporary. Then the statement affects no
    /// permanent table.
    pub may_be_all: bool,
}

impl TemporaryNames {
    fn add(&mut self, schema: Option<&str>, name: &str) {
        self.count += 1;
        match schema {
            None => {
                self.names.insert(name.to_owned());
            }
            Some(schema) => self.temporary_count += usize::from(schema.starts_with(SCHEMA)),
        }
    }

    fn add_range(&mut self, range: Option<&RangeVar>) {
        if let Some(range) = range {
            self.add(range.schemaname(), range.relname().unwrap_or_default());
        }
    }
}

/// The reason why a statement is refused that creates a permanent object from temporary tables.
pub const REFUSED: &str = "a table that lasts cannot be made of a temporary one, which replicas do not have: write CREATE \
                           TABLE with its columns, then INSERT … SELECT";

/// Returns the temporary table, view or sequence that a statement creates.
pub fn made_by<'t>(node: Node<'t>) -> Option<&'t str> {
    let relation = match node {
        Node::CreateStmt(create) => create.relation(),
        Node::ViewStmt(view) => view.view(),
        Node::CreateSeqStmt(create) => create.sequence(),
        Node::CreateTableAsStmt(create) => create.into().and_then(|into| into.rel()),
        Node::SelectStmt(select) => select.into_clause().and_then(|into| into.rel()),
        _ => None,
    };
    let relation = relation.filter(|relation| is_temporary(Some(relation)))?;
    relation.relname()
}

/// Returns the use of temporary tables by a statement, in a session with the temporary tables
/// `own`.
pub fn uses(text: &str, own: &[&str]) -> TemporaryTableUse {
    let named = named(text);
    let mine = named
        .names
        .iter()
        .filter(|name| own.contains(&name.as_str()));
    let count = named.temporary_count + mine.count();
    match count {
        0 => TemporaryTableUse::Nothing,
        count if count >= named.count && named.may_be_all => TemporaryTableUse::Only,
        _ => TemporaryTableUse::Some,
    }
}

/// Returns the tables whose rights a statement changes, or from which it creates a permanent table.
pub fn named(text: &str) -> TemporaryNames {
    let mut named = TemporaryNames::default();
    let Ok(tree) = pg_raw_parse::parse(text) else {
        return named;
    };
    for raw in tree.iter() {
        match raw.stmt() {
            Node::GrantStmt(grant) => {
                named.may_be_all = true;
                let is_table = matches!(
                    grant.objtype,
                    ObjectType::OBJECT_TABLE | ObjectType::OBJECT_SEQUENCE
                );
                if is_table && grant.targtype == GrantTargetType::ACL_TARGET_OBJECT {
                    let tables = grant.objects().iter();
                    tables.for_each(|range| named.add_range(Some(range)));
                } else {
                    // Functions, and all tables of schemas, are temporary only if they are named
                    // so.
                    named.count += grant.objects().len();
                    let is_noted = text.to_ascii_lowercase().contains(SCHEMA);
                    named.temporary_count += usize::from(is_noted);
                }
            }
            Node::CreateStmt(create) => {
                for element in create.table_elts() {
                    if let Node::TableLikeClause(like) = element {
                        named.add_range(like.relation());
                    }
                }
            }
            Node::CreateTableAsStmt(create) => {
                let facts = StatementFacts::of(&Catalogue::default(), [create.query()]);
                for QualifiedName { schema, name } in &facts.reads {
                    if schema.is_some() || !facts.with_names.contains(name) {
                        named.add(schema.as_deref(), name);
                    }
                }
            }
            _ => {}
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_temporary_tables() {
        let own = ["mine", "Yours"];
        for (text, expected) in [
            ("GRANT SELECT ON mine TO ann", TemporaryTableUse::Only),
            (
                "REVOKE ALL ON mine, \"Yours\" FROM PUBLIC",
                TemporaryTableUse::Only,
            ),
            (
                "GRANT SELECT ON pg_temp.other TO ann",
                TemporaryTableUse::Only,
            ),
            (
                "GRANT SELECT ON ALL TABLES IN SCHEMA pg_temp TO ann",
                TemporaryTableUse::Only,
            ),
            (
                "GRANT SELECT ON mine, public.mine TO ann",
                TemporaryTableUse::Some,
            ),
            (
                "GRANT SELECT ON public.mine TO ann",
                TemporaryTableUse::Nothing,
            ),
            (
                "GRANT EXECUTE ON FUNCTION mine() TO ann",
                TemporaryTableUse::Nothing,
            ),
            ("GRANT SELECT ON yours TO ann", TemporaryTableUse::Nothing),
            (
                "CREATE TABLE t (LIKE mine INCLUDING ALL)",
                TemporaryTableUse::Some,
            ),
            ("CREATE TABLE mine (LIKE other)", TemporaryTableUse::Nothing),
            (
                "CREATE TABLE t AS SELECT * FROM other WHERE id IN (SELECT id FROM mine)",
                TemporaryTableUse::Some,
            ),
            (
                "CREATE TABLE t AS WITH mine AS (SELECT 1) SELECT * FROM mine",
                TemporaryTableUse::Nothing,
            ),
            ("CREATE TABLE t AS TABLE pg_temp.x", TemporaryTableUse::Some),
            (
                "CREATE TABLE mine AS SELECT mine.id FROM other AS mine",
                TemporaryTableUse::Nothing,
            ),
        ] {
            assert_eq!(uses(text, &own), expected, "{text}");
        }
    }
}
