//! The part of the primary's catalogue that determines which tables a statement touches.
//!
//! Plain data; `replication` reads it from the primary. Objects that it does not know count as
//! unknown, and statements with unknown objects go to the primary.

use std::collections::{BTreeMap, BTreeSet};

use proxy_core::freshness::{ColumnNumber, TableOid};

/// Object identifiers from here on are users', not PostgreSQL's own: they differ between databases.
pub const FIRST_USER_OID: u32 = 16384;

/// The kind of object that a name in FROM stands for.
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
    /// Its attribute number.
    pub number: ColumnNumber,
    /// Its name.
    pub name: String,
    /// Its type's object identifier.
    pub type_oid: u32,
    /// Whether equal values of its type have equal text: the type is no text, or its collation is
    /// deterministic.
    pub deterministic: bool,
    /// Whether it is an identity that no statement can set.
    pub always_generated: bool,
    /// The operator by which the index of the replica identity finds its values, as SQL, if users
    /// have made it.
    pub key_operator: Option<String>,
}

/// A table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Its number.
    pub table: TableOid,
    /// Its kind.
    pub kind: RelationKind,
    /// Its columns, in order.
    pub columns: Vec<ColumnInfo>,
    /// The canonical key: the columns of its replica identity, as far as it is the primary key.
    pub key: Vec<ColumnNumber>,
    /// Columns of its other unique indexes, by their object identifiers.
    pub unique_keys: Vec<(u32, Vec<ColumnNumber>)>,
    /// Whether its changes come through the slot with a key or as whole rows.
    pub replicated: bool,
    /// Whether its rows are in its partitions.
    pub is_partitioned: bool,
    /// Whether row security decides which rows are seen of it.
    pub row_security: bool,
    /// Whether users' triggers or rules do more than a statement on it shows.
    pub has_triggers: bool,
    /// Whether a column is computed from others.
    pub has_generated: bool,
    /// Tables that inherit from it, or are its partitions, at any depth.
    pub children: Vec<TableOid>,
    /// Tables that a DELETE or a change of a key here may change by foreign keys, at any depth.
    pub cascades: Vec<TableOid>,
}

impl Relation {
    /// Returns the column of this name.
    pub fn column(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the column of this number.
    pub fn column_numbered(&self, number: ColumnNumber) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.number == number)
    }
}

/// Tables, views, functions and operators of one database.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// By schema and name.
    pub relations: BTreeMap<(String, String), Relation>,
    /// Names of functions whose every overload is PostgreSQL's own and immutable.
    pub immutable_functions: BTreeSet<String>,
    /// Names of functions whose every overload is PostgreSQL's own and not volatile: they change
    /// nothing.
    pub steady_functions: BTreeSet<String>,
    /// Names of functions that users have made.
    pub user_functions: BTreeSet<String>,
    /// Names of operators that users have made.
    pub user_operators: BTreeSet<String>,
    /// Names of types that users have made, apart from tables' row types.
    pub user_types: BTreeSet<String>,
    /// Names of domains that have a default, which new columns get.
    pub domains_with_default: BTreeSet<String>,
    /// Whether users have made casts between types.
    pub has_user_casts: bool,
}

impl Catalogue {
    /// Returns the relation that a name stands for. `pg_catalog` comes first unless `path` names
    /// it, as in PostgreSQL.
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

    /// Returns the schema and the name of the relation with this number.
    pub fn name_of(&self, table: TableOid) -> Option<(&str, &str)> {
        let mut names = self.relations.iter();
        let found = names.find(|(_, relation)| relation.table == table);
        found.map(|((schema, name), _)| (&**schema, &**name))
    }

    /// Returns the relation with this number.
    pub fn numbered(&self, table: TableOid) -> Option<&Relation> {
        self.relations
            .values()
            .find(|relation| relation.table == table)
    }
}
