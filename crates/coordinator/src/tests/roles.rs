//! Roles and privileges: kept with the state, and following their tables.

use protocol::configuration::roles::{
    GrantObject, PasswordChange, PasswordVerifier, Privileges, RoleAttributes, RoleChange, RoleId,
    Roles,
};

use super::copies::{scene_of, seal};
use super::*;

fn change(scene: &mut Scene, change: RoleChange) -> Reply {
    scene.ask(Request::ChangeRoles { change })
}

fn create_role(name: &str) -> RoleChange {
    RoleChange::Create {
        name: name.into(),
        attributes: RoleAttributes {
            can_login: Some(true),
            is_superuser: None,
            password: PasswordChange::Set(PasswordVerifier("SCRAM-SHA-256$secret".into())),
        },
        of: Vec::new(),
        members: Vec::new(),
    }
}

fn roles(scene: &Scene) -> &Roles {
    &scene.coordinator.configuration().roles
}

fn id(scene: &Scene, role: &str) -> RoleId {
    roles(scene).named(role).expect("it exists").id
}

fn table_id(scene: &Scene, table: &str) -> TableId {
    let configuration = scene.coordinator.configuration();
    configuration.table_named(table).expect("it exists").id
}

#[test]
fn a_change_is_an_epoch_and_is_kept() {
    let mut scene = Scene::new();
    let epoch = scene.epoch();
    assert!(matches!(
        change(&mut scene, create_role("ann")),
        Reply::Done { .. }
    ));
    assert_eq!(scene.epoch(), epoch + 1);
    assert_eq!(roles(&scene).epoch, Epoch(epoch + 1));
    assert!(scene.notes.iter().any(|note| note.contains("role ann")));
    assert!(!scene.notes.iter().any(|note| note.contains("secret")));
    let (message, retry) = scene.refused(Request::ChangeRoles {
        change: create_role("ann"),
    });
    assert_eq!((&*message, retry), ("role \"ann\" already exists", false));
    // A change that changes nothing is no epoch.
    let members = vec!["ann".into()];
    let nothing = RoleChange::Leave {
        roles: vec!["postgres".into()],
        members,
    };
    change(&mut scene, nothing);
    assert_eq!(scene.epoch(), epoch + 1);
    let state = decode_state(&scene.kept).unwrap();
    let again = Scene::restarted(state, scene.now.monotonic_us);
    assert_eq!(roles(&again), roles(&scene));
}

#[test]
fn clients_get_roles_only_when_they_have_changed() {
    let mut scene = Scene::new();
    scene.join(1);
    change(&mut scene, create_role("ann"));
    let known = Epoch(scene.epoch());
    let before = scene.coordinator.configuration().clone();
    scene.ask_from(CLIENT, create("t", 0));
    let Reply::Changes(changes) = scene.ask(Request::Fetch { known }) else {
        panic!("the changes are enough")
    };
    assert_eq!(changes.roles, None);
    let after = changes.apply(&before).unwrap();
    assert_eq!(&after, scene.coordinator.configuration());
    change(&mut scene, create_role("bob"));
    let Reply::Changes(changes) = scene.ask(Request::Fetch { known }) else {
        panic!("the changes are enough")
    };
    let after = changes.apply(&before).unwrap();
    assert_eq!(&after, scene.coordinator.configuration());
    assert_eq!(after.check(), Ok(()));
}

#[test]
fn rights_follow_their_table_and_end_with_it() {
    let mut scene = scene_of(2);
    change(&mut scene, create_role("ann"));
    change(&mut scene, create_role("bob"));
    let (ann, bob) = (id(&scene, "ann"), id(&scene, "bob"));
    let request = Request::CreateTable {
        schema: table("own", 1),
        if_not_exists: false,
        sequences: Vec::new(),
        owner: ann,
    };
    scene.ask_from(CLIENT, request);
    let own = table_id(&scene, "own");
    assert_eq!(roles(&scene).owner(own), ann);
    let grant = RoleChange::Grant {
        objects: vec![(GrantObject::Relation(own), Privileges::SELECT)],
        grantees: vec![Some("bob".into()), Some("ann".into())],
    };
    change(&mut scene, grant);
    scene.ask(Request::Truncate {
        tables: vec!["own".into()],
        cascade: false,
    });
    seal(&mut scene);
    let emptied = table_id(&scene, "own");
    assert_ne!(emptied, own);
    assert_eq!(roles(&scene).owner(emptied), ann);
    let object = GrantObject::Relation(emptied);
    assert_eq!(
        roles(&scene).grants_of(object).count(),
        1,
        "the owner needs none"
    );
    assert_eq!(
        roles(&scene).granted(object, &BTreeSet::from([bob])),
        Privileges::SELECT
    );
    for name in ["ann", "bob"] {
        let names = vec![name.into()];
        let change = RoleChange::Drop { names };
        let (message, _) = scene.refused(Request::ChangeRoles { change });
        assert!(message.contains("cannot be dropped"), "{message}");
    }
    scene.ask_from(CLIENT, drop_table("own"));
    assert!(!roles(&scene).names_table(emptied));
    let names = vec!["ann".into(), "bob".into()];
    change(&mut scene, RoleChange::Drop { names });
    let request = Request::CreateTable {
        schema: table("late", 1),
        if_not_exists: false,
        sequences: Vec::new(),
        owner: ann,
    };
    let (message, _) = scene.refused(request);
    assert!(message.contains("was dropped meanwhile"), "{message}");
}
