//! Relieves servers whose disks have no room for writes. Their partitions move to servers with
//! room, if each table then still survives `failures_tolerated` failures.
//!
//! Cores report the room on their disks with each heartbeat. The coordinator does not store these
//! reports. A server without room receives no partitions, and gives batch after batch until it has
//! room again. Then it keeps its remaining partitions. Lost servers are replaced first, if
//! necessary onto a server with a full disk.
//!
//! A full server cannot complete what it is receiving. So moves to it are cancelled, and partitions
//! that are being filled there go to servers with room, once the earlier epochs of their table have
//! ended (R15). Otherwise these would wait for space on that disk, and everything else would wait
//! for them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{Cell, Placement, Relocation};
use protocol::configuration::{MoveProgress, PartitionState, Place, PlacedTable};
use protocol::identity::{CoreId, Epoch, ServerId, TableId};
use protocol::message::{Room, Shortage};

use super::{Coordinator, CoordinatorOutput};

impl Coordinator {
    /// Records the room on a core's disk.
    pub(super) fn note_room(&mut self, core: CoreId, room: Room, output: &mut CoordinatorOutput) {
        let server = core.server;
        let before = self.room_of(server);
        match room {
            Room::Free => self.rooms.remove(&core),
            room => self.rooms.insert(core, room),
        };
        let now = self.room_of(server);
        if (before == Room::Free) == (now == Room::Free) {
            return;
        }
        // The choice of partitions that move depends on the room.
        self.moves.looked_at = Epoch(0);
        self.moves.refills_looked_at = Epoch(0);
        if now != Room::Free {
            self.cancel_moves_to(server, output);
        }
        let text = match now {
            Room::Free => format!("server {} has room for writes again", server.0),
            _ => match self.obstacle_to_moves(server) {
                None => format!(
                    "server {} has no room for writes: its partitions move to servers with room",
                    server.0
                ),
                Some(why) => format!("server {} has no room for writes: {why}", server.0),
            },
        };
        output.notes.push(text);
    }

    /// Returns the least that a core of a server has room for.
    fn room_of(&self, server: ServerId) -> Room {
        let cores = self.rooms.iter().filter(|(core, _)| core.server == server);
        cores.map(|(_, room)| *room).max().unwrap_or_default()
    }

    /// Returns the servers that do not accept all writes.
    pub(super) fn without_room(&self) -> BTreeSet<ServerId> {
        self.rooms.keys().map(|core| core.server).collect()
    }

    /// Returns these servers with the reasons, for people.
    pub(super) fn shortages(&self) -> Vec<Shortage> {
        let servers = self.without_room().into_iter();
        let shortages = servers.map(|server| Shortage {
            server,
            room: self.room_of(server),
            stays: self.obstacle_to_moves(server),
        });
        shortages.collect()
    }

    /// Cancels the moves of the tables of which partitions move to a server.
    fn cancel_moves_to(&mut self, server: ServerId, output: &mut CoordinatorOutput) {
        let moves_to = |table: &&PlacedTable| {
            let mut places = table.placement.iter().flatten();
            places.any(|place| match place.moving {
                Some(MoveProgress::To(next)) => next.core.server == server,
                _ => false,
            })
        };
        let tables = self.state.configuration.tables.unsettled();
        let moving: BTreeSet<TableId> = tables.filter(moves_to).map(|table| table.id).collect();
        if !moving.is_empty() {
            self.cancel_moves(|table| moving.contains(&table), output);
            self.reconfigure(output);
        }
    }

    /// Ends the earlier epochs of the tables of which partitions are filled at servers without room
    /// although servers with room could hold them.
    pub(super) fn begin_refills(&mut self, output: &mut CoordinatorOutput) {
        if self.rooms.is_empty() {
            return;
        }
        let tables = self.state.configuration.tables.unsettled();
        let begun = tables.filter(|table| table.sealing.is_none() && self.refill(table).is_some());
        let begun: BTreeMap<TableId, BTreeSet<ServerId>> =
            begun.map(|table| (table.id, BTreeSet::new())).collect();
        if !begun.is_empty() {
            self.begin_seals(&begun, output);
        }
    }

    /// Assigns the partitions of a table that are filled at servers without room to servers with
    /// room, from `epoch` on.
    pub(super) fn refill_elsewhere(
        &mut self,
        id: TableId,
        epoch: Epoch,
        output: &mut CoordinatorOutput,
    ) {
        let table = self.state.configuration.table(id);
        let Some((cells, placement)) = table.and_then(|table| self.refill(table)) else {
            return;
        };
        let table = self.state.configuration.tables.get_mut(id);
        let table = table.expect("it was just found");
        for (replex, number) in &cells {
            let place = &mut table.placement[*replex][*number];
            *place = Place {
                core: CoreId::from(placement.replexes[*replex][*number]),
                since: epoch,
                ..*place
            };
        }
        output.notes.push(format!(
            "table {}: {} partitions are filled at servers with room instead",
            table.schema.name,
            cells.len()
        ));
    }

    /// Returns the partitions of a table that are filled at servers without room, and a placement
    /// that has them at servers with room. Returns none if there are no such partitions, or if the
    /// table would not survive the failures that it tolerates.
    fn refill(&self, table: &PlacedTable) -> Option<(Vec<Cell>, Placement)> {
        let full = self.without_room();
        let replexes = table.placement.iter().enumerate();
        let cells = replexes.flat_map(|(replex, places)| {
            let places = places.iter().enumerate();
            places.map(move |(number, place)| ((replex, number), place))
        });
        let is_held_up = |place: &Place| {
            place.state == PartitionState::Rebuilding
                && place.moving.is_none()
                && full.contains(&place.core.server)
        };
        let held_up = cells.filter(|(_, place)| is_held_up(place));
        let held_up: Vec<Cell> = held_up.map(|(cell, _)| cell).collect();
        let takers = self.takers(&full);
        if held_up.is_empty() || takers.is_empty() {
            return None;
        }
        let relocation = Relocation {
            layout: &table.layout,
            failures_tolerated: u32::from(table.schema.failures_tolerated),
            placement: &table.bare_placement(),
            servers: &takers,
            counted: &self.servers_up(&BTreeSet::new()),
        };
        let (placement, tolerated) = relocation.relocate(&held_up, &mut self.loads())?;
        (tolerated >= relocation.failures_tolerated).then_some((held_up, placement))
    }

    /// Returns the reason why the partitions of a server without room cannot move, if there is one.
    fn obstacle_to_moves(&self, server: ServerId) -> Option<String> {
        let takers = self.takers(&self.without_room());
        for table in self.state.configuration.tables.iter() {
            let placement = table.bare_placement();
            let mut places = placement.replexes.iter().flatten();
            if places.all(|place| place.server != server.0) {
                continue;
            }
            let relocation = Relocation {
                layout: &table.layout,
                failures_tolerated: u32::from(table.schema.failures_tolerated),
                placement: &placement,
                servers: &takers,
                counted: &takers,
            };
            let cells = placement.cells_outside(&takers);
            if relocation.clear(&cells, &mut self.loads()).is_none() {
                return Some(format!(
                    "servers with room cannot hold table {} so that it survives the {} failures that \
                     it tolerates, so its partitions stay: make room on the disk of server {}, or \
                     start another server",
                    table.schema.name, table.schema.failures_tolerated, server.0
                ));
            }
        }
        None
    }
}
