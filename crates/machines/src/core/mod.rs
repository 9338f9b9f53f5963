//! The state machine of one core, which serves all partitions that the core holds. It is
//! deterministic.
//!
//! | where | what |
//! |---|---|
//! | `dispatch` | where every input, request and message of a peer arrives |
//! | `duties` | what is done when time has passed |
//! | `partition` | the state of one partition: rows, held keys, what waits |
//! | `chain` | an operation from its request to its end |
//! | `reads` | lookups, scans and checksums |
//! | `repair` | rows that a partition lacks: filled from a cover, taken over, local entries |
//! | `epoch` | from one configuration to the next |
//! | `restart` | checkpoint, log, and what peers remember |
//! | `transactions` | operations of several rows |
//! | `snapshots` | the state of tables at one version, for reads of many pages |
//! | `leases` | until when this core may serve |
//!
//! Each part of the machine's state is behind the methods that keep its invariants. [`CoreMachine`]
//! names the parts. `chain`, `reads`, `repair`, `epoch` and `restart` use `partition`, which uses
//! `member` and `table`.
//!
//! Invariants: A vote is logged before its operation counts as prepared, and never changes (R1).
//! Only the decider decides, once its own prepare is durable (R2). Nothing unsettled is in the
//! tables, so no reader can see it (R3). Unsettled operations hold their keys (R7, R10). At an
//! epoch's end all members compute the same outcome (R4, R5).

mod answers;
mod chain;
mod contract;
mod disk_room;
mod dispatch;
mod duties;
mod epoch;
mod key;
mod leases;
mod log;
mod member;
mod members;
mod partition;
mod range_load;
mod ranges;
mod reads;
mod repair;
mod restart;
mod snapshots;
mod status;
mod step;
mod table;
mod transactions;
mod versions;
mod view;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use placement::Durability;
use placement::tables::{Tables, TablesError};
use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, Epoch, PartitionId, Position, SessionId, TableId};
use protocol::message::{PeerHeader, PeerMessage};
use protocol::record::Record;

pub use contract::*;
pub use reads::holds::HOLD_US_MAX;
pub use restart::checkpoint::RecoveryError;
pub use status::Backlog;

use chain::operations::{AwaitedRecords, Confirmations, FinishedLines, OwnOperations};
use chain::requests::Requests;
use chain::sessions::Sessions;
use chain::sides::SideReports;
use disk_room::DiskRoom;
use epoch::early::EarlyMessages;
use epoch::seal::SealProgress;
use leases::Leases;
use log::CoreLog;
use members::Members;
use partition::Partitions;
use partition::tenures::Tenures;
use ranges::RangeWatch;
use reads::holds::HoldClock;
use repair::entry_making::EntryMaking;
use repair::fill::Fills;
use repair::move_source::ChangeLists;
use repair::moves::IncomingMoves;
use repair::question_numbers::QuestionNumbers;
use restart::recovery::RecoveryState;
use snapshots::{Openings, Participation};
use status::Counters;
use step::Step;
use transactions::Transactions;
use versions::VersionClock;
use view::ClusterView;

/// The state machine of one core, with all its partitions.
#[derive(Debug)]
pub struct CoreMachine {
    identity: CoreIdentity,
    limits: CoreLimits,
    /// The configuration, and what follows from it.
    view: ClusterView,
    log: CoreLog,
    partitions: Partitions,
    /// Since when this core has had its partitions.
    tenures: Tenures,
    /// Operations that a partition takes part in, from their arrival until they are finished at
    /// every member.
    members: Members,
    /// The results of the requests of each session (R13).
    sessions: Sessions,
    /// Requests in progress at this core as head.
    requests: Requests,
    versions: VersionClock,
    /// Walks of transactions, and the transactions that this core coordinates.
    transactions: Transactions,
    /// Operations of this core as head.
    operations: OwnOperations,
    /// The operations that other heads have finished.
    finished: FinishedLines,
    confirmations: Confirmations,
    awaited: AwaitedRecords,
    side_reports: SideReports,
    leases: Leases,
    sealing: SealProgress,
    /// Messages of tables' epochs that this core has not begun.
    early: EarlyMessages,
    /// Tables of a restarted core, until it knows again what it may have forgotten of each.
    recovering: BTreeMap<TableId, RecoveryState>,
    /// Names what this core asks others for, and lists for them.
    numbers: QuestionNumbers,
    /// Partitions that are rebuilding.
    fills: Fills,
    /// Partitions that move to this core.
    takings: IncomingMoves,
    /// The changes of partitions that move to others.
    lists: ChangeLists,
    /// Local entries that are being made.
    making: EntryMaking,
    /// Ranges of thin indexes.
    ranges: RangeWatch,
    hold_clock: HoldClock,
    /// Snapshots that this core opens.
    openings: Openings,
    /// Snapshots that this core can read.
    participation: Participation,
    space: DiskRoom,
    counters: Counters,
}

impl CoreMachine {
    /// Returns a machine that has not started. Call `restore`, `replay` for each record, then
    /// [`CoreMachine::start`].
    pub fn new(
        identity: CoreIdentity,
        limits: CoreLimits,
        configuration: Arc<Configuration>,
    ) -> CoreMachine {
        let mut machine = CoreMachine {
            identity,
            limits,
            view: ClusterView::new(),
            log: CoreLog::new(),
            partitions: Partitions::default(),
            tenures: Tenures::default(),
            members: Members::default(),
            sessions: Sessions::default(),
            requests: Requests::default(),
            transactions: Transactions::default(),
            versions: VersionClock::default(),
            operations: OwnOperations::new(identity),
            finished: FinishedLines::default(),
            confirmations: Confirmations::default(),
            awaited: AwaitedRecords::default(),
            side_reports: SideReports::default(),
            leases: Leases::default(),
            sealing: SealProgress::default(),
            early: EarlyMessages::default(),
            recovering: BTreeMap::new(),
            numbers: QuestionNumbers::of(identity.incarnation),
            fills: Fills::default(),
            takings: IncomingMoves::default(),
            lists: ChangeLists::default(),
            making: EntryMaking::default(),
            ranges: RangeWatch::default(),
            hold_clock: HoldClock::default(),
            openings: Openings::default(),
            participation: Participation::default(),
            space: DiskRoom::default(),
            counters: Counters::default(),
        };
        let tables = configuration.tables.iter().map(|table| table.id).collect();
        machine.follow(configuration, &tables);
        machine
    }

    /// Handles an input, and adds the records, messages and replies to `output`.
    ///
    /// The phases of a step:
    /// 1. *Dispatch*: the input is handled where it belongs, a tick by the duties that are due.
    /// 2. *Report*: the opener of a snapshot hears once nothing is in progress.
    /// 3. *Watch*: it is noted since when records have waited for the disk.
    /// 4. *Deadline*: the first duty that will be due determines when to step again.
    ///
    /// # Errors
    /// A cold read failed: the process must stop, for memory no longer agrees with the log.
    pub fn step<T: Tables>(
        &mut self,
        now: ClockReading,
        input: CoreInput,
        tables: &mut T,
        output: &mut CoreOutput,
    ) -> Result<(), TablesError> {
        let step = &mut Step {
            now,
            tables,
            output,
        };
        self.dispatch(input, step)?;
        self.report_drained(step.output);
        self.log.watch(now);
        output.deadline_us = Some(self.deadline_us());
        Ok(())
    }

    /// Returns the identity of this core.
    pub fn identity(&self) -> CoreIdentity {
        self.identity
    }

    /// Returns the epoch of the core's configuration.
    pub fn epoch(&self) -> Epoch {
        self.view.epoch()
    }

    /// Returns the core's configuration.
    pub fn configuration(&self) -> &Arc<Configuration> {
        self.view.configuration()
    }

    /// Records that the earlier process ended cleanly and that this is its log. So the log has
    /// everything that the process had (R4). Call it before the start.
    pub fn note_complete(&mut self) {
        self.log.note_complete();
    }

    /// Returns the last position of the log.
    pub fn last_position(&self) -> Position {
        self.log.last()
    }

    /// Returns the number below which all sessions have ended, as far as the core knows.
    pub fn session_floor(&self) -> SessionId {
        self.sessions.floor()
    }

    /// Returns whether the core still waits for peers to report votes and outcomes that it may have
    /// forgotten.
    pub fn is_recovering(&self) -> bool {
        !self.recovering.is_empty()
    }

    /// Returns the header for a message that is sent now.
    pub fn header(&self, message: &PeerMessage) -> PeerHeader {
        let table = message.table();
        PeerHeader {
            from: self.identity.core,
            incarnation: self.identity.incarnation,
            epoch: self.view.epoch(),
            table_epoch: table.map_or(Epoch(0), |table| self.view.table_epoch(table)),
        }
    }

    /// Emits a log record and returns its position.
    fn append(
        &mut self,
        record: &Record,
        durability: Durability,
        output: &mut CoreOutput,
    ) -> Position {
        self.log
            .append(record, self.view.epoch(), durability, output)
    }

    /// Emits a message to the core that holds `partition`.
    fn send(
        &self,
        partition: PartitionId,
        after: Position,
        message: PeerMessage,
        output: &mut CoreOutput,
    ) {
        // A partition that is in no configuration any more needs no message.
        if let Some(place) = self.view.place(partition) {
            output.sends.push(PeerSend {
                to: place.core,
                after,
                message,
            });
        }
    }
}
