//! Splits and merges the ranges of copies and thin indexes while clients use the table (R49).
//!
//! The holders of ranges report which ones have too many entries or requests, with the key at which
//! to split, and which ones have few of both. A range that is too large or too busy gives its upper
//! part to an empty partition on another core. Two small neighbours give everything to an empty
//! partition; if they are on different cores, one of them moves first. A transfer is a move (see
//! `moves`): the empty partition is first at the core that gives, and moves to another core. In the
//! epoch in which it is handed over, it gets the range. A transfer ends with its move, whether the
//! partition was handed over or not.
//!
//! A row can be in any range of a copy. So a range of a copy goes only to a failure domain that has
//! ranges of this copy already, or no other copy of the table, unless the other copies alone
//! survive the failures that the table must survive. Then each possible row keeps its copies in
//! enough failure domains (I17). Domains without a copy that a hash divides are preferred.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use placement::{
    HostCore, KeyInterval, LOAD_PER_COPY, Layout, Loads, PartitionHost, Placement, Ranges, beside,
    prove,
};
use protocol::configuration::{MoveProgress, PartitionState, Place, PlacedTable, Tenure};
use protocol::identity::{CoreId, Epoch, PartitionId, ServerId, TableId};
use protocol::message::RangeReport;
use protocol::planted::{self, Bug};

use super::{CONFIGURATION_BYTES_MAX, Coordinator, CoordinatorOutput};

/// The part of the configuration's limit up to which ranges are split. Indexes and tables can still
/// be added then.
const BYTES_MAX: usize = CONFIGURATION_BYTES_MAX / 2;

/// The ranges that should be split or may be merged.
#[derive(Debug, Default)]
pub(super) struct RangeTracker {
    /// The reports from the last heartbeat of each core, and its epoch.
    reports: BTreeMap<CoreId, (Epoch, Vec<RangeReport>)>,
    /// Whether reports have arrived since the last review.
    pub is_due: bool,
    /// Whether operators were notified that no range is split any more.
    is_full: bool,
}

impl RangeTracker {
    /// Forgets the reports of a server.
    pub fn forget(&mut self, server: ServerId) {
        self.reports.retain(|core, _| core.server != server);
    }
}

/// The changes of one table that are begun together.
#[derive(Default)]
struct Planned {
    /// For each transfer its replex, the empty partition, the giving core and the taking core.
    transfers: Vec<(usize, u32, CoreId, CoreId)>,
    /// Ranges that move to the core of a neighbour.
    moves: Vec<(usize, u32, CoreId)>,
    /// The requests per second of the ranges that are split.
    requests: u64,
}

impl Coordinator {
    /// Records a core's reports on its ranges, with the epoch that the core knows.
    pub(super) fn note_ranges(&mut self, core: CoreId, epoch: Epoch, reports: Vec<RangeReport>) {
        if reports.is_empty() {
            self.ranges.reports.remove(&core);
            return;
        }
        self.ranges.is_due = true;
        self.ranges.reports.insert(core, (epoch, reports));
    }

    /// Returns the reports that count, by table: those of the holders, which know the epoch of
    /// the table.
    fn range_reports(&self) -> BTreeMap<TableId, BTreeMap<PartitionId, RangeReport>> {
        let configuration = &self.state.configuration;
        let mut by_table: BTreeMap<TableId, BTreeMap<PartitionId, RangeReport>> = BTreeMap::new();
        for (core, (epoch, reports)) in &self.ranges.reports {
            let counts = |report: &&RangeReport| {
                let table = configuration.table(report.partition.table);
                let place = configuration.place(report.partition);
                table.is_some_and(|table| table.epoch <= *epoch && table.sealing.is_none())
                    && place.is_some_and(|place| place.core == *core)
            };
            for report in reports.iter().filter(counts) {
                let table = by_table.entry(report.partition.table).or_default();
                table.insert(report.partition, report.clone());
            }
        }
        by_table
    }

    /// Begins the splits and merges that are due. Call it while no partition moves or is rebuilt.
    pub(super) fn begin_transfers(&mut self, output: &mut CoordinatorOutput) {
        self.ranges.is_due = false;
        let may_split = self.may_split(output);
        let epoch = Epoch(self.state.configuration.epoch.0 + 1);
        let mut takers = self.range_takers();
        let mut is_new = false;
        for (id, mut reports) in self.range_reports() {
            reports.retain(|_, report| may_split || report.split_at.is_none());
            let Some(table) = self.state.configuration.table(id) else {
                continue;
            };
            let mut changed = table.clone();
            let planned = plan(&mut changed, &reports, &mut takers);
            if planned.transfers.is_empty() && planned.moves.is_empty() {
                continue;
            }
            is_new = true;
            planned.place(&mut changed, epoch);
            output.notes.push(format!(
                "table {}: {} ranges of its indexes are split or merged, {} move to be merged; \
                 split ranges had {} requests per second",
                changed.schema.name,
                planned.transfers.len(),
                planned.moves.len(),
                planned.requests
            ));
            self.state.configuration.tables.put(changed);
        }
        if is_new {
            self.moves.forget_level();
            self.reconfigure(output);
        }
    }

    /// Returns whether the configuration has room for further ranges.
    fn may_split(&mut self, output: &mut CoordinatorOutput) -> bool {
        let bytes = self.configuration_bytes();
        let is_full = bytes > BYTES_MAX;
        if is_full && !self.ranges.is_full {
            output.notes.push(format!(
                "the configuration takes {bytes} bytes, of {CONFIGURATION_BYTES_MAX} at most: ranges \
                 of indexes are not split any more; drop indexes or tables, or raise --range-entries"
            ));
        }
        self.ranges.is_full = is_full;
        !is_full
    }

    fn range_takers(&self) -> Takers {
        let servers = self.takers(&self.without_room()).into_iter();
        let cores = servers.flat_map(|server| {
            (0..server.cores).map(move |core| HostCore {
                server: server.id,
                core,
            })
        });
        Takers {
            servers: self.servers_up(&BTreeSet::new()),
            cores: cores.collect(),
            loads: self.loads(),
        }
    }

    /// Gives the ranges of a transfer to the partition that has been handed over to its taker.
    pub(super) fn hand_over_ranges(table: &mut PlacedTable, replex: u8, number: u32) {
        if let Some(ranges) = ranges_of(table, usize::from(replex)) {
            ranges.hand_over(number);
        }
    }

    /// Ends the transfers whose partitions do not move any more. Also ends those whose givers have
    /// lost entries that they should give: a partition that was handed over is then filled from a
    /// copy, from the next epoch on.
    pub(super) fn end_transfers(&mut self) {
        let epoch = Epoch(self.state.configuration.epoch.0 + 1);
        let tables = &mut self.state.configuration.tables;
        let with_ended = tables.unsettled().map(|table| (table.id, ended(table)));
        let with_ended = with_ended.filter(|(_, ended)| !ended.is_empty());
        for (id, ended) in with_ended.collect::<Vec<_>>() {
            let table = tables.get_mut(id).expect("it was just found");
            for (replex, number) in ended {
                let place = &mut table.placement[replex][number as usize];
                if let Some(MoveProgress::From(_)) = place.moving {
                    place.since = epoch;
                }
                place.moving = None;
                let ranges = ranges_of(table, replex).expect("it has a transfer");
                ranges.end_transfer(number);
            }
        }
    }
}

/// Returns the replexes and receiving partitions of the transfers of a table that have ended.
fn ended(table: &PlacedTable) -> Vec<(usize, u32)> {
    let replexes = table.layout.replexes.iter().enumerate();
    let transfers = replexes.flat_map(|(replex, it)| {
        let transfers = it.ranges.iter().flat_map(|ranges| &ranges.transfers);
        transfers.map(move |transfer| (replex, transfer))
    });
    let ended = transfers.filter(|(replex, transfer)| {
        let places = &table.placement[*replex];
        let giver = places[transfer.to as usize].giver();
        let gives = |from: u32| {
            let place = places[from as usize];
            place.state == PartitionState::Serving && Some(place.core) == giver
        };
        !transfer.parts.iter().all(|part| gives(part.from))
    });
    ended
        .map(|(replex, transfer)| (replex, transfer.to))
        .collect()
}

fn ranges_of(table: &mut PlacedTable, replex: usize) -> Option<&mut Ranges> {
    table.layout.replexes[replex].ranges.as_mut()
}

impl Planned {
    /// Enters the transfers and moves into the places of the table.
    fn place(&self, table: &mut PlacedTable, epoch: Epoch) {
        let to = |core| {
            let since = epoch;
            Some(MoveProgress::To(Tenure { core, since }))
        };
        for (replex, number, from, taker) in &self.transfers {
            let places = &mut table.placement[*replex];
            let place = Place {
                moving: to(*taker),
                ..Place::serving(*from, epoch)
            };
            match places.get_mut(*number as usize) {
                Some(known) => *known = place,
                None => places.push(place),
            }
        }
        for (replex, number, taker) in &self.moves {
            table.placement[*replex][*number as usize].moving = to(*taker);
        }
    }

    fn changes(&self, replex: usize) -> bool {
        let mut transfers = self.transfers.iter();
        let mut moves = self.moves.iter();
        transfers.any(|(of, ..)| *of == replex) || moves.any(|(of, ..)| *of == replex)
    }

    fn moves(&self, replex: usize, number: u32) -> bool {
        let mut moves = self.moves.iter();
        moves.any(|(of, moved, _)| (*of, *moved) == (replex, number))
    }
}

/// The cores that may receive ranges.
struct Takers {
    /// The servers that are up, with their failure domains.
    servers: Vec<PartitionHost>,
    cores: Vec<HostCore>,
    loads: Loads,
}

impl Takers {
    /// Returns the core with the least load, other than the giver, and adds a load to it. `beside`
    /// returns how many copies of the same entries are in the failure domain of a server, or none
    /// if the server may not have them. Fewer are better.
    fn choose(
        &mut self,
        giver: CoreId,
        share: u64,
        beside: &dyn Fn(&[PartitionHost], u32) -> Option<usize>,
    ) -> Option<CoreId> {
        let others = self.cores.iter();
        let others = others.filter(|core| CoreId::from(**core) != giver);
        let load = |core: &HostCore| self.loads.get(core).copied().unwrap_or(0);
        let suiting = others.filter_map(|core| {
            let beside = beside(&self.servers, core.server)?;
            Some(((beside, load(core)), *core))
        });
        let (_, least) = suiting.min()?;
        *self.loads.entry(least).or_default() += share;
        Some(CoreId::from(least))
    }

    fn include(&self, core: CoreId) -> bool {
        let mut cores = self.cores.iter();
        cores.any(|it| CoreId::from(*it) == core)
    }
}

/// Begins the transfers of a table's indexes that its holders ask for.
fn plan(
    table: &mut PlacedTable,
    reports: &BTreeMap<PartitionId, RangeReport>,
    takers: &mut Takers,
) -> Planned {
    let mut planned = Planned::default();
    let placement = table.bare_placement();
    let is_reported = |replex: &usize| {
        let mut reported = reports.keys();
        reported.any(|id| usize::from(id.replex) == *replex)
    };
    let is_free = |replex: &usize| {
        table.layout.is_thin(*replex)
            || survives_without(table, (*replex, &placement), &takers.servers)
    };
    let numbers = table.layout.numbers().filter(is_reported);
    let free: BTreeSet<usize> = numbers.filter(is_free).collect();
    let lasting = holders_of_rows(table);
    for replex in 0..table.layout.replexes.len() {
        // The copies of a table, and those of a thin index, change one after the other, so that the
        // places of each are chosen by where the others are.
        let others: Vec<usize> = match table.layout.is_thin(replex) {
            true => table.layout.other_thin(replex).collect(),
            false => table.layout.copy_numbers().collect(),
        };
        if table.is_building(replex) || others.iter().any(|other| planned.changes(*other)) {
            continue;
        }
        let places = table.placement[replex].clone();
        let reported: BTreeMap<u32, &RangeReport> = {
            let numbers = 0..places.len() as u32;
            let report = |number| reports.get(&table.partition(replex, number));
            let reported = numbers.filter_map(|number| Some((number, report(number)?)));
            reported.collect()
        };
        // Taken out while the other copies are looked at.
        if let Some(mut ranges) = table.layout.replexes[replex].ranges.take() {
            let share = LOAD_PER_COPY / u64::from(ranges.count);
            let mut index = PlannedIndex {
                replex,
                layout: &table.layout,
                placement: &placement,
                places,
                reported,
                is_free: free.contains(&replex),
                lasting: &lasting,
                ranges: &mut ranges,
                share,
                planned: &mut planned,
            };
            index.split(takers);
            index.merge(takers);
            table.layout.replexes[replex].ranges = Some(ranges);
        }
    }
    planned
}

/// Returns the cores that hold partitions of a table with rows or entries.
pub(super) fn holders_of_rows(table: &PlacedTable) -> BTreeSet<CoreId> {
    let cells = table.layout.numbers().flat_map(|replex| {
        let numbers = table.layout.partitions_with_rows(replex).into_iter();
        numbers.map(move |number| table.placement[replex][number as usize].core)
    });
    cells.collect()
}

/// Returns whether the table without one of its copies survives the failures that it must survive.
fn survives_without(
    table: &PlacedTable,
    (replex, placement): (usize, &Placement),
    servers: &[PartitionHost],
) -> bool {
    let nowhere = HostCore {
        server: u32::MAX,
        core: 0,
    };
    let mut others = placement.clone();
    others.replexes[replex].fill(nowhere);
    let proof = prove(&table.layout, &others, servers);
    proof.copies_guaranteed > u32::from(table.schema.failures_tolerated)
}

/// The ranges of one index, and the plan to which their transfers are added.
struct PlannedIndex<'a> {
    replex: usize,
    /// The table's layout without the ranges of this index, and the placement before the plan.
    layout: &'a Layout,
    placement: &'a Placement,
    places: Vec<Place>,
    /// The reports, by partition.
    reported: BTreeMap<u32, &'a RangeReport>,
    /// Whether the ranges may be on any servers, as far as failures are concerned.
    is_free: bool,
    /// The cores that hold partitions of the table with rows or entries.
    lasting: &'a BTreeSet<CoreId>,
    ranges: &'a mut Ranges,
    /// The load that one range adds to a core.
    share: u64,
    planned: &'a mut Planned,
}

impl PlannedIndex<'_> {
    fn core(&self, number: u32) -> CoreId {
        self.places[number as usize].core
    }

    /// Returns an empty partition for keys of this core. It becomes a partition of the core at
    /// once, without a seal. So it is none that another core leaves the table with: cores vouch for
    /// one another while they hold partitions of the table (R15).
    fn receiver(&self, giver: CoreId) -> u32 {
        self.ranges.vacant(|number| {
            let holder = self.core(number);
            holder == giver
                || self.lasting.contains(&holder)
                || planted::is(Bug::HolderLeavesUnsealed)
        })
    }

    /// Returns the keys of these partitions.
    fn keys_of(&self, numbers: &[u32]) -> Vec<KeyInterval<'_>> {
        let numbers = numbers.iter();
        numbers
            .filter_map(|number| self.ranges.of(*number))
            .collect()
    }

    /// Returns for a server what is beside ranges with these keys in its failure domain, or none if
    /// it may not have them. Of a thin index these are other copies of the entries. Of a copy they
    /// are the copies that a hash divides: if its ranges avoid these, the ranges of another copy
    /// stay free, too.
    fn twins<'b>(
        &'b self,
        keys: &[KeyInterval<'_>],
    ) -> impl Fn(&[PartitionHost], u32) -> Option<usize> + 'b {
        let twins = self.layout.twins_of_keys(self.replex, 0, keys);
        move |servers, server| {
            if self.layout.is_thin(self.replex) {
                return Some(self.placement.count_beside(&twins, servers, server));
            }
            if planted::is(Bug::RangeBesideCopy) {
                return Some(0);
            }
            let mut copies = self.copies_in(servers, server);
            let may_have = self.is_free || copies.is_empty() || copies.contains(&self.replex);
            copies.retain(|copy| *copy != self.replex && !self.layout.is_ranged(*copy));
            may_have.then_some(copies.len())
        }
    }

    /// Returns the copies that have rows in the failure domain of a server.
    fn copies_in(&self, servers: &[PartitionHost], server: u32) -> Vec<usize> {
        let is_beside = beside(servers, server);
        let is_in = |copy: &usize| {
            let numbers = match *copy == self.replex {
                true => self.ranges.starts.iter().map(|it| it.partition).collect(),
                false => self.layout.partitions_with_rows(*copy),
            };
            let places = &self.placement.replexes[*copy];
            let mut holders = numbers.iter().map(|number| places[*number as usize].server);
            holders.any(|holder| is_beside(&holder))
        };
        self.layout.copy_numbers().filter(is_in).collect()
    }

    /// Returns which of two neighbours moves, and to which core, so that they can be merged. It has
    /// no more copies of its entries beside it there than now. Returns none if there is no such
    /// core.
    fn way_together(&self, one: u32, other: u32, takers: &mut Takers) -> Option<(u32, CoreId)> {
        let (first, second) = (self.core(one), self.core(other));
        let beside = |keys: &[KeyInterval<'_>], core: CoreId, takers: &Takers| {
            self.twins(keys)(&takers.servers, core.server.0)
        };
        let ways = [(other, second, first), (one, first, second)];
        for (moved, from, to) in ways {
            let keys = self.keys_of(&[moved]);
            let now = beside(&keys, from, takers);
            let then = beside(&keys, to, takers);
            if takers.include(to) && then.is_some() && then <= now {
                return Some((moved, to));
            }
        }
        // A third core takes one of them, and then the other.
        let both = self.keys_of(&[one, other]);
        let now = beside(&self.keys_of(&[one]), first, takers);
        let third = takers.choose(first, self.share, &self.twins(&both))?;
        (beside(&both, third, takers) <= now).then_some((one, third))
    }

    /// Splits the ranges that are too large.
    fn split(&mut self, takers: &mut Takers) {
        for (number, report) in core::mem::take(&mut self.reported) {
            let Some(key) = &report.split_at else {
                self.reported.insert(number, report);
                continue;
            };
            let core = self.core(number);
            let to = self.receiver(core);
            let end = self.ranges.of(number).and_then(|(_, end)| end);
            let next = takers.choose(core, self.share, &self.twins(&[(&key[..], end)]));
            let Some(next) = next else {
                return;
            };
            if self.ranges.begin_split(number, key, to) {
                self.planned.transfers.push((self.replex, to, core, next));
                self.planned.requests += report.requests;
            }
        }
    }

    /// Merges neighbours that are small. Only their reports are left.
    fn merge(&mut self, takers: &mut Takers) {
        let starts = self.ranges.starts.iter();
        let order: Vec<u32> = starts.map(|start| start.partition).collect();
        for pair in order.windows(2) {
            let is_free = |number: &u32| {
                self.reported.contains_key(number)
                    && !self.ranges.is_transferring(*number)
                    && !self.planned.moves(self.replex, *number)
            };
            if !pair.iter().all(is_free) {
                continue;
            }
            let [one, other] = [pair[0], pair[1]];
            let core = self.core(one);
            if core != self.core(other) {
                let way = self.way_together(one, other, takers);
                let way = way.map(|(moved, to)| (self.replex, moved, to));
                self.planned.moves.extend(way);
                continue;
            }
            let to = self.receiver(core);
            let both = self.keys_of(&[one, other]);
            let next = takers.choose(core, self.share, &self.twins(&both));
            let Some(next) = next else {
                return;
            };
            if self.ranges.begin_merge(one, to) {
                self.planned.transfers.push((self.replex, to, core, next));
            }
        }
    }
}
