//! The phases of a session, each with its own data.

use core::mem::{replace, take};

use super::action::SessionEnding;
use super::batch::BatchFailure;
use super::held_messages::HeldMessages;
use super::link::{DetachedTransaction, ServerLink};
use super::{Session, SessionLeftover};

/// The phase of a session.
#[derive(Debug)]
pub(super) enum SessionPhase {
    /// No server is attached. The next batch is incomplete, or has not begun.
    Gathering(GatheringPhase),
    /// No server is attached. The client's messages are skipped, up to Sync.
    Skipping(DetachedTransaction),
    /// A batch waits for a server.
    Wanting(WantingPhase),
    /// A server is attached: it runs a batch, is inside a transaction, or is kept by the session.
    Attached(ServerLink),
    /// It has ended.
    Ended(SessionEnding, SessionLeftover),
}

/// The state of a session without a server.
#[derive(Debug, Default)]
pub(super) struct GatheringPhase {
    pub transaction: DetachedTransaction,
    pub held: HeldMessages,
}

/// A batch that waits for a server.
#[derive(Debug)]
pub(super) struct WantingPhase {
    pub transaction: DetachedTransaction,
    pub held: HeldMessages,
    /// The failure of the batch at a replica, if the batch ran at a replica.
    pub failure: Option<BatchFailure>,
}

impl SessionPhase {
    /// Returns the phase of a session without a server, before its next batch begins.
    pub fn empty(transaction: DetachedTransaction) -> SessionPhase {
        SessionPhase::Gathering(GatheringPhase {
            transaction,
            held: HeldMessages::default(),
        })
    }

    /// Returns the work that would be unfinished on the server if the session ended now.
    pub fn leftover(&self) -> SessionLeftover {
        match self {
            SessionPhase::Gathering(GatheringPhase { transaction, .. })
            | SessionPhase::Skipping(transaction)
            | SessionPhase::Wanting(WantingPhase { transaction, .. }) => transaction.leftover(),
            SessionPhase::Attached(link) => link.leftover(),
            SessionPhase::Ended(_, leftover) => *leftover,
        }
    }

    /// Returns the connection to the server that sends messages: the attached server, or the
    /// primary of a waiting transaction.
    pub fn link_mut(&mut self) -> Option<&mut ServerLink> {
        match self {
            SessionPhase::Attached(link) => Some(link),
            SessionPhase::Gathering(GatheringPhase { transaction, .. })
            | SessionPhase::Skipping(transaction)
            | SessionPhase::Wanting(WantingPhase { transaction, .. }) => match transaction {
                DetachedTransaction::Waiting(waiting) => Some(&mut waiting.link),
                DetachedTransaction::None | DetachedTransaction::Deferred(_) => None,
            },
            SessionPhase::Ended(..) => None,
        }
    }
}

impl Session {
    /// Ends the session.
    pub(super) fn ends(&mut self, by: SessionEnding) {
        self.phase = SessionPhase::Ended(by, self.phase.leftover());
    }

    /// Removes and returns the waiting batch.
    pub(super) fn take_wanting(&mut self) -> WantingPhase {
        let ended = SessionPhase::Ended(SessionEnding::Server, SessionLeftover::Nothing);
        match replace(&mut self.phase, ended) {
            SessionPhase::Wanting(wanting) => wanting,
            _ => panic!("no batch waits for a server"),
        }
    }

    /// Removes and returns the attached server.
    pub(super) fn take_link(&mut self) -> ServerLink {
        let ended = SessionPhase::Ended(SessionEnding::Server, SessionLeftover::Nothing);
        match replace(&mut self.phase, ended) {
            SessionPhase::Attached(link) => link,
            _ => panic!("no server is attached"),
        }
    }
}

impl GatheringPhase {
    /// Removes and returns the transaction and the held batch.
    pub fn take(&mut self) -> (DetachedTransaction, HeldMessages) {
        (take(&mut self.transaction), take(&mut self.held))
    }
}
