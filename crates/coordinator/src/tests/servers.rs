//! Servers and sessions: joining, leases, numbers, and states that cannot be used.

use super::*;

#[test]
fn first_state_is_kept_before_any_reply() {
    let scene = Scene::new();
    assert_eq!(scene.version, 1);
    assert_eq!(scene.coordinator.configuration().cluster, 7);
}

#[test]
fn new_servers_get_numbers_domains_and_the_configuration() {
    let mut scene = Scene::new();
    scene.join(1);
    let reply = scene.ask(new_server(2));
    let Reply::Joined {
        server,
        incarnation,
        configuration,
        ..
    } = reply
    else {
        panic!("{reply:?}")
    };
    assert_eq!((server, incarnation), (ServerId(2), Incarnation(1)));
    assert_eq!(&configuration, scene.coordinator.configuration());
    assert_eq!(configuration.servers.len(), 2);
    assert_eq!(configuration.servers[1].domain, "server-2");
    assert_eq!(configuration.servers[1].state, ServerState::Up);
    assert_eq!(configuration.epoch, Epoch(3));
}

#[test]
fn repeated_join_of_one_process_is_answered_alike() {
    let mut scene = Scene::new();
    let first = scene.ask(new_server(1));
    let version = scene.version;
    assert_eq!(scene.ask(new_server(1)), first);
    assert_eq!(scene.ask(joining(Some(1), 1, 1)), first);
    assert_eq!(scene.version, version);
}

#[test]
fn restarted_server_waits_for_its_old_lease_then_takes_its_place() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.wait_ms(400);
    let (message, retry) = scene.refused(joining(Some(1), 100, 1));
    assert_eq!(
        message,
        "server 1 is in use by another process, or was 400 ms ago: stop that process, or give \
         this one a folder of its own"
    );
    assert!(retry);
    scene.wait_ms(650);
    assert_eq!(scene.server(1).state, ServerState::Down);
    let epoch = scene.epoch();
    let reply = scene.ask(joining(Some(1), 100, 1));
    assert!(
        matches!(
            reply,
            Reply::Joined {
                incarnation: Incarnation(2),
                ..
            }
        ),
        "{reply:?}"
    );
    assert_eq!(scene.server(1).state, ServerState::Up);
    assert_eq!(scene.epoch(), epoch + 1);
    // The process before receives a stop.
    let (message, retry) = scene.refused(heartbeat(1, 0, 1, epoch));
    assert_eq!(
        message,
        "incarnation 1 of server 1 has been replaced by incarnation 2: stop this process"
    );
    assert!(!retry);
}

#[test]
fn stopped_server_is_replaced_at_once() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.wait_ms(400);
    scene.beat(1, 0);
    let reply = scene.ask(stopped(1, 1));
    let expected = Reply::Done {
        epoch: Epoch(3),
        table: None,
    };
    assert_eq!(reply, expected);
    assert_eq!(scene.server(1).state, ServerState::Down);
    // Sent again, because the answer was lost: nothing changes.
    let version = scene.version;
    assert_eq!(scene.ask(stopped(1, 1)), expected);
    assert_eq!(scene.version, version);
    let reply = scene.ask(joining(Some(1), 100, 1));
    assert!(
        matches!(
            reply,
            Reply::Joined {
                incarnation: Incarnation(2),
                ..
            }
        ),
        "{reply:?}"
    );
    // The word of the process before comes once more: it frees nothing of the next one's.
    let (message, retry) = scene.refused(stopped(1, 1));
    assert!(message.contains("has been replaced by incarnation 2"));
    assert!(!retry);
    assert_eq!(scene.server(1).state, ServerState::Up);
    let (_, retry) = scene.refused(joining(Some(1), 101, 1));
    assert!(retry, "the lease of the next one runs");
    let (message, _) = scene.refused(stopped(4, 1));
    assert!(message.starts_with("server 4 is not of this cluster"));
}

#[test]
fn heartbeat_that_a_goodbye_has_overtaken_renews_nothing() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.ask(stopped(1, 1));
    let (message, _) = scene.refused(heartbeat(1, 1, 1, 2));
    assert_eq!(
        message,
        "incarnation 1 of server 1 has reported its stop: start it again"
    );
    assert_eq!(scene.server(1).state, ServerState::Down);
    let reply = scene.ask(joining(Some(1), 100, 1));
    assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
    scene.beat(1, 1);
}

#[test]
fn lost_number_is_found_by_the_folder() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.wait_ms(2000);
    let reply = scene.ask(joining(None, 100, 1));
    assert!(
        matches!(
            reply,
            Reply::Joined {
                server: ServerId(1),
                incarnation: Incarnation(2),
                ..
            }
        ),
        "{reply:?}"
    );
}

#[test]
fn other_folder_under_a_known_number_is_refused() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.wait_ms(2000);
    let (message, retry) = scene.refused(joining(Some(1), 100, 9));
    assert_eq!(
        message,
        "server 1 has joined with another data folder before, and its partitions are there: \
         start it on that folder, or start a new server without a number"
    );
    assert!(!retry);
    let (message, _) = scene.refused(joining(Some(5), 100, 9));
    assert!(
        message.starts_with("server 5 is not of this cluster"),
        "{message}"
    );
}

#[test]
fn malformed_joins_are_refused() {
    let mut scene = Scene::new();
    let mut refused = |domain: &str, cores: Vec<String>| {
        let request = Request::Join {
            server: None,
            instance: 1,
            folder: FolderReport {
                disk: 1,
                ..FolderReport::default()
            },
            domain: domain.into(),
            cores,
        };
        scene.refused(request).0
    };
    assert!(refused("two words", addresses(1, 1)).contains("is no name"));
    assert!(refused("", Vec::new()).contains("1 to 256 cores, not 0"));
    assert!(refused("", addresses(1, 257)).contains("not 257"));
    for address in ["here", ":7000", "here:0", "here:70000", "he re:7000"] {
        assert!(
            refused("", vec![address.into()]).contains("is no address"),
            "{address}"
        );
    }
    let twice = vec!["a:1".to_string(), "a:1".to_string()];
    assert_eq!(
        refused("", twice),
        "two cores have the address a:1: give each its own port"
    );
}

#[test]
fn address_of_a_server_that_is_up_is_refused() {
    let mut scene = Scene::new();
    scene.join(1);
    let thief = |instance| Request::Join {
        server: None,
        instance,
        folder: FolderReport {
            disk: 2,
            ..FolderReport::default()
        },
        domain: String::new(),
        cores: addresses(1, 1),
    };
    let (message, _) = scene.refused(thief(2));
    assert_eq!(
        message,
        "127.0.0.1:7010 is the address of server 1: choose another port"
    );
    scene.wait_ms(2000);
    assert!(matches!(scene.ask(thief(2)), Reply::Joined { .. }));
}

#[test]
fn heartbeats_renew_the_lease_of_the_server() {
    let mut scene = Scene::new();
    scene.join(1);
    for _ in 0..5 {
        scene.wait_ms(900);
        let reply = scene.beat(1, 1);
        let expected = Reply::Beat {
            sent_us: 17,
            epoch: Epoch(2),
            lease_us: 1_000_000,
            session_floor: SessionId(1),
        };
        assert_eq!(reply, expected);
    }
    scene.wait_ms(1049);
    assert_eq!(scene.server(1).state, ServerState::Up);
    scene.wait_ms(1);
    assert_eq!(scene.server(1).state, ServerState::Down);
    assert_eq!(scene.epoch(), 3);
    assert!(
        scene
            .notes
            .last()
            .is_some_and(|note| note.contains("server 1 is down"))
    );
    // It was only slow: the next heartbeat brings it back, in a new epoch.
    scene.beat(1, 0);
    assert_eq!(scene.server(1).state, ServerState::Up);
    assert_eq!(scene.epoch(), 4);
}

#[test]
fn servers_that_fall_silent_together_are_one_epoch() {
    let mut scene = Scene::new();
    for id in 1..=3 {
        scene.join(id);
    }
    scene.wait_ms(500);
    scene.beat(3, 0);
    scene.wait_ms(600);
    let states = [1, 2, 3].map(|id| scene.server(id).state);
    assert_eq!(
        states,
        [ServerState::Down, ServerState::Down, ServerState::Up]
    );
    assert_eq!(scene.epoch(), 5);
}

#[test]
fn heartbeats_that_cannot_be_are_refused() {
    let mut scene = Scene::new();
    scene.join(1);
    let (message, _) = scene.refused(heartbeat(4, 0, 1, 1));
    assert!(
        message.starts_with("server 4 is not of this cluster"),
        "{message}"
    );
    let (message, _) = scene.refused(heartbeat(1, 2, 1, 1));
    assert!(message.contains("joined with 2 cores"), "{message}");
    // A later epoch than there is proves that the state is an older copy.
    assert_eq!(scene.ask(heartbeat(1, 0, 1, 99)), Reply::Recall);
}

#[test]
fn deadline_is_the_next_end_of_a_lease() {
    let mut scene = Scene::new();
    scene.join(1);
    let mut output = CoordinatorOutput::default();
    scene
        .coordinator
        .step(scene.now, CoordinatorInput::Tick, &mut output);
    assert_eq!(output.deadline_us, Some(1_000_000 + 1_050_000));
}

#[test]
fn paused_coordinator_takes_no_server_for_dead() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    // Nothing at all was read for a minute; what is read first is one of many heartbeats.
    scene.now.monotonic_us += 60_000 * MS;
    scene.beat(1, 0);
    assert_eq!(scene.server(2).state, ServerState::Up);
    // It sleeps again: a server without a report since is not forgiven twice.
    scene.now.monotonic_us += 60_000 * MS;
    scene.beat(1, 0);
    let states = [1, 2].map(|id| scene.server(id).state);
    assert_eq!(states, [ServerState::Up, ServerState::Down]);
}

#[test]
fn restarted_coordinator_gives_every_server_a_lease_to_report() {
    let mut scene = Scene::new();
    scene.join(1);
    let state = decode_state(&scene.kept).expect("it was kept");
    let mut scene = Scene::restarted(state, 5);
    scene.wait_ms(1000);
    assert_eq!(scene.server(1).state, ServerState::Up);
    let (_, retry) = scene.refused(joining(Some(1), 100, 1));
    assert!(retry, "the process before may still be there");
    scene.wait_ms(100);
    assert_eq!(scene.server(1).state, ServerState::Down);
}

#[test]
fn fetch_gives_what_is_newer() {
    let mut scene = Scene::new();
    scene.join(1);
    let configuration = scene.coordinator.configuration().clone();
    assert_eq!(
        scene.ask(Request::Fetch { known: Epoch(0) }),
        Reply::Configuration(configuration)
    );
    assert_eq!(
        scene.ask(Request::Fetch { known: Epoch(2) }),
        Reply::Unchanged { epoch: Epoch(2) }
    );
}

fn opened(scene: &mut Scene) -> SessionId {
    match scene.ask(Request::OpenSession) {
        Reply::Session { session, life_us } => {
            assert_eq!(life_us, 3_600_000_000);
            session
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn sessions_write_once_per_block_and_never_repeat() {
    let mut scene = Scene::new();
    assert_eq!(opened(&mut scene), SessionId(1));
    let version = scene.version;
    assert_eq!(version, 2);
    assert_eq!(opened(&mut scene), SessionId(2));
    assert_eq!(scene.version, version);
    let state = decode_state(&scene.kept).expect("it was kept");
    let mut scene = Scene::restarted(state, 5);
    assert_eq!(opened(&mut scene), SessionId(1 + SESSION_BLOCK));
    for number in 2..=SESSION_BLOCK + 1 {
        assert_eq!(opened(&mut scene), SessionId(number + SESSION_BLOCK));
    }
}

#[test]
fn sessions_end_after_two_lives() {
    const HOUR_MS: u64 = 3_600_000;
    let mut scene = Scene::new();
    let first = opened(&mut scene);
    scene.wait_ms(HOUR_MS);
    let second = opened(&mut scene);
    let floor = |scene: &Scene| scene.coordinator.state().session_floor;
    scene.wait_ms(HOUR_MS - 1);
    assert!(floor(&scene) <= first);
    scene.wait_ms(HOUR_MS / 4);
    assert!(
        floor(&scene) > first,
        "at most an eighth of a life too late"
    );
    assert!(floor(&scene) <= second);
    scene.wait_ms(HOUR_MS);
    assert!(floor(&scene) > second);
    // A floor that was sent stays.
    let before = floor(&scene);
    let state = decode_state(&scene.kept).expect("it was kept");
    let scene = Scene::restarted(state, 5);
    assert_eq!(floor(&scene), before);
}

#[test]
fn unusable_states_give_a_reason() {
    let mut scene = Scene::new();
    scene.join(1);
    let bytes = scene.kept.clone();
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        decode_state(&bytes)
            .expect_err("it was changed")
            .to_string()
    };
    assert_eq!(
        with(0, b'?'),
        "this is no coordinator's state: name another folder"
    );
    assert_eq!(
        with(8, 12),
        "the coordinator's state is of format 12, this program knows 11: use the release that \
         wrote it, or a newer one"
    );
    assert!(with(8, 1).contains("this program knows only 11"));
    assert!(with(20, 0xff).contains("damaged"));
    assert!(with(bytes.len() - 1, 0xff).contains("damaged"));
    assert_eq!(
        decode_state(&bytes[..bytes.len() - 1]),
        Err(StateError::Checksum)
    );
    assert_eq!(decode_state(&[]), Err(StateError::NotState));

    let mut state = scene.coordinator.state().clone();
    state.next_server = 1;
    assert_eq!(
        decode_state(&encode_state(&state)),
        Err(StateError::Inconsistent(
            "a number would be given twice".into()
        ))
    );
    state.next_server = 2;
    state.members.clear();
    assert!(matches!(
        decode_state(&encode_state(&state)),
        Err(StateError::Inconsistent(_))
    ));
}
