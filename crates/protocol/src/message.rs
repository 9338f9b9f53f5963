//! Messages between clients, cores and the coordinator.
//!
//! One closed enum per direction. Every request of a client and every message between cores that
//! concerns a table carries the table's epoch as the sender knows it (R15). A mismatch is refused:
//! a client learns the core's epoch of the table, a core with an older configuration learns the
//! newer epoch, and the older side fetches. How messages become bytes is in `codec`, how bytes
//! become frames is in `frame`.

mod coordinator;
mod refusal;
mod snapshot;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use placement::SlotConstraints;

use crate::codec::{Bytes, Wire, wire_enum, wire_struct};
use crate::expression::Expression;
use crate::identity::{
    CoreId, Epoch, FinishedLine, Incarnation, OperationId, PartitionId, RequestId, SnapshotId,
    TableId, Version,
};
use crate::operation::{Decision, Mutation, Prepare, RequestResult};
use crate::record::SavedCompletion;

pub use coordinator::{
    CoordinatorReply, CoordinatorRequest, CopyFailure, FillReport, FolderReport, OBSTACLES_MAX,
    RecallReport, SealReport, SealStage, Shortage,
};
pub use refusal::Refusal;
pub use snapshot::{
    OpenedSnapshot, SnapshotFailure, SnapshotMessage, SnapshotReply, SnapshotRequest, SnapshotUse,
};

/// Any message that a frame can hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// First on every connection.
    Hello(Hello),
    /// The answer to `Hello`.
    Welcome(Welcome),
    /// Client to core.
    Request(Request),
    /// Core to client.
    Reply(Reply),
    /// Core to core.
    Peer(PeerHeader, PeerMessage),
    /// To the coordinator.
    Ask(CoordinatorRequest),
    /// From the coordinator.
    Answer(CoordinatorReply),
    /// The connection is about to be closed, and why.
    Goodbye {
        /// For people.
        reason: String,
    },
    /// Answered with the same bytes by the event loop itself: the `echo` baseline.
    Echo(Bytes),
    /// To any coordinator, with or without a `Hello` before it: asks for the leader.
    FindLeader,
    /// The answer to `FindLeader`; and, before it closes the connection, that of a coordinator that
    /// does not lead to any other message.
    Leadership(Leadership),
}

/// The name of the process that opens a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster it means, where it knows.
    pub cluster: Option<u64>,
    /// The core that connects, where it is one.
    pub core: Option<(CoreId, Incarnation)>,
}

/// The name of the process that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The cluster.
    pub cluster: u64,
    /// The core that answers; none is the coordinator.
    pub core: Option<(CoreId, Incarnation)>,
    /// Its epoch.
    pub epoch: Epoch,
}

/// The leader of the coordinators, as one of them knows it. A hint: the leader may change at any
/// moment, and what a leader answers it answers as the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The sender leads.
    pub leads: bool,
    /// `host:port` of the one that leads; none while no coordinator does, or the sender does not
    /// know it.
    pub leader: Option<String>,
    /// The standby coordinators, by address.
    pub standbys: Vec<String>,
    /// Where the state is kept, for people.
    pub kept_in: String,
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.leader {
            _ if self.leads => write!(f, "it leads"),
            Some(leader) => write!(f, "it stands by; {leader} leads"),
            None => write!(f, "it stands by, and knows no leader"),
        }
    }
}

/// A request of a client to a core.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Run an operation; to the core of the primary partition of its pk.
    Execute(Execute),
    /// Read rows of one partition.
    Read(Read),
    /// Count and checksum a part of one partition.
    Checksum(ChecksumRead),
    /// Return the core's counters.
    Status,
    /// End holds, and report whether they kept what was read as it was.
    Release(HoldRelease),
    /// Open, keep or close a snapshot; to a core of one of its tables.
    Snapshot(SnapshotRequest),
}

/// An operation, retried under the same name until a result is known (R13).
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// Its name.
    pub request: RequestId,
    /// All numbers of the session below this one are acknowledged (R14).
    pub acknowledged_below: u64,
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The table.
    pub table: TableId,
    /// The primary partition that the client computed.
    pub partition: PartitionId,
    /// The mutations to execute. One for now; the format takes more.
    pub mutations: Vec<Mutation>,
}

/// Rows of one partition between two keys of its sort order.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
    /// First key, memcomparable, a prefix of the sort order; a continuation's key.
    pub start: Bytes,
    /// First key beyond; none reads to the end.
    pub end: Option<Bytes>,
    /// Rows for which it holds.
    pub filter: Option<Expression>,
    /// Which columns, by position; none is all.
    pub projection: Option<Vec<u16>>,
    /// How many rows at most.
    pub limit: u32,
    /// From the last key to the first.
    pub descending: bool,
    /// Return only how many there are.
    pub count_only: bool,
    /// Linearisable, or stale by request (R10).
    pub consistency: Consistency,
    /// How the page is to agree with others of its statement.
    pub agreement: Agreement,
    /// Set if it is for rows of a partition that is lost, at a member of its cover.
    pub redirect: Option<Redirect>,
    /// Read the rows of this snapshot instead of the present ones.
    pub snapshot: Option<SnapshotId>,
}

/// How pages of one statement come to be of one moment (R35).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The page is all that the statement reads.
    Alone,
    /// The core reports for how long nothing had changed ([`RowPage::quiet_us`]).
    Quiet,
    /// Besides, the core keeps operations that change what the page covers waiting from then on,
    /// until a [`HoldRelease`] or for so many microseconds. A core may hold for less, or not at all
    /// ([`RowPage::held`]).
    Hold(u64),
}

/// Ends holds of one connection on one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRelease {
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
    /// The correlations of the reads that were answered with a hold.
    pub holds: Vec<u64>,
}

impl Read {
    /// Returns whether its page must agree with others, and so reports for how long nothing had
    /// changed.
    pub fn must_agree(&self) -> bool {
        self.redirect.is_some() || self.agreement != Agreement::Alone
    }

    /// Returns whether it begins or ends with the partition itself: a page of a scan, not a lookup.
    pub fn is_scan(&self) -> bool {
        self.start.is_empty() || self.end.is_none()
    }
}

/// The further conditions of a read at a member of a cover (Replex sections 3.1 and 4): the rows of
/// a lost partition, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The replex of the lost partition: `start`, `end` and the order of the rows are those of its
    /// sort order.
    pub replex: u8,
    /// Only rows whose slots satisfy this: other members give the others.
    pub constraints: SlotConstraints,
    /// Where to go on, if the page before was in the member's own order ([`RowPage::own_order`]):
    /// all of its rows from this key on are gone through.
    pub scan_from: Option<Bytes>,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Waits for pending operations on what it reads.
    Linearizable,
    /// Answers from committed state at once; may miss operations under way.
    Stale,
}

/// A part of a partition to be summed; repeated with `next` until there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumRead {
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
    /// First key of this part.
    pub start: Bytes,
    /// How many rows at most.
    pub limit: u32,
    /// Sum the rows of this snapshot instead of the present ones.
    pub snapshot: Option<SnapshotId>,
}

/// A reply of a core to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The result of an `Execute`.
    Executed(RequestResult),
    /// Rows of a `Read`.
    Rows(RowPage),
    /// Sums of a `Checksum`.
    Checksum(ChecksumPart),
    /// Counters by name.
    Status(Vec<(String, u64)>),
    /// Whether all holds of a `HoldRelease` were there until now, and nothing that they cover has
    /// changed since it was read.
    Released(bool),
    /// The answer to a `Snapshot`.
    Snapshot(SnapshotReply),
    /// Not done here and now; nothing was changed by this attempt.
    Refused(Refusal),
}

/// A page of rows, packed: for each a version (`u64`), a length (`u32`), the row's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// How many rows are in `rows`, or, of a `count_only` read, how many were counted.
    pub count: u64,
    /// The rows, packed.
    pub rows: Bytes,
    /// Where to go on, if the page is not the last: `start` (or, descending, `end`) of the next.
    pub next: Option<Bytes>,
    /// Unless the read stands alone: for how many microseconds, up to when the rows were taken,
    /// nothing had changed in what was requested.
    pub quiet_us: Option<u64>,
    /// Operations that change what the page covers wait from now on ([`Agreement::Hold`]).
    pub held: bool,
    /// Of a redirected read: the member can give rows and `next` in its own order only, not in
    /// the one that is requested.
    pub own_order: bool,
}

/// A part's order-independent sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChecksumPart {
    /// Rows summed.
    pub count: u64,
    /// The wrapping sum over rows of a hash of (pk, version, row): equal for equal sets of rows,
    /// whatever the sort order.
    pub sum: u64,
    /// Where the next part starts; none at the end.
    pub next: Option<Bytes>,
}

/// The sender, in every message between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerHeader {
    /// The core.
    pub from: CoreId,
    /// Its incarnation: messages of older ones are dropped.
    pub incarnation: Incarnation,
    /// The epoch of its configuration.
    pub epoch: Epoch,
    /// The epoch of the table that the message concerns, as the sender knows it (R15); 0 if it
    /// concerns none.
    pub table_epoch: Epoch,
}

/// The room on a core's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// All writes.
    #[default]
    Free,
    /// The rest is kept for deletes, and for updates that make no row longer.
    Reserve,
    /// No write, until deleted rows have given room back or an operator makes some.
    Full,
}

/// The messages between cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// Phase 1, to the next partition of the chain.
    Prepare(Arc<Prepare>),
    /// Phase 2, to the previous partition of the chain.
    Decision {
        /// The operation.
        operation: OperationId,
        /// The member it is for (a core can hold several of one chain).
        to: PartitionId,
        /// The outcome.
        decision: Decision,
        /// Whether it is durable at position x, so that any client may see it (R3).
        settled: bool,
    },
    /// The decision is durable at position x: to the next partition of the chain (R3).
    Settled {
        /// The operation.
        operation: OperationId,
        /// The member it is for.
        to: PartitionId,
    },
    /// The decisions are durable at the sender and all after it: to the previous partition.
    Durable {
        /// Operation and the sender's member of it, all of one table.
        operations: Vec<(OperationId, PartitionId)>,
    },
    /// Decided at the sender, but not known durable further down: to the next partition, which
    /// passes it on or answers `Durable`.
    Confirm {
        /// Operation and the member it is for, and whether it is settled; all of one table.
        operations: Vec<(OperationId, PartitionId, bool)>,
    },
    /// Every operation of the sender's before this one is finished at every member.
    Finished(FinishedLine),
    /// A restarted core asks for what it may have forgotten: votes that it sent before they were
    /// durable (R1), decisions that it lost with its log's tail.
    Recover {
        /// The table whose operations it is about.
        table: TableId,
        /// Names the attempt.
        attempt: u64,
    },
    /// One operation that the asking core is a member of.
    Adopt {
        /// The attempt it answers.
        attempt: u64,
        /// The operation with all votes that the sender knows.
        prepare: Arc<Prepare>,
        /// Its decision, if the sender knows it, and whether it is settled.
        decision: Option<(Decision, bool)>,
    },
    /// That was everything.
    RecoverEnd {
        /// The table whose operations it is about.
        table: TableId,
        /// The attempt it answers.
        attempt: u64,
        /// How many `Adopt` belong to it.
        count: u64,
        /// Every operation of the sender's before this one is finished.
        finished_below: FinishedLine,
    },
    /// Asks a peer to vouch for the sender, as of the epoch of the peer's configuration: renews the
    /// sender's leases. Also reports whether the sender has space for writes: a disk that has just
    /// become full must be known before peers have filled what it keeps for writes that give space
    /// back.
    LeaseRequest {
        /// The asker's monotonic clock, returned as it is.
        sent_us: u64,
        /// The room on its disk.
        room: Room,
    },
    /// Vouches. Also reports whether the sender has space for writes.
    LeaseGrant {
        /// From the request.
        sent_us: u64,
        /// The room on its disk.
        room: Room,
    },
    /// The receiver's last message was of an older configuration than that of this epoch.
    NewerEpoch {
        /// The sender's.
        epoch: Epoch,
    },
    /// Asks a member of a cover for the rows of partitions that are being filled.
    Copy {
        /// The partitions, of one table.
        of: Vec<PartitionId>,
        /// The member of its cover.
        from: PartitionId,
        /// Where to go on, in the member's own order.
        start: Bytes,
    },
    /// A page of them.
    Copied {
        /// From the question.
        of: PartitionId,
        /// From the question.
        from: PartitionId,
        /// From the question.
        start: Bytes,
        /// The rows, and where to go on.
        page: RowPage,
        /// A hash of them.
        sum: u64,
        /// Counts of the rows that were looked at for it.
        looked: ScanCounts,
    },
    /// Asks a member of a cover for rows that are needed at once (R18): the last ones of
    /// each of some ranges, in the order of the partition that is filled.
    Fetch {
        /// The partition that is filled.
        of: PartitionId,
        /// The member of its cover.
        from: PartitionId,
        /// Names this way through the member's rows.
        pass: u64,
        /// The prefix of the keys of a range, and the first key beyond it, if that is not the
        /// prefix's end.
        wanted: Vec<(Bytes, Option<Bytes>)>,
        /// Where to go on, in the member's own order.
        start: Bytes,
    },
    /// The requested rows that were found.
    Fetched {
        /// From the question.
        of: PartitionId,
        /// From the question.
        from: PartitionId,
        /// From the question.
        pass: u64,
        /// From the question.
        start: Bytes,
        /// The rows, and where to go on.
        page: RowPage,
        /// Ranges of which rows were left out, and the lowest key that was not.
        complete_from: Vec<(Bytes, Bytes)>,
    },
    /// Asks a core for its completion records that concern a partition which is being filled
    /// (R13).
    CopyCompletions {
        /// The partition that is filled.
        of: PartitionId,
        /// Where to go on.
        start: RequestId,
    },
    /// A page of them.
    CopiedCompletions {
        /// From the question.
        of: PartitionId,
        /// From the question.
        start: RequestId,
        /// The records.
        completions: Vec<SavedCompletion>,
        /// Where to go on, if the page is not the last.
        next: Option<RequestId>,
        /// The highest version that the core has seen (R6).
        last_version: Version,
    },
    /// The core to which a partition moves asks its giver what differs from what it has itself.
    Compare {
        /// The partition.
        of: PartitionId,
        /// Names the question.
        question: u64,
        /// Where to begin.
        start: Bytes,
        /// Ranges, one after the other, by where they end (none is the end of all), and a hash
        /// of what the asker has there.
        ranges: Vec<(Option<Bytes>, u64)>,
    },
    /// The differences: as many as fit.
    Compared {
        /// From the question.
        of: PartitionId,
        /// From the question.
        question: u64,
        /// Names the list of keys that have changed since the giver began it.
        list: u64,
        /// How many changes it has.
        changes: u64,
        /// Parts of the ranges, whose rows all follow.
        differing: Vec<(Bytes, Option<Bytes>)>,
        /// The rows, and where to go on.
        page: RowPage,
        /// Bytes of the rows that were looked at for it.
        looked_at_bytes: u64,
    },
    /// The core to which a partition moves asks its giver what has changed.
    Changes {
        /// The partition.
        of: PartitionId,
        /// Names the question.
        question: u64,
        /// From [`PeerMessage::Compared`].
        list: u64,
        /// How many changes of the list the asker has.
        since: u64,
    },
    /// Rows that have changed, as they are.
    Changed {
        /// From the question.
        of: PartitionId,
        /// From the question.
        question: u64,
        /// The list that there is: if it is another one, its changes are unknown and everything is
        /// to be compared again.
        list: u64,
        /// Changed rows that are there.
        page: RowPage,
        /// Keys of changed rows that are not.
        gone: Vec<Bytes>,
        /// How many changes of the list the asker has with these.
        until: u64,
        /// Whether these were all.
        is_all: bool,
    },
    /// A core that seals asks what the receiver's log holds of operations that both take part in;
    /// it is answered once the receiver's own seal is durable (R4, R16).
    AskSealed {
        /// The table whose operations it is about.
        table: TableId,
        /// Names the attempt.
        attempt: u64,
    },
    /// One such operation.
    Witness {
        /// The attempt it answers.
        attempt: u64,
        /// The operation with all votes that the sender knows; its own is the last.
        prepare: Arc<Prepare>,
        /// Its decision, if the sender knows it, and the epoch of the resolution it comes from, if
        /// from one.
        decision: Option<(Decision, Option<Epoch>)>,
    },
    /// That was everything.
    WitnessEnd {
        /// The table whose operations it is about.
        table: TableId,
        /// The attempt it answers.
        attempt: u64,
        /// How many `Witness` belong to it.
        count: u64,
        /// Whether the sender has never crashed or has caught up since: then there was nothing
        /// else. Otherwise it reports other operations as *unknown*.
        forgot_nothing: bool,
    },
    /// Opens, keeps or ends a snapshot.
    Snapshot(SnapshotMessage),
}

impl PeerMessage {
    /// Returns the table that it concerns; none if it concerns several, or none.
    pub fn table(&self) -> Option<TableId> {
        match self {
            PeerMessage::Prepare(prepare)
            | PeerMessage::Adopt { prepare, .. }
            | PeerMessage::Witness { prepare, .. } => Some(prepare.table),
            PeerMessage::Decision { to, .. } | PeerMessage::Settled { to, .. } => Some(to.table),
            PeerMessage::Durable { operations } => operations.first().map(|it| it.1.table),
            PeerMessage::Confirm { operations } => operations.first().map(|it| it.1.table),
            PeerMessage::Recover { table, .. }
            | PeerMessage::RecoverEnd { table, .. }
            | PeerMessage::AskSealed { table, .. }
            | PeerMessage::WitnessEnd { table, .. } => Some(*table),
            PeerMessage::Copy { from, .. } => Some(from.table),
            PeerMessage::Copied { of, .. }
            | PeerMessage::Fetch { of, .. }
            | PeerMessage::Fetched { of, .. }
            | PeerMessage::CopyCompletions { of, .. }
            | PeerMessage::CopiedCompletions { of, .. }
            | PeerMessage::Compare { of, .. }
            | PeerMessage::Compared { of, .. }
            | PeerMessage::Changes { of, .. }
            | PeerMessage::Changed { of, .. } => Some(of.table),
            PeerMessage::Finished(_)
            | PeerMessage::LeaseRequest { .. }
            | PeerMessage::LeaseGrant { .. }
            | PeerMessage::NewerEpoch { .. }
            | PeerMessage::Snapshot(_) => None,
        }
    }

    /// Returns whether it is of no use while chains stand still.
    pub fn is_of_chain(&self) -> bool {
        match self {
            PeerMessage::Prepare(_)
            | PeerMessage::Decision { .. }
            | PeerMessage::Settled { .. }
            | PeerMessage::Durable { .. }
            | PeerMessage::Confirm { .. }
            | PeerMessage::Recover { .. }
            | PeerMessage::Adopt { .. }
            | PeerMessage::RecoverEnd { .. }
            | PeerMessage::Copy { .. }
            | PeerMessage::Copied { .. }
            | PeerMessage::Fetch { .. }
            | PeerMessage::Fetched { .. }
            | PeerMessage::CopyCompletions { .. }
            | PeerMessage::CopiedCompletions { .. }
            | PeerMessage::Compare { .. }
            | PeerMessage::Compared { .. }
            | PeerMessage::Changes { .. }
            | PeerMessage::Changed { .. } => true,
            PeerMessage::Finished(_)
            | PeerMessage::LeaseRequest { .. }
            | PeerMessage::LeaseGrant { .. }
            | PeerMessage::NewerEpoch { .. }
            | PeerMessage::AskSealed { .. }
            | PeerMessage::Witness { .. }
            | PeerMessage::WitnessEnd { .. }
            | PeerMessage::Snapshot(_) => false,
        }
    }
}

/// Counts of what a member of a cover read for one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// With the first page, about how many rows the member has; otherwise 0.
    pub of_rows: u64,
}

wire_enum!(Message {
    0 => Hello(hello), 1 => Welcome(welcome), 2 => Request(request), 3 => Reply(reply),
    4 => Peer(header, message), 5 => Ask(request), 6 => Answer(reply),
    7 => Goodbye { reason }, 8 => Echo(bytes), 9 => FindLeader, 10 => Leadership(leadership),
});
wire_struct!(Hello { cluster, core });
wire_struct!(Leadership {
    leads,
    leader,
    standbys,
    kept_in,
});
wire_struct!(Welcome {
    cluster,
    core,
    epoch
});
wire_enum!(Request { 0 => Execute(execute), 1 => Read(read), 2 => Checksum(read), 3 => Status,
    4 => Release(release), 5 => Snapshot(request) });
wire_struct!(Execute {
    request,
    acknowledged_below,
    epoch,
    table,
    partition,
    mutations
});
wire_struct!(Read {
    epoch,
    partition,
    start,
    end,
    filter,
    projection,
    limit,
    descending,
    count_only,
    consistency,
    agreement,
    redirect,
    snapshot,
});
wire_enum!(Agreement { 0 => Alone, 1 => Quiet, 2 => Hold(hold_us) });
wire_struct!(HoldRelease {
    epoch,
    partition,
    holds
});
wire_struct!(Redirect {
    replex,
    constraints,
    scan_from
});
wire_enum!(Consistency { 0 => Linearizable, 1 => Stale });
wire_struct!(ChecksumRead {
    epoch,
    partition,
    start,
    limit,
    snapshot
});
wire_enum!(Reply {
    0 => Executed(result), 1 => Rows(page), 2 => Checksum(part), 3 => Status(counters),
    4 => Refused(refusal), 5 => Released(unchanged), 6 => Snapshot(reply),
});
wire_struct!(RowPage {
    count,
    rows,
    next,
    quiet_us,
    held,
    own_order
});
wire_struct!(ScanCounts {
    rows,
    bytes,
    of_rows
});
wire_struct!(ChecksumPart { count, sum, next });
wire_enum!(Room { 0 => Free, 1 => Reserve, 2 => Full });
wire_struct!(PeerHeader {
    from,
    incarnation,
    epoch,
    table_epoch
});
wire_enum!(PeerMessage {
    0 => Prepare(prepare), 1 => Decision { operation, to, decision, settled },
    2 => Settled { operation, to }, 3 => Durable { operations }, 4 => Confirm { operations },
    5 => Finished(below), 6 => Recover { table, attempt },
    7 => Adopt { attempt, prepare, decision }, 8 => RecoverEnd { table, attempt, count, finished_below },
    9 => LeaseRequest { sent_us, room }, 10 => LeaseGrant { sent_us, room },
    11 => NewerEpoch { epoch }, 12 => AskSealed { table, attempt },
    13 => Witness { attempt, prepare, decision },
    14 => WitnessEnd { table, attempt, count, forgot_nothing },
    16 => Copy { of, from, start }, 17 => Copied { of, from, start, page, sum, looked },
    18 => Fetch { of, from, pass, wanted, start },
    19 => Fetched { of, from, pass, start, page, complete_from },
    20 => CopyCompletions { of, start },
    21 => CopiedCompletions { of, start, completions, next, last_version },
    22 => Compare { of, question, start, ranges },
    23 => Compared { of, question, list, changes, differing, page, looked_at_bytes },
    24 => Changes { of, question, list, since },
    25 => Changed { of, question, list, page, gone, until, is_all }, 26 => Snapshot(message),
});

impl RowPage {
    /// Appends one row.
    pub fn push(&mut self, version: Version, row: &[u8]) {
        version.encode(&mut self.rows.0);
        u32::try_from(row.len())
            .expect("a row is at most 1 MiB")
            .encode(&mut self.rows.0);
        self.rows.0.extend_from_slice(row);
        self.count += 1;
    }

    /// Returns the rows; ends early at bytes that are not well-formed.
    pub fn rows(&self) -> impl Iterator<Item = (Version, &[u8])> {
        let mut reader = crate::codec::Reader::new(&self.rows);
        core::iter::from_fn(move || {
            let version = Version::decode(&mut reader).ok()?;
            Some((version, reader.bytes().ok()?))
        })
    }
}
