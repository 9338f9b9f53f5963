//! The reason for the route of a batch, as in the notices to clients.

use std::fmt;

use pg_wire::report::Report;
use proxy_core::freshness::{ReplicaId, Tsid};
use proxy_core::session::BatchFault;

/// The reason for the route of a batch.
#[derive(Debug)]
pub struct RoutingReason {
    /// The fixed part of the reason, without positions.
    pub summary: &'static str,
    pub(super) detail: ReasonDetail,
}

/// The variable part of the reason, for people.
#[derive(Debug)]
pub(super) enum ReasonDetail {
    /// The primary, without further details.
    Nothing,
    /// A replica.
    Replica {
        id: ReplicaId,
        need: Tsid,
        applied: Tsid,
    },
    /// A replica at which the transaction has its snapshot. The statement needs no newer commits.
    Snapshot(ReplicaId),
    /// The primary, because no replica has this TSID.
    NoneHas(Tsid),
    /// The primary, because the replica returned this error.
    Refused(Box<Report>),
}

impl RoutingReason {
    /// Returns a reason for running statements on the primary.
    pub fn primary(summary: &'static str) -> RoutingReason {
        let detail = ReasonDetail::Nothing;
        RoutingReason { summary, detail }
    }

    /// Returns the reason for statements of a transaction that has its snapshot at this replica.
    pub(super) fn snapshot(id: ReplicaId) -> RoutingReason {
        RoutingReason {
            summary: "its transaction has its snapshot there",
            detail: ReasonDetail::Snapshot(id),
        }
    }

    /// Returns the reason for a read that failed at a replica, or whose snapshot there was torn.
    pub fn failed(fault: &BatchFault) -> RoutingReason {
        match fault {
            BatchFault::Torn => RoutingReason::torn(),
            BatchFault::Error(report) => RoutingReason {
                summary: "it failed at the replica",
                detail: ReasonDetail::Refused(Box::new(report.clone())),
            },
        }
    }

    /// Returns the reason for a read whose snapshot at a replica may be torn.
    pub fn torn() -> RoutingReason {
        RoutingReason::primary("commits under way together may be seen in another order there")
    }

    /// Returns the reason for a read whose replica cannot be reached.
    pub fn unreachable(report: Report) -> RoutingReason {
        RoutingReason {
            summary: "the replica cannot be reached",
            detail: ReasonDetail::Refused(Box::new(report)),
        }
    }
}

/// For people.
impl fmt::Display for RoutingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            ReasonDetail::Nothing => write!(f, "the primary, {}", self.summary),
            ReasonDetail::Replica { id, need, applied } => {
                write!(f, "replica {}, it has {applied}, needed is {need}", id.0)
            }
            ReasonDetail::Snapshot(id) => write!(f, "replica {}, {}", id.0, self.summary),
            ReasonDetail::NoneHas(need) => write!(f, "the primary, no replica has {need} yet"),
            ReasonDetail::Refused(report) => write!(f, "the primary, since {report}"),
        }
    }
}
