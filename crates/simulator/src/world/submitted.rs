//! The operations that clients have submitted, and their possible ends.

use session::SessionFailure;

/// An operation that a client waits for.
#[derive(Clone, Copy, Debug)]
pub struct SubmittedOperation {
    /// The operation's position in the history; none for a stale read.
    pub history: Option<usize>,
    /// The position of the operation's table in the list of tables.
    pub table: usize,
}

/// The part of a submitted transaction that concerns one group.
#[derive(Clone, Copy, Debug)]
pub struct GroupPart {
    /// Its position in the history.
    pub history: usize,
    /// The position of its table in the list of tables.
    pub table: usize,
    /// The number of its writes.
    pub writes: usize,
}

/// Checks that a valid operation of a client that does not crash may end with this failure.
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
