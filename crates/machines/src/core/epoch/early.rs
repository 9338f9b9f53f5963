//! Keeps messages of peers that have begun an epoch of a table earlier than this core.
//!
//! Cores learn of a new epoch some milliseconds apart. A message that arrives too early is kept
//! until this core has begun the epoch, as if the network had delayed it (R15). Otherwise the peer
//! would repeat it only after `CoreLimits::retry_us`, and operations would be blocked for that long
//! at each change of a table.

use alloc::vec::Vec;

use protocol::codec::Wire;
use protocol::message::{PeerHeader, PeerMessage};

/// The most bytes of kept messages. Further ones are dropped, and the peers repeat them.
const BYTES_MAX: usize = 8 << 20;

/// The messages that arrived too early, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct EarlyMessages {
    messages: Vec<(PeerHeader, PeerMessage)>,
    bytes: usize,
}

impl EarlyMessages {
    /// Keeps a message, if there is room. Returns whether there was.
    pub fn keep(&mut self, header: PeerHeader, message: PeerMessage) -> bool {
        let bytes = message.to_bytes().len();
        if self.bytes + bytes > BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        self.messages.push((header, message));
        true
    }

    /// Removes and returns all messages, because this core has begun an epoch.
    pub fn take(&mut self) -> Vec<(PeerHeader, PeerMessage)> {
        core::mem::take(self).messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use protocol::codec::Bytes;
    use protocol::identity::{CoreId, Epoch, Incarnation, PartitionId, ServerId, TableId};

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let id = PartitionId {
            table: TableId(1),
            replex: 0,
            number: 0,
        };
        let header = PeerHeader {
            from: CoreId {
                server: ServerId(1),
                core: 0,
            },
            incarnation: Incarnation(1),
            epoch: Epoch(2),
            table_epoch: Epoch(2),
        };
        let message = PeerMessage::Copy {
            of: vec![id],
            from: id,
            start: Bytes(vec![0; BYTES_MAX / 4]),
        };
        let mut early = EarlyMessages::default();
        let kept = (0..5).filter(|_| early.keep(header, message.clone()));
        assert_eq!(kept.count(), 3);
        assert_eq!(early.take().len(), 3);
        assert!(early.keep(header, message), "there is room again");
    }
}
