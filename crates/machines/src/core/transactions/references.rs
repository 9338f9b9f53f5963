//! Foreign keys: the coordinator of a transaction derives from the evaluated rows which rows must
//! exist and which must not, and has this checked with the other checks (R57).
//!
//! A client states none of these checks, so that no client can leave them out. A single change that
//! may need one runs as a transaction of one change.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use placement::{
    Column, ColumnType, ForeignKey, KeyInterval, ReplexKind, RowView, Value, decode_key,
    encode_key, key_has_null, prefix_end,
};
use protocol::codec::{Bytes, Wire};
use protocol::configuration::{PlacedTable, routes};
use protocol::identity::{OperationId, PartitionId, TableId};
use protocol::message::Read;
use protocol::operation::{OldRow, RowChange};
use protocol::planted::{self, Bug};
use protocol::transaction::{
    AbortReason, CHECK_BYTES_MAX, ReferenceCheck, ReferenceFault, ReferenceViolation,
    TransactionResult, Walk,
};

use crate::core::CoreMachine;
use crate::core::step::Step;
use crate::core::table::TableInfo;

/// The most rows that a check of a reference looks at in one page.
const PAGE_ROWS: u32 = 32;

/// A check that a foreign key demands of a transaction, and the result if it fails.
#[derive(Clone, Debug)]
pub(super) struct DemandedReference {
    pub check: ReferenceCheck,
    pub violated: TransactionResult,
}

/// The result of a check of a reference.
pub(super) enum ReferenceState {
    Holds,
    Violated,
    /// Another operation decides it.
    Held,
}

/// Returns the primary key of the parent's row to which a row refers; none if it refers to nothing.
fn referred(key: &ForeignKey, row: &RowView<'_>) -> Option<Vec<u8>> {
    let values = || key.columns.iter().map(|column| row.column(*column));
    (!key_has_null(values())).then(|| encode_key(values()))
}

/// The references of the changed rows of one transaction.
struct ReferenceReview<'a> {
    machine: &'a CoreMachine,
    /// The rows that the transaction changes, by table and pk.
    changes: BTreeMap<(TableId, &'a [u8]), &'a RowChange>,
    demanded: BTreeMap<ReferenceName, DemandedReference>,
    /// The bytes of the checks, as they are encoded.
    bytes: usize,
    /// By foreign key, the rows that refer to each row only before the transaction.
    leaving: BTreeMap<(TableId, &'a str), RowsByParent>,
}

/// The primary keys of rows, by the primary key of the row to which they refer.
type RowsByParent = BTreeMap<Vec<u8>, Vec<Bytes>>;

/// The object of a check: a row, or the rows of a partition that refer to a row.
type ReferenceName = (TableId, Vec<u8>, Option<PartitionId>);

impl CoreMachine {
    /// Returns the checks that the foreign keys of the changed rows demand.
    ///
    /// # Errors
    /// The transaction by itself violates a foreign key.
    pub(super) fn demanded_references(
        &self,
        walk: &Walk,
    ) -> Result<Vec<DemandedReference>, TransactionResult> {
        if planted::is(Bug::ReferenceNotDemanded) {
            return Ok(Vec::new());
        }
        let changes = walk.evaluated.iter().map(|row| {
            let name = (row.table, &row.change.pk[..]);
            (name, &row.change)
        });
        let mut review = ReferenceReview {
            machine: self,
            changes: changes.collect(),
            demanded: BTreeMap::new(),
            bytes: 0,
            leaving: BTreeMap::new(),
        };
        for row in &walk.evaluated {
            let table = self.view.table(row.table);
            let table = table.expect("walks end with a table's epoch");
            review.demand_parents(table, &row.change)?;
            if row.change.new.is_none() && !planted::is(Bug::ChildrenNotDemanded) {
                review.demand_no_children(table, &row.change)?;
            }
        }
        Ok(review.demanded.into_values().collect())
    }

    /// Returns whether the row exists to which rows of a transaction refer. Another operation that
    /// only updates it is no obstacle.
    pub(super) fn parent_state<T: Tables>(
        &self,
        operation: OperationId,
        (id, pk): (PartitionId, &[u8]),
        step: &mut Step<'_, T>,
    ) -> Result<ReferenceState, TablesError> {
        let stays = |change: &RowChange| change.new.is_some() && change.old != OldRow::Absent;
        let decides = |holder: &OperationId| {
            let member = self.members.get(&(*holder, id));
            let member = member.filter(|_| *holder != operation);
            member.is_some_and(|member| {
                let mut changes = member.prepare.changes.iter();
                changes.any(|change| change.pk[..] == *pk && !stays(change))
            })
        };
        let holders = self.partitions[&id].locks.holders(pk);
        if holders.iter().any(decides) && !planted::is(Bug::ReferenceIgnoresVotes) {
            return Ok(ReferenceState::Held);
        }
        let is_there = step.tables.read(id.rows_table(), pk, &mut |_| {})?;
        Ok(match is_there {
            true => ReferenceState::Holds,
            false => ReferenceState::Violated,
        })
    }

    /// Returns whether no row of a partition refers to a row with this key, except these.
    pub(super) fn children_state<T: Tables>(
        &self,
        operation: OperationId,
        (id, key): (PartitionId, &[u8]),
        except: &[Bytes],
        step: &mut Step<'_, T>,
    ) -> Result<ReferenceState, TablesError> {
        let partition = &self.partitions[&id];
        let end = prefix_end(key);
        let holders = partition.locks.holders_in(key, end.as_deref());
        let votes = |holder: &OperationId| {
            *holder != operation && self.members.contains_key(&(*holder, id))
        };
        if holders.iter().any(votes) && !planted::is(Bug::ReferenceIgnoresVotes) {
            return Ok(ReferenceState::Held);
        }
        let schema = &partition.table.schema;
        let except: BTreeSet<&[u8]> = except.iter().map(|pk| &pk[..]).collect();
        let mut read_columns = schema.primary_key.clone();
        read_columns.sort_unstable();
        let columns = read_columns.iter().map(|it| schema.columns[*it].clone());
        let columns: Vec<Column> = columns.collect();
        let mut read = Read {
            start: key.into(),
            end: end.map(Bytes),
            limit: PAGE_ROWS,
            projection: Some(read_columns.iter().map(|it| *it as u16).collect()),
            ..Read::of(self.view.table_epoch(id.table), id)
        };
        loop {
            let Some(page) = self.present_page(&read, step.tables)? else {
                return Ok(ReferenceState::Held);
            };
            for (_, row) in page.rows() {
                let row = RowView::parse(&columns, row).expect("a stored row decodes");
                let pk = schema.primary_key.iter().map(|column| {
                    let place = read_columns.binary_search(column);
                    row.column(place.expect("all columns of the key are read"))
                });
                let pk = encode_key(pk);
                if !except.contains(&pk[..]) {
                    return Ok(ReferenceState::Violated);
                }
            }
            match page.next {
                Some(next) => read.start = next,
                None => return Ok(ReferenceState::Holds),
            }
        }
    }
}

impl<'a> ReferenceReview<'a> {
    /// Demands the rows to which a changed row refers.
    fn demand_parents(
        &mut self,
        table: &TableInfo,
        change: &RowChange,
    ) -> Result<(), TransactionResult> {
        let Some(new) = table.new_row(change) else {
            return Ok(());
        };
        let configuration = self.machine.view.configuration();
        for key in &table.schema.constraints.foreign_keys {
            let Some(pk) = referred(key, &new) else {
                continue;
            };
            let old = table.old_row(change).and_then(|old| referred(key, &old));
            // The columns of a foreign key are in a sorting key, so that the old ones are known.
            let is_same = match change.old {
                OldRow::SameKeys { .. } => true,
                OldRow::Absent | OldRow::Keys { .. } => old.as_ref() == Some(&pk),
            };
            let fault = match is_same {
                true => ReferenceFault::HasChildren,
                false => ReferenceFault::NoParent,
            };
            let Some(parent) = configuration.table_named(&key.parent) else {
                // The coordinator of the cluster drops no table that has references to it.
                return Err(TransactionResult::conflict(table.id));
            };
            let parent = parent.id;
            let reports = match fault {
                ReferenceFault::NoParent => table.id,
                ReferenceFault::HasChildren => parent,
            };
            let violated = violation(reports, (table.id, key), &pk, fault);
            match self.changes.get(&(parent, &pk[..])) {
                Some(parent) if parent.new.is_some() => {}
                Some(_) => return Err(violated),
                None if is_same => {}
                None => {
                    let check = ReferenceCheck::Parent {
                        table: parent,
                        pk: Bytes(pk.clone()),
                    };
                    let demanded = DemandedReference { check, violated };
                    self.demand((parent, pk, None), demanded)?;
                }
            }
        }
        Ok(())
    }

    /// Demands that no row refers to a row that is deleted.
    fn demand_no_children(
        &mut self,
        table: &TableInfo,
        change: &RowChange,
    ) -> Result<(), TransactionResult> {
        let configuration = self.machine.view.configuration();
        for name in &table.schema.constraints.referenced_by {
            let Some(child) = configuration.table_named(name) else {
                return Err(TransactionResult::conflict(table.id));
            };
            let keys = child.schema.constraints.foreign_keys.iter();
            for key in keys.filter(|key| key.parent == table.schema.name) {
                let of = (table.id, (child.id, key));
                let fault = ReferenceFault::HasChildren;
                let violated = violation(of.0, of.1, &change.pk, fault);
                let Some(partitions) = partitions_of(table, child, key, &change.pk) else {
                    // The copies are being exchanged.
                    return Err(TransactionResult::conflict(child.id));
                };
                let except = self.leaving(child, key, &change.pk);
                for partition in partitions {
                    let check = ReferenceCheck::NoChild {
                        partition,
                        key: change.pk.clone(),
                        except: except.clone(),
                    };
                    let violated = violated.clone();
                    let demanded = DemandedReference { check, violated };
                    let name = (child.id, change.pk.to_vec(), Some(partition));
                    self.demand(name, demanded)?;
                }
            }
        }
        Ok(())
    }

    fn demand(
        &mut self,
        name: ReferenceName,
        demanded: DemandedReference,
    ) -> Result<(), TransactionResult> {
        let table = demanded.check.table();
        if !self.demanded.contains_key(&name) {
            self.bytes += demanded.check.to_bytes().len();
            self.demanded.insert(name, demanded);
        }
        if self.bytes <= CHECK_BYTES_MAX {
            return Ok(());
        }
        let message = format!(
            "the checks of the transaction's foreign keys have more than {CHECK_BYTES_MAX} bytes: \
             split it"
        );
        let reason = AbortReason::Invalid { message };
        Err(TransactionResult::Aborted { table, reason })
    }

    /// Returns the rows of a child that refer to a row only before the transaction. Rows that still
    /// refer to it afterwards are found by [`ReferenceReview::demand_parents`].
    fn leaving(&mut self, child: &PlacedTable, key: &'a ForeignKey, parent: &[u8]) -> Vec<Bytes> {
        let Some(table) = self.machine.view.table(child.id) else {
            return Vec::new();
        };
        let changes = &self.changes;
        let leaving = self.leaving.entry((child.id, &key.name[..]));
        let leaving = leaving.or_insert_with(|| {
            let mut leaving = RowsByParent::new();
            let of_child = changes.range((child.id, &[][..])..);
            for (_, change) in of_child.take_while(|((id, _), _)| *id == child.id) {
                let old = table.old_row(change).and_then(|old| referred(key, &old));
                if let Some(old) = old {
                    leaving.entry(old).or_default().push(change.pk.clone());
                }
            }
            leaving
        });
        leaving.get(parent).cloned().unwrap_or_default()
    }
}

fn violation(
    table: TableId,
    (child, key): (TableId, &ForeignKey),
    pk: &[u8],
    fault: ReferenceFault,
) -> TransactionResult {
    let reason = AbortReason::ReferenceViolated(ReferenceViolation {
        child,
        constraint: key.name.clone(),
        key: pk.into(),
        fault,
    });
    TransactionResult::Aborted { table, reason }
}

/// Returns the partitions of a serving copy that can have the rows which refer to a row. The order
/// of the copy begins with the columns of the foreign key. None if no such copy serves.
fn partitions_of(
    parent: &TableInfo,
    child: &PlacedTable,
    key: &ForeignKey,
    pk: &[u8],
) -> Option<Vec<PartitionId>> {
    let replexes = child.layout.replexes.iter().enumerate();
    let serving = replexes.filter(|(number, replex)| {
        let is_index = matches!(replex.kind, ReplexKind::Primary | ReplexKind::Index { .. });
        let sorted = replex.sort_columns.iter().map(|it| it.column);
        is_index
            && !child.is_building(*number)
            && sorted
                .take(key.columns.len())
                .eq(key.columns.iter().copied())
    });
    let types = parent.schema.primary_key.iter();
    let types: Vec<ColumnType> = types
        .map(|it| parent.schema.columns[*it].column_type)
        .collect();
    let values: Vec<Value> = decode_key(pk, &types).ok()?;
    let end = prefix_end(pk);
    let keys: KeyInterval<'_> = (pk, end.as_deref());
    let candidates = serving.filter_map(|(number, _)| {
        let replex = u8::try_from(number).ok()?;
        let equated = |column: usize| {
            let place = key.columns.iter().position(|it| *it == column)?;
            values.get(place).map(Value::as_ref)
        };
        let numbers = routes::partitions(child, replex, equated, keys);
        let partitions = numbers.into_iter().map(|number| PartitionId {
            table: child.id,
            replex,
            number,
        });
        Some(partitions.collect::<Vec<_>>())
    });
    candidates.min_by_key(Vec::len)
}
