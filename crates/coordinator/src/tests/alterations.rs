//! Definitions of tables change, and tables are emptied, between two epochs.

use super::copies::{beats, flights, scene_of, seal};
use super::*;
use placement::{Alteration, CommentedObject, Deferral, ForeignKey, ReferentialAction};
use protocol::configuration::PartitionState;
use protocol::message::CopyFailure;

fn alter(table: &str, alterations: Vec<Alteration>) -> Request {
    Request::AlterTable {
        table: table.into(),
        alterations,
    }
}

fn renamed(name: &str) -> Vec<Alteration> {
    vec![Alteration::RenameTable { name: name.into() }]
}

fn another_column() -> Vec<Alteration> {
    let mut column = table("any", 0).columns[1].clone();
    column.name = "late".into();
    column.nullable = true;
    vec![Alteration::AddColumn { column }]
}

fn truncate(tables: &[&str], cascade: bool) -> Request {
    Request::Truncate {
        tables: tables.iter().map(ToString::to_string).collect(),
        cascade,
    }
}

/// Adds a table whose second column refers to `flights`.
fn with_child(scene: &mut Scene) {
    let mut schema = table("seats", 1);
    schema.constraints.foreign_keys.push(reference("flights"));
    scene.ask_from(CLIENT, create_as(schema));
}

fn reference(parent: &str) -> ForeignKey {
    ForeignKey {
        name: "seats_tail_fkey".into(),
        columns: vec![1],
        parent: parent.into(),
        on_delete: ReferentialAction::NoAction,
        on_update: ReferentialAction::NoAction,
        deferral: Deferral::NotDeferrable,
        is_valid: true,
    }
}

#[test]
fn failures_are_promised_only_when_the_copies_survive_them() {
    let mut scene = scene_of(3);
    let set = |failures| alter("flights", vec![Alteration::SetFailures { failures }]);
    let promised = |scene: &Scene| flights(scene).schema.failures_tolerated;
    let before = promised(&scene);
    let reply = scene.ask(set(before + 1));
    let Reply::Refused { message, retry } = reply else {
        panic!("{reply:?}");
    };
    assert!(!retry && message.contains("add servers"), "{message}");
    // Fewer failures are promised at once, and then as many as before.
    for failures in [0, before] {
        assert!(matches!(scene.ask(set(failures)), Reply::Done { .. }));
        seal(&mut scene);
        assert_eq!(promised(&scene), failures);
    }
}

fn ids(scene: &Scene) -> Vec<u32> {
    let tables = scene.coordinator.configuration().tables.iter();
    tables.map(|table| table.id.0).collect()
}

fn failures(scene: &mut Scene) -> Vec<CopyFailure> {
    match scene.ask(Request::Progress) {
        Reply::Progress { failures, .. } => failures,
        other => panic!("{other:?}"),
    }
}

/// Makes all cores report that the earlier epochs of one table have ended.
fn seal_one(scene: &mut Scene, id: u32) {
    beats(scene, |_, configuration, beat| {
        if let Request::Heartbeat { seals, .. } = beat {
            *seals = resolved(configuration);
            for report in seals.iter_mut().filter(|it| it.table.0 != id) {
                report.stage = SealStage::Sealing;
            }
        }
    });
}

#[test]
pub fn a_definition_changes_between_two_epochs() {
    let mut scene = scene_of(2);
    let before = flights(&scene);
    assert_eq!(before.columns_since, Epoch(0), "no request knew others");
    scene.ask(alter("flights", another_column()));
    let waiting = flights(&scene);
    assert!(waiting.sealing.is_some(), "operations end first");
    assert_eq!(waiting.schema, before.schema);
    seal(&mut scene);
    let waiting = |scene: &mut Scene| match scene.ask(Request::Progress) {
        Reply::Progress { waiting, .. } => waiting,
        other => panic!("{other:?}"),
    };
    assert_eq!(waiting(&mut scene), [(before.id, "ALTER TABLE".into())]);
    beats(&mut scene, |_, _, _| {});
    assert_eq!(waiting(&mut scene), [], "all cores know it");
    let after = flights(&scene);
    assert_eq!(after.schema.columns.len(), 3);
    assert_eq!(after.columns_since, after.epoch);
    assert_eq!((after.id, after.placement), (before.id, before.placement));
    scene.ask(alter("flights", renamed("trips")));
    seal(&mut scene);
    let configuration = scene.coordinator.configuration();
    assert!(configuration.table_named("flights").is_none());
    let trips = configuration.table_named("trips").unwrap();
    assert_eq!(trips.columns_since, after.columns_since);
    assert!(trips.epoch > after.epoch);
    let names: Vec<&str> = trips
        .layout
        .replexes
        .iter()
        .map(|it| &it.name[..])
        .collect();
    assert_eq!(names, ["trips", "by_tail"]);
}

#[test]
fn a_waiting_change_survives_the_coordinator() {
    let mut scene = scene_of(2);
    scene.ask(alter("flights", another_column()));
    let mut next = Scene::restarted(decode_state(&scene.kept).unwrap(), 0);
    seal(&mut next);
    assert_eq!(flights(&next).schema.columns.len(), 3);
    next.ask(truncate(&["flights"], false));
    let mut last = Scene::restarted(decode_state(&next.kept).unwrap(), 0);
    seal(&mut last);
    assert_eq!(ids(&last), [2]);
}

#[test]
fn changes_that_fit_nothing_are_refused() {
    let mut scene = scene_of(2);
    scene.ask_from(CLIENT, create("seats", 1));
    let column = Alteration::SetNullable {
        column: "none".into(),
        nullable: true,
    };
    let cases = [
        (vec![column], "table flights has no column none"),
        (renamed("seats"), "there is a table seats already"),
        (
            [another_column(), another_column()].concat(),
            "table flights has two columns named late",
        ),
    ];
    for (alterations, expected) in cases {
        let (message, retry) = scene.refused(alter("flights", alterations));
        assert!(message.starts_with(expected), "{message}");
        assert!(!retry);
    }
    scene.ask(alter("flights", another_column()));
    let (message, retry) = scene.refused(truncate(&["flights"], false));
    assert!(retry, "{message}");
}

#[test]
fn a_name_that_was_taken_meanwhile_is_reported() {
    let mut scene = scene_of(2);
    scene.ask_from(CLIENT, create("seats", 1));
    scene.ask(alter("flights", renamed("trips")));
    scene.ask(alter("seats", renamed("trips")));
    seal(&mut scene);
    let failed = failures(&mut scene);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].name, "ALTER TABLE");
    assert!(failed[0].why.contains("trips already"), "{}", failed[0].why);
}

#[test]
fn references_follow_a_name() {
    let mut scene = scene_of(2);
    with_child(&mut scene);
    scene.ask(alter("flights", renamed("trips")));
    seal(&mut scene);
    let configuration = scene.coordinator.configuration();
    let child = configuration.table_named("seats").unwrap();
    assert_eq!(child.schema.constraints.foreign_keys[0].parent, "trips");
    assert_eq!(child.epoch, configuration.epoch);
    scene.ask(alter("seats", renamed("places")));
    seal(&mut scene);
    let parent = scene.coordinator.configuration().table_named("trips");
    assert_eq!(parent.unwrap().schema.constraints.referenced_by, ["places"]);
    let dropped = scene.ask_from(CLIENT, drop_table("places"));
    assert_eq!(dropped, None, "it waits for the servers");
    assert_eq!(ids(&scene), [1]);
}

#[test]
fn a_parent_forgets_a_foreign_key_that_goes() {
    let mut scene = scene_of(2);
    with_child(&mut scene);
    let constraint = "seats_tail_fkey".into();
    scene.ask(alter(
        "seats",
        vec![Alteration::DropConstraint { constraint }],
    ));
    seal(&mut scene);
    assert!(!flights(&scene).schema.constraints.has_references());
    assert_eq!(
        flights(&scene).epoch,
        scene.coordinator.configuration().epoch
    );
}

#[test]
fn a_foreign_key_comes_to_a_table_in_use() {
    let mut scene = scene_of(2);
    scene.ask_from(CLIENT, create("seats", 1));
    let add = |key| alter("seats", vec![Alteration::AddForeignKey { key }]);
    let (message, _) = scene.refused(add(reference("nothing")));
    assert_eq!(message, "there is no table nothing");
    let unserved = ForeignKey {
        columns: vec![1, 0],
        ..reference("flights")
    };
    let (message, _) = scene.refused(add(unserved));
    assert!(message.contains("seats_tail_fkey"), "{message}");
    let before = flights(&scene);
    scene.ask(add(reference("flights")));
    assert!(!flights(&scene).schema.constraints.has_references());
    seal(&mut scene);
    let after = flights(&scene);
    assert_eq!(after.schema.constraints.referenced_by, ["seats"]);
    assert!(after.epoch > before.epoch, "its cores judge by it");
    assert_eq!(after.epoch, scene.coordinator.configuration().epoch);
    // A change of nothing ends the operations that began before.
    scene.ask(alter("flights", Vec::new()));
    assert!(flights(&scene).sealing.is_some());
    seal(&mut scene);
    assert!(flights(&scene).epoch > after.epoch);
    assert_eq!(flights(&scene).schema, after.schema);
    let (message, _) = scene.refused(drop_table("flights"));
    assert!(message.contains("seats_tail_fkey"), "{message}");
    // A table that refers to itself.
    scene.ask(alter(
        "flights",
        vec![Alteration::AddForeignKey {
            key: ForeignKey {
                name: "next".into(),
                ..reference("flights")
            },
        }],
    ));
    seal(&mut scene);
    let referring = flights(&scene).schema.constraints.referenced_by;
    assert_eq!(referring, ["flights", "seats"]);
}

#[test]
fn a_dropped_column_keeps_its_number() {
    let mut scene = scene_of(2);
    let drop = |column: &str| {
        let column = column.into();
        alter("flights", vec![Alteration::DropColumn { column }])
    };
    for (column, expected) in [
        ("id", "is in the primary key"),
        ("tail", "is in index by_tail"),
    ] {
        let (message, _) = scene.refused(drop(column));
        assert!(message.contains(expected), "{message}");
    }
    scene.ask(alter("flights", another_column()));
    seal(&mut scene);
    beats(&mut scene, |_, _, _| {});
    scene.ask(drop("late"));
    seal(&mut scene);
    let schema = flights(&scene).schema;
    assert_eq!(
        (schema.columns.len(), schema.column_index("late")),
        (3, None)
    );
    assert_eq!(schema.visible_positions(), [0, 1]);
}

#[test]
pub fn tables_are_emptied_in_one_epoch() {
    let mut scene = scene_of(2);
    with_child(&mut scene);
    let before = flights(&scene);
    let (message, _) = scene.refused(truncate(&["flights"], false));
    assert!(message.contains("table seats refers to it"), "{message}");
    scene.ask(truncate(&["flights"], true));
    assert_eq!(ids(&scene), [1, 2]);
    let leaving = flights(&scene).sealing.unwrap().leaving;
    assert_eq!(leaving, [0, 1], "no copy answers a read any more");
    seal_one(&mut scene, 1);
    seal_one(&mut scene, 1);
    assert_eq!(ids(&scene), [1, 2], "both or none");
    seal(&mut scene);
    assert_eq!(ids(&scene), [3, 4]);
    let after = flights(&scene);
    assert_eq!(after.schema, before.schema);
    assert_eq!(after.layout, before.layout);
    let epoch = scene.coordinator.configuration().epoch;
    for (place, old) in after.places().zip(before.places()) {
        assert_eq!((place.1.core, place.1.since), (old.1.core, epoch));
        assert_eq!(place.1.state, PartitionState::Serving);
    }
}

#[test]
fn a_table_that_is_dropped_meanwhile_does_not_delay_the_others() {
    let mut scene = scene_of(2);
    scene.ask_from(CLIENT, create("seats", 1));
    scene.ask(truncate(&["flights", "seats"], false));
    scene.ask_from(CLIENT, drop_table("seats"));
    seal(&mut scene);
    assert_eq!(ids(&scene), [3]);
}

#[test]
fn comments_stop_no_chain_and_survive() {
    let mut scene = scene_of(2);
    let comment = |object: &CommentedObject, text: Option<&str>| {
        let (object, text) = (object.clone(), text.map(String::from));
        alter("flights", vec![Alteration::Comment { object, text }])
    };
    let column = CommentedObject::Column { position: 1 };
    let index = |name: &str| CommentedObject::Index { name: name.into() };
    for (object, text) in [
        (&CommentedObject::Table, "flown"),
        (&column, "the plane"),
        (&index("by_tail"), "sorted"),
    ] {
        scene.ask(comment(object, Some(text)));
        assert!(!scene.coordinator.configuration().is_sealing());
    }
    let reply = scene.ask(comment(&index("none"), Some("x")));
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    let named = |scene: &Scene| {
        let comments = flights(scene).comments.0.into_iter();
        let comments = comments.map(|it| (it.object, it.text));
        comments.collect::<Vec<_>>()
    };
    let mut next = Scene::restarted(decode_state(&scene.kept).unwrap(), 0);
    assert_eq!(named(&next).len(), 3);
    let (before, name) = ("by_tail".into(), "by_plane".into());
    next.ask(alter(
        "flights",
        vec![Alteration::RenameIndex {
            index: before,
            name,
        }],
    ));
    next.ask(comment(&column, None));
    seal(&mut next);
    let left = [
        (CommentedObject::Table, String::from("flown")),
        (index("by_plane"), String::from("sorted")),
    ];
    assert_eq!(named(&next), left);
}
