//! The part of a session's state that does not depend on the attached server.

use super::PinningPolicy;
use super::deferral::Deferral;
use super::pin_state::{PinState, SettingChanges};
use super::settings::{ClientParameters, ClientSettings};
use super::statements::ClientStatements;
use crate::grammar::Grammar;

/// The state of a session that does not depend on its phase.
#[derive(Debug)]
pub(super) struct ClientState {
    /// The process number that was reported to the client.
    pub process: u32,
    /// The functions that parse statements.
    pub grammar: Grammar,
    pub pinning: PinningPolicy,
    pub statements: ClientStatements,
    pub parameters: ClientParameters,
    pub settings: ClientSettings,
    pub deferral: Deferral,
}

impl ClientState {
    /// Returns whether the session keeps every server that it gets.
    pub fn is_pinned(&self) -> bool {
        self.pinning == PinningPolicy::Always
    }

    /// Returns the initial pin state of a session at a server that was just attached.
    pub fn keeping(&self) -> PinState {
        match self.pinning {
            PinningPolicy::WhenNeeded => PinState::Shared(SettingChanges::Nothing),
            PinningPolicy::Always => PinState::Kept { own_names: None },
        }
    }
}
