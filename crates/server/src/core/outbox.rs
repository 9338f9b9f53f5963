//! Queues messages and replies until a record of the log is durable.
//!
//! Messages arrive nearly in the order of their positions, so a queue that is sorted from its end
//! is cheap. Messages with equal positions keep their order. The queue needs no limit of its own,
//! because each entry belongs to an operation or a request, whose number the machine limits.

use std::collections::VecDeque;

use machines::core::{ClientReply, PeerSend};
use protocol::identity::Position;

/// A message that waits until the log is durable.
#[derive(Debug)]
pub(super) enum DelayedMessage {
    /// To a peer.
    Message(PeerSend),
    /// To a client.
    Reply(ClientReply),
}

impl DelayedMessage {
    fn after(&self) -> Position {
        match self {
            DelayedMessage::Message(send) => send.after,
            DelayedMessage::Reply(reply) => reply.after,
        }
    }
}

/// All messages and replies that wait for the log.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<DelayedMessage>,
}

impl Outbox {
    pub fn push(&mut self, message: DelayedMessage) {
        let after = message.after();
        let behind = self.queue.iter().rev();
        let later = behind.take_while(|other| other.after() > after).count();
        self.queue.insert(self.queue.len() - later, message);
    }

    /// Removes and returns the next message whose record is durable.
    pub fn pop(&mut self, durable: Position) -> Option<DelayedMessage> {
        let first = self.queue.front()?;
        if first.after() > durable {
            return None;
        }
        self.queue.pop_front()
    }

    pub fn holds_replies(&self) -> bool {
        let mut queue = self.queue.iter();
        queue.any(|message| matches!(message, DelayedMessage::Reply(_)))
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::identity::{CoreId, FinishedLine};
    use protocol::message::{PeerMessage, Room};

    fn delayed(after: u64, mark: u64) -> DelayedMessage {
        DelayedMessage::Message(PeerSend {
            to: CoreId::default(),
            after: Position(after),
            message: PeerMessage::LeaseRequest {
                sent_us: mark,
                room: Room::Free,
                finished_below: FinishedLine::default(),
            },
        })
    }

    #[test]
    fn leaves_in_order_of_positions_then_of_arrival() {
        let mut outbox = Outbox::default();
        for (after, mark) in [(3, 0), (1, 1), (2, 2), (3, 3), (1, 4), (9, 5)] {
            outbox.push(delayed(after, mark));
        }
        let mut marks = Vec::new();
        while let Some(message) = outbox.pop(Position(3)) {
            let DelayedMessage::Message(send) = message else {
                panic!("only messages were put in");
            };
            let PeerMessage::LeaseRequest { sent_us, .. } = send.message else {
                panic!("only lease requests were put in");
            };
            marks.push(sent_us);
        }
        assert_eq!(marks, [1, 4, 2, 0, 3]);
        assert_eq!(outbox.len(), 1);
        assert!(!outbox.holds_replies());
    }
}
