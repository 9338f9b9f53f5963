//! Requests of servers, clients and operators to the coordinator, and its replies.

use alloc::string::String;
use alloc::vec::Vec;

use placement::{Alteration, Schema};

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::configuration::roles::{RoleChange, RoleId};
use crate::configuration::{Configuration, ConfigurationChanges};
use crate::identity::{
    CoreId, Epoch, Incarnation, PartitionId, Position, ServerId, SessionId, TableId,
};
use crate::message::Room;

/// A request of a server, a client or an operator to the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorRequest {
    /// A starting server joins. The coordinator answers once the join is in a durable
    /// configuration.
    Join {
        /// The server's number; none to request a new number.
        server: Option<ServerId>,
        /// Names the process that uses the number: a second one is refused while the first
        /// one's lease runs.
        instance: u64,
        /// The report of its data folder.
        folder: FolderReport,
        /// The server's failure domain: servers of the same domain fail together.
        domain: String,
        /// `address:port` of each core.
        cores: Vec<String>,
    },
    /// Renews a core's lease.
    Heartbeat {
        /// The core.
        core: CoreId,
        /// The server's incarnation.
        incarnation: Incarnation,
        /// Its epoch.
        epoch: Epoch,
        /// Its monotonic clock, returned as it is.
        sent_us: u64,
        /// Up to here its log is durable; 0 while it has not read it.
        durable: Position,
        /// Partitions of the sender that can serve in a next epoch (R20): those that are
        /// rebuilding and hold, durably, all that their covers had, and those that move to the
        /// sender and lack only the last changes of their holders.
        filled: Vec<PartitionId>,
        /// How far its fills are, one report for each replex.
        fills: Vec<FillReport>,
        /// Its progress with the tables whose chains are blocked.
        seals: Vec<SealReport>,
        /// The room on its disk.
        room: Room,
        /// Ranges that should be split or may be merged: at most [`RANGE_REPORTS_MAX`].
        ranges: Vec<RangeReport>,
    },
    /// Requests the newest configuration, or the changes since the epoch `known`.
    Fetch {
        /// The epoch of the requesting process.
        known: Epoch,
    },
    /// Opens a new session of a client.
    OpenSession,
    /// Creates a table. The coordinator answers once every server with a part of it has the
    /// configuration.
    CreateTable {
        /// Columns, indexes and settings.
        schema: Schema,
        /// Without an error if there is one of that name.
        if_not_exists: bool,
        /// The sequences that are created with it, of which its columns take their defaults.
        sequences: Vec<Schema>,
        /// The owner of all of them.
        owner: RoleId,
    },
    /// Drops a table and its rows.
    DropTable {
        /// The table's name.
        name: String,
        /// Without an error if there is none.
        if_exists: bool,
    },
    /// Deletes a server. Refused while it holds partitions.
    Leave {
        /// The server.
        server: ServerId,
    },
    /// The last message of a server. Its log is durable, and no core of its process serves now or
    /// later. So its leases end at once, and its next process may join.
    Stopped {
        /// The server.
        server: ServerId,
        /// The incarnation that has stopped.
        incarnation: Incarnation,
        /// The last position of each core's log, all of which is durable.
        logs: Vec<Position>,
    },
    /// Adds a copy to a table: the last index or further copy of the schema, which has one more
    /// than the table. Answered at once. [`CoordinatorRequest::Progress`] reports the progress.
    AddCopy {
        /// The table as it shall be.
        schema: Schema,
    },
    /// Drops an index or a further copy, or cancels one that is being added. Answered at once.
    DropCopy {
        /// The table's name.
        table: String,
        /// The copy's name.
        name: String,
        /// Without an error if there is none.
        if_exists: bool,
    },
    /// Drops an index of a table and gives its name to another one, in one epoch. The other one is
    /// complete. Answered at once.
    ReplaceCopy {
        /// The table's name.
        table: String,
        /// The name of the index that is dropped.
        name: String,
        /// The name of the index that replaces it.
        by: String,
    },
    /// Makes partitions of a table void, because they hold wrong rows, and refills them from the
    /// other copies. Answered at once.
    Renew {
        /// The table's name.
        table: String,
        /// Number of the replex, number of the partition.
        cells: Vec<(u8, u32)>,
    },
    /// Changes the number of partitions of a table's copies, while clients use the table. The
    /// table's present number cancels such a change. Answered at once.
    /// [`CoordinatorRequest::Progress`] reports the progress.
    SetPartitions {
        /// The table's name.
        table: String,
        /// How many partitions each copy is to have.
        partitions: u32,
    },
    /// Changes the definition of a table, in one epoch. Answered at once.
    /// [`CoordinatorRequest::Progress`] reports the progress under
    /// [`ALTERATION_NAME`](crate::configuration::ALTERATION_NAME).
    AlterTable {
        /// The table's name.
        table: String,
        /// The changes, one after the other.
        alterations: Vec<Alteration>,
    },
    /// Changes roles or privileges, in one step. Answered at once.
    ChangeRoles {
        /// The change.
        change: RoleChange,
    },
    /// Removes all rows of tables, in one epoch: empty tables with other numbers take their places.
    /// Answered at once. [`CoordinatorRequest::Progress`] reports the progress of each table under
    /// [`TRUNCATION_NAME`](crate::configuration::TRUNCATION_NAME).
    Truncate {
        /// The tables' names.
        tables: Vec<String>,
        /// Whether the tables that refer to them are emptied, too. Otherwise such a table must be
        /// named.
        cascade: bool,
    },
    /// Requests the progress of fills and of changes of copies.
    Progress,
    /// Moves the partitions of a running server to other servers. The server receives no new ones.
    Drain {
        /// The server.
        server: ServerId,
    },
    /// Allows the server to hold partitions again.
    EndDrain {
        /// The server.
        server: ServerId,
    },
    /// Replaces a server that is down, without waiting any longer. The caller states that its
    /// process has ended, because the server must never serve these partitions again.
    Remove {
        /// The server.
        server: ServerId,
    },
    /// Answers [`CoordinatorReply::Recall`] with what a server knows.
    Remember(RecallReport),
    /// Lets a server join with an older copy of its folder. Rows that were acknowledged since that
    /// copy may be missing there: an operator accepts the loss.
    AcceptFolder {
        /// The server.
        server: ServerId,
    },
}

/// A server's report for a coordinator that rebuilds its state.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallReport {
    /// The core that reports. It is core 0 for a server that waits to join.
    pub core: CoreId,
    /// The server's incarnation.
    pub incarnation: Incarnation,
    /// Whether the server's process serves. Otherwise the process waits to join.
    pub runs: bool,
    /// The report on the server's folder, with the running process as the last one.
    pub folder: FolderReport,
    /// Sessions with lower numbers have ended, as far as the core knows.
    pub session_floor: SessionId,
    /// The newest configuration that the core has.
    pub configuration: Configuration,
}

/// A server's report on its data folder at its start. The coordinator compares it with its record
/// of the last process, to detect an older copy of the folder (R25).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderReport {
    /// A random number that identifies the folder. A wiped disk gets another one (R16).
    pub disk: u64,
    /// The instance that last joined with the folder, as the folder records it; 0 for none.
    pub last: u64,
    /// The incarnation of that instance.
    pub incarnation: Incarnation,
    /// The epoch of the newest configuration in the folder.
    pub epoch: Epoch,
    /// Whether that instance ended cleanly: none of its cores serves any more.
    pub has_stopped: bool,
    /// Whether the log is shorter than the coordinator's record of it.
    pub is_old: bool,
}

/// A range of a thin index that has too many entries or requests, or few of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeReport {
    /// The partition that has the range.
    pub partition: PartitionId,
    /// The approximate number of its entries.
    pub entries: u64,
    /// The requests for its entries per second.
    pub requests: u64,
    /// The key at which the range should be split; none if it has few entries and requests.
    pub split_at: Option<Bytes>,
}

/// The most reports of ranges in one heartbeat.
pub const RANGE_REPORTS_MAX: usize = 64;

/// The progress of fills: the partitions of one replex that are being filled. Its numbers of rows
/// count rows of the covers. Each partition needs only some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillReport {
    /// The table.
    pub table: TableId,
    /// The replex.
    pub replex: u8,
    /// The number of partitions.
    pub partitions: u32,
    /// The number of members of the partitions' covers.
    pub sources: u64,
    /// The number of members that have sent everything.
    pub sources_done: u64,
    /// The number of rows that members have visited.
    pub rows: u64,
    /// The approximate number of rows to visit; 0 if unknown.
    pub of_rows: u64,
    /// The reasons why a new copy cannot be made, for people: at most [`OBSTACLES_MAX`].
    pub obstacles: Vec<String>,
}

/// The most reasons in one [`FillReport`].
pub const OBSTACLES_MAX: usize = 5;

impl FillReport {
    /// Returns an empty report for this replex.
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

    /// Adds the report on other partitions of the replex.
    pub fn add(&mut self, other: &FillReport) {
        self.partitions += other.partitions;
        self.sources += other.sources;
        self.sources_done += other.sources_done;
        self.rows += other.rows;
        self.of_rows += other.of_rows;
        self.obstacles.extend(other.obstacles.iter().cloned());
        self.obstacles.truncate(OBSTACLES_MAX);
    }

    /// Returns the completed fraction in percent, below 100.
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
    /// The reason, for people.
    pub why: String,
}

/// A core's progress with the end of a table's earlier epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealReport {
    /// The table.
    pub table: TableId,
    /// The stage that the core has reached.
    pub stage: SealStage,
    /// The time in microseconds since the core last vouched for a server that is being removed from
    /// the table. If the core started later than that, the time since its start, because before a
    /// restart it may have vouched for any server. None if no server is being removed.
    pub vouched_ago_us: Option<u64>,
}

/// The stages of the end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealStage {
    /// The core waits for reports of other cores, or for its disk.
    Sealing,
    /// The core has resolved all operations, durably.
    Resolved,
    /// More servers are lost than the table tolerates. The core waits for one of them to return.
    Stuck,
}

/// A reply of the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorReply {
    /// The server is part of the cluster.
    Joined {
        /// The server's number.
        server: ServerId,
        /// The server's incarnation.
        incarnation: Incarnation,
        /// How far the log of each core was durable by its last report to the coordinator: one that
        /// ends before that is of an older copy of the folder.
        logs: Vec<Position>,
        /// The configuration with it.
        configuration: Configuration,
    },
    /// The lease is renewed. It counts from `sent_us`.
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
    /// The changes from the requester's configuration to the newest.
    Changes(ConfigurationChanges),
    /// The requester has the newest configuration already.
    Unchanged {
        /// The newest epoch.
        epoch: Epoch,
    },
    /// There is a newer epoch. The coordinator sends this without a request, with correlation 0, on
    /// every connection on which a core sends heartbeats. The core then fetches the configuration.
    NewEpoch {
        /// The newest epoch.
        epoch: Epoch,
    },
    /// A session is open.
    Session {
        /// The session's number.
        session: SessionId,
        /// After this many microseconds the client opens a new one.
        life_us: u64,
    },
    /// The change is made, in this epoch.
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
        /// Copies that are added or dropped once the earlier epochs of their tables have ended.
        waiting: Vec<(TableId, String)>,
        /// The last copies that could not be made, the newest last.
        failures: Vec<CopyFailure>,
        /// Servers whose disks have no room for writes, and whether their partitions can go
        /// elsewhere.
        without_room: Vec<Shortage>,
    },
    /// To a server that joins with an older copy of its folder: not yet. The server asks again
    /// until it may join.
    Wait {
        /// For people: why, and what can be done.
        message: String,
    },
    /// The coordinator rebuilds its state. The receiver must send [`CoordinatorRequest::Remember`].
    Recall,
    /// The request is refused, and nothing was changed.
    Refused {
        /// For people: what, why and what to do.
        message: String,
        /// Whether the same request may succeed later without an operator's action.
        retry: bool,
    },
}

/// A server that does not accept all writes, because its disk is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The server.
    pub server: ServerId,
    /// The writes for which the server's disk has space.
    pub room: Room,
    /// The reason why the server's partitions cannot move, to be displayed; none if they move to
    /// servers with space.
    pub stays: Option<String>,
}

wire_enum!(CoordinatorRequest {
    0 => Join { server, instance, folder, domain, cores },
    1 => Heartbeat { core, incarnation, epoch, sent_us, durable, filled, fills, seals, room, ranges },
    2 => Fetch { known }, 3 => OpenSession,
    4 => CreateTable { schema, if_not_exists, sequences, owner },
    5 => DropTable { name, if_exists }, 6 => Leave { server },
    7 => Stopped { server, incarnation, logs }, 8 => Remove { server },
    9 => AddCopy { schema }, 10 => DropCopy { table, name, if_exists }, 11 => Progress,
    12 => Drain { server }, 13 => EndDrain { server },
    15 => Renew { table, cells }, 16 => AcceptFolder { server },
    17 => Remember(memory), 18 => SetPartitions { table, partitions },
    19 => ReplaceCopy { table, name, by }, 20 => AlterTable { table, alterations },
    21 => Truncate { tables, cascade }, 22 => ChangeRoles { change },
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
wire_struct!(RangeReport {
    partition,
    entries,
    requests,
    split_at
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
