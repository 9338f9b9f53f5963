//! Servers whose disks are full: what moves off them, what stays and why.

use protocol::message::{Room, Shortage};

use super::moves::{all_beat, finish, held, moving, scene_of, tolerated};
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

#[test]
fn new_tables_go_to_servers_with_room() {
    let mut scene = scene_of(4);
    scene.full.insert(1);
    all_beat(&mut scene);
    finish(&mut scene);
    scene.ask_from(CLIENT, create("more", 1));
    assert_eq!(held(&scene, 1), 0);
}
