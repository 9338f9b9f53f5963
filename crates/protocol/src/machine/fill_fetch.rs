//! What a vote or a head of a partition that is being filled cannot wait for: it asks the whole
//! cover for it (SAFETY R18).
//!
//! A unique index needs the rows with the key, a dense one the last row of the group, the head the
//! row itself. The keys are held, or asked for by the head alone, and what chains changed since the
//! place began is here: so what comes together with that is all there is, whenever it comes. A head
//! that finds no row remembers it as a departure of version 0.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use placement::{Constraint, prefix_end};

use super::fill::Source;
use super::{CoreMachine, Member, MemberKey, Output};
use crate::codec::Bytes;
use crate::identity::{Now, OperationId, PartitionId, Position};
use crate::message::{PeerMessage, RowPage};
use crate::operation::OldRow;
use crate::planted::{self, Bug};

/// Rows that are asked for by the beginning of their keys.
#[derive(Debug, Default)]
pub(super) struct Fetch {
    /// The operation that waits; a head's requests wait in their queue.
    waiter: Option<OperationId>,
    /// Members of the cover that have not given all rows yet.
    pub sources: BTreeMap<PartitionId, Source>,
    /// Keys from here on are known to be here already; none is the end of all with the prefix.
    end: Option<Bytes>,
    /// A member has told its last rows only, from here on.
    told_from: Option<Vec<u8>>,
}

impl Fetch {
    /// Begins, again after the cover has changed.
    pub fn begin(&mut self, cover: &BTreeMap<PartitionId, Source>) {
        let open = cover.iter().filter(|(_, source)| source.next.is_some());
        self.sources = open.map(|(id, _)| (*id, Source::new())).collect();
        self.end = None;
        self.told_from = None;
    }

    /// Adds the questions that are due.
    pub fn ask(
        &mut self,
        of: PartitionId,
        prefix: &[u8],
        (now_us, retry_us): (u64, u64),
        asked: &mut Vec<(PartitionId, PeerMessage)>,
    ) {
        for (from, source) in &mut self.sources {
            if source.due_us(retry_us).is_none_or(|due| due > now_us) {
                continue;
            }
            source.asked_us = Some(now_us);
            let message = PeerMessage::Fetch {
                of,
                from: *from,
                prefix: prefix.into(),
                end: self.end.clone(),
                start: source.next.clone().expect("it is due"),
            };
            asked.push((*from, message));
        }
    }
}

impl CoreMachine {
    /// Whether an operation that holds its keys has to wait for rows of the cover before the vote.
    pub(super) fn fetches_for_vote(
        &mut self,
        now: Now,
        key: MemberKey,
        output: &mut Output,
    ) -> bool {
        let Some(fill) = self.fills.partitions.get(&key.1) else {
            return false;
        };
        let member = &self.members[&key];
        if member.has_fetched || fill.has_all_rows() || planted::is(Bug::VoteWithoutFetch) {
            return false;
        }
        let prefixes = judged_keys(member);
        for prefix in &prefixes {
            self.fetch(now, (key.1, prefix), Some(key.0), output);
        }
        !prefixes.is_empty()
    }

    /// Whether a head has to wait for a row of the cover before it evaluates requests on it.
    pub(super) fn fetches_for_head<T: Tables>(
        &mut self,
        now: Now,
        (id, pk): (PartitionId, &[u8]),
        tables: &T,
        output: &mut Output,
    ) -> Result<bool, TablesError> {
        let Some(fill) = self.fills.partitions.get(&id) else {
            return Ok(false);
        };
        let is_known = fill.has_all_rows()
            || planted::is(Bug::VoteWithoutFetch)
            || tables.read(id.rows_table(), pk, &mut |_| {})?
            || tables.read(id.departures_table(), pk, &mut |_| {})?;
        if !is_known {
            self.fetch(now, (id, pk), None, output);
        }
        Ok(!is_known)
    }

    fn fetch(
        &mut self,
        now: Now,
        (of, prefix): (PartitionId, &[u8]),
        waiter: Option<OperationId>,
        output: &mut Output,
    ) {
        let fill = self.fills.partitions.get_mut(&of);
        let fill = fill.expect("callers know it to be filled");
        let known = fill.fetches.contains_key(prefix);
        let fetch = fill.fetches.entry(prefix.to_vec()).or_default();
        fetch.waiter = waiter;
        if known {
            return;
        }
        self.counters.fetches += 1;
        if let Some(sources) = &fill.sources {
            fetch.begin(sources);
        }
        let mut asked = Vec::new();
        let times = (now.monotonic_us, self.limits.retry_us);
        fetch.ask(of, prefix, times, &mut asked);
        for (from, message) in asked {
            self.send(from, Position(0), message, output);
        }
    }

    /// Rows have come.
    pub(super) fn on_fetched<T: Tables>(
        &mut self,
        now: Now,
        (of, from): (PartitionId, PartitionId),
        (prefix, end): (Bytes, Option<Bytes>),
        (start, page, left_out): (Bytes, RowPage, bool),
        (tables, output): (&mut T, &mut Output),
    ) -> Result<(), TablesError> {
        let fills = &mut self.fills.partitions;
        let fetch = fills
            .get_mut(&of)
            .and_then(|fill| fill.fetches.get(&*prefix));
        let is_awaited = fetch.is_some_and(|fetch| {
            let source = fetch.sources.get(&from);
            fetch.end == end && source.is_some_and(|source| source.awaits(&start))
        });
        if !is_awaited {
            return Ok(());
        }
        let keys = self.take_rows(of, &page, tables, output)?;
        let fill = self
            .fills
            .partitions
            .get_mut(&of)
            .expect("it was just there");
        let fetch = fill.fetches.get_mut(&*prefix).expect("it was just there");
        if left_out {
            fetch.told_from = fetch.told_from.take().max(keys.into_iter().min());
        }
        let source = fetch.sources.get_mut(&from).expect("it was just there");
        source.go_on(page.next);
        let has_heard_all = fetch.sources.values().all(|source| source.next.is_none());
        if has_heard_all {
            return self.end_round(now, (of, &prefix), tables, output);
        }
        let mut asked = Vec::new();
        fetch.ask(
            of,
            &prefix,
            (now.monotonic_us, self.limits.retry_us),
            &mut asked,
        );
        for (from, message) in asked {
            self.send(from, Position(0), message, output);
        }
        Ok(())
    }

    /// All members have told what they have up to `told_from`. If nothing of that is left, because
    /// it has departed since, the rows before are needed.
    fn end_round<T: Tables>(
        &mut self,
        now: Now,
        (of, prefix): (PartitionId, &Bytes),
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let fill = self.fills.partitions.get_mut(&of).expect("it has a fetch");
        let fetch = fill
            .fetches
            .get_mut(&**prefix)
            .expect("it has ended a round");
        if let Some(from) = fetch.told_from.take() {
            let mut is_left = false;
            let end = prefix_end(prefix);
            tables.scan(of.rows_table(), &from, end.as_deref(), &mut |_, _| {
                is_left = true;
                ControlFlow::Break(())
            })?;
            if !is_left {
                for source in fetch.sources.values_mut() {
                    *source = Source::new();
                }
                fetch.end = Some(from.into());
                self.ask_covers(now, output);
                return Ok(());
            }
        }
        let fetch = fill.fetches.remove(&**prefix).expect("it was just there");
        let ended = BTreeMap::from([(prefix.to_vec(), fetch)]);
        self.end_fetches(now, of, ended, tables, output)
    }

    /// What was fetched is here: whoever waited for it goes on.
    pub(super) fn end_fetches<T: Tables>(
        &mut self,
        now: Now,
        of: PartitionId,
        ended: BTreeMap<Vec<u8>, Fetch>,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        for (prefix, fetch) in ended {
            let Some(operation) = fetch.waiter else {
                if self.is_rebuilding(of) && !tables.read(of.rows_table(), &prefix, &mut |_| {})? {
                    super::settle::depart(of, &prefix, Default::default(), tables)?;
                }
                self.start_queue(now, of, &prefix, tables, output)?;
                continue;
            };
            let waits = |fetch: &Fetch| fetch.waiter == Some(operation);
            let fill = self.fills.partitions.get(&of);
            if fill.is_some_and(|fill| fill.fetches.values().any(waits)) {
                continue;
            }
            let key = (operation, of);
            if let Some(member) = self.members.get_mut(&key) {
                member.has_fetched = true;
                self.wake(now, key, tables, output)?;
            }
        }
        Ok(())
    }
}

/// The keys that the partition's constraint looks at to judge an operation. A row that keeps its
/// keys needs none: it has had them since it was judged.
fn judged_keys(member: &Member) -> Vec<Vec<u8>> {
    let table = &member.table;
    let replex = usize::from(member.partition().replex);
    let Some(constraint) = table.replexes[replex].constraint else {
        return Vec::new();
    };
    let mut keys = Vec::new();
    for (change, effect) in member.prepare.changes.iter().zip(&member.effects) {
        if matches!(change.old, OldRow::SameKeys { .. }) {
            continue;
        }
        let old = table.old_row(change);
        let old = old.filter(|_| effect.remove.is_some() && constraint == Constraint::Dense);
        let new = table.new_row(change).filter(|_| effect.put.is_some());
        let rows = [old, new];
        let judged = rows.iter().flatten();
        keys.extend(judged.filter_map(|row| table.constrained_key(replex, row)));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}
