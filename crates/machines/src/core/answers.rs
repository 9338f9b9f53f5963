//! Sends replies to clients.

use protocol::identity::Position;
use protocol::message::{Refusal, Reply};

use crate::core::CoreMachine;
use crate::core::contract::{ClientId, ClientReply, CoreOutput};

/// The destination of a reply to a client: its connection and the correlation of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyDestination {
    pub client: ClientId,
    pub correlation: u64,
}

impl CoreMachine {
    /// Refuses a client's request. The reply need not wait for the log.
    pub(crate) fn refuse(
        &self,
        asker: ReplyDestination,
        refusal: Refusal,
        output: &mut CoreOutput,
    ) {
        self.answer(asker, Position(0), None, Reply::Refused(refusal), output);
    }

    /// Replies to a client once the log is durable up to `after`. If the given lease has ended by
    /// then, the driver refuses instead.
    pub(crate) fn answer(
        &self,
        asker: ReplyDestination,
        after: Position,
        valid_until_us: Option<u64>,
        reply: Reply,
        output: &mut CoreOutput,
    ) {
        output.replies.push(ClientReply {
            client: asker.client,
            correlation: asker.correlation,
            after,
            valid_until_us,
            reply,
        });
    }
}
