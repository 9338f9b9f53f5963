//! Changes of roles, and lists that are inconsistent.

use alloc::string::ToString;
use alloc::vec;

use super::*;

fn create(name: &str) -> RoleChange {
    RoleChange::Create {
        name: name.into(),
        attributes: RoleAttributes::default(),
        of: Vec::new(),
        members: Vec::new(),
    }
}

fn join(role: &str, member: &str) -> RoleChange {
    RoleChange::Join {
        roles: vec![role.into()],
        members: vec![member.into()],
    }
}

fn on_schema(privileges: Privileges, to: Option<&str>) -> RoleChange {
    RoleChange::Grant {
        objects: vec![(GrantObject::Schema, privileges)],
        grantees: vec![to.map(String::from)],
    }
}

fn changed(roles: &Roles, change: &RoleChange) -> Result<Roles, String> {
    let tables = PlacedTables::default();
    let changed = roles.changed(change, &tables);
    let changed = changed.map_err(|fault| fault.to_string())?;
    assert_eq!(changed.check(&tables), Ok(()), "{change:?}");
    Ok(changed)
}

fn with(changes: &[RoleChange]) -> Roles {
    let roles = Roles::default();
    changes
        .iter()
        .fold(roles, |roles, change| changed(&roles, change).unwrap())
}

#[test]
fn names_are_unique_and_numbers_rise() {
    let roles = with(&[create("a"), create("b")]);
    let [a, b] = ["a", "b"].map(|name| roles.named(name).unwrap().id);
    assert!(RoleId::BOOTSTRAP < a && a < b);
    for (name, text) in [
        ("a", "role \"a\" already exists"),
        ("postgres", "role \"postgres\" already exists"),
        ("pg_a", "role name \"pg_a\" is reserved"),
        ("public", "role name \"public\" is reserved"),
        ("", "role name \"\" is not a name"),
    ] {
        let refused = changed(&roles, &create(name)).unwrap_err();
        assert!(refused.starts_with(text), "{refused}");
    }
    let names = vec!["b".into()];
    let roles = changed(&roles, &RoleChange::Drop { names }).unwrap();
    let roles = changed(&roles, &create("b")).unwrap();
    assert!(roles.named("b").unwrap().id > b, "no number is given twice");
}

#[test]
fn the_first_role_stays() {
    let roles = Roles::default();
    let name = String::from(BOOTSTRAP_NAME);
    let attributes = RoleAttributes {
        is_superuser: Some(false),
        ..RoleAttributes::default()
    };
    for change in [
        RoleChange::Drop {
            names: vec![name.clone()],
        },
        RoleChange::Rename {
            name: name.clone(),
            to: "other".into(),
        },
        RoleChange::Alter { name, attributes },
    ] {
        let refused = changed(&roles, &change).unwrap_err();
        assert!(refused.contains("is required"), "{refused}");
    }
}

#[test]
fn memberships_reach_far_and_make_no_circles() {
    let roles = with(&[
        create("a"),
        create("b"),
        create("c"),
        join("b", "a"),
        join("c", "b"),
    ]);
    let [a, b, c] = ["a", "b", "c"].map(|name| roles.named(name).unwrap().id);
    assert_eq!(roles.reach(a), BTreeSet::from([a, b, c]));
    assert_eq!(roles.reach(c), BTreeSet::from([c]));
    for (role, member) in [("a", "c"), ("a", "b"), ("a", "a")] {
        let refused = changed(&roles, &join(role, member)).unwrap_err();
        let text = alloc::format!("role \"{role}\" is a member of role \"{member}\"");
        assert_eq!(refused, text);
    }
    let mut circle = roles.clone();
    circle.memberships.push(Membership { member: c, role: a });
    assert!(circle.check(&PlacedTables::default()).is_err());
    let names = vec!["b".into()];
    let roles = changed(&roles, &RoleChange::Drop { names }).unwrap();
    assert_eq!(roles.reach(a), BTreeSet::from([a]));
}

#[test]
fn grants_add_and_revocations_remove() {
    let roles = with(&[
        create("a"),
        on_schema(Privileges::CREATE, Some("a")),
        on_schema(Privileges::CREATE, Some("a")),
    ]);
    let a = roles.named("a").unwrap().id;
    let own = BTreeSet::from([a]);
    let other = BTreeSet::from([RoleId(1)]);
    assert_eq!(roles.grants.len(), 1);
    assert_eq!(
        roles.granted(GrantObject::Schema, &own),
        Privileges::OF_SCHEMA
    );
    assert_eq!(
        roles.granted(GrantObject::Schema, &other),
        Privileges::USAGE
    );
    let names = vec!["a".into()];
    let refused = changed(&roles, &RoleChange::Drop { names }).unwrap_err();
    assert!(refused.contains("cannot be dropped"), "{refused}");
    let revoke = RoleChange::Revoke {
        objects: vec![(GrantObject::Schema, Privileges::OF_SCHEMA)],
        grantees: vec![Some("a".into()), None],
    };
    assert!(changed(&roles, &revoke).unwrap().grants.is_empty());
    let missing = on_schema(Privileges::CREATE, Some("missing"));
    assert!(changed(&roles, &missing).is_err());
    // Privileges that the object cannot have are left out.
    let roles = changed(&roles, &on_schema(Privileges::SELECT, None)).unwrap();
    assert_eq!(roles.grants.len(), 1);
    assert_eq!(Privileges::OF_TABLE.letters(), "arwdDxt");
}

#[test]
fn limits_are_kept() {
    let mut roles = Roles::default();
    for number in 1..ROLES_MAX {
        roles = roles
            .changed(
                &create(&alloc::format!("r{number}")),
                &PlacedTables::default(),
            )
            .unwrap();
    }
    let refused = changed(&roles, &create("last")).unwrap_err();
    assert!(refused.contains("at most 1000 roles"), "{refused}");
}

#[test]
fn verifiers_are_not_printed() {
    let verifier = PasswordVerifier("SCRAM-SHA-256$secret".into());
    assert_eq!(alloc::format!("{verifier:?}"), "PasswordVerifier");
}
