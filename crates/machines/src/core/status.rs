//! Reports the status of a machine to operators and checkers: counters, and the amount of work in
//! progress.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use protocol::identity::{OperationId, PartitionId};
use protocol::message::Room;

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub requests: u64,
    pub operations: u64,
    pub folded: u64,
    pub local_results: u64,
    pub commits: u64,
    pub aborts: u64,
    pub reads: u64,
    pub reads_waited: u64,
    pub reads_redirected: u64,
    pub redirected_rows_looked_at: u64,
    pub conflicts: u64,
    pub resent: u64,
    pub stale_epochs: u64,
    /// Messages of peers that were kept for an epoch that this core had not begun.
    pub early_messages: u64,
    pub adopted: u64,
    pub fill_rows: u64,
    pub fill_bytes: u64,
    pub fetches: u64,
    pub fetch_rows_looked_at: u64,
    pub matched_rows: u64,
    pub entries_made: u64,
    /// Transactions that this core has coordinated, and their attempts.
    pub transactions: u64,
    pub attempts: u64,
}

/// The amount of work in progress in a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Operations that are not known to be finished everywhere, one per member.
    pub operations: usize,
    /// The first of these operations, and this core's partition in its chain.
    pub oldest: Option<(OperationId, PartitionId)>,
    /// The undecided ones among these operations.
    pub undecided: usize,
    /// Walks of transactions that wait or hold keys here, and transactions that this core
    /// coordinates.
    pub transactions: usize,
    /// Requests that wait at heads.
    pub queued_requests: usize,
    /// Reads that wait for decisions.
    pub waiting_reads: usize,
    /// The number of completion records.
    pub completions: usize,
    /// The number of orders, over all partitions, whose local entries are incomplete.
    pub orders_unmade: usize,
    /// The number of snapshots that the core knows, opens, or is paused for, plus the statements
    /// that wait for one.
    pub snapshots: usize,
    /// The most open snapshots that the statements of one client read.
    pub snapshots_of_one_reader: usize,
    /// Bytes of rows that the core keeps for snapshots.
    pub history_bytes: usize,
}

impl CoreMachine {
    /// Returns every wait of one operation for another. There must be no cycle (invariant I11).
    pub fn waits(&self) -> Vec<(OperationId, OperationId)> {
        self.partitions
            .values()
            .flat_map(|partition| partition.locks.waits())
            .collect()
    }

    /// Returns the unfinished operations, waiting reads and requests, and kept records. Invariant
    /// I15 limits them, and I16 requires that they end.
    pub fn backlog(&self) -> Backlog {
        let queues = self
            .partitions
            .waited_in()
            .flat_map(|partition| partition.queues.values());
        Backlog {
            operations: self.members.len(),
            transactions: self.transactions.count(),
            oldest: self.members.keys().next().copied(),
            undecided: self
                .members
                .values()
                .filter(|member| member.decision().is_none())
                .count(),
            queued_requests: queues.map(VecDeque::len).sum(),
            waiting_reads: self
                .partitions
                .values()
                .map(|partition| partition.reads.len())
                .sum(),
            completions: self.sessions.count(),
            orders_unmade: self.orders_unmade(),
            snapshots: self.participation.count() + self.openings.count(),
            snapshots_of_one_reader: self.openings.of_one_reader(),
            history_bytes: self.participation.history_bytes(),
        }
    }

    /// Returns whether a client waits here for a result or a read. Operations of other heads do not
    /// count, because a restarted core restores them.
    pub fn has_outstanding_answers(&self) -> bool {
        let mut partitions = self.partitions.waited_in();
        self.requests.are_awaited() || partitions.any(|partition| !partition.reads.is_empty())
    }

    /// Returns counters by name, for operators.
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
            ("transactions", counters.transactions),
            ("transaction_attempts", counters.attempts),
            ("stale_epochs", counters.stale_epochs),
            ("early_messages", counters.early_messages),
            ("adopted", counters.adopted),
            ("fill_rows", counters.fill_rows),
            ("fill_bytes_looked_at", counters.fill_bytes),
            ("fill_fetches", counters.fetches),
            ("fill_fetch_rows_looked_at", counters.fetch_rows_looked_at),
            ("moved_rows", counters.matched_rows),
            ("local_entries_made", counters.entries_made),
            ("disk_full", u64::from(self.space.own() != Room::Free)),
            ("disk_hangs", u64::from(self.log.hang_reported())),
            ("orders_unmade", backlog.orders_unmade as u64),
            ("fill_sources", fill_sources),
            ("fill_sources_done", fill_sources_done),
            ("members", backlog.operations as u64),
            ("undecided", backlog.undecided as u64),
            ("queued_requests", backlog.queued_requests as u64),
            ("waiting_reads", backlog.waiting_reads as u64),
            ("completions", backlog.completions as u64),
            ("partitions", self.partitions.len() as u64),
            ("snapshots", self.participation.known_count() as u64),
            ("snapshots_opened_here", self.openings.open_count() as u64),
            (
                "snapshot_history_bytes",
                self.participation.history_bytes() as u64,
            ),
            ("epoch", self.view.epoch().0),
        ]
        .into_iter()
        .map(|(name, value)| (String::from(name), value))
        .collect()
    }

    /// Adds a line to the operator's log.
    pub(crate) fn note(&self, text: &str, output: &mut CoreOutput) {
        output.notes.push(format!("{}: {text}", self.identity.core));
    }
}
