//! The context that all handlers of one step share.

use protocol::identity::ClockReading;

use crate::core::contract::CoreOutput;

/// A step of the machine: its time, the tables that it reads and writes, and its output.
#[derive(Debug)]
pub(crate) struct Step<'a, T> {
    pub now: ClockReading,
    pub tables: &'a mut T,
    pub output: &'a mut CoreOutput,
}
