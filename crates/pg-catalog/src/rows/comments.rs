//! The rows of `pg_description`: comments on objects.

use super::{Named, int, text};
use crate::datum::Datum;
use crate::description::{CommentDescription, Oid, SchemaDescription};
use crate::relations::PUBLIC;

/// The number of `pg_class`, whose objects are tables, indexes and sequences.
const CLASSES: Oid = 1259;
/// The number of `pg_constraint`.
const CONSTRAINTS: Oid = 2606;
/// The number of `pg_namespace`.
const SCHEMAS: Oid = 2615;
/// The comment that PostgreSQL has on the schema of users.
const OF_PUBLIC: &str = "standard public schema";

pub(super) fn rows(relation: &str, schema: &SchemaDescription) -> Option<Vec<Named>> {
    if relation != "pg_description" {
        return None;
    }
    let own = schema.comments.iter().map(|comment| {
        vec![
            ("objoid", Datum::oid(comment.oid)),
            ("classoid", Datum::oid(class(comment))),
            ("objsubid", int(comment.column)),
            ("description", text(&comment.text)),
        ]
    });
    let of_public = vec![
        ("objoid", Datum::oid(PUBLIC)),
        ("classoid", Datum::oid(SCHEMAS)),
        ("description", text(OF_PUBLIC)),
    ];
    Some(own.chain([of_public]).collect())
}

fn class(comment: &CommentDescription) -> Oid {
    match comment.is_constraint {
        true => CONSTRAINTS,
        false => CLASSES,
    }
}

/// Returns the comment on an object, or on a column of it. `relation` is the catalogue's relation
/// of such objects; none looks in all.
pub(crate) fn comment<'s>(
    schema: &'s SchemaDescription,
    (oid, column): (Oid, usize),
    relation: Option<&str>,
) -> Option<&'s str> {
    let wanted = match relation {
        None => None,
        Some("pg_class") => Some(CLASSES),
        Some("pg_constraint") => Some(CONSTRAINTS),
        Some("pg_namespace") => Some(SCHEMAS),
        Some(_) => return None,
    };
    if oid == PUBLIC && wanted.is_none_or(|it| it == SCHEMAS) && column == 0 {
        return Some(OF_PUBLIC);
    }
    let mut comments = schema.comments.iter();
    let found = comments.find(|comment| {
        let is_of_class = wanted.is_none_or(|it| it == class(comment));
        comment.oid == oid && comment.column == column && is_of_class
    });
    found.map(|comment| &comment.text[..])
}
