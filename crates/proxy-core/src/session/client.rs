//! The state that a session has for its client, whichever server is attached.

use super::PinningPolicy;
use super::deferral::Deferral;
use super::pin_state::{PinState, SettingChanges};
use super::settings::{ClientParameters, ClientSettings};
use super::statements::ClientStatements;
use crate::grammar::Grammar;

/// The state that outlives the phases of a session.
#[derive(Debug)]
pub(super) struct ClientState {
    /// The server process that was reported to the client.
    pub process: u32,
    /// How statements are read.
    pub grammar: Grammar,
    pub pinning: PinningPolicy,
    pub statements: ClientStatements,
    pub parameters: ClientParameters,
    pub settings: ClientSettings,
    pub deferral: Deferral,
}

impl ClientState {
    /// Returns whether the session keeps any server that it gets.
    pub fn is_pinned(&self) -> bool {
        self.pinning == PinningPolicy::Always
    }

    /// Returns whether it keeps a server that it has just got.
    pub fn keeping(&self) -> PinState {
        match self.pinning {
            PinningPolicy::WhenNeeded => PinState::Shared(SettingChanges::Nothing),
            PinningPolicy::Always => PinState::Kept { own_names: None },
        }
    }
}
