//! Each transition and each refusal of the coordinator; random histories are in
//! `tests/coordinator.rs`.

mod alterations;
mod announcements;
mod copies;
mod fills;
mod folders;
mod moves;
mod partitions;
#[cfg(feature = "planted")]
mod planted;
mod ranges;
mod recall;
mod renewal;
mod reports;
mod roles;
mod room;
mod sequences;
mod servers;
mod tables;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use placement::{
    Column, ColumnType, Cut, Durability, FurtherCopy, Index, Schema, Share, TableConstraints, prove,
};
use protocol::configuration::{PlacedTable, Server, ServerState};
use protocol::identity::{Incarnation, SessionId, TableId};
use protocol::message::CoordinatorReply as Reply;
use protocol::message::CoordinatorRequest as Request;
use protocol::message::{FolderReport, RecallReport, SealReport, SealStage};
use protocol::state::{StateError, decode_state, encode_state};

use crate::*;

const MS: u64 = 1000;
/// The connection of a client whose requests may wait, such as `CREATE TABLE` for the servers.
const CLIENT: u64 = 9;

/// A coordinator with a clock; looks at every output.
struct Scene {
    coordinator: Coordinator,
    now: ClockReading,
    version: u64,
    deadline_us: Option<u64>,
    /// Bytes of the last state.
    kept: Vec<u8>,
    /// Replies that were not asked for by `ask`.
    late: Vec<CoordinatorAnswer>,
    /// Announcements of epochs: to which connections.
    announced: Vec<(RequesterId, Epoch)>,
    notes: Vec<String>,
    /// Servers that report full disks.
    full: BTreeSet<u32>,
}

impl Scene {
    fn new() -> Scene {
        Scene::restarted(CoordinatorState::new(7), 1_000_000)
    }

    fn restarted(state: CoordinatorState, at_us: u64) -> Scene {
        let mut scene = Scene {
            version: state.version,
            kept: encode_state(&state),
            coordinator: Coordinator::new(state, CoordinatorSettings::default()),
            now: ClockReading {
                monotonic_us: at_us,
                wall_us: 0,
            },
            deadline_us: None,
            late: Vec::new(),
            announced: Vec::new(),
            notes: Vec::new(),
            full: BTreeSet::new(),
        };
        let mut output = CoordinatorOutput::default();
        scene.coordinator.start(scene.now, &mut output);
        scene.take(output);
        scene
    }

    fn take(&mut self, output: CoordinatorOutput) -> Vec<CoordinatorAnswer> {
        self.deadline_us = output.deadline_us;
        if let Some(persist) = output.persist {
            assert!(persist.version > self.version, "versions rise");
            self.version = persist.version;
            self.kept = encode_state(&persist);
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
        let (announcements, replies): (Vec<CoordinatorAnswer>, _) = output
            .replies
            .into_iter()
            .partition(|answer| matches!(answer.reply, Reply::NewEpoch { .. }));
        for answer in announcements {
            let Reply::NewEpoch { epoch } = answer.reply else {
                unreachable!("they were just distinguished");
            };
            assert_eq!((answer.correlation, answer.after), (0, self.version));
            assert_eq!(epoch, self.coordinator.configuration().epoch);
            self.announced.push((answer.to, epoch));
        }
        replies
    }

    fn step(&mut self, input: CoordinatorInput) -> Vec<CoordinatorAnswer> {
        let mut output = CoordinatorOutput::default();
        let before = self.coordinator.configuration().clone();
        self.coordinator.step(self.now, input, &mut output);
        let left = self.coordinator.configuration().left_unsealed(&before);
        assert_eq!(left, None, "cores leave a table by a seal");
        self.take(output)
    }

    /// Returns the reply, if it did not have to wait. A folder that names no process is the newest
    /// one.
    fn ask_from(&mut self, from: u64, mut request: Request) -> Option<Reply> {
        if let Request::Join { folder, .. } = &mut request
            && folder.last == 0
        {
            let mut members = self.coordinator.state().members.iter();
            let member = members.find(|member| member.disk == folder.disk);
            folder.last = member.map_or(0, |member| member.instance);
        }
        let (from, correlation) = (RequesterId(from), 1000 + from);
        let mut replies = self.step(CoordinatorInput::Request {
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
            let replies = self.step(CoordinatorInput::Tick);
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

    /// Sends a heartbeat on a connection of its own.
    fn beat_on(&mut self, connection: u64, (id, core): (u32, u16)) {
        let (epoch, incarnation) = (self.epoch(), self.server(id).incarnation);
        let request = heartbeat(id, core, incarnation.0, epoch);
        self.ask_from(connection, request)
            .expect("answered at once");
    }

    fn beat(&mut self, id: u32, core: u16) -> Reply {
        let epoch = self.coordinator.configuration().epoch;
        let incarnation = self.server(id).incarnation;
        self.ask(heartbeat(id, core, incarnation.0, epoch.0))
    }
}

/// Returns the request at the first start of the process that creates folder `id` and is assigned
/// number `id`.
fn new_server(id: u32) -> Request {
    joining(None, u64::from(id), u64::from(id))
}

fn joining(server: Option<u32>, instance: u64, disk: u64) -> Request {
    Request::Join {
        server: server.map(ServerId),
        instance,
        folder: FolderReport {
            disk,
            ..FolderReport::default()
        },
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
        durable: Position(0),
        filled: Vec::new(),
        fills: Vec::new(),
        seals: Vec::new(),
        room: Default::default(),
        ranges: Vec::new(),
    }
}

/// Returns the reports of a core that has resolved all operations of all tables whose chains are
/// blocked.
fn resolved(configuration: &Configuration) -> Vec<SealReport> {
    let sealing = configuration
        .tables
        .iter()
        .filter(|table| table.sealing.is_some());
    let report = |table: &PlacedTable| SealReport {
        table: table.id,
        stage: SealStage::Resolved,
        vouched_ago_us: None,
    };
    sealing.map(report).collect()
}

fn stopped(id: u32, incarnation: u32) -> Request {
    Request::Stopped {
        server: ServerId(id),
        incarnation: Incarnation(incarnation),
        logs: Vec::new(),
    }
}

/// Returns a table of two copies that tolerates `failures`.
fn table(name: &str, failures: u8) -> Schema {
    let column = |name: &str| Column {
        name: name.into(),
        column_type: ColumnType::Int64,
        nullable: false,
        default: None,
        missing: None,
    };
    Schema {
        name: name.into(),
        columns: vec![column("id"), column("tail")],
        primary_key: vec![0],
        indexes: vec![Index {
            name: "by_tail".into(),
            columns: vec![1],
            constraint: None,
            partition_columns: None,
            by_range: false,
        }],
        further: Vec::new(),
        thin: Vec::new(),
        partitions: 4,
        failures_tolerated: failures,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    }
}

fn create(name: &str, failures: u8) -> Request {
    create_as(table(name, failures))
}

fn create_as(schema: Schema) -> Request {
    Request::CreateTable {
        schema,
        if_not_exists: false,
        sequences: Vec::new(),
        owner: Default::default(),
    }
}

fn drop_table(name: &str) -> Request {
    Request::DropTable {
        name: name.into(),
        if_exists: false,
    }
}
