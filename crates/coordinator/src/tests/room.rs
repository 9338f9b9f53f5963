//! Servers whose disks are full: what moves off them, what stays and why.

use protocol::configuration::{Configuration, PartitionState};
use protocol::message::{Room, Shortage};

use super::moves::{all_beat, finish, held, moving, scene, tolerated};
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
    let mut scene = scene(4);
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
    let mut scene = scene(2);
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
    let mut scene = scene(4);
    let held_before: Vec<usize> = (1..=4).map(|id| held(&scene, id)).collect();
    scene.full.extend([1, 2]);
    all_beat(&mut scene);
    finish(&mut scene);
    assert_eq!(
        (held(&scene, 1), held(&scene, 2)),
        (0, 0),
        "from {held_before:?}"
    );
    assert_eq!(tolerated(&scene), 1);
    // All are full: nothing moves in circles.
    scene.full.extend([3, 4]);
    all_beat(&mut scene);
    finish(&mut scene);
    assert_eq!(shortages(&mut scene).len(), 4);
    assert_eq!(moving(&scene), []);
}

/// Returns what the table survives: now, and once everything is filled and up.
fn survived(configuration: &Configuration) -> (Option<u32>, Option<u32>, String) {
    let report = configuration.report(&configuration.tables[0]);
    (
        report.failures_survived,
        report.failures_proven,
        report.survival(),
    )
}

#[test]
fn failures_survived_now_count_copies_that_are_up_and_filled() {
    let scene = scene(4);
    let mut configuration = scene.coordinator.configuration().clone();
    let (now, proven, text) = survived(&configuration);
    assert_eq!((now, proven), (Some(1), Some(1)));
    assert_eq!(text, "1 proven for every possible row");

    // A partition is being filled: a row can have the other copy only.
    let place = &mut configuration.tables[0].placement[1][2];
    let filled = *place;
    place.state = PartitionState::Rebuilding;
    let (now, proven, text) = survived(&configuration);
    assert_eq!((now, proven), (Some(0), Some(1)));
    assert!(
        text.starts_with("0 survived now (1 partition is being filled); 1 proven"),
        "{text}"
    );

    // And the server with the other copy is down: such a row has none.
    let other = configuration.tables[0].placement[0][0].core.server;
    let down = |configuration: &mut Configuration, id: ServerId| {
        let mut servers = configuration.servers.iter_mut();
        let server = servers.find(|server| server.id == id).unwrap();
        server.state = ServerState::Down;
    };
    down(&mut configuration, other);
    let (now, proven, text) = survived(&configuration);
    assert_eq!((now, proven), (None, Some(1)));
    assert!(text.starts_with("NONE survived now"), "{text}");
    assert!(
        text.contains(&format!("server {} is down", other.0)),
        "{text}"
    );

    // One server down alone.
    configuration.tables[0].placement[1][2] = filled;
    let (now, _, text) = survived(&configuration);
    assert_eq!(now, Some(0));
    assert!(text.contains("once that is over"), "{text}");

    // A server that holds nothing of it changes nothing.
    let mut configuration = scene.coordinator.configuration().clone();
    configuration.tables[0].building = Vec::new();
    let places = configuration.tables[0].placement.iter().flatten();
    let holders: BTreeSet<ServerId> = places.map(|place| place.core.server).collect();
    let idle = (1..=4).map(ServerId).find(|id| !holders.contains(id));
    if let Some(idle) = idle {
        down(&mut configuration, idle);
        assert_eq!(survived(&configuration).0, Some(1));
    }
}

#[test]
fn new_tables_go_to_servers_with_room() {
    let mut scene = scene(4);
    scene.full.insert(1);
    all_beat(&mut scene);
    finish(&mut scene);
    scene.ask_from(9, create("more", 1));
    assert_eq!(held(&scene, 1), 0);
}
