//! Encodes and decodes the PostgreSQL protocol, versions 3.0 and 3.2, as pure code without I/O.
//!
//! Messages that need not be understood pass through unchanged. Bytes of peers never cause a panic.
//!
//! - [`startup`] reads a client's packets before its login, [`framing`] cuts everything after it
//!   into messages of bounded length, and [`message`] reads and writes the bodies of messages.
//! - [`frontend`] reads a client's messages whole, and [`backend`] writes a server's, for a process
//!   that is a server itself.
//! - [`report`] reads and writes errors and notices.
//! - [`quoting`] quotes names and literals in SQL.
//! - [`settings`] knows which settings concern only the session that has them.
//!
//! This crate must not know sockets, timers, passwords, or the meaning of statements.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod backend;
pub mod framing;
pub mod frontend;
pub mod message;
pub mod quoting;
pub mod report;
pub mod settings;
pub mod startup;

use alloc::string::String;
use core::fmt;

/// A peer's bytes are not PostgreSQL's protocol. The caller decides whether to keep the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl Malformed {
    /// Returns the error with this explanation.
    pub fn new(explanation: impl Into<String>) -> Malformed {
        Malformed(explanation.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Malformed {}
