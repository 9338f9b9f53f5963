//! Why a batch goes where it goes, as clients are told that have asked for it.

use std::fmt;

use crate::manager::{ExtensionId, Tsid};
use crate::wire::report::Report;
use crate::wire::session::Fault;

/// Why a batch goes where it goes.
#[derive(Debug)]
pub struct Why {
    /// Without what differs from time to time.
    pub reason: &'static str,
    pub(super) detail: Detail,
}

/// What is said of it to people.
#[derive(Debug)]
pub(super) enum Detail {
    /// The Primary, and nothing else is to be said.
    Nothing,
    /// An Extension.
    Extension {
        id: ExtensionId,
        need: Tsid,
        applied: Tsid,
    },
    /// An Extension, and nothing newer is needed than what its transaction has there.
    Snapshot(ExtensionId),
    /// The Primary, since no Extension has this.
    NoneHas(Tsid),
    /// The Primary, since the Extension said this.
    Refused(Box<Report>),
}

impl Why {
    /// The Primary, for this reason.
    pub fn primary(reason: &'static str) -> Why {
        let detail = Detail::Nothing;
        Why { reason, detail }
    }

    /// The Extension where its transaction has its snapshot.
    pub(super) fn snapshot(id: ExtensionId) -> Why {
        Why {
            reason: "its transaction has its snapshot there",
            detail: Detail::Snapshot(id),
        }
    }

    /// The Primary, since the read has failed at the Extension, or what it has seen there does not count.
    pub fn failed(fault: &Fault) -> Why {
        match fault {
            Fault::Torn => Why::torn(),
            Fault::Error(report) => Why {
                reason: "it failed at the Extension",
                detail: Detail::Refused(Box::new(report.clone())),
            },
        }
    }

    /// The Primary, since what was seen at the Extension may be torn.
    pub fn torn() -> Why {
        Why::primary("commits under way together may be seen in another order there")
    }

    /// The Primary, since the Extension cannot be reached.
    pub fn unreachable(report: Report) -> Why {
        Why {
            reason: "the Extension cannot be reached",
            detail: Detail::Refused(Box::new(report)),
        }
    }
}

/// For people.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Detail::Nothing => write!(f, "the Primary, {}", self.reason),
            Detail::Extension { id, need, applied } => {
                write!(f, "Extension {}, it has {applied}, needed is {need}", id.0)
            }
            Detail::Snapshot(id) => write!(f, "Extension {}, {}", id.0, self.reason),
            Detail::NoneHas(need) => write!(f, "the Primary, no Extension has {need} yet"),
            Detail::Refused(report) => write!(f, "the Primary, since {report}"),
        }
    }
}
