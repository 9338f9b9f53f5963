//! The phases of a session, each with what exists in it alone.

use alloc::boxed::Box;
use core::mem::{replace, take};

use super::action::{BatchIn, Ending};
use super::block::{Block, Snapshots};
use super::elsewhere::{Failure, Waiting};
use super::held::Held;
use super::link::{Link, Status};
use super::{Leftover, Session};
use pg_wire::report::Report;

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

/// A transaction that the client has begun, if it is not on the server that is attached.
#[derive(Debug, Default)]
pub(super) enum Transaction {
    /// There is none.
    #[default]
    None,
    /// It is on no server.
    Deferred(Block),
    /// It is on the primary, and its next batch gathers or runs elsewhere.
    Waiting(Box<Waiting>),
}

impl Transaction {
    /// Returns the status of the transaction as it was reported to the client.
    pub fn status(&self) -> Status {
        match self {
            Transaction::None => Status::Idle,
            Transaction::Deferred(block) if block.is_failed => Status::Failed,
            Transaction::Deferred(_) | Transaction::Waiting(_) => Status::Inside,
        }
    }

    pub fn is_none(&self) -> bool {
        matches!(self, Transaction::None)
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self, Transaction::Waiting(_))
    }

    /// Returns in which transaction a batch waits for a server.
    pub fn batch_in(&self) -> BatchIn {
        match self {
            Transaction::None => BatchIn::NoTransaction,
            Transaction::Deferred(block) => match block.snapshots {
                Snapshots::OfStatements => BatchIn::Deferred,
                Snapshots::OfTransaction => BatchIn::Snapshot,
            },
            Transaction::Waiting(_) => BatchIn::Waiting,
        }
    }

    /// Notes that an error was sent to the client.
    pub fn fails(&mut self) {
        if let Transaction::Deferred(block) = self {
            block.fails();
        }
    }

    /// Returns why nothing more runs in the transaction.
    pub fn failure(&self) -> Option<Report> {
        match self {
            Transaction::Deferred(block) => block.failure(),
            Transaction::None | Transaction::Waiting(_) => None,
        }
    }

    /// Has the transaction failed, on no server, and was the client sent the error?
    pub fn has_failed_here(&self) -> bool {
        matches!(self, Transaction::Deferred(block) if block.is_reported())
    }

    /// Returns what would be left to do on its server.
    fn leftover(&self) -> Leftover {
        match self {
            Transaction::Waiting(_) => Leftover::Transaction,
            Transaction::None | Transaction::Deferred(_) => Leftover::Nothing,
        }
    }
}

impl Phase {
    /// A session without a server, of whose next batch nothing has come.
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
            other => panic!("no batch waits for a server: {other:?}"),
        }
    }

    /// Takes the server that is attached.
    pub(super) fn take_link(&mut self) -> Link {
        let ended = Phase::Ended(Ending::Server, Leftover::Nothing);
        match replace(&mut self.phase, ended) {
            Phase::Attached(link) => link,
            other => panic!("no server is attached: {other:?}"),
        }
    }
}

impl Gathering {
    /// Takes everything: the batch, and its transaction.
    pub fn take(&mut self) -> (Transaction, Held) {
        (take(&mut self.transaction), take(&mut self.held))
    }
}
