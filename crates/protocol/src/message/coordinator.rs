//! Requests of servers, clients and operators to the coordinator, and its replies.

use alloc::string::String;
use alloc::vec::Vec;

use placement::Schema;

use crate::codec::{wire_enum, wire_struct};
use crate::configuration::{Configuration, ConfigurationChanges};
use crate::identity::{
    CoreId, Epoch, Incarnation, PartitionId, Position, ServerId, SessionId, TableId,
};
use crate::message::Room;

/// A request of a server, a client or an operator to the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorRequest {
    /// A server's start. It is answered once the join is in a durable configuration.
    Join {
        /// Its number; none asks for a new one.
        server: Option<ServerId>,
        /// Names the process that uses the number: a second one is refused while the first
        /// one's lease runs.
        instance: u64,
        /// The report of its data folder.
        folder: FolderReport,
        /// Its failure domain: servers of the same domain fail together.
        domain: String,
        /// `address:port` of each core.
        cores: Vec<String>,
    },
    /// Renews a core's lease.
    Heartbeat {
        /// The core.
        core: CoreId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Its epoch.
        epoch: Epoch,
        /// Its monotonic clock, returned as it is.
        sent_us: u64,
        /// Up to here its log is durable; 0 while it has not read it.
        durable: Position,
        /// Partitions of it that are rebuilding and hold, durably, all that their covers had: they
        /// can serve in a next epoch (R20). And partitions that move to it, of which it has
        /// all that their holders have but for the last changes.
        filled: Vec<PartitionId>,
        /// How far its fills are, one report for each replex.
        fills: Vec<FillReport>,
        /// How far it is with the tables whose chains stand still.
        seals: Vec<SealReport>,
        /// The room on its disk.
        room: Room,
    },
    /// The newest configuration, if newer than `known`, or what it has that the known one lacks.
    Fetch {
        /// The asker's epoch.
        known: Epoch,
    },
    /// A new client session.
    OpenSession,
    /// A new table; answered once every server that holds part of it has the configuration.
    CreateTable {
        /// Columns, indexes and settings.
        schema: Schema,
        /// Without an error if there is one of that name.
        if_not_exists: bool,
    },
    /// Removes a table and its rows.
    DropTable {
        /// Its name.
        name: String,
        /// Without an error if there is none.
        if_exists: bool,
    },
    /// A server stops for good; refused while it holds partitions.
    Leave {
        /// The server.
        server: ServerId,
    },
    /// A server's last word: its log is durable, and no core of this process serves anything any
    /// more or ever will again. So its leases are over at once, and the next process may join.
    Stopped {
        /// The server.
        server: ServerId,
        /// The incarnation that has stopped.
        incarnation: Incarnation,
        /// The last position of each core's log, all of which is durable.
        logs: Vec<Position>,
    },
    /// Adds a copy to a table: the last index or further copy of the schema, which has one more
    /// than the table. Answered at once; [`CoordinatorRequest::Progress`] reports how it goes on.
    AddCopy {
        /// The table as it shall be.
        schema: Schema,
    },
    /// Drops an index or a further copy, or gives up one that is being made. Answered at once.
    DropCopy {
        /// The table's name.
        table: String,
        /// The copy's name.
        name: String,
        /// Without an error if there is none.
        if_exists: bool,
    },
    /// Voids partitions of a table and refills them from the other copies, because what they hold
    /// is wrong. Answered at once.
    Renew {
        /// The table's name.
        table: String,
        /// Number of the replex, number of the partition.
        cells: Vec<(u8, u32)>,
    },
    /// Cuts the copies of a table into another number of partitions, while it is in use; with as
    /// many as it has, gives such a change up. Answered at once;
    /// [`CoordinatorRequest::Progress`] reports how it goes on.
    SetPartitions {
        /// The table's name.
        table: String,
        /// How many partitions each copy is to have.
        partitions: u32,
    },
    /// How far fills and changes of copies are.
    Progress,
    /// Moves its partitions from a server that is up to others; it takes no new ones.
    Drain {
        /// The server.
        server: ServerId,
    },
    /// It may hold partitions again.
    EndDrain {
        /// The server.
        server: ServerId,
    },
    /// Takes its partitions from a server that is down, without waiting any longer. It must never
    /// serve them again: its process is known to be gone.
    Remove {
        /// The server.
        server: ServerId,
    },
    /// The answer to [`CoordinatorReply::Recall`]: what a server knows.
    Remember(RecallReport),
    /// Lets a server in on a folder that is an older copy, although rows that were acknowledged
    /// since are missing there: an operator accepts the loss.
    AcceptFolder {
        /// The server.
        server: ServerId,
    },
}

/// A server's report when the coordinator's state is rebuilt.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallReport {
    /// The core that reports; core 0 of a server that waits to join.
    pub core: CoreId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its process serves; otherwise it waits to join.
    pub runs: bool,
    /// The report of its folder, with the process that runs as the last one.
    pub folder: FolderReport,
    /// Sessions below this one have ended, as far as it knows.
    pub session_floor: SessionId,
    /// The newest configuration that it has.
    pub configuration: Configuration,
}

/// The report of a data folder when its server starts. The coordinator compares it with what it
/// knows of the last process, so that a restored older copy of the folder is found out (R25).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderReport {
    /// Names the folder, made with it; a wiped disk has another one (R16).
    pub disk: u64,
    /// The instance that joined last on it, as the folder knows; 0 is none.
    pub last: u64,
    /// The incarnation that this instance got.
    pub incarnation: Incarnation,
    /// The newest epoch of which a configuration is kept there.
    pub epoch: Epoch,
    /// That instance has ended in good order: no core of it serves anything any more.
    pub has_stopped: bool,
    /// The log has been found to be older than what others know of it.
    pub is_old: bool,
}

/// How far the partitions of a replex are that are being filled. Rows are those of the covers, of
/// which each partition takes its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillReport {
    /// The table.
    pub table: TableId,
    /// The replex.
    pub replex: u8,
    /// How many partitions.
    pub partitions: u32,
    /// How many members of their covers there are.
    pub sources: u64,
    /// How many of these have given everything.
    pub sources_done: u64,
    /// Rows that were looked at.
    pub rows: u64,
    /// About how many there are to look at; 0 if that is not known.
    pub of_rows: u64,
    /// Why a new copy cannot be made, for people: no more than [`OBSTACLES_MAX`].
    pub obstacles: Vec<String>,
}

/// Reasons in one [`FillReport`].
pub const OBSTACLES_MAX: usize = 5;

impl FillReport {
    /// Returns an empty report of this replex.
    pub fn new(table: TableId, replex: u8) -> FillReport {
        FillReport {
            table,
            replex,
            partitions: 0,
            sources: 0,
            sources_done: 0,
            rows: 0,
            of_rows: 0,
            obstacles: Vec::new(),
        }
    }

    /// Adds the report of other partitions of the replex.
    pub fn add(&mut self, other: &FillReport) {
        self.partitions += other.partitions;
        self.sources += other.sources;
        self.sources_done += other.sources_done;
        self.rows += other.rows;
        self.of_rows += other.of_rows;
        self.obstacles.extend(other.obstacles.iter().cloned());
        self.obstacles.truncate(OBSTACLES_MAX);
    }

    /// Returns the share that is done, in percent, below 100.
    pub fn percent(&self) -> u64 {
        let (done, all) = match self.of_rows {
            0 => (self.sources_done, self.sources),
            all => (self.rows, all),
        };
        (done * 100).checked_div(all).unwrap_or(0).min(99)
    }
}

/// A copy that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFailure {
    /// The table.
    pub table: TableId,
    /// The copy's name.
    pub name: String,
    /// For people: what stood in the way.
    pub why: String,
}

/// How far a core is with the end of a table's earlier epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealReport {
    /// The table.
    pub table: TableId,
    /// The stage that it has reached.
    pub stage: SealStage,
    /// How long ago, in microseconds, it last vouched for a server that is being removed from the
    /// table, before it knew that, or started, if that is later: before a restart it may have
    /// vouched for any. None if no server is being removed.
    pub vouched_ago_us: Option<u64>,
}

/// Stages of the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealStage {
    /// It has not received all others' reports yet, or its disk is not done.
    Sealing,
    /// It has resolved everything, durably.
    Resolved,
    /// More is lost than is tolerated: it guesses nothing and waits for a server to come back.
    Stuck,
}

/// A reply of the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorReply {
    /// The server is part of the cluster.
    Joined {
        /// Its number.
        server: ServerId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// How far the log of each core was durable by its last report to the coordinator: one that
        /// ends before that is of an older copy of the folder.
        logs: Vec<Position>,
        /// The configuration with it.
        configuration: Configuration,
    },
    /// The lease is renewed, counted from `sent_us`.
    Beat {
        /// From the request.
        sent_us: u64,
        /// The newest epoch.
        epoch: Epoch,
        /// The lease's length in microseconds.
        lease_us: u64,
        /// Sessions below this one have ended (R14).
        session_floor: SessionId,
    },
    /// The newest configuration.
    Configuration(Configuration),
    /// The differences of the newest configuration from the asker's.
    Changes(ConfigurationChanges),
    /// The receiver knows the newest epoch already.
    Unchanged {
        /// The newest epoch.
        epoch: Epoch,
    },
    /// There is a newer epoch. Sent without a question, with correlation 0, to every core that
    /// sends heartbeats on the connection; the core fetches it.
    NewEpoch {
        /// The newest epoch.
        epoch: Epoch,
    },
    /// A session is open.
    Session {
        /// Its number.
        session: SessionId,
        /// After this many microseconds the client opens a new one.
        life_us: u64,
    },
    /// Done in this epoch.
    Done {
        /// The epoch.
        epoch: Epoch,
        /// The table, where one was created.
        table: Option<TableId>,
    },
    /// The progress of fills, and the outcomes of changes of copies.
    Progress {
        /// One for each replex with partitions that are being filled, by table and number.
        fills: Vec<FillReport>,
        /// Copies that come or go once the earlier epochs of their tables have ended.
        waiting: Vec<(TableId, String)>,
        /// The last copies that could not be made, the newest last.
        failures: Vec<CopyFailure>,
        /// Servers whose disks have no room for writes, and whether their partitions can go
        /// elsewhere.
        without_room: Vec<Shortage>,
    },
    /// To a server that joins: not yet, because its folder is an older copy. It asks again for as
    /// long as it takes.
    Wait {
        /// For people: why, and what can be done.
        message: String,
    },
    /// The state is being rebuilt from what the servers know: send it
    /// ([`CoordinatorRequest::Remember`]).
    Recall,
    /// Not done, and nothing was changed.
    Refused {
        /// For people: what, why and what to do.
        message: String,
        /// Whether the same request may succeed later without an operator's action.
        retry: bool,
    },
}

/// A server whose disk has no room for writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The server.
    pub server: ServerId,
    /// The room that is left.
    pub room: Room,
    /// Why its partitions stay there, for people; none if they move to servers with room.
    pub stays: Option<String>,
}

wire_enum!(CoordinatorRequest {
    0 => Join { server, instance, folder, domain, cores },
    1 => Heartbeat { core, incarnation, epoch, sent_us, durable, filled, fills, seals, room },
    2 => Fetch { known }, 3 => OpenSession, 4 => CreateTable { schema, if_not_exists },
    5 => DropTable { name, if_exists }, 6 => Leave { server },
    7 => Stopped { server, incarnation, logs }, 8 => Remove { server },
    9 => AddCopy { schema }, 10 => DropCopy { table, name, if_exists }, 11 => Progress,
    12 => Drain { server }, 13 => EndDrain { server },
    15 => Renew { table, cells }, 16 => AcceptFolder { server },
    17 => Remember(memory), 18 => SetPartitions { table, partitions },
});
wire_struct!(RecallReport {
    core,
    incarnation,
    runs,
    folder,
    session_floor,
    configuration,
});
wire_struct!(FolderReport {
    disk,
    last,
    incarnation,
    epoch,
    has_stopped,
    is_old,
});
wire_struct!(SealReport {
    table,
    stage,
    vouched_ago_us
});
wire_enum!(SealStage { 0 => Sealing, 1 => Resolved, 2 => Stuck });
wire_enum!(CoordinatorReply {
    0 => Joined { server, incarnation, logs, configuration },
    1 => Beat { sent_us, epoch, lease_us, session_floor },
    2 => Configuration(configuration), 3 => Unchanged { epoch },
    4 => Session { session, life_us }, 5 => Done { epoch, table },
    6 => Refused { message, retry }, 7 => Progress { fills, waiting, failures, without_room },
    8 => NewEpoch { epoch }, 9 => Recall, 10 => Wait { message },
    11 => Changes(changes),
});
wire_struct!(FillReport {
    table,
    replex,
    partitions,
    sources,
    sources_done,
    rows,
    of_rows,
    obstacles,
});
wire_struct!(Shortage {
    server,
    room,
    stays
});
wire_struct!(CopyFailure { table, name, why });
