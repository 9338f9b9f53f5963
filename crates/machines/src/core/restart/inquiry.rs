//! One core asks others what they know, and takes each answer whole.
//!
//! Answers come as many messages and an end with their count. An answer counts on its own or not at
//! all, because what a peer has to report changes from question to question.

use alloc::collections::{BTreeMap, BTreeSet};

use protocol::identity::{CoreId, OperationId, Position};
use protocol::message::PeerMessage;

use crate::core::contract::{CoreOutput, PeerSend};

/// Questions to one peer whose answers are still listened to.
const ATTEMPTS_MAX: usize = 16;

/// The peers that were asked, and what has come back.
#[derive(Debug)]
pub(crate) struct Inquiry {
    question: fn(u64) -> PeerMessage,
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
    pub fn new(question: fn(u64) -> PeerMessage, peers: impl Iterator<Item = CoreId>) -> Inquiry {
        Inquiry {
            question,
            next_attempt: 1,
            peers: peers.map(|core| (core, BTreeMap::new())).collect(),
        }
    }

    /// Begins again, with these peers.
    pub fn restart(&mut self, peers: impl Iterator<Item = CoreId>) {
        self.peers = peers.map(|core| (core, BTreeMap::new())).collect();
    }

    /// Asks all peers that have not reported everything.
    pub fn ask_all(&mut self, output: &mut CoreOutput) {
        for (core, attempts) in &mut self.peers {
            ask(
                *core,
                attempts,
                (self.question, &mut self.next_attempt),
                output,
            );
        }
    }

    /// Asks one, if it is among them and has not reported everything.
    pub fn ask(&mut self, core: CoreId, output: &mut CoreOutput) {
        if let Some(attempts) = self.peers.get_mut(&core) {
            ask(
                core,
                attempts,
                (self.question, &mut self.next_attempt),
                output,
            );
        }
    }

    /// Notes one item of an answer. Returns false if it is not awaited any more.
    pub fn note_item(&mut self, from: CoreId, attempt: u64, item: (OperationId, usize)) -> bool {
        let answer = self.answer_mut(from, attempt);
        let listens = answer.is_some();
        if let Some(answer) = answer {
            answer.operations.insert(item);
        }
        listens
    }

    /// Notes the end of an answer. Returns false if it is not awaited any more.
    pub fn note_end(&mut self, from: CoreId, attempt: u64, count: u64) -> bool {
        let answer = self.answer_mut(from, attempt);
        let listens = answer.is_some();
        if let Some(answer) = answer {
            answer.count = Some(count);
        }
        listens
    }

    /// Returns whether every peer has reported everything.
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

fn ask(
    to: CoreId,
    attempts: &mut BTreeMap<u64, PartialAnswer>,
    (question, next_attempt): (fn(u64) -> PeerMessage, &mut u64),
    output: &mut CoreOutput,
) {
    if attempts.values().any(PartialAnswer::is_complete) {
        return;
    }
    let attempt = *next_attempt;
    *next_attempt += 1;
    attempts.insert(attempt, PartialAnswer::default());
    if attempts.len() > ATTEMPTS_MAX {
        attempts.pop_first();
    }
    output.sends.push(PeerSend {
        to,
        after: Position(0),
        message: question(attempt),
    });
}
