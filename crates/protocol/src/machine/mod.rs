//! The machine of one core: all partitions that it holds, as one deterministic state machine.
//!
//! Its way through an operation: `head` evaluates a request and begins an operation, `chain` takes
//! it down the chain and its decision up again, `settle` makes the outcome visible, `confirm`
//! forgets it once it is durable everywhere. `read` answers lookups beside that, `recovery`
//! brings a restarted core back, `fill` brings a new place its rows, `moves` takes a partition over
//! from another core, `entries` gives rows the local entries that they lack, `upkeep` keeps leases and
//! configuration; `seal` ends epochs whose members are replaced, by the rules of `resolution`.
//!
//! Invariants: a vote is logged before its operation counts as prepared and never changes (SAFETY
//! R1); only the decider decides, once its own prepare is durable (R2); nothing unsettled is in
//! the tables, so no reader can see it (R3); keys of unsettled operations are held (R7, R10).
//! at an epoch's end all members come to the same outcome (R4, R5).

mod asked;
mod building;
mod chain;
mod confirm;
mod contract;
mod entries;
mod evaluate;
mod fill;
mod fill_completions;
mod fill_fetch;
mod fill_source;
mod head;
mod inquiry;
mod left_behind;
mod locks;
mod lost;
mod members;
mod move_source;
mod moves;
mod read;
mod recovery;
mod redirect;
mod resolution;
mod rows;
mod seal;
mod sessions;
mod settle;
mod table;
mod upkeep;
mod votes;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};

pub use contract::*;
pub use recovery::RecoveryError;

use crate::codec::Wire;
use crate::configuration::Configuration;
use crate::identity::{
    CoreId, Epoch, Finished, Incarnation, Now, OperationId, PartitionId, Position, RequestId,
    ServerId, TableId, Version,
};
use crate::message::{PeerMessage, Refusal, Reply};
use crate::operation::{Decision, Prepare};
use crate::planted::{self, Bug};
use crate::record::Record;
use entries::Making;
use fill::Fills;
use head::{Queued, Running};
use locks::Locks;
use members::Members;
use move_source::ChangeList;
use moves::{Held, Taking};
use read::WaitingRead;
use recovery::Recovering;
use redirect::Recent;
use seal::{Seal, SealedOnDisk};
use sessions::Sessions;
use table::{Effect, TableInfo};
use upkeep::Leases;

/// A buffer that a large record has grown beyond this is given back.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// All partitions of one core.
#[derive(Debug)]
pub struct CoreMachine {
    identity: Identity,
    limits: Limits,
    configuration: Arc<Configuration>,
    tables: BTreeMap<TableId, Arc<TableInfo>>,
    partitions: BTreeMap<PartitionId, Partition>,
    /// Partitions that it takes or has given away: they take part in no chain here.
    others: BTreeMap<PartitionId, Partition>,
    /// Operations that a partition takes part in, from their arrival until they are finished at
    /// every member.
    members: Members,
    sessions: Sessions,
    /// Requests under way at this core as head, and who waits for their results.
    running: BTreeMap<RequestId, Running>,
    /// Requests of operations under way, to be evaluated one by one if a folded one aborts.
    folded: BTreeMap<OperationId, Vec<Queued>>,
    /// No record and no checkpoint that this core was restored from is of a later epoch.
    epoch_on_disk: Epoch,
    /// What records before this position did to rows is in the checkpoint; 0 once the log is read.
    rows_from: Position,
    /// The highest version seen (SAFETY R6).
    last_version: Version,
    next_position: Position,
    durable: Position,
    /// Records whose durability something waits for, by position.
    undurable: VecDeque<(Position, MemberKey)>,
    next_sequence: u64,
    /// Operations of this head that are not durable everywhere.
    unfinished: BTreeSet<Finished>,
    /// When to send an operation of this head again.
    retries: BTreeSet<(u64, OperationId)>,
    /// What other heads have finished.
    finished: BTreeMap<CoreId, Finished>,
    /// Confirmations to be sent, by the core they are for.
    confirmations: BTreeMap<CoreId, Vec<(OperationId, PartitionId)>>,
    /// Cores that have not been told how far this head has finished.
    finished_owed: BTreeSet<CoreId>,
    confirm_due_us: Option<u64>,
    incarnations: BTreeMap<CoreId, Incarnation>,
    leases: Leases,
    /// Set until a restarted core knows again what it may have forgotten.
    recovering: Option<Recovering>,
    /// Partitions that are rebuilding.
    fills: Fills,
    /// When local entries that are missing are made, if any are.
    entries_due_us: Option<u64>,
    /// Set while the epochs before are being ended: chains stand still.
    seal: Option<Seal>,
    sealed_on_disk: Option<SealedOnDisk>,
    /// Partitions that move to this core.
    taking: BTreeMap<PartitionId, Taking>,
    /// What has changed of partitions that move away from it.
    lists: BTreeMap<PartitionId, ChangeList>,
    /// What this core has of partitions, as its log has it.
    held: BTreeMap<PartitionId, Held>,
    /// Those of which it has rows of an earlier tenure that may be of use.
    left_behind: BTreeSet<PartitionId>,
    /// The log is being read: what it has of partitions that this core gave away is still needed.
    is_replaying: bool,
    /// When this core last vouched for a server.
    vouched_us: BTreeMap<ServerId, u64>,
    /// When it started, or its configuration changed: of changes before that it says nothing.
    quiet_from_us: u64,
    admits: bool,
    /// Servers that said they have no space for new operations.
    full_servers: BTreeSet<ServerId>,
    /// Servers that are down and that nobody can replace.
    lost: BTreeSet<ServerId>,
    counters: Counters,
    /// Where records are encoded before their size is known.
    scratch: Vec<u8>,
}

/// One partition of this core.
#[derive(Debug)]
struct Partition {
    id: PartitionId,
    table: Arc<TableInfo>,
    locks: Locks,
    /// The orders of other replexes in which its rows have local entries, or get them.
    orders: Vec<u8>,
    /// Those among them in which some have none yet.
    making: Option<Making>,
    /// Lookups that wait for decisions (SAFETY R10).
    reads: Vec<WaitingRead>,
    /// What changed lately, for reads instead of a lost partition.
    recent: Recent,
    /// Operations that came after a waiting lookup of what they touch.
    behind_reads: VecDeque<OperationId>,
    /// Of a primary partition: requests by pk, in order of arrival (SAFETY R6).
    queues: BTreeMap<Vec<u8>, VecDeque<Queued>>,
}

impl Partition {
    /// One that nothing has happened to yet.
    fn new(id: PartitionId, table: &Arc<TableInfo>) -> Partition {
        Partition {
            id,
            table: Arc::clone(table),
            locks: Locks::default(),
            orders: Vec::new(),
            making: None,
            reads: Vec::new(),
            recent: Recent::default(),
            behind_reads: VecDeque::new(),
            queues: BTreeMap::new(),
        }
    }
}

/// A member of an operation's chain: a core can hold several.
type MemberKey = (OperationId, PartitionId);

/// One partition's part in one operation.
#[derive(Debug)]
struct Member {
    /// As it came; with this partition's vote once that is cast.
    prepare: Arc<Prepare>,
    table: Arc<TableInfo>,
    /// Position in the chain, from 0.
    place: usize,
    /// By change.
    effects: Vec<Effect>,
    /// Keys to hold, in order, and how many are held.
    held: Vec<Vec<u8>>,
    granted: usize,
    /// When it arrived, on the monotonic clock.
    since_us: u64,
    /// When a head sends it again, and the interval until the time after that.
    retry_due_us: u64,
    retry_us: u64,
    /// What it needs of a cover to be judged is here (SAFETY R18).
    has_fetched: bool,
    /// Set by the vote: the prepare's record.
    prepared_at: Option<Position>,
    decision: Option<Decision>,
    /// The decision's record; meaningful once there is a decision.
    decided_at: Position,
    /// Durable at position x: visible (SAFETY R3).
    settled: bool,
    /// It could be settled, but an earlier operation on a key of it is not.
    settle_waits: bool,
    /// Everything after it in the chain is durable and settled.
    next_durable: bool,
    /// So is this one, and it has said so.
    confirmed: bool,
    /// Its decision comes from the resolution of an epoch's end: the epoch in which that was made.
    resolved_in: Option<Epoch>,
}

/// A decision, as a member hears of it.
#[derive(Clone, Debug)]
struct Told {
    decision: Decision,
    /// It is durable at position x: it may be seen (SAFETY R3).
    settled: bool,
    /// It came up the chain, so that all members after this one have it.
    in_order: bool,
}

/// Counted since the start.
#[derive(Debug, Default)]
struct Counters {
    requests: u64,
    operations: u64,
    folded: u64,
    local_results: u64,
    commits: u64,
    aborts: u64,
    reads: u64,
    reads_waited: u64,
    reads_redirected: u64,
    redirected_rows_looked_at: u64,
    conflicts: u64,
    resent: u64,
    stale_epochs: u64,
    adopted: u64,
    fill_rows: u64,
    fill_bytes: u64,
    fetches: u64,
    fetch_rows_looked_at: u64,
    matched_rows: u64,
    entries_made: u64,
}

impl Member {
    fn partition(&self) -> PartitionId {
        self.prepare.chain[self.place]
    }

    /// Position of the partition's replex, from 1: what k and x count (SAFETY R3).
    fn replex_position(&self) -> usize {
        self.table.position(self.partition())
    }

    /// Whether it may vote no: those further down only say that they have the operation, so that
    /// one that has lost its vote gives the same again (SAFETY R3).
    fn may_refuse(&self) -> bool {
        self.replex_position() <= self.table.last_voter
    }

    fn is_decider(&self) -> bool {
        self.place + 1 == self.prepare.chain.len()
    }

    fn previous(&self) -> Option<PartitionId> {
        Some(self.prepare.chain[self.place.checked_sub(1)?])
    }

    fn next(&self) -> Option<PartitionId> {
        self.prepare.chain.get(self.place + 1).copied()
    }

    /// Whether a decision needs no durable record of its own before it may be seen.
    fn settles_at_decision(&self) -> bool {
        self.table.settles_at_decision()
    }

    /// What must be durable here before the decision may pass (SAFETY R1), or, on the way to
    /// position x, before it may be seen (R3).
    fn decision_after(&self) -> Position {
        if !self.table.sync || planted::is(Bug::DecisionOvertakesPrepare) {
            return Position(0);
        }
        let settled = self.settled || self.settle_waits;
        if !settled && self.decision_is_news() {
            return self.decided_at;
        }
        self.prepared_at.expect("what is decided was prepared")
    }

    /// Whether the decision says more than the prepare that is durable here: at position x, where it
    /// must be before anybody may see it (SAFETY R3), and between x and k, where the votes that the
    /// prepare holds do not imply it. So it is back once any n − f disks are (R26).
    fn decision_is_news(&self) -> bool {
        let position = self.replex_position();
        let x = self.table.settle_position;
        let implied = position >= self.table.last_voter;
        !self.settles_at_decision() && (position <= x || !implied)
    }

    /// Whether it is the one whose durable decision settles the operation.
    fn settles_here(&self) -> bool {
        let x = self.table.settle_position;
        let before = self
            .previous()
            .map_or(0, |partition| self.table.position(partition));
        self.replex_position() == x && before < x
    }

    /// How soon its decision's record must be on the disk. Somebody waits for it only where it is
    /// news; elsewhere the decision follows from prepares that are durable already, so that its
    /// record rides along with the next flush. A flush of its own would stand in the way of the
    /// next operation's prepare.
    fn decision_durability(&self) -> Durability {
        if self.replex_position() >= self.table.settle_position && self.decision_is_news() {
            self.table.durability()
        } else {
            Durability::Replicated
        }
    }
}

impl CoreMachine {
    /// A machine that has not started: restore, replay, then [`CoreMachine::start`].
    pub fn new(
        identity: Identity,
        limits: Limits,
        configuration: Arc<Configuration>,
    ) -> CoreMachine {
        let mut machine = CoreMachine {
            identity,
            limits,
            configuration: Arc::new(Configuration::default()),
            tables: BTreeMap::new(),
            partitions: BTreeMap::new(),
            others: BTreeMap::new(),
            members: Members::default(),
            sessions: Sessions::default(),
            running: BTreeMap::new(),
            folded: BTreeMap::new(),
            epoch_on_disk: Epoch(0),
            rows_from: Position(0),
            last_version: Version::default(),
            next_position: Position(1),
            durable: Position::default(),
            undurable: VecDeque::new(),
            next_sequence: 1,
            unfinished: BTreeSet::new(),
            retries: BTreeSet::new(),
            finished: BTreeMap::new(),
            confirmations: BTreeMap::new(),
            finished_owed: BTreeSet::new(),
            confirm_due_us: None,
            incarnations: BTreeMap::new(),
            leases: Leases::default(),
            recovering: None,
            fills: Fills::of(identity.incarnation),
            entries_due_us: None,
            taking: BTreeMap::new(),
            lists: BTreeMap::new(),
            seal: None,
            sealed_on_disk: None,
            held: BTreeMap::new(),
            left_behind: BTreeSet::new(),
            is_replaying: true,
            vouched_us: BTreeMap::new(),
            quiet_from_us: 0,
            admits: true,
            full_servers: BTreeSet::new(),
            lost: BTreeSet::new(),
            counters: Counters::default(),
            scratch: Vec::new(),
        };
        machine.hold(configuration);
        machine
    }

    /// Takes in what happened; adds to `output` what is to be done.
    ///
    /// # Errors
    /// A cold read failed: the process must stop, for memory no longer agrees with the log.
    pub fn step<T: Tables>(
        &mut self,
        now: Now,
        input: Input,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        match input {
            Input::Request {
                client,
                correlation,
                request,
            } => {
                let asked = Asked {
                    client,
                    correlation,
                };
                self.on_request(now, asked, request, tables, output)?;
            }
            Input::ClientGone { client } => self.on_client_gone(now, client, tables, output)?,
            Input::Peer { header, message } => {
                self.on_peer(now, header, message, tables, output)?;
            }
            Input::PeerConnected { core } => self.on_peer_connected(now, core, output),
            Input::Configuration(configuration) => {
                self.on_configuration(now, configuration, tables, output)?;
            }
            Input::Beat {
                sent_us,
                epoch,
                lease_us,
                session_floor,
            } => {
                let arrival = planted::is(Bug::LeaseFromArrival);
                let sent_us = if arrival { now.monotonic_us } else { sent_us };
                self.leases.coordinator_until_us =
                    self.leases.coordinator_until_us.max(sent_us + lease_us);
                self.sessions.end_below(session_floor);
                self.notice_epoch(epoch, output);
            }
            Input::Durable(position) => self.on_durable(now, position, tables, output)?,
            Input::Space { admits } => self.admits = admits,
            Input::Tick => self.on_tick(now, tables, output)?,
        }
        output.deadline_us = Some(self.deadline_us());
        Ok(())
    }

    /// Who this core is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The epoch of the configuration that it holds.
    pub fn epoch(&self) -> Epoch {
        self.configuration.epoch
    }

    /// The configuration that it holds.
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    /// Whether it still has to learn what it may have forgotten before its restart.
    pub fn is_recovering(&self) -> bool {
        self.recovering.is_some()
    }

    /// Every wait of one operation for another: must have no cycle (invariant I11).
    pub fn waits(&self) -> Vec<(OperationId, OperationId)> {
        self.partitions
            .values()
            .flat_map(|partition| partition.locks.waits())
            .collect()
    }

    /// Operations that are not finished, reads and requests that wait, records kept: what
    /// invariant I15 bounds and I16 brings to an end.
    pub fn backlog(&self) -> Backlog {
        let queues = self
            .partitions
            .values()
            .flat_map(|partition| partition.queues.values());
        Backlog {
            operations: self.members.len(),
            undecided: self
                .members
                .values()
                .filter(|member| member.decision.is_none())
                .count(),
            queued_requests: queues.map(VecDeque::len).sum(),
            waiting_reads: self
                .partitions
                .values()
                .map(|partition| partition.reads.len())
                .sum(),
            completions: self.sessions.count(),
            orders_unmade: self.orders_unmade(),
        }
    }

    /// Whether a client waits here for a result or a lookup that is under way. What this core is
    /// part of for other heads is not its debt: a restarted core takes that up again.
    pub fn owes_answers(&self) -> bool {
        let mut partitions = self.partitions.values();
        self.running.values().any(Running::is_awaited)
            || partitions.any(|partition| !partition.reads.is_empty())
    }

    /// Counters by name, for operators.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let counters = &self.counters;
        let backlog = self.backlog();
        let (fill_sources, fill_sources_done) = self.fill_sources();
        [
            ("requests", counters.requests),
            ("operations", counters.operations),
            ("folded_requests", counters.folded),
            ("local_results", counters.local_results),
            ("commits", counters.commits),
            ("aborts", counters.aborts),
            ("reads", counters.reads),
            ("reads_waited", counters.reads_waited),
            ("reads_redirected", counters.reads_redirected),
            (
                "redirected_rows_looked_at",
                counters.redirected_rows_looked_at,
            ),
            ("conflicts", counters.conflicts),
            ("resent", counters.resent),
            ("stale_epochs", counters.stale_epochs),
            ("adopted", counters.adopted),
            ("fill_rows", counters.fill_rows),
            ("fill_bytes_looked_at", counters.fill_bytes),
            ("fill_fetches", counters.fetches),
            ("fill_fetch_rows_looked_at", counters.fetch_rows_looked_at),
            ("moved_rows", counters.matched_rows),
            ("local_entries_made", counters.entries_made),
            ("orders_unmade", backlog.orders_unmade as u64),
            ("fill_sources", fill_sources),
            ("fill_sources_done", fill_sources_done),
            ("members", backlog.operations as u64),
            ("undecided", backlog.undecided as u64),
            ("queued_requests", backlog.queued_requests as u64),
            ("waiting_reads", backlog.waiting_reads as u64),
            ("completions", backlog.completions as u64),
            ("partitions", self.partitions.len() as u64),
            ("epoch", self.configuration.epoch.0),
        ]
        .into_iter()
        .map(|(name, value)| (String::from(name), value))
        .collect()
    }

    /// Emits a log record and returns its position.
    fn log(&mut self, record: &Record, durability: Durability, output: &mut Output) -> Position {
        let position = self.next_position;
        self.next_position = Position(position.0 + 1);
        record.encode(&mut self.scratch);
        let bytes = self.scratch.as_slice().into();
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
        output.records.push(LogRecord {
            position,
            epoch: self.configuration.epoch,
            durability,
            bytes,
        });
        position
    }

    /// Emits a message to the core that holds `partition`.
    fn send(
        &self,
        partition: PartitionId,
        after: Position,
        message: PeerMessage,
        output: &mut Output,
    ) {
        // A partition that is in no configuration any more needs no message.
        if let Some(place) = self.configuration.place(partition) {
            output.sends.push(Send {
                to: place.core,
                after,
                message,
            });
        }
    }

    fn refuse(&self, asked: Asked, refusal: Refusal, output: &mut Output) {
        self.answer(asked, Position(0), None, Reply::Refused(refusal), output);
    }

    fn answer(
        &self,
        asked: Asked,
        after: Position,
        valid_until_us: Option<u64>,
        reply: Reply,
        output: &mut Output,
    ) {
        let Asked {
            client,
            correlation,
        } = asked;
        output.replies.push(ClientReply {
            client,
            correlation,
            after,
            valid_until_us,
            reply,
        });
    }
}

/// Where a client's reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    client: ClientId,
    correlation: u64,
}

/// How much is under way in a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Operations kept because they are not known to be finished everywhere, one per member.
    pub operations: usize,
    /// Those among them without a decision.
    pub undecided: usize,
    /// Requests that wait at heads.
    pub queued_requests: usize,
    /// Lookups that wait for decisions.
    pub waiting_reads: usize,
    /// Completion records.
    pub completions: usize,
    /// Orders, over all partitions, in which rows are being given local entries.
    pub orders_unmade: usize,
}
