//! The interface of sessions to an SQL parser: the state that a statement may leave in the session
//! that runs it.

use alloc::string::String;

use pg_wire::framing::WireMessage;
use pg_wire::message;

/// The state that a text leaves in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEffect {
    /// Nothing once its transaction has ended: the next one may run on another connection.
    Nothing,
    /// It reads the state of the session's last use of a sequence: right only on that connection.
    ReadsSequenceState,
    /// Settings have their initial values of the session again, at most.
    ResetsSettings,
    /// Settings that concern only the session that has them, see [`pg_wire::settings::is_own`]: it
    /// may go on with any server that has the same.
    SetsSettings,
    /// Other settings, temporary tables, locks, cursors, listening, or unknown state: its session
    /// keeps the connection.
    KeepsSession,
}

/// Reads texts of simple queries and prepared statements, which may hold several statements.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// Returns the state that a text may leave behind.
    pub effect: fn(&[u8]) -> SessionEffect,
    /// Returns the savepoint that a text goes back to by its first statement, if that is ROLLBACK
    /// TO.
    pub rollback_to: fn(&[u8]) -> Option<String>,
    /// Returns how many statements a text has, or what is wrong with it.
    pub statements: fn(&[u8]) -> Result<usize, String>,
}

impl Grammar {
    /// Returns the effect of a simple query's message.
    pub fn effect_of_query(self, message: WireMessage<'_>) -> SessionEffect {
        match message::split_string(message.body()) {
            Ok((text, _)) if message.is_whole() => (self.effect)(text),
            _ => SessionEffect::KeepsSession,
        }
    }

    /// Returns the effect of a Parse message's text.
    pub(crate) fn effect_of_parse(self, body: &[u8]) -> SessionEffect {
        match message::split_string(body) {
            Ok((text, _)) => (self.effect)(text),
            Err(_) => SessionEffect::KeepsSession,
        }
    }
}

impl SessionEffect {
    /// Returns the combined effect of both.
    #[must_use]
    pub fn and(self, other: SessionEffect) -> SessionEffect {
        match (self, other) {
            (effect, SessionEffect::Nothing) | (SessionEffect::Nothing, effect) => effect,
            (effect, other) if effect == other => effect,
            (SessionEffect::SetsSettings, SessionEffect::ResetsSettings)
            | (SessionEffect::ResetsSettings, SessionEffect::SetsSettings) => {
                SessionEffect::SetsSettings
            }
            _ => SessionEffect::KeepsSession,
        }
    }

    /// Returns whether it leaves only settings by which sessions may share servers.
    pub fn is_of_settings(self) -> bool {
        matches!(
            self,
            SessionEffect::ResetsSettings | SessionEffect::SetsSettings
        )
    }
}
