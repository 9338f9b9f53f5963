//! Foreign keys: the coordinator of a transaction derives from the evaluated rows which rows must
//! exist and which must not, and has this checked with the other checks (R57).
//!
//! A client states none of these checks, so that no client can leave them out. A single change that
//! may need one runs as a transaction of one change.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use placement::{Column, ForeignKey, RowView, encode_key, key_has_null, prefix_end};
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
            (name, &*row.change)
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
        let voted = self.another_has_voted(operation, id, &holders);
        if voted && !planted::is(Bug::ReferenceIgnoresVotes) {
            return Ok(ReferenceState::Held);
        }
        let schema = &partition.table.schema;
        let except: BTreeSet<&[u8]> = except.iter().map(|pk| &pk[..]).collect();
        let read_columns = schema.key_projection();
        let columns = read_columns.iter().map(|it| usize::from(*it));
        let columns: Vec<Column> = columns.map(|it| schema.columns[it].clone()).collect();
        let mut read = Read {
            start: key.into(),
            end: end.map(Bytes),
            limit: PAGE_ROWS,
            projection: Some(read_columns.clone()),
            ..Read::of(self.view.table_epoch(id.table), id)
        };
        loop {
            let Some(page) = self.present_page(&read, step.tables)? else {
                return Ok(ReferenceState::Held);
            };
            for (_, row) in page.rows() {
                let row = RowView::parse(&columns, row).expect("a stored row decodes");
                let pk = schema.primary_key.iter().map(|column| {
                    let place = read_columns.binary_search_by_key(column, |it| usize::from(*it));
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
                let of_child = (child, key);
                let partitions =
                    routes::partitions_of_children(&table.schema, of_child, &change.pk);
                let Some(partitions) = partitions else {
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
