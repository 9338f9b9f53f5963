//! The ledger has every log record of every core, so that the checkers can read them.
//!
//! The machines do not know the ledger. When a disk loses records in a crash, the simulator removes
//! them from the ledger, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use placement::Durability;
use protocol::codec::Bytes;
use protocol::identity::{
    CoreId, Epoch, OperationId, PartitionId, Position, RequestId, TableId, Version,
};
use protocol::operation::{Decision, Prepare, RequestRecord, RequestResult, RowChange, Vote};
use protocol::record::Record;

/// All records on all disks.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The entry of each operation.
    pub operations: BTreeMap<OperationId, LedgerOperation>,
    /// The operations that carried a request.
    pub of_request: BTreeMap<RequestId, Vec<OperationId>>,
    /// Whether a crash may lose decisions that clients have seen, because they were only in memory
    /// (`replicated`).
    forgets: bool,
    /// The results without effect, which only a head has logged.
    pub completed: BTreeMap<RequestId, Vec<CompletionRecord>>,
    logs: BTreeMap<CoreId, Log>,
    /// The cores that are ending earlier epochs of tables, each with the position of its seal and
    /// the epoch that is to serve. No client sees a decision of such a core before an epoch of the
    /// table serves.
    sealing: BTreeMap<(CoreId, TableId), (Position, Epoch)>,
}

/// A result that was logged in a separate record, without an operation.
#[derive(Debug)]
pub struct CompletionRecord {
    /// The core and the position of the record.
    pub at: (CoreId, Position),
    /// The result.
    pub result: RequestResult,
    /// Whether other cores had already computed this result.
    pub is_learnt: bool,
}

/// One operation in the ledger, with the log records that its members have.
#[derive(Debug)]
pub struct LedgerOperation {
    /// The prepare in the operation's first record. Of a transaction it has only the changes of one
    /// member.
    pub prepare: Arc<Prepare>,
    /// The lowest version of the changes of a table, once a member has logged them: of a
    /// transaction a primary, for a copy can log its part after a primary has refused.
    pub begun: BTreeMap<TableId, Version>,
    /// All changes of rows that members have logged, by table and pk.
    pub changes: BTreeMap<(TableId, Bytes), Arc<RowChange>>,
    /// The members, by index in the chain.
    pub members: Vec<LedgerMember>,
    /// The replex, from 0, that knows a decision before any client may see it (x of R3), where that
    /// is not the first to log it.
    visible_at: Option<u8>,
    /// The first decision that any core has logged. It stays known after a crash, unless no client
    /// can have seen it and no core has it any more.
    pub decision: Option<Decision>,
    /// Whether a client may have seen the decision.
    pub seen: bool,
    /// Whether the decision was durable where it must be before any client may see it.
    pub visible: bool,
    /// Whether a member has voted no.
    pub refused: bool,
    /// Whether the end of an epoch has decided the operation. Removed members then need not have
    /// the decision.
    pub resolved: bool,
    /// The last epoch that served with the operation's decision.
    pub served_in: Epoch,
}

impl LedgerOperation {
    /// Returns whether clients may see a decision once it is logged at this partition.
    pub fn shows(&self, partition: PartitionId) -> bool {
        if self.is_transaction() {
            return false;
        }
        self.visible_at.is_none_or(|replex| {
            let mut chain = self.prepare.members.iter();
            chain.find(|id| id.replex == replex) == Some(&partition)
        })
    }

    /// Returns whether the operation is a transaction.
    pub fn is_transaction(&self) -> bool {
        self.prepare.transaction.is_some()
    }

    /// Returns the members that the operation changes. Of a transaction the last ones may stay.
    pub fn changed(&self) -> impl Iterator<Item = (&LedgerMember, &PartitionId)> {
        self.members.iter().zip(self.prepare.changed())
    }

    /// Forgets the decision if no client can have seen it and no core has it any more. The
    /// operation may then be decided differently (R3, R4).
    fn forget_unseen(&mut self) {
        if !self.seen && self.members.iter().all(|member| member.decided.is_none()) {
            self.decision = None;
        }
    }
}

/// The records that one member of a chain has on its disk.
#[derive(Clone, Debug, Default)]
pub struct LedgerMember {
    /// The member's prepare record, by core and position.
    pub prepared: Option<(CoreId, Position)>,
    /// Whether the member has ever logged a prepare. A crash may have lost the record.
    pub was_prepared: bool,
    /// The votes in the prepare.
    pub votes: Vec<Vote>,
    /// The member's decision record, by core and position.
    pub decided: Option<(CoreId, Position)>,
    /// Its decision.
    decision: Option<Decision>,
}

#[derive(Debug, Default)]
struct Log {
    durable: Position,
    /// Records that a crash could take back.
    recent: Vec<(Position, OperationId, PartitionId)>,
}

impl Ledger {
    /// Returns an empty ledger for a table.
    pub fn new(durability: Durability) -> Ledger {
        Ledger {
            forgets: durability == Durability::Replicated,
            ..Ledger::default()
        }
    }

    // tidy: long — a dispatching match over the kinds of records.
    /// Adds a record that a core has appended. `visible_at` is position x in the core's
    /// configuration.
    pub fn append(
        &mut self,
        (core, position): (CoreId, Position),
        record: &Record,
        visible_at: Option<u8>,
    ) {
        match record {
            Record::Prepared { partition, prepare } => {
                let operation = prepare.operation;
                let entry = self.operations.entry(operation).or_insert_with(|| {
                    for request in &prepare.requests {
                        self.of_request
                            .entry(request.request)
                            .or_default()
                            .push(operation);
                    }
                    LedgerOperation {
                        prepare: Arc::clone(prepare),
                        begun: BTreeMap::new(),
                        changes: BTreeMap::new(),
                        members: vec![LedgerMember::default(); prepare.members.len()],
                        visible_at,
                        decision: None,
                        seen: false,
                        visible: false,
                        refused: false,
                        resolved: false,
                        served_in: Epoch(0),
                    }
                });
                let part = prepare.transaction.as_ref();
                let begins = part.is_none_or(|part| part.head == *partition);
                for change in prepare.changes.iter().filter(|_| begins) {
                    let lowest = entry.begun.entry(prepare.table).or_insert(change.version);
                    *lowest = (*lowest).min(change.version);
                }
                for change in &prepare.changes {
                    let row = (prepare.table, change.pk.clone());
                    entry.changes.insert(row, Arc::clone(change));
                }
                if let Some(place) = place(entry, *partition) {
                    let member = &mut entry.members[place];
                    member.prepared = Some((core, position));
                    member.was_prepared = true;
                    member.votes = prepare.votes.clone();
                }
                entry.refused |= prepare.votes.iter().any(|vote| *vote != Vote::Yes);
                self.note(core, position, operation, *partition);
            }
            Record::Decided {
                partition,
                operation,
                decision,
                ..
            } => {
                if let Some(entry) = self.operations.get_mut(operation) {
                    if let Some(place) = place(entry, *partition) {
                        entry.members[place].decided = Some((core, position));
                        entry.members[place].decision = Some(decision.clone());
                    }
                    // An epoch's end may decide otherwise what no client has seen.
                    let awaited = awaited(&self.sealing, core, (entry, *partition));
                    let sealing = awaited.is_some();
                    if let Some(awaited) = awaited {
                        entry.resolved = true;
                        // Unless a later epoch serves than the one that a removed member waits for.
                        if entry.served_in <= awaited {
                            entry.decision = Some(decision.clone());
                        }
                    }
                    entry.decision.get_or_insert_with(|| decision.clone());
                    // An epoch's end may decide otherwise before, whatever a crash takes back.
                    let visible = entry.shows(*partition);
                    let forgets = self.forgets || entry.is_transaction();
                    entry.seen |= !sealing && (visible || !forgets);
                    entry.visible |= !sealing && visible;
                }
                self.note(core, position, *operation, *partition);
            }
            Record::Sealed { epoch, tables } => {
                for (table, _) in tables {
                    self.sealing.insert((core, *table), (position, *epoch));
                }
            }
            Record::Resolved { tables, .. } => {
                for table in tables {
                    self.sealing.remove(&(core, *table));
                }
            }
            // The records that the core had of it in an earlier tenure are void.
            Record::Given { partition, .. } => {
                for entry in self.operations.values_mut() {
                    let mut members = entry.members.iter_mut().zip(&entry.prepare.members);
                    let own = members.find(|(_, id)| *id == partition);
                    let own = own.map(|(member, _)| member);
                    if let Some(member) =
                        own.filter(|it| it.prepared.is_some_and(|it| it.0 == core))
                    {
                        match entry.visible {
                            true => member.decision = None,
                            false => {
                                *member = LedgerMember {
                                    was_prepared: true,
                                    ..LedgerMember::default()
                                };
                            }
                        }
                    }
                }
            }
            Record::Settled { .. }
            | Record::Copied { .. }
            | Record::Matched { .. }
            | Record::Whole { .. }
            | Record::Versions { .. } => {}
            Record::Completed { requests, .. } => {
                for request in requests {
                    let is_learnt = self.has_ended_elsewhere(core, request);
                    let results = self.completed.entry(request.request).or_default();
                    results.push(CompletionRecord {
                        at: (core, position),
                        result: request.result.clone(),
                        is_learnt,
                    });
                }
            }
        }
    }

    /// Returns whether a request has ended with this result at another core, or by an operation
    /// that aborted.
    fn has_ended_elsewhere(&self, core: CoreId, record: &RequestRecord) -> bool {
        let mut results = self.completed.get(&record.request).into_iter().flatten();
        let mut operations = self.of_request.get(&record.request).into_iter().flatten();
        let aborts = Some(Decision::Abort(record.result.clone()));
        results.any(|it| it.at.0 != core && it.result == record.result)
            || operations.any(|operation| self.operations[operation].decision == aborts)
    }

    /// Records that an epoch serves at a core after earlier epochs have ended. Clients may see the
    /// core's decisions for the partitions that it still holds. All remaining members have these
    /// decisions, so the absence of a record at a removed member proves nothing any more. Decisions
    /// at the end of an epoch that never served count no more if their members have left.
    ///
    /// # Errors
    /// Clients have seen another decision of an operation before.
    pub fn served(
        &mut self,
        (core, epoch): (CoreId, Epoch),
        tables: &[TableId],
        holds: impl Fn(PartitionId) -> bool,
    ) -> Result<(), String> {
        for (operation, entry) in &mut self.operations {
            if !entry.prepare.touches(|table| tables.contains(&table)) {
                continue;
            }
            let is_transaction = entry.is_transaction();
            let members = entry.members.iter().zip(&entry.prepare.members);
            let own = members.filter(|(member, partition)| {
                let here = member.prepared.is_some_and(|(at, _)| at == core);
                // The other tables of a transaction show it, too, unless they are sealed.
                let is_sealed = self.sealing.contains_key(&(core, partition.table));
                let concerns = tables.contains(&partition.table) || is_transaction && !is_sealed;
                here && concerns && holds(**partition)
            });
            let decisions: Vec<Decision> = own
                .filter_map(|(member, _)| member.decision.clone())
                .collect();
            for decision in decisions {
                let before = entry.decision.replace(decision.clone());
                let is_same = before.as_ref().is_some_and(|it| same(entry, it, &decision));
                if entry.visible && !is_same {
                    return Err(format!(
                        "{operation:?} was seen as {before:?}, now an epoch serves in which it is \
                         {decision:?}"
                    ));
                }
                entry.resolved = true;
                entry.seen = true;
                entry.visible = true;
                entry.served_in = entry.served_in.max(epoch);
            }
        }
        Ok(())
    }

    /// Returns the epoch that will serve once a core has decided the remaining operations of
    /// earlier epochs, if the core is in this state for a member's table, or for any table of a
    /// transaction.
    pub fn awaited(
        &self,
        core: CoreId,
        (entry, partition): (&LedgerOperation, PartitionId),
    ) -> Option<Epoch> {
        awaited(&self.sealing, core, (entry, partition))
    }

    /// Records that clients may see the decision of a transaction.
    pub fn show(&mut self, operation: OperationId) {
        if let Some(entry) = self.operations.get_mut(&operation) {
            entry.seen = true;
            entry.visible = true;
        }
    }

    /// Returns whether a core's seal of a table is durable.
    pub fn has_sealed(&self, core: CoreId, table: TableId) -> bool {
        let sealed = self.sealing.get(&(core, table));
        sealed.is_some_and(|(position, _)| self.is_durable((core, *position)))
    }

    /// Returns whether all votes and decisions of a core on a table are durable.
    pub fn is_all_durable(&self, core: CoreId, table: TableId) -> bool {
        let recent = self.logs.get(&core).into_iter().flat_map(|log| &log.recent);
        recent
            .filter(|(_, _, member)| member.table == table)
            .count()
            == 0
    }

    /// Records that a core's log is durable up to a position.
    pub fn durable(&mut self, core: CoreId, position: Position) {
        let log = self.logs.entry(core).or_default();
        log.durable = log.durable.max(position);
        let done = log.recent.partition_point(|(at, ..)| *at <= log.durable);
        log.recent.drain(..done);
    }

    /// Records that a core's disk has lost all records after `kept`.
    pub fn crash(&mut self, core: CoreId, kept: Position) {
        // It reports again what it is doing when it is back.
        self.sealing.retain(|(sealed, _), _| *sealed != core);
        let log = self.logs.entry(core).or_default();
        log.durable = log.durable.min(kept);
        while let Some((position, operation, partition)) = log.recent.pop() {
            if position <= kept {
                log.recent.push((position, operation, partition));
                break;
            }
            let Some(entry) = self.operations.get_mut(&operation) else {
                continue;
            };
            let Some(place) = place(entry, partition) else {
                continue;
            };
            let lost = |logged: &Option<(CoreId, Position)>| *logged == Some((core, position));
            let member = &mut entry.members[place];
            if lost(&member.prepared) {
                member.prepared = None;
                member.votes.clear();
            }
            if lost(&member.decided) {
                member.decided = None;
                member.decision = None;
            }
            entry.forget_unseen();
        }
        for results in self.completed.values_mut() {
            results.retain(|CompletionRecord { at, .. }| at.0 != core || at.1 <= kept);
        }
        self.completed.retain(|_, results| !results.is_empty());
        // A restart copies the records that it finds to new files, flushed.
        self.durable(core, kept);
    }

    /// Returns whether a record is durable.
    pub fn is_durable(&self, logged: (CoreId, Position)) -> bool {
        self.logs
            .get(&logged.0)
            .is_some_and(|log| logged.1 <= log.durable)
    }

    /// Returns the operations that committed, in order of their names.
    pub fn committed(&self) -> impl Iterator<Item = (&OperationId, &LedgerOperation)> {
        self.operations
            .iter()
            .filter(|(_, entry)| entry.visible && entry.decision == Some(Decision::Commit))
    }

    fn note(&mut self, core: CoreId, at: Position, operation: OperationId, member: PartitionId) {
        self.logs
            .entry(core)
            .or_default()
            .recent
            .push((at, operation, member));
    }
}

/// Returns the epoch that a core waits for which has sealed the table of an operation's member, or
/// any table of a transaction.
fn awaited(
    sealing: &BTreeMap<(CoreId, TableId), (Position, Epoch)>,
    core: CoreId,
    (entry, partition): (&LedgerOperation, PartitionId),
) -> Option<Epoch> {
    let tables = match entry.is_transaction() {
        true => entry.prepare.tables(),
        false => vec![partition.table],
    };
    let sealed = tables
        .iter()
        .filter_map(|table| sealing.get(&(core, *table)));
    sealed.map(|(_, epoch)| *epoch).max()
}

/// Returns whether two decisions on an operation are the same. The reason why a transaction aborts
/// is known to its coordinator alone.
pub fn same(entry: &LedgerOperation, one: &Decision, other: &Decision) -> bool {
    let kind = std::mem::discriminant::<Decision>;
    one == other || entry.is_transaction() && kind(one) == kind(other)
}

/// Returns the index of a partition in an operation's members, counted from 0; none if the
/// partition takes no part.
pub fn place(entry: &LedgerOperation, partition: PartitionId) -> Option<usize> {
    entry
        .prepare
        .members
        .iter()
        .position(|other| *other == partition)
}

#[cfg(test)]
pub mod testing {
    //! A ledger by hand, for the tests of checkers.

    use super::*;
    use protocol::codec::Bytes;
    use protocol::identity::{FinishedLine, SessionId, Version};
    use protocol::operation::{OldRow, RowChange};

    /// Returns a core by number.
    pub fn core(number: u16) -> CoreId {
        CoreId {
            core: number,
            ..CoreId::default()
        }
    }

    /// Returns a partition of a replex.
    pub fn partition(replex: u8) -> PartitionId {
        PartitionId {
            replex,
            ..PartitionId::default()
        }
    }

    /// Returns an operation of three members: an insert of one row, for one request.
    pub fn prepare(sequence: u64, votes: &[Vote]) -> Arc<Prepare> {
        Arc::new(Prepare {
            operation: OperationId {
                sequence,
                ..OperationId::default()
            },
            epoch: Epoch(1),
            finished_below: FinishedLine::default(),
            table: TableId(1),
            members: (0..3).map(partition).collect(),
            sides: 0,
            side: None,
            votes: votes.to_vec(),
            changes: vec![Arc::new(RowChange {
                pk: Bytes(vec![7]),
                version: Version(sequence * 10),
                old: OldRow::Absent,
                new: Some(Bytes(vec![1])),
            })],
            requests: vec![RequestRecord {
                request: RequestId {
                    session: SessionId(1),
                    number: sequence,
                },
                acknowledged_below: 1,
                digest: 0,
                result: RequestResult::Applied {
                    version: Version(sequence * 10),
                },
            }],
            transaction: None,
        })
    }

    /// Logs a prepare at member `place`, which is on core `place`.
    pub fn prepared(ledger: &mut Ledger, at: u64, place: u8, prepare: &Arc<Prepare>) {
        let record = Record::Prepared {
            partition: partition(place),
            prepare: prepare.clone(),
        };
        ledger.append((core(u16::from(place)), Position(at)), &record, None);
    }

    /// Returns a decision's record.
    pub fn decided(sequence: u64, place: u8, decision: Decision) -> Record {
        let operation = OperationId {
            sequence,
            ..OperationId::default()
        };
        Record::Decided {
            partition: partition(place),
            operation,
            decision,
            settles: true,
        }
    }

    #[test]
    fn a_crash_takes_back_what_was_not_durable() {
        let mut ledger = Ledger::default();
        let prepare = prepare(1, &[Vote::Yes]);
        prepared(&mut ledger, 1, 0, &prepare);
        ledger.append(
            (core(0), Position(2)),
            &decided(1, 0, Decision::Commit),
            None,
        );
        ledger.durable(core(0), Position(1));
        ledger.crash(core(0), Position(1));
        let entry = &ledger.operations[&prepare.operation];
        assert_eq!(entry.members[0].prepared, Some((core(0), Position(1))));
        assert_eq!(entry.members[0].decided, None);
        assert_eq!(entry.decision, Some(Decision::Commit));
    }
}
