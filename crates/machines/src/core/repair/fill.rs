//! Fills a rebuilding partition from its cover (R17, R19, R20).
//!
//! A place rebuilds from the beginning of an epoch of its table. All operations of the table's
//! earlier epochs are settled when this epoch begins. In this epoch its partition takes part in all
//! chains, so it receives every later change itself. It lacks exactly the rows that its cover had
//! when the epoch began. All of `fill_*` relies on these invariants:
//!
//! - A row that no chain has changed since the epoch began is always the same in the cover. Of a
//!   changed row, the partition has the row, or the version at which it left, among the departures.
//!   So pages may arrive late, twice and in any order, and a fill may begin again at any time: the
//!   higher version wins.
//! - The core logs only rows that it has accepted, so a replay of the log gives the same tables.
//! - A core fills a partition, or sends pages as a member of a cover, only after its own recovery.
//!   Before that, its tables may lack settled rows that a peer has yet to report.
//!
//! The cover's members are in `fill_source`, rows that are needed at once in `fill_fetch`,
//! completion records in `fill_completions`. The coordinator decides when a place rebuilds, and
//! when it serves again.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use placement::{CoverCosts, Durability, KEY_BYTES_MAX, cover};
use protocol::codec::Bytes;
use protocol::configuration::{PartitionState, ServerState};
use protocol::identity::{
    ClockReading, CoreId, Incarnation, PartitionId, Position, TableId, Version,
};
use protocol::message::{FillReport, OBSTACLES_MAX, PeerMessage, Room, RowPage, ScanCounts};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::partition::rows::{Rows, departed};
use crate::core::repair::fill_completions::Completions;
use crate::core::repair::fill_fetch::Fetches;
use crate::core::repair::source::CoverProgress;
use crate::core::repair::sums::page_sum;
use crate::core::step::Step;

/// How many times a row counts for the throttle (`CoreLimits::fill_bytes_per_second`) when it is
/// stored: to log it and put it costs about five times what it costs to look at it.
const TAKEN_TIMES: u64 = 5;

/// How many times as long as a page took a busy core waits for it afterwards. With one, a fill took
/// a third of the time, and requests waited longer.
const PAUSE_ROUNDS: u64 = 3;

/// How long a core counts as busy after the last operation of a client.
const BUSY_US: u64 = 100_000;

/// How far pages may run ahead of the throttle, because a timer is no finer.
const AHEAD_US: u64 = 1_000;

/// The fills of this core's rebuilding partitions.
#[derive(Debug, Default)]
pub(crate) struct Fills {
    /// Exactly those that are rebuilding by the configuration, once it has been reviewed.
    partitions: BTreeMap<PartitionId, Fill>,
    /// Pages are requested no sooner (`CoreLimits::fill_bytes_per_second`).
    next_page_us: u64,
    /// The last page arrived at this time.
    page_us: u64,
    /// The core counts as busy with operations of clients until this time.
    busy_until_us: u64,
    /// The time at which the next rows are to be requested at the latest.
    due_us: Option<u64>,
    /// Partitions were completed since the coordinator last received all of them.
    is_news: bool,
}

impl Fills {
    /// Returns the fill of a partition, if it is rebuilding.
    pub fn get(&self, id: &PartitionId) -> Option<&Fill> {
        self.partitions.get(id)
    }

    /// Returns the fill of a partition, if it is rebuilding.
    pub fn get_mut(&mut self, id: &PartitionId) -> Option<&mut Fill> {
        self.partitions.get_mut(id)
    }

    /// Drops the fill of an earlier tenure, because a new tenure of the partition begins.
    pub fn forget(&mut self, id: PartitionId) {
        self.partitions.remove(&id);
    }

    /// Returns the latest time of the next request for rows.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Records that the core takes part in an operation of a client.
    pub fn note_operation(&mut self, now: ClockReading) {
        self.busy_until_us = now.monotonic_us + BUSY_US;
    }

    /// Returns the time before which no page is requested, because of the throttle.
    pub fn next_page_us(&self) -> u64 {
        self.next_page_us
    }
}

/// One partition's fill.
#[derive(Debug)]
pub(crate) struct Fill {
    /// The cover of the partition; none if the serving partitions do not cover it.
    pub sources: Option<BTreeMap<PartitionId, CoverProgress>>,
    pub completions: Completions,
    /// The fetches that operations and requests wait for.
    pub fetches: Fetches,
    /// The last record that must be durable before the partition may serve.
    last_record: Position,
    since_us: u64,
    rows: u64,
    /// Why the copy that is being made cannot be: for people.
    obstacles: BTreeSet<String>,
    /// Everything is here.
    is_complete: bool,
}

impl Fill {
    /// Returns whether the partition can check constraints without fetching rows.
    pub fn has_all_rows(&self) -> bool {
        let mut sources = self.sources.iter().flat_map(BTreeMap::values);
        self.sources.is_some() && sources.all(|source| source.next.is_none())
    }

    /// Records a position that must be durable before the partition may serve.
    pub fn has_logged(&mut self, position: Position) {
        self.last_record = self.last_record.max(position);
    }

    /// Returns whether a head may begin requests (R13): it knows the completed ones, and can fetch
    /// rows.
    pub fn takes_requests(&self) -> bool {
        self.sources.is_some() && self.completions.are_complete()
    }
}

impl CoreMachine {
    /// Returns whether a partition of this core is rebuilding.
    pub(crate) fn is_rebuilding(&self, id: PartitionId) -> bool {
        let place = self
            .partitions
            .get(&id)
            .and_then(|held| held.table.place(id));
        place.is_some_and(|place| place.state == PartitionState::Rebuilding)
    }

    /// Reviews the fills of these tables, whose epochs are new or whose core has started: finds the
    /// cover of each rebuilding partition.
    pub(crate) fn review_fills<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.review_lists();
        self.review_taking(tables, step)?;
        let known = core::mem::take(&mut self.fills.partitions);
        let mut ended = Vec::new();
        for (id, fill) in known {
            let stays = self.partitions.contains_key(&id) && !tables.contains(&id.table);
            if stays || self.is_rebuilding(id) {
                self.fills.partitions.insert(id, fill);
            } else if self.partitions.contains_key(&id) {
                step.tables.drop_table(id.departures_table());
                ended.push((id, fill));
            }
        }
        let held = self.partitions.keys_of(tables).copied();
        let rebuilding: Vec<PartitionId> = held.filter(|id| self.is_rebuilding(*id)).collect();
        for id in rebuilding {
            self.review_fill(step.now, id, step.output);
            self.try_end_fill(id, step)?;
        }
        for (id, fill) in ended {
            self.end_fetches(id, fill.fetches, step)?;
        }
        self.ask_covers(step.now, step.output);
        Ok(())
    }

    /// Finds the cover of one partition. Members that stay continue where they are. A partition
    /// that moves here needs no cover: it is whole, or waits until it is.
    pub(crate) fn review_fill(
        &mut self,
        now: ClockReading,
        id: PartitionId,
        output: &mut CoreOutput,
    ) {
        let giver = self.view.place(id).and_then(|place| place.giver());
        let (cover, peers) = match giver {
            None => (self.cover_of(id), self.table_peers(id)),
            Some(giver) => {
                let is_whole = !self.is_not_whole(id);
                (is_whole.then(Vec::new), Vec::from([giver]))
            }
        };
        let fill = self.fills.partitions.entry(id).or_insert_with(|| Fill {
            sources: None,
            completions: Completions::default(),
            fetches: Fetches::default(),
            last_record: Position(0),
            since_us: now.monotonic_us,
            rows: 0,
            obstacles: BTreeSet::new(),
            is_complete: false,
        });
        if fill.is_complete {
            return;
        }
        // Without a cover it is not known which members were in the chains of all rows.
        if giver.is_some() || cover.is_some() {
            let incarnation = |core: CoreId| {
                let server = self.view.configuration().server(core.server);
                server.map_or(Incarnation(0), |server| server.incarnation)
            };
            let peers = peers.into_iter().map(|core| (core, incarnation(core)));
            fill.completions.ask(peers.collect());
        }
        let Some(members) = cover else {
            fill.sources = None;
            if giver.is_some() {
                return;
            }
            let text = format!(
                "{id} cannot be filled: no partitions that serve hold all of its rows; it waits \
                 until servers with the others are back"
            );
            return self.note(&text, output);
        };
        let mut before = fill.sources.take().unwrap_or_default();
        let is_new = !before.keys().eq(&members);
        let source = |member| {
            let mut source = before.remove(&member).unwrap_or_else(CoverProgress::new);
            source.timer.lose();
            (member, source)
        };
        let sources: BTreeMap<PartitionId, CoverProgress> =
            members.into_iter().map(source).collect();
        fill.fetches.begin_again(&sources);
        let text = format!("{id} is being filled from a cover of {}", sources.len());
        fill.sources = Some(sources);
        if is_new && giver.is_none() {
            self.note(&text, output);
        }
    }

    /// Returns the cheapest cover of partitions that serve.
    fn cover_of(&self, id: PartitionId) -> Option<Vec<PartitionId>> {
        let table = &self.partitions[&id].table;
        let available = |replex: usize, number: u32| {
            let member = table.partition(replex, number);
            let place = table.place(member);
            place.is_some_and(|place| {
                place.state == PartitionState::Serving && self.is_up(place.core)
            })
        };
        let lost = (usize::from(id.replex), id.number);
        let cover = cover(&table.layout, lost, &available, &CoverCosts::UNIFORM)?;
        let members = cover.members.iter();
        let mut members: Vec<PartitionId> = members
            .map(|member| table.partition(member.replex, member.partition))
            .collect();
        members.sort_unstable();
        members.dedup();
        Some(members)
    }

    fn is_up(&self, core: CoreId) -> bool {
        let server = self.view.configuration().server(core.server);
        server.is_some_and(|server| server.state == ServerState::Up)
    }

    /// Returns the other cores that hold partitions of the same table and are up.
    fn table_peers(&self, id: PartitionId) -> Vec<CoreId> {
        let places = self.partitions[&id].table.placement.iter().flatten();
        let cores = places.map(|place| place.core);
        let mut peers: Vec<CoreId> = cores
            .filter(|core| *core != self.identity.core && self.is_up(*core))
            .collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// Sends requests to members of covers: new ones, and those that have had no answer for long.
    pub(crate) fn ask_covers(&mut self, now: ClockReading, output: &mut CoreOutput) {
        self.fills.due_us = self.ask_givers(now, output);
        if self.fills.partitions.is_empty() {
            return;
        }
        let (now_us, retry_us) = (now.monotonic_us, self.limits.retry_us);
        let due_us = now_us + retry_us;
        let mut due_us = self.fills.due_us.map_or(due_us, |it| it.min(due_us));
        let mut asked = Vec::new();
        if self.space.own() == Room::Free {
            due_us = due_us.min(self.ask_pages(now_us, &mut asked));
        }
        for (of, fill) in &mut self.fills.partitions {
            if self.recovering.contains_key(&of.table) || self.view.stands_still(of.table) {
                continue;
            }
            let numbers = &mut self.numbers;
            let cover = fill.sources.as_ref();
            let times = (now_us, retry_us);
            fill.fetches.ask((*of, cover), numbers, times, &mut asked);
            fill.completions.send(*of, (now_us, retry_us), output);
        }
        self.fills.due_us = Some(due_us);
        for (from, message) in asked {
            self.send(from, Position(0), message, output);
        }
    }

    /// Adds the pages that are to be asked for now, and returns when more are. One at a time of
    /// each member, for all partitions that have come as far with it.
    fn ask_pages(&mut self, now_us: u64, asked: &mut Vec<(PartitionId, PeerMessage)>) -> u64 {
        let retry_us = self.limits.retry_us;
        let page_us = self.fills.next_page_us.saturating_sub(AHEAD_US);
        let fills = self.fills.partitions.values();
        let sources = fills.flat_map(|fill| fill.sources.iter().flatten());
        let busy: BTreeSet<PartitionId> = sources
            .filter(|(_, source)| source.timer.is_under_way(now_us, retry_us))
            .map(|(from, _)| *from)
            .collect();
        let mut room = self.limits.fill_pages_max.saturating_sub(busy.len());
        let mut due_us = u64::MAX;
        let mut pages: BTreeMap<PartitionId, (Bytes, Vec<PartitionId>)> = BTreeMap::new();
        for (of, fill) in &mut self.fills.partitions {
            if self.recovering.contains_key(&of.table) || self.view.stands_still(of.table) {
                continue;
            }
            for (from, source) in fill.sources.iter_mut().flatten() {
                let (Some(start), Some(source_us)) = (&source.next, source.due_us(retry_us)) else {
                    continue;
                };
                let source_us = source_us.max(page_us);
                if source_us > now_us {
                    due_us = due_us.min(source_us);
                    continue;
                }
                let is_together = pages.get(from).map(|(other, _)| other == start);
                if busy.contains(from) || !is_together.unwrap_or(room > 0) {
                    continue;
                }
                room -= usize::from(is_together.is_none());
                let page = pages.entry(*from).or_insert((start.clone(), Vec::new()));
                page.1.push(*of);
                source.timer.ask(now_us);
            }
        }
        for (from, (start, of)) in pages {
            asked.push((from, PeerMessage::Copy { of, from, start }));
        }
        due_us
    }

    /// Asks a core again, because requests to it may be lost.
    pub(crate) fn ask_cover_again(
        &mut self,
        now: ClockReading,
        core: CoreId,
        output: &mut CoreOutput,
    ) {
        self.ask_giver_again(core);
        let configuration = Arc::clone(self.view.configuration());
        let is_there = |id: &PartitionId| {
            let place = configuration.place(*id);
            place.is_some_and(|place| place.core == core)
        };
        for fill in self.fills.partitions.values_mut() {
            for (id, source) in fill.sources.iter_mut().flatten() {
                if is_there(id) {
                    source.timer.lose();
                }
            }
            for (id, source) in fill.fetches.sources() {
                if is_there(id) {
                    source.timer.lose();
                }
            }
            fill.completions.ask_again(core);
        }
        self.ask_covers(now, output);
    }

    /// Handles a page of rows.
    pub(crate) fn on_copied<T: Tables>(
        &mut self,
        of: PartitionId,
        from: PartitionId,
        (start, page, sum): (Bytes, RowPage, u64),
        looked: ScanCounts,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let source = self.source(of, from).filter(|it| it.awaits(&start));
        let Some(round_us) = source.map(|it| it.timer.elapsed_us(step.now.monotonic_us)) else {
            return Ok(());
        };
        // R20, page by page: another sum would mean other rows than were sent.
        if page_sum(&page) != sum {
            let text = format!("a page of {from} for {of} has another sum than was sent; again");
            self.note(&text, step.output);
            return Ok(());
        }
        self.take_rows(of, &page, step)?;
        self.throttle(step.now, round_us, looked.bytes, page.rows.len());
        let source = self.source(of, from).expect("it was just there");
        source.rows += looked.rows;
        source.of_rows = source.of_rows.max(looked.of_rows);
        if source.go_on(page.next) && planted::is(Bug::ServesBeforeFilled) {
            source.next = None;
        }
        self.try_end_fill(of, step)?;
        self.ask_covers(step.now, step.output);
        Ok(())
    }

    /// Delays the next page after one that has arrived `round_us` after its request.
    ///
    /// If the core is busy, the delay is at least [`PAUSE_ROUNDS`] times as long as the page took.
    /// So pages become rarer where requests and messages wait for cores or processors. A page takes
    /// the time since its request or, if later, since the page before: pages that are awaited
    /// together wait for one another, and each counts for its own time only. A page that several
    /// partitions requested together counts once.
    pub(crate) fn throttle(
        &mut self,
        now: ClockReading,
        round_us: u64,
        looked_at_bytes: u64,
        taken_bytes: usize,
    ) {
        let per_second = self.limits.fill_bytes_per_second.max(1);
        let bytes = looked_at_bytes + TAKEN_TIMES * taken_bytes as u64;
        let is_busy = now.monotonic_us < self.fills.busy_until_us;
        let pauses = is_busy && looked_at_bytes > 0;
        let rounds = if pauses { PAUSE_ROUNDS } else { 0 };
        let since_page_us = now.monotonic_us.saturating_sub(self.fills.page_us);
        self.fills.page_us = now.monotonic_us;
        let page_us = round_us.min(since_page_us);
        let pause_us = (bytes.saturating_mul(1_000_000) / per_second).max(rounds * page_us);
        self.fills.next_page_us = self.fills.next_page_us.max(now.monotonic_us) + pause_us;
        self.counters.fill_bytes += looked_at_bytes;
    }

    fn source(&mut self, of: PartitionId, from: PartitionId) -> Option<&mut CoverProgress> {
        let fill = self.fills.get_mut(&of)?;
        fill.sources.as_mut()?.get_mut(&from)
    }

    /// Stores rows of the cover that are newer than the stored ones, and logs them. Returns the
    /// keys of all rows.
    pub(crate) fn take_rows<T: Tables>(
        &mut self,
        of: PartitionId,
        page: &RowPage,
        step: &mut Step<'_, T>,
    ) -> Result<Vec<Vec<u8>>, TablesError> {
        let rows = Rows::of(&self.partitions[&of]);
        let mut keys = Vec::with_capacity(page.count as usize);
        let mut newer = RowPage::default();
        let mut obstacles = Vec::new();
        for (version, row) in page.rows() {
            let Some(key) = rows.table.key_in(of, row) else {
                continue;
            };
            if key.len() > KEY_BYTES_MAX {
                obstacles.push(rows.table.long_key(of, row, key.len()));
                continue;
            }
            if put_copied(rows, &key, version, row, step.tables)? {
                newer.push(version, row);
            } else if planted::is(Bug::OldRowCollides) && rows.table.finds_collisions(of) {
                obstacles.push("an old row".into());
            }
            obstacles.extend(rows.table.collision(of, row, step.tables)?);
            keys.push(key);
        }
        self.note_obstacles(of, obstacles);
        if newer.count == 0 {
            return Ok(keys);
        }
        let record = Record::Copied {
            partition: of,
            rows: newer.rows,
        };
        let position = self.append(&record, Durability::Replicated, step.output);
        self.counters.fill_rows += newer.count;
        let fill = self.fills.get_mut(&of);
        let fill = fill.expect("only what is filled takes rows");
        fill.rows += newer.count;
        fill.has_logged(position);
        Ok(keys)
    }

    /// Records the reasons why a copy that is being added cannot be completed.
    pub(crate) fn note_obstacles(&mut self, of: PartitionId, obstacles: Vec<String>) {
        if let Some(fill) = self.fills.get_mut(&of) {
            let room = OBSTACLES_MAX.saturating_sub(fill.obstacles.len());
            fill.obstacles.extend(obstacles.into_iter().take(room));
        }
    }

    /// Replays the log record of rows that a fill accepted.
    pub(crate) fn replay_copied<T: Tables>(
        &mut self,
        of: PartitionId,
        rows: Bytes,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.partitions.get(&of) else {
            return Ok(());
        };
        if self.log.rows_are_newer() {
            return Ok(());
        }
        let page = RowPage {
            rows,
            ..RowPage::default()
        };
        let rows = Rows::of(partition);
        for (version, row) in page.rows() {
            if let Some(key) = partition.table.key_in(of, row) {
                put_copied(rows, &key, version, row, tables)?;
            }
        }
        Ok(())
    }

    /// Checks whether the fill has all rows. If so, no operation waits for a fetch any more.
    pub(crate) fn try_end_fill<T: Tables>(
        &mut self,
        id: PartitionId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(fill) = self.fills.get_mut(&id) else {
            return Ok(());
        };
        if fill.is_complete || !fill.has_all_rows() {
            return Ok(());
        }
        let fetches = core::mem::take(&mut fill.fetches);
        if fill.completions.are_complete() {
            fill.is_complete = true;
            let can_serve = fill.obstacles.is_empty();
            let ms = (step.now.monotonic_us.saturating_sub(fill.since_us) / 1000).max(1);
            let rows = fill.rows;
            let how = match self.view.place(id).and_then(|place| place.giver()) {
                Some(_) => format!("the last of them {ms} ms after it was handed over"),
                None => format!(
                    "{rows} were copied in {ms} ms, {} per second",
                    rows * 1000 / ms
                ),
            };
            let text = format!("{id} has all of its rows: {how}; it waits to serve");
            if can_serve {
                self.note(&text, step.output);
            }
            self.keep_own_completions(id, step.output);
            self.fills.is_news = true;
            self.report_fills(step.now);
        }
        self.end_fetches(id, fetches, step)
    }

    /// Sends a heartbeat at once when the last fill of this core is complete and durable, so that
    /// the coordinator need not wait for the next one.
    pub(crate) fn report_fills(&mut self, now: ClockReading) {
        if !self.fills.is_news {
            return;
        }
        let mut fills = self.fills.partitions.values();
        if fills.all(|fill| fill.is_complete && self.log.is_durable(fill.last_record)) {
            self.fills.is_news = false;
            self.leases.hurry(now);
        }
    }

    /// Returns the partitions that can serve or be handed over, for the coordinator.
    pub(crate) fn filled(&self) -> Vec<PartitionId> {
        let fills = self.fills.partitions.iter();
        let filled = fills.filter(|(_, fill)| {
            fill.is_complete && fill.obstacles.is_empty() && self.log.is_durable(fill.last_record)
        });
        let filled = filled.map(|(id, _)| *id);
        filled.chain(self.level()).collect()
    }

    /// Returns the progress of the fills by replex, for the coordinator.
    pub(crate) fn fill_reports(&self) -> Vec<FillReport> {
        let mut reports: BTreeMap<_, FillReport> = BTreeMap::new();
        for (id, fill) in &self.fills.partitions {
            let mut report = FillReport::new(id.table, id.replex);
            report.partitions = 1;
            for source in fill.sources.iter().flat_map(BTreeMap::values) {
                report.sources += 1;
                report.sources_done += u64::from(source.next.is_none());
                report.rows += source.rows;
                report.of_rows += source.of_rows.max(source.rows);
            }
            report.obstacles = fill.obstacles.iter().cloned().collect();
            let sum = reports.entry((id.table, id.replex));
            sum.or_insert_with(|| FillReport::new(id.table, id.replex))
                .add(&report);
        }
        reports.into_values().collect()
    }

    /// Returns the number of members of covers, and the number of those that have sent everything.
    pub(crate) fn fill_sources(&self) -> (u64, u64) {
        let fills = self.fills.partitions.values();
        let sources = fills.flat_map(|fill| fill.sources.iter().flat_map(BTreeMap::values));
        sources.fold((0, 0), |(all, done), source| {
            (all + 1, done + u64::from(source.next.is_none()))
        })
    }
}

/// Puts a row of the cover unless a version as high is here, or has left from here (R19).
fn put_copied<T: Tables>(
    rows: Rows<'_>,
    key: &[u8],
    version: Version,
    row: &[u8],
    tables: &mut T,
) -> Result<bool, TablesError> {
    let departed = departed(rows.id, key, tables)?;
    let rows = match planted::is(Bug::CopiedWithoutEntries) {
        true => Rows {
            orders: &[],
            ..rows
        },
        false => rows,
    };
    let new = rows.new_row(key, version, Cow::Borrowed(row));
    rows.put_if(&new, tables, |stored| {
        let is_newer = stored.is_none_or(|stored| stored < version)
            && departed.is_none_or(|departed| departed < version);
        is_newer || planted::is(Bug::LowerVersionWins)
    })
}
