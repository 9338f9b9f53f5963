//! Changes of roles and privileges. Each is one step: either all of it is done or nothing.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use placement::check_name;

use super::{
    BOOTSTRAP_NAME, GRANTS_MAX, Grant, GrantObject, Grantee, MEMBERSHIPS_MAX, Membership,
    PasswordVerifier, Privileges, ROLES_MAX, Role, RoleId, Roles, VERIFIER_BYTES_MAX,
};
use crate::codec::{wire_enum, wire_struct};
use crate::configuration::PlacedTables;
use crate::identity::TableId;

/// A change of roles and privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleChange {
    /// Creates a role.
    Create {
        /// The role's name.
        name: String,
        /// The attributes. Without others it can neither log in nor do everything.
        attributes: RoleAttributes,
        /// The roles of which it becomes a member.
        of: Vec<String>,
        /// The roles that become members of it.
        members: Vec<String>,
    },
    /// Changes attributes of a role.
    Alter {
        /// The role.
        name: String,
        /// The attributes.
        attributes: RoleAttributes,
    },
    /// Gives a role another name.
    Rename {
        /// The role.
        name: String,
        /// The new name.
        to: String,
    },
    /// Drops roles, with their memberships.
    Drop {
        /// The roles.
        names: Vec<String>,
    },
    /// Makes roles members of other roles.
    Join {
        /// The roles with the privileges.
        roles: Vec<String>,
        /// The roles that become members.
        members: Vec<String>,
    },
    /// Ends memberships.
    Leave {
        /// The roles with the privileges.
        roles: Vec<String>,
        /// The roles that were members.
        members: Vec<String>,
    },
    /// Grants privileges.
    Grant {
        /// The objects, and the privileges for each.
        objects: Vec<(GrantObject, Privileges)>,
        /// The roles; none is the public.
        grantees: Vec<Option<String>>,
    },
    /// Revokes privileges.
    Revoke {
        /// The objects, and the privileges for each.
        objects: Vec<(GrantObject, Privileges)>,
        /// The roles; none is the public.
        grantees: Vec<Option<String>>,
    },
    /// Gives tables and sequences to another owner.
    SetOwner {
        /// The tables and sequences.
        tables: Vec<TableId>,
        /// The owner.
        owner: String,
    },
}

/// Attributes of a role, as far as a statement sets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleAttributes {
    /// Whether a client may log in as the role.
    pub can_login: Option<bool>,
    /// Whether the role may do everything.
    pub is_superuser: Option<bool>,
    /// The password.
    pub password: PasswordChange,
}

/// The password of a changed role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PasswordChange {
    /// It stays.
    #[default]
    Keep,
    /// The role has none.
    Remove,
    /// The role has this one.
    Set(PasswordVerifier),
}

/// Why roles cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleFault {
    /// There is a role with this name.
    Exists(String),
    /// There is no role with this name.
    Missing(String),
    /// The name is PostgreSQL's own.
    Reserved(String),
    /// The name is invalid. Contains the message.
    Name(String),
    /// The role owns tables or has privileges.
    InUse {
        /// The role.
        role: String,
        /// Its tables, and the objects for which it has privileges, for people.
        objects: Vec<String>,
    },
    /// The first role would become a member of itself.
    Circular {
        /// The role that would become a member.
        member: String,
        /// The role of which it would become one.
        role: String,
    },
    /// The role that always exists would change or end.
    Required,
    /// A table or sequence does not exist any more.
    NoTable,
    /// A verifier is too long.
    Verifier,
    /// There would be too many of these.
    Limit(&'static str, usize),
}

impl fmt::Display for RoleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleFault::Exists(name) => write!(f, "role \"{name}\" already exists"),
            RoleFault::Missing(name) => write!(f, "role \"{name}\" does not exist"),
            RoleFault::Reserved(name) => write!(f, "role name \"{name}\" is reserved"),
            RoleFault::Name(message) => f.write_str(message),
            RoleFault::InUse { role, .. } => write!(
                f,
                "role \"{role}\" cannot be dropped because some objects depend on it"
            ),
            RoleFault::Circular { member, role } => {
                write!(f, "role \"{role}\" is a member of role \"{member}\"")
            }
            RoleFault::Required => write!(
                f,
                "role \"{BOOTSTRAP_NAME}\" stays a superuser with this name, because it is required \
                 by the database system"
            ),
            RoleFault::NoTable => f.write_str("a table or sequence was dropped meanwhile"),
            RoleFault::Verifier => write!(
                f,
                "the verifier of a password has at most {VERIFIER_BYTES_MAX} bytes"
            ),
            RoleFault::Limit(what, most) => {
                write!(
                    f,
                    "the store has at most {most} {what}: drop or revoke some"
                )
            }
        }
    }
}

impl core::error::Error for RoleFault {}

impl Roles {
    /// Returns the roles after a change.
    ///
    /// # Errors
    /// The change is impossible, and nothing of it is done.
    pub fn changed(&self, change: &RoleChange, tables: &PlacedTables) -> Result<Roles, RoleFault> {
        let mut roles = self.clone();
        match change {
            RoleChange::Create {
                name,
                attributes,
                of,
                members,
            } => {
                roles.create(name, attributes)?;
                let own = core::slice::from_ref(name);
                roles.join(of, own)?;
                roles.join(own, members)?;
            }
            RoleChange::Alter { name, attributes } => {
                let id = roles.known(name)?;
                if id == RoleId::BOOTSTRAP && attributes.is_superuser == Some(false) {
                    return Err(RoleFault::Required);
                }
                roles.role_mut(id).set(attributes)?;
            }
            RoleChange::Rename { name, to } => {
                let id = roles.known(name)?;
                if id == RoleId::BOOTSTRAP {
                    return Err(RoleFault::Required);
                }
                roles.check_new(to)?;
                roles.role_mut(id).name.clone_from(to);
            }
            RoleChange::Drop { names } => {
                for name in names {
                    roles.drop_role(name, tables)?;
                }
            }
            RoleChange::Join { roles: of, members } => roles.join(of, members)?,
            RoleChange::Leave { roles: of, members } => roles.leave(of, members)?,
            RoleChange::Grant { objects, grantees } => {
                roles.change_grants(tables, objects, grantees, Privileges::with)?;
            }
            RoleChange::Revoke { objects, grantees } => {
                roles.change_grants(tables, objects, grantees, Privileges::without)?;
            }
            RoleChange::SetOwner { tables: own, owner } => {
                let owner = roles.known(owner)?;
                for table in own {
                    tables.get(*table).ok_or(RoleFault::NoTable)?;
                    roles.set_owner(*table, owner);
                }
            }
        }
        Ok(roles)
    }

    /// Returns the number of the role with this name.
    fn known(&self, name: &str) -> Result<RoleId, RoleFault> {
        let found = self.named(name);
        let found = found.ok_or_else(|| RoleFault::Missing(name.into()))?;
        Ok(found.id)
    }

    fn role_mut(&mut self, id: RoleId) -> &mut Role {
        let found = self.all.iter_mut().find(|role| role.id == id);
        found.expect("callers have found it")
    }

    /// Checks that a role can get this name.
    fn check_new(&self, name: &str) -> Result<(), RoleFault> {
        if name.starts_with("pg_") || matches!(name, "public" | "none") {
            return Err(RoleFault::Reserved(name.into()));
        }
        check_name("role", name).map_err(|error| RoleFault::Name(error.message))?;
        match self.named(name) {
            Some(_) => Err(RoleFault::Exists(name.into())),
            None => Ok(()),
        }
    }

    fn create(&mut self, name: &str, attributes: &RoleAttributes) -> Result<(), RoleFault> {
        self.check_new(name)?;
        if self.all.len() >= ROLES_MAX {
            return Err(RoleFault::Limit("roles", ROLES_MAX));
        }
        let mut role = Role {
            id: RoleId(self.next),
            name: name.into(),
            can_login: false,
            is_superuser: false,
            password: None,
        };
        role.set(attributes)?;
        self.next += 1;
        self.all.push(role);
        Ok(())
    }

    fn drop_role(&mut self, name: &str, tables: &PlacedTables) -> Result<(), RoleFault> {
        let id = self.known(name)?;
        if id == RoleId::BOOTSTRAP {
            return Err(RoleFault::Required);
        }
        let name_of = |table: TableId| {
            let schema = tables.get(table).map(|table| &table.schema);
            schema.map_or_else(String::new, |schema| match schema.sequence {
                Some(_) => format!("sequence {}", schema.name),
                None => format!("table {}", schema.name),
            })
        };
        let owned = self.owners.iter().filter(|it| it.owner == id);
        let owned = owned.map(|it| format!("owner of {}", name_of(it.table)));
        let granted = self.grants.iter();
        let granted = granted.filter(|grant| grant.grantee == Grantee::Role(id));
        let granted = granted.map(|grant| match grant.object {
            GrantObject::Schema => String::from("privileges for schema public"),
            GrantObject::Relation(table) => format!("privileges for {}", name_of(table)),
        });
        let objects: Vec<String> = owned.chain(granted).collect();
        if !objects.is_empty() {
            let role = name.into();
            return Err(RoleFault::InUse { role, objects });
        }
        self.all.retain(|role| role.id != id);
        let names = |it: &Membership| it.role == id || it.member == id;
        self.memberships.retain(|it| !names(it));
        Ok(())
    }

    fn join(&mut self, roles: &[String], members: &[String]) -> Result<(), RoleFault> {
        for role_name in roles {
            let role = self.known(role_name)?;
            for member_name in members {
                let member = self.known(member_name)?;
                if self.reach(role).contains(&member) {
                    return Err(RoleFault::Circular {
                        member: member_name.clone(),
                        role: role_name.clone(),
                    });
                }
                let membership = Membership { role, member };
                if let Err(at) = self.memberships.binary_search(&membership) {
                    self.memberships.insert(at, membership);
                }
            }
        }
        match self.memberships.len() > MEMBERSHIPS_MAX {
            true => Err(RoleFault::Limit("memberships of roles", MEMBERSHIPS_MAX)),
            false => Ok(()),
        }
    }

    fn leave(&mut self, roles: &[String], members: &[String]) -> Result<(), RoleFault> {
        for role in roles {
            let role = self.known(role)?;
            for member in members {
                let member = self.known(member)?;
                let ended = Membership { role, member };
                self.memberships.retain(|it| *it != ended);
            }
        }
        Ok(())
    }

    fn change_grants(
        &mut self,
        tables: &PlacedTables,
        objects: &[(GrantObject, Privileges)],
        grantees: &[Option<String>],
        change: impl Fn(Privileges, Privileges) -> Privileges,
    ) -> Result<(), RoleFault> {
        let mut known = BTreeSet::new();
        for grantee in grantees {
            known.insert(match grantee {
                None => Grantee::Public,
                Some(name) => Grantee::Role(self.known(name)?),
            });
        }
        for (object, privileges) in objects {
            let possible = match object {
                GrantObject::Schema => Privileges::OF_SCHEMA,
                GrantObject::Relation(table) => {
                    let table = tables.get(*table).ok_or(RoleFault::NoTable)?;
                    match table.schema.sequence {
                        Some(_) => Privileges::OF_SEQUENCE,
                        None => Privileges::OF_TABLE,
                    }
                }
            };
            let owner = match object {
                GrantObject::Schema => RoleId::BOOTSTRAP,
                GrantObject::Relation(table) => self.owner(*table),
            };
            // The owner needs none, and loses none.
            let others = known.iter().filter(|it| **it != Grantee::Role(owner));
            for grantee in others {
                let grants = &mut self.grants;
                let found =
                    grants.binary_search_by(|it| (it.object, it.grantee).cmp(&(*object, *grantee)));
                let before = found.map_or(Privileges::NONE, |at| grants[at].privileges);
                let after = change(before, privileges.common(possible));
                let grant = Grant {
                    object: *object,
                    grantee: *grantee,
                    privileges: after,
                };
                match (found, after.is_empty()) {
                    (Ok(at), true) => drop(grants.remove(at)),
                    (Ok(at), false) => grants[at] = grant,
                    (Err(_), true) => {}
                    (Err(at), false) => grants.insert(at, grant),
                }
            }
        }
        match self.grants.len() > GRANTS_MAX {
            true => Err(RoleFault::Limit("grants of privileges", GRANTS_MAX)),
            false => Ok(()),
        }
    }
}

impl Role {
    fn set(&mut self, attributes: &RoleAttributes) -> Result<(), RoleFault> {
        self.can_login = attributes.can_login.unwrap_or(self.can_login);
        self.is_superuser = attributes.is_superuser.unwrap_or(self.is_superuser);
        match &attributes.password {
            PasswordChange::Keep => {}
            PasswordChange::Remove => self.password = None,
            PasswordChange::Set(verifier) if verifier.0.len() > VERIFIER_BYTES_MAX => {
                return Err(RoleFault::Verifier);
            }
            PasswordChange::Set(verifier) => self.password = Some(verifier.clone()),
        }
        Ok(())
    }
}

wire_enum!(RoleChange {
    0 => Create { name, attributes, of, members }, 1 => Alter { name, attributes },
    2 => Rename { name, to }, 3 => Drop { names }, 4 => Join { roles, members },
    5 => Leave { roles, members }, 6 => Grant { objects, grantees },
    7 => Revoke { objects, grantees }, 8 => SetOwner { tables, owner },
});
wire_struct!(RoleAttributes {
    can_login,
    is_superuser,
    password
});
wire_enum!(PasswordChange { 0 => Keep, 1 => Remove, 2 => Set(verifier) });
