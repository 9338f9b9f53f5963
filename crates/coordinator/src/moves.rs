//! Moves partitions while all servers serve: off drained servers, apart again if copies had to
//! share a server, and onto new servers to balance the load.
//!
//! | step | epoch |
//! |---|---|
//! | a batch is chosen; each core that takes a partition follows its holder | an ordinary one |
//! | all of a table lack the last changes at most: its earlier epochs end | sealed |
//! | the takers hold the places, and get the last changes | serves |
//! | a place is whole: it serves, and its giver forgets it | an ordinary one |
//!
//! No move begins while a server with partitions is down, another move is in progress, a place is
//! rebuilding or a table is sealed, because lost partitions are rebuilt first. A table's moves are
//! handed over once all of them are level, unless a server with partitions is down. Other tables
//! may be sealed or rebuilding at that time. The coordinator balances load only onto servers that
//! joined empty, and only until they have their share. So creating and dropping tables moves no
//! partitions. The coordinator proves that each batch leaves the tables able to survive as many
//! failures as before. It cancels a batch if a server is removed or a copy of the table is dropped,
//! because the proof is then no longer valid. A server that was lost receives no partitions for
//! some time after its return, longer after each loss, so that a server that crashes repeatedly
//! does not keep partitions moving.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use placement::{Cell, HostCore, Loads, Placement, Relocation, prove};
use protocol::configuration::{MoveProgress, PartitionState, PlacedTable};
use protocol::configuration::{PlacedTables, Server, ServerState, Tenure};
use protocol::identity::{ClockReading, CoreId, Epoch, PartitionId, ServerId, TableId};
use protocol::planted::{self, Bug};

use super::{Coordinator, CoordinatorOutput, Outcome, Refused};

/// Partitions of one table that move at a time.
const BATCH_MAX: usize = 32;

/// A server that was lost once takes no partitions for this long after it came back; twice as long
/// after each further loss.
const DISTRUST_US: u64 = 5_000_000;

/// Losses beyond this number do not make that time longer.
const LOSSES_MAX: u32 = 6;

/// The state of all moves. It starts empty with each process.
#[derive(Debug, Default)]
pub(super) struct MoveTracker {
    /// Partitions that lack no more than the last changes, as their takers report.
    level: BTreeSet<PartitionId>,
    /// The epoch that was last considered.
    pub looked_at: Epoch,
    /// The epoch in which it was last considered where partitions are filled.
    pub refills_looked_at: Epoch,
    /// The servers of that look, and those that took nothing.
    looked_with: (Vec<Server>, BTreeSet<ServerId>),
    /// Tables that would have moved partitions at that look if there had been a place for them.
    wanting: BTreeSet<TableId>,
    /// How often servers were lost, and until when they take nothing after that.
    lost: BTreeMap<ServerId, (u32, u64)>,
}

impl MoveTracker {
    /// Forgets which partitions are level, because others begin to move.
    pub fn forget_level(&mut self) {
        self.level.clear();
    }

    /// Records that a server was replaced.
    pub fn note_lost(&mut self, server: ServerId) {
        let (losses, _) = self.lost.entry(server).or_default();
        *losses = (*losses + 1).min(LOSSES_MAX);
    }

    /// Records that a server has come back.
    fn note_back(&mut self, server: ServerId, now: ClockReading) {
        if let Some((losses, until_us)) = self.lost.get_mut(&server) {
            *until_us = now.monotonic_us + (DISTRUST_US << (*losses - 1));
        }
    }
}

impl Coordinator {
    /// Records that a server has joined or returned.
    pub(super) fn note_back(&mut self, id: ServerId, now: ClockReading) {
        self.moves.note_back(id, now);
        self.note_new(id);
    }

    /// Marks a server without partitions as new, so that it gets its share of them. Does nothing if
    /// there are no tables.
    fn note_new(&mut self, id: ServerId) {
        let is_new = !self.state.configuration.tables.is_empty() && !self.holds(id);
        let configuration = &mut self.state.configuration;
        let mut servers = configuration.servers.iter_mut();
        if let Some(server) = servers.find(|server| server.id == id) {
            server.is_new |= is_new;
        }
    }

    /// Returns the servers that are up, except some.
    pub(super) fn servers_up(&self, without: &BTreeSet<ServerId>) -> Vec<placement::PartitionHost> {
        let servers = self.state.configuration.servers.iter();
        let up = servers.filter(|it| it.state == ServerState::Up && !without.contains(&it.id));
        up.map(Server::bare).collect()
    }

    /// Returns the servers that may receive partitions, except some.
    pub(super) fn takers(&self, without: &BTreeSet<ServerId>) -> Vec<placement::PartitionHost> {
        let configuration = &self.state.configuration;
        let drains = |server: &placement::PartitionHost| {
            let server = configuration.server(ServerId(server.id));
            server.is_some_and(|server| server.is_draining)
        };
        let mut takers = self.servers_up(without);
        takers.retain(|server| !drains(server));
        takers
    }

    /// Drains a server or ends its drain, if possible. For drivers without operators.
    pub fn set_draining(
        &mut self,
        id: ServerId,
        is_draining: bool,
        output: &mut CoordinatorOutput,
    ) {
        if let Err(refused) = self.drain(id, is_draining, output) {
            output.notes.push(refused.message);
        }
    }

    /// Drains a server or ends its drain.
    pub(super) fn drain(
        &mut self,
        id: ServerId,
        is_draining: bool,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let servers = &mut self.state.configuration.servers;
        let index = servers.binary_search_by_key(&id, |server| server.id);
        let index = index.map_err(|_| super::members::unknown_server(id))?;
        if servers[index].is_draining == is_draining {
            return Ok(self.done_now());
        }
        if is_draining {
            self.check_drain(id)?;
        } else {
            self.stop_moves();
            self.note_new(id);
        }
        self.state.configuration.servers[index].is_draining = is_draining;
        let what = if is_draining {
            "is drained"
        } else {
            "is drained no longer"
        };
        output.notes.push(format!("server {} {what}", id.0));
        self.reconfigure(output);
        Ok(self.done_now())
    }

    /// Checks that the other servers can hold all partitions as tolerantly as the tables state.
    fn check_drain(&self, id: ServerId) -> Result<(), Refused> {
        if self.state.configuration.server(id).map(|it| it.state) == Some(ServerState::Down) {
            return Err(Refused::new(format!(
                "server {} is down: start it, or remove it if it will not come back",
                id.0
            )));
        }
        let takers = self.takers(&BTreeSet::from([id]));
        let mut loads = self.loads();
        for table in self.state.configuration.tables.iter() {
            let relocation = Relocation {
                layout: &table.layout,
                failures_tolerated: u32::from(table.schema.failures_tolerated),
                placement: &table.bare_placement(),
                servers: &takers,
                counted: &takers,
            };
            let cells = relocation.placement.cells_outside(&takers);
            if !cells.is_empty() && relocation.clear(&cells, &mut loads).is_none() {
                return Err(Refused::new(format!(
                    "without server {}, table {} would not survive the {} failures that it \
                     tolerates: start another server first",
                    id.0, table.schema.name, table.schema.failures_tolerated
                )));
            }
        }
        Ok(())
    }

    /// Cancels the moves of all partitions that have not been handed over: they stay at their
    /// cores.
    fn stop_moves(&mut self) {
        let tables = &mut self.state.configuration.tables;
        for id in moving_on(tables) {
            let table = tables.get_mut(id).expect("it was just found");
            for place in table.placement.iter_mut().flatten() {
                place.moving = place
                    .moving
                    .filter(|it| matches!(it, MoveProgress::From(_)));
            }
        }
    }

    /// Records which of a core's incoming partitions are level. The core's report has an epoch, and
    /// counts for the tables that have not changed since.
    pub(super) fn note_level(&mut self, (core, epoch): (CoreId, Epoch), filled: &[PartitionId]) {
        let configuration = &self.state.configuration;
        let taken = |id: &PartitionId| {
            let table = configuration.table(id.table);
            if table.is_none_or(|table| table.epoch > epoch || table.sealing.is_some()) {
                return false;
            }
            let place = configuration.place(*id);
            let moving = place.and_then(|place| place.moving);
            matches!(moving, Some(MoveProgress::To(next)) if next.core == core)
        };
        self.moves.level.retain(|id| !taken(id));
        self.moves
            .level
            .extend(filled.iter().filter(|id| taken(id)));
    }

    /// Begins the moves that are due, and hands over the partitions of tables whose moves are all
    /// level.
    pub(super) fn advance_moves(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        self.trust_again(now);
        let configuration = &self.state.configuration;
        let all_up = |server: &Server| server.state == ServerState::Up || !self.holds(server.id);
        if !configuration.servers.iter().all(all_up) {
            return;
        }
        let places = configuration
            .tables
            .unsettled()
            .flat_map(PlacedTable::places);
        let moving = places.filter(|(_, place)| place.moving.is_some());
        let moving: BTreeSet<PartitionId> = moving.map(|(id, _)| id).collect();
        if !moving.is_empty() || configuration.is_sealing() {
            let mut level = BTreeMap::new();
            let unsettled = configuration.tables.unsettled();
            for table in unsettled.filter(|it| it.sealing.is_none()) {
                let mut own = moving.iter().filter(|id| id.table == table.id).peekable();
                if own.peek().is_some() && own.all(|id| self.moves.level.contains(id)) {
                    level.insert(table.id, BTreeSet::new());
                }
            }
            if level.is_empty() {
                return;
            }
            if planted::is(Bug::RangesChangeAtOnce) {
                self.hand_over(|id| level.contains_key(&id), output);
                return self.reconfigure(output);
            }
            self.begin_seals(&level, output);
            return;
        }
        let is_rebuilt = {
            let mut places = configuration
                .tables
                .unsettled()
                .flat_map(PlacedTable::places);
            places.all(|(_, place)| place.state == PartitionState::Serving)
        };
        if !is_rebuilt && self.moves.refills_looked_at != configuration.epoch {
            self.begin_refills(output);
            self.moves.refills_looked_at = self.state.configuration.epoch;
        } else if is_rebuilt && self.moves.looked_at != configuration.epoch {
            self.begin_moves(output);
        } else if is_rebuilt && self.ranges.is_due {
            self.begin_transfers(output);
        }
    }

    /// Lets lost servers take partitions again once they have been back long enough.
    fn trust_again(&mut self, now: ClockReading) {
        for (_, until_us) in self.moves.lost.values_mut() {
            if *until_us > 0 && *until_us <= now.monotonic_us {
                *until_us = 0;
                self.moves.looked_at = Epoch(0);
            }
        }
    }

    fn begin_moves(&mut self, output: &mut CoordinatorOutput) {
        let lost = self.moves.lost.iter();
        let distrusted = lost.filter(|(_, (_, until_us))| *until_us > 0);
        let distrusted: BTreeSet<ServerId> = distrusted.map(|(id, _)| *id).collect();
        let without: BTreeSet<ServerId> = distrusted.union(&self.without_room()).copied().collect();
        let takers = self.takers(&without);
        let mut loads = self.loads();
        let epoch = Epoch(self.state.configuration.epoch.0 + 1);
        let mut is_new = false;
        for id in self.tables_to_look_at(without) {
            let batch = self.batch(id, &takers, &mut loads);
            if batch.is_empty() {
                continue;
            }
            is_new = true;
            let table = self.state.configuration.tables.get_mut(id);
            let table = table.expect("it was just looked at");
            let (name, count) = (&table.schema.name, batch.len());
            output
                .notes
                .push(format!("table {name}: {count} partitions move"));
            for ((replex, number), to) in batch {
                let core = CoreId::from(to);
                let moving = MoveProgress::To(Tenure { core, since: epoch });
                table.placement[replex][number].moving = Some(moving);
            }
        }
        if is_new {
            self.moves.level.clear();
            self.reconfigure(output);
        } else {
            self.end_newness(&takers, output);
        }
        self.moves.looked_at = self.state.configuration.epoch;
    }

    /// Records that these servers have received their share. From now on they may remove the other
    /// rows that are on their disks.
    fn end_newness(&mut self, of: &[placement::PartitionHost], output: &mut CoordinatorOutput) {
        let configuration = &mut self.state.configuration;
        let mut have_share = BTreeSet::new();
        for server in configuration.servers.iter_mut().filter(|it| it.is_new) {
            if of.iter().any(|taker| taker.id == server.id.0) {
                server.is_new = false;
                have_share.insert(server.id);
            }
        }
        if !have_share.is_empty() {
            configuration.forget_formers(&have_share);
            self.reconfigure(output);
        }
    }

    /// Returns the tables of which partitions may have to move. These are all tables if a new
    /// server is to get its share, or if the servers, or those of `without`, differ from the last
    /// call. Otherwise they are the tables that have changed since the last call, and the tables
    /// whose moves found no server then.
    fn tables_to_look_at(&mut self, without: BTreeSet<ServerId>) -> BTreeSet<TableId> {
        let configuration = &self.state.configuration;
        let with = (configuration.servers.clone(), without);
        let is_same = self.moves.looked_with == with && self.moves.looked_at != Epoch(0);
        let wanting = core::mem::take(&mut self.moves.wanting);
        let looked_at = self.moves.looked_at;
        let shares = with.0.iter().any(|server| server.is_new);
        self.moves.looked_with = with;
        if shares || !is_same {
            return configuration.tables.iter().map(|table| table.id).collect();
        }
        let changed = configuration.tables.changed_after(looked_at);
        let wanting = wanting.into_iter();
        let wanting = wanting.filter(|id| configuration.table(*id).is_some());
        changed.map(|table| table.id).chain(wanting).collect()
    }

    /// Returns the partitions of a table that move next, each with its new core.
    fn batch(
        &mut self,
        id: TableId,
        takers: &[placement::PartitionHost],
        loads: &mut Loads,
    ) -> Vec<(Cell, HostCore)> {
        let configuration = &self.state.configuration;
        let table = configuration.table(id).expect("callers have looked");
        let before = table.bare_placement();
        let all = self.servers_up(&BTreeSet::new());
        let staying = self.takers(&self.without_room());
        let relocation = Relocation {
            layout: &table.layout,
            failures_tolerated: u32::from(table.schema.failures_tolerated),
            placement: &before,
            servers: takers,
            counted: &all,
        };
        let cells = before.cells_outside(&staying);
        let tolerated =
            |placement: &Placement| prove(&table.layout, placement, &all).failures_tolerated();
        let needed = relocation.failures_tolerated;
        let now_tolerated = tolerated(&before);
        let target = if !cells.is_empty() {
            relocation.clear(&cells, loads)
        } else if now_tolerated < needed {
            relocation.heal(loads)
        } else {
            let is_new = |server: &&placement::PartitionHost| {
                let server = configuration.server(ServerId(server.id));
                server.is_some_and(|it| it.is_new)
            };
            let onto: Vec<placement::PartitionHost> =
                takers.iter().filter(is_new).cloned().collect();
            let given_back = self.given_back(table, &onto, tolerated);
            if !given_back.is_empty() {
                return given_back;
            }
            let parted = chosen(relocation, loads, |it, loads| it.part_twins(loads));
            if !parted.is_empty() {
                return parted;
            }
            return chosen(relocation, loads, |it, loads| it.even_out(&onto, loads));
        };
        let moves = target.map_or(Vec::new(), |target| before.moves_to(&target));
        if moves.is_empty() {
            self.moves.wanting.insert(id);
            return moves;
        }
        let least = now_tolerated.min(needed);
        at_a_time(moves, |moves| tolerated(&before.with(moves)) >= least)
    }

    /// Returns the partitions of a table that move back to the servers that had lost them, each
    /// with its core. The rows that have not changed since are still on their disks (R25).
    fn given_back(
        &self,
        table: &PlacedTable,
        onto: &[placement::PartitionHost],
        tolerated: impl Fn(&Placement) -> u32,
    ) -> Vec<(Cell, HostCore)> {
        let is_back = |core: &CoreId| {
            let mut servers = onto.iter();
            servers.any(|server| server.id == core.server.0 && core.core < server.cores)
        };
        let replexes = table.placement.iter().enumerate();
        let back = replexes.flat_map(|(replex, places)| {
            let places = places.iter().enumerate();
            places.filter_map(move |(number, place)| {
                let core = place.former.filter(is_back)?;
                let (server, core) = (core.server.0, core.core);
                Some(((replex, number), HostCore { server, core }))
            })
        });
        let back: Vec<(Cell, HostCore)> = back.collect();
        let before = table.bare_placement();
        let needed = tolerated(&before).min(u32::from(table.schema.failures_tolerated));
        let keeps = |moves: &[(Cell, HostCore)]| tolerated(&before.with(moves)) >= needed;
        let moves = at_a_time(back, keeps);
        if keeps(&moves) { moves } else { Vec::new() }
    }

    /// Cancels the moves of these tables' partitions that are not handed over. They are planned
    /// again once everything serves.
    pub(super) fn cancel_moves(
        &mut self,
        of: impl Fn(TableId) -> bool,
        output: &mut CoordinatorOutput,
    ) {
        let tables = &mut self.state.configuration.tables;
        let mut count = 0;
        for id in moving_on(tables).into_iter().filter(|id| of(*id)) {
            let table = tables.get_mut(id).expect("it was just found");
            let places = table.placement.iter_mut().flatten();
            for place in places.filter(|place| matches!(place.moving, Some(MoveProgress::To(_)))) {
                place.moving = None;
                count += 1;
            }
        }
        self.moves.level.retain(|id| !of(id.table));
        if count > 0 {
            output
                .notes
                .push(format!("{count} partitions do not move now"));
        }
    }

    /// Hands over level partitions of these tables to their takers, in the next epoch that serves.
    pub(super) fn hand_over(
        &mut self,
        of: impl Fn(TableId) -> bool,
        output: &mut CoordinatorOutput,
    ) {
        let mut count = 0;
        let up = self.servers_up(&BTreeSet::new());
        let is_up = |core: CoreId| up.iter().any(|server| server.id == core.server.0);
        let level: Vec<PartitionId> = {
            let level = self.moves.level.iter().copied();
            level.filter(|id| of(id.table)).collect()
        };
        for id in level {
            self.moves.level.remove(&id);
            let tables = &mut self.state.configuration.tables;
            let Some(table) = tables.get_mut(id.table) else {
                continue;
            };
            let places = table.placement.get_mut(usize::from(id.replex));
            let place = places.and_then(|places| places.get_mut(id.number as usize));
            if let Some(place) = place.filter(|it| it.tenures().all(|it| is_up(it.core)))
                && matches!(place.moving, Some(MoveProgress::To(_)))
            {
                count += 1;
                *place = place.handed_over();
                Coordinator::hand_over_ranges(table, id.replex, id.number);
            }
        }
        if count > 0 {
            let note = format!("{count} partitions are handed over");
            output.notes.push(note);
        }
    }

    /// Returns the time at which a recently lost server may receive partitions again.
    pub(super) fn moves_deadline_us(&self) -> Option<u64> {
        let lost = self.moves.lost.values();
        lost.map(|(_, until_us)| *until_us)
            .filter(|it| *it > 0)
            .min()
    }
}

/// Returns the tables with moving partitions that have not been handed over.
fn moving_on(tables: &PlacedTables) -> Vec<TableId> {
    let moves = |table: &&PlacedTable| {
        let mut places = table.placement.iter().flatten();
        places.any(|place| matches!(place.moving, Some(MoveProgress::To(_))))
    };
    let moving = tables.unsettled().filter(moves);
    moving.map(|table| table.id).collect()
}

/// Returns the first batch of the moves, or all moves if a batch alone does not satisfy `keeps`.
fn at_a_time(
    mut moves: Vec<(Cell, HostCore)>,
    keeps: impl Fn(&[(Cell, HostCore)]) -> bool,
) -> Vec<(Cell, HostCore)> {
    let first = moves.len().min(BATCH_MAX);
    if keeps(&moves[..first]) {
        moves.truncate(first);
    }
    moves
}

/// Returns moves that are chosen one after the other.
fn chosen(
    relocation: Relocation<'_>,
    loads: &mut Loads,
    next: impl Fn(&Relocation<'_>, &mut Loads) -> Option<(Cell, HostCore)>,
) -> Vec<(Cell, HostCore)> {
    let mut placement = relocation.placement.clone();
    let mut moves: Vec<(Cell, HostCore)> = Vec::new();
    for _ in 0..BATCH_MAX {
        let relocation = Relocation {
            placement: &placement,
            ..relocation
        };
        let Some((cell, to)) = next(&relocation, loads) else {
            break;
        };
        placement = placement.with(&[(cell, to)]);
        moves.push((cell, to));
    }
    relocation.placement.moves_to(&placement)
}
