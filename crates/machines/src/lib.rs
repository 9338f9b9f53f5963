//! The machine of a core, which holds partitions.
//!
//! Every machine has one contract: `step(now, input, &mut output)`. Inputs are closed enums,
//! outputs are data; the same code runs in the server and in the simulator. This crate does no
//! I/O, reads no clock and draws no random numbers: time and seeds come in with the input.
//!
//! It must not know about sockets, files, threads or the order in which a driver serves them. Of
//! the coordinator it knows the messages of `protocol`.
#![no_std]

extern crate alloc;

pub mod core;
