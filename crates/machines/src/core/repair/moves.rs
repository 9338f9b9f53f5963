//! The taker's part in a move: the core receives a partition from the core that has it
//! (`docs/reference/protocol-repair.md`, "Moving a partition").
//!
//! | the place | this core | the giver |
//! |---|---|---|
//! | serves, moves *to* this core | keeps its rows equal to the giver's | serves |
//! | rebuilds here, moved *from* the giver | takes the last changes, then votes | keeps its rows |
//! | serves here | serves | drops its rows |
//!
//! Invariants: A core that receives a partition is not a member of chains before it holds the
//! place. It casts no votes before the place is durably *whole*. While the place is not whole, its
//! rows are only a copy of the giver's, and may be compared again at any time. The received rows
//! are exact: one question is outstanding at a time, and its answer replaces the rows, whatever
//! their versions. So earlier rows, for example from an old disk, are only a hint (R25).

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::Durability;
use placement::tables::{Tables, TablesError};
use protocol::codec::Bytes;
use protocol::configuration::{MoveProgress, PlacedTable};
use protocol::identity::{ClockReading, CoreId, PartitionId, Position, TableId};
use protocol::message::{PeerMessage, Room, RowPage};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::member::MemberKey;
use crate::core::partition::rows::{Rows, stored_row, stored_value};
use crate::core::repair::sums::RangeSum;
use crate::core::repair::timer::RetryTimer;
use crate::core::step::Step;

/// The most rows of one compared range. The giver sends a range with a difference as a whole.
const RANGE_ROWS: usize = 64;
/// The number of ranges that fit into a page: a range exceeds its share of the page by one row at
/// most.
const RANGES_PER_PAGE: usize = 8;

/// How long a core that has all changes waits before it asks for more.
const FOLLOW_US: u64 = 20_000;

/// One partition that this core takes over.
#[derive(Debug)]
struct IncomingMove {
    /// The open question to the giver, and its number.
    question: (u64, PeerMessage),
    timer: RetryTimer,
    /// The core sends its next question to the giver no sooner than this.
    not_before_us: u64,
    /// The number of the giver's list, and how many of its changes have arrived.
    list: Option<(u64, u64)>,
    /// The key at which the comparison continues; none once everything was compared.
    compare_from: Option<Bytes>,
    stage: Stage,
    last_record: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The taker lacks rows.
    Behind,
    /// The taker had all rows when it last asked.
    Level,
    /// The taker is whole once its log is durable up to this position.
    Ending(Position),
}

/// The partitions that this core receives from others.
#[derive(Debug, Default)]
pub(crate) struct IncomingMoves(BTreeMap<PartitionId, IncomingMove>);

impl IncomingMoves {
    /// Drops a move, because a new tenure of the partition begins. A new move starts from the
    /// beginning.
    pub fn forget(&mut self, id: PartitionId) {
        self.0.remove(&id);
    }

    /// Returns whether the log has the record that a partition is whole, possibly not durable yet.
    pub fn is_ending(&self, id: PartitionId) -> bool {
        let taking = self.0.get(&id);
        taking.is_some_and(|taking| matches!(taking.stage, Stage::Ending(_)))
    }
}

impl CoreMachine {
    /// Returns whether this core holds a partition whose rows are incomplete. The result follows
    /// from the log alone, so replaying the log gives the same rows.
    pub(crate) fn is_not_whole(&self, id: PartitionId) -> bool {
        let place = self.view.place(id);
        let is_own = place.is_some_and(|place| place.core == self.identity.core);
        let is_whole = self.tenures.is_whole(id) || planted::is(Bug::PartialTaken);
        is_own && !is_whole
    }

    /// Reviews which partitions of these tables this core receives, because the tables have new
    /// epochs or this core has started. Begins new moves, and drops those that have ended.
    pub(crate) fn review_taking<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let own = Some(self.identity.core);
        let unsettled = self.view.configuration().tables.unsettled();
        let places = unsettled.flat_map(PlacedTable::places);
        let taken = places.filter(|(id, place)| {
            let follows =
                matches!(place.moving, Some(MoveProgress::To(_))) || self.is_not_whole(*id);
            place.taker() == own && follows
        });
        let taken: BTreeSet<PartitionId> = taken.map(|(id, _)| id).collect();
        self.takings.0.retain(|id, _| taken.contains(id));
        let takings = self.takings.0.iter_mut();
        for (_, taking) in takings.filter(|(id, _)| tables.contains(&id.table)) {
            // A partition that was level in another epoch asks once more.
            taking.stage = Stage::Behind;
            taking.timer.lose();
            taking.not_before_us = 0;
        }
        for id in taken.into_iter().filter(|id| tables.contains(&id.table)) {
            if !self.takings.0.contains_key(&id) {
                let text = format!("{id} moves here: it is compared with what there is");
                self.note(&text, step.output);
                self.restart_comparison(id, step.tables)?;
            }
        }
        Ok(())
    }

    /// Begins to compare a partition with its giver from the first row on.
    fn restart_comparison<T: Tables>(
        &mut self,
        of: PartitionId,
        tables: &T,
    ) -> Result<(), TablesError> {
        let compare_from = Bytes::default();
        let question = self.comparison(of, &compare_from, tables)?;
        let taking = IncomingMove {
            question,
            timer: RetryTimer::default(),
            not_before_us: 0,
            list: None,
            compare_from: Some(compare_from),
            stage: Stage::Behind,
            last_record: self
                .takings
                .0
                .get(&of)
                .map_or(Position(0), |it| it.last_record),
        };
        self.takings.0.insert(of, taking);
        Ok(())
    }

    /// Returns a question to the giver, with sums of the rows that this core has from `start` on.
    fn comparison<T: Tables>(
        &mut self,
        of: PartitionId,
        start: &Bytes,
        tables: &T,
    ) -> Result<(u64, PeerMessage), TablesError> {
        let keys_max = self.limits.fill_page_keys_max;
        let mut ranges = Vec::new();
        let range_bytes_max = self.limits.fill_page_bytes_max / RANGES_PER_PAGE;
        let (mut sum, mut in_range, mut bytes, mut keys) = (RangeSum::default(), 0, 0, 0);
        let mut goes_on = false;
        tables.scan(of.rows_table(), start, None, &mut |key, value| {
            goes_on = keys == keys_max;
            if in_range == RANGE_ROWS || bytes > range_bytes_max || goes_on {
                ranges.push((Some(Bytes::from(key)), sum.value()));
                (sum, in_range, bytes) = (RangeSum::default(), 0, 0);
            }
            if goes_on {
                return ControlFlow::Break(());
            }
            sum.add(key, value);
            (in_range, keys, bytes) = (in_range + 1, keys + 1, bytes + value.len());
            ControlFlow::Continue(())
        })?;
        if !goes_on {
            ranges.push((None, sum.value()));
        }
        let question = self.numbers.next();
        let start = start.clone();
        let message = PeerMessage::Compare {
            of,
            question,
            start,
            ranges,
        };
        Ok((question, message))
    }

    /// Sends requests to givers: new ones, and those that have had no answer for long. Returns the
    /// time of the next check.
    pub(crate) fn ask_givers(&mut self, now: ClockReading, output: &mut CoreOutput) -> Option<u64> {
        let (now_us, retry_us) = (now.monotonic_us, self.limits.retry_us);
        let mut due_us: Option<u64> = None;
        for (of, taking) in &mut self.takings.0 {
            if matches!(taking.stage, Stage::Ending(_)) || self.view.stands_still(of.table) {
                continue;
            }
            // A partition that was handed over lacks the last changes at most, and nothing serves
            // it without them. The reserve is for writes like these.
            let place = self.view.place(*of);
            let needed = match place.is_some_and(|place| place.core == self.identity.core) {
                true => Room::Reserve,
                false => Room::Free,
            };
            if self.space.own() > needed {
                // There will be space again, or the move is cancelled.
                due_us = Some(due_us.map_or(now_us + retry_us, |it| it.min(now_us + retry_us)));
                continue;
            }
            let next_us = taking.timer.due_us(retry_us).max(taking.not_before_us);
            let next_us = if next_us > now_us {
                next_us
            } else {
                taking.timer.ask(now_us);
                if let Some(to) = place.and_then(|place| place.giver()) {
                    output.sends.push(PeerSend {
                        to,
                        after: Position(0),
                        message: taking.question.1.clone(),
                    });
                }
                taking.timer.due_us(retry_us)
            };
            due_us = Some(due_us.map_or(next_us, |due_us| due_us.min(next_us)));
        }
        due_us
    }

    /// Asks a core again, because requests to it may be lost.
    pub(crate) fn ask_giver_again(&mut self, core: CoreId) {
        for (of, taking) in &mut self.takings.0 {
            let place = self.view.place(*of);
            if place.and_then(|place| place.giver()) == Some(core) {
                taking.timer.lose();
            }
        }
    }

    fn awaits(&self, of: PartitionId, question: u64) -> bool {
        let taking = self.takings.0.get(&of);
        taking.is_some_and(|taking| {
            taking.question.0 == question && !matches!(taking.stage, Stage::Ending(_))
        })
    }

    /// Handles the giver's answer with differing rows.
    pub(crate) fn on_compared<T: Tables>(
        &mut self,
        (of, question, (list, changes)): (PartitionId, u64, (u64, u64)),
        differing: Vec<(Bytes, Option<Bytes>)>,
        (page, looked_at_bytes): (RowPage, u64),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if !self.awaits(of, question) {
            return Ok(());
        }
        let now_us = step.now.monotonic_us;
        let round_us = self.takings.0[&of].timer.elapsed_us(now_us);
        self.throttle(step.now, round_us, looked_at_bytes, page.rows.len());
        let rows = self.entries(of, &page);
        let mut gone = Vec::new();
        for (start, end) in &differing {
            step.tables
                .scan(of.rows_table(), start, end.as_deref(), &mut |key, _| {
                    if !rows.contains_key(key) && !planted::is(Bug::StaleRowsKept) {
                        gone.push(Bytes::from(key));
                    }
                    ControlFlow::Continue(())
                })?;
        }
        self.match_rows(of, rows, gone, step)?;
        let not_before_us = self.fills.next_page_us();
        let taking = self.takings.0.get_mut(&of).expect("it awaits this");
        // Changes before the first question are in the compared rows.
        let (known, since) = taking.list.unwrap_or((list, changes));
        if known != list {
            return self.ask_all_again(of, step);
        }
        taking.list = Some((known, since));
        taking.compare_from = page.next;
        taking.not_before_us = not_before_us;
        self.ask_changes(of);
        self.ask_covers(step.now, step.output);
        Ok(())
    }

    /// Makes the next question to the giver a request for the rows that have changed.
    fn ask_changes(&mut self, of: PartitionId) {
        let question = self.numbers.next();
        let taking = self.takings.0.get_mut(&of).expect("callers know it");
        let (list, since) = taking.list.expect("it has compared something");
        taking.timer.end();
        taking.question = (
            question,
            PeerMessage::Changes {
                of,
                question,
                list,
                since,
            },
        );
    }

    fn ask_all_again<T: Tables>(
        &mut self,
        of: PartitionId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let text = format!("{of} is compared again: its giver has begun another list of changes");
        self.note(&text, step.output);
        self.restart_comparison(of, step.tables)?;
        self.ask_covers(step.now, step.output);
        Ok(())
    }

    /// Handles the giver's answer with changed rows.
    pub(crate) fn on_changed<T: Tables>(
        &mut self,
        (of, question, list): (PartitionId, u64, u64),
        (page, gone): (RowPage, Vec<Bytes>),
        (until, is_all): (u64, bool),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if !self.awaits(of, question) {
            return Ok(());
        }
        let known = self.takings.0[&of]
            .list
            .expect("it has compared something")
            .0;
        if known != list {
            return self.ask_all_again(of, step);
        }
        let rows = self.entries(of, &page);
        self.match_rows(of, rows, gone, step)?;
        let taking = self.takings.0.get_mut(&of).expect("it awaits this");
        taking.list = Some((list, until));
        match taking.compare_from.clone() {
            Some(start) => {
                let question = self.comparison(of, &start, step.tables)?;
                let taking = self.takings.0.get_mut(&of).expect("it awaits this");
                taking.question = question;
                taking.timer.end();
            }
            None => {
                let idle_us = if is_all { FOLLOW_US } else { 0 };
                taking.not_before_us = step.now.monotonic_us + idle_us;
                taking.stage = if is_all { Stage::Level } else { Stage::Behind };
                self.ask_changes(of);
                if is_all {
                    self.end_taking(of, step)?;
                }
            }
        }
        self.ask_covers(step.now, step.output);
        Ok(())
    }

    /// Logs that a partition is whole, if this core holds the place: the giver changes nothing any
    /// more, and this core has received everything.
    fn end_taking<T: Tables>(
        &mut self,
        of: PartitionId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if !self.is_not_whole(of) {
            return Ok(());
        }
        let record = Record::Whole { partition: of };
        let position = self.append(&record, Durability::Sync, step.output);
        let taking = self.takings.0.get_mut(&of).expect("callers know it");
        taking.stage = Stage::Ending(position);
        self.take_whole(step)
    }

    /// Marks a partition as whole once its last received row is durable. From then on the partition
    /// takes part in chains.
    pub(crate) fn take_whole<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let is_durable = |taking: &IncomingMove| match taking.stage {
            Stage::Ending(position) => self.log.is_durable(position),
            _ => false,
        };
        let whole = self
            .takings
            .0
            .iter()
            .filter(|(id, taking)| is_durable(taking) && !self.stands_still(id.table));
        let whole: Vec<PartitionId> = whole.map(|(id, _)| *id).collect();
        for id in whole {
            self.takings.0.remove(&id);
            self.tenures.note_whole(id);
            self.review_fill(step.now, id, step.output);
            self.try_end_fill(id, step)?;
            let members = self.members.keys().filter(|key| key.1 == id);
            let waiting: Vec<MemberKey> = members.copied().collect();
            for key in waiting {
                self.wake(key, step)?;
            }
        }
        Ok(())
    }

    /// Returns a page's rows by their keys.
    fn entries(&self, of: PartitionId, page: &RowPage) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let Some(partition) = self.partitions.with_rows(of) else {
            return BTreeMap::new();
        };
        let rows = page.rows();
        let entries = rows.filter_map(|(version, row)| {
            let key = partition.table.key_in(of, row)?;
            Some((key, stored_value(version, row)))
        });
        entries.collect()
    }

    /// Leaves out the received rows that the end of an epoch has changed at a place that is not
    /// whole. Its resolved operations are newer than the giver's rows. Each of them has recorded
    /// its row's key among the departures, whether it removed or added the row.
    fn leave_out_resolved<T: Tables>(
        &self,
        of: PartitionId,
        (rows, gone): (&mut BTreeMap<Vec<u8>, Vec<u8>>, &mut Vec<Bytes>),
        tables: &T,
    ) -> Result<(), TablesError> {
        if !self.is_not_whole(of) {
            return Ok(());
        }
        let mut resolved: BTreeSet<Vec<u8>> = BTreeSet::new();
        tables.scan(of.departures_table(), b"", None, &mut |key, _| {
            resolved.insert(key.to_vec());
            ControlFlow::Continue(())
        })?;
        rows.retain(|key, _| !resolved.contains(key));
        gone.retain(|key| !resolved.contains(&key[..]));
        Ok(())
    }

    /// Logs and stores the received rows that differ from the stored ones, and removes the rows
    /// that the giver no longer has.
    fn match_rows<T: Tables>(
        &mut self,
        of: PartitionId,
        mut rows: BTreeMap<Vec<u8>, Vec<u8>>,
        mut gone: Vec<Bytes>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let mut page = RowPage::default();
        if !planted::is(Bug::TakenOverResolved) {
            self.leave_out_resolved(of, (&mut rows, &mut gone), step.tables)?;
        }
        for (key, value) in &rows {
            let mut is_same = false;
            step.tables
                .read(of.rows_table(), key, &mut |known| is_same = known == value)?;
            if !is_same {
                let (version, row) = stored_row(value);
                page.push(version, row);
            }
        }
        if page.count == 0 && gone.is_empty() {
            return Ok(());
        }
        self.counters.matched_rows += page.count + gone.len() as u64;
        let record = Record::Matched {
            partition: of,
            rows: page.rows.clone(),
            gone: gone.clone(),
        };
        let position = self.append(&record, Durability::Replicated, step.output);
        self.put_matched(of, &page, &gone, step.tables)?;
        let taking = self.takings.0.get_mut(&of).expect("callers know it");
        taking.last_record = position;
        Ok(())
    }

    /// Stores the received rows in place of the range. Replaying a log does the same.
    pub(crate) fn put_matched<T: Tables>(
        &self,
        of: PartitionId,
        page: &RowPage,
        gone: &[Bytes],
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.partitions.with_rows(of) else {
            return Ok(());
        };
        let rows = Rows::of(partition);
        for (key, value) in self.entries(of, page) {
            let (version, row) = stored_row(&value);
            let new = rows.new_row(&key, version, Cow::Borrowed(row));
            rows.put_if(&new, tables, |_| true)?;
        }
        for key in gone {
            if let Some(stored) = rows.stored(key, tables)? {
                rows.remove(key, &stored, tables);
            }
        }
        Ok(())
    }

    /// Returns the partitions that can be handed over now: they lack only the last changes.
    pub(crate) fn level(&self) -> impl Iterator<Item = PartitionId> {
        let taking = self.takings.0.iter();
        let level = taking.filter(|(_, taking)| {
            taking.stage == Stage::Level && self.log.is_durable(taking.last_record)
        });
        level.map(|(id, _)| *id)
    }
}
