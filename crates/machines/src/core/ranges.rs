//! Watches the ranges of copies and thin indexes that this core holds (R49).
//!
//! It reports ranges with many entries or many requests to the coordinator, each with the key at
//! which it should be split, and ranges with few of both, which may be merged. It also removes the
//! entries of ranges that other partitions have received. Such entries answer no read, because a
//! read is limited to the range of its partition.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use protocol::codec::Bytes;
use protocol::configuration::PartitionState;
use protocol::identity::{ClockReading, PartitionId, TableId};
use protocol::message::{RANGE_REPORTS_MAX, RangeReport, Read};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::key::Key;
use crate::core::partition::rows::Rows;
use crate::core::range_load::{LAST_KEY, RangeLoad, SMALL_SHARE};
use crate::core::step::Step;

/// The pause between two parts of the work, so that the core has time for requests.
const PAUSE_US: u64 = 2_000;

/// The state of the ranges of this core.
#[derive(Debug, Default)]
pub(crate) struct RangeWatch {
    /// The time of the next part of the work; none while this core holds no range.
    due_us: Option<u64>,
    held: BTreeSet<PartitionId>,
    loads: BTreeMap<PartitionId, RangeLoad>,
    /// Searches for the keys at which ranges should be split.
    searches: BTreeMap<PartitionId, Search>,
    reports: BTreeMap<PartitionId, RangeReport>,
}

/// A search for the key in the middle of a range.
#[derive(Debug)]
struct Search {
    /// The approximate number of entries when the search began.
    about: u64,
    /// The key at which the search continues; none once all entries were counted, and are too few.
    next: Option<Vec<u8>>,
    /// The number of entries before `next`.
    passed: u64,
    /// The number of entries that the lower half gets.
    middle: u64,
}

impl RangeWatch {
    /// Returns the time of the next part of the work.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Returns the reports on ranges that should be split or may be merged.
    pub fn reports(&self) -> Vec<RangeReport> {
        let reports = self.reports.values().take(RANGE_REPORTS_MAX);
        reports.cloned().collect()
    }

    /// Counts a read of a range of this core: for each of its keys, or for the key at which it
    /// begins.
    pub fn note_read(&mut self, read: &Read) {
        let Some(load) = self.loads.get_mut(&read.partition) else {
            return;
        };
        let begins_at = match (&read.end, read.descending) {
            (Some(end), true) => &end[..],
            (None, true) => LAST_KEY,
            _ => &read.start,
        };
        match read.keys.is_empty() {
            true => load.note(begins_at),
            false => read.keys.iter().for_each(|key| load.note(key)),
        }
    }

    /// Counts a change of entries of a range of this core.
    pub fn note_change(&mut self, id: PartitionId, keys: &[Key]) {
        if let Some(load) = self.loads.get_mut(&id) {
            keys.iter().for_each(|key| load.note(key));
        }
    }

    fn forget(&mut self, id: PartitionId) {
        self.searches.remove(&id);
        self.reports.remove(&id);
    }
}

impl CoreMachine {
    /// Reviews which ranges of these tables this core holds, because the tables have new epochs or
    /// the core has started. Their ranges can be others, so it begins again.
    pub(crate) fn review_ranges(&mut self, now: ClockReading, tables: &BTreeSet<TableId>) {
        let ranges = &mut self.ranges;
        let before = ranges.held.extract_if(.., |id| tables.contains(&id.table));
        for id in before.collect::<Vec<PartitionId>>() {
            if !planted::is(Bug::OldReportKept) {
                ranges.forget(id);
            }
            if let Some(load) = ranges.loads.get_mut(&id) {
                load.restart(now);
            }
        }
        let partitions = self.partitions.keys_of(tables);
        let ranged = partitions.filter(|id| self.partitions[id].table.is_ranged(**id));
        ranges.held.extend(ranged);
        ranges.loads.retain(|id, _| ranges.held.contains(id));
        ranges.due_us = match ranges.held.is_empty() {
            true => None,
            false => Some(ranges.due_us.unwrap_or(0)),
        };
    }

    /// Does the next part of the work at each range.
    pub(crate) fn watch_ranges<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let mut is_done = true;
        for id in self.ranges.held.clone() {
            is_done &= self.watch_range(step.now, id, step.tables)?;
        }
        let pause_us = match is_done {
            true => self.limits.heartbeat_us,
            false => PAUSE_US,
        };
        self.ranges.due_us = Some(step.now.monotonic_us + pause_us);
        Ok(())
    }

    /// Does the next part of the work at one range. Returns whether nothing is left to do now.
    fn watch_range<T: Tables>(
        &mut self,
        now: ClockReading,
        id: PartitionId,
        tables: &mut T,
    ) -> Result<bool, TablesError> {
        let place = self.view.place(id);
        let serves = place.is_some_and(|place| place.state == PartitionState::Serving);
        let table = &self.partitions[&id].table;
        let replex = &table.layout.replexes[usize::from(id.replex)];
        let ranges = replex.ranges.as_ref().expect("it is a range");
        let is_transferring = ranges.is_transferring(id.number) && !planted::is(Bug::SweptTooEarly);
        if !serves || self.stands_still(id.table) || is_transferring {
            self.ranges.forget(id);
            return Ok(true);
        }
        let range = ranges.of(id.number);
        let range = range.map(|(start, end)| (start.to_vec(), end.map(<[u8]>::to_vec)));
        let has_neighbours = ranges.starts.len() > 1;
        let is_swept = self.sweep(id, range.as_ref(), tables)?;
        let Some((start, end)) = range else {
            self.ranges.forget(id);
            return Ok(is_swept);
        };
        if !is_swept {
            return Ok(false);
        }
        let load = self.ranges.loads.entry(id);
        let load = load.or_insert_with(|| RangeLoad::new(now));
        load.review(now, &self.limits, (&start, end.as_deref()));
        let is_calm = load.is_calm(now, &self.limits);
        let busy_at = load.split_at().map(<[u8]>::to_vec);
        let Some(entries) = self.count_entries(id, tables)? else {
            self.ranges.forget(id);
            return Ok(true);
        };
        let most = self.limits.range_entries_max;
        if entries < most {
            self.ranges.forget(id);
            if let Some(key) = busy_at {
                // Requests name keys that no entry has, and ranges start at keys of entries.
                let first = tables.first_key(id.rows_table(), &key, end.as_deref())?;
                if let Some(key) = first {
                    self.report_range(id, entries, Some(key.into()));
                }
            } else if has_neighbours && is_calm && entries < most / SMALL_SHARE {
                self.report_range(id, entries, None);
            }
            return Ok(true);
        }
        if self.ranges.reports.contains_key(&id) {
            return Ok(true);
        }
        self.search_middle(id, (start, end), entries, tables)
    }

    /// Reports a range to the coordinator with the next heartbeats.
    fn report_range(&mut self, partition: PartitionId, entries: u64, split_at: Option<Bytes>) {
        let load = self.ranges.loads.get(&partition);
        let report = RangeReport {
            partition,
            entries,
            requests: load.map_or(0, RangeLoad::rate),
            split_at,
        };
        self.ranges.reports.insert(partition, report);
    }

    /// Returns the approximate number of a partition's entries. Returns none if it is not known, as
    /// after a start with entries that are not in memory: a large range must not count as small.
    fn count_entries<T: Tables>(
        &self,
        id: PartitionId,
        tables: &T,
    ) -> Result<Option<u64>, TablesError> {
        let about = tables.entries_about(id.rows_table());
        if about > 0 {
            return Ok(Some(about));
        }
        let most = self.limits.entry_page_max as u64;
        let mut counted = 0;
        tables.scan(id.rows_table(), b"", None, &mut |_, _| {
            counted += 1;
            match counted < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok((counted < most).then_some(counted))
    }

    /// Removes some of the entries that are outside of the range of their partition; an empty
    /// partition has no range. Returns whether none is left.
    fn sweep<T: Tables>(
        &self,
        id: PartitionId,
        range: Option<&(Vec<u8>, Option<Vec<u8>>)>,
        tables: &mut T,
    ) -> Result<bool, TablesError> {
        let outside: [(&[u8], Option<&[u8]>); 2] = match range {
            None => [(&[], None), (&[], Some(&[]))],
            Some((start, end)) => {
                let after = match end {
                    Some(end) => (&end[..], None),
                    None => (&[][..], Some(&[][..])),
                };
                [(&[], Some(start)), after]
            }
        };
        let most = self.limits.entry_page_max;
        let mut gone: Vec<Vec<u8>> = Vec::new();
        for (start, end) in outside {
            tables.scan(id.rows_table(), start, end, &mut |key, _| {
                gone.push(key.to_vec());
                match gone.len() < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
            if gone.len() >= most {
                break;
            }
        }
        let rows = Rows::of(&self.partitions[&id]);
        for key in &gone {
            let stored = rows.stored(key, tables)?;
            rows.remove(key, &stored.expect("it was just found"), tables);
        }
        Ok(gone.len() < most)
    }

    /// Goes on with the search for the middle of a range, and reports it once it is found. Returns
    /// whether the search has ended. The number of entries is approximate, so a search that ends
    /// before the middle begins again with the number that it has counted.
    fn search_middle<T: Tables>(
        &mut self,
        id: PartitionId,
        (start, end): (Vec<u8>, Option<Vec<u8>>),
        about: u64,
        tables: &T,
    ) -> Result<bool, TablesError> {
        let search = self.ranges.searches.entry(id);
        let search = search.or_insert_with(|| Search::new(about, &start, about / 2));
        let Some(from) = search.next.take() else {
            if search.about != about {
                *search = Search::new(about, &start, about / 2);
            }
            return Ok(search.next.is_none());
        };
        let mut left = self.limits.entry_page_max;
        let mut found = None;
        tables.scan(id.rows_table(), &from, end.as_deref(), &mut |key, _| {
            if search.passed >= search.middle && key > &start[..] {
                found = Some(Bytes::from(key));
                return ControlFlow::Break(());
            }
            if left == 0 {
                search.next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            left -= 1;
            search.passed += 1;
            ControlFlow::Continue(())
        })?;
        if let Some(split_at) = found {
            self.ranges.searches.remove(&id);
            self.report_range(id, about, Some(split_at));
            return Ok(true);
        }
        if search.next.is_none() && search.passed >= self.limits.range_entries_max.max(2) {
            *search = Search::new(about, &start, search.passed / 2);
        }
        Ok(search.next.is_none())
    }
}

impl Search {
    fn new(about: u64, start: &[u8], middle: u64) -> Search {
        Search {
            about,
            next: Some(start.to_vec()),
            passed: 0,
            middle,
        }
    }
}
