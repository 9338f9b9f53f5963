//! The reasons why a client cannot log in.

use std::io;

use pg_wire::report::{Report, Severity};

/// SQLSTATE: the client does not keep to the protocol.
const PROTOCOL_VIOLATION: &str = "08P01";

/// The reason why a login failed.
pub enum LoginFailure {
    /// The client gets this error.
    Reported(Report),
    /// The client is gone, or cannot be sent an error.
    Gone,
}

impl From<io::Error> for LoginFailure {
    fn from(_: io::Error) -> LoginFailure {
        LoginFailure::Gone
    }
}

impl From<Report> for LoginFailure {
    fn from(report: Report) -> LoginFailure {
        LoginFailure::Reported(report.fatal())
    }
}

/// Returns the error for a client that violates the protocol.
pub fn violation(what: impl Into<String>) -> LoginFailure {
    Report::new(Severity::Fatal, PROTOCOL_VIOLATION, what).into()
}
