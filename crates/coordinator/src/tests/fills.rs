//! Places that have been filled serve in a next epoch.

use protocol::configuration::{PartitionState, Sealing};
use protocol::identity::{CoreId, PartitionId};

use super::*;

const PLACE: PartitionId = PartitionId {
    table: TableId(1),
    replex: 1,
    number: 0,
};

/// Returns two servers and a table, of which one place is rebuilding, and the core that holds it.
fn scene_of(sealing: Option<Sealing>) -> (Scene, CoreId) {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.ask_from(CLIENT, create("flights", 1));
    let mut state = scene.coordinator.state().clone();
    let place = &mut state.configuration.tables[0].placement[1][0];
    place.state = PartitionState::Rebuilding;
    let core = place.core;
    state.configuration.tables[0].sealing = sealing;
    (Scene::restarted(state, scene.now.monotonic_us), core)
}

/// Returns whether the place serves after a heartbeat of this core with an earlier epoch, which
/// reports the partition as filled.
fn serves(scene: &mut Scene, core: CoreId, epochs_ago: u64) -> bool {
    let epoch = Epoch(scene.epoch() - epochs_ago);
    scene.ask(Request::Heartbeat {
        core,
        incarnation: Incarnation(1),
        epoch,
        sent_us: 17,
        durable: Position(0),
        filled: vec![PLACE],
        fills: Vec::new(),
        seals: Vec::new(),
        room: Default::default(),
        ranges: Vec::new(),
    });
    let place = scene.coordinator.configuration().place(PLACE);
    place.is_some_and(|place| place.state == PartitionState::Serving)
}

#[test]
fn a_place_serves_once_its_core_has_filled_it() {
    let (mut scene, core) = scene_of(None);
    let before = scene.epoch();
    assert!(serves(&mut scene, core, 0));
    assert_eq!(scene.epoch(), before + 1);
    let note = scene.notes.last().expect("it is noted");
    assert!(note.contains("has filled 1 partitions"), "{note}");
    // Reported again, it changes nothing.
    assert!(serves(&mut scene, core, 0));
    assert_eq!(scene.epoch(), before + 1);
}

#[test]
fn a_place_does_not_serve_by_reports_of_others_or_older_epochs() {
    let (mut scene, core) = scene_of(None);
    let other = CoreId {
        core: 1 - core.core,
        ..core
    };
    assert!(!serves(&mut scene, other, 0));
    assert!(!serves(&mut scene, core, 1));
}

#[test]
fn no_place_begins_to_serve_while_epochs_are_ended() {
    let (mut scene, core) = scene_of(Some(Sealing {
        since: Epoch(4),
        removed: Vec::new(),
        leaving: Vec::new(),
    }));
    assert!(!serves(&mut scene, core, 0));
}
