//! The PostgreSQL protocol, versions 3.0 and 3.2, as pure code: bytes in, bytes out.
//!
//! What need not be understood is passed on untouched. Bytes of peers never cause a panic: they
//! are cut into messages by [`cut`], which bounds their length, and read by [`message`].
//! [`session`] is the state machine between one client and the server connections that serve it.
//! Sockets, timers and passwords are elsewhere.

pub mod cut;
pub mod effect;
pub mod message;
pub mod names;
pub mod report;
pub mod server;
pub mod session;
pub mod settings;
pub mod startup;

use std::fmt;

/// What a peer sent is no PostgreSQL protocol; the connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl Malformed {
    /// With what is wrong.
    pub fn new(what: impl Into<String>) -> Malformed {
        Malformed(what.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}
