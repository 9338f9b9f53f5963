//! Roles, their memberships, the owners of tables, and privileges.
//!
//! They are a part of the configuration, so that each server and client checks statements by its
//! copy. Servers of SQL do so; cores do not look at roles. The list has a small limit
//! ([`ROLES_MAX`], [`GRANTS_MAX`]), because it is sent as a whole whenever it changes.
//!
//! Invariants: each name and number is of one role. Numbers rise and are never reused. The role
//! [`BOOTSTRAP_NAME`] always exists and is a superuser. No role is a member of itself, directly or
//! not. Privileges and owners name roles that exist.

mod change;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use change::{PasswordChange, RoleAttributes, RoleChange, RoleFault};

use super::PlacedTables;
use crate::codec::{wire_enum, wire_newtype, wire_struct};
use crate::identity::{Epoch, TableId};

/// The most roles.
pub const ROLES_MAX: usize = 1000;
/// The most memberships of roles in roles.
pub const MEMBERSHIPS_MAX: usize = 4000;
/// The most pairs of an object and a role, or the public, that has privileges for it.
pub const GRANTS_MAX: usize = 10_000;
/// The longest verifier of a password, in bytes.
pub const VERIFIER_BYTES_MAX: usize = 512;
/// The name of the role that always exists. It owns the tables of sessions without a role.
pub const BOOTSTRAP_NAME: &str = "postgres";
/// The number of the first role that is created, as of objects of users in PostgreSQL.
const FIRST_ROLE: u32 = 16_384;

/// A role's number. Numbers rise and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u32);

impl RoleId {
    /// The role that always exists. It has PostgreSQL's number.
    pub const BOOTSTRAP: RoleId = RoleId(10);
}

impl Default for RoleId {
    fn default() -> RoleId {
        RoleId::BOOTSTRAP
    }
}

/// All roles of a cluster, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The epoch in which this last changed.
    pub epoch: Epoch,
    /// The number of the next new role. It never falls.
    pub next: u32,
    /// The roles, by ascending number.
    pub all: Vec<Role>,
    /// The memberships, ascending.
    pub memberships: Vec<Membership>,
    /// The tables and sequences that do not belong to [`RoleId::BOOTSTRAP`], by ascending table.
    pub owners: Vec<TableOwner>,
    /// The privileges that were granted, ascending. Owners and superusers need none.
    pub grants: Vec<Grant>,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The role's number.
    pub id: RoleId,
    /// The role's name.
    pub name: String,
    /// Whether a client may log in as the role.
    pub can_login: bool,
    /// Whether the role may do everything.
    pub is_superuser: bool,
    /// The verifier of the role's password; none without a password.
    pub password: Option<PasswordVerifier>,
}

/// A verifier of a password, as PostgreSQL writes it: `SCRAM-SHA-256$…`. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordVerifier(pub String);

impl fmt::Debug for PasswordVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordVerifier")
    }
}

/// A role that has the privileges of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Membership {
    /// The role that has the privileges of the other one.
    pub member: RoleId,
    /// The other one.
    pub role: RoleId,
}

/// The owner of a table or sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableOwner {
    /// The table.
    pub table: TableId,
    /// The owner.
    pub owner: RoleId,
}

/// An object for which roles can have privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GrantObject {
    /// The schema of all tables.
    Schema,
    /// A table or a sequence.
    Relation(TableId),
}

/// The role, or the roles, with privileges for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grantee {
    /// All roles.
    Public,
    /// One role and its members.
    Role(RoleId),
}

/// The privileges of one grantee for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The object.
    pub object: GrantObject,
    /// The grantee.
    pub grantee: Grantee,
    /// The privileges: at least one.
    pub privileges: Privileges,
}

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Privileges(pub u16);

impl Privileges {
    /// Nothing.
    pub const NONE: Privileges = Privileges(0);
    /// `INSERT`.
    pub const INSERT: Privileges = Privileges(1);
    /// `SELECT`.
    pub const SELECT: Privileges = Privileges(1 << 1);
    /// `UPDATE`.
    pub const UPDATE: Privileges = Privileges(1 << 2);
    /// `DELETE`.
    pub const DELETE: Privileges = Privileges(1 << 3);
    /// `TRUNCATE`.
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    /// `REFERENCES`.
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    /// `TRIGGER`. Nothing needs it.
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    /// `USAGE`.
    pub const USAGE: Privileges = Privileges(1 << 7);
    /// `CREATE`.
    pub const CREATE: Privileges = Privileges(1 << 8);
    /// All privileges for a table.
    pub const OF_TABLE: Privileges = Privileges(0b111_1111);
    /// All privileges for a sequence.
    pub const OF_SEQUENCE: Privileges =
        Privileges(Privileges::SELECT.0 | Privileges::UPDATE.0 | Privileges::USAGE.0);
    /// All privileges for the schema.
    pub const OF_SCHEMA: Privileges = Privileges(Privileges::USAGE.0 | Privileges::CREATE.0);
    /// Each privilege, its name, and PostgreSQL's letter, in PostgreSQL's order.
    pub const NAMES: [(Privileges, &'static str, char); 9] = [
        (Privileges::INSERT, "INSERT", 'a'),
        (Privileges::SELECT, "SELECT", 'r'),
        (Privileges::UPDATE, "UPDATE", 'w'),
        (Privileges::DELETE, "DELETE", 'd'),
        (Privileges::TRUNCATE, "TRUNCATE", 'D'),
        (Privileges::REFERENCES, "REFERENCES", 'x'),
        (Privileges::TRIGGER, "TRIGGER", 't'),
        (Privileges::USAGE, "USAGE", 'U'),
        (Privileges::CREATE, "CREATE", 'C'),
    ];

    /// Returns the privilege of this name, in any case.
    pub fn named(name: &str) -> Option<Privileges> {
        let mut names = Privileges::NAMES.into_iter();
        let found = names.find(|(_, known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(privilege, _, _)| privilege)
    }

    /// Returns the privileges of both sets.
    pub const fn with(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// Returns the privileges that both sets have.
    pub const fn common(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// Returns the privileges that the other set does not have.
    pub const fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the letters of the privileges, in PostgreSQL's order.
    pub fn letters(self) -> String {
        let names = Privileges::NAMES.into_iter();
        let own = names.filter(|(privilege, _, _)| !self.common(*privilege).is_empty());
        own.map(|(_, _, letter)| letter).collect()
    }
}

impl Default for Roles {
    fn default() -> Roles {
        Roles {
            epoch: Epoch::default(),
            next: FIRST_ROLE,
            all: Vec::from([Role {
                id: RoleId::BOOTSTRAP,
                name: String::from(BOOTSTRAP_NAME),
                can_login: true,
                is_superuser: true,
                password: None,
            }]),
            memberships: Vec::new(),
            owners: Vec::new(),
            grants: Vec::new(),
        }
    }
}

impl Roles {
    /// Returns the role with this name.
    pub fn named(&self, name: &str) -> Option<&Role> {
        self.all.iter().find(|role| role.name == name)
    }

    /// Returns the role with this number.
    pub fn role(&self, id: RoleId) -> Option<&Role> {
        let found = self.all.binary_search_by_key(&id, |role| role.id);
        found.ok().map(|position| &self.all[position])
    }

    /// Returns the roles whose privileges a role has: itself, and those of which it is a member,
    /// directly or not.
    pub fn reach(&self, id: RoleId) -> BTreeSet<RoleId> {
        let mut reached = BTreeSet::from([id]);
        let mut open = Vec::from([id]);
        // Each role is open at most once.
        while let Some(member) = open.pop() {
            let own = self.memberships_of(member).map(|it| it.role);
            open.extend(own.filter(|role| reached.insert(*role)));
        }
        reached
    }

    /// Returns the memberships of a role in others.
    fn memberships_of(&self, member: RoleId) -> impl Iterator<Item = &Membership> {
        let first = self.memberships.partition_point(|it| it.member < member);
        let from = self.memberships[first..].iter();
        from.take_while(move |it| it.member == member)
    }

    /// Returns whether no role is a member of itself. Removes roles that have no members, until
    /// only those of circles are left.
    fn is_without_circles(&self) -> bool {
        let mut members: BTreeMap<RoleId, usize> = BTreeMap::new();
        for membership in &self.memberships {
            *members.entry(membership.role).or_default() += 1;
        }
        let roles = self.all.iter().map(|role| role.id);
        let mut open: Vec<RoleId> = roles.filter(|id| !members.contains_key(id)).collect();
        let mut ended = 0;
        while let Some(member) = open.pop() {
            for membership in self.memberships_of(member) {
                ended += 1;
                let left = members.get_mut(&membership.role).expect("it was counted");
                *left -= 1;
                if *left == 0 {
                    open.push(membership.role);
                }
            }
        }
        ended == self.memberships.len()
    }

    /// Returns the owner of a table or sequence.
    pub fn owner(&self, table: TableId) -> RoleId {
        let found = self.owners.binary_search_by_key(&table, |it| it.table);
        found.map_or(RoleId::BOOTSTRAP, |position| self.owners[position].owner)
    }

    /// Returns the privileges for an object that were granted to one of these roles or to the
    /// public. Everybody may use the schema.
    pub fn granted(&self, object: GrantObject, reach: &BTreeSet<RoleId>) -> Privileges {
        let mut found = match object {
            GrantObject::Schema => Privileges::USAGE,
            GrantObject::Relation(_) => Privileges::NONE,
        };
        for grant in self.grants_of(object) {
            let counts = match grant.grantee {
                Grantee::Public => true,
                Grantee::Role(role) => reach.contains(&role),
            };
            if counts {
                found = found.with(grant.privileges);
            }
        }
        found
    }

    /// Returns the privileges that were granted for an object.
    pub fn grants_of(&self, object: GrantObject) -> impl Iterator<Item = &Grant> {
        let first = self.grants.partition_point(|grant| grant.object < object);
        let from = self.grants[first..].iter();
        from.take_while(move |grant| grant.object == object)
    }

    /// Returns whether a client can log in as some role by a password. Then all clients must.
    pub fn has_passwords(&self) -> bool {
        let mut roles = self.all.iter();
        roles.any(|role| role.can_login && role.password.is_some())
    }

    /// Makes a role the owner of a table or sequence. The owner needs no privileges.
    pub fn set_owner(&mut self, table: TableId, owner: RoleId) {
        self.owners.retain(|it| it.table != table);
        let object = GrantObject::Relation(table);
        let grantee = Grantee::Role(owner);
        self.grants
            .retain(|grant| (grant.object, grant.grantee) != (object, grantee));
        if owner != RoleId::BOOTSTRAP {
            let at = self.owners.partition_point(|it| it.table < table);
            self.owners.insert(at, TableOwner { table, owner });
        }
    }

    /// Returns whether something is known about a table, so that [`Roles::forget`] and
    /// [`Roles::follow`] would change it.
    pub fn names_table(&self, table: TableId) -> bool {
        let mut grants = self.grants_of(GrantObject::Relation(table));
        self.owner(table) != RoleId::BOOTSTRAP || grants.next().is_some()
    }

    /// Removes the owner and the privileges of a table that was dropped.
    pub fn forget(&mut self, table: TableId) {
        self.owners.retain(|it| it.table != table);
        let object = GrantObject::Relation(table);
        self.grants.retain(|grant| grant.object != object);
    }

    /// Gives the owner and the privileges of a table to the one that takes its place.
    pub fn follow(&mut self, before: TableId, after: TableId) {
        let owner = self.owner(before);
        for grant in &mut self.grants {
            if grant.object == GrantObject::Relation(before) {
                grant.object = GrantObject::Relation(after);
            }
        }
        self.grants.sort_unstable();
        self.forget(before);
        self.set_owner(after, owner);
    }

    /// Returns the first inconsistency, if there is one.
    pub(super) fn check(&self, tables: &PlacedTables) -> Result<(), &'static str> {
        if !self.all.is_sorted_by(|a, b| a.id < b.id) {
            return Err("roles are out of order");
        }
        let bootstrap = self.role(RoleId::BOOTSTRAP);
        if !bootstrap.is_some_and(|it| it.is_superuser && it.name == BOOTSTRAP_NAME) {
            return Err("the first role is not there");
        }
        let names: BTreeSet<&str> = self.all.iter().map(|role| &*role.name).collect();
        if names.len() < self.all.len() {
            return Err("two roles have one name");
        }
        if self.all.last().is_some_and(|last| last.id.0 >= self.next) || self.next >> 31 != 0 {
            return Err("the number of a role would be given twice");
        }
        if self.all.len() > ROLES_MAX
            || self.memberships.len() > MEMBERSHIPS_MAX
            || self.grants.len() > GRANTS_MAX
        {
            return Err("there are more roles or privileges than the limit");
        }
        let exists = |id: RoleId| self.role(id).is_some();
        let is_known = |it: &Membership| exists(it.role) && exists(it.member);
        if !self.memberships.is_sorted_by(|a, b| a < b) || !self.memberships.iter().all(is_known) {
            return Err("memberships are out of order, or of roles that do not exist");
        }
        if !self.is_without_circles() {
            return Err("a role is a member of itself");
        }
        let is_owned = |it: &TableOwner| exists(it.owner) && tables.get(it.table).is_some();
        let in_order = self.owners.is_sorted_by(|a, b| a.table < b.table);
        if !in_order || !self.owners.iter().all(is_owned) {
            return Err("owners are out of order, or of tables or roles that do not exist");
        }
        let key = |grant: &Grant| (grant.object, grant.grantee);
        if !self.grants.is_sorted_by(|a, b| key(a) < key(b)) {
            return Err("privileges are out of order");
        }
        let is_granted = |grant: &Grant| {
            let is_object = match grant.object {
                GrantObject::Schema => true,
                GrantObject::Relation(table) => tables.get(table).is_some(),
            };
            let is_role = match grant.grantee {
                Grantee::Public => true,
                Grantee::Role(role) => exists(role),
            };
            let all = Privileges::OF_TABLE.with(Privileges::OF_SCHEMA);
            let is_set = !grant.privileges.is_empty() && grant.privileges.without(all).is_empty();
            is_object && is_role && is_set
        };
        match self.grants.iter().all(is_granted) {
            true => Ok(()),
            false => Err("privileges are of objects or roles that do not exist"),
        }
    }
}

wire_newtype!(RoleId, Privileges, PasswordVerifier);
wire_struct!(Roles {
    epoch,
    next,
    all,
    memberships,
    owners,
    grants
});
wire_struct!(Role {
    id,
    name,
    can_login,
    is_superuser,
    password
});
wire_struct!(Membership { member, role });
wire_struct!(TableOwner { table, owner });
wire_enum!(GrantObject { 0 => Schema, 1 => Relation(table) });
wire_enum!(Grantee { 0 => Public, 1 => Role(role) });
wire_struct!(Grant {
    object,
    grantee,
    privileges
});

#[cfg(test)]
mod tests;
