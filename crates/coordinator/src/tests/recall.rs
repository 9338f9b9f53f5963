//! A state that is lost or an older copy is rebuilt from what the servers know.

use alloc::collections::BTreeSet;

use super::*;

fn remember(scene: &Scene, id: u32, core: u16, runs: bool) -> Request {
    let configuration = scene.coordinator.configuration().clone();
    let server = configuration.server(ServerId(id)).expect("it joined");
    let members = &scene.coordinator.state().members;
    let member = members
        .iter()
        .find(|it| it.server == server.id)
        .expect("it joined");
    Request::Remember(RecallReport {
        core: CoreId {
            server: server.id,
            core,
        },
        incarnation: server.incarnation,
        runs,
        folder: FolderReport {
            disk: member.disk,
            last: member.instance,
            incarnation: server.incarnation,
            epoch: configuration.epoch,
            ..FolderReport::default()
        },
        session_floor: SessionId(3),
        configuration,
    })
}

/// Returns the newest scene, and one whose coordinator goes on from the state before the last
/// table.
fn diverged() -> (Scene, Scene) {
    let mut newest = Scene::new();
    for id in 1..=3 {
        newest.join(id);
    }
    newest.ask_from(CLIENT, create("t", 1));
    newest.ask(Request::OpenSession);
    let old = decode_state(&newest.kept).expect("it was kept");
    newest.ask_from(CLIENT, create("later", 1));
    (newest, Scene::restarted(old, 5_000_000))
}

fn is_whole(newest: &Scene, recovered: &Scene) {
    let (before, after) = (newest.coordinator.state(), recovered.coordinator.state());
    let (old, new) = (&before.configuration, &after.configuration);
    let mut tables = old.tables.clone();
    for table in tables.iter_mut() {
        table.epoch = new.epoch;
    }
    assert_eq!(new.tables, tables);
    assert_eq!(new.cluster, old.cluster);
    assert!(new.epoch > old.epoch);
    assert!(after.next_server > before.next_server);
    assert!(after.next_table > before.next_table);
    assert!(after.sessions_reserved > before.sessions_reserved);
    assert!(after.session_floor >= SessionId(3));
}

#[test]
fn a_server_that_knows_a_later_epoch_is_believed_and_nothing_is_decided_meanwhile() {
    let (newest, mut old) = diverged();
    let epoch = newest.epoch();
    assert_eq!(old.ask(heartbeat(1, 0, 1, epoch)), Reply::Recall);
    let expected = format!(
        "RECOVERING: the coordinator's state is an older copy: it is of epoch {}, server 1 knows \
         epoch {epoch}",
        epoch - 1
    );
    assert!(
        old.notes.iter().any(|it| it.starts_with(&expected)),
        "{:?}",
        old.notes
    );
    for request in [Request::OpenSession, create("more", 1), new_server(4)] {
        let (message, retry) = old.refused(request);
        assert!(message.contains("older copy"), "{message}");
        assert!(message.contains("waits for servers 1, 2, 3"), "{message}");
        assert!(retry);
    }
    // No lease ends, however long it takes.
    old.wait_ms(10_000);
    assert!((1..=3).all(|id| old.server(id).state == ServerState::Up));
    for (id, core) in [(1, 0), (1, 1), (2, 0), (3, 0), (3, 1)] {
        old.ask(remember(&newest, id, core, true));
        assert!(old.coordinator.is_recalling());
    }
    let (message, _) = old.refused(Request::OpenSession);
    assert!(message.contains("waits for servers 2:"), "{message}");
    old.ask(remember(&newest, 2, 1, true));
    assert!(!old.coordinator.is_recalling());
    is_whole(&newest, &old);
    // Processes that run go on as what they are.
    for id in 1..=3 {
        assert!(matches!(old.beat(id, 0), Reply::Beat { .. }));
        assert_eq!(old.server(id).incarnation, Incarnation(1));
    }
}

#[test]
fn a_lost_state_is_rebuilt_from_servers_that_wait_to_join() {
    let (newest, _) = diverged();
    let mut output = CoordinatorOutput::default();
    let mut lost = Scene::new();
    lost.coordinator = Coordinator::new(CoordinatorState::new(0), CoordinatorSettings::default());
    lost.version = 0;
    lost.coordinator.recall(BTreeSet::new(), &mut output);
    lost.coordinator.start(lost.now, &mut output);
    assert!(output.persist.is_none(), "an empty cluster is not made");
    assert_eq!(lost.coordinator.cluster(), None);
    lost.kept = encode_state(lost.coordinator.state());
    assert_eq!(lost.ask(joining(Some(1), 50, 1)), Reply::Recall);
    for id in 1..=3 {
        lost.ask(remember(&newest, id, 0, false));
    }
    assert!(!lost.coordinator.is_recalling());
    assert_eq!(lost.coordinator.cluster(), Some(7));
    is_whole(&newest, &lost);
    for id in 1..=3 {
        let reply = lost.ask(joining(Some(id), 50 + u64::from(id), u64::from(id)));
        let Reply::Joined { incarnation, .. } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(incarnation, Incarnation(2));
    }
}

#[test]
fn a_server_without_a_report_gets_unused_incarnations() {
    let (newest, mut old) = diverged();
    let mut output = CoordinatorOutput::default();
    old.coordinator
        .recall(BTreeSet::from([ServerId(3)]), &mut output);
    for (id, core) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        old.ask(remember(&newest, id, core, true));
    }
    assert!(!old.coordinator.is_recalling(), "server 3 is lost for good");
    assert_eq!(old.server(3).state, ServerState::Down);
    let mut late = joining(Some(3), 77, 3);
    if let Request::Join { folder, .. } = &mut late {
        folder.incarnation = Incarnation(1);
    }
    let reply = old.ask(late);
    let Reply::Joined { incarnation, .. } = reply else {
        panic!("{reply:?}")
    };
    assert!(incarnation.0 > 1000, "{incarnation:?}");
}

#[test]
fn a_folder_that_knows_a_later_epoch_is_believed_too() {
    let (newest, mut old) = diverged();
    let mut request = joining(Some(2), 50, 2);
    if let Request::Join { folder, .. } = &mut request {
        folder.epoch = Epoch(newest.epoch());
    }
    assert_eq!(old.ask(request), Reply::Recall);
    assert!(old.coordinator.is_recalling());
}

#[test]
fn sessions_of_an_older_copy_are_not_numbered_again_even_before_any_report() {
    let (newest, _) = diverged();
    let now = ClockReading {
        monotonic_us: 5_000_000,
        wall_us: 1_800_000_000_000_000,
    };
    let mut numbers = BTreeSet::new();
    // The same state three times: from the second time on it is an older copy.
    for later_us in [0, 10_000, 2_000_000] {
        let state = decode_state(&newest.kept).expect("it was kept");
        let mut scene = Scene::restarted(CoordinatorState::new(7), 0);
        scene.coordinator = Coordinator::new(state.clone(), CoordinatorSettings::default());
        scene.version = state.version;
        scene.kept = encode_state(&state);
        scene.now = ClockReading {
            wall_us: now.wall_us + later_us,
            ..now
        };
        let mut output = CoordinatorOutput::default();
        scene.coordinator.start(scene.now, &mut output);
        for _ in 0..5_000 {
            let reply = scene.ask(Request::OpenSession);
            let Reply::Session { session, .. } = reply else {
                panic!("{reply:?}")
            };
            assert!(numbers.insert(session), "{session:?} was given twice");
        }
    }
}
