//! Prints the trace of one seed, line by line, for `--trace`.

use crate::event::PacketContent;
use crate::network::{Arrivals, Node};

/// The output of the history: standard output, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace {
    /// Whether the history is printed.
    pub on: bool,
}

impl Trace {
    /// Prints something.
    pub fn note(&self, now_us: u64, text: impl FnOnce() -> String) {
        if self.on {
            println!("{now_us:>10} {}", text());
        }
    }

    /// Prints a message that is sent.
    pub fn sent(
        &self,
        now_us: u64,
        from: Node,
        to: Node,
        content: &PacketContent,
        arrivals: Arrivals,
    ) {
        if is_upkeep(content) {
            return;
        }
        match arrivals {
            [None, _] => self.note(now_us, || {
                format!("{from} → {to} LOST: {}", describe(content))
            }),
            [Some(at_us), None] => {
                self.note(now_us, || {
                    format!("{from} → {to} (at {at_us}): {}", describe(content))
                });
            }
            [Some(first), Some(second)] => self.note(now_us, || {
                format!(
                    "{from} → {to} TWICE (at {first}, {second}): {}",
                    describe(content)
                )
            }),
        }
    }

    /// Prints a message that arrives.
    pub fn arrived(&self, now_us: u64, from: Node, to: Node, content: &PacketContent) {
        if !is_upkeep(content) {
            self.note(now_us, || format!("{to} ← {from}: {}", describe(content)));
        }
    }
}

/// Heartbeats and the like would drown the rest.
fn is_upkeep(content: &PacketContent) -> bool {
    use protocol::message::{CoordinatorReply, CoordinatorRequest, PeerMessage};
    match content {
        PacketContent::Peer(_, message, _) => {
            matches!(
                message,
                PeerMessage::LeaseRequest { .. } | PeerMessage::LeaseGrant { .. }
            )
        }
        PacketContent::Ask(_, request, _) => {
            matches!(request, CoordinatorRequest::Heartbeat { .. })
        }
        PacketContent::Answer(_, reply, _) => matches!(reply, CoordinatorReply::Beat { .. }),
        PacketContent::Request(..) | PacketContent::Reply(..) => false,
    }
}

fn describe(content: &PacketContent) -> String {
    use protocol::message::CoordinatorReply;
    match content {
        PacketContent::Peer(header, message, _) => {
            format!(
                "epoch {} incarnation {} {message:?}",
                header.epoch.0, header.incarnation.0
            )
        }
        PacketContent::Request(correlation, request, _) => format!("#{correlation} {request:?}"),
        PacketContent::Reply(correlation, reply) => format!("#{correlation} {reply:?}"),
        PacketContent::Ask(_, request, _) => format!("{request:?}"),
        PacketContent::Answer(_, reply, _) => match reply {
            CoordinatorReply::Configuration(configuration) => {
                format!("configuration of epoch {}", configuration.epoch.0)
            }
            CoordinatorReply::Changes(changes) => format!(
                "changes from epoch {} to {}: tables {:?}, without {:?}",
                changes.since.0,
                changes.epoch.0,
                changes
                    .tables
                    .iter()
                    .map(|table| table.id.0)
                    .collect::<Vec<_>>(),
                changes.dropped
            ),
            CoordinatorReply::Joined {
                server,
                incarnation,
                configuration,
                ..
            } => format!(
                "joined as server {} incarnation {} in epoch {}",
                server.0, incarnation.0, configuration.epoch.0
            ),
            reply => format!("{reply:?}"),
        },
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Node::Core(core) => write!(f, "{core}"),
            Node::Starting(place) => write!(f, "machine {place}"),
            Node::Coordinator => write!(f, "coordinator"),
            Node::Client(client) => write!(f, "client {client}"),
        }
    }
}
