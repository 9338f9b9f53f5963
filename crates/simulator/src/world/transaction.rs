//! Transactions of the simulated clients: over rows of one table or of two.
//!
//! The history of each group has the part that concerns the group. Both parts of a transaction have
//! one outcome, which the ledger checks.

use protocol::identity::{TableId, Version};
use protocol::message::{Read, RowPage};
use protocol::operation::RequestResult;
use protocol::transaction::{
    AbortReason, RangeCheck, RowCheck, TransactionChange, TransactionResult, digest_of_rows,
};
use session::{ANY_EPOCH, SessionOperation};

use crate::linearizable::Call;
use crate::model::{ModelRow, Observation, PartitionRange, RangeRead, WorkloadOperation};
use crate::plan::{MILLISECOND, SECOND};
use crate::workload::{Translation, group_of_id};
use crate::world::client::read;
use crate::world::submitted::{GroupPart, SubmittedOperation};
use crate::world::{SimulatedTable, World};

/// A range that a client has read last in a group.
#[derive(Debug)]
pub struct KnownRange {
    pub range: PartitionRange,
    pub rows: Vec<(ModelRow, Version)>,
}

impl World {
    /// Begins a transaction of a client, whose first part is in this group.
    // tidy: long — one list of parts after the other
    pub fn begin_transaction(&mut self, number: u64, group: i64) {
        let place = self.plan.table_of(group);
        let mut groups = vec![(place, group)];
        if self.plan.tables > 1 && self.generator.of_two_tables() {
            let other = (place + 1) % self.plan.tables;
            let group = self.generator.group_of_table(other, self.plan.tables);
            groups.push((other, group));
        }
        let begun = self.next_moment();
        let (mut changes, mut checks, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut ranges = Vec::new();
        for (place, group) in groups {
            let SimulatedTable {
                id,
                translation: table,
            } = self.tables[place].clone();
            let known = self.known_rows(group);
            let (mut part, versions) = self.generator.transaction(group, &table.model, &known);
            let range = self.generator.checks_range();
            let range =
                range.and_then(|versions| self.range_check(number, (id, place, group), versions));
            if let Some((read, check)) = range {
                self.note_checked_range(number, (place, group), &check);
                part.ranges.push(read);
                ranges.push(check);
            }
            changes.extend(
                part.writes
                    .iter()
                    .map(|(write, must_apply)| TransactionChange {
                        table: id,
                        mutation: table.mutation(write),
                        must_apply: *must_apply,
                    }),
            );
            for ((id_of_row, row), version) in part.checks.iter().zip(versions) {
                checks.push(RowCheck {
                    table: id,
                    pk: table.pk(*id_of_row).into(),
                    version: row.map(|_| version),
                });
            }
            let writes = part.writes.len();
            let operation = WorkloadOperation::Transaction(part);
            self.trace.note(self.now_us, || {
                format!("client {number} begins {operation:?}")
            });
            let call = Call {
                begun,
                ended: None,
                operation,
            };
            self.history.push((group, call));
            parts.push(GroupPart {
                history: self.history.len() - 1,
                table: place,
                writes,
            });
        }
        let patience_us = match self.random.chance(0.1) {
            true => self.random.between(MILLISECOND, 500 * MILLISECOND),
            false => 45 * SECOND,
        };
        let client = self.clients.get_mut(&number).expect("callers have it");
        let deadline_us = client.deadline_after(self.now_us, patience_us);
        let ticket = client.next_ticket();
        let submitted = SubmittedOperation {
            history: Some(parts[0].history),
            table: parts[0].table,
        };
        client.submitted.insert(ticket, submitted);
        client.transactions.insert(ticket, parts);
        let operation = SessionOperation::Transact {
            changes,
            checks,
            ranges,
            planned: ANY_EPOCH,
        };
        self.submit(number, ticket, operation, deadline_us);
    }

    /// Notes a range that a client has read whole.
    pub fn note_range(&mut self, table: usize, history: usize, ranges: &[Vec<RowPage>]) {
        let (group, call) = &self.history[history];
        let WorkloadOperation::Statement(read) = &call.operation else {
            return;
        };
        let translation = &self.tables[table].translation;
        let is_whole = |(range, pages): &(&PartitionRange, &Vec<RowPage>)| {
            let rows: u64 = pages.iter().map(|page| page.count).sum();
            rows < range.limit as u64
        };
        let mut whole = read.iter().zip(ranges).filter(is_whole);
        let Some((range, pages)) = whole.next_back() else {
            return;
        };
        let rows = pages.iter().flat_map(RowPage::rows);
        let rows = rows.map(|(version, row)| Ok((translation.parse(row)?, version)));
        if let Ok(rows) = rows.collect::<Result<_, String>>() {
            let range = range.clone();
            self.known_ranges.insert(*group, KnownRange { range, rows });
        }
    }

    /// Returns the check of a range that was read last in a group, if the client knows the copy.
    fn range_check(
        &self,
        number: u64,
        (table, place, group): (TableId, usize, i64),
        versions: bool,
    ) -> Option<(RangeRead, RangeCheck)> {
        let known = self.clients[&number].session.configuration()?;
        let placed = known.table(table)?;
        let translation = &self.tables[place].translation;
        let KnownRange { range, rows } = self.known_ranges.get(&group)?;
        let copies = translation.copies_in(known.epoch);
        let number = translation.model.copies[range.replex].number;
        if !copies.contains(&range.replex) || placed.is_building(number) {
            return None;
        }
        // The entries of a thin index show which rows there are.
        let versions = versions && !translation.model.copies[range.replex].is_thin;
        let columns = translation.schema.key_projection();
        let of_pk = rows
            .iter()
            .map(|(row, version)| (*version, translation.pk_row(row)));
        let of_pk: Vec<(Version, Vec<u8>)> = of_pk.collect();
        let of_pk = of_pk.iter().map(|(version, row)| (*version, &row[..]));
        let check = RangeCheck {
            digest: digest_of_rows(of_pk, versions),
            read: Read {
                projection: Some(columns),
                ..read(translation, (table, known.epoch), range, true)
            },
            versions,
        };
        let rows = rows.iter().map(|(row, _)| *row).collect();
        let range = range.clone();
        let read = RangeRead {
            range,
            rows,
            versions,
        };
        Some((read, check))
    }

    /// Returns rows of a group that clients have read, with their versions.
    fn known_rows(&self, group: i64) -> Vec<(ModelRow, Version)> {
        let known = self.contents.iter();
        let known = known.filter(|((id, _), _)| group_of_id(*id) == group);
        let known = known.map(|((_, version), row)| (*row, Version(*version)));
        let mut known: Vec<(ModelRow, Version)> = known.collect();
        known.sort_unstable_by_key(|(_, version)| *version);
        // Most of the older ones have changed since.
        known.split_off(known.len().saturating_sub(4))
    }

    /// Records what a client has learnt of a transaction, in the history of each of its groups.
    pub fn transaction_learns(&mut self, parts: &[GroupPart], result: Option<&RequestResult>) {
        let seen = match result {
            None => vec![None; parts.len()],
            Some(RequestResult::Transaction(result)) => {
                let seen = parts.iter().scan(0, |first, part| {
                    let from = *first;
                    *first += part.writes;
                    Some(self.seen_of_transaction(part, from, result))
                });
                match seen.collect::<Result<Vec<Observation>, String>>() {
                    Ok(seen) => seen.into_iter().map(Some).collect(),
                    Err(text) => {
                        self.check("what a client learns makes sense", Err(text));
                        return;
                    }
                }
            }
            Some(other) => {
                let text = format!("a transaction was answered {other:?}");
                self.check("what a client learns makes sense", Err(text));
                return;
            }
        };
        for (part, seen) in parts.iter().zip(seen) {
            if let Some(seen) = seen {
                let moment = self.next_moment();
                self.history[part.history].1.ended = Some((moment, seen));
            }
        }
    }

    /// Returns the result of a transaction as an observation in one of its groups, whose writes
    /// begin at this index.
    fn seen_of_transaction(
        &self,
        part: &GroupPart,
        first: usize,
        result: &TransactionResult,
    ) -> Result<Observation, String> {
        let SimulatedTable { id, translation } = &self.tables[part.table];
        let (table, reason) = match result {
            TransactionResult::Committed { outcomes, .. } => {
                let own = outcomes.iter().skip(first).take(part.writes);
                let own: Vec<Observation> = own.map(|it| Translation::done(*it)).collect();
                return match own.len() == part.writes {
                    true => Ok(Observation::Committed(own)),
                    false => Err(format!("{result:?} lacks outcomes")),
                };
            }
            TransactionResult::Aborted { table, reason } => (table, reason),
        };
        if table != id {
            return Ok(Observation::Nothing);
        }
        if let Some(result) = RequestResult::of_abort(reason) {
            return translation.seen(&result);
        }
        Ok(match reason {
            AbortReason::NotApplied { change, outcome } => {
                let index = (*change as usize).checked_sub(first);
                let index = index.ok_or_else(|| format!("{result:?} is of another part"))?;
                Observation::Unapplied(index, Box::new(Translation::done(*outcome)))
            }
            _ => Observation::Nothing,
        })
    }
}
