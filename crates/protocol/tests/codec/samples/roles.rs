//! Roles, as a configuration has them.

use protocol::configuration::PlacedTables;
use protocol::configuration::roles::{
    Grant, GrantObject, Grantee, PasswordChange, PasswordVerifier, Privileges, RoleAttributes,
    RoleChange, Roles, TableOwner,
};
use protocol::identity::{Epoch, TableId};

/// Two roles beside the first one.
pub fn roles() -> Roles {
    let change = |roles: Roles, change| {
        roles
            .changed(&change, &PlacedTables::default())
            .expect("the roles allow it")
    };
    let named = |name: &str, attributes| RoleChange::Create {
        name: name.into(),
        attributes,
        of: Vec::new(),
        members: Vec::new(),
    };
    let attributes = RoleAttributes {
        can_login: Some(true),
        is_superuser: None,
        password: PasswordChange::Set(PasswordVerifier("SCRAM-SHA-256$1:a$b:c".into())),
    };
    let roles = change(
        Roles::default(),
        named("readers", RoleAttributes::default()),
    );
    let roles = change(roles, named("ann", attributes));
    let roles = change(
        roles,
        RoleChange::Join {
            roles: vec!["readers".into()],
            members: vec!["ann".into()],
        },
    );
    let [readers, ann] = [1, 2].map(|at| roles.all[at].id);
    Roles {
        epoch: Epoch(5),
        owners: vec![TableOwner {
            table: TableId(3),
            owner: ann,
        }],
        grants: vec![Grant {
            object: GrantObject::Relation(TableId(3)),
            grantee: Grantee::Role(readers),
            privileges: Privileges::SELECT,
        }],
        ..roles
    }
}
