//! Why a batch goes where it goes, as in the notices to clients that have asked for them.

use std::fmt;

use pg_wire::report::Report;
use proxy_core::freshness::{ReplicaId, Tsid};
use proxy_core::session::BatchFault;

/// Why a batch goes where it goes.
#[derive(Debug)]
pub struct Why {
    /// Without what differs from time to time.
    pub reason: &'static str,
    pub(super) detail: Detail,
}

/// The explanation for people.
#[derive(Debug)]
pub(super) enum Detail {
    /// The primary, without an explanation.
    Nothing,
    /// A replica.
    Replica {
        id: ReplicaId,
        need: Tsid,
        applied: Tsid,
    },
    /// A replica, and nothing newer is needed than what its transaction has there.
    Snapshot(ReplicaId),
    /// The primary, since no replica has this.
    NoneHas(Tsid),
    /// The primary, since the replica returned this error.
    Refused(Box<Report>),
}

impl Why {
    /// Returns the primary, for this reason.
    pub fn primary(reason: &'static str) -> Why {
        let detail = Detail::Nothing;
        Why { reason, detail }
    }

    /// Returns the replica where its transaction has its snapshot.
    pub(super) fn snapshot(id: ReplicaId) -> Why {
        Why {
            reason: "its transaction has its snapshot there",
            detail: Detail::Snapshot(id),
        }
    }

    /// Returns the primary, since the read has failed at the replica, or what it has seen there
    /// does not count.
    pub fn failed(fault: &BatchFault) -> Why {
        match fault {
            BatchFault::Torn => Why::torn(),
            BatchFault::Error(report) => Why {
                reason: "it failed at the replica",
                detail: Detail::Refused(Box::new(report.clone())),
            },
        }
    }

    /// Returns the primary, since what was seen at the replica may be torn.
    pub fn torn() -> Why {
        Why::primary("commits under way together may be seen in another order there")
    }

    /// Returns the primary, since the replica cannot be reached.
    pub fn unreachable(report: Report) -> Why {
        Why {
            reason: "the replica cannot be reached",
            detail: Detail::Refused(Box::new(report)),
        }
    }
}

/// For people.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Detail::Nothing => write!(f, "the primary, {}", self.reason),
            Detail::Replica { id, need, applied } => {
                write!(f, "replica {}, it has {applied}, needed is {need}", id.0)
            }
            Detail::Snapshot(id) => write!(f, "replica {}, {}", id.0, self.reason),
            Detail::NoneHas(need) => write!(f, "the primary, no replica has {need} yet"),
            Detail::Refused(report) => write!(f, "the primary, since {report}"),
        }
    }
}
