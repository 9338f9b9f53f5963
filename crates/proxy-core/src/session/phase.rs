//! The phases of a session, each with what exists in it alone.

use core::mem::{replace, take};

use super::action::Ending;
use super::batch::Failure;
use super::held::Held;
use super::link::{Link, Transaction};
use super::{Leftover, Session};

/// What a session does.
#[derive(Debug)]
pub(super) enum Phase {
    /// No server is attached, and a batch gathers, or none has begun.
    Gathering(Gathering),
    /// No server is attached, and what the client sends is skipped, up to Sync.
    Skipping(Transaction),
    /// A batch waits for a server.
    Wanting(Wanting),
    /// A server runs a batch, is inside of a transaction, or belongs to the session.
    Attached(Link),
    /// It has ended.
    Ended(Ending, Leftover),
}

/// What a session without a server has.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    pub transaction: Transaction,
    pub held: Held,
}

/// A batch that waits for a server.
#[derive(Debug)]
pub(super) struct Wanting {
    pub transaction: Transaction,
    pub held: Held,
    /// Why the batch has come back from a replica, if it was there.
    pub failure: Option<Failure>,
}

impl Phase {
    /// Returns the phase of a session without a server, of whose next batch nothing has come.
    pub fn empty(transaction: Transaction) -> Phase {
        Phase::Gathering(Gathering {
            transaction,
            held: Held::default(),
        })
    }

    /// Returns what is left to do on the server if the session ended now.
    pub fn leftover(&self) -> Leftover {
        match self {
            Phase::Gathering(Gathering { transaction, .. })
            | Phase::Skipping(transaction)
            | Phase::Wanting(Wanting { transaction, .. }) => transaction.leftover(),
            Phase::Attached(link) => link.leftover(),
            Phase::Ended(_, leftover) => *leftover,
        }
    }

    /// Returns the connection to the server that sends messages: the one that is attached, or the
    /// primary's of a transaction that waits.
    pub fn link_mut(&mut self) -> Option<&mut Link> {
        match self {
            Phase::Attached(link) => Some(link),
            Phase::Gathering(Gathering { transaction, .. })
            | Phase::Skipping(transaction)
            | Phase::Wanting(Wanting { transaction, .. }) => match transaction {
                Transaction::Waiting(waiting) => Some(&mut waiting.link),
                Transaction::None | Transaction::Deferred(_) => None,
            },
            Phase::Ended(..) => None,
        }
    }
}

impl Session {
    /// Ends the session.
    pub(super) fn ends(&mut self, by: Ending) {
        self.phase = Phase::Ended(by, self.phase.leftover());
    }

    /// Takes the batch that waits, for which there is a server, or none.
    pub(super) fn take_wanting(&mut self) -> Wanting {
        let ended = Phase::Ended(Ending::Server, Leftover::Nothing);
        match replace(&mut self.phase, ended) {
            Phase::Wanting(wanting) => wanting,
            _ => panic!("no batch waits for a server"),
        }
    }

    /// Takes the server that is attached.
    pub(super) fn take_link(&mut self) -> Link {
        let ended = Phase::Ended(Ending::Server, Leftover::Nothing);
        match replace(&mut self.phase, ended) {
            Phase::Attached(link) => link,
            _ => panic!("no server is attached"),
        }
    }
}

impl Gathering {
    /// Takes everything: the batch, and its transaction.
    pub fn take(&mut self) -> (Transaction, Held) {
        (take(&mut self.transaction), take(&mut self.held))
    }
}
