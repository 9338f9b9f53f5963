//! Roles and their privileges, as the functions and relations about them need them.

use crate::definitions::quoted;
use crate::description::{GrantDescription, ObjectRights, Oid, SchemaDescription};
use crate::error::CatalogueError;

/// The number of the role that owns everything by default, as in a new PostgreSQL.
pub(crate) const OWNER: Oid = 10;
/// The name of this role.
pub(crate) const OWNER_NAME: &str = "postgres";

/// The privileges, by PostgreSQL's letters, in its order.
pub(crate) const PRIVILEGES: [(&str, char); 9] = [
    ("INSERT", 'a'),
    ("SELECT", 'r'),
    ("UPDATE", 'w'),
    ("DELETE", 'd'),
    ("TRUNCATE", 'D'),
    ("REFERENCES", 'x'),
    ("TRIGGER", 't'),
    ("USAGE", 'U'),
    ("CREATE", 'C'),
];
/// The privileges that tables, their columns, sequences and the schema can have.
pub(crate) const TABLE_PRIVILEGES: &[&str] = &[
    "INSERT",
    "SELECT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "REFERENCES",
    "TRIGGER",
];
pub(crate) const COLUMN_PRIVILEGES: &[&str] = &["INSERT", "SELECT", "UPDATE", "REFERENCES"];
pub(crate) const SEQUENCE_PRIVILEGES: &[&str] = &["SELECT", "UPDATE", "USAGE"];
pub(crate) const SCHEMA_PRIVILEGES: &[&str] = &["CREATE", "USAGE"];
/// The letters of all privileges for a table, and for a sequence.
pub(crate) const OF_TABLE: &str = "arwdDxt";
pub(crate) const OF_SEQUENCE: &str = "rwU";

impl ObjectRights {
    /// Returns the owner.
    pub(crate) fn owner(&self) -> Oid {
        self.owner.unwrap_or(OWNER)
    }

    /// Returns the list as PostgreSQL prints it; none if nothing was granted. `all` has the
    /// letters of the owner.
    pub(crate) fn list(&self, schema: &SchemaDescription, all: &str) -> Option<Vec<String>> {
        if self.granted.is_empty() {
            return None;
        }
        let owner = role_text(schema, self.owner());
        let own = format!("{owner}={all}/{owner}");
        let granted = self.granted.iter().map(|grant| {
            let grantee = match grant.grantee {
                0 => String::new(),
                role => role_text(schema, role),
            };
            format!("{grantee}={}/{owner}", grant.letters)
        });
        Some(std::iter::once(own).chain(granted).collect())
    }
}

/// Returns a role's name in a list of privileges.
pub(crate) fn role_text(schema: &SchemaDescription, oid: Oid) -> String {
    let role = schema.roles.iter().find(|role| role.oid == oid);
    match role {
        Some(role) => quoted(&role.name),
        None if oid == OWNER => OWNER_NAME.into(),
        None => oid.to_string(),
    }
}

/// A role that asks, or that a function names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    /// The roles whose privileges it has; none if it has all.
    reach: Option<&'a [Oid]>,
}

impl<'a> Asker<'a> {
    /// Returns the role with this name. A user without a role may do everything.
    pub fn named(schema: &'a SchemaDescription, name: &str) -> Asker<'a> {
        let role = schema.roles.iter().find(|role| role.name == name);
        let role = role.filter(|role| !role.is_superuser);
        let public: Option<&[Oid]> = (name == "public").then_some(&[]);
        Asker {
            reach: role.map(|role| &role.reach[..]).or(public),
        }
    }

    /// Returns whether it has the privileges of a role.
    pub fn reaches(self, role: Oid) -> bool {
        self.reach.is_none_or(|reach| reach.contains(&role))
    }

    /// Returns whether it has one of the privileges that a text lists.
    pub fn has_any(
        self,
        rights: &ObjectRights,
        (wanted, possible): (&str, &[&str]),
    ) -> Result<bool, CatalogueError> {
        let mut has = false;
        for wanted in wanted.split(',') {
            let wanted = wanted.trim().to_ascii_uppercase();
            let (name, grants) = match wanted.strip_suffix(" WITH GRANT OPTION") {
                Some(name) => (name.trim_end(), true),
                None => (&*wanted, false),
            };
            let known = PRIVILEGES.iter().find(|(known, _)| *known == name);
            let Some((_, letter)) = known.filter(|_| possible.contains(&name)) else {
                let text = format!("unrecognized privilege type: \"{wanted}\"");
                return Err(CatalogueError::new("22023", text));
            };
            has |= self.reaches(rights.owner()) || (!grants && self.is_granted(rights, *letter));
        }
        Ok(has)
    }

    fn is_granted(self, rights: &ObjectRights, letter: char) -> bool {
        let counts = |grant: &&GrantDescription| grant.grantee == 0 || self.reaches(grant.grantee);
        let mut grants = rights.granted.iter().filter(counts);
        grants.any(|grant| grant.letters.contains(letter))
    }
}
