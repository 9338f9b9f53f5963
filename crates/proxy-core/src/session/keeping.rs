//! Whether a session keeps its server, and what its statements may have changed there.

use crate::server::Turn;

/// What statements may have changed since it was last known what settings the session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing.
    Nothing,
    /// Some are again what they were when the session began, at most.
    Reset,
    /// Some are anything.
    Set,
    /// All are again what they were when the session began.
    Discarded,
}

/// Whether a session gives its server back between transactions.
#[derive(Debug)]
pub(super) enum Keeping {
    /// It does. Its statements may have changed this.
    Shared(Changes),
    /// It is pinned: it keeps the server until it ends.
    Kept {
        /// Since when the server knows statements by the client's names, if it does.
        own_names: Option<Turn>,
    },
}

impl Keeping {
    pub fn is_kept(&self) -> bool {
        matches!(self, Keeping::Kept { .. })
    }

    /// Pins the session, if it is not.
    pub fn keep(&mut self) {
        if !self.is_kept() {
            *self = Keeping::Kept { own_names: None };
        }
    }

    pub fn own_names(&self) -> Option<Turn> {
        match self {
            Keeping::Kept { own_names } => *own_names,
            Keeping::Shared(_) => None,
        }
    }

    /// Notes that the server knows statements by the client's names from now on, and keeps it.
    pub fn give_own_names(&mut self) {
        let own_names = Some(Turn::now());
        *self = Keeping::Kept { own_names };
    }

    /// Notes that the server knows statements by the names that sessions share, after all.
    pub fn share_names(&mut self) {
        if let Keeping::Kept { own_names } = self {
            *own_names = None;
        }
    }
}
