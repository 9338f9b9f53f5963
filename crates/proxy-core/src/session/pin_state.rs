//! Records whether a session is pinned to its server, and which settings its statements may have
//! changed there.

use crate::server::PreparationNumber;

/// The settings that statements may have changed since the session's settings were last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingChanges {
    /// None.
    Nothing,
    /// At most, some have their initial values of the session again.
    Reset,
    /// Some may have any value.
    Set,
    /// All have their initial values of the session again.
    Discarded,
}

/// Whether a session returns its server between transactions.
#[derive(Debug)]
pub(super) enum PinState {
    /// It does. Its statements may have changed these settings.
    Shared(SettingChanges),
    /// It is pinned: it keeps the server until it ends.
    Kept {
        /// Since when the server knows statements by the client's names, if it does.
        own_names: Option<PreparationNumber>,
    },
}

impl PinState {
    pub fn is_kept(&self) -> bool {
        matches!(self, PinState::Kept { .. })
    }

    /// Pins the session.
    pub fn keep(&mut self) {
        if !self.is_kept() {
            *self = PinState::Kept { own_names: None };
        }
    }

    pub fn own_names(&self) -> Option<PreparationNumber> {
        match self {
            PinState::Kept { own_names } => *own_names,
            PinState::Shared(_) => None,
        }
    }

    /// Records that the server now has statements under the client's names, so that the session
    /// keeps it.
    pub fn give_own_names(&mut self) {
        let own_names = Some(PreparationNumber::next());
        *self = PinState::Kept { own_names };
    }

    /// Records that the server has statements under the names that sessions share, after all.
    pub fn share_names(&mut self) {
        if let PinState::Kept { own_names } = self {
            *own_names = None;
        }
    }
}
