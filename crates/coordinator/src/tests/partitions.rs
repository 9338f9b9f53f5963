//! Changes the number of partitions: successors are added, replace the earlier copies, or are given
//! up.

use super::copies::{fill, fill_those, flights, object, progress, scene_of, seal, with_index};
use super::tables::fill_configuration;
use super::*;
use protocol::configuration::PartitionState;

fn resize(partitions: u32) -> Request {
    Request::SetPartitions {
        table: "flights".into(),
        partitions,
    }
}

/// Returns how many partitions each copy has that may be read.
fn readable(scene: &Scene) -> Vec<u32> {
    let table = flights(scene);
    let numbers = table.readable();
    numbers
        .map(|number| table.layout.partition_count(number))
        .collect()
}

#[test]
pub(super) fn copies_take_the_places_of_others_once_all_of_them_serve() {
    let mut scene = scene_of(3);
    let before = flights(&scene);
    let now = before.schema.partitions;
    assert!(matches!(scene.ask(resize(now + 3)), Reply::Done { .. }));
    let waiting = (TableId(1), format!("partitions = {}", now + 3));
    assert_eq!(progress(&mut scene).1, core::slice::from_ref(&waiting));
    seal(&mut scene);
    let filling = flights(&scene);
    assert_eq!(filling.building, [2, 3]);
    assert_eq!(filling.placement[..2], before.placement[..]);
    assert_eq!(readable(&scene), [now, now], "they are not read yet");
    assert_eq!(filling.schema, before.schema);
    assert_eq!(progress(&mut scene).1, []);

    fill(&mut scene);
    assert_eq!(progress(&mut scene).1, [waiting]);
    let leaving = flights(&scene).sealing.expect("epochs end once more");
    assert_eq!(leaving.leaving, [0, 1]);
    assert_eq!(readable(&scene), [now, now], "operations are under way");
    seal(&mut scene);
    let after = flights(&scene);
    assert_eq!(after.schema.partitions, now + 3);
    assert_eq!(readable(&scene), [now + 3, now + 3]);
    assert_eq!(after.layout.primary(), 2);
    assert_eq!(after.placement[2], flights(&scene).placement[2]);
    let mut places = after.placement.iter().flatten();
    assert!(places.all(|place| place.state == PartitionState::Serving));
}

#[test]
fn another_coordinator_goes_on_at_every_step() {
    let mut scene = scene_of(3);
    let now = flights(&scene).schema.partitions;
    let restart = |scene: Scene| {
        let state = decode_state(&scene.kept).expect("it was kept");
        Scene::restarted(state, scene.now.monotonic_us)
    };
    scene.ask(resize(2 * now));
    scene = restart(scene);
    seal(&mut scene);
    scene = restart(scene);
    fill(&mut scene);
    scene = restart(scene);
    seal(&mut scene);
    assert_eq!(readable(&scene), [2 * now, 2 * now]);
}

#[test]
fn a_change_is_given_up_by_the_present_number_and_others_wait() {
    let mut scene = scene_of(3);
    let before = flights(&scene);
    let now = before.schema.partitions;
    scene.ask(resize(now + 1));
    seal(&mut scene);
    let index = with_index(&scene, "late", None);
    for other in [index, resize(now + 2)] {
        let (message, retry) = scene.refused(other);
        assert!(!retry && message.contains("is being cut into"), "{message}");
    }
    assert!(
        matches!(scene.ask(resize(now + 1)), Reply::Done { .. }),
        "it is on its way"
    );
    scene.ask(resize(now));
    seal(&mut scene);
    assert_eq!(flights(&scene).layout, before.layout);
    assert_eq!(flights(&scene).placement, before.placement);
    let index = with_index(&scene, "late", None);
    assert!(matches!(scene.ask(index), Reply::Done { .. }));
}

#[test]
fn copies_that_others_are_filled_from_are_not_given_up() {
    let mut scene = scene_of(4);
    let now = flights(&scene).schema.partitions;
    scene.ask(resize(now + 1));
    seal(&mut scene);
    fill_those(&mut scene, |replex| replex == 2);
    // One of the new copies is the only full one after this.
    for replex in [0, 1] {
        let cells = (0..now).map(|number| (replex, number)).collect();
        let renew = Request::Renew {
            table: "flights".into(),
            cells,
        };
        assert!(matches!(scene.ask(renew), Reply::Done { .. }));
        seal(&mut scene);
    }
    let (message, retry) = scene.refused(resize(now));
    assert!(
        retry && message.contains("the only copies of some rows"),
        "{message}"
    );
    object(&mut scene, 3, "a key is too long");
    assert!(!scene.coordinator.configuration().is_sealing());
    fill(&mut scene);
    seal(&mut scene);
    assert_eq!(readable(&scene), [now + 1, now + 1]);
}

#[test]
fn partitions_that_the_configuration_has_no_room_for_are_refused() {
    let mut scene = scene_of(2);
    fill_configuration(&mut scene, 2048);
    fill_configuration(&mut scene, 64);
    let before = scene.coordinator.configuration().clone();
    let (message, is_temporary) = scene.refused(resize(4096));
    assert!(
        message.contains("the limit is 25165824: choose fewer"),
        "{message}"
    );
    assert!(!is_temporary);
    assert_eq!(*scene.coordinator.configuration(), before);
    assert!(matches!(scene.ask(resize(2)), Reply::Done { .. }));
}
