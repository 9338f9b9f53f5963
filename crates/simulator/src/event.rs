//! The queue of events, ordered by their time, and for equal times by the order in which they were
//! added.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ::coordinator::CoordinatorAnswer;
use machines::core::ClientReply;
use protocol::identity::{CoreId, Epoch, Position};
use protocol::message::{
    CoordinatorReply, CoordinatorRequest, PeerHeader, PeerMessage, Reply, Request,
};
use session::{SessionOperation, Ticket};

use crate::fault::Fault;
use crate::network::Node;

/// An event in the queue.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message arrives.
    Arrive(Packet),
    /// A core's deadline.
    CoreTick(CoreLife),
    /// A flush ends.
    Flushed {
        /// The core whose log was flushed.
        life: CoreLife,
        /// The position up to which it made the log durable.
        target: Position,
        /// Whether the flush has failed.
        failed: bool,
    },
    /// The written records are to be flushed at last (`replicated`).
    FlushDue(CoreLife),
    /// A reply is about to be written to the client's socket.
    ReplyLeaves(CoreLife, ClientReply),
    /// A checkpoint is taken.
    Checkpoint(CoreLife),
    /// The coordinator's deadline, for this process of the coordinator.
    CoordinatorTick(u64),
    /// The coordinator's state is durable up to this version, for this process of the coordinator.
    CoordinatorKept(u64, u64),
    /// An answer is sent that a coordinator computed while it led.
    LateAnswer(CoordinatorAnswer),
    /// A client submits an operation for which it has chosen a copy earlier.
    Submit(u64, Ticket, SessionOperation, u64),
    /// A server's process starts.
    Start(usize),
    /// A server's process is killed, unless faults have stopped.
    Die(usize),
    /// The power fails everywhere, at a moment that was chosen.
    Cut,
    /// A server's process is killed, and stays down for long.
    Lose(usize),
    /// The rolling restart reaches this server.
    Roll(usize),
    /// A starting server asks the coordinator again, for this process of the server.
    JoinAgain(usize, u64),
    /// A core reopens its connection to another core.
    Connect {
        /// Whose.
        from: CoreLife,
        /// The receiver.
        to: CoreId,
    },
    /// Waiting clients should now know an epoch that this process of the coordinator first sent
    /// some time ago.
    NewsDue(Epoch, u64, u64),
    /// A client begins its next operation, or handles its deadline.
    ClientWakes(u64),
    /// A connection attempt of a client succeeds or fails.
    ClientConnects(u64, CoreId),
    /// A client learns that one of its connections has ended.
    ClientDisconnected(u64, CoreId),
    /// A core learns that a client's connection has ended.
    ClientGone(CoreLife, u64),
    /// A fault begins. The next fault of the same kind is then scheduled.
    Fault(Fault),
    /// A full disk has space again.
    Space(CoreLife),
}

/// One life of one core, from a start of its server to its end. Events for an earlier life are
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreLife {
    /// The core.
    pub core: CoreId,
    /// Counts the starts of its server.
    pub life: u64,
}

/// A message in flight.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The sender.
    pub from: Node,
    /// The receiver.
    pub to: Node,
    /// The connection on which it was sent. A later connection does not deliver it.
    pub connection: u64,
    /// The content.
    pub content: PacketContent,
}

/// The contents of a message.
#[derive(Clone, Debug)]
pub enum PacketContent {
    /// From a core to another core, with the life of the receiver to which the connection was
    /// opened.
    Peer(PeerHeader, PeerMessage, u64),
    /// From a client to a core, with its correlation and the core's life.
    Request(u64, Request, u64),
    /// From a core to a client.
    Reply(u64, Reply),
    /// To the coordinator, with a correlation and the sender's life.
    Ask(u64, CoordinatorRequest, u64),
    /// From the coordinator, with the correlation and the receiver's life.
    Answer(u64, CoordinatorReply, u64),
}

/// The queue of future events, in the order of their times.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Entry>,
    sequence: u64,
}

impl EventQueue {
    /// Adds an event.
    pub fn push(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        let event = Box::new(event);
        self.heap.push(Entry {
            at_us,
            sequence: self.sequence,
            event,
        });
    }

    /// Removes and returns the next event, with its time; none if the queue is empty.
    pub fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|entry| (entry.at_us, *entry.event))
    }

    /// Returns the time of the next event; none if the queue is empty.
    pub fn next_at_us(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at_us)
    }

    /// Returns the number of events in the queue.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[derive(Debug)]
struct Entry {
    at_us: u64,
    sequence: u64,
    /// Boxed, because the heap moves its entries about.
    event: Box<Event>,
}

impl Ord for Entry {
    /// Compares in reverse order: the heap returns the greatest entry first, and the earliest is to
    /// be it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.sequence).cmp(&(self.at_us, self.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_order() {
        let mut queue = EventQueue::default();
        for (at, name) in [(5, 1), (3, 2), (5, 3), (3, 4)] {
            queue.push(at, Event::ClientWakes(name));
        }
        let mut seen = Vec::new();
        while let Some((at, Event::ClientWakes(name))) = queue.pop() {
            seen.push((at, name));
        }
        assert_eq!(seen, [(3, 2), (3, 4), (5, 1), (5, 3)]);
        assert!(queue.is_empty());
    }
}
