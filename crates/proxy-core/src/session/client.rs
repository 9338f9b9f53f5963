//! What a session knows of its client, whichever server is attached.

use super::Pinning;
use super::block::Snapshots;
use super::changes::{Changes, Keeping};
use super::settings::{ClientParameters, ClientSettings};
use super::statements::ClientStatements;
use crate::grammar::Grammar;

/// What outlives the phases of a session.
#[derive(Debug)]
pub(super) struct ClientState {
    /// The server process that was reported to the client.
    pub process: u32,
    /// How statements are read.
    pub grammar: Grammar,
    pub pinning: Pinning,
    pub statements: ClientStatements,
    pub parameters: ClientParameters,
    pub settings: ClientSettings,
    pub deferral: Deferral,
}

impl ClientState {
    /// Does the session keep any server that it gets?
    pub fn is_pinned(&self) -> bool {
        self.pinning == Pinning::Always
    }

    /// Returns whether it keeps a server that it has just got.
    pub fn keeping(&self) -> Keeping {
        match self.pinning {
            Pinning::WhenNeeded => Keeping::Shared(Changes::Nothing),
            Pinning::Always => Keeping::Kept { own_names: None },
        }
    }
}

/// Which transactions need not begin on a server.
#[derive(Debug)]
pub(super) struct Deferral {
    /// The snapshots of those that do not ask for others; none where all must.
    usual: Option<Snapshots>,
    /// Those with one snapshot for all of their statements take it on the primary.
    keeps_snapshots: bool,
}

impl Deferral {
    pub fn new(usual: Option<Snapshots>) -> Deferral {
        Deferral {
            usual,
            keeps_snapshots: false,
        }
    }

    /// Notes the snapshots from now on of transactions that do not ask for others.
    pub fn change(&mut self, usual: Option<Snapshots>) {
        self.usual = usual;
    }

    /// Has snapshots of whole transactions taken on the primary from now on.
    pub fn keep_snapshots(&mut self) {
        self.keeps_snapshots = true;
    }

    /// Returns the snapshots of a transaction that asks for these, or for none, and is declared to
    /// read only, if it need not begin on a server.
    pub fn snapshots(&self, asked: Option<Snapshots>, reads_only: bool) -> Option<Snapshots> {
        let snapshots = asked.unwrap_or(self.usual?);
        let may_defer = match snapshots {
            Snapshots::OfStatements => true,
            Snapshots::OfTransaction => reads_only && !self.keeps_snapshots,
        };
        may_defer.then_some(snapshots)
    }

    /// Does any transaction need not to begin on a server?
    pub fn is_possible(&self) -> bool {
        self.usual.is_some()
    }
}
