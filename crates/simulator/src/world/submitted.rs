//! Operations that clients have submitted, and how they may end.

use session::SessionFailure;

/// An operation that a client waits for.
#[derive(Clone, Copy, Debug)]
pub struct SubmittedOperation {
    /// Where it is in the history; none is a stale read.
    pub history: Option<usize>,
    /// The place of its table.
    pub table: usize,
}

/// Checks that a valid operation of a client that never fails can end so.
pub fn is_possible_failure(failure: &SessionFailure) -> Result<(), String> {
    match failure {
        SessionFailure::Deadline {
            last: None | Some(_),
        }
        | SessionFailure::Full
        | SessionFailure::Lost { .. }
        | SessionFailure::DiskFull { .. } => Ok(()),
        other => Err(format!("a good operation ended with: {other}")),
    }
}
