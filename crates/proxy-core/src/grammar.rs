//! The interface between sessions and an SQL parser. The parser determines which state a statement
//! may leave in its session.

use alloc::string::String;

use pg_wire::framing::WireMessage;
use pg_wire::message;

/// The state that a query string leaves in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEffect {
    /// No state after its transaction. The next transaction may use another connection.
    Nothing,
    /// It reads the state of the session's last use of a sequence, which only its own connection
    /// has.
    ReadsSequenceState,
    /// At most it resets settings to the session's initial values.
    ResetsSettings,
    /// It changes settings that concern only the session that has them, see
    /// [`pg_wire::settings::is_own`]. The session may use any server connection with the same
    /// settings.
    SetsSettings,
    /// It leaves other settings, temporary tables, locks, cursors, listening, or unknown state. Its
    /// session keeps the connection.
    KeepsSession,
}

/// The functions that parse the query strings of simple queries and prepared statements. A query
/// string may have several statements.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// Returns the state that a query string may leave in its session.
    pub effect: fn(&[u8]) -> SessionEffect,
    /// Returns the savepoint of a query string that begins with ROLLBACK TO.
    pub rollback_to: fn(&[u8]) -> Option<String>,
    /// Returns the number of statements in a query string, or the syntax error.
    pub statements: fn(&[u8]) -> Result<usize, String>,
}

impl Grammar {
    /// Returns the effect of a simple query.
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

    /// Returns whether the effect is only a change of settings with which sessions can share
    /// connections.
    pub fn is_of_settings(self) -> bool {
        matches!(
            self,
            SessionEffect::ResetsSettings | SessionEffect::SetsSettings
        )
    }
}
