//! The state that `confirm` uses: the finished operations, the messages that other members have not
//! answered, and the members that wait for a log record to be durable.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use protocol::identity::{CoreId, FinishedLine, OperationId, Position, TableId};

use crate::core::contract::CoreIdentity;
use crate::core::member::MemberKey;

/// Confirmations gathered for one core before they are sent without waiting for the timer.
const CONFIRMATIONS_MAX: usize = 256;

/// The operations of which this core is the head.
#[derive(Debug)]
pub(crate) struct OwnOperations {
    identity: CoreIdentity,
    /// The number of the next operation; rises by one with each.
    next_sequence: u64,
    /// Operations that are not durable everywhere.
    unfinished: BTreeSet<FinishedLine>,
    /// When to send one again. An entry counts only while its member has the same due time.
    retries: BTreeSet<(u64, OperationId)>,
}

impl OwnOperations {
    /// Returns an empty set.
    pub fn new(identity: CoreIdentity) -> OwnOperations {
        OwnOperations {
            identity,
            next_sequence: 1,
            unfinished: BTreeSet::new(),
            retries: BTreeSet::new(),
        }
    }

    /// Assigns the next operation id. The operation is unfinished from now on.
    pub fn begin(&mut self) -> OperationId {
        let operation = OperationId {
            head: self.identity.core,
            incarnation: self.identity.incarnation,
            sequence: self.next_sequence,
        };
        self.next_sequence += 1;
        self.unfinished.insert(operation.order());
        operation
    }

    /// Adds an operation of this head that was restored after a restart.
    pub fn resume(&mut self, operation: OperationId) {
        self.unfinished.insert(operation.order());
    }

    /// Removes an operation that is durable everywhere, or was dropped.
    pub fn end(&mut self, operation: OperationId) {
        self.unfinished.remove(&operation.order());
    }

    /// Returns the line below which all operations are finished.
    pub fn finished(&self) -> FinishedLine {
        let next = FinishedLine {
            incarnation: self.identity.incarnation,
            sequence: self.next_sequence,
        };
        self.unfinished.first().copied().unwrap_or(next)
    }

    /// Returns the operations that are not durable everywhere, by ascending number.
    pub fn unfinished(&self) -> Vec<OperationId> {
        let operation = |finished: &FinishedLine| OperationId {
            head: self.identity.core,
            incarnation: finished.incarnation,
            sequence: finished.sequence,
        };
        self.unfinished.iter().map(operation).collect()
    }

    /// Schedules the next attempt to send an operation.
    pub fn retry_at(&mut self, due_us: u64, operation: OperationId) {
        self.retries.insert((due_us, operation));
    }

    /// Returns the time of the next scheduled attempt; none if no attempt is scheduled.
    pub fn next_retry_us(&self) -> Option<u64> {
        self.retries.first().map(|(due, _)| *due)
    }

    /// Removes and returns the next operation that is due, with its scheduled time; none if none is
    /// due.
    pub fn pop_retry(&mut self, now_us: u64) -> Option<(u64, OperationId)> {
        self.retries.first().filter(|(due, _)| *due <= now_us)?;
        self.retries.pop_first()
    }
}

/// The line of each head below which its operations are finished, as far as this core and its log
/// know. A line never falls.
#[derive(Debug, Default)]
pub(crate) struct FinishedLines(BTreeMap<CoreId, FinishedLine>);

impl FinishedLines {
    /// Returns a head's line.
    pub fn of(&self, head: CoreId) -> FinishedLine {
        self.0.get(&head).copied().unwrap_or_default()
    }

    /// Records that a head's operations before `line` are finished.
    pub fn raise(&mut self, head: CoreId, line: FinishedLine) {
        let known = self.0.entry(head).or_default();
        *known = (*known).max(line);
    }

    /// Returns all lines, by head.
    pub fn iter(&self) -> impl Iterator<Item = (CoreId, FinishedLine)> {
        self.0.iter().map(|(head, line)| (*head, *line))
    }
}

/// Members whose outcome is durable, by the core to which that is sent, by table.
type GatheredConfirmations = BTreeMap<(CoreId, TableId), Vec<MemberKey>>;

/// Confirmations that are collected before they are sent, and the cores that need this head's line.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    /// By the core that they are for, by table.
    gathered: GatheredConfirmations,
    owed: BTreeSet<CoreId>,
    /// When all of this is sent; set whenever something has been added.
    due_us: Option<u64>,
}

impl Confirmations {
    /// Returns the time at which the collected messages must be sent; none if there are none.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Schedules the sending for this time, or earlier.
    pub fn send_by(&mut self, due_us: u64) {
        self.due_us.get_or_insert(due_us);
    }

    /// Adds a confirmation for a core. Returns all of the table's confirmations for that core once
    /// they fill a message.
    pub fn gather(&mut self, core: CoreId, member: MemberKey) -> Option<Vec<MemberKey>> {
        let gathered = self.gathered.entry((core, member.1.table)).or_default();
        gathered.push(member);
        (gathered.len() >= CONFIRMATIONS_MAX).then(|| core::mem::take(gathered))
    }

    /// Records that these cores need this head's line.
    pub fn owe(&mut self, cores: impl IntoIterator<Item = CoreId>) {
        self.owed.extend(cores);
    }

    /// Removes and returns the collected confirmations by core and table, and the cores that need
    /// this head's line.
    pub fn take(&mut self) -> (GatheredConfirmations, BTreeSet<CoreId>) {
        self.due_us = None;
        (
            core::mem::take(&mut self.gathered),
            core::mem::take(&mut self.owed),
        )
    }

    /// Drops the collected confirmations of these tables, which are void.
    pub fn forget_gathered(&mut self, tables: &BTreeSet<TableId>) {
        self.gathered
            .retain(|(_, table), _| !tables.contains(table));
    }

    /// Drops all collected confirmations.
    pub fn clear(&mut self) {
        self.gathered.clear();
    }
}

/// Members that wait for a record to become durable, in the order of the records.
#[derive(Debug, Default)]
pub(crate) struct AwaitedRecords(VecDeque<(Position, MemberKey)>);

impl AwaitedRecords {
    /// Adds a member that waits for the record at `position`.
    pub fn push(&mut self, position: Position, member: MemberKey) {
        self.0.push_back((position, member));
    }

    /// Removes and returns the first member with its record's position; none if the record is not
    /// durable.
    pub fn pop(&mut self, durable: Position) -> Option<(Position, MemberKey)> {
        self.0
            .front()
            .filter(|(position, _)| *position <= durable)?;
        self.0.pop_front()
    }

    /// Sorts the members by the position of their records, after they were added in another order.
    pub fn sort(&mut self) {
        self.0.make_contiguous().sort_unstable();
    }

    /// Removes all waiting members.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
