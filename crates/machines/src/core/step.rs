//! The context that the handlers of one step share.

use protocol::identity::ClockReading;

use crate::core::contract::CoreOutput;

/// One step of the machine: when it happens, the tables that it reads and writes, and what is to
/// be done after it.
#[derive(Debug)]
pub(crate) struct Step<'a, T> {
    pub now: ClockReading,
    pub tables: &'a mut T,
    pub output: &'a mut CoreOutput,
}
