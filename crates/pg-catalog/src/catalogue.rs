//! The catalogue of one schema: its rows, made when a statement first asks for them, and the
//! objects that its names and numbers stand for.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use crate::datum::Datum;
use crate::definitions::quoted;
use crate::description::{
    IndexDescription, ObjectRights, Oid, SchemaDescription, SessionDescription, TableDescription,
};
use crate::error::CatalogueError;
use crate::relations;
use crate::rows::{self, PROCEDURES, Row, RowSource, SCHEMAS};
use crate::types;

/// The rows of a relation by the values of one column.
pub(crate) type RowIndex = HashMap<Datum, Vec<usize>>;

/// The catalogue of a schema. Sessions share it while the schema stays the same.
#[derive(Debug)]
pub struct SchemaCatalogue {
    pub(crate) schema: SchemaDescription,
    /// The rows of each relation that depend on no session.
    rows: Vec<OnceLock<Arc<Vec<Row>>>>,
    /// The indexes of these rows, by relation and column.
    indexes: Mutex<HashMap<(usize, usize), Arc<RowIndex>>>,
    /// The relations of the schema: the table, and the index if it is one.
    relations: HashMap<Oid, (usize, Option<usize>)>,
    names: HashMap<String, Oid>,
}

impl SchemaCatalogue {
    /// Returns the catalogue of a schema.
    pub fn new(schema: SchemaDescription) -> SchemaCatalogue {
        let mut known = HashMap::new();
        let mut names = HashMap::new();
        for (at, table) in schema.tables.iter().enumerate() {
            known.insert(table.oid, (at, None));
            names.insert(table.name.clone(), table.oid);
            for (position, index) in table.indexes.iter().enumerate() {
                known.insert(index.oid, (at, Some(position)));
                names.insert(index.name.clone(), index.oid);
            }
        }
        for sequence in &schema.sequences {
            names.insert(sequence.name.clone(), sequence.oid);
        }
        SchemaCatalogue {
            rows: relations::all().iter().map(|_| OnceLock::new()).collect(),
            indexes: Mutex::default(),
            relations: known,
            names,
            schema,
        }
    }

    /// Returns the rows of a relation that depend on no session.
    pub(crate) fn rows(&self, relation: usize) -> Arc<Vec<Row>> {
        let made = self.rows[relation].get_or_init(|| {
            let source = RowSource {
                schema: &self.schema,
                session: &SessionDescription::default(),
            };
            Arc::new(rows::rows(&relations::all()[relation], source))
        });
        Arc::clone(made)
    }

    /// Returns these rows by the values of a column.
    pub(crate) fn index(&self, relation: usize, column: usize) -> Arc<RowIndex> {
        let mut indexes = self
            .indexes
            .lock()
            .expect("nothing panics while it is held");
        let index = indexes.entry((relation, column)).or_insert_with(|| {
            let rows = self.rows(relation);
            Arc::new(index_rows(rows.iter().map(|row| &row[column])))
        });
        Arc::clone(index)
    }

    pub(crate) fn table(&self, oid: Oid) -> Option<&TableDescription> {
        match self.relations.get(&oid) {
            Some((table, None)) => Some(&self.schema.tables[*table]),
            _ => None,
        }
    }

    /// Returns an index and its table.
    pub(crate) fn index_described(
        &self,
        oid: Oid,
    ) -> Option<(&TableDescription, &IndexDescription)> {
        match self.relations.get(&oid) {
            Some((table, Some(index))) => {
                let table = &self.schema.tables[*table];
                Some((table, &table.indexes[*index]))
            }
            _ => None,
        }
    }

    /// Returns the schema and the name of a relation.
    pub(crate) fn relation_name(&self, oid: Oid) -> Option<(&str, &str)> {
        if let Some(table) = self.table(oid) {
            return Some(("public", &table.name));
        }
        if let Some((_, index)) = self.index_described(oid) {
            return Some(("public", &index.name));
        }
        let sequence = self.schema.sequences.iter().find(|it| it.oid == oid);
        if let Some(sequence) = sequence {
            return Some(("public", &sequence.name));
        }
        let system = relations::all().iter().find(|it| it.oid == oid);
        system.map(|it| (it.schema, it.name))
    }

    /// Returns the number of a relation.
    pub(crate) fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<Oid> {
        let system = relations::position(schema, name).map(|at| relations::all()[at].oid);
        match schema {
            None | Some("public") => system
                .filter(|_| schema.is_none())
                .or_else(|| self.names.get(name).copied()),
            Some(_) => system,
        }
    }
}

/// Returns positions by values. NULL is equal to nothing, and has no positions.
pub(crate) fn index_rows<'a>(values: impl Iterator<Item = &'a Datum>) -> RowIndex {
    let mut index = RowIndex::new();
    for (position, value) in values.enumerate() {
        if !value.is_null() {
            index.entry(index_key(value)).or_default().push(position);
        }
    }
    index
}

/// Returns the value by which an index has a value: numbers that are equal are the same.
pub(crate) fn index_key(value: &Datum) -> Datum {
    match value {
        #[allow(clippy::cast_possible_truncation, reason = "it is compared after it")]
        Datum::Float(bits) => {
            let number = f64::from_bits(bits.0);
            let whole = number as i64;
            match Datum::Int(whole).as_float() == Some(number) {
                true => Datum::Int(whole),
                false => value.clone(),
            }
        }
        value => value.clone(),
    }
}

/// The catalogue as a session sees it, for functions and casts.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub catalogue: &'a SchemaCatalogue,
    pub session: &'a SessionDescription,
    /// The time for which the statement sleeps, in microseconds.
    pub sleep_us: &'a AtomicU64,
}

impl Calls<'_> {
    /// Returns whether a schema is in the search path.
    pub(crate) fn sees(&self, schema: &str) -> bool {
        match schema {
            "pg_catalog" => true,
            "public" => self.session.sees_public(),
            _ => false,
        }
    }

    /// Returns the number of a relation. Without a schema it is one of the search path.
    pub(crate) fn relation(&self, schema: Option<&str>, name: &str) -> Option<Oid> {
        let found = self.catalogue.relation_oid(schema, name)?;
        let (of, _) = self.catalogue.relation_name(found)?;
        (schema.is_some() || self.sees(of)).then_some(found)
    }

    /// Returns the rights on a table or a sequence of the schema, or on an index, which has those
    /// of its table; none for a relation of the catalogue.
    pub(crate) fn rights_on(&self, relation: Oid) -> Option<&ObjectRights> {
        if let Some(table) = self.catalogue.table(relation) {
            return Some(&table.rights);
        }
        if let Some((table, _)) = self.catalogue.index_described(relation) {
            return Some(&table.rights);
        }
        let mut sequences = self.catalogue.schema.sequences.iter();
        let found = sequences.find(|it| it.oid == relation);
        found.map(|sequence| &sequence.rights)
    }

    /// Returns the object of a name, as a cast to a type of objects finds it.
    pub(crate) fn object(&self, text: &str, to: Oid) -> Result<Datum, CatalogueError> {
        if text.trim() == "-" {
            return Ok(Datum::oid(0));
        }
        if to == types::REGTYPE {
            return self.type_named(text).map(Datum::oid).ok_or_else(|| {
                CatalogueError::new("42704", format!("type \"{text}\" does not exist"))
            });
        }
        let parts = identifiers(text.split('(').next().unwrap_or_default())?;
        let (schema, name) = match &parts[..] {
            [name] => (None, name),
            [schema, name] | [_, schema, name] => (Some(schema.as_str()), name),
            _ => {
                return Err(CatalogueError::new(
                    "42602",
                    format!("invalid name syntax: {text}"),
                ));
            }
        };
        let in_catalogue = matches!(schema, None | Some("pg_catalog"));
        let (found, code, kind) = match to {
            types::REGCLASS => (self.relation(schema, name), "42P01", "relation"),
            types::REGPROC | types::REGPROCEDURE => {
                let known = PROCEDURES
                    .iter()
                    .find(|it| in_catalogue && it.name == *name);
                (known.map(|it| it.oid), "42883", "function")
            }
            types::REGNAMESPACE => {
                let known = SCHEMAS.iter().find(|it| it.1 == *name);
                (known.map(|it| it.0), "3F000", "schema")
            }
            types::REGROLE => (
                rows::role_oid(&self.catalogue.schema, self.session, name),
                "42704",
                "role",
            ),
            types::REGCOLLATION => {
                let known = match &**name {
                    "default" => Some(100),
                    "C" => Some(950),
                    "POSIX" => Some(951),
                    _ => None,
                };
                (known, "42704", "collation")
            }
            types::REGOPER | types::REGOPERATOR => {
                let known = rows::operators().find(|it| it.1 == *name);
                (known.map(|it| it.0), "42883", "operator")
            }
            _ => (None, "42704", "text search object"),
        };
        found.map(Datum::oid).ok_or_else(|| {
            let name = parts.join(".");
            let message = match kind {
                "function" => format!("function \"{name}\" does not exist"),
                "operator" => format!("operator does not exist: {name}"),
                kind => format!("{kind} \"{name}\" does not exist"),
            };
            CatalogueError::new(code, message)
        })
    }

    /// Returns the type of a name, as a cast to `regtype` finds it.
    pub(crate) fn type_named(&self, text: &str) -> Option<Oid> {
        let text = text.trim();
        if let Some(element) = text.strip_suffix("[]") {
            let element = self.type_named(element)?;
            return types::by_oid(element)
                .map(|it| it.array)
                .filter(|it| *it != 0);
        }
        let plain = match text.split_once('(') {
            Some((name, _)) => name.trim(),
            None => text,
        };
        let plain = plain.strip_prefix("pg_catalog.").unwrap_or(plain);
        match plain.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
            Some(quoted) => types::by_name(quoted),
            None => {
                let name = plain.to_ascii_lowercase();
                match &*name {
                    // The word is that of another type than the one with this name.
                    "char" => types::by_name("bpchar"),
                    name => types::by_name(name),
                }
            }
        }
        .map(|it| it.oid)
    }

    /// Returns the name of an object, as PostgreSQL prints a value of a type of objects.
    pub(crate) fn object_name(&self, oid: Oid, of: Oid) -> String {
        if oid == 0 {
            return "-".into();
        }
        let found = match of {
            types::REGCLASS => {
                self.catalogue
                    .relation_name(oid)
                    .map(|(schema, name)| match self.sees(schema) {
                        true => quoted(name),
                        false => format!("{}.{}", quoted(schema), quoted(name)),
                    })
            }
            types::REGTYPE => types::by_oid(oid).map(|_| types::format_type(oid, None)),
            types::REGPROC => {
                let known = PROCEDURES.iter().find(|it| it.oid == oid);
                known.map(|it| it.name.to_owned())
            }
            types::REGPROCEDURE => {
                let known = PROCEDURES.iter().find(|it| it.oid == oid);
                known.map(|it| {
                    let types = it.arguments.iter().map(|it| types::format_type(*it, None));
                    format!("{}({})", it.name, types.collect::<Vec<_>>().join(","))
                })
            }
            types::REGNAMESPACE => SCHEMAS.iter().find(|it| it.0 == oid).map(|it| quoted(it.1)),
            types::REGROLE => {
                let schema = &self.catalogue.schema;
                rows::role_name(schema, self.session, oid).map(|it| quoted(&it))
            }
            types::REGCOLLATION => match oid {
                100 => Some("\"default\"".to_owned()),
                950 => Some("\"C\"".to_owned()),
                951 => Some("\"POSIX\"".to_owned()),
                _ => None,
            },
            types::REGOPER | types::REGOPERATOR => rows::operators()
                .find(|it| it.0 == oid)
                .map(|it| it.1.to_owned()),
            _ => None,
        };
        found.unwrap_or_else(|| oid.to_string())
    }

    /// Returns the name of a role, or PostgreSQL's text for one that does not exist.
    pub(crate) fn role(&self, oid: Oid) -> String {
        let found = rows::role_name(&self.catalogue.schema, self.session, oid);
        found.unwrap_or_else(|| format!("unknown (OID={oid})"))
    }
}

/// Returns the parts of a qualified name that is a text: in lower case unless in quotes.
fn identifiers(text: &str) -> Result<Vec<String>, CatalogueError> {
    let invalid = || CatalogueError::new("42602", "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let part = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut part = String::new();
                let mut characters = quoted.char_indices().peekable();
                let end = loop {
                    match (characters.next(), characters.peek()) {
                        (Some((_, '"')), Some((_, '"'))) => {
                            characters.next();
                            part.push('"');
                        }
                        (Some((at, '"')), _) => break at,
                        (Some((_, other)), _) => part.push(other),
                        (None, _) => return Err(invalid()),
                    }
                };
                rest = &quoted[end + 1..];
                part
            }
            None => {
                let end = rest.find(['.', '"']).unwrap_or(rest.len());
                let part = rest[..end].trim().to_ascii_lowercase();
                rest = &rest[end..];
                part
            }
        };
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_texts() {
        for (text, expected) in [
            ("Flights", &["flights"][..]),
            ("public.\"Flights\"", &["public", "Flights"]),
            (" a . b ", &["a", "b"]),
            ("\"a\"\"b\"", &["a\"b"]),
        ] {
            assert_eq!(identifiers(text).unwrap(), expected);
        }
        for text in ["", ".", "a.", "\"a", "\"a\"b"] {
            assert!(identifiers(text).is_err(), "{text}");
        }
    }
}
