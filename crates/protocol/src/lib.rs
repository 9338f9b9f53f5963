//! The rules of Replex as pure state machines: partitions, coordinator, client session.
//!
//! Every machine has one contract: `step(now, input, &mut output)`. Inputs are closed enums,
//! outputs are data; the same code runs in the server and in the simulator. This crate does no
//! I/O, reads no clock and draws no random numbers: time and seeds come in with the input.
//!
//! It must not know about sockets, files, threads or the order in which a driver serves them.
#![no_std]

extern crate alloc;

pub mod codec;
pub mod configuration;
pub mod coordinator;
pub mod expression;
pub mod frame;
pub mod identity;
pub mod machine;
pub mod message;
pub mod operation;
pub mod planted;
pub mod record;
pub mod session;
