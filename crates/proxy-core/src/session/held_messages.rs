//! The messages of a batch that is incomplete or waits for a server.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{HELD_LEN_MAX, PreparedStatement};
use crate::grammar::SessionEffect;
use pg_wire::framing::WireMessage;

/// Messages of a batch, in the order in which the client sent them.
#[derive(Debug, Default)]
pub(super) struct HeldMessages {
    messages: Vec<HeldMessage>,
    /// Bytes of their frames.
    length: usize,
    /// Bytes of the last message that are still due.
    rest: usize,
}

/// A message that is held.
#[derive(Debug)]
pub(super) struct HeldMessage {
    pub frame: Bytes,
    pub known: HeldMessageContent,
}

/// The known content of a message that may go to a server.
#[derive(Clone, Debug, Default)]
pub(super) enum HeldMessageContent {
    /// Nothing.
    #[default]
    Nothing,
    /// The state that a simple query may leave behind.
    Effect(SessionEffect),
    /// The statement of a Parse message.
    Statement(Arc<PreparedStatement>),
}

impl HeldMessageContent {
    pub fn effect(&self) -> Option<SessionEffect> {
        match self {
            HeldMessageContent::Effect(effect) => Some(*effect),
            HeldMessageContent::Nothing | HeldMessageContent::Statement(_) => None,
        }
    }

    pub fn statement(&self) -> Option<&Arc<PreparedStatement>> {
        match self {
            HeldMessageContent::Statement(statement) => Some(statement),
            HeldMessageContent::Nothing | HeldMessageContent::Effect(_) => None,
        }
    }
}

impl HeldMessages {
    /// Returns the complete messages of a batch that must run again after a replica. They leave no
    /// state behind, because such messages do not run there.
    pub fn back(frames: Vec<Bytes>) -> HeldMessages {
        let length = frames.iter().map(Bytes::len).sum();
        let is_simple = frames.first().is_some_and(|frame| frame[0] == b'Q');
        let known = match is_simple {
            true => HeldMessageContent::Effect(SessionEffect::Nothing),
            false => HeldMessageContent::Nothing,
        };
        let messages = frames.into_iter().map(|frame| HeldMessage {
            frame,
            known: known.clone(),
        });
        HeldMessages {
            messages: messages.collect(),
            length,
            rest: 0,
        }
    }

    pub fn push(&mut self, message: WireMessage<'_>, known: HeldMessageContent) {
        assert_eq!(self.rest, 0, "nothing gathers behind a part of a message");
        self.messages.push(HeldMessage {
            frame: Bytes::copy_from_slice(message.frame),
            known,
        });
        self.length += message.frame.len();
        self.rest = message.rest;
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns whether the batch needs a server now: it is complete, something in it needs an
    /// answer, or it is too long to be held.
    pub fn wants_server(&self) -> bool {
        let last = self.messages.last().map(|message| message.frame[0]);
        let is_end = matches!(last, Some(b'Q' | b'F' | b'S' | b'H'));
        is_end || self.length > HELD_LEN_MAX || self.rest > 0
    }

    /// Returns whether the batch may read data of COPY, which follows directly.
    pub fn may_copy(&self) -> bool {
        self.frames().any(|frame| frame[0] == b'E')
    }

    /// Returns whether every message that has begun to arrive is complete.
    pub fn has_whole_messages(&self) -> bool {
        self.rest == 0
    }

    pub fn messages(&self) -> &[HeldMessage] {
        &self.messages
    }

    pub fn frames(&self) -> impl DoubleEndedIterator<Item = &Bytes> + Clone {
        self.messages.iter().map(|message| &message.frame)
    }

    /// Drops messages from the front.
    pub fn drop_front(&mut self, count: usize) {
        let dropped = self.messages.drain(..count);
        self.length -= dropped.map(|message| message.frame.len()).sum::<usize>();
    }

    /// Returns whether this is exactly one complete simple query.
    pub fn is_query(&self) -> bool {
        matches!(&self.messages[..], [only] if only.frame[0] == b'Q') && self.rest == 0
    }

    /// Returns whether the last message ends the batch even if the batch fails. A query after
    /// extended messages does not: it is then skipped with them, up to a Sync that has not arrived.
    pub fn is_to_end(&self) -> bool {
        match &self.messages[..] {
            [only] => matches!(only.frame[0], b'Q' | b'F' | b'S'),
            more => more.last().is_some_and(|last| last.frame[0] == b'S'),
        }
    }

    /// Returns the messages, each with the number of its bytes that have not arrived.
    pub fn into_messages(self) -> impl Iterator<Item = (HeldMessage, usize)> {
        let last = self.messages.len().saturating_sub(1);
        let messages = self.messages.into_iter().enumerate();
        messages.map(move |(index, message)| match index == last {
            true => (message, self.rest),
            false => (message, 0),
        })
    }
}
