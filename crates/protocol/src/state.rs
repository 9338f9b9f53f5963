//! The durable state of a coordinator, and the encodings of the state and of its changes.
//!
//! ```text
//! offset  bytes
//!      0      8  "RPXCOORD"
//!      8      2  format version
//!     10      4  CRC-32C of all that follows
//!     14      …  one `CoordinatorState`
//! ```
//! Integers are little-endian. Leases are left out: a coordinator that starts assumes that every
//! server that is up has just renewed its lease.

mod changes;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use placement::{Alteration, Schema};

pub use changes::StateChange;

use crate::change_log::{ChangeLog, decode_log};
use crate::codec::{DecodeError, Wire, wire_enum, wire_struct};
use crate::configuration::{Configuration, PlacedTables};
use crate::identity::{Epoch, Position, ServerId, SessionId, TableId};
use crate::message::CopyFailure;

/// The version of the state's encoding. The program reads no other version.
pub const STATE_FORMAT: u16 = 11;
const MAGIC: &[u8; 8] = b"RPXCOORD";
const HEADER_BYTES: usize = 14;

/// The state that survives the process of a coordinator.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinatorState {
    /// The number of changes so far; 0 is a state that was never stored.
    pub version: u64,
    /// The configuration that servers and clients see.
    pub configuration: Configuration,
    /// One entry for each server of the configuration, by ascending id.
    pub members: Vec<ServerMember>,
    /// Changes of tables that wait for the end of the tables' earlier epochs; at most one for each
    /// table.
    pub changes: Vec<WaitingChange>,
    /// The copies that could not be made, the last one at the end.
    pub failures: Vec<CopyFailure>,
    /// The number of the next new server. It never falls.
    pub next_server: u32,
    /// The number of the next new table. It never falls.
    pub next_table: u32,
    /// Session numbers below this one may have been assigned.
    pub sessions_reserved: u64,
    /// Sessions below this one have ended (R14). It never falls.
    pub session_floor: SessionId,
}

/// The facts about a server that only the coordinator knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerMember {
    /// The server.
    pub server: ServerId,
    /// Identifies the server's data folder. A wiped disk gets another number (R16).
    pub disk: u64,
    /// Identifies the process that joined last; 0 if unknown.
    pub instance: u64,
    /// The process that joined last has reported its stop.
    pub has_stopped: bool,
    /// Whether the coordinator trusts the server's folder when the server returns.
    pub trust: FolderTrust,
    /// The position up to which the log of each core was durable at its last report.
    pub logs: Vec<Position>,
}

/// Whether a server may return with the rows of its folder (R25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderTrust {
    /// The server may return, if its folder is the newest.
    Newest,
    /// The server has returned with an older copy. It may join once its partitions are void.
    Void,
    /// The server's partitions are void in epochs that serve. So all rows in its folder are void.
    Voided,
    /// An operator lets the server join with the next folder that it reports, however old.
    Any,
}

/// A change of a table that waits for the end of the table's earlier epochs.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingChange {
    /// The table.
    pub table: TableId,
    /// The requested change.
    pub wanted: RequestedChange,
}

/// A change of a table that a client or an operator has requested.
#[allow(
    clippy::large_enum_variant,
    reason = "a request is made once, by a person; a box would only be in the way"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum RequestedChange {
    /// Adds the last copy of this schema, which has one more than the table.
    Add {
        /// The table as it shall be.
        schema: Schema,
    },
    /// Drops the copy with this name.
    Drop {
        /// The name.
        name: String,
    },
    /// Drops the index with this name and gives its name to another one.
    Replace {
        /// The name.
        name: String,
        /// The present name of the other index.
        by: String,
    },
    /// Refills these partitions at their places.
    Renew {
        /// Number of the replex, number of the partition.
        cells: Vec<(u8, u32)>,
    },
    /// Changes the number of partitions: adds successors of the table's copies. The present number
    /// cancels this.
    Resize {
        /// How many.
        partitions: u32,
    },
    /// The successors replace the table's copies.
    Promote,
    /// Changes the definition of the table, and none of its rows.
    Alter {
        /// The changes, one after the other.
        alterations: Vec<Alteration>,
    },
    /// An empty table takes the place of the table, in the same epoch as for the other tables of
    /// the request.
    Truncate {
        /// All tables of the request, ascending.
        tables: Vec<TableId>,
    },
}

impl ServerMember {
    /// Records that a core's log is durable at least up to this position.
    pub fn note_log(&mut self, core: usize, durable: Position) {
        if self.logs.len() <= core {
            self.logs.resize(core + 1, Position(0));
        }
        self.logs[core] = self.logs[core].max(durable);
    }
}

impl CoordinatorState {
    /// Returns a cluster without servers or tables. `cluster` is a random number from the driver.
    pub fn new(cluster: u64) -> CoordinatorState {
        CoordinatorState {
            version: 0,
            configuration: Configuration {
                cluster,
                epoch: Epoch(1),
                ..Configuration::default()
            },
            members: Vec::new(),
            changes: Vec::new(),
            failures: Vec::new(),
            next_server: 1,
            next_table: 1,
            sessions_reserved: 1,
            session_floor: SessionId(1),
        }
    }

    /// Returns the state with no tables.
    fn clone_without_tables(&self) -> CoordinatorState {
        let configuration = Configuration {
            servers: self.configuration.servers.clone(),
            tables: PlacedTables::default(),
            roles: self.configuration.roles.clone(),
            ..self.configuration
        };
        CoordinatorState {
            configuration,
            members: self.members.clone(),
            changes: self.changes.clone(),
            failures: self.failures.clone(),
            ..*self
        }
    }

    /// Checks that the parts fit together: after this no transition panics on the state.
    fn check(&self) -> Result<(), String> {
        self.configuration.check()?;
        let fault = |what: &str| Err(String::from(what));
        let servers = self.configuration.servers.iter().map(|server| server.id);
        if !servers.eq(self.members.iter().map(|member| member.server)) {
            return fault("servers and members differ");
        }
        let last_server = self.members.last().map_or(0, |member| member.server.0);
        let last_table = self.configuration.tables.last();
        if self.next_server <= last_server
            || self.next_table <= last_table.map_or(0, |table| table.id.0)
            || self.sessions_reserved < self.session_floor.0
        {
            return fault("a number would be given twice");
        }
        let schemas = self
            .changes
            .iter()
            .filter_map(|change| match &change.wanted {
                RequestedChange::Add { schema } => Some(schema),
                RequestedChange::Drop { .. }
                | RequestedChange::Replace { .. }
                | RequestedChange::Renew { .. }
                | RequestedChange::Resize { .. }
                | RequestedChange::Promote
                | RequestedChange::Alter { .. }
                | RequestedChange::Truncate { .. } => None,
            });
        for schema in schemas {
            schema.validate().map_err(|error| error.message)?;
        }
        let waits = |change: &WaitingChange| {
            let table = self.configuration.table(change.table);
            table.is_none_or(|table| table.sealing.is_some())
        };
        if !self.changes.iter().all(waits) {
            return fault("a change waits, and its table's epochs do not end");
        }
        let (epoch, sessions) = (self.configuration.epoch.0, self.sessions_reserved);
        if self.version.max(epoch).max(sessions) >> 62 != 0
            || self.next_server.max(self.next_table) >> 31 != 0
        {
            return fault("a number is beyond what a cluster can reach");
        }
        Ok(())
    }
}

wire_struct!(CoordinatorState {
    version,
    configuration,
    members,
    changes,
    failures,
    next_server,
    next_table,
    sessions_reserved,
    session_floor,
});
wire_struct!(WaitingChange { table, wanted });
wire_enum!(RequestedChange {
    0 => Add { schema }, 1 => Drop { name }, 2 => Renew { cells }, 3 => Resize { partitions },
    4 => Promote, 5 => Replace { name, by }, 6 => Alter { alterations }, 7 => Truncate { tables },
});
wire_struct!(ServerMember {
    server,
    disk,
    instance,
    has_stopped,
    trust,
    logs,
});
wire_enum!(FolderTrust { 0 => Newest, 1 => Void, 2 => Voided, 3 => Any });

/// The bytes are no state that this program can use. The program leaves them unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// The bytes do not begin like a state.
    NotState,
    /// Another version of the program wrote them.
    Format {
        /// Theirs.
        found: u16,
    },
    /// The checksum does not match: the bytes are damaged.
    Checksum,
    /// The bytes do not decode.
    Malformed(DecodeError),
    /// The decoded state is inconsistent. Contains how.
    Inconsistent(String),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::NotState => {
                write!(f, "this is no coordinator's state: name another folder")
            }
            StateError::Format { found } if *found > STATE_FORMAT => write!(
                f,
                "the coordinator's state is of format {found}, this program knows \
                 {STATE_FORMAT}: use the release that wrote it, or a newer one"
            ),
            StateError::Format { found } => write!(
                f,
                "the coordinator's state is of format {found}, this program knows only \
                 {STATE_FORMAT}: use the release that wrote it"
            ),
            StateError::Checksum => write!(
                f,
                "the coordinator's state is damaged: its checksum does not match; move it aside, and \
                 start the coordinator with --recover, which rebuilds it from the servers"
            ),
            StateError::Malformed(error) => {
                write!(f, "the coordinator's state does not decode: {error}")
            }
            StateError::Inconsistent(what) => {
                write!(f, "the coordinator's state contradicts itself: {what}")
            }
        }
    }
}

impl core::error::Error for StateError {}

/// Returns the encoding of a state.
pub fn encode_state(state: &CoordinatorState) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(MAGIC);
    STATE_FORMAT.encode(&mut out);
    out.extend_from_slice(&[0; 4]);
    assert_eq!(out.len(), HEADER_BYTES, "the header is what was written");
    state.encode(&mut out);
    let checksum = crc32c::crc32c(&out[HEADER_BYTES..]);
    out[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Decodes a state and checks it completely.
pub fn decode_state(bytes: &[u8]) -> Result<CoordinatorState, StateError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(StateError::NotState)?;
    let (format, rest) = rest.split_first_chunk().ok_or(StateError::NotState)?;
    let found = u16::from_le_bytes(*format);
    if found != STATE_FORMAT {
        return Err(StateError::Format { found });
    }
    let (checksum, body) = rest.split_first_chunk().ok_or(StateError::Checksum)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return Err(StateError::Checksum);
    }
    let state = CoordinatorState::decode_kept(body).map_err(StateError::Malformed)?;
    state.check().map_err(StateError::Inconsistent)?;
    Ok(state)
}

/// Returns the state of these bytes and of a log of the changes since, checked wholly. Changes that
/// the bytes have already are passed over: a crash came between the two files.
pub fn decode_state_and_changes(bytes: &[u8], log: &[u8]) -> Result<CoordinatorState, StateError> {
    let mut state = decode_state(bytes)?;
    let log: ChangeLog<StateChange> = decode_log(log).map_err(|_| StateError::Checksum)?;
    for change in log.changes {
        if change.state.version <= state.version {
            continue;
        }
        let next = change.apply(&state);
        let missing = || StateError::Inconsistent("a change of the state is missing".into());
        state = next.ok_or_else(missing)?;
    }
    state.check().map_err(StateError::Inconsistent)?;
    Ok(state)
}
