//! The part of the primary's catalogue that determines which tables a statement touches.
//!
//! Plain data; `replication` reads it from the primary. Objects that it does not know count as
//! unknown, and statements with unknown objects go to the primary.

use std::collections::{BTreeMap, BTreeSet};

use proxy_core::freshness::{ColumnNumber, TableOid};

/// The first OID of users' objects. They differ between databases, those of PostgreSQL's own
/// objects do not.
pub const FIRST_USER_OID: u32 = 16384;

/// The kind of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// An ordinary table, or a partitioned one.
    Table,
    /// A view, with its definition in fully qualified names.
    View(String),
    /// Anything else: a sequence, a materialised view, a foreign table, a catalogue.
    Other,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// The column's attribute number.
    pub number: ColumnNumber,
    /// The column's name.
    pub name: String,
    /// The OID of the column's type.
    pub type_oid: u32,
    /// Whether equal values have equal text: its type is no text, or its collation is
    /// deterministic.
    pub deterministic: bool,
    /// Whether the column is an identity column that no statement can set.
    pub always_generated: bool,
    /// The operator with which the index of the replica identity finds its values, as SQL, if users
    /// have created it.
    pub key_operator: Option<String>,
}

/// A table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The relation's OID.
    pub table: TableOid,
    /// The relation's kind.
    pub kind: RelationKind,
    /// The relation's columns, by attribute number.
    pub columns: Vec<ColumnInfo>,
    /// The canonical key: the columns of its replica identity, if that is the primary key.
    pub key: Vec<ColumnNumber>,
    /// The columns of the table's other unique indexes, by the OIDs of the indexes.
    pub unique_keys: Vec<(u32, Vec<ColumnNumber>)>,
    /// Whether the slot delivers the table's changes with a key or as whole rows.
    pub replicated: bool,
    /// Whether the table is partitioned.
    pub is_partitioned: bool,
    /// Whether row security restricts which rows a statement sees.
    pub row_security: bool,
    /// Whether users' triggers or rules add effects to a statement on it.
    pub has_triggers: bool,
    /// Whether a column is computed from others.
    pub has_generated: bool,
    /// The tables that inherit from it or are its partitions, directly or indirectly.
    pub children: Vec<TableOid>,
    /// The tables that a DELETE or a change of a key here may change through foreign keys, directly
    /// or indirectly.
    pub cascades: Vec<TableOid>,
}

impl Relation {
    /// Returns the column with this name.
    pub fn column(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the column with this number.
    pub fn column_numbered(&self, number: ColumnNumber) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.number == number)
    }
}

/// Tables, views, functions and operators of one database.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The relations, by schema and name.
    pub relations: BTreeMap<(String, String), Relation>,
    /// The names of functions whose overloads are all PostgreSQL's own and immutable.
    pub immutable_functions: BTreeSet<String>,
    /// The names of functions whose overloads are all PostgreSQL's own and not volatile, so that
    /// they change nothing.
    pub steady_functions: BTreeSet<String>,
    /// The names of functions that users have created.
    pub user_functions: BTreeSet<String>,
    /// The names of operators that users have created.
    pub user_operators: BTreeSet<String>,
    /// The names of types that users have created, except row types of tables.
    pub user_types: BTreeSet<String>,
    /// The names of domains with a default, which new columns get.
    pub domains_with_default: BTreeSet<String>,
    /// Whether users have created casts between types.
    pub has_user_casts: bool,
}

impl Catalogue {
    /// Returns the relation with a name. `pg_catalog` comes first unless `path` has it, as in
    /// PostgreSQL.
    pub fn resolve(&self, schema: Option<&str>, name: &str, path: &[String]) -> Option<&Relation> {
        let find = |schema: &str| self.relations.get(&(schema.to_owned(), name.to_owned()));
        match schema {
            Some(schema) => find(schema),
            None => {
                let is_named = path.iter().any(|schema| schema == "pg_catalog");
                let catalog = (!is_named).then(|| find("pg_catalog")).flatten();
                catalog.or_else(|| path.iter().find_map(|schema| find(schema)))
            }
        }
    }

    /// Returns whether this schema has a table or a view.
    pub fn has_schema(&self, schema: &str) -> bool {
        let first = (schema.to_owned(), String::new());
        let next = self.relations.range(first..).next();
        next.is_some_and(|((found, _), _)| found == schema)
    }

    /// Returns schema and name of the relation with this OID.
    pub fn name_of(&self, table: TableOid) -> Option<(&str, &str)> {
        let mut names = self.relations.iter();
        let found = names.find(|(_, relation)| relation.table == table);
        found.map(|((schema, name), _)| (&**schema, &**name))
    }

    /// Returns the relation with this OID.
    pub fn numbered(&self, table: TableOid) -> Option<&Relation> {
        self.relations
            .values()
            .find(|relation| relation.table == table)
    }
}
