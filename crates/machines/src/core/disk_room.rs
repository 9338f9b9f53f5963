//! Tracks the room on the disks of this core and of its peers.

use alloc::collections::BTreeMap;

use protocol::identity::CoreId;
use protocol::message::Room;

/// The room on the disks of this core and of its peers.
#[derive(Debug, Default)]
pub(crate) struct DiskRoom {
    own: Room,
    /// Of the peers that reported less than [`Room::Free`]; the others have room for all writes.
    peers: BTreeMap<CoreId, Room>,
}

impl DiskRoom {
    /// Returns the room on this core's disk.
    pub fn own(&self) -> Room {
        self.own
    }

    /// Sets the room on this core's disk.
    pub fn set_own(&mut self, room: Room) {
        self.own = room;
    }

    /// Returns the room on a peer's disk, as it last reported.
    pub fn of_peer(&self, core: CoreId) -> Room {
        self.peers.get(&core).copied().unwrap_or_default()
    }

    /// Sets the room that a peer reports.
    pub fn set_peer(&mut self, core: CoreId, room: Room) {
        match room {
            Room::Free => self.peers.remove(&core),
            room => self.peers.insert(core, room),
        };
    }

    /// Returns whether all known disks have room for all writes.
    pub fn is_free_everywhere(&self) -> bool {
        self.own == Room::Free && self.peers.is_empty()
    }
}
