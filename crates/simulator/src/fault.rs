//! The kinds of faults, and how often each happens in a run.

use crate::plan::Faults;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A connection breaks.
    Break,
    /// The messages from one process to another are delayed for a while.
    Clog,
    /// A process dies.
    Crash,
    /// All processes die.
    PowerCut,
    /// A process is suspended.
    Pause,
    /// A wall clock steps.
    ClockStep,
    /// The coordinator restarts.
    Coordinator,
    /// A process dies and stays down for long.
    Loss,
    /// The coordinator ends the earlier epochs of a table.
    Seal,
    /// An operator drains a server, or ends its drain.
    Drain,
    /// A copy is added to the table or dropped.
    Copies,
    /// A server stops cleanly.
    Stop,
    /// All servers are restarted in order.
    Rolling,
    /// The coordinator is suspended, and another coordinator replaces it.
    Deposition,
    /// A client dies.
    Client,
    /// A disk is full.
    Full,
    /// The coordinator starts after it died.
    CoordinatorStarts,
    /// Another coordinator replaces the suspended one.
    Succession,
}

impl Fault {
    /// The faults that are scheduled at a rate of their own.
    pub const ALL: &[Fault] = &[
        Fault::Break,
        Fault::Clog,
        Fault::Crash,
        Fault::PowerCut,
        Fault::Pause,
        Fault::ClockStep,
        Fault::Coordinator,
        Fault::Loss,
        Fault::Seal,
        Fault::Drain,
        Fault::Copies,
        Fault::Stop,
        Fault::Rolling,
        Fault::Client,
        Fault::Full,
        Fault::Deposition,
    ];

    /// Returns the mean time between two faults of this kind; 0 if the seed has no such faults.
    pub fn every_us(self, faults: &Faults) -> u64 {
        match self {
            Fault::Break => faults.break_every_us,
            Fault::Clog => faults.clog_every_us,
            Fault::Crash => faults.crash_every_us,
            Fault::PowerCut => faults.power_cut_every_us,
            Fault::Pause => faults.pause_every_us,
            Fault::ClockStep => faults.clock_step_every_us,
            Fault::Coordinator => faults.coordinator_every_us,
            Fault::Loss => faults.loss_every_us,
            Fault::Seal => faults.seal_every_us,
            Fault::Drain => faults.drain_every_us,
            Fault::Copies => faults.copies_every_us,
            Fault::Stop => faults.stop_every_us,
            Fault::Rolling => faults.rolling_every_us,
            Fault::Client => faults.client_every_us,
            Fault::Full => faults.full_every_us,
            Fault::Deposition => faults.deposition_every_us,
            Fault::CoordinatorStarts | Fault::Succession => 0,
        }
    }
}
