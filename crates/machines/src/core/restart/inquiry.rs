//! Collects the answers of other cores to a question. A core accepts an answer completely or not at
//! all.
//!
//! An answer consists of several messages, and an end with their count. Parts of two answers cannot
//! be combined, because a peer's report can change between them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use protocol::identity::{CoreId, OperationId, Position, TableId};
use protocol::message::PeerMessage;

use crate::core::contract::{CoreOutput, PeerSend};

/// Questions to one peer whose answers are still listened to.
const ATTEMPTS_MAX: usize = 16;

/// The kind of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The votes and decisions that this core may have forgotten.
    Forgotten,
    /// The contents of the peer's log.
    Sealed,
}

/// The questions to the peers about a table, and the state of their answers.
#[derive(Debug)]
pub(crate) struct Inquiry {
    question: Question,
    table: TableId,
    next_attempt: u64,
    /// By peer, by question.
    peers: BTreeMap<CoreId, BTreeMap<u64, PartialAnswer>>,
}

#[derive(Debug, Default)]
struct PartialAnswer {
    operations: BTreeSet<(OperationId, usize)>,
    count: Option<u64>,
}

impl PartialAnswer {
    fn is_complete(&self) -> bool {
        self.count
            .is_some_and(|count| self.operations.len() as u64 >= count)
    }
}

impl Inquiry {
    /// Returns an inquiry in which no peer has been asked yet.
    pub fn new(question: Question, table: TableId, peers: impl Iterator<Item = CoreId>) -> Inquiry {
        Inquiry {
            question,
            table,
            next_attempt: 1,
            peers: peers.map(|core| (core, BTreeMap::new())).collect(),
        }
    }

    /// Starts again, with these peers.
    pub fn restart(&mut self, peers: impl Iterator<Item = CoreId>) {
        self.peers = peers.map(|core| (core, BTreeMap::new())).collect();
    }

    /// Asks just these peers from now on. Keeps what those have answered that were asked before.
    /// Returns whether there is a new one.
    pub fn set_peers(&mut self, peers: &BTreeSet<CoreId>) -> bool {
        self.peers.retain(|core, _| peers.contains(core));
        let known = self.peers.len();
        for core in peers {
            self.peers.entry(*core).or_default();
        }
        self.peers.len() > known
    }

    /// Asks all peers that have not reported completely.
    pub fn ask_all(&mut self, output: &mut CoreOutput) {
        let peers: Vec<CoreId> = self.peers.keys().copied().collect();
        for core in peers {
            self.ask(core, output);
        }
    }

    /// Asks one peer, if the recovering core needs its reports and does not have all of them yet.
    pub fn ask(&mut self, to: CoreId, output: &mut CoreOutput) {
        let Some(attempts) = self.peers.get_mut(&to) else {
            return;
        };
        if attempts.values().any(PartialAnswer::is_complete) {
            return;
        }
        let (table, attempt) = (self.table, self.next_attempt);
        self.next_attempt += 1;
        attempts.insert(attempt, PartialAnswer::default());
        if attempts.len() > ATTEMPTS_MAX {
            attempts.pop_first();
        }
        let message = match self.question {
            Question::Forgotten => PeerMessage::Recover { table, attempt },
            Question::Sealed => PeerMessage::AskSealed { table, attempt },
        };
        let after = Position(0);
        output.sends.push(PeerSend { to, after, message });
    }

    /// Records one item of an answer. Returns false if the answer is outdated.
    pub fn note_item(&mut self, from: CoreId, attempt: u64, item: (OperationId, usize)) -> bool {
        let answer = self.answer_mut(from, attempt);
        let listens = answer.is_some();
        if let Some(answer) = answer {
            answer.operations.insert(item);
        }
        listens
    }

    /// Records the end of an answer. Returns false if the answer is outdated.
    pub fn note_end(&mut self, from: CoreId, attempt: u64, count: u64) -> bool {
        let answer = self.answer_mut(from, attempt);
        let listens = answer.is_some();
        if let Some(answer) = answer {
            answer.count = Some(count);
        }
        listens
    }

    /// Returns whether every peer has reported completely.
    pub fn is_complete(&self) -> bool {
        let complete = |attempts: &BTreeMap<u64, PartialAnswer>| {
            attempts.values().any(PartialAnswer::is_complete)
        };
        self.peers.values().all(complete)
    }

    fn answer_mut(&mut self, from: CoreId, attempt: u64) -> Option<&mut PartialAnswer> {
        self.peers.get_mut(&from)?.get_mut(&attempt)
    }
}
