//! Notes about changes of roles and privileges, for the operator's log. They have no passwords.

use std::net::IpAddr;

use protocol::configuration::roles::Privileges;
use sql::statement::{GrantTarget, RoleName, RoleOptions, RoleStatement};

/// A change of roles or privileges.
#[derive(Debug)]
pub struct RoleNote<'a> {
    /// The user that has logged in.
    pub user: &'a str,
    /// The role by whose rights the statement ran.
    pub role: &'a str,
    /// The client's address.
    pub from: IpAddr,
    /// The statement, without passwords.
    pub what: &'a str,
}

/// Writes a line to the operator's log.
pub type RoleJournal = fn(&RoleNote<'_>);

/// Where a session notes its changes of roles.
#[derive(Clone, Copy, Debug)]
pub struct SessionAudit {
    /// Writes the note.
    pub journal: RoleJournal,
    /// The client's address.
    pub from: IpAddr,
}

/// Returns a statement as a text without passwords.
pub fn summary(statement: &RoleStatement) -> String {
    let verb = |gives: bool| match gives {
        true => ("GRANT", "TO"),
        false => ("REVOKE", "FROM"),
    };
    match statement {
        RoleStatement::Create { name, options } => {
            format!("CREATE ROLE {name}{}", options_text(options))
        }
        RoleStatement::Alter { role, options } => {
            format!("ALTER ROLE {}{}", role_text(role), options_text(options))
        }
        RoleStatement::Rename { name, to } => format!("ALTER ROLE {name} RENAME TO {to}"),
        RoleStatement::Drop { roles, .. } => format!("DROP ROLE {}", roles_text(roles)),
        RoleStatement::Membership {
            gives,
            roles,
            members,
        } => {
            let (verb, link) = verb(*gives);
            format!("{verb} {} {link} {}", roles.join(", "), roles_text(members))
        }
        RoleStatement::Privileges {
            gives,
            privileges,
            on,
            grantees,
        } => {
            let (verb, link) = verb(*gives);
            let privileges = privileges.map_or_else(|| "ALL".to_owned(), privileges_text);
            let (on, grantees) = (target_text(on), roles_text(grantees));
            format!("{verb} {privileges} ON {on} {link} {grantees}")
        }
        RoleStatement::SetOwner {
            relation,
            is_sequence,
            owner,
            ..
        } => {
            let kind = if *is_sequence { "SEQUENCE" } else { "TABLE" };
            format!("ALTER {kind} {relation} OWNER TO {}", role_text(owner))
        }
    }
}

fn options_text(options: &RoleOptions) -> String {
    let mut text = String::new();
    let flags = [
        (options.can_login, "LOGIN"),
        (options.is_superuser, "SUPERUSER"),
    ];
    for (value, name) in flags {
        match value {
            Some(true) => text += &format!(" {name}"),
            Some(false) => text += &format!(" NO{name}"),
            None => {}
        }
    }
    match &options.password {
        Some(Some(_)) => text += " PASSWORD",
        Some(None) => text += " PASSWORD NULL",
        None => {}
    }
    for (words, names) in [("IN ROLE", &options.of), ("ROLE", &options.members)] {
        if !names.is_empty() {
            text += &format!(" {words} {}", names.join(", "));
        }
    }
    text
}

fn role_text(role: &RoleName) -> &str {
    match role {
        RoleName::Named(name) => name,
        RoleName::Current => "CURRENT_USER",
        RoleName::Session => "SESSION_USER",
        RoleName::Public => "PUBLIC",
    }
}

fn roles_text(roles: &[RoleName]) -> String {
    let roles: Vec<&str> = roles.iter().map(role_text).collect();
    roles.join(", ")
}

fn privileges_text(privileges: Privileges) -> String {
    let names = Privileges::NAMES.into_iter();
    let own = names.filter(|(privilege, _, _)| !privileges.common(*privilege).is_empty());
    let names: Vec<&str> = own.map(|(_, name, _)| name).collect();
    names.join(", ")
}

fn target_text(on: &GrantTarget) -> String {
    match on {
        GrantTarget::Tables(names) => names.join(", "),
        GrantTarget::Sequences(names) => format!("SEQUENCE {}", names.join(", ")),
        GrantTarget::AllTables => "ALL TABLES IN SCHEMA public".into(),
        GrantTarget::AllSequences => "ALL SEQUENCES IN SCHEMA public".into(),
        GrantTarget::Schema => "SCHEMA public".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_have_no_passwords() {
        for (text, expected) in [
            (
                "create user ann password 'secret' in role a, b",
                "CREATE ROLE ann LOGIN PASSWORD IN ROLE a, b",
            ),
            (
                "ALTER ROLE CURRENT_USER NOLOGIN PASSWORD NULL",
                "ALTER ROLE CURRENT_USER NOLOGIN PASSWORD NULL",
            ),
            (
                "GRANT update, select ON TABLE t TO ann, PUBLIC",
                "GRANT SELECT, UPDATE ON t TO ann, PUBLIC",
            ),
            ("REVOKE a FROM b", "REVOKE a FROM b"),
            ("DROP ROLE IF EXISTS a", "DROP ROLE a"),
            ("ALTER TABLE t OWNER TO ann", "ALTER TABLE t OWNER TO ann"),
        ] {
            let pieces = sql::split(text).unwrap();
            let statement = pieces[0].parse_role().unwrap().unwrap();
            assert_eq!(summary(&statement), expected);
        }
    }
}
