//! The data that the parts of Replex exchange and store: identities, messages, frames,
//! configurations, expressions, operations, log records, and their encodings.
//!
//! This crate does no I/O, reads no clock and draws no random numbers. It must not know how a
//! machine decides: the machines of servers are in `machines` and `coordinator`, that of a client
//! in `session`. Their rules are in docs/rules.md, and [`planted`] lists how each rule can be
//! broken.
#![no_std]

extern crate alloc;

pub mod change_log;
pub mod codec;
pub mod configuration;
pub mod expression;
pub mod frame;
pub mod identity;
pub mod message;
pub mod operation;
pub mod planted;
mod read;
pub mod record;
mod refusal;
mod snapshot;
pub mod state;
pub mod transaction;
mod transaction_outcome;
