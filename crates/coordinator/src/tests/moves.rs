//! Partitions move to servers that join, and off those that are drained.

use protocol::configuration::{Configuration, MoveProgress, PartitionState, Place};
use protocol::identity::{CoreId, PartitionId};
use protocol::message::Room;

use super::copies::{self, with_index, without};
use super::*;

/// Returns `servers` servers of two cores, and a table that survives one failure.
pub(super) fn scene_of(servers: u32) -> Scene {
    let mut scene = Scene::new();
    (1..=servers).for_each(|id| scene.join(id));
    scene.ask_from(CLIENT, create("flights", 1));
    scene
}

fn configuration(scene: &Scene) -> &Configuration {
    scene.coordinator.configuration()
}

pub(super) fn moving(scene: &Scene) -> Vec<(PartitionId, Place)> {
    let places = configuration(scene).places();
    places.filter(|(_, place)| place.moving.is_some()).collect()
}

/// Returns partitions that a server has to do with.
fn held_by(scene: &Scene, id: u32) -> Vec<PartitionId> {
    let places = configuration(scene).places();
    let held = places.filter(|(_, place)| {
        let mut tenures = place.tenures();
        tenures.any(|tenure| tenure.core.server == ServerId(id))
    });
    held.map(|(id, _)| id).collect()
}

/// Returns the number of partitions that a server holds.
pub(super) fn held(scene: &Scene, id: u32) -> usize {
    held_by(scene, id).len()
}

/// Sends a heartbeat of every core.
pub(super) fn all_beat(scene: &mut Scene) {
    let servers: Vec<Server> = configuration(scene).servers.clone();
    for server in servers.iter().filter(|it| it.state == ServerState::Up) {
        beat(scene, server);
    }
}

/// Sends heartbeats of a server's cores, which have sealed all tables to be sealed, and filled all
/// partitions that they receive.
fn beat(scene: &mut Scene, server: &Server) {
    beat_with(scene, server, true);
}

/// Sends heartbeats of a server's cores, which have sealed all tables to be sealed, and filled all
/// partitions that they receive, or none.
pub(super) fn beat_with(scene: &mut Scene, server: &Server, is_filled: bool) {
    for core in 0..2 {
        let core = CoreId {
            server: server.id,
            core,
        };
        let configuration = configuration(scene);
        let beat = Request::Heartbeat {
            core,
            incarnation: server.incarnation,
            epoch: configuration.epoch,
            sent_us: 17,
            durable: Position(0),
            filled: match is_filled {
                true => received_by(configuration, core),
                false => Vec::new(),
            },
            fills: Vec::new(),
            seals: resolved(configuration),
            room: match scene.full.contains(&server.id.0) {
                true => Room::Reserve,
                false => Room::Free,
            },
            ranges: Vec::new(),
        };
        scene.ask(beat);
    }
}

/// Returns the partitions that a core receives: those that move to it or are rebuilt there.
pub(super) fn received_by(configuration: &Configuration, core: CoreId) -> Vec<PartitionId> {
    let received = configuration.places().filter(|(_, place)| {
        let rebuilds = place.state == PartitionState::Rebuilding && place.core == core;
        place.taker() == Some(core) || rebuilds
    });
    received.map(|(id, _)| id).collect()
}

/// Sends heartbeats until no partition moves any more.
pub(super) fn finish(scene: &mut Scene) {
    for _ in 0..100 {
        all_beat(scene);
        let quiet = !configuration(scene).is_sealing() && moving(scene).is_empty();
        let places: Vec<_> = configuration(scene).places().collect();
        if quiet
            && places
                .iter()
                .all(|(_, it)| it.state == PartitionState::Serving)
        {
            return;
        }
    }
    panic!("moves do not end: {:?}", scene.notes);
}

pub(super) fn tolerated(scene: &Scene) -> u32 {
    let configuration = configuration(scene);
    let proof = configuration.proof(&configuration.tables[0]);
    proof.failures_tolerated()
}

#[test]
fn a_new_server_takes_its_share_and_then_nothing_moves() {
    let mut scene = scene_of(2);
    let before = held(&scene, 1);
    assert!(configuration(&scene).is_at_rest());
    scene.join(3);
    assert!(!moving(&scene).is_empty());
    finish(&mut scene);
    assert!(held(&scene, 3) > 0);
    assert!(configuration(&scene).is_at_rest());
    assert!(held(&scene, 1) + held(&scene, 2) < 2 * before);
    assert_eq!(tolerated(&scene), 1);
    let epoch = scene.epoch();
    all_beat(&mut scene);
    assert_eq!(scene.epoch(), epoch);
}

#[test]
fn a_partition_is_handed_over_once_all_that_moves_is_level() {
    let mut scene = scene_of(2);
    scene.join(3);
    let (id, place) = moving(&scene)[0];
    let Some(MoveProgress::To(next)) = place.moving else {
        panic!("it was just begun: {place:?}");
    };
    assert_eq!(place.state, PartitionState::Serving);
    assert!(!configuration(&scene).is_sealing());
    all_beat(&mut scene);
    let sealing = configuration(&scene).tables[0].sealing.clone();
    let sealing = sealing.expect("all are level");
    assert!(sealing.removed.is_empty());
    for id in 1..3 {
        let server = scene.server(id);
        beat(&mut scene, &server);
    }
    let given = configuration(&scene).place(id).expect("it is somewhere");
    assert_eq!((given.core, given.since), (next.core, next.since));
    assert_eq!(given.state, PartitionState::Rebuilding);
    assert_eq!(given.giver(), Some(place.core));
    all_beat(&mut scene);
    let served = configuration(&scene).place(id).expect("it is somewhere");
    assert_eq!(served, given.filled());
    assert_eq!(
        (served.state, served.moving),
        (PartitionState::Serving, None)
    );
}

#[test]
fn creating_and_dropping_tables_moves_nothing() {
    let mut scene = scene_of(3);
    scene.ask_from(CLIENT, create("trips", 1));
    finish(&mut scene);
    let dropped = Request::DropTable {
        name: "flights".into(),
        if_exists: false,
    };
    scene.ask_from(CLIENT, dropped);
    all_beat(&mut scene);
    assert!(moving(&scene).is_empty());
    assert_eq!(configuration(&scene).tables.len(), 1);
}

#[test]
fn nothing_moves_while_a_server_is_down() {
    let mut scene = scene_of(3);
    scene.ask(stopped(1, 1));
    scene.join(4);
    assert!(moving(&scene).is_empty());
}

#[test]
fn a_server_that_is_drained_holds_nothing_in_the_end() {
    let mut scene = scene_of(3);
    finish(&mut scene);
    let drain = Request::Drain {
        server: ServerId(2),
    };
    let reply = scene.ask(drain.clone());
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    finish(&mut scene);
    assert_eq!(held(&scene, 2), 0);
    assert_eq!(tolerated(&scene), 1);
    // Asked again, it is so already; and new tables do without it.
    let epoch = scene.epoch();
    scene.ask(drain);
    assert_eq!(scene.epoch(), epoch);
    scene.ask_from(CLIENT, create("trips", 1));
    assert_eq!(held(&scene, 2), 0);
    scene.ask(Request::EndDrain {
        server: ServerId(2),
    });
    finish(&mut scene);
    assert!(held(&scene, 2) > 0);
}

#[test]
fn a_drain_that_would_break_a_promise_is_refused() {
    let mut scene = scene_of(2);
    let drain = |id| Request::Drain {
        server: ServerId(id),
    };
    let (message, retry) = scene.refused(drain(1));
    assert!(!retry);
    assert_eq!(
        message,
        "without server 1, table flights would not survive the 1 failures that it tolerates: \
         start another server first"
    );
    let (message, _) = scene.refused(drain(7));
    assert!(message.starts_with("server 7 is not of this cluster"));
    scene.ask(stopped(1, 1));
    let (message, _) = scene.refused(drain(1));
    assert!(message.contains("is down: start it"), "{message}");
}

#[test]
fn partitions_that_moved_to_a_removed_server_stay() {
    let mut scene = scene_of(2);
    scene.join(3);
    let before = moving(&scene);
    scene.ask(stopped(3, 1));
    scene.ask(Request::Remove {
        server: ServerId(3),
    });
    for _ in 0..3 {
        all_beat(&mut scene);
    }
    assert!(moving(&scene).is_empty());
    for (id, place) in before {
        let after = configuration(&scene).place(id).expect("it is somewhere");
        assert_eq!((after.core, after.since), (place.core, place.since));
    }
}

#[test]
fn lost_and_moving_partitions_do_not_meet_on_a_server() {
    for lost in 1..=2 {
        let mut scene = scene_of(2);
        scene.join(3);
        assert!(!moving(&scene).is_empty(), "the third is to get a share");
        scene.ask(stopped(lost, 1));
        scene.ask(Request::Remove {
            server: ServerId(lost),
        });
        while held(&scene, lost) > 0 {
            all_beat(&mut scene);
        }
        for _ in 0..20 {
            assert_eq!(tolerated(&scene), 1, "without server {lost}");
            all_beat(&mut scene);
        }
    }
}

#[test]
fn moves_are_planned_again_when_a_copy_goes() {
    let mut scene = scene_of(4);
    scene.ask(with_index(&scene, "by_second", None));
    finish(&mut scene);
    scene.join(5);
    assert!(!moving(&scene).is_empty(), "the fifth is to get a share");
    scene.ask(without("by_second"));
    let epoch = configuration(&scene).epoch;
    copies::seal(&mut scene);
    for (_, place) in moving(&scene) {
        let planned_again =
            matches!(place.moving, Some(MoveProgress::To(taker)) if taker.since > epoch);
        assert!(
            planned_again,
            "proven with the copy that has gone: {place:?}"
        );
    }
    for _ in 0..20 {
        assert_eq!(tolerated(&scene), 1);
        all_beat(&mut scene);
    }
}

/// Epochs end, and a server that they need reports its stop.
fn stopped_while_epochs_end() -> Scene {
    let mut scene = scene_of(3);
    scene.coordinator.settings.replace_after_us = 0;
    scene.join(4);
    assert!(!moving(&scene).is_empty(), "the fourth is to get a share");
    let servers = configuration(&scene).servers.clone();
    while !configuration(&scene).is_sealing() {
        servers.iter().for_each(|server| beat(&mut scene, server));
    }
    scene.ask(stopped(2, 1));
    scene
}

#[test]
fn the_end_of_epochs_waits_for_a_server_that_restarts() {
    let mut scene = stopped_while_epochs_end();
    let before = held_by(&scene, 2);
    for _ in 0..8 {
        scene.wait_ms(500);
        all_beat(&mut scene);
        assert!(configuration(&scene).is_sealing());
    }
    scene.ask(joining(Some(2), 200, 2));
    all_beat(&mut scene);
    all_beat(&mut scene);
    assert!(!configuration(&scene).is_sealing());
    assert_eq!(scene.server(2).state, ServerState::Up);
    assert!(before.iter().any(|id| held_by(&scene, 2).contains(id)));
}

#[test]
fn the_end_of_epochs_does_not_wait_for_a_stopped_server_for_long() {
    let mut scene = stopped_while_epochs_end();
    for _ in 0..12 {
        scene.wait_ms(500);
        all_beat(&mut scene);
    }
    all_beat(&mut scene);
    assert!(!configuration(&scene).is_sealing(), "{:?}", scene.notes);
    assert_eq!(held_by(&scene, 2), []);
    finish(&mut scene);
    assert_eq!(tolerated(&scene), 1);
}

#[test]
fn a_stopped_server_has_time_where_nothing_waits_for_it() {
    let mut scene = scene_of(3);
    scene.coordinator.settings.replace_after_us = 0;
    scene.ask(stopped(2, 1));
    let before = held_by(&scene, 2);
    for _ in 0..30 {
        scene.wait_ms(500);
        all_beat(&mut scene);
    }
    assert_eq!(held_by(&scene, 2), before);
}

#[test]
fn a_server_that_was_lost_gets_back_what_it_held() {
    let mut scene = scene_of(4);
    let held_before: Vec<PartitionId> = held_by(&scene, 2);
    assert!(!held_before.is_empty());
    scene.ask(stopped(2, 1));
    scene.ask(Request::Remove {
        server: ServerId(2),
    });
    finish(&mut scene);
    assert_eq!(held_by(&scene, 2), []);
    let former = |scene: &Scene| {
        let places = configuration(scene).places();
        let with = places.filter(|(_, place)| place.former.is_some());
        with.map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(former(&scene), held_before);
    scene.ask(joining(Some(2), 200, 2));
    // A server that was lost of late has to stay for a while first.
    for _ in 0..12 {
        scene.wait_ms(500);
        all_beat(&mut scene);
    }
    finish(&mut scene);
    let back = held_by(&scene, 2);
    assert!(held_before.iter().all(|id| back.contains(id)), "{back:?}");
    assert_eq!(tolerated(&scene), 1);
    // Any other rows on its disk may go: nothing waits for them.
    assert_eq!(former(&scene), []);
    let epoch = scene.epoch();
    all_beat(&mut scene);
    assert_eq!(scene.epoch(), epoch);
}

#[test]
fn a_server_that_comes_and_goes_waits_for_partitions_longer_each_time() {
    let mut scene = scene_of(3);
    finish(&mut scene);
    let mut waits = Vec::new();
    for incarnation in 1..4 {
        scene.ask(stopped(3, incarnation));
        scene.ask(Request::Remove {
            server: ServerId(3),
        });
        for _ in 0..10 {
            all_beat(&mut scene);
        }
        assert_eq!(held(&scene, 3), 0);
        scene.ask(joining(Some(3), 100 + u64::from(incarnation), 3));
        let mut waited_ms = 0;
        while moving(&scene).is_empty() && held(&scene, 3) == 0 {
            assert!(waited_ms < 60_000, "{:?}", scene.notes);
            waited_ms += 500;
            scene.wait_ms(500);
            all_beat(&mut scene);
        }
        waits.push(waited_ms);
        finish(&mut scene);
    }
    assert!(waits.is_sorted_by(|a, b| 2 * a <= b + 1000), "{waits:?}");
    assert!(waits[0] >= 4_000, "{waits:?}");
}
