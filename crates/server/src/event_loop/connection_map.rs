//! Stores a handler's state of each connection, and finds it without hashing. The low bits of a
//! [`ConnectionId`] are the slot, and the whole id distinguishes the connection from an earlier one
//! in the same slot.

use super::ConnectionId;
use super::io::slot_of;

/// A map from the connections of one loop to `T`.
#[derive(Debug)]
pub struct ConnectionMap<T> {
    slots: Vec<Option<(ConnectionId, T)>>,
}

impl<T> Default for ConnectionMap<T> {
    fn default() -> Self {
        ConnectionMap { slots: Vec::new() }
    }
}

impl<T> ConnectionMap<T> {
    /// Sets the value of a connection.
    pub fn insert(&mut self, id: ConnectionId, value: T) {
        let slot = slot_of(id);
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some((id, value));
    }

    /// Returns the value of a connection.
    pub fn get(&self, id: ConnectionId) -> Option<&T> {
        let (owner, value) = self.slots.get(slot_of(id))?.as_ref()?;
        (*owner == id).then_some(value)
    }

    /// Removes and returns the value of a connection.
    pub fn remove(&mut self, id: ConnectionId) -> Option<T> {
        let slot = self.slots.get_mut(slot_of(id))?;
        let (_, value) = slot.take_if(|(owner, _)| *owner == id)?;
        Some(value)
    }

    /// Returns the number of connections for which `holds` is true.
    pub fn count(&self, holds: impl Fn(&T) -> bool) -> usize {
        let values = self.slots.iter().flatten();
        values.filter(|(_, value)| holds(value)).count()
    }
}
