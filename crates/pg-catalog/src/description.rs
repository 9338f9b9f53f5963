//! The description of a schema and of a session, from which the catalogue is made.
//!
//! The catalogue knows nothing of the store. A server fills in these plain structures; a new kind
//! of object is a new field here and rows of it in [`crate::rows`].

/// PostgreSQL's number of an object.
pub type Oid = u32;

/// The objects of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaDescription {
    /// The tables of schema `public`, by name.
    pub tables: Vec<TableDescription>,
    /// The sequences, by name.
    pub sequences: Vec<SequenceDescription>,
    /// The comments on these objects and their parts.
    pub comments: Vec<CommentDescription>,
    /// The roles. A user that has none may do everything.
    pub roles: Vec<RoleDescription>,
    /// The privileges for schema `public` that were granted.
    pub granted: Vec<GrantDescription>,
}

/// A comment on an object or on a column of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommentDescription {
    /// The number of the object.
    pub oid: Oid,
    /// Whether the object is a constraint. Otherwise it is a table, an index or a sequence.
    pub is_constraint: bool,
    /// The number of the column, from 1; 0 if the comment is on the object itself.
    pub column: usize,
    /// The text.
    pub text: String,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleDescription {
    /// The role's number.
    pub oid: Oid,
    /// The role's name.
    pub name: String,
    /// Whether a client may log in as the role.
    pub can_login: bool,
    /// Whether the role may do everything.
    pub is_superuser: bool,
    /// The roles of which it is a member.
    pub memberships: Vec<Oid>,
    /// The role, and those of which it is a member, directly or not.
    pub reach: Vec<Oid>,
}

/// The owner of a table or sequence, and the privileges for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRights {
    /// The owner; none is `postgres`.
    pub owner: Option<Oid>,
    /// The privileges that were granted.
    pub granted: Vec<GrantDescription>,
}

/// The privileges that one role has for an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantDescription {
    /// The role; 0 is the public.
    pub grantee: Oid,
    /// PostgreSQL's letters of the privileges, in its order.
    pub letters: String,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableDescription {
    /// The table's number.
    pub oid: Oid,
    /// The table's name.
    pub name: String,
    /// The columns, in order.
    pub columns: Vec<DescribedColumn>,
    /// The primary key and the indexes.
    pub indexes: Vec<IndexDescription>,
    /// The CHECK constraints.
    pub checks: Vec<CheckDescription>,
    /// The foreign keys.
    pub foreign_keys: Vec<ForeignKeyDescription>,
    /// The owner and the privileges.
    pub rights: ObjectRights,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedColumn {
    /// The column's name.
    pub name: String,
    /// The type's number.
    pub type_oid: Oid,
    /// The type's modifier, such as the length of a text and four; -1 if it has none.
    pub type_modifier: i32,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// The default, or the expression of a generated column, as PostgreSQL prints it.
    pub default: Option<String>,
    /// The number of the default.
    pub default_oid: Oid,
    /// PostgreSQL's letter of an identity column, `a` or `d`; none if it is none. Such a column has
    /// no default.
    pub identity: Option<char>,
    /// Whether the column is computed from the others.
    pub is_generated: bool,
    /// Whether statements do not see the column. It looks like a column that was dropped.
    pub is_hidden: bool,
}

/// A sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceDescription {
    /// The sequence's number.
    pub oid: Oid,
    /// The sequence's name.
    pub name: String,
    /// The number of the type of its values.
    pub type_oid: Oid,
    /// The first value.
    pub start: i64,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    /// The distance between two values.
    pub increment: i64,
    /// The values that a session draws at a time.
    pub cache: i64,
    /// Whether the values begin again after the last one.
    pub cycles: bool,
    /// The table and the column with which the sequence is dropped.
    pub owner: Option<(String, String)>,
    /// The owner and the privileges.
    pub rights: ObjectRights,
}

/// The primary key of a table, or an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexDescription {
    /// The index's number.
    pub oid: Oid,
    /// The number of the constraint that the index is made for; 0 if there is none.
    pub constraint_oid: Oid,
    /// The index's name.
    pub name: String,
    /// Whether it is the primary key.
    pub is_primary: bool,
    /// Whether no two rows have the same key.
    pub is_unique: bool,
    /// The columns of the key.
    pub keys: Vec<IndexKey>,
    /// Further columns, as positions in the table.
    pub included: Vec<usize>,
}

/// A column of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexKey {
    /// The column's position in the table.
    pub column: usize,
    /// Whether it is sorted from large to small.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// A CHECK constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckDescription {
    /// The constraint's number.
    pub oid: Oid,
    /// The constraint's name.
    pub name: String,
    /// The condition as PostgreSQL prints it, in parentheses.
    pub condition: String,
    /// The columns of the condition, as positions in the table.
    pub columns: Vec<usize>,
    /// Whether all rows are known to satisfy it.
    pub is_valid: bool,
}

/// A foreign key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeyDescription {
    /// The constraint's number.
    pub oid: Oid,
    /// The constraint's name.
    pub name: String,
    /// The columns that refer, as positions in the table.
    pub columns: Vec<usize>,
    /// The name of the table that is referred to.
    pub parent: String,
    /// PostgreSQL's letter of the action on a change of the parent's key: `a`, `r`, `c` or `n`.
    pub on_update: char,
    /// PostgreSQL's letter of the action on a deletion of the parent.
    pub on_delete: char,
    /// Whether a transaction may postpone the check.
    pub is_deferrable: bool,
    /// Whether the check is postponed unless a transaction asks for another time.
    pub is_deferred: bool,
    /// Whether all rows are known to satisfy it.
    pub is_valid: bool,
}

/// The session that asks, and its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionDescription {
    /// The name of the user by whose rights statements run.
    pub user: String,
    /// The name of the session's user; empty if it is the same.
    pub session_user: String,
    /// The database's name.
    pub database: String,
    /// The session's number, in place of PostgreSQL's process number.
    pub process: u32,
    /// The users that the server knows.
    pub users: Vec<String>,
    /// The settings and their values.
    pub settings: Vec<(String, String)>,
    /// The time at which the statement began, in microseconds since 1970.
    pub now_us: i64,
    /// The time at which the server started, in microseconds since 1970.
    pub started_us: i64,
}

impl SessionDescription {
    /// Returns the value of a setting.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let mut settings = self.settings.iter();
        let found = settings.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// Returns whether names without a schema are those of schema `public`.
    pub(crate) fn sees_public(&self) -> bool {
        let path = self.setting("search_path").unwrap_or("public");
        path.split(',')
            .any(|it| it.trim().trim_matches('"') == "public")
    }
}
