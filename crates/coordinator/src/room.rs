//! Relieves servers whose disks have no room for writes. Their partitions move to servers with
//! room, if each table then still survives `failures_tolerated` failures.
//!
//! Cores report the room on their disks with each heartbeat. The coordinator does not store these
//! reports. A server without room receives no partitions, and gives batch after batch until it has
//! room again. Then it keeps its remaining partitions. Lost servers are replaced first, if
//! necessary onto a server with a full disk.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::Relocation;
use protocol::identity::{CoreId, Epoch, ServerId};
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
