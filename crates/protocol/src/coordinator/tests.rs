//! Each transition and each refusal of the coordinator; random histories are in
//! `tests/coordinator.rs`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use placement::{Column, ColumnType, Durability, Index, Schema, prove};

use super::tables::{bare_placement, bare_server};
use super::*;
use crate::identity::{Incarnation, SessionId, TableId};
use crate::message::CoordinatorReply as Reply;
use crate::message::CoordinatorRequest as Request;

const MS: u64 = 1000;

/// A coordinator with a clock; looks at every output.
struct Scene {
    coordinator: Coordinator,
    now: Now,
    version: u64,
    deadline_us: Option<u64>,
    /// Bytes of the last state.
    kept: Vec<u8>,
    /// Replies that were not asked for by `ask`.
    late: Vec<Answer>,
    notes: Vec<String>,
}

impl Scene {
    fn new() -> Scene {
        Scene::restarted(State::new(7), 1_000_000)
    }

    fn restarted(state: State, at_us: u64) -> Scene {
        let mut scene = Scene {
            version: state.version,
            kept: encode_state(&state),
            coordinator: Coordinator::new(state, Settings::default()),
            now: Now {
                monotonic_us: at_us,
                wall_us: 0,
            },
            deadline_us: None,
            late: Vec::new(),
            notes: Vec::new(),
        };
        let mut output = Output::default();
        scene.coordinator.start(scene.now, &mut output);
        scene.take(output);
        scene
    }

    fn take(&mut self, output: Output) -> Vec<Answer> {
        self.deadline_us = output.deadline_us;
        if let Some(persist) = output.persist {
            assert!(persist.version > self.version, "versions rise");
            self.version = persist.version;
            self.kept = persist.bytes;
        }
        assert_eq!(
            self.version,
            self.coordinator.version(),
            "every change is kept"
        );
        assert_eq!(
            decode_state(&self.kept).as_ref(),
            Ok(self.coordinator.state())
        );
        self.notes.extend(output.notes);
        output.replies
    }

    fn step(&mut self, input: Input) -> Vec<Answer> {
        let mut output = Output::default();
        self.coordinator.step(self.now, input, &mut output);
        self.take(output)
    }

    /// The reply, if it did not have to wait.
    fn ask_from(&mut self, from: u64, request: Request) -> Option<Reply> {
        let (from, correlation) = (AskerId(from), 1000 + from);
        let mut replies = self.step(Input::Request {
            from,
            correlation,
            request,
        });
        let own = replies
            .iter()
            .position(|it| it.to == from && it.correlation == correlation);
        let own = own.map(|index| replies.remove(index).reply);
        self.late.extend(replies);
        own
    }

    fn ask(&mut self, request: Request) -> Reply {
        self.ask_from(1, request).expect("answered at once")
    }

    fn refused(&mut self, request: Request) -> (String, bool) {
        let before = self.version;
        match self.ask(request) {
            Reply::Refused { message, retry } => {
                assert_eq!(self.version, before, "a refusal changes nothing");
                (message, retry)
            }
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Lets time pass, with a tick at every deadline.
    fn wait_ms(&mut self, ms: u64) {
        let end_us = self.now.monotonic_us + ms * MS;
        while let Some(deadline_us) = self.deadline_us
            && deadline_us <= end_us
        {
            self.now.monotonic_us = deadline_us;
            let replies = self.step(Input::Tick);
            self.late.extend(replies);
            assert!(
                self.deadline_us.is_none_or(|next| next > deadline_us),
                "a tick at the deadline does what is due"
            );
        }
        self.now.monotonic_us = end_us;
    }

    fn epoch(&self) -> u64 {
        self.coordinator.configuration().epoch.0
    }

    fn server(&self, id: u32) -> Server {
        let server = self.coordinator.configuration().server(ServerId(id));
        server.expect("it joined").clone()
    }

    /// Joins server `id` for the first time, with two cores.
    fn join(&mut self, id: u32) {
        let reply = self.ask(new_server(id));
        let expected = (ServerId(id), Incarnation(1));
        assert!(
            matches!(&reply, Reply::Joined { server, incarnation, .. }
                if (*server, *incarnation) == expected),
            "{reply:?}"
        );
    }

    fn beat(&mut self, id: u32, core: u16) -> Reply {
        let epoch = self.coordinator.configuration().epoch;
        let incarnation = self.server(id).incarnation;
        self.ask(heartbeat(id, core, incarnation.0, epoch.0))
    }
}

use crate::configuration::Server;

/// What the process that makes folder `id` and gets number `id` says at its first start.
fn new_server(id: u32) -> Request {
    joining(None, u64::from(id), u64::from(id))
}

fn joining(server: Option<u32>, instance: u64, disk: u64) -> Request {
    Request::Join {
        server: server.map(ServerId),
        instance,
        disk,
        domain: String::new(),
        cores: addresses(disk, 2),
    }
}

fn addresses(disk: u64, cores: usize) -> Vec<String> {
    (0..cores)
        .map(|core| format!("127.0.0.1:{}", 7000 + 10 * disk as usize + core))
        .collect()
}

fn heartbeat(id: u32, core: u16, incarnation: u32, epoch: u64) -> Request {
    Request::Heartbeat {
        core: CoreId {
            server: ServerId(id),
            core,
        },
        incarnation: Incarnation(incarnation),
        epoch: Epoch(epoch),
        sent_us: 17,
    }
}

/// A table of two copies that tolerates `failures`.
fn table(name: &str, failures: u8) -> Schema {
    let column = |name: &str| Column {
        name: name.into(),
        column_type: ColumnType::Int64,
        nullable: false,
        default: None,
    };
    Schema {
        name: name.into(),
        columns: vec![column("id"), column("tail")],
        primary_key: vec![0],
        indexes: vec![Index {
            name: "by_tail".into(),
            columns: vec![1],
            constraint: None,
        }],
        partitions: 4,
        failures_tolerated: failures,
        durability: Durability::Sync,
    }
}

fn create(name: &str, failures: u8) -> Request {
    Request::CreateTable {
        schema: table(name, failures),
        if_not_exists: false,
    }
}

fn drop_table(name: &str) -> Request {
    Request::DropTable {
        name: name.into(),
        if_exists: false,
    }
}

#[test]
fn first_state_is_kept_before_anybody_is_told() {
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
    // The process before is told to stop.
    let (message, retry) = scene.refused(heartbeat(1, 0, 1, epoch));
    assert_eq!(
        message,
        "incarnation 1 of server 1 has been replaced by incarnation 2: stop this process"
    );
    assert!(!retry);
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
            disk: 1,
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
        disk: 2,
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
    let (message, _) = scene.refused(heartbeat(1, 0, 1, 99));
    assert!(message.contains("old copy of its state"), "{message}");
}

#[test]
fn deadline_is_the_next_end_of_a_lease() {
    let mut scene = Scene::new();
    scene.join(1);
    let mut output = Output::default();
    scene.coordinator.step(scene.now, Input::Tick, &mut output);
    assert_eq!(output.deadline_us, Some(1_000_000 + 1_050_000));
}

#[test]
fn paused_coordinator_takes_nobody_for_dead() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    // Nothing at all was read for a minute; what is read first is one of many heartbeats.
    scene.now.monotonic_us += 60_000 * MS;
    scene.beat(1, 0);
    assert_eq!(scene.server(2).state, ServerState::Up);
    // It sleeps again: who was not heard since is not forgiven twice.
    scene.now.monotonic_us += 60_000 * MS;
    scene.beat(1, 0);
    let states = [1, 2].map(|id| scene.server(id).state);
    assert_eq!(states, [ServerState::Up, ServerState::Down]);
}

#[test]
fn restarted_coordinator_gives_everybody_a_lease_to_be_heard() {
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
        scene.ask(Request::Fetch { known: Epoch(1) }),
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
    // A floor that was told stays.
    let before = floor(&scene);
    let state = decode_state(&scene.kept).expect("it was kept");
    let scene = Scene::restarted(state, 5);
    assert_eq!(floor(&scene), before);
}

#[test]
fn table_is_answered_once_every_core_of_it_has_heard() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    assert_eq!(scene.ask_from(9, create("flights", 1)), None);
    assert_eq!(scene.epoch(), 4);
    let configuration = scene.coordinator.configuration().clone();
    let flights = configuration
        .table_named("flights")
        .expect("it was created");
    assert_eq!(flights.id, TableId(1));
    let servers: Vec<_> = configuration.servers.iter().map(bare_server).collect();
    let proof = prove(&flights.layout, &bare_placement(flights), &servers);
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
    let answer = Answer {
        to: AskerId(9),
        correlation: 1009,
        after: scene.version,
        reply: Reply::Done {
            epoch: Epoch(4),
            table: Some(TableId(1)),
        },
    };
    assert_eq!(scene.late, [answer]);
}

#[test]
fn heartbeat_of_an_older_epoch_does_not_answer_for_a_table() {
    let mut scene = Scene::new();
    scene.join(1);
    assert_eq!(scene.ask_from(9, create("flights", 0)), None);
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
    assert_eq!(scene.ask_from(9, create("flights", 1)), None);
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
    assert_eq!(scene.ask_from(9, create("flights", 0)), None);
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
fn whoever_has_gone_is_not_answered() {
    let mut scene = Scene::new();
    scene.join(1);
    assert_eq!(scene.ask_from(9, create("flights", 0)), None);
    scene.step(Input::Gone { from: AskerId(9) });
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
    scene.ask_from(9, create("flights", 0));
    let (message, _) = scene.refused(create("flights", 0));
    assert!(
        message.starts_with("there is a table flights already"),
        "{message}"
    );
    let version = scene.version;
    let again = Request::CreateTable {
        schema: table("flights", 0),
        if_not_exists: true,
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

    assert_eq!(scene.ask_from(9, drop_table("flights")), None);
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
        "there is no table \"flights\": say IF EXISTS if that is fine"
    );
    let if_exists = Request::DropTable {
        name: "flights".into(),
        if_exists: true,
    };
    assert!(matches!(
        scene.ask(if_exists),
        Reply::Done { table: None, .. }
    ));
    scene.ask_from(9, create("flights", 0));
    let flights = scene.coordinator.configuration().table_named("flights");
    assert_eq!(
        flights.map(|table| table.id),
        Some(TableId(2)),
        "numbers are not reused"
    );
}

#[test]
fn configuration_stays_within_a_frame() {
    let mut scene = Scene::new();
    scene.join(1);
    let wide = |number: usize| {
        let mut schema = table(&format!("t{number}"), 0);
        schema.partitions = 4096;
        let template = schema.indexes[0].clone();
        schema.indexes = (0..62)
            .map(|index| Index {
                name: format!("i{index}"),
                ..template.clone()
            })
            .collect();
        Request::CreateTable {
            schema,
            if_not_exists: false,
        }
    };
    assert_eq!(scene.ask_from(9, wide(0)), None);
    assert_eq!(scene.ask_from(9, wide(1)), None);
    let (message, _) = scene.refused(wide(2));
    assert!(message.contains("the limit is 4194304"), "{message}");
    let joined = crate::message::Message::Answer(scene.ask(new_server(2)));
    let mut frame = Vec::new();
    crate::frame::encode(1, &joined, &mut frame);
    assert!(frame.len() < crate::frame::FRAME_BYTES_MAX);
}

#[test]
fn server_that_holds_partitions_may_not_leave() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.ask_from(9, create("flights", 1));
    let (message, _) = scene.refused(Request::Leave {
        server: ServerId(1),
    });
    assert_eq!(
        message,
        "server 1 holds partitions of flights: drop what is not needed, or keep the server"
    );
    scene.ask_from(9, drop_table("flights"));
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
    // Its folder, started anew, is a new server.
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
    scene.ask_from(9, create("flights", 0));
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
    scene.ask_from(9, create("flights", 1));
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
fn states_that_are_not_usable_say_why() {
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
        with(8, 2),
        "the coordinator's state is of format 2, this program knows 1: use the release that \
         wrote it, or a newer one"
    );
    assert!(with(8, 0).contains("this program knows only 1"));
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
