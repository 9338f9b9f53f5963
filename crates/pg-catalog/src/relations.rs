//! The relations of `pg_catalog` and `information_schema`: their names, numbers and columns.
//!
//! The list is that of PostgreSQL 15, in `data/relations.tsv`, so that each relation has all of its
//! columns. [`crate::rows`] makes the rows; a relation of which it knows none is empty.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::description::Oid;
use crate::types;

/// The number of schema `pg_catalog`.
pub(crate) const PG_CATALOG: Oid = 11;
/// The number of schema `public`.
pub(crate) const PUBLIC: Oid = 2200;
/// The number of schema `information_schema`.
pub(crate) const INFORMATION_SCHEMA: Oid = 13_207;

/// A relation of the catalogue.
#[derive(Debug)]
pub(crate) struct RelationDefinition {
    pub schema: &'static str,
    pub name: &'static str,
    pub oid: Oid,
    /// `r` for a table, `v` for a view.
    pub kind: char,
    pub columns: Vec<RelationColumn>,
}

/// A column of a relation of the catalogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelationColumn {
    pub name: &'static str,
    pub type_oid: Oid,
    pub not_null: bool,
}

impl RelationDefinition {
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|it| it.name == name)
    }

    pub(crate) fn namespace(&self) -> Oid {
        match self.schema {
            "pg_catalog" => PG_CATALOG,
            _ => INFORMATION_SCHEMA,
        }
    }
}

static RELATIONS: LazyLock<Vec<RelationDefinition>> = LazyLock::new(|| {
    let lines = include_str!("../data/relations.tsv").lines();
    lines.map(definition).collect()
});

static BY_NAME: LazyLock<HashMap<(&'static str, &'static str), usize>> = LazyLock::new(|| {
    let all = RELATIONS.iter().enumerate();
    all.map(|(at, it)| ((it.schema, it.name), at)).collect()
});

fn definition(line: &'static str) -> RelationDefinition {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let [schema, name, oid, kind, columns] = fields[..] else {
        panic!("a relation has five fields: {line}")
    };
    let columns = columns.split(',').map(|column| {
        let (name, type_name) = column.split_once(' ').expect("a column has a type");
        let bare = type_name.strip_suffix('!');
        let found = types::by_name(bare.unwrap_or(type_name));
        RelationColumn {
            name,
            type_oid: found.unwrap_or_else(|| panic!("no type {type_name}")).oid,
            not_null: bare.is_some(),
        }
    });
    RelationDefinition {
        schema,
        name,
        oid: oid.parse().expect("the third field is a number"),
        kind: if kind == "r" { 'r' } else { 'v' },
        columns: columns.collect(),
    }
}

pub(crate) fn all() -> &'static [RelationDefinition] {
    &RELATIONS
}

/// Returns the position of a relation in [`all`]. Without a schema it is one of `pg_catalog`.
pub(crate) fn position(schema: Option<&str>, name: &str) -> Option<usize> {
    let schema = schema.unwrap_or("pg_catalog");
    BY_NAME.get(&(schema, name)).copied()
}
