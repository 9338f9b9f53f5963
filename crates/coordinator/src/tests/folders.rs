//! Servers that come back with older copies of their folders.

use super::*;

/// Returns a join of server `id` with a folder on which `last` joined last.
fn with_folder(id: u32, instance: u64, last: u64) -> Request {
    let mut request = joining(Some(id), instance, u64::from(id));
    if let Request::Join { folder, .. } = &mut request {
        folder.last = last;
    }
    request
}

fn change(request: &mut Request, how: impl FnOnce(&mut FolderReport)) {
    if let Request::Join { folder, .. } = request {
        how(folder);
    }
}

fn waits(scene: &mut Scene, request: Request) -> String {
    match scene.ask(request) {
        Reply::Wait { message } => message,
        other => panic!("{other:?}"),
    }
}

/// Returns three servers with a table of two copies. Server 1 has stopped as instance 1, joined as
/// instance 100 and stopped again.
fn scene_of(failures: u8) -> Scene {
    let mut scene = Scene::new();
    for id in 1..=3 {
        scene.join(id);
    }
    scene.ask_from(CLIENT, create("t", failures));
    scene.ask(stopped(1, 1));
    let reply = scene.ask(joining(Some(1), 100, 1));
    assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
    scene.ask(stopped(1, 2));
    scene
}

/// Makes all remaining cores report that they have resolved everything.
fn resolve(scene: &mut Scene) {
    let tables = scene.coordinator.configuration().tables.iter();
    let cores: BTreeSet<CoreId> = tables.flat_map(sealing::remaining_cores).collect();
    for core in cores {
        let server = scene.server(core.server.0);
        let mut beat = heartbeat(
            core.server.0,
            core.core,
            server.incarnation.0,
            scene.epoch(),
        );
        if let Request::Heartbeat { seals, .. } = &mut beat {
            *seals = resolved(scene.coordinator.configuration());
        }
        scene.ask(beat);
    }
}

fn states(scene: &Scene, id: u32) -> Vec<protocol::configuration::PartitionState> {
    let places = scene.coordinator.configuration().places();
    let own = places.filter(|(_, place)| place.core.server == ServerId(id));
    own.map(|(_, place)| place.state).collect()
}

#[test]
fn an_older_folder_is_let_in_once_what_it_holds_is_void() {
    use protocol::configuration::PartitionState::{Rebuilding, Serving};
    let mut scene = scene_of(1);
    let before = states(&scene, 1);
    assert!(!before.is_empty() && before.iter().all(|it| *it == Serving));
    // Made while instance 1 was the last one.
    let message = waits(&mut scene, with_folder(1, 200, 1));
    assert!(
        message.contains("server 1 came with an older copy of its folder"),
        "{message}"
    );
    assert!(
        scene
            .notes
            .iter()
            .any(|it| it.starts_with("OLD FOLDER: server 1"))
    );
    let sealing = scene.coordinator.configuration().tables[0].sealing.clone();
    assert_eq!(sealing.expect("epochs end").removed, [ServerId(1)]);
    let version = scene.version;
    waits(&mut scene, with_folder(1, 200, 1));
    assert_eq!(scene.version, version, "asking again changes nothing");
    resolve(&mut scene);
    assert!(!scene.coordinator.configuration().is_sealing());
    let after = states(&scene, 1);
    assert_eq!(after.len(), before.len(), "its partitions stay with it");
    assert!(after.iter().all(|it| *it == Rebuilding));
    let reply = scene.ask(with_folder(1, 200, 1));
    let Reply::Joined {
        incarnation, logs, ..
    } = reply
    else {
        panic!("{reply:?}")
    };
    assert_eq!((incarnation, logs), (Incarnation(3), vec![]));
    // From now on this folder is the newest.
    scene.ask(stopped(1, 3));
    assert!(matches!(
        scene.ask(joining(Some(1), 300, 1)),
        Reply::Joined { .. }
    ));
}

#[test]
fn a_folder_whose_process_may_have_joined_is_the_newest() {
    let mut scene = scene_of(1);
    let reply = scene.ask(with_folder(1, 200, 100));
    assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
    scene.wait_ms(1100);
    // The answer was lost, and the next process goes on with the number: with other addresses.
    let mut again = with_folder(1, 200, 100);
    if let Request::Join { cores, .. } = &mut again {
        *cores = addresses(8, 2);
    }
    let reply = scene.ask(again);
    assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
}

#[test]
fn an_older_log_is_as_an_older_folder() {
    let mut scene = scene_of(1);
    let mut request = with_folder(1, 200, 100);
    change(&mut request, |folder| folder.is_old = true);
    let message = waits(&mut scene, request);
    assert!(
        message.contains("the log in the folder of server 1"),
        "{message}"
    );
}

#[test]
fn how_far_logs_were_durable_outlives_the_coordinator() {
    let mut scene = Scene::new();
    scene.join(1);
    let mut beat = heartbeat(1, 1, 1, 2);
    if let Request::Heartbeat { durable, .. } = &mut beat {
        *durable = Position(70);
    }
    scene.ask(beat);
    scene.wait_ms(2000);
    assert_eq!(scene.server(1).state, ServerState::Down);
    let state = decode_state(&scene.kept).expect("it was kept");
    let mut scene = Scene::restarted(state, 9_000_000);
    let reply = scene.ask(joining(Some(1), 100, 1));
    let Reply::Joined { logs, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(logs, [Position(0), Position(70)]);
}

#[test]
fn a_goodbye_reports_where_logs_end() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.ask(Request::Stopped {
        server: ServerId(1),
        incarnation: Incarnation(1),
        logs: vec![Position(5), Position(6)],
    });
    let reply = scene.ask(joining(Some(1), 100, 1));
    let Reply::Joined { logs, .. } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(logs, [Position(5), Position(6)]);
}

#[test]
fn a_folder_whose_process_ended_waits_for_no_lease() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.wait_ms(100);
    let (_, retry) = scene.refused(joining(Some(1), 100, 1));
    assert!(retry, "the lease runs");
    let mut request = joining(Some(1), 100, 1);
    change(&mut request, |folder| folder.has_stopped = true);
    assert!(matches!(scene.ask(request), Reply::Joined { .. }));
    // A copy of that folder reports the same, of a process that is not the last one any more.
    let mut copy = with_folder(1, 300, 1);
    change(&mut copy, |folder| folder.has_stopped = true);
    let (message, retry) = scene.refused(copy);
    assert!(message.contains("in use by another process"), "{message}");
    assert!(retry);
}

#[test]
fn rows_without_another_copy_are_refused_until_an_operator_accepts_the_loss() {
    let mut scene = scene_of(0);
    // With what servers 1 and 2 hold gone, some rows are nowhere: only then it matters.
    let message = waits(&mut scene, with_folder(1, 200, 1));
    let is_only_copy = message.contains("cannot be had from other servers");
    if !is_only_copy {
        // The table has another copy of all that server 1 holds.
        return;
    }
    assert!(
        message.contains("replex admin server accept-folder 1"),
        "{message}"
    );
    assert!(!scene.coordinator.configuration().is_sealing());
    scene.ask(Request::AcceptFolder {
        server: ServerId(1),
    });
    let reply = scene.ask(with_folder(1, 200, 1));
    assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
    assert!(
        scene
            .notes
            .iter()
            .any(|it| it.contains("an operator accepts the loss"))
    );
}

#[test]
fn more_older_folders_than_are_tolerated_stop_loudly() {
    let mut scene = scene_of(1);
    for id in [2, 3] {
        scene.ask(stopped(id, 1));
        let next = joining(Some(id), 100 + u64::from(id), u64::from(id));
        assert!(matches!(scene.ask(next), Reply::Joined { .. }));
        scene.ask(stopped(id, 2));
    }
    for id in 1..=3 {
        let message = waits(
            &mut scene,
            with_folder(id, 200 + u64::from(id), u64::from(id)),
        );
        assert!(
            message.contains("cannot be had from other servers"),
            "{message}"
        );
    }
    assert!(!scene.coordinator.configuration().is_sealing());
    assert!(scene.notes.iter().any(|it| it.starts_with("OLD FOLDER")));
    // The newest folder of one is as good as ever.
    assert!(matches!(
        scene.ask(joining(Some(2), 900, 2)),
        Reply::Joined { .. }
    ));
}

#[test]
fn an_older_folder_of_a_server_that_holds_nothing_does_no_harm() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.ask(stopped(1, 1));
    assert!(matches!(
        scene.ask(joining(Some(1), 100, 1)),
        Reply::Joined { .. }
    ));
    scene.ask(stopped(1, 2));
    assert!(matches!(
        scene.ask(with_folder(1, 200, 1)),
        Reply::Joined { .. }
    ));
}

#[test]
fn the_newest_folder_ends_the_wait_of_an_older_one() {
    let mut scene = scene_of(1);
    waits(&mut scene, with_folder(1, 200, 1));
    let reply = scene.ask(with_folder(1, 300, 100));
    assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
    let sealing = scene.coordinator.configuration().tables[0].sealing.clone();
    assert_eq!(sealing.expect("epochs still end").removed, []);
    resolve(&mut scene);
    assert!(
        states(&scene, 1)
            .iter()
            .all(|it| *it == protocol::configuration::PartitionState::Serving)
    );
}
