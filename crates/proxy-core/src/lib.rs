//! Makes the decisions of the proxy, as pure code: which replica is fresh enough for a read, and
//! how a session handles each message.
//!
//! - [`freshness`] holds the pending and finished commits, and the position of each replica.
//! - [`routing`] decides where statements run, by their [`touched`] tables and the [`writes`] of
//!   their transaction.
//! - [`session`] is the machine between one client and the server connections that serve it.
//! - [`server`] is the state of such a connection. [`names`] parses commands about prepared
//!   statements, and [`description`] has the types of these statements. [`grammar`] is the
//!   interface to an SQL parser.
//!
//! This crate must not know sockets, clocks, threads, or the grammar of SQL. They are passed in as
//! values and functions.

#![no_std]

extern crate alloc;
#[cfg(any(test, feature = "planted"))]
extern crate std;

pub mod description;
pub mod freshness;
pub mod grammar;
pub mod names;
pub mod planted;
pub mod routing;
pub mod server;
pub mod session;
pub mod touched;
pub mod writes;
