//! Computes a member's vote: whether a change satisfies the partition's constraint.
//!
//! A member votes while it holds the constrained keys, against settled rows only (R8). Another kind
//! of constraint would be one more arm here, with its key in `table`. The head itself checks the
//! constraint of the primary replex, the pk, when it evaluates the request.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use placement::{Constraint, RowView, prefix_end};
use protocol::operation::{RequestResult, RowChange, Vote};
use protocol::planted::{self, Bug};

use crate::core::member::Member;
use crate::core::partition::rows::stored_row;

/// Returns a member's vote on an operation whose keys it holds.
pub(crate) fn judge<T: Tables>(member: &Member, tables: &T) -> Result<Vote, TablesError> {
    let replex = usize::from(member.partition().replex);
    let Some(constraint) = member.table.replexes[replex].constraint else {
        return Ok(Vote::Yes);
    };
    if member.prepare.changes.len() > 1 {
        let reason = match constraint {
            Constraint::Unique => duplicate_of_several(member, tables)?,
            Constraint::Dense => not_dense_together(member, tables)?,
        };
        return Ok(reason.map_or(Vote::Yes, Vote::No));
    }
    for (change, effect) in member.prepare.changes.iter().zip(&member.effects) {
        let reason = match constraint {
            Constraint::Unique if effect.put.is_some() => duplicate(member, change, tables)?,
            Constraint::Unique => None,
            Constraint::Dense => not_dense(member, change, tables)?,
        };
        if let Some(reason) = reason {
            return Ok(Vote::No(reason));
        }
    }
    Ok(Vote::Yes)
}

/// Returns the result `Duplicate` if the changes of a transaction leave two rows with the same key;
/// none otherwise. A key can pass from one row to another.
fn duplicate_of_several<T: Tables>(
    member: &Member,
    tables: &T,
) -> Result<Option<RequestResult>, TablesError> {
    let partition = member.partition();
    let replex = usize::from(partition.replex);
    let changes = || member.prepare.changes.iter().zip(&member.effects);
    let leaving: BTreeSet<&[u8]> = changes()
        .filter_map(|(_, effect)| effect.remove.as_deref())
        .collect();
    let mut entering: BTreeSet<Vec<u8>> = BTreeSet::new();
    for (change, effect) in changes() {
        let row = member
            .table
            .new_row(change)
            .filter(|_| effect.put.is_some());
        let key = row.and_then(|row| member.table.constrained_key(replex, &row));
        let Some(key) = key else {
            continue;
        };
        let twice = !entering.insert(key.clone()) && !planted::is(Bug::UniqueUnchecked);
        let leaves = |entry: &[u8]| leaving.contains(entry);
        if twice || is_taken(member, (&key, &change.pk), leaves, tables)? {
            return Ok(Some(RequestResult::Duplicate {
                replex: partition.replex,
                key: key.into(),
            }));
        }
    }
    Ok(None)
}

/// Returns a result that refuses the changes of a transaction if they leave a gap in a group of a
/// dense index; none otherwise.
fn not_dense_together<T: Tables>(
    member: &Member,
    tables: &T,
) -> Result<Option<RequestResult>, TablesError> {
    let partition = member.partition();
    let table = &member.table;
    let place = |row: &RowView<'_>| dense_place(member, row);
    // By group: the values that leave, and those that enter.
    let mut groups: BTreeMap<Vec<u8>, [BTreeSet<i64>; 2]> = BTreeMap::new();
    for change in &member.prepare.changes {
        if matches!(change.old, protocol::operation::OldRow::SameKeys { .. }) {
            continue;
        }
        if let Some((group, value)) = table.old_row(change).and_then(|row| place(&row)) {
            groups.entry(group).or_default()[0].insert(value);
        }
        if let Some((group, value)) = table.new_row(change).and_then(|row| place(&row))
            && !groups.entry(group.clone()).or_default()[1].insert(value)
        {
            let last = last_of_group(member, &group, tables)?;
            return Ok(Some(RequestResult::NotDense {
                replex: partition.replex,
                expected: last + 1,
            }));
        }
    }
    for (group, [leaves, enters]) in groups {
        let last = last_of_group(member, &group, tables)?;
        let left: BTreeSet<i64> = leaves.difference(&enters).copied().collect();
        let new: BTreeSet<i64> = enters.difference(&leaves).copied().collect();
        let difference = new.len() as i64 - left.len() as i64;
        let next_last = last + difference;
        // The rows that leave are the end of the group, and those that enter follow it.
        let ends = left
            .iter()
            .all(|value| (next_last + 1..=last).contains(value));
        let follows = new
            .iter()
            .all(|value| (last + 1..=next_last).contains(value));
        let one_way = left.is_empty() || new.is_empty();
        if !ends || !follows || !one_way {
            return Ok(Some(RequestResult::NotDense {
                replex: partition.replex,
                expected: last + 1,
            }));
        }
    }
    Ok(None)
}

/// Returns the result `Duplicate` if another row has the same key; none otherwise.
fn duplicate<T: Tables>(
    member: &Member,
    change: &RowChange,
    tables: &T,
) -> Result<Option<RequestResult>, TablesError> {
    let partition = member.partition();
    let replex = usize::from(partition.replex);
    let row = member.table.new_row(change);
    let Some(key) = row.and_then(|row| member.table.constrained_key(replex, &row)) else {
        return Ok(None);
    };
    let other = is_taken(member, (&key, &change.pk), |_| false, tables)?;
    Ok(other.then(|| RequestResult::Duplicate {
        replex: partition.replex,
        key: key.into(),
    }))
}

/// Returns whether a row other than `pk` has the unique key, except rows that leave it.
fn is_taken<T: Tables>(
    member: &Member,
    (key, pk): (&[u8], &[u8]),
    leaves: impl Fn(&[u8]) -> bool,
    tables: &T,
) -> Result<bool, TablesError> {
    let partition = member.partition();
    let is_thin = member.table.is_thin(partition);
    let unchecked = is_thin && planted::is(Bug::UniqueEntriesUnchecked);
    if unchecked || planted::is(Bug::UniqueUnchecked) {
        return Ok(false);
    }
    let mut other = false;
    let (rows, end) = (partition.rows_table(), prefix_end(key));
    tables.scan(rows, key, end.as_deref(), &mut |entry, _| {
        other |= entry[key.len()..] != *pk && !leaves(entry);
        match other {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(other)
}

/// Returns the group and the value of a row in a dense index; none if its group is in another
/// partition, or a column of its key is NULL.
fn dense_place(member: &Member, row: &RowView<'_>) -> Option<(Vec<u8>, i64)> {
    let (partition, table) = (member.partition(), &member.table);
    let replex = usize::from(partition.replex);
    let here = table.layout.partition_of_row(replex, row) == partition.number;
    let group = table.constrained_key(replex, row).filter(|_| here)?;
    Some((group, table.dense_value(replex, row)))
}

/// Returns the vote of a member that does not wait for a pending row with the same key: a planted
/// bug (R8).
pub(crate) fn duplicate_of(member: &Member, wanted: &[u8]) -> Option<RequestResult> {
    let replex = usize::from(member.partition().replex);
    if member.table.replexes[replex].constraint != Some(Constraint::Unique) {
        return None;
    }
    let row = member.table.new_row(member.prepare.changes.first()?)?;
    let key = member.table.constrained_key(replex, &row)?;
    let replex = member.partition().replex;
    (key == wanted).then(|| RequestResult::Duplicate {
        replex,
        key: key.into(),
    })
}

/// Returns a result that refuses the change if a value would be added before its predecessor
/// exists, or removed while its successor exists (Replex section 2.3: a value is valid only when
/// all smaller ones exist).
fn not_dense<T: Tables>(
    member: &Member,
    change: &RowChange,
    tables: &T,
) -> Result<Option<RequestResult>, TablesError> {
    let partition = member.partition();
    let table = &member.table;
    let place = |row: &RowView<'_>| dense_place(member, row);
    let leaves = table.old_row(change).and_then(|row| place(&row));
    let enters = table.new_row(change).and_then(|row| place(&row));
    if leaves == enters || matches!(change.old, protocol::operation::OldRow::SameKeys { .. }) {
        return Ok(None);
    }
    let refused = |expected| RequestResult::NotDense {
        replex: partition.replex,
        expected,
    };
    let mut left_group = None;
    if let Some((group, value)) = leaves {
        let last = last_of_group(member, &group, tables)?;
        if value != last {
            return Ok(Some(refused(last + 1)));
        }
        left_group = Some(group);
    }
    if let Some((group, value)) = enters {
        let last = last_of_group(member, &group, tables)?;
        if value != last + 1 || left_group == Some(group) {
            return Ok(Some(refused(last + 1)));
        }
    }
    Ok(None)
}

/// Returns the greatest value of a group, or 0: values start at 1.
fn last_of_group<T: Tables>(member: &Member, group: &[u8], tables: &T) -> Result<i64, TablesError> {
    let partition = member.partition();
    let mut last = 0;
    let end = prefix_end(group);
    tables.scan_reverse(
        partition.rows_table(),
        group,
        end.as_deref(),
        &mut |_, value| {
            let (_, row) = stored_row(value);
            let row = RowView::parse(&member.table.schema.columns, row);
            let row = row.expect("a committed row decodes");
            last = member
                .table
                .dense_value(usize::from(partition.replex), &row);
            ControlFlow::Break(())
        },
    )?;
    Ok(last)
}
