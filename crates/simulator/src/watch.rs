//! Watches one table: counts the messages of its operations, and records the answers that a client
//! receives.

use std::collections::BTreeMap;

use protocol::identity::TableId;
use protocol::message::{PeerMessage, Reply};

use crate::event::PacketContent;
use crate::network::Node;

/// The traffic of one table, and the answers about it that a client receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The table.
    pub table: TableId,
    /// Its place in the world.
    pub place: usize,
    /// The client.
    pub client: u64,
    /// Messages of the table's operations, by kind.
    pub messages: BTreeMap<&'static str, u64>,
    /// Each answer to the client, with its time.
    pub answers: BTreeMap<u64, (u64, String)>,
}

impl Watch {
    /// Counts a message that concerns the table. Reports of durability are not counted: a core
    /// sends them for many operations at a time, after the clients have their answers.
    pub fn sent(&mut self, from: Node, to: Node, content: &PacketContent) {
        let client = Node::Client(self.client);
        let kind = match content {
            PacketContent::Peer(_, message, _) if message.table() == Some(self.table) => {
                match message {
                    PeerMessage::Durable { .. } | PeerMessage::Confirm { .. } => return,
                    PeerMessage::Prepare(_) => "prepare",
                    PeerMessage::Decision { .. } | PeerMessage::Settled { .. } => "decision",
                    PeerMessage::Reported { .. } => "report",
                    _ => "repair",
                }
            }
            PacketContent::Request(..) if from == client => "request",
            PacketContent::Reply(_, Reply::Refused(_)) if to == client => "refusal",
            PacketContent::Reply(..) if to == client => "reply",
            _ => return,
        };
        *self.messages.entry(kind).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use protocol::identity::Epoch;

    use super::*;

    #[test]
    fn a_message_more_is_noticed() {
        let prepare = crate::ledger::testing::prepare(1, &[]);
        let mut watch = Watch {
            table: prepare.table,
            place: 0,
            client: 1,
            messages: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        let core = Node::Core(crate::ledger::testing::core(1));
        let header = protocol::message::PeerHeader {
            from: crate::ledger::testing::core(1),
            incarnation: Default::default(),
            epoch: Epoch(1),
            table_epoch: Epoch(1),
        };
        let message = PeerMessage::Prepare(prepare);
        let content = PacketContent::Peer(header, message, 1);
        watch.sent(core, core, &content);
        watch.sent(core, core, &content);
        assert_eq!(watch.messages, BTreeMap::from([("prepare", 2)]));
        watch.table = TableId(99);
        watch.sent(core, core, &content);
        assert_eq!(watch.messages, BTreeMap::from([("prepare", 2)]));
    }
}
