//! Fetches rows that a vote or a head needs at once during a fill. The core requests them from the
//! whole cover (R18).
//!
//! A unique index needs the rows with the key, a dense index the last row of the group, and a head
//! the row itself. The keys are held, or only the head asks for them. Changes by chains since the
//! place's epoch are already here. So the fetched rows are complete, whenever they arrive. A head
//! that finds no row records it as a departure of version 0.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use placement::{Constraint, prefix_end};
use protocol::codec::Bytes;
use protocol::identity::{ClockReading, OperationId, PartitionId, Position};
use protocol::message::{PeerMessage, RowPage};
use protocol::operation::OldRow;
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::member::{Member, MemberKey};
use crate::core::partition::rows;
use crate::core::repair::question_numbers::QuestionNumbers;
use crate::core::repair::source::CoverProgress;
use crate::core::step::Step;

/// Ranges that are requested in one pass. Later requests wait for the next pass, so that a member
/// goes through its rows once for all of them.
const PASS_RANGES_MAX: usize = 256;
/// Bytes of their prefixes.
const PASS_BYTES_MAX: usize = 64 << 10;

/// The rows that a partition needs at once during its fill.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// The fetches, by the prefix of the keys.
    ranges: BTreeMap<Vec<u8>, Fetch>,
    /// The passes: at most one at a time for each member of the cover.
    passes: BTreeMap<PartitionId, Pass>,
}

/// A fetch of the rows whose keys have one prefix.
#[derive(Debug)]
struct Fetch {
    number: u64,
    /// The operation that waits for the rows; none for requests in a head's queue.
    waiter: Option<OperationId>,
    /// Members of the cover that have not sent their rows.
    open: BTreeSet<PartitionId>,
    /// All rows with keys from here on are present already; none is the end of the prefix.
    end: Option<Bytes>,
    /// A member has sent only its last rows, from this key on.
    complete_from: Option<Bytes>,
}

/// One pass through the rows of a member.
#[derive(Debug)]
struct Pass {
    number: u64,
    /// The fetches, and what they ask for.
    fetches: Vec<(u64, Bytes, Option<Bytes>)>,
    source: CoverProgress,
}

impl Fetches {
    /// Starts again with a new cover.
    pub fn begin_again(&mut self, cover: &BTreeMap<PartitionId, CoverProgress>) {
        self.passes.clear();
        for fetch in self.ranges.values_mut() {
            fetch.open = open(cover);
            fetch.end = None;
            fetch.complete_from = None;
        }
    }

    /// Returns the progress of each member.
    pub fn sources(&mut self) -> impl Iterator<Item = (&PartitionId, &mut CoverProgress)> {
        self.passes
            .iter_mut()
            .map(|(id, pass)| (id, &mut pass.source))
    }

    /// Begins passes that are needed, and adds the requests that are due.
    pub fn ask(
        &mut self,
        (of, cover): (PartitionId, Option<&BTreeMap<PartitionId, CoverProgress>>),
        numbers: &mut QuestionNumbers,
        (now_us, retry_us): (u64, u64),
        asked: &mut Vec<(PartitionId, PeerMessage)>,
    ) {
        for from in cover.iter().flat_map(|cover| cover.keys().copied()) {
            let mut ranges = self.ranges.values();
            if !ranges.any(|fetch| fetch.open.contains(&from)) {
                continue;
            }
            let pass = self
                .passes
                .entry(from)
                .or_insert_with(|| Pass::new(numbers.next(), from, &self.ranges));
            if pass.source.due_us(retry_us).is_none_or(|due| due > now_us) {
                continue;
            }
            pass.source.timer.ask(now_us);
            let wanted = pass.fetches.iter();
            let wanted = wanted.map(|(_, prefix, end)| (prefix.clone(), end.clone()));
            let message = PeerMessage::Fetch {
                of,
                from,
                pass: pass.number,
                wanted: wanted.collect(),
                start: pass.source.next.clone().expect("it is due"),
            };
            asked.push((from, message));
        }
    }

    /// Notes a page whose rows are kept by now. Returns the ranges that all members have sent.
    fn take_page(
        &mut self,
        from: PartitionId,
        next: Option<Bytes>,
        complete_from: Vec<(Bytes, Bytes)>,
    ) -> Vec<Bytes> {
        let pass = self.passes.get_mut(&from).expect("callers know it");
        let numbers: BTreeSet<u64> = pass.fetches.iter().map(|(number, _, _)| *number).collect();
        for (prefix, key) in complete_from {
            if let Some(fetch) = self.ranges.get_mut(&*prefix)
                && numbers.contains(&fetch.number)
            {
                fetch.complete_from = fetch.complete_from.take().max(Some(key));
            }
        }
        if !pass.source.go_on(next) || pass.source.next.is_some() {
            return Vec::new();
        }
        let pass = self.passes.remove(&from).expect("it was just there");
        let mut complete = Vec::new();
        for (number, prefix, _) in pass.fetches {
            if let Some(fetch) = self.ranges.get_mut(&*prefix)
                && fetch.number == number
            {
                fetch.open.remove(&from);
                if fetch.open.is_empty() {
                    complete.push(prefix);
                }
            }
        }
        complete
    }
}

impl Pass {
    /// Returns a pass over the ranges that lack the rows of a member, as many as fit.
    fn new(number: u64, from: PartitionId, ranges: &BTreeMap<Vec<u8>, Fetch>) -> Pass {
        let mut bytes = 0;
        let open = ranges
            .iter()
            .filter(|(_, fetch)| fetch.open.contains(&from));
        let fitting = open.take_while(|(prefix, _)| {
            let is_first = bytes == 0;
            bytes += prefix.len() + 1;
            is_first || bytes <= PASS_BYTES_MAX
        });
        let fetches = fitting
            .map(|(prefix, fetch)| (fetch.number, Bytes::from(&prefix[..]), fetch.end.clone()));
        Pass {
            number,
            fetches: fetches.take(PASS_RANGES_MAX).collect(),
            source: CoverProgress::new(),
        }
    }
}

/// Returns members of a cover that have not given all of their rows.
fn open(cover: &BTreeMap<PartitionId, CoverProgress>) -> BTreeSet<PartitionId> {
    let open = cover.iter().filter(|(_, source)| source.next.is_some());
    open.map(|(id, _)| *id).collect()
}

impl CoreMachine {
    /// Returns whether an operation that holds its keys must wait for rows of the cover before its
    /// vote.
    pub(crate) fn fetches_for_vote(
        &mut self,
        now: ClockReading,
        key: MemberKey,
        output: &mut CoreOutput,
    ) -> bool {
        let Some(fill) = self.fills.get(&key.1) else {
            return false;
        };
        let member = &self.members[&key];
        if member.has_fetched || fill.has_all_rows() || planted::is(Bug::VoteWithoutFetch) {
            return false;
        }
        let prefixes = judged_keys(member);
        for prefix in &prefixes {
            self.fetch(now, key.1, prefix, Some(key.0), output);
        }
        !prefixes.is_empty()
    }

    /// Returns whether a head must wait for a row of the cover before it evaluates requests on it.
    pub(crate) fn fetches_for_head<T: Tables>(
        &mut self,
        id: PartitionId,
        pk: &[u8],
        step: &mut Step<'_, T>,
    ) -> Result<bool, TablesError> {
        let Some(fill) = self.fills.get(&id) else {
            return Ok(false);
        };
        let is_known = fill.has_all_rows()
            || planted::is(Bug::VoteWithoutFetch)
            || step.tables.read(id.rows_table(), pk, &mut |_| {})?
            || step.tables.read(id.departures_table(), pk, &mut |_| {})?;
        if !is_known {
            self.fetch(step.now, id, pk, None, step.output);
        }
        Ok(!is_known)
    }

    fn fetch(
        &mut self,
        now: ClockReading,
        of: PartitionId,
        prefix: &[u8],
        waiter: Option<OperationId>,
        output: &mut CoreOutput,
    ) {
        let fill = self.fills.get_mut(&of);
        let fill = fill.expect("callers know it to be filled");
        if let Some(fetch) = fill.fetches.ranges.get_mut(prefix) {
            fetch.waiter = waiter;
            return;
        }
        self.counters.fetches += 1;
        let fetch = Fetch {
            number: self.numbers.next(),
            waiter,
            open: fill.sources.as_ref().map(open).unwrap_or_default(),
            end: None,
            complete_from: None,
        };
        fill.fetches.ranges.insert(prefix.to_vec(), fetch);
        self.ask_fetches(now, of, output);
    }

    fn ask_fetches(&mut self, now: ClockReading, of: PartitionId, output: &mut CoreOutput) {
        let Some(fill) = self.fills.get_mut(&of) else {
            return;
        };
        let mut asked = Vec::new();
        let times = (now.monotonic_us, self.limits.retry_us);
        let numbers = &mut self.numbers;
        let cover = fill.sources.as_ref();
        fill.fetches.ask((of, cover), numbers, times, &mut asked);
        for (from, message) in asked {
            self.send(from, Position(0), message, output);
        }
    }

    /// Handles fetched rows.
    pub(crate) fn on_fetched<T: Tables>(
        &mut self,
        of: PartitionId,
        from: PartitionId,
        (pass, start): (u64, Bytes),
        (page, complete_from): (RowPage, Vec<(Bytes, Bytes)>),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let fill = self.fills.get(&of);
        let known = fill.and_then(|fill| fill.fetches.passes.get(&from));
        if !known.is_some_and(|known| known.number == pass && known.source.awaits(&start)) {
            return Ok(());
        }
        self.take_rows(of, &page, step)?;
        let fill = self.fills.get_mut(&of).expect("it was just there");
        let fetches = &mut fill.fetches;
        let mut ended = BTreeMap::new();
        for prefix in fetches.take_page(from, page.next, complete_from) {
            let fetch = fetches
                .ranges
                .get_mut(&*prefix)
                .expect("it was just listed");
            let complete_from = fetch.complete_from.take();
            if let Some(complete_from) = complete_from
                && !has_row(of, &complete_from, &prefix, step.tables)?
            {
                // The rows that were sent have departed since: the rows before are needed.
                fetch.end = Some(complete_from);
                fetch.open = fill.sources.as_ref().map(open).unwrap_or_default();
                continue;
            }
            let fetch = fetches.ranges.remove(&*prefix).expect("it was just there");
            ended.insert(prefix.0, fetch);
        }
        self.end_ranges(of, ended, step)?;
        self.ask_fetches(step.now, of, step.output);
        Ok(())
    }

    /// Ends all fetches of a partition, because no operation waits for them any more.
    pub(crate) fn end_fetches<T: Tables>(
        &mut self,
        of: PartitionId,
        fetches: Fetches,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.end_ranges(of, fetches.ranges, step)
    }

    /// Continues the operations that waited for these ranges, because all fetched rows have
    /// arrived.
    fn end_ranges<T: Tables>(
        &mut self,
        of: PartitionId,
        ended: BTreeMap<Vec<u8>, Fetch>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        for (prefix, fetch) in ended {
            let Some(operation) = fetch.waiter else {
                if self.is_rebuilding(of)
                    && !step.tables.read(of.rows_table(), &prefix, &mut |_| {})?
                {
                    rows::depart(of, &prefix, Default::default(), step.tables)?;
                }
                self.start_queue(of, &prefix, step)?;
                continue;
            };
            let waits = |fetch: &Fetch| fetch.waiter == Some(operation);
            let fill = self.fills.get(&of);
            if fill.is_some_and(|fill| fill.fetches.ranges.values().any(waits)) {
                continue;
            }
            let key = (operation, of);
            if let Some(member) = self.members.get_mut(&key) {
                member.has_fetched = true;
                self.wake(key, step)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a partition has a row from a key on that begins with the prefix.
fn has_row<T: Tables>(
    of: PartitionId,
    from: &Bytes,
    prefix: &Bytes,
    tables: &T,
) -> Result<bool, TablesError> {
    let mut has_row = false;
    let end = prefix_end(prefix);
    tables.scan(of.rows_table(), from, end.as_deref(), &mut |_, _| {
        has_row = true;
        ControlFlow::Break(())
    })?;
    Ok(has_row)
}

/// Returns the keys that the partition's constraint looks at to judge an operation. A row that
/// keeps its keys needs none: it has had them since it was judged.
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
