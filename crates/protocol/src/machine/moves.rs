//! Taking a partition over from the core that has it (`docs/protocol.md`, "Moving a partition").
//!
//! | the place | this core | the giver |
//! |---|---|---|
//! | serves, moves *to* this core | makes its rows equal to the giver's, and keeps them so | serves |
//! | is rebuilding here, moved *from* the giver | takes the last changes, then takes part in chains | keeps the rows as they were |
//! | serves here | serves | drops its rows |
//!
//! Invariants: a core that takes a partition is in no chain before it holds the place, and votes
//! on nothing before it is *whole*, durably: until then its rows are only what it had of the giver,
//! and may be compared again at any time. What it is told is exact: one question is under way at a
//! time, and its answer replaces what is here, whatever the versions. So what was here before, from
//! an old disk maybe, is a hint and no more (SAFETY R25).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::Durability;
use placement::tables::{Tables, TablesError};

use super::asked::Asked;
use super::fill::entry_of;
use super::move_source::Sum;
use super::rows::{Rows, stored_row, stored_value};
use super::{CoreMachine, MemberKey, Output};
use crate::codec::Bytes;
use crate::configuration::Moving;
use crate::identity::{CoreId, Epoch, Now, PartitionId, Position};
use crate::message::{PeerMessage, RowPage};
use crate::planted::{self, Bug};
use crate::record::Record;

/// Rows of one range that is compared: what differs in one of them is sent whole.
const RANGE_ROWS: usize = 64;
/// A range takes no more than this part of a page, one row aside: several fit.
const RANGES_PER_PAGE: usize = 8;

/// How long a core that has all changes waits before it asks for more.
const FOLLOW_US: u64 = 20_000;

/// What this core has of a partition by its own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// The epoch that gave it the partition.
    pub since: Epoch,
    /// It has had all of its giver's rows since its place's epoch began, or takes it from nobody.
    pub is_whole: bool,
}

/// One partition that this core takes over.
#[derive(Debug)]
pub(super) struct Taking {
    /// What is asked until it is answered, and its number.
    question: (u64, PeerMessage),
    asked: Asked,
    /// It is asked no sooner.
    not_before_us: u64,
    /// The giver's list, and how many of its changes are here.
    list: Option<(u64, u64)>,
    /// Where to go on comparing; none once everything was.
    compare_from: Option<Bytes>,
    stage: Stage,
    last_record: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It lacks something.
    Behind,
    /// When it last asked, there was nothing that it had not.
    Level,
    /// It is whole once its log is durable up to here.
    Ending(Position),
}

impl CoreMachine {
    /// Whether this core holds a partition in whose rows it cannot trust yet. The log alone says so,
    /// so that reading it again gives the same rows.
    pub(super) fn is_not_whole(&self, id: PartitionId) -> bool {
        let place = self.configuration.place(id);
        let is_own = place.is_some_and(|place| place.core == self.identity.core);
        let held = self.held.get(&id);
        let is_whole = held.is_none_or(|held| held.is_whole) || planted::is(Bug::PartialTaken);
        is_own && !is_whole
    }

    /// The configuration is new, or the core has started: follows whoever gives it partitions now.
    pub(super) fn review_taking<T: Tables>(
        &mut self,
        tables: &T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let own = Some(self.identity.core);
        let places = self.configuration.places();
        let taken = places.filter(|(id, place)| {
            let follows = matches!(place.moving, Some(Moving::To(_))) || self.is_not_whole(*id);
            place.taker() == own && follows
        });
        let taken: BTreeSet<PartitionId> = taken.map(|(id, _)| id).collect();
        self.taking.retain(|id, _| taken.contains(id));
        for taking in self.taking.values_mut() {
            // What was level in another epoch is asked once more.
            taking.stage = Stage::Behind;
            taking.asked.lose();
            taking.not_before_us = 0;
        }
        for id in taken {
            if !self.taking.contains_key(&id) {
                let text = format!("{id} moves here: it is compared with what there is");
                self.note(&text, output);
                self.compare_anew(id, tables)?;
            }
        }
        Ok(())
    }

    /// What cores say to each other about a move.
    pub(super) fn on_move_message<T: Tables>(
        &mut self,
        now: Now,
        peer: CoreId,
        message: PeerMessage,
        (tables, output): (&mut T, &mut Output),
    ) -> Result<(), TablesError> {
        match message {
            PeerMessage::Compare {
                of,
                question,
                start,
                ranges,
            } => self.on_compare(peer, (of, question), (start, ranges), (tables, output)),
            PeerMessage::Compared {
                of,
                question,
                list,
                changes,
                differing,
                page,
                looked_at_bytes,
            } => {
                self.throttle(now, looked_at_bytes, page.rows.len());
                let about = (of, question, (list, changes));
                self.on_compared(now, about, (differing, page), (tables, output))
            }
            PeerMessage::Changes {
                of,
                question,
                list,
                since,
            } => self.on_changes(peer, (of, question), (list, since), (tables, output)),
            PeerMessage::Changed {
                of,
                question,
                list,
                page,
                gone,
                until,
                is_all,
            } => {
                let (about, told) = ((of, question, list), (page, gone));
                self.on_changed(now, about, told, (until, is_all), (tables, output))
            }
            _ => unreachable!("everything else is handled where it belongs"),
        }
    }

    /// Begins to compare from the first row on.
    fn compare_anew<T: Tables>(&mut self, of: PartitionId, tables: &T) -> Result<(), TablesError> {
        let compare_from = Bytes::default();
        let question = self.comparison(of, &compare_from, tables)?;
        let taking = Taking {
            question,
            asked: Asked::default(),
            not_before_us: 0,
            list: None,
            compare_from: Some(compare_from),
            stage: Stage::Behind,
            last_record: self
                .taking
                .get(&of)
                .map_or(Position(0), |it| it.last_record),
        };
        self.taking.insert(of, taking);
        Ok(())
    }

    /// What this core has from `start` on, as a question.
    fn comparison<T: Tables>(
        &mut self,
        of: PartitionId,
        start: &Bytes,
        tables: &T,
    ) -> Result<(u64, PeerMessage), TablesError> {
        let keys_max = self.limits.fill_page_keys_max;
        let mut ranges = Vec::new();
        let range_bytes_max = self.limits.fill_page_bytes_max / RANGES_PER_PAGE;
        let (mut sum, mut in_range, mut bytes, mut keys) = (Sum::default(), 0, 0, 0);
        let mut goes_on = false;
        tables.scan(of.rows_table(), start, None, &mut |key, value| {
            goes_on = keys == keys_max;
            if in_range == RANGE_ROWS || bytes > range_bytes_max || goes_on {
                ranges.push((Some(Bytes::from(key)), sum.value()));
                (sum, in_range, bytes) = (Sum::default(), 0, 0);
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
        let question = self.next_question();
        let start = start.clone();
        let message = PeerMessage::Compare {
            of,
            question,
            start,
            ranges,
        };
        Ok((question, message))
    }

    fn next_question(&mut self) -> u64 {
        self.fills.next_number += 1;
        self.fills.next_number
    }

    /// Asks givers for what they have not answered for long, or were not asked for yet; returns when
    /// to look again.
    pub(super) fn ask_givers(&mut self, now: Now, output: &mut Output) -> Option<u64> {
        let (now_us, retry_us) = (now.monotonic_us, self.limits.retry_us);
        let mut due_us: Option<u64> = None;
        if !self.admits && !self.taking.is_empty() {
            // There will be space again.
            return Some(now_us + retry_us);
        }
        for (of, taking) in &mut self.taking {
            if matches!(taking.stage, Stage::Ending(_)) {
                continue;
            }
            let next_us = taking.asked.due_us(retry_us).max(taking.not_before_us);
            let next_us = if next_us > now_us {
                next_us
            } else {
                taking.asked.ask(now_us);
                let place = self.configuration.place(*of);
                if let Some(to) = place.and_then(|place| place.giver()) {
                    output.sends.push(super::Send {
                        to,
                        after: Position(0),
                        message: taking.question.1.clone(),
                    });
                }
                taking.asked.due_us(retry_us)
            };
            due_us = Some(due_us.map_or(next_us, |due_us| due_us.min(next_us)));
        }
        due_us
    }

    /// What was asked of a core may be lost: it is asked again.
    pub(super) fn ask_giver_again(&mut self, core: CoreId) {
        for (of, taking) in &mut self.taking {
            let place = self.configuration.place(*of);
            if place.and_then(|place| place.giver()) == Some(core) {
                taking.asked.lose();
            }
        }
    }

    fn awaits(&self, of: PartitionId, question: u64) -> bool {
        let taking = self.taking.get(&of);
        taking.is_some_and(|taking| {
            taking.question.0 == question && !matches!(taking.stage, Stage::Ending(_))
        })
    }

    /// The giver has told where its rows differ.
    pub(super) fn on_compared<T: Tables>(
        &mut self,
        now: Now,
        (of, question, (list, changes)): (PartitionId, u64, (u64, u64)),
        (differing, page): (Vec<(Bytes, Option<Bytes>)>, RowPage),
        (tables, output): (&mut T, &mut Output),
    ) -> Result<(), TablesError> {
        if !self.awaits(of, question) {
            return Ok(());
        }
        let rows = self.entries(of, &page);
        let mut gone = Vec::new();
        for (start, end) in &differing {
            tables.scan(of.rows_table(), start, end.as_deref(), &mut |key, _| {
                if !rows.contains_key(key) && !planted::is(Bug::StaleRowsKept) {
                    gone.push(Bytes::from(key));
                }
                ControlFlow::Continue(())
            })?;
        }
        self.match_rows(of, rows, gone, tables, output)?;
        let not_before_us = self.fills.next_page_us;
        let taking = self.taking.get_mut(&of).expect("it awaits this");
        // What changed before the first question is in what was compared.
        let (known, since) = taking.list.unwrap_or((list, changes));
        if known != list {
            return self.ask_all_anew(now, of, tables, output);
        }
        taking.list = Some((known, since));
        taking.compare_from = page.next;
        taking.not_before_us = not_before_us;
        self.ask_changes(of);
        self.ask_covers(now, output);
        Ok(())
    }

    /// The next question is what has changed.
    fn ask_changes(&mut self, of: PartitionId) {
        let question = self.next_question();
        let taking = self.taking.get_mut(&of).expect("callers know it");
        let (list, since) = taking.list.expect("it has compared something");
        taking.asked.end();
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

    fn ask_all_anew<T: Tables>(
        &mut self,
        now: Now,
        of: PartitionId,
        tables: &T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let text = format!("{of} is compared again: its giver has begun another list of changes");
        self.note(&text, output);
        self.compare_anew(of, tables)?;
        self.ask_covers(now, output);
        Ok(())
    }

    /// The giver has told what has changed.
    pub(super) fn on_changed<T: Tables>(
        &mut self,
        now: Now,
        (of, question, list): (PartitionId, u64, u64),
        (page, gone): (RowPage, Vec<Bytes>),
        (until, is_all): (u64, bool),
        (tables, output): (&mut T, &mut Output),
    ) -> Result<(), TablesError> {
        if !self.awaits(of, question) {
            return Ok(());
        }
        let known = self.taking[&of].list.expect("it has compared something").0;
        if known != list {
            return self.ask_all_anew(now, of, tables, output);
        }
        let rows = self.entries(of, &page);
        self.match_rows(of, rows, gone, tables, output)?;
        let taking = self.taking.get_mut(&of).expect("it awaits this");
        taking.list = Some((list, until));
        match taking.compare_from.clone() {
            Some(start) => {
                let question = self.comparison(of, &start, tables)?;
                let taking = self.taking.get_mut(&of).expect("it awaits this");
                taking.question = question;
                taking.asked.end();
            }
            None => {
                let idle_us = if is_all { FOLLOW_US } else { 0 };
                taking.not_before_us = now.monotonic_us + idle_us;
                taking.stage = if is_all { Stage::Level } else { Stage::Behind };
                self.ask_changes(of);
                if is_all {
                    self.end_taking(now, of, tables, output)?;
                }
            }
        }
        self.ask_covers(now, output);
        Ok(())
    }

    /// Nothing is missing. If the place is here, the giver changes nothing any more: it is whole.
    fn end_taking<T: Tables>(
        &mut self,
        now: Now,
        of: PartitionId,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if !self.is_not_whole(of) {
            return Ok(());
        }
        let record = Record::Whole { partition: of };
        let position = self.log(&record, Durability::Sync, output);
        let taking = self.taking.get_mut(&of).expect("callers know it");
        taking.stage = Stage::Ending(position);
        self.take_whole(now, tables, output)
    }

    /// Partitions whose last rows are durable by now take part in chains.
    pub(super) fn take_whole<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let is_durable = |taking: &Taking| match taking.stage {
            Stage::Ending(position) => position <= self.durable,
            _ => false,
        };
        let whole = self.taking.iter().filter(|(_, taking)| is_durable(taking));
        let whole: Vec<PartitionId> = whole.map(|(id, _)| *id).collect();
        for id in whole {
            self.taking.remove(&id);
            self.note_whole(id);
            self.review_fill(now, id, output);
            self.try_end_fill(now, id, tables, output)?;
            let members = self.members.keys().filter(|key| key.1 == id);
            let waiting: Vec<MemberKey> = members.copied().collect();
            for key in waiting {
                self.wake(now, key, tables, output)?;
            }
        }
        Ok(())
    }

    /// Whether the log has that a partition is whole, though it may not be durable yet.
    pub(super) fn logged_whole(&self, id: PartitionId) -> bool {
        let taking = self.taking.get(&id);
        taking.is_some_and(|taking| matches!(taking.stage, Stage::Ending(_)))
    }

    /// The log has, or had, that a partition is whole.
    pub(super) fn note_whole(&mut self, id: PartitionId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.is_whole = true;
        }
    }

    /// A page's rows by their keys.
    fn entries(&self, of: PartitionId, page: &RowPage) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let Some(partition) = self.part(of) else {
            return BTreeMap::new();
        };
        let rows = page.rows();
        let entries = rows.filter_map(|(version, row)| {
            let key = entry_of(&partition.table, of, row)?;
            Some((key, stored_value(version, row)))
        });
        entries.collect()
    }

    /// What the end of an epoch decided for a place that is not whole is newer than what its giver
    /// has: it has been noted among the departures, whether a row went with it or came.
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

    /// Makes rows as they are told, and logs it.
    fn match_rows<T: Tables>(
        &mut self,
        of: PartitionId,
        mut rows: BTreeMap<Vec<u8>, Vec<u8>>,
        mut gone: Vec<Bytes>,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let mut page = RowPage::default();
        if !planted::is(Bug::TakenOverResolved) {
            self.leave_out_resolved(of, (&mut rows, &mut gone), tables)?;
        }
        for (key, value) in &rows {
            let mut is_same = false;
            tables.read(of.rows_table(), key, &mut |known| is_same = known == value)?;
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
        let position = self.log(&record, Durability::Replicated, output);
        self.put_matched(of, &page, &gone, tables)?;
        let taking = self.taking.get_mut(&of).expect("callers know it");
        taking.last_record = position;
        Ok(())
    }

    /// Puts rows as they were told; also what replaying a log does.
    pub(super) fn put_matched<T: Tables>(
        &self,
        of: PartitionId,
        page: &RowPage,
        gone: &[Bytes],
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.part(of) else {
            return Ok(());
        };
        let rows = Rows::of(partition);
        for (key, value) in self.entries(of, page) {
            let stored = rows.stored(&key, tables)?;
            rows.put(&key, stored_row(&value), stored.as_ref(), tables);
        }
        for key in gone {
            if let Some(stored) = rows.stored(key, tables)? {
                rows.remove(key, &stored, tables);
            }
        }
        Ok(())
    }

    /// Partitions that can be taken over now: what is missing are the last changes.
    pub(super) fn level(&self) -> impl Iterator<Item = PartitionId> {
        let taking = self.taking.iter();
        let level = taking.filter(|(_, taking)| {
            taking.stage == Stage::Level && taking.last_record <= self.durable
        });
        level.map(|(id, _)| *id)
    }
}
