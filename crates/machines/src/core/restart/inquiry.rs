//! One core asks others what they know, and hears each of them whole.
//!
//! Answers come as many messages and an end that says how many they were. An answer counts on its
//! own or not at all, because what a peer has to tell changes from question to question.

use alloc::collections::{BTreeMap, BTreeSet};

use protocol::identity::{CoreId, OperationId, Position};
use protocol::message::PeerMessage;

use crate::core::contract::{CoreOutput, PeerSend};

/// Questions to one peer whose answers are still listened to.
const ATTEMPTS_MAX: usize = 16;

/// Who was asked, and what has come back.
#[derive(Debug)]
pub(crate) struct Inquiry {
    question: fn(u64) -> PeerMessage,
    next_attempt: u64,
    /// By peer, by question.
    peers: BTreeMap<CoreId, BTreeMap<u64, Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    operations: BTreeSet<(OperationId, usize)>,
    count: Option<u64>,
}

impl Heard {
    fn is_complete(&self) -> bool {
        self.count
            .is_some_and(|count| self.operations.len() as u64 >= count)
    }
}

impl Inquiry {
    /// Nobody has been asked yet.
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

    /// Asks all that have not told everything.
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

    /// Asks one, if it is among them and has not told everything.
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

    /// One item of an answer has come; false if nobody listens to it any more.
    pub fn hear(&mut self, from: CoreId, attempt: u64, item: (OperationId, usize)) -> bool {
        let heard = self.heard(from, attempt);
        let listens = heard.is_some();
        if let Some(heard) = heard {
            heard.operations.insert(item);
        }
        listens
    }

    /// The end of an answer has come; false if nobody listens to it any more.
    pub fn hear_end(&mut self, from: CoreId, attempt: u64, count: u64) -> bool {
        let heard = self.heard(from, attempt);
        let listens = heard.is_some();
        if let Some(heard) = heard {
            heard.count = Some(count);
        }
        listens
    }

    /// Whether every peer has told everything.
    pub fn is_complete(&self) -> bool {
        let complete = |attempts: &BTreeMap<u64, Heard>| attempts.values().any(Heard::is_complete);
        self.peers.values().all(complete)
    }

    fn heard(&mut self, from: CoreId, attempt: u64) -> Option<&mut Heard> {
        self.peers.get_mut(&from)?.get_mut(&attempt)
    }
}

fn ask(
    to: CoreId,
    attempts: &mut BTreeMap<u64, Heard>,
    (question, next_attempt): (fn(u64) -> PeerMessage, &mut u64),
    output: &mut CoreOutput,
) {
    if attempts.values().any(Heard::is_complete) {
        return;
    }
    let attempt = *next_attempt;
    *next_attempt += 1;
    attempts.insert(attempt, Heard::default());
    if attempts.len() > ATTEMPTS_MAX {
        attempts.pop_first();
    }
    output.sends.push(PeerSend {
        to,
        after: Position(0),
        message: question(attempt),
    });
}
