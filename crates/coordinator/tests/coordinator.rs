//! Random histories of a coordinator that is killed and started again, with its state kept late:
//! its replies never contradict each other.
//!
//! The driver here is the contract's worst: it keeps a state only when the history asks for it,
//! loses what was not kept, and releases a reply only once its state is kept.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::{
    Coordinator, CoordinatorAnswer, CoordinatorInput, CoordinatorOutput, CoordinatorSettings,
    RequesterId,
};
use placement::{
    Column, ColumnType, Cut, Durability, FurtherCopy, Index, Placement, Schema, TableConstraints,
    prove,
};
use proptest::prelude::*;
use protocol::codec::Wire;
use protocol::configuration::{Configuration, ConfigurationChanges, PlacedTable};
use protocol::identity::{
    ClockReading, CoreId, Epoch, Incarnation, Position, ServerId, SessionId, TableId,
};
use protocol::message::{CoordinatorReply, CoordinatorRequest, FolderReport, Room};
use protocol::state::{CoordinatorState, decode_state, encode_state};

const SETTINGS: CoordinatorSettings = CoordinatorSettings {
    lease_us: 1_000_000,
    drift_us: 50_000,
    // Short, so that sessions end within a history.
    session_life_us: 1_000_000,
    wait_us_max: 3_000_000,
    replace_after_us: u64::MAX,
    replace_stopped_after_us: u64::MAX,
};

/// An event that happens next.
#[derive(Clone, Debug)]
enum Event {
    /// A process with this folder starts; it names its server if it knows it.
    Start {
        disk: u64,
        names: bool,
        domain: u8,
        cores: u8,
    },
    /// Names another folder's server.
    StartWrong {
        disk: u64,
        server: u32,
    },
    /// The process of this folder that joined last beats on a core, in the newest epoch it knows
    /// or in the one it joined in.
    Beat {
        disk: u64,
        core: u16,
        newest: bool,
    },
    /// The process of this folder that joined last, or the one before it, serves no more and
    /// reports it. Its heartbeats may still be on their way.
    Stop {
        disk: u64,
        late: bool,
    },
    Fetch {
        behind: u64,
    },
    OpenSession,
    Create {
        name: u8,
        failures: u8,
        if_not_exists: bool,
    },
    Drop {
        name: u8,
    },
    Leave {
        server: u32,
    },
    /// Time passes.
    Pass {
        us: u64,
    },
    /// The driver keeps the last state and releases replies.
    Keep,
    /// The connection of the last request breaks.
    Gone,
    /// Killed; what was not kept is lost.
    Crash,
}

fn event() -> impl Strategy<Value = Event> {
    let disk = 1..6u64;
    let start =
        (disk.clone(), any::<bool>(), 0..4u8, 1..4u8).prop_map(|(disk, names, domain, cores)| {
            Event::Start {
                disk,
                names,
                domain,
                cores,
            }
        });
    let wrong = (disk.clone(), 0..8u32);
    let wrong = wrong.prop_map(|(disk, server)| Event::StartWrong { disk, server });
    let stop = (disk.clone(), proptest::bool::weighted(0.2));
    let stop = stop.prop_map(|(disk, late)| Event::Stop { disk, late });
    let beat = (disk, 0..3u16, any::<bool>());
    let beat = beat.prop_map(|(disk, core, newest)| Event::Beat { disk, core, newest });
    let create = (0..3u8, 0..3u8, any::<bool>());
    let create = create.prop_map(|(name, failures, if_not_exists)| Event::Create {
        name,
        failures,
        if_not_exists,
    });
    prop_oneof![
        4 => start,
        1 => wrong,
        8 => beat,
        4 => stop,
        2 => (0..4u64).prop_map(|behind| Event::Fetch { behind }),
        2 => Just(Event::OpenSession),
        4 => create,
        2 => (0..3u8).prop_map(|name| Event::Drop { name }),
        1 => (0..8u32).prop_map(|server| Event::Leave { server }),
        4 => (0..1_500_000u64).prop_map(|us| Event::Pass { us }),
        8 => Just(Event::Keep),
        1 => Just(Event::Gone),
        1 => Just(Event::Crash),
    ]
}

fn table(name: u8, failures: u8) -> Schema {
    let column = |name: &str| Column {
        name: name.into(),
        column_type: ColumnType::Int64,
        nullable: false,
        default: None,
        missing: None,
    };
    Schema {
        name: format!("t{name}"),
        columns: vec![column("id"), column("tail")],
        primary_key: vec![0],
        indexes: vec![Index {
            name: "by_tail".into(),
            columns: vec![1],
            constraint: None,
            partition_columns: None,
            by_range: false,
        }],
        thin: Vec::new(),
        // One of the names has a hybrid too.
        further: match name {
            0 => vec![FurtherCopy {
                name: "both".into(),
                cut: Cut::HybridsBetween {
                    first: None,
                    last: Some(0),
                    factors: vec![1, 3],
                },
            }],
            _ => Vec::new(),
        },
        partitions: 3,
        failures_tolerated: failures,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    }
}

/// The process of a folder that joined last, as far as it was answered.
#[derive(Clone, Copy)]
struct Process {
    server: ServerId,
    incarnation: Incarnation,
    joined_in: Epoch,
}

/// Everything that was ever answered, over all coordinators of the history.
#[derive(Default)]
struct Observed {
    configurations: BTreeMap<Epoch, Vec<u8>>,
    epoch: Epoch,
    /// The number that each folder received.
    incarnations: BTreeMap<(ServerId, Incarnation), u64>,
    disks: BTreeMap<ServerId, u64>,
    sessions: BTreeMap<SessionId, u64>,
    floor: SessionId,
    tables: BTreeMap<TableId, u8>,
    processes: BTreeMap<u64, Process>,
}

struct World {
    coordinator: Coordinator,
    now: ClockReading,
    deadline_us: Option<u64>,
    kept: Vec<u8>,
    kept_version: u64,
    unkept: Option<CoordinatorState>,
    /// Replies that wait for their state, each with when it was given.
    held_back: Vec<(u64, CoordinatorAnswer)>,
    /// Requests without a reply, by correlation.
    open: BTreeMap<u64, (RequesterId, CoordinatorRequest)>,
    requests: u64,
    /// Leases in replies that are held back: for whom and from when.
    renewals: BTreeMap<u64, ((ServerId, Incarnation), u64)>,
    /// For each server and incarnation, when the last lease that it was given began.
    leases: BTreeMap<(ServerId, Incarnation), u64>,
    /// Processes that serve nothing any more, whatever lease they are still given.
    stopped: BTreeSet<(ServerId, Incarnation)>,
    /// Joins for which a lease was given back.
    handovers: u32,
    observed: Observed,
}

impl World {
    fn new() -> World {
        let mut world = World {
            coordinator: Coordinator::new(CoordinatorState::new(1), SETTINGS),
            now: ClockReading {
                monotonic_us: 1,
                wall_us: 0,
            },
            deadline_us: None,
            kept: encode_state(&CoordinatorState::new(1)),
            kept_version: 0,
            unkept: None,
            held_back: Vec::new(),
            open: BTreeMap::new(),
            requests: 0,
            renewals: BTreeMap::new(),
            leases: BTreeMap::new(),
            stopped: BTreeSet::new(),
            handovers: 0,
            observed: Observed::default(),
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let mut output = CoordinatorOutput::default();
        self.coordinator.start(self.now, &mut output);
        self.take(output);
    }

    fn step(&mut self, input: CoordinatorInput) {
        let before = self.coordinator.state().clone();
        let mut output = CoordinatorOutput::default();
        self.coordinator.step(self.now, input, &mut output);
        let after = self.coordinator.state();
        assert_eq!(
            output.persist.is_some(),
            before != *after,
            "a change is kept, nothing else"
        );
        let (old, new) = (&before.configuration, &after.configuration);
        assert_eq!(
            old == new,
            old.epoch == new.epoch,
            "a change is a new epoch"
        );
        assert!(old.epoch <= new.epoch && new.epoch.0 <= old.epoch.0 + 2);
        assert_eq!(after.configuration.check(), Ok(()));
        for table in after.configuration.tables.iter() {
            assert_tolerant(table, &after.configuration);
        }
        for (server, incarnation) in joins(&before, after) {
            self.assert_alone(server, incarnation);
        }
        self.take(output);
    }

    /// No other process may hold a lease of a server that begins a new incarnation.
    fn assert_alone(&mut self, server: ServerId, incarnation: Incarnation) {
        let others = self
            .leases
            .range((server, Incarnation(0))..(server, incarnation));
        let running =
            others.filter(|(_, at_us)| *at_us + SETTINGS.lease_us > self.now.monotonic_us);
        for (other, _) in running {
            assert!(
                self.stopped.contains(other),
                "{other:?} still holds its lease"
            );
            self.handovers += 1;
        }
    }

    fn take(&mut self, output: CoordinatorOutput) {
        self.deadline_us = output.deadline_us;
        if let Some(persist) = output.persist {
            assert_eq!(persist.version, self.coordinator.version());
            let decoded = decode_state(&encode_state(&persist));
            assert_eq!(decoded.as_ref(), Ok(self.coordinator.state()));
            self.unkept = Some(persist);
        }
        for answer in &output.replies {
            assert!(answer.after <= self.coordinator.version());
            if let CoordinatorReply::NewEpoch { epoch } = answer.reply {
                assert_eq!(epoch, self.coordinator.configuration().epoch);
                continue;
            }
            let open = self.open.remove(&answer.correlation);
            let (from, request) = open.expect("one reply each");
            assert_eq!(from, answer.to);
            let renewed = matches!(answer.reply, CoordinatorReply::Beat { .. });
            if let CoordinatorRequest::Heartbeat {
                core, incarnation, ..
            } = request
                && renewed
            {
                let lease = ((core.server, incarnation), self.now.monotonic_us);
                self.renewals.insert(answer.correlation, lease);
            }
        }
        let now_us = self.now.monotonic_us;
        let replies = output.replies.into_iter();
        self.held_back
            .extend(replies.map(|answer| (now_us, answer)));
    }

    fn ask(&mut self, request: CoordinatorRequest) {
        self.requests += 1;
        let correlation = self.requests << 8 | self.hidden_number(&request);
        let from = RequesterId(self.requests);
        self.open.insert(correlation, (from, request.clone()));
        self.step(CoordinatorInput::Request {
            from,
            correlation,
            request,
        });
    }

    /// Returns the number, hidden in the correlation, that the world needs to judge the reply.
    fn hidden_number(&self, request: &CoordinatorRequest) -> u64 {
        match request {
            CoordinatorRequest::Join { folder, .. } => folder.disk,
            CoordinatorRequest::CreateTable { schema, .. } => {
                u64::from(schema.name.as_bytes()[1] - b'0')
            }
            _ => 0,
        }
    }

    /// The newest folder of this number.
    fn folder(&self, disk: u64) -> FolderReport {
        let mut members = self.coordinator.state().members.iter();
        let member = members.find(|member| member.disk == disk);
        FolderReport {
            disk,
            last: member.map_or(0, |member| member.instance),
            ..FolderReport::default()
        }
    }

    fn keep(&mut self) {
        if let Some(persist) = self.unkept.take() {
            self.kept = encode_state(&persist);
            self.kept_version = persist.version;
        }
        let kept = self.kept_version;
        let released: Vec<(u64, CoordinatorAnswer)> = self
            .held_back
            .extract_if(.., |(_, answer)| answer.after <= kept)
            .collect();
        for (given_us, answer) in released {
            self.leases
                .extend(self.renewals.remove(&answer.correlation));
            self.observed.observe(&answer, given_us);
        }
    }

    fn crash(&mut self) {
        self.unkept = None;
        self.held_back.clear();
        self.open.clear();
        self.renewals.clear();
        let state = decode_state(&self.kept).expect("a kept state is whole");
        self.coordinator = Coordinator::new(state, SETTINGS);
        self.start();
    }

    fn pass(&mut self, us: u64) {
        let end_us = self.now.monotonic_us + us;
        while let Some(deadline_us) = self.deadline_us
            && deadline_us <= end_us
        {
            self.now.monotonic_us = deadline_us;
            self.step(CoordinatorInput::Tick);
            assert!(self.deadline_us.is_none_or(|next| next > deadline_us));
        }
        self.now.monotonic_us = end_us;
    }

    // tidy: long — a dispatching match, one arm per event.
    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Start {
                disk,
                names,
                domain,
                cores,
            } => {
                let process = self.observed.processes.get(&disk);
                self.ask(CoordinatorRequest::Join {
                    server: process.filter(|_| names).map(|process| process.server),
                    instance: 1 + self.requests,
                    folder: self.folder(disk),
                    domain: ["", "a", "b", "c"][usize::from(domain)].into(),
                    cores: (0..cores)
                        .map(|core| format!("h{disk}:{}", 1 + core))
                        .collect(),
                });
            }
            Event::StartWrong { disk, server } => self.ask(CoordinatorRequest::Join {
                server: Some(ServerId(server)),
                instance: 1 + self.requests,
                folder: self.folder(disk),
                domain: String::new(),
                cores: vec![format!("h{disk}:1")],
            }),
            Event::Beat { disk, core, newest } => {
                if let Some(process) = self.observed.processes.get(&disk).copied() {
                    self.ask(CoordinatorRequest::Heartbeat {
                        core: CoreId {
                            server: process.server,
                            core,
                        },
                        incarnation: process.incarnation,
                        epoch: if newest {
                            self.observed.epoch
                        } else {
                            process.joined_in
                        },
                        sent_us: 0,
                        durable: Position(0),
                        filled: Vec::new(),
                        fills: Vec::new(),
                        seals: Vec::new(),
                        room: Room::Free,
                        ranges: Vec::new(),
                    });
                }
            }
            Event::Stop { disk, late } => {
                if let Some(process) = self.observed.processes.get(&disk).copied() {
                    let incarnation = Incarnation(process.incarnation.0 - u32::from(late));
                    self.stopped.insert((process.server, incarnation));
                    self.ask(CoordinatorRequest::Stopped {
                        server: process.server,
                        incarnation,
                        logs: Vec::new(),
                    });
                }
            }
            Event::Fetch { behind } => {
                let known = Epoch(self.observed.epoch.0.saturating_sub(behind));
                self.ask(CoordinatorRequest::Fetch { known });
            }
            Event::OpenSession => self.ask(CoordinatorRequest::OpenSession),
            Event::Create {
                name,
                failures,
                if_not_exists,
            } => self.ask(CoordinatorRequest::CreateTable {
                schema: table(name, failures),
                if_not_exists,
                sequences: Vec::new(),
                owner: Default::default(),
            }),
            Event::Drop { name } => self.ask(CoordinatorRequest::DropTable {
                name: format!("t{name}"),
                if_exists: false,
            }),
            Event::Leave { server } => self.ask(CoordinatorRequest::Leave {
                server: ServerId(server),
            }),
            Event::Pass { us } => self.pass(us),
            Event::Keep => self.keep(),
            Event::Gone => {
                if let Some((_, (from, _))) = self.open.pop_last() {
                    self.step(CoordinatorInput::Gone { from });
                }
            }
            Event::Crash => self.crash(),
        }
    }
}

/// Servers that joined between two states, with their new incarnations.
fn joins(before: &CoordinatorState, after: &CoordinatorState) -> Vec<(ServerId, Incarnation)> {
    let new = after.configuration.servers.iter().filter(|server| {
        let old = before.configuration.server(server.id);
        old.is_none_or(|old| old.incarnation != server.incarnation)
    });
    new.map(|server| (server.id, server.incarnation)).collect()
}

fn assert_tolerant(table: &PlacedTable, configuration: &Configuration) {
    let servers: Vec<_> = configuration
        .servers
        .iter()
        .map(|server| placement::PartitionHost {
            id: server.id.0,
            domain: server.domain.clone(),
            cores: server.cores.len() as u16,
        })
        .collect();
    let places = table.placement.iter().map(|places| {
        let bare = places.iter().map(|place| placement::HostCore {
            server: place.core.server.0,
            core: place.core.core,
        });
        bare.collect()
    });
    let placement = Placement {
        replexes: places.collect(),
    };
    let proof = prove(&table.layout, &placement, &servers);
    assert!(proof.failures_tolerated() >= u32::from(table.schema.failures_tolerated));
}

impl Observed {
    fn observe(&mut self, answer: &CoordinatorAnswer, given_us: u64) {
        let hidden = answer.correlation & 0xff;
        match &answer.reply {
            CoordinatorReply::Joined {
                server,
                incarnation,
                configuration,
                ..
            } => {
                self.observe_configuration(configuration);
                let holder = self
                    .incarnations
                    .insert((*server, *incarnation), answer.to.0);
                assert_eq!(holder, None, "every process has an incarnation of its own");
                let disk = *self.disks.entry(*server).or_insert(hidden);
                assert_eq!(disk, hidden, "a number stays with its folder");
                let process = Process {
                    server: *server,
                    incarnation: *incarnation,
                    joined_in: configuration.epoch,
                };
                self.processes.insert(disk, process);
            }
            CoordinatorReply::Beat {
                epoch,
                session_floor,
                ..
            } => {
                self.observe_epoch(*epoch);
                assert!(self.floor <= *session_floor, "the floor never goes back");
                self.floor = *session_floor;
                for (session, opened_us) in &self.sessions {
                    assert!(
                        session >= session_floor
                            || opened_us + 2 * SETTINGS.session_life_us <= given_us,
                        "{session:?} has ended too early"
                    );
                }
            }
            CoordinatorReply::Configuration(configuration) => {
                self.observe_configuration(configuration);
            }
            CoordinatorReply::Changes(changes) => {
                self.observe_changes(changes);
            }
            CoordinatorReply::Unchanged { epoch } | CoordinatorReply::NewEpoch { epoch } => {
                self.observe_epoch(*epoch);
            }
            CoordinatorReply::Session { session, .. } => {
                assert!(*session >= self.floor, "a new session is open");
                let twice = self.sessions.insert(*session, given_us);
                assert_eq!(twice, None, "a session is opened once");
            }
            CoordinatorReply::Done { epoch, table } => {
                self.observe_past_epoch(*epoch);
                if let Some(table) = table {
                    let name = *self.tables.entry(*table).or_insert(hidden as u8);
                    assert_eq!(u64::from(name), hidden, "a number stays with its table");
                }
            }
            CoordinatorReply::Progress { .. } => {}
            CoordinatorReply::Recall | CoordinatorReply::Wait { .. } => {
                panic!("no state and no folder here is an older copy: {answer:?}")
            }
            CoordinatorReply::Refused { message, .. } => assert!(!message.is_empty()),
        }
    }

    /// Replies are released in order, so their epochs rise.
    fn observe_epoch(&mut self, epoch: Epoch) {
        assert!(
            self.epoch <= epoch,
            "an epoch that was answered is taken back"
        );
        self.epoch = epoch;
    }

    /// A reply that waited has the epoch it waited for.
    fn observe_past_epoch(&mut self, epoch: Epoch) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Applied to any configuration since, changes give that of their epoch.
    fn observe_changes(&mut self, changes: &ConfigurationChanges) {
        self.observe_epoch(changes.epoch);
        let known = self.configurations.range(changes.since..=changes.epoch);
        let known: Vec<Vec<u8>> = known.map(|(_, bytes)| bytes.clone()).collect();
        for bytes in known {
            let known = Configuration::decode_all(&bytes).expect("it was encoded");
            let newest = changes.clone().apply(&known).expect("it is new enough");
            self.observe_configuration(&newest);
        }
    }

    fn observe_configuration(&mut self, configuration: &Configuration) {
        self.observe_epoch(configuration.epoch);
        let bytes = configuration.to_bytes();
        let first = self
            .configurations
            .entry(configuration.epoch)
            .or_insert_with(|| bytes.clone());
        assert_eq!(*first, bytes, "one epoch is one configuration");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn replies_never_contradict_each_other(
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
        world.pass(SETTINGS.wait_us_max);
        world.keep();
        prop_assert!(world.open.is_empty(), "every request is answered within the wait");
        prop_assert!(world.held_back.is_empty());
    }

    /// A coordinator that goes on from the bytes does what one that goes on from the state does.
    #[test]
    fn bytes_continue_as_the_state_does(
        events in proptest::collection::vec(event(), 1..60),
        rest in proptest::collection::vec(event(), 1..30),
    ) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
        world.keep();
        let state = world.coordinator.state().clone();
        let decoded = decode_state(&encode_state(&state)).expect("a state decodes");
        let history_from = |state: CoordinatorState| {
            let mut world = World::new();
            world.now.monotonic_us = 77;
            world.kept = encode_state(&state);
            world.coordinator = Coordinator::new(state, SETTINGS);
            world.start();
            for event in &rest {
                world.happen(event);
            }
            format!("{:?} {:?}", world.held_back, world.coordinator)
        };
        prop_assert_eq!(history_from(state), history_from(decoded));
    }
}

#[test]
fn histories_reach_what_they_are_about() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut returns, mut handovers, mut tables, mut ends) = (0, 0, 0, 0);
    let mut kinds = BTreeSet::new();
    for _ in 0..200 {
        let events = proptest::collection::vec(event(), 100..120);
        let tree = events
            .new_tree(&mut runner)
            .expect("events are not filtered");
        let mut world = World::new();
        for event in &proptest::strategy::ValueTree::current(&tree) {
            world.happen(event);
            let answers = world.held_back.iter();
            kinds.extend(
                answers
                    .map(|(_, answer)| core::mem::discriminant(&answer.reply))
                    .map(|it| format!("{it:?}")),
            );
        }
        let observed = &world.observed;
        returns += u32::from(observed.incarnations.keys().any(|(_, it)| it.0 > 1));
        handovers += u32::from(world.handovers > 0);
        tables += u32::from(observed.tables.len() > 1);
        ends += u32::from(observed.floor.0 > 1);
    }
    let counts = [
        ("returns", returns, 20),
        ("handovers", handovers, 5),
        ("tables", tables, 20),
        ("ends", ends, 20),
    ];
    for (what, count, least) in counts {
        assert!(count > least, "{count} of 200 histories saw {what}");
    }
    assert_eq!(kinds.len(), 9, "every kind of reply was given: {kinds:?}");
}
