//! The PostgreSQL protocol, versions 3.0 and 3.2, as pure code: bytes in, bytes out.
//!
//! Messages that need not be understood pass through unchanged. Bytes of peers never cause a panic:
//! [`framing`] splits them into messages of bounded length, and [`message`] reads those. Names and
//! literals are quoted in [`quoting`], errors are written by [`report`].
//!
//! This crate must not know sockets, timers, passwords, or the meaning of statements.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod framing;
pub mod message;
pub mod quoting;
pub mod report;
pub mod settings;
pub mod startup;

use alloc::string::String;
use core::fmt;

/// A peer's bytes are not PostgreSQL's protocol; the connection cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl Malformed {
    /// Makes one with the fault.
    pub fn new(what: impl Into<String>) -> Malformed {
        Malformed(what.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Malformed {}
