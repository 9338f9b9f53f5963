//! Deferred transactions: which transactions the session may defer, and the state of a deferred
//! one.

use alloc::string::String;

use pg_wire::report::{Report, Severity};

/// SQLSTATE: nothing more runs in the transaction.
const IN_FAILED_TRANSACTION: &str = "25P02";

/// The scope of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotScope {
    /// One per statement: READ COMMITTED.
    OfStatements,
    /// One for the whole transaction: REPEATABLE READ.
    OfTransaction,
}

/// Which transactions need not begin on a server.
#[derive(Debug)]
pub(super) struct Deferral {
    /// The snapshots of transactions that do not ask for others; none where all must.
    usual: Option<SnapshotScope>,
    /// Whether transactions with one snapshot for all of their statements take it on the primary.
    keeps_snapshots: bool,
}

impl Deferral {
    pub fn new(usual: Option<SnapshotScope>) -> Deferral {
        Deferral {
            usual,
            keeps_snapshots: false,
        }
    }

    /// Sets the snapshots of transactions that do not request others.
    pub fn change(&mut self, usual: Option<SnapshotScope>) {
        self.usual = usual;
    }

    /// Makes later transactions with one snapshot of this session take their snapshot on the
    /// primary.
    pub fn keep_snapshots(&mut self) {
        self.keeps_snapshots = true;
    }

    /// Returns the snapshots of a transaction that requests these, or none, if it need not begin on
    /// a server.
    pub fn snapshots(
        &self,
        asked: Option<SnapshotScope>,
        reads_only: bool,
    ) -> Option<SnapshotScope> {
        let snapshots = asked.unwrap_or(self.usual?);
        let may_defer = match snapshots {
            SnapshotScope::OfStatements => true,
            SnapshotScope::OfTransaction => reads_only && !self.keeps_snapshots,
        };
        may_defer.then_some(snapshots)
    }

    /// Returns whether the session may defer transactions.
    pub fn is_possible(&self) -> bool {
        self.usual.is_some()
    }
}

/// A transaction on no server.
#[derive(Debug)]
pub(super) struct DeferredBlock {
    /// The query string that began the transaction.
    pub begin: String,
    pub snapshots: SnapshotScope,
    /// Whether a statement of the transaction has failed. Then the transaction can only end.
    pub is_failed: bool,
    /// Why its server is lost, if that is still to be reported to the client.
    lost: Option<Report>,
}

impl DeferredBlock {
    /// Returns a transaction that this query string begins.
    pub fn begun(text: &[u8], snapshots: SnapshotScope) -> DeferredBlock {
        DeferredBlock {
            begin: String::from_utf8_lossy(text).into_owned(),
            snapshots,
            is_failed: false,
            lost: None,
        }
    }

    /// Returns a transaction that has lost the replica with its snapshot. The client gets the error
    /// with the next batch, unless it waits for an answer.
    pub fn lost(report: &Report) -> DeferredBlock {
        DeferredBlock {
            begin: String::new(),
            snapshots: SnapshotScope::OfTransaction,
            is_failed: true,
            lost: Some(report.clone()),
        }
    }

    /// Records that the client got an error.
    pub fn fails(&mut self) {
        self.is_failed = true;
        self.lost = None;
    }

    /// Returns the error for the next statement of a failed transaction; none if it has not failed.
    pub fn failure(&self) -> Option<Report> {
        let lost = || self.lost.clone().unwrap_or_else(in_failed_transaction);
        self.is_failed.then(lost)
    }

    /// Returns whether the transaction has failed, and the client got the error.
    pub fn is_reported(&self) -> bool {
        self.is_failed && self.lost.is_none()
    }
}

/// Returns the error of a statement in a failed transaction.
pub(super) fn in_failed_transaction() -> Report {
    let text = "current transaction is aborted, commands ignored until end of transaction block";
    Report::new(Severity::Error, IN_FAILED_TRANSACTION, text)
}
