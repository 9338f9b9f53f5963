//! Tables: created, waited for, dropped, and what servers owe to those they hold.

use super::*;
use crate::CONFIGURATION_BYTES_MAX;

#[test]
fn table_is_answered_once_every_core_of_it_knows_it() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    assert_eq!(scene.ask_from(CLIENT, create("flights", 1)), None);
    assert_eq!(scene.epoch(), 4);
    let configuration = scene.coordinator.configuration().clone();
    let flights = configuration
        .table_named("flights")
        .expect("it was created");
    assert_eq!(flights.id, TableId(1));
    let servers = configuration.hosts();
    let proof = prove(&flights.layout, &flights.bare_placement(), &servers);
    assert!(proof.failures_tolerated() >= 1);
    for (id, core) in [(1, 0), (1, 1), (2, 0)] {
        scene.beat(id, core);
        assert_eq!(
            scene.late,
            [],
            "four partitions in each copy use every core"
        );
    }
    scene.beat(2, 1);
    let answer = CoordinatorAnswer {
        to: RequesterId(CLIENT),
        correlation: 1009,
        after: scene.version,
        reply: Reply::Done {
            epoch: Epoch(4),
            table: Some(TableId(1)),
        },
    };
    assert_eq!(scene.late, [answer]);
}

/// Two indexes and a hybrid are three copies: no replica is added for f = 2.
#[test]
fn hybrid_counts_for_the_failures_tolerated() {
    let mut scene = Scene::new();
    for server in 1..=3 {
        scene.join(server);
    }
    let mut schema = table("flights", 2);
    let share = |index| Share {
        index,
        divisions: 2,
    };
    let shares = vec![share(None), share(Some(0))];
    schema.further.push(FurtherCopy {
        name: "both".into(),
        cut: Cut::Hybrid { shares },
    });
    let request = Request::CreateTable {
        schema,
        if_not_exists: false,
        sequences: Vec::new(),
        owner: Default::default(),
    };
    assert_eq!(scene.ask_from(CLIENT, request), None);
    let configuration = scene.coordinator.configuration();
    let flights = configuration.table_named("flights");
    let report = configuration.report(flights.expect("it was created"));
    assert_eq!((report.copies, report.failures_proven), (3, Some(2)));
    assert_eq!(report.replexes[2].kind, "hybrid");
    let after_one = report.replexes.iter();
    let after_one: Vec<u32> = after_one.map(|it| it.after_one_failure.max).collect();
    assert_eq!(after_one[..2], [2, 2]);
}

#[test]
fn heartbeat_of_an_older_epoch_does_not_answer_for_a_table() {
    let mut scene = Scene::new();
    scene.join(1);
    assert_eq!(scene.ask_from(CLIENT, create("flights", 0)), None);
    for core in 0..2 {
        scene.ask(heartbeat(1, core, 1, 2));
    }
    assert_eq!(scene.late, []);
    for core in 0..2 {
        scene.beat(1, core);
    }
    assert_eq!(scene.late.len(), 1);
}

#[test]
fn silent_server_is_waited_for_until_it_is_down() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.wait_ms(1000);
    scene.beat(1, 0);
    assert_eq!(scene.ask_from(CLIENT, create("flights", 1)), None);
    scene.beat(1, 0);
    scene.beat(1, 1);
    assert_eq!(scene.late, []);
    scene.wait_ms(60);
    assert_eq!(scene.server(2).state, ServerState::Down);
    assert_eq!(scene.late.len(), 1);
}

#[test]
fn wait_for_servers_is_bounded() {
    let mut scene = Scene::new();
    scene.join(1);
    assert_eq!(scene.ask_from(CLIENT, create("flights", 0)), None);
    // It renews its lease but never fetches.
    for _ in 0..11 {
        assert_eq!(scene.late, []);
        scene.now.monotonic_us += 910 * MS;
        scene.ask(heartbeat(1, 0, 1, 2));
    }
    assert_eq!(scene.late.len(), 1);
    assert!(
        scene
            .notes
            .last()
            .is_some_and(|note| note.contains("before server 1 core"))
    );
}

#[test]
fn a_closed_connection_is_not_answered() {
    let mut scene = Scene::new();
    scene.join(1);
    assert_eq!(scene.ask_from(CLIENT, create("flights", 0)), None);
    scene.step(CoordinatorInput::Gone {
        from: RequesterId(CLIENT),
    });
    for core in 0..2 {
        scene.beat(1, core);
    }
    assert_eq!(scene.late, []);
    assert!(
        scene
            .coordinator
            .configuration()
            .table_named("flights")
            .is_some()
    );
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let mut scene = Scene::new();
    let (message, _) = scene.refused(create("flights", 0));
    assert!(
        message.starts_with("failures_tolerated = 0 needs servers in 1"),
        "{message}"
    );
    scene.join(1);
    scene.join(2);
    let (message, retry) = scene.refused(create("flights", 2));
    assert_eq!(
        message,
        "failures_tolerated = 2 needs servers in 3 failure domains, there are 2: start servers \
         in 1 more, or set failures_tolerated = 1"
    );
    assert!(!retry);
    let (message, _) = scene.refused(create("2flights", 0));
    assert!(message.contains("is not a name"), "{message}");
    scene.wait_ms(2000);
    let (message, _) = scene.refused(create("flights", 0));
    assert!(
        message.contains("there are 0"),
        "servers that are down hold nothing: {message}"
    );
}

#[test]
fn name_of_a_table_is_taken_until_it_is_dropped() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.ask_from(CLIENT, create("flights", 0));
    let (message, _) = scene.refused(create("flights", 0));
    assert!(
        message.starts_with("there is a table flights already"),
        "{message}"
    );
    let version = scene.version;
    let again = Request::CreateTable {
        schema: table("flights", 0),
        if_not_exists: true,
        sequences: Vec::new(),
        owner: Default::default(),
    };
    assert_eq!(
        scene.ask_from(8, again),
        None,
        "it is not known everywhere yet"
    );
    assert_eq!(scene.version, version);
    for core in 0..2 {
        scene.beat(1, core);
    }
    let replies: Vec<_> = scene.late.drain(..).map(|answer| answer.reply).collect();
    let done = Reply::Done {
        epoch: Epoch(3),
        table: Some(TableId(1)),
    };
    assert_eq!(replies, [done.clone(), done]);

    assert_eq!(scene.ask_from(CLIENT, drop_table("flights")), None);
    for core in 0..2 {
        scene.beat(1, core);
    }
    assert!(matches!(
        scene.late[0].reply,
        Reply::Done {
            epoch: Epoch(4),
            table: None
        }
    ));
    assert_eq!(
        scene.refused(drop_table("flights")).0,
        "there is no table \"flights\": add IF EXISTS if that is fine"
    );
    let if_exists = Request::DropTable {
        name: "flights".into(),
        if_exists: true,
    };
    assert!(matches!(
        scene.ask(if_exists),
        Reply::Done { table: None, .. }
    ));
    scene.ask_from(CLIENT, create("flights", 0));
    let flights = scene.coordinator.configuration().table_named("flights");
    assert_eq!(
        flights.map(|table| table.id),
        Some(TableId(2)),
        "numbers are not reused"
    );
}

/// Creates tables of 59 copies until the configuration has no room for another one, and returns the
/// refusal.
pub fn fill_configuration(scene: &mut Scene, partitions: u32) -> String {
    let wide = |number: usize| {
        let mut schema = table(&format!("t{partitions}_{number}"), 0);
        schema.partitions = partitions;
        let template = schema.indexes[0].clone();
        schema.indexes = (0..58)
            .map(|index| Index {
                name: format!("i{index}"),
                ..template.clone()
            })
            .collect();
        Request::CreateTable {
            schema,
            if_not_exists: false,
            sequences: Vec::new(),
            owner: Default::default(),
        }
    };
    let bytes_of_one = partitions as usize * 59 * 16;
    for number in 0..CONFIGURATION_BYTES_MAX / bytes_of_one {
        if scene.ask_from(CLIENT, wide(number)).is_some() {
            break;
        }
    }
    scene.refused(wide(1000)).0
}

#[test]
fn configuration_stays_within_a_frame() {
    let mut scene = Scene::new();
    scene.join(1);
    let message = fill_configuration(&mut scene, 2048);
    assert!(message.contains("the limit is 25165824"), "{message}");
    let joined = protocol::message::Message::Answer(scene.ask(new_server(2)));
    let mut frame = Vec::new();
    protocol::frame::encode(1, &joined, &mut frame);
    let limits = protocol::frame::FrameLimits::Configurations;
    let decoded = protocol::frame::decode_within(&frame, limits);
    assert!(decoded.expect("it is within the limits").is_some());
}

#[test]
fn server_that_holds_partitions_may_not_leave() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.ask_from(CLIENT, create("flights", 1));
    let (message, _) = scene.refused(Request::Leave {
        server: ServerId(1),
    });
    assert_eq!(
        message,
        "server 1 holds partitions of flights: drain it first, or drop what is not needed"
    );
    scene.ask_from(CLIENT, drop_table("flights"));
    let reply = scene.ask(Request::Leave {
        server: ServerId(1),
    });
    assert!(
        matches!(reply, Reply::Done { table: None, .. }),
        "{reply:?}"
    );
    let (message, _) = scene.refused(Request::Leave {
        server: ServerId(1),
    });
    assert!(
        message.starts_with("server 1 is not of this cluster"),
        "{message}"
    );
    // Its folder, started again, is a new server.
    let reply = scene.ask(joining(None, 100, 1));
    assert!(
        matches!(
            reply,
            Reply::Joined {
                server: ServerId(3),
                ..
            }
        ),
        "{reply:?}"
    );
}

#[test]
fn server_must_come_back_with_the_cores_it_needs() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.ask_from(CLIENT, create("flights", 0));
    scene.wait_ms(2000);
    let mut request = joining(Some(1), 100, 1);
    if let Request::Join { cores, .. } = &mut request {
        cores.pop();
    }
    assert_eq!(
        scene.refused(request).0,
        "server 1 holds partitions on 2 cores and was started with 1: start it with 2 or more"
    );
}

#[test]
fn server_must_not_come_back_where_it_breaks_a_promise() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.ask_from(CLIENT, create("flights", 1));
    scene.wait_ms(2000);
    let with_domain = |name: &str| {
        let mut request = joining(Some(1), 100, 1);
        if let Request::Join { domain, .. } = &mut request {
            *domain = name.into();
        }
        request
    };
    assert_eq!(
        scene.refused(with_domain("server-2")).0,
        "with server 1 in failure domain server-2, table flights would survive 0 failures, not \
         the 1 that it tolerates: keep domain server-1"
    );
    assert!(matches!(
        scene.ask(with_domain("rack-1")),
        Reply::Joined { .. }
    ));
    assert_eq!(scene.server(1).domain, "rack-1");
}

#[test]
fn server_must_not_come_back_where_more_copies_fail_together() {
    let mut scene = Scene::new();
    for server in 1..=3 {
        scene.join(server);
    }
    let mut schema = table("flights", 1);
    schema.further.push(FurtherCopy {
        name: "again".into(),
        cut: Cut::Replica { of: None },
    });
    scene.ask_from(
        CLIENT,
        Request::CreateTable {
            schema,
            if_not_exists: false,
            sequences: Vec::new(),
            owner: Default::default(),
        },
    );
    scene.wait_ms(2000);
    let mut request = joining(Some(1), 100, 1);
    if let Request::Join { domain, .. } = &mut request {
        *domain = "server-2".into();
    }
    assert_eq!(
        scene.refused(request).0,
        "with server 1 in failure domain server-2, other copies of table flights would fail \
         together: keep domain server-1, or remove the server first"
    );
}

#[test]
fn an_asker_receives_what_has_changed_since_the_epoch_that_it_knows() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.ask_from(CLIENT, create("first", 1));
    scene.ask_from(CLIENT, create("second", 1));
    let known = scene.coordinator.configuration().clone();
    scene.ask_from(CLIENT, create("third", 1));
    scene.ask_from(CLIENT, drop_table("first"));
    let newest = scene.coordinator.configuration().clone();
    let Reply::Changes(changes) = scene.ask(Request::Fetch { known: known.epoch }) else {
        panic!("it knows all drops since it started");
    };
    let names: Vec<&str> = changes
        .tables
        .iter()
        .map(|it| &it.schema.name[..])
        .collect();
    assert_eq!(
        (names, &changes.dropped[..]),
        (vec!["third"], &[TableId(1)][..])
    );
    assert_eq!(changes.clone().apply(&known), Some(newest.clone()));
    assert_eq!(changes.clone().apply(&newest), Some(newest.clone()));
    let mut older = known;
    older.epoch.0 -= 1;
    assert_eq!(
        changes.apply(&older),
        None,
        "the whole configuration is needed"
    );

    // A coordinator that has started since knows of no drop before.
    let mut second = Scene::restarted(scene.coordinator.state().clone(), 5);
    let whole = second.ask(Request::Fetch { known: older.epoch });
    assert_eq!(whole, Reply::Configuration(newest));
}
