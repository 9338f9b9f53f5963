//! Servers whose disks are full: what moves off them, what stays and why.

use protocol::configuration::PartitionState;
use protocol::message::{Room, Shortage};

use super::moves::{all_beat, beat_with, finish, held, moving, scene_of, tolerated};
use super::*;

/// Returns the notices to operators of full disks.
fn shortages(scene: &mut Scene) -> Vec<Shortage> {
    match scene.ask(Request::Progress) {
        Reply::Progress { without_room, .. } => without_room,
        other => panic!("{other:?}"),
    }
}

fn has_notice(scene: &Scene, text: &str) -> bool {
    scene.notes.iter().any(|note| note.contains(text))
}

#[test]
fn partitions_of_a_full_server_move_to_servers_with_room() {
    let mut scene = scene_of(4);
    let before = held(&scene, 1);
    assert!(before > 0);
    scene.full.insert(1);
    all_beat(&mut scene);
    assert!(has_notice(
        &scene,
        "server 1 has no room for writes: its partitions move"
    ));
    let expected = Shortage {
        server: ServerId(1),
        room: Room::Reserve,
        stays: None,
    };
    assert_eq!(shortages(&mut scene), [expected]);
    finish(&mut scene);
    assert_eq!(held(&scene, 1), 0);
    assert_eq!(tolerated(&scene), 1, "what is promised is kept");
    scene.full.clear();
    all_beat(&mut scene);
    assert!(has_notice(&scene, "server 1 has room for writes again"));
    assert_eq!(shortages(&mut scene), []);
    // It is not filled again at once.
    assert_eq!(moving(&scene), []);
}

#[test]
fn partitions_that_cannot_move_stay_and_give_a_reason() {
    let mut scene = scene_of(2);
    let before = (held(&scene, 1), held(&scene, 2));
    scene.full.insert(1);
    all_beat(&mut scene);
    assert!(has_notice(&scene, "start another server"));
    let why = shortages(&mut scene).remove(0).stays;
    assert!(why.is_some_and(|why| why.contains("table flights")));
    finish(&mut scene);
    assert_eq!((held(&scene, 1), held(&scene, 2)), before);
    // Another server comes: then they go.
    scene.join(3);
    finish(&mut scene);
    assert_eq!(held(&scene, 1), 0);
    assert_eq!(tolerated(&scene), 1);
}

#[test]
fn nothing_moves_from_one_full_server_to_another() {
    let mut scene = scene_of(4);
    assert!(held(&scene, 1) > 0 && held(&scene, 2) > 0);
    scene.full.extend([1, 2]);
    all_beat(&mut scene);
    finish(&mut scene);
    assert_eq!((held(&scene, 1), held(&scene, 2)), (0, 0));
    assert_eq!(tolerated(&scene), 1);
    // All are full: nothing moves in circles.
    scene.full.extend([3, 4]);
    all_beat(&mut scene);
    finish(&mut scene);
    assert_eq!(shortages(&mut scene).len(), 4);
    assert_eq!(moving(&scene), []);
}

/// Returns the servers to which partitions move.
fn takers(scene: &Scene) -> BTreeSet<u32> {
    let moving = moving(scene).into_iter();
    let takers = moving.filter_map(|(_, place)| place.taker());
    takers.map(|core| core.server.0).collect()
}

#[test]
fn moves_to_a_server_that_gets_full_are_cancelled() {
    let mut scene = scene_of(3);
    scene.join(4);
    let server = scene.server(1);
    beat_with(&mut scene, &server, false);
    assert_eq!(takers(&scene), BTreeSet::from([4]));
    // It reports that it is level and full at once: nothing is handed over to it.
    scene.full.insert(4);
    let server = scene.server(4);
    beat_with(&mut scene, &server, true);
    assert_eq!(takers(&scene), BTreeSet::new());
    finish(&mut scene);
    assert_eq!(held(&scene, 4), 0);
    assert_eq!(tolerated(&scene), 1);
}

/// Returns the servers at which partitions are filled.
fn filled(scene: &Scene) -> BTreeSet<u32> {
    let places = scene.coordinator.configuration().places();
    let filled = places.filter(|(_, place)| place.state == PartitionState::Rebuilding);
    filled.map(|(_, place)| place.core.server.0).collect()
}

/// Sends heartbeats of servers that fill nothing, for a while.
fn beat_for_a_while(scene: &mut Scene) {
    for _ in 0..10 {
        let servers: Vec<Server> = scene.coordinator.configuration().servers.clone();
        for server in servers.iter().filter(|it| it.state == ServerState::Up) {
            beat_with(scene, server, false);
        }
    }
}

#[test]
fn partitions_that_are_filled_at_a_full_server_go_to_servers_with_room() {
    let mut scene = scene_of(3);
    let lost = 1;
    scene.join(4);
    finish(&mut scene);
    scene.ask(stopped(lost, 1));
    scene.ask(Request::Remove {
        server: ServerId(lost),
    });
    beat_for_a_while(&mut scene);
    let first = filled(&scene);
    assert!(!first.is_empty(), "{:?}", scene.notes);
    scene.full.extend(first.iter().copied());
    scene.join(5);
    beat_for_a_while(&mut scene);
    assert!(
        has_notice(&scene, "are filled at servers with room instead"),
        "{:?}",
        scene.notes
    );
    assert_eq!(filled(&scene).intersection(&first).count(), 0);
    finish(&mut scene);
    assert!(first.iter().all(|id| held(&scene, *id) == 0));
    assert_eq!(tolerated(&scene), 1);
}

#[test]
fn partitions_are_filled_at_a_full_server_if_no_other_has_room() {
    let mut scene = scene_of(3);
    scene.ask(stopped(1, 1));
    scene.ask(Request::Remove {
        server: ServerId(1),
    });
    beat_for_a_while(&mut scene);
    let filled_at = filled(&scene);
    assert!(!filled_at.is_empty());
    scene.full.extend([2, 3]);
    let before = scene.epoch();
    beat_for_a_while(&mut scene);
    assert_eq!(filled(&scene), filled_at);
    assert_eq!(scene.epoch(), before, "no epoch ends for nothing");
}

#[test]
fn new_tables_go_to_servers_with_room() {
    let mut scene = scene_of(4);
    scene.full.insert(1);
    all_beat(&mut scene);
    finish(&mut scene);
    scene.ask_from(CLIENT, create("more", 1));
    assert_eq!(held(&scene, 1), 0);
}
