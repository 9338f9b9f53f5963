//! The machine of a core, which holds partitions, as a deterministic state machine.
//!
//! Every machine has one contract: `step(now, input, &mut output)`. Inputs are closed enums,
//! outputs are data. The same code runs in the server and in the simulator. This crate does no I/O,
//! reads no clock and draws no random numbers: the driver passes time and seeds as inputs.
//!
//! It must not know sockets, files, threads, or the order in which a driver serves them. Of the
//! coordinator it knows only the messages of `protocol`.
#![no_std]

extern crate alloc;

pub mod core;
