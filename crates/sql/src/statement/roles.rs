//! Statements about roles and privileges, which a server of SQL runs.

use std::fmt;

use protocol::configuration::roles::Privileges;

/// A statement about roles or privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleStatement {
    /// `CREATE ROLE`, `CREATE USER` or `CREATE GROUP`.
    Create {
        /// The name.
        name: String,
        /// The options.
        options: RoleOptions,
    },
    /// `ALTER ROLE`.
    Alter {
        /// The role.
        role: RoleName,
        /// The options.
        options: RoleOptions,
    },
    /// `ALTER ROLE … RENAME TO`.
    Rename {
        /// The role.
        name: String,
        /// The new name.
        to: String,
    },
    /// `DROP ROLE`.
    Drop {
        /// The roles.
        roles: Vec<RoleName>,
        /// Whether they need not exist.
        if_exists: bool,
    },
    /// `GRANT role TO role`, or `REVOKE role FROM role`.
    Membership {
        /// Whether it is a `GRANT`.
        gives: bool,
        /// The roles with the privileges.
        roles: Vec<String>,
        /// Their members.
        members: Vec<RoleName>,
    },
    /// `GRANT … ON … TO`, or `REVOKE … ON … FROM`.
    Privileges {
        /// Whether it is a `GRANT`.
        gives: bool,
        /// The privileges; none is all that there are for the objects.
        privileges: Option<Privileges>,
        /// The objects.
        on: GrantTarget,
        /// The roles.
        grantees: Vec<RoleName>,
    },
    /// `ALTER TABLE … OWNER TO`, or `ALTER SEQUENCE … OWNER TO`.
    SetOwner {
        /// The table or sequence.
        relation: String,
        /// Whether the statement says that it is a sequence.
        is_sequence: bool,
        /// Whether it need not exist.
        if_exists: bool,
        /// The owner.
        owner: RoleName,
    },
}

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleName {
    /// By its name.
    Named(String),
    /// `CURRENT_USER` or `CURRENT_ROLE`.
    Current,
    /// `SESSION_USER`.
    Session,
    /// `PUBLIC`: all roles.
    Public,
}

/// The objects of a `GRANT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantTarget {
    /// Tables. A sequence counts as one, as in PostgreSQL.
    Tables(Vec<String>),
    /// Sequences.
    Sequences(Vec<String>),
    /// `ALL TABLES IN SCHEMA public`.
    AllTables,
    /// `ALL SEQUENCES IN SCHEMA public`.
    AllSequences,
    /// `SCHEMA public`.
    Schema,
}

/// The options of a role, as far as a statement has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `LOGIN` or `NOLOGIN`.
    pub can_login: Option<bool>,
    /// `SUPERUSER` or `NOSUPERUSER`.
    pub is_superuser: Option<bool>,
    /// `PASSWORD`; none within is `PASSWORD NULL`.
    pub password: Option<Option<Secret>>,
    /// `IN ROLE`.
    pub of: Vec<String>,
    /// `ROLE`: its members.
    pub members: Vec<String>,
}

/// A password. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
