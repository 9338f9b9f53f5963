//! Statements about roles and privileges: who may run them, and the changes that they are.
//!
//! A statement is checked by the newest configuration, and the coordinator makes the change in one
//! step, at once. It is part of no transaction. A password becomes a verifier here and goes no
//! further.

use bytes::BytesMut;
use pg_auth::scram::ScramVerifier;
use pg_wire::report::{Report, Severity};
use protocol::configuration::roles::{
    BOOTSTRAP_NAME, GrantObject, PasswordChange, PasswordVerifier, Privileges, Role,
    RoleAttributes, RoleChange, RoleFault,
};
use protocol::configuration::{Configuration, PlacedTable};
use sql::statement::{GrantTarget, RoleName, RoleOptions, RoleStatement};
use sql::{RoleRights, SqlError, Store, sqlstate};

use super::ClientSession;
use super::run::Ran;
use crate::audit::{self, RoleNote};
use crate::errors::{self, READ_ONLY, SUCCESS, StatementScope, error, unsupported};

/// SQLSTATE: a warning.
const WARNING: &str = "01000";
/// SQLSTATE: a warning about privileges that were not granted.
const NOT_GRANTED: &str = "01007";
/// SQLSTATE: a warning about privileges that were not revoked.
const NOT_REVOKED: &str = "01006";
/// SQLSTATE: an object is in use.
const IN_USE: &str = "55006";

/// The change that a statement is, and the notices that the client gets beside the tag.
struct Meaning {
    /// The change; none if nothing is to be done.
    change: Option<RoleChange>,
    notices: Vec<(Severity, &'static str, String)>,
}

impl Meaning {
    fn of(change: RoleChange) -> Meaning {
        Meaning {
            change: Some(change),
            notices: Vec::new(),
        }
    }
}

/// The configuration by which a statement is checked, and the session's roles in it.
struct Actor<'a> {
    configuration: &'a Configuration,
    rights: RoleRights<'a>,
    current: Option<&'a Role>,
    session: Option<&'a Role>,
}

impl<S: Store> ClientSession<S> {
    /// Runs a statement about roles or privileges.
    pub(super) async fn run_roles(
        &mut self,
        statement: &RoleStatement,
        out: &mut BytesMut,
    ) -> Result<Ran, Report> {
        let tag = tag(statement);
        if self.sql.is_read_only() {
            let text = format!("cannot execute {tag} in a read-only transaction");
            return Err(error(READ_ONLY, text));
        }
        let refused = |fault: SqlError| errors::report(&fault, "", StatementScope::Statement);
        let newest = self.sql.store().refresh().await;
        let configuration = newest.map_err(|fault| refused(fault.into()))?;
        self.follow_role()?;
        let current = self.current_role(&configuration.roles)?;
        let rights = RoleRights::of(&configuration, current.map(|role| role.id));
        let actor = Actor {
            rights: rights.map_err(refused)?,
            session: self.session_role(&configuration.roles)?,
            configuration: &configuration,
            current,
        };
        let meaning = actor.meaning(statement)?;
        if let Some(change) = meaning.change {
            // The coordinator checks again, and its error has no SQLSTATE of its own.
            let changed = configuration.roles.changed(&change, &configuration.tables);
            let changed = changed.map_err(|fault| report(&fault))?;
            if changed != *configuration.roles {
                let made = self.sql.store().change_roles(change).await;
                made.map_err(|fault| refused(fault.into()))?;
            }
            (self.audit.journal)(&RoleNote {
                user: &self.identity.user,
                role: self.settings.current_user(),
                from: self.audit.from,
                what: &audit::summary(statement),
            });
        }
        for (severity, code, text) in meaning.notices {
            self.write_notice(severity, code, &text, out);
        }
        Ok(Ran::Done(tag.into()))
    }
}

impl<'a> Actor<'a> {
    /// Returns the change that a statement is.
    ///
    /// # Errors
    /// The role may not make it, or an object does not exist.
    fn meaning(&self, statement: &RoleStatement) -> Result<Meaning, Report> {
        match statement {
            RoleStatement::Create { name, options } => {
                if !self.rights.is_superuser() {
                    return Err(denied(match options.is_superuser {
                        Some(true) => "must be superuser to create superusers",
                        _ => "permission denied to create role",
                    }));
                }
                let (attributes, notice) = attributes(options)?;
                let mut meaning = Meaning::of(RoleChange::Create {
                    name: name.clone(),
                    attributes,
                    of: options.of.clone(),
                    members: options.members.clone(),
                });
                meaning.notices.extend(notice);
                Ok(meaning)
            }
            RoleStatement::Alter { role, options } => self.alter(role, options),
            RoleStatement::Rename { name, to } => self.rename(name, to),
            RoleStatement::Drop { roles, if_exists } => self.drop_roles(roles, *if_exists),
            RoleStatement::Membership {
                gives,
                roles,
                members,
            } => self.membership(*gives, roles, members),
            RoleStatement::Privileges {
                gives,
                privileges,
                on,
                grantees,
            } => self.grant(*gives, (*privileges, on), grantees),
            RoleStatement::SetOwner {
                relation,
                is_sequence,
                if_exists,
                owner,
            } => {
                let found = self.configuration.table_named(relation);
                match found {
                    Some(table) => self.set_owner(table, *is_sequence, owner),
                    None if *if_exists => Ok(Meaning {
                        change: None,
                        notices: vec![(
                            Severity::Notice,
                            SUCCESS,
                            format!("relation \"{relation}\" does not exist, skipping"),
                        )],
                    }),
                    None => Err(no_relation(relation)),
                }
            }
        }
    }

    /// Returns the name of a role that exists.
    fn name(&self, role: &RoleName) -> Result<String, Report> {
        let user = |role: Option<&Role>| {
            let text = "the user of this session has no role: create one with its name";
            let role = role.ok_or_else(|| error(sqlstate::UNDEFINED_OBJECT, text))?;
            Ok(role.name.clone())
        };
        match role {
            RoleName::Current => user(self.current),
            RoleName::Session => user(self.session),
            RoleName::Public => Err(no_role("public")),
            RoleName::Named(name) => Ok(self.role(name)?.name.clone()),
        }
    }

    fn role(&self, name: &str) -> Result<&'a Role, Report> {
        let found = self.configuration.roles.named(name);
        found.ok_or_else(|| no_role(name))
    }

    fn alter(&self, role: &RoleName, options: &RoleOptions) -> Result<Meaning, Report> {
        let name = self.name(role)?;
        let role = self.role(&name)?;
        if !self.rights.is_superuser() {
            if role.is_superuser || options.is_superuser.is_some() {
                return Err(denied(
                    "must be superuser to alter superuser roles or change superuser attribute",
                ));
            }
            // A role may change its own password, and nothing else.
            let is_own = self.current.is_some_and(|current| current.id == role.id);
            if options.can_login.is_some() || options.password.is_none() || !is_own {
                return Err(denied("permission denied"));
            }
        }
        let (attributes, notice) = attributes(options)?;
        let mut meaning = Meaning::of(RoleChange::Alter { name, attributes });
        meaning.notices.extend(notice);
        Ok(meaning)
    }

    fn rename(&self, name: &str, to: &str) -> Result<Meaning, Report> {
        let role = self.role(name)?;
        let is = |other: Option<&Role>| other.is_some_and(|other| other.id == role.id);
        for (is_own, kind) in [(is(self.session), "session"), (is(self.current), "current")] {
            if is_own {
                let text = format!("{kind} user cannot be renamed");
                return Err(error(errors::NOT_SUPPORTED, text));
            }
        }
        if !self.rights.is_superuser() {
            return Err(denied("permission denied to rename role"));
        }
        let (name, to) = (name.to_owned(), to.to_owned());
        Ok(Meaning::of(RoleChange::Rename { name, to }))
    }

    fn drop_roles(&self, roles: &[RoleName], if_exists: bool) -> Result<Meaning, Report> {
        if !self.rights.is_superuser() {
            return Err(denied("permission denied to drop role"));
        }
        let (mut names, mut notices) = (Vec::new(), Vec::new());
        for role in roles {
            let RoleName::Named(name) = role else {
                let text = "cannot use special role specifier in DROP ROLE";
                return Err(error(errors::INVALID_PARAMETER, text));
            };
            let Some(role) = self.configuration.roles.named(name) else {
                if !if_exists {
                    return Err(no_role(name));
                }
                let text = format!("role \"{name}\" does not exist, skipping");
                notices.push((Severity::Notice, SUCCESS, text));
                continue;
            };
            let is = |other: Option<&Role>| other.is_some_and(|other| other.id == role.id);
            if is(self.current) {
                return Err(error(IN_USE, "current user cannot be dropped"));
            }
            if is(self.session) {
                return Err(error(IN_USE, "session user cannot be dropped"));
            }
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let change = (!names.is_empty()).then_some(RoleChange::Drop { names });
        Ok(Meaning { change, notices })
    }

    fn membership(
        &self,
        gives: bool,
        roles: &[String],
        members: &[RoleName],
    ) -> Result<Meaning, Report> {
        let members: Result<Vec<String>, Report> =
            members.iter().map(|member| self.name(member)).collect();
        let members = members?;
        let known = &self.configuration.roles;
        let mut notices = Vec::new();
        for name in roles {
            let role = self.role(name)?;
            if !self.rights.is_superuser() {
                return Err(denied(&match role.is_superuser {
                    true => "must be superuser to alter superusers".to_owned(),
                    false => format!("must have admin option on role \"{name}\""),
                }));
            }
            for member in &members {
                let id = self.role(member)?.id;
                let mut memberships = known.memberships.iter();
                let is_member = memberships.any(|it| (it.member, it.role) == (id, role.id));
                match (gives, is_member) {
                    (true, true) => notices.push((
                        Severity::Notice,
                        SUCCESS,
                        format!("role \"{member}\" is already a member of role \"{name}\""),
                    )),
                    (false, false) => notices.push((
                        Severity::Warning,
                        WARNING,
                        format!("role \"{member}\" is not a member of role \"{name}\""),
                    )),
                    _ => {}
                }
            }
        }
        let roles = roles.to_vec();
        let change = Some(match gives {
            true => RoleChange::Join { roles, members },
            false => RoleChange::Leave { roles, members },
        });
        Ok(Meaning { change, notices })
    }

    fn grant(
        &self,
        gives: bool,
        (privileges, on): (Option<Privileges>, &GrantTarget),
        grantees: &[RoleName],
    ) -> Result<Meaning, Report> {
        let grantees = grantees.iter().map(|grantee| match grantee {
            RoleName::Public => Ok(None),
            role => self.name(role).map(Some),
        });
        let grantees: Vec<Option<String>> = grantees.collect::<Result<_, _>>()?;
        let (mut objects, mut notices) = (Vec::new(), Vec::new());
        for table in self.targets(on)? {
            let (object, name, possible, own) = match table {
                None => {
                    let own = match self.rights.is_superuser() {
                        true => Privileges::OF_SCHEMA,
                        false => Privileges::NONE,
                    };
                    (GrantObject::Schema, "public", Privileges::OF_SCHEMA, own)
                }
                Some(table) => {
                    let possible = possible(table);
                    let own = match self.rights.owns(table.id) {
                        true => possible,
                        false => Privileges::NONE,
                    };
                    if own.is_empty() {
                        let refused = self.rights.check_any(table, possible);
                        refused.map_err(|fault| {
                            errors::report(&fault, "", StatementScope::Statement)
                        })?;
                    }
                    let object = GrantObject::Relation(table.id);
                    (object, &*table.schema.name, possible, own)
                }
            };
            let wanted = privileges.unwrap_or(possible);
            check_kind(wanted, table)?;
            if own.is_empty() {
                let (code, verb) = match gives {
                    true => (NOT_GRANTED, "were granted"),
                    false => (NOT_REVOKED, "could be revoked"),
                };
                let text = format!("no privileges {verb} for \"{name}\"");
                notices.push((Severity::Warning, code, text));
                continue;
            }
            objects.push((object, wanted.common(possible)));
        }
        let change = (!objects.is_empty()).then_some(match gives {
            true => RoleChange::Grant { objects, grantees },
            false => RoleChange::Revoke { objects, grantees },
        });
        Ok(Meaning { change, notices })
    }

    /// Returns the objects of a `GRANT`; none is the schema.
    fn targets(&self, on: &GrantTarget) -> Result<Vec<Option<&'a PlacedTable>>, Report> {
        let all = |is_sequence: bool| {
            let tables = self.configuration.tables.iter();
            let wanted = tables.filter(|it| it.schema.sequence.is_some() == is_sequence);
            wanted.map(Some).collect()
        };
        let named = |name: &String| {
            let found = self.configuration.table_named(name);
            found.ok_or_else(|| no_relation(name))
        };
        match on {
            GrantTarget::Schema => Ok(vec![None]),
            GrantTarget::AllTables => Ok(all(false)),
            GrantTarget::AllSequences => Ok(all(true)),
            GrantTarget::Tables(names) => names.iter().map(|name| named(name).map(Some)).collect(),
            GrantTarget::Sequences(names) => {
                let tables = names.iter().map(|name| {
                    let table = named(name)?;
                    check_is_sequence(table)?;
                    Ok(Some(table))
                });
                tables.collect()
            }
        }
    }

    fn set_owner(
        &self,
        table: &PlacedTable,
        is_sequence: bool,
        owner: &RoleName,
    ) -> Result<Meaning, Report> {
        let name = &table.schema.name;
        if is_sequence {
            check_is_sequence(table)?;
        }
        let rules = table.schema.sequence.as_ref();
        if let Some(column) = rules.and_then(|rules| rules.owner.as_ref()) {
            let text = format!("cannot change owner of sequence \"{name}\"");
            let linked = &column.table;
            return Err(error(errors::NOT_SUPPORTED, text).detail(format!(
                "Sequence \"{name}\" is linked to table \"{linked}\"."
            )));
        }
        let refused = |fault: SqlError| errors::report(&fault, "", StatementScope::Statement);
        self.rights.check_owner(table).map_err(refused)?;
        let owner = match (owner, self.current) {
            // Tables of a user without a role belong to this one.
            (RoleName::Current | RoleName::Session, None) => BOOTSTRAP_NAME.to_owned(),
            (owner, _) => self.name(owner)?,
        };
        if let Some(current) = self.current.filter(|_| !self.rights.is_superuser()) {
            let roles = &self.configuration.roles;
            let new = self.role(&owner)?;
            if !roles.reach(current.id).contains(&new.id) {
                return Err(denied(&format!("must be member of role \"{owner}\"")));
            }
            let creates = RoleRights::of(self.configuration, Some(new.id));
            let creates = creates.and_then(|rights| rights.check_creates());
            creates.map_err(refused)?;
        }
        let tables = self.configuration.tables.iter();
        let owned = tables.filter(|other| {
            let rules = other.schema.sequence.as_ref();
            let column = rules.and_then(|rules| rules.owner.as_ref());
            column.is_some_and(|column| column.table == *name)
        });
        let tables = std::iter::once(table).chain(owned).map(|table| table.id);
        let tables = tables.collect();
        Ok(Meaning::of(RoleChange::SetOwner { tables, owner }))
    }
}

/// Returns the tag of a statement.
fn tag(statement: &RoleStatement) -> &'static str {
    match statement {
        RoleStatement::Create { .. } => "CREATE ROLE",
        RoleStatement::Alter { .. } | RoleStatement::Rename { .. } => "ALTER ROLE",
        RoleStatement::Drop { .. } => "DROP ROLE",
        RoleStatement::Membership { gives: true, .. } => "GRANT ROLE",
        RoleStatement::Membership { gives: false, .. } => "REVOKE ROLE",
        RoleStatement::Privileges { gives: true, .. } => "GRANT",
        RoleStatement::Privileges { gives: false, .. } => "REVOKE",
        RoleStatement::SetOwner {
            is_sequence: true, ..
        } => "ALTER SEQUENCE",
        RoleStatement::SetOwner { .. } => "ALTER TABLE",
    }
}

/// A notice for the client.
type RoleNotice = (Severity, &'static str, String);

/// Returns the attributes that a statement sets, and a notice.
fn attributes(options: &RoleOptions) -> Result<(RoleAttributes, Option<RoleNotice>), Report> {
    let mut notice = None;
    let password = match &options.password {
        None => PasswordChange::Keep,
        Some(None) => PasswordChange::Remove,
        Some(Some(secret)) if secret.0.is_empty() => {
            let text = "empty string is not a valid password, clearing password".to_owned();
            notice = Some((Severity::Notice, SUCCESS, text));
            PasswordChange::Remove
        }
        Some(Some(secret)) => PasswordChange::Set(verifier(&secret.0)?),
    };
    let attributes = RoleAttributes {
        can_login: options.can_login,
        is_superuser: options.is_superuser,
        password,
    };
    Ok((attributes, notice))
}

/// Returns the verifier of a password, or the one that the text is.
fn verifier(secret: &str) -> Result<PasswordVerifier, Report> {
    let is_md5 = |hash: &str| hash.len() == 32 && hash.bytes().all(|it| it.is_ascii_hexdigit());
    if secret.strip_prefix("md5").is_some_and(is_md5) {
        return Err(unsupported(
            "the MD5 hash of a password",
            "Give the password, or a verifier of SCRAM-SHA-256.",
        ));
    }
    let text = match ScramVerifier::parse(secret) {
        Some(_) => secret.to_owned(),
        None => ScramVerifier::text_of_password(secret),
    };
    Ok(PasswordVerifier(text))
}

fn possible(table: &PlacedTable) -> Privileges {
    match table.schema.sequence {
        Some(_) => Privileges::OF_SEQUENCE,
        None => Privileges::OF_TABLE,
    }
}

/// Refuses a privilege that only sequences have for a table.
fn check_kind(wanted: Privileges, table: Option<&PlacedTable>) -> Result<(), Report> {
    let is_table = table.is_some_and(|table| table.schema.sequence.is_none());
    if is_table && !wanted.common(Privileges::USAGE).is_empty() {
        let text = "invalid privilege type USAGE for table";
        return Err(error(sqlstate::INVALID_GRANT, text));
    }
    Ok(())
}

fn check_is_sequence(table: &PlacedTable) -> Result<(), Report> {
    if table.schema.sequence.is_some() {
        return Ok(());
    }
    let text = format!("\"{}\" is not a sequence", table.schema.name);
    Err(error(sqlstate::WRONG_OBJECT, text))
}

fn denied(text: &str) -> Report {
    error(sqlstate::INSUFFICIENT_PRIVILEGE, text)
}

/// Returns the report of a role that does not exist.
pub(super) fn no_role(name: &str) -> Report {
    let text = format!("role \"{name}\" does not exist");
    error(sqlstate::UNDEFINED_OBJECT, text)
}

fn no_relation(name: &str) -> Report {
    let text = format!("relation \"{name}\" does not exist");
    error(sqlstate::UNDEFINED_TABLE, text)
}

/// Returns the report of a change that is impossible.
fn report(fault: &RoleFault) -> Report {
    let (code, detail) = match fault {
        RoleFault::Exists(_) => (sqlstate::DUPLICATE_OBJECT, None),
        RoleFault::Missing(_) => (sqlstate::UNDEFINED_OBJECT, None),
        RoleFault::Reserved(name) => (
            "42939",
            name.starts_with("pg_")
                .then(|| "Role names starting with \"pg_\" are reserved.".to_owned()),
        ),
        RoleFault::Name(_) => (sqlstate::INVALID_NAME, None),
        RoleFault::InUse { objects, .. } => (sqlstate::DEPENDENT_OBJECTS, Some(objects.join("\n"))),
        RoleFault::Circular { .. } => (sqlstate::INVALID_GRANT, None),
        RoleFault::Required => (sqlstate::DEPENDENT_OBJECTS, None),
        RoleFault::NoTable => (sqlstate::UNDEFINED_TABLE, None),
        RoleFault::Verifier => (errors::INVALID_PARAMETER, None),
        RoleFault::Limit(..) => (sqlstate::LIMIT, None),
    };
    let report = error(code, fault.to_string());
    match detail {
        Some(detail) => report.detail(detail),
        None => report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_become_verifiers() {
        let made = verifier("secret").unwrap().0;
        assert!(made.starts_with("SCRAM-SHA-256$4096:") && !made.contains("secret"));
        assert_eq!(verifier(&made).unwrap().0, made, "a verifier is kept");
        assert_ne!(verifier("secret").unwrap().0, made, "each has its own salt");
        let md5 = format!("md5{}", "0".repeat(32));
        assert_eq!(verifier(&md5).unwrap_err().code, "0A000");
    }
}
