//! The rows about the server and its sessions: roles, databases, settings, activity.

use super::{Named, OWNER, OWNER_NAME, RowSource, int, text};
use crate::datum::Datum;
use crate::description::{Oid, SchemaDescription, SessionDescription};

/// The number of the database, as that of `postgres` in a new PostgreSQL.
const DATABASE: Oid = 5;
/// The role that owns schema `public`.
const DATABASE_OWNER: (Oid, &str) = (6171, "pg_database_owner");
/// The number of the default tablespace.
const TABLESPACE: Oid = 1663;

/// A role: everything that `pg_roles` shows of it.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub oid: Oid,
    pub name: String,
    /// Whether sessions of the role can do everything.
    pub is_superuser: bool,
    pub can_login: bool,
}

/// Returns all roles: those of the schema, and the users without one, which may do everything.
pub(crate) fn roles(schema: &SchemaDescription, session: &SessionDescription) -> Vec<Role> {
    let mut names: Vec<&str> = session.users.iter().map(String::as_str).collect();
    names.extend([&*session.user, &*session.session_user]);
    names.sort_unstable();
    names.dedup();
    let fixed = [
        (OWNER, OWNER_NAME, true),
        (DATABASE_OWNER.0, DATABASE_OWNER.1, false),
    ];
    let mut roles: Vec<Role> = fixed
        .into_iter()
        .map(|(oid, name, is_superuser)| Role {
            oid,
            name: name.to_owned(),
            is_superuser,
            can_login: is_superuser,
        })
        .collect();
    let own = schema.roles.iter().filter(|role| role.oid != OWNER);
    roles.extend(own.map(|role| Role {
        oid: role.oid,
        name: role.name.clone(),
        is_superuser: role.is_superuser,
        can_login: role.can_login,
    }));
    for name in names {
        if name.is_empty() || roles.iter().any(|role| role.name == name) {
            continue;
        }
        let oid = role_number(name, &roles);
        roles.push(Role {
            oid,
            name: name.to_owned(),
            is_superuser: true,
            can_login: true,
        });
    }
    roles
}

/// Returns the number of a user: a hash of the name, and the next free number if two are equal.
fn role_number(name: &str, roles: &[Role]) -> Oid {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let mut oid = 16_384 + (hash & 0x3fff_ffff);
    while roles.iter().any(|role| role.oid == oid) {
        oid += 1;
    }
    oid
}

pub(crate) fn role_oid(
    schema: &SchemaDescription,
    session: &SessionDescription,
    name: &str,
) -> Option<Oid> {
    let found = roles(schema, session)
        .into_iter()
        .find(|role| role.name == name);
    found.map(|role| role.oid)
}

pub(crate) fn role_name(
    schema: &SchemaDescription,
    session: &SessionDescription,
    oid: Oid,
) -> Option<String> {
    let found = roles(schema, session)
        .into_iter()
        .find(|role| role.oid == oid);
    found.map(|role| role.name)
}

pub(super) fn rows(relation: &str, source: RowSource<'_>) -> Option<Vec<Named>> {
    let session = source.session;
    let roles = || roles(source.schema, session).into_iter();
    Some(match relation {
        "pg_authid" | "pg_roles" => roles().map(|it| role_row(relation, &it)).collect(),
        "pg_user" | "pg_shadow" => roles()
            .filter(|role| role.can_login)
            .map(|role| {
                vec![
                    ("usename", text(&role.name)),
                    ("usesysid", Datum::oid(role.oid)),
                    ("usecreatedb", Datum::Bool(role.is_superuser)),
                    ("usesuper", Datum::Bool(role.is_superuser)),
                    ("userepl", Datum::Bool(role.oid == OWNER)),
                    ("usebypassrls", Datum::Bool(role.is_superuser)),
                    (
                        "passwd",
                        if relation == "pg_user" {
                            text("********")
                        } else {
                            Datum::Null
                        },
                    ),
                ]
            })
            .collect(),
        "pg_auth_members" => memberships(source.schema),
        "pg_group" => groups(source.schema),
        "pg_database" => vec![database(session)],
        "pg_tablespace" => [(TABLESPACE, "pg_default"), (1664, "pg_global")]
            .into_iter()
            .map(|(oid, name)| {
                vec![
                    ("oid", Datum::oid(oid)),
                    ("spcname", text(name)),
                    ("spcowner", Datum::oid(OWNER)),
                ]
            })
            .collect(),
        "pg_settings" => session.settings.iter().map(setting).collect(),
        "pg_stat_database" => vec![vec![
            ("datid", Datum::oid(DATABASE)),
            ("datname", text(&session.database)),
        ]],
        "pg_stat_activity" => vec![activity(source)],
        "pg_timezone_names" => zone("UTC", true),
        "pg_timezone_abbrevs" => zone("UTC", false),
        _ => return None,
    })
}

fn role_row(relation: &str, role: &Role) -> Named {
    let mut row = vec![
        ("oid", Datum::oid(role.oid)),
        ("rolname", text(&role.name)),
        ("rolsuper", Datum::Bool(role.is_superuser)),
        ("rolinherit", Datum::Bool(true)),
        ("rolcreaterole", Datum::Bool(role.is_superuser)),
        ("rolcreatedb", Datum::Bool(role.is_superuser)),
        ("rolcanlogin", Datum::Bool(role.can_login)),
        ("rolreplication", Datum::Bool(role.oid == OWNER)),
        ("rolbypassrls", Datum::Bool(role.is_superuser)),
        ("rolconnlimit", Datum::Int(-1)),
    ];
    if relation == "pg_roles" {
        row.push(("rolpassword", text("********")));
    }
    row
}

fn memberships(schema: &SchemaDescription) -> Vec<Named> {
    let rows = schema.roles.iter().flat_map(|member| {
        member.memberships.iter().map(|role| {
            vec![
                ("roleid", Datum::oid(*role)),
                ("member", Datum::oid(member.oid)),
                ("grantor", Datum::oid(OWNER)),
                ("admin_option", Datum::Bool(false)),
            ]
        })
    });
    rows.collect()
}

/// Returns the roles that cannot log in, with their members.
fn groups(schema: &SchemaDescription) -> Vec<Named> {
    let groups = schema.roles.iter().filter(|role| !role.can_login);
    let rows = groups.map(|group| {
        let members = schema.roles.iter();
        let members = members.filter(|it| it.memberships.contains(&group.oid));
        vec![
            ("groname", text(&group.name)),
            ("grosysid", Datum::oid(group.oid)),
            (
                "grolist",
                Datum::array(members.map(|it| Datum::oid(it.oid))),
            ),
        ]
    });
    rows.collect()
}

fn database(session: &SessionDescription) -> Named {
    vec![
        ("oid", Datum::oid(DATABASE)),
        ("datname", text(&session.database)),
        ("datdba", Datum::oid(OWNER)),
        // UTF8.
        ("encoding", Datum::Int(6)),
        ("datlocprovider", text("c")),
        ("datallowconn", Datum::Bool(true)),
        ("datconnlimit", Datum::Int(-1)),
        ("dattablespace", Datum::oid(TABLESPACE)),
        ("datcollate", text("C")),
        ("datctype", text("C")),
    ]
}

fn setting((name, value): &(String, String)) -> Named {
    let kind = match &**value {
        "on" | "off" => "bool",
        value if value.parse::<i64>().is_ok() => "integer",
        _ => "string",
    };
    vec![
        ("name", text(name)),
        ("setting", text(value)),
        ("category", text("Client Connection Defaults")),
        ("short_desc", text("")),
        ("context", text("user")),
        ("vartype", text(kind)),
        ("source", text("session")),
        ("boot_val", text(value)),
        ("reset_val", text(value)),
        ("pending_restart", Datum::Bool(false)),
    ]
}

fn activity(RowSource { schema, session }: RowSource<'_>) -> Named {
    let user = role_oid(schema, session, &session.user);
    vec![
        ("datid", Datum::oid(DATABASE)),
        ("datname", text(&session.database)),
        ("pid", int(session.process)),
        ("usesysid", Datum::option(user, Datum::oid)),
        ("usename", text(&session.user)),
        (
            "application_name",
            text(session.setting("application_name").unwrap_or("")),
        ),
        ("query_start", Datum::Int(session.now_us)),
        ("state_change", Datum::Int(session.now_us)),
        ("state", text("active")),
        ("backend_type", text("client backend")),
    ]
}

fn zone(name: &str, has_name: bool) -> Vec<Named> {
    let mut row = vec![
        ("abbrev", text(name)),
        ("utc_offset", text("00:00:00")),
        ("is_dst", Datum::Bool(false)),
    ];
    if has_name {
        row.push(("name", text(name)));
    }
    vec![row]
}
