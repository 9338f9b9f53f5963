//! Comments on a table and its parts: texts for people, which the catalogue of a database shows.
//!
//! No operation depends on them, so they are no part of the schema. The coordinator keeps them with
//! the table.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::constraints::TableConstraints;
use crate::schema::{Constraint, HIDDEN_KEY, Schema, SchemaError};

/// The most bytes of a comment.
pub const COMMENT_BYTES_MAX: usize = 8 << 10;
/// The most bytes of all comments of a table.
pub const COMMENTS_BYTES_MAX: usize = 256 << 10;

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The object.
    pub object: CommentedObject,
    /// The text; not empty.
    pub text: String,
}

/// A table or a part of it. Names are those at the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommentedObject {
    /// The table, or the sequence that it is.
    Table,
    /// The column at a position.
    Column {
        /// The position.
        position: usize,
    },
    /// The index of a name, also that of the primary key.
    Index {
        /// The name.
        name: String,
    },
    /// The constraint of a name, also that of the primary key or of a unique index.
    Constraint {
        /// The name.
        name: String,
    },
}

/// The comments of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableComments(
    /// The comments, by object, ascending. An object has one at most.
    pub Vec<Comment>,
);

impl TableComments {
    /// Gives an object another comment, or none.
    ///
    /// # Errors
    /// The comment, or all of them, would be too long.
    pub fn set(&mut self, object: &CommentedObject, text: Option<&str>) -> Result<(), SchemaError> {
        self.0.retain(|comment| comment.object != *object);
        let text = text.filter(|text| !text.is_empty()).map(String::from);
        self.0.extend(text.map(|text| Comment {
            object: object.clone(),
            text,
        }));
        self.0.sort_by(|one, other| one.object.cmp(&other.object));
        let mut sizes = self.0.iter().map(|comment| comment.text.len());
        if let Some(bytes) = sizes.clone().find(|bytes| *bytes > COMMENT_BYTES_MAX) {
            let message = format!(
                "the comment has {bytes} bytes, the limit is {COMMENT_BYTES_MAX}: shorten it"
            );
            return Err(SchemaError { message });
        }
        let all: usize = sizes.by_ref().sum();
        if all > COMMENTS_BYTES_MAX {
            let message = format!(
                "all comments of a table would have {all} bytes, the limit is \
                 {COMMENTS_BYTES_MAX}: shorten some"
            );
            return Err(SchemaError { message });
        }
        Ok(())
    }

    /// Follows an index or a constraint that has another name.
    pub fn rename(&mut self, before: &str, after: &str) {
        for comment in &mut self.0 {
            if let CommentedObject::Index { name } | CommentedObject::Constraint { name } =
                &mut comment.object
                && name == before
            {
                *name = after.into();
            }
        }
        self.0.sort_by(|one, other| one.object.cmp(&other.object));
    }

    /// Forgets the comments on objects that a table does not have any more.
    pub fn retain_of(&mut self, schema: &Schema) {
        self.0.retain(|comment| schema.has(&comment.object));
    }
}

impl Schema {
    /// Returns the name of the index and the constraint of the primary key; none if statements do
    /// not see the key.
    pub fn primary_key_name(&self) -> Option<String> {
        let is_seen = self.column_index(HIDDEN_KEY).is_none();
        is_seen.then(|| format!("{}_pkey", self.name))
    }

    /// Returns whether there is an object that can have a comment.
    pub fn has(&self, object: &CommentedObject) -> bool {
        let is_primary = |name: &String| self.primary_key_name().as_ref() == Some(name);
        match object {
            CommentedObject::Table => true,
            CommentedObject::Column { position } => {
                let column = self.columns.get(*position);
                column.is_some_and(|column| !column.is_hidden())
            }
            CommentedObject::Index { name } => {
                let mut indexes = self.indexes.iter();
                let mut thin = self.thin.iter();
                indexes.any(|it| it.name == *name)
                    || thin.any(|it| it.name == *name)
                    || is_primary(name)
            }
            CommentedObject::Constraint { name } => {
                let TableConstraints {
                    checks,
                    foreign_keys,
                    ..
                } = &self.constraints;
                let unique = Some(Constraint::Unique);
                let mut indexes = self.indexes.iter();
                let mut thin = self.thin.iter();
                checks.iter().any(|it| it.name == *name)
                    || foreign_keys.iter().any(|it| it.name == *name)
                    || indexes.any(|it| it.name == *name && it.constraint == unique)
                    || thin.any(|it| it.name == *name && it.unique)
                    || is_primary(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_limited_and_follow_names() {
        let index = |name: &str| CommentedObject::Index { name: name.into() };
        let mut comments = TableComments::default();
        let table = CommentedObject::Table;
        comments
            .set(&index("b"), Some("of b"))
            .expect("it is short");
        comments.set(&table, Some("first")).expect("it is short");
        comments.set(&table, Some("second")).expect("it is short");
        comments.rename("b", "a");
        let objects = comments.0.iter().map(|it| (&it.object, &it.text[..]));
        assert!(objects.eq([(&table, "second"), (&index("a"), "of b")]));
        comments.set(&table, Some("")).expect("it goes");
        comments.set(&index("a"), None).expect("it goes");
        assert_eq!(comments, TableComments::default());
        let long = "x".repeat(COMMENT_BYTES_MAX);
        for position in 0..COMMENTS_BYTES_MAX / COMMENT_BYTES_MAX {
            let column = CommentedObject::Column { position };
            comments.set(&column, Some(&long)).expect("there is room");
        }
        let full = comments.clone().set(&table, Some("x")).unwrap_err();
        assert!(full.message.contains("all comments"), "{full}");
        let longer = format!("{long}x");
        let refused = comments.set(&table, Some(&longer)).unwrap_err();
        assert!(refused.message.contains("has 8193 bytes"), "{refused}");
    }
}
